//! A relay in front of the maintenance API, and who sees what went through it.

use super::*;
use crate::{Injection, Rules, Watch};

fn watch() -> Arc<Watch> {
    Arc::new(Watch::new(Rules {
        is_ours: Box::new(|_, _| true),
        lease: Box::new(|_| None),
        kubernetes_lease: Box::new(|_, _| None),
        is_our_account: Box::new(|_| false),
        is_our_cordon: Box::new(|node| node["metadata"]["annotations"]["ours"].is_string()),
    }))
}

/// The fingerprint that a client sees.
async fn shown(rig: &Rig) -> String {
    let connector = Connector::new(rig.lab.net(), Arc::new(tls(None)), 50_000);
    let stream = connector.connect(&address(101), 50_000).await.unwrap();
    let certificate = CertificateDer::from(stream.peer_certificate().unwrap().to_vec());
    let parsed = rustls::server::ParsedCertificate::try_from(&certificate).unwrap();
    crate::machine::tls::fingerprint(&parsed.subject_public_key_info())
}

/// Sends machine 101 its configuration as eva; gives the invariants that this violated.
async fn send(rig: &Rig, watch: &Watch, dry_run: bool) -> Vec<u8> {
    let connector = Connector::new(rig.lab.net_of("eva"), Arc::new(tls(None)), 50_000);
    let endpoint = Endpoint::from_shared(format!("http://{}:50000", address(101))).unwrap();
    let mut client = MachineServiceClient::new(endpoint.connect_with_connector_lazy(connector));
    client.version(()).await.unwrap();
    let data = config(101, Role::ControlPlane, |_| {});
    let request = wire::ApplyConfigurationRequest { data, mode: 1, dry_run, try_mode_timeout: None };
    client.apply_configuration(request).await.unwrap();
    watch.take_violations().into_iter().map(|violation| violation.number).collect()
}

#[tokio::test(start_paused = true)]
async fn a_relay_shows_its_own_certificate_and_keeps_what_it_is_sent() {
    let (rig, watch) = (Rig::new(), watch());
    rig.lab.watch(watch.clone());
    rig.on(101);
    rig.wait(40).await;
    let own = shown(&rig).await;
    rig.lab.inject(Injection::Relay { vmid: 101, present: true });
    let relays = shown(&rig).await;
    assert_ne!(own, relays);
    let printed =
        rig.lab.shared().read(|world, _| world.machines.get(101).unwrap().maintenance_fingerprint());
    assert_eq!(printed, Some(own), "the console knows nothing of it");

    watch.require_console_identity(true);
    assert_eq!(send(&rig, &watch, true).await, [6], "even where it is only tried");
    watch.require_console_identity(false);
    assert_eq!(send(&rig, &watch, false).await, [] as [u8; 0]);
    rig.wait(10).await;
    let (sent, configured) = rig
        .lab
        .shared()
        .read(|world, _| (world.faults.relayed().to_vec(), world.machines.is_configured(101)));
    assert!(configured, "calls are passed on");
    let paths: Vec<&str> = sent.iter().filter_map(|sent| sent.path.rsplit('/').next()).collect();
    assert_eq!(paths, ["Version", "ApplyConfiguration", "Version", "ApplyConfiguration"]);
    assert!(sent[3].config.as_ref().unwrap().contains("token:"));
}

#[tokio::test(start_paused = true)]
async fn keys_need_a_line_that_the_client_itself_has_read() {
    let (rig, watch) = (Rig::new(), watch());
    rig.lab.watch(watch.clone());
    watch.require_console_identity(true);
    rig.on(101);
    rig.wait(40).await;
    assert_eq!(send(&rig, &watch, true).await, [6]);
    let fingerprint = shown(&rig).await;
    rig.lab.shared().with(|world, _| world.machines.witness("eva", 101, &fingerprint));
    assert_eq!(send(&rig, &watch, true).await, [] as [u8; 0]);
    rig.lab.inject(Injection::Reissue { vmid: 101, connections: 1 });
    assert_eq!(send(&rig, &watch, false).await, [6], "another certificate");
}

#[tokio::test(start_paused = true)]
async fn a_world_of_an_older_version_goes_on() {
    let rig = Rig::new();
    rig.on(101);
    rig.wait(23).await;
    let mut saved = rig.lab.shared().read(|world, _| serde_json::to_value(world).unwrap());
    let machine = saved["machines"]["machines"]["101"].as_object_mut().unwrap();
    assert!(machine.remove("console").is_some());
    machine["phase"].as_object_mut().unwrap().remove("connected");
    saved["faults"].as_object_mut().unwrap().remove("identity");
    let clock = Clock::from(rig.clock.now(), 1.0);
    let rig = Rig { lab: Lab::of(serde_json::from_value(saved).unwrap(), clock.clone()), clock };
    rig.wait(20).await;
    let printed =
        rig.lab.shared().read(|world, _| world.machines.get(101).unwrap().maintenance_fingerprint());
    assert_eq!(Some(shown(&rig).await), printed);
}
