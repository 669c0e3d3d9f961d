//! Storages: what a node has, what is in it, and fetching an image into it.

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::client::{Call, Client};
use crate::error::{Kind, Result};
use crate::percent::encode;
use crate::scalar;
use crate::upid::Upid;

/// A storage as one node sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Storage {
    /// Its name.
    pub storage: String,
    /// `dir`, `lvmthin`, `zfspool`, `rbd`, …
    #[serde(default, rename = "type", deserialize_with = "scalar::text")]
    pub kind: Option<String>,
    /// What it may hold: `images`, `import`, `iso`, …
    #[serde(default, deserialize_with = "scalar::list")]
    pub content: Vec<String>,
    /// Whether it answers.
    #[serde(default, deserialize_with = "scalar::flag")]
    pub active: bool,
    /// Whether it is switched on.
    #[serde(default, deserialize_with = "scalar::flag")]
    pub enabled: bool,
    /// Whether all nodes see the same.
    #[serde(default, deserialize_with = "scalar::flag")]
    pub shared: bool,
    /// Bytes in all.
    #[serde(default, deserialize_with = "scalar::number")]
    pub total: Option<u64>,
    /// Bytes in use.
    #[serde(default, deserialize_with = "scalar::number")]
    pub used: Option<u64>,
    /// Bytes free.
    #[serde(default, deserialize_with = "scalar::number")]
    pub avail: Option<u64>,
}

/// A storage as the cluster defines it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StorageDefinition {
    /// Its name.
    pub storage: String,
    /// `dir`, `lvmthin`, `zfspool`, `rbd`, …
    #[serde(default, rename = "type", deserialize_with = "scalar::text")]
    pub kind: Option<String>,
    /// What it may hold.
    #[serde(default, deserialize_with = "scalar::list")]
    pub content: Vec<String>,
    /// The state of the file that it was read from.
    #[serde(default, deserialize_with = "scalar::text")]
    pub digest: Option<String>,
}

/// A volume in a storage.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Content {
    /// Its full name, such as `local:import/talos.qcow2`.
    pub volid: String,
    /// `images`, `import`, `iso`, …
    #[serde(default, deserialize_with = "scalar::text")]
    pub content: Option<String>,
    /// `qcow2`, `raw`, …
    #[serde(default, deserialize_with = "scalar::text")]
    pub format: Option<String>,
    /// Its size in bytes.
    #[serde(default, deserialize_with = "scalar::number")]
    pub size: Option<u64>,
    /// The machine that owns it.
    #[serde(default, deserialize_with = "scalar::number")]
    pub vmid: Option<u64>,
}

/// A file that a node fetches for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownloadUrl {
    /// From where.
    pub url: String,
    /// The file's name in the storage. Proxmox turns odd characters into `_`.
    pub filename: String,
    /// What it is: `import` or `iso`.
    pub content: String,
    /// What it must hash to.
    pub checksum: Option<Checksum>,
    /// Whether the server's certificate is checked.
    pub verify_certificates: bool,
}

/// A hash of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    /// `sha256`, `sha512`, …
    pub algorithm: String,
    /// In hexadecimal.
    pub hex: String,
}

/// What a node finds at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlAnswer {
    /// A file.
    There {
        /// Its size in bytes, where the server tells.
        size: Option<u64>,
    },
    /// Something else than a file, or no connection: then `text` starts with `Can't connect`.
    Refused {
        /// The status; 500 without a connection.
        status: u16,
        /// The server's words, or the node's.
        text: String,
    },
}

#[derive(Deserialize)]
struct WireUrl {
    #[serde(default, deserialize_with = "scalar::number")]
    size: Option<u64>,
}

/// A file that is sent to a node.
#[derive(Debug, Clone)]
pub struct Upload {
    /// The file's name in the storage.
    pub filename: String,
    /// What it is: `import` or `iso`.
    pub content: String,
    /// What it must hash to.
    pub checksum: Option<Checksum>,
    /// The file.
    pub bytes: Bytes,
}

impl Upload {
    /// The form, with its fields in the one order that Proxmox reads.
    fn form(&self, boundary: &str) -> Bytes {
        let mut form = Vec::with_capacity(self.bytes.len() + 1024);
        let mut field = |name: &str, value: &str| {
            let text =
                format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
            form.extend_from_slice(text.as_bytes());
        };
        field("content", &self.content);
        if let Some(checksum) = &self.checksum {
            field("checksum-algorithm", &checksum.algorithm);
            field("checksum", &checksum.hex);
        }
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"{}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n",
            self.filename.replace('"', "_")
        );
        form.extend_from_slice(head.as_bytes());
        form.extend_from_slice(&self.bytes);
        form.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        form.into()
    }
}

