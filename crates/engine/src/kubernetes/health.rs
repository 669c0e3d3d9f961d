//! Whether systems in the cluster are healthy enough for a disruption, by what their resources in Kubernetes say.
//!
//! What is decided is in pure functions, one for each system; they are given every resource of its kind. What is not said is not
//! healthy.

use std::collections::BTreeMap;

use futures::future::join_all;
use model::observed::Health;
use model::spec::HealthGate;
use serde_json::Value;

use super::Kubernetes;
use crate::kubernetes_api::{Api, ApiResource, GroupVersionKind, ListParams};

/// So many names are told; more do not help.
const NAMES: usize = 3;

/// What a system says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// How it stands.
    pub health: Health,
    /// When it looked at itself, where it does that only now and then: until this changes, it says nothing new.
    pub checked: Option<String>,
}

impl Kubernetes {
    /// What these systems say. One that does not answer is not known.
    pub async fn health(&self, gates: impl IntoIterator<Item = HealthGate>) -> BTreeMap<HealthGate, Reading> {
        let asked = gates.into_iter().map(|gate| async move { (gate, self.reading(gate).await) });
        join_all(asked).await.into_iter().collect()
    }

    async fn reading(&self, gate: HealthGate) -> Reading {
        let of = |health| Reading { health, checked: None };
        let resource = resource(gate);
        let objects = Api::dynamic(self.client(), &resource, None);
        let what = format!("list {}", resource.plural);
        match self.ask_maybe(&what, objects.list(&ListParams::default())).await {
            Ok(Some(list)) => {
                let objects: Vec<Value> =
                    list.items.iter().filter_map(|object| serde_json::to_value(object).ok()).collect();
                match gate {
                    HealthGate::Longhorn => of(longhorn(&objects)),
                    HealthGate::Ceph => Reading { health: ceph(&objects), checked: checked(&objects) },
                    HealthGate::CloudnativePg => of(cloudnative_pg(&objects)),
                }
            }
            Ok(None) => of(Health::Missing),
            Err(error) => of(Health::Unknown { why: error.causes().join(": ") }),
        }
    }
}

