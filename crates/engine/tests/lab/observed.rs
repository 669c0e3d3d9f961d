//! What one observation brings, and what it costs.

use std::time::Duration;

use engine::kubernetes::Kubernetes;
use engine::kubernetes_api::{Api, PostParams};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use lab::{Injection, Service};
use model::blueprint::Role;
use model::observed::{Cordon, Etcd};

use crate::rig::{HOME, Rig};

fn kubernetes(rig: &Rig, snapshot: &engine::Snapshot) -> Kubernetes {
    Kubernetes::new(&rig.systems, &snapshot.blueprint.endpoint, &snapshot.access().unwrap().kubernetes)
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn issue_19_every_machine_and_member_tells_of_itself() {
    let rig = Rig::healthy().await;
    let seen = rig.observe(HOME).await;
    for node in seen.blueprint.in_order() {
        let (name, machine) = (&node.name, &seen.observed.machines[&node.name]);
        assert_eq!(machine.boot_id, seen.observed.kubernetes.nodes[name].boot_id, "{name}");
        assert!(machine.boot_id.as_ref().is_some_and(|id| !id.is_empty()), "{name}");
        assert!(machine.kernel_args.as_ref().is_some_and(|args| args.contains("talos.platform=")), "{name}");
        assert!(machine.schematic.is_some() && machine.config_digest.is_some(), "{name}");
        let extensions = machine.extensions.as_ref().unwrap();
        assert!(!extensions.contains_key("schematic"), "{extensions:?}");
        assert_eq!(machine.unhealthy.as_ref().map(std::collections::BTreeMap::len), Some(0), "{name}");
        assert_eq!(seen.observed.kubernetes.nodes[name].conditions["Ready"], "True", "{name}");
        if node.role == Role::ControlPlane {
            let status = machine.etcd_status.as_ref().unwrap();
            assert!(status.leader.is_some() && status.term > 0 && status.applied > 0, "{status:?}");
            assert_eq!((status.healthy, status.errors.len()), (Some(true), 0), "{name}");
            assert!(matches!(&machine.etcd, Etcd::Member { members: Some(own), .. } if own.len() == 3));
        }
    }
    assert_eq!(seen.observed.kubernetes.budgets.as_deref(), Some(&[][..]));
    assert_eq!(seen.observed.unobserved, []);
    let holders = seen.observed.machines.values().filter_map(|machine| machine.addresses.as_ref());
    assert_eq!(holders.filter(|all| all.contains(&seen.blueprint.vip.unwrap())).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn issue_19_an_alarm_is_an_error_of_its_member() {
    let rig = Rig::healthy().await;
    rig.lab.inject(Injection::FullEtcd { vmid: 150_012 });
    let seen = rig.observe(HOME).await;
    let errors = &seen.observed.machines["home-control-2"].etcd_status.as_ref().unwrap().errors;
    assert!(errors.iter().any(|error| error.contains("NOSPACE")), "{errors:?}");
}

#[tokio::test(start_paused = true)]
async fn issue_19_who_cordoned_a_node_and_which_budgets_block_is_known() {
    let rig = Rig::healthy().await;
    let before = rig.observe(HOME).await;
    let client = kubernetes(&rig, &before);
    client.cordon("home-work-1", Some("cordon by test")).await.unwrap();
    let budget: PodDisruptionBudget = serde_json::from_value(serde_json::json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "dns"},
        "spec": {"minAvailable": "100%", "selector": {"matchLabels": {"k8s-app": "kube-dns"}}},
    }))
    .unwrap();
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.client(), "kube-system");
    budgets.create(&PostParams::default(), &budget).await.unwrap();
    rig.systems.clock.sleep(Duration::from_secs(10)).await;
    let seen = rig.observe(HOME).await.observed;
    assert_eq!(
        seen.kubernetes.nodes["home-work-1"].cordon(),
        Some(Cordon::Person { command: Some("cordon by test".to_owned()) })
    );
    assert_eq!(seen.kubernetes.nodes["home-work-2"].cordon(), None);
    let [blocking] = seen.kubernetes.budgets.as_deref().unwrap() else { panic!("{:?}", seen.kubernetes) };
    assert_eq!((blocking.namespace.as_str(), blocking.name.as_str()), ("kube-system", "dns"));
    assert!(!blocking.nodes.is_empty());
}

/// At most three calls, one for each node, and one for each datastore of a host.
#[tokio::test(start_paused = true)]
async fn issue_19_one_observation_costs_few_calls_of_proxmox_and_little_time() {
    let file = HOME.replace("count: 2", "count: 3");
    let rig = Rig::new();
    let ran = Box::pin(rig.apply(&file)).await;
    assert_eq!(ran.failures(), [] as [&str; 0]);
    for page in [false, true] {
        rig.lab.forget_calls();
        #[expect(clippy::disallowed_methods, reason = "observing takes real time, not the lab's")]
        let began = std::time::Instant::now();
        let seen = match page {
            true => rig.session(&file).refresh().await.unwrap(),
            false => rig.observe(&file).await,
        };
        let took = began.elapsed();
        let calls = rig.lab.calls();
        let stores: usize =
            seen.observed.proxmox.inventory.hosts.values().map(|host| host.datastores.len()).sum();
        let nodes = seen.blueprint.nodes.len();
        let proxmox = calls[&Service::Proxmox];
        eprintln!(
            "6 nodes observed in {took:?} (debug build, lab included): {proxmox} calls of Proxmox, {} of Talos, {} of Kubernetes",
            calls[&Service::Talos],
            calls[&Service::Kubernetes]
        );
        assert!(
            proxmox as usize <= 3 + nodes + stores,
            "{proxmox} calls for {nodes} nodes and {stores} datastores"
        );
        assert_eq!(seen.observed.unobserved, []);
        // 0.1 s without debug checks and with the machine to itself.
        assert!(took < Duration::from_secs(3), "{took:?}");
    }
}
