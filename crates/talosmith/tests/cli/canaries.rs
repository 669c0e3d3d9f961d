//! Recognisable secrets are planted in the bundle; they must be seen in no output, error, journal or argument list.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::offline::bundle;
use crate::shell::{HOME, Ran, Shell};

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
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
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

/// The page that is made of the command line itself.
const PAGE: &str = include_str!("../../../../docs/reference/commands.md");

/// Every order that a served lab takes, with something for each word that it needs.
fn orders() -> Vec<String> {
    let word = |word: &str| match word {
        "HOST" => "pve2".to_owned(),
        "VMID" => "79011".to_owned(),
        "NUMBER" => "2".to_owned(),
        "TALOS" => "v1.13.8".to_owned(),
        "WHAT" => "cut".to_owned(),
        other => other.to_owned(),
    };
    let is_usage = |line: &&str| line.starts_with("talosmith lab inject ") && line.ends_with(" [OPTIONS]");
    let usages = PAGE.lines().filter(is_usage);
    let words = |usage: &str| {
        usage.split(' ').skip(1).filter(|it| !it.starts_with('[')).map(word).collect::<Vec<_>>()
    };
    usages.map(|usage| words(usage).join(" ")).collect()
}

/// Every command that there is; not those that only hold others.
fn all_commands() -> Vec<&'static str> {
    let names: Vec<&str> = PAGE.lines().filter_map(|line| line.strip_prefix("## talosmith ")).collect();
    let holds_others = |name: &str| names.iter().any(|other| other.starts_with(&format!("{name} ")));
    names.iter().copied().filter(|name| !holds_others(name)).collect()
}

/// Runs commands and looks at all that can be seen of them.
struct Watch {
    shell: Shell,
    canaries: Vec<String>,
    tried: Vec<String>,
}

impl Watch {
    fn check(&self, what: &str, text: &str) {
        let found = self.canaries.iter().find(|canary| text.contains(canary.as_str()));
        assert_eq!(found, None, "in {what}");
    }

    /// What a command prints, and its arguments as others on the machine see them.
    fn see(&mut self, command: &str) -> Ran {
        let mut child = self.shell.start(command);
        if let Ok(arguments) = std::fs::read(format!("/proc/{}/cmdline", child.id())) {
            self.check(&format!("the arguments of {command}"), &String::from_utf8_lossy(&arguments));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let ran = self.shell.run(command);
        self.check(command, &ran.all());
        self.tried.push(command.to_owned());
        ran
    }
}

#[test]
fn what_was_planted_in_the_bundle_is_seen_nowhere() {
    // A network of its own, so that a served lab of the person who runs the tests is not in the way.
    let home = format!("{}backup: {{}}\n", HOME.replace("10.25.150.", "10.213.79."));
    let bundle = bundle();
    let mut watch = Watch { shell: Shell::with(&home), canaries: canaries(&bundle), tried: Vec::new() };
    watch.shell.write("plain.yaml", &bundle);
    // A bundle that is broken in one place must not be shown in the error.
    watch.shell.write("broken.yaml", &bundle.replacen("os:", "so:", 1));
    let lab = "--lab --lab-speed max";
    let commands = [
        "init --offline --print",
        "import broken.yaml",
        "import plain.yaml -o imported.yaml",
        "schema",
        "explain TS0101",
        "completions bash",
        "man",
        "show",
        "show --json",
        "validate",
        "validate --json",
    ];
    let in_lab = [
        "secrets import broken.yaml",
        "secrets import plain.yaml",
        "secrets import plain.yaml",
        "secrets new --json",
        "secrets recipients",
        "plan",
        "plan --json",
        "plan -o saved.plan",
        "apply --yes",
        "apply --yes --json",
        "status",
        "status --json",
        "health",
        "health --json",
        "doctor",
        "doctor --json",
        "proxmox setup --yes -o token",
        "node console home-control-1 --timeout 5s",
        "node logs home-control-1 etcd",
        "node dmesg home-control-1",
        "node cordon home-work-1 --yes",
        "node uncordon home-work-1 --yes",
        "node drain home-work-1 --yes",
        "node uncordon home-work-1 --yes --json",
        "node reboot home-work-1 --yes",
        "node shutdown home-work-2 --yes",
        "node replace home-work-1 --force --yes",
        "host drain pve2 --yes",
        "host undrain pve2 --yes --json",
        "render -o shown --redact",
        "render -o hidden",
        "render -o hidden --json",
        "backup create",
        "backup create --json",
        "backup list",
        "backup list --json",
        "backup get -o hidden/etcd.db",
        "backup get nonsense -o hidden/other.db --json",
        "backup verify --all",
        "backup verify --json",
        "backup prune --yes",
        "backup prune --yes --json",
        "kubeconfig",
        "talosconfig",
        "secrets export -o hidden/plain.yaml",
        "secrets export -o hidden/plain.yaml --json",
    ];
    for command in commands {
        watch.see(command);
    }
    for command in in_lab {
        watch.see(&format!("{command} {lab}"));
    }
    // The same with a file that Talos would refuse, and with a machine that is given another configuration.
    watch.shell.write("cluster.yaml", &format!("{home}patches: [{{ machine: {{ sysctl: {{ a: b }} }} }}]\n"));
    for command in ["plan", "apply --yes", "status", "validate"] {
        let ran = watch.see(&format!("{command} {lab}"));
        assert_eq!(ran.code, Some(3), "{}", ran.all());
    }
    watch
        .shell
        .write("cluster.yaml", &format!("{home}patches: [{{ machine: {{ sysctls: {{ a: b }} }} }}]\n"));
    for command in ["plan", "plan --json", "apply --yes", "destroy --yes", "destroy --yes --json"] {
        watch.see(&format!("{command} {lab}"));
    }
    served(&mut watch);
    for name in ["plain.yaml", "broken.yaml"] {
        std::fs::remove_file(watch.shell.path().join(name)).unwrap();
    }
    let mut written = Vec::new();
    files(watch.shell.path(), &mut written);
    let mut seen = 0;
    for path in written {
        // The lab's world is the machines themselves, and what is hidden was asked for.
        if path.ends_with("world.json") || path.starts_with(watch.shell.path().join("hidden")) {
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        watch.check(&path.display().to_string(), &text);
        seen += 1;
    }
    assert!(seen > 8, "{seen} files: the journal, the bundle, what is shown");
    watch.see("lab reset");

    let untried = |name: &&str| !watch.tried.iter().any(|tried| tried.starts_with(name));
    let untried: Vec<&str> = all_commands().into_iter().filter(untried).collect();
    assert_eq!(untried, Vec::<&str>::new(), "commands that this test must run, too");
}

/// A lab that is served, and every order that it takes.
fn served(watch: &mut Watch) {
    let up = "lab up --json --proxmox 127.213.79.200:0 --factory 127.213.79.200:0";
    let mut child = watch.shell.command(up).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let arguments = std::fs::read(format!("/proc/{}/cmdline", child.id())).unwrap_or_default();
    watch.check("the arguments of lab up", &String::from_utf8_lossy(&arguments));
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut said = String::new();
    out.read_line(&mut said).unwrap();
    watch.tried.push(up.to_owned());
    for order in orders() {
        watch.see(&order);
    }
    let down = watch.shell.run("lab down");
    watch.check("lab down", &down.all());
    watch.tried.push("lab down".to_owned());
    if down.code != Some(0) {
        child.kill().unwrap();
    }
    let ended = child.wait().unwrap();
    out.read_to_string(&mut said).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    watch.check("lab up", &said);
    assert!(ended.success(), "{said}{}", down.all());
}
