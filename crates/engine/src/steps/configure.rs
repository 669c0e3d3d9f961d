//! Gives a machine its configuration, after its identity was proved.
//!
//! A machine in maintenance mode trusts anybody and proves nothing: its certificate is self-signed and changes at each
//! boot. What answers at a node's address may be another machine with the same address, or an attacker who passes on what the
//! machine says. So before any secret leaves us, the SMBIOS UUID is read over *that connection* and must be the one we gave our
//! VM, and the certificate of *that connection* must be the one on the VM's console ([`crate::proof`]); the connection is never
//! re-dialled in between.

use std::time::Duration;

use model::blueprint::Node;
use model::names::VmRef;
use model::ownership;
use secrecy::ExposeSecret;
use talos_client::{Kind as Refused, Machine, Maintenance};

use crate::context::{Context, Done};
use crate::discovered;
use crate::emit::Progress;
use crate::error::{Error, Kind, Result};
use crate::identify::{Identified, identify};
use crate::power::{PowerWatch, USUAL_BOOT};
use crate::proof::{self, Prover};
use crate::render::digest;
use crate::steps::signing;
use crate::systems::{REQUEST_TIMEOUT, Systems};
use crate::unmet::Unmet;

/// What is likely of a worker whose port is closed. An earlier run may have configured it.
const SIGNED: &str = "if it has its configuration already, its port opens once a control plane node runs and signs its certificate";
/// The code of a wrong clock.
const CLOCK: &str = "clock";
/// Booting, downloading nothing: a machine that is not there after this long will not come by itself.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(2);

