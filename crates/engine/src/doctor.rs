//! Proves that Proxmox is as a cluster needs it, before anything is changed: version, privileges, hosts, datastores,
//! bridges, devices, clocks. Every check that could be made is reported, the good ones too; each bad one says what to do.
//!
//! At the end the plan is made as `plan` makes it. What it refuses is a bad finding in the plan's own words, so that the two cannot
//! disagree.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use model::blueprint::{Blueprint, Node};
use model::diagnostic::{Diagnostic, codes};
use model::holder::{Account, Holder};
use model::plan::{RefusalCode, preflight};
use model::rights::{self, Need, RoleKind};
use model::spec::Spec;
use pve::Permissions;

use crate::Systems;
use crate::error::{Error, Result, hint};
use crate::observe::hosts::ask_for_room;
use crate::observe::named;
use crate::observe::proxmox::{Survey, survey, vnets};
use crate::session::{ObserveError, Session, Snapshot};
use crate::systems::{PROBE_TIMEOUT, TALOS_PORT};

/// Machines' certificates are valid from a little before they were made. A clock that is further off than this breaks that.
const CLOCK_TOLERANCE: i64 = 30;
/// The first version that is supported.
const FIRST_MAJOR: u32 = 9;

/// Room for a boot image while it is downloaded and unpacked.
const IMAGE_GIB: u64 = 4;

/// What findings of a plan are called.
const PLAN: &str = "plan";

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is as it must be.
    Ok,
    /// It works, and could be better.
    Warning,
    /// It is not as it must be.
    Error,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was checked.
    pub what: String,
    /// How it ended.
    pub verdict: Verdict,
    /// What was found.
    pub detail: String,
    /// What to do about it: commands, or a sentence.
    pub hint: Vec<String>,
}

impl Finding {
    fn ok(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { what: what.into(), verdict: Verdict::Ok, detail: detail.into(), hint: vec![] }
    }

    /// Something that is not as it must be.
    pub fn error(what: impl Into<String>, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), verdict: Verdict::Error, detail: detail.into(), hint: vec![hint.into()] }
    }

    fn warning(what: impl Into<String>, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning, ..Self::error(what, detail, hint) }
    }
}

/// Why nothing could be examined.
#[derive(Debug)]
pub enum Unexamined {
    /// The file asks for something that this Proxmox cannot give.
    File(Vec<Diagnostic>, Vec<Finding>),
    /// Proxmox does not answer, or does not let us in.
    Systems(Error),
}

/// Examines everything that the cluster of a file needs: Proxmox, and whether a plan would be refused.
///
/// # Errors
///
/// As [`proxmox`].
pub async fn examine(session: &Session) -> std::result::Result<Vec<Finding>, Unexamined> {
    let mut found = proxmox(&session.systems, session.spec()).await?;
    match session.observe().await {
        Ok(snapshot) => {
            let more = of_plan(&snapshot, &found);
            found.extend(more);
        }
        Err(ObserveError::Engine(error)) => {
            let hint = error.advice().map(str::to_owned).into_iter().collect();
            let detail = error.causes().join(": ");
            found.push(Finding { what: PLAN.to_owned(), verdict: Verdict::Error, detail, hint });
        }
        Err(ObserveError::File(problems)) => {
            let detail = format!("it has {} that every plan refuses", count(problems.len()));
            found.push(Finding::error(
                "cluster file",
                detail,
                "correct the file; the problems are listed below",
            ));
            return Err(Unexamined::File(problems, found));
        }
    }
    Ok(found)
}

fn count(problems: usize) -> String {
    match problems {
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    }
}

