//! What is special to one machine: its name, and how its network card is configured.
//!
//! The card is found by its MAC address, never by a name that a kernel gives. From contract 1.12 on these are documents of
//! their own, before they are fields of `machine.network`.

use std::collections::BTreeMap;

use super::{Contract, Documents, Map, Value, documents::document, map};

/// The alias under which the card is known in the documents.
const LINK: &str = "net0";

/// Name and network of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInput {
    /// The host name.
    pub hostname: String,
    /// The MAC address of the network card.
    pub mac: String,
    /// The static address with its prefix length. Without one the machine asks DHCP.
    pub address: Option<String>,
    /// The default gateway.
    pub gateway: Option<String>,
    /// DNS servers; without any, what the platform or DHCP says.
    pub nameservers: Vec<String>,
    /// Time servers; without any, Talos' default.
    pub time_servers: Vec<String>,
    /// The MTU, where it is not the usual one.
    pub mtu: Option<u16>,
    /// The address that the control planes share. Only they hold it: on a worker it is not written.
    pub vip: Option<String>,
    /// Kubernetes labels of the node, added to those that every machine of its role has.
    pub labels: BTreeMap<String, String>,
}

/// Adds a machine's name and network to its configuration, in the form of the contract that it was generated with.
pub fn apply_node(documents: &mut Documents, contract: Contract, node: &NodeInput) {
    let is_control_plane =
        documents.v1alpha1().and_then(|document| document.text("machine.type")) == Some("controlplane");
    let vip = node.vip.as_deref().filter(|_| is_control_plane);
    if contract.network_documents() {
        add_documents(documents, node, vip);
    } else if let Some(document) = documents.v1alpha1_mut() {
        set_fields(document.map_mut("machine"), node, vip);
    }
    add_labels(documents, contract, node);
}

fn add_labels(documents: &mut Documents, contract: Contract, node: &NodeInput) {
    if node.labels.is_empty() {
        return;
    }
    let labels = if contract.kubernetes_documents() {
        documents.kind_mut("KubeNodeConfig").map_mut("labels")
    } else {
        match documents.v1alpha1_mut() {
            Some(document) => document.map_mut("machine").map_mut("nodeLabels"),
            None => return,
        }
    };
    for (key, value) in &node.labels {
        labels.insert(key, value.as_str());
    }
}

fn add_documents(documents: &mut Documents, node: &NodeInput, vip: Option<&str>) {
    let hostname = documents.kind_mut("HostnameConfig");
    hostname.insert("auto", "off");
    hostname.insert("hostname", node.hostname.as_str());

    let selector = format!("mac(link.permanent_addr) == \"{}\"", node.mac.to_ascii_lowercase());
    let alias = document("LinkAliasConfig").with("name", LINK);
    documents.push(alias.with("selector", map([("match", selector.into())])));
    let link = document("LinkConfig").with("name", LINK).with("up", true).with_some("mtu", node.mtu);
    match &node.address {
        Some(address) => {
            let address = map([("address", address.as_str().into())]);
            let route = node.gateway.as_deref().map(|gateway| map([("gateway", gateway.into())]));
            documents.push(
                link.with("addresses", Value::List(vec![address.into()]))
                    .with_some("routes", route.map(|route| Value::List(vec![route.into()]))),
            );
        }
        None => {
            documents.push(link);
            documents.push(document("DHCPv4Config").with("name", LINK));
        }
    }
    if let Some(vip) = vip {
        documents.push(document("Layer2VIPConfig").with("name", vip).with("link", LINK));
    }
    if !node.nameservers.is_empty() {
        let servers = node.nameservers.iter().map(|server| map([("address", server.as_str().into())]).into());
        documents.kind_mut("ResolverConfig").insert("nameservers", Value::List(servers.collect()));
    }
    if !node.time_servers.is_empty() {
        let ntp = map([("servers", Value::texts(&node.time_servers))]);
        documents.kind_mut("TimeSyncConfig").insert("ntp", ntp);
    }
}

