//! The difference of two configurations, with what each change costs a running machine.
//!
//! Up to 1.13 a machine compares the document without a kind and reboots by itself unless all changes are in places that it
//! can follow; other documents it always follows. From 1.14 on it never reboots by itself, and some changes wait for the
//! next boot. A document of a kind that is not known here counts as one that needs a reboot, because what is not known must not
//! pass as harmless. A change carries values only where they are known to be no secrets, because they are keys and tokens as often as not.

use super::Documents;
use super::shown::{Difference, shown};
use crate::contract::Contract;
use crate::schema::{self, check::text_of};
use crate::yaml::{Map, Value};

/// What a change of its configuration costs a running machine, from the least to the most.
///
/// `model::observed::ConfigCost` is the same enum: plans are made without this crate, which brings certificates and wire types, and
/// this crate does not know what a plan is. The engine translates one into the other, case by case (`engine::observe::machines`).
/// What such a change means for people is `model::step::Disruption`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigCost {
    /// Nothing: it is followed at once.
    Nothing,
    /// Stored, and used by the next installation or upgrade: what runs stays as it is.
    Install,
    /// Followed at once, and it may cut the machine off: a link, an address, a route, a rule of the firewall.
    Network,
    /// A service of the node restarts: the kubelet, etcd, containerd, or a part of the control plane.
    Services,
    /// It needs a reboot.
    Reboot,
    /// A volume with data is taken from what uses it.
    Volume,
}

/// One place in which two configurations differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where: the keys joined by dots, in a document with a kind after `Kind/name: `.
    pub path: String,
    /// What it costs.
    pub cost: ConfigCost,
    /// What it was and becomes, as far as that may be shown.
    pub difference: Difference,
}

/// Places in the document without a kind that a machine up to 1.13 follows without a reboot.
const FOLLOWED: &[&str] = &[
    "debug",
    "cluster",
    "machine.ca",
    "machine.acceptedCAs",
    "machine.time",
    "machine.certSANs",
    "machine.install",
    "machine.network",
    "machine.sysfs",
    "machine.sysctls",
    "machine.logging",
    "machine.controlPlane",
    "machine.kubelet",
    "machine.kernel",
    "machine.registries",
    "machine.pods",
    "machine.seccompProfiles",
    "machine.nodeAnnotations",
    "machine.nodeLabels",
    "machine.nodeTaints",
    "machine.features.kubernetesTalosAPIAccess",
    "machine.features.kubePrism",
    "machine.features.hostDNS",
    "machine.features.imageCache",
    "machine.features.nodeAddressSortAlgorithm",
];

/// Places whose change restarts a service.
const RESTARTS: &[&str] = &[
    "machine.kubelet",
    "machine.controlPlane",
    "machine.registries",
    "machine.seccompProfiles",
    "cluster.apiServer",
    "cluster.controllerManager",
    "cluster.scheduler",
    "cluster.etcd",
    "cluster.externalCloudProvider",
    "cluster.network",
    "cluster.controlPlane",
    "cluster.ca",
    "cluster.acceptedCAs",
    "cluster.aggregatorCA",
    "cluster.serviceAccount",
    "cluster.secretboxEncryptionSecret",
    "cluster.aescbcEncryptionSecret",
];

/// Places on which it depends whether the machine can be reached.
const NETWORK: &[&str] = &["machine.network.interfaces", "machine.network.kubespan"];

/// What only the installer reads. The running system keeps its image, extensions and kernel arguments.
const INSTALL: &[&str] = &["machine.install"];
const INSTALL_KINDS: &[&str] = &["UnattendedInstallConfig"];

/// Places that 1.14 follows only at the next boot.
const NEXT_BOOT: &[&str] = &[
    "machine.type",
    "machine.token",
    "machine.disks",
    "machine.systemDiskEncryption",
    "machine.baseRuntimeSpecOverrides",
    "machine.kernel",
    "machine.env",
    "machine.udev",
    "machine.files",
];

/// Documents whose change restarts a service.
const RESTARTING_KINDS: &[&str] = &[
    "KubeletConfig",
    "KubeNodeConfig",
    "KubeClusterConfig",
    "KubeNetworkConfig",
    "KubeCredentialProviderConfig",
    "KubeAPIServerConfig",
    "KubeAPIServerCAConfig",
    "KubeAggregatorCAConfig",
    "KubeAdmissionControlConfig",
    "KubeAuditPolicyConfig",
    "KubeAuthenticationConfig",
    "KubeAuthorizerConfig",
    "KubeEtcdEncryptionConfig",
    "KubeServiceAccountConfig",
    "KubeControllerManagerConfig",
    "KubeSchedulerConfig",
    "CRIBaseRuntimeSpecConfig",
    "CRICustomizationConfig",
    "RegistryMirrorConfig",
    "RegistryAuthConfig",
    "RegistryTLSConfig",
    "ContainerConfig",
    "ExtensionServiceConfig",
];

