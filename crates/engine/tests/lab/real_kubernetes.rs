//! A real kube-apiserver with its etcd, on loopback, for as long as a test runs.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ambient::Clock;
use engine::kubernetes::Kubernetes;
use talos::pki::Authority;

use crate::rig::bundle;

pub struct RealKubernetes {
    pub endpoint: String,
    processes: Vec<Child>,
    folder: tempfile::TempDir,
}

/// The path of a program that the caller must have named in the environment.
fn program(variable: &str) -> PathBuf {
    std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} is not set")).into()
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn spawn(program: &Path, folder: &Path, arguments: &[String]) -> Child {
    let name = program.file_name().unwrap().to_string_lossy().into_owned();
    let log = fs::File::create(folder.join(format!("{name}.log"))).unwrap();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().unwrap_or_else(|e| panic!("{}: {e}", program.display()))
}

impl RealKubernetes {
    pub async fn start(clock: &Clock) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let bundle = bundle();
        let pair = bundle.kubernetes();
        let authority = Authority::from_pem(&pair.certificate, pair.key.expose()).unwrap();
        let day = Duration::from_secs(24 * 3600);
        let server =
            authority.issue_server("kube-apiserver", &["127.0.0.1".to_owned()], day, clock.now()).unwrap();
        fs::write(path("ca.crt"), &pair.certificate).unwrap();
        fs::write(path("server.crt"), server.certificate_pem()).unwrap();
        fs::write(path("server.key"), server.key_pem().expose()).unwrap();
        fs::write(path("accounts.key"), pair.key.expose()).unwrap();
        let [clients, peers, api] = [free_port(), free_port(), free_port()];
        let (clients, peers) = (format!("http://127.0.0.1:{clients}"), format!("http://127.0.0.1:{peers}"));
        let etcd = [
            format!("--data-dir={}", path("etcd")),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=default={peers}"),
            "--unsafe-no-fsync=true".to_owned(),
        ];
        let apiserver = [
            format!("--etcd-servers={clients}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={api}"),
            format!("--tls-cert-file={}", path("server.crt")),
            format!("--tls-private-key-file={}", path("server.key")),
            format!("--client-ca-file={}", path("ca.crt")),
            format!("--service-account-key-file={}", path("accounts.key")),
            format!("--service-account-signing-key-file={}", path("accounts.key")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/24".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            // Accounts are made by a controller, and none runs here.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ];
        let processes = vec![
            spawn(&program("TALOSMITH_ETCD"), folder.path(), &etcd),
            spawn(&program("TALOSMITH_KUBE_APISERVER"), folder.path(), &apiserver),
        ];
        Self { endpoint: format!("https://127.0.0.1:{api}"), processes, folder }
    }

    pub async fn wait_until_up(&self, kubernetes: &Kubernetes, clock: &Clock) {
        for _ in 0..120 {
            if kubernetes.nodes().await.is_ok() {
                return;
            }
            clock.sleep(Duration::from_millis(500)).await;
        }
        let log = fs::read_to_string(self.folder.path().join("kube-apiserver.log")).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(20).collect();
        panic!("kube-apiserver did not come up; its last words, newest first:\n{}", last.join("\n"));
    }
}

impl Drop for RealKubernetes {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            // One that ended by itself cannot be killed, and need not be.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
