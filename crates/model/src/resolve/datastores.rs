//! Which datastores a host's nodes use: those the file names, else the first that fit.

use std::collections::BTreeMap;

use crate::blueprint::{Inventory, InventoryHost};
use crate::diagnostic::{Diagnostic, Path, codes};
use crate::draft::Said;
use crate::spec::Spec;

/// What a datastore is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    Disks,
    Image,
    CloudInit,
}

impl Purpose {
    fn key(self) -> &'static str {
        match self {
            Self::Disks => "disks",
            Self::Image => "image",
            Self::CloudInit => "cloudinit",
        }
    }

    /// The content type that Proxmox must allow on it.
    fn content(self) -> &'static str {
        match self {
            Self::Disks | Self::CloudInit => "images",
            Self::Image => "import",
        }
    }
}

/// Chooses datastores, once for each host.
pub(super) struct Stores<'a> {
    spec: &'a Spec,
    inventory: Option<&'a Inventory>,
    said: BTreeMap<(String, Purpose), Option<String>>,
    problems: Vec<Diagnostic>,
}

impl<'a> Stores<'a> {
    pub(super) fn new(spec: &'a Spec, inventory: Option<&'a Inventory>) -> Self {
        Self { spec, inventory, said: BTreeMap::new(), problems: Vec::new() }
    }

    /// Everything that could not be chosen.
    pub(super) fn into_problems(self) -> Vec<Diagnostic> {
        self.problems
    }

    pub(super) fn choose(&mut self, host: &str, purpose: Purpose) -> Option<String> {
        if let Some(known) = self.said.get(&(host.to_owned(), purpose)) {
            return known.clone();
        }
        let named = self.spec.hosts.get(host).and_then(|host| match purpose {
            Purpose::Disks => host.datastores.disks.clone(),
            Purpose::Image => host.datastores.image.clone(),
            Purpose::CloudInit => host.datastores.cloudinit.clone(),
        });
        if named.is_none() && purpose == Purpose::CloudInit {
            return self.choose(host, Purpose::Disks);
        }
        let chosen = match self.inventory {
            None => named,
            Some(inventory) => inventory.hosts.get(host).and_then(|found| {
                let store = pick(found, named.as_deref(), purpose);
                // What an offline host has is not known. No node is created there; one that exists needs no choice.
                if store.is_none() && found.online {
                    self.problems.push(no_datastore(host, found, named.as_deref(), purpose));
                }
                store
            }),
        };
        self.said.insert((host.to_owned(), purpose), chosen.clone());
        chosen
    }
}

impl Stores<'_> {
    /// A datastore that a node names for a disk; whether it is there and fits is asked where Proxmox is known.
    pub(super) fn named(&mut self, host: Option<&String>, said: &Said<&str>) -> String {
        let found = host.and_then(|host| Some((host, self.inventory?.hosts.get(host)?)));
        if let Some((host, found)) = found
            && pick(found, Some(said.value), Purpose::Disks).is_none()
        {
            let mut problem = no_datastore(host, found, Some(said.value), Purpose::Disks);
            problem.labels.clear();
            let problem = problem.at(said.path.clone(), "");
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        said.value.to_owned()
    }
}

/// The named datastore if it fits; else the first that fits by name, for disks rather not the host's own file system.
/// Nothing can be told of a host that is offline, so there the name is believed.
fn pick(host: &InventoryHost, named: Option<&str>, purpose: Purpose) -> Option<String> {
    let fits = |name: &str| {
        host.datastores.get(name).is_some_and(|store| store.content.iter().any(|c| c == purpose.content()))
    };
    match named {
        Some(name) => (fits(name) || !host.online).then(|| name.to_owned()),
        None => {
            let fitting = host.datastores.keys().filter(|name| fits(name));
            fitting.min_by_key(|name| (purpose == Purpose::Disks && *name == "local", *name)).cloned()
        }
    }
}

fn no_datastore(host: &str, found: &InventoryHost, named: Option<&str>, purpose: Purpose) -> Diagnostic {
    let (key, content) = (purpose.key(), purpose.content());
    let fitting: Vec<&str> = found
        .datastores
        .iter()
        .filter(|(_, store)| store.content.iter().any(|c| c == content))
        .map(|(name, _)| name.as_str())
        .collect();
    let problem = match named {
        Some(name) => {
            let why = if found.datastores.contains_key(name) {
                "does not take"
            } else {
                "does not exist and cannot take"
            };
            let message = format!("the datastore `{name}` on `{host}` {why} content `{content}`");
            Diagnostic::error(codes::NO_DATASTORE, message)
                .at(Path::of(&["hosts", host, "datastores", key]), "")
        }
        None => {
            let message = format!("no datastore on `{host}` takes content `{content}`");
            Diagnostic::error(codes::NO_DATASTORE, message).at_key(Path::of(&["hosts", host]), "")
        }
    };
    problem.help(match fitting.is_empty() {
        true => format!("in Proxmox, allow content `{content}` on a datastore of `{host}`: Datacenter, Storage, Edit, Content; if one has it, the token lacks Datastore.Audit there"),
        false => format!("use `{}`", fitting.join("` or `")),
    })
}
