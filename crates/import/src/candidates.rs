//! Mappings that may be an input: what files of values set, then module calls, then YAML files, then what stands under
//! `configuration` in one of them. Their keys tell which format they are of.

use hcl_edit::Span as _;
use hcl_edit::expr::Expression;
use hcl_edit::structure::Block;
use model::diagnostic::Span;
use model::load::{Scalar, Tree};

use super::Format;
use super::bag::Bag;
use super::eval::{Evaluator, Scope, number, pairs};
use super::folder::Folder;
use super::notes::Trouble;
use super::types;

/// Keys of a module call that are OpenTofu's own.
const META: &[&str] = &["source", "version", "providers", "depends_on", "count", "for_each"];

/// An input of a known format.
pub(super) struct Candidate {
    pub(super) format: Format,
    pub(super) tree: Tree,
    /// What was not evaluated in it.
    pub(super) troubles: Vec<Trouble>,
    /// The module call that it stands in.
    pub(super) module: Option<String>,
}

type Entries = Vec<(String, Span, Tree)>;

/// Everything in a folder that has a known format.
pub(super) fn all(folder: &Folder<'_>, evaluator: &Evaluator<'_>) -> Vec<Candidate> {
    let mut trees: Vec<(Tree, Vec<Trouble>, Option<String>)> = Vec::new();
    let start = Span { source: 0, start: 0, end: 0 };
    let mut top = values(folder, evaluator);
    let inputs = top.iter().position(|(key, ..)| key == "inputs").map(|at| top.remove(at).2);
    // How Proxmox is reached stands beside a module call, not in it.
    let beside: Entries = top
        .iter()
        .filter(|(key, ..)| ["proxmox", "proxmox_api_token"].contains(&key.as_str()))
        .cloned()
        .collect();
    trees.push((Tree::Map { span: start, entries: top }, evaluator.troubles.take(), None));
    trees.extend(inputs.map(|tree| (tree, Vec::new(), None)));
    for (source, block) in folder.blocks("module") {
        let name = block.labels.first().map_or("", |label| label.as_str());
        let range = block.span().unwrap_or(0..0);
        let span = Span { source, start: range.start, end: range.start };
        for (suffix, each) in instances(evaluator, source, block) {
            let mut entries = call(folder, evaluator, source, block, each.as_ref());
            if entries.iter().any(|(key, ..)| key == "nodes") {
                entries.extend(beside.iter().cloned());
            }
            let tree = Tree::Map { span, entries };
            trees.push((tree, evaluator.troubles.take(), Some(format!("module.{name}{suffix}"))));
        }
    }
    trees.extend(folder.yaml_tree().map(|tree| (tree, Vec::new(), None)));
    let inner: Vec<_> = trees
        .iter()
        .filter_map(|(tree, troubles, module)| match tree {
            Tree::Map { entries, .. } => {
                let found = entries.iter().find(|(key, ..)| key == "configuration");
                found.map(|(.., value)| (value.clone(), troubles.clone(), module.clone()))
            }
            _ => None,
        })
        .collect();
    trees.extend(inner);
    let known = |(tree, troubles, module): (Tree, Vec<Trouble>, Option<String>)| {
        let format = detect(&Bag::new("", &tree)?)?;
        Some(Candidate { format, tree, troubles, module })
    };
    trees.into_iter().filter_map(known).collect()
}

/// What files of values set, and the defaults of variables that none of them sets.
fn values(folder: &Folder<'_>, evaluator: &Evaluator<'_>) -> Entries {
    let mut entries = Vec::new();
    for (source, key, expr) in folder.values() {
        add(&mut entries, evaluator, source, key, expr, &Scope::Empty);
    }
    for (source, block) in folder.blocks("variable") {
        let name = block.labels.first().map_or("", |label| label.as_str());
        let default = block.body.get_attribute("default").filter(|default| !default.value.is_null());
        if let Some(default) = default {
            add(&mut entries, evaluator, source, name, &default.value, &Scope::Empty);
        }
    }
    for (key, _, value) in &mut entries {
        if let Some((source, kind)) = folder.type_of(key) {
            types::fill(value, kind, &|expr| evaluator.value(source, expr));
        }
    }
    entries
}

/// Why what would tell the format of a folder could not be evaluated.
pub(super) fn troubles(folder: &Folder<'_>, evaluator: &Evaluator<'_>) -> Vec<Trouble> {
    const TELLING: &[&str] = &[
        "nodes",
        "cluster",
        "nodes_config",
        "talos_nodes",
        "node_distribution",
        "control_plane_nodes",
        "worker_nodes",
        "configuration",
        "inputs",
    ];
    let values = folder.values();
    let calls = folder.blocks("module").flat_map(|(source, block)| {
        block.body.attributes().map(move |one| (source, one.key.as_str(), &one.value))
    });
    let telling = values.chain(calls).filter(|(_, key, _)| TELLING.contains(key));
    telling.filter_map(|(source, _, expr)| evaluator.eval(source, expr, &Scope::Empty).err()).collect()
}

