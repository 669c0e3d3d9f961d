//! The cluster record VM: a stopped VM without disks whose notes carry the lease and the bootstrap mark.
//!
//! Every change is a compare-and-set: read the notes and Proxmox' digest of the configuration, write the new notes with
//! that digest; the second of two writers is refused and reads again. So two operators cannot both hold the lease, and the
//! bootstrap mark cannot be overwritten by one who had not seen it.
//!
//! The lease expires, so that a lost laptop does not lock a cluster for ever. `model::lease` has the times: how often the
//! holder renews it, when it stops without a renewal, and how long a successor waits. It is taken over in three ways:
//!
//! - Held from the very same *place* (the same working folder, whose local lock the caller holds, so the earlier process
//!   is gone): at once. Each run has an ID of its own, and renews, changes or releases only a lease with that ID: should the lock not
//!   have kept two apart, the earlier one stops at its next renewal.
//! - Expired: clocks differ, so the words "expired" alone prove nothing. It is watched for longer than its holder may go on
//!   without a renewal; only when nothing moves is it taken.
//! - Wanted by `--take-over`: it is written first, so that it cannot be renewed any more, and then as long is waited.
//!
//! Either way the new holder observed a cluster that the old one may have changed since, and must observe it again: every change
//! of the holder is counted, and a plan that was made at another count is not carried out.

mod identities;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use model::blueprint::Blueprint;
use model::lease::{HOLDER_STOPS, SUCCESSOR_WAITS};
use model::mark::{BootstrapMark, Lease, Line, Mark, RECORD_NODE, RecordState, VERSION};
use model::names::NodeName;
use model::ownership::{self, Act, Foreign};
use pve::{Params, VmConfig};
use uuid::Uuid;

use crate::Systems;
use crate::emit::Progress;
use crate::error::{Error, Kind, NO_EFFECT, Result, hint};
use crate::evidence::evidence;
use crate::lease::{
    Holder, TO_GIVE_BACK, Validity, busy, outwait, stale, taken_over, taken_over_from_here, taking_over,
    wait_for, watch, watching,
};
use crate::missing;
use crate::settled::settled;
use crate::tags;
use identities::Identities;

/// Longer than the hosts take to agree on a VM ID that became free.
const TO_AGREE: Duration = Duration::from_secs(1);
/// How often a lost race is run again before giving up.
const ATTEMPTS: u32 = 5;

/// The record of one cluster, once it exists.
#[derive(Debug, Clone)]
pub struct Record {
    systems: Systems,
    host: String,
    vmid: u32,
    mark: Mark,
    /// Of whom it is the record; its VM is identified by it.
    blueprint: Arc<Blueprint>,
    holder: Holder,
    /// What it is tagged with.
    tags: Vec<String>,
    /// The generations that were observed, written with the lease.
    generations: BTreeMap<String, Uuid>,
    /// Whether this run deletes the cluster, which is written with the lease; `None` leaves what is written.
    deletes: Option<bool>,
    /// When it was renewed last.
    validity: Validity,
    /// What this run knows of the identities of machines.
    identities: Arc<Mutex<Identities>>,
    /// One write at a time: the first one carries the others.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Record {
    /// A handle on a record that is known to exist.
    #[must_use]
    pub fn existing(
        systems: &Systems,
        blueprint: &Blueprint,
        cluster_id: &str,
        host: &str,
        vmid: u32,
        holder: &Holder,
    ) -> Self {
        Self {
            systems: systems.clone(),
            host: host.to_owned(),
            vmid,
            mark: mark(blueprint, cluster_id),
            blueprint: Arc::new(blueprint.clone()),
            holder: holder.clone(),
            tags: blueprint.tags.clone(),
            generations: BTreeMap::new(),
            deletes: None,
            validity: Validity::new(&systems.clock),
            identities: Arc::default(),
            turn: Arc::default(),
        }
    }

    /// The same, for a run that deletes the cluster, or does not.
    #[must_use]
    pub fn deleting(self, deletes: bool) -> Self {
        Self { deletes: Some(deletes), ..self }
    }

    /// The same, for a run that observed these generations.
    #[must_use]
    pub fn with_generations(self, generations: BTreeMap<String, Uuid>) -> Self {
        Self { generations, ..self }
    }

