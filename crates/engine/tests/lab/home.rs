//! What an operator keeps: an identity and the secrets bundle, in a folder of their own on a real disk.
//!
//! They are written with the functions that the program uses, in its order, so that a crash can be put between any two operations on the
//! file system. What the folder holds in such a moment is copied; that is what a process that is killed leaves, without its locks.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

use engine::files::Moment;
use engine::secrets::{self, AtRest, Identity};
use talos::secrets::Bundle;
use tempfile::TempDir;

use crate::rig::bundle;

const IDENTITY: &str = "identity.txt";
const BUNDLE: &str = "home.secrets.age";

/// The files of a folder.
pub type Files = BTreeMap<OsString, Vec<u8>>;

pub struct Home(TempDir);

impl Home {
    /// One with the bundle that all tests share.
    pub fn new() -> Self {
        static FILES: OnceLock<Files> = OnceLock::new();
        let first = || {
            let home = Self::of(&Files::new());
            home.open(bundle, &mut |_| {});
            home.files()
        };
        Self::of(FILES.get_or_init(first))
    }

    /// One that holds these files.
    pub fn of(files: &Files) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        Self(folder)
    }

    pub fn files(&self) -> Files {
        let entries = std::fs::read_dir(self.0.path()).unwrap().map(Result::unwrap);
        entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn identity(&self) -> Option<Identity> {
        let text = std::fs::read_to_string(self.path(IDENTITY)).ok()?;
        Some(Identity::parse(&text).unwrap())
    }

    /// The bundle as it is on the disk, opened with the identity as it is on the disk.
    pub fn bundle(&self) -> Option<Bundle> {
        let kept = secrets::load(&self.path(BUNDLE), self.identity().as_ref());
        kept.unwrap_or_else(|e| panic!("invariant 10 is violated: {:?}", e.causes())).map(|kept| kept.bundle)
    }

    /// What the program does when it starts to change a cluster: it uses the bundle that is there, or creates an identity and a bundle.
    pub fn open(&self, new: impl FnOnce() -> Bundle, at: &mut dyn FnMut(Moment)) -> Bundle {
        for name in [IDENTITY, BUNDLE] {
            engine::files::remove_abandoned(&self.path(name));
        }
        if let Some(bundle) = self.bundle() {
            return bundle;
        }
        let mut at = |moment| {
            at(moment);
            Ok(())
        };
        if self.identity().is_none() {
            secrets::create_identity(&self.path(IDENTITY), &mut at).unwrap();
        }
        let (new, identity) = (new(), self.identity().unwrap());
        let at_rest = AtRest::Encrypted(identity.recipients());
        secrets::create_at(&self.path(BUNDLE), &new, &at_rest, Some(&identity), &mut at).unwrap();
        new
    }

    /// Invariants 9 and 10: the bundle on the disk opens with the identity there, is that of this cluster (where one is in use), and nothing
    /// is beside them.
    pub fn check(&self, cluster_id: Option<&str>) {
        let names: Vec<OsString> = self.files().into_keys().collect();
        assert_eq!(
            names,
            [BUNDLE, IDENTITY],
            "invariant 9 is violated: a temporary file is left, or one is missing"
        );
        let kept = self.bundle().map(|bundle| bundle.cluster_id().to_owned());
        if cluster_id.is_none() {
            return;
        }
        assert_eq!(
            kept.as_deref(),
            cluster_id,
            "invariant 10 is violated: the bundle on the disk is not the one in use"
        );
    }
}

/// A bundle that differs from all others in the cluster's ID. New keys would take seconds.
pub fn another_bundle(number: u8) -> Bundle {
    use base64::Engine as _;
    let (text, id) = (bundle().to_yaml().to_string(), bundle().cluster_id().to_owned());
    let other = base64::prelude::BASE64_URL_SAFE.encode([number; 32]);
    Bundle::parse(&text.replace(&id, &other)).unwrap()
}

#[test]
fn a_bundle_that_was_replaced_or_does_not_open_is_seen() {
    let shared = bundle().cluster_id().to_owned();
    let refused = |home: &Home, id: &str| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| home.check(Some(id)))).is_err()
    };
    let home = Home::new();
    home.check(Some(&shared));
    assert!(refused(&home, another_bundle(1).cluster_id()));
    std::fs::write(home.path(".home.secrets.age.x.new"), "").unwrap();
    assert!(refused(&home, &shared));
    let home = Home::new();
    std::fs::remove_file(home.path(IDENTITY)).unwrap();
    secrets::create_identity(&home.path(IDENTITY), &mut |_| Ok(())).unwrap();
    assert!(refused(&home, &shared), "another identity does not open it");
}
