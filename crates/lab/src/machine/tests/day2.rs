//! What real machines were seen to do on the second day.

use super::*;

fn members(rig: &Rig) -> Vec<(String, bool)> {
    let members = rig.machines.etcds[0].members.values();
    members.map(|member| (member.name.clone(), member.learner_until.is_some())).collect()
}

/// Without the discovery service the list of members comes from Kubernetes: who joins waits for the API server at the endpoint.
#[test]
fn e2_without_discovery_a_member_joins_through_the_endpoint() {
    let mut rig = Rig::new();
    (101..=103).for_each(|number| rig.on(number));
    rig.wait(40);
    for number in 101..=103 {
        let bytes = config(number, Role::ControlPlane, |input| input.discovery = false);
        rig.apply_bytes(number, &bytes).unwrap();
    }
    rig.wait(15);
    rig.machines.bootstrap(101, None, rig.now).unwrap();
    rig.until(30, |m| m.live(101).is_some_and(|node| node.etcd_is_healthy(m.now)));
    let vip: std::net::IpAddr = VIP.parse().unwrap();
    let serves = |m: &Machines| matches!(m.port(vip, 6443), PortState::Open(_));
    rig.until(60, |m| serves(m) || m.etcds[0].members.len() > 1);
    assert!(serves(&rig.machines), "no member joins before the API server answers");
    assert_eq!(rig.machines.etcds[0].members.len(), 1);
    // One learner at a time: the third is added only when the second votes.
    let mut most = 0;
    for _ in 0..120 {
        rig.wait(1);
        most = most.max(members(&rig).iter().filter(|(_, learner)| *learner).count());
    }
    assert_eq!((members(&rig).len(), most), (3, 1));
}

/// The holder of the shared address lets go of it while its kubelet restarts, and the machine's state gets worse again.
#[test]
fn e2_a_kubelet_that_restarts_takes_the_shared_address_away() {
    let mut rig = Rig::cluster();
    let vip: std::net::IpAddr = VIP.parse().unwrap();
    let holder = rig.machines.etcds[0].vip.as_ref().unwrap().holder;
    let other = (101..=103).find(|vmid| *vmid != holder).unwrap();
    rig.machines.service_action(other, "kubelet", ServiceAction::Restart, rig.now).unwrap();
    assert!(matches!(rig.machines.port(vip, 6443), PortState::Open(_)), "another one does not matter");
    rig.wait(20);
    rig.machines.restart_kubelet(holder, rig.now);
    assert_eq!(rig.machines.port(vip, 6443), PortState::NoHost);
    let status = rig.machines.status(holder).unwrap();
    assert_eq!(
        (status.stage.as_str(), status.ready),
        ("running", false),
        "what has booted does not boot again"
    );
    assert_eq!(status.unmet[0], ("services".to_owned(), "kubelet not running".to_owned()));
    let took = rig.until(30, |m| matches!(m.port(vip, 6443), PortState::Open(_)));
    assert!((9..=11).contains(&took), "{took}");
    assert_eq!(rig.machines.etcds[0].vip.as_ref().unwrap().holder, holder, "the same one takes it back");
    assert!(rig.machines.status(holder).unwrap().ready);
    // A new image is a new kubelet; a label is not.
    let newer = String::from_utf8(config(holder, Role::ControlPlane, |_| {})).unwrap();
    let newer = newer.replace("kubelet:v1.36.3", "kubelet:v1.36.2");
    rig.apply_bytes(holder, newer.as_bytes()).unwrap();
    assert_eq!(rig.machines.port(vip, 6443), PortState::NoHost);
}

/// A member that left joins again with its next start; its reset is what keeps it out.
#[test]
fn e2_a_member_that_left_joins_again_after_a_power_cycle() {
    let mut rig = Rig::cluster();
    rig.machines.leave_etcd(103, rig.now).unwrap();
    rig.wait(60);
    assert_eq!(members(&rig).len(), 2);
    let status = rig.machines.status(103).unwrap();
    assert_eq!((status.stage.as_str(), status.ready), ("running", false));
    rig.machines.power_off(103, rig.now);
    rig.on(103);
    rig.until(90, |m| m.etcds[0].members.len() == 3);
    let took = rig.until(40, |m| m.etcds[0].members.values().all(|member| member.learner_until.is_none()));
    assert!((15..=17).contains(&took), "{took}");
}

/// Proxmox does not see a reboot that Talos makes, nor that a machine has nothing left to boot from.
#[test]
fn e2_a_reset_of_the_whole_disk_leaves_nothing_to_boot_from_and_nobody_is_told() {
    let mut rig = Rig::cluster();
    let boots = rig.machines.get(104).unwrap().boots;
    rig.machines.leave(104, Leave::Reboot, rig.now);
    rig.wait(60);
    assert_eq!(rig.machines.get(104).unwrap().boots, boots + 1);
    let wipe = Wipe { state: true, ephemeral: true, meta: true, whole_disk: true, reboot: true };
    rig.machines.reset(105, false, wipe, rig.now);
    rig.wait(120);
    assert!(matches!(rig.machines.get(105).unwrap().phase, Phase::Blank));
    assert_eq!(rig.port(105, 50_000), PortState::NoHost);
    assert_eq!(rig.machines.take_power_offs(), Vec::<u32>::new());
    let node = rig.machines.etcds[0].nodes.values().find(|known| known.vmid == 105).unwrap();
    assert!(node.lost_at.is_some_and(|at| at <= rig.now), "Kubernetes has not heard of it");
}
