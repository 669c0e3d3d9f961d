//! Events, watches and what ends them.

use std::sync::Arc;

use ambient::tls::Connector;
use talos::wire::EVENT_TYPE_PREFIX;
use talos::wire::common;
use talos::wire::cosi::{WatchOptions, WatchRequest};
use talos::wire::machine::machine_status_event::MachineStage;
use tonic::Streaming;
use tonic::transport::Endpoint;

use super::*;
use crate::machine::tests::address;

impl Rig {
    async fn events(&self, number: u32) -> Streaming<wire::Event> {
        let mut stream =
            self.admin(number).events(wire::EventsRequest::default()).await.unwrap().into_inner();
        let hello = stream.message().await.unwrap().unwrap();
        assert_eq!(hello.data.unwrap_or_default().type_url, "", "an empty event says that it listens");
        stream
    }

    /// The next event of a type.
    async fn next<M: prost::Message + Default + prost::Name>(
        stream: &mut Streaming<wire::Event>,
    ) -> Option<(String, M)> {
        while let Some(event) = stream.message().await.unwrap() {
            let data = event.data.unwrap();
            assert!(data.type_url.starts_with(EVENT_TYPE_PREFIX), "{}", data.type_url);
            if data.type_url == format!("{EVENT_TYPE_PREFIX}{}", M::full_name()) {
                return Some((event.actor_id, M::decode(data.value.as_slice()).unwrap()));
            }
        }
        None
    }

    /// The next event that tells of a failure, and whose it is.
    async fn failure(stream: &mut Streaming<wire::Event>) -> (String, String, common::Error) {
        loop {
            let (actor, event) = Self::next::<wire::SequenceEvent>(stream).await.unwrap();
            if let Some(error) = event.error {
                return (actor, event.sequence, error);
            }
        }
    }
}

/// A reset that finds a restart under way is answered well; only an event that names no one says that it was not started.
#[tokio::test(start_paused = true)]
async fn a_sequence_that_is_locked_out_is_told_by_an_event_only() {
    let rig = Rig::cluster().await;
    let mut events = rig.events(104).await;
    rig.admin(104).reboot(wire::RebootRequest::default()).await.unwrap();
    let answer = rig.admin(104).reset(wire::ResetRequest::default()).await.unwrap().into_inner();
    assert!(!answer.messages[0].actor_id.is_empty(), "as if it had started");
    let (actor, sequence, error) = Rig::failure(&mut events).await;
    assert_eq!((actor.as_str(), sequence.as_str()), ("", "reset"));
    assert_eq!(
        (error.code(), error.message.as_str()),
        (common::Code::Locked, "sequence not started: locked")
    );
}

/// A second restart takes over from the first, whose caller hears that it was cancelled. The machine is well.
#[tokio::test(start_paused = true)]
async fn a_restart_takes_over_from_a_restart() {
    let rig = Rig::cluster().await;
    let before = rig.boot_id(104).await;
    let mut events = rig.events(104).await;
    let first = rig.admin(104).reboot(wire::RebootRequest::default()).await.unwrap().into_inner();
    let second = rig.admin(104).reboot(wire::RebootRequest::default()).await.unwrap().into_inner();
    let (actor, sequence, error) = Rig::failure(&mut events).await;
    assert_eq!((actor, sequence.as_str()), (first.messages[0].actor_id.clone(), "reboot"));
    assert_eq!(error.code(), common::Code::Canceled);
    assert_ne!(first.messages[0].actor_id, second.messages[0].actor_id);
    rig.wait(90).await;
    assert_ne!(rig.boot_id(104).await, before);
    assert_eq!(rig.stage(104).await, "running");
}

