//! Taking a configuration: which mode is really used, what needs a reboot, and the words of the answer.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tonic::Code;

use super::admission::{self, Document, Objection};
use super::diff::difference;
use super::node::{Accepted, Leave, Leaving, Machine, Phase, after};
use super::settings::{Settings, text};
use super::{Machines, timing};

/// How a configuration should be applied; the numbers are those of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Reboot,
    Auto,
    NoReboot,
    Staged,
    Try,
}

impl Mode {
    /// From the wire; numbers that no one defined are taken as a reboot, as Talos does.
    pub fn from_wire(number: i32) -> Self {
        match number {
            1 => Self::Auto,
            2 => Self::NoReboot,
            3 => Self::Staged,
            4 => Self::Try,
            _ => Self::Reboot,
        }
    }

    pub fn wire(self) -> i32 {
        match self {
            Self::Reboot => 0,
            Self::Auto => 1,
            Self::NoReboot => 2,
            Self::Staged => 3,
            Self::Try => 4,
        }
    }
}

/// A refusal in gRPC's terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: Code,
    pub words: String,
    /// How long the machine thinks before it says so.
    pub after: Duration,
}

impl Refusal {
    pub fn new(code: Code, words: impl Into<String>) -> Self {
        Self { code, words: words.into(), after: Duration::ZERO }
    }

    pub fn late(mut self, after: Duration) -> Self {
        self.after = after;
        self
    }
}

/// What was done, or would have been done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub mode: Mode,
    pub details: String,
}

/// Parts of the v1alpha1 document that may change while a machine runs.
const IMMEDIATE: &[&str] = &[
    "ca",
    "acceptedCAs",
    "time",
    "certSANs",
    "install",
    "network",
    "sysfs",
    "sysctls",
    "logging",
    "controlPlane",
    "kubelet",
    "kernel",
    "registries",
    "pods",
    "seccompProfiles",
    "nodeAnnotations",
    "nodeLabels",
    "nodeTaints",
];
const IMMEDIATE_FEATURES: &[&str] =
    &["kubernetesTalosAPIAccess", "kubePrism", "hostDNS", "imageCache", "nodeAddressSortAlgorithm"];

impl Machines {
    /// Applies `bytes` to a machine.
    ///
    /// # Errors
    ///
    /// The machine's refusal.
    pub(crate) fn apply(
        &mut self,
        vmid: u32,
        bytes: &[u8],
        mode: Mode,
        dry_run: bool,
        trial: Option<Duration>,
        now: Timestamp,
    ) -> Result<Applied, Refusal> {
        self.now = self.now.max(now);
        let machine = self.machines.get_mut(&vmid).ok_or_else(gone)?;
        let old =
            matches!(machine.phase, Phase::Maintenance(_)) && machine.profile().has_maintenance_server();
        let word = match mode {
            Mode::NoReboot => "no-reboot",
            Mode::Staged => "staged",
            _ => "",
        };
        if old && !word.is_empty() {
            let words = format!("apply configuration --mode='{word}' is not supported in maintenance mode");
            return Err(Refusal::new(Code::Unimplemented, words));
        }
        let documents = admission::documents(bytes, machine.profile()).map_err(Objection::Parse);
        let documents =
            documents.and_then(|documents| admission::check(&documents, machine).map(|()| documents));
        let documents = documents.map_err(|objection| objected(objection, old))?;
        let content = String::from_utf8_lossy(bytes).into_owned();
        let values: Vec<Value> = documents.iter().map(|d| d.value.clone()).collect();
        let settings = Settings::read(&values, &machine.hardware.nics);
        let kubelet = machine.node().map(|node| node.settings.kubelet());
        let applied = match machine.phase {
            Phase::Maintenance(_) => {
                let trial = (mode == Mode::Try).then(|| trial.filter(|d| !d.is_zero()).unwrap_or(TRIAL));
                first(machine, &documents, content, settings, mode, dry_run, trial, now)
            }
            Phase::Configured(_) => again(machine, &values, content, settings, mode, dry_run, trial, now),
            _ => Err(gone()),
        }?;
        let changed = machine.live_node().is_some_and(|node| Some(node.settings.kubelet()) != kubelet);
        if kubelet.is_some() && changed {
            self.restart_kubelet(vmid, now);
        }
        self.mark(vmid, true);
        self.settle();
        Ok(applied)
    }
}

/// How long a configuration is tried when no one says.
const TRIAL: Duration = Duration::from_secs(60);

