//! talosctl itself takes what we write: the bundle, the talosconfig, the configurations.

use std::process::Command;

use anyhow::{Context, bail};
use talos::config::Documents;

use super::{oracle::peer, program::Folder, say};

const FILE: &str = "cluster: home
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: 'https://pve1:8006' }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }
pools:
  control: { role: controlplane, count: 3 }
  work: { role: worker, count: 2 }
";

/// Asks talosctl of 1.13.
pub fn run() -> anyhow::Result<()> {
    let talosctl = peer("talosctl-1.13")?;
    let folder = Folder::new("talosctl")?;
    folder.write("cluster.yaml", FILE)?;
    let ours = |words: &[&str]| folder.talosmith(words)?.map_err(anyhow::Error::msg);
    let theirs = |words: &[&str]| -> anyhow::Result<String> {
        let output = Command::new(&talosctl)
            .args(words)
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .output()?;
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!("talosctl {} refused: {text}", words.join(" "));
        }
        Ok(text)
    };

    ours(&["secrets", "new"])?;
    ours(&["secrets", "export", "-o", "secrets.yaml"])?;
    theirs(&[
        "gen",
        "config",
        "home",
        "https://10.25.150.10:6443",
        "--with-secrets",
        "secrets.yaml",
        "-o",
        "made",
    ])?;
    let read = |name: &str| -> anyhow::Result<Documents> {
        let text =
            std::fs::read_to_string(folder.path().join(name)).with_context(|| format!("read {name}"))?;
        Documents::parse(&text).with_context(|| format!("understand {name}"))
    };
    ours(&["render", "-o", "out"])?;
    let (made, rendered) = (read("made/controlplane.yaml")?, read("out/home-control-1.yaml")?);
    let keys = [
        "machine.token",
        "machine.ca.key",
        "cluster.secretboxEncryptionSecret",
        "cluster.ca.key",
        "cluster.aggregatorCA.key",
        "cluster.serviceAccount.key",
        "cluster.etcd.ca.key",
        "cluster.token",
        "cluster.secret",
        "cluster.id",
    ];
    for key in keys {
        let text =
            |documents: &Documents| documents.v1alpha1().and_then(|it| it.text(key)).map(str::to_owned);
        if text(&made).is_none() || text(&made) != text(&rendered) {
            bail!("talosctl makes another {key} of our bundle than we do");
        }
    }
    for role in ["admin", "operator", "reader", "etcd-backup"] {
        ours(&["talosconfig", "--role", role, "--ttl", "90m", "-o", "talosconfig"])?;
        let told = theirs(&["--talosconfig", "talosconfig", "config", "info"])?;
        let wanted = format!("os:{}", role.replace('-', ":"));
        if !told.contains(&wanted) || !told.contains("10.25.150.11") {
            bail!("talosctl reads another role than {wanted} in our talosconfig: {told}");
        }
    }
    let mut configs = 0;
    for number in [1, 2, 3] {
        theirs(&["validate", "--strict", "-m", "cloud", "-c", &format!("out/home-control-{number}.yaml")])?;
        configs += 1;
    }
    theirs(&["validate", "--strict", "-m", "cloud", "-c", "out/home-work-1.yaml"])?;
    // What it made it can hand to us again.
    theirs(&["gen", "secrets", "-o", "theirs.yaml"])?;
    folder.write("other.yaml", &FILE.replace("cluster: home", "cluster: other"))?;
    ours(&["secrets", "import", "theirs.yaml", "-f", "other.yaml"])?;
    say(&format!(
        "talosctl v1.13.9: takes our bundle ({} keys the same), our talosconfig with 4 roles, {} configurations; its bundle is imported",
        keys.len(),
        configs + 1
    ));
    Ok(())
}
