//! `explain`: what a code means, whether it is of a problem in the file, of a refusal or of a failure.

use model::diagnostic::codes;
use model::plan::RefusalCode;
use serde::Serialize;

use crate::exit::Exit;
use crate::view::{Printer, Problem};

/// Why something failed, in one word, as `--json` and reports have it. The words of Proxmox and of machines are among them.
const FAILURES: &[(&str, &str)] = &[
    (
        "answer-lost",
        "The connection broke after a change was sent, so it is unknown whether it happened. Run the command again: it observes first.",
    ),
    (
        "backup-closed",
        "The identity here does not open a backup: it was encrypted to other recipients. Name the file with the identity of one of them with TALOSMITH_IDENTITY.",
    ),
    (
        "backup-damaged",
        "A backup was read and is not what was written: its checksum, its card or its copy of the secrets bundle does not fit. It was not deleted. Use another one.",
    ),
    ("backup-missing", "There is no such backup. `talosmith backup list` lists them."),
    (
        "backup-no-recipients",
        "No one could open a backup, so none was made: the secrets bundle is not encrypted, and `backup.recipients` of the file is empty. Add an age public key there.",
    ),
    (
        "backup-store",
        "The folder of the backups could not be read or written: it is full, read-only, or not mounted. Nothing was deleted, and no incomplete backup is left.",
    ),
    (
        "backup-unverified",
        "No backup of the cluster was verified, so `backup prune` deletes none. `talosmith backup verify --all` verifies them.",
    ),
    (
        "busy",
        "Another operator is changing the cluster. `status` names the lease holder; `--take-over` waits until that run has stopped.",
    ),
    (
        "changed-meanwhile",
        "Something was changed by someone else between reading and writing. Run the command again.",
    ),
    (
        "clock",
        "A clock is wrong, or a machine has not reached a time server. Check `network.ntp` and the clocks of the Proxmox hosts.",
    ),
    (
        "component-not-ready",
        "A part of Kubernetes did not start with its new version in time. The message says which, and what it lacks. Nothing else is upgraded in this run. A flag or feature gate that the version does not know is the usual reason.",
    ),
    (
        "configuration",
        "A machine did not accept its configuration, or runs another one than it was sent. The message names the field.",
    ),
    ("disk-too-small", "A VM has a smaller disk than the file says. Grow it in Proxmox and restart the VM."),
    (
        "drain-blocked",
        "Pods could not be evicted from a node: a PodDisruptionBudget allows none, or a pod is one that a drain does not delete. The message names them. Talosmith took its cordon back.",
    ),
    (
        "etcd-leader",
        "A control plane node still leads etcd, so it was not disrupted. `talosctl etcd status` shows how the members stand.",
    ),
    (
        "etcd-member-left",
        "A member of etcd is still listed after its removal. Compare `talosctl etcd members` of all control plane nodes before you run the command again.",
    ),
    (
        "etcd-no-leader",
        "The members of etcd do not agree on a leader. `talosmith health` says what they lack.",
    ),
    (
        "etcd-no-member",
        "No member of etcd answers, so no snapshot could be taken. `talosmith health` says what they lack.",
    ),
    (
        "etcd-no-quorum",
        "Less than a majority of the etcd members respond, so nothing can be written. Bring members back.",
    ),
    (
        "etcd-unhealthy",
        "The member of etcd that would lead is not healthy. Bring it back, then run the command again.",
    ),
    ("exists", "Proxmox or a machine has it already, and it is not the one that was meant."),
    (
        "gate",
        "A node was not disrupted, because the cluster could not do without it then: quorum of etcd, the budget of worker nodes, a health gate, a command gate or the maintenance window. The message says which.",
    ),
    ("input", "The file, or something that it refers to, is invalid."),
    (
        "kernel-panic",
        "The kernel of a VM gives up at every boot, as its console shows. Usual causes are too little memory, an unsuitable CPU type, or a damaged disk.",
    ),
    (
        "kubernetes",
        "The Kubernetes API refused or did not answer. `talosmith health` says which condition is missing.",
    ),
    (
        "lock-timeout",
        "A Proxmox host was too busy to lock a VM or a datastore in time. Run the command again.",
    ),
    (
        "locked",
        "Proxmox holds a lock on a VM, for a backup or a migration, or an interrupted task left it. Root removes the latter with `qm unlock VMID`.",
    ),
    (
        "lost-configuration",
        "A machine came back in maintenance mode: it lost its configuration. Its disk or its boot order changed, or it was reset.",
    ),
    ("machine", "A machine refused a call. The message ends with its own words."),
    (
        "machine-busy",
        "A machine is busy with an upgrade or a reset and refused to reboot. Wait for it, then run the command again.",
    ),
    ("machine-denied", "A machine did not permit the call. Its role or its state does not allow it."),
    (
        "machine-identity",
        "What answers at a node's address did not prove that it is the node: its certificate is not the one on the VM's console, or the console could not be read. Nothing was sent to it.",
    ),
    ("machine-not-ready", "A machine answers, but cannot do this yet."),
    (
        "machine-unavailable",
        "A machine does not answer. Look at its console; check bridge, VLAN and address.",
    ),
    (
        "may-run",
        "A member of etcd was not removed, because its machine does not answer and may still run: its VM runs, a VM has its name, or a Proxmox host does not respond. Run the command again when that is known.",
    ),
    ("missing", "What was asked for does not exist, or not on that host."),
    (
        "no-answer",
        "Proxmox does not answer. Check the endpoint, the network and the services pveproxy and pvedaemon.",
    ),
    ("no-effect", "Proxmox reported success, but nothing changed. Its task log says more."),
    (
        "no-permit",
        "A step would have disrupted a node without a permit of the gate, so it was not started. This is a mistake in Talosmith; report it.",
    ),
    ("no-quorum", "The Proxmox cluster has no quorum, so nothing can be changed. Bring hosts back."),
    (
        "no-shutdown",
        "A VM did not shut down in time although its machine or its kubelet still runs, and it was not stopped by force. Its console shows what it waits for.",
    ),
    (
        "no-snapshot-store",
        "There is no place to keep a snapshot of etcd. What follows cannot be undone without one, so it was not started.",
    ),
    (
        "not-as-expected",
        "A node came back with another release, schematic, configuration or etcd member than it should have. The message names the difference. No other node is disrupted in this run.",
    ),
    (
        "not-implemented",
        "The other side does not know the call. Talosmith needs Proxmox VE 9 and Talos 1.12 or newer.",
    ),
    ("other-keys", "A machine is configured with other keys than those of the secrets bundle."),
    ("parameter", "Proxmox refused a parameter. The message ends with its reason."),
    (
        "permission",
        "The token lacks a privilege. `talosmith doctor` lists what is missing with the commands that grant it.",
    ),
    (
        "pod-stuck",
        "A pod that a node or the cluster needs does not come up: an image that cannot be pulled, a program that ends again and again. The message has its words.",
    ),
    (
        "protocol",
        "The answer is not what Proxmox VE or Talos would send. Check that the endpoint is the right one and no proxy is in between.",
    ),
    ("rejected", "Proxmox refused the request. The message ends with its reason."),
    (
        "secrets",
        "The secrets bundle or the identity that decrypts it is missing, unreadable or does not fit.",
    ),
    (
        "service-halted",
        "A service of a machine will not come up by itself: Talos gave it up, it has ended, or it restarts again and again. The message names the service and the command that starts it again.",
    ),
    (
        "task-failed",
        "A task in Proxmox ended with an error. The message ends with the last lines of its log; the whole log is in the web interface, under Tasks.",
    ),
    (
        "task-stuck",
        "A task in Proxmox has written nothing for a long time. It continues in Proxmox; its log shows more.",
    ),
    ("timed-out", "Something did not happen within its timeout. The message names the unmet condition."),
    (
        "timeout",
        "`apply --timeout` expired before this was done. The message says what the run was still waiting for; run the same command again to continue.",
    ),
    ("unauthenticated", "Proxmox did not accept the token or the password."),
    ("unreachable", "A Proxmox host cannot be reached through the cluster."),
    ("unsafe", "It would not have been safe, so it was not done. The message says why."),
    (
        "untrusted",
        "The other side showed a certificate that is not trusted. For Proxmox, compare its fingerprint with the host's own and pin it (`proxmox.fingerprint`).",
    ),
    (
        "vm-off",
        "The VM of a machine that the run waits for is off. Its tasks in Proxmox say who stopped it; running the command again starts it.",
    ),
    (
        "wrong-state",
        "The VM is running when it must not be, or the other way round, or its guest agent does not answer.",
    ),
];

