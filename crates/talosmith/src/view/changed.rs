//! What is different between two looks, in words: from the facts that a saved plan holds to sentences about nodes, VMs and
//! hosts.
//!
//! A fact has a name such as `world/proxmox/marked/150021/config/tags`. Facts about one thing make one sentence, which says
//! that the thing is new or gone, or what about it is another. Sentences about the file come first.

use std::collections::{BTreeMap, BTreeSet};

use engine::saved::REMOVED;

use super::ink::clean;

type Facts = BTreeMap<String, String>;

/// How many properties of one thing are named.
const NAMED: usize = 4;

/// One thing that is different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Whether the file differs, and not the world.
    pub of_file: bool,
    /// In words.
    pub text: String,
}

/// What a fact is about. The order is that of the sentences.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    /// A node as the file describes it.
    FileNode(String),
    /// Anything else that the file says.
    File(String),
    /// The cluster's secrets, and what derives from them.
    Secrets,
    /// Whether a host is on.
    Power(String),
    Vm(u32),
    Machine(String),
    Kubernetes(String),
    /// Anything else of a host.
    Host(String),
    Unobserved(String),
    /// Whether the token may open the console of a node's VM.
    Console,
    /// A privilege that the token lacks.
    Rights,
    /// Boot images in datastores.
    Images,
    /// Where VMs would go that are not there yet.
    Placement,
    /// Anything else, by the first part of its name.
    Other(String),
}

impl Thing {
    fn is_of_file(&self) -> bool {
        matches!(self, Self::FileNode(_) | Self::File(_))
    }
}

/// Everything that is different, each thing once.
pub fn changes(was: &Facts, is: &Facts) -> Vec<Change> {
    let mut found: BTreeMap<Thing, BTreeSet<&str>> = BTreeMap::new();
    let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    for name in names.into_iter().filter(|name| was.get(*name) != is.get(*name)) {
        let thing = match (thing(name), name.split('/').nth(2)) {
            // All of a node that comes or goes does so with it.
            (Thing::Secrets | Thing::Placement, Some(node))
                if name.starts_with("file/nodes/") && (lacks(was, node) || lacks(is, node)) =>
            {
                Thing::FileNode(node.to_owned())
            }
            (thing, _) => thing,
        };
        found.entry(thing).or_default().insert(name);
    }
    let of_file = found.keys().any(Thing::is_of_file);
    let secrets = found.contains_key(&Thing::Secrets);
    let told = |node: &String| found.contains_key(&Thing::FileNode(node.clone()));
    // What follows from something that is told already: a configuration from its node and from the secrets, and what is
    // looked at from what the file asks for.
    let follows = |thing: &Thing, names: &BTreeSet<&str>| match thing {
        Thing::File(node) => {
            names.iter().all(|name| name.starts_with("configuration/")) && (secrets || told(node))
        }
        Thing::Machine(node) => told(node),
        Thing::Images | Thing::Placement => of_file,
        Thing::Host(host) => found.contains_key(&Thing::Power(host.clone())),
        Thing::Unobserved(what) => found.keys().any(|other| match other {
            Thing::Vm(vmid) => what.starts_with(&format!("VM {vmid} ")),
            _ => false,
        }),
        _ => false,
    };
    found
        .iter()
        .filter(|(thing, names)| !follows(thing, names))
        .map(|(thing, names)| Change {
            of_file: thing.is_of_file(),
            text: clean(&sentence(thing, names, was, is)).into_owned(),
        })
        .collect()
}

fn thing(name: &str) -> Thing {
    let parts: Vec<&str> = name.split('/').collect();
    let own = |text: &str| text.to_owned();
    match parts.as_slice() {
        ["file", "cluster_id"] | ["file", "nodes", _, "uuid" | "mac"] | ["file", "record", "uuid"] => {
            Thing::Secrets
        }
        // Where there is a choice, the world decides it.
        ["file", "nodes" | "record", .., "host"] => Thing::Placement,
        ["file", "nodes", node, ..] => Thing::FileNode(own(node)),
        ["file", key, ..] => Thing::File(own(key)),
        ["configuration" | "schematic", of, ..] => Thing::File(own(of)),
        ["world", "proxmox", "inventory", "hosts", host, "online"] => Thing::Power(own(host)),
        ["world", "proxmox", "inventory", "hosts", host, ..] => Thing::Host(own(host)),
        ["world", "proxmox", "marked" | "taken" | "unread", vmid, ..] => {
            vmid.parse().map_or_else(|_| Thing::Other(own("VMs")), Thing::Vm)
        }
        ["world", "proxmox", "record", ..] => Thing::Other(own("the cluster record VM")),
        ["world", "proxmox", "images", ..] => Thing::Images,
        ["world", "proxmox", "no_console", ..] => Thing::Console,
        ["world", "proxmox", "missing_rights", ..] => Thing::Rights,
        ["world", "proxmox", key, ..] => Thing::Other(format!("Proxmox: {}", key.replace('_', " "))),
        ["world", "machines", node, ..] => Thing::Machine(own(node)),
        ["world", "kubernetes", "nodes", node, ..] => Thing::Kubernetes(own(node)),
        ["world", "kubernetes", ..] => Thing::Kubernetes(String::new()),
        ["world", "unobserved", what, ..] => Thing::Unobserved(own(what)),
        _ => Thing::Other(own(parts.first().unwrap_or(&""))),
    }
}

