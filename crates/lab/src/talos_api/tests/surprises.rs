//! What surprises the author of a client, asked of the machines as any client would: by gRPC, without our own client.
//!
//! Each test is named after one surprise of a real Talos. It fails when the lab forgets it, and then a client that was tried
//! only in the lab would be wrong in life.

mod configured;
mod etcd;
mod listening;
mod releases;
mod rules;
mod waiting;

use std::time::Duration;

use talos::config::Role;
use talos::pki::Identity;
use talos::wire::cosi::state_client::StateClient;
use talos::wire::cosi::{ListRequest, Resource};
use talos::wire::machine as wire;
use talos::wire::machine::apply_configuration_request::Mode;
use talos::wire::machine::machine_service_client::MachineServiceClient;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use super::{Rig, get};
use crate::machine::Boot;
use crate::machine::tests::{boot, config};

/// A request that hands over `data`.
fn apply(data: impl Into<Vec<u8>>, mode: Mode) -> wire::ApplyConfigurationRequest {
    wire::ApplyConfigurationRequest {
        data: data.into(),
        mode: mode.into(),
        dry_run: false,
        try_mode_timeout: None,
    }
}

/// The configuration of the only control plane of these tests.
fn usual() -> Vec<u8> {
    config(101, Role::ControlPlane, |_| {})
}

/// The usual configuration with a kernel setting, which is applied without a restart.
fn tuned(value: &str) -> Vec<u8> {
    let text = String::from_utf8(usual()).unwrap();
    text.replacen("machine:\n", &format!("machine:\n    sysctls:\n        a: \"{value}\"\n"), 1).into_bytes()
}

/// Code and words of a call that must fail.
fn refused<T>(outcome: Result<Response<T>, Status>) -> (Code, String) {
    let status = outcome.err().expect("this must be refused");
    (status.code(), status.message().to_owned())
}

fn denied(words: &str) -> (Code, String) {
    (Code::PermissionDenied, words.to_owned())
}

impl Rig {
    /// One machine that waits for its configuration, with a system of `talos`.
    async fn waiting(talos: &str) -> Self {
        let rig = Self::new();
        let image = crate::machine::BootImage { talos: talos.into(), ..boot(101).image.unwrap() };
        let boot = Boot { image: Some(image), ..boot(101) };
        rig.lab.shared().with(|world, now| world.machines.power_on(101, boot, now));
        rig.wait(40).await;
        rig
    }

    /// One control plane with its configuration and without etcd.
    async fn configured() -> Self {
        let rig = Self::waiting("v1.13.9").await;
        rig.apply(101, Role::ControlPlane).await;
        rig.wait(10).await;
        rig
    }

    /// Three control planes (101 to 103) and a worker (104), all ready.
    async fn cluster() -> Self {
        let rig = Self::new();
        (101..=104).for_each(|number| rig.on(number));
        rig.wait(40).await;
        for number in 101..=103 {
            rig.apply(number, Role::ControlPlane).await;
        }
        rig.apply(104, Role::Worker).await;
        rig.wait(10).await;
        rig.admin(101).bootstrap(wire::BootstrapRequest::default()).await.unwrap();
        rig.wait(180).await;
        for number in 101..=104 {
            assert_eq!(rig.stage(number).await, "running");
        }
        rig
    }

    fn administrator(&self) -> Identity {
        self.role("os:admin")
    }

    fn admin(&self, number: u32) -> MachineServiceClient<Channel> {
        self.client(number, Some(&self.administrator()))
    }

    fn resources(&self, number: u32) -> StateClient<Channel> {
        StateClient::new(self.channel(number, Some(&self.administrator())))
    }

    /// All resources of a type.
    async fn listed(mut state: StateClient<Channel>, namespace: &str, kind: &str) -> Vec<Resource> {
        let request = ListRequest { namespace: namespace.into(), r#type: kind.into(), options: None };
        let mut stream = state.list(request).await.unwrap().into_inner();
        let mut found = vec![];
        while let Some(answer) = stream.message().await.unwrap() {
            found.extend(answer.resource);
        }
        found
    }

    async fn yaml(mut state: StateClient<Channel>, namespace: &str, kind: &str, id: &str) -> String {
        let found = state.get(get(namespace, kind, id)).await.unwrap().into_inner();
        found.resource.unwrap().spec.unwrap().yaml_spec
    }

    async fn stage(&self, number: u32) -> String {
        let yaml =
            Self::yaml(self.resources(number), "runtime", "MachineStatuses.runtime.talos.dev", "machine")
                .await;
        yaml.lines().next().unwrap().trim_start_matches("stage: ").to_owned()
    }

    async fn services(mut client: MachineServiceClient<Channel>) -> Vec<wire::ServiceInfo> {
        client.service_list(()).await.unwrap().into_inner().messages.remove(0).services
    }

    async fn service(&self, number: u32, id: &str) -> String {
        let services = Self::services(self.admin(number)).await;
        services.into_iter().find(|s| s.id == id).unwrap().state
    }

    async fn boot_id(&self, number: u32) -> String {
        let request = wire::ReadRequest { path: "/proc/sys/kernel/random/boot_id".into() };
        let mut stream = self.admin(number).read(request).await.unwrap().into_inner();
        let bytes = stream.message().await.unwrap().unwrap().bytes;
        String::from_utf8(bytes).unwrap()
    }

    /// Tenths of a second until a certificate of the cluster's opens the port.
    async fn tenths_until_configured(&self) -> u32 {
        for tenths in 0..600 {
            if self.admin(101).version(()).await.is_ok() {
                return tenths;
            }
            self.clock.sleep(Duration::from_millis(100)).await;
        }
        panic!("not within a minute");
    }
}
