//! Puts credentials into Kubernetes for what runs there: an account of its own in Proxmox, or what the file refers to.
//!
//! Proxmox tells the secret of a token only once. So a token whose Secret never reached Kubernetes is replaced by a new
//! one, and a Secret that is there is left as it is. An account that was made here carries the cluster's owner id in its comment,
//! and so does its token; only by that may either be removed again.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use model::blueprint::Blueprint;
use model::holder::{self, Account, Holder};
use model::mark::Mark;
use model::spec::GitOpsEngine;
use pve::{Grant, NewToken};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use crate::context::{Context, Done};
use crate::error::{Error, Kind, Result, hint};
use crate::kubernetes::Kubernetes;

pub(super) async fn run(context: &Context, holder: Holder) -> Result<Done> {
    let blueprint = &context.snapshot.blueprint;
    let kubernetes =
        Kubernetes::new(&context.systems, &blueprint.endpoint, &context.snapshot.access()?.kubernetes)?;
    let place = holder.secret(blueprint);
    if kubernetes.has_secret(&place).await? {
        return Ok(Done::default());
    }
    let secret = match (holder.reference(blueprint), holder.account(blueprint)) {
        (Some(reference), _) => context.snapshot.referenced(reference)?,
        (None, Some(account)) => make_account(context, &account, holder).await?,
        (None, None) => {
            let what = format!("the file says nothing about the credentials of {}", holder.title());
            return Err(Error::new(Kind::Refused, what));
        }
    };
    let (data, labels) = match holder {
        Holder::ProxmoxCcm | Holder::ProxmoxCsi => (for_proxmox(blueprint, &secret)?, json!({})),
        Holder::Gitops => for_git(blueprint, &secret),
    };
    if place.namespace != "kube-system" {
        let namespace = namespace(&place.namespace, holder);
        kubernetes.apply(&namespace).await?;
    }
    let data: Map<String, Value> =
        data.into_iter().map(|(key, text)| (key.to_owned(), BASE64_STANDARD.encode(text).into())).collect();
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": { "name": place.name, "namespace": place.namespace, "labels": labels },
        "data": data,
    });
    kubernetes.apply(&object).await?;
    Ok(Done::default())
}

/// A namespace. The storage driver's pods mount disks of the machine, which Kubernetes allows only where it is told to.
fn namespace(name: &str, holder: Holder) -> Value {
    let labels = match holder {
        Holder::ProxmoxCsi => json!({ "pod-security.kubernetes.io/enforce": "privileged" }),
        Holder::ProxmoxCcm | Holder::Gitops => json!({}),
    };
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } })
}

/// Role, user, right and token, each made if it is missing.
async fn make_account(context: &Context, account: &Account, holder: Holder) -> Result<SecretString> {
    let pve = &context.systems.pve;
    let failed = |error: pve::Error| {
        let what = format!("could not create the account {} for {}", account.user, holder.title());
        Error::systems(what).hint(hint(&error)).because(error)
    };
    let us = Mark::owner_of(context.snapshot.cluster_id()?);
    let users = pve.users().await.map_err(failed)?;
    let there = users.iter().find(|user| user.name == account.user);
    if there.and_then(|user| holder::owner(&user.comment)).is_some_and(|owner| owner != us) {
        let what =
            format!("the account {} was created for another cluster in the same Proxmox", account.user);
        let hint = format!("name another one with `manifests.{}.user` in the file", holder.key());
        return Err(Error::new(Kind::Refused, what).hint(hint));
    }
    let tokens = match there {
        Some(_) => pve.tokens(&account.user).await.map_err(failed)?,
        None => vec![],
    };
    let old = tokens.iter().find(|token| token.name == account.token);
    let is_ours = |comment: &str| holder::owner(comment) == Some(us);
    let may_go =
        |token: &pve::UserToken| is_ours(&token.comment) || there.is_some_and(|user| is_ours(&user.comment));
    if old.is_some_and(|token| !may_go(token)) {
        let (what, hint) = holder.token_in_the_way(account);
        return Err(Error::new(Kind::Refused, what).hint(hint));
    }
    let roles = pve.roles().await.map_err(failed)?;
    match roles.iter().find(|role| role.name == account.role) {
        None => pve.create_role(&account.role, account.privileges).await.map_err(failed)?,
        Some(role) => {
            let has = |privilege: &&&str| role.privileges.iter().any(|have| have == **privilege);
            let lacks: Vec<&str> = account.privileges.iter().filter(|p| !has(p)).copied().collect();
            if !lacks.is_empty() {
                pve.add_to_role(&account.role, &lacks).await.map_err(failed)?;
            }
        }
    }
    let comment = holder::comment(&context.snapshot.blueprint.cluster, us);
    match old {
        Some(_) => pve.delete_token(&account.user, account.token).await.map_err(failed)?,
        None if there.is_none() => pve.create_user(&account.user, &comment).await.map_err(failed)?,
        None => {}
    }
    let (user, name) = (account.user.clone(), account.token.to_owned());
    let request = NewToken { user, name, separated: true, comment };
    let token = pve.create_token(&request).await.map_err(failed)?;
    let grant = Grant {
        path: "/".to_owned(),
        role: account.role.clone(),
        user: account.user.clone(),
        token: format!("{}!{}", account.user, account.token),
        propagate: true,
    };
    pve.grant(&grant).await.map_err(failed)?;
    Ok(token.reveal())
}