fn sentence(thing: &Thing, names: &BTreeSet<&str>, was: &Facts, is: &Facts) -> String {
    let is_new = names.iter().all(|name| !was.contains_key(*name));
    let is_gone = names.iter().all(|name| !is.contains_key(*name));
    match thing {
        Thing::FileNode(node) if lacks(was, node) => format!("{node} is new in the file"),
        Thing::FileNode(node) if lacks(is, node) => format!("{node} is not in the file any more"),
        Thing::FileNode(node) => {
            format!("the file says something else about {node}: {}", differences(names, 3, was, is))
        }
        Thing::File(of) if names.iter().all(|name| name.starts_with("configuration/")) => {
            format!("the configuration that the file gives {of} is another")
        }
        Thing::File(key) => format!("the file says something else: {}", properties_of(key, names, was, is)),
        Thing::Secrets if is_new => "the cluster has secrets now".to_owned(),
        Thing::Secrets => "the cluster's secrets are others".to_owned(),
        Thing::Power(host) => match is.get(&format!("world/proxmox/inventory/hosts/{host}/online")) {
            Some(online) if online == "true" => format!("{host} is on now"),
            _ => format!("{host} is off or cannot be reached now"),
        },
        Thing::Host(host) => format!("{host} is not as it was: {}", differences(names, 5, was, is)),
        Thing::Vm(vmid) => vm(*vmid, names, was, is),
        Thing::Machine(node) if is_new => format!("{node} has a machine now"),
        Thing::Machine(node) if is_gone => format!("{node} has no running machine any more"),
        Thing::Machine(node) => {
            format!("the machine of {node} is not as it was: {}", differences(names, 3, was, is))
        }
        Thing::Kubernetes(node) if node.is_empty() => match is.get("world/kubernetes/answered") {
            Some(now) if names.contains("world/kubernetes/answered") && now == "true" => {
                "Kubernetes answers now".to_owned()
            }
            Some(_) if names.contains("world/kubernetes/answered") => {
                "Kubernetes does not answer now".to_owned()
            }
            _ => format!("Kubernetes says something else: {}", differences(names, 2, was, is)),
        },
        Thing::Kubernetes(node) if is_new => format!("{node} is in Kubernetes now"),
        Thing::Kubernetes(node) if is_gone => format!("{node} is not in Kubernetes any more"),
        Thing::Kubernetes(node) => {
            format!("Kubernetes says something else about {node}: {}", differences(names, 4, was, is))
        }
        Thing::Unobserved(what) if is_gone => format!("{what} can be seen now"),
        Thing::Unobserved(what) => format!("{what} cannot be seen now"),
        Thing::Console => console(was, is),
        Thing::Rights if is_new => "the token has lost a privilege: `talosmith doctor` says which".to_owned(),
        Thing::Rights if is_gone => "the token has a privilege that it lacked".to_owned(),
        Thing::Rights => {
            "the token lacks other privileges than before: `talosmith doctor` says which".to_owned()
        }
        Thing::Images => "there are other boot images in the datastores".to_owned(),
        Thing::Placement => "new VMs would go to other hosts".to_owned(),
        Thing::Other(what) => match (is_new, is_gone) {
            (true, _) => format!("{what}: something is new"),
            (_, true) => format!("{what}: something is gone"),
            _ => format!("{what}: something changed"),
        },
    }
}

/// Whose consoles the token may not open any more, or may open now.
fn console(was: &Facts, is: &Facts) -> String {
    let denied = |facts: &Facts| -> BTreeSet<String> {
        facts
            .range("world/proxmox/no_console".to_owned()..)
            .take_while(|(name, _)| name.starts_with("world/proxmox/no_console"))
            .map(|(_, node)| node.trim_matches('"').to_owned())
            .filter(|node| !node.is_empty() && node != "[]" && node != "null")
            .collect()
    };
    let (before, now) = (denied(was), denied(is));
    let names = |all: Vec<&String>| all.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let lost = names(now.difference(&before).collect());
    let won = names(before.difference(&now).collect());
    match (lost.is_empty(), won.is_empty()) {
        (false, _) => format!(
            "the token has lost VM.Console on the VMs of {lost}: these machines could be known by their SMBIOS UUID only"
        ),
        (true, false) => format!("the token has VM.Console now on the VMs of {won}"),
        (true, true) => "whether the token has VM.Console was not known, or is not known now".to_owned(),
    }
}

