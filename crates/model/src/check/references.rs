//! Names that stand for something else in the file, roles, and how many nodes of each role there are.

use std::collections::BTreeMap;

use crate::blueprint::Role;
use crate::diagnostic::{Diagnostic, Path, codes, nearest};
use crate::draft::{Draft, DraftNode, MAX_COUNT};
use crate::identity::Fingerprint;
use crate::placement;
use crate::spec;

pub(super) fn check(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let spec = draft.spec;
    for (name, pool) in &spec.pools {
        let path = Path::of(&["pools", name]);
        found.extend(pool.size.iter().filter_map(|size| known(size, &spec.sizes, "size", path.key("size"))));
        for (index, host) in pool.hosts.iter().enumerate() {
            found.extend(known_host(draft, host, path.key("hosts").index(index)));
        }
        if pool.count > MAX_COUNT {
            let message = format!("the pool `{name}` has {} nodes", pool.count);
            let problem = Diagnostic::error(codes::TOO_MANY, message).at(path.key("count"), "");
            found.push(problem.help(format!("use {MAX_COUNT} at most")));
        }
    }
    for (name, node) in &spec.nodes {
        let path = Path::of(&["nodes", name]);
        found.extend(node.size.iter().filter_map(|size| known(size, &spec.sizes, "size", path.key("size"))));
        found.extend(node.pool.iter().filter_map(|pool| known(pool, &spec.pools, "pool", path.key("pool"))));
        found.extend(node.host.iter().filter_map(|host| known_host(draft, host, path.key("host"))));
    }
    roles(draft, found);
    counts(draft, found);
    for (name, node) in spec.nodes.iter().filter(|(_, node)| node.external) {
        let path = Path::of(&["nodes", name]);
        let of_a_vm = [
            ("host", node.host.is_some()),
            ("vmid", node.vmid.is_some()),
            ("size", node.size.is_some()),
            ("cpu", node.hardware.cpu.is_some()),
            ("memory", node.hardware.memory.is_some()),
            ("disk", node.hardware.disk.is_some()),
            ("disks", !node.hardware.disks.is_empty()),
            ("pci", node.hardware.pci.is_some()),
        ];
        for (key, _) in of_a_vm.into_iter().filter(|(_, given)| *given) {
            let message = format!("`{name}` is external, so its `{key}` would have no effect");
            let problem = Diagnostic::error(codes::EXTERNAL_VM, message).at_key(path.key(key), "");
            found.push(problem.at(path.key("external"), "").help(format!("leave out `{key}`")));
        }
    }
    let cardless =
        |node: &&DraftNode<'_>| node.external && node.role == Role::ControlPlane && node.mac.is_none();
    let unnamed = draft
        .nodes
        .iter()
        .filter(cardless)
        .filter(|node| spec.nodes.get(&node.name).is_none_or(|own| own.mac.is_none()));
    for DraftNode { name, path, .. } in unnamed.filter(|_| spec.network.vip.is_some()) {
        let message = format!("`{name}` has no `mac`, so it cannot hold the VIP");
        let problem = Diagnostic::error(codes::VIP_WITHOUT_CARD, message).at_key(path.clone(), "");
        found.push(
            problem
                .help("give the `mac` of its network interface, or leave out `vip` and give an `endpoint`"),
        );
    }
    install_disks(spec, found);
    identities(spec, found);
    let homeless = draft.nodes.iter().filter(|node| !node.external).find(|node| {
        let choice = placement::candidates(spec, None, node);
        node.pinned.is_none() && choice.is_some_and(|hosts| hosts.is_empty())
    });
    if let Some(node) = homeless {
        let message = format!("no host may carry `{}`, because all have weight 0", node.name);
        let problem = Diagnostic::error(codes::NO_HOST, message).at_key(Path::of(&["hosts"]), "");
        found.push(problem.help("give one of the hosts a weight, or name the node's `host`"));
    }
}

