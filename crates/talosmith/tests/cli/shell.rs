//! Runs the real binary in a folder of its own.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// Files of a lab, by name.
type Kept = Vec<(&'static str, Vec<u8>)>;

/// The smallest useful file.
pub const HOME: &str = include_str!("../../../../examples/home.yaml");

pub struct Shell {
    folder: TempDir,
}

/// What a command printed, and how it ended.
pub struct Ran {
    pub out: String,
    pub err: String,
    pub code: Option<i32>,
}

impl Ran {
    /// Everything, as a snapshot shows it.
    pub fn all(&self) -> String {
        format!("exit {:?}\n--- stdout\n{}--- stderr\n{}", self.code, self.out, self.err)
    }
}

impl Shell {
    pub fn with(file: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shell = Self { folder };
        shell.write("cluster.yaml", file);
        shell
    }

    /// A folder whose lab has secrets. To make them takes longer than to use them, so they are made once and copied.
    pub fn with_secrets() -> Self {
        static MADE: OnceLock<Kept> = OnceLock::new();
        let kept = MADE.get_or_init(|| {
            let first = Self::with(HOME);
            first.ok("secrets new --lab");
            first.kept(&["secrets.age", "identity.txt"])
        });
        Self::of(kept)
    }

    /// A folder whose lab has a healthy cluster, made once and copied.
    pub fn healthy() -> Self {
        static MADE: OnceLock<Kept> = OnceLock::new();
        let kept = MADE.get_or_init(|| {
            let first = Self::with_secrets();
            first.ok("apply --lab --lab-speed max --yes --quiet");
            first.kept(&["secrets.age", "identity.txt", "world.json"])
        });
        Self::of(kept)
    }

    fn kept(&self, names: &[&'static str]) -> Kept {
        names.iter().map(|name| (*name, std::fs::read(self.lab().join(name)).unwrap())).collect()
    }

    fn of(kept: &Kept) -> Self {
        let shell = Self::with(HOME);
        std::fs::create_dir_all(shell.lab()).unwrap();
        for (name, bytes) in kept {
            std::fs::write(shell.lab().join(name), bytes).unwrap();
        }
        shell
    }

    /// Changes the lab's world behind everybody's back.
    pub fn change_world(&self, change: impl FnOnce(String) -> String) {
        let path = self.lab().join("world.json");
        let systems = std::fs::read_to_string(&path).unwrap();
        let changed = change(systems.clone());
        assert_ne!(systems, changed, "nothing was changed");
        std::fs::write(path, changed).unwrap();
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn lab(&self) -> PathBuf {
        self.path().join(".talosmith/lab/home")
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    pub fn run(&self, args: &str) -> Ran {
        let Output { status, stdout, stderr } = self.command(args).output().unwrap();
        Ran {
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
            code: status.code(),
        }
    }

    /// Runs a command with a variable in its environment.
    pub fn run_with(&self, name: &str, value: &str, args: &str) -> Ran {
        let Output { status, stdout, stderr } = self.command(args).env(name, value).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { out: text(stdout), err: text(stderr), code: status.code() }
    }

    /// Runs a command that must succeed.
    pub fn ok(&self, args: &str) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "talosmith {args}\n{}", ran.all());
        ran.out
    }

    pub fn start(&self, args: &str) -> Started {
        Started(self.command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Starts a command on a terminal of its own. What is typed goes into the file, and what it shows comes out of it.
    #[cfg(target_os = "linux")]
    pub fn on_terminal(&self, args: &str) -> (Child, std::fs::File) {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, vec![]).unwrap();
        let end = std::fs::OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let also = || Stdio::from(end.try_clone().unwrap());
        let child = self.command(args).stdin(also()).stdout(also()).stderr(also()).spawn().unwrap();
        (child, std::fs::File::from(keys))
    }

    pub fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_talosmith"));
        command.args(args.split_whitespace()).current_dir(self.path()).stdin(Stdio::null());
        // Nothing of the person who runs the tests: no token, no identity, no colours.
        command.env_clear().env("HOME", self.path()).env("PATH", "/usr/bin:/bin").env("USER", "eva");
        command
    }
}

/// A program that does not outlive its test, also when the test fails.
pub struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Deref for Started {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Started {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}