/// A VM by id, with its name and what became of it.
fn vm(vmid: u32, names: &BTreeSet<&str>, was: &Facts, is: &Facts) -> String {
    let fact = |facts: &Facts, key: &str| {
        let of = |list: &str| facts.get(&format!("world/proxmox/{list}/{vmid}/{key}")).cloned();
        of("marked").or_else(|| of("taken"))
    };
    let name = fact(is, "name").or_else(|| fact(was, "name"));
    let title = name.map_or_else(|| format!("VM {vmid}"), |name| format!("VM {vmid} ({name})"));
    let there = |facts: &Facts| {
        ["taken", "marked"].iter().any(|list| any(facts, &format!("world/proxmox/{list}/{vmid}/")))
    };
    let host = |facts: &Facts| fact(facts, "host").map(|host| format!(" on {host}")).unwrap_or_default();
    match (there(was), there(is)) {
        (false, true) => return format!("{title}{} is new", host(is)),
        (true, false) => return format!("{title}{} is gone", host(was)),
        _ => {}
    }
    let unread = format!("world/proxmox/unread/{vmid}");
    match (was.contains_key(&unread), is.contains_key(&unread)) {
        (false, true) => return format!("{title}{} cannot be read now", host(is)),
        (true, false) => return format!("{title}{} can be read now", host(is)),
        _ => {}
    }
    let mut said = vec![];
    for (key, yes, no) in [("running", "runs now", "is stopped now")] {
        if fact(was, key) != fact(is, key) {
            said.push(if fact(is, key).as_deref() == Some("true") { yes } else { no }.to_owned());
        }
    }
    if fact(was, "host") != fact(is, "host") {
        said.push(format!("is{} now", host(is)));
    }
    let told = ["running", "host"].map(|key| format!("/{vmid}/{key}"));
    let rest: BTreeSet<&str> =
        names.iter().copied().filter(|name| !told.iter().any(|told| name.ends_with(told.as_str()))).collect();
    if !rest.is_empty() {
        said.push(format!("was changed: {}", differences(&rest, 4, was, is)));
    }
    format!("{title} {}", said.join(", and "))
}

/// Whether a node is not among what the file asked for.
fn lacks(facts: &Facts, node: &str) -> bool {
    !any(facts, &format!("file/nodes/{node}/"))
}

/// Whether there is a fact with this beginning.
fn any(facts: &Facts, beginning: &str) -> bool {
    facts.range(beginning.to_owned()..).next().is_some_and(|(name, _)| name.starts_with(beginning))
}

fn properties_of(key: &str, names: &BTreeSet<&str>, was: &Facts, is: &Facts) -> String {
    let below = differences(names, 2, was, is);
    if below.is_empty() { key.replace('_', " ") } else { format!("{} ({below})", key.replace('_', " ")) }
}

fn property(name: &str, without: usize) -> String {
    let kept = |part: &&str| !["config", "pending"].contains(part) && part.parse::<u32>().is_err();
    let parts: Vec<&str> = name.split('/').skip(without).filter(kept).collect();
    parts.join(" ").replace('_', " ")
}

/// The last parts of these names, without so many at the beginning, some of them, each with what it was and what it is. Of what is kept as a digest it is said only that it changed.
fn differences(names: &BTreeSet<&str>, without: usize, was: &Facts, is: &Facts) -> String {
    let difference = |name: &&str| {
        let title = property(name, without);
        let (set, pending) = (name.replace("/pending/", "/config/"), name.contains("/pending/"));
        // What waits for the next start of a VM replaces what runs, and what does not wait is as it runs.
        let value = |facts: &Facts| {
            let running = || facts.get(&set).filter(|_| pending);
            facts.get(*name).or_else(running).cloned().unwrap_or_else(|| REMOVED.to_owned())
        };
        let (old, new) = (value(was), value(is));
        let then = if pending { " from its next start on" } else { "" };
        match title.is_empty() || [&old, &new].iter().any(|value| is_digest(value)) {
            true => title,
            false => format!("{title} ({old} → {new}{then})"),
        }
    };
    some(names.iter().map(difference).filter(|text| !text.is_empty()).collect())
}

fn is_digest(value: &str) -> bool {
    value.starts_with("sha256:") || value.starts_with("hmac-sha256:")
}