/// The resources that a system is judged by.
fn resource(gate: HealthGate) -> ApiResource {
    let (group, version, kind, plural) = match gate {
        HealthGate::Longhorn => ("longhorn.io", "v1beta2", "Volume", "volumes"),
        HealthGate::Ceph => ("ceph.rook.io", "v1", "CephCluster", "cephclusters"),
        HealthGate::CloudnativePg => ("postgresql.cnpg.io", "v1", "Cluster", "clusters"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// Volumes that are attached are healthy; detached ones are not in use, as long as they have their data. What is on the way from one to
/// the other is waited for.
fn longhorn(volumes: &[Value]) -> Health {
    verdict(volumes, |volume| {
        let robustness = text(volume, "/status/robustness");
        match (text(volume, "/status/state"), robustness) {
            (Some("attached"), Some("healthy")) | (Some("detached"), Some("unknown" | "healthy")) => None,
            (Some("attached" | "detached"), Some(robustness)) => Some(format!("is {robustness}")),
            (Some(state), _) => Some(format!("is {state}")),
            (None, _) => Some("has no status".to_owned()),
        }
    })
}

/// Every Ceph cluster says that all is well. Without one there is nothing to be judged, and that was not meant.
fn ceph(clusters: &[Value]) -> Health {
    if clusters.is_empty() {
        return Health::Missing;
    }
    verdict(clusters, |cluster| match text(cluster, "/status/ceph/health") {
        Some("HEALTH_OK") => None,
        Some(health) => {
            let details = cluster.pointer("/status/ceph/details").and_then(Value::as_object);
            let checks: Vec<&str> = details.into_iter().flatten().map(|(check, _)| check.as_str()).collect();
            match checks.is_empty() {
                true => Some(format!("reports {health}")),
                false => Some(format!("reports {health} ({})", checks.join(", "))),
            }
        }
        None => Some("has no status".to_owned()),
    })
}

/// When the clusters were last looked at. Rook does that once a minute.
fn checked(clusters: &[Value]) -> Option<String> {
    let times = clusters.iter().map(|cluster| text(cluster, "/status/ceph/lastChecked").unwrap_or_default());
    Some(times.collect::<Vec<_>>().join(" "))
}

/// Every PostgreSQL cluster has all of its instances ready. One that hibernates has none, and is meant to.
fn cloudnative_pg(clusters: &[Value]) -> Health {
    verdict(clusters, |cluster| {
        if text(cluster, "/metadata/annotations/cnpg.io~1hibernation") == Some("on") {
            return None;
        }
        let number = |pointer: &str| cluster.pointer(pointer).and_then(Value::as_u64);
        match (number("/spec/instances"), number("/status/readyInstances")) {
            (Some(all), Some(ready)) if ready >= all => None,
            (Some(all), ready) => Some(format!("has {} of {all} instances ready", ready.unwrap_or(0))),
            (None, _) => Some("does not say how many instances it has".to_owned()),
        }
    })
}

/// Healthy, or what is wrong with which. A name is told with its namespace.
fn verdict(objects: &[Value], wrong: impl Fn(&Value) -> Option<String>) -> Health {
    let name = |object: &Value| match text(object, "/metadata/namespace") {
        Some(namespace) => format!("{namespace}/{}", text(object, "/metadata/name").unwrap_or_default()),
        None => text(object, "/metadata/name").unwrap_or_default().to_owned(),
    };
    let found: Vec<String> =
        objects.iter().filter_map(|object| Some(format!("{} {}", name(object), wrong(object)?))).collect();
    match found.len() {
        0 => Health::Healthy,
        count if count > NAMES => {
            let first = found.get(..NAMES).unwrap_or_default().join(", ");
            Health::Unhealthy { what: format!("{first}, and {} more", count - NAMES) }
        }
        _ => Health::Unhealthy { what: found.join(", ") },
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volume(name: &str, state: &str, robustness: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "longhorn-system"},
            "status": {"state": state, "robustness": robustness},
        })
    }

    fn unhealthy(what: &str) -> Health {
        Health::Unhealthy { what: what.to_owned() }
    }

    #[test]
    fn longhorn_volumes_in_use_are_healthy() {
        assert_eq!(longhorn(&[]), Health::Healthy);
        let healthy = [volume("a", "attached", "healthy"), volume("b", "detached", "unknown")];
        assert_eq!(longhorn(&healthy), Health::Healthy);
        let cases = [
            (volume("a", "attached", "degraded"), "longhorn-system/a is degraded"),
            (volume("a", "attached", "unknown"), "longhorn-system/a is unknown"),
            (volume("a", "detached", "faulted"), "longhorn-system/a is faulted"),
            (volume("a", "attaching", "unknown"), "longhorn-system/a is attaching"),
            (volume("a", "", ""), "longhorn-system/a has no status"),
            (volume("a", "attached", ""), "longhorn-system/a is attached"),
            (json!({"metadata": {"name": "a"}}), "a has no status"),
        ];
        for (case, what) in cases {
            assert_eq!(longhorn(&[volume("ok", "attached", "healthy"), case]), unhealthy(what));
        }
        let many: Vec<Value> = (0..5).map(|n| volume(&format!("v{n}"), "attached", "degraded")).collect();
        let Health::Unhealthy { what } = longhorn(&many) else { panic!("it is not healthy") };
        assert!(what.ends_with("longhorn-system/v2 is degraded, and 2 more"), "{what}");
        let Health::Unhealthy { what } = longhorn(&many[..3]) else { panic!("it is not healthy") };
        assert!(what.ends_with("longhorn-system/v2 is degraded"), "{what}");
    }

    #[test]
    fn ceph_is_well_and_there() {
        let cluster = |health: &str, details: Value| {
            json!({
                "metadata": {"name": "rook-ceph", "namespace": "rook-ceph"},
                "status": {"ceph": {"health": health, "details": details, "lastChecked": "2026-11-17T10:00:00Z"}},
            })
        };
        assert_eq!(ceph(&[]), Health::Missing);
        assert_eq!(ceph(&[cluster("HEALTH_OK", Value::Null)]), Health::Healthy);
        let warns = cluster("HEALTH_WARN", json!({"OSD_DOWN": {}, "PG_DEGRADED": {}}));
        let what = "rook-ceph/rook-ceph reports HEALTH_WARN (OSD_DOWN, PG_DEGRADED)";
        assert_eq!(ceph(&[cluster("HEALTH_OK", Value::Null), warns.clone()]), unhealthy(what));
        assert_eq!(
            ceph(&[cluster("HEALTH_ERR", Value::Null)]),
            unhealthy("rook-ceph/rook-ceph reports HEALTH_ERR")
        );
        assert_eq!(ceph(&[json!({"metadata": {"name": "new"}})]), unhealthy("new has no status"));
        assert_eq!(checked(&[warns]).as_deref(), Some("2026-11-17T10:00:00Z"));
    }

    #[test]
    fn postgres_clusters_have_all_instances_ready_unless_they_hibernate() {
        let cluster = |status: Value| json!({"metadata": {"name": "db", "namespace": "app"}, "spec": {"instances": 3}, "status": status});
        assert_eq!(cloudnative_pg(&[]), Health::Healthy);
        assert_eq!(cloudnative_pg(&[cluster(json!({"readyInstances": 3}))]), Health::Healthy);
        let two = cloudnative_pg(&[cluster(json!({"readyInstances": 2}))]);
        assert_eq!(two, unhealthy("app/db has 2 of 3 instances ready"));
        assert_eq!(cloudnative_pg(&[cluster(json!({}))]), unhealthy("app/db has 0 of 3 instances ready"));
        let mut asleep = cluster(json!({}));
        asleep["metadata"]["annotations"] = json!({"cnpg.io/hibernation": "on"});
        assert_eq!(cloudnative_pg(&[asleep.clone()]), Health::Healthy);
        asleep["metadata"]["annotations"] = json!({"cnpg.io/hibernation": "off"});
        assert_ne!(cloudnative_pg(&[asleep]), Health::Healthy);
        let nothing = json!({"metadata": {"name": "db"}});
        assert_eq!(cloudnative_pg(&[nothing]), unhealthy("db does not say how many instances it has"));
    }
}
