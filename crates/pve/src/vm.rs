//! Virtual machines: their configuration, power, and the calls that change them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::client::{Call, Client};
use crate::error::{Error, Kind, Result};
use crate::percent::encode;
use crate::property::PropertyString;
use crate::scalar;
use crate::upid::Upid;

/// Parameters by name. All values are text; a boolean is `0` or `1`.
pub type Params = BTreeMap<String, String>;

/// A machine's configuration as Proxmox stores it, pending changes included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VmConfig {
    /// The hash of the stored file; hand it to [`Client::update_config`] to change only what was read.
    pub digest: String,
    /// All other keys.
    pub keys: BTreeMap<String, String>,
}

/// A drive of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    /// The volume, such as `local:100/vm-100-disk-0.qcow2`, or `none`.
    pub volume: String,
    /// Its size in bytes, where the configuration says so.
    pub size: Option<u64>,
    /// The whole value.
    pub options: PropertyString,
}

impl VmConfig {
    fn of(wire: BTreeMap<String, Value>) -> Self {
        let texts = wire.into_iter().filter_map(|(key, value)| Some((key, scalar::as_text(&value)?)));
        let mut keys: BTreeMap<_, _> = texts.collect();
        Self { digest: keys.remove("digest").unwrap_or_default(), keys }
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.keys.get(key).map(String::as_str)
    }

    /// The notes, which people see in the web interface.
    #[must_use]
    pub fn description(&self) -> &str {
        self.get("description").unwrap_or_default()
    }

    /// The lock, while other work holds the machine.
    #[must_use]
    pub fn lock(&self) -> Option<&str> {
        self.get("lock")
    }

    #[must_use]
    pub fn tags(&self) -> Vec<String> {
        self.get("tags").map(scalar::split).unwrap_or_default()
    }

    /// The SMBIOS UUID, in lower case.
    #[must_use]
    pub fn smbios_uuid(&self) -> Option<String> {
        let smbios = PropertyString::from(self.get("smbios1")?);
        smbios.get("uuid").map(str::to_ascii_lowercase)
    }

    /// The hardware address of NIC number `index`, in upper case.
    #[must_use]
    pub fn mac(&self, index: u32) -> Option<String> {
        let nic = PropertyString::from(self.get(&format!("net{index}"))?);
        // Read back it is `virtio=AA:…`: the model is the key. It may also have been stored as `macaddr=`.
        let mac =
            nic.get("macaddr").or_else(|| nic.pairs().map(|(_, value)| value).find(|value| is_mac(value)));
        mac.map(str::to_ascii_uppercase)
    }

    /// The drive at a key such as `scsi0`.
    #[must_use]
    pub fn drive(&self, key: &str) -> Option<Drive> {
        let options = PropertyString::from(self.get(key)?);
        let volume = options.first().or_else(|| options.get("file"))?.to_owned();
        Some(Drive { volume, size: options.get("size").and_then(bytes), options })
    }

    /// All drives with their keys: disks, cloud-init and CD drives, EFI and TPM state.
    pub fn drives(&self) -> impl Iterator<Item = (&str, Drive)> {
        self.keys.keys().filter(|key| is_drive(key)).filter_map(|key| Some((key.as_str(), self.drive(key)?)))
    }
}

fn is_mac(text: &str) -> bool {
    text.len() == 17 && text.split(':').count() == 6
}

fn is_drive(key: &str) -> bool {
    let bus = key.trim_end_matches(|c: char| c.is_ascii_digit());
    bus.len() < key.len() && matches!(bus, "scsi" | "virtio" | "sata" | "ide" | "efidisk" | "tpmstate")
}

