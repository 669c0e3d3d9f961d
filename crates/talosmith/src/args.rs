//! The command line. Doc comments here are the help texts.

mod backup;
mod examples;
mod file;
#[cfg(feature = "lab")]
mod lab;
mod proxmox;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use engine::reconcile::Mandate;
use model::allowed::Allowed;

use crate::secret_command::Commands;

pub use backup::{BackupCommand, GetArgs, PruneArgs, VerifyArgs};
pub use file::{FileArgs, ImportArgs, InitArgs, ManArgs};
#[cfg(feature = "lab")]
pub use lab::{
    ConsoleKind, FolderArgs, Inject, InjectArgs, LabCommand, LabSpeed, UpArgs, WATCHABLE, WhichArgs, WireKind,
};
pub use proxmox::SetupArgs;

/// Create and maintain a Talos Linux Kubernetes cluster on Proxmox VE from one file.
#[derive(Debug, Parser)]
#[command(name = "talosmith", version, after_help = crate::exit::Exit::help(), propagate_version = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// The cluster file, or a folder with `.yaml` and `.yml` files. Can be given several times; the files are merged key by key.
    #[arg(short, long = "file", global = true, value_name = "FILE", default_value = "cluster.yaml")]
    pub files: Vec<PathBuf>,

    /// Run in the built-in lab instead of on a real Proxmox. It keeps its own state in `.talosmith/lab` beside the
    /// file, and touches neither your secrets nor the network.
    #[cfg_attr(feature = "lab", arg(long, global = true))]
    #[cfg_attr(not(feature = "lab"), arg(skip))]
    pub lab: bool,

    /// How fast the lab's time runs: a number of times as fast as real time, or `max`, which does not wait at all.
    #[cfg(feature = "lab")]
    #[arg(long, global = true, value_name = "SPEED", value_parser = lab::parse_speed)]
    pub lab_speed: Option<LabSpeed>,

    /// Seed of a new lab: equal seeds give equal results.
    #[cfg(feature = "lab")]
    #[arg(long, global = true, value_name = "NUMBER", default_value_t = 1)]
    pub lab_seed: u64,

    /// Print JSON, one document a line, for programs.
    #[arg(long, global = true)]
    pub json: bool,

    /// Print results only, no progress.
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// When to use colors.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,

    /// Do not run `cmd:COMMAND` references (for untrusted files).
    #[arg(long, global = true, env = "TALOSMITH_NO_COMMANDS", hide_env = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub no_commands: bool,
}

impl Global {
    /// The seed of the lab, for a command that runs in it.
    #[cfg(feature = "lab")]
    pub fn seed_of_lab(&self) -> Option<u64> {
        self.lab.then_some(self.lab_seed)
    }

    /// The seed of the lab: this build has none.
    #[cfg(not(feature = "lab"))]
    pub fn seed_of_lab(&self) -> Option<u64> {
        None
    }

    /// Whether commands may be run.
    pub fn commands(&self) -> Commands {
        if self.no_commands { Commands::Refused } else { Commands::Allowed }
    }
}

/// What helps someone who asks a build without the lab for it.
#[cfg(any(test, not(feature = "lab")))]
pub const NO_LAB: &str = "this build has no lab; build Talosmith with its default features to use it";

/// Adds to an error about the lab that this build has none.
#[cfg(any(test, not(feature = "lab")))]
pub fn without_lab(mut error: clap::Error) -> clap::Error {
    use clap::error::{ContextKind, ContextValue};
    let asks = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text == "lab" || text.starts_with("--lab"),
        _ => false,
    };
    if asks(ContextKind::InvalidArg) || asks(ContextKind::InvalidSubcommand) {
        for kind in [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue]
        {
            error.remove(kind);
        }
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![NO_LAB.into()]));
    }
    error
}

