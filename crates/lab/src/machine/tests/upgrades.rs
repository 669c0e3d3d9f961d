//! Upgrades, the ways back from them, and what differs between releases.

use super::*;

fn system(talos: &str) -> BootImage {
    BootImage { talos: talos.into(), ..boot(101).image.unwrap() }
}

#[test]
fn the_old_call_goes_down_and_comes_back_with_the_other_system() {
    let mut rig = Rig::cluster();
    rig.machines.etcd_allows_upgrade(101).unwrap();
    rig.machines.upgrade(104, system("v1.13.10"), false, rig.now);
    assert_eq!(rig.machines.status(104).unwrap().stage, "upgrading");
    rig.until(120, |m| m.status(104).is_some_and(|s| s.stage == "running" && s.ready));
    assert_eq!(rig.machines.get(104).unwrap().talos(), "v1.13.10");
    rig.machines.rollback(104, rig.now).unwrap();
    rig.wait(60);
    assert_eq!(rig.machines.get(104).unwrap().talos(), "v1.13.9");
}

#[test]
fn the_old_call_asks_etcd_and_the_new_one_does_not() {
    let mut rig = Rig::cluster();
    rig.machines.power_off(103, rig.now);
    rig.wait(5);
    let refused = rig.machines.etcd_allows_upgrade(101).unwrap_err();
    assert!(
        refused.words.contains("is not healthy; all members must be healthy to perform an upgrade"),
        "{}",
        refused.words
    );
    let gone = rig.machines.member_of(103).unwrap().0;
    rig.machines.remove_member(101, gone, rig.now).unwrap();
    let refused = rig.machines.etcd_allows_upgrade(101).unwrap_err();
    assert_eq!(
        refused.words,
        "error validating etcd for upgrade: etcd member count(2) is insufficient to maintain quorum if upgrade commences"
    );
    assert!(rig.machines.precheck(101, &system("v1.13.10")).is_ok());
}

#[test]
fn a_system_that_does_not_come_up_goes_back_to_the_one_before() {
    let mut rig = Rig::cluster();
    rig.machines.break_system(104, "v1.13.10", true);
    rig.machines.install_system(104, system("v1.13.10"));
    assert_eq!(rig.machines.status(104).unwrap().stage, "running", "installing disturbs no one");
    assert_eq!(rig.machines.get(104).unwrap().talos(), "v1.13.9", "the old one runs until the next boot");
    rig.wait(60);
    assert!(rig.machines.get(104).unwrap().disk.on_probation, "what never booted was never ready");
    rig.machines.leave(104, Leave::Reboot, rig.now);
    rig.until(200, |m| m.status(104).is_some_and(|s| s.stage == "running" && s.ready));
    assert_eq!(rig.machines.get(104).unwrap().talos(), "v1.13.9", "healthy, and the old version");
}

#[test]
fn a_staged_upgrade_is_installed_at_the_next_boot() {
    let mut rig = Rig::cluster();
    rig.machines.upgrade(104, system("v1.13.10"), true, rig.now);
    assert_eq!(rig.machines.status(104).unwrap().stage, "rebooting");
    assert_eq!(rig.machines.get(104).unwrap().talos(), "v1.13.9");
    rig.wait(90);
    assert_eq!(rig.machines.get(104).unwrap().talos(), "v1.13.10");
}

#[test]
fn an_installer_refuses_what_does_not_go_together() {
    let rig = Rig::cluster();
    let arm = BootImage { arch: "arm64".into(), ..system("v1.13.10") };
    assert!(rig.machines.precheck(104, &arm).unwrap_err().contains("exec format error"));
    assert!(rig.machines.precheck(104, &system("v1.14.0")).is_ok());
}

#[test]
fn releases_differ_in_how_they_take_a_configuration() {
    let on = |talos: &str| {
        let mut rig = Rig::new();
        rig.machines.power_on(101, Boot { image: Some(system(talos)), ..boot(101) }, rig.now);
        rig.wait(40);
        rig
    };
    let input = |minor: &str| {
        config_of(101, Role::ControlPlane, minor, if minor == "v1.12" { "v1.35.4" } else { "v1.36.3" })
    };
    let mut old = on("v1.12.9");
    let refused = old.machines.apply(101, &input("v1.12"), Mode::NoReboot, false, None, old.now).unwrap_err();
    assert_eq!(
        (refused.code, refused.words.as_str()),
        (Code::Unimplemented, "apply configuration --mode='no-reboot' is not supported in maintenance mode")
    );
    let broken = old.machines.apply(101, b"hello world", Mode::Auto, false, None, old.now).unwrap_err();
    assert_eq!(
        (broken.code, broken.words.as_str()),
        (Code::Unknown, "failed to parse config: expected a YAML document at line 1")
    );
    let taken = old.machines.apply(101, &input("v1.12"), Mode::Auto, false, None, old.now).unwrap();
    assert_eq!((taken.mode, taken.details.as_str()), (Mode::Reboot, ""), "nothing of the answer is filled");

    let mut newest = on("v1.14.1");
    let words = newest.machines.apply(101, &input("v1.14"), Mode::Auto, false, None, newest.now).unwrap();
    assert_eq!(words.mode, Mode::NoReboot);
    newest.wait(10);
    let refused =
        newest.machines.apply(101, &input("v1.14"), Mode::Reboot, false, None, newest.now).unwrap_err();
    assert_eq!(refused.code, Code::Unimplemented);
    let files =
        String::from_utf8(input("v1.14")).unwrap().replacen("machine:\n", "machine:\n    files: []\n", 1);
    let taken = newest.machines.apply(101, files.as_bytes(), Mode::Auto, false, None, newest.now).unwrap();
    assert_eq!(taken.mode, Mode::NoReboot, "it never restarts by itself");

    let mut middle = on("v1.13.9");
    let refused =
        middle.machines.apply(101, &input("v1.14"), Mode::Auto, false, None, middle.now).unwrap_err();
    assert!(refused.words.ends_with("not registered"), "{}", refused.words);
}

#[test]
fn a_cluster_of_the_newest_contract_comes_up() {
    let mut rig = Rig::new();
    rig.machines.power_on(101, Boot { image: Some(system("v1.14.1")), ..boot(101) }, rig.now);
    rig.wait(40);
    rig.apply_bytes(101, &config_of(101, Role::ControlPlane, "v1.14", "v1.36.3")).unwrap();
    rig.wait(10);
    rig.machines.bootstrap(101, None, rig.now).unwrap();
    rig.until(200, |m| m.status(101).is_some_and(|s| s.stage == "running" && s.ready));
    let settings = &rig.machines.get(101).unwrap().node().unwrap().settings;
    assert_eq!((settings.cluster_name.as_str(), settings.kubernetes.as_str()), ("lab", "v1.36.3"));
    assert!(settings.cluster_ca.key.is_some() && settings.discovery && settings.cni && settings.proxy);
}
