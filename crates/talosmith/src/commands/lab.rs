//! `lab up` and `lab reset`; orders to a lab that is up are in `inject`.
//!
//! `lab up` serves a lab on loopback, with real ports. All of 127.0.0.0/8 is loopback on Linux, so the file's network is
//! moved there (10.25.150.0/24 becomes 127.25.150.0/24), and a *lab copy* of the file is written with that network, the
//! served endpoint, its fingerprint and its token. With the copy every command, and every other program, works as it
//! would on a real Proxmox.

use std::net::SocketAddr;
use std::path::Path;

use ambient::Clock;
use engine::secrets::write_private;
use model::spec::Spec;

use super::setup::{Setup, Wrong, confirm, ended, flags};
use crate::args::{Global, LabSpeed, UpArgs};
use crate::exit::Exit;
use crate::outside;
use crate::place::Place;
use crate::view::{Printer, Problem};

/// Serves the lab until it is interrupted.
pub async fn up(global: &Global, args: &UpArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_up(global, args, printer).await)
}

async fn try_up(global: &Global, args: &UpArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let (proxmox, factory) = (args.proxmox, args.factory);
    let setup = Setup::new(global, printer)?;
    let file = global.files.first().cloned().unwrap_or_else(|| "cluster.yaml".into());
    let mut place = Place::served(&file, &setup.loaded.spec.cluster);
    if let Some(folder) = &args.folder.folder {
        place = place.at(folder.clone());
    }
    place.make()?;
    let _lock = place.lock().map_err(|problem| match problem.exit {
        Exit::Busy => Problem::new(Exit::Busy, "a lab of this file is up already")
            .hint(format!("use it, or stop it with `talosmith lab down{}`", flags(global))),
        _ => problem,
    })?;
    let mut moved = moved(&setup.loaded.spec);
    moved.image.factory = format!("https://{factory}");
    let clock = Clock::from(outside::time(None), served_speed(global)?);
    let version = args.proxmox_version.into();
    let lab = outside::open_lab(&moved, place.folder().to_owned(), clock.clone(), global.lab_seed, version)?;
    let token = outside::least_token(&lab, &clock, &moved, place.folder()).await?;
    let serving = serve(&lab, proxmox, factory).await?;
    // Where the system chose the port, the copy must know which.
    moved.image.factory = format!("https://{}", serving.factory);
    let control = control(&lab, place.folder()).await?;
    let facts = lab.facts();
    let write = |name: &str, text: &str| {
        let path = place.folder().join(name);
        write_private(&path, text.as_bytes(), false)
            .map_err(|e| Problem::of(Exit::Systems, &e).within(format!("could not write {}", path.display())))
            .map(|()| path)
    };
    write("token", &format!("{token}\n"))?;
    write("factory-ca.pem", &facts.factory_ca_pem)?;
    let lab_copy = write("cluster.yaml", &lab_copy(&moved, serving.proxmox, &facts.fingerprint)?)?;
    if printer.is_json() {
        printer.data(&serde_json::json!({
            "proxmox": format!("https://{}", serving.proxmox),
            "fingerprint": facts.fingerprint,
            "token": token,
            "root_token": facts.token,
            "root_password": facts.root_password,
            "factory": format!("https://{}", serving.factory),
            "file": lab_copy,
        }));
    } else {
        printer.say(&format!(
            "The lab is up. It ends with Ctrl-C; its state is kept in {}.\n",
            place.folder().display()
        ));
        printer.say(&format!("  Proxmox VE    https://{}", serving.proxmox));
        printer.say(&format!("  fingerprint   {}", facts.fingerprint));
        printer.say(&format!("  token         {token}"));
        printer.say(&format!("  root@pam      {}", facts.root_password));
        printer.say(&format!("  root's token  {}", facts.token));
        printer.say(&format!("  factory       https://{}", serving.factory));
        printer.say(&format!("  your file     {}\n", lab_copy.display()));
        printer.say("In another terminal:\n");
        printer.say(&format!("  talosmith apply -f {}", lab_copy.display()));
        printer.say(&format!(
            "  curl -k -H 'Authorization: PVEAPIToken={}' 'https://{}/api2/json/cluster/resources?type=vm'",
            token, serving.proxmox
        ));
    }
    until_down(Some(&control)).await;
    for (address, why) in serving.trouble() {
        printer.note(&format!("{address} could not be served: {why}"));
    }
    printer.note("The lab is down.");
    Ok(Exit::Done)
}

