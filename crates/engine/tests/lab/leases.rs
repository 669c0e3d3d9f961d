//! Two operators whose ways and clocks differ: whatever is cut or stopped, the next one starts only when the last one is done.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use ambient::{Clock, Dial, Net, Stream};
use engine::apply::Stop;
use engine::error::Kind;
use engine::lease::Operator;
use engine::{Session, Systems};
use jiff::{SignedDuration, Timestamp};
use lab::{CallMoment, Verdict};
use model::event::{Outcome, What};
use model::lease::{HOLDER_STOPS, SUCCESSOR_WAITS};
use model::step::{Action, Disruption, Step, StepId};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

use crate::external::METAL;
use crate::rig::{HOME, Ran, Rig, bundle, operator, spec};

fn taking_over(place: &str) -> Operator {
    Operator { take_over: true, ..operator(place) }
}

/// The way of one operator into the lab: parts of it can be cut, and what it writes to machines and Kubernetes is noted.
#[derive(Clone)]
struct Way {
    inner: Net,
    clock: Clock,
    /// To Proxmox.
    no_proxmox: Arc<AtomicBool>,
    /// To Kubernetes.
    no_kubernetes: Arc<AtomicBool>,
    /// When a machine or Kubernetes was dialled or written to.
    written: Arc<Mutex<Vec<Timestamp>>>,
}

impl Way {
    fn last_written(&self) -> Timestamp {
        self.written.lock().unwrap().last().copied().unwrap_or(Timestamp::MIN)
    }
}

impl Dial for Way {
    fn dial(&self, host: &str, port: u16) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        let (host, is_proxmox) = (host.to_owned(), port == 8006);
        let cut = (is_proxmox && self.no_proxmox.load(Ordering::Relaxed))
            || (port == 6443 && self.no_kubernetes.load(Ordering::Relaxed));
        if !is_proxmox {
            self.written.lock().unwrap().push(self.clock.now());
        }
        Box::pin(async move {
            if cut {
                std::future::pending::<()>().await;
            }
            let stream = self.inner.dial(&host, port).await?;
            match is_proxmox {
                true => Ok(stream),
                false => Ok(Stream::new(Noted { stream, way: self.clone() })),
            }
        })
    }
}

struct Noted {
    stream: Stream,
    way: Way,
}

impl AsyncRead for Noted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Noted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.way.written.lock().unwrap().push(self.way.clock.now());
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// An operator with a clock and a way of her own. The lab knows whose calls they are.
struct Apart<'a> {
    rig: &'a Rig,
    systems: Systems,
    way: Way,
    who: Operator,
}

impl<'a> Apart<'a> {
    fn new(rig: &'a Rig, who: Operator) -> Self {
        let facts = rig.lab.facts();
        let clock = Clock::from(rig.systems.clock.now(), 1.0);
        let way = Way {
            inner: rig.lab.net_of(&who.name),
            // Moments are told by the lab's clock, whatever hers says.
            clock: rig.systems.clock.clone(),
            no_proxmox: Arc::default(),
            no_kubernetes: Arc::default(),
            written: Arc::default(),
        };
        let net = Net::of(way.clone());
        let address = format!("https://{}", facts.endpoint);
        let pve = pve::Client::connect(
            pve::Endpoints::parse([address.as_str()]).unwrap(),
            &facts.token.parse().unwrap(),
            &pve::Trust::Fingerprints(vec![facts.fingerprint.parse().unwrap()]),
            net.clone(),
            clock.clone(),
        )
        .unwrap();
        let systems = Systems { pve, net, clock, ..rig.systems.clone() };
        Self { rig, systems, way, who }
    }

    /// Looks, plans, carries out; looks again as often as that was too early.
    async fn apply(&self, file: &str) -> engine::Result<Ran> {
        loop {
            let session = Session::new(self.systems.clone(), spec(file), Some(bundle()));
            let Ok(snapshot) = session.observe().await else { panic!("she can look") };
            let (_wish, stop) = watch::channel(Stop::No);
            let plan = snapshot.plan();
            match Box::pin(self.rig.carry_out_in(&self.systems, stop, &snapshot, &plan, &self.who)).await {
                Err(error) if error.kind() == Kind::Stale => {}
                result => return result,
            }
        }
    }
}

