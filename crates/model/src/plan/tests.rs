//! Rules of the plan, on small worlds made by hand.

mod by_hand;
mod drift;
mod evidence;
mod halves;
mod moves;
mod on_node;
mod properties;
mod record;
mod renamed;
mod renew;
mod sketch;
mod target;
mod units;
mod upgrades;

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::blueprint::{
    Hardware, Image, Inventory, InventoryDatastore, InventoryHost, Node, NodeSettings, Options, Record, Role,
};
use crate::mark::{BootstrapMark, Mark, RECORD_NODE, RecordState};
use crate::names::VmRef;
use crate::observed::Member;
use crate::observed::{
    Api, Creation, Etcd, EtcdStatus, Guest, Kubernetes, KubernetesNode, Machine, Proxmox, RecordSeen,
    StoredImage, Vm,
};
use crate::rights;
use crate::step::{Action, Disruption};
use crate::vm::Holds;

const ID: &str = "cluster-id=";

fn node(name: &str, role: Role, last: u8, host: &str) -> Node {
    Node {
        name: name.into(),
        role,
        pool: None,
        host: Some(host.to_owned()),
        host_pinned: false,
        vmid: 150_000 + u32::from(last),
        uuid: None,
        mac: format!("BC:24:11:00:00:{last:02X}"),
        address: format!("10.25.150.{last}/24").parse().unwrap(),
        gateway: "10.25.150.1".parse().unwrap(),
        dns: vec![],
        ntp: vec![],
        bridge: "vmbr0".to_owned(),
        vlan: None,
        mtu: None,
        cores: 2,
        cpu_type: "x86-64-v2-AES".to_owned(),
        memory_mib: 4096,
        disk_gib: 20,
        disk_datastore: Some("local-lvm".to_owned()),
        image_datastore: Some("local".to_owned()),
        image: "default".to_owned(),
        talos: "v1.13.9".to_owned(),
        kubernetes: "v1.35.4".to_owned(),
        components: BTreeMap::new(),
        labels: BTreeMap::new(),
        external: false,
        hardware: Hardware::default(),
        settings: NodeSettings::default(),
    }
}

fn blueprint() -> Blueprint {
    let nodes = [
        node("cp-1", Role::ControlPlane, 11, "pve1"),
        node("cp-2", Role::ControlPlane, 12, "pve2"),
        node("cp-3", Role::ControlPlane, 13, "pve3"),
        node("w-1", Role::Worker, 21, "pve1"),
    ];
    let image = Image {
        factory: "https://factory.example".to_owned(),
        talos: "v1.13.9".to_owned(),
        arch: "amd64".to_owned(),
        ..Image::default()
    };
    Blueprint {
        cluster: "home".to_owned(),
        cluster_id: Some(ID.to_owned()),
        endpoint: "https://10.25.150.10:6443".to_owned(),
        vip: Some("10.25.150.10".parse().unwrap()),
        kubernetes: "v1.35.4".to_owned(),
        pod_cidr: "10.244.0.0/16".parse().unwrap(),
        service_cidr: "10.96.0.0/12".parse().unwrap(),
        dns_domain: "cluster.local".to_owned(),
        schedule_on_control_planes: false,
        protect: false,
        tags: vec!["talosmith".to_owned()],
        resource_pool: None,
        hosts: BTreeSet::new(),
        record: Record {
            name: "home-record".to_owned(),
            vmid: 150_010,
            usual_vmid: None,
            host: Some("pve1".to_owned()),
            uuid: None,
        },
        images: [("default".to_owned(), image)].into(),
        nodes: nodes.map(|n| (n.name.clone(), n)).into(),
        options: Options::default(),
        upgrade: None,
    }
}

fn rendered() -> Rendered {
    let nodes = ["cp-1", "cp-2", "cp-3", "w-1", "w-2", "w-3"];
    let installer = |node: &str| (node.into(), format!("factory.example/nocloud-installer/of-{node}"));
    Rendered {
        schematics: [("default".to_owned(), "ce4c980550dd2ab1b17bbf2b".to_owned())].into(),
        configs: BTreeMap::new(),
        installers: nodes.map(installer).into(),
    }
}

