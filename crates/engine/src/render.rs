//! From blueprint and bundle to what the nodes and the Image Factory receive.
//!
//! Rendering asks no system: it works offline, and gives the same for the same file, attached files and bundle. What the file says
//! becomes settings (`machine`, `manifests`), `talos` writes them in the form of the contract, then the file's patches
//! are merged, and the result is held against what the node's release would refuse.

mod machine;
pub(crate) mod manifests;
mod patches;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use model::attachments::Attachments;
use model::blueprint::{Blueprint, Image, Node};
use model::diagnostic::{Diagnostic, Path, codes};
use model::names::NodeName;
use model::upgrade::Component;
use sha2::{Digest, Sha256};
use talos::config::{self, ClusterSettings, Contract, Documents, KubernetesImage};
use talos::pki::{self, Identity};
use talos::schematic::SchematicFile;
use talos::secrets::{self, Bundle};
use talos::validate::{Mode, Problem, validate};
use talos_client::Credentials;
use zeroize::Zeroizing;

use crate::attachments::chain;
use crate::error::{Error, Kind, Result};

/// For how long the certificates of one run hold.
const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// Client certificates, minted for one run.
pub struct Access {
    /// For Talos, as administrator.
    pub talos: Credentials,
    /// For Kubernetes, as administrator.
    pub kubernetes: Identity,
}

/// The machine configuration of one node. It holds keys, so it is wiped when dropped.
pub struct Config {
    whole: Zeroizing<String>,
    /// Before any patch, so that what patches brought can be told apart.
    unpatched: Zeroizing<String>,
}

impl Config {
    /// The text with its keys. Only the node, or a file that only its owner may read, gets it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.whole
    }

    /// The text without its keys, which may be shown. Of what people wrote freely (values of charts, manifests, patches) it has digests.
    #[must_use]
    pub fn redacted(&self) -> String {
        match (Documents::parse(&self.whole), Documents::parse(&self.unpatched)) {
            (Ok(whole), Ok(unpatched)) => whole.redacted_beyond(&unpatched).to_yaml(),
            _ => String::new(),
        }
    }
}

impl Access {
    /// Mints certificates from the bundle's authorities.
    ///
    /// # Errors
    ///
    /// When an authority of the bundle cannot sign.
    pub fn mint(bundle: &Bundle, now: Timestamp) -> Result<Self> {
        let attempt = || Error::new(Kind::Secrets, "could not create client certificates from the bundle");
        let talos =
            secrets::talos_client(bundle, pki::ADMIN, LIFETIME, now).map_err(|e| attempt().because(e))?;
        let kubernetes =
            secrets::kubernetes_admin(bundle, LIFETIME, now).map_err(|e| attempt().because(e))?;
        Ok(Self { talos: Credentials::from(&talos), kubernetes })
    }
}

/// What an image is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schematic {
    /// The text that the factory is given.
    pub text: String,
    /// Its id, where it is known before a factory is asked.
    pub id: Option<String>,
    /// The system extensions.
    pub extensions: Vec<String>,
}

impl Schematic {
    /// Whether NVIDIA's driver is in it.
    fn has_nvidia(&self) -> bool {
        let driver = |name: &String| {
            name.contains("nvidia") && (name.contains("kernel-modules") || name.contains("kmod"))
        };
        self.extensions.iter().any(driver)
    }
}

/// The schematic of an image: made from the file's words, or the attached file as it stands.
///
/// # Errors
///
/// When the attached file is missing or no schematic, which reading the attached files would have told.
pub fn schematic(image: &Image, attachments: &Attachments) -> Result<Schematic> {
    let Some(file) = &image.schematic_file else {
        let made = talos::schematic::Schematic {
            extensions: image.extensions.iter().cloned().collect(),
            extra_kernel_args: image.kernel_args.clone(),
            ..talos::schematic::Schematic::default()
        };
        let extensions = image.extensions.clone();
        return Ok(Schematic { text: made.canonical(), id: made.id(), extensions });
    };
    let attempt = || Error::new(Kind::Input, format!("could not use the schematic {file}"));
    let text = attachments.get(file).ok_or_else(|| attempt().hint("the file was not read"))?;
    let read = SchematicFile::parse(text).map_err(|e| attempt().because(e))?;
    Ok(Schematic { text: read.canonical(), id: read.id(), extensions: read.extensions() })
}

/// The schematics of all images, by image key.
///
/// # Errors
///
/// When an attached file is no schematic.
pub fn schematics(blueprint: &Blueprint, attachments: &Attachments) -> Result<BTreeMap<String, Schematic>> {
    let one = |(key, image): (&String, &Image)| Ok((key.clone(), schematic(image, attachments)?));
    blueprint.images.iter().map(one).collect()
}

