//! What the kernel of a machine finds: its command line, its disks by the names that Linux gives them, and what it prints.

use super::{Boot, BootDisk, Machine};

/// The words with which the kernel was started.
pub(crate) fn command_line(machine: &Machine) -> String {
    let platform = machine.image().map_or("", |image| image.platform.as_str());
    if machine.disk.few_arguments {
        return format!(
            "talos.platform={platform} console=tty1 net.ifnames=0 init_on_alloc=1 slab_nomerge pti=on"
        );
    }
    format!(
        "talos.platform={platform} console=tty1 console=ttyS0 net.ifnames=0 init_on_alloc=1 slab_nomerge pti=on consoleblank=0 nvme_core.io_timeout=4294967295 printk.devkmsg=on"
    )
}

/// A disk as Talos sees it.
pub(crate) struct Device<'a> {
    pub(crate) id: String,
    pub(crate) disk: &'a BootDisk,
    pub(crate) transport: &'static str,
    pub(crate) model: &'static str,
    pub(crate) wwid: String,
    pub(crate) bus_path: String,
    pub(crate) symlinks: Vec<String>,
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
            let sata = disk.slot.starts_with("sata");
            // virtio-blk has no field for a world wide name.
            let wwn = disk.wwn.as_deref().filter(|_| !virtio).map(|w| w.trim_start_matches("0x").to_owned());
            let serial = disk.serial.as_deref();
            let mut names = match (sata, &wwn, serial) {
                (false, Some(wwn), _) => vec![format!("scsi-3{wwn}"), format!("wwn-0x{wwn}")],
                (true, wwn, serial) => {
                    let serial = serial.unwrap_or("QM00001");
                    let mut names = vec![format!("ata-QEMU_HARDDISK_{serial}")];
                    names.extend(wwn.iter().map(|wwn| format!("wwn-0x{wwn}")));
                    names
                }
                (false, None, Some(serial)) if virtio => vec![format!("virtio-{serial}")],
                (false, None, Some(serial)) => vec![format!("scsi-0QEMU_QEMU_HARDDISK_{serial}")],
                (false, None, None) if virtio => vec![],
                (false, None, None) => vec![format!("scsi-0QEMU_QEMU_HARDDISK_drive-{}", disk.slot)],
            };
            names.sort();
            let symlinks = std::iter::once(format!("/dev/disk/by-diskseq/{}", 9 + number))
                .chain(names.into_iter().map(|name| format!("/dev/disk/by-id/{name}")))
                .collect();
            Device {
                id,
                disk,
                transport: if sata { "sata" } else { "virtio" },
                model: if virtio { "" } else { "QEMU HARDDISK" },
                wwid: wwn.map(|w| format!("naa.{w}")).unwrap_or_default(),
                bus_path: format!(
                    "/pci0000:00/0000:00:05.0/virtio{number}/host{number}/target{number}:0:0/{number}:0:0:0"
                ),
                symlinks,
            }
        })
        .collect()
}

/// What the kernel found.
pub(crate) fn kernel_lines(machine: &Machine) -> Vec<String> {
    let boot = &machine.hardware;
    let bytes = boot.memory_mib << 20;
    let mut lines = vec![
        format!("Linux version {} (talos) #1 SMP PREEMPT_DYNAMIC", machine.profile().kernel),
        format!("Command line: {}", command_line(machine)),
        format!("BIOS-e820: [mem 0x0000000000100000-0x{:016x}] usable", bytes.saturating_sub(1)),
        "Hypervisor detected: KVM".to_owned(),
        "DMI: QEMU Standard PC (Q35 + ICH9, 2009)".to_owned(),
        format!("smpboot: Allowing {} CPUs, 0 hotplug CPUs", boot.cores),
        format!("Memory: {}K available", boot.memory_mib * 1024),
        format!("smp: Brought up 1 node, {} CPUs", boot.cores),
    ];
    lines.extend(devices(boot).into_iter().map(|device| {
        let blocks = device.disk.bytes / 512;
        format!("sd 2:0:0:0: [{}] {blocks} 512-byte logical blocks", device.id)
    }));
    let nics = boot.nics.iter().enumerate();
    lines.extend(nics.map(|(number, nic)| format!("virtio_net virtio{number} eth{number}: {}", nic.mac)));
    lines.push("SELinux:  policy capability network_peer_controls=1".to_owned());
    lines.push("Run /init as init process".to_owned());
    lines
}