fn empty_world() -> Observed {
    let host = || InventoryHost {
        online: true,
        memory_mib: 65_536,
        memory_used_mib: 0,
        datastores: [("local".to_owned(), InventoryDatastore::default())].into(),
        bridges: vec!["vmbr0".to_owned()],
        ..InventoryHost::default()
    };
    let hosts = ["pve1", "pve2", "pve3"].map(|h| (h.to_owned(), host())).into();
    Observed {
        proxmox: Proxmox {
            version: "9.1.8".to_owned(),
            inventory: Inventory { hosts },
            ..Proxmox::default()
        },
        ..Observed::default()
    }
}

fn vm(node: &Node, running: bool) -> Vm {
    let mark = Mark::new("home", Mark::owner_of(ID), &node.name);
    Vm {
        vmid: node.vmid,
        host: node.host.clone().unwrap(),
        name: node.name.to_string(),
        running,
        lock: None,
        uuid: Some(mark.uuid(ID)),
        vmgenid: None,
        recorded: None,
        mark,
        pool: None,
        ha_state: None,
        config: made(node),
        pending: BTreeMap::new(),
    }
}

/// A VM's configuration as Proxmox keeps it after we created it.
fn made(node: &Node) -> BTreeMap<String, String> {
    let blueprint = blueprint();
    let mut config = crate::vm::settings(&blueprint, node);
    for drive in crate::vm::drives(node) {
        let options: Vec<String> = drive.options.iter().map(|(k, v)| format!(",{k}={v}")).collect();
        let size = match drive.holds {
            Holds::System { gib } | Holds::Data { gib } => format!(",size={gib}G"),
            _ => String::new(),
        };
        config.insert(drive.key.clone(), format!("local-lvm:vm-1-{}{size}{}", drive.key, options.concat()));
    }
    let mark = crate::vm::mark(&blueprint, node).unwrap();
    config.insert("description".to_owned(), mark.describe(node.hardware.description.as_deref()));
    config.insert("tags".to_owned(), node.hardware.tags.join(";"));
    config
}

fn machine(api: Api, etcd: Etcd) -> Machine {
    Machine { stage: Some("running".to_owned()), ready: true, etcd, ..Machine::with(api) }
}

/// A world in which everything of the blueprint runs.
fn healthy_world(blueprint: &Blueprint) -> Observed {
    let mut world = empty_world();
    for n in blueprint.nodes.values() {
        world.proxmox.marked.push(vm(n, true));
        world.proxmox.taken.insert(
            n.vmid,
            Guest { name: Some(n.name.to_string()), host: n.host.clone().unwrap(), lock: None },
        );
        let etcd = match n.role {
            Role::ControlPlane => {
                let members = blueprint.control_planes().map(|n| member(&format!("{:x}", n.vmid), &n.name));
                Etcd::Member { id: format!("{:x}", n.vmid), learner: false, members: Some(members.collect()) }
            }
            Role::Worker => Etcd::Empty,
        };
        let etcd_status = (n.role == Role::ControlPlane).then(|| status("249fb"));
        world.machines.insert(n.name.clone(), Machine { etcd_status, ..machine(Api::Configured, etcd) });
        let k = KubernetesNode {
            ready: true,
            version: "v1.35.4".to_owned(),
            schedulable: true,
            uninitialized: false,
            control_plane: n.role == Role::ControlPlane,
            ..KubernetesNode::default()
        };
        world.kubernetes.nodes.insert(n.name.clone(), k);
    }
    world.kubernetes.answered = true;
    let state = bootstrapped("cp-1", true);
    world.proxmox.record =
        Some(RecordSeen { vmid: 150_010, host: "pve1".to_owned(), state, unreadable: false });
    world
}

/// A data disk that the file adds.
fn data_disk() -> crate::blueprint::Disk {
    crate::blueprint::Disk {
        name: "data".to_owned(),
        bus: crate::spec::Bus::Scsi,
        slot: 1,
        size_gib: 100,
        datastore: Some("local-lvm".to_owned()),
        options: crate::blueprint::DiskOptions::default(),
        wwn: "0x5000000000000001".to_owned(),
        serial: "1".to_owned(),
        mount: "/var/mnt/data".to_owned(),
    }
}

/// A voting member of etcd.
fn member(id: &str, name: &str) -> Member {
    Member { id: id.to_owned(), name: name.to_owned(), learner: false, peers: vec![] }
}

