//! The resource types of each Talos release: names, namespaces, aliases, columns, sensitivity, and the fields of their
//! specs.
//!
//! The table is made from the source of Talos' own library (`conformance/resources/run`) and read once. A type that a
//! release does not have is refused by name, which is how versions show in the resource API.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

/// One resource type.
#[derive(Debug, Deserialize)]
pub(super) struct Definition {
    releases: Vec<u32>,
    pub(super) namespace: String,
    #[serde(default)]
    aliases: Vec<String>,
    /// Titles and the places of what stands under them.
    #[serde(default)]
    columns: Vec<(String, String)>,
    /// Only administrators may see it.
    #[serde(default)]
    pub(super) sensitive: bool,
    /// It has no aliases but those that are named.
    #[serde(default)]
    plain: bool,
    /// The type of its spec.
    #[serde(default)]
    pub(super) spec: String,
}

/// One field of a spec: its name in YAML, its number in protobuf, its type in Go.
pub(super) type Field = (String, String, String);

#[derive(Debug, Deserialize)]
struct Table {
    types: BTreeMap<String, Definition>,
    specs: BTreeMap<String, Vec<Field>>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let read: Result<Table, _> = serde_json::from_str(include_str!("gen/resources.json"));
    // The file is part of the program and a test reads it, so the empty table is never seen.
    let mut table = read.unwrap_or(Table { types: BTreeMap::new(), specs: BTreeMap::new() });
    for (kind, aliases, column) in [
        (DEFINITIONS, vec!["api-resources".to_owned()], ("Aliases", "{.aliases[:]}")),
        (NAMESPACES, vec!["ns".to_owned()], ("Description", "{.description}")),
    ] {
        let definition = Definition {
            releases: vec![12, 13, 14],
            namespace: "meta".to_owned(),
            aliases,
            columns: vec![(column.0.to_owned(), column.1.to_owned())],
            sensitive: false,
            plain: false,
            spec: kind.to_owned(),
        };
        table.types.insert(kind.to_owned(), definition);
    }
    let fields = |list: &[(&str, &str, &str)]| -> Vec<Field> {
        list.iter().map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned())).collect()
    };
    let definition = [
        ("type", "1", "string"),
        ("displayType", "2", "string"),
        ("defaultNamespace", "3", "string"),
        ("aliases", "4", "[]string"),
        ("allAliases", "5", "[]string"),
        // Only in the YAML form, as the recorded lengths of the other one show.
        ("skipAutomaticAliases", "", "bool"),
        ("printColumns", "6", "[]PrintColumn"),
        ("sensitivity", "7", "Sensitivity"),
    ];
    table.specs.insert(DEFINITIONS.to_owned(), fields(&definition));
    table
        .specs
        .insert("PrintColumn".to_owned(), fields(&[("name", "1", "string"), ("jsonPath", "2", "string")]));
    table.specs.insert(NAMESPACES.to_owned(), fields(&[("description", "1", "string")]));
    table
});

/// The type of the definitions of types.
pub(super) const DEFINITIONS: &str = "ResourceDefinitions.meta.cosi.dev";
/// The type of namespaces.
pub(super) const NAMESPACES: &str = "Namespaces.meta.cosi.dev";

/// Namespaces and what they say they are for.
pub(super) const NAMESPACE_LIST: &[(&str, &str)] = &[
    ("cluster", "Cluster configuration and discovery resources."),
    ("cluster-raw", "Cluster unmerged raw resources."),
    ("config", "Talos node configuration."),
    ("controlplane", "Kubernetes control plane resources."),
    ("cri", "CRI Seccomp resources."),
    ("etcd", "etcd resources."),
    ("files", "Files and file-like resources."),
    ("hardware", "Hardware resources."),
    ("k8s", "Kubernetes all node types resources."),
    ("kubespan", "KubeSpan resources."),
    ("meta", "Metadata namespace which contains resource and namespace definitions."),
    ("network", "Networking resources."),
    ("network-config", "Networking configuration unmerged resources."),
    ("perf", "Stats resources."),
    ("runtime", "Talos Linux runtime resources."),
    ("secrets", "Resources with secret material."),
    ("security", "Security-related resources."),
];

/// A type that a release has.
pub(super) fn definition(kind: &str, minor: u32) -> Option<&'static Definition> {
    TABLE.types.get(kind).filter(|definition| definition.releases.contains(&minor))
}

