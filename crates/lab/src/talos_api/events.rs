//! The stream of a machine's events: an empty one first, which says that the stream is there, then those of the past that
//! were asked for, then what happens.

use futures::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use prost::Message as _;
use talos::wire::EVENT_TYPE_PREFIX;
use talos::wire::common;
use talos::wire::machine as wire;
use talos::wire::machine::machine_status_event::machine_status::UnmetCondition;
use talos::wire::machine::machine_status_event::{MachineStage, MachineStatus};
use tonic::Status as Failure;

use super::Caller;
use super::machine_service::stamp;
use crate::machine::{Action, Entry, Fault, Happening, Status};

/// Answers a question for events. The stream ends well when machined stops.
pub(super) fn published(
    caller: Caller,
    request: wire::EventsRequest,
) -> impl Stream<Item = Result<wire::Event, Failure>> + Send {
    let changes = caller.shared.subscribe();
    let held = caller.hold();
    let (all, boots) = caller.read(|machines, _| {
        machines.get(caller.vmid).map_or((vec![], 0), |machine| (machine.log.clone(), machine.boots))
    });
    let next = all.last().map_or(0, |entry| entry.number + 1);
    let skip = match usize::try_from(request.tail_events) {
        Ok(count) => all.len().saturating_sub(count),
        Err(_) => 0,
    };
    let mut past: Vec<Entry> = all.iter().skip(skip).cloned().collect();
    if request.tail_events == 0 && request.tail_seconds > 0 {
        let now = caller.shared.clock().now();
        let young =
            |entry: &&Entry| now.duration_since(entry.at).as_secs() <= i64::from(request.tail_seconds);
        past = all.iter().filter(young).cloned().collect();
    }
    if !request.tail_id.is_empty() && request.tail_events == 0 {
        past = all.into_iter().filter(|entry| id(&caller, boots, entry) > request.tail_id).collect();
    }
    let wrong_id = (!request.tail_id.is_empty() && !is_id(&request.tail_id))
        .then(|| Failure::unknown("error parsing tail_id: xid: invalid ID"));
    let actor = request.with_actor_id;
    let hello_id = xid(caller.shared.clock().now(), caller.vmid, boots, next);
    let data = Some(prost_types::Any::default());
    let hello = wire::Event { metadata: None, data, id: hello_id, actor_id: String::new() };
    let news = stream::unfold(
        (caller.clone(), changes, next, held),
        move |(caller, mut changes, next, held)| async move {
            loop {
                if caller.read(|machines, _| machines.is_silent(caller.vmid)) {
                    futures::future::pending::<()>().await;
                }
                let state = caller.read(|machines, _| {
                    let machine = machines.get(caller.vmid).filter(|machine| machine.boots == boots)?;
                    let fresh: Vec<Entry> =
                        machine.log.iter().filter(|entry| entry.number >= next).cloned().collect();
                    let over = fresh.is_empty() && machine.node().is_some_and(|node| node.stopped());
                    (!over).then_some(fresh)
                })?;
                if let Some(last) = state.last() {
                    let next = last.number + 1;
                    return Some((stream::iter(state), (caller, changes, next, held)));
                }
                changes.changed().await.ok()?;
            }
        },
    );
    let told = stream::iter(past).chain(news.flatten());
    let told = told.filter(move |entry| {
        let wanted = actor.is_empty() || entry.actor == actor;
        async move { wanted }
    });
    let told = told.map(move |entry| Ok(event(&caller, boots, &entry)));
    let rest = match wrong_id {
        Some(failure) => stream::once(async { Err(failure) }).boxed(),
        None => told.boxed(),
    };
    stream::once(async { Ok(hello) }).chain(rest)
}

/// An id that no other event of any machine has.
fn id(caller: &Caller, boots: u64, entry: &Entry) -> String {
    xid(entry.at, caller.vmid, boots, entry.number)
}

/// The digits of ids, in their order.
const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// Twelve bytes in twenty digits of five bits, as events have them: the second, who, and a count. Later is greater.
fn xid(at: Timestamp, vmid: u32, boots: u64, number: u64) -> String {
    let second = u128::from(u32::try_from(at.as_second()).unwrap_or(0));
    let bits = second << 64
        | u128::from(vmid & 0xff_ffff) << 40
        | u128::from(boots & 0xffff) << 24
        | u128::from(number & 0xff_ffff);
    // 96 bits are 19 digits and one bit; that one stands first in the last digit.
    let padded = bits << 4;
    let digit = |place: u32| {
        let index = usize::try_from(padded >> (5 * place) & 31).unwrap_or(0);
        char::from(DIGITS[index])
    };
    (0..20).rev().map(digit).collect()
}

