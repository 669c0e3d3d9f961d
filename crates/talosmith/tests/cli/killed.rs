//! kill -9 at ten moments: the next run ends healthy, with one etcd and every VM once.

use std::time::Duration;

use crate::shell::{HOME, Shell};

#[test]
fn ten_times_at_different_moments() {
    let shell = Shell::with(HOME);
    for tenths in [1, 3, 5, 6, 8, 9, 11, 12, 14, 17] {
        // A bring-up takes some two seconds at this pace; each time it dies a little later.
        let mut apply = shell.start("apply --lab --lab-speed 100 --yes --json");
        #[expect(clippy::disallowed_methods, reason = "a real process dies at a real moment")]
        std::thread::sleep(Duration::from_millis(tenths * 130));
        apply.kill().unwrap();
        apply.wait().unwrap();

        shell.ok("apply --lab --lab-speed max --yes --quiet");
        let text = std::fs::read_to_string(shell.lab().join("world.json")).unwrap();
        let world: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            world["machines"]["etcds"].as_array().unwrap().len(),
            1,
            "one bootstrap, killed at {tenths}"
        );
        let vms: Vec<&String> = world["hypervisor"]["vms"].as_object().unwrap().keys().collect();
        assert_eq!(vms, ["150010", "150011", "150012", "150013", "150021", "150022"], "no VM twice");
        assert!(shell.ok("plan --lab --lab-speed max").contains("Nothing to do"));
        std::fs::remove_file(shell.lab().join("world.json")).unwrap();
    }
}
