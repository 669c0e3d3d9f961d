//! The endpoints that this lab serves: path, parameters, and the function that answers.

use std::collections::BTreeMap;

use http::Method;

use super::answer::Data;
use super::request::{Call, decode};
use super::{access, agent, cluster, nodes, storage, tasks, vms};
use crate::hypervisor::options::VM_ID;
use crate::hypervisor::refusal::Refusal;
use crate::schema::{COUNT, Field, Kind, TEXT, field, required, with};
use crate::world::World;

/// One endpoint.
pub(super) struct Route {
    method: &'static str,
    pub(super) path: &'static str,
    pub(super) fields: &'static [Field],
    /// Whether the options of a VM's configuration are parameters too.
    pub(super) vm_options: bool,
    /// Whether it can be called by anybody.
    pub(super) open: bool,
    pub(super) handler: Handler,
}

/// What answers.
pub(super) enum Handler {
    Read(fn(&World, &Call) -> Result<Data, Refusal>),
    Write(fn(&mut World, &Call) -> Result<Data, Refusal>),
}

const fn get(
    path: &'static str,
    fields: &'static [Field],
    handler: fn(&World, &Call) -> Result<Data, Refusal>,
) -> Route {
    Route { method: "GET", path, fields, vm_options: false, open: false, handler: Handler::Read(handler) }
}

const fn write(
    method: &'static str,
    path: &'static str,
    fields: &'static [Field],
    handler: fn(&mut World, &Call) -> Result<Data, Refusal>,
) -> Route {
    Route { method, path, fields, vm_options: false, open: false, handler: Handler::Write(handler) }
}

const NONE: &[Field] = &[];
const PATIENCE: Field = field("timeout", COUNT);
const SKIPLOCK: Field = field("skiplock", Kind::Bool);
const NETWORKS: &[&str] = &[
    "bridge",
    "bond",
    "eth",
    "alias",
    "vlan",
    "fabric",
    "OVSBridge",
    "OVSBond",
    "OVSPort",
    "OVSIntPort",
    "vnet",
    "any_bridge",
    "any_local_bridge",
    "include_sdn",
];
const CREATE: &[Field] = &[
    required("vmid", VM_ID),
    field("archive", Kind::Text(255)),
    field("bwlimit", COUNT),
    with("force", Kind::Bool, "archive"),
    field("ha-managed", Kind::Bool),
    field("import-working-storage", TEXT),
    field("live-restore", Kind::Bool),
    field("pool", TEXT),
    field("start", Kind::Bool),
    field("storage", TEXT),
    with("unique", Kind::Bool, "archive"),
];
const CHANGE: &[Field] = &[
    field("background_delay", Kind::Int(Some(1), Some(30))),
    field("delete", TEXT),
    field("digest", Kind::Text(40)),
    with("force", Kind::Bool, "delete"),
    field("import-working-storage", TEXT),
    field("revert", TEXT),
    SKIPLOCK,
];
const DOWNLOAD: &[Field] = &[
    with("checksum", TEXT, "checksum-algorithm"),
    with(
        "checksum-algorithm",
        Kind::Enum(&["md5", "sha1", "sha224", "sha256", "sha384", "sha512"]),
        "checksum",
    ),
    field("compression", TEXT),
    required("content", Kind::Enum(&["iso", "vztmpl", "import"])),
    required("filename", Kind::Text(255)),
    required("url", Kind::Pattern(|url| url.starts_with("http://") || url.starts_with("https://"))),
    field("verify-certificates", Kind::Bool),
];
const TICKET: &[Field] = &[
    required("username", Kind::Text(64)),
    required("password", TEXT),
    field("new-format", Kind::Bool),
    field("otp", TEXT),
    with("path", Kind::Text(64), "privs"),
    with("privs", Kind::Text(64), "path"),
    field("realm", Kind::Text(32)),
    field("tfa-challenge", TEXT),
];
const TASKS: &[Field] = &[
    field("errors", Kind::Bool),
    field("limit", COUNT),
    field("since", Kind::Int(None, None)),
    field("source", Kind::Enum(&["archive", "active", "all"])),
    field("start", COUNT),
    field("statusfilter", TEXT),
    field("typefilter", TEXT),
    field("until", Kind::Int(None, None)),
    field("userfilter", TEXT),
    field("vmid", VM_ID),
];
const STORAGES: &[Field] = &[
    field("content", Kind::Format(storage::content_type)),
    field("enabled", Kind::Bool),
    field("format", Kind::Bool),
    field("storage", TEXT),
    field("target", TEXT),
];