/// What a healthy member says of etcd.
fn status(leader: &str) -> EtcdStatus {
    EtcdStatus {
        leader: Some(leader.to_owned()),
        term: 2,
        index: 9,
        applied: 9,
        healthy: Some(true),
        ..EtcdStatus::default()
    }
}

fn bootstrapped(node: &str, done: bool) -> RecordState {
    let at = "2026-01-01T00:00:00Z".parse().unwrap();
    RecordState { bootstrap: Some(BootstrapMark::new(node, at, done)), ..RecordState::default() }
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().map(|s| s.id.0.as_str()).collect()
}

/// How many steps of a kind a plan has.
fn count(plan: &Plan, kind: &str) -> usize {
    plan.steps.iter().filter(|step| step.id.kind() == kind).count()
}

fn step<'a>(plan: &'a Plan, id: &str) -> &'a Step {
    plan.steps.iter().find(|s| s.id.0 == id).unwrap_or_else(|| panic!("no step {id} in {:?}", ids(plan)))
}

#[test]
fn an_empty_world_gets_everything_in_order() {
    let plan = plan(&blueprint(), &rendered(), &empty_world());
    assert_eq!(plan.refusals, []);
    let at = |id: &str| ids(&plan).iter().position(|s| *s == id).unwrap_or_else(|| panic!("no {id}"));
    for n in ["cp-1", "cp-2", "cp-3", "w-1"] {
        assert!(at("create-record") < at(&format!("create-vm/{n}")));
        assert!(at(&format!("create-vm/{n}")) < at(&format!("start-vm/{n}")));
        assert!(at(&format!("start-vm/{n}")) < at(&format!("configure/{n}")));
        assert!(at(&format!("configure/{n}")) < at(&format!("join/{n}")));
    }
    let downloads = count(&plan, "download-image");
    assert_eq!(downloads, 3, "one for each host");
    assert_eq!(ids(&plan).last(), Some(&"check-health"));
    assert!(plan.seconds() > 100);
}

#[test]
fn etcd_waits_for_every_control_plane_and_for_no_worker() {
    let plan = plan(&blueprint(), &rendered(), &empty_world());
    let after: Vec<&str> = step(&plan, "bootstrap/cp-1").after.iter().map(|s| s.0.as_str()).collect();
    assert_eq!(after, ["configure/cp-1", "configure/cp-2", "configure/cp-3"]);
}

#[test]
fn a_healthy_cluster_needs_nothing() {
    let blueprint = blueprint();
    let plan = plan(&blueprint, &rendered(), &healthy_world(&blueprint));
    assert_eq!(ids(&plan), Vec::<&str>::new());
    assert!(plan.is_empty());
    assert_eq!(plan.notes, []);
}

#[test]
fn one_worker_more_touches_only_that_one() {
    let mut blueprint = blueprint();
    let world = healthy_world(&blueprint);
    let new = node("w-2", Role::Worker, 22, "pve2");
    blueprint.nodes.insert(new.name.clone(), new);
    let plan = plan(&blueprint, &rendered(), &world);
    assert_eq!(
        ids(&plan),
        [
            "register-schematic/default",
            "download-image/pve2/local/talos-v1.13.9-ce4c980550dd-nocloud-amd64.qcow2",
            "create-vm/w-2",
            "start-vm/w-2",
            "configure/w-2",
            "join/w-2",
            "check-health"
        ]
    );
}

#[test]
fn an_image_that_is_there_is_not_fetched_again() {
    let mut world = empty_world();
    let file = "talos-v1.13.9-ce4c980550dd-nocloud-amd64.qcow2".to_owned();
    for host in ["pve1", "pve2", "pve3"] {
        world.proxmox.images.insert(StoredImage {
            host: host.to_owned(),
            datastore: "local".to_owned(),
            file: file.clone(),
        });
    }
    let plan = plan(&blueprint(), &rendered(), &world);
    assert_eq!((count(&plan, "download-image"), count(&plan, "register-schematic")), (0, 0));
}

#[test]
fn a_shared_datastore_gets_the_image_once() {
    let mut world = empty_world();
    for host in world.proxmox.inventory.hosts.values_mut() {
        host.datastores.get_mut("local").unwrap().shared = true;
    }
    let plan = plan(&blueprint(), &rendered(), &world);
    assert_eq!(count(&plan, "download-image"), 1);
    let create = step(&plan, "create-vm/cp-3");
    assert!(create.after.iter().any(|s| s.kind() == "download-image"), "{:?}", create.after);
}

