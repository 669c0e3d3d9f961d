//! Accounts in Proxmox for what runs in the cluster: whose they are, and who takes them away.
//!
//! An account says in its comment which cluster it was made for. One that another cluster made is never used; one that says
//! nothing was made by a person and is never removed, nor is a token of it that says nothing. A role goes with the account only where its name is ours and no one else
//! has it.

use std::collections::BTreeSet;

use super::{Note, Refusal, RefusalCode};
use crate::blueprint::Blueprint;
use crate::holder::{Account, Holder};
use crate::mark::Mark;
use crate::observed::Observed;
use crate::step::{Action, Disruption, Step};

/// Seconds that removing an account usually takes.
const REMOVE: u32 = 2;

/// The account that would be made belongs to another cluster or to a person, whose token would be taken away.
pub(super) fn taken(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let Some(seen) = &observed.proxmox.accounts else { return vec![] };
    let us = blueprint.cluster_id.as_deref().map(Mark::owner_of);
    let has_secret =
        |holder: Holder| observed.kubernetes.secrets.contains(&holder.secret(blueprint).to_string());
    let in_the_way = Holder::accounts(blueprint)
        .filter(|(holder, account)| seen.foreign_tokens.contains(&account.user) && !has_secret(*holder))
        .map(|(holder, account)| {
            let (why, hint) = holder.token_in_the_way(&account);
            Refusal { code: RefusalCode::TakenAccount, why, hint }
        });
    Holder::accounts(blueprint)
        .filter(|(_, account)| {
            seen.users.get(&account.user).is_some_and(|owner| owner.is_some() && *owner != us)
        })
        .map(|(holder, account)| Refusal {
            code: RefusalCode::TakenAccount,
            why: format!(
                "the account {} of {} was created for another cluster in the same Proxmox",
                account.user,
                holder.title()
            ),
            hint: format!("name another one with `manifests.{}.user` in the file", holder.key()),
        })
        .chain(in_the_way)
        .collect()
}

/// What removes the accounts, and what to tell of those that stay.
pub(super) fn removal(blueprint: &Blueprint, observed: &Observed) -> (Vec<Step>, Vec<Note>) {
    let (mut steps, mut notes) = (vec![], vec![]);
    let us = blueprint.cluster_id.as_deref().map(Mark::owner_of);
    let mut told: BTreeSet<String> = BTreeSet::new();
    for (to, account) in Holder::accounts(blueprint) {
        let Account { user, role, own_role, .. } = account;
        let delete_role = format!("`pveum role delete {role}`");
        let by_hand = format!("`pveum user delete {user}` and {delete_role} remove it");
        let stays = match &observed.proxmox.accounts {
            None => Some(format!("the account {user} stays in Proxmox: {by_hand}")),
            Some(seen) if !seen.may_change => Some(format!(
                "the account {user} stays in Proxmox, because the token may not remove users: {by_hand}"
            )),
            Some(seen) => match seen.users.get(&user) {
                // It was removed, or never created.
                None => None,
                Some(owner) if owner.is_none() || *owner != us => Some(format!(
                    "the account {user} stays in Proxmox, because its comment does not name this cluster: {by_hand}"
                )),
                Some(_) => {
                    let shared = seen.shared_roles.contains(&role);
                    if !own_role || shared {
                        let why = if shared { "others have it, too" } else { "the file names it" };
                        told.insert(format!(
                            "the role {role} stays in Proxmox, because {why}: {delete_role} removes it"
                        ));
                    }
                    let role = (own_role && !shared).then_some(role);
                    let action = Action::RemoveAccount { of: to, user, role };
                    let reason = "it was created for a component of the cluster".to_owned();
                    let (id, after) = (action.id(), vec![]);
                    steps.push(Step {
                        id,
                        action,
                        after,
                        reason,
                        disruption: Disruption::Delete,
                        seconds: REMOVE,
                        unit: None,
                    });
                    None
                }
            },
        };
        told.extend(stays);
    }
    notes.extend(told.into_iter().map(|text| Note { text }));
    (steps, notes)
}
