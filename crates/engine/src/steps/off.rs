//! The proof that a machine is off, before another member removes its member from etcd.
//!
//! A member that is removed while it still runs is a node that the cluster has lost and that goes on: its disk keeps the log of etcd, and
//! its kubelet its pods. That it does not answer from here shows nothing. So Proxmox must say that its VM is stopped or gone; where it
//! never had one, or nothing is known of it any more, it must be dead by all other signs for two minutes ([`dead`]).

use model::blueprint::Node;
use model::names::VmRef;
use model::removed;
use pve::PowerState;

use crate::context::Context;
use crate::emit::Progress;
use crate::error::{Error, Kind, Result, hint};
use crate::missing;
use crate::steps::dead;

/// The code of a machine that may still run.
const MAY_RUN: &str = "may-run";

/// Proves that the machine of a node is off; `peers` is where the other members of etcd reach it.
pub(super) async fn proved(
    context: &Context,
    node: &str,
    peers: &[String],
    progress: &Progress,
) -> Result<()> {
    match context.snapshot.node(node) {
        Ok(known) if !known.external => by_proxmox(context, known).await,
        Ok(known) => dead::watch(context, known, "removed from etcd", progress).await.map(drop),
        Err(_) => {
            has_no_vm(context, node).await?;
            let stand_in = removed::member(&context.snapshot.blueprint, node, peers).ok_or_else(|| {
                let hint = "its member has no address, so nothing shows whether it runs; compare `talosctl etcd members` of all control \
                            plane nodes";
                attempt(node).hint(hint)
            })?;
            dead::watch(context, &stand_in, "removed from etcd", progress).await.map(drop)
        }
    }
}

/// Proxmox says that the VM is stopped, or that no host has it.
async fn by_proxmox(context: &Context, node: &Node) -> Result<()> {
    let (pve, name) = (&context.systems.pve, node.name.as_str());
    let VmRef { host, vmid } = context.place_of(node);
    let failed = |e: pve::Error| attempt(name).hint(hint(&e)).because(e);
    let host = match pve.vm_config(&host, vmid).await {
        Ok(_) => host,
        Err(error) if error.is_missing() => match missing::seek(&context.systems, vmid).await {
            Ok(Some((host, _))) => host,
            Ok(None) => return Ok(()),
            Err(unclear) => {
                let hint = "run the command again when every Proxmox host answers; nothing was removed";
                return Err(attempt(name).coded(MAY_RUN).hint(hint).because(unclear));
            }
        },
        Err(error) => return Err(failed(error)),
    };
    // Whatever has its ID: while that does not run, nothing of the node does.
    match pve.vm_status(&host, vmid).await.map_err(failed)?.power {
        PowerState::Stopped => Ok(()),
        _ => Err(Error::new(
            Kind::Refused,
            format!("could not remove {name} from etcd: it does not answer, and VM {vmid} on {host} runs"),
        )
        .coded(MAY_RUN)
        .hint("run the command again: it looks at the machine again, and stops one that is dead first")),
    }
}

/// No VM in Proxmox has the name of the node, and no host is away that could have one.
async fn has_no_vm(context: &Context, node: &str) -> Result<()> {
    let listed = context.systems.pve.cluster_resources().await;
    let resources = listed.map_err(|e| attempt(node).hint(hint(&e)).because(e))?;
    let away = resources.iter().find(|r| r.kind == "node" && r.status.as_deref() != Some("online"));
    let namesake = resources.iter().find(|r| r.kind == "qemu" && r.name.as_deref() == Some(node));
    let why = match (away, namesake) {
        (None, None) => return Ok(()),
        (Some(host), _) => {
            format!(
                "the Proxmox host {} is not online, and may have its VM",
                host.node.as_deref().unwrap_or_default()
            )
        }
        (None, Some(vm)) => format!("VM {} in Proxmox has its name", vm.vmid.unwrap_or_default()),
    };
    Err(Error::new(Kind::Refused, format!("could not remove {node} from etcd: {why}"))
        .coded(MAY_RUN)
        .hint("bring the host back, or look at the VM, then run the command again; nothing was removed"))
}

fn attempt(node: &str) -> Error {
    Error::systems(format!("could not remove {node} from etcd"))
}
