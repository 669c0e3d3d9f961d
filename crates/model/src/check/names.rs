//! Names of everything, labels and tags.

use std::collections::BTreeMap;

use super::forms;
use crate::diagnostic::{Diagnostic, Path, codes};
use crate::resolve::draft::Draft;
use crate::resolve::identity;

pub(super) fn check(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let spec = draft.spec;
    if !forms::is_dns_label(&spec.cluster) {
        found.push(bad(&spec.cluster, "cluster").at(Path::of(&["cluster"]), ""));
    }
    for name in spec.pools.keys().filter(|name| !forms::is_dns_label(name)) {
        found.push(bad(name, "pool").at_key(Path::of(&["pools", name]), ""));
    }
    for name in spec.nodes.keys().filter(|name| !forms::is_dns_label(name)) {
        found.push(bad(name, "node").at_key(Path::of(&["nodes", name]), ""));
    }
    for name in spec.hosts.keys().filter(|name| !forms::is_dns_label(&name.to_ascii_lowercase())) {
        found.push(bad(name, "host").at_key(Path::of(&["hosts", name]), ""));
    }
    for name in spec.sizes.keys().filter(|name| name.is_empty()) {
        found.push(bad(name, "size").at_key(Path::of(&["sizes", name]), ""));
    }
    if !forms::is_dns_name(&spec.kubernetes.dns_domain) {
        found.push(
            bad(&spec.kubernetes.dns_domain, "DNS domain").at(Path::of(&["kubernetes", "dns_domain"]), ""),
        );
    }
    lengths_and_twins(draft, found);
    labels(draft, found);
    for (index, tag) in spec.proxmox.tags.iter().enumerate().filter(|(_, tag)| !forms::is_tag(tag)) {
        found.push(
            Diagnostic::error(codes::BAD_TAG, format!("`{tag}` cannot be a Proxmox tag"))
                .at(Path::of(&["proxmox", "tags"]).index(index), "")
                .help("use lower case letters, digits and `_`, and after the first character also `-`, `+` and `.`"),
        );
    }
}

fn bad(name: &str, what: &str) -> Diagnostic {
    let folded: String = name
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(63)
        .collect();
    let suggestion = folded.trim_matches('-');
    let rule = "use lower case letters, digits and `-`, 63 characters at most";
    Diagnostic::error(codes::BAD_NAME, format!("`{name}` cannot be the name of a {what}")).help(
        match forms::is_dns_label(suggestion) && suggestion != name && what != "DNS domain" {
            true => format!("{rule}: `{suggestion}`"),
            false => rule.to_owned(),
        },
    )
}

/// Names that pools make must not be too long, and no two VMs may have one name.
fn lengths_and_twins(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let record = identity::record_name(&draft.spec.cluster);
    let mut owners: BTreeMap<&str, &Path> = BTreeMap::new();
    let cluster = Path::of(&["cluster"]);
    owners.insert(&record, &cluster);
    for node in &draft.nodes {
        if node.name.len() > 63 && node.ordinal.is_some() {
            found.push(
                Diagnostic::error(codes::BAD_NAME, format!("`{}` has more than 63 characters", node.name))
                    .at_key(node.path.clone(), "the names of its nodes begin with those of cluster and pool")
                    .help("shorten the name of the cluster or of the pool"),
            );
        }
        if let Some(first) = owners.insert(&node.name, &node.path) {
            let message = match node.name == record {
                true => format!("`{}` is the name of the cluster's record", node.name),
                false => format!("two nodes are called `{}`", node.name),
            };
            let problem = Diagnostic::error(codes::NAME_TAKEN, message).at_key(node.path.clone(), "");
            found.push(problem.at_key(first.clone(), "").help("rename one of the two"));
        }
    }
}

fn labels(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let pools =
        draft.spec.pools.iter().map(|(name, pool)| (Path::of(&["pools", name, "labels"]), &pool.labels));
    let nodes =
        draft.spec.nodes.iter().map(|(name, node)| (Path::of(&["nodes", name, "labels"]), &node.labels));
    let rule = "use at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";
    for (path, labels) in pools.chain(nodes) {
        for (name, value) in labels {
            if !forms::is_label_name(name) {
                let problem =
                    Diagnostic::error(codes::BAD_LABEL, format!("`{name}` cannot be the name of a label"));
                found.push(problem.at_key(path.key(name), "").help(rule));
            }
            if !forms::is_label_value(value) {
                let problem =
                    Diagnostic::error(codes::BAD_LABEL, format!("`{value}` cannot be the value of a label"));
                found.push(problem.at(path.key(name), "").help(rule));
            }
        }
    }
    for (name, host) in &draft.spec.hosts {
        if let Some(zone) = host.zone.as_ref().filter(|zone| zone.is_empty() || !forms::is_label_value(zone))
        {
            let problem =
                Diagnostic::error(codes::BAD_LABEL, format!("`{zone}` cannot be the name of a zone"));
            found.push(problem.at(Path::of(&["hosts", name, "zone"]), "").help(rule));
        }
    }
}
