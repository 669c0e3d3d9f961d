//! Commands that print a secret: `cmd:` references of the file and of TALOSMITH_IDENTITY.
//!
//! Who may change the file may run such a command on the machine that plans it, a pull request's author in CI included. So
//! it does not get what is meant for us (the identity, the administrator's password, Proxmox tokens), and `--no-commands`
//! runs none at all.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use secrecy::SecretString;

use crate::exit::Exit;
use crate::view::Problem;

/// Whether commands may be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commands {
    /// They may.
    Allowed,
    /// `--no-commands` was given.
    Refused,
}

/// Names of variables that are meant for us, or for tools that log in to the same Proxmox.
const OURS: &[&str] = &["TALOSMITH_", "PROXMOX_", "PM_API_"];

impl Commands {
    /// Runs a command in a shell and gives what it printed. `what` names the secret, for messages.
    pub fn printed(self, command: &str, what: &str, exit: Exit) -> Result<SecretString, Problem> {
        if self == Self::Refused {
            return Err(Problem::new(exit, format!("could not get {what}: it comes from a command, and `--no-commands` is given"))
                .remedy("hand it over with `env:NAME` or `file:PATH`, or trust the file and leave `--no-commands` out"));
        }
        let mut shell = Command::new("sh");
        for name in withheld(std::env::vars_os()) {
            shell.env_remove(name);
        }
        let output = shell.arg("-c").arg(command).output().map_err(|e| {
            Problem::of(exit, &e).within(format!("could not run the command that should print {what}"))
        })?;
        if !output.status.success() {
            let text = format!("the command that should print {what} failed ({})", output.status);
            return Err(Problem::new(exit, text).remedy(
                "run it by hand to see why; it does not get variables named TALOSMITH_… or PROXMOX_…",
            ));
        }
        String::from_utf8(output.stdout).map(SecretString::from).map_err(|_| {
            Problem::new(
                exit,
                format!("the command that should print {what} printed something else than text"),
            )
        })
    }
}

/// The variables that a command does not get: by their names, and by holding an API token whatever their name is.
fn withheld(all: impl Iterator<Item = (OsString, OsString)>) -> Vec<OsString> {
    let is_ours = |name: &OsStr| {
        let name = name.to_string_lossy().to_uppercase();
        OURS.iter().any(|prefix| name.starts_with(prefix))
    };
    let is_token = |value: &OsStr| value.to_str().is_some_and(|text| text.parse::<pve::Token>().is_ok());
    all.filter(|(name, value)| is_ours(name) || is_token(value)).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a13_a_command_does_not_get_what_is_meant_for_us() {
        let all = [
            ("TALOSMITH_IDENTITY", "AGE-SECRET-KEY-1X"),
            ("TALOSMITH_ADMIN_PASSWORD", "hunter2"),
            ("PROXMOX_VE_API_TOKEN", "a@pve!b=c"),
            ("PROXMOX_VE_PASSWORD", "x"),
            ("CI_TOKEN", "talosmith@pve!talosmith=3db95989-2fee-4214-9bc8-d3b71bb9ad9a"),
            ("PATH", "/bin"),
            ("VAULT_TOKEN", "s.123"),
            ("HOME", "/root"),
        ];
        let names = withheld(all.iter().map(|(name, value)| (name.into(), value.into())));
        assert_eq!(names, all[..5].iter().map(|(name, _)| OsString::from(name)).collect::<Vec<_>>());
    }

    #[test]
    fn a13_no_command_is_run_where_none_is_wanted() {
        let refused = Commands::Refused.printed("echo x", "the Proxmox token", Exit::Input).unwrap_err();
        assert!(refused.causes[0].contains("--no-commands"), "{refused:?}");
        assert!(Commands::Allowed.printed("echo x", "the Proxmox token", Exit::Input).is_ok());
    }
}
