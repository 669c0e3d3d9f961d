//! Proxmox' HTTP API over the world.
//!
//! One request goes through: method and size, address, caller, purpose-made faults, route, the node that must answer,
//! parameters, and then the endpoint's own rule. Where the real server takes its time (a refused caller, an agent that does
//! not answer, another task's lock) the answer is held back on the lab's clock, without holding the world.

mod access;
mod agent;
mod answer;
mod caller;
mod cluster;
mod console;
mod ha;
mod kept;
mod kept_words;
mod mapping;
mod network;
mod nodes;
mod permission;
mod pools;
mod quorum;
mod request;
mod routes;
mod snapshots;
mod storage;
mod system;
mod tasks;
mod tokens;
mod twisted;
mod upload;
mod vms;
mod web;
mod websocket;

use std::sync::Arc;
use std::time::Duration;

use ambient::Stream;
use http::{Method, Request};
use hyper::body::Incoming;

use crate::calls::{self, Service};
use crate::faults::{self, CallFault, ConsoleFault, Shows};
use crate::https::{Answer, Cut};
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::tasks::lock_timeout;
use crate::hypervisor::work::Work;
use crate::operations::{configure, tasks as work};
use crate::schema;
use crate::shared::Shared;
use crate::world::World;
use answer::{Data, Failure};
use request::{Call, Plain};
use routes::{Handler, Route};

/// Idle connections are closed after this.
const IDLE: Duration = Duration::from_secs(5);
/// A caller who is not let in waits this long for the answer.
const UNWELCOME: Duration = Duration::from_secs(3);
/// How long a host waits for another to answer in its stead.
const PROXY_PATIENCE: Duration = Duration::from_secs(30);
/// How long it takes to notice that another host is off.
const NO_ROUTE: Duration = Duration::from_secs(3);

/// Serves one connection to the host `node`.
pub(crate) async fn serve(shared: Arc<Shared>, node: String, stream: Stream, origin: Arc<str>) {
    let identity = shared.peek(|world| world.hypervisor.hosts.get(&node).map(|host| host.identity.clone()));
    let Some(Ok(tls)) = identity.map(|identity| identity.server_config(&node)) else { return };
    let clock = shared.clock().clone();
    let next = console::Next::default();
    let handle = |mut request: Request<Incoming>| {
        request.extensions_mut().insert(next.clone());
        answer(&shared, &node, request, &origin)
    };
    crate::https::serve(clock, tls, stream, IDLE, handle).await;
    if let Some(session) = next.take() {
        session.run(shared, origin).await;
    }
}

/// Answers one request, with hooks around it.
async fn answer(
    shared: &Shared,
    node: &str,
    request: Request<Incoming>,
    origin: &Arc<str>,
) -> Result<Answer, Cut> {
    let call = calls::Call::new(Service::Proxmox, request.method().as_str(), request.uri(), origin);
    shared.around(call, answer_or_fail(shared, node, request)).await
}

/// Answers truly, unless this call was to fail.
async fn answer_or_fail(shared: &Shared, node: &str, request: Request<Incoming>) -> Result<Answer, Cut> {
    let fault = shared.with_quiet(|world| world.faults.meet(request.method().as_str(), request.uri().path()));
    match fault {
        Some(CallFault::Fail { status, text }) => Ok(answer::failed(status, &text)),
        Some(CallFault::Cut { after: false }) => Err(Cut),
        Some(CallFault::Cut { after: true }) => {
            carry_out(shared, node, request, Twist::None).await?;
            Err(Cut)
        }
        Some(CallFault::Known(number)) => known_failure(shared, node, request, number).await,
        None => carry_out(shared, node, request, Twist::None).await,
    }
}

