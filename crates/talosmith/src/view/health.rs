//! The conditions of health, one a line, then how etcd stands and who cordoned what.

use std::collections::BTreeMap;
use std::io::{self, Write};

use engine::health::{Condition, Health};
use model::observed::Cordon;
use model::quorum::Standing;
use serde::Serialize;

use super::ink::{Ink, clean};
use super::{cordons, status};

/// For people.
///
/// # Errors
/// When writing fails.
pub fn human(w: &mut dyn Write, ink: Ink, cluster: &str, health: &Health) -> io::Result<()> {
    let conditions = &health.conditions;
    for condition in conditions {
        match (&condition.missing, &condition.awaits) {
            (None, None) => writeln!(w, "{} {}", ink.green("✓"), condition.name)?,
            (None, Some(awaits)) => writeln!(w, "{} {}: {}", ink.yellow("…"), condition.name, clean(awaits))?,
            (Some(missing), _) => writeln!(w, "{} {}: {}", ink.red("✗"), condition.name, clean(missing))?,
        }
    }
    if let Some(standing) = &health.etcd {
        status::standing(w, ink, standing)?;
    }
    cordons::human(w, ink, &cordons::of(&health.nodes))?;
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
pub fn json<'a>(cluster: &'a str, health: &'a Health) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Document<'a> {
        cluster: &'a str,
        healthy: bool,
        conditions: &'a [Condition],
        /// How etcd stands; nothing where no member of it answers.
        etcd: Option<&'a Standing>,
        /// Who cordoned each node that is cordoned.
        cordons: BTreeMap<&'a str, Cordon>,
    }
    let conditions = &health.conditions[..];
    let healthy = conditions.iter().all(|c| c.missing.is_none());
    Document { cluster, healthy, conditions, etcd: health.etcd.as_ref(), cordons: cordons::of(&health.nodes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_condition_is_a_line() {
        let conditions = vec![
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
        let mut health = Health { conditions, etcd: None, nodes: BTreeMap::new() };
        let mut text = Vec::new();
        human(&mut text, Ink::PLAIN, "home", &health).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @"
        ✓ etcd members are the control plane nodes
        ✗ every node is ready in Kubernetes: home-work-1 is not ready
        home is not healthy: 1 of 2 conditions do not hold.
        `talosmith status` shows where each node stands, `talosmith plan` what would be corrected.
        ");
        assert_eq!(serde_json::to_value(json("home", &health)).unwrap()["healthy"], false);
        (health.conditions[1].missing, health.conditions[1].awaits) = (None, Some("waits for you".into()));
        let mut text = Vec::new();
        human(&mut text, Ink::PLAIN, "home", &health).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @"
        ✓ etcd members are the control plane nodes
        … every node is ready in Kubernetes: waits for you
        home is as far as its file goes: 1 of 2 conditions wait for you.
        ");
    }

    #[test]
    fn issue_20_the_margin_of_etcd_and_who_cordoned_what_are_told() {
        let standing = Standing {
            quorum: model::quorum::Quorum::Holds,
            answer: vec!["home-control-1".into(), "home-control-2".into()],
            unresponsive: vec!["home-control-3".into()],
            not_in_file: vec![],
            not_asked: vec![],
            voters: Some(3),
            tolerates: Some(0),
            leader: Some("home-control-2".into()),
            vip: Some([10, 25, 150, 10].into()),
            vip_on: Some("home-control-1".into()),
            errors: vec![],
        };
        let node = model::observed::KubernetesNode { ready: true, ..Default::default() };
        let nodes = BTreeMap::from([("home-work-1".into(), node)]);
        let health = Health { conditions: vec![], etcd: Some(standing), nodes };
        let mut text = Vec::new();
        human(&mut text, Ink::PLAIN, "home", &health).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @"
        etcd:   2 of 3 members answer, quorum holds, one more failure loses it; etcd on home-control-3 does not answer;
                leader home-control-2; VIP 10.25.150.10 on home-control-1.
        cordoned: home-work-1 by a person or another program; Talosmith does not uncordon it
        home is healthy.
        ");
        let document = serde_json::to_value(json("home", &health)).unwrap();
        assert_eq!(
            (&document["etcd"]["tolerates"], &document["cordons"]["home-work-1"]["by"]),
            (&0.into(), &"person".into())
        );
    }
}
