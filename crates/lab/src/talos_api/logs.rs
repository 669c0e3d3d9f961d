//! What a machine's logs say: few lines, all of them true.

use base64::Engine as _;
use sha2::Digest as _;

use crate::machine::{Machine, Machines, Phase};

/// The kernel log, which is also where machined writes.
pub(super) fn kernel(machines: &Machines, vmid: u32) -> Vec<String> {
    let Some(machine) = machines.get(vmid) else { return vec![] };
    let version = machine.hardware.image.as_ref().map_or("", |i| i.talos.as_str());
    let mut lines = vec![
        format!(
            "kern:  notice: Linux version 6.18.9-talos, {} processors, {} MiB",
            machine.hardware.cores, machine.hardware.memory_mib
        ),
        format!("user: warning: [talos] [initramfs] booting Talos {version}"),
    ];
    for (number, (mac, nets)) in machines.addresses(vmid).into_iter().enumerate() {
        for net in nets {
            lines.push(format!("user: warning: [talos] assigned address {{\"component\": \"controller-runtime\", \"controller\": \"network.AddressSpecController\", \"address\": \"{net}\", \"link\": \"eth{number}\", \"mac\": \"{mac}\"}}"));
        }
    }
    lines.extend(mode(machine));
    lines
}

fn mode(machine: &Machine) -> Vec<String> {
    match &machine.phase {
        Phase::Maintenance(_) => {
            let fingerprint = machine.maintenance_fingerprint().unwrap_or_default();
            vec![
                "user: warning: [talos] entering maintenance service".to_owned(),
                format!(
                    "user: warning: [talos] server certificate issued {{\"component\": \"maintenance\", \"fingerprint\": \"{fingerprint}\"}}"
                ),
            ]
        }
        Phase::Configured(node) => {
            vec![format!("user: warning: [talos] boot sequence: machine type {}", node.settings.role.text())]
        }
        _ => vec![],
    }
}

/// The log of one service: how it got to where it is.
pub(super) fn service(machines: &Machines, vmid: u32, id: &str) -> Option<Vec<String>> {
    let service = machines.services(vmid).into_iter().find(|service| service.id == id)?;
    Some(vec![format!("{} {}: {}", service.since, service.state, service.message)])
}

/// The fingerprint of a public key in the form that Talos prints.
pub(crate) fn fingerprint(spki: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(spki))
}
