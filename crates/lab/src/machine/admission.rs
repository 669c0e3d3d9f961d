//! What a machine says about a configuration before it takes it: parsing, unknown keys, validation.
//!
//! The words are those of a real 1.13 machine. Documents are split by hand, because the line on which one begins is part
//! of the answer. Keys are checked at the top and in the two big sections; deeper ones are taken as they come.

use serde_json::Value;

use super::profile::Profile;
use super::settings::text;

/// One document of a configuration.
#[derive(Debug, Clone)]
pub struct Document {
    /// Line of its first content.
    pub line: usize,
    pub value: Value,
}

const TOP: &[&str] = &["version", "debug", "persist", "machine", "cluster"];
const MACHINE: &[&str] = &[
    "type",
    "token",
    "ca",
    "acceptedCAs",
    "certSANs",
    "controlPlane",
    "kubelet",
    "pods",
    "network",
    "disks",
    "install",
    "files",
    "env",
    "time",
    "sysctls",
    "sysfs",
    "registries",
    "systemDiskEncryption",
    "features",
    "udev",
    "logging",
    "kernel",
    "seccompProfiles",
    "baseRuntimeSpecOverrides",
    "nodeLabels",
    "nodeAnnotations",
    "nodeTaints",
];
const CLUSTER: &[&str] = &[
    "id",
    "secret",
    "controlPlane",
    "clusterName",
    "network",
    "token",
    "aescbcEncryptionSecret",
    "secretboxEncryptionSecret",
    "ca",
    "acceptedCAs",
    "aggregatorCA",
    "serviceAccount",
    "apiServer",
    "controllerManager",
    "proxy",
    "scheduler",
    "discovery",
    "etcd",
    "coreDNS",
    "externalCloudProvider",
    "extraManifests",
    "extraManifestHeaders",
    "inlineManifests",
    "adminKubeconfig",
    "allowSchedulingOnControlPlanes",
    "allowSchedulingOnMasters",
];

/// Splits and parses a configuration.
pub fn documents(bytes: &[u8]) -> Result<Vec<Document>, String> {
    let control = |b: &u8| *b < 0x20 && !b"\n\r\t".contains(b) || *b == 0x7f;
    if let Some(offset) = bytes.iter().position(control) {
        return Err(format!("decode error: yaml: offset {offset}: control characters are not allowed"));
    }
    let Ok(whole) = std::str::from_utf8(bytes) else {
        return Err("decode error: yaml: invalid leading UTF-8 octet".into());
    };
    let mut found = vec![];
    let mut part = String::new();
    let mut line = 0;
    for (number, content) in whole.lines().enumerate() {
        if content == "---" || content.starts_with("--- ") {
            found.extend(parse(&part, line)?);
            part.clear();
            line = 0;
            part.push_str(content.strip_prefix("---").unwrap_or_default());
        } else {
            let substance = content.trim();
            if line == 0 && !substance.is_empty() && !substance.starts_with('#') {
                line = number + 1;
            }
            part.push_str(content);
        }
        part.push('\n');
    }
    found.extend(parse(&part, line)?);
    if found.is_empty() { Err("config not found".into()) } else { Ok(found) }
}

fn parse(part: &str, line: usize) -> Result<Option<Document>, String> {
    if part.lines().all(|l| l.trim().is_empty() || l.trim_start().starts_with('#')) {
        return Ok(None);
    }
    let value: Value = serde_saphyr::from_str(part)
        .map_err(|e| format!("decode error: yaml: {}", e.to_string().lines().next().unwrap_or_default()))?;
    if !value.is_object() {
        return Err(format!("expected a YAML document at line {line}"));
    }
    Ok(Some(Document { line, value }))
}

/// Everything that a machine refuses in a configuration.
pub fn check(documents: &[Document], profile: Profile, talos: &str) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    let mut problems = vec![];
    for document in documents {
        let kind = text(&document.value, "kind");
        let version = text(&document.value, "apiVersion");
        let name = text(&document.value, "name");
        if kind.is_empty() {
            v1alpha1(document)?;
            problems.extend(validate(&document.value, profile, talos));
        } else if version != "v1alpha1" || !profile.kinds.contains(&kind.as_str()) {
            let line = document.line;
            return Err(format!(
                "error decoding document {version}/{kind}/{name} (line {line}): {kind:?} {version:?}: not registered"
            ));
        }
        let id =
            if kind.is_empty() { "v1alpha1.Config".to_owned() } else { format!("{version}/{kind}/{name}") };
        if !seen.insert(id.clone()) {
            return Err(format!("duplicate document {id} is not allowed (line {})", document.line));
        }
    }
    hostname_twice(documents)?;
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("1 error occurred:\n\t* v1alpha1.Config: {}\n\n", several(&problems)))
}

