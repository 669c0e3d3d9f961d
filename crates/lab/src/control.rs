//! Orders to a lab that is served: something breaks, someone looks, it goes down.
//!
//! The lab listens on a loopback port of its own for one line of JSON a connection and answers with one. Where that is, and
//! the secret that an order must carry, stands in `control.json` in the lab's folder, which only its owner can read.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ambient::Net;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::calls::Service;
use crate::faults::{self, Injection, Met};
use crate::shared::{Shared, write_private};
use crate::{Lab, LabError};

const FILE: &str = "control.json";
/// No order is longer.
const LONGEST: u64 = 64 * 1024;

/// What can be asked of a lab that is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Break something, or clear it.
    Inject(Injection),
    /// The same, for a VM that may be created later.
    Prepare(Injection),
    /// Tell what is broken.
    Look,
    /// Go down.
    Down,
}

/// What is broken, and what was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Whether the cluster has quorum.
    pub quorate: bool,
    /// Each host, and what is wrong with it.
    pub hosts: Vec<(String, Vec<String>)>,
    /// Failures that wait for their call.
    pub waiting: Vec<String>,
    /// Failures that met a call.
    pub met: Vec<Met>,
    /// How many calls each service has had since the lab was started.
    pub calls: BTreeMap<Service, u64>,
    /// What is wrong with machines, in words.
    pub machines: Vec<String>,
    /// What went wrong on the way to machines, in words.
    pub wires: Vec<String>,
}

/// Why an order did not arrive, or was not followed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No lab left word of itself there.
    #[error("no lab is up with the folder {}", .0.display())]
    NoLab(PathBuf),
    /// It left word, and does not answer.
    #[error("the lab with the folder {} does not answer", folder.display())]
    Silent {
        folder: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The lab does not do that.
    #[error("{0}")]
    Refused(String),
}

#[derive(Serialize, Deserialize)]
struct Address {
    address: SocketAddr,
    secret: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    secret: String,
    order: Order,
}

/// Takes orders until it is dropped.
#[derive(Debug)]
pub struct Control {
    file: PathBuf,
    down: CancellationToken,
    _stop: DropGuard,
}

impl Control {
    /// Waits until someone wants the lab to go down.
    pub async fn wants_down(&self) {
        self.down.cancelled().await;
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

impl Lab {
    /// Takes orders that carry `secret`, and leaves word of it in `folder`.
    ///
    /// # Errors
    ///
    /// When no port can be had or the folder cannot be written.
    pub async fn control(&self, folder: &Path, secret: String) -> Result<Control, LabError> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let bind = async {
            let listener = TcpListener::bind(any).await?;
            let address = listener.local_addr()?;
            io::Result::Ok((listener, address))
        };
        let (listener, address) = bind.await.map_err(|source| LabError::Listen { address: any, source })?;
        let file = folder.join(FILE);
        let text = serde_json::to_vec(&Address { address, secret: secret.clone() }).unwrap_or_default();
        let written = fs::create_dir_all(folder).and_then(|()| write_private(&file, &text));
        written.map_err(|source| LabError::Folder { what: "write", path: file.clone(), source })?;

        let (stop, down) = (self.network.stop.child_token(), CancellationToken::new());
        let (shared, secret, told) = (self.shared().clone(), Arc::new(secret), down.clone());
        let work = async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let (shared, secret, told) = (shared.clone(), secret.clone(), told.clone());
                tokio::spawn(async move {
                    // A client that does not read the answer is gone.
                    let _ = serve(stream, &shared, &secret, &told).await;
                });
            }
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(work));
        Ok(Control { file, down, _stop: stop.drop_guard() })
    }
}

async fn serve(
    stream: tokio::net::TcpStream,
    shared: &Shared,
    secret: &str,
    down: &CancellationToken,
) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut text = String::new();
    BufReader::new(read.take(LONGEST)).read_line(&mut text).await?;
    let mut goes_down = false;
    let answer = match serde_json::from_str::<Line>(&text) {
        Ok(line) if line.secret == secret => {
            goes_down = line.order == Order::Down;
            follow(shared, line.order)
        }
        Ok(_) => Err("the secret is wrong".to_owned()),
        Err(error) => Err(format!("this is no order: {error}")),
    };
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    let told = async {
        write.write_all(&text).await?;
        write.shutdown().await
    };
    let told = told.await;
    // Only now: the program may end at once, and the client would never hear that its order was followed.
    if goes_down {
        down.cancel();
    }
    told
}

