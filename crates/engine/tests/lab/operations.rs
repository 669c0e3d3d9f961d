//! Operations on clusters that exist, by seed.
//!
//! Each run starts from a stored healthy cluster (a creation from an empty Proxmox). Other people do something to its VMs, then
//! an operation is applied while things break, perhaps by two operators, perhaps by one that crashes. The lab checks its
//! invariants at every call; a client writes into Kubernetes every second. Then everything is mended, what others left in
//! the way is removed, and within three runs the operation is done: nothing is left to do, nothing is left behind, VMs of
//! others are as they were, and every write that was acknowledged is read.

mod table;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::lease::Operator;
use lab::{CallFilter, Far, Injection, Lost, Partition, When, Wire};
use model::allowed::Allowed;
use model::event::Outcome;
use model::plan::by_hand::{ByHand, Hand};

use crate::faults::Chance;
use crate::restart::scale_down::five;
use crate::rig::{HOME, Rig, in_parallel, operator, setting};
use table::Table;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Create,
    Drift,
    Update,
    Grow,
    Reconfigure,
    Destroy,
    /// A machine is dead, and `--allow-destroy` names it.
    Replace,
    /// Five control plane nodes become three.
    ScaleDown,
    /// A worker moves to the host that the file says.
    Move,
    TwoOperators,
    /// A control plane node and the workers get other memory: each is drained, and stopped and started.
    Restart,
    /// A healthy node is replaced, as `node replace --force` does it.
    ReplaceByHand,
    /// Nodes leave a host, as `host drain` does it.
    DrainHost,
}

const ALL: [Operation; 13] = [
    Operation::Create,
    Operation::Drift,
    Operation::Update,
    Operation::Grow,
    Operation::Reconfigure,
    Operation::Destroy,
    Operation::Replace,
    Operation::ScaleDown,
    Operation::Move,
    Operation::TwoOperators,
    Operation::Restart,
    Operation::ReplaceByHand,
    Operation::DrainHost,
];

/// The host that is drained. The endpoint is another one.
const DRAINED: &str = "pve2";
const REPLACED: &str = "home-work-1";

/// The machine that is dead where one is replaced.
const DEAD: [(u32, &str); 2] = [(150_012, "home-control-2"), (150_021, "home-work-1")];

impl Operation {
    fn file(self) -> String {
        match self {
            Self::Update => HOME.replace("pools:", "defaults: { worker: { disk: 60G } }\npools:"),
            Self::Grow | Self::TwoOperators => HOME.replace("count: 2", "count: 3"),
            Self::Reconfigure => HOME.replace("vip:", "dns: [10.25.150.3], ntp: [10.25.150.4], vip:"),
            Self::Move => format!("{HOME}nodes: {{ home-work-1: {{ host: pve3 }} }}\n"),
            Self::Restart => HOME.replace(
                "pools:",
                "defaults: { worker: { memory: 6G } }\nnodes: { home-control-2: { memory: 6G } }\n\
                 changes: { drain_timeout: 1m, soak: 5s }\npools:",
            ),
            Self::ReplaceByHand => format!("{HOME}changes: {{ drain_timeout: 1m, soak: 5s }}\n"),
            Self::Create
            | Self::Drift
            | Self::Destroy
            | Self::Replace
            | Self::ScaleDown
            | Self::DrainHost => HOME.to_owned(),
        }
    }

    /// What a person asks for with a command, where it is not the file that asks.
    fn asked(self) -> Option<ByHand> {
        match self {
            Self::ReplaceByHand => Some(ByHand { force: true, ..ByHand::of(Hand::Replace, [REPLACED]) }),
            Self::DrainHost => Some(ByHand::of_host(Hand::DrainHost, DRAINED)),
            _ => None,
        }
    }
}

/// What another person does at Proxmox' own pages.
#[derive(Debug, Clone, Copy)]
enum Act {
    PowerOff(u32),
    Migrate(u32),
    Tags(u32),
    Notes(u32),
    /// A clone, which stays stopped.
    Clone(u32),
    /// The VM is deleted and its ID given to another one.
    Reused(u32),
    /// A snapshot of a moment ago is rolled back.
    RolledBack(u32),
    /// The VM is deleted and restored from a backup of a moment ago.
    Restored(u32),
    /// The budget of the canary allows no eviction.
    NeverAllows,
    /// A pod of the canary is not gone after its eviction.
    NeverEnds,
}