/// Removes an account, if it is still the one that was made for this cluster, and then its role, if no other account has it.
pub(super) async fn remove_account(
    context: &Context,
    holder: Holder,
    user: &str,
    role: Option<&str>,
) -> Result<Done> {
    let pve = &context.systems.pve;
    let failed = |error: pve::Error| {
        let what = format!("could not remove the account {user} of {}", holder.title());
        Error::systems(what).hint(hint(&error)).because(error)
    };
    let us = Mark::owner_of(context.snapshot.cluster_id()?);
    let users = pve.users().await.map_err(failed)?;
    if let Some(there) = users.iter().find(|there| there.name == user) {
        if holder::owner(&there.comment) != Some(us) {
            let what = format!("the account {user} does not say any more that it was made for this cluster");
            let hint = "look at its comment in Proxmox; run the command again to leave it where it is";
            return Err(Error::new(Kind::Refused, what).hint(hint));
        }
        pve.delete_user(user).await.map_err(failed)?;
    }
    let Some(role) = role else { return Ok(Done::default()) };
    if !pve.roles().await.map_err(failed)?.iter().any(|there| there.name == role) {
        return Ok(Done::default());
    }
    if let Some(other) = pve.granted().await.map_err(failed)?.iter().find(|granted| granted.role == role) {
        let warning = format!("the role {role} stays in Proxmox, because {} has it, too", other.whom);
        return Ok(Done { warnings: vec![warning] });
    }
    pve.delete_role(role).await.map_err(failed)?;
    Ok(Done::default())
}

