//! Backups of a cluster in the lab: what is in them, and what is left when something goes wrong.

use std::sync::Arc;
use std::time::Duration;

use engine::Session;
use engine::backup::Backups;
use engine::etcd_snapshot::{self, Taken};
use engine::secrets::{self, AtRest, Identity};
use lab::{CallFilter, Injection, When, Wire};
use model::allowed::Allowed;

use crate::rig::{HOME, Rig, bundle, spec};

/// A place for backups of the rig's cluster, and an identity that opens them.
struct Place {
    folder: tempfile::TempDir,
    backups: Backups,
}

impl Place {
    fn of(rig: &Rig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let identity = Identity::generate();
        let path = folder.path().join("home.secrets.age");
        let at_rest = AtRest::Encrypted(identity.recipients());
        secrets::create(&path, &bundle(), &at_rest, Some(&identity)).unwrap();
        let kept = secrets::load(&path, Some(&identity)).unwrap().unwrap();
        let backups = Backups::at(&folder.path().join("backups"), "home", rig.systems.clock.clone())
            .with_bundle(kept, identity.recipients())
            .with_identity(Some(identity));
        Self { folder, backups }
    }

    async fn back_up(&self, rig: &Rig) -> engine::Result<Taken> {
        let session = Session::new(rig.systems.clone(), spec(HOME), rig.home.bundle());
        let session = session.with_snapshots(Arc::new(self.backups.clone()));
        let Ok(snapshot) = session.refresh().await else { panic!("it can be observed") };
        Box::pin(etcd_snapshot::take(&rig.systems, &snapshot, &|_| {})).await
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.backups.folder()).map(Iterator::count).unwrap_or(0)
    }
}

fn snapshot_call() -> CallFilter {
    CallFilter { method: "CALL".to_owned(), path_contains: "EtcdSnapshot".to_owned(), skip: 0 }
}

#[tokio::test(start_paused = true)]
async fn a_backup_says_what_it_is_of_and_comes_from_a_follower() {
    let rig = Rig::healthy().await;
    let place = Place::of(&rig);
    let taken = place.back_up(&rig).await.unwrap();
    let entry = place.backups.find(None).unwrap();
    let card = entry.card().unwrap();
    assert!(entry.verified_at().is_some());
    assert_eq!(card.facts.cluster_id, bundle().cluster_id());
    assert_eq!(card.facts.versions.talos.as_deref(), Some("v1.13.9"));
    assert_eq!(card.facts.versions.kubernetes.as_deref(), Some("v1.35.4"));
    assert_eq!(card.facts.versions.contract.as_deref(), Some("v1.13"));
    assert!(card.facts.versions.etcd.as_deref().is_some_and(|version| version.starts_with("3.")), "{card:?}");
    assert_eq!((card.facts.etcd.members.len(), card.facts.etcd.node.as_str()), (3, &*taken.node));
    assert!(
        card.facts.etcd.revision.is_some_and(|revision| revision > 1) && card.facts.etcd.applied_index > 1
    );
    // The lab says itself who leads.
    let snapshot = rig.observe(HOME).await;
    let status = snapshot.observed.machines[&taken.node].etcd_status.clone().unwrap();
    assert_ne!(status.leader.as_deref(), Some(card.facts.etcd.member.as_str()), "a follower was asked");
    let output = place.folder.path().join("etcd.db");
    let got = place.backups.get(&entry, &output).unwrap();
    assert_eq!(got, taken.snapshot);
    assert!(place.backups.verify(entry).unwrap().warnings.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_leaves_no_backup_and_the_next_one_is_made() {
    let rig = Rig::healthy().await;
    let place = Place::of(&rig);
    place.back_up(&rig).await.unwrap();
    let before = place.files();
    for fault in [Wire::Reset, Wire::Cut, Wire::Lost] {
        rig.lab.inject(Injection::Wire { fault, when: When::Call(snapshot_call()) });
        let failed = place.back_up(&rig).await.unwrap_err();
        assert_eq!(failed.code(), "machine-unavailable", "{fault}: {:?}", failed.causes());
        assert_eq!((place.files(), place.backups.list().unwrap().len()), (before, 1), "{fault}");
    }
    rig.systems.clock.sleep(Duration::from_secs(1)).await;
    place.back_up(&rig).await.unwrap();
    assert_eq!(place.backups.list().unwrap().len(), 2);
}

/// A process that dies at any time while a snapshot comes leaves a temporary file at most.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_leaves_no_backup() {
    let rig = Rig::healthy().await;
    let place = Place::of(&rig);
    rig.lab.inject(Injection::Wire { fault: Wire::BlackHole, when: When::Call(snapshot_call()) });
    let cut = rig.systems.clock.timeout(Duration::from_secs(10), place.back_up(&rig)).await;
    assert!(cut.is_err(), "it waits");
    assert_eq!((place.files(), place.backups.list().unwrap().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_removal_makes_a_backup_first_and_stops_where_it_cannot() {
    let file = HOME.replace("role: controlplane, count: 3", "role: controlplane, count: 1");
    let rig = Rig::healthy().await;
    let place = Place::of(&rig);
    let allowed = Allowed { removed: true, ..Allowed::default() };
    let session = |backups: Backups| {
        let session = Session::new(rig.systems.clone(), spec(&file), rig.home.bundle());
        session.allowing(allowed.clone()).with_snapshots(Arc::new(backups))
    };
    // A file stands where the folder should be.
    let nowhere = Place::of(&rig);
    std::fs::write(nowhere.folder.path().join("backups"), b"").unwrap();
    let Ok(snapshot) = session(nowhere.backups.clone()).observe().await else { panic!("it can be observed") };
    let plan = snapshot.plan();
    assert!(plan.steps.iter().any(|step| step.id.to_string().contains("snapshot")), "{:?}", plan.steps);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert!(ran.failures().iter().any(|failure| failure.contains("could not")), "{:?}", ran.failures());
    assert_eq!(place.backups.list().unwrap().len(), 0);
    assert_eq!(rig.observe(HOME).await.observed.machines.len(), 5, "no node was removed");

    let Ok(snapshot) = session(place.backups.clone()).observe().await else { panic!("it can be observed") };
    let plan = snapshot.plan();
    rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    let entry = place.backups.find(None).unwrap();
    assert!(entry.verified_at().is_some());
    assert_eq!(entry.card().unwrap().facts.etcd.members.len(), 3, "from before the removal");
}
