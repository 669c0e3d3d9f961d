//! Plans that are saved, reviewed, and carried out later; health; credentials on request.

use crate::shell::{HOME, Shell};

#[test]
fn user_j_a_saved_plan_is_carried_out_only_in_the_same_world_and_once() {
    let shell = Shell::with_secrets();
    shell.ok("plan --lab --lab-speed max -o first.plan");
    shell.ok("apply --lab --lab-speed max --quiet first.plan --kubeconfig kc --talosconfig tc");
    for name in ["kc", "tc"] {
        let text = std::fs::read_to_string(shell.path().join(name)).unwrap();
        assert!(text.contains("home"), "{text}");
    }

    let stale = shell.run("apply --lab --lab-speed max first.plan");
    assert_eq!(stale.code, Some(4), "{}", stale.all());
    insta::assert_snapshot!(stale.err, @"
    error: the plan first.plan cannot be applied again: its changes were made already, and the cluster matches the file
      hint: nothing is left to do; save a new plan after the next change of the file
    ");

    shell.write("cluster.yaml", &HOME.replace("count: 2", "count: 3"));
    shell.ok("plan --lab --lab-speed max -o second.plan");
    shell.write("cluster.yaml", &HOME.replace("count: 2", "count: 4"));
    let other = shell.run("apply --lab --lab-speed max second.plan");
    assert_eq!(other.code, Some(4), "another file: {}", other.all());
    insta::assert_snapshot!(other.err, @"
    error: the plan second.plan was made from another file
      because: home-work-4 is new in the file
      hint: look at what changed, then save a new plan with `talosmith plan --lab -o FILE`
    ");
    shell.write("cluster.yaml", &HOME.replace("cluster: home", "cluster: away"));
    let other = shell.run("apply --lab --lab-speed max second.plan");
    insta::assert_snapshot!(other.all(), @"
    exit Some(4)
    --- stdout
    --- stderr
    error: the plan second.plan is for the cluster home, the file for away
      hint: name the file that it was made from with `-f FILE`
    ");
    shell.write("cluster.yaml", &HOME.replace("count: 2", "count: 3"));
    let grown = shell.ok("apply --lab --lab-speed max --quiet second.plan");
    assert!(grown.contains("6 of 6 nodes ready"), "{grown}");

    let missing = shell.run("apply --lab --lab-speed max third.plan");
    assert_eq!(missing.code, Some(3), "{}", missing.all());
    assert!(
        missing.err.contains("hint: save a new one with `talosmith plan --lab -o FILE`"),
        "{}",
        missing.err
    );
    let wrong = shell.run("apply --lab --lab-speed max cluster.yaml");
    assert_eq!(wrong.code, Some(3), "{}", wrong.all());
    assert!(
        wrong.err.contains("it is not a plan that `talosmith plan --lab -o` has written"),
        "{}",
        wrong.err
    );
    let text = std::fs::read_to_string(shell.path().join("second.plan")).unwrap();
    shell.write("second.plan", &text.replace("home-work-3", "home-work-9"));
    let tampered = shell.run("apply --lab --lab-speed max second.plan");
    assert!(tampered.err.contains("it was changed after it was written"), "{}", tampered.err);
}

/// What a plan may delete is reviewed with it, and not asked for again when it is carried out.
#[test]
fn a_saved_plan_keeps_what_was_allowed() {
    let shell = Shell::with(HOME);
    shell.ok("plan --lab --lab-speed max --allow-destroy home-work-1 -o first.plan");
    let more = shell.run("apply --lab --lab-speed max --allow-destroy home-work-2 first.plan");
    assert_eq!(more.code, Some(64), "{}", more.all());
    let told = "the plan first.plan was saved without `--allow-destroy home-work-2`";
    assert!(more.err.contains(told), "{}", more.err);
    assert!(
        more.err.contains("talosmith plan --lab --allow-destroy home-work-2 -o first.plan"),
        "{}",
        more.err
    );
    shell.ok("apply --lab --lab-speed max --quiet first.plan");
}

#[test]
fn health_is_a_list_of_conditions_and_an_exit_code() {
    let shell = Shell::with(HOME);
    let nothing = shell.run("health --lab --lab-speed max");
    let nothing = nothing.all().replace(&shell.path().display().to_string(), "FOLDER");
    insta::assert_snapshot!(nothing, @"
    exit Some(7)
    --- stdout
    --- stderr
    error: the cluster home has no secrets yet: the bundle was searched at FOLDER/.talosmith/lab/home/secrets.age and FOLDER/.talosmith/lab/home/secrets.yaml
      hint: if the cluster exists, restore its bundle from your backup, or import its secrets with `talosmith secrets import --lab`; for a new cluster `talosmith secrets new --lab` or `talosmith apply --lab` creates them
    ");
    let shell = Shell::healthy();
    insta::assert_snapshot!(shell.ok("health --lab --lab-speed max --timeout 1m"), @"
    ✓ etcd members are the control plane nodes
    ✓ every machine runs and is ready
    ✓ every node is ready in Kubernetes
    ✓ the control plane's pods are ready
    etcd:   3 of 3 members answer, quorum holds, 1 failure is tolerated;
            leader home-control-1; VIP 10.25.150.10 on home-control-1.
    home is healthy.
    ");
    let markdown = shell.ok("plan --lab --lab-speed max --markdown");
    assert_eq!(markdown, "## Plan for `home`\n\nNo changes.\n");
}

/// An edited plan whose digest was computed again is refused, and so is one that nothing proves.
#[test]
fn a12_an_edited_plan_is_refused() {
    let shell = Shell::with_secrets();
    shell.ok("plan --lab --lab-speed max -o first.plan");
    let text = std::fs::read_to_string(shell.path().join("first.plan")).unwrap();
    let proof = text.lines().find(|line| line.contains("\"hmac_sha256\"")).unwrap().to_owned();
    let forged = format!("  \"hmac_sha256\": \"{}\",", "0".repeat(64));
    for (name, edited, told) in [
        ("edited.plan", text.replace("home-work-2", "home-work-7"), "it was changed after it was written"),
        ("forged.plan", text.replace(&proof, &forged), "it was changed after it was written"),
        ("bare.plan", text.replace(&format!("{proof}\n"), ""), "it was saved before the cluster had secrets"),
        ("newer.plan", text.replace("\"talosmith_plan\": 7", "\"talosmith_plan\": 8"), "by a newer release"),
        (
            "older.plan",
            text.replace("\"talosmith_plan\": 7", "\"talosmith_plan\": 6"),
            "by an earlier release",
        ),
        ("unversioned.plan", text.replace("  \"talosmith_plan\": 7,\n", ""), "it has no version"),
    ] {
        assert_ne!(edited, text, "{name}");
        shell.write(name, &edited);
        let ran = shell.run(&format!("apply --lab --lab-speed max {name}"));
        assert_ne!(ran.code, Some(0), "{}", ran.all());
        assert!(ran.err.contains(told), "{name}: {}", ran.all());
    }
}

/// What people wrote freely stands in clear in neither a saved plan nor in what is rendered to be shown.
#[test]
fn a12_free_values_are_not_shown() {
    let free = "kubernetes: { cni: { name: cilium, values: { token-of-mine: canary-one } } }\n\
                manifests: { helm: { web: { repository: 'https://charts.example', chart: web, version: 1.0.0, namespace: web, values: { a: canary-two } } } }\n\
                patches: [ { machine: { env: { A: canary-three } } } ]\n";
    let shell = Shell::with(&format!("{HOME}{free}"));
    shell.ok("secrets new --lab");
    shell.ok("render --lab -o shown --redact");
    let rendered = std::fs::read_to_string(shell.path().join("shown/home-control-1.yaml")).unwrap();
    assert!(!rendered.contains("canary") && rendered.contains("sha256:"), "{rendered}");
    let ran = shell.run("plan --lab --lab-speed max -o free.plan");
    let saved = std::fs::read_to_string(shell.path().join("free.plan"));
    let saved = saved.unwrap_or_else(|_| panic!("{}", ran.all()));
    assert!(!saved.contains("canary") && !saved.contains("token-of-mine"), "{saved}");
}

/// The cluster was created meanwhile and has drift, so there is something to do: the plan is refused with what changed, and the rest is
/// counted.
#[test]
fn left_7_a_saved_plan_says_what_changed_and_counts_the_rest() {
    let shell = Shell::with_secrets();
    shell.ok("plan --lab --lab-speed max -o first.plan");
    shell.ok("apply --lab --lab-speed max --yes --quiet");
    shell.change_world(|text| {
        let mut lab: serde_json::Value = serde_json::from_str(&text).unwrap();
        lab["hypervisor"]["vms"]["150021"]["config"]["tags"] = "mine".into();
        lab.to_string()
    });
    let stale = shell.run("apply --lab --lab-speed max first.plan");
    insta::assert_snapshot!(stale.all(), @"
    exit Some(4)
    --- stdout
    --- stderr
    error: the observed state changed since the plan first.plan was made
      because: VM 150010 (home-record) on pve1 is new
      because: VM 150011 (home-control-1) on pve1 is new
      because: VM 150012 (home-control-2) on pve2 is new
      because: VM 150013 (home-control-3) on pve3 is new
      because: VM 150021 (home-work-1) on pve1 is new
      because: VM 150022 (home-work-2) on pve2 is new
      because: home-control-1 has a machine now
      because: home-control-2 has a machine now
      because: home-control-3 has a machine now
      because: home-work-1 has a machine now
      because: and 11 more changes
      hint: look at what changed, then save a new plan with `talosmith plan --lab -o FILE`
    ");
}