impl Act {
    fn words(self) -> &'static str {
        match self {
            Self::PowerOff(_) => "VM powered off",
            Self::Migrate(_) => "VM migrated",
            Self::Tags(_) => "tags changed",
            Self::Notes(_) => "notes changed",
            Self::Clone(_) => "VM cloned",
            Self::Reused(_) => "VM ID reused",
            Self::RolledBack(_) => "VM rolled back",
            Self::Restored(_) => "VM restored",
            Self::NeverAllows => "budget that never allows",
            Self::NeverEnds => "pod that never ends",
        }
    }

    /// Whether an old etcd log, or a second machine with the same address, would run after a start of its VM.
    fn must_not_start(self) -> bool {
        match self {
            Self::RolledBack(vmid) | Self::Restored(vmid) => vmid < 150_020,
            Self::Clone(_) => true,
            _ => false,
        }
    }
}

const CLONE: u32 = 4713;
const OF_OTHERS: u32 = 4711;

/// What a person does, of this sort.
fn act(kind: &str, operation: Operation, chance: &mut Chance) -> Option<Act> {
    let any = match operation {
        Operation::ScaleDown => chance.one(&[150_011, 150_012, 150_013, 150_014, 150_015, 150_021, 150_022]),
        _ => chance.one(&[150_011, 150_012, 150_013, 150_021, 150_022]),
    };
    let worker = chance.one(&[150_021, 150_022]);
    // A host with two of three voting members is not drained.
    let moved = if operation == Operation::DrainHost { worker } else { any };
    let acts = [
        Act::PowerOff(any),
        Act::Migrate(moved),
        Act::Tags(any),
        Act::Notes(any),
        Act::Clone(any),
        Act::Reused(worker),
        Act::RolledBack(any),
        Act::Restored(any),
        Act::NeverAllows,
        Act::NeverEnds,
    ];
    acts.into_iter().find(|act| act.words() == kind)
}

/// Any of them, or only those after which an operation goes on.
fn any_act(operation: Operation, chance: &mut Chance, goes_on: bool) -> Option<Act> {
    let end = if goes_on { 4 } else { 8 };
    let kind = table::KINDS[chance.below(end) as usize];
    act(kind, operation, chance)
}

/// A person who brings two control plane nodes of three back from the past, or one while another is dead, loses etcd's quorum, and nothing
/// but a backup of etcd helps. So they do it to a worker.
fn spare_quorum(acts: &mut [Act], operation: Operation) {
    let mut spared = operation != Operation::Replace;
    for act in acts {
        if let Act::RolledBack(vmid) | Act::Restored(vmid) = act
            && *vmid < 150_020
            && !std::mem::take(&mut spared)
        {
            *vmid = 150_022;
        }
    }
}

/// Says whether it was possible: one that was deleted before can be neither stopped nor moved.
async fn perform(rig: &Rig, act: Act) -> bool {
    let person = rig.lab.person();
    let done = match act {
        Act::PowerOff(vmid) => person.power_off(vmid),
        Act::Migrate(vmid) => {
            let target = if rig.host_of(vmid).await == "pve2" { "pve3" } else { "pve2" };
            person.migrate(vmid, target)
        }
        Act::Tags(vmid) => person.set(vmid, "tags", "mine"),
        Act::Notes(vmid) => {
            let notes = person.config(vmid).and_then(|config| config.get("description").cloned());
            person.set(vmid, "description", &format!("bought in May\n{}", notes.unwrap_or_default()))
        }
        Act::Clone(vmid) => person.clone_vm(vmid, CLONE),
        Act::Reused(vmid) => person
            .delete(vmid)
            .and_then(|()| person.create("pve2", vmid, &[("name", "theirs"), ("description", "not yours")])),
        Act::RolledBack(vmid) => {
            let taken = person.snapshot(vmid, "before");
            rig.systems.clock.sleep(Duration::from_secs(60)).await;
            taken.and_then(|()| person.rollback(vmid, "before"))
        }
        Act::Restored(vmid) => {
            let kept = person.backup(vmid);
            rig.systems.clock.sleep(Duration::from_secs(60)).await;
            kept.and_then(|kept| person.delete(vmid).and_then(|()| person.restore(&kept)))
        }
        Act::NeverAllows => return workloads::set_budget(rig, 2).await,
        Act::NeverEnds => return workloads::hold_a_pod(rig).await,
    };
    done.is_ok()
}

