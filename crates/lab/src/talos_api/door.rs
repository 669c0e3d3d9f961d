//! The door of the API: unknown services and methods, roles, and requests meant for another machine.

use bytes::Bytes;
use http::{Request, Response};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::ServiceExt as _;

use super::Caller;
use crate::machine::{Kind, PortState, TALOS_PORT};

const ADMIN: &str = "os:admin";
const OPERATOR: &str = "os:operator";
const READER: &str = "os:reader";
const BACKUP: &str = "os:etcd:backup";
const IMPERSONATOR: &str = "os:impersonator";

/// Administrators only.
const A: &[&str] = &[ADMIN];
/// Operators too.
const AO: &[&str] = &[ADMIN, OPERATOR];
/// Readers too.
const AOR: &[&str] = &[ADMIN, OPERATOR, READER];
/// And who makes backups of etcd.
const AORE: &[&str] = &[ADMIN, OPERATOR, READER, BACKUP];
/// Any role at all: the service looks closer.
const ANY: &[&str] = &[ADMIN, OPERATOR, READER];

/// Name, roles that may call it, whether the lab answers.
type Method = (&'static str, &'static [&'static str], bool);

/// Services, their methods, who may call them, and whether the lab answers.
const SERVICES: &[(&str, &[Method])] = &[
    (
        "machine.MachineService",
        &[
            ("ApplyConfiguration", &[ADMIN, READER], true),
            ("Bootstrap", A, true),
            ("Kubeconfig", A, true),
            ("Version", AOR, true),
            ("Hostname", AOR, true),
            ("ServiceList", AOR, true),
            ("List", AOR, true),
            ("Logs", AOR, true),
            ("Dmesg", AOR, true),
            ("Reboot", AO, true),
            ("Shutdown", AO, true),
            ("Reset", A, true),
            ("EtcdMemberList", AORE, true),
            ("EtcdStatus", AORE, true),
            ("EtcdAlarmList", AORE, true),
            ("Read", A, true),
            ("ServiceStart", AO, false),
            ("ServiceStop", AO, false),
            ("ServiceRestart", AO, false),
            ("Events", AOR, true),
            ("Rollback", A, false),
            ("Upgrade", A, false),
            ("EtcdAlarmDisarm", AO, false),
            ("EtcdDefragment", AO, false),
            ("EtcdSnapshot", &[ADMIN, OPERATOR, BACKUP], false),
            ("EtcdRecover", A, false),
            ("EtcdLeaveCluster", A, false),
            ("EtcdForfeitLeadership", A, false),
            ("EtcdRemoveMemberByID", A, false),
            ("EtcdDowngradeValidate", A, false),
            ("EtcdDowngradeEnable", A, false),
            ("EtcdDowngradeCancel", A, false),
            ("Copy", A, false),
            ("MetaWrite", A, false),
            ("MetaDelete", A, false),
            ("GenerateClientConfiguration", A, false),
            ("Restart", AO, false),
            ("ImagePull", AO, false),
            ("PacketCapture", AO, false),
            ("SystemStat", AOR, false),
        ],
    ),
    (
        "machine.ImageService",
        &[("List", AOR, false), ("Pull", AO, false), ("Import", A, false), ("Remove", A, false)],
    ),
    ("machine.LifecycleService", &[("Install", A, false), ("Upgrade", A, false)]),
    ("machine.DebugService", &[("ContainerRun", A, false)]),
    ("storage.StorageService", &[("Disks", AOR, true), ("BlockDeviceWipe", &[ADMIN, READER], false)]),
    ("time.TimeService", &[("Time", AOR, true), ("TimeCheck", AOR, true)]),
    ("cluster.ClusterService", &[("HealthCheck", AOR, true)]),
    (
        "cosi.resource.State",
        &[
            ("Get", ANY, true),
            ("List", ANY, true),
            ("Watch", ANY, true),
            ("Create", A, true),
            ("Update", A, true),
            ("Destroy", A, true),
        ],
    ),
];

/// Answers one request.
pub(super) async fn enter<B>(caller: Caller, request: Request<B>) -> Response<Body>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let caller = impersonate(caller, &request);
    match admit(&caller, &request).and_then(|()| redirect(caller, &request)) {
        Ok(caller) => match caller.routes().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        },
        Err(status) => status.into_http(),
    }
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

fn admit<B>(caller: &Caller, request: &Request<B>) -> Result<(), Status> {
    let mut parts = request.uri().path().trim_start_matches('/').splitn(2, '/');
    let (service, method) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let methods = SERVICES.iter().find(|(name, _)| *name == service).map(|(_, methods)| *methods);
    let methods = methods.ok_or_else(|| Status::unimplemented(format!("unknown service {service}")))?;
    let unknown = || Status::unimplemented(format!("unknown method {method} for service {service}"));
    let (_, roles, served) = methods.iter().find(|(name, _, _)| *name == method).ok_or_else(unknown)?;
    if !roles.iter().any(|role| caller.has(role)) {
        return Err(Status::permission_denied("not authorized"));
    }
    // Readers may configure a machine that has no configuration, and no other.
    if method == "ApplyConfiguration" && !caller.maintenance && !caller.has(ADMIN) {
        return Err(Status::permission_denied("not authorized"));
    }
    if service == "cosi.resource.State" && ["Create", "Update", "Destroy"].contains(&method) {
        return Err(Status::permission_denied("write access is not allowed"));
    }
    if *served { Ok(()) } else { Err(unknown()) }
}

/// A request that names a node goes there: control planes forward, workers do not. In maintenance nobody looks at it.
fn redirect<B>(mut caller: Caller, request: &Request<B>) -> Result<Caller, Status> {
    let values: Vec<_> = ["node", "nodes"].iter().flat_map(|key| request.headers().get_all(*key)).collect();
    if caller.maintenance || values.is_empty() {
        return Ok(caller);
    }
    let [value] = values.as_slice() else {
        return Err(Status::invalid_argument("node metadata must be single-valued"));
    };
    let target = value.to_str().unwrap_or_default();
    let found = caller.read(|machines, _| {
        let own = machines.get(caller.vmid).ok_or_else(|| Status::unavailable("the machine is gone"))?;
        let mine = own.hostname() == target || own.own_addresses().iter().any(|(_, net)| net.addr().to_string() == target);
        if mine {
            return Ok(caller.vmid);
        }
        if !own.node().is_some_and(|node| node.is_control_plane()) {
            return Err(Status::permission_denied("no request forwarding"));
        }
        let Ok(address) = target.parse() else {
            return Err(Status::new(Code::Internal, format!("invalid target {target:?}")));
        };
        match machines.port(address, TALOS_PORT) {
            PortState::Open(listener) if listener.kind == Kind::Api => Ok(listener.vmid),
            _ => Err(Status::unavailable(format!(
                "connection error: desc = \"transport: Error while dialing: dial tcp {target}:50000: connect: connection refused\""
            ))),
        }
    })?;
    caller.vmid = found;
    Ok(caller)
}
