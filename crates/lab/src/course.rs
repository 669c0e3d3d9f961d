//! How the world goes on: time, and what is broken in it or mended. [`World::advance`] goes through the stored moments in
//! order of time, first the hypervisor's, then the machines', and never on its own.

use std::time::Duration;

use jiff::Timestamp;

use crate::faults::{CallFault, ComesBack, Injection};
use crate::machine::Return;
use crate::operations::{self, tasks};
use crate::world::World;

impl From<ComesBack> for Return {
    fn from(how: ComesBack) -> Self {
        match how {
            ComesBack::InMaintenance => Self::InMaintenance,
            ComesBack::WithoutKernelArguments => Self::WithoutKernelArguments,
        }
    }
}

impl World {
    /// The next moment at which something happens by itself.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        [self.hypervisor.next_due(), self.machines.next_due()].into_iter().flatten().min()
    }

    /// Lets time pass until `to`; says whether anything happened. Time never goes back.
    pub fn advance(&mut self, to: Timestamp) -> bool {
        let mut happened = false;
        while let Some(due) = self.next_due().filter(|due| *due <= to) {
            happened = true;
            self.now = self.now.max(due);
            tasks::run_due(self);
            self.machines.advance(self.now);
            self.notice_power_offs();
        }
        self.now = self.now.max(to);
        happened
    }

    /// Marks VMs as stopped whose guests switched themselves off.
    pub(crate) fn notice_power_offs(&mut self) {
        for vmid in self.machines.take_power_offs() {
            self.hypervisor.guest_powered_off(vmid, self.now);
        }
    }

    fn clear_faults(&mut self) {
        self.faults.clear();
        self.machines.clear_faults();
        self.machines.close_outside(self.outside.clone());
        self.hypervisor.no_quorum = false;
        self.hypervisor.no_status = false;
        self.hypervisor.storages.full.clear();
        for host in self.hypervisor.hosts.values_mut() {
            host.slow = Duration::ZERO;
            host.clock_error = 0;
        }
        let off = self.hypervisor.hosts.values().filter(|host| !host.online).map(|host| host.name.clone());
        for node in off.collect::<Vec<_>>() {
            operations::host_online(self, &node);
        }
    }

    /// Breaks something, or clear it.
    pub(crate) fn inject(&mut self, injection: Injection) {
        match injection {
            Injection::HostOffline(node) => operations::host_offline(self, &node),
            Injection::HostOnline(node) => operations::host_online(self, &node),
            Injection::HostSlow { node, by } => {
                if let Some(host) = self.hypervisor.hosts.get_mut(&node) {
                    host.slow = by;
                }
            }
            Injection::HostFull { node, full: true } => drop(self.hypervisor.storages.full.insert(node)),
            Injection::HostFull { node, full: false } => drop(self.hypervisor.storages.full.remove(&node)),
            Injection::HostClock { node, ahead } => {
                if let Some(host) = self.hypervisor.hosts.get_mut(&node) {
                    host.clock_error = ahead;
                }
            }
            Injection::StatusDaemons { silent } => self.hypervisor.no_status = silent,
            Injection::Quorum { lost } => self.hypervisor.no_quorum = lost,
            Injection::Outside { only } => self.machines.close_outside(only),
            Injection::BrokenSystem { vmid, talos, broken } => {
                self.machines.break_system(vmid, &talos, broken)
            }
            Injection::FullEtcd { vmid } => self.machines.fill_etcd(vmid),
            Injection::Clear => self.clear_faults(),
            Injection::FailCall { which, status, text } => {
                self.faults.add(which, CallFault::Fail { status, text })
            }
            Injection::CutCall { which, after } => self.faults.add(which, CallFault::Cut { after }),
            Injection::Known { number, when } => self.faults.order(number, when),
            Injection::Wire { fault, when } => self.faults.order_wire(fault, when),
            Injection::Partition { which, cut } => self.faults.partition(which, cut),
            Injection::Apart { one, other, apart } => self.machines.set_apart(one, other, apart),
            Injection::NoImage { vmid, service, missing } => {
                self.machines.set_missing_image(vmid, &service, missing);
            }
            Injection::Unplugged { vmid, unplugged } => self.machines.unplug(vmid, unplugged),
            Injection::TimeServers { answer } => self.machines.set_time_servers(answer),
            Injection::Console { vmid, fault } => self.faults.set_console(vmid, fault),
            Injection::Relay { vmid, present } => self.faults.set_relay(vmid, present),
            Injection::Reissue { vmid, connections } => self.faults.set_reissues(vmid, connections),
            Injection::SmallDisk { vmid, gib } => self.machines.limit_disk(vmid, gib),
            Injection::KubeletRestart { vmid } => self.machines.restart_kubelet(vmid, self.now),
            Injection::ComesBack { vmid, how } => self.machines.set_return(vmid, how.map(Into::into)),
            Injection::SilentEvents { vmid, silent } => self.machines.silence_events(vmid, silent),
            Injection::KubernetesFails { which, status, times } => {
                self.faults.order_kubernetes(which, status, times);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LabConfig;

    #[test]
    fn mending_gives_back_the_world_as_it_was_made() {
        let hosts = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        for made in [None, hosts(&["mirror.lan"])] {
            let config = LabConfig { outside: made.clone(), ..LabConfig::default() };
            let mut world = World::new(&config, LabConfig::first_moment()).unwrap();
            let wrong = world.machines.what_is_wrong();
            for injection in [
                Injection::Outside { only: hosts(&["other.lan"]) },
                Injection::TimeServers { answer: false },
                Injection::SmallDisk { vmid: 1, gib: 3 },
                Injection::BrokenSystem { vmid: 1, talos: "v1.13.9".into(), broken: true },
            ] {
                world.inject(injection);
            }
            assert_eq!(world.machines.what_is_wrong().len(), 4);
            assert!(!world.machines.reaches("mirror.lan"));
            world.inject(Injection::Clear);
            assert_eq!(world.machines.what_is_wrong(), wrong);
            assert!(world.machines.reaches("mirror.lan"));
            assert_eq!(world.machines.reaches("registry.k8s.io"), made.is_none());
        }
    }
}
