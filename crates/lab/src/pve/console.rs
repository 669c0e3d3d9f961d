//! The serial console of a VM: a ticket for one client, and a WebSocket that carries the bytes of the port.
//!
//! What the port prints while no client is connected is lost, as QEMU loses it. A second client is let in and hears nothing
//! until the first has gone; one whose VM has stopped hears nothing ever again, and is not told.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};

use super::answer::Data;
use super::request::{Call, Params};
use super::vms::find;
use super::websocket::{self, Socket};
use crate::faults::ConsoleFault;
use crate::https::{Answer, Cut};
use crate::hypervisor::console::{Console, LISTENS, is_sound};
use crate::hypervisor::refusal::Refusal;
use crate::machine::printed_fingerprint;
use crate::operations::console;
use crate::rng::Rng;
use crate::shared::Shared;
use crate::world::World;

/// How long a host tries a port without a listener.
const NO_LISTENER: Duration = Duration::from_secs(5);
/// How long the program takes to start that reads the port.
const STARTS: Duration = Duration::from_millis(700);
/// No frame that a console sends is larger.
const LARGEST_FRAME: u64 = 400;
/// What a guest writes that floods its console, in bytes.
const FLOOD: usize = 4 << 20;

/// Opens a console: a listener that waits for its one client.
pub(super) fn open(world: &mut World, call: &Call) -> Result<Data, Refusal> {
    let vm = find(world, call)?;
    let display =
        vm.get("vga").and_then(|vga| vga.split(',').next()).map(|vga| vga.trim_start_matches("type="));
    let display = display.filter(|kind| kind.starts_with("serial"));
    let serial = call.get("serial").or(display).map(str::to_owned);
    let console = console::open(world, &call.node, call.vmid(), serial, &call.caller);
    Ok(json!({
        "user": console.user, "ticket": console.ticket, "port": console.port().to_string(), "upid": console.upid,
    })
    .into())
}

/// Whether the WebSocket may be opened; whether there is a listener shows only afterwards.
pub(super) fn connect(world: &World, call: &Call) -> Result<Data, Refusal> {
    let port = call.number("port").and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
    let (access, ticket) = (&world.hypervisor.access, call.text("vncticket"));
    if !is_sound(access, &call.caller, call.vmid(), port, ticket, world.now) {
        return Err(Refusal::Unauthorized("permission denied - invalid PVEVNC ticket".to_owned()));
    }
    find(world, call)?;
    Ok(json!({ "port": call.text("port") }).into())
}

/// What a connection becomes when its request was answered.
#[derive(Clone, Default)]
pub(super) struct Next(Arc<Mutex<Option<Session>>>);

impl Next {
    pub(super) fn take(&self) -> Option<Session> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A request to go on as a WebSocket.
pub(super) struct Upgrade {
    key: String,
    on: OnUpgrade,
    next: Next,
}

/// A console that is about to be read.
pub(super) struct Session {
    on: OnUpgrade,
    upid: String,
    fault: Option<ConsoleFault>,
}

impl Upgrade {
    /// What the request wants to become, if anything.
    pub(super) fn of(request: &mut Request<Incoming>) -> Option<Self> {
        let next = request.extensions().get::<Next>().cloned()?;
        let key = key(request.headers())?;
        Some(Self { key, on: hyper::upgrade::on(request), next })
    }

    /// Answers a request that may open its WebSocket.
    pub(super) async fn accept(
        self,
        shared: &Shared,
        params: &Params,
        fault: Option<ConsoleFault>,
    ) -> Result<Answer, Cut> {
        let ticket = params.one("vncticket").unwrap_or_default();
        let upid = shared.with(|world, now| world.hypervisor.consoles.take(ticket, now));
        let Some(upid) = upid else {
            shared.clock().sleep(NO_LISTENER).await;
            return Err(Cut);
        };
        let session = Session { on: self.on, upid, fault };
        *self.next.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        let mut answer = Response::new(Full::new(Bytes::new()));
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = answer.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        if let Ok(accept) = HeaderValue::try_from(websocket::accept(&self.key)) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        Ok(answer)
    }
}

/// The key of a WebSocket's handshake.
fn key(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let upgrades = text(header::UPGRADE)?.eq_ignore_ascii_case("websocket");
    let version = text(header::SEC_WEBSOCKET_VERSION) == Some("13");
    let key = text(header::SEC_WEBSOCKET_KEY)?;
    (upgrades && version).then(|| key.to_owned())
}

/// Ends the task of a console when its client is gone, however that came.
struct Client {
    shared: Arc<Shared>,
    upid: String,
    admitted: bool,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.with(|world, _| console::close(world, &self.upid, self.admitted));
    }
}

