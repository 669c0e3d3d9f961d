//! Identities are proved with rustls itself: both sides of a real handshake, in memory.

use std::sync::Arc;

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    server::WebPkiClientVerifier,
};

use super::*;
use crate::golden;
use crate::secrets::{Bundle, kubernetes_admin, talos_client};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn now() -> Timestamp {
    Timestamp::try_from(std::time::UNIX_EPOCH + Duration::from_secs(1_800_000_000)).unwrap()
}

/// The time of the handshake, not that of the machine which runs the test.
#[derive(Debug)]
struct At(Timestamp);

impl rustls::time_provider::TimeProvider for At {
    fn current_time(&self) -> Option<rustls_pki_types::UnixTime> {
        Some(rustls_pki_types::UnixTime::since_unix_epoch(Duration::from_secs(
            self.0.as_second().try_into().ok()?,
        )))
    }
}

fn handshake(server: &Identity, client: &Identity, name: &str, at: Timestamp) -> Result<(), rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let roots = |identity: &Identity| {
        let mut roots = RootCertStore::empty();
        roots.add(identity.ca_der()).unwrap();
        Arc::new(roots)
    };
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots(server), provider.clone()).build().unwrap();
    let server_config = ServerConfig::builder_with_details(provider.clone(), Arc::new(At(at)))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![server.certificate_der().clone()], server.key_der())?;
    let client_config = ClientConfig::builder_with_details(provider, Arc::new(At(at)))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(client))
        .with_client_auth_cert(vec![client.certificate_der().clone()], client.key_der())?;
    let mut server = ServerConnection::new(Arc::new(server_config))?;
    let mut client = ClientConnection::new(Arc::new(client_config), name.to_owned().try_into().unwrap())?;
    while server.is_handshaking() || client.is_handshaking() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut bytes.as_slice()).unwrap();
        server.process_new_packets()?;
        let mut bytes = Vec::new();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut bytes.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok(())
}

#[test]
fn an_authority_that_talos_made_serves_both_sides_of_mutual_tls() {
    let bundle = golden::bundle();
    let names = ["cp-1".to_owned(), "10.25.150.11".to_owned()];
    for (pair, client) in [
        (bundle.os(), talos_client(&bundle, ADMIN, DAY, now()).unwrap()),
        (bundle.kubernetes(), kubernetes_admin(&bundle, DAY, now()).unwrap()),
    ] {
        let authority = Authority::from_pem(&pair.certificate, pair.key.expose()).unwrap();
        let server = authority.issue_server("cp-1", &names, DAY, now()).unwrap();
        handshake(&server, &client, "10.25.150.11", now()).unwrap();
        handshake(&server, &client, "cp-1", now()).unwrap();
        assert!(handshake(&server, &client, "10.25.150.12", now()).is_err());
        assert!(handshake(&server, &client, "cp-1", now() + 2 * DAY).is_err());
    }
}

#[test]
fn a_client_of_another_authority_is_refused() {
    let bundle = golden::bundle();
    let authority = Authority::ephemeral(now()).unwrap();
    let server = authority.issue_server(MAINTENANCE_NAME, &["127.0.0.1".to_owned()], DAY, now()).unwrap();
    let foreign = talos_client(&bundle, ADMIN, DAY, now()).unwrap();
    assert!(handshake(&server, &foreign, "127.0.0.1", now()).is_err());
}

#[test]
fn a_client_certificate_says_what_talos_looks_for() {
    let bundle = golden::bundle();
    let identity = talos_client(&bundle, ADMIN, DAY, now()).unwrap();
    let leaf = Leaf::read(identity.certificate_der()).unwrap();
    assert_eq!(leaf.organizations, [ADMIN]);
    assert_eq!(
        (leaf.common_name.as_deref(), leaf.issuer_organizations.as_slice()),
        (None, &["talos".to_owned()][..])
    );
    assert!(leaf.only_client);
    assert!(leaf.valid_at(now() - BACKDATED) && !leaf.valid_at(now() - BACKDATED - Duration::from_secs(1)));
    assert!(leaf.valid_at(now() + DAY) && !leaf.valid_at(now() + DAY + Duration::from_secs(1)));
    assert!(identity.key_pem().expose().starts_with("-----BEGIN ED25519 PRIVATE KEY-----"));
    assert!(!format!("{identity:?}").contains("PRIVATE"));

    let admin = Leaf::read(kubernetes_admin(&bundle, DAY, now()).unwrap().certificate_der()).unwrap();
    assert_eq!(
        (admin.common_name.as_deref(), admin.organizations.as_slice()),
        (Some("admin"), &["system:masters".to_owned()][..])
    );
}