#[test]
fn a_mark_without_etcd_is_repeated_on_the_same_node_only() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    for m in world.machines.values_mut() {
        m.etcd = Etcd::Empty;
    }
    world.kubernetes = Kubernetes::default();
    world.proxmox.record.as_mut().unwrap().state = bootstrapped("cp-2", false);
    let plan = plan(&blueprint, &rendered(), &world);
    assert_eq!(count(&plan, "bootstrap"), 1);
    assert!(ids(&plan).contains(&"bootstrap/cp-2"));
}

#[test]
fn etcd_that_ran_and_is_gone_is_never_begun_again() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    for m in world.machines.values_mut() {
        m.etcd = Etcd::Empty;
    }
    let plan = plan(&blueprint, &rendered(), &world);
    assert!(plan.steps.is_empty());
    assert!(plan.refusals.iter().any(|r| r.code == RefusalCode::Etcd), "{:?}", plan.refusals);
}

#[test]
fn a_member_anywhere_means_no_bootstrap() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    world.proxmox.record = None;
    world.machines.insert("cp-2".into(), Machine::unresponsive("refused"));
    world.machines.insert("cp-3".into(), Machine::unresponsive("refused"));
    let plan = plan(&blueprint, &rendered(), &world);
    assert_eq!(count(&plan, "bootstrap"), 0, "{:?}", ids(&plan));
    assert!(ids(&plan).contains(&"create-record"));
}

#[test]
fn a_stranger_at_an_address_stops_everything() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    world
        .machines
        .insert("w-1".into(), Machine::with(Api::ForeignMachine { why: "its UUID is another".to_owned() }));
    let plan = plan(&blueprint, &rendered(), &world);
    assert!(plan.steps.is_empty());
    assert_eq!(plan.refusals[0].code, RefusalCode::ForeignMachine);
    assert!(plan.refusals[0].why.contains("its UUID is another"));
}

#[test]
fn a_lost_bundle_stops_everything_and_is_the_only_complaint() {
    let mut blueprint = blueprint();
    let world = healthy_world(&blueprint);
    blueprint.cluster_id = None;
    for plan in [plan(&blueprint, &rendered(), &world), plan_destroy(&blueprint, &world)] {
        assert!(plan.steps.is_empty());
        assert_eq!(plan.refusals.len(), 1, "{:?}", plan.refusals);
        assert_eq!(plan.refusals[0].code, RefusalCode::LostBundle);
    }
}

#[test]
fn first_use_3_vms_of_this_name_with_other_keys_are_named_and_nothing_is_said_to_be_gone() {
    let mut blueprint = blueprint();
    let world = healthy_world(&blueprint);
    blueprint.cluster_id = Some("another-id=".to_owned());
    for plan in [plan(&blueprint, &rendered(), &world), plan_destroy(&blueprint, &world)] {
        assert!(plan.steps.is_empty());
        let [refusal] = plan.refusals.as_slice() else { panic!("{:?}", plan.refusals) };
        assert_eq!(refusal.code, RefusalCode::LostBundle);
        assert!(refusal.why.contains("VM 150021 (w-1) on pve1"), "{}", refusal.why);
        assert!(refusal.hint.starts_with("replace it by the one from your backup"), "{}", refusal.hint);
    }
    // With a VM of our own, someone else just chose the same name.
    let mut both = world;
    let mut own = both.proxmox.marked[0].clone();
    own.mark.owner = Mark::owner_of("another-id=");
    both.proxmox.marked.push(own);
    assert!(!plan_destroy(&blueprint, &both).refusals.iter().any(|r| r.code == RefusalCode::LostBundle));
}

#[test]
fn the_same_node_twice_stops_everything() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    let mut copy = vm(&blueprint.nodes["cp-1"], false);
    copy.vmid = 999;
    world.proxmox.marked.push(copy);
    let plan = plan(&blueprint, &rendered(), &world);
    assert!(plan.refusals[0].why.contains("cp-1 exists 2 times, as VM 150011 on pve1 and VM 999 on pve1"));
}

