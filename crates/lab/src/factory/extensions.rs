//! The official system extensions, as the factory lists them for a release.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Names without their publisher, the first minor release of Talos that the lab plays and that has them, versions (examples,
/// the same for every release), and what they are for.
const KNOWN: &[(&str, u32, &str, &str)] = &[
    ("amazon-ena", 12, "2.16.1-v1.13.0", "driver of Amazon network adapters"),
    ("amd-ucode", 12, "20260221", "AMD CPU microcode"),
    ("amdgpu", 12, "20260221", "AMD GPU driver and firmware"),
    ("binfmt-misc", 12, "v1.13.0", "registers binary formats"),
    ("bird2", 12, "2.18", "BIRD routing daemon"),
    ("bnx2-bnx2x", 12, "20260221", "firmware of Broadcom NetXtreme cards"),
    ("btrfs", 12, "v1.13.0", "Btrfs kernel module"),
    ("chelsio-drivers", 12, "v1.13.0", "drivers of Chelsio cards"),
    ("chelsio-firmware", 12, "20260221", "firmware of Chelsio cards"),
    ("cloudflared", 12, "2026.2.0", "Cloudflare tunnel"),
    ("crun", 12, "1.26", "crun container runtime"),
    ("ctr", 12, "v2.2.4", "command line of containerd"),
    ("drbd", 12, "9.2.14-v1.13.0", "DRBD kernel module"),
    ("dvb-cx23885", 12, "v1.13.0", "driver of CX23885 receivers"),
    ("dvb-m88ds3103", 12, "v1.13.0", "driver of M88DS3103 receivers"),
    ("ecr-credential-provider", 12, "v1.35.0", "credentials for Amazon registries"),
    ("fuse3", 12, "3.17.4", "FUSE"),
    ("gasket-driver", 12, "5815ee3-v1.13.0", "driver of Coral accelerators"),
    ("glibc", 12, "2.42", "GNU C library"),
    ("gpio-pinctrl", 12, "v1.13.0", "GPIO kernel modules"),
    ("gvisor", 12, "20260202.0", "gVisor container runtime"),
    ("gvisor-debug", 12, "v1.0.0", "debugging of gVisor"),
    ("hailort", 12, "4.23.0-v1.13.0", "driver of Hailo accelerators"),
    ("harbor-credential-provider", 14, "v0.1.0", "credentials for Harbor registries"),
    ("hello-world-service", 12, "v1.13.0", "an example"),
    ("hyperv-guest-agent", 14, "v1.0.0", "Hyper-V guest agent"),
    ("i915", 12, "20260221-v1.13.0", "Intel graphics driver and firmware"),
    ("intel-ice-firmware", 12, "20260221", "firmware of Intel E800 cards"),
    ("intel-npu", 13, "v1.13.0", "driver of Intel neural processors"),
    ("intel-ucode", 12, "20260210", "Intel CPU microcode"),
    ("iscsi-tools", 12, "v0.2.0", "iSCSI initiator"),
    ("joydev", 13, "v1.13.0", "joystick kernel module"),
    ("kata-containers", 12, "3.27.0", "Kata container runtime"),
    ("kata-containers-snp", 14, "3.27.0", "Kata container runtime with SEV-SNP"),
    ("lldpd", 12, "1.0.20", "LLDP agent"),
    ("mdadm", 12, "v4.5", "tools of software RAID"),
    ("mei", 12, "v1.13.0", "Intel management engine interface"),
    ("mellanox-mstflint", 12, "4.34.1", "tools of Mellanox cards"),
    ("metal-agent", 12, "v0.1.4", "agent of bare-metal providers"),
    ("multipath-tools", 12, "0.13.0", "multipath tools"),
    ("nebula", 12, "1.10.0", "Nebula"),
    ("netbird", 12, "0.64.0", "NetBird"),
    ("newt", 12, "1.8.0", "Newt tunnel"),
    ("nfs-utils", 12, "v2.8.4", "NFS server and client tools"),
    ("nfsd", 12, "v1.13.0", "NFS server kernel module"),
    ("nfsrahead", 12, "2.8.4", "read-ahead of NFS"),
    ("nonfree-kmod-nvidia-lts", 12, "580.126.16-v1.13.0", "NVIDIA kernel modules"),
    ("nonfree-kmod-nvidia-production", 12, "595.58.03-v1.13.0", "NVIDIA kernel modules"),
    ("nut-client", 12, "2.8.4", "monitor of power supplies"),
    ("nvidia-container-toolkit-lts", 12, "580.126.16-v1.18.2", "NVIDIA container toolkit"),
    ("nvidia-container-toolkit-production", 12, "595.58.03-v1.18.2", "NVIDIA container toolkit"),
    ("nvidia-fabricmanager-lts", 12, "580.126.16", "NVIDIA fabric manager"),
    ("nvidia-fabricmanager-production", 12, "595.58.03", "NVIDIA fabric manager"),
    ("nvidia-gdrdrv-device", 12, "v2.5.1", "NVIDIA GPUDirect device"),
    ("nvidia-open-gpu-kernel-modules-lts", 12, "580.126.16-v1.13.0", "open NVIDIA kernel modules"),
    ("nvidia-open-gpu-kernel-modules-production", 12, "595.58.03-v1.13.0", "open NVIDIA kernel modules"),
    ("nvme-cli", 12, "v2.16", "NVMe tools"),
    ("panfrost", 12, "v1.13.0", "Mali graphics kernel module"),
    ("px-fuse", 13, "v1.13.0", "Portworx kernel module"),
    ("qemu-guest-agent", 12, "10.2.0", "QEMU guest agent"),
    ("qlogic-firmware", 12, "20260221", "firmware of QLogic cards"),
    ("realtek-firmware", 12, "20260221", "firmware of Realtek cards"),
    ("revpi-firmware", 12, "v1.13.0", "kernel modules of Revolution Pi"),
    ("rockchip-rknn", 13, "v1.13.0", "driver of Rockchip neural processors"),
    ("soci-snapshotter", 12, "v0.12.1", "lazy image pulls"),
    ("spin", 12, "v0.22.0", "Spin container runtime"),
    ("stargz-snapshotter", 12, "v0.18.1", "lazy image pulls"),
    ("tailscale", 12, "1.94.2", "Tailscale"),
    ("tenstorrent", 12, "2.6.0-v1.13.0", "driver of Tenstorrent accelerators"),
    ("thunderbolt", 12, "v1.13.0", "Thunderbolt kernel modules"),
    ("trident-iscsi-tools", 12, "v0.2.0", "iSCSI tools for Trident"),
    ("uhid", 13, "v1.13.0", "user-space HID kernel module"),
    ("uinput", 12, "v1.13.0", "user-space input kernel module"),
    ("usb-audio-drivers", 12, "v1.13.0", "drivers of USB sound cards"),
    ("usb-modem-drivers", 12, "v1.13.0", "drivers of USB modems"),
    ("util-linux-tools", 12, "2.41.3", "tools of util-linux"),
    ("v4l-uvc-drivers", 12, "v1.13.0", "drivers of USB cameras"),
    ("vc4", 12, "v1.13.0", "Broadcom graphics kernel module"),
    ("vmtoolsd-guest-agent", 12, "v1.5.0", "VMware guest agent"),
    ("wasmedge", 12, "v0.6.0", "WasmEdge container runtime"),
    ("xdma-driver", 12, "v1.13.0", "driver of Xilinx DMA"),
    ("xe", 12, "20260221-v1.13.0", "Intel Xe graphics driver and firmware"),
    ("xen-guest-agent", 12, "0.4.0", "Xen guest agent"),
    ("youki", 12, "0.5.7", "youki container runtime"),
    ("zerotier", 12, "1.16.0", "ZeroTier"),
    ("zfs", 12, "2.4.1-v1.13.0", "ZFS kernel module and tools"),
];

