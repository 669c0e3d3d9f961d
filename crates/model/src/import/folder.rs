//! The files of one folder: what they set, in the order in which OpenTofu reads them, and what lies beside them.

use std::collections::BTreeMap;

use hcl_edit::Span as _;
use hcl_edit::expr::Expression;
use hcl_edit::structure::{Block, Body};

use super::notes::Notes;
use crate::diagnostic::{Anchor, Diagnostic, Path, Source, Span, codes};
use crate::load::{self, Tree};

/// The largest text that is read as HCL.
const MAX_BYTES: usize = 4 << 20;

/// What was read.
pub(super) struct Folder {
    sources: Vec<Source>,
    bodies: BTreeMap<usize, Body>,
    /// YAML files by source.
    yaml: BTreeMap<usize, Tree>,
    /// Sources in the order in which their variables win: the last first.
    order: Vec<usize>,
}

/// Whether a file may be a part of an input: values, module calls, YAML, and templates of schematics. A front end that is
/// given a folder hands in all of these, with names relative to it.
#[must_use]
pub fn is_wanted(name: &str) -> bool {
    is_yaml(name) || is_hcl(name) || name.ends_with(".tftpl")
}

fn is_yaml(name: &str) -> bool {
    name.ends_with(".yaml") || name.ends_with(".yml")
}

fn is_hcl(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // Where the state is kept is no part of a cluster.
    if name.rsplit('/').next().is_some_and(|base| base.starts_with("backend")) {
        return false;
    }
    [".tf", ".tfvars", ".hcl", ".tfvars.example", ".tf.example"].iter().any(|end| name.ends_with(end))
}

/// Variables in `*.auto.tfvars` win over `terraform.tfvars`, later names over earlier ones; examples lose to all.
fn rank(name: &str) -> (u8, &str) {
    let base = name.rsplit('/').next().unwrap_or(name);
    let lower = base.to_ascii_lowercase();
    match () {
        () if lower.ends_with(".example") => (0, base),
        () if lower == "terraform.tfvars" => (1, base),
        () if lower.ends_with(".auto.tfvars") => (2, base),
        () => (3, base),
    }
}

impl Folder {
    pub(super) fn read(sources: &[Source], problems: &mut Vec<Diagnostic>) -> Self {
        let mut folder = Self {
            sources: sources.to_vec(),
            bodies: BTreeMap::new(),
            yaml: BTreeMap::new(),
            order: Vec::new(),
        };
        // What lies deeper is a module or a template of the input: it is only looked at where it is named.
        let depth = |name: &str| name.matches('/').count();
        let top =
            sources.iter().filter(|source| is_hcl(&source.name)).map(|source| depth(&source.name)).min();
        for (index, source) in sources.iter().enumerate() {
            if is_yaml(&source.name) {
                // A file that is no YAML may lie beside the others for another reason.
                if let Some(tree) = load::read_tree(index, &source.text) {
                    folder.yaml.insert(index, tree);
                } else if sources.len() == 1 {
                    load::explain_tree(index, &source.text, problems);
                }
            } else if is_hcl(&source.name) && Some(depth(&source.name)) == top || sources.len() == 1 {
                if source.text.len() > MAX_BYTES {
                    problems.push(Diagnostic::error(
                        codes::TOO_LARGE,
                        format!("{} is larger than 4 MiB", source.name),
                    ));
                    continue;
                }
                match hcl_edit::parser::parse_body(&source.text) {
                    Ok(body) => {
                        folder.bodies.insert(index, body);
                    }
                    Err(error) => problems.push(not_hcl(index, &source.text, &error)),
                }
            }
        }
        folder.order = folder.bodies.keys().copied().collect();
        folder.order.sort_by(|a, b| rank(&sources[*b].name).cmp(&rank(&sources[*a].name)));
        folder
    }