/// Reads a size such as `20G`, `528K` or `1.5T`; the units are powers of 1024.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a disk's size is positive and below 2^53"
)]
fn bytes(size: &str) -> Option<u64> {
    let (number, power) = match size.char_indices().last()? {
        (at, 'K') => (&size[..at], 1),
        (at, 'M') => (&size[..at], 2),
        (at, 'G') => (&size[..at], 3),
        (at, 'T') => (&size[..at], 4),
        _ => (size, 0),
    };
    let number: f64 = number.parse().ok()?;
    (number >= 0.0).then(|| (number * 1024_f64.powi(power)) as u64)
}

/// Whether a machine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerState {
    /// It does.
    Running,
    /// It does not.
    Stopped,
    /// Proxmox said something else.
    Unknown,
}

/// A machine's state at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmStatus {
    /// Whether it runs.
    pub power: PowerState,
    /// QEMU's own word, such as `running`, `paused` or `prelaunch`.
    pub qmp: Option<String>,
    /// Seconds since it was started.
    pub uptime: u64,
    /// The lock, while other work holds the machine.
    pub lock: Option<String>,
    pub name: Option<String>,
    /// Whether Proxmox's high availability decides about its power.
    pub ha_managed: bool,
}

#[derive(Deserialize)]
struct WireStatus {
    #[serde(default, deserialize_with = "scalar::text")]
    status: Option<String>,
    #[serde(default, deserialize_with = "scalar::text")]
    qmpstatus: Option<String>,
    #[serde(default, deserialize_with = "scalar::number")]
    uptime: Option<u64>,
    #[serde(default, deserialize_with = "scalar::text")]
    lock: Option<String>,
    #[serde(default, deserialize_with = "scalar::text")]
    name: Option<String>,
    #[serde(default)]
    ha: Value,
}

/// A network interface as the guest agent sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentInterface {
    /// Its name in the guest.
    pub name: String,
    /// Its hardware address, in upper case.
    pub mac: Option<String>,
    pub addresses: Vec<IpAddr>,
}

