//! `apply` and `destroy`: the commands that change the world.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use engine::apply::{Run, Stop};
use engine::emit::Emitter;
use engine::error::Kind;
use engine::journal::Journal;
use engine::report::{self, Failed};
use engine::saved::SavedPlan;
use engine::scrub::Scrub;
use engine::secrets::AtRest;
use engine::{Look, World};
use model::event::{Event, Outcome};
use model::plan::Plan;
use secrecy::ExposeSecret;
use talos::secrets::Bundle;
use tokio::sync::watch;

use super::credentials;
use super::secrets::make_bundle;
use super::setup::{Setup, Wrong, confirm, ended, flags};
use crate::args::{AllowArgs, ApplyArgs, ChangeArgs, Global};
use crate::exit::Exit;
use crate::interrupt;
use crate::outside::Outside;
use crate::place::Place;
use crate::view::{Printer, Problem, Verb};

/// How often a plan is made anew because somebody else had the cluster in between.
const LOOKS: usize = 3;

/// Makes the cluster what the file says.
pub async fn apply(global: &Global, args: &ApplyArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_apply(global, args, printer).await)
}

async fn try_apply(global: &Global, args: &ApplyArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let saved = args.plan.as_deref().map(read_plan).transpose()?;
    let setup = Setup::new(global, printer)?;
    setup.place.make()?;
    let _lock = setup.place.lock()?;
    let outside = setup.outside(global)?;
    let allowed = match (&saved, &args.plan) {
        (Some(saved), Some(path)) => reviewed(saved, path, global, &args.allow)?,
        _ => args.allow.allow_destroy.clone(),
    };
    let mut session = setup.session(&outside, printer)?.allowing(allowed);
    let mut look = setup.look(&session, printer).await?;
    known(&args.allow, &look)?;
    let mut plan = look.plan();
    if let (Some(saved), Some(path)) = (&saved, &args.plan) {
        still_holds(saved, path, &look, &plan)?;
    }
    if !printer.is_json() || !plan.refusals.is_empty() || plan.steps.is_empty() {
        printer.plan(&plan, Verb::Apply);
    }
    if !plan.refusals.is_empty() {
        return Ok(Exit::Refused);
    }
    if plan.steps.is_empty() {
        write_credentials(global, args, printer)?;
        return Ok(Exit::Done);
    }
    let asks = !args.change.yes && saved.is_none();
    if asks && !confirm(printer, "Shall this be done?")? {
        printer.note("Nothing was changed.");
        return Ok(Exit::Done);
    }
    if look.blueprint.cluster_id.is_none() {
        // Keys must exist, on disk, before the first machine is given an identity that derives from them.
        session = session.with_bundle(new_bundle(&setup, &outside.world, global, printer).await?);
        look = setup.look(&session, printer).await?;
        plan = look.plan();
        refused(&plan)?;
    }
    let change = Change::new(&setup, &outside, &args.change, "apply", printer)?;
    for _ in 0..LOOKS {
        if let Some(outcome) = change.carry_out(&look, &plan).await? {
            if outcome == Outcome::Done {
                write_credentials(global, args, printer)?;
                if !printer.is_json() {
                    let seen = interrupt::unless(setup.look(&session, printer)).await;
                    show_the_end(global, seen.transpose()?.as_ref(), printer);
                }
            }
            return Ok(exit(outcome));
        }
        printer.note("Somebody else had the cluster in between. Looking again.");
        // From the first run on signals are heard, and do not end the program by themselves.
        let Some(seen) = interrupt::unless(setup.look(&session, printer)).await else {
            return Ok(Exit::Interrupted);
        };
        look = seen?;
        let again = look.plan();
        refused(&again)?;
        if let (Some(saved), Some(path)) = (&saved, &args.plan) {
            still_holds(saved, path, &look, &again)?;
        }
        if again.steps.is_empty() {
            printer.plan(&again, Verb::Apply);
            return Ok(Exit::Done);
        }
        if asks && again != plan {
            printer.plan(&again, Verb::Apply);
            let asking = printer.clone();
            let answer = tokio::task::spawn_blocking(move || {
                confirm(&asking, "The plan is another one now. Shall this be done?")
            });
            match interrupt::unless(answer).await {
                Some(answer) => {
                    if !answer.map_err(|e| Problem::of(Exit::Internal, &e))?? {
                        printer.note("Nothing was changed.");
                        return Ok(Exit::Done);
                    }
                }
                None => return Ok(Exit::Interrupted),
            }
        }
        plan = again;
    }
    Err(Problem::new(Exit::Busy, "somebody else changes the cluster again and again").into())
}

/// Takes the cluster away.
pub async fn destroy(global: &Global, args: &ChangeArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_destroy(global, args, printer).await)
}

