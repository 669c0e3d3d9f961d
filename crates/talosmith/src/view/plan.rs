//! A plan for people: images, the cluster record VM, then each node with its steps and their reasons, then disruptions in the order in
//! which they are made, each with how the cluster stands meanwhile, then the rest.
//!
//! What is removed for good stands at the top and is marked in every line. A plan that is refused shows only why, because
//! there is nothing that would be done.

use std::collections::BTreeSet;
use std::io::{self, Write};

use model::plan::by_hand::Hand;
use model::plan::{Blocked, Note, Plan, Refusal};
use model::step::{Action, Disruption, Step};
use model::unit::{Forecast, Goal, Unit};
use serde::Serialize;

use super::ink::{Ink, about, clean, count};

/// What the plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// To bring the world to the file.
    Apply,
    /// To take the cluster away.
    Destroy,
    /// To do what a person asked of single nodes.
    ByHand(Hand),
}

impl Serialize for Verb {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Apply => serializer.serialize_str("apply"),
            Self::Destroy => serializer.serialize_str("destroy"),
            Self::ByHand(hand) => hand.serialize(serializer),
        }
    }
}

/// For people.
///
/// # Errors
/// When writing fails.
pub fn human(w: &mut dyn Write, ink: Ink, plan: &Plan, verb: Verb) -> io::Result<()> {
    if !plan.refusals.is_empty() {
        refusals(w, ink, &plan.cluster, &plan.refusals)?;
        held(w, ink, plan)?;
        blocked(w, ink, &plan.blocked)?;
        unknown(w, ink, &plan.unknown)?;
        return notes(w, ink, &plan.notes);
    }
    if plan.steps.is_empty() {
        match verb {
            Verb::Apply if !plan.blocked.is_empty() => {
                blocked(w, ink, &plan.blocked)?;
                unknown(w, ink, &plan.unknown)?;
                writeln!(w, "{}", ink.bold(&does_not_match(plan)))?;
            }
            Verb::Apply if !plan.unknown.is_empty() => {
                unknown(w, ink, &plan.unknown)?;
                writeln!(w, "{}", ink.bold(&not_known(plan)))?;
            }
            Verb::Apply if plan.notes.is_empty() => {
                writeln!(w, "No changes. The cluster {} matches the file.", plan.cluster)?;
            }
            Verb::ByHand(_) if !plan.blocked.is_empty() => {
                blocked(w, ink, &plan.blocked)?;
                writeln!(w, "{}", ink.bold("Blocked. Nothing is changed."))?;
            }
            Verb::ByHand(_) => {
                writeln!(w, "Nothing to do.")?;
            }
            Verb::Apply => writeln!(w, "No changes for {}. Notes:", plan.cluster)?,
            Verb::Destroy => writeln!(w, "Nothing to remove: no VM of {} was found.", plan.cluster)?,
        }
        return notes(w, ink, &plan.notes);
    }
    if verb == Verb::Destroy {
        summary_line(w, ink, plan)?;
    }
    for group in groups(plan) {
        match group.unit {
            Some(unit) => {
                let class = ink.yellow(&class_of(unit));
                writeln!(w, "{} [{class}]", ink.bold(&group.title))?;
                writeln!(w, "   {}", ink.dim(&clean(&outlook(plan, unit))))?;
            }
            None => writeln!(w, "{}", ink.bold(&group.title))?,
        }
        for (at, step) in group.steps.iter().enumerate() {
            line(w, ink, step, at + 1 == group.steps.len())?;
        }
        writeln!(w)?;
    }
    blocked(w, ink, &plan.blocked)?;
    unknown(w, ink, &plan.unknown)?;
    notes(w, ink, &plan.notes)?;
    writeln!(w, "{}", ink.bold(&summary(plan)))
}

/// The heading of what a plan does not do.
pub(super) const BLOCKED: &str = "Blocked";

/// The one line of a plan without steps for a cluster that is not what the file says.
pub(super) fn does_not_match(plan: &Plan) -> String {
    let are = if plan.blocked.len() == 1 { "is" } else { "are" };
    let changes = count(plan.blocked.len(), "change");
    format!("{} does not match the file: {changes} {are} blocked.", plan.cluster)
}

