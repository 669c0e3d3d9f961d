//! Proves that the machine at the end of a connection is the one that is meant, before it receives the cluster's keys.
//!
//! For a VM the proof is its console: see [`model::identity`], which has the rules. A certificate may be issued again between the
//! line on the console and our connection, so what does not match is looked at again for a while, over a new connection. A
//! machine that printed its line before anybody read it is restarted once, if everything outside of that connection says that it
//! is not in use; it then prints the line again.

use std::time::Duration;

use futures::future::join_all;
use model::blueprint::Node;
use model::identity::{self, Fingerprint, KeptRunning, Method, Unproved, Verdict};
use model::names::VmRef;
use model::observed::{Api, Machine as Seen, Observed};
use model::ownership::Act;
use talos_client::Maintenance;

use crate::consoles::{Slot, Watch, Whose};
use crate::context::Context;
use crate::emit::Progress;
use crate::error::{Error, Kind, Result, hint};
use crate::identify::{Identified, identify};
use crate::kubernetes::Kubernetes;
use crate::observe::machines;
use crate::owned::{not_ours, try_read};
use crate::systems::REQUEST_TIMEOUT;

/// For so long the console may lag behind, and a certificate may be renewed.
const SETTLE: jiff::SignedDuration = jiff::SignedDuration::from_secs(20);
/// For so long a machine is kept running that Kubernetes does not know yet, or still calls ready.
const CHANGE: jiff::SignedDuration = jiff::SignedDuration::from_mins(8);
/// The code of a machine that is not the one on the console.
pub(crate) const CODE: &str = "machine-identity";

/// The code of a system that panics at every boot.
const PANIC: &str = "kernel-panic";
/// How often a machine is restarted whose console breaks while it boots.
const RESTARTS: u32 = 3;
/// How often a VM may be stopped and started by others while it is proved.
const POWER_CYCLES: u32 = 3;

/// What is known of one machine until it is proved.
pub(crate) struct Prover<'a> {
    context: &'a Context,
    node: &'a Node,
    method: Method,
    watch: Option<Box<Watch>>,
    /// Since when the certificate does not match, or is not on the console.
    waits: Option<jiff::Timestamp>,
    /// How often the machine was restarted to print its certificate again.
    restarts: u32,
    /// How often the console was opened again because the VM was stopped and started.
    reopened: u32,
}

impl<'a> Prover<'a> {
    pub(crate) fn new(context: &'a Context, node: &'a Node) -> Self {
        let method = identity::method(&context.snapshot.blueprint, &context.snapshot.observed, node);
        let watch = context.systems.consoles.take(&node.name);
        Self { context, node, method, watch, waits: None, restarts: 0, reopened: 0 }
    }

    /// Does `work`, and reads the machine's console meanwhile.
    pub(crate) async fn during<F: Future>(&mut self, work: F) -> F::Output {
        match &mut self.watch {
            Some(watch) => watch.during(work).await,
            None => work.await,
        }
    }

    /// Opens the console, where it is needed and not open yet.
    pub(crate) async fn watch(&mut self) {
        if self.method == Method::Console && self.watch.is_none() {
            let VmRef { host, vmid } = self.context.place_of(self.node);
            let systems = &self.context.systems;
            let slot = systems.consoles.slot(&host).await;
            let whose = Whose { node: &self.node.name, host: &host, vmid };
            self.watch = Some(
                Box::pin(Watch::open(&systems.consoles, &systems.pve, &systems.clock, &whose, false, slot))
                    .await,
            );
        }
    }

    /// The same, where a console is free at once: what it prints helps, and nothing depends on it.
    pub(crate) async fn watch_if_free(&mut self) {
        let VmRef { host, .. } = self.context.place_of(self.node);
        let (all, here) = self.context.systems.consoles.free(&host);
        if all > 0 && here > 0 {
            self.watch().await;
        }
    }

