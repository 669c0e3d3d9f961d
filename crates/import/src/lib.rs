//! Reads the input of other tools as it stands, and writes the same cluster as a file of ours.
//!
//! The files of a folder are read as OpenTofu would read them, and evaluated as far as they can be without a world.
//! The keys tell which format it is; one translator for each family turns it into a [`Spec`], taking every key by name,
//! so that what has no counterpart is said and never dropped. The result is checked like any other file: a value that
//! clashes with a check is kept and reported, not changed.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read fixtures"))]

mod bag;
mod candidates;
mod common;
mod distribution;
mod eval;
mod folder;
mod links;
mod lists;
mod machines;
mod notes;
mod types;

pub use folder::is_wanted;

use model::diagnostic::{Diagnostic, Source, codes};
use model::load::{self, Failed};
use model::spec::Spec;
use serde::Serialize;

use bag::Bag;
use candidates::Candidate;
use eval::Evaluator;
use folder::Folder;
use links::Links;
use notes::Notes;

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

/// How the sources belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// They are all files below a folder. Each folder in it is a root of its own, as OpenTofu sees it; the topmost that
    /// holds an input is meant.
    Folder,
    /// They were named one by one, and are read together.
    Files,
}

/// Another tool's files.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The files. Their names are paths, so that `file("…")` and schematics are found among them.
    pub sources: &'a [Source],
    /// How they belong together.
    pub reach: Reach,
    /// The folder that relative names are seen from.
    pub here: &'a str,
    /// The folder that the result goes to: files that it names are found from there.
    pub result: &'a str,
}

/// Reads another tool's files and translates them.
///
/// # Errors
/// When a file cannot be read, nothing in the files is of a known format, or several folders are.
pub fn import(input: &Input<'_>) -> Result<Imported, Failed> {
    let (sources, reach) = (input.sources, input.reach);
    let links = |folder: &str| Links::new(input.result, &links::join(input.here, folder));
    let (mut problems, mut troubles) = (Vec::new(), Vec::new());
    for tier in folder::roots(sources, reach) {
        let mut fitting: Vec<(&str, Folder<'_>)> = Vec::new();
        for (path, members) in &tier {
            let mut own = Vec::new();
            let folder = Folder::read(sources, members, &mut own);
            if !own.is_empty() {
                problems.extend(own);
                continue;
            }
            let evaluator = Evaluator::new(&folder);
            if candidates::all(&folder, &evaluator).is_empty() {
                troubles.extend(candidates::troubles(&folder, &evaluator));
            } else {
                fitting.push((path, folder));
            }
        }
        match &fitting[..] {
            [] => {}
            [(path, folder)] => return translate(folder, &links(path)),
            several => {
                let paths: Vec<&str> = several.iter().map(|(path, _)| *path).collect();
                return Err(failed(sources, vec![several_inputs(&paths)]));
            }
        }
        // A folder that cannot be read may be the one that is meant; what lies deeper is a part of it.
        if !problems.is_empty() {
            return Err(failed(sources, problems));
        }
    }
    let fitting: Vec<(&str, Folder<'_>)> = folder::yaml_alone(sources, reach)
        .filter(|(_, folder)| !candidates::all(folder, &Evaluator::new(folder)).is_empty())
        .collect();
    match &fitting[..] {
        [] => {
            folder::explain(sources, &mut problems);
            if problems.is_empty() {
                problems.push(unknown_format(sources));
                let mut notes = Notes::default();
                troubles.iter().for_each(|trouble| notes.not_evaluated(sources, trouble));
                problems.extend(notes.list);
            }
            Err(failed(sources, problems))
        }
        [(name, folder)] => translate(folder, &links(links::parent(name))),
        several => {
            let names: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
            Err(failed(sources, vec![several_inputs(&names)]))
        }
    }
}

fn translate(folder: &Folder<'_>, links: &Links) -> Result<Imported, Failed> {
    let evaluator = Evaluator::new(folder);
    let mut notes = Notes::default();
    let mut found = candidates::all(folder, &evaluator).into_iter();
    let Some(Candidate { format, tree, troubles, module }) = found.next() else {
        return Err(failed(folder.sources, vec![unknown_format(folder.sources)]));
    };
    let Some(bag) = Bag::new("", &tree) else {
        return Err(failed(folder.sources, vec![unknown_format(folder.sources)]));
    };
    folder.set_twice(&mut notes);
    for other in found.filter(|_| module.is_some()) {
        let name = other.module.unwrap_or_default();
        notes.lost(other.tree.span(), &format!("`{name}` is another cluster, and a file holds one"));
    }
    let mut spec = match format {
        Format::Distribution => distribution::translate(&bag, &mut notes),
        Format::Lists => lists::translate(&bag, &mut notes),
        _ => machines::translate(format, &bag, folder, &evaluator, &mut notes),
    };
    links.mend(&mut spec);
    // A default that the translation has no use for is the module's business, not a part of the input.
    bag.ignore(&folder.defaults());
    bag.finish(&mut notes);
    notes.hide_secrets(&tree);
    for trouble in troubles.into_iter().chain(evaluator.troubles.take()) {
        notes.not_evaluated(folder.sources, &trouble);
    }
    Ok(finish(format, &spec, folder.sources, notes))
}

fn finish(format: Format, spec: &Spec, sources: &[Source], notes: Notes) -> Imported {
    let mut masked = sources.to_vec();
    for span in &notes.secrets {
        load::mask_span(&mut masked, *span);
    }
    let body = serde_saphyr::to_string(spec).unwrap_or_default();
    let yaml = format!("# Imported from {format}.\n{body}");
    let checks = match load::load(&[Source::new("cluster.yaml", &yaml)]) {
        Ok(loaded) => loaded.check(),
        Err(failed) => failed.diagnostics,
    };
    let notes = load::locate(&masked, None, notes.list);
    Imported { format, yaml, sources: masked, notes, checks }
}

fn failed(sources: &[Source], problems: Vec<Diagnostic>) -> Failed {
    let diagnostics = load::locate(sources, None, problems);
    Failed { sources: sources.to_vec(), diagnostics }
}

fn unknown_format(sources: &[Source]) -> Diagnostic {
    let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    let known = [
        Format::NodesConfig,
        Format::TalosNodes,
        Format::ModuleCall,
        Format::FluxModuleCall,
        Format::Distribution,
        Format::Lists,
    ];
    let known: Vec<String> = known.iter().map(Format::to_string).collect();
    let message = match names.len() {
        0 => "there is no file to import".to_owned(),
        1..=8 => format!("nothing in {} is of a known format", names.join(", ")),
        many => format!("nothing in {many} files is of a known format"),
    };
    Diagnostic::error(codes::IMPORT_UNKNOWN, message).help(format!(
        "known are {}. Looked for were values in .tfvars, `variable` defaults, `module` calls and `inputs` in .tf and .hcl, and YAML files",
        known.join("; ")
    ))
}

fn several_inputs(paths: &[&str]) -> Diagnostic {
    let message = format!("there are several inputs: {}", paths.join(", "));
    Diagnostic::error(codes::IMPORT_SEVERAL, message).help("a file holds one cluster: import one of them")
}

#[cfg(test)]
mod tests;
