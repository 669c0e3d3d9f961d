//! A machine as resources: what `talosctl get` shows. Each is computed from the machine's state when somebody asks; only
//! the YAML form of a spec is filled.

use jiff::Timestamp;

use crate::machine::{Boot, BootDisk, EtcdService, Machine, Machines, Phase, Registration};

/// One resource, without its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) namespace: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    pub(crate) owner: &'static str,
    pub(crate) yaml: String,
}

fn resource(
    namespace: &'static str,
    kind: &'static str,
    id: &str,
    owner: &'static str,
    yaml: String,
) -> Resource {
    Resource { namespace, kind, id: id.to_owned(), owner, yaml }
}

/// All resources of a running machine.
pub(crate) fn resources(machines: &Machines, vmid: u32, now: Timestamp) -> Vec<Resource> {
    let Some(machine) = machines.get(vmid) else { return vec![] };
    if !matches!(machine.phase, Phase::Maintenance(_) | Phase::Configured(_)) {
        return vec![];
    }
    let mut found = platform(machine);
    found.extend(status(machines, vmid));
    found.extend(network(machines, vmid, machine));
    found.extend(disks(&machine.hardware));
    found.extend(services(machines, vmid));
    found.extend(configured(machines, vmid, machine, now));
    found
}

fn platform(machine: &Machine) -> Vec<Resource> {
    let boot = &machine.hardware;
    let image = boot.image.as_ref();
    let version = image.map_or("", |i| i.talos.as_str());
    let platform = image.map_or("", |i| i.platform.as_str());
    let instance = crate::machine::stable_uuid(&[&boot.uuid, &boot.name]).replace('-', "");
    let mut found = vec![
        resource(
            "runtime",
            "Versions.runtime.talos.dev",
            "version",
            "runtime.VersionController",
            format!("name: Talos\nversion: {version}\n"),
        ),
        resource(
            "hardware",
            "SystemInformations.hardware.talos.dev",
            "systeminformation",
            "hardware.SystemInfoController",
            format!(
                "manufacturer: QEMU\nproductName: Standard PC (i440FX + PIIX, 1996)\nversion: pc-i440fx-10.1\nuuid: {}\nwakeUpType: Power Switch\n",
                boot.uuid
            ),
        ),
        resource(
            "runtime",
            "PlatformMetadatas.talos.dev",
            "platformmetadata",
            "network.PlatformConfigApplyController",
            format!("platform: {platform}\nhostname: {}\ninstanceId: {instance}\n", boot.name),
        ),
        resource(
            "runtime",
            "SecurityStates.talos.dev",
            "securitystate",
            "runtime.SecurityStateController",
            "secureBoot: false\n".to_owned(),
        ),
    ];
    if let Some(image) = image {
        found.push(resource("runtime", "ExtensionStatuses.runtime.talos.dev", "0", "runtime.ExtensionStatusController",
            format!("image: schematic.sqsh\nmetadata:\n    name: schematic\n    version: {}\n    author: Image Factory (https://factory.talos.dev)\n    description: Virtual extension which specifies the schematic of the image built with Image Factory.\n    compatibility:\n        talos:\n            version: '>= 1.0.0'\n", image.schematic)));
    }
    found
}

fn status(machines: &Machines, vmid: u32) -> Option<Resource> {
    let status = machines.status(vmid)?;
    let mut yaml =
        format!("stage: {}\nstatus:\n    ready: {}\n    unmetConditions:", status.stage, status.ready);
    if status.unmet.is_empty() {
        yaml += " []\n";
    } else {
        yaml += "\n";
        for (name, reason) in &status.unmet {
            yaml += &format!("        - name: {name}\n          reason: {reason}\n");
        }
    }
    Some(resource(
        "runtime",
        "MachineStatuses.runtime.talos.dev",
        "machine",
        "runtime.MachineStatusController",
        yaml,
    ))
}

