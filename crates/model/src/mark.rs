//! How a VM says whose it is.
//!
//! There is no state file: ownership stands in the VM itself, twice. Its SMBIOS UUID derives from the cluster's id and
//! the node's name, and the last line of its description carries the same as a [`Mark`], which survives a clone or a
//! restored backup (both of which change or double the UUID). [`crate::ownership`] judges by all of it. The cluster record VM
//! carries more: the [`Lease`] of the operator that is changing the cluster, and the [`BootstrapMark`] that keeps a second etcd cluster
//! from ever being made.
//!
//! The lines start with a fixed word so that people may write what they like above them. Each has a version; those without
//! one are of the first release. Fields that this program does not know stay when a line is rewritten. A line of a newer
//! version is [`Line::Newer`]: it is neither used nor taken for a missing one.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::derived;
use crate::forms;
use crate::names::NodeName;

/// The first word of a mark's line.
const MARK: &str = "talosmith-mark:";
/// The first word of the record's line.
const RECORD: &str = "talosmith-record:";
/// The name in [`Mark::node`] of the cluster record VM.
pub const RECORD_NODE: &str = "(record)";
/// With this starts [`Mark::node`] of a template that nodes are copied from.
pub const TEMPLATE_NODE: &str = "(template)";
/// With this ends the sentence for people that stands above the mark.
const SENTENCE: &str = "managed by Talosmith. Change the cluster file, not this VM.";

/// The version of the lines that this program writes, and the newest that it reads. Lines without a version are version 0.
pub const VERSION: u32 = 1;

/// Fields that this program does not know, kept as they are.
pub type Unknown = BTreeMap<String, Value>;

/// A line of ours in a VM's notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line<T> {
    /// There is none.
    Missing,
    /// There is one, and it cannot be parsed.
    Unreadable,
    /// A newer Talosmith wrote it.
    Newer {
        version: u64,
        /// The owner, where the line has one that can be read.
        owner: Option<Uuid>,
    },
    /// It was read.
    Found(T),
}

/// Whose VM this is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// See [`VERSION`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub version: u32,
    /// The cluster's name, for people.
    pub cluster: String,
    /// Derived from the cluster's id in the bundle; two clusters of one name differ in it.
    pub owner: Uuid,
    /// The node's name, or [`RECORD_NODE`].
    pub node: String,
    /// The VM's generation ID when the mark was written. Proxmox gives a VM another one when it is cloned, restored from a
    /// backup or rolled back to a snapshot; the notes stay the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmgenid: Option<Uuid>,
    /// Talosmith is creating the VM and has not started it yet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub creating: bool,
    /// The generation before a restore or rollback that a person accepted. The next run drops it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Uuid>,
    /// The generation that the record has of the VM that this one was created in place of, until it has this one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Uuid>,
    /// What else the line says.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What the cluster record VM says beyond its mark.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordState {
    /// See [`VERSION`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub version: u32,
    /// Who is changing the cluster now.
    pub lease: Option<Lease>,
    /// When and where etcd was started.
    pub bootstrap: Option<BootstrapMark>,
    /// How many times the lease went to a new holder. A plan made at another number was made for another observed state.
    #[serde(default)]
    pub turns: u64,
    /// The generation ID of each control plane node's VM, by node name, as of the last run. A snapshot may hold a mark from before marks had one;
    /// after a rollback only this shows that the VM is an older one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub generations: BTreeMap<String, Uuid>,
    /// Nodes whose machine received the cluster's keys without a proof of its identity, by node name, with what it was known by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unproved: BTreeMap<String, String>,
    /// Nodes whose machine showed another certificate than its console, by node name, with what was seen. Until one of them is proved, it
    /// is not configured by less.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub doubted: BTreeMap<String, String>,
    /// Since when the cluster is being deleted. It stays when the deletion is interrupted, and goes when the cluster is applied again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleting: Option<Timestamp>,
    /// Proxmox hosts that are drained, with the nodes that left them for it or were shut down there. `host undrain` brings them back.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drained: BTreeMap<String, BTreeSet<NodeName>>,
    /// What else the line says.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The right to change the cluster, for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Who, for people: user and machine.
    pub holder: String,
    /// From where: the working folder, whose local lock the run holds.
    pub nonce: String,
    /// Which run, unlike any other. Absent from leases of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// Until when it holds unless renewed.
    pub expires: Timestamp,
    /// How many seconds after its last renewal the holder stops by its own clock. Absent from leases of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stops_after: Option<u32>,
    /// For how many seconds the one it was taken from may still go on, until that wait is over. A run that ends during the wait leaves
    /// this behind, so that the next one waits again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outwaits: Option<u32>,
}

