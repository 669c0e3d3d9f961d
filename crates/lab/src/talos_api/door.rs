//! The door of the API: which services and methods a release has, who may call them, and requests meant for other
//! machines.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use tonic::Status;
use tonic::body::Body;

use super::{Caller, fan_out};
use crate::machine::{Kind, Machine, PortState, TALOS_PORT};

const ADMIN: &str = "os:admin";
const OPERATOR: &str = "os:operator";
const READER: &str = "os:reader";
const BACKUP: &str = "os:etcd:backup";
const META: &str = "os:meta:writer";
const VERIFIER: &str = "os:image:verifier";
const IMPERSONATOR: &str = "os:impersonator";

/// Administrators only.
const A: &[&str] = &[ADMIN];
/// Operators too.
const AO: &[&str] = &[ADMIN, OPERATOR];
/// Readers too.
const AOR: &[&str] = &[ADMIN, OPERATOR, READER];
/// And who makes backups of etcd.
const AORE: &[&str] = &[ADMIN, OPERATOR, READER, BACKUP];

/// A method and the roles that may call it.
type Method = (&'static str, &'static [&'static str]);

/// A service: its name, the first release that has it, its methods.
type Service = (&'static str, u32, &'static [Method]);

const SERVICES: &[Service] = &[
    (
        "machine.MachineService",
        10,
        &[
            ("ApplyConfiguration", &[ADMIN, READER]),
            ("Bootstrap", A),
            ("CPUFreqStats", AOR),
            ("CPUInfo", AOR),
            ("Containers", AOR),
            ("Copy", A),
            ("DiskStats", AOR),
            ("DiskUsage", AOR),
            ("Dmesg", AOR),
            ("EtcdAlarmDisarm", AO),
            ("EtcdAlarmList", AORE),
            ("EtcdDefragment", AO),
            ("EtcdDowngradeCancel", A),
            ("EtcdDowngradeEnable", A),
            ("EtcdDowngradeValidate", A),
            ("EtcdForfeitLeadership", A),
            ("EtcdLeaveCluster", A),
            ("EtcdMemberList", AORE),
            ("EtcdRecover", A),
            ("EtcdRemoveMemberByID", A),
            ("EtcdSnapshot", &[ADMIN, OPERATOR, BACKUP]),
            ("EtcdStatus", AORE),
            ("Events", AOR),
            ("GenerateClientConfiguration", A),
            ("GenerateConfiguration", A),
            ("Hostname", AOR),
            ("ImageList", AOR),
            ("ImagePull", AO),
            ("Kubeconfig", A),
            ("List", AOR),
            ("LoadAvg", AOR),
            ("Logs", AOR),
            ("LogsContainers", AOR),
            ("Memory", AOR),
            ("MetaDelete", &[ADMIN, META]),
            ("MetaWrite", &[ADMIN, META]),
            ("Mounts", AOR),
            ("Netstat", AOR),
            ("NetworkDeviceStats", AOR),
            ("PacketCapture", AO),
            ("Processes", AOR),
            ("Read", A),
            ("Reboot", AO),
            ("Reset", A),
            ("Restart", AO),
            ("Rollback", A),
            ("ServiceList", AOR),
            ("ServiceRestart", AO),
            ("ServiceStart", AO),
            ("ServiceStop", AO),
            ("Shutdown", AO),
            ("Stats", AOR),
            ("SystemStat", AOR),
            ("Upgrade", A),
            ("Version", AOR),
        ],
    ),
    (
        "machine.ImageService",
        13,
        &[
            ("List", AOR),
            ("Pull", AO),
            ("Import", A),
            ("Remove", A),
            ("Verify", &[ADMIN, OPERATOR, READER, VERIFIER]),
        ],
    ),
    ("machine.LifecycleService", 13, &[("Install", A), ("Upgrade", A)]),
    ("machine.DebugService", 13, &[("ContainerRun", A)]),
    (
        "machine.LVMService",
        14,
        &[
            ("LogicalVolumeRemove", &[ADMIN, READER]),
            ("VolumeGroupRemove", &[ADMIN, READER]),
            ("PhysicalVolumeRemove", &[ADMIN, READER]),
        ],
    ),
    ("machine.MDService", 14, &[("Destroy", &[ADMIN, READER])]),
    ("storage.StorageService", 10, &[("Disks", AOR), ("BlockDeviceWipe", &[ADMIN, READER])]),
    ("time.TimeService", 10, &[("Time", AOR), ("TimeCheck", AOR)]),
    ("cluster.ClusterService", 10, &[("HealthCheck", AOR)]),
    ("inspect.InspectService", 10, &[("ControllerRuntimeDependencies", AOR)]),
    (
        "cosi.resource.State",
        10,
        &[("Get", AOR), ("List", AOR), ("Watch", AOR), ("Create", A), ("Update", A), ("Destroy", A)],
    ),
];

/// The paths of all methods of all releases.
#[cfg(test)]
pub(crate) fn methods() -> Vec<String> {
    let paths = |(service, _, methods): &Service| {
        methods.iter().map(|(method, _)| format!("/{service}/{method}")).collect::<Vec<_>>()
    };
    SERVICES.iter().flat_map(paths).collect()
}

/// The services that pass a request on to several machines.
const FAN_OUT: &[&str] = &[
    "machine.MachineService",
    "cluster.ClusterService",
    "inspect.InspectService",
    "storage.StorageService",
    "time.TimeService",
];

/// What is said by a machine that cannot serve any more and still listens.
const NO_MACHINED: &str = "connection error: desc = \"transport: Error while dialing: dial unix /system/run/machined/machine.sock: connect: no such file or directory\"";

/// Answers one request.
pub(super) async fn enter<B>(caller: Caller, request: Request<B>) -> Response<Body>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let caller = impersonate(caller, &request);
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let (service, method) = path.split_once('/').unwrap_or((path.as_str(), ""));
    match targets(&caller, request.headers(), service, &path) {
        Err(status) => status.into_http(),
        Ok(Target::Own) => serve(caller, service, method, request).await,
        Ok(Target::One(name)) => match find(&caller, &name).await {
            Ok(caller) => serve(caller, service, method, request).await,
            Err(status) => status.into_http(),
        },
        Ok(Target::Many(names)) => fan_out::answer(caller, names, request).await,
    }
}

/// Lets the machine behind `caller` answer, if it has the method and the caller may call it there.
pub(super) async fn serve<B>(
    caller: Caller,
    service: &str,
    method: &str,
    request: Request<B>,
) -> Response<Body>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (gone, minor) = caller.read(|machines, _| {
        let machine = machines.get(caller.vmid);
        let gone = machine.is_none_or(|m| m.node().is_some_and(|node| node.stopped()));
        (gone, machine.map_or(0, |m| m.profile().minor))
    });
    if gone {
        return Status::unavailable(NO_MACHINED).into_http();
    }
    if let Err(status) = admit(&caller, service, method) {
        return status.into_http();
    }
    let now = caller.shared.clock().now();
    let path = request.uri().path().to_owned();
    caller.shared.with_quiet(|world| world.machines.note_call(caller.vmid, &path, &caller.roles, now));
    caller.shared.tell_followers();
    // What needs no answer of its own: nothing of the kind exists in the lab.
    let fixed = match (service, method) {
        ("machine.MachineService", "GenerateConfiguration") if minor <= 12 => {
            Some(Status::unknown("invalid generate request"))
        }
        ("machine.DebugService", _) => Some(Status::invalid_argument("expected debug container spec")),
        ("machine.LVMService" | "machine.MDService", _) => Some(Status::not_found("no such volume")),
        _ => None,
    };
    if let Some(status) = fixed {
        // The caller's message is taken first, as a server does that looks at it.
        let _ = request.into_body().collect().await;
        return status.into_http();
    }
    caller.dispatch(service, request).await
}

