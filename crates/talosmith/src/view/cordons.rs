//! Who cordoned which node, and units that have not ended.

use std::collections::BTreeMap;
use std::io::{self, Write};

use model::names::NodeName;
use model::natural;
use model::observed::{Cordon, KubernetesNode, Observed};
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
            Some(Cordon::Person) => {
                writeln!(w, "{title} {name} by a person or another program; Talosmith leaves it cordoned")?;
            }
            None => {}
        }
    }
    Ok(())
}

/// One line for each unit that has not ended, with what becomes of it.
pub(super) fn units(w: &mut dyn Write, ink: Ink, observed: &Observed) -> io::Result<()> {
    for OpenUnit { unit, node, by, state } in unit::open(observed) {
        let by = by.map(|by| format!(" by {}", clean(&by))).unwrap_or_default();
        // What a replacement deletes, only the command that a person gives deletes.
        let command = match unit.is_replacement() {
            true => format!("talosmith node replace {} --force", clean(&node)),
            false => "talosmith apply".to_owned(),
        };
        let (title, then) = match state {
            UnitState::InProgress => (ink.yellow("in progress:"), String::new()),
            UnitState::Interrupted => (ink.red("interrupted:"), format!("; `{command}` continues it")),
            UnitState::Unknown => {
                let then = format!("; if that run is gone, `{command}` continues it");
                (ink.yellow("in progress or interrupted:"), then)
            }
            UnitState::ShutDown => {
                (ink.yellow("shut down:"), format!("; `talosmith apply` starts {} again", clean(&node)))
            }
        };
        writeln!(w, "{title} {}{by}{then}", clean(&unit.0))?;
    }
    Ok(())
}
