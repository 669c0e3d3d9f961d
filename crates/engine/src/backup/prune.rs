//! Which backups may be deleted, and their deletion.
//!
//! A backup is deleted only if its card was read and names this cluster by name and ID. What has no card, or one that cannot be read, may
//! be of another program, another cluster or a newer release: it stays.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::ErrorKind;

use jiff::SignedDuration;
use model::retention::{self, Backup, Reason};
use model::spec::Keep;

use super::{Backups, CardState, Entry, failed, leftovers};
use crate::error::{Error, Kind, Result};

/// How old cards and bundles without a snapshot must be before they are deleted. Until then a backup may still be in the making.
const LEFTOVER_AGE: SignedDuration = SignedDuration::from_hours(24);

/// What may be deleted, and what not.
#[derive(Debug, Clone, Default)]
pub struct Prunable {
    /// Backups that no rule keeps, the newest first.
    pub delete: Vec<Entry>,
    /// Backups that are kept, and why.
    pub keep: Vec<(Entry, BTreeSet<Reason>)>,
    /// Backups that no rule is about, and why they stay.
    pub ignored: Vec<(Entry, String)>,
    /// Files of backups that were never completed, or whose snapshot is gone.
    pub leftovers: Vec<String>,
}

impl Backups {
    /// What may be deleted by these rules.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, there is no bundle that says which cluster this is, or no backup that would be kept was verified.
    pub fn prunable(&self, keep: &Keep) -> Result<Prunable> {
        let bundle = self.bundle.as_ref().ok_or_else(|| {
            Error::new(
                Kind::Secrets,
                "could not tell which backups are of this cluster: there is no secrets bundle",
            )
            .hint("restore it from a backup: `talosmith backup list` lists them")
        })?;
        let cluster_id = bundle.bundle.cluster_id();
        let mut found = Prunable::default();
        let mut ours: BTreeMap<Backup, Vec<Entry>> = BTreeMap::new();
        for entry in self.list()? {
            let ignored = match &entry.card {
                CardState::Missing => Some("it has no card: another program made it".to_owned()),
                CardState::Unreadable(why) => Some(format!("its card cannot be read: {why}")),
                CardState::Read(card)
                    if card.cluster != self.cluster || card.facts.cluster_id != cluster_id =>
                {
                    Some("it is of another cluster with this name".to_owned())
                }
                CardState::Read(_) => None,
            };
            match ignored {
                Some(why) => found.ignored.push((entry, why)),
                None => {
                    let backup = Backup { at: entry.name.at, verified: entry.verified_at().is_some() };
                    ours.entry(backup).or_default().push(entry);
                }
            }
        }
        let all: Vec<Backup> = ours.keys().copied().collect();
        let mut kept = retention::kept(keep, &all);
        for (backup, entries) in ours.into_iter().rev() {
            match kept.remove(&backup) {
                Some(why) => found.keep.extend(entries.into_iter().map(|entry| (entry, why.clone()))),
                None => found.delete.extend(entries),
            }
        }
        let verified = found.keep.iter().any(|(entry, _)| entry.verified_at().is_some());
        if !found.delete.is_empty() && !verified {
            return Err(Error::new(Kind::Refused, "no backup was verified, so none was deleted")
                .coded("backup-unverified")
                .hint("`talosmith backup verify --all` verifies them"));
        }
        let objects = self.objects()?;
        let now = self.clock.now();
        let old = leftovers(&objects).into_values().filter(|(at, _)| now.duration_since(*at) > LEFTOVER_AGE);
        found.leftovers = old.flat_map(|(_, files)| files).map(str::to_owned).collect();
        Ok(found)
    }

    /// Deletes what was found: of each backup the snapshot first, because what has a name is whole.
    ///
    /// # Errors
    ///
    /// When a file cannot be deleted. What was deleted before stays deleted.
    pub fn delete(&self, found: &Prunable) -> Result<()> {
        let objects = found.delete.iter().map(|entry| {
            let name = &entry.name;
            vec![name.snapshot(), name.card(), name.bundle()]
        });
        for file in objects.flatten().chain(found.leftovers.iter().cloned()) {
            let path = self.folder.join(file);
            let attempt = || {
                failed("delete", &path).hint(
                    "what was deleted before stays deleted; correct the cause and run the command again",
                )
            };
            match std::fs::remove_file(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(attempt().because(error)),
            }
        }
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|e| failed("flush the folder", &self.folder).because(e))
    }
}
