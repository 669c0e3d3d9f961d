//! The roles of a cluster, who gets them where, and what an earlier version gave instead.

use std::collections::{BTreeMap, BTreeSet};

use model::rights::{self, RoleKind, SHARED_ROLES, SharedEntry};
use pve::{Client, Grant, Granted, Revocation, Role};

use super::{Task, Whom, failed};
use crate::error::Result;

/// Roles and access control lists as they are.
pub(super) struct Lists {
    roles: Vec<Role>,
    granted: Vec<Granted>,
    /// Whether every list is seen. Otherwise nothing is known about who else has a role.
    complete: bool,
    /// Whether the user has tokens beside ours, which have no more than the user has.
    other_tokens: bool,
}

impl Lists {
    pub(super) async fn read(pve: &Client, other_tokens: bool) -> Result<Self> {
        let roles = pve.roles().await.map_err(failed)?;
        let granted = pve.granted().await.map_err(failed)?;
        let permissions = pve.permissions().await.map_err(failed)?;
        let complete = permissions.0.get("/").and_then(|all| all.get("Permissions.Modify")) == Some(&true);
        Ok(Self { roles, granted, complete, other_tokens })
    }

    fn role(&self, name: &str) -> Option<&Role> {
        self.roles.iter().find(|role| role.name == name)
    }

    /// Whether a role may be changed for this cluster: it is new, or no other user, token or group has it.
    fn is_own(&self, name: &str, whom: &Whom) -> bool {
        let token = whom.token_id();
        let mut holders = self.granted.iter().filter(|line| line.role == name);
        self.role(name).is_none()
            || (self.complete && holders.all(|line| line.whom == whom.user || line.whom == token))
    }

    /// What to do so that the cluster has its own roles at all its places.
    pub(super) fn tasks(
        &self,
        cluster: &str,
        needs: &[rights::Need],
        whom: &Whom,
        token_kept: bool,
    ) -> (Vec<Task>, Vec<Task>) {
        let wanted = rights::roles(needs);
        let names: BTreeMap<RoleKind, String> =
            wanted.keys().map(|kind| (*kind, kind.own(cluster, |name| self.is_own(name, whom)))).collect();
        let mut roles = vec![];
        for (kind, privileges) in &wanted {
            let name = names[kind].clone();
            match self.role(&name) {
                None => roles.push(Task::MakeRole(name, privileges.clone())),
                Some(role) => {
                    let has = |privilege: &&&str| role.privileges.iter().any(|known| known == **privilege);
                    let missing: BTreeSet<&'static str> =
                        privileges.iter().filter(|privilege| !has(privilege)).copied().collect();
                    if !missing.is_empty() {
                        roles.push(Task::AddToRole(name, missing));
                    }
                }
            }
        }
        let places = rights::places(needs);
        let mut grants = self.grants(&places, &names, whom, token_kept);
        grants.extend(self.revocations(&places, &wanted, whom, token_kept));
        (roles, grants)
    }

    /// What to do so that nothing of the cluster's own roles is left, and whether the token has no other rights then. A role that
    /// another user, token or group holds belongs to another cluster of the same name, and stays.
    pub(super) fn removal(&self, cluster: &str, whom: &Whom) -> (Vec<Task>, bool) {
        let token = whom.token_id();
        let mut tasks = vec![];
        let mut gone = BTreeSet::new();
        for kind in [RoleKind::Work, RoleKind::Cluster, RoleKind::Accounts] {
            let name = kind.name(cluster);
            let numbered = format!("{name}.");
            let of_kind = |role: &&Role| role.name == name || role.name.starts_with(&numbered);
            for role in self.roles.iter().filter(of_kind).filter(|role| self.is_own(&role.name, whom)) {
                for line in self.granted.iter().filter(|line| line.role == role.name) {
                    tasks.push(Task::Revoke(Revocation {
                        path: line.path.clone(),
                        role: line.role.clone(),
                        whom: line.whom.clone(),
                        is_token: line.whom == token,
                    }));
                }
                tasks.push(Task::DeleteRole(role.name.clone()));
                gone.insert(role.name.as_str());
            }
        }
        let others = |line: &&Granted| line.whom == token && !gone.contains(line.role.as_str());
        let free = self.complete && !self.granted.iter().any(|line| others(&line));
        (tasks, free)
    }

    fn grants(
        &self,
        places: &BTreeSet<rights::Place>,
        names: &BTreeMap<RoleKind, String>,
        whom: &Whom,
        token_kept: bool,
    ) -> Vec<Task> {
        let token = whom.token_id();
        let has = |place: &rights::Place, whom: &str| {
            self.granted.iter().any(|line| {
                line.path == place.path
                    && line.role == names[&place.role]
                    && line.whom == whom
                    && (line.propagate || !place.propagate)
            })
        };
        let missing =
            places.iter().filter(|place| !has(place, &whom.user) || !token_kept || !has(place, &token));
        let grant = |place: &rights::Place| Grant {
            path: place.path.clone(),
            role: names[&place.role].clone(),
            user: whom.user.clone(),
            token: token.clone(),
            propagate: place.propagate,
        };
        missing.map(|place| Task::Grant(grant(place))).collect()
    }

    /// Entries of an earlier version whose place the cluster's own roles take.
    fn revocations(
        &self,
        places: &BTreeSet<rights::Place>,
        wanted: &BTreeMap<RoleKind, BTreeSet<&'static str>>,
        whom: &Whom,
        token_kept: bool,
    ) -> Vec<Task> {
        let token = whom.token_id();
        let mut tasks = vec![];
        for line in self.granted.iter().filter(|line| SHARED_ROLES.contains(&line.role.as_str())) {
            let is_user = line.whom == whom.user;
            // Other tokens of the user have no more than the user has.
            if !(line.whom == token && token_kept || is_user && !self.other_tokens) {
                continue;
            }
            let here = places.iter().filter(|place| place.path == line.path);
            let here: Vec<_> = here.filter(|place| place.propagate || !line.propagate).collect();
            let shared = self
                .granted
                .iter()
                .any(|other| other.role == line.role && other.whom != token && other.whom != whom.user);
            let privileges = self.role(&line.role).map(|role| role.privileges.as_slice()).unwrap_or_default();
            let entry = SharedEntry {
                privileges: privileges.iter().map(String::as_str).collect(),
                own: here.iter().flat_map(|place| &wanted[&place.role]).copied().collect(),
                shared,
            };
            if rights::is_superseded(&entry) {
                tasks.push(Task::Revoke(Revocation {
                    path: line.path.clone(),
                    role: line.role.clone(),
                    whom: line.whom.clone(),
                    is_token: !is_user,
                }));
            }
        }
        tasks
    }
}
