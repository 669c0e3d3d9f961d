//! Services of a machine that do not start by themselves, so that Talosmith does not wait for them.
//!
//! Talos gives some services up: an image that cannot be pulled ends in the state `Failed`, and nothing tries again. Others go in
//! circles: a member that was removed from etcd and still has its old data restarts again and again. A machine says so only in the
//! states and events of its services, never in the conditions that it calls unmet.

use std::time::Duration;

/// How long a state that may pass must last before it counts. A service that is told to restart is `Finished` for seconds, and etcd
/// may fail once or twice before it comes up.
pub const STABLE: Duration = Duration::from_secs(150);

/// Services without which a node never joins.
const NEEDED: &[&str] = &["containerd", "cri", "etcd", "kubelet", "trustd"];
/// What Talos writes when a service ended and is started again, without a limit.
const FOR_EVER: &str = "going to restart forever";

/// A service as its machine shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub id: String,
    /// `Preparing`, `Waiting`, `Running`, `Finished`, `Failed`, …
    pub state: String,
    /// Whether it is healthy; nothing while that is not known.
    pub healthy: Option<bool>,
    /// What it said about itself, oldest first.
    pub events: Vec<String>,
}

/// Why waiting is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halted {
    /// What it is about, to tell one cause from the next.
    pub subject: String,
    /// The cause, in one sentence.
    pub why: String,
    /// What the operator can do.
    pub hint: String,
    /// Certain at once; otherwise only after [`STABLE`].
    pub at_once: bool,
}

/// The first of a machine's services that will not come up by itself.
#[must_use]
pub fn halted(address: &str, services: &[Service]) -> Option<Halted> {
    services
        .iter()
        .filter(|service| NEEDED.contains(&service.id.as_str()))
        .find_map(|service| of(address, service))
}

fn of(address: &str, service: &Service) -> Option<Halted> {
    if service.healthy == Some(true) {
        return None;
    }
    let id = service.id.as_str();
    let said = |event: &String| event.split_whitespace().collect::<Vec<_>>().join(" ");
    let last = service.events.last().map(said).unwrap_or_default();
    let circling = service.events.iter().rfind(|event| event.contains(FOR_EVER)).map(said);
    let again = match id {
        "kubelet" => format!("`talosctl -n {address} service kubelet restart`"),
        _ => format!("`talosctl -n {address} reboot`"),
    };
    let (why, hint, at_once) = match (service.state.as_str(), circling) {
        ("Failed", _) => (
            format!("its service {id} failed, and Talos does not try again: {last}"),
            format!(
                "correct what it names (an image, a version, a mirror, a registry), then start the service with {again}"
            ),
            true,
        ),
        ("Finished", _) if id == "etcd" => (
            format!("its service etcd has ended ({last}), as it does when a machine leaves etcd"),
            format!("it joins etcd again when it boots: {again}"),
            false,
        ),
        ("Finished", _) => {
            (format!("its service {id} has ended: {last}"), format!("start it again with {again}"), false)
        }
        (_, Some(circling)) if id == "etcd" => (
            format!("its service etcd restarts again and again: {circling}"),
            format!(
                "`talosctl -n {address} logs etcd` says why. While etcd has no quorum, wipe and delete nothing. If the other members have \
                 a quorum and `talosctl etcd members` on one of them does not list this machine, it was removed from etcd and joins \
                 only without its old data: `talosctl -n {address} reset --graceful=false --reboot --system-labels-to-wipe EPHEMERAL`"
            ),
            false,
        ),
        (_, Some(circling)) => (
            format!("its service {id} restarts again and again: {circling}"),
            format!("`talosctl -n {address} logs {id}` says why"),
            false,
        ),
        (_, None) => return None,
    };
    Some(Halted { subject: id.to_owned(), why, hint, at_once })
}

/// Kubernetes runs, and its endpoint does not lead there: what runs on a control plane node, and what does not answer.
#[must_use]
pub fn no_way_to(endpoint: &str, api_server: &str) -> Halted {
    Halted {
        subject: "endpoint".to_owned(),
        why: format!(
            "kube-apiserver runs on {api_server}, but {endpoint} does not answer; without the discovery service machines find each \
             other through that endpoint alone"
        ),
        hint:
            "check what answers for that address: the VIP, the load balancer, the DNS name, the route to it"
                .to_owned(),
        at_once: false,
    }
}

/// Why a machine has no time, in words. Until it has, Talos starts neither etcd nor kubelet nor trustd.
#[must_use]
pub fn no_time(servers: &[String]) -> String {
    let asked = match servers {
        [] => "`network.ntp` is empty, so Talos asks time.cloudflare.com".to_owned(),
        servers => format!("`network.ntp`: {}", servers.join(", ")),
    };
    format!("its clock is not set, because no time server answers ({asked})")
}

/// A machine that does not get the time.
#[must_use]
pub fn no_time_comes(servers: &[String]) -> Halted {
    Halted {
        subject: "time".to_owned(),
        why: no_time(servers),
        hint: "give the machine a time server that it reaches by NTP (UDP port 123) in `network.ntp`, or allow NTP to the one that it uses"
            .to_owned(),
        at_once: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f10_the_time_servers_that_do_not_answer_are_named() {
        assert!(no_time(&[]).contains("time.cloudflare.com"));
        assert!(
            no_time(&["10.0.0.1".to_owned(), "ntp.lan".to_owned()])
                .ends_with("(`network.ntp`: 10.0.0.1, ntp.lan)")
        );
    }

    fn service(id: &str, state: &str, events: &[&str]) -> Service {
        let events = events.iter().map(|event| (*event).to_owned()).collect();
        Service { id: id.to_owned(), state: state.to_owned(), healthy: None, events }
    }

    #[test]
    fn t5_a_service_that_talos_gave_up_is_final() {
        let pull = "Failed to run pre stage: 1 error(s) occurred:\n\tfailed to pull image";
        let found =
            halted("10.0.0.9", &[service("ext-a", "Failed", &[]), service("kubelet", "Failed", &[pull])])
                .unwrap();
        assert!(found.at_once);
        assert_eq!(
            found.why,
            "its service kubelet failed, and Talos does not try again: Failed to run pre stage: 1 error(s) occurred: failed to pull \
             image"
        );
        assert!(found.hint.ends_with("`talosctl -n 10.0.0.9 service kubelet restart`"));
    }

    #[test]
    fn t5_what_may_pass_is_given_time() {
        let left =
            halted("10.0.0.9", &[service("etcd", "Finished", &["Service finished successfully"])]).unwrap();
        assert!(!left.at_once && left.hint.contains("reboot"));
        let removed =
            ["Error running Containerd(etcd), going to restart forever: exit code 1", "Started task etcd"];
        let removed = halted("10.0.0.9", &[service("etcd", "Running", &removed)]).unwrap();
        assert!(!removed.at_once && removed.hint.contains("EPHEMERAL"), "{removed:?}");
    }

    #[test]
    fn t5_what_comes_up_is_waited_for() {
        let healthy =
            Service { healthy: Some(true), ..service("etcd", "Running", &["going to restart forever"]) };
        let going = [
            healthy,
            service("kubelet", "Preparing", &["Running pre state"]),
            service("trustd", "Waiting", &["Waiting for time sync"]),
        ];
        assert_eq!(halted("10.0.0.9", &going), None);
    }
}
