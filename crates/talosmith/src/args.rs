//! The command line. Doc comments here are the help texts.

mod examples;
mod file;
mod proxmox;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::secret_command::Commands;

pub use file::{FileArgs, ImportArgs, InitArgs, ManArgs};
pub use proxmox::SetupArgs;

/// One file to a running, healthy Talos Linux Kubernetes cluster on Proxmox VE, and kept so.
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
    /// The cluster file, or a folder, of which every `.yaml` and `.yml` file counts. Several are merged key by key.
    #[arg(short, long = "file", global = true, value_name = "FILE", default_value = "cluster.yaml")]
    pub files: Vec<PathBuf>,

    /// Run in the built-in lab instead of on a real Proxmox. It keeps its own state in `.talosmith/lab` beside the
    /// file, and touches neither your secrets nor the network.
    #[arg(long, global = true)]
    pub lab: bool,

    /// How fast the lab's time runs: a number of times as fast as real time, or `max`, which does not wait at all.
    #[arg(long, global = true, value_name = "SPEED", value_parser = parse_speed)]
    pub lab_speed: Option<LabSpeed>,

    /// Seed of a new lab: equal seeds give equal results.
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

    /// Run no command that should print a secret (`cmd:COMMAND`), neither of the file nor of the environment: for files that
    /// others may change.
    #[arg(long, global = true, env = "TALOSMITH_NO_COMMANDS", hide_env = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub no_commands: bool,
}

impl Global {
    /// Whether commands may be run.
    pub fn commands(&self) -> Commands {
        if self.no_commands { Commands::Refused } else { Commands::Allowed }
    }
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

/// How fast the lab's time runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LabSpeed {
    /// Jump from one event to the next.
    Max,
    /// So many times as fast as real time.
    Times(f64),
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
    /// Print the JSON Schema of the cluster file, for editors.
    #[command(after_help = examples::SCHEMA)]
    Schema,
    /// Explain the code of a problem, a refusal or a failure; without one, list them all.
    #[command(after_help = examples::EXPLAIN)]
    Explain {
        /// The code, such as TS0101, lost-mark or untrusted.
        code: Option<String>,
    },
    /// Print a script with which a shell completes commands and options.
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
    /// One node of the cluster.
    #[command(subcommand, after_help = examples::NODE)]
    Node(NodeCommand),
    /// Proxmox VE itself.
    #[command(subcommand, after_help = examples::SETUP)]
    Proxmox(ProxmoxCommand),
    /// The lab: simulated Proxmox, Talos and Kubernetes, to try things out.
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
    /// Needs an administrator's login, uses it once and keeps it nowhere. Shows what it will do and asks first. What is
    /// there already is left alone.
    #[command(after_help = examples::SETUP)]
    Setup(SetupArgs),
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Exit with 2 when there is something to do.
    #[arg(long)]
    pub detailed_exitcode: bool,
    /// Save the plan to this file, for `apply FILE`.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
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
    /// A plan that `plan -o FILE` has saved. It is carried out without a question, and only if nothing has changed since.
    #[arg(value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    #[command(flatten)]
    pub change: ChangeArgs,
    #[command(flatten)]
    pub allow: AllowArgs,
    /// End after this time, such as 90s, 20m or 2h, counted from the first change. A change that is being made is finished, nothing
    /// else is started, and a step that still waits is reported as failed (exit code 5). `talosmith apply` continues from there.
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
    /// Allow the data of this node to be deleted, if its VM must be recreated because its machine no longer
    /// responds. May be given several times; a node that answers is left as it is.
    #[arg(long, value_name = "NODE")]
    pub allow_destroy: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// Do not ask.
    #[arg(short, long)]
    pub yes: bool,
    /// Take over the lease from its holder. Only if that run is certainly dead.
    #[arg(long)]
    pub take_over: bool,
}

#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Write to this file, readable by you only, instead of to the terminal.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// With `--output`: keep what the file holds of other clusters.
    #[arg(long, requires = "output")]
    pub merge: bool,
    /// With `--output`: replace the file whatever it holds. Without it, one that holds anything of other clusters is left alone.
    #[arg(long, requires = "output", conflicts_with = "merge")]
    pub force: bool,
    /// For how long the certificate holds: `90m`, `24h`, `30d`.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_ttl)]
    pub ttl: Duration,
}

