//! A machine that should answer and does not: its power, its certificate, its console.

use jiff::{SignedDuration, Timestamp};
use model::blueprint::{Node, Role};

use crate::context::Context;
use crate::error::Result;
use crate::power::{PowerWatch, USUAL_BOOT};
use crate::proof::Prover;
use crate::steps::signing;
use crate::unmet::Unmet;

/// A machine that is silent for so long may have trouble to boot, which only its console shows.
const CONSOLE_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Since when nothing is heard, and what else is known.
pub(super) struct Silence<'a> {
    context: &'a Context,
    node: &'a Node,
    since: Option<Timestamp>,
    power: PowerWatch,
    prover: Option<Prover<'a>>,
}

impl<'a> Silence<'a> {
    pub(super) fn new(context: &'a Context, node: &'a Node) -> Self {
        Self { context, node, since: None, power: PowerWatch::default(), prover: None }
    }

    /// The machine answers. A VM has one console, so this one is closed for those who need it.
    pub(super) fn ends(&mut self) {
        *self = Self::new(self.context, self.node);
    }

    /// Does `work`, and reads the console meanwhile, if it is open.
    pub(super) async fn during<F: Future>(&mut self, work: F) -> F::Output {
        match &mut self.prover {
            Some(prover) => prover.during(work).await,
            None => work.await,
        }
    }

    fn lasts(&self) -> SignedDuration {
        let now = self.context.systems.clock.now();
        self.since.map_or(SignedDuration::ZERO, |since| now.duration_since(since))
    }

    /// Whether a machine that boots would have answered by now.
    pub(super) fn was_long(&self) -> bool {
        self.lasts() > USUAL_BOOT.try_into().unwrap_or(SignedDuration::MAX)
    }

    /// Why it does not answer.
    ///
    /// # Errors
    ///
    /// When it never will.
    pub(super) async fn explain(&mut self, unmet: Unmet) -> Result<Unmet> {
        self.since.get_or_insert(self.context.systems.clock.now());
        if let Some(off) = self.power.observe(self.context, self.node).await? {
            return Ok(off);
        }
        // A worker's port stays closed until a control plane node signs its certificate; one that answered has it.
        let is_unsigned = self.node.role == Role::Worker
            && unmet.closed_port
            && self.context.unproved().contains(&self.node.name);
        let unmet = match is_unsigned {
            true => match self.context.no_control_plane() {
                Some(why) => return Err(signing::never(self.node, &why)),
                None => Box::pin(signing::unsigned(self.context, unmet)).await,
            },
            false => Unmet { words: format!("does not answer ({})", unmet.words), ..unmet },
        };
        if self.lasts() >= CONSOLE_AFTER && !self.node.external {
            let prover = self.prover.get_or_insert_with(|| Prover::new(self.context, self.node));
            prover.watch_if_free().await;
            prover.panics()?;
            return Ok(Unmet { words: format!("{}{}", unmet.words, prover.last_words()), ..unmet });
        }
        Ok(unmet)
    }
}
