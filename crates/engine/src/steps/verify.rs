//! Waits until a node that was disrupted is whole again, and stays so for the soak time.
//!
//! Whole is more than ready: the machine runs what it should (Talos release, schematic, kernel arguments, configuration), etcd has the same
//! member as before, which votes and has caught up, and Kubernetes has heard from this boot, not only from the one before. What no wait can
//! bring is a failure at once.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::blueprint::{Node, Role};
use model::observed::{Api, Etcd, Machine as Seen};

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Result};
use crate::gate;
use crate::kubernetes::Kubernetes;
use crate::observe::machines::{self, Detail};
use crate::steps::silence::Silence;
use crate::steps::{boot, configure, drain, join};
use crate::unmet::{PodWatch, Unmet};

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// A machine in maintenance mode is believed only after so many looks.
const LOOKS: u32 = 4;
/// A member that has not applied so many entries of the log has not caught up.
const BEHIND: u64 = 1_000;
/// The code of a node that came back as another than it should.
const CAME_BACK_OTHER: &str = "not-as-expected";

/// Waits until the node is whole.
pub(super) async fn run(context: &Context, node: &Node, progress: &Progress) -> Result<Done> {
    let (clock, policy) = (&context.systems.clock, context.snapshot.policy());
    let mut look = Look::new(context, node)?;
    let began = clock.now();
    let limit: SignedDuration = policy.ready_timeout.try_into().unwrap_or(SignedDuration::MAX);
    let soak: SignedDuration = policy.soak.try_into().unwrap_or(SignedDuration::MAX);
    let mut whole_since: Option<Timestamp> = None;
    loop {
        let unmet = Box::pin(look.lacks(progress)).await?;
        let now = clock.now();
        match unmet {
            None => {
                let since = *whole_since.get_or_insert(now);
                if now.duration_since(since) >= soak {
                    return Ok(Done::default());
                }
                progress.note(format!("healthy; it must stay so for {} s", soak.as_secs()));
            }
            Some(unmet) => {
                whole_since = None;
                if now.duration_since(began) >= limit.saturating_add(soak) {
                    return Err(look.late(&unmet, policy.ready_timeout));
                }
                progress.note(unmet.words);
            }
        }
        look.silence.during(clock.sleep(INTERVAL)).await;
    }
}

/// What one node is looked at with.
struct Look<'a> {
    context: &'a Context,
    node: &'a Node,
    kubernetes: Kubernetes,
    pods: PodWatch,
    silence: Silence<'a>,
    /// How often it was seen in maintenance mode.
    bare: u32,
}

impl<'a> Look<'a> {
    fn new(context: &'a Context, node: &'a Node) -> Result<Self> {
        let (kubernetes, pods) = (drain::kubernetes(context)?, PodWatch::of(&node.name));
        Ok(Self { context, node, kubernetes, pods, silence: Silence::new(context, node), bare: 0 })
    }

    /// What the node lacks now.
    ///
    /// # Errors
    ///
    /// When it lacks what no wait can bring.
    async fn lacks(&mut self, progress: &Progress) -> Result<Option<Unmet>> {
        let (context, node) = (self.context, self.node);
        let access = context.snapshot.access()?;
        let all = Detail::All { keep: None };
        let looking = machines::observe_or_unmet(&context.systems, node, access, all);
        let machine = match self.silence.during(Box::pin(looking)).await {
            Ok((machine, _)) => machine,
            Err(unmet) => return Box::pin(self.silence.explain(unmet)).await.map(Some),
        };
        self.silence.ends();
        self.bare = if machine.api == Api::Maintenance { self.bare + 1 } else { 0 };
        match &machine.api {
            Api::Configured => {}
            Api::Maintenance if self.bare >= LOOKS => return Err(boot::lost_config(context, node)),
            Api::Maintenance => return Ok(Some(Unmet::new("waits in maintenance mode"))),
            Api::Unresponsive { why } => return Ok(Some(Unmet::new(format!("does not answer ({why})")))),
            Api::ForeignMachine { why } | Api::OtherKeys { why } => return Ok(Some(Unmet::new(why.clone()))),
        }
        let lacking = join::lacks(context, progress, node, &machine, &self.kubernetes, &mut self.pods).await;
        if machine.stage.as_deref() == Some("running") {
            self.expected(&machine)?;
        }
        if lacking.is_some() {
            return Ok(lacking);
        }
        if let Some(unmet) = self.untold(&machine) {
            return Ok(Some(unmet));
        }
        if let Some(unmet) = behind(context, node, &machine).await {
            return Ok(Some(unmet));
        }
        // The version of the file is what it should run only with the machine config of the file.
        let rendered = context.snapshot.rendered.configs.get(&node.name);
        let wanted = Some(&node.kubernetes).filter(|_| machine.config_digest.as_ref() == rendered);
        Ok(unheard(node, &machine, &self.kubernetes, wanted).await)
    }