/// Schematic ids by image key.
///
/// # Errors
///
/// When an id can only be computed by a factory, because of characters that YAML writers quote differently.
pub(crate) fn ids(
    blueprint: &Blueprint,
    schematics: &BTreeMap<String, Schematic>,
) -> Result<BTreeMap<String, String>> {
    let one = |(key, schematic): (&String, &Schematic)| match &schematic.id {
        Some(id) => Ok((key.clone(), id.clone())),
        None => {
            let arguments =
                blueprint.images.get(key).map(|image| image.kernel_args.clone()).unwrap_or_default();
            let what = format!("the id of the image with the kernel arguments {arguments:?} is not known");
            let hint = "use extensions and kernel arguments of letters, digits and /_.=,+- only";
            Err(Error::new(Kind::Input, what).hint(hint))
        }
    };
    schematics.iter().map(one).collect()
}

/// What tells two configurations apart without showing them.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

pub(crate) fn digests(configs: &BTreeMap<NodeName, Config>) -> BTreeMap<NodeName, String> {
    configs.iter().map(|(name, config)| (name.clone(), digest(config.whole.as_bytes()))).collect()
}

/// Everything that configurations are made from, beside the secrets.
pub struct Renderer<'a> {
    blueprint: &'a Blueprint,
    schematics: &'a BTreeMap<String, Schematic>,
    attachments: &'a Attachments,
    cluster: ClusterSettings,
    /// What stands for a host that is still open, where nothing is kept of what is made.
    open_host: Option<&'a str>,
}

impl<'a> Renderer<'a> {
    /// For one blueprint, with the files that it points to.
    #[must_use]
    pub fn new(
        blueprint: &'a Blueprint,
        schematics: &'a BTreeMap<String, Schematic>,
        attachments: &'a Attachments,
    ) -> Self {
        let nvidia = schematics.values().any(Schematic::has_nvidia);
        let cluster = manifests::settings(blueprint, attachments, nvidia);
        Self { blueprint, schematics, attachments, cluster, open_host: None }
    }

    /// The configuration of every node.
    ///
    /// # Errors
    ///
    /// Everything that the nodes would refuse, each once, at the patch that is to blame.
    pub fn configs(
        &self,
        bundle: &Bundle,
    ) -> std::result::Result<BTreeMap<NodeName, Config>, Vec<Diagnostic>> {
        let mut configs = BTreeMap::new();
        let mut found = Vec::new();
        for node in self.blueprint.nodes.values() {
            match self.documents(node, bundle) {
                Ok((whole, unpatched)) => {
                    let [whole, unpatched] = [whole, unpatched].map(|it| Zeroizing::new(it.to_yaml()));
                    configs.insert(node.name.clone(), Config { whole, unpatched });
                }
                Err(problems) => found.extend(problems.into_iter().map(|found| (node.name.as_str(), found))),
            }
        }
        if found.is_empty() { Ok(configs) } else { Err(told_once(found)) }
    }

    /// The installer image of every node whose schematic has a known id.
    #[must_use]
    pub fn installers(&self) -> BTreeMap<NodeName, String> {
        let of = |node: &Node| {
            let image = machine::installer(self.blueprint, node, self.schematics.get(&node.image))?;
            Some((node.name.clone(), image))
        };
        self.blueprint.nodes.values().filter_map(of).collect()
    }

    /// Finds what the nodes would refuse, before there is a bundle. Nothing is kept of what it makes.
    ///
    /// # Errors
    ///
    /// The same as for [`Renderer::configs`].
    pub fn check(&self, now: Timestamp) -> std::result::Result<(), Vec<Diagnostic>> {
        let contract =
            self.blueprint.nodes.values().find_map(|node| self.contract(node)).unwrap_or(config::NEWEST);
        let bundle = Bundle::placeholder(contract, now).map_err(|error| {
            let message = format!("the configurations could not be checked: {error}");
            vec![Diagnostic::error(codes::CONFIG_REFUSED, message)]
        })?;
        let trial = Self { open_host: Some("open"), cluster: self.cluster.clone(), ..*self };
        trial.configs(&bundle).map(drop)
    }

    /// The configuration of a node, and the same before any patch.
    fn documents(
        &self,
        node: &Node,
        bundle: &Bundle,
    ) -> std::result::Result<(Documents, Documents), Vec<Refused>> {
        let release = Contract::parse(&node.talos).map_err(|e| vec![Refused::node(node, e.to_string())])?;
        let patches = self.patches(node, release)?;
        let unpatched = self.unpatched(node, bundle)?;
        let mut documents = unpatched.clone();
        for (path, patch) in &patches {
            patch.apply(&mut documents).map_err(|e| vec![Refused::patch(path, &e)])?;
        }
        // Whatever names them, parts of Kubernetes keep their version until it is their turn.
        for (component, version) in &node.components {
            config::set_kubernetes_tag(&mut documents, image_of(*component), version);
        }
        let problems = validate(&documents, release, Mode::Cloud);
        match problems.is_empty() {
            true => Ok((documents, unpatched)),
            false => Err(self.blame(node, bundle, &patches, problems)),
        }
    }

    fn patches(
        &self,
        node: &Node,
        release: Contract,
    ) -> std::result::Result<Vec<patches::Read>, Vec<Refused>> {
        let values = patches::values(self.blueprint, node, self.open_host);
        patches::read(node, self.attachments, release, &values)
    }

