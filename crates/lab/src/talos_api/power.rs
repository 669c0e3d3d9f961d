//! Going down, coming back, and coming back as something else.

use std::collections::BTreeSet;

use talos::pki::{Authority, talosconfig};
use talos::wire::machine as wire;
use tonic::Status;

use super::Caller;
use super::machine_service::{stamp, status};
use crate::machine::{Leave, Service, ServiceAction, Wipe, devices, timing};

impl Caller {
    pub(super) async fn leave(&self, why: Leave) -> Result<String, Status> {
        self.act(|machines, now| Ok(machines.leave(self.vmid, why, now))).await
    }

    pub(super) async fn service_action(&self, id: &str, action: ServiceAction) -> Result<String, Status> {
        self.act(|machines, now| machines.service_action(self.vmid, id, action, now)).await
    }

    pub(super) async fn reset_machine(&self, request: wire::ResetRequest) -> Result<String, Status> {
        self.check_reset(&request)?;
        let named: Vec<_> =
            request.system_partitions_to_wipe.iter().filter(|p| p.wipe).map(|p| p.label.as_str()).collect();
        let user_disks_only = request.mode() == wire::reset_request::WipeMode::UserDisks;
        let whole_disk = request.system_partitions_to_wipe.is_empty() && !user_disks_only;
        let wipe = Wipe {
            state: whole_disk || named.contains(&"STATE"),
            ephemeral: whole_disk || named.contains(&"EPHEMERAL"),
            meta: whole_disk || named.contains(&"META"),
            whole_disk,
            reboot: request.reboot,
        };
        self.act(|machines, now| Ok(machines.reset(self.vmid, request.graceful, wipe, now))).await
    }

    /// What a machine looks at before it starts to reset itself.
    fn check_reset(&self, request: &wire::ResetRequest) -> Result<(), Status> {
        use wire::reset_request::WipeMode;
        let disks = self.read(|machines, _| {
            let machine = machines.get(self.vmid);
            let names =
                machine.map(|m| devices(&m.hardware).into_iter().map(|d| format!("/dev/{}", d.id)).collect());
            names.unwrap_or_else(Vec::new)
        });
        let users = &request.user_disks_to_wipe;
        if !users.is_empty() && request.mode() == WipeMode::SystemDisk {
            return Err(Status::unknown(
                "reset failed: invalid input, wipe mode SYSTEM_DISK doesn't support UserDisksToWipe parameter",
            ));
        }
        for disk in users {
            let why = match disk.as_str() {
                "/dev/loop0" | "/dev/sr0" => "is readonly",
                _ if !disks.contains(disk) => "wasn't found",
                _ if disks.first() == Some(disk) => "is the system disk",
                _ => continue,
            };
            return Err(Status::unknown(format!("reset user disk failed: device {disk} {why}")));
        }
        let labels = &request.system_partitions_to_wipe;
        if !labels.is_empty() && request.mode() == WipeMode::UserDisks {
            return Err(Status::unknown(
                "reset failed: invalid input, wipe mode USER_DISKS doesn't support SystemPartitionsToWipe parameter",
            ));
        }
        let volumes = self.read(|machines, now| {
            super::resources::trees(machines, self.vmid, now, "VolumeStatuses.block.talos.dev")
        });
        for label in labels.iter().map(|spec| &spec.label) {
            let Some(volume) = volumes.get(label) else {
                return Err(Status::unknown(format!(
                    "failed to get volume status with label {label:?}: resource VolumeStatuses.block.talos.dev(runtime/{label}@undefined) doesn't exist"
                )));
            };
            if volume["location"].as_str().is_none_or(str::is_empty) {
                return Err(Status::unknown(format!("failed to reset: volume {label:?} is not located")));
            }
        }
        Ok(())
    }

    /// The old call: it answers only when the image is there and etcd was asked.
    pub(super) async fn legacy_upgrade(&self, request: wire::UpgradeRequest) -> Result<String, Status> {
        let image = match self.installer(&request.image) {
            Some(image) => image,
            None => {
                let reference = &request.image;
                return Err(Status::unknown(format!(
                    "error validating installer image {reference:?}: {}",
                    crate::machine::not_found(reference)
                )));
            }
        };
        self.shared.clock().sleep(timing::PULL).await;
        let checks = self.read(|machines, _| {
            let minor = machines.get(self.vmid).map_or(13, |m| m.profile().minor);
            let skipped = request.force || request.preserve && minor >= 12;
            let precheck = machines.precheck(self.vmid, &image);
            let etcd = if skipped { Ok(()) } else { machines.etcd_allows_upgrade(self.vmid) };
            (precheck, etcd)
        });
        checks.1.map_err(status)?;
        checks.0.map_err(|words| {
            Status::unknown(format!("error validating installer image {:?}: {words}", request.image))
        })?;
        self.act(|machines, now| Ok(machines.upgrade(self.vmid, image, request.stage, now))).await
    }

