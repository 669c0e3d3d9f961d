//! One page about the cluster: a headline, hosts, nodes, the record, and what needs attention.
//!
//! The page shows what was seen beside what the file wants, and judges little: a node is counted as ready when Talos and
//! Kubernetes both say so. What could not be seen is shown as `?`, never as a good or a bad state.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;
use model::blueprint::{Blueprint, Node, Role};
use model::mark::Mark;
use model::natural;
use model::observed::{Api, Cordon, Etcd, Machine, Observed, Vm};
use model::plan::lost::without_keys;
use model::plan::{Blocked, Note, Plan, Refusal};
use model::quorum::{Quorum, Standing};
use model::readiness::{Condition, Seen};
use model::unit::{self, Goal, OpenUnit};
use serde::Serialize;

use super::cordons;
use super::ink::{Ink, about, clean, count};
use super::plan::{blocked, notes as write_notices, waiting};
use super::table::table;
use super::window::wrap;

/// The stage of a VM of a cluster with this name that was made with another secrets bundle.
const NO_KEYS: &str = "no keys";

/// For people.
///
/// # Errors
/// When writing fails.
pub fn human(
    w: &mut dyn Write,
    ink: Ink,
    blueprint: &Blueprint,
    observed: &Observed,
    plan: &Plan,
) -> io::Result<()> {
    write(w, ink, (blueprint, observed, plan), LeftOut::default())
}

/// What a low window has no room for.
#[derive(Debug, Clone, Copy, Default)]
struct LeftOut {
    /// Hosts that are on.
    hosts: bool,
    /// How many nodes, of those that are ready.
    nodes: usize,
}

/// For people, in at most so many lines, as far as leaving out hosts that are on, then nodes that are ready, can make it so.
///
/// # Errors
/// When writing fails.
pub fn within(
    w: &mut dyn Write,
    ink: Ink,
    seen: (&Blueprint, &Observed, &Plan),
    height: usize,
) -> io::Result<()> {
    let written = |left_out: LeftOut| {
        let mut page = Vec::new();
        write(&mut page, ink, seen, left_out)?;
        let lines = wrap(&String::from_utf8_lossy(&page), ink.limit).lines().count();
        Ok::<_, io::Error>((page, lines.saturating_sub(height)))
    };
    let (mut page, mut over) = written(LeftOut::default())?;
    if over > 0 {
        (page, over) = written(LeftOut { hosts: true, nodes: 0 })?;
    }
    if over > 0 {
        // One line more goes to saying so.
        (page, _) = written(LeftOut { hosts: true, nodes: over + 1 })?;
    }
    w.write_all(&page)
}

fn write(
    w: &mut dyn Write,
    ink: Ink,
    (blueprint, observed, plan): (&Blueprint, &Observed, &Plan),
    left_out: LeftOut,
) -> io::Result<()> {
    let ready = blueprint.nodes.values().filter(|node| is_ready(blueprint, observed, node)).count();
    let total = blueprint.nodes.len();
    // Where Kubernetes may have nodes and does not answer, it is not known of any of them.
    let external = blueprint.nodes.values().any(|node| node.external);
    let exists = external || !observed.proxmox.marked.is_empty() || !observed.proxmox.hidden.is_empty();
    let share = match observed.kubernetes.answered || !exists {
        true => format!("{ready} of {} ready", count(total, "node")),
        false => format!("? of {} ready", count(total, "node")),
    };
    let share = if ready == total { ink.green(&share) } else { ink.yellow(&share) };
    writeln!(w, "{}: {share}, Kubernetes at {}\n", ink.bold(&blueprint.cluster), blueprint.endpoint)?;
    hosts(w, ink, observed, left_out.hosts)?;
    if observed.proxmox.quorate == Some(false) {
        let lost =
            "the hosts of Proxmox have no quorum: nothing can be changed until enough of them are back.";
        writeln!(w, "{}\n", ink.red(lost))?;
    }
    nodes(w, ink, blueprint, observed, left_out.nodes)?;
    quorum(w, ink, blueprint, observed)?;
    cordons::human(w, ink, &cordons::of(&observed.kubernetes.nodes))?;
    cordons::units(w, ink, observed, plan)?;
    record(w, blueprint, observed)?;
    let dark = unobserved(w, ink, observed)?;
    match observed.proxmox.record.as_ref().and_then(|record| record.state.deleting) {
        Some(since) => deletion(w, ink, blueprint, observed, since)?,
        None => drift(w, ink, observed, plan)?,
    }
    blocked(w, ink, &plan.blocked)?;
    // What was not seen is told already.
    let told = |note: &Note| {
        let is_in = |words: &str| note.text.contains(words);
        note.text.starts_with(model::plan::ETCD)
            || note.text.starts_with(model::plan::LEASE)
            || note.text.starts_with(model::plan::DELETION)
            || dark.iter().any(|what| is_in(what))
            || observed.unobserved.iter().any(|unobserved| is_in(&unobserved.what) && is_in(&unobserved.why))
    };
    let rest: Vec<Note> = plan.notes.iter().filter(|note| !told(note)).cloned().collect();
    write_notices(w, ink, &rest)
}

