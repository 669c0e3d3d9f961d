//! What differs between Talos releases.

/// The behaviour of one Talos release line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// The minor release.
    pub minor: u32,
    /// The Go release that it was built with, as `Version` tells.
    pub go: &'static str,
    /// The kernel's version.
    pub kernel: &'static str,
    /// The version of containerd.
    pub containerd: &'static str,
    /// The version of runc.
    pub runc: &'static str,
    /// etcd's version.
    pub etcd: &'static str,
    /// The storage version that goes with it.
    pub etcd_storage: &'static str,
    /// Oldest and newest minor release of Kubernetes 1.x that a configuration may ask for.
    pub kubernetes_minors: (u64, u64),
}

// Talos' own table ends with 1.35 for 1.12. The recorded questions to a 1.12.11 are asked with 1.36 and expect that it is taken; 1.37
// was refused there.
const PROFILES: [Profile; 3] = [
    Profile {
        minor: 12,
        go: "go1.25.8",
        kernel: "6.18.18-talos",
        containerd: "2.1.6",
        runc: "1.3.5",
        etcd: "3.6.11",
        etcd_storage: "3.6.0",
        kubernetes_minors: (30, 36),
    },
    Profile {
        minor: 13,
        go: "go1.26.6",
        kernel: "6.18.44-talos",
        containerd: "2.2.7",
        runc: "1.4.3",
        etcd: "3.6.12",
        etcd_storage: "3.6.0",
        kubernetes_minors: (31, 36),
    },
    Profile {
        minor: 14,
        go: "go1.26.8",
        kernel: "6.18.51-talos",
        containerd: "2.3.5",
        runc: "1.5.1",
        etcd: "3.7.1",
        etcd_storage: "3.7.0",
        kubernetes_minors: (32, 37),
    },
];

impl Profile {
    /// The profile of a Talos version such as `v1.13.9`. Lines that the lab does not play behave as the nearest one.
    #[must_use]
    pub fn of(talos: &str) -> Self {
        let minor = talos.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(13_u32);
        let nearest = PROFILES.iter().min_by_key(|profile| profile.minor.abs_diff(minor));
        nearest.copied().unwrap_or(PROFILES[1])
    }

    /// Up to 1.12 a small server of its own answers in maintenance; later it is the API itself, with a reader's rights.
    #[must_use]
    pub fn has_maintenance_server(self) -> bool {
        self.minor <= 12
    }

    /// Which versions of TLS Kubernetes takes.
    #[must_use]
    pub fn kubernetes_tls(self) -> &'static [&'static rustls::SupportedProtocolVersion] {
        static NEWEST: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];
        if self.minor >= 14 { NEWEST } else { rustls::DEFAULT_VERSIONS }
    }

    /// Whether a release may be reached from another by an upgrade: two minors up, or one down.
    #[must_use]
    pub fn accepts_upgrade_from(self, other: Self) -> bool {
        (other.minor..=other.minor + 2).contains(&self.minor) || self.minor + 1 == other.minor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_the_profile_of_its_line() {
        assert_eq!(Profile::of("v1.12.9").minor, 12);
        assert_eq!(Profile::of("v1.14.0-rc.1").minor, 14);
        assert_eq!(Profile::of("v1.10.1").minor, 12, "the oldest that the lab plays");
        assert!(Profile::of("v1.12.9").has_maintenance_server());
    }
}
