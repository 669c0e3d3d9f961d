//! The options of a VM's configuration: which exist, what each must be, and how it is answered.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::schema::{COUNT, Field, Kind, Props, TEXT, field, required, with};

const POSITIVE: Kind = Kind::Int(Some(1), None);
/// A VM's number, as a parameter.
pub(crate) const VM_ID: Kind = Kind::IntFormat(vm_id);

/// Options whose name ends in a number: prefix, highest number, kind.
const NUMBERED: &[(&str, u32, Kind)] = &[
    ("hostpci", 15, TEXT),
    ("ide", 3, Kind::Props(&IDE)),
    ("ipconfig", 31, Kind::Props(&IPCONFIG)),
    ("net", 31, Kind::Props(&NET)),
    ("numa", 7, TEXT),
    ("parallel", 2, TEXT),
    ("sata", 5, Kind::Props(&SATA)),
    ("scsi", 30, Kind::Props(&SCSI)),
    ("serial", 3, Kind::Pattern(|value| value == "socket" || value.starts_with("/dev/"))),
    ("unused", 255, TEXT),
    ("usb", 13, TEXT),
    ("virtio", 15, Kind::Props(&VIRTIO)),
    ("virtiofs", 9, TEXT),
];

/// All other options of a VM's configuration.
const PLAIN: &[Field] = &[
    field("acpi", Kind::Bool),
    field("affinity", TEXT),
    field("agent", Kind::Props(&AGENT)),
    field("allow-ksm", Kind::Bool),
    field("amd-sev", TEXT),
    field("arch", Kind::Enum(&["x86_64", "aarch64"])),
    field("args", TEXT),
    field("audio0", TEXT),
    field("autostart", Kind::Bool),
    field("balloon", COUNT),
    field("bios", Kind::Enum(&["seabios", "ovmf"])),
    field("boot", Kind::Format(boot)),
    field("bootdisk", TEXT),
    field("cdrom", TEXT),
    field("cicustom", TEXT),
    field("cipassword", TEXT),
    field("citype", Kind::Enum(&["configdrive2", "nocloud", "opennebula"])),
    field("ciupgrade", Kind::Bool),
    field("ciuser", TEXT),
    field("cores", POSITIVE),
    field("cpu", TEXT),
    field("cpulimit", Kind::Number(Some(0.0), Some(128.0))),
    field("cpuunits", Kind::Int(Some(1), Some(262_144))),
    field("description", Kind::Text(8192)),
    field("efidisk0", Kind::Props(&EFIDISK)),
    field("freeze", Kind::Bool),
    field("hookscript", TEXT),
    field("hotplug", TEXT),
    field("hugepages", Kind::Enum(&["any", "2", "1024"])),
    field("intel-tdx", TEXT),
    field("ivshmem", TEXT),
    field("keephugepages", Kind::Bool),
    field("keyboard", TEXT),
    field("kvm", Kind::Bool),
    field("localtime", Kind::Bool),
    field("lock", TEXT),
    field("machine", TEXT),
    field("memory", Kind::Props(&MEMORY)),
    field("migrate_downtime", Kind::Number(Some(0.0), None)),
    field("migrate_speed", COUNT),
    field("name", Kind::Format(dns_name)),
    field("nameserver", Kind::Format(addresses)),
    field("numa", Kind::Bool),
    field("onboot", Kind::Bool),
    field(
        "ostype",
        Kind::Enum(&[
            "other", "wxp", "w2k", "w2k3", "w2k8", "wvista", "win7", "win8", "win10", "win11", "l24", "l26",
            "solaris",
        ]),
    ),
    field("protection", Kind::Bool),
    field("reboot", Kind::Bool),
    field("rng0", TEXT),
    field(
        "scsihw",
        Kind::Enum(&["lsi", "lsi53c810", "virtio-scsi-pci", "virtio-scsi-single", "megasas", "pvscsi"]),
    ),
    field("searchdomain", TEXT),
    field("shares", Kind::Int(Some(0), Some(50_000))),
    field("smbios1", Kind::Props(&SMBIOS)),
    field("smp", POSITIVE),
    field("sockets", POSITIVE),
    field("spice_enhancements", TEXT),
    field("sshkeys", TEXT),
    field("startdate", TEXT),
    field("startup", TEXT),
    field("tablet", Kind::Bool),
    field("tags", Kind::Format(tags)),
    field("tdf", Kind::Bool),
    field("template", Kind::Bool),
    field("tpmstate0", Kind::Props(&TPMSTATE)),
    field("vcpus", POSITIVE),
    field("vga", TEXT),
    field("vmgenid", TEXT),
    field("vmstatestorage", TEXT),
    field("watchdog", TEXT),
];

