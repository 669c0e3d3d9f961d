//! The files of the cloud-init drive, as Proxmox generates them.

use std::fmt::Write;
use std::net::Ipv4Addr;

use ipnet::{Ipv4Net, Ipv6Net};
use sha1::{Digest, Sha1};

use crate::hypervisor::options::ipconfig;
use crate::hypervisor::vm::Vm;

/// What a host would find in its own resolver configuration.
const HOST_DNS: &str = "10.25.150.1";

pub(crate) fn user_data(vm: &Vm) -> String {
    let name = vm.get("name").map_or_else(|| format!("VM{}", vm.vmid), str::to_owned);
    let host = name.split('.').next().unwrap_or(&name);
    let domain = vm.get("searchdomain").and_then(|list| list.split([' ', ',']).next());
    let fqdn = match domain {
        Some(domain) if !name.contains('.') => format!("{name}.{domain}"),
        _ => name.clone(),
    };
    let mut text = format!("#cloud-config\nhostname: {host}\nmanage_etc_hosts: true\nfqdn: {fqdn}\n");
    if let Some(user) = vm.get("ciuser") {
        let _ = writeln!(text, "user: {user}");
    }
    if let Some(password) = vm.get("cipassword") {
        let _ = writeln!(text, "password: {password}");
    }
    text.push_str("chpasswd:\n  expire: False\nusers:\n  - default\n");
    if vm.get("ciupgrade") != Some("0") {
        text.push_str("package_upgrade: true\n");
    }
    text
}

pub(crate) fn network_config(vm: &Vm) -> String {
    let mut text = "version: 1\nconfig:\n".to_owned();
    let mut nics: Vec<_> = vm.nics().collect();
    nics.sort_by_key(|(key, _)| *key);
    for (key, parts) in nics {
        let Some(config) = vm.get(&key.replace("net", "ipconfig")) else { continue };
        let config = ipconfig().parse(key, config).unwrap_or_default();
        let mac = parts.get("macaddr").map(|mac| mac.to_lowercase()).unwrap_or_default();
        let name = key.replace("net", "eth");
        let _ = write!(
            text,
            "    - type: physical\n      name: {name}\n      mac_address: '{mac}'\n      subnets:\n"
        );
        let both = config.is_empty();
        match config.get("ip").map(String::as_str) {
            None if !both => {}
            None | Some("dhcp") => text.push_str("      - type: dhcp4\n"),
            Some(address) => v4(&mut text, address, config.get("gw")),
        }
        match config.get("ip6").map(String::as_str) {
            None if !both => {}
            None | Some("dhcp") => text.push_str("      - type: dhcp6\n"),
            Some("auto") => text.push_str("      - type: ipv6_slaac\n"),
            Some(address) => v6(&mut text, address, config.get("gw6")),
        }
    }
    let list = |text: &mut String, name: &str, items: &str| {
        let _ = writeln!(text, "      {name}:");
        for item in items.split([' ', ',', ';']).filter(|item| !item.is_empty()) {
            let _ = writeln!(text, "      - '{item}'");
        }
    };
    text.push_str("    - type: nameserver\n");
    list(&mut text, "address", vm.get("nameserver").unwrap_or(HOST_DNS));
    if let Some(domains) = vm.get("searchdomain") {
        list(&mut text, "search", domains);
    }
    text
}

fn v4(text: &mut String, address: &str, gateway: Option<&String>) {
    let Ok(net) = address.parse::<Ipv4Net>() else { return };
    let (address, mask): (Ipv4Addr, Ipv4Addr) = (net.addr(), net.netmask());
    let _ = write!(text, "      - type: static\n        address: '{address}'\n        netmask: '{mask}'\n");
    if let Some(gateway) = gateway {
        let _ = writeln!(text, "        gateway: '{gateway}'");
    }
}

fn v6(text: &mut String, address: &str, gateway: Option<&String>) {
    let Ok(net) = address.parse::<Ipv6Net>() else { return };
    let _ = write!(text, "      - type: static6\n        address: '{net}'\n");
    if let Some(gateway) = gateway {
        let _ = writeln!(text, "        gateway: '{gateway}'");
    }
}

pub(crate) fn meta_data(vm: &Vm) -> String {
    format!("instance-id: {}\n", instance_id(vm))
}

/// What names this state of the machine: another one means that cloud-init has to look again.
pub(crate) fn instance_id(vm: &Vm) -> String {
    let digest = Sha1::new().chain_update(user_data(vm)).chain_update(network_config(vm)).finalize();
    hex::encode(digest)
}
