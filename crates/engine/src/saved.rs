//! A plan that was saved to be looked at, and is carried out later only if nothing has changed since.
//!
//! Beside the steps, a saved plan holds what was seen of the world when it was made: one line for each fact that a plan can
//! depend on. When it is carried out, the world is looked at again, and the same steps must come of the same facts; otherwise
//! the lines tell what changed. Facts that change by themselves (memory in use, free space, who holds the lease) and those that
//! are about other people's guests are left out, and so are notes and reasons, which quote them.
//!
//! Nothing in it is secret: of configurations, and of everything that the cluster file says, there are only digests. It is
//! authenticated with a key that only the holder of the secrets bundle has ([`PlanKey`]), so a plan that was edited is refused
//! even with a digest that was computed again. A plan for a cluster without a bundle cannot be authenticated: nothing of it is used but the
//! approval of exactly what planning gives again, and it allows no deletion of data.

use std::collections::{BTreeMap, BTreeSet};

use model::allowed::Allowed;
use model::mark::Mark;
use model::names::NodeName;
use model::observed::Observed;
use model::plan::Plan;
use model::unit::Goal;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::plan_key::PlanKey;
use crate::session::Snapshot;

/// The form of the file. A file of another form is refused.
const FORM: u32 = 7;
/// Facts that no plan depends on, by the last part of their name.
const PASSING: &[&str] = &[
    "etcd_status",
    "ha_state",
    "free_bytes",
    "memory_used_mib",
    "lease",
    "turns",
    "lease_turns",
    "id",
    "unmet",
    "why",
    "description",
];
/// Facts of the world of which only a digest is kept, because people may have written secrets into them.
const PRIVATE: &[&str] = &["secret", "token", "password"];
/// What people write freely: one digest for all of it, because its keys may tell as much as its values.
const FREE: &[&str] = &["values", "patches", "inline"];
/// Longer values are kept as a digest, too.
const LONG: usize = 200;
/// What the next start of a VM makes of a key that is removed.
pub const REMOVED: &str = "not set";
/// A plan and the world that it was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedPlan {
    /// The form of this file.
    pub talosmith_plan: u32,
    /// HMAC-SHA-256 over everything in this file. Absent as long as the cluster has no bundle, and so no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hmac_sha256: Option<String>,
    /// What it is about.
    pub plan: Plan,
    /// What the operator allowed. It was reviewed with the plan, so it is not asked for again.
    pub allowed: Allowed,
    /// The nodes that it is about, where it is not about all.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub targets: BTreeSet<NodeName>,
    /// What the operator approves by applying it: the goals of its steps and units.
    pub goals: BTreeSet<Goal>,
    /// What the file asked for and what was seen, fact by fact.
    pub facts: BTreeMap<String, String>,
}

/// Why a saved plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It is not a saved plan.
    #[error("it is not a plan that `talosmith plan -o` has written")]
    NotAPlan(#[source] serde_json::Error),
    /// It does not say of which form it is.
    #[error("it has no version (`talosmith_plan`), so it is not a plan that `talosmith plan -o` has written")]
    NoForm,
    /// An earlier release wrote it.
    #[error("it was written by an earlier release of Talosmith (form {0}, this one reads {FORM})")]
    Older(u64),
    /// A newer release wrote it.
    #[error("it was written by a newer release of Talosmith (form {0}, this one reads {FORM})")]
    Newer(u64),
    /// It holds something that is not used.
    #[error("it holds fields that `talosmith plan -o` does not write")]
    Unknown,
    /// It was not authenticated with this cluster's key.
    #[error(
        "it was changed after it was written, or was made with the secrets of another cluster: its HMAC does not fit"
    )]
    Tampered,
    /// It was saved when there was no bundle, and there is one now.
    #[error("it was saved before the cluster had secrets, and nothing proves that it was not changed")]
    Unauthenticated,
    /// It was saved with a bundle, which is not here.
    #[error("the secrets bundle of its cluster is not here, so nothing proves that it was not changed")]
    NoKey,
    /// Without a bundle there is no cluster whose data could be deleted.
    #[error("it allows the deletion of data, and nothing proves that it was not changed")]
    Deletes,
}

