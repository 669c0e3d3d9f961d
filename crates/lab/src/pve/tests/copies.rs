//! What changes in a VM that is copied or goes back in time.

use serde_json::json;

use super::lab;

#[tokio::test(start_paused = true)]
async fn a8_clones_and_rollbacks_have_another_generation() {
    let (_lab, client, _) = lab();
    assert_eq!(client.talos_vm(100).await, "OK");
    let vm = "/nodes/pve1/qemu/100";
    let made = client.get(&format!("{vm}/config")).await;
    assert_eq!(client.done("POST", &format!("{vm}/snapshot"), json!({"snapname": "before"})).await, "OK");
    let taken = client.get(&format!("{vm}/config")).await;
    assert_eq!(taken["vmgenid"], made["vmgenid"], "a snapshot changes nothing");
    assert_eq!(client.done("POST", &format!("{vm}/snapshot/before/rollback"), json!({})).await, "OK");
    let back = client.get(&format!("{vm}/config")).await;
    assert_ne!(back["vmgenid"], made["vmgenid"], "the only sign of a rollback");
    assert_eq!((&back["smbios1"], &back["net0"]), (&made["smbios1"], &made["net0"]));
    assert_eq!(client.done("POST", &format!("{vm}/clone"), json!({"newid": 101, "full": 1})).await, "OK");
    let copy = client.get("/nodes/pve1/qemu/101/config").await;
    for key in ["vmgenid", "smbios1"] {
        assert_ne!(copy[key], back[key], "{key}");
    }
}
