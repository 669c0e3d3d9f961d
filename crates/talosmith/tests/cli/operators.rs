//! Two operators, and what a command says that cannot do all of its work.

use crate::shell::{HOME, Shell};

/// A healthy cluster whose lease someone else holds for a long time, and a file that asks for one node more.
fn held() -> Shell {
    let shell = Shell::healthy();
    let lease = serde_json::json!({
        "holder": "kim@laptop",
        "nonce": "1",
        "since": "2026-01-01T00:00:00Z",
        "expires": "2099-01-01T00:05:00Z",
    });
    // The record's notes are JSON in a string of the world's JSON.
    let quoted = |text: &str| text.replace('"', "\\\"");
    let (free, held) = (quoted("\"lease\":null"), quoted(&format!("\"lease\":{lease}")));
    shell.change_world(|systems| systems.replacen(&free, &held, 1));
    shell.write("cluster.yaml", &HOME.replace("count: 2", "count: 3"));
    shell
}

#[test]
fn whoever_comes_second_is_told_at_once() {
    let shell = held();
    for command in ["apply", "destroy"] {
        let ran = shell.run(&format!("{command} --lab --lab-speed max --yes"));
        assert_eq!((ran.code, ran.out.as_str()), (Some(6), ""), "{}", ran.all());
        insta::allow_duplicates! {
            insta::assert_snapshot!(ran.err, @"
            error: kim@laptop is changing the cluster since 2026-01-01 00:00:00 UTC
              hint: wait until that run has ended. If it is surely dead, run the command again with `--take-over`, or after 2099-01-01 00:05:00 UTC, when the lease expires; either way Talosmith then waits 390 s, by when that run has certainly stopped
            ");
        }
    }
    // To look is always allowed, and where nothing is to do no one is in the way.
    shell.ok("plan --lab --lab-speed max");
    shell.write("cluster.yaml", HOME);
    shell.ok("apply --lab --lab-speed max --yes");
}

#[test]
fn whoever_takes_over_says_how_long_it_waits() {
    let shell = held();
    let ran = shell.run("apply --lab --lab-speed max --yes --take-over");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    assert!(
        ran.err.contains("taking over from kim@laptop: waiting 390 s, by when that run has stopped"),
        "{}",
        ran.err
    );
    assert_eq!(ran.out.matches("1 VM to create").count(), 1, "the same plan is not shown twice: {}", ran.out);
}

/// The host of one node is off: the rest goes, and no one is told that all is done.
#[test]
fn what_could_not_be_removed_is_listed_at_the_end() {
    let shell = Shell::healthy();
    shell.change_world(|text| {
        let mut systems: serde_json::Value = serde_json::from_str(&text).unwrap();
        systems["hypervisor"]["hosts"]["pve3"]["online"] = false.into();
        systems.to_string()
    });
    let ran = shell.run("destroy --lab --lab-speed max --yes --quiet");
    assert_eq!(ran.code, Some(5), "{}", ran.all());
    insta::assert_snapshot!(ran.err, @"
    error: home is not completely deleted
      because: VM 150013 (home-control-3) on pve3 is left: pve3 is off or cannot be reached
      because: the cluster record VM 150010 on pve1 is left: it goes last
      hint: run `talosmith destroy --lab` again when pve3 is back
    ");
    let again = shell.run("destroy --lab --lab-speed max --yes --quiet");
    assert_eq!((again.code, again.out.as_str(), again.err), (Some(5), "", ran.err), "nothing is called done");
}

#[test]
fn what_a_file_holds_of_others_is_not_lost() {
    let shell = Shell::with_secrets();
    let work = "apiVersion: v1\nkind: Config\ncontexts: [{name: work}]\ncurrent-context: work\n";
    shell.write("work.kc", work);
    let refused = shell.run("kubeconfig --lab -o work.kc");
    insta::assert_snapshot!(refused.all(), @"
    exit Some(4)
    --- stdout
    --- stderr
    error: work.kc holds something else, too: work
      hint: keep it with `--merge`, or replace the whole file with `--force`
    ");
    let text = |name: &str| std::fs::read_to_string(shell.path().join(name)).unwrap();
    assert_eq!(text("work.kc"), work);
    std::os::unix::fs::symlink("work.kc", shell.path().join("link.kc")).unwrap();
    let merged = shell.run("kubeconfig --lab -o link.kc --merge");
    insta::assert_snapshot!(merged.all(), @"
    exit Some(0)
    --- stdout
    --- stderr
    Written to link.kc; its certificate is valid for 24 hours.
    The current context there is admin@home now; it was work.
    Kubernetes does not answer at https://10.25.150.10:6443 from here. This kubeconfig works once the cluster is bootstrapped (`talosmith apply --lab`) and that address can be reached.
    ");
    assert!(text("work.kc").contains("admin@home"), "through the link: {}", text("work.kc"));
    shell.ok("kubeconfig --lab -o link.kc --force");
    assert!(!text("work.kc").contains("work"), "{}", text("work.kc"));
    // What is only ours is renewed without a word.
    shell.ok("kubeconfig --lab -o link.kc");
}

/// Two first runs at once, each with a cluster of its own, and a configuration folder that is empty: one identity, and both
/// bundles open.
#[test]
fn a5_two_first_runs_at_once_make_one_identity() {
    for round in 0..2 {
        let config = tempfile::tempdir().unwrap();
        let shells = [Shell::with(HOME), Shell::with(HOME)];
        let new = |shell: &Shell| {
            let mut command = shell.command("secrets new");
            command.env("XDG_CONFIG_HOME", config.path()).env_remove("TALOSMITH_IDENTITY");
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        };
        let running = shells.each_ref().map(new);
        for child in running {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "round {round}: {}", String::from_utf8_lossy(&output.stderr));
        }
        for shell in &shells {
            let mut command = shell.command("secrets export -o out.yaml");
            let ran = command
                .env("XDG_CONFIG_HOME", config.path())
                .env_remove("TALOSMITH_IDENTITY")
                .output()
                .unwrap();
            assert!(ran.status.success(), "round {round}: {}", String::from_utf8_lossy(&ran.stderr));
        }
        let kept = std::fs::read_dir(config.path().join("talosmith")).unwrap().flatten();
        let kept: Vec<_> = kept.map(|entry| entry.file_name()).collect();
        assert_eq!(kept, ["identity.txt"], "nothing else is left there");
    }
}
