//! Invariants 1 to 3: how often etcd was bootstrapped, and whether a majority survives what is asked for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::Allowance;
use super::target::Target;
use crate::calls::Call;
use crate::machine::EtcdView;
use crate::world::World;

/// What must be remembered from call to call.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Machines that were asked to bootstrap etcd by those who are watched.
    asked: BTreeSet<u32>,
    /// The clusters of each identity, as long as any machine has that identity.
    bootstrapped: BTreeMap<String, BTreeSet<u64>>,
    /// Those of identities that were gone meanwhile, and those that were told.
    done_with: BTreeSet<u64>,
    /// Control plane nodes that were disrupted and are not back yet: when, and whether they were seen to be down since.
    disrupted: BTreeMap<u32, (Timestamp, bool)>,
    /// Whether a snapshot was taken since etcd was last disrupted.
    has_snapshot: bool,
}

/// After this a node that was never seen to go down is not going to.
const GOES_DOWN: SignedDuration = SignedDuration::from_mins(5);

impl Memory {
    /// Invariants 2 and 3, for a call that is about to be made.
    pub(super) fn before(
        &mut self,
        call: &Call,
        target: &Target,
        allowance: Allowance,
        world: &World,
    ) -> Option<(u8, String)> {
        if call.path.ends_with("/Bootstrap") {
            self.asked.extend(call.machine);
        }
        let (vmid, member) = match *target {
            Target::Restart(vmid) | Target::Delete(vmid) => (vmid, true),
            Target::Member(vmid) => (vmid, false),
            _ => return None,
        };
        let views = world.machines.etcd_views();
        // Of several clusters, a machine is in the one whose data it has.
        let own = world.machines.etcd_of(vmid).map(|etcd| etcd.id);
        let view = views.iter().find(|view| Some(view.id) == own)?;
        if !view.members.iter().any(|member| member.vmid == vmid) {
            return None;
        }
        self.follow(&views, world.now);
        let outage = allowance.api_outage && self.has_snapshot;
        let majority = majority(view, vmid, member, outage).or_else(|| is_second(view, vmid, member));
        // The machine that is asked stays; another one is removed.
        let removes_another = call.path.ends_with("/EtcdRemoveMemberByID");
        let one = self.one_at_a_time(vmid, member, removes_another, world.now);
        majority.or(one)
    }

    /// A call was answered.
    pub(super) fn after(&mut self, call: &Call, outcome: &str) {
        if call.path.ends_with("/EtcdSnapshot") && outcome.starts_with("200") {
            self.has_snapshot = true;
        }
    }

    /// To remove the member of a node that is down takes nothing more from etcd: it is how that node is replaced.
    fn one_at_a_time(
        &mut self,
        vmid: u32,
        member: bool,
        removes_another: bool,
        now: Timestamp,
    ) -> Option<(u8, String)> {
        let awaited =
            |(other, (_, down)): &(&u32, &(Timestamp, bool))| **other != vmid && !(removes_another && *down);
        let other = self.disrupted.iter().find(awaited).map(|(other, _)| *other);
        if member {
            self.disrupted.insert(vmid, (now, false));
        }
        Some((3, format!("VM {vmid} is disrupted while VM {} is not back yet", other?)))
    }

    /// Takes note of who went down since it was disrupted, and of who is back.
    fn follow(&mut self, views: &[EtcdView], now: Timestamp) {
        let members: BTreeMap<u32, bool> =
            views.iter().flat_map(|view| &view.members).map(|member| (member.vmid, member.up)).collect();
        self.disrupted.retain(|vmid, (at, down)| {
            // One that has left is not awaited.
            let Some(is_up) = members.get(vmid).copied() else { return false };
            *down |= !is_up;
            !(is_up && (*down || now.duration_since(*at) > GOES_DOWN))
        });
    }

    /// Invariant 1: what is wrong with the number of clusters, if anything is.
    pub(super) fn count(&mut self, world: &World) -> Option<String> {
        if world.machines.etcd_clusters() == 0 {
            return None;
        }
        let gone: Vec<String> =
            self.bootstrapped.keys().filter(|key| !world.machines.anybody_has_key(key)).cloned().collect();
        for key in gone {
            self.done_with.extend(self.bootstrapped.remove(&key).unwrap_or_default());
        }
        let views = world.machines.etcd_views();
        self.follow(&views, world.now);
        let mut wrong = None;
        for view in views {
            if view.restored || self.done_with.contains(&view.id) {
                continue;
            }
            let known = self.bootstrapped.entry(view.key.clone()).or_default();
            let ours = view.members.iter().any(|member| self.asked.contains(&member.vmid));
            if known.insert(view.id) && known.len() > 1 && ours {
                wrong = Some(format!("etcd was bootstrapped {} times for one identity", known.len()));
            }
        }
        wrong
    }
}

/// A member that is up goes down while another one is down, whatever took that one down.
fn is_second(view: &EtcdView, vmid: u32, member: bool) -> Option<(u8, String)> {
    let is_up = view.members.iter().any(|other| other.vmid == vmid && other.up);
    let other = view.members.iter().find(|other| other.vmid != vmid && !other.up)?;
    (member && is_up).then(|| (3, format!("VM {vmid} is disrupted while VM {} is down", other.vmid)))
}

fn majority(view: &EtcdView, vmid: u32, member: bool, outage: bool) -> Option<(u8, String)> {
    let (voters, need) = (view.voters(), view.majority());
    let up = if member { view.up_without(vmid) } else { view.up_without(0) };
    let is_up = view.members.iter().any(|other| other.vmid == vmid && other.up);
    // With one or two voters a restart is an outage that was approved, after a snapshot. One that is down already loses nothing more.
    if up >= need || (voters <= 2 && (outage || !is_up)) {
        return None;
    }
    let what = format!(
        "VM {vmid} is disrupted while {up} of {voters} voters of etcd would be up without it; {need} are needed"
    );
    Some((2, what))
}
