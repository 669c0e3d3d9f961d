//! A node's network cards: what differs on the first, and those in extra networks.

use std::net::Ipv4Addr;

use super::{Draft, Said, node_network};
use crate::derived;
use crate::diagnostic::Path;
use crate::forms;
use crate::spec::{self, NicModel, NicOverride, Traits};

/// The first card.
#[derive(Debug)]
pub(crate) struct DraftCard<'s> {
    pub(crate) bridge: &'s str,
    pub(crate) vlan: Option<u32>,
    pub(crate) mtu: Option<u32>,
    pub(crate) model: NicModel,
    pub(crate) dns: &'s [String],
}

/// A card in an extra network.
#[derive(Debug)]
pub(crate) struct DraftExtra<'s> {
    pub(crate) network: &'s str,
    pub(crate) about: &'s spec::ExtraNetwork,
    /// `None` with DHCP, and where it cannot be told.
    pub(crate) address: Option<Said<Ipv4Addr>>,
    pub(crate) mac: Option<Said<String>>,
}

impl<'s> DraftCard<'s> {
    pub(super) fn new(network: &'s spec::Network, traits: &[(&'s Traits, Path)]) -> Self {
        fn nearest<'s, T>(
            traits: &[(&'s Traits, Path)],
            of: impl Fn(&'s NicOverride) -> Option<T>,
        ) -> Option<T> {
            traits.iter().rev().find_map(|(traits, _)| of(traits.network.as_ref()?))
        }
        let dns = nearest(traits, |card| Some(card.dns.as_slice()).filter(|dns| !dns.is_empty()));
        Self {
            bridge: nearest(traits, |card| card.bridge.as_deref()).unwrap_or(&network.bridge),
            vlan: nearest(traits, |card| card.vlan).or(network.vlan),
            mtu: nearest(traits, |card| card.mtu).or(network.mtu),
            model: nearest(traits, |card| card.model).unwrap_or(network.model),
            dns: dns.unwrap_or(&network.dns),
        }
    }
}

impl<'s> Draft<'s> {
    pub(super) fn extra(
        &self,
        name: &str,
        path: &Path,
        pool: Option<(&'s str, &'s spec::Pool)>,
        own: Option<&'s spec::Node>,
        ordinal: Option<u32>,
        first: Option<&Said<Ipv4Addr>>,
    ) -> Vec<DraftExtra<'s>> {
        let mut cards = Vec::new();
        for (network, about) in &self.spec.network.extra {
            let nic = own.and_then(|node| node.networks.get(network));
            let pooled = pool.is_some_and(|(pool, _)| about.pools.iter().any(|one| one == pool));
            if nic.is_none() && !about.pools.is_empty() && !pooled {
                continue;
            }
            let nic_path = || Path::of(&["nodes", name, "networks", network]);
            let by_node = nic.and_then(|nic| nic.address.as_ref());
            let by_pool = pool.and_then(|(pool, about)| {
                let range = about.networks.get(network)?.addresses.as_ref()?;
                Some((range, Path::of(&["pools", pool, "networks", network, "addresses"])))
            });
            let address = match (by_node, by_pool, ordinal) {
                (Some(text), _, _) => {
                    text.parse().ok().map(|value| Said { value, path: nic_path().key("address") })
                }
                (None, Some((text, path)), Some(ordinal)) => forms::address_range(text).and_then(|range| {
                    let number = range.first.checked_add(ordinal - 1)?;
                    let fits = range.last.is_none_or(|last| number <= last);
                    fits.then(|| Said { value: number.into(), path })
                }),
                _ => self.same_number(about, first, path),
            };
            let mac = match nic.and_then(|nic| nic.mac.as_ref()) {
                Some(text) => forms::mac(text).map(|value| Said { value, path: nic_path().key("mac") }),
                None => {
                    let value = derived::extra_mac(&self.spec.cluster, name, network);
                    Some(Said { value, path: path.clone() })
                }
            };
            let address = address.filter(|_| !about.dhcp);
            cards.push(DraftExtra { network, about, address, mac });
        }
        cards
    }

    /// The address with the same number in the extra network as in the first.
    fn same_number(
        &self,
        about: &spec::ExtraNetwork,
        first: Option<&Said<Ipv4Addr>>,
        path: &Path,
    ) -> Option<Said<Ipv4Addr>> {
        let net = node_network(about.cidr.as_ref()?)?;
        let number = u32::from(first?.value).checked_sub(u32::from(self.network?.network()))?;
        let value = Ipv4Addr::from(u32::from(net.network()).checked_add(number)?);
        Some(Said { value, path: path.clone() })
    }
}
