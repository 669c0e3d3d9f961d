//! What the plan says about machines that receive their configuration without a proof of who they are.

use std::collections::BTreeMap;

use super::bring_up::Builder;
use super::{Note, Refusal, RefusalCode};
use crate::identity::{self, Method, Unproved};
use crate::observed::{Api, Vm};
use crate::step::Action;

/// Nodes that this plan configures, by what is known of who they are.
#[derive(Default)]
struct Found<'a> {
    /// Known by their SMBIOS UUID alone.
    by_uuid: BTreeMap<Unproved, Vec<&'a str>>,
    /// Proved by their console.
    by_console: Vec<&'a str>,
    /// The file takes any machine for them.
    unverified: Vec<&'a str>,
    /// The file does not say how they prove who they are, and they would be configured.
    undeclared: Vec<&'a str>,
    /// The same, of those that do not answer.
    unanswered: Vec<&'a str>,
    /// Their console must prove them, and the token may not open it.
    denied: Vec<&'a str>,
    /// The same, of those that were not the machine on their console before.
    doubted: Vec<&'a str>,
    /// Their console must prove them, and their VM runs without one.
    without_port: Vec<(&'a str, &'a Vm)>,
}

impl<'a> Builder<'a> {
    /// Warns of every node that is configured unproved, and refuses what the file leaves open.
    pub(super) fn identities(&mut self) {
        let found = self.configured();
        self.warn_of_unproved(&found);
        self.refuse_unproved(&found);
    }

