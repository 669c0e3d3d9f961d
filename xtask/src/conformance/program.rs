//! The program itself, as people run it: files in, configurations out, in a folder of its own.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};

/// A folder with a cluster file in it, removed when it goes.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("talosmith-conformance-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Puts a file in it.
    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.0.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    /// Runs talosmith in it; what it said is the error where it fails.
    pub fn talosmith(&self, words: &[&str]) -> anyhow::Result<Result<String, String>> {
        let mut command = Command::new(talosmith()?);
        // Nothing of the person who runs this: no identity, no token.
        command.args(words).current_dir(&self.0).env_remove("TALOSMITH_IDENTITY").env("HOME", &self.0);
        command.env_remove("XDG_CONFIG_HOME");
        let output = command.output().context("run talosmith")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stdout) + &text(&output.stderr)),
        })
    }

    /// The configurations that a cluster file gives, by node.
    pub fn render(&self, file: &str) -> anyhow::Result<Result<BTreeMap<String, String>, String>> {
        let out = self.0.join("out");
        if out.exists() {
            std::fs::remove_dir_all(&out)?;
        }
        if let Err(said) = self.talosmith(&["render", "--quiet", "-f", file, "-o", "out"])? {
            return Ok(Err(said));
        }
        let mut configs = BTreeMap::new();
        for entry in std::fs::read_dir(&out)? {
            let path = entry?.path();
            let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if path.extension().is_some_and(|it| it == "yaml") && !name.starts_with("schematic-") {
                configs.insert(name, std::fs::read_to_string(&path)?);
            }
        }
        Ok(Ok(configs))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays behind lies in the system's folder for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The program that was built beside this one.
pub fn talosmith() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("talosmith");
    if !path.exists() {
        bail!("{} is not there; run `cargo build` first", path.display());
    }
    Ok(path)
}
