//! What a factory calls the things that it makes of a schematic.

use std::fmt;

/// Where a machine takes its first settings from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Platform {
    /// A cloud-init drive, as virtual machines on Proxmox have.
    #[default]
    Nocloud,
    /// Nothing: real hardware, or a virtual machine like it.
    Metal,
}

/// The kind of processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Arch {
    /// 64-bit x86.
    #[default]
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

/// The form of a disk image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskFormat {
    /// The bytes of the disk.
    Raw,
    /// QEMU's own form.
    Qcow2,
    /// Hyper-V's form.
    Vhd,
    /// VMware's form.
    Ova,
}

/// How a disk image is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compression {
    /// Not at all: the only way that Proxmox imports.
    None,
    /// gzip.
    Gz,
    Xz,
    /// Zstandard.
    Zst,
    /// tar and gzip.
    TarGz,
}

/// A thing that a factory makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asset {
    /// A CD image.
    Iso,
    /// A disk image.
    Disk(DiskFormat, Compression),
    /// The kernel alone.
    Kernel,
    /// The initial file system.
    Initramfs,
    /// The kernel's command line.
    Cmdline,
    /// Kernel and initial file system as one EFI program.
    Uki,
    /// The installer as an OCI archive.
    InstallerArchive,
}

/// Which variant of an image is meant. The default is what virtual machines on Proxmox boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ImageName {
    pub platform: Platform,
    /// The processor.
    pub arch: Arch,
    /// Whether it is signed for secure boot.
    pub secure_boot: bool,
}

impl ImageName {
    /// The file's name on a factory.
    #[must_use]
    pub fn file(&self, asset: Asset) -> String {
        let Self { platform, arch, .. } = self;
        let secure = if self.secure_boot { "-secureboot" } else { "" };
        match asset {
            Asset::Iso => format!("{platform}-{arch}{secure}.iso"),
            Asset::Disk(format, compression) => {
                let format = match format {
                    DiskFormat::Raw => "raw",
                    DiskFormat::Qcow2 => "qcow2",
                    DiskFormat::Vhd => "vhd",
                    DiskFormat::Ova => "ova",
                };
                let packed = match compression {
                    Compression::None => "",
                    Compression::Gz => ".gz",
                    Compression::Xz => ".xz",
                    Compression::Zst => ".zst",
                    Compression::TarGz => ".tar.gz",
                };
                format!("{platform}-{arch}{secure}.{format}{packed}")
            }
            Asset::Kernel => format!("kernel-{arch}"),
            Asset::Initramfs => format!("initramfs-{arch}.xz"),
            Asset::Cmdline => format!("cmdline-{platform}-{arch}{secure}"),
            Asset::Uki => format!("{platform}-{arch}{secure}-uki.efi"),
            Asset::InstallerArchive => format!("{platform}-installer-{arch}{secure}.tar"),
        }
    }

    /// The path on any factory.
    #[must_use]
    pub fn path(&self, schematic_id: &str, talos_version: &str, asset: Asset) -> String {
        format!("/image/{schematic_id}/{}/{}", tag(talos_version), self.file(asset))
    }

    /// The installer image on a factory's host, or on a registry that mirrors it.
    #[must_use]
    pub fn installer(&self, host: &str, schematic_id: &str, talos_version: &str) -> String {
        let secure = if self.secure_boot { "-secureboot" } else { "" };
        format!("{host}/{}-installer{secure}/{schematic_id}:{}", self.platform, tag(talos_version))
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nocloud => "nocloud",
            Self::Metal => "metal",
        })
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        })
    }
}

fn tag(version: &str) -> String {
    format!("v{}", version.strip_prefix('v').unwrap_or(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_asset_has_the_name_that_factories_give_it() {
        let plain = ImageName::default();
        let secure = ImageName { platform: Platform::Metal, arch: Arch::Arm64, secure_boot: true };
        let qcow2 = Asset::Disk(DiskFormat::Qcow2, Compression::None);
        let raw = Asset::Disk(DiskFormat::Raw, Compression::Zst);
        for (image, asset, name) in [
            (plain, Asset::Iso, "nocloud-amd64.iso"),
            (plain, qcow2, "nocloud-amd64.qcow2"),
            (plain, Asset::Disk(DiskFormat::Raw, Compression::TarGz), "nocloud-amd64.raw.tar.gz"),
            (plain, Asset::Kernel, "kernel-amd64"),
            (plain, Asset::Cmdline, "cmdline-nocloud-amd64"),
            (plain, Asset::InstallerArchive, "nocloud-installer-amd64.tar"),
            (secure, Asset::Iso, "metal-arm64-secureboot.iso"),
            (secure, raw, "metal-arm64-secureboot.raw.zst"),
            (secure, Asset::Initramfs, "initramfs-arm64.xz"),
            (secure, Asset::Uki, "metal-arm64-secureboot-uki.efi"),
            (secure, Asset::Disk(DiskFormat::Ova, Compression::None), "metal-arm64-secureboot.ova"),
        ] {
            assert_eq!(image.file(asset), name);
        }
        assert_eq!(plain.path("abc", "1.13.9", qcow2), "/image/abc/v1.13.9/nocloud-amd64.qcow2");
        assert_eq!(
            secure.installer("f.example", "abc", "v1.13.9"),
            "f.example/metal-installer-secureboot/abc:v1.13.9"
        );
    }
}
