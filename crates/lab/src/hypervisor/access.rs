//! Who may call and who may do what: users with passwords and API tokens, groups, roles, and access control lists.
//!
//! A principal's roles at a path are those of the deepest list on the way that names it: a deeper list replaces what was
//! inherited. The rights of a separated token are what both it and its user have. `root@pam` may do everything, but a
//! token of it is not `root@pam`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hypervisor::roles::{self, NO_ACCESS};
use crate::hypervisor::second_factor::is_code;
use crate::rng::Rng;

/// How long a ticket lasts.
const TICKET_LIFE: SignedDuration = SignedDuration::from_hours(2);
/// The lab's own token. A recorded world makes one that is called `lab`, so this is not.
const LAB_TOKEN: &str = "talosmith";
/// The one user who may do everything.
pub(crate) const ROOT: &str = "root@pam";

/// Users, groups, roles, lists, and the key that signs tickets.
#[derive(Serialize, Deserialize)]
pub(crate) struct Access {
    pub(crate) users: BTreeMap<String, User>,
    pub(crate) groups: BTreeMap<String, String>,
    /// Roles that someone made, with their privileges.
    pub(crate) roles: BTreeMap<String, BTreeSet<String>>,
    /// By path, then by principal.
    pub(crate) acl: BTreeMap<String, BTreeMap<Principal, BTreeMap<String, bool>>>,
    pub(crate) pools: BTreeMap<String, Pool>,
    ticket_key: String,
}

/// Whom an entry of a list names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Principal {
    Group(String),
    Token(String),
    User(String),
}

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) password: Option<String>,
    /// The key of one-time codes, for one who needs them.
    #[serde(default)]
    pub(crate) second_factor: Option<String>,
    pub(crate) disabled: bool,
    pub(crate) expire: i64,
    /// Comment, names, mail address, keys.
    pub(crate) about: BTreeMap<String, String>,
    pub(crate) groups: BTreeSet<String>,
    pub(crate) tokens: BTreeMap<String, Token>,
}

/// One API token.
#[derive(Serialize, Deserialize)]
pub(crate) struct Token {
    pub(crate) secret: String,
    pub(crate) separated: bool,
    pub(crate) expire: i64,
    pub(crate) comment: Option<String>,
}

/// A pool: rights on it are rights on its members.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pool {
    pub(crate) comment: Option<String>,
    pub(crate) vms: BTreeSet<u32>,
    pub(crate) storages: BTreeSet<String>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("users", &self.users.keys()).finish_non_exhaustive()
    }
}

impl Principal {
    /// `user`, `group` or `token`, and the name.
    pub(crate) fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Group(name) => ("group", name),
            Self::Token(name) => ("token", name),
            Self::User(name) => ("user", name),
        }
    }
}

// A key of a map in JSON must be text.
impl Serialize for Principal {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, name) = self.parts();
        serializer.serialize_str(&format!("{kind}:{name}"))
    }
}

impl<'de> Deserialize<'de> for Principal {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.split_once(':') {
            Some(("group", name)) => Ok(Self::Group(name.to_owned())),
            Some(("token", name)) => Ok(Self::Token(name.to_owned())),
            Some(("user", name)) => Ok(Self::User(name.to_owned())),
            _ => Err(serde::de::Error::custom("a principal is user:, group: or token: and a name")),
        }
    }
}

