//! Which function answers a call. What each takes and who may call it is in the table made from the server's schema; a call
//! of that table that has no row here is answered by the rules of `kept`.

use std::collections::BTreeMap;

use http::Method;

use super::answer::Data;
use super::request::{Call, decode};
use super::{
    access, agent, cluster, console, ha, kept, mapping, network, nodes, pools, snapshots, storage, system,
    tasks, tokens, vms,
};
use crate::hypervisor::refusal::Refusal;
use crate::schema;
use crate::world::World;

/// One endpoint.
#[derive(Clone, Copy)]
pub(super) struct Route {
    method: &'static str,
    pub(super) path: &'static str,
    /// Whether it can be called by anybody.
    pub(super) open: bool,
    pub(super) handler: Handler,
}

/// What answers.
#[derive(Clone, Copy)]
pub(super) enum Handler {
    Read(fn(&World, &Call) -> Result<Data, Refusal>),
    Write(fn(&mut World, &Call) -> Result<Data, Refusal>),
}

type Writer = fn(&mut World, &Call) -> Result<Data, Refusal>;

const fn get(path: &'static str, handler: fn(&World, &Call) -> Result<Data, Refusal>) -> Route {
    Route { method: "GET", path, open: false, handler: Handler::Read(handler) }
}

const fn post(path: &'static str, handler: Writer) -> Route {
    Route { method: "POST", path, open: false, handler: Handler::Write(handler) }
}

const fn put(path: &'static str, handler: Writer) -> Route {
    Route { method: "PUT", path, open: false, handler: Handler::Write(handler) }
}

const fn delete(path: &'static str, handler: Writer) -> Route {
    Route { method: "DELETE", path, open: false, handler: Handler::Write(handler) }
}

const fn open(route: Route) -> Route {
    Route { open: true, ..route }
}

