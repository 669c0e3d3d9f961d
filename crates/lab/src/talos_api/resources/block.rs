//! Disks with the names and attributes that Linux shows for each bus, and the volumes on them.

use serde_json::{Value, json};

use super::{Resource, View};
use crate::machine::{Boot, Phase, devices};
use crate::stable::stable_uuid;

pub(super) fn of(view: &View<'_>, kind: &str) -> Option<Vec<Resource>> {
    let boot = &view.machine.hardware;
    match kind {
        "Disks.block.talos.dev" => Some(disks(boot)),
        "SystemDisks.block.talos.dev" => devices(boot).first().map(|system| {
            let tree = json!({"diskID": system.id, "devPath": format!("/dev/{}", system.id)});
            vec![Resource::new("system-disk", "block.SystemDiskController", tree)]
        }),
        "DiscoveredVolumes.block.talos.dev" => Some(discovered(view)),
        "VolumeStatuses.block.talos.dev" => Some(volumes(view)),
        _ => None,
    }
}

/// What every machine has beside its disks: the root image and the cloud-init drive.
fn fixed() -> [(&'static str, Value); 2] {
    [
        (
            "loop0",
            json!({
                "dev_path": "/dev/loop0", "size": 77_824_000, "pretty_size": "78 MB", "io_size": 512, "sector_size": 512,
                "readonly": true, "cdrom": false, "bus_path": "/virtual", "sub_system": "/sys/class/block",
                "symlinks": ["/dev/disk/by-diskseq/1"],
            }),
        ),
        (
            "sr0",
            json!({
                "dev_path": "/dev/sr0", "size": 376_832, "pretty_size": "377 kB", "io_size": 2048, "sector_size": 2048,
                "readonly": true, "cdrom": true, "model": "QEMU DVD-ROM", "modalias": "scsi:t-0x05",
                "bus_path": "/pci0000:00/0000:00:01.1/ata2/host1/target1:0:0/1:0:0:0",
                "sub_system": "/sys/class/block", "transport": "sata", "rotational": true,
                "symlinks": ["/dev/disk/by-label/cidata"],
            }),
        ),
    ]
}

fn disks(boot: &Boot) -> Vec<Resource> {
    let own = devices(boot).into_iter().map(|device| {
        let mut tree = json!({
            "dev_path": format!("/dev/{}", device.id), "size": device.disk.bytes,
            "pretty_size": pretty(device.disk.bytes), "io_size": 512, "sector_size": 512, "readonly": false,
            "cdrom": false, "bus_path": device.bus_path, "sub_system": "/sys/class/block",
            "transport": device.transport, "rotational": true, "symlinks": device.symlinks,
        });
        if !device.model.is_empty() {
            tree["model"] = device.model.into();
            tree["modalias"] = "scsi:t-0x00".into();
        }
        if let Some(serial) = &device.disk.serial {
            tree["serial"] = serial.as_str().into();
        }
        if !device.wwid.is_empty() {
            tree["wwid"] = device.wwid.into();
        }
        (device.id, tree)
    });
    let other = fixed().into_iter().map(|(id, tree)| (id.to_owned(), tree));
    own.chain(other).map(|(id, tree)| Resource::new(id, "block.DisksController", tree)).collect()
}

fn discovered(view: &View<'_>) -> Vec<Resource> {
    let volume = |id: &str, path: String, size: u64, name: &str, extra: Value| {
        let mut tree = json!({
            "dev_path": format!("/dev/{id}"), "type": if extra.get("parent").is_some() { "partition" } else { "disk" },
            "device_path": path, "offset": 0, "size": size, "pretty_size": pretty(size), "sector_size": 512,
            "io_size": 512, "name": name,
        });
        for (key, value) in extra.as_object().into_iter().flatten() {
            tree[key] = value.clone();
        }
        Resource::new(id, "block.DiscoveryController", tree)
    };
    let probed = |block: u64, size: u64| json!({"block_size": block, "filesystem_block_size": block, "probed_size": size});
    let mut found = vec![
        volume(
            "loop0",
            "/sys/devices/virtual/block/loop0".into(),
            77_824_000,
            "squashfs",
            probed(131_072, 77_820_000),
        ),
        volume("sr0", "/sys/devices/pci0000:00/block/sr0".into(), 376_832, "iso9660", probed(2048, 376_832)),
    ];
    for (number, device) in devices(&view.machine.hardware).into_iter().enumerate() {
        let path = format!("/sys/devices{}/block/{}", device.bus_path, device.id);
        let label = if number == 0 { "gpt" } else { "" };
        found.push(volume(&device.id, path.clone(), device.disk.bytes, label, json!({})));
        if number > 0 {
            continue;
        }
        for partition in partitions(view) {
            let id = format!("{}{}", device.id, partition.index);
            let extra = json!({
                "parent": device.id, "partition_label": partition.label, "partition_index": partition.index,
                "partition_uuid": partition.uuid,
            });
            found.push(volume(&id, format!("{path}/{id}"), partition.bytes, partition.filesystem, extra));
        }
    }
    found
}

struct Partition {
    label: &'static str,
    index: u64,
    bytes: u64,
    filesystem: &'static str,
    uuid: String,
}

/// The partitions of the system disk: those of the image, and once configured STATE and EPHEMERAL.
fn partitions(view: &View<'_>) -> Vec<Partition> {
    let disk = view.machine.hardware.disks.first().map_or(0, |disk| disk.bytes);
    let uuid = |label: &str| stable_uuid(&[&view.machine.hardware.uuid, "partition", label]);
    let partition =
        |label, index, bytes, filesystem| Partition { label, index, bytes, filesystem, uuid: uuid(label) };
    let mut all = vec![
        partition("EFI", 1, 105 << 20, "vfat"),
        partition("BIOS", 2, 1 << 20, ""),
        partition("BOOT", 3, 1000 << 20, "xfs"),
        partition("META", 4, 1 << 20, "talosmeta"),
    ];
    if matches!(view.machine.phase, Phase::Configured(_)) {
        let used: u64 = all.iter().map(|p| p.bytes).sum();
        all.push(partition("STATE", 5, 100 << 20, "xfs"));
        all.push(partition("EPHEMERAL", 6, disk.saturating_sub(used + (103 << 20)), "xfs"));
    }
    all
}

/// Folders and overlays on EPHEMERAL that a configured machine keeps: path, kind, parent, label, mode.
const FOLDERS: &[(&str, &str, &str, &str, u64)] = &[
    ("/etc/cni", "overlay", "EPHEMERAL", "cni_conf_t", 493),
    ("/etc/kubernetes", "overlay", "EPHEMERAL", "k8s_conf_t", 493),
    ("/opt", "overlay", "EPHEMERAL", "opt_t", 493),
    ("/usr/libexec/kubernetes", "overlay", "EPHEMERAL", "k8s_plugin_t", 493),
    ("/var/lib", "directory", "EPHEMERAL", "ephemeral_t", 448),
    ("/var/lib/cni", "directory", "/var/lib", "cni_state_t", 448),
    ("/var/lib/containerd", "directory", "/var/lib", "containerd_state_t", 448),
    ("/var/lib/kubelet", "directory", "/var/lib", "kubelet_state_t", 448),
    ("/var/lib/kubelet/seccomp", "directory", "/var/lib/kubelet", "seccomp_profile_t", 448),
    ("/var/lib/kubelet/seccomp/profiles", "directory", "/var/lib/kubelet/seccomp", "seccomp_profile_t", 448),
    ("/var/log", "directory", "EPHEMERAL", "var_log_t", 493),
    ("/var/log/audit", "directory", "/var/log", "audit_log_t", 448),
    ("/var/log/audit/kube", "directory", "/var/log/audit", "kube_log_t", 448),
    ("/var/log/containers", "directory", "/var/log", "containers_log_t", 493),
    ("/var/log/pods", "directory", "/var/log", "pods_log_t", 493),
    ("/var/mnt", "directory", "EPHEMERAL", "ephemeral_t", 493),
    ("/var/run", "symlink", "", "", 0),
    ("/var/run/lock", "directory", "/var/run", "var_lock_t", 493),
];

fn volumes(view: &View<'_>) -> Vec<Resource> {
    let system = devices(&view.machine.hardware).first().map(|d| d.id.clone()).unwrap_or_default();
    let volume = |id: &str, tree: Value| {
        Resource::new(id, "block.VolumeManagerController", tree).labelled("talos.dev/system-volume")
    };
    let label = |name: &str| format!("system_u:object_r:{name}:s0");
    let parts = partitions(view);
    let mut found = vec![];
    for (name, target, selinux, quota, mode) in [
        ("META", "", "", false, 0),
        ("STATE", "/system/state", "system_state_t", false, 448),
        ("EPHEMERAL", "/var", "ephemeral_t", true, 493),
    ] {
        let mount = (!target.is_empty()).then(|| {
            json!({
                "targetPath": target, "selinuxLabel": label(selinux), "projectQuotaSupport": quota, "fileMode": mode,
            })
        });
        let mut tree = match parts.iter().find(|part| part.label == name) {
            Some(part) => {
                let place = format!("/dev/{system}{}", part.index);
                let mut tree = json!({
                    "phase": "ready", "type": "partition", "location": place, "mountLocation": place,
                    "partitionIndex": part.index, "parentLocation": format!("/dev/{system}"),
                    "partitionUUID": part.uuid, "size": part.bytes, "prettySize": pretty(part.bytes),
                });
                if part.filesystem == "xfs" {
                    tree["filesystem"] = "xfs".into();
                }
                tree
            }
            None if name == "STATE" => json!({"phase": "missing", "type": "partition"}),
            None => continue,
        };
        if let Some(mount) = mount {
            tree["mountSpec"] = mount;
        }
        found.push(volume(name, tree));
    }
    let Some(node) = view.node() else { return found };
    for (path, kind, parent, selinux, mode) in FOLDERS {
        let mut tree = json!({"phase": "ready", "type": kind});
        let last = path.rsplit('/').next().unwrap_or(path);
        let mut mount = json!({
            "targetPath": if *kind == "directory" { last } else { path },
            "selinuxLabel": if selinux.is_empty() { String::new() } else { label(selinux) },
            "projectQuotaSupport": false,
        });
        if *mode > 0 {
            mount["fileMode"] = (*mode).into();
        }
        match *kind {
            "overlay" => tree["parentID"] = (*parent).into(),
            "directory" => mount["parentId"] = (*parent).into(),
            _ => tree["symlink"] = json!({"symlinkTargetPath": "/run", "force": true}),
        }
        if path.ends_with("/kube") {
            mount["uid"] = 65534.into();
            mount["gid"] = 65534.into();
        }
        if ["cni", "profiles", "kube"].contains(&last) && *kind == "directory" {
            mount["recursiveRelabel"] = true.into();
        }
        tree["mountSpec"] = mount;
        found.push(volume(path, tree));
    }
    if node.is_control_plane() {
        found.push(volume(
            "ETCD",
            json!({"phase": "ready", "type": "directory", "mountSpec": {
                "targetPath": "etcd", "selinuxLabel": label("etcd_data_t"), "projectQuotaSupport": false,
                "parentId": "/var/lib", "fileMode": 448, "uid": 60, "gid": 60, "recursiveRelabel": true,
            }}),
        ));
    }
    found.extend(user_volumes(view));
    found
}

/// Volumes that the configuration asks for, on the disks that its selectors choose.
fn user_volumes(view: &View<'_>) -> Vec<Resource> {
    let Some(node) = view.node() else { return vec![] };
    node.settings
        .volumes
        .iter()
        .map(|volume| {
            let id = format!("u-{}", volume.name);
            let disks = devices(&view.machine.hardware);
            let chosen =
                disks.iter().skip(1).find(|device| volume.selects(&device.id, &device.wwid, device.disk));
            let tree = match chosen {
                Some(device) => json!({
                    "phase": "ready", "type": "partition", "location": format!("/dev/{}1", device.id),
                    "mountLocation": format!("/dev/{}1", device.id), "partitionIndex": 1,
                    "parentLocation": format!("/dev/{}", device.id), "size": device.disk.bytes,
                    "partitionUUID": stable_uuid(&[&view.machine.hardware.uuid, "partition", &id]),
                    "prettySize": pretty(device.disk.bytes), "filesystem": "xfs",
                    "mountSpec": {
                        "targetPath": volume.name, "selinuxLabel": "system_u:object_r:ephemeral_t:s0",
                        "projectQuotaSupport": false, "parentId": "/var/mnt", "fileMode": 493,
                    },
                }),
                None => json!({
                    "phase": "failed", "type": "partition",
                    "errorMessage": format!("no disks matched for volume {id:?}"),
                }),
            };
            Resource::new(id, "block.VolumeManagerController", tree).labelled("talos.dev/user-volume")
        })
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::BootDisk;

    #[test]
    fn sizes_are_printed_as_talos_prints_them() {
        let cases = [
            (8_589_934_592, "8.6 GB"),
            (376_832, "377 kB"),
            (218_267_648, "218 MB"),
            (34_359_738_368, "34 GB"),
            (1_048_576, "1.0 MB"),
            (104_857_600, "105 MB"),
            (10_313_793_536, "10 GB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(pretty(bytes), text);
        }
    }

    #[test]
    fn a_disk_shows_what_its_bus_can_carry() {
        let disk = |slot: &str, serial: Option<&str>, wwn: Option<&str>| BootDisk {
            slot: slot.into(),
            bytes: 1 << 30,
            serial: serial.map(Into::into),
            wwn: wwn.map(Into::into),
        };
        let mut boot = crate::machine::tests::boot(101);
        boot.disks = vec![
            disk("scsi0", None, None),
            disk("scsi1", Some("TSDATA1"), Some("0x5ee7a105d15c0001")),
            disk("scsi2", Some("TSDATA2"), None),
            disk("sata0", Some("TSSATA4"), Some("0x5ee7a105d15c0004")),
            disk("virtio0", Some("TSVIRTIO3"), Some("0x5ee7a105d15c0005")),
        ];
        let shown: Vec<_> = devices(&boot)
            .into_iter()
            .map(|d| {
                (
                    d.id.clone(),
                    d.transport,
                    d.wwid.clone(),
                    d.symlinks[1..].join(" ").replace("/dev/disk/by-id/", ""),
                )
            })
            .collect();
        let row = |id: &str, transport, wwid: &str, links: &str| {
            (id.to_owned(), transport, wwid.to_owned(), links.to_owned())
        };
        assert_eq!(
            shown,
            [
                row("sda", "virtio", "", "scsi-0QEMU_QEMU_HARDDISK_drive-scsi0"),
                row("sdb", "virtio", "naa.5ee7a105d15c0001", "scsi-35ee7a105d15c0001 wwn-0x5ee7a105d15c0001"),
                row("sdc", "virtio", "", "scsi-0QEMU_QEMU_HARDDISK_TSDATA2"),
                row(
                    "sdd",
                    "sata",
                    "naa.5ee7a105d15c0004",
                    "ata-QEMU_HARDDISK_TSSATA4 wwn-0x5ee7a105d15c0004"
                ),
                row("vda", "virtio", "", "virtio-TSVIRTIO3"),
            ]
        );
    }
}
