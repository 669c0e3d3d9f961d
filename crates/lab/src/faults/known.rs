//! The failures that Proxmox is known for, by the number that they have in the list of facts about it: what each answers,
//! or what its task ends with. Many of them also follow from the state of the world (a taken number, a wrong parameter);
//! ordered, they meet a call that would have gone well.

use std::time::Duration;

use super::ConsoleFault;

/// How a known failure shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shows {
    /// The call is answered with this status and text after so many seconds; nothing happens.
    Answer(u16, &'static str, u64),
    /// The same, but what was asked for happens.
    AnswerAfter(u16, &'static str, u64),
    /// The call is answered with a task, which ends with this text; nothing else happens. A call that starts no task is
    /// answered with 500 and the text.
    Task(&'static str),
    /// The call is answered as one with a wrong parameter: its name, and what is wrong with it.
    Parameter(&'static str, &'static str),
    /// The VM is made, and a second task that should start it fails.
    NotStarted,
    /// The number is reserved, then the worker vanishes: a VM is left with nothing but its lock.
    Stuck,
    /// What a configuration is changed to waits for the next start, although it need not.
    Waits,
    /// A VM that was made in the last ten seconds has neither name nor state in the list of resources.
    Lags,
    /// The WebSocket of a console opens, and the console does not work. Another call goes well.
    Console(ConsoleFault),
    /// The connection ends without an answer; the flag says whether what was asked for happens.
    Cut(bool),
}

/// Number and failure. `{vmid}`, `{node}` and `{storage}` are filled in from the call.
const KNOWN: &[(u8, Shows)] = &[
    (1, Shows::Answer(401, "No ticket", 3)),
    (2, Shows::Answer(401, "Authentication failed!", 3)),
    (3, Shows::Answer(401, "invalid token value!", 3)),
    (4, Shows::Answer(401, "Permission denied - invalid csrf token", 3)),
    (5, Shows::Answer(401, "authentication failure", 3)),
    (6, Shows::Answer(403, "Permission check failed (/vms/{vmid}, VM.Audit)", 0)),
    (7, Shows::Answer(403, "Permission check failed", 0)),
    (
        8,
        Shows::Answer(
            403,
            "Permission check failed (/vms/{vmid}, VM.Config.Disk|VM.Config.CDROM|VM.Config.CPU|VM.Config.Memory|VM.Config.Network|VM.Config.HWType|VM.Config.Options|VM.Config.Cloudinit)",
            0,
        ),
    ),
    (9, Shows::Answer(403, "Permission check failed (/sdn/zones/localnetwork/vmbr0, SDN.Use)", 0)),
    (10, Shows::Answer(403, "Permission check failed (pool 'k8s' does not exist)", 0)),
    (11, Shows::Answer(403, "Permission check failed (/, Sys.Modify for modifying tag 'prod')", 0)),
    (
        12,
        Shows::Task(
            "unable to create VM {vmid} - 403 Permission check failed (/vms/{vmid}, VM.Config.Options)",
        ),
    ),
    (13, Shows::Parameter("ha-managed", crate::schema::UNKNOWN)),
    (14, Shows::Parameter("onboot", "type check ('boolean') failed - got 'true'")),
    (15, Shows::Parameter("name", "invalid format - value does not look like a valid DNS name\n")),
    (16, Shows::Parameter("vmid", "VM {vmid} already exists")),
    (17, Shows::Answer(500, "unable to create VM {vmid} - VM {vmid} already exists on node '{node}'", 0)),
    (
        18,
        Shows::Answer(
            500,
            "unable to create VM {vmid} - close (rename) atomic file '/etc/pve/nodes/{node}/qemu-server/{vmid}.conf' failed: File exists",
            0,
        ),
    ),
    (19, Shows::Task("unable to create VM {vmid}: config file already exists")),
    (20, Shows::Answer(500, "unable to get any free VMID in range [100, 1000000]", 0)),
    (21, Shows::Answer(500, "VM is locked (backup)", 0)),
    (22, Shows::Answer(500, "can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout", 10)),
    (23, Shows::Answer(500, "checksum mismatch (file change by other user?)", 0)),
    (24, Shows::Answer(500, "detected modified configuration - file changed by other user? Try again.", 0)),
    (25, Shows::Answer(500, "Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist", 0)),
    (26, Shows::Answer(595, "No route to host", 3)),
    (27, Shows::Answer(595, "Connection refused", 0)),
    (28, Shows::AnswerAfter(596, "Connection timed out", 30)),
    (
        29,
        Shows::Answer(
            500,
            "hostname lookup '{node}' failed - failed to get address info for: {node}: Name or service not known",
            0,
        ),
    ),
    (30, Shows::Cut(true)),
    (31, Shows::Answer(500, "cluster not ready - no quorum?", 0)),
    (
        32,
        Shows::Answer(
            500,
            "unable to open file '/etc/pve/nodes/{node}/qemu-server/{vmid}.conf.tmp.4242' - Permission denied",
            0,
        ),
    ),
    (33, Shows::Answer(500, "create pool failed: cfs-lock 'file-user_cfg' error: no quorum!", 0)),
    (
        34,
        Shows::Answer(
            500,
            "create pool failed: cfs-lock 'file-user_cfg' error: got lock request timeout",
            10,
        ),
    ),
    (
        35,
        Shows::Task(
            "unable to create VM {vmid} - cfs-lock 'storage-{storage}' error: got lock request timeout",
        ),
    ),
    (36, Shows::Task("unable to create VM {vmid} - 'storage-{storage}'-locked command timed out - aborting")),
    (37, Shows::Answer(500, "got no worker upid - start worker failed", 0)),
    (38, Shows::Answer(500, "storage '{storage}' is not online", 0)),
    (39, Shows::Answer(500, "storage '{storage}' is not configured for content-type 'import'", 0)),
    (40, Shows::Answer(403, "Permission check failed", 0)),
    (41, Shows::Task("download failed: exit code 8")),
    (42, Shows::Task("checksum mismatch: got 'aa' != expect 'bb'")),
    (43, Shows::Task("refusing to override existing file '/var/lib/vz/import/talos.qcow2'")),
    (44, Shows::Task("decompression not supported for import")),
    (
        45,
        Shows::Parameter(
            "scsi0",
            "local:iso/talos.img has wrong type 'iso' - needs to be 'images' or 'import'",
        ),
    ),
    (46, Shows::Answer(500, "only root can set 'args' config", 0)),
    (
        47,
        Shows::Task(
            "unable to create VM {vmid} - lvcreate 'pve/vm-{vmid}-disk-0' error:   Insufficient free space",
        ),
    ),
    (48, Shows::Task("start failed: QEMU exited with code 1")),
    (49, Shows::NotStarted),
    (50, Shows::Task("VM quit/powerdown failed - got timeout")),
    (51, Shows::Answer(500, "QEMU guest agent is not running", 3)),
    (52, Shows::Answer(500, "VM {vmid} is running - destroy failed", 0)),
    (53, Shows::Task("WARNINGS: 1")),
    (54, Shows::Stuck),
    (55, Shows::Task("shrinking disks is not supported")),
    (56, Shows::Parameter("scsi1", "hotplug problem - error on hot-plugging device 'scsi1'")),
    (57, Shows::Waits),
    (58, Shows::Task("unexpected status")),
    (59, Shows::Task("received interrupt")),
    (60, Shows::Answer(500, "cannot create group: ha groups have been migrated to rules", 0)),
    (61, Shows::Parameter("privs", "invalid format - invalid privilege 'VM.Monitor'\n")),
    (62, Shows::Lags),
    (63, Shows::Parameter("filename", "wrong file extension")),
    (64, Shows::Parameter("ha-managed", crate::schema::UNKNOWN)),
    (65, Shows::Answer(500, "Timeout while waiting for port '5900' to get ready!", 6)),
    (66, Shows::Console(ConsoleFault::Silent)),
    (67, Shows::Console(ConsoleFault::Cut(Duration::from_secs(5)))),
    (68, Shows::Console(ConsoleFault::Slow(Duration::from_secs(20)))),
    (69, Shows::Console(ConsoleFault::Flood)),
];

/// The failure of that number, if it can be ordered.
pub(crate) fn known(number: u8) -> Option<Shows> {
    KNOWN.iter().find(|(known, _)| *known == number).map(|(_, shows)| *shows)
}

/// All numbers that can be ordered.
#[must_use]
pub fn known_faults() -> Vec<u8> {
    KNOWN.iter().map(|(number, _)| *number).collect()
}

/// What a failure shows as, in a few words; nothing for a number that there is not.
#[must_use]
pub fn known_words(number: u8) -> Option<String> {
    Some(match known(number)? {
        Shows::Answer(status, text, _) => format!("{status} {text}"),
        Shows::AnswerAfter(status, text, _) => format!("{status} {text}, although it happens"),
        Shows::Task(text) => format!("task: {text}"),
        Shows::Parameter(name, text) => format!("400 {name}: {}", text.trim_end()),
        Shows::NotStarted => "the VM is made and its start fails".to_owned(),
        Shows::Stuck => "a creation that leaves a locked VM".to_owned(),
        Shows::Waits => "a change that waits for the next start".to_owned(),
        Shows::Lags => "a list of resources that lags behind".to_owned(),
        Shows::Console(fault) => format!("a console: {fault}"),
        Shows::Cut(true) => "a cut connection, although it happens".to_owned(),
        Shows::Cut(false) => "a cut connection".to_owned(),
    })
}

/// A text with what the path of the call names.
pub(crate) fn fill(text: &str, path: &str, vmid: Option<&str>) -> String {
    let after = |name: &str| path.split('/').skip_while(|part| *part != name).nth(1);
    let vmid = after("qemu").or(vmid).unwrap_or("100");
    let text = text.replace("{vmid}", vmid).replace("{node}", after("nodes").unwrap_or("pve1"));
    text.replace("{storage}", after("storage").unwrap_or("local"))
}