    /// A system that does not come up: the kernel panic that its console shows again and again.
    pub(crate) fn panics(&self) -> Result<()> {
        let Some(line) = self.watch.as_ref().and_then(|watch| watch.panics()) else { return Ok(()) };
        let VmRef { host, vmid } = self.context.place_of(self.node);
        let name = &self.node.name;
        Err(Error::systems(format!("{name} does not boot; the console of VM {vmid} on {host} shows again and again: {line}"))
            .coded(PANIC)
            .hint(format!(
                "`talosmith node console {name}` shows what comes before it. Usual causes are too little memory, a CPU type that the \
                 release does not run on, and a damaged disk"
            )))
    }

    /// What a machine is known by that received its configuration without a proof of who it is.
    pub(crate) fn unproved(&self) -> Option<&'static str> {
        match &self.method {
            Method::Console | Method::Fingerprint(_) | Method::Undeclared => None,
            Method::Uuid(Unproved::Chosen) => Some("SMBIOS UUID (`proxmox.identity: uuid`)"),
            Method::Uuid(Unproved::NoRight) => Some("SMBIOS UUID (the token lacked VM.Console)"),
            Method::Uuid(Unproved::NoSerialPort) => Some("SMBIOS UUID (the VM had no serial port)"),
            Method::Unverified => Some("address (`unverified: true`)"),
        }
    }

    /// The machine has its configuration: others wait for a console. Should it lose the configuration, it is restarted.
    pub(crate) fn close(&mut self) {
        self.watch = None;
    }

    /// Whether the machine was restarted to be proved.
    pub(crate) fn has_restarted(&self) -> bool {
        self.restarts > 0
    }

    /// The last line on the machine's console, as an addition to a reason.
    pub(crate) fn last_words(&self) -> String {
        match self.watch.as_ref().and_then(|watch| watch.last_line()) {
            Some(line) => format!("; the last line on its console: {line}"),
            None if self.watch.as_ref().is_some_and(|watch| watch.is_mute()) => {
                let VmRef { vmid, .. } = self.context.place_of(self.node);
                format!("; the console of VM {vmid} printed nothing since it was opened")
            }
            None => String::new(),
        }
    }

    /// Whether the machine at the end of this connection is the node. If not yet, ask again over a new connection.
    ///
    /// # Errors
    ///
    /// When it is not, or nothing can prove it.
    pub(crate) async fn prove(&mut self, connection: &Maintenance, progress: &Progress) -> Result<bool> {
        let shown = connection.fingerprint().and_then(|text| text.parse::<Fingerprint>().ok());
        match (&self.method, shown) {
            (Method::Uuid(_) | Method::Unverified, _) => Ok(true),
            (Method::Undeclared, _) => Err(self.undeclared()),
            (_, None) => Err(self.refused("shows a certificate that cannot be read")),
            (Method::Fingerprint(wanted), Some(shown)) if *wanted == shown.to_string() => Ok(true),
            (Method::Fingerprint(wanted), Some(shown)) => Err(self.other_fingerprint(wanted, &shown)),
            (Method::Console, Some(shown)) => Box::pin(self.by_console(connection, &shown, progress)).await,
        }
    }

    async fn by_console(
        &mut self,
        connection: &Maintenance,
        shown: &Fingerprint,
        progress: &Progress,
    ) -> Result<bool> {
        self.watch().await;
        let Some(watch) = &self.watch else { return Ok(false) };
        let verdict = identity::judge(&watch.printed, shown);
        let (gap, now) = (watch.printed.gap, self.context.systems.clock.now());
        if verdict == Verdict::Proved {
            self.waits = None;
            return Ok(true);
        }
        if watch.failed.is_some() {
            return Err(self.no_console());
        }
        let since = *self.waits.get_or_insert(now);
        // A machine is not restarted for a console that is not open: it is opened first, or fails.
        if !watch.is_open() {
            progress.note("opening its console");
            return Ok(false);
        }
        let late = now.duration_since(since) >= SETTLE;
        if late && verdict != Verdict::Outdated && Box::pin(self.reopen_if_started_again(progress)).await {
            return Ok(false);
        }
        match verdict {
            Verdict::Proved => Ok(true),
            Verdict::Outdated => {
                progress.note("its certificate was renewed; connecting again");
                Ok(false)
            }
            Verdict::Mismatch { printed } if late => {
                let why = "it showed another certificate than its console named";
                Err(self.doubt(self.mismatch(shown, &printed), why))
            }
            Verdict::Mismatch { .. } => {
                progress.note("its certificate is not the one on its console; looking again");
                Ok(false)
            }
            // The line may have been printed while the console was broken: that says nothing about the machine.
            Verdict::Unknown if late && self.restarts >= if gap { RESTARTS } else { 1 } => {
                let error = self.unresponsive().await;
                Err(self.doubt(error, "it showed a certificate that its console did not name"))
            }
            Verdict::Unknown if late || (gap && self.restarts == 0) => {
                Box::pin(self.restart(connection, gap, progress)).await.map(|()| false)
            }
            Verdict::Unknown => {
                progress
                    .note(format!("waiting for its console to name its certificate{}", self.last_words()));
                Ok(false)
            }
        }
    }

    /// Opens the console again where the VM was stopped and started since it was opened: Proxmox leaves the old one open, and
    /// nothing is read on it any more. What was read before counts no more. Says whether it did.
    async fn reopen_if_started_again(&mut self, progress: &Progress) -> bool {
        let VmRef { host, vmid } = self.context.place_of(self.node);
        let (systems, Some(watch)) = (&self.context.systems, &mut self.watch) else { return false };
        if self.reopened >= POWER_CYCLES {
            return false;
        }
        let Ok(Ok(status)) = systems.clock.timeout(REQUEST_TIMEOUT, systems.pve.vm_status(&host, vmid)).await
        else {
            return false;
        };
        let open_for = systems.clock.now().duration_since(watch.opened());
        let uptime = Duration::from_secs(status.uptime);
        if status.power != pve::PowerState::Running || !identity::was_started_since(uptime, open_for) {
            return false;
        }
        progress.note(format!("VM {vmid} was stopped and started meanwhile; opening its console again"));
        watch.reopen().await;
        (self.reopened, self.restarts, self.waits) = (self.reopened + 1, 0, None);
        true
    }

    fn waits_for(&self, limit: jiff::SignedDuration) -> bool {
        let now = self.context.systems.clock.now();
        self.waits.is_some_and(|since| now.duration_since(since) >= limit)
    }

    /// Restarts the machine, so that its console names its certificate once more.
    async fn restart(&mut self, connection: &Maintenance, missed: bool, progress: &Progress) -> Result<()> {
        let (context, node) = (self.context, self.node);
        match self.may_restart().await {
            Ok(()) => {}
            // Both may change while this run, or Kubernetes, goes on.
            Err(why @ (KeptRunning::Unknown | KeptRunning::Ready)) if !self.waits_for(CHANGE) => {
                progress.note(format!(
                    "its console named its certificate before it was read, and it is not restarted yet: {why}{}",
                    self.last_words()
                ));
                return Ok(());
            }
            Err(why) => return Err(self.kept_running(&why.to_string())),
        }
        // A machine that does not tell now is asked again.
        let Ok(Ok(volumes)) = context.systems.clock.timeout(REQUEST_TIMEOUT, connection.volumes()).await
        else {
            return Ok(());
        };
        if let Some(volume) = volumes.iter().find(|volume| keeps_configuration(volume)) {
            return Err(self.kept_running(&format!("it has the volume {}", volume.name)));
        }
        let (place, pve) = (context.place_of(node), &context.systems.pve);
        let attempt = || Error::systems(format!("could not restart {}, {place}", node.name));
        match try_read(context, Act::Change, &node.name, &place).await {
            Ok(Ok(_)) => {}
            Ok(Err(why)) => return Err(not_ours(&node.name, &place, why)),
            Err(error) => return Err(attempt().hint(hint(&error)).because(error)),
        }
        let why = match missed {
            true => "its certificate was printed on its console before Talosmith read it",
            false => "its console did not show its certificate within 20 seconds",
        };
        progress.note(format!("restarting it: {why}{}", self.last_words()));
        let reset = async { pve.follow(&pve.reset(&place.host, place.vmid).await?, |_| {}).await };
        match reset.await {
            Ok(_) => {}
            // It may have happened; what it prints tells.
            Err(error) if error.is_transient() || error.effect_unknown() => return Ok(()),
            Err(error) => return Err(attempt().hint(hint(&error)).because(error)),
        }
        if let Some(watch) = &mut self.watch {
            watch.restarted();
        }
        (self.restarts, self.waits) = (self.restarts + 1, None);
        Ok(())
    }

    /// By what was observed, or by what Kubernetes and etcd say now, where that was too little.
    async fn may_restart(&mut self) -> std::result::Result<(), KeptRunning> {
        let (snapshot, node) = (&self.context.snapshot, self.node);
        // This run may have configured it since; and what Kubernetes said of it may have changed.
        let sent = self.context.configured().contains(&node.name);
        let known = snapshot.observed.kubernetes.nodes.contains_key(&node.name);
        if !sent && !known && identity::may_restart(&snapshot.blueprint, &snapshot.observed, node).is_ok() {
            return Ok(());
        }
        let Ok(access) = snapshot.access() else { return Err(KeptRunning::Unknown) };
        let systems = &self.context.systems;
        let members = snapshot.blueprint.control_planes().filter(|other| other.name != node.name);
        let members = join_all(members.map(|other| async move {
            let Identified::Configured(machine) = identify(systems, other, access).await else { return None };
            let etcd = machines::etcd(systems, other, &machine).await;
            Some((other.name.clone(), Seen { api: Api::Configured, etcd, ..Seen::unresponsive("") }))
        }));
        let nodes = async {
            let client = Kubernetes::new(systems, &snapshot.blueprint.endpoint, &access.kubernetes).ok()?;
            client.nodes().await.ok()
        };
        let (members, nodes) = futures::join!(Box::pin(members), Box::pin(nodes));
        let mut now = Observed {
            machines: members.into_iter().flatten().collect(),
            ..Observed::clone(&snapshot.observed)
        };
        now.kubernetes.answered = nodes.is_some();
        now.kubernetes.nodes = nodes.unwrap_or_default();
        if sent {
            // What was true of the cluster before the run says nothing about it any more.
            now.proxmox.record = None;
        }
        identity::may_restart(&snapshot.blueprint, &now, node)
    }

    fn refused(&self, why: &str) -> Error {
        let address = self.context.systems.address(self.node);
        let name = &self.node.name;
        Error::new(Kind::Refused, format!("what answers at {address} is not proved to be {name}: it {why}"))
            .coded(CODE)
    }

    /// The proof failed: that stays in the record, so that the next run does not take less for a proof.
    fn doubt(&self, error: Error, why: &str) -> Error {
        if let Ok(Some(record)) = self.context.record_if_any() {
            record.note_doubt(&self.node.name, why);
        }
        error
    }

    fn mismatch(&self, shown: &Fingerprint, printed: &Fingerprint) -> Error {
        let VmRef { vmid, .. } = self.context.place_of(self.node);
        let address = self.context.systems.address(self.node);
        self.refused(&format!(
            "shows a certificate with the fingerprint {shown}, and the console of VM {vmid} names {printed}"
        ))
        .hint(format!(
            "nothing was sent to it. Likely reasons: another machine has the address {address}; something between this computer and the \
             machine terminates TLS, such as a relay or a proxy. Find out which machine has the address before you run the command \
             again"
        ))
    }

    fn other_fingerprint(&self, wanted: &str, shown: &Fingerprint) -> Error {
        self.refused(&format!(
            "shows a certificate with the fingerprint {shown}, and the file says {wanted}"
        ))
        .hint(
            "nothing was sent to it. The certificate changes with every boot and every change of addresses: compare with the last line \
             `server certificate issued` on the machine's console, and correct `identity.fingerprint` in the file if that is \
             the one shown. If it is not, something between this computer and the machine terminates TLS",
        )
    }

    fn undeclared(&self) -> Error {
        self.refused("is an external machine, and the file does not say how it can be identified").hint(
            "nothing was sent to it. Copy the fingerprint from the last line `server certificate issued` on the machine's console \
             into the file, as `identity: { fingerprint: … }` of the node; or, in a network that you trust, write `unverified: true`",
        )
    }

    fn no_console(&mut self) -> Error {
        let mut error = self.refused("cannot be compared with its console");
        let Some(why) = self.watch.as_mut().and_then(|watch| watch.failed.take()) else { return error };
        // Proxmox itself does not answer: that says nothing about the machine, and has a code of its own.
        let below = std::error::Error::source(&why).is_some_and(|below| below.is::<pve::Error>());
        if below && why.is_transient() {
            error = Error::systems(error.to_string());
        }
        let help = why.hint().unwrap_or_else(|| "run the command again".to_owned());
        error
            .hint(format!(
                "{help}; or set `proxmox.identity: uuid` if you trust the network. Nothing was sent to the machine"
            ))
            .because(why)
    }

    /// The console said nothing, although the machine was restarted while it was read.
    async fn unresponsive(&mut self) -> Error {
        let VmRef { host, vmid } = self.context.place_of(self.node);
        let off = matches!(self.context.systems.pve.is_running(&host, vmid).await, Ok(false));
        let state = if off { ", which is off" } else { "" };
        self.refused(&format!(
            "has a certificate that the console of VM {vmid}{state} does not name{}",
            self.last_words()
        ))
        .hint(format!(
            "nothing was sent to it. Only one console of a VM gets its output: close other consoles of VM {vmid}, then run the command \
             again. If another machine has the address, free it"
        ))
    }

    fn kept_running(&self, why: &str) -> Error {
        let name = &self.node.name;
        self.refused("printed its certificate on its console before that was read, and cannot be restarted safely")
            .hint(format!(
                "nothing was sent to it: {why}. If {name} is not in use, stop its VM in Proxmox and run the command again, or replace \
                 it: `talosmith node replace {name}`"
            ))
    }
}

