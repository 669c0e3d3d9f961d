//! Any answer of a server to every reading call: a value or an error with words, never a panic, and never a wait without
//! end. The first byte chooses the status.

#![no_main]

use std::convert::Infallible;
use std::sync::OnceLock;

use ambient::Clock;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;
use pve::{Client, Upid};
use tokio::runtime::Runtime;

const STATUSES: [u16; 8] = [200, 200, 200, 400, 401, 403, 500, 596];
const TASK: &str = "UPID:pve1:0000013C:0005D8F3:6AFA15BC:qmcreate:200:root@pam!lab:";

fuzz_target!(|data: &[u8]| {
    let Some((first, body)) = data.split_first() else { return };
    let status = STATUSES[usize::from(*first) % STATUSES.len()];
    let body = Bytes::copy_from_slice(body);
    let service = tower::service_fn(move |_: Request<Full<Bytes>>| {
        let answer = Response::builder().status(status).body(Full::new(body.clone()));
        async move { Ok::<_, Infallible>(answer.expect("an answer")) }
    });
    let token = "a@pve!b=00000000-0000-0000-0000-000000000000".parse().expect("a token");
    let client = Client::over(service, &token, Clock::real());
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime")
    });
    runtime.block_on(read_everything(&client));
});

async fn read_everything(client: &Client) {
    let task: Upid = TASK.parse().expect("a task id");
    words(client.version().await);
    words(client.cluster_resources().await);
    words(client.cluster_status().await);
    words(client.nodes().await);
    words(client.node_networks("pve1").await);
    words(client.permissions().await);
    words(client.node_storages("pve1").await);
    words(client.storage_content("pve1", "local", "import").await);
    words(client.pools().await);
    words(client.pci_mappings(Some("pve1")).await);
    words(client.task_status(&task).await);
    words(client.task_log(&task, 0).await);
    words(client.vm_status("pve1", 200).await);
    words(client.agent_interfaces("pve1", 200).await);
    words(client.start("pve1", 200).await);
    if let Some(config) = words(client.vm_config("pve1", 200).await) {
        let _ = (config.description(), config.lock(), config.tags(), config.smbios_uuid(), config.mac(0));
        let _ = config.drives().count();
    }
}

/// The value; an error must say something.
fn words<T>(result: pve::Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let _ = (error.hint(), error.is_transient(), error.effect_unknown());
            None
        }
    }
}