/// How etcd stands: the first question at night. Where no member answers, that is said only of an etcd that exists.
fn quorum(w: &mut dyn Write, ink: Ink, blueprint: &Blueprint, observed: &Observed) -> io::Result<()> {
    let Some(standing) = model::quorum::standing(blueprint, &observed.machines) else {
        let record = observed.proxmox.record.as_ref().and_then(|record| record.state.bootstrap.as_ref());
        return match record.is_some_and(|mark| mark.done) {
            true => writeln!(
                w,
                "etcd:   {}",
                ink.red("no member answers, so whether it has a quorum is unknown.")
            ),
            false => Ok(()),
        };
    };
    self::standing(w, ink, &standing)
}

/// How etcd stands, as far as its members tell.
pub(super) fn standing(w: &mut dyn Write, ink: Ink, standing: &Standing) -> io::Result<()> {
    let text = clean(&standing.to_string()).replacen("; leader ", ";\n        leader ", 1);
    let text = match standing.quorum {
        _ if standing.is_whole() => text,
        Quorum::Lost => ink.red(&text),
        Quorum::Holds | Quorum::Unknown => ink.yellow(&text),
    };
    writeln!(w, "etcd:   {text}.")
}

/// What could not be seen. Of a host that is off, one line tells it of all VMs there; their names, as others call them, are
/// given back.
fn unobserved(w: &mut dyn Write, ink: Ink, observed: &Observed) -> io::Result<Vec<String>> {
    let title = ink.yellow("not observed:");
    let hosts = &observed.proxmox.inventory.hosts;
    let mut dark: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (vmid, host) in &observed.proxmox.unread {
        if hosts.get(host).is_some_and(|host| !host.online) {
            dark.entry(host).or_default().push(vmid.to_string());
        }
    }
    for (host, ids) in &dark {
        let vms = if ids.len() == 1 { "VM" } else { "VMs" };
        writeln!(w, "{title} {vms} {} on {host}, which is off or cannot be reached", ids.join(", "))?;
    }
    let named = |(host, ids): (&str, Vec<String>)| {
        ids.into_iter().map(|id| format!("VM {id} on {host}")).collect::<Vec<_>>()
    };
    let dark: Vec<String> = dark.into_iter().flat_map(named).collect();
    for unobserved in observed.unobserved.iter().filter(|unobserved| !dark.contains(&unobserved.what)) {
        writeln!(w, "{title} {}: {}", clean(&unobserved.what), clean(&unobserved.why))?;
    }
    Ok(dark)
}

/// A deletion that is not complete: what is left, and the command that goes on.
fn deletion(
    w: &mut dyn Write,
    ink: Ink,
    blueprint: &Blueprint,
    observed: &Observed,
    since: Timestamp,
) -> io::Result<()> {
    let record = observed.proxmox.record.as_ref();
    let runs = record.is_some_and(|record| record.state.lease.is_some());
    let owner = blueprint.cluster_id.as_deref().map(Mark::owner_of);
    let left: Vec<String> = owner
        .into_iter()
        .flat_map(|owner| observed.proxmox.of(owner))
        .map(|vm| format!("{} (VM {})", vm.mark.node, vm.vmid))
        .chain(record.map(|record| format!("the record VM {}", record.vmid)))
        .collect();
    let (state, then) = match runs {
        true => ("not complete yet", "\n        `talosmith destroy` continues it if that run was killed."),
        false => ("interrupted", "\n        `talosmith destroy` continues it."),
    };
    let state = ink.yellow(state);
    let left = clean(&left.join(", ")).into_owned();
    writeln!(w, "Deletion: started at {}, {state}; left: {left}.{then}", moment(since))
}

