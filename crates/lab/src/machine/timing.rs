//! How long things take, in one table.
//!
//! The order of things was observed on real machines; the lengths are those of ordinary hardware, chosen so that a
//! cluster of three control planes and two workers is ready about a hundred seconds after power-on.

use std::time::Duration;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// From power-on to an answering API: firmware, kernel, machined, apid.
pub const BOOT: Duration = ms(24_000);
/// Added to [`BOOT`] at most, by the machine's own seed.
pub const BOOT_JITTER: Duration = ms(5_000);
/// The network is up this long before the API is: ports refuse instead of being silent.
pub const NETWORK_BEFORE_API: Duration = ms(3_000);
/// A certificate of the maintenance API is replaced after this.
pub const CERTIFICATE_RENEWED: Duration = ms(12 * 3_600_000);
/// After the answer to a first apply the maintenance listener still lives this long.
pub const MAINTENANCE_LINGERS: Duration = ms(300);
/// Then the port refuses, until the listener with the new authority is there.
pub const SWITCH: Duration = ms(400);
/// With open streams of the maintenance API it comes only when those have been cut off.
pub const STREAMS_LINGER: Duration = ms(10_000);
/// The container runtime is up this long after the boot sequence started; `Bootstrap` and the kubelet need it.
pub const CRI: Duration = ms(3_000);
/// trustd answers this long after the boot sequence started.
pub const TRUSTD: Duration = ms(1_500);
/// The clock is in step this long after the network is up.
pub const CLOCK_SYNC: Duration = ms(2_000);
/// A worker has its API certificate this long after it found a trustd.
pub const WORKER_CERTIFICATE: Duration = ms(1_000);
/// From `Bootstrap` to data on disk; a reboot in between forgets the request.
pub const ETCD_DATA: Duration = ms(1_500);
/// An etcd that starts on data it already has.
pub const ETCD_START: Duration = ms(1_000);
/// From the start of a service to its first health check.
pub const FIRST_CHECK: Duration = ms(1_000);
/// The same for the kubelet, which starts slowly.
pub const KUBELET_FIRST_CHECK: Duration = ms(2_000);
/// From a running etcd to a healthy service.
pub const ETCD_HEALTHY: Duration = ms(5_000);
/// A waiting control plane adds itself this long after it could.
pub const ETCD_JOIN: Duration = ms(3_000);
/// Member without a name, right after it was added.
pub const ETCD_NAMELESS: Duration = ms(200);
/// How long a new member is a learner.
pub const ETCD_LEARNER: Duration = ms(16_000);
/// From promotion to a healthy service.
pub const ETCD_PROMOTED_HEALTHY: Duration = ms(8_000);
/// An etcd call without a leader fails after this.
pub const ETCD_NO_LEADER: Duration = ms(2_700);
/// The shared address is taken this long after its election could be won.
pub const VIP_ELECTION: Duration = ms(1_000);
/// The lease of a holder that vanished.
pub const VIP_LEASE: Duration = ms(60_000);
/// kube-apiserver answers this long after its etcd member is a healthy voter.
pub const API_SERVER: Duration = ms(15_000);
/// A static pod that its kubelet starts again, with another image or other arguments, is ready after this.
pub const STATIC_POD: Duration = ms(10_000);
/// The kubelet service runs this long after the container runtime (image pull).
pub const KUBELET: Duration = ms(7_000);
/// The kubelet registers its node this long after it could.
pub const KUBELET_REGISTERS: Duration = ms(4_000);
/// A registered node is ready this long after, given a CNI plugin.
pub const NODE_READY: Duration = ms(8_000);
/// A node not heard of for this long is `Unknown`.
pub const NODE_LOST: Duration = ms(40_000);
/// The API still answers this long after a reboot, shutdown or reset was asked for.
pub const LEAVING_API: Duration = ms(1_000);
/// After services have stopped, calls fail for this long before the port refuses.
pub const API_LINGERS: Duration = ms(300);
/// Stopping services and unmounting, up to the machine's own power-off or restart.
pub const LEAVING: Duration = ms(8_000);
/// `Bootstrap` waits this long for the container runtime before it refuses.
pub const BOOTSTRAP_WAITS_CRI: Duration = ms(1_300);
/// `Bootstrap` waits this long for the clock before it refuses.
pub const BOOTSTRAP_WAITS_CLOCK: Duration = ms(5_200);
/// Fetching an image from a registry that answers.
pub const PULL: Duration = ms(6_000);
/// The installer's work.
pub const INSTALL: Duration = ms(12_000);
/// A system that cannot come up goes back to the one before after this.
pub const FAILED_BOOT: Duration = ms(10_000);
/// Leaving an etcd cluster.
pub const ETCD_LEAVE: Duration = ms(7_500);
/// Connecting to a container runtime that is not there.
pub const NO_CONTAINERD: Duration = ms(10_000);
/// After this the machine no longer tries to fetch an image that is in no registry.
pub const PULL_GIVES_UP: Duration = ms(130_000);
/// A kubelet that is restarted runs again after this.
pub const KUBELET_RESTART: Duration = ms(3_000);
/// The holder of the shared address has it back this long after its kubelet stopped.
pub const VIP_AWAY: Duration = ms(10_000);
/// How long a LAN looks for a host that is not there.
pub const NO_ROUTE: Duration = ms(3_000);