    /// Whether the machine that runs is the one that should.
    fn expected(&self, machine: &Seen) -> Result<()> {
        let before = self.context.snapshot.observed.machines.get(&self.node.name);
        let installed = self.context.installed().get(&self.node.name).cloned();
        let other = |what: &str, has: &str, wanted: &str| {
            let words = format!("{} came back with {what} {has} instead of {wanted}", self.node.name);
            Err(Error::systems(words).coded(CAME_BACK_OTHER).hint(self.evidence()))
        };
        let was = |part: fn(&Seen) -> Option<&String>| before.and_then(part);
        if let (Some(has), Some(wanted)) = (&machine.talos, &installed)
            && has != wanted
        {
            return other("Talos", has, wanted);
        }
        // An image that an earlier run installed comes with any reboot.
        if let (Some(has), Some(wanted), None) = (&machine.talos, was(|seen| seen.talos.as_ref()), &installed)
            && has != wanted
            && *has != self.node.talos
        {
            return other("Talos", has, wanted);
        }
        let of_file = self.context.snapshot.rendered.schematics.get(&self.node.image);
        if let (Some(has), Some(of_file)) = (&machine.schematic, of_file)
            && has != of_file
            && (installed.is_some() || was(|seen| seen.schematic.as_ref()).is_some_and(|was| was != has))
        {
            return other("the schematic", has, of_file);
        }
        if let (Some(has), Some(wanted), None) =
            (&machine.kernel_args, was(|seen| seen.kernel_args.as_ref()), &installed)
            && has != wanted
        {
            return other("the kernel arguments", has, wanted);
        }
        if let (Some(has), Some(had), Some(_)) =
            (&machine.kernel_args, was(|seen| seen.kernel_args.as_ref()), &installed)
            && was(|seen| seen.schematic.as_ref()) == machine.schematic.as_ref()
            && let lost = lost_arguments(had, has)
            && !lost.is_empty()
        {
            return other("the kernel arguments", has, &format!("the same with {}", lost.join(" ")));
        }
        let rendered = self.context.snapshot.rendered.configs.get(&self.node.name);
        if let Some(has) = &machine.config_digest
            && let Some(wanted) = rendered.or(was(|seen| seen.config_digest.as_ref()))
            && has != wanted
            && (was(|seen| seen.config_digest.as_ref()) != Some(has)
                || self.context.staged().contains(&self.node.name))
        {
            return other("the configuration", short(has), short(wanted));
        }
        if let Etcd::Member { id: has, .. } = &machine.etcd
            && let Some(Etcd::Member { id: wanted, .. }) = before.map(|seen| &seen.etcd)
            && has != wanted
        {
            return other("the etcd member", has, wanted);
        }
        Ok(())
    }

    /// What the machine does not tell yet, although it runs.
    fn untold(&self, machine: &Seen) -> Option<Unmet> {
        let installed = self.context.installed().contains_key(&self.node.name);
        let missing = [
            ("its Talos release", machine.talos.is_none()),
            ("its configuration", machine.config_digest.is_none()),
            ("its boot ID", machine.boot_id.is_none()),
            ("the schematic of its image", installed && machine.schematic.is_none()),
        ];
        let (what, _) = missing.into_iter().find(|(_, missing)| *missing)?;
        Some(Unmet::new(format!("does not report {what} yet")))
    }