    /// Creates the record with the lease already taken. Creation reserves the id, so of two operators exactly one
    /// succeeds; the other finds it there and asks for the lease as usual. Where a node is a `member` of etcd already, the
    /// record says from the start that etcd is bootstrapped.
    ///
    /// # Errors
    ///
    /// When the id is taken by something else, or Proxmox refuses.
    pub async fn create(
        systems: &Systems,
        blueprint: &Blueprint,
        cluster_id: &str,
        host: &str,
        member: Option<&str>,
        holder: &Holder,
        progress: &Progress,
    ) -> Result<Self> {
        let vmid = blueprint.record.vmid;
        let record = Self::existing(systems, blueprint, cluster_id, host, vmid, holder);
        let (lease, sent) = (record.lease(None, member.map(|_| SUCCESSOR_WAITS)), systems.clock.reading());
        let bootstrap = member.map(|node| record.sealed(node));
        let state = RecordState { lease: Some(lease), bootstrap, turns: 1, ..RecordState::default() };
        let mut params = Params::from([
            ("name".to_owned(), blueprint.record.name.clone()),
            ("memory".to_owned(), "16".to_owned()),
            ("ostype".to_owned(), "l26".to_owned()),
            ("onboot".to_owned(), "0".to_owned()),
            ("protection".to_owned(), "1".to_owned()),
            ("description".to_owned(), record.mark.describe_record(&state)),
        ]);
        if let Some(uuid) = blueprint.record.uuid {
            params.insert("smbios1".to_owned(), format!("uuid={uuid}"));
        }
        tags::at_creation(blueprint, &mut params);
        let not_made = |error: Option<pve::Error>| {
            let attempt = Error::systems(format!("could not create the cluster record VM {vmid} on {host}"));
            match error {
                Some(error) => attempt.hint(hint(&error)).because(error),
                None => attempt
                    .coded(NO_EFFECT)
                    .hint("Proxmox reported success, but the VM does not exist; look at its task log"),
            }
        };
        let mut tries = 1;
        loop {
            let made = async {
                systems.pve.follow(&systems.pve.create_vm(host, vmid, &params).await?, |_| {}).await
            };
            let error = made.await.err();
            let passes = error.as_ref().is_some_and(pve::Error::is_transient);
            if error.as_ref().is_none_or(|error| error.is_exists() || error.effect_unknown()) {
                // Made by us; or ours after all, by another operator or by a call whose answer was lost: its notes say so.
                match settled(systems, host, vmid).await? {
                    Some(config) if record.own_mark(&config).is_ok() => {
                        let found = RecordState::find(config.description()).unwrap_or_default();
                        let ours = found.lease.as_ref().is_some_and(|lease| holder.is_here(lease));
                        if error.is_none() && found.lease.as_ref().is_some_and(|lease| holder.has(lease)) {
                            record.validity.renewed(sent);
                            tags::set(systems, host, vmid, blueprint, RECORD_NODE).await?;
                            return Ok(record);
                        }
                        // Another operator's run lies between our observation and now, unless the lease in it is from here.
                        let seen = if ours { found.turns } else { u64::MAX };
                        let taking = record.take_lease(seen, |note| progress.note(note));
                        progress.only_waiting(taking).await?;
                        return Ok(record);
                    }
                    None if tries < ATTEMPTS => {}
                    _ => return Err(not_made(error)),
                }
            } else if !passes || tries >= ATTEMPTS {
                return Err(not_made(error));
            }
            systems.clock.sleep(Duration::from_secs(2 * u64::from(tries))).await;
            tries += 1;
        }
    }

