//! Keys and certificates that only administrators see: those of the configuration, as Talos shows them.

use base64::Engine as _;
use serde_json::{Value, json};

use super::{Resource, View};

pub(super) fn of(view: &View<'_>, kind: &str) -> Option<Vec<Resource>> {
    let settings = &view.node()?.settings;
    let text = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
    let pair = |crt: &str, key: Option<&str>| -> Value {
        match key {
            Some(key) => json!({"crt": text(crt), "key": text(key)}),
            None => json!({"crt": text(crt)}),
        }
    };
    let (os, kubernetes) = (&settings.talos_ca, &settings.cluster_ca);
    // The issuing authority first, then those that the configuration accepts besides.
    let accepted: Vec<Value> = std::iter::once(os.crt.clone())
        .chain(settings.accepted())
        .map(|crt| json!({"crt": text(&crt)}))
        .collect();
    let is_address = |name: &&String| name.parse::<std::net::IpAddr>().is_ok();
    match kind {
        "OSRootSecrets.secrets.talos.dev" => {
            let addresses: Vec<&String> = settings.cert_sans.iter().filter(is_address).collect();
            let names: Vec<&String> = settings.cert_sans.iter().filter(|name| !is_address(name)).collect();
            let tree = json!({
                "issuingCA": pair(&os.crt, os.key.as_deref()), "acceptedCAs": accepted,
                "certSANIPs": addresses, "certSANDNSNames": names, "token": settings.token,
            });
            Some(vec![Resource::new("os", "secrets.RootOSController", tree)])
        }
        "KubernetesRootSecrets.secrets.talos.dev" if view.node()?.is_control_plane() => {
            let tree = json!({
                "name": settings.cluster_name, "endpoint": settings.endpoint, "dnsDomain": "cluster.local",
                "issuingCA": pair(&kubernetes.crt, kubernetes.key.as_deref()),
                "acceptedCAs": [{"crt": text(&kubernetes.crt)}],
            });
            Some(vec![Resource::new("k8s", "secrets.RootKubernetesController", tree)])
        }
        "ApiCertificates.secrets.talos.dev" => {
            let (server, key) = view.machines.shown_certificate(view.vmid)?;
            let server = pair(&server, Some(&key));
            let mut tree = json!({
                "acceptedCAs": accepted, "server": server, "skipVerifyingClientCert": false,
            });
            if view.node()?.is_control_plane() {
                tree["client"] = tree["server"].clone();
            }
            Some(vec![Resource::new("api", "secrets.APIController", tree)])
        }
        _ => None,
    }
}
