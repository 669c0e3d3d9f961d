//! Everything that is wrong with a file, at once.
//!
//! Each check looks at the file's [`Spec`] or at the draft made of it, and adds what it finds, by path. No check relies
//! on another: where a value has no usable form, the check of forms says so and the others pass over it. One mistake is
//! said once, however many nodes it touches.

mod addresses;
pub(crate) mod forms;
mod hardware;
mod names;
mod network;
mod proxmox;
mod references;
mod versions;

use std::collections::BTreeSet;

use crate::diagnostic::Diagnostic;
use crate::load::Loaded;
use crate::resolve::draft::Draft;
use crate::spec::Spec;

/// Every problem of a file that could be loaded, located and in file order.
#[must_use]
pub fn check(loaded: &Loaded) -> Vec<Diagnostic> {
    loaded.locate(problems(&loaded.spec))
}

/// Every problem of a file, by path.
pub(crate) fn problems(spec: &Spec) -> Vec<Diagnostic> {
    examine(&Draft::new(spec))
}

/// Every problem of a draft, by path.
pub(crate) fn examine(draft: &Draft<'_>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    names::check(draft, &mut found);
    versions::check(draft.spec, &mut found);
    proxmox::check(draft.spec, &mut found);
    network::check(draft, &mut found);
    addresses::check(draft, &mut found);
    hardware::check(draft, &mut found);
    references::check(draft, &mut found);
    let mut said = BTreeSet::new();
    found.retain(|d| {
        said.insert((d.code, d.labels.iter().map(|label| label.path.clone()).collect::<Vec<_>>()))
    });
    found
}

#[cfg(test)]
mod tests;
