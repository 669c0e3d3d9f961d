//! How a new node's boot disk comes to be: an image on the host, and where the file wants it, a template made from it.

use super::bring_up::{Builder, usual};
use super::ownership;
use crate::blueprint::{Image, Node};
use crate::mark::TEMPLATE_NODE;
use crate::names::VmRef;
use crate::spec::Delivery;
use crate::step::{Action, StepId};
use crate::vm;

/// Where a new VM is made, decided.
pub(super) struct Site<'a> {
    pub host: &'a str,
    pub disks: &'a str,
    pub images: &'a str,
    pub image: &'a Image,
    pub schematic: &'a str,
}

impl Site<'_> {
    fn file(&self) -> String {
        self.image.file_name(self.schematic)
    }

    /// The volume that a system disk is copied from.
    pub(super) fn volume(&self) -> String {
        format!("{}:import/{}", self.images, self.file())
    }
}

impl Builder<'_> {
    /// Makes the VM, from the image or from a template.
    pub(super) fn new_vm(&mut self, node: &Node, site: &Site<'_>) -> StepId {
        let (action, after) = match site.image.delivery {
            Delivery::Import => {
                let action = Action::CreateVm {
                    node: node.name.clone(),
                    vm: VmRef::new(site.host, node.vmid),
                    datastore: site.disks.to_owned(),
                    image: site.volume(),
                };
                (action, self.download(node, site))
            }
            Delivery::Template => {
                let (template, made) = self.template(node, site);
                let action = Action::CloneVm {
                    node: node.name.clone(),
                    vm: VmRef::new(site.host, node.vmid),
                    template,
                    datastore: site.disks.to_owned(),
                };
                (action, made)
            }
        };
        let after = after.into_iter().chain(self.first.clone()).collect();
        let size = size(node);
        let reason = match self.knows(node) {
            _ if self.vm(node).is_some() => format!("it is created again, empty; {size}"),
            Some(knows) => {
                format!("its VM is gone, and {knows} still knows it: it is created again, empty; {size}")
            }
            None => format!("it does not exist yet; {size}"),
        };
        self.push(action, after, reason, usual::CREATE)
    }

    /// The template of the node's role on its host, and the step that makes it if there is none.
    fn template(&mut self, node: &Node, site: &Site<'_>) -> (u32, Option<StepId>) {
        let disk = vm::boot_key(node);
        let mark = format!("{TEMPLATE_NODE} {} {} {disk} {}", site.host, node.role, site.file());
        let found = self.owner.and_then(|owner| {
            let mut templates = self.observed.proxmox.templates(owner);
            templates.find(|t| {
                t.mark.node == mark && t.host == site.host && ownership::is_our_template(self.blueprint, t)
            })
        });
        if let Some(found) = found
            && found.config.get("template").is_some_and(|flag| flag == "1")
        {
            return (found.vmid, None);
        }
        let name = format!(
            "{}-{}-{disk}-{}-{}",
            self.blueprint.cluster,
            node.role,
            site.image.talos.replace('.', "-"),
            site.host
        );
        let started = |s: &crate::step::Step| match &s.action {
            Action::CreateTemplate { mark: other, vm, .. } if *other == mark => Some((vm.vmid, s.id.clone())),
            _ => None,
        };
        if let Some((vmid, step)) = self.steps.iter().find_map(started) {
            return (vmid, Some(step));
        }
        let vmid = found.map_or_else(|| self.free_template_id(), |found| found.vmid);
        let after = self.download(node, site).into_iter().chain(self.first.clone()).collect();
        let action = Action::CreateTemplate {
            name,
            mark,
            vm: VmRef::new(site.host, vmid),
            disk,
            datastore: site.disks.to_owned(),
            image: site.volume(),
        };
        let step = self.push(action, after, "nodes there are copied from it", usual::CREATE);
        (vmid, Some(step))
    }

    /// The first free id behind the record's number with two digits more. One that is being made at this moment may be ours
    /// by a run that died: the step that creates it looks.
    fn free_template_id(&self) -> u32 {
        let first = *self.blueprint.template_ids().start();
        let planned = |id: u32| {
            self.steps.iter().any(|s| matches!(&s.action, Action::CreateTemplate { vm, .. } if vm.vmid == id))
                || self.blueprint.nodes.values().any(|n| n.vmid == id)
        };
        let taken = |id: u32| {
            self.observed.proxmox.taken.get(&id).is_some_and(|g| g.lock.as_deref() != Some("create"))
        };
        (first..).find(|id| !taken(*id) && !planned(*id)).unwrap_or(first)
    }

    /// Fetches the image to where the node needs it, once per host, or once for all that share the datastore.
    pub(super) fn download(&mut self, node: &Node, site: &Site<'_>) -> Option<StepId> {
        let (host, store, file) = (site.host, site.images, site.file());
        let proxmox = &self.observed.proxmox;
        if proxmox.has_image(host, store, &file) {
            return None;
        }
        if proxmox.inventory.is_shared(host, store) {
            let same = |action: &Action| matches!(action, Action::DownloadImage { datastore, file: other, .. } if datastore == store && *other == file);
            if let Some(step) = self.steps.iter().find(|step| same(&step.action)) {
                return Some(step.id.clone());
            }
        }
        let register =
            Action::RegisterSchematic { image: node.image.clone(), schematic: site.schematic.to_owned() };
        let registered =
            self.push(register, vec![], "the factory builds only registered schematics", usual::REGISTER);
        let action = Action::DownloadImage {
            host: host.to_owned(),
            datastore: store.to_owned(),
            url: site.image.url(site.schematic),
            file,
        };
        let after = [registered].into_iter().chain(self.first.clone()).collect();
        Some(self.push(action, after, "nodes there boot from it", usual::DOWNLOAD))
    }
}

/// What a new VM has, for people who review it.
fn size(node: &Node) -> String {
    let memory = match node.memory_mib % 1024 {
        0 => format!("{} GiB", node.memory_mib / 1024),
        _ => format!("{} MiB", node.memory_mib),
    };
    let cores = if node.cores == 1 { "1 core".to_owned() } else { format!("{} cores", node.cores) };
    let more = node.hardware.disks.iter().map(|disk| format!(" + {} GiB", disk.size_gib)).collect::<String>();
    format!("{cores}, {memory} RAM, {} GiB{more} disk, Talos {}", node.disk_gib, node.talos)
}