/// Machines forward requests with a certificate of their own and name the roles of the one who asked.
fn impersonate<B>(mut caller: Caller, request: &Request<B>) -> Caller {
    let named = request.headers().get_all("talos-role").iter().filter_map(|value| value.to_str().ok());
    let named: Vec<String> = named.map(str::to_owned).collect();
    if !caller.maintenance && caller.has(IMPERSONATOR) && !named.is_empty() {
        caller.roles = named.into();
    }
    caller
}

fn admit(caller: &Caller, service: &str, method: &str) -> Result<(), Status> {
    let minor = caller.read(|machines, _| machines.get(caller.vmid).map_or(13, |m| m.profile().minor));
    let old_server = caller.maintenance && minor <= 12;
    let of_old_server =
        ["machine.MachineService", "storage.StorageService", "cosi.resource.State"].contains(&service);
    let known = SERVICES.iter().find(|(name, since, _)| *name == service && *since <= minor);
    let Some((_, _, methods)) = known.filter(|_| !old_server || of_old_server) else {
        return Err(Status::unimplemented(format!("unknown service {service}")));
    };
    let gone = minor >= 13 && method == "GenerateConfiguration";
    let Some((_, roles)) = methods.iter().find(|(name, _)| *name == method && !gone) else {
        return Err(Status::unimplemented(format!("unknown method {method} for service {service}")));
    };
    if service == "cosi.resource.State" && ["Create", "Update", "Destroy"].contains(&method) {
        let readable = old_server || caller.has(ADMIN);
        let words = if readable { "write access is not allowed" } else { "not authorized" };
        return Err(Status::permission_denied(words));
    }
    if old_server {
        return old_maintenance(service, method);
    }
    if !roles.iter().any(|role| caller.has(role)) {
        return Err(Status::permission_denied("not authorized"));
    }
    // Readers may configure a machine that has no configuration and wipe its disks, and those of no other. In 1.12 the right to
    // write META was not given to anybody else either.
    let only_in_maintenance = ["ApplyConfiguration", "BlockDeviceWipe"].contains(&method);
    let only_admin = only_in_maintenance && !caller.maintenance || minor <= 12 && method.starts_with("Meta");
    if only_admin && !caller.has(ADMIN) {
        return Err(Status::permission_denied("not authorized"));
    }
    Ok(())
}

