//! Everything that is wrong with a file, at once.
//!
//! Each check looks at the file's [`Spec`] or at the draft made of it, and adds what it finds, by path. No check relies
//! on another: where a value has no usable form, the check of forms says so and the others pass over it. One mistake is
//! said once, however many nodes it touches.

mod addresses;
mod cards;
mod changes;
mod deploy;
mod hardware;
mod image;
mod kubernetes;
mod names;
mod network;
mod patches;
mod proxmox;
mod references;
mod versions;

use std::collections::BTreeSet;

use crate::diagnostic::{Diagnostic, Label, Path, Segment, codes};
use crate::draft::Draft;
use crate::spec::Spec;

/// Every problem of a file, by path: of its values, and of those that are secrets.
pub(crate) fn all(spec: &Spec, secrets: &[Path]) -> Vec<Diagnostic> {
    let mut found = problems(spec);
    found.extend(secrets.iter().map(secret));
    found
}

/// Every problem of a file that does not have the right shape everywhere, by path. What touches a gap is left out, because it
/// may only follow from the gap; so is what is said about all nodes when not all of them could be read.
pub(crate) fn around(spec: &Spec, secrets: &[Path], gaps: &[Path]) -> Vec<Diagnostic> {
    const OF_ALL_NODES: &[&str] =
        &[codes::NO_CONTROL_PLANE, codes::EVEN_CONTROL_PLANES, codes::NO_WORKLOADS, codes::NO_ROLE];
    let among_nodes = |gap: &Path| {
        let first = gap.segments().first();
        first.is_none_or(|first| {
            ["pools", "nodes"].iter().any(|key| *first == Segment::Key((*key).to_owned()))
        })
    };
    let nodes_missing = gaps.iter().any(among_nodes);
    let touches =
        |label: &Label| gaps.iter().any(|gap| label.path.starts_with(gap) || gap.starts_with(&label.path));
    let mut found = all(spec, secrets);
    found.retain(|problem| {
        let of_all = nodes_missing && OF_ALL_NODES.contains(&problem.code);
        !of_all && !problem.labels.iter().any(touches)
    });
    found
}

fn secret(path: &Path) -> Diagnostic {
    Diagnostic::error(codes::SECRET_IN_FILE, format!("`{path}` holds a secret"))
        .at(path.clone(), "")
        .help("take it out of the file, and renew it if it was ever committed")
}

/// Every problem of a patch that stands in a file of its own; `path` is the place that names the file.
#[must_use]
pub fn patch_file(text: &str, path: &Path) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    patches::text_patch(text, path, &mut found);
    found
}

/// Every problem of a file, by path.
pub(crate) fn problems(spec: &Spec) -> Vec<Diagnostic> {
    examine(&Draft::new(spec))
}

/// Every problem of a draft, by path.
pub(crate) fn examine(draft: &Draft<'_>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    names::check(draft, &mut found);
    versions::check(draft, &mut found);
    proxmox::check(draft, &mut found);
    image::check(draft, &mut found);
    network::check(draft, &mut found);
    addresses::check(draft, &mut found);
    cards::check(draft, &mut found);
    hardware::check(draft, &mut found);
    references::check(draft, &mut found);
    kubernetes::check(draft.spec, &mut found);
    deploy::check(draft.spec, &mut found);
    changes::check(draft.spec, &mut found);
    patches::check(draft.spec, &mut found);
    let mut said = BTreeSet::new();
    found.retain(|d| {
        said.insert((d.code, d.labels.iter().map(|label| label.path.clone()).collect::<Vec<_>>()))
    });
    found
}

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
