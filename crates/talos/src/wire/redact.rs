//! `Debug` without the contents for the messages that carry machine configuration, keys or resource specs.
//!
//! A log line must never leak a cluster's keys, whatever writes it; so these messages cannot show them at all.

use std::fmt;

use super::{common, cosi, machine};

/// Stands for bytes that are not shown.
struct Size(usize);

impl fmt::Debug for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0)
    }
}

impl fmt::Debug for common::Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Data")
            .field("metadata", &self.metadata)
            .field("bytes", &Size(self.bytes.len()))
            .finish()
    }
}

impl fmt::Debug for machine::ApplyConfigurationRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApplyConfigurationRequest")
            .field("data", &Size(self.data.len()))
            .field("mode", &self.mode())
            .field("dry_run", &self.dry_run)
            .field("try_mode_timeout", &self.try_mode_timeout)
            .finish()
    }
}

impl fmt::Debug for machine::ApplyConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApplyConfiguration")
            .field("metadata", &self.metadata)
            .field("warnings", &self.warnings)
            .field("mode", &self.mode())
            // A dry run puts a diff of the configuration here.
            .field("mode_details", &Size(self.mode_details.len()))
            .finish()
    }
}

impl fmt::Debug for machine::GenerateClientConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenerateClientConfiguration")
            .field("metadata", &self.metadata)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for cosi::Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec")
            .field("proto_spec", &Size(self.proto_spec.len()))
            .field("yaml_spec", &Size(self.yaml_spec.len()))
            .finish()
    }
}
