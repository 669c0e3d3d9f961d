//! The calls that have no code of their own, and the rules that all calls share.

use serde_json::{Value, json};

use super::super::request::Plain;
use super::super::{Twist, respond};
use super::lab;
use crate::schema;

#[tokio::test(start_paused = true)]
async fn every_call_that_proxmox_knows_checks_its_parameters_first() {
    let (lab, _, _) = lab();
    let token = lab.facts().token;
    let mut seen = 0;
    for path in schema::paths() {
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let Some(rules) = schema::method(method, path).filter(|rules| !rules.open && rules.token) else {
                continue;
            };
            let filled = path
                .replace("{node}", "pve1")
                .replace("{vmid}", "100")
                .replace("{storage}", "local")
                .replace("{pos}", "0")
                .replace(['{', '}'], "");
            let call =
                Plain::of(method, &filled, &format!("PVEAPIToken={token}"), &[("no-such-parameter", "1")]);
            let Err((_, failure)) = respond(lab.shared(), "pve1", call, Twist::None).await else {
                panic!("{method} {path} took a parameter that it does not have");
            };
            let text = format!("{failure:?}");
            assert!(
                text.contains("no-such-parameter") || text.contains("user != root@pam"),
                "{method} {path}: {text}"
            );
            seen += 1;
            let _ = rules;
        }
    }
    assert!(seen > 550, "{seen}");
}

