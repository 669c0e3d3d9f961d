//! The clients against a machine in memory, over real TLS and HTTP/2.

mod calls;
mod node;
mod recorded;
mod world;

use secrecy::ExposeSecret as _;
use world::{ADDRESS, CONFIG, Face, Habits, World, authority};

use super::*;

async fn maintenance(world: &World) -> Maintenance {
    Maintenance::connect(&world.net(), &world.clock, ADDRESS).await.unwrap()
}

fn machine(world: &World) -> Machine {
    Machine::connect(&world.net(), &world.clock, ADDRESS, &world.credentials()).unwrap()
}

#[tokio::test]
async fn maintenance_tells_who_it_is_and_takes_the_configuration_over_one_connection() {
    let world = World::new(Face::Maintenance, Habits::default());
    let machine = maintenance(&world).await;
    assert_eq!(machine.system_uuid().await.unwrap(), "bc1d6309-7a34-4822-981b-dece7a37be40");
    assert_eq!(machine.version().await.unwrap().tag, "v1.13.9");
    let disks = machine.disks().await.unwrap();
    assert!(disks[0].dev_path == "/dev/sda" && disks[0].size == 8 << 30 && disks[1].cdrom);
    let links = machine.links().await.unwrap();
    assert!(links[0].name == "eth0" && links[0].hardware_addr == "56:48:6a:2f:9e:ac" && links[0].link_state);
    let applied = machine.apply(CONFIG.as_bytes()).await.unwrap();
    assert!(!applied.reboots && !format!("{applied:?}").contains("hunter2"));
    let asked = world.script.lock().unwrap().asked.clone();
    assert_eq!(asked, ["apply Auto dry=false"], "what is tried or staged here is lost");
    world.closed().await;
    assert_eq!(world.dials(), 1);
}

#[tokio::test]
async fn a_broken_maintenance_connection_is_never_dialled_again() {
    let world = World::new(Face::Maintenance, Habits::default());
    let machine = maintenance(&world).await;
    machine.system_uuid().await.unwrap();
    world.cut().await;
    for _ in 0..3 {
        assert_eq!(machine.stage().await.unwrap_err().kind(), Kind::Unavailable);
    }
    assert_eq!(machine.apply(CONFIG.as_bytes()).await.unwrap_err().kind(), Kind::Unavailable);
    assert_eq!(world.dials(), 1);
}

#[tokio::test]
async fn an_old_release_tells_its_version_as_a_resource() {
    let world = World::new(Face::Maintenance, Habits { old: true });
    assert_eq!(maintenance(&world).await.version().await.unwrap().tag, "v1.12.11");
}

