//! Keeping the lease while a run goes on: renewing it in time, and taking it as soon as there is a place for it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use model::lease::{Hold, LOOK_FOR_PLACE_EVERY, RENEW_EVERY, RENEWAL_TIMEOUT};
use tokio::sync::Notify;

use crate::context::Context;
use crate::error::{Error, Kind, Result};
use crate::kubernetes_lease::KubernetesLease;
use crate::lease::Validity;
use crate::offline;
use crate::record::Record;

/// After a renewal that failed.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Keeps the lease for as long as it is polled; renews at once when that is urgent. Comes back only when the lease is not ours
/// any more, or cannot be had.
pub(crate) async fn keep(context: Arc<Context>, urgent: Arc<Notify>) -> Error {
    let clock = &context.systems.clock;
    loop {
        let lease = context.kubernetes_lease();
        let looks = lease.is_none() && !context.snapshot.blueprint.has_proxmox();
        let wait = if looks { LOOK_FOR_PLACE_EVERY } else { RENEW_EVERY };
        tokio::select! {
            biased;
            () = urgent.notified() => {}
            () = clock.sleep(wait) => {}
        }
        let kept = match (lease, context.record()) {
            (Some(lease), _) => in_time(&context, lease.validity(), Box::pin(lease.renew()), None).await,
            (None, Ok(record)) => {
                in_time(&context, record.validity(), Box::pin(record.renew()), Some(&record)).await
            }
            (None, Err(_)) if looks => Box::pin(take_late(&context)).await,
            (None, Err(_)) => Ok(()),
        };
        if let Err(error) = kept {
            return error;
        }
    }
}

/// One renewal. Only what ends the run is an error: the lease is another operator's, was out of reach for too long, or its record is
/// gone for certain, unless this run deletes or moves it.
async fn in_time(
    context: &Context,
    validity: &Validity,
    renewal: impl Future<Output = Result<()>>,
    record: Option<&Record>,
) -> Result<()> {
    let clock = &context.systems.clock;
    let error = match clock.timeout(RENEWAL_TIMEOUT, renewal).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error,
        Err(late) => Error::systems("could not renew the lease").because(late),
    };
    if error.kind() == Kind::Busy {
        return Err(error);
    }
    if validity.hold() == Hold::GivenUp {
        return Err(match record {
            Some(record) => offline::explain(&context.systems, record.host(), error).await,
            None => error,
        });
    }
    let ours = context.deletes_record.load(Ordering::Relaxed) || context.moves_record.load(Ordering::Relaxed);
    if let Some(record) = record.filter(|_| !ours) {
        // Its VM ID has another VM by now, or its notes say something else: they will not say again that the lease is ours.
        if error.kind() == Kind::Refused {
            return Err(error);
        }
        if let Ok(Some(lost)) = clock.timeout(RENEWAL_TIMEOUT, Box::pin(record.lost())).await {
            return Err(lost);
        }
    }
    clock.sleep(TRY_AGAIN_AFTER).await;
    Ok(())
}

/// The run started before there was a place for its lease; perhaps there is one now.
async fn take_late(context: &Context) -> Result<()> {
    if let Some(lease) =
        KubernetesLease::take_late(&context.systems, &context.snapshot, &context.holder).await?
    {
        context.kubernetes_lease.send_replace(Some(lease));
    }
    Ok(())
}
