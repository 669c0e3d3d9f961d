//! One sitting with one cluster: look, plan, carry out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::Ipv4Net;
use model::attachments::Attachments;
use model::blueprint::{Blueprint, Node};
use model::holder::Holder;
use model::observed::Observed;
use model::plan::{self, Plan, Rendered};
use model::spec::Spec;
use model::step::Action;
use secrecy::SecretString;
use talos::secrets::Bundle;

use crate::error::{Error, Kind, Result};
use crate::observe::{Purpose, Sought};
use crate::plan_key::PlanKey;
use crate::render::{self, Access, Config, Renderer, Schematic};
use crate::{Systems, observe};

/// Reads a secret from where the file says it is (`env:…`, `file:…`, `cmd:…`), or tells why it cannot.
pub type ReadReference = dyn Fn(&str) -> std::result::Result<SecretString, String> + Send + Sync;

/// A file, a world, and the bundle if there is one.
#[derive(Clone)]
pub struct Session {
    /// What the session talks to.
    pub systems: Systems,
    spec: Arc<Spec>,
    attachments: Arc<Attachments>,
    bundle: Option<Arc<Bundle>>,
    references: Arc<ReadReference>,
    allowed: Arc<BTreeSet<String>>,
}

/// What one look brought: what shall be, what is, and what is needed to get from one to the other. Cheap to clone.
#[derive(Clone)]
pub struct Snapshot {
    /// What shall be.
    pub blueprint: Arc<Blueprint>,
    /// What is.
    pub observed: Arc<Observed>,
    /// Digests of what was rendered.
    pub rendered: Arc<Rendered>,
    schematics: Arc<BTreeMap<String, Schematic>>,
    configs: Arc<BTreeMap<String, Config>>,
    access: Option<Arc<Access>>,
    references: Arc<ReadReference>,
    allowed: Arc<BTreeSet<String>>,
    plan_key: Option<Arc<PlanKey>>,
}

/// Looking may fail because of the file, in which case there are diagnostics to show.
#[derive(Debug)]
pub enum ObserveError {
    /// The file asks for something that this Proxmox cannot give.
    File(Vec<model::diagnostic::Diagnostic>),
    /// Anything else.
    Engine(Error),
}

impl From<Error> for ObserveError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl Session {
    /// A sitting. Without a bundle nothing that needs keys is looked at.
    #[must_use]
    pub fn new(systems: Systems, spec: Spec, bundle: Option<Bundle>) -> Self {
        let references = |_: &str| Err("this session reads no secrets from outside the file".to_owned());
        Self {
            systems,
            spec: Arc::new(spec),
            attachments: Arc::default(),
            bundle: bundle.map(Arc::new),
            references: Arc::new(references),
            allowed: Arc::default(),
        }
    }

    /// The same sitting with somebody who reads the secrets that the file refers to. Nothing is read before it is needed.
    #[must_use]
    pub fn with_references(self, references: Arc<ReadReference>) -> Self {
        Self { references, ..self }
    }

    /// The same sitting, where the data of these nodes may be deleted should that be needed to make them whole.
    #[must_use]
    pub fn allowing(self, nodes: impl IntoIterator<Item = String>) -> Self {
        Self { allowed: Arc::new(nodes.into_iter().collect()), ..self }
    }

    /// The same sitting with the files that the cluster file points to.
    #[must_use]
    pub fn with_attachments(self, attachments: Attachments) -> Self {
        Self { attachments: Arc::new(attachments), ..self }
    }

    /// The same sitting with a bundle.
    #[must_use]
    pub fn with_bundle(&self, bundle: Bundle) -> Self {
        Self { bundle: Some(Arc::new(bundle)), ..self.clone() }
    }

    /// The cluster file, loaded and checked.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Looks at the world.
    ///
    /// # Errors
    ///
    /// When Proxmox cannot be asked, or the file cannot be resolved against what it has.
    pub async fn observe(&self) -> std::result::Result<Snapshot, ObserveError> {
        self.observe_for(Purpose::Change).await
    }

    /// Looks at whatever answers, to show it. Where Proxmox does not, machines and Kubernetes are asked all the same.
    ///
    /// # Errors
    ///
    /// When Proxmox refuses, or the file cannot be resolved against what it has.
    pub async fn refresh(&self) -> std::result::Result<Snapshot, ObserveError> {
        self.observe_for(Purpose::Page).await
    }

    /// Looks only at what must be known to take the cluster away.
    ///
    /// # Errors
    ///
    /// As [`Self::observe`].
    pub async fn observe_to_destroy(&self) -> std::result::Result<Snapshot, ObserveError> {
        self.observe_for(Purpose::Removal).await
    }