/// What stands in the way is taken out of it by the one who put it there.
async fn undo(rig: &Rig, act: Act) {
    let person = rig.lab.person();
    let theirs =
        |vmid| person.config(vmid).is_some_and(|config| config.get("name").is_some_and(|n| n == "theirs"));
    match act {
        Act::Clone(_) => drop(person.delete(CLONE)),
        Act::Reused(vmid) if theirs(vmid) => person.delete(vmid).unwrap(),
        // Its raft log is old: the one who brought it back deletes it, and the node is created again.
        Act::RolledBack(vmid) | Act::Restored(vmid) if vmid < 150_020 => drop(person.delete(vmid)),
        Act::NeverAllows => assert!(workloads::set_budget(rig, 1).await),
        Act::NeverEnds => workloads::release_pods(rig).await,
        _ => {}
    }
}

/// Something of this sort that breaks, and for how long until the next thing does. `dead` is the machine that a replacement makes again.
fn injection(kind: &str, operation: Operation, dead: u32, chance: &mut Chance) -> Option<(Injection, u64)> {
    let seconds = 30 + chance.below(200);
    let host = chance.one(&["pve1", "pve2", "pve3"]).to_owned();
    let lost = chance.one(&[Lost::Requests, Lost::Answers]);
    let cut = |far| {
        let which = Partition { origin: Some("me@test".to_owned()), far, lost };
        Injection::Partition { which, cut: true }
    };
    let injection = match kind {
        "cut: operator and Proxmox" => cut(Far::Proxmox),
        "cut: operator and machines" => cut(Far::Machines),
        "cut: operator and one machine" => cut(Far::Machine(match operation {
            // One that stays, or one that leaves etcd.
            Operation::ScaleDown => chance.one(&[150_011, 150_014, 150_015]),
            _ => 150_011,
        })),
        "cut: operator and Kubernetes" => cut(Far::Kubernetes),
        "cut: machines among each other" => {
            Injection::Apart { one: 150_011, other: chance.one(&[150_012, 150_013]), apart: true }
        }
        "connections that break" => {
            let fault = chance.one(&[Wire::Reset, Wire::Lost, Wire::Cut, Wire::Slow(Duration::from_secs(8))]);
            // A creation makes hundreds of calls, and is to get as far as Kubernetes.
            let often = if operation == Operation::Create { [10, 20, 50] } else { [50, 200, 300] };
            let (which, permille) = (CallFilter::default(), chance.one(&often));
            Injection::Wire { fault, when: When::Chance { which, permille, seed: chance.next() } }
        }
        "host lost" => Injection::HostOffline(host),
        "slow host" => Injection::HostSlow {
            node: host,
            by: Duration::from_secs(1 + chance.below(if operation == Operation::Create { 5 } else { 20 })),
        },
        "service failed for good" => {
            // Never a second control plane node: the others keep etcd's quorum.
            let (vmid, service) = match operation {
                Operation::Grow | Operation::TwoOperators => (150_023, "kubelet"),
                Operation::Replace => (dead, "kubelet"),
                // The machine of the node that is replaced is new.
                Operation::ReplaceByHand => (150_021, "kubelet"),
                _ => chance.one(&[(150_012, "etcd"), (150_012, "kubelet"), (150_021, "kubelet")]),
            };
            Injection::NoImage { vmid, service: service.to_owned(), missing: true }
        }
        "evictions that fail" => {
            let which = CallFilter { path_contains: "/eviction".to_owned(), ..CallFilter::default() };
            let times = chance.one(&[1, 3, 100]);
            Injection::KubernetesFails { which, status: chance.one(&[500, 503]), times }
        }
        _ => return None,
    };
    Some((injection, seconds))
}

/// What a injection counts as once it happened. What only some calls meet is counted by the lab.
fn words(injection: &Injection) -> Option<&'static str> {
    match injection {
        Injection::Apart { .. } => Some("cut: machines among each other"),
        Injection::HostSlow { .. } => Some("slow host"),
        Injection::HostOffline(_) => Some("host lost"),
        _ => None,
    }
}

