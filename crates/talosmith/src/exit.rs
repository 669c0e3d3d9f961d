//! How the program ends, as numbers that scripts may rely on.
//!
//! One table gives each ending its number and its meaning, so that the documentation, `--help` and the code cannot differ.
//! A number is never given a new meaning.

use std::fmt::Write as _;
use std::process::ExitCode;

use model::plan::{Refusal, RefusalCode};

macro_rules! exits {
    ($($name:ident = $code:literal $meaning:literal)*) => {
        /// How the program ends.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Exit {
            $(#[doc = $meaning] $name = $code,)*
        }

        impl Exit {
            /// Every ending there is, by number.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// What it means, in one sentence without a full stop.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning),* }
            }
        }
    };
}

exits! {
    Done = 0 "success, or no changes to make"
    Internal = 1 "a bug in Talosmith; please report it"
    Pending = 2 "changes are left (`plan --detailed-exitcode`; `apply`, if changes are blocked)"
    Input = 3 "the file, or something it refers to, is invalid; nothing was changed"
    Refused = 4 "refused, because it would not be safe; nothing was changed"
    Systems = 5 "a step failed or something did not answer; run the same command again to continue"
    Busy = 6 "another operator is changing the cluster"
    Secrets = 7 "the secrets bundle or the identity that decrypts it is missing, unreadable or does not fit"
    Declined = 8 "a question was not answered with yes; nothing was changed"
    Usage = 64 "the command line is invalid"
    Interrupted = 130 "stopped by a signal; run the same command again to continue"
}

impl Exit {
    /// The number.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// All of them as text, a line each, for `--help`.
    #[must_use]
    pub fn help() -> String {
        let mut text = String::from("Exit codes:\n");
        for exit in Self::ALL {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {:>3}  {}", exit.code(), exit.meaning());
        }
        text
    }
}

impl Exit {
    /// How a command ends whose plan is refused for these reasons.
    #[must_use]
    pub fn of_refusals(refusals: &[Refusal]) -> Self {
        match refusals.iter().any(|refusal| refusal.code == RefusalCode::LostBundle) {
            true => Self::Secrets,
            false => Self::Refused,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl From<engine::error::Kind> for Exit {
    fn from(kind: engine::error::Kind) -> Self {
        match kind {
            engine::error::Kind::Systems => Self::Systems,
            engine::error::Kind::Refused => Self::Refused,
            engine::error::Kind::Secrets => Self::Secrets,
            engine::error::Kind::Busy | engine::error::Kind::Stale => Self::Busy,
            engine::error::Kind::Input => Self::Input,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_keeps_its_meaning() {
        insta::assert_snapshot!(Exit::help(), @"
        Exit codes:
            0  success, or no changes to make
            1  a bug in Talosmith; please report it
            2  changes are left (`plan --detailed-exitcode`; `apply`, if changes are blocked)
            3  the file, or something it refers to, is invalid; nothing was changed
            4  refused, because it would not be safe; nothing was changed
            5  a step failed or something did not answer; run the same command again to continue
            6  another operator is changing the cluster
            7  the secrets bundle or the identity that decrypts it is missing, unreadable or does not fit
            8  a question was not answered with yes; nothing was changed
           64  the command line is invalid
          130  stopped by a signal; run the same command again to continue
        ");
    }
}