/// Documents on which it depends whether the machine can be reached. Names and time are not among them.
const NETWORK_KINDS: &[&str] = &[
    "LinkConfig",
    "LinkAliasConfig",
    "EthernetConfig",
    "BondConfig",
    "BridgeConfig",
    "VLANConfig",
    "VethConfig",
    "VRFConfig",
    "DummyLinkConfig",
    "WireguardConfig",
    "DHCPv4Config",
    "DHCPv6Config",
    "Layer2VIPConfig",
    "HCloudVIPConfig",
    "BlackholeRouteConfig",
    "RoutingRuleConfig",
    "BGPInstanceConfig",
    "KubeSpanConfig",
    "KubeSpanEndpointsConfig",
    "NetworkDefaultActionConfig",
    "NetworkRuleConfig",
    "SideroLinkConfig",
];

/// Documents without which data is not where it was.
const VOLUME_KINDS: &[&str] = &[
    "UserVolumeConfig",
    "RawVolumeConfig",
    "ExistingVolumeConfig",
    "ExternalVolumeConfig",
    "SwapVolumeConfig",
    "LVMLogicalVolumeConfig",
    "LVMVolumeGroupConfig",
    "RAIDArrayConfig",
];

/// Documents whose change waits for the next boot.
const NEXT_BOOT_KINDS: &[&str] =
    &["KernelModuleConfig", "EnvironmentConfig", "UdevRulesConfig", "PCIDriverRebindConfig"];

/// Documents that a machine follows at once without harm to what runs. Volumes are among them as long as they stay.
const FOLLOWED_KINDS: &[&str] = &[
    "DiscoveryIdentityConfig",
    "DiscoveryServiceConfig",
    "EtcFileConfig",
    "EventSinkConfig",
    "FilesystemScrubConfig",
    "FilesystemTrimConfig",
    "HTTPProbeConfig",
    "HostnameConfig",
    "ImageCacheConfig",
    "ImageVerificationConfig",
    "KmsgLogConfig",
    "KubeCoreDNSConfig",
    "KubeExternalManifestConfig",
    "KubeFlannelCNIConfig",
    "KubeInlineManifestConfig",
    "KubePrismConfig",
    "KubeProxyConfig",
    "KubeStaticPodConfig",
    "KubeTalosAPIAccessConfig",
    "OOMConfig",
    "ResolverConfig",
    "SecurityProfileConfig",
    "StaticHostConfig",
    "SysctlConfig",
    "SysfsConfig",
    "TCPProbeConfig",
    "TimeSyncConfig",
    "TrustedRootsConfig",
    "VolumeConfig",
    "WatchdogTimerConfig",
    "ZswapConfig",
];

/// Where two configurations differ, and what that costs a machine of a release. Document by document, in a stable order.
#[must_use]
pub fn difference(old: &Documents, new: &Documents, release: Contract) -> Vec<Change> {
    let minor = release.minor();
    let mut changes = Vec::new();
    let empty = Map::new();
    let in_new = |document: &Map| new.iter().find(|other| id(other, minor) == id(document, minor));
    for document in old.iter() {
        let (kind, name) = id(document, minor);
        let wanted = in_new(document);
        compare(document, wanted.unwrap_or(&empty), &mut Vec::new(), &mut |path, old, new| {
            let difference = match path {
                [] => Difference::Removed,
                _ => shown(&kind, path, old, new),
            };
            let mut change = change(&kind, name.as_deref(), path, minor, difference);
            if wanted.is_none() && VOLUME_KINDS.contains(&kind.as_str()) {
                change.cost = ConfigCost::Volume;
            }
            changes.push(change);
        });
    }
    for document in new.iter() {
        if !old.iter().any(|other| id(other, minor) == id(document, minor)) {
            let (kind, name) = id(document, minor);
            changes.push(change(&kind, name.as_deref(), &[], minor, Difference::Added));
        }
    }
    changes
}

