//! The files of one folder: what they set, in the order in which OpenTofu reads them, and what lies beside them.

use std::collections::BTreeMap;

use hcl_edit::Span as _;
use hcl_edit::expr::Expression;
use hcl_edit::structure::{Block, Body};
use model::diagnostic::{Diagnostic, Source, Span, codes};
use model::load::{self, Tree};

use super::notes::Notes;
use super::{Reach, links};

/// The largest text that is read as HCL.
const MAX_BYTES: usize = 4 << 20;

/// The files of one folder.
pub(super) struct Folder<'s> {
    pub(super) sources: &'s [Source],
    bodies: BTreeMap<usize, Body>,
    /// The one YAML file that is the input itself.
    yaml: Option<usize>,
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

/// HCL files by the folder they lie in, the topmost folders first: each is what OpenTofu would read as one.
pub(super) fn roots(sources: &[Source], reach: Reach) -> Vec<BTreeMap<String, Vec<usize>>> {
    let mut tiers: BTreeMap<usize, BTreeMap<String, Vec<usize>>> = BTreeMap::new();
    for (index, source) in sources.iter().enumerate() {
        // A single file that was named is what it is, whatever it is called.
        let named = sources.len() == 1 && reach == Reach::Files && !is_yaml(&source.name);
        if !is_hcl(&source.name) && !named {
            continue;
        }
        let (depth, folder) = match reach {
            Reach::Folder => (source.name.matches('/').count(), links::parent(&source.name)),
            Reach::Files => (0, links::parent(sources.first().map_or("", |first| first.name.as_str()))),
        };
        tiers.entry(depth).or_default().entry(folder.to_owned()).or_default().push(index);
    }
    tiers.into_values().collect()
}

/// Each YAML file that may be an input by itself. In a folder many lie for other reasons, so there only the format that is
/// written in YAML counts, which its keys tell.
pub(super) fn yaml_alone(sources: &[Source], reach: Reach) -> impl Iterator<Item = (&str, Folder<'_>)> {
    let known = ["control_plane_nodes", "worker_nodes"];
    let fits =
        move |source: &Source| reach == Reach::Files || known.iter().any(|key| source.text.contains(key));
    let files = sources.iter().enumerate().filter(move |(_, source)| is_yaml(&source.name) && fits(source));
    files.map(|(index, source)| {
        let folder = Folder { sources, bodies: BTreeMap::new(), yaml: Some(index), order: Vec::new() };
        (source.name.as_str(), folder)
    })
}

/// Says why a YAML file that was named alone cannot be read.
pub(super) fn explain(sources: &[Source], problems: &mut Vec<Diagnostic>) {
    if let [source] = sources
        && is_yaml(&source.name)
    {
        load::explain_tree(0, &source.text, problems);
    }
}

impl<'s> Folder<'s> {
    pub(super) fn read(sources: &'s [Source], members: &[usize], problems: &mut Vec<Diagnostic>) -> Self {
        let mut bodies = BTreeMap::new();
        for index in members {
            let Some(source) = sources.get(*index) else { continue };
            if source.text.len() > MAX_BYTES {
                let message = format!("{} is larger than 4 MiB", source.name);
                problems.push(Diagnostic::error(codes::TOO_LARGE, message));
                continue;
            }
            match hcl_edit::parser::parse_body(&source.text) {
                Ok(body) => {
                    bodies.insert(*index, body);
                }
                Err(error) => problems.push(not_hcl(*index, &source.text, &error)),
            }
        }
        let mut order: Vec<usize> = bodies.keys().copied().collect();
        let name = |index: &usize| sources.get(*index).map_or("", |source| source.name.as_str());
        order.sort_by(|a, b| rank(name(b)).cmp(&rank(name(a))));
        Self { sources, bodies, yaml: None, order }
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

    /// The type of a variable.
    pub(super) fn type_of(&self, name: &str) -> Option<(usize, &Expression)> {
        self.blocks("variable").find_map(|(source, block)| {
            let named = block.labels.first().is_some_and(|label| label.as_str() == name);
            block.body.get_attribute("type").filter(|_| named).map(|kind| (source, &kind.value))
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

    /// The YAML file that is the input itself.
    pub(super) fn yaml_tree(&self) -> Option<Tree> {
        let index = self.yaml?;
        load::read_tree(index, &self.sources.get(index)?.text)
    }

    /// The variables of a module in a folder of its own and their types, where its files are at hand.
    pub(super) fn types_of_module(&self, caller: usize, path: &str) -> Vec<(String, usize, Expression)> {
        let from = self.sources.get(caller).map_or("", |source| links::parent(&source.name));
        let folder = links::join(from, path);
        let mut types = Vec::new();
        for (index, source) in self.sources.iter().enumerate() {
            let of_module = source.name.ends_with(".tf") && links::parent(&source.name) == folder;
            if !of_module || source.text.len() > MAX_BYTES {
                continue;
            }
            let Ok(body) = hcl_edit::parser::parse_body(&source.text) else { continue };
            for block in body.get_blocks("variable") {
                if let (Some(name), Some(kind)) = (block.labels.first(), block.body.get_attribute("type")) {
                    types.push((name.as_str().to_owned(), index, kind.value.clone()));
                }
            }
        }
        types
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
        let index = self.index(path)?;
        load::read_tree(index, &self.sources.get(index)?.text)
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
        .at_span(span)
        .help("check it with `tofu fmt`")
}
