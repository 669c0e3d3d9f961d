//! The images of Kubernetes that a machine config names, and their versions.
//!
//! Up to the contract 1.13 they are fields of the document without a kind, later each has a document of its own; a machine config has
//! one or the other.

use std::collections::BTreeMap;

use super::Documents;
use crate::yaml::{Map, Value};

/// A part of Kubernetes that a machine config names an image for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KubernetesImage {
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// kube-proxy.
    Proxy,
    Kubelet,
}

impl KubernetesImage {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::ApiServer, Self::ControllerManager, Self::Scheduler, Self::Proxy, Self::Kubelet];

    /// The field of the document without a kind that holds its settings.
    fn field(self) -> [&'static str; 2] {
        match self {
            Self::ApiServer => ["cluster", "apiServer"],
            Self::ControllerManager => ["cluster", "controllerManager"],
            Self::Scheduler => ["cluster", "scheduler"],
            Self::Proxy => ["cluster", "proxy"],
            Self::Kubelet => ["machine", "kubelet"],
        }
    }

    /// The kind of its document.
    fn kind(self) -> &'static str {
        match self {
            Self::ApiServer => "KubeAPIServerConfig",
            Self::ControllerManager => "KubeControllerManagerConfig",
            Self::Scheduler => "KubeSchedulerConfig",
            Self::Proxy => "KubeProxyConfig",
            Self::Kubelet => "KubeletConfig",
        }
    }
}

/// The tag of an image, where it has one. A digest behind it is left out.
fn tag(image: &str) -> Option<(&str, &str)> {
    let image = image.split('@').next().unwrap_or(image);
    image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'))
}

/// The tags of the images that a machine config names.
#[must_use]
pub fn kubernetes_tags(documents: &Documents) -> BTreeMap<KubernetesImage, String> {
    let of = |image: KubernetesImage| {
        let document = documents.kind(image.kind()).and_then(|document| document.text("image"));
        let field = || {
            let path = [image.field()[0], image.field()[1], "image"].join(".");
            documents.v1alpha1().and_then(|document| document.text(&path))
        };
        let (_, tag) = tag(document.or_else(field)?)?;
        Some((image, tag.to_owned()))
    };
    KubernetesImage::ALL.into_iter().filter_map(of).collect()
}

/// Gives an image another tag. One that the machine config does not name stays unnamed.
pub fn set_kubernetes_tag(documents: &mut Documents, image: KubernetesImage, tag: &str) {
    if documents.kind(image.kind()).is_some() {
        retag(documents.kind_mut(image.kind()), tag);
    }
    let [section, part] = image.field();
    if let Some(document) = documents.v1alpha1_mut()
        && document.find(&[section, part].join(".")).is_some()
    {
        retag(document.map_mut(section).map_mut(part), tag);
    }
}

/// What a machine config gives to a part of Kubernetes: flags with their values, and feature gates of its configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KubernetesArguments {
    pub flags: BTreeMap<String, String>,
    pub gates: Vec<String>,
}

/// The arguments of the parts of Kubernetes in a machine config, as far as it has any.
#[must_use]
pub fn kubernetes_arguments(documents: &Documents) -> BTreeMap<KubernetesImage, KubernetesArguments> {
    let of = |image: KubernetesImage| {
        let field =
            documents.v1alpha1().and_then(|document| document.find(&image.field().join("."))?.as_map());
        let mut found = KubernetesArguments::default();
        let settings = documents.kind(image.kind()).into_iter().chain(field);
        for settings in settings {
            let flags = settings.get("extraArgs").and_then(Value::as_map);
            for (flag, value) in flags.into_iter().flat_map(Map::iter) {
                found.flags.insert(flag.to_owned(), listed(value));
            }
            for place in ["extraConfig.featureGates", "config.featureGates"] {
                let gates = settings.find(place).and_then(Value::as_map);
                found.gates.extend(gates.into_iter().flat_map(Map::iter).map(|(gate, _)| gate.to_owned()));
            }
        }
        found
    };
    KubernetesImage::ALL.into_iter().map(|image| (image, of(image))).collect()
}

/// A value of a flag. One that may be given several times is a list.
fn listed(value: &Value) -> String {
    let text = |value: &Value| value.as_text().unwrap_or_default().to_owned();
    match value.as_list() {
        Some(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
        None => text(value),
    }
}

fn retag(settings: &mut Map, wanted: &str) {
    let name = settings.text("image").and_then(tag).map(|(name, _)| name.to_owned());
    if let Some(name) = name {
        settings.insert("image", format!("{name}:{wanted}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "version: v1alpha1\nmachine: {kubelet: {image: 'ghcr.io/siderolabs/kubelet:v1.35.3'}}\ncluster: {apiServer: {image: 'localhost:5000/kube-apiserver:v1.35.2@sha256:ab', certSANs: [a]}, proxy: {disabled: true}}\n";
    const NEW: &str = "version: v1alpha1\nmachine: {type: worker}\n---\n{apiVersion: v1alpha1, kind: KubeletConfig, image: 'ghcr.io/siderolabs/kubelet:v1.35.3'}\n";

    #[test]
    fn versions_are_read_and_changed_in_both_forms() {
        for (text, versions) in [(OLD, vec!["v1.35.2", "v1.35.3"]), (NEW, vec!["v1.35.3"])] {
            let mut documents = Documents::parse(text).unwrap();
            assert_eq!(kubernetes_tags(&documents).into_values().collect::<Vec<_>>(), versions);
            for image in KubernetesImage::ALL {
                set_kubernetes_tag(&mut documents, image, "v1.36.0");
            }
            let after = kubernetes_tags(&documents);
            assert_eq!(after.len(), versions.len(), "nothing is named that was not before");
            assert!(after.values().all(|tag| tag == "v1.36.0"), "{after:?}");
        }
    }

    #[test]
    fn a_registry_with_a_port_and_no_tag_has_no_version() {
        assert_eq!(tag("localhost:5000/kubelet"), None);
        assert_eq!(tag("localhost:5000/kubelet:v1@sha256:ab"), Some(("localhost:5000/kubelet", "v1")));
    }

    #[test]
    fn arguments_are_found_in_both_forms() {
        let old = "version: v1alpha1\nmachine: {kubelet: {extraArgs: {v: '2'}, extraConfig: {featureGates: {A: true}}}}\ncluster: {apiServer: {extraArgs: {feature-gates: 'B=true', audit: [x, y]}}}\n";
        let new = "version: v1alpha1\nmachine: {type: worker}\n---\n{apiVersion: v1alpha1, kind: KubeletConfig, extraArgs: {v: '2'}, config: {featureGates: {A: true}}}\n---\n{apiVersion: v1alpha1, kind: KubeAPIServerConfig, extraArgs: {feature-gates: 'B=true', audit: [x, y]}}\n";
        for text in [old, new] {
            let found = kubernetes_arguments(&Documents::parse(text).unwrap());
            let kubelet = &found[&KubernetesImage::Kubelet];
            assert_eq!((kubelet.flags["v"].as_str(), kubelet.gates.as_slice()), ("2", &["A".to_owned()][..]));
            let server = &found[&KubernetesImage::ApiServer].flags;
            assert_eq!((server["feature-gates"].as_str(), server["audit"].as_str()), ("B=true", "x,y"));
        }
    }
}
