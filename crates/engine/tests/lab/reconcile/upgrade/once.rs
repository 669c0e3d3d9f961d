//! One approval is enough for all of an upgrade: what the first plan leads to is done without another run.

use lab::{CallMoment, Verdict};

use super::*;

impl Controller {
    /// `apply --yes`, with no one to ask.
    async fn unattended(&self, file: &str) -> Reconciled {
        let who = operator("eva");
        let session = Session::new(self.rig.world_of(&who), spec(file), Some(bundle()));
        let session = session.with_snapshots(Arc::new(Counted::default()));
        let never = |_| -> BoxFuture<'static, Answer> { Box::pin(async { Answer::Unavailable }) };
        let (_request, stop) = watch::channel(Stop::No);
        self.with(session, Intent::Apply, &who, Mandate::FirstPlan, &never, stop).await.unwrap()
    }
}

/// The program dies while a node reboots for its upgrade.
#[tokio::test(start_paused = true)]
async fn a_run_that_died_during_a_reboot_is_finished_by_the_next_one() {
    /// The call of the first reboot, and the labs after it.
    type Found = (Option<u64>, Vec<Vec<u8>>);
    let rig = Rig::healthy().await;
    let file = with_talos("v1.13.10");
    let moments: Arc<Mutex<Found>> = Arc::default();
    rig.lab.on_call({
        let (moments, shared) = (moments.clone(), Arc::downgrade(rig.lab.shared()));
        move |number, moment, _, path| {
            let Some(shared) = shared.upgrade() else { return Verdict::GoOn };
            let mut moments = moments.lock().unwrap();
            if moment == CallMoment::After && path.ends_with("/Reboot") && moments.0.is_none() {
                moments.0 = Some(number);
            }
            let since = moments.0.map(|first| number.saturating_sub(first));
            if since.is_some_and(|since| since < 60 && since % 6 == 1) {
                let systems = shared.read(|systems, _| serde_json::to_vec(systems).unwrap());
                moments.1.push(systems);
            }
            Verdict::GoOn
        }
    });
    Controller::of(&rig).approved(&file).await;
    rig.lab.on_call(|_, _, _, _| Verdict::GoOn);
    let moments = std::mem::take(&mut moments.lock().unwrap().1);
    let mut waited = 0;
    for systems in &moments {
        let plan = Rig::copy_of(systems).observe(&file).await.plan();
        if !plan.blocked.iter().any(|blocked| blocked.what.contains("may be rebooting")) {
            continue;
        }
        waited += 1;
        let rig = Rig::copy_of(systems);
        let controller = Controller::of(&rig);
        let reconciled = controller.unattended(&file).await;
        assert!(
            matches!(reconciled.ended, Ended::Converged),
            "{:?} {:?}",
            reconciled.ended,
            controller.failed()
        );
        assert_eq!(rig.releases(&file).await, ["v1.13.10"; 5]);
        assert_eq!(rig.cordoned().await.len(), 0);
        break;
    }
    assert_eq!(waited, 1, "one of {} moments is in the reboot", moments.len());
}

#[tokio::test(start_paused = true)]
async fn a_new_worker_goes_all_the_way_with_the_others() {
    let rig = Rig::healthy_with("v1.12.11").await;
    let file = with_talos("v1.14.1").replace("role: worker, count: 2", "role: worker, count: 3");
    let controller = Controller::of(&rig);
    let reconciled = controller.unattended(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    assert_eq!(rig.releases(&file).await, ["v1.14.1"; 5]);
    let new = rig.observe(&file).await.observed.machines["home-work-3"].talos.clone();
    assert_eq!(new.as_deref(), Some("v1.14.1"));
}
