//! Building and asking the oracle: a small Go program over Talos' own library, one binary a minor release.
//!
//! Sources live in `conformance/oracle`; the modules and binaries in a cache folder outside of the repository, so that only the
//! first run waits for a download and a build.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, bail};
use serde_json::Value;

/// One release that the oracle is built for, with what its module needs to build from a registry.
pub struct Release {
    /// The minor version.
    pub minor: u32,
    /// The version of the library.
    pub version: &'static str,
    replace: &'static [&'static str],
}

/// Every release that there is an oracle for, newest first.
pub const RELEASES: &[Release] = &[
    Release {
        minor: 14,
        version: "v1.14.1",
        replace: &[
            "github.com/cosi-project/runtime => github.com/cosi-project/runtime v1.16.2",
            "github.com/jsimonetti/rtnetlink/v2 => github.com/jsimonetti/rtnetlink/v2 v2.2.0",
        ],
    },
    Release { minor: 13, version: "v1.13.9", replace: &[] },
    Release { minor: 12, version: "v1.12.6", replace: &[] },
    Release { minor: 11, version: "v1.11.6", replace: &[] },
    Release { minor: 10, version: "v1.10.6", replace: &[] },
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
        let binary =
            build(release).with_context(|| format!("build the oracle for Talos {}", release.version))?;
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

fn cache() -> anyhow::Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    Ok(base.join("talosmith-conformance"))
}

fn build(release: &Release) -> anyhow::Result<PathBuf> {
    let folder = cache()?.join(release.version);
    std::fs::create_dir_all(&folder)?;
    let mut module = format!(
        "module oracle\n\ngo 1.26\n\nrequire github.com/siderolabs/talos/pkg/machinery {}\n",
        release.version
    );
    for line in release.replace {
        module += &format!("\nreplace {line}\n");
    }
    // The build adds what the library needs to go.mod, so what we wrote is remembered beside it.
    if write_if_changed(&folder.join("go.mod.wanted"), &module)? {
        std::fs::write(folder.join("go.mod"), &module)?;
    }
    for entry in std::fs::read_dir(repository().join("conformance/oracle"))? {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|it| it == "go")) {
            write_if_changed(&folder.join(name), &std::fs::read_to_string(&path)?)?;
        }
    }
    let binary = folder.join("oracle");
    let output = Command::new("go")
        .args(["build", "-mod=mod", "-trimpath", "-o"])
        .arg(&binary)
        .arg(".")
        .env("CGO_ENABLED", "0")
        .current_dir(&folder)
        .output()
        .context("run go build")?;
    if !output.status.success() {
        bail!("go build failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(binary)
}

fn write_if_changed(path: &Path, text: &str) -> anyhow::Result<bool> {
    let same = std::fs::read_to_string(path).is_ok_and(|old| old == text);
    if !same {
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(!same)
}
