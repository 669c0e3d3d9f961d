//! From text to [`Spec`], remembering where every value stood.
//!
//! YAML becomes a [`Tree`] whose nodes know their places. Several sources are merged key by key. The tree is then held
//! against the JSON Schema of [`Spec`]: everything that does not fit is collected at once, and only a tree that fits becomes
//! a `Spec`. What comes after that names values by path, and [`Loaded::locate`] finds the place again.

mod renamed;
mod secrets;
mod shape;
mod tree;

pub use secrets::is_secret;
pub use shape::as_it_stands;
pub use tree::{Scalar, Tree};

use crate::check;
use crate::diagnostic::{Anchor, Diagnostic, Path, Source, Span, codes};
use crate::spec::Spec;

/// The largest text that is read. Ten thousand nodes fit in it ten times over.
pub const MAX_BYTES: usize = 16 << 20;

/// A file that was read, with all that is needed to speak about it.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it says.
    pub spec: Spec,
    /// The texts, in the order given. A secret that stood in one is masked with asterisks.
    pub sources: Vec<Source>,
    /// Where everything stands.
    pub tree: Tree,
    /// Values that looked like secrets where none belongs. They are masked in `spec` too.
    pub secrets: Vec<Path>,
    /// What reading it warned of.
    warnings: Vec<Diagnostic>,
}

/// A file that could not be read as a cluster.
#[derive(Debug, Clone)]
pub struct Failed {
    /// The texts, in the order given. A secret that stood in one is masked with asterisks.
    pub sources: Vec<Source>,
    /// Everything that is wrong, in file order, located.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads one or several texts as one cluster file.
///
/// # Errors
/// When a text is no YAML, or does not have the shape of a cluster file: everything that is wrong, at once.
pub fn load(sources: &[Source]) -> Result<Loaded, Failed> {
    let mut sources = sources.to_vec();
    let mut problems = Vec::new();
    let mut merged: Option<Tree> = None;
    for (index, source) in sources.iter().enumerate() {
        if source.text.len() > MAX_BYTES {
            problems.push(
                Diagnostic::error(codes::TOO_LARGE, format!("{} is larger than 16 MiB", source.name))
                    .help("a cluster file is small; this looks like another file"),
            );
            continue;
        }
        match tree::read(index, &source.text, &mut problems) {
            Some(next) => match &mut merged {
                None => merged = Some(next),
                Some(tree) => tree::merge(tree, next, &Path::root(), &mut problems),
            },
            None => continue,
        }
    }
    let broken = problems.iter().any(|p| p.code != codes::KEY_TWICE);
    let Some(mut tree) = merged else {
        if problems.is_empty() {
            problems.push(Diagnostic::error(codes::EMPTY, "there is no file to read"));
        }
        return Err(failed(sources, None, problems));
    };
    let warnings = renamed::apply(&mut tree, &mut problems);
    let secrets = secrets::mask(&mut tree, &mut sources);
    // With a source missing, every key that stood in it would be reported as missing too.
    let twice: Vec<Path> =
        problems.iter().filter_map(|problem| Some(problem.labels.first()?.path.clone())).collect();
    let read = if broken { None } else { shape::spec(&tree, &mut problems) };
    match read {
        Some((spec, _)) if problems.is_empty() => Ok(Loaded { spec, sources, tree, secrets, warnings }),
        Some((spec, mut gaps)) => {
            gaps.extend(twice);
            problems.extend(warnings);
            problems.extend(check::around(&spec, &secrets, &gaps));
            Err(failed(sources, Some(&tree), problems))
        }
        None => {
            problems.extend(warnings);
            Err(failed(sources, Some(&tree), problems))
        }
    }
}

/// Reads one text as YAML, if it is that.
pub fn read_tree(index: usize, text: &str) -> Option<Tree> {
    let mut problems = Vec::new();
    let tree = (text.len() <= MAX_BYTES).then(|| tree::read(index, text, &mut problems)).flatten();
    tree.filter(|_| problems.is_empty())
}

/// Says why a text is no YAML.
pub fn explain_tree(index: usize, text: &str, problems: &mut Vec<Diagnostic>) {
    if text.len() <= MAX_BYTES {
        tree::read(index, text, problems);
    }
}

impl Loaded {
    /// Every problem of the file, located and in file order.
    #[must_use]
    pub fn check(&self) -> Vec<Diagnostic> {
        let found = check::all(&self.spec, &self.secrets);
        self.locate(found.into_iter().chain(self.warnings.iter().cloned()).collect())
    }

    /// Adds file, line and column to diagnostics that know only paths, and puts them in file order.
    #[must_use]
    pub fn locate(&self, diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
        locate(&self.sources, Some(&self.tree), diagnostics)
    }
}

fn failed(sources: Vec<Source>, tree: Option<&Tree>, problems: Vec<Diagnostic>) -> Failed {
    let diagnostics = locate(&sources, tree, problems);
    Failed { sources, diagnostics }
}

/// Adds file, line and column to diagnostics, where a tree or the diagnostic itself has the place, and puts them in file order.
pub fn locate(sources: &[Source], tree: Option<&Tree>, mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    for label in diagnostics.iter_mut().flat_map(|d| &mut d.labels) {
        let span = match label.anchor {
            Anchor::Exactly(span) => Some(span),
            Anchor::Key => tree.map(|tree| tree.span_of(&label.path, true)),
            Anchor::Value => tree.map(|tree| tree.span_of(&label.path, false)),
        };
        label.place = span.and_then(|span| Some(sources.get(span.source)?.place(span)));
    }
    // A stable sort: problems at one place keep the order in which they were found.
    diagnostics.sort_by_key(|d| d.labels.first().and_then(|l| l.place.as_ref()).map(|p| p.span));
    diagnostics
}

/// Replaces what stands at a place by asterisks.
pub fn mask_span(sources: &mut [Source], span: Span) {
    let Some(source) = sources.get_mut(span.source) else { return };
    let text = &source.text;
    let parts = (text.get(..span.start), text.get(span.start..span.end), text.get(span.end..));
    if let (Some(before), Some(secret), Some(after)) = parts {
        let mask: String = secret.bytes().map(|b| if b == b'\n' { '\n' } else { '*' }).collect();
        source.text = format!("{before}{mask}{after}");
    }
}

#[cfg(test)]
mod tests;
