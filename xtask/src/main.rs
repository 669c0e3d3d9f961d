//! Generators and checks of the repository: `cargo run -p xtask -- SUBCOMMAND`.
//!
//! Each subcommand is a module of its own with one `run` that takes the words after the subcommand's name. A failure is an
//! error with its causes and exit code 1, so that a pipeline needs nothing but the command itself.

mod check;
mod conformance;
mod protos;
mod pve_schema;

use anyhow::bail;

const USAGE: &str = "usage: cargo run -p xtask -- check | protos [--check] | pve-schema [--check] | conformance [--all | --schema | --goldens]";

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((subcommand, rest)) = words.split_first() else { bail!("{USAGE}") };
    match subcommand.as_str() {
        "check" => check::run(rest),
        "conformance" => conformance::run(rest),
        "protos" => protos::run(rest),
        "pve-schema" => pve_schema::run(rest),
        other => bail!("there is no subcommand {other:?}\n{USAGE}"),
    }
}
