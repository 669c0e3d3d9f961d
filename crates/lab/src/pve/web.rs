//! Files on web servers of this machine.
//!
//! The hosts of a lab that is served on loopback may download from other servers there, because a person who tries a program
//! against the lab often serves a file of its own. The file is looked at before the call is carried out, so that the world
//! itself stays without IO. Nothing outside of loopback is ever asked.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use ambient::Net;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;

use super::request::Plain;
use super::upload::{ALGORITHMS, digest, disk_bytes, image};
use crate::hypervisor::{Web, WebFile};
use crate::shared::Shared;

/// No file that someone serves for a trial is larger.
const LARGEST: usize = 1 << 30;
const PATIENCE: Duration = Duration::from_secs(120);

/// Looks at the file that a call wants to download, if it is on this machine.
pub(super) async fn look(shared: &Shared, call: &Plain) {
    let downloads = call.path.ends_with("/download-url") || call.path.ends_with("/query-url-metadata");
    let Some(url) = call.params.one("url").filter(|_| downloads && shared.is_served()) else { return };
    let Some((authority, path)) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')) else {
        return;
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().unwrap_or(80)),
        None => (authority, 80),
    };
    if host != "localhost" && !host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()) {
        return;
    }
    let path = format!("/{path}");
    let Ok(Ok(answer)) = shared.clock().timeout(PATIENCE, fetch(host, port, authority, &path)).await else {
        return;
    };
    let base = format!("http://{authority}");
    shared.with_quiet(|world| {
        let web = world.hypervisor.local_web.entry(base.clone()).or_insert_with(|| Web {
            base,
            files: BTreeMap::new(),
            otherwise: "404 Not Found".to_owned(),
        });
        let key = path.split('?').next().unwrap_or(&path).to_owned();
        match answer {
            Ok(file) => drop(web.files.insert(key, file)),
            Err(status) => {
                web.files.remove(&key);
                web.otherwise = status;
            }
        }
    });
}

/// The file, or the status that was answered instead.
async fn fetch(host: &str, port: u16, authority: &str, path: &str) -> io::Result<Result<WebFile, String>> {
    let stream = Net::tcp().dial(host, port).await?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(io::Error::other)?;
    tokio::spawn(connection);
    let request =
        Request::get(path).header("Host", authority).body(Empty::<Bytes>::new()).map_err(io::Error::other)?;
    let answer = sender.send_request(request).await.map_err(io::Error::other)?;
    if !answer.status().is_success() {
        return Ok(Err(answer.status().to_string()));
    }
    let kind = answer.headers().get("Content-Type").and_then(|kind| kind.to_str().ok());
    let mimetype = kind.unwrap_or("application/octet-stream").to_owned();
    let bytes =
        Limited::new(answer.into_body(), LARGEST).collect().await.map_err(io::Error::other)?.to_bytes();
    Ok(Ok(WebFile {
        bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        disk_bytes: disk_bytes(&bytes),
        sums: ALGORITHMS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), digest(name, &bytes)?)))
            .collect(),
        image: Some(image(&bytes).to_owned()),
        mimetype,
    }))
}