/// A type that a release has, under a name in any case: so the right to read it is looked up.
pub(super) fn definition_in_any_case(kind: &str, minor: u32) -> Option<&'static Definition> {
    let found = TABLE.types.iter().find(|(name, _)| name.eq_ignore_ascii_case(kind));
    found.map(|(_, definition)| definition).filter(|definition| definition.releases.contains(&minor))
}

/// The fields of a spec.
pub(super) fn fields(spec: &str) -> Option<&'static [Field]> {
    TABLE.specs.get(spec).map(Vec::as_slice)
}

/// The definitions of all types of a release, as resources tell them, by id.
pub(super) fn definitions(minor: u32) -> Vec<(String, Value)> {
    let known = TABLE.types.iter().filter(|(_, definition)| definition.releases.contains(&minor));
    known.map(|(kind, definition)| (kind.to_lowercase(), describe(kind, definition))).collect()
}

fn describe(kind: &str, definition: &Definition) -> Value {
    let (plural, suffix) = kind.split_once('.').unwrap_or((kind, ""));
    let display = singular(plural);
    let mut aliases = definition.aliases.clone();
    if !definition.plain {
        aliases.push(display.to_lowercase());
    }
    let capitals: String = plural.chars().filter(char::is_ascii_uppercase).collect();
    if capitals.len() > 1 && !definition.plain {
        aliases.push(capitals.to_lowercase());
        if !capitals.ends_with('S') {
            aliases.push(format!("{}s", capitals.to_lowercase()));
        }
    }
    let parts: Vec<&str> = suffix.split('.').collect();
    let count = if definition.plain { 0 } else { parts.len() };
    let longer = (0..count).map(|count| {
        let mut words = vec![plural.to_lowercase()];
        words.extend(parts[..count].iter().map(|part| (*part).to_owned()));
        words.join(".")
    });
    let all: Vec<String> = longer.chain(aliases.iter().cloned()).collect();
    let columns: Vec<Value> =
        definition.columns.iter().map(|(name, path)| json!({"name": name, "jsonPath": path})).collect();
    let mut value = json!({
        "type": kind,
        "displayType": display,
        "defaultNamespace": definition.namespace,
        "aliases": aliases,
        "allAliases": all,
        "printColumns": columns,
    });
    if definition.plain {
        value["skipAutomaticAliases"] = true.into();
    }
    if definition.sensitive {
        value["sensitivity"] = "sensitive".into();
    }
    value
}

/// One of what a plural says many of, by the rules of the library that Talos uses for it.
fn singular(plural: &str) -> String {
    for (ending, instead) in [
        ("ies", "y"),
        ("sses", "ss"),
        ("uses", "us"),
        ("shes", "sh"),
        ("ches", "ch"),
        ("xes", "x"),
        ("s", ""),
    ] {
        if let Some(stem) = plural.strip_suffix(ending) {
            return format!("{stem}{instead}");
        }
    }
    plural.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a recorded machine of a release listed.
    fn recorded(file: &str) -> Vec<Value> {
        let folder =
            std::env::var("RECORDINGS").expect("RECORDINGS is not set: run conformance/recordings/run");
        let file = format!("{folder}/data/talos-observed/{file}");
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("could not read {file}: {error}"));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    #[ignore = "needs recordings of real systems: conformance/recordings/run"]
    fn types_are_those_that_recorded_machines_listed() {
        for (minor, file) in
            [(13, "cosi-types-4-vm-maintenance.jsonl"), (12, "cosi-types-7-v1.12-maintenance.jsonl")]
        {
            let rows = recorded(file);
            let ours: BTreeMap<String, Value> = definitions(minor).into_iter().collect();
            assert_eq!(ours.len(), rows.len());
            for row in rows {
                let kind = row["type"].as_str().unwrap();
                let own = &ours[&kind.to_lowercase()];
                assert_eq!(own["defaultNamespace"], row["ns"], "{kind}");
                assert_eq!(own["aliases"], row["aliases"], "{kind}");
                let sensitive = row["sensitivity"].as_str().unwrap();
                assert_eq!(own["sensitivity"].as_str().unwrap_or_default(), sensitive, "{kind}");
            }
        }
    }

    #[test]
    fn later_releases_know_more() {
        assert!(definition("KubeletStatuses.kubernetes.talos.dev", 13).is_none());
        assert!(definition("KubeletStatuses.kubernetes.talos.dev", 14).is_some());
        assert!(definition("APIServiceConfigs.runtime.talos.dev", 12).is_none());
        assert_eq!(fields("runtime.MachineStatusSpec").unwrap().len(), 2);
    }
}
