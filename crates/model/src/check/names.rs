//! Names of everything, labels and tags.

use std::collections::BTreeMap;

use crate::derived;
use crate::diagnostic::{Diagnostic, Path, codes};
use crate::draft::Draft;
use crate::forms;

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
    tags(&spec.proxmox.tags, &Path::of(&["proxmox", "tags"]), found);
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
    let record = derived::record_name(&draft.spec.cluster);
    let mut owners: BTreeMap<&str, &Path> = BTreeMap::new();
    let cluster = Path::of(&["cluster"]);
    owners.insert(&record, &cluster);
    for node in &draft.nodes {
        if node.name.len() > 63 && node.ordinal.is_some() {
            found.push(
                Diagnostic::error(codes::BAD_NAME, format!("`{}` has more than 63 characters", node.name))
                    .at_key(node.path.clone(), "the names of its nodes start with those of cluster and pool")
                    .help("shorten the name of the cluster or of the pool"),
            );
        }
        if let Some(first) = owners.insert(&node.name, &node.path) {
            let message = match node.name == record {
                true => format!("`{}` is the name of the cluster record VM", node.name),
                false => format!("two nodes are called `{}`", node.name),
            };
            let problem = Diagnostic::error(codes::NAME_TAKEN, message).at_key(node.path.clone(), "");
            found.push(problem.at_key(first.clone(), "").help("rename one of the two"));
        }
    }
}

fn labels(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let spec = draft.spec;
    let rule = "use at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";
    let pools = spec.pools.iter().map(|(name, pool)| (Path::of(&["pools", name]), &pool.traits));
    let nodes = spec.nodes.iter().map(|(name, node)| (Path::of(&["nodes", name]), &node.traits));
    let defaults = [
        (Path::of(&["defaults", "controlplane"]), &spec.defaults.controlplane.traits),
        (Path::of(&["defaults", "worker"]), &spec.defaults.worker.traits),
    ];
    for (path, traits) in defaults.into_iter().chain(pools).chain(nodes) {
        let bad =
            |what: String, path: Path| Diagnostic::error(codes::BAD_LABEL, what).at(path, "").help(rule);
        let bad_key =
            |what: String, path: Path| Diagnostic::error(codes::BAD_LABEL, what).at_key(path, "").help(rule);
        for (name, value) in &traits.labels {
            let path = path.key("labels").key(name);
            if !forms::is_label_name(name) {
                found.push(bad_key(format!("`{name}` cannot be the name of a label"), path.clone()));
            }
            if !forms::is_label_value(value) {
                found.push(bad(format!("`{value}` cannot be the value of a label"), path));
            }
        }
        for name in traits.annotations.keys().filter(|name| !forms::is_label_name(name)) {
            let what = format!("`{name}` cannot be the name of an annotation");
            found.push(bad_key(what, path.key("annotations").key(name)));
        }
        for (name, text) in &traits.taints {
            let path = path.key("taints").key(name);
            if !forms::is_label_name(name) {
                found.push(bad_key(format!("`{name}` cannot be the key of a taint"), path.clone()));
            }
            if forms::taint(text).is_none() {
                let problem = Diagnostic::error(codes::BAD_TAINT, format!("`{text}` is not a taint"));
                let help = "write `VALUE:NoSchedule`, `VALUE:PreferNoSchedule` or `VALUE:NoExecute`";
                found.push(problem.at(path, "").help(help));
            }
        }
        for name in traits.kubelet_args.keys().filter(|name| !forms::is_argument(name)) {
            let what = format!("`{name}` cannot be the name of an argument");
            let problem =
                Diagnostic::error(codes::BAD_NAME, what).at_key(path.key("kubelet_args").key(name), "");
            found.push(
                problem.help("write it without the dashes before it, as in `rotate-server-certificates`"),
            );
        }
        tags(&traits.tags, &path.key("tags"), found);
    }
    if let Some(region) = &spec.proxmox.region
        && (region.is_empty() || !forms::is_label_value(region))
    {
        let problem =
            Diagnostic::error(codes::BAD_LABEL, format!("`{region}` cannot be the name of a region"));
        found.push(problem.at(Path::of(&["proxmox", "region"]), "").help(rule));
    }
    for (name, host) in &spec.hosts {
        if let Some(zone) = host.zone.as_ref().filter(|zone| zone.is_empty() || !forms::is_label_value(zone))
        {
            let problem =
                Diagnostic::error(codes::BAD_LABEL, format!("`{zone}` cannot be the name of a zone"));
            found.push(problem.at(Path::of(&["hosts", name, "zone"]), "").help(rule));
        }
    }
}

fn tags(tags: &[String], path: &Path, found: &mut Vec<Diagnostic>) {
    for (index, tag) in tags.iter().enumerate().filter(|(_, tag)| !forms::is_tag(tag)) {
        found.push(
            Diagnostic::error(codes::BAD_TAG, format!("`{tag}` cannot be a Proxmox tag"))
                .at(path.index(index), "")
                .help("use lower case letters, digits and `_`, and after the first character also `-`, `+` and `.`"),
        );
    }
}