/// Serves the world that a file describes until it is interrupted.
pub async fn up_world(
    global: &Global,
    file: &Path,
    args: &UpArgs,
    printer: &Printer,
) -> Result<Exit, Problem> {
    let within =
        |problem: Problem| problem.within(format!("could not use the lab state in {}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|e| within(Problem::of(Exit::Input, &e)))?;
    let description: lab::Description =
        serde_json::from_str(&text).map_err(|e| within(Problem::of(Exit::Input, &e)))?;
    let folder = args.folder.folder.clone();
    let _lock = match &folder {
        Some(folder) => {
            let place = Place::served(file, "world").at(folder.clone());
            place.make()?;
            Some(place.lock()?)
        }
        None => None,
    };
    // A world that is kept goes on where it stood.
    let now = folder.as_deref().and_then(lab::Lab::saved_time).unwrap_or_else(|| outside::time(None));
    let config = lab::LabConfig {
        proxmox: args.proxmox_version.into(),
        seed: global.lab_seed,
        folder: folder.clone(),
        ..description.config()
    };
    let clock = Clock::from(now, served_speed(global)?);
    let lab = lab::Lab::open(config, clock).map_err(|e| within(Problem::of(Exit::Systems, &e)))?;
    let serving = serve(&lab, args.proxmox, args.factory).await?;
    let control = match &folder {
        Some(folder) => Some(control(&lab, folder).await?),
        None => None,
    };
    let facts = lab.facts();
    if printer.is_json() {
        printer.data(&serde_json::json!({
            "proxmox": format!("https://{}", serving.proxmox),
            "fingerprint": facts.fingerprint,
            "token": facts.token,
            "root_token": facts.token,
            "root_password": facts.root_password,
            "factory": format!("https://{}", serving.factory),
        }));
    } else {
        match &folder {
            Some(folder) => printer.say(&format!(
                "The lab is up. It ends with Ctrl-C; its state is kept in {}.\n",
                folder.display()
            )),
            None => printer.say("The lab is up. It ends with Ctrl-C, and its state with it.\n"),
        }
        printer.say(&format!("  Proxmox VE    https://{}", serving.proxmox));
        printer.say(&format!("  fingerprint   {}", facts.fingerprint));
        printer.say(&format!("  token         {}", facts.token));
        printer.say(&format!("  root@pam      {}", facts.root_password));
    }
    until_down(control.as_ref()).await;
    printer.note("The lab is down.");
    Ok(Exit::Done)
}

/// Waits for Ctrl-C, for the system to end us, or for an order to go down.
async fn until_down(control: Option<&lab::Control>) {
    let ordered = async {
        match control {
            Some(control) => control.wants_down().await,
            None => std::future::pending().await,
        }
    };
    let ended = async {
        #[cfg(unix)]
        if let Ok(mut signal) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            signal.recv().await;
            return;
        }
        std::future::pending().await
    };
    tokio::select! {
        biased;
        () = ordered => {}
        () = ended => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// Lets the lab take orders; everyone who can read its folder knows the secret.
async fn control(lab: &lab::Lab, folder: &Path) -> Result<lab::Control, Problem> {
    let secret = uuid::Uuid::from_bytes(rand::random()).to_string();
    let control = lab.control(folder, secret).await;
    control.map_err(|e| Problem::of(Exit::Systems, &e).within("could not open the lab's control socket"))
}

/// How fast a served lab's time runs. It cannot jump, because others look at it.
fn served_speed(global: &Global) -> Result<f64, Problem> {
    match global.lab_speed {
        None => Ok(1.0),
        Some(LabSpeed::Times(times)) => Ok(times),
        Some(LabSpeed::Max) => {
            Err(Problem::new(Exit::Usage, "a served lab cannot skip time, because other programs use it")
                .hint("give `--lab-speed` a number, such as 10"))
        }
    }
}

async fn serve(lab: &lab::Lab, proxmox: SocketAddr, factory: SocketAddr) -> Result<lab::Serving, Problem> {
    lab.serve(lab::ServeOptions { proxmox, factory }).await.map_err(|e| {
        let problem = Problem::of(Exit::Systems, &e).within("could not serve the lab");
        problem.hint(e.hint().unwrap_or("choose other ports with `--proxmox` and `--factory`"))
    })
}

/// The file with its network moved to loopback.
fn moved(spec: &Spec) -> Spec {
    let mut spec = spec.clone();
    let network = &mut spec.network;
    for text in [&mut network.cidr, &mut network.gateway] {
        *text = to_loopback(text);
    }
    network.vip = network.vip.as_deref().map(to_loopback);
    for pool in spec.pools.values_mut() {
        let both =
            |range: &str| range.split('-').map(|a| to_loopback(a.trim())).collect::<Vec<_>>().join("-");
        pool.addresses = pool.addresses.as_deref().map(both);
    }
    for node in spec.nodes.values_mut() {
        node.address = node.address.as_deref().map(to_loopback);
    }
    // A name would lead to the real cluster.
    spec.endpoint = None;
    spec
}

/// 10.25.150.11 becomes 127.25.150.11; what is no address stays as it is.
fn to_loopback(text: &str) -> String {
    match text.split_once('.') {
        Some((first, rest)) if first.parse::<u8>().is_ok() => format!("127.{rest}"),
        _ => text.to_owned(),
    }
}

fn lab_copy(moved: &Spec, proxmox: SocketAddr, fingerprint: &str) -> Result<String, Problem> {
    let mut spec = moved.clone();
    spec.proxmox.endpoint = Some(format!("https://{proxmox}"));
    spec.proxmox.endpoints.clear();
    spec.proxmox.fingerprint = Some(fingerprint.to_owned());
    spec.proxmox.ca = None;
    spec.proxmox.insecure = false;
    spec.proxmox.token = Some("file:token".to_owned());
    spec.image.ca = Some("factory-ca.pem".to_owned());
    let yaml = serde_saphyr::to_string(&spec)
        .map_err(|e| Problem::of(Exit::Internal, &e).within("could not write the lab copy of your file"))?;
    Ok(format!(
        "# The lab copy of your file: the same cluster, in the lab that `talosmith lab up` serves on loopback.\n{yaml}"
    ))
}

/// Forgets the lab's world of this file.
pub fn reset(global: &Global, yes: bool, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_reset(global, yes, printer))
}

fn try_reset(global: &Global, yes: bool, printer: &Printer) -> Result<Exit, Wrong> {
    let loaded = super::setup::load_file(global, printer)?;
    let file = global.files.first().cloned().unwrap_or_else(|| "cluster.yaml".into());
    let place = Place::lab(&file, &loaded.spec.cluster);
    let told = |deleted: bool| {
        if printer.is_json() {
            printer.data(&serde_json::json!({ "deleted": deleted }));
        }
    };
    if !place.folder().exists() {
        told(false);
        printer.say("There is no lab of this file.");
        return Ok(Exit::Done);
    }
    let _lock = place.lock()?;
    if !yes && !confirm(printer, &format!("Delete the lab of {}?", loaded.spec.cluster))? {
        printer.note("Nothing was changed.");
        return Ok(Exit::Declined);
    }
    std::fs::remove_dir_all(place.folder()).map_err(|e| {
        Problem::of(Exit::Systems, &e).within(format!("could not remove {}", place.folder().display()))
    })?;
    told(true);
    printer.say("The lab state was deleted.");
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::to_loopback;

    #[test]
    fn addresses_move_and_names_stay() {
        assert_eq!(to_loopback("10.25.150.0/24"), "127.25.150.0/24");
        assert_eq!(to_loopback("192.168.1.7"), "127.168.1.7");
        assert_eq!(to_loopback("gateway.example"), "gateway.example");
    }
}