async fn apply(rig: &Rig, file: &str, who: &Operator) -> engine::Result<Ran> {
    loop {
        let snapshot = rig.observe(file).await;
        match Box::pin(rig.carry_out_as(&snapshot, &snapshot.plan(), who)).await {
            Err(error) if error.kind() == Kind::Stale => {}
            result => return result,
        }
    }
}

fn started(ran: &Ran) -> Timestamp {
    ran.events.iter().find(|e| matches!(e.what, What::Started { .. })).unwrap().at
}

/// [`HOME`] with a machine of others that never answers: `apply` asks for it again and again, for ten minutes.
fn busy_for_long() -> String {
    format!(
        "{HOME}nodes:\n  w-9: {{ role: worker, address: 10.25.150.99, external: true, unverified: true }}\n"
    )
}

/// Eva is at work with machines and loses her way to Proxmox only; Kim takes over.
async fn cut_off_from_proxmox(set_back: bool) {
    let rig = Rig::healthy().await;
    let (eva, kim) = (Apart::new(&rig, operator("eva")), taking_over("kim"));
    let way = &eva.way;
    let (hers, kims) = (busy_for_long(), HOME.replace("count: 2", "count: 3"));
    let second = async {
        rig.systems.clock.sleep(Duration::from_secs(50)).await;
        way.no_proxmox.store(true, Ordering::Relaxed);
        if set_back {
            eva.systems.clock.set_by(SignedDuration::from_mins(-4));
        }
        let cut = rig.systems.clock.now();
        (cut, apply(&rig, &kims, &kim).await.unwrap())
    };
    let (first, (cut, second)) = futures::join!(eva.apply(&hers), second);
    assert_eq!(second.outcome, Outcome::Done, "{:?}", second.failures());
    let last = way.last_written();
    assert!(last > cut, "she went on without Proxmox for a while");
    let limit = cut.checked_add(HOLDER_STOPS).unwrap();
    assert!(last <= limit, "she asked machines at {last}, and was cut off at {cut}");
    assert!(last < started(&second), "Kim started at {}", started(&second));
    assert_eq!(first.unwrap().outcome, Outcome::Failed);
    assert_eq!(rig.etcd_clusters(), 1);
}

#[tokio::test(start_paused = true)]
async fn a7_a_holder_without_proxmox_stops_before_its_successor_starts() {
    cut_off_from_proxmox(false).await;
}

#[tokio::test(start_paused = true)]
async fn by_reading_5_a_clock_that_is_set_back_does_not_prolong_a_lease() {
    cut_off_from_proxmox(true).await;
}

/// Two processes from one place, although the lock there was to keep them apart. The second needs no waiting, as after a crash;
/// the first finds another run in the lease at its next renewal.
async fn two_runs_from_one_place(
    rig: &Rig,
    hers: &str,
    second: &str,
    first: impl Future<Output = engine::Result<Ran>>,
) {
    let again = async {
        rig.systems.clock.sleep(Duration::from_secs(50)).await;
        let (asked, eva) = (rig.systems.clock.now(), operator("eva"));
        let ran = tokio::select! {
            biased;
            ran = apply(rig, second, &eva) => Some(ran.unwrap()),
            () = rig.systems.clock.sleep(Duration::from_secs(120)) => None,
        };
        (asked, ran)
    };
    let (first, (asked, again)) = futures::join!(first, again);
    let first = first.unwrap();
    assert_eq!(first.outcome, Outcome::Failed, "{hers}");
    let told = first.failures();
    let ends = "from the same folder took over the lease";
    let says = |told: &String| told.starts_with("lease: another run of eva@test") && told.ends_with(ends);
    assert!(told.iter().any(says), "{told:?}");
    let noticed = first.events.last().unwrap().at.duration_since(asked).as_secs();
    assert!(noticed < 30, "{noticed} s");
    if let Some(again) = again {
        assert_eq!(again.outcome, Outcome::Done, "{:?}", again.failures());
        let waited = started(&again).duration_since(asked).as_secs();
        assert!(waited < 10, "{waited} s");
    }
}

