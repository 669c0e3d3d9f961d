//! A lab in memory, and what is needed to run the engine in it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use ambient::{Clock, Random};
use engine::apply::{Run, Stop};
use engine::doctor::{Finding, Unexamined};
use engine::emit::Emitter;
use engine::lease::Operator;
use engine::session::ObserveError;
use engine::setup::{SetupPlan, Whom};
use engine::{Session, Snapshot, Systems};
use lab::{Lab, LabConfig};
use model::diagnostic::Source;
use model::event::{Event, Outcome, What};
use model::plan::Plan;
use model::spec::Spec;
use model::step::Action;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use secrecy::ExposeSecret;
use talos::config::Contract;
use talos::secrets::Bundle;
use talos_client::Roots;
use tokio::sync::{OnceCell, watch};

use crate::guard::Guard;
use crate::home::{Files, Home};

/// The smallest useful file.
pub const HOME: &str = "\
cluster: home
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: 'https://pve1:8006' }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }
pools:
  control: { role: controlplane, count: 3 }
  work:    { role: worker, count: 2 }
";

#[derive(Clone)]
pub struct Rig {
    pub lab: Arc<Lab>,
    /// How tests themselves reach the lab: as another person, whom no one watches.
    pub systems: Systems,
    pub guard: Arc<Guard>,
    /// The operators' folder.
    pub home: Arc<Home>,
    /// Whether `systems` speaks to Proxmox in a way of its own, which operators are to use as well.
    own_client: bool,
    /// The token that operators have, if it is not root's.
    token: Option<Arc<str>>,
}

/// What came of a run.
pub struct Ran {
    pub outcome: Outcome,
    pub events: Vec<Event>,
}

impl Ran {
    /// What failed, in words.
    pub fn failures(&self) -> Vec<String> {
        let failed = self.events.iter().filter_map(|e| match &e.what {
            What::StepFailed { step, causes, .. } => Some(format!("{step}: {}", causes.join(": "))),
            _ => None,
        });
        failed.collect()
    }
}

pub fn spec(text: &str) -> Spec {
    model::load::load(&[Source::new("cluster.yaml", text)])
        .unwrap_or_else(|f| panic!("{:?}", f.diagnostics))
        .spec
}

/// Keys cost seconds, so all tests share one bundle.
pub fn bundle() -> Bundle {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| {
        let contract = Contract::parse("v1.13").unwrap();
        Bundle::generate(contract, LabConfig::first_moment()).unwrap().to_yaml().to_string()
    });
    Bundle::parse(text).unwrap()
}

/// What `doctor` finds, with the bundle that all tests share.
pub async fn examine(systems: &Systems, spec: &Spec) -> Result<Vec<Finding>, Unexamined> {
    Box::pin(engine::doctor::examine(&Session::new(systems.clone(), spec.clone(), Some(bundle())))).await
}

pub fn operator(place: &str) -> Operator {
    let name = format!("{place}@test");
    Operator { person: name.clone(), name, place: place.to_owned(), take_over: false }
}

impl Rig {
    pub fn new() -> Self {
        Self::with(LabConfig::default())
    }

    pub fn with(config: LabConfig) -> Self {
        let clock = Clock::from(LabConfig::first_moment(), 1.0);
        Self::of(Lab::open(config, clock.clone()).unwrap(), clock)
    }

    /// A healthy cluster of [`HOME`], brought up once and copied for every test that starts with one.
    pub async fn healthy() -> Self {
        static WORLD: OnceCell<Vec<u8>> = OnceCell::const_new();
        let bring_up = async || {
            let rig = Self::new();
            // Boxed, because it is larger than the stack of a test likes.
            let ran = Box::pin(rig.apply_with_least_rights(HOME)).await;
            assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
            rig.lab.shared().read(|systems, _| serde_json::to_vec(systems).unwrap())
        };
        Self::copy_of(WORLD.get_or_init(bring_up).await)
    }

