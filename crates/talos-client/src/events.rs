//! What happens on a machine, as it happens.
//!
//! The stream starts with an empty event, which tells that it is armed: [`Machine::events`] returns only then, so that
//! nothing caused afterwards is missed. When the machine goes down the stream simply ends, well; that it restarts is told by
//! the last [`What::Status`], never by the end.

use std::time::Duration;

use prost::Message as _;
use talos::wire::machine::{self as wire, machine_status_event, service_state_event};
use talos::wire::{EVENT_TYPE_PREFIX, common};
use tonic::Streaming;

use crate::api::{Api, QUESTION};
use crate::error::{Result, harmless};
use crate::machine::Machine;
use crate::types::{MachineStatus, Stage, UnmetCondition};

/// What to hear of the past, when beginning to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Past {
    Nothing,
    /// Everything that the machine still knows. It forgets at each boot.
    Everything,
    /// Everything after the event with this id.
    After(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its id; later ones are greater.
    pub id: String,
    /// Whose call caused it; empty for what no call caused, and for a sequence that was not started.
    pub actor: String,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A sequence (`boot`, `reboot`, `reset`, …) started or ended.
    Sequence {
        name: String,
        /// Began or ended; neither when it was refused.
        step: Option<Step>,
        /// Why it did not go well.
        failure: Option<SequenceFailure>,
    },
    /// A phase of a sequence started or ended.
    Phase {
        name: String,
        /// Began or ended.
        step: Step,
    },
    /// A task of a phase started or ended.
    Task {
        name: String,
        /// Began or ended.
        step: Step,
    },
    /// A service changed.
    Service {
        id: String,
        /// The state, in the words of the list of services.
        state: &'static str,
        /// Why.
        message: String,
        /// Whether it is healthy; nothing while that is not known.
        healthy: Option<bool>,
    },
    /// The stage or what is missing changed.
    Status(MachineStatus),
    /// The machine has these addresses.
    Addresses {
        /// Its host name.
        hostname: String,
        addresses: Vec<String>,
    },
    /// A configuration could not be read or is not valid. What it quoted was taken out.
    ConfigRefused(String),
    /// Something that this program does not know, by the name of its type.
    Other(String),
}

/// A beginning or an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Start,
    /// It ended.
    Stop,
}

/// Why a sequence did not go well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SequenceFailure {
    /// It failed; the machine restarts.
    Fatal(String),
    /// It was not started, because another one runs. Such an event names no actor.
    Locked,
    /// Another one took over. That is no failure of the machine.
    Cancelled,
}

/// The stream of events of one machine.
#[derive(Debug)]
pub struct Events {
    api: Api,
    stream: Streaming<wire::Event>,
}

const LISTENING: &str = "listening to events";

impl Machine {
    /// Starts to listen. What is caused after this returned is heard.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn events(&self, past: Past) -> Result<Events> {
        let request = match past {
            Past::Nothing => wire::EventsRequest::default(),
            Past::Everything => wire::EventsRequest { tail_events: -1, ..Default::default() },
            Past::After(id) => wire::EventsRequest { tail_id: id, ..Default::default() },
        };
        let answer = self.api.limited(LISTENING, QUESTION, self.api.services().events(request)).await?;
        let mut stream = answer.into_inner();
        self.api.limited(LISTENING, QUESTION, stream.message()).await?;
        Ok(Events { api: self.api.clone(), stream })
    }
}

impl Events {
    /// The next event; nothing when the machine ended the stream, which it does when it goes down.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Deadline`] when nothing happened within `limit`; the stream can be listened to further.
    pub async fn next(&mut self, limit: Duration) -> Result<Option<Event>> {
        let api = self.api.within(limit);
        let Some(event) = api.limited(LISTENING, limit, self.stream.message()).await? else {
            return Ok(None);
        };
        let what = read(&event);
        if let What::Status(status) = &what {
            self.api.saw(&status.stage);
        }
        Ok(Some(Event { id: event.id, actor: event.actor_id, what }))
    }
}

