//! Which boot image a node has. Nodes that agree in everything share one.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::blueprint::Image;
use crate::draft::DraftNode;
use crate::forms::Version;
use crate::spec::{self, Gpu, Spec};

/// The key of the image of nodes that ask for no other.
const DEFAULT: &str = "default";

/// The images that were asked for so far, by key.
pub(crate) struct Images<'s> {
    spec: &'s Spec,
    used: BTreeMap<String, Image>,
    base: Option<Image>,
}

impl<'s> Images<'s> {
    pub(crate) fn new(spec: &'s Spec) -> Self {
        Self {
            spec,
            used: BTreeMap::new(),
            base: image(&with_choices(spec, spec.image.clone(), None), &spec.versions.talos),
        }
    }

    /// The key of a node's image.
    pub(crate) fn of(&mut self, node: &DraftNode<'_>) -> Option<String> {
        let plain = node.traits.iter().all(|(traits, _)| traits.image.is_none() && traits.gpu.is_none());
        let image = match plain && node.talos.value == self.spec.versions.talos {
            true => self.base.clone()?,
            false => image(&effective(self.spec, node), node.talos.value)?,
        };
        let key = match Some(&image) == self.base.as_ref() {
            true => DEFAULT.to_owned(),
            // Only what is in it names it, so that the key never depends on who asks first.
            false => {
                let written = serde_json::to_vec(&image).ok()?;
                format!("{}-{}", image.talos, &hex::encode(Sha256::digest(written))[..8])
            }
        };
        self.used.entry(key.clone()).or_insert(image);
        Some(key)
    }

    pub(crate) fn into_used(self) -> BTreeMap<String, Image> {
        self.used
    }
}

/// What the file says about a node's image, key by key.
pub(crate) fn effective(spec: &Spec, node: &DraftNode<'_>) -> spec::Image {
    let mut image = spec.image.clone();
    let gpu = node.nearest(|traits| traits.gpu);
    for (traits, _) in &node.traits {
        let Some(other) = &traits.image else { continue };
        image.factory = other.factory.clone().unwrap_or(image.factory);
        // Naming extensions is asking for them, not for the cluster's schematic file.
        if other.extensions.is_some() || other.kernel_args.is_some() {
            image.schematic = None;
        }
        image.extensions = other.extensions.clone().unwrap_or(image.extensions);
        image.kernel_args = other.kernel_args.clone().unwrap_or(image.kernel_args);
        image.schematic = other.schematic.clone().or(image.schematic);
        image.secure_boot = other.secure_boot.unwrap_or(image.secure_boot);
        image.delivery = other.delivery.unwrap_or(image.delivery);
    }
    with_choices(spec, image, gpu)
}

/// The image with what the storage and the graphics card need. A schematic file is taken as it stands.
fn with_choices(spec: &Spec, mut image: spec::Image, gpu: Option<Gpu>) -> spec::Image {
    if image.schematic.is_none() {
        let storage = spec.kubernetes.storage.iter().flat_map(|storage| storage.extensions());
        let needed = storage.chain(gpu.into_iter().flat_map(Gpu::extensions));
        image.extensions.extend(needed.map(|name| (*name).to_owned()));
    }
    image
}

fn image(said: &spec::Image, talos: &str) -> Option<Image> {
    let mut extensions = said.extensions.clone();
    extensions.sort();
    extensions.dedup();
    Some(Image {
        factory: said.factory.trim_end_matches('/').to_owned(),
        talos: Version::read(talos)?.to_string(),
        arch: said.arch.to_string(),
        extensions,
        kernel_args: said.kernel_args.clone(),
        schematic_file: said.schematic.clone(),
        secure_boot: said.secure_boot,
        delivery: said.delivery,
        mirror: said.mirror.as_ref().map(|url| url.trim_end_matches('/').to_owned()),
        installer_mirror: said.installer_mirror.as_ref().map(|at| at.trim_end_matches('/').to_owned()),
    })
}
