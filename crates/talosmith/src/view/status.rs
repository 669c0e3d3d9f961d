//! One page about the cluster: a headline, hosts, nodes, the record, and what needs attention.
//!
//! The page shows what was seen beside what the file wants, and judges little: a node is counted as ready when Talos and
//! Kubernetes both say so. What could not be seen is shown as `?`, never as a good or a bad state.

use std::io::{self, Write};

use jiff::Timestamp;
use model::blueprint::{Blueprint, Node, Role};
use model::mark::Mark;
use model::observed::{Api, Etcd, Machine, Observed, Vm};
use model::plan::{Notice, Plan, Refusal};
use serde::Serialize;

use super::ink::{Ink, clean, count};
use super::plan::notices as write_notices;

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
    let ready = blueprint.nodes.values().filter(|node| is_ready(observed, node)).count();
    let total = blueprint.nodes.len();
    let share = format!("{ready} of {} ready", count(total, "node"));
    let share = if ready == total { ink.green(&share) } else { ink.yellow(&share) };
    writeln!(w, "{}: {share}, Kubernetes at {}\n", ink.bold(&blueprint.cluster), blueprint.endpoint)?;
    hosts(w, ink, observed)?;
    nodes(w, ink, blueprint, observed)?;
    record(w, blueprint, observed)?;
    for unseen in &observed.unseen {
        writeln!(w, "{} {}: {}", ink.yellow("not seen:"), clean(&unseen.what), clean(&unseen.why))?;
    }
    drift(w, ink, plan)?;
    write_notices(w, ink, &plan.notices)
}

/// Whether the world is as the file says.
fn drift(w: &mut dyn Write, ink: Ink, plan: &Plan) -> io::Result<()> {
    if let Some(refusal) = plan.refusals.first() {
        writeln!(w, "{} {}", ink.red("in the way:"), clean(&refusal.why))
    } else if plan.steps.is_empty() {
        writeln!(w, "Drift:  none; everything is as the file says.")
    } else {
        let steps = count(plan.steps.len(), "step");
        writeln!(
            w,
            "Drift:  {}; `talosmith plan` shows what would be done.",
            ink.yellow(&format!("{steps} to do"))
        )
    }
}

fn hosts(w: &mut dyn Write, ink: Ink, observed: &Observed) -> io::Result<()> {
    let mut rows = vec![];
    for (name, host) in &observed.proxmox.inventory.hosts {
        let stores: Vec<String> =
            host.datastores.iter().map(|(id, s)| format!("{id} ({} free)", size(s.free_bytes))).collect();
        rows.push(vec![
            name.clone(),
            if host.online { "online" } else { "offline" }.to_owned(),
            size(host.memory_mib << 20),
            observed.proxmox.taken.values().filter(|guest| guest.host == *name).count().to_string(),
            stores.join(", "),
        ]);
    }
    table(w, ink, &["HOST", "STATE", "MEMORY", "GUESTS", "DATASTORES"], &rows)
}

fn nodes(w: &mut dyn Write, ink: Ink, blueprint: &Blueprint, observed: &Observed) -> io::Result<()> {
    let rows: Vec<Vec<String>> = blueprint
        .control_planes()
        .chain(blueprint.workers())
        .map(|node| {
            let machine = observed.machines.get(&node.name);
            let vm = vm_of(blueprint, observed, node);
            vec![
                node.name.clone(),
                if node.role == Role::ControlPlane { "control" } else { "worker" }.to_owned(),
                vm.map(|vm| vm.host.clone()).or_else(|| node.host.clone()).unwrap_or_else(unknown),
                vm.map_or(node.vmid, |vm| vm.vmid).to_string(),
                node.address.addr().to_string(),
                machine.and_then(|m| m.talos.clone()).unwrap_or_else(unknown),
                stage(vm, machine),
                etcd(node, machine),
                kubernetes(observed, node),
            ]
        })
        .collect();
    let titles = ["NODE", "ROLE", "HOST", "VM", "ADDRESS", "TALOS", "STAGE", "ETCD", "KUBERNETES"];
    table(w, ink, &titles, &rows)
}

fn record(w: &mut dyn Write, blueprint: &Blueprint, observed: &Observed) -> io::Result<()> {
    let Some(record) = &observed.proxmox.record else {
        return writeln!(w, "Record: none; {} was not begun, or is not on this Proxmox.", blueprint.cluster);
    };
    let etcd = match &record.state.bootstrap {
        Some(mark) if mark.done => format!("etcd began on {} at {}", mark.node, moment(mark.at)),
        Some(mark) => format!("etcd is being begun on {} since {}", mark.node, moment(mark.at)),
        None => "etcd was not begun".to_owned(),
    };
    let lease = match &record.state.lease {
        Some(lease) => {
            format!(
                "{} is changing it since {}, until {}",
                clean(&lease.holder),
                moment(lease.since),
                moment(lease.expires)
            )
        }
        None => "nobody is changing it".to_owned(),
    };
    writeln!(w, "Record: VM {} on {}; {etcd};\n        {lease}.", record.vmid, record.host)
}

