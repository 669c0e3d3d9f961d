//! Serial consoles that are open: a listener for one client, its ticket, and who reads the port.
//!
//! Connections end with the program, so nothing of this is saved; a task that is left over ends by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::hypervisor::access::Access;

/// How long a listener waits for its client.
pub(crate) const LISTENS: Duration = Duration::from_secs(10);
/// How long the ticket of a listener is taken.
const TICKET_LIFE: SignedDuration = SignedDuration::from_secs(40);

/// The consoles that are open, by the task of each.
#[derive(Debug, Default)]
pub(crate) struct Consoles {
    pub(crate) open: BTreeMap<String, Console>,
    attached: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Console {
    pub(crate) upid: String,
    pub(crate) node: String,
    pub(crate) vmid: u32,
    /// The serial port that was asked for.
    pub(crate) serial: Option<String>,
    /// Who asked, a token with its name.
    pub(crate) user: String,
    pub(crate) ticket: String,
    pub(crate) port: u16,
    pub(crate) since: Timestamp,
    /// Its client has come.
    pub(crate) taken: bool,
    /// Which serial port of which process it is connected to, and after how many others.
    pub(crate) attached: Option<(String, u32, u64)>,
}

/// The ticket that opens a console.
pub(crate) fn ticket(access: &Access, user: &str, vmid: u32, port: u16, made: Timestamp) -> String {
    let text = format!("PVEVNC:{:08X}", made.as_second());
    format!("{text}::{}", access.long_signature(&format!("{text}:{user}:/vms/{vmid}:{port}")))
}

impl Console {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Whether its listener still waits for the client.
    fn waits(&self, now: Timestamp) -> bool {
        !self.taken && now.duration_since(self.since).unsigned_abs() < LISTENS
    }

    /// Whether it is connected to a port of this process.
    pub(crate) fn is_attached_to(&self, pid: u32) -> bool {
        self.attached.as_ref().is_some_and(|(_, own, _)| *own == pid)
    }

    /// The task's own words when no client came.
    pub(crate) fn gave_up(&self) -> String {
        let serial = self.serial.as_ref().map(|serial| format!(" -iface {serial}")).unwrap_or_default();
        format!(
            "command '/usr/bin/termproxy {} --path /vms/{vmid} --perm VM.Console -- /usr/sbin/qm terminal {vmid} -escape 0{serial}' failed: exit code 1",
            self.port,
            vmid = self.vmid,
        )
    }
}

/// Whether a ticket was issued to `user` for this port of a VM, and not too long ago.
pub(crate) fn is_sound(
    access: &Access,
    user: &str,
    vmid: u32,
    port: u16,
    given: &str,
    now: Timestamp,
) -> bool {
    let made = given.split(':').nth(1).and_then(|time| i64::from_str_radix(time, 16).ok());
    let made = made.and_then(|second| Timestamp::from_second(second).ok());
    made.is_some_and(|made| {
        now.duration_since(made) < TICKET_LIFE && ticket(access, user, vmid, port, made) == given
    })
}

impl Consoles {
    pub(crate) fn get(&self, upid: &str) -> Option<&Console> {
        self.open.get(upid)
    }

    /// The client with this ticket has come; gives the task of the console that waited for it, if one did.
    pub(crate) fn take(&mut self, ticket: &str, now: Timestamp) -> Option<String> {
        let console =
            self.open.values_mut().find(|console| console.ticket == ticket && console.waits(now))?;
        console.taken = true;
        Some(console.upid.clone())
    }

    /// Connects a console to the serial port of a process.
    pub(crate) fn attach(&mut self, upid: &str, serial: &str, pid: u32) {
        if let Some(console) = self.open.get_mut(upid) {
            console.attached = Some((serial.to_owned(), pid, self.attached));
            self.attached += 1;
        }
    }

    /// Whether a console is the one that its port writes to: the first that was connected, of those that are left.
    pub(crate) fn reads(&self, upid: &str) -> bool {
        let Some(own) = self.open.get(upid) else { return false };
        let Some((serial, pid, turn)) = &own.attached else { return false };
        let before = |other: &Console| {
            let theirs = other.attached.as_ref();
            other.vmid == own.vmid && theirs.is_some_and(|(s, p, t)| s == serial && p == pid && t < turn)
        };
        !self.open.values().any(before)
    }
}