/// What `plan` refuses and warns of before it creates anything, in the same words.
fn of_plan(snapshot: &Snapshot, before: &[Finding]) -> Vec<Finding> {
    // A privilege that is missing was found already, with the commands that grant it.
    let is_found = |privilege: &str| {
        let names_it = |detail: &str| {
            detail.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').any(|word| word == privilege)
        };
        before.iter().any(|finding| finding.verdict == Verdict::Error && names_it(&finding.detail))
    };
    let missing = &snapshot.observed.proxmox.missing_rights;
    let hides_nothing = snapshot.observed.proxmox.hidden.is_empty();
    let rights_are_found =
        hides_nothing && !missing.is_empty() && missing.iter().all(|need| is_found(&need.privilege));
    let refusals = snapshot.plan().refusals;
    let refuses_nothing = refusals.is_empty();
    let mut found: Vec<Finding> = refusals
        .into_iter()
        .filter(|refusal| !(refusal.code == RefusalCode::Rights && rights_are_found))
        .map(|refusal| Finding::error(PLAN, refusal.why, refusal.hint))
        .collect();
    if refuses_nothing {
        found.push(Finding::ok(PLAN, "`talosmith plan` finds no reason to refuse"));
    }
    let warnings = preflight::warnings(&snapshot.blueprint, &snapshot.observed).into_iter();
    found.extend(warnings.map(|warning| Finding {
        what: PLAN.to_owned(),
        verdict: Verdict::Warning,
        detail: warning.text,
        hint: vec![],
    }));
    found
}

/// Examines Proxmox alone for the cluster of a file.
///
/// # Errors
///
/// When Proxmox does not answer at all, or the file cannot be resolved against what it has; what was found out by then comes
/// along.
pub async fn proxmox(systems: &Systems, spec: &Spec) -> std::result::Result<Vec<Finding>, Unexamined> {
    let attempt = |e: pve::Error| {
        Unexamined::Systems(Error::systems("could not query Proxmox").hint(hint(&e)).because(e))
    };
    if let Some(machines) = without_proxmox(systems, spec).await {
        return Ok(machines);
    }
    let version = systems.pve.version().await.map_err(attempt)?;
    let mut found = vec![if version.major >= FIRST_MAJOR {
        Finding::ok("version", format!("Proxmox VE {}", version.text))
    } else {
        Finding::error(
            "version",
            format!("Proxmox VE {} is too old", version.text),
            "upgrade to Proxmox VE 9",
        )
    }];
    let mut survey = survey(systems).await.map_err(Unexamined::Systems)?;
    ask_for_room(systems, &mut survey.inventory.hosts, |_| true).await;
    found.extend(hosts(systems, &survey, spec).await);
    let carriers = rights::hosts(spec, &survey.inventory);
    let blueprint = match model::resolve::resolve(spec, Some(&survey.inventory), None) {
        Ok(blueprint) => blueprint,
        Err(problems) => {
            // Without the rights to see a datastore or a bridge it looks as if there were none: that is told as well.
            if let Ok(open) = model::resolve::resolve(spec, None, None) {
                found.extend(privileges(systems, &open, &carriers).await.map_err(attempt)?);
            }
            // One that the token sees and that does not fit is not hidden.
            let may_be_hidden = |problem: &Diagnostic| {
                problem.code == codes::NO_DATASTORE && !problem.message.contains("does not take")
            };
            if problems.iter().all(may_be_hidden) {
                let is_named = |found: &Finding| {
                    found.verdict == Verdict::Error && found.what.starts_with("privileges at /storage/")
                };
                let named = found.iter().any(is_named);
                let hidden = unseen_datastores(systems, spec, &survey).await.map_err(attempt)?;
                if named || hidden.is_some() {
                    found.extend(hidden.filter(|_| !named));
                    return Err(Unexamined::File(problems, found));
                }
            }
            let detail = match problems.len() {
                1 => "it asks for something that this Proxmox does not have".to_owned(),
                many => format!("it asks for {many} things that this Proxmox does not have"),
            };
            found.push(Finding::error(
                "cluster file",
                detail,
                "correct Proxmox or the file; the problems are listed below",
            ));
            return Err(Unexamined::File(problems, found));
        }
    };
    found.extend(privileges(systems, &blueprint, &carriers).await.map_err(attempt)?);
    let nodes = on_hosts_that_answer(&survey, &blueprint);
    found.extend(stores(&survey, &nodes));
    found.extend(bridges(systems, &nodes).await);
    found.extend(devices(systems, &nodes).await);
    Ok(found)
}

