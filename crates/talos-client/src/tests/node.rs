//! What the machine of these tests says. Its words are those that a real one was recorded with.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::StreamExt as _;
use prost::{Message, Name};
use talos::wire::cosi::state_server::State;
use talos::wire::machine::apply_configuration_request::Mode;
use talos::wire::machine::image_service_server::ImageService;
use talos::wire::machine::lifecycle_service_server::LifecycleService;
use talos::wire::machine::machine_service_server::MachineService;
use talos::wire::machine::{image_service_pull_response, lifecycle_service_install_progress};
use talos::wire::{EVENT_TYPE_PREFIX, common, cosi, machine};
use tokio::sync::Notify;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming};

use super::world::{CONFIG, Face, Habits};
use crate::kubeconfig::tests::pack;

type Answer<T> = Result<Response<T>, Status>;

/// What a test wants the machine to say, and what it was asked.
#[derive(Default)]
pub struct Script {
    /// Calls that changed something, in order.
    pub asked: Vec<String>,
    /// Sent on the stream of events once a sequence was asked for; then the stream ends.
    pub events: Vec<machine::Event>,
    /// Stages that the next looks find; the last one stays.
    pub stages: VecDeque<&'static str>,
    /// Boot ids likewise.
    pub boots: VecDeque<&'static str>,
    /// The stream of a snapshot.
    pub snapshot: Vec<u8>,
    /// What was handed over to recover from.
    pub recovered: Vec<u8>,
    /// What the installer says, and its exit code.
    pub installer: (Vec<&'static str>, Option<i32>),
    /// etcd does not run: its calls have no answer.
    pub etcd_hangs: bool,
    /// Fails the next call for members of etcd.
    pub etcd_refusal: Option<Status>,
    /// A sequence was asked for.
    pub started: Arc<Notify>,
    /// The machine is already switching over.
    pub switching: bool,
}

#[derive(Clone)]
pub struct Node {
    pub face: Face,
    pub habits: Habits,
    pub script: Arc<Mutex<Script>>,
}

/// An event as it travels.
pub fn event<T: Message + Name>(actor: &str, event: &T) -> machine::Event {
    let type_url = format!("{EVENT_TYPE_PREFIX}{}", T::full_name());
    let data = prost_types::Any { type_url, value: event.encode_to_vec() };
    machine::Event {
        data: Some(data),
        actor_id: actor.to_owned(),
        id: "ce1".to_owned(),
        ..Default::default()
    }
}

fn streamed<T: Send + 'static>(items: Vec<T>) -> Answer<BoxStream<T>> {
    Ok(Response::new(Box::pin(futures::stream::iter(items.into_iter().map(Ok)))))
}

/// The next of a list, whose last one stays.
fn next(list: &mut VecDeque<&'static str>, usual: &'static str) -> &'static str {
    if list.len() > 1 { list.pop_front().unwrap() } else { list.front().copied().unwrap_or(usual) }
}

fn data(bytes: &[u8]) -> common::Data {
    common::Data { bytes: bytes.to_vec(), ..Default::default() }
}

impl Node {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    fn note(&self, call: impl Into<String>) {
        self.script().asked.push(call.into());
    }
}

#[tonic::async_trait]
impl MachineService for Node {
    async fn version(&self, request: Request<()>) -> Answer<machine::VersionResponse> {
        for header in ["node", "nodes", "proxyfrom"] {
            assert!(request.metadata().get(header).is_none(), "one channel for each machine");
        }
        if self.habits.old && self.face == Face::Maintenance {
            return Err(Status::unimplemented("API is not implemented in maintenance mode"));
        }
        let version =
            machine::VersionInfo { tag: "v1.13.9".into(), arch: "amd64".into(), ..Default::default() };
        let message = machine::Version { version: Some(version), ..Default::default() };
        Ok(Response::new(machine::VersionResponse { messages: vec![message] }))
    }

