//! The Image Factory: schematics by the hash of their canonical text, and images of them.
//!
//! A schematic must have been posted before its images exist. The first who asks for an image waits until it is built; a
//! GET is then sent on to where images are kept, a HEAD is not. Bodies of images are tiny; their announced sizes are those
//! that a hypervisor reckons with.

mod asset;
pub(crate) mod extensions;
mod schematic;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::keys::Identity;
use crate::{LabConfig, LabError};
pub(crate) use asset::{Asset, NoAsset, version};
use schematic::Schematic;

/// How long an image takes to be built.
const BUILD: Duration = Duration::from_secs(20);

/// The factory's memory.
#[derive(Debug, Serialize, Deserialize)]
pub struct Factory {
    /// The names it answers to. The first that was configured is the one it is served under.
    hosts: Vec<String>,
    /// Canonical text by id.
    pub(crate) schematics: BTreeMap<String, String>,
    pub(crate) versions: Vec<String>,
    /// When each image that someone asked for is built.
    #[serde(default)]
    built: BTreeMap<String, Timestamp>,
    authority: Identity,
    pub(crate) server: Identity,
}

impl Factory {
    pub(crate) fn new(config: &LabConfig) -> Result<Self, LabError> {
        let authority = Identity::authority("Lab Image Factory")?;
        let server = authority.issue(&names(std::slice::from_ref(&config.factory_host)))?;
        let mut factory = Self {
            hosts: vec![config.factory_host.clone()],
            schematics: BTreeMap::new(),
            versions: config.talos_versions.clone(),
            built: BTreeMap::new(),
            authority,
            server,
        };
        factory.know(&config.schematics)?;
        Ok(factory)
    }

    /// Takes schematics that were posted before.
    fn know(&mut self, schematics: &[String]) -> Result<(), LabError> {
        schematics
            .iter()
            .try_for_each(|text| self.post(text).map(drop).map_err(|why| LabError::Schematic { why }))
    }

    /// Takes on a name and versions that are new in the configuration.
    pub(crate) fn add_missing(&mut self, config: &LabConfig) -> Result<(), LabError> {
        if !self.hosts.contains(&config.factory_host) {
            self.hosts.push(config.factory_host.clone());
            self.server = self.authority.issue(&names(&self.hosts))?;
        }
        let new = config.talos_versions.iter().filter(|version| !self.versions.contains(version));
        let new: Vec<String> = new.cloned().collect();
        self.versions.extend(new);
        self.know(&config.schematics)
    }

    /// The name it is served under.
    pub(crate) fn host(&self) -> &str {
        self.hosts.first().map_or("", String::as_str)
    }

    pub(crate) fn authority_pem(&self) -> &str {
        &self.authority.certificate_pem
    }

    /// Whether a host of that name is this factory.
    pub(crate) fn is_called(&self, host: &str) -> bool {
        self.hosts.iter().any(|name| name == host)
    }

    /// Whether a hypervisor that asks for this host reaches the factory: on loopback it goes by the address too.
    pub(crate) fn is_reached_at(&self, host: &str) -> bool {
        let loopback = || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        self.is_called(host) || host == "localhost" || loopback()
    }

    /// Whether the schematic has the extension.
    pub(crate) fn has_extension(&self, schematic: &str, name: &str) -> bool {
        self.extensions_of(schematic).iter().any(|known| known == name)
    }

    /// The extensions of a schematic.
    pub(crate) fn extensions_of(&self, schematic: &str) -> Vec<String> {
        let text = self.schematics.get(schematic);
        let read = text.and_then(|text| Schematic::read(text).ok());
        read.map(|schematic| schematic.extensions().to_vec()).unwrap_or_default()
    }

    /// Whether the factory builds images of this version.
    pub(crate) fn has_version(&self, version: &str) -> bool {
        self.versions.iter().any(|known| known == version)
    }

    /// How long a file is still being built. The first who asks starts it.
    pub(crate) fn still_builds(&mut self, asset: &Asset, now: Timestamp) -> Duration {
        let ready = self.built.entry(asset.key.clone());
        let ready = *ready.or_insert_with(|| now.saturating_add(BUILD).unwrap_or(now));
        Duration::try_from(ready.duration_since(now)).unwrap_or(Duration::ZERO)
    }

    /// Keeps a schematic; its id and canonical text.
    pub(crate) fn post(&mut self, body: &str) -> Result<(String, String), String> {
        let text = Schematic::read(body)?.canonical();
        let id = Schematic::id(&text);
        self.schematics.insert(id.clone(), text.clone());
        Ok((id, text))
    }
}

/// What its certificate is for.
fn names(hosts: &[String]) -> Vec<String> {
    hosts.iter().cloned().chain(["localhost".to_owned(), "127.0.0.1".to_owned()]).collect()
}