/// The nodes whose host can be asked what it has. One that is offline has a finding of its own.
fn on_hosts_that_answer<'a>(survey: &Survey, blueprint: &'a Blueprint) -> Vec<&'a Node> {
    let is_offline = |host: &String| survey.inventory.hosts.get(host).is_some_and(|host| !host.online);
    let nodes = blueprint.nodes.values().filter(|node| !node.external);
    nodes.filter(|node| !node.host.as_ref().is_some_and(is_offline)).collect()
}

/// Datastores that may exist and that the token may not see: Proxmox leaves them out of its lists. `None` where it sees all of them.
async fn unseen_datastores(systems: &Systems, spec: &Spec, survey: &Survey) -> pve::Result<Option<Finding>> {
    let permissions = systems.pve.permissions().await?;
    if ["Datastore.Audit", "Datastore.AllocateSpace"]
        .iter()
        .any(|privilege| permissions.has("/storage", privilege))
    {
        return Ok(None);
    }
    let seen: BTreeSet<&str> =
        survey.inventory.hosts.values().flat_map(|host| host.datastores.keys()).map(String::as_str).collect();
    let seen = match seen.is_empty() {
        true => "no datastore".to_owned(),
        false => format!("only {}", seen.into_iter().collect::<Vec<_>>().join(", ")),
    };
    let roles = Roles::ask(systems, &permissions).await;
    let mut hint = vec![SETUP.to_owned()];
    hint.extend(roles.commands(&spec.cluster, RoleKind::Work, systems.pve.caller(), "/storage/NAME", None));
    let detail = format!(
        "the token sees {seen}, and may not see others that the file needs; missing: Datastore.Audit (see datastores)"
    );
    Ok(Some(Finding { what: "privileges at /storage".to_owned(), verdict: Verdict::Error, detail, hint }))
}

/// The usual hint for missing privileges.
const SETUP: &str =
    "run `talosmith proxmox setup` again, which grants what is missing; or, as root on a host:";

/// The roles of this Proxmox, and what the caller holds at each path.
struct Roles {
    all: BTreeMap<String, BTreeSet<String>>,
    held: Vec<BTreeSet<String>>,
}

impl Roles {
    /// Roles that cannot be listed are taken for roles that are not there: then the usual name is used.
    async fn ask(systems: &Systems, permissions: &Permissions) -> Self {
        let all = systems.pve.roles().await.unwrap_or_default();
        let all = all.into_iter().map(|role| (role.name, role.privileges.into_iter().collect())).collect();
        let held = permissions.0.values().map(|privileges| privileges.keys().cloned().collect()).collect();
        Self { all, held }
    }

    /// The commands that give a role at a path, with these privileges added to it.
    fn commands(
        &self,
        cluster: &str,
        kind: RoleKind,
        caller: &str,
        path: &str,
        add: Option<&[&str]>,
    ) -> Vec<String> {
        let user = caller.split('!').next().unwrap_or(caller);
        let whom = if user == caller {
            format!("--users '{user}'")
        } else {
            format!("--users '{user}' --tokens '{caller}'")
        };
        let down = if path == "/" { " --propagate 0" } else { "" };
        let (mut lines, role) = match rights::held_role(kind, cluster, &self.all, &self.held) {
            Some(role) if self.all.contains_key(&role) => (vec![], role),
            Some(role) => (vec![format!("pveum role add {role}")], role),
            None => {
                let name = kind.name(cluster);
                let which = format!(
                    "pveum acl list | grep -F '{caller}'  # shows which role is ROLE: {name}, or {name} with a number"
                );
                (vec![which], "ROLE".to_owned())
            }
        };
        if let Some(privileges) = add {
            lines.push(format!("pveum role modify {role} --append 1 --privs '{}'", privileges.join(" ")));
        }
        lines.push(format!("pveum acl modify {path} --roles {role} {whom}{down}"));
        lines
    }
}

