//! Keys and tokens are in our memory, so a crash must not write it to a disk.

/// Lets neither a core dump be written nor another program of the same user read our memory. Where the system does not
/// allow that, we go on: the secrets are no less safe than those of any other program.
pub fn disable() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        let _ = setrlimit(Resource::Core, none);
    }
    // A limit alone does not hold where dumps are piped to a program, such as systemd-coredump.
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::{DumpableBehavior, Resource, dumpable_behavior, getrlimit};

    #[test]
    fn by_reading_7_no_core_is_dumped() {
        super::disable();
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