#[tokio::test(start_paused = true)]
async fn run_id_a_run_notices_another_one_from_the_same_place_in_the_record() {
    let rig = Rig::healthy().await;
    let (hers, second) = (busy_for_long(), HOME.replace("count: 2", "count: 3"));
    let eva = operator("eva");
    two_runs_from_one_place(&rig, &hers, &second, apply(&rig, &hers, &eva)).await;
    let state = rig.observe(HOME).await.observed.proxmox.record.clone().unwrap().state;
    assert_eq!(state.lease, None, "the second one released it");
}

#[tokio::test(start_paused = true)]
async fn run_id_a_run_notices_another_one_from_the_same_place_in_kubernetes() {
    let rig = crate::external::metal().await;
    assert_eq!(apply(&rig, METAL, &operator("eva")).await.unwrap().outcome, Outcome::Done);
    let hers = endless();
    let eva = operator("eva");
    two_runs_from_one_place(&rig, &hers, &hers, apply(&rig, &hers, &eva)).await;
    let found = crate::external::lease(&rig).await;
    assert_eq!(found.holder.as_deref(), Some("eva@test (eva)"), "the second one still had it when it died");
    // As fast as before: the lock proves that the run before is dead.
    let asked = rig.systems.clock.now();
    let third = endless().replace("33", "34");
    let ran = apply(&rig, &third, &eva);
    tokio::select! {
        biased;
        () = rig.systems.clock.sleep(Duration::from_secs(20)) => {}
        ran = ran => panic!("{:?} after {}", ran.map(|ran| ran.failures()), rig.systems.clock.now().duration_since(asked)),
    }
    assert!(crate::external::lease(&rig).await.since > Some(asked), "it is the third run's");
}

/// Eva's process is stopped, and goes on while Kim works.
#[tokio::test(start_paused = true)]
async fn a7_a_holder_that_was_stopped_changes_nothing_when_it_goes_on() {
    let rig = Rig::healthy().await;
    let (eva, kim) = (Apart::new(&rig, operator("eva")), taking_over("kim"));
    let (hers, kims) = (busy_for_long(), HOME.replace("count: 2", "count: 3"));
    let mut first = Box::pin(eva.apply(&hers));
    tokio::select! {
        biased;
        () = rig.systems.clock.sleep(Duration::from_secs(36)) => {}
        _ = &mut first => panic!("nothing answers for w-9"),
    }
    let mut second = Box::pin(apply(&rig, &kims, &kim));
    tokio::select! {
        biased;
        () = rig.systems.clock.sleep(SUCCESSOR_WAITS + Duration::from_secs(10)) => {}
        _ = &mut second => panic!("too fast"),
    }
    let woken = rig.systems.clock.now();
    let (first, second) = futures::join!(first, second);
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(started(&second) < woken, "Kim was at work");
    assert_eq!(first.outcome, Outcome::Failed);
    let told = first.failures();
    assert!(told.contains(&"lease: kim@test took over the lease".to_owned()), "{told:?}");
    let last = eva.way.last_written();
    assert!(last < woken, "she asked machines at {last}, and went on at {woken}");
    assert_eq!(second.outcome, Outcome::Done, "{:?}", second.failures());
    assert_eq!(rig.etcd_clusters(), 1);
}

