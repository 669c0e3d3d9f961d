//! The sequences of machined: which phases and tasks each has, in the order in which a real machine was seen to run them.

use jiff::Timestamp;

use super::journal::{Action, Fault, Happening};
use super::node::{Leave, Machine};
use super::status::Status;

use Action::{Start, Stop};

/// How many phases a sequence has.
pub(super) fn phase_count(sequence: &str) -> usize {
    match sequence {
        "initialize" => INITIALIZE.len() + 1,
        "install" => 0,
        "boot" => BOOT.len() + 1,
        "reboot" => 10,
        "shutdown" => 11,
        _ => 12,
    }
}

/// The first sequence, as far as it needs no configuration.
pub(super) fn initialize() -> Vec<Happening> {
    let mut all = vec![Happening::Sequence("initialize".to_owned(), Start)];
    for (phase, tasks) in INITIALIZE {
        all.push(Happening::Phase((*phase).to_owned(), Start));
        all.extend(tasks.iter().map(|task| Happening::Task((*task).to_owned(), Start)));
        all.extend(tasks.iter().map(|task| Happening::Task((*task).to_owned(), Stop)));
        all.push(Happening::Phase((*phase).to_owned(), Stop));
    }
    all.push(Happening::Phase("config".to_owned(), Start));
    all.push(Happening::Task("loadConfig".to_owned(), Start));
    all
}

/// Phases with their tasks.
type Phases = &'static [(&'static str, &'static [&'static str])];

/// From the first process to the question for a configuration. The services start in it.
const INITIALIZE: Phases = &[
    ("systemRequirements", &["enforceKSPPRequirements"]),
    (
        "earlyServices",
        &["startContainerd", "startUdevd", "startMachined", "startApid", "startAuditd", "startSyslogd"],
    ),
    ("usb", &["waitForUSB"]),
    ("meta", &["reloadMeta"]),
];

const BOOT: Phases = &[
    ("memorySizeCheck", &["memorySizeCheck"]),
    ("diskSizeCheck", &["diskSizeCheck"]),
    ("env", &["waitForCARoots", "setUserEnvVars"]),
    ("dbus", &["startDBus"]),
    ("ephemeral", &["mountEphemeralPartition"]),
    ("udevSetup", &["writeUdevRules"]),
    ("userDisks", &["mountUserDisks"]),
    ("userSetup", &["writeUserFiles"]),
];

/// What every way down starts with after its own first phases.
const STOP_SERVICES: Phases = &[
    ("stopServices", &["stopServicesForUpgrade"]),
    ("umount", &["unmountPodMounts"]),
    ("unmountBind", &["unmountSystemDiskBindMounts"]),
    ("unmountSystem", &["unmountEphemeralPartition"]),
    ("volumeFinalize", &["teardownLifecycle"]),
];

const DBUS: (&str, &[&str]) = ("dbus", &["stopDBus"]);
const CLEANUP: (&str, &[&str]) = ("cleanup", &["stopAllPods"]);
const DRAIN: (&str, &[&str]) = ("drain", &["cordonAndDrainNode"]);

/// The first phases of a way down: those while services still run.
fn first_phases(why: &Leave) -> Vec<(&'static str, &'static [&'static str])> {
    match why {
        Leave::Reboot => vec![CLEANUP, DBUS],
        Leave::ForcedReboot => vec![("reboot", &["reboot"])],
        Leave::Shutdown => vec![("storeShutdown", &["storeShutdownEmergency"]), DRAIN, CLEANUP, DBUS],
        Leave::Reset { graceful: true, .. } => {
            vec![
                DRAIN,
                ("cleanup", &["removeAllPods"]),
                DBUS,
                ("leave", &["leaveEtcd"]),
                ("preReset", &["sendResetSignal"]),
            ]
        }
        Leave::Reset { .. } => vec![CLEANUP, DBUS, ("preReset", &["sendResetSignal"])],
        Leave::Upgrade => vec![DRAIN, CLEANUP, DBUS],
    }
}

impl Leave {
    /// The sequence's name.
    fn name(&self) -> &'static str {
        match self {
            Self::Reboot | Self::ForcedReboot => "reboot",
            Self::Shutdown => "shutdown",
            Self::Reset { .. } => "reset",
            Self::Upgrade => "upgrade",
        }
    }
}