/// Configures the machine, and waits until it has left maintenance mode. A machine that already has a configuration under
/// our authority is left as it is.
pub(super) async fn run(context: &Context, node: &Node, progress: &Progress) -> Result<Done> {
    let access = context.snapshot.access()?;
    let config = context.snapshot.config(&node.name)?;
    let systems = &context.systems;
    let began = systems.clock.now();
    let mut sent = false;
    let vm = ownership::vm_of(&context.snapshot.blueprint, &context.snapshot.observed.proxmox, &node.name);
    let was_there = vm.is_some();
    let was_on = node.external || vm.is_some_and(|vm| vm.running);
    let mut last = Unmet::new("nothing was seen of it");
    let mut prover = Prover::new(context, node);
    let mut power = PowerWatch::default();
    progress.note("waiting for the machine to boot");
    while systems.clock.now().duration_since(began) < TIMEOUT.try_into().unwrap_or(jiff::SignedDuration::MAX)
    {
        let identified = prover.during(Box::pin(identify(systems, node, access))).await;
        if !matches!(identified, Identified::Unresponsive(_)) {
            power.answers();
        }
        match identified {
            Identified::Configured(machine) => {
                if !sent || runs_it(systems, node, &machine, config).await? {
                    return Ok(done(node, &prover, sent));
                }
                last = Unmet::new("it does not report which machine config it runs")
                    .coded("machine-unavailable");
                progress.note("waiting for the machine: its configuration cannot be read yet");
            }
            Identified::Maintenance(connection) => {
                if !Box::pin(prover.prove(&connection, progress)).await? {
                    last = Unmet::new(format!("it is not proved who it is{}", prover.last_words()))
                        .coded(proof::CODE);
                    prover.during(systems.clock.sleep(INTERVAL)).await;
                    continue;
                }
                if sent {
                    progress.note("the machine lost its configuration; sending it again");
                } else {
                    progress.note("sending the configuration");
                }
                enough_room(systems, node, &connection).await?;
                prover.during(Box::pin(keep_identity(context, node, prover.unproved(), progress))).await?;
                context.configured().insert(node.name.clone());
                send(systems, node, connection, config).await?;
                prover.close();
                sent = true;
                progress.note("waiting for the machine to apply its config");
            }
            Identified::ForeignMachine { .. } if is_elsewhere(context, node, progress).await? => continue,
            Identified::ForeignMachine { why } => {
                return Err(Error::new(
                    Kind::Refused,
                    format!("what answers at {} is not {}: {why}", systems.address(node), node.name),
                )
                .hint("free the address, or give the node another one; nothing was sent to that machine"));
            }
            // A machine that just took our configuration has our keys in a moment.
            Identified::OtherKeys { why } if sent => {
                last = Unmet::new(why);
                progress.note("waiting for the machine: it does not use its new keys yet");
            }
            Identified::OtherKeys { .. } if is_elsewhere(context, node, progress).await? => continue,
            Identified::OtherKeys { why } => {
                return Err(Error::new(
                    Kind::Refused,
                    format!("{} is configured with other keys than those of the secrets bundle: {why}", node.name),
                )
                .coded("other-keys")
                .hint("use the secrets bundle of this cluster, or wipe the machine with `talosctl reset`; nothing was sent to it"));
            }
            // A worker's port stays closed until a control plane signs its certificate. It has what it needs; what it runs is
            // compared when it joins.
            Identified::Unresponsive(_) if sent && node.role == model::blueprint::Role::Worker => {
                context.unproved().insert(node.name.clone());
                return Ok(done(node, &prover, sent));
            }
            Identified::Unresponsive(_) if is_elsewhere(context, node, progress).await? => continue,
            Identified::Unresponsive(unmet) => {
                let unmet = Box::pin(power.observe(context, node)).await?.unwrap_or(unmet);
                Box::pin(prover.watch()).await;
                prover.panics()?;
                let waited = systems.clock.now().duration_since(began);
                let booted = waited > USUAL_BOOT.try_into().unwrap_or(jiff::SignedDuration::MAX);
                let known = Known { was_there, was_on, booted };
                let (unmet, likely) = Box::pin(silence(context, node, unmet, &known)).await?;
                let console = prover.last_words();
                progress.note(format!("waiting for the machine: {}{likely}{console}", unmet.words));
                last = Unmet { words: format!("{}{console}", unmet.words), ..unmet };
            }
        }
        prover.during(systems.clock.sleep(INTERVAL)).await;
    }
    Err(Error::systems(format!(
        "{} did not answer at {} within {} minutes ({})",
        node.name,
        systems.address(node),
        TIMEOUT.as_secs() / 60,
        last.words
    ))
    .coded(last.code)
    .hint(what_helps(context, node, &last)))
}

/// What is known of a machine that does not answer.
struct Known {
    /// It had a VM before this run.
    was_there: bool,
    /// It was on before this run.
    was_on: bool,
    /// It had the time to boot.
    booted: bool,
}

/// What a machine lacks that does not answer, and what is likely of it.
async fn silence(context: &Context, node: &Node, unmet: Unmet, known: &Known) -> Result<(Unmet, String)> {
    let is_closed = unmet.closed_port && node.role == model::blueprint::Role::Worker;
    // One that boots refuses connections for a while, too.
    if let Some(why) = context.no_control_plane().filter(|_| is_closed && (known.was_on || known.booted)) {
        return Err(signing::never(node, &why));
    }
    // One that refuses connections is up, so it was not wiped.
    Ok(match is_closed {
        true if known.was_on || known.booted => {
            let unmet = Box::pin(signing::unsigned(context, unmet)).await;
            (
                Unmet { words: format!("if it has its configuration already, it {}", unmet.words), ..unmet },
                String::new(),
            )
        }
        true => (unmet, format!("; {SIGNED}")),
        false if known.was_there && known.booted => (unmet, format!("; {}", wiped(context, node))),
        false => (unmet, String::new()),
    })
}

/// Before a machine receives the cluster's keys, the cluster record VM and the journal say whether it proved who it is. Where there is
/// no record, as for external machines alone, the journal has to do.
async fn keep_identity(
    context: &Context,
    node: &Node,
    unproved: Option<&'static str>,
    progress: &Progress,
) -> Result<()> {
    if let Some(record) = context.record_if_any()? {
        record.note_identity(&node.name, unproved).await?;
    }
    if let Some(by) = unproved {
        progress.note(received_unproved(node, by));
    }
    Ok(())
}

