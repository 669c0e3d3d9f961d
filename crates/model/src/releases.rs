//! The releases of Talos that Talosmith supports, and the releases of Kubernetes that go with each. Every list of versions, in
//! checks, schema and explanations, is made from this table. A new release is a new line here, a contract in the crate `talos`,
//! and a profile in the lab.

use std::ops::RangeInclusive;

/// A release line of Talos.
pub(crate) struct Release {
    /// The number behind `1.`.
    pub(crate) minor: u64,
    /// The release lines of Kubernetes that it supports, by the number behind `1.`.
    pub(crate) kubernetes: RangeInclusive<u64>,
    /// The newest patch release that is known, where an upgrade stops on its way.
    newest_patch: u64,
}

/// Release lines that machines may run before an upgrade, and that no new cluster gets.
const EARLIER: &[Release] = &[
    Release { minor: 10, kubernetes: 28..=33, newest_patch: 9 },
    Release { minor: 11, kubernetes: 29..=34, newest_patch: 6 },
];

/// The newest patch releases of Kubernetes that are known, by minor, where an upgrade stops on its way.
const KUBERNETES: &[(u64, u64)] =
    &[(29, 15), (30, 14), (31, 14), (32, 10), (33, 6), (34, 2), (35, 4), (36, 3), (37, 0)];

/// What machines may run: what is supported upstream and was tried, oldest first.
const SUPPORTED: &[Release] = &[
    Release { minor: 12, kubernetes: 30..=35, newest_patch: 11 },
    Release { minor: 13, kubernetes: 31..=36, newest_patch: 10 },
    Release { minor: 14, kubernetes: 32..=37, newest_patch: 1 },
];

/// The oldest release whose defaults a configuration can follow. The newest is the newest that machines may run.
const OLDEST_CONTRACT: u64 = 9;

/// The release line with this number, if machines may run it.
pub(crate) fn supported(minor: u64) -> Option<&'static Release> {
    SUPPORTED.iter().find(|release| release.minor == minor)
}

/// The release line with this number, if machines may run it, or may have run it before an upgrade.
pub(crate) fn known(minor: u64) -> Option<&'static Release> {
    EARLIER.iter().chain(SUPPORTED).find(|release| release.minor == minor)
}

/// The newest patch release of a release line of Talos that is known.
pub(crate) fn newest_talos(minor: u64) -> Option<u64> {
    known(minor).map(|release| release.newest_patch)
}

/// The newest patch release of a release line of Kubernetes that is known.
pub(crate) fn newest_kubernetes(minor: u64) -> Option<u64> {
    KUBERNETES.iter().find(|(known, _)| *known == minor).map(|(_, patch)| *patch)
}

/// Whether configurations can follow the defaults of this release line.
#[must_use]
pub fn is_contract(minor: u64) -> bool {
    contracts().contains(&minor)
}

fn newest() -> u64 {
    SUPPORTED.last().map_or(OLDEST_CONTRACT, |release| release.minor)
}

fn contracts() -> RangeInclusive<u64> {
    OLDEST_CONTRACT..=newest()
}

/// `1.12, 1.13 or 1.14`.
pub(crate) fn each_talos() -> String {
    one_of(SUPPORTED.iter().map(|release| format!("1.{}", release.minor)))
}

/// `v1.9, v1.10, … or v1.14`.
pub(crate) fn each_contract() -> String {
    one_of(contracts().map(|minor| format!("v1.{minor}")))
}

fn one_of(all: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = all.collect();
    let last = all.pop().unwrap_or_default();
    if all.is_empty() { last } else { format!("{} or {last}", all.join(", ")) }
}

/// `1.12 to 1.14`.
fn talos_range() -> String {
    let oldest = SUPPORTED.first().map_or(OLDEST_CONTRACT, |release| release.minor);
    format!("1.{oldest} to 1.{}", newest())
}

/// Fills in what a text says of releases: `{each-talos}`, `{talos}`, `{contract}` and `{pairs}`.
pub(crate) fn fill_in(text: &str) -> String {
    let pair = |release: &Release| {
        let kubernetes = &release.kubernetes;
        format!("1.{} supports 1.{} to 1.{}", release.minor, kubernetes.start(), kubernetes.end())
    };
    let pairs: Vec<String> = SUPPORTED.iter().map(pair).collect();
    let contracts = contracts();
    text.replace("{each-talos}", &each_talos())
        .replace("{talos}", &talos_range())
        .replace("{contract}", &format!("1.{} to 1.{}", contracts.start(), contracts.end()))
        .replace("{v-contract}", &format!("`v1.{}` to `v1.{}`", contracts.start(), contracts.end()))
        .replace("{pairs}", &pairs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_a_every_list_of_releases_comes_from_the_table() {
        assert_eq!(each_talos(), "1.12, 1.13 or 1.14");
        assert_eq!(each_contract(), "v1.9, v1.10, v1.11, v1.12, v1.13 or v1.14");
        assert_eq!(
            fill_in("{talos}; {contract}; {v-contract}; {pairs}"),
            "1.12 to 1.14; 1.9 to 1.14; `v1.9` to `v1.14`; 1.12 supports 1.30 to 1.35, 1.13 supports 1.31 to 1.36, 1.14 supports \
             1.32 to 1.37"
        );
        assert_eq!(one_of(std::iter::once("1.15".to_owned())), "1.15");
    }

    #[test]
    fn one_source_a_releases_are_in_order_and_without_gaps() {
        assert!(SUPPORTED.windows(2).all(|two| two[0].minor + 1 == two[1].minor));
    }
}
