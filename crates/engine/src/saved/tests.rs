//! What a saved plan proves, and what it does not show.

use super::*;
use talos::secrets::Bundle;

fn key() -> PlanKey {
    let contract = talos::config::Contract::parse("v1.13.9").unwrap();
    PlanKey::of(&Bundle::placeholder(contract, "2026-01-01T00:00:00Z".parse().unwrap()).unwrap())
}

fn saved(key: Option<&PlanKey>) -> SavedPlan {
    let plan = Plan {
        cluster: "home".into(),
        steps: vec![],
        units: vec![],
        unknown: vec![],
        notes: vec![],
        blocked: vec![],
        refusals: vec![],
        held: vec![],
        upgrade: None,
    };
    let facts = BTreeMap::from([("world/proxmox/version".to_owned(), "9.1.8".to_owned())]);
    let goals = BTreeSet::from([Goal::Update { node: "home-work-1".into() }]);
    let allowed = Allowed::data_of(["home-work-1"]);
    let mut saved = SavedPlan {
        talosmith_plan: FORM,
        hmac_sha256: None,
        plan,
        allowed,
        targets: BTreeSet::new(),
        goals,
        facts,
    };
    saved.hmac_sha256 = key.map(|key| key.sign(&saved.signed()));
    saved
}

#[test]
fn a12_a_plan_that_was_edited_is_refused_whatever_digest_it_carries() {
    let (key, another) = (key(), key());
    let text = saved(Some(&key)).to_text();
    let read = SavedPlan::parse(&text).unwrap();
    assert_eq!(read, saved(Some(&key)));
    assert!(read.verify(Some(&key)).is_ok());
    for (from, to) in [("9.1.8", "9.1.9"), ("home-work-1", "home-work-2")] {
        let mut edited = SavedPlan::parse(&text.replace(from, to)).unwrap();
        assert!(matches!(edited.verify(Some(&key)), Err(Unusable::Tampered)), "{from}");
        // An editor can compute a digest, but not with the key.
        edited.hmac_sha256 = Some(hex::encode(Sha256::digest(edited.signed())));
        assert!(matches!(edited.verify(Some(&key)), Err(Unusable::Tampered)), "{from}");
        edited.hmac_sha256 = Some(another.sign(&edited.signed()));
        assert!(matches!(edited.verify(Some(&key)), Err(Unusable::Tampered)), "{from}");
        edited.hmac_sha256 = None;
        assert!(matches!(edited.verify(Some(&key)), Err(Unusable::Unauthenticated)), "{from}");
    }
}

#[test]
fn a12_a_plan_without_a_key_approves_and_allows_nothing() {
    let mut unproved = saved(None);
    assert!(matches!(unproved.verify(None), Err(Unusable::Deletes)));
    unproved.allowed = Allowed::default();
    assert!(unproved.verify(None).is_ok());
    assert!(matches!(unproved.verify(Some(&key())), Err(Unusable::Unauthenticated)));
    assert!(matches!(saved(Some(&key())).verify(None), Err(Unusable::NoKey)));
}

#[test]
fn a12_a_saved_plan_has_a_form_and_another_one_is_refused() {
    let text = saved(None).to_text();
    let form = |form: &str| SavedPlan::parse(&text.replace("\"talosmith_plan\": 7", form));
    assert!(matches!(form("\"talosmith_plan\": 8"), Err(Unusable::Newer(8))));
    assert!(matches!(form("\"talosmith_plan\": 6"), Err(Unusable::Older(6))));
    assert!(matches!(form("\"other\": 6"), Err(Unusable::NoForm)));
    assert!(matches!(form("\"talosmith_plan\": 7, \"more\": 1"), Err(Unusable::NotAPlan(_))));
    assert!(matches!(SavedPlan::parse("cluster: home"), Err(Unusable::NotAPlan(_))));
}

#[test]
fn a12_what_the_file_says_is_kept_as_digests() {
    let key = key();
    let value = serde_json::json!({
        "marked": [{ "vmid": 11, "running": true }, { "vmid": 12, "running": false }],
        "free_bytes": 17, "memory_used_mib": 4, "lock": null, "password": "hunter2",
    });
    let file = serde_json::json!({
        "cores": 2,
        "options": { "kubernetes": { "cni": { "values": { "hunter2-key": ["hunter2"] } } } },
        "patches": [{ "text": "hunter2" }],
    });
    for key in [Some(&key), None] {
        let mut facts = Facts { key, lines: BTreeMap::new() };
        facts.flatten("world".to_owned(), &value);
        facts.flatten("file".to_owned(), &file);
        let told: Vec<&str> = facts.lines.keys().map(String::as_str).collect();
        assert_eq!(
            told,
            [
                "file/cores",
                "file/options/kubernetes/cni/values",
                "file/patches",
                "world/marked/11/running",
                "world/marked/11/vmid",
                "world/marked/12/running",
                "world/marked/12/vmid",
                "world/password",
            ]
        );
        assert_eq!(facts.lines["world/marked/11/running"], "true");
        assert!(!format!("{:?}", facts.lines).contains("hunter2"), "{:?}", facts.lines);
    }
}

#[test]
fn a_saved_plan_with_repeated_or_unknown_keys_is_refused() {
    let text = saved(Some(&key())).to_text();
    let edited = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}: {text}");
        SavedPlan::parse(&text.replacen(from, to, 1))
    };
    let twice = edited("\"steps\": []", "\"steps\": [], \"steps\": []").unwrap_err();
    assert!(
        matches!(&twice, Unusable::NotAPlan(why) if why.to_string().contains("`steps` occurs twice")),
        "{twice:?}"
    );
    let unknown = edited("\"steps\": []", "\"steps\": [], \"approved\": true").unwrap_err();
    assert!(matches!(unknown, Unusable::Unknown), "{unknown:?}");
    assert!(edited("\"talosmith_plan\": 7", "\"talosmith_plan\": 7, \"talosmith_plan\": 7").is_err());
}