    /// Takes the lease, or says who has it. `seen` is the number of turns at which the cluster was observed; `note` gets
    /// what is waited for.
    ///
    /// # Errors
    ///
    /// [`Kind::Busy`] when another operator holds it. [`Kind::Stale`] when it could be had, but another operator had it after the
    /// cluster was observed; it is free then.
    pub async fn take_lease(&self, seen: u64, note: impl Fn(String)) -> Result<()> {
        let (ours, found) = match self.read().await?.lease {
            Some(lease) if self.holder.is_here(&lease) => (Some(lease), None),
            other => (None, other),
        };
        if let Some(seconds) = ours.and_then(|lease| lease.outwaits) {
            // An earlier run from here took the lease over, and ended before the one it was taken from had surely stopped.
            let wait = Duration::from_secs(seconds.into());
            note(taking_over("the operator before", wait));
            self.hold(|now| self.not_others(now)).await?;
            return Err(self.outwait(wait).await?);
        }
        let before = match found {
            None => self.hold(|now| self.not_others(now)).await?,
            Some(held) if self.holder.operator.take_over => {
                let wait = wait_for(&held);
                note(taking_over(&held.holder, wait));
                self.hold_after(|_| Ok(()), Some(wait)).await?;
                return Err(self.outwait(wait).await?);
            }
            Some(held) if held.expires > self.systems.clock.now() => return Err(busy(&held)),
            Some(held) => {
                let wait = wait_for(&held);
                note(watching(&held.holder, wait));
                let snapshot = || async {
                    match self.read().await.map(|state| state.lease) {
                        Ok(None) => Ok(true),
                        Ok(Some(lease)) if lease != held && !self.holder.is_here(&lease) => Err(busy(&lease)),
                        // What cannot be read now is read once more when the lease is taken.
                        Ok(Some(_)) | Err(_) => Ok(false),
                    }
                };
                watch(&self.systems, wait, snapshot).await?;
                let unmoved = |now: Option<&Lease>| match now {
                    Some(lease) if *lease != held && !self.holder.is_here(lease) => Err(busy(lease)),
                    _ => Ok(()),
                };
                self.hold(unmoved).await?;
                return Err(self.stale().await);
            }
        };
        if before == seen { Ok(()) } else { Err(self.stale().await) }
    }

    /// The plan is old. The lease is released: a run that observes again may find that nothing is left to do, and would keep others
    /// waiting.
    async fn stale(&self) -> Error {
        let _ = self.systems.clock.timeout(TO_GIVE_BACK, self.release()).await;
        stale()
    }

    /// Waits until the one that the lease was taken from has stopped. The plan is old by then.
    async fn outwait(&self, wait: Duration) -> Result<Error> {
        outwait(&self.systems, wait, || self.renew()).await?;
        self.settle().await?;
        Ok(self.stale().await)
    }

    /// The wait for the one that the lease was taken from is over.
    ///
    /// # Errors
    ///
    /// [`Kind::Busy`] when the lease is not ours any more.
    pub(crate) async fn settle(&self) -> Result<()> {
        self.change(|state| {
            self.must_hold(state.lease.as_ref())?;
            if let Some(lease) = &mut state.lease {
                lease.outwaits = None;
            }
            Ok(())
        })
        .await
    }

    /// Writes our lease if `may` allows it, given the present one; gives the number of turns before that.
    async fn hold(&self, may: impl Fn(Option<&Lease>) -> Result<()>) -> Result<u64> {
        self.hold_after(may, None).await
    }

    /// The same, with a wait that must be over before anything is changed.
    async fn hold_after(
        &self,
        may: impl Fn(Option<&Lease>) -> Result<()>,
        wait: Option<Duration>,
    ) -> Result<u64> {
        let mut before = None;
        let mut sent = self.systems.clock.reading();
        self.change(|state| {
            may(state.lease.as_ref())?;
            let here = state.lease.take().filter(|lease| self.holder.is_here(lease));
            let ours = here.as_ref().filter(|lease| self.holder.has(lease));
            // Ours already: perhaps by a write of a moment ago whose answer was lost, which is no turn of anybody else.
            before = if ours.is_some() { before.or(Some(state.turns)) } else { Some(state.turns) };
            state.turns += u64::from(ours.is_none());
            state.lease = Some(self.lease(here.as_ref(), wait));
            state.generations.extend(self.generations.clone());
            state.deleting = match self.deletes {
                None => state.deleting,
                Some(true) => state.deleting.or_else(|| Some(self.systems.clock.now())),
                Some(false) => None,
            };
            sent = self.systems.clock.reading();
            Ok(())
        })
        .await?;
        self.validity.renewed(sent);
        Ok(before.unwrap_or_default())
    }

    /// The lease may be taken: it is free, or was left by a run from here, which is gone.
    fn not_others(&self, lease: Option<&Lease>) -> Result<()> {
        match lease {
            Some(lease) if !self.holder.is_here(lease) => Err(busy(lease)),
            _ => Ok(()),
        }
    }

    /// Nothing may be written by a run that does not hold the lease any more.
    fn must_hold(&self, lease: Option<&Lease>) -> Result<()> {
        match lease {
            Some(lease) if self.holder.has(lease) => Ok(()),
            Some(lease) if self.holder.is_here(lease) => Err(taken_over_from_here(&lease.holder)),
            Some(lease) => Err(taken_over(Some(&lease.holder))),
            None => Err(taken_over(None)),
        }
    }

