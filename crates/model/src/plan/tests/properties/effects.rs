//! A plan that was carried out leaves nothing to do.

use proptest::prelude::*;

use super::super::*;

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
    let guest = Guest { name: Some(node.name.clone()), host: node.host.clone().unwrap(), lock: None };
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
        not_ready: None,
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
    let node = action.node().map(|name| &blueprint.nodes[name]);
    match (action, node) {
        (Action::CreateRecord { host, vmid, .. }, _) => {
            let state = RecordState::default();
            world.proxmox.record =
                Some(RecordSeen { vmid: *vmid, host: host.clone(), state, unreadable: false });
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
        (other, _) => panic!("a bring-up does not ask for {other:?}"),
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
