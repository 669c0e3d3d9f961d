//! The file read as far as it can be, with every value beside the path that said it.
//!
//! Checks and resolving both start here, so they cannot disagree about what a file means. Reading is tolerant: what has
//! no usable form is left open, and the checks say so. Pools are spread out into nodes, and what a node does not say is
//! taken from its size, its pool, the pool's size, its role's defaults, and last from what is sensible for the role.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::identity;
use crate::blueprint::Role;
use crate::check::forms;
use crate::diagnostic::Path;
use crate::spec::{self, Hardware, Spec, Written};

/// No pool is spread out further than this; more is a slip, and a check says so.
pub(crate) const MAX_COUNT: u32 = 10_000;

/// A value and the path that said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said<T> {
    pub(crate) value: T,
    pub(crate) path: Path,
}

/// The file, as far as it can be understood.
#[derive(Debug)]
pub(crate) struct Draft<'s> {
    pub(crate) spec: &'s Spec,
    pub(crate) network: Option<Ipv4Net>,
    pub(crate) gateway: Option<Ipv4Addr>,
    pub(crate) vip: Option<Ipv4Addr>,
    pub(crate) nodes: Vec<DraftNode<'s>>,
}

/// One node, as far as it can be understood.
#[derive(Debug)]
pub(crate) struct DraftNode<'s> {
    pub(crate) name: String,
    /// What made it: the pool, or its own entry in `nodes`.
    pub(crate) path: Path,
    pub(crate) role: Role,
    pub(crate) pool: Option<&'s str>,
    /// Its number in the pool; `None` when it has an entry of its own and no pool counts it.
    pub(crate) ordinal: Option<u32>,
    pub(crate) pinned: Option<Said<&'s str>>,
    /// Hosts that its pool names.
    pub(crate) hosts: &'s [String],
    pub(crate) address: Option<Said<Ipv4Addr>>,
    pub(crate) vmid: Option<Said<u32>>,
    pub(crate) mac: Option<Said<String>>,
    pub(crate) cores: Said<u32>,
    pub(crate) memory_mib: Option<Said<u64>>,
    pub(crate) disk_gib: Option<Said<u64>>,
    pub(crate) labels: BTreeMap<String, String>,
}

/// Where a pool's nodes get their addresses, as numbers.
#[derive(Debug, Clone)]
pub(crate) struct PoolRange {
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// Whether the file says where it ends.
    pub(crate) closed: bool,
    pub(crate) path: Path,
}

impl PoolRange {
    /// How many nodes fit in it.
    pub(crate) fn room(&self) -> u32 {
        self.last.checked_sub(self.first).map_or(0, |more| more.saturating_add(1))
    }
}

impl<'s> Draft<'s> {
    pub(crate) fn new(spec: &'s Spec) -> Self {
        let network = spec
            .network
            .cidr
            .parse::<Ipv4Net>()
            .ok()
            .filter(|net| net.trunc() == *net && forms::NODE_PREFIXES.contains(&net.prefix_len()));
        let mut draft = Draft {
            spec,
            network,
            gateway: spec.network.gateway.parse().ok(),
            vip: spec.network.vip.as_ref().and_then(|vip| vip.parse().ok()),
            nodes: Vec::new(),
        };
        let mut refined = BTreeSet::new();
        for (pool_name, pool) in &spec.pools {
            let range = draft.address_range(pool_name, pool);
            let vmids = pool.vmids.as_ref().and_then(|text| forms::vmid_range(&text.0));
            let room = range.as_ref().map_or(MAX_COUNT, PoolRange::room);
            for ordinal in 1..=pool.count.min(MAX_COUNT).min(room) {
                let name = identity::node_name(&spec.cluster, pool_name, ordinal);
                let own = spec.nodes.get_key_value(&name).map(|(key, node)| {
                    refined.insert(key.as_str());
                    node
                });
                let inherited = Inherited {
                    address: range.as_ref().and_then(|range| {
                        let number = range.first.checked_add(ordinal - 1)?;
                        Some(Said { value: number.into(), path: range.path.clone() })
                    }),
                    vmid: vmids.and_then(|range| {
                        let id = range.first.checked_add(ordinal - 1)?;
                        let fits = range.last.is_none_or(|last| id <= last) && forms::is_vmid(id);
                        fits.then(|| Said { value: id, path: Path::of(&["pools", pool_name, "vmids"]) })
                    }),
                    ordinal: Some(ordinal),
                };
                let node = draft.node(name, pool.role, Some((pool_name, pool)), own, inherited);
                draft.nodes.push(node);
            }
        }
        for (name, node) in spec.nodes.iter().filter(|(name, _)| !refined.contains(name.as_str())) {
            let pool = node.pool.as_ref().and_then(|name| spec.pools.get_key_value(name));
            let Some(role) = pool.map(|(_, pool)| pool.role).or(node.role) else { continue };
            let pool = pool.map(|(name, pool)| (name.as_str(), pool));
            let made = draft.node(name.clone(), role, pool, Some(node), Inherited::default());
            draft.nodes.push(made);
        }
        draft
    }

    /// The addresses of a pool; `None` when they cannot be told.
    pub(crate) fn address_range(&self, name: &str, pool: &spec::Pool) -> Option<PoolRange> {
        let network = self.network?;
        let last_usable = u32::from(network.broadcast()).saturating_sub(1);
        if let Some(text) = &pool.addresses {
            let range = forms::address_range(text)?;
            return Some(PoolRange {
                first: range.first,
                last: range.last.unwrap_or(last_usable.max(range.first)),
                closed: range.last.is_some(),
                path: Path::of(&["pools", name, "addresses"]),
            });
        }
        let base = u32::from(network.network());
        let (first, last) = match pool.role {
            Role::ControlPlane => (base.checked_add(11)?, base.checked_add(20)?.min(last_usable)),
            Role::Worker => (base.checked_add(21)?, last_usable),
        };
        Some(PoolRange { first, last, closed: false, path: Path::of(&["pools", name]) })
    }

