//! A plan for people: images, the cluster's record, then each node with its steps and their reasons, then the rest.
//!
//! What is removed for good stands at the top and is marked in every line. A plan that is refused shows only why, because
//! there is nothing that would be done.

use std::io::{self, Write};

use model::plan::{Blocked, Note, Plan, Refusal};
use model::step::{Action, Disruption, Step};
use serde::Serialize;

use super::ink::{Ink, about, clean, count};

/// What the plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// To bring the world to the file.
    Apply,
    /// To take the cluster away.
    Destroy,
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
            Verb::Apply => writeln!(w, "No changes for {}. Notes:", plan.cluster)?,
            Verb::Destroy => writeln!(w, "Nothing to remove: no VM of {} was found.", plan.cluster)?,
        }
        return notes(w, ink, &plan.notes);
    }
    if verb == Verb::Destroy {
        summary_line(w, ink, plan)?;
    }
    for (title, steps) in groups(&plan.steps) {
        writeln!(w, "{}", ink.bold(&title))?;
        for (at, step) in steps.iter().enumerate() {
            line(w, ink, step, at + 1 == steps.len())?;
        }
        writeln!(w)?;
    }
    blocked(w, ink, &plan.blocked)?;
    unknown(w, ink, &plan.unknown)?;
    notes(w, ink, &plan.notes)?;
    writeln!(w, "{}", ink.bold(&summary(plan)))
}

/// The heading of what a plan leaves to a person.
pub(super) const BLOCKED: &str = "Not done by this version";

/// The one line of a plan without steps for a cluster that is not what the file says.
pub(super) fn does_not_match(plan: &Plan) -> String {
    let one = plan.blocked.len() == 1;
    format!(
        "{} does not match the file: {} {} to be made by hand.",
        plan.cluster,
        count(plan.blocked.len(), "change"),
        if one { "has" } else { "have" }
    )
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

/// What the file asks for and this version does not do.
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
    writeln!(w, "{}", ink.bold("Without that, this would be done:"))?;
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
        (0, _) => "the cluster's record".to_owned(),
        (_, true) => format!("{machines}, and the cluster's record"),
        (_, false) => machines,
    };
    writeln!(w, "{} {what}.", ink.red(&format!("This deletes {}:", plan.cluster)))?;
    writeln!(w, "Boot images stay, because other clusters may use them; so does the secrets bundle.\n")
}

/// Steps by what they are about, in the order in which they first appear.
pub(super) fn groups(steps: &[Step]) -> Vec<(String, Vec<&Step>)> {
    let mut groups: Vec<(String, Vec<&Step>)> = Vec::new();
    for step in steps {
        let title = match &step.action {
            Action::RegisterSchematic { .. }
            | Action::DownloadImage { .. }
            | Action::CreateTemplate { .. } => "Images",
            Action::CreateRecord { .. }
            | Action::SealRecord { .. }
            | Action::UpdateRecord { .. }
            | Action::DeleteRecord { .. } => "Record",
            Action::CreateCredentials { .. } | Action::RemoveAccount { .. } | Action::CheckHealth => {
                "Cluster"
            }
            action => action.node().unwrap_or("Cluster"),
        };
        match groups.iter_mut().find(|(known, _)| known == title) {
            Some((_, steps)) => steps.push(step),
            None => groups.push((title.to_owned(), vec![step])),
        }
    }
    groups
}

