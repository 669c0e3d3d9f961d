//! Prepares Proxmox for a cluster, with an administrator's rights: role, user, token, rights, content types, mappings.
//!
//! First everything that is missing is found ([`SetupPlan::survey`]), as a list that a person can read; then exactly that list
//! is carried out. What is there already is left alone, so doing it again does nothing. Only a token's secret cannot be had
//! a second time: a token that exists is kept, unless a new one is asked for. What other clusters' tokens may do stays as it
//! is: every cluster has roles of its own ([`model::rights`]).

mod devices;
mod roles;

use std::collections::{BTreeMap, BTreeSet};

use model::blueprint::Inventory;
use model::mark::Mark;
use model::rights;
use model::spec::Spec;
use pve::{Client, Grant, NewToken, Revocation, StorageDefinition, Token};

use crate::Systems;
use crate::error::{Error, Kind, Result, hint};
use crate::observe::proxmox::{survey, vnets};
use roles::Lists;

/// Storages of these kinds keep files, so that they can hold an image to import.
const FILES: &[&str] = &["dir", "nfs", "cifs", "btrfs", "cephfs"];

/// Whom everything is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whom {
    /// The user, `name@realm`.
    pub user: String,
    /// The token's name.
    pub token: String,
    /// Whether a token that exists is replaced by a new one.
    pub renew: bool,
    /// Whether it may make the accounts of what runs in the cluster.
    pub accounts: bool,
    /// Whether it may move VMs between hosts, also where the file does not ask for it.
    pub maintenance: bool,
}

impl Whom {
    fn token_id(&self) -> String {
        format!("{}!{}", self.user, self.token)
    }
}

/// How many VMs carry the mark of a cluster with this name: nodes, templates and the record.
///
/// # Errors
///
/// When Proxmox does not list its VMs, or does not show one.
pub async fn count_vms(systems: &Systems, cluster: &str) -> Result<usize> {
    let resources = systems.pve.cluster_resources().await.map_err(failed)?;
    let vms = resources.iter().filter(|resource| resource.kind == "qemu");
    let mut count = 0;
    for (host, vmid) in vms.filter_map(|vm| Some((vm.node.as_ref()?, u32::try_from(vm.vmid?).ok()?))) {
        let config = systems.pve.vm_config(host, vmid).await.map_err(failed)?;
        count += usize::from(Mark::find(config.description()).is_some_and(|mark| mark.cluster == cluster));
    }
    Ok(count)
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    MakeRole(String, BTreeSet<&'static str>),
    /// Give a role what it lacks.
    AddToRole(String, BTreeSet<&'static str>),
    MakeUser(String),
    MakePool(String),
    /// Remove a token that a new one takes the place of.
    RemoveToken(NewToken),
    MakeToken(NewToken),
    /// Give a right.
    Grant(Grant),
    /// Take a right away that an earlier version gave and a role of the cluster's own replaces.
    Revoke(Revocation),
    DeleteRole(String),
    /// Let a storage hold images to import.
    AllowImport(StorageDefinition),
    /// Give a device a name.
    MapDevice {
        name: String,
        address: String,
        /// `node=…,path=…,id=…`, one for each host that has it.
        devices: Vec<String>,
    },
    /// Let the name of a device say what its hosts say of it.
    CorrectMapping {
        name: String,
        /// As for a new one, all of them.
        devices: Vec<String>,
        /// What it was read with.
        digest: Option<String>,
    },
}

impl std::fmt::Display for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |all: &BTreeSet<&str>| all.iter().copied().collect::<Vec<_>>().join(" ");
        match self {
            Self::MakeRole(name, all) => write!(f, "create the role {name}: {}", list(all)),
            Self::AddToRole(name, more) => write!(f, "add to the role {name}: {}", list(more)),
            Self::MakeUser(user) => write!(f, "create the user {user}, without a password"),
            Self::MakePool(pool) => write!(f, "create the pool {pool}"),
            Self::RemoveToken(token) => write!(f, "remove the token {}!{}", token.user, token.name),
            Self::MakeToken(token) => {
                write!(f, "create the token {}!{}, with privilege separation", token.user, token.name)
            }
            Self::Grant(grant) => {
                let below = if grant.propagate { " and below" } else { " alone" };
                write!(f, "grant the role {} at {}{below} to the user and the token", grant.role, grant.path)
            }
            Self::Revoke(revocation) => {
                let Revocation { path, role, whom, .. } = revocation;
                let shared = rights::SHARED_ROLES.contains(&role.as_str());
                let why = if shared { ", which has this cluster's own role now" } else { "" };
                write!(f, "revoke the role {role} at {path} from {whom}{why}")
            }
            Self::DeleteRole(name) => write!(f, "delete the role {name}"),
            Self::CorrectMapping { name, .. } => {
                write!(
                    f,
                    "correct the PCI mapping {name}: Proxmox compares it with the device at every start"
                )
            }
            Self::AllowImport(store) => {
                write!(f, "allow the content type `import` on the datastore {}", store.storage)
            }
            Self::MapDevice { name, address, devices } => {
                let on: Vec<&str> =
                    devices.iter().filter_map(|d| d.strip_prefix("node=")?.split(',').next()).collect();
                write!(f, "map the device {address} on {} as {name}", on.join(", "))
            }
        }
    }
}

