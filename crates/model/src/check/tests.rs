//! Each check with a file that has the problem, and all that is said about it.

use crate::diagnostic::{Source, render};
use crate::load::load;

/// The problems of a small sound file in which the given lines replace those of the same keys.
fn problems_with(replaced: &str) -> String {
    let sound = "cluster: home
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: https://pve1:8006 }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }
pools: { control: { role: controlplane, count: 3 }, work: { role: worker, count: 2 } }
";
    let key = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
    let given: Vec<String> = replaced.lines().filter(|line| !line.starts_with(' ')).map(key).collect();
    let mut text: String =
        sound.lines().filter(|line| !given.contains(&key(line))).map(|line| format!("{line}\n")).collect();
    text.push_str(replaced);
    let loaded = load(&[Source::new("c.yaml", &text)])
        .unwrap_or_else(|failed| panic!("{}", render(&failed.diagnostics)));
    let lines: Vec<&str> = text.lines().collect();
    // The lines are shown with what they hold, because the numbers depend on the replacement.
    render(&loaded.check())
        .lines()
        .map(|line| match line.strip_prefix("  at c.yaml:") {
            Some(rest) => {
                let mut parts = rest.splitn(2, ' ');
                let at = parts.next().unwrap();
                let (number, rest_of_place) = at.split_once(':').unwrap();
                let (column, length) = rest_of_place.split_once('+').unwrap();
                let line = lines[number.parse::<usize>().unwrap() - 1];
                let start = column.parse::<usize>().unwrap() - 1;
                let shown = &line[start..start + length.parse::<usize>().unwrap()];
                format!("  at {} «{shown}»\n", parts.next().unwrap())
            }
            None => format!("{line}\n"),
        })
        .collect()
}

#[test]
fn a_sound_file_has_no_problems() {
    assert_eq!(problems_with(""), "");
}

