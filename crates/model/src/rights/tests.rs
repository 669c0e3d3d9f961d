//! What a token needs, for doctor, setup and plan alike.

use super::*;
use crate::blueprint::{InventoryDatastore, InventoryHost};
use crate::diagnostic::Source;

fn blueprint(more: &str) -> Blueprint {
    let text = format!(
        "cluster: home\nversions: {{ talos: v1.13.9, kubernetes: v1.35.4 }}\n\
         network: {{ cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10, vlan: 42 }}\n\
         pools: {{ control: {{ role: controlplane, count: 1 }}, work: {{ role: worker, count: 1 }} }}\n{more}"
    );
    let loaded = crate::load::load(&[Source::new("cluster.yaml", text)])
        .unwrap_or_else(|failed| panic!("{:?}", failed.diagnostics));
    let store = |content: &str| InventoryDatastore {
        content: vec![content.to_owned()],
        shared: false,
        free_bytes: 1 << 40,
    };
    let host = InventoryHost {
        online: true,
        memory_mib: 64 << 10,
        datastores: [("local".to_owned(), store("import")), ("lvm".to_owned(), store("images"))].into(),
        bridges: vec!["vmbr0".to_owned()],
        ..InventoryHost::default()
    };
    let inventory = Inventory { hosts: [("pve1".to_owned(), host)].into() };
    crate::resolve::resolve(&loaded.spec, Some(&inventory), None).unwrap()
}

