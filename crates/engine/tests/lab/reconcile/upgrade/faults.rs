//! Upgrades over connections that break, by seed: whatever happens, nothing is lost, and a run without faults ends them.

use lab::Wire;

use super::kubernetes::with_kubernetes;
use super::*;
use crate::faults::Chance;
use crate::rig::{in_parallel, setting};

/// Connections and calls of an upgrade: method and a part of address and path.
const WIRES: &[(&str, &str)] = &[
    ("DIAL", ":50000"),
    ("DIAL", ":6443"),
    ("CALL", "/machine.MachineService/Reboot"),
    ("CALL", "/machine.MachineService/Version"),
    ("CALL", "/machine.MachineService/EtcdForfeitLeadership"),
    ("CALL", "/machine.LifecycleService/Upgrade"),
    ("CALL", "/machine.ImageService/Pull"),
    ("CALL", "/cosi.resource.State/Get"),
    ("CALL", "/cosi.resource.State/List"),
    ("CALL", "/machine.MachineService/ApplyConfiguration"),
    ("CALL", "/machine.MachineService/ServiceList"),
    ("CALL", ""),
    ("GET", "/api/v1/nodes"),
    ("GET", "/api/v1/namespaces/kube-system/pods"),
    ("POST", "/eviction"),
];

async fn broken(seed: u64) {
    let mut chance = Chance::new(seed);
    let rig = Rig::healthy().await;
    // Every other one upgrades Kubernetes.
    let of_talos = seed % 2 == 1;
    let file = if of_talos { with_talos("v1.13.10") } else { with_kubernetes("v1.36.3") };
    let file = format!("{file}changes: {{ soak: 5s }}\n");
    for _ in 0..=chance.below(3) {
        let (method, path) = chance.one(WIRES);
        let late = Duration::from_millis(500 + chance.below(20_000));
        let all = [Wire::Refused, Wire::Reset, Wire::Lost, Wire::Cut, Wire::BlackHole, Wire::Slow(late)];
        let which = CallFilter { method: method.into(), path_contains: path.into(), skip: 0 };
        let (permille, seed) = (5 + chance.below(60) as u16, chance.next());
        let when = When::Chance { which, permille, seed };
        rig.lab.inject(Injection::Wire { fault: chance.one(&all), when });
    }
    for _ in 0..2 {
        // Whether it comes to an end is not the question here; what it leaves behind is.
        let _ = Controller::of(&rig).attempted(&file).await;
    }
    rig.lab.inject(Injection::Clear);
    // Machines that were on their way are back.
    rig.systems.clock.sleep(Duration::from_secs(600)).await;
    let controller = Controller::of(&rig);
    let reconciled = controller.approved(&file).await;
    let failed = controller.failed();
    assert!(matches!(reconciled.ended, Ended::Converged), "seed {seed}: {:?} {failed:?}", reconciled.ended);
    match of_talos {
        true => assert_eq!(rig.releases(&file).await, ["v1.13.10"; 5], "seed {seed}"),
        false => assert_eq!(rig.kubernetes_versions().await, ["v1.36.3".to_owned()].into(), "seed {seed}"),
    }
    assert_eq!(rig.cordoned().await.len(), 0, "seed {seed}");
    rig.assert_nothing_to_do(&file).await;
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_over_connections_that_break_is_finished() {
    for seed in 1..=2 {
        broken(seed).await;
    }
}

/// Many seeds. Takes minutes: `conformance/faults/upgrade`.
#[test]
#[ignore = "takes minutes: conformance/faults/upgrade"]
fn many_upgrades_over_connections_that_break() {
    let (first, runs): (u64, u64) = (setting("SEED").unwrap_or(1), setting("RUNS").unwrap_or(100));
    in_parallel((first..first + runs).collect(), |seed| {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(broken(*seed));
    });
}