/// That etcd was started. Written before the call is made, so that no crash can hide it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootstrapMark {
    /// On which node. A repetition may only ever happen there.
    pub node: String,
    /// When the mark was first written.
    pub at: Timestamp,
    /// Whether etcd was seen to run afterwards. From then on there is no bootstrap any more.
    pub done: bool,
    /// What else the line says.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl BootstrapMark {
    #[must_use]
    pub fn new(node: impl Into<String>, at: Timestamp, done: bool) -> Self {
        Self { node: node.into(), at, done, unknown: Unknown::new() }
    }
}

impl Mark {
    /// The owner id of the cluster whose bundle has this cluster id.
    #[must_use]
    pub fn owner_of(cluster_id: &str) -> Uuid {
        Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("talosmith/owner/{cluster_id}").as_bytes())
    }

    /// The mark of a VM that is finished and whose generation is not known yet.
    #[must_use]
    pub fn new(cluster: impl Into<String>, owner: Uuid, node: impl Into<String>) -> Self {
        Self {
            version: VERSION,
            cluster: cluster.into(),
            owner,
            node: node.into(),
            vmgenid: None,
            creating: false,
            accepted: None,
            replaces: None,
            unknown: Unknown::new(),
        }
    }

    /// The SMBIOS UUID of the VM with this mark in the cluster whose bundle has this cluster ID.
    #[must_use]
    pub fn uuid(&self, cluster_id: &str) -> Uuid {
        match self.node.as_str() {
            RECORD_NODE => derived::record_uuid(cluster_id),
            node => derived::node_uuid(cluster_id, node),
        }
    }

    /// The same mark on a VM that Talosmith is creating.
    #[must_use]
    pub fn while_creating(self) -> Self {
        Self { creating: true, ..self }
    }

    /// The mark of a finished VM in this version's form: what `self` says of it, with what an earlier line says beyond.
    #[must_use]
    pub fn in_place_of(self, earlier: &Self, vmgenid: Option<Uuid>) -> Self {
        Self {
            version: VERSION,
            vmgenid,
            creating: false,
            accepted: None,
            replaces: None,
            unknown: earlier.unknown.clone(),
            ..self
        }
    }

    /// Whether it is the mark of this node of this owner.
    #[must_use]
    pub fn names(&self, owner: Uuid, node: &str) -> bool {
        self.owner == owner && self.node == node
    }

    /// The mark in a description. Its node's name is part of commands that people copy, so one that is no name is not read.
    #[must_use]
    pub fn read(description: &str) -> Line<Self> {
        match line::<Self>(description, MARK) {
            Line::Found(mark) if !mark.has_valid_node() => Line::Unreadable,
            read => read,
        }
    }

    fn has_valid_node(&self) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        match self.node.strip_prefix(TEMPLATE_NODE) {
            Some(rest) => rest.chars().all(|c| is_plain(c) || c == ' '),
            None => self.node == RECORD_NODE || forms::is_dns_name(&self.node),
        }
    }

    /// The mark in a description, if there is one that this program can use.
    #[must_use]
    pub fn find(description: &str) -> Option<Self> {
        Self::read(description).found()
    }

    /// Whether it is on a node's VM, and not on the record or a template.
    #[must_use]
    pub fn is_node(&self) -> bool {
        self.node != RECORD_NODE && !self.is_template()
    }

    /// Whether it is on a template.
    #[must_use]
    pub fn is_template(&self) -> bool {
        self.node.starts_with(TEMPLATE_NODE)
    }

    /// The description of a VM with this mark: a sentence for people, the file's note, then the mark.
    #[must_use]
    pub fn describe(&self, note: Option<&str>) -> String {
        let what = if self.is_template() { "" } else { "Node " };
        let note = note.map_or_else(String::new, |note| format!("{}\n\n", note.trim()));
        format!(
            "{what}{} of the Talos cluster {}, {SENTENCE}\n\n{note}{MARK} {}",
            self.node,
            self.cluster,
            json(self)
        )
    }

    /// The line of a VM's notes by which it is known.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{MARK} {}", json(self))
    }

    /// `description` with what is ours in it as it should be. What people wrote above or below stays. `None` when nothing
    /// needs to change.
    #[must_use]
    pub fn corrected(&self, description: &str, note: Option<&str>) -> Option<String> {
        let lines: Vec<&str> = description.lines().collect();
        let mark = lines.iter().rposition(|line| line.trim().starts_with(MARK));
        let begins = lines.iter().position(|line| line.trim_end().ends_with(SENTENCE)).or(mark);
        let (above, below) = match (begins, mark) {
            (Some(begins), Some(mark)) if begins <= mark => (&lines[..begins], &lines[mark + 1..]),
            _ => (&lines[..], &lines[..0]),
        };
        let text = [above.join("\n").trim(), &self.describe(note), below.join("\n").trim()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("\n\n");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        // Proxmox trims what it keeps.
        (words(&text) != words(description)).then_some(text)
    }

    /// The description of the cluster record VM: a card for people, the mark, the state.
    #[must_use]
    pub fn describe_record(&self, state: &RecordState) -> String {
        let lease = match &state.lease {
            Some(l) => format!("Being changed by {} since {}.", l.holder, l.since),
            None => "No operator is changing it.".to_owned(),
        };
        let bootstrap = match &state.bootstrap {
            Some(b) if b.done => format!("etcd was bootstrapped on {} at {}.", b.node, b.at),
            Some(b) => format!("etcd is being bootstrapped on {}.", b.node),
            None => "etcd was not bootstrapped yet.".to_owned(),
        };
        format!(
            "Record of the Talos cluster {}, managed by Talosmith. It never runs and has no disks. Do not delete it: it prevents \
             two operators from changing the cluster at the same time, and a second etcd.\n\n{lease} {bootstrap}\n\n{MARK} {}\n{RECORD} {}",
            self.cluster,
            json(self),
            json(&RecordState { version: VERSION, ..state.clone() })
        )
    }
}

