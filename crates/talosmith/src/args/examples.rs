//! Examples at the end of help texts. A test proves that each is a command line that would be taken.

/// An example that only a build with the lab takes.
#[cfg(feature = "lab")]
macro_rules! with_lab {
    ($text:literal) => {
        $text
    };
}
#[cfg(not(feature = "lab"))]
macro_rules! with_lab {
    ($text:literal) => {
        ""
    };
}

pub const INIT: &str = "Examples:
  talosmith init --cidr 10.25.150.0/24
  talosmith init --endpoint https://pve1:8006 --token file:token.txt
  talosmith init -f lab.yaml --control-planes 1 --workers 0";

pub const VALIDATE: &str = "Examples:
  talosmith validate
  talosmith validate cluster.yaml more.yaml";

pub const SHOW: &str = "Examples:
  talosmith show
  talosmith show --json";

pub const SCHEMA: &str = "Examples:
  talosmith schema > cluster.schema.json";

pub const DOCTOR: &str = "Examples:
  talosmith doctor
  talosmith doctor --json";

pub const IMPORT: &str = "Examples:
  talosmith import path/to/tofu
  talosmith import path/to/tofu -o cluster.yaml";

pub const PLAN: &str = "Examples:
  talosmith plan
  talosmith plan --markdown
  talosmith plan -o today.plan
  talosmith plan today.plan
  talosmith plan --target home-work-1
  talosmith plan --detailed-exitcode --json";

pub const APPLY: &str = concat!(
    "Examples:
  talosmith apply
",
    with_lab!("  talosmith apply --lab --yes\n"),
    "  talosmith apply today.plan
  talosmith apply --yes --kubeconfig kubeconfig
  talosmith apply --yes --timeout 30m
  talosmith apply --target home-work-1
  talosmith apply --allow-destroy home-work-2/scsi1
  talosmith apply --allow-destroy-removed
  talosmith apply --allow-api-outage

Ctrl-C finishes what is being changed and stops; a second one stops at once. `talosmith apply` continues from there."
);

pub const STATUS: &str = "Examples:
  talosmith status
  talosmith status --watch --every 10";

pub const HEALTH: &str = "Examples:
  talosmith health
  talosmith health --timeout 10m";

pub const DESTROY: &str =
    concat!("Examples:\n  talosmith destroy", with_lab!("\n  talosmith destroy --lab --yes"));

pub const KUBECONFIG: &str = "Examples:
  talosmith kubeconfig -o kubeconfig --ttl 30d
  talosmith kubeconfig -o ~/.kube/config --merge";

pub const TALOSCONFIG: &str = "Examples:
  talosmith talosconfig -o talosconfig
  talosmith talosconfig --role reader --ttl 90m";

pub const RENDER: &str = "Examples:
  talosmith render -o rendered
  talosmith render -o rendered --node home-work-1 --redact";

pub const EXPLAIN: &str = "Examples:
  talosmith explain
  talosmith explain TS0101
  talosmith explain lost-mark";

pub const COMPLETIONS: &str = "Examples:
  talosmith completions bash > ~/.local/share/bash-completion/completions/talosmith
  talosmith completions zsh > ~/.zfunc/_talosmith
  talosmith completions fish > ~/.config/fish/completions/talosmith.fish";

pub const MAN: &str = "Examples:
  talosmith man > talosmith.1
  talosmith man -o ~/.local/share/man/man1";

pub const NODE: &str = "Examples:
  talosmith node console home-control-1
  talosmith node reboot home-work-1
  talosmith node logs home-control-1 --service etcd";

pub const REBOOT: &str = "Examples:
  talosmith node reboot home-work-1 home-work-2
  talosmith node reboot home-control-1 --allow-api-outage
  talosmith node reboot home-work-1 --now --yes";

pub const SHUTDOWN: &str = "Examples:
  talosmith node shutdown home-work-1
  talosmith node shutdown home-work-1 --yes";

pub const REPLACE: &str = "Examples:
  talosmith node replace home-work-1
  talosmith node replace home-work-1 --force
  talosmith node replace home-work-1 --allow-destroy home-work-1/scsi1";

pub const HOST: &str = "Examples:
  talosmith host drain pve2
  talosmith host undrain pve2";

pub const HOST_DRAIN: &str = "Examples:
  talosmith host drain pve2
  talosmith host drain pve2 --now --yes";

pub const HOST_UNDRAIN: &str = "Examples:
  talosmith host undrain pve2";

pub const DRAIN: &str = "Examples:
  talosmith node drain home-work-1
  talosmith node drain home-work-1 --timeout 10m";

pub const CORDON: &str = "Examples:
  talosmith node cordon home-work-1 home-work-2";

pub const UNCORDON: &str = "Examples:
  talosmith node uncordon home-work-1";

