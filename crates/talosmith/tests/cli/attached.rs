//! Files that the cluster file points to, and configurations that Talos would refuse: all that is said about them.

use crate::shell::{HOME, Shell};

#[test]
fn files_that_are_missing_or_something_else() {
    let shell = Shell::with(&format!(
        "{HOME}image: {{ schematic: s.yaml }}\npatches: [missing.yaml]\nmanifests: {{ files: [m.yaml] }}\nkubernetes: {{ cni: {{ name: cilium, values_file: v.yaml }} }}\n"
    ));
    shell.write("s.yaml", "customisation: {}\n");
    shell.write("m.yaml", "kind: ConfigMap\n");
    shell.write("v.yaml", "- 1\n");
    insta::assert_snapshot!(shell.run("validate").all(), @r#"
    exit Some(3)
    --- stdout
    --- stderr
    error[TS0217]: `s.yaml` is no schematic: customisation is not a field of a schematic
     --> cluster.yaml:9:21
      |
    9 | image: { schematic: s.yaml }
      |                     ^^^^^^
      |
      = hint: write what the Image Factory takes, or `customization: {}` for nothing

    error[TS0005]: `missing.yaml` cannot be read: No such file or directory (os error 2)
      --> cluster.yaml:10:11
       |
    10 | patches: [missing.yaml]
       |           ^^^^^^^^^^^^
       |
       = hint: it is looked for in the folder of the cluster file

    error[TS0218]: `m.yaml` has no `apiVersion` and `kind` in document 1
      --> cluster.yaml:11:22
       |
    11 | manifests: { files: [m.yaml] }
       |                      ^^^^^^
       |
       = hint: write Kubernetes objects, each with its `apiVersion` and `kind`

    error[TS0218]: `v.yaml` is no mapping of values: expected mapping start at line 1, column 1
      --> cluster.yaml:12:49
       |
    12 | kubernetes: { cni: { name: cilium, values_file: v.yaml } }
       |                                                 ^^^^^^
       |
       = hint: write values as the chart's own `values.yaml` does, `key: value`

    4 problems in cluster.yaml; nothing was changed.
    "#);
}

#[test]
fn configurations_that_talos_would_refuse() {
    let shell = Shell::with(&format!(
        "{HOME}patches:\n  - machine: {{ sysctl: {{ a: b }} }}\n  - machine: {{ network: {{ interfaces: [{{ mtu: 5 }}] }} }}\n"
    ));
    insta::assert_snapshot!(shell.run("validate").all(), @r#"
    exit Some(3)
    --- stdout
    --- stderr
    error[TS0703]: the patch has parts that Talos would not read: machine.sysctl is not a key that Talos v1.13 knows here; did you mean "sysctls"?
      --> cluster.yaml:10:5
       |
    10 |   - machine: { sysctl: { a: b } }
       |     ^ for home-control-1 and 4 others
       |
       = hint: change it to a value that this release of Talos accepts

    1 problem in cluster.yaml; nothing was changed.
    "#);
}

/// A file may be checked on another machine than the one that applies it, so `validate` only warns; `plan` stops.
#[test]
fn a_time_zone_that_this_machine_does_not_know() {
    let window = "changes: { window: { from: \"22:00\", to: \"04:00\", time_zone: Mars/Olympus } }\n";
    let shell = Shell::with(&format!("{HOME}{window}"));
    let checked = shell.run("validate").all();
    assert!(checked.starts_with("exit Some(0)"), "{checked}");
    assert!(checked.contains("warning[TS0222]: the time zone `Mars/Olympus` is not known"), "{checked}");
    assert!(checked.contains("--> cluster.yaml:9:61"), "{checked}");
    assert!(checked.contains("hint: install the time zone database"), "{checked}");
    let planned = shell.run("--lab plan").all();
    assert!(planned.starts_with("exit Some(3)") && planned.contains("error[TS0222]"), "{planned}");
    let at_once = shell.run("--lab plan --now").all();
    assert!(!at_once.contains("TS0222"), "{at_once}");
}
