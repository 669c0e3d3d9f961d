//! What a machine's logs say: few lines, all of them true.
//!
//! A line comes from something that the machine published, from a call to its API, or is there from the start. A client that follows a
//! log is sent the lines of the first two kinds as they come.

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use talos::wire::common::Data;
use talos::wire::machine as wire;
use tonic::codegen::BoxStream;
use tonic::{Response, Status};

use super::Caller;
use super::machine_service::Answer;
use crate::machine::{Action, Happening, Machine, Machines, Phase, Service, kernel_lines};

/// Logs that are not those of a service.
const OTHER: &[&str] = &["controller-runtime", "dns-resolve-cache", "early-startup", "kernel"];

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    at: Timestamp,
    source: Source,
    pub(super) text: String,
}

/// Where a line comes from. Events and calls are numbered since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Start,
    Event(u64),
    Call(u64),
}

/// Whether a service has a log: from its first run since the machine started.
fn has_log(machine: &Machine, service: &Service) -> bool {
    let ran = |service: &str| machine.history(service).iter().any(|(state, ..)| *state == "Running");
    service.state == "Running" || ran(&service.id)
}

/// The names of all logs.
pub(super) fn names(machines: &Machines, vmid: u32) -> Vec<String> {
    let Some(machine) = machines.get(vmid) else { return vec![] };
    let services = machines.services(vmid).into_iter().filter(|service| has_log(machine, service));
    services.map(|service| service.id).chain(OTHER.iter().map(|name| (*name).to_owned())).collect()
}

/// Answers a question for a log.
pub(super) fn answer(caller: &Caller, request: wire::LogsRequest) -> Answer<BoxStream<Data>> {
    let id = request.id.clone();
    // The kubelet is a service, wherever one looks for it.
    let of_system = request.namespace == "system" || id == "kubelet";
    if !of_system {
        caller.container(&request.namespace, request.driver, &id)?;
        return Ok(Response::new(stream::empty().boxed()));
    }
    let lines = caller.read(|machines, _| of_service(machines, caller.vmid, &id));
    let Some(lines) = lines else { return Err(Status::unknown(format!("log {id:?} was not registered"))) };
    // Negative is everything; unset is zero, and zero is nothing.
    let tail = usize::try_from(request.tail_lines).unwrap_or(lines.len());
    let follow = request.follow.then_some(Log::Service(id));
    Ok(told(caller, lines, tail, true, follow))
}

/// The kernel's log, which is also where machined writes.
pub(super) fn dmesg(caller: &Caller, request: wire::DmesgRequest) -> Response<BoxStream<Data>> {
    let lines = caller.read(|machines, _| kernel(machines, caller.vmid));
    let tail = if request.tail { 0 } else { lines.len() };
    told(caller, lines, tail, false, request.follow.then_some(Log::Kernel))
}

/// A log that someone follows.
#[derive(Debug, Clone)]
enum Log {
    Kernel,
    Service(String),
}

impl Log {
    fn lines(&self, machines: &Machines, vmid: u32) -> Vec<Line> {
        match self {
            Self::Kernel => kernel(machines, vmid),
            Self::Service(id) => of_service(machines, vmid, id).unwrap_or_default(),
        }
    }
}

/// The last lines of a log, in one message or one in each, and then those to come. The stream ends when machined stops.
fn told(
    caller: &Caller,
    lines: Vec<Line>,
    tail: usize,
    whole: bool,
    follow: Option<Log>,
) -> Response<BoxStream<Data>> {
    let skip = lines.len().saturating_sub(tail);
    let mut next = (0, 0);
    lines.iter().for_each(|line| pass(&mut next, line));
    let data = |line: Line| Ok(Data { metadata: None, bytes: format!("{}\n", line.text).into_bytes() });
    let mut past: Vec<Result<Data, Status>> = lines.into_iter().skip(skip).map(data).collect();
    if whole {
        let bytes: Vec<u8> = past.into_iter().flatten().flat_map(|data| data.bytes).collect();
        past = if bytes.is_empty() { vec![] } else { vec![Ok(Data { metadata: None, bytes })] };
    }
    let past = stream::iter(past);
    let Some(log) = follow else { return Response::new(past.boxed()) };
    let boots = caller.read(|machines, _| machines.get(caller.vmid).map_or(0, |machine| machine.boots));
    let state = (caller.clone(), caller.hold(), caller.shared.follow(), next);
    let news = stream::unfold(state, move |(caller, held, mut changes, mut next)| {
        let log = log.clone();
        async move {
            loop {
                let fresh = caller.read(|machines, _| {
                    let machine = machines.get(caller.vmid).filter(|machine| machine.boots == boots)?;
                    let stopped = machine.node().is_some_and(|node| node.stopped());
                    let lines = log.lines(machines, caller.vmid).into_iter();
                    (!stopped).then(|| lines.filter(|line| is_new(next, line)).collect::<Vec<_>>())
                })?;
                if !fresh.is_empty() {
                    fresh.iter().for_each(|line| pass(&mut next, line));
                    return Some((stream::iter(fresh), (caller, held, changes, next)));
                }
                changes.changed().await?;
            }
        }
    });
    Response::new(past.chain(news.flatten().map(data)).boxed())
}