    async fn observe_for(&self, purpose: Purpose) -> std::result::Result<Snapshot, ObserveError> {
        let (survey, silence) = match model::resolve::needs_proxmox(&self.spec) {
            true => match observe::proxmox::survey(&self.systems).await {
                Ok(survey) => (Some(survey), None),
                Err(error) if purpose == Purpose::Page && error.code() == "no-answer" => {
                    (None, Some(error.causes().pop().unwrap_or_default()))
                }
                Err(error) => return Err(error.into()),
            },
            false => (None, None),
        };
        let cluster_id = self.bundle.as_ref().map(|b| b.cluster_id());
        let mut blueprint =
            model::resolve::resolve(&self.spec, survey.as_ref().map(|s| &s.inventory), cluster_id)
                .map_err(ObserveError::File)?;
        let schematics = render::schematics(&blueprint, &self.attachments)?;
        let renderer = Renderer::new(&blueprint, &schematics, &self.attachments);
        let now = self.systems.clock.now();
        let (access, configs) = match &self.bundle {
            Some(bundle) => {
                let access = Access::mint(bundle, now)?;
                (Some(Arc::new(access)), renderer.configs(bundle).map_err(ObserveError::File)?)
            }
            // What the nodes would refuse must be known before keys are made and machines created.
            None => {
                renderer.check(now).map_err(ObserveError::File)?;
                (None, BTreeMap::new())
            }
        };
        let ids = render::ids(&blueprint, &schematics)?;
        let rendered = Rendered { schematics: ids, configs: render::digests(&configs) };
        let sought = Sought {
            blueprint: &blueprint,
            purpose,
            access: access.as_deref(),
            configs: &configs,
            schematics: &rendered.schematics,
            allowed: &self.allowed,
            silence: silence.as_deref(),
        };
        let observed = Box::pin(observe::observe(&self.systems, survey, &sought)).await;
        for node in blueprint.nodes.values_mut() {
            let found = self.systems.found.of(&node.name);
            if let Some(net) = found.and_then(|at| Ipv4Net::new(at, node.address.prefix_len()).ok()) {
                node.address = net;
            }
        }
        Ok(Snapshot {
            blueprint: Arc::new(blueprint),
            observed: Arc::new(observed),
            rendered: Arc::new(rendered),
            schematics: Arc::new(schematics),
            configs: Arc::new(configs),
            access,
            references: self.references.clone(),
            allowed: self.allowed.clone(),
            plan_key: self.bundle.as_deref().map(|bundle| Arc::new(PlanKey::of(bundle))),
        })
    }
}

impl Snapshot {
    /// What brings the world to the file.
    #[must_use]
    pub fn plan(&self) -> Plan {
        plan::plan_allowing(&self.blueprint, &self.rendered, &self.observed, &self.allowed)
    }

    /// What takes the cluster away.
    #[must_use]
    pub fn plan_destroy(&self) -> Plan {
        plan::plan_destroy(&self.blueprint, &self.observed)
    }

    /// Nodes whose data may be deleted.
    pub(crate) fn allowed(&self) -> &BTreeSet<String> {
        &self.allowed
    }

    /// What authenticates a plan of this look, once there is a bundle.
    pub(crate) fn plan_key(&self) -> Option<&PlanKey> {
        self.plan_key.as_deref()
    }

    /// The cluster's id, without which nothing may be changed.
    ///
    /// # Errors
    ///
    /// When there is no bundle.
    pub fn cluster_id(&self) -> Result<&str> {
        self.blueprint.cluster_id.as_deref().ok_or_else(no_bundle)
    }

    /// The keys to the machines.
    ///
    /// # Errors
    ///
    /// When there is no bundle.
    pub fn access(&self) -> Result<&Access> {
        self.access.as_deref().ok_or_else(no_bundle)
    }

    /// Reads every secret that the steps of a plan will need, so that none is found missing halfway.
    ///
    /// # Errors
    ///
    /// All that cannot be read, at once.
    pub fn read_references(&self, plan: &Plan) -> Result<()> {
        let holders = plan.steps.iter().filter_map(|step| match step.action {
            Action::CreateCredentials { to, .. } => {
                to.reference(&self.blueprint).map(|reference| (to, reference))
            }
            _ => None,
        });
        let unread = |(to, reference): (Holder, &str)| {
            let why = (self.references)(reference).err()?;
            Some(format!("{reference}, for {}: {why}", to.title()))
        };
        let missing: Vec<String> = holders.filter_map(unread).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let what = format!("could not read what the steps will need: {}", missing.join("; "));
        Err(Error::new(Kind::Input, what).hint(
            "put each secret where the file says, or name another place in the file; nothing was changed",
        ))
    }

    /// A secret that the file refers to.
    pub(crate) fn referenced(&self, reference: &str) -> Result<SecretString> {
        (self.references)(reference).map_err(|why| {
            let hint = "put the secret there, or name another place in the file";
            Error::new(Kind::Input, format!("could not read {reference}: {why}")).hint(hint)
        })
    }

    pub(crate) fn node(&self, name: &str) -> Result<&Node> {
        self.blueprint.nodes.get(name).ok_or_else(|| {
            Error::new(Kind::Refused, format!("the plan names {name}, which the blueprint does not have"))
        })
    }

    /// The text of an image's schematic, as the factory is given it.
    pub(crate) fn schematic(&self, image: &str) -> Result<&str> {
        self.schematics.get(image).map(|schematic| schematic.text.as_str()).ok_or_else(|| {
            Error::new(
                Kind::Refused,
                format!("the plan names the image {image}, which the blueprint does not have"),
            )
        })
    }

    pub(crate) fn config(&self, name: &str) -> Result<&str> {
        self.configs.get(name).map(Config::expose).ok_or_else(no_bundle)
    }
}

fn no_bundle() -> Error {
    Error::new(Kind::Secrets, "there is no secrets bundle")
        .hint("`talosmith apply` makes one for a new cluster")
}
