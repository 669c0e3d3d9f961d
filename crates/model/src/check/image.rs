//! Boot images: the factory, extensions, mirrors, for the cluster, its pools and its nodes.

use crate::diagnostic::{Diagnostic, Path, codes};
use crate::draft::Draft;
use crate::forms;

pub(super) fn check(draft: &Draft<'_>, found: &mut Vec<Diagnostic>) {
    let spec = draft.spec;
    let image = &spec.image;
    let path = Path::of(&["image"]);
    factory(&image.factory, &path, found);
    extensions(&image.extensions, &path, found);
    if let Some(url) = image.mirror.as_ref().filter(|url| !forms::is_url(url, &["https", "http"])) {
        let problem = Diagnostic::error(codes::BAD_URL, format!("`{url}` cannot be the URL of a proxy"));
        found.push(problem.at(path.key("mirror"), "").help("write `https://HOST`"));
    }
    if let Some(at) = image.installer_mirror.as_ref().filter(|at| !forms::is_registry(at)) {
        let problem = Diagnostic::error(codes::BAD_URL, format!("`{at}` cannot be a registry"));
        let help = "write `HOST/PATH` without `https://`, for example `harbor.example.net/talos`";
        found.push(problem.at(path.key("installer_mirror"), "").help(help));
    }
    if image.schematic.is_some() && !image.kernel_args.is_empty() {
        let problem = Diagnostic::error(
            codes::SCHEMATIC_CHOICE,
            "`image` has a schematic file and kernel arguments beside it",
        );
        let problem = problem.at_key(path.key("schematic"), "").at_key(path.key("kernel_args"), "");
        found.push(problem.help("a schematic file is used as it stands: put the arguments in it"));
    }
    let pools = spec.pools.iter().map(|(name, pool)| (Path::of(&["pools", name, "image"]), &pool.traits));
    let nodes = spec.nodes.iter().map(|(name, node)| (Path::of(&["nodes", name, "image"]), &node.traits));
    let defaults = [
        (Path::of(&["defaults", "controlplane", "image"]), &spec.defaults.controlplane.traits),
        (Path::of(&["defaults", "worker", "image"]), &spec.defaults.worker.traits),
    ];
    for (path, traits) in defaults.into_iter().chain(pools).chain(nodes) {
        let Some(other) = &traits.image else { continue };
        other.factory.iter().for_each(|url| factory(url, &path, found));
        other.extensions.iter().for_each(|list| extensions(list, &path, found));
        if other.schematic.is_some() && (other.extensions.is_some() || other.kernel_args.is_some()) {
            let problem = Diagnostic::error(
                codes::SCHEMATIC_CHOICE,
                "an image has a schematic file and extensions or kernel arguments beside it",
            );
            let problem = problem.at_key(path.key("schematic"), "");
            found.push(problem.help("a schematic file is used as it stands: keep one of the two"));
        }
    }
}

fn factory(url: &str, path: &Path, found: &mut Vec<Diagnostic>) {
    if !forms::is_origin(url, &["https", "http"]) {
        let problem =
            Diagnostic::error(codes::BAD_URL, format!("`{url}` cannot be the URL of an Image Factory"));
        found.push(problem.at(path.key("factory"), "").help("write `https://HOST`"));
    }
}

fn extensions(extensions: &[String], path: &Path, found: &mut Vec<Diagnostic>) {
    let fine =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    for (index, extension) in extensions.iter().enumerate() {
        let named = extension.split_once('/').is_some_and(|(owner, name)| fine(owner) && fine(name));
        if !named {
            let message = format!("`{extension}` cannot be a system extension");
            let help =
                format!("write `OWNER/NAME`, for example `siderolabs/{}`", extension.trim_matches('/'));
            let problem = Diagnostic::error(codes::BAD_EXTENSION, message);
            found.push(problem.at(path.key("extensions").index(index), "").help(help));
        }
    }
}
