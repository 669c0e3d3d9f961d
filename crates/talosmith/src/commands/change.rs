//! `apply` and `destroy`: the commands that change the world.

mod asked;
mod end;
mod reviewed;
mod run;

use engine::lease;
use engine::secrets::AtRest;
use engine::{Snapshot, Systems};
use model::plan::Plan;
use model::step::Action;
use talos::secrets::Bundle;

use self::asked::{Answer, Question};
use self::reviewed::{of_this_cluster, read_plan, still_holds};
use self::run::Change;
use super::credentials;
use super::secrets::make_bundle;
use super::setup::{Setup, Wrong, confirm, ended, flags};
use crate::args::{AllowArgs, ApplyArgs, ChangeArgs, Global};
use crate::exit::Exit;
use crate::interrupt;
use crate::view::{Printer, Problem, Verb};

/// How often a plan is made again because somebody else had the cluster in between.
const ATTEMPTS: usize = 3;

/// Makes the cluster what the file says.
pub async fn apply(global: &Global, args: &ApplyArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_apply(global, args, printer).await)
}

async fn try_apply(global: &Global, args: &ApplyArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let saved = args.plan.as_deref().map(read_plan).transpose()?;
    let setup = Setup::new(global, printer)?;
    setup.place.make()?;
    let _lock = setup.place.lock()?;
    let outside = setup.outside(global).await?;
    let allowed = match (&saved, &args.plan) {
        (Some(saved), Some(path)) => {
            of_this_cluster(saved, path, &setup.loaded.spec.cluster)?;
            reviewed::verify(saved, path, setup.place.load_bundle()?.as_ref())?;
            reviewed::allowed(saved, path, global, &args.allow)?
        }
        _ => args.allow.allow_destroy.clone(),
    };
    let mut session = setup.session(&outside, printer)?.allowing(allowed);
    let mut snapshot = setup.observe(&session, printer).await?;
    known(&args.allow, &snapshot)?;
    if global.lab {
        only_ours(&snapshot)?;
    }
    let mut plan = snapshot.plan();
    if let (Some(saved), Some(path)) = (&saved, &args.plan) {
        still_holds(saved, path, &snapshot, &plan)?;
    }
    free(&setup, &args.change, &snapshot, &plan, outside.systems.clock.now())?;
    if !printer.is_json() || !plan.refusals.is_empty() || plan.steps.is_empty() {
        printer.plan(&plan, Verb::Apply);
    }
    if !plan.refusals.is_empty() {
        return Ok(Exit::of_refusals(&plan.refusals));
    }
    if plan.steps.is_empty() {
        write_credentials(global, args, printer)?;
        return Ok(end::of(&plan));
    }
    snapshot.read_references(&plan).map_err(|e| Problem::from(&e))?;
    let asks = !args.change.yes && saved.is_none();
    if asks {
        let text = "Apply these changes?".to_owned();
        let question = Question { setup: &setup, session: &session, printer, verb: Verb::Apply, text };
        match question.ask(plan).await? {
            Answer::Yes(seen, again) => (snapshot, plan) = (*seen, again),
            Answer::No(exit) => return Ok(exit),
        }
    }
    if snapshot.blueprint.cluster_id.is_none() {
        // Keys must exist, on disk, before the first machine is given an identity that derives from them.
        // From here on signals are heard, and do not end the program by themselves.
        let making = interrupt::unless(new_bundle(&setup, &outside.systems, global, printer)).await;
        let Some(bundle) = making else { return Ok(stopped(printer)) };
        session = session.with_bundle(bundle?);
        let Some(seen) = interrupt::unless(setup.observe(&session, printer)).await else {
            return Ok(stopped(printer));
        };
        snapshot = seen?;
        plan = snapshot.plan();
        refused(&plan)?;
    }
    let _cluster = setup.lock_cluster(&snapshot)?;
    let change = Change::new(&setup, &outside, &args.change, "apply", printer)?
        .within(args.timeout)
        .saved(saved.is_some());
    for _ in 0..ATTEMPTS {
        if let Some(exit) = change.carry_out(&snapshot, &plan).await? {
            if exit == Exit::Done {
                write_credentials(global, args, printer)?;
                let off = end::was_off(&snapshot, &plan);
                if (!printer.is_json() || !off.is_empty())
                    && let Some(seen) = interrupt::unless(setup.observe(&session, printer)).await
                {
                    let seen = seen?;
                    if !printer.is_json() {
                        end::show(global, args, &seen, printer);
                    }
                    return Ok(end::compared(&plan, &off, &seen, printer));
                }
                return Ok(end::of(&plan));
            }
            return Ok(exit);
        }
        printer.note("Another operator held the lease in between. Observing again.");
        let Some(seen) = interrupt::unless(setup.observe(&session, printer)).await else {
            return Ok(stopped(printer));
        };
        snapshot = seen?;
        let again = snapshot.plan();
        refused(&again)?;
        if let (Some(saved), Some(path)) = (&saved, &args.plan) {
            still_holds(saved, path, &snapshot, &again)?;
        }
        if again.steps.is_empty() {
            printer.plan(&again, Verb::Apply);
            write_credentials(global, args, printer)?;
            return Ok(end::of(&again));
        }
        let differs = again != plan;
        if differs && !printer.is_json() {
            printer.say("The plan is another one now:\n");
            printer.plan(&again, Verb::Apply);
        }
        if asks && differs {
            let asking = printer.clone();
            let answer =
                tokio::task::spawn_blocking(move || confirm(&asking, "Apply these changes instead?"));
            match interrupt::unless(answer).await {
                Some(answer) => {
                    if !answer.map_err(|e| Problem::of(Exit::Internal, &e))?? {
                        printer.note("Nothing was changed.");
                        return Ok(Exit::Declined);
                    }
                }
                None => return Ok(stopped(printer)),
            }
        }
        plan = again;
    }
    Err(Problem::new(Exit::Busy, "other operators keep changing the cluster").into())
}