#[tokio::test]
async fn a_refused_configuration_is_told_without_its_content() {
    let world = World::new(Face::Maintenance, Habits::default());
    let error = maintenance(&world).await.apply(b"token: hunter2").await.unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidConfig);
    assert_eq!(
        error.to_string(),
        "applying the configuration on 10.0.0.1: it does not accept the configuration: can't be applied"
    );
    assert!(!format!("{error:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_configured_machine_answers_and_is_dialled_again() {
    let world = World::new(Face::Configured, Habits::default());
    let machine = machine(&world);
    assert_eq!(machine.version().await.unwrap().arch, "amd64");
    let status = machine.stage().await.unwrap();
    assert_eq!((status.stage, status.ready), (Stage::Booting, false));
    assert_eq!(status.unmet[0].name, "services");
    assert_eq!(machine.kubeconfig().await.unwrap().expose_secret(), "kind: Config\n");
    assert_eq!(machine.machine_config().await.unwrap().expose_secret(), CONFIG);
    assert_eq!(machine.bootstrap().await.unwrap_err().kind(), Kind::AlreadyExists);
    assert_eq!(machine.get("runtime", "Nothing", "x").await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(machine.list("runtime", "Nothing").await.unwrap_err().kind(), Kind::Unimplemented);
    assert_eq!(world.dials(), 1);
    world.cut().await;
    // The call that meets the broken connection may fail; the one after it dials.
    let _ = machine.version().await;
    machine.version().await.unwrap();
    assert_eq!(world.dials(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_away_answers_as_soon_as_it_is_back() {
    let world = World::new(Face::Away, Habits::default());
    // Made before time moves: the server side of this test checks them by the system's time.
    let credentials = world.credentials();
    let machine = Machine::connect(&world.net(), &world.clock, ADDRESS, &credentials).unwrap();
    let second = std::time::Duration::from_secs(1);
    assert!(world.clock.timeout(second, machine.version()).await.is_err());
    world.show(Face::Configured);
    let found = probe(&world.net(), &world.clock, ADDRESS, Some(&credentials)).await;
    assert!(matches!(found, Probe::Configured { version: Some(_) }), "{found:?}");
    // The dial that was started while it was away is given up in time, and the next one reaches it.
    assert_eq!(machine.version().await.unwrap_err().io_kind(), Some(std::io::ErrorKind::TimedOut));
    machine.version().await.unwrap();
    world.show(Face::Away);
    let found = probe(&world.net(), &world.clock, ADDRESS, Some(&credentials)).await;
    assert!(matches!(found, Probe::Unreachable(std::io::ErrorKind::TimedOut)), "{found:?}");
}

#[tokio::test]
async fn each_way_of_not_trusting_has_its_own_words() {
    let world = World::new(Face::Configured, Habits::default());
    let ours = world.credentials();
    let other = World::new(Face::Configured, Habits::default()).credentials();
    let connect = |credentials: &Credentials| {
        Machine::connect(&world.net(), &world.clock, ADDRESS, credentials).unwrap()
    };

    let error = connect(&other).version().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Untrusted);
    let text = "reading the version on 10.0.0.1: its certificate is not of this cluster's authority";
    assert_eq!(error.to_string(), text);
    assert!(error.hint().is_some());

    let foreign = Credentials { ca: ours.ca.clone(), ..other };
    assert_eq!(connect(&foreign).version().await.unwrap_err().kind(), Kind::Rejected);

    let error = maintenance(&world).await.version().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Rejected);
    assert!(error.reason().contains("configured already"), "{error}");

    world.show(Face::Maintenance);
    assert_eq!(connect(&ours).version().await.unwrap_err().kind(), Kind::Untrusted);
    world.show(Face::Closed);
    let error = connect(&ours).version().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.io_kind()),
        (Kind::Unavailable, Some(std::io::ErrorKind::ConnectionRefused))
    );
}

#[tokio::test]
async fn a_port_tells_what_is_behind_it() {
    let world = World::new(Face::Closed, Habits::default());
    let (net, clock, ours) = (world.net(), world.clock.clone(), world.credentials());
    let other = World::new(Face::Configured, Habits::default()).credentials();
    assert!(matches!(probe(&net, &clock, ADDRESS, None).await, Probe::Refused));
    assert!(matches!(probe(&net, &clock, ADDRESS, Some(&ours)).await, Probe::Refused));
    world.show(Face::Maintenance);
    assert!(matches!(probe(&net, &clock, ADDRESS, None).await, Probe::Maintenance { .. }));
    assert!(matches!(probe(&net, &clock, ADDRESS, Some(&ours)).await, Probe::Maintenance { .. }));
    world.show(Face::Configured);
    assert!(matches!(probe(&net, &clock, ADDRESS, None).await, Probe::Configured { version: None }));
    assert!(matches!(
        probe(&net, &clock, ADDRESS, Some(&ours)).await,
        Probe::Configured { version: Some(_) }
    ));
    let found = probe(&net, &clock, ADDRESS, Some(&other)).await;
    assert!(matches!(found, Probe::WrongAuthority { certificate } if !certificate.is_empty()));
    let foreign =
        authority(&clock).issue_client(None, "os:admin", std::time::Duration::from_secs(60), clock.now());
    let foreign = Credentials { ca: ours.ca.clone(), ..Credentials::from(&foreign.unwrap()) };
    assert!(matches!(probe(&net, &clock, ADDRESS, Some(&foreign)).await, Probe::NotAccepted(_)));
}
