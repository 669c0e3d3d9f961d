//! The reference of commands, made from the command line's own description. It exists only in tests: one of them holds the
//! page in the repository against it, and writes it again when asked.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use crate::args::Cli;
use crate::exit::Exit;

fn page() -> String {
    let mut root = Cli::command();
    root.build();
    let mut out = String::from(
        "# Commands\n\nGenerated from the command line definition. `talosmith COMMAND --help` prints the same text, \
         `talosmith man` a manual page, and `talosmith completions SHELL` shell completions.\n",
    );
    out.push_str("\n## Options of every command\n\n");
    arguments(&mut out, root.get_arguments().filter(|arg| arg.is_global_set()));
    out.push_str("\n## Exit codes\n\n| code | meaning |\n| --: | --- |\n");
    for exit in Exit::ALL {
        let _ = writeln!(out, "| {} | {} |", exit.code(), cell(exit.meaning()));
    }
    section(&mut out, &root, "talosmith");
    out
}

fn section(out: &mut String, parent: &Command, path: &str) {
    for command in parent.get_subcommands().filter(|command| command.get_name() != "help") {
        let path = format!("{path} {}", command.get_name());
        let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
        let _ = write!(out, "\n## {path}\n\n{}\n", about.unwrap_or_default().replace('\n', " "));
        let positional: Vec<String> = command.get_positionals().map(usage).collect();
        if command.get_subcommands().next().is_none() {
            let words = [path.clone()].into_iter().chain(positional).collect::<Vec<_>>().join(" ");
            let _ = write!(out, "\n```sh\n{words} [OPTIONS]\n```\n");
        }
        let own: Vec<&Arg> = command
            .get_arguments()
            .filter(|arg| !arg.is_global_set() && !["help", "version"].contains(&arg.get_id().as_str()))
            .collect();
        if !own.is_empty() {
            out.push('\n');
            arguments(out, own.into_iter());
        }
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples: Vec<&str> =
            after.lines().filter(|line| line.starts_with("  talosmith ")).map(str::trim).collect();
        if !examples.is_empty() {
            let _ = write!(out, "\n```sh\n{}\n```\n", examples.join("\n"));
        }
        section(out, command, &path);
    }
}

/// A plain argument as usage lines show it.
fn usage(arg: &Arg) -> String {
    let name = value_name(arg);
    let many = if arg.get_num_args().is_some_and(|range| range.max_values() > 1) { "…" } else { "" };
    if arg.is_required_set() { format!("{name}{many}") } else { format!("[{name}{many}]") }
}

fn value_name(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    match names.first() {
        Some(name) => name.to_string(),
        None => arg.get_id().as_str().to_uppercase(),
    }
}

fn arguments<'a>(out: &mut String, args: impl Iterator<Item = &'a Arg>) {
    out.push_str("| option | default | meaning |\n| --- | --- | --- |\n");
    for arg in args.filter(|arg| !arg.is_hide_set()) {
        let mut forms: Vec<String> = Vec::new();
        forms.extend(arg.get_short().map(|short| format!("-{short}")));
        forms.extend(arg.get_long().map(|long| format!("--{long}")));
        if forms.is_empty() {
            forms.push(value_name(arg));
        } else if arg.get_action().takes_values()
            && let Some(last) = forms.last_mut()
        {
            let _ = write!(last, " {}", value_name(arg));
        }
        let forms: Vec<String> = forms.iter().map(|form| format!("`{form}`")).collect();
        let defaults: Vec<String> = match arg.get_action().takes_values() {
            true => arg
                .get_default_values()
                .iter()
                .map(|value| format!("`{}`", value.to_string_lossy()))
                .collect(),
            false => Vec::new(),
        };
        let mut meaning = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
        let choices: Vec<String> = match arg.get_action().takes_values() {
            true => arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect(),
            false => Vec::new(),
        };
        if !choices.is_empty() {
            let _ = write!(meaning, ". One of {}", choices.join(", "));
        }
        let _ =
            writeln!(out, "| {} | {} | {} |", forms.join(", "), cell(&defaults.join(", ")), cell(&meaning));
    }
}

fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

#[test]
fn the_page_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/commands.md");
    let page = page();
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/commands.md is not current: UPDATE_FIXTURES=1 cargo test -p talosmith the_page_is_current"
    );
}
