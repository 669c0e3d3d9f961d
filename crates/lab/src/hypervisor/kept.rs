//! Configuration that Proxmox keeps and shows, and that nothing in this world acts on: rules of the firewall, networks of
//! SDN, jobs, realms. It is kept under the path of the call that shows it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha1::{Digest, Sha1};

/// The options of one thing.
pub(crate) type Fields = BTreeMap<String, Value>;

/// Everything that is only kept.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Things by name, under the path of their list.
    named: BTreeMap<String, BTreeMap<String, Fields>>,
    /// Things by position, under the path of their list.
    ordered: BTreeMap<String, Vec<Fields>>,
    /// Things of which there is one, under their own path.
    single: BTreeMap<String, Fields>,
}

impl Kept {
    pub(crate) fn named(&self, list: &str) -> impl Iterator<Item = (&String, &Fields)> {
        self.named.get(list).into_iter().flatten()
    }

    pub(crate) fn get(&self, list: &str, name: &str) -> Option<&Fields> {
        self.named.get(list)?.get(name)
    }

    pub(crate) fn get_mut(&mut self, list: &str, name: &str) -> Option<&mut Fields> {
        self.named.get_mut(list)?.get_mut(name)
    }

    pub(crate) fn put(&mut self, list: &str, name: &str, fields: Fields) {
        self.named.entry(list.to_owned()).or_default().insert(name.to_owned(), fields);
    }

    /// Takes a thing away with everything below it; says whether it was there.
    pub(crate) fn remove(&mut self, list: &str, name: &str) -> bool {
        let there = self.named.get_mut(list).is_some_and(|things| things.remove(name).is_some());
        if there {
            self.forget_below(&format!("{list}/{name}"));
        }
        there
    }

    /// Takes away everything that is kept at a path or below it.
    pub(crate) fn forget_below(&mut self, path: &str) {
        let below =
            |key: &str| key == path || key.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        self.named.retain(|key, _| !below(key));
        self.ordered.retain(|key, _| !below(key));
        self.single.retain(|key, _| !below(key));
    }

    /// Copies everything that is kept below a path to below another.
    pub(crate) fn copy_below(&mut self, from: &str, to: &str) {
        let other = |key: &String| {
            key.strip_prefix(from).filter(|rest| rest.starts_with('/')).map(|rest| format!("{to}{rest}"))
        };
        let named: Vec<_> =
            self.named.iter().filter_map(|(key, all)| Some((other(key)?, all.clone()))).collect();
        let ordered: Vec<_> =
            self.ordered.iter().filter_map(|(key, all)| Some((other(key)?, all.clone()))).collect();
        let single: Vec<_> =
            self.single.iter().filter_map(|(key, one)| Some((other(key)?, one.clone()))).collect();
        self.named.extend(named);
        self.ordered.extend(ordered);
        self.single.extend(single);
    }

    /// Gives a thing another name, with everything below it.
    pub(crate) fn rename(&mut self, list: &str, from: &str, to: &str) {
        if let Some(fields) = self.named.get_mut(list).and_then(|things| things.remove(from)) {
            self.put(list, to, fields);
        }
        let (old, new) = (format!("{list}/{from}"), format!("{list}/{to}"));
        if let Some(things) = self.named.remove(&old) {
            self.named.insert(new.clone(), things);
        }
        if let Some(things) = self.ordered.remove(&old) {
            self.ordered.insert(new, things);
        }
    }

    pub(crate) fn ordered(&self, list: &str) -> &[Fields] {
        self.ordered.get(list).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn ordered_mut(&mut self, list: &str) -> &mut Vec<Fields> {
        self.ordered.entry(list.to_owned()).or_default()
    }

    pub(crate) fn single(&self, path: &str) -> Option<&Fields> {
        self.single.get(path)
    }

    pub(crate) fn single_mut(&mut self, path: &str) -> &mut Fields {
        self.single.entry(path.to_owned()).or_default()
    }

    /// The digest of what is kept at a path: the list, or the one thing.
    pub(crate) fn digest(&self, path: &str) -> String {
        let all = (self.named.get(path), self.ordered.get(path), self.single.get(path));
        hex::encode(Sha1::digest(serde_json::to_vec(&all).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_takes_along_what_is_below_it() {
        let mut kept = Kept::default();
        kept.put("/cluster/firewall/ipset", "a", Fields::new());
        kept.put("/cluster/firewall/ipset", "ab", Fields::new());
        kept.put("/cluster/firewall/ipset/a", "10.0.0.0/8", Fields::new());
        kept.put("/cluster/firewall/ipset/ab", "10.0.0.0/8", Fields::new());
        kept.rename("/cluster/firewall/ipset", "a", "c");
        assert!(kept.get("/cluster/firewall/ipset/c", "10.0.0.0/8").is_some());
        assert!(kept.remove("/cluster/firewall/ipset", "c"));
        assert!(kept.get("/cluster/firewall/ipset/c", "10.0.0.0/8").is_none());
        assert!(kept.get("/cluster/firewall/ipset/ab", "10.0.0.0/8").is_some());
    }
}
