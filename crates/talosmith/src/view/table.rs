//! Tables: columns as wide as their widest cell, and a window that is too narrow for them.

use std::io::{self, Write};

use super::ink::Ink;
use super::window::columns;

/// The narrowest that the last column gets before others are left out.
const NARROW: usize = 24;

/// Titles, underlined, rows, and an empty line behind. Cells are lists with commas: where the window is too narrow, those of
/// the last column go on below themselves; where that is not enough, the columns in `spare` are left out, in that order; what
/// is still too long is cut.
pub(super) fn table(
    w: &mut dyn Write,
    ink: Ink,
    titles: &[&str],
    rows: &[Vec<String>],
    spare: &[&str],
) -> io::Result<()> {
    let Some(end) = titles.len().checked_sub(1).filter(|_| !rows.is_empty()) else { return Ok(()) };
    let widest =
        |at: usize| rows.iter().map(|row| columns(&row[at])).chain([columns(titles[at])]).max().unwrap_or(0);
    let mut kept: Vec<(usize, usize)> = (0..end).map(|at| (at, widest(at))).collect();
    let before = |kept: &[(usize, usize)]| kept.iter().map(|(_, width)| width + 2).sum::<usize>();
    let least = widest(end).min(NARROW);
    for title in spare {
        if before(&kept) + least <= ink.limit {
            break;
        }
        kept.retain(|(at, _)| titles[*at] != *title);
    }
    let begin = before(&kept);
    let room = ink.limit.saturating_sub(begin).max(least);
    let line = |cell: &dyn Fn(usize) -> String, last: &str| {
        let mut line = String::new();
        for (at, width) in &kept {
            line.push_str(&format!("{:<width$}  ", cell(*at), width = *width));
        }
        line.push_str(last);
        console::truncate_str(line.trim_end(), ink.limit, "…").into_owned()
    };
    writeln!(w, "{}", ink.bold(&line(&|at| titles[at].to_owned(), titles[end])))?;
    let rule = "-".repeat(widest(end).min(room));
    writeln!(w, "{}", ink.dim(&line(&|at| "-".repeat(widest(at)), &rule)))?;
    for row in rows {
        let pieces = pieces(&row[end], room);
        let (first, more) =
            pieces.split_first().map_or(("", &[][..]), |(first, more)| (first.as_str(), more));
        writeln!(w, "{}", line(&|at| row[at].clone(), first))?;
        for piece in more {
            writeln!(w, "{:begin$}{piece}", "")?;
        }
    }
    writeln!(w)
}

/// A list with commas as lines of at most so many columns, each as full as can be.
fn pieces(list: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for item in list.split_inclusive(", ") {
        match lines.last_mut() {
            Some(line) if columns(line) + columns(item.trim_end()) <= room => line.push_str(item),
            _ => lines.push(item.to_owned()),
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(limit: usize) -> String {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let rows = [
            row([
                "pve1",
                "online",
                "64 GiB",
                "local (80 GiB free), local-lvm (180 GiB free), tank (3 TiB free)",
            ]),
            row(["pve2", "offline", "8 GiB", ""]),
        ];
        let mut text = Vec::new();
        let ink = Ink { limit, ..Ink::PLAIN };
        table(&mut text, ink, &["HOST", "STATE", "MEMORY", "DATASTORES"], &rows, &["MEMORY", "STATE"])
            .unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_wide_window_has_everything() {
        insta::assert_snapshot!(shown(usize::MAX), @"
        HOST  STATE    MEMORY  DATASTORES
        ----  -------  ------  ----------------------------------------------------------------
        pve1  online   64 GiB  local (80 GiB free), local-lvm (180 GiB free), tank (3 TiB free)
        pve2  offline  8 GiB
        ");
    }

    #[test]
    fn a_narrow_one_breaks_lists_then_leaves_out_columns_then_cuts() {
        insta::assert_snapshot!(shown(70), @"
        HOST  STATE    MEMORY  DATASTORES
        ----  -------  ------  -----------------------------------------------
        pve1  online   64 GiB  local (80 GiB free), local-lvm (180 GiB free),
                               tank (3 TiB free)
        pve2  offline  8 GiB
        ");
        insta::assert_snapshot!(shown(40), @"
        HOST  STATE    DATASTORES
        ----  -------  -------------------------
        pve1  online   local (80 GiB free),
                       local-lvm (180 GiB free),
                       tank (3 TiB free)
        pve2  offline
        ");
        let narrowest = shown(20);
        assert!(narrowest.lines().filter(|line| line.starts_with('p')).all(|line| columns(line) <= 20));
    }
}