/// What the value of an option must be; nothing if there is no such option.
pub(crate) fn option(key: &str) -> Option<&'static Kind> {
    let plain = PLAIN.iter().find(|field| field.name == key).map(|field| &field.kind);
    plain.or_else(|| {
        let (prefix, number) = key.split_at(key.find(|c: char| c.is_ascii_digit())?);
        let number = number.parse().ok().filter(|parsed: &u32| parsed.to_string() == number)?;
        let found = NUMBERED.iter().find(|(known, last, _)| *known == prefix && number <= *last)?;
        Some(&found.2)
    })
}

/// Options whose value is answered as a number.
pub(crate) fn is_number(key: &str) -> bool {
    matches!(option(key), Some(Kind::Bool | Kind::Int(..)))
}

/// Options that only `root@pam` itself may set, never a token.
pub(crate) fn root_only(key: &str) -> bool {
    let name = key.trim_end_matches(|c: char| c.is_ascii_digit());
    matches!(
        name,
        "args"
            | "lock"
            | "hookscript"
            | "parallel"
            | "affinity"
            | "arch"
            | "hugepages"
            | "keephugepages"
            | "ivshmem"
            | "vmgenid"
            | "spice_enhancements"
            | "amd-sev"
            | "intel-tdx"
    )
}

/// Options that a running VM takes over at once.
pub(crate) fn applies_while_running(key: &str) -> bool {
    let name = key.trim_end_matches(|c: char| c.is_ascii_digit());
    matches!(
        name,
        "description"
            | "name"
            | "tags"
            | "onboot"
            | "protection"
            | "startup"
            | "shares"
            | "hookscript"
            | "lock"
            | "vmstatestorage"
            | "migrate_speed"
            | "migrate_downtime"
            | "ciuser"
            | "cipassword"
            | "citype"
            | "ciupgrade"
            | "cicustom"
            | "nameserver"
            | "searchdomain"
            | "sshkeys"
            | "ipconfig"
            | "net"
            | "scsi"
            | "virtio"
            | "unused"
            | "cpuunits"
            | "cpulimit"
            | "balloon"
            | "usb"
    )
}

pub(crate) const NET: Props = Props {
    default_key: Some("model"),
    fields: &[&[
        required("model", Kind::Enum(MODELS)),
        field("bridge", TEXT),
        field("firewall", Kind::Bool),
        field("link_down", Kind::Bool),
        field("macaddr", Kind::Format(mac)),
        field("mtu", Kind::Int(Some(1), Some(65_520))),
        field("queues", Kind::Int(Some(0), Some(64))),
        field("rate", Kind::Number(Some(0.0), None)),
        field("tag", Kind::Int(Some(1), Some(4094))),
        field("trunks", TEXT),
    ]],
    aliases: &[],
    key_alias: Some(("model", "macaddr", MODELS)),
};

const MODELS: &[&str] = &[
    "e1000",
    "e1000-82540em",
    "e1000-82544gc",
    "e1000-82545em",
    "e1000e",
    "i82551",
    "i82557b",
    "i82559er",
    "ne2k_isa",
    "ne2k_pci",
    "pcnet",
    "rtl8139",
    "virtio",
    "vmxnet3",
];

const FILE: &[Field] = &[
    required("file", TEXT),
    field("format", Kind::Enum(&["raw", "qcow", "qed", "qcow2", "vmdk", "cloop"])),
    field("import-from", TEXT),
    field("size", Kind::Pattern(disk_size)),
];