fn pass(next: &mut (u64, u64), line: &Line) {
    match line.source {
        Source::Start => {}
        Source::Event(number) => next.0 = next.0.max(number + 1),
        Source::Call(number) => next.1 = next.1.max(number + 1),
    }
}

fn is_new(next: (u64, u64), line: &Line) -> bool {
    match line.source {
        Source::Start => false,
        Source::Event(number) => number >= next.0,
        Source::Call(number) => number >= next.1,
    }
}

/// The kernel log.
fn kernel(machines: &Machines, vmid: u32) -> Vec<Line> {
    let Some(machine) = machines.get(vmid) else { return vec![] };
    let since = machine.network_since().unwrap_or_default();
    let mut lines: Vec<Line> = kernel_lines(machine)
        .into_iter()
        .map(|text| of_kernel(since, Source::Start, "kern:    info", &text))
        .collect();
    let talos = |at, source, text: &str| of_kernel(at, source, "user: warning", &format!("[talos] {text}"));
    lines.push(talos(since, Source::Start, &format!("[initramfs] booting Talos {}", machine.talos())));
    for (number, (mac, nets)) in machines.addresses(vmid).into_iter().enumerate() {
        for net in nets {
            lines.push(talos(since, Source::Start, &format!("assigned address {{\"component\": \"controller-runtime\", \"controller\": \"network.AddressSpecController\", \"address\": \"{net}\", \"link\": \"eth{number}\", \"mac\": \"{mac}\"}}")));
        }
    }
    lines.extend(mode(machine).into_iter().map(|text| talos(since, Source::Start, &text)));
    lines.extend(machine.log.iter().filter_map(|entry| {
        let text = sequence(&entry.what)?;
        Some(talos(entry.at, Source::Event(entry.number), &text))
    }));
    lines
}

fn of_kernel(at: Timestamp, source: Source, facility: &str, text: &str) -> Line {
    Line { at, source, text: format!("{facility}: [{at}]: {text}") }
}

/// What machined says of a sequence, a phase or a task.
fn sequence(what: &Happening) -> Option<String> {
    let state = |action: &Action| if *action == Action::Start { "starting" } else { "done" };
    match what {
        Happening::Sequence(name, action) => Some(format!("{name} sequence: {}", state(action))),
        Happening::Phase(name, action) => Some(format!("phase {name}: {}", state(action))),
        Happening::Task(name, action) => Some(format!("task {name}: {}", state(action))),
        Happening::Failure(_, _, words) => Some(words.clone()),
        _ => None,
    }
}

fn mode(machine: &Machine) -> Vec<String> {
    match &machine.phase {
        Phase::Maintenance(_) => {
            vec!["entering maintenance service".to_owned(), machine.certificate_line()]
        }
        Phase::Configured(node) => vec![format!("boot sequence: machine type {}", node.settings.role.text())],
        _ => vec![],
    }
}

/// One log by its name: how the service got to where it is, and what else it tells.
pub(super) fn of_service(machines: &Machines, vmid: u32, id: &str) -> Option<Vec<Line>> {
    if id == "kernel" {
        return Some(kernel(machines, vmid));
    }
    let machine = machines.get(vmid)?;
    let registered = |service: &Service| service.id == id && has_log(machine, service);
    if !OTHER.contains(&id) && !machines.services(vmid).iter().any(registered) {
        return None;
    }
    let mut lines: Vec<Line> = machine
        .log
        .iter()
        .filter_map(|entry| {
            let text = match (id, &entry.what) {
                (_, Happening::Service(service, state, message, _)) if service == id => {
                    format!("{id}: {state}: {message}")
                }
                ("machined", what) => format!("[talos] {}", sequence(what)?),
                ("controller-runtime", Happening::Service(service, state, ..)) => format!(
                    "service state {{\"component\": \"controller-runtime\", \"controller\": \"v1alpha1.ServiceController\", \"service\": \"{service}\", \"state\": \"{state}\"}}"
                ),
                ("controller-runtime", Happening::Status(status)) => format!(
                    "machine status {{\"component\": \"controller-runtime\", \"controller\": \"runtime.MachineStatusController\", \"stage\": \"{}\", \"ready\": {}}}",
                    status.stage, status.ready
                ),
                _ => return None,
            };
            Some(stamped(entry.at, Source::Event(entry.number), &text))
        })
        .collect();
    if let ("kubelet", Some(node)) = (id, machine.node()) {
        let texts = super::resources::kubelet_texts(machine);
        lines.extend(texts.into_iter().map(|text| stamped(node.began, Source::Start, &text)));
    }
    if ["apid", "machined"].contains(&id) {
        lines.extend(machine.calls.iter().map(|call| {
            let text = match id {
                "apid" => format!("log.go:98: [{}] (roles {})", call.path, call.roles),
                _ => format!(
                    "machined/authz/unix/authorizer authorized [{}] (allowed roles {})",
                    call.path, call.roles
                ),
            };
            stamped(call.at, Source::Call(call.number), &text)
        }));
    }
    lines.sort_by_key(|line| (line.at, line.source));
    Some(lines)
}

fn stamped(at: Timestamp, source: Source, text: &str) -> Line {
    Line { at, source, text: format!("{} {text}", at.strftime("%Y/%m/%d %H:%M:%S%.6f")) }
}