/// What is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetupPlan {
    /// What to do, in order.
    pub tasks: Vec<Task>,
    /// Whether the token is there already, so that its secret cannot be told.
    pub token_kept: bool,
    /// What the file must say in place of each address.
    pub names: BTreeMap<String, String>,
}

/// Why the grounds could not be surveyed.
#[derive(Debug)]
pub enum Unsurveyed {
    /// The file asks for something that this Proxmox cannot give.
    File(Vec<model::diagnostic::Diagnostic>),
    /// Anything else.
    Engine(Error),
}

impl From<Error> for Unsurveyed {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

fn failed(error: pve::Error) -> Error {
    Error::systems("could not query Proxmox").hint(hint(&error)).because(error)
}

impl SetupPlan {
    /// Finds what is missing. `systems` carries an administrator's login.
    ///
    /// # Errors
    ///
    /// When Proxmox cannot be asked or is too old, or the file cannot be resolved against what it has.
    pub async fn survey(
        systems: &Systems,
        spec: &Spec,
        whom: &Whom,
    ) -> std::result::Result<Self, Unsurveyed> {
        let pve = &systems.pve;
        crate::doctor::supported(pve).await?;
        let (spec, names) = with_names(spec);
        let mut inventory = survey(systems).await?.inventory;
        let definitions = pve.storage_definitions().await.map_err(failed)?;
        let mut tasks = allow_import(&spec, &mut inventory, &definitions);
        let blueprint = model::resolve::resolve(&spec, Some(&inventory), None).map_err(Unsurveyed::File)?;
        tasks.extend(devices::tasks(pve, &inventory, &names).await?);
        let needs = rights::needs(&blueprint, &rights::hosts(&spec, &inventory));
        let mut needs = rights::in_zones(needs, &vnets(systems).await);
        if whom.accounts {
            needs.extend(rights::account_needs(&blueprint));
        }
        if whom.maintenance {
            needs.extend(rights::maintenance_needs(&blueprint));
        }
        let users = pve.users().await.map_err(failed)?;
        let known = users.iter().any(|user| user.name == whom.user);
        let tokens = if known { pve.tokens(&whom.user).await.map_err(failed)? } else { vec![] };
        let there = tokens.iter().any(|token| token.name == whom.token);
        // What a token that goes was given goes with it.
        let kept = there && !whom.renew;
        let lists = Lists::read(pve, tokens.iter().any(|token| token.name != whom.token)).await?;
        let (roles, grants) = lists.tasks(&blueprint.cluster, &needs, whom, kept);
        tasks.extend(roles);
        if !known {
            tasks.push(Task::MakeUser(whom.user.clone()));
        }
        if let Some(pool) = &blueprint.resource_pool {
            let pools = pve.pools().await.map_err(failed)?;
            if !pools.iter().any(|known| known.name == *pool) {
                tasks.push(Task::MakePool(pool.clone()));
            }
        }
        let token = NewToken {
            user: whom.user.clone(),
            name: whom.token.clone(),
            separated: true,
            comment: String::new(),
        };
        if there && whom.renew {
            tasks.push(Task::RemoveToken(token.clone()));
        }
        if !there || whom.renew {
            tasks.push(Task::MakeToken(token));
        }
        tasks.extend(grants);
        Ok(Self { tasks, token_kept: kept, names })
    }

