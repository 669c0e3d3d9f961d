//! `kubeconfig` and `talosconfig`, minted from the bundle: they work even when the cluster does not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ambient::{Clock, Net};
use engine::secrets::write_private;
use jiff::Timestamp;
use model::blueprint::Blueprint;
use talos::pki;
use talos::secrets::{self, Bundle};

use super::secrets::no_secrets;
use super::setup::{Setup, Wrong, ended, flags};
use crate::args::{Global, OutputArgs, TalosRole, TalosconfigArgs};
use crate::exit::Exit;
use crate::merge::Form;
use crate::outside;
use crate::view::{Printer, Problem};

/// For how long a certificate is valid by default.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// How long Kubernetes may take to accept a connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

type Made = Result<String, pki::PkiError>;

/// Writes a kubeconfig.
pub async fn kubeconfig(global: &Global, args: &OutputArgs, printer: &Printer) -> Result<Exit, Problem> {
    match write(global, args, printer, make_kubeconfig, Form::Kubeconfig) {
        Ok((setup, blueprint)) => {
            if !answers(global, &setup, &blueprint).await {
                printer.note(&format!(
                    "Kubernetes does not answer at {} from here. This kubeconfig works once the cluster is bootstrapped \
                     (`talosmith apply{}`) and that address can be reached.",
                    blueprint.endpoint,
                    flags(global)
                ));
            }
            Ok(Exit::Done)
        }
        Err(wrong) => ended(Err(wrong)),
    }
}

/// Whether something listens where the kubeconfig leads. Where that cannot be asked, nothing is said against it.
async fn answers(global: &Global, setup: &Setup, blueprint: &Blueprint) -> bool {
    let Some((host, port)) = blueprint.endpoint.trim_start_matches("https://").rsplit_once(':') else {
        return true;
    };
    let Ok(port) = port.trim_end_matches('/').parse() else { return true };
    let (net, clock, _lab) = match setup.lab {
        None => (Net::tcp(), Clock::real(), None),
        Some(_) => {
            let Ok(outside) = setup.outside(global).await else { return true };
            (outside.systems.net.clone(), outside.systems.clock.clone(), Some(outside))
        }
    };
    matches!(clock.timeout(ANSWER_TIMEOUT, net.dial(host, port)).await, Ok(Ok(_)))
}

/// Merges a kubeconfig into `path`.
pub fn merge_kubeconfig(global: &Global, path: &Path, printer: &Printer) -> Result<(), Wrong> {
    write(global, &into(path), printer, make_kubeconfig, Form::Kubeconfig).map(|_| ())
}

/// Merges a talosconfig into `path`.
pub fn merge_talosconfig(global: &Global, path: &Path, printer: &Printer) -> Result<(), Wrong> {
    write(global, &into(path), printer, make_talosconfig, Form::Talosconfig).map(|_| ())
}

fn into(path: &Path) -> OutputArgs {
    OutputArgs { output: Some(path.to_owned()), ttl: LIFETIME, merge: true, force: false }
}

fn make_kubeconfig(bundle: &Bundle, blueprint: &Blueprint, lifetime: Duration, now: Timestamp) -> Made {
    let identity = secrets::kubernetes_admin(bundle, lifetime, now)?;
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
    let identity = secrets::talos_client(bundle, role.as_str(), lifetime, now)?;
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
    ended(write(global, &args.output, printer, make, Form::Talosconfig).map(|_| Exit::Done))
}