#[test]
fn names() {
    insta::assert_snapshot!(problems_with("cluster: My_Home
pools: { Control: { role: controlplane, count: 3 }, work-: { role: worker, count: 2 } }
nodes: { big one: { role: worker, address: 10.25.150.40, labels: { a b: x, c: -y } } }
hosts: { pve_1: { zone: a/b }, PVE2: {} }
proxmox: { endpoint: https://pve1:8006, tags: [ok, Not ok] }
kubernetes: { dns_domain: cluster..local }
"), @r#"
error[TS0201] `My_Home` cannot be the name of a cluster
  at cluster «My_Home»
  help: use lower case letters, digits and `-`, 63 characters at most: `my-home`
error[TS0201] `Control` cannot be the name of a pool
  at pools.Control «Control»
  help: use lower case letters, digits and `-`, 63 characters at most: `control`
error[TS0201] `work-` cannot be the name of a pool
  at pools.work- «work-»
  help: use lower case letters, digits and `-`, 63 characters at most: `work`
error[TS0201] `big one` cannot be the name of a node
  at nodes."big one" «big one»
  help: use lower case letters, digits and `-`, 63 characters at most: `big-one`
error[TS0204] `a b` cannot be the name of a label
  at nodes."big one".labels."a b" «a b»
  help: use at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends
error[TS0204] `-y` cannot be the value of a label
  at nodes."big one".labels.c «-y»
  help: use at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends
error[TS0201] `pve_1` cannot be the name of a host
  at hosts.pve_1 «pve_1»
  help: use lower case letters, digits and `-`, 63 characters at most: `pve-1`
error[TS0204] `a/b` cannot be the name of a zone
  at hosts.pve_1.zone «a/b»
  help: use at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends
error[TS0203] `Not ok` cannot be a Proxmox tag
  at proxmox.tags[1] «Not ok»
  help: use lower case letters, digits and `_`, and after the first character also `-`, `+` and `.`
error[TS0201] `cluster..local` cannot be the name of a DNS domain
  at kubernetes.dns_domain «cluster..local»
  help: use lower case letters, digits and `-`, 63 characters at most
"#);
    insta::assert_snapshot!(problems_with("pools:
  control: { role: controlplane, count: 3 }
  a-pool-with-a-name-that-is-quite-a-bit-longer-than-it-should-be: { role: worker, count: 2 }
nodes:
  home-record: { role: worker, address: 10.25.150.40 }
"), @"
error[TS0201] `home-a-pool-with-a-name-that-is-quite-a-bit-longer-than-it-should-be-1` has more than 63 characters
  at pools.a-pool-with-a-name-that-is-quite-a-bit-longer-than-it-should-be: the names of its nodes start with those of cluster and pool «a-pool-with-a-name-that-is-quite-a-bit-longer-than-it-should-be»
  help: shorten the name of the cluster or of the pool
error[TS0609] `home-record` is the name of the cluster record VM
  at nodes.home-record «home-record»
  at cluster «cluster»
  help: rename one of the two
");
    insta::assert_snapshot!(problems_with("pools:
  control: { role: controlplane, count: 3 }
  a: { role: worker, count: 1 }
nodes:
  home-a-1: { pool: a, cpu: 2 }
  home-a-2: { pool: a, address: 10.25.150.40 }
"), @"");
    insta::assert_snapshot!(problems_with("proxmox: { endpoint: https://pve1:8006, region: 'my region' }
defaults: { worker: { kubelet_args: { --v: '4', rotate-server-certificates: 'true' } } }
"), @r#"
error[TS0204] `my region` cannot be the name of a region
  at proxmox.region «'my region'»
  help: use at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends
error[TS0201] `--v` cannot be the name of an argument
  at defaults.worker.kubelet_args.--v «--v»
  help: write it without the dashes before it, as in `rotate-server-certificates`
"#);
}

#[test]
fn versions_and_pairs() {
    insta::assert_snapshot!(problems_with("versions: { talos: latest, kubernetes: 1.35 }\n"), @"
error[TS0301] `latest` is not a version
  at versions.talos «latest»
  help: write all three numbers, as in `v1.2.3`
error[TS0301] `1.35` is not a version
  at versions.kubernetes «1.35»
  help: write all three numbers, as in `v1.2.3`
");
    insta::assert_snapshot!(problems_with("versions: { talos: v1.11.5, kubernetes: v1.30.0 }\n"), @"
error[TS0302] Talos v1.11.5 is not supported
  at versions.talos «v1.11.5»
  help: use Talos 1.12, 1.13 or 1.14
");
    insta::assert_snapshot!(problems_with("versions: { talos: 1.14.0-rc.1, kubernetes: 1.31.0 }\n"), @"
error[TS0303] Talos v1.14.0-rc.1 does not support Kubernetes v1.31.0
  at versions.kubernetes «1.31.0»
  at versions.talos «1.14.0-rc.1»
  help: with this Talos, use Kubernetes 1.32 to 1.37
");
    assert_eq!(problems_with("versions: { talos: 1.12.0, kubernetes: 1.30.0 }\n"), "");
}

#[test]
fn networks() {
    insta::assert_snapshot!(problems_with("network: { cidr: 10.25.150.7/24, gateway: 999.1.1.1, vip: 10.25.150.10/24, dns: [x], ntp: [a b], vlan: 0, mtu: 100, bridge: 'vm br' }\n"), @"
error[TS0402] `10.25.150.7/24` is not a network
  at network.cidr «10.25.150.7/24»
  help: the network of that address is `10.25.150.0/24`
error[TS0401] `999.1.1.1` is not an IPv4 address
  at network.gateway «999.1.1.1»
  help: write four numbers from 0 to 255, for example `10.25.150.11`
error[TS0401] `10.25.150.10/24` is not an IPv4 address
  at network.vip «10.25.150.10/24»
  help: leave out the prefix length: `10.25.150.10`
error[TS0401] `x` is not an IPv4 address
  at network.dns[0] «x»
  help: write four numbers from 0 to 255, for example `10.25.150.11`
error[TS0201] `a b` cannot be the name of a time server
  at network.ntp[0] «a b»
  help: give a host name or an address
error[TS0407] 0 cannot be a VLAN tag
  at network.vlan «0»
  help: use a number from 1 to 4094, or leave it out for none
error[TS0408] 100 cannot be the MTU
  at network.mtu «100»
  help: use a number from 1280 to 65520, or leave it out
error[TS0201] `vm br` cannot be a bridge
  at network.bridge «'vm br'»
  help: give the name that Proxmox shows, for example `vmbr0`
");
    insta::assert_snapshot!(problems_with("network: { cidr: 10.25.150.0/24, gateway: 10.25.150.0, vip: 10.25.151.10 }\n"), @"
error[TS0404] `network.gateway` is 10.25.150.0, the network address of 10.25.150.0/24
  at network.gateway «10.25.150.0»
  help: use another address
error[TS0403] `network.vip` is 10.25.151.10, which is not in 10.25.150.0/24
  at network.vip «10.25.151.10»
  at network.cidr: the network «10.25.150.0/24»
  help: use an address from 10.25.150.1 to 10.25.150.254
");
    insta::assert_snapshot!(problems_with("network: { cidr: 10.25.150.0/24, gateway: 10.25.150.10, vip: 10.25.150.10 }\n"), @"
error[TS0404] gateway and VIP are both 10.25.150.10
  at network.vip «10.25.150.10»
  at network.gateway «10.25.150.10»
  help: give the VIP an address that nothing else has
");
    insta::assert_snapshot!(problems_with("network: { cidr: 10.25.150.0/30, gateway: 10.25.150.1 }\n"), @"
warning[TS0418] 3 control plane nodes are reached at the address of one of them
  at network «network»
  help: add `vip`, or give the address of a load balancer as `endpoint`
error[TS0402] `10.25.150.0/30` has an unusable size
  at network.cidr «10.25.150.0/30»
  help: the prefix length must be 8 to 29
");
    insta::assert_snapshot!(problems_with("network: { cidr: 10.100.0.0/24, gateway: 10.100.0.1 }\nkubernetes: { pod_cidr: 10.96.0.0/16 }\n"), @"
warning[TS0418] 3 control plane nodes are reached at the address of one of them
  at network «network»
  help: add `vip`, or give the address of a load balancer as `endpoint`
error[TS0406] the network of the services, 10.96.0.0/12, overlaps that of the nodes, 10.100.0.0/24
  at network.cidr: the nodes «10.100.0.0/24»
  at kubernetes.service_cidr: the services «kubernetes»
  help: move one of them; `kubernetes.service_cidr` is the easier one to change
error[TS0406] the network of the services, 10.96.0.0/12, overlaps that of the pods, 10.96.0.0/16
  at kubernetes.pod_cidr: the pods «10.96.0.0/16»
  at kubernetes.service_cidr: the services «kubernetes»
  help: move one of them; `kubernetes.service_cidr` is the easier one to change
");
}

#[test]
fn addresses_of_nodes() {
    insta::assert_snapshot!(problems_with("nodes:
  a: { role: worker, address: banana }
  b: { role: worker, address: 10.25.151.40 }
  c: { role: worker, address: 10.25.150.1 }
  d: { role: worker, address: 10.25.150.10 }
  e: { role: worker, address: 10.25.150.255 }
  f: { role: worker, address: 10.25.150.22 }
  g: { role: worker }
"), @"
error[TS0401] `banana` is not an IPv4 address
  at nodes.a.address «banana»
  help: write four numbers from 0 to 255, for example `10.25.150.11`
error[TS0403] the address of `b` is 10.25.151.40, which is not in 10.25.150.0/24
  at nodes.b.address «10.25.151.40»
  at network.cidr: the network «10.25.150.0/24»
  help: use an address from 10.25.150.1 to 10.25.150.254
error[TS0404] the address of `c` is 10.25.150.1, which is `network.gateway`
  at nodes.c.address «10.25.150.1»
  at network.gateway «10.25.150.1»
  help: use another address for one of the two
error[TS0404] the address of `d` is 10.25.150.10, which is `network.vip`
  at nodes.d.address «10.25.150.10»
  at network.vip «10.25.150.10»
  help: use another address for one of the two
error[TS0404] the address of `e` is 10.25.150.255, the broadcast address of 10.25.150.0/24
  at nodes.e.address «10.25.150.255»
  help: use another address
error[TS0405] `home-work-2` and `f` both have the address 10.25.150.22
  at nodes.f.address «10.25.150.22»
  at pools.work «work»
  help: give one of them another address
error[TS0414] the node `g` belongs to no pool and has no address
  at nodes.g «g»
  help: set its `address`
");
}

#[test]
fn a_misspelled_node_of_a_pool_is_named() {
    let problems = problems_with("nodes: { home-wrok-1: { role: worker } }\n");
    assert!(
        problems.contains("TS0414") && problems.contains("help: did you mean `home-work-1`?"),
        "{problems}"
    );
}

#[test]
fn ranges_of_pools() {
    // Thirteen control planes would run into the workers.
    insta::assert_snapshot!(problems_with("pools: { control: { role: controlplane, count: 13 }, work: { role: worker, count: 2 } }\n"), @"
error[TS0411] the pool `control` has 13 nodes, but room for 10 addresses
  at pools.control «control»
  at pools.control.count «13»
  help: widen `addresses`, or lower `count`
");
    insta::assert_snapshot!(problems_with("pools:
  control: { role: controlplane, count: 3, addresses: 10.25.150.11-10.25.150.12, vmids: 200-201 }
  a: { role: worker, count: 2, addresses: 10.25.150.12-10.25.150.30 }
  b: { role: worker, count: 2 }
  c: { role: worker, count: 2 }
  d: { role: worker, count: 2, addresses: 10.25.150.9-10.25.150.2, vmids: 5 }
  e: { role: worker, count: 3, addresses: 10.25.150.253 }
"), @"
error[TS0411] the pool `control` has 3 nodes, but room for 2 addresses
  at pools.control.addresses «10.25.150.11-10.25.150.12»
  at pools.control.count «3»
  help: widen `addresses`, or lower `count`
error[TS0415] the addresses of the pools `a` and `control` overlap
  at pools.control.addresses «10.25.150.11-10.25.150.12»
  at pools.a.addresses «10.25.150.12-10.25.150.30»
  help: keep the ranges apart
error[TS0411] the pool `control` has 3 nodes, but room for 2 VM ids
  at pools.control.vmids «200-201»
  at pools.control.count «3»
  help: widen `vmids`, or lower `count`
error[TS0412] the worker pools `b`, `c` name no addresses
  at pools.b «b»
  at pools.c «c»
  help: give `addresses` to all but one of them
error[TS0413] `10.25.150.9-10.25.150.2` is not a range of addresses
  at pools.d.addresses «10.25.150.9-10.25.150.2»
  help: write the first address, or the first and the last as `10.25.150.31-10.25.150.39`
error[TS0413] `5` is not a range of VM ids
  at pools.d.vmids «5»
  help: write the first id, or the first and the last as `2000-2099`, from 100 to 999999999
error[TS0411] the pool `e` has 3 nodes, but room for 2 addresses
  at pools.e.addresses «10.25.150.253»
  at pools.e.count «3»
  help: widen `addresses`, or lower `count`
");
    insta::assert_snapshot!(problems_with("network: { cidr: 10.25.150.0/28, gateway: 10.25.150.1 }\n"), @"
error[TS0403] the pool `work` would start at 10.25.150.21, which is not in 10.25.150.0/28
  at pools.work «work»
  help: give the pool `addresses` of its own
warning[TS0418] 3 control plane nodes are reached at the address of one of them
  at network «network»
  help: add `vip`, or give the address of a load balancer as `endpoint`
");
}

#[test]
fn ids_and_cards() {
    insta::assert_snapshot!(problems_with("nodes:
  a: { role: worker, address: 10.25.150.40, vmid: 99, mac: 'bc:24:11:00:00:01' }
  b: { role: worker, address: 10.25.150.41, vmid: 150010, mac: 'BC:24:11:00:00:01' }
  c: { role: worker, address: 10.25.150.42, vmid: 150011, mac: 'xx:24:11:00:00:01' }
proxmox: { endpoint: https://pve1:8006 }
"), @"
error[TS0504] 99 cannot be a VM id
  at nodes.a.vmid «99»
  help: use a number from 100 to 999999999
error[TS0505] the cluster record VM and `b` both have the VM id 150010
  at nodes.b.vmid «150010»
  at network.vip «10.25.150.10»
  help: give one of them another VM id
error[TS0410] `a` and `b` both have the MAC address BC:24:11:00:00:01
  at nodes.b.mac «'BC:24:11:00:00:01'»
  at nodes.a.mac «'bc:24:11:00:00:01'»
  help: give one of them another `mac` under `nodes`
error[TS0505] `home-control-1` and `c` both have the VM id 150011
  at nodes.c.vmid «150011»
  at pools.control «control»
  help: give one of them another VM id
error[TS0409] `xx:24:11:00:00:01` cannot be a MAC address
  at nodes.c.mac «'xx:24:11:00:00:01'»
  help: write it as `BC:24:11:00:00:01`, the first pair even
");
}

#[test]
fn by_reading_4_each_host_may_have_a_pin_of_its_own() {
    let pin = &"AB:".repeat(32)[..95];
    let several = "proxmox: { endpoints: ['https://pve1:8006', 'https://pve2:8006'], fingerprints: ";
    assert_eq!(problems_with(&format!("{several}['{pin}', '{pin}'], fingerprint: '{pin}' }}\n")), "");
    let found = problems_with(&format!("{several}['{pin}', 'aa:bb'], ca: pve.pem }}\n"));
    assert!(found.contains("`proxmox` has `fingerprints` and `ca` at once"), "{found}");
    assert!(found.contains("`proxmox.fingerprints[1]` is not a SHA-256 fingerprint"), "{found}");
}

#[test]
fn i16_two_machines_have_two_certificates() {
    let identity = format!("external: true, identity: {{ fingerprint: '{}=' }}", "A".repeat(43));
    let text = format!(
        "nodes: {{ w-1: {{ pool: work, address: 10.25.150.41, {identity} }}, w-2: {{ pool: work, address: 10.25.150.42, {identity} }} }}\n"
    );
    let found = problems_with(&text);
    assert!(found.contains("`w-1` and `w-2` have one fingerprint"), "{found}");
}

#[test]
fn proxmox_and_trust() {
    insta::assert_snapshot!(problems_with("proxmox: { endpoint: pve1, endpoints: ['https://me:pw@pve2:8006'], token: 'root@pam!x=1', insecure: true, fingerprint: 'aa:bb', record: 7 }
endpoint: k8s:6443
image: { factory: factory, extensions: [qemu-guest-agent] }
"), @"
error[TS0503] `proxmox.endpoint` and `proxmox.endpoints` are both given
  at proxmox.endpoint «endpoint»
  at proxmox.endpoints «endpoints»
  help: put all of them in `endpoints`
error[TS0205] `pve1` cannot be a Proxmox endpoint
  at proxmox.endpoint «pve1»
  help: write `https://HOST:8006`
error[TS0205] `********` cannot be a Proxmox endpoint
  at proxmox.endpoints[0] «'https://me:pw@pve2:8006'»
  help: write `https://HOST:8006`
error[TS0501] `proxmox.token` must say where the token is, not what it is
  at proxmox.token «'root@pam!x=1'»
  help: write `env:NAME`, `file:PATH` or `cmd:COMMAND`; a token that was committed should be renewed
error[TS0502] `proxmox` has `fingerprint` and `insecure` at once
  at proxmox.fingerprint «fingerprint»
  at proxmox.insecure «insecure»
  help: keep one of them; a fingerprint or an authority is safe, `insecure` is not
error[TS0506] `proxmox.fingerprint` is not a SHA-256 fingerprint
  at proxmox.fingerprint «'aa:bb'»
  help: copy it from the host's page in Proxmox: System, Certificates, `pve-ssl.pem`
error[TS0504] 7 cannot be a VM id
  at proxmox.record «7»
  help: use a number from 100 to 999999999
error[TS0205] `k8s:6443` cannot be a Kubernetes endpoint
  at endpoint «k8s:6443»
  help: write `https://HOST:6443`
error[TS0205] `factory` cannot be the URL of an Image Factory
  at image.factory «factory»
  help: write `https://HOST`
error[TS0206] `qemu-guest-agent` cannot be a system extension
  at image.extensions[0] «qemu-guest-agent»
  help: write `OWNER/NAME`, for example `siderolabs/qemu-guest-agent`
");
    insta::assert_snapshot!(problems_with("proxmox: { token: 'env:TOKEN' }\n"), @"
error[TS0503] there is no Proxmox endpoint
  at proxmox «proxmox»
  help: add `endpoint: https://HOST:8006`
");
}

#[test]
fn hardware() {
    insta::assert_snapshot!(problems_with("sizes: { tiny: { cpu: 0, memory: 1G, disk: 4G }, odd: { memory: 8GB, disk: huge } }
pools: { control: { role: controlplane, count: 3, size: tiny }, work: { role: worker, count: 2, size: tiny, disk: 10G } }
defaults: { worker: { memory: 8 } }
nodes: { x: { role: worker, address: 10.25.150.40, size: odd } }
"), @"
error[TS0610] a VM cannot have 0 cores
  at sizes.tiny.cpu «0»
  help: use a number from 1 to 512
error[TS0605] `home-control-1` has 1024 MiB of memory, too little for a control plane node
  at sizes.tiny.memory «1G»
  help: Talos wants 1698 MiB at least; a plain number counts MiB
error[TS0606] `home-control-1` has a boot disk of 4 GiB, which is too small
  at sizes.tiny.disk «4G»
  help: Talos wants 6 GiB at least
error[TS0202] `8GB` is not a size of memory
  at sizes.odd.memory «8GB»
  help: write `8G`, `8192M`, or a plain number of MiB
error[TS0202] `huge` is not the size of a disk
  at sizes.odd.disk «huge»
  help: write `32G`, `1T`, or a plain number of GiB
");
}

#[test]
fn references_and_roles() {
    insta::assert_snapshot!(problems_with("hosts: { pve1: {}, pve2: {} }
sizes: { small: { cpu: 2 } }
pools: { control: { role: controlplane, count: 3, size: smal, hosts: [pve1, pve3] }, work: { role: worker, count: 2 } }
nodes:
  a: { address: 10.25.150.40 }
  b: { pool: works, address: 10.25.150.41 }
  c: { pool: work, role: controlplane, host: elsewhere, address: 10.25.150.42 }
  home-work-1: { pool: control }
"), @"
error[TS0601] there is no size called `smal`
  at pools.control.size «smal»
  help: did you mean `small`?
error[TS0601] there is no host called `pve3`
  at pools.control.hosts[1] «pve3»
  help: did you mean `pve1`?
error[TS0607] the node `a` has no role
  at nodes.a «a»
  help: add `role: worker`, `role: controlplane`, or `pool: NAME`
error[TS0601] there is no pool called `works`
  at nodes.b.pool «works»
  help: did you mean `work`?
error[TS0608] the node `c` belongs to the pool `work`, which says otherwise
  at nodes.c.role «controlplane»
  at pools.work «work»
  help: leave out `role`, or rename the node
error[TS0601] there is no host called `elsewhere`
  at nodes.c.host «elsewhere»
  help: add it under `hosts`, or use `pve1`, `pve2`
error[TS0608] the node `home-work-1` belongs to the pool `work`, which says otherwise
  at nodes.home-work-1.pool «control»
  at pools.work «work»
  help: leave out `pool`, or rename the node
");
    insta::assert_snapshot!(problems_with("hosts: { pve1: { weight: 0 } }\n"), @"
error[TS0509] no host may carry `home-control-1`, because all have weight 0
  at hosts «hosts»
  help: give one of the hosts a weight, or name the node's `host`
");
}

#[test]
fn how_many() {
    insta::assert_snapshot!(problems_with("pools: { work: { role: worker, count: 2 } }\n"), @"
error[TS0602] there is no control plane
  at pools «pools»
  help: add a pool: `control: { role: controlplane, count: 3 }`
");
    insta::assert_snapshot!(problems_with("pools: { control: { role: controlplane, count: 2 } }\n"), @"
error[TS0604] there is no node that may run workloads
  at pools «pools»
  help: add a worker pool, or set `kubernetes.schedule_on_control_planes: true`
warning[TS0603] 2 control plane nodes tolerate as many failures as 1
  at pools.control «control»
  help: use 1 or 3
");
    insta::assert_snapshot!(problems_with("pools: { control: { role: controlplane, count: 0 }, work: { role: worker, count: 4000000000 } }\n"), @"
error[TS0602] there is no control plane
  at pools «pools»
  help: add a pool: `control: { role: controlplane, count: 3 }`
error[TS0611] the pool `work` has 4000000000 nodes
  at pools.work.count «4000000000»
  help: use 10000 at most
");
    let alone = "pools: { control: { role: controlplane, count: 1 } }\nkubernetes: { schedule_on_control_planes: true }\n";
    assert_eq!(problems_with(alone), "");
}
