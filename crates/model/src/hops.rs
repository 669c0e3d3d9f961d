//! The way from the releases that run to the releases in the file.
//!
//! A state is a pair of release lines, Talos and Kubernetes. A hop raises one of them by one minor, and is valid if the pair that it leads
//! to is in the table of [`releases`]. Talos goes first: a newer Talos supports the Kubernetes that runs for longer than an older Talos
//! supports a newer Kubernetes. The last hop of each goes to the file's own patch release; those before it to the newest known one.

use std::fmt;

use crate::forms::Version;
use crate::releases;
use crate::upgrade::{Hop, Via};

/// The stop at this minor of Talos: the one that the file names, or the newest known patch release.
fn talos_stop(via: &Via, minor: u64) -> Option<Version> {
    named(&via.talos, minor).or_else(|| Some(Version::first(minor, releases::newest_talos(minor)?)))
}

/// The same of Kubernetes.
fn kubernetes_stop(via: &Via, minor: u64) -> Option<Version> {
    let newest = || Some(Version::first(minor, releases::newest_kubernetes(minor)?));
    named(&via.kubernetes, minor).or_else(newest)
}

fn named(versions: &[String], minor: u64) -> Option<Version> {
    versions.iter().filter_map(|text| Version::read(text)).find(|version| version.minor == minor)
}

/// A release of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Of Talos: where nodes differ, the oldest that runs.
    pub talos: Version,
    /// Of Kubernetes: where components differ, the oldest that runs.
    pub kubernetes: Version,
}

/// Why there is no way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPath {
    /// The file asks for something older than what runs.
    Downgrade {
        /// `Talos` or `Kubernetes`.
        what: &'static str,
        /// What runs.
        runs: Version,
        /// What the file asks for.
        wanted: Version,
    },
    /// A release line that Talosmith does not know.
    Unknown(Version),
    /// No hop is valid from here.
    Stuck(Box<Pair>),
    /// More than one minor at once.
    TooFar {
        /// What runs.
        runs: Version,
        /// What should follow.
        wanted: Version,
    },
}

impl fmt::Display for NoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Downgrade { what, runs, wanted } => {
                write!(f, "{what} {runs} runs, and the file asks for {wanted}, which is older")
            }
            Self::Unknown(version) => write!(f, "Talosmith does not know Talos {version}"),
            Self::TooFar { runs, wanted } => {
                write!(
                    f,
                    "Talos {runs} is not upgraded to {wanted} at once: each minor release is a stop on the way"
                )
            }
            Self::Stuck(pair) => write!(
                f,
                "no supported step leads on from Talos {} with Kubernetes {}",
                pair.talos, pair.kubernetes
            ),
        }
    }
}

/// Whether a machine may go from one release of Talos to another at once.
///
/// # Errors
///
/// When it is older, unknown, or more than one minor away.
pub fn may_follow(runs: &Version, wanted: &Version) -> Result<(), NoPath> {
    if wanted.is_before(runs) {
        return Err(NoPath::Downgrade { what: "Talos", runs: runs.clone(), wanted: wanted.clone() });
    }
    for version in [runs, wanted] {
        if releases::known(version.minor).filter(|_| version.major == 1).is_none() {
            return Err(NoPath::Unknown(version.clone()));
        }
    }
    match wanted.minor <= runs.minor + 1 {
        true => Ok(()),
        false => Err(NoPath::TooFar { runs: runs.clone(), wanted: wanted.clone() }),
    }
}

