//! How Proxmox and the Image Factory are reached, and how they are trusted.

use crate::diagnostic::{Diagnostic, Path, codes};
use crate::draft::Draft;
use crate::forms;
use crate::spec::{Reference, Spec};

pub(super) fn check(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let spec = draft.spec;
    let at = |key: &str| Path::of(&["proxmox", key]);
    endpoints(spec, draft.all_external(), found);
    if spec.proxmox.token.as_ref().is_some_and(|token| token.parse::<Reference>().is_err()) {
        // The value is never repeated here: it is most likely the secret.
        found.push(
            Diagnostic::error(codes::SECRET_IN_FILE, "`proxmox.token` must say where the token is, not what it is")
                .at(at("token"), "")
                .help("write `env:NAME`, `file:PATH` or `cmd:COMMAND`; a token that was committed should be renewed"),
        );
    }
    trust(spec, found);
    if let Some(id) = spec.proxmox.record.filter(|id| !forms::is_vmid(*id)) {
        found.push(bad_vmid(id, at("record")));
    }
}

fn endpoints(spec: &Spec, external: bool, found: &mut Vec<Diagnostic>) {
    let proxmox = &spec.proxmox;
    let path = |key: &str| Path::of(&["proxmox", key]);
    match (&proxmox.endpoint, proxmox.endpoints.is_empty()) {
        (Some(_), false) => found.push(
            Diagnostic::error(
                codes::ENDPOINT_CHOICE,
                "`proxmox.endpoint` and `proxmox.endpoints` are both given",
            )
            .at_key(path("endpoint"), "")
            .at_key(path("endpoints"), "")
            .help("put all of them in `endpoints`"),
        ),
        (None, true) if !external => found.push(
            Diagnostic::error(codes::ENDPOINT_CHOICE, "there is no Proxmox endpoint")
                .at_key(Path::of(&["proxmox"]), "")
                .help("add `endpoint: https://HOST:8006`"),
        ),
        _ => {}
    }
    let several = proxmox.endpoints.iter().enumerate().map(|(i, url)| (path("endpoints").index(i), url));
    let one = proxmox.endpoint.iter().map(|url| (path("endpoint"), url));
    for (path, url) in one.chain(several).filter(|(_, url)| !forms::is_origin(url, &["https"])) {
        let problem = Diagnostic::error(codes::BAD_URL, format!("`{url}` cannot be a Proxmox endpoint"));
        found.push(problem.at(path, "").help("write `https://HOST:8006`"));
    }
    if let Some(url) = spec.endpoint.as_ref().filter(|url| !forms::is_origin(url, &["https"])) {
        let problem = Diagnostic::error(codes::BAD_URL, format!("`{url}` cannot be a Kubernetes endpoint"));
        found.push(problem.at(Path::of(&["endpoint"]), "").help("write `https://HOST:6443`"));
    }
}

fn trust(spec: &Spec, found: &mut Vec<Diagnostic>) {
    let proxmox = &spec.proxmox;
    let given = [
        (if proxmox.fingerprint.is_some() { "fingerprint" } else { "fingerprints" }, proxmox.is_pinned()),
        ("ca", proxmox.ca.is_some()),
        ("insecure", proxmox.insecure),
    ];
    let given: Vec<&str> = given.into_iter().filter(|(_, given)| *given).map(|(key, _)| key).collect();
    if given.len() > 1 {
        let message = format!("`proxmox` has `{}` at once", given.join("` and `"));
        let problem = Diagnostic::error(codes::TLS_CONTRADICTION, message);
        let problem = given.iter().fold(problem, |p, key| p.at_key(Path::of(&["proxmox", key]), ""));
        found
            .push(problem.help("keep one of them; a fingerprint or an authority is safe, `insecure` is not"));
    }
    let at = |key: &str| Path::of(&["proxmox", key]);
    let one = proxmox.fingerprint.iter().map(|pin| ("fingerprint".to_owned(), at("fingerprint"), pin));
    let several = proxmox.fingerprints.iter().enumerate();
    let several = several.map(|(i, pin)| (format!("fingerprints[{i}]"), at("fingerprints").index(i), pin));
    for (key, path, _) in one.chain(several).filter(|(_, _, pin)| !forms::is_fingerprint(pin)) {
        found.push(
            Diagnostic::error(
                codes::BAD_FINGERPRINT,
                format!("`proxmox.{key}` is not a SHA-256 fingerprint"),
            )
            .at(path, "")
            .help("copy it from the host's page in Proxmox: System, Certificates, `pve-ssl.pem`"),
        );
    }
}

pub(super) fn bad_vmid(id: u32, path: Path) -> Diagnostic {
    Diagnostic::error(codes::BAD_VMID, format!("{id} cannot be a VM id"))
        .at(path, "")
        .help("use a number from 100 to 999999999")
}