/// Whether the observed state matches the file.
fn drift(w: &mut dyn Write, ink: Ink, observed: &Observed, plan: &Plan) -> io::Result<()> {
    if observed.proxmox.unresponsive.is_some() {
        writeln!(w, "Drift:  unknown without Proxmox.")
    } else if let Some((first, more)) = plan.refusals.split_first() {
        writeln!(w, "{} {}", ink.red("blocked:"), clean(&first.why))?;
        match more.len() {
            0 => writeln!(w, "  {} {}", ink.bold("hint:"), clean(&first.hint)),
            more => writeln!(w, "  and {}; `talosmith plan` shows all", more_things(more)),
        }?;
        match waiting(plan).len() {
            0 => Ok(()),
            1 => writeln!(w, "Drift:  1 step waits for that."),
            held => writeln!(w, "Drift:  {held} steps wait for that."),
        }
    } else if plan.steps.is_empty() && !plan.blocked.is_empty() {
        let changes = ink.yellow(&count(plan.blocked.len(), "change"));
        let rest = if observed.unobserved.is_empty() { "; everything else matches the file" } else { "" };
        let are = if plan.blocked.len() == 1 { "is" } else { "are" };
        writeln!(w, "Drift:  {changes} {are} blocked{rest}.")
    } else if plan.steps.is_empty() && observed.unobserved.is_empty() {
        writeln!(w, "Drift:  none. The cluster matches the file.")
    } else if plan.steps.is_empty() {
        writeln!(w, "Drift:  none in what was observed.")
    } else {
        let steps = count(plan.steps.len(), "step");
        writeln!(
            w,
            "Drift:  {}; `talosmith plan` shows what would be done.",
            ink.yellow(&format!("{steps} to do"))
        )?;
        next(w, plan)
    }
}

/// What the next run does to nodes that run, in its order.
fn next(w: &mut dyn Write, plan: &Plan) -> io::Result<()> {
    const SHOWN: usize = 5;
    if plan.units.is_empty() {
        return Ok(());
    }
    let mut goals: Vec<String> = plan.units.iter().take(SHOWN).map(|unit| unit.goal.to_string()).collect();
    let more = plan.units.len().saturating_sub(SHOWN);
    goals.extend((more > 0).then(|| format!("and {more} more")));
    writeln!(w, "Next:   {}; {}.", goals.join("; "), about(plan.seconds()))
}

fn hosts(w: &mut dyn Write, ink: Ink, observed: &Observed, only_off: bool) -> io::Result<()> {
    let mut rows = vec![];
    let all = observed.proxmox.inventory.hosts.iter();
    let mut hosts: Vec<_> = all.filter(|(_, host)| !(only_off && host.online && !host.maintenance)).collect();
    hosts.sort_by(|a, b| natural::compare(a.0, b.0));
    for (name, host) in hosts {
        let stores: Vec<String> =
            host.datastores.iter().map(|(id, s)| format!("{id} ({} free)", size(s.free_bytes))).collect();
        rows.push(vec![
            name.clone(),
            match (host.online, host.maintenance) {
                (true, true) => "maintenance",
                (true, false) => "online",
                (false, _) => "offline",
            }
            .to_owned(),
            // A host that is off tells nothing of itself.
            if host.online { size(host.memory_mib << 20) } else { unknown() },
            observed.proxmox.taken.values().filter(|guest| guest.host == *name).count().to_string(),
            stores.join(", "),
        ]);
    }
    table(w, ink, &["HOST", "STATE", "MEMORY", "GUESTS", "DATASTORES"], &rows, &["GUESTS", "MEMORY"])
}

