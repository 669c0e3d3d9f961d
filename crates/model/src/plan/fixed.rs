//! What of a machine config a running machine, or a cluster that runs, does not change. Each has its reason and the way around it.

use crate::observed::{ConfigChange, ConfigCost};
use crate::step::Disruption;

/// Why a change is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fixed {
    /// CNI plugin, pod and service networks, DNS domain.
    ClusterNetwork,
    /// Certificate authorities, tokens and encryption keys.
    Keys,
    /// Control plane node or worker node.
    Role,
    /// What the machine is reached by.
    Reachability,
}

/// Places of the document without a kind, and documents, of the networks of a cluster.
const CLUSTER_NETWORK: &[&str] = &["cluster.network", "KubeNetworkConfig"];
/// The same of what a cluster's secrets bundle holds. Exchanging them is a rotation in several phases.
const KEYS: &[&str] = &[
    "cluster.ca",
    "cluster.acceptedCAs",
    "cluster.aggregatorCA",
    "cluster.serviceAccount",
    "cluster.secretboxEncryptionSecret",
    "cluster.aescbcEncryptionSecret",
    "cluster.etcd.ca",
    "machine.token",
    "KubeAPIServerCAConfig",
    "KubeAggregatorCAConfig",
    "KubeServiceAccountConfig",
    "KubeEtcdEncryptionConfig",
];

/// Why this change is not made, if it is one of those.
pub(super) fn of(change: &ConfigChange) -> Option<Fixed> {
    let path = change.path.as_str();
    let is_under = |place: &&str| {
        path.strip_prefix(*place).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':', '/']))
    };
    if CLUSTER_NETWORK.iter().any(&is_under) {
        return Some(Fixed::ClusterNetwork);
    }
    if KEYS.iter().any(&is_under) {
        return Some(Fixed::Keys);
    }
    if is_under(&"machine.type") {
        return Some(Fixed::Role);
    }
    (change.costs == ConfigCost::Network && !is_of_further_link(path)).then_some(Fixed::Reachability)
}

/// Whether a place is about a link beside the first one, which the machine is not reached by.
fn is_of_further_link(path: &str) -> bool {
    let link = ["LinkConfig/net", "LinkAliasConfig/net"].iter().find_map(|kind| path.strip_prefix(kind));
    let number = link.map(|rest| rest.split(':').next().unwrap_or_default());
    number.and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number > 0)
}

impl Fixed {
    /// Whether it is one thing of the whole cluster: then nothing is changed until the file says what runs.
    pub(super) fn of_the_cluster(self) -> bool {
        matches!(self, Self::ClusterNetwork | Self::Keys)
    }

    /// What the change would take.
    pub(super) fn disruption(self) -> Disruption {
        match self {
            Self::Reachability => Disruption::ServiceRestart,
            Self::ClusterNetwork | Self::Keys | Self::Role => Disruption::Replace,
        }
    }

    /// The reason, as the end of a sentence.
    pub(super) fn why(self) -> &'static str {
        match self {
            Self::ClusterNetwork => {
                "CNI plugin, networks and DNS domain of a cluster that runs are not changed, because pods and Services keep what they \
                 were created with"
            }
            Self::Keys => {
                "keys of a cluster that runs are not exchanged at once, because its nodes would not trust each other any more"
            }
            Self::Role => "a node does not change its role, because etcd and its disk belong to it",
            Self::Reachability => {
                "the machine could become unreachable, and then nothing but a replacement helps"
            }
        }
    }

    /// What the operator can do.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::ClusterNetwork => {
                "write in the file what the machines have; or create a new cluster with the new settings and move the workloads"
            }
            Self::Keys => {
                "use the secrets bundle that fits the machines; rotate keys with `talosctl rotate-ca`, then import the bundle again"
            }
            Self::Role => {
                "write the old role in the file; or remove the node and add it again: take it out of the file, apply with \
                 `--allow-destroy NODE`, put it back with the new role, and apply again"
            }
            Self::Reachability => {
                "put the file back to what runs (a patch can say it); or try the change with `talosctl apply-config --mode try`, which \
                 takes it back by itself; or replace the node: take it out of the file, apply with `--allow-destroy NODE`, put it back, and \
                 apply again"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::ConfigDifference;

    fn judged(path: &str, costs: ConfigCost) -> Option<Fixed> {
        of(&ConfigChange { path: path.to_owned(), costs, difference: ConfigDifference::Changed })
    }

    #[test]
    fn what_a_running_cluster_keeps_is_known_by_its_place() {
        use ConfigCost::{Network, Reboot, Services};
        for (path, costs, fixed) in [
            ("cluster.network.cni.name", Services, Some(Fixed::ClusterNetwork)),
            ("cluster.network", Services, Some(Fixed::ClusterNetwork)),
            ("KubeNetworkConfig: podSubnets", Services, Some(Fixed::ClusterNetwork)),
            ("cluster.networked", Services, None),
            ("cluster.ca.key", Services, Some(Fixed::Keys)),
            ("cluster.etcd.ca", Services, Some(Fixed::Keys)),
            ("cluster.etcd.extraArgs.x", Services, None),
            ("KubeServiceAccountConfig", Services, Some(Fixed::Keys)),
            ("machine.type", Reboot, Some(Fixed::Role)),
            ("machine.kubelet.extraMounts", Services, None),
            ("LinkConfig/net0: mtu", Network, Some(Fixed::Reachability)),
            ("LinkConfig/net1: mtu", Network, None),
            ("LinkAliasConfig/net12", Network, None),
            ("LinkConfig/net", Network, Some(Fixed::Reachability)),
            ("LinkConfig/bond0", Network, Some(Fixed::Reachability)),
            ("NetworkRuleConfig/ingress", Network, Some(Fixed::Reachability)),
            ("machine.network.interfaces", Network, Some(Fixed::Reachability)),
        ] {
            assert_eq!(judged(path, costs), fixed, "{path}");
        }
    }
}
