//! The conditions of health, one a line.

use std::io::{self, Write};

use engine::health::Condition;
use serde::Serialize;

use super::ink::{Ink, clean};

/// For people.
///
/// # Errors
/// When writing fails.
pub fn human(w: &mut dyn Write, ink: Ink, cluster: &str, conditions: &[Condition]) -> io::Result<()> {
    for condition in conditions {
        match (&condition.missing, &condition.awaits) {
            (None, None) => writeln!(w, "{} {}", ink.green("✓"), condition.name)?,
            (None, Some(awaits)) => writeln!(w, "{} {}: {}", ink.yellow("…"), condition.name, clean(awaits))?,
            (Some(missing), _) => writeln!(w, "{} {}: {}", ink.red("✗"), condition.name, clean(missing))?,
        }
    }
    let missing = conditions.iter().filter(|c| c.missing.is_some()).count();
    let awaited = conditions.iter().filter(|c| c.awaits.is_some()).count();
    match missing {
        0 if awaited > 0 => writeln!(
            w,
            "{cluster} is {}: {awaited} of {} conditions wait for you.",
            ink.yellow("as far as its file goes"),
            conditions.len()
        ),
        0 => writeln!(w, "{} is {}.", cluster, ink.green("healthy")),
        _ => writeln!(
            w,
            "{cluster} is {}: {missing} of {} conditions do not hold.\n`talosmith status` shows where each node stands, \
             `talosmith plan` what would be corrected.",
            ink.red("not healthy"),
            conditions.len()
        ),
    }
}

/// For programs.
#[must_use]
pub fn json<'a>(cluster: &'a str, conditions: &'a [Condition]) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Document<'a> {
        cluster: &'a str,
        healthy: bool,
        conditions: &'a [Condition],
    }
    Document { cluster, healthy: conditions.iter().all(|c| c.missing.is_none()), conditions }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_condition_is_a_line() {
        let conditions = [
            Condition {
                name: "etcd members are the control plane nodes",
                missing: None,
                awaits: None,
                code: "",
            },
            Condition {
                name: "every node is ready in Kubernetes",
                missing: Some("home-work-1 is not ready".into()),
                awaits: None,
                code: "timed-out",
            },
        ];
        let mut text = Vec::new();
        human(&mut text, Ink::PLAIN, "home", &conditions).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @"
        ✓ etcd members are the control plane nodes
        ✗ every node is ready in Kubernetes: home-work-1 is not ready
        home is not healthy: 1 of 2 conditions do not hold.
        `talosmith status` shows where each node stands, `talosmith plan` what would be corrected.
        ");
        assert_eq!(serde_json::to_value(json("home", &conditions)).unwrap()["healthy"], false);
        let [first, mut second] = conditions;
        (second.missing, second.awaits) = (None, Some("waits for you".into()));
        let mut text = Vec::new();
        human(&mut text, Ink::PLAIN, "home", &[first, second]).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @"
        ✓ etcd members are the control plane nodes
        … every node is ready in Kubernetes: waits for you
        home is as far as its file goes: 1 of 2 conditions wait for you.
        ");
    }
}
