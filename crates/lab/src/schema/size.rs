//! Sizes, as Proxmox reads and writes them.

/// Bytes of `10G`, `512M`, `4M`, `1024`; nothing if it is no size.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit() && c != '.') {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    if !number.starts_with(|c: char| c.is_ascii_digit()) || number.ends_with('.') {
        return None;
    }
    let unit: u64 = match unit.strip_suffix("iB").filter(|unit| !unit.is_empty()).unwrap_or(unit) {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return None,
    };
    match number.split_once('.') {
        None => number.parse::<u64>().ok()?.checked_mul(unit),
        Some(_) => {
            let number: f64 = number.parse().ok()?;
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Some((number * unit as f64) as u64)
        }
    }
}

/// A size with the largest unit that is exact, as Proxmox writes it.
pub(crate) fn print_size(bytes: u64) -> String {
    let units = [(1_u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let exact = units.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    exact.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in
            [("528K", 540_672), ("4M", 4 << 20), ("20G", 20 << 30), ("1.5G", 3 << 29), ("100", 100)]
        {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        assert_eq!(parse_size("10X"), None);
        assert_eq!(print_size(3 << 29), "1536M");
        assert_eq!(print_size(540_672), "528K");
        assert_eq!(print_size(2 << 30), "2G");
    }
}
