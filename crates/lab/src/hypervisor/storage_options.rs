//! What the definition of each kind of storage may say: contents, options that must be there, and options that stay as they
//! were first given.

use std::collections::{BTreeMap, BTreeSet};

use crate::StorageKind;
use crate::schema::formats;

/// What a definition of one kind may say. Options are separated by spaces.
pub(crate) struct Plugin {
    pub(crate) kind: StorageKind,
    contents: &'static str,
    default: &'static str,
    required: &'static str,
    /// Need not be there, and cannot be changed.
    fixed: &'static str,
    optional: &'static str,
}

const FILES: &str = "backup images import iso rootdir snippets vztmpl";
const PLUGINS: &[Plugin] = &[
    Plugin {
        kind: StorageKind::Dir,
        contents: "backup images import iso none rootdir snippets vztmpl",
        default: "images rootdir",
        required: "path",
        fixed: "snapshot-as-volume-chain",
        optional: "bwlimit content content-dirs create-base-path create-subdirs disable format is_mountpoint \
                   max-protected-backups mkdir nodes preallocation prune-backups shared",
    },
    Plugin {
        kind: StorageKind::Btrfs,
        contents: "backup images import iso none rootdir snippets vztmpl",
        default: "images rootdir",
        required: "path",
        fixed: "",
        optional: "content create-base-path create-subdirs disable format is_mountpoint max-protected-backups mkdir \
                   nocow nodes preallocation prune-backups shared",
    },
    Plugin {
        kind: StorageKind::Nfs,
        contents: FILES,
        default: "images",
        required: "export path server",
        fixed: "snapshot-as-volume-chain",
        optional: "bwlimit content content-dirs create-base-path create-subdirs disable format max-protected-backups \
                   mkdir nodes options preallocation prune-backups",
    },
    Plugin {
        kind: StorageKind::Cifs,
        contents: FILES,
        default: "images",
        required: "path server share",
        fixed: "snapshot-as-volume-chain",
        optional: "bwlimit content content-dirs create-base-path create-subdirs disable domain format \
                   max-protected-backups mkdir nodes options password preallocation prune-backups smbversion subdir \
                   username",
    },
    Plugin {
        kind: StorageKind::CephFs,
        contents: "backup import iso snippets vztmpl",
        default: "backup",
        required: "path",
        fixed: "",
        optional: "bwlimit content content-dirs create-base-path create-subdirs disable format fs-name fuse keyring \
                   max-protected-backups mkdir monhost nodes options prune-backups subdir username",
    },
    Plugin {
        kind: StorageKind::Pbs,
        contents: "backup none",
        default: "backup",
        required: "datastore server",
        fixed: "",
        optional: "content disable encryption-key fingerprint master-pubkey max-protected-backups namespace nodes \
                   password port prune-backups username",
    },
    Plugin {
        kind: StorageKind::Lvm,
        contents: "images rootdir",
        default: "images",
        required: "vgname",
        fixed: "base",
        optional: "bwlimit content disable nodes saferemove saferemove-stepsize saferemove_throughput shared \
                   snapshot-as-volume-chain tagged_only",
    },
    Plugin {
        kind: StorageKind::LvmThin,
        contents: "images rootdir",
        default: "images rootdir",
        required: "thinpool vgname",
        fixed: "",
        optional: "bwlimit content disable nodes",
    },
    Plugin {
        kind: StorageKind::ZfsPool,
        contents: "images rootdir",
        default: "images rootdir",
        required: "pool",
        fixed: "",
        optional: "blocksize bwlimit content disable mountpoint nodes sparse",
    },
    Plugin {
        kind: StorageKind::Rbd,
        contents: "images rootdir",
        default: "images",
        required: "",
        fixed: "",
        optional: "bwlimit content data-pool disable keyring krbd monhost namespace nodes pool username",
    },
];

fn has(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}

/// The rules for a kind, by Proxmox' name for it.
pub(crate) fn plugin(kind: &str) -> Option<&'static Plugin> {
    PLUGINS.iter().find(|plugin| plugin.kind.as_str() == kind)
}

impl Plugin {
    /// The contents of a storage whose definition names none.
    pub(crate) fn default_contents(&self) -> BTreeSet<String> {
        self.default.split_whitespace().map(str::to_owned).collect()
    }