impl Access {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let password = format!("lab-{:012x}", rng.next_u64() & 0xFFFF_FFFF_FFFF);
        let token = Token { secret: rng.uuid(), separated: false, expire: 0, comment: None };
        let root = User {
            password: Some(password),
            tokens: BTreeMap::from([(LAB_TOKEN.to_owned(), token)]),
            ..User::default()
        };
        Self {
            users: BTreeMap::from([(ROOT.to_owned(), root)]),
            groups: BTreeMap::new(),
            roles: BTreeMap::new(),
            acl: BTreeMap::new(),
            pools: BTreeMap::new(),
            ticket_key: rng.uuid(),
        }
    }

    /// Lets root log in with a one-time code beside the password.
    pub(crate) fn require_second_factor(&mut self, key: Option<&str>) {
        if let Some(root) = self.users.get_mut(ROOT) {
            root.second_factor = key.map(str::to_owned);
        }
    }

    /// The lab's own token with its secret, as it stands in a request.
    pub(crate) fn lab_token(&self) -> String {
        let token = self.users.get(ROOT).and_then(|root| root.tokens.get(LAB_TOKEN));
        token.map(|token| format!("{ROOT}!{LAB_TOKEN}={}", token.secret)).unwrap_or_default()
    }

    pub(crate) fn root_password(&self) -> &str {
        self.users.get(ROOT).and_then(|root| root.password.as_deref()).unwrap_or_default()
    }

    fn active(&self, user: &str, now: Timestamp) -> Option<&User> {
        let current = |expire: i64| expire == 0 || expire > now.as_second();
        self.users.get(user).filter(|user| !user.disabled && current(user.expire))
    }

    /// The id of a token, `user@realm!name`, if its secret is right and neither it nor its user has expired.
    pub(crate) fn token(&self, credentials: &str, now: Timestamp) -> Option<String> {
        let (id, secret) = credentials.split_once('=')?;
        let (user, name) = id.split_once('!')?;
        let token = self.active(user, now)?.tokens.get(name)?;
        let current = token.expire == 0 || token.expire > now.as_second();
        (current && token.secret == secret).then(|| id.to_owned())
    }

    /// Whether the user must still show a one-time code: a ticket as the password is a renewal, and was shown one.
    pub(crate) fn needs_code(&self, user: &str, password: &str, now: Timestamp) -> bool {
        self.users.get(user).is_some_and(|known| known.second_factor.is_some())
            && self.ticket(password, now).is_none()
    }

    /// The user of a challenge, if it is valid and `answer` is `totp:` and the right code.
    pub(crate) fn answers(&self, user: &str, challenge: &str, answer: &str, now: Timestamp) -> bool {
        let key = self.active(user, now).and_then(|user| user.second_factor.as_deref());
        let (Some(key), Some(code)) = (key, answer.strip_prefix("totp:")) else { return false };
        self.challenged(challenge, now).is_some_and(|of| of == user) && is_code(key, code, now)
    }

    /// Whether `password` is the user's, or a valid ticket of the user.
    pub(crate) fn password(&self, user: &str, password: &str, now: Timestamp) -> bool {
        self.active(user, now).is_some_and(|known| known.password.as_deref() == Some(password))
            || self.ticket(password, now).is_some_and(|of| of == user)
    }

    /// Whether `caller` has `privilege` at `path`.
    pub(crate) fn may(&self, caller: &str, path: &str, privilege: &str) -> bool {
        caller == ROOT || self.is_root_token(caller) || self.privileges(caller, path).contains_key(privilege)
    }

    /// Whether `caller` is a token with all the rights of root. It is asked for every row of every list.
    fn is_root_token(&self, caller: &str) -> bool {
        let name = caller.strip_prefix(ROOT).and_then(|rest| rest.strip_prefix('!'));
        name.is_some_and(|name| {
            self.users.get(ROOT).and_then(|root| root.tokens.get(name)).is_some_and(|token| !token.separated)
        })
    }

    /// What `caller` may do at `path`, each with whether it holds below the path as well.
    pub(crate) fn privileges(&self, caller: &str, path: &str) -> BTreeMap<String, bool> {
        let (user, token) = match caller.split_once('!') {
            Some((user, token)) => (user, Some(token)),
            None => (caller, None),
        };
        let own =
            if user == ROOT { roles::everything() } else { self.of(&Principal::User(user.to_owned()), path) };
        let separated = token.is_some_and(|token| {
            self.users.get(user).and_then(|user| user.tokens.get(token)).is_none_or(|token| token.separated)
        });
        if !separated {
            return own;
        }
        let theirs = self.of(&Principal::Token(caller.to_owned()), path);
        own.into_iter()
            .filter_map(|(privilege, down)| theirs.get(&privilege).map(|also| (privilege, down && *also)))
            .collect()
    }

    /// The privileges of one principal at `path`, those through pools included.
    fn of(&self, principal: &Principal, path: &str) -> BTreeMap<String, bool> {
        let mut all = self.expand(&self.roles_at(principal, path));
        for (name, _) in self.pools.iter().filter(|(_, pool)| pool.holds(path)) {
            all.extend(self.expand(&self.roles_at(principal, &format!("/pool/{name}"))));
        }
        all
    }

    /// The roles of one principal at `path`.
    fn roles_at(&self, principal: &Principal, path: &str) -> BTreeMap<String, bool> {
        let groups = match principal {
            Principal::User(user) => self.users.get(user).map(|user| &user.groups),
            _ => None,
        };
        let mut roles = BTreeMap::new();
        for (at, entries) in self.acl.iter().filter(|(at, _)| covers(at, path)) {
            let here = |principal: &Principal| {
                let all = entries.get(principal).into_iter().flatten();
                all.filter(|(_, down)| at == path || **down).map(|(role, down)| (role.clone(), *down))
            };
            let mut named: BTreeMap<String, bool> = here(principal).collect();
            if named.is_empty() {
                let groups = groups.into_iter().flatten();
                named = groups
                    .flat_map(|group| here(&Principal::Group(group.clone())).collect::<Vec<_>>())
                    .collect();
            }
            if !named.is_empty() {
                roles = named;
            }
        }
        if roles.contains_key(NO_ACCESS) { BTreeMap::new() } else { roles }
    }

    fn expand(&self, given: &BTreeMap<String, bool>) -> BTreeMap<String, bool> {
        let mut all = BTreeMap::new();
        for (role, down) in given {
            for privilege in self.role(role).into_iter().flatten() {
                *all.entry(privilege).or_insert(false) |= *down;
            }
        }
        all
    }

    /// The privileges of a role, if there is one of that name.
    pub(crate) fn role(&self, name: &str) -> Option<Vec<String>> {
        let own = self.roles.get(name).map(|privileges| privileges.iter().cloned().collect());
        own.or_else(|| roles::built_in(name))
    }

    /// The pool that a VM is in.
    pub(crate) fn pool_of(&self, vmid: u32) -> Option<&str> {
        self.pools.iter().find(|(_, pool)| pool.vms.contains(&vmid)).map(|(name, _)| name.as_str())
    }

    /// A VM that is gone has no pool and no rights.
    pub(crate) fn forget_vm(&mut self, vmid: u32) {
        for pool in self.pools.values_mut() {
            pool.vms.remove(&vmid);
        }
        self.acl.remove(&format!("/vms/{vmid}"));
    }

    pub(crate) fn new_ticket(&self, user: &str, now: Timestamp) -> String {
        let text = format!("PVE:{user}:{:08X}", now.as_second());
        let signature = self.sign(&text);
        format!("{text}::{signature}")
    }

    /// What a login gets that still owes its one-time code. It opens nothing.
    pub(crate) fn new_challenge(&self, user: &str, now: Timestamp) -> String {
        let text = format!("PVE:!tfa!%7B%22totp%22%3Atrue%7D:{:08X}", now.as_second());
        let signature = self.sign(&format!("{text}:{user}"));
        format!("{text}::{signature}")
    }

    /// The user of a valid challenge.
    fn challenged(&self, challenge: &str, now: Timestamp) -> Option<&str> {
        let (text, signature) = challenge.split_once("::")?;
        let made = i64::from_str_radix(text.rsplit(':').next()?, 16).ok()?;
        let made = Timestamp::from_second(made).ok()?;
        let of = |user: &&String| self.sign(&format!("{text}:{user}")) == signature;
        let user = self.users.keys().find(of)?;
        (now.duration_since(made) < TICKET_LIFE).then_some(user)
    }

    /// The user of a valid ticket.
    pub(crate) fn ticket(&self, ticket: &str, now: Timestamp) -> Option<String> {
        let (text, signature) = ticket.split_once("::")?;
        let mut parts = text.split(':');
        let (_, user, time) = (parts.next()?, parts.next()?, parts.next()?);
        let made = Timestamp::from_second(i64::from_str_radix(time, 16).ok()?).ok()?;
        let valid = self.sign(text) == signature && now.duration_since(made) < TICKET_LIFE;
        valid.then_some(user).filter(|user| self.active(user, now).is_some()).map(str::to_owned)
    }

    /// What a caller with a ticket must repeat in a header of every write.
    pub(crate) fn csrf(&self, user: &str, now: Timestamp) -> String {
        let time = format!("{:08X}", now.as_second());
        let signature = self.sign(&format!("{time}:{user}"));
        format!("{time}:{signature}")
    }

    pub(crate) fn csrf_valid(&self, token: &str, user: &str, now: Timestamp) -> bool {
        let Some((time, signature)) = token.split_once(':') else { return false };
        let made = i64::from_str_radix(time, 16).ok().and_then(|second| Timestamp::from_second(second).ok());
        made.is_some_and(|made| now.duration_since(made) < TICKET_LIFE)
            && self.sign(&format!("{time}:{user}")) == signature
    }

    /// A signature as long as one of a real server's key.
    pub(crate) fn long_signature(&self, text: &str) -> String {
        let part = |number: u8| {
            let digest = Sha256::new().chain_update(&self.ticket_key).chain_update([number]);
            digest.chain_update(text).finalize()
        };
        STANDARD.encode((0..8).flat_map(part).collect::<Vec<u8>>())
    }

    fn sign(&self, text: &str) -> String {
        STANDARD.encode(Sha256::new().chain_update(&self.ticket_key).chain_update(text).finalize())
    }
}

