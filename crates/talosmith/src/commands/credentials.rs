//! `kubeconfig` and `talosconfig`, minted from the bundle: they work even when the cluster does not.

use std::time::Duration;

use engine::secrets::write_private;
use jiff::Timestamp;
use model::blueprint::Blueprint;
use talos::pki;
use talos::secrets::Bundle;

use super::setup::{Setup, Wrong, ended};
use crate::args::{Global, OutputArgs};
use crate::exit::Exit;
use crate::outside;
use crate::view::{Printer, Problem};

/// Writes a kubeconfig.
pub fn kubeconfig(global: &Global, args: &OutputArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(write(global, args, printer, |bundle, blueprint, lifetime, now| {
        let identity = pki::kubernetes_admin(bundle, lifetime, now)?;
        Ok(pki::kubeconfig(&blueprint.cluster, &blueprint.endpoint, &identity))
    }))
}

/// Writes a talosconfig.
pub fn talosconfig(global: &Global, args: &OutputArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(write(global, args, printer, |bundle, blueprint, lifetime, now| {
        let identity = pki::talos_client(bundle, pki::ADMIN, lifetime, now)?;
        // Never the VIP: it is gone whenever etcd is, which is when one needs the Talos API most.
        let endpoints: Vec<String> =
            blueprint.control_planes().map(|n| n.address.addr().to_string()).collect();
        let nodes: Vec<String> = blueprint.nodes.values().map(|n| n.address.addr().to_string()).collect();
        Ok(pki::talosconfig(&blueprint.cluster, &endpoints, &nodes, &identity))
    }))
}

fn write(
    global: &Global,
    args: &OutputArgs,
    printer: &Printer,
    make: impl Fn(&Bundle, &Blueprint, Duration, Timestamp) -> Result<String, pki::PkiError>,
) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    let Some(bundle) = setup.place.load_bundle()? else {
        return Err(Problem::new(
            Exit::Secrets,
            format!("the cluster {} has no secrets yet", setup.loaded.spec.cluster),
        )
        .remedy("`talosmith apply` makes them")
        .into());
    };
    let blueprint =
        model::resolve::resolve(&setup.loaded.spec, None, Some(bundle.cluster_id())).map_err(|found| {
            printer.diagnostics(&setup.loaded.sources, &setup.loaded.locate(found));
            Wrong::Shown
        })?;
    let now = outside::time(setup.lab.map(|_| setup.place.folder()));
    let lifetime = Duration::from_secs(args.hours * 3600);
    let text = make(&bundle, &blueprint, lifetime, now)
        .map_err(|e| Problem::of(Exit::Secrets, &e).within("could not make the certificate"))?;
    match &args.output {
        None => printer.verbatim(&text),
        Some(path) => {
            write_private(path, text.as_bytes(), false).map_err(|e| {
                Problem::of(Exit::World, &e).within(format!("could not write {}", path.display()))
            })?;
            printer.note(&format!(
                "Written to {}; its certificate holds for {} hours.",
                path.display(),
                args.hours
            ));
        }
    }
    Ok(Exit::Done)
}
