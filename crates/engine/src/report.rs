//! What is needed to understand a run that failed: what failed and why, the end of the journal, the
//! logs of Proxmox' tasks, the last lines on the consoles that were read, what each machine concerned says about its services and its kernel, and etcd's own view.
//!
//! Everything is asked for at once and within seconds, because a person waits; what does not answer is named in its file.
//! Every text passes through [`Scrub`] before it leaves this module: logs of other programs may quote keys and tokens. Where the
//! files are kept is the front end's choice ([`ReportStore`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use model::blueprint::{Node, Role};
use model::event::{Event, What};
use talos_client::{Machine, Maintenance};

use crate::Systems;
use crate::journal::JournalStore;
use crate::scrub::Scrub;
use crate::secrets::write_private;
use crate::session::Snapshot;

/// For everything together.
const TIMEOUT: Duration = Duration::from_secs(20);
/// For one question.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);
/// How much of the journal.
const TAIL: usize = 300;
/// How many tasks of one host.
const TASKS: usize = 20;

/// A run that failed.
pub struct Failed<'a> {
    /// The world it ran in.
    pub systems: &'a Systems,
    /// What was looked at before.
    pub snapshot: &'a Snapshot,
    /// Everything that happened.
    pub events: &'a [Event],
    pub journal: &'a dyn JournalStore,
    /// What must not be told.
    pub scrub: &'a Scrub,
}

/// Where reports are kept.
pub trait ReportStore: Send + Sync {
    /// Keeps the files of a report; says where they are.
    ///
    /// # Errors
    ///
    /// When they cannot be written.
    fn save(&self, now: Timestamp, files: &Files) -> io::Result<String>;
}

/// The files of a report: their names and what is in them.
pub type Files = BTreeMap<String, String>;

/// Keeps each report in a folder of its own, which only its owner can read.
#[derive(Debug, Clone)]
pub struct ReportFolder {
    folder: PathBuf,
}

impl ReportFolder {
    /// Below this folder.
    pub fn below(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }
}

impl ReportStore for ReportFolder {
    fn save(&self, now: Timestamp, files: &Files) -> io::Result<String> {
        let path = new_folder(&self.folder, now)?;
        for (name, text) in files {
            write_private(&path.join(name), text.as_bytes(), false)?;
        }
        Ok(path.display().to_string())
    }
}

/// Gathers a report. What could not be asked is said in the report itself.
pub async fn collect(failed: &Failed<'_>) -> Files {
    let began = failed.events.first().map_or_else(|| failed.systems.clock.now(), |event| event.at);
    let nodes = failed.nodes();
    let mut files = BTreeMap::from([
        ("failures.txt".to_owned(), failed.failures()),
        ("journal.jsonl".to_owned(), failed.journal_tail()),
    ]);
    for node in &nodes {
        let lines = failed.systems.consoles.tail(&node.name);
        if !lines.is_empty() {
            files.insert(format!("console-{}.txt", node.name), lines.join("\n") + "\n");
        }
    }
    let asked = async {
        let machines = futures::future::join_all(nodes.iter().map(|node| machine(failed, node)));
        let hosts = failed.hosts(&nodes);
        let tasks = futures::future::join_all(hosts.iter().map(|host| tasks(failed, host, began)));
        let (machines, tasks, etcd) = futures::join!(machines, tasks, etcd(failed));
        (machines, hosts.into_iter().zip(tasks).collect::<Vec<_>>(), etcd)
    };
    match failed.systems.clock.timeout(TIMEOUT, asked).await {
        Ok((machines, tasks, etcd)) => {
            let machines = nodes.iter().zip(machines);
            files.extend(machines.map(|(node, text)| (format!("machine-{}.txt", node.name), text)));
            files.extend(tasks.into_iter().map(|(host, text)| (format!("proxmox-{host}.txt"), text)));
            files.insert("etcd.txt".to_owned(), etcd);
        }
        Err(timed_out) => {
            files.insert("not-asked.txt".to_owned(), format!("machines and Proxmox: {timed_out}\n"));
        }
    }
    files.values_mut().for_each(|text| *text = failed.scrub.clean(text));
    files
}

