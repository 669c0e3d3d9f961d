//! Waits that cannot end well end soon, with the cause.

use std::net::IpAddr;
use std::time::Duration;

use model::event::Outcome;
use talos_client::Machine;

use crate::rig::{HOME, Rig};

impl Rig {
    async fn control(&self, name: &str) -> Machine {
        let look = self.look(HOME).await;
        let address = IpAddr::V4(look.blueprint.nodes[name].address.addr());
        Machine::connect(&self.world.net, &self.world.clock, address, &look.access().unwrap().talos).unwrap()
    }

    /// Applies; the run must fail within so many seconds, with these words.
    async fn fails_within(&self, file: &str, seconds: i64, words: &str) {
        let began = self.world.clock.now();
        let ran = self.apply(file).await;
        let took = self.world.clock.now().duration_since(began).as_secs();
        assert_eq!(ran.outcome, Outcome::Failed);
        let failures = ran.failures().join("\n");
        assert!(failures.contains(words), "{failures}");
        assert!(took <= seconds, "it took {took} s: {failures}");
    }
}

/// No registry has the kubelet: Talos tries for two minutes, then it never tries again.
#[tokio::test(start_paused = true)]
async fn t5_a_kubelet_whose_image_cannot_be_pulled_ends_the_wait() {
    let rig = Rig::healthy().await;
    let more = HOME.replace("worker, count: 2", "worker, count: 3");
    let file = format!(
        "{more}nodes:\n  home-work-3:\n    patches: [{{ machine: {{ kubelet: {{ image: 'ghcr.io/nope/kubelet:v1.35.4' }} }} }}]\n"
    );
    rig.fails_within(
        &file,
        360,
        "home-work-3 does not join: its service kubelet failed, and Talos does not try again",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn t5_a_control_plane_that_left_etcd_ends_the_wait() {
    let rig = Rig::healthy().await;
    rig.control("home-control-3").await.etcd_leave().await.unwrap();
    rig.world.clock.sleep(Duration::from_secs(30)).await;
    rig.fails_within(HOME, 240, "home-control-3 does not join: its service etcd has ended").await;
}

#[tokio::test(start_paused = true)]
async fn t5_a_removed_member_that_kept_its_data_ends_the_wait() {
    let rig = Rig::healthy().await;
    let third = rig.control("home-control-3").await.etcd_status().await.unwrap().member;
    rig.control("home-control-1").await.etcd_remove_member(third).await.unwrap();
    rig.world.clock.sleep(Duration::from_secs(30)).await;
    rig.fails_within(HOME, 240, "home-control-3 does not join: its service etcd restarts for ever").await;
}