    /// Goes on with a copy of a world.
    pub fn copy_of(systems: &[u8]) -> Self {
        let systems: lab::World = serde_json::from_slice(systems).unwrap();
        let clock = Clock::from(systems.now, 1.0);
        Self::of(Lab::of(systems, clock.clone()), clock)
    }

    fn of(lab: Lab, clock: Clock) -> Self {
        let guard = Arc::new(Guard::new(&lab));
        let systems = reach(&lab, clock, "", None);
        let home = Arc::new(Home::new());
        Self { lab: Arc::new(lab), systems, guard, home, own_client: false, token: None }
    }

    /// The same lab, with another folder of the operator.
    pub fn with_home(&self, files: &Files) -> Self {
        Self { home: Arc::new(Home::of(files)), ..self.clone() }
    }

    /// The same lab, where this bundle is in the operator's folder.
    pub fn with_bundle(&self, bundle: Bundle) -> Self {
        let rig = self.with_home(&Files::new());
        rig.home.open(|| bundle, &mut |_| {});
        rig
    }

    /// The same lab, reached in another way.
    pub fn with_world(&self, systems: Systems) -> Self {
        Self { systems, own_client: true, ..self.clone() }
    }

    /// How an operator reaches the lab: over connections that are known to be theirs, so that all they do is watched.
    pub fn world_of(&self, operator: &Operator) -> Systems {
        let theirs = reach(&self.lab, self.systems.clock.clone(), &operator.name, self.token.as_deref());
        let pve = if self.own_client { self.systems.pve.clone() } else { theirs.pve };
        Systems { pve, net: theirs.net, ..self.systems.clone() }
    }

    pub fn session(&self, text: &str) -> Session {
        let session = Session::new(self.systems.clone(), spec(text), self.home.bundle());
        session.with_snapshots(Arc::new(crate::snapshots::Counted::default()))
    }

    pub async fn observe(&self, text: &str) -> Snapshot {
        match self.session(text).observe().await {
            Ok(snapshot) => snapshot,
            Err(ObserveError::Engine(error)) => panic!("{:?}", error.causes()),
            Err(ObserveError::File(found)) => panic!("{found:?}"),
        }
    }

    /// Looks, plans and carries out, as one operator.
    pub async fn apply(&self, text: &str) -> Ran {
        let snapshot = self.observe(text).await;
        let plan = snapshot.plan();
        assert_eq!(plan.refusals, []);
        self.carry_out(&snapshot, &plan, "me").await.unwrap()
    }

    /// The same, with the token that is set up for the file, which may do the least that the file needs.
    pub async fn apply_with_least_rights(&self, text: &str) -> Ran {
        let (user, token) = ("talosmith@pve".to_owned(), "talosmith".to_owned());
        let whom = Whom { user, token, renew: true, accounts: true, maintenance: false };
        let setup_plan = SetupPlan::survey(&self.systems, &spec(text), &whom).await;
        let setup_plan = setup_plan.unwrap_or_else(|why| panic!("{why:?}"));
        let token = setup_plan.prepare(&self.systems.pve, |_| {}).await.unwrap().unwrap();
        let token = Some(token.reveal().expose_secret().into());
        let rig = Self { token, ..self.clone() };
        let systems = rig.world_of(&operator("me"));
        let snapshot = match Session::new(systems, spec(text), self.home.bundle()).observe().await {
            Ok(snapshot) => snapshot,
            Err(ObserveError::Engine(error)) => panic!("{:?}", error.causes()),
            Err(ObserveError::File(found)) => panic!("{found:?}"),
        };
        let plan = snapshot.plan();
        assert_eq!(plan.refusals, []);
        rig.carry_out(&snapshot, &plan, "me").await.unwrap()
    }

    pub async fn carry_out(&self, snapshot: &Snapshot, plan: &Plan, place: &str) -> engine::Result<Ran> {
        self.carry_out_as(snapshot, plan, &operator(place)).await
    }