pub const LOGS: &str = "Examples:
  talosmith node logs home-control-1 --service etcd
  talosmith node logs home-work-1 home-work-2 --service kubelet --lines 50";

pub const DMESG: &str = "Examples:
  talosmith node dmesg home-work-1";

pub const CONSOLE: &str = "Examples:
  talosmith node console home-control-1
  talosmith node console home-control-1 --write
  talosmith node console home-work-1 --timeout 5m

Ctrl-] ends it.";

pub const SETUP: &str = "Examples:
  talosmith proxmox setup -o token.txt
  talosmith proxmox setup --admin eva@pve --yes
  talosmith proxmox setup --admin-token env:ADMIN_TOKEN --renew";

pub const SECRETS: &str = "Examples:
  talosmith secrets import secrets.yaml
  talosmith secrets export -o secrets.yaml
  talosmith secrets recipients --add age1qqqq";

pub const BACKUP: &str = "Examples:
  talosmith backup create
  talosmith backup list
  talosmith backup verify --all
  talosmith backup prune";

pub const BACKUP_CREATE: &str = "Examples:
  talosmith backup create
  talosmith backup create --json";

pub const BACKUP_LIST: &str = "Examples:
  talosmith backup list
  talosmith backup list --json";

pub const BACKUP_GET: &str = "Examples:
  talosmith backup get -o etcd.snapshot
  talosmith backup get 2026-11-18T03:00:00Z -o etcd.snapshot";

pub const BACKUP_VERIFY: &str = "Examples:
  talosmith backup verify
  talosmith backup verify 2026-11-18T03:00:00Z
  talosmith backup verify --all";

pub const BACKUP_PRUNE: &str = "Examples:
  talosmith backup prune
  talosmith backup prune --yes --json";

pub const SECRETS_NEW: &str = "Examples:
  talosmith secrets new
  talosmith secrets new --recipient age1qqqq";

pub const SECRETS_IMPORT: &str = "Examples:
  talosmith secrets import secrets.yaml
  talosmith secrets import terraform.tfstate";

pub const SECRETS_EXPORT: &str = "Examples:
  talosmith secrets export -o secrets.yaml";

pub const SECRETS_RECIPIENTS: &str = "Examples:
  talosmith secrets recipients
  talosmith secrets recipients --add age1qqqq";

#[cfg(feature = "lab")]
pub const LAB: &str = "Examples:
  talosmith lab up
  talosmith lab inject off pve3
  talosmith lab reset";

#[cfg(feature = "lab")]
pub const DOWN: &str = "Examples:
  talosmith lab down
  talosmith lab down --folder kept";

#[cfg(feature = "lab")]
pub const RESET: &str = "Examples:
  talosmith lab reset
  talosmith lab reset --yes";

#[cfg(feature = "lab")]
pub const UP: &str = "Examples:
  talosmith lab up
  talosmith lab up --lab-speed 10 --proxmox 127.0.0.1:9006 --factory 127.0.0.1:9443
  talosmith lab up --proxmox-version 9.1
  talosmith lab up --state state.json --folder kept";

#[cfg(feature = "lab")]
pub const DISTURB: &str = "Examples:
  talosmith lab inject off pve3
  talosmith lab inject slow pve2 --by 4
  talosmith lab inject fault 35 --path /qemu --times 3
  talosmith lab inject fault 37 --chance 10
  talosmith lab inject unplug 150021
  talosmith lab inject wire cut --path /machine.MachineService/ --times 2
  talosmith lab inject relay 150011
  talosmith lab inject console 150011 cut --by 8
  talosmith lab inject clear";

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _, Parser as _};

    use crate::args::Cli;

    fn examples(command: &Command, found: &mut Vec<String>) {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| line.strip_prefix("  talosmith ")).map(str::to_owned));
        command.get_subcommands().for_each(|inner| examples(inner, found));
    }

    #[test]
    fn first_use_28_every_help_page_has_an_example() {
        fn without(command: &Command, path: &str, found: &mut Vec<String>) {
            for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
                let path = format!("{path} {}", inner.get_name());
                let text = inner.get_after_help().map(ToString::to_string).unwrap_or_default();
                if !text.contains(&format!("  {path}")) {
                    found.push(path.clone());
                }
                without(inner, &path, found);
            }
        }
        let mut found = vec![];
        without(&Cli::command(), "talosmith", &mut found);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn every_example_is_a_command_line_that_is_taken() {
        let mut found = vec![];
        examples(&Cli::command(), &mut found);
        assert!(found.len() > 30, "{found:?}");
        for example in found {
            let words = example.split(" > ").next().unwrap_or_default().split_whitespace();
            if let Err(error) = Cli::try_parse_from(["talosmith"].into_iter().chain(words)) {
                panic!("talosmith {example}: {error}");
            }
        }
    }
}
