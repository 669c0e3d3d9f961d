//! Flags, feature gates and admission plugins that releases of Kubernetes removed. A part of Kubernetes that has one of them does not
//! start, so an upgrade looks for them before its first change.
//!
//! From the changelogs of Kubernetes. What is not listed here is not found before: then the first control plane node that does not come
//! back ends the upgrade.

use std::collections::{BTreeMap, BTreeSet};

use crate::upgrade::Component;

/// Flags: the part, the flag, and the minor release that does not know it any more.
const FLAGS: &[(Component, &str, u64)] = &[
    (Component::Kubelet, "keep-terminated-pod-volumes", 31),
    (Component::Kubelet, "iptables-masquerade-bit", 31),
    (Component::Kubelet, "iptables-drop-bit", 31),
    (Component::ControllerManager, "volume-host-cidr-denylist", 31),
    (Component::ControllerManager, "volume-host-allow-local-loopback", 31),
    (Component::ControllerManager, "horizontal-pod-autoscaler-upscale-delay", 31),
    (Component::ControllerManager, "horizontal-pod-autoscaler-downscale-delay", 31),
    (Component::ApiServer, "cloud-config", 33),
    (Component::Kubelet, "cloud-config", 34),
    (Component::Kubelet, "pod-infra-container-image", 35),
    (Component::Kubelet, "application-metrics-count-limit", 37),
    (Component::Kubelet, "boot-id-file", 37),
    (Component::Kubelet, "container-hints", 37),
    (Component::Kubelet, "containerd", 37),
    (Component::Kubelet, "containerd-namespace", 37),
    (Component::Kubelet, "enable-load-reader", 37),
    (Component::Kubelet, "event-storage-age-limit", 37),
    (Component::Kubelet, "event-storage-event-limit", 37),
    (Component::Kubelet, "global-housekeeping-interval", 37),
    (Component::Kubelet, "log-cadvisor-usage", 37),
    (Component::Kubelet, "machine-id-file", 37),
    (Component::Kubelet, "storage-driver-buffer-duration", 37),
    (Component::Kubelet, "storage-driver-db", 37),
    (Component::Kubelet, "storage-driver-host", 37),
    (Component::Kubelet, "storage-driver-password", 37),
    (Component::Kubelet, "storage-driver-secure", 37),
    (Component::Kubelet, "storage-driver-table", 37),
    (Component::Kubelet, "storage-driver-user", 37),
];

/// Feature gates of all parts, with the minor release that does not know them any more.
const GATES: &[(u64, &[&str])] = &[
    (
        30,
        &[
            "ExpandedDNSConfig",
            "ExperimentalHostUserNamespaceDefaultingGate",
            "IPTablesOwnershipCleanup",
            "KubeletPodResources",
            "KubeletPodResourcesGetAllocatable",
            "MinimizeIPTablesRestore",
            "ProxyTerminatingEndpoints",
            "RemoveSelfLink",
        ],
    ),
    (
        31,
        &[
            "APIPriorityAndFairness",
            "CSINodeExpandSecret",
            "ConsistentHTTPGetHandlers",
            "DefaultHostNetworkHostPortsInPodTemplates",
            "ServiceNodePortStaticSubrange",
            "SkipReadOnlyValidationGCE",
        ],
    ),
    (
        32,
        &[
            "AllowServiceLBStatusOnNonLB",
            "CloudDualStackNodeIPs",
            "DRAControlPlaneController",
            "HPAContainerMetrics",
            "KMSv2",
            "KMSv2KDF",
            "LegacyServiceAccountTokenCleanUp",
            "MinDomainsInPodTopologySpread",
            "NewVolumeManagerReconstruction",
            "NodeOutOfServiceVolumeDetach",
            "ServerSideApply",
            "ServerSideFieldValidation",
            "StableLoadBalancerNodeSet",
            "ValidatingAdmissionPolicy",
            "ZeroLimitedNominalConcurrencyShares",
        ],
    ),
    (
        33,
        &[
            "AppArmor",
            "AppArmorFields",
            "CPUManager",
            "DisableCloudProviders",
            "DisableKubeletCloudCredentialProviders",
            "JobPodFailurePolicy",
            "KubeProxyDrainingTerminatingNodes",
            "PDBUnhealthyPodEvictionPolicy",
            "PersistentVolumeLastPhaseTransitionTime",
            "VolumeCapacityPriority",
        ],
    ),
    (34, &["DevicePluginCDIDevices", "LegacySidecarContainers", "PodDisruptionConditions"]),
    (
        35,
        &[
            "SizeMemoryBackedVolumes",
            "UserNamespacesHostNetworkSupport",
            "UserNamespacesPodSecurityStandards",
        ],
    ),
    (
        36,
        &["CSIMigrationPortworx", "InTreePluginPortworxUnregister", "WatchFromStorageWithoutResourceVersion"],
    ),
];

