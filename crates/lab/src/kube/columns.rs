//! The columns that each kind is shown with, as `kubectl get` prints them for a real cluster.

use jiff::Timestamp;
use serde_json::Value;

type Cell = Box<dyn Fn(&Value, Timestamp) -> Value>;

/// A column of a table.
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: &'static str,
    /// 1: only when a client wants it wide.
    pub(super) priority: u8,
    pub(super) cell: Cell,
}

impl Column {
    fn new(name: &str, cell: impl Fn(&Value) -> Value + 'static) -> Self {
        Self {
            name: name.to_owned(),
            kind: "string",
            priority: 0,
            cell: Box::new(move |object, _| cell(object)),
        }
    }

    pub(super) fn name() -> Self {
        text("Name", "/metadata/name", "")
    }

    pub(super) fn age() -> Self {
        since("Age", "/metadata/creationTimestamp")
    }

    /// A column that a definition asks for; its place is a simple path of fields.
    pub(super) fn asked(column: &Value) -> Self {
        let name = column["name"].as_str().unwrap_or_default();
        let path = column["jsonPath"].as_str().unwrap_or_default().replace('.', "/");
        let mut made = match column["type"].as_str() {
            Some("date") => since(name, &path),
            Some("integer" | "number") => number(name, &path),
            _ => Self::new(name, move |object| object.pointer(&path).map_or(Value::Null, plain)),
        };
        made.priority = u8::from(column["priority"].as_u64().unwrap_or(0) > 0);
        made
    }

    fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

fn plain(value: &Value) -> Value {
    if value.is_object() || value.is_array() { value.to_string().into() } else { value.clone() }
}

fn text(name: &str, pointer: &'static str, absent: &'static str) -> Column {
    Column::new(name, move |object| {
        object.pointer(pointer).filter(|v| !v.is_null() && *v != "").map_or_else(|| absent.into(), plain)
    })
}

fn number(name: &str, pointer: &str) -> Column {
    let pointer = pointer.to_owned();
    let mut column = Column::new(name, move |object| {
        object.pointer(&pointer).filter(|v| v.is_number()).cloned().unwrap_or_else(|| 0.into())
    });
    column.kind = "integer";
    column
}

fn since(name: &str, pointer: &str) -> Column {
    let pointer = pointer.to_owned();
    let cell = move |object: &Value, now: Timestamp| -> Value {
        let moment =
            object.pointer(&pointer).and_then(Value::as_str).and_then(|t| t.parse::<Timestamp>().ok());
        moment
            .map_or_else(|| "<unknown>".to_owned(), |moment| duration(now.duration_since(moment).as_secs()))
            .into()
    };
    Column { name: name.to_owned(), kind: "string", priority: 0, cell: Box::new(cell) }
}

/// As kubectl writes durations: two units while short, one when long.
fn duration(seconds: i64) -> String {
    let two = |large: i64, unit: &str, small: i64, below: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{below}"),
    };
    match seconds {
        ..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds / 60, "m", seconds % 60, "s"),
        600..10_800 => format!("{}m", seconds / 60),
        10_800..28_800 => two(seconds / 3600, "h", seconds % 3600 / 60, "m"),
        28_800..172_800 => format!("{}h", seconds / 3600),
        172_800..691_200 => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn joined(values: impl Iterator<Item = String>, absent: &str) -> Value {
    let all: Vec<String> = values.collect();
    if all.is_empty() { absent.into() } else { all.join(",").into() }
}

fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn of_template(field: &'static str, name: &str) -> Column {
    Column::new(name, move |o| {
        joined(list(o, "/spec/template/spec/containers").map(|c| words(&c[field])), "<none>")
    })
    .wide()
}

fn selector(pointer: &'static str, name: &str) -> Column {
    Column::new(name, move |object| {
        let labels = object.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
        joined(labels.map(|(key, value)| format!("{key}={}", words(value))), "<none>")
    })
}

fn count(object: &Value, pointer: &str) -> u64 {
    object.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

fn fraction(name: &str, part: &'static str, whole: &'static str) -> Column {
    Column::new(name, move |o| format!("{}/{}", count(o, part), count(o, whole)).into())
}

fn size(name: &str, pointer: &'static str) -> Column {
    let mut column = Column::new(name, move |object| match object.pointer(pointer) {
        Some(Value::Object(map)) => map.len().into(),
        Some(Value::Array(list)) => list.len().into(),
        _ => 0.into(),
    });
    column.kind = "integer";
    column
}

fn address(name: &str, kind: &'static str) -> Column {
    Column::new(name, move |node| {
        let found = list(node, "/status/addresses").find(|a| a["type"] == kind);
        found.map_or_else(|| "<none>".into(), |a| a["address"].clone())
    })
}

fn node_status(node: &Value) -> Value {
    let ready = list(node, "/status/conditions").any(|c| c["type"] == "Ready" && c["status"] == "True");
    let cordoned = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    let status = if ready { "Ready" } else { "NotReady" };
    format!("{status}{}", if cordoned { ",SchedulingDisabled" } else { "" }).into()
}

fn node_roles(node: &Value) -> Value {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    joined(
        labels.filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/").map(str::to_owned)),
        "<none>",
    )
}

fn pod_status(pod: &Value) -> Value {
    if pod["metadata"].get("deletionTimestamp").is_some() {
        return "Terminating".into();
    }
    let waiting = list(pod, "/status/containerStatuses").find_map(|c| c.pointer("/state/waiting/reason"));
    if let Some(reason) = waiting {
        return reason.clone();
    }
    match pod.pointer("/status/phase").and_then(Value::as_str) {
        Some("Succeeded") => "Completed".into(),
        Some("Failed") => "Error".into(),
        Some(phase) => phase.into(),
        None => "Unknown".into(),
    }
}

fn pod_ready(pod: &Value) -> Value {
    let ready = list(pod, "/status/containerStatuses").filter(|c| c["ready"] == true).count();
    format!("{ready}/{}", list(pod, "/spec/containers").count()).into()
}

fn ports(service: &Value) -> Value {
    let port = |p: &Value| {
        let outside = p["nodePort"].as_u64().map(|n| format!(":{n}")).unwrap_or_default();
        format!("{}{outside}/{}", p["port"], p["protocol"].as_str().unwrap_or("TCP"))
    };
    joined(list(service, "/spec/ports").map(port), "<none>")
}

fn job_status(job: &Value) -> Value {
    let holds =
        |kind: &str| list(job, "/status/conditions").any(|c| c["type"] == kind && c["status"] == "True");
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if holds("Suspended") => "Suspended",
        () => "Running",
    }
    .into()
}

fn job_duration(job: &Value, now: Timestamp) -> Value {
    let moment = |pointer: &str| {
        job.pointer(pointer).and_then(Value::as_str).and_then(|t| t.parse::<Timestamp>().ok())
    };
    let Some(start) = moment("/status/startTime") else { return "".into() };
    duration(moment("/status/completionTime").unwrap_or(now).duration_since(start).as_secs()).into()
}

fn subjects(name: &str, kind: &'static str) -> Column {
    let subject = |s: &Value| match s["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{}", words(&s["name"])),
        None => words(&s["name"]),
    };
    Column::new(name, move |o| joined(list(o, "/subjects").filter(|s| s["kind"] == kind).map(subject), ""))
        .wide()
}

fn event_object(event: &Value) -> Value {
    let kind = event.pointer("/involvedObject/kind").and_then(Value::as_str).unwrap_or_default();
    let name = event.pointer("/involvedObject/name").and_then(Value::as_str).unwrap_or_default();
    format!("{}/{name}", kind.to_lowercase()).into()
}

