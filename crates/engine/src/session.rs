//! One session with one cluster: observe, plan, carry out.

mod staging;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use ipnet::Ipv4Net;
use jiff::Timestamp;
use model::allowed::Allowed;
use model::attachments::Attachments;
use model::blueprint::{Blueprint, Node, Role};
use model::diagnostic::Severity;
use model::gate::Policy;
use model::holder::Holder;
use model::names::NodeName;
use model::observed::Observed;
use model::ownership;
use model::plan::by_hand::{self, ByHand};
use model::plan::{self, Plan, Rendered};
use model::policy::WindowState;
use model::removed;
use model::spec::Spec;
use model::step::Action;
use model::vm::words;
use secrecy::SecretString;
use talos::secrets::Bundle;

use crate::error::{Error, Kind, Result};
use crate::local::{self, LocalMachine, NoMachine};
use crate::observe::{Purpose, Silence, Sought};
use crate::plan_key::PlanKey;
use crate::render::{Access, Config, Renderer, Schematic};
use crate::scrub::Scrub;
use crate::snapshots::{NoStore, SnapshotStore};
use crate::{Systems, observe};
use staging::Desired;

/// Reads a secret from where the file says it is (`env:…`, `file:…`, `cmd:…`), or tells why it cannot.
pub type ReadReference = dyn Fn(&str) -> std::result::Result<SecretString, String> + Send + Sync;

/// A file, the systems that it is about, and the bundle if there is one.
#[derive(Clone)]
pub struct Session {
    /// What the session talks to.
    pub systems: Systems,
    spec: Arc<Spec>,
    attachments: Arc<Attachments>,
    bundle: Option<Arc<Bundle>>,
    references: Arc<ReadReference>,
    allowed: Arc<Allowed>,
    snapshots: Arc<dyn SnapshotStore>,
    local: Arc<dyn LocalMachine>,
    bundle_at: Arc<str>,
    targets: Arc<BTreeSet<NodeName>>,
}

/// What one observation brought: the desired state, the observed state, and what is needed to get from one to the other. Cheap to clone.
#[derive(Clone)]
pub struct Snapshot {
    /// The desired state.
    pub blueprint: Arc<Blueprint>,
    /// The observed state.
    pub observed: Arc<Observed>,
    /// Digests of what was rendered.
    pub rendered: Arc<Rendered>,
    /// Nodes of this cluster that the file does not have any more, as far as anything is known of them.
    removed: Arc<BTreeMap<NodeName, Node>>,
    schematics: Arc<BTreeMap<String, Schematic>>,
    configs: Arc<BTreeMap<NodeName, Config>>,
    access: Option<Arc<Access>>,
    references: Arc<ReadReference>,
    allowed: Arc<Allowed>,
    snapshots: Arc<dyn SnapshotStore>,
    targets: Arc<BTreeSet<NodeName>>,
    local: Arc<dyn LocalMachine>,
    plan_key: Option<Arc<PlanKey>>,
    bundle_at: Arc<str>,
}

/// What an operator names nodes for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// Their data, or a disk of theirs, may be deleted.
    AllowDestroy,
    /// Only they are changed.
    Target,
    /// They are the arguments of the command.
    Argument,
    /// It is the Proxmox host of the command.
    Host,
    /// A disk of theirs may be deleted.
    Disk,
}

/// A name that the operator gave and that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// What it was given for.
    pub given: Given,
    pub name: String,
    /// The names that there are.
    pub known: Vec<String>,
}

impl UnknownName {
    /// That a name is none of these nodes, if so.
    #[must_use]
    pub fn among(given: Given, name: &str, known: &[NodeName]) -> Option<Self> {
        Self::of(given, name, known.iter().map(ToString::to_string).collect())
    }

    /// The same for other things than nodes.
    #[must_use]
    pub fn of(given: Given, name: &str, known: Vec<String>) -> Option<Self> {
        (!known.iter().any(|node| node == name)).then(|| Self { given, name: name.to_owned(), known })
    }
}