#[derive(Debug, Args)]
pub struct TalosconfigArgs {
    #[command(flatten)]
    pub output: OutputArgs,
    /// What its holder may do.
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
    /// Look, but no secrets.
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
    /// The folder to write to; made if it is not there. Files in it are replaced.
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
    /// Make the secrets of a new cluster. `apply` does the same when there are none.
    #[command(after_help = examples::SECRETS_NEW)]
    New {
        #[command(flatten)]
        keep: KeepArgs,
    },
    /// Take over the secrets of a cluster that exists: a secrets.yaml of talosctl, or an OpenTofu state.
    #[command(after_help = examples::SECRETS_IMPORT)]
    Import {
        /// The file; `-` reads standard input.
        from: PathBuf,
        #[command(flatten)]
        keep: KeepArgs,
    },
    /// Write the secrets as they are, as talosctl reads them.
    #[command(after_help = examples::SECRETS_EXPORT)]
    Export {
        /// The file, readable by you only. It must not exist.
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Show who can open the secrets; let others open them, or no longer.
    #[command(after_help = examples::SECRETS_RECIPIENTS)]
    Recipients {
        /// Let this one open them: a public key, `age1…`.
        #[arg(long, value_name = "KEY")]
        add: Vec<String>,
        /// Let this one no longer open them. What it has seen it may have kept.
        #[arg(long, value_name = "KEY")]
        remove: Vec<String>,
    },
}

/// How new secrets are kept.
#[derive(Debug, Args)]
pub struct KeepArgs {
    /// Let this one open them too: a public key, `age1…`. Can be given several times.
    #[arg(long = "recipient", value_name = "KEY")]
    pub recipients: Vec<String>,
    /// Do not encrypt them. Everyone who can read the file owns the cluster.
    #[arg(long, conflicts_with = "recipients")]
    pub plain: bool,
}

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Serve the lab on loopback, with TLS and real ports, for any program; write the lab copy of the file that uses it.
    #[command(after_help = examples::UP)]
    Up(UpArgs),
    /// Stop a lab that is served.
    #[command(after_help = examples::DOWN)]
    Down(FolderArgs),
    /// Break something in a lab that is served, clear the fault, or show what is broken.
    #[command(after_help = examples::DISTURB)]
    Inject(InjectArgs),
    /// Forget the lab's world of this file, its secrets included.
    #[command(after_help = examples::RESET)]
    Reset {
        /// Do not ask.
        #[arg(short, long)]
        yes: bool,
    },
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

/// A release of Proxmox VE that the lab plays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LabProxmox {
    /// 9.1.8, whose answers were recorded.
    #[value(name = "9.1")]
    V9_1,
    /// 9.2.11.
    #[default]
    #[value(name = "9.2")]
    V9_2,
}

impl From<LabProxmox> for lab::ProxmoxVersion {
    fn from(release: LabProxmox) -> Self {
        match release {
            LabProxmox::V9_1 => Self::V9_1,
            LabProxmox::V9_2 => Self::V9_2,
        }
    }
}

#[derive(Debug, Args)]
pub struct UpArgs {
    /// Where Proxmox listens.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8006")]
    pub proxmox: std::net::SocketAddr,
    /// Where the Image Factory listens.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8443")]
    pub factory: std::net::SocketAddr,
    /// The release of Proxmox VE that a new lab plays.
    #[arg(long, value_name = "RELEASE", value_enum, default_value_t)]
    pub proxmox_version: LabProxmox,
    /// Serve the lab state that this JSON file describes (host, storages, files, VMs), instead of one for a cluster file.
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    #[command(flatten)]
    pub folder: FolderArgs,
}

