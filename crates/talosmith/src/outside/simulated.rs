//! The lab of a file: hosts, datastores and bridges as the file names them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ambient::{Clock, Random};
use engine::Systems;
use engine::secrets::write_private;
use engine::setup::{SetupPlan, Whom};
pub use lab::Lab;
use lab::{HostConfig, LabConfig, PciConfig, StorageConfig, StorageKind};
use model::spec::Spec;
use pve::{Endpoints, Token, Trust};
use secrecy::ExposeSecret;
use talos_client::Roots;

use super::{Outside, authorities, secret_part};
use crate::exit::Exit;
use crate::view::Problem;

/// The lab, with hosts, datastores and bridges as the file names them, for a caller with the rights that `proxmox setup` gives.
pub async fn lab(spec: &Spec, folder: &Path, seed: u64) -> Result<Outside, Problem> {
    let clock = lab_clock(folder);
    let lab = open_lab(spec, folder.to_owned(), clock.clone(), seed, lab::ProxmoxVersion::default())?;
    let token = least_token(&lab, &clock, spec, folder).await?;
    reach_lab(lab, clock, &token)
}

/// The lab for its administrator.
pub fn lab_as_root(spec: &Spec, folder: &Path, seed: u64) -> Result<Outside, Problem> {
    let clock = lab_clock(folder);
    let lab = open_lab(spec, folder.to_owned(), clock.clone(), seed, lab::ProxmoxVersion::default())?;
    let token = lab.facts().token;
    reach_lab(lab, clock, &token)
}

fn reach_lab(lab: Lab, clock: Clock, token: &str) -> Result<Outside, Problem> {
    let systems = world_of(&lab, clock, token)?;
    Ok(Outside { systems, name: "the lab".to_owned(), token: secret_part(token), _lab: Some(lab) })
}

fn world_of(lab: &Lab, clock: Clock, token: &str) -> Result<Systems, Problem> {
    let facts = lab.facts();
    let internal = |e: &(dyn std::error::Error + 'static)| {
        Problem::of(Exit::Internal, e).within("could not use the lab")
    };
    let address = format!("https://{}", facts.endpoint);
    let endpoints = Endpoints::parse([address.as_str()]).map_err(|e| internal(&e))?;
    let token: Token = token.parse().map_err(|e: pve::InvalidToken| internal(&e))?;
    let trust =
        Trust::Fingerprints(vec![facts.fingerprint.parse().map_err(|e: pve::InvalidTrust| internal(&e))?]);
    let net = lab.net();
    let pve = pve::Client::connect(endpoints, &token, &trust, net.clone(), clock.clone())
        .map_err(|e| internal(&e))?;
    let roots = authorities(&facts.factory_ca_pem, "the lab's factory")?;
    Ok(Systems {
        pve,
        net,
        random: Random::seeded(u64::try_from(clock.now().as_microsecond()).unwrap_or_default()),
        clock,
        factory_roots: Arc::new(Roots::only(roots)),
        found: Default::default(),
        consoles: Default::default(),
    })
}

/// The token that `proxmox setup` makes for this file, so that a right that it lacks shows in the lab as on a real Proxmox. It is
/// kept beside the world. Where the lab cannot be set up (a host is off, the file does not fit it), the last one stays, or, if
/// there is none, the administrator's: the command itself then says what is wrong.
pub async fn least_token(lab: &Lab, clock: &Clock, spec: &Spec, folder: &Path) -> Result<String, Problem> {
    let path = folder.join("token");
    let known = std::fs::read_to_string(&path).ok().map(|text| text.trim().to_owned());
    let root = lab.facts().token;
    if !model::resolve::needs_proxmox(spec) {
        return Ok(known.unwrap_or(root));
    }
    let systems = world_of(lab, clock.clone(), &root)?;
    let whom = Whom {
        user: "talosmith@pve".to_owned(),
        token: "talosmith".to_owned(),
        renew: known.is_none(),
        accounts: true,
        maintenance: true,
    };
    let made = match SetupPlan::survey(&systems, spec, &whom).await {
        Ok(setup_plan) => setup_plan.prepare(&systems.pve, |_| {}).await.ok().flatten(),
        Err(_) => None,
    };
    lab.forget_calls();
    let Some(made) = made else { return Ok(known.unwrap_or(root)) };
    let made = made.reveal();
    write_private(&path, format!("{}\n", made.expose_secret()).as_bytes(), false)
        .map_err(|e| Problem::of(Exit::Systems, &e).within(format!("could not write {}", path.display())))?;
    Ok(made.expose_secret().to_owned())
}

/// The time at which the lab in `folder` stands still.
pub fn time(folder: &Path) -> jiff::Timestamp {
    Lab::saved_time(folder).unwrap_or_else(LabConfig::first_moment)
}

/// The lab's time: it stands still between runs, and how fast it goes is decided by the runtime.
fn lab_clock(folder: &Path) -> Clock {
    Clock::from(time(folder), 1.0)
}

/// Opens the lab of a file.
pub fn open_lab(
    spec: &Spec,
    folder: PathBuf,
    clock: Clock,
    seed: u64,
    proxmox: lab::ProxmoxVersion,
) -> Result<Lab, Problem> {
    let config = LabConfig { proxmox, ..lab_config(spec, folder, seed) };
    Lab::open(config, clock).map_err(|e| {
        let problem = Problem::of(Exit::Systems, &e).within("could not open the lab");
        match e.hint() {
            Some(hint) => problem.hint(hint),
            None => problem.hint("`talosmith lab reset` deletes it and starts over"),
        }
    })
}