#[test]
fn a_clone_beside_the_original_is_named_only_as_the_copy() {
    let blueprint = blueprint();
    for node in ["cp-1", "w-1"] {
        let mut world = healthy_world(&blueprint);
        let mut clone = vm(&blueprint.nodes[node], false);
        (clone.vmid, clone.host, clone.uuid) = (9002, "pve2".to_owned(), Some(uuid::Uuid::from_u128(9)));
        clone.config.insert("cores".to_owned(), "1".to_owned());
        world.proxmox.marked.insert(0, clone);
        let plan = plan(&blueprint, &rendered(), &world);
        assert_eq!(plan.refusals.iter().map(|r| r.code).collect::<Vec<_>>(), [RefusalCode::Doubled]);
        let hint = &plan.refusals[0].hint;
        assert!(hint.starts_with("delete the copy, VM 9002 on pve2, or remove"), "{hint}");
        assert_eq!(plan.blocked, []);
        assert_eq!(plan.held, []);
    }
}

#[test]
fn an_id_taken_by_a_stranger_is_named() {
    let mut world = empty_world();
    world
        .proxmox
        .taken
        .insert(150_011, Guest { name: Some("nas".to_owned()), host: "pve2".to_owned(), lock: None });
    let plan = plan(&blueprint(), &rendered(), &world);
    assert_eq!(plan.refusals[0].why, "the id 150011 of cp-1 is taken by another guest (nas) on pve2");
}

#[test]
fn a_vm_that_is_being_made_may_be_ours() {
    let mut world = empty_world();
    let making = Guest { name: None, host: "pve1".to_owned(), lock: Some("create".to_owned()) };
    world.proxmox.taken.insert(150_011, making);
    let plan = plan(&blueprint(), &rendered(), &world);
    assert_eq!(plan.refusals, []);
    step(&plan, "create-vm/cp-1");
}

#[test]
fn one_source_e_an_image_is_there_for_every_host_that_shares_its_datastore() {
    let mut world = empty_world();
    let (datastore, file) = ("nas".to_owned(), "talos.qcow2".to_owned());
    for (host, shared) in [("pve1", true), ("pve2", true), ("pve3", false)] {
        let store = InventoryDatastore { content: vec![], shared, free_bytes: 0 };
        let hosts = &mut world.proxmox.inventory.hosts;
        hosts.entry(host.to_owned()).or_default().datastores.insert(datastore.clone(), store);
    }
    let stored =
        |host: &str| StoredImage { host: host.to_owned(), datastore: datastore.clone(), file: file.clone() };
    let has = |world: &Observed, host: &str| world.proxmox.has_image(host, &datastore, &file);
    world.proxmox.images = [stored("pve2")].into();
    assert!(has(&world, "pve1") && has(&world, "pve2") && !has(&world, "pve3"));
    // What lies in a datastore of one host alone is of no use to another, although that one shares its own.
    world.proxmox.images = [stored("pve3")].into();
    assert!(!has(&world, "pve1") && has(&world, "pve3"));
    assert!(!world.proxmox.has_image("pve3", &datastore, "another.qcow2"));
}

#[test]
fn an_old_proxmox_is_refused() {
    let mut world = empty_world();
    world.proxmox.version = "8.4.1".to_owned();
    assert_eq!(plan(&blueprint(), &rendered(), &world).refusals[0].code, RefusalCode::OldProxmox);
}

#[test]
fn a_token_that_may_not_do_enough_is_told_before_anything_is_made() {
    let blueprint = blueprint();
    let new: Vec<&Node> = blueprint.nodes.values().collect();
    let needs = rights::to_create(&blueprint, &new, &BTreeMap::new());
    let mut world = empty_world();
    let lacks = |need: &&rights::Need| need.privilege == "VM.Allocate" || need.privilege == "SDN.Use";
    world.proxmox.missing_rights = needs.iter().filter(lacks).map(rights::Need::missing).collect();
    let plan = plan(&blueprint, &rendered(), &world);
    assert!(plan.steps.is_empty());
    assert_eq!(
        plan.refusals[0].why,
        "the token may not do what is needed: it lacks SDN.Use on /sdn/zones/localnetwork/vmbr0; VM.Allocate on /vms"
    );
}

