//! Real signals to the real program.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::shell::Shell;

fn interrupt(child: &Child) {
    let sent = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status();
    assert!(sent.unwrap().success());
}

#[expect(clippy::disallowed_methods, reason = "a real process is interrupted at a real moment")]
fn pause(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// Starts an apply and waits until `word` has been printed.
fn started(shell: &Shell, word: &str) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut command = shell.command("apply --lab --lab-speed 30 --yes");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before it said {word:?}");
    }
    (child, lines)
}

fn rest(mut lines: impl BufRead) -> String {
    let mut text = String::new();
    lines.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_first_ends_what_is_begun_and_says_how_to_go_on() {
    let shell = Shell::with_secrets();
    let (child, lines) = started(&shell, "creating the VM");
    interrupt(&child);
    let told = rest(lines);
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130));
    assert!(told.contains("Stopping after the current steps"), "{told}");
    assert!(told.contains("VM created"), "a creation that was started came to its end: {told}");
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(said.contains("Run the same command again to continue."), "{said}");
    let status = shell.ok("status --lab --lab-speed max");
    assert!(status.contains("the lease is free"), "the lease was given back: {status}");
    let again = shell.ok("apply --lab --lab-speed max --yes --quiet");
    assert!(again.contains("5 of 5 nodes ready"), "{again}");
}

/// A destroy that was interrupted is not shown as a cluster that lacks machines.
#[test]
fn user_g_an_interrupted_destroy_is_shown_as_that() {
    let shell = Shell::healthy();
    let mut command = shell.command("destroy --lab --lab-speed 1 --yes");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("stopping") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before it stopped something");
    }
    interrupt(&child);
    let told = rest(lines);
    assert_eq!(child.wait().unwrap().code(), Some(130), "{told}");
    let status = shell.ok("status --lab --lab-speed max");
    assert!(status.contains("Deletion: started at "), "{status}");
    assert!(status.contains("`talosmith destroy --lab`"), "{status}");
    assert!(!status.contains("steps to do"), "{status}");
    let plan = shell.run("plan --lab --lab-speed max");
    assert!(plan.out.contains("its deletion started at "), "{}", plan.all());
    let gone = shell.run("destroy --lab --lab-speed max --yes");
    assert_eq!(gone.code, Some(0), "{}", gone.all());
    let status = shell.ok("status --lab --lab-speed max");
    assert!(!status.contains("Deletion"), "{status}");
}

#[test]
fn the_second_stops_at_once() {
    let shell = Shell::with_secrets();
    let (mut child, lines) = started(&shell, "creating the VM");
    interrupt(&child);
    pause(50);
    interrupt(&child);
    let mut waited = 0;
    while child.try_wait().unwrap().is_none() {
        pause(20);
        waited += 20;
        assert!(waited < 2_000, "two seconds are not at once");
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(lines);
    let again = shell.ok("apply --lab --lab-speed max --yes --quiet");
    assert!(again.contains("5 of 5 nodes ready"), "{again}");
}
