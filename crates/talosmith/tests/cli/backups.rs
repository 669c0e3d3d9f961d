//! Backups, from the command line.

use std::path::PathBuf;

use serde_json::Value;

use crate::json::assert_documented;
use crate::shell::{HOME, Ran, Shell};

/// A folder whose lab has a healthy cluster, and whose file has a place for backups.
fn shell(section: &str) -> Shell {
    let shell = Shell::healthy();
    shell.write("cluster.yaml", &format!("{HOME}backup: {section}\n"));
    shell
}

fn folder(shell: &Shell) -> PathBuf {
    shell.lab().join("backups").join("home")
}

fn json(ran: &Ran) -> Value {
    assert_documented(&ran.out);
    serde_json::from_str(ran.out.lines().last().unwrap()).unwrap()
}

fn lab(shell: &Shell, command: &str) -> Ran {
    shell.run(&format!("{command} --lab --lab-speed max"))
}

#[test]
fn from_the_first_backup_to_the_snapshot_that_talosctl_takes() {
    let shell = shell("{}");
    let none = lab(&shell, "backup list");
    assert!(none.out.contains("There is no backup"), "{}", none.all());
    let status = lab(&shell, "status");
    assert!(status.out.contains("backup: there is none"), "{}", status.all());
    let doctor = lab(&shell, "doctor");
    assert!(doctor.out.contains("warn backup") && doctor.code == Some(0), "{}", doctor.all());

    let made = lab(&shell, "backup create");
    assert_eq!(made.code, Some(0), "{}", made.all());
    assert!(made.out.contains("verified: decrypted"), "{}", made.all());
    assert_eq!(std::fs::read_dir(folder(&shell)).unwrap().count(), 3);

    let listed = json(&lab(&shell, "backup list --json"));
    assert_eq!(listed["backups"].as_array().unwrap().len(), 1);
    let backup = &listed["backups"][0];
    assert!(backup["name"].as_str().unwrap().ends_with(".snap.zst.age") && backup["verified_at"].is_string());
    assert_eq!(backup["card"]["versions"]["talos"], "v1.13.9");
    let told = lab(&shell, "backup list");
    assert!(told.out.contains("v1.35.4"), "{}", told.all());
    let status = lab(&shell, "status");
    assert!(status.out.contains("backup: the newest verified one is of"), "{}", status.all());
    assert!(json(&lab(&shell, "status --json"))["backup"]["age_seconds"].is_number());
    assert!(lab(&shell, "doctor").out.contains("ok   backup"));

    let got = lab(&shell, "backup get -o etcd.db");
    assert_eq!(got.code, Some(0), "{}", got.all());
    let bytes = std::fs::read(shell.path().join("etcd.db")).unwrap();
    assert_eq!(bytes.len() % 512, 32, "the database and its digest");
    assert_eq!(lab(&shell, "backup get -o etcd.db").code, Some(5), "it is not overwritten");
    let again = json(&lab(&shell, "backup get latest -o other.db --json"));
    assert_eq!(again["bytes"], bytes.len());
    assert_eq!(json(&lab(&shell, "backup verify --json"))["verified"], true);
}

#[test]
fn a_damaged_backup_is_found_and_the_others_are_verified() {
    let shell = shell("{ folder: elsewhere }");
    for _ in 0..2 {
        assert_eq!(lab(&shell, "backup create --json").code, Some(0));
    }
    let list = json(&lab(&shell, "backup list --json"));
    let name = list["backups"][0]["name"].as_str().unwrap();
    let path = folder(&shell).join(name);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let ran = lab(&shell, "backup verify --all");
    assert_eq!(ran.code, Some(5), "{}", ran.all());
    assert!(
        ran.out.contains("fail") && ran.out.contains("ok  ") && ran.err.contains("hint:"),
        "{}",
        ran.all()
    );
    let ran = lab(&shell, "backup verify --all --json");
    assert_documented(&ran.out);
    let found: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&found[0]["verified"], &found[1]["verified"]), (&Value::Bool(false), &Value::Bool(true)));
    assert_eq!(lab(&shell, "backup get -o out.db").code, Some(5));
    assert!(!shell.path().join("out.db").exists());
    assert!(path.exists(), "nothing is deleted because it is damaged");
}

#[test]
fn prune_shows_what_goes_and_asks() {
    let shell = shell("{ keep: { hourly: 1, daily: 1, weekly: 1 } }");
    for _ in 0..3 {
        lab(&shell, "backup create --json");
    }
    let asked = lab(&shell, "backup prune");
    assert_eq!(asked.code, Some(64), "{}", asked.all());
    assert!(
        asked.out.matches("delete").count() >= 2 && asked.out.contains("newest verified"),
        "{}",
        asked.all()
    );
    assert_eq!(std::fs::read_dir(folder(&shell)).unwrap().count(), 9, "nothing was deleted");
    let pruned = json(&lab(&shell, "backup prune --yes --json"));
    assert_eq!(
        (pruned["deleted"].clone(), pruned["delete"].as_array().unwrap().len()),
        (Value::Bool(true), 2)
    );
    assert_eq!(std::fs::read_dir(folder(&shell)).unwrap().count(), 3);
    let nothing = lab(&shell, "backup prune");
    assert!(nothing.code == Some(0) && nothing.out.contains("Nothing to delete"), "{}", nothing.all());
}

#[test]
fn a_file_without_a_place_for_backups_says_what_to_add() {
    let shell = Shell::healthy();
    for command in ["create", "list", "get -o x", "verify", "prune"] {
        let ran = lab(&shell, &format!("backup {command}"));
        assert_eq!(ran.code, Some(3), "{}", ran.all());
        assert!(ran.err.contains("hint: add `backup: { folder: backups }`"), "{}", ran.all());
    }
    assert!(!lab(&shell, "status").out.contains("backup:"));
    let none = self::shell("{}");
    for command in ["get -o x", "verify", "verify 2020-01-01T00:00:00Z"] {
        let ran = lab(&none, &format!("backup {command}"));
        assert_eq!(ran.code, Some(3), "{}", ran.all());
    }
}