/// An objection as the API tells it. The maintenance server up to 1.12 says which kind it is.
fn objected(objection: Objection, old: bool) -> Refusal {
    let (code, prefix, words) = match objection {
        Objection::Parse(words) => (Code::Unknown, "failed to parse config: ", words),
        Objection::Validation(words) => (Code::InvalidArgument, "configuration validation failed: ", words),
        Objection::Runtime(words) => {
            (Code::InvalidArgument, "runtime configuration validation failed: ", words)
        }
    };
    if old {
        Refusal::new(code, format!("{prefix}{words}"))
    } else {
        Refusal::new(Code::InvalidArgument, words)
    }
}

fn gone() -> Refusal {
    Refusal::new(
        Code::Unavailable,
        "connection error: desc = \"transport: Error while dialing: dial unix /system/run/machined/machine.sock: connect: no such file or directory\"",
    )
}

/// A machine in maintenance takes a first configuration.
#[expect(clippy::too_many_arguments, reason = "one call site; a struct would only rename them")]
fn first(
    machine: &mut Machine,
    documents: &[Document],
    content: String,
    settings: Option<Settings>,
    mode: Mode,
    dry_run: bool,
    trial: Option<Duration>,
    now: Timestamp,
) -> Result<Applied, Refusal> {
    let old = machine.profile().has_maintenance_server();
    let mode = match mode {
        Mode::Staged | Mode::Try => mode,
        _ => Mode::NoReboot,
    };
    if dry_run && old {
        let details = "Dry run summary:\nNode is running in maintenance mode and does not have a config yet."
            .to_owned();
        return Ok(Applied { mode: Mode::Reboot, details });
    }
    if dry_run {
        return Ok(dry(mode, &difference("", &content, machine.profile().minor)));
    }
    let Phase::Maintenance(maintenance) = &mut machine.phase else { return Err(gone()) };
    if maintenance.accepted.is_some() {
        return Err(Refusal::new(Code::PermissionDenied, "not authorized"));
    }
    if mode == Mode::Staged {
        // A fresh disk image has no STATE partition yet: the answer is OK and nothing is kept.
        return Ok(Applied { mode, details: summary(mode).into() });
    }
    if settings.is_some() {
        let at = after(now, timing::MAINTENANCE_LINGERS);
        maintenance.accepted = Some(Accepted { config: content, at, trial });
    } else {
        let hostname = documents.iter().find(|d| text(&d.value, "kind") == "HostnameConfig");
        maintenance.hostname = hostname.map(|d| text(&d.value, "hostname")).filter(|name| !name.is_empty());
        machine.renew(now);
    }
    if old {
        // That server fills nothing of the answer.
        return Ok(Applied { mode: Mode::Reboot, details: String::new() });
    }
    let mut details = summary(mode).to_owned();
    details += &trial.map(tried).unwrap_or_default();
    Ok(Applied { mode, details })
}

/// What the answer to a trial says.
fn tried(limit: Duration) -> String {
    format!(
        "\nThe config is applied in 'try' mode and will be automatically reverted back in {}",
        go_duration(limit)
    )
}

