//! What a machine says about a configuration before it takes it: parsing, unknown keys, validation.
//!
//! The words are those of real machines. Documents are split by hand, because the line on which one starts is part of the
//! answer. Which keys and kinds a release knows, and most of what they must hold, is the business of `talos`, which Talos'
//! own library was compared with; the refusals that were seen on real machines are made here in their own words first.

use serde_json::Value;
use talos::config::{Contract, Documents};
use talos::validate::{Mode, Problem, validate};

use super::node::Machine;
use super::profile::Profile;
use super::settings::{list, text};

/// One document of a configuration.
#[derive(Debug, Clone)]
pub struct Document {
    /// Line of its first content.
    pub line: usize,
    pub value: Value,
    /// Its text.
    source: String,
}

/// Why a configuration is not taken. Releases up to 1.12 tell the kinds apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Objection {
    /// It cannot be read.
    Parse(String),
    /// It can be read and makes no sense.
    Validation(String),
    /// It makes sense and not on this machine.
    Runtime(String),
}

/// Splits and parses a configuration.
pub fn documents(bytes: &[u8], profile: Profile) -> Result<Vec<Document>, String> {
    let control = |b: &u8| *b < 0x20 && !b"\n\r\t".contains(b) || *b == 0x7f;
    if let Some(offset) = bytes.iter().position(control) {
        let place = if profile.minor <= 12 { String::new() } else { format!("offset {offset}: ") };
        return Err(format!("decode error: yaml: {place}control characters are not allowed"));
    }
    let Ok(whole) = std::str::from_utf8(bytes) else {
        return Err("decode error: yaml: invalid leading UTF-8 octet".into());
    };
    let mut found = vec![];
    let mut part = String::new();
    let mut line = 0;
    for (number, content) in whole.lines().enumerate() {
        if content == "---" || content.starts_with("--- ") {
            found.extend(parse(&part, line, profile)?);
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
    found.extend(parse(&part, line, profile)?);
    if found.is_empty() { Err("config not found".into()) } else { Ok(found) }
}

fn parse(part: &str, line: usize, profile: Profile) -> Result<Option<Document>, String> {
    if part.lines().all(|l| l.trim().is_empty() || l.trim_start().starts_with('#')) {
        return Ok(None);
    }
    let value: Value = serde_saphyr::from_str(part).map_err(|error| {
        let words = flow_trouble(part, profile)
            .unwrap_or_else(|| error.to_string().lines().next().unwrap_or_default().to_owned());
        format!("decode error: yaml: {words}")
    })?;
    if !value.is_object() {
        return Err(format!("expected a YAML document at line {line}"));
    }
    Ok(Some(Document { line, value, source: part.to_owned() }))
}

/// What Talos' reader says about a `[` that no one closes.
fn flow_trouble(part: &str, profile: Profile) -> Option<String> {
    let mut lines =
        part.lines().enumerate().skip_while(|(_, line)| !line.contains('[') || line.contains(']'));
    let (number, opened) = lines.next()?;
    let column = opened.find('[')? + 1;
    let next =
        lines.find_map(|(number, line)| Some((number, line.find(": ").or_else(|| line.find(':'))? + 1)));
    // Lines count from zero in most of these, as that reader counts them.
    Some(match (next, profile.minor) {
        (Some(_), ..=12) => format!("line {number}: did not find expected ',' or ']'"),
        (None, ..=12) => format!("line {}: did not find expected node content", number + 1),
        (Some((line, at)), _) => format!(
            "while parsing a flow sequence at line {number}, column {column}: line {line}, column {at}: did not find expected ',' or ']'"
        ),
        // The text ends, and no column is told.
        (None, _) => {
            format!("while parsing a flow node at line {}: did not find expected node content", number + 1)
        }
    })
}

/// Everything that a machine refuses in a configuration.
pub fn check(documents: &[Document], machine: &Machine) -> Result<(), Objection> {
    let profile = machine.profile();
    let mut seen = std::collections::BTreeSet::new();
    for document in documents {
        let (kind, version, name) = identity(document);
        if kind.is_empty() {
            v1alpha1(document, profile).map_err(Objection::Parse)?;
        } else if version != "v1alpha1"
            || talos::config::known_since(&kind).is_none_or(|since| since > profile.minor)
        {
            let words = format!("{} {kind:?} {version:?}: not registered", place(document));
            return Err(Objection::Parse(words));
        }
        let id = if kind.is_empty() { "/v1alpha1/".to_owned() } else { format!("{version}/{kind}/{name}") };
        if !seen.insert(id.clone()) {
            let words = format!("duplicate document {id} is not allowed (line {})", document.line);
            return Err(Objection::Parse(words));
        }
    }
    let problems = strict(documents, profile, machine);
    if let Some(words) = misread(documents, &problems, profile) {
        return Err(Objection::Parse(words));
    }
    let mut found: Vec<String> = vec![];
    for document in documents {
        if identity(document).0.is_empty() {
            let own = legacy(&document.value, machine);
            if !own.is_empty() {
                found.push(format!("v1alpha1.Config: {}", several(&own)));
            }
        }
        found.extend(document_problem(document));
    }
    found.extend(hostname_twice(documents));
    if !found.is_empty() {
        return Err(Objection::Validation(several(&found)));
    }
    let runtime: Vec<String> = documents.iter().flat_map(|d| kubernetes_images(&d.value, machine)).collect();
    if !runtime.is_empty() {
        let inner = format!("v1alpha1.Config: {}", several(&runtime));
        return Err(Objection::Runtime(several(&[inner])));
    }
    // What no one was seen to say is said in our own words: better than to take what Talos would not. Kubernetes' versions
    // were judged already.
    let judged = |path: &str| IMAGES.iter().any(|(_, place)| place[1..].replace('/', ".") == path);
    let rest: Vec<String> =
        problems.iter().filter(|problem| !judged(&problem.path)).map(ToString::to_string).collect();
    if rest.is_empty() { Ok(()) } else { Err(Objection::Validation(several(&rest))) }
}

fn identity(document: &Document) -> (String, String, String) {
    let own = |key: &str| text(&document.value, key);
    (own("kind"), own("apiVersion"), own("name"))
}

fn place(document: &Document) -> String {
    let (kind, version, name) = identity(document);
    let id = if kind.is_empty() { "/v1alpha1/".to_owned() } else { format!("{version}/{kind}/{name}") };
    format!("error decoding document {id} (line {}):", document.line)
}

/// What the rules of the release find.
fn strict(documents: &[Document], profile: Profile, machine: &Machine) -> Vec<Problem> {
    let whole: String = documents.iter().map(|d| format!("---\n{}", d.source)).collect();
    let Ok(parsed) = Documents::parse(&whole) else { return vec![] };
    let Ok(release) = Contract::parse(&format!("v1.{}", profile.minor)) else { return vec![] };
    let mode = if machine.image().is_some_and(|image| image.platform == "metal") {
        Mode::Metal
    } else {
        Mode::Cloud
    };
    validate(&parsed, release, mode)
}

/// Keys that no one knows and values of the wrong kind, in the words of Talos' reader.
fn misread(documents: &[Document], problems: &[Problem], profile: Profile) -> Option<String> {
    for document in documents {
        let (kind, _, name) = identity(document);
        let prefix = match (kind.as_str(), name.as_str()) {
            ("", _) => String::new(),
            (kind, "") => format!("{kind}: "),
            (kind, name) => format!("{kind}/{name}: "),
        };
        let own = problems.iter().filter_map(|p| Some((p.path.strip_prefix(&prefix)?, p.message.as_str())));
        let own: Vec<_> = own.filter(|(path, _)| !prefix.is_empty() || !path.contains(": ")).collect();
        let unknown: Vec<&str> = own
            .iter()
            .filter(|(_, words)| words.contains("is not a key") || words.contains("is not known to"))
            .map(|(path, _)| *path)
            .collect();
        if !unknown.is_empty() {
            let keys = unknown_keys(&document.value, &unknown);
            return Some(format!("{} unknown keys found during decoding:\n{keys}", place(document)));
        }
        let Some((path, words)) =
            own.iter().find_map(|(path, words)| Some((*path, construct(&document.value, path, words)?)))
        else {
            continue;
        };
        let line = line_of(document, path);
        let (target, verb) = if kind.is_empty() {
            ("error decoding  to *v1alpha1.Config".to_owned(), "construct")
        } else {
            (format!("error decoding {kind} to *network.{kind}V1Alpha1"), "construct")
        };
        let verb = if profile.minor <= 12 { "unmarshal" } else { verb };
        let words = words.replace("{verb}", verb);
        return Some(format!("{} {target}: yaml: {verb} errors:\n  line {line}: {words}", place(document)));
    }
    None
}

/// The reader's words for a value of the wrong kind, where they are known.
fn construct(document: &Value, path: &str, words: &str) -> Option<String> {
    let value = document.pointer(&format!("/{}", path.replace(['.', '['], "/").replace(']', "")));
    let shown = value.and_then(Value::as_str).unwrap_or_default();
    if words.contains("must be a list") {
        return Some(format!("cannot {{verb}} !!str `{shown}` into []string"));
    }
    if path.ends_with(".address") && shown.contains('/') {
        let address = shown.split('/').next().unwrap_or(shown);
        let large = address.split('.').any(|part| part.parse::<u32>().is_ok_and(|n| n > 255));
        let why = if large { "IPv4 field has value >255" } else { "unable to parse IP" };
        return Some(format!("netip.ParsePrefix({shown:?}): ParseAddr({address:?}): {why}"));
    }
    None
}

/// The line on which the last key of a path stands.
fn line_of(document: &Document, path: &str) -> usize {
    let key = path.rsplit('.').next().unwrap_or(path);
    let is_there = |line: &str| line.trim_start().trim_start_matches("- ").starts_with(&format!("{key}:"));
    let offset = document.source.lines().filter(|line| !line.is_empty()).position(is_there).unwrap_or(0);
    document.line + offset
}

/// The unknown keys with what stands under them, as YAML.
fn unknown_keys(document: &Value, paths: &[&str]) -> String {
    let mut tree = Value::Object(serde_json::Map::new());
    for path in paths {
        let parts: Vec<&str> = path.split('.').collect();
        let found = document.pointer(&format!("/{}", parts.join("/"))).cloned().unwrap_or(Value::Null);
        let mut at = &mut tree;
        for part in &parts[..parts.len() - 1] {
            if at.get(*part).is_none() {
                at[*part] = Value::Object(serde_json::Map::new());
            }
            at = &mut at[*part];
        }
        at[parts[parts.len() - 1]] = found;
    }
    tree.as_object().into_iter().flatten().map(|(key, value)| yaml_entry(key, value, 0)).collect()
}

/// A list of errors as Go prints it.
fn several(problems: &[String]) -> String {
    let count = problems.len();
    let noun = if count == 1 { "error" } else { "errors" };
    let list: String = problems.iter().map(|p| format!("\n\t* {p}")).collect();
    format!("{count} {noun} occurred:{list}\n\n")
}

/// Whether a document without a kind is the v1alpha1 one, and has only keys that it may have.
fn v1alpha1(document: &Document, profile: Profile) -> Result<(), String> {
    let value = &document.value;
    let place = format!("error decoding document /v1alpha1/ (line {})", document.line);
    let legacy = ["machine", "cluster", "debug", "persist"].iter().any(|key| value.get(key).is_some());
    if text(value, "version") != "v1alpha1" || !legacy {
        return Err(format!("{place}: missing kind"));
    }
    let verb = if profile.minor <= 12 { "unmarshal" } else { "construct" };
    let endpoint =
        value.pointer("/cluster/controlPlane/endpoint").and_then(Value::as_str).unwrap_or_default();
    if !endpoint.is_empty() && !endpoint.contains("://") && endpoint.contains(':') {
        return Err(format!(
            "{place}: error decoding  to *v1alpha1.Config: yaml: {verb} errors:\n  line {}: parse {endpoint:?}: first path segment in URL cannot contain colon",
            line_of(document, "endpoint")
        ));
    }
    Ok(())
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

fn hostname_twice(documents: &[Document]) -> Option<String> {
    let legacy = documents.iter().any(|d| d.value.pointer("/machine/network/hostname").is_some());
    let document = documents.iter().any(|d| text(&d.value, "kind") == "HostnameConfig");
    (legacy && document).then(|| "static hostname is already set in v1alpha1 config".to_owned())
}

/// What documents beside v1alpha1 were seen to be refused for.
fn document_problem(document: &Document) -> Option<String> {
    let (kind, _, name) = identity(document);
    let words = match kind.as_str() {
        "UserVolumeConfig" => {
            let sized = ["minSize", "maxSize"]
                .iter()
                .any(|key| document.value.pointer(&format!("/provisioning/{key}")).is_some());
            (!sized).then(|| "min size or max size is required".to_owned())
        }
        "Layer2VIPConfig" => name
            .parse::<std::net::IpAddr>()
            .is_err()
            .then(|| format!("name must be a valid IP address: ParseAddr({name:?}): unable to parse IP")),
        _ => None,
    };
    words.map(|words| format!("{kind}/{name}: {words}"))
}

/// The rules for the v1alpha1 document. Only machines of the metal platform are asked for an install section.
fn legacy(value: &Value, target: &Machine) -> Vec<String> {
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
    let new_style = value.pointer("/cluster/controlPlane").is_none() && target.profile().minor >= 14;
    if !new_style && text(cluster.get("controlPlane").unwrap_or(&Value::Null), "endpoint").is_empty() {
        found.push("cluster controlplane endpoint is required".to_owned());
    }
    let discovery = cluster.pointer("/discovery/enabled") == Some(&Value::Bool(true));
    for key in ["id", "secret"] {
        if discovery && text(cluster, key).is_empty() {
            found.push(format!("cluster discovery service requires .cluster.{key}"));
        }
    }
    let control_plane = kind == "controlplane" || kind == "init";
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
        "controlplane" if value.pointer("/machine/ca").is_none() => {
            if value.pointer("/machine/acceptedCAs").is_none() {
                found.push(
                    "issuing CA or some accepted CAs are required (.machine.ca, machine.acceptedCAs)".into(),
                );
            }
            found.push("issuing CA is required (.machine.ca)".into());
        }
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
        "controlplane" | "init" => {}
        other => found.push(format!("unknown machine type {other:?}")),
    }
    if value.get("persist") == Some(&Value::Bool(false)) {
        found.push(".persist should be enabled".into());
    }
    let mut names = std::collections::BTreeSet::new();
    for manifest in list(cluster.get("inlineManifests")) {
        let name = text(manifest, "name");
        if !names.insert(name.clone()) {
            found.push(format!("inline manifest name {name:?} is duplicate"));
        }
    }
    if target.image().is_some_and(|image| image.platform == "metal") {
        found.extend(install(machine, target));
    }
    found
}

/// The install section of a machine that installs itself.
fn install(machine: &Value, target: &Machine) -> Option<String> {
    let Some(install) = machine.get("install").filter(|install| install.is_object()) else {
        return (target.profile().minor <= 13)
            .then(|| "install instructions are required in \"metal\" mode".to_owned());
    };
    if install.get("extraKernelArgs").is_some()
        && install.get("grubUseUKICmdline") == Some(&Value::Bool(true))
    {
        return Some(
            "install.extraKernelArgs and install.grubUseUKICmdline can't be used together".to_owned(),
        );
    }
    let Some(selector) = install.get("diskSelector") else {
        let named = !text(install, "disk").is_empty();
        return (!named).then(|| "either install disk or diskSelector should be defined".to_owned());
    };
    let size = text(selector, "size");
    let digits = size.trim_start_matches(['<', '>', '=', ' ']);
    let operator = size.get(..size.len() - digits.len()).unwrap_or_default().trim();
    let unit = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    let factor = match unit.trim() {
        "TB" => 1_000_000_000_000,
        "GB" => 1_000_000_000,
        "MB" => 1_000_000,
        _ => 1_u64,
    };
    let bytes = digits.get(..digits.len() - unit.len())?.parse::<u64>().ok()?.saturating_mul(factor);
    let fits = |disk: u64| match operator {
        ">=" => disk >= bytes,
        "<=" => disk <= bytes,
        ">" => disk > bytes,
        "<" => disk < bytes,
        _ => disk == bytes,
    };
    let operator = if operator.is_empty() { "==" } else { operator };
    let matched = target.hardware.disks.iter().any(|disk| fits(disk.bytes));
    (!matched).then(|| {
        format!("no disks matched the expression: disk.size {operator} {bytes}u && disk.transport != \"\" && !disk.readonly && !disk.cdrom")
    })
}

fn interfaces(machine: &Value) -> impl Iterator<Item = &Value> {
    machine.pointer("/network/interfaces").and_then(Value::as_array).into_iter().flatten()
}

/// Images whose tag is a version of Kubernetes, and where they stand; all but the first count on control planes only.
const IMAGES: [(&str, &str); 4] = [
    ("kubelet", "/machine/kubelet/image"),
    ("kube-apiserver", "/cluster/apiServer/image"),
    ("kube-controller-manager", "/cluster/controllerManager/image"),
    ("kube-scheduler", "/cluster/scheduler/image"),
];

/// Versions of Kubernetes that do not go with the machine's Talos.
fn kubernetes_images(document: &Value, machine: &Machine) -> Vec<String> {
    let kind = document.pointer("/machine/type").and_then(Value::as_str).unwrap_or_default();
    let counted = if kind == "controlplane" { &IMAGES[..] } else { &IMAGES[..1] };
    let trouble = |(name, place): &(&str, &str)| {
        let image = document.pointer(place).and_then(Value::as_str)?;
        Some(format!("{name} image is not valid: {}", kubernetes_image(image, machine)?))
    };
    counted.iter().filter_map(trouble).collect()
}

fn kubernetes_image(image: &str, machine: &Machine) -> Option<String> {
    let (oldest, newest) = machine.profile().kubernetes_minors;
    let tag = image.split('@').next()?.rsplit_once(':').map(|(_, tag)| tag).unwrap_or_default();
    let minor =
        tag.strip_prefix("v1.").and_then(|rest| rest.split('.').next()).and_then(|m| m.parse::<u64>().ok());
    let Some(minor) = minor else {
        return Some(format!(
            "failed to parse Kubernetes version from image reference {image:?}: invalid image reference: {image:?}"
        ));
    };
    let trouble = if minor < oldest {
        "old"
    } else if minor > newest {
        "new"
    } else {
        return None;
    };
    let (version, talos) = (tag.trim_start_matches('v'), machine.talos().trim_start_matches('v'));
    Some(format!("version of Kubernetes {version} is too {trouble} to be used with Talos {talos}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::boot;

    fn refusal(text: &str) -> String {
        let machine = Machine::new(boot(101));
        let documents = match documents(text.as_bytes(), machine.profile()) {
            Ok(documents) => documents,
            Err(words) => return words,
        };
        match check(&documents, &machine) {
            Err(Objection::Parse(words) | Objection::Validation(words) | Objection::Runtime(words)) => words,
            Ok(()) => "accepted".into(),
        }
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
