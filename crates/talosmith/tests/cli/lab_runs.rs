//! A cluster's life in the lab, command by command.

use crate::json::assert_documented;
use crate::shell::{HOME, Shell};

#[test]
fn from_nothing_to_healthy_one_more_and_away() {
    let shell = Shell::with(HOME);
    let applied = shell.ok("apply --lab --lab-speed max --yes --quiet");
    assert!(applied.contains("5 of 5 nodes ready"), "{applied}");
    assert!(applied.contains("The cluster home is healthy. Next:"), "{applied}");

    insta::assert_snapshot!(shell.ok("plan --lab --lab-speed max"), @r#"No changes. The cluster home matches the file."#);
    assert_eq!(shell.run("plan --lab --lab-speed max --detailed-exitcode").code, Some(0));

    shell.write("cluster.yaml", &HOME.replace("count: 2", "count: 3"));
    insta::assert_snapshot!(shell.ok("plan --lab --lab-speed max"), @r#"
    home-work-3
    ├─ create home-work-3, VM 150023 on pve3, disk on local-lvm
    │      (it does not exist yet; 4 cores, 8 GiB RAM, 40 GiB disk, Talos v1.13.9)
    ├─ start home-work-3  (it is new)
    ├─ configure home-work-3  (it is new)
    └─ wait for home-work-3 to join  (it is being configured)

    Cluster
    └─ check that the cluster is healthy  (after the changes above)

    home: 1 VM to create, no disruption, about 2 min.
    "#);
    assert_eq!(shell.run("plan --lab --lab-speed max --detailed-exitcode").code, Some(2));
    let grown = shell.ok("apply --lab --lab-speed max --yes --quiet");
    assert!(grown.contains("6 of 6 nodes ready"), "{grown}");

    let kubeconfig = shell.ok("kubeconfig --lab");
    assert!(kubeconfig.contains("server: https://10.25.150.10:6443"), "{kubeconfig}");
    let talosconfig = shell.ok("talosconfig --lab");
    assert!(talosconfig.contains("10.25.150.11") && !talosconfig.contains("10.25.150.10\n"), "never the VIP");

    shell.ok("destroy --lab --lab-speed max --yes");
    let systems = std::fs::read_to_string(shell.lab().join("world.json")).unwrap();
    let systems: serde_json::Value = serde_json::from_str(&systems).unwrap();
    assert_eq!(systems["hypervisor"]["vms"], serde_json::json!({}), "no VM, no record");
    assert!(shell.ok("destroy --lab --lab-speed max --yes").contains("Nothing to"), "again: nothing");
}

#[test]
fn equal_seeds_and_bundles_print_equal_events_byte_for_byte() {
    let events: Vec<String> =
        (0..2).map(|_| Shell::with_secrets().ok("apply --lab --lab-speed max --yes --json")).collect();
    assert!(events[0].lines().count() > 100);
    let differs = events[0].lines().zip(events[1].lines()).find(|(one, other)| one != other);
    assert_eq!(differs, None);
    assert!(events[0] == events[1], "one is longer");
    assert!(events[0].contains("\"outcome\":\"done\""));
    assert_documented(&events[0]);
    for command in ["status", "health"] {
        assert_documented(&Shell::healthy().ok(&format!("{command} --json --lab --lab-speed max")));
    }
}

#[test]
fn without_its_bundle_a_cluster_is_not_touched() {
    let shell = Shell::healthy();
    std::fs::rename(shell.lab().join("secrets.age"), shell.path().join("away")).unwrap();
    let ran = shell.run("apply --lab --lab-speed max --yes");
    assert_eq!(ran.code, Some(7), "{}", ran.all());
    let said = ran.all().replace(&shell.path().display().to_string(), "FOLDER");
    insta::assert_snapshot!(said, @r#"
    exit Some(7)
    --- stdout
    Refused: Talosmith makes no changes to home, because of this:
    - [lost-bundle] the secrets bundle is missing, but 6 VMs of a cluster called home exist: VM 150011 (home-control-1) on pve1, VM 150012 (home-control-2) on pve2, VM 150013 (home-control-3) on pve3, VM 150010 (home-record) on pve1, VM 150021 (home-work-1) on pve1, VM 150022 (home-work-2) on pve2
      hint: the bundle was searched at FOLDER/.talosmith/lab/home/secrets.age and FOLDER/.talosmith/lab/home/secrets.yaml: restore it from your backup; `talosmith secrets import --lab FILE` takes over secrets that were exported; if those VMs belong to another cluster, give this one another name. `talosmith explain lost-bundle` says more
    --- stderr
    "#);
    assert!(!shell.lab().join("secrets.age").exists(), "no new bundle is made");
    std::fs::rename(shell.path().join("away"), shell.lab().join("secrets.age")).unwrap();
    assert!(shell.ok("plan --lab --lab-speed max").contains("No changes"));
}

/// What a machine has is seen only when it runs, so an apply that starts one compares it then, and makes what is left.
#[test]
fn a_machine_that_was_off_is_compared_with_the_file_in_the_same_run() {
    let shell = Shell::healthy();
    shell.change_world(|systems| {
        let mut systems: serde_json::Value = serde_json::from_str(&systems).unwrap();
        systems["hypervisor"]["vms"]["150021"]["running"] = serde_json::Value::Null;
        systems["machines"]["machines"]["150021"]["phase"] = serde_json::json!({ "phase": "off" });
        systems.to_string()
    });
    let file = HOME.replace("worker, count: 2", "worker, count: 2, labels: { rack: a }");
    assert_ne!(file, HOME);
    shell.write("cluster.yaml", &file);
    let ran = shell.run("apply --lab --lab-speed max --yes");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let (before, after) =
        ran.out.split_once("This is left to do:").unwrap_or_else(|| panic!("{}", ran.all()));
    let update = "update the machine config of home-work-1 in place";
    assert!(!before.contains(update) && after.contains(update), "{}", ran.out);
    assert_eq!(ran.out.matches("Apply complete").count(), 2, "{}", ran.out);
    assert!(shell.ok("plan --lab --lab-speed max").contains("No changes"));
}

/// The lab has none of them, and ten minutes of waiting would not tell why.
#[test]
fn machines_of_others_are_not_waited_for_in_the_lab() {
    let metal = "nodes: { metal: { role: worker, address: 10.25.150.40, external: true } }\n";
    let ran = Shell::with(&format!("{HOME}{metal}")).run("apply --lab --lab-speed max --yes");
    assert_eq!(ran.code, Some(64), "{}", ran.all());
    assert!(
        ran.err.contains("metal is external, and the lab does not simulate external machines"),
        "{}",
        ran.err
    );
}

#[test]
fn nobody_to_ask_means_nothing_is_done() {
    let shell = Shell::with(HOME);
    let ran = shell.run("apply --lab --lab-speed max --quiet");
    assert_eq!(ran.code, Some(64), "{}", ran.all());
    assert!(ran.err.contains("`--yes` was not given"), "{}", ran.err);
    assert!(!shell.lab().join("secrets.age").exists());
}

#[cfg(unix)]
#[test]
fn what_is_secret_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let shell = Shell::with(HOME);
    shell.ok("apply --lab --lab-speed max --yes --quiet");
    shell.ok("kubeconfig --lab -o kc");
    for path in ["world.json", "secrets.age", "identity.txt", "journal.jsonl"].map(|f| shell.lab().join(f)) {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
    assert_eq!(std::fs::metadata(shell.path().join("kc")).unwrap().permissions().mode() & 0o777, 0o600);
    let journal = std::fs::read_to_string(shell.lab().join("journal.jsonl")).unwrap();
    assert!(!journal.contains("BEGIN") && !journal.contains("LS0t"), "no key material in the journal");
}

/// The bundle is gone while the cluster runs; then someone makes another one.
#[test]
fn first_use_3_a_lost_bundle_is_named_everywhere() {
    let shell = Shell::healthy();
    std::fs::remove_file(shell.lab().join("secrets.age")).unwrap();
    let lost = |told: &str| {
        assert!(told.contains("home-control-1") && told.contains("150011"), "{told}");
        assert!(told.contains("secrets bundle"), "{told}");
    };
    let status = shell.ok("status --lab --lab-speed max");
    lost(&status);
    assert!(!status.contains("no VM"), "{status}");
    let health = shell.run("health --lab --lab-speed max");
    assert_eq!(health.code, Some(7));
    lost(&health.err);
    assert!(!health.err.contains("secrets new"), "{}", health.err);
    shell.ok("secrets new --lab");
    lost(&shell.ok("status --lab --lab-speed max"));
    for command in ["plan", "apply --yes", "destroy --yes"] {
        let ran = shell.run(&format!("{command} --lab --lab-speed max"));
        assert_eq!(ran.code, Some(7), "{command}: {}", ran.all());
        lost(&ran.all());
        assert!(!ran.out.contains("Nothing to"), "{}", ran.out);
    }
}

/// A node is taken out of the file: that is a change, and it is not made.
#[test]
fn first_use_4_what_is_left_to_do_has_its_exit_code() {
    let shell = Shell::healthy();
    shell.write("cluster.yaml", &HOME.replace("count: 2", "count: 1"));
    for (command, code) in [("plan --detailed-exitcode", 2), ("apply --yes", 2), ("plan", 0)] {
        let ran = shell.run(&format!("{command} --lab --lab-speed max"));
        assert_eq!(ran.code, Some(code), "{command}: {}", ran.all());
        assert!(
            ran.out.contains("home-work-2 (VM 150022 on ") && !ran.out.contains("No changes"),
            "{}",
            ran.out
        );
    }
    let markdown = shell.ok("plan --markdown --lab --lab-speed max");
    assert!(markdown.contains("**Blocked:**") && !markdown.contains("No changes"), "{markdown}");
}

#[test]
fn the_console_of_a_node_is_shown_until_its_time_is_over() {
    let shell = Shell::healthy();
    let ran = shell.run("node console home-work-1 --lab --lab-speed max --timeout 5s");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.err.contains("The console of home-work-1 (VM 150021 on pve1)"), "{}", ran.err);
    let ran = shell.run("node console home-work-9 --lab --lab-speed max");
    assert_eq!(ran.code, Some(64), "{}", ran.all());
    assert!(ran.err.contains("the file has no node home-work-9"), "{}", ran.err);
}

#[test]
fn i16_the_console_of_a_vm_that_is_off_is_no_success_and_a_quiet_one_gets_a_hint() {
    let shell = Shell::healthy();
    let ran = shell.run("node console home-work-2 --lab --lab-speed max --timeout 30s");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert_eq!(ran.err.matches("Only one console of a VM gets its output").count(), 1, "{}", ran.err);
    shell.change_world(|systems| {
        let mut systems: serde_json::Value = serde_json::from_str(&systems).unwrap();
        systems["hypervisor"]["vms"]["150021"]["running"] = serde_json::Value::Null;
        systems["machines"]["machines"]["150021"]["phase"] = serde_json::json!({ "phase": "off" });
        systems.to_string()
    });
    let ran = shell.run("node console home-work-1 --lab --lab-speed max --timeout 5s");
    assert_eq!(ran.code, Some(5), "{}", ran.all());
    assert!(
        ran.err.contains("VM 150021 on pve1 is off") && ran.err.contains("`talosmith apply --lab` starts it"),
        "{}",
        ran.err
    );
}

#[test]
fn f10_an_apply_with_a_timeout_ends_as_a_failure_and_goes_on_later() {
    let shell = Shell::with_secrets();
    for wrong in ["0", "soon"] {
        let ran = shell.run(&format!("apply --lab --lab-speed max --yes --timeout {wrong}"));
        assert_eq!(ran.code, Some(64), "{}", ran.all());
        assert!(ran.err.contains("--timeout <TIME>"), "{}", ran.err);
    }
    let ran = shell.run("apply --lab --lab-speed max --yes --timeout 90s");
    assert_eq!(ran.code, Some(5), "{}", ran.all());
    assert!(ran.err.contains(": not finished when `--timeout` expired"), "{}", ran.err);
    assert!(ran.err.contains("Talosmith was waiting: "), "{}", ran.err);
    assert!(ran.out.contains("Run the same command again to continue."), "{}", ran.out);
    let left_4 = "when `--timeout` expired: ";
    assert!(ran.out.contains(left_4) && !ran.out.contains("failed"), "{}", ran.out);
    let again = shell.ok("apply --lab --lab-speed max --yes --quiet --timeout 1h");
    assert!(again.contains("5 of 5 nodes ready"), "{again}");
}

/// A name that does not exist is found before anything is asked or done.
#[test]
fn leftover_18_an_unknown_name_is_an_error_with_the_nearest_one() {
    let shell = Shell::healthy();
    for (wrong, near) in [
        ("--allow-destroy home-wrok-1", "did you mean home-work-1"),
        ("--allow-destroy home-work-1/scsi9", "did you mean home-work-1/scsi0"),
        ("--target home-control-33", "did you mean home-control-3"),
    ] {
        for command in ["plan", "apply --yes"] {
            let ran = shell.run(&format!("{command} --lab --lab-speed max {wrong}"));
            assert_eq!((ran.code, ran.out.as_str()), (Some(64), ""), "{}", ran.all());
            assert!(ran.err.contains(near), "{command} {wrong}: {}", ran.err);
        }
    }
    for (command, near) in [("node reboot home-wrok-1", "home-work-1"), ("host drain pve33", "pve3")] {
        let ran = shell.run(&format!("{command} --lab --lab-speed max --yes"));
        assert_eq!((ran.code, ran.out.as_str()), (Some(64), ""), "{command}: {}", ran.all());
        assert!(ran.err.contains(&format!("did you mean {near}")), "{command}: {}", ran.err);
    }
}
