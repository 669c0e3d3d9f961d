//! Names, numbers and marks that derive from what a node is called, and from nothing else.

use std::net::Ipv4Addr;

use sha2::{Digest, Sha256};
use uuid::{Uuid, uuid};

/// Under which our UUIDs are made. It must never change: every VM of every cluster is recognised by it.
const NAMESPACE: Uuid = uuid!("6f1c1f0e-6d0b-5d8e-9a55-2f0f5c5c7a11");

/// Name of the cluster record VM.
pub(crate) fn record_name(cluster: &str) -> String {
    format!("{cluster}-record")
}

/// Name of a pool's node, counted from 1.
pub fn node_name(cluster: &str, pool: &str, ordinal: u32) -> String {
    format!("{cluster}-{pool}-{ordinal}")
}

/// SMBIOS UUID of a node. The id comes from the secrets bundle, so that two clusters of one name stay apart.
pub(crate) fn node_uuid(cluster_id: &str, node: &str) -> Uuid {
    Uuid::new_v5(&NAMESPACE, format!("{cluster_id}/{node}").as_bytes())
}

/// SMBIOS UUID of the record. No node can have it, because no name starts with a slash.
pub(crate) fn record_uuid(cluster_id: &str) -> Uuid {
    Uuid::new_v5(&NAMESPACE, format!("{cluster_id}//record").as_bytes())
}

/// MAC address in Proxmox's own prefix. It derives from the names, not from the bundle: it must be the same before and
/// after there is one.
pub(crate) fn mac(cluster: &str, node: &str) -> String {
    let hash = Sha256::digest(format!("{cluster}/{node}").as_bytes());
    format!("BC:24:11:{:02X}:{:02X}:{:02X}", hash[0], hash[1], hash[2])
}

/// MAC address of a card in an extra network. No node's first card can have it by name, because names hold no slash.
pub(crate) fn extra_mac(cluster: &str, node: &str, network: &str) -> String {
    mac(cluster, &format!("{node}/{network}"))
}

/// World wide name of a data disk, by which Talos finds it: `0x5`, the kind that names itself, and 15 digits.
pub(crate) fn wwn(cluster: &str, node: &str, disk: &str) -> String {
    format!("0x5{}", &disk_hash(cluster, node, disk)[..15])
}

/// Serial number of a data disk: 20 characters, which is all that virtio has room for.
pub(crate) fn serial(cluster: &str, node: &str, disk: &str) -> String {
    disk_hash(cluster, node, disk)[..20].to_owned()
}

/// A number that only the name decides.
pub(crate) fn number_of(name: &str) -> usize {
    let hash = Sha256::digest(name.as_bytes());
    usize::from(hash[0]) << 8 | usize::from(hash[1])
}

fn disk_hash(cluster: &str, node: &str, disk: &str) -> String {
    hex::encode(Sha256::digest(format!("{cluster}/{node}/disk/{disk}").as_bytes()))
}

/// VM id that mirrors an address: 10.25.150.11 has 150011. A third octet of 0 counts as 256, because ids below 100 are
/// Proxmox's own.
pub(crate) fn mirrored_vmid(address: Ipv4Addr) -> u32 {
    let [_, _, third, fourth] = address.octets();
    let third = if third == 0 { 256 } else { u32::from(third) };
    third * 1000 + u32::from(fourth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_mirror_addresses() {
        assert_eq!(mirrored_vmid(Ipv4Addr::new(10, 25, 150, 11)), 150_011);
        assert_eq!(mirrored_vmid(Ipv4Addr::new(192, 168, 0, 11)), 256_011);
        assert_eq!(mirrored_vmid(Ipv4Addr::new(192, 168, 1, 1)), 1001);
    }

    #[test]
    fn marks_never_change() {
        // Were one of these to change, a new version would not recognise the machines of an old one.
        insta::assert_snapshot!(mac("home", "home-control-1"), @"BC:24:11:A1:B3:F7");
        insta::assert_snapshot!(node_uuid("c1", "home-control-1"), @"8115cc13-1133-56b0-b6e2-c1e8e0c09cad");
        insta::assert_snapshot!(record_uuid("c1"), @"668fd94d-c4ab-5d4b-93ca-db332803b6df");
        insta::assert_snapshot!(wwn("home", "home-work-1", "longhorn"), @"0x59387dea28bb01e3");
        insta::assert_snapshot!(serial("home", "home-work-1", "longhorn"), @"9387dea28bb01e3ac8f6");
        insta::assert_snapshot!(extra_mac("home", "home-work-1", "storage"), @"BC:24:11:CB:78:6E");
    }
}