/// The lab makes no machines of others, and they would be waited for in vain.
fn only_ours(snapshot: &Snapshot) -> Result<(), Problem> {
    match snapshot.blueprint.in_order().into_iter().find(|node| node.external) {
        None => Ok(()),
        Some(node) => {
            let why = format!("{} is external, and the lab has no machines that others made", node.name);
            Err(Problem::new(Exit::Usage, why).hint(
                "leave out `external` to try the file there; or serve a lab with `talosmith lab up`, make the machines in its \
                 Proxmox, and apply the file without `--lab`",
            ))
        }
    }
}

/// Takes the cluster away.
pub async fn destroy(global: &Global, args: &ChangeArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_destroy(global, args, printer).await)
}

async fn try_destroy(global: &Global, args: &ChangeArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    setup.place.make()?;
    let _lock = setup.place.lock()?;
    let outside = setup.outside(global).await?;
    let session = setup.session(&outside, printer)?;
    let mut snapshot = setup.observe_to_destroy(&session, printer).await?;
    let mut plan = snapshot.plan_destroy();
    let left = left(global, &snapshot, &plan);
    if let (Some(left), true, true) = (&left, plan.steps.is_empty(), plan.refusals.is_empty()) {
        return Err(left.clone().into());
    }
    free(&setup, args, &snapshot, &plan, outside.systems.clock.now())?;
    if !printer.is_json() || !plan.refusals.is_empty() || plan.steps.is_empty() {
        printer.plan(&plan, Verb::Destroy);
    }
    if !plan.refusals.is_empty() {
        return Ok(Exit::of_refusals(&plan.refusals));
    }
    if plan.steps.is_empty() {
        return Ok(Exit::Done);
    }
    if !args.yes {
        let text = format!("The cluster {} and all its data will be gone.", plan.cluster);
        let question = Question { setup: &setup, session: &session, printer, verb: Verb::Destroy, text };
        match question.ask(plan).await? {
            Answer::Yes(seen, again) => (snapshot, plan) = (*seen, again),
            Answer::No(exit) => return Ok(exit),
        }
    }
    let _cluster = setup.lock_cluster(&snapshot)?;
    let change = Change::new(&setup, &outside, args, "destroy", printer)?;
    if let Some(exit) = change.carry_out(&snapshot, &plan).await? {
        if exit == Exit::Done && left.is_none() && snapshot.blueprint.has_proxmox() {
            printer.note(&format!(
                "The roles and the token that were set up for it are still in Proxmox. An administrator removes them with \
                 `talosmith proxmox setup --remove{}`.",
                flags(global)
            ));
        }
        return match left {
            Some(left) if exit == Exit::Done => Err(left.into()),
            _ => Ok(exit),
        };
    }
    // What shall be destroyed was confirmed by a person who saw another list.
    Err(Problem::new(Exit::Busy, "another operator changed the cluster since it was observed")
        .hint("run the command again: it observes the cluster again and shows what would be deleted")
        .into())
}

