//! What a machine's logs say: few lines, all of them true.

use base64::Engine as _;
use futures::{StreamExt as _, stream};
use sha2::Digest as _;
use talos::wire::common::Data;
use talos::wire::machine as wire;
use tonic::codegen::BoxStream;
use tonic::{Response, Status};

use super::Caller;
use super::machine_service::Answer;
use crate::machine::{Action, Happening, Machine, Machines, Phase};

/// Logs that are not those of a service.
const OTHER: &[&str] = &["controller-runtime", "dns-resolve-cache", "early-startup", "kernel"];

/// The names of all logs.
pub(super) fn names(machines: &Machines, vmid: u32) -> Vec<String> {
    let services = machines.services(vmid).into_iter().map(|service| service.id);
    services.chain(OTHER.iter().map(|name| (*name).to_owned())).collect()
}

/// Answers a question for a log.
pub(super) fn answer(caller: &Caller, request: wire::LogsRequest) -> Answer<BoxStream<Data>> {
    if request.namespace.is_empty() {
        return Err(Status::invalid_argument("namespace can't be empty"));
    }
    let id = &request.id;
    // The kubelet is a service, wherever one looks for it.
    if request.namespace != "system" && id != "kubelet" {
        let known =
            caller.container_infos(&request.namespace)?.into_iter().any(|container| container.id == *id);
        if !known {
            return Err(Status::unknown(format!("container {id:?} not found")));
        }
    }
    let lines = caller.read(|machines, _| match id.as_str() {
        "kernel" => Some(kernel(machines, caller.vmid)),
        other => of_service(machines, caller.vmid, other),
    });
    let lines = match lines {
        Some(lines) => lines,
        None if request.namespace == "system" => {
            return Err(Status::unknown(format!("log {id:?} was not registered")));
        }
        None => vec![],
    };
    // Negative is everything; unset is zero, and zero is nothing.
    let tail = usize::try_from(request.tail_lines).unwrap_or(lines.len());
    let skip = lines.len().saturating_sub(tail);
    let text: String = lines.into_iter().skip(skip).map(|line| format!("{line}\n")).collect();
    let chunks = if text.is_empty() { vec![] } else { vec![text.into_bytes()] };
    Ok(stream(caller, chunks, request.follow))
}

/// A stream of lines that ends, or stays open for those to come.
pub(super) fn stream(caller: &Caller, chunks: Vec<Vec<u8>>, follow: bool) -> Response<BoxStream<Data>> {
    let chunks = chunks.into_iter().map(|bytes| Ok(Data { metadata: None, bytes })).collect::<Vec<_>>();
    let told = stream::iter(chunks);
    if !follow {
        return Response::new(told.boxed());
    }
    let held = caller.hold();
    let rest = stream::once(async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    Response::new(told.chain(rest.filter_map(|()| async { None })).boxed())
}

/// The kernel log, which is also where machined writes.
pub(super) fn kernel(machines: &Machines, vmid: u32) -> Vec<String> {
    let Some(machine) = machines.get(vmid) else { return vec![] };
    let version = machine.talos();
    let mut lines = vec![
        format!(
            "kern:  notice: Linux version 6.18.9-talos, {} processors, {} MiB",
            machine.hardware.cores, machine.hardware.memory_mib
        ),
        format!("user: warning: [talos] [initramfs] booting Talos {version}"),
    ];
    for (number, (mac, nets)) in machines.addresses(vmid).into_iter().enumerate() {
        for net in nets {
            lines.push(format!("user: warning: [talos] assigned address {{\"component\": \"controller-runtime\", \"controller\": \"network.AddressSpecController\", \"address\": \"{net}\", \"link\": \"eth{number}\", \"mac\": \"{mac}\"}}"));
        }
    }
    lines.extend(machine.log.iter().filter_map(|entry| match &entry.what {
        Happening::Sequence(name, Action::Start) => {
            Some(format!("user: warning: [talos] {name} sequence: starting"))
        }
        Happening::Sequence(name, Action::Stop) => {
            Some(format!("user: warning: [talos] {name} sequence: done"))
        }
        Happening::Failure(_, _, words) => Some(format!("user: warning: [talos] {words}")),
        _ => None,
    }));
    lines.extend(mode(machine));
    lines
}

fn mode(machine: &Machine) -> Vec<String> {
    match &machine.phase {
        Phase::Maintenance(_) => {
            let fingerprint = machine.maintenance_fingerprint().unwrap_or_default();
            vec![
                "user: warning: [talos] entering maintenance service".to_owned(),
                format!(
                    "user: warning: [talos] server certificate issued {{\"component\": \"maintenance\", \"fingerprint\": \"{fingerprint}\"}}"
                ),
            ]
        }
        Phase::Configured(node) => {
            vec![format!("user: warning: [talos] boot sequence: machine type {}", node.settings.role.text())]
        }
        _ => vec![],
    }
}

/// The log of one service: how it got to where it is.
fn of_service(machines: &Machines, vmid: u32, id: &str) -> Option<Vec<String>> {
    if OTHER.contains(&id) {
        return Some(vec![]);
    }
    machines.services(vmid).into_iter().find(|service| service.id == id)?;
    let history = machines.get(vmid)?.history(id);
    Some(history.iter().map(|(state, message, at, _)| format!("{at} {id}: {state}: {message}")).collect())
}

/// The fingerprint of a public key in the form that Talos prints.
pub(crate) fn fingerprint(spki: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(spki))
}