/// The heading of what could not be observed.
pub(super) const UNKNOWN: &str = "Not observed";

/// The one line of a plan without steps for a cluster of which something is not known.
pub(super) fn not_known(plan: &Plan) -> String {
    format!(
        "Whether {} matches the file is not known: something could not be observed. Run the command again once it can be.",
        plan.cluster
    )
}

/// What could not be observed.
fn unknown(w: &mut dyn Write, ink: Ink, unknown: &[Note]) -> io::Result<()> {
    if unknown.is_empty() {
        return Ok(());
    }
    writeln!(w, "{}", ink.yellow(&format!("{UNKNOWN}:")))?;
    for note in unknown {
        writeln!(w, "- {}", clean(&note.text))?;
    }
    Ok(())
}

/// What the file asks for and the plan does not do.
pub(super) fn blocked(w: &mut dyn Write, ink: Ink, blocked: &[Blocked]) -> io::Result<()> {
    if blocked.is_empty() {
        return Ok(());
    }
    writeln!(w, "{}", ink.yellow(&format!("{BLOCKED}:")))?;
    for blocked in blocked {
        writeln!(w, "- {} [{}]", clean(&blocked.what), ink.yellow(&named(blocked.disruption)))?;
        writeln!(w, "  {} {}", ink.bold("hint:"), clean(&blocked.hint))?;
    }
    Ok(())
}

/// What waits for the refusals to be put right. Where there is no cluster yet, that is all of it, and says nothing new.
fn held(w: &mut dyn Write, ink: Ink, plan: &Plan) -> io::Result<()> {
    const SHOWN: usize = 10;
    let waits = waiting(plan);
    if waits.is_empty() {
        return Ok(());
    }
    writeln!(w, "{}", ink.bold("Otherwise, Talosmith would make these changes:"))?;
    for step in waits.iter().take(SHOWN) {
        writeln!(w, "  {}  {}", step.action.describe(), ink.dim(&format!("({})", clean(&step.reason))))?;
    }
    match waits.len().saturating_sub(SHOWN) {
        0 => writeln!(w),
        more => writeln!(w, "  and {} more\n", count(more, "step")),
    }
}

/// Steps on a cluster that exists and that wait for a refusal to be put right.
pub(super) fn waiting(plan: &Plan) -> &[Step] {
    let new = plan.held.iter().any(|step| matches!(step.action, Action::CreateRecord { .. }));
    if new { &[] } else { &plan.held }
}

/// What is gone afterwards, before anything else is read.
fn summary_line(w: &mut dyn Write, ink: Ink, plan: &Plan) -> io::Result<()> {
    let vms = plan.steps.iter().filter(|s| matches!(s.action, Action::DeleteVm { .. })).count();
    let record = plan.steps.iter().any(|s| matches!(s.action, Action::DeleteRecord { .. }));
    let whose = if vms == 1 { "its" } else { "their" };
    let machines = format!("{} with all data on {whose} disks", count(vms, "VM"));
    let what = match (vms, record) {
        (0, _) => "the cluster record VM".to_owned(),
        (_, true) => format!("{machines}, and the cluster record VM"),
        (_, false) => machines,
    };
    writeln!(w, "{} {what}.", ink.red(&format!("This deletes {}:", plan.cluster)))?;
    writeln!(w, "Boot images stay, because other clusters may use them; so does the secrets bundle.\n")
}

/// Steps that are shown together.
pub(super) struct Group<'a> {
    /// What they are about.
    pub(super) title: String,
    /// The disruption that they are, if they are one.
    pub(super) unit: Option<&'a Unit>,
    pub(super) steps: Vec<&'a Step>,
}

/// What is shown behind all disruptions.
const LAST: &str = "Cluster";