const ROUTES: &[Route] = &[
    get("/", cluster::index),
    get("/version", cluster::version),
    // The cluster
    get("/cluster", cluster::parts),
    get("/cluster/resources", cluster::resources),
    get("/cluster/status", cluster::status),
    get("/cluster/log", cluster::log),
    get("/cluster/nextid", cluster::next_id),
    get("/cluster/options", cluster::options),
    get("/cluster/tasks", tasks::cluster),
    get("/cluster/mapping/pci", mapping::list),
    post("/cluster/mapping/pci", mapping::create),
    get("/cluster/mapping/pci/{id}", mapping::read),
    put("/cluster/mapping/pci/{id}", mapping::update),
    delete("/cluster/mapping/pci/{id}", mapping::delete),
    get("/cluster/ha/resources", ha::resources),
    post("/cluster/ha/resources", ha::add),
    get("/cluster/ha/resources/{sid}", ha::resource),
    put("/cluster/ha/resources/{sid}", ha::update),
    delete("/cluster/ha/resources/{sid}", ha::remove),
    post("/cluster/ha/resources/{sid}/migrate", ha::relocate),
    post("/cluster/ha/resources/{sid}/relocate", ha::relocate),
    get("/cluster/ha/groups", ha::groups),
    post("/cluster/ha/groups", ha::no_groups),
    get("/cluster/ha/groups/{group}", ha::groups),
    put("/cluster/ha/groups/{group}", ha::no_groups),
    delete("/cluster/ha/groups/{group}", ha::no_groups),
    get("/cluster/ha/status/current", ha::status),
    put("/cluster/options", cluster::set_options),
    put("/cluster/sdn", cluster::apply_sdn),
    // Access
    get("/access", access::index),
    get("/access/permissions", access::permissions),
    open(post("/access/ticket", access::ticket)),
    open(get("/access/ticket", access::ticket_form)),
    open(get("/access/domains", access::domains)),
    get("/access/domains/{realm}", access::domain),
    post("/access/domains/{realm}/sync", access::sync),
    put("/access/password", access::password),
    get("/access/users", access::users),
    post("/access/users", access::create_user),
    get("/access/users/{userid}", access::user),
    put("/access/users/{userid}", access::update_user),
    delete("/access/users/{userid}", access::delete_user),
    get("/access/users/{userid}/token", tokens::list),
    get("/access/users/{userid}/token/{tokenid}", tokens::read),
    post("/access/users/{userid}/token/{tokenid}", tokens::create),
    put("/access/users/{userid}/token/{tokenid}", tokens::update),
    delete("/access/users/{userid}/token/{tokenid}", tokens::delete),
    get("/access/groups", access::groups),
    post("/access/groups", access::create_group),
    get("/access/groups/{groupid}", access::group),
    put("/access/groups/{groupid}", access::update_group),
    delete("/access/groups/{groupid}", access::delete_group),
    get("/access/roles", access::roles),
    post("/access/roles", access::create_role),
    get("/access/roles/{roleid}", access::role),
    put("/access/roles/{roleid}", access::update_role),
    delete("/access/roles/{roleid}", access::delete_role),
    get("/access/acl", access::acl),
    put("/access/acl", access::set_acl),
    // Pools
    get("/pools", pools::list),
    post("/pools", pools::create),
    put("/pools", pools::update),
    delete("/pools", pools::delete),
    get("/pools/{poolid}", pools::read),
    put("/pools/{poolid}", pools::update),
    delete("/pools/{poolid}", pools::delete),
    // Storage
    get("/storage", storage::definitions),
    post("/storage", storage::define),
    get("/storage/{storage}", storage::one_definition),
    put("/storage/{storage}", storage::redefine),
    delete("/storage/{storage}", storage::undefine),
    get("/nodes/{node}/storage", storage::list),
    get("/nodes/{node}/storage/{storage}", storage::index),
    get("/nodes/{node}/storage/{storage}/status", storage::status),
    get("/nodes/{node}/storage/{storage}/content", storage::content),
    post("/nodes/{node}/storage/{storage}/content", storage::allocate),
    get("/nodes/{node}/storage/{storage}/content/{volume}", storage::volume),
    delete("/nodes/{node}/storage/{storage}/content/{volume}", storage::remove),
    post("/nodes/{node}/storage/{storage}/download-url", storage::download),
    post("/nodes/{node}/storage/{storage}/upload", storage::upload),
    // Hosts
    get("/nodes", nodes::list),
    get("/nodes/{node}", nodes::index),
    get("/nodes/{node}/status", nodes::status),
    get("/nodes/{node}/version", cluster::version),
    get("/nodes/{node}/network", network::list),
    post("/nodes/{node}/network", network::create),
    put("/nodes/{node}/network", network::reload),
    delete("/nodes/{node}/network", network::revert),
    get("/nodes/{node}/network/{iface}", network::read),
    put("/nodes/{node}/network/{iface}", network::update),
    delete("/nodes/{node}/network/{iface}", network::remove),
    get("/nodes/{node}/time", system::time),
    put("/nodes/{node}/time", system::replace),
    get("/nodes/{node}/dns", system::dns),
    put("/nodes/{node}/dns", system::replace),
    get("/nodes/{node}/hosts", system::hosts),
    post("/nodes/{node}/hosts", system::set_hosts),
    get("/nodes/{node}/services", system::services),
    get("/nodes/{node}/services/{service}/state", system::service_state),
    get("/nodes/{node}/apt/versions", system::packages),
    get("/nodes/{node}/certificates/info", system::certificates),
    get("/nodes/{node}/subscription", system::subscription),
    get("/nodes/{node}/rrddata", system::figures),
    get("/nodes/{node}/capabilities/qemu/cpu", nodes::cpus),
    get("/nodes/{node}/capabilities/qemu/machines", nodes::machines),
    get("/nodes/{node}/hardware/pci", nodes::pci),
    get("/nodes/{node}/query-url-metadata", nodes::query_url),
    get("/nodes/{node}/tasks", tasks::list),
    get("/nodes/{node}/tasks/{upid}", tasks::index),
    delete("/nodes/{node}/tasks/{upid}", tasks::stop),
    get("/nodes/{node}/tasks/{upid}/status", tasks::status),
    get("/nodes/{node}/tasks/{upid}/log", tasks::log),
    // VMs
    get("/nodes/{node}/qemu", vms::list),
    post("/nodes/{node}/qemu", vms::create),
    get("/nodes/{node}/qemu/{vmid}", vms::index),
    delete("/nodes/{node}/qemu/{vmid}", vms::destroy),
    get("/nodes/{node}/qemu/{vmid}/config", vms::config),
    put("/nodes/{node}/qemu/{vmid}/config", vms::configure_now),
    post("/nodes/{node}/qemu/{vmid}/config", vms::configure_later),
    get("/nodes/{node}/qemu/{vmid}/pending", vms::pending),
    get("/nodes/{node}/qemu/{vmid}/cloudinit", vms::cloudinit_values),
    put("/nodes/{node}/qemu/{vmid}/cloudinit", vms::cloudinit_again),
    get("/nodes/{node}/qemu/{vmid}/cloudinit/dump", vms::cloudinit_dump),
    put("/nodes/{node}/qemu/{vmid}/resize", vms::resize),
    put("/nodes/{node}/qemu/{vmid}/unlink", vms::unlink),
    post("/nodes/{node}/qemu/{vmid}/move_disk", snapshots::move_disk),
    post("/nodes/{node}/qemu/{vmid}/clone", snapshots::clone),
    post("/nodes/{node}/qemu/{vmid}/template", snapshots::template),
    get("/nodes/{node}/qemu/{vmid}/feature", snapshots::feature),
    get("/nodes/{node}/qemu/{vmid}/migrate", snapshots::can_migrate),
    post("/nodes/{node}/qemu/{vmid}/migrate", snapshots::migrate),
    get("/nodes/{node}/qemu/{vmid}/snapshot", snapshots::list),
    post("/nodes/{node}/qemu/{vmid}/snapshot", snapshots::take),
    get("/nodes/{node}/qemu/{vmid}/snapshot/{snapname}", snapshots::index),
    delete("/nodes/{node}/qemu/{vmid}/snapshot/{snapname}", snapshots::remove),
    get("/nodes/{node}/qemu/{vmid}/snapshot/{snapname}/config", snapshots::config),
    put("/nodes/{node}/qemu/{vmid}/snapshot/{snapname}/config", snapshots::describe),
    post("/nodes/{node}/qemu/{vmid}/snapshot/{snapname}/rollback", snapshots::roll_back),
    get("/nodes/{node}/qemu/{vmid}/status/current", vms::status),
    post("/nodes/{node}/qemu/{vmid}/status/start", vms::start),
    post("/nodes/{node}/qemu/{vmid}/status/stop", vms::stop),
    post("/nodes/{node}/qemu/{vmid}/status/shutdown", vms::shutdown),
    post("/nodes/{node}/qemu/{vmid}/status/reboot", vms::reboot),
    post("/nodes/{node}/qemu/{vmid}/status/reset", vms::reset),
    post("/nodes/{node}/qemu/{vmid}/status/suspend", vms::suspend),
    post("/nodes/{node}/qemu/{vmid}/status/resume", vms::resume),
    post("/nodes/{node}/qemu/{vmid}/monitor", vms::monitor),
    post("/nodes/{node}/qemu/{vmid}/termproxy", console::open),
    get("/nodes/{node}/qemu/{vmid}/vncwebsocket", console::connect),
    put("/nodes/{node}/qemu/{vmid}/sendkey", vms::send_key),
    get("/nodes/{node}/qemu/{vmid}/rrddata", vms::figures),
    post("/nodes/{node}/qemu/{vmid}/agent/ping", agent::ping),
    get("/nodes/{node}/qemu/{vmid}/agent/network-get-interfaces", agent::interfaces),
    get("/nodes/{node}/qemu/{vmid}/agent/get-osinfo", agent::os),
    get("/nodes/{node}/qemu/{vmid}/agent/get-host-name", agent::host_name),
    get("/nodes/{node}/qemu/{vmid}/agent/get-users", agent::users),
    get("/nodes/{node}/qemu/{vmid}/agent/info", agent::info),
    post("/nodes/{node}/qemu/{vmid}/agent/exec", agent::exec),
    get("/nodes/{node}/qemu/{vmid}/agent/exec-status", agent::exec_status),
    get("/nodes/{node}/qemu/{vmid}/agent/file-read", agent::file),
    get("/nodes/{node}/qemu/{vmid}/agent/get-fsinfo", agent::empty_list),
    get("/nodes/{node}/qemu/{vmid}/agent/get-memory-blocks", agent::empty_list),
    get("/nodes/{node}/qemu/{vmid}/agent/get-vcpus", agent::vcpus),
    get("/nodes/{node}/qemu/{vmid}/agent/get-time", agent::time),
    get("/nodes/{node}/qemu/{vmid}/agent/get-timezone", agent::timezone),
    post("/nodes/{node}/qemu/{vmid}/agent/fsfreeze-status", agent::thawed),
    post("/nodes/{node}/qemu/{vmid}/agent/fstrim", agent::trimmed),
    put("/nodes/{node}/storage/{storage}/content/{volume}", storage::annotate),
];

