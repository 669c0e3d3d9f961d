//! Files of bbolt, the database below etcd: whole ones are written and read, nothing is changed in place.
//!
//! A file is a row of pages. The first two are metas, each with a checksum, that say where the root is; then comes the list
//! of free pages, here always empty, then the root: a leaf with one entry a bucket, each of which leads to the leaf with the
//! bucket's own entries. A leaf that needs more room goes on over the pages behind it. All numbers are little-endian.

use std::collections::BTreeMap;

/// Size of a page.
const PAGE: usize = 4096;
const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
/// Kinds of pages.
const LEAF: u16 = 2;
const META: u16 = 4;
const FREE_LIST: u16 = 16;
/// Marks an entry that is a bucket.
const BUCKET: u32 = 1;
/// The head of a page, and of an entry in a leaf.
const HEAD: usize = 16;
const FREE_LIST_PAGE: usize = 2;
const ROOT: usize = 3;

/// What a bucket holds, in the order of its keys.
pub(super) type Bucket = BTreeMap<Vec<u8>, Vec<u8>>;

/// The file of some buckets; what a number in it cannot count is left out.
pub(super) fn write(buckets: &BTreeMap<&str, Bucket>) -> Vec<u8> {
    let mut leaves = vec![];
    let mut root = vec![];
    let mut next = ROOT + 1;
    for (name, bucket) in buckets {
        let entries: Vec<_> = bucket.iter().map(|(key, value)| (0, &key[..], &value[..])).collect();
        let leaf = leaf(next, &entries);
        let header = [number(next), [0; 8]].concat();
        root.push((name.as_bytes(), header));
        next += leaf.len() / PAGE;
        leaves.extend(leaf);
    }
    let root: Vec<_> = root.iter().map(|(name, header)| (BUCKET, *name, &header[..])).collect();
    // The few names of buckets fit into one page.
    let root = leaf(ROOT, &root);
    let mut file = vec![];
    for transaction in 0..2 {
        file.extend(head(transaction, META, 0, 1));
        file.extend(meta(transaction, next));
        fill(&mut file);
    }
    file.extend(head(FREE_LIST_PAGE, FREE_LIST, 0, 1));
    fill(&mut file);
    file.extend(root);
    file.extend(leaves);
    file
}

/// The entries of one bucket; nothing when the file is none of ours or has no such bucket.
pub(super) fn read(file: &[u8], bucket: &str) -> Option<Bucket> {
    let newest = (0..2).filter_map(|page| meta_at(file, page)).max()?;
    let (_, root) = newest;
    let (_, header) = entries(file, root)?.into_iter().find(|(name, _)| *name == bucket.as_bytes())?;
    let leaf = u64_at(header, 0)?;
    let entries = entries(file, usize::try_from(leaf).ok()?)?;
    Some(entries.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
}

/// A leaf that starts at the page `at`, on as many pages as it needs.
fn leaf(at: usize, entries: &[(u32, &[u8], &[u8])]) -> Vec<u8> {
    let heads = HEAD * (1 + entries.len());
    let content: usize = entries.iter().map(|(_, key, value)| key.len() + value.len()).sum();
    let mut page = head(at, LEAF, entries.len(), (heads + content).div_ceil(PAGE));
    let mut begins = heads;
    for (index, (flags, key, value)) in entries.iter().enumerate() {
        // Where an entry's key starts is counted from the entry's head on.
        let offset = begins - HEAD * (1 + index);
        page.extend(flags.to_le_bytes());
        page.extend([offset, key.len(), value.len()].into_iter().flat_map(small));
        begins += key.len() + value.len();
    }
    page.extend(entries.iter().flat_map(|(_, key, value)| key.iter().chain(*value)));
    fill(&mut page);
    page
}

/// The head of a page: number, kind, entries, and how many pages more belong to it.
fn head(page: usize, flags: u16, count: usize, pages: usize) -> Vec<u8> {
    let count = u16::try_from(count).unwrap_or(u16::MAX);
    [&number(page)[..], &flags.to_le_bytes(), &count.to_le_bytes(), &small(pages - 1)].concat()
}

/// A meta: page size, root, list of free pages, number of pages, transaction, checksum.
fn meta(transaction: usize, pages: usize) -> Vec<u8> {
    let mut bytes = [MAGIC.to_le_bytes(), VERSION.to_le_bytes(), small(PAGE), small(0)].concat();
    for value in [ROOT, 0, FREE_LIST_PAGE, pages, transaction] {
        bytes.extend(number(value));
    }
    bytes.extend(checksum(&bytes).to_le_bytes());
    bytes
}

/// Transaction and root of the meta on a page, if it is sound.
fn meta_at(file: &[u8], page: usize) -> Option<(u64, usize)> {
    let bytes = file.get(page * PAGE + HEAD..)?.get(..64)?;
    let sound = bytes[..4] == MAGIC.to_le_bytes() && u64_at(bytes, 56)? == checksum(&bytes[..56]);
    let root = usize::try_from(u64_at(bytes, 16)?).ok()?;
    sound.then_some((u64_at(bytes, 48)?, root))
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Keys and values of the leaf at a page.
fn entries(file: &[u8], page: usize) -> Option<Vec<(&[u8], &[u8])>> {
    let leaf = file.get(page.checked_mul(PAGE)?..)?;
    let count = u16::from_le_bytes(leaf.get(10..12)?.try_into().ok()?);
    let entry = |index: u16| {
        let at = HEAD * (1 + usize::from(index));
        let [offset, key, value] = [4, 8, 12].map(|field| u32_at(leaf, at + field));
        let content = leaf.get(at.checked_add(offset?)?..)?;
        let (key, rest) = content.split_at_checked(key?)?;
        Some((key, rest.get(..value?)?))
    };
    (0..count).map(entry).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let number = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
    usize::try_from(number).ok()
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn number(value: usize) -> [u8; 8] {
    u64::try_from(value).unwrap_or(u64::MAX).to_le_bytes()
}

fn small(value: usize) -> [u8; 4] {
    u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes()
}

/// Fills the last page up.
fn fill(pages: &mut Vec<u8>) {
    pages.resize(pages.len().next_multiple_of(PAGE), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_come_back_also_over_several_pages() {
        let many: Bucket = (0..300_u32).map(|n| (n.to_be_bytes().to_vec(), vec![7; 100])).collect();
        let few = Bucket::from([(b"term".to_vec(), vec![0, 1])]);
        let file =
            write(&BTreeMap::from([("key", many.clone()), ("lease", Bucket::new()), ("meta", few.clone())]));
        assert_eq!(file.len() % PAGE, 0);
        assert_eq!(read(&file, "key"), Some(many));
        assert_eq!(read(&file, "lease"), Some(Bucket::new()));
        assert_eq!(read(&file, "meta"), Some(few));
        assert_eq!(read(&file, "nothing"), None);
    }

    #[test]
    fn a_broken_file_is_none() {
        let mut file = write(&BTreeMap::from([("key", Bucket::new())]));
        assert_eq!(read(&file[..100], "key"), None);
        file[PAGE + HEAD + 20] ^= 1;
        assert!(read(&file, "key").is_some(), "the other meta still leads there");
        file[HEAD + 20] ^= 1;
        assert_eq!(read(&file, "key"), None);
    }
}