/// Observing may fail because of the file, in which case there are diagnostics to show.
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
    /// A session. Without a bundle nothing that needs keys is observed.
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
            snapshots: Arc::new(NoStore),
            local: Arc::new(NoMachine),
            bundle_at: Arc::from(""),
            targets: Arc::default(),
        }
    }

    /// The same session, with where the bundle was searched or read, in words for people.
    #[must_use]
    pub fn with_bundle_at(self, bundle_at: &str) -> Self {
        Self { bundle_at: Arc::from(bundle_at), ..self }
    }

    /// The same session with a reader of the secrets that the file refers to. Nothing is read before it is needed.
    #[must_use]
    pub fn with_references(self, references: Arc<ReadReference>) -> Self {
        Self { references, ..self }
    }

    /// The same session with what the operator allows.
    #[must_use]
    pub fn allowing(self, allowed: Allowed) -> Self {
        Self { allowed: Arc::new(allowed), ..self }
    }

    /// The same session with a place for snapshots of etcd. Without one, nothing that needs a snapshot is done.
    #[must_use]
    pub fn with_snapshots(self, snapshots: Arc<dyn SnapshotStore>) -> Self {
        Self { snapshots, ..self }
    }

    /// The same session, whose plans are about these nodes only and what they need. With no nodes, about all.
    #[must_use]
    pub fn targeting(self, nodes: impl IntoIterator<Item = impl Into<NodeName>>) -> Self {
        Self { targets: Arc::new(nodes.into_iter().map(Into::into).collect()), ..self }
    }

    /// The same session with the machine that it runs on, which runs the command gates of the file and knows time zones.
    #[must_use]
    pub fn with_local(self, local: Arc<dyn LocalMachine>) -> Self {
        Self { local, ..self }
    }

    /// The same session with the files that the cluster file points to.
    #[must_use]
    pub fn with_attachments(self, attachments: Attachments) -> Self {
        Self { attachments: Arc::new(attachments), ..self }
    }

    /// The same session with a bundle.
    #[must_use]
    pub fn with_bundle(&self, bundle: Bundle) -> Self {
        Self { bundle: Some(Arc::new(bundle)), ..self.clone() }
    }

    /// The secrets of the bundle, which no report may contain.
    pub(crate) fn scrub(&self) -> Scrub {
        self.bundle.as_deref().map(Scrub::of).unwrap_or_default()
    }

    /// The cluster file, loaded and checked.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Observes the state of the cluster.
    ///
    /// # Errors
    ///
    /// When Proxmox cannot be asked, or the file cannot be resolved against what it has.
    pub async fn observe(&self) -> std::result::Result<Snapshot, ObserveError> {
        self.observe_for(Purpose::Change, None).await
    }

    /// Observes whatever answers, to show it. Where Proxmox does not answer or rejects the token, machines and Kubernetes are asked all
    /// the same.
    ///
    /// # Errors
    ///
    /// When Proxmox fails in another way, or the file cannot be resolved against what it has.
    pub async fn refresh(&self) -> std::result::Result<Snapshot, ObserveError> {
        self.observe_for(Purpose::Page, None).await
    }

    /// Observes only what must be known to delete the cluster.
    ///
    /// # Errors
    ///
    /// As [`Self::observe`].
    pub async fn observe_to_destroy(&self) -> std::result::Result<Snapshot, ObserveError> {
        self.observe_for(Purpose::Removal, None).await
    }

    /// Observes everything, and what a person's request needs to know beside that.
    ///
    /// # Errors
    ///
    /// As [`Self::observe`].
    pub async fn observe_by_hand(&self, asked: &ByHand) -> std::result::Result<Snapshot, ObserveError> {
        self.observe_for(Purpose::Change, Some(asked)).await
    }

    async fn observe_for(
        &self,
        purpose: Purpose,
        asked: Option<&ByHand>,
    ) -> std::result::Result<Snapshot, ObserveError> {
        let (survey, silence) = match model::resolve::needs_proxmox(&self.spec) {
            true => match observe::proxmox::survey(&self.systems).await {
                Ok(survey) => (Some(survey), None),
                Err(error) => match silence(&error).filter(|_| purpose == Purpose::Page) {
                    Some(silence) => (None, Some(silence)),
                    None => return Err(error.into()),
                },
            },
            false => (None, None),
        };
        let cluster_id = self.bundle.as_ref().map(|b| b.cluster_id());
        let mut blueprint =
            model::resolve::resolve(&self.spec, survey.as_ref().map(|s| &s.inventory), cluster_id)
                .map_err(ObserveError::File)?;
        if purpose == Purpose::Change && !self.allowed.outside_window {
            let unknown = local::unknown_time_zone(&blueprint, &*self.local, Severity::Error);
            unknown.map_or(Ok(()), |found| Err(ObserveError::File(vec![found])))?;
        }
        let allowed = Arc::new(self.allowed.by_key(&blueprint));
        let now = self.systems.clock.now();
        let mut desired = Desired::of(&blueprint, &self.attachments, self.bundle.as_deref())?;
        let access = match &self.bundle {
            Some(bundle) => Some(Arc::new(Access::mint(bundle, now)?)),
            // What the nodes would refuse must be known before keys are made and machines created.
            None => {
                let renderer = Renderer::new(&blueprint, &desired.schematics, &self.attachments);
                renderer.check(now).map_err(ObserveError::File)?;
                None
            }
        };
        let running = observe::machines::Running::default();
        let sought = Sought {
            blueprint: &blueprint,
            purpose,
            access: access.as_deref(),
            running: &running,
            schematics: &desired.rendered.schematics,
            allowed: &allowed,
            asked,
            silence: silence.as_ref(),
        };
        let mut observed = Box::pin(observe::observe(&self.systems, survey, &sought)).await;
        if let Some(bundle) = &self.bundle {
            let texts = running.into_inner().unwrap_or_else(PoisonError::into_inner);
            let with = (&**bundle, &*self.attachments);
            let replaced = asked.map(ByHand::replaced).unwrap_or_default();
            staging::stage(&mut blueprint, &mut observed, &mut desired, with, &texts, &replaced)?;
        }
        if purpose == Purpose::Change {
            let (systems, schematics) = (&self.systems, &desired.rendered.schematics);
            observed.no_installers =
                observe::images::not_installable(systems, &blueprint, schematics, &observed.machines).await;
        }
        observed.window = local::window(&blueprint, &*self.local, self.systems.clock.now());
        for node in blueprint.nodes.values_mut() {
            let found = self.systems.found.of(&node.name);
            if let Some(net) = found.and_then(|at| Ipv4Net::new(at, node.address.prefix_len()).ok()) {
                node.address = net;
            }
        }
        Ok(Snapshot {
            removed: Arc::new(removed::nodes(&blueprint, &observed)),
            blueprint: Arc::new(blueprint),
            observed: Arc::new(observed),
            rendered: Arc::new(desired.rendered),
            schematics: Arc::new(desired.schematics),
            configs: Arc::new(desired.configs),
            access,
            references: self.references.clone(),
            allowed,
            snapshots: self.snapshots.clone(),
            targets: self.targets.clone(),
            local: self.local.clone(),
            plan_key: self.bundle.as_deref().map(|bundle| Arc::new(PlanKey::of(bundle))),
            bundle_at: self.bundle_at.clone(),
        })
    }
}