#[derive(Deserialize)]
struct WireAgent<T> {
    result: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct WireInterface {
    name: String,
    #[serde(default, deserialize_with = "scalar::text")]
    hardware_address: Option<String>,
    #[serde(default)]
    ip_addresses: Vec<WireAddress>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct WireAddress {
    #[serde(default, deserialize_with = "scalar::text")]
    ip_address: Option<String>,
}

/// The calls on one machine share a way of naming themselves.
pub(crate) fn machine(node: &str, vmid: u32, below: &str) -> String {
    format!("/nodes/{}/qemu/{vmid}{below}", encode(node))
}

impl Client {
    /// A call whose answer is a task.
    pub(crate) async fn task(&self, call: Call) -> Result<Upid> {
        let attempt = call.attempt().to_owned();
        let text: String = self.call(call).await?;
        text.parse().map_err(|text| Error::new(attempt, Kind::Protocol { text }))
    }

    /// Creates a machine. The id is reserved when this returns; the disks are made by the task.
    ///
    /// # Errors
    ///
    /// [`Kind::Exists`] when the id is taken. [`Kind::Lost`]: look whether it is there before trying again.
    pub async fn create_vm(&self, node: &str, vmid: u32, params: &Params) -> Result<Upid> {
        let path = format!("/nodes/{}/qemu", encode(node));
        let attempt = format!("creating VM {vmid} on {node}");
        self.task(Call::change(Method::POST, node, attempt, path).params(params).with("vmid", vmid)).await
    }

    /// A machine's configuration.
    ///
    /// # Errors
    ///
    /// [`Kind::Missing`] when the machine is not on that node.
    pub async fn vm_config(&self, node: &str, vmid: u32) -> Result<VmConfig> {
        let attempt = format!("reading the configuration of VM {vmid} on {node}");
        Ok(VmConfig::of(self.call(Call::get(attempt, machine(node, vmid, "/config"))).await?))
    }

    /// Changes a machine's configuration, now. With a digest, only if it did not change since it was read.
    ///
    /// # Errors
    ///
    /// [`Kind::DigestMismatch`], [`Kind::Locked`], [`Kind::LockTimeout`], and as any call.
    pub async fn update_config(
        &self,
        node: &str,
        vmid: u32,
        params: &Params,
        delete: &[&str],
        digest: Option<&str>,
    ) -> Result<()> {
        let attempt = format!("changing the configuration of VM {vmid} on {node}");
        let mut call =
            Call::change(Method::PUT, node, attempt, machine(node, vmid, "/config")).params(params);
        if !delete.is_empty() {
            call = call.with("delete", delete.join(","));
        }
        if let Some(digest) = digest {
            call = call.with("digest", digest);
        }
        self.call::<Value>(call).await.map(drop)
    }

    /// Grows a disk to `size`, such as `20G`. The same size again does nothing. With a digest, only if the configuration is still
    /// the one that was read.
    ///
    /// # Errors
    ///
    /// As any call; a missing machine or disk and a smaller size fail in the task.
    pub async fn resize(
        &self,
        node: &str,
        vmid: u32,
        disk: &str,
        size: &str,
        digest: Option<&str>,
    ) -> Result<Upid> {
        let attempt = format!("growing disk {disk} of VM {vmid} on {node} to {size}");
        let call = Call::change(Method::PUT, node, attempt, machine(node, vmid, "/resize"));
        let call = call.with("disk", disk).with("size", size);
        self.task(match digest {
            Some(digest) => call.with("digest", digest),
            None => call,
        })
        .await
    }

    /// Switches a machine on.
    ///
    /// # Errors
    ///
    /// As any call; when it runs already the task fails with [`Kind::WrongState`].
    pub async fn start(&self, node: &str, vmid: u32) -> Result<Upid> {
        self.task(power(node, vmid, "starting", "start")).await
    }

    /// Switches a machine off, at once.
    pub async fn stop(&self, node: &str, vmid: u32) -> Result<Upid> {
        self.task(power(node, vmid, "stopping", "stop")).await
    }

    /// Restarts a machine at once, as its reset button does: it keeps running for Proxmox, and its console stays connected.
    pub async fn reset(&self, node: &str, vmid: u32) -> Result<Upid> {
        self.task(power(node, vmid, "resetting", "reset")).await
    }

    /// Asks the guest to switch itself off, and waits for it as long as `timeout` in the task.
    ///
    /// # Errors
    ///
    /// As any call; a guest that does not obey makes the task fail.
    pub async fn shutdown(&self, node: &str, vmid: u32, timeout: Duration) -> Result<Upid> {
        self.task(power(node, vmid, "shutting down", "shutdown").with("timeout", timeout.as_secs())).await
    }

    /// Destroys a machine and the disks that it owns. With `purge` also its backup jobs and its place in high availability.
    ///
    /// # Errors
    ///
    /// [`Kind::WrongState`] while it runs, [`Kind::Missing`], and as any call.
    pub async fn delete_vm(&self, node: &str, vmid: u32, purge: bool) -> Result<Upid> {
        let attempt = format!("destroying VM {vmid} on {node}");
        let call = Call::change(Method::DELETE, node, attempt, machine(node, vmid, ""));
        self.task(if purge { call.with("purge", 1) } else { call }).await
    }

    /// Whether a machine runs at this moment.
    ///
    /// # Errors
    ///
    /// As [`Self::vm_status`], and [`Kind::Protocol`] for a state that is neither: that is not "off".
    pub async fn is_running(&self, node: &str, vmid: u32) -> Result<bool> {
        match self.vm_status(node, vmid).await?.power {
            PowerState::Running => Ok(true),
            PowerState::Stopped => Ok(false),
            PowerState::Unknown => Err(Error::new(
                format!("reading the status of VM {vmid} on {node}"),
                Kind::Protocol { text: "it says neither running nor stopped".to_owned() },
            )),
        }
    }

    /// A machine's state at this moment.
    ///
    /// # Errors
    ///
    /// [`Kind::Missing`] when the machine is not on that node.
    pub async fn vm_status(&self, node: &str, vmid: u32) -> Result<VmStatus> {
        let attempt = format!("reading the status of VM {vmid} on {node}");
        let wire: WireStatus = self.call(Call::get(attempt, machine(node, vmid, "/status/current"))).await?;
        Ok(VmStatus {
            power: match wire.status.as_deref() {
                Some("running") => PowerState::Running,
                Some("stopped") => PowerState::Stopped,
                _ => PowerState::Unknown,
            },
            qmp: wire.qmpstatus,
            uptime: wire.uptime.unwrap_or(0),
            lock: wire.lock,
            name: wire.name,
            ha_managed: wire.ha.get("managed").is_some_and(scalar::as_flag),
        })
    }

    /// The guest's interfaces, as its agent tells.
    ///
    /// # Errors
    ///
    /// [`Kind::WrongState`] when the agent does not answer or the machine is off.
    pub async fn agent_interfaces(&self, node: &str, vmid: u32) -> Result<Vec<AgentInterface>> {
        let attempt = format!("asking the guest agent of VM {vmid} on {node} for its addresses");
        let path = machine(node, vmid, "/agent/network-get-interfaces");
        let wire: WireAgent<Vec<WireInterface>> = self.call(Call::get(attempt, path)).await?;
        let interface = |i: WireInterface| AgentInterface {
            name: i.name,
            mac: i.hardware_address.map(|m| m.to_ascii_uppercase()),
            addresses: i.ip_addresses.into_iter().filter_map(|a| a.ip_address?.parse().ok()).collect(),
        };
        Ok(wire.result.into_iter().map(interface).collect())
    }
}

fn power(node: &str, vmid: u32, doing: &str, call: &str) -> Call {
    let attempt = format!("{doing} VM {vmid} on {node}");
    Call::change(Method::POST, node, attempt, machine(node, vmid, &format!("/status/{call}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(bytes("512M"), Some(512 << 20));
        assert_eq!(bytes("1.5G"), Some(3 << 29));
        assert_eq!(bytes("4096"), Some(4096));
        assert_eq!(bytes("528K"), Some(528 << 10));
        for bad in ["", "G", "-1G", "x"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_configuration_gives_identity_and_drives() {
        let wire = serde_json::json!({
            "net0": "virtio=bc:24:11:99:E0:59,bridge=vmbr0", "net1": "virtio,macaddr=BC:24:11:00:00:01",
            "digest": "88767d94041b835a61f4cf61cf71a8c714e7eba6", "cores": 2, "scsihw": "virtio-scsi-single",
            "ide2": "local:910/vm-910-cloudinit.qcow2,media=cdrom", "scsi0": "local:910/vm-910-disk-0.qcow2,size=64M",
            "smbios1": "uuid=BC1D6309-7a34-4822-981b-dece7a37be40", "tags": "a;b", "parent": null
        });
        let config = VmConfig::of(serde_json::from_value(wire).unwrap());
        assert_eq!(config.digest, "88767d94041b835a61f4cf61cf71a8c714e7eba6");
        assert_eq!(config.get("cores"), Some("2"));
        assert_eq!(config.mac(0).as_deref(), Some("BC:24:11:99:E0:59"));
        assert_eq!(config.mac(1).as_deref(), Some("BC:24:11:00:00:01"));
        assert_eq!(config.mac(2), None);
        assert_eq!(config.smbios_uuid().as_deref(), Some("bc1d6309-7a34-4822-981b-dece7a37be40"));
        assert_eq!(config.tags(), ["a", "b"]);
        let drives: Vec<_> = config.drives().map(|(key, drive)| (key.to_owned(), drive.size)).collect();
        assert_eq!(drives, [("ide2".to_owned(), None), ("scsi0".to_owned(), Some(64 << 20))]);
    }
}