/// Admission plugins of the API server, with the minor release that does not know them any more.
const PLUGINS: &[(&str, u64)] = &[("SecurityContextDeny", 30)];

/// What a machine config gives to one part of Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments {
    /// Flags, with their values.
    pub flags: BTreeMap<String, String>,
    /// Feature gates of its configuration file.
    pub gates: BTreeSet<String>,
}

impl Arguments {
    /// What of it the part would not start with on the way from a minor release to another one.
    #[must_use]
    pub fn removed(&self, component: Component, from: u64, to: u64) -> Vec<String> {
        let crossed = |minor: u64| from < minor && minor <= to;
        let flags = FLAGS.iter().filter(|(of, flag, minor)| {
            *of == component && crossed(*minor) && self.flags.contains_key(*flag)
        });
        let mut found: Vec<String> = flags
            .map(|(_, flag, minor)| format!("the flag --{flag} of {component}, which 1.{minor} removed"))
            .collect();
        let listed = |flag: &str| self.flags.get(flag).map(String::as_str).unwrap_or_default().split(',');
        let of_flag = listed("feature-gates").map(|gate| gate.split('=').next().unwrap_or(gate).trim());
        let gates: BTreeSet<&str> = of_flag.chain(self.gates.iter().map(String::as_str)).collect();
        for (minor, removed) in GATES.iter().filter(|(minor, _)| crossed(*minor)) {
            let has = removed.iter().filter(|gate| gates.contains(**gate));
            found.extend(
                has.map(|gate| format!("the feature gate {gate} of {component}, which 1.{minor} removed")),
            );
        }
        let plugins = PLUGINS.iter().filter(|(plugin, minor)| {
            component == Component::ApiServer
                && crossed(*minor)
                && listed("enable-admission-plugins").any(|enabled| enabled.trim() == *plugin)
        });
        found.extend(
            plugins.map(|(plugin, minor)| format!("the admission plugin {plugin}, which 1.{minor} removed")),
        );
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(of: &[(&str, &str)]) -> Arguments {
        let flags = of.iter().map(|(flag, value)| ((*flag).to_owned(), (*value).to_owned())).collect();
        Arguments { flags, gates: BTreeSet::new() }
    }

    #[test]
    fn only_what_is_removed_on_the_way_counts() {
        let server = flags(&[("cloud-config", "/x"), ("v", "2")]);
        assert_eq!(server.removed(Component::ApiServer, 32, 33).len(), 1);
        assert_eq!(server.removed(Component::ApiServer, 33, 37), [""; 0], "it does not start now either");
        assert_eq!(server.removed(Component::Scheduler, 32, 37), [""; 0], "another part");
    }

    #[test]
    fn feature_gates_count_in_flags_and_in_the_configuration() {
        let gate = "UserNamespacesPodSecurityStandards";
        let server = flags(&[("feature-gates", &format!("Other=true, {gate}=true"))]);
        assert_eq!(server.removed(Component::ApiServer, 34, 35).len(), 1);
        let kubelet = Arguments { gates: [gate.to_owned()].into(), ..Arguments::default() };
        assert_eq!(
            kubelet.removed(Component::Kubelet, 33, 37),
            [format!("the feature gate {gate} of kubelet, which 1.35 removed")]
        );
    }
}
