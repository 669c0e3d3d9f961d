//! A machine with its configuration.

use secrecy::ExposeSecret as _;
use talos_client::{ApplyMode, Change, Kind, Lines, Past, Reboot, Reset, SequenceFailure, Stage, What};

use super::*;

/// Nothing on the wire means "restart"; the client always says what it wants, and the machine stays up.
#[tokio::test(start_paused = true)]
async fn an_apply_does_not_restart_by_accident() {
    let rig = Rig::with_single().await;
    let machine = rig.machine(61);
    let before = machine.boot_id().await.unwrap();
    let changed = usual().replacen("machine:\n", "machine:\n    sysctls:\n        a: \"1\"\n", 1);
    assert!(!machine.apply(changed.as_bytes()).await.unwrap().reboots);
    rig.pass(60).await;
    assert_eq!(machine.boot_id().await.unwrap(), before);
    assert_eq!(machine.machine_config().await.unwrap().expose_secret(), changed);
    let env = usual().replacen("machine:\n", "machine:\n    env:\n        A: b\n", 1);
    assert!(machine.apply_dry_run(env.as_bytes()).await.unwrap().reboots, "this one would need it");
    let error = machine.apply_with(env.as_bytes(), ApplyMode::NoReboot).await.unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidConfig, "and is refused where the mode does not allow it");
}

/// The machine's account of a difference holds secrets; nothing of it comes out of the client.
#[tokio::test(start_paused = true)]
async fn no_secret_comes_out_of_a_difference() {
    let rig = Rig::with_single().await;
    let machine = rig.machine(61);
    let text = usual();
    let token = text.lines().find(|line| line.trim_start().starts_with("token: ")).unwrap();
    let other = text.replacen(token, "    token: abcdef.0123456789abcdef", 1);
    let dry = machine.apply_dry_run(other.as_bytes()).await.unwrap();
    let error = machine.apply_with(other.as_bytes(), ApplyMode::NoReboot).await.unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidConfig);
    for shown in [format!("{dry:?}"), format!("{error:?}"), error.to_string()] {
        assert!(!shown.contains("abcdef.0123") && !shown.contains(token.trim()), "{shown}");
    }
    let release = Contract::parse("v1.13").unwrap();
    let changes = machine.changes_to(&other, release).await.unwrap();
    assert_eq!(changes.iter().map(|c| c.path.as_str()).collect::<Vec<_>>(), ["machine.token"]);
}

/// A configuration of several megabytes goes there and comes back.
#[tokio::test(start_paused = true)]
async fn a_large_configuration_is_read_back() {
    let rig = Rig::with_configured().await;
    let large = usual() + &"# filled up with words that no one reads\n".repeat(150_000);
    rig.machine(61).apply(large.as_bytes()).await.unwrap();
    assert_eq!(rig.machine(61).machine_config().await.unwrap().expose_secret().len(), large.len());
}

/// A type that the release does not know is refused as forbidden; the client says what it means.
#[tokio::test(start_paused = true)]
async fn a_forbidden_type_is_one_that_the_release_lacks() {
    let rig = Rig::with_configured().await;
    let error = rig.machine(61).list("runtime", "BootIDs.runtime.talos.dev").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unimplemented);
    assert!(error.reason().starts_with("this release does not have it"), "{error}");
}

/// The kubeconfig has no end of its archive and can be had before the cluster; calls to etcd have no answer then.
#[tokio::test(start_paused = true)]
async fn before_the_cluster_there_is_a_kubeconfig_and_no_answer_of_etcd() {
    let rig = Rig::with_configured().await;
    let kubeconfig = rig.machine(61).kubeconfig().await.unwrap();
    assert!(kubeconfig.expose_secret().contains("https://10.25.150.60:6443"));
    let error = rig.machine(61).within(MINUTE).etcd_status().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Deadline);
    assert!(error.hint().unwrap().contains("bootstrapped"), "{error}");
}

