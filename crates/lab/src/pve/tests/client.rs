//! A client for the tests: one connection a call, real TLS, and the lab's own authorities trusted.

use std::sync::Arc;
use std::time::Duration;

use ambient::{Clock, Net};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::ext::ReasonPhrase;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

use crate::Lab;

/// A client that trusts the lab's own authorities.
pub(super) struct Client {
    pub(super) net: Net,
    pub(super) tls: Arc<rustls::ClientConfig>,
    pub(super) clock: Clock,
    pub(super) authorization: String,
}

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) body: String,
}

impl Reply {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    pub(super) fn data(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()["data"].clone()
    }

    pub(super) fn text(&self) -> String {
        self.data().as_str().expect("data is text").to_owned()
    }
}

impl Client {
    pub(super) fn new(lab: &Lab, clock: &Clock) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        let chains = lab.shared().peek(|world| {
            let hosts = world.hypervisor.hosts.values().map(|host| host.identity.certificate_pem.clone());
            hosts.chain([world.factory.authority_pem().to_owned()]).collect::<String>()
        });
        for certificate in CertificateDer::pem_slice_iter(chains.as_bytes()) {
            // Leaves are no authorities; the store keeps what it can.
            let _ = roots.add(certificate.unwrap());
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let authorization = format!("PVEAPIToken={}", lab.facts().token);
        Self { net: lab.net(), tls: Arc::new(tls), clock: clock.clone(), authorization }
    }

    pub(super) async fn send(
        &self,
        host: &str,
        port: u16,
        request: Request<Full<Bytes>>,
    ) -> std::io::Result<Reply> {
        let connector = ambient::tls::Connector::new(self.net.clone(), self.tls.clone(), port);
        let stream = connector.connect(host, port).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let response = sender.send_request(request).await.map_err(std::io::Error::other)?;
        let reason = response.extensions().get::<ReasonPhrase>().map(|reason| reason.as_bytes().to_vec());
        let reason = String::from_utf8(reason.unwrap_or_else(|| b"OK".to_vec())).unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
        Ok(Reply { status, reason, body: String::from_utf8(body.to_vec()).unwrap() })
    }

    pub(super) async fn call_at(
        &self,
        host: &str,
        method: &str,
        path: &str,
        body: Value,
    ) -> std::io::Result<Reply> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(format!("/api2/json{path}"))
            .header("Host", host)
            .header("Authorization", &self.authorization)
            .header("Content-Type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        self.send(host, 8006, request).await
    }

    pub(super) async fn call(&self, method: &str, path: &str, body: Value) -> Reply {
        self.call_at("pve1", method, path, body).await.unwrap()
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        self.call("GET", path, Value::Null).await.data()
    }

    /// Waits for the end of a task; gives its exit status.
    pub(super) async fn task(&self, upid: &str) -> String {
        let node = upid.split(':').nth(1).unwrap();
        loop {
            let status = self.get(&format!("/nodes/{node}/tasks/{upid}/status")).await;
            if let Some(exit) = status["exitstatus"].as_str() {
                return exit.to_owned();
            }
            self.clock.sleep(Duration::from_secs(1)).await;
        }
    }

    /// Makes a call that starts a task, and waits for its end.
    pub(super) async fn done(&self, method: &str, path: &str, body: Value) -> String {
        let upid = self.call(method, path, body).await.text();
        self.task(&upid).await
    }

    pub(super) async fn factory(&self, method: &str, path: &str, body: &str) -> Reply {
        let request = Request::builder().method(method).uri(path).header("Host", "factory.talos.dev");
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        self.send("factory.talos.dev", 443, request).await.unwrap()
    }

    /// Brings a Talos image onto pve1; gives its volume.
    pub(super) async fn image(&self) -> String {
        let schematic =
            "customization: {systemExtensions: {officialExtensions: [siderolabs/qemu-guest-agent]}}";
        let posted = self.factory("POST", "/schematics", schematic).await;
        assert_eq!(posted.status, 201, "{posted:?}");
        let id = posted.json()["id"].as_str().unwrap().to_owned();
        let url = format!("https://factory.talos.dev/image/{id}/v1.13.9/nocloud-amd64.qcow2");
        let wish = json!({"url": url, "content": "import", "filename": "talos.qcow2"});
        assert_eq!(self.done("POST", "/nodes/pve1/storage/local/download-url", wish).await, "OK");
        "local:import/talos.qcow2".to_owned()
    }

    pub(super) async fn talos_vm(&self, vmid: u32) -> String {
        let image = self.image().await;
        let wish = json!({
            "vmid": vmid, "name": "cp-1", "memory": 4096, "cores": 2, "scsihw": "virtio-scsi-single", "agent": "1",
            "scsi0": format!("local-lvm:0,import-from={image},discard=on,iothread=1,ssd=1"),
            "ide2": "local-lvm:cloudinit", "ipconfig0": "ip=10.25.150.11/24,gw=10.25.150.1",
            "net0": "virtio,bridge=vmbr0", "serial0": "socket", "boot": "order=scsi0", "tags": "talos",
            "smbios1": "uuid=0f8c1b1e-8d3f-5b6a-9b7c-2b1d4c5e6f70",
        });
        self.done("POST", "/nodes/pve1/qemu", wish).await
    }
}