/// When to use colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a commented cluster file to start from.
    #[command(after_help = examples::INIT)]
    Init(InitArgs),
    /// Check the file and the files that it points to, offline.
    #[command(after_help = examples::VALIDATE)]
    Validate(FileArgs),
    /// Show everything that the file decides: nodes, addresses, VM ids, hardware. Talosmith does not query Proxmox.
    #[command(after_help = examples::SHOW)]
    Show(FileArgs),
    /// Read the files of another tool, and write the same cluster as one cluster file.
    #[command(after_help = examples::IMPORT)]
    Import(ImportArgs),
    /// Show what `apply` would do, and why.
    #[command(after_help = examples::PLAN)]
    Plan(PlanArgs),
    /// Create or update the cluster, so that it matches the file.
    #[command(after_help = examples::APPLY)]
    Apply(ApplyArgs),
    /// Show the state of the cluster.
    #[command(after_help = examples::STATUS)]
    Status(StatusArgs),
    /// Check whether the cluster is healthy, condition by condition; `--timeout` waits for it.
    #[command(after_help = examples::HEALTH)]
    Health(HealthArgs),
    /// Delete the cluster: its VMs and its cluster record VM, nothing else.
    #[command(after_help = examples::DESTROY)]
    Destroy(ChangeArgs),
    /// Write a kubeconfig for an administrator.
    #[command(after_help = examples::KUBECONFIG)]
    Kubeconfig(OutputArgs),
    /// Write a talosconfig.
    #[command(after_help = examples::TALOSCONFIG)]
    Talosconfig(TalosconfigArgs),
    /// Write the machine configs, schematics and a talosconfig, offline.
    #[command(after_help = examples::RENDER)]
    Render(RenderArgs),
    /// Manage the cluster's secrets, which you must keep.
    #[command(subcommand, after_help = examples::SECRETS)]
    Secrets(SecretsCommand),
    /// Make, list, read, verify and delete backups of etcd.
    #[command(subcommand, after_help = examples::BACKUP)]
    Backup(BackupCommand),
    /// Print the JSON Schema of the cluster file, for editors.
    #[command(after_help = examples::SCHEMA)]
    Schema,
    /// Explain the code of a problem, a refusal or a failure; without one, list them all.
    #[command(after_help = examples::EXPLAIN)]
    Explain {
        /// The code, such as TS0101, lost-mark or untrusted.
        code: Option<String>,
    },
    /// Print shell completions.
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    #[command(after_help = examples::MAN)]
    Man(ManArgs),
    /// Check that Proxmox is ready for the file: version, privileges, hosts, datastores, bridges, devices, clocks.
    #[command(after_help = examples::DOCTOR)]
    Doctor,
    /// Work with single nodes.
    #[command(subcommand, after_help = examples::NODE)]
    Node(NodeCommand),
    /// Take nodes off a Proxmox host before work on it, and bring them back.
    #[command(subcommand, after_help = examples::HOST)]
    Host(HostCommand),
    /// Proxmox VE itself.
    #[command(subcommand, after_help = examples::SETUP)]
    Proxmox(ProxmoxCommand),
    /// Use the lab: simulated Proxmox, Talos and Kubernetes.
    #[cfg(feature = "lab")]
    #[command(subcommand, after_help = examples::LAB)]
    Lab(LabCommand),
}

#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Show what a node's VM prints on its serial console, from now on, until Ctrl-] or Ctrl-C.
    ///
    /// Needs VM.Console. A VM has one console: while another one is open, such as in the web page of Proxmox, this one shows
    /// nothing.
    #[command(after_help = examples::CONSOLE)]
    Console(ConsoleArgs),
    /// Drain nodes and reboot their machines: control plane nodes one by one, workers as the file's `changes` section says.
    #[command(after_help = examples::REBOOT)]
    Reboot(DisruptArgs),
    /// Drain nodes and shut their machines down. The next `apply` starts them.
    #[command(after_help = examples::SHUTDOWN)]
    Shutdown(DisruptArgs),
    /// Cordon nodes and evict their pods. They stay cordoned until `node uncordon`.
    #[command(after_help = examples::DRAIN)]
    Drain(DisruptArgs),
    /// Cordon nodes, so that no new pods come to them. They stay cordoned until `node uncordon`.
    #[command(after_help = examples::CORDON)]
    Cordon(NodesArgs),
    /// Uncordon nodes, no matter who cordoned them.
    #[command(after_help = examples::UNCORDON)]
    Uncordon(NodesArgs),
    /// Replace nodes that are dead: remove their etcd members, and create them again with the same names and addresses.
    ///
    /// A node with data disks keeps its VM and these disks, and gets a new system disk. A node that is not proved to be dead is replaced
    /// only with `--force`; one whose state is unknown is never replaced.
    #[command(after_help = examples::REPLACE)]
    Replace(ReplaceArgs),
    /// Show the log of a service of nodes.
    #[command(after_help = examples::LOGS)]
    Logs(LogsArgs),
    /// Show the kernel log of nodes.
    #[command(after_help = examples::DMESG)]
    Dmesg(DmesgArgs),
}