    /// A variable: set by a file of values, else its default.
    pub(super) fn variable(&self, name: &str) -> Option<(usize, &Expression)> {
        let set = self.values().find(|(_, key, _)| *key == name).map(|(source, _, expr)| (source, expr));
        set.or_else(|| {
            let mut blocks = self.blocks("variable");
            blocks.find_map(|(source, block)| {
                let named = block.labels.first().is_some_and(|label| label.as_str() == name);
                let default = block.body.get_attribute("default").filter(|_| named)?;
                Some((source, &default.value))
            })
        })
    }

    /// Variables that only their default sets.
    pub(super) fn defaults(&self) -> Vec<&str> {
        let set: Vec<&str> = self.values().map(|(_, key, _)| key).collect();
        let names = self.blocks("variable").filter_map(|(_, block)| Some(block.labels.first()?.as_str()));
        names.filter(|name| !set.contains(name)).collect()
    }

    pub(super) fn local(&self, name: &str) -> Option<(usize, &Expression)> {
        self.blocks("locals")
            .find_map(|(source, block)| Some((source, &block.body.get_attribute(name)?.value)))
    }

    /// Everything that files of values set, the winners first. Terragrunt's `inputs` count too.
    pub(super) fn values(&self) -> impl Iterator<Item = (usize, &str, &Expression)> {
        self.order.iter().flat_map(move |source| {
            let body = self.bodies.get(source);
            let of_body = body.into_iter().flat_map(|body| body.attributes());
            of_body.map(move |attribute| (*source, attribute.key.as_str(), &attribute.value))
        })
    }

    pub(super) fn blocks<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (usize, &'a Block)> {
        self.bodies
            .iter()
            .flat_map(move |(source, body)| body.get_blocks(kind).map(move |block| (*source, block)))
    }

    /// YAML files.
    pub(super) fn yaml_files(&self) -> impl Iterator<Item = &Tree> {
        self.yaml.values()
    }

    /// The text of a file by the path that an input names, where it is among the sources.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.index(path).and_then(|index| Some(self.sources.get(index)?.text.as_str()))
    }

    /// The number that a module of this folder gives to a key as a literal, where its files are among the sources.
    pub(super) fn literal_in_modules(&self, key: &str) -> Option<u32> {
        let modules = (0..self.sources.len()).filter(|index| !self.bodies.contains_key(index));
        let texts = modules.filter_map(|index| self.sources.get(index)).filter(|source| is_hcl(&source.name));
        texts.flat_map(|source| source.text.lines()).find_map(|line| {
            let (name, value) = line.split_once('=')?;
            if name.trim() == key { value.trim().parse().ok() } else { None }
        })
    }

    /// A YAML file by its path.
    pub(super) fn yaml(&self, path: &str) -> Option<Tree> {
        self.index(path).and_then(|index| self.yaml.get(&index)).cloned()
    }

    fn index(&self, path: &str) -> Option<usize> {
        let wanted = path.trim_start_matches("./").trim_start_matches("../");
        let matches = |name: &str| name == wanted || name.ends_with(&format!("/{wanted}"));
        self.sources.iter().position(|source| matches(&source.name))
    }

    /// Keys that two files of values set: OpenTofu lets the last win, so do we, but it is said.
    pub(super) fn set_twice(&self, notes: &mut Notes) {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for (source, key, expr) in self.values() {
            let Some(winner) = seen.get(key) else {
                seen.insert(key, source);
                continue;
            };
            let range = expr.span().unwrap_or(0..0);
            let span = Span { source, start: range.start, end: range.end };
            let winner = self.sources.get(*winner).map_or("", |source| source.name.as_str());
            notes.changed(
                span,
                &format!("`{key}` is also set in {winner}, which wins"),
                "keep one of the two",
            );
        }
    }
}

fn not_hcl(source: usize, text: &str, error: &hcl_edit::parser::Error) -> Diagnostic {
    let start = error.location().offset().min(text.len());
    let start = (0..=start).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let span = Span { source, start, end: start };
    Diagnostic::error(codes::NOT_HCL, format!("this is not valid HCL: {}", error.message()))
        .anchored(Path::root(), Anchor::Exactly(span), String::new())
        .help("check it with `tofu fmt`")
}
