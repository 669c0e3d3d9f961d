//! What the API server adds to objects by itself, and names that it makes up.

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::store::Store;

/// Five letters that belong to a name, as generated names end in.
pub(super) fn suffix(of: &str) -> String {
    letters(of, 5)
}

/// Letters that stand for a text, of the kind that make no words.
pub(super) fn letters(of: &str, count: usize) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut number = crate::stable::stable_number(&[of]);
    let mut letter = || {
        let index = usize::try_from(number % 27).unwrap_or(0);
        number /= 27;
        char::from(LETTERS[index])
    };
    (0..count).map(|_| letter()).collect()
}

/// Sets what is not set.
fn fill(target: &mut Value, defaults: Value) {
    match (target, defaults) {
        (Value::Object(target), Value::Object(defaults)) => {
            for (key, value) in defaults {
                match target.get_mut(&key) {
                    Some(present) => fill(present, value),
                    None => {
                        target.insert(key, value);
                    }
                }
            }
        }
        (target @ Value::Null, defaults) => *target = defaults,
        _ => {}
    }
}

/// Completes a new object of a kind.
pub(super) fn complete(store: &Store, kind: &Kind, object: &mut Value) {
    if kind.custom {
        return;
    }
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind.plural.as_ref() {
        "namespaces" => fill(
            object,
            json!({
                "metadata": {"labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            }),
        ),
        "pods" => {
            complete_pod_spec(&mut object["spec"]);
            fill(object, json!({"status": {"phase": "Pending", "qosClass": "BestEffort"}}));
        }
        "deployments" | "replicasets" | "statefulsets" => {
            fill(object, json!({"spec": {"replicas": 1}}));
            complete_template(object);
        }
        "daemonsets" => complete_template(object),
        "jobs" => {
            let id = letters(&format!("{name}{}", store.revision()), 12);
            let label = json!({"batch.kubernetes.io/controller-uid": id});
            let labels = json!({"batch.kubernetes.io/controller-uid": id, "batch.kubernetes.io/job-name": name, "job-name": name});
            fill(
                object,
                json!({"spec": {
                    "completions": 1, "parallelism": 1, "backoffLimit": 6, "suspend": false,
                    "selector": {"matchLabels": label}, "template": {"metadata": {"labels": labels}},
                }}),
            );
            complete_template(object);
        }
        "services" => complete_service(store, object),
        "persistentvolumeclaims" => fill(object, json!({"status": {"phase": "Pending"}})),
        "secrets" => {
            fill(object, json!({"type": "Opaque"}));
            encode_texts(object);
        }
        _ => {}
    }
}

/// Texts of a secret are kept as bytes.
fn encode_texts(secret: &mut Value) {
    use base64::Engine as _;
    let Some(texts) = secret.as_object_mut().and_then(|s| s.remove("stringData")) else { return };
    for (key, text) in texts.as_object().into_iter().flatten() {
        let text = text.as_str().unwrap_or_default();
        secret["data"][key] = base64::engine::general_purpose::STANDARD.encode(text).into();
    }
}

fn complete_template(object: &mut Value) {
    if let Some(spec) = object.pointer_mut("/spec/template/spec") {
        complete_pod_spec(spec);
        // Tolerations of silence belong to pods, not to what makes them.
        if let Some(spec) = spec.as_object_mut().filter(|spec| spec.get("tolerations") == Some(&patience())) {
            spec.remove("tolerations");
        }
    }
}

/// A pod bears a node's silence for five minutes.
fn patience() -> Value {
    let bears = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    json!([bears("node.kubernetes.io/not-ready"), bears("node.kubernetes.io/unreachable")])
}

pub(super) fn complete_pod_spec(spec: &mut Value) {
    fill(
        spec,
        json!({
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "serviceAccountName": "default", "terminationGracePeriodSeconds": 30, "securityContext": {},
            "tolerations": patience(),
        }),
    );
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        fill(container, json!({"imagePullPolicy": "IfNotPresent", "resources": {}}));
    }
}

/// A service gets an address of its own from the first free ones.
fn complete_service(store: &Store, object: &mut Value) {
    fill(
        object,
        json!({"spec": {"type": "ClusterIP", "sessionAffinity": "None"}, "status": {"loadBalancer": {}}}),
    );
    for port in object.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let number = port["port"].clone();
        fill(port, json!({"protocol": "TCP", "targetPort": number}));
    }
    if object.pointer("/spec/clusterIP").is_some()
        || object.pointer("/spec/type") == Some(&"ExternalName".into())
    {
        return;
    }
    let services = store.list("", "services", None);
    let taken: Vec<&str> = services.iter().filter_map(|s| s.pointer("/spec/clusterIP")?.as_str()).collect();
    let base = taken.first().and_then(|ip| ip.rsplit_once('.')).map_or("10.96.0", |(base, _)| base);
    let free = (11..255).map(|host| format!("{base}.{host}")).find(|ip| !taken.contains(&ip.as_str()));
    let mut address = Map::new();
    address.insert("clusterIP".into(), free.clone().into());
    address.insert("clusterIPs".into(), json!([free]));
    fill(object, json!({"spec": address}));
}
