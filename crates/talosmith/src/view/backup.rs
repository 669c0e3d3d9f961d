//! Backups: what there is, what was found, and what goes.

use std::io::{self, Write};
use std::path::Path;

use engine::backup::{CardState, Entry, Name, Prunable, Seen, Verified};
use jiff::{SignedDuration, Timestamp};
use model::retention::Reason;
use serde_json::{Value, json};

use super::error::Problem;
use super::ink::{Ink, clean, count};
use super::table::table;

/// The backups of a cluster, for people.
///
/// # Errors
/// When writing fails.
pub fn list(w: &mut dyn Write, ink: Ink, folder: &Path, entries: &[Entry]) -> io::Result<()> {
    if entries.is_empty() {
        return writeln!(
            w,
            "There is no backup in {}. `talosmith backup create` makes one.",
            clean(&folder.display().to_string())
        );
    }
    let unknown = || "?".to_owned();
    let row = |entry: &Entry| {
        let card = entry.card();
        let versions = card.map(|card| &card.facts.versions);
        let version = |text: Option<&Option<String>>| text.cloned().flatten().unwrap_or_else(unknown);
        vec![
            entry.name.at.to_string(),
            size(entry.bytes),
            verified(entry),
            version(versions.map(|v| &v.talos)),
            version(versions.map(|v| &v.kubernetes)),
            version(versions.map(|v| &v.etcd)),
            clean(&entry.name.snapshot()).into_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    writeln!(w, "{} in {}\n", count(entries.len(), "backup"), clean(&folder.display().to_string()))?;
    let titles = ["TIME", "SIZE", "VERIFIED", "TALOS", "KUBERNETES", "ETCD", "FILE"];
    table(w, ink, &titles, &rows, &["ETCD", "KUBERNETES", "TALOS"])
}

fn verified(entry: &Entry) -> String {
    match (&entry.card, entry.verified_at()) {
        (_, Some(at)) => at.strftime("%Y-%m-%d").to_string(),
        (CardState::Read(_), None) => "no".to_owned(),
        (CardState::Missing, None) => "no card".to_owned(),
        (CardState::Unreadable(_), None) => "card unreadable".to_owned(),
    }
}

/// One backup, for programs.
pub fn entry(entry: &Entry) -> Value {
    let (card, problem) = match &entry.card {
        CardState::Read(card) => (json!(card), Value::Null),
        CardState::Missing => (Value::Null, json!("missing")),
        CardState::Unreadable(why) => (Value::Null, json!(why)),
    };
    json!({
        "name": entry.name.snapshot(),
        "time": entry.name.at,
        "bytes": entry.bytes,
        "verified_at": entry.verified_at(),
        "card": card,
        "card_problem": problem,
    })
}

/// A backup that was just made, for people.
///
/// # Errors
/// When writing fails.
pub fn made(w: &mut dyn Write, ink: Ink, folder: &Path, recipients: usize, entry: &Entry) -> io::Result<()> {
    let name = entry.name.snapshot();
    let path = folder.join(&name).display().to_string();
    writeln!(w, "{} {}", ink.green("Backup made:"), clean(&path))?;
    if let Some(card) = entry.card() {
        let (node, plain) = (&card.facts.etcd.node, size(card.snapshot.bytes));
        writeln!(
            w,
            "  {plain} of etcd from {}, {} as stored, encrypted to {}",
            clean(node),
            size(entry.bytes),
            count(recipients, "recipient")
        )?;
    }
    match entry.verified_at() {
        Some(_) => writeln!(w, "  verified: decrypted, decompressed and compared with its checksum"),
        None => writeln!(
            w,
            "  {}: no identity here opens it, so only what is stored was compared; `talosmith backup verify` verifies it",
            ink.yellow("not verified")
        ),
    }
}

/// A backup that is sound, for people.
///
/// # Errors
/// When writing fails.
pub fn sound(w: &mut dyn Write, ink: Ink, verified: &Verified) -> io::Result<()> {
    let name = verified.entry.name.snapshot();
    writeln!(w, "{} {}: {} of etcd", ink.green("ok  "), clean(&name), size(verified.snapshot.bytes))?;
    for warning in &verified.warnings {
        writeln!(w, "     {} {}", ink.yellow("warning:"), clean(warning))?;
    }
    Ok(())
}

/// The same for programs.
pub fn sound_json(verified: &Verified) -> Value {
    json!({
        "backup": entry(&verified.entry),
        "verified": true,
        "snapshot": { "bytes": verified.snapshot.bytes, "sha256": verified.snapshot.sha256 },
        "warnings": verified.warnings,
    })
}

/// A backup that is not sound, for people.
///
/// # Errors
/// When writing fails.
pub fn damaged(w: &mut dyn Write, ink: Ink, name: &Name, problem: &Problem) -> io::Result<()> {
    let why = problem.causes.get(1..).filter(|causes| !causes.is_empty()).unwrap_or(&problem.causes);
    writeln!(w, "{} {}: {}", ink.red("fail"), clean(&name.snapshot()), clean(&why.join(": ")))
}

/// The same for programs.
pub fn damaged_json(name: &Name, problem: &Problem) -> Value {
    json!({
        "backup": { "name": name.snapshot(), "time": name.at },
        "verified": false,
        "causes": problem.causes,
        "hint": problem.hint,
    })
}

/// What would be deleted, for people.
///
/// # Errors
/// When writing fails.
pub fn prunable(w: &mut dyn Write, ink: Ink, found: &Prunable) -> io::Result<()> {
    for (kept, why) in &found.keep {
        let why: Vec<&str> = why.iter().map(|why| reason(*why)).collect();
        writeln!(
            w,
            "  {} {}  {}",
            ink.green("keep  "),
            clean(&kept.name.snapshot()),
            ink.dim(&why.join(", "))
        )?;
    }
    for (ignored, why) in &found.ignored {
        writeln!(w, "  {} {}  {}", ink.yellow("ignore"), clean(&ignored.name.snapshot()), clean(why))?;
    }
    for deleted in &found.delete {
        writeln!(w, "  {} {}", ink.red("delete"), clean(&deleted.name.snapshot()))?;
    }
    for file in &found.leftovers {
        writeln!(w, "  {} {}  left by a run that was interrupted", ink.red("delete"), clean(file))?;
    }
    match (found.delete.len(), found.leftovers.len()) {
        (0, 0) => writeln!(w, "\nNothing to delete: {} kept.", count(found.keep.len(), "backup")),
        (deleted, _) => {
            writeln!(
                w,
                "\n{} to delete, {} kept.",
                count(deleted, "backup"),
                count(found.keep.len(), "backup")
            )
        }
    }
}

/// The same for programs.
pub fn prunable_json(found: &Prunable, deleted: bool) -> Value {
    let kept = |(entry, why): &(Entry, _)| json!({ "name": entry.name.snapshot(), "reasons": why });
    let ignored = |(entry, why): &(Entry, String)| json!({ "name": entry.name.snapshot(), "why": why });
    json!({
        "deleted": deleted,
        "delete": found.delete.iter().map(|entry| entry.name.snapshot()).collect::<Vec<_>>(),
        "keep": found.keep.iter().map(kept).collect::<Vec<_>>(),
        "ignored": found.ignored.iter().map(ignored).collect::<Vec<_>>(),
        "leftovers": found.leftovers,
    })
}

fn reason(why: Reason) -> &'static str {
    match why {
        Reason::Newest => "newest",
        Reason::NewestVerified => "newest verified",
        Reason::Hourly => "hourly",
        Reason::Daily => "daily",
        Reason::Weekly => "weekly",
    }
}

/// How the backups stand, as one line of `status`.
///
/// # Errors
/// When writing fails.
pub fn line(w: &mut dyn Write, ink: Ink, seen: &Seen) -> io::Result<()> {
    let text = match &seen.summary {
        Ok(summary) => match (summary.verified, summary.count) {
            (Some(verified), _) => {
                let newer = match summary.newest > Some(verified) {
                    true => ink.yellow("; a newer one is not verified: run `talosmith backup verify`"),
                    false => String::new(),
                };
                format!("the newest verified one is of {verified}, {} ago{newer}", age(seen.at, verified))
            }
            (None, 0) => ink.yellow("there is none; `talosmith backup create` makes one"),
            (None, some) => ink.yellow(&format!(
                "{}, none of them verified; `talosmith backup verify` verifies the newest",
                count(some, "backup")
            )),
        },
        Err(why) => ink.yellow(&format!("unknown: {}", clean(why))),
    };
    writeln!(w, "backup: {text}.")
}

/// The same for programs.
pub fn seen_json(seen: &Seen) -> Value {
    let age = |at: Timestamp| seen.at.duration_since(at).as_secs();
    match &seen.summary {
        Ok(summary) => json!({
            "count": summary.count,
            "newest": summary.newest,
            "newest_verified": summary.verified,
            "age_seconds": summary.verified.map(age),
        }),
        Err(why) => json!({ "unknown": why }),
    }
}

/// A number of bytes in the largest unit that leaves one digit before the dot.
fn size(bytes: u64) -> String {
    let units = [("GiB", 30_u32), ("MiB", 20), ("KiB", 10)];
    let fits = units.into_iter().find(|(_, shift)| bytes >> shift > 0);
    match fits {
        Some((unit, shift)) => {
            let tenths = (u128::from(bytes) * 10) >> shift;
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

/// A length of time in its largest unit.
pub fn age(now: Timestamp, then: Timestamp) -> String {
    let passed = now.duration_since(then).max(SignedDuration::ZERO);
    match (passed.as_hours() / 24, passed.as_hours(), passed.as_mins()) {
        (days @ 2.., _, _) => format!("{days} days"),
        (_, hours @ 2.., _) => format!("{hours} hours"),
        (_, _, 1) => "1 minute".to_owned(),
        (_, _, minutes) => format!("{minutes} minutes"),
    }
}

#[cfg(test)]
mod tests {
    use engine::backup::Summary;

    use super::*;

    #[test]
    fn the_line_of_status_says_how_old_the_newest_verified_backup_is() {
        let at = |text: &str| text.parse::<Timestamp>().ok();
        let said = |count, newest: &str, verified: &str| {
            let summary = Summary { count, newest: at(newest), verified: at(verified) };
            let mut text = Vec::new();
            let seen = Seen { at: at("2026-11-18T12:00:00Z").unwrap(), summary: Ok(summary) };
            line(&mut text, Ink::PLAIN, &seen).unwrap();
            String::from_utf8(text).unwrap()
        };
        insta::assert_snapshot!(said(0, "", ""), @"backup: there is none; `talosmith backup create` makes one.");
        let (old, new) = ("2026-11-17T03:00:00Z", "2026-11-18T03:00:00Z");
        insta::assert_snapshot!(said(2, new, new), @"backup: the newest verified one is of 2026-11-18T03:00:00Z, 9 hours ago.");
        insta::assert_snapshot!(said(2, new, old), @"backup: the newest verified one is of 2026-11-17T03:00:00Z, 33 hours ago; a newer one is not verified: run `talosmith backup verify`.");
        insta::assert_snapshot!(said(2, new, ""), @"backup: 2 backups, none of them verified; `talosmith backup verify` verifies the newest.");
    }

    #[test]
    fn sizes_and_ages_are_short() {
        assert_eq!(
            [0, 1023, 1024, 1_871_904, 5 << 30].map(size),
            ["0 B", "1023 B", "1.0 KiB", "1.7 MiB", "5.0 GiB"]
        );
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-11-18T12:00:00Z");
        let ages = [
            "2026-11-18T12:00:05Z",
            "2026-11-18T11:59:00Z",
            "2026-11-18T10:30:00Z",
            "2026-11-17T00:00:00Z",
            "2026-11-01T00:00:00Z",
        ];
        assert_eq!(
            ages.map(|then| age(now, at(then))),
            ["0 minutes", "1 minute", "90 minutes", "36 hours", "17 days"]
        );
    }
}
