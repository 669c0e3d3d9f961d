//! `lab inject` and `lab down`: orders to a lab that is served elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use ambient::Net;
use lab::{CallFilter, ConsoleFault, ControlError, Injection, Order, Report, Service, When, Wire};

use super::setup::{Wrong, ended, load_file};
use crate::args::{ConsoleKind, FolderArgs, Global, Inject, InjectArgs, WhichArgs, WireKind};
use crate::exit::Exit;
use crate::place::Place;
use crate::view::{Printer, Problem};

/// Stops a lab that is served.
pub async fn down(global: &Global, args: &FolderArgs, printer: &Printer) -> Result<Exit, Problem> {
    let folder = match folder(global, args, printer) {
        Ok(folder) => folder,
        Err(wrong) => return ended(Err(wrong)),
    };
    let told = |stopped: bool| {
        if printer.is_json() {
            printer.data(&serde_json::json!({ "stopped": stopped }));
        }
    };
    match Order::Down.give(&folder, &Net::tcp()).await {
        Ok(_) => {
            told(true);
            printer.say("The lab is down.");
            Ok(Exit::Done)
        }
        Err(ControlError::NoLab(_)) => {
            told(false);
            printer.say("No lab of this file is up.");
            Ok(Exit::Done)
        }
        Err(error) => Err(problem(&error)),
    }
}

/// Breaks something in a lab that is served.
pub async fn inject(global: &Global, args: &InjectArgs, printer: &Printer) -> Result<Exit, Problem> {
    if matches!(args.what, Inject::Faults) {
        if printer.is_json() {
            let fault = |number| serde_json::json!({ "number": number, "what": lab::known_words(number) });
            let faults: Vec<_> = lab::known_faults().into_iter().map(fault).collect();
            printer.data(&serde_json::json!({ "faults": faults }));
        }
        for number in lab::known_faults() {
            printer.say(&format!("{number:>3}  {}", lab::known_words(number).unwrap_or_default()));
        }
        return Ok(Exit::Done);
    }
    let folder = match folder(global, &args.folder, printer) {
        Ok(folder) => folder,
        Err(wrong) => return ended(Err(wrong)),
    };
    let mut last = None;
    for order in orders(&args.what) {
        let order = match order {
            Order::Inject(injection) if is_early(&args.what) => Order::Prepare(injection),
            order => order,
        };
        last = Some(order.give(&folder, &Net::tcp()).await.map_err(|error| problem(&error))?);
    }
    if let Some(report) = last {
        show(&report, printer);
    }
    Ok(Exit::Done)
}

/// The folder of the lab that is meant.
fn folder(global: &Global, args: &FolderArgs, printer: &Printer) -> Result<PathBuf, Wrong> {
    if let Some(folder) = &args.folder {
        return Ok(folder.clone());
    }
    let loaded = load_file(global, printer)?;
    let file = global.files.first().cloned().unwrap_or_else(|| "cluster.yaml".into());
    Ok(Place::served(&file, &loaded.spec.cluster).folder().to_owned())
}

fn problem(error: &ControlError) -> Problem {
    let problem = Problem::of(Exit::Systems, error);
    match error {
        ControlError::NoLab(_) => problem.hint("`talosmith lab up` starts one; `--folder` names another"),
        ControlError::Silent { .. } => problem.hint("stop it with Ctrl-C where it runs, and start it again"),
        // A name or a number that the lab does not have.
        ControlError::Refused(_) => Problem::of(Exit::Usage, error),
    }
}

/// Whether the VM may be created later.
fn is_early(what: &Inject) -> bool {
    match what {
        Inject::Console { early, .. }
        | Inject::Relay { early, .. }
        | Inject::Reissue { early, .. }
        | Inject::Disk { early, .. } => early.early,
        _ => false,
    }
}

