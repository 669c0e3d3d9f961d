//! Keys that had another name, or are gone.
//!
//! The old name is read like the new one, with a warning, so that a file from before goes on to work. This happens in the tree, before
//! anything else looks at it: all that comes after knows the new names only, and still finds the old places.

use super::tree::Tree;
use crate::diagnostic::{Anchor, Diagnostic, Path, Span, codes};

/// The section of all disruptions, and its old name.
const SECTION: (&str, &str) = ("upgrade", "changes");
/// Keys of that section: the old name, and the new one.
const KEYS: &[(&str, &str)] = &[("return_timeout", "ready_timeout"), ("pause", "soak")];
/// A key of that section that is gone.
const GONE: &str = "force_drain";

/// Gives every key its present name. What is only a warning is returned.
pub(super) fn apply(tree: &mut Tree, problems: &mut Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    // The name by which the section is called in this file, which is how people look for it.
    let section = if has(tree, SECTION.0) && !has(tree, SECTION.1) { SECTION.0 } else { SECTION.1 };
    rename(tree, &Path::root(), SECTION, problems, &mut warnings);
    let Some(changes) = tree.get_mut(&[SECTION.1]) else { return warnings };
    let path = Path::of(&[section]);
    for key in KEYS {
        rename(changes, &path, *key, problems, &mut warnings);
    }
    if let Some(span) = take(changes, GONE) {
        let message = format!("`{}` does not exist any more", path.key(GONE));
        let problem = Diagnostic::error(codes::REMOVED_KEY, message);
        problems.push(problem.anchored(path.key(GONE), Anchor::Exactly(span), "").help(
            "take it out: a pod that cannot be evicted in time stops the run, which names the pod and its PodDisruptionBudget",
        ));
    }
    warnings
}

fn rename(
    tree: &mut Tree,
    parent: &Path,
    (old, new): (&str, &str),
    problems: &mut Vec<Diagnostic>,
    warnings: &mut Vec<Diagnostic>,
) {
    let path = parent.key(old);
    if has(tree, old) && has(tree, new) {
        let Some(span) = take(tree, old) else { return };
        let message = format!("`{path}` is the old name of `{new}`, and both are given");
        let problem = Diagnostic::error(codes::RENAMED_KEY, message);
        problems.push(problem.anchored(path, Anchor::Exactly(span), "").help(format!("keep `{new}` only")));
        return;
    }
    let Tree::Map { entries, .. } = tree else { return };
    for (key, span, _) in entries.iter_mut().filter(|(key, _, _)| key == old) {
        new.clone_into(key);
        let warning = Diagnostic::warning(codes::RENAMED_KEY, format!("`{path}` is called `{new}` now"));
        warnings.push(
            warning
                .anchored(path.clone(), Anchor::Exactly(*span), "")
                .help(format!("write `{new}`; a later release will not read the old name")),
        );
    }
}

fn has(tree: &Tree, name: &str) -> bool {
    matches!(tree, Tree::Map { entries, .. } if entries.iter().any(|(key, _, _)| key == name))
}

/// Takes a key out, and says where it stood.
fn take(tree: &mut Tree, name: &str) -> Option<Span> {
    let Tree::Map { entries, .. } = tree else { return None };
    let at = entries.iter().position(|(key, _, _)| key == name)?;
    Some(entries.remove(at).1)
}
