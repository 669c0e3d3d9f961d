//! Changing the release of a machine.
//!
//! Since 1.13 it takes three calls: pull the image, have the installer write it, restart. The machine checks nothing of
//! etcd then, drains nothing, and ends the installer's stream well even when the installer failed: its exit code tells.
//! Before, one call does all of it, restart included. [`Machine::upgrade`] takes the way that the machine offers and says
//! which one it was. A machine may come back healthy on the old release, so the caller compares afterwards.

use talos::wire::common::{ContainerDriver, ContainerdInstance, ContainerdNamespace};
use talos::wire::machine as wire;
use talos::wire::machine::image_service_pull_response::Response as Pulled;
use talos::wire::machine::lifecycle_service_install_progress::Response as Installing;

use crate::api::{LONG, QUESTION, WORK};
use crate::error::{Kind, Result, harmless};
use crate::machine::Machine;

/// What is heard while a machine is upgraded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A layer of the image comes in: its id, the bytes so far, all bytes.
    Layer {
        /// The layer.
        id: String,
        /// Bytes so far.
        offset: u64,
        /// Bytes in all; 0 while not known.
        total: u64,
    },
    /// The installer said something.
    Installer(String),
}

/// What an upgrade has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upgraded {
    /// The new system is on disk. The machine runs on as before until it is restarted.
    AwaitsReboot,
    /// The machine drains itself, installs and restarts by itself; its events have this id.
    RestartsItself {
        /// The id.
        actor: String,
    },
}

/// How the old way upgrades.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LegacyUpgrade {
    /// Install at the next boot, for volumes that cannot be unmounted. Nothing is drained then.
    pub stage: bool,
    /// Do not look at etcd first.
    pub force: bool,
    /// Boot the new system from the firmware.
    pub power_cycle: bool,
}

/// Where a machine keeps an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImageStore {
    /// With Talos' own: etcd, the kubelet, installers.
    #[default]
    System,
    /// With those of pods.
    Pods,
}

impl ImageStore {
    fn namespace(self) -> ContainerdNamespace {
        match self {
            Self::System => ContainerdNamespace::NsSystem,
            Self::Pods => ContainerdNamespace::NsCri,
        }
    }

    fn containerd(self) -> ContainerdInstance {
        ContainerdInstance { driver: ContainerDriver::Cri.into(), namespace: self.namespace().into() }
    }
}

impl Machine {
    /// Puts the system of `image` on the machine's disk, in the way that it offers.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`] when there is no such image, [`Kind::NotInstalled`], [`Kind::Failed`] when the installer failed.
    pub async fn upgrade(&self, image: &str, heard: impl FnMut(Progress)) -> Result<Upgraded> {
        self.upgrade_with(image, LegacyUpgrade::default(), heard).await
    }

    /// The same, with how a machine goes about it that has only the old way.
    ///
    /// # Errors
    ///
    /// As [`Machine::upgrade`].
    pub async fn upgrade_with(
        &self,
        image: &str,
        legacy: LegacyUpgrade,
        mut heard: impl FnMut(Progress),
    ) -> Result<Upgraded> {
        match self.pull_image(image, &mut heard).await {
            Ok(_) => {}
            Err(error) if error.kind() == Kind::Unimplemented => {
                let actor = self.upgrade_legacy(image, legacy).await?;
                return Ok(Upgraded::RestartsItself { actor });
            }
            Err(error) => return Err(error),
        }
        self.install_upgrade(image, heard).await?;
        Ok(Upgraded::AwaitsReboot)
    }

    /// Pulls an image into one of the machine's stores, in the way that the machine offers.
    ///
    /// # Errors
    ///
    /// As [`Machine::pull_image`]; before 1.13 [`Kind::Other`] with the machine's words.
    pub async fn prefetch(&self, image: &str, store: ImageStore, heard: impl FnMut(Progress)) -> Result<()> {
        match self.pull_into(image, store, heard).await {
            Err(error) if error.kind() == Kind::Unimplemented => {}
            pulled => return pulled.map(drop),
        }
        let request =
            wire::ImagePullRequest { namespace: store.namespace().into(), reference: image.to_owned() };
        self.api.ask("pulling an image", LONG, self.api.services().image_pull(request)).await.map(drop)
    }

