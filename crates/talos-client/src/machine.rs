//! A configured machine.

use std::net::IpAddr;
use std::time::Duration;

use ambient::tls::Connector;
use ambient::{Clock, Net};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use talos::config::{Contract, Documents, difference};
use talos::wire::machine as wire;

use crate::api::{Api, QUESTION, WORK};
use crate::cosi::{self, Resource, Watch};
use crate::error::{Error, Kind, Result};
use crate::types::{Address, Applied, ApplyMode, Disk, Extension, Link, MachineStatus, Version, Volume};
use crate::{Credentials, PORT, connection, kubeconfig, tls};

/// A channel to a configured machine, with the certificates of both sides checked. It is dialled at the first call and
/// again whenever it broke. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Machine {
    pub(crate) api: Api,
}

#[derive(Deserialize)]
struct HostnameSpec {
    hostname: String,
}

#[derive(Deserialize)]
struct ExtensionSpec {
    metadata: Extension,
}

#[derive(Deserialize)]
struct CmdlineSpec {
    cmdline: String,
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
        Ok(Self { api: Api::new(address, clock, channel) })
    }

    /// The same machine, over the same channel, with another limit of time for each call in place of the usual ones. Of a
    /// stream the limit holds for each message.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Self {
        Self { api: self.api.within(limit) }
    }

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

    /// Starts the first member of etcd. Exactly one machine of a cluster may ever be asked this, and only once at a time:
    /// as long as etcd has written nothing, every machine says yes.
    ///
    /// # Errors
    ///
    /// [`Kind::NotReady`]: later. [`Kind::Clock`]: it waits for the time. [`Kind::AlreadyExists`]: there is data already.
    pub async fn bootstrap(&self) -> Result<()> {
        self.begin_etcd(wire::BootstrapRequest::default()).await
    }

    /// Starts the first member of etcd with the snapshot that was handed over before ([`Machine::etcd_recover`]).
    ///
    /// # Errors
    ///
    /// As [`Machine::bootstrap`].
    pub async fn bootstrap_recovered(&self) -> Result<()> {
        self.begin_etcd(wire::BootstrapRequest { recover_etcd: true, recover_skip_hash_check: false }).await
    }

    async fn begin_etcd(&self, request: wire::BootstrapRequest) -> Result<()> {
        let attempt = "bootstrapping etcd";
        self.api.ask(attempt, WORK, self.api.services().bootstrap(request)).await.map(drop)
    }

    /// A kubeconfig for the cluster's administrator. Also answers before there is a cluster.
    ///
    /// # Errors
    ///
    /// [`Kind::Unimplemented`] on a worker.
    pub async fn kubeconfig(&self) -> Result<SecretString> {
        let attempt = "fetching the kubeconfig";
        let answer = self.api.limited(attempt, QUESTION, self.api.services().kubeconfig(())).await?;
        let mut archive = Vec::new();
        let take = |bytes: &[u8]| {
            archive.extend_from_slice(bytes);
            true
        };
        self.api.bytes(attempt, answer.into_inner(), take).await?;
        kubeconfig::unpack(&archive).map_err(|why| self.api.failure(attempt, Kind::Protocol, why))
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

    /// The schematic of the image that it runs. The Image Factory puts it into each image as an extension of that name; an image
    /// that was built without the factory has none.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn schematic(&self) -> Result<Option<String>> {
        let mut extensions = self.extensions().await?.into_iter();
        Ok(extensions.find(Extension::is_schematic).map(|extension| extension.version))
    }

    /// The system extensions of the image that it runs, and the one that names the schematic.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn extensions(&self) -> Result<Vec<Extension>> {
        let found: Vec<(String, String, ExtensionSpec)> =
            self.api.list("reading the extensions", "runtime", "ExtensionStatuses.runtime.talos.dev").await?;
        Ok(found.into_iter().map(|(.., spec)| spec.metadata).collect())
    }

    /// The kernel command line that it booted with.
    ///
    /// # Errors
    ///
    /// As any call; releases before 1.12 do not tell it.
    pub async fn kernel_cmdline(&self) -> Result<String> {
        let spec: CmdlineSpec = self.api.get_at("reading the kernel command line", cosi::CMDLINE).await?;
        Ok(spec.cmdline)
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

    /// The addresses of all links.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn addresses(&self) -> Result<Vec<Address>> {
        self.api.addresses().await
    }

    /// The volumes: Talos' own and those of the configuration.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn volumes(&self) -> Result<Vec<Volume>> {
        self.api.volumes().await
    }

    /// One resource, whatever it is.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]; [`Kind::Unimplemented`] for a type that this release does not have.
    pub async fn get(&self, namespace: &str, kind: &str, id: &str) -> Result<serde_json::Value> {
        self.api.get("reading a resource", namespace, kind, id).await
    }

    /// All resources of a type.
    ///
    /// # Errors
    ///
    /// [`Kind::Unimplemented`] for a type that this release does not have.
    pub async fn list(&self, namespace: &str, kind: &str) -> Result<Vec<Resource>> {
        let found = self.api.list("listing resources", namespace, kind).await?;
        Ok(found.into_iter().map(|(id, version, spec)| Resource { id, version, spec }).collect())
    }

    /// Watches one resource, or all of a type, beginning with what is there.
    ///
    /// # Errors
    ///
    /// [`Kind::Unimplemented`] for a type that this release does not have.
    pub async fn watch(&self, namespace: &str, kind: &str, id: Option<&str>) -> Result<Watch> {
        self.api.watch(namespace, kind, id).await
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
        let look = async {
            let mut stream = match self.api.services().list(request).await {
                Ok(answer) => answer.into_inner(),
                Err(status) if missing(status.message()) => return Ok(false),
                Err(status) => return Err(status),
            };
            match stream.message().await {
                Ok(Some(entry)) => Ok(!missing(&entry.error)),
                Ok(None) => Ok(true),
                Err(status) if missing(status.message()) => Ok(false),
                Err(status) => Err(status),
            }
        };
        self.api.limited(attempt, QUESTION, look).await
    }

    /// A small file. A file that is not there is [`Kind::NotFound`].
    pub(crate) async fn read_file(&self, attempt: &'static str, path: &str) -> Result<Vec<u8>> {
        let request = wire::ReadRequest { path: path.to_owned() };
        let answer = self.api.limited(attempt, QUESTION, self.api.services().read(request)).await?;
        let mut content = Vec::new();
        let take = |bytes: &[u8]| {
            content.extend_from_slice(bytes);
            true
        };
        self.api.bytes(attempt, answer.into_inner(), take).await?;
        Ok(content)
    }

    /// Has the machine check a configuration without taking it. It does not look closely: keys that are no keys and a
    /// worker's configuration on a control plane pass.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidConfig`] when it would not take it.
    pub async fn apply_dry_run(&self, config: &[u8]) -> Result<Applied> {
        self.api.apply(config, ApplyMode::Auto, true).await
    }

    /// Where a configuration differs from the one the machine runs, and what each change costs it. Never a value: the
    /// machine's own account of the difference is not used, because it holds keys in clear.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidConfig`] when `config` cannot be read, and as any call.
    pub async fn changes_to(&self, config: &str, release: Contract) -> Result<Vec<talos::config::Change>> {
        let attempt = "comparing configurations";
        let unreadable = |why: &str| self.api.failure(attempt, Kind::InvalidConfig, why);
        let running = self.machine_config().await?;
        let running = Documents::parse(running.expose_secret())
            .map_err(|_| unreadable("the running configuration cannot be read"))?;
        let wanted =
            Documents::parse(config).map_err(|_| unreadable("the new configuration cannot be read"))?;
        Ok(difference(&running, &wanted, release))
    }

    /// Hands over a new configuration. The machine decides whether it must restart for it.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidConfig`]; [`Kind::NotReady`] while another one is being applied.
    pub async fn apply(&self, config: &[u8]) -> Result<Applied> {
        self.apply_with(config, ApplyMode::Auto).await
    }

    /// Hands over a new configuration, in a way that the caller chooses.
    ///
    /// # Errors
    ///
    /// As [`Machine::apply`]; [`Kind::InvalidConfig`] also for a change that the mode does not allow.
    pub async fn apply_with(&self, config: &[u8], mode: ApplyMode) -> Result<Applied> {
        self.api.apply(config, mode, false).await
    }
}