    async fn apply_configuration(
        &self,
        request: Request<machine::ApplyConfigurationRequest>,
    ) -> Answer<machine::ApplyConfigurationResponse> {
        let request = request.into_inner();
        assert_ne!(request.mode(), Mode::Reboot, "the default of the wire is never meant");
        self.note(format!("apply {:?} dry={}", request.mode(), request.dry_run));
        if self.script().switching {
            return Err(Status::permission_denied("not authorized"));
        }
        if request.data != CONFIG.as_bytes() {
            return Err(Status::invalid_argument("can't be applied\ndiff:\n-token: hunter2\n+token: x"));
        }
        // A maintenance server before 1.13 leaves the mode out, which reads as REBOOT.
        let mode = if self.habits.old { Mode::Reboot } else { Mode::NoReboot };
        let details = "Dry run summary:\nNo changes.\ndiff: hunter2";
        let message = machine::ApplyConfiguration {
            mode: mode.into(),
            mode_details: details.into(),
            ..Default::default()
        };
        Ok(Response::new(machine::ApplyConfigurationResponse { messages: vec![message] }))
    }

    async fn kubeconfig(&self, _: Request<()>) -> Answer<BoxStream<common::Data>> {
        streamed(pack("kind: Config\n").chunks(50).map(data).collect())
    }

    async fn bootstrap(
        &self,
        request: Request<machine::BootstrapRequest>,
    ) -> Answer<machine::BootstrapResponse> {
        if request.into_inner().recover_etcd {
            return Ok(Response::new(machine::BootstrapResponse { messages: vec![Default::default()] }));
        }
        Err(Status::already_exists("etcd data directory is not empty"))
    }

    async fn events(&self, _: Request<machine::EventsRequest>) -> Answer<BoxStream<machine::Event>> {
        let hello = futures::stream::iter([Ok(machine::Event::default())]);
        let script = self.script.clone();
        let rest = futures::stream::unfold(None::<VecDeque<machine::Event>>, move |waiting| {
            let script = script.clone();
            async move {
                let mut waiting = match waiting {
                    Some(waiting) => waiting,
                    None => {
                        let started = script.lock().unwrap().started.clone();
                        started.notified().await;
                        std::mem::take(&mut script.lock().unwrap().events).into()
                    }
                };
                let event = waiting.pop_front()?;
                Some((Ok(event), Some(waiting)))
            }
        });
        Ok(Response::new(Box::pin(hello.chain(rest))))
    }

    async fn read(&self, request: Request<machine::ReadRequest>) -> Answer<BoxStream<common::Data>> {
        assert_eq!(request.into_inner().path, "/proc/sys/kernel/random/boot_id");
        let boot = next(&mut self.script().boots, "first");
        streamed(vec![data(format!("{boot}\n").as_bytes())])
    }

    async fn reboot(&self, request: Request<machine::RebootRequest>) -> Answer<machine::RebootResponse> {
        self.note(format!("reboot {:?}", request.into_inner().mode()));
        self.script().started.notify_one();
        let message = machine::Reboot { actor_id: "me".into(), ..Default::default() };
        Ok(Response::new(machine::RebootResponse { messages: vec![message] }))
    }

    async fn upgrade(&self, request: Request<machine::UpgradeRequest>) -> Answer<machine::UpgradeResponse> {
        let request = request.into_inner();
        assert!(!request.preserve, "it would skip the look at etcd");
        self.note(format!("upgrade {}", request.image));
        let message = machine::Upgrade { actor_id: "up".into(), ..Default::default() };
        Ok(Response::new(machine::UpgradeResponse { messages: vec![message] }))
    }

    async fn logs(&self, request: Request<machine::LogsRequest>) -> Answer<BoxStream<common::Data>> {
        let request = request.into_inner();
        if request.id != "kubelet" {
            return Err(Status::unknown(format!("log {:?} was not registered", request.id)));
        }
        streamed(match request.tail_lines {
            0 => vec![],
            _ => vec![data(b"one\n"), data(b"two\n")],
        })
    }