/// Whether a text can be the id of an event.
fn is_id(text: &str) -> bool {
    text.len() == 20 && text.bytes().all(|byte| DIGITS.contains(&byte)) && text.ends_with(['0', 'g'])
}

fn event(caller: &Caller, boots: u64, entry: &Entry) -> wire::Event {
    let (name, value) = message(entry);
    let data = prost_types::Any { type_url: format!("{EVENT_TYPE_PREFIX}machine.{name}"), value };
    wire::Event {
        metadata: None,
        data: Some(data),
        id: id(caller, boots, entry),
        actor_id: entry.actor.clone(),
    }
}

fn message(entry: &Entry) -> (&'static str, Vec<u8>) {
    match &entry.what {
        Happening::Sequence(sequence, action) => {
            use wire::sequence_event::Action as Wire;
            let action = if *action == Action::Start { Wire::Start } else { Wire::Stop };
            let event =
                wire::SequenceEvent { sequence: sequence.clone(), action: action.into(), error: None };
            ("SequenceEvent", event.encode_to_vec())
        }
        Happening::Failure(sequence, fault, words) => {
            let code = match fault {
                Fault::Fatal => common::Code::Fatal,
                Fault::Locked => common::Code::Locked,
                Fault::Canceled => common::Code::Canceled,
            };
            let error = common::Error { code: code.into(), message: words.clone(), details: vec![] };
            let event = wire::SequenceEvent { sequence: sequence.clone(), action: 0, error: Some(error) };
            ("SequenceEvent", event.encode_to_vec())
        }
        Happening::Phase(phase, action) => {
            let action = i32::from(*action == Action::Stop);
            ("PhaseEvent", wire::PhaseEvent { phase: phase.clone(), action }.encode_to_vec())
        }
        Happening::Task(task, action) => {
            let action = i32::from(*action == Action::Stop);
            ("TaskEvent", wire::TaskEvent { task: task.clone(), action }.encode_to_vec())
        }
        Happening::Service(service, state, words, healthy) => {
            let health = wire::ServiceHealth {
                unknown: healthy.is_none(),
                healthy: *healthy == Some(true),
                last_message: if *healthy == Some(false) { words.clone() } else { String::new() },
                last_change: Some(stamp(entry.at)),
            };
            let event = wire::ServiceStateEvent {
                service: service.clone(),
                action: service_action(state).into(),
                message: words.clone(),
                health: Some(health),
            };
            ("ServiceStateEvent", event.encode_to_vec())
        }
        Happening::Status(status) => ("MachineStatusEvent", machine_status(status).encode_to_vec()),
        Happening::Address(hostname, addresses) => {
            let event = wire::AddressEvent { hostname: hostname.clone(), addresses: addresses.clone() };
            ("AddressEvent", event.encode_to_vec())
        }
    }
}

fn machine_status(status: &Status) -> wire::MachineStatusEvent {
    let unmet = status.unmet.iter();
    wire::MachineStatusEvent {
        stage: stage(&status.stage).into(),
        status: Some(MachineStatus {
            ready: status.ready,
            unmet_conditions: unmet
                .map(|(name, reason)| UnmetCondition { name: name.clone(), reason: reason.clone() })
                .collect(),
        }),
    }
}

fn service_action(state: &str) -> wire::service_state_event::Action {
    use wire::service_state_event::Action;
    match state {
        "Preparing" => Action::Preparing,
        "Waiting" => Action::Waiting,
        "Running" => Action::Running,
        "Stopping" => Action::Stopping,
        "Finished" => Action::Finished,
        "Failed" => Action::Failed,
        "Skipped" => Action::Skipped,
        "Starting" => Action::Starting,
        _ => Action::Initialized,
    }
}

fn stage(name: &str) -> MachineStage {
    match name {
        "booting" => MachineStage::Booting,
        "installing" => MachineStage::Installing,
        "maintenance" => MachineStage::Maintenance,
        "running" => MachineStage::Running,
        "rebooting" => MachineStage::Rebooting,
        "shutting down" => MachineStage::ShuttingDown,
        "resetting" => MachineStage::Resetting,
        "upgrading" => MachineStage::Upgrading,
        _ => MachineStage::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_in_order_and_are_ids() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (early, late) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T00:00:01Z"));
        let ids = [xid(early, 101, 1, 7), xid(early, 101, 1, 8), xid(late, 101, 1, 0)];
        assert!(ids.is_sorted() && ids.iter().all(|id| is_id(id)), "{ids:?}");
        assert_eq!(xid(at("2011-02-22T10:39:01Z"), 0x9f_1e0a, 0x1a2b, 0x41_0041).len(), 20);
        assert!(!is_id("not an id") && !is_id("9m4e2mr0ui3e8a215n41"));
    }
}
