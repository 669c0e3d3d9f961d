//! VMs: created, grown, started, stopped, deleted. Each call is followed to the end of its task, and the effect is read
//! back before the step counts as done.

use std::time::Duration;

use model::blueprint::Node;
use model::mark::Mark;
use pve::{Params, PowerState};

use crate::apply::Context;
use crate::emit::Progress;
use crate::error::{Error, Kind, Result};
use crate::record::remedy;
use crate::settled::settled;
use crate::steps::Done;

/// A VM's id and the host it is on.
pub(super) struct Place<'a> {
    pub host: &'a str,
    pub vmid: u32,
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VM {} on {}", self.vmid, self.host)
    }
}

/// How often a busy host or storage is asked again. Each time waits longer.
const ATTEMPTS: u32 = 6;

/// Creates the VM with its boot disk copied from the image, and grows that disk. The POST reserves the id: when
/// somebody else was faster, or an answer was lost, the VM that is there is looked at before anything is concluded.
pub(super) async fn create(
    context: &Context,
    node: &Node,
    place: &Place<'_>,
    datastore: &str,
    image: &str,
    progress: &Progress,
) -> Result<Done> {
    let params = params(context, node, datastore, image)?;
    let attempt = || Error::world(format!("could not create {}, {place}", node.name));
    let pve = &context.world.pve;
    let mut tries = 1;
    let warnings = loop {
        progress.note("creating the VM");
        let created = match pve.create_vm(place.host, place.vmid, &params).await {
            Ok(upid) => {
                pve.follow(&upid, |line| {
                    if let Some((_, rest)) = line.split_once('(')
                        && let Some(percent) = rest.split(['.', '%']).next().and_then(|p| p.parse().ok())
                        && line.contains("transferred")
                    {
                        progress.percent("copying the image", percent);
                    }
                })
                .await
            }
            Err(error) => Err(error),
        };
        match created {
            Ok(finished) => break finished.warnings,
            Err(error) if error.is_exists() || error.effect_unknown() => match is_ours(context, node, place)
                .await?
            {
                true => break vec![],
                false if error.is_exists() => return Err(attempt().remedy(remedy(&error)).because(error)),
                false if tries < ATTEMPTS => {}
                false => return Err(attempt().remedy(remedy(&error)).because(error)),
            },
            Err(error) if error.is_transient() && tries < ATTEMPTS => {}
            Err(error) => return Err(attempt().remedy(remedy(&error)).because(error)),
        }
        progress.note("Proxmox is busy; trying again");
        context.world.clock.sleep(Duration::from_secs(2 * u64::from(tries))).await;
        tries += 1;
    };
    progress.note("growing the disk");
    grow(context, place, node.disk_gib).await?;
    Ok(Done { warnings })
}

/// Waits for a creation that somebody else may have begun, then tells whether the VM is this node of ours.
async fn is_ours(context: &Context, node: &Node, place: &Place<'_>) -> Result<bool> {
    let owner = Mark::owner_of(context.look.cluster_id()?);
    let found = settled(&context.world, place.host, place.vmid).await?;
    Ok(found
        .and_then(|c| Mark::find(c.description()))
        .is_some_and(|m| m.owner == owner && m.node == node.name))
}

/// Hardware that nobody asked for is right by default; the reasons stand beside the values.
fn params(context: &Context, node: &Node, datastore: &str, image: &str) -> Result<Params> {
    let id = context.look.cluster_id()?;
    let uuid =
        node.uuid.ok_or_else(|| Error::new(Kind::Refused, format!("{} has no identity yet", node.name)))?;
    let mark = Mark {
        cluster: context.look.blueprint.cluster.clone(),
        owner: Mark::owner_of(id),
        node: node.name.clone(),
    };
    let mut net = format!("virtio={},bridge={}", node.mac, node.bridge);
    if let Some(vlan) = node.vlan {
        net.push_str(&format!(",tag={vlan}"));
    }
    if let Some(mtu) = node.mtu {
        net.push_str(&format!(",mtu={mtu}"));
    }
    let agent = context
        .look
        .blueprint
        .images
        .get(&node.image)
        .is_some_and(|i| i.extensions.iter().any(|e| e == "siderolabs/qemu-guest-agent"));
    let pairs: Vec<(&str, String)> = vec![
        ("name", node.name.clone()),
        ("description", mark.describe()),
        ("smbios1", format!("uuid={uuid}")),
        ("ostype", "l26".into()),
        ("machine", "q35".into()),
        // Proxmox' own default is too old for Talos.
        ("cpu", node.cpu_type.clone()),
        ("sockets", "1".into()),
        ("cores", node.cores.to_string()),
        ("memory", node.memory_mib.to_string()),
        // Kubernetes counts on the memory that it was told of.
        ("balloon", "0".into()),
        ("scsihw", "virtio-scsi-single".into()),
        ("scsi0", format!("{datastore}:0,import-from={image},discard=on,iothread=1,ssd=1")),
        ("ide2", format!("{}:cloudinit", node.hardware.cloudinit_datastore.as_deref().unwrap_or(datastore))),
        ("ipconfig0", format!("ip={},gw={}", node.address, node.gateway)),
        ("net0", net),
        ("boot", "order=scsi0".into()),
        // Talos logs to the serial port; the screen stays.
        ("serial0", "socket".into()),
        ("agent", if agent { "1" } else { "0" }.into()),
        ("onboot", if node.hardware.start_on_boot { "1" } else { "0" }.into()),
        ("tags", node.hardware.tags.join(";")),
    ];
    let mut params: Params = pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    if !node.dns.is_empty() {
        let dns: Vec<String> = node.dns.iter().map(ToString::to_string).collect();
        params.insert("nameserver".to_owned(), dns.join(" "));
    }
    if let Some(pool) = &context.look.blueprint.resource_pool {
        params.insert("pool".to_owned(), pool.clone());
    }
    Ok(params)
}

