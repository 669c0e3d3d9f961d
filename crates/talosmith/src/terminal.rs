//! A terminal that hands on what is typed at once, instead of line by line, and one that does not show what is typed.

use std::io;

use secrecy::SecretString;

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
            let stdin = io::stdin();
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
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
        }
    }
}

/// From now on a signal that ends the program leaves the terminal as it is now. For questions whose answer is not shown: without this,
/// SIGTERM would end the program while the terminal shows nothing that is typed.
pub fn restore_at_signal() {
    #[cfg(unix)]
    {
        use std::io::IsTerminal;

        use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
        use tokio::signal::unix::{SignalKind, signal};
        let terminal = match io::stdin().is_terminal() {
            true => rustix::io::dup(io::stdin()).ok(),
            false => std::fs::File::open("/dev/tty").ok().map(std::os::fd::OwnedFd::from),
        };
        let Some((terminal, before)) = terminal.and_then(|terminal| {
            let before = tcgetattr(&terminal).ok()?;
            Some((terminal, before))
        }) else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (Ok(mut terminate), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            return;
        };
        runtime.spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            let _ = tcsetattr(&terminal, OptionalActions::Now, &before);
            #[expect(clippy::exit, reason = "the thread that would end the program waits for a key")]
            std::process::exit(crate::exit::Exit::Interrupted.code().into());
        });
    }
}

/// Why nothing was typed.
#[derive(Debug)]
pub enum Untyped {
    /// There is no terminal to type on.
    NoTerminal,
    /// Ctrl-C.
    Interrupted,
}

/// Reads a line from the terminal without showing it. Ctrl-C ends the reading, not the program: a program that ends here would leave
/// the terminal without echo.
pub fn secret_line(prompt: &str) -> Result<SecretString, Untyped> {
    let terminal = console::Term::stderr();
    if !terminal.is_term() {
        return Err(Untyped::NoTerminal);
    }
    terminal.write_str(prompt).map_err(|_| Untyped::NoTerminal)?;
    #[cfg(unix)]
    let typed = {
        use std::io::IsTerminal;
        match io::stdin().is_terminal() {
            true => hidden(&io::stdin()),
            // The input is redirected, and a person sits before the terminal all the same.
            false => std::fs::File::open("/dev/tty").and_then(|tty| hidden(&tty)),
        }
    };
    #[cfg(not(unix))]
    let typed = terminal.read_secure_line().map(SecretString::from);
    let _ = terminal.write_line("");
    typed.map_err(|error| match error.kind() {
        io::ErrorKind::Interrupted => Untyped::Interrupted,
        _ => Untyped::NoTerminal,
    })
}

/// The key that Ctrl-C sends.
#[cfg(unix)]
const CTRL_C: u8 = 3;

/// A line from a terminal that shows nothing of it. The terminal is what it was when this returns.
#[cfg(unix)]
fn hidden(terminal: &impl std::os::fd::AsFd) -> io::Result<SecretString> {
    use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
    let before = tcgetattr(terminal)?;
    let mut now = before.clone();
    // Without ISIG no key ends the program, and as the end of a line Ctrl-C arrives at once. The line is still edited by the terminal.
    now.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ISIG);
    now.local_modes.insert(LocalModes::ICANON);
    now.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
    tcsetattr(terminal, OptionalActions::Now, &now)?;
    let typed = line(terminal);
    let restored = tcsetattr(terminal, OptionalActions::Now, &before);
    let typed = typed?;
    restored?;
    Ok(typed)
}

#[cfg(unix)]
fn line(terminal: &impl std::os::fd::AsFd) -> io::Result<SecretString> {
    let mut typed = Vec::new();
    loop {
        let mut bytes = [0_u8; 256];
        let read = match rustix::io::read(terminal, &mut bytes) {
            Ok(read) => read,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        typed.extend_from_slice(&bytes[..read]);
        if typed.contains(&CTRL_C) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if read == 0 || typed.ends_with(b"\n") {
            break;
        }
    }
    let text = String::from_utf8(typed).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(SecretString::from(text.trim_end_matches(['\r', '\n']).to_owned()))
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::Write as _;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, Termios, tcgetattr};
    use secrecy::ExposeSecret as _;

    use super::*;

    /// The two ends of a terminal of its own: what is typed goes in at the first.
    fn terminal() -> (File, File) {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, vec![]).unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let program = options.open(name.to_str().unwrap()).unwrap();
        (File::from(keys), program)
    }

    /// Reads a line while a person types; the keys come when the terminal does not show them any more.
    fn typed(keys: &mut File, program: &File, text: &[u8]) -> io::Result<SecretString> {
        let is_shown = |modes: &Termios| modes.local_modes.contains(LocalModes::ECHO);
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| hidden(program));
            while is_shown(&tcgetattr(program).unwrap()) && !reading.is_finished() {
                std::thread::yield_now();
            }
            keys.write_all(text).unwrap();
            reading.join().unwrap()
        })
    }

    #[test]
    fn f2_a_terminal_shows_again_what_is_typed_after_a_password_and_after_ctrl_c() {
        let (mut keys, program) = terminal();
        let before = tcgetattr(&program).unwrap();
        assert!(before.local_modes.contains(LocalModes::ECHO | LocalModes::ISIG));
        let password = typed(&mut keys, &program, b"hunter2\n").unwrap();
        assert_eq!(password.expose_secret(), "hunter2");
        let stopped = typed(&mut keys, &program, b"hun\x03").unwrap_err();
        assert_eq!(stopped.kind(), io::ErrorKind::Interrupted);
        let after = tcgetattr(&program).unwrap();
        assert_eq!(after.local_modes, before.local_modes);
        assert_eq!(
            after.special_codes[rustix::termios::SpecialCodeIndex::VEOL],
            before.special_codes[rustix::termios::SpecialCodeIndex::VEOL]
        );
    }
}
