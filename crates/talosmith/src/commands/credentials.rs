//! `kubeconfig` and `talosconfig`, minted from the bundle: they work even when the cluster does not.

use std::path::Path;
use std::time::Duration;

use engine::secrets::write_private;
use jiff::Timestamp;
use model::blueprint::Blueprint;
use talos::pki;
use talos::secrets::Bundle;

use super::secrets::no_secrets;
use super::setup::{Setup, Wrong, ended};
use crate::args::{Global, OutputArgs, TalosRole, TalosconfigArgs};
use crate::exit::Exit;
use crate::merge::{self, MergeError};
use crate::outside;
use crate::view::{Printer, Problem};

/// For how long a certificate holds that nobody gave a time for.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

type Made = Result<String, pki::PkiError>;
type Merge = fn(&str, &str) -> Result<String, MergeError>;

/// Writes a kubeconfig.
pub fn kubeconfig(global: &Global, args: &OutputArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(write(global, args, printer, make_kubeconfig, merge::kubeconfig))
}

/// Merges a kubeconfig into `path`.
pub fn merge_kubeconfig(global: &Global, path: &Path, printer: &Printer) -> Result<(), Wrong> {
    write(global, &into(path), printer, make_kubeconfig, merge::kubeconfig).map(|_| ())
}

/// Merges a talosconfig into `path`.
pub fn merge_talosconfig(global: &Global, path: &Path, printer: &Printer) -> Result<(), Wrong> {
    write(global, &into(path), printer, make_talosconfig, merge::talosconfig).map(|_| ())
}

fn into(path: &Path) -> OutputArgs {
    OutputArgs { output: Some(path.to_owned()), ttl: LIFETIME, merge: true }
}

fn make_kubeconfig(bundle: &Bundle, blueprint: &Blueprint, lifetime: Duration, now: Timestamp) -> Made {
    let identity = pki::kubernetes_admin(bundle, lifetime, now)?;
    Ok(pki::kubeconfig(&blueprint.cluster, &blueprint.endpoint, &identity))
}

fn make_talosconfig(bundle: &Bundle, blueprint: &Blueprint, lifetime: Duration, now: Timestamp) -> Made {
    talosconfig_text(bundle, blueprint, TalosRole::Admin, lifetime, now)
}

/// A talosconfig for all nodes.
pub fn talosconfig_text(
    bundle: &Bundle,
    blueprint: &Blueprint,
    role: TalosRole,
    lifetime: Duration,
    now: Timestamp,
) -> Made {
    let identity = pki::talos_client(bundle, role.as_str(), lifetime, now)?;
    // Never the VIP: it is gone whenever etcd is, which is when one needs the Talos API most.
    let endpoints: Vec<String> = blueprint.control_planes().map(|n| n.address.addr().to_string()).collect();
    let nodes: Vec<String> = blueprint.in_order().into_iter().map(|n| n.address.addr().to_string()).collect();
    Ok(pki::talosconfig(&blueprint.cluster, &endpoints, &nodes, &identity))
}

/// Writes a talosconfig.
pub fn talosconfig(global: &Global, args: &TalosconfigArgs, printer: &Printer) -> Result<Exit, Problem> {
    let make = |bundle: &Bundle, blueprint: &Blueprint, lifetime: Duration, now: Timestamp| {
        talosconfig_text(bundle, blueprint, args.role, lifetime, now)
    };
    ended(write(global, &args.output, printer, make, merge::talosconfig))
}

fn write(
    global: &Global,
    args: &OutputArgs,
    printer: &Printer,
    make: impl Fn(&Bundle, &Blueprint, Duration, Timestamp) -> Made,
    merge: Merge,
) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    let Some(bundle) = setup.place.load_bundle()? else { return Err(no_secrets(&setup).into()) };
    let blueprint = model::resolve::resolve(&setup.loaded.spec, None, Some(bundle.cluster_id()))
        .map_err(|found| setup.shown(found, printer))?;
    let now = outside::time(setup.lab.map(|_| setup.place.folder()));
    let text = make(&bundle, &blueprint, args.ttl, now)
        .map_err(|e| Problem::of(Exit::Secrets, &e).within("could not make the certificate"))?;
    match &args.output {
        None => printer.verbatim(&text),
        Some(path) => {
            let text = if args.merge { merged(path, &text, merge)? } else { text };
            write_private(path, text.as_bytes(), false).map_err(|e| {
                Problem::of(Exit::World, &e).within(format!("could not write {}", path.display()))
            })?;
            printer.note(&format!(
                "Written to {}; its certificate holds for {}.",
                path.display(),
                length(args.ttl)
            ));
        }
    }
    Ok(Exit::Done)
}

/// What is in `path` together with what is new. A file that is not there is an empty one.
fn merged(path: &Path, new: &str, merge: Merge) -> Result<String, Problem> {
    let within = |problem: Problem| problem.within(format!("could not merge into {}", path.display()));
    let there = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(within(Problem::of(Exit::World, &error))),
    };
    merge(&there, new).map_err(|e| {
        within(Problem::of(Exit::Input, &e)).remedy("name another file; this one was left as it is")
    })
}

/// A length of time in words, in the largest unit that fits.
pub fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    let (number, unit) = [(24 * 3600, "day"), (3600, "hour"), (60, "minute")]
        .into_iter()
        .find(|(unit, _)| seconds.is_multiple_of(*unit) && seconds >= 2 * unit)
        .map_or((seconds / 60, "minute"), |(unit, name)| (seconds / unit, name));
    if number == 1 { format!("1 {unit}") } else { format!("{number} {unit}s") }
}