/// A list of errors as Go prints it.
fn several(problems: &[String]) -> String {
    let count = problems.len();
    let noun = if count == 1 { "error" } else { "errors" };
    let list: String = problems.iter().map(|p| format!("\n\t* {p}")).collect();
    format!("{count} {noun} occurred:{list}\n\n")
}

/// Whether a document without a kind is the v1alpha1 one, and has only keys that it may have.
fn v1alpha1(document: &Document) -> Result<(), String> {
    let value = &document.value;
    let place = format!("error decoding document /v1alpha1/ (line {})", document.line);
    let legacy = ["machine", "cluster", "debug", "persist"].iter().any(|key| value.get(key).is_some());
    if text(value, "version") != "v1alpha1" || !legacy {
        return Err(format!("{place}: missing kind"));
    }
    let mut unknown = String::new();
    unknown += &strange(value, TOP, 0);
    for (section, known) in [("machine", MACHINE), ("cluster", CLUSTER)] {
        let found = value.get(section).map(|v| strange(v, known, 1)).unwrap_or_default();
        if !found.is_empty() {
            unknown += &format!("{section}:\n{found}");
        }
    }
    if !unknown.is_empty() {
        return Err(format!("{place}: unknown keys found during decoding:\n{unknown}"));
    }
    let endpoint =
        value.pointer("/cluster/controlPlane/endpoint").and_then(Value::as_str).unwrap_or_default();
    if !endpoint.is_empty() && !endpoint.contains("://") && endpoint.contains(':') {
        return Err(format!(
            "{place}: error decoding  to *v1alpha1.Config: yaml: construct errors:\n  line {}: parse {endpoint:?}: first path segment in URL cannot contain colon",
            document.line
        ));
    }
    Ok(())
}

fn strange(value: &Value, known: &[&str], depth: usize) -> String {
    let entries = value.as_object().into_iter().flatten();
    entries.filter(|(key, _)| !known.contains(&key.as_str())).map(|(k, v)| yaml_entry(k, v, depth)).collect()
}

/// A key and its value as YAML with Go's four spaces.
fn yaml_entry(key: &str, value: &Value, depth: usize) -> String {
    let indent = "    ".repeat(depth);
    match value {
        Value::Object(map) if !map.is_empty() => {
            let inner: String = map.iter().map(|(k, v)| yaml_entry(k, v, depth + 1)).collect();
            format!("{indent}{key}:\n{inner}")
        }
        Value::String(text) => format!("{indent}{key}: {text}\n"),
        other => format!("{indent}{key}: {other}\n"),
    }
}

fn hostname_twice(documents: &[Document]) -> Result<(), String> {
    let legacy = documents.iter().any(|d| d.value.pointer("/machine/network/hostname").is_some());
    let document = documents
        .iter()
        .any(|d| text(&d.value, "kind") == "HostnameConfig" && d.value.get("hostname").is_some());
    if legacy && document { Err("static hostname is already set in v1alpha1 config".into()) } else { Ok(()) }
}

/// The rules for the v1alpha1 document of a machine on a cloud platform, where an install section is not asked for.
fn validate(value: &Value, profile: Profile, talos: &str) -> Vec<String> {
    let (machine, cluster) = match (value.get("machine"), value.get("cluster")) {
        (None | Some(Value::Null), _) => return vec!["machine instructions are required".into()],
        (_, None | Some(Value::Null)) => return vec!["cluster instructions are required".into()],
        (Some(machine), Some(cluster)) => (machine, cluster),
    };
    let kind = text(machine, "type");
    let has_key =
        |pointer: &str| value.pointer(pointer).and_then(Value::as_str).is_some_and(|k| !k.is_empty());
    let (talos_key, cluster_key) = (has_key("/machine/ca/key"), has_key("/cluster/ca/key"));
    let mut found = vec![];
    if text(cluster.get("controlPlane").unwrap_or(&Value::Null), "endpoint").is_empty() {
        found.push("cluster controlplane endpoint is required".to_owned());
    }
    let discovery = cluster.pointer("/discovery/enabled") == Some(&Value::Bool(true));
    for key in ["id", "secret"] {
        if discovery && text(cluster, key).is_empty() {
            found.push(format!("cluster discovery service requires .cluster.{key}"));
        }
    }
    let control_plane = kind == "controlplane";
    if !control_plane {
        if cluster.get("etcd").is_some() {
            found.push("etcd config is only allowed on control plane machines".into());
        }
        if cluster_key {
            found.push("cluster CA key is not allowed on non-controlplane nodes (.cluster.ca)".into());
        }
        if interfaces(machine).any(|i| i.get("vip").is_some()) {
            found.push("virtual (shared) IP is not allowed on non-controlplane nodes".into());
        }
    }
    match kind.as_str() {
        "controlplane" if !talos_key => {
            found.push("issuing CA key is required for controlplane nodes (.machine.ca.key)".into());
        }
        "worker" | "" => {
            if talos_key {
                found.push(
                    "issuing Talos API CA key is not allowed on non-controlplane nodes (.machine.ca)".into(),
                );
            }
            if cluster_key {
                found.push(
                    "issuing Kubernetes API CA key is not allowed on non-controlplane nodes (.cluster.ca)"
                        .into(),
                );
            }
        }
        "controlplane" => {}
        other => found.push(format!("unknown machine type {other:?}")),
    }
    if value.get("persist") == Some(&Value::Bool(false)) {
        found.push(".persist should be enabled".into());
    }
    found.extend(kubelet(machine, profile, talos));
    found
}