/// What tells a document from others.
fn id(document: &Map, minor: u32) -> (String, Option<String>) {
    let Some(kind) = document.text("kind") else { return ("v1alpha1".to_owned(), None) };
    let named = schema::kind_of(kind, minor).is_none_or(|kind| kind.named);
    (kind.to_owned(), document.text("name").filter(|_| named).map(str::to_owned))
}

/// Takes a place that differs, with what it was and what it becomes.
type Differs<'d> = dyn FnMut(&[&str], Option<&Value>, Option<&Value>) + 'd;

/// Calls back with every place that differs. A document that is gone is one place.
fn compare<'a>(old: &'a Map, new: &'a Map, path: &mut Vec<&'a str>, differs: &mut Differs<'_>) {
    if path.is_empty() && new.is_empty() && !old.is_empty() {
        return differs(&[], None, None);
    }
    let keys = old
        .iter()
        .map(|(key, _)| key)
        .chain(new.iter().map(|(key, _)| key).filter(|key| old.get(key).is_none()));
    for key in keys {
        path.push(key);
        match (present(old, key), present(new, key)) {
            (Some(Value::Map(old)), Some(Value::Map(new))) => compare(old, new, path, differs),
            (old, new) if same(old, new) => {}
            (old, new) => differs(path, old, new),
        }
        path.pop();
    }
}

fn present<'a>(map: &'a Map, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|value| **value != Value::Null)
}

/// The same value, however a scalar is written; an empty mapping is nothing.
fn same(old: Option<&Value>, new: Option<&Value>) -> bool {
    let empty = |value: &Value| value.as_map().is_some_and(Map::is_empty);
    match (old, new) {
        (None, None) => true,
        (Some(old), Some(new)) => {
            old == new || matches!((text_of(old), text_of(new)), (Some(old), Some(new)) if old == new)
        }
        (Some(value), None) | (None, Some(value)) => empty(value),
    }
}

fn change(kind: &str, name: Option<&str>, path: &[&str], minor: u32, difference: Difference) -> Change {
    let joined = path.join(".");
    if kind == "v1alpha1" {
        return Change { cost: cost_of_field(path, minor), path: joined, difference };
    }
    let document = name.map_or_else(|| kind.to_owned(), |name| format!("{kind}/{name}"));
    let path = if joined.is_empty() { document } else { format!("{document}: {joined}") };
    let cost = if NEXT_BOOT_KINDS.contains(&kind) {
        ConfigCost::Reboot
    } else if RESTARTING_KINDS.contains(&kind) {
        ConfigCost::Services
    } else if NETWORK_KINDS.contains(&kind) {
        ConfigCost::Network
    } else if INSTALL_KINDS.contains(&kind) {
        ConfigCost::Install
    } else if FOLLOWED_KINDS.contains(&kind) || VOLUME_KINDS.contains(&kind) {
        ConfigCost::Nothing
    } else {
        ConfigCost::Reboot
    };
    Change { path, cost, difference }
}

