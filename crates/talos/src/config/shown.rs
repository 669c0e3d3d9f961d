//! Which values of a configuration may be shown to a person, in a plan or in CI.
//!
//! A configuration is full of keys, and people write more of them into free fields. So a value is shown only where its place is known
//! to hold nothing secret; everywhere else it is said that it changed, and no more.

use super::Value;
use crate::schema::check::text_of;

/// How a value changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// It is new, and not shown.
    Added,
    /// It is gone, and was not shown.
    Removed,
    /// It is another, and not shown.
    Changed,
    /// What it was and what it becomes; `None` where it is not set.
    Values {
        /// What it was.
        old: Option<String>,
        /// What it becomes.
        new: Option<String>,
    },
}

/// Places in the document without a kind whose values are no secrets.
const PLAIN: &[&str] = &[
    "debug",
    "machine.type",
    "machine.certSANs",
    "machine.install.disk",
    "machine.install.image",
    "machine.install.wipe",
    "machine.kubelet.image",
    "machine.kubelet.clusterDNS",
    "machine.kubelet.nodeIP",
    "machine.kubelet.extraArgs",
    "machine.kubelet.defaultRuntimeSeccompProfileEnabled",
    "machine.kubelet.disableManifestsDirectory",
    "machine.network.hostname",
    "machine.network.nameservers",
    "machine.network.searchDomains",
    "machine.nodeAnnotations",
    "machine.nodeLabels",
    "machine.nodeTaints",
    "machine.sysctls",
    "machine.sysfs",
    "machine.time",
    "machine.features",
    "machine.kernel",
    "cluster.allowSchedulingOnControlPlanes",
    "cluster.apiServer.certSANs",
    "cluster.apiServer.image",
    "cluster.clusterName",
    "cluster.controlPlane",
    "cluster.controllerManager.image",
    "cluster.coreDNS",
    "cluster.discovery.enabled",
    "cluster.etcd.advertisedSubnets",
    "cluster.etcd.image",
    "cluster.etcd.listenSubnets",
    "cluster.externalCloudProvider.enabled",
    "cluster.network.cni.name",
    "cluster.network.dnsDomain",
    "cluster.network.podSubnets",
    "cluster.network.serviceSubnets",
    "cluster.proxy.disabled",
    "cluster.proxy.image",
    "cluster.proxy.mode",
    "cluster.scheduler.image",
];

/// Documents none of whose values are secrets.
const PLAIN_KINDS: &[&str] = &[
    "DHCPv4Config",
    "DHCPv6Config",
    "HostnameConfig",
    "KubePrismConfig",
    "Layer2VIPConfig",
    "LinkAliasConfig",
    "LinkConfig",
    "ResolverConfig",
    "StaticHostConfig",
    "SysctlConfig",
    "SysfsConfig",
    "TimeSyncConfig",
    "UserVolumeConfig",
    "VolumeConfig",
];

/// A key with one of these in its name may hold a secret wherever it stands.
const PRIVATE: &[&str] = &["token", "secret", "password", "passphrase", "key", "auth", "credential", "peers"];

/// Longer values are not shown: they are too long to compare in a line.
const LONG: usize = 120;

/// How a value at a place of a document of this kind changed.
pub(super) fn shown(kind: &str, path: &[&str], old: Option<&Value>, new: Option<&Value>) -> Difference {
    let joined = path.join(".");
    let below = |place: &&str| {
        joined.strip_prefix(*place).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let plain = match kind {
        "v1alpha1" => PLAIN.iter().any(below),
        // Each of these documents has an image, and little else that is harmless.
        _ if joined == "image" => true,
        _ => PLAIN_KINDS.contains(&kind) && !path.is_empty(),
    };
    let private = |text: &str| {
        let text = text.to_ascii_lowercase();
        PRIVATE.iter().any(|word| text.contains(word))
    };
    // An address may carry a password before its host.
    let said = |value: &Value| line(value).filter(|text| text.len() <= LONG && !text.contains('@'));
    let values = match (old, new) {
        _ if !plain || path.iter().any(|part| private(part)) => None,
        (Some(old), Some(new)) => said(old).zip(said(new)).map(|(old, new)| (Some(old), Some(new))),
        (Some(old), None) => said(old).map(|old| (Some(old), None)),
        (None, Some(new)) => said(new).map(|new| (None, Some(new))),
        (None, None) => None,
    };
    match (values, old, new) {
        (Some((old, new)), ..) => Difference::Values { old, new },
        (None, None, Some(_)) => Difference::Added,
        (None, Some(_), None) => Difference::Removed,
        (None, ..) => Difference::Changed,
    }
}

/// A value in one line: a scalar, or a list of scalars. What has keys of its own is not shown, because they are not known.
fn line(value: &Value) -> Option<String> {
    match value {
        Value::List(items) => {
            let items: Option<Vec<String>> = items.iter().map(line).collect();
            items.map(|items| format!("[{}]", items.join(", ")))
        }
        Value::Map(map) if map.is_empty() => Some("{}".to_owned()),
        Value::Map(_) => None,
        scalar => text_of(scalar).map(|text| text.to_string()).filter(|text| !text.contains('\n')),
    }
}