fn interfaces(machine: &Value) -> impl Iterator<Item = &Value> {
    machine.pointer("/network/interfaces").and_then(Value::as_array).into_iter().flatten()
}

/// The Kubernetes version that a kubelet image asks for must be one that this Talos can run.
fn kubelet(machine: &Value, profile: Profile, talos: &str) -> Option<String> {
    let image = machine.pointer("/kubelet/image").and_then(Value::as_str)?;
    let tag = image.split('@').next()?.rsplit_once(':').map(|(_, tag)| tag).unwrap_or_default();
    let minor =
        tag.strip_prefix("v1.").and_then(|rest| rest.split('.').next()).and_then(|m| m.parse::<u64>().ok());
    let prefix = "kubelet image is not valid:";
    let Some(minor) = minor else {
        return Some(format!(
            "{prefix} failed to parse Kubernetes version from image reference {image:?}: invalid image reference: {image:?}"
        ));
    };
    let (oldest, newest) = profile.kubernetes_minors;
    let trouble = if minor < oldest {
        "old"
    } else if minor > newest {
        "new"
    } else {
        return None;
    };
    let (version, talos) = (tag.trim_start_matches('v'), talos.trim_start_matches('v'));
    Some(format!("{prefix} version of Kubernetes {version} is too {trouble} to be used with Talos {talos}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::profile::V1_13;

    fn refusal(text: &str) -> String {
        let documents = match documents(text.as_bytes()) {
            Ok(documents) => documents,
            Err(words) => return words,
        };
        check(&documents, V1_13, "v1.13.9").err().unwrap_or_else(|| "accepted".into())
    }

    #[test]
    fn bad_configurations_are_refused_in_the_observed_words() {
        let one = |words: &str| {
            format!("1 error occurred:\n\t* v1alpha1.Config: 1 error occurred:\n\t* {words}\n\n\n\n")
        };
        let cases = [
            ("", "config not found".to_owned()),
            ("hello world", "expected a YAML document at line 1".to_owned()),
            ("\u{1}\u{2}", "decode error: yaml: offset 0: control characters are not allowed".to_owned()),
            ("version: v1alpha1\n", "error decoding document /v1alpha1/ (line 1): missing kind".to_owned()),
            ("#cloud-config\nhostname: x\n", "error decoding document /v1alpha1/ (line 2): missing kind".to_owned()),
            (
                "apiVersion: v1alpha1\nkind: Nope\n",
                "error decoding document v1alpha1/Nope/ (line 1): \"Nope\" \"v1alpha1\": not registered".to_owned(),
            ),
            (
                "apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n---\napiVersion: v1alpha1\nkind: HostnameConfig\n",
                "duplicate document v1alpha1/HostnameConfig/ is not allowed (line 5)".to_owned(),
            ),
            ("version: v1alpha1\nmachine:\n  type: worker\n", one("cluster instructions are required")),
            ("version: v1alpha1\ncluster: {}\n", one("machine instructions are required")),
            (
                "version: v1alpha1\nmachine:\n  type: worker\n  foo: bar\ncluster: {}\n",
                "error decoding document /v1alpha1/ (line 1): unknown keys found during decoding:\nmachine:\n    foo: bar\n"
                    .to_owned(),
            ),
            (
                "version: v1alpha1\nmachine:\n  type: worker\n  kubelet:\n    image: k:v1.20.0\ncluster:\n  controlPlane:\n    endpoint: https://a:6443\n",
                one("kubelet image is not valid: version of Kubernetes 1.20.0 is too old to be used with Talos 1.13.9"),
            ),
        ];
        for (text, words) in cases {
            assert_eq!(refusal(text), words, "{text:?}");
        }
        assert_eq!(
            refusal("apiVersion: v1alpha1\nkind: HostnameConfig\nauto: off\nhostname: a\n"),
            "accepted"
        );
    }
}