/// Nodes, and how a change of them is made.
#[derive(Debug, Args)]
pub struct NodesArgs {
    /// The nodes' names.
    #[arg(value_name = "NAME", required = true)]
    pub nodes: Vec<String>,
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// Nodes that are disrupted.
#[derive(Debug, Args)]
pub struct DisruptArgs {
    #[command(flatten)]
    pub nodes: NodesArgs,
    /// Allow the Kubernetes API to be unreachable while a control plane node is down that etcd needs for its quorum: the only one, or one
    /// of two.
    #[arg(long)]
    pub allow_api_outage: bool,
    /// Do not wait for the maintenance window of the file (`changes.window`).
    #[arg(long)]
    pub now: bool,
    /// End after this time, such as 90s, 20m or 2h, counted from the first change.
    #[arg(long, value_name = "TIME", value_parser = parse_limit)]
    pub timeout: Option<Duration>,
}

/// Nodes that are replaced.
#[derive(Debug, Args)]
pub struct ReplaceArgs {
    #[command(flatten)]
    pub nodes: DisruptArgs,
    /// Replace a node that answers, waits for its configuration or is off, too. A node that answers is drained and leaves etcd first.
    #[arg(long)]
    pub force: bool,
    /// Allow this data disk to be deleted. When every data disk of a node may be deleted, its VM is deleted and created again. May be
    /// given several times; with a node alone, for all of its disks, and for pods that nothing brings back.
    #[arg(long, value_name = "NODE[/DISK]", value_parser = parse_deletion)]
    pub allow_destroy: Vec<Deletion>,
}

#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Move the cluster's nodes to other hosts, one after another, or shut them down. They stay on the other hosts, or off, until `host undrain`.
    ///
    /// Nodes move while they run if Proxmox allows it. Guests that do not belong to the cluster are listed and not touched. A host with
    /// so many voting members of etcd that it would lose its quorum without them is refused.
    #[command(after_help = examples::HOST_DRAIN)]
    Drain(HostArgs),
    /// Move the nodes back that left the host with `host drain`, and start those that it shut down.
    #[command(after_help = examples::HOST_UNDRAIN)]
    Undrain(HostArgs),
}

/// A Proxmox host, and how its nodes are disrupted.
#[derive(Debug, Args)]
pub struct HostArgs {
    /// The host's name in Proxmox.
    #[arg(value_name = "HOST")]
    pub host: String,
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Allow the Kubernetes API to be unreachable while a control plane node is down that etcd needs for its quorum: the only one, or one
    /// of two.
    #[arg(long)]
    pub allow_api_outage: bool,
    /// Do not wait for the maintenance window of the file (`changes.window`).
    #[arg(long)]
    pub now: bool,
    /// End after this time, such as 90s, 20m or 2h, counted from the first change.
    #[arg(long, value_name = "TIME", value_parser = parse_limit)]
    pub timeout: Option<Duration>,
}

impl From<NodesArgs> for DisruptArgs {
    fn from(nodes: NodesArgs) -> Self {
        Self { nodes, allow_api_outage: false, now: false, timeout: None }
    }
}

#[derive(Debug, Args)]
pub struct LogsArgs {
    /// The nodes' names.
    #[arg(value_name = "NAME", required = true)]
    pub nodes: Vec<String>,
    /// The service, such as etcd, kubelet, apid or machined.
    #[arg(long, value_name = "SERVICE", default_value = "machined")]
    pub service: String,
    /// Only so many lines from the end.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub lines: Option<u16>,
}