/// Answers with a failure that Proxmox is known for.
async fn known_failure(
    shared: &Shared,
    node: &str,
    request: Request<Incoming>,
    number: u8,
) -> Result<Answer, Cut> {
    let path = request.uri().path().to_owned();
    let fail = async |status: u16, text: &str, seconds: u64| {
        shared.clock().sleep(Duration::from_secs(seconds)).await;
        answer::failed(status, &faults::fill(text, &path, None))
    };
    match faults::known(number) {
        Some(Shows::Answer(status, text, seconds)) => Ok(fail(status, text, seconds).await),
        Some(Shows::AnswerAfter(status, text, seconds)) => {
            carry_out(shared, node, request, Twist::None).await?;
            Ok(fail(status, text, seconds).await)
        }
        Some(Shows::Parameter(name, text)) => {
            let errors = vec![(name.to_owned(), faults::fill(text, &path, None))];
            Ok(answer::failure(&Failure::parameters(errors), false))
        }
        Some(Shows::Task(text)) => carry_out(shared, node, request, Twist::Doomed(text)).await,
        Some(Shows::NotStarted) => carry_out(shared, node, request, Twist::NotStarted).await,
        Some(Shows::Stuck) => carry_out(shared, node, request, Twist::Stuck).await,
        Some(Shows::Waits) => carry_out(shared, node, request, Twist::Waits).await,
        Some(Shows::Lags) => carry_out(shared, node, request, Twist::Lags).await,
        Some(Shows::Console(fault)) => carry_out(shared, node, request, Twist::Console(fault)).await,
        Some(Shows::Cut(after)) => {
            if after {
                carry_out(shared, node, request, Twist::None).await?;
            }
            Err(Cut)
        }
        None => carry_out(shared, node, request, Twist::None).await,
    }
}

/// What goes differently while a request is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twist {
    None,
    /// The task that it would start fails with this text and does nothing.
    Doomed(&'static str),
    NotStarted,
    Stuck,
    Waits,
    Lags,
    /// The console that it opens does not work.
    Console(ConsoleFault),
}

/// Carries a request out.
async fn carry_out(
    shared: &Shared,
    node: &str,
    mut request: Request<Incoming>,
    twist: Twist,
) -> Result<Answer, Cut> {
    let upgrade =
        console::Upgrade::of(&mut request).filter(|_| request.uri().path().ends_with("/vncwebsocket"));
    let plain = match request::read(request).await? {
        Ok(plain) => plain,
        Err(failure) => return Ok(answer::failure(&failure, false)),
    };
    let extjs = plain.extjs;
    let answering =
        plain.path.strip_prefix("/nodes/").and_then(|rest| rest.split('/').next()).unwrap_or(node);
    let proxied = answering != node;
    let slow = shared.peek(|world| world.hypervisor.hosts.get(answering).map(|host| host.slow));
    let slow = slow.unwrap_or_default();
    web::look(shared, &plain).await;
    let params = plain.params.clone();
    let result = respond(shared, node, plain, twist).await;
    if proxied && slow >= PROXY_PATIENCE {
        shared.clock().sleep(PROXY_PATIENCE).await;
        return Ok(answer::failed(596, "Connection timed out"));
    }
    let delay = slow + result.as_ref().err().map(|(delay, _)| *delay).unwrap_or_default();
    // Even a sleep of no time waits for the timer's next millisecond.
    if !delay.is_zero() {
        shared.clock().sleep(delay).await;
    }
    if let (Ok(_), Some(upgrade)) = (&result, upgrade) {
        let fault = if let Twist::Console(fault) = twist { Some(fault) } else { None };
        return upgrade.accept(shared, &params, fault).await;
    }
    Ok(match result {
        Ok(data) => answer::data(data, extjs),
        Err((_, failure)) => answer::failure(&failure, extjs),
    })
}

type Delayed = (Duration, Failure);