/// Another operator deletes the cluster, or a person only the record, which may also move or give its VM ID to another VM: the run
/// ends with that reason at its next renewal. It does not wait for what can never come.
#[tokio::test(start_paused = true)]
async fn a7_a_holder_whose_record_is_gone_stops_at_once() {
    for (what, told) in [
        ("deleted", "lease: the cluster record VM 150010 was deleted"),
        ("migrated", "lease: the cluster record VM 150010 was migrated from pve1 to pve2"),
        ("reused", "lease: VM 150010 on pve1 is not the record VM of this cluster"),
    ] {
        let rig = Rig::healthy().await;
        let eva = Apart::new(&rig, operator("eva"));
        let person = async {
            rig.systems.clock.sleep(Duration::from_secs(50)).await;
            let person = rig.lab.person();
            match what {
                "migrated" => person.migrate(150_010, "pve2").unwrap(),
                _ => {
                    person.set(150_010, "protection", "0").unwrap();
                    person.delete(150_010).unwrap();
                }
            }
            if what == "reused" {
                person.create("pve1", 150_010, &[("name", "theirs")]).unwrap();
            }
            rig.systems.clock.now()
        };
        let hers = busy_for_long();
        let (ran, gone) = futures::join!(eva.apply(&hers), person);
        let ran = ran.unwrap();
        assert_eq!(ran.outcome, Outcome::Failed);
        assert!(ran.failures().iter().any(|failure| failure.starts_with(told)), "{:?}", ran.failures());
        let took = ran.events.last().unwrap().at.duration_since(gone).as_secs();
        assert!(took < 30, "it took {took} s");
    }
}

/// Proxmox is away for two minutes, and no one else comes: the run waits and goes on.
#[tokio::test(start_paused = true)]
async fn a7_a_holder_goes_on_once_it_has_renewed() {
    let rig = Rig::new();
    let eva = Apart::new(&rig, operator("eva"));
    let way = &eva.way;
    let outage = async {
        rig.systems.clock.sleep(Duration::from_secs(38)).await;
        way.no_proxmox.store(true, Ordering::Relaxed);
        rig.systems.clock.sleep(Duration::from_secs(120)).await;
        way.no_proxmox.store(false, Ordering::Relaxed);
    };
    let (ran, ()) = futures::join!(eva.apply(HOME), outage);
    let ran = ran.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_whole().await;
}

/// [`METAL`] with a worker that never answers, so that a run goes on and on.
fn endless() -> String {
    format!("{METAL}  w-2: {{ role: worker, address: 10.25.150.33, external: true, unverified: true }}\n")
}