async fn try_destroy(global: &Global, args: &ChangeArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    setup.place.make()?;
    let _lock = setup.place.lock()?;
    let outside = setup.outside(global)?;
    let session = setup.session(&outside, printer)?;
    let look = setup.look_to_destroy(&session, printer).await?;
    let plan = look.plan_destroy();
    if !printer.is_json() || !plan.refusals.is_empty() || plan.steps.is_empty() {
        printer.plan(&plan, Verb::Destroy);
    }
    if !plan.refusals.is_empty() {
        return Ok(Exit::Refused);
    }
    if plan.steps.is_empty() {
        return Ok(Exit::Done);
    }
    if !args.yes
        && !confirm(printer, &format!("The cluster {} and all its data will be gone.", plan.cluster))?
    {
        printer.note("Nothing was changed.");
        return Ok(Exit::Done);
    }
    let change = Change::new(&setup, &outside, args, "destroy", printer)?;
    if let Some(outcome) = change.carry_out(&look, &plan).await? {
        return Ok(exit(outcome));
    }
    // What shall be destroyed was confirmed by a person who saw another list.
    Err(Problem::new(Exit::Busy, "the cluster was changed by somebody else since it was looked at")
        .remedy("run the command again: it looks again and shows what would be removed")
        .into())
}

/// Every node whose data may be deleted is one of the file's.
pub(super) fn known(args: &AllowArgs, look: &Look) -> Result<(), Problem> {
    match args.allow_destroy.iter().find(|name| !look.blueprint.nodes.contains_key(*name)) {
        None => Ok(()),
        Some(name) => {
            let nodes: Vec<&str> =
                look.blueprint.in_order().into_iter().map(|node| node.name.as_str()).collect();
            let why = format!("`--allow-destroy` names {name}, and the file has no such node");
            Err(Problem::new(Exit::Usage, why).remedy(format!("the nodes are {}", nodes.join(", "))))
        }
    }
}

fn exit(outcome: Outcome) -> Exit {
    match outcome {
        Outcome::Done => Exit::Done,
        Outcome::Failed => Exit::World,
        Outcome::Interrupted => Exit::Interrupted,
    }
}

fn refused(plan: &Plan) -> Result<(), Problem> {
    match plan.refusals.first() {
        Some(refusal) => Err(Problem::new(Exit::Refused, refusal.why.clone()).remedy(refusal.remedy.clone())),
        None => Ok(()),
    }
}

