//! Saves a snapshot of etcd, before something that cannot be undone.

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::Result;
use crate::etcd_snapshot;

/// Takes a snapshot and keeps it.
pub(super) async fn run(context: &Context, progress: &Progress) -> Result<Done> {
    let note = |text: String| progress.note(text);
    Box::pin(etcd_snapshot::take(&context.systems, &context.snapshot, &note)).await?;
    Ok(Done::default())
}
