//! Serves one connection to a machine's port: TLS first, then whatever is spoken there.

use std::sync::Arc;

use ambient::Stream;
use tokio_rustls::TlsAcceptor;

use crate::calls::Delivery;
use crate::line::Line;
use crate::machine::{Kind, Listener, tls};
use crate::shared::Shared;
use crate::{kube_api, talos_api};

/// Serves `stream` as `listener` until either side ends it. Once its `line` is ending, nothing new is started.
pub(super) async fn serve(
    listener: Listener,
    shared: Arc<Shared>,
    stream: Stream,
    judge: tls::Judge,
    line: Line,
) {
    let clock = shared.clock().clone();
    let maintenance = listener.kind == Kind::Maintenance;
    if maintenance && shared.with_quiet(|world| world.faults.meets_reissue(listener.vmid)) {
        shared.with(|world, now| world.machines.reissue(listener.vmid, now));
    }
    let found = shared.read(|world, _| {
        let machines = &world.machines;
        let machine = machines.get(listener.vmid).filter(|machine| machine.epoch == listener.epoch)?;
        let relayed = maintenance && world.faults.has_relay(listener.vmid);
        let config = tls::server(machines, listener.vmid, listener.kind, clock, judge, relayed)?;
        let fingerprint = machine.shown_fingerprint(relayed).filter(|_| maintenance);
        Some((config, fingerprint.map(|fingerprint| Delivery { fingerprint, relayed })))
    });
    // Without a sound authority a machine can show no certificate: the connection is accepted and dropped.
    let Some((config, shown)) = found else { return };
    let Ok(stream) = TlsAcceptor::from(config).accept(stream).await else { return };
    let client = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).cloned();
    match listener.kind {
        Kind::Maintenance | Kind::Api => {
            talos_api::serve(listener, shared, stream, client, shown, line).await;
        }
        Kind::Trustd => talos_api::serve_trustd(listener.vmid, shared, stream).await,
        Kind::Kubernetes => kube_api::serve(listener.vmid, shared, stream, client, line).await,
    }
}
