//! Proxmox is made ready by an administrator, and proved to be so with the token that came of it.

use engine::doctor::{self, Finding, Verdict};
use engine::setup::{SetupPlan, Task, Whom};
use engine::{Session, Systems};
use lab::{Injection, LabConfig};
use model::event::Outcome;
use secrecy::ExposeSecret;

use crate::rig::{HOME, Rig, bundle, examine, spec};

fn whom() -> Whom {
    Whom {
        user: "talosmith@pve".to_owned(),
        token: "talosmith".to_owned(),
        renew: false,
        accounts: false,
        maintenance: false,
    }
}

/// The same world with the token instead of the administrator.
fn with_token(rig: &Rig, token: &pve::Token) -> Systems {
    let facts = rig.lab.facts();
    let trust = pve::Trust::Fingerprints(vec![facts.fingerprint.parse().unwrap()]);
    let endpoints = pve::Endpoints::parse(["https://pve1:8006"]).unwrap();
    let token = token.reveal().expose_secret().parse().unwrap();
    let pve =
        pve::Client::connect(endpoints, &token, &trust, rig.lab.net(), rig.systems.clock.clone()).unwrap();
    Systems { pve, ..rig.systems.clone() }
}

fn errors(found: &[Finding]) -> Vec<&Finding> {
    found.iter().filter(|finding| finding.verdict == Verdict::Error).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_set_up_is_enough_and_setting_up_again_does_nothing() {
    let rig = Rig::new();
    let file = spec(HOME);
    let setup_plan = SetupPlan::survey(&rig.systems, &file, &whom()).await.unwrap();
    let token = setup_plan.prepare(&rig.systems.pve, |_| {}).await.unwrap().unwrap();
    assert_eq!(token.id(), "talosmith@pve!talosmith");
    let again = SetupPlan::survey(&rig.systems, &file, &whom()).await.unwrap();
    assert!(again.tasks.is_empty() && again.token_kept, "{again:?}");

    let systems = with_token(&rig, &token);
    let found = examine(&systems, &file).await.unwrap();
    assert_eq!(doctor::verdict(&found), Verdict::Ok, "{found:?}");
    // The proof: a cluster comes up with this token alone.
    let rig = rig.with_world(systems.clone());
    let snapshot =
        Session::new(systems, file, Some(bundle())).observe().await.map_err(|_| "no look").unwrap();
    let plan = snapshot.plan();
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.failures(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_named_with_its_place_and_the_command() {
    let rig = Rig::new();
    let file = spec(HOME);
    let setup_plan = SetupPlan::survey(&rig.systems, &file, &whom()).await.unwrap();
    let without = |task: &&Task| !matches!(task, Task::Grant(grant) if grant.path == "/storage/local-lvm");
    let fewer =
        SetupPlan { tasks: setup_plan.tasks.iter().filter(without).cloned().collect(), ..setup_plan.clone() };
    fewer.prepare(&rig.systems.pve, |_| {}).await.unwrap();
    let whole = SetupPlan::survey(&rig.systems, &file, &whom()).await.unwrap();
    let left: Vec<String> = whole.tasks.iter().map(ToString::to_string).collect();
    assert_eq!(
        left,
        ["grant the role Talosmith-home at /storage/local-lvm and below to the user and the token"]
    );

    whole.prepare(&rig.systems.pve, |_| {}).await.unwrap();
    rig.lab.inject(Injection::HostClock { node: "pve2".to_owned(), ahead: 90 });
    let no_one = pve::NewToken {
        user: "talosmith@pve".to_owned(),
        name: "bare".to_owned(),
        separated: true,
        comment: String::new(),
    };
    let bare = with_token(&rig, &rig.systems.pve.create_token(&no_one).await.unwrap());
    let named = "hosts: { pve1: { datastores: { image: local, disks: local-lvm } } }\n";
    let file = spec(&format!("{HOME}{named}"));
    let found = match examine(&bare, &file).await {
        Ok(found) | Err(doctor::Unexamined::File(_, found)) => found,
        Err(doctor::Unexamined::Systems(error)) => panic!("{error}"),
    };
    let vms = errors(&found).into_iter().find(|finding| finding.what == "privileges at /vms").unwrap();
    assert!(vms.detail.contains("VM.Allocate (create and delete VMs)"), "{vms:?}");
    assert_eq!(
        vms.hint.last().unwrap(),
        "pveum acl modify /vms --roles Talosmith-home --users 'talosmith@pve' --tokens 'talosmith@pve!bare'"
    );
    let found = examine(&rig.systems, &spec(HOME)).await.unwrap();
    let clock = found.iter().find(|finding| finding.what == "clock of pve2").unwrap();
    assert_eq!(
        (clock.verdict, clock.detail.as_str()),
        (Verdict::Warning, "90 s ahead of this computer; VMs start with the host's clock")
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
    let setup_plan = SetupPlan::survey(&rig.systems, &file, &whom()).await.unwrap();
    let tasks: Vec<String> = setup_plan.tasks.iter().map(ToString::to_string).collect();
    assert_eq!(tasks[0], "allow the content type `import` on the datastore local");
    assert_eq!(tasks[1], "map the device 0000:01:00.0 on pve1, pve2, pve3 as pci-0000-01-00-0");
    assert!(tasks.contains(&"create the pool k8s".to_owned()), "{tasks:?}");
    setup_plan.prepare(&rig.systems.pve, |_| {}).await.unwrap();
    let again = SetupPlan::survey(&rig.systems, &file, &whom()).await.unwrap();
    assert_eq!(again.tasks, []);
    assert_eq!(again.names["0000:01:00.0"], "pci-0000-01-00-0");
}

/// Brings a file up with the token that was set up for it, and nothing else.
async fn brought_up(rig: Rig, text: &str, whom: &Whom) -> Vec<String> {
    let file = spec(text);
    let setup_plan = SetupPlan::survey(&rig.systems, &file, whom).await.unwrap();
    let token = setup_plan.prepare(&rig.systems.pve, |_| {}).await.unwrap().unwrap();
    let systems = with_token(&rig, &token);
    let rig = rig.with_world(systems.clone());
    let snapshot =
        Session::new(systems, file, Some(bundle())).observe().await.map_err(|_| "no look").unwrap();
    let plan = snapshot.plan();
    assert_eq!(plan.refusals, []);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    let resources = rig.systems.pve.cluster_resources().await.unwrap();
    let untagged = resources.iter().filter(|r| r.kind == "qemu" && !r.tags.contains(&"talosmith".to_owned()));
    assert_eq!(untagged.count(), 0);
    ran.failures()
}

#[tokio::test(start_paused = true)]
async fn p1_with_a_pool_the_least_rights_are_enough_for_record_templates_and_nodes() {
    for delivery in ["import", "template"] {
        let rig = Rig::new();
        let text = HOME
            .replace("8006'", "8006', pool: k8s")
            .replace("pools:", &format!("image: {{ delivery: {delivery} }}\npools:"));
        assert_eq!(brought_up(rig, &text, &whom()).await, Vec::<String>::new(), "{delivery}");
    }
}

#[tokio::test(start_paused = true)]
async fn p2_a_mapping_made_by_setup_starts_and_doctor_checks_it_on_each_host() {
    let by_address = HOME.replace("count: 2 }", "count: 2, pci: ['01:00.0'] }");
    let by_name = by_address.replace("01:00.0", "pci-0000-01-00-0");
    let rig = Rig::new();
    let setup_plan = SetupPlan::survey(&rig.systems, &spec(&by_address), &whom()).await.unwrap();
    setup_plan.prepare(&rig.systems.pve, |_| {}).await.unwrap();
    let found = examine(&rig.systems, &spec(&by_name)).await.unwrap();
    assert_eq!(errors(&found), Vec::<&Finding>::new());
    let ran = rig.apply(&by_name).await;
    assert_eq!(ran.failures(), Vec::<String>::new());

    // A mapping of an earlier version lacks what the host says of its device: it must not pass for good.
    let rig = Rig::new();
    let old: Vec<String> =
        (1..=3).map(|n| format!("node=pve{n},path=0000:01:00.0,id=10de:2204,iommugroup=11")).collect();
    rig.systems.pve.create_pci_mapping("pci-0000-01-00-0", &old).await.unwrap();
    let found = examine(&rig.systems, &spec(&by_name)).await.unwrap();
    let told: Vec<&str> = errors(&found).iter().map(|finding| finding.detail.as_str()).collect();
    assert!(!told.is_empty() && told.iter().all(|detail| detail.contains("subsystem-id")), "{found:?}");
    // Setup corrects one that it made itself, which is known by its name.
    let setup_plan = SetupPlan::survey(&rig.systems, &spec(&by_address), &whom()).await.unwrap();
    setup_plan.prepare(&rig.systems.pve, |_| {}).await.unwrap();
    let found = examine(&rig.systems, &spec(&by_name)).await.unwrap();
    assert_eq!(errors(&found), Vec::<&Finding>::new());
}

/// What a token may do, path by path.
async fn allowed(rig: &Rig, token: &pve::Token) -> String {
    let permissions = with_token(rig, token).pve.permissions().await.unwrap();
    format!("{permissions:?}")
}

async fn set_up(rig: &Rig, text: &str, token: &str) -> Option<pve::Token> {
    let whom = Whom { token: token.to_owned(), ..whom() };
    let setup_plan = SetupPlan::survey(&rig.systems, &spec(text), &whom).await.unwrap();
    setup_plan.prepare(&rig.systems.pve, |_| {}).await.unwrap()
}

/// Another cluster, whose needs at `/` and elsewhere are greater.
fn mill() -> String {
    HOME.replace("cluster: home", "cluster: mill")
        .replace("10.25.150", "10.25.151")
        .replace("8006'", "8006', pool: mill")
        .replace("count: 2 }", "count: 2, startup: { order: 3 } }")
}

#[tokio::test(start_paused = true)]
async fn p3_setting_up_one_cluster_does_not_widen_the_token_of_another() {
    let rig = Rig::new();
    let home = set_up(&rig, HOME, "home").await.unwrap();
    let before = allowed(&rig, &home).await;
    let mill_token = set_up(&rig, &mill(), "mill").await.unwrap();
    assert_eq!(allowed(&rig, &home).await, before);
    for (token, text) in [(&home, HOME.to_owned()), (&mill_token, mill())] {
        let found = examine(&with_token(&rig, token), &spec(&text)).await.unwrap();
        assert_eq!(errors(&found), Vec::<&Finding>::new());
    }
    // A second cluster of the same name, with another token: the role of the first is not its own.
    let second = HOME.replace("count: 2 }", "count: 2, startup: { order: 3 } }");
    set_up(&rig, &second, "second").await.unwrap();
    assert_eq!(allowed(&rig, &home).await, before);
    let again = Whom { token: "second".to_owned(), ..whom() };
    let again = SetupPlan::survey(&rig.systems, &spec(&second), &again).await.unwrap();
    assert_eq!(again.tasks, []);
}

/// What the version before this one gave: the same two roles for every cluster.
async fn set_up_as_before(rig: &Rig, text: &str, token: &str) -> pve::Token {
    let whom = Whom { token: token.to_owned(), ..whom() };
    let new = SetupPlan::survey(&rig.systems, &spec(text), &whom).await.unwrap();
    let shared = |name: &str| name.split('-').next().unwrap_or(name).to_owned();
    let known: Vec<String> =
        rig.systems.pve.roles().await.unwrap().into_iter().map(|role| role.name).collect();
    let as_before = |task: &Task| match task {
        Task::MakeRole(name, all) if known.contains(&shared(name)) => {
            Task::AddToRole(shared(name), all.clone())
        }
        Task::MakeRole(name, all) => Task::MakeRole(shared(name), all.clone()),
        Task::Grant(grant) => Task::Grant(pve::Grant { role: shared(&grant.role), ..grant.clone() }),
        other => other.clone(),
    };
    let old = SetupPlan { tasks: new.tasks.iter().map(as_before).collect(), ..new };
    old.prepare(&rig.systems.pve, |_| {}).await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn p3_clusters_of_an_earlier_version_keep_working_and_move_to_their_own_roles() {
    let rig = Rig::new();
    let home = set_up_as_before(&rig, HOME, "home").await;
    let mill_token = set_up_as_before(&rig, &mill(), "mill").await;
    let good = async |token: &pve::Token, text: &str| {
        let found = examine(&with_token(&rig, token), &spec(text)).await.unwrap();
        assert_eq!(errors(&found), Vec::<&Finding>::new());
    };
    good(&home, HOME).await;
    good(&mill_token, &mill()).await;
    // The fault of that version: what the second cluster needs, the first one's token has as well.
    assert!(allowed(&rig, &home).await.contains("Sys.Modify"));

    let (before, roles) = (allowed(&rig, &mill_token).await, shared_roles(&rig).await);
    assert!(set_up(&rig, HOME, "home").await.is_none(), "the token stays");
    assert!(!allowed(&rig, &home).await.contains("Sys.Modify"));
    assert_eq!(allowed(&rig, &mill_token).await, before, "the other cluster keeps what it has");
    assert_eq!(shared_roles(&rig).await, roles, "the shared roles stay as they are");
    good(&home, HOME).await;
    good(&mill_token, &mill()).await;
    let again = Whom { token: "home".to_owned(), ..whom() };
    assert_eq!(SetupPlan::survey(&rig.systems, &spec(HOME), &again).await.unwrap().tasks, []);
}

#[tokio::test(start_paused = true)]
async fn p3_a_token_that_may_serve_two_clusters_keeps_what_it_has() {
    let rig = Rig::new();
    let wide = HOME.replace("count: 2 }", "count: 2, startup: { order: 3 } }");
    let token = set_up_as_before(&rig, &wide, "talosmith").await;
    // The file of another cluster with the same token and smaller needs.
    set_up(&rig, HOME, "talosmith").await;
    let found = examine(&with_token(&rig, &token), &spec(&wide)).await.unwrap();
    assert_eq!(errors(&found), Vec::<&Finding>::new());
}

async fn shared_roles(rig: &Rig) -> Vec<pve::Role> {
    let mut roles = rig.systems.pve.roles().await.unwrap();
    roles.retain(|role| model::rights::SHARED_ROLES.contains(&role.name.as_str()));
    assert_eq!(roles.len(), 2);
    roles
}

#[tokio::test(start_paused = true)]
async fn p4_an_administrator_with_a_second_factor_logs_in_with_a_code() {
    const KEY: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
    let config = LabConfig { second_factor: Some(KEY.to_owned()), ..LabConfig::default() };
    let rig = Rig::with(config);
    let facts = rig.lab.facts();
    let pending = || async {
        let trust = pve::Trust::Fingerprints(vec![facts.fingerprint.parse().unwrap()]);
        let endpoints = pve::Endpoints::parse(["https://pve1:8006"]).unwrap();
        let password = facts.root_password.clone().into();
        let (net, clock) = (rig.lab.net(), rig.systems.clock.clone());
        match pve::Client::login(endpoints, "root@pam", &password, &trust, net, clock).await.unwrap() {
            pve::Login::SecondFactor(pending) => pending,
            pve::Login::Done(_) => panic!("the account needs a second factor"),
        }
    };
    let factor = pending().await;
    assert!(factor.takes_totp());
    let code = lab::one_time_code(KEY, rig.systems.clock.now());
    let client = factor.totp(&code.into()).await.unwrap();
    assert!(!client.users().await.unwrap().is_empty());
    let setup_plan =
        SetupPlan::survey(&Systems { pve: client, ..rig.systems.clone() }, &spec(HOME), &whom()).await;
    assert!(!setup_plan.unwrap().tasks.is_empty());

    let wrong = pending().await.totp(&"000000".to_owned().into()).await.unwrap_err();
    let pve::LoginError::Call(error) = wrong else { panic!("{wrong}") };
    assert!(matches!(error.kind(), pve::Kind::Unauthenticated { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn by_reading_4_with_a_pin_for_each_host_failover_works() {
    let rig = Rig::new();
    let pins: Vec<pve::Fingerprint> = rig.lab.fingerprints().iter().map(|pin| pin.parse().unwrap()).collect();
    assert_eq!(pins.len(), 3);
    let endpoints = || pve::Endpoints::parse(["https://pve1:8006", "https://pve2:8006"]).unwrap();
    let client = |pins: &[pve::Fingerprint]| {
        let (trust, facts) = (pve::Trust::Fingerprints(pins.to_vec()), rig.lab.facts());
        let (net, clock) = (rig.lab.net(), rig.systems.clock.clone());
        pve::Client::connect(endpoints(), &facts.token.parse().unwrap(), &trust, net, clock).unwrap()
    };
    rig.lab.inject(Injection::HostOffline("pve1".to_owned()));
    assert!(client(&pins[..1]).version().await.is_err(), "one pin is not for the other host");
    client(&pins[..2]).version().await.unwrap();
}

/// What is granted on one VM replaces what comes from above: doctor sees what the plan sees.
#[tokio::test(start_paused = true)]
async fn i16_doctor_and_plan_agree_about_the_console_of_each_vm() {
    let rig = Rig::new();
    let file = spec(HOME);
    let setup_plan = SetupPlan::survey(&rig.systems, &file, &whom()).await.unwrap();
    let token = setup_plan.prepare(&rig.systems.pve, |_| {}).await.unwrap().unwrap();
    rig.systems.pve.create_role("Talosmith-other", &["VM.Audit"]).await.unwrap();
    let grant = pve::Grant {
        path: "/vms/150011".to_owned(),
        role: "Talosmith-other".to_owned(),
        user: "talosmith@pve".to_owned(),
        token: "talosmith@pve!talosmith".to_owned(),
        propagate: true,
    };
    rig.systems.pve.grant(&grant).await.unwrap();
    let systems = with_token(&rig, &token);
    let found = examine(&systems, &file).await.unwrap();
    let console = found.iter().find(|finding| finding.what == "console at /vms").unwrap();
    assert_eq!(console.verdict, Verdict::Warning, "{console:?}");
    assert!(console.detail.contains("on the VMs of home-control-1: VM.Console"), "{console:?}");
    let commands = console.hint.join("\n");
    assert!(commands.contains("pveum acl modify /vms/150011 --roles Talosmith-home "), "{commands}");
    assert!(!commands.contains("Talosmith-other"), "{commands}");
    let snapshot =
        Session::new(systems, file, Some(bundle())).observe().await.map_err(|_| "no look").unwrap();
    let denied = snapshot.observed.proxmox.no_console.clone().unwrap();
    assert_eq!(denied.into_iter().collect::<Vec<_>>(), ["home-control-1"]);
}

/// What plan refuses is not ready, and what a file asks for without effect is not "as it must be".
#[tokio::test(start_paused = true)]
async fn p8_doctor_and_plan_agree_about_accounts_and_about_a_datastore_without_import() {
    let rig = Rig::new();
    let file = format!("{HOME}manifests: {{ proxmox_ccm: {{ version: v0.8.0 }} }}\n");
    let setup_plan = SetupPlan::survey(&rig.systems, &spec(&file), &whom()).await.unwrap();
    let token = setup_plan.prepare(&rig.systems.pve, |_| {}).await.unwrap().unwrap();
    let systems = with_token(&rig, &token);
    let found = examine(&systems, &spec(&file)).await.unwrap();
    let Ok(snapshot) = Session::new(systems.clone(), spec(&file), Some(bundle())).observe().await else {
        panic!("it can be looked at")
    };
    let refused = snapshot.plan().refusals.iter().any(|r| r.code == model::plan::RefusalCode::Rights);
    let missing: Vec<&Finding> = found.iter().filter(|f| f.what.starts_with("account for")).collect();
    assert_eq!(missing.len(), 1, "{found:?}");
    assert_eq!(
        missing[0].verdict == Verdict::Error,
        refused,
        "both say the same: {missing:?} {:?}",
        snapshot.plan().refusals
    );
    if refused {
        assert!(missing[0].hint[0].contains("`manifests.proxmox_ccm.token`"), "{missing:?}");
    }
    // An administrator may make it: both say so, too.
    let found = examine(&rig.systems, &spec(&file)).await.unwrap();
    assert_eq!(errors(&found), Vec::<&Finding>::new());

    let without = format!("{HOME}hosts: {{ pve1: {{ datastores: {{ image: local-lvm }} }} }}\n");
    let Err(doctor::Unexamined::File(problems, found)) = examine(&systems, &spec(&without)).await else {
        panic!("the file asks for what is not there")
    };
    assert!(!problems.is_empty());
    assert_eq!(doctor::verdict(&found), Verdict::Error, "{found:?}");
}

/// What `plan` refuses, `doctor` reports in the same words, whatever it is about.
#[tokio::test(start_paused = true)]
async fn f6_doctor_fails_with_the_words_in_which_plan_refuses() {
    let rig = Rig::new();
    let greedy = HOME.replace("count: 2 }", "count: 2, memory: 4T, cpu: 200 }");
    let files = [
        HOME.replace("v1.13.9", "v1.13.99"),
        format!("{HOME}image: {{ extensions: [siderolabs/qemu-guest-agent, siderolabs/nonsense] }}\n"),
        greedy,
    ];
    for file in files {
        let refusals = rig.observe(&file).await.plan().refusals;
        assert!(!refusals.is_empty());
        let found = examine(&rig.systems, &spec(&file)).await.unwrap();
        for refusal in refusals {
            let told = errors(&found).into_iter().find(|finding| finding.detail == refusal.why);
            let told = told.unwrap_or_else(|| panic!("{}: {found:?}", refusal.why));
            assert_eq!((told.what.as_str(), &told.hint), ("plan", &vec![refusal.hint]));
        }
    }
    // What is tight is a warning of both.
    let wide = HOME.replace("count: 2 }", "count: 2, disk: 90T }");
    let found = examine(&rig.systems, &spec(&wide)).await.unwrap();
    let warned: Vec<&str> =
        found.iter().filter(|f| f.verdict == Verdict::Warning).map(|f| f.detail.as_str()).collect();
    let notes = rig.observe(&wide).await.plan().notes;
    let tight = notes.iter().find(|note| note.text.contains("may grow to")).unwrap();
    assert!(warned.contains(&tight.text.as_str()), "{warned:?}");
}

/// Who asks for a password first proves who they are. Without credentials nothing is told and nothing is changed.
#[tokio::test(start_paused = true)]
async fn f3_a_certificate_is_checked_before_anybody_logs_in() {
    let rig = Rig::new();
    let changes = rig.count_changes();
    let greet = async |pin: &str| {
        let endpoints = pve::Endpoints::parse(["https://pve1:8006"]).unwrap();
        let trust = pve::Trust::Fingerprints(vec![pin.parse().unwrap()]);
        pve::Client::greet(endpoints, &trust, rig.lab.net(), rig.systems.clock.clone()).await
    };
    let shown = rig.lab.facts().fingerprint;
    assert!(greet(&shown).await.is_ok(), "a refusal without credentials is an answer");
    let Err(pve::LoginError::Call(error)) = greet(&format!("00:00:00{}", &shown[8..])).await else {
        panic!("another certificate is not trusted")
    };
    assert_eq!(error.kind().code(), "untrusted");
    assert_eq!(error.shown_certificate().unwrap().to_string(), shown);
    assert_eq!(changes.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn p9_a_vnet_is_a_bridge_and_its_privilege_is_asked_for_in_its_zone() {
    let vnets = [("k8snet".to_owned(), "lan".to_owned())].into();
    let rig = Rig::with(LabConfig { vnets, ..LabConfig::default() });
    let text = HOME.replace("network: {", "network: { bridge: k8snet,");
    let setup_plan = SetupPlan::survey(&rig.systems, &spec(&text), &whom()).await.unwrap();
    let tasks = format!("{:?}", setup_plan.tasks);
    assert!(tasks.contains("/sdn/zones/lan/k8snet") && !tasks.contains("localnetwork"), "{tasks}");
    assert_eq!(brought_up(rig, &text, &whom()).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn vms_of_a_cluster_are_counted_before_its_token_goes() {
    let rig = Rig::healthy().await;
    assert_eq!(engine::setup::count_vms(&rig.systems, "home").await.unwrap(), 6, "five nodes and the record");
    assert_eq!(engine::setup::count_vms(&rig.systems, "hom").await.unwrap(), 0);
}

/// What `proxmox setup --remove` does.
async fn removed(rig: &Rig, text: &str, token: &str) -> Vec<Task> {
    let whom = Whom { token: token.to_owned(), ..whom() };
    let setup_plan = SetupPlan::to_remove(&rig.systems, &spec(text), &whom).await.unwrap();
    setup_plan.prepare(&rig.systems.pve, |_| {}).await.unwrap();
    setup_plan.tasks
}

#[tokio::test(start_paused = true)]
async fn p3_what_was_set_up_for_one_cluster_is_removed_and_nothing_of_another() {
    let rig = Rig::new();
    set_up(&rig, HOME, "home").await.unwrap();
    let mill_token = set_up(&rig, &mill(), "mill").await.unwrap();
    // Another cluster of the same name has roles of its own.
    let second = set_up(&rig, HOME, "second").await.unwrap();
    let (before, of_second) = (allowed(&rig, &mill_token).await, allowed(&rig, &second).await);
    let tasks = removed(&rig, HOME, "home").await;
    assert!(matches!(tasks.last(), Some(Task::RemoveToken(token)) if token.name == "home"), "{tasks:?}");
    let left: Vec<String> =
        rig.systems.pve.roles().await.unwrap().into_iter().map(|role| role.name).collect();
    assert!(!left.contains(&"Talosmith-home".to_owned()), "{left:?}");
    assert!(left.contains(&"Talosmith-home.2".to_owned()) && left.contains(&"Talosmith-mill".to_owned()));
    assert_eq!(allowed(&rig, &mill_token).await, before);
    assert_eq!(allowed(&rig, &second).await, of_second);
    assert_eq!(removed(&rig, HOME, "home").await, [], "doing it again does nothing");
    let found = examine(&with_token(&rig, &mill_token), &spec(&mill())).await.unwrap();
    assert_eq!(errors(&found), Vec::<&Finding>::new());
}

#[tokio::test(start_paused = true)]
async fn p3_a_token_that_serves_another_cluster_stays_when_one_is_removed() {
    let rig = Rig::new();
    let token = set_up(&rig, HOME, "both").await.unwrap();
    set_up(&rig, &mill(), "both").await;
    let tasks = removed(&rig, HOME, "both").await;
    assert!(!tasks.iter().any(|task| matches!(task, Task::RemoveToken(_))), "{tasks:?}");
    let found = examine(&with_token(&rig, &token), &spec(&mill())).await.unwrap();
    assert_eq!(errors(&found), Vec::<&Finding>::new());
}

#[tokio::test(start_paused = true)]
async fn p8_accounts_are_made_by_a_token_that_was_set_up_for_them_and_by_no_other() {
    let text = format!("{HOME}manifests: {{ proxmox_csi: {{}} }}\n");
    let rig = Rig::new();
    let setup_plan = SetupPlan::survey(&rig.systems, &spec(&text), &whom()).await.unwrap();
    assert!(!format!("{:?}", setup_plan.tasks).contains("Permissions.Modify"), "only where it is asked for");
    let with = Whom { accounts: true, ..whom() };
    assert_eq!(brought_up(rig, &text, &with).await, Vec::<String>::new());
}

/// A token whose grant at a path was lost, and what doctor says then.
async fn without_grant_at(path: &str, text: &str) -> (Systems, Vec<Finding>) {
    let rig = Rig::new();
    let setup_plan = SetupPlan::survey(&rig.systems, &spec(text), &whom()).await.unwrap();
    let kept = |task: &&Task| !matches!(task, Task::Grant(grant) if grant.path == path);
    let fewer =
        SetupPlan { tasks: setup_plan.tasks.iter().filter(kept).cloned().collect(), ..setup_plan.clone() };
    assert!(fewer.tasks.len() < setup_plan.tasks.len());
    let systems = with_token(&rig, &fewer.prepare(&rig.systems.pve, |_| {}).await.unwrap().unwrap());
    let found = match examine(&systems, &spec(text)).await {
        Ok(found) | Err(doctor::Unexamined::File(_, found)) => found,
        Err(doctor::Unexamined::Systems(error)) => panic!("{error}"),
    };
    (systems, found)
}

#[tokio::test(start_paused = true)]
async fn user_a_a_datastore_that_the_token_may_not_see_is_a_missing_privilege_and_not_a_wrong_file() {
    let (_, found) = without_grant_at("/storage/local-lvm", HOME).await;
    let [only] = errors(&found)[..] else { panic!("{:?}", errors(&found)) };
    assert_eq!(only.what, "privileges at /storage");
    assert!(only.detail.contains("Datastore.Audit") && only.detail.contains("only local"), "{only:?}");
    assert!(only.hint[0].contains("`talosmith proxmox setup`"), "{only:?}");
}

#[tokio::test(start_paused = true)]
async fn user_a_a_lost_grant_is_counted_once() {
    for path in ["/vms", "/nodes/pve2"] {
        let (_, found) = without_grant_at(path, HOME).await;
        let wrong: Vec<&Finding> = found.iter().filter(|finding| finding.verdict != Verdict::Ok).collect();
        let [only] = wrong[..] else { panic!("{path}: {wrong:?}") };
        assert_eq!(only.what, format!("privileges at {path}"));
    }
}

#[tokio::test(start_paused = true)]
async fn user_a_the_role_in_a_command_is_the_one_that_the_token_has() {
    let rig = Rig::new();
    set_up(&rig, HOME, "home").await.unwrap();
    let second = HOME.replace("count: 2 }", "count: 2, pci: [gpu] }");
    let whom = Whom { token: "second".to_owned(), ..whom() };
    let setup_plan = SetupPlan::survey(&rig.systems, &spec(&second), &whom).await.unwrap();
    let kept = |task: &&Task| !matches!(task, Task::Grant(grant) if grant.path == "/nodes/pve2");
    let fewer = SetupPlan { tasks: setup_plan.tasks.iter().filter(kept).cloned().collect(), ..setup_plan };
    let systems = with_token(&rig, &fewer.prepare(&rig.systems.pve, |_| {}).await.unwrap().unwrap());
    let found = match examine(&systems, &spec(&second)).await {
        Ok(found) | Err(doctor::Unexamined::File(_, found)) => found,
        Err(doctor::Unexamined::Systems(error)) => panic!("{error}"),
    };
    let host = found.iter().find(|finding| finding.what == "privileges at /nodes/pve2").unwrap();
    let command = host.hint.last().unwrap();
    assert!(command.contains("--roles Talosmith-home.2 "), "{host:?}");
}

/// A host that is off is a reason to fail only where the plan refuses because of it.
#[tokio::test(start_paused = true)]
async fn left_12_doctor_and_plan_agree_about_hosts_that_are_off() {
    let pinned = format!("{HOME}nodes:\n  home-work-2: {{ host: pve3 }}\n");
    let named = HOME.replace("pools:", "hosts: { pve1: {}, pve2: {}, pve3: {} }\npools:");
    let asks_for_it = HOME.replace("role: worker,", "role: worker, hosts: [pve3],");
    for (file, exists, refused) in [
        (HOME, false, false),
        (HOME, true, false),
        (&named, true, false),
        (&pinned, true, false),
        (&pinned, false, true),
        (&asks_for_it, false, true),
    ] {
        let rig = Rig::new();
        if exists {
            let ran = rig.apply(file).await;
            assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
        }
        rig.lab.inject(Injection::HostOffline("pve3".to_owned()));
        let snapshot = rig.session(file).observe().await.unwrap_or_else(|e| panic!("{e:?}"));
        let refusals = snapshot.plan().refusals;
        assert_eq!(!refusals.is_empty(), refused, "exists: {exists}; {file}: {refusals:?}");
        assert!(
            refusals.iter().all(|refusal| refusal.code == model::plan::RefusalCode::Host),
            "{refusals:?}"
        );
        let (Ok(found) | Err(doctor::Unexamined::File(_, found))) = examine(&rig.systems, &spec(file)).await
        else {
            panic!("Proxmox answers")
        };
        let fails = doctor::verdict(&found) == Verdict::Error;
        assert_eq!(fails, refused, "exists: {exists}; {file}: {:?}", errors(&found));
        let host = found.iter().find(|finding| finding.what == "host pve3").unwrap();
        assert_eq!(host.verdict, Verdict::Warning, "{host:?}");
    }
}