/// The endpoint for a request, with the parts of the path that have names, decoded.
pub(super) fn find(method: &Method, path: &str) -> Option<(Route, BTreeMap<String, String>)> {
    let mut own = ROUTES.iter().filter(|route| route.method == method.as_str());
    own.find_map(|route| Some((*route, fit(route.path, path)?))).or_else(|| known(method, path))
}

/// A call that Proxmox knows and that has no row above. Of two paths that fit, the one with more fixed parts is meant.
fn known(method: &Method, path: &str) -> Option<(Route, BTreeMap<String, String>)> {
    let (name, handler) = match method.as_str() {
        "GET" => ("GET", Handler::Read(kept::read)),
        "POST" => ("POST", Handler::Write(kept::write)),
        "PUT" => ("PUT", Handler::Write(kept::write)),
        "DELETE" => ("DELETE", Handler::Write(kept::write)),
        _ => return None,
    };
    let fits = schema::paths().iter().filter_map(|known| Some((known.as_str(), fit(known, path)?)));
    let named = |path: &str| path.matches('{').count();
    let (known, captured) = fits.min_by_key(|(known, _)| named(known))?;
    let rules = schema::method(name, known)?;
    let open = rules.permissions["user"] == "world";
    Some((Route { method: name, path: known, open, handler }, captured))
}

