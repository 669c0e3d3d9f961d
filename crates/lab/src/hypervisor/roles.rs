//! The roles that Proxmox comes with.

use std::collections::BTreeMap;

use crate::schema::PRIVILEGES;

/// The role that takes everything away.
pub(crate) const NO_ACCESS: &str = "NoAccess";

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