    /// Finds what was set up for the cluster and for no other one. `systems` carries an administrator's login.
    ///
    /// # Errors
    ///
    /// When Proxmox cannot be asked.
    pub async fn to_remove(systems: &Systems, spec: &Spec, whom: &Whom) -> Result<Self> {
        let pve = &systems.pve;
        let users = pve.users().await.map_err(failed)?;
        let known = users.iter().any(|user| user.name == whom.user);
        let tokens = if known { pve.tokens(&whom.user).await.map_err(failed)? } else { vec![] };
        let there = tokens.iter().any(|token| token.name == whom.token);
        let lists = Lists::read(pve, tokens.iter().any(|token| token.name != whom.token)).await?;
        let (mut tasks, token_is_free) = lists.removal(&spec.cluster, whom);
        if there && token_is_free && !tasks.is_empty() {
            let (user, name) = (whom.user.clone(), whom.token.clone());
            tasks.push(Task::RemoveToken(NewToken { user, name, separated: true, comment: String::new() }));
        }
        Ok(Self { tasks, token_kept: there && !token_is_free, names: BTreeMap::new() })
    }

    /// Does everything on the list; gives the new token, if one was made.
    ///
    /// # Errors
    ///
    /// When one of the tasks fails; those before it are done, and doing it again goes on from there.
    pub async fn prepare(&self, pve: &Client, mut tell: impl FnMut(&Task)) -> Result<Option<Token>> {
        let mut made = None;
        for task in &self.tasks {
            let list = |all: &BTreeSet<&'static str>| all.iter().copied().collect::<Vec<_>>();
            let done = match task {
                Task::MakeRole(name, all) => pve.create_role(name, &list(all)).await,
                Task::AddToRole(name, more) => pve.add_to_role(name, &list(more)).await,
                Task::MakeUser(user) => pve.create_user(user, "Talosmith").await,
                Task::MakePool(pool) => pve.create_pool(pool, "Talosmith").await,
                Task::RemoveToken(token) => pve.delete_token(&token.user, &token.name).await,
                Task::MakeToken(request) => pve.create_token(request).await.map(|token| made = Some(token)),
                Task::Grant(grant) => pve.grant(grant).await,
                Task::Revoke(revocation) => pve.revoke(revocation).await,
                Task::DeleteRole(name) => pve.delete_role(name).await,
                Task::AllowImport(store) => {
                    let mut content = store.content.clone();
                    content.push("import".to_owned());
                    pve.set_content(store, &content).await
                }
                Task::MapDevice { name, devices, .. } => pve.create_pci_mapping(name, devices).await,
                Task::CorrectMapping { name, devices, digest } => {
                    pve.set_pci_mapping(name, devices, digest.as_deref()).await
                }
            };
            done.map_err(|e| {
                let text = format!("could not {task}");
                Error::new(Kind::Systems, text).hint(hint(&e)).because(e)
            })?;
            tell(task);
        }
        Ok(made)
    }
}

/// The file with a name in place of every device's address, and those names by address.
fn with_names(spec: &Spec) -> (Spec, BTreeMap<String, String>) {
    fn walk(value: &mut serde_json::Value, names: &mut BTreeMap<String, String>) {
        match value {
            serde_json::Value::Object(map) => {
                for (key, value) in map {
                    match value {
                        serde_json::Value::Array(devices) if key == "pci" => {
                            devices.iter_mut().for_each(|device| rename(device, names));
                        }
                        other => walk(other, names),
                    }
                }
            }
            serde_json::Value::Array(all) => all.iter_mut().for_each(|value| walk(value, names)),
            _ => {}
        }
    }
    fn rename(device: &mut serde_json::Value, names: &mut BTreeMap<String, String>) {
        let mapping = if device.is_object() { &mut device["mapping"] } else { device };
        if let Some(address) = mapping.as_str().and_then(address) {
            let name = format!("pci-{}", address.replace([':', '.'], "-"));
            *mapping = serde_json::Value::String(name.clone());
            names.insert(address, name);
        }
    }
    let mut names = BTreeMap::new();
    let changed = serde_json::to_value(spec).and_then(|mut value| {
        walk(&mut value, &mut names);
        serde_json::from_value(value)
    });
    match changed {
        Ok(spec) => (spec, names),
        // A file that was read can be written and read again; if not, it is not changed and the check refuses it.
        Err(_) => (spec.clone(), BTreeMap::new()),
    }
}

/// A device's address with its domain, `0000:01:00.0`, if the text is one.
fn address(text: &str) -> Option<String> {
    let full = if text.matches(':').count() == 1 { format!("0000:{text}") } else { text.to_owned() };
    let (rest, function) = full.rsplit_once('.')?;
    let parts: Vec<&str> = rest.split(':').collect();
    let hex = |text: &str, length: usize| text.len() == length && text.chars().all(|c| c.is_ascii_hexdigit());
    let fits =
        matches!(parts.as_slice(), [domain, bus, device] if hex(domain, 4) && hex(bus, 2) && hex(device, 2));
    (fits && hex(function, 1)).then(|| full.to_lowercase())
}

/// Storages that must hold images to import and do not yet. The inventory is left as if they did.
fn allow_import(spec: &Spec, inventory: &mut Inventory, definitions: &[StorageDefinition]) -> Vec<Task> {
    let keeps_files = |id: &str| {
        definitions
            .iter()
            .find(|d| d.storage == id)
            .filter(|d| d.kind.as_deref().is_some_and(|kind| FILES.contains(&kind)))
    };
    let mut chosen: BTreeMap<String, StorageDefinition> = BTreeMap::new();
    for (name, host) in &mut inventory.hosts {
        let named = spec.hosts.get(name).and_then(|host| host.datastores.image.clone());
        let takes =
            |id: &String| host.datastores.get(id).is_some_and(|s| s.content.iter().any(|c| c == "import"));
        let used = spec.hosts.is_empty() || spec.hosts.contains_key(name);
        let enough = match &named {
            Some(id) => takes(id),
            None => host.datastores.keys().any(takes),
        };
        if !used || enough {
            continue;
        }
        // The roomiest that keeps files, unless the file names one.
        let roomiest = || {
            let all = host.datastores.iter().filter(|(id, _)| keeps_files(id).is_some());
            all.max_by_key(|(_, store)| store.free_bytes).map(|(id, _)| id.clone())
        };
        if let Some(definition) = named.or_else(roomiest).and_then(|id| keeps_files(&id).cloned()) {
            if let Some(store) = host.datastores.get_mut(&definition.storage) {
                store.content.push("import".to_owned());
            }
            chosen.insert(definition.storage.clone(), definition);
        }
    }
    chosen.into_values().map(Task::AllowImport).collect()
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses_are_told_from_names() {
        assert_eq!(address("01:00.0").as_deref(), Some("0000:01:00.0"));
        assert_eq!(address("0000:0A:00.1").as_deref(), Some("0000:0a:00.1"));
        for name in ["gpu", "pci-0000-01-00-0", "0000:01:00", "01.00.0", ""] {
            assert_eq!(address(name), None, "{name}");
        }
    }
}
