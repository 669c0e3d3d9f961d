//! Labels, annotations and taints of the file, against the Node in Kubernetes.
//!
//! That a machine config has them does not put them into force. Talos writes labels and annotations, and the taints of control plane
//! nodes, with the kubelet's own rights, which do not reach everything, and leaves a key alone that another program set. The kubelet of a
//! worker sets taints only when it registers. So what counts is the Node.

use super::bring_up::Builder;
use super::{Blocked, Note};
use crate::blueprint::{Node, Role, Taint};
use crate::observed::KubernetesNode;
use crate::step::Disruption;

/// Domains of taints that Kubernetes, cloud providers and network plug-ins set and remove by themselves.
const OF_SYSTEMS: &[&str] = &["kubernetes.io", "cilium.io"];

impl Builder<'_> {
    /// Blocks what the file asks for and the Node does not have. `is_configured`: the machine has the file's configuration, so what
    /// Talos writes by itself is written.
    pub(super) fn on_node(&mut self, node: &Node, is_configured: bool) {
        let Some(seen) = self.observed.kubernetes.nodes.get(&node.name) else { return };
        let texts = [
            ("label", &node.labels, &seen.labels),
            ("annotation", &node.settings.annotations, &seen.annotations),
        ];
        let mut blocked = vec![];
        for (kind, wanted, has) in texts {
            for (key, value) in
                wanted.iter().filter(|(key, value)| is_configured && has.get(*key) != Some(value))
            {
                blocked.push(lacks_text(node, kind, key, value, has.get(key)));
            }
        }
        // A worker's are never set by its configuration, once it has registered.
        if is_configured || node.role == Role::Worker {
            let wanted = node.settings.taints.iter();
            let missing = wanted.filter(|(key, taint)| !has_taint(seen, key, taint));
            blocked.extend(missing.map(|(key, taint)| lacks_taint(node, key, taint)));
        }
        self.blocked.extend(blocked);
        self.foreign_taints(node, seen);
    }

    /// Who set a taint cannot be seen, so one that the file does not have stays, and is named.
    fn foreign_taints(&mut self, node: &Node, seen: &KubernetesNode) {
        for (key, taint) in &seen.taints {
            let domain = key.split_once('/').map_or(key.as_str(), |(domain, _)| domain);
            let of_a_system =
                OF_SYSTEMS.iter().any(|of| domain == *of || domain.ends_with(&format!(".{of}")));
            let of_the_file =
                node.settings.taints.get(key).is_some_and(|wanted| wanted.effect == taint.effect);
            if of_a_system || of_the_file {
                continue;
            }
            let text = format!(
                "{} has the taint {}, which the file does not have; Talosmith leaves it. To remove it: `kubectl taint nodes {} {key}:{}-`",
                node.name,
                written(key, taint),
                node.name,
                taint.effect
            );
            self.notes.push(Note { text });
        }
    }
}

fn has_taint(seen: &KubernetesNode, key: &str, wanted: &Taint) -> bool {
    seen.taints.iter().any(|(has, taint)| has == key && taint == wanted)
}

/// As kubectl writes it.
fn written(key: &str, Taint { value, effect }: &Taint) -> String {
    match value.is_empty() {
        true => format!("{key}:{effect}"),
        false => format!("{key}={value}:{effect}"),
    }
}

fn lacks_taint(node: &Node, key: &str, taint: &Taint) -> Blocked {
    let name = &node.name;
    let why = match node.role {
        Role::Worker => "a kubelet sets its taints only when it registers",
        Role::ControlPlane => "Talos did not set it, as when another program set the same key",
    };
    let taint = written(key, taint);
    Blocked {
        node: Some(name.clone()),
        what: format!("{name} does not have the taint {taint} in Kubernetes: {why}"),
        disruption: Disruption::None,
        hint: format!(
            "run `kubectl taint nodes {name} --overwrite {taint}`; or remove the taint from the file"
        ),
    }
}

fn lacks_text(node: &Node, kind: &str, key: &str, value: &str, has: Option<&String>) -> Blocked {
    let name = &node.name;
    let (has, why) = match has {
        Some(has) => (
            format!("the {kind} {key}={has} in Kubernetes, and the file says {value}"),
            "Talos does not change a key that another program set",
        ),
        None => (
            format!("no {kind} {key} in Kubernetes, and the file says {key}={value}"),
            "Talos sets it with the kubelet's rights, which do not reach every key",
        ),
    };
    let command = if kind == "label" { "label" } else { "annotate" };
    Blocked {
        node: Some(name.clone()),
        what: format!("{name} has {has}: {why}"),
        disruption: Disruption::None,
        hint: format!(
            "run `kubectl {command} node {name} --overwrite '{key}={value}'`; or remove the {kind} from the file"
        ),
    }
}
