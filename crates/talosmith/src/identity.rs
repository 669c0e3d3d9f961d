//! The age identity that opens bundles: where it is, and how it is read.
//!
//! TALOSMITH_IDENTITY is a file, `cmd:` and a command that prints it, or the identity itself. Without it, a file in the user's
//! configuration folder is used and made at first use.

use std::io;
use std::path::{Path, PathBuf};

use engine::secrets::{self, Identity};
use secrecy::{ExposeSecret, SecretString};

use crate::exit::Exit;
use crate::secret_command::Commands;
use crate::view::{Printer, Problem};

/// Where an identity is.
#[derive(Clone)]
pub enum IdentityPlace {
    /// A file of ours, made at first use.
    Ours(PathBuf),
    /// A file that the operator named.
    Named(PathBuf),
    /// What a command prints.
    Command(String, Commands),
    /// It was handed over itself.
    Itself(SecretString),
    /// No home, no name.
    Nowhere,
}

impl std::fmt::Debug for IdentityPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ours(_) => "Ours",
            Self::Named(_) => "Named",
            Self::Command(..) => "Command",
            Self::Itself(_) => "Itself",
            Self::Nowhere => "Nowhere",
        })
    }
}

impl IdentityPlace {
    /// What the environment says.
    pub fn from_environment(commands: Commands) -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
        match set("TALOSMITH_IDENTITY") {
            Some(text) => Self::of(&text.to_string_lossy(), commands),
            None => Self::default_file(),
        }
    }

    /// The file of ours in the user's configuration folder.
    pub fn default_file() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
        set("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".config")))
            .map_or(Self::Nowhere, |folder| Self::Ours(folder.join("talosmith").join("identity.txt")))
    }

    fn of(text: &str, commands: Commands) -> Self {
        let trimmed = text.trim();
        if trimmed.starts_with("AGE-SECRET-KEY-1") {
            return Self::Itself(SecretString::from(trimmed));
        }
        match (trimmed.strip_prefix("cmd:"), trimmed.strip_prefix("file:")) {
            (Some(command), _) => Self::Command(command.trim().to_owned(), commands),
            (_, Some(path)) => Self::Named(PathBuf::from(path.trim())),
            _ => Self::Named(PathBuf::from(text)),
        }
    }

    /// The identity, if there is one.
    pub fn read(&self) -> Result<Option<Identity>, Problem> {
        let text = match self {
            Self::Ours(path) | Self::Named(path) => match std::fs::read_to_string(path) {
                Ok(text) => SecretString::from(text),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => {
                    return Err(Problem::of(Exit::Secrets, &error)
                        .within(format!("could not read the identity {}", path.display())));
                }
            },
            Self::Command(command, commands) => {
                commands.printed(command, "the identity that TALOSMITH_IDENTITY names", Exit::Secrets)?
            }
            Self::Itself(text) => text.clone(),
            Self::Nowhere => return Ok(None),
        };
        let from = match self {
            Self::Ours(path) | Self::Named(path) => path.display().to_string(),
            Self::Command(..) => "what the command in TALOSMITH_IDENTITY printed".to_owned(),
            Self::Itself(_) | Self::Nowhere => "TALOSMITH_IDENTITY".to_owned(),
        };
        Identity::parse(text.expose_secret())
            .map(Some)
            .map_err(|e| Problem::from(&e).within(format!("could not use {from}")))
    }

    /// The identity, which is made if it may be made and there is none.
    pub fn read_or_make(&self, printer: &Printer, loud: bool) -> Result<Identity, Problem> {
        match (self.read()?, self) {
            (Some(identity), _) => Ok(identity),
            (None, Self::Ours(path)) => make(path, printer, loud),
            (None, Self::Named(path)) => Err(Problem::new(
                Exit::Secrets,
                format!("TALOSMITH_IDENTITY names {}, which does not exist", path.display()),
            )
            .hint("create one with `age-keygen -o FILE`, or unset the variable, and Talosmith creates one")),
            (None, _) => Err(Problem::new(Exit::Secrets, "there is no home folder to keep an identity in")
                .hint("set HOME, or name a file with TALOSMITH_IDENTITY")),
        }
    }

    /// What to do when there is none and one is needed.
    pub fn hint(&self) -> String {
        match self {
            Self::Ours(path) => format!(
                "restore {} from your backup, or name another file with TALOSMITH_IDENTITY. If it is lost for good, `talosmith explain lost-bundle` \
                 says what is left to do",
                path.display()
            ),
            Self::Named(path) => format!(
                "TALOSMITH_IDENTITY names {}, which does not exist. If it is lost for good, `talosmith explain lost-bundle` says what is left \
                 to do",
                path.display()
            ),
            _ => "name the file that holds it with TALOSMITH_IDENTITY".to_owned(),
        }
    }
}

fn make(path: &Path, printer: &Printer, loud: bool) -> Result<Identity, Problem> {
    let (identity, is_new) =
        secrets::create_identity(path, &mut |_| Ok(())).map_err(|e| Problem::from(&e))?;
    if loud && is_new {
        printer.note(&format!(
            "Created a new identity: {}. Back it up: without it, the secrets of your clusters cannot be decrypted.",
            path.display()
        ));
    }
    Ok(identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> IdentityPlace {
        IdentityPlace::of(text, Commands::Allowed)
    }

    #[test]
    fn a13_an_identity_from_a_command_is_refused_with_no_commands() {
        let refused = IdentityPlace::of("cmd:echo x", Commands::Refused).read().unwrap_err();
        assert!(refused.causes[0].contains("--no-commands"), "{refused:?}");
    }

    #[test]
    fn the_variable_is_a_file_a_command_or_the_identity_itself() {
        let text = Identity::generate().to_text();
        let key = text.expose_secret().lines().nth(1).unwrap();
        let IdentityPlace::Itself(_) = of(key) else { panic!("itself") };
        assert!(!format!("{:?}", of(key)).contains("SECRET"));
        let IdentityPlace::Named(path) = of("a b/c") else { panic!("named") };
        assert_eq!(path, Path::new("a b/c"));
        let wanted = of(key).read().unwrap().unwrap().recipients();
        let printed = of(&format!("cmd: echo '# x'; echo {key}")).read().unwrap().unwrap();
        assert_eq!(printed.recipients(), wanted);
        let failed = of("cmd:exit 3").read().unwrap_err();
        assert!(failed.causes[0].contains("failed"), "{failed:?}");
        assert!(of("cmd:echo nothing").read().is_err());
    }
}
