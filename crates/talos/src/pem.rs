//! PEM with any label.
//!
//! Talos writes Ed25519 keys under the label `ED25519 PRIVATE KEY`, which the usual parsers skip in silence. So this reads
//! the first block whatever it is called, and leaves it to the caller what labels it takes.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use zeroize::Zeroizing;

/// One PEM block.
pub(crate) struct Block {
    pub(crate) label: String,
    pub(crate) der: Zeroizing<Vec<u8>>,
}

/// The first block of a text, or nothing where there is no sound one.
pub(crate) fn decode(text: &str) -> Option<Block> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let body: Zeroizing<String> = Zeroizing::new(body.split_whitespace().collect());
    let der = STANDARD.decode(body.as_bytes()).ok()?;
    (!der.is_empty()).then(|| Block { label: label.to_owned(), der: Zeroizing::new(der) })
}

/// A block in lines of 64 characters, with a trailing newline, as Go writes it.
pub(crate) fn encode(label: &str, der: &[u8]) -> String {
    let body = Zeroizing::new(STANDARD.encode(der));
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_it_writes_under_any_label() {
        let der: Vec<u8> = (0..=99).collect();
        let text = encode("ED25519 PRIVATE KEY", &der);
        assert_eq!(text.lines().nth(1).unwrap().len(), 64);
        let block = decode(&format!("a comment\n{text}")).unwrap();
        assert_eq!(block.label, "ED25519 PRIVATE KEY");
        assert_eq!(block.der.as_slice(), der);
    }

    #[test]
    fn refuses_what_is_not_a_block() {
        for text in ["", "-----BEGIN X-----\nAAAA\n", "-----BEGIN X-----\n!!\n-----END X-----\n"] {
            assert!(decode(text).is_none(), "{text:?}");
        }
    }
}
