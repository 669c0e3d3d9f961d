//! Every code, with what `explain` says about it.
//!
//! Code and explanation are made by one macro, so that none can be without the other. The examples are pieces of a file; a
//! test lays each over a sound file and sees that the bad one has the problem and the good one does not.
//!
//! TS00 reading · TS01 shape · TS02 names and forms · TS03 versions · TS04 network · TS05 Proxmox · TS06 nodes

/// What `explain` says about one code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explanation {
    /// The code.
    pub code: &'static str,
    /// A few words.
    pub title: &'static str,
    /// A paragraph: what it means, and why it matters.
    pub text: &'static str,
    /// A piece of a file that has the problem; empty where the problem lies outside the file.
    pub bad: &'static str,
    /// The same, mended.
    pub good: &'static str,
}

macro_rules! codes {
    ($($name:ident $code:literal $title:literal $text:literal bad $bad:literal good $good:literal)*) => {
        $(#[doc = $title] pub const $name: &str = $code;)*

        /// Every code there is, in order.
        pub static ALL: &[Explanation] = &[
            $(Explanation { code: $code, title: $title, text: $text, bad: $bad, good: $good }),*
        ];
    };
}

/// The explanation of a code, written in any case.
#[must_use]
pub fn explain(code: &str) -> Option<&'static Explanation> {
    ALL.iter().find(|explanation| explanation.code.eq_ignore_ascii_case(code))
}