    pub async fn carry_out_as(
        &self,
        snapshot: &Snapshot,
        plan: &Plan,
        operator: &Operator,
    ) -> engine::Result<Ran> {
        let (_wish, stop) = watch::channel(Stop::No);
        self.carry_out_until(stop, snapshot, plan, operator).await
    }

    /// The same, for someone who may wish to stop.
    pub async fn carry_out_until(
        &self,
        stop: watch::Receiver<Stop>,
        snapshot: &Snapshot,
        plan: &Plan,
        operator: &Operator,
    ) -> engine::Result<Ran> {
        self.carry_out_in(&self.world_of(operator), stop, snapshot, plan, operator).await
    }

    /// The same, for an operator with a way and a clock of their own.
    pub async fn carry_out_in(
        &self,
        systems: &Systems,
        stop: watch::Receiver<Stop>,
        snapshot: &Snapshot,
        plan: &Plan,
        operator: &Operator,
    ) -> engine::Result<Ran> {
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        let listener = {
            let events = events.clone();
            Arc::new(move |event: &Event| events.lock().unwrap().push(event.clone()))
        };
        let emitter = Emitter::new(self.systems.clock.clone(), plan, None, listener);
        let deletes = |action: &Action| {
            use Action::{DeleteRecord, DeleteVm, RemoveAccount, StopVm};
            matches!(action, StopVm { .. } | DeleteVm { .. } | RemoveAccount { .. } | DeleteRecord { .. })
        };
        let deletes_all = plan.steps.iter().all(|step| deletes(&step.action));
        self.guard.watch.set_deleting(deletes_all);
        let _running = self.guard.allows(snapshot, plan);
        self.guard.owns(snapshot);
        let by_console = |node: &&model::blueprint::Node| {
            model::identity::method(&snapshot.blueprint, &snapshot.observed, node)
                == model::identity::Method::Console
        };
        let mut vms = snapshot.blueprint.nodes.values().filter(|node| !node.external);
        self.guard.watch.require_console_identity(!self.own_client && vms.all(|node| by_console(&node)));
        let verb = if deletes_all && !plan.steps.is_empty() { "destroy" } else { "apply" };
        let run = Run { systems, snapshot, operator, stop, emitter: &emitter, verb, approval: None };
        // Boxed, because it is larger than the stack of a test likes.
        let outcome = Box::pin(engine::apply::run(run, plan)).await;
        self.lab.shared().look();
        self.guard.check();
        self.home.check(snapshot.blueprint.cluster_id.as_deref());
        let outcome = outcome?;
        let events = events.lock().unwrap().clone();
        no_secret_in(&events);
        Ok(Ran { outcome, events })
    }

    /// The same lab, seen by someone whose clock is wrong.
    pub fn an_hour_ahead(&self) -> Self {
        let clock = Clock::from(self.systems.clock.now() + jiff::SignedDuration::from_hours(1), 1.0);
        Self { systems: Systems { clock, ..self.systems.clone() }, ..self.clone() }
    }

    /// Counts calls that change something, from now on.
    pub fn count_changes(&self) -> Arc<AtomicU64> {
        self.lab.count_changes()
    }

    /// The host that has a VM.
    pub async fn host_of(&self, vmid: u32) -> String {
        let resources = self.systems.pve.cluster_resources().await.unwrap();
        resources.into_iter().find(|r| r.vmid == Some(vmid.into())).and_then(|r| r.node).unwrap()
    }

    /// Ids of all VMs that Proxmox has.
    pub async fn vmids(&self) -> Vec<u64> {
        let resources = self.systems.pve.cluster_resources().await.unwrap();
        let mut ids: Vec<u64> =
            resources.iter().filter(|r| r.kind == "qemu").filter_map(|r| r.vmid).collect();
        ids.sort_unstable();
        ids
    }

