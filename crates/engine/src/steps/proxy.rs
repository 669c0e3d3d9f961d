//! Gives the pods of kube-proxy another version.
//!
//! Talos creates the objects of its manifests once, and changes none of them: after an upgrade of Kubernetes, the DaemonSet of
//! kube-proxy still has the image of the version before. This step changes that image and nothing else. An image that another program
//! set, such as a GitOps engine, is left to that program.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use model::upgrade::Component;
use serde_json::json;
use talos::config::Documents;

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Result};
use crate::kubernetes::manifests::MANAGER;
use crate::steps::drain;

/// For all of its pods to run the image and to be ready.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// For the Kubernetes API to answer.
const API_TIMEOUT: Duration = Duration::from_secs(2 * 60);
/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// The name of the DaemonSet and of its container.
const NAME: &str = Component::Proxy.name();
/// Those who set images of kube-proxy for Talos.
const OF_TALOS: &[&str] = &["talos", "machined", "talosctl", MANAGER];

/// Gives the DaemonSet the image of the machine configs, and waits until its pods run it.
pub(super) async fn run(context: &Context, version: &str, progress: &Progress) -> Result<Done> {
    let attempt = || Error::systems(format!("could not upgrade the pods of kube-proxy to {version}"));
    let Some(image) = image(context)? else { return Ok(Done::default()) };
    let kubernetes = drain::kubernetes(context)?;
    let say = drain::waiting(context, progress);
    let found = kubernetes.persist_and_say(API_TIMEOUT, say, || kubernetes.daemon_set(NAME)).await?;
    // A person removed it, or brings another one.
    let Some(set) = found else { return Ok(Done::default()) };
    if image_of(&set) != Some(image.as_str()) {
        if let Some(manager) = other_manager(&set) {
            let runs = image_of(&set).unwrap_or("no image");
            let warning = format!(
                "kube-proxy keeps {runs}: {manager} manages its image; change it there to {image}, because kube-proxy must not be more \
                 than three minor releases older than the API servers"
            );
            return Ok(Done { warnings: vec![warning] });
        }
        progress.note(format!("setting the image {image}"));
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": NAME, "image": image}]}}}});
        kubernetes.persist_and_say(API_TIMEOUT, say, || kubernetes.patch_daemon_set(NAME, &patch)).await?;
    }
    let clock = &context.systems.clock;
    let began = clock.now();
    loop {
        let lacks = match kubernetes.daemon_set(NAME).await {
            Ok(Some(set)) => lacks(&set),
            Ok(None) => return Ok(Done::default()),
            Err(error) => Some(error.causes().pop().unwrap_or_default()),
        };
        let Some(lacks) = lacks else { return Ok(Done::default()) };
        if clock.now().duration_since(began).unsigned_abs() >= TIMEOUT {
            return Err(attempt()
                .coded("component-not-ready")
                .hint(
                    "no kubelet is upgraded before; `kubectl -n kube-system get pods -l k8s-app=kube-proxy -o wide` shows which pod is not \
                     ready. Run `talosmith apply` again when all are: it continues from here",
                )
                .because(Error::systems(format!("after {} minutes: {lacks}", TIMEOUT.as_secs() / 60))));
        }
        progress.note(format!("{lacks} (timeout {} s)", TIMEOUT.as_secs()));
        clock.sleep(INTERVAL).await;
    }
}

/// The image of kube-proxy in the machine configs of control plane nodes. None where they have none.
fn image(context: &Context) -> Result<Option<String>> {
    let Some(node) = context.snapshot.blueprint.control_planes().next() else { return Ok(None) };
    let Ok(documents) = Documents::parse(context.snapshot.config(&node.name)?) else { return Ok(None) };
    let field = |path: &str| documents.v1alpha1().and_then(|document| document.find(path));
    let document = documents.kind("KubeProxyConfig");
    let off = field("cluster.proxy.disabled").and_then(|off| off.as_bool()) == Some(true)
        || document.and_then(|it| it.get("enabled")?.as_bool()) == Some(false);
    let image = document.and_then(|it| it.text("image"));
    let image = image.or_else(|| field("cluster.proxy.image")?.as_text());
    Ok(image.filter(|_| !off).map(str::to_owned))
}

fn image_of(set: &DaemonSet) -> Option<&str> {
    let pod = set.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers.iter().find(|container| container.name == NAME)?.image.as_deref()
}

/// Who manages the image, where that is neither Talos nor Talosmith.
fn other_manager(set: &DaemonSet) -> Option<String> {
    let entries = set.metadata.managed_fields.as_deref().unwrap_or_default();
    let key = format!("k:{{\"name\":\"{NAME}\"}}");
    let owns = |fields: &serde_json::Value| {
        let containers = fields.pointer("/f:spec/f:template/f:spec/f:containers");
        containers.and_then(|containers| containers.get(&key)?.get("f:image")).is_some()
    };
    let mut owners = entries.iter().filter(|entry| entry.fields_v1.as_ref().is_some_and(|it| owns(&it.0)));
    let foreign = |name: &&String| !OF_TALOS.contains(&name.as_str());
    owners.find_map(|entry| entry.manager.as_ref().filter(foreign).cloned())
}

/// What its pods lack.
fn lacks(set: &DaemonSet) -> Option<String> {
    let Some(status) = &set.status else { return Some("kube-proxy has no status yet".to_owned()) };
    if status.observed_generation < set.metadata.generation {
        return Some("kube-proxy: the change was not taken up yet".to_owned());
    }
    let all = status.desired_number_scheduled;
    let (updated, ready) = (status.updated_number_scheduled.unwrap_or(0), status.number_ready);
    (updated < all || ready < all)
        .then(|| format!("kube-proxy: {updated} of {all} pods are updated, {ready} are ready"))
}