fn received_unproved(node: &Node, by: &str) -> String {
    format!(
        "{} receives the cluster's keys without a proof of its identity: it is known by its {by} only",
        node.name
    )
}

/// The end of the step, with a warning where the machine did not prove who it is.
fn done(node: &Node, prover: &Prover, sent: bool) -> Done {
    let warning = prover.unproved().filter(|_| sent).map(|by| received_unproved(node, by));
    Done { warnings: warning.into_iter().collect() }
}

/// What is likely of a machine that was there before and does not come back, and what helps.
pub(super) fn wiped(context: &Context, node: &Node) -> String {
    let name = &node.name;
    match context.snapshot.blueprint.is_only_control_plane(name) {
        true => format!(
            "perhaps its disk was wiped. {name} is the only control plane node, so the data of etcd would be gone with it: restore \
             the VM from a backup in Proxmox, or create the cluster again with `talosmith destroy` and `talosmith apply`"
        ),
        false => {
            format!(
                "perhaps its disk was wiped; then `talosmith node replace {name}` creates the node again and keeps its data disks"
            )
        }
    }
}

/// What a person can do about a machine that does not answer.
fn what_helps(context: &Context, node: &Node, unmet: &Unmet) -> String {
    if unmet.code == CLOCK {
        return "correct the clock of the machine's host, the clock of this computer, or the time servers under `network.ntp`"
            .to_owned();
    }
    if node.external {
        return "look at its console: it must wait in maintenance mode, at the address that the file says"
            .to_owned();
    }
    if unmet.closed_port && node.role == model::blueprint::Role::Worker {
        return format!(
            "{SIGNED}: see to the control plane nodes first. `talosmith node console {}` shows what it does",
            node.name
        );
    }
    format!(
        "look at its console with `talosmith node console {}`; check bridge, VLAN and address. If it ran before, {}",
        node.name,
        wiped(context, node)
    )
}

/// Gives a machine that lost its configuration the same one once more; says whether it was there to take it. Whose it is is
/// proved again, over the connection that carries the configuration.
pub(super) async fn again(context: &Context, node: &Node, progress: &Progress) -> Result<bool> {
    let (access, config) = (context.snapshot.access()?, context.snapshot.config(&node.name)?);
    let (systems, mut prover) = (&context.systems, Prover::new(context, node));
    let proving = async {
        loop {
            match prover.during(Box::pin(identify(systems, node, access))).await {
                Identified::Maintenance(connection) => {
                    if Box::pin(prover.prove(&connection, progress)).await? {
                        prover
                            .during(Box::pin(keep_identity(context, node, prover.unproved(), progress)))
                            .await?;
                        context.configured().insert(node.name.clone());
                        return send(systems, node, connection, config).await.map(|()| true);
                    }
                }
                // It was restarted to be proved.
                Identified::Unresponsive(_) if prover.has_restarted() => {}
                Identified::Configured(_)
                | Identified::ForeignMachine { .. }
                | Identified::OtherKeys { .. }
                | Identified::Unresponsive(_) => return Ok(false),
            }
            prover.during(systems.clock.sleep(INTERVAL)).await;
        }
    };
    systems.clock.timeout(proof::BOOT, Box::pin(proving)).await.unwrap_or(Ok(false))
}

