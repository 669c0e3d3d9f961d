//! Addresses, VM ids and MAC addresses of the nodes: their form, their room, and that nothing is given twice.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::network;
use super::proxmox::bad_vmid;
use crate::blueprint::Role;
use crate::diagnostic::{Diagnostic, Path, codes, nearest};
use crate::draft::{Draft, MAX_COUNT, PoolRange, Said};
use crate::forms;

pub(super) fn check(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    pool_ranges(draft, found);
    default_ranges(draft, found);
    forms_of_nodes(draft, found);
    places(draft, found);
    twice(draft, found);
}

fn pool_ranges(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let mut closed: Vec<(&str, PoolRange)> = Vec::new();
    for (name, pool) in &draft.spec.pools {
        let path = |key: &str| Path::of(&["pools", name, key]);
        if let Some(text) = pool.addresses.as_ref().filter(|text| forms::address_range(text).is_none()) {
            let problem =
                Diagnostic::error(codes::BAD_RANGE, format!("`{text}` is not a range of addresses"));
            let help = "write the first address, or the first and the last as `10.25.150.31-10.25.150.39`";
            found.push(problem.at(path("addresses"), "").help(help));
        }
        if let Some(text) = pool.vmids.as_ref().filter(|text| forms::vmid_range(&text.0).is_none()) {
            let problem =
                Diagnostic::error(codes::BAD_RANGE, format!("`{}` is not a range of VM ids", text.0));
            let help = "write the first id, or the first and the last as `2000-2099`, from 100 to 999999999";
            found.push(problem.at(path("vmids"), "").help(help));
        }
        if let Some(ids) = pool.vmids.as_ref().and_then(|text| forms::vmid_range(&text.0)) {
            let room = u64::from(ids.last.unwrap_or(999_999_999)) - u64::from(ids.first) + 1;
            room_for(room, pool.count, name, "VM ids", path("vmids"), found);
        }
        let Some(range) = draft.address_range(name, pool) else { continue };
        let inside = draft.network.is_some_and(|net| net.contains(&Ipv4Addr::from(range.first)));
        if inside && range.room() > 0 {
            room_for(range.room().into(), pool.count, name, "addresses", range.path.clone(), found);
        } else if pool.addresses.is_none() && pool.count > 0 {
            let first = Ipv4Addr::from(range.first);
            let message = format!(
                "the pool `{name}` would start at {first}, which is not in {}",
                draft.spec.network.cidr
            );
            let problem =
                Diagnostic::error(codes::OUTSIDE_NETWORK, message).at_key(Path::of(&["pools", name]), "");
            found.push(problem.help("give the pool `addresses` of its own"));
        }
        if range.closed {
            for (other, other_range) in &closed {
                if range.first <= other_range.last && other_range.first <= range.last {
                    let message = format!("the addresses of the pools `{other}` and `{name}` overlap");
                    let problem =
                        Diagnostic::error(codes::RANGES_OVERLAP, message).at(range.path.clone(), "");
                    found.push(problem.at(other_range.path.clone(), "").help("keep the ranges apart"));
                }
            }
            closed.push((name, range));
        }
    }
}

fn room_for(room: u64, count: u32, pool: &str, what: &str, path: Path, found: &mut Vec<Diagnostic>) {
    if u64::from(count) > room && count <= MAX_COUNT {
        let message = format!("the pool `{pool}` has {count} nodes, but room for {room} {what}");
        let problem = Diagnostic::error(codes::RANGE_FULL, message).at(path, "");
        let key = if what == "addresses" { "addresses" } else { "vmids" };
        found.push(
            problem
                .at(Path::of(&["pools", pool, "count"]), "")
                .help(format!("widen `{key}`, or lower `count`")),
        );
    }
}

/// One pool of each role may leave its addresses out. Were it two, adding one could move the other.
fn default_ranges(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    for role in [Role::ControlPlane, Role::Worker] {
        let open: Vec<&str> = draft
            .spec
            .pools
            .iter()
            .filter(|(_, pool)| pool.role == role && pool.addresses.is_none())
            .map(|(name, _)| name.as_str())
            .collect();
        if open.len() > 1 {
            let message = format!("the {role} pools `{}` name no addresses", open.join("`, `"));
            let problem = Diagnostic::error(codes::RANGE_MISSING, message);
            let problem = open.iter().fold(problem, |p, name| p.at_key(Path::of(&["pools", name]), ""));
            found.push(problem.help("give `addresses` to all but one of them"));
        }
    }
}

