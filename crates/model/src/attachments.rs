//! The other files that a cluster file points to: patches, manifests, schematics, chart values.
//!
//! Nothing is read here. The caller hands the contents in, by the name that the file gives them, so that everything
//! which is made from them stays a function of what it is given.

use std::collections::BTreeMap;

use crate::diagnostic::Path;
use crate::spec::{Patch, Reference, Spec, Traits};

/// The contents of attached files, by the name that the cluster file gives them.
pub type Attachments = BTreeMap<String, String>;

/// A file that the cluster file points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached<'s> {
    /// The place that names it.
    pub path: Path,
    /// Its name, from the folder of the cluster file.
    pub file: &'s str,
    /// What it holds.
    pub kind: Kind,
}

/// What an attached file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A patch of Talos configurations.
    Patch,
    /// A schematic of an image.
    Schematic,
    /// Kubernetes objects.
    Manifest,
    /// Values of a chart.
    Values,
}

/// Every secret that the cluster file refers to: the place, and where the secret is.
#[must_use]
pub fn references(spec: &Spec) -> Vec<(Path, Reference)> {
    let manifests = |key: &str| Path::of(&["manifests", key, "token"]);
    let (ccm, csi) = (&spec.manifests.proxmox_ccm, &spec.manifests.proxmox_csi);
    let all = [
        (Path::of(&["proxmox", "token"]), spec.proxmox.token.as_deref()),
        (manifests("proxmox_ccm"), ccm.as_ref().and_then(|ccm| ccm.token.as_deref())),
        (manifests("proxmox_csi"), csi.as_ref().and_then(|csi| csi.token.as_deref())),
        (Path::of(&["gitops", "credentials"]), spec.gitops.as_ref().and_then(|g| g.credentials.as_deref())),
    ];
    all.into_iter().filter_map(|(path, text)| Some((path, text?.parse().ok()?))).collect()
}

/// Every file that the cluster file points to.
#[must_use]
pub fn attached(spec: &Spec) -> Vec<Attached<'_>> {
    let mut found = Vec::new();
    patches(&Path::root(), &spec.patches, &mut found);
    let roles = [("controlplane", &spec.defaults.controlplane), ("worker", &spec.defaults.worker)];
    for (name, role) in roles {
        traits(&Path::of(&["defaults", name]), &role.traits, &mut found);
    }
    for (name, pool) in &spec.pools {
        traits(&Path::of(&["pools", name]), &pool.traits, &mut found);
    }
    for (name, node) in &spec.nodes {
        traits(&Path::of(&["nodes", name]), &node.traits, &mut found);
    }
    if let Some(file) = &spec.image.schematic {
        found.push(Attached { path: Path::of(&["image", "schematic"]), file, kind: Kind::Schematic });
    }
    let manifests = Path::of(&["manifests", "files"]);
    let files = spec.manifests.files.iter().enumerate();
    found.extend(files.map(|(index, file)| Attached {
        path: manifests.index(index),
        file,
        kind: Kind::Manifest,
    }));
    if let crate::spec::Cni::Details(details) = &spec.kubernetes.cni
        && let Some(file) = &details.values_file
    {
        let path = Path::of(&["kubernetes", "cni", "values_file"]);
        found.push(Attached { path, file, kind: Kind::Values });
    }
    found
}

fn traits<'s>(path: &Path, traits: &'s Traits, found: &mut Vec<Attached<'s>>) {
    patches(path, &traits.patches, found);
    if let Some(file) = traits.image.as_ref().and_then(|image| image.schematic.as_ref()) {
        found.push(Attached { path: path.key("image").key("schematic"), file, kind: Kind::Schematic });
    }
}

fn patches<'s>(path: &Path, patches: &'s [Patch], found: &mut Vec<Attached<'s>>) {
    let path = path.key("patches");
    for (index, patch) in patches.iter().enumerate() {
        if let Some(file) = patch.file() {
            found.push(Attached { path: path.index(index), file, kind: Kind::Patch });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Source;

    #[test]
    fn every_file_is_listed_with_its_place() {
        let text = "cluster: home
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: \"https://pve1:8006\" }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1 }
patches: [all.yaml, \"machine:\\n  sysctls: {}\\n\", { machine: {} }]
image: { schematic: s.yaml }
manifests: { files: [m.yaml] }
kubernetes: { cni: { name: cilium, values_file: v.yaml } }
defaults: { worker: { patches: [w.yaml] } }
pools:
  control: { role: controlplane, count: 1, image: { schematic: gpu.yaml } }
nodes:
  home-control-1: { patches: [n.yaml] }
";
        let loaded = crate::load::load(&[Source::new("c.yaml", text)]).unwrap();
        let found: Vec<String> = attached(&loaded.spec)
            .iter()
            .map(|one| format!("{} {} {:?}", one.path, one.file, one.kind))
            .collect();
        insta::assert_snapshot!(found.join("\n"), @r"
        patches[0] all.yaml Patch
        defaults.worker.patches[0] w.yaml Patch
        pools.control.image.schematic gpu.yaml Schematic
        nodes.home-control-1.patches[0] n.yaml Patch
        image.schematic s.yaml Schematic
        manifests.files[0] m.yaml Manifest
        kubernetes.cni.values_file v.yaml Values
        ");
    }
}
