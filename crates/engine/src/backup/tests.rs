//! Backups in a folder: what is kept, what is refused, and what is never lost.

use std::io::{Read, Write as _};
use std::path::Path;
use std::time::Instant;

use sha2::{Digest as _, Sha256};
use talos::config::Contract;
use talos::secrets::Bundle;
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::secrets::AtRest;
use crate::snapshots::Facts;

/// The secrets bundle of the tests, made once: its RSA key takes a while.
fn bundle() -> Bundle {
    static TEXT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let made = || {
        let contract = Contract::parse("v1.13").unwrap();
        Bundle::generate(contract, "2026-01-01T00:00:00Z".parse().unwrap()).unwrap().to_yaml().to_string()
    };
    Bundle::parse(TEXT.get_or_init(made)).unwrap()
}

/// A snapshot of nothing much.
fn sample(pages: usize) -> (Vec<u8>, talos_client::Snapshot) {
    let mut bytes: Vec<u8> = (0..pages * 512).map(|i| u8::try_from((i / 7) % 251).unwrap()).collect();
    let digest = Sha256::digest(&bytes);
    bytes.extend_from_slice(&digest);
    let snapshot =
        talos_client::Snapshot { bytes: u64::try_from(bytes.len()).unwrap(), sha256: hex::encode(digest) };
    (bytes, snapshot)
}

struct Rig {
    folder: tempfile::TempDir,
    identity: Identity,
    backups: Backups,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let identity = Identity::generate();
        let kept = kept(folder.path(), &identity);
        let backups = Backups::at(&folder.path().join("backups"), "home", Clock::real())
            .with_bundle(kept, identity.recipients())
            .with_identity(Some(identity.clone()));
        Self { folder, identity, backups }
    }

    fn of(&self, at: &str) -> SnapshotOf {
        let facts = Facts { cluster_id: bundle().cluster_id().to_owned(), ..Facts::default() };
        SnapshotOf { cluster: "home".into(), node: "home-control-1".into(), at: at.parse().unwrap(), facts }
    }

    async fn made(&self, at: &str) -> Entry {
        let (bytes, snapshot) = sample(300);
        let mut new = self.backups.create(&self.of(at)).await.unwrap();
        for piece in bytes.chunks(32 << 10) {
            new.write_all(piece).await.unwrap();
        }
        new.flush().await.unwrap();
        let place = new.keep(snapshot).await.unwrap();
        self.backups.find(Some(&place)).unwrap()
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.backups.folder()).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn path(&self, file: &str) -> PathBuf {
        self.backups.folder().join(file)
    }
}

/// A bundle that lies in a folder, encrypted.
fn kept(folder: &Path, identity: &Identity) -> Kept {
    let path = folder.join("home.secrets.age");
    secrets::create(&path, &bundle(), &AtRest::Encrypted(identity.recipients()), Some(identity)).unwrap();
    secrets::load(&path, Some(identity)).unwrap().unwrap()
}

const NOON: &str = "2026-03-01T12:00:00Z";

