//! Reading the other files that a cluster file points to, and checking them where they are read: each problem has the place
//! that names the file.

use std::path::Path;

use model::attachments::{Attached, Attachments, Kind, attached};
use model::diagnostic::{Diagnostic, codes};
use model::spec::Spec;
use serde_json::Value;
use talos::schematic::SchematicFile;

/// Reads every attached file of a cluster file that lies in `folder`.
///
/// # Errors
///
/// Everything that is wrong with them, by the place that names the file.
pub fn read(spec: &Spec, folder: &Path) -> Result<Attachments, Vec<Diagnostic>> {
    let mut contents = Attachments::new();
    let mut problems = Vec::new();
    for one in attached(spec) {
        match std::fs::read_to_string(folder.join(one.file)) {
            Ok(text) => {
                problems.extend(check(&one, &text));
                contents.insert(one.file.to_owned(), text);
            }
            Err(error) => {
                let message = format!("`{}` cannot be read: {error}", one.file);
                let problem = Diagnostic::error(codes::UNREADABLE, message).at(one.path, "");
                problems.push(problem.help(format!("it is looked for in {}", shown(folder))));
            }
        }
    }
    if problems.is_empty() { Ok(contents) } else { Err(problems) }
}

fn shown(folder: &Path) -> String {
    if folder.as_os_str().is_empty() || folder == Path::new(".") {
        "the folder of the cluster file".to_owned()
    } else {
        folder.display().to_string()
    }
}

fn check(one: &Attached<'_>, text: &str) -> Vec<Diagnostic> {
    match one.kind {
        Kind::Patch => model::check::patch_file(text, &one.path),
        Kind::Schematic => schematic(one, text).into_iter().collect(),
        Kind::Manifest => manifest(one, text).into_iter().collect(),
        Kind::Values => match serde_saphyr::from_str::<serde_json::Map<String, Value>>(text) {
            Ok(_) => Vec::new(),
            Err(error) => vec![unfit(one, &format!("is no mapping of values: {}", error.without_snippet()))],
        },
    }
}

fn schematic(one: &Attached<'_>, text: &str) -> Option<Diagnostic> {
    let problem =
        |message: String| Some(Diagnostic::error(codes::BAD_SCHEMATIC, message).at(one.path.clone(), ""));
    match SchematicFile::parse(text) {
        Ok(file) if file.id().is_some() => None,
        Ok(_) => problem(format!("the id of the schematic `{}` is not known", one.file))
            .map(|found| found.help("use texts of letters, digits and /_.=,+- only, on one line each")),
        Err(error) => problem(format!("`{}` is no schematic: {}", one.file, chain(&error))).map(|found| {
            found.help("write what the Image Factory takes, or `customization: {}` for nothing")
        }),
    }
}

fn manifest(one: &Attached<'_>, text: &str) -> Option<Diagnostic> {
    let objects: Vec<Value> = match serde_saphyr::from_multiple(text) {
        Ok(objects) => objects,
        Err(error) => return Some(unfit(one, &format!("is no YAML: {}", error.without_snippet()))),
    };
    let is_object =
        |value: &Value| value.is_null() || value["apiVersion"].is_string() && value["kind"].is_string();
    let index = objects.iter().position(|value| !is_object(value))?;
    Some(unfit(one, &format!("has no `apiVersion` and `kind` in document {}", index + 1)))
}

fn unfit(one: &Attached<'_>, what: &str) -> Diagnostic {
    let help = match one.kind {
        Kind::Values => "write values as the chart's own `values.yaml` does, `key: value`",
        _ => "write Kubernetes objects, each with its `apiVersion` and `kind`",
    };
    Diagnostic::error(codes::BAD_MANIFEST, format!("`{}` {what}", one.file))
        .at(one.path.clone(), "")
        .help(help)
}

/// An error with its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "cluster: home
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: 'https://pve1:8006' }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }
patches: [p.yaml, missing.yaml]
image: { schematic: s.yaml }
manifests: { files: [m.yaml] }
kubernetes: { cni: { name: cilium, values_file: v.yaml } }
pools: { control: { role: controlplane, count: 1 } }
";

    fn found(files: &[(&str, &str)]) -> String {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let source = model::diagnostic::Source::new("c.yaml", FILE);
        let spec = model::load::load(&[source]).unwrap().spec;
        let problems = read(&spec, folder.path()).unwrap_err();
        let one = |d: &Diagnostic| format!("{} {}: {}\n", d.code, d.labels[0].path, d.message);
        problems.iter().map(one).collect::<String>()
    }

    #[test]
    fn every_problem_has_the_place_that_names_the_file() {
        let text = found(&[
            ("p.yaml", "- {op: add, path: /machine/x, value: 1}\n"),
            ("s.yaml", "customisation: {}\n"),
            ("m.yaml", "apiVersion: v1\nkind: Namespace\n---\nkind: Namespace\n"),
            ("v.yaml", "[1]\n"),
        ]);
        assert_eq!(text.lines().count(), 5, "{text}");
        for part in [
            "TS0212 patches[0]: this is a JSON patch, which newer Talos refuses",
            "TS0005 patches[1]: `missing.yaml` cannot be read: No such file",
            "TS0217 image.schematic: `s.yaml` is no schematic: customisation is not a field of a schematic",
            "TS0218 manifests.files[0]: `m.yaml` has no `apiVersion` and `kind` in document 2",
            "TS0218 kubernetes.cni.values_file: `v.yaml` is no mapping of values",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn a_secret_in_a_patch_file_is_refused_without_being_repeated() {
        let text = found(&[("p.yaml", "machine: {token: hunter2.hunter2}\n")]);
        assert!(text.contains("TS0501") && !text.contains("hunter2"), "{text}");
    }
}
