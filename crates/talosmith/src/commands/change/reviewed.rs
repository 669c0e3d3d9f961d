//! A plan that was saved, reviewed, and is carried out later: only as it was reviewed, and only where it was made for.

use std::collections::BTreeSet;
use std::path::Path;

use engine::plan_key::PlanKey;
use engine::saved::SavedPlan;
use model::plan::Plan;
use talos::secrets::Bundle;

use crate::args::{AllowArgs, Deletion, Global};
use crate::commands::setup::flags;
use crate::exit::Exit;
use crate::view::{Problem, changed};

/// How many changes are listed. With more, a new plan is needed anyway.
const TOLD: usize = 10;

fn unusable(problem: Problem, path: &Path) -> Problem {
    problem
        .within(format!("could not use the plan {}", path.display()))
        .hint("save a new one with `talosmith plan -o FILE`; the cluster file is named with `-f`")
}

pub fn read_plan(path: &Path) -> Result<SavedPlan, Problem> {
    let within = |problem: Problem| unusable(problem, path);
    let text = std::fs::read_to_string(path).map_err(|e| within(Problem::of(Exit::Input, &e)))?;
    SavedPlan::parse(&text).map_err(|e| within(Problem::of(Exit::Input, &e)))
}

/// A plan is used only when it is proved to be what was saved, with the secrets of this cluster.
pub fn verify(saved: &SavedPlan, path: &Path, bundle: Option<&Bundle>) -> Result<(), Problem> {
    let key = bundle.map(PlanKey::of);
    saved.verify(key.as_ref()).map_err(|e| unusable(Problem::of(Exit::Refused, &e), path))
}

/// What a saved plan allows was reviewed with it; what it does not allow was not.
pub fn within(saved: &SavedPlan, path: &Path, global: &Global, args: &AllowArgs) -> Result<(), Problem> {
    let Some(option) = beyond(saved, args) else { return Ok(()) };
    let path = path.display();
    let why = format!("the plan {path} was saved without `{option}`");
    let again = format!("talosmith plan{} {option} -o {path}", flags(global));
    Err(Problem::new(Exit::Usage, why).hint(format!("save a new one and look at it: {again}")))
}

/// An option that says more than what was reviewed.
fn beyond(saved: &SavedPlan, args: &AllowArgs) -> Option<String> {
    let allowed = &saved.allowed;
    let covers = |deletion: &Deletion| match &deletion.disk {
        None => allowed.node(&deletion.node),
        Some(disk) => allowed.disk(&deletion.node, disk),
    };
    let deletion = args.allow_destroy.iter().find(|deletion| !covers(deletion));
    let target = args.target.iter().find(|node| !saved.targets.contains(*node));
    deletion
        .map(|deletion| format!("--allow-destroy {deletion}"))
        .or_else(|| target.map(|node| format!("--target {node}")))
        .or_else(|| {
            (args.allow_destroy_removed && !allowed.removed).then(|| "--allow-destroy-removed".to_owned())
        })
        .or_else(|| (args.allow_api_outage && !allowed.api_outage).then(|| "--allow-api-outage".to_owned()))
}

/// A plan is of the cluster that its file names. One of another cluster is not compared fact by fact.
pub fn of_this_cluster(saved: &SavedPlan, path: &Path, cluster: &str) -> Result<(), Problem> {
    if saved.plan.cluster == cluster {
        return Ok(());
    }
    let why = format!(
        "the plan {} is for the cluster {}, the file for {cluster}",
        path.display(),
        saved.plan.cluster
    );
    Err(Problem::new(Exit::Refused, why).hint("name the file that it was made from with `-f FILE`"))
}

/// Why a saved plan does not fit to what was observed `now`.
pub fn outdated(saved: &SavedPlan, path: &Path, now: &SavedPlan, plan: &Plan) -> Problem {
    let path = path.display();
    let id = |plan: &SavedPlan| plan.facts.get("file/cluster_id").cloned();
    if let (Some(was), Some(is)) = (id(saved), id(now))
        && was != is
    {
        let why = format!(
            "the plan {path} is for another cluster called {}: its secrets are others",
            saved.plan.cluster
        );
        return Problem::new(Exit::Refused, why)
            .hint("use the file and the secrets that it was made with, or save a new plan");
    }
    let changes = changed::changes(&saved.facts, &now.facts);
    if plan.is_empty() && !saved.plan.steps.is_empty() && !changes.iter().any(|change| change.of_file) {
        let why = format!(
            "the plan {path} cannot be applied again: its changes were made already, and the cluster matches the file"
        );
        return Problem::new(Exit::Refused, why)
            .hint("nothing is left to do; save a new plan after the next change of the file");
    }
    let of_file: BTreeSet<bool> = changes.iter().map(|change| change.of_file).collect();
    let what = match (of_file.contains(&true), of_file.contains(&false)) {
        (true, false) => format!("the plan {path} was made from another file"),
        (true, true) => format!("the file and the observed state changed since the plan {path} was made"),
        (false, true) => format!("the observed state changed since the plan {path} was made"),
        (false, false) => {
            format!(
                "the plan {path} is not what planning gives now: a detail of a VM changed, or it was made by another release of Talosmith"
            )
        }
    };
    let more = changes.len().saturating_sub(TOLD);
    let mut problem = Problem::new(Exit::Refused, what);
    problem.causes.extend(changes.into_iter().take(TOLD).map(|change| change.text));
    if more > 0 {
        problem.causes.push(format!("and {more} more changes"));
    }
    problem.hint("look at what changed, then save a new plan with `talosmith plan -o FILE`")
}