fn line(w: &mut dyn Write, ink: Ink, step: &Step, last: bool) -> io::Result<()> {
    let (branch, below) = if last { ("└─", "  ") } else { ("├─", "│ ") };
    let text = step.action.describe();
    let removes = step.disruption == Disruption::Delete && !matches!(step.action, Action::StopVm { .. });
    let (painted, added) = if removes {
        (ink.red(&format!("{text}, permanently")), 10)
    } else if !matches!(step.disruption, Disruption::None | Disruption::Delete) {
        let class = named(step.disruption);
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

/// What a step does to what runs, in words.
pub(super) fn named(disruption: Disruption) -> String {
    if disruption == Disruption::Delete {
        return "delete".to_owned();
    }
    let name = serde_json::to_value(disruption).ok().and_then(|name| Some(name.as_str()?.replace('-', " ")));
    name.unwrap_or_default()
}

fn refusals(w: &mut dyn Write, ink: Ink, cluster: &str, refusals: &[Refusal]) -> io::Result<()> {
    let why = in_the_way(refusals);
    writeln!(w, "{} nothing is changed in {cluster}, because {why}:", ink.red("Refused:"))?;
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
    let number = |is: fn(&Action) -> bool| plan.steps.iter().filter(|step| is(&step.action)).count();
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
    if said.is_empty() {
        said.push(count(plan.steps.len(), "step"));
    }
    said.push(if plan.steps.iter().any(|s| s.disruption == Disruption::Delete) {
        "deleted data cannot be restored".to_owned()
    } else if plan.steps.iter().any(|s| s.disruption > Disruption::InPlace) {
        "running nodes are disrupted".to_owned()
    } else {
        "no disruption".to_owned()
    });
    said.push(about(plan.seconds()));
    if !plan.blocked.is_empty() {
        said.push(format!("{} left to be made by hand", count(plan.blocked.len(), "change")));
    }
    if !plan.unknown.is_empty() {
        said.push("not everything could be observed".to_owned());
    }
    format!("{}: {}.", plan.cluster, said.join(", "))
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
            });
        }
        steps
    }

    pub fn plan_of(steps: Vec<Step>) -> Plan {
        Plan {
            cluster: "home".into(),
            steps,
            notes: vec![],
            blocked: vec![],
            unknown: vec![],
            refusals: vec![],
            held: vec![],
        }
    }

    /// One worker that is added, from its image to its place in the cluster.
    pub fn one_more() -> Plan {
        let (node, host) = ("home-work-3".to_owned(), "pve2".to_owned());
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
                host: host.clone(),
                vmid,
                datastore: "local-zfs".into(),
                image: String::new(),
            },
            Action::StartVm { node: node.clone(), host, vmid },
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

    pub fn farewell_of_two() -> Plan {
        let vm = |n: u32| (format!("home-work-{n}"), "pve1".to_owned(), 150_020 + n);
        let mut actions = vec![];
        for (node, host, vmid) in [vm(1), vm(2)] {
            actions.push(Action::StopVm {
                node: node.clone(),
                host: host.clone(),
                vmid,
                if_unresponsive: false,
            });
            actions.push(Action::DeleteVm { node, host, vmid, keeps_quorum: false });
        }
        actions.push(Action::DeleteRecord { host: "pve1".into(), vmid: 150_000 });
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

    #[test]
    fn what_is_removed_stands_first() {
        insta::assert_snapshot!(text(&farewell_of_two(), Verb::Destroy), @"
        This deletes home: 2 VMs with all data on their disks, and the cluster's record.
        Boot images stay, because other clusters may use them; so does the secrets bundle.

        home-work-1
        ├─ stop home-work-1, VM 150021  (it is part of the cluster)
        └─ delete home-work-1, VM 150021 on pve1, with its disks, permanently  (it is part of the cluster)

        home-work-2
        ├─ stop home-work-2, VM 150022  (it is part of the cluster)
        └─ delete home-work-2, VM 150022 on pve1, with its disks, permanently  (it is part of the cluster)

        Record
        └─ delete the cluster's record, VM 150000 on pve1, permanently  (it is part of the cluster)

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
        Not done by this version:
        - home-work-3 is not in the file [delete]
          hint: remove it yourself
        home does not match the file: 1 change has to be made by hand.
        ");
        let document = serde_json::to_value(json(&plan, Verb::Apply)).unwrap();
        assert_eq!(document["blocked"][0]["node"], "home-work-3");
        let mut plan = one_more();
        plan.blocked.push(removed());
        assert!(
            text(&plan, Verb::Apply).contains("1 change left to be made by hand"),
            "{}",
            text(&plan, Verb::Apply)
        );
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
        Refused: nothing is changed in home, because of this:
        - [foreign-machine] what answers at 10.25.150.21 is not home-work-1: its UUID is another
          hint: free the address 10.25.150.21
        ");
        // What else differs is not hidden by that.
        plan.held = farewell_of_two().steps.split_off(1);
        let told = text(&plan, Verb::Apply);
        let (_, below) = told.split_once("Without that, this would be done:\n").unwrap();
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