/// The named parts of `path`, if it has the form of `pattern`. Most patterns do not fit, so nothing is taken over before
/// it is known that this one does.
fn fit(pattern: &str, path: &str) -> Option<BTreeMap<String, String>> {
    let segments = |text| str::split(text, '/').filter(|segment| !segment.is_empty());
    let mut given = segments(path);
    let mut whole = false;
    for wanted in segments(pattern) {
        let segment = given.next()?;
        // A volume may hold slashes that no one encoded.
        whole |= wanted == "{volume}";
        if !wanted.starts_with('{') && wanted != segment {
            return None;
        }
    }
    if given.next().is_some() && !whole {
        return None;
    }
    let mut given = segments(path);
    let mut captured = BTreeMap::new();
    for wanted in segments(pattern) {
        let segment = given.next()?;
        let Some(name) = wanted.strip_prefix('{').and_then(|name| name.strip_suffix('}')) else { continue };
        let value = match name {
            "volume" => std::iter::once(segment).chain(given.by_ref()).collect::<Vec<_>>().join("/"),
            _ => segment.to_owned(),
        };
        captured.insert(name.to_owned(), decode(&value, false));
    }
    Some(captured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_parameters_knows_every_route() {
        for route in ROUTES.iter().filter(|route| route.path != "/") {
            assert!(schema::method(route.method, route.path).is_some(), "{} {}", route.method, route.path);
        }
    }
}