/// One try. Says how it ended: done, failed, refused, or with the code of what stopped it.
async fn attempt(rig: &Rig, operation: Operation, file: &str, who: &Operator) -> String {
    for _ in 0..3 {
        let allowed = (operation == Operation::Replace).then(|| DEAD.map(|(_, name)| name.to_owned()));
        // What cuts an operator off cuts off their observation as well.
        let mut session = rig.session(file);
        session.systems = rig.world_of(who);
        let removed = operation == Operation::ScaleDown;
        let allowed = Allowed { removed, ..Allowed::data_of(allowed.into_iter().flatten()) };
        let session = session.allowing(allowed);
        let asked = operation.asked();
        let snapshot = match (&asked, operation) {
            (Some(asked), _) => session.observe_by_hand(asked).await,
            (None, Operation::Destroy) => session.observe_to_destroy().await,
            (None, _) => session.observe().await,
        };
        let snapshot = match snapshot {
            Ok(snapshot) => snapshot,
            Err(engine::session::ObserveError::Engine(error)) => return error.code().to_owned(),
            Err(engine::session::ObserveError::File(found)) => panic!("{found:?}"),
        };
        let plan = match (&asked, operation) {
            (Some(asked), _) => snapshot.plan_by_hand(asked),
            (None, Operation::Destroy) => snapshot.plan_destroy(),
            (None, _) => snapshot.plan(),
        };
        if let Some(refusal) = plan.refusals.first() {
            return format!("refused: {}", refusal.why);
        }
        if let Some(blocked) = plan.blocked.first().filter(|_| asked.is_some()) {
            return format!("blocked: {}", blocked.what);
        }
        match rig.carry_out_as(&snapshot, &plan, who).await {
            Ok(ran) if ran.outcome == Outcome::Done => return "done".to_owned(),
            Ok(ran) => return format!("failed: {:?}", ran.failures()),
            Err(error) if error.kind() == engine::error::Kind::Stale => {}
            Err(error) => return format!("{}: {error}", error.code()),
        }
    }
    "changed-meanwhile".to_owned()
}

/// What is left to do, in words; after a deletion, whether more than the VM of others is left.
async fn left(rig: &Rig, operation: Operation, file: &str) -> Option<String> {
    let ids = rig.vmids().await;
    if operation == Operation::Destroy {
        return (ids != [u64::from(OF_OTHERS)]).then(|| format!("VMs {ids:?}"));
    }
    if operation == Operation::DrainHost {
        let ours = ids.into_iter().filter_map(|vmid| u32::try_from(vmid).ok());
        for vmid in ours.filter(|vmid| *vmid != OF_OTHERS) {
            // One that a person switched off stays off until the host is used again.
            if rig.host_of(vmid).await == DRAINED && rig.systems.pve.is_running(DRAINED, vmid).await.unwrap()
            {
                return Some(format!("VM {vmid} runs on {DRAINED}"));
            }
        }
        return None;
    }
    let plan = rig.observe(file).await.plan();
    (!plan.is_empty()).then(|| {
        let steps: Vec<String> = plan.steps.iter().map(|step| step.id.to_string()).collect();
        format!("{steps:?}, {:?}, {:?}, {:?}", plan.blocked, plan.refusals, plan.unknown)
    })
}

/// What one run did, how its first try ended, and what it met.
struct Ran {
    operation: Operation,
    how: String,
    met: BTreeSet<String>,
}