const ROUTES: &[Route] = &[
    get("/", NONE, cluster::index),
    get("/version", NONE, cluster::version),
    get(
        "/cluster/resources",
        &[field("type", Kind::Enum(&["vm", "storage", "node", "sdn"]))],
        cluster::resources,
    ),
    get("/cluster/status", NONE, cluster::status),
    get("/cluster/nextid", &[field("vmid", VM_ID)], cluster::next_id),
    get("/cluster/options", NONE, cluster::options),
    get("/cluster/tasks", NONE, tasks::cluster),
    get("/nodes", NONE, nodes::list),
    get("/nodes/{node}/status", NONE, nodes::status),
    get("/nodes/{node}/version", NONE, cluster::version),
    get("/nodes/{node}/network", &[field("type", Kind::Enum(NETWORKS))], nodes::network),
    get("/nodes/{node}/storage", STORAGES, storage::list),
    get("/nodes/{node}/storage/{storage}/status", NONE, storage::status),
    get(
        "/nodes/{node}/storage/{storage}/content",
        &[field("content", Kind::Format(storage::content_type)), field("vmid", VM_ID)],
        storage::content,
    ),
    get("/nodes/{node}/storage/{storage}/content/{volume}", NONE, storage::volume),
    write(
        "DELETE",
        "/nodes/{node}/storage/{storage}/content/{volume}",
        &[field("delay", Kind::Int(Some(1), Some(30)))],
        storage::remove,
    ),
    write("POST", "/nodes/{node}/storage/{storage}/download-url", DOWNLOAD, storage::download),
    get("/nodes/{node}/tasks", TASKS, tasks::list),
    get("/nodes/{node}/tasks/{upid}/status", NONE, tasks::status),
    get(
        "/nodes/{node}/tasks/{upid}/log",
        &[field("download", Kind::Bool), field("limit", COUNT), field("start", COUNT)],
        tasks::log,
    ),
    get("/nodes/{node}/qemu", &[field("full", Kind::Bool)], vms::list),
    Route { vm_options: true, ..write("POST", "/nodes/{node}/qemu", CREATE, vms::create) },
    write(
        "DELETE",
        "/nodes/{node}/qemu/{vmid}",
        &[field("destroy-unreferenced-disks", Kind::Bool), field("purge", Kind::Bool), SKIPLOCK],
        vms::destroy,
    ),
    get(
        "/nodes/{node}/qemu/{vmid}/config",
        &[field("current", Kind::Bool), field("snapshot", Kind::Text(40))],
        vms::config,
    ),
    Route {
        vm_options: true,
        ..write("PUT", "/nodes/{node}/qemu/{vmid}/config", CHANGE, vms::configure_now)
    },
    Route {
        vm_options: true,
        ..write("POST", "/nodes/{node}/qemu/{vmid}/config", CHANGE, vms::configure_later)
    },
    get("/nodes/{node}/qemu/{vmid}/pending", NONE, vms::pending),
    get(
        "/nodes/{node}/qemu/{vmid}/cloudinit/dump",
        &[required("type", Kind::Enum(&["user", "network", "meta"]))],
        vms::cloudinit_dump,
    ),
    write(
        "PUT",
        "/nodes/{node}/qemu/{vmid}/resize",
        &[
            required("disk", Kind::Pattern(|disk| crate::hypervisor::options::drive_props(disk).is_some())),
            required("size", Kind::Pattern(vms::is_new_size)),
            field("digest", Kind::Text(40)),
            SKIPLOCK,
        ],
        vms::resize,
    ),
    get("/nodes/{node}/qemu/{vmid}/status/current", NONE, vms::status),
    write(
        "POST",
        "/nodes/{node}/qemu/{vmid}/status/start",
        &[field("force-cpu", TEXT), field("machine", TEXT), PATIENCE, SKIPLOCK],
        vms::start,
    ),
    write(
        "POST",
        "/nodes/{node}/qemu/{vmid}/status/stop",
        &[field("keepActive", Kind::Bool), field("overrule-shutdown", Kind::Bool), PATIENCE, SKIPLOCK],
        vms::stop,
    ),
    write(
        "POST",
        "/nodes/{node}/qemu/{vmid}/status/shutdown",
        &[field("forceStop", Kind::Bool), field("keepActive", Kind::Bool), PATIENCE, SKIPLOCK],
        vms::shutdown,
    ),
    write("POST", "/nodes/{node}/qemu/{vmid}/status/reboot", &[PATIENCE], vms::reboot),
    write("POST", "/nodes/{node}/qemu/{vmid}/status/reset", &[SKIPLOCK], vms::reset),
    write("POST", "/nodes/{node}/qemu/{vmid}/agent/ping", NONE, agent::ping),
    get("/nodes/{node}/qemu/{vmid}/agent/network-get-interfaces", NONE, agent::interfaces),
    get("/access/permissions", &[field("path", TEXT), field("userid", TEXT)], access::permissions),
    Route { open: true, ..write("POST", "/access/ticket", TICKET, access::ticket) },
];

/// The endpoint for a request, with the parts of the path that have names, decoded.
pub(super) fn find(method: &Method, path: &str) -> Option<(&'static Route, BTreeMap<String, String>)> {
    ROUTES
        .iter()
        .filter(|route| route.method == method.as_str())
        .find_map(|route| Some((route, fit(route.path, path)?)))
}

fn fit(pattern: &str, path: &str) -> Option<BTreeMap<String, String>> {
    let mut captured = BTreeMap::new();
    let mut given = path.split('/').filter(|segment| !segment.is_empty());
    for wanted in pattern.split('/').filter(|segment| !segment.is_empty()) {
        let segment = given.next()?;
        match wanted.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            // A volume may hold slashes that nobody encoded.
            Some("volume") => {
                let rest: Vec<&str> = std::iter::once(segment).chain(given.by_ref()).collect();
                captured.insert("volume".to_owned(), decode(&rest.join("/"), false));
            }
            Some(name) => drop(captured.insert(name.to_owned(), decode(segment, false))),
            None if wanted == segment => {}
            None => return None,
        }
    }
    given.next().is_none().then_some(captured)
}