#[tokio::test(start_paused = true)]
async fn what_is_only_kept_is_made_shown_changed_and_removed() {
    let (_lab, client, _) = lab();
    let sets = "/cluster/firewall/ipset";
    client.call("POST", sets, json!({"name": "trusted", "comment": "us"})).await.data();
    let again = client.call("POST", sets, json!({"name": "trusted"})).await;
    assert_eq!(again.json()["errors"]["name"], "IPSet 'trusted' already exists");
    client.call("POST", &format!("{sets}/trusted"), json!({"cidr": "10.0.0.0/8", "nomatch": 1})).await.data();
    let inside = client.get(&format!("{sets}/trusted")).await;
    assert_eq!((&inside[0]["cidr"], &inside[0]["nomatch"]), (&json!("10.0.0.0/8"), &json!(1)));
    let path = format!("{sets}/trusted/10.0.0.0%2F8");
    client.call("PUT", &path, json!({"comment": "all of us"})).await.data();
    assert_eq!(client.get(&path).await["comment"], "all of us");
    let stale = client.call("PUT", &path, json!({"comment": "x", "digest": "0"})).await;
    assert_eq!(stale.reason, "detected modified configuration - file changed by other user? Try again.");
    client.call("DELETE", &path, Value::Null).await.data();
    client.call("DELETE", &format!("{sets}/trusted"), Value::Null).await.data();
    assert_eq!(client.get(sets).await, json!([]));

    let rules = "/cluster/firewall/rules";
    for action in ["ACCEPT", "DROP"] {
        client.call("POST", rules, json!({"action": action, "type": "in", "enable": 1})).await.data();
    }
    let order =
        |rows: Value| rows.as_array().unwrap().iter().map(|row| row["action"].clone()).collect::<Vec<_>>();
    assert_eq!(order(client.get(rules).await), ["DROP", "ACCEPT"]);
    client.call("PUT", &format!("{rules}/0"), json!({"moveto": 2})).await.data();
    assert_eq!(order(client.get(rules).await), ["ACCEPT", "DROP"]);

    let rule = json!({"rule": "apart", "type": "resource-affinity", "affinity": "negative", "resources": "vm:100,vm:101"});
    let unmanaged = client.call("POST", "/cluster/ha/rules", rule).await;
    assert_eq!(unmanaged.reason, "cannot use unmanaged resource(s) vm:100, vm:101.");

    client.call("POST", "/cluster/sdn/zones", json!({"zone": "z1", "type": "simple"})).await.data();
    client.call("POST", "/cluster/sdn/vnets", json!({"vnet": "v1", "zone": "z1"})).await.data();
    let subnet = json!({"subnet": "10.1.0.0/24", "type": "subnet", "gateway": "10.1.0.1"});
    client.call("POST", "/cluster/sdn/vnets/v1/subnets", subnet).await.data();
    assert_eq!(client.get("/cluster/sdn/vnets/v1/subnets/z1-10.1.0.0-24").await["cidr"], "10.1.0.0/24");
    let used = client.call("DELETE", "/cluster/sdn/zones/z1", Value::Null).await;
    assert_eq!(used.reason, "delete sdn zone object failed: zone z1 is used by vnet v1");
    let gone = client.call("GET", "/cluster/sdn/zones/z9", Value::Null).await;
    assert_eq!(gone.reason, "sdn 'z9' does not exist");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_carried_out_is_answered_as_a_call_that_is_not_there() {
    let (_lab, client, _) = lab();
    assert_eq!(client.get("/nodes/pve1/lxc").await, json!([]));
    let missing = client.call("GET", "/nodes/pve1/lxc/100/config", Value::Null).await;
    assert_eq!(missing.reason, "Configuration file 'nodes/pve1/lxc/100.conf' does not exist");
    let unserved = client.call("POST", "/nodes/pve1/vzdump", json!({"vmid": "100"})).await;
    assert_eq!(
        (unserved.status, unserved.reason.as_str()),
        (501, "Method 'POST /nodes/pve1/vzdump' not implemented")
    );
    let parts = client.get("/cluster/firewall").await;
    assert!(parts.as_array().unwrap().contains(&json!({"name": "aliases"})));
}

#[tokio::test(start_paused = true)]
async fn a_network_changes_when_it_is_reloaded() {
    let (_lab, client, _) = lab();
    let bridge =
        json!({"iface": "vmbr7", "type": "bridge", "cidr": "10.7.0.1/24", "autostart": 1, "comments": "lab"});
    client.call("POST", "/nodes/pve1/network", bridge.clone()).await.data();
    let again = client.call("POST", "/nodes/pve1/network", bridge).await;
    assert_eq!(again.json()["errors"]["iface"], "interface already exists");
    let list = client.call("GET", "/nodes/pve1/network", Value::Null).await.json();
    assert!(list["changes"].as_str().unwrap().contains("+iface vmbr7"));
    client.call("POST", "/nodes/pve1/qemu", json!({"vmid": 100, "net0": "virtio,bridge=vmbr7"})).await.data();
    client.clock.sleep(std::time::Duration::from_secs(5)).await;
    let start = "/nodes/pve1/qemu/100/status/start";
    assert_eq!(client.done("POST", start, json!({})).await, "bridge 'vmbr7' does not exist");
    assert_eq!(client.done("PUT", "/nodes/pve1/network", json!({})).await, "OK");
    assert_eq!(client.done("POST", start, json!({})).await, "OK");
    let row = client.get("/nodes/pve1/network/vmbr7").await;
    assert_eq!(
        (&row["address"], &row["active"], &row["comments"]),
        (&json!("10.7.0.1"), &json!(1), &json!("lab\n"))
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_never_recorded_follows_from_the_servers_own_rules() {
    let (_lab, client, _) = lab();
    let vms = "/nodes/pve1/qemu";
    client.call("POST", "/pools", json!({"poolid": "k8s"})).await.data();
    let made = json!({"vmid": 100, "pool": "k8s", "description": "two\nlines\n", "efidisk0": "local-lvm:1"});
    assert_eq!(client.done("POST", vms, made).await, "OK");
    let config = client.get(&format!("{vms}/100/config")).await;
    assert_eq!(config["description"], "two\nlines");
    assert!(config["efidisk0"].as_str().unwrap().ends_with("size=128K"), "{config}");
    let full = client.call("DELETE", "/pools?poolid=k8s", Value::Null).await;
    assert_eq!(full.reason, "delete pool failed: pool 'k8s' is not empty (contains VM 100)");
    let model = client.call("PUT", &format!("{vms}/100/config"), json!({"cpu": "nosuch"})).await.json();
    let words = "invalid format - Built-in cputype 'nosuch' is not defined (missing 'custom-' prefix?)\n";
    assert_eq!(model["errors"]["cpu"], words);
    let nowhere = client.call("POST", &format!("{vms}/100/migrate"), json!({"target": "pve9"})).await;
    assert_eq!((nowhere.status, nowhere.reason.as_str()), (500, "no such cluster node 'pve9'"));

    let bridge = json!({"iface": "vmbr7", "type": "bridge", "cidr": "10.7.0.1"});
    let mask = client.call("POST", "/nodes/pve1/network", bridge).await.json();
    assert_eq!(
        mask["errors"]["cidr"],
        "invalid format - value does not look like a valid IPv4 CIDR network\n"
    );
    let list = json!({"path": "/vms", "roles": "PVEAdmin", "tokens": "root@pam!none"});
    let token = client.call("PUT", "/access/acl", list).await;
    assert_eq!(token.reason, "ACL update failed: no such token 'none' for user 'root@pam'");

    // A firewall is a file of its own, and an option without a value is lost when its file is read again.
    client.call("PUT", &format!("{vms}/999/firewall/options"), json!({"enable": 1})).await.data();
    let realm = json!({"realm": "sso", "type": "openid", "issuer-url": "https://sso", "client-id": "x", "scopes": ""});
    client.call("POST", "/access/domains", realm).await.data();
    assert_eq!(client.get("/access/domains/sso").await.get("scopes"), None);
}
