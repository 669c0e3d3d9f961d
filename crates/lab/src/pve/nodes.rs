//! What a host answers about itself: figures, capabilities, devices, and what it sees of the web.

use serde_json::{Value, json};

use super::answer::Data;
use super::request::Call;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::{Host, REPOID};
use crate::operations::download::{factory_path, split_url};
use crate::schema::cpu;
use crate::world::World;

const KERNEL: &str = "6.17.13-2-pve";
const KERNEL_BUILD: &str = "#1 SMP PREEMPT_DYNAMIC PMX 6.17.13-2";
/// The host's own disk, beside the storages.
const ROOT_BYTES: u64 = 100 << 30;
const ROOT_USED: u64 = 6 << 30;
/// What the host itself holds of its memory.
const OWN_MEMORY: u64 = 2 << 30;

/// The row of a host in lists.
pub(super) fn host_row(host: &Host, world: &World, caller: &str) -> Value {
    let mut row = json!({
        "id": format!("node/{}", host.name), "node": host.name, "type": "node", "level": "",
        "status": if host.online { "online" } else { "offline" }, "ssl_fingerprint": host.fingerprint,
    });
    if host.online && world.hypervisor.access.may(caller, &format!("/nodes/{}", host.name), "Sys.Audit") {
        row["cpu"] = json!(0.02);
        row["maxcpu"] = json!(host.cpus);
        row["mem"] = json!(OWN_MEMORY + world.hypervisor.memory_in_use(&host.name));
        row["maxmem"] = json!(host.memory_bytes);
        row["disk"] = json!(ROOT_USED);
        row["maxdisk"] = json!(ROOT_BYTES);
        row["uptime"] = json!(host.uptime(world.now));
    }
    row
}

pub(super) fn list(world: &World, call: &Call) -> Result<Data, Refusal> {
    Ok(world
        .hypervisor
        .hosts
        .values()
        .map(|host| host_row(host, world, &call.caller))
        .collect::<Value>()
        .into())
}

pub(super) fn status(world: &World, call: &Call) -> Result<Data, Refusal> {
    let Some(host) = world.hypervisor.hosts.get(&call.node) else {
        return Err(Refusal::failed("no such node"));
    };
    let used = OWN_MEMORY + world.hypervisor.memory_in_use(&host.name);
    let free = host.memory_bytes.saturating_sub(used);
    let cores = (host.cpus / 2).max(1);
    Ok(json!({
        "pveversion": format!("pve-manager/{}/{REPOID}", world.hypervisor.version.version()),
        "uptime": host.uptime(world.now),
        "cpu": 0.02, "wait": 0, "idle": 0,
        "loadavg": ["0.30", "0.26", "0.39"],
        "memory": {"total": host.memory_bytes, "used": used, "free": free, "available": free},
        "swap": {"total": 0, "used": 0, "free": 0},
        "rootfs": {"total": ROOT_BYTES, "used": ROOT_USED, "free": ROOT_BYTES - ROOT_USED, "avail": ROOT_BYTES - ROOT_USED},
        "ksm": {"shared": 0},
        "boot-info": {"mode": "efi", "secureboot": 0},
        "kversion": format!("Linux {KERNEL} {KERNEL_BUILD}"),
        "current-kernel": {"sysname": "Linux", "release": KERNEL, "version": KERNEL_BUILD, "machine": "x86_64"},
        "cpuinfo": {
            "model": "AMD EPYC", "vendor": "AuthenticAMD", "family": "25", "mhz": "2445.424", "sockets": 1, "cores": cores,
            "cpus": host.cpus, "user_hz": 100, "hvm": "1",
            "flags": "fpu sse sse2 ht syscall nx lm pni pclmulqdq ssse3 cx16 sse4_1 sse4_2 popcnt aes xsave avx svm",
        },
    })
    .into())
}

/// The parts of a host.
pub(super) fn index(_: &World, _: &Call) -> Result<Data, Refusal> {
    let names = ["qemu", "storage", "tasks", "network", "status", "version", "capabilities", "hardware"];
    Ok(json!(names.map(|name| json!({ "name": name }))).into())
}

/// Some CPU models of each vendor.
pub(super) fn cpus(_: &World, _: &Call) -> Result<Data, Refusal> {
    let rows = cpu::models().map(|(name, vendor)| json!({"name": name, "vendor": vendor, "custom": 0}));
    Ok(rows.collect::<Value>().into())
}

/// The machine types that a guest can have.
pub(super) fn machines(_: &World, _: &Call) -> Result<Data, Refusal> {
    let row = |kind: &str, id: &str| json!({"id": id, "type": kind, "version": "10.0"});
    Ok(json!([row("i440fx", "pc-i440fx-10.0"), row("q35", "pc-q35-10.0")]).into())
}

/// The PCI devices, but for the classes that no one hands through.
pub(super) fn pci(world: &World, call: &Call) -> Result<Data, Refusal> {
    let devices = world.hypervisor.hosts.get(&call.node).map(|host| host.pci.as_slice()).unwrap_or_default();
    let left_out = call.list("pci-class-blacklist");
    let class = |text: &str| text.trim_start_matches("0x").to_owned();
    let shown = devices
        .iter()
        .filter(|device| !left_out.iter().any(|prefix| class(&device.class).starts_with(&class(prefix))));
    let rows = shown.map(|device| {
        let mut row = json!({"id": device.address});
        if call.get("verbose") != Some("0") {
            row["class"] = json!(device.class);
            row["vendor"] = json!(device.vendor);
            row["device"] = json!(device.device);
            row["device_name"] = json!(device.name);
            row["vendor_name"] = json!("NVIDIA Corporation");
            row["iommugroup"] = json!(device.iommu_group.map_or(-1, i64::from));
            if !device.subsystem_vendor.is_empty() {
                row["subsystem_vendor"] = json!(device.subsystem_vendor);
                row["subsystem_device"] = json!(device.subsystem_device);
            }
        }
        row
    });
    Ok(rows.collect::<Value>().into())
}

/// What a web server says about a file before it is fetched.
pub(super) fn query_url(world: &World, call: &Call) -> Result<Data, Refusal> {
    let url = call.text("url");
    let (host, path) = split_url(url).ok_or_else(|| Refusal::failed("invalid URL"))?;
    let name = path.rsplit('/').next().unwrap_or_default();
    if let Some(web) = world.hypervisor.web_at(url) {
        return match web.files.get(path) {
            Some(file) => Ok(json!({"filename": name, "size": file.bytes, "mimetype": file.mimetype}).into()),
            None => Err(Refusal::failed(format!("invalid server response: '{}'", web.otherwise))),
        };
    }
    let chart_list = path.ends_with("/index.yaml") && world.machines.reaches(host);
    let document = world.machines.documents.get(url).map(String::len).or(chart_list.then_some(4096));
    if let Some(size) = document {
        return Ok(json!({"filename": name, "size": size, "mimetype": "text/plain"}).into());
    }
    let Some(path) = factory_path(world, host, path) else {
        return Err(Refusal::failed(format!(
            "invalid server response: '500 Can't connect to {host}:443 (Name or service not known)'"
        )));
    };
    match world.factory.asset(path) {
        Ok(asset) => Ok(json!({"filename": name, "size": asset.bytes, "mimetype": asset.mime}).into()),
        Err(fault) => Err(Refusal::failed(format!("invalid server response: '{}'", fault.line()))),
    }
}
