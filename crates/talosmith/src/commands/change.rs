//! `apply` and `destroy`: the commands that change a cluster. What is done, and when, the engine decides (`engine::reconcile`); here its
//! stores are the working folder, its questions go to the terminal, and its end becomes an exit code.

mod asked;
mod end;
mod kept;
pub(super) mod reviewed;
mod shown;

use std::sync::Arc;
use std::time::Duration;

use engine::Session;
use engine::apply::Stop;
use engine::journal::FileJournal;
use engine::reconcile::{Ended, Intent, Left, Mandate, Reconcile, Reconciled};
use engine::report::ReportFolder;
use engine::stores::Stores;
use model::plan::Plan;
use model::plan::remnants::Remnant;
use tokio::sync::watch;

use self::asked::Terminal;
use self::kept::Kept;
use self::reviewed::{of_this_cluster, outdated, read_plan};
use self::shown::Shown;
use super::credentials;
use super::setup::{Setup, Wrong, cannot_ask, ended, flags};
use crate::args::{ApplyArgs, ChangeArgs, Global};
use crate::exit::Exit;
use crate::interrupt;
use crate::outside::Outside;
use crate::view::{Printer, Problem, Verb};

pub(super) use end::unknown_name;

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
    let (mut allowed, mut targets) = (args.allow.allowed(), args.allow.target.clone());
    if let (Some(saved), Some(path)) = (&saved, &args.plan) {
        of_this_cluster(saved, path, &setup.loaded.spec.cluster)?;
        reviewed::verify(saved, path, setup.place.load_bundle()?.as_ref())?;
        reviewed::within(saved, path, global, &args.allow)?;
        allowed = saved.allowed.clone();
        targets = saved.targets.iter().map(ToString::to_string).collect();
    }
    if global.lab {
        only_ours(&setup)?;
    }
    let session = setup.session(&outside, printer)?.allowing(allowed).targeting(targets);
    let mandate = match &saved {
        Some(saved) => Mandate::Saved(Box::new(saved.clone())),
        None => args.change.mandate(),
    };
    let change = Change { global, setup: &setup, outside: &outside, args: &args.change, printer };
    let reconciled = change.reconcile(session, Intent::Apply, mandate, args.timeout).await?;
    let Reconciled { ended, runs, last } = reconciled;
    if let (Ended::Outdated(now), Some(saved), Some(path), Some((_, plan))) =
        (&ended, &saved, &args.plan, &last)
    {
        return Err(outdated(saved, path, now, plan).into());
    }
    let done = matches!(ended, Ended::Converged)
        || matches!(&ended, Ended::Left(left) if runs > 0 || matches!(left, Left::Blocked | Left::Unknown));
    if done {
        write_credentials(global, args, printer)?;
    }
    if let (Some((snapshot, plan)), true, true) = (&last, done, runs > 0) {
        end::show(global, args, snapshot, plan, printer);
    }
    change.exit(ended, runs, last.as_ref().map(|(_, plan)| plan), Verb::Apply)
}