#[derive(Debug, Args)]
pub struct FolderArgs {
    /// Where the lab state is kept between runs. Left out: beside the cluster file; a state that a file describes is then not
    /// kept, and takes no orders.
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct InjectArgs {
    #[command(subcommand)]
    pub what: Inject,
    #[command(flatten)]
    pub folder: FolderArgs,
}

#[derive(Debug, Subcommand)]
pub enum Inject {
    /// Show what is broken, and which failures met a call.
    #[command(after_help = "Examples:\n  talosmith lab inject show")]
    Show,
    /// List the failures that can be ordered, by number.
    #[command(after_help = "Examples:\n  talosmith lab inject faults")]
    Faults,
    /// A host loses power, and its guests with it.
    #[command(after_help = "Examples:\n  talosmith lab inject off pve3")]
    Off {
        /// The host.
        host: String,
    },
    /// A host comes back.
    #[command(after_help = "Examples:\n  talosmith lab inject on pve3")]
    On {
        /// The host.
        host: String,
    },
    /// Every answer of a host, and every stage of its tasks, takes longer.
    #[command(after_help = "Examples:\n  talosmith lab inject slow pve2 --by 4")]
    Slow {
        /// The host.
        host: String,
        /// How many seconds longer; 0 clears it.
        #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = parse_seconds)]
        by: f64,
    },
    /// A host has no room left, neither in its storages nor in its memory.
    #[command(after_help = "Examples:\n  talosmith lab inject full pve1")]
    Full {
        /// The host.
        host: String,
        /// It has room again.
        #[arg(long)]
        no: bool,
    },
    /// The clock of a host goes wrong.
    #[command(after_help = "Examples:\n  talosmith lab inject clock pve1 --ahead 300")]
    Clock {
        /// The host.
        host: String,
        /// How many seconds it is ahead; fewer than none is behind.
        #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, default_value_t = 300)]
        ahead: i64,
    },
    /// The cluster loses its quorum.
    #[command(after_help = "Examples:\n  talosmith lab inject quorum")]
    Quorum {
        /// It has it back.
        #[arg(long)]
        back: bool,
    },
    /// Only the named hosts outside answer: mirrors, registries, time servers, the Image Factory.
    #[command(after_help = "Examples:\n  talosmith lab inject outside ntp.example.com")]
    Outside {
        /// The hosts; without any, all answer again.
        only: Vec<String>,
    },
    /// A Talos version does not come up on a machine.
    #[command(after_help = "Examples:\n  talosmith lab inject broken-system 150011 v1.13.9")]
    BrokenSystem {
        /// The VM of the machine.
        vmid: u32,
        /// The version, such as v1.13.9.
        talos: String,
        /// It comes up again.
        #[arg(long)]
        no: bool,
    },
    /// The etcd database of a machine is full.
    #[command(after_help = "Examples:\n  talosmith lab inject full-etcd 150011")]
    FullEtcd {
        /// The VM of the machine.
        vmid: u32,
    },
    /// The network cable of a machine is pulled.
    #[command(after_help = "Examples:\n  talosmith lab inject unplug 150021")]
    Unplug {
        /// The id of its VM.
        vmid: u32,
        /// It is put back.
        #[arg(long)]
        back: bool,
    },
    /// No time server answers: machines that boot wait for it, with the clock of their host.
    #[command(after_help = "Examples:\n  talosmith lab inject time")]
    Time {
        /// They answer again.
        #[arg(long)]
        back: bool,
    },
    /// The boot disk of a machine is smaller than Proxmox says, from its next start on.
    #[command(after_help = "Examples:\n  talosmith lab inject disk 150021 --gib 3")]
    Disk {
        /// The id of its VM.
        vmid: u32,
        /// How many GiB it has; 0 clears it.
        #[arg(long, value_name = "GIB", default_value_t = 3)]
        gib: u64,
        #[command(flatten)]
        early: EarlyArgs,
    },
    /// Something goes wrong on the way to a machine, at its Talos API or its Kubernetes API: at the next connection or call,
    /// at those of a place, or by chance.
    #[command(
        after_help = "Examples:\n  talosmith lab inject wire cut --path /machine.MachineService/ --times 2"
    )]
    Wire {
        /// What.
        #[arg(value_enum)]
        what: WireKind,
        /// How many seconds a slow answer is late.
        #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = parse_seconds)]
        by: f64,
        #[command(flatten)]
        which: WhichArgs,
    },
    /// A failure that Proxmox is known for, at the next call, at calls of a path, or by chance.
    #[command(after_help = "Examples:\n  talosmith lab inject fault 35 --path /qemu --times 3")]
    Fault {
        /// Its number; `lab inject faults` lists them.
        number: u8,
        #[command(flatten)]
        which: WhichArgs,
    },
    /// Something is wrong with the serial console of a VM, from the next client on.
    #[command(after_help = "Examples:\n  talosmith lab inject console 150011 cut --by 8")]
    Console {
        /// The VM.
        vmid: u32,
        /// What.
        #[arg(value_enum, default_value_t = ConsoleKind::Silent)]
        what: ConsoleKind,
        /// After how many seconds it is cut, or by how many it is late.
        #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = parse_seconds)]
        by: f64,
        /// It works again.
        #[arg(long)]
        no: bool,
        #[command(flatten)]
        early: EarlyArgs,
    },
    /// A relay stands in front of the maintenance API of a machine: it shows its own certificate, passes calls on and keeps
    /// the machine configs that it is sent.
    #[command(after_help = "Examples:\n  talosmith lab inject relay 150011")]
    Relay {
        /// The VM of the machine.
        vmid: u32,
        /// It is gone again.
        #[arg(long)]
        no: bool,
        #[command(flatten)]
        early: EarlyArgs,
    },
    /// The next connections to the maintenance API of a machine meet a certificate that is issued at that moment.
    #[command(after_help = "Examples:\n  talosmith lab inject reissue 150011 --times 2")]
    Reissue {
        /// The VM of the machine.
        vmid: u32,
        /// How many connections; 0 clears it.
        #[arg(long, value_name = "CONNECTIONS", default_value_t = 1)]
        times: u32,
        #[command(flatten)]
        early: EarlyArgs,
    },
    /// Clear all faults.
    #[command(after_help = "Examples:\n  talosmith lab inject clear")]
    Clear,
}

