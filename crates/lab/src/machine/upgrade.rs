//! Upgrades: which installer a name means, whether a machine takes it, and what happens at the next boot.
//!
//! The old call does everything by itself: fetch, check etcd, stop, install, restart. The new one only installs; the rest
//! is the client's. Either way the system before stays on the disk, and a new one that does not come up goes back to it.

use jiff::Timestamp;
use tonic::Code;

use super::Machines;
use super::apply::Refusal;
use super::boot::BootImage;
use super::node::Leave;
use super::profile::Profile;

/// What the name of an installer image says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installer {
    pub(crate) registry: String,
    pub(crate) platform: String,
    /// Empty for the installer without extensions that every release up to 1.13 publishes.
    pub(crate) schematic: String,
    pub(crate) talos: String,
}

impl Installer {
    /// Reads `HOST/PLATFORM-installer/SCHEMATIC:VERSION`, or the plain `HOST/…/installer:VERSION`.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let name = name.split('@').next().unwrap_or(name);
        let (path, talos) = name.rsplit_once(':').filter(|(_, tag)| tag.starts_with('v'))?;
        let mut parts = path.split('/').rev();
        let last = parts.next()?;
        let registry = path.split('/').next()?.to_owned();
        let platform = |text: &str| {
            let text = text.strip_suffix("-secureboot").unwrap_or(text);
            text.strip_suffix("-installer").or((text == "installer").then_some("metal")).map(str::to_owned)
        };
        if last.len() == 64 && last.chars().all(|c| c.is_ascii_hexdigit()) {
            let platform = platform(parts.next()?)?;
            return Some(Self { registry, platform, schematic: last.to_owned(), talos: talos.to_owned() });
        }
        let platform = platform(last)?;
        Some(Self { registry, platform, schematic: String::new(), talos: talos.to_owned() })
    }
}

impl Machines {
    /// Why an installer would refuse to run on a machine: what it prints.
    pub(crate) fn precheck(&self, vmid: u32, image: &BootImage) -> Result<(), String> {
        let Some(machine) = self.machines.get(&vmid) else { return Err("the machine is gone".to_owned()) };
        let (own, new) = (machine.profile(), Profile::of(&image.talos));
        let bare = |version: &str| version.trim_start_matches('v').to_owned();
        if machine.image().is_some_and(|current| current.arch != image.arch) {
            return Err(format!("exec /usr/bin/installer: exec format error ({})", image.arch));
        }
        if !new.accepts_upgrade_from(own) {
            let (from, to) = (bare(machine.talos()), bare(&image.talos));
            return Err(format!("host version {from} is too old to upgrade to Talos {to}"));
        }
        let Some(node) = machine.node() else { return Ok(()) };
        let kubernetes = bare(&node.settings.kubernetes);
        let minor = kubernetes.split('.').nth(1).and_then(|minor| minor.parse::<u64>().ok());
        let (oldest, newest) = new.kubernetes_minors;
        let trouble = match minor {
            Some(minor) if minor < oldest => "old",
            Some(minor) if minor > newest => "new",
            _ => return Ok(()),
        };
        Err(format!(
            "component kubelet version issue: version of Kubernetes {kubernetes} is too {trouble} to be used with Talos {}",
            bare(&image.talos)
        ))
    }

    /// What the old upgrade call asks etcd before it starts.
    pub(crate) fn etcd_allows_upgrade(&self, vmid: u32) -> Result<(), Refusal> {
        let refuse = |words: String| {
            Err(Refusal::new(Code::Unknown, format!("error validating etcd for upgrade: {words}")))
        };
        let Some(etcd) = self.etcd_of(vmid) else { return Ok(()) };
        if etcd.members.len() == 2 {
            return refuse(
                "etcd member count(2) is insufficient to maintain quorum if upgrade commences".to_owned(),
            );
        }
        let sick = etcd.members.keys().find(|id| etcd.leader.is_none() || !etcd.is_up(**id, &self.machines));
        match sick {
            Some(id) => refuse(format!(
                "etcd member {id:016x} is not healthy; all members must be healthy to perform an upgrade: context deadline exceeded"
            )),
            None => Ok(()),
        }
    }

    /// Installs another system beside the running one; it boots next.
    pub(crate) fn install_system(&mut self, vmid: u32, image: BootImage) {
        if let Some(machine) = self.machines.get_mut(&vmid) {
            machine.install(image);
        }
    }

    /// The old upgrade, once its checks have passed: goes down and comes back with the other system.
    pub(crate) fn upgrade(&mut self, vmid: u32, image: BootImage, staged: bool, now: Timestamp) -> String {
        let locked = self.live(vmid).is_none_or(|node| node.leaving.is_some());
        if let Some(machine) = self.machines.get_mut(&vmid).filter(|_| !locked) {
            if staged {
                machine.disk.staged = Some(image);
            } else {
                machine.install(image);
            }
        }
        // A staged one is a plain restart, without a drain.
        self.leave(vmid, if staged { Leave::Reboot } else { Leave::Upgrade }, now)
    }

    /// Returns to the system before the last upgrade.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub(crate) fn rollback(&mut self, vmid: u32, now: Timestamp) -> Result<(), Refusal> {
        let reverted = self.machines.get_mut(&vmid).is_some_and(super::node::Machine::revert);
        if !reverted {
            return Err(Refusal::new(Code::Unknown, "previous UKI not found"));
        }
        self.leave(vmid, Leave::Reboot, now);
        Ok(())
    }

    /// Keeps an image in a namespace of a machine's container runtime; says whether it was there already.
    pub(crate) fn keep_image(&mut self, vmid: u32, namespace: &str, image: &str, now: Timestamp) -> bool {
        let Some(machine) = self.machines.get_mut(&vmid) else { return false };
        let key = format!("{namespace} {image}");
        let known = machine.disk.images.contains_key(&key);
        machine.disk.images.entry(key).or_insert(now);
        known
    }

    /// Removes an image; says whether it was there.
    pub(crate) fn drop_image(&mut self, vmid: u32, namespace: &str, image: &str) -> bool {
        let machine = self.machines.get_mut(&vmid);
        machine.is_some_and(|machine| machine.disk.images.remove(&format!("{namespace} {image}")).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_installer_says_what_it_installs() {
        let id = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";
        let read = Installer::parse(&format!("factory.talos.dev/nocloud-installer/{id}:v1.13.9")).unwrap();
        assert_eq!(
            (read.platform.as_str(), read.schematic.as_str(), read.talos.as_str()),
            ("nocloud", id, "v1.13.9")
        );
        let read = Installer::parse("ghcr.io/siderolabs/installer:v1.12.9").unwrap();
        assert_eq!((read.platform.as_str(), read.schematic.as_str()), ("metal", ""));
        assert_eq!(Installer::parse("registry.k8s.io/etcd:v3.6.12"), None);
        assert_eq!(Installer::parse("ghcr.io/siderolabs/installer"), None);
    }
}