/// The hops from what runs to what the file asks for. None where both are the same.
///
/// # Errors
///
/// When the file asks for something older, or no sequence of supported pairs leads there.
pub fn path(runs: &Pair, wanted: &Pair, via: &Via) -> Result<Vec<Hop>, NoPath> {
    for (what, runs, wanted) in
        [("Talos", &runs.talos, &wanted.talos), ("Kubernetes", &runs.kubernetes, &wanted.kubernetes)]
    {
        if wanted.is_before(runs) {
            return Err(NoPath::Downgrade { what, runs: runs.clone(), wanted: wanted.clone() });
        }
    }
    for talos in [&runs.talos, &wanted.talos] {
        if releases::known(talos.minor).filter(|_| talos.major == 1).is_none() {
            return Err(NoPath::Unknown(talos.clone()));
        }
    }
    let mut hops = vec![];
    let mut at = runs.clone();
    while at.talos.minor < wanted.talos.minor || at.kubernetes.minor < wanted.kubernetes.minor {
        let talos = next(&at.talos, &wanted.talos, |minor| talos_stop(via, minor));
        let kubernetes = next(&at.kubernetes, &wanted.kubernetes, |minor| kubernetes_stop(via, minor));
        let by_talos = talos.filter(|talos| goes_with(talos, &at.kubernetes));
        let by_kubernetes = kubernetes.filter(|kubernetes| goes_with(&at.talos, kubernetes));
        match (by_talos, by_kubernetes) {
            (Some(talos), _) => {
                hops.push(Hop::Talos(talos.to_string()));
                at.talos = talos;
            }
            (None, Some(kubernetes)) => {
                hops.push(Hop::Kubernetes(kubernetes.to_string()));
                at.kubernetes = kubernetes;
            }
            (None, None) => return Err(NoPath::Stuck(Box::new(at))),
        }
    }
    // Patch releases of the same minor.
    if at.talos != wanted.talos {
        hops.insert(
            hops.iter().take_while(|hop| matches!(hop, Hop::Talos(_))).count(),
            Hop::Talos(wanted.talos.to_string()),
        );
    }
    if at.kubernetes != wanted.kubernetes {
        hops.push(Hop::Kubernetes(wanted.kubernetes.to_string()));
    }
    Ok(hops)
}

/// The next stop on the way of one of both, where it is not at the wanted minor yet.
fn next(runs: &Version, wanted: &Version, stop: impl Fn(u64) -> Option<Version>) -> Option<Version> {
    let minor = runs.minor + 1;
    match wanted.minor.cmp(&minor) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal => Some(wanted.clone()),
        std::cmp::Ordering::Greater => stop(minor),
    }
}

/// What a machine with this Talos runs after its next hop. What runs where it is there.
#[must_use]
pub fn next_talos(runs: &Version, wanted: &Version, via: &Via) -> Version {
    next(runs, wanted, |minor| talos_stop(via, minor)).unwrap_or_else(|| wanted.clone())
}

/// What a part of Kubernetes with this version runs after its next hop.
#[must_use]
pub fn next_kubernetes(runs: &Version, wanted: &Version, via: &Via) -> Version {
    next(runs, wanted, |minor| kubernetes_stop(via, minor)).unwrap_or_else(|| wanted.clone())
}

fn goes_with(talos: &Version, kubernetes: &Version) -> bool {
    releases::known(talos.minor).is_some_and(|release| release.kubernetes.contains(&kubernetes.minor))
}

