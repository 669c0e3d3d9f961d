//! Commands that print a secret: `cmd:` references of the file and of TALOSMITH_IDENTITY.
//!
//! Who may change the file may run such a command on the machine that plans it, a pull request's author in CI included. So
//! it does not get what is meant for us (the identity, the administrator's password, Proxmox tokens), and `--no-commands`
//! runs none at all.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
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
            return Err(Problem::new(
                exit,
                format!("could not get {what}: it comes from a command, and `--no-commands` is given"),
            )
            .hint(
                "pass it with `env:NAME` or `file:PATH`, or trust the file and leave `--no-commands` out",
            ));
        }
        let mut shell = Command::new("sh");
        withhold(&mut shell);
        let output = shell.arg("-c").arg(command).output().map_err(|e| {
            Problem::of(exit, &e).within(format!("could not run the command that should print {what}"))
        })?;
        if !output.status.success() {
            let text = format!("the command that should print {what} failed ({})", output.status);
            return Err(Problem::new(exit, text).hint(
                "run it in a shell to see why; it does not get variables named TALOSMITH_… or PROXMOX_…",
            ));
        }
        String::from_utf8(output.stdout).map(SecretString::from).map_err(|_| {
            Problem::new(exit, format!("the command that should print {what} did not print text"))
        })
    }
}

/// Takes from a command's environment what is meant for us.
pub fn withhold(command: &mut Command) {
    for name in withheld(std::env::vars_os()) {
        command.env_remove(name);
    }
}

/// The variables that a command does not get: by their names, by holding an API token whatever their name is, and by containing
/// the secret of one of those.
fn withheld(all: impl Iterator<Item = (OsString, OsString)>) -> Vec<OsString> {
    let all: Vec<(OsString, OsString)> = all.collect();
    let is_ours = |name: &OsStr| {
        let name = name.to_string_lossy().to_uppercase();
        OURS.iter().any(|prefix| name.starts_with(prefix))
    };
    let is_token =
        |value: &OsStr| value.to_str().is_some_and(|text| text.trim().parse::<pve::Token>().is_ok());
    let secrets: Vec<String> = all
        .iter()
        .filter(|(name, value)| is_ours(name) && is_secret(name) || is_token(value))
        .flat_map(|(_, value)| {
            let text = value.to_string_lossy().trim().to_owned();
            let half = text.rsplit('=').next().unwrap_or_default().to_owned();
            [text, half]
        })
        .filter(|secret| secret.len() >= SHORTEST)
        .flat_map(|secret| forms(&secret))
        .collect();
    let contains = |value: &OsStr| {
        let value = value.to_string_lossy();
        secrets.iter().any(|secret| value.contains(secret.as_str()))
    };
    let withheld = |(name, value): &(OsString, OsString)| is_ours(name) || is_token(value) || contains(value);
    all.into_iter().filter(withheld).map(|(name, _)| name).collect()
}

/// Shorter values are found in others by chance.
const SHORTEST: usize = 8;

/// Whether a variable of ours holds a secret, and not an address or a switch.
fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_uppercase();
    ["TOKEN", "PASSWORD", "SECRET", "IDENTITY", "KEY"].iter().any(|word| name.contains(word))
}

/// A secret as it is, and as it looks inside of base64 text, wherever in that it starts.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    for before in 0..3 {
        let bytes = [&[0; 2][..before], secret.as_bytes()].concat();
        for alphabet in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let text = alphabet.encode(&bytes);
            // The first and the last characters hold bits of what stands beside the secret.
            let from = (before * 8).div_ceil(6);
            let to = bytes.len() * 8 / 6;
            forms.extend(text.get(from..to).map(str::to_owned));
        }
    }
    forms
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
    fn a_command_gets_no_variable_that_contains_the_secret_of_a_token() {
        let secret = "3db95989-2fee-4214-9bc8-d3b71bb9ad9a";
        let token = format!("talosmith@pve!talosmith={secret}");
        let standard = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let all = [
            ("PROXMOX_VE_API_TOKEN", token.clone()),
            ("TALOSMITH_NO_COMMANDS", "0".to_owned()),
            ("PROXMOX_VE_ENDPOINT", "https://pve1:8006".to_owned()),
            ("SECRET_HALF", secret.to_owned()),
            ("HEADER", format!("Authorization: PVEAPIToken={token}")),
            ("BASE64", standard(&token)),
            ("BASE64_HALF", standard(secret)),
            ("BASE64_INSIDE", standard(&format!("user:{secret}:x"))),
            ("PATH", "/bin:/usr/bin".to_owned()),
            ("URL", "https://pve1:8006".to_owned()),
            ("COUNT", "0".to_owned()),
        ];
        let names = withheld(all.iter().map(|(name, value)| (name.into(), value.into())));
        assert_eq!(names, all[..8].iter().map(|(name, _)| OsString::from(name)).collect::<Vec<_>>());
    }

    #[test]
    fn a13_no_command_is_run_where_none_is_wanted() {
        let refused = Commands::Refused.printed("echo x", "the Proxmox token", Exit::Input).unwrap_err();
        assert!(refused.causes[0].contains("--no-commands"), "{refused:?}");
        assert!(Commands::Allowed.printed("echo x", "the Proxmox token", Exit::Input).is_ok());
    }
}