fn nodes(
    w: &mut dyn Write,
    ink: Ink,
    blueprint: &Blueprint,
    observed: &Observed,
    left_out: usize,
) -> io::Result<()> {
    let no_keys = without_keys(blueprint, observed);
    let row = |node: &Node| {
        let machine = observed.machines.get(&node.name);
        let vm = vm_of(blueprint, observed, node);
        let unread = observed.proxmox.unread.get(&node.vmid).filter(|_| vm.is_none());
        let is_hidden = vm.is_none() && observed.proxmox.hidden.contains_key(&node.vmid);
        let foreign = no_keys.iter().find(|other| vm.is_none() && other.mark.node == node.name);
        let host = vm.or(foreign.copied()).map(|vm| &vm.host).or(unread).or(node.host.as_ref());
        vec![
            node.name.to_string(),
            role(node.role),
            // A machine that is not a VM of ours has neither.
            if node.external { "-".to_owned() } else { host.cloned().unwrap_or_else(unknown) },
            match node.external {
                true => "-".to_owned(),
                false => vm.or(foreign.copied()).map_or(node.vmid, |vm| vm.vmid).to_string(),
            },
            node.address.addr().to_string(),
            machine.and_then(|m| m.talos.clone()).unwrap_or_else(unknown),
            match unread.is_some() || is_hidden || observed.proxmox.unresponsive.is_some() {
                true if machine.is_none() => "unknown".to_owned(),
                _ if foreign.is_some() && machine.is_none() => NO_KEYS.to_owned(),
                _ if node.external && machine.is_none() => unknown(),
                _ => stage(vm, machine),
            },
            etcd(node.role, machine),
            kubernetes(observed, &node.name),
        ]
    };
    let mut shown = blueprint.in_order();
    // Those that are well tell least.
    let mut left: Vec<&Node> =
        shown.iter().rev().copied().filter(|node| is_ready(blueprint, observed, node)).collect();
    left.truncate(left_out);
    shown.retain(|node| !left.iter().any(|other| other.name == node.name));
    let mut rows: Vec<Vec<String>> = shown.into_iter().map(row).collect();
    rows.extend(extra(blueprint, observed).into_iter().map(|vm| {
        let stage = if vm.running { "not in file" } else { "not in file, off" };
        let known = kubernetes(observed, &vm.mark.node);
        let (name, host, vmid) = (vm.mark.node.clone(), vm.host.clone(), vm.vmid.to_string());
        let machine = observed.machines.get(&name);
        let removed = observed.removed.get(&name).filter(|removed| removed.vmid == vm.vmid);
        let address = removed.and_then(|removed| removed.address).map(|address| address.to_string());
        let talos = machine.and_then(|machine| machine.talos.clone());
        vec![
            name,
            removed.map_or_else(unknown, |removed| role(removed.role)),
            host,
            vmid,
            address.unwrap_or_else(unknown),
            talos.unwrap_or_else(unknown),
            stage.to_owned(),
            removed.map_or_else(unknown, |removed| etcd(removed.role, machine)),
            known,
        ]
    }));
    let in_file = |vm: &&Vm| blueprint.nodes.contains_key(&vm.mark.node);
    rows.extend(no_keys.iter().copied().filter(|vm| vm.mark.is_node() && !in_file(vm)).map(|vm| {
        let (name, host, vmid) = (vm.mark.node.clone(), vm.host.clone(), vm.vmid.to_string());
        vec![name, unknown(), host, vmid, unknown(), unknown(), NO_KEYS.to_owned(), unknown(), unknown()]
    }));
    let titles = ["NODE", "ROLE", "HOST", "VM", "ADDRESS", "TALOS", "STAGE", "ETCD", "KUBERNETES"];
    table(w, ink, &titles, &rows, &["ROLE", "VM", "TALOS", "HOST", "ADDRESS"])?;
    if left.is_empty() {
        return Ok(());
    }
    writeln!(w, "{}", ink.dim(&format!("… and {} that are ready", count(left.len(), "more node"))))
}

fn record(w: &mut dyn Write, blueprint: &Blueprint, observed: &Observed) -> io::Result<()> {
    if !blueprint.has_proxmox() {
        return writeln!(w, "Record: none; a cluster without Proxmox keeps its lease in Kubernetes.");
    }
    if observed.proxmox.unresponsive.is_some() {
        return writeln!(w, "Record: not observed.");
    }
    let Some(record) = &observed.proxmox.record else {
        if !without_keys(blueprint, observed).is_empty() {
            let bundle = if blueprint.cluster_id.is_some() { "is another one" } else { "is missing" };
            return writeln!(w, "Record: not read; the secrets bundle {bundle}.");
        }
        return writeln!(w, "Record: {}.", missing_record(blueprint, observed));
    };
    let etcd = match &record.state.bootstrap {
        _ if record.unreadable => format!("its notes cannot be read; {}", seen_of_etcd(blueprint, observed)),
        Some(mark) if mark.done => format!("etcd was bootstrapped on {} at {}", mark.node, moment(mark.at)),
        Some(mark) => format!("etcd is being bootstrapped on {} since {}", mark.node, moment(mark.at)),
        None => seen_of_etcd(blueprint, observed).to_owned(),
    };
    let lease = match &record.state.lease {
        _ if record.unreadable => "whether another operator holds the lease is unknown".to_owned(),
        Some(lease) => {
            format!(
                "{} holds the lease since {}, until {}",
                clean(&lease.holder),
                moment(lease.since),
                moment(lease.expires)
            )
        }
        None => "the lease is free".to_owned(),
    };
    writeln!(w, "Record: VM {} on {};\n        {etcd};\n        {lease}.", record.vmid, record.host)?;
    // What received the keys unproved stays worth knowing.
    for (node, by) in &record.state.unproved {
        writeln!(
            w,
            "Identity: {} received the cluster's keys unproved, known by its {} only.",
            clean(node),
            clean(by)
        )?;
    }
    Ok(())
}

