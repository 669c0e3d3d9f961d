//! etcd's database as a file: what `EtcdSnapshot` streams and what a recovery begins from.
//!
//! The file is one that etcd's own tools can open: pages of bbolt with one bucket, `key`, whose one entry holds
//! everything that Kubernetes keeps. The SHA-256 of the pages stands behind them, as etcd appends it.

use sha2::{Digest as _, Sha256};

use crate::kube::Store;

const PAGE: usize = 4096;
const HASH: usize = 32;
const MAGIC: u32 = 0xED0C_DAED;
const LEAF: u16 = 2;
const META: u16 = 4;
const FREE_LIST: u16 = 16;
/// Number of the page with the entry, and where its content begins: behind the page's and the entry's head and the key.
const DATA_PAGE: usize = 4;
const KEY: usize = 17;
const DATA: usize = DATA_PAGE * PAGE + 32 + KEY;

/// The file of a store at a revision.
pub(crate) fn write(store: &Store, revision: u64) -> Vec<u8> {
    let content = serde_json::to_vec(store).unwrap_or_default();
    let pages = (32 + KEY + content.len()).div_ceil(PAGE);
    let total = DATA_PAGE + pages;
    let mut file = vec![0; total * PAGE];
    for number in 0..2_u64 {
        let at = usize::try_from(number).unwrap_or(0) * PAGE;
        put(&mut file, at, &head(number, META, 0, 0));
        put(&mut file, at + 16, &meta(number, total));
    }
    put(&mut file, 2 * PAGE, &head(2, FREE_LIST, 0, 0));
    // The root: one bucket by the name of `key`, whose own root is the data page.
    put(&mut file, 3 * PAGE, &head(3, LEAF, 1, 0));
    put(&mut file, 3 * PAGE + 16, &entry(1, 16, 3, 16));
    put(&mut file, 3 * PAGE + 32, b"key");
    put(&mut file, 3 * PAGE + 35, &4_u64.to_le_bytes());
    let data = DATA_PAGE * PAGE;
    put(&mut file, data, &head(4, LEAF, 1, pages - 1));
    put(&mut file, data + 16, &entry(0, 16, KEY, content.len()));
    put(&mut file, data + 32, &revision.to_be_bytes());
    put(&mut file, data + 40, b"_");
    put(&mut file, DATA, &content);
    let hash = Sha256::digest(&file);
    file.extend(hash);
    file
}

/// The store in a file; what is wrong with the file, in etcd's words, if it is none.
pub(crate) fn read(file: &[u8], check_hash: bool) -> Result<Store, String> {
    let has_hash = file.len() % 512 == HASH;
    if check_hash && !has_hash {
        return Err("snapshot missing hash but --skip-hash-check=false".to_owned());
    }
    let pages = if has_hash { &file[..file.len() - HASH] } else { file };
    if check_hash && Sha256::digest(pages).as_slice() != &file[pages.len()..] {
        return Err("expected sha256 differs from that of the file".to_owned());
    }
    let size = pages.get(DATA_PAGE * PAGE + 28..DATA_PAGE * PAGE + 32);
    let size = size.and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes);
    let end = DATA + usize::try_from(size).unwrap_or(0);
    let content = pages.get(DATA..end).ok_or("invalid database")?;
    serde_json::from_slice(content).map_err(|_| "invalid database".to_owned())
}

fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = file.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// The head of a page: number, kind, entries, further pages that belong to it.
fn head(number: u64, flags: u16, count: u16, overflow: usize) -> Vec<u8> {
    let overflow = u32::try_from(overflow).unwrap_or(0);
    [&number.to_le_bytes()[..], &flags.to_le_bytes(), &count.to_le_bytes(), &overflow.to_le_bytes()].concat()
}

/// The head of an entry: kind, where its key begins from here on, sizes.
fn entry(flags: u32, offset: u32, key: usize, value: usize) -> Vec<u8> {
    let size = |size: usize| u32::try_from(size).unwrap_or(0).to_le_bytes();
    [&flags.to_le_bytes()[..], &offset.to_le_bytes(), &size(key), &size(value)].concat()
}

/// The meta page: which page is the root, where free pages are listed, how many pages there are.
fn meta(transaction: u64, pages: usize) -> Vec<u8> {
    let numbers = |list: &[u64]| list.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let page = u32::try_from(PAGE).unwrap_or(0);
    let mut bytes: Vec<u8> = [MAGIC, 2, page, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
    bytes.extend(numbers(&[3, 0, 2, u64::try_from(pages).unwrap_or(0), transaction]));
    // FNV-1a over all of it.
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    bytes.extend(sum.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_reads_back_and_a_broken_one_does_not() {
        let file = write(&Store::default(), 7);
        assert_eq!(file.len() % 512, HASH);
        assert_eq!(&file[16..20], &MAGIC.to_le_bytes());
        assert!(read(&file, true).is_ok());
        let mut broken = file.clone();
        broken[100] ^= 1;
        assert!(read(&broken, true).is_err());
        assert!(read(&broken, false).is_ok());
        assert_eq!(read(b"garbage", true).unwrap_err(), "snapshot missing hash but --skip-hash-check=false");
    }
}
