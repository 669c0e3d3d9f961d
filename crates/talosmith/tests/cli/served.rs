//! The lab on loopback: other programs, real sockets, TLS.

use std::io::{BufRead, BufReader};

use crate::shell::{HOME, Shell};

#[test]
fn the_twin_of_a_file_works_over_sockets() {
    // A network of its own, so that a served lab of whoever runs the tests is not in the way.
    let shell = Shell::with(&HOME.replace("10.25.150.", "10.213.77."));
    let mut lab = shell
        .start("lab up --json --lab-speed 60 --proxmox 127.213.77.200:8006 --factory 127.213.77.200:8443");
    let mut line = String::new();
    BufReader::new(lab.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let facts: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
    let twin = facts["file"].as_str().unwrap();

    let applied = shell.ok(&format!("apply --yes --quiet -f {twin}"));
    assert!(applied.contains("5 of 5 nodes ready, Kubernetes at https://127.213.77.10:6443"), "{applied}");
    let status = shell.ok(&format!("status -f {twin}"));
    assert!(status.contains("home-work-2     worker   pve2"), "{status}");
    assert!(shell.ok(&format!("plan -f {twin}")).contains("Nothing to do"));

    let text = std::fs::read_to_string(shell.path().join(twin)).unwrap();
    let token = shell.path().join(twin).with_file_name("token");
    std::fs::write(token, "root@pam!lab=00000000-0000-0000-0000-000000000000\n").unwrap();
    let refused = shell.run(&format!("status -f {twin}"));
    assert_eq!(refused.code, Some(5), "{}", refused.all());
    assert!(refused.err.contains("check the token's user, realm, name and secret"), "{}", refused.err);
    assert!(!text.contains("lab="), "the twin refers to the token, it does not hold it");
}
