//! The administrator's kubeconfig as the API streams it: a gzip of a tar that lacks its padding and its end, as observed.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use talos::pki::{Authority, kubeconfig};

use crate::machine::Node;

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The archive for a control plane; `None` when its configuration carries no sound authority.
pub(super) fn archive(node: &Node, now: Timestamp) -> Option<Vec<u8>> {
    let ca = &node.settings.cluster_ca;
    let authority = Authority::from_pem(&ca.crt, ca.key.as_deref()?).ok()?;
    let since = now.checked_sub(Duration::from_secs(10)).ok()?;
    let identity = authority.issue_client(Some("admin"), "system:masters", YEAR, since).ok()?;
    let text = kubeconfig(&node.settings.cluster_name, &node.settings.endpoint, &identity);
    let mut gzip = GzEncoder::new(vec![], Compression::default());
    gzip.write_all(&header("kubeconfig", text.len(), b'0', "", now)).ok()?;
    gzip.write_all(text.as_bytes()).ok()?;
    gzip.finish().ok()
}

/// A tar header: `kind` is `0` for a file, `2` for a link, `5` for a folder. A name that is too long is cut.
pub(super) fn header(name: &str, size: usize, kind: u8, link: &str, now: Timestamp) -> [u8; 512] {
    let mut block = [0; 512];
    let mode = if kind == b'5' { "0000755\0" } else { "0000600\0" };
    let fields = [
        (0, name.chars().take(100).collect()),
        (100, mode.to_owned()),
        (108, "0000000\0".to_owned()),
        (116, "0000000\0".to_owned()),
        (124, format!("{size:011o}\0")),
        (136, format!("{:011o}\0", now.as_second())),
        (148, "        ".to_owned()),
        (156, char::from(kind).to_string()),
        (157, link.chars().take(100).collect()),
        (257, "ustar\x0000".to_owned()),
    ];
    for (offset, text) in fields {
        let bytes = text.as_bytes();
        block[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}
