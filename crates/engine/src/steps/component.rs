//! Gives a part of Kubernetes on one node another version.
//!
//! The version is a tag in the machine config, and nothing else of the machine config changes: what else differs from the file was
//! changed before, and a machine config that another person changed meanwhile is refused. The machine never reboots for it. It starts
//! its static pod or its kubelet again, and this step waits until that runs the version and is ready, within limits, because neither
//! comes back by itself where it does not start.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use model::blueprint::Node;
use model::gate::{Effect, Permit};
use model::upgrade::Component;
use secrecy::ExposeSecret;
use talos::config::{self, Contract, Documents};
use talos_client::{ApplyMode, ImageStore, Machine, Progress as Heard};

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Kind, Result};
use crate::kubernetes::{Kubernetes, SystemPod};
use crate::render::{digest, image_of};
use crate::steps::{boot, drain, permit, reconfigure};
use crate::systems::REQUEST_TIMEOUT;

/// For a static pod to be ready, and for the others to be so before.
const POD_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// For a kubelet to come back.
const KUBELET_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// The code of a part that does not start.
const NOT_STARTED: &str = "component-not-ready";
/// Where Talos keeps the configurations of static pods.
const NAMESPACE: &str = "controlplane";

/// Lets the machine pull images before anything is disrupted. One that it cannot have is found here.
pub(super) async fn pull(
    context: &Context,
    node: &Node,
    images: &BTreeMap<Component, String>,
    progress: &Progress,
) -> Result<Done> {
    let attempt = |image: &str| Error::systems(format!("could not pull {image} on {}", node.name));
    let first = images.values().next().map(String::as_str).unwrap_or_default();
    let machine = boot::configured(context, node, || attempt(first)).await?;
    for (component, image) in images {
        progress.note(format!("pulling {image}"));
        let store = if *component == Component::Kubelet { ImageStore::System } else { ImageStore::Pods };
        machine.prefetch(image, store, |_: Heard| {}).await.map_err(|error| {
            attempt(image)
                .hint(
                    "nothing was disrupted; check that the machines reach the registry or its mirror, and that the version exists, then \
                     run the command again",
                )
                .because(error)
        })?;
    }
    Ok(Done::default())
}

/// One part of Kubernetes on one node.
struct Part<'a> {
    context: &'a Context,
    node: &'a Node,
    component: Component,
    version: &'a str,
}

/// Gives a part its version, and waits until it runs and is ready. Without a permit only what no machine runs.
pub(super) async fn run(
    context: &Context,
    permit: Option<&Permit>,
    node: &Node,
    component: Component,
    version: &str,
    progress: &Progress,
) -> Result<Done> {
    if let Some(permit) = permit {
        permit::check(permit, &node.name, Effect::Absence)?;
    }
    let part = Part { context, node, component, version };
    let machine = boot::configured(context, node, || part.attempt()).await?;
    if component.is_static_pod() {
        Box::pin(part.others_ready(&machine, progress)).await?;
    }
    let warnings = Box::pin(part.configure(&machine, progress)).await?;
    match component {
        Component::Kubelet => Box::pin(part.kubelet(&machine, progress)).await?,
        _ if component.is_static_pod() => Box::pin(part.static_pod(&machine, progress)).await?,
        _ => {}
    }
    Ok(Done { warnings })
}