fn more_things(number: usize) -> String {
    format!("{} more", count(number, "thing"))
}

/// What a missing record means, by what else is there.
fn missing_record(blueprint: &Blueprint, observed: &Observed) -> String {
    let vmid = blueprint.record.vmid;
    match observed.proxmox.hidden.get(&vmid) {
        None => {}
        Some(None) => return format!("unknown; VM {vmid} exists, and the token may not see it"),
        Some(Some(why)) => {
            return format!("unknown; whether VM {vmid} exists could not be asked: {}", clean(why));
        }
    }
    let owner = blueprint.cluster_id.as_deref().map(Mark::owner_of);
    match owner.is_some_and(|owner| observed.proxmox.of(owner).next().is_some()) {
        // What could not be read may be it.
        true if !observed.proxmox.unread.is_empty() => format!(
            "not found, and {} could not be read; {}",
            count(observed.proxmox.unread.len(), "VM"),
            seen_of_etcd(blueprint, observed)
        ),
        true => format!(
            "missing, although VMs of {} exist; {}",
            blueprint.cluster,
            seen_of_etcd(blueprint, observed)
        ),
        false => format!("none; {} was not created yet, or is not on this Proxmox", blueprint.cluster),
    }
}

/// What machines say of etcd where the record does not say that it is bootstrapped. Only proof counts as "not bootstrapped".
fn seen_of_etcd(blueprint: &Blueprint, observed: &Observed) -> &'static str {
    let part = |node: &Node| observed.machines.get(&node.name).map(|machine| &machine.etcd);
    let is_empty = |node: &Node| match part(node) {
        Some(etcd) => *etcd == Etcd::Empty,
        None => {
            vm_of(blueprint, observed, node).is_none() && !observed.proxmox.unread.contains_key(&node.vmid)
        }
    };
    let runs = |node: &Node| matches!(part(node), Some(Etcd::Member { .. } | Etcd::Data));
    if observed.kubernetes.answered || blueprint.control_planes().any(runs) {
        "etcd is bootstrapped, and the record VM does not say so"
    } else if blueprint.control_planes().all(is_empty) {
        "etcd is not bootstrapped yet"
    } else {
        "whether etcd is bootstrapped is unknown"
    }
}

/// VMs of ours that are no node of the file's.
fn extra<'a>(blueprint: &Blueprint, observed: &'a Observed) -> Vec<&'a Vm> {
    let Some(owner) = blueprint.cluster_id.as_deref().map(Mark::owner_of) else { return vec![] };
    let mut extra: Vec<&Vm> =
        observed.proxmox.of(owner).filter(|vm| !blueprint.nodes.contains_key(&vm.mark.node)).collect();
    extra.sort_by(|a, b| natural::compare(&a.mark.node, &b.mark.node));
    extra
}

fn vm_of<'a>(blueprint: &Blueprint, observed: &'a Observed, node: &Node) -> Option<&'a Vm> {
    model::ownership::vm_of(blueprint, &observed.proxmox, &node.name)
}

fn stage(vm: Option<&Vm>, machine: Option<&Machine>) -> String {
    match (vm, machine.map(|m| (&m.api, m))) {
        (None, None) => "no VM".to_owned(),
        (Some(vm), None) if !vm.running => "off".to_owned(),
        (_, Some((Api::ForeignMachine { .. }, _))) => "not ours".to_owned(),
        (_, Some((Api::OtherKeys { .. }, _))) => "other keys".to_owned(),
        (_, Some((Api::Unresponsive { .. }, _))) => "unreachable".to_owned(),
        (_, Some((Api::Maintenance, _))) => "maintenance".to_owned(),
        (_, Some((Api::Configured, m))) => {
            let Some(stage) = m.stage.as_deref().map(clean) else { return unknown() };
            if m.ready { stage.into_owned() } else { format!("{stage}, not ready") }
        }
        (Some(_), None) => unknown(),
    }
}

fn role(role: Role) -> String {
    if role == Role::ControlPlane { "control" } else { "worker" }.to_owned()
}