/// A cluster of external machines has no Proxmox to examine. What can be asked is whether each machine answers.
async fn without_proxmox(systems: &Systems, spec: &Spec) -> Option<Vec<Finding>> {
    if model::resolve::needs_proxmox(spec) {
        return None;
    }
    let blueprint = model::resolve::resolve(spec, None, None).ok()?;
    let mut found = vec![Finding::ok("Proxmox", "not needed: every node of the file is `external`")];
    let machines = blueprint.in_order();
    let asked = join_all(machines.iter().map(|node| async move {
        let host = node.address.addr().to_string();
        matches!(systems.clock.timeout(PROBE_TIMEOUT, systems.net.dial(&host, TALOS_PORT)).await, Ok(Ok(_)))
    }));
    for (node, answers) in machines.iter().zip(asked.await) {
        let what = format!("machine {}", node.name);
        let address = node.address.addr();
        found.push(match answers {
            true => Finding::ok(what, format!("something answers at {address}, port {TALOS_PORT}")),
            false => Finding::warning(
                what,
                format!("nothing answers at {address}, port {TALOS_PORT} (the Talos API)"),
                "boot it from a Talos image, and check its address and the network path from here; a configured machine must run",
            ),
        });
    }
    Some(found)
}

/// Quorum, which hosts are up, and how far each clock is off.
async fn hosts(systems: &Systems, survey: &Survey, spec: &Spec) -> Vec<Finding> {
    let mut found = vec![];
    match systems.pve.cluster_status().await {
        Ok(status) if status.quorate => {
            found.push(Finding::ok("quorum", "the Proxmox cluster can be changed"))
        }
        Ok(_) => found.push(Finding::error(
            "quorum",
            "the Proxmox cluster has no quorum, so nothing can be changed",
            "bring back enough hosts",
        )),
        // Without Sys.Audit on / it cannot be asked; that is found below.
        Err(_) => {}
    }
    let named = |name: &String| spec.hosts.is_empty() || spec.hosts.contains_key(name);
    let (on, off): (Vec<_>, Vec<_>) =
        survey.inventory.hosts.iter().filter(|(name, _)| named(name)).partition(|(_, host)| host.online);
    found.extend(on.iter().map(|(name, host)| match host.maintenance {
        false => Finding::ok(format!("host {name}"), "online"),
        true => Finding::warning(
            format!("host {name}"),
            "online, in HA maintenance mode: it gets no new nodes",
            format!("`ha-manager crm-command node-maintenance disable {name}` ends it"),
        ),
    }));
    for (name, _) in off {
        // Where a node needs it, the plan refuses.
        let detail = "offline: it gets no new nodes, and Talosmith neither checks nor changes its guests";
        found.push(Finding::warning(format!("host {name}"), detail, "start it, or take it out of `hosts`"));
    }
    for name in spec.hosts.keys().filter(|name| !survey.inventory.hosts.contains_key(*name)) {
        found.push(Finding::error(
            format!("host {name}"),
            "there is no host of that name",
            "correct `hosts`",
        ));
    }
    let times = join_all(on.iter().map(|(name, _)| systems.pve.node_time(name))).await;
    for ((name, _), time) in on.iter().zip(times) {
        let what = format!("clock of {name}");
        let Ok(time) = time else { continue };
        let ahead = time - systems.clock.now().as_second();
        found.push(if ahead.abs() <= CLOCK_TOLERANCE {
            Finding::ok(what, format!("{} s from this computer", ahead.abs()))
        } else {
            let word = if ahead > 0 { "ahead of" } else { "behind" };
            let detail = format!("{} s {word} this computer; VMs start with the host's clock", ahead.abs());
            Finding::warning(
                what,
                detail,
                format!("look at `chronyc tracking` on {name}, and at this machine's clock"),
            )
        });
    }
    found
}

