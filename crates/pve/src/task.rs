//! Tasks: most changes in Proxmox answer with a task id at once and happen afterwards.

use std::time::Duration;

use serde::Deserialize;

use crate::client::{Call, Client};
use crate::error::{Error, Kind, Result};
use crate::percent::encode;
use crate::scalar;
use crate::upid::Upid;

const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// How many log lines one answer brings at most.
const PAGE: usize = 500;
const TAIL: usize = 12;
/// For how long in all a node may be out of reach while one of its tasks is followed.
const UNHEARD: Duration = Duration::from_secs(60);

/// For how long a task of a kind may write nothing into its log before it is given up. Proxmox ends what concerns the power of a
/// VM by itself; a copy writes as it goes on, but a slow storage may take long for one piece; wget writes a line for
/// each 32 MiB.
fn timeout(kind: &str) -> Duration {
    let minutes = match kind {
        "qmstart" | "qmstop" | "qmshutdown" | "qmreboot" | "resize" | "qmconfig" => 15,
        "download" => 60,
        _ => 30,
    };
    Duration::from_secs(minutes * 60)
}

/// What a task is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStatus {
    /// Whether it is still at work.
    pub running: bool,
    /// Its last word, once it is done.
    pub exit: Option<String>,
}

/// A line of a task's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Its number, from 1.
    pub number: u64,
    pub text: String,
}

/// A task that ended well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Finished {
    /// What it warned about.
    pub warnings: Vec<String>,
}

#[derive(Deserialize)]
struct WireStatus {
    #[serde(default, deserialize_with = "scalar::text")]
    status: Option<String>,
    #[serde(default, deserialize_with = "scalar::text")]
    exitstatus: Option<String>,
}

#[derive(Deserialize)]
struct WireLine {
    #[serde(default, deserialize_with = "scalar::number")]
    n: Option<u64>,
    #[serde(default, deserialize_with = "scalar::text")]
    t: Option<String>,
}

#[derive(Deserialize)]
struct WireTask {
    upid: String,
    /// Absent as long as it is at work, whatever its status says.
    #[serde(default, deserialize_with = "scalar::number")]
    endtime: Option<u64>,
    #[serde(default, deserialize_with = "scalar::text")]
    status: Option<String>,
}

impl Client {
    /// The tasks of a node that started at `since` (seconds of Unix time) or later, newest first, each with its last word once
    /// it is done.
    pub async fn tasks(&self, node: &str, since: i64) -> Result<Vec<(Upid, Option<String>)>> {
        let path = format!("/nodes/{}/tasks", encode(node));
        let call = Call::get(format!("listing the tasks of {node}"), path);
        let call = call.with("since", since).with("source", "all").with("limit", PAGE);
        let wire: Vec<WireTask> = self.call(call).await?;
        // An id that cannot be read names no task that could be asked about.
        let end = |task: WireTask| task.endtime.and(task.status);
        Ok(wire.into_iter().filter_map(|task| Some((task.upid.parse().ok()?, end(task)))).collect())
    }

    /// What a task is doing.
    ///
    /// # Errors
    ///
    /// [`Kind::Missing`] when the node does not know the task (any more).
    pub async fn task_status(&self, upid: &Upid) -> Result<TaskStatus> {
        let path = format!("/nodes/{}/tasks/{}/status", encode(&upid.node), encode(upid.as_str()));
        let wire: WireStatus = self.call(Call::get(about(upid), path)).await?;
        Ok(TaskStatus { running: wire.status.as_deref() == Some("running"), exit: wire.exitstatus })
    }

    /// The lines of a task's log from number `start` (counted from 0), 500 at most.
    ///
    /// # Errors
    ///
    /// Never for an unknown task: Proxmox then answers with a line that says so.
    pub async fn task_log(&self, upid: &Upid, start: u64) -> Result<Vec<LogLine>> {
        let path = format!("/nodes/{}/tasks/{}/log", encode(&upid.node), encode(upid.as_str()));
        let call = Call::get(about(upid), path).with("start", start).with("limit", PAGE);
        let wire: Vec<WireLine> = self.call(call).await?;
        let lines =
            wire.into_iter().map(|l| LogLine { number: l.n.unwrap_or(0), text: l.t.unwrap_or_default() });
        // This is how Proxmox shows a log that has no line yet.
        Ok(lines.filter(|l| !(l.number == 1 && l.text == "no content")).collect())
    }