/// The small server that releases up to 1.12 have in maintenance.
fn old_maintenance(service: &str, method: &str) -> Result<(), Status> {
    if service != "machine.MachineService" {
        return Ok(());
    }
    match method {
        "ApplyConfiguration" | "GenerateConfiguration" => Ok(()),
        "Version" | "Upgrade" | "Reset" | "MetaWrite" | "MetaDelete" => {
            Err(Status::unimplemented("API is not implemented in maintenance mode"))
        }
        "GenerateClientConfiguration" => Err(Status::unimplemented(
            "client configuration (talosconfig) can't be generated in the maintenance mode",
        )),
        other => Err(Status::unimplemented(format!("method {other} not implemented"))),
    }
}

/// Whom a request is meant for.
enum Target {
    Own,
    One(String),
    Many(Vec<String>),
}

/// What the headers say. In maintenance they are not read; a request that was passed on already is served here. A worker
/// passes nothing on: it serves what names itself alone.
fn targets(caller: &Caller, headers: &http::HeaderMap, service: &str, path: &str) -> Result<Target, Status> {
    let values = |key: &str| -> Vec<String> {
        headers.get_all(key).iter().map(|value| value.to_str().unwrap_or_default().to_owned()).collect()
    };
    if caller.maintenance || headers.contains_key("proxyfrom") {
        return Ok(Target::Own);
    }
    let (mut one, mut many) = (values("node"), values("nodes"));
    if one.len() > 1 {
        return Err(Status::invalid_argument("node metadata must be single-valued"));
    }
    let (forwards, minor) = caller.read(|machines, _| {
        let machine = machines.get(caller.vmid);
        let forwards = machine.and_then(|m| m.node()).is_some_and(|node| node.is_control_plane());
        (forwards, machine.map_or(13, |m| m.profile().minor))
    });
    let own =
        |name: &String| caller.read(|machines, _| machines.get(caller.vmid).is_some_and(|m| is_own(m, name)));
    if !forwards {
        one.retain(|name| !own(name));
        if matches!(many.as_slice(), [only] if own(only)) {
            many.clear();
        }
    }
    if !many.is_empty() {
        let refused = if minor <= 12 { service.starts_with("cosi.") } else { !FAN_OUT.contains(&service) };
        let what = if minor <= 12 { "COSI methods".to_owned() } else { format!("method /{path}") };
        if refused {
            let words = format!("one-2-many proxying is not supported for {what}");
            return Err(Status::invalid_argument(words));
        }
    }
    let elsewhere = !one.is_empty() || !many.is_empty();
    if elsewhere && !forwards {
        return Err(Status::permission_denied("no request forwarding"));
    }
    let named = if many.is_empty() { &one } else { &many };
    let wrong =
        |name: &&String| name.is_empty() || name.contains(':') && name.parse::<std::net::Ipv6Addr>().is_err();
    if let Some(name) = named.iter().find(wrong) {
        return Err(Status::internal(format!("invalid target {name:?}")));
    }
    Ok(match one.pop() {
        _ if !many.is_empty() => Target::Many(many),
        Some(name) => Target::One(name),
        None => Target::Own,
    })
}

