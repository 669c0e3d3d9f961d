//! A plan that was carried out leaves nothing to do.

use proptest::prelude::*;

use super::super::*;
use crate::observed::{ConfigChange, ConfigCost, ConfigDifference, Removed};
use crate::plan::tests::sketch::cordoned;

/// How far a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Absent,
    Created,
    Waiting,
    Configured,
    Joined,
}

fn stage() -> impl Strategy<Value = Stage> {
    prop_oneof![
        1 => Just(Stage::Absent),
        1 => Just(Stage::Created),
        1 => Just(Stage::Waiting),
        1 => Just(Stage::Configured),
        3 => Just(Stage::Joined),
    ]
}

/// A bring-up that stopped anywhere. Before etcd was bootstrapped no node has joined.
fn stopped_at(blueprint: &Blueprint, stages: &[Stage], bootstrapped_already: bool) -> Observed {
    let mut world = empty_world();
    let any = stages.iter().any(|s| *s != Stage::Absent);
    if any || bootstrapped_already {
        let state = if bootstrapped_already { bootstrapped("cp-1", true) } else { RecordState::default() };
        world.proxmox.record =
            Some(RecordSeen { vmid: 150_010, host: "pve1".to_owned(), state, unreadable: false });
    }
    for (node, stage) in blueprint.nodes.values().zip(stages) {
        // The first control plane node has etcd's data, once there is any.
        let stage = match (*stage, bootstrapped_already) {
            (_, true) if node.name == "cp-1" => Stage::Joined,
            (Stage::Joined, false) => Stage::Configured,
            (stage, _) => stage,
        };
        if stage >= Stage::Created {
            create(&mut world, node);
        }
        if stage >= Stage::Waiting {
            start(&mut world, node);
        }
        if stage >= Stage::Configured {
            configure(&mut world, node);
        }
        if stage == Stage::Joined {
            join(&mut world, node);
        }
    }
    world
}

impl PartialOrd for Stage {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (*self as u8).partial_cmp(&(*other as u8))
    }
}

fn create(world: &mut Observed, node: &Node) {
    world.proxmox.marked.push(vm(node, false));
    let guest = Guest { name: Some(node.name.to_string()), host: node.host.clone().unwrap(), lock: None };
    world.proxmox.taken.insert(node.vmid, guest);
}

fn start(world: &mut Observed, node: &Node) {
    let vm = world.proxmox.marked.iter_mut().find(|vm| vm.mark.node == node.name).unwrap();
    vm.running = true;
    world.machines.entry(node.name.clone()).or_insert_with(|| Machine::with(Api::Maintenance));
}

fn configure(world: &mut Observed, node: &Node) {
    let seen = world.machines.get_mut(&node.name).unwrap();
    if seen.api == Api::Maintenance {
        *seen = Machine { ready: false, ..machine(Api::Configured, Etcd::Empty) };
    }
}

fn join(world: &mut Observed, node: &Node) {
    let seen = world.machines.get_mut(&node.name).unwrap();
    seen.ready = true;
    if node.role == Role::ControlPlane {
        seen.etcd = voter(node);
    }
    let k = KubernetesNode {
        ready: true,
        version: "v1.35.4".to_owned(),
        schedulable: true,
        uninitialized: false,
        ..KubernetesNode::default()
    };
    world.kubernetes.answered = true;
    world.kubernetes.nodes.insert(node.name.clone(), k);
}

fn voter(node: &Node) -> Etcd {
    let id = format!("{:x}", node.vmid);
    Etcd::Member { id: id.clone(), learner: false, members: Some(vec![member(&id, &node.name)]) }
}

/// What a step leaves behind, once it is done.
fn take_effect(world: &mut Observed, blueprint: &Blueprint, action: &Action) {
    let node = action.node().and_then(|name| blueprint.nodes.get(name));
    match (action, node) {
        (Action::CreateRecord { vm, .. }, _) => {
            let state = RecordState::default();
            world.proxmox.record =
                Some(RecordSeen { vmid: vm.vmid, host: vm.host.clone(), state, unreadable: false });
        }
        (Action::CreateVm { .. }, Some(node)) => create(world, node),
        (Action::StartVm { .. }, Some(node)) => start(world, node),
        (Action::Configure { .. }, Some(node)) => configure(world, node),
        (Action::Bootstrap { .. }, Some(node)) => {
            world.machines.get_mut(&node.name).unwrap().etcd = voter(node);
            world.proxmox.record.as_mut().unwrap().state = bootstrapped(&node.name, true);
        }
        (Action::Join { .. }, Some(node)) => join(world, node),
        (Action::RegisterSchematic { .. } | Action::DownloadImage { .. } | Action::CheckHealth, _) => {}
        (action, _) => take_effect_on(world, action),
    }
}

