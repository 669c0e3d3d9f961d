//! Who did what to which node, where people look for it: in the journal's events, and as Events in Kubernetes.

use engine::kubernetes_api::{Api, ListParams};
use k8s_openapi::api::core::v1::Event;
use lab::{CallFilter, Injection, When, Wire};
use model::event::{Outcome, What};
use serde_json::json;

use crate::restart::{nothing, reboot, restart};
use crate::rig::{HOME, Ran, Rig};

const NODE: &str = "home-work-1";

/// Events on the node: type, reason and message, in their order.
async fn events(rig: &Rig) -> Vec<(String, String, String)> {
    let api: Api<Event> = Api::namespaced(rig.kubernetes().client(), "default");
    let listed = api.list(&ListParams::default()).await.unwrap().items;
    let mut ours: Vec<Event> = listed
        .into_iter()
        .filter(|event| event.reporting_component.as_deref() == Some("talosmith"))
        .filter(|event| event.involved_object.name.as_deref() == Some(NODE))
        .collect();
    // Times are full seconds, and names are random: within a second, the order is that of the writes.
    let written = |event: &Event| -> Option<u64> { event.metadata.resource_version.as_ref()?.parse().ok() };
    ours.sort_by_key(|event| (event.last_timestamp.as_ref().map(|time| time.0), written(event)));
    let text = |field: Option<String>| field.unwrap_or_default();
    ours.into_iter().map(|event| (text(event.type_), text(event.reason), text(event.message))).collect()
}

/// The kinds of what happened to units, in their order, each with the step.
fn units(ran: &Ran) -> Vec<(&'static str, &str)> {
    let told = ran.events.iter().filter_map(|event| match &event.what {
        What::UnitStarted { step, .. } => Some(("started", step.0.as_str())),
        What::UnitVerified { step, .. } => Some(("verified", step.0.as_str())),
        What::UnitFailed { step, .. } => Some(("failed", step.0.as_str())),
        _ => None,
    });
    told.collect()
}

#[tokio::test(start_paused = true)]
async fn a_unit_is_in_the_journal_and_on_its_node() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(HOME).await;
    let mut plan = nothing(&snapshot);
    restart(&mut plan, NODE, vec![reboot(NODE)], &[]);
    let ran = rig.carry_out(&snapshot, &plan, "eva").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let (drain, uncordon) = (format!("drain-node/{NODE}"), format!("uncordon-node/{NODE}"));
    assert_eq!(units(&ran), [("started", drain.as_str()), ("verified", uncordon.as_str())]);
    let event = |message: &str| ("Normal".to_owned(), "TalosmithReboot".to_owned(), message.to_owned());
    assert_eq!(
        events(&rig).await,
        [
            event("Talosmith starts to reboot home-work-1, for eva@test"),
            event("Talosmith is done: reboot home-work-1, for eva@test"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_unit_that_fails_leaves_a_warning() {
    let rig = Rig::healthy().await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "namespace": "default"},
        "spec": {"nodeName": NODE, "containers": [{"name": "c", "image": "example/c:1"}]},
    });
    rig.kubernetes().apply(&pod).await.unwrap();
    let snapshot = rig.observe(HOME).await;
    let mut plan = nothing(&snapshot);
    restart(&mut plan, NODE, vec![reboot(NODE)], &[]);
    let ran = rig.carry_out(&snapshot, &plan, "eva").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed, "nothing would bring that pod back");
    let drain = format!("drain-node/{NODE}");
    assert_eq!(units(&ran), [("started", drain.as_str()), ("failed", drain.as_str())]);
    let told = events(&rig).await;
    assert_eq!(told.last().map(|(kind, ..)| kind.as_str()), Some("Warning"), "{told:?}");
}

/// An Event is for people. That none can be written is no reason to stop.
#[tokio::test(start_paused = true)]
async fn a_kubernetes_that_takes_no_events_is_no_obstacle() {
    let rig = Rig::healthy().await;
    let which = CallFilter { method: "POST".to_owned(), path_contains: "/events".to_owned(), skip: 0 };
    for fault in [Wire::BlackHole, Wire::Reset] {
        rig.lab.inject(Injection::Wire { fault, when: When::Call(which.clone()) });
    }
    let snapshot = rig.observe(HOME).await;
    let mut plan = nothing(&snapshot);
    restart(&mut plan, NODE, vec![reboot(NODE)], &[]);
    let ran = rig.carry_out(&snapshot, &plan, "eva").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(units(&ran).len(), 2);
    assert!(events(&rig).await.len() < 2, "the lab lost them");
}