async fn run(seed: u64) -> Ran {
    let chance = &mut Chance::new(seed);
    let (operation, wanted) = (table::operation(seed), table::wanted(seed));
    let rig = match operation {
        Operation::Create => Rig::with(lab::LabConfig { seed, ..lab::LabConfig::default() }),
        Operation::ScaleDown => five().await,
        _ => Rig::healthy().await,
    };
    let file = operation.file();
    rig.guard.deleting.store(operation == Operation::Destroy, Ordering::Relaxed);
    rig.lab.person().create("pve2", OF_OTHERS, &[("name", "theirs"), ("tags", "talosmith")]).unwrap();
    // Long ago, so that no one may be excused with its creation.
    rig.systems.clock.sleep(Duration::from_secs(900)).await;
    if workloads::has_canary(operation) {
        rig.deploy_canary().await;
    }
    let mut acts: Vec<Act> = wanted.into_iter().filter_map(|kind| act(kind, operation, chance)).collect();
    // A replacement without a majority is refused, and then nothing pulls an image.
    if operation == Operation::Replace && wanted.contains(&"service failed for good") {
        acts.iter_mut().for_each(|act| *act = Act::PowerOff(150_022));
    }
    // What is to break later needs a run that goes on, and a correction needs something that drifted.
    let breaks = acts.len() < wanted.len();
    let more = match operation {
        Operation::Create => 0,
        Operation::Drift if acts.is_empty() => 1,
        _ => chance.below(2),
    };
    acts.extend((0..more).filter_map(|_| any_act(operation, chance, breaks)));
    spare_quorum(&mut acts, operation);
    let mut met = BTreeSet::new();
    for act in &acts {
        if perform(&rig, *act).await {
            met.insert(act.words().to_owned());
        }
    }
    let dead = chance.one(&DEAD).0;
    if operation == Operation::Replace {
        rig.lab.inject(Injection::Unplugged { vmid: dead, unplugged: true });
        // Until Kubernetes says that it is not ready.
        rig.systems.clock.sleep(Duration::from_secs(120)).await;
    }
    let breaking = wanted.into_iter().filter_map(|kind| injection(kind, operation, dead, chance));
    let mut injections: Vec<(Injection, u64)> = breaking.collect();
    // What takes seconds would be over before something breaks.
    let short = matches!(
        operation,
        Operation::Drift | Operation::Update | Operation::Reconfigure | Operation::Destroy
    );
    let early = short || chance.below(2) == 0;
    let mut now = if early { std::mem::take(&mut injections) } else { vec![] };
    if let Some((_, first)) = injections.first_mut() {
        // The second one comes while there is still something to do.
        *first = chance.one(&[0, 1, 5]);
    }
    if chance.below(2) == 0 {
        let kind = chance.one(&table::KINDS);
        injections.extend(injection(kind, operation, dead, chance));
    }
    // A host that comes back starts what was rolled back or cloned on it, and etcd has an old log. That was nothing of Talosmith's.
    if acts.iter().any(|act| act.must_not_start()) {
        for list in [&mut now, &mut injections] {
            list.retain(|(injection, _)| !matches!(injection, Injection::HostOffline(_)));
        }
    }
    let dies = match wanted.contains(&"crash") {
        true => Some(Duration::from_millis(chance.below(if short { 1_200 } else { 12_000 }))),
        false => (chance.below(6) == 0).then(|| Duration::from_secs(chance.below(90))),
    };
    let told = format!("{operation:?}, {acts:?}, at once {now:?}, {injections:?}, dies after {dies:?}");
    let spared = acts.iter().all(|act| workloads::spared_by(*act))
        && now.iter().chain(&injections).all(|(injection, _)| workloads::unharmed_by(injection));
    let later = chance.below(60);
    let two =
        operation == Operation::TwoOperators || wanted.contains(&"second operator") || chance.below(6) == 0;
    let (started, calm) = (Mutex::new(BTreeSet::new()), chance.one(&[0, 1, 3, 10, 30]));
    for (injection, _) in now {
        started.lock().unwrap().extend(words(&injection).map(str::to_owned));
        rig.lab.inject(injection);
    }

    let (acknowledged, me, kim) = (AtomicU64::new(0), operator("me"), operator("kim"));
    let canary = async {
        for number in 1.. {
            rig.systems.clock.sleep(Duration::from_secs(1)).await;
            if rig.lab.write_canary(number) {
                acknowledged.store(number, Ordering::Relaxed);
            }
        }
    };
    let unanswered = Arc::new(Mutex::new(vec![]));
    let requests = async {
        if workloads::has_canary(operation) {
            rig.ask_canary(unanswered.clone()).await;
        }
        std::future::pending::<()>().await;
    };
    let breaks = async {
        rig.systems.clock.sleep(Duration::from_secs(calm)).await;
        for (injection, seconds) in &injections {
            rig.lab.inject(injection.clone());
            started.lock().unwrap().extend(words(injection).map(str::to_owned));
            rig.systems.clock.sleep(Duration::from_secs(*seconds)).await;
        }
        std::future::pending::<()>().await;
    };
    let death = async {
        match dies {
            Some(at) => rig.systems.clock.sleep(at).await,
            None => std::future::pending().await,
        }
    };
    let second = async {
        if two {
            rig.systems.clock.sleep(Duration::from_secs(later)).await;
            attempt(&rig, operation, &file, &kim).await;
        }
    };
    let first = async {
        tokio::select! {
            biased;
            () = death => "died".to_owned(),
            how = attempt(&rig, operation, &file, &me) => how,
        }
    };
    let how = tokio::select! {
        () = canary => unreachable!("it goes on for ever"),
        () = requests => unreachable!("it goes on for ever"),
        () = breaks => unreachable!("it goes on for ever"),
        (how, ()) = async { futures::join!(first, second) } => how,
    };
    // What an operation does to its nodes is not seen by the users of the cluster, unless something else takes a node away.
    let unanswered = unanswered.lock().unwrap().clone();
    assert!(!spared || unanswered.is_empty(), "{told}, {how}: the canary was not answered: {unanswered:?}");
    met.append(&mut started.lock().unwrap());
    met.extend((how == "died").then(|| "crash".to_owned()));
    met.extend(two.then(|| "second operator".to_owned()));
    rig.lab.shared().read(|systems, _| {
        met.extend(systems.faults.partitions_met().keys().map(|far| format!("cut: {far}")));
        met.extend(systems.faults.wires_met().first().map(|_| "connections that break".to_owned()));
        let failed = systems.faults.calls_met().iter().any(|call| call.contains("/eviction"));
        met.extend(failed.then(|| "evictions that fail".to_owned()));
    });
    let failed = rig.lab.person().failed_services();
    met.extend(failed.first().map(|_| "service failed for good".to_owned()));
    let acknowledged = acknowledged.into_inner();
    let gone = operation == Operation::Destroy && how == "done";
    if acknowledged > 0 && !gone && operation != Operation::Destroy {
        rig.lab.inject(Injection::Clear);
        rig.systems.clock.sleep(Duration::from_secs(120)).await;
        let read = rig.lab.read_canary();
        assert!(
            read >= Some(acknowledged),
            "{told}, {how}: {acknowledged} was acknowledged, {read:?} is read"
        );
    }
    rig.lab.inject(Injection::Clear);
    for act in &acts {
        undo(&rig, *act).await;
    }
    // What root is told to do after a power cut, and what Talos says of a service that it gave up.
    rig.lab.person().clear_locks();
    for vmid in failed {
        let _ = rig.lab.person().power_off(vmid);
    }
    // The lease of one who died, or whose way was cut, runs out.
    rig.systems.clock.sleep(Duration::from_secs(600)).await;
    let mut tries = vec![how.clone()];
    // A run that ends well may leave something to the next one: a machine that was off could not be compared with the file.
    let is_whole =
        |tries: &[String]| operation.asked().is_none() || tries.last().is_some_and(|last| last == "done");
    loop {
        let left = left(&rig, operation, &file).await;
        if tries.len() > 1 && is_whole(&tries) && left.is_none() {
            break;
        }
        assert!(
            tries.len() <= 3,
            "{told}: mended, and not done within three runs: {tries:?}; left is {left:?}"
        );
        // A creation that was cut off may end in its lock only now; root does what the message says.
        if tries.last().is_some_and(|last| last.contains("is an unfinished creation")) {
            assert_ne!(
                rig.lab.person().clear_locks(),
                [] as [u32; 0],
                "{told}: there is nothing for root to do: {tries:?}"
            );
        }
        // A service that was given up meanwhile: the person reboots its machine, as the message says. What the first run met is off.
        if tries.len() > 1 && tries.last().is_some_and(|last| last.contains("Talos does not try again")) {
            let failed = rig.lab.person().failed_services();
            assert_ne!(failed, [] as [u32; 0], "{told}: no service failed: {tries:?}");
            for vmid in failed {
                rig.lab.person().power_off(vmid).and_then(|()| rig.lab.person().power_on(vmid)).unwrap();
            }
            rig.systems.clock.sleep(Duration::from_secs(60)).await;
        }
        // A worker that a person switched off on the drained host uses the budget, and nothing else starts it there: the person does.
        if operation == Operation::DrainHost
            && tries.last().is_some_and(|last| last.contains("unavailable at once"))
        {
            let off =
                acts.iter().filter_map(|act| if let Act::PowerOff(vmid) = act { Some(*vmid) } else { None });
            for vmid in off {
                let _ = rig.lab.person().power_on(vmid);
            }
            rig.systems.clock.sleep(Duration::from_secs(120)).await;
        }
        // A command changes what it was asked to; what people did meanwhile is for the file.
        if operation.asked().is_some() {
            attempt(&rig, Operation::Drift, &file, &me).await;
        }
        tries.push(attempt(&rig, operation, &file, &me).await);
    }
    if operation == Operation::DrainHost {
        // What left comes back, and what was off is started.
        let asked = ByHand::of_host(Hand::UndrainHost, DRAINED);
        let ran = crate::maintenance::done(&rig, &file, &asked).await;
        assert_eq!(ran.outcome, Outcome::Done, "{told}: {:?}", ran.failures());
        attempt(&rig, Operation::Drift, &file, &me).await;
        let plan = rig.observe(&file).await.plan();
        assert!(plan.is_empty(), "{told}: {:?} {:?} {:?}", plan.steps, plan.blocked, plan.refusals);
    }
    rig.lab.shared().look();
    rig.guard.check();
    let left = rig.guard.leftovers(&rig.lab);
    assert!(left.is_empty(), "{told}: {left:?}");
    assert_eq!(rig.etcd_clusters(), 1, "{told}");
    Ran { operation, how: how.split(':').next().unwrap_or_default().to_owned(), met }
}

