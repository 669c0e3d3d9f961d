//! Whether a machine runs the image that the file asks for.
//!
//! Extensions and kernel arguments are part of the image, and the image is known by its schematic. A machine that runs gets another
//! one by an upgrade only: writing `machine.install.image` into its configuration changes nothing until then. So what counts is the
//! schematic that the running system reports, never the one in the configuration.

use super::bring_up::Builder;
use crate::blueprint::Node;
use crate::observed::{ConfigChange, ConfigCost, Machine};
use crate::step::{Disruption, StepId};

/// The image that a machine runs, against the one that the file asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Image {
    Same,
    /// Another one.
    Other,
    /// The machine did not say, or it is not known here what the file's schematic is.
    Unknown,
}

/// Compares the two.
pub(super) fn image(wanted: Option<&str>, runs: Option<&str>) -> Image {
    match (wanted, runs) {
        (Some(wanted), Some(runs)) if wanted == runs => Image::Same,
        (Some(_), Some(_)) => Image::Other,
        _ => Image::Unknown,
    }
}

impl Builder<'_> {
    /// Installs an image that is not in force, and returns what a running machine can follow of a changed configuration. What only
    /// the installer reads may be written where the machine runs that image already; then the configuration says what is true.
    pub(super) fn in_force(
        &mut self,
        node: &Node,
        machine: &Machine,
        changes: &[ConfigChange],
        after: &[StepId],
    ) -> Vec<ConfigChange> {
        let wanted = self.rendered.schematics.get(&node.image).map(String::as_str);
        let runs = machine.schematic.as_deref();
        let image = image(wanted, runs);
        let for_the_installer: Vec<&str> = changes
            .iter()
            .filter(|change| change.costs == ConfigCost::Install)
            .map(|change| change.path.as_str())
            .collect();
        if let (Image::Other, Some(wanted), Some(runs)) = (image, wanted, runs) {
            let reason = format!(
                "it runs the schematic {}, and the file asks for {} (extensions, kernel arguments)",
                short(runs),
                short(wanted)
            );
            self.install(node, machine, reason, after.to_vec());
        }
        let what = match (image, wanted, runs) {
            (Image::Unknown, ..) if !for_the_installer.is_empty() => Some(format!(
                "{} has another {} than the file, which only an upgrade puts into force, and it does not say which schematic it runs",
                node.name,
                for_the_installer.join(", ")
            )),
            _ => None,
        };
        if let Some(what) = what {
            let hint = format!(
                "put `image` in the file back to what runs; or, one node at a time, run `talosctl upgrade --nodes {} --image IMAGE` with \
                 the `machine.install.image` that `talosmith render` writes for it",
                node.address.addr()
            );
            self.block(&node.name, Disruption::Reboot, what, hint);
        }
        let written = |change: &ConfigChange| match change.costs {
            ConfigCost::Install if image == Image::Same => {
                Some(ConfigChange { costs: ConfigCost::Nothing, ..change.clone() })
            }
            ConfigCost::Install => None,
            _ => Some(change.clone()),
        };
        changes.iter().filter_map(written).collect()
    }
}

/// A schematic for people: as much of it as file names carry.
fn short(schematic: &str) -> &str {
    schematic.get(..12).unwrap_or(schematic)
}