#[tokio::test]
async fn a_backup_is_three_files_that_age_opens() {
    let rig = Rig::new();
    let entry = rig.made(NOON).await;
    assert_eq!(
        rig.files(),
        [
            "home-2026-03-01T12:00:00Z.card.age",
            "home-2026-03-01T12:00:00Z.secrets.age",
            "home-2026-03-01T12:00:00Z.snap.zst.age"
        ]
    );
    let stored = std::fs::read(rig.path(&entry.name.snapshot())).unwrap();
    assert!(stored.starts_with(b"age-encryption.org/v1"), "as age writes it");
    let compressed = secrets::decrypted(&rig.identity, &stored).unwrap();
    let (bytes, _) = sample(300);
    assert_eq!(zstd::decode_all(&**compressed).unwrap(), bytes);
    let card = entry.card().unwrap();
    assert_eq!((card.cluster.as_str(), card.facts.cluster_id.as_str()), ("home", bundle().cluster_id()));
    assert_eq!(card.snapshot.bytes, u64::try_from(bytes.len()).unwrap());
    assert!(entry.verified_at().is_some(), "it was read back");
    let copy = secrets::load(&rig.path(&entry.name.bundle()), Some(&rig.identity)).unwrap().unwrap();
    assert_eq!(copy.bundle.cluster_id(), bundle().cluster_id());
    #[cfg(unix)]
    for file in rig.files() {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(rig.path(&file)).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
    let ignored = std::fs::read_to_string(rig.folder.path().join("backups/.gitignore")).unwrap();
    assert_eq!(ignored, "*\n");
}

#[tokio::test]
async fn each_recipient_opens_a_backup_and_no_one_else_does() {
    let rig = Rig::new();
    let other = Identity::generate();
    let both = [rig.identity.recipients(), other.recipients()].concat();
    let rig = Rig { backups: Backups { recipients: both, ..rig.backups.clone() }, ..rig };
    let entry = rig.made(NOON).await;
    for identity in [&rig.identity, &other] {
        let theirs = rig.backups.clone().with_identity(Some(identity.clone()));
        let entry = theirs.find(None).unwrap();
        assert!(theirs.verify(entry).is_ok());
    }
    for (identity, code) in [(Some(Identity::generate()), "backup-damaged"), (None, "backup-closed")] {
        let theirs = rig.backups.clone().with_identity(identity);
        let refused = theirs.verify(theirs.find(None).unwrap()).unwrap_err();
        assert_eq!(refused.code(), code, "{:?}", refused.causes());
        let output = rig.folder.path().join("out.db");
        assert_eq!(theirs.get(&entry, &output).unwrap_err().code(), "backup-closed");
        assert!(!output.exists());
    }
}

#[tokio::test]
async fn without_an_identity_a_backup_is_made_and_not_called_verified() {
    let rig = Rig::new();
    let theirs = Identity::generate();
    for identity in [None, Some(Identity::generate())] {
        let backups = Backups { recipients: theirs.recipients(), identity, ..rig.backups.clone() };
        let rig = Rig { backups, folder: tempfile::tempdir().unwrap(), identity: theirs.clone() };
        rig.made(NOON).await;
        let entry = rig.backups.clone().with_identity(Some(theirs.clone())).find(None).unwrap();
        assert_eq!(entry.verified_at(), None);
        std::fs::remove_dir_all(rig.backups.folder()).unwrap();
    }
}

#[tokio::test]
async fn a_backup_that_no_one_could_open_is_not_made() {
    let rig = Rig::new();
    let backups = Backups { recipients: vec![], ..rig.backups.clone() };
    let refused = backups.create(&rig.of(NOON)).await.err().unwrap();
    assert_eq!((refused.code(), refused.kind()), ("backup-no-recipients", Kind::Refused));
    assert_eq!(rig.files(), [] as [&str; 0]);
}

#[tokio::test]
async fn what_is_not_kept_leaves_nothing() {
    let rig = Rig::new();
    let (bytes, mut wrong) = sample(300);
    let mut new = rig.backups.create(&rig.of(NOON)).await.unwrap();
    new.write_all(&bytes[..70_000]).await.unwrap();
    assert_eq!(rig.files().len(), 1, "a temporary file");
    assert_eq!(rig.backups.list().unwrap().len(), 0, "which does not count");
    drop(new);
    assert_eq!(rig.files(), [] as [&str; 0]);
    // What was written is not what was checked on the way.
    wrong.sha256 = "0".repeat(64);
    let mut new = rig.backups.create(&rig.of(NOON)).await.unwrap();
    new.write_all(&bytes).await.unwrap();
    assert_eq!(new.keep(wrong).await.unwrap_err().code(), "backup-damaged");
    assert_eq!(rig.files(), [] as [&str; 0]);
}

#[tokio::test]
async fn what_a_dead_process_left_is_removed_by_the_next_backup() {
    let rig = Rig::new();
    rig.made(NOON).await;
    let left = format!(".home-2026-03-01T11:00:00Z.snap.zst.age.{}.new", uuid::Uuid::from_bytes([3; 16]));
    std::fs::write(rig.path(&left), b"half").unwrap();
    assert_eq!(rig.backups.list().unwrap().len(), 1, "it is not a backup");
    rig.made("2026-03-01T13:00:00Z").await;
    assert!(!rig.files().contains(&left));
    assert_eq!(rig.backups.list().unwrap().len(), 2);
}

#[tokio::test]
async fn two_backups_of_one_second_have_two_names() {
    let rig = Rig::new();
    let (first, second) = (rig.made(NOON).await, rig.made(NOON).await);
    assert_ne!(first.name, second.name);
    assert_eq!(second.name.at.to_string(), "2026-03-01T12:00:01Z");
}

#[tokio::test]
async fn a_snapshot_comes_out_as_it_went_in() {
    let rig = Rig::new();
    let entry = rig.made(NOON).await;
    let output = rig.folder.path().join("etcd.db");
    rig.backups.get(&entry, &output).unwrap();
    assert_eq!(std::fs::read(&output).unwrap(), sample(300).0);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&output).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let again = rig.backups.get(&entry, &output).unwrap_err();
    assert!(again.advice().unwrap().contains("does not exist yet"), "{again:?}");
}