/// Steps by what they are about, in the order in which they first appear, with disruptions in theirs.
pub(super) fn groups(plan: &Plan) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for step in plan.steps.iter().filter(|step| plan.unit_of(step).is_none()) {
        let title = match &step.action {
            Action::RegisterSchematic { .. }
            | Action::DownloadImage { .. }
            | Action::CreateTemplate { .. } => "Images",
            Action::CreateRecord { .. }
            | Action::SealRecord { .. }
            | Action::UpdateRecord { .. }
            | Action::DeleteRecord { .. } => "Record",
            Action::SnapshotEtcd => "etcd",
            Action::CreateCredentials { .. } | Action::RemoveAccount { .. } | Action::CheckHealth => LAST,
            action => action.node().unwrap_or(LAST),
        };
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.steps.push(step),
            None => groups.push(Group { title: title.to_owned(), unit: None, steps: vec![step] }),
        }
    }
    let units = plan.units.iter().map(|unit| {
        let is_of_it = |step: &&Step| step.unit.as_ref() == Some(&unit.id);
        let steps = plan.steps.iter().filter(is_of_it).collect();
        Group { title: unit.goal.to_string(), unit: Some(unit), steps }
    });
    let (last, mut all): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| group.title == LAST);
    all.extend(units);
    all.extend(last);
    all
}

/// How the cluster stands while a unit runs, and how long that takes.
pub(super) fn outlook(plan: &Plan, unit: &Unit) -> String {
    let Forecast { voters, workers, outage, moves_vip, at_once, blockers } = &unit.forecast;
    let mut said = vec![];
    if let Some((healthy, of)) = voters {
        let quorum = match healthy * 2 > *of {
            true => ", quorum holds",
            false if *outage => "",
            false => ", no quorum",
        };
        said.push(format!("{healthy} of {} healthy meanwhile{quorum}", count(*of, "voter")));
    }
    match (outage, moves_vip) {
        (true, _) => said.push("the Kubernetes API is unavailable meanwhile".to_owned()),
        (false, true) => said.push("the VIP moves, the endpoint is unavailable for some seconds".to_owned()),
        (false, false) => {}
    }
    if let Some((ready, of)) = workers {
        let at_once = match at_once {
            0 | 1 => String::new(),
            more => format!(", at most {more} nodes at a time"),
        };
        said.push(format!("{ready} of {} ready meanwhile{at_once}", count(*of, "worker")));
    }
    said.push(about(plan.unit_seconds(unit)));
    if !blockers.is_empty() {
        let blockers: Vec<String> = blockers.iter().map(ToString::to_string).collect();
        said.push(format!("waits: {}", blockers.join("; ")));
    }
    said.join("; ")
}

fn line(w: &mut dyn Write, ink: Ink, step: &Step, last: bool) -> io::Result<()> {
    let (branch, below) = if last { ("└─", "  ") } else { ("├─", "│ ") };
    let text = step.action.describe();
    let removes = step.disruption == Disruption::Delete && !matches!(step.action, Action::StopVm { .. });
    let (painted, added) = if removes {
        (ink.red(&format!("{text}, permanently")), 10)
    } else if !matches!(step.disruption, Disruption::None | Disruption::Delete) {
        let class = class_of_step(step);
        (format!("{text} [{}]", ink.yellow(&class)), class.chars().count() + 3)
    } else {
        (text.clone(), 0)
    };
    let reason = clean(&step.reason);
    let columns = text.chars().count() + reason.chars().count() + 8 + added;
    let reason = ink.dim(&format!("({reason})"));
    if columns <= ink.width {
        writeln!(w, "{branch} {painted}  {reason}")
    } else {
        writeln!(w, "{branch} {painted}\n{below}     {reason}")
    }
}

/// A VM that moves to another host while it runs.
const LIVE_MIGRATION: &str = "live migration";
/// What a drain does to what runs on the node.
const EVICTION: &str = "pods evicted";

/// What a unit does to its node, in words.
pub(super) fn class_of(unit: &Unit) -> String {
    match &unit.goal {
        Goal::Drain { .. } => EVICTION.to_owned(),
        Goal::Move { .. } if unit.disruption < Disruption::Reboot => LIVE_MIGRATION.to_owned(),
        _ => named(unit.disruption),
    }
}

