//! From blueprint and bundle to what the nodes and the Image Factory receive.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use model::blueprint::{Blueprint, Image, Node, Role};
use talos::config::{self, Contract, Input, NodeInput};
use talos::pki::{self, Identity};
use talos::schematic::Schematic;
use talos::secrets::Bundle;
use talos_client::Credentials;
use zeroize::Zeroizing;

use crate::error::{Error, Kind, Result};
use crate::observe::machines::digest;

/// For how long the certificates of one run hold.
const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// Client certificates, minted for one run.
pub struct Access {
    /// For Talos, as administrator.
    pub talos: Credentials,
    /// For Kubernetes, as administrator.
    pub kubernetes: Identity,
}

/// The machine configuration of one node. It holds keys, so it is never shown and wiped when dropped.
pub struct Config(Zeroizing<String>);

impl Config {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Access {
    /// Mints certificates from the bundle's authorities.
    ///
    /// # Errors
    ///
    /// When an authority of the bundle cannot sign.
    pub fn mint(bundle: &Bundle, now: Timestamp) -> Result<Self> {
        let attempt = || Error::new(Kind::Secrets, "could not make client certificates from the bundle");
        let talos = pki::talos_client(bundle, pki::ADMIN, LIFETIME, now).map_err(|e| attempt().because(e))?;
        let kubernetes = pki::kubernetes_admin(bundle, LIFETIME, now).map_err(|e| attempt().because(e))?;
        Ok(Self { talos: Credentials::from(&talos), kubernetes })
    }
}

/// The schematic of an image.
#[must_use]
pub fn schematic(image: &Image) -> Schematic {
    Schematic {
        extensions: image.extensions.iter().cloned().collect(),
        extra_kernel_args: image.kernel_args.clone(),
        ..Schematic::default()
    }
}

/// Schematic ids by image key.
///
/// # Errors
///
/// When an id can only be computed by a factory, because of characters that YAML writers quote differently.
pub fn schematics(blueprint: &Blueprint) -> Result<BTreeMap<String, String>> {
    blueprint.images.iter().map(|(key, image)| Ok((key.clone(), schematic_id(image)?))).collect()
}

fn schematic_id(image: &Image) -> Result<String> {
    schematic(image).id().ok_or_else(|| {
        Error::new(
            Kind::Input,
            format!("the id of the image with the kernel arguments {:?} is not known", image.kernel_args),
        )
        .remedy("use extensions and kernel arguments of letters, digits and /_.=,+- only")
    })
}

/// The configuration of every node.
///
/// # Errors
///
/// When a node's Talos version has no known configuration.
pub fn configs(blueprint: &Blueprint, bundle: &Bundle) -> Result<BTreeMap<String, Config>> {
    blueprint.nodes.values().map(|node| Ok((node.name.clone(), one(blueprint, node, bundle)?))).collect()
}

pub(crate) fn digests(configs: &BTreeMap<String, Config>) -> BTreeMap<String, String> {
    configs.iter().map(|(name, config)| (name.clone(), digest(config.0.as_bytes()))).collect()
}

fn one(blueprint: &Blueprint, node: &Node, bundle: &Bundle) -> Result<Config> {
    let attempt =
        || Error::new(Kind::Input, format!("could not make the machine configuration of {}", node.name));
    let contract = Contract::parse(&node.talos).map_err(|e| attempt().because(e))?;
    let mut documents =
        config::generate(bundle, &input(blueprint, node, contract)).map_err(|e| attempt().because(e))?;
    config::apply_node(&mut documents, contract, &node_input(blueprint, node));
    Ok(Config(Zeroizing::new(documents.to_yaml())))
}

/// What all nodes of a role share. Nothing in it depends on which other nodes there are: adding one must not change the
/// configuration of another.
fn input(blueprint: &Blueprint, node: &Node, contract: Contract) -> Input {
    let role = match node.role {
        Role::ControlPlane => config::Role::ControlPlane,
        Role::Worker => config::Role::Worker,
    };
    let image = blueprint.images.get(&node.image).and_then(|i| {
        Some(talos::schematic::installer_image(factory_host(&i.factory), &schematic(i).id()?, &node.talos))
    });
    Input {
        install_image: image,
        cert_sans: blueprint.vip.iter().map(ToString::to_string).collect(),
        dns_domain: blueprint.dns_domain.clone(),
        pod_subnets: vec![blueprint.pod_cidr.to_string()],
        service_subnets: vec![blueprint.service_cidr.to_string()],
        allow_scheduling_on_control_planes: blueprint.schedule_on_control_planes,
        ..Input::new(contract, role, &blueprint.cluster, &blueprint.endpoint, &blueprint.kubernetes)
    }
}

fn node_input(blueprint: &Blueprint, node: &Node) -> NodeInput {
    NodeInput {
        hostname: node.name.clone(),
        mac: node.mac.clone(),
        address: Some(node.address.to_string()),
        gateway: Some(node.gateway.to_string()),
        nameservers: node.dns.iter().map(ToString::to_string).collect(),
        time_servers: node.ntp.clone(),
        mtu: node.mtu,
        vip: blueprint.vip.map(|v| v.to_string()),
        labels: node.labels.clone(),
    }
}

/// Image references have no scheme.
fn factory_host(url: &str) -> &str {
    url.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/')
}