fn orders(what: &Inject) -> Vec<Order> {
    let one = |injection| vec![Order::Inject(injection)];
    match what {
        Inject::Show | Inject::Faults => vec![Order::Look],
        Inject::Off { host } => one(Injection::HostOffline(host.clone())),
        Inject::On { host } => one(Injection::HostOnline(host.clone())),
        Inject::Slow { host, by } => {
            one(Injection::HostSlow { node: host.clone(), by: Duration::from_secs_f64(*by) })
        }
        Inject::Full { host, no } => one(Injection::HostFull { node: host.clone(), full: !no }),
        Inject::Clock { host, ahead } => one(Injection::HostClock { node: host.clone(), ahead: *ahead }),
        Inject::Quorum { back } => one(Injection::Quorum { lost: !back }),
        Inject::Outside { only } => {
            one(Injection::Outside { only: (!only.is_empty()).then(|| only.clone()) })
        }
        Inject::BrokenSystem { vmid, talos, no } => {
            one(Injection::BrokenSystem { vmid: *vmid, talos: talos.clone(), broken: !no })
        }
        Inject::FullEtcd { vmid } => one(Injection::FullEtcd { vmid: *vmid }),
        Inject::Console { vmid, what, by, no, .. } => {
            let by = Duration::from_secs_f64(*by);
            let fault = match what {
                ConsoleKind::Silent => ConsoleFault::Silent,
                ConsoleKind::Cut => ConsoleFault::Cut(by),
                ConsoleKind::Slow => ConsoleFault::Slow(by),
                ConsoleKind::Flood => ConsoleFault::Flood,
            };
            one(Injection::Console { vmid: *vmid, fault: (!no).then_some(fault) })
        }
        Inject::Relay { vmid, no, .. } => one(Injection::Relay { vmid: *vmid, present: !no }),
        Inject::Reissue { vmid, times, .. } => one(Injection::Reissue { vmid: *vmid, connections: *times }),
        Inject::Clear => one(Injection::Clear),
        Inject::Unplug { vmid, back } => one(Injection::Unplugged { vmid: *vmid, unplugged: !back }),
        Inject::Time { back } => one(Injection::TimeServers { answer: *back }),
        Inject::Disk { vmid, gib, .. } => one(Injection::SmallDisk { vmid: *vmid, gib: *gib }),
        Inject::Wire { what, by, which } => {
            let fault = match what {
                WireKind::Refused => Wire::Refused,
                WireKind::Reset => Wire::Reset,
                WireKind::Lost => Wire::Lost,
                WireKind::Cut => Wire::Cut,
                WireKind::BlackHole => Wire::BlackHole,
                WireKind::Slow => Wire::Slow(Duration::from_secs_f64(*by)),
            };
            whens(which).map(|when| Order::Inject(Injection::Wire { fault, when })).collect()
        }
        Inject::Fault { number, which } => {
            whens(which).map(|when| Order::Inject(Injection::Known { number: *number, when })).collect()
        }
    }
}

/// How many calls the lab has answered, as a sentence.
fn calls(report: &Report) -> String {
    let name = |service: &Service| match service {
        Service::Proxmox => "Proxmox VE",
        Service::Factory => "the Image Factory",
        Service::Talos => "machines",
        Service::Kubernetes => "Kubernetes",
    };
    let parts: Vec<String> =
        report.calls.iter().map(|(service, count)| format!("{count} to {}", name(service))).collect();
    if parts.is_empty() { "No calls yet.".to_owned() } else { format!("Calls: {}.", parts.join(", ")) }
}

/// The calls that are meant. Each of several waits for a call of its own: one that is taken leaves the next call to the next.
fn whens(args: &WhichArgs) -> impl Iterator<Item = When> + use<> {
    let (method, path_contains) = (args.method.to_uppercase(), args.path.clone());
    let which = CallFilter { method, path_contains, skip: args.after };
    let (when, times) = match args.chance {
        Some(permille) => (When::Chance { which, permille, seed: args.seed }, 1),
        None => (When::Call(which), args.times),
    };
    (0..times).map(move |_| when.clone())
}

fn show(report: &Report, printer: &Printer) {
    if printer.is_json() {
        printer.data(report);
        return;
    }
    for (host, wrong) in &report.hosts {
        printer
            .say(&format!("{host}: {}", if wrong.is_empty() { "ok".to_owned() } else { wrong.join(", ") }));
    }
    printer.say(if report.quorate { "The cluster has quorum." } else { "The cluster has no quorum." });
    printer.say(&calls(report));
    for wrong in &report.machines {
        printer.say(wrong);
    }
    for waiting in &report.waiting {
        printer.say(&format!("waits: {waiting}"));
    }
    let shown = report.met.len().saturating_sub(20);
    if shown > 0 {
        printer.say(&format!("{shown} earlier failures met a call"));
    }
    for met in report.met.iter().skip(shown) {
        printer.say(&format!("met: failure {} at {} {}", met.number, met.method, met.path));
    }
    for met in report.wires.iter().rev().take(20).rev() {
        printer.say(&format!("met: {met}"));
    }
}