impl Machine {
    fn sequence(&mut self, at: Timestamp, actor: &str, name: &str, action: Action) {
        self.publish(at, actor, Happening::Sequence(name.to_owned(), action));
    }

    fn phase(&mut self, at: Timestamp, actor: &str, name: &str, action: Action) {
        self.publish(at, actor, Happening::Phase(name.to_owned(), action));
    }

    fn task(&mut self, at: Timestamp, actor: &str, name: &str, action: Action) {
        self.publish(at, actor, Happening::Task(name.to_owned(), action));
    }

    fn phases(&mut self, at: Timestamp, actor: &str, phases: &[(&str, &[&str])]) {
        for (phase, tasks) in phases {
            self.phase(at, actor, phase, Start);
            for task in *tasks {
                self.task(at, actor, task, Start);
            }
            for task in *tasks {
                self.task(at, actor, task, Stop);
            }
            self.phase(at, actor, phase, Stop);
        }
    }

    /// Boot up to the question for a configuration.
    pub(super) fn publish_initialize(&mut self, at: Timestamp) {
        self.begin_log();
        self.told.initializing = true;
        self.sequence(at, "", "initialize", Start);
        let stage = |stage: &str, ready, unmet: &[(&str, &str)]| {
            let unmet =
                unmet.iter().map(|(name, reason)| ((*name).to_owned(), (*reason).to_owned())).collect();
            Happening::Status(Status { stage: stage.to_owned(), ready, unmet })
        };
        self.publish(at, "", stage("unknown", true, &[]));
        let waits = [
            ("time", "time is not synced"),
            ("network", "waiting on: address, connectivity, hostname"),
            ("services", "apid not running, machined not running, kubelet not running"),
        ];
        self.publish(at, "", stage("booting", false, &waits));
        self.phases(at, "", INITIALIZE);
        self.phase(at, "", "config", Start);
        self.task(at, "", "loadConfig", Start);
        self.told.initializing = false;
    }

    /// No configuration: maintenance.
    pub(super) fn publish_maintenance(&mut self, at: Timestamp) {
        self.task(at, "", "runningMaintenance", Start);
        self.publish_address(at);
    }

    /// A configuration is there: the rest of initialize, an install that has nothing to do, and the boot.
    pub(super) fn publish_boot(&mut self, at: Timestamp, after_maintenance: bool) {
        if after_maintenance {
            self.task(at, "", "runningMaintenance", Stop);
        }
        self.task(at, "", "loadConfig", Stop);
        self.phase(at, "", "config", Stop);
        self.sequence(at, "", "initialize", Stop);
        self.sequence(at, "", "install", Start);
        self.sequence(at, "", "install", Stop);
        self.sequence(at, "", "boot", Start);
        self.phases(at, "", BOOT);
        self.phase(at, "", "startEverything", Start);
        self.task(at, "", "startAllServices", Start);
        self.publish_address(at);
        self.told.booting = true;
    }

    fn publish_address(&mut self, at: Timestamp) {
        let addresses = self.own_addresses().iter().map(|(_, net)| net.addr().to_string()).collect();
        let what = Happening::Address(self.hostname().to_owned(), addresses);
        self.publish(at, "", what);
    }

    /// etcd is told to make a cluster: whatever it was doing ends, and it starts again.
    pub(super) fn publish_bootstrap(&mut self, at: Timestamp) {
        for (state, words) in [
            ("Finished", "Service finished successfully"),
            ("Finished", "Bootstrap requested"),
            ("Starting", "Starting service"),
            (
                "Waiting",
                "Waiting for volumes /var/lib, ETCD to be mounted, service \"cri\" to be \"up\", time sync, network, etcd spec",
            ),
            ("Preparing", "Running pre state"),
        ] {
            let what = Happening::Service("etcd".to_owned(), state.to_owned(), words.to_owned(), None);
            self.publish(at, "", what);
        }
    }