    async fn service_start(
        &self,
        request: Request<machine::ServiceStartRequest>,
    ) -> Answer<machine::ServiceStartResponse> {
        match request.into_inner().id.as_str() {
            "kubelet" => {
                Ok(Response::new(machine::ServiceStartResponse { messages: vec![Default::default()] }))
            }
            other => Err(Status::unknown(format!("service {other:?} not defined"))),
        }
    }

    async fn etcd_member_list(
        &self,
        _: Request<machine::EtcdMemberListRequest>,
    ) -> Answer<machine::EtcdMemberListResponse> {
        if self.script().etcd_hangs {
            std::future::pending::<()>().await;
        }
        if let Some(refusal) = self.script().etcd_refusal.take() {
            return Err(refusal);
        }
        let joining = machine::EtcdMember { id: 7, is_learner: true, ..Default::default() };
        let message = machine::EtcdMembers { members: vec![joining], ..Default::default() };
        Ok(Response::new(machine::EtcdMemberListResponse { messages: vec![message] }))
    }

    async fn etcd_snapshot(
        &self,
        _: Request<machine::EtcdSnapshotRequest>,
    ) -> Answer<BoxStream<common::Data>> {
        streamed(self.script().snapshot.chunks(1000).map(data).collect())
    }

    async fn etcd_recover(
        &self,
        request: Request<Streaming<common::Data>>,
    ) -> Answer<machine::EtcdRecoverResponse> {
        let mut stream = request.into_inner();
        while let Some(data) = stream.message().await? {
            self.script().recovered.extend(data.bytes);
        }
        Ok(Response::new(machine::EtcdRecoverResponse { messages: vec![Default::default()] }))
    }
}

#[tonic::async_trait]
impl ImageService for Node {
    async fn pull(
        &self,
        request: Request<machine::ImageServicePullRequest>,
    ) -> Answer<BoxStream<machine::ImageServicePullResponse>> {
        use image_service_pull_response::Response as Pulled;
        let request = request.into_inner();
        let containerd = request.containerd.unwrap();
        assert_eq!(
            (containerd.driver(), containerd.namespace()),
            (common::ContainerDriver::Cri, common::ContainerdNamespace::NsSystem)
        );
        if request.image_ref.contains("nope") {
            return Err(Status::not_found("error pulling image: 1 error(s) occurred:\n\tfailed: not found"));
        }
        let layer = machine::ImageServicePullProgress {
            layer_id: "9790985932de".into(),
            progress: Some(machine::ImageServicePullLayerProgress {
                offset: 5,
                total: 10,
                ..Default::default()
            }),
        };
        let answers = [Pulled::PullProgress(layer), Pulled::Name(format!("{}@sha256:1", request.image_ref))];
        let answer = |response| machine::ImageServicePullResponse { response: Some(response) };
        streamed(answers.into_iter().map(answer).collect())
    }
}

#[tonic::async_trait]
impl LifecycleService for Node {
    async fn upgrade(
        &self,
        request: Request<machine::LifecycleServiceUpgradeRequest>,
    ) -> Answer<BoxStream<machine::LifecycleServiceUpgradeResponse>> {
        use lifecycle_service_install_progress::Response as Said;
        self.note(format!("install {}", request.into_inner().source.unwrap().image_name));
        let (words, code) = self.script().installer.clone();
        let said = words.into_iter().map(|w| Said::Message(w.into())).chain(code.map(Said::ExitCode));
        let answer = |response| machine::LifecycleServiceUpgradeResponse {
            progress: Some(machine::LifecycleServiceInstallProgress { response: Some(response) }),
        };
        streamed(said.map(answer).collect())
    }
}

