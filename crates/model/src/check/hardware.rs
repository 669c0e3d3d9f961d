//! Cores, memory and disks.

use super::forms;
use crate::blueprint::Role;
use crate::diagnostic::{Diagnostic, Path, codes};
use crate::resolve::draft::Draft;
use crate::spec::Written;

/// What Talos wants of a machine, in MiB.
const CONTROL_PLANE_MEMORY: u64 = 1698;
const WORKER_MEMORY: u64 = 874;
/// The smallest boot disk, in GiB.
const DISK: u64 = 6;

pub(super) fn check(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let spec = draft.spec;
    for (name, size) in &spec.sizes {
        written(&Path::of(&["sizes", name]), size.cpu, size.memory.as_ref(), size.disk.as_ref(), found);
    }
    for (key, one) in [("controlplane", &spec.defaults.controlplane), ("worker", &spec.defaults.worker)] {
        written(&Path::of(&["defaults", key]), one.cpu, one.memory.as_ref(), one.disk.as_ref(), found);
    }
    for (name, pool) in &spec.pools {
        written(&Path::of(&["pools", name]), pool.cpu, pool.memory.as_ref(), pool.disk.as_ref(), found);
    }
    for (name, node) in &spec.nodes {
        written(&Path::of(&["nodes", name]), node.cpu, node.memory.as_ref(), node.disk.as_ref(), found);
    }
    floors(draft, found);
}

/// The forms, where they are written.
fn written(
    path: &Path,
    cpu: Option<u32>,
    memory: Option<&Written>,
    disk: Option<&Written>,
    found: &mut Vec<Diagnostic>,
) {
    if let Some(cpu) = cpu.filter(|cpu| !(1..=512).contains(cpu)) {
        let problem = Diagnostic::error(codes::CPU_COUNT, format!("a VM cannot have {cpu} cores"));
        found.push(problem.at(path.key("cpu"), "").help("use a number from 1 to 512"));
    }
    if let Some(text) = memory.filter(|text| forms::memory_mib(&text.0).is_none()) {
        let problem = Diagnostic::error(codes::BAD_SIZE, format!("`{}` is not a size of memory", text.0));
        found.push(problem.at(path.key("memory"), "").help("write `8G`, `8192M`, or a plain number of MiB"));
    }
    if let Some(text) = disk.filter(|text| forms::disk_gib(&text.0).is_none()) {
        let problem = Diagnostic::error(codes::BAD_SIZE, format!("`{}` is not the size of a disk", text.0));
        found.push(problem.at(path.key("disk"), "").help("write `32G`, `1T`, or a plain number of GiB"));
    }
}

/// The floors, for the nodes that the values reach. A value may be fine for a worker and too low for a control plane.
fn floors(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    for node in &draft.nodes {
        let floor = match node.role {
            Role::ControlPlane => CONTROL_PLANE_MEMORY,
            Role::Worker => WORKER_MEMORY,
        };
        if let Some(memory) = node.memory_mib.as_ref().filter(|memory| memory.value < floor) {
            let message =
                format!("`{}` has {} MiB of memory, too little for a {}", node.name, memory.value, node.role);
            let problem = Diagnostic::error(codes::MEMORY_LOW, message).at(memory.path.clone(), "");
            found.push(problem.help(format!("Talos wants {floor} MiB at least; a plain number counts MiB")));
        }
        if let Some(disk) = node.disk_gib.as_ref().filter(|disk| disk.value < DISK) {
            let message =
                format!("`{}` has a boot disk of {} GiB, which is too small", node.name, disk.value);
            let problem = Diagnostic::error(codes::DISK_SMALL, message).at(disk.path.clone(), "");
            found.push(problem.help(format!("Talos wants {DISK} GiB at least")));
        }
    }
}
