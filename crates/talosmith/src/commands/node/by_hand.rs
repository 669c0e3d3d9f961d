//! What a person does with single nodes or with a Proxmox host, through the same loop, lease and gate as `apply`.

use std::time::Duration;

use engine::reconcile::{Intent, Reconciled};
use model::allowed::Allowed;
use model::plan::by_hand::{ByHand, Hand};

use crate::args::{ChangeArgs, Deletion, DisruptArgs, Global, HostArgs, ReplaceArgs};
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
    let asked = ByHand::of(hand, &args.nodes.nodes);
    let request =
        Request { asked, allowed: allowed(args), change: &args.nodes.change, timeout: args.timeout };
    ended(request.run(global, printer).await)
}

/// The same for nodes that are replaced.
pub async fn replace(global: &Global, args: &ReplaceArgs, printer: &Printer) -> Result<Exit, Problem> {
    let ReplaceArgs { nodes, force, allow_destroy } = args;
    let asked = ByHand { force: *force, ..ByHand::of(Hand::Replace, &nodes.nodes.nodes) };
    let mut allowed = allowed(nodes);
    Deletion::allow(allow_destroy, &mut allowed);
    let request = Request { asked, allowed, change: &nodes.nodes.change, timeout: nodes.timeout };
    ended(request.run(global, printer).await)
}

/// The same for a Proxmox host.
pub async fn host(global: &Global, hand: Hand, args: &HostArgs, printer: &Printer) -> Result<Exit, Problem> {
    let allowed =
        Allowed { api_outage: args.allow_api_outage, outside_window: args.now, ..Allowed::default() };
    let asked = ByHand::of_host(hand, &args.host);
    let request = Request { asked, allowed, change: &args.change, timeout: args.timeout };
    ended(request.run(global, printer).await)
}

fn allowed(args: &DisruptArgs) -> Allowed {
    Allowed { api_outage: args.allow_api_outage, outside_window: args.now, ..Allowed::default() }
}

/// What is asked for, and how.
struct Request<'a> {
    asked: ByHand,
    allowed: Allowed,
    change: &'a ChangeArgs,
    timeout: Option<Duration>,
}

impl Request<'_> {
    async fn run(self, global: &Global, printer: &Printer) -> Result<Exit, Wrong> {
        let setup = Setup::new(global, printer)?;
        setup.place.make()?;
        let _lock = setup.place.lock()?;
        let outside = setup.outside(global).await?;
        let session = setup.session(&outside, printer)?.allowing(self.allowed);
        let (hand, mandate) = (self.asked.hand, self.change.mandate());
        let change = Change { global, setup: &setup, outside: &outside, args: self.change, printer };
        let reconciled = change.reconcile(session, Intent::ByHand(self.asked), mandate, self.timeout).await?;
        let Reconciled { ended, runs, last } = reconciled;
        change.exit(ended, runs, last.as_ref().map(|(_, plan)| plan), Verb::ByHand(hand))
    }
}