    fn node(
        &self,
        name: String,
        role: Role,
        pool: Option<(&'s str, &'s spec::Pool)>,
        own: Option<&'s spec::Node>,
        inherited: Inherited,
    ) -> DraftNode<'s> {
        let own_path = Path::of(&["nodes", &name]);
        let pool_path = pool.map(|(pool, _)| Path::of(&["pools", pool]));
        let address = match own.and_then(|node| node.address.as_ref()) {
            Some(text) => text.parse().ok().map(|value| Said { value, path: own_path.key("address") }),
            None => inherited.address,
        };
        let mirrored = |said: &Said<Ipv4Addr>| Said {
            value: identity::mirrored_vmid(said.value),
            path: said.path.clone(),
        };
        let vmid = match own.and_then(|node| node.vmid) {
            Some(value) => Some(Said { value, path: own_path.key("vmid") }),
            None => inherited.vmid.or_else(|| {
                // A pool that names ids is never given others behind its back.
                let derived =
                    pool.is_none_or(|(_, pool)| pool.vmids.is_none()) || inherited.ordinal.is_none();
                address.as_ref().filter(|_| derived).map(mirrored)
            }),
        };
        let path = match (&pool_path, inherited.ordinal) {
            (Some(pool), Some(_)) if own.is_none() => pool.clone(),
            _ => own_path.clone(),
        };
        let mac = match own.and_then(|node| node.mac.as_ref()) {
            Some(text) => forms::mac(text).map(|value| Said { value, path: own_path.key("mac") }),
            None => Some(Said { value: identity::mac(&self.spec.cluster, &name), path: path.clone() }),
        };
        let layers = self.layers(role, pool, own, &own_path, &path);
        let mut labels = pool.map(|(_, pool)| pool.labels.clone()).unwrap_or_default();
        labels.extend(own.map(|node| node.labels.clone()).unwrap_or_default());
        DraftNode {
            role,
            pool: pool.map(|(name, _)| name),
            ordinal: inherited.ordinal,
            pinned: own
                .and_then(|node| node.host.as_deref())
                .map(|value| Said { value, path: own_path.key("host") }),
            hosts: pool.map_or(&[], |(_, pool)| pool.hosts.as_slice()),
            address,
            vmid,
            mac,
            cores: first(&layers, "cpu", |h| h.cpu).unwrap_or(Said { value: 0, path: path.clone() }),
            memory_mib: first(&layers, "memory", |h| h.memory.clone())
                .and_then(|said| read(said, forms::memory_mib)),
            disk_gib: first(&layers, "disk", |h| h.disk.clone()).and_then(|said| read(said, forms::disk_gib)),
            labels,
            name,
            path,
        }
    }

    /// Everything that may say something about a node's hardware, the nearest first.
    fn layers(
        &self,
        role: Role,
        pool: Option<(&str, &spec::Pool)>,
        own: Option<&spec::Node>,
        own_path: &Path,
        path: &Path,
    ) -> Vec<(Hardware, Path)> {
        let mut layers = Vec::with_capacity(6);
        let size = |name: &Option<String>| {
            let name = name.as_ref()?;
            Some((self.spec.sizes.get(name)?.clone(), Path::of(&["sizes", name])))
        };
        if let Some(node) = own {
            let hardware = Hardware { cpu: node.cpu, memory: node.memory.clone(), disk: node.disk.clone() };
            layers.push((hardware, own_path.clone()));
            layers.extend(size(&node.size));
        }
        if let Some((name, pool)) = pool {
            let hardware = Hardware { cpu: pool.cpu, memory: pool.memory.clone(), disk: pool.disk.clone() };
            layers.push((hardware, Path::of(&["pools", name])));
            layers.extend(size(&pool.size));
        }
        let (defaults, key) = match role {
            Role::ControlPlane => (&self.spec.defaults.controlplane, "controlplane"),
            Role::Worker => (&self.spec.defaults.worker, "worker"),
        };
        layers.push((defaults.clone(), Path::of(&["defaults", key])));
        layers.push((sensible(role), path.clone()));
        layers
    }
}

/// What a pool gives to one of its nodes.
#[derive(Default)]
struct Inherited {
    address: Option<Said<Ipv4Addr>>,
    vmid: Option<Said<u32>>,
    ordinal: Option<u32>,
}

/// Hardware when nobody says anything: enough for a small cluster to be comfortable.
fn sensible(role: Role) -> Hardware {
    let (cpu, memory, disk) = match role {
        Role::ControlPlane => (2, "4G", "20G"),
        Role::Worker => (4, "8G", "40G"),
    };
    let written = |text: &str| Some(Written(text.to_owned()));
    Hardware { cpu: Some(cpu), memory: written(memory), disk: written(disk) }
}

fn first<T>(layers: &[(Hardware, Path)], key: &str, get: impl Fn(&Hardware) -> Option<T>) -> Option<Said<T>> {
    layers.iter().find_map(|(hardware, path)| Some(Said { value: get(hardware)?, path: path.key(key) }))
}

fn read(said: Said<Written>, form: impl Fn(&str) -> Option<u64>) -> Option<Said<u64>> {
    Some(Said { value: form(&said.value.0)?, path: said.path })
}
