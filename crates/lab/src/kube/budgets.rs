//! Budgets of disruption: how many pods of a set may be away at once, and whether one more may be evicted.

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::pods::is_ready;
use super::query::Selector;
use super::store::{Place, Store, second};
use super::target::Trouble;

/// What a budget comes to at present.
struct Count {
    expected: i64,
    healthy: i64,
    desired: i64,
}

impl Count {
    fn of(store: &Store, budget: &Value) -> Self {
        let namespace = budget.pointer("/metadata/namespace").and_then(Value::as_str);
        let selector = Selector::of_object(&budget["spec"]["selector"]);
        let pods = store.list("", "pods", namespace);
        let pods: Vec<&Value> = pods.into_iter().filter(|pod| selector.picks(pod)).collect();
        let healthy =
            pods.iter().filter(|pod| is_ready(pod) && pod["metadata"].get("deletionTimestamp").is_none());
        let expected = i64::try_from(pods.len()).unwrap_or(0);
        let desired = match (&budget["spec"]["minAvailable"], &budget["spec"]["maxUnavailable"]) {
            (Value::Null, Value::Null) => expected - 1,
            (Value::Null, most) => expected - share(most, expected),
            (least, _) => share(least, expected),
        };
        Self { expected, healthy: i64::try_from(healthy.count()).unwrap_or(0), desired: desired.max(0) }
    }

    fn allowed(&self) -> i64 {
        if self.expected == 0 { 0 } else { (self.healthy - self.desired).max(0) }
    }
}

/// A number, or a percentage of the whole, rounded up.
fn share(value: &Value, whole: i64) -> i64 {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    match percent {
        Some(percent) => (whole * percent + 99) / 100,
        None => value.as_i64().unwrap_or(0),
    }
}

/// Writes down what each budget comes to.
pub(super) fn run(store: &mut Store, now: Timestamp) {
    let budgets: Vec<Value> =
        store.list("policy", "poddisruptionbudgets", None).into_iter().cloned().collect();
    for mut budget in budgets {
        let count = Count::of(store, &budget);
        let (status, reason) =
            if count.allowed() > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        let old = budget.pointer("/status/conditions/0").filter(|c| c["status"] == status);
        let since = old.map_or_else(|| second(now).into(), |c| c["lastTransitionTime"].clone());
        let generation = budget["metadata"]["generation"].clone();
        budget["status"] = json!({
            "conditions": [{
                "type": "DisruptionAllowed", "status": status, "reason": reason, "message": "",
                "lastTransitionTime": since, "observedGeneration": generation,
            }],
            "currentHealthy": count.healthy, "desiredHealthy": count.desired, "expectedPods": count.expected,
            "disruptionsAllowed": count.allowed(), "observedGeneration": generation,
        });
        let text = |key: &str| budget["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let place =
            Place { group: "policy", plural: "poddisruptionbudgets", namespace: &namespace, name: &name };
        store.put(&place, budget, now);
    }
}

/// Whether any budget covers a pod.
pub(crate) fn has_budget(store: &Store, pod: &Value) -> bool {
    let namespace = pod.pointer("/metadata/namespace").and_then(Value::as_str);
    let budgets = store.list("policy", "poddisruptionbudgets", namespace);
    budgets.iter().any(|budget| Selector::of_object(&budget["spec"]["selector"]).picks(pod))
}

/// Refuses an eviction that a budget does not allow. A pod that is not ready may go unless its budget is short already.
pub(super) fn allow(store: &Store, pod: &Value) -> Result<(), Trouble> {
    let over = ["Succeeded", "Failed", "Pending"].iter().any(|p| pod["status"]["phase"] == *p);
    if over || pod["metadata"].get("deletionTimestamp").is_some() {
        return Ok(());
    }
    let namespace = pod.pointer("/metadata/namespace").and_then(Value::as_str);
    let budgets = store.list("policy", "poddisruptionbudgets", namespace);
    let budgets: Vec<&Value> = budgets
        .into_iter()
        .filter(|budget| Selector::of_object(&budget["spec"]["selector"]).picks(pod))
        .collect();
    if budgets.len() > 1 {
        let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Trouble::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message));
    }
    let Some(budget) = budgets.first() else { return Ok(()) };
    let count = Count::of(store, budget);
    if count.allowed() > 0 || (!is_ready(pod) && count.healthy >= count.desired) {
        return Ok(());
    }
    let name = budget["metadata"]["name"].as_str().unwrap_or_default();
    let why = format!(
        "The disruption budget {name} needs {} healthy pods and has {} currently",
        count.desired, count.healthy
    );
    let details = json!({"causes": [{"reason": "DisruptionBudget", "message": why}]});
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    Err(Trouble::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message).with(details))
}
