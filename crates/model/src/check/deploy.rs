//! Manifests, GitOps and backups.

use crate::diagnostic::{Diagnostic, Path, codes};
use crate::forms;
use crate::spec::{Backup, Reference, Spec};

pub(super) fn check(spec: &Spec, found: &mut Vec<Diagnostic>) {
    manifests(spec, found);
    if let Some(backup) = &spec.backup {
        backups(backup, found);
    }
    if let Some(gitops) = &spec.gitops {
        let path = |key: &str| Path::of(&["gitops", key]);
        let ssh = gitops.repository.strip_prefix("ssh://git@").or(gitops.repository.strip_prefix("git@"));
        let plain = forms::is_url(&gitops.repository, &["https", "http"]);
        if !plain && !ssh.is_some_and(|rest| rest.contains(['/', ':']) && !rest.contains('@')) {
            let message = format!("`{}` cannot be a Git repository", gitops.repository);
            let problem = Diagnostic::error(codes::BAD_URL, message).at(path("repository"), "");
            found.push(problem.help("write `https://HOST/PATH.git` or `ssh://git@HOST/PATH.git`"));
        }
        secret(gitops.credentials.as_ref(), path("credentials"), found);
        let namespaces =
            [("namespace", &gitops.namespace), ("destination_namespace", &gitops.destination_namespace)];
        for (key, name) in namespaces {
            if let Some(name) = name.as_ref().filter(|name| !forms::is_dns_label(name)) {
                found.push(bad_namespace(name, path(key)));
            }
        }
    }
}

fn backups(backup: &Backup, found: &mut Vec<Diagnostic>) {
    let path = |key: &str| Path::of(&["backup", key]);
    // Nothing that the file asks for is left out without a word. A key goes from here when it is implemented.
    if backup.schedule.is_some() {
        let message =
            "this version does not implement `backup.schedule`: the cluster makes no backups by itself";
        let problem = Diagnostic::error(codes::NOT_IMPLEMENTED, message).at_key(path("schedule"), "");
        found.push(
            problem.help(
                "take it out of the file, and run `talosmith backup create` from cron or a systemd timer",
            ),
        );
    }
    for (index, text) in
        backup.recipients.iter().enumerate().filter(|(_, text)| !forms::is_age_recipient(text))
    {
        let path = path("recipients").index(index);
        // The value may be a secret key, so it is not repeated.
        let (code, message) = match text.trim().to_ascii_uppercase().starts_with("AGE-SECRET-KEY-") {
            true => (codes::SECRET_IN_FILE, "this is the secret key of an age identity".to_owned()),
            false => (codes::BAD_RECIPIENT, format!("`{path}` is not an age public key")),
        };
        found.push(
            Diagnostic::error(code, message)
                .at(path, "")
                .help("write the public key, which starts with `age1`; `age-keygen -y FILE` prints it"),
        );
    }
}

fn manifests(spec: &Spec, found: &mut Vec<Diagnostic>) {
    let manifests = &spec.manifests;
    let path = |key: &str| Path::of(&["manifests", key]);
    for (index, url) in
        manifests.urls.iter().enumerate().filter(|(_, url)| !forms::is_url(url, &["https", "http"]))
    {
        let problem = Diagnostic::error(codes::BAD_URL, format!("`{url}` cannot be the URL of a manifest"));
        found.push(problem.at(path("urls").index(index), "").help("write `https://HOST/PATH`"));
    }
    for (name, chart) in &manifests.helm {
        let path = path("helm").key(name);
        if !forms::is_dns_label(name) {
            let problem =
                Diagnostic::error(codes::BAD_NAME, format!("`{name}` cannot be the name of a release"));
            found.push(problem.at_key(path.clone(), "").help("use lower case letters, digits and `-`"));
        }
        if !forms::is_url(&chart.repository, &["https", "http", "oci"]) {
            let problem = Diagnostic::error(
                codes::BAD_URL,
                format!("`{}` cannot be a repository of charts", chart.repository),
            );
            found.push(
                problem.at(path.key("repository"), "").help("write `https://HOST/PATH` or `oci://HOST/PATH`"),
            );
        }
        if let Some(name) = chart.namespace.as_ref().filter(|name| !forms::is_dns_label(name)) {
            found.push(bad_namespace(name, path.key("namespace")));
        }
    }
    for (key, one) in [("proxmox_ccm", &manifests.proxmox_ccm), ("proxmox_csi", &manifests.proxmox_csi)] {
        let Some(one) = one else { continue };
        secret(one.token.as_ref(), path(key).key("token"), found);
        if let Some(user) = one
            .user
            .as_ref()
            .filter(|user| user.split_once('@').is_none_or(|(n, r)| n.is_empty() || r.is_empty()))
        {
            let problem = Diagnostic::error(codes::BAD_NAME, format!("`{user}` cannot be a Proxmox user"));
            found.push(
                problem.at(path(key).key("user"), "").help("write `NAME@REALM`, for example `csi@pve`"),
            );
        }
    }
    if let (Some(ccm), Some(csi)) = (&manifests.proxmox_ccm, &manifests.proxmox_csi)
        && let (Some(user), None, None) = (&ccm.user, &ccm.token, &csi.token)
        && csi.user.as_ref() == Some(user)
    {
        let message = format!("`{user}` cannot be the account of both");
        let problem =
            Diagnostic::error(codes::ACCOUNT_TWICE, message).at(path("proxmox_csi").key("user"), "");
        found.push(
            problem
                .at(path("proxmox_ccm").key("user"), "")
                .help("give each a user of its own, or leave `user` out: then each has one"),
        );
    }
}

/// A secret is named by where it is; the value is never repeated, because it is most likely the secret.
fn secret(text: Option<&String>, path: Path, found: &mut Vec<Diagnostic>) {
    if text.is_some_and(|text| text.parse::<Reference>().is_err()) {
        let message = format!("`{path}` must say where the secret is, not what it is");
        let problem = Diagnostic::error(codes::SECRET_IN_FILE, message).at(path, "");
        found.push(problem.help(
            "write `env:NAME`, `file:PATH` or `cmd:COMMAND`; a secret that was committed should be renewed",
        ));
    }
}

fn bad_namespace(name: &str, path: Path) -> Diagnostic {
    Diagnostic::error(codes::BAD_NAME, format!("`{name}` cannot be a namespace"))
        .at(path, "")
        .help("use lower case letters, digits and `-`, 63 characters at most")
}