fn cost_of_field(path: &[&str], minor: u32) -> ConfigCost {
    let under = |places: &[&str]| {
        places.iter().any(|place| {
            let parts: Vec<&str> = place.split('.').collect();
            path.len() >= parts.len() && path[..parts.len()] == parts[..]
        })
    };
    let is_auth = matches!(
        path,
        ["machine", "registries", "config", _, "auth", ..] | ["machine", "registries", "config"]
    );
    let reboots = if minor >= 14 { under(NEXT_BOOT) || path.is_empty() } else { !under(FOLLOWED) || is_auth };
    // A whole `machine.network` that comes or goes may hold links.
    let network = under(NETWORK) || path == ["machine", "network"];
    match (reboots, under(RESTARTS)) {
        (true, _) => ConfigCost::Reboot,
        (false, _) if under(INSTALL) => ConfigCost::Install,
        (false, true) => ConfigCost::Services,
        (false, false) if network => ConfigCost::Network,
        (false, false) => ConfigCost::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(old: &str, new: &str, minor: u32) -> Vec<(String, ConfigCost)> {
        let (old, new) = (Documents::parse(old).unwrap(), Documents::parse(new).unwrap());
        let changes = difference(&old, &new, Contract::parse(&format!("v1.{minor}")).unwrap());
        changes.into_iter().map(|change| (change.path, change.cost)).collect()
    }

    #[test]
    fn f12_a_change_shows_old_and_new_where_nothing_is_secret() {
        let old = "machine: {token: canary, sysctls: {a: '1'}, kubelet: {image: 'k:v1'}, env: {A: canary}, nodeLabels: {z: x, my-token: canary}, certSANs: [a]}\ncluster: {secretboxEncryptionSecret: canary, apiServer: {extraArgs: {x: canary}}}\n---\n{apiVersion: v1alpha1, kind: HostnameConfig, auto: stable}\n---\n{apiVersion: v1alpha1, kind: KubeletConfig, image: 'k:v1', extraConfig: {a: canary}}\n---\n{apiVersion: v1alpha1, kind: RegistryAuthConfig, name: r, password: canary}\n";
        let new = "machine: {token: other, sysctls: {a: '2', b: 3}, kubelet: {image: 'k:v2'}, env: {A: other}, nodeLabels: {my-token: other}, certSANs: [a, b]}\ncluster: {secretboxEncryptionSecret: other, apiServer: {extraArgs: {x: other}}, clusterName: 'https://me:canary@host'}\n---\n{apiVersion: v1alpha1, kind: HostnameConfig, auto: off, hostname: n}\n---\n{apiVersion: v1alpha1, kind: KubeletConfig, image: 'k:v2', extraConfig: {a: other}}\n---\n{apiVersion: v1alpha1, kind: RegistryAuthConfig, name: r, password: other}\n";
        let (old, new) = (Documents::parse(old).unwrap(), Documents::parse(new).unwrap());
        let changes = difference(&old, &new, Contract::parse("v1.14").unwrap());
        let all = format!("{changes:?}");
        assert!(!all.contains("canary") && !all.contains("other"), "{all}");
        let of = |path: &str| changes.iter().find(|c| c.path == path).unwrap().difference.clone();
        let values = |old: Option<&str>, new: Option<&str>| Difference::Values {
            old: old.map(str::to_owned),
            new: new.map(str::to_owned),
        };
        assert_eq!(of("machine.sysctls.a"), values(Some("1"), Some("2")));
        assert_eq!(of("machine.sysctls.b"), values(None, Some("3")));
        assert_eq!(of("machine.kubelet.image"), values(Some("k:v1"), Some("k:v2")));
        assert_eq!(of("machine.nodeLabels.z"), values(Some("x"), None));
        assert_eq!(of("machine.certSANs"), values(Some("[a]"), Some("[a, b]")));
        assert_eq!(of("HostnameConfig: hostname"), values(None, Some("n")));
        assert_eq!(of("KubeletConfig: image"), values(Some("k:v1"), Some("k:v2")));
        assert_eq!(of("machine.token"), Difference::Changed);
        assert_eq!(of("machine.env.A"), Difference::Changed);
        assert_eq!(of("cluster.clusterName"), Difference::Added, "an address with a password");
    }

    #[test]
    fn each_change_has_its_class() {
        use ConfigCost::{Network, Nothing, Reboot, Services};
        let old = "machine: {type: worker, sysctls: {a: '1'}, kubelet: {image: a}, env: {A: b}, registries: {config: {h: {auth: {username: a}, tls: {}}}}}\ncluster: {clusterName: a}\n---\n{apiVersion: v1alpha1, kind: LinkConfig, name: a, mtu: 1}\n---\n{apiVersion: v1alpha1, kind: HostnameConfig, auto: stable}\n";
        let new = "machine: {type: worker, sysctls: {a: 2, b: '3'}, kubelet: {image: b}, env: {A: c}, registries: {config: {h: {auth: {username: b}, tls: {ca: x}}}}, network: {}}\ncluster: {clusterName: b}\n---\n{apiVersion: v1alpha1, kind: LinkConfig, name: b}\n---\n{apiVersion: v1alpha1, kind: HostnameConfig, auto: 'off', hostname: x}\n";
        let path = |(path, class): (&str, ConfigCost)| (path.to_owned(), class);
        assert_eq!(
            changes(old, new, 13),
            [
                ("machine.sysctls.a", Nothing),
                ("machine.sysctls.b", Nothing),
                ("machine.kubelet.image", Services),
                ("machine.env.A", Reboot),
                ("machine.registries.config.h.auth.username", Reboot),
                ("machine.registries.config.h.tls.ca", Services),
                ("cluster.clusterName", Nothing),
                ("LinkConfig/a", Network),
                ("HostnameConfig: auto", Nothing),
                ("HostnameConfig: hostname", Nothing),
                ("LinkConfig/b", Network),
            ]
            .map(path)
        );
        let fourteen = changes(old, new, 14);
        assert!(fourteen.contains(&("machine.registries.config.h.auth.username".to_owned(), Services)));
        assert!(fourteen.contains(&("machine.env.A".to_owned(), Reboot)));
    }

    #[test]
    fn arch2_a_kind_that_is_not_known_is_never_hot() {
        let old = "machine: {type: worker}\n---\n{apiVersion: v1alpha1, kind: MadeUpConfig, a: 1}\n";
        let new = "machine: {type: worker}\n---\n{apiVersion: v1alpha1, kind: MadeUpConfig, a: 2}\n";
        let none = "machine: {type: worker}\n";
        for (old, new) in [(old, new), (none, new), (old, none)] {
            for minor in [12, 13, 14] {
                let [(_, class)] = changes(old, new, minor).try_into().unwrap();
                assert_eq!(class, ConfigCost::Reboot, "{old} {new} {minor}");
            }
        }
        let classed = |kind: &str| {
            [FOLLOWED_KINDS, INSTALL_KINDS, RESTARTING_KINDS, NETWORK_KINDS, VOLUME_KINDS, NEXT_BOOT_KINDS]
                .iter()
                .filter(|kinds| kinds.contains(&kind))
                .count()
        };
        let unclassed: Vec<&str> =
            schema::kinds().filter(|kind| *kind != "v1alpha1" && classed(kind) != 1).collect();
        assert_eq!(unclassed, [""; 0], "every kind that Talos has is in exactly one class");
    }

    #[test]
    fn first_use_1_what_only_the_installer_reads_is_not_followed() {
        let (old, new) =
            ("machine: {install: {image: a}}", "machine: {install: {image: b, extraKernelArgs: [c]}}");
        for minor in [12, 13, 14] {
            for (path, class) in changes(old, new, minor) {
                assert_eq!(class, ConfigCost::Install, "{path}");
            }
        }
    }

    #[test]
    fn what_may_cut_a_machine_off_or_takes_data_away_is_not_hot() {
        use ConfigCost::{Network, Nothing, Volume};
        let document =
            |kind: &str, rest: &str| format!("---\n{{apiVersion: v1alpha1, kind: {kind}, {rest}}}\n");
        let link =
            |gateway: &str| document("LinkConfig", &format!("name: net0, routes: [{{gateway: {gateway}}}]"));
        let names = |server: &str| {
            document("ResolverConfig", &format!("nameservers: [{{address: {server}}}]"))
                + &document("TimeSyncConfig", &format!("ntp: {{servers: [{server}]}}"))
        };
        let volume = |size: &str| {
            document("UserVolumeConfig", &format!("name: data, provisioning: {{minSize: {size}}}"))
        };
        let old = format!("machine: {{}}\n{}{}{}", link("10.0.0.1"), names("10.0.0.2"), volume("1GiB"));
        let new = format!("machine: {{}}\n{}{}{}", link("10.0.0.9"), names("10.0.0.3"), volume("2GiB"));
        let said = |old: &str, new: &str, minor| -> Vec<String> {
            changes(old, new, minor).into_iter().map(|(path, class)| format!("{path} {class:?}")).collect()
        };
        let told = [
            "LinkConfig/net0: routes Network",
            "ResolverConfig: nameservers Nothing",
            "TimeSyncConfig: ntp.servers Nothing",
            "UserVolumeConfig/data: provisioning.minSize Nothing",
        ];
        assert_eq!(said(&old, &new, 13), told);
        let without = format!("machine: {{}}\n{}{}", link("10.0.0.1"), names("10.0.0.2"));
        assert_eq!(said(&old, &without, 13), [format!("UserVolumeConfig/data {Volume:?}")]);
        assert_eq!(said(&without, &old, 13), [format!("UserVolumeConfig/data {Nothing:?}")]);
        let (old, new) = (
            "machine: {network: {nameservers: [a], interfaces: [{dhcp: true}]}}",
            "machine: {network: {nameservers: [b], interfaces: [{dhcp: false}]}}",
        );
        let told = [
            format!("machine.network.nameservers {Nothing:?}"),
            format!("machine.network.interfaces {Network:?}"),
        ];
        assert_eq!(said(old, new, 11), told);
    }

    #[test]
    fn the_same_in_another_form_is_no_change_and_values_are_never_shown() {
        assert_eq!(
            changes("machine: {sysctls: {a: 1}, network: {}, ca: null}", "machine: {sysctls: {a: '1'}}", 13),
            []
        );
        let said = format!("{:?}", changes("machine: {token: hunter1}", "machine: {token: hunter2}", 13));
        assert_eq!(said, "[(\"machine.token\", Reboot)]");
    }
}