impl Client {
    /// Sends a file to a node. A file of that name is replaced.
    ///
    /// # Errors
    ///
    /// As any call; needs `Datastore.AllocateTemplate` on the storage.
    pub async fn upload(&self, node: &str, storage: &str, file: &Upload) -> Result<Upid> {
        let path = format!("/nodes/{}/storage/{}/upload", encode(node), encode(storage));
        let attempt = format!("uploading {} into storage {storage} of {node}", file.filename);
        // The hash of the file cannot stand in the file, so it makes a good border.
        let boundary = format!("talosmith-{}", fingerprint(&file.bytes));
        let body = file.form(&boundary);
        let call = Call::change(Method::POST, node, attempt, path);
        self.task(call.body(format!("multipart/form-data; boundary={boundary}"), body)).await
    }

    /// The storages that the cluster defines, as far as the caller may see them.
    pub async fn storage_definitions(&self) -> Result<Vec<StorageDefinition>> {
        self.call(Call::get("listing the storages of the cluster", "/storage")).await
    }

    /// Says again what a storage may hold, unless the storages changed since the definition was read.
    ///
    /// # Errors
    ///
    /// As any call; needs `Datastore.Allocate` on `/storage`.
    pub async fn set_content(&self, storage: &StorageDefinition, content: &[String]) -> Result<()> {
        let name = &storage.storage;
        let path = format!("/storage/{}", encode(name));
        let mut call = Call::change_all(Method::PUT, format!("changing what storage {name} may hold"), path);
        if let Some(digest) = &storage.digest {
            call = call.with("digest", digest);
        }
        let _: serde_json::Value = self.call(call.with("content", content.join(","))).await?;
        Ok(())
    }

    /// The storages of a node that the token may see.
    pub async fn node_storages(&self, node: &str) -> Result<Vec<Storage>> {
        let path = format!("/nodes/{}/storage", encode(node));
        self.call(Call::get(format!("listing the storages of {node}"), path)).await
    }

    /// The volumes of one content type in a storage.
    pub async fn storage_content(&self, node: &str, storage: &str, content: &str) -> Result<Vec<Content>> {
        let path = format!("/nodes/{}/storage/{}/content", encode(node), encode(storage));
        let attempt = format!("listing {content} in storage {storage} of {node}");
        self.call(Call::get(attempt, path).with("content", content)).await
    }

    /// Has a node fetch a file. When the file is there already the task fails, unless a checksum is given and fits.
    ///
    /// # Errors
    ///
    /// As any call; needs `Datastore.AllocateTemplate` on the storage and `Sys.AccessNetwork` on the node.
    pub async fn download_url(&self, node: &str, storage: &str, file: &DownloadUrl) -> Result<Upid> {
        let path = format!("/nodes/{}/storage/{}/download-url", encode(node), encode(storage));
        let attempt = format!("downloading {} into storage {storage} of {node}", file.filename);
        let mut call = Call::change(Method::POST, node, attempt, path)
            .with("url", &file.url)
            .with("filename", &file.filename)
            .with("content", &file.content)
            .with("verify-certificates", u8::from(file.verify_certificates));
        if let Some(checksum) = &file.checksum {
            call = call.with("checksum", &checksum.hex).with("checksum-algorithm", &checksum.algorithm);
        }
        self.task(call).await
    }

    /// Has a node look at an address, as before a download.
    ///
    /// # Errors
    ///
    /// As any call; needs `Sys.AccessNetwork` on the node. That there is nothing is an answer.
    pub async fn query_url(&self, node: &str, url: &str) -> Result<UrlAnswer> {
        let path = format!("/nodes/{}/query-url-metadata", encode(node));
        let call = Call::get(format!("looking at {url} from {node}"), path).with("url", url);
        match self.call::<WireUrl>(call).await {
            Ok(there) => Ok(UrlAnswer::There { size: there.size }),
            Err(error) => match error.kind() {
                Kind::Refused { text, .. } => refused(text).ok_or(error),
                _ => Err(error),
            },
        }
    }
}

/// The status line in `invalid server response: '404 Not Found'`.
fn refused(text: &str) -> Option<UrlAnswer> {
    let line = text.trim().strip_prefix("invalid server response: '")?.strip_suffix('\'')?;
    let (status, text) = line.split_once(' ').unwrap_or((line, ""));
    Some(UrlAnswer::Refused { status: status.parse().ok()?, text: text.to_owned() })
}

/// Enough of the file's hash to be its own.
fn fingerprint(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}
