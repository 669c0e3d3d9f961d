//! Building and asking the oracle: a small Go program over Talos' own library, one binary a minor release.
//!
//! Sources live in `conformance/oracle`; `conformance/peers` builds them into a cache folder outside of the repository, so that only
//! the first run waits for a download and a build.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, bail};
use serde_json::Value;

/// One release that there is an oracle for.
pub struct Release {
    /// The minor version.
    pub minor: u32,
    /// The version of the library.
    pub version: &'static str,
}

/// Every release that there is an oracle for, newest first.
pub const RELEASES: &[Release] = &[
    Release { minor: 14, version: "v1.14.1" },
    Release { minor: 13, version: "v1.13.9" },
    Release { minor: 12, version: "v1.12.6" },
    Release { minor: 11, version: "v1.11.6" },
    Release { minor: 10, version: "v1.10.6" },
];

/// Whether there is a Go toolchain.
pub fn has_go() -> bool {
    Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// A running oracle.
pub struct Oracle {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Builds the oracle of a release where it is not built yet, and starts it.
    pub fn start(release: &Release) -> anyhow::Result<Self> {
        let binary = peer(&format!("oracle-1.{}", release.minor))?;
        let mut child = Command::new(&binary).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let questions = child.stdin.take();
        let answers = child.stdout.take().context("the oracle has no output")?;
        Ok(Self { child, questions, answers: BufReader::new(answers) })
    }

    /// Asks one question: the inner result is Talos' own.
    pub fn ask(&mut self, question: &Value) -> anyhow::Result<Result<Value, String>> {
        let input = self.questions.as_mut().context("the oracle was closed")?;
        writeln!(input, "{question}").context("ask the oracle")?;
        let mut line = String::new();
        if self.answers.read_line(&mut line).context("hear the oracle")? == 0 {
            bail!("the oracle ended while it was asked");
        }
        let answer: Value = serde_json::from_str(&line).context("understand the oracle")?;
        Ok(match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer),
        })
    }

    /// Asks a question whose answer is a text.
    pub fn text(&mut self, question: &Value) -> anyhow::Result<Result<String, String>> {
        let answer = self.ask(question)?;
        Ok(answer.map(|answer| answer.get("config").and_then(Value::as_str).unwrap_or_default().to_owned()))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        drop(self.questions.take());
        // It ends when its input does; what it ends with says nothing more.
        let _ = self.child.wait();
    }
}

/// The folder of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Builds a real program where it is not built yet, and says where it lies. There is Go, so whatever cannot be had is an error.
pub fn peer(name: &str) -> anyhow::Result<PathBuf> {
    let output = Command::new(repository().join("conformance/peers"))
        .arg(name)
        .stderr(Stdio::inherit())
        .output()
        .context("run conformance/peers")?;
    if !output.status.success() {
        bail!("{name} cannot be had");
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