fn forms_of_nodes(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    for (name, node) in &draft.spec.nodes {
        let path = |key: &str| Path::of(&["nodes", name, key]);
        if let Some(text) = &node.address {
            network::address(text, path("address"), found);
        }
        if let Some(id) = node.vmid.filter(|id| !forms::is_vmid(*id)) {
            found.push(bad_vmid(id, path("vmid")));
        }
        if let Some(text) = node.mac.as_ref().filter(|text| forms::mac(text).is_none()) {
            found.push(bad_mac(text, path("mac")));
        }
    }
    for node in draft.nodes.iter().filter(|node| node.ordinal.is_none()) {
        if draft.spec.nodes.get(&node.name).is_some_and(|own| own.address.is_none()) {
            let message = format!("the node `{}` belongs to no pool and has no address", node.name);
            let problem = Diagnostic::error(codes::ADDRESS_MISSING, message).at_key(node.path.clone(), "");
            // A node of a pool that is misspelled here.
            let of_pools = draft.nodes.iter().filter(|other| other.ordinal.is_some());
            let meant = nearest(&node.name, of_pools.map(|other| other.name.as_str()));
            found.push(problem.help(match meant {
                Some(meant) => {
                    format!("did you mean `{meant}`? A node that belongs to no pool needs its `address`")
                }
                None => "set its `address`".to_owned(),
            }));
        }
    }
}

/// Nodes lie in the network, and not where something else is.
fn places(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let Some(net) = draft.network else { return };
    let spoken_for = [(draft.gateway, "gateway"), (draft.vip, "vip")];
    for node in &draft.nodes {
        let Some(Said { value, path }) = &node.address else { continue };
        let whose = format!("the address of `{}`", node.name);
        let problem = network::place_in(*value, net, path, &whose);
        found.extend(problem.filter(|_| path != &node.path));
        for (_, key) in spoken_for.iter().filter(|(taken, _)| taken == &Some(*value)) {
            let message = format!("{whose} is {value}, which is `network.{key}`");
            found.push(
                Diagnostic::error(codes::ADDRESS_TAKEN, message)
                    .at(path.clone(), "")
                    .at(Path::of(&["network", key]), "")
                    .help("use another address for one of the two"),
            );
        }
    }
}

fn twice(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    // Pools whose ranges were refused above collide in every node; that is one mistake and was said.
    let said: Vec<Vec<Path>> = found
        .iter()
        .filter(|d| d.code == codes::RANGES_OVERLAP || d.code == codes::RANGE_MISSING)
        .map(|d| d.labels.iter().map(|label| label.path.clone()).collect())
        .collect();
    let known = |a: &Path, b: &Path| said.iter().any(|paths| paths.contains(a) && paths.contains(b));
    let mut addresses = BTreeMap::new();
    let mut ids: BTreeMap<u32, (String, &Path)> = BTreeMap::new();
    let mut cards = BTreeMap::new();
    let record = draft.record_vmid();
    if let Some(record) = &record {
        ids.insert(record.value, ("the cluster record VM".to_owned(), &record.path));
    }
    for node in &draft.nodes {
        let name = || format!("`{}`", node.name);
        if let Some(Said { value, path }) = &node.address
            && let Some((other, first)) = addresses.insert(*value, (name(), path))
        {
            if !known(path, first) {
                let message = format!("{other} and {} both have the address {value}", name());
                found.push(pair(
                    codes::ADDRESS_TWICE,
                    message,
                    path,
                    first,
                    "give one of them another address",
                ));
            }
            // One cause, one diagnostic: the ids of these two mirror their addresses.
            if node.vmid.as_ref().is_some_and(|vmid| vmid.path == *path) {
                continue;
            }
        }
        let at_the_vip = draft.vip.is_some() && node.address.as_ref().map(|said| said.value) == draft.vip;
        if let Some(Said { value, path }) = node.vmid.as_ref().filter(|_| !at_the_vip && !node.external)
            && let Some((other, first)) = ids.insert(*value, (name(), path))
        {
            let message = format!("{other} and {} both have the VM id {value}", name());
            found.push(pair(codes::VMID_TWICE, message, path, first, "give one of them another VM id"));
        }
        let extra = node.extra.iter().filter_map(|card| card.mac.as_ref());
        for Said { value, path } in node.mac.iter().chain(extra) {
            let Some((other, first)) = cards.insert(value.clone(), (name(), path)) else { continue };
            let message = format!("{other} and {} both have the MAC address {value}", name());
            found.push(pair(
                codes::MAC_TWICE,
                message,
                path,
                first,
                "give one of them another `mac` under `nodes`",
            ));
        }
    }
}

pub(super) fn bad_mac(text: &str, path: Path) -> Diagnostic {
    Diagnostic::error(codes::BAD_MAC, format!("`{text}` cannot be a MAC address"))
        .at(path, "")
        .help("write it as `BC:24:11:00:00:01`, the first pair even")
}

fn pair(code: &'static str, message: String, second: &Path, first: &Path, help: &str) -> Diagnostic {
    Diagnostic::error(code, message).at(second.clone(), "").at(first.clone(), "").help(help)
}
