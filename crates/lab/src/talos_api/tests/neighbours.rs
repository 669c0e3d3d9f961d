//! Questions beside the usual ones: what a machine says to a wrong driver, path, version, time or disk.

use talos::wire::machine::machine_service_client::MachineServiceClient;
use tonic::Status;
use tonic::transport::Channel;

use super::*;

fn told<T>(answer: Result<T, Status>) -> (Code, String) {
    answer.map_or_else(|status| (status.code(), status.message().to_owned()), |_| (Code::Ok, String::new()))
}

fn says(code: Code, words: &str) -> (Code, String) {
    (code, words.to_owned())
}

async fn admin() -> (Rig, MachineServiceClient<Channel>) {
    let rig = Rig::single().await;
    let client = rig.client(101, Some(&rig.role("os:admin")));
    (rig, client)
}

#[tokio::test(start_paused = true)]
async fn a_runtime_is_asked_in_its_own_way() {
    let (_rig, mut client) = admin().await;
    let mut ask = async |namespace: &str, driver: i32| {
        let request = wire::ContainersRequest { namespace: namespace.to_owned(), driver };
        client.containers(request).await.map(|answer| answer.into_inner().messages.remove(0).containers)
    };
    let own = ask("system", 0).await.unwrap();
    assert_eq!(own.iter().map(|c| c.id.as_str()).collect::<Vec<_>>(), ["apid", "trustd"]);
    let pods = ask("k8s.io", 1).await.unwrap();
    assert!(pods.iter().any(|c| c.id == c.pod_id && c.image == "registry.k8s.io/pause:3.10.1"));
    assert!(pods.iter().any(|c| c.id.starts_with("kube-system/kube-apiserver-n101:kube-apiserver:")));
    let wrong = says(Code::Unknown, "CRI inspector is supported only for K8s namespace");
    assert_eq!(told(ask("system", 1).await), wrong);
    assert_eq!(told(ask("k8s.io", 7).await), says(Code::InvalidArgument, "unsupported driver \"7\""));
    assert_eq!(told(ask("", 7).await), says(Code::InvalidArgument, "namespace can't be empty"));

    let restart = |id: &str| wire::RestartRequest { namespace: "k8s.io".into(), id: id.into(), driver: 1 };
    let known = restart("kube-system/kube-apiserver-n101:kube-apiserver");
    assert_eq!(told(client.restart(known).await).0, Code::Ok);
    let unknown = says(Code::Unknown, "container \"kube-system/kube-apiserver-n101:nope\" not found");
    assert_eq!(told(client.restart(restart("kube-system/kube-apiserver-n101:nope")).await), unknown);
}

#[tokio::test(start_paused = true)]
async fn paths_lead_where_they_lead() {
    let (_rig, mut client) = admin().await;
    let read = |path: &str| wire::ReadRequest { path: path.to_owned() };
    assert_eq!(told(client.read(read("etc/hostname")).await).0, Code::Ok);
    let missing = says(Code::NotFound, "stat nope: no such file or directory");
    assert_eq!(told(client.read(read("nope")).await), missing);
    let below = says(Code::Unknown, "stat /etc/hostname/x: not a directory");
    assert_eq!(told(client.read(read("/etc/hostname/x")).await), below);

    let copy = |path: &str| wire::CopyRequest { root_path: path.to_owned() };
    let relative = says(Code::Unknown, "path is not absolute etc");
    assert_eq!(told(client.copy(copy("./etc/")).await), relative);
    let mut nothing = client.copy(copy("/nope")).await.unwrap().into_inner();
    let piece = nothing.message().await.unwrap().unwrap();
    assert_eq!(piece.metadata.unwrap().error, "lstat /nope: no such file or directory");
    assert!(piece.bytes.is_empty());

    let list = |root: &str| wire::ListRequest { root: root.to_owned(), ..Default::default() };
    let one =
        client.list(list("/etc/hostname")).await.unwrap().into_inner().message().await.unwrap().unwrap();
    assert_eq!((one.name.as_str(), one.relative_name.as_str()), ("/etc/hostname", "hostname"));
}

#[tokio::test(start_paused = true)]
async fn wrong_versions_times_and_disks_are_named() {
    let (_rig, mut client) = admin().await;
    let mut validate = async |version: &str| {
        told(
            client
                .etcd_downgrade_validate(wire::EtcdDowngradeValidateRequest { version: version.into() })
                .await,
        )
    };
    for (version, words) in [
        ("", "version is required for etcd downgrade"),
        ("3.5.1", "version should be in MAJOR.MINOR format"),
        ("a.5", "major version should be a number"),
        ("3.b", "minor version should be a number"),
        ("3.4", "etcd downgrade is only supported to 3.5 and later versions"),
    ] {
        assert_eq!(validate(version).await, says(Code::InvalidArgument, words));
    }
    assert_eq!(validate("3.5").await.0, Code::Ok);
    let far = "failed to query etcd status: etcdserver: invalid downgrade target version";
    assert_eq!(validate("3.7").await, says(Code::Unknown, far));

    let request = wire::GenerateClientConfigurationRequest { roles: vec!["os:reader".into()], crt_ttl: None };
    let ttl = says(Code::InvalidArgument, "crt_ttl should be positive");
    assert_eq!(told(client.generate_client_configuration(request).await), ttl);

    let disks =
        |disk: &str| wire::ResetRequest { user_disks_to_wipe: vec![disk.into()], ..Default::default() };
    for (disk, why) in
        [("/dev/sda", "is the system disk"), ("/dev/sr0", "is readonly"), ("/dev/x", "wasn't found")]
    {
        let words = format!("reset user disk failed: device {disk} {why}");
        assert_eq!(told(client.reset(disks(disk)).await), says(Code::Unknown, &words));
    }

    let request = wire::EventsRequest { tail_id: "what".into(), ..Default::default() };
    let mut events = client.events(request).await.unwrap().into_inner();
    assert!(events.message().await.unwrap().is_some(), "the empty event comes first");
    let wrong = events.message().await.unwrap_err();
    assert_eq!((wrong.code(), wrong.message()), (Code::Unknown, "error parsing tail_id: xid: invalid ID"));
}

/// A log that someone follows goes on with what happens, calls to the machine among it.
#[tokio::test(start_paused = true)]
async fn a_followed_log_tells_of_calls() {
    let (_rig, mut client) = admin().await;
    let request = wire::LogsRequest {
        namespace: "system".into(),
        id: "apid".into(),
        follow: true,
        ..Default::default()
    };
    let mut log = client.logs(request).await.unwrap().into_inner();
    client.load_avg(()).await.unwrap();
    let line = String::from_utf8(log.message().await.unwrap().unwrap().bytes).unwrap();
    assert!(line.ends_with("[/machine.MachineService/LoadAvg] (roles [os:admin])\n"), "{line}");
}