#[derive(Debug, Args)]
pub struct DmesgArgs {
    /// The nodes' names.
    #[arg(value_name = "NAME", required = true)]
    pub nodes: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ConsoleArgs {
    /// The node's name.
    #[arg(value_name = "NAME")]
    pub node: String,
    /// Send what is typed to the machine. Without it, the console is only read.
    #[arg(long)]
    pub write: bool,
    /// End after this time, such as 30s or 5m.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub timeout: Option<Duration>,
}

#[derive(Debug, Subcommand)]
pub enum ProxmoxCommand {
    /// Prepare Proxmox for the cluster: role, user, token, rights, content `import`, PCI mappings.
    ///
    /// Needs an administrator's login, uses it once and keeps it nowhere. Shows what it will do and asks first. It does not change what exists already.
    #[command(after_help = examples::SETUP)]
    Setup(SetupArgs),
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Exit with 2 if there are changes.
    #[arg(long)]
    pub detailed_exitcode: bool,
    /// Save the plan to this file, for `apply FILE`.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show this plan, which `plan -o FILE` has saved, as it was. Talosmith does not query Proxmox.
    #[arg(value_name = "PLAN", conflicts_with_all = ["output", "allow_destroy", "allow_destroy_removed", "allow_api_outage", "target"])]
    pub saved: Option<PathBuf>,
    /// Print Markdown, for a pull request: the same plan is always the same text.
    #[arg(long)]
    pub markdown: bool,
    #[command(flatten)]
    pub allow: AllowArgs,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Refresh until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,
    /// With `--watch`: seconds between two refreshes.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub every: u64,
}

#[derive(Debug, Args)]
pub struct HealthArgs {
    /// How long to wait for every condition to hold, such as 90s or 10m. Without it, they are asked once.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// A plan that `plan -o FILE` has saved. Talosmith applies it without a question, and only if nothing has changed since.
    #[arg(value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    #[command(flatten)]
    pub change: ChangeArgs,
    #[command(flatten)]
    pub allow: AllowArgs,
    /// End after this time, such as 90s, 20m or 2h, counted from the first change. A change that is being made is finished, nothing
    /// else is started, and a step that still waits is reported as not finished (exit code 5). `talosmith apply` continues from there.
    #[arg(long, value_name = "TIME", value_parser = parse_limit)]
    pub timeout: Option<Duration>,
    /// Write a kubeconfig when the cluster is healthy, merged into this file if it exists, readable by you only.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Write a talosconfig when the cluster is healthy, merged into this file if it exists, readable by you only.
    #[arg(long, value_name = "FILE")]
    pub talosconfig: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct AllowArgs {
    /// Allow the data of this node to be deleted: if its VM must be recreated because its machine no longer responds, or if the
    /// file does not have the node any more. With a disk, only that disk, if the file does not have it any more. May be given several
    /// times; a node of the file that answers is left as it is.
    #[arg(long, value_name = "NODE[/DISK]", value_parser = parse_deletion)]
    pub allow_destroy: Vec<Deletion>,
    /// Allow the data of every node to be deleted that the file does not have any more.
    #[arg(long)]
    pub allow_destroy_removed: bool,
    /// Allow the Kubernetes API to be unreachable while a control plane node restarts that etcd needs for its quorum: the only one, or one
    /// of two.
    #[arg(long)]
    pub allow_api_outage: bool,
    /// Do not wait for the maintenance window of the file (`changes.window`).
    #[arg(long)]
    pub now: bool,
    /// Change only this node, and what it needs. May be given several times.
    #[arg(long, value_name = "NODE")]
    pub target: Vec<String>,
}

/// What may be deleted with its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// The node.
    pub node: String,
    /// One disk of it, where it is not all of the node.
    pub disk: Option<String>,
}

impl std::fmt::Display for Deletion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.node)?;
        self.disk.as_ref().map_or(Ok(()), |disk| write!(f, "/{disk}"))
    }
}

impl Deletion {
    /// Allows all of these.
    pub fn allow(deletions: &[Self], allowed: &mut Allowed) {
        for Self { node, disk } in deletions.iter().cloned() {
            match disk {
                Some(disk) => {
                    allowed.disks.entry(node.into()).or_default().insert(disk);
                }
                None => {
                    allowed.nodes.insert(node.into());
                }
            }
        }
    }
}