#[test]
fn what_may_become_tight_is_told() {
    let mut blueprint = blueprint();
    let mut world = empty_world();
    let host = world.proxmox.inventory.hosts.get_mut("pve1").unwrap();
    host.memory_used_mib = 60_000;
    host.datastores.insert(
        "local-lvm".to_owned(),
        InventoryDatastore { content: vec![], shared: false, free_bytes: 30 << 30 },
    );
    blueprint.nodes.get_mut("cp-2").unwrap().host = Some("pve1".to_owned());
    let told: Vec<String> = plan(&blueprint, &rendered(), &world).notes.into_iter().map(|n| n.text).collect();
    assert_eq!(
        told,
        [
            "the new nodes on pve1 want 12288 MiB of memory, and 5536 MiB are free there now",
            "the new disks in local-lvm on pve1 may grow to 60 GiB, and 30 GiB are free there now",
            "2 of 3 control plane nodes are on pve1: without it etcd stops; `hosts` of the pool can spread them",
        ]
    );
}

#[test]
fn an_offline_host_is_refused_only_where_something_must_be_created_there() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    world.proxmox.inventory.hosts.get_mut("pve2").unwrap().online = false;
    assert_eq!(plan(&blueprint, &rendered(), &world).refusals, []);
    let mut world = empty_world();
    world.proxmox.inventory.hosts.get_mut("pve2").unwrap().online = false;
    let refusal = &plan(&blueprint, &rendered(), &world).refusals[0];
    assert_eq!(refusal.code, RefusalCode::Host);
    assert!(refusal.why.contains("cp-2") && refusal.why.contains("pve2"), "{refusal:?}");
}

#[test]
fn destroy_takes_ours_and_nothing_else() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    let mut other = vm(&blueprint.nodes["cp-1"], true);
    other.vmid = 4711;
    other.mark.owner = Mark::owner_of("another cluster called home");
    world.proxmox.marked.push(other);
    let mut record = vm(&blueprint.nodes["cp-1"], false);
    record.mark.node = RECORD_NODE.to_owned();
    record.uuid = Some(record.mark.uuid(ID));
    record.vmid = 150_010;
    world.proxmox.marked.push(record);
    let plan = plan_destroy(&blueprint, &world);
    let vmids: Vec<u32> = plan
        .steps
        .iter()
        .filter_map(|s| match &s.action {
            Action::DeleteVm { vm, .. } => Some(vm.vmid),
            _ => None,
        })
        .collect();
    assert_eq!(vmids, [150_011, 150_012, 150_013, 150_021]);
    assert_eq!(ids(&plan).last(), Some(&"delete-record"));
    assert_eq!(step(&plan, "delete-record").after.len(), 4);
}

#[test]
fn a_protected_cluster_is_not_destroyed() {
    let mut blueprint = blueprint();
    let world = healthy_world(&blueprint);
    blueprint.protect = true;
    assert!(plan_destroy(&blueprint, &world).steps.is_empty());
}

#[test]
fn nothing_is_asked_of_kubernetes_that_did_not_answer() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    world.kubernetes = Kubernetes::default();
    let plan = plan(&blueprint, &rendered(), &world);
    assert!(step(&plan, "join/w-1").reason.contains("did not answer"));
}

#[test]
fn arch4_settings_of_changes_have_an_effect_and_are_no_note() {
    let mut blueprint = blueprint();
    let world = healthy_world(&blueprint);
    blueprint.options.changes.soak = Duration::from_secs(1);
    let plan = plan(&blueprint, &rendered(), &world);
    assert!(plan.is_empty());
    assert_eq!(plan.notes, []);
}

#[test]
fn a1_a_plan_says_which_machines_prove_nothing() {
    let mut blueprint = blueprint();
    let mut world = empty_world();
    let texts = |blueprint: &Blueprint, world: &Observed| {
        let notes = plan(blueprint, &rendered(), world).notes;
        notes.into_iter().map(|n| n.text).filter(|text| text.contains("relay")).collect::<Vec<_>>()
    };
    assert_eq!(texts(&blueprint, &world), Vec::<String>::new());
    blueprint.options.insecure = true;
    let notes = plan(&blueprint, &rendered(), &world).notes;
    assert!(notes.iter().any(|n| n.text.contains("is not verified (`proxmox.insecure`)")), "{notes:?}");
    blueprint.options.insecure = false;
    world.proxmox.no_console = Some(["cp-1".into()].into());
    let said = texts(&blueprint, &world);
    assert!(said.len() == 1 && said[0].starts_with("cp-1 is known by SMBIOS UUID only"), "{said:?}");
    assert!(said[0].contains("the token lacks VM.Console"), "{said:?}");
    blueprint.options.identity = Some(crate::spec::Identity::Uuid);
    assert!(texts(&blueprint, &world)[0].contains("`proxmox.identity` is `uuid`"));
    blueprint.options.identity = Some(crate::spec::Identity::Console);
    let refused = plan(&blueprint, &rendered(), &world).refusals;
    assert_eq!(refused[0].code, RefusalCode::Rights, "{refused:?}");
    // A cluster that stands needs no proof.
    let world = healthy_world(&blueprint);
    assert_eq!(plan(&blueprint, &rendered(), &world).notes, []);
}