    /// A talosconfig for other roles, which a control plane can make.
    pub(super) fn client_configuration(
        &self,
        request: wire::GenerateClientConfigurationRequest,
    ) -> Result<wire::GenerateClientConfiguration, Status> {
        self.read(|machines, now| {
            let minor = machines.get(self.vmid).map_or(13, |m| m.profile().minor);
            let node = machines.control_plane(self.vmid, "generate client configuration");
            let node = node.map_err(|refusal| {
                let old = "client configuration (talosconfig) can't be generated on worker nodes";
                if minor <= 12 { Status::failed_precondition(old) } else { status(refusal) }
            })?;
            let lifetime = request.crt_ttl.and_then(|ttl| std::time::Duration::try_from(ttl).ok());
            let lifetime = lifetime
                .filter(|ttl| !ttl.is_zero())
                .ok_or_else(|| Status::invalid_argument("crt_ttl should be positive"))?;
            let broken = |_| Status::unknown("the machine's authority cannot be used");
            let ca = &node.settings.talos_ca;
            let authority =
                Authority::from_pem(&ca.crt, ca.key.as_deref().unwrap_or_default()).map_err(broken)?;
            // A set of names: spaces around them do not count, and an empty one is none.
            let roles: BTreeSet<&str> =
                request.roles.iter().map(|role| role.trim()).filter(|role| !role.is_empty()).collect();
            let mut names = roles.iter().copied();
            let (first, second) = (names.next().unwrap_or_default(), names.next());
            if names.next().is_some() {
                return Err(Status::unimplemented("the lab issues certificates with at most two roles"));
            }
            let identity =
                authority.issue_client_of_two(None, (first, second), lifetime, now).map_err(broken)?;
            let name = if roles.len() == 1 {
                format!("{}@{}", first.trim_start_matches("os:"), node.settings.cluster_name)
            } else {
                node.settings.cluster_name.clone()
            };
            Ok(wire::GenerateClientConfiguration {
                metadata: None,
                ca: ca.crt.clone().into_bytes(),
                crt: identity.certificate_pem().into_bytes(),
                key: identity.key_pem().expose().as_bytes().to_vec(),
                talosconfig: talosconfig(&name, &[], &[], &identity).into_bytes(),
            })
        })
    }

    /// The services with the states that they went through.
    pub(super) fn service_infos(&self) -> Vec<wire::ServiceInfo> {
        let services = self.read(|machines, _| {
            let machine = machines.get(self.vmid);
            let services = machines.services(self.vmid).into_iter();
            let with_history = services.map(|service| {
                let history = machine.map(|m| m.history(&service.id)).unwrap_or_default();
                let events = history.iter().map(|(state, message, at, _)| wire::ServiceEvent {
                    msg: (*message).to_owned(),
                    state: (*state).to_owned(),
                    ts: Some(stamp(*at)),
                });
                (events.collect::<Vec<_>>(), service)
            });
            with_history.collect::<Vec<_>>()
        });
        services
            .into_iter()
            .map(|(events, service)| {
                let ran = events.iter().any(|event| event.state == "Running");
                let (healthy, last_message) = health(&service, ran);
                wire::ServiceInfo {
                    health: Some(wire::ServiceHealth {
                        unknown: healthy.is_none(),
                        healthy: healthy == Some(true),
                        last_message,
                        last_change: Some(stamp(service.since)),
                    }),
                    id: service.id,
                    state: service.state.into(),
                    events: Some(wire::ServiceEvents { events }),
                }
            })
            .collect()
    }
}

/// What the last health check of a service found, and its words. One that started is looked at only after a while; one that
/// ran and ended is known not to run. Services of extensions are never looked at.
fn health(service: &Service, ran: bool) -> (Option<bool>, String) {
    match (service.state, service.healthy) {
        (_, Some(false)) => (Some(false), service.message.clone()),
        ("Running", None) if !service.id.starts_with("ext-") => (None, "Unknown".to_owned()),
        ("Finished", None) if ran => (Some(false), "service not running".to_owned()),
        (_, healthy) => (healthy, String::new()),
    }
}