/// A machine that runs takes another configuration.
#[expect(clippy::too_many_arguments, reason = "one call site; a struct would only rename them")]
fn again(
    machine: &mut Machine,
    values: &[Value],
    content: String,
    settings: Option<Settings>,
    mode: Mode,
    dry_run: bool,
    trial: Option<Duration>,
    now: Timestamp,
) -> Result<Applied, Refusal> {
    let Some(settings) = settings else {
        return Err(Refusal::new(
            Code::InvalidArgument,
            "the applied machine configuration doesn't contain v1alpha1 config, did you mean to patch the machine config instead?",
        ));
    };
    let staged = machine.disk.config.clone();
    let profile = machine.profile();
    if profile.minor >= 14 && mode == Mode::Reboot {
        let words = "the REBOOT mode is not supported, please use AUTO or NO_REBOOT modes instead";
        return Err(Refusal::new(Code::Unimplemented, words));
    }
    let Some(node) = machine.node_mut() else { return Err(gone()) };
    if node.leaving.is_some_and(|leaving| leaving.for_config) {
        return Err(Refusal::new(
            Code::FailedPrecondition,
            "configuration was already applied and node is rebooting, cannot apply more configuration changes until next reboot",
        ));
    }
    let old: Vec<Value> = admission::documents(node.config.as_bytes(), profile)
        .unwrap_or_default()
        .into_iter()
        .map(|d| d.value)
        .collect();
    let diff = if old == *values { String::new() } else { difference(&node.config, &content, profile.minor) };
    // Since 1.14 nothing restarts by itself.
    let why = (profile.minor <= 13 && !is_immediate(&old, values))
        .then(|| format!("this config change can't be applied in immediate mode\ndiff:\n{diff}"));
    let (mode, reason) = match (mode, why) {
        (Mode::Auto, Some(why)) => (Mode::Reboot, Some(why)),
        (Mode::Auto, None) => (Mode::NoReboot, None),
        (Mode::NoReboot | Mode::Try, Some(why)) => return Err(Refusal::new(Code::InvalidArgument, why)),
        (mode, _) => (mode, None),
    };
    if dry_run {
        let baseline = staged.as_deref().is_some_and(|s| s == content);
        return Ok(dry(mode, if baseline { "" } else { &diff }));
    }
    let mut details = summary(mode).to_owned();
    match mode {
        Mode::Staged => machine.disk.config = Some(content),
        Mode::Reboot => {
            machine.disk.config = Some(content);
            details += &reason.map(|why| format!(": {why}")).unwrap_or_default();
            machine.publish_leaving(now, "", &Leave::Reboot, None);
            if let Some(node) = machine.node_mut() {
                node.leaving = Some(Leaving { for_config: true, ..leaving(Leave::Reboot, now) });
            }
        }
        Mode::Try => {
            // A second trial makes the first one what is returned to.
            let limit = trial.filter(|d| !d.is_zero()).unwrap_or(TRIAL);
            let before = std::mem::replace(&mut node.config, content);
            node.trial = Some((after(now, limit), Some(before)));
            node.settings = settings;
            node.generation += 1;
            details += &tried(limit);
        }
        Mode::Auto | Mode::NoReboot => {
            if node.config != content {
                node.generation += 1;
            }
            node.config.clone_from(&content);
            node.settings = settings;
            node.trial = None;
            machine.disk.config = Some(content);
        }
    }
    Ok(Applied { mode, details })
}

/// The moments of going down that start now.
pub(super) fn leaving(why: Leave, now: Timestamp) -> Leaving {
    let work = if why == Leave::Upgrade { timing::INSTALL } else { Duration::ZERO };
    let quits = after(now, timing::LEAVING_API + work);
    let gone = after(now, timing::LEAVING + work);
    let closes = after(quits, timing::API_LINGERS);
    Leaving { why, quits, closes, gone, stopped: false, closed: false, for_config: false }
}

fn summary(mode: Mode) -> &'static str {
    match mode {
        Mode::Reboot => "Applied configuration with a reboot",
        Mode::Staged => "Staged configuration to be applied after the next reboot",
        Mode::Auto | Mode::NoReboot | Mode::Try => "Applied configuration without a reboot",
    }
}

fn dry(mode: Mode, diff: &str) -> Applied {
    let diff = if diff.is_empty() { "No changes." } else { diff };
    let details =
        format!("Dry run summary:\n{} (skipped in dry-run).\nConfig diff:\n\n{diff}", summary(mode));
    Applied { mode, details }
}

/// Whether the change from `old` to `new` is confined to what may change while a machine runs.
fn is_immediate(old: &[Value], new: &[Value]) -> bool {
    let strip = |documents: &[Value]| {
        let mut main = documents.iter().find(|d| d.get("kind").is_none()).cloned().unwrap_or_default();
        if let Some(top) = main.as_object_mut() {
            top.remove("cluster");
            top.remove("debug");
        }
        if let Some(machine) = main.get_mut("machine").and_then(Value::as_object_mut) {
            machine.retain(|key, _| !IMMEDIATE.contains(&key.as_str()));
            if let Some(features) = machine.get_mut("features").and_then(Value::as_object_mut) {
                features.retain(|key, _| !IMMEDIATE_FEATURES.contains(&key.as_str()));
            }
        }
        main
    };
    strip(old) == strip(new)
}

/// A duration as Go prints it, for whole seconds.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_change_at_once_and_files_need_a_reboot() {
        let base = serde_json::json!({"version": "v1alpha1", "machine": {"type": "worker"}, "cluster": {}});
        let mut label = base.clone();
        label["machine"]["nodeLabels"] = serde_json::json!({"a": "b"});
        let mut files = base.clone();
        files["machine"]["files"] = serde_json::json!([]);
        assert!(is_immediate(std::slice::from_ref(&base), &[label]));
        assert!(!is_immediate(&[base], &[files]));
    }
}
