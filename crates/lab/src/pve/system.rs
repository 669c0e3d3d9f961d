//! What a host tells about its own system: time, names, services, packages, certificates.

use serde_json::{Value, json};

use super::answer::Data;
use super::kept::{fields, filled};
use super::request::Call;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::{Host, QEMU};
use crate::world::World;

/// The services that every host has, with what each is for.
const SERVICES: &[(&str, &str)] = &[
    ("chrony", "chrony, an NTP client/server"),
    ("corosync", "Corosync Cluster Engine"),
    ("cron", "Regular background program processing daemon"),
    ("ksmtuned", "Kernel Samepage Merging (KSM) Tuning Daemon"),
    ("postfix", "Postfix Mail Transport Agent"),
    ("proxmox-firewall", "Proxmox nftables firewall"),
    ("pve-cluster", "The Proxmox VE cluster filesystem"),
    ("pve-firewall", "Proxmox VE firewall"),
    ("pve-ha-crm", "PVE Cluster HA Resource Manager Daemon"),
    ("pve-ha-lrm", "PVE Local HA Resource Manager Daemon"),
    ("pvedaemon", "PVE API Daemon"),
    ("pvefw-logger", "Proxmox VE firewall logger"),
    ("pveproxy", "PVE API Proxy Server"),
    ("pvescheduler", "Proxmox VE scheduler"),
    ("pvestatd", "PVE Status Daemon"),
    ("spiceproxy", "PVE SPICE Proxy Server"),
    ("sshd", "OpenBSD Secure Shell server"),
    ("syslog", "Journal Service"),
    ("systemd-journald", "Journal Service"),
    ("systemd-timesyncd", "Network Time Synchronization"),
];

fn host<'a>(world: &'a World, call: &Call) -> Result<&'a Host, Refusal> {
    world.hypervisor.hosts.get(&call.node).ok_or_else(|| Refusal::failed("no such node"))
}

pub(super) fn time(world: &World, call: &Call) -> Result<Data, Refusal> {
    let set = world.hypervisor.kept.single(&filled(call.path, call));
    let zone = set.and_then(|set| set.get("timezone").cloned()).unwrap_or_else(|| json!("Etc/UTC"));
    let host = host(world, call)?;
    let second = world.now.as_second() + host.clock_error;
    let name = zone.as_str().unwrap_or("UTC");
    let local = jiff::tz::TimeZone::get(name).map_or(0, |zone| zone.to_offset(world.now).seconds());
    Ok(json!({"timezone": zone, "time": second, "localtime": second + i64::from(local)}).into())
}

pub(super) fn dns(world: &World, call: &Call) -> Result<Data, Refusal> {
    let set = world.hypervisor.kept.single(&filled(call.path, call)).cloned();
    Ok(set.map_or_else(|| json!({"search": "lab.local", "dns1": "1.1.1.1"}), |set| json!(set)).into())
}

/// Replaces the whole of a small file.
pub(super) fn replace(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let set = fields(call);
    *world.hypervisor.kept.single_mut(&filled(call.path, call)) = set;
    Ok(Value::Null.into())
}

pub(super) fn hosts(world: &World, call: &Call) -> Result<Data, Refusal> {
    let (path, host) = (filled(call.path, call), host(world, call)?);
    let kept = &world.hypervisor.kept;
    let data = kept.single(&path).and_then(|set| set.get("data").cloned()).unwrap_or_else(|| {
        json!(format!(
            "127.0.0.1 localhost.localdomain localhost\n{} {name}.lab.local {name}\n",
            host.address,
            name = host.name
        ))
    });
    Ok(json!({"data": data, "digest": kept.digest(&path)}).into())
}

pub(super) fn set_hosts(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let path = filled(call.path, call);
    let kept = &mut world.hypervisor.kept;
    if call.get("digest").is_some_and(|given| given != kept.digest(&path)) {
        return Err(Refusal::failed(
            "detected modified configuration - file changed by other user? Try again.",
        ));
    }
    kept.single_mut(&path).insert("data".to_owned(), json!(call.text("data")));
    Ok(Value::Null.into())
}

fn service(name: &str, about: &str) -> Value {
    let inactive = matches!(name, "corosync" | "systemd-timesyncd");
    json!({
        "name": name, "service": name, "desc": about, "unit-state": "enabled",
        "state": if inactive { "dead" } else { "running" }, "active-state": if inactive { "inactive" } else { "active" },
    })
}

pub(super) fn services(_: &World, _: &Call) -> Result<Data, Refusal> {
    Ok(SERVICES.iter().map(|(name, about)| service(name, about)).collect::<Value>().into())
}

pub(super) fn service_state(_: &World, call: &Call) -> Result<Data, Refusal> {
    let found = SERVICES.iter().find(|(name, _)| *name == call.text("service"));
    let (name, about) =
        found.ok_or_else(|| Refusal::failed(format!("unknown service '{}'", call.text("service"))))?;
    Ok(service(name, about).into())
}

/// The packages that make the version.
pub(super) fn packages(world: &World, _: &Call) -> Result<Data, Refusal> {
    let packages = world.hypervisor.version.packages().into_iter().chain([("pve-qemu-kvm", QEMU)]);
    let row = |(name, version): (&str, &str)| json!({"Package": name, "Version": version, "OldVersion": version, "CurrentState": "Installed", "Origin": "Proxmox"});
    Ok(packages.map(row).collect::<Value>().into())
}

pub(super) fn certificates(world: &World, call: &Call) -> Result<Data, Refusal> {
    let host = host(world, call)?;
    Ok(json!([{
        "filename": "pve-ssl.pem", "fingerprint": host.fingerprint, "pem": host.identity.certificate_pem,
        "subject": format!("/OU=PVE Cluster Node/O=Proxmox Virtual Environment/CN={}.lab.local", host.name),
        "issuer": "/CN=Proxmox Virtual Environment/OU=lab/O=PVE Cluster Manager CA",
        "san": [host.name, host.address.to_string(), "localhost", "127.0.0.1"],
        "public-key-type": "id-ecPublicKey", "public-key-bits": 256,
    }])
    .into())
}

/// No subscription.
pub(super) fn subscription(_: &World, _: &Call) -> Result<Data, Refusal> {
    Ok(json!({
        "status": "notfound", "message": "There is no subscription key",
        "url": "https://www.proxmox.com/en/proxmox-virtual-environment/pricing",
    })
    .into())
}

/// Figures of the last hour, one row a minute.
pub(super) fn figures(world: &World, call: &Call) -> Result<Data, Refusal> {
    let host = host(world, call)?;
    let last = world.now.as_second() / 60 * 60;
    let used = world.hypervisor.memory_in_use(&host.name);
    let rows = (0..70).map(|step| last - 60 * (69 - step)).map(|second| {
        if second < host.booted.as_second() {
            return json!({ "time": second });
        }
        json!({
            "time": second, "cpu": 0.02, "maxcpu": host.cpus, "memused": used, "memtotal": host.memory_bytes,
            "loadavg": 0.3, "iowait": 0, "netin": 0, "netout": 0, "roottotal": 100_u64 << 30, "rootused": 6_u64 << 30,
        })
    });
    Ok(rows.collect::<Value>().into())
}
