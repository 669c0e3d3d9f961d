//! `apply` and `destroy`: the commands that change the world.

use std::sync::Arc;

use engine::apply::{Run, Stop};
use engine::emit::Emitter;
use engine::journal::Journal;
use engine::{Look, Session, World};
use model::event::Outcome;
use model::plan::Plan;
use talos::config::Contract;
use talos::secrets::Bundle;
use tokio::sync::watch;

use super::setup::{Setup, Wrong, confirm, ended};
use crate::args::{ChangeArgs, Global};
use crate::exit::Exit;
use crate::place::Place;
use crate::view::{Printer, Problem, Verb};

/// Makes the cluster what the file says.
pub async fn apply(global: &Global, args: &ChangeArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_apply(global, args, printer).await)
}

async fn try_apply(global: &Global, args: &ChangeArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    setup.place.make()?;
    let _lock = setup.place.lock()?;
    let outside = setup.outside(global)?;
    let mut session =
        Session::new(outside.world.clone(), setup.loaded.spec.clone(), setup.place.load_bundle()?);
    let mut look = setup.look(&session, printer).await?;
    let mut plan = look.plan();
    if !printer.is_json() || !plan.refusals.is_empty() || plan.steps.is_empty() {
        printer.plan(&plan, Verb::Apply);
    }
    if !plan.refusals.is_empty() {
        return Ok(Exit::Refused);
    }
    if plan.steps.is_empty() {
        return Ok(Exit::Done);
    }
    if !args.yes && !confirm(printer, "Shall this be done?")? {
        printer.note("Nothing was changed.");
        return Ok(Exit::Done);
    }
    if look.blueprint.cluster_id.is_none() {
        // Keys must exist, on disk, before the first machine is given an identity that derives from them.
        session = session.with_bundle(new_bundle(&setup, &outside.world, global, printer).await?);
        look = setup.look(&session, printer).await?;
        plan = look.plan();
        if let Some(refusal) = plan.refusals.first() {
            return Err(Problem::new(Exit::Refused, refusal.why.clone())
                .remedy(refusal.remedy.clone())
                .into());
        }
    }
    let outcome = carry_out(&setup.place, &outside.world, &look, &plan, args, "apply", printer).await?;
    if outcome == Outcome::Done && !printer.is_json() {
        let look = setup.look(&session, printer).await?;
        printer.say("");
        printer.status(&look.blueprint, &look.observed, &look.plan().notices);
        next(global, &look, printer);
    }
    Ok(exit(outcome))
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
    let session = Session::new(outside.world.clone(), setup.loaded.spec.clone(), setup.place.load_bundle()?);
    let look = setup.look(&session, printer).await?;
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
    let outcome = carry_out(&setup.place, &outside.world, &look, &plan, args, "destroy", printer).await?;
    Ok(exit(outcome))
}

fn exit(outcome: Outcome) -> Exit {
    match outcome {
        Outcome::Done => Exit::Done,
        Outcome::Failed => Exit::World,
        Outcome::Interrupted => Exit::Interrupted,
    }
}

/// A new bundle, made beside other work because its RSA key takes seconds, and written before it is used.
async fn new_bundle(
    setup: &Setup,
    world: &World,
    global: &Global,
    printer: &Printer,
) -> Result<Bundle, Problem> {
    let store = setup.place.new_store(printer, !global.lab)?;
    printer.note("Making the cluster's secrets.");
    let contract = Contract::parse(&setup.loaded.spec.versions.talos)
        .map_err(|e| Problem::of(Exit::Input, &e).within("could not make the cluster's secrets"))?;
    let now = world.clock.now();
    let made = tokio::task::spawn_blocking(move || Bundle::generate(contract, now)).await;
    let bundle = made
        .map_err(|e| Problem::of(Exit::Internal, &e).within("could not make the cluster's secrets"))?
        .map_err(|e| Problem::of(Exit::Secrets, &e).within("could not make the cluster's secrets"))?;
    store.create(&bundle).map_err(|e| Problem::from(&e))?;
    if !global.lab {
        printer.note(&format!("The secrets are in {}, encrypted. Keep that file.", store.path().display()));
    }
    Ok(bundle)
}

async fn carry_out(
    place: &Place,
    world: &World,
    look: &Look,
    plan: &Plan,
    args: &ChangeArgs,
    verb: &str,
    printer: &Printer,
) -> Result<Outcome, Problem> {
    let journal = Journal::open(&place.journal()).map_err(|e| {
        Problem::of(Exit::World, &e)
            .within(format!("could not open the journal {}", place.journal().display()))
    })?;
    let view = Arc::new(printer.run(plan));
    let listener = {
        let view = view.clone();
        Arc::new(move |event: &model::event::Event| view.see(event))
    };
    let emitter = Emitter::new(world.clock.clone(), plan, Some(journal), listener);
    let operator = place.operator(args.take_over)?;
    let (wish, stop) = watch::channel(Stop::No);
    let run = Run { world, look, operator: &operator, stop, emitter: &emitter, verb };
    let outcome = tokio::select! {
        biased;
        outcome = engine::apply::run(run, plan) => outcome,
        never = view.ticking(&world.clock) => match never {},
        never = interrupts(wish) => match never {},
    };
    view.finish();
    if let Some(why) = emitter.journal_failure() {
        printer.note(&format!("The journal {} is not complete: {why}.", place.journal().display()));
    }
    outcome.map_err(|e| Problem::from(&e))
}

/// Turns Ctrl-C into the wish to stop: gently at first, at once the second time.
async fn interrupts(wish: watch::Sender<Stop>) -> std::convert::Infallible {
    for stop in [Stop::Gently, Stop::Now] {
        if tokio::signal::ctrl_c().await.is_err() {
            break;
        }
        wish.send_replace(stop);
    }
    std::future::pending().await
}

/// What to type next.
fn next(global: &Global, look: &Look, printer: &Printer) {
    let mut flags = String::new();
    for file in global.files.iter().filter(|f| f.as_os_str() != "cluster.yaml") {
        flags.push_str(&format!(" -f {}", file.display()));
    }
    if global.lab {
        flags.push_str(" --lab");
    }
    printer.say(&format!("\nThe cluster {} is healthy. Next:\n", look.blueprint.cluster));
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
    let width = lines.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    for (command, what) in lines {
        printer.say(&format!("  {command:width$}   {what}"));
    }
}