const DISK: &[Field] = &[
    field("aio", Kind::Enum(&["native", "threads", "io_uring"])),
    field("backup", Kind::Bool),
    field("bps", Kind::Int(None, None)),
    field("bps_max_length", POSITIVE),
    field("bps_rd", Kind::Int(None, None)),
    field("bps_rd_max_length", POSITIVE),
    field("bps_wr", Kind::Int(None, None)),
    field("bps_wr_max_length", POSITIVE),
    field("cache", Kind::Enum(&["none", "writethrough", "writeback", "unsafe", "directsync"])),
    field("detect_zeroes", Kind::Bool),
    field("discard", Kind::Enum(&["ignore", "on"])),
    field("iops", Kind::Int(None, None)),
    field("iops_max", Kind::Int(None, None)),
    field("iops_max_length", POSITIVE),
    field("iops_rd", Kind::Int(None, None)),
    field("iops_rd_max", Kind::Int(None, None)),
    field("iops_rd_max_length", POSITIVE),
    field("iops_wr", Kind::Int(None, None)),
    field("iops_wr_max", Kind::Int(None, None)),
    field("iops_wr_max_length", POSITIVE),
    field("mbps", Kind::Number(None, None)),
    field("mbps_max", Kind::Number(None, None)),
    field("mbps_rd", Kind::Number(None, None)),
    field("mbps_rd_max", Kind::Number(None, None)),
    field("mbps_wr", Kind::Number(None, None)),
    field("mbps_wr_max", Kind::Number(None, None)),
    field("media", Kind::Enum(&["cdrom", "disk"])),
    field("replicate", Kind::Bool),
    field("rerror", Kind::Enum(&["ignore", "report", "stop"])),
    field("serial", Kind::Text(60)),
    field("shared", Kind::Bool),
    field("snapshot", Kind::Bool),
    field("werror", Kind::Enum(&["enospc", "ignore", "report", "stop"])),
];
const IOTHREAD: &[Field] = &[field("iothread", Kind::Bool), field("ro", Kind::Bool)];
const SSD_WWN: &[Field] = &[field("ssd", Kind::Bool), field("wwn", Kind::Pattern(wwn))];
const SCSI_ONLY: &[Field] = &[
    field("product", TEXT),
    field("queues", Kind::Int(Some(2), None)),
    field("scsiblock", Kind::Bool),
    field("vendor", TEXT),
];

const fn drive(fields: &'static [&'static [Field]]) -> Props {
    Props { default_key: Some("file"), fields, aliases: DRIVE_ALIASES, key_alias: None }
}

const DRIVE_ALIASES: &[(&str, &str)] = &[
    ("volume", "file"),
    ("bps_rd_length", "bps_rd_max_length"),
    ("bps_wr_length", "bps_wr_max_length"),
    ("iops_rd_length", "iops_rd_max_length"),
    ("iops_wr_length", "iops_wr_max_length"),
];

const IDE: Props = drive(&[FILE, DISK, SSD_WWN, &[field("model", TEXT)]]);
const SATA: Props = drive(&[FILE, DISK, SSD_WWN]);
const SCSI: Props = drive(&[FILE, DISK, SSD_WWN, IOTHREAD, SCSI_ONLY]);
const VIRTIO: Props = drive(&[FILE, DISK, IOTHREAD]);
const EFIDISK: Props = drive(&[
    FILE,
    &[
        field("efitype", Kind::Enum(&["2m", "4m"])),
        field("ms-cert", Kind::Enum(&["2011", "2023", "2023w", "2023k"])),
        field("pre-enrolled-keys", Kind::Bool),
    ],
]);
const TPMSTATE: Props = drive(&[FILE, &[field("version", Kind::Enum(&["v1.2", "v2.0"]))]]);

/// The property string of a drive option, if the option is one.
pub(crate) fn drive_props(key: &str) -> Option<&'static Props> {
    match option(key) {
        Some(Kind::Props(props)) if props.default_key == Some("file") => Some(props),
        _ => None,
    }
}

const AGENT: Props = Props {
    default_key: Some("enabled"),
    fields: &[&[
        required("enabled", Kind::Bool),
        field("freeze-fs", Kind::Bool),
        field("fstrim_cloned_disks", Kind::Bool),
        field("type", Kind::Enum(&["virtio", "isa"])),
    ]],
    aliases: &[("freeze-fs-on-backup", "freeze-fs"), ("guest-fsfreeze", "freeze-fs")],
    key_alias: None,
};

const MEMORY: Props = Props {
    default_key: Some("current"),
    fields: &[&[required("current", Kind::Int(Some(16), None))]],
    aliases: &[],
    key_alias: None,
};

