//! A plan that was saved to be looked at, and is carried out later only if nothing has changed since.
//!
//! Beside the steps, a saved plan holds what was seen of the world when it was made: one line for each fact that a plan can
//! depend on. When it is carried out, the world is looked at again, and the same steps must come of the same facts; otherwise
//! the lines tell what changed. Facts that change by themselves (memory in use, free space, who holds the lease) and those that
//! are about other people's guests are left out, and so are notices and reasons, which quote them. A digest over all of it
//! tells whether the file was changed. Nothing in it is secret: of configurations there are only digests.

use std::collections::{BTreeMap, BTreeSet};

use model::mark::Mark;
use model::observed::Observed;
use model::plan::Plan;
use model::step::{Action, Disturbs, StepId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::session::Look;

/// The form of the file. A file of another form is refused.
const FORM: u32 = 3;
/// Facts that no plan depends on, by the last part of their name.
const PASSING: &[&str] =
    &["free_bytes", "memory_used_mib", "lease", "turns", "lease_turns", "id", "unmet", "why", "description"];
/// Facts of which only a digest is kept, because people may have written secrets into them.
const PRIVATE: &[&str] =
    &["cluster_id", "patch", "manifest", "secret", "token", "password", "registr", "gitops"];
/// Longer values are kept as a digest, too.
const LONG: usize = 200;

/// A plan and the world that it was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPlan {
    /// The form of this file.
    pub talosmith_plan: u32,
    /// Over everything in this file.
    pub digest: String,
    /// What it is about.
    pub plan: Plan,
    /// Nodes whose data may be deleted. Whoever reviewed the plan saw that, so it is not asked for again.
    pub allowed: BTreeSet<String>,
    /// What the file asked for and what was seen, fact by fact.
    pub facts: BTreeMap<String, String>,
}

/// Why a saved plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It is not a saved plan.
    #[error("it is not a plan that `talosmith plan -o` has written")]
    NotAPlan(#[source] serde_json::Error),
    /// Another release wrote it.
    #[error("it was written by another release of Talosmith (form {0}, this one reads {FORM})")]
    OtherForm(u32),
    /// Its digest does not fit what it holds.
    #[error("it was changed after it was written: its digest does not fit")]
    Tampered,
}

impl SavedPlan {
    /// The plan of this look, to be saved.
    #[must_use]
    pub fn new(look: &Look, plan: &Plan) -> Self {
        let (facts, allowed) = (facts(look), look.allowed().clone());
        let digest = digest(plan, &allowed, &facts);
        Self { talosmith_plan: FORM, digest, plan: plan.clone(), allowed, facts }
    }

    /// Reads a saved plan.
    ///
    /// # Errors
    ///
    /// When it is something else, or was changed.
    pub fn parse(text: &str) -> Result<Self, Unusable> {
        let saved: Self = serde_json::from_str(text).map_err(Unusable::NotAPlan)?;
        if saved.talosmith_plan != FORM {
            return Err(Unusable::OtherForm(saved.talosmith_plan));
        }
        if saved.digest != digest(&saved.plan, &saved.allowed, &saved.facts) {
            return Err(Unusable::Tampered);
        }
        Ok(saved)
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
        work(&now.plan) == work(&self.plan)
            && now.plan.refusals.is_empty() == self.plan.refusals.is_empty()
            && now.facts == self.facts
            && now.allowed == self.allowed
    }
}

/// What a plan does: all of its steps but their reasons.
fn work(plan: &Plan) -> Vec<(&StepId, &Action, &[StepId], Disturbs)> {
    plan.steps.iter().map(|step| (&step.id, &step.action, step.after.as_slice(), step.disturbs)).collect()
}

/// What was seen, without what is other people's: their guests, marks and images. Where such a thing is in our way, the plan
/// itself differs.
fn of_ours(look: &Look) -> Observed {
    let (mut seen, blueprint) = ((*look.observed).clone(), &look.blueprint);
    let ids: BTreeSet<u32> =
        blueprint.nodes.values().map(|node| node.vmid).chain([blueprint.record.vmid]).collect();
    seen.proxmox.taken.retain(|vmid, _| ids.contains(vmid));
    if let Some(owner) = blueprint.cluster_id.as_deref().map(Mark::owner_of) {
        seen.proxmox.marked.retain(|vm| vm.mark.owner == owner);
    }
    let files: BTreeSet<String> = blueprint
        .images
        .iter()
        .filter_map(|(key, image)| Some(image.file_name(look.rendered.schematics.get(key)?)))
        .collect();
    seen.proxmox.images.retain(|image| files.contains(&image.file));
    seen
}

