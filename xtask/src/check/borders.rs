//! Which crate may reach which.
//!
//! Each crate has a row: which crates of ours it may reach, which foreign ones it may not, and why. Only normal
//! dependencies count, because tests may use anything. A row speaks of everything that is reached, however far away, with
//! one exception: [`Row::not_directly`] is for crates that a permitted dependency brings along. There, "is not asked for by
//! name" is the strongest that a graph can show.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anyhow::{Context, Result};
use serde_json::Value;

/// What one crate may reach.
pub struct Row {
    /// The crate.
    name: &'static str,
    /// Crates of ours that it may reach, by any way.
    ours: &'static [&'static str],
    /// Foreign crates that it must not reach, by any way.
    not: &'static [&'static str],
    /// Foreign crates that it must not name, though others may bring them along.
    not_directly: &'static [&'static str],
    /// The reason, which the message repeats.
    why: &'static str,
}

/// Everything that could open a connection, wait or run a task.
const WORLD: &[&str] = &["tokio", "mio", "socket2", "rustls", "hyper", "tonic", "kube"];

/// What draws on a terminal or reads a command line.
const TERMINAL: &[&str] = &["clap", "indicatif", "console"];

/// The rows, as the design has them.
pub const ROWS: &[Row] = &[
    Row {
        name: "model",
        ours: &[],
        not: WORLD,
        // serde-saphyr draws its own messages with the first; the second reads files of other tools, which is for `import`.
        not_directly: &["annotate-snippets", "hcl-edit"],
        why: "the model is pure: no IO, no clock, no async, no TLS",
    },
    Row {
        name: "import",
        ours: &["model"],
        not: WORLD,
        // The model's YAML reader brings it along.
        not_directly: &["annotate-snippets"],
        why: "an import is a function of the files that it is given: no IO, no clock, no async, no TLS",
    },
    Row {
        name: "ambient",
        ours: &[],
        not: &["tonic", "kube", "clap"],
        not_directly: &[],
        why: "time and connections are below everything else",
    },
    Row {
        name: "pve",
        ours: &["ambient"],
        not: &["tonic", "prost", "kube", "clap"],
        not_directly: &[],
        why: "the Proxmox client does not know Talos",
    },
    Row {
        name: "talos",
        ours: &[],
        not: &["rustls", "kube", "clap"],
        // tonic, whose traits the generated code implements, brings a runtime and a transport along.
        not_directly: &["tokio", "hyper", "hyper-util", "tower", "mio"],
        why: "this is Talos without a network",
    },
    Row {
        name: "talos-client",
        ours: &["ambient", "talos"],
        not: &["kube", "clap"],
        not_directly: &[],
        why: "the Talos client knows neither Proxmox nor the model",
    },
    Row {
        name: "engine",
        ours: &["ambient", "model", "pve", "talos", "talos-client"],
        not: TERMINAL,
        // The model's YAML reader brings it along.
        not_directly: &["annotate-snippets"],
        why: "the engine knows neither the lab nor the terminal",
    },
    Row {
        name: "lab",
        ours: &["ambient", "talos"],
        not: &["kube", "clap", "indicatif"],
        not_directly: &[],
        why: "the lab shares nothing with the clients that it tests but what golden files check",
    },
    Row {
        name: "talosmith",
        ours: &["ambient", "engine", "import", "lab", "model", "pve", "talos", "talos-client"],
        not: &[],
        not_directly: &[],
        why: "the program is on top: no one depends on it",
    },
    Row {
        name: "talosmith-fuzz",
        ours: &["ambient", "import", "model", "pve", "talos"],
        not: &["kube", "clap"],
        not_directly: &[],
        why: "what reads texts of others is tried without a world around it",
    },
    Row {
        name: "xtask",
        ours: &["talos"],
        not: &[],
        not_directly: &[],
        why: "generators and checks need at most Talos' own types, and must build while the rest does not",
    },
];