fn network(machines: &Machines, vmid: u32, machine: &Machine) -> Vec<Resource> {
    let mut found = vec![
        resource(
            "network",
            "HostnameStatuses.net.talos.dev",
            "hostname",
            "network.HostnameSpecController",
            format!("hostname: {}\ndomainname: \"\"\n", machine.hostname()),
        ),
        resource(
            "network",
            "NetworkStatuses.net.talos.dev",
            "status",
            "network.StatusController",
            "addressReady: true\nconnectivityReady: true\nhostnameReady: true\netcFilesReady: true\n"
                .to_owned(),
        ),
    ];
    let cards = machines.addresses(vmid);
    let lines: String = cards.iter().flat_map(|(_, nets)| nets).map(|net| format!("    - {net}\n")).collect();
    let addresses = if lines.is_empty() { " []\n".to_owned() } else { format!("\n{lines}") };
    for id in ["accumulative", "current", "default", "routed"] {
        let yaml = format!("addresses:{addresses}sortAlgorithm: v1\n");
        found.push(resource(
            "network",
            "NodeAddresses.net.talos.dev",
            id,
            "network.NodeAddressController",
            yaml,
        ));
    }
    for (number, (mac, nets)) in cards.iter().enumerate() {
        let (index, name) = (number + 3, format!("eth{number}"));
        let alt = mac.replace(':', "");
        let slot = format!("0000:00:{:02x}.0", 18 + number);
        let yaml = format!(
            "altNames:\n    - ens{}\n    - enx{alt}\nindex: {index}\ntype: ether\nlinkIndex: 0\nflags: UP,BROADCAST,RUNNING,MULTICAST,LOWER_UP\nhardwareAddr: {mac}\npermanentAddr: {mac}\nbroadcastAddr: ff:ff:ff:ff:ff:ff\nmtu: 1500\nqueueDisc: fq_codel\noperationalState: up\nkind: \"\"\nslaveKind: \"\"\nbusPath: \"{slot}\"\ndriver: virtio_net\ndriverVersion: 1.0.0\nproductID: \"0x1000\"\nvendorID: \"0x1af4\"\nproduct: Virtio network device\nvendor: Red Hat, Inc.\nlinkState: true\nspeedMbit: 4294967295\nport: Other\nduplex: Unknown\n",
            18 + number
        );
        found.push(resource(
            "network",
            "LinkStatuses.net.talos.dev",
            &name,
            "network.LinkStatusController",
            yaml,
        ));
        for net in nets {
            let family = if net.addr().is_ipv4() { "inet4" } else { "inet6" };
            let yaml = format!(
                "address: {net}\nlinkIndex: {index}\nlinkName: {name}\nfamily: {family}\nscope: global\nflags: permanent\npriority: 0\n"
            );
            let id = format!("{name}/{net}");
            found.push(resource(
                "network",
                "AddressStatuses.net.talos.dev",
                &id,
                "network.AddressStatusController",
                yaml,
            ));
        }
    }
    let lo = "index: 1\ntype: loopback\nlinkIndex: 0\nflags: UP,LOOPBACK,RUNNING,LOWER_UP\nhardwareAddr: \"00:00:00:00:00:00\"\npermanentAddr: \"\"\nbroadcastAddr: \"00:00:00:00:00:00\"\nmtu: 65536\nqueueDisc: noqueue\noperationalState: unknown\nkind: \"\"\nslaveKind: \"\"\nlinkState: true\nport: Other\nduplex: Unknown\n";
    found.push(resource(
        "network",
        "LinkStatuses.net.talos.dev",
        "lo",
        "network.LinkStatusController",
        lo.to_owned(),
    ));
    found
}

/// A disk as Talos sees it.
pub(crate) struct Device<'a> {
    pub(crate) id: String,
    pub(crate) disk: &'a BootDisk,
    pub(crate) transport: &'static str,
    pub(crate) model: &'static str,
    pub(crate) wwid: String,
    pub(crate) bus_path: String,
    symlink: String,
}

/// The disks of a machine with the names that Linux gives them: `sdX` for SCSI and SATA, `vdX` for virtio, by slot.
pub(crate) fn devices(boot: &Boot) -> Vec<Device<'_>> {
    let (mut sd, mut vd) = (b'a', b'a');
    boot.disks
        .iter()
        .enumerate()
        .map(|(number, disk)| {
            let virtio = disk.slot.starts_with("virtio");
            let letter = if virtio { &mut vd } else { &mut sd };
            let id = format!("{}d{}", if virtio { "v" } else { "s" }, char::from(*letter));
            *letter = letter.saturating_add(1);
            let transport = if disk.slot.starts_with("sata") { "sata" } else { "virtio" };
            // virtio-blk has no field for a world wide name.
            let wwn = disk.wwn.as_deref().filter(|_| !virtio).map(|w| w.trim_start_matches("0x").to_owned());
            let serial = disk.serial.as_deref();
            let symlink = match (transport, &wwn, serial) {
                (_, Some(wwn), _) => format!("wwn-0x{wwn}"),
                ("sata", None, Some(serial)) => format!("ata-QEMU_HARDDISK_{serial}"),
                (_, None, Some(serial)) if virtio => format!("virtio-{serial}"),
                (_, None, Some(serial)) => format!("scsi-0QEMU_QEMU_HARDDISK_{serial}"),
                (_, None, None) => format!("scsi-0QEMU_QEMU_HARDDISK_drive-{}", disk.slot),
            };
            Device {
                id,
                disk,
                transport,
                model: if virtio { "" } else { "QEMU HARDDISK" },
                wwid: wwn.map(|w| format!("naa.{w}")).unwrap_or_default(),
                bus_path: format!(
                    "/pci0000:00/0000:00:05.0/virtio{number}/host{number}/target{number}:0:0/{number}:0:0:0"
                ),
                symlink,
            }
        })
        .collect()
}