fn some(all: BTreeSet<String>) -> String {
    let more = all.len().saturating_sub(NAMED);
    let mut said: Vec<String> = all.into_iter().take(NAMED).collect();
    if more > 0 {
        said.push(format!("{more} more"));
    }
    said.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(lines: &[&str]) -> Facts {
        lines.iter().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()
    }

    fn told(was: &[&str], is: &[&str]) -> String {
        let line = |change: Change| format!("{}{}", if change.of_file { "file: " } else { "" }, change.text);
        changes(&facts(was), &facts(is)).into_iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn facts_of_one_thing_are_one_sentence() {
        let was = [
            "configuration/home-work-1=1",
            "file/nodes/home-work-1/memory_mib=2048",
            "file/nodes/home-work-1/cores=2",
            "file/nodes/home-work-3/cores=2",
            "file/kubernetes=v1.35.4",
            "world/proxmox/inventory/hosts/pve3/online=true",
            "world/proxmox/marked/151021/config/tags=talosmith",
            "world/proxmox/marked/151021/name=home-work-1",
            "world/proxmox/marked/151021/running=true",
            "world/proxmox/taken/100/name=printer",
            "world/proxmox/taken/100/host=pve1",
            "world/proxmox/taken/151021/host=pve1",
            "world/proxmox/taken/151022/host=pve3",
            "world/proxmox/marked/151022/name=home-work-2",
            "world/kubernetes/answered=true",
            "world/machines/home-work-1/stage=running",
        ];
        let is = [
            "configuration/home-work-1=2",
            "file/nodes/home-work-1/memory_mib=4096",
            "file/nodes/home-work-1/cores=2",
            "file/nodes/home-work-4/cores=2",
            "file/kubernetes=v1.35.5",
            "world/proxmox/inventory/hosts/pve3/online=false",
            "world/proxmox/marked/151021/config/tags=y",
            "world/proxmox/marked/151021/name=home-work-1",
            "world/proxmox/marked/151021/running=false",
            "world/proxmox/taken/151021/host=pve1",
            "world/proxmox/taken/151022/host=pve3",
            "world/proxmox/unread/151022=pve3",
            "world/unobserved/VM 151022 on pve3/what=VM 151022 on pve3",
            "world/kubernetes/answered=false",
        ];
        insta::assert_snapshot!(told(&was, &is), @"
        file: the file says something else about home-work-1: memory mib (2048 → 4096)
        file: home-work-3 is not in the file any more
        file: home-work-4 is new in the file
        file: the file says something else: kubernetes
        pve3 is off or cannot be reached now
        VM 100 (printer) on pve1 is gone
        VM 151021 (home-work-1) is stopped now, and was changed: tags (talosmith → y)
        VM 151022 (home-work-2) on pve3 cannot be read now
        Kubernetes does not answer now
        ");
        assert_eq!(told(&was, &was), "");
    }

    #[test]
    fn f5_what_changed_of_a_vm_is_told_with_the_old_and_the_new_value() {
        let vm = "world/proxmox/marked/151021";
        let was = [
            format!("{vm}/name=home-work-1"),
            format!("{vm}/config/serial0=socket"),
            format!("{vm}/config/cores=2"),
            format!("{vm}/config/description=sha256:1"),
        ];
        let is = [
            format!("{vm}/name=home-work-1"),
            format!("{vm}/config/serial0=socket"),
            format!("{vm}/pending/serial0=not set"),
            format!("{vm}/config/cores=4"),
            format!("{vm}/config/net1=virtio"),
            format!("{vm}/config/description=sha256:2"),
        ];
        let [was, is]: [Vec<&str>; 2] =
            [&was[..], &is[..]].map(|lines| lines.iter().map(String::as_str).collect());
        assert_eq!(
            told(&was, &is),
            "VM 151021 (home-work-1) was changed: cores (2 → 4), description, net1 (not set → virtio), serial0 (socket → not set from \
             its next start on)"
        );
    }

    #[test]
    fn i16_a_privilege_that_was_lost_is_named() {
        let denied = ["world/proxmox/no_console/0=home-work-1", "world/proxmox/no_console/1=home-work-2"];
        assert_eq!(
            told(&[], &denied),
            "the token has lost VM.Console on the VMs of home-work-1, home-work-2: these machines could be known by their SMBIOS UUID only"
        );
        assert_eq!(told(&denied, &denied[..1]), "the token has VM.Console now on the VMs of home-work-2");
        assert!(
            told(&[], &["world/proxmox/missing_rights/0/one_of/0=x"])
                .starts_with("the token has lost a privilege")
        );
    }

    #[test]
    fn what_follows_from_new_secrets_is_told_once() {
        let was = ["file/nodes/a/cores=2"];
        let is =
            ["file/nodes/a/cores=2", "file/cluster_id=sha256:1", "file/nodes/a/uuid=1", "configuration/a=1"];
        assert_eq!(told(&was, &is), "the cluster has secrets now");
    }
}