/// What a step leaves behind of a node that exists.
fn take_effect_on(world: &mut Observed, action: &Action) {
    let name = action.node().map(str::to_owned).unwrap_or_default();
    let vm = world.proxmox.marked.iter_mut().find(|vm| vm.mark.node == name);
    let seen = world.kubernetes.nodes.get_mut(&name);
    match action {
        Action::SnapshotEtcd | Action::MoveLeadership { .. } | Action::VerifyNode { .. } => {}
        Action::UpdateVm { set, .. } => {
            let vm = vm.unwrap();
            vm.pending.retain(|key, _| !set.contains_key(key));
            vm.config.extend(set.clone());
        }
        Action::PowerCycleVm { set, .. } => {
            let vm = vm.unwrap();
            let pending = std::mem::take(&mut vm.pending);
            vm.config.extend(pending.into_iter().filter_map(|(key, value)| Some((key, value?))));
            vm.config.extend(set.clone());
        }
        Action::DeleteDisk { disk, volume, .. } => {
            assert!(vm.unwrap().config.remove(disk).unwrap().starts_with(volume.as_str()));
        }
        Action::Reconfigure { .. } => {
            let machine = world.machines.get_mut(&name).unwrap();
            (machine.config_digest, machine.config_changes) = (Some("ours".to_owned()), Some(vec![]));
        }
        Action::DrainNode { .. } => {
            let seen = seen.unwrap();
            // A person's cordon stays a person's.
            if seen.schedulable {
                (seen.schedulable, seen.cordoned) = (false, Some("a restart".to_owned()));
            }
        }
        Action::UncordonNode { .. } => {
            let seen = seen.unwrap();
            assert!(seen.cordoned.take().is_some(), "{name} was not cordoned by Talosmith");
            seen.schedulable = true;
        }
        Action::LeaveEtcd { .. } => {
            for machine in world.machines.values_mut() {
                if let Etcd::Member { members: Some(members), .. } = &mut machine.etcd {
                    members.retain(|member| member.name != name);
                }
            }
        }
        Action::StopVm { .. } => vm.unwrap().running = false,
        Action::DeleteNode { .. } => {
            world.kubernetes.nodes.remove(&name).unwrap();
        }
        Action::DeleteVm { vm: at, .. } => {
            assert!(!vm.unwrap().running, "{name} runs");
            world.proxmox.marked.retain(|vm| vm.mark.node != name);
            world.proxmox.taken.remove(&at.vmid);
            world.machines.remove(&name);
            world.removed.remove(&name);
        }
        other => panic!("no effect of {other:?} is known"),
    }
}

/// What of a node of a healthy cluster is not as the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    Config(ConfigCost),
    Cores,
    /// They wait in Proxmox.
    Pending,
    Bridge,
    Disk,
    /// Talosmith cordoned it, and the run ended there.
    Cordoned,
    /// A person cordoned it, and its cores differ.
    Kept,
    Dead,
    /// The file does not have it any more.
    Removed,
}

fn change() -> impl Strategy<Value = Change> {
    let cost = prop_oneof![Just(ConfigCost::Nothing), Just(ConfigCost::Services), Just(ConfigCost::Reboot)];
    let vm =
        prop_oneof![Just(Change::Cores), Just(Change::Pending), Just(Change::Bridge), Just(Change::Disk)];
    let node =
        prop_oneof![Just(Change::Cordoned), Just(Change::Kept), Just(Change::Dead), Just(Change::Removed)];
    prop_oneof![2 => Just(Change::None), 1 => cost.prop_map(Change::Config), 1 => vm, 1 => node]
}