/// A code, for programs.
#[derive(Serialize)]
struct Explained {
    code: String,
    /// What has it: `file`, `refusal` or `failure`.
    kind: &'static str,
    text: String,
    /// Part of a file that has the problem.
    #[serde(skip_serializing_if = "str::is_empty")]
    wrong: &'static str,
    /// The same part without it.
    #[serde(skip_serializing_if = "str::is_empty")]
    right: &'static str,
}

/// Explains a code, or lists them all.
pub fn explain(code: Option<&str>, printer: &Printer) -> Result<Exit, Problem> {
    let Some(code) = code else {
        match printer.is_json() {
            true => printer.data(&serde_json::json!({ "codes": all() })),
            false => printer.verbatim(&list()),
        }
        return Ok(Exit::Done);
    };
    let text = one(code).ok_or_else(|| {
        Problem::new(Exit::Usage, format!("there is no code {code}"))
            .hint("`talosmith explain` lists all codes; an error or a warning has its code in brackets, such as TS0101")
    })?;
    if printer.is_json() {
        let meant = all().into_iter().filter(|known| known.code.eq_ignore_ascii_case(code));
        printer.data(&serde_json::json!({ "codes": meant.collect::<Vec<_>>() }));
    } else {
        printer.verbatim(&text);
    }
    Ok(Exit::Done)
}

