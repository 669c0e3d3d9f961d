//! Ctrl-C, and the signal with which a system asks programs to end.

use std::convert::Infallible;

use engine::apply::Stop;
use tokio::sync::watch;

/// Turns each signal into a stronger wish to stop: gently at first, at once the second time.
pub async fn wishes(request: watch::Sender<Stop>) -> Infallible {
    for stop in [Stop::Graceful, Stop::Forced] {
        signal().await;
        request.send_replace(stop);
    }
    std::future::pending().await
}

/// Does `work` unless a signal comes first; then it is dropped. For what may be left undone.
pub async fn unless<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = signal() => None,
    }
}

/// Waits for the next signal. Where none can be had, it waits for ever and the system's own way of ending holds.
async fn signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                biased;
                interrupted = tokio::signal::ctrl_c() => if interrupted.is_ok() { return },
                _ = terminate.recv() => return,
            }
        }
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_ok() {
        return;
    }
    std::future::pending().await
}
