//! Every kind of failure that the client can tell, brought about in the lab.

use std::collections::BTreeSet;
use std::time::Duration;

use lab::{CallFilter, Injection, When};
use pve::{Client, Endpoints, Kind, Params, Trust};

use crate::rig::Rig;

fn params(pairs: &[(&str, &str)]) -> Params {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn client(rig: &Rig, endpoint: &str, token: &str, trust: &Trust) -> Client {
    let endpoints = Endpoints::parse([endpoint]).unwrap();
    Client::connect(endpoints, &token.parse().unwrap(), trust, rig.lab.net(), rig.systems.clock.clone())
        .unwrap()
}

fn next(rig: &Rig, status: u16, text: &str) {
    rig.lab.inject(Injection::FailCall { which: CallFilter::default(), status, text: text.to_owned() });
}

#[tokio::test(start_paused = true)]
async fn the_lab_produces_every_kind_of_failure() {
    let rig = Rig::new();
    let pve = &rig.systems.pve;
    let facts = rig.lab.facts();
    let trust = Trust::Fingerprints(vec![facts.fingerprint.parse().unwrap()]);
    let made =
        async |vmid: u32| pve.follow(&pve.create_vm("pve1", vmid, &Params::new()).await?, |_| {}).await;
    let mut seen = BTreeSet::new();
    macro_rules! fails {
        ($call:expr, $kind:pat) => {
            match $call.await {
                Ok(_) => panic!("{} went well", stringify!($call)),
                Err(error) => {
                    assert!(matches!(error.kind(), $kind), "{}: {error:?}", stringify!($call));
                    seen.insert(error.kind().code());
                }
            }
        };
    }
    made(100).await.unwrap();
    fails!(pve.create_vm("pve1", 100, &Params::new()), Kind::Exists { .. });
    fails!(pve.vm_config("pve1", 999), Kind::Missing { .. });
    let started = pve.start("pve1", 999).await.unwrap();
    fails!(pve.follow(&started, |_| {}), Kind::TaskFailed { .. });
    fails!(pve.agent_interfaces("pve1", 100), Kind::WrongState { .. });
    fails!(pve.create_vm("pve1", 101, &params(&[("memory", "lots")])), Kind::Parameter { .. });
    fails!(pve.update_config("pve1", 100, &params(&[("cores", "2")]), &[], Some("0")), Kind::DigestMismatch);
    fails!(pve.update_config("pve1", 100, &Params::new(), &[], None), Kind::Refused { .. });

    let stuck = CallFilter { method: "POST".to_owned(), path_contains: "/qemu".to_owned(), skip: 0 };
    rig.lab.inject(Injection::Known { number: 54, when: When::Call(stuck) });
    assert!(made(102).await.is_err());
    fails!(pve.update_config("pve1", 102, &params(&[("cores", "2")]), &[], None), Kind::Locked { .. });
    rig.lab.inject(Injection::Known { number: 22, when: When::After(0) });
    fails!(pve.start("pve1", 100), Kind::LockTimeout { .. });

    rig.lab.inject(Injection::HostOffline("pve3".to_owned()));
    fails!(pve.vm_config("pve3", 100), Kind::NodeUnreachable { status: 595, .. });
    fails!(client(&rig, "https://pve3:8006", &facts.token, &trust).version(), Kind::Transport(_));
    rig.lab.inject(Injection::Quorum { lost: true });
    fails!(pve.create_vm("pve1", 103, &Params::new()), Kind::NoQuorum { .. });
    rig.lab.inject(Injection::Clear);

    fails!(
        client(&rig, "https://pve1:8006", "root@pam!lab=wrong", &trust).version(),
        Kind::Unauthenticated { .. }
    );
    let other: Trust = Trust::Fingerprints(vec![
        facts.fingerprint.replace(|c: char| c.is_ascii_digit(), "A").parse().unwrap(),
    ]);
    fails!(client(&rig, "https://pve1:8006", &facts.token, &other).version(), Kind::Untrusted { .. });
    pve.create_user("nobody@pve", "").await.unwrap();
    let request = pve::NewToken {
        user: "nobody@pve".to_owned(),
        name: "t1".to_owned(),
        separated: true,
        comment: String::new(),
    };
    let token = pve.create_token(&request).await.unwrap();
    let token = secrecy::ExposeSecret::expose_secret(&token.reveal()).to_owned();
    let no_one = client(&rig, "https://pve1:8006", &token, &trust);
    fails!(no_one.create_vm("pve1", 104, &Params::new()), Kind::Permission { .. });

    next(&rig, 501, "Method 'GET /version' not implemented");
    fails!(pve.version(), Kind::NotImplemented { .. });
    next(&rig, 200, "this is no version");
    fails!(pve.version(), Kind::Protocol { .. });
    rig.lab.inject(Injection::CutCall {
        which: CallFilter { method: "POST".to_owned(), ..CallFilter::default() },
        after: true,
    });
    fails!(pve.create_vm("pve1", 105, &Params::new()), Kind::Lost(_));
    rig.systems.clock.sleep(Duration::from_secs(5)).await;
    pve.vm_config("pve1", 105).await.unwrap();
    // The lab's tasks all come to their end; one that does not is the client's own test.
    seen.insert("task-stuck");
    assert_eq!(seen, Kind::CODES.iter().copied().collect());
}
