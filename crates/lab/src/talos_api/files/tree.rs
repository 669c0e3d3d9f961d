//! Which files a machine has: the kernel's, those that Talos writes into `/etc`, and what runs leaves in `/var`.

use std::collections::BTreeMap;

use super::{Entry, Tree};
use crate::machine::{Machine, Machines, command_line, devices};
use crate::stable::stable_number;
use crate::talos_api::{Caller, logs};

/// Folders that are there though nothing of what is in them is known here.
const FOLDERS: &[&str] = &[
    "/.extra",
    "/boot",
    "/dev",
    "/mnt",
    "/opt",
    "/proc",
    "/run",
    "/sys",
    "/system/etc/kubernetes/manifests",
    "/system/run/containerd/io.containerd.runtime.v2.task/system",
    "/system/run/machined",
    "/system/secrets/kubernetes/kube-apiserver",
    "/system/state",
    "/system/var/lib/containerd",
    "/tmp",
    "/usr/lib",
    "/usr/sbin",
    "/usr/share",
    "/etc/cni",
    "/etc/kubernetes",
    "/var/lib",
    "/var/log",
    "/var/mnt",
    "/var/run",
];

const LINKS: &[(&str, &str)] = &[("/bin", "usr/bin"), ("/lib", "usr/lib"), ("/sbin", "usr/sbin")];

/// What the root of the second hierarchy of control groups has.
const CONTROL_GROUP: &[&str] = &[
    "cgroup.controllers",
    "cgroup.max.depth",
    "cgroup.max.descendants",
    "cgroup.procs",
    "cgroup.stat",
    "cgroup.subtree_control",
    "cgroup.threads",
    "cpu.stat",
    "cpuset.cpus.effective",
    "cpuset.mems.effective",
    "io.stat",
    "memory.numa_stat",
    "memory.stat",
];

/// Logs that Talos keeps in files.
const KEPT_LOGS: &[&str] = &["apid", "controller-runtime", "cri", "etcd", "kubelet", "machined", "trustd"];

impl Caller {
    /// The files of the machine, now.
    pub(super) fn tree(&self) -> Tree {
        self.read(|machines, now| {
            let mut tree = Tree(BTreeMap::new());
            for path in FOLDERS {
                tree.put(path, Entry::Folder);
            }
            for (path, target) in LINKS {
                tree.put(path, Entry::Link((*target).to_owned()));
            }
            let Some(machine) = machines.get(self.vmid) else { return tree };
            let uptime = now.duration_since(machine.network_since().unwrap_or(now)).as_secs();
            for (path, text) in system(machine, uptime).into_iter().chain(configured(machine)) {
                tree.put(&path, Entry::File(text.into_bytes()));
            }
            for (number, device) in devices(&machine.hardware).into_iter().enumerate() {
                let path = format!("/sys/dev/block/8:{}", number * 16);
                tree.put(&path, Entry::Link(format!("../../devices/virtual/block/{}", device.id)));
            }
            for name in CONTROL_GROUP {
                tree.put(&format!("/sys/fs/cgroup/{name}"), Entry::File(vec![]));
            }
            groups(&mut tree, machines, self.vmid, machine);
            if machine.node().is_some() {
                var(&mut tree, machines, self.vmid, machine);
            }
            tree
        })
    }
}

/// The control groups: Talos' own services, those beside the pods, and the pods.
fn groups(tree: &mut Tree, machines: &Machines, vmid: u32, machine: &Machine) {
    for name in ["init", "kubepods", "podruntime", "system"] {
        tree.put(&format!("/sys/fs/cgroup/{name}"), Entry::Folder);
    }
    let running = machines.services(vmid).into_iter().filter(|service| service.state == "Running");
    for service in running {
        let parent = if ["etcd", "kubelet"].contains(&service.id.as_str()) { "podruntime" } else { "system" };
        for (file, text) in [
            ("cgroup.procs", machine.pid(&service.id).to_string()),
            ("memory.current", (48_u64 << 20).to_string()),
            ("pids.current", "12".to_owned()),
        ] {
            let path = format!("/sys/fs/cgroup/{parent}/{}/{file}", service.id);
            tree.put(&path, Entry::File(format!("{text}\n").into_bytes()));
        }
    }
}