    /// Waits for a task's end, handing each line of its log to `on_progress` as it comes.
    ///
    /// # Errors
    ///
    /// [`Kind::TaskFailed`] when the task ended with anything but `OK` or warnings; [`Kind::TaskStuck`] when it wrote nothing for
    /// too long; otherwise why its status could not be read. In the last two cases it may still be at work.
    pub async fn follow(&self, upid: &Upid, mut on_progress: impl FnMut(&str)) -> Result<Finished> {
        let mut seen = Log::default();
        let mut wait = FIRST_WAIT;
        // Counted in waits: hours in which a laptop slept say nothing about the task.
        let (mut quiet, mut unheard) = (Duration::ZERO, Duration::ZERO);
        loop {
            let lines = seen.lines;
            let look = async {
                let status = self.task_status(upid).await?;
                if status.running {
                    seen.read_on(self, upid, &mut on_progress).await?;
                }
                Ok::<_, Error>(status)
            };
            let status = match look.await {
                Ok(status) => status,
                // The task does not end because it cannot be asked about.
                Err(error) if error.is_transient() && unheard < UNHEARD => {
                    unheard += wait;
                    self.clock().sleep(wait).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if !status.running {
                let exit = status.exit.unwrap_or_else(|| "unexpected status".to_owned());
                if exit == "OK" {
                    return Ok(Finished::default());
                }
                // The end is known; a log that cannot be read must not hide it.
                let _ = seen.read_on(self, upid, &mut on_progress).await;
                if exit.starts_with("WARNINGS") {
                    // Where the log does not say which, that there was one is still worth telling.
                    let warnings = if seen.warnings.is_empty() { vec![exit] } else { seen.warnings };
                    return Ok(Finished { warnings });
                }
                let meaning = Box::new(Kind::of_words(0, &exit));
                self.notice(Some(&upid.node), &meaning);
                let kind = Kind::TaskFailed { upid: Box::new(upid.clone()), exit, tail: seen.tail, meaning };
                return Err(Error::new(about(upid), kind));
            }
            if seen.lines > lines {
                quiet = Duration::ZERO;
            }
            if quiet > timeout(&upid.kind) {
                let kind = Kind::TaskStuck { upid: Box::new(upid.clone()), minutes: quiet.as_secs() / 60 };
                return Err(Error::new(about(upid), kind));
            }
            self.clock().sleep(wait).await;
            quiet += wait;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }
}

/// What has been read of a log so far.
#[derive(Default)]
struct Log {
    lines: u64,
    tail: Vec<String>,
    warnings: Vec<String>,
}

impl Log {
    async fn read_on(
        &mut self,
        client: &Client,
        upid: &Upid,
        on_progress: &mut impl FnMut(&str),
    ) -> Result<()> {
        loop {
            let page = client.task_log(upid, self.lines).await?;
            for line in page.iter().filter(|l| l.number > self.lines).map(|l| l.text.as_str()) {
                on_progress(line);
                if let Some(warning) = line.strip_prefix("WARN: ") {
                    self.warnings.push(warning.to_owned());
                }
                self.tail.push(line.to_owned());
            }
            self.tail.drain(..self.tail.len().saturating_sub(TAIL));
            self.lines = page.last().map_or(self.lines, |l| l.number.max(self.lines));
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }
}

fn about(upid: &Upid) -> String {
    let what = match upid.kind.as_str() {
        "qmcreate" => "creating VM",
        "qmstart" => "starting VM",
        "qmstop" => "stopping VM",
        "qmshutdown" => "shutting down VM",
        "qmdestroy" => "destroying VM",
        "resize" => "resizing a disk of VM",
        "download" => "downloading",
        other => return format!("task {other} {} on {}", upid.id, upid.node),
    };
    format!("{what} {} on {}", upid.id, upid.node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_ids_of_users_tokens_and_uploads() {
        let upid: Upid = "UPID:pve1:0000013C:0005D8F3:6AFA15BC:qmcreate:200:root@pam!lab:".parse().unwrap();
        assert_eq!((upid.node.as_str(), upid.kind.as_str(), upid.id.as_str()), ("pve1", "qmcreate", "200"));
        assert_eq!(upid.user, "root@pam!lab");
        assert_eq!(about(&upid), "creating VM 200 on pve1");
        assert!(
            "UPID:pve1:0000013C:0005D8F3:6AFA15BC:imgcopy::lab@pve!full:"
                .parse::<Upid>()
                .unwrap()
                .id
                .is_empty()
        );
        for bad in ["", "UPID:pve1", "UPID:pve1:x:0005D8F3:6AFA15BC:qmcreate:200:root@pam:"] {
            assert!(bad.parse::<Upid>().is_err(), "{bad}");
        }
    }
}
