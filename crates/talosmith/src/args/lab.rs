//! Arguments of the `lab` commands, which exist in builds with the lab only.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::examples;

/// How fast the lab's time runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LabSpeed {
    /// Jump from one event to the next.
    Max,
    /// So many times as fast as real time.
    Times(f64),
}

/// Fast enough to watch: a bring-up takes some five seconds.
pub const WATCHABLE: LabSpeed = LabSpeed::Times(50.0);

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
    /// Delete the lab state of this file, including its secrets.
    #[command(after_help = examples::RESET)]
    Reset {
        /// Do not ask.
        #[arg(short, long)]
        yes: bool,
    },
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
    /// The release of Proxmox VE that a new lab simulates.
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
    /// Where the lab state is kept between runs. Default: beside the cluster file; a state that a file describes is then not
    /// kept, and cannot be changed with `lab inject`.
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
    /// List the failures that can be injected, by number.
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
    /// Every response of a host, and every stage of its tasks, takes longer.
    #[command(after_help = "Examples:\n  talosmith lab inject slow pve2 --by 4")]
    Slow {
        /// The host.
        host: String,
        /// How many seconds longer; 0 clears it.
        #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = parse_seconds)]
        by: f64,
    },
    /// A host has no free space in its datastores and no free memory.
    #[command(after_help = "Examples:\n  talosmith lab inject full pve1")]
    Full {
        /// The host.
        host: String,
        /// Clear it.
        #[arg(long)]
        no: bool,
    },
    /// The clock of a host goes wrong.
    #[command(after_help = "Examples:\n  talosmith lab inject clock pve1 --ahead 300")]
    Clock {
        /// The host.
        host: String,
        /// How many seconds it is ahead; a negative number means behind.
        #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, default_value_t = 300)]
        ahead: i64,
    },
    /// The cluster loses its quorum.
    #[command(after_help = "Examples:\n  talosmith lab inject quorum")]
    Quorum {
        /// Restore the quorum.
        #[arg(long)]
        back: bool,
    },
    /// Only the named hosts outside answer: mirrors, registries, time servers, the Image Factory.
    #[command(after_help = "Examples:\n  talosmith lab inject outside ntp.example.com")]
    Outside {
        /// The hosts; without any, all answer again.
        only: Vec<String>,
    },
    /// A Talos version fails to boot on a machine.
    #[command(after_help = "Examples:\n  talosmith lab inject broken-system 150011 v1.13.9")]
    BrokenSystem {
        /// The VM of the machine.
        vmid: u32,
        /// The version, such as v1.13.9.
        talos: String,
        /// It boots again.
        #[arg(long)]
        no: bool,
    },
    /// The etcd database of a machine is full.
    #[command(after_help = "Examples:\n  talosmith lab inject full-etcd 150011")]
    FullEtcd {
        /// The VM of the machine.
        vmid: u32,
    },
    /// Cut a machine off the network.
    #[command(after_help = "Examples:\n  talosmith lab inject unplug 150021")]
    Unplug {
        /// The VM of the machine.
        vmid: u32,
        /// Plug it in again.
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
        /// The VM of the machine.
        vmid: u32,
        /// How many GiB it has; 0 clears it.
        #[arg(long, value_name = "GIB", default_value_t = 3)]
        gib: u64,
        #[command(flatten)]
        early: EarlyArgs,
    },
    /// Break connections and calls to machines (Talos API or Kubernetes API): the next one, those with a path, or at random.
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
    /// A known failure of Proxmox, at the next call, at calls with a path, or at random.
    #[command(after_help = "Examples:\n  talosmith lab inject fault 35 --path /qemu --times 3")]
    Fault {
        /// Its number; `lab inject faults` lists them.
        number: u8,
        #[command(flatten)]
        which: WhichArgs,
    },
    /// Break the serial console of a VM, from the next client on.
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
    /// Only calls with this method. For machines: `DIAL` for connections, `CALL` for Talos, else Kubernetes'.
    #[arg(long, value_name = "METHOD", default_value = "")]
    pub method: String,
    /// Only calls whose path contains this text. For machines, the path starts with address and port.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub path: String,
    /// How many matching calls succeed first.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub after: u32,
    /// At how many calls.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub times: u32,
    /// At this percentage of the matching calls, at random, until cleared. Without a method, only at calls that change something.
    #[arg(long, value_name = "PERCENT", conflicts_with_all = ["after", "times"], value_parser = parse_percent)]
    pub chance: Option<u16>,
    /// Seed of the random choice.
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

/// What is ordered for a VM that is created later.
#[derive(Debug, Args)]
pub struct EarlyArgs {
    /// The VM may be created later. Without it, a VM that does not exist is an error.
    #[arg(long)]
    pub early: bool,
}

pub(super) fn parse_speed(text: &str) -> Result<LabSpeed, String> {
    if text == "max" {
        return Ok(LabSpeed::Max);
    }
    match text.trim_end_matches('x').parse::<f64>() {
        Ok(times) if times.is_finite() && (0.01..=1000.0).contains(&times) => Ok(LabSpeed::Times(times)),
        _ => Err("it is `max`, or a number from 0.01 to 1000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
