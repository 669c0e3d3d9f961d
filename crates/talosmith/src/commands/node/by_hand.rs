//! What a person does with single nodes, through the same loop, lease and gate as `apply`.

use engine::reconcile::{Intent, Reconciled};
use model::allowed::Allowed;
use model::names::NodeName;
use model::plan::by_hand::{ByHand, Hand};

use crate::args::{DisruptArgs, Global};
use crate::commands::change::Change;
use crate::commands::setup::{Setup, Wrong, ended};
use crate::exit::Exit;
use crate::view::{Printer, Problem, Verb};

/// Plans, shows, asks and does it.
pub async fn by_hand(
    global: &Global,
    hand: Hand,
    args: &DisruptArgs,
    printer: &Printer,
) -> Result<Exit, Problem> {
    ended(try_by_hand(global, hand, args, printer).await)
}

async fn try_by_hand(
    global: &Global,
    hand: Hand,
    args: &DisruptArgs,
    printer: &Printer,
) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    setup.place.make()?;
    let _lock = setup.place.lock()?;
    let outside = setup.outside(global).await?;
    let allowed =
        Allowed { api_outage: args.allow_api_outage, outside_window: args.now, ..Allowed::default() };
    let session = setup.session(&outside, printer)?.allowing(allowed);
    let asked = ByHand { hand, nodes: args.nodes.nodes.iter().map(NodeName::from).collect() };
    let (change, mandate) = (&args.nodes.change, args.nodes.change.mandate());
    let change = Change { global, setup: &setup, outside: &outside, args: change, printer };
    let reconciled = change.reconcile(session, Intent::ByHand(asked), mandate, args.timeout).await?;
    let Reconciled { ended, runs, last } = reconciled;
    change.exit(ended, runs, last.as_ref().map(|(_, plan)| plan), Verb::ByHand(hand))
}