/// The release line of etcd that comes with a Talos. Once every member runs a newer one, there is no way back to an older Talos.
#[must_use]
pub fn etcd_of(talos: &Version) -> (u64, u64) {
    match talos.minor {
        ..=10 => (3, 5),
        11..=13 => (3, 6),
        14.. => (3, 7),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upgrade::told;

    fn version(text: &str) -> Version {
        Version::read(text).unwrap()
    }

    fn way(from: (&str, &str), to: (&str, &str)) -> Result<Vec<String>, NoPath> {
        let pair = |(talos, kubernetes)| Pair { talos: version(talos), kubernetes: version(kubernetes) };
        Ok(path(&pair(from), &pair(to), &Via::default())?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn talos_goes_first_and_each_minor_is_a_hop() {
        let hops = way(("v1.12.4", "v1.33.6"), ("v1.14.1", "v1.37.0")).unwrap();
        let talos = Version::first(13, releases::newest_talos(13).unwrap());
        let between =
            [34, 35, 36].map(|minor| Version::first(minor, releases::newest_kubernetes(minor).unwrap()));
        assert_eq!(hops[0], format!("Talos {talos}"));
        assert_eq!(hops[1], "Talos v1.14.1");
        assert_eq!(hops[2..5], between.map(|version| format!("Kubernetes {version}")));
        assert_eq!(hops[5], "Kubernetes v1.37.0");
        assert_eq!(hops.len(), 6);
    }

    #[test]
    fn kubernetes_goes_first_where_the_next_talos_does_not_support_it() {
        let hops = way(("v1.12.4", "v1.30.0"), ("v1.13.9", "v1.31.0")).unwrap();
        assert_eq!(hops, ["Kubernetes v1.31.0", "Talos v1.13.9"]);
    }

    #[test]
    fn a_patch_release_is_one_hop_and_the_same_pair_none() {
        assert_eq!(way(("v1.13.8", "v1.35.4"), ("v1.13.9", "v1.35.4")).unwrap(), ["Talos v1.13.9"]);
        assert_eq!(way(("v1.13.9", "v1.35.3"), ("v1.13.9", "v1.35.4")).unwrap(), ["Kubernetes v1.35.4"]);
        assert_eq!(way(("v1.13.9", "v1.35.4"), ("v1.13.9", "v1.35.4")).unwrap(), [""; 0]);
    }

    #[test]
    fn an_older_or_unknown_release_has_no_way() {
        let older = way(("v1.13.9", "v1.35.4"), ("v1.13.8", "v1.35.4"));
        assert!(matches!(older, Err(NoPath::Downgrade { what: "Talos", .. })));
        let older = way(("v1.13.9", "v1.35.4"), ("v1.13.9", "v1.34.0"));
        assert!(matches!(older, Err(NoPath::Downgrade { what: "Kubernetes", .. })));
        assert!(matches!(way(("v1.13.9", "v1.35.4"), ("v1.15.0", "v1.35.4")), Err(NoPath::Unknown(_))));
        assert!(way(("v1.13.9-beta.1", "v1.35.4"), ("v1.13.9", "v1.35.4")).is_ok());
        assert!(way(("v1.13.9", "v1.35.4"), ("v1.13.9-beta.1", "v1.35.4")).is_err());
    }

    /// Whatever two supported pairs, in order: every stop is a supported pair, each hop is one minor, and the last stop is the file's.
    #[test]
    fn every_way_is_made_of_supported_pairs() {
        for (from, to) in [(12, 13), (12, 14), (13, 14), (10, 14), (11, 13)] {
            let pairs = |talos: u64| releases::known(talos).unwrap().kubernetes.clone();
            for (runs, wanted) in pairs(from).flat_map(|a| pairs(to).map(move |b| (a, b))) {
                let pair = |talos, kubernetes| Pair {
                    talos: version(&format!("v1.{talos}.1")),
                    kubernetes: version(&format!("v1.{kubernetes}.1")),
                };
                let (start, end) = (pair(from, runs), pair(to, wanted));
                let Ok(hops) = path(&start, &end, &Via::default()) else {
                    assert!(wanted < runs, "{start:?} to {end:?}");
                    continue;
                };
                let mut at = start;
                for hop in hops {
                    match hop {
                        Hop::Talos(next) => {
                            let next = version(&next);
                            assert!(next.minor <= at.talos.minor + 1);
                            at.talos = next;
                        }
                        Hop::Kubernetes(next) => {
                            let next = version(&next);
                            assert!(next.minor <= at.kubernetes.minor + 1);
                            at.kubernetes = next;
                        }
                    }
                    assert!(goes_with(&at.talos, &at.kubernetes), "{at:?}");
                }
                assert_eq!(at, end);
            }
        }
    }

    #[test]
    fn the_file_names_stops_on_the_way() {
        let via = Via { talos: vec!["1.13.8".to_owned()], kubernetes: vec!["v1.36.1".to_owned()] };
        let pair = |(talos, kubernetes)| Pair { talos: version(talos), kubernetes: version(kubernetes) };
        let hops = path(&pair(("v1.12.4", "v1.35.0")), &pair(("v1.14.1", "v1.37.0")), &via).unwrap();
        assert_eq!(told(&hops), "Talos v1.13.8 → v1.14.1, then Kubernetes v1.36.1 → v1.37.0");
        assert_eq!(next_talos(&version("v1.12.4"), &version("v1.14.1"), &via), version("v1.13.8"));
        assert_eq!(next_talos(&version("v1.13.8"), &version("v1.14.1"), &via), version("v1.14.1"));
        assert_eq!(next_talos(&version("v1.14.0"), &version("v1.14.1"), &via), version("v1.14.1"));
    }

    #[test]
    fn a_machine_goes_one_minor_at_a_time_and_never_back() {
        let may = |runs: &str, wanted: &str| may_follow(&version(runs), &version(wanted));
        assert_eq!(may("v1.12.4", "v1.13.99"), Ok(()), "a patch release that is not known");
        assert_eq!(may("v1.13.9", "v1.13.10"), Ok(()));
        assert!(matches!(may("v1.12.4", "v1.14.0"), Err(NoPath::TooFar { .. })));
        assert!(matches!(may("v1.13.10", "v1.13.9"), Err(NoPath::Downgrade { .. })));
        assert!(matches!(may("v1.14.1", "v1.15.0"), Err(NoPath::Unknown(_))));
        assert!(matches!(may("v1.9.0", "v1.10.0"), Err(NoPath::Unknown(_))));
    }

    #[test]
    fn etcd_changes_with_talos_1_14() {
        assert!(etcd_of(&version("v1.14.0")) > etcd_of(&version("v1.13.9")));
        assert_eq!(etcd_of(&version("v1.12.0")), etcd_of(&version("v1.13.9")));
    }
}
