//! A plan that was saved, and a world that goes on.

use std::time::Duration;

use engine::saved::SavedPlan;
use pve::Params;

use crate::rig::{HOME, Rig};

fn params(pairs: &[(&str, &str)]) -> Params {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn f5_what_others_do_meanwhile_leaves_a_saved_plan_as_it_is() {
    let rig = Rig::healthy().await;
    let larger = HOME.replace("count: 2", "count: 3");
    let snapshot = rig.observe(&larger).await;
    let saved = SavedPlan::parse(&SavedPlan::new(&snapshot, &snapshot.plan()).to_text()).unwrap();
    let used = snapshot.observed.proxmox.inventory.hosts["pve1"].memory_used_mib;

    let pve = &rig.systems.pve;
    let theirs = params(&[("name", "mail"), ("memory", "2048")]);
    pve.follow(&pve.create_vm("pve1", 777, &theirs).await.unwrap(), |_| {}).await.unwrap();
    pve.follow(&pve.start("pve1", 777).await.unwrap(), |_| {}).await.unwrap();
    rig.systems.clock.sleep(Duration::from_secs(30)).await;
    let snapshot = rig.observe(&larger).await;
    assert!(snapshot.observed.proxmox.inventory.hosts["pve1"].memory_used_mib > used);
    let now = SavedPlan::new(&snapshot, &snapshot.plan());
    assert!(saved.still_holds(&now), "{:?}\n{:?}", saved.facts, now.facts);

    let host = &snapshot.observed.proxmox.taken[&150_021].host;
    pve.update_config(host, 150_021, &params(&[("tags", "mine")]), &[], None).await.unwrap();
    let snapshot = rig.observe(&larger).await;
    let now = SavedPlan::new(&snapshot, &snapshot.plan());
    assert!(!saved.still_holds(&now));
    let changed: Vec<&String> = now
        .facts
        .iter()
        .filter(|(name, value)| saved.facts.get(*name) != Some(value))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(changed, ["world/proxmox/marked/150021/config/tags"]);

    // What waits for the next start is different, too: a serial port that goes takes the proof of the machine with it.
    pve.update_config(host, 150_021, &params(&[]), &["serial0"], None).await.unwrap();
    let snapshot = rig.observe(&larger).await;
    let later = SavedPlan::new(&snapshot, &snapshot.plan());
    let changed: Vec<(&String, &String)> =
        later.facts.iter().filter(|(name, value)| now.facts.get(*name) != Some(value)).collect();
    let [(name, value)] = changed.as_slice() else { panic!("{changed:?}") };
    assert_eq!(
        (name.as_str(), value.as_str()),
        ("world/proxmox/marked/150021/pending/serial0", engine::saved::REMOVED)
    );
}
