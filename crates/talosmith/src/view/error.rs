//! An error with its causes, each said once, and what to do about it.

use std::io::{self, Write};

use engine::error::Kind;
use serde::Serialize;

use super::ink::{Ink, clean};
use crate::exit::Exit;

/// Why the program ends without having done what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How the program ends.
    pub exit: Exit,
    /// What was attempted and what went wrong, outermost first. Never empty.
    pub causes: Vec<String>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Problem {
    /// An attempt that failed by itself.
    pub fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, causes: vec![what.into()], hint: None }
    }

    /// Any error with all its causes.
    #[must_use]
    pub fn of(exit: Exit, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut problem = Self::new(exit, error.to_string());
        let mut source = error.source();
        while let Some(cause) = source {
            problem.causes.push(cause.to_string());
            source = cause.source();
        }
        problem
    }

    /// The same for the engine, which hands it back as it is.
    #[must_use]
    pub fn into_error(self) -> engine::Error {
        let kind = match self.exit {
            Exit::Secrets => Kind::Secrets,
            Exit::Input => Kind::Input,
            Exit::Refused => Kind::Refused,
            Exit::Busy => Kind::Busy,
            _ => Kind::Systems,
        };
        let mut causes = self.causes.into_iter();
        let error = engine::Error::new(kind, causes.next().unwrap_or_default());
        let below = causes.rev().fold(None, |below, text| Some(Box::new(Cause { text, below })));
        let error = match below {
            Some(cause) => error.because(*cause),
            None => error,
        };
        match self.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }

    /// Puts what was attempted before the causes.
    #[must_use]
    pub fn within(mut self, attempt: impl Into<String>) -> Self {
        self.causes.insert(0, attempt.into());
        self
    }

    /// Says what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// One of several causes, as the engine keeps them.
#[derive(Debug)]
struct Cause {
    text: String,
    below: Option<Box<Cause>>,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.below.as_deref().map(|below| below as _)
    }
}

impl From<&engine::Error> for Problem {
    fn from(error: &engine::Error) -> Self {
        // Proxmox rejected the token that the file refers to: running the same command again does not help.
        let exit = if error.code() == "unauthenticated" { Exit::Input } else { error.kind().into() };
        Self { exit, causes: error.causes(), hint: error.advice().map(str::to_owned) }
    }
}

/// For people.
///
/// # Errors
/// When writing fails.
pub fn human(w: &mut dyn Write, ink: Ink, problem: &Problem) -> io::Result<()> {
    causes(w, ink, &ink.red("error:"), "", &problem.causes, problem.hint.as_deref())
}

/// Causes below each other and the hint, as errors and failed steps both show them.
pub(super) fn causes(
    w: &mut dyn Write,
    ink: Ink,
    title: &str,
    indent: &str,
    causes: &[String],
    hint: Option<&str>,
) -> io::Result<()> {
    for (at, cause) in once(causes).into_iter().enumerate() {
        if at == 0 {
            writeln!(w, "{indent}{title} {cause}")?;
        } else {
            writeln!(w, "{indent}  {} {cause}", ink.bold("because:"))?;
        }
    }
    if let Some(hint) = hint.map(clean).filter(|hint| !hint.is_empty()) {
        writeln!(w, "{indent}  {} {hint}", ink.bold("hint:"))?;
    }
    Ok(())
}

/// The causes without those that the one before already told.
fn once(causes: &[String]) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for cause in causes {
        let cause = clean(cause).into_owned();
        if !cause.is_empty() && said.last().is_none_or(|last| !last.contains(&cause)) {
            said.push(cause);
        }
    }
    said
}

/// For programs.
#[must_use]
pub fn json(problem: &Problem) -> impl Serialize + use<> {
    #[derive(Serialize)]
    struct Document {
        error: String,
        causes: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
        exit: u8,
        meaning: &'static str,
    }
    let mut causes = once(&problem.causes).into_iter();
    Document {
        error: causes.next().unwrap_or_default(),
        causes: causes.collect(),
        hint: problem.hint.clone(),
        exit: problem.exit.code(),
        meaning: problem.exit.meaning(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem() -> Problem {
        Problem {
            exit: Exit::Systems,
            causes: vec![
                "could not create home-work-1, VM 150021 on pve1".into(),
                "the task failed: storage 'nostore' does not exist".into(),
                "storage 'nostore' does not exist".into(),
            ],
            hint: Some("name a datastore that pve1 has\nand that holds disks".into()),
        }
    }

    #[test]
    fn each_cause_is_said_once() {
        let mut text = Vec::new();
        human(&mut text, Ink::PLAIN, &problem()).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @"
        error: could not create home-work-1, VM 150021 on pve1
          because: the task failed: storage 'nostore' does not exist
          hint: name a datastore that pve1 has and that holds disks
        ");
    }

    #[test]
    fn programs_get_the_same() {
        insta::assert_snapshot!(serde_json::to_string(&json(&problem())).unwrap(), @r#"{"error":"could not create home-work-1, VM 150021 on pve1","causes":["the task failed: storage 'nostore' does not exist"],"hint":"name a datastore that pve1 has\nand that holds disks","exit":5,"meaning":"a step failed or something did not answer; run the same command again to continue"}"#);
    }

    #[test]
    fn any_error_brings_its_causes() {
        let outer = io::Error::other(io::Error::other("inner"));
        let problem = Problem::of(Exit::Internal, &outer);
        assert_eq!(problem.causes[0], "inner");
    }
}