/// What cannot be removed now, why, and when to try again.
fn left(global: &Global, snapshot: &Snapshot, plan: &Plan) -> Option<Problem> {
    let seen = &snapshot.observed.proxmox;
    let mut left = vec![];
    let mut awaited: Vec<String> = vec![];
    for (vmid, host) in &seen.unread {
        let name = seen.taken.get(vmid).and_then(|guest| guest.name.as_ref());
        let title = name.map_or_else(|| format!("VM {vmid}"), |name| format!("VM {vmid} ({name})"));
        let (why, when) = match seen.inventory.hosts.get(host) {
            Some(known) if known.online => ("it could not be read".to_owned(), "it can be read".to_owned()),
            _ => (format!("{host} is off or cannot be reached"), format!("{host} is back")),
        };
        left.push(format!("{title} on {host} is left: {why}"));
        if !awaited.contains(&when) {
            awaited.push(when);
        }
    }
    for (vmid, creation) in &seen.creating {
        let whose = model::plan::ownership::whose(&snapshot.blueprint, *vmid);
        left.push(format!(
            "VM {vmid} on {}, which has the VM ID of {whose}, is left: Proxmox is still creating it",
            creation.host
        ));
        let when = "the creation has ended".to_owned();
        if !awaited.contains(&when) {
            awaited.push(when);
        }
    }
    let goes = plan.steps.iter().any(|step| matches!(step.action, Action::DeleteRecord { .. }));
    if left.is_empty() || goes {
        return None;
    }
    if let Some(record) = &seen.record {
        let why = "it goes last";
        left.push(format!("the cluster's record, VM {} on {}, is left: {why}", record.vmid, record.host));
    }
    let mut problem = Problem::new(Exit::Systems, format!("{} is not gone altogether", plan.cluster));
    problem.causes.extend(left);
    let again = format!("run `talosmith destroy{}` again when {}", flags(global), awaited.join(" and "));
    Some(problem.hint(again))
}

/// Nobody else holds the lease, as far as was seen; where somebody does, a plan is of no use.
fn free(
    setup: &Setup,
    args: &ChangeArgs,
    snapshot: &Snapshot,
    plan: &Plan,
    now: jiff::Timestamp,
) -> Result<(), Problem> {
    let Some(record) = &snapshot.observed.proxmox.record else { return Ok(()) };
    if plan.steps.is_empty() || !plan.refusals.is_empty() {
        return Ok(());
    }
    let operator = setup.place.operator(args.take_over)?;
    lease::may_begin(&record.state, &operator, now).map_err(|error| Problem::from(&error))
}

/// A signal came before a run started.
fn stopped(printer: &Printer) -> Exit {
    printer.note("Stopped. Run the same command again to continue.");
    Exit::Interrupted
}

/// Every node whose data may be deleted is one of the file's.
pub(super) fn known(args: &AllowArgs, snapshot: &Snapshot) -> Result<(), Problem> {
    match args.allow_destroy.iter().find(|name| !snapshot.blueprint.nodes.contains_key(*name)) {
        None => Ok(()),
        Some(name) => {
            let nodes: Vec<&str> =
                snapshot.blueprint.in_order().into_iter().map(|node| node.name.as_str()).collect();
            let why = format!("`--allow-destroy` names {name}, and the file has no such node");
            Err(Problem::new(Exit::Usage, why).hint(format!("the nodes are {}", nodes.join(", "))))
        }
    }
}

fn refused(plan: &Plan) -> Result<(), Problem> {
    match plan.refusals.first() {
        Some(refusal) => {
            let exit = Exit::of_refusals(&plan.refusals);
            Err(Problem::new(exit, refusal.why.clone()).hint(refusal.hint.clone()))
        }
        None => Ok(()),
    }
}

/// A new bundle, written before it is used.
async fn new_bundle(
    setup: &Setup,
    systems: &Systems,
    global: &Global,
    printer: &Printer,
) -> Result<Bundle, Problem> {
    let identity = setup.place.identity().read_or_make(printer, !global.lab)?;
    printer.note("Making the cluster's secrets.");
    let bundle = make_bundle(&setup.loaded.spec, systems.clock.now()).await?;
    let path = setup.place.create_bundle(&bundle, &AtRest::Encrypted(identity.recipients()))?;
    if !global.lab {
        printer.note(&format!("The secrets are in {}, encrypted. Keep that file.", path.display()));
    }
    Ok(bundle)
}

/// Credentials that the command line asks for.
fn write_credentials(global: &Global, args: &ApplyArgs, printer: &Printer) -> Result<(), Wrong> {
    if let Some(path) = &args.kubeconfig {
        credentials::merge_kubeconfig(global, path, printer)?;
    }
    if let Some(path) = &args.talosconfig {
        credentials::merge_talosconfig(global, path, printer)?;
    }
    Ok(())
}
