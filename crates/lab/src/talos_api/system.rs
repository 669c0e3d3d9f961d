//! The machine as a computer: figures that fit its hardware and its age, and change with time, not with anybody's call.

use talos::wire::machine as wire;

use super::Caller;
use super::resources::link_name;
use crate::machine::{Machine, devices};

impl Caller {
    /// Seconds since the machine is up.
    pub(super) fn age(&self) -> u64 {
        self.read(|machines, now| {
            let since = machines.get(self.vmid).and_then(Machine::network_since).unwrap_or(now);
            u64::try_from(now.duration_since(since).as_secs()).unwrap_or(0)
        })
    }

    /// Something of the machine's hardware.
    fn hardware<T: Default>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        self.read(|machines, _| machines.get(self.vmid).map(look).unwrap_or_default())
    }

    pub(super) fn statistics(&self) -> wire::SystemStat {
        let (cores, age) = (self.hardware(|m| m.hardware.cores), self.age());
        let boot_time = self.read(|machines, now| {
            let since = machines.get(self.vmid).and_then(Machine::network_since).unwrap_or(now);
            u64::try_from(since.as_second()).unwrap_or(0)
        });
        #[expect(clippy::cast_precision_loss, reason = "seconds of a lab fit")]
        let share = |percent: u64| (age * percent) as f64;
        let cpu = wire::CpuStat {
            user: share(4) / 100.0,
            system: share(3) / 100.0,
            idle: share(92) / 100.0,
            iowait: share(1) / 100.0,
            ..wire::CpuStat::default()
        };
        let times = f64::from(cores);
        let total = wire::CpuStat {
            user: cpu.user * times,
            system: cpu.system * times,
            idle: cpu.idle * times,
            iowait: cpu.iowait * times,
            ..wire::CpuStat::default()
        };
        wire::SystemStat {
            boot_time,
            cpu_total: Some(total),
            cpu: (0..cores).map(|_| cpu).collect(),
            irq_total: age * 400,
            context_switches: age * 1_500,
            process_created: 400 + age * 2,
            process_running: 1,
            soft_irq_total: age * 300,
            ..wire::SystemStat::default()
        }
    }

    pub(super) fn memory_info(&self) -> wire::MemInfo {
        let total = self.hardware(|m| m.hardware.memory_mib) * 1024;
        // The kernel keeps a little for itself.
        let shown = total.saturating_sub(total / 50);
        wire::MemInfo {
            memtotal: shown,
            memfree: shown / 2,
            memavailable: shown / 10 * 7,
            buffers: 8 * 1024,
            cached: shown / 5,
            ..wire::MemInfo::default()
        }
    }

    pub(super) fn load(&self) -> wire::LoadAvg {
        wire::LoadAvg { metadata: None, load1: 0.42, load5: 0.38, load15: 0.31 }
    }

    pub(super) fn processors(&self) -> Vec<wire::CpuInfo> {
        let cores = self.hardware(|m| m.hardware.cores);
        (0..cores)
            .map(|number| wire::CpuInfo {
                processor: number,
                vendor_id: "GenuineIntel".to_owned(),
                model_name: "QEMU Virtual CPU version 2.5+".to_owned(),
                cpu_mhz: 2000.0,
                siblings: cores,
                core_id: number.to_string(),
                cpu_cores: cores,
                flags: ["fpu", "sse4_1", "sse4_2", "aes", "popcnt"].map(str::to_owned).into(),
                ..wire::CpuInfo::default()
            })
            .collect()
    }

    pub(super) fn disk_statistics(&self) -> wire::DiskStats {
        let age = self.age();
        let names = self.hardware(|m| devices(&m.hardware).into_iter().map(|d| d.id).collect::<Vec<_>>());
        let disk = |name: String| wire::DiskStat {
            name,
            read_completed: 4_000 + age,
            read_sectors: 400_000 + age * 8,
            write_completed: 2_000 + age * 3,
            write_sectors: 100_000 + age * 24,
            ..wire::DiskStat::default()
        };
        let total = disk(names.join(", "));
        wire::DiskStats { metadata: None, total: Some(total), devices: names.into_iter().map(disk).collect() }
    }

    pub(super) fn network_statistics(&self) -> wire::NetworkDeviceStats {
        let age = self.age();
        let cards = self.hardware(|m| m.hardware.nics.len());
        let device = |name: String, factor: u64| wire::NetDev {
            name,
            rx_bytes: (3_568 + age * 900) * factor,
            rx_packets: (66 + age * 5) * factor,
            tx_bytes: (3_568 + age * 800) * factor,
            tx_packets: (66 + age * 4) * factor,
            ..wire::NetDev::default()
        };
        let mut devices = vec![device("lo".to_owned(), 1), device("dummy0".to_owned(), 0)];
        devices.extend((0..cards).map(|number| device(link_name(number), 30)));
        let mut names: Vec<_> = devices.iter().map(|d| d.name.clone()).collect();
        names.sort();
        let total = device(names.join(", "), 31);
        wire::NetworkDeviceStats { metadata: None, total: Some(total), devices }
    }

    pub(super) fn mount_infos(&self) -> Vec<wire::MountStat> {
        let (configured, disk) =
            self.hardware(|m| (m.node().is_some(), m.hardware.disks.first().map_or(0, |d| d.bytes)));
        let mount = |filesystem: &str, size: u64, mounted_on: &str| wire::MountStat {
            filesystem: filesystem.to_owned(),
            size,
            available: size / 10 * 9,
            mounted_on: mounted_on.to_owned(),
        };
        let mut found = vec![mount("tmpfs", 64 << 20, "/run"), mount("/dev/loop0", 77_824_000, "/")];
        if configured {
            let system =
                self.hardware(|m| devices(&m.hardware).first().map(|d| d.id.clone()).unwrap_or_default());
            found.push(mount(&format!("/dev/{system}5"), 100 << 20, "/system/state"));
            found.push(mount(&format!("/dev/{system}6"), disk.saturating_sub(1310 << 20), "/var"));
        }
        found
    }

    pub(super) fn process_infos(&self) -> Vec<wire::ProcessInfo> {
        let process = |pid: u32, command: &str| wire::ProcessInfo {
            pid: i32::try_from(pid).unwrap_or(0),
            ppid: i32::from(pid != 1),
            state: "S".to_owned(),
            threads: 12,
            cpu_time: 1.5,
            virtual_memory: 1 << 30,
            resident_memory: 60 << 20,
            command: command.to_owned(),
            executable: format!("/usr/bin/{command}"),
            args: command.to_owned(),
            label: String::new(),
        };
        self.read(|machines, _| {
            let Some(machine) = machines.get(self.vmid) else { return vec![] };
            let services = machines.services(self.vmid).into_iter();
            let running =
                services.filter(|s| s.state == "Running").map(|s| process(machine.pid(&s.id), &s.id));
            let mut all: Vec<_> = running.filter(|p| p.pid != 1).collect();
            all.insert(0, process(1, "machined"));
            all
        })
    }
}