impl Session {
    /// Serves the console until the client goes or is turned away.
    pub(super) async fn run(self, shared: Arc<Shared>, origin: Arc<str>) {
        let mut client = Client { shared: shared.clone(), upid: self.upid, admitted: false };
        let Ok(upgraded) = self.on.await else { return };
        let mut socket = Socket::new(TokioIo::new(upgraded));
        let Some(console) = shared.peek(|world| world.hypervisor.consoles.get(&client.upid).cloned()) else {
            return;
        };
        if !greeted(&shared, &mut socket, &console).await || socket.send(b"OK").await.is_err() {
            return;
        }
        client.admitted = true;
        let fault = self.fault.or_else(|| shared.peek(|world| world.faults.console(console.vmid)));
        let cut = async {
            match fault {
                Some(ConsoleFault::Cut(after)) => shared.clock().sleep(STARTS + after).await,
                _ => std::future::pending().await,
            }
        };
        let read = read(&shared, &mut socket, &console, fault, &origin);
        tokio::select! {
            biased;
            () = cut => {}
            () = read => {}
        }
    }
}

/// Whether the client says in time, and in its first line, for whom the ticket was issued and what it is.
async fn greeted(
    shared: &Shared,
    socket: &mut Socket<impl AsyncRead + AsyncWrite + Unpin>,
    console: &Console,
) -> bool {
    let expected = format!("{}:{}", console.user, console.ticket);
    let line = async {
        let mut line = Vec::new();
        while !line.contains(&b'\n') && line.len() <= 2 * expected.len() {
            line.extend(socket.receive().await?);
        }
        Some(line)
    };
    let line = shared.clock().timeout(LISTENS, line).await.ok().flatten().unwrap_or_default();
    line.strip_suffix(b"\n") == Some(expected.as_bytes())
}

