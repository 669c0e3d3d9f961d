//! What a failed run leaves behind for the person who must understand it.

use engine::journal::FileJournal;
use engine::report::{self, Failed, ReportFolder, ReportStore};
use engine::scrub::Scrub;
use lab::{CallFilter, Injection, When};
use model::event::Outcome;

use crate::rig::{HOME, Rig, bundle};

#[tokio::test(start_paused = true)]
async fn the_report_has_the_logs_and_no_secret() {
    let rig = Rig::new();
    let which =
        CallFilter { method: "POST".to_owned(), path_contains: "/nodes/pve2/qemu".to_owned(), skip: 0 };
    rig.lab.inject(Injection::Known { number: 47, when: When::Call(which) });
    let snapshot = rig.observe(HOME).await;
    let ran = rig.carry_out(&snapshot, &snapshot.plan(), "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);

    // Every secret of the bundle, in a place that goes into the report.
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.jsonl");
    let secrets = bundle().to_yaml();
    std::fs::write(&journal, format!("the last line\n{secrets}\n")).unwrap();
    let scrub = Scrub::of(&bundle());
    let failed = Failed {
        systems: &rig.systems,
        snapshot: &snapshot,
        events: &ran.events,
        journal: &FileJournal::at(&journal),
        scrub: &scrub,
    };
    let files = report::collect(&failed).await;
    let path = ReportFolder::below(folder.path()).save(rig.systems.clock.now(), &files).unwrap();
    let path = std::path::PathBuf::from(path);

    let mut all = String::new();
    let mut names = vec![];
    for entry in std::fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        names.push(entry.file_name().into_string().unwrap());
        all.push_str(&std::fs::read_to_string(entry.path()).unwrap());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
    names.sort();
    assert_eq!(
        names,
        ["etcd.txt", "failures.txt", "journal.jsonl", "machine-home-control-2.txt", "proxmox-pve2.txt"],
    );
    assert!(all.contains("create-vm/home-control-2 failed (task-failed)"), "{all}");
    assert!(all.contains("Insufficient free space"), "the task's log is there: {all}");
    assert!(all.contains("make room in local-lvm on pve2"), "what to do about it: {all}");
    assert!(all.contains("the last line"), "the journal is there");
    for line in secrets.lines() {
        let value = line.split_once(": ").map_or("", |(_, value)| value.trim_matches('"'));
        assert!(
            value.len() < 12 || !all.contains(value),
            "{} leaked",
            line.split(':').next().unwrap_or_default()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_answers_tells_its_services_and_its_kernel_log() {
    let rig = Rig::new();
    rig.lab.inject(Injection::TimeServers { answer: false });
    let snapshot = rig.observe(HOME).await;
    let ran = rig.carry_out(&snapshot, &snapshot.plan(), "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    let folder = tempfile::tempdir().unwrap();
    let (journal, scrub) = (folder.path().join("journal.jsonl"), Scrub::of(&bundle()));
    let failed = Failed {
        systems: &rig.systems,
        snapshot: &snapshot,
        events: &ran.events,
        journal: &FileJournal::at(&journal),
        scrub: &scrub,
    };
    let files = report::collect(&failed).await;
    let path = ReportFolder::below(folder.path()).save(rig.systems.clock.now(), &files).unwrap();
    let path = std::path::PathBuf::from(path);
    let machine = std::fs::read_to_string(path.join("machine-home-control-1.txt")).unwrap();
    for words in
        ["stage booting, ready: false", "time: time is not synced", "Waiting for time sync", "kernel log:\n"]
    {
        assert!(machine.contains(words), "{words}: {machine}");
    }
    let etcd = std::fs::read_to_string(path.join("etcd.txt")).unwrap();
    assert!(etcd.contains("home-control-3"), "each control plane's own view: {etcd}");
}