fn step(start: bool) -> Step {
    if start { Step::Start } else { Step::Stop }
}

pub(crate) fn read(event: &wire::Event) -> What {
    let data = event.data.clone().unwrap_or_default();
    let name = data.type_url.strip_prefix(EVENT_TYPE_PREFIX).unwrap_or(&data.type_url).to_owned();
    let bytes = data.value.as_slice();
    let read = match name.as_str() {
        "machine.SequenceEvent" => wire::SequenceEvent::decode(bytes).map(sequence),
        "machine.PhaseEvent" => wire::PhaseEvent::decode(bytes).map(|e| What::Phase {
            step: step(e.action() == wire::phase_event::Action::Start),
            name: e.phase,
        }),
        "machine.TaskEvent" => wire::TaskEvent::decode(bytes)
            .map(|e| What::Task { step: step(e.action() == wire::task_event::Action::Start), name: e.task }),
        "machine.ServiceStateEvent" => wire::ServiceStateEvent::decode(bytes).map(service),
        "machine.MachineStatusEvent" => wire::MachineStatusEvent::decode(bytes).map(status),
        "machine.AddressEvent" => wire::AddressEvent::decode(bytes)
            .map(|e| What::Addresses { hostname: e.hostname, addresses: e.addresses }),
        "machine.ConfigLoadErrorEvent" => {
            wire::ConfigLoadErrorEvent::decode(bytes).map(|e| What::ConfigRefused(harmless(&e.error)))
        }
        "machine.ConfigValidationErrorEvent" => {
            wire::ConfigValidationErrorEvent::decode(bytes).map(|e| What::ConfigRefused(harmless(&e.error)))
        }
        _ => Ok(What::Other(name.clone())),
    };
    read.unwrap_or(What::Other(name))
}

fn sequence(event: wire::SequenceEvent) -> What {
    let step = match event.action() {
        wire::sequence_event::Action::Start => Some(Step::Start),
        wire::sequence_event::Action::Stop => Some(Step::Stop),
        wire::sequence_event::Action::Noop => None,
    };
    let failure = event.error.map(|error| match error.code() {
        common::Code::Locked => SequenceFailure::Locked,
        common::Code::Canceled => SequenceFailure::Cancelled,
        common::Code::Fatal => SequenceFailure::Fatal(harmless(&error.message)),
    });
    What::Sequence { name: event.sequence, step, failure }
}

fn service(event: wire::ServiceStateEvent) -> What {
    use service_state_event::Action;
    let state = match event.action() {
        Action::Initialized => "Initialized",
        Action::Preparing => "Preparing",
        Action::Waiting => "Waiting",
        Action::Running => "Running",
        Action::Stopping => "Stopping",
        Action::Finished => "Finished",
        Action::Failed => "Failed",
        Action::Skipped => "Skipped",
        Action::Starting => "Starting",
    };
    let healthy = event.health.as_ref().filter(|health| !health.unknown).map(|health| health.healthy);
    What::Service { id: event.service, state, message: event.message, healthy }
}

fn status(event: wire::MachineStatusEvent) -> What {
    use machine_status_event::MachineStage;
    let stage = match event.stage() {
        MachineStage::Booting => Stage::Booting,
        MachineStage::Installing => Stage::Installing,
        MachineStage::Maintenance => Stage::Maintenance,
        MachineStage::Running => Stage::Running,
        MachineStage::Rebooting => Stage::Rebooting,
        MachineStage::ShuttingDown => Stage::ShuttingDown,
        MachineStage::Resetting => Stage::Resetting,
        MachineStage::Upgrading => Stage::Upgrading,
        MachineStage::Unknown => Stage::Other("unknown".to_owned()),
    };
    let status = event.status.unwrap_or_default();
    let unmet = status.unmet_conditions.into_iter();
    let unmet = unmet.map(|c| UnmetCondition { name: c.name, reason: c.reason }).collect();
    What::Status(MachineStatus { stage, ready: status.ready, unmet })
}
