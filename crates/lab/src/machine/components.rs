//! What of Kubernetes a machine runs by itself: the static pods of a control plane, and the version of its kubelet.
//!
//! A static pod follows the configuration: another image or other arguments end it and start it again, and its mirror in Kubernetes
//! says from which version of the configuration it was made. A program that does not know one of its arguments ends at once, again and
//! again. The kubelet reports the version that it was started with.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Machines;
use super::node::{Node, after};
use super::settings::Settings;
use super::timing;

/// The names of the static pods.
pub(super) const STATIC_PODS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
const KUBELET: &str = "kubelet";

/// Flags that programs do not know any more, by the minor release from which on.
const REMOVED_FLAGS: &[(&str, &str, u32)] = &[
    ("kube-apiserver", "cloud-config", 33),
    (KUBELET, "cloud-config", 34),
    (KUBELET, "pod-infra-container-image", 35),
];
/// Feature gates that no program knows any more, by the minor release from which on.
const REMOVED_GATES: &[(&str, u32)] = &[("UserNamespacesPodSecurityStandards", 35)];

/// What of Kubernetes a machine runs by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Components {
    /// The static pods, by name.
    pods: BTreeMap<String, StaticPod>,
    /// The version of the kubelet that was started last.
    kubelet: Option<String>,
}

/// A static pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticPod {
    pub image: String,
    arguments: BTreeMap<String, String>,
    /// How many configurations of it there were.
    pub version: u64,
    /// When it is ready.
    from: Timestamp,
    /// What it says when it ends, where it does.
    pub crash: Option<String>,
    /// No registry has its image.
    #[serde(default)]
    pub no_image: bool,
}

impl StaticPod {
    pub(crate) fn is_ready(&self, now: Timestamp) -> bool {
        self.starts() && self.from <= now
    }

    pub(crate) fn starts(&self) -> bool {
        self.crash.is_none() && !self.no_image
    }
}

/// What a program says that does not start with these arguments.
fn crash(program: &str, image: &str, arguments: &BTreeMap<String, String>) -> Option<String> {
    let minor = minor(image)?;
    let removed = |flag: &String| {
        REMOVED_FLAGS.iter().any(|(of, name, from)| *of == program && *name == flag && minor >= *from)
    };
    if let Some(flag) = arguments.keys().find(|flag| removed(flag)) {
        return Some(format!("Error: unknown flag: --{flag}"));
    }
    let gates = arguments.get("feature-gates").map(String::as_str).unwrap_or_default();
    let mut names = gates.split(',').filter_map(|gate| Some(gate.split_once('=')?.0.trim()));
    let removed = |name: &&str| REMOVED_GATES.iter().any(|(gate, from)| gate == name && minor >= *from);
    let name = names.find(removed)?;
    Some(format!(
        "Error: invalid argument {gates:?} for \"--feature-gates\" flag: unrecognized feature gate: {name}"
    ))
}

/// The number behind `1.` in the tag of an image.
fn minor(image: &str) -> Option<u32> {
    let (_, tag) = image.split('@').next()?.rsplit_once(':')?;
    tag.trim_start_matches('v').split('.').nth(1)?.parse().ok()
}

impl Node {
    /// The static pods that were started, by name.
    pub(crate) fn static_pods(&self) -> impl Iterator<Item = (&String, &StaticPod)> {
        self.components.pods.iter()
    }

    /// The version of the kubelet that runs, or ran last.
    pub(crate) fn kubelet_version(&self) -> &str {
        self.components.kubelet.as_deref().unwrap_or(&self.settings.kubernetes)
    }

    /// Whether its kubelet reports to Kubernetes.
    pub(crate) fn kubelet_runs(&self, now: Timestamp) -> bool {
        self.kubelet_from <= now && !self.kubelet_stopped
    }

    /// The version of the configuration of a static pod, by the type of its resource.
    pub(crate) fn config_version(&self, kind: &str) -> Option<u64> {
        let name = match kind {
            "APIServerConfigs.kubernetes.talos.dev" => "kube-apiserver",
            "ControllerManagerConfigs.kubernetes.talos.dev" => "kube-controller-manager",
            "SchedulerConfigs.kubernetes.talos.dev" => "kube-scheduler",
            _ => return None,
        };
        self.components.pods.get(name).map(|pod| pod.version)
    }

    pub(super) fn component_moments(&self) -> impl Iterator<Item = Timestamp> + '_ {
        self.components.pods.values().map(|pod| pod.from)
    }

    /// Whether its settings name the images of static pods. Those that an earlier version stored do not.
    pub(super) fn names_images(&self) -> bool {
        !self.settings.images.api_server.is_empty()
    }

    fn wanted(&self, name: &str) -> (String, BTreeMap<String, String>) {
        let Settings { images, arguments, .. } = &self.settings;
        let image = match name {
            "kube-apiserver" => &images.api_server,
            "kube-controller-manager" => &images.controller_manager,
            _ => &images.scheduler,
        };
        (image.clone(), arguments.get(name).cloned().unwrap_or_default())
    }
}

impl Machines {
    /// Static pods follow their configuration, and a kubelet that starts has the version of its own.
    pub(super) fn step_components(&mut self, vmid: u32) -> bool {
        let now = self.now;
        let missing = STATIC_PODS.map(|name| self.no_images.contains(&(vmid, name.to_owned())));
        let Some(node) = self.live_mut(vmid) else { return false };
        let mut changed = false;
        if node.kubelet_from <= now && node.components.kubelet.as_ref() != Some(&node.settings.kubernetes) {
            let (image, arguments) = (&node.settings.images.kubelet, node.settings.arguments.get(KUBELET));
            changed = true;
            match crash(KUBELET, image, arguments.unwrap_or(&BTreeMap::new())) {
                Some(_) => node.kubelet_from = Timestamp::MAX,
                None => node.components.kubelet = Some(node.settings.kubernetes.clone()),
            }
        }
        let Some(up) = node.api_server_from.filter(|_| node.names_images()) else { return changed };
        for (name, missing) in STATIC_PODS.into_iter().zip(missing) {
            let (image, arguments) = node.wanted(name);
            let known = node.components.pods.get(name);
            let same = known.filter(|pod| pod.image == image && pod.arguments == arguments);
            if same.is_some_and(|pod| !pod.no_image || missing) {
                continue;
            }
            // What a machine has, it does not pull again.
            let no_image = missing && known.is_none_or(|pod| pod.image != image || pod.no_image);
            let crash = crash(name, &image, &arguments);
            let from = match known {
                // It is the kubelet that starts it.
                Some(_) if !node.kubelet_runs(now) => continue,
                Some(_) => after(now, timing::STATIC_POD),
                None => up,
            };
            let version = match (known, same) {
                (_, Some(pod)) => pod.version,
                (Some(pod), None) => pod.version + 1,
                (None, None) => 1,
            };
            let pod = StaticPod { image, arguments, version, from, crash, no_image };
            if name == "kube-apiserver" {
                node.api_server_from = Some(if pod.starts() { from } else { Timestamp::MAX });
            }
            node.components.pods.insert(name.to_owned(), pod);
            changed = true;
        }
        changed
    }
}
