//! A machine with its configuration.

use talos::wire::MAX_MESSAGE_SIZE;
use talos::wire::cluster::HealthCheckRequest;
use talos::wire::cluster::cluster_service_client::ClusterServiceClient;
use tonic::Request;
use tonic::metadata::MetadataValue;

use super::*;

const ACTIVE: (&str, &str, &str) = ("config", "MachineConfigs.config.talos.dev", "v1alpha1");
const KEPT: (&str, &str, &str) = ("config", "MachineConfigs.config.talos.dev", "persistent");

impl Rig {
    /// The setting of [`tuned`] in a configuration that the machine shows.
    async fn setting(&self, (namespace, kind, id): (&str, &str, &str)) -> Option<String> {
        let yaml = Self::yaml(self.resources(101), namespace, kind, id).await;
        let text: String = serde_saphyr::from_str(&yaml).unwrap();
        text.lines().find_map(|line| line.strip_prefix("        a: ").map(|v| v.trim_matches('"').to_owned()))
    }

    async fn applied(
        &self,
        request: wire::ApplyConfigurationRequest,
    ) -> Result<wire::ApplyConfiguration, Status> {
        let answer = self.admin(101).apply_configuration(request).await?;
        Ok(answer.into_inner().messages.remove(0))
    }
}

/// A request without a mode restarts the machine, because nothing on the wire means REBOOT.
#[tokio::test(start_paused = true)]
async fn an_apply_without_a_mode_restarts() {
    let rig = Rig::single().await;
    let before = rig.boot_id(101).await;
    let request = wire::ApplyConfigurationRequest { data: usual(), ..Default::default() };
    assert_eq!(rig.applied(request).await.unwrap().mode(), Mode::Reboot);
    let more = rig.applied(apply(usual(), Mode::Auto)).await.unwrap_err();
    let words = "configuration was already applied and node is rebooting, cannot apply more configuration changes until next reboot";
    assert_eq!((more.code(), more.message()), (Code::FailedPrecondition, words));
    rig.wait(90).await;
    assert_ne!(rig.boot_id(101).await, before);
}

/// No one compares what a writer read with what is there: the last one wins.
#[tokio::test(start_paused = true)]
async fn of_two_writers_the_last_one_wins_in_silence() {
    let rig = Rig::single().await;
    for value in ["one", "two"] {
        assert_eq!(rig.applied(apply(tuned(value), Mode::Auto)).await.unwrap().mode(), Mode::NoReboot);
    }
    assert_eq!(rig.setting(ACTIVE).await.as_deref(), Some("two"));
}

/// A trial changes what is active and not what is kept, and is taken back in time unless someone keeps it.
#[tokio::test(start_paused = true)]
async fn a_trial_is_taken_back_in_time() {
    let rig = Rig::single().await;
    let trial = |value: &str| wire::ApplyConfigurationRequest {
        try_mode_timeout: Some(prost_types::Duration { seconds: 20, nanos: 0 }),
        ..apply(tuned(value), Mode::Try)
    };
    rig.applied(trial("one")).await.unwrap();
    assert_eq!((rig.setting(ACTIVE).await.as_deref(), rig.setting(KEPT).await), (Some("one"), None));
    rig.wait(18).await;
    assert_eq!(rig.setting(ACTIVE).await.as_deref(), Some("one"));
    rig.wait(3).await;
    assert_eq!(rig.setting(ACTIVE).await, None);

    rig.applied(trial("two")).await.unwrap();
    rig.applied(apply(tuned("two"), Mode::NoReboot)).await.unwrap();
    rig.wait(30).await;
    assert_eq!(rig.setting(KEPT).await.as_deref(), Some("two"), "kept");

    rig.applied(trial("three")).await.unwrap();
    rig.applied(trial("four")).await.unwrap();
    rig.wait(30).await;
    assert_eq!(rig.setting(ACTIVE).await.as_deref(), Some("three"), "the first trial is what is returned to");
    assert_eq!(rig.setting(KEPT).await.as_deref(), Some("two"));
}