fn lab_config(spec: &Spec, folder: PathBuf, seed: u64) -> LabConfig {
    let mut config = LabConfig { folder: Some(folder), seed, ..LabConfig::default() };
    let named = named_hosts(spec);
    if !named.is_empty() {
        let like = |(at, name): (usize, &String)| {
            let number = u8::try_from(at + 1).unwrap_or(u8::MAX);
            HostConfig { name: name.clone(), ..HostConfig::numbered(number) }
        };
        config.hosts = named.iter().enumerate().map(like).collect();
    }
    // The lab must not be the reason why a file does not fit.
    let nodes = model::resolve::resolve(spec, None, None).map(|b| b.nodes).unwrap_or_default();
    let memory = nodes.values().map(|n| n.memory_mib << 20).sum::<u64>();
    let cores = nodes.values().map(|n| n.cores).max().unwrap_or(0);
    let (addresses, named): (Vec<String>, Vec<String>) =
        devices(spec).partition(|device| device.contains(':'));
    let address = |(at, name): (usize, String)| (name, format!("0000:{:02x}:00.0", 0x80 + at % 0x7f));
    config.mappings =
        named.into_iter().collect::<BTreeSet<_>>().into_iter().enumerate().map(address).collect();
    let addresses: BTreeSet<String> =
        addresses.into_iter().map(in_full).chain(config.mappings.values().cloned()).collect();
    for host in &mut config.hosts {
        host.memory_bytes = host.memory_bytes.max(memory + memory / 4);
        host.cpus = host.cpus.max(cores);
        for address in &addresses {
            if !host.pci.iter().any(|known| known.address == *address) {
                host.pci.push(PciConfig::graphics(address));
            }
        }
        let here = || nodes.values().filter(|n| n.host.as_ref().is_none_or(|on| *on == host.name));
        let extra = here().flat_map(|n| n.settings.extra_nics.iter().map(|nic| &nic.bridge));
        for bridge in here().map(|n| &n.bridge).chain(extra) {
            if !host.bridges.contains(bridge) {
                host.bridges.push(bridge.clone());
            }
        }
        for node in here() {
            for store in model::vm::drives(node).into_iter().filter_map(|drive| drive.datastore) {
                offer(&mut host.storages, &store, "images");
            }
        }
        let Some(wanted) = spec.hosts.get(&host.name) else { continue };
        let wanted = &wanted.datastores;
        for (id, content) in
            [(&wanted.image, "import"), (&wanted.disks, "images"), (&wanted.cloudinit, "images")]
        {
            if let Some(id) = id {
                offer(&mut host.storages, id, content);
            }
        }
    }
    config.pools.extend(spec.proxmox.pool.clone());
    if spec.network.dhcp || spec.network.extra.values().any(|extra| extra.dhcp) {
        config.dhcp = spec.network.cidr.parse().ok();
        // An operator keeps the addresses that the file says.
        let expected = nodes.values().filter(|node| node.settings.dhcp);
        config.reservations = expected.map(|node| (node.mac.clone(), node.address.into())).collect();
    }
    config.names = names(spec);
    if let Some(host) = spec.image.factory.split("://").nth(1).and_then(|rest| rest.split(['/', ':']).next())
    {
        config.factory_host = host.to_owned();
    }
    let talos = format!("v{}", spec.versions.talos.trim_start_matches('v'));
    if !config.talos_versions.contains(&talos) {
        config.talos_versions.push(talos);
    }
    config
}

/// The endpoint's name leads to the address of the cluster, as an operator's name server would say: the shared one, or that of
/// the first control plane.
fn names(spec: &Spec) -> BTreeMap<String, IpAddr> {
    let Ok(blueprint) = model::resolve::resolve(spec, None, None) else { return BTreeMap::new() };
    let host = blueprint.endpoint.split_once("://").map_or("", |(_, rest)| rest);
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    let first = blueprint.control_planes().next().map(|node| node.address.addr());
    match blueprint.vip.or(first) {
        Some(address) if host.parse::<IpAddr>().is_err() => [(host.to_owned(), address.into())].into(),
        _ => BTreeMap::new(),
    }
}

/// Makes a datastore take a kind of content.
fn offer(storages: &mut Vec<StorageConfig>, id: &str, content: &str) {
    match storages.iter_mut().find(|s| s.id == id) {
        Some(storage) if storage.content.iter().any(|c| c == content) => {}
        Some(storage) => storage.content.push(content.to_owned()),
        None => storages.push(StorageConfig {
            id: id.to_owned(),
            kind: StorageKind::Dir,
            content: vec![content.to_owned()],
            shared: false,
            bytes: 4_000_000_000_000,
        }),
    }
}

/// Devices that the file names, by address or by mapping, so that the lab's hosts have them.
fn devices(spec: &Spec) -> impl Iterator<Item = String> {
    let nodes = spec.nodes.values().filter_map(|node| node.hardware.pci.as_ref());
    let pools = spec.pools.values().filter_map(|pool| pool.hardware.pci.as_ref());
    let sizes = spec.sizes.values().filter_map(|size| size.pci.as_ref());
    nodes.chain(pools).chain(sizes).flatten().map(|device| device.mapping().to_owned())
}

/// An address of a device with its domain.
fn in_full(address: String) -> String {
    if address.len() < 12 { format!("0000:{address}") } else { address }
}

/// Every host that the file names, in order.
fn named_hosts(spec: &Spec) -> Vec<String> {
    let mut names: Vec<String> = spec.hosts.keys().cloned().collect();
    let pools = spec.pools.values().flat_map(|p| p.hosts.iter().cloned());
    names.extend(pools.chain(spec.nodes.values().filter_map(|n| n.host.clone())));
    names.sort();
    names.dedup();
    names
}
