//! What a step is called beside the name of the node it is about.

use model::step::Action;

/// After the first wish to stop.
pub const STOPPING: &str = "Stopping: what is being changed is finished first; Ctrl-C again stops at once.";

/// While it is done, with what it says about itself. A note that says no more than the step's name is left out.
pub fn doing_with(action: &Action, note: &str) -> String {
    let doing = doing(action);
    if adds_nothing(action, note) { doing.to_owned() } else { format!("{doing}: {note}") }
}

/// Whether a note says no more than the step's name.
pub fn adds_nothing(action: &Action, note: &str) -> bool {
    note.is_empty() || note.eq_ignore_ascii_case(doing(action))
}

/// While it is done.
pub fn doing(action: &Action) -> &'static str {
    match action {
        Action::RegisterSchematic { .. } => "registering the schematic",
        Action::DownloadImage { .. } => "downloading",
        Action::CreateRecord { .. } => "creating the record",
        Action::SealRecord { .. } => "writing the record",
        Action::UpdateRecord { .. } => "setting the record's name and tags",
        Action::CreateVm { .. } => "creating the VM",
        Action::CreateTemplate { .. } => "creating the template",
        Action::CloneVm { .. } => "copying the VM",
        Action::UpdateVm { .. } => "changing the VM",
        Action::GrowDisk { .. } => "growing the disk",
        Action::StartVm { .. } => "starting",
        Action::Configure { .. } | Action::Reconfigure { .. } => "configuring",
        Action::Bootstrap { .. } => "bootstrapping etcd",
        Action::Join { .. } => "joining",
        Action::CreateCredentials { .. } => "giving credentials",
        Action::CheckHealth => "checking health",
        Action::StopVm { .. } => "stopping",
        Action::DeleteVm { .. } => "deleting",
        Action::RemoveAccount { .. } => "removing the account",
        Action::DeleteRecord { .. } => "deleting the record",
    }
}

/// When it is done.
pub fn done(action: &Action) -> &'static str {
    match action {
        Action::RegisterSchematic { .. } => "schematic registered",
        Action::DownloadImage { .. } => "downloaded",
        Action::CreateRecord { .. } => "record created",
        Action::SealRecord { .. } => "record written",
        Action::UpdateRecord { .. } => "record's name and tags set",
        Action::CreateVm { .. } => "VM created",
        Action::CreateTemplate { .. } => "template created",
        Action::CloneVm { .. } => "VM copied",
        Action::UpdateVm { .. } => "VM changed",
        Action::GrowDisk { .. } => "disk grown",
        Action::StartVm { .. } => "started",
        Action::Configure { .. } | Action::Reconfigure { .. } => "configured",
        Action::Bootstrap { .. } => "etcd bootstrapped",
        Action::Join { .. } => "joined",
        Action::CreateCredentials { .. } => "credentials given",
        Action::CheckHealth => "healthy",
        Action::StopVm { .. } => "stopped",
        Action::DeleteVm { .. } => "deleted",
        Action::RemoveAccount { .. } => "account removed",
        Action::DeleteRecord { .. } => "record deleted",
    }
}
