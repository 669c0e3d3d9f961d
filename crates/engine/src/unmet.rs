//! What is still missing while something is waited for: words for people, and a word for programs should it never come.

use std::time::Duration;

use jiff::Timestamp;

use crate::error::machine_code;
use crate::kubernetes::Kubernetes;
use crate::kubernetes::stuck::Stuck;
use crate::systems::Systems;

/// The code of what just did not come.
const LATE: &str = "timed-out";
/// The code of a pod that does not come up.
const POD: &str = "pod-stuck";
/// Where the pods are that nodes wait for.
const NAMESPACE: &str = "kube-system";
/// So long nodes usually wait for pods; before that, Talosmith does not ask why.
const USUAL: Duration = Duration::from_secs(45);
/// So long a pod may be stuck before Talosmith stops waiting for it. Images are pulled again at growing intervals, five of them
/// within this time.
const HOPE: Duration = Duration::from_secs(5 * 60);
/// So long a program that fails may seem to run.
const A_MOMENT: Duration = Duration::from_secs(60);

/// Something that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unmet {
    /// For people.
    pub words: String,
    /// For programs, as [`crate::error::Error::code`] gives it.
    pub code: &'static str,
    /// Whether a machine is there that keeps its port closed.
    pub closed_port: bool,
}

impl Unmet {
    /// Something that just did not come yet.
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self { words: words.into(), code: LATE, closed_port: false }
    }

    /// Whether it is known why it does not come.
    pub(crate) fn is_explained(&self) -> bool {
        self.code != LATE
    }

    /// Gives it a code of its own.
    pub(crate) fn coded(self, code: &'static str) -> Self {
        Self { code, ..self }
    }

    /// A machine that did not do what it was asked, in these words.
    pub(crate) fn of_machine(words: impl Into<String>, error: &talos_client::Error) -> Self {
        let closed_port = error.io_kind() == Some(std::io::ErrorKind::ConnectionRefused);
        Self { words: words.into(), code: machine_code(error.kind()), closed_port }
    }
}

/// Waits for something that a pod must bring, and finds out when that pod does not come up. Of all pods those count that are on
/// the node that is waited for, that install a chart of ours, or that are a cloud provider's: the others may be stuck for years.
#[derive(Debug, Default)]
pub(crate) struct PodWatch {
    node: Option<String>,
    waits_since: Option<Timestamp>,
    /// Since when a pod is stuck, when that was last seen, and what it said.
    stuck: Option<(Timestamp, Timestamp, String)>,
}

impl PodWatch {
    /// Waits for this node.
    pub(crate) fn of(node: &str) -> Self {
        Self { node: Some(node.to_owned()), ..Self::default() }
    }

    fn concerns(&self, stuck: &Stuck) -> bool {
        stuck.name.starts_with("helm-")
            || stuck.name.contains("cloud-controller-manager")
            || (self.node.is_some() && stuck.node == self.node)
    }

    /// What is missing, with what a stuck pod says, should there be one.
    pub(crate) async fn explain(
        &mut self,
        systems: &Systems,
        kubernetes: &Kubernetes,
        unmet: Unmet,
    ) -> Unmet {
        let now = systems.clock.now();
        let since = *self.waits_since.get_or_insert(now);
        if elapsed(since, now) < USUAL {
            return unmet;
        }
        // Where Kubernetes does not answer, what was known before is not less true.
        let Ok(found) = kubernetes.stuck(NAMESPACE).await else { return unmet };
        if let Some(found) = found.into_iter().find(|found| self.concerns(found)) {
            let started = self.stuck.as_ref().map_or(now, |(started, ..)| *started);
            // Where there is no further attempt, waiting does not help.
            let started = if found.given_up { now.checked_sub(HOPE).unwrap_or(started) } else { started };
            self.stuck = Some((started, now, found.to_string()));
        }
        // A program that fails again and again runs for a moment in between.
        self.stuck = self.stuck.take().filter(|(_, seen, _)| elapsed(*seen, now) < A_MOMENT);
        match &self.stuck {
            Some((.., said)) => {
                Unmet { words: format!("{}; {said} in {NAMESPACE}", unmet.words), code: POD, ..unmet }
            }
            None => unmet,
        }
    }

    /// Nothing of that sort is missing any more.
    pub(crate) fn nothing_missing(&mut self) {
        *self = Self { node: self.node.take(), ..Self::default() };
    }

    /// Whether a pod is stuck for so long that waiting does not help.
    pub(crate) fn is_hopeless(&self, systems: &Systems) -> bool {
        self.stuck.as_ref().is_some_and(|(started, ..)| elapsed(*started, systems.clock.now()) >= HOPE)
    }
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    to.duration_since(from).try_into().unwrap_or_default()
}