fn follow(shared: &Shared, order: Order) -> Result<Report, String> {
    match order {
        Order::Inject(injection) => {
            check(shared, &injection)?;
            check_vm(shared, &injection)?;
            shared.with(|world, _| world.inject(injection));
        }
        Order::Prepare(injection) => {
            check(shared, &injection)?;
            shared.with(|world, _| world.inject(injection));
        }
        Order::Look | Order::Down => {}
    }
    Ok(report(shared))
}

/// Refuses what would break nothing.
fn check(shared: &Shared, injection: &Injection) -> Result<(), String> {
    let host = match injection {
        Injection::HostOffline(node) | Injection::HostOnline(node) => Some(node),
        Injection::HostSlow { node, .. }
        | Injection::HostFull { node, .. }
        | Injection::HostClock { node, .. } => Some(node),
        _ => None,
    };
    let hosts = shared.peek(crate::World::host_names);
    if let Some(host) = host.filter(|host| !hosts.contains(host)) {
        return Err(format!("there is no host '{host}'; the hosts are {}", hosts.join(", ")));
    }
    let machine = match injection {
        Injection::BrokenSystem { vmid, .. }
        | Injection::FullEtcd { vmid }
        | Injection::Unplugged { vmid, .. } => Some(*vmid),
        _ => None,
    };
    if let Some(vmid) = machine.filter(|vmid| shared.peek(|world| world.machines.get(*vmid).is_none())) {
        return Err(format!("no machine was ever switched on as VM {vmid}"));
    }
    match injection {
        Injection::Known { number, .. } if faults::known(*number).is_none() => {
            Err(format!("there is no failure {number}; they are numbered 1 to 69"))
        }
        _ => Ok(()),
    }
}

/// Refuses what is about a VM that is not there. It may be created later: then it is prepared.
fn check_vm(shared: &Shared, injection: &Injection) -> Result<(), String> {
    let named = match injection {
        Injection::Relay { vmid, .. }
        | Injection::Reissue { vmid, .. }
        | Injection::Console { vmid, .. }
        | Injection::SmallDisk { vmid, .. }
        | Injection::KubeletRestart { vmid }
        | Injection::NoImage { vmid, .. } => vec![*vmid],
        Injection::Apart { one, other, .. } => vec![*one, *other],
        _ => vec![],
    };
    let vms: Vec<u32> = shared.peek(|world| world.hypervisor.vms.keys().copied().collect());
    match named.into_iter().find(|vmid| !vms.contains(vmid)) {
        None => Ok(()),
        Some(vmid) => {
            let have = vms.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            let have =
                if have.is_empty() { "there are none".to_owned() } else { format!("the VMs are {have}") };
            Err(format!("there is no VM {vmid}; {have}. `--early` orders it for a VM that is created later"))
        }
    }
}

fn report(shared: &Shared) -> Report {
    shared.read(|world, _| {
        let hypervisor = &world.hypervisor;
        let hosts = hypervisor.hosts.values().map(|host| {
            let wrong = [
                (!host.online).then(|| "off".to_owned()),
                (!host.slow.is_zero()).then(|| format!("slow by {} s", host.slow.as_secs_f64())),
                hypervisor.storages.full.contains(&host.name).then(|| "full".to_owned()),
                (host.clock_error != 0).then(|| format!("clock ahead by {} s", host.clock_error)),
            ];
            (host.name.clone(), wrong.into_iter().flatten().collect())
        });
        Report {
            quorate: hypervisor.quorate(),
            hosts: hosts.collect(),
            waiting: world.faults.waiting(),
            met: world.faults.met().to_vec(),
            calls: shared.hooks().answered(),
            machines: [world.machines.what_is_wrong(), world.faults.identity_words()].concat(),
            wires: world.faults.wires_met().to_vec(),
        }
    })
}