    /// It is not whole at the end of its time.
    fn late(&self, unmet: &Unmet, limit: Duration) -> Error {
        let minutes = limit.as_secs() / 60;
        Error::systems(format!(
            "{} was not healthy within {minutes} minutes: {}",
            self.node.name, unmet.words
        ))
        .coded(unmet.code)
        .hint(match self.silence.was_long() {
            true => format!("{}; {}", self.evidence(), configure::wiped(self.context, self.node)),
            false => self.evidence(),
        })
    }

    fn evidence(&self) -> String {
        format!(
            "`talosmith node console {0}` and `talosctl -n {1} dmesg` show its last boot; nothing else is disrupted until it is healthy",
            self.node.name,
            self.context.systems.address(self.node)
        )
    }
}

/// Kernel arguments that Talos itself sets. A release may set others than the one before.
const OF_TALOS: &[&str] = &[
    "BOOT_IMAGE",
    "initrd",
    "init_on_alloc",
    "slab_nomerge",
    "pti",
    "consoleblank",
    "nvme_core.io_timeout",
    "printk.devkmsg",
    "ima_template",
    "ima_appraise",
    "ima_hash",
    "selinux",
    "module.sig_enforce",
    "proc_mem.force_override",
    "lockdown",
    "sysctl.kernel.kexec_load_disabled",
    "talos.platform",
];

/// Arguments that a person chose and that are gone. With another release, those that Talos sets may change.
fn lost_arguments<'a>(before: &'a str, after: &str) -> Vec<&'a str> {
    let of_talos = |argument: &str| OF_TALOS.contains(&argument.split('=').next().unwrap_or(argument));
    let kept: Vec<&str> = after.split_whitespace().collect();
    before.split_whitespace().filter(|argument| !of_talos(argument) && !kept.contains(argument)).collect()
}

/// A member of etcd that has not caught up.
async fn behind(context: &Context, node: &Node, machine: &Seen) -> Option<Unmet> {
    if node.role == Role::Worker {
        return None;
    }
    let Some(status) = &machine.etcd_status else {
        return Some(Unmet::new("etcd: it does not report its status yet"));
    };
    if let Some(error) = status.errors.first() {
        return Some(Unmet::new(format!("etcd: it reports {error}")));
    }
    if status.healthy != Some(true) || status.leader.is_none() {
        return Some(Unmet::new("etcd: not healthy yet"));
    }
    let view = Box::pin(gate::view(context)).await;
    let newest = view.members.values().map(|member| member.index).max().unwrap_or(status.index);
    let behind = newest.saturating_sub(status.applied);
    (behind > BEHIND).then(|| Unmet::new(format!("etcd: {behind} entries behind the other members")))
}

/// Whether Kubernetes has not heard from this boot of the machine yet. One that it heard from before may be called ready for a while.
async fn unheard(
    node: &Node,
    machine: &Seen,
    kubernetes: &Kubernetes,
    wanted: Option<&String>,
) -> Option<Unmet> {
    let Ok(nodes) = kubernetes.nodes().await else {
        return Some(Unmet::new("waiting for the Kubernetes API").coded("kubernetes"));
    };
    let seen = nodes.get(&node.name);
    if seen.and_then(|seen| seen.boot_id.as_ref()) != machine.boot_id.as_ref() {
        return Some(Unmet::new("its kubelet has not reported since it booted"));
    }
    // One that an earlier run gave another version may not be back yet.
    let runs = seen.map(|seen| seen.version.clone()).unwrap_or_default();
    let gets = wanted.filter(|wanted| **wanted != runs)?;
    Some(Unmet::new(format!("its kubelet reports {runs}, not {gets}")))
}

/// The beginning of a digest, which is enough to tell two apart.
fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_of_a_person_is_missed_and_one_of_talos_is_not() {
        let before = "talos.platform=nocloud console=tty1 console=ttyS0 pti=on slab_nomerge mitigations=off";
        let lost = |after| lost_arguments(before, after);
        assert_eq!(lost("console=ttyS0 mitigations=off console=tty1 selinux=1"), [""; 0]);
        assert_eq!(
            lost("talos.platform=nocloud console=tty1 pti=on slab_nomerge"),
            ["console=ttyS0", "mitigations=off"]
        );
        assert_eq!(lost("console=tty1 console=ttyS0 mitigations=auto"), ["mitigations=off"]);
    }
}
