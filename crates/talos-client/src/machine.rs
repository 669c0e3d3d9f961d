//! A configured machine.

use std::net::IpAddr;

use ambient::tls::Connector;
use ambient::{Clock, Net};
use secrecy::SecretString;
use serde::Deserialize;
use talos::wire::machine as wire;

use crate::api::Api;
use crate::cosi::{self, Resource};
use crate::error::{Error, Kind, Result};
use crate::types::{Applied, Disk, Link, MachineStatus, Service, Version};
use crate::{Credentials, PORT, connection, kubeconfig, tls};

/// A channel to a configured machine, with the certificates of both sides checked. It is dialled at the first call and
/// again whenever it broke. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Machine {
    pub(crate) api: Api,
}

/// How to reset a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reset {
    /// Drain and leave etcd first.
    pub graceful: bool,
    /// Restart afterwards, into maintenance; else switch off.
    pub reboot: bool,
}

#[derive(Deserialize)]
struct HostnameSpec {
    hostname: String,
}

#[derive(Deserialize)]
struct NodenameSpec {
    nodename: String,
}

impl Machine {
    /// A channel to the machine at `address`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`Kind::Rejected`] when the credentials cannot be used at all.
    pub fn connect(net: &Net, clock: &Clock, address: IpAddr, credentials: &Credentials) -> Result<Self> {
        let unusable = |why: String| Error::new(address, "connecting", Kind::Rejected, why);
        let config = tls::mutual(clock, credentials)
            .map_err(|e| unusable(format!("our credentials are unusable: {e}")))?;
        let connector = Connector::new(net.clone(), config, PORT);
        let channel =
            connection::renewing(connector, clock.clone(), address).map_err(|e| unusable(e.to_string()))?;
        Ok(Self { api: Api::new(address, channel) })
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.api.address()
    }

    /// The release.
    ///
    /// # Errors
    ///
    /// As any call. [`Kind::Untrusted`] when the machine is in maintenance or another cluster's.
    pub async fn version(&self) -> Result<Version> {
        self.api.version("reading the version").await
    }