fn vm_of<'a>(blueprint: &Blueprint, observed: &'a Observed, node: &Node) -> Option<&'a Vm> {
    let owner = Mark::owner_of(blueprint.cluster_id.as_deref()?);
    observed.proxmox.of(owner).find(|vm| vm.mark.node == node.name)
}

fn stage(vm: Option<&Vm>, machine: Option<&Machine>) -> String {
    match (vm, machine.map(|m| (&m.api, m))) {
        (None, None) => "no VM".to_owned(),
        (Some(vm), None) if !vm.running => "off".to_owned(),
        (_, Some((Api::Stranger { .. }, _))) => "not ours".to_owned(),
        (_, Some((Api::Silent { .. }, _))) => "silent".to_owned(),
        (_, Some((Api::Maintenance, _))) => "maintenance".to_owned(),
        (_, Some((Api::Configured, m))) => {
            let stage = m.stage.as_deref().map_or_else(unknown, |stage| clean(stage).into_owned());
            if m.ready { stage } else { format!("{stage}, not ready") }
        }
        (Some(_), None) => unknown(),
    }
}

fn etcd(node: &Node, machine: Option<&Machine>) -> String {
    match (node.role, machine.map(|m| &m.etcd)) {
        (Role::Worker, _) => "-".to_owned(),
        (_, Some(Etcd::Member { learner: false, .. })) => "member".to_owned(),
        (_, Some(Etcd::Member { learner: true, .. })) => "learner".to_owned(),
        (_, Some(Etcd::Empty)) => "none".to_owned(),
        (_, Some(Etcd::Unknown) | None) => unknown(),
    }
}

fn kubernetes(observed: &Observed, node: &Node) -> String {
    match observed.kubernetes.nodes.get(&node.name) {
        Some(n) => {
            let state = if n.ready { "ready" } else { "not ready" };
            let cordoned = if n.schedulable { "" } else { ", cordoned" };
            format!("{state} {}{cordoned}", clean(&n.version))
        }
        None if observed.kubernetes.answered => "not there".to_owned(),
        None => unknown(),
    }
}

fn is_ready(observed: &Observed, node: &Node) -> bool {
    let talos = observed.machines.get(&node.name).is_some_and(|m| m.ready && m.api == Api::Configured);
    talos && observed.kubernetes.nodes.get(&node.name).is_some_and(|n| n.ready)
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

/// Columns as wide as their widest cell, the titles underlined, an empty line behind. The last column is not padded.
pub(super) fn table(w: &mut dyn Write, ink: Ink, titles: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let columns = |text: &str| text.chars().count();
    let widths: Vec<usize> = titles
        .iter()
        .enumerate()
        .map(|(at, title)| rows.iter().map(|row| columns(&row[at])).max().unwrap_or(0).max(columns(title)))
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> =
            cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
        cells.join("  ").trim_end().to_owned()
    };
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    writeln!(w, "{}", ink.bold(&line(&mut titles.iter().copied())))?;
    writeln!(w, "{}", ink.dim(&line(&mut rule.iter().map(String::as_str))))?;
    for row in rows {
        writeln!(w, "{}", line(&mut row.iter().map(String::as_str)))?;
    }
    writeln!(w)
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
        observed: &'a Observed,
        notices: &'a [Notice],
        /// How many steps it would take to bring the world to the file.
        pending: usize,
        refusals: &'a [Refusal],
    }
    #[derive(Serialize)]
    struct Wanted<'a> {
        name: &'a str,
        role: Role,
        host: Option<&'a str>,
        vmid: u32,
        address: String,
        talos: &'a str,
        ready: bool,
    }
    let nodes: Vec<Wanted<'_>> = blueprint
        .nodes
        .values()
        .map(|node| Wanted {
            name: &node.name,
            role: node.role,
            host: node.host.as_deref(),
            vmid: node.vmid,
            address: node.address.addr().to_string(),
            talos: &node.talos,
            ready: is_ready(observed, node),
        })
        .collect();
    Document {
        cluster: &blueprint.cluster,
        endpoint: &blueprint.endpoint,
        kubernetes_version: &blueprint.kubernetes,
        ready: nodes.iter().filter(|node| node.ready).count(),
        nodes,
        observed,
        notices: &plan.notices,
        pending: plan.steps.len(),
        refusals: &plan.refusals,
    }
}

#[cfg(test)]
mod tests;