fn disks(boot: &Boot) -> Vec<Resource> {
    let mut found: Vec<Resource> = devices(boot)
        .into_iter()
        .map(|device| {
            let optional = |key: &str, value: &str| if value.is_empty() { String::new() } else { format!("{key}: {value}\n") };
            let yaml = format!(
                "dev_path: /dev/{}\nsize: {}\npretty_size: {}\nio_size: 512\nsector_size: 512\nreadonly: false\ncdrom: false\n{}{}{}modalias: scsi:t-0x00\nbus_path: {}\nsub_system: /sys/class/block\ntransport: {}\nrotational: true\nsymlinks:\n    - /dev/disk/by-id/{}\n",
                device.id, device.disk.bytes, pretty(device.disk.bytes),
                optional("model", device.model),
                optional("serial", device.disk.serial.as_deref().unwrap_or_default()),
                optional("wwid", &device.wwid),
                device.bus_path, device.transport, device.symlink,
            );
            resource("runtime", "Disks.block.talos.dev", &device.id, "block.DisksController", yaml)
        })
        .collect();
    let fixed = [
        (
            "loop0",
            "dev_path: /dev/loop0\nsize: 77824000\npretty_size: 78 MB\nio_size: 512\nsector_size: 512\nreadonly: true\ncdrom: false\nbus_path: /virtual\nsub_system: /sys/class/block\n",
        ),
        (
            "sr0",
            "dev_path: /dev/sr0\nsize: 376832\npretty_size: 377 kB\nio_size: 2048\nsector_size: 2048\nreadonly: true\ncdrom: true\nmodel: QEMU DVD-ROM\nmodalias: scsi:t-0x05\nbus_path: /pci0000:00/0000:00:01.1/ata2/host1/target1:0:0/1:0:0:0\nsub_system: /sys/class/block\ntransport: sata\nrotational: true\nsymlinks:\n    - /dev/disk/by-label/cidata\n",
        ),
    ];
    let other = fixed.map(|(id, yaml)| {
        resource("runtime", "Disks.block.talos.dev", id, "block.DisksController", yaml.to_owned())
    });
    found.extend(other);
    if let Some(system) = devices(boot).first() {
        let yaml = format!("diskID: {0}\ndevPath: /dev/{0}\n", system.id);
        found.push(resource(
            "runtime",
            "SystemDisks.block.talos.dev",
            "system-disk",
            "block.SystemDiskController",
            yaml,
        ));
    }
    found
}

/// A size as Talos prints it: powers of a thousand, two digits at least.
fn pretty(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut power = 0;
    let mut scaled = bytes;
    while scaled >= 1000 && power < UNITS.len() - 1 {
        scaled /= 1000;
        power += 1;
    }
    let unit = 1000_u64.pow(u32::try_from(power).unwrap_or(0));
    let tenths = bytes.saturating_mul(10).saturating_add(unit / 2) / unit;
    if tenths < 100 && power > 0 {
        format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[power])
    } else {
        format!("{} {}", (tenths + 5) / 10, UNITS[power])
    }
}

fn services(machines: &Machines, vmid: u32) -> Vec<Resource> {
    let running = machines.services(vmid).into_iter().filter(|service| service.state == "Running");
    running
        .map(|service| {
            let (healthy, unknown) = (service.healthy == Some(true), service.healthy.is_none());
            let yaml = format!("running: true\nhealthy: {healthy}\nunknown: {unknown}\n");
            resource(
                "runtime",
                "Services.v1alpha1.talos.dev",
                &service.id,
                "v1alpha1.ServiceController",
                yaml,
            )
        })
        .collect()
}