#[tokio::test]
async fn every_damaged_byte_is_found() {
    let rig = Rig::new();
    let entry = rig.made(NOON).await;
    let path = rig.path(&entry.name.snapshot());
    let whole = std::fs::read(&path).unwrap();
    let output = rig.folder.path().join("out.db");
    let places = [0, 30, 150, whole.len() / 2, whole.len() - 1];
    let mut broken: Vec<Vec<u8>> = places
        .into_iter()
        .map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        })
        .collect();
    broken.extend([
        whole[..whole.len() - 1].to_vec(),
        whole[..whole.len() / 2].to_vec(),
        vec![],
        [&whole[..], b"x"].concat(),
    ]);
    for bytes in broken {
        std::fs::write(&path, &bytes).unwrap();
        let entry = rig.backups.find(None).unwrap();
        let refused = rig.backups.verify(entry.clone()).unwrap_err();
        assert!(["backup-damaged", "backup-closed"].contains(&refused.code()), "{:?}", refused.causes());
        assert!(rig.backups.get(&entry, &output).is_err(), "{} bytes", bytes.len());
        assert!(!output.exists(), "nothing is left of it");
    }
    std::fs::write(&path, &whole).unwrap();
    assert!(rig.backups.verify(rig.backups.find(None).unwrap()).is_ok());
}

#[tokio::test]
async fn a_bundle_or_a_card_of_another_backup_is_found() {
    let rig = Rig::new();
    let (one, two) = (rig.made(NOON).await, rig.made("2026-03-02T12:00:00Z").await);
    let swapped = |from: String, to: String| std::fs::copy(rig.path(&from), rig.path(&to)).unwrap();
    swapped(two.name.card(), one.name.card());
    let refused = rig.backups.verify(rig.backups.find(Some(NOON)).unwrap()).unwrap_err();
    assert_eq!(refused.code(), "backup-damaged");
    std::fs::remove_file(rig.path(&two.name.bundle())).unwrap();
    let refused = rig.backups.verify(rig.backups.find(None).unwrap()).unwrap_err();
    assert!(refused.causes().join(": ").contains("is missing"), "{:?}", refused.causes());
}

#[tokio::test]
async fn backups_of_talos_backup_are_read_whatever_layers_they_have() {
    let rig = Rig::new();
    let (bytes, snapshot) = sample(40);
    let compressed = zstd::encode_all(&bytes[..], 1).unwrap();
    let sealed = |plain: &[u8]| {
        let mut out = vec![];
        let mut writer =
            secrets::encryptor(&rig.identity.recipients()).unwrap().wrap_output(&mut out).unwrap();
        writer.write_all(plain).unwrap();
        writer.finish().unwrap();
        out
    };
    std::fs::create_dir_all(rig.backups.folder()).unwrap();
    let all = [
        (".snap", bytes.clone()),
        (".snap.zst", compressed.clone()),
        (".snap.age", sealed(&bytes)),
        (".snap.zst.age", sealed(&compressed)),
    ];
    for (hour, (end, stored)) in (10..).zip(all) {
        let name = format!("home-2026-03-01T{hour}:00:00+01:00{end}");
        std::fs::write(rig.path(&name), stored).unwrap();
        let entry = rig.backups.find(Some(&name)).unwrap();
        let verified = rig.backups.verify(entry.clone()).unwrap();
        assert_eq!((verified.snapshot, verified.warnings.len()), (snapshot.clone(), 1), "{end}");
        assert_eq!(verified.entry.verified_at(), None, "there is no card to say so");
        let output = rig.folder.path().join(format!("out{hour}"));
        rig.backups.get(&entry, &output).unwrap();
        assert_eq!(std::fs::read(&output).unwrap(), bytes);
    }
    assert_eq!(rig.backups.summary().unwrap().verified, None);
    assert_eq!(rig.backups.summary().unwrap().count, 4);
}

