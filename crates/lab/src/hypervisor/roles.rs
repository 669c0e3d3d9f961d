//! All privileges there are, and the roles that Proxmox comes with.

use std::collections::BTreeMap;

/// The role that takes everything away.
pub(crate) const NO_ACCESS: &str = "NoAccess";

/// Every privilege.
pub(crate) const PRIVILEGES: &[&str] = &[
    "Datastore.Allocate",
    "Datastore.AllocateSpace",
    "Datastore.AllocateTemplate",
    "Datastore.Audit",
    "Group.Allocate",
    "Mapping.Audit",
    "Mapping.Modify",
    "Mapping.Use",
    "Permissions.Modify",
    "Pool.Allocate",
    "Pool.Audit",
    "Realm.Allocate",
    "Realm.AllocateUser",
    "SDN.Allocate",
    "SDN.Audit",
    "SDN.Use",
    "Sys.AccessNetwork",
    "Sys.Audit",
    "Sys.Console",
    "Sys.Incoming",
    "Sys.Modify",
    "Sys.PowerMgmt",
    "Sys.Syslog",
    "User.Modify",
    "VM.Allocate",
    "VM.Audit",
    "VM.Backup",
    "VM.Clone",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.Console",
    "VM.GuestAgent.Audit",
    "VM.GuestAgent.FileRead",
    "VM.GuestAgent.FileSystemMgmt",
    "VM.GuestAgent.FileWrite",
    "VM.GuestAgent.Unrestricted",
    "VM.Migrate",
    "VM.PowerMgmt",
    "VM.Replicate",
    "VM.Snapshot",
    "VM.Snapshot.Rollback",
];

/// The roles that are always there.
pub(crate) const BUILT_IN: &[&str] = &[
    "Administrator",
    NO_ACCESS,
    "PVEAdmin",
    "PVEAuditor",
    "PVEDatastoreAdmin",
    "PVEDatastoreUser",
    "PVEMappingAdmin",
    "PVEMappingAuditor",
    "PVEMappingUser",
    "PVEPoolAdmin",
    "PVEPoolUser",
    "PVESDNAdmin",
    "PVESDNUser",
    "PVESysAdmin",
    "PVETemplateUser",
    "PVEUserAdmin",
    "PVEVMAdmin",
    "PVEVMUser",
];

/// Every privilege, propagating.
pub(crate) fn everything() -> BTreeMap<String, bool> {
    PRIVILEGES.iter().map(|privilege| ((*privilege).to_owned(), true)).collect()
}

/// The privileges of a role that is always there.
pub(crate) fn built_in(name: &str) -> Option<Vec<String>> {
    let with = |starts: &[&str]| {
        let all = PRIVILEGES.iter().filter(|p| starts.iter().any(|start| p.starts_with(start)));
        all.map(|p| (*p).to_owned()).collect::<Vec<_>>()
    };
    let listed = |list: &[&str]| list.iter().map(|p| (*p).to_owned()).collect();
    Some(match name {
        "Administrator" => with(&[""]),
        NO_ACCESS => Vec::new(),
        "PVEAdmin" => {
            let kept = ["Permissions.Modify", "Realm.Allocate"];
            let system = ["Sys.AccessNetwork", "Sys.Incoming", "Sys.Modify", "Sys.PowerMgmt"];
            let given = |p: &String| !kept.contains(&p.as_str()) && !system.contains(&p.as_str());
            with(&[""]).into_iter().filter(given).collect()
        }
        "PVEAuditor" => listed(&[
            "Datastore.Audit",
            "Mapping.Audit",
            "Pool.Audit",
            "SDN.Audit",
            "Sys.Audit",
            "VM.Audit",
            "VM.GuestAgent.Audit",
        ]),
        "PVEDatastoreAdmin" => with(&["Datastore."]),
        "PVEDatastoreUser" => listed(&["Datastore.AllocateSpace", "Datastore.Audit"]),
        "PVEMappingAdmin" => with(&["Mapping."]),
        "PVEMappingAuditor" => listed(&["Mapping.Audit"]),
        "PVEMappingUser" => listed(&["Mapping.Audit", "Mapping.Use"]),
        "PVEPoolAdmin" => with(&["Pool."]),
        "PVEPoolUser" => listed(&["Pool.Audit"]),
        "PVESDNAdmin" => with(&["SDN."]),
        "PVESDNUser" => listed(&["SDN.Audit", "SDN.Use"]),
        "PVESysAdmin" => listed(&["Sys.Audit", "Sys.Console", "Sys.Syslog"]),
        "PVETemplateUser" => listed(&["VM.Audit", "VM.Clone"]),
        "PVEUserAdmin" => listed(&["Group.Allocate", "Realm.AllocateUser", "User.Modify"]),
        "PVEVMAdmin" => with(&["VM."]),
        "PVEVMUser" => listed(&[
            "VM.Audit",
            "VM.Backup",
            "VM.Config.CDROM",
            "VM.Config.Cloudinit",
            "VM.Console",
            "VM.GuestAgent.Audit",
            "VM.PowerMgmt",
        ]),
        _ => return None,
    })
}