#[allow(clippy::print_stderr, reason = "how to repeat a run that failed")]
fn run_alone(seed: u64) -> Ran {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let ran =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(Box::pin(run(seed)))));
    ran.unwrap_or_else(|why| {
        eprintln!("seed {seed} failed; again with: conformance/operations/run {seed} 1");
        std::panic::resume_unwind(why)
    })
}

#[test]
fn a_few_operations() {
    in_parallel((1..=5).chain(10..=12).collect(), |seed| drop(run_alone(*seed)));
}

/// As many as are wanted, or as fit into the time: `conformance/operations/run [SEED [RUNS [MINUTES]]]`.
#[test]
#[ignore = "takes minutes: conformance/operations/run"]
fn many_operations() {
    let first: u64 = setting("OPERATION_SEED").unwrap_or(1);
    let runs: u64 = setting("OPERATION_RUNS").unwrap_or(100);
    let minutes: u64 = setting("OPERATION_MINUTES").unwrap_or(60);
    let clock = ambient::Clock::real();
    let began = clock.now();
    let ended = Mutex::new(BTreeMap::<(Operation, String), u64>::new());
    let met = Mutex::new(Table::default());
    in_parallel((first..first + runs).collect(), |seed| {
        if clock.now().duration_since(began).as_secs() < i64::try_from(minutes * 60).unwrap() {
            let ran = run_alone(*seed);
            *ended.lock().unwrap().entry((ran.operation, ran.how)).or_default() += 1;
            let mut met = met.lock().unwrap();
            for kind in ran.met {
                met.add(kind, ran.operation);
            }
        }
    });
    let ended = ended.into_inner().unwrap();
    let total: u64 = ended.values().sum();
    eprintln!("{total} of {runs} runs from seed {first}; each was done once mended. The first try ended:");
    for operation in ALL {
        let of: Vec<String> = ended
            .iter()
            .filter(|((done, _), _)| *done == operation)
            .map(|((_, how), count)| format!("{how} {count}"))
            .collect();
        let runs: u64 = ended.iter().filter(|((done, _), _)| *done == operation).map(|(_, n)| n).sum();
        eprintln!("  {operation:?}, {runs} runs: {}", of.join(", "));
    }
    let met = met.into_inner().unwrap();
    eprintln!("Runs that met each kind of fault (– where it makes no sense):");
    for line in met.lines() {
        eprintln!("  {line}");
    }
    for operation in ALL {
        for kind in table::KINDS {
            if let Some(why) = table::senseless(operation, kind) {
                eprintln!("  not counted: {operation:?}, {kind}: {why}");
            }
        }
    }
    let seldom = met.seldom();
    eprintln!("Fewer than {} times: {}", table::OFTEN, seldom.join("; "));
    assert!(!table::is_long(minutes, runs) || seldom.is_empty(), "met too seldom in a long run: {seldom:?}");
}