fn set_fields(machine: &mut Map, node: &NodeInput, vip: Option<&str>) {
    let selector = map([("hardwareAddr", node.mac.to_ascii_lowercase().into())]);
    let interface = map([("deviceSelector", selector.into())]);
    let interface = match &node.address {
        Some(address) => {
            let route = node.gateway.as_deref().map(|gateway| {
                let everywhere = if gateway.contains(':') { "::/0" } else { "0.0.0.0/0" };
                Value::List(vec![map([("network", everywhere.into()), ("gateway", gateway.into())]).into()])
            });
            interface.with("addresses", Value::List(vec![address.as_str().into()])).with_some("routes", route)
        }
        None => interface.with("dhcp", true),
    };
    let interface = interface
        .with_some("mtu", node.mtu)
        .with_some("vip", vip.map(|address| map([("ip", address.into())])));
    let network = machine.map_mut("network");
    network.insert("hostname", node.hostname.as_str());
    network.insert("interfaces", Value::List(vec![interface.into()]));
    if !node.nameservers.is_empty() {
        network.insert("nameservers", Value::texts(&node.nameservers));
    }
    if !node.time_servers.is_empty() {
        machine.map_mut("time").insert("servers", Value::texts(&node.time_servers));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeInput {
        NodeInput {
            hostname: "cp-1".to_owned(),
            mac: "BC:24:11:00:00:01".to_owned(),
            address: Some("10.25.150.11/24".to_owned()),
            gateway: Some("10.25.150.1".to_owned()),
            nameservers: vec!["1.1.1.1".to_owned()],
            time_servers: vec!["10.25.150.1".to_owned()],
            mtu: Some(1450),
            vip: Some("10.25.150.10".to_owned()),
            labels: [("zone".to_owned(), "attic".to_owned())].into(),
        }
    }

    fn machine(kind: &str) -> Documents {
        Documents::parse(&format!(
            "version: v1alpha1\nmachine:\n    type: {kind}\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nauto: stable\n"
        ))
        .unwrap()
    }

    #[test]
    fn documents_name_the_card_by_its_mac() {
        let mut documents = machine("controlplane");
        apply_node(&mut documents, Contract::parse("v1.13").unwrap(), &node());
        let expected = r#"version: v1alpha1
machine: {type: controlplane, nodeLabels: {zone: attic}}
---
{apiVersion: v1alpha1, kind: HostnameConfig, auto: "off", hostname: cp-1}
---
apiVersion: v1alpha1
kind: LinkAliasConfig
name: net0
selector:
    match: mac(link.permanent_addr) == "bc:24:11:00:00:01"
---
apiVersion: v1alpha1
kind: LinkConfig
name: net0
up: true
mtu: 1450
addresses: [{address: 10.25.150.11/24}]
routes: [{gateway: 10.25.150.1}]
---
{apiVersion: v1alpha1, kind: Layer2VIPConfig, name: 10.25.150.10, link: net0}
---
{apiVersion: v1alpha1, kind: ResolverConfig, nameservers: [{address: 1.1.1.1}]}
---
{apiVersion: v1alpha1, kind: TimeSyncConfig, ntp: {servers: [10.25.150.1]}}
"#;
        assert_eq!(documents.to_yaml(), Documents::parse(expected).unwrap().to_yaml());
    }

    #[test]
    fn before_1_12_they_are_fields_of_the_machine() {
        let mut documents =
            Documents::parse("version: v1alpha1\nmachine: {type: controlplane, network: {}}\n").unwrap();
        apply_node(&mut documents, Contract::parse("v1.11").unwrap(), &node());
        let expected = r"version: v1alpha1
machine:
    type: controlplane
    network:
        hostname: cp-1
        interfaces:
            - deviceSelector: {hardwareAddr: 'bc:24:11:00:00:01'}
              addresses: [10.25.150.11/24]
              routes: [{network: 0.0.0.0/0, gateway: 10.25.150.1}]
              mtu: 1450
              vip: {ip: 10.25.150.10}
        nameservers: [1.1.1.1]
    time: {servers: [10.25.150.1]}
    nodeLabels: {zone: attic}
";
        assert_eq!(documents.to_yaml(), Documents::parse(expected).unwrap().to_yaml());
    }

    #[test]
    fn a_worker_holds_no_shared_address_and_dhcp_is_asked_without_one_of_its_own() {
        let mut documents = machine("worker");
        let node = NodeInput { address: None, ..node() };
        apply_node(&mut documents, Contract::parse("v1.14").unwrap(), &node);
        assert!(documents.kind("Layer2VIPConfig").is_none());
        assert_eq!(documents.kind("DHCPv4Config").unwrap().text("name"), Some("net0"));
        assert!(documents.kind("LinkConfig").unwrap().get("addresses").is_none());
        assert_eq!(documents.kind("KubeNodeConfig").unwrap().text("labels.zone"), Some("attic"));
    }
}
