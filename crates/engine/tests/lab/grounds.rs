//! Proxmox is made ready by an administrator, and proved to be so with the token that came of it.

use engine::doctor::{self, Finding, Verdict};
use engine::grounds::{Grounds, Task, Whom};
use engine::{Session, World};
use lab::{Disturbance, LabConfig};
use secrecy::ExposeSecret;

use crate::rig::{HOME, Rig, bundle, spec};

fn whom() -> Whom {
    Whom { user: "talosmith@pve".to_owned(), token: "talosmith".to_owned(), renew: false }
}

/// The same world with the token instead of the administrator.
fn with_token(rig: &Rig, token: &pve::Token) -> World {
    let facts = rig.lab.facts();
    let trust = pve::Trust::Fingerprints(vec![facts.fingerprint.parse().unwrap()]);
    let endpoints = pve::Endpoints::parse(["https://pve1:8006"]).unwrap();
    let token = token.reveal().expose_secret().parse().unwrap();
    let pve =
        pve::Client::connect(endpoints, &token, &trust, rig.lab.net(), rig.world.clock.clone()).unwrap();
    World { pve, ..rig.world.clone() }
}

fn bad(found: &[Finding]) -> Vec<&Finding> {
    found.iter().filter(|finding| finding.verdict == Verdict::Bad).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_set_up_is_enough_and_setting_up_again_does_nothing() {
    let rig = Rig::new();
    let file = spec(HOME);
    let grounds = Grounds::survey(&rig.world, &file, &whom()).await.unwrap();
    let token = grounds.prepare(&rig.world.pve, |_| {}).await.unwrap().expect("a token was made");
    assert_eq!(token.id(), "talosmith@pve!talosmith");
    let again = Grounds::survey(&rig.world, &file, &whom()).await.unwrap();
    assert!(again.tasks.is_empty() && again.token_kept, "{again:?}");

    let world = with_token(&rig, &token);
    let found = doctor::examine(&world, &file).await.unwrap();
    assert_eq!(doctor::verdict(&found), Verdict::Good, "{found:?}");
    // The proof: a cluster comes up with this token alone.
    let rig = Rig { world: world.clone(), ..rig };
    let look = Session::new(world, file, Some(bundle())).look().await.map_err(|_| "no look").unwrap();
    let plan = look.plan();
    let ran = rig.carry_out(&look, &plan, "me").await.unwrap();
    assert_eq!(ran.failures(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_named_with_its_place_and_the_command() {
    let rig = Rig::new();
    let file = spec(HOME);
    let grounds = Grounds::survey(&rig.world, &file, &whom()).await.unwrap();
    let without = |task: &&Task| !matches!(task, Task::Grant(grant) if grant.path == "/storage/local-lvm");
    let fewer = Grounds { tasks: grounds.tasks.iter().filter(without).cloned().collect(), ..grounds.clone() };
    fewer.prepare(&rig.world.pve, |_| {}).await.unwrap();
    let whole = Grounds::survey(&rig.world, &file, &whom()).await.unwrap();
    let left: Vec<String> = whole.tasks.iter().map(ToString::to_string).collect();
    assert_eq!(left, ["give the role Talosmith at /storage/local-lvm and below to the user and the token"]);

    whole.prepare(&rig.world.pve, |_| {}).await.unwrap();
    rig.lab.disturb(Disturbance::HostClock { node: "pve2".to_owned(), ahead: 90 });
    let nobody = pve::NewToken {
        user: "talosmith@pve".to_owned(),
        name: "bare".to_owned(),
        separated: true,
        comment: String::new(),
    };
    let bare = with_token(&rig, &rig.world.pve.create_token(&nobody).await.unwrap());
    let named = "hosts: { pve1: { datastores: { image: local, disks: local-lvm } } }\n";
    let file = spec(&format!("{HOME}{named}"));
    let found = match doctor::examine(&bare, &file).await {
        Ok(found) | Err(doctor::Unexamined::File(_, found)) => found,
        Err(doctor::Unexamined::World(error)) => panic!("{error}"),
    };
    let vms =
        bad(&found).into_iter().find(|finding| finding.what == "privileges at /vms").expect("a finding");
    assert!(vms.detail.contains("VM.Allocate (create and delete VMs)"), "{vms:?}");
    assert_eq!(
        vms.remedy.last().unwrap(),
        "pveum acl modify /vms --roles Talosmith --users 'talosmith@pve' --tokens 'talosmith@pve!bare'"
    );
    let found = doctor::examine(&rig.world, &spec(HOME)).await.unwrap();
    let clock = found.iter().find(|finding| finding.what == "clock of pve2").unwrap();
    assert_eq!(
        (clock.verdict, clock.detail.as_str()),
        (Verdict::Doubtful, "90 s ahead of ours; machines take their time from it")
    );
}

#[tokio::test(start_paused = true)]
async fn content_devices_and_pools_are_made_ready() {
    let mut config = LabConfig::default();
    for storage in config.hosts.iter_mut().flat_map(|host| &mut host.storages) {
        storage.content.retain(|kind| kind != "import");
    }
    let rig = Rig::with(config);
    let text =
        HOME.replace("count: 2 }", "count: 2, pci: ['01:00.0'] }").replace("8006'", "8006', pool: k8s");
    let file = spec(&text);
    let grounds = Grounds::survey(&rig.world, &file, &whom()).await.unwrap();
    let tasks: Vec<String> = grounds.tasks.iter().map(ToString::to_string).collect();
    assert_eq!(tasks[0], "let the storage local hold images to import");
    assert_eq!(tasks[1], "give the device 0000:01:00.0 on pve1, pve2, pve3 the name pci-0000-01-00-0");
    assert!(tasks.contains(&"make the pool k8s".to_owned()), "{tasks:?}");
    grounds.prepare(&rig.world.pve, |_| {}).await.unwrap();
    let again = Grounds::survey(&rig.world, &file, &whom()).await.unwrap();
    assert_eq!(again.tasks, []);
    assert_eq!(again.names["0000:01:00.0"], "pci-0000-01-00-0");
}
