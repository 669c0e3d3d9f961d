//! Commands that look at nothing but the file.

use model::diagnostic::codes;

use super::setup::{ended, load_file};
use crate::args::Global;
use crate::exit::Exit;
use crate::view::{Printer, Problem};

/// Checks the file.
pub fn validate(global: &Global, printer: &Printer) -> Result<Exit, Problem> {
    ended(load_file(global, printer).map(|loaded| {
        if printer.is_json() {
            printer.diagnostics(&loaded.sources, &model::check::check(&loaded));
        } else {
            printer.say(&format!(
                "{} is good.",
                loaded.sources.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", ")
            ));
        }
        Exit::Done
    }))
}

/// Prints the schema.
pub fn schema(printer: &Printer) -> Exit {
    let text = serde_json::to_string_pretty(&model::spec::schema()).unwrap_or_default();
    printer.verbatim(&format!("{text}\n"));
    Exit::Done
}

/// Explains a code.
pub fn explain(code: &str, printer: &Printer) -> Result<Exit, Problem> {
    let code = code.to_ascii_uppercase();
    let Some(found) = codes::explain(&code) else {
        return Err(Problem::new(Exit::Usage, format!("there is no problem with the code {code}"))
            .remedy("the code stands in brackets behind `error` or `warning`, such as TS0101"));
    };
    let indented = |text: &str| text.trim_end().lines().map(|l| format!("    {l}\n")).collect::<String>();
    printer.verbatim(&format!(
        "{}: {}\n\n{}\n\nWrong:\n\n{}\nRight:\n\n{}",
        found.code,
        found.title,
        found.text.trim(),
        indented(found.bad),
        indented(found.good)
    ));
    Ok(Exit::Done)
}
