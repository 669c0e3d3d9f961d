//! A commented file to start with, from a few options and, where Proxmox was asked, from what it really has.
//!
//! It is text, not a serialised [`crate::spec::Spec`], because its comments are the point. What is written loads and has
//! no problems as long as the options are sound; the checks say the rest.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use crate::blueprint::Inventory;
use crate::forms;

/// The Talos version that new files name.
pub const TALOS: &str = "v1.13.9";
/// The Kubernetes version that new files name: the one that this Talos brings.
pub const KUBERNETES: &str = "v1.36.3";

/// What the file should say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starter {
    /// Name of the cluster.
    pub cluster: String,
    /// Proxmox: `https://HOST:8006`.
    pub endpoint: String,
    /// Reference to the token; `None` for the usual environment variable.
    pub token: Option<String>,
    /// Fingerprint of Proxmox' certificate.
    pub fingerprint: Option<String>,
    /// File with the authority that signed it.
    pub ca: Option<String>,
    /// Whether it is not verified at all.
    pub insecure: bool,
    /// The nodes' network.
    pub cidr: String,
    /// Its gateway; `None` for its first address.
    pub gateway: Option<String>,
    /// The moving address of the API; `None` for the tenth address.
    pub vip: Option<String>,
    /// How many control planes.
    pub control_planes: u32,
    /// How many workers.
    pub workers: u32,
    /// Talos version.
    pub talos: String,
    /// Kubernetes version.
    pub kubernetes: String,
}

impl Default for Starter {
    fn default() -> Self {
        Self {
            cluster: "home".to_owned(),
            endpoint: "https://pve1:8006".to_owned(),
            token: None,
            fingerprint: None,
            ca: None,
            insecure: false,
            cidr: "10.25.150.0/24".to_owned(),
            gateway: None,
            vip: None,
            control_planes: 3,
            workers: 2,
            talos: TALOS.to_owned(),
            kubernetes: KUBERNETES.to_owned(),
        }
    }
}

/// The file.
#[must_use]
pub fn starter(options: &Starter, inventory: Option<&Inventory>) -> String {
    // With no network to count in, an example stands there: what is wrong is the network, and that is said.
    let net: Option<Ipv4Net> = options.cidr.parse().ok().or_else(|| Starter::default().cidr.parse().ok());
    let numbered = |number: u32| {
        let address = net.and_then(|net| u32::from(net.network()).checked_add(number))?;
        Some(Ipv4Addr::from(address).to_string())
    };
    let given =
        |said: &Option<String>, number: u32| said.clone().or_else(|| numbered(number)).unwrap_or_default();
    let mut out = String::new();
    out.push_str(
        "# One cluster, one file. `talosmith validate` checks it, `plan` shows what `apply` would change.\n",
    );
    out.push_str("# Keys that are missing have defaults; `talosmith show` shows them, docs/reference/file.md lists all keys.\n");
    line(&mut out, &format!("cluster: {}", text(&options.cluster)));
    line(
        &mut out,
        "\n# Required: Talosmith never chooses a version, so the same file always gives the same cluster.",
    );
    line(&mut out, "versions:");
    line(&mut out, &format!("  talos: {}", text(&options.talos)));
    line(&mut out, &format!("  kubernetes: {}", text(&options.kubernetes)));
    line(&mut out, "\nproxmox:");
    line(&mut out, &format!("  endpoint: {}", text(&options.endpoint)));
    line(&mut out, "  # Where the API token is, never the token itself: env:NAME, file:PATH or cmd:COMMAND.");
    let token = options.token.as_deref().unwrap_or(crate::spec::DEFAULT_TOKEN);
    line(&mut out, &format!("  token: {}", text(token)));
    match (&options.fingerprint, &options.ca) {
        (Some(fingerprint), _) => line(&mut out, &format!("  fingerprint: {}", text(fingerprint))),
        (None, Some(ca)) => line(&mut out, &format!("  ca: {}", text(ca))),
        (None, None) if options.insecure => {
            line(
                &mut out,
                "  # Talosmith cannot verify who answers there, and sends the token: pin a fingerprint.",
            );
            line(&mut out, "  insecure: true");
        }
        (None, None) => {
            line(
                &mut out,
                "  # Proxmox has a self-signed certificate by default. Pin its fingerprint (`pvenode cert info`), or name its `ca`:",
            );
            line(&mut out, "  # fingerprint: \"AA:BB:…\"");
        }
    }
    line(&mut out, "\nnetwork:");
    line(&mut out, &format!("  cidr: {}", text(&options.cidr)));
    line(&mut out, &format!("  gateway: {}", text(&given(&options.gateway, 1))));
    line(
        &mut out,
        "  # The virtual IP of the Kubernetes API. It must be free; one control plane node at a time has it.",
    );
    line(&mut out, &format!("  vip: {}", text(&given(&options.vip, 10))));
    bridge(&mut out, inventory);
    line(&mut out, &format!("  # dns: [{}]", given(&options.gateway, 1)));
    if let Some(inventory) = inventory.filter(|inventory| !inventory.hosts.is_empty()) {
        hosts(&mut out, inventory);
    } else {
        line(&mut out, "\n# Without `hosts`, every Proxmox host that is online can run nodes.");
        line(&mut out, "# hosts:\n#   pve1: { zone: rack-a }");
    }
    pools(&mut out, options, numbered(11), numbered(21));
    out
}