/// Every code.
fn all() -> Vec<Explained> {
    let word_of = |kind, code: String, text: &str| Explained {
        code,
        kind,
        text: text.to_owned(),
        wrong: "",
        right: "",
    };
    let problems = codes::ALL.iter().map(|found| Explained {
        code: found.code.to_owned(),
        kind: "file",
        text: format!("{}. {}", found.title, found.text().trim()),
        wrong: found.bad,
        right: found.good,
    });
    let refusals = RefusalCode::ALL.iter().map(|code| word_of("refusal", word(*code), code.explanation()));
    let failures = FAILURES.iter().map(|(code, text)| word_of("failure", (*code).to_owned(), text));
    problems.chain(refusals).chain(failures).collect()
}

/// Everything that is said about one code. A word may stand for a refusal and for a failure.
fn one(code: &str) -> Option<String> {
    if let Some(found) = codes::explain(code) {
        let indented = |text: &str| text.trim_end().lines().map(|l| format!("    {l}\n")).collect::<String>();
        let mut text = format!("{}: {}\n\n{}\n", found.code, found.title, found.text().trim());
        // Where the problem lies outside of the file, there is nothing wrong to show in it.
        if !found.bad.is_empty() {
            text += &format!("\nWrong:\n\n{}", indented(found.bad));
        }
        if !found.good.is_empty() {
            text += &format!("\nRight:\n\n{}", indented(found.good));
        }
        return Some(text);
    }
    let code = code.to_ascii_lowercase();
    let refusal = RefusalCode::ALL.iter().find(|refusal| word(**refusal) == code);
    let refusal =
        refusal.map(|refusal| format!("{code}: why a plan is refused\n\n{}\n", refusal.explanation()));
    let failure = FAILURES.iter().find(|(word, _)| *word == code);
    let failure = failure.map(|(_, text)| format!("{code}: why a step or a command failed\n\n{text}\n"));
    let all: Vec<String> = refusal.into_iter().chain(failure).collect();
    (!all.is_empty()).then(|| all.join("\n"))
}