#[tonic::async_trait]
impl State for Node {
    async fn get(&self, request: Request<cosi::GetRequest>) -> Answer<cosi::GetResponse> {
        let request = request.into_inner();
        let block = CONFIG.lines().fold("|\n".to_owned(), |text, line| format!("{text}    {line}\n"));
        let yaml = match (request.namespace.as_str(), request.r#type.as_str(), request.id.as_str()) {
            ("hardware", "SystemInformations.hardware.talos.dev", "systeminformation") => {
                "manufacturer: QEMU\nuuid: BC1D6309-7A34-4822-981B-DECE7A37BE40\nwakeUpType: Power Switch\n"
            }
            ("runtime", "MachineStatuses.runtime.talos.dev", "machine") => {
                match next(&mut self.script().stages, "") {
                    "" => {
                        "stage: booting\nstatus:\n    ready: false\n    unmetConditions:\n        - name: services\n          reason: etcd not running\n"
                    }
                    stage => &format!("stage: {stage}\nstatus:\n    ready: true\n    unmetConditions: []\n"),
                }
            }
            ("runtime", "Versions.runtime.talos.dev", "version") => "name: Talos\nversion: v1.12.11\n",
            ("config", "MachineConfigs.config.talos.dev", "v1alpha1") if self.face == Face::Configured => {
                &block
            }
            _ => return Err(Status::not_found("resource doesn't exist")),
        };
        Ok(Response::new(cosi::GetResponse { resource: Some(resource(&request.id, yaml)) }))
    }

    async fn list(&self, request: Request<cosi::ListRequest>) -> Answer<BoxStream<cosi::ListResponse>> {
        let found = match request.into_inner().r#type.as_str() {
            "Disks.block.talos.dev" => vec![
                resource(
                    "sda",
                    "dev_path: /dev/sda\nsize: 8589934592\nreadonly: false\ncdrom: false\ntransport: virtio\n",
                ),
                resource("sr0", "dev_path: /dev/sr0\nsize: 1048576\nreadonly: true\ncdrom: true\n"),
            ],
            "LinkStatuses.net.talos.dev" => {
                vec![resource(
                    "eth0",
                    "type: ether\nhardwareAddr: 56:48:6a:2f:9e:ac\nmtu: 1500\nlinkState: true\nkind: \"\"\n",
                )]
            }
            "Large" => vec![resource("large", &format!("text: {}\n", "x".repeat(5 << 20)))],
            other => {
                return Err(Status::permission_denied(format!("resource type {other:?} is not supported")));
            }
        };
        streamed(found.into_iter().map(|resource| cosi::ListResponse { resource: Some(resource) }).collect())
    }

    async fn watch(&self, request: Request<cosi::WatchRequest>) -> Answer<BoxStream<cosi::WatchResponse>> {
        let request = request.into_inner();
        // 1.12 answers INTERNAL to a watch without options, and 0 hides the end of the beginning.
        let Some(options) = request.options else { return Err(Status::internal("nil pointer dereference")) };
        assert_eq!(request.api_version, 1);
        if request.id.is_some() && options.bootstrap_contents {
            return Err(Status::unimplemented("bootstrap contents are not supported for a single resource"));
        }
        let event = |kind: cosi::EventType, yaml: &str| cosi::Event {
            event_type: kind.into(),
            resource: Some(resource("kubelet", yaml)),
            ..Default::default()
        };
        let events = [
            vec![],
            vec![
                event(cosi::EventType::Created, "running: true\n"),
                event(cosi::EventType::Bootstrapped, ""),
                event(cosi::EventType::Noop, ""),
            ],
            vec![event(cosi::EventType::Destroyed, "")],
        ];
        let said = events.into_iter().map(|event| Ok(cosi::WatchResponse { event }));
        // At the end of machined the stream breaks.
        let gone = Err(Status::unavailable("closing transport due to: received prior goaway: graceful_stop"));
        Ok(Response::new(Box::pin(futures::stream::iter(said.chain([gone])))))
    }
}

fn resource(id: &str, yaml: &str) -> cosi::Resource {
    let metadata = cosi::Metadata { id: id.to_owned(), version: "1".to_owned(), ..Default::default() };
    let spec = cosi::Spec { yaml_spec: yaml.to_owned(), ..Default::default() };
    cosi::Resource { metadata: Some(metadata), spec: Some(spec) }
}
