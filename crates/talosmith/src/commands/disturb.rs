//! `lab disturb` and `lab down`: orders to a lab that is served elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use ambient::Net;
use lab::{CallFilter, ConsoleFault, ControlError, Disturbance, Order, Report, Service, When, Wire};

use super::setup::{Wrong, ended, load_file};
use crate::args::{ConsoleKind, Disturb, DisturbArgs, FolderArgs, Global, WhichArgs, WireKind};
use crate::exit::Exit;
use crate::place::Place;
use crate::view::{Printer, Problem};

/// Stops a lab that is served.
pub async fn down(global: &Global, args: &FolderArgs, printer: &Printer) -> Result<Exit, Problem> {
    let folder = match folder(global, args, printer) {
        Ok(folder) => folder,
        Err(wrong) => return ended(Err(wrong)),
    };
    match Order::Down.give(&folder, &Net::tcp()).await {
        Ok(_) => {
            printer.say("The lab is down.");
            Ok(Exit::Done)
        }
        Err(ControlError::NoLab(_)) => {
            printer.say("No lab of this file is up.");
            Ok(Exit::Done)
        }
        Err(error) => Err(problem(&error)),
    }
}

/// Breaks something in a lab that is served.
pub async fn disturb(global: &Global, args: &DisturbArgs, printer: &Printer) -> Result<Exit, Problem> {
    if matches!(args.what, Disturb::Faults) {
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
            Order::Disturb(disturbance) if is_early(&args.what) => Order::Prepare(disturbance),
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
    let problem = Problem::of(Exit::World, error);
    match error {
        ControlError::NoLab(_) => problem.remedy("`talosmith lab up` begins one; `--folder` names another"),
        ControlError::Silent { .. } => {
            problem.remedy("stop it with Ctrl-C where it runs, and begin it again")
        }
        ControlError::Refused(_) => problem,
    }
}

/// Whether the VM may be created later.
fn is_early(what: &Disturb) -> bool {
    match what {
        Disturb::Console { early, .. }
        | Disturb::Relay { early, .. }
        | Disturb::Reissue { early, .. }
        | Disturb::Disk { early, .. } => early.early,
        _ => false,
    }
}

fn orders(what: &Disturb) -> Vec<Order> {
    let one = |disturbance| vec![Order::Disturb(disturbance)];
    match what {
        Disturb::Show | Disturb::Faults => vec![Order::Look],
        Disturb::Off { host } => one(Disturbance::HostOffline(host.clone())),
        Disturb::On { host } => one(Disturbance::HostOnline(host.clone())),
        Disturb::Slow { host, by } => {
            one(Disturbance::HostSlow { node: host.clone(), by: Duration::from_secs_f64(*by) })
        }
        Disturb::Full { host, no } => one(Disturbance::HostFull { node: host.clone(), full: !no }),
        Disturb::Clock { host, ahead } => one(Disturbance::HostClock { node: host.clone(), ahead: *ahead }),
        Disturb::Quorum { back } => one(Disturbance::Quorum { lost: !back }),
        Disturb::Outside { only } => {
            one(Disturbance::Outside { only: (!only.is_empty()).then(|| only.clone()) })
        }
        Disturb::BrokenSystem { vmid, talos, no } => {
            one(Disturbance::BrokenSystem { vmid: *vmid, talos: talos.clone(), broken: !no })
        }
        Disturb::FullEtcd { vmid } => one(Disturbance::FullEtcd { vmid: *vmid }),
        Disturb::Console { vmid, what, by, no, .. } => {
            let by = Duration::from_secs_f64(*by);
            let fault = match what {
                ConsoleKind::Silent => ConsoleFault::Silent,
                ConsoleKind::Cut => ConsoleFault::Cut(by),
                ConsoleKind::Slow => ConsoleFault::Slow(by),
                ConsoleKind::Flood => ConsoleFault::Flood,
            };
            one(Disturbance::Console { vmid: *vmid, fault: (!no).then_some(fault) })
        }
        Disturb::Relay { vmid, no, .. } => one(Disturbance::Relay { vmid: *vmid, present: !no }),
        Disturb::Reissue { vmid, times, .. } => {
            one(Disturbance::Reissue { vmid: *vmid, connections: *times })
        }
        Disturb::Mend => one(Disturbance::Mend),
        Disturb::Unplug { vmid, back } => one(Disturbance::Unplugged { vmid: *vmid, unplugged: !back }),
        Disturb::Time { back } => one(Disturbance::TimeServers { answer: *back }),
        Disturb::Disk { vmid, gib, .. } => one(Disturbance::SmallDisk { vmid: *vmid, gib: *gib }),
        Disturb::Wire { what, by, which } => {
            let fault = match what {
                WireKind::Refused => Wire::Refused,
                WireKind::Reset => Wire::Reset,
                WireKind::Lost => Wire::Lost,
                WireKind::Cut => Wire::Cut,
                WireKind::BlackHole => Wire::BlackHole,
                WireKind::Slow => Wire::Slow(Duration::from_secs_f64(*by)),
            };
            whens(which).map(|when| Order::Disturb(Disturbance::Wire { fault, when })).collect()
        }
        Disturb::Fault { number, which } => {
            whens(which).map(|when| Order::Disturb(Disturbance::Known { number: *number, when })).collect()
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
    if parts.is_empty() { "Nobody called it.".to_owned() } else { format!("Calls: {}.", parts.join(", ")) }
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
            .say(&format!("{host}: {}", if wrong.is_empty() { "well".to_owned() } else { wrong.join(", ") }));
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