/// The disks that Talos is installed to, which only external machines name.
fn install_disks(spec: &spec::Spec, found: &mut Vec<Diagnostic>) {
    for (name, node) in &spec.nodes {
        let Some(disk) = &node.install_disk else { continue };
        let message = match (node.external, disk.starts_with("/dev/")) {
            (true, true) => continue,
            (true, false) => format!("`{disk}` is not the path of a disk"),
            (false, _) => format!("`{name}` is a VM of ours and has Talos on its disk"),
        };
        let help = if node.external { "write `/dev/sda`, for example" } else { "leave out `install_disk`" };
        let path = Path::of(&["nodes", name, "install_disk"]);
        found.push(Diagnostic::error(codes::INSTALL_DISK, message).at(path, "").help(help));
    }
}

/// What external machines are known by, each by something of its own.
fn identities(spec: &spec::Spec, found: &mut Vec<Diagnostic>) {
    let mut fingerprints = BTreeMap::new();
    for (name, node) in &spec.nodes {
        found.extend(identity(name, node));
        let Some(own) = &node.identity else { continue };
        let Some(first) = fingerprints.insert(own.fingerprint.as_str(), name) else { continue };
        let at = |node: &str| Path::of(&["nodes", node, "identity", "fingerprint"]);
        let message = format!(
            "`{first}` and `{name}` have one fingerprint, and each machine has a certificate of its own"
        );
        let problem = Diagnostic::error(codes::MACHINE_IDENTITY, message).at(at(name), "").at(at(first), "");
        found.push(problem.help(format!("copy that of `{name}` from its own console")));
    }
}

/// What an external machine is known by.
fn identity(name: &str, node: &spec::Node) -> Option<Diagnostic> {
    let at = |keys: &[&str]| Path::of(&[&["nodes", name], keys].concat());
    let error = |message: String| Diagnostic::error(codes::MACHINE_IDENTITY, message);
    let key = if node.identity.is_some() { "identity" } else { "unverified" };
    match &node.identity {
        None if !node.unverified => None,
        _ if !node.external => Some(
            error(format!("`{name}` is a VM of ours, which proves itself through its console"))
                .at(at(&[key]), "")
                .help(format!("leave out `{key}`; `proxmox.identity` is about VMs")),
        ),
        Some(_) if node.unverified => Some(
            error(format!("`{name}` has `identity` and `unverified` at once"))
                .at_key(at(&["identity"]), "")
                .at_key(at(&["unverified"]), "")
                .help("keep `identity`"),
        ),
        Some(own) if own.fingerprint.parse::<Fingerprint>().is_err() => Some(
            error(format!("`{}` is not a fingerprint as Talos prints it", own.fingerprint))
                .at(at(&["identity", "fingerprint"]), "")
                .help("copy it from the last line `server certificate issued` on the machine's console: 44 characters of base64"),
        ),
        Some(_) | None => None,
    }
}

pub(super) fn known<T>(name: &str, all: &BTreeMap<String, T>, what: &str, path: Path) -> Option<Diagnostic> {
    if all.contains_key(name) {
        return None;
    }
    let problem = Diagnostic::error(codes::UNKNOWN_REFERENCE, format!("there is no {what} called `{name}`"))
        .at(path, "");
    let section = if what == "network" { "network.extra".to_owned() } else { format!("{what}s") };
    Some(match nearest(name, all.keys().map(String::as_str)) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None if all.is_empty() => problem.help(format!("add it under `{section}`")),
        None => {
            let listed: Vec<&str> = all.keys().map(String::as_str).take(12).collect();
            problem.help(format!("add it under `{section}`, or use `{}`", listed.join("`, `")))
        }
    })
}

/// A file that lists no hosts means all of them, and only Proxmox knows which those are.
fn known_host(draft: &Draft<'_>, host: &str, path: Path) -> Option<Diagnostic> {
    if draft.spec.hosts.is_empty() { None } else { known(host, &draft.spec.hosts, "host", path) }
}