/// What a machine tells about a difference holds tokens and keys in clear.
#[tokio::test(start_paused = true)]
async fn differences_hold_secrets_in_clear() {
    let rig = Rig::single().await;
    let text = String::from_utf8(usual()).unwrap();
    let token = text.lines().find(|line| line.trim_start().starts_with("token: ")).unwrap();
    let other = text.replacen(token, "    token: abcdef.0123456789abcdef", 1);
    let dry = wire::ApplyConfigurationRequest { dry_run: true, ..apply(other.clone(), Mode::Auto) };
    let told = rig.applied(dry).await.unwrap().mode_details;
    assert!(told.starts_with("Dry run summary:"), "{told}");
    assert!(told.contains(token.trim()) && told.contains("abcdef.0123456789abcdef"), "{told}");
    assert!(!told.contains("immediate mode"), "why it would restart is not said");
    let status = rig.applied(apply(other.clone(), Mode::NoReboot)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("\ndiff:\n--- a\n+++ b\n"), "{}", status.message());
    assert!(status.message().contains("abcdef.0123456789abcdef"));
    let applied = rig.applied(apply(other, Mode::Auto)).await.unwrap();
    let why =
        "Applied configuration with a reboot: this config change can't be applied in immediate mode\ndiff:";
    assert!(applied.mode() == Mode::Reboot && applied.mode_details.starts_with(why), "{applied:?}");
}

/// A dry run does not look closely.
#[tokio::test(start_paused = true)]
async fn a_dry_run_lets_wrong_things_pass() {
    let rig = Rig::single().await;
    let dry = |data: Vec<u8>| wire::ApplyConfigurationRequest { dry_run: true, ..apply(data, Mode::Auto) };
    let worker = rig.applied(dry(config(101, Role::Worker, |_| {}))).await.unwrap();
    assert_eq!(worker.mode(), Mode::Reboot, "another role is a matter of a restart");
    let text = String::from_utf8(usual()).unwrap();
    let line = |key: &str| text.lines().find(|line| line.trim_start().starts_with(key)).unwrap();
    let no_pem = text.replacen(line("crt: "), "        crt: bm8gUEVNCg==", 1);
    rig.applied(dry(no_pem.into_bytes())).await.unwrap();
    let no_token = text.replacen(line("token: "), "    token: \"\"", 1);
    rig.applied(dry(no_token.into_bytes())).await.unwrap();
    let at = text.find("\n    ca:\n").unwrap() + 1;
    let cluster = at + text[at..].find("cluster:\n").unwrap();
    let at = cluster + text[cluster..].find("    ca:\n").unwrap();
    let after = at + text[at + 4..].find("\n    a").unwrap() + 5;
    let no_authority = format!("{}{}", &text[..at], &text[after..]);
    rig.applied(dry(no_authority.into_bytes())).await.unwrap();
    let broken = text.replacen("machine:\n", "machine:\n    tokn: x\n", 1);
    let status = rig.applied(dry(broken.into_bytes())).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("unknown keys found during decoding:\nmachine:\n    tokn: x\n"));
    let other = wire::ApplyConfigurationRequest { mode: 9, ..dry(usual()) };
    assert_eq!(rig.applied(other).await.unwrap().mode(), Mode::Reboot, "a number that is no mode");
}

/// The kubeconfig can be had before there is a cluster.
#[tokio::test(start_paused = true)]
async fn the_kubeconfig_is_there_before_the_cluster() {
    let rig = Rig::configured().await;
    let mut stream = rig.admin(101).kubeconfig(()).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().unwrap().bytes.starts_with(&[0x1f, 0x8b]));
}

/// Messages may have 32 MiB, in both directions; who takes only four does not get a large configuration back.
#[tokio::test(start_paused = true)]
async fn messages_are_larger_than_usual() {
    let rig = Rig::configured().await;
    let mut data = usual();
    data.extend(std::iter::repeat_n(b"# filled up with words that no one reads\n", 150_000).flatten());
    assert!(data.len() > 5 << 20);
    rig.applied(apply(data.clone(), Mode::NoReboot)).await.unwrap();
    let (namespace, kind, id) = ACTIVE;
    let small = rig.resources(101).get(get(namespace, kind, id)).await.unwrap_err();
    assert_eq!(small.code(), Code::OutOfRange);
    let mut state = rig.resources(101).max_decoding_message_size(MAX_MESSAGE_SIZE);
    let found = state.get(get(namespace, kind, id)).await.unwrap().into_inner();
    assert!(found.resource.unwrap().spec.unwrap().yaml_spec.len() > data.len());
    let huge = apply(vec![b'#'; MAX_MESSAGE_SIZE + 1], Mode::Auto);
    let mut client = rig.admin(101).max_encoding_message_size(2 * MAX_MESSAGE_SIZE);
    assert!(client.apply_configuration(huge).await.is_err(), "but not more");
}

