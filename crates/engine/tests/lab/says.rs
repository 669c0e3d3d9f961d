//! What commands say of the world is true.

use std::time::Duration;

use lab::Disturbance;

use crate::rig::{HOME, Rig};

impl Rig {
    /// The condition of health about etcd.
    async fn etcd_condition(&self) -> String {
        let look = self.session(HOME).look_around().await.unwrap();
        let conditions = engine::health::conditions(&self.world, &look).await;
        conditions.into_iter().find(|c| c.name.starts_with("etcd")).unwrap().missing.unwrap_or_default()
    }
}

#[tokio::test(start_paused = true)]
async fn t6_a_lost_quorum_is_said_by_plan_and_health() {
    let rig = Rig::healthy().await;
    let look = rig.look(HOME).await;
    let whole = model::quorum::standing(&look.blueprint, &look.observed.machines).unwrap();
    let text = whole.to_string();
    assert!(
        text.starts_with("3 of 3 members answer, quorum holds, 1 failure is tolerated; leader home-"),
        "{text}"
    );
    assert!(text.contains("; VIP 10.25.150.10 on home-control-"), "{text}");
    assert_eq!(look.plan().notices, [], "nothing to tell of an etcd that is whole");
    assert_eq!(rig.etcd_condition().await, "");

    // The first one, which nothing may stop at.
    rig.lab.disturb(Disturbance::Unplugged { vmid: 150_011, unplugged: true });
    rig.world.clock.sleep(Duration::from_secs(60)).await;
    let tight = "2 of 3 members answer, quorum holds, one more failure loses it; home-control-1 does not answer; leader home-control-";
    let told =
        |plan: model::plan::Plan| plan.notices.into_iter().map(|n| n.text).collect::<Vec<_>>().join("\n");
    let notices = told(rig.look(HOME).await.plan());
    assert!(notices.contains(&format!("etcd: {tight}")), "{notices}");
    let condition = rig.etcd_condition().await;
    assert!(condition.starts_with(tight), "{condition}");

    rig.lab.disturb(Disturbance::Unplugged { vmid: 150_012, unplugged: true });
    rig.world.clock.sleep(Duration::from_secs(60)).await;
    let lost = "quorum lost: home-control-3 answers and sees no leader; home-control-1, home-control-2 do not answer";
    let notices = told(rig.look(HOME).await.plan());
    assert!(notices.contains(&format!("etcd: {lost}")), "{notices}");
    let condition = rig.etcd_condition().await;
    assert!(condition.starts_with(lost), "{condition}");
}