#[test]
fn a_maintenance_certificate_looks_like_that_of_a_node() {
    let authority = Authority::ephemeral(now()).unwrap();
    let names = ["talos-abc".to_owned(), "10.0.0.5".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let identity = authority.issue_server(MAINTENANCE_NAME, &names, DAY, now()).unwrap();
    let leaf = Leaf::read(identity.certificate_der()).unwrap();
    assert_eq!(leaf.common_name.as_deref(), Some(MAINTENANCE_NAME));
    assert_eq!((leaf.names.as_slice(), leaf.issuer_organizations.len()), (&names[..], 0));
    assert_eq!((leaf.fingerprint.len(), leaf.only_client), (44, false));
}

#[test]
fn an_authority_that_is_not_sound_is_refused() {
    let bundle = golden::bundle();
    let (os, etcd) = (bundle.os(), bundle.etcd());
    assert!(matches!(Authority::from_pem("x", os.key.expose()), Err(PkiError::Certificate)));
    assert!(matches!(Authority::from_pem(&os.certificate, "x"), Err(PkiError::Key)));
    assert!(matches!(Authority::from_pem(&os.certificate, etcd.key.expose()), Err(PkiError::Mismatch)));
}

#[test]
fn the_files_for_people_name_the_cluster_and_carry_the_identity() {
    let bundle = golden::bundle();
    let talos = talos_client(&bundle, ADMIN, DAY, now()).unwrap();
    let text = talosconfig("home", &["10.0.0.1".to_owned()], &[], &talos);
    let crate::yaml::Value::Map(file) = crate::yaml::read(&text).unwrap().remove(0) else { panic!("{text}") };
    assert_eq!(file.text("context"), Some("home"));
    assert_eq!(file.texts("contexts.home.endpoints"), ["10.0.0.1"]);
    assert!(file.text("contexts.home.key").is_some_and(|key| key.starts_with("LS0tLS1CRUdJTiBFRDI1NTE5")));

    let admin = kubernetes_admin(&bundle, DAY, now()).unwrap();
    let text = kubeconfig("home", "https://10.0.0.10:6443", &admin);
    let crate::yaml::Value::Map(file) = crate::yaml::read(&text).unwrap().remove(0) else { panic!("{text}") };
    assert_eq!(file.text("current-context"), Some("admin@home"));
    let clusters = file.get("clusters").and_then(crate::config::Value::as_list).unwrap();
    assert_eq!(clusters[0].as_map().unwrap().text("cluster.server"), Some("https://10.0.0.10:6443"));
}

#[test]
#[ignore = "needs openssl: conformance/openssl/run"]
fn certificates_verify_with_openssl() {
    let openssl = |words: &[&str]| std::process::Command::new("openssl").args(words).output();
    let bundle = Bundle::placeholder(crate::contract::NEWEST, now()).unwrap();
    let folder = std::env::temp_dir().join(format!("talos-pki-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let at = now().as_second().to_string();
    let talos = talos_client(&bundle, ADMIN, DAY, now()).unwrap();
    let admin = kubernetes_admin(&bundle, DAY, now()).unwrap();
    for (identity, purpose) in [(&talos, "sslclient"), (&admin, "sslclient")] {
        std::fs::write(path("ca"), identity.ca_pem()).unwrap();
        std::fs::write(path("leaf"), identity.certificate_pem()).unwrap();
        let words = ["verify", "-attime", &at, "-purpose", purpose, "-CAfile", &path("ca"), &path("leaf")];
        let output = openssl(&words).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // A certificate that may only ask must not serve.
        let words =
            ["verify", "-attime", &at, "-purpose", "sslserver", "-CAfile", &path("ca"), &path("leaf")];
        assert!(!openssl(&words).unwrap().status.success());
    }
    for pair in [bundle.os(), bundle.kubernetes(), bundle.etcd(), &bundle.aggregator] {
        std::fs::write(path("ca"), &pair.certificate).unwrap();
        let words = ["verify", "-attime", &at, "-CAfile", &path("ca"), &path("ca")];
        let output = openssl(&words).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    std::fs::write(path("key"), bundle.kubernetes().key.expose()).unwrap();
    assert!(openssl(&["pkey", "-noout", "-in", &path("key")]).unwrap().status.success());
    std::fs::remove_dir_all(&folder).unwrap();
}
