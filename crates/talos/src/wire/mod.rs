//! The messages and services of the Talos API, under their real package names and field numbers.
//!
//! The code is generated from this crate's `proto` folder (`cargo run -p xtask -- protos`) for both sides: clients take any
//! `tonic` transport, and a server answers "unimplemented" to each method it leaves out. Messages that carry secrets have a
//! `Debug` that shows sizes only.

mod redact;

/// What the services share: metadata of proxied answers, byte streams, containerd names.
pub mod common {
    #![allow(missing_docs, unused_qualifications, reason = "generated")]
    include!("gen/common.rs");
}

/// `MachineService`, and since 1.13 `ImageService` and `LifecycleService`.
pub mod machine {
    #![allow(missing_docs, unused_qualifications, clippy::doc_markdown, reason = "generated")]
    include!("gen/machine.rs");
}

/// `StorageService`: disks.
pub mod storage {
    #![allow(missing_docs, unused_qualifications, reason = "generated")]
    include!("gen/storage.rs");
}

/// `TimeService`: the node's clock.
pub mod time {
    #![allow(missing_docs, unused_qualifications, reason = "generated")]
    include!("gen/time.rs");
}

/// `ClusterService`: the health check that a control plane node runs itself.
pub mod cluster {
    #![allow(missing_docs, unused_qualifications, reason = "generated")]
    include!("gen/cluster.rs");
}

/// `InspectService`: which controllers there are.
pub mod inspect {
    #![allow(missing_docs, unused_qualifications, reason = "generated")]
    include!("gen/inspect.rs");
}

/// `cosi.resource.State`: reading the node's resources.
pub mod cosi {
    #![allow(missing_docs, unused_qualifications, reason = "generated")]
    include!("gen/cosi.resource.rs");
}

/// trustd's `SecurityService`.
pub mod security {
    #![allow(missing_docs, unused_qualifications, reason = "generated")]
    include!("gen/securityapi.rs");
}

/// `google.rpc.Status`, which proxied answers embed.
pub mod rpc {
    #![allow(missing_docs, unused_qualifications, reason = "generated")]
    include!("gen/google.rpc.rs");
}

/// The largest message Talos sends or takes, in both directions; the default limit of `tonic` is lower.
pub const MAX_MESSAGE_SIZE: usize = 32 * 1024 * 1024;

/// The prefix of an event's type URL: not the usual `type.googleapis.com/`.
pub const EVENT_TYPE_PREFIX: &str = "talos/runtime/";

#[cfg(test)]
mod tests {
    use prost::{Message, Name};

    use super::{cosi, machine};

    #[test]
    fn a_watch_of_one_resource_differs_from_a_watch_of_all() {
        let all = cosi::WatchRequest { id: None, api_version: 1, ..Default::default() };
        let empty = cosi::WatchRequest { id: Some(String::new()), api_version: 1, ..Default::default() };
        assert_eq!(all.encode_to_vec(), [0x28, 1]);
        assert_eq!(empty.encode_to_vec(), [0x1a, 0, 0x28, 1]);
    }

    #[test]
    fn an_apply_request_has_the_real_field_numbers() {
        let request = machine::ApplyConfigurationRequest {
            data: b"x".to_vec(),
            mode: machine::apply_configuration_request::Mode::Auto.into(),
            dry_run: true,
            try_mode_timeout: None,
        };
        assert_eq!(request.encode_to_vec(), [0x0a, 1, b'x', 0x20, 1, 0x28, 1]);
        assert_eq!(machine::MachineStatusEvent::full_name(), "machine.MachineStatusEvent");
    }

    #[test]
    fn debug_of_a_configuration_hides_it() {
        let request =
            machine::ApplyConfigurationRequest { data: b"token: hunter2".to_vec(), ..Default::default() };
        let shown = format!("{request:?}");
        assert!(shown.contains("14 bytes"), "{shown}");
        assert!(!shown.contains("hunter2") && !shown.contains("104, 117"), "{shown}");
    }
}