async fn respond(shared: &Shared, local: &str, plain: Plain, twist: Twist) -> Result<Data, Delayed> {
    let at_once = |failure: Failure| (Duration::ZERO, failure);
    let path = plain.path.clone();
    let found = routes::find(&plain.method, &path);
    let open = found.as_ref().is_some_and(|(route, _)| route.open);
    let caller = match shared.read(|world, now| caller::identify(&world.hypervisor.access, &plain, now)) {
        Ok(caller) => caller,
        Err(_) if open => String::new(),
        Err(words) => return Err((UNWELCOME, Failure::empty(401, words))),
    };
    let Some((route, captured)) = found else {
        return Err(at_once(Failure::not_implemented(&plain.method, &path)));
    };
    let named = captured.get("node").cloned();
    let mut params = plain.params;
    for (name, value) in captured {
        if params.one(&name).is_some_and(|given| given != value) {
            let text = "duplicate parameter (already defined in URI) with conflicting values!";
            return Err(at_once(Failure::parameters(vec![(name, text.to_owned())])));
        }
        params.put(name, value);
    }
    let rules = schema::method(plain.method.as_str(), route.path);
    let version = shared.read(|world, _| world.hypervisor.version);
    if rules.is_some_and(|rules| rules.since > version) {
        return Err(at_once(Failure::not_implemented(&plain.method, &path)));
    }
    if caller.contains('!') && rules.is_some_and(|rules| !rules.token) {
        let text = format!("URI '{path}' not available with API token, need proper ticket.\n");
        return Err(at_once(Failure::of(403, format!("Permission check failed ({text})"))));
    }
    let allowed = |rules: &schema::Method| {
        shared.read(|world, _| permission::check(&world.hypervisor.access, rules, &caller, &params))
    };
    if let Some(Err(detail)) = rules.map(allowed) {
        let text = permission::words(&detail);
        // Of an upload nothing but the head was read when its caller is turned away.
        let failure = if plain.upload.is_some() { Failure::empty(403, text) } else { Failure::of(403, text) };
        return Err(at_once(failure));
    }
    let node = target(shared, local, named.as_deref())?;
    if let Some(Err(errors)) = rules.map(|rules| params.check(rules, version)) {
        return Err(at_once(Failure::parameters(errors)));
    }
    let call = Call {
        node,
        local: local.to_owned(),
        caller,
        method: plain.method.to_string(),
        path: route.path,
        params,
        upload: plain.upload,
    };
    let lost = shared.read(|world, _| !world.hypervisor.quorate()).then(|| quorum::lost(&call)).flatten();
    match lost {
        Some(quorum::Lost::Answer(text)) => return Err(at_once(Failure::of(500, text))),
        Some(quorum::Lost::Task(text)) => return doomed(shared, &call, text),
        None => {}
    }
    if let Twist::Doomed(text) = twist {
        return doomed(shared, &call, faults::fill(text, &path, call.get("vmid")));
    }
    twisted::run(shared, &route, &call, twist).await.map_err(|(delay, failure)| match failure {
        Some(failure) => (delay, failure),
        None => (delay, Failure::not_implemented(&plain.method, &path)),
    })
}

/// Starts the task that a call would start, and lets it fail; a call that starts none fails itself.
fn doomed(shared: &Shared, call: &Call, text: String) -> Result<Data, Delayed> {
    let Some((kind, names)) = tasks::kind(&call.method, call.path) else {
        return Err((Duration::ZERO, Failure::of(500, text)));
    };
    let begin = |world: &mut World| {
        let work = Work::Doomed(text);
        work::begin(world, &call.node, kind, call.text(names), &call.caller, work)
    };
    Ok(serde_json::json!(shared.with(|world, _| begin(world))).into())
}

/// The node that must answer: the one named in the path, or the one that was called.
fn target(shared: &Shared, local: &str, named: Option<&str>) -> Result<String, Delayed> {
    let Some(node) = named.filter(|node| *node != "localhost") else { return Ok(local.to_owned()) };
    match shared.read(|world, _| world.hypervisor.hosts.get(node).map(|host| host.online)) {
        Some(true) => Ok(node.to_owned()),
        Some(false) => Err((NO_ROUTE, Failure::empty(595, "No route to host"))),
        None => {
            let text = format!(
                "hostname lookup '{node}' failed - failed to get address info for: {node}: Name or service not known"
            );
            Err((Duration::ZERO, Failure::of(500, text)))
        }
    }
}

/// Runs the endpoint; waits for another task's lock as long as the real one would.
///
/// No failure means that nothing here can carry the call out.
async fn run(shared: &Shared, route: &Route, call: &Call) -> Result<Data, (Duration, Option<Failure>)> {
    let at_once = |failure: Failure| (Duration::ZERO, Some(failure));
    let give_up = configure::patience_ends(shared.clock().now());
    loop {
        let result = match route.handler {
            Handler::Read(read) => shared.read(|world, _| read(world, call)),
            Handler::Write(write) => shared.with(|world, _| write(world, call)),
        };
        match result {
            Ok(data) => return Ok(data),
            Err(Refusal::Busy(_)) if shared.clock().now() < give_up => {
                shared.clock().sleep(work::LOCK_RETRY).await;
            }
            Err(Refusal::Busy(vmid)) => return Err(at_once(Failure::of(500, lock_timeout(vmid)))),
            Err(Refusal::Failed(text)) => return Err(at_once(Failure::of(500, text))),
            Err(Refusal::FailedAfter(delay, text)) => return Err((delay, Some(Failure::of(500, text)))),
            Err(Refusal::Forbidden(text)) => return Err(at_once(Failure::of(403, text))),
            Err(Refusal::Unauthorized(text)) => return Err((UNWELCOME, Some(Failure::of(401, text)))),
            Err(Refusal::Parameters(errors)) => return Err(at_once(Failure::parameters(errors))),
            Err(Refusal::Unserved) => return Err((Duration::ZERO, None)),
        }
    }
}

/// Methods that exist at all.
fn known(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::POST | Method::PUT | Method::DELETE)
}

#[cfg(test)]
mod tests;
