//! Images that a machine's own services need and that no registry has.
//!
//! Such a service is preparing for as long as the machine tries, then it has failed, and no one tries again: a person can
//! start the kubelet, etcd comes back only with a restart or a bootstrap. With the right image in the configuration the
//! kubelet starts again. A registry that does not answer is another matter (`reach`): for that a machine waits for ever.

use jiff::Timestamp;

use super::Machines;
use super::node::{EtcdService, after};
use super::timing;

/// Whether the registry of an image has it. Those of the lab have everything but what is called `nope`, which stands for
/// every name that someone misspelled.
pub(crate) fn is_published(image: &str) -> bool {
    !image.contains("/nope")
}

/// What a registry says that does not have an image.
pub(crate) fn not_found(reference: &str) -> String {
    format!(
        "1 error(s) occurred:\n\tfailed to pull image {reference:?}: failed to resolve reference {reference:?}: {reference}: not found"
    )
}

impl Machines {
    /// Takes the image of a machine's service out of every registry, or puts it back.
    pub(crate) fn set_missing_image(&mut self, vmid: u32, service: &str, missing: bool) {
        let entry = (vmid, service.to_owned());
        if missing {
            self.no_images.insert(entry);
        } else {
            self.no_images.remove(&entry);
        }
        self.settle();
    }

    /// Machines with a service that no longer tries.
    pub(crate) fn failed_services(&self) -> Vec<u32> {
        let failed = |node: &super::node::Node| {
            matches!(node.etcd, EtcdService::Failed { .. })
                || node.kubelet_gives_up.is_some_and(|at| at <= self.now)
        };
        self.iter().filter(|(_, machine)| machine.node().is_some_and(failed)).map(|(vmid, _)| vmid).collect()
    }

    /// Services start to fail, fail, or start again.
    pub(super) fn step_images(&mut self, vmid: u32) -> bool {
        let now = self.now;
        let has = |service: &str| !self.no_images.contains(&(vmid, service.to_owned()));
        let (has_kubelet, has_etcd) = (has("kubelet"), has("etcd"));
        let Some(node) = self.live_mut(vmid) else { return false };
        let tried_from = now.max(node.cri_from).max(node.clock_from);
        let gives_up = after(tried_from, timing::PULL_GIVES_UP);
        let mut changed = false;
        match (has_kubelet && is_published(&node.settings.images.kubelet), node.kubelet_gives_up) {
            (false, None) if node.kubelet_from > now => {
                (node.kubelet_from, node.kubelet_gives_up) = (Timestamp::MAX, Some(gives_up));
                changed = true;
            }
            (true, Some(_)) => {
                (node.kubelet_from, node.kubelet_gives_up) = (after(tried_from, timing::KUBELET), None);
                changed = true;
            }
            _ => {}
        }
        let etcd = match node.etcd {
            EtcdService::Preparing | EtcdService::Bootstrapping { .. }
                if !has_etcd || !is_published(&node.settings.images.etcd) =>
            {
                EtcdService::Pulling { until: gives_up }
            }
            EtcdService::Pulling { until } if until <= now => EtcdService::Failed { since: now },
            as_it_is => as_it_is,
        };
        changed |= etcd != node.etcd;
        node.etcd = etcd;
        changed
    }
}
