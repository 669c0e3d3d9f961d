//! The stream of a machine's events. The lab publishes changes of the machine's status.

use futures::{Stream, stream};
use prost::Message as _;
use talos::wire::EVENT_TYPE_PREFIX;
use talos::wire::machine::machine_status_event::machine_status::UnmetCondition;
use talos::wire::machine::machine_status_event::{MachineStage, MachineStatus};
use talos::wire::machine::{Event, MachineStatusEvent};
use tonic::Status as Failure;

use super::Caller;
use crate::machine::Status;

/// One event for each change of stage or readiness from now on. The stream ends when the machine is gone.
pub(super) fn status_changes(caller: Caller) -> impl Stream<Item = Result<Event, Failure>> + Send {
    let changes = caller.shared.subscribe();
    let last = caller.read(|machines, _| machines.status(caller.vmid));
    stream::unfold((caller, changes, last), |(caller, mut changes, last)| async move {
        loop {
            changes.changed().await.ok()?;
            let now = caller.read(|machines, _| machines.status(caller.vmid))?;
            if last.as_ref() != Some(&now) {
                let event = event(&caller, &now);
                return Some((Ok(event), (caller, changes, Some(now))));
            }
        }
    })
}

fn event(caller: &Caller, status: &Status) -> Event {
    let unmet = status.unmet.iter();
    let message = MachineStatusEvent {
        stage: stage(status.stage).into(),
        status: Some(MachineStatus {
            ready: status.ready,
            unmet_conditions: unmet
                .map(|(name, reason)| UnmetCondition { name: (*name).into(), reason: reason.clone() })
                .collect(),
        }),
    };
    let moment = caller.shared.clock().now();
    let id = format!("{:016x}{:04x}", moment.as_millisecond(), caller.vmid);
    let type_url = format!("{EVENT_TYPE_PREFIX}machine.MachineStatusEvent");
    let data = prost_types::Any { type_url, value: message.encode_to_vec() };
    Event { metadata: None, data: Some(data), id, actor_id: String::new() }
}

fn stage(name: &str) -> MachineStage {
    match name {
        "booting" => MachineStage::Booting,
        "maintenance" => MachineStage::Maintenance,
        "running" => MachineStage::Running,
        "rebooting" => MachineStage::Rebooting,
        "shutting down" => MachineStage::ShuttingDown,
        "resetting" => MachineStage::Resetting,
        _ => MachineStage::Unknown,
    }
}
