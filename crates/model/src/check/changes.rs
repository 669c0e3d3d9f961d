//! How running nodes are changed.

use crate::diagnostic::{Diagnostic, Path, codes};
use crate::policy::{self, Budget, Window, Zone};
use crate::spec::{self, Spec};

pub(super) fn check(spec: &Spec, found: &mut Vec<Diagnostic>) {
    let changes = &spec.changes;
    let path = |key: &str| Path::of(&["changes", key]);
    if Budget::read(&changes.workers.0).is_none() {
        let message = format!("`{}` cannot be a number of workers", changes.workers.0);
        let problem = Diagnostic::error(codes::BAD_BUDGET, message).at(path("workers"), "");
        found.push(problem.help("write a number from 1 on, or a percentage from `1%` to `100%`"));
    }
    for (key, text) in
        [("drain_timeout", &changes.drain_timeout.0), ("ready_timeout", &changes.ready_timeout.0)]
    {
        if policy::timeout(text).is_none() {
            found.push(duration(text, path(key), "from `1s` to `24h`"));
        }
    }
    if policy::soak(&changes.soak.0).is_none() {
        found.push(duration(&changes.soak.0, path("soak"), "from `0s` to `24h`"));
    }
    for (index, _) in changes.commands.iter().enumerate().filter(|(_, command)| command.trim().is_empty()) {
        let problem = Diagnostic::error(codes::EMPTY_COMMAND, "a command gate has no command");
        found.push(
            problem
                .at(path("commands").index(index), "")
                .help("write the command that must exit with 0, or take the entry out"),
        );
    }
    if let Some(window) = &changes.window {
        self::window(window, &path("window"), found);
    }
}

fn duration(text: &str, path: Path, range: &str) -> Diagnostic {
    Diagnostic::error(codes::BAD_DURATION, format!("`{text}` is not a length of time that fits here"))
        .at(path, "")
        .help(format!("write `90s`, `5m` or `1h`, {range}"))
}

fn window(window: &spec::Window, path: &Path, found: &mut Vec<Diagnostic>) {
    let before = found.len();
    for (key, text, latest) in [("from", &window.from, "23:59"), ("to", &window.to, "24:00")] {
        if policy::time(text).is_none_or(|_| key == "from" && text == "24:00") {
            let problem = Diagnostic::error(codes::BAD_WINDOW, format!("`{text}` is not a time of the day"));
            found.push(
                problem.at(path.key(key), "").help(format!("write hours and minutes, `00:00` to `{latest}`")),
            );
        }
    }
    if Zone::read(&window.time_zone).is_none() {
        let message = format!("`{}` cannot be a time zone", window.time_zone);
        let problem = Diagnostic::error(codes::BAD_TIME_ZONE, message).at(path.key("time_zone"), "");
        found
            .push(problem.help("write a name such as `Europe/Berlin`, an offset such as `+02:00`, or `UTC`"));
    }
    if found.len() == before && Window::read(window).is_none() {
        let message = format!("the window opens and closes at {}", window.from);
        let problem = Diagnostic::error(codes::BAD_WINDOW, message).at(path.key("to"), "");
        found.push(
            problem
                .at(path.key("from"), "")
                .help("for the whole day, write `from: \"00:00\"` and `to: \"24:00\"`"),
        );
    }
}