impl Part<'_> {
    fn attempt(&self) -> Error {
        let Self { node, component, version, .. } = self;
        Error::systems(format!("could not upgrade {component} on {} to {version}", node.name))
    }

    /// Gives the machine the tag. Gives the machine's warnings.
    async fn configure(&self, machine: &Machine, progress: &Progress) -> Result<Vec<String>> {
        let clock = &self.context.systems.clock;
        let runs = match clock.timeout(REQUEST_TIMEOUT, machine.machine_config()).await {
            Ok(runs) => runs.map_err(|error| self.attempt().because(error))?,
            Err(timed_out) => return Err(self.attempt().because(timed_out)),
        };
        let wanted = self.context.snapshot.config(&self.node.name)?;
        let release = Contract::parse(&self.node.talos).map_err(|error| self.attempt().because(error))?;
        let Some(next) = next(runs.expose_secret(), wanted, self.component, release) else {
            let what = format!("the configuration of {} was changed since the plan was made", self.node.name);
            return Err(Error::new(Kind::Refused, what).hint(
                "find out who changed it, then run the command again: it compares with what the machine runs now",
            ));
        };
        let Some(next) = next else { return Ok(vec![]) };
        progress.note("sending the configuration");
        if self.component == Component::Kubelet {
            // From now on the kubelet may be away, and a node that was drained for it stays cordoned until it is back.
            self.context.kubelets().insert(self.node.name.clone());
        }
        let sent = reconfigure::send(self.context, self.node, machine, &next, ApplyMode::NoReboot).await?;
        reconfigure::follows(self.context, self.node, machine, &digest(next.as_bytes())).await?;
        Ok(sent)
    }

    /// No static pod is taken down while one of another control plane node is not ready.
    async fn others_ready(&self, machine: &Machine, progress: &Progress) -> Result<()> {
        let hint =
            "no further static pod is restarted until all of them are ready; `talosmith health` says more";
        self.wait(Awaited::Others, machine, progress)
            .await
            .map_err(|words| self.attempt().coded(NOT_STARTED).hint(hint).because(Error::systems(words)))
    }

    async fn others_lack(&self, kubernetes: &Kubernetes) -> Option<String> {
        let nodes = &self.context.snapshot.blueprint.nodes;
        let is_other = |pod: &SystemPod| {
            pod.node != self.node.name.as_str()
                && nodes.contains_key(pod.node.as_str())
                && Component::ALL.iter().any(|it| it.is_static_pod() && it.name() == pod.component)
        };
        match kubernetes.control_plane_pods().await {
            Ok(pods) => pods.iter().find(|pod| is_other(pod) && !pod.ready).map(told),
            Err(error) => Some(unanswered(&error)),
        }
    }

    /// Waits until the static pod with the version is ready: the one that Talos made from the configuration that it has now.
    async fn static_pod(&self, machine: &Machine, progress: &Progress) -> Result<()> {
        self.wait(Awaited::StaticPod, machine, progress).await.map_err(|words| {
            let (node, component) = (&self.node.name, self.component);
            let address = self.context.systems.address(self.node);
            self.attempt()
                .coded(NOT_STARTED)
                .hint(format!(
                    "the other control plane nodes run as before, and nothing else is upgraded. `talosctl -n {address} logs -k \
                     kube-system/{component}-{node}:{component}` shows why it does not start; a flag or feature gate that the version \
                     does not know is the usual reason. Remove it from the patches in the file and run `talosmith apply` again: it \
                     continues from here"
                ))
                .because(Error::systems(words))
        })
    }

    async fn pod_lacks(&self, machine: &Machine, kubernetes: &Kubernetes) -> Option<String> {
        let kind = match self.component {
            Component::ApiServer => "APIServerConfigs.kubernetes.talos.dev",
            Component::ControllerManager => "ControllerManagerConfigs.kubernetes.talos.dev",
            _ => "SchedulerConfigs.kubernetes.talos.dev",
        };
        let clock = &self.context.systems.clock;
        let listed = clock.timeout(REQUEST_TIMEOUT, machine.list(NAMESPACE, kind)).await;
        let Some(config) = listed.ok().and_then(|listed| listed.ok()?.into_iter().next()) else {
            return Some(format!("{} does not report the configuration of its static pod", self.node.name));
        };
        let pods = match kubernetes.control_plane_pods().await {
            Ok(pods) => pods,
            Err(error) => return Some(unanswered(&error)),
        };
        let is_own =
            |pod: &&SystemPod| pod.node == self.node.name.as_str() && pod.component == self.component.name();
        let Some(pod) = pods.iter().find(is_own) else {
            return Some(format!("Kubernetes does not have {} of {}", self.component, self.node.name));
        };
        if !has_tag(&pod.image, self.version) {
            return Some(format!("{} still runs {}", pod.name, pod.image));
        }
        if pod.config_version.as_ref() != Some(&config.version) {
            return Some(format!("{} does not have its new configuration yet", pod.name));
        }
        (!pod.ready).then(|| told(pod))
    }

    /// Waits until the kubelet with the version reports a node that is ready.
    async fn kubelet(&self, machine: &Machine, progress: &Progress) -> Result<()> {
        self.wait(Awaited::Kubelet, machine, progress).await.map_err(|words| {
            let name = &self.node.name;
            self.attempt()
                .coded(NOT_STARTED)
                .hint(format!(
                    "no other kubelet is upgraded; {name} stays as it is, cordoned if it was drained. `talosctl -n {} logs kubelet` shows \
                     why it does not start. A reboot helps where it hangs: `talosmith node reboot {name}`. Then run `talosmith apply` \
                     again: it continues from here",
                    self.context.systems.address(self.node)
                ))
                .because(Error::systems(words))
        })
    }

    async fn kubelet_lacks(&self, machine: &Machine, kubernetes: &Kubernetes) -> Option<String> {
        let clock = &self.context.systems.clock;
        let services = clock.timeout(REQUEST_TIMEOUT, machine.services()).await;
        if let Ok(Ok(services)) = services
            && let Some(kubelet) = services.iter().find(|service| service.id == "kubelet")
            && (kubelet.state != "Running" || kubelet.healthy == Some(false))
        {
            let (state, said) = (&kubelet.state, &kubelet.message);
            return Some(format!("the kubelet service of {} is {state}: {said}", self.node.name));
        }
        let nodes = match kubernetes.nodes().await {
            Ok(nodes) => nodes,
            Err(error) => return Some(unanswered(&error)),
        };
        let Some(seen) = nodes.get(&self.node.name) else {
            return Some(format!("Kubernetes does not have the node {}", self.node.name));
        };
        if seen.version != self.version {
            return Some(format!("the kubelet of {} reports {}", self.node.name, seen.version));
        }
        (!seen.ready).then(|| format!("{} is not ready in Kubernetes", self.node.name))
    }

    /// Waits until nothing is missing. What is missing, where that takes too long.
    async fn wait(
        &self,
        awaited: Awaited,
        machine: &Machine,
        progress: &Progress,
    ) -> std::result::Result<(), String> {
        let clock = &self.context.systems.clock;
        let kubernetes = drain::kubernetes(self.context).map_err(|error| error.to_string())?;
        let limit = if awaited == Awaited::Kubelet { KUBELET_TIMEOUT } else { POD_TIMEOUT };
        let began: Timestamp = clock.now();
        loop {
            let lacks = match awaited {
                Awaited::Others => self.others_lack(&kubernetes).await,
                Awaited::StaticPod => self.pod_lacks(machine, &kubernetes).await,
                Awaited::Kubelet => self.kubelet_lacks(machine, &kubernetes).await,
            };
            let Some(lacks) = lacks else { return Ok(()) };
            if clock.now().duration_since(began).unsigned_abs() >= limit {
                return Err(format!("after {} minutes: {lacks}", limit.as_secs() / 60));
            }
            progress.note(format!("{lacks} (timeout {} s)", limit.as_secs()));
            clock.sleep(INTERVAL).await;
        }
    }
}