/// Older names under which the factory finds some of them.
const ALIASES: &[(&str, &str)] = &[
    ("v4l-uvc", "v4l-uvc-drivers"),
    ("usb-modem", "usb-modem-drivers"),
    ("gasket", "gasket-driver"),
    ("talos-vmtoolsd", "vmtoolsd-guest-agent"),
    ("xe-guest-utilities", "xen-guest-agent"),
    ("nvidia-container-toolkit", "nvidia-container-toolkit-lts"),
    ("nvidia-open-gpu-kernel-modules", "nvidia-open-gpu-kernel-modules-lts"),
    ("nonfree-kmod-nvidia", "nonfree-kmod-nvidia-lts"),
    ("nvidia-fabricmanager", "nvidia-fabricmanager-lts"),
    ("i915-ucode", "i915"),
    ("amdgpu-firmware", "amdgpu"),
];

/// The minor release of a version of Talos.
pub(super) fn minor(talos: &str) -> u32 {
    talos.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0)
}

/// Whether a release has an extension of that name.
pub(super) fn is_official(name: &str, talos: &str) -> bool {
    let Some(bare) = name.strip_prefix("siderolabs/") else { return false };
    let bare = ALIASES.iter().find(|(alias, _)| *alias == bare).map_or(bare, |(_, name)| name);
    KNOWN.iter().any(|(known, since, ..)| *known == bare && is_in(*since, talos))
}

/// Whether a release has what came with a minor release. What the lab's oldest has, older ones have too.
fn is_in(since: u32, talos: &str) -> bool {
    since <= minor(talos).max(12)
}

/// The extensions of a release.
pub(crate) fn list(talos: &str) -> Value {
    let entry = |(name, _, tag, about): &(&str, u32, &str, &str)| {
        let place = format!("ghcr.io/siderolabs/{name}:{tag}");
        json!({
            "name": format!("siderolabs/{name}"),
            "ref": place,
            "digest": format!("sha256:{}", hex::encode(Sha256::digest(format!("{talos} {place}")))),
            "author": "Sidero Labs",
            "description": format!("[core] This system extension provides {about}.\n"),
        })
    };
    KNOWN.iter().filter(|(_, since, ..)| is_in(*since, talos)).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_what_came_with_it_or_before() {
        for (name, talos, there) in [
            ("siderolabs/qemu-guest-agent", "v1.12.11", true),
            ("siderolabs/uhid", "v1.12.11", false),
            ("siderolabs/uhid", "v1.13.9", true),
            ("siderolabs/hyperv-guest-agent", "v1.13.9", false),
            ("siderolabs/hyperv-guest-agent", "v1.14.0", true),
            ("siderolabs/i915-ucode", "v1.13.9", true),
            ("siderolabs/nope", "v1.13.9", false),
            ("qemu-guest-agent", "v1.13.9", false),
        ] {
            assert_eq!(is_official(name, talos), there, "{name} in {talos}");
        }
        assert!(KNOWN.is_sorted());
        let count = |talos: &str| list(talos).as_array().map_or(0, Vec::len);
        assert_eq!((count("v1.12.11"), count("v1.13.9"), count("v1.14.0")), (78, 83, 86));
    }
}