/// Whether a name or an address is the machine's own.
fn is_own(machine: &Machine, name: &str) -> bool {
    machine.hostname() == name
        || machine.own_addresses().iter().any(|(_, net)| net.addr().to_string() == name)
}

/// The machine that `caller`'s machine, a control plane, reaches under a name.
pub(super) async fn find(caller: &Caller, name: &str) -> Result<Caller, Status> {
    let unavailable =
        |words: &str| Status::unavailable(format!("connection error: desc = \"transport: {words}\""));
    let refused =
        |why: &str| unavailable(&format!("Error while dialing: dial tcp {name}:50000: connect: {why}"));
    let found = caller.read(|machines, _| {
        let own = machines.get(caller.vmid).ok_or_else(|| Status::unavailable(NO_MACHINED))?;
        if is_own(own, name) {
            return Ok(Some(caller.vmid));
        }
        let Some(node) = own.node() else { return Err(Status::unavailable(NO_MACHINED)) };
        let authority = &node.settings.talos_ca.crt;
        if name.contains(',') {
            return Err(Status::unavailable("name resolver error: produced zero addresses"));
        }
        let Ok(address) = name.parse() else {
            return Err(Status::unavailable(format!("dns: A record lookup error: lookup {name}: no such host")));
        };
        let unknown_authority = || unavailable("authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority");
        match machines.port(address, TALOS_PORT) {
            PortState::Open(listener) if listener.kind == Kind::Api => {
                let theirs = machines.get(listener.vmid).and_then(|m| m.node()).map(|n| &n.settings.talos_ca.crt);
                if theirs == Some(authority) { Ok(Some(listener.vmid)) } else { Err(unknown_authority()) }
            }
            PortState::Open(_) => Err(unknown_authority()),
            PortState::Refused => Err(refused("connection refused")),
            PortState::NoHost | PortState::BlackHole => Ok(None),
        }
    })?;
    match found {
        Some(vmid) => Ok(Caller { vmid, ..caller.clone() }),
        None => {
            caller.shared.clock().sleep(crate::machine::timing::NO_ROUTE).await;
            Err(refused("no route to host"))
        }
    }
}