    pub fn etcd_clusters(&self) -> usize {
        self.lab.shared().read(|systems, _| systems.machines.etcd_clusters())
    }

    /// Nothing is left to do or to tell, but that a run which died still holds the lease.
    pub async fn assert_nothing_to_do(&self, text: &str) {
        let plan = self.observe(text).await.plan();
        let steps: Vec<_> = plan.steps.iter().map(|s| (s.action.describe(), &s.reason)).collect();
        assert!(plan.is_empty(), "{steps:?} {:?}", plan.refusals);
        let lease = |note: &&model::plan::Note| note.text.starts_with(model::plan::LEASE);
        assert_eq!(
            plan.notes.iter().filter(|note| !lease(note)).collect::<Vec<_>>(),
            [] as [&model::plan::Note; 0]
        );
    }

    /// Everything is as the file says: one etcd, every VM once, nothing left to do.
    pub async fn assert_whole(&self) {
        assert_eq!(self.etcd_clusters(), 1, "exactly one etcd");
        assert_eq!(self.vmids().await, [150_010, 150_011, 150_012, 150_013, 150_021, 150_022]);
        self.assert_nothing_to_do(HOME).await;
        assert_eq!(self.guard.leftovers(&self.lab), [] as [&str; 0], "nothing is left behind");
    }
}

/// The lab, reached over connections that carry a name, with a token or with root's.
fn reach(lab: &Lab, clock: Clock, origin: &str, token: Option<&str>) -> Systems {
    let facts = lab.facts();
    let address = format!("https://{}", facts.endpoint);
    let trust = pve::Trust::Fingerprints(vec![facts.fingerprint.parse().unwrap()]);
    let pve = pve::Client::connect(
        pve::Endpoints::parse([address.as_str()]).unwrap(),
        &token.unwrap_or(&facts.token).parse().unwrap(),
        &trust,
        lab.net_of(origin),
        clock.clone(),
    )
    .unwrap();
    let roots = CertificateDer::pem_slice_iter(facts.factory_ca_pem.as_bytes()).map(Result::unwrap).collect();
    let factory_roots = Arc::new(Roots::only(roots));
    Systems {
        pve,
        net: lab.net_of(origin),
        // A world that was copied goes on, and so does chance: a run in it is no run of before.
        random: Random::seeded(u64::try_from(clock.now().as_microsecond()).unwrap()),
        clock,
        factory_roots,
        found: Default::default(),
        consoles: Default::default(),
    }
}

/// Invariant 11: no secret of the bundle is in any event. PEM blocks of a server's error would be none of ours.
fn no_secret_in(events: &[Event]) {
    static SECRETS: OnceLock<engine::scrub::Scrub> = OnceLock::new();
    let secrets = SECRETS.get_or_init(|| engine::scrub::Scrub::of(&bundle()));
    let told = serde_json::to_string(events).unwrap();
    assert_eq!(secrets.clean(&told), told, "invariant 11 is violated: a secret is in an event");
}

/// A number from the environment, for what is run by hand or by a conformance stage.
pub fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// A runtime on one thread, whose clock jumps.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// Does `work` with each item, on as many threads as the machine has processors. Every failure is told before it panics.
pub fn in_parallel<T: Send>(items: Vec<T>, work: impl Fn(&T) + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let queue = Mutex::new(items.into_iter());
    let failed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            // A whole run in one future is larger than the stack of a thread usually is.
            let thread = std::thread::Builder::new().stack_size(32 << 20);
            let worker = || {
                loop {
                    let Some(item) = queue.lock().unwrap().next() else { return };
                    let work = std::panic::AssertUnwindSafe(|| work(&item));
                    if std::panic::catch_unwind(work).is_err() {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            };
            thread.spawn_scoped(scope, worker).unwrap();
        }
    });
    let failed = failed.into_inner();
    assert_eq!(failed, 0, "{failed} failed; each said why above");
}
