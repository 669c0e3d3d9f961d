//! What cannot be had is known before anything is made, and a pod that does not come up is named before the time is over.

use lab::Injection;
use model::event::{Outcome, What};
use model::plan::RefusalCode;
use model::step::Action;

use crate::rig::{HOME, Rig};

async fn refusals(rig: &Rig, file: &str) -> Vec<String> {
    let changes = rig.count_changes();
    let plan = rig.observe(file).await.plan();
    assert!(plan.refusals.iter().all(|r| r.code == RefusalCode::Image), "{:?}", plan.refusals);
    assert_eq!(changes.load(std::sync::atomic::Ordering::Relaxed), 0, "nothing was touched");
    plan.refusals.into_iter().map(|refusal| refusal.why).collect()
}

#[tokio::test(start_paused = true)]
async fn a_release_or_an_extension_that_nobody_has_is_told() {
    let rig = Rig::new();
    let told = refusals(&rig, &HOME.replace("v1.13.9", "v1.13.99")).await;
    assert_eq!(told, ["the Image Factory https://factory.talos.dev has no images of Talos v1.13.99"]);
    let file = format!("{HOME}image: {{ extensions: [siderolabs/qemu-guest-agent, siderolabs/nonsense] }}\n");
    let told = refusals(&rig, &file).await;
    let wanted =
        "the Image Factory https://factory.talos.dev has no extension siderolabs/nonsense for Talos v1.13.9";
    assert_eq!(told, [wanted]);
}

/// The factory refuses an image with such an extension, so no node is drained for it.
#[tokio::test(start_paused = true)]
async fn leftover_an_extension_that_nobody_has_is_told_before_a_node_is_upgraded() {
    let rig = Rig::healthy().await;
    let file = format!("{HOME}image: {{ extensions: [siderolabs/qemu-guest-agent, siderolabs/nonsense] }}\n");
    let plan = rig.observe(&file).await.plan();
    assert_eq!((plan.units.len(), plan.refusals.len()), (0, 0), "{:?}", plan.units);
    let [blocked] = plan.blocked.as_slice() else { panic!("{:?}", plan.blocked) };
    assert!(
        blocked.what.contains("has no extension siderolabs/nonsense for Talos v1.13.9"),
        "{}",
        blocked.what
    );
    // The lab itself has no such installer, as the real factory.
    let mut snapshot = rig.observe(&file).await;
    std::sync::Arc::make_mut(&mut snapshot.observed).no_installers.clear();
    let plan = snapshot.plan();
    assert!(!plan.units.is_empty(), "{:?}", plan.blocked);
    let before = rig.boots();
    let ran = Box::pin(rig.carry_out(&snapshot, &plan, "me")).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    assert!(ran.failures().iter().all(|failure| failure.contains("could not pull")), "{:?}", ran.failures());
    assert_eq!(rig.boots(), before, "no node was disrupted");
}

#[tokio::test(start_paused = true)]
async fn a_factory_out_of_reach_is_told_for_this_machine_and_for_each_host() {
    let rig = Rig::new();
    rig.lab.inject(Injection::Outside { only: Some(vec![]) });
    let told = refusals(&rig, HOME).await;
    assert!(
        told[0].starts_with("the Image Factory https://factory.talos.dev does not answer here: "),
        "{told:?}"
    );
    for (at, host) in ["pve1", "pve2", "pve3"].into_iter().enumerate() {
        let wanted = format!("{host} cannot download from https://factory.talos.dev/versions: Can't connect");
        assert!(told.get(at + 1).is_some_and(|told| told.starts_with(&wanted)), "{told:?}");
    }
    // What is on the hosts already needs no one outside.
    rig.lab.inject(Injection::Outside { only: None });
    assert_eq!(refusals(&rig, HOME).await, [] as [&str; 0]);
}

