//! The working folder as the store of a new cluster's secrets, and as what keeps two processes apart.

use engine::error::Result;
use engine::secrets::{self, AtRest};
use engine::stores::{BoxFuture, BundleStore, ClusterLock};
use jiff::Timestamp;
use model::spec::Spec;
use talos::secrets::Bundle;

use crate::commands::setup::Setup;
use crate::view::{Printer, Problem};

/// The working folder of a cluster.
pub struct Kept<'a> {
    pub setup: &'a Setup,
    /// Whether a person must know where secrets are. Those of the lab are worth nothing.
    pub loud: bool,
    pub printer: &'a Printer,
}

impl BundleStore for Kept<'_> {
    fn create<'a>(&'a self, spec: &'a Spec, now: Timestamp) -> BoxFuture<'a, Result<Bundle>> {
        Box::pin(async move {
            let (place, printer) = (&self.setup.place, self.printer);
            let identity = place.identity().read_or_make(printer, self.loud).map_err(Problem::into_error)?;
            printer.note("Generating the cluster's secrets.");
            let bundle = secrets::generate(spec, now).await?;
            let at_rest = AtRest::Encrypted(identity.recipients());
            let path = place.create_bundle(&bundle, &at_rest).map_err(Problem::into_error)?;
            if self.loud {
                printer.note(&format!("The secrets are in {}, encrypted. Keep that file.", path.display()));
            }
            Ok(bundle)
        })
    }
}

impl ClusterLock for Kept<'_> {
    fn lock(&self, cluster_id: &str) -> Result<Box<dyn Send + Sync>> {
        if self.setup.lab.is_some() {
            return Ok(Box::new(()));
        }
        let lock = self.setup.place.lock_cluster(cluster_id).map_err(Problem::into_error)?;
        Ok(Box::new(lock))
    }
}
