//! The program dies before or after any call of a move, a replacement, a drain of a host or a removal of a member; the same command, and
//! then `apply`, finish it. Every invariant of the lab holds all the time.

use std::time::Duration;

use engine::Snapshot;
use model::allowed::Allowed;
use model::event::Outcome;
use model::plan::Plan;
use model::plan::by_hand::{ByHand, Hand};

use super::{planned, uid};
use crate::moments::{self, Moment};
use crate::restart::scale_down::{five, members};
use crate::rig::{HOME, Rig, in_parallel, runtime, setting};

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// A worker moves to the host that the file says.
    Move,
    /// The same, and it is shut down for it.
    MoveOff,
    /// A host is drained.
    Drain,
    /// A healthy control plane node is replaced.
    Replace,
    /// A healthy worker with a data disk is replaced.
    ReplaceWithDisk,
    /// A member whose VM is gone is removed.
    Member,
}

const ALL: [Of; 6] = [Of::Move, Of::MoveOff, Of::Drain, Of::Replace, Of::ReplaceWithDisk, Of::Member];

/// The generation of a VM, its data disk, and its node in Kubernetes.
type Identity = (Option<String>, Option<String>, Option<String>);

impl Of {
    fn file(self) -> String {
        // What must stay so for a while is no part of what can go wrong here.
        let home = format!("{HOME}changes: {{ soak: 5s }}\n");
        match self {
            Self::Move | Self::MoveOff => home + "nodes: { home-work-1: { host: pve3 } }\n",
            Self::ReplaceWithDisk => home + "nodes: { home-work-1: { disks: { data: { size: 10G } } } }\n",
            Self::Member => home.replace("count: 3", "count: 4"),
            Self::Drain | Self::Replace => home,
        }
    }

    async fn rig(self) -> Rig {
        match self {
            Self::Member => {
                let rig = five().await;
                rig.lab.person().power_off(150_015).unwrap();
                rig.lab.person().delete(150_015).unwrap();
                rig.systems.clock.sleep(Duration::from_secs(120)).await;
                rig
            }
            Self::ReplaceWithDisk => {
                let rig = Rig::healthy().await;
                let ran = rig.apply(&self.file()).await;
                assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
                rig
            }
            _ => Rig::healthy().await,
        }
    }

    /// The VM that it is about, where it is about one.
    fn vmid(self) -> u32 {
        if self == Self::Replace { 150_013 } else { 150_021 }
    }

    async fn identity(self, rig: &Rig) -> Identity {
        let resources = rig.systems.pve.cluster_resources().await.unwrap();
        let listed = resources.into_iter().find(|r| r.vmid == Some(self.vmid().into()));
        let Some(host) = listed.and_then(|r| r.node) else { return (None, None, None) };
        let Ok(config) = rig.systems.pve.vm_config(&host, self.vmid()).await else {
            return (None, None, None);
        };
        (
            config.get("vmgenid").map(str::to_owned),
            config.drive("scsi1").map(|drive| drive.volume),
            uid(rig, "home-work-1"),
        )
    }

    /// The command, as it is planned.
    async fn plan(self, rig: &Rig) -> (Snapshot, Plan) {
        let (file, none) = (self.file(), Allowed::default);
        let replace = |node: &str| ByHand { force: true, ..ByHand::of(Hand::Replace, [node]) };
        match self {
            Self::Drain => planned(rig, &file, &ByHand::of_host(Hand::DrainHost, "pve2"), none()).await,
            Self::Replace => planned(rig, &file, &replace("home-control-3"), none()).await,
            Self::ReplaceWithDisk => planned(rig, &file, &replace("home-work-1"), none()).await,
            Self::Move | Self::MoveOff | Self::Member => {
                let session = rig.session(&file).allowing(Allowed { removed: true, ..none() });
                let Ok(snapshot) = session.observe().await else { panic!("it can be observed") };
                let mut plan = snapshot.plan();
                for step in &mut plan.steps {
                    if let model::step::Action::MigrateVm { online, .. } = &mut step.action {
                        *online = self == Self::Move;
                    }
                }
                (snapshot, plan)
            }
        }
    }