/// Grows the boot disk to `gib`. Doing it again does nothing.
pub(super) async fn grow(context: &Context, place: &Place<'_>, gib: u64) -> Result<Done> {
    let attempt = || Error::world(format!("could not grow the boot disk of {place} to {gib} GiB"));
    let pve = &context.world.pve;
    let has = || async {
        let config = pve
            .vm_config(place.host, place.vmid)
            .await
            .map_err(|e| attempt().remedy(remedy(&e)).because(e))?;
        Ok::<_, Error>(config.drive("scsi0").and_then(|d| d.size).unwrap_or(0))
    };
    let wanted = gib << 30;
    if has().await? >= wanted {
        return Ok(Done::default());
    }
    let task = async {
        pve.follow(&pve.resize(place.host, place.vmid, "scsi0", &format!("{gib}G")).await?, |_| {}).await
    };
    let finished = task.await.map_err(|e| attempt().remedy(remedy(&e)).because(e))?;
    if has().await? < wanted {
        return Err(
            attempt().remedy("Proxmox said it was done, but the disk is still smaller; look at its storage")
        );
    }
    Ok(Done { warnings: finished.warnings })
}

/// Starts the VM. One that runs already is as good.
pub(super) async fn start(context: &Context, place: &Place<'_>) -> Result<Done> {
    power(context, place, PowerState::Running, "start").await
}

/// Stops the VM at once: what it ran is being taken away.
pub(super) async fn stop(context: &Context, place: &Place<'_>) -> Result<Done> {
    power(context, place, PowerState::Stopped, "stop").await
}

async fn power(context: &Context, place: &Place<'_>, wanted: PowerState, verb: &str) -> Result<Done> {
    let pve = &context.world.pve;
    let attempt = || Error::world(format!("could not {verb} {place}"));
    let mut tries = 1;
    loop {
        let task = async {
            if pve.vm_status(place.host, place.vmid).await?.power == wanted {
                return Ok(pve::Finished::default());
            }
            let upid = match wanted {
                PowerState::Running => pve.start(place.host, place.vmid).await?,
                _ => pve.stop(place.host, place.vmid).await?,
            };
            pve.follow(&upid, |_| {}).await
        };
        match task.await {
            Ok(finished) => {
                let status = pve.vm_status(place.host, place.vmid).await;
                let status = status.map_err(|e| attempt().remedy(remedy(&e)).because(e))?;
                if status.power == wanted {
                    return Ok(Done { warnings: finished.warnings });
                }
                if tries >= ATTEMPTS {
                    return Err(attempt().remedy(
                        "Proxmox said it was done, but the VM is not in that state; look at its task log",
                    ));
                }
            }
            Err(error) if tries < ATTEMPTS && (error.is_transient() || error.effect_unknown()) => {}
            Err(error) => return Err(attempt().remedy(remedy(&error)).because(error)),
        }
        context.world.clock.sleep(Duration::from_secs(2 * u64::from(tries))).await;
        tries += 1;
    }
}

/// Deletes a VM of ours. Its mark is read once more, because ids are used again and minutes may have passed.
pub(super) async fn delete(context: &Context, node: &str, place: &Place<'_>) -> Result<Done> {
    let owner = Mark::owner_of(context.look.cluster_id()?);
    let attempt = || Error::world(format!("could not delete {node}, {place}"));
    let config = match context.world.pve.vm_config(place.host, place.vmid).await {
        Ok(config) => config,
        Err(error) if error.is_missing() => return Ok(Done::default()),
        Err(error) => return Err(attempt().remedy(remedy(&error)).because(error)),
    };
    if !Mark::find(config.description()).is_some_and(|m| m.owner == owner && m.node == node) {
        return Err(Error::new(Kind::Refused, format!("{place} is not {node} any more"))
            .remedy("somebody changed it since it was looked at; run the command again"));
    }
    remove(context, place).await.map_err(|e| attempt().remedy(remedy(&e)).because(e))
}

/// Deletes the cluster's record, whose protection is taken off first.
pub(super) async fn delete_record(context: &Context, place: &Place<'_>) -> Result<Done> {
    let attempt = || Error::world(format!("could not delete the cluster's record, {place}"));
    context.record()?.read().await?;
    let params = Params::from([("protection".to_owned(), "0".to_owned())]);
    let pve = &context.world.pve;
    pve.update_config(place.host, place.vmid, &params, &[], None)
        .await
        .map_err(|e| attempt().remedy(remedy(&e)).because(e))?;
    remove(context, place).await.map_err(|e| attempt().remedy(remedy(&e)).because(e))
}

async fn remove(context: &Context, place: &Place<'_>) -> pve::Result<Done> {
    let pve = &context.world.pve;
    let mut tries = 1;
    loop {
        let task = async { pve.follow(&pve.delete_vm(place.host, place.vmid, true).await?, |_| {}).await };
        match task.await {
            Ok(finished) => return Ok(Done { warnings: finished.warnings }),
            Err(error) if error.is_missing() => return Ok(Done::default()),
            Err(error) if tries < ATTEMPTS && (error.is_transient() || error.effect_unknown()) => {}
            Err(error) => return Err(error),
        }
        context.world.clock.sleep(Duration::from_secs(2 * u64::from(tries))).await;
        tries += 1;
    }
}
