//! What a machine prints on its serial console.
//!
//! Lines are written with the moment at which they are printed, which may be in the future: a boot is written when it starts.
//! A client cannot read what was printed before it connected, so only what is to come is kept, and a little of what was. When
//! the machine loses its power or restarts, what it would have printed is gone.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::hardware::kernel_lines;
use super::journal::{Action, Happening};
use super::node::{Machine, after};
use super::timing;

/// How long a line that was printed is kept for a client that is slow.
const KEPT: SignedDuration = SignedDuration::from_secs(60);
/// From power to the kernel's first line: firmware and boot loader print on the screen only.
const FIRMWARE: Duration = Duration::from_millis(3500);
/// From the kernel's first line to that of Talos.
const KERNEL: Duration = Duration::from_millis(5000);
/// From the network to the first certificate.
const FIRST_CERTIFICATE: Duration = Duration::from_millis(200);
/// From that to the one with the host name of the cloud-init drive.
const SECOND_CERTIFICATE: Duration = Duration::from_millis(70);
/// From the network to one with the IPv6 address, where there is no drive.
const LATE_CERTIFICATE: Duration = Duration::from_millis(2200);

/// The console of one machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Console {
    lines: Vec<Line>,
    count: u64,
    /// The moment that the kernel counts from.
    kernel_from: Timestamp,
    /// How many phases of the running sequence were started, and how many it has.
    progress: (usize, usize),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) at: Timestamp,
    pub(crate) number: u64,
    pub(crate) text: String,
}

impl Console {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn print(&mut self, at: Timestamp, text: &str) {
        let seconds = at.duration_since(self.kernel_from).as_secs_f64().max(0.0);
        let line = Line { at, number: self.count, text: format!("[{seconds:12.6}] {text}") };
        self.count += 1;
        let place = self.lines.partition_point(|other| other.at <= at);
        self.lines.insert(place, line);
    }

    /// What is not printed yet never will be.
    fn cut(&mut self, now: Timestamp) {
        self.lines.retain(|line| line.at <= now && now.duration_since(line.at) < KEPT);
    }
}

/// The fingerprint in a line that tells of a new certificate.
pub(crate) fn printed_fingerprint(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("server certificate issued")?;
    rest.split_once("\"fingerprint\": \"")?.1.split('"').next()
}

impl Machine {
    /// The lines that are printed after a moment, those after `last` only; some of them are still to come.
    pub(crate) fn printed_after(
        &self,
        since: Timestamp,
        last: Option<(Timestamp, u64)>,
    ) -> impl Iterator<Item = &Line> {
        let new =
            move |line: &&Line| line.at > since && last.is_none_or(|last| (line.at, line.number) > last);
        self.console.lines.iter().filter(new)
    }

    fn talos_prints(&mut self, at: Timestamp, text: &str) {
        self.console.print(at, &format!("[talos] {text}"));
    }

    /// Its power is cut.
    pub(super) fn silence(&mut self, now: Timestamp) {
        self.console.cut(now);
    }

    /// It starts: firmware, kernel, and the first program, up to the network.
    pub(super) fn print_boot(&mut self, now: Timestamp) {
        self.console.cut(now);
        if self.image().is_none() || self.disk.empty {
            return;
        }
        let kernel = after(now, FIRMWARE);
        self.console.kernel_from = kernel;
        for (number, text) in (0_u64..).zip(kernel_lines(self)) {
            self.console.print(after(kernel, Duration::from_millis(number * 60)), &text);
        }
        let mut at = after(kernel, KERNEL);
        let first = format!("[initramfs] booting Talos {}", self.talos());
        let extensions =
            self.extensions().iter().map(|name| format!("[initramfs] enabling system extension {name}"));
        let mut lines = vec![first, "[initramfs] mounting the rootfs".to_owned()];
        lines.extend(extensions);
        lines.push("[initramfs] entering the rootfs".to_owned());
        for line in lines {
            self.talos_prints(at, &line);
            at = after(at, Duration::from_millis(40));
        }
        for event in super::sequences::initialize() {
            at = after(at, Duration::from_millis(20));
            self.print_event(at, &event);
        }
    }