/// Every code with a few words.
fn list() -> String {
    let mut text =
        String::from("Problems in the file (`talosmith explain CODE` says more and has an example):\n");
    for found in codes::ALL {
        text += &format!("  {}  {}\n", found.code, found.title);
    }
    text += "\nWhy a plan is refused:\n";
    for refusal in RefusalCode::ALL {
        text += &format!("  {:<14} {}\n", word(*refusal), sentence(refusal.explanation()));
    }
    text += "\nWhy a step or a command failed:\n";
    for (word, explanation) in FAILURES {
        text += &format!("  {word:<20} {}\n", sentence(explanation));
    }
    text + "\n" + &Exit::help()
}

/// The first sentence.
fn sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.')
}

/// The code as it is written.
fn word(refusal: RefusalCode) -> String {
    serde_json::to_value(refusal).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_use_28_every_code_is_explained_and_listed() {
        let list = list();
        let engine = [
            "busy",
            "clock",
            "component-not-ready",
            "configuration",
            "disk-too-small",
            "input",
            "kernel-panic",
            "kubernetes",
            "machine-identity",
            "no-effect",
            "other-keys",
            "pod-stuck",
            "secrets",
            "service-halted",
            "timed-out",
            "timeout",
            "unsafe",
            "vm-off",
        ];
        let machine =
            ["machine-not-ready", "etcd-no-quorum", "machine-denied", "machine-unavailable", "machine"];
        let refusals: Vec<String> = RefusalCode::ALL.iter().map(|refusal| word(*refusal)).collect();
        let problems = codes::ALL.iter().map(|found| found.code);
        let all = pve::Kind::CODES.iter().copied().chain(engine).chain(machine).chain(problems);
        for code in all.chain(refusals.iter().map(String::as_str)) {
            let text = one(code).unwrap_or_else(|| panic!("{code} is not explained"));
            assert!(text.len() > code.len() + 60, "{text}");
            assert!(list.contains(&format!("\n  {code} ")), "{code} is not listed");
        }
        assert!(FAILURES.is_sorted_by_key(|(word, _)| *word));
        assert_eq!(one("TS9999"), None);
        assert!(one("LOST-MARK").is_some(), "in any case");
    }

    /// The codes that the engine gives to failures, as its sources have them.
    fn codes_of_the_engine() -> std::collections::BTreeSet<String> {
        let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src")];
        let (mut sources, mut found) = (vec![], std::collections::BTreeSet::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => sources.push(std::fs::read_to_string(path).unwrap()),
                }
            }
        }
        let constant = |name: &str, source: &str| {
            let from = source.split_once(&format!("const {name}: &str = \""))?.1;
            Some(from.split('"').next()?.to_owned())
        };
        for source in &sources {
            for after in source.split(".coded(").skip(1) {
                let code = after.split(')').next().unwrap();
                let named =
                    || constant(code, source).or_else(|| sources.iter().find_map(|s| constant(code, s)));
                match code.strip_prefix('"') {
                    Some(code) => found.extend(code.strip_suffix('"').map(str::to_owned)),
                    None if code.chars().all(|c| c.is_ascii_uppercase() || c == '_') => {
                        found.insert(named().unwrap_or_else(|| panic!("{code}")));
                    }
                    // A code that was made elsewhere.
                    None => {}
                }
            }
            found.extend(source.split("code: \"").skip(1).filter_map(|after| {
                after.split('"').next().filter(|code| !code.is_empty()).map(str::to_owned)
            }));
        }
        found
    }

    #[test]
    fn x2_5_every_code_that_the_engine_prints_is_known() {
        let codes = codes_of_the_engine();
        assert!(
            codes.len() > 20 && codes.contains("gate") && codes.contains("lost-configuration"),
            "{codes:?}"
        );
        let unknown: Vec<&String> = codes.iter().filter(|code| one(code).is_none()).collect();
        assert_eq!(unknown, [] as [&String; 0]);
    }

    #[test]
    fn nothing_empty_is_shown_as_wrong_or_right() {
        for found in codes::ALL {
            let text = one(found.code).unwrap();
            assert!(
                !text.contains("Wrong:\n\n\n")
                    && !text.contains("Wrong:\n\nRight")
                    && !text.ends_with(":\n\n"),
                "{text}"
            );
        }
    }
}
