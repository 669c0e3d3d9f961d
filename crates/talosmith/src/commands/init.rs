//! `init`: a commented file to start with, filled in from what Proxmox really has, where it can be asked.

use std::path::PathBuf;

use model::diagnostic::Source;
use model::spec::DEFAULT_TOKEN;
use model::starter::{Starter, starter};

use super::import::{refuse_existing, write_new};
use super::setup::{Setup, Wrong, checked, confirm};
use crate::args::{Global, InitArgs};
use crate::exit::Exit;
use crate::outside;
use crate::view::show::summary;
use crate::view::{Printer, Problem};

/// Writes the file. What is wrong with it comes from the options, so it counts as a wrong command line.
pub async fn init(global: &Global, args: &InitArgs, printer: &Printer) -> Result<Exit, Problem> {
    match try_init(global, args, printer).await {
        Ok(exit) => Ok(exit),
        Err(Wrong::Shown) => {
            if let Ok(path) = target(global) {
                printer.note(&format!(
                    "{} was not written: correct the options and run `talosmith init` again.",
                    path.display()
                ));
            }
            Ok(Exit::Usage)
        }
        Err(Wrong::Problem(problem)) => Err(problem),
    }
}

async fn try_init(global: &Global, args: &InitArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let path = target(global)?;
    if !args.print {
        refuse_existing(&path, args.force)?;
    }
    let mut options = options(args);
    let mut text = starter(&options, None);
    // Nothing is written before it is right, so no problem can be looked up in the file.
    let source = |text: &str| Source::new(format!("{} (not written)", path.display()), text);
    checked(&[source(&text)], printer)?;
    let mut hosts = None;
    if let Some(why_not) = not_asked(global, args) {
        printer.note(&why_not);
        if args.endpoint.is_some() && !args.offline {
            greet(&path, &mut options, printer).await?;
            text = starter(&options, None);
        }
    } else {
        let global = Global { files: vec![path.clone()], ..global.clone() };
        let survey = loop {
            let (loaded, _) = checked(&[source(&starter(&options, None))], printer)?;
            let outside = Setup::of(&global, loaded).outside(&global).await?;
            match engine::observe::proxmox::survey(&outside.systems).await {
                Ok(survey) => break survey,
                Err(error) => match pin(shown(&error), &options, printer)? {
                    Some(fingerprint) => options.fingerprint = Some(fingerprint),
                    None => return Err(not_filled_in(&error).into()),
                },
            }
        };
        text = starter(&options, Some(&survey.inventory));
        hosts = Some(survey.inventory.hosts.into_keys().collect::<Vec<_>>());
    }
    let (loaded, _) = checked(&[source(&text)], printer)?;
    if args.print {
        printer.document(&text);
        return Ok(Exit::Done);
    }
    write_new(&path, &text, args.force)?;
    if printer.is_json() {
        printer.data(&serde_json::json!({ "file": path, "hosts": hosts }));
        return Ok(Exit::Done);
    }
    let blueprint = model::resolve::resolve(&loaded.spec, None, None);
    let made = blueprint.map_or_else(|_| loaded.spec.cluster.clone(), |blueprint| summary(&blueprint));
    printer.say(&format!("Written to {}: {made}.", path.display()));
    if let Some(hosts) = &hosts {
        printer.say(&format!("Filled in from Proxmox: {}.", hosts.join(", ")));
    }
    // Without a token, that is what comes next on a Proxmox that was named.
    let next = match (&hosts, &args.endpoint) {
        (None, Some(_)) => "`talosmith proxmox setup`, `talosmith doctor`, then `talosmith plan`",
        _ => "`talosmith show`, then `talosmith plan`",
    };
    printer.note(&format!("Read it and change what does not fit. Next: {next}."));
    Ok(Exit::Done)
}

