//! The official system extensions, as the factory lists them for a release.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Names without their publisher, versions (examples, the same for every release), and what they are for. The factory knows
/// more; these are what virtual machines use.
const KNOWN: &[(&str, &str, &str)] = &[
    ("amd-ucode", "20260221", "AMD CPU microcode"),
    ("amdgpu", "20260221", "AMD GPU driver and firmware"),
    ("binfmt-misc", "v1.13.0", "registers binary formats"),
    ("btrfs", "v1.13.0", "Btrfs kernel module"),
    ("cloudflared", "2026.2.0", "Cloudflare tunnel"),
    ("drbd", "9.2.14-v1.13.0", "DRBD kernel module"),
    ("fuse3", "3.17.4", "FUSE"),
    ("gasket-driver", "5815ee3-v1.13.0", "driver of Coral accelerators"),
    ("glibc", "2.42", "GNU C library"),
    ("gvisor", "20260202.0", "gVisor container runtime"),
    ("hello-world-service", "v1.13.0", "an example"),
    ("i915", "20260221-v1.13.0", "Intel graphics driver and firmware"),
    ("intel-ucode", "20260210", "Intel CPU microcode"),
    ("iscsi-tools", "v0.2.0", "iSCSI initiator"),
    ("kata-containers", "3.27.0", "Kata container runtime"),
    ("lldpd", "1.0.20", "LLDP agent"),
    ("mei", "v1.13.0", "Intel management engine interface"),
    ("nfs-utils", "v2.8.4", "NFS server and client tools"),
    ("nfsd", "v1.13.0", "NFS server kernel module"),
    ("nonfree-kmod-nvidia-lts", "580.126.16-v1.13.0", "NVIDIA kernel modules"),
    ("nonfree-kmod-nvidia-production", "595.58.03-v1.13.0", "NVIDIA kernel modules"),
    ("nut-client", "2.8.4", "monitor of power supplies"),
    ("nvidia-container-toolkit-lts", "580.126.16-v1.18.2", "NVIDIA container toolkit"),
    ("nvidia-container-toolkit-production", "595.58.03-v1.18.2", "NVIDIA container toolkit"),
    ("nvidia-open-gpu-kernel-modules-lts", "580.126.16-v1.13.0", "open NVIDIA kernel modules"),
    ("nvidia-open-gpu-kernel-modules-production", "595.58.03-v1.13.0", "open NVIDIA kernel modules"),
    ("nvme-cli", "v2.16", "NVMe tools"),
    ("qemu-guest-agent", "10.2.0", "QEMU guest agent"),
    ("realtek-firmware", "20260221", "firmware of Realtek cards"),
    ("spin", "v0.22.0", "Spin container runtime"),
    ("stargz-snapshotter", "v0.18.1", "lazy image pulls"),
    ("tailscale", "1.94.2", "Tailscale"),
    ("thunderbolt", "v1.13.0", "Thunderbolt kernel modules"),
    ("util-linux-tools", "2.41.3", "tools of util-linux"),
    ("wasmedge", "v0.6.0", "WasmEdge container runtime"),
    ("xen-guest-agent", "0.4.0", "Xen guest agent"),
    ("youki", "0.5.7", "youki container runtime"),
    ("zfs", "2.4.1-v1.13.0", "ZFS kernel module and tools"),
];

/// Whether an extension can be official: all have one publisher.
pub(super) fn is_official(name: &str) -> bool {
    name.strip_prefix("siderolabs/").is_some_and(|rest| !rest.is_empty())
}

/// The extensions of a release.
pub(super) fn list(version: &str) -> Value {
    let entry = |(name, tag, about): &(&str, &str, &str)| {
        let place = format!("ghcr.io/siderolabs/{name}:{tag}");
        json!({
            "name": format!("siderolabs/{name}"),
            "ref": place,
            "digest": format!("sha256:{}", hex::encode(Sha256::digest(format!("{version} {place}")))),
            "author": "Sidero Labs",
            "description": format!("[core] This system extension provides {about}.\n"),
        })
    };
    KNOWN.iter().map(entry).collect()
}
