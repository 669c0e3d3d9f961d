//! kill -9 at moments chosen by chance: the next run ends healthy, with one etcd and every VM once.

use std::time::Duration;

use crate::shell::Shell;

/// Kills an apply after so many milliseconds, then applies again.
fn kill_and_go_on(shell: &Shell, millis: u64) {
    let mut apply = shell.start("apply --lab --lab-speed 100 --yes --json");
    #[expect(clippy::disallowed_methods, reason = "a real process dies at a real moment")]
    std::thread::sleep(Duration::from_millis(millis));
    apply.kill().unwrap();
    apply.wait().unwrap();

    shell.ok("apply --lab --lab-speed max --yes --quiet");
    let text = std::fs::read_to_string(shell.lab().join("world.json")).unwrap();
    let systems: serde_json::Value = serde_json::from_str(&text).unwrap();
    let etcds = systems["machines"]["etcds"].as_array().unwrap().len();
    assert_eq!(etcds, 1, "one bootstrap, killed after {millis} ms");
    let vms: Vec<&String> = systems["hypervisor"]["vms"].as_object().unwrap().keys().collect();
    assert_eq!(vms, ["150010", "150011", "150012", "150013", "150021", "150022"], "killed after {millis} ms");
    assert!(shell.ok("plan --lab --lab-speed max").contains("No changes"), "killed after {millis} ms");
    std::fs::remove_file(shell.lab().join("world.json")).unwrap();
}

#[test]
fn three_times_at_different_moments() {
    let shell = Shell::with_secrets();
    for millis in [400, 1_100, 1_700] {
        kill_and_go_on(&shell, millis);
    }
}

/// As often as is wanted, at moments from a seed: `conformance/kill/run SEED TIMES`.
#[test]
#[ignore = "takes a minute: conformance/kill/run"]
fn many_times_by_chance() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(otherwise)
    };
    let (mut seed, times) = (number("KILL_SEED", 1), number("KILL_TIMES", 20));
    let shell = Shell::with_secrets();
    for _ in 0..times {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // A bring-up takes some two seconds at this pace.
        kill_and_go_on(&shell, (seed >> 33) % 2_400);
    }
    eprintln!("killed {times} times; each time the next run ended healthy");
}