fn parse_deletion(text: &str) -> Result<Deletion, String> {
    let (node, disk) = match text.split_once('/') {
        Some((node, disk)) => (node, Some(disk.to_owned())),
        None => (text, None),
    };
    if node.is_empty() || disk.as_ref().is_some_and(|disk| disk.is_empty() || disk.contains('/')) {
        return Err("name a node, or a disk of a node as NODE/DISK".to_owned());
    }
    Ok(Deletion { node: node.to_owned(), disk })
}

impl AllowArgs {
    /// What these arguments allow.
    pub fn allowed(&self) -> Allowed {
        let mut allowed = Allowed {
            removed: self.allow_destroy_removed,
            api_outage: self.allow_api_outage,
            outside_window: self.now,
            ..Allowed::default()
        };
        Deletion::allow(&self.allow_destroy, &mut allowed);
        allowed
    }
}

#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// Approve the plan without a question, and everything that its goals need later. Talosmith asks before it does anything
    /// else, and does not do it if stdin is not a terminal.
    #[arg(short, long)]
    pub yes: bool,
    /// Take over the lease from its holder. Only if that run is certainly dead.
    #[arg(long)]
    pub take_over: bool,
}

impl ChangeArgs {
    /// What is approved before the first plan is shown.
    pub fn mandate(&self) -> Mandate {
        if self.yes { Mandate::FirstPlan } else { Mandate::Ask }
    }
}

#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Write to this file, readable by you only, instead of to the terminal.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// With `--output`: keep what the file holds of other clusters.
    #[arg(long, requires = "output")]
    pub merge: bool,
    /// With `--output`: overwrite the file, whatever it contains. Without it, Talosmith does not overwrite a file with entries of other clusters.
    #[arg(long, requires = "output", conflicts_with = "merge")]
    pub force: bool,
    /// How long the certificate is valid: `90m`, `24h`, `30d`.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_ttl)]
    pub ttl: Duration,
}

#[derive(Debug, Args)]
pub struct TalosconfigArgs {
    #[command(flatten)]
    pub output: OutputArgs,
    /// The Talos role of the certificate.
    #[arg(long, value_name = "ROLE", default_value = "admin")]
    pub role: TalosRole,
}

/// What the holder of a talosconfig may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TalosRole {
    /// Everything.
    Admin,
    /// Restart, reboot, shut down, and what a reader may.
    Operator,
    /// Read, but no secrets.
    Reader,
    /// Save etcd, nothing else.
    EtcdBackup,
}

impl TalosRole {
    /// As it stands in a certificate.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "os:admin",
            Self::Operator => "os:operator",
            Self::Reader => "os:reader",
            Self::EtcdBackup => "os:etcd:backup",
        }
    }
}

#[derive(Debug, Args)]
pub struct RenderArgs {
    /// The folder to write to; created if it does not exist. Files in it are replaced.
    #[arg(short, long, value_name = "FOLDER")]
    pub output: PathBuf,
    /// Only this node.
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Without secrets, to be shown or compared. Needs no bundle.
    #[arg(long)]
    pub redact: bool,
}

#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// Generate the secrets of a new cluster. `apply` does the same if there are none.
    #[command(after_help = examples::SECRETS_NEW)]
    New {
        #[command(flatten)]
        keep: KeepArgs,
    },
    /// Import the secrets of an existing cluster: a secrets.yaml of talosctl, or an OpenTofu state.
    #[command(after_help = examples::SECRETS_IMPORT)]
    Import {
        /// The file; `-` reads standard input.
        from: PathBuf,
        #[command(flatten)]
        keep: KeepArgs,
    },
    /// Write the secrets unencrypted, in the format of talosctl.
    #[command(after_help = examples::SECRETS_EXPORT)]
    Export {
        /// The file, readable by you only. It must not exist.
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// List, add or remove the recipients of the secrets.
    #[command(after_help = examples::SECRETS_RECIPIENTS)]
    Recipients {
        /// Add this recipient: an age public key, `age1…`.
        #[arg(long, value_name = "KEY")]
        add: Vec<String>,
        /// Remove this recipient. It may have kept a copy of what it could decrypt.
        #[arg(long, value_name = "KEY")]
        remove: Vec<String>,
    },
}

