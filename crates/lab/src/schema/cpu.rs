//! The processors that a guest can be shown, as a server of this release lists them.

use super::Parts;

const DEFAULT: &str = "host kvm32 kvm64 max qemu32 qemu64 x86-64-v2 x86-64-v2-AES x86-64-v3 x86-64-v4";
const AMD: &str = "EPYC EPYC-Genoa EPYC-Genoa-v2 EPYC-IBPB EPYC-Milan EPYC-Milan-v2 EPYC-Milan-v3 EPYC-Rome EPYC- \
     Rome-v2 EPYC-Rome-v3 EPYC-Rome-v4 EPYC-Rome-v5 EPYC-Turin EPYC-v3 EPYC-v4 EPYC-v5 Opteron_G1 \
     Opteron_G2 Opteron_G3 Opteron_G4 Opteron_G5 athlon phenom";
const INTEL: &str = "486 Broadwell Broadwell-IBRS Broadwell-noTSX Broadwell-noTSX-IBRS Cascadelake-Server Cascadelake- \
     Server-noTSX Cascadelake-Server-v2 Cascadelake-Server-v4 Cascadelake-Server-v5 ClearwaterForest \
     Conroe Cooperlake Cooperlake-v2 GraniteRapids GraniteRapids-v2 GraniteRapids-v3 Haswell Haswell-IBRS \
     Haswell-noTSX Haswell-noTSX-IBRS Icelake-Client Icelake-Client-noTSX Icelake-Server Icelake-Server- \
     noTSX Icelake-Server-v3 Icelake-Server-v4 Icelake-Server-v5 Icelake-Server-v6 Icelake-Server-v7 \
     IvyBridge IvyBridge-IBRS KnightsMill Nehalem Nehalem-IBRS Penryn SandyBridge SandyBridge-IBRS \
     SapphireRapids SapphireRapids-v2 SapphireRapids-v3 SapphireRapids-v4 SierraForest SierraForest-v2 \
     SierraForest-v3 Skylake-Client Skylake-Client-IBRS Skylake-Client-noTSX-IBRS Skylake-Client-v4 \
     Skylake-Server Skylake-Server-IBRS Skylake-Server-noTSX-IBRS Skylake-Server-v4 Skylake-Server-v5 \
     Westmere Westmere-IBRS core2duo coreduo pentium pentium2 pentium3";

/// Every model with its vendor.
pub(crate) fn models() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of = |vendor, names: &'static str| names.split_whitespace().map(move |name| (name, vendor));
    of("default", DEFAULT).chain(of("AuthenticAMD", AMD)).chain(of("GenuineIntel", INTEL))
}

/// The flags that a VM may set by itself.
const FLAGS: &[&str] = &[
    "aes",
    "amd-no-ssb",
    "amd-ssbd",
    "hv-evmcs",
    "hv-tlbflush",
    "ibpb",
    "md-clear",
    "nested-virt",
    "pcid",
    "pdpe1gb",
    "spec-ctrl",
    "ssbd",
    "virt-ssbd",
];

/// Says what is wrong with the processor of a VM. Models of one's own are never there.
pub(crate) fn check(parts: &Parts) -> Result<(), String> {
    let Some(kind) = parts.get("cputype") else { return Err("CPU is missing cputype".to_owned()) };
    if let Some(own) = kind.strip_prefix("custom-") {
        return Err(format!("Custom cputype '{own}' not found"));
    }
    if !models().any(|(name, _)| name == kind) {
        return Err(format!("Built-in cputype '{kind}' is not defined (missing 'custom-' prefix?)"));
    }
    let known = |flag: &str| flag.strip_prefix(['+', '-']).is_some_and(|flag| FLAGS.contains(&flag));
    if parts.get("flags").is_some_and(|flags| !flags.split(';').all(known)) {
        return Err(format!("VM-specific CPU flags must be a subset of: {}", FLAGS.join(", ")));
    }
    match parts.contains_key("reported-model") {
        true => Err("Property 'reported-model' not allowed in VM-specific CPU config.".to_owned()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::schema::formats;

    #[test]
    fn only_known_processors_are_shown_to_a_guest() {
        let check = |value| formats::check("pve-vm-cpu-conf", "cpu", value);
        for good in ["host", "x86-64-v2-AES,flags=+aes", "cputype=max", "host,flags=+aes;-pcid"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in
            ["nosuch", "cputype=pentium9,flags=+aes", "custom-mine", "flags=+aes", "host,flags=+nosuch"]
        {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
