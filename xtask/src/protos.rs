//! Makes the Rust of `crates/talos/src/wire/gen` from `crates/talos/proto`.
//!
//! The result is checked in, so that building the program needs neither a protobuf compiler nor a build script. With
//! `--check` nothing is written: the files are made beside the build and compared with the ones that are checked in.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// The files that are compiled; what they import is found from here.
const ROOTS: &[&str] = &[
    "common/common.proto",
    "machine/machine.proto",
    "machine/image.proto",
    "machine/lifecycle.proto",
    "storage/storage.proto",
    "time/time.proto",
    "cluster/cluster.proto",
    "inspect/inspect.proto",
    "security/security.proto",
    "cosi/state.proto",
];

/// Messages that carry keys, tokens or whole machine configurations. Their `Debug` is written by hand, without the
/// contents.
const SECRET: &[&str] = &[
    ".common.Data",
    ".machine.ApplyConfigurationRequest",
    ".machine.ApplyConfiguration",
    ".machine.GenerateClientConfiguration",
    ".cosi.resource.Spec",
];

/// Generates the wire types, or with `--check` says whether the checked-in ones are stale.
pub fn run(words: &[String]) -> Result<()> {
    let check = match words {
        [] => false,
        [word] if word == "--check" => true,
        _ => bail!("usage: cargo run -p xtask -- protos [--check]"),
    };
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let checked_in = repository.join("crates/talos/src/wire/gen");
    let fresh = repository.join("target/xtask-protos");
    generate(&repository.join("crates/talos/proto"), &fresh)?;
    let (made, known) = (read_all(&fresh)?, read_all(&checked_in)?);
    if made == known {
        return Ok(());
    }
    if check {
        let stale: Vec<&str> = made
            .keys()
            .chain(known.keys().filter(|name| !made.contains_key(*name)))
            .filter(|name| made.get(*name) != known.get(*name))
            .map(String::as_str)
            .collect();
        bail!("wire types are stale ({}): run `cargo run -p xtask -- protos`", stale.join(", "));
    }
    empty(&checked_in)?;
    for (name, text) in &made {
        fs::write(checked_in.join(name), text).with_context(|| format!("write {name}"))?;
    }
    Ok(())
}

fn generate(protos: &Path, out: &Path) -> Result<()> {
    empty(out)?;
    let descriptors = protox::compile(ROOTS, [protos]).context("compile the .proto files")?;
    // The data of an event is found by the full name of its message.
    let mut named = tonic_prost_build::Config::new();
    named.enable_type_names();
    tonic_prost_build::configure()
        .build_transport(false)
        .generate_default_stubs(true)
        .emit_rerun_if_changed(false)
        .btree_map(".")
        .skip_debug(SECRET)
        // Skipping a message skips what is nested in it too.
        .enum_attribute(".machine.ApplyConfigurationRequest.Mode", "#[derive(Debug)]")
        .extern_path(".google.rpc", "crate::wire::rpc")
        .out_dir(out)
        .compile_fds_with_config(descriptors, named)
        .context("generate Rust from the .proto files")?;
    // An extern path keeps references to the package out of the other modules, but also skips the package itself.
    let status = protox::compile(["google/rpc/status.proto"], [protos]).context("compile google.rpc")?;
    tonic_prost_build::configure()
        .emit_rerun_if_changed(false)
        .out_dir(out)
        .compile_fds(status)
        .context("generate Rust for google.rpc")
}

fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))
}

fn read_all(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    if !folder.exists() {
        return Ok(files);
    }
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path: PathBuf = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // The generator leaves empty files for packages that it only refers to.
        if text.contains("pub ") {
            files.insert(name, text);
        }
    }
    Ok(files)
}