/// The columns of a built-in kind; a kind that is not here has a name and an age.
pub(super) fn columns_of(plural: &str) -> Vec<Column> {
    let (name, age) = (Column::name, Column::age);
    let created = || text("Created At", "/metadata/creationTimestamp", "");
    let workload = || {
        [
            of_template("name", "Containers"),
            of_template("image", "Images"),
            selector("/spec/selector/matchLabels", "Selector").wide(),
        ]
    };
    match plural {
        "nodes" => vec![
            name(),
            Column::new("Status", node_status),
            Column::new("Roles", node_roles),
            age(),
            text("Version", "/status/nodeInfo/kubeletVersion", ""),
            address("Internal-IP", "InternalIP").wide(),
            address("External-IP", "ExternalIP").wide(),
            text("OS-Image", "/status/nodeInfo/osImage", "<unknown>").wide(),
            text("Kernel-Version", "/status/nodeInfo/kernelVersion", "<unknown>").wide(),
            text("Container-Runtime", "/status/nodeInfo/containerRuntimeVersion", "<unknown>").wide(),
        ],
        "pods" => vec![
            name(),
            Column::new("Ready", pod_ready),
            Column::new("Status", pod_status),
            Column::new("Restarts", |pod| {
                list(pod, "/status/containerStatuses")
                    .filter_map(|c| c["restartCount"].as_u64())
                    .sum::<u64>()
                    .to_string()
                    .into()
            }),
            age(),
            text("IP", "/status/podIP", "<none>").wide(),
            text("Node", "/spec/nodeName", "<none>").wide(),
            text("Nominated Node", "/status/nominatedNodeName", "<none>").wide(),
            Column::new("Readiness Gates", |_| "<none>".into()).wide(),
        ],
        "namespaces" => vec![name(), text("Status", "/status/phase", ""), age()],
        "services" => vec![
            name(),
            text("Type", "/spec/type", "ClusterIP"),
            text("Cluster-IP", "/spec/clusterIP", "<none>"),
            text("External-IP", "/spec/externalName", "<none>"),
            Column::new("Port(s)", ports),
            age(),
            selector("/spec/selector", "Selector").wide(),
        ],
        "deployments" => {
            let ready = fraction("Ready", "/status/readyReplicas", "/spec/replicas");
            let counted = [
                number("Up-to-date", "/status/updatedReplicas"),
                number("Available", "/status/availableReplicas"),
            ];
            [name(), ready].into_iter().chain(counted).chain([age()]).chain(workload()).collect()
        }
        "daemonsets" => [
            name(),
            number("Desired", "/status/desiredNumberScheduled"),
            number("Current", "/status/currentNumberScheduled"),
            number("Ready", "/status/numberReady"),
            number("Up-to-date", "/status/updatedNumberScheduled"),
            number("Available", "/status/numberAvailable"),
            selector("/spec/template/spec/nodeSelector", "Node Selector"),
            age(),
        ]
        .into_iter()
        .chain(workload())
        .collect(),
        "replicasets" => [
            name(),
            number("Desired", "/spec/replicas"),
            number("Current", "/status/replicas"),
            number("Ready", "/status/readyReplicas"),
            age(),
        ]
        .into_iter()
        .chain(workload())
        .collect(),
        "statefulsets" => vec![
            name(),
            fraction("Ready", "/status/readyReplicas", "/spec/replicas"),
            age(),
            of_template("name", "Containers"),
            of_template("image", "Images"),
        ],
        "jobs" => {
            let took =
                Column { name: "Duration".into(), kind: "string", priority: 0, cell: Box::new(job_duration) };
            let done = fraction("Completions", "/status/succeeded", "/spec/completions");
            [name(), Column::new("Status", job_status), done, took, age()]
                .into_iter()
                .chain(workload())
                .collect()
        }
        "cronjobs" => vec![
            name(),
            text("Schedule", "/spec/schedule", ""),
            text("Timezone", "/spec/timeZone", "<none>"),
            text("Suspend", "/spec/suspend", "False"),
            size("Active", "/status/active"),
            since("Last Schedule", "/status/lastScheduleTime"),
            age(),
        ],
        "configmaps" => vec![name(), size("Data", "/data"), age()],
        "secrets" => vec![name(), text("Type", "/type", "Opaque"), size("Data", "/data"), age()],
        "serviceaccounts" => vec![name(), size("Secrets", "/secrets"), age()],
        "events" => vec![
            since("Last Seen", "/lastTimestamp"),
            text("Type", "/type", ""),
            text("Reason", "/reason", ""),
            Column::new("Object", event_object),
            text("Subobject", "/involvedObject/fieldPath", "").wide(),
            text("Source", "/source/component", "").wide(),
            text("Message", "/message", ""),
            since("First Seen", "/firstTimestamp").wide(),
            number("Count", "/count").wide(),
            name().wide(),
        ],
        "leases" => vec![name(), text("Holder", "/spec/holderIdentity", ""), age()],
        "poddisruptionbudgets" => vec![
            name(),
            text("Min Available", "/spec/minAvailable", "N/A"),
            text("Max Unavailable", "/spec/maxUnavailable", "N/A"),
            number("Allowed Disruptions", "/status/disruptionsAllowed"),
            age(),
        ],
        "persistentvolumeclaims" => vec![
            name(),
            text("Status", "/status/phase", ""),
            text("Volume", "/spec/volumeName", ""),
            text("Capacity", "/status/capacity/storage", ""),
            Column::new("Access Modes", |o| joined(list(o, "/status/accessModes").map(words), "")),
            text("StorageClass", "/spec/storageClassName", ""),
            text("VolumeAttributesClass", "/spec/volumeAttributesClassName", "<unset>"),
            age(),
            text("VolumeMode", "/spec/volumeMode", "").wide(),
        ],
        "persistentvolumes" => vec![
            name(),
            text("Capacity", "/spec/capacity/storage", ""),
            Column::new("Access Modes", |o| joined(list(o, "/spec/accessModes").map(words), "")),
            text("Reclaim Policy", "/spec/persistentVolumeReclaimPolicy", ""),
            text("Status", "/status/phase", ""),
            text("Claim", "/spec/claimRef/name", ""),
            text("StorageClass", "/spec/storageClassName", ""),
            text("VolumeAttributesClass", "/spec/volumeAttributesClassName", "<unset>"),
            text("Reason", "/status/reason", ""),
            age(),
            text("VolumeMode", "/spec/volumeMode", "").wide(),
        ],
        "storageclasses" => vec![
            name(),
            text("Provisioner", "/provisioner", ""),
            text("ReclaimPolicy", "/reclaimPolicy", "Delete"),
            text("VolumeBindingMode", "/volumeBindingMode", "Immediate"),
            text("AllowVolumeExpansion", "/allowVolumeExpansion", "false"),
            age(),
        ],
        "clusterroles" | "roles" | "customresourcedefinitions" => vec![name(), created()],
        "clusterrolebindings" | "rolebindings" => vec![
            name(),
            Column::new("Role", |o| {
                format!("{}/{}", words(&o["roleRef"]["kind"]), words(&o["roleRef"]["name"])).into()
            }),
            age(),
            subjects("Users", "User"),
            subjects("Groups", "Group"),
            subjects("ServiceAccounts", "ServiceAccount"),
        ],
        "endpoints" => vec![
            name(),
            Column::new("Endpoints", |o| {
                let subsets: Vec<&Value> = list(o, "/subsets").collect();
                joined(subsets.iter().flat_map(|s| list(s, "/addresses")).map(|a| words(&a["ip"])), "<none>")
            }),
            age(),
        ],
        "networkpolicies" => vec![name(), selector("/spec/podSelector/matchLabels", "Pod-Selector"), age()],
        "priorityclasses" => vec![
            name(),
            number("Value", "/value"),
            text("Global-Default", "/globalDefault", "false"),
            age(),
            text("PreemptionPolicy", "/preemptionPolicy", "PreemptLowerPriority"),
        ],
        "ingressclasses" => {
            vec![
                name(),
                text("Controller", "/spec/controller", ""),
                text("Parameters", "/spec/parameters/name", "<none>"),
                age(),
            ]
        }
        _ => vec![name(), age()],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_written_as_kubectl_does() {
        let shown = [7, 119, 125, 600, 7199, 10_800, 18_060, 100_000, 200_000, 900_000].map(duration);
        assert_eq!(shown, ["7s", "119s", "2m5s", "10m", "119m", "3h", "5h1m", "27h", "2d7h", "10d"]);
    }

    #[test]
    fn a_node_is_shown_with_its_cordon() {
        let node = json!({
            "metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}},
            "spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        assert_eq!(node_status(&node), "Ready,SchedulingDisabled");
        assert_eq!(node_roles(&node), "control-plane");
    }
}