type Entries = Vec<(&'static str, String)>;

/// What cloud provider and storage driver read: where Proxmox is, and the token.
fn for_proxmox(blueprint: &Blueprint, token: &SecretString) -> Result<Entries> {
    let refused = |what: &str| Error::new(Kind::Input, what.to_owned());
    let Some((id, secret)) = token.expose_secret().trim().split_once('=') else {
        return Err(refused("the token for what runs in the cluster is not one")
            .hint("it looks like `user@realm!name=secret`"));
    };
    let api = blueprint.options.proxmox_api.as_ref();
    let api = api.ok_or_else(|| refused("the file does not say where Proxmox is"))?;
    let clusters = json!({ "clusters": [{
        "url": format!("{}/api2/json", api.url),
        "insecure": !api.verified,
        "token_id": id,
        "token_secret": secret,
        "region": holder::region(blueprint),
    }] });
    // JSON is YAML, too.
    Ok(vec![("config.yaml", clusters.to_string())])
}

/// What the GitOps engine reads a repository with: a key, a user and password, or a token.
fn for_git(blueprint: &Blueprint, secret: &SecretString) -> (Entries, Value) {
    const END: &str = "-----END";
    let text = secret.expose_secret().trim();
    let gitops = blueprint.options.gitops.as_ref();
    let argo = gitops.is_some_and(|gitops| gitops.engine == GitOpsEngine::Argocd);
    let mut data: Entries = match text.find(END) {
        // Behind a key stand the lines by which the server is known.
        Some(at) => {
            let rest = text.get(at..).unwrap_or_default();
            let end = at + rest.find('\n').unwrap_or(rest.len());
            let (key, hosts) = text.split_at(end);
            let name = if argo { "sshPrivateKey" } else { "identity" };
            let mut data = vec![(name, format!("{key}\n"))];
            if !hosts.trim().is_empty() && !argo {
                data.push(("known_hosts", format!("{}\n", hosts.trim())));
            }
            data
        }
        None => {
            let (user, password) = text.split_once(':').unwrap_or(("git", text));
            vec![("username", user.to_owned()), ("password", password.to_owned())]
        }
    };
    if !argo {
        return (data, json!({}));
    }
    data.push(("type", "git".to_owned()));
    data.push(("url", gitops.map(|gitops| gitops.repository.clone()).unwrap_or_default()));
    (data, json!({ "argocd.argoproj.io/secret-type": "repository" }))
}

#[cfg(test)]
mod tests {
    use model::diagnostic::Source;

    use super::*;

    fn blueprint(more: &str) -> Blueprint {
        let text = format!(
            "cluster: home\nversions: {{ talos: v1.13.9, kubernetes: v1.35.4 }}\n\
             network: {{ cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }}\n\
             pools: {{ control: {{ role: controlplane, count: 1 }}, work: {{ role: worker, count: 1 }} }}\n{more}"
        );
        let loaded = model::load::load(&[Source::new("cluster.yaml", text)])
            .unwrap_or_else(|failed| panic!("{:?}", failed.diagnostics));
        model::resolve::resolve(&loaded.spec, None, None).unwrap()
    }

    #[test]
    fn a_key_is_told_from_a_password() {
        let flux = blueprint(
            "proxmox: { endpoint: 'https://pve1:8006' }\ngitops: { engine: flux, repository: 'https://g.example/a.git' }\n",
        );
        let read = |blueprint: &Blueprint, text: &str| for_git(blueprint, &SecretString::from(text)).0;
        let own = |pairs: &[(&'static str, &str)]| {
            pairs.iter().map(|(key, text)| (*key, (*text).to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(read(&flux, "me:p:q\n"), own(&[("username", "me"), ("password", "p:q")]));
        assert_eq!(read(&flux, "t0k3n"), own(&[("username", "git"), ("password", "t0k3n")]));
        let key = "-----BEGIN K-----\nabc\n-----END K-----\ng.example ssh-ed25519 AAAA\n";
        let parts = [
            ("identity", "-----BEGIN K-----\nabc\n-----END K-----\n"),
            ("known_hosts", "g.example ssh-ed25519 AAAA\n"),
        ];
        assert_eq!(read(&flux, key), own(&parts));
        let argo = blueprint(
            "proxmox: { endpoint: 'https://pve1:8006' }\ngitops: { engine: argocd, repository: 'https://g.example/a.git' }\n",
        );
        let (data, labels) = for_git(&argo, &SecretString::from("t0k3n"));
        assert!(data.contains(&("url", "https://g.example/a.git".to_owned())), "where it is for");
        assert_eq!(labels["argocd.argoproj.io/secret-type"], "repository");
    }

    #[test]
    fn what_is_no_token_is_refused_without_repeating_it() {
        let blueprint = blueprint("proxmox: { endpoint: 'https://pve1:8006/', insecure: true }\n");
        let good = for_proxmox(&blueprint, &SecretString::from("a@pve!b=cd")).unwrap();
        let said: Value = serde_json::from_str(&good[0].1).unwrap();
        let wanted = json!({ "clusters": [{
            "insecure": true, "region": "home", "token_id": "a@pve!b", "token_secret": "cd",
            "url": "https://pve1:8006/api2/json",
        }] });
        assert_eq!(said, wanted);
        let error = for_proxmox(&blueprint, &SecretString::from("hunter2")).unwrap_err();
        assert!(!error.causes().join(" ").contains("hunter2"));
    }
}
