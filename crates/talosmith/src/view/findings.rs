//! What `doctor` found: a line a check, what is wrong with its hint below it, and a last line that sums up.

use std::io::{self, Write};

use engine::doctor::{Finding, Verdict};
use serde::Serialize;

use super::ink::{Ink, clean, count};
use super::window::beside;

/// For people.
///
/// # Errors
/// When writing fails.
pub fn human(w: &mut dyn Write, ink: Ink, caller: &str, found: &[Finding]) -> io::Result<()> {
    match caller.is_empty() {
        true => writeln!(w, "A cluster without Proxmox:\n")?,
        false => writeln!(w, "Proxmox, as {} sees it:\n", clean(caller))?,
    }
    let width = found.iter().map(|finding| finding.what.chars().count()).max().unwrap_or(0);
    for finding in found {
        let mark = match finding.verdict {
            Verdict::Ok => ink.green("ok   "),
            Verdict::Warning => ink.yellow("warn "),
            Verdict::Error => ink.red("fail "),
        };
        let what = clean(&finding.what);
        let space = " ".repeat(width.saturating_sub(what.chars().count()));
        let detail = beside(&clean(&finding.detail), 9 + width, ink.limit);
        let detail = if finding.verdict == Verdict::Ok { ink.dim(&detail) } else { detail };
        writeln!(w, "  {mark}{what}{space}  {detail}")?;
        for line in &finding.hint {
            writeln!(w, "        {}", clean(line))?;
        }
    }
    let of = |verdict: Verdict| found.iter().filter(|finding| finding.verdict == verdict).count();
    let sum = match (of(Verdict::Error), of(Verdict::Warning)) {
        (0, 0) => ink.green("Proxmox has everything that this file needs."),
        (0, some) => ink.yellow(&format!(
            "Proxmox has everything that this file needs, with {}.",
            count(some, "warning")
        )),
        (some, _) => ink.red(&format!("{} to fix first.", count(some, "problem"))),
    };
    writeln!(w, "\n{sum}")
}

#[derive(Serialize)]
struct Row<'a> {
    what: &'a str,
    verdict: &'static str,
    detail: &'a str,
    hint: &'a [String],
}

/// For programs.
pub fn json(caller: &str, found: &[Finding]) -> serde_json::Value {
    let row = |finding: &Finding| {
        let verdict = match finding.verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Error => "error",
        };
        serde_json::json!(Row { what: &finding.what, verdict, detail: &finding.detail, hint: &finding.hint })
    };
    serde_json::json!({"caller": caller, "findings": found.iter().map(row).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_finding_stands_out_with_its_commands() {
        let found = [
            Finding {
                what: "version".into(),
                verdict: Verdict::Ok,
                detail: "Proxmox VE 9.1.8".into(),
                hint: vec![],
            },
            Finding {
                what: "privileges at /vms".into(),
                verdict: Verdict::Error,
                detail: "missing: VM.Allocate (create and delete VMs)".into(),
                hint: vec!["pveum acl modify /vms --roles Talosmith --users 'a@pve'".into()],
            },
        ];
        let mut text = Vec::new();
        human(&mut text, Ink::PLAIN, "a@pve!t", &found).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @r"
        Proxmox, as a@pve!t sees it:

          ok   version             Proxmox VE 9.1.8
          fail privileges at /vms  missing: VM.Allocate (create and delete VMs)
                pveum acl modify /vms --roles Talosmith --users 'a@pve'

        1 problem to fix first.
        ");
    }
}
