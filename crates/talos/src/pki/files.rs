//! The two files that people take away: talosconfig and kubeconfig.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::Identity;
use crate::yaml::{Map, Value, map};

/// A talosconfig whose one context is named after the cluster.
#[must_use]
pub fn talosconfig(cluster: &str, endpoints: &[String], nodes: &[String], identity: &Identity) -> String {
    let mut context = map([("endpoints", Value::texts(endpoints))]);
    if !nodes.is_empty() {
        context.insert("nodes", Value::texts(nodes));
    }
    context.insert("ca", STANDARD.encode(identity.ca_pem()));
    context.insert("crt", STANDARD.encode(identity.certificate_pem()));
    context.insert("key", STANDARD.encode(identity.key_pem().expose()));
    context.insert("cluster", cluster);
    let file = map([("context", cluster.into()), ("contexts", map([(cluster, context.into())]).into())]);
    file.to_yaml()
}

/// A kubeconfig with one cluster, one user and one context, named as Talos itself names them.
#[must_use]
pub fn kubeconfig(cluster: &str, server: &str, identity: &Identity) -> String {
    let admin = format!("admin@{cluster}");
    let named = |name: &str, what: &str, inner: Map| {
        Value::List(vec![map([("name", name.into()), (what, inner.into())]).into()])
    };
    let file = map([
        ("apiVersion", "v1".into()),
        ("kind", "Config".into()),
        (
            "clusters",
            named(
                cluster,
                "cluster",
                map([
                    ("server", server.into()),
                    ("certificate-authority-data", STANDARD.encode(identity.ca_pem()).into()),
                ]),
            ),
        ),
        (
            "users",
            named(
                &admin,
                "user",
                map([
                    ("client-certificate-data", STANDARD.encode(identity.certificate_pem()).into()),
                    ("client-key-data", STANDARD.encode(identity.key_pem().expose()).into()),
                ]),
            ),
        ),
        (
            "contexts",
            named(
                &admin,
                "context",
                map([
                    ("cluster", cluster.into()),
                    ("namespace", "default".into()),
                    ("user", admin.as_str().into()),
                ]),
            ),
        ),
        ("current-context", admin.as_str().into()),
    ]);
    file.to_yaml()
}
