//! A file that comes with a request. The server reads the form with patterns of its own: the fields must come in one
//! order, and the file last.

use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

/// What the lab keeps of an uploaded file: enough to answer about it.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) bytes: u64,
    /// The size of the disk in it, if it is an image with a head that says so.
    pub(crate) disk_bytes: u64,
    /// The checksum with the algorithm that was asked for.
    pub(crate) checksum: Option<String>,
    /// What kind of image it is.
    pub(crate) image: &'static str,
}

/// The boundary of a form with a file.
pub(super) fn boundary(content_type: &str) -> Option<&str> {
    content_type.strip_prefix("multipart/form-data")?.split("boundary=").nth(1).map(str::trim)
}

/// The fields and the file, if they are as the server wants them.
pub(super) fn read(body: &[u8], boundary: &str) -> Option<(Vec<(String, String)>, Upload)> {
    const ORDER: &[&str] = &["content", "checksum-algorithm", "checksum"];
    let mark = format!("--{boundary}\r\n");
    let end = format!("\r\n--{boundary}--");
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut rest = body.strip_prefix(mark.as_bytes())?;
    loop {
        let head_end = find(rest, b"\r\n\r\n")?;
        let head = std::str::from_utf8(rest.get(..head_end)?).ok()?;
        rest = rest.get(head_end + 4..)?;
        let name = quoted(head, "name=\"")?;
        if let Some(file) = quoted(head, "filename=\"") {
            let content = rest.get(..rfind(rest, end.as_bytes())?)?;
            let algorithm = fields.iter().find(|(name, _)| name == "checksum-algorithm");
            let checksum = algorithm.and_then(|(_, name)| digest(name, content));
            fields.push((name.to_owned(), file.to_owned()));
            let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
            return Some((
                fields,
                Upload { bytes, disk_bytes: disk_bytes(content), checksum, image: image(content) },
            ));
        }
        let later = fields.last().and_then(|(last, _)| ORDER.iter().position(|known| known == last));
        let place = ORDER.iter().position(|known| *known == name)?;
        if later.is_some_and(|later| place <= later) {
            return None;
        }
        let stop = format!("\r\n{mark}");
        let length = find(rest, stop.as_bytes())?;
        let value = std::str::from_utf8(rest.get(..length)?).ok()?;
        fields.push((name.to_owned(), value.to_owned()));
        rest = rest.get(length + stop.len()..)?;
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn rfind(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).rposition(|window| window == part)
}

fn quoted<'a>(head: &'a str, key: &str) -> Option<&'a str> {
    // `filename="` ends like `name="`, so the character before must be a border.
    let at = head.match_indices(key).map(|(at, _)| at).find(|at| {
        head.get(..*at).and_then(|before| before.chars().last()).is_none_or(|c| matches!(c, ' ' | ';'))
    })?;
    head.get(at + key.len()..)?.split('"').next()
}

/// The algorithms that the lab knows; for `md5` it would need one more library.
pub(super) const ALGORITHMS: &[&str] = &["sha1", "sha224", "sha256", "sha384", "sha512"];

/// The checksum of `content`; nothing for an algorithm that the lab does not know.
pub(super) fn digest(algorithm: &str, content: &[u8]) -> Option<String> {
    Some(match algorithm {
        "sha1" => hex::encode(sha1::Sha1::digest(content)),
        "sha224" => hex::encode(Sha224::digest(content)),
        "sha256" => hex::encode(Sha256::digest(content)),
        "sha384" => hex::encode(Sha384::digest(content)),
        "sha512" => hex::encode(Sha512::digest(content)),
        _ => return None,
    })
}

/// What kind of image the first bytes say that it is.
pub(super) fn image(content: &[u8]) -> &'static str {
    if content.starts_with(b"QFI\xfb") {
        "qcow2"
    } else if content.starts_with(b"KDMV") || content.starts_with(b"# Disk DescriptorFile") {
        "vmdk"
    } else {
        "raw"
    }
}

/// A qcow2 image says in its head how large its disk is; anything else is its own disk.
pub(super) fn disk_bytes(content: &[u8]) -> u64 {
    let own = u64::try_from(content.len()).unwrap_or(u64::MAX);
    let size = content.strip_prefix(b"QFI\xfb").and_then(|rest| rest.get(20..28)?.try_into().ok());
    size.map_or(own, u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut text = String::new();
        for (name, value) in fields {
            text += &format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        }
        text += "--b\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"a.iso\"\r\n\r\nabc\r\n--b--\r\n";
        text.into_bytes()
    }

    #[test]
    fn fields_must_come_in_order() {
        let (fields, upload) =
            read(&form(&[("content", "iso"), ("checksum-algorithm", "sha256"), ("checksum", "00")]), "b")
                .unwrap();
        assert_eq!(fields.last().unwrap(), &("filename".to_owned(), "a.iso".to_owned()));
        assert_eq!((upload.bytes, upload.checksum.unwrap().len()), (3, 64));
        assert!(
            read(&form(&[("content", "iso"), ("checksum", "00"), ("checksum-algorithm", "sha256")]), "b")
                .is_none()
        );
        assert!(read(b"--b\r\nnothing", "b").is_none());
    }
}