fn line(out: &mut String, text: &str) {
    // Writing to a text cannot fail.
    let _ = writeln!(out, "{text}");
}

fn bridge(out: &mut String, inventory: Option<&Inventory>) {
    let online =
        || inventory.iter().flat_map(|inventory| inventory.hosts.values()).filter(|host| host.online);
    let common: Vec<&String> = online()
        .next()
        .map(|first| {
            first.bridges.iter().filter(|one| online().all(|host| host.bridges.contains(one))).collect()
        })
        .unwrap_or_default();
    let chosen = common.iter().find(|bridge| **bridge == "vmbr0").or(common.first());
    if let Some(chosen) = chosen {
        if common.len() > 1 {
            let names: Vec<&str> = common.iter().map(|bridge| bridge.as_str()).collect();
            line(out, &format!("  # All hosts have {}.", names.join(", ")));
        }
        line(out, &format!("  bridge: {}", text(chosen)));
    } else {
        line(out, "  # bridge: vmbr0");
    }
    line(out, "  # vlan: 150");
}

fn hosts(out: &mut String, inventory: &Inventory) {
    line(out, "\n# As Proxmox has them. Remove those that must not run nodes.");
    line(out, "hosts:");
    for (name, host) in &inventory.hosts {
        let taking = |content: &str| -> Vec<&str> {
            let fits = host.datastores.iter().filter(|(_, store)| store.content.iter().any(|c| c == content));
            fits.map(|(name, _)| name.as_str()).collect()
        };
        let (images, disks) = (taking("import"), taking("images"));
        if !host.online {
            line(out, &format!("  # {name} is offline"));
            continue;
        }
        let free = |store: &str| host.datastores.get(store).map_or(0, |store| store.free_bytes >> 30);
        line(out, &format!("  {}: # {} GiB of memory", text(name), host.memory_mib >> 10));
        line(out, "    datastores:");
        match images.first() {
            Some(store) => line(out, &format!("      image: {} # of {}", text(store), images.join(", "))),
            None => {
                line(out, "      # image: none takes content `import`; allow it under Datacenter, Storage")
            }
        }
        let chosen = disks.iter().find(|store| **store != "local").or(disks.first());
        match chosen {
            Some(store) => {
                let list: Vec<String> = disks.iter().map(|s| format!("{s} ({} GiB free)", free(s))).collect();
                line(out, &format!("      disks: {} # of {}", text(store), list.join(", ")));
            }
            None => line(out, "      # disks: none takes content `images`"),
        }
    }
}

fn pools(out: &mut String, options: &Starter, first: Option<String>, second: Option<String>) {
    let begins =
        |address: Option<String>| address.map_or_else(String::new, |address| format!(" from {address}"));
    if options.workers == 0 {
        line(out, "\nkubernetes:\n  # There are no worker nodes, so control plane nodes run workloads.");
        line(out, "  schedule_on_control_planes: true");
    }
    line(out, "\npools:");
    line(
        out,
        &format!(
            "  # Creates {0}-control-1, {0}-control-2, …; addresses count up{1}.",
            options.cluster,
            begins(first)
        ),
    );
    line(out, "  control:");
    line(out, "    role: controlplane");
    line(out, &format!("    count: {}", options.control_planes));
    line(out, "    cpu: 2\n    memory: 4G\n    disk: 20G");
    if options.workers > 0 {
        line(
            out,
            &format!(
                "  # Creates {0}-work-1, {0}-work-2, …; addresses count up{1}.",
                options.cluster,
                begins(second)
            ),
        );
        line(out, "  work:");
        line(out, "    role: worker");
        line(out, &format!("    count: {}", options.workers));
        line(out, "    cpu: 4\n    memory: 8G\n    disk: 40G");
        line(out, "    # disks: { data: { size: 100G } }");
    }
    line(
        out,
        "\n# Settings of single nodes. A name from a pool changes that node; another name adds a node.",
    );
    line(out, &format!("# nodes:\n#   {}-control-1: {{ host: pve1 }}", options.cluster));
}

