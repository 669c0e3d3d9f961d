//! How running nodes are changed: how many at once, how long to wait, and when.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Written;

/// How running nodes are changed. It holds for every disruption: reboots, power cycles, upgrades, removals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Changes {
    /// How many workers may be unavailable at once: a number, or a percentage as `20%`, rounded down, at least one. Workers that are
    /// not ready count. Control plane nodes always go one at a time.
    pub workers: Written,
    /// How long a node may take to be drained: `90s`, `5m`, `1h`.
    pub drain_timeout: Written,
    /// What a drain may delete for good. Without it, a node with such pods is not drained, and the pods are named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drain_deletes: Vec<DrainDeletes>,
    /// How long a node may take to be ready again.
    pub ready_timeout: Written,
    /// How long a node must stay ready before the next one.
    pub soak: Written,
    /// Whether a control plane node may be disrupted that etcd needs for its quorum, as each of one or two control plane nodes. The
    /// Kubernetes API is unavailable meanwhile; workloads continue to run.
    pub api_outage: ApiOutage,
    /// Systems that must be healthy before each disruption. One that is named and not installed stops the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<HealthGate>,
    /// Commands that run on your machine directly before each disruption; each must exit with 0. `plan` does not run them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// When disruptions may start. Default: at any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

impl Default for Changes {
    fn default() -> Self {
        let written = |text: &str| Written(text.to_owned());
        Self {
            workers: written("1"),
            drain_timeout: written("5m"),
            drain_deletes: Vec::new(),
            ready_timeout: written("15m"),
            soak: written("30s"),
            api_outage: ApiOutage::default(),
            gates: Vec::new(),
            commands: Vec::new(),
            window: None,
        }
    }
}

/// Whether an outage of the Kubernetes API is accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApiOutage {
    /// It is planned and carried out.
    Allow,
    /// It is refused, unless the command has `--allow-api-outage`.
    #[default]
    Refuse,
}

/// What is lost when a pod is evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DrainDeletes {
    /// The data in `emptyDir` volumes, as `kubectl drain --delete-emptydir-data` does.
    EmptyDir,
    /// Pods that no controller creates again, as `kubectl drain --force` does.
    UnmanagedPods,
}

/// A system whose health is read from Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HealthGate {
    /// Every attached Longhorn volume is healthy.
    Longhorn,
    /// Every Rook Ceph cluster reports HEALTH_OK.
    Ceph,
    /// Every CloudNativePG cluster has all of its instances ready.
    CloudnativePg,
}

impl HealthGate {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Longhorn, Self::Ceph, Self::CloudnativePg];

    /// Its name in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Longhorn => "longhorn",
            Self::Ceph => "ceph",
            Self::CloudnativePg => "cloudnative-pg",
        }
    }
}

/// When disruptions may start. One that has started is finished, even if the window closes meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Days on which the window opens. Default: every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Day>,
    /// When it opens, by the clock on the wall: `22:00`.
    #[schemars(extend("examples" = ["22:00"]))]
    pub from: String,
    /// When it closes: `04:00`, or `24:00`. A time before `from` is on the next day.
    #[schemars(extend("examples" = ["04:00"]))]
    pub to: String,
    /// Time zone: a name such as `Europe/Berlin`, a fixed offset such as `+02:00`, or `UTC`. Names need the time zone database of the
    /// system that runs Talosmith.
    #[serde(default = "utc")]
    #[schemars(extend("examples" = ["Europe/Berlin"]))]
    pub time_zone: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Day {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}

impl Day {
    /// All of them.
    pub const ALL: [Self; 7] = [Self::Mon, Self::Tue, Self::Wed, Self::Thu, Self::Fri, Self::Sat, Self::Sun];
}