    /// Renews the lease.
    ///
    /// # Errors
    ///
    /// [`Kind::Busy`] when another operator took it over: this run must stop changing things.
    pub async fn renew(&self) -> Result<()> {
        self.hold(|now| self.must_hold(now)).await.map(|_| ())
    }

    /// Why no renewal can ever succeed again, where Proxmox shows it. What is not known is no reason to stop.
    pub(crate) async fn lost(&self) -> Option<Error> {
        let (vmid, pve) = (self.vmid, &self.systems.pve);
        let is_free = async || pve.vmid_exists(vmid).await.is_ok_and(|exists| !exists);
        if is_free().await {
            // Asked twice, as everywhere before a VM counts as gone.
            self.systems.clock.sleep(TO_AGREE).await;
            return is_free().await.then(|| {
                let what = format!(
                    "the cluster record VM {vmid} was deleted: the cluster was deleted, or only this VM of it"
                );
                Error::new(Kind::Busy, what)
                    .hint("nothing more is changed by this run; `talosmith status` shows what is left")
            });
        }
        let here = pve.vm_config(&self.host, vmid).await;
        if !here.is_err_and(|error| error.is_missing()) {
            return None;
        }
        let (now, _) = missing::seek(&self.systems, vmid).await.ok()??;
        let what = format!("the cluster record VM {vmid} was migrated from {} to {now}", self.host);
        Some(Error::new(Kind::Stale, what).hint("run the command again to continue"))
    }

    /// The Proxmox host that its VM is on, as far as is known.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// When it was renewed last, and what follows from that.
    pub(crate) fn validity(&self) -> &Validity {
        &self.validity
    }

    /// Releases the lease. Another run's stays. Says whether ours stays, too.
    ///
    /// # Errors
    ///
    /// When Proxmox refuses; the lease then ends by itself.
    pub async fn release(&self) -> Result<bool> {
        let mut stays = false;
        self.change(|state| {
            let ours = state.lease.as_ref().filter(|lease| self.holder.has(lease));
            // During a take-over the one before may still be at work: the lease stays, and with it the wait.
            stays = ours.is_some_and(|lease| lease.outwaits.is_some());
            if ours.is_some() && !stays {
                state.lease = None;
            }
            Ok(())
        })
        .await?;
        Ok(stays)
    }

    /// Writes that etcd is about to be started on `node`.
    ///
    /// # Errors
    ///
    /// [`Kind::Refused`] when the record says that it was, elsewhere or for good; [`Kind::Busy`] when the lease is not ours.
    pub async fn mark_bootstrap(&self, node: &str) -> Result<()> {
        self.change(|state| {
            self.must_hold(state.lease.as_ref())?;
            match &state.bootstrap {
                None => {
                    let at = self.systems.clock.now();
                    state.bootstrap = Some(BootstrapMark::new(node, at, false));
                    Ok(())
                }
                Some(mark) if mark.node == node && !mark.done => Ok(()),
                Some(mark) => Err(Error::new(
                    Kind::Refused,
                    format!(
                        "etcd was bootstrapped on {} at {}",
                        mark.node,
                        mark.at.strftime("%Y-%m-%d %H:%M:%S UTC")
                    ),
                )
                .hint("a second etcd must never be created; `talosmith status` shows the cluster")),
            }
        })
        .await
    }

    /// Writes that etcd runs, so that it is never started again.
    ///
    /// # Errors
    ///
    /// When Proxmox refuses.
    pub async fn seal_bootstrap(&self, node: &str) -> Result<()> {
        self.change(|state| {
            let started = state.bootstrap.take();
            let started = started.unwrap_or_else(|| BootstrapMark::new(node, self.systems.clock.now(), true));
            state.bootstrap = Some(BootstrapMark { done: true, ..started });
            Ok(())
        })
        .await
    }