/// What a part waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// Static pods of other control plane nodes.
    Others,
    StaticPod,
    Kubelet,
}

/// The machine config with the version of a part: that of the file, with what comes after the part as it runs. `None` where the machine
/// runs it already; nothing at all where it differs from the file in more than versions.
#[expect(clippy::option_option, reason = "nothing to send is not the same as nothing that may be sent")]
fn next(runs: &str, wanted: &str, component: Component, release: Contract) -> Option<Option<String>> {
    let (runs, whole) = (Documents::parse(runs).ok()?, Documents::parse(wanted).ok()?);
    let (has, gets) = (config::kubernetes_tags(&runs), config::kubernetes_tags(&whole));
    let mut same = runs.clone();
    for (image, tag) in &gets {
        config::set_kubernetes_tag(&mut same, *image, tag);
    }
    if !config::difference(&same, &whole, release).is_empty() {
        return None;
    }
    let mut next = whole.clone();
    let mut keeps = false;
    for later in Component::ALL.into_iter().filter(|later| *later > component).map(image_of) {
        if let Some(tag) = has.get(&later).filter(|tag| gets.get(&later).is_some_and(|gets| gets != *tag)) {
            config::set_kubernetes_tag(&mut next, later, tag);
            keeps = true;
        }
    }
    if config::difference(&runs, &next, release).is_empty() {
        return Some(None);
    }
    Some(Some(if keeps { next.to_yaml() } else { wanted.to_owned() }))
}

fn has_tag(image: &str, version: &str) -> bool {
    image.split('@').next().and_then(|image| image.rsplit_once(':')).is_some_and(|(_, tag)| tag == version)
}

fn told(pod: &SystemPod) -> String {
    match &pod.stuck {
        Some(why) => format!("{} is not ready: {why}", pod.name),
        None => format!("{} is not ready", pod.name),
    }
}

fn unanswered(error: &Error) -> String {
    format!("Kubernetes does not answer: {}", error.causes().pop().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: &str = "version: v1alpha1\nmachine:\n  type: controlplane\n  kubelet:\n    image: ghcr.io/siderolabs/kubelet:v1.35.4\ncluster:\n  apiServer:\n    image: registry.k8s.io/kube-apiserver:v1.35.4\n  controllerManager:\n    image: registry.k8s.io/kube-controller-manager:v1.35.4\n  scheduler:\n    image: registry.k8s.io/kube-scheduler:v1.35.4\n  proxy:\n    image: registry.k8s.io/kube-proxy:v1.35.4\n";

    #[test]
    fn each_part_gets_its_version_and_what_follows_keeps_its_own() {
        let release = Contract::parse("v1.13.9").unwrap();
        let wanted = RUNS.replace("v1.35.4", "v1.36.3");
        let mut runs = RUNS.to_owned();
        for (number, component) in Component::ALL.into_iter().enumerate() {
            let next = next(&runs, &wanted, component, release).unwrap().unwrap();
            assert_eq!(next.matches("v1.36.3").count(), number + 1, "{component}: {next}");
            assert!(self::next(&next, &wanted, component, release).unwrap().is_none(), "it is there already");
            runs = next;
        }
        assert_eq!(runs, wanted, "the last one brings the file's own text");
    }

    #[test]
    fn a_machine_config_that_differs_in_more_is_not_sent() {
        let release = Contract::parse("v1.13.9").unwrap();
        let wanted =
            format!("{}  allowSchedulingOnControlPlanes: true\n", RUNS.replace("v1.35.4", "v1.36.3"));
        assert!(next(RUNS, &wanted, Component::ApiServer, release).is_none());
    }
}
