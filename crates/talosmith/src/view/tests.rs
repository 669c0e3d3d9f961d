//! What others write reaches no terminal, file or pull request as anything but letters, whichever view shows it.

use std::sync::{Arc, Mutex};

use engine::doctor::{Finding, Verdict as Found};
use model::plan::{Note, Refusal, RefusalCode};
use model::step::Action;

use super::plan::tests::{destroy_of_two, plan_of};
use super::*;
use crate::exit::Exit;

const HOSTILE: &str = "vm\u{1b}[2J\u{1b}[8m\u{9b}1A\u{202e}\r\nhome: nothing to do\u{7}";

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is printed to stdout and stderr together.
fn printed(color: bool, json: bool, print: impl FnOnce(&Printer)) -> String {
    let written = Written::default();
    let settings = Settings {
        stdout_is_terminal: color,
        stderr_is_terminal: color,
        colour: color,
        width: 100,
        height: 24,
        ascii: false,
        json,
        quiet: false,
    };
    print(&Printer::onto(settings, Box::new(written.clone()), Box::new(written.clone())));
    String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
}

fn hostile_plan() -> Plan {
    let mut plan = destroy_of_two();
    for step in &mut plan.steps {
        step.reason = HOSTILE.to_owned();
        if let Action::DeleteVm { node, vm, .. } | Action::StopVm { node, vm, .. } = &mut step.action {
            (*node, vm.host) = (HOSTILE.into(), HOSTILE.to_owned());
        }
    }
    plan.notes.push(Note { text: HOSTILE.to_owned() });
    plan
}

fn refused_plan() -> Plan {
    let mut plan = plan_of(vec![]);
    let text = || HOSTILE.to_owned();
    plan.refusals.push(Refusal { code: RefusalCode::ForeignMachine, why: text(), hint: text() });
    plan
}

#[test]
fn a14_no_view_lets_escapes_of_others_through() {
    let text = || HOSTILE.to_owned();
    let finding = Finding { what: text(), verdict: Found::Error, detail: text(), hint: vec![text()] };
    let problem = Problem::new(Exit::Systems, HOSTILE).hint(HOSTILE);
    type View<'a> = (&'a str, &'a dyn Fn(&Printer));
    let views: &[View<'_>] = &[
        ("plan", &|p| p.plan(&hostile_plan(), Verb::Destroy)),
        ("refused", &|p| p.plan(&refused_plan(), Verb::Apply)),
        ("markdown", &|p| p.markdown(&hostile_plan(), Verb::Destroy)),
        ("findings", &|p| p.findings(HOSTILE, std::slice::from_ref(&finding))),
        ("problem", &|p| p.problem(&problem)),
        ("say", &|p| p.say(HOSTILE)),
        ("note", &|p| p.note(HOSTILE)),
        ("ask", &|p| p.ask(HOSTILE)),
    ];
    for (name, view) in views {
        for (color, json) in [(false, false), (true, false), (false, true)] {
            let shown = printed(color, json, view);
            let rest = ["0", "1", "2", "1;31", "32", "33"]
                .iter()
                .fold(shown.clone(), |text, code| text.replace(&format!("\u{1b}[{code}m"), ""));
            let letters = if color { rest } else { shown.clone() };
            assert!(!letters.chars().any(|c| harmless::acts(c) && c != '\n'), "{name} {color}: {shown:?}");
            let forged = shown.lines().any(|line| line.starts_with("home: nothing to do"));
            assert!(!forged || matches!(*name, "say" | "note" | "ask"), "{name}: {shown}");
        }
    }
}

#[test]
fn a14_what_we_hand_over_ourselves_stays_as_it_is() {
    let kubeconfig = "a: 1\n\tb: \u{200b}é\n";
    assert_eq!(printed(false, false, |p| p.verbatim(kubeconfig)), kubeconfig);
}