/// Whether a volume shows that the machine had a configuration.
fn keeps_configuration(volume: &talos_client::Volume) -> bool {
    volume.name == "STATE" && volume.phase == "ready" && !volume.location.is_empty()
}

/// The right to open the console of a VM that is about to be started, where the machine is to be proved by it. It is acquired
/// before the start, so that the console is open before the machine prints anything.
pub(crate) async fn slot(context: &Context, node: &str, host: &str) -> Option<Slot> {
    let node = context.snapshot.node(node).ok()?;
    let method = identity::method(&context.snapshot.blueprint, &context.snapshot.observed, node);
    if method == Method::Console { Some(context.systems.consoles.slot(host).await) } else { None }
}

/// Opens the console of a VM that was just started.
pub(crate) async fn watch_start(
    context: &Context,
    node: &str,
    place: &VmRef,
    from_start: bool,
    slot: Option<Slot>,
) {
    let (systems, Some(slot)) = (&context.systems, slot) else { return };
    let whose = Whose { node, host: &place.host, vmid: place.vmid };
    let watch = Watch::open(&systems.consoles, &systems.pve, &systems.clock, &whose, from_start, slot).await;
    systems.consoles.keep(node, watch);
}

/// How long a machine may take to boot once more.
pub(crate) const BOOT: Duration = Duration::from_secs(5 * 60);