    async fn is_done(self, rig: &Rig, before: &Identity) -> bool {
        if !rig.observe(&self.file()).await.plan().is_empty() {
            return false;
        }
        let now = self.identity(rig).await;
        match self {
            Self::Move | Self::MoveOff => rig.host_of(150_021).await == "pve3",
            Self::Drain => {
                let mut there = false;
                for vmid in [150_010, 150_011, 150_012, 150_013, 150_021, 150_022] {
                    there |= rig.host_of(vmid).await == "pve2";
                }
                !there
            }
            Self::Replace => now.0 != before.0,
            Self::ReplaceWithDisk => {
                assert_eq!((&now.0, &now.1), (&before.0, &before.1), "its VM and its data disk stay");
                uid(rig, "home-work-1").is_some_and(|now| Some(now) != before.2)
            }
            Self::Member => members(rig, HOME).await.iter().all(|list| list.len() == 4),
        }
    }

    /// Runs until nothing is left.
    async fn finish(self, rig: &Rig, before: &Identity, when: &str) {
        let mut told = vec![];
        for tries in 0..6 {
            if self.is_done(rig, before).await {
                let cordoned = rig.cordoned().await;
                assert!(cordoned.is_empty(), "{self:?}, {when}: {cordoned:?}");
                assert_eq!(rig.guard.leftovers(&rig.lab), [] as [&str; 0], "{self:?}, {when}");
                return;
            }
            let (snapshot, plan) = match tries % 2 {
                0 => self.plan(rig).await,
                // What the command does not do, because the node is on its way: `apply` waits for it.
                _ => {
                    rig.systems.clock.sleep(Duration::from_secs(60)).await;
                    let snapshot = rig.observe(&self.file()).await;
                    let plan = snapshot.plan();
                    (snapshot, plan)
                }
            };
            told.push(format!("{:?} {:?}", plan.refusals, plan.blocked));
            if plan.refusals.is_empty() {
                match Box::pin(rig.carry_out(&snapshot, &plan, "me")).await {
                    Ok(ran) => told.push(format!("{:?} {:?}", ran.outcome, ran.failures())),
                    Err(error) => told.push(format!("{:?}", error.causes())),
                }
            }
        }
        panic!("{self:?}, {when}: it does not come to an end: {told:#?}");
    }

    /// The labs of moments in which a run could die, of which each differs from the others: around each change, and around every nth of
    /// the other calls.
    async fn crashes(self, every: u64) -> (Identity, Vec<Moment>) {
        let rig = self.rig().await;
        let before = self.identity(&rig).await;
        let finish = self.finish(&rig, &before, "without a crash");
        let found = moments::around_changes(&rig, every, finish).await;
        (before, found)
    }
}

/// Dies at some moments, and finishes after each.
async fn die(of: Of, nth: usize) -> usize {
    let (before, crashes) = of.crashes(500).await;
    for Moment { systems, when, .. } in crashes.iter().step_by(nth) {
        of.finish(&Rig::copy_of(systems), &before, when).await;
    }
    crashes.len()
}

#[tokio::test(start_paused = true)]
async fn a_move_that_dies_is_finished() {
    assert!(die(Of::Move, 1).await > 3);
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_dies_is_finished_and_keeps_the_data_disk() {
    assert!(die(Of::ReplaceWithDisk, 3).await > 10);
}

/// Every moment of all. Takes minutes: `conformance/crashes/maintenance`.
#[test]
#[ignore = "takes minutes: conformance/crashes/maintenance"]
fn every_call_of_maintenance() {
    let every: u64 = setting("EVERY").unwrap_or(1);
    for of in ALL {
        let (before, crashes) = runtime().block_on(of.crashes(every));
        let tried = crashes.len();
        in_parallel(crashes, |Moment { systems, when, .. }| {
            // The lab needs the runtime from its first moment on.
            runtime().block_on(async { of.finish(&Rig::copy_of(systems), &before, when).await });
        });
        eprintln!("{of:?}: {tried} different moments to die in, all finished");
    }
}
