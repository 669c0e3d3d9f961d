//! References to secrets: a file says where a secret is, never what it is.

use std::str::FromStr;

use thiserror::Error;

/// Where the Proxmox token is looked for when the file does not say.
pub const DEFAULT_TOKEN: &str = "env:PROXMOX_VE_API_TOKEN";

/// Where a secret is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// In an environment variable.
    Env(String),
    File(String),
    /// In what a command prints.
    Cmd(String),
}

/// The text is no reference. It does not say what the text was, because it may be the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a secret is referred to by env:NAME, file:PATH or cmd:COMMAND")]
pub struct ReferenceError;

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = text.split_once(':').ok_or(ReferenceError)?;
        let rest = rest.trim();
        if rest.is_empty() {
            return Err(ReferenceError);
        }
        match scheme {
            "env" => {
                let name = rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                name.then(|| Self::Env(rest.to_owned())).ok_or(ReferenceError)
            }
            "file" => Ok(Self::File(rest.to_owned())),
            "cmd" => Ok(Self::Cmd(rest.to_owned())),
            _ => Err(ReferenceError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_told_from_secrets() {
        assert_eq!("env:TOKEN".parse(), Ok(Reference::Env("TOKEN".into())));
        assert_eq!("file:~/t".parse(), Ok(Reference::File("~/t".into())));
        assert_eq!("cmd:pass show pve".parse(), Ok(Reference::Cmd("pass show pve".into())));
        for wrong in ["root@pam!x=1234", "env:", "env:A B", "vault:x", ""] {
            assert_eq!(wrong.parse::<Reference>(), Err(ReferenceError), "{wrong}");
        }
        assert!(DEFAULT_TOKEN.parse::<Reference>().is_ok());
    }
}
