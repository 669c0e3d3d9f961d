//! Reads the input of other tools as it stands, and writes the same cluster as a file of ours.
//!
//! The files of a folder are read as OpenTofu would read them, and evaluated as far as they can be without a world.
//! The keys tell which format it is; one translator for each family turns it into a [`Spec`], taking every key by name,
//! so that what has no counterpart is said and never dropped. The result is checked like any other file: a value that
//! clashes with a check is kept and reported, not changed.

mod bag;
mod common;
mod distribution;
mod eval;
mod folder;
mod functions;
mod lists;
mod machines;
mod notes;

pub use folder::is_wanted;

use bag::Bag;
use eval::{Evaluator, Trouble};
use folder::Folder;
use hcl_edit::Span as _;
use hcl_edit::expr::Expression;
use notes::Notes;
use serde::Serialize;

use crate::check;
use crate::diagnostic::{Anchor, Diagnostic, Path, Source, Span, codes};
use crate::load::{self, Failed, Tree};
use crate::spec::Spec;

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// `nodes_config`, with `defaults_worker` and `defaults_controlplane`.
    NodesConfig,
    /// A module call, or values, with `cluster`, `image` and `nodes`.
    ModuleCall,
    /// The same for Flux, with `flux_bootstrap_repo`.
    FluxModuleCall,
    /// `talos_nodes` and `talos_cluster_config`.
    TalosNodes,
    /// `node_distribution`, with grouped or flat variables.
    Distribution,
    /// `control_plane_nodes` and `worker_nodes` as lists, in YAML or HCL.
    Lists,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NodesConfig => "`nodes_config` with defaults by role",
            Self::ModuleCall => "a module call with `cluster`, `image` and `nodes`",
            Self::FluxModuleCall => "a module call with `nodes` and `flux_bootstrap_repo`",
            Self::TalosNodes => "`talos_nodes` with `talos_cluster_config`",
            Self::Distribution => "`node_distribution` with nodes counted by host",
            Self::Lists => "`control_plane_nodes` and `worker_nodes` as lists",
        })
    }
}

/// What became of an input.
#[derive(Debug, Clone)]
pub struct Imported {
    /// What it was taken for.
    pub format: Format,
    /// The cluster file.
    pub yaml: String,
    /// The texts that were read. Secrets in them are masked with asterisks.
    pub sources: Vec<Source>,
    /// What was changed, assumed, or could not be carried over, with its place in the input.
    pub notes: Vec<Diagnostic>,
    /// What the checks say about the result, with places in `yaml`.
    pub checks: Vec<Diagnostic>,
}

/// Keys of a module call that are OpenTofu's own.
const META: &[&str] = &["source", "version", "providers", "depends_on", "count", "for_each"];

/// Reads the files of one folder, or one file, and translates them. Names of sources are relative paths, so that
/// `file("…")` and schematics are found among them.
///
/// # Errors
/// When a file cannot be read, or nothing in the files is of a known format.
pub fn import(sources: &[Source]) -> Result<Imported, Failed> {
    let mut problems = Vec::new();
    let folder = Folder::read(sources, &mut problems);
    if !problems.is_empty() {
        return Err(failed(sources, problems));
    }
    let evaluator = Evaluator::new(&folder);
    let mut notes = Notes::default();
    let fitting = candidates(&folder, &evaluator).into_iter().find_map(|(tree, troubles)| {
        let format = detect(&Bag::new("", &tree)?)?;
        Some((format, tree, troubles))
    });
    let Some((format, tree, troubles)) = fitting else {
        return Err(failed(sources, vec![unknown_format(sources)]));
    };
    folder.set_twice(&mut notes);
    let Some(bag) = Bag::new("", &tree) else { return Err(failed(sources, vec![unknown_format(sources)])) };
    let spec = match format {
        Format::Distribution => distribution::translate(&bag, &mut notes),
        Format::Lists => lists::translate(&bag, &mut notes),
        _ => machines::translate(format, &bag, &folder, &evaluator, &mut notes),
    };
    // A default that the translation has no use for is the module's business, not a part of the input.
    bag.ignore(&folder.defaults());
    bag.finish(&mut notes);
    notes.hide_secrets(&tree);
    for trouble in troubles.into_iter().chain(evaluator.troubles.take()) {
        let written =
            sources.get(trouble.span.source).and_then(|s| s.text.get(trouble.span.start..trouble.span.end));
        let shown: String =
            written.unwrap_or_default().lines().next().unwrap_or_default().chars().take(80).collect();
        let message = format!("`{shown}` was not evaluated: {}", trouble.why);
        let note = Diagnostic::warning(codes::IMPORT_EXPRESSION, message);
        let note = note.anchored(Path::root(), Anchor::Exactly(trouble.span), String::new());
        notes
            .list
            .push(note.help("write its value instead, and import again, or set the value in the result"));
    }
    Ok(finish(format, &spec, sources, notes))
}