/// When a machine goes down its events end well and its watches break. Neither says that it restarts: the last status does.
#[tokio::test(start_paused = true)]
async fn streams_end_without_saying_why() {
    let rig = Rig::cluster().await;
    let mut events = rig.events(104).await;
    let request = WatchRequest {
        namespace: "runtime".into(),
        r#type: "MachineStatuses.runtime.talos.dev".into(),
        id: Some("machine".into()),
        options: Some(WatchOptions::default()),
        api_version: 1,
    };
    let mut watch = rig.resources(104).watch(request).await.unwrap().into_inner();
    rig.admin(104).reboot(wire::RebootRequest::default()).await.unwrap();
    let mut last = MachineStage::Unknown;
    while let Some((_, event)) = Rig::next::<wire::MachineStatusEvent>(&mut events).await {
        last = event.stage();
    }
    assert_eq!(last, MachineStage::Rebooting, "and the stream ended well");
    let ended = rig.clock.now();
    let broken = loop {
        match watch.message().await {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert!(broken.is_err());
    let later = rig.clock.now().duration_since(ended).as_secs();
    assert!(later <= 11, "{later} s later");
}

/// A boot that is cut off shows `running` for a moment.
#[tokio::test(start_paused = true)]
async fn running_may_be_the_last_breath() {
    let rig = Rig::configured().await;
    let mut events = rig.events(101).await;
    rig.admin(101).reboot(wire::RebootRequest::default()).await.unwrap();
    let mut seen = vec![];
    while let Some((_, event)) = Rig::next::<wire::MachineStatusEvent>(&mut events).await {
        let ready = event.status.clone().unwrap_or_default().ready;
        seen.push((event.stage(), ready));
    }
    let tail = [(MachineStage::Running, false), (MachineStage::Rebooting, true)];
    assert!(seen.ends_with(&tail), "{seen:?}");
}

/// What was published before a boot is forgotten with it.
#[tokio::test(start_paused = true)]
async fn a_boot_forgets_what_was_published() {
    let rig = Rig::cluster().await;
    rig.admin(104).reboot(wire::RebootRequest::default()).await.unwrap();
    rig.wait(90).await;
    let request = wire::EventsRequest { tail_events: -1, ..Default::default() };
    let mut stream = rig.admin(104).events(request).await.unwrap().into_inner();
    stream.message().await.unwrap();
    let mut seen = vec![];
    let listen = async {
        while let Some((_, event)) = Rig::next::<wire::SequenceEvent>(&mut stream).await {
            seen.push(event.sequence);
        }
    };
    let _ = rig.clock.timeout(Duration::from_secs(5), listen).await;
    assert!(seen.contains(&"boot".to_owned()) && !seen.contains(&"reboot".to_owned()), "{seen:?}");
}

/// Who pings an idle connection every ten seconds is sent away after half a minute.
#[tokio::test(start_paused = true)]
async fn early_pings_end_the_connection() {
    let rig = Rig::single().await;
    let identity = rig.administrator();
    let listen = async |endpoint: Endpoint| {
        let connector = Connector::new(rig.lab.net(), Arc::new(super::super::tls(Some(&identity))), 50_000);
        let mut client = MachineServiceClient::new(endpoint.connect_with_connector_lazy(connector));
        let request = wire::EventsRequest::default();
        let mut stream = client.events(request).await.unwrap().into_inner();
        stream.message().await.unwrap();
        let began = rig.clock.now();
        let end = rig.clock.timeout(Duration::from_secs(3600), stream.message()).await;
        (end, rig.clock.now().duration_since(began).as_secs())
    };
    let endpoint = || Endpoint::from_shared(format!("http://{}:50000", address(101))).unwrap();
    let (left_alone, _) = listen(endpoint()).await;
    assert!(left_alone.is_err(), "an idle stream lives on for an hour");
    let pinging = endpoint().http2_keep_alive_interval(Duration::from_secs(10)).keep_alive_while_idle(true);
    let (sent_away, seconds) = listen(pinging).await;
    assert!(sent_away.expect("it was ended").is_err());
    assert!((29..=32).contains(&seconds), "after {seconds} s");
}