impl RecordState {
    /// The record's state in a description.
    #[must_use]
    pub fn read(description: &str) -> Line<Self> {
        match line::<Value>(description, RECORD) {
            // Every release wrote all of them. Where one is missing, a person edited the line, and what it said is unknown.
            Line::Found(value) if !["lease", "bootstrap"].iter().all(|key| value.get(key).is_some()) => {
                Line::Unreadable
            }
            _ => line(description, RECORD),
        }
    }

    /// The record's state in a description, if there is one that this program can use.
    #[must_use]
    pub fn find(description: &str) -> Option<Self> {
        Self::read(description).found()
    }

    /// The line of the record's notes that says this.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{RECORD} {}", json(self))
    }
}

impl<T> Line<T> {
    /// What it says, if this program can use it.
    #[must_use]
    pub fn found(self) -> Option<T> {
        match self {
            Self::Found(found) => Some(found),
            Self::Missing | Self::Unreadable | Self::Newer { .. } => None,
        }
    }
}

/// What every version of a line has, whatever else changes.
#[derive(Deserialize)]
struct Versioned {
    #[serde(default)]
    version: Option<Value>,
    #[serde(default)]
    owner: Option<Value>,
}

fn line<T: for<'a> Deserialize<'a>>(description: &str, word: &str) -> Line<T> {
    let mut lines = description.lines().filter_map(|l| l.trim().strip_prefix(word)).map(str::trim);
    let Some(text) = lines.next_back() else { return Line::Missing };
    // Of two that differ, which one is true is not known.
    if lines.any(|other| other != text) {
        return Line::Unreadable;
    }
    let Ok(versioned) = serde_json::from_str::<Versioned>(text) else { return Line::Unreadable };
    let version = match &versioned.version {
        None => 0,
        Some(version) => match later(version) {
            Some(version) => version,
            None => return Line::Unreadable,
        },
    };
    if version > u64::from(VERSION) {
        let owner = versioned.owner.as_ref().and_then(Value::as_str).and_then(|owner| owner.parse().ok());
        return Line::Newer { version, owner };
    }
    serde_json::from_str(text).map_or(Line::Unreadable, Line::Found)
}

