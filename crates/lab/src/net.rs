//! The lab's network: names and addresses in, byte streams out.
//!
//! A dialled connection is an in-memory pipe whose other end is served by a task. Failures are those of a LAN: an address
//! that no one has gives no answer for a while and then "unreachable", a closed port refuses at once, a black hole never
//! answers. A connection ends when what it leads to ends: the host goes down, or the machine reboots or changes its
//! certificates (its epoch).

mod listen;

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ambient::{Clock, Dial, Stream};
use tokio_util::sync::CancellationToken;

use crate::calls::Service;
use crate::faults::{Lost, Wire};
use crate::hypervisor::PROXMOX_PORT;
use crate::line::Line;
use crate::machine::timing::NO_ROUTE;
use crate::machine::{self, Judge, Kind, PortState};
use crate::shared::Shared;
use crate::{factory_api, pve};

pub(crate) const FACTORY_PORT: u16 = 443;

/// How long answers that are on their way may still leave a served machine that goes. Counted by the caller's clock: saving a
/// world takes real time, in which a fast world's machine may be gone before its answer.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// What one direction of a pipe holds.
const PIPE: usize = 64 * 1024;

/// Everything that connections need.
pub(crate) struct Network {
    pub(crate) shared: Arc<Shared>,
    pub(crate) stop: CancellationToken,
}

/// What answers at a host and port.
enum Answers {
    Proxmox(String),
    Factory,
    Machine(machine::Listener),
    Refused,
    BlackHole,
    NoHost,
    NoName,
}

impl Network {
    pub(crate) fn new(shared: Arc<Shared>, stop: CancellationToken) -> Self {
        Self { shared, stop }
    }

    fn find(&self, host: &str, port: u16) -> Answers {
        self.shared.read(|world, _| {
            let address: Option<IpAddr> = host.parse().ok().or_else(|| world.names.get(host).copied());
            if world.factory.is_called(host) {
                if !world.machines.reaches(host) {
                    return Answers::NoName;
                }
                return if port == FACTORY_PORT { Answers::Factory } else { Answers::Refused };
            }
            if let Some(found) = world.hypervisor.host_at(host, address) {
                return match (found.online, port) {
                    (false, _) => Answers::NoHost,
                    (true, PROXMOX_PORT) => Answers::Proxmox(found.name.clone()),
                    (true, _) => Answers::Refused,
                };
            }
            let Some(address) = address else { return Answers::NoName };
            match world.machines.port(address, port) {
                PortState::NoHost => Answers::NoHost,
                PortState::Refused => Answers::Refused,
                PortState::BlackHole => Answers::BlackHole,
                PortState::Open(listener) => Answers::Machine(listener),
            }
        })
    }

    /// Serves `stream` as the port `port` of `host`.
    pub(crate) async fn accept(
        &self,
        host: &str,
        port: u16,
        stream: Stream,
        judge: Judge,
        origin: &Arc<str>,
    ) -> io::Result<()> {
        let found = self.find(host, port);
        let lost = match &found {
            Answers::Proxmox(_) => Some((Service::Proxmox, None)),
            Answers::Machine(at) if at.kind == Kind::Kubernetes => Some((Service::Kubernetes, Some(at.vmid))),
            Answers::Machine(at) => Some((Service::Talos, Some(at.vmid))),
            _ => None,
        };
        // Neither way can be missed to make a connection.
        let lost = lost.is_some_and(|(service, vmid)| {
            let either = [Lost::Requests, Lost::Answers];
            self.shared.with_quiet(|world| world.faults.lose(origin, service, vmid, &either))
        });
        if lost {
            std::future::pending::<()>().await;
        }
        match found {
            _ if self.stop.is_cancelled() => Err(io::ErrorKind::ConnectionRefused.into()),
            Answers::NoHost => {
                self.shared.clock().sleep(NO_ROUTE).await;
                Err(io::ErrorKind::HostUnreachable.into())
            }
            Answers::BlackHole => std::future::pending().await,
            Answers::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
            Answers::NoName => {
                Err(io::Error::other("failed to lookup address information: Name or service not known"))
            }
            Answers::Proxmox(node) => {
                let work = pve::serve(self.shared.clone(), node.clone(), stream, origin.clone());
                self.spawn(work, CancellationToken::new(), move |world| {
                    world.hypervisor.hosts.get(&node).is_some_and(|host| host.online)
                });
                Ok(())
            }
            Answers::Factory => {
                let work = factory_api::serve(self.shared.clone(), stream, origin.clone());
                self.spawn(work, CancellationToken::new(), |_| true);
                Ok(())
            }
            Answers::Machine(listener) => {
                let (vmid, epoch) = (listener.vmid, listener.epoch);
                let line = Line::new(self.shared.clone(), &format!("{host}:{port}"), origin);
                match line.dialled() {
                    None => {}
                    Some(Wire::Refused) => return Err(io::ErrorKind::ConnectionRefused.into()),
                    // It is accepted and dropped.
                    Some(Wire::Reset | Wire::Lost | Wire::Cut) => return Ok(()),
                    Some(Wire::BlackHole) => std::future::pending().await,
                    Some(Wire::Slow(by)) => self.shared.clock().sleep(by).await,
                }
                let ending = line.ending().clone();
                let work = listen::serve(listener, self.shared.clone(), stream, judge, line);
                self.spawn(work, ending, move |world| world.machines.is_alive(vmid, epoch));
                Ok(())
            }
        }
    }

    /// Runs `work` until it ends, the lab ends, or `alive` no longer holds, which `ending` tells it.
    fn spawn(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
        ending: CancellationToken,
        alive: impl Fn(&crate::World) -> bool + Send + Sync + 'static,
    ) {
        let shared = self.shared.clone();
        let work = async move {
            let mut changed = shared.subscribe();
            let ends =
                async { while shared.read(|world, _| alive(world)) && changed.changed().await.is_ok() {} };
            let mut work = std::pin::pin!(work);
            tokio::select! {
                biased;
                () = ends => {}
                () = &mut work => return,
            }
            ending.cancel();
            if shared.is_served() {
                // A client that is still there then is cut off.
                let _ = Clock::real().timeout(LAST_WORDS, work).await;
            }
        };
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(work));
    }
}

/// [`Network`] as the clients see it, and whose connections these are.
pub(crate) struct Dialler(pub(crate) Arc<Network>, pub(crate) Arc<str>);

impl Dial for Dialler {
    fn dial(&self, host: &str, port: u16) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        let host = host.to_owned();
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(PIPE);
            self.0.accept(&host, port, Stream::new(far), Judge::Lab, &self.1).await?;
            Ok(Stream::new(near))
        })
    }
}