/// Without a token, Proxmox can still be asked who it is. A certificate that is not trusted is shown, and pinned if a person confirms
/// it; the file is written in any case.
async fn greet(path: &std::path::Path, options: &mut Starter, printer: &Printer) -> Result<(), Wrong> {
    let source = Source::new(format!("{} (not written)", path.display()), starter(options, None));
    let (loaded, _) = checked(&[source], printer)?;
    let Err(error) = outside::greet(&loaded.spec, path).await else { return Ok(()) };
    let shown = match &error {
        pve::LoginError::Call(error) => error.shown_certificate().map(|fingerprint| fingerprint.to_string()),
        pve::LoginError::Trust(_) => None,
    };
    if let Some(pinned) = pin(shown.clone(), options, printer)? {
        options.fingerprint = Some(pinned);
        return Ok(());
    }
    let problem = Problem::of(Exit::Systems, &error);
    let why = problem.causes.last().cloned().unwrap_or_default();
    printer.note(&match shown {
        Some(shown) => format!(
            "The certificate of {} was not accepted: {why}. If the host itself shows that fingerprint (`pvenode cert info` in its shell, or \
             NODE > System > Certificates in the web interface), write `fingerprint: '{shown}'` under `proxmox`.",
            options.endpoint,
        ),
        None => format!("{} could not be asked for its certificate: {}.", options.endpoint, problem.causes.join(": ")),
    });
    Ok(())
}

/// The fingerprint of a certificate without a trusted issuer, if a person confirms it. Asked once: a
/// pinned certificate that does not fit is not replaced by whatever answers.
fn pin(shown: Option<String>, options: &Starter, printer: &Printer) -> Result<Option<String>, Problem> {
    use std::io::IsTerminal;
    let trusted_otherwise = options.fingerprint.is_some() || options.ca.is_some();
    let Some(shown) = shown.filter(|_| !trusted_otherwise) else { return Ok(None) };
    if printer.is_json() || !std::io::stdin().is_terminal() {
        return Ok(None);
    }
    printer.say(&format!(
        "No trusted certificate authority signed the certificate of {}, as usual for Proxmox. Its SHA-256 fingerprint is\n  {shown}\n\
         Compare it with what the host itself shows: `pvenode cert info` in its shell, or NODE > System > Certificates in the web \
         interface.",
        options.endpoint
    ));
    Ok(confirm(printer, "Pin it in the file?")?.then_some(shown))
}

/// The certificate that Proxmox showed and that was not accepted.
fn shown(error: &engine::Error) -> Option<String> {
    let below = std::error::Error::source(error)?.downcast_ref::<pve::Error>()?;
    below.shown_certificate().map(|fingerprint| fingerprint.to_string())
}

fn not_filled_in(error: &engine::Error) -> Problem {
    let problem = Problem::from(error).within("could not fill in what Proxmox has");
    match shown(error) {
        Some(shown) => problem.hint(format!(
            "if this is your Proxmox host, run the command again with `--fingerprint {shown}`, once you have compared it with what the \
             host itself shows (`pvenode cert info` in its shell, or NODE > System > Certificates in the web interface)"
        )),
        None => problem,
    }
}

fn target(global: &Global) -> Result<PathBuf, Problem> {
    match &global.files[..] {
        [path] if path.is_dir() => Ok(path.join("cluster.yaml")),
        [path] => Ok(path.clone()),
        _ => Err(Problem::new(Exit::Usage, "`init` writes one file, and several were named with `-f`")),
    }
}

fn options(args: &InitArgs) -> Starter {
    let usual = Starter::default();
    Starter {
        cluster: args.cluster.clone(),
        endpoint: args.endpoint.clone().unwrap_or(usual.endpoint),
        token: args.token.clone(),
        fingerprint: args.fingerprint.clone(),
        ca: args.ca.clone(),
        insecure: args.insecure,
        cidr: args.cidr.clone(),
        gateway: args.gateway.clone(),
        vip: args.vip.clone(),
        control_planes: args.control_planes,
        workers: args.workers,
        talos: args.talos.clone(),
        kubernetes: args.kubernetes.clone(),
    }
}

/// Why Proxmox is not asked, when it is not.
fn not_asked(global: &Global, args: &InitArgs) -> Option<String> {
    if global.lab && !args.offline {
        return None;
    }
    let variable = DEFAULT_TOKEN.trim_start_matches("env:");
    let has_token = args.token.is_some() || std::env::var_os(variable).is_some_and(|value| !value.is_empty());
    match () {
        () if args.offline => Some("Proxmox was not asked; hosts and datastores are left open.".to_owned()),
        () if args.endpoint.is_none() => Some(
            "Proxmox was not asked, because no `--endpoint` was given; `proxmox.endpoint` is only an example."
                .to_owned(),
        ),
        () if !has_token => Some(format!(
            "Talosmith did not query Proxmox, because there is no token: set {variable} or give `--token`, and run it again with `--force` to fill in hosts and datastores."
        )),
        () => None,
    }
}