    /// All services are up: the boot sequence is over.
    pub(super) fn end_boot(&mut self, at: Timestamp, status: &Status) {
        if self.told.booting && status.stage == "running" {
            self.stop_boot(at);
        }
    }

    fn stop_boot(&mut self, at: Timestamp) {
        self.told.booting = false;
        self.task(at, "", "startAllServices", Stop);
        self.phase(at, "", "startEverything", Stop);
        self.sequence(at, "", "boot", Stop);
    }

    /// A way down starts. What was going on is cut off.
    pub(super) fn publish_leaving(
        &mut self,
        at: Timestamp,
        actor: &str,
        why: &Leave,
        before: Option<&(Leave, String)>,
    ) {
        if let Some((other, their)) = before {
            let (name, their) = (other.name(), their.clone());
            self.sequence(at, &their, name, Stop);
            let words = format!(
                "sequence failed: error running phase 1 in {name} sequence: task 1/1: failed, context canceled"
            );
            self.publish(at, &their, Happening::Failure(name.to_owned(), Fault::Canceled, words));
        } else if self.told.booting {
            self.stop_boot(at);
            self.publish_cut_off(at);
            let words =
                "sequence failed: error running phase 9 in boot sequence: task 1/1: failed, context canceled";
            self.publish(at, "", Happening::Failure("boot".to_owned(), Fault::Canceled, words.to_owned()));
        }
        self.sequence(at, actor, why.name(), Start);
        // The rest follows when the services have stopped; until then another sequence may take over.
        self.phases(at, actor, &first_phases(why)[..1]);
    }

    /// A boot that is cut off counts as ended for a moment: the stage is running, and not ready.
    fn publish_cut_off(&mut self, at: Timestamp) {
        let last = self.log.iter().rev().find_map(|entry| match &entry.what {
            Happening::Status(status) => Some(status.clone()),
            _ => None,
        });
        if let Some(status) = last {
            let cut = Status { stage: "running".to_owned(), ready: false, ..status };
            self.publish(at, "", Happening::Status(cut));
        }
    }

    /// The services are stopped and the disks unmounted.
    pub(super) fn publish_stopped(&mut self, at: Timestamp, actor: &str, why: &Leave) {
        if *why == Leave::ForcedReboot {
            return;
        }
        self.phases(at, actor, &first_phases(why)[1..]);
        self.phases(at, actor, STOP_SERVICES);
        match why {
            Leave::Upgrade => {
                self.phases(at, actor, &[("upgrade", &["upgrade"]), ("kexec", &["kexecPrepare"])])
            }
            Leave::Shutdown => {}
            _ => self.phases(at, actor, &[("kexec", &["kexecPrepare"])]),
        }
        self.phase(at, actor, "stopEverything", Start);
        self.task(at, actor, "stopAllServices", Start);
    }

    /// A sequence that could not start because another has the lock. No one is named: readers cannot tell whose it was.
    pub(super) fn publish_locked(&mut self, at: Timestamp, why: &Leave) {
        let words = "sequence not started: locked".to_owned();
        self.publish(at, "", Happening::Failure(why.name().to_owned(), Fault::Locked, words));
    }

    /// The only etcd member cannot leave: the reset fails, and the machine restarts as it was.
    pub(super) fn publish_failed_reset(&mut self, at: Timestamp, actor: &str, words: &str) {
        self.sequence(at, actor, "reset", Start);
        let phases = first_phases(&Leave::Reset { graceful: true, wipe: super::node::Wipe::default() });
        self.phases(at, actor, &phases[..4]);
        self.sequence(at, actor, "reset", Stop);
        let words =
            format!("sequence failed: error running phase 4 in reset sequence: task 1/1: failed, {words}");
        self.publish(at, actor, Happening::Failure("reset".to_owned(), Fault::Fatal, words));
    }
}