fn to(key: &'static str, values: &[&str]) -> Request<()> {
    let mut request = Request::new(());
    for value in values {
        request.metadata_mut().append(key, value.parse::<MetadataValue<_>>().unwrap());
    }
    request
}

/// One call for several machines: the answer is well, failures hide inside, and newer services do not know it.
#[tokio::test(start_paused = true)]
async fn a_call_for_several_hides_failures_and_is_dying_out() {
    let rig = Rig::cluster().await;
    let mut client = rig.admin(101);
    let both = client.version(to("nodes", &["10.1.0.12", "10.1.0.99"])).await.unwrap().into_inner();
    assert_eq!(both.messages.len(), 2);
    let metadata = |m: &wire::Version| m.metadata.clone().unwrap_or_default();
    let dead = both.messages.iter().find(|m| !metadata(m).error.is_empty()).unwrap();
    assert_eq!(metadata(dead).hostname, "10.1.0.99");
    assert_eq!(metadata(dead).status.unwrap().code, i32::from(Code::Unavailable));

    let mut mixed = to("nodes", &["10.1.0.12"]);
    mixed.metadata_mut().insert("node", "10.1.0.13".parse().unwrap());
    let answer = client.version(mixed).await.unwrap().into_inner();
    assert_eq!(metadata(&answer.messages[0]).hostname, "10.1.0.12", "several win over one");
    let one = client.version(to("node", &["10.1.0.12"])).await.unwrap().into_inner();
    assert_eq!(one.messages[0].metadata, None, "an answer of one says nothing of where it is from");
    let list = client.version(to("nodes", &["10.1.0.12,10.1.0.13"])).await.unwrap().into_inner();
    assert_eq!(list.messages.len(), 1, "names between commas are one name");
    assert!(!metadata(&list.messages[0]).error.is_empty());
    let words = "node metadata must be single-valued".to_owned();
    let two = client.version(to("node", &["10.1.0.12", "10.1.0.13"])).await;
    assert_eq!(refused(two), (Code::InvalidArgument, words));
    let port = client.version(to("node", &["10.1.0.12:50000"])).await;
    assert_eq!(refused(port), (Code::Internal, "invalid target \"10.1.0.12:50000\"".to_owned()));

    let mut request = Request::new(get("runtime", "MachineStatuses.runtime.talos.dev", "machine"));
    request.metadata_mut().insert("nodes", "10.1.0.12".parse().unwrap());
    let words = "one-2-many proxying is not supported for method /cosi.resource.State/Get".to_owned();
    assert_eq!(refused(rig.resources(101).get(request).await), (Code::InvalidArgument, words));

    // One at a time resources go through, too.
    let mut request = Request::new(get("network", "HostnameStatuses.net.talos.dev", "hostname"));
    request.metadata_mut().insert("node", "10.1.0.12".parse().unwrap());
    let there = rig.resources(101).get(request).await.unwrap().into_inner().resource.unwrap();
    assert!(there.spec.unwrap().yaml_spec.starts_with("hostname: n102\n"));

    let mut worker = rig.admin(104);
    assert_eq!(refused(worker.version(to("node", &["10.1.0.11"])).await), denied("no request forwarding"));
    assert!(worker.version(to("node", &["10.1.0.14"])).await.is_ok(), "its own address is its own matter");
    let mut own = to("node", &["10.1.0.12"]);
    own.metadata_mut().insert("proxyfrom", "10.1.0.1".parse().unwrap());
    assert!(worker.version(own).await.is_ok(), "who says that it passes on is answered on the spot");
}

/// Without a time to wait the machine's own check of health has no time at all.
#[tokio::test(start_paused = true)]
async fn a_check_of_health_without_a_limit_ends_at_once() {
    let rig = Rig::single().await;
    let mut client = ClusterServiceClient::new(rig.channel(101, Some(&rig.administrator())));
    let mut stream = client.health_check(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some(), "one message");
    assert_eq!(stream.message().await.unwrap_err().code(), Code::DeadlineExceeded);
}