fn read_plan(path: &Path) -> Result<SavedPlan, Problem> {
    let within = |problem: Problem| problem.within(format!("could not use the plan {}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| within(Problem::of(Exit::Input, &e)))?;
    SavedPlan::parse(&text).map_err(|e| {
        within(Problem::of(Exit::Input, &e))
            .remedy("save a new one with `talosmith plan -o FILE`; the cluster file is named with `-f`")
    })
}

/// What a saved plan allows was reviewed with it; what it does not allow was not.
fn reviewed(
    saved: &SavedPlan,
    path: &Path,
    global: &Global,
    args: &AllowArgs,
) -> Result<Vec<String>, Problem> {
    match args.allow_destroy.iter().find(|name| !saved.allowed.contains(*name)) {
        None => Ok(saved.allowed.iter().cloned().collect()),
        Some(name) => {
            let path = path.display();
            let why = format!("the plan {path} was saved without `--allow-destroy {name}`");
            let again = format!("talosmith plan{} --allow-destroy {name} -o {path}", flags(global));
            Err(Problem::new(Exit::Usage, why).remedy(format!("save a new one and look at it: {again}")))
        }
    }
}

/// A saved plan is carried out only in the world that it was made for.
fn still_holds(saved: &SavedPlan, path: &Path, look: &Look, plan: &Plan) -> Result<(), Problem> {
    const SHOWN: usize = 10;
    let differences = saved.differences(look, plan);
    if differences.is_empty() {
        return Ok(());
    }
    let more = differences.len().saturating_sub(SHOWN);
    let mut causes: Vec<String> = differences.into_iter().take(SHOWN).collect();
    if more > 0 {
        causes.push(format!("and {more} more"));
    }
    let mut problem =
        Problem::new(Exit::Refused, format!("the plan {} does not hold any more", path.display()));
    problem.causes.extend(causes);
    Err(problem.remedy("look at what changed, then save a new plan with `talosmith plan -o FILE`"))
}

/// A new bundle, written before it is used.
async fn new_bundle(
    setup: &Setup,
    world: &World,
    global: &Global,
    printer: &Printer,
) -> Result<Bundle, Problem> {
    let identity = setup.place.identity().read_or_make(printer, !global.lab)?;
    printer.note("Making the cluster's secrets.");
    let bundle = make_bundle(&setup.loaded.spec, world.clock.now()).await?;
    let path = setup.place.create_bundle(&bundle, &AtRest::Encrypted(identity.recipients()))?;
    if !global.lab {
        printer.note(&format!("The secrets are in {}, encrypted. Keep that file.", path.display()));
    }
    Ok(bundle)
}

/// What a run needs beside look and plan.
struct Change<'a> {
    place: &'a Place,
    world: &'a World,
    args: &'a ChangeArgs,
    verb: &'a str,
    printer: &'a Printer,
    scrub: Scrub,
}

impl<'a> Change<'a> {
    fn new(
        setup: &'a Setup,
        outside: &'a Outside,
        args: &'a ChangeArgs,
        verb: &'a str,
        printer: &'a Printer,
    ) -> Result<Self, Problem> {
        let mut scrub = setup.place.load_bundle()?.as_ref().map(Scrub::of).unwrap_or_default();
        scrub.add(outside.token.expose_secret());
        Ok(Self { place: &setup.place, world: &outside.world, args, verb, printer, scrub })
    }

    /// Carries out a plan. `None` when the world was looked at before somebody else changed it.
    async fn carry_out(&self, look: &Look, plan: &Plan) -> Result<Option<Outcome>, Problem> {
        let path = self.place.journal();
        let journal = Journal::open(&path).map_err(|e| {
            Problem::of(Exit::World, &e).within(format!("could not open the journal {}", path.display()))
        })?;
        let view = Arc::new(self.printer.run(plan));
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        let listener = {
            let (view, events) = (view.clone(), events.clone());
            Arc::new(move |event: &Event| {
                events.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
                view.see(event);
            })
        };
        let emitter = Emitter::new(self.world.clock.clone(), plan, Some(journal), listener);
        let operator = self.place.operator(self.args.take_over)?;
        let (wish, stop) = watch::channel(Stop::No);
        let run =
            Run { world: self.world, look, operator: &operator, stop, emitter: &emitter, verb: self.verb };
        let outcome = tokio::select! {
            biased;
            outcome = engine::apply::run(run, plan) => outcome,
            never = view.ticking(&self.world.clock) => match never {},
            never = interrupt::wishes(wish) => match never {},
        };
        if outcome.as_ref().is_err_and(|error| error.kind() == Kind::Stale) {
            return Ok(None);
        }
        view.finish();
        if let Some(why) = emitter.journal_failure() {
            self.printer.note(&format!("The journal {} is not complete: {why}.", path.display()));
        }
        if let Ok(Outcome::Failed) = outcome {
            let events = std::mem::take(&mut *events.lock().unwrap_or_else(PoisonError::into_inner));
            self.report(look, &events).await;
        }
        outcome.map(Some).map_err(|e| Problem::from(&e))
    }

    /// Gathers what is needed to understand a failure. That it cannot be had is no reason to end in another way.
    async fn report(&self, look: &Look, events: &[Event]) {
        let journal = self.place.journal();
        let failed = Failed { world: self.world, look, events, journal: &journal, scrub: &self.scrub };
        match interrupt::unless(report::write(self.place.folder(), &failed)).await {
            Some(Ok(path)) => self.printer.note(&format!(
                "What is needed to understand this is in {} (logs of Proxmox and of the machines, without secrets).",
                path.display()
            )),
            Some(Err(error)) => self.printer.note(&format!("A report could not be written: {error}.")),
            None => {}
        }
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

/// How it is now, and what to type next.
fn show_the_end(global: &Global, look: Option<&Look>, printer: &Printer) {
    let Some(look) = look else { return };
    printer.say("");
    printer.status(&look.blueprint, &look.observed, &look.plan());
    next(global, look, printer);
}

/// How it is, in a few words. Nothing is said to be well that was not seen to be.
fn state(look: &Look) -> &'static str {
    let (blueprint, seen) = (&look.blueprint, &look.observed.kubernetes);
    if !seen.answered {
        return "is as the file says, but Kubernetes did not answer at the end. `talosmith health` looks again";
    }
    let nodes = || blueprint.nodes.keys().map(|name| seen.nodes.get(name));
    let unready = nodes().any(|node| node.is_none_or(|node| !node.ready));
    let network = blueprint.awaits_network() && unready;
    let provider = blueprint.awaits_cloud_provider() && nodes().flatten().any(|node| node.uninitialized);
    match (network, provider) {
        (false, false) if unready => {
            "is as the file says, but not every node is ready. `talosmith health` says what is missing"
        }
        (false, false) => "is healthy",
        (true, false) => "is up, and waits for a network plug-in. Install one, or name it under `manifests`",
        (false, true) => "is up, and waits for its cloud provider. Install it, or name its `version`",
        (true, true) => "is up, and waits for a network plug-in and its cloud provider, which you install",
    }
}

/// What to type next.
fn next(global: &Global, look: &Look, printer: &Printer) {
    let flags = flags(global);
    let blueprint = &look.blueprint;
    printer.say(&format!("\nThe cluster {} {}. Next:\n", blueprint.cluster, state(look)));
    let mut lines = vec![
        (format!("talosmith status{flags}"), "how it is"),
        (format!("talosmith plan{flags}"), "after a change of the file: what would be done"),
    ];
    if global.lab {
        lines.push((format!("talosmith destroy{flags}"), "take it away again"));
        lines.push((
            format!("talosmith lab up{}", flags.trim_end_matches(" --lab")),
            "serve a lab for kubectl, talosctl or curl",
        ));
    } else {
        lines.push((
            format!("talosmith kubeconfig{flags} -o kubeconfig"),
            "then: kubectl --kubeconfig kubeconfig get nodes",
        ));
    }
    printer.commands(&lines);
}
