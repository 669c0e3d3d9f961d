//! Versions and the boot image of the map formats.

use model::spec::{Arch, Spec};

use super::Ground;
use crate::bag::Bag;
use crate::common;
use crate::eval::FILE;
use crate::folder::Folder;
use crate::notes::Notes;

pub(super) fn versions(
    spec: &mut Spec,
    ground: &mut Ground,
    bag: &Bag<'_>,
    folder: &Folder<'_>,
    notes: &mut Notes,
) {
    if let Some(group) = bag.bag("versions") {
        for (key, target) in
            [("talos", &mut spec.versions.talos), ("kubernetes", &mut spec.versions.kubernetes)]
        {
            if let Some(text) = group.text(key) {
                *target = common::version(&text.value);
            }
        }
        group.finish(notes);
    }
    let key = if bag.has("talos_image") { "talos_image" } else { "image" };
    if let Some(image) = bag.bag(key) {
        let text = |key: &str| image.text(key);
        if let Some(version) = text("version") {
            let version_here = common::version(&version.value);
            if !spec.versions.talos.is_empty()
                && spec.versions.talos != version_here
                && spec.versions.contract.is_none()
            {
                // The image is what runs; the other number only shaped the configuration.
                spec.versions.contract = common::contract(&spec.versions.talos);
                let (said, runs) = (&spec.versions.talos, &version_here);
                notes.unused(&format!(
                    "two versions of Talos are named, {said} and {runs}; {runs}, the image's, is what runs"
                ));
            }
            spec.versions.talos = version_here;
        }
        ground.update_talos = text("update_version").map(|text| common::version(&text.value));
        if let Some(url) = text("factory_url") {
            spec.image.factory = url.value.trim_end_matches('/').to_owned();
        }
        schematic(spec, &image, folder, notes);
        if text("arch").is_some_and(|arch| arch.value == "arm64") {
            spec.image.arch = Arch::Arm64;
        }
        if let Some(platform) = text("platform").filter(|platform| platform.value != "nocloud") {
            notes.lost(platform.span, "the platform is always `nocloud` here");
        }
        if let Some(store) = text("proxmox_datastore").or_else(|| text("datastore_id")) {
            ground.image_store = Some(store.value);
        }
        let why = "images are shared between clusters, under names that tell them apart";
        image.lose(&["file_prefix", "image_filename_prefix"], why, notes);
        image.finish(notes);
    }
    if let Some(image) = bag.bag("kubernetes_image") {
        ground.update_kubernetes = image.text("update_version").map(|text| common::version(&text.value));
        image.finish(notes);
    }
    if spec.versions.kubernetes.is_empty() {
        common::kubernetes_of(&spec.versions.talos).clone_into(&mut spec.versions.kubernetes);
        notes.assumed(&format!(
            "no Kubernetes version is given; {}, which this Talos brings, was taken",
            spec.versions.kubernetes
        ));
    }
}

/// A schematic becomes its extensions where its text is at hand, else the file as it stands.
fn schematic(spec: &mut Spec, image: &Bag<'_>, folder: &Folder<'_>, notes: &mut Notes) {
    let Some(named) = image.text("schematic").or_else(|| image.text("schematic_path")) else { return };
    image.lose(
        &["update_schematic", "update_schematic_path"],
        "give the nodes an `image` of their own",
        notes,
    );
    let path = named.value.strip_prefix(FILE).unwrap_or(&named.value);
    let text = folder
        .text(path)
        .map(str::to_owned)
        .or_else(|| named.value.contains('\n').then(|| named.value.clone()));
    let template = path.ends_with(".tftpl") || text.as_ref().is_some_and(|text| text.contains("%{"));
    match text {
        Some(text) => {
            let listed = text.lines().filter_map(|line| {
                let item = line.trim().strip_prefix("- ")?.trim().trim_matches(['"', '\'']);
                (item.starts_with("siderolabs/") && !item.contains(' ')).then(|| item.to_owned())
            });
            let gpu = |name: &String| name.contains("nvidia");
            let extensions: Vec<String> = listed.filter(|name| !template || !gpu(name)).collect();
            if !extensions.is_empty() {
                spec.image.extensions = extensions;
            }
            if text.contains("extraKernelArgs") || text.contains("overlay") {
                notes.changed(
                    named.span,
                    "the schematic holds more than extensions",
                    "use the file itself: `image.schematic`",
                );
            }
        }
        None if template => {
            let message = format!("`{path}` is a template, which is not evaluated");
            notes.changed(
                named.span,
                &message,
                "the module's own extensions were taken; compare them with it",
            );
            let names = ["qemu-guest-agent", "iscsi-tools", "util-linux-tools"];
            spec.image.extensions = names.iter().map(|name| format!("siderolabs/{name}")).collect();
        }
        None => spec.image.schematic = Some(path.to_owned()),
    }
}
