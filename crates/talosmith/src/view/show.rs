//! Everything that a file decides, for people: one headline, the network, a line for each node, its data disks and further
//! cards. What only Proxmox can decide is shown as `open`; a note below says so.

use std::collections::BTreeSet;
use std::io::{self, Write};

use model::blueprint::{Blueprint, Node, Role};

use super::ink::{Ink, count};
use super::table::table;

/// What is not decided yet.
const OPEN: &str = "open";

/// The cluster in one line, without a full stop.
pub fn summary(blueprint: &Blueprint) -> String {
    let (control, work) = (blueprint.control_planes().count(), blueprint.workers().count());
    let mut nodes = count(control, "control plane node");
    if work > 0 {
        nodes = format!("{nodes} and {}", count(work, "worker node"));
    }
    format!(
        "{}, {nodes}, Talos {}, Kubernetes {}, API at {}",
        blueprint.cluster,
        talos(blueprint).join(" and "),
        blueprint.kubernetes,
        blueprint.endpoint
    )
}

/// The Talos versions of the nodes, each once.
fn talos(blueprint: &Blueprint) -> Vec<&str> {
    let versions: BTreeSet<&str> = blueprint.nodes.values().map(|node| node.talos.as_str()).collect();
    versions.into_iter().collect()
}

/// For people.
///
/// # Errors
/// When writing fails.
pub fn human(w: &mut dyn Write, ink: Ink, blueprint: &Blueprint) -> io::Result<()> {
    writeln!(w, "{}\n", ink.bold(&summary(blueprint)))?;
    facts(w, blueprint)?;
    nodes(w, ink, blueprint)?;
    disks(w, ink, blueprint)?;
    cards(w, ink, blueprint)?;
    if has_open(blueprint) {
        writeln!(w, "{OPEN}: Proxmox decides it; `talosmith plan` asks it and shows the rest.")?;
    }
    Ok(())
}

fn facts(w: &mut dyn Write, blueprint: &Blueprint) -> io::Result<()> {
    let bridges: BTreeSet<String> = ours(blueprint)
        .map(|node| match node.vlan {
            Some(vlan) => format!("{} VLAN {vlan}", node.bridge),
            None => node.bridge.clone(),
        })
        .collect();
    let bridges: Vec<String> = bridges.into_iter().collect();
    if let Some(first) = blueprint.nodes.values().next() {
        let on = if bridges.is_empty() { String::new() } else { format!(", on {}", bridges.join(" and ")) };
        writeln!(w, "Nodes     {}, gateway {}{on}", first.address.trunc(), first.gateway)?;
    }
    writeln!(w, "Pods      {}", blueprint.pod_cidr)?;
    writeln!(w, "Services  {}, domain {}", blueprint.service_cidr, blueprint.dns_domain)?;
    for image in blueprint.images.values() {
        let content = match &image.schematic_file {
            Some(file) => format!("schematic {file}"),
            None if image.extensions.is_empty() => "no extensions".to_owned(),
            None => image.extensions.join(", "),
        };
        let secure = if image.secure_boot { ", secure boot" } else { "" };
        writeln!(w, "Image     Talos {}, {}{secure}, {content}", image.talos, image.arch)?;
    }
    let record = &blueprint.record;
    if ours(blueprint).next().is_some() {
        let host = record.host.as_deref().unwrap_or(OPEN);
        writeln!(w, "Record    {}, VM {}, host {host}", record.name, record.vmid)?;
    }
    writeln!(w)
}

