//! Plans that are saved, reviewed, and carried out later; health; credentials on request.

use crate::shell::{HOME, Shell};

#[test]
fn a_saved_plan_is_carried_out_only_in_the_same_world() {
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
    error: the world has changed since the plan first.plan was made
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
      remedy: look at what changed, then save a new plan with `talosmith plan -o FILE`
    ");

    shell.write("cluster.yaml", &HOME.replace("count: 2", "count: 3"));
    shell.ok("plan --lab --lab-speed max -o second.plan");
    shell.write("cluster.yaml", &HOME.replace("count: 2", "count: 4"));
    let other = shell.run("apply --lab --lab-speed max second.plan");
    assert_eq!(other.code, Some(4), "another file: {}", other.all());
    insta::assert_snapshot!(other.err, @"
    error: the plan second.plan was made from another file
      because: home-work-4 is new in the file
      remedy: look at what changed, then save a new plan with `talosmith plan -o FILE`
    ");
    shell.write("cluster.yaml", &HOME.replace("cluster: home", "cluster: away"));
    let other = shell.run("apply --lab --lab-speed max second.plan");
    insta::assert_snapshot!(other.all(), @"
    exit Some(4)
    --- stdout
    --- stderr
    error: the plan second.plan is for the cluster home, the file for away
      remedy: name the file that it was made from with `-f FILE`
    ");
    shell.write("cluster.yaml", &HOME.replace("count: 2", "count: 3"));
    let grown = shell.ok("apply --lab --lab-speed max --quiet second.plan");
    assert!(grown.contains("6 of 6 nodes ready"), "{grown}");

    let missing = shell.run("apply --lab --lab-speed max third.plan");
    assert_eq!(missing.code, Some(3), "{}", missing.all());
    assert!(missing.err.contains("remedy: save a new one with `talosmith plan -o FILE`"), "{}", missing.err);
    let wrong = shell.run("apply --lab --lab-speed max cluster.yaml");
    assert_eq!(wrong.code, Some(3), "{}", wrong.all());
    assert!(wrong.err.contains("it is not a plan that `talosmith plan -o` has written"), "{}", wrong.err);
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
    insta::assert_snapshot!(nothing.all(), @"
    exit Some(7)
    --- stdout
    --- stderr
    error: the cluster home has no secrets yet
      remedy: if the cluster exists, restore its bundle from your backup, or take its secrets over with `talosmith secrets import`; for a new cluster `talosmith secrets new` or `talosmith apply` makes them
    ");
    let shell = Shell::healthy();
    insta::assert_snapshot!(shell.ok("health --lab --lab-speed max --timeout 1m"), @"
    ✓ etcd members are the control planes
    ✓ every machine runs and is ready
    ✓ every node is ready in Kubernetes
    ✓ the control plane's pods are ready
    home is healthy.
    ");
    let markdown = shell.ok("plan --lab --lab-speed max --markdown");
    assert_eq!(markdown, "## Plan for `home`\n\nNothing to do.\n");
}