/// The arguments of a module call, with what the types of the module's variables add, where the module is at hand.
fn call(
    folder: &Folder<'_>,
    evaluator: &Evaluator<'_>,
    source: usize,
    block: &Block,
    each: Option<&Tree>,
) -> Entries {
    let mut entries = Vec::new();
    let empty = Scope::Empty;
    let count = tree("index", number(Span { source, start: 0, end: 0 }, "0"));
    let counted = Scope::With { name: "count", value: &count, rest: &empty };
    let with_each = each.map(|value| Scope::With { name: "each", value, rest: &counted });
    let scope = with_each.as_ref().unwrap_or(&counted);
    for attribute in block.body.attributes().filter(|a| !META.contains(&a.key.as_str())) {
        add(&mut entries, evaluator, source, attribute.key.as_str(), &attribute.value, scope);
    }
    let local = block.body.get_attribute("source").and_then(|source| source.value.as_str());
    if let Some(path) = local.filter(|path| path.starts_with('.')) {
        for (name, module, kind) in folder.types_of_module(source, path) {
            if let Some((.., value)) = entries.iter_mut().find(|(key, ..)| *key == name) {
                types::fill(value, &kind, &|expr| evaluator.value(module, expr));
            }
        }
    }
    entries
}

/// A module call is there as often as its `for_each` says: what is added to its name, and what `each` is.
fn instances(evaluator: &Evaluator<'_>, source: usize, block: &Block) -> Vec<(String, Option<Tree>)> {
    let once = vec![(String::new(), None)];
    let Some(each) = block.body.get_attribute("for_each") else { return once };
    let Some(all) = evaluator.value(source, &each.value).and_then(pairs) else { return once };
    let instance = |(key, value): (Tree, Tree)| {
        // What a set gives is both key and value.
        let key = match (&key, &value) {
            (Tree::Scalar { value: Scalar::Integer(_), .. }, Tree::Scalar { .. }) => value.clone(),
            _ => key,
        };
        let name = super::eval::plain(&key).unwrap_or_default();
        let span = key.span();
        let entries = vec![("key".to_owned(), span, key), ("value".to_owned(), span, value)];
        (format!("[{name}]"), Some(Tree::Map { span, entries }))
    };
    all.into_iter().take(100).map(instance).collect()
}

fn tree(key: &str, value: Tree) -> Tree {
    let span = value.span();
    Tree::Map { span, entries: vec![(key.to_owned(), span, value)] }
}

fn add(
    entries: &mut Entries,
    evaluator: &Evaluator<'_>,
    source: usize,
    key: &str,
    expr: &Expression,
    scope: &Scope<'_>,
) {
    if entries.iter().any(|(known, ..)| known == key) {
        return;
    }
    let range = expr.span().unwrap_or(0..0);
    let span = Span { source, start: range.start, end: range.end };
    if let Some(value) = evaluator.value_in(source, expr, scope) {
        entries.push((key.to_owned(), span, value));
    }
}

fn detect(bag: &Bag<'_>) -> Option<Format> {
    let has = |keys: &[&str]| keys.iter().all(|key| bag.has(key));
    match () {
        () if has(&["control_plane_nodes"]) || has(&["worker_nodes", "host_pool"]) => Some(Format::Lists),
        () if has(&["nodes_config"]) => Some(Format::NodesConfig),
        () if has(&["talos_nodes"]) => Some(Format::TalosNodes),
        () if has(&["nodes", "cluster", "flux_bootstrap_repo"]) => Some(Format::FluxModuleCall),
        () if has(&["nodes", "cluster"]) && are_machines(bag) => Some(Format::ModuleCall),
        () if has(&["node_distribution"]) || has(&["cluster_config", "network_config"]) => {
            Some(Format::Distribution)
        }
        // These two alone are names that many files have.
        () if has(&["network_cidr", "cluster_name"]) && bag.keys().any(|key| key.starts_with("proxmox_")) => {
            Some(Format::Distribution)
        }
        () => None,
    }
}

/// Whether `nodes` are virtual machines of these formats: other modules have nodes, too.
fn are_machines(bag: &Bag<'_>) -> bool {
    let known = ["machine_type", "host_node", "ip", "vm_id"];
    let nodes = bag.bag("nodes").map(|nodes| nodes.bags()).unwrap_or_default();
    nodes.iter().any(|(_, node)| known.iter().any(|key| node.has(key)))
}