/// Passes on what the port prints, until the client goes or the task is stopped.
async fn read(
    shared: &Arc<Shared>,
    socket: &mut Socket<impl AsyncRead + AsyncWrite + Unpin>,
    console: &Console,
    fault: Option<ConsoleFault>,
    origin: &Arc<str>,
) {
    shared.clock().sleep(STARTS).await;
    let (words, port) = shared.with(|world, _| attach(world, console));
    if socket.send(words.as_bytes()).await.is_err() {
        return;
    }
    let mut reader = Reader {
        vmid: console.vmid,
        upid: console.upid.clone(),
        serial: port,
        since: shared.clock().now(),
        last: None,
        late: if let Some(ConsoleFault::Slow(by)) = fault { by } else { Duration::ZERO },
        silent: fault == Some(ConsoleFault::Silent),
    };
    let mut frames = Rng::new(u64::from(console.vmid));
    if fault == Some(ConsoleFault::Flood) && cut_up(socket, &vec![b'#'; FLOOD], &mut frames).await.is_none() {
        return;
    }
    let mut changed = shared.subscribe();
    loop {
        changed.borrow_and_update();
        let Some(Printed { lines, next }) = shared.read(|world, now| reader.due(world, now)) else { return };
        for line in lines {
            if cut_up(socket, line.as_bytes(), &mut frames).await.is_none() {
                return;
            }
            if let Some(fingerprint) = printed_fingerprint(&line) {
                shared.with_quiet(|world| world.machines.witness(origin, reader.vmid, fingerprint));
            }
        }
        let due = async {
            match next {
                Some(next) => shared.clock().sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // What a client types or how large its window is changes nothing: Talos reads nothing from its console.
            typed = socket.receive() => if typed.is_none() { return },
            changed = changed.changed() => if changed.is_err() { return },
            () = due => {}
        }
    }
}

/// Connects a console to its serial port; gives the program's first words, and the port where there is one.
fn attach(world: &mut World, console: &Console) -> (String, Option<String>) {
    let vm = world.hypervisor.vms.get(&console.vmid);
    let option = |serial: &str| vm.and_then(|vm| vm.get(serial)).map(str::to_owned);
    let first = || {
        ["serial0", "serial1", "serial2", "serial3"]
            .into_iter()
            .find(|s| option(s).as_deref() == Some("socket"))
    };
    let Some(serial) = console.serial.clone().or_else(|| first().map(str::to_owned)) else {
        return ("unable to find a serial interface\r\n".to_owned(), None);
    };
    let wrong = match option(&serial).as_deref() {
        Some("socket") => None,
        Some(_) => Some(format!("wrong serial type on interface '{serial}'\r\n")),
        None => Some(format!("serial interface '{serial}' is not configured\r\n")),
    };
    if let Some(words) = wrong {
        return (words, None);
    }
    let Some(pid) = vm.and_then(|vm| vm.running.as_ref()).map(|running| running.pid) else {
        return (format!("VM {} not running\r\n", console.vmid), None);
    };
    world.hypervisor.consoles.attach(&console.upid, &serial, pid);
    (format!("starting serial terminal on interface {serial}\r\n"), Some(serial))
}

/// Sends bytes in frames that end anywhere.
async fn cut_up(
    socket: &mut Socket<impl AsyncRead + AsyncWrite + Unpin>,
    mut bytes: &[u8],
    sizes: &mut Rng,
) -> Option<()> {
    while !bytes.is_empty() {
        let size = usize::try_from(1 + sizes.below(LARGEST_FRAME)).unwrap_or(1);
        let (frame, rest) = bytes.split_at(size.min(bytes.len()));
        socket.send(frame).await.ok()?;
        bytes = rest;
    }
    Some(())
}

/// Where a client stands in what its port prints.
struct Reader {
    vmid: u32,
    upid: String,
    serial: Option<String>,
    since: Timestamp,
    /// The line that was passed on last.
    last: Option<(Timestamp, u64)>,
    late: Duration,
    silent: bool,
}

/// What is to be passed on, and when to look again.
struct Printed {
    lines: Vec<String>,
    next: Option<Timestamp>,
}

impl Reader {
    /// `None` when the console was closed from this side.
    fn due(&mut self, world: &World, now: Timestamp) -> Option<Printed> {
        if world.hypervisor.tasks.get(&self.upid).is_none_or(|task| task.ended.is_some()) {
            return None;
        }
        let nothing = Printed { lines: vec![], next: None };
        let console = world.hypervisor.consoles.get(&self.upid)?;
        let process = world.hypervisor.vms.get(&self.vmid).and_then(|vm| vm.running.as_ref());
        let connected = process.is_some_and(|running| console.is_attached_to(running.pid));
        // Talos prints on the first port.
        if !connected || self.silent || self.serial.as_deref() != Some("serial0") {
            return Some(nothing);
        }
        if !world.hypervisor.consoles.reads(&self.upid) {
            // What is printed meanwhile goes to the one who is connected.
            self.since = now;
            return Some(nothing);
        }
        let Some(machine) = world.machines.get(self.vmid) else { return Some(nothing) };
        let late = |at: Timestamp| at.checked_add(self.late).unwrap_or(Timestamp::MAX);
        let mut lines = Vec::new();
        for line in machine.printed_after(self.since, self.last) {
            if late(line.at) > now {
                return Some(Printed { lines, next: Some(late(line.at)) });
            }
            self.last = Some((line.at, line.number));
            lines.push(format!("{}\r\n", line.text));
        }
        Some(Printed { lines, next: None })
    }
}