    /// The network is there. A machine without a configuration issues the certificates of its maintenance API now, each
    /// with a key of its own, and opens the port when it has the last.
    pub(super) fn print_network(&mut self, now: Timestamp) {
        let mut addresses = Vec::new();
        for (card, net) in self.own_addresses() {
            self.talos_prints(now, &format!(
                "assigned address {{\"component\": \"controller-runtime\", \"controller\": \"network.AddressSpecController\", \"address\": \"{net}\", \"link\": \"eth{card}\"}}"
            ));
            addresses.push(net.addr().to_string());
        }
        if self.disk.config.is_some() {
            return;
        }
        let first = after(now, FIRST_CERTIFICATE);
        self.inform(first, "entering maintenance service");
        self.inform(first, "this machine is reachable at:");
        for address in &addresses {
            self.inform(first, &format!("\t{address}"));
        }
        self.issue_certificate(first);
        let old = self.maintenance_fingerprint().unwrap_or_default();
        if let Some(address) = addresses.first() {
            let send = format!("\ttalosctl apply-config --insecure --nodes {address}");
            self.inform(first, "upload configuration using talosctl:");
            self.inform(first, &format!("{send} --file <config.yaml>"));
            self.inform(first, "optionally with node fingerprint check:");
            self.inform(first, &format!("{send} --cert-fingerprint '{old}' --file <config.yaml>"));
        }
        // The host name of the drive comes before or after the address.
        if !self.seed("certificates").is_multiple_of(3) {
            self.issue_certificate(after(first, SECOND_CERTIFICATE));
        }
        if self.hardware.instance_id.is_empty() {
            self.issue_certificate(after(now, LATE_CERTIFICATE));
        }
    }

    /// Issues another certificate for the maintenance API, with another key, and tells of it.
    pub(super) fn issue_certificate(&mut self, at: Timestamp) {
        self.keys += 1;
        let line = self.certificate_line();
        self.talos_prints(at, &line);
    }

    /// What is told of the newest certificate of the maintenance API.
    pub(crate) fn certificate_line(&self) -> String {
        let (controller, fingerprint) = (self.informer(), self.maintenance_fingerprint().unwrap_or_default());
        format!(
            "server certificate issued {{\"component\": \"controller-runtime\", \"controller\": \"{controller}\", \"fingerprint\": \"{fingerprint}\"}}"
        )
    }

    fn informer(&self) -> &'static str {
        if self.profile().has_maintenance_server() {
            "runtime.MaintenanceServiceController"
        } else {
            "runtime.MaintenanceServiceInformController"
        }
    }

    fn inform(&mut self, at: Timestamp, text: &str) {
        let controller = self.informer();
        self.talos_prints(
            at,
            &format!("{text} {{\"component\": \"controller-runtime\", \"controller\": \"{controller}\"}}"),
        );
    }

    /// What was published, as machined writes it.
    pub(super) fn print_event(&mut self, at: Timestamp, what: &Happening) {
        use Action::{Start, Stop};
        let text = match what {
            Happening::Sequence(name, Start) => {
                self.console.progress = (0, super::sequences::phase_count(name));
                format!("{name} sequence: {} phase(s)", self.console.progress.1)
            }
            Happening::Sequence(name, Stop) => format!("{name} sequence: done: 1.2s"),
            Happening::Phase(name, Start) => {
                self.console.progress.0 += 1;
                let (number, all) = self.console.progress;
                format!("phase {name} ({number}/{all}): 1 tasks(s)")
            }
            Happening::Phase(name, Stop) => {
                let (number, all) = self.console.progress;
                format!("phase {name} ({number}/{all}): done, 12.5ms")
            }
            // An event, and no task of the sequencer.
            Happening::Task(name, _) if name == "runningMaintenance" => return,
            Happening::Task(name, Start) => format!("task {name} (1/1): starting"),
            Happening::Task(name, Stop) => format!("task {name} (1/1): done, 12ms"),
            Happening::Failure(_, _, words) => words.clone(),
            _ => return,
        };
        self.talos_prints(at, &text);
    }

    /// The system does not come up.
    pub(super) fn print_panic(&mut self, now: Timestamp) {
        self.console.print(now, "Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100");
        self.console.print(now, &format!("Rebooting in {} seconds..", timing::FAILED_BOOT.as_secs()));
    }

    /// The last line before it is off or starts again.
    pub(super) fn print_last(&mut self, now: Timestamp, restarts: bool, kexec: bool) {
        self.console.print(
            now,
            match (restarts, kexec) {
                (true, true) => "kexec_core: Starting new kernel",
                (true, false) => "reboot: machine restart",
                (false, _) => "reboot: Power down",
            },
        );
    }

    /// Someone pressed the power button.
    pub(super) fn print_power_button(&mut self, now: Timestamp) {
        self.talos_prints(now, "shutdown via ACPI received");
    }
}
