//! A secrets bundle that is missing, or is not the cluster's.

use crate::shell::Shell;

/// A healthy cluster whose bundle is not where it is searched.
fn without_bundle() -> Shell {
    let shell = Shell::healthy();
    std::fs::rename(shell.lab().join("secrets.age"), shell.path().join("backup.age")).unwrap();
    shell
}

#[test]
fn left_8_a_missing_bundle_is_named_with_its_path_and_deletion_is_not_proposed() {
    let shell = without_bundle();
    let path = shell.lab().canonicalize().unwrap().join("secrets.age");
    for command in ["plan", "apply --yes", "destroy --yes", "health", "status", "doctor"] {
        let ran = shell.run(&format!("{command} --lab --lab-speed max"));
        let said = ran.all().split_whitespace().collect::<Vec<_>>().join(" ");
        let at =
            |words: &str| said.find(words).unwrap_or_else(|| panic!("{command}: no {words:?} in {said}"));
        at(&path.display().to_string());
        at("from your backup");
        at("secrets import");
        assert!(!said.contains("qm destroy") && !said.contains("delete them"), "{command}: {said}");
        if !["status", "doctor"].contains(&command) {
            assert_eq!(ran.code, Some(7), "{command}: {said}");
        }
    }
    // Doing what is said helps.
    std::fs::rename(shell.path().join("backup.age"), path).unwrap();
    assert!(shell.ok("plan --lab --lab-speed max").contains("No changes"));
}

#[test]
fn left_8_a_cluster_without_secrets_says_where_they_were_searched() {
    let shell = Shell::with(crate::shell::HOME);
    for command in ["health", "kubeconfig -o kc", "secrets export -o x"] {
        let ran = shell.run(&format!("{command} --lab"));
        assert_eq!(ran.code, Some(7), "{}", ran.all());
        assert!(ran.err.contains(".talosmith/lab/home/secrets.age"), "{command}: {}", ran.err);
    }
}

/// The bundle of another cluster proves nothing about this one.
#[test]
fn left_9_with_another_bundle_health_is_unknown() {
    let shell = without_bundle();
    shell.ok("secrets new --lab");
    let health = shell.run("health --lab --lab-speed max");
    assert_eq!(health.code, Some(7), "{}", health.all());
    let said = health.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("the health of home is unknown"), "{said}");
    assert!(said.contains("is not the one that the cluster home was made with"), "{said}");
    assert!(!health.all().contains("not healthy"), "{}", health.all());
    let waited = shell.run("health --lab --lab-speed max --timeout 5m --json");
    assert_eq!(waited.code, Some(7), "waiting does not help: {}", waited.all());
    assert!(!waited.out.contains("\"healthy\":false"), "{}", waited.out);
}
