//! What a step is called beside the name of the node it is about.

use model::step::Action;
use model::upgrade::Component;

/// After the first wish to stop.
pub const STOPPING: &str = "Stopping after the current steps. Press Ctrl-C again to stop immediately.";

/// The code of what was not done when the time that `--timeout` gives was over.
pub const LATE: &str = "timeout";

/// What stands before the words of a failure.
pub fn failed(code: &str) -> String {
    if code == LATE { format!("{code}:") } else { format!("failed[{code}]:") }
}

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
        Action::CreateRecord { .. } => "creating the record VM",
        Action::SealRecord { .. } => "writing the record VM",
        Action::UpdateRecord { .. } => "setting name and tags of the record VM",
        Action::CreateVm { .. } => "creating the VM",
        Action::CreateTemplate { .. } => "creating the template",
        Action::CloneVm { .. } => "copying the VM",
        Action::UpdateVm { .. } => "changing the VM",
        Action::GrowDisk { .. } => "growing the disk",
        Action::StartVm { .. } => "starting",
        Action::Configure { .. } | Action::Reconfigure { .. } => "configuring",
        Action::SnapshotEtcd => "saving a snapshot of etcd",
        Action::DrainNode { .. } => "draining",
        Action::MoveLeadership { .. } => "moving the etcd leadership",
        Action::RebootNode { .. } => "rebooting",
        Action::PowerCycleVm { .. } => "stopping and starting",
        Action::MigrateVm { .. } => "moving the VM",
        Action::MigrateRecord { .. } => "moving the record VM",
        Action::DrainHost { .. } | Action::UndrainHost { .. } => "writing the record VM",
        Action::RenewDisk { .. } => "replacing the system disk",
        Action::DeleteDisk { .. } => "deleting the disk",
        Action::PullImage { .. } => "pulling the installer image",
        Action::PullImages { .. } => "pulling images of Kubernetes",
        Action::UpgradeComponent { component, .. } => match component {
            Component::ApiServer => "upgrading kube-apiserver",
            Component::ControllerManager => "upgrading kube-controller-manager",
            Component::Scheduler => "upgrading kube-scheduler",
            Component::Proxy => "setting the version of kube-proxy",
            Component::Kubelet => "upgrading the kubelet",
        },
        Action::UpgradeProxy { .. } => "upgrading kube-proxy",
        Action::InstallTalos { .. } => "installing Talos",
        Action::VerifyNode { .. } => "verifying",
        Action::UncordonNode { .. } | Action::ReleaseNode { .. } => "uncordoning",
        Action::CordonNode { .. } => "cordoning",
        Action::ShutdownNode { .. } => "shutting down",
        Action::LeaveEtcd { .. } => "leaving etcd",
        Action::DeleteNode { .. } => "deleting the Kubernetes node",
        Action::Bootstrap { .. } => "bootstrapping etcd",
        Action::Join { .. } => "joining",
        Action::CreateCredentials { .. } => "giving credentials",
        Action::CheckHealth => "checking health",
        Action::StopVm { .. } => "stopping",
        Action::DeleteVm { .. } => "deleting",
        Action::RemoveAccount { .. } => "removing the account",
        Action::DeleteRecord { .. } => "deleting the record VM",
    }
}

/// When it is done.
pub fn done(action: &Action) -> &'static str {
    match action {
        Action::RegisterSchematic { .. } => "schematic registered",
        Action::DownloadImage { .. } => "downloaded",
        Action::CreateRecord { .. } => "record created",
        Action::SealRecord { .. } => "record written",
        Action::UpdateRecord { .. } => "name and tags of the record VM set",
        Action::CreateVm { .. } => "VM created",
        Action::CreateTemplate { .. } => "template created",
        Action::CloneVm { .. } => "VM copied",
        Action::UpdateVm { .. } => "VM changed",
        Action::GrowDisk { .. } => "disk grown",
        Action::StartVm { .. } => "started",
        Action::Configure { .. } | Action::Reconfigure { .. } => "configured",
        Action::SnapshotEtcd => "snapshot of etcd saved",
        Action::DrainNode { .. } => "drained",
        Action::MoveLeadership { .. } => "does not lead etcd",
        Action::RebootNode { .. } => "rebooted",
        Action::PowerCycleVm { .. } => "stopped and started",
        Action::MigrateVm { .. } => "VM moved",
        Action::MigrateRecord { .. } => "record VM moved",
        Action::DrainHost { .. } | Action::UndrainHost { .. } => "record written",
        Action::RenewDisk { .. } => "system disk replaced",
        Action::DeleteDisk { .. } => "disk deleted",
        Action::PullImage { .. } => "installer image pulled",
        Action::PullImages { .. } => "images of Kubernetes pulled",
        Action::UpgradeComponent { component, .. } => match component {
            Component::ApiServer => "kube-apiserver upgraded",
            Component::ControllerManager => "kube-controller-manager upgraded",
            Component::Scheduler => "kube-scheduler upgraded",
            Component::Proxy => "version of kube-proxy set",
            Component::Kubelet => "kubelet upgraded",
        },
        Action::UpgradeProxy { .. } => "kube-proxy upgraded",
        Action::InstallTalos { .. } => "Talos installed",
        Action::VerifyNode { .. } => "verified",
        Action::UncordonNode { .. } | Action::ReleaseNode { .. } => "uncordoned",
        Action::CordonNode { .. } => "cordoned",
        Action::ShutdownNode { .. } => "off",
        Action::LeaveEtcd { .. } => "left etcd",
        Action::DeleteNode { .. } => "Kubernetes node deleted",
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
