//! Wrong files: every problem at once, with line and hint, and nothing touched.

use crate::shell::{HOME, Shell};

/// Runs `apply` on a wrong file; nothing may come into being.
fn refused(file: &str) -> String {
    let shell = Shell::with(file);
    let ran = shell.run("apply --lab --yes");
    let left: Vec<_> = std::fs::read_dir(shell.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["cluster.yaml"], "nothing was touched");
    ran.all()
}

#[test]
fn unknown_keys() {
    insta::assert_snapshot!(refused(&HOME.replace("network:", "netwrok:").replace("count: 2", "cuont: 2")), @r#"
    exit Some(3)
    --- stdout
    --- stderr
    error[TS0101]: unknown key `netwrok`
     --> cluster.yaml:5:1
      |
    5 | netwrok: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }
      | ^^^^^^^
      |
      = hint: did you mean `network`?

    error[TS0101]: unknown key `pools.work.cuont`
     --> cluster.yaml:8:28
      |
    8 |   work:    { role: worker, cuont: 2 }
      |                            ^^^^^
      |
      = hint: did you mean `count`?

    2 problems in cluster.yaml; nothing was changed.
    "#);
}

#[test]
fn an_address_twice_and_whatever_else_is_wrong() {
    let file = "\
cluster: home
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: https://pve1:8006, token: 'root@pam!x=12345678-1234-1234-1234-123456789012' }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }
nodes:
  one: { role: controlplane, address: 10.25.150.11 }
  two: { role: worker, address: 10.25.150.11 }
  three: { role: worker, address: banana, memory: 100M }
";
    insta::assert_snapshot!(refused(file), @r#"
    exit Some(3)
    --- stdout
    --- stderr
    error[TS0501]: `proxmox.token` must say where the token is, not what it is
     --> cluster.yaml:3:48
      |
    3 | ...//pve1:8006, token: ************************************************* }
      |                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = hint: write `env:NAME`, `file:PATH` or `cmd:COMMAND`; a token that was committed should be renewed

    error[TS0405]: `one` and `two` both have the address 10.25.150.11
     --> cluster.yaml:7:33
      |
    6 |   one: { role: controlplane, address: 10.25.150.11 }
      |                                       ------------
    7 |   two: { role: worker, address: 10.25.150.11 }
      |                                 ^^^^^^^^^^^^
      |
      = hint: give one of them another address

    error[TS0401]: `banana` is not an IPv4 address
     --> cluster.yaml:8:35
      |
    8 |   three: { role: worker, address: banana, memory: 100M }
      |                                   ^^^^^^
      |
      = hint: write four numbers from 0 to 255, for example `10.25.150.11`

    error[TS0605]: `three` has 100 MiB of memory, too little for a worker node
     --> cluster.yaml:8:51
      |
    8 |   three: { role: worker, address: banana, memory: 100M }
      |                                                   ^^^^
      |
      = hint: Talos wants 874 MiB at least; a plain number counts MiB

    4 problems in cluster.yaml; nothing was changed.
    "#);
}

#[test]
fn no_control_plane() {
    let file: String = HOME.lines().filter(|l| !l.contains("control:")).map(|l| format!("{l}\n")).collect();
    insta::assert_snapshot!(refused(&file), @r#"
    exit Some(3)
    --- stdout
    --- stderr
    error[TS0602]: there is no control plane
     --> cluster.yaml:6:1
      |
    6 | pools:
      | ^^^^^
      |
      = hint: add a pool: `control: { role: controlplane, count: 3 }`

    1 problem in cluster.yaml; nothing was changed.
    "#);
}

#[test]
fn no_file_no_token_and_no_such_command() {
    let shell = Shell::with(HOME);
    insta::assert_snapshot!(shell.run("plan -f nope.yaml").all(), @r#"
    exit Some(3)
    --- stdout
    --- stderr
    error: could not read the cluster file nope.yaml
      because: No such file or directory (os error 2)
      hint: name it with `-f FILE`; `talosmith init` writes one to start from
    "#);
    insta::assert_snapshot!(shell.run("plan").all(), @r#"
    exit Some(3)
    --- stdout
    --- stderr
    error: the environment variable PROXMOX_VE_API_TOKEN, which should hold the Proxmox token, is not set
      hint: `talosmith proxmox setup` creates a token; then export PROXMOX_VE_API_TOKEN='user@realm!name=secret', or say with `proxmox.token` where the token is
    "#);
    assert_eq!(shell.run("frobnicate").code, Some(64));
}

#[test]
fn problems_as_data() {
    let shell = Shell::with(&HOME.replace("10.25.150.10 }", "10.99.0.1 }"));
    let ran = shell.run("validate --json");
    assert_eq!(ran.code, Some(3));
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(found["schema"], 1);
    let found = &found["problems"];
    assert_eq!(found[0]["line"], 5);
    assert_eq!(found[0]["file"], "cluster.yaml");
    assert!(found[0]["hint"].is_string());
}

/// A script that keeps the output must learn that it did not get it.
#[test]
#[cfg(target_os = "linux")]
fn f2_output_that_cannot_be_written_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let program = std::process::Command::new(env!("CARGO_BIN_EXE_talosmith"));
    let ran = { program }.arg("schema").stdout(full).output().unwrap();
    assert_eq!(ran.status.code(), Some(5), "{ran:?}");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(said.contains("could not write to stdout") && said.contains("No space left"), "{said}");
}
