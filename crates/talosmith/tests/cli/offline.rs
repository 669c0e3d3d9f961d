//! Commands that ask no one: the bundle at rest, and what is rendered from it.

use talos::config::NEWEST;
use talos::secrets::Bundle;

use crate::shell::{HOME, Shell};

/// A bundle of the form that talosctl writes. Its keys are made at once, because no cluster runs with them.
pub fn bundle() -> String {
    Bundle::placeholder(NEWEST, "2026-01-01T00:00:00Z".parse().unwrap()).unwrap().to_yaml()
}

fn with_bundle() -> Shell {
    let shell = Shell::with(HOME);
    shell.write("secrets.yaml", &bundle());
    shell.ok("secrets import secrets.yaml --quiet");
    shell
}

#[test]
fn configurations_are_written_the_same_each_time_and_only_for_us() {
    let shell = with_bundle();
    let told = shell.ok("render -o out").split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "home-control-1.yaml control plane, Talos v1.13.9, Kubernetes v1.35.4",
        "schematic-default.yaml of the image v1.13.9, ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515",
        "talosconfig for an administrator, for 24 hours",
        "Open until Proxmox is asked: the hosts of 5 nodes",
    ] {
        assert!(told.contains(part), "{part:?} is not in\n{told}");
    }
    let read = |name: &str| std::fs::read_to_string(shell.path().join("out").join(name)).unwrap();
    let first = read("home-work-1.yaml");
    assert!(first.contains("# The network interface is found by its MAC address"), "{first}");
    shell.ok("render -o out");
    assert_eq!(read("home-work-1.yaml"), first);
    #[cfg(unix)]
    for name in ["home-work-1.yaml", "talosconfig"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(shell.path().join("out").join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    shell.ok("render -o one --node home-work-2");
    let names: Vec<_> = std::fs::read_dir(shell.path().join("one")).unwrap().collect();
    assert_eq!(names.len(), 3, "{names:?}");
    let wrong = shell.run("render -o one --node home-wrok-2");
    assert_eq!(wrong.code, Some(64));
    assert!(wrong.err.contains("did you mean home-work-2?"), "{}", wrong.err);
}

#[test]
fn without_secrets_it_can_be_shown_and_needs_none() {
    let shell = Shell::with(HOME);
    let without = shell.run("render -o out");
    assert_eq!(without.code, Some(7), "{}", without.all());
    assert!(without.err.contains("`talosmith secrets new`"), "{}", without.err);
    shell.ok("render -o out --redact");
    let text = std::fs::read_to_string(shell.path().join("out/home-control-1.yaml")).unwrap();
    assert!(text.contains("token: REDACTED") && text.contains("hostname: home-control-1"), "{text}");
    assert!(!shell.path().join("out/talosconfig").exists());
    shell.ok("render -o again --redact");
    assert_eq!(std::fs::read_to_string(shell.path().join("again/home-control-1.yaml")).unwrap(), text);
}

#[test]
fn a_patch_that_talos_would_refuse_is_shown_where_it_stands() {
    let shell = Shell::with(&format!("{HOME}patches: [fine.yaml, wrong.yaml]\n"));
    shell.write("fine.yaml", "machine: {sysctls: {a: '1'}}\n");
    let missing = shell.run("validate");
    assert_eq!(missing.code, Some(3));
    assert!(missing.err.contains("error[TS0005]: `wrong.yaml` cannot be read"), "{}", missing.err);
    shell.write("wrong.yaml", "machine: {sysctl: {a: '1'}}\n");
    for command in ["validate", "plan --lab --lab-speed max", "render -o out --redact"] {
        let wrong = shell.run(command);
        assert_eq!(wrong.code, Some(3), "{command}\n{}", wrong.all());
        for part in [
            "error[TS0703]",
            "machine.sysctl is not a key",
            "cluster.yaml:9:",
            "for home-control-1 and 4 others",
        ] {
            assert!(wrong.err.contains(part), "{part:?} is not in\n{}", wrong.err);
        }
    }
    assert!(!shell.lab().join("secrets.age").exists(), "nothing was made");
}

#[test]
fn a_bundle_is_encrypted_shared_and_never_overwritten() {
    let shell = with_bundle();
    let at_rest = std::fs::read_to_string(shell.path().join("home.secrets.age")).unwrap();
    assert!(at_rest.starts_with("-----BEGIN AGE ENCRYPTED FILE-----"));
    for command in ["secrets new", "secrets import secrets.yaml", "secrets new --plain"] {
        let again = shell.run(command);
        assert_eq!(again.code, Some(7), "{command}\n{}", again.all());
        assert!(again.err.contains("the cluster has secrets already: ./home.secrets.age"), "{}", again.err);
    }
    let own = shell.ok("secrets recipients");
    assert!(own.starts_with("age1") && own.lines().count() == 1, "{own}");
    let other = engine::secrets::Identity::generate();
    let key = &other.recipients()[0];
    let both = shell.ok(&format!("secrets recipients --add {key}"));
    assert_eq!(both.lines().count(), 2);
    // The other one opens it, as text in the environment; a third does not, and nothing changes.
    let text = secrecy::ExposeSecret::expose_secret(&other.to_text()).lines().nth(1).unwrap().to_owned();
    let opened = shell.run_with("TALOSMITH_IDENTITY", &text, "secrets export -o exported.yaml");
    assert_eq!(opened.code, Some(0), "{}", opened.all());
    assert_eq!(
        std::fs::read(shell.path().join("exported.yaml")).unwrap(),
        std::fs::read(shell.path().join("secrets.yaml")).unwrap()
    );
    assert_eq!(shell.run("secrets export -o exported.yaml").code, Some(7), "a file that is there stays");
    let foreign = secrecy::ExposeSecret::expose_secret(&engine::secrets::Identity::generate().to_text())
        .lines()
        .nth(1)
        .unwrap()
        .to_owned();
    let before = std::fs::read(shell.path().join("home.secrets.age")).unwrap();
    for command in ["secrets export -o x.yaml", "render -o x", "talosconfig"] {
        let ran = shell.run_with("TALOSMITH_IDENTITY", &foreign, command);
        assert_eq!(ran.code, Some(7), "{command}\n{}", ran.all());
        assert!(ran.err.contains("it was encrypted to another identity"), "{}", ran.err);
        assert!(!ran.all().contains(&foreign), "an identity is never shown");
    }
    assert_eq!(std::fs::read(shell.path().join("home.secrets.age")).unwrap(), before);
    // One that was cut short is not taken for one of someone else.
    for rest in [before.len() / 2, before.len() - 20, 60] {
        std::fs::write(shell.path().join("home.secrets.age"), &before[..rest]).unwrap();
        let ran = shell.run("secrets export -o x.yaml");
        assert_eq!(ran.code, Some(7), "{}", ran.all());
        assert!(
            ran.err.contains("damaged or cut short") && !ran.err.contains("another identity"),
            "{}",
            ran.err
        );
    }
    std::fs::write(shell.path().join("home.secrets.age"), &before).unwrap();
    let gone = shell.run_with("TALOSMITH_IDENTITY", "nowhere.txt", "secrets export -o x.yaml");
    assert_eq!(gone.code, Some(7));
    assert!(gone.err.contains("TALOSMITH_IDENTITY names nowhere.txt, which does not exist"), "{}", gone.err);
    let locked_out = shell.run(&format!("secrets recipients --remove {}", own.trim()));
    assert_eq!(locked_out.code, Some(4), "{}", locked_out.all());
    let wrong = shell.run("secrets recipients --add hello");
    assert_eq!(wrong.code, Some(3), "{}", wrong.all());
}

#[test]
fn credentials_have_the_role_and_the_time_that_was_asked_for() {
    let shell = with_bundle();
    let told = shell.run("talosconfig --role reader --ttl 90m -o t");
    assert_eq!(told.code, Some(0), "{}", told.all());
    assert!(told.err.contains("is valid for 90 minutes"), "{}", told.err);
    assert_eq!(shell.run("talosconfig --role root").code, Some(64));
    assert_eq!(shell.run("kubeconfig --ttl 5s").code, Some(64));
    shell.ok("kubeconfig --ttl 30d -o k");
}

#[test]
fn first_use_24_what_this_version_does_not_implement_is_named_with_its_line() {
    let shell = Shell::with(&format!("{HOME}backup: {{ schedule: '0 3 * * *' }}\n"));
    let line = HOME.lines().count() + 1;
    for command in ["validate", "plan --lab", "apply --lab --yes"] {
        let ran = shell.run(command);
        assert_eq!(ran.code, Some(3), "{command}: {}", ran.all());
        assert!(
            ran.err.contains("TS0107") && ran.err.contains("`backup.schedule`"),
            "{command}: {}",
            ran.err
        );
        assert!(ran.err.contains(&format!("cluster.yaml:{line}:11")), "{command}: {}", ran.err);
    }
}

/// A file may be checked where its secrets are not, so a missing one is a warning.
#[test]
fn f4_validate_warns_of_a_secret_that_is_not_where_the_file_says() {
    let text = HOME.replace("proxmox: {", "proxmox: { token: 'file:pve.token',");
    let more = "gitops: { engine: flux, repository: 'https://git.example.com/a.git', path: x, credentials: 'env:F4_NO_SUCH' }\n";
    let shell = Shell::with(&format!("{text}{more}"));
    let ran = shell.run("validate");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let said = ran.all().split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["TS0006", "pve.token", "F4_NO_SUCH", "is not set here", "is valid"] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    let json: serde_json::Value = serde_json::from_str(&shell.ok("validate --json")).unwrap();
    assert!(json.to_string().contains("TS0006"), "{json}");
    shell.write("pve.token", "a@pve!b=00000000-0000-0000-0000-000000000000\n");
    let ran = shell.run_with("F4_NO_SUCH", "canary", "validate");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(!ran.all().contains("TS0006") && !ran.all().contains("canary"), "{}", ran.all());
}