/// A folder that is readable by its owner only, named after the moment.
fn new_folder(folder: &Path, now: Timestamp) -> io::Result<PathBuf> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let name = now.strftime("failed-%Y%m%d-%H%M%S").to_string();
    let mut number = 1;
    loop {
        let name = if number == 1 { name.clone() } else { format!("{name}-{number}") };
        match builder.create(folder.join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| folder.join(name)),
        }
    }
}

impl Failed<'_> {
    fn failures(&self) -> String {
        let mut text = String::new();
        for event in self.events {
            if let What::StepFailed { step, code, causes, hint, .. } = &event.what {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{} {step} failed ({code})", event.at);
                for cause in causes {
                    let _ = writeln!(text, "  {cause}");
                }
                let _ = writeln!(text, "  hint: {hint}");
            }
        }
        text
    }

    fn journal_tail(&self) -> String {
        match self.journal.tail(TAIL) {
            Ok(lines) => lines.join("\n") + "\n",
            Err(error) => format!("could not be read: {error}\n"),
        }
    }

    /// The nodes that a failed step was about; every node when it was about none in particular.
    fn nodes(&self) -> Vec<&Node> {
        let mut named = BTreeSet::new();
        let mut all = false;
        for event in self.events {
            if let What::StepFailed { node, .. } = &event.what {
                match node {
                    Some(node) => {
                        named.insert(node.as_str());
                    }
                    None => all = true,
                }
            }
        }
        let nodes = &self.snapshot.blueprint.nodes;
        nodes.values().filter(|node| all || named.contains(node.name.as_str())).take(10).collect()
    }

    /// The hosts on which those nodes are, and those that downloads failed on.
    fn hosts(&self, nodes: &[&Node]) -> Vec<String> {
        let mut hosts: BTreeSet<String> = nodes.iter().filter_map(|node| node.host.clone()).collect();
        let known = &self.snapshot.observed.proxmox.inventory.hosts;
        for event in self.events {
            if let What::StepFailed { step, .. } = &event.what {
                hosts.extend(step.objects().filter(|part| known.contains_key(*part)).map(str::to_owned));
            }
        }
        hosts.into_iter().collect()
    }
}

/// The tasks of one host since the run started, each with its log.
async fn tasks(failed: &Failed<'_>, host: &str, began: Timestamp) -> String {
    let (systems, mut text) = (failed.systems, String::new());
    let listed =
        match systems.clock.timeout(REQUEST_TIMEOUT, systems.pve.tasks(host, began.as_second())).await {
            Ok(Ok(listed)) => listed,
            Ok(Err(error)) => return format!("the tasks of {host} could not be listed: {error}\n"),
            Err(timed_out) => return format!("the tasks of {host} could not be listed: {timed_out}\n"),
        };
    for (upid, end) in listed.iter().take(TASKS) {
        let _ = writeln!(text, "== {upid}\n   {}", end.as_deref().unwrap_or("still at work"));
        match systems.clock.timeout(REQUEST_TIMEOUT, systems.pve.task_log(upid, 0)).await {
            Ok(Ok(lines)) => lines.iter().for_each(|line| {
                let _ = writeln!(text, "   {}", line.text);
            }),
            Ok(Err(error)) => {
                let _ = writeln!(text, "   its log could not be read: {error}");
            }
            Err(timed_out) => {
                let _ = writeln!(text, "   its log could not be read: {timed_out}");
            }
        }
    }
    text
}

