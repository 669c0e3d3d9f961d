//! The golden machine configs in `crates/talos/goldens`: what Talos' own library generates from the secrets beside them.
//!
//! The unit tests of `talos` read them, so that they need neither Go nor a network. A version contract that gives the same
//! texts as the one before it has no files of its own.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::oracle::{Oracle, RELEASES, repository};

/// Settings of the overrides for which the generator has no option, as patches: before 1.14, and since.
const KUBELET: [&str; 2] = [
    "machine: {kubelet: {extraMounts: [{destination: /var/opt, type: bind, source: /var/opt, options: [rshared]}]}}\n",
    "apiVersion: v1alpha1\nkind: KubeletConfig\nclusterDNS: [3.3.3.3]\n",
];

/// The first contract of the files, and the first one in which Kubernetes has documents of its own.
const FIRST: u32 = 9;
const KUBERNETES_DOCUMENTS: u32 = 14;

/// Writes the files, or with `check` compares them. Secrets are made only where there are none.
pub fn run(check: bool) -> anyhow::Result<()> {
    let newest = RELEASES.first().context("a release")?;
    let mut oracle = Oracle::start(newest)?;
    let folder = folder();
    let secrets = folder.join("secrets.yaml");
    if !check && !secrets.exists() {
        std::fs::create_dir_all(&folder)?;
        // The last contract whose key for service accounts is short.
        let made = text(&mut oracle, &json!({"op": "new-bundle", "input": {"contract": "v1.6"}}))?;
        let note = "# Secrets for tests only. They are public: never use them for a cluster.\n";
        std::fs::write(&secrets, format!("{note}{made}"))?;
    }
    let secrets = std::fs::read_to_string(&secrets).with_context(|| format!("read {}", secrets.display()))?;
    let mut wanted = BTreeMap::new();
    let mut before = BTreeMap::new();
    for minor in FIRST..=newest.minor {
        let made = configs(&mut oracle, minor, &secrets)?;
        if made != before {
            wanted.extend(made.iter().map(|(name, text)| (format!("v1.{minor}/{name}"), text.clone())));
        }
        before = made;
    }
    if check { compare(&wanted) } else { write(&wanted) }
}

/// Each role with defaults, and with as many settings as the generator takes.
fn configs(oracle: &mut Oracle, minor: u32, secrets: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let mut made = BTreeMap::new();
    for (control_plane, role) in [(true, "controlplane"), (false, "worker")] {
        let base = json!({
            "contract": format!("v1.{minor}"),
            "controlPlane": control_plane,
            "cluster": "base",
            "endpoint": "https://base:6443",
            "kubernetes": "1.28.0",
            "secrets": secrets,
        });
        let mut overrides = base.clone();
        let settings = json!({
            "installDisk": "/dev/vda",
            "kernelArgs": ["foo=bar", "bar=baz"],
            "sans": ["foo", "bar"],
            "dnsDomain": "example.com",
            "customCNI": "https://example.com/cni.yaml",
            "allowScheduling": true,
            "localAPIPort": 5443,
            "sysctls": {"foo": "bar"},
            "mirrors": {"ghcr.io": ["https://ghcr.io.my-mirror.com"]},
        });
        if let (Value::Object(overrides), Value::Object(settings)) = (&mut overrides, settings) {
            overrides.extend(settings);
        }
        let base = text(oracle, &json!({"op": "generate", "input": base}))?;
        let plain = text(oracle, &json!({"op": "generate", "input": overrides}))?;
        let patch = KUBELET[usize::from(minor >= KUBERNETES_DOCUMENTS)];
        let patched = text(oracle, &json!({"op": "patch", "config": plain, "patch": patch}))?;
        made.insert(format!("base-{role}.yaml"), base);
        made.insert(format!("overrides-{role}.yaml"), patched);
    }
    Ok(made)
}

fn text(oracle: &mut Oracle, question: &Value) -> anyhow::Result<String> {
    oracle.text(question)?.map_err(anyhow::Error::msg)
}

fn folder() -> PathBuf {
    repository().join("crates/talos/goldens")
}

/// The files that are there, by version and name.
fn present() -> anyhow::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for version in std::fs::read_dir(folder())?.collect::<Result<Vec<_>, _>>()? {
        if !version.path().is_dir() {
            continue;
        }
        for file in std::fs::read_dir(version.path())?.collect::<Result<Vec<_>, _>>()? {
            let name = format!("{}/{}", version.file_name().display(), file.file_name().display());
            found.insert(name, std::fs::read_to_string(file.path())?);
        }
    }
    Ok(found)
}

fn compare(wanted: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let present = present()?;
    let names = present.keys().chain(wanted.keys());
    let mut stale: Vec<&str> =
        names.filter(|name| present.get(*name) != wanted.get(*name)).map(String::as_str).collect();
    stale.sort_unstable();
    stale.dedup();
    if !stale.is_empty() {
        bail!(
            "golden files differ from what Talos' library generates: {}; run `cargo xtask conformance --goldens`",
            stale.join(", ")
        );
    }
    Ok(())
}

fn write(wanted: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let folder = folder();
    for name in present()?.keys().filter(|name| !wanted.contains_key(*name)) {
        std::fs::remove_file(folder.join(name)).with_context(|| format!("remove {name}"))?;
    }
    for (name, text) in wanted {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}
