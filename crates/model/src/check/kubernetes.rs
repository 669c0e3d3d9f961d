//! Kubernetes' own settings: CNI plugin, certificates, mounts, registries, log-in.

use crate::diagnostic::{Diagnostic, Path, codes};
use crate::forms;
use crate::spec::{Cni, CniName, Spec};

pub(super) fn check(spec: &Spec, found: &mut Vec<Diagnostic>) {
    let kubernetes = &spec.kubernetes;
    let path = |key: &str| Path::of(&["kubernetes", key]);
    cni(spec, found);
    for (index, san) in kubernetes.cert_sans.iter().enumerate() {
        let address = san.parse::<std::net::IpAddr>().is_ok();
        if !address && !forms::is_dns_name(san.strip_prefix("*.").unwrap_or(san)) {
            let problem = Diagnostic::error(codes::BAD_NAME, format!("`{san}` cannot be in a certificate"));
            let problem = problem.at(path("cert_sans").index(index), "");
            found.push(problem.help("give a host name or an address, without a scheme or port"));
        }
    }
    for (index, mount) in kubernetes.extra_mounts.iter().enumerate() {
        let path = path("extra_mounts").index(index);
        let ends = [("source", Some(&mount.source)), ("destination", mount.destination.as_ref())];
        for (key, text) in ends {
            if let Some(text) = text.filter(|text| !text.starts_with('/') || text.contains("/../")) {
                let problem =
                    Diagnostic::error(codes::BAD_MOUNT, format!("`{text}` is not a folder of a node"));
                found.push(problem.at(path.key(key), "").help("give the whole path, from `/` on"));
            }
        }
    }
    for (registry, mirror) in &kubernetes.registry_mirrors {
        let path = path("registry_mirrors").key(registry);
        if registry != "*" && !forms::is_registry(registry) {
            let problem = Diagnostic::error(codes::BAD_URL, format!("`{registry}` cannot be a registry"));
            found.push(problem.at_key(path.clone(), "").help("write its name, for example `docker.io`"));
        }
        if mirror.endpoints.is_empty() {
            let message = format!("the mirror of `{registry}` has no endpoint");
            let problem = Diagnostic::error(codes::BAD_URL, message).at_key(path.clone(), "");
            found.push(problem.help("add `endpoints: [https://HOST]`"));
        }
        for (index, url) in mirror.endpoints.iter().enumerate() {
            if !forms::is_url(url, &["https", "http"]) {
                let problem =
                    Diagnostic::error(codes::BAD_URL, format!("`{url}` cannot be a registry's URL"));
                found.push(
                    problem.at(path.key("endpoints").index(index), "").help("write `https://HOST/PATH`"),
                );
            }
        }
    }
    if let Some(oidc) = kubernetes.oidc.as_ref().filter(|oidc| !forms::is_url(&oidc.issuer, &["https"])) {
        let message = format!("`{}` cannot be an OpenID issuer", oidc.issuer);
        let problem = Diagnostic::error(codes::BAD_URL, message).at(path("oidc").key("issuer"), "");
        found.push(problem.help("write its URL, which starts with `https://`"));
    }
}

/// Options that belong to another plug-in are refused, because they would have no effect.
fn cni(spec: &Spec, found: &mut Vec<Diagnostic>) {
    let kubernetes = &spec.kubernetes;
    let path = Path::of(&["kubernetes", "cni"]);
    let details = kubernetes.cni.details();
    let misplaced = [
        ("version", details.version.is_some(), CniName::Cilium),
        ("values", !details.values.is_empty(), CniName::Cilium),
        ("values_file", details.values_file.is_some(), CniName::Cilium),
        ("urls", !details.urls.is_empty(), CniName::Custom),
    ];
    for (key, given, of) in misplaced {
        if given && details.name != of {
            let whose = if of == CniName::Cilium { "cilium" } else { "custom" };
            let problem =
                Diagnostic::error(codes::CNI_OPTIONS, format!("`{key}` has an effect with `{whose}` only"));
            let problem = problem.at_key(path.key(key), "").at(path.key("name"), "");
            found.push(problem.help(format!("use `name: {whose}`, or leave `{key}` out")));
        }
    }
    if details.name == CniName::Custom && details.urls.is_empty() {
        let problem = Diagnostic::error(codes::CNI_OPTIONS, "a custom CNI plugin needs `urls`");
        found.push(problem.at(path.clone(), "").help("add `urls: [https://…]`, or use `none`"));
    }
    for (index, url) in
        details.urls.iter().enumerate().filter(|(_, url)| !forms::is_url(url, &["https", "http"]))
    {
        let problem = Diagnostic::error(codes::BAD_URL, format!("`{url}` cannot be the URL of a manifest"));
        found.push(problem.at(path.key("urls").index(index), "").help("write `https://HOST/PATH`"));
    }
    if !kubernetes.kube_proxy && details.name == CniName::Flannel {
        let written = matches!(kubernetes.cni, Cni::Details(_));
        let problem =
            Diagnostic::error(codes::NO_PROXY, "without kube-proxy, services do not work with flannel");
        let problem = problem.at(Path::of(&["kubernetes", "kube_proxy"]), "");
        let problem = problem.at(if written { path.key("name") } else { path }, "");
        found.push(
            problem
                .help("use a plug-in that replaces it, for example `cni: cilium`, or leave `kube_proxy` on"),
        );
    }
}