/// Which calls something happens to.
#[derive(Debug, Args)]
pub struct WhichArgs {
    /// Only calls with this method. On the way to machines: `DIAL` for connections, `CALL` for Talos, else Kubernetes'.
    #[arg(long, value_name = "METHOD", default_value = "")]
    pub method: String,
    /// Only calls whose path has this in it. On the way to machines address and port stand before it.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub path: String,
    /// How many calls that fit are let through first.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub after: u32,
    /// At how many calls.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub times: u32,
    /// At so many of a hundred calls that fit, by chance, until cleared. Without a method: not those that only read.
    #[arg(long, value_name = "PERCENT", conflicts_with_all = ["after", "times"], value_parser = parse_percent)]
    pub chance: Option<u16>,
    /// What chance comes from: equal seeds make equal choices.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
}

/// What is wrong with a console.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum ConsoleKind {
    /// It opens and prints nothing.
    Silent,
    /// Its connection is closed.
    Cut,
    /// Every line is late.
    Slow,
    /// The guest writes megabytes without an end of line first.
    Flood,
}

/// What can go wrong on the way to a machine.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum WireKind {
    /// The port refuses.
    Refused,
    /// The connection is reset before the machine did anything.
    Reset,
    /// The machine does what it is asked, and the connection is reset before it answers.
    Lost,
    /// The answer is cut off in the middle.
    Cut,
    /// Nothing ever comes.
    BlackHole,
    /// The answer is late.
    Slow,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "it is a number of seconds, from 0 to 3600".to_owned())
}

/// Percent, as so many of a thousand.
fn parse_percent(text: &str) -> Result<u16, String> {
    let percent = text.trim_end_matches('%').parse::<f64>().ok().filter(|p| *p > 0.0 && *p <= 100.0);
    let percent = percent.ok_or_else(|| "it is a number above 0, up to 100".to_owned())?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
    Ok((percent * 10.0).round() as u16)
}

fn parse_speed(text: &str) -> Result<LabSpeed, String> {
    if text == "max" {
        return Ok(LabSpeed::Max);
    }
    match text.trim_end_matches('x').parse::<f64>() {
        Ok(times) if times.is_finite() && (0.01..=1000.0).contains(&times) => Ok(LabSpeed::Times(times)),
        _ => Err("it is `max`, or a number from 0.01 to 1000".to_owned()),
    }
}

/// What is ordered for a VM that is created later.
#[derive(Debug, Args)]
pub struct EarlyArgs {
    /// The VM may be created later. Without it, a VM that does not exist is an error.
    #[arg(long)]
    pub early: bool,
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

    #[test]
    fn percents_are_of_a_thousand() {
        assert_eq!((parse_percent("10"), parse_percent("0.5%")), (Ok(100), Ok(5)));
        assert!(["0", "-1", "101", "x"].into_iter().all(|wrong| parse_percent(wrong).is_err()));
    }

    #[test]
    fn speeds() {
        assert_eq!(parse_speed("max"), Ok(LabSpeed::Max));
        assert_eq!(parse_speed("20x"), Ok(LabSpeed::Times(20.0)));
        for wrong in ["0", "-1", "fast", "inf", "NaN", "1e9"] {
            assert!(parse_speed(wrong).is_err(), "{wrong}");
        }
    }
}