/// Each privilege at each path. What is missing is told by path, with the commands that grant it.
async fn privileges(systems: &Systems, blueprint: &Blueprint, hosts: &[String]) -> pve::Result<Vec<Finding>> {
    let permissions = systems.pve.permissions().await?;
    let needs = rights::in_zones(rights::needs(blueprint, hosts), &vnets(systems).await);
    let (consoles, needs): (Vec<Need>, Vec<Need>) =
        needs.into_iter().partition(|need| need.privilege == rights::TO_PROVE);
    let mut by_path: BTreeMap<&str, Vec<&Need>> = BTreeMap::new();
    for need in &needs {
        by_path.entry(&need.path).or_default().push(need);
    }
    // Where a grant is missing as a whole, the console is missing with it: that is one thing.
    let is_missing = |need: &Need| !permissions.has(&need.path, need.privilege);
    let (with_others, consoles): (Vec<&Need>, Vec<&Need>) = consoles.iter().partition(|console| {
        is_missing(console) && needs.iter().any(|need| need.path == console.path && is_missing(need))
    });
    for need in with_others {
        by_path.entry(&need.path).or_default().push(need);
    }
    let asking = Asking {
        roles: Roles::ask(systems, &permissions).await,
        permissions: &permissions,
        cluster: &blueprint.cluster,
        caller: systems.pve.caller(),
    };
    let check = |(path, needs): (&str, Vec<&Need>)| asking.at_path(path, &needs);
    let console = |need: &&Need| console(&asking, blueprint, need);
    let accounts = Holder::accounts(blueprint)
        .map(|(holder, account)| account_for(&permissions, blueprint, holder, &account));
    // Where the file uses it, it is among the others.
    let asked = needs.iter().any(|need| need.privilege == rights::TO_MOVE);
    let maintenance = (hosts.len() > 1 && !asked).then(|| maintenance(&asking, blueprint));
    let found = by_path.into_iter().map(check).chain(consoles.iter().map(console)).chain(accounts);
    Ok(found.chain(maintenance).collect())
}

/// Whether nodes can be moved between hosts. Bring-up does not need it.
fn maintenance(asking: &Asking<'_>, blueprint: &Blueprint) -> Finding {
    let what = "privileges for maintenance".to_owned();
    let needs = rights::maintenance_needs(blueprint);
    let missing = needs.iter().find(|need| !asking.permissions.has(&need.path, need.privilege));
    match missing {
        None => Finding::ok(what, format!("{}, for `host drain` and nodes that move", rights::TO_MOVE)),
        Some(need) => Finding::ok(
            what,
            format!(
                "{} at {} is not granted; only `host drain` and nodes that move need it, and `talosmith proxmox setup --maintenance` \
                 grants it",
                need.privilege, need.path
            ),
        ),
    }
}

/// Whether the account of something that runs in the cluster can be made. `plan` asks for the same privileges.
fn account_for(
    permissions: &Permissions,
    blueprint: &Blueprint,
    holder: Holder,
    account: &Account,
) -> Finding {
    let what = format!("account for {}", holder.title());
    let needs = holder.needs(blueprint);
    let missing: Vec<String> = needs
        .iter()
        .filter(|(path, right)| !permissions.has(path, right))
        .map(|(path, right)| format!("{right} on {path}"))
        .collect();
    if missing.is_empty() {
        return Finding::ok(what, format!("{} can be created", account.user));
    }
    let detail = format!("the token may not create {}: missing {}", account.user, missing.join(", "));
    let hint = format!(
        "create the account yourself and say with `manifests.{}.token` where its token is; or grant these privileges, which let the \
         token give itself any other",
        holder.key()
    );
    Finding::error(what, detail, hint)
}

/// Whether new machines can be proved through their console, asked for each VM as a plan does: what is granted on one VM replaces what comes
/// from above. Where the file does not ask for it, they are known by their UUID instead, and every plan warns.
fn console(asking: &Asking<'_>, blueprint: &Blueprint, need: &Need) -> Finding {
    let permissions = asking.permissions;
    let what = format!("console at {}", need.path);
    let lacks = |node: &&Node| {
        let need = rights::to_prove(blueprint, node, None);
        !node.external && !need.is_met(|path, privilege| permissions.has(path, privilege))
    };
    let denied: Vec<&Node> = blueprint.in_order().into_iter().filter(lacks).collect();
    if denied.is_empty() {
        return Finding::ok(
            what,
            format!("{}: new machines are verified through their console", need.privilege),
        );
    }
    let from_above = permissions.has(&need.path, need.privilege);
    let hint = match from_above {
        false => asking.at_path(&need.path, &[need]).hint,
        // Each of these VMs has a grant of its own.
        true => denied
            .iter()
            .flat_map(|node| {
                let path = format!("/vms/{}", node.vmid);
                let of_vm = Need { path: path.clone(), ..need.clone() };
                asking.at_path(&path, &[&of_vm]).hint
            })
            .fold(vec![], |mut all, line| {
                if !all.contains(&line) {
                    all.push(line);
                }
                all
            }),
    };
    let nodes: Vec<&str> = denied.iter().map(|node| node.name.as_str()).collect();
    let on = if from_above { format!(" on the VMs of {}", nodes.join(", ")) } else { String::new() };
    let (verdict, then) = match blueprint.options.identity {
        None => (
            Verdict::Warning,
            "new machines are known by their SMBIOS UUID only, which a relay in the network can pass on",
        ),
        Some(_) => (Verdict::Error, "new machines cannot be proved, and receive no configuration"),
    };
    Finding { what, verdict, detail: format!("missing{on}: {}; {then}", need.privilege), hint }
}

