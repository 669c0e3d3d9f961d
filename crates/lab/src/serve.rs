//! The lab on loopback TCP, so that any other program can use it.
//!
//! Proxmox and the factory listen for as long as the handle lives. Machines come and go: whenever the world changes, the
//! ports that are open in it are bound and the others are closed. Only loopback addresses are ever bound.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use ambient::Stream;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::hypervisor::PROXMOX_PORT;
use crate::machine::Judge;
use crate::net::{FACTORY_PORT, Network};
use crate::{Lab, LabError};

/// Where to listen. Port 0 asks the system for a free one.
#[derive(Debug, Clone, Copy)]
pub struct ServeOptions {
    /// The first Proxmox host.
    pub proxmox: SocketAddr,
    /// The Image Factory.
    pub factory: SocketAddr,
}

impl Default for ServeOptions {
    fn default() -> Self {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Self { proxmox: (loopback, PROXMOX_PORT).into(), factory: (loopback, 8443).into() }
    }
}

/// A lab that listens on loopback. Dropping it closes the listeners; open connections last as long as the lab.
#[derive(Debug)]
pub struct Serving {
    /// Where the first Proxmox host listens.
    pub proxmox: SocketAddr,
    /// Where the factory listens.
    pub factory: SocketAddr,
    trouble: Arc<Mutex<BTreeMap<SocketAddr, String>>>,
    _stop: DropGuard,
}

impl Serving {
    /// Machine ports that are open in the world but could not be bound, with the reason.
    #[must_use]
    pub fn trouble(&self) -> BTreeMap<SocketAddr, String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Lab {
    /// Serves the world on loopback until the result is dropped.
    ///
    /// Hosts whose own address is a loopback address listen there too.
    ///
    /// # Errors
    ///
    /// When a port is taken.
    pub async fn serve(&self, options: ServeOptions) -> Result<Serving, LabError> {
        let network = &self.network;
        network.shared.set_served();
        let stop = network.stop.child_token();
        let (hosts, factory_host) =
            network.shared.peek(|world| (world.hypervisor.host_addresses(), world.factory.host().to_owned()));
        let first = hosts.first().map(|(name, _)| name.clone()).ok_or(LabError::NoHosts)?;

        let proxmox = listen(network, &stop, options.proxmox, first, PROXMOX_PORT).await?;
        let factory = listen(network, &stop, options.factory, factory_host, FACTORY_PORT).await?;
        for (name, address) in hosts {
            let own = SocketAddr::new(address, PROXMOX_PORT);
            if address.is_loopback() && own != proxmox {
                listen(network, &stop, own, name, PROXMOX_PORT).await?;
            }
        }
        let trouble = Arc::default();
        tokio::spawn(stop.clone().run_until_cancelled_owned(follow_machines(
            network.clone(),
            stop.clone(),
            Arc::clone(&trouble),
        )));
        Ok(Serving { proxmox, factory, trouble, _stop: stop.drop_guard() })
    }
}

/// Binds `address` and hands what arrives to the lab as `port` of `host`.
async fn listen(
    network: &Arc<Network>,
    stop: &CancellationToken,
    address: SocketAddr,
    host: String,
    port: u16,
) -> Result<SocketAddr, LabError> {
    let bind = async {
        let listener = TcpListener::bind(address).await?;
        let bound = listener.local_addr()?;
        io::Result::Ok((listener, bound))
    };
    let (listener, bound) = bind.await.map_err(|source| LabError::Listen { address, source })?;
    let network = network.clone();
    let work = async move {
        loop {
            // A failed accept (say, too many open files) concerns one connection, not the listener.
            if let Ok((stream, _)) = listener.accept().await {
                let (network, host) = (network.clone(), host.clone());
                tokio::spawn(async move {
                    let _ = stream.set_nodelay(true);
                    // The stream is dropped where the lab does not answer: the caller sees a closed connection.
                    let _ =
                        network.accept(&host, port, Stream::new(stream), Judge::Outside, &"".into()).await;
                });
            }
        }
    };
    tokio::spawn(stop.clone().run_until_cancelled_owned(work));
    Ok(bound)
}

/// Keeps the bound ports equal to those that are open in the world.
async fn follow_machines(
    network: Arc<Network>,
    stop: CancellationToken,
    trouble: Arc<Mutex<BTreeMap<SocketAddr, String>>>,
) {
    let mut changed = network.shared.subscribe();
    let mut bound: BTreeMap<SocketAddr, CancellationToken> = BTreeMap::new();
    loop {
        changed.borrow_and_update();
        let open = network.shared.read(|world, _| world.machines.listening());
        let wanted = |at: &SocketAddr| at.ip().is_loopback() && open.contains(&(at.ip(), at.port()));
        bound.retain(|at, token| {
            let keep = wanted(at);
            if !keep {
                token.cancel();
            }
            keep
        });
        let mut failed = BTreeMap::new();
        for at in open.iter().map(|(ip, port)| SocketAddr::new(*ip, *port)).filter(wanted) {
            if bound.contains_key(&at) {
                continue;
            }
            let token = stop.child_token();
            match listen(&network, &token, at, at.ip().to_string(), at.port()).await {
                Ok(_) => drop(bound.insert(at, token)),
                Err(error) => drop(failed.insert(at, reason(&error))),
            }
        }
        *trouble.lock().unwrap_or_else(PoisonError::into_inner) = failed;
        if changed.changed().await.is_err() {
            return;
        }
    }
}

fn reason(error: &LabError) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    format!("{error}: {source}")
}
