//! Random worlds: what may be seen of each node, of the record and of Kubernetes, in any combination. Many of them cannot come about; a
//! rule of safety holds in those as well.

use proptest::prelude::*;

use super::*;
use crate::observed::{ConfigChange, ConfigCost, ConfigDifference, Kubelet, Member, Removed};

/// The nodes of the file, and one that the file no longer has.
pub const NODES: [(&str, Role, u8); 6] = [
    ("cp-1", Role::ControlPlane, 11),
    ("cp-2", Role::ControlPlane, 12),
    ("cp-3", Role::ControlPlane, 13),
    ("w-1", Role::Worker, 21),
    ("w-2", Role::Worker, 22),
    ("gone-1", Role::ControlPlane, 14),
];

/// What Proxmox shows at a node's VM ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VmSeen {
    Absent,
    Off,
    Running,
    Locked,
    /// It is there and could not be read.
    Unread,
    /// It is ours by its UUID, and its notes lost the mark.
    Unmarked,
    /// A guest of another user has the ID.
    Foreign,
}

/// What a machine says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineSeen {
    NotAsked,
    Unreachable,
    Maintenance,
    Foreign,
    /// It has a configuration with other keys.
    OtherKeys,
    Configured {
        ready: bool,
        etcd: EtcdSeen,
        kubelet: Kubelet,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtcdSeen {
    Unknown,
    Empty,
    Data,
    Learner,
    Voter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordSketch {
    Absent,
    Unread,
    Unmarked,
    /// It is ours by its mark, and its line cannot be read.
    Unreadable,
    NoMark,
    Started,
    Done,
}

/// What of a node is not as the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drifted {
    Not,
    /// Its machine config, with this cost.
    Config(ConfigCost),
    Cores,
    Bridge,
    /// Cores, and its machine config.
    Both(ConfigCost),
}

impl Drifted {
    fn config(self) -> Option<ConfigCost> {
        match self {
            Self::Config(cost) | Self::Both(cost) => Some(cost),
            Self::Not | Self::Cores | Self::Bridge => None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct NodeSketch {
    pub vm: VmSeen,
    pub machine: MachineSeen,
    /// What Kubernetes says of it: nothing, or whether it is ready.
    pub ready: Option<bool>,
    pub drifted: Drifted,
    /// Whether a member of etcd tells how etcd is.
    pub tells: bool,
    /// Who cordoned it: no one, a person, or Talosmith.
    pub cordon: Option<bool>,
}

#[derive(Debug, Clone)]
pub struct Sketch {
    pub bundle: bool,
    pub record: RecordSketch,
    pub nodes: Vec<NodeSketch>,
    /// Voters that each member lists beside those of the sketch.
    pub others: usize,
    /// Nodes that each member lists although nothing is seen of them.
    pub unobserved: Vec<bool>,
    /// The list that every member gives. It does not change with what else is known.
    pub members: Vec<Member>,
    pub kubernetes: bool,
    /// Nodes that `--allow-destroy` names.
    pub allowed: Vec<bool>,
    /// Whether every node that the file does not have may be removed, and whether it is known what such a node is.
    pub removed: (bool, bool),
    pub api_outage: bool,
}

fn id(number: u32) -> String {
    format!("{number:x}")
}

fn vm_seen() -> impl Strategy<Value = VmSeen> {
    prop_oneof![
        2 => Just(VmSeen::Absent),
        1 => Just(VmSeen::Off),
        6 => Just(VmSeen::Running),
        1 => Just(VmSeen::Locked),
        1 => Just(VmSeen::Unread),
        1 => Just(VmSeen::Unmarked),
        1 => Just(VmSeen::Foreign),
    ]
}

fn machine_seen() -> impl Strategy<Value = MachineSeen> {
    let etcd = prop_oneof![
        1 => Just(EtcdSeen::Unknown),
        2 => Just(EtcdSeen::Empty),
        1 => Just(EtcdSeen::Data),
        1 => Just(EtcdSeen::Learner),
        5 => Just(EtcdSeen::Voter),
    ];
    let kubelet = prop_oneof![Just(Kubelet::Unknown), Just(Kubelet::Never), Just(Kubelet::Registered)];
    prop_oneof![
        1 => Just(MachineSeen::NotAsked),
        3 => Just(MachineSeen::Unreachable),
        1 => Just(MachineSeen::Maintenance),
        1 => Just(MachineSeen::Foreign),
        1 => Just(MachineSeen::OtherKeys),
        8 => (any::<bool>(), etcd, kubelet)
            .prop_map(|(ready, etcd, kubelet)| MachineSeen::Configured { ready, etcd, kubelet }),
    ]
}

fn drifted() -> impl Strategy<Value = Drifted> {
    let cost = prop_oneof![
        Just(ConfigCost::Nothing),
        Just(ConfigCost::Services),
        Just(ConfigCost::Reboot),
        Just(ConfigCost::Network),
        Just(ConfigCost::Volume),
    ];
    prop_oneof![
        4 => Just(Drifted::Not),
        2 => cost.clone().prop_map(Drifted::Config),
        1 => Just(Drifted::Cores),
        1 => Just(Drifted::Bridge),
        1 => cost.prop_map(Drifted::Both),
    ]
}

prop_compose! {
    fn node_seen()(
        vm in vm_seen(),
        machine in machine_seen(),
        ready in any::<Option<bool>>(),
        drifted in drifted(),
        tells in prop::bool::weighted(0.9),
        cordon in prop_oneof![8 => Just(None), 1 => Just(Some(true)), 1 => Just(Some(false))],
    ) -> NodeSketch {
        NodeSketch { vm, machine, ready, drifted, tells, cordon }
    }
}

/// Any combination; and, as often, a healthy cluster in which a few things are not as they should be.
pub fn sketches() -> impl Strategy<Value = Sketch> {
    let mostly_healthy = (any_world(), prop::collection::vec(prop::bool::weighted(0.75), NODES.len() + 2))
        .prop_map(|(mut sketch, well)| {
            for (((_, role, _), node), well) in NODES.iter().zip(&mut sketch.nodes).zip(&well) {
                let etcd = if *role == Role::ControlPlane { EtcdSeen::Voter } else { EtcdSeen::Empty };
                if *well {
                    node.vm = VmSeen::Running;
                    node.machine = MachineSeen::Configured { ready: true, etcd, kubelet: Kubelet::Unknown };
                    node.ready = Some(true);
                } else if node.vm == VmSeen::Running {
                    // The case that `--allow-destroy` is for.
                    node.machine = MachineSeen::Unreachable;
                }
            }
            sketch.bundle = true;
            sketch.kubernetes |= well[NODES.len()];
            if well[NODES.len() + 1] {
                sketch.record = RecordSketch::Done;
            }
            sketch
        });
    prop_oneof![any_world(), mostly_healthy].prop_map(|sketch| Sketch { members: sketch.members(), ..sketch })
}

prop_compose! {
    fn any_world()(
        bundle in prop::bool::weighted(0.9),
        record in prop_oneof![
            1 => Just(RecordSketch::Absent), 1 => Just(RecordSketch::Unread), 1 => Just(RecordSketch::Unmarked),
            1 => Just(RecordSketch::Unreadable),
            1 => Just(RecordSketch::NoMark), 1 => Just(RecordSketch::Started), 4 => Just(RecordSketch::Done)
        ],
        nodes in prop::collection::vec(node_seen(), NODES.len()),
        others in 0usize..3,
        unobserved in prop::collection::vec(prop::bool::weighted(0.7), NODES.len()),
        kubernetes in any::<bool>(),
        allowed in prop::collection::vec(any::<bool>(), NODES.len()),
        removed in (any::<bool>(), prop::bool::weighted(0.8)),
        api_outage in any::<bool>(),
    ) -> Sketch {
        Sketch { bundle, record, nodes, others, unobserved, members: vec![], kubernetes, allowed, removed, api_outage }
    }
}

/// Someone cordoned a node: Talosmith, where there is a reason.
pub fn cordoned(world: &mut Observed, node: &str, reason: Option<&str>) {
    let seen = world.kubernetes.nodes.get_mut(node).unwrap();
    (seen.schedulable, seen.cordoned) = (false, reason.map(str::to_owned));
}

/// The file: every node of [`NODES`] but the last.
pub fn file(sketch: &Sketch) -> Blueprint {
    let mut blueprint = blueprint();
    blueprint.nodes = all_nodes().into_iter().take(NODES.len() - 1).map(|n| (n.name.clone(), n)).collect();
    if !sketch.bundle {
        blueprint.cluster_id = None;
    }
    blueprint
}

/// What was rendered for the file.
pub fn configs() -> Rendered {
    let configs = NODES.iter().map(|(name, ..)| ((*name).into(), "ours".to_owned())).collect();
    Rendered { configs, ..rendered() }
}

pub fn all_nodes() -> Vec<Node> {
    let host = |last: u8| ["pve1", "pve2", "pve3"][usize::from(last) % 3];
    NODES.iter().map(|(name, role, last)| node(name, *role, *last, host(*last))).collect()
}

impl Sketch {
    pub fn allowed(&self) -> Allowed {
        let named = NODES.iter().zip(&self.allowed).filter(|(_, allowed)| **allowed);
        let (removed, api_outage) = (self.removed.0, self.api_outage);
        Allowed { removed, api_outage, ..Allowed::data_of(named.map(|((name, ..), _)| *name)) }
    }

    /// The members that each member lists.
    fn members(&self) -> Vec<Member> {
        let nodes = NODES.iter().zip(&self.nodes).zip(&self.unobserved);
        let seen = nodes.filter_map(|(((name, role, last), node), unobserved)| {
            let learner = match &node.machine {
                MachineSeen::Configured { etcd: EtcdSeen::Learner, .. } => true,
                MachineSeen::Configured { etcd: EtcdSeen::Voter, .. } => false,
                MachineSeen::Configured { .. } | MachineSeen::Maintenance => return None,
                _ if *unobserved => false,
                _ => return None,
            };
            let member =
                Member { id: id(u32::from(*last)), name: (*name).to_owned(), learner, peers: vec![] };
            (*role == Role::ControlPlane).then_some(member)
        });
        let others = (0..self.others).map(|n| Member {
            id: format!("f{n}"),
            name: format!("other-{n}"),
            learner: false,
            peers: vec![],
        });
        seen.chain(others).collect()
    }

    pub fn observed(&self) -> Observed {
        let mut world = empty_world();
        for (node, seen) in all_nodes().iter().zip(&self.nodes) {
            self.draw_vm(&mut world, node, seen.vm, seen.drifted);
            self.draw_machine(&mut world, node, seen);
            if let Some(ready) = seen.ready.filter(|_| self.kubernetes) {
                let k = KubernetesNode {
                    ready,
                    version: "v1.35.4".to_owned(),
                    schedulable: seen.cordon.is_none(),
                    uninitialized: false,
                    control_plane: node.role == Role::ControlPlane,
                    cordoned: seen.cordon.filter(|ours| *ours).map(|_| "a restart".to_owned()),
                    ..KubernetesNode::default()
                };
                world.kubernetes.nodes.insert(node.name.clone(), k);
            }
        }
        world.kubernetes.answered = self.kubernetes;
        let seen =
            |state| Some(RecordSeen { vmid: 150_010, host: "pve1".to_owned(), state, unreadable: false });
        match self.record {
            RecordSketch::Absent => {}
            RecordSketch::Unread => {
                world.proxmox.unread.insert(150_010, "pve1".to_owned());
            }
            RecordSketch::Unmarked => {
                world.proxmox.unread.insert(150_010, "pve1".to_owned());
                world.proxmox.unmarked.insert(150_010, RECORD_NODE.to_owned());
            }
            RecordSketch::Unreadable => {
                world.proxmox.record =
                    seen(RecordState::default()).map(|r| RecordSeen { unreadable: true, ..r });
            }
            RecordSketch::NoMark => world.proxmox.record = seen(RecordState::default()),
            RecordSketch::Started => world.proxmox.record = seen(bootstrapped("cp-1", false)),
            RecordSketch::Done => world.proxmox.record = seen(bootstrapped("cp-1", true)),
        }
        world
    }

    fn draw_vm(&self, world: &mut Observed, node: &Node, seen: VmSeen, drifted: Drifted) {
        let host = node.host.clone().unwrap();
        let taken = |name: &str| Guest { name: Some(name.to_owned()), host: host.clone(), lock: None };
        match seen {
            VmSeen::Absent => return,
            VmSeen::Foreign => {
                world.proxmox.taken.insert(node.vmid, taken("another"));
                return;
            }
            VmSeen::Unread => {
                world.proxmox.unread.insert(node.vmid, host.clone());
            }
            VmSeen::Unmarked => {
                world.proxmox.unread.insert(node.vmid, host.clone());
                world.proxmox.unmarked.insert(node.vmid, node.name.to_string());
            }
            VmSeen::Off | VmSeen::Running | VmSeen::Locked => {
                let mut vm = vm(node, seen != VmSeen::Off);
                if matches!(drifted, Drifted::Cores | Drifted::Both(_)) {
                    vm.config.insert("cores".to_owned(), "8".to_owned());
                }
                if drifted == Drifted::Bridge {
                    let card = vm.config["net0"].replace("bridge=vmbr0", "bridge=vmbr7");
                    vm.config.insert("net0".to_owned(), card);
                }
                if node.name == "gone-1" && self.removed.1 {
                    let removed = Removed {
                        vmid: node.vmid,
                        host: host.clone(),
                        role: node.role,
                        address: Some(node.address.addr()),
                        disks: BTreeMap::new(),
                        unmanaged_pods: Some(vec![]),
                    };
                    world.removed.insert(node.name.clone(), removed);
                }
                vm.lock = (seen == VmSeen::Locked).then(|| "backup".to_owned());
                world.proxmox.marked.push(vm);
            }
        }
        world.proxmox.taken.insert(node.vmid, taken(&node.name));
    }

    fn draw_machine(&self, world: &mut Observed, node: &Node, seen: &NodeSketch) {
        let drawn = match &seen.machine {
            MachineSeen::NotAsked => return,
            MachineSeen::Unreachable => Machine::unresponsive("connection timed out"),
            MachineSeen::Maintenance => Machine::with(Api::Maintenance),
            MachineSeen::Foreign => {
                Machine::with(Api::ForeignMachine { why: "its keys are others".to_owned() })
            }
            MachineSeen::OtherKeys => Machine::with(Api::OtherKeys { why: "another authority".to_owned() }),
            MachineSeen::Configured { ready, etcd, kubelet } => {
                let etcd = match (node.role, etcd) {
                    (Role::Worker, _) | (_, EtcdSeen::Empty) => Etcd::Empty,
                    (_, EtcdSeen::Unknown) => Etcd::Unknown,
                    (_, EtcdSeen::Data) => Etcd::Data,
                    (_, EtcdSeen::Learner | EtcdSeen::Voter) => Etcd::Member {
                        id: id(node.vmid - 150_000),
                        learner: *etcd == EtcdSeen::Learner,
                        members: Some(self.members.clone()),
                    },
                };
                let leader =
                    self.members.iter().find(|member| !member.learner).map(|member| member.id.clone());
                let told = EtcdStatus {
                    term: 2,
                    index: 9,
                    applied: 9,
                    leader,
                    healthy: Some(true),
                    ..EtcdStatus::default()
                };
                let etcd_status = matches!(etcd, Etcd::Member { .. }).then_some(told).filter(|_| seen.tells);
                let change = |costs| ConfigChange {
                    path: format!("at.{costs:?}"),
                    costs,
                    difference: ConfigDifference::Changed,
                };
                let changes = seen.drifted.config().map(change);
                let config_digest = Some(if changes.is_some() { "other" } else { "ours" }.to_owned());
                let config_changes = Some(changes.into_iter().collect());
                let machine = machine(Api::Configured, etcd);
                Machine {
                    ready: *ready,
                    kubelet: *kubelet,
                    config_digest,
                    config_changes,
                    etcd_status,
                    ..machine
                }
            }
        };
        world.machines.insert(node.name.clone(), drawn);
    }

    /// Whether anything seen says that the cluster exists, or existed.
    pub fn shows_a_cluster(&self) -> bool {
        let member = |node: &NodeSketch| {
            use EtcdSeen::{Data, Learner, Voter};
            matches!(node.machine, MachineSeen::Configured { etcd: Voter | Learner | Data, .. })
        };
        let registered = |node: &NodeSketch| {
            matches!(node.machine, MachineSeen::Configured { kubelet: Kubelet::Registered, .. })
        };
        // What runs where a node used to be is not asked: the file no longer has it.
        let seen = || NODES.iter().zip(&self.nodes).take(NODES.len() - 1);
        let members = seen().any(|((_, role, _), n)| *role == Role::ControlPlane && member(n));
        let kubelets = seen().any(|(_, n)| registered(n));
        members || kubelets || self.kubernetes || self.record == RecordSketch::Done
    }

    /// The same with one fact replaced by "unknown"; `None` where it was unknown already.
    pub fn without(&self, fact: Fact) -> Option<Self> {
        let mut less = self.clone();
        match fact {
            Fact::Kubernetes => less.kubernetes = false,
            Fact::Record => less.record = RecordSketch::Unread,
            Fact::Vm(n) => less.nodes[n].vm = VmSeen::Unread,
            Fact::Machine(n) => less.nodes[n].machine = MachineSeen::NotAsked,
            Fact::Tells(n) => less.nodes[n].tells = false,
            Fact::Removed => less.removed.1 = false,
            Fact::Etcd(n) => match &mut less.nodes[n].machine {
                MachineSeen::Configured { etcd, .. } => *etcd = EtcdSeen::Unknown,
                _ => return None,
            },
        }
        Some(less)
    }
}

/// One thing that may be known or not.
#[derive(Debug, Clone, Copy)]
pub enum Fact {
    Kubernetes,
    Record,
    Vm(usize),
    Machine(usize),
    Etcd(usize),
    Tells(usize),
    Removed,
}

impl Fact {
    /// The node that it is about.
    pub fn node(self) -> Option<&'static str> {
        match self {
            Self::Kubernetes | Self::Record | Self::Removed => None,
            Self::Vm(n) | Self::Machine(n) | Self::Etcd(n) | Self::Tells(n) => Some(NODES[n].0),
        }
    }
}

pub fn facts() -> impl Strategy<Value = Fact> {
    let node = 0..NODES.len();
    prop_oneof![
        Just(Fact::Kubernetes),
        Just(Fact::Record),
        Just(Fact::Removed),
        node.clone().prop_map(Fact::Tells),
        node.clone().prop_map(Fact::Vm),
        node.clone().prop_map(Fact::Machine),
        node.prop_map(Fact::Etcd),
    ]
}