/// A file that appears between plan and execution has the name of the image, and is another one.
#[tokio::test(start_paused = true)]
async fn e8_a_file_that_is_not_the_image_is_not_used_when_it_appears_after_the_plan() {
    let rig = Rig::new();
    let snapshot = rig.observe(HOME).await;
    let plan = snapshot.plan();
    let download = plan.steps.iter().find_map(|step| match &step.action {
        Action::DownloadImage { host, datastore, file, url } => Some((host, datastore, file, url)),
        _ => None,
    });
    let (host, datastore, file, _) = download.unwrap();
    // A person fetches another file under the name of the image.
    let systems = &rig.systems;
    let factory = talos_client::Factory::new(
        systems.net.clone(),
        &systems.clock,
        "https://factory.talos.dev",
        &systems.factory_roots,
    );
    let other = factory.unwrap().post_schematic("customization: {}\n").await.unwrap();
    let theirs = pve::DownloadUrl {
        url: format!("https://factory.talos.dev/image/{other}/v1.13.9/nocloud-amd64.iso"),
        filename: file.clone(),
        content: "import".to_owned(),
        checksum: None,
        verify_certificates: true,
    };
    let pve = &rig.systems.pve;
    pve.follow(&pve.download_url(host, datastore, &theirs).await.unwrap(), |_| {}).await.unwrap();
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    let told = ran.failures().join("\n");
    assert!(told.contains(&format!("could not use {file} in {datastore} on {host}")), "{told}");
    let hints = ran.events.iter().filter_map(|event| match &event.what {
        What::StepFailed { hint, .. } => Some(hint.clone()),
        _ => None,
    });
    let hints = hints.collect::<Vec<_>>().join("\n");
    assert!(hints.contains("bytes, and the image at") && hints.contains("delete"), "{hints}");
    let taken = rig.observe(HOME).await.observed.proxmox.taken.clone();
    assert!(
        !taken.iter().any(|(vmid, guest)| guest.host == *host && *vmid != 150_010),
        "no VM was made of it: {taken:?}"
    );
}

/// Proxmox would take the VM and fail when it starts, or fail at the first one.
#[tokio::test(start_paused = true)]
async fn a_pool_or_a_device_that_is_not_there_is_told() {
    let rig = Rig::new();
    let file = HOME.replace("proxmox: {", "proxmox: { pool: nosuch,");
    let file = format!("{file}sizes: {{ gpu: {{ pci: [card] }} }}\n")
        .replace("work:    { role: worker,", "work: { role: worker, size: gpu, hosts: [pve2],");
    let plan = rig.observe(&file).await.plan();
    let told: Vec<&str> = plan.refusals.iter().map(|refusal| refusal.why.as_str()).collect();
    let wanted = [
        "there is no resource pool nosuch, or the token may not see it",
        "there is no PCI mapping card for pve2, or the token may not see it",
    ];
    assert_eq!(told, wanted);
    assert!(plan.refusals.iter().all(|refusal| refusal.code == RefusalCode::NotFound));
}

/// Machines fetch manifests and charts for themselves, long after a plan. What a host does not find is told before.
#[tokio::test(start_paused = true)]
async fn a_document_that_nobody_has_is_told() {
    let rig = Rig::new();
    let (there, gone, secret) =
        ("https://docs.lan/a.yaml", "https://docs.lan/b.yaml", "https://docs.lan/c.yaml?token=canary");
    rig.lab.publish(there, "");
    let more =
        format!("manifests: {{ urls: ['{there}', '{gone}', '{secret}'] }}\nkubernetes: {{ cni: cilium }}\n");
    let told = async || -> Vec<String> {
        let plan = rig.observe(&format!("{HOME}{more}")).await.plan();
        assert_eq!(plan.refusals, []);
        plan.notes.into_iter().map(|note| note.text).filter(|text| text.contains("find")).collect()
    };
    let of = |url: &str, host: &str| {
        format!(
            "pve1 does not find {url}: Can't connect to {host}:443 (Name or service not known). The machines \
             fetch it for themselves, and wait until they find it"
        )
    };
    assert_eq!(told().await, [of(gone, "docs.lan")], "a password goes into no one's log");
    rig.lab.inject(Injection::Outside { only: Some(vec!["factory.talos.dev".to_owned()]) });
    assert_eq!(
        told().await,
        [of(gone, "docs.lan"), of("https://helm.cilium.io/index.yaml", "helm.cilium.io")]
    );
}

