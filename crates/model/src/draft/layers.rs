//! Everything that may say something about a node's hardware, the nearest first.

use std::sync::LazyLock;

use super::Said;
use crate::blueprint::Role;
use crate::diagnostic::Path;
use crate::spec::{self, BootDisk, Cpu, DataDisk, Hardware, Memory, Spec, Written};

/// Hardware by default: enough for a small cluster to be comfortable.
static SENSIBLE: LazyLock<[Hardware; 2]> = LazyLock::new(|| {
    [(2, "4G", "20G"), (4, "8G", "40G")].map(|(cpu, memory, disk)| Hardware {
        cpu: Some(Cpu::Cores(cpu)),
        memory: Some(Memory::Size(Written(memory.to_owned()))),
        disk: Some(BootDisk::Size(Written(disk.to_owned()))),
        ..Hardware::default()
    })
});

/// The layers of one node: its own keys, its size, its pool, the pool's size, its role's defaults, what is sensible.
#[derive(Debug)]
pub(crate) struct Layers<'s>(Vec<(&'s Hardware, Path)>);

impl<'s> Layers<'s> {
    pub(crate) fn new(
        spec: &'s Spec,
        role: Role,
        pool: Option<(&str, &'s spec::Pool)>,
        own: Option<(&'s spec::Node, &Path)>,
        path: &Path,
    ) -> Self {
        let mut layers = Vec::with_capacity(6);
        let size = |name: &Option<String>| {
            let name = name.as_ref()?;
            Some((spec.sizes.get(name)?, Path::of(&["sizes", name])))
        };
        if let Some((node, own_path)) = own {
            layers.push((&node.hardware, own_path.clone()));
            layers.extend(size(&node.size));
        }
        if let Some((name, pool)) = pool {
            layers.push((&pool.hardware, Path::of(&["pools", name])));
            layers.extend(size(&pool.size));
        }
        layers.push((&spec.defaults.of(role).hardware, Path::of(&["defaults", &role.to_string()])));
        let [control_plane, worker] = &*SENSIBLE;
        let sensible = if role == Role::ControlPlane { control_plane } else { worker };
        layers.push((sensible, path.clone()));
        Self(layers)
    }

    /// The nearest value, and the path of `key` there.
    pub(super) fn first<T>(&self, key: &str, get: impl Fn(&'s Hardware) -> Option<T>) -> Option<Said<T>> {
        self.0.iter().find_map(|(hardware, path)| Some(Said { value: get(hardware)?, path: path.key(key) }))
    }

    /// The nearest value of a key inside one that has a short form: the path ends at the short form, or at the key.
    pub(super) fn inside<T>(
        &self,
        key: &str,
        sub: &str,
        get: impl Fn(&'s Hardware) -> Option<(T, Form)>,
    ) -> Option<Said<T>> {
        self.0.iter().find_map(|(hardware, path)| {
            let (value, form) = get(hardware)?;
            let path = path.key(key);
            Some(Said { value, path: if form == Form::Short { path } else { path.key(sub) } })
        })
    }

    /// Names of all data disks, each with the nearest path that speaks of it.
    pub(super) fn disk_names(&self) -> Vec<(&'s str, Path)> {
        let mut names: Vec<(&str, Path)> = Vec::new();
        for (hardware, path) in &self.0 {
            for name in hardware.disks.keys() {
                if !names.iter().any(|(known, _)| known == name) {
                    names.push((name, path.key("disks").key(name)));
                }
            }
        }
        names.sort();
        names
    }

    /// The nearest value of one key of a data disk.
    pub(super) fn of_disk<T>(
        &self,
        name: &str,
        key: &str,
        get: impl Fn(&'s DataDisk) -> Option<T>,
    ) -> Option<Said<T>> {
        self.0.iter().find_map(|(hardware, path)| {
            let value = get(hardware.disks.get(name)?)?;
            Some(Said { value, path: path.key("disks").key(name).key(key) })
        })
    }
}

/// Whether a value stood in its short form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Short,
    Long,
}