fn make(world: &mut Observed, blueprint: &mut Blueprint, name: &str, change: Change) {
    let vm = world.proxmox.marked.iter_mut().find(|vm| vm.mark.node == name).unwrap();
    let vmid = vm.vmid;
    let mut set = |key: &str, value: String| vm.config.insert(key.to_owned(), value);
    let machine = world.machines.get_mut(name).unwrap();
    (machine.config_digest, machine.config_changes) = (Some("ours".to_owned()), Some(vec![]));
    match change {
        Change::None => {}
        Change::Config(costs) => {
            machine.config_digest = Some("other".to_owned());
            let (path, difference) = ("at".to_owned(), ConfigDifference::Changed);
            machine.config_changes = Some(vec![ConfigChange { path, costs, difference }]);
        }
        Change::Cores => drop(set("cores", "8".to_owned())),
        Change::Pending => {
            set("cores", "8".to_owned());
            vm.pending.insert("cores".to_owned(), Some("2".to_owned()));
        }
        Change::Bridge => {
            let card = vm.config["net0"].replace("bridge=vmbr0", "bridge=vmbr7");
            vm.config.insert("net0".to_owned(), card);
        }
        Change::Disk => {
            drop(set("scsi1", format!("local-lvm:vm-{vmid}-disk-1,size=9G,wwn=0x59387dea28bb01e3")))
        }
        Change::Cordoned => cordoned(world, name, Some("a restart")),
        Change::Kept => {
            set("cores", "8".to_owned());
            cordoned(world, name, None);
        }
        Change::Dead => {
            world.machines.insert(name.into(), Machine::unresponsive("no route to host"));
            world.kubernetes.nodes.get_mut(name).unwrap().ready = false;
        }
        Change::Removed => {
            let node = blueprint.nodes.remove(name).unwrap();
            world.kubernetes.nodes.get_mut(name).unwrap().control_plane = node.role == Role::ControlPlane;
            let removed = Removed {
                vmid,
                host: node.host.clone().unwrap(),
                role: node.role,
                address: None,
                disks: BTreeMap::new(),
                unmanaged_pods: Some(vec![]),
            };
            world.removed.insert(name.into(), removed);
        }
    }
}

proptest! {
    /// Every change of a healthy cluster, with everything allowed that it needs: one control plane node at most is dead or leaves, so that
    /// the gate has nothing against it.
    #[test]
    fn units_that_took_effect_leave_nothing_to_do(changes in prop::collection::vec(change(), 5), voters in 1usize..=3) {
        let mut blueprint = blueprint();
        let second = node("w-2", Role::Worker, 22, "pve2");
        blueprint.nodes.insert(second.name.clone(), second);
        blueprint.nodes.retain(|name, _| !["cp-1", "cp-2", "cp-3"][voters..].contains(&name.as_str()));
        let mut world = healthy_world(&blueprint);
        let mut rendered = rendered();
        let (mut disks, mut gone) = (BTreeMap::new(), false);
        for (name, change) in ["cp-1", "cp-2", "cp-3", "w-1", "w-2"].iter().zip(&changes) {
            rendered.configs.insert((*name).into(), "ours".to_owned());
            let goes = matches!(change, Change::Dead | Change::Removed);
            if !blueprint.nodes.contains_key(*name) || (goes && name.starts_with("cp-") && (gone || voters < 3)) {
                continue;
            }
            gone |= goes && name.starts_with("cp-");
            make(&mut world, &mut blueprint, name, *change);
            disks.insert((*name).into(), BTreeSet::from(["scsi1".to_owned()]));
        }
        let nodes = ["cp-1", "cp-2", "cp-3", "w-1", "w-2"];
        let allowed = Allowed { disks, removed: true, api_outage: true, ..Allowed::data_of(nodes) };
        let first = plan_allowing(&blueprint, &rendered, &world, &allowed);
        prop_assert_eq!(&first.refusals, &vec![]);
        prop_assert_eq!(&first.blocked, &vec![]);
        for step in &first.steps {
            take_effect(&mut world, &blueprint, &step.action);
        }
        let again = plan_allowing(&blueprint, &rendered, &world, &allowed);
        prop_assert!(again.is_empty(), "{:?} {:?} {:?}", ids(&again), again.refusals, again.blocked);
        for (name, change) in nodes.iter().zip(&changes) {
            let cordon = world.kubernetes.nodes.get(*name).map(|seen| (seen.schedulable, seen.cordoned.is_some()));
            let left = (!matches!(change, Change::Kept), false);
            prop_assert!(cordon.is_none_or(|cordon| cordon == left), "{} {:?}", name, cordon);
        }
    }
}

proptest! {
    #[test]
    fn a_plan_that_took_effect_leaves_nothing_to_do(
        stages in prop::collection::vec(stage(), 4),
        bootstrapped_already in any::<bool>(),
    ) {
        let blueprint = blueprint();
        let mut world = stopped_at(&blueprint, &stages, bootstrapped_already);
        let first = plan(&blueprint, &rendered(), &world);
        prop_assert_eq!(&first.refusals, &vec![]);
        for step in &first.steps {
            take_effect(&mut world, &blueprint, &step.action);
        }
        let again = plan(&blueprint, &rendered(), &world);
        prop_assert!(again.is_empty(), "{:?} {:?}", ids(&again), again.refusals);
    }
}