/// A DHCP server may give a machine another address than the one that the file expects it at. Its agent tells which. Where that
/// one is the cluster's own address, nothing can go on: it is in every machine's configuration.
async fn is_elsewhere(context: &Context, node: &Node, progress: &Progress) -> Result<bool> {
    if !discovered::may_move(node) {
        return Ok(false);
    }
    let VmRef { host, vmid } = context.place_of(node);
    if !discovered::search(&context.systems, node, (&host, vmid), context.snapshot.blueprint.vip).await {
        return Ok(false);
    }
    let (is_at, wanted) = (context.systems.address(node), node.address.addr());
    let endpoint: http::Uri = context.snapshot.blueprint.endpoint.parse().unwrap_or_default();
    if endpoint.host() == Some(wanted.to_string().as_str()) {
        return Err(Error::systems(format!(
            "the DHCP server gave {} the address {is_at}, and the cluster's API is expected at {wanted}",
            node.name
        ))
        .hint(format!(
            "reserve {wanted} for {} in the DHCP server and restart the VM, or give the cluster an address of its own with \
             `network.vip`",
            node.mac
        )));
    }
    progress.note(format!("the DHCP server gave it {is_at}"));
    Ok(true)
}

/// The machine has the disks that it was given. A disk that did not grow would fail it only later, and less clearly.
async fn enough_room(systems: &Systems, node: &Node, connection: &Maintenance) -> Result<()> {
    if node.external {
        return Ok(());
    }
    // A machine that does not tell now is not worse than one that was not asked.
    let Ok(Ok(disks)) = systems.clock.timeout(REQUEST_TIMEOUT, connection.disks()).await else {
        return Ok(());
    };
    let mut has: Vec<u64> =
        disks.iter().filter(|disk| disk.is_writable()).map(|disk| disk.size >> 30).collect();
    let mut wanted: Vec<u64> = node.hardware.disks.iter().map(|disk| disk.size_gib).collect();
    wanted.push(node.disk_gib);
    has.sort_unstable_by(|a, b| b.cmp(a));
    wanted.sort_unstable_by(|a, b| b.cmp(a));
    let short = wanted.iter().enumerate().find(|(at, wanted)| has.get(*at).is_none_or(|has| has < *wanted));
    let Some((at, wanted)) = short else { return Ok(()) };
    let has = has.get(at).map_or_else(|| "none".to_owned(), |has| format!("{has} GiB"));
    Err(Error::systems(format!("{} lacks a disk of {wanted} GiB: where that should be, it has {has}", node.name))
        .coded("disk-too-small")
        .hint("look at its disks in Proxmox and grow the one that is too small, then restart the VM; nothing was sent to it"))
}

async fn send(systems: &Systems, node: &Node, connection: Maintenance, config: &str) -> Result<()> {
    match systems.clock.timeout(Duration::from_secs(30), connection.apply(config.as_bytes())).await {
        Ok(Ok(_)) => Ok(()),
        // It is already on its way out of maintenance: an earlier try got through. The next look tells.
        Ok(Err(error))
            if matches!(
                error.kind(),
                Refused::Denied | Refused::Unavailable | Refused::Deadline | Refused::NotReady
            ) =>
        {
            Ok(())
        }
        Err(_) => Ok(()),
        Ok(Err(error)) => Err(Error::systems(format!("{} did not accept its configuration", node.name))
            .hint("the machine names what it does not like; a patch or a version is the usual reason")
            .because(error)),
    }
}

/// A machine does not run what it was sent.
pub(super) fn runs_another(node: &Node) -> Error {
    Error::systems(format!("{} runs another configuration than the one it was sent", node.name))
        .coded("configuration")
        .hint("another operator configured it at the same time; run the command again to see what it has")
}

/// After we sent a configuration, the machine must run exactly that one. Says whether it told.
async fn runs_it(systems: &Systems, node: &Node, machine: &Machine, config: &str) -> Result<bool> {
    match systems.clock.timeout(REQUEST_TIMEOUT, machine.machine_config()).await {
        Ok(Ok(runs)) if digest(runs.expose_secret().as_bytes()) == digest(config.as_bytes()) => Ok(true),
        Ok(Ok(_)) => Err(runs_another(node)),
        // It answered a moment ago, and is busy now.
        Ok(Err(_)) | Err(_) => Ok(false),
    }
}
