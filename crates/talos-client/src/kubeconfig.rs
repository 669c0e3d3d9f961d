//! The archive in which a machine hands out a kubeconfig.
//!
//! It is a gzipped tar of one file, without the padding and the end blocks that a tar has: other programs stop with
//! "unexpected end". So exactly one entry is read, by hand.

use std::io::Read as _;

use flate2::read::GzDecoder;
use secrecy::SecretString;

/// A kubeconfig is a few kilobytes; anything beyond this is not one.
const LIMIT: u64 = 4 << 20;
const HEADER: usize = 512;
const SIZE_FIELD: std::ops::Range<usize> = 124..136;

/// The content of the one file in the archive, or what is wrong with it.
pub(crate) fn unpack(archive: &[u8]) -> Result<SecretString, &'static str> {
    let mut tar = Vec::new();
    GzDecoder::new(archive).take(LIMIT).read_to_end(&mut tar).map_err(|_| "the archive is not gzip")?;
    let header = tar.get(..HEADER).ok_or("the archive is too short")?;
    let size = header.get(SIZE_FIELD).and_then(octal).ok_or("the archive's header is broken")?;
    let content = tar.get(HEADER..).and_then(|rest| rest.get(..size)).ok_or("the archive is cut off")?;
    let text = std::str::from_utf8(content).map_err(|_| "the file in the archive is not text")?;
    Ok(SecretString::from(text.to_owned()))
}

fn octal(field: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    usize::from_str_radix(text, 8).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;

    use secrecy::ExposeSecret as _;

    use super::*;

    /// An archive as Talos makes it: one header, the content, nothing after it.
    pub(crate) fn pack(content: &str) -> Vec<u8> {
        let mut tar = vec![0_u8; HEADER];
        tar[..10].copy_from_slice(b"kubeconfig");
        tar[SIZE_FIELD].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
        tar.extend_from_slice(content.as_bytes());
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn a_tar_without_padding_is_read() {
        let content = "apiVersion: v1\nkind: Config\n";
        assert_eq!(unpack(&pack(content)).unwrap().expose_secret(), content);
    }

    #[test]
    fn broken_archives_are_named() {
        assert!(unpack(b"").is_err());
        assert!(unpack(b"not gzip").is_err());
        let whole = pack("some content that is long enough to be cut off");
        assert!(unpack(&whole[..whole.len() / 2]).is_err());
    }
}