#[test]
fn a_plain_cluster_needs_little_and_only_where_it_works() {
    let needs = needs(&blueprint("proxmox: { endpoint: 'https://pve1:8006' }\n"), &["pve1".to_owned()]);
    let places: Vec<String> = places(&needs)
        .into_iter()
        .map(|p| format!("{} {} {}", p.path, p.role.name("home"), p.propagate))
        .collect();
    insta::assert_snapshot!(places.join("\n"), @r"
    / TalosmithCluster-home false
    /nodes/pve1 Talosmith-home true
    /sdn/zones/localnetwork/vmbr0 Talosmith-home true
    /storage/local Talosmith-home true
    /storage/lvm Talosmith-home true
    /vms Talosmith-home true
    ");
    assert!(!needs.iter().any(|n| n.privilege == "Sys.Modify" || n.privilege == "Datastore.Allocate"));
}

#[test]
fn with_a_pool_other_vms_are_only_seen() {
    let needs = needs(&blueprint("proxmox: { endpoint: 'https://pve1:8006', pool: k8s }\n"), &[]);
    let at = |path: &str| needs.iter().filter(|n| n.path == path).map(|n| n.privilege).collect::<Vec<_>>();
    assert_eq!(at("/vms"), ["VM.Audit"]);
    assert!(at("/pool/k8s").contains(&"VM.Allocate"));
    let roles = roles(&needs);
    assert_eq!(roles[&RoleKind::Cluster], BTreeSet::from(["Sys.Audit", "VM.Audit"]));
}

#[test]
fn p3_no_two_clusters_have_a_role_in_common() {
    let (work, cluster) = (RoleKind::Work, RoleKind::Cluster);
    let names: BTreeSet<String> =
        ["a", "a-2", "cluster-a"].iter().flat_map(|name| [work.name(name), cluster.name(name)]).collect();
    assert_eq!(names.len(), 6);
    assert!(SHARED_ROLES.iter().all(|shared| !names.contains(*shared)));
    // Another cluster of the same name has the first one.
    assert_eq!(work.own("a", |_| true), "Talosmith-a");
    assert_eq!(work.own("a", |name| name != "Talosmith-a"), "Talosmith-a.2");
    assert_eq!(work.own("a", |name| name.ends_with(".3")), "Talosmith-a.3");
}

#[test]
fn p3_a_shared_role_is_given_up_only_where_nobody_loses_what_is_needed() {
    let entry = |privileges: &[&'static str], own: &[&'static str], shared| SharedEntry {
        privileges: privileges.iter().copied().collect(),
        own: own.iter().copied().collect(),
        shared,
    };
    assert!(is_superseded(&entry(&["Sys.Audit"], &["Sys.Audit", "VM.Audit"], false)));
    // More than this cluster needs: added for another cluster's token, or used by another cluster with this token.
    assert!(is_superseded(&entry(&["Sys.Audit", "Sys.Modify"], &["Sys.Audit"], true)));
    assert!(!is_superseded(&entry(&["Sys.Audit", "Sys.Modify"], &["Sys.Audit"], false)));
    assert!(!is_superseded(&entry(&["Sys.Audit"], &[], true)), "a path that is none of ours");
}

#[test]
fn p9_a_vnet_is_asked_for_in_its_own_zone() {
    let mut blueprint = blueprint("proxmox: { endpoint: 'https://pve1:8006' }\n");
    for node in blueprint.nodes.values_mut().filter(|node| node.role == crate::blueprint::Role::Worker) {
        (node.bridge, node.vlan) = ("blue".to_owned(), Some(7));
    }
    let all = needs(&blueprint, &[]);
    let zones = [("blue".to_owned(), "campus".to_owned())].into();
    let paths: BTreeSet<String> =
        in_zones(all, &zones).into_iter().filter(|n| n.privilege == "SDN.Use").map(|n| n.path).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    assert_eq!(paths, ["/sdn/zones/campus/blue/7", "/sdn/zones/localnetwork/vmbr0/42"]);
}

#[test]
fn one_source_b_a_plan_asks_for_a_vlan_where_doctor_does() {
    let blueprint = blueprint("proxmox: { endpoint: 'https://pve1:8006' }\n");
    let new: Vec<&Node> = blueprint.nodes.values().collect();
    let asked = to_create(&blueprint, &new, &BTreeMap::new());
    let paths = |needs: &[Need]| -> BTreeSet<String> {
        needs.iter().filter(|need| need.privilege == "SDN.Use").map(|need| need.path.clone()).collect()
    };
    assert_eq!(paths(&asked), paths(&needs(&blueprint, &[])));
    // A token that has the VLAN alone may use it.
    let only_vlan = |path: &str, _: &str| path == "/sdn/zones/localnetwork/vmbr0/42";
    let bridge = asked.iter().find(|need| need.privilege == "SDN.Use").unwrap();
    assert!(bridge.is_met(only_vlan));
}

#[test]
fn one_source_b_what_a_plan_asks_for_is_granted_by_setup() {
    for more in ["", ", pool: k8s"] {
        let blueprint = blueprint(&format!("proxmox: {{ endpoint: 'https://pve1:8006'{more} }}\n"));
        let new: Vec<&Node> = blueprint.nodes.values().collect();
        let granted = needs(&blueprint, &["pve1".to_owned()]);
        let has = |path: &str, privilege: &str| {
            let below = |need: &Need| path == need.path || path.starts_with(&format!("{}/", need.path));
            granted.iter().any(|need| need.privilege == privilege && below(need))
        };
        for need in to_create(&blueprint, &new, &BTreeMap::new()) {
            assert!(need.is_met(has), "{need:?}");
        }
    }
}

#[test]
fn one_source_b_doctor_accepts_what_a_plan_accepts_of_a_host() {
    let needs = needs(&blueprint("proxmox: { endpoint: 'https://pve1:8006' }\n"), &["pve1".to_owned()]);
    let download = needs.iter().find(|need| need.privilege == "Sys.AccessNetwork").unwrap();
    assert!(download.is_met(|path, privilege| (path, privilege) == ("/", "Sys.Modify")));
    assert!(!download.is_met(|_, privilege| privilege == "Sys.Audit"));
}

#[test]
fn moving_vms_is_granted_only_where_the_file_names_hosts() {
    let hosts = ["pve1".to_owned(), "pve2".to_owned()];
    let has = |blueprint: &Blueprint, hosts: &[String]| {
        needs(blueprint, hosts).iter().any(|need| need.privilege == TO_MOVE)
    };
    let plain = blueprint("proxmox: { endpoint: 'https://pve1:8006' }\n");
    assert!(!has(&plain, &hosts), "bring-up moves nothing");
    assert_eq!(maintenance_needs(&plain)[0].path, "/vms");
    let listed = blueprint("proxmox: { endpoint: 'https://pve1:8006' }\nhosts: { pve1: {} }\n");
    assert!(
        !has(&listed, &hosts),
        "leftover: `init` lists every host, which says nothing of where a node is"
    );
    let mut named = plain.clone();
    named.nodes.values_mut().next().unwrap().host_pinned = true;
    assert!(has(&named, &hosts), "another host in the file moves a node");
    assert!(!has(&named, &hosts[..1]), "there is nowhere to move to");
    let pool = blueprint("proxmox: { endpoint: 'https://pve1:8006', pool: k8s }\n");
    assert_eq!(maintenance_needs(&pool)[0].path, "/pool/k8s");
}