/// What a machine says about itself.
async fn machine(failed: &Failed<'_>, node: &Node) -> String {
    let systems = failed.systems;
    let Some(machine) = connect(failed, node) else { return "there are no keys to ask it with\n".to_owned() };
    let (stage, services, dmesg) = futures::join!(
        systems.clock.timeout(REQUEST_TIMEOUT, machine.stage()),
        systems.clock.timeout(REQUEST_TIMEOUT, machine.services()),
        systems.clock.timeout(REQUEST_TIMEOUT, machine.dmesg()),
    );
    let mut text = String::new();
    match flat(stage) {
        Ok(status) => {
            let _ = writeln!(text, "stage {}, ready: {}", status.stage, status.ready);
            for unmet in &status.unmet {
                let _ = writeln!(text, "  {}: {}", unmet.name, unmet.reason);
            }
        }
        Err(why) => {
            let _ = writeln!(text, "stage: {why}");
            if let Some(waits) = in_maintenance(failed, node).await {
                return format!("{text}{waits}");
            }
        }
    }
    match flat(services) {
        Ok(services) => services.iter().for_each(|service| {
            let _ = writeln!(text, "service {}: {} {}", service.id, service.state, service.message);
        }),
        Err(why) => {
            let _ = writeln!(text, "services: {why}");
        }
    }
    match flat(dmesg) {
        Ok(lines) => text.push_str(&format!("\nkernel log:\n{}\n", lines.join("\n"))),
        Err(why) => {
            let _ = writeln!(text, "kernel log: {why}");
        }
    }
    text
}

/// What a machine says that has no configuration yet: there are no services then, and no logs for clients without keys.
async fn in_maintenance(failed: &Failed<'_>, node: &Node) -> Option<String> {
    let (systems, address) = (failed.systems, failed.systems.address(node));
    let asked = async {
        let machine = Maintenance::connect(&systems.net, &systems.clock, address).await?;
        let (version, disks, links) = futures::join!(machine.version(), machine.disks(), machine.links());
        Ok::<_, talos_client::Error>((version, disks, links))
    };
    let (version, disks, links) = flat(systems.clock.timeout(REQUEST_TIMEOUT, asked).await).ok()?;
    let told = |what: &str, answer: Result<String, talos_client::Error>| {
        format!("{what}: {}\n", answer.unwrap_or_else(|error| error.to_string()))
    };
    let mut text = "it waits in maintenance mode for its configuration\n".to_owned();
    text.push_str(&told("version", version.map(|version| version.tag)));
    text.push_str(&told("disks", disks.map(|disks| format!("{disks:?}"))));
    text.push_str(&told("network cards", links.map(|links| format!("{links:?}"))));
    Some(text)
}

/// etcd as each control plane sees it.
async fn etcd(failed: &Failed<'_>) -> String {
    let views =
        failed.snapshot.blueprint.nodes.values().filter(|n| n.role == Role::ControlPlane).map(|node| async {
            let Some(machine) = connect(failed, node) else { return format!("{}: no keys\n", node.name) };
            let clock = &failed.systems.clock;
            let (status, members) = futures::join!(
                clock.timeout(REQUEST_TIMEOUT, machine.etcd_status()),
                clock.timeout(REQUEST_TIMEOUT, machine.etcd_members(false)),
            );
            let status = flat(status).map_or_else(|why| why, |status| format!("{status:?}"));
            let members = flat(members).map_or_else(|why| why, |members| format!("{members:?}"));
            format!("{}\n  status: {status}\n  members: {members}\n", node.name)
        });
    futures::future::join_all(views).await.concat()
}

fn connect(failed: &Failed<'_>, node: &Node) -> Option<Machine> {
    let access = failed.snapshot.access().ok()?;
    let address = failed.systems.address(node);
    Machine::connect(&failed.systems.net, &failed.systems.clock, address, &access.talos).ok()
}

fn flat<T>(answer: Result<talos_client::Result<T>, ambient::TimedOut>) -> Result<T, String> {
    answer.map_err(|timed_out| timed_out.to_string())?.map_err(|error| error.to_string())
}