impl Pool {
    fn holds(&self, path: &str) -> bool {
        let vm = path.strip_prefix("/vms/").and_then(|id| id.parse().ok());
        vm.is_some_and(|vmid| self.vms.contains(&vmid))
            || path.strip_prefix("/storage/").is_some_and(|storage| self.storages.contains(storage))
    }
}

/// Whether a list at `at` says something about `path`.
fn covers(at: &str, path: &str) -> bool {
    at == "/" || at == path || path.strip_prefix(at).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        let mut access = Access::new(&mut Rng::new(1));
        let mut user = User::default();
        for (name, separated) in [("sep", true), ("full", false)] {
            let token = Token { secret: name.to_owned(), separated, expire: 0, comment: None };
            user.tokens.insert(name.to_owned(), token);
        }
        user.groups.insert("ops".to_owned());
        access.users.insert("a@pve".to_owned(), user);
        access
    }

    fn grant(access: &mut Access, path: &str, who: Principal, role: &str, down: bool) {
        access.acl.entry(path.to_owned()).or_default().entry(who).or_default().insert(role.to_owned(), down);
    }

    #[test]
    fn a_deeper_list_replaces_what_was_inherited() {
        let mut access = access();
        let user = || Principal::User("a@pve".to_owned());
        grant(&mut access, "/", user(), "PVEAuditor", true);
        grant(&mut access, "/vms/100", user(), "PVETemplateUser", true);
        assert!(access.may("a@pve", "/vms/101", "Sys.Audit"));
        assert!(access.may("a@pve", "/vms/100", "VM.Clone"));
        assert!(!access.may("a@pve", "/vms/100", "Sys.Audit"));
        grant(&mut access, "/vms/100", user(), NO_ACCESS, false);
        assert!(!access.may("a@pve", "/vms/100", "VM.Clone"));
    }

    #[test]
    fn what_does_not_propagate_holds_at_its_path_only() {
        let mut access = access();
        grant(&mut access, "/vms", Principal::Group("ops".to_owned()), "PVEVMAdmin", false);
        assert!(access.may("a@pve", "/vms", "VM.Allocate"));
        assert!(!access.may("a@pve", "/vms/100", "VM.Allocate"));
    }

    #[test]
    fn a_separated_token_has_what_both_have() {
        let mut access = access();
        grant(&mut access, "/", Principal::User("a@pve".to_owned()), "PVEVMAdmin", true);
        assert!(access.may("a@pve!full", "/vms/1", "VM.Allocate"));
        assert!(!access.may("a@pve!sep", "/vms/1", "VM.Allocate"));
        grant(&mut access, "/", Principal::Token("a@pve!sep".to_owned()), "Administrator", true);
        assert!(access.may("a@pve!sep", "/vms/1", "VM.Allocate"));
        assert!(!access.may("a@pve!sep", "/", "Sys.Modify"));
    }

    #[test]
    fn a_pool_gives_rights_on_its_members() {
        let mut access = access();
        access.pools.insert("k8s".to_owned(), Pool { vms: BTreeSet::from([100]), ..Pool::default() });
        grant(&mut access, "/pool/k8s", Principal::User("a@pve".to_owned()), "PVEVMAdmin", true);
        assert!(access.may("a@pve", "/vms/100", "VM.PowerMgmt"));
        assert!(!access.may("a@pve", "/vms/101", "VM.PowerMgmt"));
    }
}
