//! Versions of Talos and Kubernetes, and whether they go together.

use std::ops::RangeInclusive;

use super::forms::Version;
use crate::diagnostic::{Diagnostic, Path, codes};
use crate::spec::Spec;

/// Talos 1.x, and the Kubernetes 1.y that it supports.
const SUPPORTED: &[(u64, RangeInclusive<u64>)] = &[(12, 30..=35), (13, 31..=36), (14, 32..=37)];

pub(super) fn check(spec: &Spec, found: &mut Vec<Diagnostic>) {
    let talos = read(&spec.versions.talos, "talos", found);
    let kubernetes = read(&spec.versions.kubernetes, "kubernetes", found);
    let Some(talos) = talos else { return };
    let path = |key| Path::of(&["versions", key]);
    let Some((_, range)) = SUPPORTED.iter().find(|(minor, _)| (talos.major, talos.minor) == (1, *minor))
    else {
        let problem = Diagnostic::error(codes::TALOS_UNSUPPORTED, format!("Talos {talos} is not supported"));
        found.push(problem.at(path("talos"), "").help("use Talos 1.12, 1.13 or 1.14"));
        return;
    };
    let Some(kubernetes) = kubernetes else { return };
    if kubernetes.major != 1 || !range.contains(&kubernetes.minor) {
        let message = format!("Talos {talos} does not support Kubernetes {kubernetes}");
        found.push(
            Diagnostic::error(codes::PAIR_UNSUPPORTED, message)
                .at(path("kubernetes"), "")
                .at(path("talos"), "")
                .help(format!("with this Talos, use Kubernetes 1.{} to 1.{}", range.start(), range.end())),
        );
    }
}

fn read(text: &str, key: &str, found: &mut Vec<Diagnostic>) -> Option<Version> {
    let version = Version::read(text);
    if version.is_none() {
        let problem = Diagnostic::error(codes::BAD_VERSION, format!("`{text}` is not a version"));
        let help = "write all three numbers, for example `v1.35.4`";
        found.push(problem.at(Path::of(&["versions", key]), "").help(help));
    }
    version
}
