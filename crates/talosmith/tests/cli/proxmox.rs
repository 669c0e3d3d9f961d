//! `proxmox setup`, `doctor`, and orders to a lab that is served, as a person types them.

use std::io::{BufRead, BufReader};

use crate::shell::{HOME, Shell};

#[test]
fn setting_up_in_the_lab_tells_the_token_once() {
    let shell = Shell::with(HOME);
    let setup = "proxmox setup --lab --lab-speed max --yes";
    let first = shell.run(setup);
    assert!(first.code == Some(0) && first.out.starts_with("talosmith@pve!home="), "{}", first.all());
    assert!(first.err.contains("create the user talosmith@pve, without a password"), "{}", first.err);
    let again = shell.run(setup);
    assert_eq!(again.out, "No changes. Proxmox is ready for this cluster.\n");
    assert!(again.err.contains("`--renew`"), "{}", again.err);
    let doctor = shell.ok("doctor --lab --lab-speed max");
    assert!(doctor.ends_with("Proxmox has everything that this file needs.\n"), "{doctor}");
}

#[test]
fn a_password_is_not_asked_for_where_there_is_nobody() {
    let shell = Shell::with(HOME);
    insta::assert_snapshot!(shell.run("proxmox setup").all(), @r"
    exit Some(64)
    --- stdout
    --- stderr
    error: the password of root@pam is needed, and stdin is not a terminal
      hint: set TALOSMITH_ADMIN_PASSWORD, pipe it in with `--password-stdin`, or name a token with `--admin-token env:NAME`
    ");
}

fn user_d_a_wrong_administrators_token_is_called_that(shell: &Shell, file: &str) {
    let setup = format!("proxmox setup -f {file} --yes --admin-token");
    for (name, value) in [("ADMIN", "root@pam"), ("OTHER", "x")] {
        let ran = shell.run_with(name, value, &format!("{setup} env:ADMIN"));
        assert_eq!(ran.code, Some(3), "{}", ran.all());
        assert!(ran.err.contains("`--admin-token`"), "{}", ran.err);
        assert!(!ran.err.contains("proxmox.token"), "it is not the token of the file: {}", ran.err);
    }
}

#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "a real process is waited for")]
fn user_k_a_signal_at_the_password_leaves_a_terminal_that_shows_what_is_typed(shell: &Shell, file: &str) {
    use rustix::termios::{LocalModes, tcgetattr};
    let (mut child, keys) = shell.on_terminal(&format!("proxmox setup -f {file}"));
    let shows = || tcgetattr(&keys).unwrap().local_modes.contains(LocalModes::ECHO);
    let pause = || std::thread::sleep(std::time::Duration::from_millis(50));
    for _ in 0..600 {
        if !shows() {
            break;
        }
        pause();
    }
    assert!(!shows(), "it asks for the password");
    let sent = std::process::Command::new("sh").args(["-c", &format!("kill -TERM {}", child.id())]).status();
    assert!(sent.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(shows(), "what is typed is shown again");
}

#[test]
fn a_served_lab_takes_orders_until_it_is_told_to_go_down() {
    let shell = Shell::with(&HOME.replace("10.25.150.", "10.213.78."));
    let none = shell.run("lab inject off pve3");
    assert!(none.code == Some(5) && none.err.contains("no lab is up"), "{}", none.all());
    let mut lab = shell.start("lab up --json --proxmox 127.213.78.200:0 --factory 127.213.78.200:0");
    let mut line = String::new();
    BufReader::new(lab.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let facts: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
    let file = facts["file"].as_str().unwrap();

    let unknown = shell.run("lab inject off pve9");
    assert!(unknown.code == Some(64) && unknown.err.contains("pve1, pve2, pve3"), "{}", unknown.all());
    let again = shell.run("lab up --proxmox 127.213.78.201:0 --factory 127.213.78.201:0");
    assert!(again.code == Some(6) && again.err.contains("talosmith lab down"), "{}", again.all());
    insta::assert_snapshot!(shell.ok("lab inject off pve3"), @r"
    pve1: ok
    pve2: ok
    pve3: off
    The cluster has quorum.
    No calls yet.
    ");
    let doctor = shell.run(&format!("doctor -f {file}"));
    // The plan puts its nodes elsewhere, so that is no reason to fail.
    assert_eq!(doctor.code, Some(0), "{}", doctor.all());
    assert!(doctor.out.contains("warn host pve3"), "{}", doctor.out);
    let pinned = shell.path().join(file).with_file_name("pinned.yaml");
    let text = std::fs::read_to_string(shell.path().join(file)).unwrap();
    std::fs::write(&pinned, format!("{text}\nnodes: {{ home-work-1: {{ host: pve3 }} }}\n")).unwrap();
    let doctor = shell.run(&format!("doctor -f {}", pinned.display()));
    assert_eq!(doctor.code, Some(4), "{}", doctor.all());
    assert!(doctor.out.contains("fail plan") && doctor.out.contains("pve3"), "{}", doctor.out);
    let ordered = shell.ok("lab inject fault 2 --path /version");
    assert!(ordered.contains("waits: failure 2 at any call with /version"), "{ordered}");
    let met = shell.run(&format!("doctor -f {file}"));
    assert!(met.code == Some(3) && met.err.contains("Authentication failed!"), "{}", met.all());
    let closed = shell.ok("lab inject outside mirror.lan");
    assert!(closed.contains("of the hosts outside only these answer: mirror.lan"), "{closed}");
    let mended = shell.ok("lab inject clear");
    assert!(!mended.contains("mirror.lan") && !mended.contains("pve3: off"), "{mended}");
    assert!(mended.contains("met: failure 2 at GET /api2/json/version"), "{mended}");
    assert!(
        mended.lines().any(|line| line.starts_with("Calls: ") && line.contains(" to Proxmox VE")),
        "{mended}"
    );
    #[cfg(target_os = "linux")]
    user_k_a_signal_at_the_password_leaves_a_terminal_that_shows_what_is_typed(&shell, file);
    user_d_a_wrong_administrators_token_is_called_that(&shell, file);
    assert_eq!(shell.ok("lab down"), "The lab is down.\n");
    assert!(lab.wait().unwrap().success());
    assert_eq!(shell.ok("lab down"), "No lab of this file is up.\n");
}

/// Ends before anything is sent: nothing listens at the endpoint, and what is refused says so.
fn plan_with_command(more: &str, environment: &[(&str, &str)]) -> (Shell, String) {
    let proxmox = "'https://127.213.79.1:1', token: 'cmd:env > seen.txt; echo root@pam!a=b'";
    let shell = Shell::with(&HOME.replace("https://pve1:8006", proxmox));
    let mut command = shell.command(&format!("plan {more}"));
    for (name, value) in environment {
        command.env(name, value);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{said}");
    (shell, said)
}

#[test]
fn a13_a_command_of_the_file_gets_no_secret_of_ours() {
    let ours = [
        ("TALOSMITH_ADMIN_PASSWORD", "canary-1"),
        ("PROXMOX_VE_API_TOKEN", "root@pam!a=canary-2"),
        ("CI_PROXMOX", "root@pam!a=canary-3"),
        ("VAULT_ADDR", "kept"),
    ];
    let (shell, said) = plan_with_command("", &ours);
    let seen =
        std::fs::read_to_string(shell.path().join("seen.txt")).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert!(!seen.contains("canary") && seen.contains("VAULT_ADDR=kept"), "{seen}");
}

#[test]
fn a13_no_command_is_run_and_no_token_sent_where_that_is_not_wanted() {
    for (more, environment) in [("--no-commands", &[][..]), ("", &[("TALOSMITH_NO_COMMANDS", "1")][..])] {
        let (shell, said) = plan_with_command(more, environment);
        assert!(said.contains("could not get the Proxmox token: it comes from a command"), "{said}");
        assert!(!shell.path().join("seen.txt").exists(), "the command was run");
    }
    let (shell, said) = plan_with_command("", &[("PROXMOX_VE_ENDPOINT", "https://pve1:8006")]);
    assert!(said.contains("PROXMOX_VE_ENDPOINT allows only https://pve1:8006; nothing was sent"), "{said}");
    assert!(!shell.path().join("seen.txt").exists(), "the token is not even fetched");
}

#[test]
fn a_token_from_a_file_is_sent_only_where_the_environment_allows() {
    let proxmox = "'https://127.213.79.1:1', token: 'file:token.txt'";
    let shell = Shell::with(&HOME.replace("https://pve1:8006", proxmox));
    shell.write("token.txt", "root@pam!a=b");
    let output = shell.command("plan").env("PROXMOX_VE_ENDPOINT", "https://pve1:8006").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("PROXMOX_VE_ENDPOINT allows only https://pve1:8006; nothing was sent"), "{said}");
}

#[test]
fn a14_a_name_in_proxmox_cannot_control_the_terminal() {
    let shell = Shell::healthy();
    shell.change_world(|systems| {
        systems.replacen(
            "\"name\":\"home-work-1\"",
            "\"name\":\"home-\\u001b[2J\\u202ework\\nhome: nothing\"",
            1,
        )
    });
    for command in ["plan", "plan --markdown", "status", "plan --json"] {
        let ran = shell.run(&format!("{command} --lab --lab-speed max"));
        let all = ran.all();
        assert!(!all.contains(['\u{1b}', '\u{202e}']), "{command}: {all:?}");
        assert!(!all.lines().any(|line| line.starts_with("home: nothing")), "{command}: {all}");
    }
}

/// The file that `-o` names is what a script goes on with: a token whose secret cannot be written to it is no success.
#[test]
fn left_11_setup_does_not_succeed_without_the_file_that_it_was_asked_for() {
    let shell = Shell::with(HOME);
    let setup = "proxmox setup --lab --lab-speed max --yes";
    shell.ok(setup);
    let file = shell.path().join("token.txt");
    for more in ["", " --json"] {
        let ran = shell.run(&format!("{setup} -o token.txt{more}"));
        assert_eq!(ran.code, Some(64), "{}", ran.all());
        assert!(ran.all().contains("talosmith@pve!home exists already"), "{}", ran.all());
        assert!(ran.all().contains("`--renew`"), "{}", ran.all());
        assert!(!file.exists());
    }
    let before = shell.run(&format!("{setup} --json"));
    assert_eq!(before.code, Some(0), "without a file nothing is missing: {}", before.all());
    shell.ok(&format!("{setup} -o token.txt --renew"));
    assert!(std::fs::read_to_string(file).unwrap().starts_with("talosmith@pve!home="));
}

/// On a terminal, `--json` is why nothing is asked.
#[cfg(target_os = "linux")]
#[test]
fn left_13_json_on_a_terminal_does_not_blame_the_terminal() {
    use std::io::Read;
    let shell = Shell::with_secrets();
    for command in ["apply", "proxmox setup"] {
        let (mut child, mut screen) = shell.on_terminal(&format!("{command} --lab --lab-speed max --json"));
        let mut said = Vec::new();
        let mut part = [0; 4096];
        // Reading a terminal ends with an error when its last program has ended.
        while let Ok(length @ 1..) = screen.read(&mut part) {
            said.extend_from_slice(&part[..length]);
        }
        let said = String::from_utf8_lossy(&said).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(child.wait().unwrap().code(), Some(64), "{said}");
        assert!(!said.contains("is not a terminal"), "{command}: {said}");
        assert!(said.contains("`--json` does not ask") && said.contains("`--yes`"), "{command}: {said}");
    }
}
