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
mod firewall;
mod ha;
mod mapping;
mod nodes;
mod permission;
mod pools;
mod request;
mod routes;
mod snapshots;
mod storage;
mod tasks;
mod tokens;
mod upload;
mod vms;

use std::sync::Arc;
use std::time::Duration;

use ambient::Stream;
use http::{Method, Request};
use hyper::body::Incoming;

use crate::faults::{self, CallFault, Shows};
use crate::https::{Answer, Cut};
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::{configure, tasks as work};
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
/// How long it takes to notice that another host is off.
const NO_ROUTE: Duration = Duration::from_secs(3);

/// Serves one connection to the host `node`.
pub(crate) async fn serve(shared: Arc<Shared>, node: String, stream: Stream) {
    let identity = shared.peek(|world| world.hypervisor.hosts.get(&node).map(|host| host.identity.clone()));
    let Some(Ok(tls)) = identity.map(|identity| identity.server_config(&node)) else { return };
    let clock = shared.clock().clone();
    crate::https::serve(clock, tls, stream, IDLE, |request| answer(&shared, &node, request)).await;
}

/// Answers one request, with hooks around it.
async fn answer(shared: &Shared, node: &str, request: Request<Incoming>) -> Result<Answer, Cut> {
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    shared.hooks().around(&method, &path, answer_or_fail(shared, node, request)).await
}

/// Answers truly, unless this call was to fail.
async fn answer_or_fail(shared: &Shared, node: &str, request: Request<Incoming>) -> Result<Answer, Cut> {
    let fault = shared.with_quiet(|world| world.faults.meet(request.method().as_str(), request.uri().path()));
    match fault {
        Some(CallFault::Fail { status, text }) => Ok(answer::failed(status, &text)),
        Some(CallFault::Cut { after: false }) => Err(Cut),
        Some(CallFault::Cut { after: true }) => {
            carry_out(shared, node, request, None).await?;
            Err(Cut)
        }
        Some(CallFault::Known(number)) => known_failure(shared, node, request, number).await,
        None => carry_out(shared, node, request, None).await,
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
            carry_out(shared, node, request, None).await?;
            Ok(fail(status, text, seconds).await)
        }
        Some(Shows::Task(text)) => carry_out(shared, node, request, Some(text)).await,
        Some(Shows::Cut(after)) => {
            if after {
                carry_out(shared, node, request, None).await?;
            }
            Err(Cut)
        }
        None => carry_out(shared, node, request, None).await,
    }
}

/// Carries a request out. With `doom`, the task that it would begin fails with that text and does nothing.
async fn carry_out(
    shared: &Shared,
    node: &str,
    request: Request<Incoming>,
    doom: Option<&str>,
) -> Result<Answer, Cut> {
    let plain = match request::read(request).await? {
        Ok(plain) => plain,
        Err(failure) => return Ok(answer::failure(&failure, false)),
    };
    let extjs = plain.extjs;
    match respond(shared, node, plain, doom).await {
        Ok(data) => Ok(answer::data(&data, extjs)),
        Err((delay, failure)) => {
            shared.clock().sleep(delay).await;
            Ok(answer::failure(&failure, extjs))
        }
    }
}

type Delayed = (Duration, Failure);

async fn respond(shared: &Shared, local: &str, plain: Plain, doom: Option<&str>) -> Result<Data, Delayed> {
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
    if let Some(Err(errors)) = rules.map(|rules| params.check(rules)) {
        return Err(at_once(Failure::parameters(errors)));
    }
    let call = Call { node, local: local.to_owned(), caller, params, upload: plain.upload };
    if let Some(text) = doom {
        let text = faults::fill(text, &path, call.get("vmid"));
        return match tasks::kind(plain.method.as_str(), route.path) {
            Some((kind, names)) => {
                let id = call.text(names);
                let begin = |world: &mut World| {
                    let work = work::Work::Doomed(text);
                    work::begin(world, &call.node, kind, id, &call.caller, work)
                };
                Ok(serde_json::json!(shared.with(|world, _| begin(world))).into())
            }
            None => Err(at_once(Failure::of(500, text))),
        };
    }
    run(shared, route, &call).await
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
async fn run(shared: &Shared, route: &Route, call: &Call) -> Result<Data, Delayed> {
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
            Err(Refusal::Busy(vmid)) => {
                return Err((Duration::ZERO, Failure::of(500, work::lock_timeout(vmid))));
            }
            Err(Refusal::Failed(text)) => return Err((Duration::ZERO, Failure::of(500, text))),
            Err(Refusal::FailedAfter(delay, text)) => return Err((delay, Failure::of(500, text))),
            Err(Refusal::Forbidden(text)) => return Err((Duration::ZERO, Failure::of(403, text))),
            Err(Refusal::Unauthorized(text)) => return Err((UNWELCOME, Failure::of(401, text))),
            Err(Refusal::Parameters(errors)) => return Err((Duration::ZERO, Failure::parameters(errors))),
        }
    }
}

/// Methods that exist at all.
fn known(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::POST | Method::PUT | Method::DELETE)
}

#[cfg(test)]
mod tests;