impl Snapshot {
    /// What brings the cluster to what the file says.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let blueprint = self.for_planning();
        let plan = plan::plan_for(&blueprint, &self.rendered, &self.observed, &self.allowed, &self.targets);
        self.located(plan)
    }

    /// What does what a person asked of single nodes.
    #[must_use]
    pub fn plan_by_hand(&self, asked: &ByHand) -> Plan {
        let blueprint = self.for_planning();
        let plan = by_hand::plan_by_hand(&blueprint, &self.rendered, &self.observed, &self.allowed, asked);
        self.located(plan)
    }

    /// The blueprint with what the operator said about the maintenance window.
    fn for_planning(&self) -> Cow<'_, Blueprint> {
        if !self.allowed.outside_window || self.blueprint.options.changes.window.is_none() {
            return Cow::Borrowed(&self.blueprint);
        }
        let mut blueprint = (*self.blueprint).clone();
        blueprint.options.changes.window = None;
        Cow::Owned(blueprint)
    }

    /// What deletes the cluster.
    #[must_use]
    pub fn plan_destroy(&self) -> Plan {
        self.located(plan::plan_destroy(&self.blueprint, &self.observed))
    }

    fn located(&self, mut plan: Plan) -> Plan {
        plan::lost::locate(&mut plan, &self.bundle_at);
        plan
    }

    /// What the operator allows.
    pub(crate) fn allowed(&self) -> &Allowed {
        &self.allowed
    }

    /// Where snapshots of etcd are kept.
    pub(crate) fn snapshots(&self) -> &dyn SnapshotStore {
        &*self.snapshots
    }

    /// The nodes that plans are about, where they are not about all.
    pub(crate) fn targets(&self) -> &BTreeSet<NodeName> {
        &self.targets
    }

    /// Every node of the file, then those that the file does not have any more.
    #[must_use]
    pub fn node_names(&self) -> Vec<NodeName> {
        let removed = self.observed.removed.keys().cloned();
        self.blueprint.in_order().into_iter().map(|node| node.name.clone()).chain(removed).collect()
    }

    /// A name that the operator gave and that no node, or no disk of its node, has.
    #[must_use]
    pub fn unknown_name(&self) -> Option<UnknownName> {
        let destroyed = self.allowed.nodes.iter().chain(self.allowed.disks.keys());
        let named = destroyed.map(|name| (Given::AllowDestroy, name));
        let mut named = named.chain(self.targets.iter().map(|name| (Given::Target, name)));
        named
            .find_map(|(given, name)| UnknownName::among(given, name, &self.node_names()))
            .or_else(|| self.unknown_disk())
    }

    /// A disk that may be deleted, and that the VM of its node does not have. Where there is no VM, nothing is deleted.
    fn unknown_disk(&self) -> Option<UnknownName> {
        self.allowed.disks.iter().find_map(|(node, disks)| {
            let vm = ownership::vm_of(&self.blueprint, &self.observed.proxmox, node)?;
            let known: Vec<String> = vm.config.keys().filter(|key| words::is_drive(key)).cloned().collect();
            let unknown = disks.iter().find(|disk| !known.contains(disk))?;
            Some(UnknownName { given: Given::Disk, name: format!("{node}/{unknown}"), known })
        })
    }

    /// What authenticates a plan of this snapshot, once there is a bundle.
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

    /// How the file, and the operator, want disruptions to be made.
    pub(crate) fn policy(&self) -> Policy {
        let file = &self.blueprint.options.changes;
        Policy {
            api_outage: file.api_outage || self.allowed.api_outage,
            window: file.window.clone().filter(|_| !self.allowed.outside_window),
            ..file.clone()
        }
    }

    /// The machine that Talosmith runs on.
    pub(crate) fn local(&self) -> &dyn LocalMachine {
        &*self.local
    }

    /// Whether the maintenance window of the file is open.
    pub(crate) fn window(&self, now: Timestamp) -> WindowState {
        local::window(&self.blueprint, &*self.local, now)
    }

    /// Nodes that may have a part in etcd: the control plane nodes of the file, and those that the file does not have any more.
    #[must_use]
    pub fn voters(&self) -> Vec<Node> {
        let removed = self.removed.values().filter(|node| node.role == Role::ControlPlane);
        self.blueprint.control_planes().chain(removed).cloned().collect()
    }

    /// A node by its name. One that the file does not have any more is found, too; what it has in common with a node of the file,
    /// [`model::removed::nodes`] says.
    ///
    /// # Errors
    ///
    /// When this cluster has no such node.
    pub fn node(&self, name: &str) -> Result<&Node> {
        self.blueprint.nodes.get(name).or_else(|| self.removed.get(name)).ok_or_else(|| {
            Error::new(Kind::Refused, format!("the plan names {name}, which this cluster does not have"))
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

/// A Proxmox that does not answer, or does not let us in, hides only its own part. Any other error is about the file or this program.
fn silence(error: &Error) -> Option<Silence> {
    let token_rejected = error.code() == "unauthenticated";
    let why = error.causes().pop().unwrap_or_default();
    (token_rejected || error.code() == "no-answer").then_some(Silence { why, token_rejected })
}

fn no_bundle() -> Error {
    Error::new(Kind::Secrets, "there is no secrets bundle")
        .hint("`talosmith apply` makes one for a new cluster")
}
