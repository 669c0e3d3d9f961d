//! What a step is called beside the name of the node it is about.

use model::step::Action;

/// While it is done.
pub fn doing(action: &Action) -> &'static str {
    match action {
        Action::RegisterSchematic { .. } => "registering the schematic",
        Action::DownloadImage { .. } => "downloading",
        Action::CreateRecord { .. } => "creating the record",
        Action::CreateVm { .. } => "creating the VM",
        Action::GrowDisk { .. } => "growing the disk",
        Action::StartVm { .. } => "starting",
        Action::Configure { .. } => "configuring",
        Action::Bootstrap { .. } => "beginning etcd",
        Action::Join { .. } => "joining",
        Action::CheckHealth => "checking health",
        Action::StopVm { .. } => "stopping",
        Action::DeleteVm { .. } => "deleting",
        Action::DeleteRecord { .. } => "deleting the record",
    }
}

/// When it is done.
pub fn done(action: &Action) -> &'static str {
    match action {
        Action::RegisterSchematic { .. } => "schematic registered",
        Action::DownloadImage { .. } => "downloaded",
        Action::CreateRecord { .. } => "record created",
        Action::CreateVm { .. } => "VM created",
        Action::GrowDisk { .. } => "disk grown",
        Action::StartVm { .. } => "started",
        Action::Configure { .. } => "configured",
        Action::Bootstrap { .. } => "etcd begun",
        Action::Join { .. } => "joined",
        Action::CheckHealth => "healthy",
        Action::StopVm { .. } => "stopped",
        Action::DeleteVm { .. } => "deleted",
        Action::DeleteRecord { .. } => "record deleted",
    }
}
