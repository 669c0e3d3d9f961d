//! What runs in the cluster and is given credentials there: the cloud provider, the storage driver, GitOps.
//!
//! Credentials never become part of a machine's configuration. They are put into Kubernetes once it answers, each as one
//! Secret, and only where that Secret is missing: what is there is not looked into.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::blueprint::Blueprint;
use crate::spec::{GitOpsEngine, Integration};

/// Before the cluster's owner id in the comment of an account.
const OWNER: &str = "talosmith-owner:";

/// Where region and zone of a node stand.
pub const REGION: &str = "topology.kubernetes.io/region";

/// What is given credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holder {
    /// The cloud controller manager for Proxmox.
    ProxmoxCcm,
    /// The storage driver for Proxmox.
    ProxmoxCsi,
    /// The GitOps engine, which reads a repository.
    Gitops,
}

/// Where a Secret is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretPlace {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub name: String,
}

impl std::fmt::Display for SecretPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// An account in Proxmox for something that runs in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The role in Proxmox that the user has.
    pub role: String,
    /// What the role may do, everywhere.
    pub privileges: &'static [&'static str],
    /// The user, `name@realm`.
    pub user: String,
    /// Name of the user's token.
    pub token: &'static str,
    /// Whether the role's name is ours, and not one that the file names.
    pub own_role: bool,
}

/// What an account says of itself: for people, and whose it is.
#[must_use]
pub fn comment(cluster: &str, owner: Uuid) -> String {
    format!("for the Talos cluster {cluster}, managed by Talosmith; {OWNER} {owner}")
}

/// The cluster that an account was made for, as its comment says.
#[must_use]
pub fn owner(comment: &str) -> Option<Uuid> {
    comment.split_once(OWNER)?.1.trim().parse().ok()
}

impl Holder {
    /// Everyone that a cluster gives credentials to.
    #[must_use]
    pub fn of(blueprint: &Blueprint) -> Vec<Self> {
        let options = &blueprint.options;
        let gitops = options.gitops.as_ref().is_some_and(|gitops| gitops.credentials.is_some());
        let asked = [
            (options.manifests.proxmox_ccm.is_some(), Self::ProxmoxCcm),
            (options.manifests.proxmox_csi.is_some(), Self::ProxmoxCsi),
            (gitops, Self::Gitops),
        ];
        asked.into_iter().filter(|(asked, _)| *asked).map(|(_, holder)| holder).collect()
    }

    /// Its name for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::ProxmoxCcm => "the cloud controller manager",
            Self::ProxmoxCsi => "the storage driver",
            Self::Gitops => "GitOps",
        }
    }

    /// Its name in ids.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ProxmoxCcm => "proxmox-ccm",
            Self::ProxmoxCsi => "proxmox-csi",
            Self::Gitops => "gitops",
        }
    }

    /// Its key in the file, below `manifests`, or at the top for GitOps.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::ProxmoxCcm => "proxmox_ccm",
            Self::ProxmoxCsi => "proxmox_csi",
            Self::Gitops => "gitops",
        }
    }

    /// Where its credentials are kept. The first two are where their own manifests and charts look.
    #[must_use]
    pub fn secret(self, blueprint: &Blueprint) -> SecretPlace {
        let place = |namespace: &str, name: &str| SecretPlace {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        match self {
            Self::ProxmoxCcm => place("kube-system", "proxmox-cloud-controller-manager"),
            Self::ProxmoxCsi => place("csi-proxmox", "proxmox-csi-plugin"),
            Self::Gitops => place(&gitops_namespace(blueprint), "cluster-repository"),
        }
    }

    /// Where the file says that its credentials are found.
    #[must_use]
    pub fn reference(self, blueprint: &Blueprint) -> Option<&str> {
        match self.integration(blueprint) {
            Some(integration) => integration.token.as_deref(),
            None => blueprint.options.gitops.as_ref()?.credentials.as_deref(),
        }
    }

    fn integration(self, blueprint: &Blueprint) -> Option<&Integration> {
        match self {
            Self::ProxmoxCcm => blueprint.options.manifests.proxmox_ccm.as_ref(),
            Self::ProxmoxCsi => blueprint.options.manifests.proxmox_csi.as_ref(),
            Self::Gitops => None,
        }
    }

    /// Every account that is made for what runs in a cluster.
    pub fn accounts(blueprint: &Blueprint) -> impl Iterator<Item = (Self, Account)> {
        Self::of(blueprint).into_iter().filter_map(|holder| Some((holder, holder.account(blueprint)?)))
    }

    /// The account that is made for it, where the file names no token.
    #[must_use]
    pub fn account(self, blueprint: &Blueprint) -> Option<Account> {
        let integration = self.integration(blueprint).filter(|one| one.token.is_none())?;
        let (short, privileges): (_, &[&str]) = match self {
            Self::ProxmoxCcm => ("ccm", &["Sys.Audit", "VM.Audit"]),
            Self::ProxmoxCsi => (
                "csi",
                &[
                    "Datastore.Allocate",
                    "Datastore.AllocateSpace",
                    "Datastore.Audit",
                    "Sys.Audit",
                    "VM.Audit",
                    "VM.Config.Disk",
                ],
            ),
            Self::Gitops => return None,
        };
        let named = |given: &Option<String>, otherwise: String| given.clone().unwrap_or(otherwise);
        Some(Account {
            role: named(&integration.role, format!("{}-{short}", blueprint.cluster)),
            privileges,
            user: named(&integration.user, format!("{}-{short}@pve", blueprint.cluster)),
            token: "kubernetes",
            own_role: integration.role.is_none(),
        })
    }

    /// What to say where the user of its account has a token of that name which was not made for the cluster: what is wrong, and
    /// what to do.
    #[must_use]
    pub fn token_in_the_way(self, account: &Account) -> (String, String) {
        let Account { user, token, .. } = account;
        let what = format!(
            "the user {user} of {} has a token {token} already, which does not say that it was made for this cluster",
            self.title()
        );
        let hint = format!(
            "name another user with `manifests.{}.user` in the file; or, if that token is no longer needed, remove it with `pveum \
             user token remove {user} {token}`",
            self.key()
        );
        (what, hint)
    }

    /// What the operator's own token must be allowed to do for that account: path and privilege.
    #[must_use]
    pub fn needs(self, blueprint: &Blueprint) -> Vec<(String, &'static str)> {
        let Some(account) = self.account(blueprint) else { return vec![] };
        let realm = account.user.rsplit_once('@').map_or("pve", |(_, realm)| realm);
        vec![
            ("/".to_owned(), "Permissions.Modify"),
            ("/access".to_owned(), "Sys.Modify"),
            ("/access/groups".to_owned(), "User.Modify"),
            (format!("/access/realm/{realm}"), "Realm.AllocateUser"),
        ]
    }
}

/// The namespace of the GitOps engine.
#[must_use]
pub fn gitops_namespace(blueprint: &Blueprint) -> String {
    let gitops = blueprint.options.gitops.as_ref();
    let usual = match gitops.map(|gitops| gitops.engine) {
        Some(GitOpsEngine::Argocd) => "argocd",
        Some(GitOpsEngine::Flux) | None => "flux-system",
    };
    gitops.and_then(|gitops| gitops.namespace.clone()).unwrap_or_else(|| usual.to_owned())
}

/// The region that cloud provider and storage driver know the nodes by: what the nodes' labels say, else the cluster's name.
#[must_use]
pub fn region(blueprint: &Blueprint) -> &str {
    let labelled = blueprint.nodes.values().find_map(|node| node.labels.get(REGION));
    labelled.unwrap_or(&blueprint.cluster)
}
