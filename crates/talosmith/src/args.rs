//! The command line. Doc comments here are the help texts.

mod file;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use file::{FileArgs, ImportArgs, InitArgs, ManArgs};

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
pub struct Global {
    /// The cluster file, or a folder, of which every `.yaml` and `.yml` file counts. Several are merged key by key.
    #[arg(short, long = "file", global = true, value_name = "FILE", default_value = "cluster.yaml")]
    pub files: Vec<PathBuf>,

    /// Run in the built-in lab instead of on a real Proxmox. It keeps a world of its own in `.talosmith/lab` beside the
    /// file, and touches neither your secrets nor the network.
    #[arg(long, global = true)]
    pub lab: bool,

    /// How fast the lab's time runs: a number of times as fast as real time, or `max`, which does not wait at all.
    #[arg(long, global = true, value_name = "SPEED", value_parser = parse_speed)]
    pub lab_speed: Option<LabSpeed>,

    /// Seed of a new lab: equal seeds make equal worlds.
    #[arg(long, global = true, value_name = "NUMBER", default_value_t = 1)]
    pub lab_seed: u64,

    /// Print JSON, one document a line, for programs.
    #[arg(long, global = true)]
    pub json: bool,

    /// Print results only, no progress.
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// When to use colours.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
}

/// When to use colours.
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
    /// Write a commented cluster file to begin with.
    Init(InitArgs),
    /// Check the file and the files that it points to, without asking anybody.
    Validate(FileArgs),
    /// Show everything that the file decides: nodes, addresses, VM ids, hardware. Proxmox is not asked.
    Show(FileArgs),
    /// Read the files of another tool as they stand, and write the same cluster as one file of ours.
    Import(ImportArgs),
    /// Show what `apply` would do, and why.
    Plan(PlanArgs),
    /// Make the cluster what the file says.
    Apply(ApplyArgs),
    /// Show how the cluster is.
    Status(StatusArgs),
    /// Say whether the cluster is healthy, condition by condition; wait for it with `--timeout`.
    Health(HealthArgs),
    /// Take the cluster away: its VMs and its record, nothing else.
    Destroy(ChangeArgs),
    /// Write a kubeconfig for an administrator.
    Kubeconfig(OutputArgs),
    /// Write a talosconfig.
    Talosconfig(TalosconfigArgs),
    /// Write what the nodes would be given, without asking anybody: configurations, schematics, a talosconfig.
    Render(RenderArgs),
    /// Look after the cluster's secrets, the one thing that must be kept.
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// Print the JSON Schema of the cluster file, for editors.
    Schema,
    /// Explain a problem by its code, with an example.
    Explain {
        /// The code, such as TS0101.
        code: String,
    },
    /// Print a script with which a shell completes commands and options.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man(ManArgs),
    /// The simulated world, for trying things out.
    #[command(subcommand)]
    Lab(LabCommand),
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
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Show it again and again, until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,
    /// With `--watch`: how many seconds to wait between two looks.
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
    /// Write a kubeconfig when the cluster is healthy, merged into this file if it exists, readable by you only.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Write a talosconfig when the cluster is healthy, merged into this file if it exists, readable by you only.
    #[arg(long, value_name = "FILE")]
    pub talosconfig: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// Do not ask.
    #[arg(short, long)]
    pub yes: bool,
    /// Take the lease from somebody who still holds it. Only when that run is surely dead.
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
    New {
        #[command(flatten)]
        keep: KeepArgs,
    },
    /// Take over the secrets of a cluster that exists: a secrets.yaml of talosctl, or an OpenTofu state.
    Import {
        /// The file; `-` reads standard input.
        from: PathBuf,
        #[command(flatten)]
        keep: KeepArgs,
    },
    /// Write the secrets as they are, as talosctl reads them.
    Export {
        /// The file, readable by you only. It must not exist.
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Show who can open the secrets; let others open them, or no longer.
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
    /// Do not encrypt them. Whoever reads the file owns the cluster.
    #[arg(long, conflicts_with = "recipients")]
    pub plain: bool,
}

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Serve the lab on loopback, with TLS and real ports, for any program; write the twin of the file that uses it.
    Up {
        /// Where Proxmox listens.
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8006")]
        proxmox: std::net::SocketAddr,
        /// Where the Image Factory listens.
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8443")]
        factory: std::net::SocketAddr,
        /// Serve the world that this JSON file describes (host, storages, files, VMs), instead of one for a cluster file.
        /// It lives as long as the command.
        #[arg(long, value_name = "FILE")]
        world: Option<PathBuf>,
    },
    /// Forget the lab's world of this file, its secrets included.
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

fn parse_speed(text: &str) -> Result<LabSpeed, String> {
    if text == "max" {
        return Ok(LabSpeed::Max);
    }
    match text.trim_end_matches('x').parse::<f64>() {
        Ok(times) if times.is_finite() && (0.01..=1000.0).contains(&times) => Ok(LabSpeed::Times(times)),
        _ => Err("it is `max`, or a number from 0.01 to 1000".to_owned()),
    }
}

/// `90s`, `10m`, `2h`, or a plain number of seconds.
fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(parse_time("90s").unwrap().as_secs(), 90);
        assert_eq!(parse_time("10m").unwrap().as_secs(), 600);
        assert_eq!(parse_time("5").unwrap().as_secs(), 5);
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
    fn speeds() {
        assert_eq!(parse_speed("max"), Ok(LabSpeed::Max));
        assert_eq!(parse_speed("20x"), Ok(LabSpeed::Times(20.0)));
        for wrong in ["0", "-1", "fast", "inf", "NaN", "1e9"] {
            assert!(parse_speed(wrong).is_err(), "{wrong}");
        }
    }
}