    /// The stage, and what the machine waits for.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn stage(&self) -> Result<MachineStatus> {
        self.api.stage().await
    }

    /// The services.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn services(&self) -> Result<Vec<Service>> {
        let attempt = "listing the services";
        let answer =
            self.api.services().service_list(()).await.map_err(|status| self.api.error(attempt, &status))?;
        let list = self.api.one(attempt, answer.into_inner().messages, |m| m.metadata.as_ref())?;
        let service = |info: wire::ServiceInfo| {
            let health = info.health.unwrap_or_default();
            let events = info.events.unwrap_or_default().events;
            let message = match events.last() {
                _ if !health.last_message.is_empty() => health.last_message,
                Some(event) => event.msg.clone(),
                None => String::new(),
            };
            Service {
                id: info.id,
                state: info.state,
                healthy: (!health.unknown).then_some(health.healthy),
                message,
            }
        };
        Ok(list.services.into_iter().map(service).collect())
    }

    /// Starts the first member of etcd. Exactly one machine of a cluster may ever be asked this.
    ///
    /// # Errors
    ///
    /// [`Kind::NotReady`]: later. [`Kind::AlreadyExists`]: there is data already.
    pub async fn bootstrap(&self) -> Result<()> {
        let attempt = "bootstrapping etcd";
        let request = wire::BootstrapRequest::default();
        let answer = self
            .api
            .services()
            .bootstrap(request)
            .await
            .map_err(|status| self.api.error(attempt, &status))?;
        self.api.one(attempt, answer.into_inner().messages, |m| m.metadata.as_ref()).map(drop)
    }

    /// A kubeconfig for the cluster's administrator. Also answers before there is a cluster.
    ///
    /// # Errors
    ///
    /// [`Kind::Unimplemented`] on a worker.
    pub async fn kubeconfig(&self) -> Result<SecretString> {
        let attempt = "fetching the kubeconfig";
        let answer =
            self.api.services().kubeconfig(()).await.map_err(|status| self.api.error(attempt, &status))?;
        let mut stream = answer.into_inner();
        let mut archive = Vec::new();
        while let Some(data) = stream.message().await.map_err(|status| self.api.error(attempt, &status))? {
            archive.extend_from_slice(&data.bytes);
        }
        kubeconfig::unpack(&archive).map_err(|why| Error::new(self.address(), attempt, Kind::Protocol, why))
    }

    /// The configuration as it was handed over, byte for byte.
    ///
    /// # Errors
    ///
    /// As any call; needs the administrator's role.
    pub async fn machine_config(&self) -> Result<SecretString> {
        let text: String = self.api.get_at("reading the configuration", cosi::MACHINE_CONFIG).await?;
        Ok(SecretString::from(text))
    }

    /// The host name.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn hostname(&self) -> Result<String> {
        let spec: HostnameSpec = self.api.get_at("reading the host name", cosi::HOSTNAME).await?;
        Ok(spec.hostname)
    }

    /// The name of its Kubernetes node.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`] early in a boot.
    pub async fn nodename(&self) -> Result<String> {
        let spec: NodenameSpec = self.api.get_at("reading the node name", cosi::NODENAME).await?;
        Ok(spec.nodename)
    }

    /// The SMBIOS UUID, in lower case.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn system_uuid(&self) -> Result<String> {
        self.api.system_uuid().await
    }

    /// The disks, CD drives and read-only ones included.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn disks(&self) -> Result<Vec<Disk>> {
        self.api.disks().await
    }

    /// The network links.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn links(&self) -> Result<Vec<Link>> {
        self.api.links().await
    }

    /// One resource, whatever it is.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]; [`Kind::Denied`] also for a type that this release does not have.
    pub async fn get(&self, namespace: &str, kind: &str, id: &str) -> Result<serde_json::Value> {
        self.api.get("reading a resource", namespace, kind, id).await
    }

    /// All resources of a type.
    ///
    /// # Errors
    ///
    /// [`Kind::Denied`] also for a type that this release does not have.
    pub async fn list(&self, namespace: &str, kind: &str) -> Result<Vec<Resource>> {
        let found = self.api.list("listing resources", namespace, kind).await?;
        Ok(found.into_iter().map(|(id, version, spec)| Resource { id, version, spec }).collect())
    }

    /// Whether a path is there.
    ///
    /// # Errors
    ///
    /// When the machine cannot be asked.
    pub async fn path_exists(&self, path: &str) -> Result<bool> {
        let attempt = "looking at a path";
        let request = wire::ListRequest { root: path.to_owned(), ..wire::ListRequest::default() };
        let missing = |text: &str| text.contains("no such file or directory");
        let answer = match self.api.services().list(request).await {
            Ok(answer) => answer,
            Err(status) if missing(status.message()) => return Ok(false),
            Err(status) => return Err(self.api.error(attempt, &status)),
        };
        match answer.into_inner().message().await {
            Ok(Some(entry)) => Ok(!missing(&entry.error)),
            Ok(None) => Ok(true),
            Err(status) if missing(status.message()) => Ok(false),
            Err(status) => Err(self.api.error(attempt, &status)),
        }
    }

    /// Has the machine check a configuration without taking it.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidConfig`] when it would not take it.
    pub async fn apply_dry_run(&self, config: &[u8]) -> Result<Applied> {
        self.api.apply(config, true).await
    }

    /// Hands over a new configuration. The machine decides whether it must restart for it.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidConfig`]; [`Kind::NotReady`] while another one is being applied.
    pub async fn apply(&self, config: &[u8]) -> Result<Applied> {
        self.api.apply(config, false).await
    }

    /// Restarts the machine. It answers before it does.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn reboot(&self) -> Result<()> {
        let attempt = "restarting";
        let request = wire::RebootRequest::default();
        let answer =
            self.api.services().reboot(request).await.map_err(|status| self.api.error(attempt, &status))?;
        self.api.one(attempt, answer.into_inner().messages, |m| m.metadata.as_ref()).map(drop)
    }

    /// Switches the machine off. It answers before it does.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn shutdown(&self) -> Result<()> {
        let attempt = "switching off";
        let request = wire::ShutdownRequest::default();
        let answer =
            self.api.services().shutdown(request).await.map_err(|status| self.api.error(attempt, &status))?;
        self.api.one(attempt, answer.into_inner().messages, |m| m.metadata.as_ref()).map(drop)
    }

    /// Wipes the machine's system disk. It answers before it does.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn reset(&self, reset: Reset) -> Result<()> {
        let attempt = "resetting";
        let request = wire::ResetRequest {
            graceful: reset.graceful,
            reboot: reset.reboot,
            mode: wire::reset_request::WipeMode::SystemDisk.into(),
            ..Default::default()
        };
        let answer =
            self.api.services().reset(request).await.map_err(|status| self.api.error(attempt, &status))?;
        self.api.one(attempt, answer.into_inner().messages, |m| m.metadata.as_ref()).map(drop)
    }
}
