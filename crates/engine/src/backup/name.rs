//! What the objects of a backup are called: as talos-backup calls them, so that both can be listed together.

use jiff::Timestamp;

/// What stands behind the time in the name of a snapshot that we write.
const OURS: &str = ".snap.zst.age";
/// What may stand there: compressed or not, encrypted or not.
const SNAPSHOTS: [&str; 4] = [OURS, ".snap.age", ".snap.zst", ".snap"];
const CARD: &str = ".card.age";
const BUNDLE: &str = ".secrets.age";

/// The name of a snapshot in a store, and of what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// When it was made.
    pub at: Timestamp,
    stem: String,
    layers: &'static str,
}

/// What an object in a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Object {
    /// A snapshot.
    Snapshot(Name),
    /// A card or a bundle of the snapshot with this stem.
    Beside { at: Timestamp, stem: String },
}

impl Name {
    /// The name of a new backup.
    pub(super) fn new(cluster: &str, at: Timestamp) -> Self {
        // To the second, as talos-backup has it.
        let at = Timestamp::from_second(at.as_second()).unwrap_or(at);
        Self { at, stem: format!("{cluster}-{at}"), layers: OURS }
    }

    /// What the file name of an object says; `None` for anything that is not part of a backup of this cluster.
    pub(super) fn read(cluster: &str, file: &str) -> Option<Object> {
        let time = |stem: &str| stem.strip_prefix(cluster)?.strip_prefix('-')?.parse::<Timestamp>().ok();
        for layers in SNAPSHOTS {
            if let Some(stem) = file.strip_suffix(layers) {
                return Some(Object::Snapshot(Self { at: time(stem)?, stem: stem.to_owned(), layers }));
            }
        }
        let stem = [CARD, BUNDLE].into_iter().find_map(|end| file.strip_suffix(end))?;
        Some(Object::Beside { at: time(stem)?, stem: stem.to_owned() })
    }

    /// The file name of the snapshot.
    #[must_use]
    pub fn snapshot(&self) -> String {
        format!("{}{}", self.stem, self.layers)
    }

    /// The file name of the card.
    #[must_use]
    pub fn card(&self) -> String {
        format!("{}{CARD}", self.stem)
    }

    /// The file name of the copy of the secrets bundle.
    #[must_use]
    pub fn bundle(&self) -> String {
        format!("{}{BUNDLE}", self.stem)
    }

    /// What both the snapshot and what is beside it start with.
    pub(super) fn stem(&self) -> &str {
        &self.stem
    }

    /// Whether a person means this one: by file name, by the part of it before its end, or by time.
    pub(super) fn is_meant(&self, text: &str) -> bool {
        let text = text.rsplit('/').next().unwrap_or(text);
        text == self.snapshot() || text == self.stem || text.parse().is_ok_and(|at: Timestamp| at == self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_talos_backup() {
        let name = Name::new("home", "2026-03-01T10:00:00.25Z".parse().unwrap());
        assert_eq!(name.snapshot(), "home-2026-03-01T10:00:00Z.snap.zst.age");
        assert_eq!(name.card(), "home-2026-03-01T10:00:00Z.card.age");
        assert_eq!(name.bundle(), "home-2026-03-01T10:00:00Z.secrets.age");
        assert_eq!(Name::read("home", &name.snapshot()), Some(Object::Snapshot(name.clone())));
        let beside = Object::Beside { at: name.at, stem: name.stem().to_owned() };
        assert_eq!(Name::read("home", &name.bundle()), Some(beside));
        for text in [
            "2026-03-01T11:00:00+01:00",
            "home-2026-03-01T10:00:00Z",
            "a/b/home-2026-03-01T10:00:00Z.snap.zst.age",
        ] {
            assert!(name.is_meant(text), "{text}");
        }
    }

    #[test]
    fn nothing_else_is_taken_for_a_backup() {
        for other in [
            "home-2-2026-03-01T10:00:00Z.snap.zst.age",
            "office-2026-03-01T10:00:00Z.snap.zst.age",
            "home-2026-03-01.snap",
            "home-2026-03-01T10:00:00Z.snap.zst.age.new",
            "home-2026-03-01T10:00:00Z.txt",
            ".home-2026-03-01T10:00:00Z.snap",
            "home.secrets.age",
        ] {
            assert_eq!(Name::read("home", other), None, "{other}");
        }
        let Some(Object::Snapshot(foreign)) = Name::read("home", "home-2026-03-01T10:00:00+02:00.snap.age")
        else {
            panic!("one of talos-backup")
        };
        assert_eq!(foreign.at.to_string(), "2026-03-01T08:00:00Z");
        assert_eq!(foreign.snapshot(), "home-2026-03-01T10:00:00+02:00.snap.age");
    }
}