fn nodes(w: &mut dyn Write, ink: Ink, blueprint: &Blueprint) -> io::Result<()> {
    let several = talos(blueprint).len() > 1;
    let row = |node: &Node| {
        let or_none = |text: String| if node.external { "-".to_owned() } else { text };
        let mut cells = vec![
            node.name.to_string(),
            if node.role == Role::ControlPlane { "control" } else { "worker" }.to_owned(),
            if node.external { "external" } else { node.host.as_deref().unwrap_or(OPEN) }.to_owned(),
            or_none(node.vmid.to_string()),
            node.address.addr().to_string(),
            if node.mac.is_empty() { "-".to_owned() } else { node.mac.clone() },
            or_none(node.cores.to_string()),
            or_none(mebibytes(node.memory_mib)),
            or_none(format!("{} GiB", node.disk_gib)),
            or_none(node.disk_datastore.as_deref().unwrap_or(OPEN).to_owned()),
        ];
        if several {
            cells.push(node.talos.clone());
        }
        cells
    };
    let mut titles =
        vec!["NODE", "ROLE", "HOST", "VM", "ADDRESS", "MAC", "CPU", "MEMORY", "DISK", "DATASTORE"];
    if several {
        titles.push("TALOS");
    }
    let rows: Vec<Vec<String>> = blueprint.in_order().into_iter().map(row).collect();
    table(w, ink, &titles, &rows, &[])
}

fn disks(w: &mut dyn Write, ink: Ink, blueprint: &Blueprint) -> io::Result<()> {
    let rows: Vec<Vec<String>> = ours(blueprint)
        .flat_map(|node| node.hardware.disks.iter().map(move |disk| (node, disk)))
        .map(|(node, disk)| {
            vec![
                node.name.to_string(),
                disk.name.clone(),
                disk.key(),
                format!("{} GiB", disk.size_gib),
                disk.datastore.as_deref().unwrap_or(OPEN).to_owned(),
                disk.mount.clone(),
            ]
        })
        .collect();
    table(w, ink, &["NODE", "DATA DISK", "SLOT", "SIZE", "DATASTORE", "MOUNTED AT"], &rows, &[])
}

fn cards(w: &mut dyn Write, ink: Ink, blueprint: &Blueprint) -> io::Result<()> {
    let mut rows = Vec::new();
    for node in blueprint.in_order() {
        for (number, nic) in (1..).zip(&node.settings.extra_nics) {
            let on = match nic.vlan {
                Some(vlan) => format!("{} VLAN {vlan}", nic.bridge),
                None => nic.bridge.clone(),
            };
            let address = nic.address.map_or_else(|| "DHCP".to_owned(), |address| address.to_string());
            rows.push(vec![node.name.to_string(), format!("net{number}"), address, nic.mac.clone(), on]);
        }
        for (number, pci) in node.hardware.pci.iter().enumerate() {
            let none = || "-".to_owned();
            rows.push(vec![
                node.name.to_string(),
                format!("hostpci{number}"),
                none(),
                none(),
                pci.mapping.clone(),
            ]);
        }
    }
    table(w, ink, &["NODE", "CARD", "ADDRESS", "MAC", "FROM"], &rows, &[])
}

/// Nodes that are ours to create.
fn ours(blueprint: &Blueprint) -> impl Iterator<Item = &Node> {
    blueprint.in_order().into_iter().filter(|node| !node.external)
}

fn has_open(blueprint: &Blueprint) -> bool {
    ours(blueprint).any(|node| {
        let disks = node.hardware.disks.iter().any(|disk| disk.datastore.is_none());
        node.host.is_none() || node.disk_datastore.is_none() || disks
    })
}

fn mebibytes(mib: u64) -> String {
    if mib.is_multiple_of(1024) { format!("{} GiB", mib / 1024) } else { format!("{mib} MiB") }
}

#[cfg(test)]
mod tests {
    use model::diagnostic::Source;

    use super::*;