    fn configured(&self) -> Found<'a> {
        let mut found = Found::default();
        for node in self.blueprint.in_order() {
            let configure = Action::configure(&node.name).id();
            if !self.steps.iter().any(|step| step.id == configure) {
                continue;
            }
            let name = node.name.as_str();
            match identity::method(self.blueprint, self.observed, node) {
                Method::Console => {
                    let lacks = self.observed.proxmox.no_console.as_ref();
                    let lacks = lacks.filter(|nodes| nodes.contains(name)).map(|_| name);
                    match self.blueprint.options.identity {
                        Some(_) => found.denied.extend(lacks),
                        None => found.doubted.extend(lacks),
                    }
                    let without = identity::runs_without_serial_port(self.blueprint, self.observed, node);
                    found.without_port.extend(without.map(|vm| (name, vm)));
                    found.by_console.push(name);
                }
                Method::Fingerprint(_) => {}
                Method::Uuid(why) => found.by_uuid.entry(why).or_default().push(name),
                Method::Unverified => found.unverified.push(name),
                // One that does not answer may be configured; if it is not, nothing is sent to it either, and the plan warns. Before
                // there are keys, none has any.
                Method::Undeclared => {
                    let open = match self.observed.machines.get(name).map(|machine| &machine.api) {
                        Some(Api::Maintenance) => true,
                        None => self.blueprint.cluster_id.is_none(),
                        Some(_) => false,
                    };
                    if open { found.undeclared.push(name) } else { found.unanswered.push(name) }
                }
            }
        }
        found
    }

    fn warn_of_unproved(&mut self, found: &Found<'_>) {
        self.notes.extend(found.by_uuid.iter().map(|(why, nodes)| by_uuid_only(*why, nodes)));
        if self.blueprint.options.insecure && !found.by_console.is_empty() {
            let text = format!(
                "the certificate of Proxmox is not verified (`proxmox.insecure`), so the console that proves {} may be anyone's: an attacker \
                 in the network between this computer and Proxmox could receive the cluster's keys. Pin `proxmox.fingerprint`",
                list(&found.by_console)
            );
            self.notes.push(Note { text });
        }
        if !found.unverified.is_empty() {
            let text = format!(
                "any machine that answers at the address of {} receives the cluster's keys: the file says `found.unverified: true`",
                list(&found.unverified)
            );
            self.notes.push(Note { text });
        }
        if !found.unanswered.is_empty() {
            let text = format!(
                "the file does not say how {} can be identified: if it waits in maintenance mode when it answers, it receives nothing. \
                 Add `identity: {{ fingerprint: … }}` or `found.unverified: true` to the node",
                list(&found.unanswered)
            );
            self.notes.push(Note { text });
        }
    }

    fn refuse_unproved(&mut self, found: &Found<'_>) {
        if let Some(first) = found.undeclared.first() {
            self.refusals.push(Refusal {
                code: RefusalCode::Identity,
                why: format!(
                    "the file does not say how {} prove{} who {}, and any machine that answers at the address would receive the cluster's keys",
                    list(&found.undeclared),
                    if found.undeclared.len() == 1 { "s" } else { "" },
                    if found.undeclared.len() == 1 { "it is" } else { "they are" },
                ),
                hint: format!(
                    "copy the fingerprint from the last line `server certificate issued` on the machine's console into the file, \
                     `nodes: {{ {first}: {{ identity: {{ fingerprint: … }} }} }}`; or, in a network that you trust, write `found.unverified: true` there"
                ),
            });
        }
        for (name, vm) in &found.without_port {
            let add = match vm.next("serial0") {
                Some("socket") => String::new(),
                _ => format!("add the port (`qm set {} --serial0 socket`), then ", vm.vmid),
            };
            self.refusals.push(Refusal {
                code: RefusalCode::Identity,
                why: format!(
                    "{name} must prove itself through its console, and its VM {} runs without the serial port `serial0`",
                    vm.vmid
                ),
                hint: format!("{add}stop and start the VM in Proxmox: it has the serial port from its next start on"),
            });
        }
        if !found.doubted.is_empty() {
            self.refusals.push(Refusal {
                code: RefusalCode::Identity,
                why: format!(
                    "what answered as {} in an earlier run was not the machine on its console, and now the token lacks VM.Console, so that \
                     nothing but the SMBIOS UUID would tell them apart, which a relay passes on",
                    list(&found.doubted)
                ),
                hint: "give VM.Console to the token's role (`talosmith proxmox setup`); or, if you found out why and trust the network, set \
                         `proxmox.identity: uuid`"
                    .to_owned(),
            });
        }
        if !found.denied.is_empty() {
            self.refusals.push(Refusal {
                code: RefusalCode::Rights,
                why: format!(
                    "`proxmox.identity` is `console`, and the token lacks VM.Console on the VMs of {}",
                    list(&found.denied)
                ),
                hint: "run `talosmith proxmox setup`, or give VM.Console to the token's role".to_owned(),
            });
        }
    }
}

fn by_uuid_only(why: Unproved, nodes: &[&str]) -> Note {
    let (because, hint) = match why {
        Unproved::Chosen => (
            "`proxmox.identity` is `uuid`",
            "Set it to `console`, or apply from a network path that you trust",
        ),
        Unproved::NoRight => (
            "the token lacks VM.Console",
            "Grant it with `talosmith proxmox setup`, or apply from a network path that you trust",
        ),
        Unproved::NoSerialPort => (
            "the VM runs without the serial port `serial0`",
            "Stop and start the VM after the port was added, or apply from a network path that you trust",
        ),
    };
    let (is, it) = if nodes.len() == 1 { ("is", "it") } else { ("are", "them") };
    Note {
        text: format!(
            "{} {is} known by SMBIOS UUID only, because {because}: a relay in the network between this computer and {it} could \
             receive the cluster's keys. {hint}",
            list(nodes)
        ),
    }
}

/// The names, the first few of many.
fn list(nodes: &[&str]) -> String {
    const SHOWN: usize = 6;
    match nodes.get(..SHOWN) {
        Some(first) if nodes.len() > SHOWN => {
            format!("{} and {} more", first.join(", "), nodes.len() - SHOWN)
        }
        _ => nodes.join(", "),
    }
}