    /// The contract that a node's configuration follows: the file's, or that of the node's own release.
    fn contract(&self, node: &Node) -> Option<Contract> {
        let text = self.blueprint.options.contract.as_ref().unwrap_or(&node.talos);
        Contract::parse(text).ok()
    }

    fn unpatched(&self, node: &Node, bundle: &Bundle) -> std::result::Result<Documents, Vec<Refused>> {
        let refused = |message: String| vec![Refused::node(node, message)];
        let contract = self.contract(node).unwrap_or(config::NEWEST);
        let schematic = self.schematics.get(&node.image);
        let input = machine::input(self.blueprint, node, contract, schematic);
        let mut documents = config::generate(bundle, &input).map_err(|e| refused(e.to_string()))?;
        let settings = machine::settings(self.blueprint, node, schematic);
        config::apply_machine(&mut documents, contract, &settings).map_err(|e| refused(e.to_string()))?;
        config::apply_cluster(&mut documents, contract, &self.cluster);
        Ok(documents)
    }

    /// The patch after which each problem is first there; what was there before any patch belongs to the node.
    fn blame(
        &self,
        node: &Node,
        bundle: &Bundle,
        patches: &[patches::Read],
        problems: Vec<Problem>,
    ) -> Vec<Refused> {
        let Ok(release) = Contract::parse(&node.talos) else { return Vec::new() };
        let Ok(mut documents) = self.unpatched(node, bundle) else { return Vec::new() };
        let mut left = problems;
        let mut refused = Vec::new();
        let mut blame = |documents: &Documents, path: Option<&Path>| {
            let seen = validate(documents, release, Mode::Cloud);
            left.retain(|problem| {
                let here = seen.contains(problem);
                if here {
                    refused.push(Refused::setting(node, path, problem));
                }
                !here
            });
        };
        blame(&documents, None);
        for (path, patch) in patches {
            if patch.apply(&mut documents).is_err() {
                break;
            }
            blame(&documents, Some(path));
        }
        refused
    }
}

/// One thing that is wrong, and where.
struct Refused {
    path: Path,
    code: &'static str,
    message: String,
    help: Option<String>,
}

/// What helps where Talos would refuse something and says no more.
const CHANGE_IT: &str = "change it to a value that this release of Talos accepts";

impl Refused {
    fn node(node: &Node, message: String) -> Self {
        Self { path: node_path(node), code: codes::CONFIG_REFUSED, message, help: None }
    }

    fn patch(path: &Path, error: &talos::patch::PatchError) -> Self {
        let code = match error {
            talos::patch::PatchError::Json { .. } => codes::JSON_PATCH,
            talos::patch::PatchError::Unfit(_) => codes::CONFIG_REFUSED,
            _ => codes::BAD_PATCH,
        };
        let help = error.hint().or_else(|| (code == codes::CONFIG_REFUSED).then(|| CHANGE_IT.to_owned()));
        Self { path: path.clone(), code, message: chain(error), help }
    }

    fn setting(node: &Node, path: Option<&Path>, problem: &Problem) -> Self {
        let path = path.cloned().unwrap_or_else(|| node_path(node));
        let message = format!("Talos would refuse this configuration: {problem}");
        Self { path, code: codes::CONFIG_REFUSED, message, help: Some(CHANGE_IT.to_owned()) }
    }
}

pub(crate) fn image_of(component: Component) -> KubernetesImage {
    match component {
        Component::ApiServer => KubernetesImage::ApiServer,
        Component::ControllerManager => KubernetesImage::ControllerManager,
        Component::Scheduler => KubernetesImage::Scheduler,
        Component::Proxy => KubernetesImage::Proxy,
        Component::Kubelet => KubernetesImage::Kubelet,
    }
}

fn node_path(node: &Node) -> Path {
    match &node.pool {
        Some(pool) => Path::of(&["pools", pool]),
        None => Path::of(&["nodes", &node.name]),
    }
}

/// One patch may be wrong for many nodes: it is said once, with the nodes.
fn told_once(found: Vec<(&str, Refused)>) -> Vec<Diagnostic> {
    let mut told: Vec<(Refused, Vec<&str>)> = Vec::new();
    for (node, refused) in found {
        let same = |other: &Refused| other.path == refused.path && other.message == refused.message;
        match told.iter_mut().find(|(other, _)| same(other)) {
            Some((_, nodes)) => nodes.push(node),
            None => told.push((refused, vec![node])),
        }
    }
    let say = |(refused, nodes): (Refused, Vec<&str>)| {
        let note = match nodes[..] {
            [one] => format!("for {one}"),
            [one, other] => format!("for {one} and {other}"),
            [one, ref others @ ..] => format!("for {one} and {} others", others.len()),
            [] => String::new(),
        };
        let found = Diagnostic::error(refused.code, refused.message).at(refused.path, note);
        match refused.help {
            Some(help) => found.help(help),
            None => found,
        }
    };
    told.into_iter().map(say).collect()
}

#[cfg(test)]
mod tests;
