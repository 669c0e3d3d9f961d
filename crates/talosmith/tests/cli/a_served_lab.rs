//! The lab on loopback: other programs, real sockets, TLS. Its name makes it start first: it waits most of its time, and others run meanwhile.

use std::io::{BufRead, BufReader};

use crate::shell::{HOME, Shell};

#[test]
fn the_twin_of_a_file_works_over_sockets() {
    // A network of its own, so that a served lab of the person who runs the tests is not in the way.
    let shell = Shell::with(&HOME.replace("10.25.150.", "10.213.77."));
    let mut lab = shell
        .start("lab up --json --lab-speed 30 --proxmox 127.213.77.200:8006 --factory 127.213.77.200:8443");
    let mut line = String::new();
    BufReader::new(lab.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let facts: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
    let file = facts["file"].as_str().unwrap();

    certificates_are_named(&shell, file, &facts);
    references_are_read_first(&shell, file);

    let applied = shell.ok(&format!("apply --yes --quiet -f {file}"));
    assert!(applied.contains("5 of 5 nodes ready, Kubernetes at https://127.213.77.10:6443"), "{applied}");
    let status = shell.ok(&format!("status -f {file}"));
    assert!(status.contains("home-work-2     worker   pve2"), "{status}");
    assert!(shell.ok(&format!("plan -f {file}")).contains("No changes"));

    let text = std::fs::read_to_string(shell.path().join(file)).unwrap();
    let token = shell.path().join(file).with_file_name("token");
    std::fs::write(token, "root@pam!lab=00000000-0000-0000-0000-000000000000\n").unwrap();
    left_10_what_answers_is_shown_when_the_token_is_rejected(&shell, file);
    assert!(!text.contains("lab="), "the file refers to the token, it does not hold it");
}

/// First contact with a Proxmox that has a certificate of its own authority, and a pin that does not fit.
fn certificates_are_named(shell: &Shell, file: &str, facts: &serde_json::Value) {
    let shown = facts["fingerprint"].as_str().unwrap();
    let text = std::fs::read_to_string(shell.path().join(file)).unwrap();
    // The writer of the file folds long lines.
    let unpinned = text.lines().filter(|line| !line.contains("fingerprint:") && !line.contains(shown));
    let unpinned: Vec<&str> = unpinned.collect();
    let beside = |name: &str| shell.path().join(file).with_file_name(name);
    std::fs::write(beside("unpinned.yaml"), unpinned.join("\n")).unwrap();
    std::fs::write(beside("pinned.yaml"), text.replace(&shown[..8], "00:00:00")).unwrap();
    for (file, reason) in [
        ("unpinned.yaml", "no trusted certificate authority signed it"),
        ("pinned.yaml", "it is not the pinned one"),
    ] {
        for command in ["plan", "doctor", "status"] {
            let ran = shell.run(&format!("{command} -f {}", beside(file).display()));
            assert_eq!(ran.code, Some(5), "{command} {file}: {}", ran.all());
            let said = ran.all().split_whitespace().collect::<Vec<_>>().join(" ");
            for part in [reason, shown, "pvenode cert info"] {
                assert!(said.contains(part), "{command} {file} does not say {part}: {said}");
            }
            assert!(!said.contains("OtherError") && !said.contains("UnknownIssuer"), "{said}");
        }
    }
    let endpoint = facts["proxmox"].as_str().unwrap();
    // Without a token, too, it is said whose certificate it is; the file is written all the same.
    let without = shell.run(&format!("init -f f3.yaml --endpoint {endpoint}"));
    assert_eq!(without.code, Some(0), "{}", without.all());
    assert!(without.err.contains(&format!("fingerprint: '{shown}'")), "{}", without.all());
    shell.ok(&format!("init -f f3.yaml --force --endpoint {endpoint} --fingerprint {shown}"));
    let init = format!("init -f new.yaml --endpoint {endpoint} --token file:{}", beside("token").display());
    let ran = shell.run(&init);
    assert_eq!(ran.code, Some(5), "{}", ran.all());
    assert!(ran.all().contains(&format!("--fingerprint {shown}")), "{}", ran.all());
    assert!(!shell.path().join("new.yaml").exists());
    shell.ok(&format!("{init} --fingerprint {shown}"));
    assert!(std::fs::read_to_string(shell.path().join("new.yaml")).unwrap().contains(shown));
}

/// A secret that a late step needs is missed before the first change.
fn references_are_read_first(shell: &Shell, file: &str) {
    let path = shell.path().join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let gitops = "gitops: { engine: flux, repository: 'https://git.example.com/a.git', path: x, credentials: 'env:NO_SUCH_TOKEN' }\n";
    let file = path.with_file_name("gitops.yaml");
    std::fs::write(&file, format!("{text}\n{gitops}")).unwrap();
    let ran = shell.run(&format!("apply --yes -f {}", file.display()));
    assert_eq!(ran.code, Some(3), "{}", ran.all());
    assert!(ran.all().contains("env:NO_SUCH_TOKEN"), "{}", ran.all());
    assert!(!ran.all().contains("created"), "{}", ran.all());
    assert!(!file.with_file_name("home.secrets.age").exists(), "not even the bundle");
}

/// The token was replaced or has expired: that is said, and what machines and Kubernetes say is shown all the same.
fn left_10_what_answers_is_shown_when_the_token_is_rejected(shell: &Shell, file: &str) {
    let status = shell.run(&format!("status -f {file}"));
    assert_eq!(status.code, Some(3), "{}", status.all());
    assert!(status.out.contains("5 of 5 nodes ready"), "{}", status.all());
    assert!(status.out.contains("not observed: Proxmox: "), "{}", status.all());
    assert!(status.err.contains("Proxmox rejected the token"), "{}", status.all());
    assert!(status.err.contains("check the token's user, realm, name and secret"), "{}", status.err);
    let json = shell.run(&format!("status -f {file} --json"));
    let page: serde_json::Value =
        serde_json::from_str(&json.out).unwrap_or_else(|e| panic!("{e}: {}", json.all()));
    assert_eq!((json.code, &page["observed"]["proxmox"]["token_rejected"]), (Some(3), &true.into()));
    let health = shell.run(&format!("health -f {file}"));
    assert_eq!(health.code, Some(0), "{}", health.all());
    assert!(health.out.contains("home is healthy."), "{}", health.all());
    assert!(health.err.contains("Proxmox rejected the token"), "{}", health.all());
    // What changes something needs Proxmox.
    let plan = shell.run(&format!("plan -f {file}"));
    assert!(plan.code == Some(3) && plan.out.is_empty(), "{}", plan.all());
}
