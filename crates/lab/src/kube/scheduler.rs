//! Which node a pod goes to.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::nodes::Readiness;
use super::query::Selector;
use super::store::Store;

/// A node as far as placing needs it.
struct Seat {
    readiness: Readiness,
    cordoned: bool,
    taints: Vec<Value>,
    labels: Value,
    pods: usize,
}

/// All nodes.
pub(super) struct Nodes(BTreeMap<String, Seat>);

/// Where a pod goes, or why nowhere.
pub(super) enum Verdict {
    Node(String),
    None(String),
}

/// Taints that the pods of a daemon set bear by themselves.
const BORNE: [&str; 6] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
];

impl Nodes {
    pub(super) fn of(store: &Store) -> Self {
        let mut nodes: BTreeMap<String, Seat> = BTreeMap::new();
        for (_, node) in store.entries("", "nodes", None) {
            let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let seat = Seat {
                readiness: Readiness::of(node),
                cordoned: node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)),
                taints: node.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default(),
                labels: node["metadata"].get("labels").cloned().unwrap_or_default(),
                pods: 0,
            };
            nodes.insert(name, seat);
        }
        for (_, pod) in store.entries("", "pods", None) {
            let name = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
            if let Some(seat) = nodes.get_mut(name) {
                seat.pods += 1;
            }
        }
        Self(nodes)
    }

    pub(super) fn readiness(&self, name: &str) -> Option<Readiness> {
        self.0.get(name).map(|seat| seat.readiness)
    }

    /// The nodes on which a daemon set runs its pod.
    pub(super) fn for_daemons(&self, pod: &Value) -> Vec<String> {
        let fits = |seat: &Seat| {
            wanted(seat, pod)
                && seat.taints.iter().all(|taint| {
                    taint["key"].as_str().is_some_and(|key| BORNE.contains(&key)) || tolerated(taint, pod)
                })
        };
        self.0.iter().filter(|(_, seat)| fits(seat)).map(|(name, _)| name.clone()).collect()
    }

    /// The node with the fewest pods of those that fit; the first of equals.
    pub(super) fn choose(&mut self, pod: &Value) -> Verdict {
        let bears_cordon =
            tolerated(&json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}), pod);
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut best: Option<(&String, &mut Seat)> = None;
        let total = self.0.len();
        for (name, seat) in &mut self.0 {
            let keeps_off = |t: &&Value| t["effect"] != "PreferNoSchedule" && !tolerated(t, pod);
            let reason = if seat.cordoned && !bears_cordon {
                Some("node(s) were unschedulable".to_owned())
            } else if let Some(taint) = seat.taints.iter().find(keeps_off) {
                let value = taint["value"].as_str().unwrap_or_default();
                Some(format!(
                    "node(s) had untolerated taint {{{}: {value}}}",
                    taint["key"].as_str().unwrap_or_default()
                ))
            } else if !wanted(seat, pod) {
                Some("node(s) didn't match Pod's node affinity/selector".to_owned())
            } else {
                None
            };
            match reason {
                Some(reason) => *reasons.entry(reason).or_default() += 1,
                None if best.as_ref().is_none_or(|(_, found)| seat.pods < found.pods) => {
                    best = Some((name, seat))
                }
                None => {}
            }
        }
        if let Some((name, seat)) = best {
            seat.pods += 1;
            return Verdict::Node(name.clone());
        }
        let reasons: Vec<String> =
            reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let why = if reasons.is_empty() {
            "no nodes available to schedule pods".to_owned()
        } else {
            reasons.join(", ")
        };
        Verdict::None(format!("0/{total} nodes are available: {why}."))
    }
}

/// Whether a pod bears a taint.
fn tolerated(taint: &Value, pod: &Value) -> bool {
    let tolerations = pod.pointer("/spec/tolerations").and_then(Value::as_array).into_iter().flatten();
    tolerations.into_iter().any(|toleration| {
        let set = |key: &str| toleration.get(key).filter(|v| !v.is_null() && *v != "");
        let value = match toleration["operator"].as_str() {
            Some("Exists") => true,
            _ => {
                set("value").unwrap_or(&json!("")) == taint.get("value").unwrap_or(&json!(""))
                    && set("key").is_some()
            }
        };
        value
            && set("key").is_none_or(|key| *key == taint["key"])
            && set("effect").is_none_or(|effect| *effect == taint["effect"])
    })
}

/// Whether a node is among those that a pod asks for: its selector, and the required part of its affinity.
fn wanted(seat: &Seat, pod: &Value) -> bool {
    let node = json!({"metadata": {"labels": seat.labels}});
    let labels = pod.pointer("/spec/nodeSelector").cloned().unwrap_or_default();
    let selected = Selector::of_object(&json!({"matchLabels": labels})).picks(&node);
    let pointer =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = pod.pointer(pointer).and_then(Value::as_array);
    selected && terms.is_none_or(|terms| terms.iter().any(|term| Selector::of_object(term).picks(&node)))
}