fn write(
    global: &Global,
    args: &OutputArgs,
    printer: &Printer,
    make: impl Fn(&Bundle, &Blueprint, Duration, Timestamp) -> Made,
    form: Form,
) -> Result<(Setup, Blueprint), Wrong> {
    let setup = Setup::new(global, printer)?;
    let Some(bundle) = setup.place.load_bundle()? else { return Err(no_secrets(&setup).into()) };
    let blueprint = model::resolve::resolve(&setup.loaded.spec, None, Some(bundle.cluster_id()))
        .map_err(|found| setup.shown(found, printer))?;
    let now = outside::time(setup.lab.map(|_| setup.place.folder()));
    let text = make(&bundle, &blueprint, args.ttl, now)
        .map_err(|e| Problem::of(Exit::Secrets, &e).within("could not create the certificate"))?;
    match &args.output {
        None => printer.document(&text),
        Some(path) => {
            // A file that is kept elsewhere with a link here keeps both.
            let target = behind_links(path);
            let there = if args.force { String::new() } else { there(path, form)? };
            let mut moved = None;
            let text = if args.merge {
                let merged = form.merge(&there, &text).map_err(|e| {
                    Problem::of(Exit::Input, &e)
                        .within(format!("could not merge into {}", path.display()))
                        .hint("name another file; this one was not changed")
                })?;
                moved = merged.was_current.map(|was| (was, merged.current));
                merged.text
            } else {
                keeps_others(path, &there, &text, form)?;
                text
            };
            let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
            write_private(&target, text.as_bytes(), false).map_err(|e| {
                Problem::of(Exit::Systems, &e).within(format!("could not write {}", path.display()))
            })?;
            if printer.is_json() {
                printer.data(&serde_json::json!({ "file": path }));
            }
            if let Some(folder) = folder {
                printer.note(&format!("Created the folder {}.", folder.display()));
            }
            printer.note(&format!(
                "Written to {}; its certificate is valid for {}.",
                path.display(),
                length(args.ttl)
            ));
            if let Some((was, is)) = moved {
                printer.note(&format!("The current context there is {is} now; it was {was}."));
            }
        }
    }
    Ok((setup, blueprint))
}

/// What is in `path`. A file that is not there is an empty one.
fn there(path: &Path, form: Form) -> Result<String, Problem> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Problem::of(Exit::Systems, &error).within(format!(
            "could not read what is in {} before writing a {}",
            path.display(),
            form.name()
        ))),
    }
}

/// A file is replaced only where nothing of others is lost with it.
fn keeps_others(path: &Path, there: &str, new: &str, form: Form) -> Result<(), Problem> {
    let path = path.display();
    match form.others(there, new) {
        Ok(others) if others.is_empty() => Ok(()),
        Ok(others) => {
            let names: Vec<String> = others.into_iter().collect();
            let why = format!("{path} holds something else, too: {}", names.join(", "));
            Err(Problem::new(Exit::Refused, why)
                .hint("keep it with `--merge`, or replace the whole file with `--force`"))
        }
        Err(error) => Err(Problem::of(Exit::Refused, &error)
            .within(format!("{path} already exists, and was not changed"))
            .hint("name another file, or replace this one with `--force`")),
    }
}

/// The file that a path leads to.
fn behind_links(path: &Path) -> PathBuf {
    let target = |to: PathBuf| path.parent().map_or_else(|| to.clone(), |folder| folder.join(&to));
    // A link that leads nowhere yet leads to the new file afterwards.
    std::fs::canonicalize(path)
        .or_else(|_| std::fs::read_link(path).map(target))
        .unwrap_or_else(|_| path.to_owned())
}

/// A length of time in words, in the largest unit that fits.
pub fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    // A single day is told in hours.
    let (number, unit) = [(24 * 3600, 2, "day"), (3600, 1, "hour"), (60, 1, "minute")]
        .into_iter()
        .find(|(unit, least, _)| seconds.is_multiple_of(*unit) && seconds >= least * unit)
        .map_or((seconds / 60, "minute"), |(unit, _, name)| (seconds / unit, name));
    if number == 1 { format!("1 {unit}") } else { format!("{number} {unit}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_the_largest_unit_that_fits() {
        let told = [60, 90 * 60, 3600, 24 * 3600, 30 * 24 * 3600].map(|s| length(Duration::from_secs(s)));
        assert_eq!(told, ["1 minute", "90 minutes", "1 hour", "24 hours", "30 days"]);
    }
}