/// What a step does to what runs, in words.
pub(super) fn class_of_step(step: &Step) -> String {
    match &step.action {
        Action::MigrateVm { online: true, .. } => LIVE_MIGRATION.to_owned(),
        _ => named(step.disruption),
    }
}

/// A disruption in words.
pub(super) fn named(disruption: Disruption) -> String {
    if disruption == Disruption::None {
        return "no disruption".to_owned();
    }
    let name = serde_json::to_value(disruption).ok().and_then(|name| Some(name.as_str()?.replace('-', " ")));
    name.unwrap_or_default()
}

fn refusals(w: &mut dyn Write, ink: Ink, cluster: &str, refusals: &[Refusal]) -> io::Result<()> {
    let why = in_the_way(refusals);
    writeln!(w, "{} Talosmith makes no changes to {cluster}, because {why}:", ink.red("Refused:"))?;
    for refusal in refusals {
        let code = serde_json::to_value(refusal.code).unwrap_or_default();
        writeln!(w, "- [{}] {}", code.as_str().unwrap_or_default(), clean(&refusal.why))?;
        writeln!(w, "  {} {}", ink.bold("hint:"), clean(&refusal.hint))?;
    }
    Ok(())
}

/// With which words a list of refusals starts.
pub(super) fn in_the_way(refusals: &[Refusal]) -> &'static str {
    if refusals.len() == 1 { "of this" } else { "of these" }
}

/// What differs and is left alone.
pub(super) fn notes(w: &mut dyn Write, ink: Ink, notes: &[Note]) -> io::Result<()> {
    for note in notes {
        writeln!(w, "{} {}", ink.yellow("note:"), clean(&note.text))?;
    }
    Ok(())
}

/// The plan in one line: what is made, what is disrupted, how long it takes.
#[must_use]
pub fn summary(plan: &Plan) -> String {
    // What a disruption is made of is not counted beside it.
    let outside = || plan.steps.iter().filter(|step| plan.unit_of(step).is_none());
    let number = |is: fn(&Action) -> bool| outside().filter(|step| is(&step.action)).count();
    let parts = [
        (number(|a| matches!(a, Action::DownloadImage { .. })), "image", "to download"),
        (number(|a| matches!(a, Action::CreateVm { .. } | Action::CloneVm { .. })), "VM", "to create"),
        (number(|a| matches!(a, Action::StartVm { .. })), "VM", "to start"),
        (number(|a| matches!(a, Action::Configure { if_needed: false, .. })), "node", "to configure"),
        (number(|a| matches!(a, Action::Configure { if_needed: true, .. })), "node", "to wait for"),
        (number(|a| matches!(a, Action::UpdateVm { .. })), "VM", "to change"),
        (number(|a| matches!(a, Action::Reconfigure { .. })), "node", "to reconfigure"),
        (number(|a| matches!(a, Action::DeleteVm { .. })), "VM", "to delete"),
    ];
    let created = parts[1].0;
    let mut said: Vec<String> = parts
        .into_iter()
        // A new VM is started and configured: to say it of each again tells nothing.
        .filter(|(number, _, what)| {
            *number > 0 && !(*number == created && matches!(*what, "to start" | "to configure"))
        })
        .map(|(number, one, what)| format!("{} {what}", count(number, one)))
        .collect();
    said.extend(disrupted(plan));
    if said.is_empty() {
        said.push(count(plan.steps.len(), "step"));
    }
    said.push(if plan.steps.iter().any(|s| s.disruption == Disruption::Delete) {
        "deleted data cannot be restored".to_owned()
    } else if plan.steps.iter().any(|s| s.disruption > Disruption::InPlace) {
        "running nodes are disrupted".to_owned()
    } else if plan.steps.iter().any(|s| matches!(s.action, Action::DrainNode { .. })) {
        "pods are evicted".to_owned()
    } else {
        "no disruption".to_owned()
    });
    // All hops are approved with the first one.
    if let hops @ 2.. = plan.hops_left() {
        said.push(format!("hop 1 of {hops}"));
    }
    said.push(match plan.hops_left() {
        2.. => format!("{} for this hop", about(plan.seconds())),
        _ => about(plan.seconds()),
    });
    if !plan.blocked.is_empty() {
        said.push(format!("{} blocked", count(plan.blocked.len(), "change")));
    }
    if !plan.unknown.is_empty() {
        said.push("not everything could be observed".to_owned());
    }
    format!("{}: {}.", plan.cluster, said.join(", "))
}