#[tokio::test(start_paused = true)]
async fn t4_a_run_that_makes_kubernetes_takes_the_lease_as_soon_as_it_answers() {
    let rig = crate::external::metal().await;
    let (file, eva, kim) = (endless(), operator("eva"), operator("kim"));
    let mut first = Box::pin(apply(&rig, &file, &eva));
    tokio::select! {
        biased;
        () = rig.systems.clock.sleep(Duration::from_secs(5 * 60)) => {}
        _ = &mut first => panic!("nothing answers for w-2"),
    }
    assert_eq!(crate::external::lease(&rig).await.holder.as_deref(), Some("eva@test (eva)"));
    let second = tokio::select! {
        biased;
        second = apply(&rig, &file, &kim) => second,
        _ = &mut first => panic!("nothing answers for w-2"),
    };
    let error = second.err().unwrap();
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    assert!(error.to_string().starts_with("eva@test (eva) is changing the cluster"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn t4_a_run_without_a_lease_stops_when_another_operator_has_it() {
    let metal = crate::external::metal().await;
    assert_eq!(apply(&metal, METAL, &operator("first")).await.unwrap().outcome, Outcome::Done);
    let mut eva = Apart::new(&metal, operator("eva"));
    eva.systems.pve = metal.systems.pve.clone();
    let way = &eva.way;
    way.no_kubernetes.store(true, Ordering::Relaxed);
    let (file, kim) = (endless(), operator("kim"));
    // She sees no Kubernetes, so there is no place for her lease.
    let first = eva.apply(&file);
    let second = async {
        metal.systems.clock.sleep(Duration::from_secs(20)).await;
        let mut kims = Box::pin(apply(&metal, &file, &kim));
        tokio::select! {
            biased;
            () = metal.systems.clock.sleep(Duration::from_secs(20)) => {}
            _ = &mut kims => panic!("nothing answers for w-2"),
        }
        assert_eq!(crate::external::lease(&metal).await.holder.as_deref(), Some("kim@test (kim)"));
        way.no_kubernetes.store(false, Ordering::Relaxed);
        let back = metal.systems.clock.now();
        tokio::select! {
            biased;
            () = metal.systems.clock.sleep(Duration::from_secs(60)) => {}
            _ = &mut kims => panic!("nothing answers for w-2"),
        }
        back
    };
    let (first, back) = futures::join!(first, second);
    let first = first.unwrap();
    assert_eq!(first.outcome, Outcome::Failed);
    let told = first.failures();
    assert!(told.iter().any(|t| t.starts_with("lease: kim@test (kim) is changing the cluster")), "{told:?}");
    let ended = first.events.last().unwrap().at;
    assert!(
        ended.duration_since(back).as_secs() < 20,
        "she stopped at {ended}, and could have known at {back}"
    );
}

/// A run takes the lease in Kubernetes over and dies during its wait: the next one from there waits again.
#[tokio::test(start_paused = true)]
async fn a_take_over_in_kubernetes_that_was_killed_waits_again() {
    let rig = crate::external::metal().await;
    assert_eq!(apply(&rig, METAL, &operator("eva")).await.unwrap().outcome, Outcome::Done);
    let (file, eva, kim) = (endless(), operator("eva"), taking_over("kim"));
    let mut first = Box::pin(apply(&rig, &file, &eva));
    tokio::select! {
        biased;
        () = rig.systems.clock.sleep(Duration::from_secs(30)) => {}
        _ = &mut first => panic!("nothing answers for w-2"),
    }
    drop(first);
    let taken = rig.systems.clock.now();
    tokio::select! {
        biased;
        _ = apply(&rig, &file, &kim) => panic!("it waits longer"),
        () = rig.systems.clock.sleep(Duration::from_secs(40)) => {}
    }
    let found = crate::external::lease(&rig).await;
    assert_eq!(found.holder.as_deref(), Some("kim@test (kim)"));
    assert!(found.outwaits.is_some(), "{found:?}");
    let snapshot = rig.observe(METAL).await;
    let again = rig.carry_out(&snapshot, &snapshot.plan(), "kim").await;
    assert_eq!(again.err().map(|error| error.kind()), Some(Kind::Stale));
    let waited = rig.systems.clock.now().duration_since(taken).as_secs();
    assert!(waited >= i64::try_from(SUCCESSOR_WAITS.as_secs()).unwrap(), "{waited}");
    let found = crate::external::lease(&rig).await;
    assert_eq!((found.holder, found.outwaits), (None, None), "the wait is over, and the lease released");
    assert_eq!(apply(&rig, METAL, &operator("kim")).await.unwrap().outcome, Outcome::Done);
}

/// Kubernetes is not seen at first. It has a free lease that another operator had: whether before or after, nothing tells.
#[tokio::test(start_paused = true)]
async fn t4_a_free_lease_that_another_operator_had_stops_a_run_that_did_not_see_it() {
    let metal = crate::external::metal().await;
    assert_eq!(apply(&metal, METAL, &operator("eva")).await.unwrap().outcome, Outcome::Done);
    for (who, goes_on) in [("eva", true), ("kim", false)] {
        let mut late = Apart::new(&metal, operator(who));
        late.systems.pve = metal.systems.pve.clone();
        late.way.no_kubernetes.store(true, Ordering::Relaxed);
        let file = endless();
        let back = async {
            metal.systems.clock.sleep(Duration::from_secs(20)).await;
            late.way.no_kubernetes.store(false, Ordering::Relaxed);
            metal.systems.clock.sleep(Duration::from_secs(40)).await;
        };
        let mut run = Box::pin(late.apply(&file));
        let ended = tokio::select! {
            biased;
            ran = &mut run => Some(ran.unwrap()),
            () = back => None,
        };
        assert_eq!(ended.is_none(), goes_on, "{who}: {:?}", ended.map(|ran| ran.failures()));
        if goes_on {
            let holder = crate::external::lease(&metal).await.holder;
            assert_eq!(holder.as_deref(), Some("eva@test (eva)"), "it was hers last, so she has it again");
            drop(run);
            // Her process is gone; she comes again and gives it back.
            assert_eq!(apply(&metal, METAL, &operator("eva")).await.unwrap().outcome, Outcome::Done);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn arch3_steps_that_never_start_are_a_failure() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(HOME).await;
    let step = |id: &str, after: &str| Step {
        id: StepId(id.to_owned()),
        action: Action::CheckHealth,
        after: vec![StepId(after.to_owned())],
        reason: String::new(),
        disruption: Disruption::None,
        seconds: 1,
        unit: None,
    };
    let mut plan = snapshot.plan();
    plan.steps = vec![step("a", "b"), step("b", "a")];
    let error = rig.carry_out(&snapshot, &plan, "me").await.err().expect("nothing of it is started");
    assert!(error.causes().join(": ").contains("these steps wait for each other: a, b"), "{error}");
    plan.steps = vec![step("a", "not-in-the-plan")];
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    assert_eq!(ran.failures(), ["a: it was never started: it waits for not-in-the-plan"]);
}

/// Every changing call is made by the holder of the lease at that moment, when two operators start at once again and again.
#[tokio::test(start_paused = true)]
async fn a7_no_call_changes_anything_before_the_lease_is_taken() {
    let rig = Rig::healthy().await;
    let changes: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = changes.clone();
    rig.lab.on_call(move |_, moment, method, path| {
        if moment == CallMoment::After && method != "GET" && method != "CALL" {
            noted.lock().unwrap().push(path.to_owned());
        }
        Verdict::GoOn
    });
    let more = HOME.replace("count: 2", "count: 3");
    let snapshot = rig.observe(&more).await;
    let ran = rig.carry_out(&snapshot, &snapshot.plan(), "eva").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let changes = changes.lock().unwrap();
    assert!(changes.first().unwrap().ends_with("/qemu/150010/config"), "{changes:?}");
    assert!(changes.last().unwrap().ends_with("/qemu/150010/config"), "{changes:?}");
}

/// Proxmox does not answer, so the lease is not renewed and no step goes on. A step that only waits is left at the first request to
/// stop all the same.
#[tokio::test(start_paused = true)]
async fn left_1_a_run_whose_lease_is_not_renewed_stops_when_it_is_asked_to() {
    let rig = Rig::healthy().await;
    let eva = Apart::new(&rig, operator("eva"));
    let file = busy_for_long();
    let session = Session::new(eva.systems.clone(), spec(&file), Some(bundle()));
    let Ok(snapshot) = session.observe().await else { panic!("she can observe") };
    let (request, stop) = watch::channel(Stop::No);
    let asking = async {
        rig.systems.clock.sleep(Duration::from_secs(50)).await;
        eva.way.no_proxmox.store(true, Ordering::Relaxed);
        rig.systems.clock.sleep(HOLDER_STOPS + Duration::from_secs(10)).await;
        request.send_replace(Stop::Graceful);
        rig.systems.clock.now()
    };
    let plan = snapshot.plan();
    let run = Box::pin(rig.carry_out_in(&eva.systems, stop, &snapshot, &plan, &eva.who));
    let (ran, asked) = futures::join!(run, asking);
    let ran = ran.unwrap();
    assert_eq!(ran.outcome, Outcome::Interrupted, "{:?}", ran.failures());
    let took = ran.events.last().unwrap().at.duration_since(asked).as_secs();
    assert!(took <= 31, "it took {took} s; to release the lease is tried for half a minute");
}