fn finish(format: Format, spec: &Spec, sources: &[Source], notes: Notes) -> Imported {
    let mut masked = sources.to_vec();
    for span in &notes.secrets {
        load::mask_span(&mut masked, *span);
    }
    let body = serde_saphyr::to_string(spec).unwrap_or_default();
    let yaml = format!("# Imported from {format}.\n{body}");
    let checks = match load::load(&[Source::new("cluster.yaml", &yaml)]) {
        Ok(loaded) => check::check(&loaded),
        Err(failed) => failed.diagnostics,
    };
    let notes = load::locate(&masked, None, notes.list);
    Imported { format, yaml, sources: masked, notes, checks }
}

fn failed(sources: &[Source], problems: Vec<Diagnostic>) -> Failed {
    let diagnostics = load::locate(sources, None, problems);
    Failed { sources: sources.to_vec(), diagnostics }
}

/// Mappings that may be an input, each with what was not evaluated in it: what files of values set, then module calls,
/// then YAML files, then what stands under `configuration` in one of them.
fn candidates(folder: &Folder, evaluator: &Evaluator<'_>) -> Vec<(Tree, Vec<Trouble>)> {
    let mut all: Vec<(Tree, Vec<Trouble>)> = Vec::new();
    let mut top: Vec<(String, Span, Tree)> = Vec::new();
    let add = |entries: &mut Vec<(String, Span, Tree)>, source: usize, key: &str, expr: &Expression| {
        if entries.iter().any(|(known, ..)| known == key) {
            return;
        }
        let range = expr.span().unwrap_or(0..0);
        let span = Span { source, start: range.start, end: range.end };
        if let Some(value) = evaluator.value(source, expr) {
            entries.push((key.to_owned(), span, value));
        }
    };
    for (source, key, expr) in folder.values() {
        add(&mut top, source, key, expr);
    }
    for (source, block) in folder.blocks("variable") {
        let name = block.labels.first().map_or("", |label| label.as_str());
        if let Some(default) = block.body.get_attribute("default").filter(|default| !default.value.is_null())
        {
            add(&mut top, source, name, &default.value);
        }
    }
    let inputs = top.iter().position(|(key, ..)| key == "inputs").map(|at| top.remove(at).2);
    let start = Span { source: 0, start: 0, end: 0 };
    // How Proxmox is reached stands beside a module call, not in it.
    let beside: Vec<(String, Span, Tree)> = top
        .iter()
        .filter(|(key, ..)| ["proxmox", "proxmox_api_token"].contains(&key.as_str()))
        .cloned()
        .collect();
    all.push((Tree::Map { span: start, entries: top }, evaluator.troubles.take()));
    all.extend(inputs.map(|tree| (tree, Vec::new())));
    for (source, block) in folder.blocks("module") {
        let mut entries = Vec::new();
        for attribute in block.body.attributes().filter(|a| !META.contains(&a.key.as_str())) {
            add(&mut entries, source, attribute.key.as_str(), &attribute.value);
        }
        if entries.iter().any(|(key, ..)| key == "nodes") {
            entries.extend(beside.iter().cloned());
        }
        all.push((Tree::Map { span: start, entries }, evaluator.troubles.take()));
    }
    all.extend(folder.yaml_files().map(|tree| (tree.clone(), Vec::new())));
    let inner: Vec<(Tree, Vec<Trouble>)> = all
        .iter()
        .filter_map(|(tree, troubles)| match tree {
            Tree::Map { entries, .. } => {
                let found = entries.iter().find(|(key, ..)| key == "configuration");
                found.map(|(.., value)| (value.clone(), troubles.clone()))
            }
            _ => None,
        })
        .collect();
    all.extend(inner);
    all
}

fn detect(bag: &Bag<'_>) -> Option<Format> {
    let has = |keys: &[&str]| keys.iter().all(|key| bag.has(key));
    match () {
        () if has(&["control_plane_nodes"]) || has(&["worker_nodes", "host_pool"]) => Some(Format::Lists),
        () if has(&["nodes_config"]) => Some(Format::NodesConfig),
        () if has(&["talos_nodes"]) => Some(Format::TalosNodes),
        () if has(&["nodes", "cluster", "flux_bootstrap_repo"]) => Some(Format::FluxModuleCall),
        () if has(&["nodes", "cluster"]) => Some(Format::ModuleCall),
        () if has(&["node_distribution"]) || has(&["cluster_config", "network_config"]) => {
            Some(Format::Distribution)
        }
        () if has(&["network_cidr", "cluster_name"]) => Some(Format::Distribution),
        () => None,
    }
}

fn unknown_format(sources: &[Source]) -> Diagnostic {
    let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).take(8).collect();
    let known = [
        Format::NodesConfig,
        Format::TalosNodes,
        Format::ModuleCall,
        Format::FluxModuleCall,
        Format::Distribution,
        Format::Lists,
    ];
    let known: Vec<String> = known.iter().map(Format::to_string).collect();
    let message = match names.is_empty() {
        true => "there is no file to import".to_owned(),
        false => format!("nothing in {} is of a known format", names.join(", ")),
    };
    Diagnostic::error(codes::IMPORT_UNKNOWN, message).help(format!(
        "known are {}. Looked for were values in .tfvars, `variable` defaults, `module` calls and `inputs` in .tf and .hcl, and YAML files",
        known.join("; ")
    ))
}

#[cfg(test)]
mod tests;
