//! Property strings, Proxmox's small language inside one value: `local:vm-100-disk-0,size=20G,ssd=1`.
//!
//! A list separated by commas; each part is `key=value`, and the first one may be a bare value whose key is understood.
//! The order is kept, because it says nothing to Proxmox but a person compares what they wrote with what they read.

use std::fmt;
use std::str::FromStr;

/// A parsed property string. Parsing never fails: whatever Proxmox stores can be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PropertyString {
    bare: Option<String>,
    pairs: Vec<(String, String)>,
}

impl PropertyString {
    /// A property string that starts with a bare value.
    pub fn bare(value: impl Into<String>) -> Self {
        Self { bare: Some(value.into()), pairs: Vec::new() }
    }

    /// Sets a key, in its old place if it has one, else at the end.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        let value = value.into();
        match self.pairs.iter_mut().find(|(k, _)| k == key) {
            Some(pair) => pair.1 = value,
            None => self.pairs.push((key.to_owned(), value)),
        }
        self
    }

    /// The bare value at the beginning.
    #[must_use]
    pub fn first(&self) -> Option<&str> {
        self.bare.as_deref()
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// All keys with their values, without the bare one, in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}

impl FromStr for PropertyString {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parsed = Self::default();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            match part.split_once('=') {
                Some((key, value)) => parsed.pairs.push((key.to_owned(), value.to_owned())),
                None if parsed.bare.is_none() => parsed.bare = Some(part.to_owned()),
                None => parsed.pairs.push((part.to_owned(), String::new())),
            }
        }
        Ok(parsed)
    }
}

impl From<&str> for PropertyString {
    fn from(text: &str) -> Self {
        let Ok(parsed) = text.parse();
        parsed
    }
}

impl fmt::Display for PropertyString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if let Some(bare) = &self.bare {
            f.write_str(bare)?;
            separator = ",";
        }
        for (key, value) in &self.pairs {
            write!(f, "{separator}{key}={value}")?;
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_and_nics_read_and_print_the_same() {
        for text in [
            "local:900/vm-900-disk-0.qcow2,size=512M",
            "virtio=BC:24:11:99:E0:59,bridge=vmbr0,firewall=1",
            "uuid=bc1d6309-7a34-4822-981b-dece7a37be40",
            "order=scsi0;net0",
            "none",
        ] {
            assert_eq!(PropertyString::from(text).to_string(), text);
        }
    }

    #[test]
    fn keys_are_found_and_replaced() {
        let drive =
            PropertyString::bare("local:0").with("import-from", "local:import/x.qcow2").with("ssd", "0");
        let drive = drive.with("ssd", "1");
        assert_eq!(drive.to_string(), "local:0,import-from=local:import/x.qcow2,ssd=1");
        assert_eq!(drive.first(), Some("local:0"));
        assert_eq!(drive.get("ssd"), Some("1"));
        assert_eq!(drive.get("size"), None);
    }
}
