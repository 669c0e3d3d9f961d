//! Which host carries which node.
//!
//! A host that the file names wins. Control planes go where the fewest control planes are, so no host has two before
//! every host has one. A worker's host follows from its number alone, or from its name where no pool counts it: the pool
//! walks round its hosts by weight, so adding or removing a worker moves no other. Round-robin takes the hosts in the
//! order written. Where existing VMs really are is not asked here.

use std::collections::BTreeMap;

use crate::blueprint::{Inventory, Role};
use crate::derived;
use crate::draft::{Draft, DraftNode};
use crate::spec::{Placement, Spec};

/// A host that may be chosen, and its share of the workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) host: String,
    weight: u32,
}

/// The hosts that a node may be put on, the roomiest first; `None` when only Proxmox can tell.
pub(crate) fn candidates(
    spec: &Spec,
    inventory: Option<&Inventory>,
    node: &DraftNode<'_>,
) -> Option<Vec<Candidate>> {
    let weight_of = |host: &String| spec.hosts.get(host).map_or(1, |host| host.weight);
    let mut hosts: Vec<Candidate> = if node.hosts.is_empty() {
        let by_file: Vec<&String> = spec.hosts.keys().collect();
        let all = match inventory {
            _ if !by_file.is_empty() => by_file,
            Some(inventory) => inventory.hosts.keys().collect(),
            None => return None,
        };
        all.into_iter()
            .map(|host| Candidate { host: host.clone(), weight: weight_of(host) })
            .filter(|candidate| candidate.weight > 0)
            .collect()
    } else {
        // Naming a host is asking for it, whatever its share of the rest.
        node.hosts
            .iter()
            .map(|host| Candidate { host: host.clone(), weight: weight_of(host).max(1) })
            .collect()
    };
    let memory = |host: &str| inventory.and_then(|i| i.hosts.get(host)).map_or(0, |host| host.memory_mib);
    if let Some(inventory) = inventory {
        let takes = |candidate: &Candidate| {
            inventory.hosts.get(&candidate.host).is_some_and(|host| host.online && !host.maintenance)
        };
        // Where nothing else is left, the plan says why.
        if hosts.iter().any(takes) {
            hosts.retain(takes);
        } else {
            hosts.retain(|candidate| inventory.hosts.get(&candidate.host).is_some_and(|host| host.online));
        }
    }
    hosts.sort_by(|a, b| {
        let roomiest = (b.weight, memory(&b.host)).cmp(&(a.weight, memory(&a.host)));
        roomiest.then_with(|| a.host.cmp(&b.host))
    });
    hosts.dedup();
    Some(hosts)
}

/// The host of every node by name, where it can be told.
pub(crate) fn place(draft: &Draft<'_>, inventory: Option<&Inventory>) -> BTreeMap<String, String> {
    let mut placed: BTreeMap<String, String> = BTreeMap::new();
    let mut control_planes: BTreeMap<String, u32> = BTreeMap::new();
    for node in &draft.nodes {
        if let Some(pinned) = &node.pinned {
            placed.insert(node.name.clone(), pinned.value.to_owned());
            if node.role == Role::ControlPlane {
                *control_planes.entry(pinned.value.to_owned()).or_default() += 1;
            }
        }
    }
    let worker_pools: Vec<&String> =
        draft.spec.pools.iter().filter(|(_, pool)| pool.role == Role::Worker).map(|(name, _)| name).collect();
    for node in draft.nodes.iter().filter(|node| node.pinned.is_none() && !node.external) {
        if let (Placement::RoundRobin, Some(ordinal)) = (node.placement, node.ordinal) {
            if let Some(host) = in_order(draft.spec, inventory, node, ordinal) {
                if node.role == Role::ControlPlane {
                    *control_planes.entry(host.clone()).or_default() += 1;
                }
                placed.insert(node.name.clone(), host);
            }
            continue;
        }
        let Some(hosts) = candidates(draft.spec, inventory, node) else { continue };
        let chosen = match (node.role, node.ordinal) {
            (Role::ControlPlane, _) => {
                let fewest = hosts.iter().min_by_key(|c| control_planes.get(&c.host).copied().unwrap_or(0));
                fewest.map(|candidate| {
                    *control_planes.entry(candidate.host.clone()).or_default() += 1;
                    candidate.host.clone()
                })
            }
            (Role::Worker, Some(ordinal)) => {
                // Each pool starts one host further, so that pools of one node do not all land on the same.
                let pool = worker_pools.iter().position(|name| Some(name.as_str()) == node.pool).unwrap_or(0);
                turn(&hosts, pool + ordinal as usize - 1)
            }
            (Role::Worker, None) => turn(&hosts, derived::number_of(&node.name)),
        };
        if let Some(host) = chosen {
            placed.insert(node.name.clone(), host);
        }
    }
    placed
}

/// Host by number: those that the pool names in their order, else all by name.
fn in_order(
    spec: &Spec,
    inventory: Option<&Inventory>,
    node: &DraftNode<'_>,
    ordinal: u32,
) -> Option<String> {
    let hosts: Vec<&String> = match inventory {
        _ if !node.hosts.is_empty() => node.hosts.iter().collect(),
        _ if !spec.hosts.is_empty() => spec.hosts.keys().collect(),
        Some(inventory) => inventory.hosts.keys().collect(),
        None => return None,
    };
    let turn = (ordinal as usize - 1).checked_rem(hosts.len())?;
    hosts.get(turn).map(|host| (*host).clone())
}

/// Whose turn it is after so many turns, each host having as many turns in a round as its weight, spread evenly.
fn turn(hosts: &[Candidate], turns: usize) -> Option<String> {
    let total: u64 = hosts.iter().map(|c| u64::from(c.weight)).sum();
    if total == 0 {
        return None;
    }
    let in_round = turns as u64 % total;
    let mut credit: Vec<i128> = vec![0; hosts.len()];
    let mut winner = 0;
    for _ in 0..=in_round {
        for (credit, host) in credit.iter_mut().zip(hosts) {
            *credit += i128::from(host.weight);
        }
        winner = credit
            .iter()
            .enumerate()
            .max_by_key(|(index, credit)| (**credit, usize::MAX - index))
            .map_or(0, |(i, _)| i);
        if let Some(credit) = credit.get_mut(winner) {
            *credit -= i128::from(total);
        }
    }
    hosts.get(winner).map(|candidate| candidate.host.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(weights: &[(&str, u32)]) -> Vec<Candidate> {
        weights.iter().map(|(host, weight)| Candidate { host: (*host).to_owned(), weight: *weight }).collect()
    }

    fn walk(hosts: &[Candidate], turns: usize) -> String {
        (0..turns).map(|n| turn(hosts, n).unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn like_hosts_take_turns() {
        assert_eq!(walk(&hosts(&[("a", 1), ("b", 1), ("c", 1)]), 7), "a b c a b c a");
    }

    #[test]
    fn weights_share_the_turns_evenly() {
        assert_eq!(walk(&hosts(&[("a", 3), ("b", 1)]), 8), "a a b a a a b a");
        assert_eq!(turn(&[], 3), None);
    }
}