pub(crate) const IPCONFIG: Props = Props {
    default_key: None,
    fields: &[&[
        with("gw", Kind::Format(ipv4), "ip"),
        with("gw6", Kind::Format(ipv6), "ip6"),
        field("ip", Kind::Format(ipv4_config)),
        field("ip6", Kind::Format(ipv6_config)),
    ]],
    aliases: &[],
    key_alias: None,
};

pub(crate) const SMBIOS: Props = Props {
    default_key: None,
    fields: &[&[
        field("base64", Kind::Bool),
        field("family", Kind::Pattern(base64)),
        field("manufacturer", Kind::Pattern(base64)),
        field("product", Kind::Pattern(base64)),
        field("serial", Kind::Pattern(base64)),
        field("sku", Kind::Pattern(base64)),
        field("uuid", Kind::Pattern(|value| value.len() == 36 && value.parse::<uuid::Uuid>().is_ok())),
        field("version", Kind::Pattern(base64)),
    ]],
    aliases: &[],
    key_alias: None,
};

fn vm_id(value: &str) -> Result<(), String> {
    let good = value.len() <= 9 && !value.starts_with('0') && value.parse::<u32>().is_ok_and(|id| id >= 100);
    if good { Ok(()) } else { Err("value does not look like a valid VM ID".to_owned()) }
}

fn dns_name(value: &str) -> Result<(), String> {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if value.split('.').all(label) {
        Ok(())
    } else {
        Err("value does not look like a valid DNS name".to_owned())
    }
}

fn mac(value: &str) -> Result<(), String> {
    let pair = |pair: &str| pair.len() == 2 && pair.chars().all(|c| c.is_ascii_hexdigit());
    let unicast = u8::from_str_radix(value.get(..2).unwrap_or("ff"), 16).is_ok_and(|first| first & 1 == 0);
    let good = value.split(':').count() == 6 && value.split(':').all(pair) && unicast;
    if good { Ok(()) } else { Err("value does not look like a valid unicast MAC address".to_owned()) }
}

fn ipv4(value: &str) -> Result<(), String> {
    value
        .parse::<Ipv4Addr>()
        .map(drop)
        .map_err(|_| "value does not look like a valid ipv4 address".to_owned())
}

fn ipv6(value: &str) -> Result<(), String> {
    value
        .parse::<Ipv6Addr>()
        .map(drop)
        .map_err(|_| "value does not look like a valid ipv6 address".to_owned())
}

fn ipv4_config(value: &str) -> Result<(), String> {
    let good = matches!(value, "dhcp" | "manual") || value.parse::<ipnet::Ipv4Net>().is_ok();
    if good { Ok(()) } else { Err("value does not look like a valid ipv4 network configuration".to_owned()) }
}

fn ipv6_config(value: &str) -> Result<(), String> {
    let good = matches!(value, "auto" | "dhcp" | "manual") || value.parse::<ipnet::Ipv6Net>().is_ok();
    if good { Ok(()) } else { Err("value does not look like a valid ipv6 network configuration".to_owned()) }
}

fn addresses(value: &str) -> Result<(), String> {
    let good = value
        .split([' ', ',', ';'])
        .filter(|part| !part.is_empty())
        .all(|part| part.parse::<IpAddr>().is_ok());
    if good { Ok(()) } else { Err("value does not look like a valid address".to_owned()) }
}

fn tags(value: &str) -> Result<(), String> {
    let tag = |tag: &str| {
        tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && tag.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '.'))
    };
    let good = value.split([' ', ',', ';']).filter(|part| !part.is_empty()).all(tag);
    if good { Ok(()) } else { Err("invalid characters in tag".to_owned()) }
}

fn boot(value: &str) -> Result<(), String> {
    let Some(order) = value.strip_prefix("order=") else { return Ok(()) };
    match order.split([';', ',']).filter(|d| !d.is_empty()).find(|device| option(device).is_none()) {
        Some(device) => Err(format!("invalid boot device '{device}'")),
        None => Ok(()),
    }
}

fn disk_size(value: &str) -> bool {
    super::drive::parse_size(value).is_some()
}

fn wwn(value: &str) -> bool {
    value.strip_prefix("0x").is_some_and(|hex| hex.len() == 16 && hex.chars().all(|c| c.is_ascii_hexdigit()))
}

fn base64(value: &str) -> bool {
    let body = value.trim_end_matches('=');
    !body.is_empty()
        && value.len() - body.len() <= 2
        && body.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '/'))
}
