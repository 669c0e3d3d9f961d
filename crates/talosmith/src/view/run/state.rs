//! Events folded into what a person wants to know: where each node is, what failed, where the time went.
//!
//! The fold starts with the plan, so it knows every line there will be, in order, before anything happens. It reads no
//! clock: time passes with the events, or when `tick` says so.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::event::{Event, Outcome, What};
use model::natural;
use model::plan::Plan;
use model::step::{Action, Step, StepId};

use super::super::ink::{clean, count};
use super::words;

/// A run as far as it has come.
pub struct RunState {
    cluster: String,
    steps: Vec<Step>,
    /// Where each step stands in `steps`.
    places: BTreeMap<StepId, usize>,
    /// The nodes in order, each with its steps.
    nodes: Vec<(String, Vec<usize>)>,
    progress: BTreeMap<StepId, Progress>,
    began: Option<Timestamp>,
    now: Option<Timestamp>,
    failures: Vec<Failure>,
    warnings: Vec<String>,
    /// What is waited for before the first step.
    aside: Option<String>,
    /// What the run is for.
    verb: Option<String>,
    interrupted: bool,
    /// Another operator is changing the cluster.
    busy: bool,
    /// A machine did not prove who it is.
    unproved: bool,
    /// The plan was saved in a file, and does not match any more once a step is done.
    pub saved: bool,
    ended: Option<(Outcome, u64)>,
}

/// How far a step has come. One without an entry has not started.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    /// It is the first of its unit, and the gate has not opened yet.
    AtGate {
        since: Timestamp,
        note: String,
    },
    Running {
        since: Timestamp,
        note: String,
        percent: Option<u8>,
    },
    Done {
        at: Timestamp,
        millis: u64,
    },
    Failed {
        cause: String,
    },
    /// It still waited when the time that the operator gave was over.
    Unfinished,
    Skipped {
        because: StepId,
    },
}

/// A step that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What `talosmith explain` knows it by.
    pub code: String,
    /// What went wrong, outermost first.
    pub causes: Vec<String>,
    /// What to do about it.
    pub hint: String,
}

impl Failure {
    /// Whether it only was not done when the time that the operator gave was over.
    fn is_late(&self) -> bool {
        self.code == words::LATE
    }
}

/// Numbers of steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// In the plan.
    pub total: usize,
    /// Done and verified.
    pub done: usize,
    /// Those that failed.
    pub failed: usize,
    /// Those that were started, and neither done nor failed when the run ended.
    pub unfinished: usize,
}

/// One line of the live view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Whose line it is: the cluster's, an image's, a node's.
    pub name: String,
    /// How it stands.
    pub sign: Sign,
    /// What it is at.
    pub text: String,
    /// For how long, in milliseconds.
    pub millis: Option<u64>,
    /// How much of a download is done.
    pub percent: Option<u8>,
}

/// How a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// Not started.
    Waiting,
    /// At work.
    Working,
    /// Finished well.
    Done,
    /// Failed, or kept from beginning by a failure.
    Failed,
}

