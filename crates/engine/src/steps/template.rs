//! Templates, and nodes that are full copies of them.
//!
//! A copy takes everything over, so the mark is given with the copying itself: whatever happens next, it is known whose VM
//! it is. Its own hardware follows; where a run dies in between, the next plan finds the difference and goes on.

use model::blueprint::Node;
use model::mark::Mark;
use model::names::VmRef;
use model::ownership::{Act, Foreign};
use model::vm;
use pve::Params;

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Kind, Result, hint};
use crate::owned;
use crate::steps::update;
use crate::steps::vm::{grow, make};
use crate::tags;

/// What a template is made from.
pub(super) struct Template<'a> {
    pub name: &'a str,
    pub mark: &'a str,
    pub disk: &'a str,
    pub datastore: &'a str,
    pub image: &'a str,
}

/// Makes a template: a VM with the system disk only, then no VM any more.
pub(super) async fn create(
    context: &Context,
    template: &Template<'_>,
    place: &VmRef,
    progress: &Progress,
) -> Result<Done> {
    let attempt = format!("could not create the template {}, {place}", template.name);
    let blueprint = &context.snapshot.blueprint;
    let mark = Mark::new(&blueprint.cluster, Mark::owner_of(context.snapshot.cluster_id()?), template.mark);
    let mut params: Params = [
        ("name", template.name.to_owned()),
        ("description", mark.describe(None)),
        ("ostype", "l26".to_owned()),
        ("scsihw", "virtio-scsi-single".to_owned()),
        ("memory", "512".to_owned()),
        (template.disk, format!("{}:0,import-from={}", template.datastore, template.image)),
        ("boot", format!("order={}", template.disk)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    tags::at_creation(blueprint, &mut params);
    // A clone gets another UUID, so a clone of the template is never taken for it.
    let uuid = mark.uuid(context.snapshot.cluster_id()?);
    params.insert("smbios1".to_owned(), format!("uuid={uuid}"));
    let pve = &context.systems.pve;
    progress.note("creating the template");
    let mut warnings =
        make(context, place, template.datastore, &attempt, template.mark, progress, || async {
            pve.create_vm(&place.host, place.vmid, &params).await
        })
        .await?;
    tags::set(&context.systems, &place.host, place.vmid, blueprint, template.mark).await?;
    let failed = |e: pve::Error| Error::systems(&attempt).hint(hint(&e)).because(e);
    let is_template = || async {
        let config = pve.vm_config(&place.host, place.vmid).await.map_err(failed)?;
        Ok::<_, Error>(config.get("template") == Some("1"))
    };
    if !is_template().await? {
        owned::read(context, Act::Change, template.mark, place).await?;
        let task = async { pve.follow(&pve.make_template(&place.host, place.vmid).await?, |_| {}).await };
        match task.await {
            Ok(finished) => warnings.extend(finished.warnings),
            // An earlier call got through after all.
            Err(_) if is_template().await? => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(Done { warnings })
}

/// Copies a template, then gives the copy what is the node's own.
pub(super) async fn copy(
    context: &Context,
    node: &Node,
    place: &VmRef,
    template: u32,
    datastore: &str,
    progress: &Progress,
) -> Result<Done> {
    let attempt = format!("could not copy {}, {place}, from template {template}", node.name);
    let mark = vm::mark(&context.snapshot.blueprint, node)
        .ok_or_else(|| Error::new(Kind::Refused, format!("{} has no identity yet", node.name)))?;
    let request = pve::Clone {
        newid: place.vmid,
        name: Some(node.name.to_string()),
        description: Some(mark.while_creating().describe(node.hardware.description.as_deref())),
        full: true,
        storage: Some(datastore.to_owned()),
        pool: context.snapshot.blueprint.resource_pool.clone(),
        target: None,
    };
    source(context, &place.host, template).await?;
    progress.note("copying the template");
    let mut warnings = make(context, place, datastore, &attempt, &node.name, progress, || async {
        context.systems.pve.clone_vm(&place.host, template, &request).await
    })
    .await?;
    progress.note("setting its hardware");
    warnings.extend(update::settle(context, node, place).await?.warnings);
    progress.note("growing the disk");
    warnings.extend(grow(context, &node.name, place, &vm::boot_key(node), node.disk_gib).await?.warnings);
    Ok(Done { warnings })
}

/// What is copied is a template of ours, by its own mark. Its ID may have been given to another VM.
async fn source(context: &Context, host: &str, vmid: u32) -> Result<()> {
    let place = VmRef::new(host, vmid);
    let config = context.systems.pve.vm_config(host, vmid).await.map_err(|e| {
        Error::systems(format!("could not read the template, {place}")).hint(hint(&e)).because(e)
    })?;
    let mark = Mark::find(config.description()).filter(Mark::is_template);
    let checked = match (&mark, config.get("template")) {
        (Some(mark), Some("1")) => owned::check(context, Act::CloneFrom, vmid, &mark.node, &config),
        _ => Err(Foreign::Another),
    };
    checked.map_err(|why| owned::not_ours("a template of this cluster", &place, why))
}