/// The lab does not simulate machines of others, so waiting for them would not end.
fn only_ours(setup: &Setup) -> Result<(), Problem> {
    let Ok(blueprint) = model::resolve::resolve(&setup.loaded.spec, None, None) else { return Ok(()) };
    match blueprint.in_order().into_iter().find(|node| node.external) {
        None => Ok(()),
        Some(node) => {
            let why = format!("{} is external, and the lab does not simulate external machines", node.name);
            Err(Problem::new(Exit::Usage, why).hint(
                "leave out `external` to try the file there; or serve a lab with `talosmith lab up`, create the machines in its Proxmox, and apply the file without `--lab`",
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
    let change = Change { global, setup: &setup, outside: &outside, args, printer };
    let reconciled = change.reconcile(session, Intent::Destroy, args.mandate(), None).await?;
    let Reconciled { ended, runs, last } = reconciled;
    let in_proxmox = last.as_ref().is_some_and(|(snapshot, _)| snapshot.blueprint.has_proxmox());
    if matches!(ended, Ended::Converged) && runs > 0 && in_proxmox {
        printer.note(&format!(
            "Its roles and its token are still in Proxmox. An administrator removes them with \
             `talosmith proxmox setup --remove{}`.",
            flags(global)
        ));
    }
    change.exit(ended, runs, last.as_ref().map(|(_, plan)| plan), Verb::Destroy)
}

/// One command that changes a cluster.
pub(super) struct Change<'a> {
    pub(super) global: &'a Global,
    pub(super) setup: &'a Setup,
    pub(super) outside: &'a Outside,
    pub(super) args: &'a ChangeArgs,
    pub(super) printer: &'a Printer,
}

impl Change<'_> {
    /// Runs the loop with the working folder, the terminal and the signals of this process.
    pub(super) async fn reconcile(
        &self,
        session: Session,
        intent: Intent,
        mandate: Mandate,
        limit: Option<Duration>,
    ) -> Result<Reconciled, Wrong> {
        let (place, printer) = (&self.setup.place, self.printer);
        let verb = match &intent {
            Intent::Apply => Verb::Apply,
            Intent::Destroy => Verb::Destroy,
            Intent::ByHand(asked) => Verb::ByHand(asked.hand),
        };
        let shown = Arc::new(Shown::new(printer, verb, matches!(mandate, Mandate::Saved(_))));
        let kept = Kept { setup: self.setup, loud: !self.global.lab, printer };
        let (journal, reports) = (FileJournal::at(place.journal()), ReportFolder::below(place.folder()));
        let stores = Stores { bundles: &kept, journal: &journal, reports: &reports, lock: &kept };
        let operator = place.operator(self.args.take_over)?;
        let (request, stop) = watch::channel(Stop::No);
        let reconcile = Reconcile {
            intent,
            operator: &operator,
            mandate,
            approver: &Terminal { printer, verb },
            stores,
            listener: {
                let shown = shown.clone();
                Arc::new(move |notice| shown.see(notice))
            },
            stop,
            limit,
            secrets: vec![self.outside.token.clone()],
        };
        let reconciled = tokio::select! {
            biased;
            reconciled = reconcile.run(session) => reconciled,
            never = shown.ticking(&self.outside.systems.clock) => match never {},
            never = interrupt::wishes(request) => match never {},
        };
        reconciled.map_err(|error| self.setup.unobserved(error, printer))
    }

    /// The exit code, with what is still to be said.
    pub(super) fn exit(
        &self,
        ended: Ended,
        runs: usize,
        plan: Option<&Plan>,
        verb: Verb,
    ) -> Result<Exit, Wrong> {
        let printer = self.printer;
        Ok(match ended {
            Ended::Converged => Exit::Done,
            Ended::Left(left) => return self.left(left, runs, plan, verb),
            Ended::Refused => plan.map_or(Exit::Refused, |plan| Exit::of_refusals(&plan.refusals)),
            Ended::UnknownName(unknown) => return Err(unknown_name(&unknown).into()),
            // Only where a plan was saved, which the caller knows.
            Ended::Outdated(_) => Exit::Refused,
            Ended::Declined => {
                printer.note("Nothing was changed.");
                Exit::Declined
            }
            Ended::Interrupted { running } => {
                if !running {
                    printer.note("Stopped. Run the same command again to continue.");
                }
                Exit::Interrupted
            }
            Ended::Failed => Exit::Systems,
            Ended::Busy => Exit::Busy,
        })
    }

    /// Something is left to do.
    fn left(&self, left: Left, runs: usize, plan: Option<&Plan>, verb: Verb) -> Result<Exit, Wrong> {
        let printer = self.printer;
        if let (true, true, Some(plan)) = (printer.is_json(), runs > 0, plan) {
            printer.plan(plan, verb);
        }
        match left {
            Left::Blocked => Ok(Exit::Pending),
            Left::Unknown => Ok(Exit::Systems),
            Left::Refused => Ok(Exit::Pending),
            Left::NoProgress => {
                printer
                    .note("These steps were done, and the plan contains them again. Find out what changes them back.");
                Ok(Exit::Pending)
            }
            Left::Unapproved(_) if runs == 0 && !self.args.yes => Err(cannot_ask(self.printer).into()),
            Left::Unapproved(_) if runs == 0 && verb == Verb::Destroy => {
                // The deletion was approved for another list.
                let why = "another operator changed the cluster since it was observed";
                let hint =
                    "run the command again: it observes the cluster again and shows what would be deleted";
                Err(Problem::new(Exit::Busy, why).hint(hint).into())
            }
            Left::Unapproved(goals) => {
                let goals: Vec<String> = goals.iter().map(ToString::to_string).collect();
                printer.note(&format!(
                    "Changes are left that were not approved: {}. Look at the plan, then run the command again.",
                    goals.join(", ")
                ));
                Ok(Exit::Pending)
            }
            Left::Remnants(left) => Err(self.remnants(&left).into()),
        }
    }

    /// What a deletion left, why, and when to try again.
    fn remnants(&self, left: &[Remnant]) -> Problem {
        let cluster = &self.setup.loaded.spec.cluster;
        let mut problem = Problem::new(Exit::Systems, format!("{cluster} is not completely deleted"));
        problem.causes.extend(left.iter().map(ToString::to_string));
        let mut awaited: Vec<String> = vec![];
        for when in left.iter().filter_map(Remnant::awaits) {
            if !awaited.contains(&when) {
                awaited.push(when);
            }
        }
        let again =
            format!("run `talosmith destroy{}` again when {}", flags(self.global), awaited.join(" and "));
        problem.hint(again)
    }
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