#[tokio::test]
async fn only_backups_of_this_cluster_are_deleted_and_only_by_the_rules() {
    let rig = Rig::new();
    for day in 1..=5 {
        rig.made(&format!("2026-03-0{day}T12:00:00Z")).await;
    }
    // Not ours: without a card, of another cluster, with a card of the future, and no backup at all.
    std::fs::write(rig.path("home-2026-02-01T12:00:00Z.snap.zst.age"), b"theirs").unwrap();
    std::fs::write(rig.path("notes.txt"), b"mine").unwrap();
    let other = SnapshotOf {
        facts: Facts { cluster_id: "other".into(), ..Facts::default() },
        ..rig.of("2026-01-01T12:00:00Z")
    };
    let (bytes, snapshot) = sample(3);
    let mut new = rig.backups.create(&other).await.unwrap();
    new.write_all(&bytes).await.unwrap();
    new.keep(snapshot).await.unwrap();
    // Left over by a process that died, long ago and just now.
    std::fs::write(rig.path("home-2026-02-02T12:00:00Z.card.age"), b"x").unwrap();
    let just_now =
        format!("home-{}.secrets.age", Timestamp::from_second(rig.backups.clock.now().as_second()).unwrap());
    std::fs::write(rig.path(&just_now), b"x").unwrap();

    let keep = model::spec::Keep { hourly: 0, daily: 2, weekly: 0 };
    let found = rig.backups.prunable(&keep).unwrap();
    let days = |entries: &[Entry]| {
        entries.iter().map(|entry| entry.name.at.strftime("%d").to_string()).collect::<Vec<_>>()
    };
    assert_eq!(days(&found.delete), ["03", "02", "01"]);
    assert_eq!((found.keep.len(), found.ignored.len()), (2, 2));
    assert_eq!(found.leftovers, ["home-2026-02-02T12:00:00Z.card.age"]);
    let before = rig.files();
    rig.backups.delete(&found).unwrap();
    let after = rig.files();
    assert_eq!(before.len() - after.len(), 3 * 3 + 1);
    for file in [
        "notes.txt",
        "home-2026-02-01T12:00:00Z.snap.zst.age",
        "home-2026-01-01T12:00:00Z.snap.zst.age",
        &just_now,
    ] {
        assert!(after.contains(&file.to_owned()), "{file} stays");
    }
    assert!(rig.backups.prunable(&keep).unwrap().delete.is_empty());
}

#[tokio::test]
async fn nothing_is_deleted_while_no_backup_is_verified() {
    let rig = Rig::new();
    for hour in [10, 11, 12] {
        let entry = rig.made(&format!("2026-03-01T{hour}:00:00Z")).await;
        // A file of another size is not the one that was verified.
        let mut file =
            std::fs::OpenOptions::new().append(true).open(rig.path(&entry.name.snapshot())).unwrap();
        file.write_all(b"x").unwrap();
    }
    let none = model::spec::Keep { hourly: 0, daily: 0, weekly: 0 };
    let refused = rig.backups.prunable(&none).unwrap_err();
    assert_eq!((refused.code(), refused.kind()), ("backup-unverified", Kind::Refused));
    assert_eq!(
        rig.backups.summary().unwrap(),
        Summary { count: 3, newest: "2026-03-01T12:00:00Z".parse().ok(), verified: None }
    );
    assert_eq!(rig.files().len(), 9);
}

#[tokio::test]
async fn a_verification_is_noted_on_the_card() {
    let rig = Rig::new();
    let entry = rig.made(NOON).await;
    let before = entry.verified_at().unwrap();
    let verified = rig.backups.verify(entry).unwrap();
    assert!(
        verified.entry.verified_at().unwrap() >= before && verified.warnings.is_empty(),
        "{:?}",
        verified.warnings
    );
    assert_eq!(rig.backups.find(None).unwrap().verified_at(), verified.entry.verified_at());
    assert_eq!(rig.backups.summary().unwrap().verified, NOON.parse().ok());
}

/// A folder without room: nothing of the backup is left, and older ones are as they were.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_folder_is_an_error_and_loses_nothing() {
    let rig = Rig::new();
    rig.made(NOON).await;
    let (bytes, snapshot) = sample(300);
    let before = rig.files();
    // A device without room stands for the file system.
    let name = Name::new("home", "2026-03-01T13:00:00Z".parse().unwrap());
    let full = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
    let file = NewFile::create(&rig.path(&name.snapshot())).unwrap().on(full);
    let mut new = match NewBackup::onto(&rig.backups, &rig.of("2026-03-01T13:00:00Z"), name, file) {
        Ok(new) => new,
        Err(error) => {
            // The header alone had no room.
            assert!(error.causes().join(": ").contains("No space left"), "{:?}", error.causes());
            assert_eq!(rig.files(), before);
            return;
        }
    };
    let wrote = new.write_all(&bytes).await;
    let kept = match wrote {
        Ok(()) => Box::new(new).keep(snapshot).await.map(drop).map_err(|e| e.causes().join(": ")),
        Err(error) => {
            drop(new);
            Err(error.to_string())
        }
    };
    assert!(kept.unwrap_err().contains("No space left"));
    assert_eq!(rig.files(), before);
    assert!(rig.backups.verify(rig.backups.find(None).unwrap()).is_ok());
}