/// A version as a number. This release writes a small number; whatever else counts upwards is a later form of it. `None` is no version.
fn later(version: &Value) -> Option<u64> {
    let above = |number: u64| number.max(u64::from(VERSION) + 1);
    match version {
        Value::Number(number) => match number.as_u64() {
            Some(number) => Some(number),
            None => number.as_f64().filter(|number| *number > f64::from(VERSION)).map(|_| u64::MAX),
        },
        Value::String(text) => {
            let digits: String =
                text.trim_start_matches('v').chars().take_while(char::is_ascii_digit).collect();
            (!digits.is_empty()).then(|| above(digits.parse().unwrap_or(u64::MAX)))
        }
        _ => None,
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn json(value: &impl Serialize) -> String {
    // These types hold only strings, flags and times, which JSON can always carry.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_again_below_what_people_wrote() {
        let mark = Mark::new("home", Mark::owner_of("abc="), "home-work-1");
        let text = format!("bought in May\n{}\n", mark.describe(Some("runs the post office")));
        assert!(text.contains("runs the post office"), "{text}");
        assert_eq!(Mark::find(&text), Some(mark));
        assert_eq!(Mark::find("talosmith-mark: {broken"), None);
        assert_eq!(Mark::find("a VM of mine"), None);
    }

    #[test]
    fn a_corrected_description_keeps_what_people_wrote() {
        let mark = Mark::new("home", Mark::owner_of("abc="), "home-work-1");
        let text = format!("bought in May\n{}\nsold in June", mark.describe(Some("old note")));
        assert_eq!(mark.corrected(&text, Some("old note")), None);
        let changed = mark.corrected(&text, None).unwrap();
        assert!(changed.starts_with("bought in May\n\nNode home-work-1"), "{changed}");
        assert!(changed.ends_with("sold in June") && !changed.contains("old note"), "{changed}");
        assert_eq!(mark.corrected(&changed, None), None);
        assert_eq!(Mark::find(&mark.corrected("mine", None).unwrap()), Some(mark));
    }

    #[test]
    fn the_record_keeps_its_state() {
        let mark = Mark::new("home", Mark::owner_of("abc="), RECORD_NODE);
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let state = RecordState {
            lease: Some(Lease {
                holder: "eva@laptop".into(),
                nonce: "1".into(),
                run: Some("5f".into()),
                since: at,
                expires: at,
                stops_after: Some(60),
                outwaits: None,
            }),
            bootstrap: Some(BootstrapMark::new("home-control-1", at, true)),
            turns: 3,
            deleting: Some(at),
            version: VERSION,
            generations: [("home-control-1".to_owned(), Uuid::from_u128(7))].into(),
            unproved: BTreeMap::new(),
            doubted: BTreeMap::new(),
            drained: [("pve2".to_owned(), BTreeSet::from(["home-work-1".into()]))].into(),
            unknown: Unknown::new(),
        };
        let text = mark.describe_record(&state);
        assert_eq!(RecordState::find(&text), Some(state));
        assert_eq!(Mark::find(&text), Some(mark));
        assert!(text.contains("etcd was bootstrapped on home-control-1"), "{text}");
    }

    #[test]
    fn a9_lines_without_a_version_are_read_and_newer_ones_are_not() {
        let owner = Mark::owner_of("abc=");
        let old = format!("{MARK} {{\"cluster\":\"home\",\"owner\":\"{owner}\",\"node\":\"home-work-1\"}}");
        let Line::Found(mark) = Mark::read(&old) else { panic!("{old}") };
        assert_eq!((mark.version, mark.vmgenid, mark.creating), (0, None, false));
        assert_eq!(format!("{MARK} {}", json(&mark)), old, "nothing is added by reading");
        let newer =
            format!("{MARK} {{\"version\":{},\"owner\":\"{owner}\",\"node\":{{\"of\":1}}}}", VERSION + 1);
        assert_eq!(Mark::read(&newer), Line::Newer { version: u64::from(VERSION) + 1, owner: Some(owner) });
        assert_eq!(Mark::find(&newer), None);
        let record = format!("{RECORD} {{\"version\":9,\"lease\":7}}");
        assert_eq!(RecordState::read(&record), Line::Newer { version: 9, owner: None });
        assert_eq!(Mark::read("talosmith-mark: {broken"), Line::Unreadable);
        assert_eq!(Mark::read("mine"), Line::Missing);
    }

    #[test]
    fn a9_unknown_fields_stay_in_a_line_that_is_rewritten() {
        let owner = Mark::owner_of("abc=");
        let old = format!(
            "{MARK} {{\"cluster\":\"home\",\"owner\":\"{owner}\",\"node\":\"(record)\",\"seal\":{{\"by\":[1,2]}}}}\n\
             {RECORD} {{\"lease\":null,\"bootstrap\":{{\"node\":\"n\",\"at\":\"2026-01-01T00:00:00Z\",\"done\":true,\"id\":\"x\"}},\"turns\":3,\"rotation\":\"soon\"}}"
        );
        let (Some(mark), Some(state)) = (Mark::find(&old), RecordState::find(&old)) else { panic!("{old}") };
        let wanted = Mark::new("home", owner, RECORD_NODE).in_place_of(&mark, None);
        let text = wanted.describe_record(&state);
        for kept in ["\"seal\":{\"by\":[1,2]}", "\"id\":\"x\"", "\"rotation\":\"soon\"", "\"turns\":3"] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        assert_eq!(text.matches("\"version\":1").count(), 2, "{text}");
    }

    #[test]
    fn a_version_in_another_form_is_newer_and_never_missing() {
        let owner = Mark::owner_of("abc=");
        let read = |version: &str| {
            let text = format!(
                "{MARK} {{\"version\":{version},\"cluster\":\"home\",\"owner\":\"{owner}\",\"node\":\"home-work-1\"}}"
            );
            Mark::read(&text)
        };
        assert!(matches!(read("1"), Line::Found(_)));
        for (version, seen) in
            [("\"2\"", 2), ("\"v3\"", 3), ("\"1\"", 2), ("2.5", u64::MAX), ("18446744073709551616", u64::MAX)]
        {
            assert_eq!(read(version), Line::Newer { version: seen, owner: Some(owner) }, "{version}");
        }
        for version in ["-1", "{}", "[2]", "\"\"", "true"] {
            assert_eq!(read(version), Line::Unreadable, "{version}");
        }
        let record = format!("{RECORD} {{\"version\":\"2\",\"lease\":null,\"bootstrap\":null}}");
        assert_eq!(RecordState::read(&record), Line::Newer { version: 2, owner: None });
    }

    #[test]
    fn a_mark_whose_node_is_no_name_is_unreadable() {
        let read = |node: &str| Mark::read(&Mark::new("home", Mark::owner_of("abc="), node).line());
        for node in ["home-work-1", "w-1.example", RECORD_NODE, "(template)", "(template) worker 2"] {
            assert!(matches!(read(node), Line::Found(_)), "{node}");
        }
        for node in ["", "x; rm -rf /", "$(id)", "a`b`", "-rf", "Über", "(template) $(id)", &"a".repeat(64)]
        {
            assert_eq!(read(node), Line::Unreadable, "{node}");
        }
    }

    #[test]
    fn owners_differ_by_cluster_id() {
        assert_ne!(Mark::owner_of("a"), Mark::owner_of("b"));
    }

    #[test]
    fn a2_a_record_line_that_was_doubled_or_emptied_is_unreadable() {
        let true_line = r#"talosmith-record: {"lease":null,"bootstrap":{"node":"cp-1","at":"2026-01-01T00:00:00Z","done":true},"turns":1}"#;
        let empty = r#"talosmith-record: {"lease":null,"bootstrap":null,"turns":1}"#;
        assert!(matches!(RecordState::read(true_line), Line::Found(_)));
        assert!(matches!(RecordState::read(&format!("{true_line}\n{true_line}")), Line::Found(_)));
        assert_eq!(RecordState::read(&format!("{true_line}\n{empty}")), Line::Unreadable);
        assert_eq!(RecordState::read("talosmith-record: {}"), Line::Unreadable);
        assert_eq!(RecordState::read(r#"talosmith-record: {"lease":null,"turns":1}"#), Line::Unreadable);
    }
}
