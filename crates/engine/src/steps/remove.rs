//! VMs stopped and deleted, wherever they are by now.
//!
//! Between a plan and its steps lie minutes in which a VM may move to another host, or its id may be given to another VM. So each
//! round first finds the VM, on whichever host, and goes on only if it carries our mark there. Only a VM that no host has is
//! gone.

use std::time::Duration;

use model::mark::RECORD_NODE;
use model::names::VmRef;
use model::ownership::{Act, Foreign};
use pve::{Params, PowerState, VmConfig};

use crate::context::{Context, Destruction, Done};
use crate::error::{Error, Kind, NO_EFFECT, Result, hint};
use crate::missing::{self, Unclear};
use crate::owned;
use crate::steps::permit::Authority;
use crate::steps::power;
use crate::steps::vm::{ATTEMPTS, worth_another_look};

/// Stops a node's VM at once: what it ran is being taken away.
pub(super) async fn stop(
    context: &Context,
    authority: Authority<'_>,
    node: &str,
    place: &VmRef,
) -> Result<Done> {
    authority.check(node)?;
    Removal { context, what: node, node, place, end: End::Stopped }.run().await
}

/// Deletes a node's VM. The list that the plan was made from is some seconds old, so it may run after all.
pub(super) async fn delete(
    context: &Context,
    authority: Authority<'_>,
    node: &str,
    place: &VmRef,
) -> Result<Done> {
    authority.check(node)?;
    Removal { context, what: node, node, place, end: End::Deleted }.run().await
}

/// Deletes the cluster record VM, whose protection is taken off first. It goes only with the whole cluster.
pub(super) async fn delete_record(
    context: &Context,
    _authority: &Destruction,
    place: &VmRef,
) -> Result<Done> {
    let what = "the cluster record VM";
    Removal { context, what, node: RECORD_NODE, place, end: End::Unprotected }.run().await
}

/// How a VM is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Stopped,
    Deleted,
    /// Deleted, although it is protected.
    Unprotected,
}

struct Removal<'a> {
    context: &'a Context,
    /// For people.
    what: &'a str,
    /// As its mark says.
    node: &'a str,
    /// Where the plan saw it.
    place: &'a VmRef,
    end: End,
}

/// Why a round did not bring the end.
enum Trouble {
    Proxmox(pve::Error),
    Unclear(Unclear),
    /// The VM is not the one that was meant.
    Foreign(Foreign),
    /// A person protected it.
    Protected,
    /// Proxmox says that it is done, and it is not.
    NoEffect,
}

impl From<pve::Error> for Trouble {
    fn from(error: pve::Error) -> Self {
        Self::Proxmox(error)
    }
}

impl Removal<'_> {
    async fn run(&self) -> Result<Done> {
        let verb = if self.end == End::Stopped { "stop" } else { "delete" };
        let attempt = || Error::systems(format!("could not {verb} {}, {}", self.what, self.place));
        let mut warnings = vec![];
        let mut tries = 1;
        loop {
            match self.round(&mut warnings).await {
                Ok(()) => return Ok(Done { warnings }),
                // It moved, or is gone after all: the next round finds out.
                Err(Trouble::Proxmox(error))
                    if tries < ATTEMPTS && (error.is_missing() || worth_another_look(&error)) => {}
                Err(Trouble::NoEffect) if tries < ATTEMPTS => {}
                Err(Trouble::Proxmox(error)) => return Err(attempt().hint(hint(&error)).because(error)),
                Err(Trouble::NoEffect) => {
                    return Err(attempt().coded(NO_EFFECT).hint(
                        "Proxmox reported success, but the VM is still as it was; look at its task log",
                    ));
                }
                Err(Trouble::Unclear(why)) => return Err(unclear(attempt(), &self.place.host, why)),
                Err(Trouble::Foreign(why)) => return Err(owned::not_ours(self.what, self.place, why)),
                Err(Trouble::Protected) => {
                    let what = format!("{}, {}, is protected in Proxmox", self.what, self.place);
                    return Err(Error::new(Kind::Refused, what).hint(
                        "it was not changed; to delete it, disable its protection in Proxmox (Options) and run \
                         the command again",
                    ));
                }
            }
            self.context.systems.clock.sleep(Duration::from_secs(2 * u64::from(tries))).await;
            tries += 1;
        }
    }

    async fn round(&self, warnings: &mut Vec<String>) -> std::result::Result<(), Trouble> {
        let (pve, vmid) = (&self.context.systems.pve, self.place.vmid);
        let Some((host, config)) = self.find().await? else { return Ok(()) };
        self.check(&config)?;
        if self.end != End::Unprotected && config.get("protection") == Some("1") {
            return Err(Trouble::Protected);
        }
        let is_stopped =
            async || Ok::<_, pve::Error>(pve.vm_status(&host, vmid).await?.power == PowerState::Stopped);
        if self.end != End::Unprotected && !is_stopped().await? {
            let task = pve.stop(&host, vmid).await?;
            let (finished, stopped) =
                power::follow(&self.context.systems, &task, vmid, PowerState::Stopped).await?;
            warnings.extend(finished.warnings);
            if !stopped {
                return Err(Trouble::NoEffect);
            }
        }
        if self.end == End::Stopped {
            return Ok(());
        }
        if self.end == End::Unprotected {
            let params = Params::from([("protection".to_owned(), "0".to_owned())]);
            pve.update_config(&host, vmid, &params, &[], Some(&config.digest)).await?;
        }
        // Stopping may have taken minutes.
        self.check(&pve.vm_config(&host, vmid).await?)?;
        warnings.extend(pve.follow(&pve.delete_vm(&host, vmid, true).await?, |_| {}).await?.warnings);
        match pve.vm_config(&host, vmid).await {
            Ok(config) if self.check(&config).is_ok() => Err(Trouble::NoEffect),
            // Who had rights only on the VM's pool may not even ask any more.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Where the VM is now.
    async fn find(&self) -> std::result::Result<Option<(String, VmConfig)>, Trouble> {
        let (host, vmid) = (&self.place.host, self.place.vmid);
        match self.context.systems.pve.vm_config(host, vmid).await {
            Ok(config) => Ok(Some((host.to_owned(), config))),
            Err(error) if error.is_missing() => {
                missing::seek(&self.context.systems, vmid).await.map_err(Trouble::Unclear)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn check(&self, config: &VmConfig) -> std::result::Result<(), Trouble> {
        owned::check(self.context, Act::Remove, self.place.vmid, self.node, config).map_err(Trouble::Foreign)
    }
}

/// It is not where it was, and whether it is anywhere is not known.
fn unclear(error: Error, host: &str, why: Unclear) -> Error {
    let error = match &why {
        Unclear::Offline { .. } => error.coded("unreachable"),
        Unclear::NotTold(_) | Unclear::Nowhere => error,
    };
    error
        .hint(format!("it is not on {host} any more; run the command again when every host answers"))
        .because(why)
}
