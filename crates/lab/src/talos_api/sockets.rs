//! Sockets and packets: who listens on a machine, and a capture in which nothing goes by.

use futures::{StreamExt as _, stream};
use talos::wire::common::Data;
use talos::wire::machine as wire;
use talos::wire::machine::connect_record::{Process, State};
use talos::wire::machine::netstat_request::Filter;
use tonic::codegen::BoxStream;
use tonic::{Response, Status};

use super::Caller;
use super::machine_service::Answer;
use super::resources::ids_of;

/// Ports and the services that listen there, over TCP and on every address.
const PORTS: &[(u32, &str)] = &[
    (2379, "etcd"),
    (2380, "etcd"),
    (6443, "kube-apiserver"),
    (10250, "kubelet"),
    (50000, "apid"),
    (50001, "trustd"),
];

/// The length of packets that is kept unless someone says another.
const SNAP_LENGTH: u32 = 4096;

impl Caller {
    /// The sockets that a request asks for. A machine of the lab has those on which it listens.
    pub(super) fn sockets(&self, request: &wire::NetstatRequest) -> Result<Vec<wire::ConnectRecord>, Status> {
        let old = self.read(|machines, _| machines.get(self.vmid).is_some_and(|m| m.profile().minor <= 12));
        if old && (request.l4proto.is_none() || request.feature.is_none() || request.netns.is_none()) {
            // 1.12 looks at parts that are not there.
            return Err(Status::internal("runtime error: invalid memory address or nil pointer dereference"));
        }
        let filter = Filter::try_from(request.filter)
            .map_err(|_| Status::invalid_argument(format!("invalid filter: {}", request.filter)))?;
        let protocols = request.l4proto.unwrap_or_default();
        let of_host = request.netns.as_ref().is_some_and(|spaces| spaces.hostnetwork);
        if filter == Filter::Connected || !protocols.tcp6 || !of_host {
            return Ok(vec![]);
        }
        let with_process = request.feature.unwrap_or_default().pid;
        Ok(self.read(|machines, _| {
            let Some(machine) = machines.get(self.vmid) else { return vec![] };
            let services = machines.services(self.vmid);
            let pods = machines.pods_on(self.vmid);
            let runs = |name: &str| {
                services.iter().any(|service| service.id == name && service.state == "Running")
                    || pods.iter().any(|(_, container, _)| container == name)
            };
            let open = PORTS.iter().filter(|(_, name)| runs(name));
            open.map(|(port, name)| {
                let process = Process { pid: machine.pid(name), name: (*name).to_owned() };
                wire::ConnectRecord {
                    l4proto: "tcp6".to_owned(),
                    localip: "::".to_owned(),
                    localport: *port,
                    remoteip: "::".to_owned(),
                    state: State::Listen.into(),
                    inode: 20_000 + u64::from(*port),
                    process: Some(if with_process { process } else { Process::default() }),
                    ..wire::ConnectRecord::default()
                }
            })
            .collect()
        }))
    }

    /// A capture: the head of its file, and then no packet until someone has had enough.
    pub(super) fn capture(&self, request: &wire::PacketCaptureRequest) -> Answer<BoxStream<Data>> {
        let link = &request.interface;
        let known = self.read(|machines, now| {
            ids_of(machines, self.vmid, now, "LinkStatuses.net.talos.dev").contains(link)
        });
        if !known {
            return Err(Status::not_found(format!("interface {link:?} not found")));
        }
        let length = if request.snap_len == 0 { SNAP_LENGTH } else { request.snap_len };
        // Magic, version 2.4, no time zone, no accuracy, the length, Ethernet.
        let head = [0xa1b2_c3d4, 0x0004_0002, 0, 0, length, 1].map(u32::to_le_bytes).concat();
        let held = self.hold();
        let silence = stream::once(async move {
            let _held = held;
            std::future::pending().await
        });
        let head = stream::iter([Ok(Data { metadata: None, bytes: head })]);
        Ok(Response::new(head.chain(silence).boxed()))
    }
}
