//! The file read as far as it can be, with every value beside the path that said it.
//!
//! Checks and resolving both start here, so they cannot disagree about what a file means. Reading is tolerant: what has
//! no usable form is left open, and the checks say so. Pools are spread out into nodes, and what a node does not say is
//! taken from its size, its pool, the pool's size, its role's defaults, and last from what is sensible for the role.

mod cards;
mod hardware;
mod layers;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

pub(crate) use cards::{DraftCard, DraftExtra};
pub(crate) use hardware::{DraftDisk, DraftHardware, Options};
pub(crate) use layers::Layers;

use crate::blueprint::Role;
use crate::derived;
use crate::diagnostic::Path;
use crate::forms;
use crate::spec::{self, Placement, Spec, Traits};

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
    pub(crate) external: bool,
    pub(crate) pinned: Option<Said<&'s str>>,
    /// Hosts that its pool names.
    pub(crate) hosts: &'s [String],
    pub(crate) placement: Placement,
    pub(crate) address: Option<Said<Ipv4Addr>>,
    pub(crate) vmid: Option<Said<u32>>,
    /// `None` for a text that is no MAC address, and for an external machine that names none.
    pub(crate) mac: Option<Said<String>>,
    pub(crate) card: DraftCard<'s>,
    pub(crate) extra: Vec<DraftExtra<'s>>,
    pub(crate) talos: Said<&'s str>,
    pub(crate) kubernetes: Said<&'s str>,
    pub(crate) hardware: DraftHardware<'s>,
    /// What else is said of it, the farthest first: role's defaults, pool, node.
    pub(crate) traits: Vec<(&'s Traits, Path)>,
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

impl<'s> DraftNode<'s> {
    /// What is added up from all that is said of it, the nearest winning.
    pub(crate) fn merged(
        &self,
        of: impl Fn(&'s Traits) -> &'s BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let all = self.traits.iter().flat_map(|(traits, _)| of(traits));
        all.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// The nearest that is said of it.
    pub(crate) fn nearest<V>(&self, of: impl Fn(&'s Traits) -> Option<V>) -> Option<V> {
        self.traits.iter().rev().find_map(|(traits, _)| of(traits))
    }
}

impl<'s> Draft<'s> {
    /// The record's VM id and the path that it comes from.
    pub(crate) fn record_vmid(&self) -> Option<Said<u32>> {
        if let Some(value) = self.spec.proxmox.record {
            return Some(Said { value, path: Path::of(&["proxmox", "record"]) });
        }
        self.usual_record_vmid()
    }

    /// The same, without regard to `proxmox.record`.
    pub(crate) fn usual_record_vmid(&self) -> Option<Said<u32>> {
        if self.spec.network.vip.is_some() {
            let value = derived::mirrored_vmid(self.vip?);
            return Some(Said { value, path: Path::of(&["network", "vip"]) });
        }
        let external = self.all_external();
        let ids = self
            .nodes
            .iter()
            .filter(|node| node.role == Role::ControlPlane && (!node.external || external))
            .filter_map(|node| node.vmid.as_ref());
        let lowest = ids.min_by_key(|said| said.value)?;
        Some(Said { value: lowest.value.checked_add(1_000_000)?, path: lowest.path.clone() })
    }

    pub(crate) fn new(spec: &'s Spec) -> Self {
        let mut draft = Draft {
            spec,
            network: node_network(&spec.network.cidr),
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
                let name = derived::node_name(&spec.cluster, pool_name, ordinal);
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

    /// Whether no node needs Proxmox.
    pub(crate) fn all_external(&self) -> bool {
        !self.nodes.is_empty() && self.nodes.iter().all(|node| node.external)
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
        let external = own.is_some_and(|node| node.external);
        let address = match own.and_then(|node| node.address.as_ref()) {
            Some(text) => text.parse().ok().map(|value| Said { value, path: own_path.key("address") }),
            None => inherited.address,
        };
        let mirrored = |said: &Said<Ipv4Addr>| Said {
            value: derived::mirrored_vmid(said.value),
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
        let path = match (pool, inherited.ordinal) {
            (Some((pool, _)), Some(_)) if own.is_none() => Path::of(&["pools", pool]),
            _ => own_path.clone(),
        };
        let mac = match own.and_then(|node| node.mac.as_ref()) {
            Some(text) => forms::mac(text).map(|value| Said { value, path: own_path.key("mac") }),
            None if external => None,
            None => Some(Said { value: derived::mac(&self.spec.cluster, &name), path: path.clone() }),
        };
        let layers = Layers::new(self.spec, role, pool, own.map(|node| (node, &own_path)), &path);
        let traits = self.traits(role, pool, own.map(|node| (node, &own_path)));
        let version = |key: &str, of: fn(&spec::NodeVersions) -> Option<&String>, all: &'s str| {
            let nearest = traits.iter().rev().find_map(|(traits, path)| {
                let value = of(traits.versions.as_ref()?)?.as_str();
                Some(Said { value, path: path.key("versions").key(key) })
            });
            nearest.unwrap_or_else(|| Said { value: all, path: Path::of(&["versions", key]) })
        };
        DraftNode {
            role,
            pool: pool.map(|(name, _)| name),
            ordinal: inherited.ordinal,
            external,
            pinned: own
                .and_then(|node| node.host.as_deref())
                .map(|value| Said { value, path: own_path.key("host") }),
            hosts: pool.map_or(&[], |(_, pool)| pool.hosts.as_slice()),
            placement: pool.map(|(_, pool)| pool.placement).unwrap_or_default(),
            card: DraftCard::new(&self.spec.network, &traits),
            extra: self.extra(&name, &path, pool, own, inherited.ordinal, address.as_ref()),
            talos: version("talos", |v| v.talos.as_ref(), &self.spec.versions.talos),
            kubernetes: version("kubernetes", |v| v.kubernetes.as_ref(), &self.spec.versions.kubernetes),
            hardware: DraftHardware::new(&layers, &path),
            address,
            vmid,
            mac,
            traits,
            name,
            path,
        }
    }

    fn traits(
        &self,
        role: Role,
        pool: Option<(&str, &'s spec::Pool)>,
        own: Option<(&'s spec::Node, &Path)>,
    ) -> Vec<(&'s Traits, Path)> {
        let defaults = (&self.spec.defaults.of(role).traits, Path::of(&["defaults", &role.to_string()]));
        let pool = pool.map(|(name, pool)| (&pool.traits, Path::of(&["pools", name])));
        let own = own.map(|(node, path)| (&node.traits, path.clone()));
        [Some(defaults), pool, own].into_iter().flatten().collect()
    }
}

/// The network of the nodes, if the text is one.
pub(crate) fn node_network(text: &str) -> Option<Ipv4Net> {
    let net = text.parse::<Ipv4Net>().ok()?;
    (net.trunc() == net && forms::NODE_PREFIXES.contains(&net.prefix_len())).then_some(net)
}

/// What a pool gives to one of its nodes.
#[derive(Default)]
struct Inherited {
    address: Option<Said<Ipv4Addr>>,
    vmid: Option<Said<u32>>,
    ordinal: Option<u32>,
}