impl RunState {
    /// A run that has not started.
    pub fn new(plan: &Plan) -> Self {
        let mut nodes: Vec<(String, Vec<usize>)> = vec![];
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, step) in plan.steps.iter().enumerate() {
            let Some(node) = step.action.node() else { continue };
            let place = *known.entry(node).or_insert_with(|| {
                nodes.push((node.to_owned(), vec![]));
                nodes.len() - 1
            });
            nodes[place].1.push(at);
        }
        Self {
            cluster: plan.cluster.clone(),
            places: plan.steps.iter().enumerate().map(|(at, step)| (step.id.clone(), at)).collect(),
            nodes,
            steps: plan.steps.clone(),
            progress: BTreeMap::new(),
            began: None,
            now: None,
            failures: vec![],
            warnings: vec![],
            aside: None,
            verb: None,
            interrupted: false,
            busy: false,
            unproved: false,
            saved: false,
            ended: None,
        }
    }

    /// Takes an event in.
    pub fn see(&mut self, event: &Event) {
        self.tick(event.at);
        self.busy |= event.what.is_busy();
        match &event.what {
            What::Started { verb, .. } => {
                self.verb = Some(verb.clone());
                self.began = Some(event.at);
                self.aside = None;
            }
            What::StepStarted { step, .. } => {
                let running = Progress::Running { since: event.at, note: String::new(), percent: None };
                self.progress.insert(step.clone(), running);
            }
            // What is said of the lease after a request to stop, or at the end of the time, is about what stays.
            What::StepProgress { step, note, .. }
                if !self.places.contains_key(step) && (self.interrupted || self.is_late()) =>
            {
                self.warnings.push(clean(note).into_owned());
            }
            What::StepProgress { step, note: new, percent: part, .. } => match self.progress.get_mut(step) {
                Some(Progress::Running { note, percent, .. }) => {
                    *note = clean(new).into_owned();
                    *percent = part.or(*percent);
                }
                Some(Progress::AtGate { note, .. }) => *note = clean(new).into_owned(),
                Some(_) => {}
                None if self.places.contains_key(step) => {
                    let at_gate = Progress::AtGate { since: event.at, note: clean(new).into_owned() };
                    self.progress.insert(step.clone(), at_gate);
                }
                None => self.aside = Some(clean(new).into_owned()),
            },
            What::StepDone { step, millis, warnings, .. } => {
                let title = self.title(step);
                self.warnings.extend(warnings.iter().map(|warning| format!("{title}: {warning}")));
                self.progress.insert(step.clone(), Progress::Done { at: event.at, millis: *millis });
            }
            What::StepFailed { step, causes, hint, code, .. } => {
                let cause = causes.last().map(|cause| clean(cause).into_owned()).unwrap_or_default();
                self.unproved |= code == "machine-identity";
                let failure = Failure { code: code.clone(), causes: causes.clone(), hint: hint.clone() };
                let is_late = failure.is_late();
                self.failures.push(failure);
                // The lease, and the time itself, are no steps of the plan.
                if self.places.contains_key(step) {
                    let end = if is_late { Progress::Unfinished } else { Progress::Failed { cause } };
                    self.progress.insert(step.clone(), end);
                }
            }
            What::StepSkipped { step, because, .. } => {
                self.progress.insert(step.clone(), Progress::Skipped { because: because.clone() });
            }
            What::Approved { .. }
            | What::UnitStarted { .. }
            | What::UnitVerified { .. }
            | What::UnitFailed { .. }
            | What::Waiting { .. } => {}
            What::Interrupted => self.interrupted = true,
            What::Ended { outcome, millis } => self.ended = Some((*outcome, *millis)),
        }
    }

    /// Time passes. It never goes back.
    pub fn tick(&mut self, now: Timestamp) {
        self.now = self.now.max(Some(now));
    }

    /// The cluster's name.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The width of the longest name that a line starts with.
    pub fn widest_node(&self) -> usize {
        let nodes = self.nodes.iter().map(|(node, _)| node.as_str());
        nodes.chain([self.cluster.as_str()]).map(|name| name.chars().count()).max().unwrap_or(0)
    }

    /// How it ended and how long it took, in milliseconds.
    pub fn ended(&self) -> Option<(Outcome, u64)> {
        self.ended
    }

    /// What failed, in the order in which it did.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// Whether anything failed.
    pub fn has_failures(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Whether nothing failed, and only the time that the operator gave was over.
    pub fn is_late(&self) -> bool {
        self.has_failures() && self.failures.iter().all(Failure::is_late)
    }

    /// Whether it failed because another operator is changing the cluster.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// What a run that went well is called.
    pub fn completed(&self) -> String {
        let verb = self.verb.as_deref().unwrap_or("apply");
        let (first, rest) = verb.split_at_checked(1).unwrap_or((verb, ""));
        format!("{}{} complete", first.to_uppercase(), rest.replace('-', " "))
    }

    /// Whether a machine did not prove who it is, so that a person looks before the next run.
    pub fn is_unproved(&self) -> bool {
        self.unproved
    }

    /// What the run waits for at this moment: the step that runs longest. Nothing where nothing runs.
    pub fn waiting(&self) -> Option<What> {
        if self.ended.is_some() {
            return None;
        }
        let running = self.steps.iter().filter_map(|step| match self.progress.get(&step.id) {
            Some(Progress::Running { since, note, .. } | Progress::AtGate { since, note }) => {
                Some((*since, step, note))
            }
            _ => None,
        });
        let running: Vec<_> = running.collect();
        let others = running.len().saturating_sub(1);
        match running.into_iter().min_by_key(|(since, ..)| *since) {
            Some((since, step, note)) => Some(What::Waiting {
                step: step.id.clone(),
                node: step.action.node().map(str::to_owned),
                note: note.clone(),
                millis: self.since(since),
                others,
            }),
            None => self.aside.clone().map(|note| What::Waiting {
                step: StepId(String::from("lease")),
                node: None,
                note,
                millis: 0,
                others: 0,
            }),
        }
    }

    /// What the systems warned of.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How many steps came how far.
    pub fn counts(&self) -> Counts {
        let number = |is: fn(&Progress) -> bool| self.progress.values().filter(|p| is(p)).count();
        Counts {
            total: self.steps.len(),
            done: number(|p| matches!(p, Progress::Done { .. })),
            failed: number(|p| matches!(p, Progress::Failed { .. })),
            unfinished: number(|p| matches!(p, Progress::Unfinished | Progress::Running { .. })),
        }
    }

    /// Since the beginning, in milliseconds.
    pub fn elapsed(&self) -> u64 {
        self.began.map_or(0, |began| self.since(began))
    }

    /// The longest steps on the chain that decided how long the run took, with milliseconds, longest first. Those that were
    /// at work when it was stopped count, too; those that took next to nothing do not.
    ///
    /// The chain is found from its end: before each step, the one that it waited for longest.
    pub fn longest(&self, number: usize) -> Vec<(String, u64)> {
        let done = |id: &StepId| match self.progress.get(id) {
            Some(Progress::Done { at, millis }) => Some((*at, *millis)),
            Some(Progress::Running { since, .. }) => Some((self.now?, self.since(*since))),
            _ => None,
        };
        let mut last = self
            .steps
            .iter()
            .filter_map(|step| Some((done(&step.id)?.0, step)))
            .max_by(|a, b| {
                // Of those that were stopped at one moment, the one that had been at it longest.
                let began = |(at, step): &(Timestamp, &Step)| (*at, done(&step.id).map(|(_, millis)| millis));
                began(a).cmp(&began(b)).then_with(|| b.1.id.cmp(&a.1.id))
            })
            .map(|(_, step)| step);
        let mut chain = vec![];
        while let Some(step) = last {
            let millis = done(&step.id).map_or(0, |(_, millis)| millis);
            chain.push((step.action.describe(), millis));
            let before = step.after.iter().filter_map(|id| Some((done(id)?.0, id))).max();
            last = before.and_then(|(_, id)| self.step(id));
        }
        chain.sort_by_key(|(_, millis)| std::cmp::Reverse(*millis));
        let least = self.ended.map_or_else(|| self.elapsed(), |(_, millis)| millis) / 20;
        chain.retain(|(_, millis)| *millis > least);
        chain.truncate(number);
        chain
    }

    /// Every line of the live view, always as many and in the same order.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = vec![self.cluster_row()];
        let mut downloads: Vec<Row> = self.steps.iter().filter_map(|step| self.download_row(step)).collect();
        downloads.sort_by(|a, b| natural::compare(&a.name, &b.name));
        rows.extend(downloads);
        rows.extend(self.nodes.iter().map(|(node, steps)| self.node_row(node, steps)));
        if self.ended.is_some() {
            // What was stopped in the middle is not at work any more.
            rows.iter_mut().filter(|row| row.sign == Sign::Working).for_each(|row| row.sign = Sign::Waiting);
        }
        rows
    }

    fn cluster_row(&self) -> Row {
        let counts = self.counts();
        let mut text = format!("{} of {}", counts.done, count(counts.total, "step"));
        let own = self.steps.iter().filter(|s| s.action.node().is_none() && !is_download(&s.action));
        for step in own {
            if let Some(Progress::Running { note, .. }) = self.progress.get(&step.id) {
                text = format!("{text}, {}", words::doing_with(&step.action, note));
            }
        }
        if let Some(aside) = &self.aside {
            text = aside.clone();
        }
        if self.interrupted && self.ended.is_none() {
            text = format!("stopping, {text}");
        }
        let sign = match self.ended {
            Some((Outcome::Done, _)) => Sign::Done,
            Some((Outcome::Failed | Outcome::Interrupted, _)) => Sign::Failed,
            None if self.began.is_some() => Sign::Working,
            None => Sign::Waiting,
        };
        let millis = self.began.map(|_| self.elapsed());
        Row { name: self.cluster.clone(), sign, text, millis, percent: None }
    }

    fn download_row(&self, step: &Step) -> Option<Row> {
        let Action::DownloadImage { host, datastore, .. } = &step.action else { return None };
        let mut row = self.row(format!("{host}:{datastore}"), step);
        row.percent = match self.progress.get(&step.id) {
            Some(Progress::Running { percent, .. }) => Some(percent.unwrap_or(0).min(100)),
            Some(Progress::Done { .. }) => Some(100),
            _ => None,
        };
        Some(row)
    }

    /// A node stands where its most telling step does: one that failed, one at work, the next to come, the last.
    fn node_row(&self, node: &str, steps: &[usize]) -> Row {
        let steps: Vec<&Step> = steps.iter().map(|at| &self.steps[*at]).collect();
        let at = |is: fn(Option<&Progress>) -> bool| {
            steps.iter().copied().find(|step| is(self.progress.get(&step.id)))
        };
        let telling = at(|p| matches!(p, Some(Progress::Failed { .. } | Progress::Unfinished)))
            .or_else(|| at(|p| matches!(p, Some(Progress::Running { .. } | Progress::AtGate { .. }))))
            .or_else(|| at(|p| matches!(p, Some(Progress::Skipped { .. }))))
            .or_else(|| at(|p| p.is_none()))
            .or_else(|| steps.last().copied());
        match telling {
            Some(step) => self.row(node.to_owned(), step),
            None => Row {
                name: node.to_owned(),
                sign: Sign::Waiting,
                text: String::new(),
                millis: None,
                percent: None,
            },
        }
    }

    fn row(&self, name: String, step: &Step) -> Row {
        let (sign, text, millis) = match self.progress.get(&step.id) {
            None => (Sign::Waiting, self.waits_for(step), None),
            Some(Progress::AtGate { since, note }) => {
                (Sign::Waiting, format!("waiting: {note}"), Some(self.since(*since)))
            }
            Some(Progress::Running { since, note, .. }) => {
                (Sign::Working, words::doing_with(&step.action, note), Some(self.since(*since)))
            }
            Some(Progress::Done { at, .. }) => {
                let whole = self.began.map(|began| millis_between(began, *at));
                (Sign::Done, words::done(&step.action).to_owned(), whole)
            }
            Some(Progress::Failed { cause }) => {
                (Sign::Failed, format!("{} failed: {cause}", words::doing(&step.action)), None)
            }
            Some(Progress::Unfinished) => {
                (Sign::Waiting, format!("{}, not finished in time", words::doing(&step.action)), None)
            }
            Some(Progress::Skipped { because }) => (
                Sign::Failed,
                format!("not started, because this did not succeed: {}", self.title(because)),
                None,
            ),
        };
        Row { name, sign, text, millis, percent: None }
    }

    /// What a step that has not started is waiting for.
    fn waits_for(&self, step: &Step) -> String {
        let open = |id: &&StepId| !matches!(self.progress.get(*id), Some(Progress::Done { .. }));
        match step.after.iter().find(open) {
            Some(before) => format!("waits for: {}", self.title(before)),
            None => "not started".to_owned(),
        }
    }

    /// Whether a step waits for the gate to open.
    pub fn is_at_gate(&self, id: &StepId) -> bool {
        matches!(self.progress.get(id), Some(Progress::AtGate { .. }))
    }

    /// What a step does, for people.
    pub fn title(&self, id: &StepId) -> String {
        self.step(id).map_or_else(|| id.to_string(), |step| step.action.describe())
    }

    /// The step of that name.
    pub fn step(&self, id: &StepId) -> Option<&Step> {
        self.places.get(id).map(|at| &self.steps[*at])
    }

    fn since(&self, then: Timestamp) -> u64 {
        self.now.map_or(0, |now| millis_between(then, now))
    }
}

fn is_download(action: &Action) -> bool {
    matches!(action, Action::DownloadImage { .. })
}

fn millis_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)
}
