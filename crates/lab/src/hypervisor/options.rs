//! The options of a VM's configuration: which exist, what each must be, and how it is answered. All of it comes from the
//! server's own schema of the call that changes a configuration.

use std::sync::LazyLock;

use crate::schema::{self, Kind, Props, Rule};

/// Parameters of a change that are not options.
const CONTROLS: &[&str] = &["delete", "digest", "force", "node", "revert", "skiplock", "vmid"];

/// What the value of an option must be; nothing if there is no such option.
pub(crate) fn option(key: &str) -> Option<&'static Rule> {
    if CONTROLS.contains(&key) {
        return None;
    }
    schema::method("PUT", "/nodes/{node}/qemu/{vmid}/config")?.rule(key)
}

/// Options whose value is answered as a number.
pub(crate) fn is_number(key: &str) -> bool {
    option(key).is_some_and(|rule| matches!(rule.kind, Kind::Bool | Kind::Int))
}

/// The property string of an option that is one.
fn props_of(key: &str) -> &'static Props {
    static NONE: LazyLock<Props> = LazyLock::new(Props::default);
    option(key).and_then(|rule| schema::props(rule.format.as_deref()?)).unwrap_or(&NONE)
}

/// The property string of a network card.
pub(crate) fn net() -> &'static Props {
    props_of("net0")
}

/// The property string of an address for cloud-init.
pub(crate) fn ipconfig() -> &'static Props {
    props_of("ipconfig0")
}

/// The property string of what the firmware tells a guest.
pub(crate) fn smbios() -> &'static Props {
    props_of("smbios1")
}

/// The property string of a drive option, if the option is one.
pub(crate) fn drive_props(key: &str) -> Option<&'static Props> {
    let name = key.trim_end_matches(|c: char| c.is_ascii_digit());
    let drive = matches!(name, "ide" | "sata" | "scsi" | "virtio" | "efidisk" | "tpmstate");
    (drive && option(key).is_some()).then(|| props_of(key))
}