/// A text as YAML takes it: plain where that is safe.
fn text(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:!".contains(c);
    let safe = value.starts_with(|c: char| c.is_ascii_alphanumeric())
        && value.chars().all(plain)
        && !value.ends_with(':')
        && forms::disk_gib(value).is_none()
        && !["true", "false", "null", "yes", "no", "on", "off"]
            .contains(&value.to_ascii_lowercase().as_str())
        && value.parse::<f64>().is_err();
    if safe { value.to_owned() } else { serde_json::Value::from(value).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blueprint::{InventoryDatastore, InventoryHost};
    use crate::diagnostic::{Source, render};
    use crate::load::load;

    fn problems(text: &str) -> String {
        match load(&[Source::new("cluster.yaml", text)]) {
            Ok(loaded) => render(&loaded.check()),
            Err(failed) => render(&failed.diagnostics),
        }
    }

    fn proxmox() -> Inventory {
        let store = |content: &[&str]| InventoryDatastore {
            content: content.iter().map(|c| (*c).to_owned()).collect(),
            shared: false,
            free_bytes: 200 << 30,
        };
        let host = |online| InventoryHost {
            online,
            memory_mib: 65_536,
            datastores: [
                ("local".to_owned(), store(&["import", "iso", "images"])),
                ("local-zfs".to_owned(), store(&["images"])),
            ]
            .into(),
            bridges: vec!["vmbr0".to_owned(), "vmbr1".to_owned()],
            ..InventoryHost::default()
        };
        Inventory { hosts: [("pve1".to_owned(), host(true)), ("pve2".to_owned(), host(false))].into() }
    }

    #[test]
    fn every_starter_is_sound() {
        for (control_planes, workers) in [(3, 2), (1, 0), (5, 30)] {
            for inventory in [None, Some(&proxmox()), Some(&Inventory::default())] {
                let options = Starter { control_planes, workers, ..Starter::default() };
                let text = starter(&options, inventory);
                assert_eq!(problems(&text), "", "{text}");
            }
        }
        let odd = Starter {
            cluster: "no".to_owned(),
            token: Some("cmd:pass show \"x\"".into()),
            ..Starter::default()
        };
        assert_eq!(problems(&starter(&odd, None)), "");
    }

    #[test]
    fn what_proxmox_has_is_filled_in() {
        insta::assert_snapshot!(starter(&Starter::default(), Some(&proxmox())), @r#"
# One cluster, one file. `talosmith validate` checks it, `plan` shows what `apply` would change.
# Keys that are missing have defaults; `talosmith show` shows them, docs/reference/file.md lists all keys.
cluster: home

# Required: Talosmith never chooses a version, so the same file always gives the same cluster.
versions:
  talos: v1.13.9
  kubernetes: v1.36.3

proxmox:
  endpoint: https://pve1:8006
  # Where the API token is, never the token itself: env:NAME, file:PATH or cmd:COMMAND.
  token: env:PROXMOX_VE_API_TOKEN
  # Proxmox has a self-signed certificate by default. Pin its fingerprint (`pvenode cert info`), or name its `ca`:
  # fingerprint: "AA:BB:…"

network:
  cidr: 10.25.150.0/24
  gateway: 10.25.150.1
  # The virtual IP of the Kubernetes API. It must be free; one control plane node at a time has it.
  vip: 10.25.150.10
  # All hosts have vmbr0, vmbr1.
  bridge: vmbr0
  # vlan: 150
  # dns: [10.25.150.1]

# As Proxmox has them. Remove those that must not run nodes.
hosts:
  pve1: # 64 GiB of memory
    datastores:
      image: local # of local
      disks: local-zfs # of local (200 GiB free), local-zfs (200 GiB free)
  # pve2 is offline

pools:
  # Creates home-control-1, home-control-2, …; addresses count up from 10.25.150.11.
  control:
    role: controlplane
    count: 3
    cpu: 2
    memory: 4G
    disk: 20G
  # Creates home-work-1, home-work-2, …; addresses count up from 10.25.150.21.
  work:
    role: worker
    count: 2
    cpu: 4
    memory: 8G
    disk: 40G
    # disks: { data: { size: 100G } }

# Settings of single nodes. A name from a pool changes that node; another name adds a node.
# nodes:
#   home-control-1: { host: pve1 }
"#);
    }
}
