//! What people met in their first hour: each answer says what happened, and what to type next.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Duration;

use crate::shell::{HOME, Shell};

const LAB: &str = "--lab --lab-speed max";

#[test]
fn user_c_init_does_not_point_at_a_file_that_it_did_not_write() {
    let shell = Shell::with(HOME);
    let ran = shell.run("init -f new.yaml --cidr foo");
    assert_eq!(ran.code, Some(64), "{}", ran.all());
    assert!(!shell.path().join("new.yaml").exists());
    assert!(ran.err.contains("--> new.yaml (not written):"), "{}", ran.err);
    assert!(ran.err.contains("new.yaml was not written: correct the options"), "{}", ran.err);
    // The comments of a file that is written lead somewhere.
    let file = shell.ok("init --print");
    assert!(file.contains("docs/reference/file.md"), "{file}");
    for odd in ["Never chosen for you", "Left out,", "outlives", "control plane nodes"] {
        assert!(!file.contains(odd), "{odd}: {file}");
    }
}

#[test]
fn user_d_setup_names_its_own_options_and_what_comes_next() {
    let shell = Shell::with(HOME);
    let ran = shell.run(&format!("proxmox setup {LAB} --yes"));
    assert!(ran.code == Some(0) && ran.err.contains("Next: `talosmith doctor --lab`"), "{}", ran.all());
    let again = shell.run(&format!("proxmox setup {LAB} --yes"));
    assert!(again.err.contains("Next: `talosmith doctor --lab`"), "{}", again.all());
}

#[test]
fn user_e_a_kubeconfig_of_a_cluster_that_does_not_answer_has_a_note_and_a_new_folder_is_named() {
    let shell = Shell::with_secrets();
    let ran = shell.run(&format!("kubeconfig {LAB} -o nodir/kc"));
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(ran.err.contains("Created the folder nodir."), "{}", ran.err);
    assert!(
        ran.err.contains("Kubernetes does not answer at https://10.25.150.10:6443")
            && ran.err.contains("`talosmith apply --lab`"),
        "{}",
        ran.err
    );
    let shell = Shell::healthy();
    let ran = shell.run(&format!("kubeconfig {LAB} -o kc"));
    assert!(!ran.err.contains("does not answer") && !ran.err.contains("Created"), "{}", ran.err);
}

/// `status --watch | head -1` ends when its reader is gone.
#[test]
fn user_f_a_watch_ends_when_its_reader_is_gone() {
    let shell = Shell::healthy();
    let mut command = shell.command(&format!("status --watch --every 1 {LAB}"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("home: "), "{line}");
    assert_eq!(ended(&mut child), Some(0));
}

/// How a program ends that must end by itself.
#[expect(clippy::disallowed_methods, reason = "a real process is waited for")]
fn ended(child: &mut std::process::Child) -> Option<i32> {
    for _ in 0..600 {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("it did not end")
}

#[test]
fn user_h_an_answer_other_than_yes_has_an_exit_code_of_its_own() {
    let shell = Shell::healthy();
    shell.write("cluster.yaml", &HOME.replace("count: 2", "count: 3"));
    for (command, answer) in [("apply", "n\n"), ("destroy", "y\n"), ("lab reset", "\n")] {
        let speed = if command == "lab reset" { "" } else { LAB };
        let (mut child, mut keys) = shell.on_terminal(&format!("{command} {speed}"));
        // What is typed before the question waits for it.
        std::io::Write::write_all(&mut keys, answer.as_bytes()).unwrap();
        let seen = std::thread::spawn(move || {
            let mut seen = Vec::new();
            // A terminal without a program is an error to its reader.
            let _ = keys.read_to_end(&mut seen);
            String::from_utf8_lossy(&seen).into_owned()
        });
        let code = ended(&mut child);
        drop(child);
        let seen = seen.join().unwrap();
        assert_eq!(code, Some(8), "{command}: {seen}");
        assert!(seen.contains("Nothing was changed."), "{command}: {seen}");
    }
    assert!(shell.ok("--help").contains("8  a question"), "the exit codes are part of the help");
}

#[test]
fn user_i_memory_is_told_with_its_unit_and_a_wrong_kind_with_an_example() {
    let shell = Shell::healthy();
    shell.write("cluster.yaml", &HOME.replace("count: 2", "count: 2, memory: 4096"));
    let plan = shell.run(&format!("plan {LAB}"));
    assert!(plan.out.contains("memory 8192 MiB → 4096 MiB"), "{}", plan.all());
    shell.write("cluster.yaml", &HOME.replace("count: 2", "count: two, cpu: 2.5"));
    let told = shell.run("validate").err;
    assert!(told.contains("= hint: write a whole number without quotes, for example `count: 3`"), "{told}");
    assert!(told.contains("for example `cpu: 3`"), "{told}");
}