impl SavedPlan {
    /// The plan of this look, to be saved.
    #[must_use]
    pub fn new(snapshot: &Snapshot, plan: &Plan) -> Self {
        let key = snapshot.plan_key();
        // Nothing can be allowed that could not be authenticated.
        let allowed = if key.is_some() { snapshot.allowed().clone() } else { Allowed::default() };
        let mut saved = Self {
            talosmith_plan: FORM,
            hmac_sha256: None,
            plan: plan.clone(),
            allowed,
            targets: snapshot.targets().clone(),
            goals: plan.goals(),
            facts: facts(snapshot, key),
        };
        saved.hmac_sha256 = key.map(|key| key.sign(&saved.signed()));
        saved
    }

    /// Reads a saved plan. Nothing in it is proved yet: see [`Self::verify`].
    ///
    /// # Errors
    ///
    /// When it is something else, or of another form.
    pub fn parse(text: &str) -> Result<Self, Unusable> {
        let value: Value = serde_json::from_str(text).map_err(Unusable::NotAPlan)?;
        // What a person reads in the file and what is used must be the same: no key twice, none that is not used.
        serde_json::from_str::<NoKeyTwice>(text).map_err(Unusable::NotAPlan)?;
        match value.get("talosmith_plan").and_then(Value::as_u64) {
            None => Err(Unusable::NoForm),
            Some(form) if form < u64::from(FORM) => Err(Unusable::Older(form)),
            Some(form) if form > u64::from(FORM) => Err(Unusable::Newer(form)),
            Some(_) => {
                let saved: Self = serde_json::from_value(value.clone()).map_err(Unusable::NotAPlan)?;
                match serde_json::to_value(&saved) {
                    Ok(used) if used == value => Ok(saved),
                    _ => Err(Unusable::Unknown),
                }
            }
        }
    }

    /// Proves that this is what was saved, with the key of the bundle that is here now.
    ///
    /// # Errors
    ///
    /// When that cannot be proved. A plan that was saved without a bundle needs no proof as long as there is none: nothing of it is used.
    pub fn verify(&self, key: Option<&PlanKey>) -> Result<(), Unusable> {
        match (&self.hmac_sha256, key) {
            (Some(tag), Some(key)) if key.verifies(&self.signed(), tag) => Ok(()),
            (Some(_), Some(_)) => Err(Unusable::Tampered),
            (Some(_), None) => Err(Unusable::NoKey),
            (None, Some(_)) => Err(Unusable::Unauthenticated),
            (None, None) if !self.allowed.is_empty() => Err(Unusable::Deletes),
            (None, None) => Ok(()),
        }
    }

    /// Everything but the proof itself.
    fn signed(&self) -> Vec<u8> {
        let all = (self.talosmith_plan, &self.plan, &self.allowed, &self.targets, &self.goals, &self.facts);
        // Strings and numbers only: JSON can always carry them.
        serde_json::to_vec(&all).unwrap_or_default()
    }

    /// As text, for a file.
    #[must_use]
    pub fn to_text(&self) -> String {
        // Strings and numbers only: JSON can always carry them.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Whether what was reviewed is what would be done `now`: the same steps, for the same reasons in file and world.
    #[must_use]
    pub fn still_holds(&self, now: &Self) -> bool {
        now.plan.same_work(&self.plan)
            && now.plan.refusals.is_empty() == self.plan.refusals.is_empty()
            && now.facts == self.facts
            && now.allowed == self.allowed
            && now.targets == self.targets
            && now.goals == self.goals
    }
}

/// JSON in which no object has a key twice. Readers differ in which of the two they take.
struct NoKeyTwice;

impl<'de> Deserialize<'de> for NoKeyTwice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for NoKeyTwice {
    type Value = Self;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON without repeated keys")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = fields.next_key::<String>()? {
            fields.next_value::<Self>()?;
            if let Some(twice) = keys.replace(key) {
                return Err(serde::de::Error::custom(format!("the key `{twice}` occurs twice")));
            }
        }
        Ok(self)
    }
}