/// What is there from the first moment.
fn system(machine: &Machine, uptime: i64) -> Vec<(String, String)> {
    let (talos, kernel) = (machine.talos(), machine.profile().kernel);
    let hardware = &machine.hardware;
    let total = hardware.memory_mib * 1024;
    let texts = [
        ("/proc/sys/kernel/random/boot_id", format!("{}\n", machine.boot_id())),
        ("/proc/uptime", format!("{uptime}.00 {uptime}.00\n")),
        ("/proc/cmdline", format!("{}\n", command_line(machine))),
        ("/proc/version", format!("Linux version {kernel} (talos) #1 SMP PREEMPT_DYNAMIC\n")),
        ("/proc/meminfo", format!("MemTotal:       {total} kB\nMemFree:        {} kB\n", total / 2)),
        ("/proc/modules", String::new()),
        ("/proc/loadavg", "0.42 0.38 0.31 1/412 3210\n".to_owned()),
        ("/sys/class/dmi/id/product_uuid", format!("{}\n", hardware.uuid)),
        (
            "/etc/os-release",
            format!(
                "NAME=\"Talos\"\nID=talos\nVERSION_ID={talos}\nPRETTY_NAME=\"Talos ({talos})\"\nHOME_URL=\"https://www.talos.dev/\"\nBUG_REPORT_URL=\"https://github.com/siderolabs/talos/issues\"\nVENDOR_NAME=\"Sidero Labs\"\nVENDOR_URL=\"https://www.siderolabs.com/\"\n"
            ),
        ),
        ("/etc/hostname", format!("{}\n", machine.hostname())),
        ("/etc/machine-id", format!("{}\n", hardware.uuid.replace('-', ""))),
        (
            "/etc/hosts",
            format!(
                "127.0.0.1       localhost\n{:15} {}\n::1             localhost ip6-localhost ip6-loopback\nff02::1         ip6-allnodes\nff02::2         ip6-allrouters\n",
                machine.address().map(|address| address.to_string()).unwrap_or_default(),
                machine.hostname()
            ),
        ),
        (
            "/etc/resolv.conf",
            machine.resolvers().iter().map(|ip| format!("nameserver {ip}\n")).collect::<String>(),
        ),
        ("/etc/cri/containerd.toml", "version = 3\n".to_owned()),
        ("/etc/cri/conf.d/cri.toml", "version = 3\n".to_owned()),
        ("/usr/bin/init", String::new()),
        ("/usr/bin/containerd", String::new()),
        ("/usr/bin/runc", String::new()),
    ];
    texts.into_iter().map(|(path, text)| (path.to_owned(), text)).collect()
}

/// What depends on the configuration.
fn configured(machine: &Machine) -> Vec<(String, String)> {
    let mut roots = "## Bundle of CA Root Certificates\n##\n".to_owned();
    for (name, certificates) in machine.node().map(|node| &node.settings.trusted_roots).into_iter().flatten()
    {
        roots.push_str(&format!("\n{name}\n{}\n{certificates}\n", "=".repeat(name.len())));
    }
    vec![("/etc/ssl/certs/ca-certificates.crt".to_owned(), roots)]
}

/// What a configured machine has on its ephemeral partition.
fn var(tree: &mut Tree, machines: &Machines, vmid: u32, machine: &Machine) {
    for folder in [
        "/var/lib/cni",
        "/var/lib/containerd",
        "/var/lib/kubelet",
        "/var/log/audit",
        "/var/log/containers",
        "/var/log/pods",
    ] {
        tree.put(folder, Entry::Folder);
    }
    for id in KEPT_LOGS {
        if let Some(lines) = logs::of_service(machines, vmid, id) {
            let text: String = lines.iter().map(|line| format!("{}\n", line.text)).collect();
            tree.put(&format!("/var/log/{id}.log"), Entry::File(text.into_bytes()));
        }
    }
    if machine.node().is_some_and(|node| node.kubelet_has_joined()) {
        // It is made when the kubelet joins for the first time, and goes with its partition.
        let seed =
            stable_number(&[&machine.hardware.uuid, &machine.disk.ephemeral.to_string(), "kubelet client"]);
        let pem = format!("-----BEGIN CERTIFICATE-----\n{seed:016x}\n-----END CERTIFICATE-----\n");
        tree.put("/var/lib/kubelet/pki/kubelet-client-current.pem", Entry::File(pem.into_bytes()));
    }
    if machine.has_etcd_data() {
        for folder in ["snap", "wal"] {
            tree.put(&format!("/var/lib/etcd/member/{folder}"), Entry::Folder);
        }
    }
}