    /// Writes a record whose line was lost, with the lease taken and etcd bootstrapped: a node is a `member` of it.
    ///
    /// # Errors
    ///
    /// When it is not ours, or another run wrote it meanwhile.
    pub(crate) async fn restore(&self, member: &str, progress: &Progress) -> Result<()> {
        let attempt = || {
            let what = format!("could not restore the cluster record VM {} on {}", self.vmid, self.host);
            Error::systems(what)
        };
        let failed = |e: pve::Error| attempt().hint(hint(&e)).because(e);
        let config = self.systems.pve.vm_config(&self.host, self.vmid).await.map_err(failed)?;
        self.refuse_newer(&config)?;
        let mark = self.own_mark(&config).map_err(|why| {
            attempt().hint("its notes changed after it was observed; run the command again").because(why)
        })?;
        if RecordState::find(config.description()).is_some() {
            // Another run did it, and changed things since the plan was made.
            progress.only_waiting(self.take_lease(u64::MAX, |note| progress.note(note))).await?;
            return self.seal_bootstrap(member).await;
        }
        let (lease, sent) = (self.lease(None, Some(SUCCESSOR_WAITS)), self.systems.clock.reading());
        // How often the lease changed hands is lost, too. A number that it never had makes every older plan stale.
        let turns = u64::try_from(self.systems.clock.now().as_second()).unwrap_or(u64::MAX);
        let state = RecordState {
            version: VERSION,
            lease: Some(lease),
            bootstrap: Some(self.sealed(member)),
            turns,
            generations: self.generations.clone(),
            ..RecordState::default()
        };
        let params = Params::from([("description".to_owned(), self.notes(&config, &mark, &state))]);
        let (host, vmid) = (&self.host, self.vmid);
        let written = self.systems.pve.update_config(host, vmid, &params, &[], Some(&config.digest)).await;
        written.map_err(failed)?;
        match self.read().await? {
            read if read == state => self.validity.renewed(sent),
            _ => return Err(attempt().hint("another run wrote it meanwhile; run the command again")),
        }
        Ok(())
    }

    /// The mark that etcd is bootstrapped, as seen now.
    fn sealed(&self, member: &str) -> BootstrapMark {
        BootstrapMark::new(member, self.systems.clock.now(), true)
    }

    /// Reads the record.
    ///
    /// # Errors
    ///
    /// When it is not there, or is not ours.
    pub async fn read(&self) -> Result<RecordState> {
        Ok(self.fetch().await?.0)
    }

    /// What a newer Talosmith wrote is neither used nor overwritten.
    fn refuse_newer(&self, config: &VmConfig) -> Result<()> {
        let notes = config.description();
        if !newer(&Mark::read(notes)) && !newer(&RecordState::read(notes)) {
            return Ok(());
        }
        let what =
            format!("the notes of VM {} on {} were written by a newer Talosmith", self.vmid, self.host);
        Err(Error::new(Kind::Refused, what).hint("upgrade this program; nothing was changed"))
    }

    /// The mark of the record's VM, if it is the one that Talosmith made.
    fn own_mark(&self, config: &VmConfig) -> std::result::Result<Mark, Foreign> {
        let mark = Mark::find(config.description()).ok_or(Foreign::Another)?;
        ownership::may(Act::Change, &self.blueprint, &evidence(self.vmid, &mark, config), RECORD_NODE)?;
        Ok(mark)
    }

    /// The notes with this state, in the place of those of `config`.
    fn notes(&self, config: &VmConfig, earlier: &Mark, state: &RecordState) -> String {
        let vmgenid = config.get("vmgenid").and_then(|id| id.parse().ok());
        self.mark.clone().in_place_of(earlier, earlier.vmgenid.or(vmgenid)).describe_record(state)
    }

    async fn fetch(&self) -> Result<(RecordState, Mark, VmConfig)> {
        let config = self.systems.pve.vm_config(&self.host, self.vmid).await.map_err(|e| {
            Error::systems(format!("could not read the cluster record VM {} on {}", self.vmid, self.host))
                .hint(hint(&e))
                .because(e)
        })?;
        let not_ours = || {
            Error::new(
                Kind::Refused,
                format!("VM {} on {} is not the record VM of this cluster", self.vmid, self.host),
            )
        };
        self.refuse_newer(&config)?;
        let mark = self.own_mark(&config).map_err(|why| {
            not_ours().hint("run `talosmith plan`: it shows the current state and what to do").because(why)
        })?;
        match RecordState::find(config.description()) {
            Some(state) => Ok((state, mark, config)),
            None => Err(not_ours().hint(
                "its notes were changed; restore the lines `talosmith-mark:` and `talosmith-record:` from a backup",
            )),
        }
    }