    fn shown(file: &str) -> String {
        let Ok(loaded) = model::load::load(&[Source::new("cluster.yaml", file)]) else { panic!("{file}") };
        let blueprint = model::resolve::resolve(&loaded.spec, None, None).unwrap();
        let mut text = Vec::new();
        human(&mut text, Ink::PLAIN, &blueprint).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn what_only_proxmox_can_decide_is_open() {
        insta::assert_snapshot!(shown(include_str!("../../../../examples/home.yaml")), @r#"
        home, 3 control plane nodes and 2 worker nodes, Talos v1.13.9, Kubernetes v1.35.4, API at https://10.25.150.10:6443

        Nodes     10.25.150.0/24, gateway 10.25.150.1, on vmbr0
        Pods      10.244.0.0/16
        Services  10.96.0.0/12, domain cluster.local
        Image     Talos v1.13.9, amd64, siderolabs/qemu-guest-agent
        Record    home-record, VM 150010, host open

        NODE            ROLE     HOST  VM      ADDRESS       MAC                CPU  MEMORY  DISK    DATASTORE
        --------------  -------  ----  ------  ------------  -----------------  ---  ------  ------  ---------
        home-control-1  control  open  150011  10.25.150.11  BC:24:11:A1:B3:F7  2    4 GiB   20 GiB  open
        home-control-2  control  open  150012  10.25.150.12  BC:24:11:16:4A:77  2    4 GiB   20 GiB  open
        home-control-3  control  open  150013  10.25.150.13  BC:24:11:3B:3B:82  2    4 GiB   20 GiB  open
        home-work-1     worker   open  150021  10.25.150.21  BC:24:11:F5:31:BB  4    8 GiB   40 GiB  open
        home-work-2     worker   open  150022  10.25.150.22  BC:24:11:86:5A:B9  4    8 GiB   40 GiB  open

        open: Proxmox decides it; `talosmith plan` asks it and shows the rest.
        "#);
    }

    #[test]
    fn disks_cards_devices_and_machines_of_others() {
        let file = "cluster: mill
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: 'https://pve1:8006' }
network:
  cidr: 10.7.0.0/24
  gateway: 10.7.0.1
  vlan: 70
  extra: { storage: { cidr: 10.8.0.0/24, bridge: vmbr1, vlan: 80 } }
hosts: { pve1: { datastores: { disks: tank, image: local } } }
nodes:
  one: { role: controlplane, host: pve1, address: 10.7.0.11, networks: { storage: { address: 10.8.0.11 } } }
  two: { role: worker, host: pve1, address: 10.7.0.12, memory: 9000M, disks: { data: { size: 100G } }, pci: [gpu0],
    versions: { talos: v1.13.8 }, networks: { storage: { address: 10.8.0.12 } } }
  far: { role: worker, address: 10.7.0.13, external: true, networks: { storage: { address: 10.8.0.13 } } }
";
        insta::assert_snapshot!(shown(file), @r#"
        mill, 1 control plane node and 2 worker nodes, Talos v1.13.8 and v1.13.9, Kubernetes v1.35.4, API at https://10.7.0.11:6443

        Nodes     10.7.0.0/24, gateway 10.7.0.1, on vmbr0 VLAN 70
        Pods      10.244.0.0/16
        Services  10.96.0.0/12, domain cluster.local
        Image     Talos v1.13.9, amd64, siderolabs/qemu-guest-agent
        Image     Talos v1.13.8, amd64, siderolabs/qemu-guest-agent
        Record    mill-record, VM 1256011, host pve1

        NODE  ROLE     HOST      VM      ADDRESS    MAC                CPU  MEMORY    DISK    DATASTORE  TALOS
        ----  -------  --------  ------  ---------  -----------------  ---  --------  ------  ---------  -------
        one   control  pve1      256011  10.7.0.11  BC:24:11:9B:02:3B  2    4 GiB     20 GiB  tank       v1.13.9
        far   worker   external  -       10.7.0.13  -                  -    -         -       -          v1.13.9
        two   worker   pve1      256012  10.7.0.12  BC:24:11:F7:F5:81  4    9000 MiB  40 GiB  tank       v1.13.8

        NODE  DATA DISK  SLOT   SIZE     DATASTORE  MOUNTED AT
        ----  ---------  -----  -------  ---------  -------------
        two   data       scsi1  100 GiB  tank       /var/mnt/data

        NODE  CARD      ADDRESS       MAC                FROM
        ----  --------  ------------  -----------------  -------------
        one   net1      10.8.0.11/24  BC:24:11:2F:9B:B2  vmbr1 VLAN 80
        far   net1      10.8.0.13/24  BC:24:11:C4:50:20  vmbr1 VLAN 80
        two   net1      10.8.0.12/24  BC:24:11:36:F3:F3  vmbr1 VLAN 80
        two   hostpci0  -             -                  gpu0
        "#);
    }
}