    /// The contents of a list that a storage of this kind can have. What it cannot have is left out without a word.
    pub(crate) fn contents(&self, list: &str) -> Result<BTreeSet<String>, String> {
        let known = formats::items(list).into_iter().filter(|item| has(self.contents, item));
        let known: BTreeSet<String> = known.map(str::to_owned).collect();
        if known.contains("none") && known.len() > 1 {
            Err("unable to combine 'none' with other content types".to_owned())
        } else if known.is_empty() && !has(self.contents, "none") {
            Err("storage does not support content type 'none'".to_owned())
        } else {
            Ok(known)
        }
    }

    /// Checks the options of a new definition, or of a change to one.
    pub(crate) fn check(&self, options: &BTreeMap<String, String>, new: bool) -> Result<(), String> {
        for (key, value) in options {
            if !new && (has(self.required, key) || has(self.fixed, key)) {
                return Err(format!("can't change value of fixed parameter '{key}'"));
            }
            if ![self.required, self.fixed, self.optional].iter().any(|list| has(list, key)) {
                return Err(format!("unexpected property '{key}'"));
            }
            if key == "content" {
                self.contents(value)?;
            }
        }
        if !new {
            return Ok(());
        }
        if let Some(missing) = self.required.split_whitespace().find(|key| !options.contains_key(*key)) {
            return Err(format!("missing value for required option '{missing}'"));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-/_.@".contains(c);
        let path = options.get("path").map_or("/x", String::as_str);
        if matches!(self.kind, StorageKind::Dir | StorageKind::Btrfs)
            && !(path.starts_with('/') && path.len() > 1 && path.chars().all(plain))
        {
            return Err(format!("illegal path for directory storage: {path}"));
        }
        Ok(())
    }

    /// Checks whether options can be taken out of a definition while others are set.
    pub(crate) fn check_delete(
        &self,
        delete: &[String],
        set: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        for key in delete {
            if has(self.required, key) {
                return Err(format!("unable to delete required option '{key}'"));
            }
            if has(self.fixed, key) {
                return Err(format!("unable to delete fixed option '{key}'"));
            }
            if !has(self.optional, key) {
                return Err(format!("no such option '{key}'"));
            }
            if set.contains_key(key) {
                return Err(format!("cannot set and delete property '{key}' at the same time!"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_definition_says_only_what_its_kind_knows() {
        let check =
            |kind: &str, new, pairs: &[(&str, &str)]| plugin(kind).unwrap().check(&options(pairs), new);
        assert_eq!(check("dir", true, &[("path", "/mnt/a"), ("content", "iso")]), Ok(()));
        for (kind, new, pairs, words) in [
            ("dir", true, &[("path", "/a b")][..], "illegal path for directory storage: /a b"),
            ("dir", true, &[], "missing value for required option 'path'"),
            ("dir", false, &[("path", "/b")], "can't change value of fixed parameter 'path'"),
            (
                "lvmthin",
                true,
                &[("thinpool", "d"), ("vgname", "v"), ("shared", "1")],
                "unexpected property 'shared'",
            ),
            ("nfs", true, &[("path", "/p"), ("server", "s")], "missing value for required option 'export'"),
            ("lvm", false, &[("content", "iso")], "storage does not support content type 'none'"),
            ("dir", false, &[("content", "iso,none")], "unable to combine 'none' with other content types"),
        ] {
            assert_eq!(check(kind, new, pairs), Err(words.to_owned()));
        }
        let contents = plugin("lvmthin").unwrap().contents("images,iso").unwrap();
        assert_eq!(contents, BTreeSet::from(["images".to_owned()]));
    }

    #[test]
    fn what_must_be_there_cannot_be_deleted() {
        let delete =
            |key: &str| plugin("dir").unwrap().check_delete(&[key.to_owned()], &options(&[("nodes", "a")]));
        assert_eq!(delete("path"), Err("unable to delete required option 'path'".to_owned()));
        assert_eq!(delete("export"), Err("no such option 'export'".to_owned()));
        assert_eq!(
            delete("nodes"),
            Err("cannot set and delete property 'nodes' at the same time!".to_owned())
        );
        assert_eq!(delete("shared"), Ok(()));
    }
}