fn configured(machines: &Machines, vmid: u32, machine: &Machine, now: Timestamp) -> Vec<Resource> {
    let machine_type = |text: &str| {
        resource(
            "config",
            "MachineTypes.config.talos.dev",
            "machine-type",
            "config.MachineTypeController",
            format!("{text}\n"),
        )
    };
    let clock = |synced: bool| {
        let yaml = format!("synced: {synced}\nepoch: 0\nsyncDisabled: false\n");
        resource("runtime", "TimeStatuses.v1alpha1.talos.dev", "node", "time.SyncController", yaml)
    };
    let Some(node) = machine.node() else { return vec![machine_type("unknown"), clock(true)] };
    let settings = &node.settings;
    let name = machine.hostname();
    let mut found = vec![
        machine_type(settings.role.text()),
        clock(node.clock_from <= now),
        resource(
            "k8s",
            "Nodenames.kubernetes.talos.dev",
            "nodename",
            "k8s.NodenameController",
            format!("nodename: {name}\nhostnameVersion: \"1\"\nskipNodeRegistration: false\n"),
        ),
        resource(
            "cluster",
            "Infos.cluster.talos.dev",
            "current",
            "cluster.InfoController",
            format!("clusterId: {}\nclusterName: {}\n", settings.cluster_id, settings.cluster_name),
        ),
    ];
    let persistent = machine.disk.config.as_deref().unwrap_or(&node.config);
    for (id, text) in [("v1alpha1", node.config.as_str()), ("persistent", persistent)] {
        let yaml = format!("{}\n", serde_json::Value::from(text));
        found.push(resource(
            "config",
            "MachineConfigs.config.talos.dev",
            id,
            "config.AcquireController",
            yaml,
        ));
    }
    if matches!(node.etcd, EtcdService::Running { healthy_from: Some(at), .. } if at <= now)
        && let Some(data) = machine.disk.etcd
    {
        let yaml = format!("memberID: {:016x}\n", data.member);
        found.push(resource("etcd", "EtcdMembers.etcd.talos.dev", "local", "etcd.MemberController", yaml));
    }
    if let Registration::Registered { ready_at, .. } = node.registration {
        let ready = ready_at.is_some_and(|at| at <= now);
        let yaml = format!(
            "nodename: {name}\nnodeReady: {ready}\nunschedulable: false\nlabels: {{}}\nannotations: {{}}\npodCIDRs: []\n"
        );
        found.push(resource(
            "k8s",
            "NodeStatuses.kubernetes.talos.dev",
            name,
            "k8s.NodeStatusController",
            yaml,
        ));
    }
    found.extend(members(machines, vmid, machine));
    found
}

/// The cluster's members, as far as discovery shows them: this machine, and others with the same identity.
fn members(machines: &Machines, vmid: u32, machine: &Machine) -> Vec<Resource> {
    let Some(own) = machine.node() else { return vec![] };
    let same = machines.iter().filter(|(other, m)| {
        let shares = m
            .node()
            .is_some_and(|n| n.settings.discovery && n.settings.cluster_id == own.settings.cluster_id);
        *other == vmid || (own.settings.discovery && shares)
    });
    same.filter_map(|(_, m)| {
        let node = m.node()?;
        let version = m.hardware.image.as_ref().map_or("", |i| i.talos.as_str());
        let control_plane = if node.is_control_plane() { "controlPlane:\n    port: 6443\n" } else { "" };
        let id = crate::machine::stable_uuid(&[&m.hardware.uuid, "identity"]).replace('-', "");
        let address = m.address().map(|a| a.to_string()).unwrap_or_default();
        let yaml = format!(
            "nodeId: {id}\naddresses:\n    - {address}\nhostname: {0}\nmachineType: {1}\noperatingSystem: Talos ({version})\n{control_plane}",
            m.hostname(), node.settings.role.text(),
        );
        Some(resource("cluster", "Members.cluster.talos.dev", m.hostname(), "cluster.MemberController", yaml))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::pretty;

    #[test]
    fn sizes_are_printed_as_talos_prints_them() {
        let cases = [
            (8_589_934_592, "8.6 GB"),
            (376_832, "377 kB"),
            (218_267_648, "218 MB"),
            (34_359_738_368, "34 GB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(pretty(bytes), text);
        }
    }
}