/// Reads as many bytes as it is asked for, and then fails as a store does whose connection breaks.
struct Cut(io::Cursor<Vec<u8>>);

impl Read for Cut {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::new(ErrorKind::ConnectionReset, "the store went away")),
            count => Ok(count),
        }
    }
}

#[tokio::test]
async fn a_store_that_goes_away_is_not_taken_for_damage() {
    let rig = Rig::new();
    let entry = rig.made(NOON).await;
    let whole = std::fs::read(rig.path(&entry.name.snapshot())).unwrap();
    for length in [0, 10, whole.len() / 2, whole.len()] {
        let cut = Cut(io::Cursor::new(whole[..length].to_vec()));
        let closed = opened::check(cut, Some(&rig.identity)).unwrap_err();
        assert!(
            matches!(&closed, Closed::Unread(error) if error.to_string().contains("went away")),
            "{length}: {closed:?}"
        );
    }
}

/// A snapshot of a real etcd, in a file. `conformance/backup/run` makes it and looks at what came out.
#[tokio::test]
#[ignore = "conformance/backup/run gives it a snapshot of a real etcd"]
async fn a_snapshot_of_a_real_etcd_comes_out_as_it_went_in() {
    let [from, to] =
        ["TALOSMITH_SNAPSHOT", "TALOSMITH_OUTPUT"].map(|name| PathBuf::from(std::env::var_os(name).unwrap()));
    let rig = Rig::new();
    let mut check = talos_client::SnapshotCheck::default();
    let mut new = rig.backups.create(&rig.of(NOON)).await.unwrap();
    let mut file = File::open(from).unwrap();
    let mut piece = vec![0; 32 << 10];
    loop {
        let count = file.read(&mut piece).unwrap();
        if count == 0 {
            break;
        }
        check.take(&piece[..count]);
        new.write_all(&piece[..count]).await.unwrap();
    }
    new.keep(check.end().unwrap()).await.unwrap();
    rig.backups.get(&rig.backups.find(None).unwrap(), &to).unwrap();
}

/// 2 GiB, none of which is ever in memory as a whole. `conformance/backup/run` does not run it: it takes half a minute, and is measured
/// with `cargo test --release`.
#[cfg(target_os = "linux")]
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "it is measured, in real time")]
#[ignore = "takes half a minute: cargo test --release -p engine --lib -- --ignored a_large_snapshot"]
async fn a_large_snapshot_needs_little_memory_and_little_time() {
    let gib: usize = std::env::var("GIB").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let rig = Rig::new();
    // What etcd holds: texts that are alike, with random parts in them.
    let mut seed = 88_172_645_463_325_252_u64;
    let mut block = move || {
        let mut block = Vec::with_capacity(1 << 20);
        while block.len() < 1 << 20 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            block.extend_from_slice(b"/registry/pods/kube-system/coredns-");
            block.extend_from_slice(&seed.to_le_bytes());
            block
                .extend_from_slice(br#"{"managedFields":[{"apiVersion":"v1","fieldsType":"FieldsV1","uid":"#);
            block.extend_from_slice(&seed.rotate_left(17).wrapping_mul(31).to_le_bytes());
        }
        block.truncate(1 << 20);
        block
    };
    let mut check = talos_client::SnapshotCheck::default();
    let mut hash = Sha256::new();
    let began = Instant::now();
    let mut new = rig.backups.create(&rig.of(NOON)).await.unwrap();
    let mut spent_on_the_test = Duration::ZERO;
    for _ in 0..gib << 10 {
        let own = Instant::now();
        let block = block();
        hash.update(&block);
        spent_on_the_test += own.elapsed();
        for piece in block.chunks(32 << 10) {
            check.take(piece);
            new.write_all(piece).await.unwrap();
        }
    }
    let digest = hash.finalize();
    check.take(&digest);
    new.write_all(&digest).await.unwrap();
    let written = began.elapsed() - spent_on_the_test;
    let place = new.keep(check.end().unwrap()).await.unwrap();
    let all = began.elapsed() - spent_on_the_test;
    let stored = std::fs::metadata(place).unwrap().len() >> 20;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap().to_owned();
    let speed = |time: Duration| f64::from(u32::try_from(gib << 10).unwrap()) / time.as_secs_f64();
    println!(
        "{gib} GiB to {stored} MiB: {:.0} MiB/s written, {:.0} MiB/s with reading back; {peak}",
        speed(written),
        speed(all)
    );
    let kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 64 << 10, "{peak}");
}
