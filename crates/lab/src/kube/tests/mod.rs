//! The Kubernetes API over the lab's network.

mod api;
mod cluster;

use std::sync::Arc;
use std::time::Duration;

use ambient::tls::Connector;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use talos::pki::{Authority, Identity};
use talos::secrets::kubernetes_admin;

use crate::machine::tests::{BUNDLE, VIP};
use crate::talos_api::tests::{Rig, tls};

const DAY: Duration = Duration::from_secs(24 * 3600);

struct Kube<'a> {
    rig: &'a Rig,
    identity: Option<Identity>,
}

impl Kube<'_> {
    async fn call(&self, method: Method, path: &str, kind: &str, body: Value) -> (StatusCode, Value) {
        self.call_for(method, path, kind, "application/json", body).await
    }

    async fn call_for(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        accept: &str,
        body: Value,
    ) -> (StatusCode, Value) {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        self.call_with(method, path, kind, accept, body).await
    }

    async fn call_with(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        accept: &str,
        body: Bytes,
    ) -> (StatusCode, Value) {
        let mut config = tls(self.identity.as_ref());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let connector = Connector::new(self.rig.lab.net(), Arc::new(config), 6443);
        let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{VIP}:6443{path}"))
            .header("content-type", kind)
            .header("accept", accept)
            .body(Full::new(body))
            .unwrap();
        let response = client.request(request).await.unwrap();
        let code = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        (code, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.call(Method::GET, path, "application/json", Value::Null).await
    }
}

fn admin(rig: &Rig) -> Identity {
    kubernetes_admin(&BUNDLE, DAY, rig.clock.now()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn administrators_see_nodes_and_pods_and_others_nothing() {
    let rig = Rig::single().await;
    let kube = Kube { rig: &rig, identity: Some(admin(&rig)) };
    assert_eq!(kube.get("/readyz").await, (StatusCode::OK, "ok".into()));
    assert_eq!(kube.get("/version").await.1["gitVersion"], "v1.36.3");
    let (code, nodes) = kube.get("/api/v1/nodes").await;
    assert_eq!((code, &nodes["kind"]), (StatusCode::OK, &json!("NodeList")));
    let node = &nodes["items"][0];
    assert_eq!(node["metadata"]["name"], "n101");
    assert_eq!(node["status"]["nodeInfo"]["osImage"], "Talos (v1.13.9)");
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.36.3");
    assert_eq!(node["status"]["conditions"][3]["status"], "True");
    assert_eq!(node["status"]["addresses"][0], json!({"type": "InternalIP", "address": "10.1.0.11"}));
    let (_, pods) =
        kube.get("/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app%3Dkube-apiserver").await;
    assert_eq!(pods["items"][0]["metadata"]["name"], "kube-apiserver-n101");
    assert_eq!(kube.get("/api/v1/nodes/nope").await.1["message"], "nodes \"nope\" not found");

    let nobody = Kube { rig: &rig, identity: None };
    assert_eq!(nobody.get("/api/v1/nodes").await.0, StatusCode::UNAUTHORIZED);
    let ca = Authority::from_pem(&BUNDLE.kubernetes().certificate, BUNDLE.kubernetes().key.expose()).unwrap();
    let user = ca.issue_client(Some("jane"), "developers", DAY, rig.clock.now()).unwrap();
    let user = Kube { rig: &rig, identity: Some(user) };
    assert_eq!(user.get("/api/v1/nodes").await.0, StatusCode::FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn objects_can_be_made_changed_and_deleted() {
    let rig = Rig::single().await;
    let kube = Kube { rig: &rig, identity: Some(admin(&rig)) };
    let maps = "/api/v1/namespaces/default/configmaps";
    let object = json!({"metadata": {"name": "a"}, "data": {"x": "1"}});
    let (code, made) = kube.call(Method::POST, maps, "application/json", object.clone()).await;
    assert_eq!((code, &made["apiVersion"]), (StatusCode::CREATED, &json!("v1")));
    let (code, again) = kube.call(Method::POST, maps, "application/json", object).await;
    assert_eq!((code, &again["reason"]), (StatusCode::CONFLICT, &json!("AlreadyExists")));
    let one = format!("{maps}/a");
    let patch = json!({"data": {"x": "2"}});
    let (_, patched) = kube.call(Method::PATCH, &one, "application/merge-patch+json", patch).await;
    assert_eq!(patched["data"]["x"], "2");
    let (code, stale) = kube.call(Method::PUT, &one, "application/json", made).await;
    assert_eq!((code, &stale["reason"]), (StatusCode::CONFLICT, &json!("Conflict")));
    let (code, _) = kube.call(Method::DELETE, &one, "application/json", Value::Null).await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(kube.get(&one).await.0, StatusCode::NOT_FOUND);

    let cordon = json!({"spec": {"unschedulable": true}});
    kube.call(Method::PATCH, "/api/v1/nodes/n101", "application/strategic-merge-patch+json", cordon).await;
    rig.wait(100).await;
    assert_eq!(
        kube.get("/api/v1/nodes/n101").await.1["spec"]["unschedulable"],
        true,
        "the kubelet leaves that alone"
    );
}
