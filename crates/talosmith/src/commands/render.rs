//! `render`: what the nodes and the Image Factory would be given, as files.
//!
//! No system is asked, so what only Proxmox can decide stays open and is named. The same file and bundle give the same texts,
//! except for the talosconfig, whose certificate is new each time.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use engine::render::{Config, Renderer, Schematic, schematics};
use engine::secrets::write_private;
use model::blueprint::{Blueprint, Node, Role};
use model::diagnostic::nearest;
use model::names::NodeName;
use talos::config::{Documents, NEWEST};
use talos::secrets::Bundle;
use zeroize::Zeroizing;

use super::credentials::{length, talosconfig_text};
use super::secrets::no_secrets;
use super::setup::{Setup, Wrong, ended};
use crate::args::{Global, RenderArgs, TalosRole};
use crate::exit::Exit;
use crate::outside;
use crate::view::{Printer, Problem};

/// For how long the talosconfig holds.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// What is said about a document, before it.
const COMMENTS: &[(&str, &str)] = &[
    ("HostnameConfig", "The name of the machine, and of its node in Kubernetes."),
    ("LinkAliasConfig", "The network interface is found by its MAC address and has this alias from here on."),
    ("LinkConfig", "Addresses and routes of a network interface."),
    ("DHCPv4Config", "This interface uses DHCP."),
    ("Layer2VIPConfig", "The address that moves between the control plane nodes."),
    (
        "UserVolumeConfig",
        "A disk for data, found by what Proxmox was told to call it. Mounted at /var/mnt/NAME.",
    ),
    ("RegistryMirrorConfig", "Where images of this registry are pulled from instead."),
    ("UnattendedInstallConfig", "Where Talos installs itself."),
];

/// Writes everything.
pub fn render(global: &Global, args: &RenderArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_render(global, args, printer))
}

fn try_render(global: &Global, args: &RenderArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    let attachments = setup.attachments(printer)?;
    let now = outside::time(setup.lab.map(|_| setup.place.folder()));
    let bundle = match setup.place.load_bundle() {
        Ok(Some(bundle)) => bundle,
        // Nothing of it is seen, so any will do.
        _ if args.redact => Bundle::placeholder(NEWEST, now)
            .map_err(|e| Problem::of(Exit::Internal, &e).within("could not create placeholder secrets"))?,
        Ok(None) => return Err(no_secrets(&setup).into()),
        Err(problem) => return Err(problem.into()),
    };
    let shown = |found| setup.shown(found, printer);
    let blueprint =
        model::resolve::resolve(&setup.loaded.spec, None, Some(bundle.cluster_id())).map_err(shown)?;
    if let Some(name) = args.node.as_ref().filter(|name| !blueprint.nodes.contains_key(*name)) {
        return Err(unknown(&blueprint, name).into());
    }
    let schematics = schematics(&blueprint, &attachments).map_err(|e| Problem::from(&e))?;
    let configs = Renderer::new(&blueprint, &schematics, &attachments).configs(&bundle).map_err(shown)?;

    let mut written = Vec::new();
    for (name, config) in
        configs.iter().filter(|(name, _)| args.node.as_ref().is_none_or(|only| only == *name))
    {
        let Some(node) = blueprint.nodes.get(name) else { continue };
        let text = node_text(&blueprint, node, &schematics[&node.image], config, args.redact);
        write(&args.output, &format!("{name}.yaml"), &text)?;
        written.push((format!("{name}.yaml"), summary(&blueprint, node)));
    }
    let used = |key: &String| {
        args.node.is_none() || args.node.as_ref().is_some_and(|n| blueprint.nodes[n].image == *key)
    };
    for (key, schematic) in schematics.iter().filter(|(key, _)| used(key)) {
        let name = format!("schematic-{key}.yaml");
        write(&args.output, &name, &schematic.text)?;
        let id = schematic.id.as_deref().unwrap_or("only a factory knows its id");
        written.push((name, format!("of the image {}, {id}", blueprint.images[key].talos)));
    }
    if !args.redact {
        let text = talosconfig_text(&bundle, &blueprint, TalosRole::Admin, LIFETIME, now)
            .map_err(|e| Problem::of(Exit::Secrets, &e).within("could not create the talosconfig"))?;
        write(&args.output, "talosconfig", &text)?;
        written.push(("talosconfig".to_owned(), format!("for an administrator, for {}", length(LIFETIME))));
    }
    report(&args.output, &written, &open(&blueprint, args.node.as_deref()), args.redact, printer);
    Ok(Exit::Done)
}