/// What was seen, without what is other people's: their guests, marks and images. Where such a thing is in our way, the plan
/// itself differs.
fn of_ours(snapshot: &Snapshot) -> Observed {
    let (mut seen, blueprint) = ((*snapshot.observed).clone(), &snapshot.blueprint);
    let ids: BTreeSet<u32> =
        blueprint.nodes.values().map(|node| node.vmid).chain([blueprint.record.vmid]).collect();
    seen.proxmox.taken.retain(|vmid, _| ids.contains(vmid));
    seen.proxmox.unchecked.clear();
    if let Some(owner) = blueprint.cluster_id.as_deref().map(Mark::owner_of) {
        seen.proxmox.marked.retain(|vm| vm.mark.owner == owner);
    }
    let files: BTreeSet<String> = blueprint
        .images
        .iter()
        .filter_map(|(key, image)| Some(image.file_name(snapshot.rendered.schematics.get(key)?)))
        .collect();
    seen.proxmox.images.retain(|image| files.contains(&image.file));
    seen
}

/// Everything that a plan depends on, flattened to lines.
fn facts(snapshot: &Snapshot, key: Option<&PlanKey>) -> BTreeMap<String, String> {
    let mut facts = Facts { key, lines: BTreeMap::new() };
    // These types always have a form in JSON; one that had none would show as a missing fact on both sides.
    for (name, value) in [
        ("file", serde_json::to_value(&*snapshot.blueprint)),
        ("world", serde_json::to_value(of_ours(snapshot))),
    ] {
        facts.flatten(name.to_owned(), &value.unwrap_or_default());
    }
    let mut lines = facts.lines;
    for (node, digest) in &snapshot.rendered.configs {
        lines.insert(format!("configuration/{node}"), digest.clone());
    }
    for (image, schematic) in &snapshot.rendered.schematics {
        lines.insert(format!("schematic/{image}"), schematic.clone());
    }
    lines
}

/// Whether people may have written a secret there.
fn is_private(name: &str) -> bool {
    PRIVATE.iter().any(|word| name.contains(word))
}

/// Whether this is about a key of a VM that waits for its next start.
fn waits(name: &str) -> bool {
    name.rsplit('/').nth(1) == Some("pending")
}

struct Facts<'a> {
    key: Option<&'a PlanKey>,
    lines: BTreeMap<String, String>,
}

impl Facts<'_> {
    fn flatten(&mut self, name: String, value: &Value) {
        let last = name.rsplit('/').next().unwrap_or_default();
        if PASSING.contains(&last) {
            return;
        }
        match value {
            // A key that waits to be removed at the next start of its VM: nothing is something there.
            Value::Null if waits(&name) => self.keep(name, REMOVED),
            Value::Null => {}
            _ if FREE.contains(&last) => {
                let digest = self.digest(&name, &value.to_string());
                self.lines.insert(name, digest);
            }
            Value::Object(fields) => {
                for (key, value) in fields {
                    self.flatten(format!("{name}/{key}"), value);
                }
            }
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    // Things with a name keep it wherever they stand in the list.
                    let own = ["vmid", "name", "what", "file"].iter().find_map(|key| item.get(*key));
                    let own = own
                        .map_or_else(|| at.to_string(), |own| own.to_string().trim_matches('"').to_owned());
                    self.flatten(format!("{name}/{own}"), item);
                }
            }
            Value::String(text) => self.keep(name, text),
            // A number or a yes of the file is no secret.
            other if name.starts_with("file/") && !is_private(&name) => {
                self.lines.insert(name, other.to_string());
            }
            other => self.keep(name, &other.to_string()),
        }
    }

    /// What the world says is told when it changed; of texts in the file it is enough to know that they did.
    fn keep(&mut self, name: String, text: &str) {
        let private =
            name.starts_with("file/") || is_private(&name) || text.len() > LONG || text.contains('\n');
        let text = if private { self.digest(&name, text) } else { text.to_owned() };
        self.lines.insert(name, text);
    }

    /// Where there is a key, the text cannot be found by trying without the key.
    fn digest(&self, name: &str, text: &str) -> String {
        let bytes = format!("{name}\0{text}");
        match self.key {
            Some(key) => format!("hmac-sha256:{}", key.sign(bytes.as_bytes())),
            None => format!("sha256:{}", hex::encode(Sha256::digest(bytes))),
        }
    }
}

#[cfg(test)]
mod tests;