/// How new secrets are kept.
#[derive(Debug, Args)]
pub struct KeepArgs {
    /// Encrypt them to this recipient, too: an age public key, `age1…`. Can be given several times.
    #[arg(long = "recipient", value_name = "KEY")]
    pub recipients: Vec<String>,
    /// Do not encrypt them. Everyone who can read the file owns the cluster.
    #[arg(long, conflicts_with = "recipients")]
    pub plain: bool,
}

fn parse_ttl(text: &str) -> Result<Duration, String> {
    let wrong = || "it is a number and a unit, from `1m` to `3650d`: `90m`, `24h`, `30d`".to_owned();
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let number: u64 = text.strip_suffix(unit).unwrap_or_default().parse().map_err(|_| wrong())?;
    let seconds = match unit {
        'm' => 60,
        'h' => 3600,
        'd' => 24 * 3600,
        _ => return Err(wrong()),
    };
    let all = number.checked_mul(seconds).filter(|all| (60..=3650 * 24 * 3600).contains(all));
    all.map(Duration::from_secs).ok_or_else(wrong)
}

/// `90s`, `10m` or `2h`.
fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None if !text.is_empty() => {
            return Err(format!(
                "it has no unit: write {text}s for seconds, {text}m for minutes or {text}h for hours"
            ));
        }
        None => (text, ""),
    };
    let seconds = match unit {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        _ => None,
    };
    match (number.parse::<u64>(), seconds) {
        (Ok(number), Some(seconds)) if number <= 100_000 => Ok(Duration::from_secs(number * seconds)),
        _ => Err("it is a number with `s`, `m` or `h`, such as 90s or 10m".to_owned()),
    }
}

/// The same, of a time in which something is to be done.
fn parse_limit(text: &str) -> Result<Duration, String> {
    match parse_time(text)? {
        Duration::ZERO => {
            Err("no time at all is too short; leave the option out to wait as long as each step allows"
                .to_owned())
        }
        limit => Ok(limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h2_a_build_without_the_lab_says_so() {
        let said = |words: &[&str]| {
            let command = clap::Command::new("talosmith").subcommand(clap::Command::new("plan"));
            without_lab(command.try_get_matches_from(words).unwrap_err()).to_string()
        };
        insta::assert_snapshot!(said(&["talosmith", "plan", "--lab"]), @r"
        error: unexpected argument '--lab' found

          tip: this build has no lab; build Talosmith with its default features to use it

        Usage: talosmith plan

        For more information, try '--help'.
        ");
        insta::assert_snapshot!(said(&["talosmith", "lab", "up"]), @r"
        error: unrecognized subcommand 'lab'

          tip: this build has no lab; build Talosmith with its default features to use it

        Usage: talosmith [COMMAND]

        For more information, try '--help'.
        ");
        assert!(said(&["talosmith", "--lab-seed=3"]).contains(NO_LAB));
        assert!(!said(&["talosmith", "plain"]).contains(NO_LAB));
    }

    #[test]
    fn f10_a_limit_leaves_some_time() {
        assert_eq!(parse_limit("20m").unwrap().as_secs(), 1200);
        for wrong in ["0", "0s", "0h", "soon", "-5m"] {
            assert!(parse_limit(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(parse_time("90s").unwrap().as_secs(), 90);
        assert_eq!(parse_time("10m").unwrap().as_secs(), 600);
        let why = parse_time("30").unwrap_err();
        assert_eq!(why, "it has no unit: write 30s for seconds, 30m for minutes or 30h for hours");
        for wrong in ["", "m", "-1", "1.5h", "10 m", "9999999h"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn lifetimes() {
        assert_eq!(parse_ttl("90m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_ttl("1d"), parse_ttl("24h"));
        for wrong in ["", "h", "0h", "1", "1s", "-1h", "4000d", "99999999999999999999h", "1hh", "é"] {
            assert!(parse_ttl(wrong).is_err(), "{wrong}");
        }
    }
}
