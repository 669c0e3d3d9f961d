//! What the name of a volume says: what kind of content it is, and whose. Each kind of storage reads names in its own way and
//! has its own words for one that it cannot read.

use crate::StorageKind;
use crate::hypervisor::storage::{Storage, Storages};

/// A name that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// `images`, `iso` and so on.
    pub(crate) content: &'static str,
    /// The VM that it belongs to.
    pub(crate) owner: Option<u32>,
    pub(crate) format: String,
}

impl Storages {
    /// Reads `storage:name`. The error is Proxmox' own.
    pub(crate) fn named(&self, volid: &str) -> Result<Named, String> {
        let Some((id, name)) = volid.split_once(':') else {
            return Err(format!("unable to parse volume ID '{volid}'"));
        };
        let storage = self.defined.get(id).ok_or_else(|| format!("storage '{id}' does not exist"))?;
        read(storage, name)
    }
}

fn read(storage: &Storage, name: &str) -> Result<Named, String> {
    match storage.kind {
        kind if kind.keeps_files() => file(name),
        StorageKind::ZfsPool => {
            let own = name.rsplit('/').next().unwrap_or(name);
            let kinds = ["base-", "basevol-", "vm-", "subvol-"];
            let format = if own.contains("vol-") { "subvol" } else { "raw" };
            block(own, &kinds, format).ok_or_else(|| format!("unable to parse zfs volume name '{name}'"))
        }
        StorageKind::Rbd => {
            let own = name.rsplit('/').next().unwrap_or(name);
            block(own, &["base-", "vm-"], "raw")
                .ok_or_else(|| format!("unable to parse rbd volume name '{name}'"))
        }
        kind => {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            let ends = |c: char| c.is_ascii_alphanumeric();
            if !name.chars().all(plain) || !name.starts_with(ends) || !name.ends_with(ends) {
                return Err(format!("lvm name '{name}' contains illegal characters"));
            }
            let kinds: &[&str] = if kind == StorageKind::Lvm { &["vm-"] } else { &["vm-", "base-"] };
            block(name, kinds, "raw").ok_or_else(|| format!("unable to parse lvm volume name '{name}'"))
        }
    }
}

/// `vm-100-disk-0` and the like.
fn block(name: &str, kinds: &[&str], format: &str) -> Option<Named> {
    let rest = kinds.iter().find_map(|kind| name.strip_prefix(kind))?;
    let (owner, rest) = rest.split_once('-')?;
    let owner = Some(owner.parse().ok()?);
    (!rest.is_empty() && !rest.contains(char::is_whitespace)).then(|| Named {
        content: "images",
        owner,
        format: format.to_owned(),
    })
}

/// A file below the directory of a storage.
fn file(name: &str) -> Result<Named, String> {
    let unread = || format!("unable to parse directory volume name '{name}'");
    let of = |content: &'static str, format: &str| Named { content, owner: None, format: format.to_owned() };
    let ends = |file: &str, endings: &[&str]| {
        let low = file.to_lowercase();
        endings.iter().any(|ending| low.len() > ending.len() && low.ends_with(ending))
    };
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [owner, image] if is_number(owner) => image_of(owner, image),
        [template, base, owner, image] if is_number(template) && is_number(owner) => {
            image_of(template, base)?;
            image_of(owner, image)
        }
        ["iso", file] if ends(file, &[".iso", ".img"]) => Ok(of("iso", "raw")),
        ["vztmpl", file] if ends(file, &[".tar", ".tar.gz", ".tar.xz", ".tar.zst", ".tar.bz2"]) => {
            Ok(of("vztmpl", "raw"))
        }
        ["backup", file] if [".tgz", ".tar", ".vma"].iter().any(|ending| file.contains(ending)) => {
            let owner = file.split('-').nth(2).and_then(|owner| owner.parse().ok());
            Ok(Named { owner: owner.filter(|_| file.starts_with("vzdump-")), ..of("backup", "raw") })
        }
        ["snippets", file] if !file.is_empty() => Ok(of("snippets", "raw")),
        ["import", file] if ends(file, &[".ova", ".ovf", ".qcow2", ".raw", ".vmdk"]) => {
            Ok(of("import", file.rsplit('.').next().unwrap_or_default()))
        }
        _ => Err(unread()),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn image_of(owner: &str, image: &str) -> Result<Named, String> {
    let format = ["raw", "qcow2", "vmdk", "subvol"].into_iter().find(|format| {
        let stem = image.strip_suffix(format).and_then(|stem| stem.strip_suffix('.'));
        stem.is_some_and(|stem| !stem.is_empty() && !stem.contains(char::is_whitespace))
    });
    match format {
        Some("qcow2") if image.starts_with("snap-") => {
            Err(format!("'{image}' is a snapshot filename, not a volume!"))
        }
        Some(format) => Ok(Named { content: "images", owner: owner.parse().ok(), format: format.to_owned() }),
        None => Err(format!("unable to parse volume filename '{image}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_it_is_and_whose() {
        let read = |name: &str| file(name).map(|named| (named.content, named.owner, named.format));
        let is = |content, owner, format: &str| Ok((content, owner, format.to_owned()));
        assert_eq!(read("100/vm-100-disk-0.qcow2"), is("images", Some(100), "qcow2"));
        assert_eq!(read("9/base-9-disk-0.raw/100/vm-100-disk-0.qcow2"), is("images", Some(100), "qcow2"));
        assert_eq!(read("iso/a.ISO"), is("iso", None, "raw"));
        assert_eq!(read("import/a.qcow2"), is("import", None, "qcow2"));
        assert_eq!(
            read("100/vm-100-disk-0"),
            Err("unable to parse volume filename 'vm-100-disk-0'".to_owned())
        );
        assert_eq!(read("8G"), Err("unable to parse directory volume name '8G'".to_owned()));
        assert_eq!(
            read("iso/a.qcow2"),
            Err("unable to parse directory volume name 'iso/a.qcow2'".to_owned())
        );
        assert_eq!(block("vm-7-disk-0", &["vm-"], "raw").and_then(|named| named.owner), Some(7));
        assert_eq!(block("disk-0", &["vm-"], "raw"), None);
    }
}