    /// Pulls an image into the store that Talos' own services use; returns its name with the digest.
    ///
    /// # Errors
    ///
    /// [`Kind::Unimplemented`] before 1.13; [`Kind::NotFound`]; [`Kind::Deadline`] when nothing moves, as with a registry
    /// whose name cannot be resolved.
    pub async fn pull_image(&self, image: &str, heard: impl FnMut(Progress)) -> Result<String> {
        self.pull_into(image, ImageStore::System, heard).await
    }

    async fn pull_into(
        &self,
        image: &str,
        store: ImageStore,
        mut heard: impl FnMut(Progress),
    ) -> Result<String> {
        let attempt = "pulling an image";
        let request = wire::ImageServicePullRequest {
            containerd: Some(store.containerd()),
            image_ref: image.to_owned(),
        };
        let answer = self.api.limited(attempt, WORK, self.api.images().pull(request)).await?;
        let mut stream = answer.into_inner();
        while let Some(message) = self.api.limited(attempt, WORK, stream.message()).await? {
            match message.response {
                Some(Pulled::Name(name)) => return Ok(name),
                Some(Pulled::PullProgress(layer)) => {
                    let progress = layer.progress.unwrap_or_default();
                    heard(Progress::Layer {
                        id: layer.layer_id,
                        offset: progress.offset.try_into().unwrap_or(0),
                        total: progress.total.try_into().unwrap_or(0),
                    });
                }
                None => {}
            }
        }
        Err(self.api.failure(attempt, Kind::Protocol, "it ended without naming the image"))
    }

    /// Has the installer of an image that was pulled write the new system.
    ///
    /// # Errors
    ///
    /// [`Kind::Failed`] with the installer's last words when it did not end well.
    pub async fn install_upgrade(&self, image: &str, mut heard: impl FnMut(Progress)) -> Result<()> {
        let attempt = "installing the new release";
        let request = wire::LifecycleServiceUpgradeRequest {
            containerd: Some(ImageStore::System.containerd()),
            source: Some(wire::InstallArtifactsSource { image_name: image.to_owned() }),
        };
        let answer = self.api.limited(attempt, QUESTION, self.api.lifecycle().upgrade(request)).await?;
        let mut stream = answer.into_inner();
        let (mut last_words, mut exit_code) = (String::new(), None);
        while let Some(message) = self.api.limited(attempt, LONG, stream.message()).await? {
            match message.progress.and_then(|progress| progress.response) {
                Some(Installing::Message(words)) => {
                    let words = harmless(&words);
                    if !words.is_empty() {
                        last_words.clone_from(&words);
                        heard(Progress::Installer(words));
                    }
                }
                Some(Installing::ExitCode(code)) => exit_code = Some(code),
                None => {}
            }
        }
        match exit_code {
            Some(0) => Ok(()),
            Some(code) => {
                let why = format!("the installer ended with code {code}: {last_words}");
                Err(self.api.failure(attempt, Kind::Failed, why))
            }
            None => Err(self.api.failure(
                attempt,
                Kind::Failed,
                "the installer's end was not told: it may have died",
            )),
        }
    }

    /// The one call of releases before 1.13, which later ones still take. It pulls the image before it answers.
    ///
    /// # Errors
    ///
    /// [`Kind::NotInstalled`]; [`Kind::Other`] with the machine's words when etcd does not allow it or the image is not
    /// there.
    pub async fn upgrade_legacy(&self, image: &str, how: LegacyUpgrade) -> Result<String> {
        let request = wire::UpgradeRequest {
            image: image.to_owned(),
            // Says nothing about data any more, but since 1.12 it would skip the look at etcd.
            preserve: false,
            stage: how.stage,
            force: how.force,
            reboot_mode: match how.power_cycle {
                true => wire::upgrade_request::RebootMode::Powercycle.into(),
                false => wire::upgrade_request::RebootMode::Default.into(),
            },
        };
        let message = self.api.ask("upgrading", LONG, self.api.services().upgrade(request)).await?;
        Ok(message.actor_id)
    }
}
