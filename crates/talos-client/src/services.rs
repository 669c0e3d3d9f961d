//! The services of a machine, and what they and its kernel write down.

use talos::wire::machine as wire;

use crate::api::{QUESTION, WORK};
use crate::error::Result;
use crate::machine::Machine;
use crate::types::Service;

/// How much of a log is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// Everything that is kept.
    All,
    /// The newest so many.
    Last(u16),
}

impl Machine {
    /// The services.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn services(&self) -> Result<Vec<Service>> {
        let message =
            self.api.ask("listing the services", QUESTION, self.api.services().service_list(())).await?;
        Ok(message.services.into_iter().map(service).collect())
    }

    /// Starts a service. One that runs already stays as it is, and that is no failure.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Other`] for a service that is not there or cannot be started from outside: only `kubelet` and
    /// extensions (`ext-…`) can. etcd that failed needs a restart of the machine.
    pub async fn service_start(&self, id: &str) -> Result<()> {
        let request = wire::ServiceStartRequest { id: id.to_owned() };
        self.api.ask("starting a service", WORK, self.api.services().service_start(request)).await.map(drop)
    }

    /// Stops a service; only extensions can be. One that does not run stays as it is.
    ///
    /// # Errors
    ///
    /// As [`Machine::service_start`].
    pub async fn service_stop(&self, id: &str) -> Result<()> {
        let request = wire::ServiceStopRequest { id: id.to_owned() };
        self.api.ask("stopping a service", WORK, self.api.services().service_stop(request)).await.map(drop)
    }

    /// Restarts a service.
    ///
    /// # Errors
    ///
    /// As [`Machine::service_start`].
    pub async fn service_restart(&self, id: &str) -> Result<()> {
        let request = wire::ServiceRestartRequest { id: id.to_owned() };
        let attempt = "restarting a service";
        self.api.ask(attempt, WORK, self.api.services().service_restart(request)).await.map(drop)
    }

    /// What a service wrote, as it wrote it.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Other`] where no such log is kept.
    pub async fn logs(&self, service: &str, lines: Lines) -> Result<String> {
        let attempt = "reading a log";
        let request = wire::LogsRequest {
            namespace: "system".to_owned(),
            id: service.to_owned(),
            // Zero would mean nothing, and so does leaving it out.
            tail_lines: match lines {
                Lines::All => -1,
                Lines::Last(count) => i32::from(count),
            },
            ..Default::default()
        };
        let stream = self.api.limited(attempt, QUESTION, self.api.services().logs(request)).await?;
        let mut text = Vec::new();
        let take = |bytes: &[u8]| {
            text.extend_from_slice(bytes);
            true
        };
        self.api.bytes(attempt, stream.into_inner(), take).await?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// What the kernel and Talos wrote, line by line, from the boot on.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn dmesg(&self) -> Result<Vec<String>> {
        let attempt = "reading the kernel's log";
        let request = wire::DmesgRequest { follow: false, tail: false };
        let stream = self.api.limited(attempt, QUESTION, self.api.services().dmesg(request)).await?;
        let mut lines = Vec::new();
        let take = |bytes: &[u8]| {
            lines.push(String::from_utf8_lossy(bytes).trim_end().to_owned());
            true
        };
        self.api.bytes(attempt, stream.into_inner(), take).await?;
        Ok(lines)
    }
}

fn service(info: wire::ServiceInfo) -> Service {
    let health = info.health.unwrap_or_default();
    let events = info.events.unwrap_or_default().events;
    let message = match events.last() {
        _ if !health.last_message.is_empty() => health.last_message,
        Some(event) => event.msg.clone(),
        None => String::new(),
    };
    Service {
        id: info.id,
        state: info.state,
        healthy: (!health.unknown).then_some(health.healthy),
        message,
        events: events.into_iter().map(|event| event.msg).collect(),
    }
}