    /// A machine is about to receive the cluster's keys: proved, or known by no more than this. The record says so before they
    /// leave, because afterwards this run may end at any moment, and the next one finds a machine that has its keys already.
    pub(crate) async fn note_identity(&self, node: &str, unproved: Option<&str>) -> Result<()> {
        self.identities().give(node, unproved);
        let _turn = self.turn.lock().await;
        let is_listed = self.identities().is_listed(node, unproved);
        if is_listed { Ok(()) } else { self.change(|_| Ok(())).await }
    }

    /// A Proxmox host is drained of these nodes, or not drained any more.
    pub(crate) async fn note_drain(&self, host: &str, nodes: Option<&BTreeSet<NodeName>>) -> Result<()> {
        let _turn = self.turn.lock().await;
        self.change(|state| {
            self.must_hold(state.lease.as_ref())?;
            match nodes {
                Some(nodes) => drop(state.drained.insert(host.to_owned(), nodes.clone())),
                None => drop(state.drained.remove(host)),
            }
            Ok(())
        })
        .await
    }

    /// The same record, whose VM was moved to another Proxmox host by this run.
    pub(crate) fn moved_to(&self, host: &str) -> Self {
        Self { host: host.to_owned(), ..self.clone() }
    }

    /// What answers for a machine is not proved to be it.
    pub(crate) fn note_doubt(&self, node: &str, why: &str) {
        self.identities().doubt(node, why);
    }

    /// The VM of a control plane node has this generation; what is written next says so.
    pub(crate) fn has_generation(&self, node: &str, generation: Uuid) {
        self.identities().has_generation(node, generation);
    }

    fn identities(&self) -> MutexGuard<'_, Identities> {
        self.identities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads, changes, writes; again when another run wrote in between.
    async fn change(&self, mut change: impl FnMut(&mut RecordState) -> Result<()>) -> Result<()> {
        let mut attempt = 1;
        loop {
            let (mut state, mark, config) = self.fetch().await?;
            let before = state.clone();
            change(&mut state)?;
            self.identities().add_to(&mut state);
            if state == before {
                self.identities().written(&state);
                return Ok(());
            }
            let mut params = Params::from([("description".to_owned(), self.notes(&config, &mark, &state))]);
            // A run that died behind the creation left it without.
            params.extend(tags::missing(&config, &self.tags).map(|tags| ("tags".to_owned(), tags)));
            let digest = Some(config.digest.as_str());
            match self.systems.pve.update_config(&self.host, self.vmid, &params, &[], digest).await {
                Ok(()) => {
                    self.identities().written(&state);
                    return Ok(());
                }
                Err(error) if attempt < ATTEMPTS && worth_another_try(&error) => {
                    attempt += 1;
                    self.systems.clock.sleep(Duration::from_millis(500)).await;
                }
                Err(error) => {
                    return Err(Error::systems(format!(
                        "could not write the cluster record VM {} on {}",
                        self.vmid, self.host
                    ))
                    .hint(hint(&error))
                    .because(error));
                }
            }
        }
    }

    /// Our lease from now on: one that we have already goes on, and a wait that is not over is also an earlier run's from here.
    fn lease(&self, here: Option<&Lease>, wait: Option<Duration>) -> Lease {
        let now = self.systems.clock.now();
        let ours = here.filter(|lease| self.holder.has(lease));
        let wait = wait.and_then(|wait| u32::try_from(wait.as_secs()).ok());
        Lease {
            holder: self.holder.operator.name.clone(),
            nonce: self.holder.operator.place.clone(),
            run: Some(self.holder.run.clone()),
            since: ours.map_or(now, |ours| ours.since),
            expires: now.saturating_add(HOLDER_STOPS).unwrap_or(Timestamp::MAX),
            stops_after: u32::try_from(HOLDER_STOPS.as_secs()).ok(),
            outwaits: wait.or_else(|| here?.outwaits),
        }
    }
}

/// A lost race, a busy node, or an answer that got lost: the next round reads again and finds out what is so.
fn worth_another_try(error: &pve::Error) -> bool {
    matches!(error.kind(), pve::Kind::DigestMismatch) || error.is_transient() || error.effect_unknown()
}

fn newer<T>(line: &Line<T>) -> bool {
    matches!(line, Line::Newer { .. })
}

fn mark(blueprint: &Blueprint, cluster_id: &str) -> Mark {
    Mark::new(&blueprint.cluster, Mark::owner_of(cluster_id), RECORD_NODE)
}
