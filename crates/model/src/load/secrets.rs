//! Secrets that stand in a file are replaced by asterisks before anyone can print the line they stand in.
//!
//! Where a reference belongs, anything else is taken for the secret itself, and the checks refuse it. Beyond that, a
//! few forms are known wherever they stand: API tokens of Proxmox, private keys, and passwords in URLs. Patches can hold
//! the keys of a whole cluster, so theirs are known by name.

use super::{Scalar, Tree, mask_span, tree};
use crate::diagnostic::{Path, Source};
use crate::spec::{PATCH_SECRETS, Reference};

/// Keys whose value must never be a secret itself.
const TOKENS: &[&[&str]] = &[
    &["proxmox", "token"],
    &["gitops", "credentials"],
    &["manifests", "proxmox_ccm", "token"],
    &["manifests", "proxmox_csi", "token"],
];

/// Keys whose value could carry a password.
const URLS: &[&[&str]] =
    &[&["proxmox", "endpoint"], &["proxmox", "endpoints"], &["endpoint"], &["image", "factory"]];

/// Masks every secret. Gives the paths of those that no check refuses by their key.
pub(super) fn mask(tree: &mut Tree, sources: &mut [Source]) -> Vec<Path> {
    for keys in TOKENS {
        mask_unless(tree.get_mut(keys), sources, |raw| raw.parse::<Reference>().is_ok());
    }
    for keys in URLS {
        match tree.get_mut(keys) {
            Some(Tree::List { items, .. }) => {
                items.iter_mut().for_each(|item| mask_unless(Some(item), sources, |raw| !raw.contains('@')));
            }
            one => mask_unless(one, sources, |raw| !raw.contains('@')),
        }
    }
    let mut found = Vec::new();
    everywhere(tree, &Path::root(), false, sources, &mut found);
    found
}

fn mask_unless(node: Option<&mut Tree>, sources: &mut [Source], harmless: impl Fn(&str) -> bool) {
    let Some(Tree::Scalar { span, raw, value }) = node else { return };
    if matches!(value, Scalar::Null) || harmless(raw) {
        return;
    }
    "********".clone_into(raw);
    *value = Scalar::Text;
    mask_span(sources, *span);
}

fn everywhere(node: &mut Tree, path: &Path, patch: bool, sources: &mut [Source], found: &mut Vec<Path>) {
    match node {
        Tree::Map { entries, .. } => {
            for (key, _, value) in entries {
                everywhere(value, &path.key(key), patch || key == "patches", sources, found);
            }
        }
        Tree::List { items, .. } => {
            for (index, item) in items.iter_mut().enumerate() {
                if patch {
                    PATCH_SECRETS
                        .iter()
                        .for_each(|keys| mask_unless(item.get_mut(keys), sources, str::is_empty));
                }
                everywhere(item, &path.index(index), patch, sources, found);
            }
        }
        Tree::Scalar { raw, .. } => {
            if is_secret(raw) || patch && raw.contains('\n') && holds_patch_secret(raw) {
                mask_unless(Some(node), sources, |_| false);
                found.push(path.clone());
            }
        }
    }
}

/// Whether a text is, or holds, a secret of a known form.
pub fn is_secret(text: &str) -> bool {
    text.contains("PRIVATE KEY-----")
        || text.contains("AGE-SECRET-KEY-1")
        || holds_token(text)
        || holds_password(text)
}

/// `USER@REALM!NAME=` and a UUID.
fn holds_token(text: &str) -> bool {
    text.match_indices('!').any(|(at, _)| {
        let rest = text.get(at + 1..).unwrap_or_default();
        let user = text.get(..at).unwrap_or_default().contains('@');
        let secret = rest.split_once('=').map_or("", |(_, secret)| secret);
        let uuid: String = secret.chars().take(36).collect();
        user && uuid::Uuid::try_parse(&uuid).is_ok()
    })
}

/// `SCHEME://USER:PASSWORD@HOST`.
fn holds_password(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', ' ', '\n', '"']).next().unwrap_or_default();
        authority.split_once('@').is_some_and(|(user, _)| user.contains(':'))
    })
}

fn holds_patch_secret(text: &str) -> bool {
    let mut problems = Vec::new();
    // A text with several documents is looked at one by one.
    text.split("\n---").any(|document| {
        let Some(mut patch) = tree::read(0, document.trim_start_matches('-'), &mut problems) else {
            return false;
        };
        PATCH_SECRETS.iter().any(|keys| match patch.get_mut(keys) {
            Some(Tree::Scalar { raw, .. }) => !raw.is_empty(),
            _ => false,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_secrets_are_known() {
        assert!(is_secret("root@pam!tofu=11111111-2222-3333-4444-555555555555"));
        assert!(is_secret("x: https://me:pw@git.example/a.git"));
        assert!(is_secret("-----BEGIN RSA PRIVATE KEY-----"));
        for fine in
            ["git@git.example:me/a.git", "ssh://git@git.example/a", "a!b=c", "https://x.example/a:b@c", ""]
        {
            assert!(!is_secret(fine), "{fine}");
        }
        assert!(holds_patch_secret("machine:\n  token: abc\n"));
        assert!(!holds_patch_secret("machine:\n  sysctls: {}\n"));
    }
}