#[test]
fn a_machine_that_is_not_ours_gets_everything_but_a_vm() {
    let mut blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    let metal = Node { external: true, host: None, ..node("metal-1", Role::Worker, 30, "pve1") };
    blueprint.nodes.insert(metal.name.clone(), metal);
    world.machines.insert("metal-1".into(), Machine::with(Api::Maintenance));
    let undeclared = plan(&blueprint, &rendered(), &world);
    assert_eq!(undeclared.refusals[0].code, RefusalCode::Identity);
    assert!(undeclared.refusals[0].hint.contains("unverified: true"), "{:?}", undeclared.refusals);
    // One that is configured, or that does not answer, is not asked for it.
    for api in [Api::Configured, Api::Unresponsive { why: "off".to_owned() }] {
        world.machines.insert("metal-1".into(), Machine::with(api));
        assert_eq!(plan(&blueprint, &rendered(), &world).refusals, []);
    }
    world.machines.insert("metal-1".into(), Machine::with(Api::Maintenance));
    let settings = |name: &str| NodeSettings { unverified: name == "metal-1", ..NodeSettings::default() };
    blueprint.nodes.values_mut().for_each(|node| node.settings = settings(&node.name));
    let plan = plan(&blueprint, &rendered(), &world);
    assert_eq!(plan.refusals, []);
    assert!(
        plan.notes.iter().any(|n| n.text.contains("metal-1 receives the cluster's keys")),
        "{:?}",
        plan.notes
    );
    assert_eq!(ids(&plan), ["configure/metal-1", "join/metal-1", "check-health"]);
    let away = plan_destroy(&blueprint, &world);
    assert!(!ids(&away).iter().any(|id| id.contains("metal-1")), "{:?}", ids(&away));
    assert!(away.notes[0].text.contains("metal-1 was not created by Talosmith"));
}

#[test]
fn a_vm_that_the_token_may_not_see_refuses_everything() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    world.proxmox.marked.retain(|v| v.mark.node != "w-1");
    world.proxmox.hidden.insert(150_021, None);
    for plan in [plan(&blueprint, &rendered(), &world), plan_destroy(&blueprint, &world)] {
        assert_eq!(ids(&plan), Vec::<&str>::new());
        assert_eq!(plan.refusals.iter().map(|r| r.code).collect::<Vec<_>>(), [RefusalCode::Rights]);
        let refusal = &plan.refusals[0];
        assert_eq!(
            refusal.why,
            "VM 150021, which has the VM ID of w-1, exists, and the token may not see it"
        );
        assert!(refusal.hint.contains("VM.Audit on /vms/150021"), "{refusal:?}");
    }
}

#[test]
fn a_vm_that_cannot_be_read_is_neither_made_again_nor_forgotten() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    world.proxmox.marked.retain(|v| v.mark.node != "w-1");
    world.machines.remove("w-1");
    world.proxmox.unread.insert(150_021, "pve1".to_owned());
    let plan = plan(&blueprint, &rendered(), &world);
    assert_eq!((ids(&plan), plan.refusals.len()), (vec![], 0));
    assert_eq!(
        plan.unknown[0].text,
        "whether VM 150021 on pve1 is w-1 could not be read; Talosmith does not change it"
    );
    assert!(!plan.is_empty(), "unknown is not nothing to do");
    let away = plan_destroy(&blueprint, &world);
    assert!(!ids(&away).contains(&"delete-record"));
    assert!(away.notes.iter().any(|n| n.text.contains("the cluster record VM stays")));
}