/// How many nodes are disrupted in which way, and how many of them at a time.
fn disrupted(plan: &Plan) -> Vec<String> {
    // Some nodes have a unit for each part of Kubernetes.
    let number = |is: fn(&Goal) -> bool| {
        let nodes = plan.units.iter().filter(|unit| is(&unit.goal)).map(|unit| &unit.node);
        nodes.collect::<BTreeSet<_>>().len()
    };
    let parts = [
        (number(|goal| matches!(goal, Goal::Reboot { .. })), "to reboot"),
        (number(|goal| matches!(goal, Goal::PowerCycle { .. })), "to power cycle"),
        (number(|goal| matches!(goal, Goal::UpgradeTalos { .. })), "to upgrade"),
        (number(|goal| matches!(goal, Goal::UpgradeKubernetes { .. })), "to upgrade Kubernetes on"),
        (number(|goal| matches!(goal, Goal::DeleteDisks { .. })), "to delete disks of"),
        (number(|goal| matches!(goal, Goal::Move { .. })), "to move"),
        (number(|goal| matches!(goal, Goal::Drain { .. })), "to drain"),
        (number(|goal| matches!(goal, Goal::Shutdown { .. })), "to shut down"),
        (number(|goal| matches!(goal, Goal::Replace { .. })), "to replace"),
        (number(|goal| matches!(goal, Goal::Remove { .. })), "to remove"),
    ];
    let counted = parts.into_iter().filter(|(number, _)| *number > 0);
    let services = number(|goal| matches!(goal, Goal::RestartServices { .. }));
    let mut said: Vec<String> = (services > 0)
        .then(|| format!("services to restart on {}", count(services, "node")))
        .into_iter()
        .collect();
    said.extend(counted.map(|(number, what)| format!("{} {what}", count(number, "node"))));
    if plan.units.len() > 1 {
        said.push(match plan.units.iter().map(|unit| unit.forecast.at_once).max() {
            Some(more @ 2..) => format!("at most {more} at a time"),
            _ => "one at a time".to_owned(),
        });
    }
    said
}

/// For programs.
#[must_use]
pub fn json(plan: &Plan, verb: Verb) -> impl Serialize + use<'_> {
    #[derive(Serialize)]
    struct Document<'a> {
        verb: Verb,
        #[serde(flatten)]
        plan: &'a Plan,
        seconds: u32,
    }
    Document { verb, plan, seconds: plan.seconds() }
}

#[cfg(test)]
pub(crate) mod tests {
    use model::gate::{Blocker, Effect};
    use model::names::{NodeName, VmRef};
    use model::step::UnitId;

    use super::*;

