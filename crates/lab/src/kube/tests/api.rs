//! What clients ask of the API server beyond single objects: discovery, tables, pages, watches, patches, evictions.

use super::*;

const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// The lines of an answer that came to its end.
fn lines(answer: &Value) -> Vec<Value> {
    match answer {
        Value::String(text) => text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        one => vec![one.clone()],
    }
}

fn kinds(events: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    events.iter().map(|e| (text(&e["type"]), text(&e["object"]["metadata"]["name"]))).collect()
}

#[tokio::test(start_paused = true)]
async fn everything_is_found_in_one_document() {
    let rig = Rig::single().await;
    let kube = Kube { rig: &rig, identity: Some(admin(&rig)) };
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let (_, all) = kube.call_for(Method::GET, "/apis", JSON, accept, Value::Null).await;
    assert_eq!(all["kind"], "APIGroupDiscoveryList");
    let apps = all["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"] == "apps").unwrap();
    let resources = apps["versions"][0]["resources"].as_array().unwrap();
    let deployments = resources.iter().find(|r| r["resource"] == "deployments").unwrap();
    assert_eq!(deployments["responseKind"]["kind"], "Deployment");
    assert_eq!(deployments["subresources"][1]["subresource"], "scale");
    let (_, groups) = kube.get("/apis").await;
    assert_eq!(groups["kind"], "APIGroupList");
    assert_eq!(kube.get("/apis/policy").await.1["preferredVersion"]["version"], "v1");
    assert_eq!(kube.get("/apis/nope/v1").await.0, StatusCode::NOT_FOUND);
    let (_, index) = kube.get("/openapi/v3").await;
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let (_, document) = kube.get(&url).await;
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert!(patch["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "fieldValidation"));
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages_and_tables() {
    let rig = Rig::single().await;
    let kube = Kube { rig: &rig, identity: Some(admin(&rig)) };
    let (_, table) = kube.call_for(Method::GET, "/api/v1/nodes", JSON, TABLE, Value::Null).await;
    let columns: Vec<&Value> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(columns[..5], ["Name", "Status", "Roles", "Age", "Version"]);
    assert_eq!(table["rows"][0]["cells"][1], "Ready");
    let all = kube.get("/api/v1/pods").await.1["items"].as_array().unwrap().len();
    let (mut seen, mut path) = (0, "/api/v1/pods?limit=2".to_owned());
    loop {
        let (_, page) = kube.get(&path).await;
        seen += page["items"].as_array().unwrap().len();
        match page["metadata"]["continue"].as_str() {
            Some(token) => path = format!("/api/v1/pods?limit=2&continue={token}"),
            None => break,
        }
    }
    assert_eq!(seen, all);
    assert_eq!(kube.get("/api/v1/pods?limit=2&continue=x").await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn a_watch_misses_nothing_and_says_how_far_it_has_come() {
    let rig = Rig::single().await;
    let kube = Kube { rig: &rig, identity: Some(admin(&rig)) };
    let maps = "/api/v1/namespaces/default/configmaps";
    let version = kube.get(maps).await.1["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    for (name, app) in [("a", "x"), ("b", "y")] {
        let object = json!({"metadata": {"name": name, "labels": {"app": app}}});
        kube.call(Method::POST, maps, JSON, object).await;
    }
    let relabel = json!({"metadata": {"labels": {"app": "y"}}});
    kube.call(Method::PATCH, &format!("{maps}/a"), "application/merge-patch+json", relabel).await;
    kube.call(Method::DELETE, &format!("{maps}/b"), JSON, Value::Null).await;
    let watch = format!("{maps}?watch=1&resourceVersion={version}&timeoutSeconds=5");
    let told = |kinds: &[(&str, &str)]| -> Vec<(String, String)> {
        kinds.iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned())).collect()
    };
    let events = lines(&kube.get(&watch).await.1);
    assert_eq!(kinds(&events), told(&[("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]));
    let events = lines(&kube.get(&format!("{watch}&labelSelector=app%3Dx")).await.1);
    assert_eq!(kinds(&events), told(&[("ADDED", "a"), ("DELETED", "a")]), "it left the selection");

    let whole = format!(
        "{maps}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=70"
    );
    let events = lines(&kube.get(&whole).await.1);
    let last: Vec<&Value> = events.iter().filter(|e| e["type"] == "BOOKMARK").collect();
    assert_eq!(last[0]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(last.len(), 2, "one for the beginning, one after a minute of silence");
    assert!(kinds(&events).contains(&("ADDED".to_owned(), "a".to_owned())));
    let events = lines(&kube.get(&format!("{maps}?watch=1&resourceVersion=1&timeoutSeconds=5")).await.1);
    assert!(!events.is_empty() && events.iter().all(|e| e["type"] != "ERROR"), "the past is still known");
}

#[tokio::test(start_paused = true)]
async fn a_budget_holds_a_pod_until_another_is_ready() {
    let rig = Rig::single().await;
    let kube = Kube { rig: &rig, identity: Some(admin(&rig)) };
    let labels = json!({"app": "web"});
    let bears = json!([{"operator": "Exists"}]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"tolerations": bears, "containers": [{"name": "c", "image": "x"}]}});
    let web = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}});
    kube.call(Method::POST, "/apis/apps/v1/namespaces/default/deployments", JSON, web).await;
    let budget = json!({"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}}});
    kube.call(Method::POST, "/apis/policy/v1/namespaces/default/poddisruptionbudgets", JSON, budget).await;
    rig.wait(10).await;
    let pods = "/api/v1/namespaces/default/pods";
    let list = kube.get(&format!("{pods}?labelSelector=app%3Dweb")).await.1;
    let names: Vec<String> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), 2);
    let evict =
        async |name: &str| kube.call(Method::POST, &format!("{pods}/{name}/eviction"), JSON, json!({})).await;
    assert_eq!(evict(&names[0]).await.0, StatusCode::CREATED);
    let (code, refused) = evict(&names[1]).await;
    assert_eq!((code, &refused["reason"]), (StatusCode::TOO_MANY_REQUESTS, &json!("TooManyRequests")));
    assert_eq!(
        refused["details"]["causes"][0]["message"],
        "The disruption budget web needs 2 healthy pods and has 1 currently"
    );
    let (_, gone) = kube.get(&format!("{pods}/{}", names[0])).await;
    assert!(gone["metadata"]["deletionTimestamp"].is_string(), "it is given time to stop");
    rig.wait(10).await;
    assert_eq!(kube.get(&format!("{pods}/{}", names[0])).await.0, StatusCode::NOT_FOUND);
    assert_eq!(evict(&names[1]).await.0, StatusCode::CREATED, "its successor is ready");
}

#[tokio::test(start_paused = true)]
async fn tries_change_nothing_and_the_status_is_a_part_of_its_own() {
    let rig = Rig::single().await;
    let kube = Kube { rig: &rig, identity: Some(admin(&rig)) };
    let maps = "/api/v1/namespaces/default/configmaps";
    let object = json!({"metadata": {"generateName": "a-"}, "data": {"x": "1"}});
    let (code, tried) = kube.call(Method::POST, &format!("{maps}?dryRun=All"), JSON, object.clone()).await;
    assert_eq!(code, StatusCode::CREATED);
    let name = tried["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("a-") && name.len() == 7, "{name}");
    assert_eq!(kube.get(&format!("{maps}/{name}")).await.0, StatusCode::NOT_FOUND);
    let (code, _) = kube.call(Method::POST, "/api/v1/namespaces/nope/configmaps", JSON, object).await;
    assert_eq!(code, StatusCode::NOT_FOUND);

    let node = "/api/v1/nodes/n101";
    let merge = "application/merge-patch+json";
    let patch = json!({"metadata": {"labels": {"rack": "a"}}, "status": {"phase": "Odd"}});
    let (_, patched) = kube.call(Method::PATCH, node, merge, patch.clone()).await;
    assert_eq!(
        (&patched["metadata"]["labels"]["rack"], &patched["status"]["phase"]),
        (&json!("a"), &Value::Null)
    );
    let (_, patched) = kube.call(Method::PATCH, &format!("{node}/status"), merge, patch).await;
    assert_eq!(patched["status"]["phase"], "Odd");
    let apply = "application/apply-patch+yaml";
    let applied = json!({"metadata": {"labels": {"zone": "1"}}});
    let (code, _) = kube.call(Method::PATCH, node, apply, applied.clone()).await;
    assert_eq!(code, StatusCode::BAD_REQUEST, "an apply names its field manager");
    let (_, applied) = kube.call(Method::PATCH, &format!("{node}?fieldManager=me"), apply, applied).await;
    assert_eq!(
        applied["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:metadata": {"f:labels": {"f:zone": {}}}})
    );
    let (code, _) = kube.call(Method::PATCH, node, "text/plain", json!({})).await;
    assert_eq!(code, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

/// Clients with Kubernetes' own types send protobuf and take JSON.
#[tokio::test(start_paused = true)]
async fn e3_objects_are_made_from_protobuf() {
    use base64::Engine as _;
    let rig = Rig::single().await;
    let kube = Kube { rig: &rig, identity: Some(admin(&rig)) };
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let samples = include_str!("../gen/protobuf-samples.jsonl").lines();
    let samples: Vec<Value> = samples.map(|line| serde_json::from_str(line).unwrap()).collect();
    let bytes = |kind: &str| {
        let sample = samples.iter().find(|sample| sample["kind"] == kind).unwrap();
        base64::engine::general_purpose::STANDARD.decode(sample["protobuf"].as_str().unwrap()).unwrap()
    };
    let send = async |path: &str, accept: &str, body: Vec<u8>| {
        kube.call_with(Method::POST, path, PROTOBUF, accept, body.into()).await
    };
    let both = format!("{PROTOBUF},application/json");
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let (code, made) = send(path, &both, bytes("Deployment")).await;
    assert_eq!((code, &made["spec"]["replicas"]), (StatusCode::CREATED, &json!(0)), "{made}");
    let container = &made["spec"]["template"]["spec"]["containers"][0];
    assert_eq!((&container["image"], &container["args"]), (&json!("example/a:1"), &json!(["", "-v"])));
    let (code, again) = send(path, &both, bytes("Deployment")).await;
    assert_eq!((code, &again["reason"]), (StatusCode::CONFLICT, &json!("AlreadyExists")));
    let (code, wrong) = send(path, &both, b"{}".to_vec()).await;
    assert_eq!(code, StatusCode::BAD_REQUEST, "{wrong}");
    let (code, _) = send("/api/v1/namespaces/default/secrets", PROTOBUF, bytes("Secret")).await;
    assert_eq!(code, StatusCode::NOT_ACCEPTABLE);
    let (_, secret) = send("/api/v1/namespaces/default/secrets", &both, bytes("Secret")).await;
    assert_eq!((&secret["data"]["k"], &secret["type"]), (&json!("dg=="), &json!("Opaque")));
}
