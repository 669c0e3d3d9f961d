//! Who cordoned which node, and units that have not ended.

use std::collections::BTreeMap;
use std::io::{self, Write};

use model::names::NodeName;
use model::natural;
use model::observed::{Cordon, KubernetesNode, Observed};
use model::plan::{Blocked, Plan};
use model::step::Disruption;
use model::unit::{self, OpenUnit, UnitState};

use super::ink::{Ink, clean};

/// Who cordoned each node that is cordoned.
pub(super) fn of(nodes: &BTreeMap<NodeName, KubernetesNode>) -> BTreeMap<&str, Cordon> {
    nodes.iter().filter_map(|(name, node)| Some((name.as_str(), node.cordon()?))).collect()
}

/// One line for each node that is cordoned.
pub(super) fn human(w: &mut dyn Write, ink: Ink, cordons: &BTreeMap<&str, Cordon>) -> io::Result<()> {
    let mut names: Vec<&&str> = cordons.keys().collect();
    names.sort_by(|a, b| natural::compare(a, b));
    let title = ink.yellow("cordoned:");
    for name in names {
        match cordons.get(*name) {
            Some(Cordon::Talosmith { reason }) => {
                writeln!(w, "{title} {name} by Talosmith, for {}", clean(reason))?;
            }
            Some(Cordon::Person { command: Some(command) }) => {
                let command = clean(command);
                let (command, by) = command.split_once(" by ").unwrap_or((&command, "a person"));
                writeln!(
                    w,
                    "{title} {name} with `talosmith node {command}` by {by}; `talosmith node uncordon {name}` uncordons it"
                )?;
            }
            Some(Cordon::Person { command: None }) => {
                writeln!(w, "{title} {name} by a person or another program; Talosmith does not uncordon it")?;
            }
            None => {}
        }
    }
    Ok(())
}

/// One line for each unit that has not ended, with what becomes of it.
pub(super) fn units(w: &mut dyn Write, ink: Ink, observed: &Observed, plan: &Plan) -> io::Result<()> {
    for OpenUnit { unit, node, by, state } in unit::open(observed) {
        let by = by.map(|by| format!(" by {}", clean(&by))).unwrap_or_default();
        // What a replacement deletes, only the command that a person gives deletes. Before that, `apply` takes its cordon back. A removal
        // needs a permission, and nothing starts on a host that is drained.
        let against = match unit.kind() {
            "replace" => Some(Disruption::Replace),
            "remove" => Some(Disruption::Delete),
            "move" => Some(Disruption::PowerCycle),
            "shutdown" => Some(Disruption::None),
            _ => None,
        };
        let is_half =
            |blocked: &Blocked| blocked.node.as_ref() == Some(&node) && Some(blocked.disruption) == against;
        let blocked = plan.blocked.iter().find(|blocked| is_half(blocked));
        let then = match blocked {
            Some(blocked) => clean(&blocked.hint).into_owned(),
            None if unit.is_replacement() => "`talosmith apply` uncordons the node".to_owned(),
            _ => "`talosmith apply` continues it".to_owned(),
        };
        let (title, then) = match state {
            UnitState::InProgress => (ink.yellow("in progress:"), String::new()),
            UnitState::Interrupted => (ink.red("interrupted:"), format!("; {then}")),
            UnitState::Unknown => {
                let then = format!("; if that run is gone: {then}");
                (ink.yellow("in progress or interrupted:"), then)
            }
            UnitState::ShutDown if blocked.is_some() => (ink.yellow("shut down:"), format!("; {then}")),
            UnitState::ShutDown => {
                (ink.yellow("shut down:"), format!("; `talosmith apply` starts {} again", clean(&node)))
            }
        };
        writeln!(w, "{title} {}{by}{then}", clean(&unit.0))?;
    }
    Ok(())
}
