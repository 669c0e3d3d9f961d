//! Recognisable secrets are planted in the bundle; they must be seen in no output, error, journal or argument list.

use std::path::Path;

use serde_json::Value;

use crate::offline::bundle;
use crate::shell::{HOME, Shell};

/// The secrets of a bundle as they stand in it, and the inner lines of its keys.
fn canaries(bundle: &str) -> Vec<String> {
    fn walk(value: &Value, key: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| walk(value, key, found)),
            Value::String(text) if !["id", "crt"].contains(&key) => found.push(text.clone()),
            _ => {}
        }
    }
    let value: Value = serde_saphyr::from_str(bundle).unwrap();
    let mut found = Vec::new();
    walk(&value, "", &mut found);
    assert_eq!(found.len(), 9, "four tokens and keys of texts, five private keys");
    let decoded: Vec<String> = found.iter().filter_map(|text| decoded(text)).collect();
    assert_eq!(decoded.len(), 5);
    // A key's first line says only what it is; its second is the secret.
    found.extend(decoded.iter().filter_map(|pem| pem.lines().nth(1)).map(str::to_owned));
    found
}

/// The PEM inside of base64, found out by the program that everybody has.
fn decoded(text: &str) -> Option<String> {
    use std::io::Write;
    let mut child = std::process::Command::new("base64")
        .arg("-d")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).ok().filter(|text| text.starts_with("-----BEGIN"))
}

fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn what_was_planted_in_the_bundle_is_seen_nowhere() {
    let shell = Shell::with(HOME);
    let bundle = bundle();
    let canaries = canaries(&bundle);
    let check = |what: &str, text: &str| {
        let found = canaries.iter().find(|canary| text.contains(canary.as_str()));
        assert_eq!(found, None, "in {what}");
    };
    shell.write("plain.yaml", &bundle);
    // A bundle that is broken in one place must not be shown in the error.
    shell.write("broken.yaml", &bundle.replacen("os:", "so:", 1));
    let lab = "--lab --lab-speed max";
    let mut commands = vec![
        format!("secrets import broken.yaml {lab}"),
        format!("secrets import plain.yaml {lab}"),
        format!("secrets import plain.yaml {lab}"),
        format!("secrets new {lab} --json"),
        format!("secrets recipients {lab}"),
        "validate".to_owned(),
        "validate --json".to_owned(),
        format!("plan {lab}"),
        format!("plan {lab} --json"),
        format!("apply {lab} --yes"),
        format!("apply {lab} --yes --json"),
        format!("status {lab}"),
        format!("status {lab} --json"),
        format!("render -o shown --redact {lab}"),
        format!("render -o hidden {lab}"),
        format!("render -o hidden {lab} --json"),
        format!("kubeconfig {lab}"),
        format!("talosconfig {lab}"),
        format!("secrets export -o hidden/plain.yaml {lab}"),
        format!("secrets export -o hidden/plain.yaml {lab} --json"),
    ];
    for command in commands.drain(..) {
        let mut child = shell.start(&command);
        if let Ok(arguments) = std::fs::read(format!("/proc/{}/cmdline", child.id())) {
            check(&format!("the arguments of {command}"), &String::from_utf8_lossy(&arguments));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let ran = shell.run(&command);
        check(&command, &ran.all());
    }
    // The same with a file that Talos would refuse, and with a machine that is given another configuration.
    shell.write("cluster.yaml", &format!("{HOME}patches: [{{ machine: {{ sysctl: {{ a: b }} }} }}]\n"));
    for command in ["plan", "apply --yes", "status", "validate"] {
        let ran = shell.run(&format!("{command} {lab}"));
        assert_eq!(ran.code, Some(3), "{}", ran.all());
        check(command, &ran.all());
    }
    shell.write("cluster.yaml", &format!("{HOME}patches: [{{ machine: {{ sysctls: {{ a: b }} }} }}]\n"));
    for command in ["plan", "plan --json", "apply --yes", "destroy --yes", "destroy --yes --json"] {
        check(command, &shell.run(&format!("{command} {lab}")).all());
    }
    for name in ["plain.yaml", "broken.yaml"] {
        std::fs::remove_file(shell.path().join(name)).unwrap();
    }
    let mut written = Vec::new();
    files(shell.path(), &mut written);
    let mut seen = 0;
    for path in written {
        // The lab's world is the machines themselves, and what is hidden was asked for.
        if path.ends_with("world.json") || path.starts_with(shell.path().join("hidden")) {
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        check(&path.display().to_string(), &text);
        seen += 1;
    }
    assert!(seen > 8, "{seen} files: the journal, the bundle, what is shown");
}