/// Who depends on whom by normal dependencies.
#[derive(Debug, Default)]
pub struct Graph {
    /// Names by package id.
    names: BTreeMap<String, String>,
    /// Ids of what a package depends on.
    edges: BTreeMap<String, BTreeSet<String>>,
    /// Ids of our own packages.
    ours: BTreeSet<String>,
}

impl Graph {
    /// Reads the answer of `cargo metadata --format-version 1`.
    pub fn read(metadata: &str) -> Result<Self> {
        let root: Value = serde_json::from_str(metadata).context("parse the answer of `cargo metadata`")?;
        let mut graph = Self::default();
        for package in list(&root, "packages")? {
            graph.names.insert(text(package, "id")?, text(package, "name")?);
        }
        for member in list(&root, "workspace_members")? {
            graph.ours.insert(member.as_str().context("a workspace member without an id")?.to_owned());
        }
        for node in list(root.get("resolve").context("no `resolve`")?, "nodes")? {
            let mut to = BTreeSet::new();
            for dependency in list(node, "deps")? {
                let kinds = list(dependency, "dep_kinds")?;
                if kinds.iter().any(|kind| kind.get("kind").is_none_or(Value::is_null)) {
                    to.insert(text(dependency, "pkg")?);
                }
            }
            graph.edges.insert(text(node, "id")?, to);
        }
        Ok(graph)
    }

    fn name<'a>(&'a self, id: &'a str) -> &'a str {
        self.names.get(id).map_or(id, String::as_str)
    }

    fn direct(&self, id: &str) -> impl Iterator<Item = &String> {
        self.edges.get(id).into_iter().flatten()
    }

    /// Everything that is reached from `id`, with the shortest way there, as names.
    fn reached(&self, id: &str) -> BTreeMap<String, String> {
        let mut ways: BTreeMap<String, String> = BTreeMap::new();
        let mut queue = VecDeque::from([(id.to_owned(), self.name(id).to_owned())]);
        while let Some((at, way)) = queue.pop_front() {
            for next in self.direct(&at) {
                if next != id && !ways.contains_key(next) {
                    let way = format!("{way} -> {}", self.name(next));
                    ways.insert(next.clone(), way.clone());
                    queue.push_back((next.clone(), way));
                }
            }
        }
        ways
    }
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value.get(key).and_then(Value::as_array).with_context(|| format!("no list `{key}` in the metadata"))
}

fn text(value: &Value, key: &str) -> Result<String> {
    let text = value.get(key).and_then(Value::as_str);
    text.map(str::to_owned).with_context(|| format!("no text `{key}` in the metadata"))
}

/// Every dependency that a row forbids, and every crate without a row.
pub fn problems(graph: &Graph) -> Vec<String> {
    let mut problems = vec![];
    for id in &graph.ours {
        let name = graph.name(id);
        let Some(row) = ROWS.iter().find(|row| row.name == name) else {
            problems.push(format!("the crate {name} has no row in xtask/src/check/borders.rs"));
            continue;
        };
        for (reached, way) in graph.reached(id) {
            let other = graph.name(&reached);
            let forbidden = if graph.ours.contains(&reached) {
                !row.ours.contains(&other)
            } else {
                row.not.contains(&other)
            };
            if forbidden {
                problems.push(format!("{name} must not reach {other}, but {way}: {}", row.why));
            }
        }
        for other in
            graph.direct(id).map(|id| graph.name(id)).filter(|other| row.not_directly.contains(other))
        {
            problems.push(format!("{name} must not depend on {other} itself: {}", row.why));
        }
    }
    problems
}

/// The lab in the program for a controller, which is built without default features: there it must not be.
pub fn lab_in_controller(without_default_features: &Graph) -> Vec<String> {
    let graph = without_default_features;
    let program = graph.ours.iter().find(|id| graph.name(id) == "talosmith");
    let reached = program.map(|id| graph.reached(id)).unwrap_or_default();
    let ways = reached.iter().filter(|(id, _)| graph.name(id) == "lab");
    ways.map(|(_, way)| {
        format!(
            "without default features talosmith must not reach lab, but {way}: a controller has no simulator"
        )
    })
    .collect()
}

#[cfg(test)]
mod tests;
