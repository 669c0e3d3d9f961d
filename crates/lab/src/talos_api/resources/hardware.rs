//! What the firmware says of the machine.

use serde_json::json;

use super::{Resource, View};

const OWNER: &str = "hardware.SystemInfoController";

pub(super) fn of(view: &View<'_>, kind: &str) -> Option<Vec<Resource>> {
    let boot = &view.machine.hardware;
    let one = |id: &str, tree| Some(vec![Resource::new(id, OWNER, tree)]);
    match kind {
        "SystemInformations.hardware.talos.dev" => one(
            "systeminformation",
            json!({
                "manufacturer": "QEMU", "productName": "Standard PC (Q35 + ICH9, 2009)", "version": "pc-q35-10.1",
                "uuid": boot.uuid, "wakeUpType": "Power Switch",
            }),
        ),
        "Processors.hardware.talos.dev" => one(
            "CPU-0",
            json!({
                "socket": "CPU 0", "manufacturer": "QEMU", "productName": "pc-q35-10.1", "maxSpeedMhz": 2000,
                "bootSpeedMhz": 2000, "status": 65, "coreCount": boot.cores, "coreEnabled": boot.cores,
                "threadCount": boot.cores,
            }),
        ),
        "MemoryModules.hardware.talos.dev" => one(
            "DIMM-0",
            json!({"sizeMiB": boot.memory_mib, "deviceLocator": "DIMM 0", "manufacturer": "QEMU"}),
        ),
        "PCIDevices.hardware.talos.dev" => Some(pci(view)),
        _ => None,
    }
}

/// The bridge, the cards, and what was passed through from the host.
fn pci(view: &View<'_>) -> Vec<Resource> {
    let device = |id: String, class: &str, vendor: &str, product: &str, ids: (&str, &str)| {
        let tree = json!({
            "class": class, "subclass": "", "vendor": vendor, "product": product, "class_id": "0x02",
            "subclass_id": "0x00", "vendor_id": ids.0, "product_id": ids.1,
        });
        Resource::new(id, "hardware.PCIDevicesController", tree)
    };
    let boot = &view.machine.hardware;
    let mut found = vec![device(
        "0000:00:00.0".to_owned(),
        "Bridge",
        "Intel Corporation",
        "82G33/G31/P35/P31 Express DRAM Controller",
        ("0x8086", "0x29c0"),
    )];
    let cards = (0..boot.nics.len()).map(|number| format!("0000:06:{:02x}.0", 18 + number));
    found.extend(cards.map(|id| {
        device(id, "Network controller", "Red Hat, Inc.", "Virtio network device", ("0x1af4", "0x1000"))
    }));
    let passed = boot.pci.iter().enumerate();
    found.extend(passed.map(|(number, (vendor, product))| {
        let id = format!("0000:{:02x}:00.0", number + 1);
        device(id, "Display controller", "", "", (vendor, product))
    }));
    found
}
