//! Before a record is created every VM is read; one that cannot be read may be the cluster's.

use std::time::Duration;

use engine::doctor::{self, Finding, Verdict};
use lab::{CallFilter, Injection};
use model::event::Outcome;
use model::plan::{Plan, RefusalCode};
use pve::{Endpoints, Grant, NewToken, Params, Trust};
use secrecy::ExposeSecret as _;

use crate::rig::{HOME, Rig, examine, spec};

const RECORD: u32 = 150_010;

fn params(pairs: &[(&str, &str)]) -> Params {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn notes(plan: &Plan) -> Vec<&str> {
    plan.notes.iter().map(|note| note.text.as_str()).filter(|text| text.contains("checked")).collect()
}

impl Rig {
    /// A VM of another user.
    async fn theirs(&self, host: &str, vmid: u32) {
        let pve = &self.systems.pve;
        let request = params(&[("name", "web"), ("memory", "512")]);
        pve.follow(&pve.create_vm(host, vmid, &request).await.unwrap(), |_| {}).await.unwrap();
        self.systems.clock.sleep(Duration::from_secs(30)).await;
    }

    fn fail(&self, vmid: u32, status: u16, text: &str) {
        let path_contains = format!("/qemu/{vmid}/");
        let which = CallFilter { method: "GET".to_owned(), path_contains, skip: 0 };
        self.lab.inject(Injection::FailCall { which, status, text: text.to_owned() });
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_vm_keeps_a_new_cluster_from_being_created() {
    let rig = Rig::new();
    rig.theirs("pve2", 4711).await;
    rig.fail(4711, 500, "unable to read the file");
    let plan = rig.observe(HOME).await.plan();
    assert_eq!(plan.steps, []);
    assert_eq!(plan.refusals.iter().map(|r| r.code).collect::<Vec<_>>(), [RefusalCode::NoRecord]);
    let refusal = &plan.refusals[0];
    assert!(refusal.why.contains("VM 4711 (web) on pve2"), "{refusal:?}");
    assert!(refusal.hint.contains("`hosts: { pve1: {}, pve3: {} }`"), "{refusal:?}");
    // A right that is missing is no such reason.
    rig.fail(4711, 403, "Permission check failed (/vms/4711, VM.Audit)");
    let plan = rig.observe(HOME).await.plan();
    assert_eq!(plan.refusals, []);
    assert!(
        notes(&plan)[0].starts_with("1 VM cannot be checked: the token has no right"),
        "{:?}",
        plan.notes
    );
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
}

/// The record lost its tag, got another name and ID, and cannot be read: that is a lost record and not a new cluster.
#[tokio::test(start_paused = true)]
async fn an_unreadable_record_under_another_id_is_not_a_missing_one() {
    let rig = Rig::new();
    let snapshot = rig.observe(HOME).await;
    let mut plan = snapshot.plan();
    plan.steps.retain(|step| step.id.0 == "create-record");
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let host = rig.host_of(RECORD).await;
    let systems = rig.lab.shared().read(|systems, _| serde_json::to_vec(systems).unwrap());
    let mut systems: serde_json::Value = serde_json::from_slice(&systems).unwrap();
    let vms = systems["hypervisor"]["vms"].as_object_mut().unwrap();
    let mut record = vms.remove(&RECORD.to_string()).unwrap();
    record["vmid"] = 4711.into();
    record["config"]["name"] = "other".into();
    record["config"].as_object_mut().unwrap().remove("tags");
    vms.insert("4711".to_owned(), record);
    let rig = Rig::copy_of(&serde_json::to_vec(&systems).unwrap());
    rig.fail(4711, 595, "No route to host");
    let plan = rig.observe(HOME).await.plan();
    assert_eq!(plan.steps, []);
    let told = format!("VM 4711 (other) on {host}");
    assert!(plan.refusals.iter().any(|r| r.why.contains(&told)), "{:?}", plan.refusals);
}

/// One host of a home lab is down. VMs that are known to be others' are counted; the way on is in the plan.
#[tokio::test(start_paused = true)]
async fn an_offline_host_is_named_before_a_new_cluster_is_created() {
    let rig = Rig::new();
    rig.theirs("pve3", 4711).await;
    rig.lab.inject(Injection::HostOffline("pve3".to_owned()));
    let plan = rig.observe(HOME).await.plan();
    assert_eq!(plan.refusals, []);
    assert!(
        notes(&plan)[0].starts_with("1 VM on pve3 cannot be checked: the host is offline"),
        "{:?}",
        plan.notes
    );
    // Without its name, which a real Proxmox does not list then, and with our tag, it may be ours.
    let pve = &rig.systems.pve;
    rig.lab.inject(Injection::HostOnline("pve3".to_owned()));
    pve.update_config("pve3", 4711, &params(&[("tags", "talosmith")]), &[], None).await.unwrap();
    rig.lab.inject(Injection::HostOffline("pve3".to_owned()));
    let plan = rig.observe(HOME).await.plan();
    assert_eq!(plan.steps, []);
    assert!(plan.refusals[0].why.contains("VM 4711 (web) on pve3"), "{:?}", plan.refusals);
    let without = HOME.replace("pools:", "hosts: { pve1: {}, pve2: {} }\npools:");
    let ran = rig.apply(&without).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
}

impl Rig {
    /// The same lab with a token that may do everything, but sees nothing of these VMs.
    async fn blind_to(&self, vmids: &[u32]) -> Self {
        let hidden: Vec<_> = vmids.iter().map(|vmid| (format!("/vms/{vmid}"), "NoAccess")).collect();
        self.limited(&hidden).await
    }

    /// The same lab with a token that has these roles at these paths, and may do everything elsewhere.
    async fn limited(&self, grants: &[(String, &str)]) -> Self {
        let (pve, facts) = (&self.systems.pve, self.lab.facts());
        pve.create_user("blind@pve", "").await.unwrap();
        let (user, name) = ("blind@pve".to_owned(), "t1".to_owned());
        let request = NewToken { user: user.clone(), name, separated: true, comment: String::new() };
        let token = pve.create_token(&request).await.unwrap();
        for (path, role) in grants.iter().cloned().chain([("/".to_owned(), "Administrator")]) {
            let (role, token) = (role.to_owned(), "blind@pve!t1".to_owned());
            pve.grant(&Grant { path, role, user: user.clone(), token, propagate: true }).await.unwrap();
        }
        let token = token.reveal().expose_secret().parse().unwrap();
        let trust = Trust::Fingerprints(vec![facts.fingerprint.parse().unwrap()]);
        let endpoints = Endpoints::parse([format!("https://{}", facts.endpoint).as_str()]).unwrap();
        let (net, clock) = (self.systems.net.clone(), self.systems.clock.clone());
        let pve = pve::Client::connect(endpoints, &token, &trust, net, clock).unwrap();
        self.with_world(engine::Systems { pve, ..self.systems.clone() })
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_token_may_not_see_is_not_absent() {
    let file = HOME.replace("8006' }", "8006', record: 9999 }");
    for (hidden, whose) in [(RECORD, "the cluster record VM"), (150_021, "home-work-1")] {
        let rig = Rig::healthy().await.blind_to(&[hidden]).await;
        let destroy = rig.session(HOME).observe_to_destroy().await.unwrap_or_else(|e| panic!("{e:?}"));
        let mut plans = vec![rig.observe(HOME).await.plan(), destroy.plan_destroy()];
        if hidden == RECORD {
            // Nor is a second record created under another ID.
            plans.push(rig.observe(&file).await.plan());
        }
        for plan in plans {
            assert_eq!(plan.steps, []);
            let why: Vec<&str> = plan.refusals.iter().map(|refusal| refusal.why.as_str()).collect();
            let wanted =
                format!("VM {hidden}, which has the VM ID of {whose}, exists, and the token may not see it");
            assert!(why.contains(&wanted.as_str()), "{why:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_is_listed_and_that_no_host_has_is_not_absent() {
    let rig = Rig::healthy().await;
    // Every host, at both looks.
    for _ in 0..8 {
        rig.fail(150_021, 500, "Configuration file 'nodes/pve1/qemu-server/150021.conf' does not exist");
    }
    let plan = rig.observe(HOME).await.plan();
    assert!(!plan.is_empty());
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_off_leaves_unknown_what_it_has() {
    let rig = Rig::healthy().await;
    let host = rig.host_of(150_022).await;
    if host == rig.host_of(RECORD).await {
        return;
    }
    rig.lab.inject(Injection::HostOffline(host));
    let plan = rig.observe(HOME).await.plan();
    assert_eq!(plan.refusals, []);
    assert!(plan.unknown.iter().any(|n| n.text.contains("home-work-2")), "{:?}", plan.unknown);
    assert!(!plan.is_empty());
}

/// VMs that the token may not see, and whose IDs are in use: `doctor` fails for the reason for which the plan refuses, with the
/// privilege that is missing.
#[tokio::test(start_paused = true)]
async fn left_5_doctor_names_vms_that_the_token_may_not_see() {
    for hidden in [&[RECORD][..], &[150_021, 150_022], &[]] {
        let rig = Rig::healthy().await.blind_to(hidden).await;
        let plan = rig.observe(HOME).await.plan();
        let found = examine(&rig.systems, &spec(HOME)).await.unwrap();
        assert_eq!(plan.refusals.is_empty(), hidden.is_empty(), "{:?}", plan.refusals);
        let verdict = if hidden.is_empty() { Verdict::Ok } else { Verdict::Error };
        assert_eq!(doctor::verdict(&found), verdict, "{found:?}");
        for vmid in hidden {
            let names_it = |finding: &&Finding| {
                finding.verdict == Verdict::Error && finding.detail.contains(&format!("VM {vmid}, "))
            };
            let finding = found.iter().find(names_it).unwrap_or_else(|| panic!("{vmid}: {found:?}"));
            let hint = finding.hint.join(" ");
            assert!(hint.contains(&format!("VM.Audit on /vms/{vmid}")), "{hint}");
        }
        let says_yes = found.iter().any(|finding| finding.what == "plan" && finding.verdict == Verdict::Ok);
        assert_eq!(says_yes, hidden.is_empty(), "{found:?}");
    }
}

/// The same where the token lacks privileges for a node that is to be created, too: neither hides the other.
#[tokio::test(start_paused = true)]
async fn left_5_doctor_names_hidden_vms_beside_missing_privileges() {
    let limits = [("/vms/150021".to_owned(), "NoAccess"), ("/storage/local-lvm".to_owned(), "PVEAuditor")];
    let rig = Rig::healthy().await.limited(&limits).await;
    let file = HOME.replace("worker, count: 2", "worker, count: 3");
    let found = examine(&rig.systems, &spec(&file)).await.unwrap();
    let errors: Vec<&Finding> = found.iter().filter(|finding| finding.verdict == Verdict::Error).collect();
    assert!(errors.iter().any(|finding| finding.detail.contains("VM 150021, ")), "{errors:?}");
    assert!(errors.iter().any(|finding| finding.detail.contains("Datastore.AllocateSpace")), "{errors:?}");
}