fn unknown(blueprint: &Blueprint, name: &str) -> Problem {
    let names = || blueprint.nodes.keys().map(NodeName::as_str);
    let hint = match nearest(name, names()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
    };
    Problem::new(Exit::Usage, format!("the cluster has no node called {name}")).hint(hint)
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), Problem> {
    let path = folder.join(name);
    write_private(&path, text.as_bytes(), false)
        .map_err(|e| Problem::of(Exit::Systems, &e).within(format!("could not write {}", path.display())))
}

fn summary(blueprint: &Blueprint, node: &Node) -> String {
    let role = match node.role {
        Role::ControlPlane => "control plane",
        Role::Worker => "worker",
    };
    let contract =
        blueprint.options.contract.as_ref().map(|it| format!(" (contract {it})")).unwrap_or_default();
    format!("{role}, Talos {}{contract}, Kubernetes {}", node.talos, node.kubernetes)
}

/// The configuration with what helps to read it. Comments mean nothing to Talos.
fn node_text(
    blueprint: &Blueprint,
    node: &Node,
    schematic: &Schematic,
    config: &Config,
    redact: bool,
) -> Zeroizing<String> {
    let plain =
        if redact { Zeroizing::new(config.redacted()) } else { Zeroizing::new(config.expose().to_owned()) };
    let mut text = Zeroizing::new(format!("# {}: {}\n", node.name, summary(blueprint, node)));
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "# Schematic of its image: {}",
        schematic.id.as_deref().unwrap_or("known to a factory only")
    );
    for line in open(blueprint, Some(&node.name)) {
        let _ = writeln!(text, "# Open: {line}");
    }
    let _ = writeln!(
        text,
        "# {}",
        if redact {
            "Without secrets: no machine accepts it."
        } else {
            "It contains keys of the cluster. Keep it secret."
        }
    );
    let documents = Documents::parse(&plain).map(|all| all.iter().map(|it| it.to_yaml()).collect::<Vec<_>>());
    for (index, document) in documents.unwrap_or_default().into_iter().map(Zeroizing::new).enumerate() {
        let kind = document.lines().find_map(|line| line.strip_prefix("kind: ")).unwrap_or_default();
        let comment =
            COMMENTS.iter().find(|(known, _)| *known == kind).map(|(_, comment)| format!("# {comment}\n"));
        let _ = write!(
            text,
            "{}{}{}",
            if index == 0 { "" } else { "---\n" },
            comment.unwrap_or_default(),
            *document
        );
    }
    text
}

/// What only Proxmox can decide, as far as a configuration depends on it.
fn open(blueprint: &Blueprint, node: Option<&str>) -> Vec<String> {
    let nodes = blueprint.nodes.values().filter(|it| node.is_none_or(|only| only == it.name));
    let homeless: Vec<&str> =
        nodes.filter(|it| it.host.is_none() && !it.external).map(|it| it.name.as_str()).collect();
    let whose = match homeless[..] {
        [] => return Vec::new(),
        [one] => format!("the host of {one}"),
        ref many => format!("the hosts of {} nodes", many.len()),
    };
    vec![format!("{whose}, and with it the label topology.kubernetes.io/zone where hosts have zones")]
}

fn report(folder: &Path, written: &[(String, String)], open: &[String], redact: bool, printer: &Printer) {
    if printer.is_json() {
        let names: Vec<&String> = written.iter().map(|(name, _)| name).collect();
        printer
            .data(&serde_json::json!({ "folder": folder, "files": names, "open": open, "redacted": redact }));
        return;
    }
    let width = written.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = format!("In {}:\n", folder.display());
    for (name, what) in written {
        let _ = writeln!(text, "  {name:width$}  {what}");
    }
    for line in open {
        let _ = writeln!(text, "\nOpen until Proxmox is asked: {line}.");
    }
    printer.say(text.trim_end());
    if !redact {
        printer.note(
            "\nThe files hold keys of the cluster; only you can read them. Keep them out of version control.",
        );
    }
}