/// Whose privileges are examined.
struct Asking<'a> {
    roles: Roles,
    permissions: &'a Permissions,
    cluster: &'a str,
    caller: &'a str,
}

impl Asking<'_> {
    fn at_path(&self, path: &str, needs: &[&Need]) -> Finding {
        let what = format!("privileges at {path}");
        let is_missing =
            |need: &&&Need| !need.is_met(|path, privilege| self.permissions.has(path, privilege));
        let missing: Vec<&&Need> = needs.iter().filter(is_missing).collect();
        let Some(first) = missing.first() else {
            let all: Vec<&str> = needs.iter().map(|need| need.privilege).collect();
            return Finding::ok(what, all.join(" "));
        };
        let told: Vec<String> =
            missing.iter().map(|need| format!("{} ({})", need.privilege, need.reason)).collect();
        let names: BTreeSet<&str> = missing.iter().map(|need| need.privilege).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let kind = first.role;
        let mut hint = vec![SETUP.to_owned()];
        hint.extend(self.roles.commands(self.cluster, kind, self.caller, path, Some(&names)));
        Finding { what, verdict: Verdict::Error, detail: format!("missing: {}", told.join(", ")), hint }
    }
}

/// The datastores that the blueprint chose, each with what it must hold.
fn stores(survey: &Survey, nodes: &[&Node]) -> Vec<Finding> {
    // With the size of the largest thing that goes there.
    let mut wanted: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for node in nodes {
        let Some(host) = &node.host else { continue };
        let disks =
            node.hardware.disks.iter().map(|disk| (disk.datastore.as_deref(), "images", disk.size_gib));
        let others = [
            (node.disk_datastore.as_deref(), "images", node.disk_gib),
            (node.hardware.cloudinit_datastore.as_deref(), "images", 0),
            (node.image_datastore.as_deref(), "import", IMAGE_GIB),
        ];
        for (store, content, gib) in disks.chain(others) {
            let Some(store) = store else { continue };
            let most = wanted.entry((host, store, content)).or_default();
            *most = gib.max(*most);
        }
    }
    let check = |((host, store, content), gib): ((&str, &str, &str), u64)| {
        let what = format!("datastore {store} on {host}");
        let seen = survey.inventory.hosts.get(host).and_then(|host| host.datastores.get(store));
        match seen {
            Some(seen) if seen.content.iter().any(|kind| kind == content) => {
                room(what, content, seen.free_bytes >> 30, gib)
            }
            Some(seen) => {
                let mut all = seen.content.clone();
                all.push(content.to_owned());
                let command = format!("pvesm set {store} --content {}", all.join(","));
                Finding::error(what, format!("does not accept the content type `{content}`"), command)
            }
            None => Finding::error(
                what,
                "it does not exist, or the token may not see it",
                format!("pvesm status --storage {store}"),
            ),
        }
    };
    wanted.into_iter().map(check).collect()
}

/// Whether a datastore has room for the largest thing that goes there. A disk may grow later, and a node may exist already, so little
/// room is a doubt; none at all is a fault.
fn room(what: String, content: &str, free: u64, gib: u64) -> Finding {
    let detail = format!("accepts {content}, {free} GiB free");
    if free >= gib {
        return Finding::ok(what, detail);
    }
    let detail = format!("{detail}, less than the {gib} GiB of what goes there");
    let hint = "delete what is not needed there, or name another datastore in the file";
    if free == 0 { Finding::error(what, detail, hint) } else { Finding::warning(what, detail, hint) }
}