    /// Steps in a row, each behind the one before.
    pub fn chain(actions: Vec<Action>, reason: &str, disruption: Disruption) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for action in actions {
            let after = steps.last().map(|s| s.id.clone()).into_iter().collect();
            steps.push(Step {
                id: action.id(),
                action,
                after,
                reason: reason.into(),
                disruption,
                seconds: 20,
                unit: None,
            });
        }
        steps
    }

    pub fn plan_of(steps: Vec<Step>) -> Plan {
        Plan {
            cluster: "home".into(),
            steps,
            units: vec![],
            notes: vec![],
            blocked: vec![],
            unknown: vec![],
            refusals: vec![],
            held: vec![],
            upgrade: None,
        }
    }

    /// One worker that is added, from its image to its place in the cluster.
    pub fn one_more() -> Plan {
        let (node, host) = (NodeName::from("home-work-3"), "pve2".to_owned());
        let file = "talos-v1.13.9-376567988ad3-nocloud-amd64.qcow2".to_owned();
        let vmid = 150_023;
        let actions = vec![
            Action::RegisterSchematic {
                image: "default".into(),
                schematic: "376567988ad370138ad8b269".into(),
            },
            Action::DownloadImage { host: host.clone(), datastore: "local".into(), file, url: String::new() },
            Action::CreateVm {
                node: node.clone(),
                vm: VmRef::new(&host, vmid),
                datastore: "local-zfs".into(),
                image: String::new(),
            },
            Action::StartVm { node: node.clone(), vm: VmRef::new(host, vmid) },
            Action::configure(&node),
            Action::Join { node },
            Action::CheckHealth,
        ];
        plan_of(chain(actions, "the file asks for it and no VM of ours is it", Disruption::None))
    }

    pub fn removed() -> Blocked {
        Blocked {
            node: Some("home-work-3".into()),
            what: "home-work-3 is not in the file".into(),
            disruption: Disruption::Delete,
            hint: "remove it yourself".into(),
        }
    }

    pub fn destroy_of_two() -> Plan {
        let vm = |n: u32| (NodeName::from(format!("home-work-{n}")), VmRef::new("pve1", 150_020 + n));
        let mut actions = vec![];
        for (node, vm) in [vm(1), vm(2)] {
            actions.push(Action::StopVm { node: node.clone(), vm: vm.clone(), if_unresponsive: false });
            actions.push(Action::DeleteVm { node, vm, keeps_quorum: false });
        }
        actions.push(Action::DeleteRecord { vm: VmRef::new("pve1", 150_000) });
        plan_of(chain(actions, "it is part of the cluster", Disruption::Delete))
    }

    fn text(plan: &Plan, verb: Verb) -> String {
        let mut text = Vec::new();
        human(&mut text, Ink::PLAIN, plan, verb).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_new_worker_is_a_tree_with_reasons() {
        let mut plan = one_more();
        plan.notes.push(Note { text: "home-work-1 runs another configuration".into() });
        insta::assert_snapshot!(text(&plan, Verb::Apply), @"
        Images
        ├─ register schematic 376567988ad3 with the Image Factory
        │      (the file asks for it and no VM of ours is it)
        └─ download talos-v1.13.9-376567988ad3-nocloud-amd64.qcow2 to local on pve2
               (the file asks for it and no VM of ours is it)

        home-work-3
        ├─ create home-work-3, VM 150023 on pve2, disk on local-zfs
        │      (the file asks for it and no VM of ours is it)
        ├─ start home-work-3  (the file asks for it and no VM of ours is it)
        ├─ configure home-work-3  (the file asks for it and no VM of ours is it)
        └─ wait for home-work-3 to join  (the file asks for it and no VM of ours is it)

        Cluster
        └─ check that the cluster is healthy  (the file asks for it and no VM of ours is it)

        note: home-work-1 runs another configuration
        home: 1 image to download, 1 VM to create, no disruption, about 2 min.
        ");
    }

    /// Two nodes that are power cycled, and one that is removed.
    pub fn restarts() -> Plan {
        let unit = |kind: &str, node: &str, goal: Goal, forecast: Forecast| Unit {
            id: UnitId(format!("{kind}/{node}")),
            node: node.into(),
            disruption: if kind == "remove" { Disruption::Delete } else { Disruption::PowerCycle },
            effect: if kind == "remove" { Effect::Removal } else { Effect::Absence },
            goal,
            forecast,
        };
        let cycle = |node: &str, vmid: u32| {
            let says = vec!["memory 4096 MiB → 8192 MiB".to_owned()];
            let power = Action::PowerCycleVm {
                node: node.into(),
                vm: VmRef::new("pve1", vmid),
                set: [("memory".to_owned(), "8192".to_owned())].into(),
                says,
            };
            vec![Action::DrainNode { node: node.into() }, power, Action::VerifyNode { node: node.into() }]
        };
        let (one, two, gone) = ("home-control-1", "home-work-1", "home-work-2");
        let delete =
            Action::DeleteVm { node: gone.into(), vm: VmRef::new("pve1", 150_022), keeps_quorum: false };
        let mut actions = vec![cycle(one, 150_011), cycle(two, 150_021), vec![delete]];
        actions.push(vec![Action::CheckHealth]);
        let mut plan = plan_of(chain(actions.concat(), "its VM does not match the file", Disruption::None));
        for step in &mut plan.steps {
            let kind = if matches!(step.action, Action::DeleteVm { .. }) { "remove" } else { "restart" };
            step.unit = step.action.node().map(|node| UnitId(format!("{kind}/{node}")));
            step.disruption = match step.action {
                Action::PowerCycleVm { .. } => Disruption::PowerCycle,
                Action::DeleteVm { .. } => Disruption::Delete,
                _ => Disruption::None,
            };
        }
        let voters = Forecast { voters: Some((2, 3)), at_once: 1, ..Forecast::default() };
        let blockers = vec![Blocker::NoKubernetes];
        let workers = Forecast { workers: Some((1, 2)), at_once: 1, blockers, ..Forecast::default() };
        let last = Forecast { workers: Some((1, 1)), at_once: 1, ..Forecast::default() };
        plan.units = vec![
            unit("restart", one, Goal::PowerCycle { node: one.into() }, voters),
            unit("restart", two, Goal::PowerCycle { node: two.into() }, workers),
            unit("remove", gone, Goal::Remove { node: gone.into() }, last),
        ];
        plan
    }

    #[test]
    fn disruptions_stand_in_order_with_what_is_left_of_the_cluster() {
        insta::assert_snapshot!(text(&restarts(), Verb::Apply), @"
        power cycle home-control-1 [power cycle]
           2 of 3 voters healthy meanwhile, quorum holds; about 1 min
        ├─ drain home-control-1  (its VM does not match the file)
        ├─ stop home-control-1, change its VM (memory 4096 MiB → 8192 MiB), and start it [power cycle]
        │      (its VM does not match the file)
        └─ verify that home-control-1 is back and healthy  (its VM does not match the file)

        power cycle home-work-1 [power cycle]
           1 of 2 workers ready meanwhile; about 1 min; waits: Kubernetes does not answer, so it is not known which nodes are ready
        ├─ drain home-work-1  (its VM does not match the file)
        ├─ stop home-work-1, change its VM (memory 4096 MiB → 8192 MiB), and start it [power cycle]
        │      (its VM does not match the file)
        └─ verify that home-work-1 is back and healthy  (its VM does not match the file)

        remove home-work-2 [delete]
           1 of 1 worker ready meanwhile; about 20 s
        └─ delete home-work-2, VM 150022 on pve1, with its disks, permanently
               (its VM does not match the file)

        Cluster
        └─ check that the cluster is healthy  (its VM does not match the file)

        home: 2 nodes to power cycle, 1 node to remove, one at a time, deleted data cannot be restored, about 3 min.
        ");
        let document = serde_json::to_value(json(&restarts(), Verb::Apply)).unwrap();
        assert_eq!(document["units"][0]["id"], "restart/home-control-1");
        assert_eq!(document["units"][0]["forecast"]["voters"], serde_json::json!([2, 3]));
        assert_eq!(document["units"][1]["disruption"], "power-cycle");
        let mut outage = restarts();
        outage.units[0].forecast.voters = Some((0, 1));
        outage.units[0].forecast.outage = true;
        assert!(text(&outage, Verb::Apply).contains("the Kubernetes API is unavailable meanwhile"));
        outage.units[1].forecast.at_once = 2;
        assert!(summary(&outage).contains("at most 2 at a time"), "{}", summary(&outage));
    }

    #[test]
    fn a_drain_evicts_pods_and_a_live_migration_is_no_restart() {
        let node = || NodeName::from("home-work-1");
        let unit = |goal: Goal| Unit {
            id: UnitId("a".into()),
            node: node(),
            goal,
            disruption: Disruption::ServiceRestart,
            effect: Effect::Absence,
            forecast: Forecast { at_once: 1, ..Forecast::default() },
        };
        let plan = |goal: Goal, action: Action, disruption: Disruption| {
            let mut plan = plan_of(chain(vec![action], "asked", disruption));
            plan.steps[0].unit = Some(UnitId("a".into()));
            plan.units = vec![unit(goal)];
            text(&plan, Verb::Apply)
        };
        let drain = plan(Goal::Drain { node: node() }, Action::DrainNode { node: node() }, Disruption::None);
        assert!(drain.starts_with("drain home-work-1 [pods evicted]\n"), "{drain}");
        assert!(drain.ends_with("home: 1 node to drain, pods are evicted, about 20 s.\n"), "{drain}");
        let vm = VmRef::new("pve1", 150_021);
        let migrate =
            Action::MigrateVm { node: node(), vm, to: "pve2".into(), online: true, local_disks: false };
        let goal = Goal::Move { node: node(), host: "pve2".into() };
        let moved = plan(goal, migrate, Disruption::ServiceRestart);
        assert_eq!(moved.matches("[live migration]").count(), 2, "{moved}");
        assert!(moved.contains("home: 1 node to move, "), "{moved}");
    }

    #[test]
    fn what_is_removed_stands_first() {
        insta::assert_snapshot!(text(&destroy_of_two(), Verb::Destroy), @"
        This deletes home: 2 VMs with all data on their disks, and the cluster record VM.
        Boot images stay, because other clusters may use them; so does the secrets bundle.

        home-work-1
        ├─ stop home-work-1, VM 150021  (it is part of the cluster)
        └─ delete home-work-1, VM 150021 on pve1, with its disks, permanently  (it is part of the cluster)

        home-work-2
        ├─ stop home-work-2, VM 150022  (it is part of the cluster)
        └─ delete home-work-2, VM 150022 on pve1, with its disks, permanently  (it is part of the cluster)

        Record
        └─ delete the cluster record VM 150000 on pve1, permanently  (it is part of the cluster)

        home: 2 VMs to delete, deleted data cannot be restored, about 2 min.
        ");
    }

    #[test]
    fn nothing_to_do_is_one_line() {
        assert_eq!(text(&plan_of(vec![]), Verb::Apply), "No changes. The cluster home matches the file.\n");
        assert_eq!(text(&plan_of(vec![]), Verb::Destroy), "Nothing to remove: no VM of home was found.\n");
    }

    #[test]
    fn first_use_4_what_is_not_done_is_never_nothing_to_do() {
        let mut plan = plan_of(vec![]);
        plan.blocked.push(removed());
        insta::assert_snapshot!(text(&plan, Verb::Apply), @"
        Blocked:
        - home-work-3 is not in the file [delete]
          hint: remove it yourself
        home does not match the file: 1 change is blocked.
        ");
        let document = serde_json::to_value(json(&plan, Verb::Apply)).unwrap();
        assert_eq!(document["blocked"][0]["node"], "home-work-3");
        let mut plan = one_more();
        plan.blocked.push(removed());
        assert!(text(&plan, Verb::Apply).contains("1 change blocked"), "{}", text(&plan, Verb::Apply));
    }

    #[test]
    fn a_refusal_says_why_and_what_to_do() {
        let mut plan = plan_of(vec![]);
        plan.refusals.push(Refusal {
            code: model::plan::RefusalCode::ForeignMachine,
            why: "what answers at 10.25.150.21 is not home-work-1: its UUID is another".into(),
            hint: "free the address 10.25.150.21".into(),
        });
        insta::assert_snapshot!(text(&plan, Verb::Apply), @"
        Refused: Talosmith makes no changes to home, because of this:
        - [foreign-machine] what answers at 10.25.150.21 is not home-work-1: its UUID is another
          hint: free the address 10.25.150.21
        ");
        // What else differs is not hidden by that.
        plan.held = destroy_of_two().steps.split_off(1);
        let told = text(&plan, Verb::Apply);
        let (_, below) = told.split_once("Otherwise, Talosmith would make these changes:\n").unwrap();
        assert_eq!(below.lines().filter(|line| !line.is_empty()).count(), plan.held.len(), "{told}");
    }

    #[test]
    fn programs_get_the_plan_and_its_length() {
        let document = serde_json::to_value(json(&one_more(), Verb::Apply)).unwrap();
        assert_eq!(document["seconds"], 140);
        assert_eq!(document["verb"], "apply");
        assert_eq!(document["steps"][2]["action"]["do"], "create-vm");
        assert_eq!(document["cluster"], "home");
    }
}