fn etcd(role: Role, machine: Option<&Machine>) -> String {
    match (role, machine.map(|m| &m.etcd)) {
        (Role::Worker, _) => "-".to_owned(),
        (_, Some(Etcd::Member { learner: false, id, .. })) => {
            let leader = machine.and_then(|m| m.etcd_status.as_ref()).map(|status| &status.leader);
            match leader {
                Some(Some(leader)) if leader == id => "leader",
                Some(None) => "no leader",
                Some(Some(_)) | None => "member",
            }
            .to_owned()
        }
        (_, Some(Etcd::Member { learner: true, .. })) => "learner".to_owned(),
        (_, Some(Etcd::Empty)) => "none".to_owned(),
        (_, Some(Etcd::Data)) => "no member".to_owned(),
        (_, Some(Etcd::Unknown) | None) => unknown(),
    }
}

fn kubernetes(observed: &Observed, node: &str) -> String {
    match observed.kubernetes.nodes.get(node) {
        Some(n) => {
            let state = if n.ready { "ready" } else { "not ready" };
            let cordoned = if n.schedulable { "" } else { ", cordoned" };
            format!("{state} {}{cordoned}", clean(&n.version))
        }
        None if observed.kubernetes.answered => "missing".to_owned(),
        None => unknown(),
    }
}

fn is_ready(blueprint: &Blueprint, observed: &Observed, node: &Node) -> bool {
    Seen::of(blueprint, observed, node).meets(&[Condition::Running, Condition::Ready])
}

/// A time for people, to the second.
fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

fn unknown() -> String {
    "?".to_owned()
}

/// Bytes for people, in the units that Proxmox shows.
pub(super) fn size(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    if bytes >= 10 << 40 {
        format!("{} TiB", bytes >> 40)
    } else if bytes >= GIB {
        format!("{} GiB", bytes / GIB)
    } else {
        format!("{} MiB", bytes >> 20)
    }
}

/// The same with what is known of backups.
#[derive(Serialize)]
pub struct WithBackup<T> {
    #[serde(flatten)]
    pub document: T,
    pub backup: serde_json::Value,
}

/// For programs: what was seen, and the blueprint it is held against.
#[must_use]
pub fn json<'a>(
    blueprint: &'a Blueprint,
    observed: &'a Observed,
    plan: &'a Plan,
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Document<'a> {
        cluster: &'a str,
        endpoint: &'a str,
        kubernetes_version: &'a str,
        ready: usize,
        nodes: Vec<Wanted<'a>>,
        /// How etcd stands; nothing where no member of it answers.
        etcd: Option<Standing>,
        /// Who cordoned each node that is cordoned.
        cordons: BTreeMap<&'a str, Cordon>,
        /// Units that started and have not ended.
        open_units: Vec<OpenUnit>,
        /// What the next run does to nodes that run, in its order.
        next: Vec<&'a Goal>,
        observed: &'a Observed,
        notes: &'a [Note],
        /// What the file asks for and this version does not do.
        blocked: &'a [Blocked],
        /// How many steps it would take to bring the cluster to what the file says.
        pending: usize,
        refusals: &'a [Refusal],
    }
    #[derive(Serialize)]
    struct Wanted<'a> {
        name: &'a str,
        role: Role,
        host: Option<&'a str>,
        /// Nothing for a machine that is not a VM of ours.
        vmid: Option<u32>,
        address: String,
        talos: &'a str,
        ready: bool,
    }
    let nodes: Vec<Wanted<'_>> = blueprint
        .in_order()
        .into_iter()
        .map(|node| Wanted {
            name: &node.name,
            role: node.role,
            host: node.host.as_deref(),
            vmid: (!node.external).then_some(node.vmid),
            address: node.address.addr().to_string(),
            talos: &node.talos,
            ready: is_ready(blueprint, observed, node),
        })
        .collect();
    Document {
        cluster: &blueprint.cluster,
        endpoint: &blueprint.endpoint,
        kubernetes_version: &blueprint.kubernetes,
        ready: nodes.iter().filter(|node| node.ready).count(),
        nodes,
        etcd: model::quorum::standing(blueprint, &observed.machines),
        cordons: cordons::of(&observed.kubernetes.nodes),
        open_units: unit::open(observed),
        next: plan.units.iter().map(|unit| &unit.goal).collect(),
        observed,
        notes: &plan.notes,
        blocked: &plan.blocked,
        pending: plan.steps.len(),
        refusals: &plan.refusals,
    }
}

#[cfg(test)]
pub(crate) mod tests;
