//! A terminal that hands on what is typed at once, instead of line by line.

/// While this lives, keys come one by one and are not shown. Dropping it brings the terminal back to what it was.
pub struct Typing {
    #[cfg(unix)]
    before: rustix::termios::Termios,
}

impl Typing {
    /// With `all`, keys such as Ctrl-C are handed on, too, instead of ending the program.
    pub fn one_by_one(all: bool) -> Option<Self> {
        #[cfg(unix)]
        {
            use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
            let stdin = std::io::stdin();
            let before = tcgetattr(&stdin).ok()?;
            let mut now = before.clone();
            now.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            if all {
                now.local_modes.remove(LocalModes::ISIG);
            }
            tcsetattr(&stdin, OptionalActions::Now, &now).ok()?;
            Some(Self { before })
        }
        #[cfg(not(unix))]
        {
            let _ = all;
            None
        }
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        #[cfg(unix)]
        {
            use rustix::termios::{OptionalActions, tcsetattr};
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
        }
    }
}