codes! {
    NOT_YAML "TS0001" "The file is not valid YAML"
        "The text cannot be read as YAML, so nothing in it could be checked. The place is where reading stopped; the mistake is often on the line before it."
        bad "cluster: [home\n" good "cluster: home\n"
    KEY_TWICE "TS0002" "A key is set twice"
        "The same key stands twice in one mapping, or in two files that are read together. Which one counts would be an accident, so neither does."
        bad "network:\n  cidr: 10.25.150.0/24\n  gateway: 10.25.150.1\n  gateway: 10.25.150.2\n" good "network:\n  cidr: 10.25.150.0/24\n  gateway: 10.25.150.1\n"
    EMPTY "TS0003" "The file is empty"
        "A cluster file is a mapping of keys to values, and this one holds no keys."
        bad "" good "cluster: home\n"
    TOO_LARGE "TS0004" "The file is too large"
        "No cluster file is larger than 16 MiB. This is most likely another file."
        bad "" good "cluster: home\n"

    UNKNOWN_KEY "TS0101" "A key that is not known"
        "Keys that are not known are refused, because a misspelt key that is silently ignored costs an evening."
        bad "network:\n  cidr: 10.25.150.0/24\n  gatway: 10.25.150.1\n  gateway: 10.25.150.1\n" good "network:\n  cidr: 10.25.150.0/24\n  gateway: 10.25.150.1\n"
    MISSING_KEY "TS0102" "A key is missing"
        "Most keys can be left out, because what they say can be derived. This one cannot."
        bad "versions:\n  talos: v1.13.9\n" good "versions:\n  talos: v1.13.9\n  kubernetes: v1.35.4\n"
    WRONG_TYPE "TS0103" "A value of the wrong kind"
        "The key is right, but its value is a text where a number belongs, a single value where a list belongs, or the like. Numbers where a text belongs are fine and keep their digits."
        bad "protect: often\n" good "protect: true\n"
    NOT_A_CHOICE "TS0104" "Not one of the possible values"
        "This key takes one of a few words."
        bad "image:\n  arch: x86\n" good "image:\n  arch: amd64\n"

    BAD_NAME "TS0201" "Not a usable name"
        "Names become VM names, host names and Kubernetes node names, so they are made of lower case letters, digits and `-`, begin and end with a letter or digit, and have 63 characters at most. The names of Proxmox hosts may have capital letters."
        bad "cluster: My_Cluster\n" good "cluster: my-cluster\n"
    BAD_SIZE "TS0202" "Not a usable size"
        "Memory is written as `8G`, `8192M` or a plain number of MiB; a disk as `32G`, `1T` or a plain number of GiB. Units are powers of 1024."
        bad "defaults:\n  worker: { memory: lots }\n" good "defaults:\n  worker: { memory: 8G }\n"
    BAD_TAG "TS0203" "Not a usable Proxmox tag"
        "Proxmox tags are made of lower case letters, digits and `_`, and after the first character also `-`, `+` and `.`."
        bad "proxmox: { endpoint: \"https://pve1:8006\", tags: [\"my tag\"] }\n" good "proxmox: { endpoint: \"https://pve1:8006\", tags: [my-tag] }\n"
    BAD_LABEL "TS0204" "Not a usable Kubernetes label"
        "A label's name has at most 63 letters, digits, `-`, `_` and `.`, and may follow a DNS name and a `/`. Its value has the same form and may be empty."
        bad "nodes:\n  extra: { role: worker, address: 10.25.150.40, labels: { \"a b\": x } }\n" good "nodes:\n  extra: { role: worker, address: 10.25.150.40, labels: { a-b: x } }\n"
    BAD_URL "TS0205" "Not a usable URL"
        "A URL here is a scheme, a host and perhaps a port: `https://HOST:PORT`. User names, paths and queries have no place in it."
        bad "proxmox: { endpoint: \"pve1\" }\n" good "proxmox: { endpoint: \"https://pve1:8006\" }\n"
    BAD_EXTENSION "TS0206" "Not a usable system extension"
        "Official extensions are named `OWNER/NAME`, for example `siderolabs/qemu-guest-agent`."
        bad "image:\n  extensions: [qemu-guest-agent]\n" good "image:\n  extensions: [siderolabs/qemu-guest-agent]\n"

    BAD_VERSION "TS0301" "Not a version"
        "A version has three numbers, with or without a leading `v`, and perhaps a pre-release: `v1.13.9`, `1.14.0-rc.1`."
        bad "versions: { talos: latest, kubernetes: v1.35.4 }\n" good "versions: { talos: v1.13.9, kubernetes: v1.35.4 }\n"
    TALOS_UNSUPPORTED "TS0302" "A Talos version that is not supported"
        "Machines run Talos 1.12, 1.13 or 1.14: what is supported upstream and was tried."
        bad "versions: { talos: v1.9.0, kubernetes: v1.32.0 }\n" good "versions: { talos: v1.13.9, kubernetes: v1.35.4 }\n"
    PAIR_UNSUPPORTED "TS0303" "Talos and Kubernetes versions that do not go together"
        "Each Talos release supports six Kubernetes releases: 1.12 supports 1.30 to 1.35, 1.13 supports 1.31 to 1.36, 1.14 supports 1.32 to 1.37. Talos refuses others when it boots, so it is refused here."
        bad "versions: { talos: v1.13.9, kubernetes: v1.29.0 }\n" good "versions: { talos: v1.13.9, kubernetes: v1.35.4 }\n"

    BAD_ADDRESS "TS0401" "Not an IPv4 address"
        "Addresses are four numbers from 0 to 255 with dots between them, without a prefix length."
        bad "network: { cidr: 10.25.150.0/24, gateway: banana }\n" good "network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1 }\n"
    BAD_NETWORK "TS0402" "Not an IPv4 network"
        "A network is its first address and a prefix length: `10.25.150.0/24`. For nodes the length is 8 to 29."
        bad "network: { cidr: 10.25.150.5/24, gateway: 10.25.150.1 }\n" good "network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1 }\n"
    OUTSIDE_NETWORK "TS0403" "An address outside the network"
        "Nodes, gateway and VIP live in `network.cidr`: the VIP is announced there by ARP, and nodes reach their gateway without a router."
        bad "network: { cidr: 10.25.150.0/24, gateway: 10.25.151.1 }\n" good "network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1 }\n"
    ADDRESS_TAKEN "TS0404" "An address that is spoken for"
        "The first and the last address of a network, the gateway and the VIP cannot be a node's address, and gateway and VIP cannot be the same."
        bad "network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.1 }\n" good "network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }\n"
    ADDRESS_TWICE "TS0405" "Two nodes with one address"
        "Two nodes would answer at the same address. Both places are shown; where a pool's range made the address, the pool is."
        bad "nodes:\n  a: { role: worker, address: 10.25.150.40 }\n  b: { role: worker, address: 10.25.150.40 }\n" good "nodes:\n  a: { role: worker, address: 10.25.150.40 }\n  b: { role: worker, address: 10.25.150.41 }\n"
    NETWORKS_OVERLAP "TS0406" "Networks that overlap"
        "Nodes, pods and services each need a network of their own. Where two overlap, some addresses can no longer be reached, and it shows only later."
        bad "kubernetes: { pod_cidr: 10.25.0.0/16 }\n" good "kubernetes: { pod_cidr: 10.244.0.0/16 }\n"
    BAD_VLAN "TS0407" "Not a VLAN tag"
        "VLAN tags are 1 to 4094."
        bad "network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vlan: 4095 }\n" good "network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vlan: 150 }\n"
    BAD_MTU "TS0408" "Not a usable MTU"
        "The MTU is 1280 to 65520: Proxmox allows no more, and Kubernetes' networks need that much."
        bad "network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, mtu: 150 }\n" good "network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, mtu: 1500 }\n"
    BAD_MAC "TS0409" "Not a usable MAC address"
        "A MAC address is six pairs of hexadecimal digits with colons between them. The first must be even, because an odd one addresses a group, not one card."
        bad "nodes:\n  a: { role: worker, address: 10.25.150.40, mac: \"BC:24:11:xx:00:01\" }\n" good "nodes:\n  a: { role: worker, address: 10.25.150.40, mac: \"BC:24:11:00:00:01\" }\n"
    MAC_TWICE "TS0410" "Two nodes with one MAC address"
        "Two network cards with the same MAC address disturb each other in one network. When the address was derived from the nodes' names, which is rare, give one of the two a `mac` of its own."
        bad "nodes:\n  a: { role: worker, address: 10.25.150.40, mac: \"BC:24:11:00:00:01\" }\n  b: { role: worker, address: 10.25.150.41, mac: \"bc:24:11:00:00:01\" }\n" good "nodes:\n  a: { role: worker, address: 10.25.150.40, mac: \"BC:24:11:00:00:01\" }\n  b: { role: worker, address: 10.25.150.41, mac: \"BC:24:11:00:00:02\" }\n"
    RANGE_FULL "TS0411" "A range too small for its pool"
        "The pool has more nodes than its range of addresses or VM ids has places. A control-plane pool without a range of its own has .11 to .20."
        bad "pools:\n  control: { role: controlplane, count: 3, addresses: 10.25.150.11-10.25.150.12 }\n  work: { role: worker, count: 2 }\n" good "pools:\n  control: { role: controlplane, count: 3, addresses: 10.25.150.11-10.25.150.13 }\n  work: { role: worker, count: 2 }\n"
    RANGE_MISSING "TS0412" "A pool without a range of addresses"
        "One pool of each role may leave `addresses` out. With two of them, adding a pool could move the addresses of another, so all but one name their own."
        bad "pools:\n  control: { role: controlplane, count: 3 }\n  big: { role: worker, count: 2 }\n  small: { role: worker, count: 2 }\n" good "pools:\n  control: { role: controlplane, count: 3 }\n  big: { role: worker, count: 2 }\n  small: { role: worker, count: 2, addresses: 10.25.150.41 }\n"
    BAD_RANGE "TS0413" "Not a usable range"
        "A range is its first value, or its first and last value with a `-` between them, in that order."
        bad "pools:\n  control: { role: controlplane, count: 3, addresses: 10.25.150.19-10.25.150.11 }\n" good "pools:\n  control: { role: controlplane, count: 3, addresses: 10.25.150.11-10.25.150.19 }\n  work: { role: worker, count: 2 }\n"
    ADDRESS_MISSING "TS0414" "A node without an address"
        "A node that no pool makes has no range to take an address from, so it names its own."
        bad "nodes:\n  extra: { role: worker }\n" good "nodes:\n  extra: { role: worker, address: 10.25.150.40 }\n"
    RANGES_OVERLAP "TS0415" "Ranges that overlap"
        "Two pools name ranges that share addresses. Today's nodes may not collide, but tomorrow's would."
        bad "pools:\n  control: { role: controlplane, count: 3, addresses: 10.25.150.11-10.25.150.30 }\n  work: { role: worker, count: 1, addresses: 10.25.150.30-10.25.150.39 }\n" good "pools:\n  control: { role: controlplane, count: 3, addresses: 10.25.150.11-10.25.150.20 }\n  work: { role: worker, count: 1, addresses: 10.25.150.30-10.25.150.39 }\n"

    SECRET_IN_FILE "TS0501" "A secret in the file"
        "Files are committed, sent and shown; secrets must not be in them. Say where the secret is found instead: in an environment variable, a file, or what a command prints."
        bad "proxmox: { endpoint: \"https://pve1:8006\", token: \"root@pam!smith=1234\" }\n" good "proxmox: { endpoint: \"https://pve1:8006\", token: \"env:PROXMOX_VE_API_TOKEN\" }\n"
    TLS_CONTRADICTION "TS0502" "TLS settings that contradict each other"
        "The server's certificate is trusted by its fingerprint, by the authority that signed it, or not verified at all. Only one of them can be meant."
        bad "proxmox: { endpoint: \"https://pve1:8006\", insecure: true, ca: pve-root-ca.pem }\n" good "proxmox: { endpoint: \"https://pve1:8006\", ca: pve-root-ca.pem }\n"
    ENDPOINT_CHOICE "TS0503" "No Proxmox endpoint, or two ways of giving it"
        "Give `endpoint`, or `endpoints` when several hosts of one Proxmox cluster can answer."
        bad "proxmox: { insecure: true }\n" good "proxmox: { endpoint: \"https://pve1:8006\" }\n"
    BAD_VMID "TS0504" "Not a VM id"
        "Proxmox takes VM ids from 100 to 999999999."
        bad "proxmox: { endpoint: \"https://pve1:8006\", record: 42 }\n" good "proxmox: { endpoint: \"https://pve1:8006\", record: 1042 }\n"
    VMID_TWICE "TS0505" "Two VMs with one id"
        "VM ids are unique in a Proxmox cluster. The cluster's record is a VM too."
        bad "nodes:\n  a: { role: worker, address: 10.25.150.40, vmid: 900 }\n  b: { role: worker, address: 10.25.150.41, vmid: 900 }\n" good "nodes:\n  a: { role: worker, address: 10.25.150.40, vmid: 900 }\n  b: { role: worker, address: 10.25.150.41, vmid: 901 }\n"
    BAD_FINGERPRINT "TS0506" "Not a SHA-256 fingerprint"
        "A fingerprint is 32 pairs of hexadecimal digits, with or without colons. Proxmox shows it under Certificates of each host."
        bad "proxmox: { endpoint: \"https://pve1:8006\", fingerprint: \"12:34\" }\n" good "proxmox: { endpoint: \"https://pve1:8006\", ca: pve-root-ca.pem }\n"
    NO_DATASTORE "TS0507" "No datastore that fits"
        "The boot image needs a datastore that takes content `import`, the disks one that takes `images`. The host has none, or the one that the file names is not there or does not take it. In Proxmox: Datacenter, Storage, Edit, Content."
        bad "" good ""
    UNKNOWN_TO_PROXMOX "TS0508" "A host that Proxmox does not have"
        "The file names a host that is no member of this Proxmox cluster. Names are those that Proxmox shows, without a domain."
        bad "" good ""
    NO_HOST "TS0509" "No host to choose from"
        "A node names no host, and none of those that it may run on is online, or all of them have weight 0."
        bad "hosts:\n  pve1: { weight: 0 }\n" good "hosts:\n  pve1: {}\n"

    UNKNOWN_REFERENCE "TS0601" "A name that stands for nothing"
        "A pool or node refers to a host, a size or a pool that the file does not define."
        bad "pools:\n  control: { role: controlplane, count: 3, size: smal }\n  work: { role: worker, count: 1 }\nsizes: { small: { cpu: 2 } }\n" good "pools:\n  control: { role: controlplane, count: 3, size: small }\n  work: { role: worker, count: 1 }\nsizes: { small: { cpu: 2 } }\n"
    NO_CONTROL_PLANE "TS0602" "No control plane"
        "A cluster needs at least one control plane; three survive the loss of one."
        bad "pools:\n  work: { role: worker, count: 2 }\n" good "pools:\n  control: { role: controlplane, count: 1 }\n  work: { role: worker, count: 2 }\n"
    EVEN_CONTROL_PLANES "TS0603" "An even number of control planes"
        "etcd needs more than half of its members. Four survive the loss of one, as three do, and have one more that can fail; two survive none."
        bad "pools:\n  control: { role: controlplane, count: 2 }\n  work: { role: worker, count: 2 }\n" good "pools:\n  control: { role: controlplane, count: 3 }\n  work: { role: worker, count: 2 }\n"
    NO_WORKLOADS "TS0604" "No node that may run workloads"
        "There is no worker, and control planes take no workloads unless the file allows it."
        bad "pools:\n  control: { role: controlplane, count: 3 }\n" good "pools:\n  control: { role: controlplane, count: 3 }\nkubernetes: { schedule_on_control_planes: true }\n"
    MEMORY_LOW "TS0605" "Too little memory"
        "Talos checks at boot and wants 1698 MiB for a control plane and 874 MiB for a worker."
        bad "defaults: { controlplane: { memory: 1G } }\n" good "defaults: { controlplane: { memory: 4G } }\n"
    DISK_SMALL "TS0606" "Too small a disk"
        "Talos needs a boot disk of 6 GiB at least."
        bad "defaults: { worker: { disk: 4G } }\n" good "defaults: { worker: { disk: 40G } }\n"
    NO_ROLE "TS0607" "A node without a role"
        "A node has a `role`, or belongs to a `pool` that has one, or has a name that a pool makes."
        bad "nodes:\n  extra: { address: 10.25.150.40 }\n" good "nodes:\n  extra: { role: worker, address: 10.25.150.40 }\n"
    ROLE_CONFLICT "TS0608" "A node whose role is not that of its pool"
        "All nodes of a pool have the pool's role."
        bad "nodes:\n  extra: { pool: work, role: controlplane, address: 10.25.150.40 }\n" good "nodes:\n  extra: { pool: work, address: 10.25.150.40 }\n"
    NAME_TAKEN "TS0609" "Two VMs with one name"
        "Names of nodes are unique, and `CLUSTER-record` is the name of the cluster's record. Pools called `a` and `a-1` can make the same name."
        bad "nodes:\n  home-record: { role: worker, address: 10.25.150.40 }\n" good "nodes:\n  home-extra: { role: worker, address: 10.25.150.40 }\n"
    CPU_COUNT "TS0610" "Not a usable number of cores"
        "A VM has 1 to 512 cores. Kubernetes' control plane wants 2."
        bad "defaults: { worker: { cpu: 0 } }\n" good "defaults: { worker: { cpu: 2 } }\n"
    TOO_MANY "TS0611" "Too many nodes in a pool"
        "No Kubernetes cluster has more than 10,000 nodes in a pool; this count is most likely a slip."
        bad "pools:\n  control: { role: controlplane, count: 3 }\n  work: { role: worker, count: 100000 }\n" good "pools:\n  control: { role: controlplane, count: 3 }\n  work: { role: worker, count: 10 }\n"
}

#[cfg(test)]
mod tests;