impl Order {
    /// Gives this order to the lab that left word in `folder`.
    ///
    /// # Errors
    ///
    /// When there is no such lab, it does not answer, or it does not do that.
    pub async fn give(&self, folder: &Path, net: &Net) -> Result<Report, ControlError> {
        let text = fs::read(folder.join(FILE)).map_err(|_| ControlError::NoLab(folder.to_owned()))?;
        let at: Address =
            serde_json::from_slice(&text).map_err(|_| ControlError::NoLab(folder.to_owned()))?;
        let exchange = async {
            let mut stream = net.dial(&at.address.ip().to_string(), at.address.port()).await?;
            let mut line = serde_json::to_vec(&Line { secret: at.secret, order: self.clone() })?;
            line.push(b'\n');
            stream.write_all(&line).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            let answer: Result<Report, String> = serde_json::from_str(&answer)?;
            io::Result::Ok(answer)
        };
        match exchange.await {
            Ok(answer) => answer.map_err(ControlError::Refused),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Err(ControlError::NoLab(folder.to_owned()))
            }
            Err(source) => Err(ControlError::Silent { folder: folder.to_owned(), source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ambient::Clock;

    use super::*;
    use crate::LabConfig;

    #[tokio::test]
    async fn a_served_lab_takes_orders_from_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::from(LabConfig::first_moment(), 1.0);
        let lab = Lab::open(LabConfig::default(), clock).unwrap();
        let net = Net::tcp();
        let none = Order::Look.give(folder.path(), &net).await;
        assert!(matches!(none, Err(ControlError::NoLab(_))), "{none:?}");
        let control = lab.control(folder.path(), "s".to_owned()).await.unwrap();

        let give = async |order: Order| order.give(folder.path(), &net).await;
        give(Order::Inject(Injection::HostOffline("pve3".to_owned()))).await.unwrap();
        let slow = Injection::HostSlow { node: "pve2".to_owned(), by: Duration::from_millis(1500) };
        let report = give(Order::Inject(slow)).await.unwrap();
        assert!(report.quorate);
        assert_eq!(report.hosts[1], ("pve2".to_owned(), vec!["slow by 1.5 s".to_owned()]));
        assert_eq!(report.hosts[2], ("pve3".to_owned(), vec!["off".to_owned()]));

        let nobody = give(Order::Inject(Injection::HostOffline("pve9".to_owned()))).await.unwrap_err();
        assert_eq!(nobody.to_string(), "there is no host 'pve9'; the hosts are pve1, pve2, pve3");

        let nothing = give(Order::Inject(Injection::FullEtcd { vmid: 7 })).await.unwrap_err();
        assert_eq!(nothing.to_string(), "no machine was ever switched on as VM 7");

        let relay = Injection::Relay { vmid: 7, present: true };
        let nothing = give(Order::Inject(relay.clone())).await.unwrap_err();
        let told = "there is no VM 7; there are none. `--early` orders it for a VM that is created later";
        assert_eq!(nothing.to_string(), told);
        let prepared = give(Order::Prepare(relay)).await.unwrap();
        assert!(prepared.machines.iter().any(|wrong| wrong.contains('7')), "{prepared:?}");
        lab.person().create("pve1", 7, &[]).unwrap();
        let fault = Some(crate::ConsoleFault::Silent);
        give(Order::Inject(Injection::Console { vmid: 7, fault })).await.unwrap();

        let text = fs::read_to_string(folder.path().join(FILE)).unwrap();
        fs::write(folder.path().join(FILE), text.replace("\"s\"", "\"guessed\"")).unwrap();
        assert_eq!(give(Order::Down).await.unwrap_err().to_string(), "the secret is wrong");
        fs::write(folder.path().join(FILE), text).unwrap();

        give(Order::Inject(Injection::Clear)).await.unwrap();
        assert!(give(Order::Look).await.unwrap().hosts.iter().all(|(_, wrong)| wrong.is_empty()));
        give(Order::Down).await.unwrap();
        control.wants_down().await;
        drop(control);
        assert!(!folder.path().join(FILE).exists());
    }
}