async fn bridges(systems: &Systems, nodes: &[&Node]) -> Vec<Finding> {
    let mut wanted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for node in nodes {
        let Some(host) = &node.host else { continue };
        let more = node.settings.extra_nics.iter().map(|nic| nic.bridge.as_str());
        wanted.entry(host).or_default().extend(std::iter::once(node.bridge.as_str()).chain(more));
    }
    let networks = join_all(wanted.keys().map(|host| systems.pve.node_networks(host))).await;
    let mut found = vec![];
    for ((host, bridges), networks) in wanted.into_iter().zip(networks) {
        found.extend(bridges.into_iter().map(|bridge| {
            let what = format!("bridge {bridge} on {host}");
            let networks = match &networks {
                Ok(networks) => networks,
                Err(error) => return not_asked(what, error),
            };
            if networks.iter().any(|network| network.iface == bridge) {
                return Finding::ok(what, "exists");
            }
            let detail = "it does not exist, or the token may not use it";
            Finding::error(what, detail, format!("look at {host}, System, Network"))
        }));
    }
    found
}

async fn devices(systems: &Systems, nodes: &[&Node]) -> Vec<Finding> {
    let wanted: BTreeSet<(&str, &str)> = named::devices(nodes.iter().copied()).collect();
    if wanted.is_empty() {
        return vec![];
    }
    let hosts: BTreeSet<&str> = wanted.iter().map(|(_, host)| *host).collect();
    let checked = join_all(hosts.iter().map(|host| systems.pve.pci_mappings(Some(host)))).await;
    let checked: BTreeMap<&str, _> = hosts.into_iter().zip(checked).collect();
    let check = |(name, host): (&str, &str)| {
        let what = format!("PCI mapping {name} on {host}");
        let mappings = match &checked[host] {
            Ok(mappings) => mappings,
            Err(error) => return not_asked(what, error),
        };
        let wrong = mappings.iter().filter(|mapping| mapping.id == name).flat_map(|mapping| &mapping.checks);
        let wrong: Vec<&str> =
            wrong.filter(|check| check.severity == "error").map(|check| check.message.as_str()).collect();
        match named::is_on(mappings, name, host) {
            Some(true) if wrong.is_empty() => Finding::ok(what, "exists, and matches the host's device"),
            Some(true) => Finding::error(
                what,
                format!("VMs with it will not start: {}", wrong.join("; ")),
                "give the device's address in the file and run `talosmith proxmox setup`, or create the mapping again under \
                 Datacenter, Resource Mappings",
            ),
            Some(false) => Finding::error(
                what,
                "the mapping has no device on this host",
                "add one under Datacenter, Resource Mappings",
            ),
            None => Finding::error(
                what,
                "it does not exist, or the token may not see it",
                "give the device's address in the file and run `talosmith proxmox setup`",
            ),
        }
    };
    wanted.into_iter().map(check).collect()
}

/// What Proxmox did not answer is not known, neither good nor missing.
fn not_asked(what: String, error: &pve::Error) -> Finding {
    Finding::error(what, format!("not known: {error}"), hint(error))
}

/// The worst of all verdicts.
#[must_use]
pub fn verdict(found: &[Finding]) -> Verdict {
    found.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Ok)
}

/// Refuses a server that is too old, before anything else is asked of it.
///
/// # Errors
///
/// When the version is below 9, or cannot be read.
pub async fn supported(pve: &pve::Client) -> Result<()> {
    let version = pve
        .version()
        .await
        .map_err(|e| Error::systems("could not query Proxmox").hint(hint(&e)).because(e))?;
    if version.major >= FIRST_MAJOR {
        return Ok(());
    }
    let text = format!("this is Proxmox VE {}; version 9 or newer is needed", version.text);
    Err(Error::new(crate::error::Kind::Refused, text).hint("upgrade Proxmox VE"))
}