/// Cilium's chart comes from outside. Where it does not come, the pod says so, and no one waits for a quarter of an hour.
#[tokio::test(start_paused = true)]
async fn a_chart_that_does_not_come_ends_the_waiting_with_the_pods_own_words() {
    let rig = Rig::new();
    let one = HOME.replace("count: 3", "count: 1").replace("count: 2", "count: 1");
    let file = format!("{one}kubernetes: {{ cni: cilium }}\n");
    let hosts = [
        "factory.talos.dev",
        "ghcr.io",
        "registry.k8s.io",
        "gcr.io",
        "time.cloudflare.com",
        "discovery.talos.dev",
    ];
    rig.lab.inject(Injection::Outside { only: Some(hosts.map(str::to_owned).to_vec()) });
    let ran = rig.apply(&file).await;
    assert_eq!(ran.outcome, Outcome::Failed);
    let mut seen = 0;
    for event in &ran.events {
        if let What::StepFailed { step, code, causes, .. } = &event.what {
            assert_eq!(code, "pod-stuck", "{step}: {causes:?}");
            assert!(
                causes[0].contains("pod helm-cilium-") && causes[0].contains("CrashLoopBackOff"),
                "{causes:?}"
            );
            assert!(
                causes[0].contains("lookup helm.cilium.io: no such host"),
                "the program's own words: {causes:?}"
            );
            seen += 1;
        }
    }
    assert!(seen > 0);
    let took = ran.events.last().unwrap().at.duration_since(ran.events[0].at);
    assert!(took.as_mins() < 10, "{took:#}");
    // Once the way is open, the same command goes on.
    rig.lab.inject(Injection::Outside { only: None });
    let ran = rig.apply(&file).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
}

/// A file has the name of the image and is something else.
#[tokio::test(start_paused = true)]
async fn by_reading_3_a_file_that_only_has_the_name_of_the_image_is_refused() {
    let rig = Rig::healthy().await;
    let more = HOME.replace("worker, count: 2", "worker, count: 3");
    let snapshot = rig.observe(&more).await;
    assert_eq!(snapshot.plan().refusals, []);
    let stored = snapshot.observed.proxmox.images.iter().next().cloned().expect("its image is there");
    let upload = pve::Upload {
        filename: stored.file.clone(),
        content: "import".to_owned(),
        checksum: None,
        bytes: b"QFI\xfb and nothing more".to_vec().into(),
    };
    let pve = &rig.systems.pve;
    for host in ["pve1", "pve2", "pve3"] {
        let upid = pve.upload(host, &stored.datastore, &upload).await.unwrap();
        pve.follow(&upid, |_| {}).await.unwrap();
    }
    let plan = rig.observe(&more).await.plan();
    assert!(plan.steps.is_empty());
    let [refusal] = plan.refusals.as_slice() else { panic!("{:?}", plan.refusals) };
    assert_eq!(refusal.code, RefusalCode::Image);
    assert!(
        refusal.why.contains(&stored.file) && refusal.why.contains("it is another file"),
        "{}",
        refusal.why
    );
}

/// Proxmox accepts each of these for a VM that runs, and refuses the next start: after the node was drained and stopped.
#[tokio::test(start_paused = true)]
async fn what_a_running_vm_would_not_start_with_is_refused_before_it_is_stopped() {
    let rig = Rig::healthy().await;
    let (changes, boots) = (rig.count_changes(), rig.boots());
    for (wanted, code) in [("cpu: 400", RefusalCode::Processors), ("pci: [nothing]", RefusalCode::NotFound)] {
        let file = HOME.replace("worker, count: 2", &format!("worker, count: 2, {wanted}"));
        let plan = rig.observe(&file).await.plan();
        let codes: Vec<RefusalCode> = plan.refusals.iter().map(|refusal| refusal.code).collect();
        assert!(!codes.is_empty() && codes.iter().all(|it| *it == code), "{wanted}: {:?}", plan.refusals);
    }
    let elsewhere = HOME.replace("vip:", "bridge: vmbr9, vip:");
    let plan = rig.observe(&elsewhere).await.plan();
    let bridges = plan.refusals.iter().filter(|refusal| refusal.code == RefusalCode::Bridge);
    assert_eq!(bridges.count(), 5, "{:?}", plan.refusals);
    assert_eq!(changes.load(std::sync::atomic::Ordering::Relaxed), 0);
    assert_eq!(rig.boots(), boots);
}