/// These services run on a control plane; any that runs may be "started", any that does not may be "stopped".
#[tokio::test(start_paused = true)]
async fn services_take_orders_that_change_nothing() {
    let rig = Rig::single().await;
    let ids = Rig::services(rig.admin(101)).await.into_iter().map(|s| s.id);
    let all =
        ["apid", "auditd", "containerd", "cri", "etcd", "kubelet", "machined", "syslogd", "trustd", "udevd"];
    assert_eq!(ids.collect::<Vec<_>>(), all);
    let mut client = rig.admin(101);
    for id in all {
        client.service_start(wire::ServiceStartRequest { id: id.into() }).await.unwrap();
    }
    let restart = client.service_restart(wire::ServiceRestartRequest { id: "etcd".into() }).await;
    let words = "service \"etcd\" doesn't support restart operation via API".to_owned();
    assert_eq!(refused(restart), (Code::Unknown, words));
    let nope = client.service_start(wire::ServiceStartRequest { id: "nope".into() }).await;
    assert_eq!(refused(nope), (Code::Unknown, "service \"nope\" not defined".to_owned()));

    let stop = |id: &str| wire::ServiceStopRequest { id: id.into() };
    let words = "service \"etcd\" doesn't support stop operation via API".to_owned();
    assert_eq!(refused(client.service_stop(stop("etcd")).await), (Code::Unknown, words));
    let nope = client.service_stop(stop("nope")).await;
    assert_eq!(refused(nope), (Code::Unknown, "service \"nope\" not defined".to_owned()));

    let rig = Rig::cluster().await;
    rig.admin(103).etcd_leave_cluster(wire::EtcdLeaveClusterRequest {}).await.unwrap();
    rig.wait(10).await;
    assert_eq!(rig.service(103, "etcd").await, "Finished");
    let stopped = rig.admin(103).service_stop(stop("etcd")).await.unwrap().into_inner();
    assert_eq!(stopped.messages[0].resp, "Service \"etcd\" stopped");
    assert_eq!(rig.service(103, "etcd").await, "Finished", "nothing changed");
}

/// An image that no registry has ends in a failed service, which no one starts again by itself.
#[tokio::test(start_paused = true)]
async fn an_image_that_is_not_there_fails_for_good() {
    let rig = Rig::waiting("v1.13.9").await;
    let text = String::from_utf8(usual()).unwrap();
    let image = text.lines().find(|line| line.contains("image: ghcr.io/siderolabs/kubelet")).unwrap();
    let (name, tag) = image.rsplit_once(':').unwrap();
    let wrong = text.replacen(image, &format!("{}/nope:{tag}", name.trim_end_matches("/kubelet")), 1);
    rig.client(101, None).apply_configuration(apply(wrong, Mode::Auto)).await.unwrap();
    rig.wait(60).await;
    assert_eq!(rig.service(101, "kubelet").await, "Preparing");
    rig.wait(120).await;
    assert_eq!(rig.service(101, "kubelet").await, "Failed");
    rig.wait(600).await;
    assert_eq!(rig.service(101, "kubelet").await, "Failed");
    rig.admin(101).service_start(wire::ServiceStartRequest { id: "kubelet".into() }).await.unwrap();
    rig.wait(5).await;
    assert_eq!(rig.service(101, "kubelet").await, "Preparing", "a person may try it again");
    rig.applied(apply(usual(), Mode::NoReboot)).await.unwrap();
    rig.wait(30).await;
    assert_eq!(rig.service(101, "kubelet").await, "Running", "the right image helps by itself");
}

/// The same for etcd, which no one can start: only a restart or a bootstrap has it tried again.
#[tokio::test(start_paused = true)]
async fn an_etcd_without_an_image_cannot_be_started() {
    let rig = Rig::waiting("v1.13.9").await;
    let text = String::from_utf8(usual()).unwrap();
    let wrong = text.replacen("    etcd:\n", "    etcd:\n        image: registry.k8s.io/nope:v3.6.12\n", 1);
    rig.client(101, None).apply_configuration(apply(wrong, Mode::Auto)).await.unwrap();
    rig.wait(10).await;
    rig.admin(101).bootstrap(wire::BootstrapRequest::default()).await.unwrap();
    rig.wait(150).await;
    assert_eq!(rig.service(101, "etcd").await, "Failed");
    let start = rig.admin(101).service_start(wire::ServiceStartRequest { id: "etcd".into() }).await;
    let words = "service \"etcd\" doesn't support start operation via API".to_owned();
    assert_eq!(refused(start), (Code::Unknown, words));
    rig.admin(101).bootstrap(wire::BootstrapRequest::default()).await.unwrap();
    rig.wait(5).await;
    assert_eq!(rig.service(101, "etcd").await, "Preparing");
}