fn roles(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let made: BTreeMap<&str, Option<&str>> = draft.nodes.iter().map(|n| (n.name.as_str(), n.pool)).collect();
    for (name, node) in &draft.spec.nodes {
        let path = Path::of(&["nodes", name]);
        let Some(pool_name) = made.get(name.as_str()) else {
            // A pool that does not exist was said already.
            if node.pool.is_none() {
                let problem = Diagnostic::error(codes::NO_ROLE, format!("the node `{name}` has no role"));
                found.push(
                    problem
                        .at_key(path, "")
                        .help("add `role: worker`, `role: controlplane`, or `pool: NAME`"),
                );
            }
            continue;
        };
        let Some(pool_name) = pool_name else { continue };
        let other_pool = node.pool.as_ref().filter(|said| said != pool_name);
        let pool_role = draft.spec.pools.get(*pool_name).map(|pool| pool.role);
        let other_role = node.role.filter(|role| Some(*role) != pool_role);
        if other_pool.is_some() || other_role.is_some() {
            let key = if other_pool.is_some() { "pool" } else { "role" };
            let message =
                format!("the node `{name}` belongs to the pool `{pool_name}`, which says otherwise");
            let problem = Diagnostic::error(codes::ROLE_CONFLICT, message).at(path.key(key), "");
            found.push(
                problem
                    .at(Path::of(&["pools", pool_name]), "")
                    .help(format!("leave out `{key}`, or rename the node")),
            );
        }
    }
}

fn counts(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    // Counted as the file says it, even where a range has no room for all of them.
    let of = |role: Role| {
        let pooled =
            draft.spec.pools.values().filter(|pool| pool.role == role).map(|pool| u64::from(pool.count));
        let single = draft.nodes.iter().filter(|node| node.role == role && node.ordinal.is_none()).count();
        pooled.sum::<u64>() + single as u64
    };
    let control_planes = of(Role::ControlPlane);
    // With a role or a pool in doubt, the number is in doubt too.
    let doubtful = found.iter().any(|d| d.code == codes::NO_ROLE || d.code == codes::UNKNOWN_REFERENCE);
    let whole = || Path::of(&[if draft.spec.pools.is_empty() { "nodes" } else { "pools" }]);
    if control_planes == 0 {
        if !doubtful {
            found.push(
                Diagnostic::error(codes::NO_CONTROL_PLANE, "there is no control plane")
                    .at_key(whole(), "")
                    .help("add a pool: `control: { role: controlplane, count: 3 }`"),
            );
        }
        return;
    }
    if control_planes % 2 == 0 {
        let message = format!(
            "{control_planes} control plane nodes tolerate as many failures as {}",
            control_planes - 1
        );
        let first = draft.nodes.iter().find(|node| node.role == Role::ControlPlane);
        let path = first.map_or_else(whole, |node| node.path.clone());
        let problem = Diagnostic::warning(codes::EVEN_CONTROL_PLANES, message).at_key(path, "");
        found.push(problem.help(format!("use {} or {}", control_planes - 1, control_planes + 1)));
    }
    if control_planes > 1 && draft.spec.endpoint.is_none() && draft.spec.network.vip.is_none() {
        let message =
            format!("{control_planes} control plane nodes are reached at the address of one of them");
        let problem = Diagnostic::warning(codes::SINGLE_ENDPOINT, message).at_key(Path::of(&["network"]), "");
        found.push(problem.help("add `vip`, or give the address of a load balancer as `endpoint`"));
    }
    if of(Role::Worker) == 0 && !draft.spec.kubernetes.schedule_on_control_planes && !doubtful {
        found.push(
            Diagnostic::error(codes::NO_WORKLOADS, "there is no node that may run workloads")
                .at_key(whole(), "")
                .help("add a worker pool, or set `kubernetes.schedule_on_control_planes: true`"),
        );
    }
}