/// Events end well and watches break when a machine goes down; afterwards it is known by its boot id.
#[tokio::test(start_paused = true)]
async fn streams_end_and_the_boot_id_tells() {
    let rig = Rig::home().await;
    let worker = rig.machine(21);
    let before = worker.boot_id().await.unwrap();
    let mut events = worker.events(Past::Nothing).await.unwrap();
    let kind = "MachineStatuses.runtime.talos.dev";
    let mut watch = worker.watch("runtime", kind, Some("machine")).await.unwrap();
    assert!(matches!(watch.next(MINUTE).await.unwrap(), Some(Change::Created(_))));
    worker.reboot(Reboot::Usual).await.unwrap();
    let mut last = Stage::Running;
    while let Some(event) = events.next(MINUTE).await.unwrap() {
        if let What::Status(status) = event.what {
            last = status.stage;
        }
    }
    assert_eq!(last, Stage::Rebooting);
    let end = loop {
        match watch.next(MINUTE).await {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert_eq!(end.unwrap_err().kind(), Kind::Unavailable);
    worker.wait_for_boot(&before, QUARTER).await.unwrap();
    assert_eq!(worker.stage().await.unwrap().stage, Stage::Running);
    assert_ne!(worker.boot_id().await.unwrap(), before);
}

/// Two restarts at once: the second takes over, and neither caller is told of a failure.
#[tokio::test(start_paused = true)]
async fn a_restart_that_was_taken_over_is_no_failure() {
    let rig = Rig::home().await;
    let (one, two) = (rig.machine(21), rig.machine(21));
    let later = async {
        rig.systems.clock.sleep(Duration::from_millis(300)).await;
        two.reboot(Reboot::Usual).await
    };
    let (first, second) = tokio::join!(one.reboot_and_wait(Reboot::Usual, QUARTER), later);
    first.unwrap();
    second.unwrap();
}

/// A sequence that was not started is answered well; the event that says so names no one.
#[tokio::test(start_paused = true)]
async fn a_sequence_that_was_not_begun_is_heard_of() {
    let rig = Rig::home().await;
    let worker = rig.machine(21);
    let mut events = worker.events(Past::Nothing).await.unwrap();
    worker.reboot(Reboot::Usual).await.unwrap();
    let wipe = Reset { reboot: true, ..Reset::default() };
    assert!(!worker.reset(&wipe).await.unwrap().is_empty(), "as if it had started");
    let refused = loop {
        let event = events.next(MINUTE).await.unwrap().unwrap();
        if let What::Sequence { name, failure: Some(failure), .. } = event.what {
            break (event.actor, name, failure);
        }
    };
    assert_eq!(refused, (String::new(), "reset".to_owned(), SequenceFailure::Locked));
}

/// An idle stream is not pinged: after an hour it still tells what happens.
#[tokio::test(start_paused = true)]
async fn an_idle_stream_lives_for_an_hour() {
    let rig = Rig::home().await;
    let worker = rig.machine(21);
    let mut events = worker.events(Past::Nothing).await.unwrap();
    let hour = Duration::from_secs(3600);
    while events.next(hour).await.is_ok() {}
    worker.service_restart("kubelet").await.unwrap();
    let heard = events.next(MINUTE).await.unwrap().unwrap();
    assert!(matches!(heard.what, What::Service { .. } | What::Status(_)), "{heard:?}");
}

/// What a service takes, what it wrote, and what the kernel said.
#[tokio::test(start_paused = true)]
async fn services_take_orders_that_change_nothing() {
    let rig = Rig::home().await;
    let control = rig.machine(11);
    control.service_start("etcd").await.unwrap();
    control.service_restart("kubelet").await.unwrap();
    let error = control.service_stop("etcd").await.unwrap_err();
    assert!(error.to_string().contains("doesn't support stop operation"), "{error}");
    rig.machine(13).etcd_leave().await.unwrap();
    rig.pass(10).await;
    rig.machine(13).service_stop("etcd").await.expect("it does not run");
    assert!(!control.dmesg().await.unwrap().is_empty());
    assert!(!control.logs("kubelet", Lines::All).await.unwrap().is_empty());
    let last = control.logs("kubelet", Lines::Last(1)).await.unwrap();
    assert!(last.lines().count() <= 1, "{last}");
    assert_eq!(control.logs("nope", Lines::All).await.unwrap_err().kind(), Kind::Other);
}

/// Who switches a machine off is answered before it is off.
#[tokio::test(start_paused = true)]
async fn a_machine_that_was_switched_off_answers_first() {
    let rig = Rig::home().await;
    let worker = rig.machine(21);
    worker.shutdown(true).await.unwrap();
    rig.pass(120).await;
    let error = worker.within(MINUTE).version().await.unwrap_err();
    assert!(matches!(error.kind(), Kind::Unavailable | Kind::Deadline), "{error}");
}
