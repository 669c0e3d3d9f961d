//! A changed version of Kubernetes: part by part over the control plane nodes, then the kubelets, and hop by hop.

use std::collections::BTreeSet;

use super::*;

const STATIC_PODS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// The file with another Kubernetes.
pub(super) fn with_kubernetes(kubernetes: &str) -> String {
    HOME.replace("kubernetes: v1.35.4", &format!("kubernetes: {kubernetes}"))
}

impl Rig {
    /// What the kubelets of all nodes report, and the images of all static pods.
    pub(super) async fn kubernetes_versions(&self) -> BTreeSet<String> {
        let kubernetes = self.kubernetes();
        let nodes = kubernetes.nodes().await.unwrap().into_values().map(|node| node.version);
        let pods = kubernetes.control_plane_pods().await.unwrap().into_iter();
        let tag = |image: String| image.rsplit_once(':').map(|(_, tag)| tag.to_owned()).unwrap_or_default();
        nodes.chain(pods.map(|pod| tag(pod.image))).collect()
    }
}

/// The order of what was done, without what is around it.
fn upgraded(steps: &[String]) -> Vec<&str> {
    steps.iter().filter_map(|step| step.strip_prefix("upgrade-component/")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_minor_goes_part_by_part_and_kubelets_last_on_drained_nodes() {
    let rig = Rig::healthy().await;
    rig.deploy_canary().await;
    let (controller, file) = (Controller::of(&rig), with_kubernetes("v1.36.3"));
    let plan = rig.observe(&file).await.plan();
    assert_eq!((plan.refusals.len(), plan.blocked.len(), plan.units.len()), (0, 0, 14), "{plan:?}");
    let before = rig.boots();
    let reconciled = controller.upgrade(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    assert_eq!(rig.kubernetes_versions().await, BTreeSet::from(["v1.36.3".to_owned()]));
    assert_eq!(rig.boots(), before, "no machine reboots");
    let proxy = serde_json::to_string(&rig.kubernetes().daemon_set("kube-proxy").await.unwrap()).unwrap();
    assert!(proxy.contains("registry.k8s.io/kube-proxy:v1.36.3"), "{proxy}");
    let steps = controller.done();
    let done = upgraded(&steps);
    let parts: Vec<&str> = done.iter().map(|step| step.split_once('/').unwrap().1).collect();
    for (number, component) in STATIC_PODS.iter().enumerate() {
        assert_eq!(parts[number * 3..number * 3 + 3], [*component; 3], "{done:?}");
    }
    assert_eq!(parts[9..12], ["kube-proxy"; 3], "{done:?}");
    assert_eq!(parts[12..], ["kubelet"; 5], "{done:?}");
    assert!(done[12..15].iter().all(|step| step.contains("control")), "control plane nodes first: {done:?}");
    let first = position(&steps, &format!("upgrade-component/{}", done[0]));
    assert!(position(&steps, "snapshot-etcd") < first, "{steps:?}");
    for node in CONTROL.iter().chain(&WORKERS) {
        assert!(position(&steps, &format!("pull-images/{node}")) < first, "{steps:?}");
        let drained = position(&steps, &format!("drain-node/{node}"));
        assert!(drained < position(&steps, &format!("upgrade-component/{node}/kubelet")), "{steps:?}");
    }
    let kubelet = format!("upgrade-component/{}", done[12]);
    assert!(position(&steps, "upgrade-proxy") < position(&steps, &kubelet), "{steps:?}");
    assert_eq!(controller.asked().len(), 1, "it is asked for once");
    assert_eq!(rig.cordoned().await.len(), 0);
    rig.assert_nothing_to_do(&file).await;
}

#[tokio::test(start_paused = true)]
async fn a_patch_release_drains_no_node() {
    let rig = Rig::healthy().await;
    rig.deploy_canary().await;
    let (controller, file) = (Controller::of(&rig), with_kubernetes("v1.35.6"));
    let reconciled = controller.upgrade(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    assert_eq!(rig.kubernetes_versions().await, BTreeSet::from(["v1.35.6".to_owned()]));
    let steps = controller.done();
    assert!(!steps.iter().any(|step| step.starts_with("drain-node/")), "{steps:?}");
    rig.assert_nothing_to_do(&file).await;
}

#[tokio::test(start_paused = true)]
async fn talos_and_kubernetes_go_hop_by_hop_in_one_apply() {
    let rig = Rig::new();
    let old = HOME
        .replace("talos: v1.13.9", "talos: v1.12.11")
        .replace("kubernetes: v1.35.4", "kubernetes: v1.33.6")
        .replace("role: worker, count: 2", "role: worker, count: 3");
    let ran = Box::pin(rig.apply(&old)).await;
    assert_eq!(ran.outcome, model::event::Outcome::Done, "{:?}", ran.failures());
    rig.deploy_canary().await;
    let file = old.replace("talos: v1.12.11", "talos: v1.14.1").replace("v1.33.6", "v1.37.0");
    let plan = rig.observe(&file).await.plan();
    let told = "Talos v1.13.10 → v1.14.1, then Kubernetes v1.34.2 → v1.35.4 → v1.36.3 → v1.37.0";
    assert!(plan.notes.iter().any(|note| note.text.contains(told)), "{:?}", plan.notes);
    assert_eq!(plan.hops_left(), 6);
    let controller = Controller::of(&rig);
    let reconciled = controller.upgrade(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    assert_eq!(rig.kubernetes_versions().await, BTreeSet::from(["v1.37.0".to_owned()]));
    assert_eq!(rig.releases(&file).await, ["v1.14.1"; 5]);
    assert_eq!(controller.asked().len(), 1, "{:?}", controller.asked());
    let steps = controller.done();
    let count = |kind: &str| steps.iter().filter(|step| step.starts_with(kind)).count();
    assert_eq!((count("install-talos/"), count("upgrade-component/")), (12, 4 * (12 + 6)));
    rig.assert_nothing_to_do(&file).await;
}

#[tokio::test(start_paused = true)]
async fn talos_goes_first_and_kubernetes_follows() {
    let rig = Rig::healthy().await;
    let file = with_talos("v1.13.10").replace("kubernetes: v1.35.4", "kubernetes: v1.36.3");
    let controller = Controller::of(&rig);
    let reconciled = controller.approved(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    assert_eq!(rig.releases(&file).await, ["v1.13.10"; 5]);
    assert_eq!(rig.kubernetes_versions().await, BTreeSet::from(["v1.36.3".to_owned()]));
    assert_eq!(controller.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_older_kubernetes_is_refused_and_nothing_is_changed() {
    let rig = Rig::healthy().await;
    let (controller, changes) = (Controller::of(&rig), rig.count_changes());
    let reconciled = controller.approved(&with_kubernetes("v1.34.2")).await;
    assert!(matches!(reconciled.ended, Ended::Refused), "{:?}", reconciled.ended);
    let (_, plan) = reconciled.last.unwrap();
    assert!(plan.refusals[0].why.contains("Kubernetes is not downgraded"), "{:?}", plan.refusals);
    assert_eq!(changes.load(std::sync::atomic::Ordering::Relaxed), 0);
}

/// Its image cannot be started although it was there to be pulled. It stays cordoned, and nothing else is upgraded.
#[tokio::test(start_paused = true)]
async fn a_kubelet_that_does_not_return_ends_the_run_with_the_way_out() {
    let rig = Rig::healthy().await;
    let (controller, file) = (Controller::of(&rig), with_kubernetes("v1.36.3"));
    let missing = |missing| Injection::NoImage { vmid: 150_021, service: "kubelet".into(), missing };
    rig.lab.inject(missing(true));
    let reconciled = controller.approved(&file).await;
    assert!(matches!(reconciled.ended, Ended::Failed), "{:?}", reconciled.ended);
    let (step, code, why) = controller.failed().remove(0);
    assert_eq!(
        (step.as_str(), code.as_str()),
        ("upgrade-component/home-work-1/kubelet", "component-not-ready"),
        "{why}"
    );
    assert!(why.contains("the kubelet service of home-work-1 is Failed"), "{why}");
    let hint = controller.events().into_iter().find_map(|what| match what {
        What::StepFailed { hint, .. } => Some(hint),
        _ => None,
    });
    assert!(hint.unwrap().contains("talosmith node reboot home-work-1"));
    let runs = rig.kubernetes().nodes().await.unwrap();
    assert_eq!(runs["home-work-2"].version, "v1.35.4", "nothing else is upgraded");
    assert!(rig.cordoned().await.contains_key("home-work-1"));
    // Once it starts, the next run goes on from there.
    rig.lab.inject(missing(false));
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let controller = Controller::of(&rig);
    let reconciled = controller.approved(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    assert_eq!(upgraded(&controller.done()), ["home-work-2/kubelet"]);
    assert_eq!((rig.kubernetes_versions().await.len(), rig.cordoned().await.len()), (1, 0));
    rig.assert_nothing_to_do(&file).await;
}

/// What stopped in the middle goes on where it stands: only what runs tells.
#[tokio::test(start_paused = true)]
async fn an_interrupted_upgrade_goes_on_where_it_stands() {
    let rig = Rig::healthy().await;
    let (controller, file) = (Controller::of(&rig), with_kubernetes("v1.36.3"));
    let (request, stop) = watch::channel(Stop::No);
    let sent = Arc::new(Mutex::new(0));
    rig.lab.on_call({
        let sent = sent.clone();
        move |_, moment, _, path| {
            if moment == lab::CallMoment::After && path.ends_with("/ApplyConfiguration") {
                *sent.lock().unwrap() += 1;
                if *sent.lock().unwrap() == 5 {
                    let _ = request.send(Stop::Graceful);
                }
            }
            lab::Verdict::GoOn
        }
    });
    let who = operator("eva");
    let session = Session::new(rig.world_of(&who), spec(&file), Some(bundle()));
    let session = session.with_snapshots(Arc::new(Counted::default()));
    let never = |_| -> BoxFuture<'static, Answer> { Box::pin(async { Answer::Unavailable }) };
    let stopped =
        controller.with(session, Intent::Apply, &who, Mandate::FirstPlan, &never, stop).await.unwrap();
    assert!(matches!(stopped.ended, Ended::Interrupted { .. }), "{:?}", stopped.ended);
    rig.lab.on_call(|_, _, _, _| lab::Verdict::GoOn);
    assert_eq!(rig.kubernetes_versions().await.len(), 2);
    let controller = Controller::of(&rig);
    let reconciled = controller.approved(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    assert_eq!(upgraded(&controller.done()).len(), 17 - 5, "what was done is not done again");
    assert_eq!((rig.kubernetes_versions().await.len(), rig.cordoned().await.len()), (1, 0));
    rig.assert_nothing_to_do(&file).await;
}

/// A machine config that differs in more than versions is changed first, with the Kubernetes that runs.
#[tokio::test(start_paused = true)]
async fn other_changes_of_machine_configs_come_before_the_upgrade() {
    let rig = Rig::healthy().await;
    let file = format!(
        "{}patches:\n  - {{ machine: {{ sysctls: {{ net.ipv4.ip_forward: '1' }} }} }}\n",
        with_kubernetes("v1.36.3")
    );
    let plan = rig.observe(&file).await.plan();
    assert!(plan.steps.iter().any(|step| step.id.0 == "reconfigure/home-work-1"), "{:?}", plan.steps);
    assert!(!plan.steps.iter().any(|step| step.id.kind() == "upgrade-component"), "{:?}", plan.steps);
    let controller = Controller::of(&rig);
    let reconciled = controller.approved(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    assert_eq!(rig.kubernetes_versions().await, BTreeSet::from(["v1.36.3".to_owned()]));
    assert_eq!(controller.asked().len(), 1, "{:?}", controller.asked());
}

const GATE: &str = "UserNamespacesPodSecurityStandards";

/// A healthy cluster of an older Kubernetes, with a feature gate that 1.35 removed.
async fn with_gate(place: &str) -> (Rig, String) {
    let rig = Rig::new();
    let file = format!("{}patches:\n  - {place}\n", with_kubernetes("v1.34.2"));
    let ran = Box::pin(rig.apply(&file)).await;
    assert_eq!(ran.outcome, model::event::Outcome::Done, "{:?}", ran.failures());
    (rig, file)
}

#[tokio::test(start_paused = true)]
async fn a_removed_feature_gate_is_found_before_the_first_change() {
    let places = [
        format!("{{ cluster: {{ apiServer: {{ extraArgs: {{ feature-gates: {GATE}=true }} }} }} }}"),
        format!("{{ machine: {{ kubelet: {{ extraConfig: {{ featureGates: {{ {GATE}: true }} }} }} }} }}"),
    ];
    for place in places {
        let (rig, file) = with_gate(&place).await;
        let (controller, changes) = (Controller::of(&rig), rig.count_changes());
        let reconciled = controller.approved(&file.replace("v1.34.2", "v1.35.4")).await;
        assert!(matches!(reconciled.ended, Ended::Left(Left::Blocked)), "{:?}", reconciled.ended);
        let (_, plan) = reconciled.last.unwrap();
        assert!(plan.blocked.iter().all(|blocked| blocked.what.contains(GATE)), "{:?}", plan.blocked);
        assert_eq!(changes.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
}

/// A part that does not start ends the run while all others run as before, and the next run goes on from there.
#[tokio::test(start_paused = true)]
async fn a_static_pod_that_does_not_start_stops_the_roll() {
    let rig = Rig::healthy().await;
    let (controller, file) = (Controller::of(&rig), with_kubernetes("v1.36.3"));
    let nodes = [150_011, 150_012, 150_013];
    let missing = |vmid, missing| Injection::NoImage { vmid, service: "kube-apiserver".into(), missing };
    nodes.iter().for_each(|vmid| rig.lab.inject(missing(*vmid, true)));
    let reconciled = controller.approved(&file).await;
    assert!(matches!(reconciled.ended, Ended::Failed), "{:?}", reconciled.ended);
    let failed = controller.failed();
    let [(step, code, why)] = failed.as_slice() else { panic!("{failed:?}") };
    assert!(step.ends_with("/kube-apiserver"), "{step}");
    assert_eq!(code, "component-not-ready");
    assert!(why.contains("ImagePullBackOff"), "{why}");
    let pods = rig.kubernetes().control_plane_pods().await.unwrap();
    assert_eq!(pods.iter().filter(|pod| !pod.ready).count(), 1, "one of nine: {pods:?}");
    nodes.iter().for_each(|vmid| rig.lab.inject(missing(*vmid, false)));
    let controller = Controller::of(&rig);
    let reconciled = controller.approved(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    assert_eq!(rig.kubernetes_versions().await, BTreeSet::from(["v1.36.3".to_owned()]));
    rig.assert_nothing_to_do(&file).await;
}

/// Another tool upgraded an API server although it has a feature gate that the version does not know.
#[tokio::test(start_paused = true)]
async fn a_crash_on_a_removed_gate_is_mended_by_the_file_without_it() {
    let place = format!("{{ cluster: {{ apiServer: {{ extraArgs: {{ feature-gates: {GATE}=true }} }} }} }}");
    let (rig, file) = with_gate(&place).await;
    let machine = crate::client::machine(&rig, "10.25.150.12");
    let config = machine.machine_config().await.unwrap();
    let config = secrecy::ExposeSecret::expose_secret(&config)
        .replace("kube-apiserver:v1.34.2", "kube-apiserver:v1.35.4");
    machine.apply_with(config.as_bytes(), talos_client::ApplyMode::NoReboot).await.unwrap();
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let pods = rig.kubernetes().control_plane_pods().await.unwrap();
    let crashed: Vec<_> = pods.iter().filter_map(|pod| pod.stuck.as_deref()).collect();
    assert!(matches!(crashed.as_slice(), [why] if why.contains(GATE)), "{crashed:?}");
    let file = file.replace("v1.34.2", "v1.35.4").replace(&format!("patches:\n  - {place}\n"), "");
    let controller = Controller::of(&rig);
    let reconciled = controller.approved(&file).await;
    let refusals = reconciled.last.map(|(_, plan)| plan.refusals);
    assert!(
        matches!(reconciled.ended, Ended::Converged),
        "{:?} {:?} {refusals:?}",
        reconciled.ended,
        controller.failed()
    );
    assert_eq!(rig.kubernetes_versions().await, BTreeSet::from(["v1.35.4".to_owned()]));
    rig.assert_nothing_to_do(&file).await;
}

/// A program that set the image of kube-proxy keeps it.
#[tokio::test(start_paused = true)]
async fn an_image_of_kube_proxy_that_a_gitops_engine_set_is_left_to_it() {
    let rig = Rig::healthy().await;
    let image = "registry.k8s.io/kube-proxy:v1.35.4";
    let pod = serde_json::json!({"containers": [{"name": "kube-proxy", "image": image}]});
    let applied = serde_json::json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "kube-proxy", "namespace": "kube-system"},
        "spec": {"template": {"spec": pod}},
    });
    rig.kubernetes().apply_as("kustomize-controller", &applied).await.unwrap();
    let (controller, file) = (Controller::of(&rig), with_kubernetes("v1.36.3"));
    let reconciled = controller.approved(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    let warned = controller.events().into_iter().any(|what| {
        matches!(what, What::StepDone { warnings, .. } if warnings.iter().any(|it| it.contains("kustomize-controller")))
    });
    assert!(warned);
    let proxy = serde_json::to_string(&rig.kubernetes().daemon_set("kube-proxy").await.unwrap()).unwrap();
    assert!(proxy.contains("registry.k8s.io/kube-proxy:v1.35.4"), "{proxy}");
}