#[test]
fn templates_are_made_once_a_host_and_role_and_copied() {
    let mut blueprint = blueprint();
    blueprint.images.get_mut("default").unwrap().delivery = crate::spec::Delivery::Template;
    let second = node("w-2", Role::Worker, 22, "pve1");
    blueprint.nodes.insert(second.name.clone(), second);
    let mut world = empty_world();
    let mine = Guest { name: None, host: "pve1".to_owned(), lock: None };
    world.proxmox.taken.insert(15_001_001, mine);
    let made = plan(&blueprint, &rendered(), &world);
    assert_eq!(count(&made, "create-template"), 4, "control plane nodes on three hosts, workers on one");
    let clone = step(&made, "clone-vm/w-2");
    assert!(matches!(clone.action, Action::CloneVm { template: 15_001_005, .. }), "{:?}", clone.action);
    assert!(clone.after.contains(&step(&made, "create-template/home-worker-scsi0-v1-13-9-pve1").id));
    // Once it is there, it is used; and it goes with the cluster.
    let mut there = vm(&blueprint.nodes["w-1"], false);
    let Action::CreateTemplate { mark, vm: VmRef { vmid, .. }, .. } =
        &step(&made, "create-template/home-worker-scsi0-v1-13-9-pve1").action
    else {
        panic!("no template")
    };
    (there.mark.node, there.vmid) = (mark.clone(), *vmid);
    there.uuid = Some(there.mark.uuid(ID));
    there.config.insert("template".to_owned(), "1".to_owned());
    world.proxmox.marked.push(there);
    let again = plan(&blueprint, &rendered(), &world);
    assert!(!ids(&again).contains(&"create-template/home-worker-scsi0-v1-13-9-pve1"));
    assert!(matches!(step(&again, "clone-vm/w-2").action, Action::CloneVm { template: 15_001_005, .. }));
    assert_eq!(ids(&plan_destroy(&blueprint, &world)), [format!("delete-vm/{mark}/{vmid}")]);
}

#[test]
fn a6_a_plan_with_other_reasons_does_the_same_and_one_with_other_steps_does_not() {
    let blueprint = blueprint();
    let shown = plan(&blueprint, &rendered(), &empty_world());
    let mut again = shown.clone();
    again.steps[0].reason = "it did not answer (timeout)".to_owned();
    assert!(again.same_work(&shown));
    again.steps.pop();
    assert!(!again.same_work(&shown));
    let mut more = shown.clone();
    more.steps[0].disruption = Disruption::Delete;
    assert!(!more.same_work(&shown));
}

#[test]
fn p6_a_protected_vm_is_refused_before_anything_is_stopped() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    world.proxmox.marked[0].config.insert("protection".to_owned(), "1".to_owned());
    let plan = plan_destroy(&blueprint, &world);
    assert_eq!(plan.steps, []);
    assert_eq!(plan.refusals.iter().map(|r| r.code).collect::<Vec<_>>(), [RefusalCode::Protected]);
}

#[test]
fn p10_a_vm_that_is_being_created_keeps_the_record_and_one_cut_off_is_refused() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    world.proxmox.marked.remove(0);
    for (active, code) in [(Some(false), Some(RefusalCode::Unfinished)), (Some(true), None), (None, None)] {
        let creation = Creation { host: "pve1".to_owned(), lock: "create".to_owned(), active };
        world.proxmox.creating.insert(150_011, creation);
        let guest = Guest { name: None, host: "pve1".to_owned(), lock: Some("create".to_owned()) };
        world.proxmox.taken.insert(150_011, guest);
        for plan in [plan(&blueprint, &rendered(), &world), plan_destroy(&blueprint, &world)] {
            assert_eq!(plan.refusals.first().map(|r| r.code), code, "{active:?}");
            assert!(!ids(&plan).contains(&"delete-record"), "{active:?}");
        }
    }
}

/// Proxmox moves VMs away from such a host, so no new one goes there.
#[test]
fn p14_a_host_in_maintenance_gets_no_new_nodes() {
    let mut world = empty_world();
    let host = blueprint().nodes.values().next().unwrap().host.clone().unwrap();
    world.proxmox.inventory.hosts.get_mut(&host).unwrap().maintenance = true;
    let plan = plan(&blueprint(), &rendered(), &world);
    let refusal = plan.refusals.iter().find(|r| r.code == RefusalCode::Host).unwrap();
    assert!(
        refusal.why.ends_with("it is in maintenance mode, and Proxmox migrates VMs to other hosts"),
        "{refusal:?}"
    );
}
