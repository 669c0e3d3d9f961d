//! The processors that a guest can be shown, as a server of this release lists them.

use crate::hypervisor::refusal::Refusal;

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

/// Refuses a model that does not exist. Models of one's own are never there.
pub(crate) fn check(value: &str) -> Result<(), Refusal> {
    let kind = value.split(',').find_map(|part| match part.split_once('=') {
        None => Some(part),
        Some(("cputype", kind)) => Some(kind),
        Some(_) => None,
    });
    let problem = match kind {
        Some(kind) if kind.starts_with("custom-") => {
            format!("Custom cputype '{}' not found", kind.trim_start_matches("custom-"))
        }
        Some(kind) if !models().any(|(name, _)| name == kind) => {
            format!("Built-in cputype '{kind}' is not defined (missing 'custom-' prefix?)")
        }
        _ => return Ok(()),
    };
    Err(Refusal::parameter("cpu", format!("invalid format - {problem}\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_processors_are_shown_to_a_guest() {
        for good in ["host", "x86-64-v2-AES,flags=+aes", "cputype=max", "flags=+aes"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["nosuch", "cputype=pentium9,flags=+aes", "custom-mine"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