/// Everything that a plan depends on, flattened to lines.
fn facts(look: &Look) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    // These types always have a form in JSON; one that had none would show as a missing fact on both sides.
    for (name, value) in
        [("file", serde_json::to_value(&*look.blueprint)), ("world", serde_json::to_value(of_ours(look)))]
    {
        flatten(name.to_owned(), &value.unwrap_or_default(), &mut facts);
    }
    for (node, digest) in &look.rendered.configs {
        facts.insert(format!("configuration/{node}"), digest.clone());
    }
    for (image, schematic) in &look.rendered.schematics {
        facts.insert(format!("schematic/{image}"), schematic.clone());
    }
    facts
}

fn flatten(name: String, value: &Value, into: &mut BTreeMap<String, String>) {
    if PASSING.iter().any(|passing| name.rsplit('/').next() == Some(*passing)) {
        return;
    }
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (key, value) in fields {
                flatten(format!("{name}/{key}"), value, into);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                // Things with a name keep it wherever they stand in the list.
                let own = ["vmid", "name", "what", "file"].iter().find_map(|key| item.get(*key));
                let own =
                    own.map_or_else(|| at.to_string(), |own| own.to_string().trim_matches('"').to_owned());
                flatten(format!("{name}/{own}"), item, into);
            }
        }
        Value::String(text) => keep(name, text, into),
        other => keep(name, &other.to_string(), into),
    }
}

fn keep(name: String, text: &str, into: &mut BTreeMap<String, String>) {
    let private = PRIVATE.iter().any(|word| name.contains(word)) || text.len() > LONG || text.contains('\n');
    let text = match private {
        true => format!("sha256:{}", hex::encode(Sha256::digest(text))),
        false => text.to_owned(),
    };
    into.insert(name, text);
}

fn digest(plan: &Plan, allowed: &BTreeSet<String>, facts: &BTreeMap<String, String>) -> String {
    let text = serde_json::to_vec(&(plan, allowed, facts)).unwrap_or_default();
    hex::encode(Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> SavedPlan {
        let plan = Plan {
            cluster: "home".into(),
            steps: vec![],
            notices: vec![],
            blocked: vec![],
            refusals: vec![],
            held: vec![],
        };
        let facts = BTreeMap::from([("world/proxmox/version".to_owned(), "9.1.8".to_owned())]);
        let allowed = BTreeSet::from(["home-work-1".to_owned()]);
        SavedPlan { talosmith_plan: FORM, digest: digest(&plan, &allowed, &facts), plan, allowed, facts }
    }

    #[test]
    fn a_saved_plan_is_read_again_and_a_changed_one_is_not() {
        let text = saved().to_text();
        assert_eq!(SavedPlan::parse(&text).unwrap(), saved());
        assert!(matches!(SavedPlan::parse(&text.replace("9.1.8", "9.1.9")), Err(Unusable::Tampered)));
        assert!(matches!(SavedPlan::parse("cluster: home"), Err(Unusable::NotAPlan(_))));
        let more = text.replace("home-work-1", "home-work-2");
        assert!(matches!(SavedPlan::parse(&more), Err(Unusable::Tampered)), "nobody reviewed that");
        let later = text.replace("\"talosmith_plan\": 3", "\"talosmith_plan\": 4");
        assert!(matches!(SavedPlan::parse(&later), Err(Unusable::OtherForm(4))));
    }

    #[test]
    fn facts_have_names_that_do_not_move() {
        let mut facts = BTreeMap::new();
        let value = serde_json::json!({
            "marked": [{ "vmid": 11, "running": true }, { "vmid": 12, "running": false }],
            "free_bytes": 17, "memory_used_mib": 4, "lock": null, "patches": ["machine: {}"],
        });
        flatten("world".to_owned(), &value, &mut facts);
        let lines: Vec<String> = facts.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(
            lines,
            [
                "world/marked/11/running=true",
                "world/marked/11/vmid=11",
                "world/marked/12/running=false",
                "world/marked/12/vmid=12",
                "world/patches/0=sha256:3b73c63331cfca1624b3da70ba32de969473f409c803615c186edb8365ba2cdd",
            ]
        );
    }
}
