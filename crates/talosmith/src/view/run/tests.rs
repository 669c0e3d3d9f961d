//! One worker added, once well and once not, told in every form.

use std::sync::Arc;

use model::event::What;
use model::step::StepId;

use super::super::Settings;
use super::super::plan::tests::one_more;
use super::*;

fn event(at_millis: i64, what: What) -> Event {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    Event { at: begin + jiff::SignedDuration::from_millis(at_millis), what }
}

fn started(at: i64, step: &str, node: Option<&str>) -> Event {
    let what =
        What::StepStarted { step: StepId(step.into()), title: step.into(), node: node.map(Into::into) };
    event(at, what)
}

fn note(at: i64, step: &str, node: Option<&str>, note: &str, percent: Option<u8>) -> Event {
    let (step, node) = (StepId(step.into()), node.map(Into::into));
    event(at, What::StepProgress { step, node, note: note.into(), percent })
}

fn done(at: i64, step: &str, node: Option<&str>, millis: u64) -> Event {
    let (step, node) = (StepId(step.into()), node.map(Into::into));
    event(at, What::StepDone { step, node, millis, warnings: vec![] })
}

const REGISTER: &str = "register-schematic/default";
const DOWNLOAD: &str = "download-image/pve2/local/talos-v1.13.9-376567988ad3-nocloud-amd64.qcow2";
const W3: Option<&str> = Some("home-work-3");

fn beginning() -> Vec<Event> {
    vec![
        event(0, What::Started { cluster: "home".into(), verb: "apply".into(), steps: 7 }),
        started(0, REGISTER, None),
        done(400, REGISTER, None, 400),
        started(400, DOWNLOAD, None),
        note(400, DOWNLOAD, None, "downloading", Some(0)),
        note(2_000, DOWNLOAD, None, "12 of 98 MiB", Some(12)),
        note(3_000, DOWNLOAD, None, "20 of 98 MiB", Some(20)),
        note(9_000, DOWNLOAD, None, "60 of 98 MiB", Some(61)),
    ]
}

fn middle() -> Vec<Event> {
    vec![
        done(14_400, DOWNLOAD, None, 14_000),
        started(14_400, "create-vm/home-work-3", W3),
        note(15_000, "create-vm/home-work-3", W3, "creating the VM", None),
        done(26_400, "create-vm/home-work-3", W3, 12_000),
        started(26_400, "start-vm/home-work-3", W3),
        done(28_000, "start-vm/home-work-3", W3, 1_600),
        started(28_000, "configure/home-work-3", W3),
        note(29_000, "configure/home-work-3", W3, "waiting for the machine to answer", None),
        note(31_000, "configure/home-work-3", W3, "waiting for the machine to answer", None),
    ]
}

fn good_end() -> Vec<Event> {
    let health = event(
        105_000,
        What::StepDone {
            step: StepId("check-health".into()),
            node: None,
            millis: 2_000,
            warnings: vec!["clocks differ by\n 3 s".into()],
        },
    );
    vec![
        done(63_000, "configure/home-work-3", W3, 35_000),
        started(63_000, "join/home-work-3", W3),
        done(103_000, "join/home-work-3", W3, 40_000),
        started(103_000, "check-health", None),
        health,
        event(105_000, What::Ended { outcome: Outcome::Done, millis: 105_000 }),
    ]
}

fn bad_end() -> Vec<Event> {
    let causes = vec!["could not configure home-work-3".into(), "its UUID is another".into()];
    let hint = "free the address 10.25.150.23".into();
    let step = StepId("configure/home-work-3".into());
    let skipped = |step: &str, node: Option<&str>| {
        let because = StepId("configure/home-work-3".into());
        event(40_000, What::StepSkipped { step: StepId(step.into()), node: node.map(Into::into), because })
    };
    vec![
        event(
            40_000,
            What::StepFailed { step, node: W3.map(Into::into), code: "timed-out".into(), causes, hint },
        ),
        skipped("join/home-work-3", W3),
        skipped("check-health", None),
        event(40_000, What::Ended { outcome: Outcome::Failed, millis: 40_000 }),
    ]
}

fn fold(parts: &[Vec<Event>]) -> RunState {
    let mut state = RunState::new(&one_more());
    parts.iter().flatten().for_each(|event| state.see(event));
    state
}

fn rows(state: &RunState) -> String {
    let line = |row: state::Row| {
        format!("{:?} {} | {} | {:?} | {:?}", row.sign, row.name, row.text, row.millis, row.percent)
    };
    state.rows().into_iter().map(line).collect::<Vec<_>>().join("\n")
}

fn text(view: fn(&mut dyn Write, Ink, &RunState) -> io::Result<()>, state: &RunState) -> String {
    let mut text = Vec::new();
    view(&mut text, Ink::PLAIN, state).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn rows_tell_where_each_line_stands() {
    insta::assert_snapshot!(rows(&fold(&[])), @"
    Waiting home | 0 of 7 steps | None | None
    Waiting pve2:local | waits for: register schematic 376567988ad3 with the Image Factory | None | None
    Waiting home-work-3 | waits for: download talos-v1.13.9-376567988ad3-nocloud-amd64.qcow2 to local on pve2 | None | None
    ");
    insta::assert_snapshot!(rows(&fold(&[beginning()])), @"
    Working home | 1 of 7 steps | Some(9000) | None
    Working pve2:local | downloading: 60 of 98 MiB | Some(8600) | Some(61)
    Waiting home-work-3 | waits for: download talos-v1.13.9-376567988ad3-nocloud-amd64.qcow2 to local on pve2 | None | None
    ");
    let mut waiting = fold(&[beginning(), middle()]);
    waiting.tick(event(50_000, What::Interrupted).at);
    insta::assert_snapshot!(rows(&waiting), @"
    Working home | 4 of 7 steps | Some(50000) | None
    Done pve2:local | downloaded | Some(14400) | Some(100)
    Working home-work-3 | configuring: waiting for the machine to answer | Some(22000) | None
    ");
    insta::assert_snapshot!(rows(&fold(&[beginning(), middle(), good_end()])), @"
    Done home | 7 of 7 steps | Some(105000) | None
    Done pve2:local | downloaded | Some(14400) | Some(100)
    Done home-work-3 | joined | Some(103000) | None
    ");
    insta::assert_snapshot!(rows(&fold(&[beginning(), middle(), bad_end()])), @"
    Failed home | 4 of 7 steps | Some(40000) | None
    Done pve2:local | downloaded | Some(14400) | Some(100)
    Failed home-work-3 | configuring failed: its UUID is another | None | None
    ");
}

#[test]
fn plain_lines_say_nothing_twice() {
    let (mut state, mut plain) = (RunState::new(&one_more()), Plain::default());
    let mut lines = vec![];
    for event in [beginning(), middle(), bad_end()].concat() {
        state.see(&event);
        lines.extend(plain.lines(&state, &event));
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    0:00.0  home         apply: 7 steps
    0:00.0  home         registering the schematic
    0:00.4  home         schematic registered (0.4 s)
    0:00.4  pve2         downloading
    0:02.0  pve2         downloading: 12 of 98 MiB, 12 %
    0:09.0  pve2         downloading: 60 of 98 MiB, 61 %
    0:14.4  pve2         downloaded (14 s)
    0:14.4  home-work-3  creating the VM
    0:26.4  home-work-3  VM created (12 s)
    0:26.4  home-work-3  starting
    0:28.0  home-work-3  started (1.6 s)
    0:28.0  home-work-3  configuring
    0:29.0  home-work-3  configuring: waiting for the machine to answer
    0:40.0  home-work-3  failed[timed-out]: could not configure home-work-3
    0:40.0  home-work-3    because: its UUID is another
    0:40.0  home-work-3    hint: free the address 10.25.150.23
    "#);
}

#[test]
fn the_summary_says_where_the_time_went() {
    insta::assert_snapshot!(text(summary, &fold(&[beginning(), middle(), good_end()])), @"
    warning: check that the cluster is healthy: clocks differ by 3 s
    Apply complete in 1 min 45 s: 7 of 7 steps.
    Most of the time went into:
              40 s  wait for home-work-3 to join
              35 s  configure home-work-3
              14 s  download talos-v1.13.9-376567988ad3-nocloud-amd64.qcow2 to local on pve2
    ");
}

#[test]
fn a_command_of_two_words_is_named_as_it_is_typed() {
    let verb = "host-drain".to_owned();
    let started = vec![event(0, What::Started { cluster: "home".into(), verb, steps: 1 })];
    assert_eq!(fold(&[started]).completed(), "Host drain complete");
}

#[test]
fn a_failed_run_repeats_each_failure_once() {
    let state = fold(&[beginning(), middle(), bad_end()]);
    insta::assert_snapshot!(text(failures, &state) + &text(summary, &state), @"
    failed[timed-out]: could not configure home-work-3
      because: its UUID is another
      hint: free the address 10.25.150.23
    Failed after 40 s: 4 of 7 steps done, 1 failed, 2 not started. Run the same command again to continue.
    ");
}

#[test]
fn what_was_at_work_when_it_was_stopped_took_the_time() {
    let end = vec![
        event(9_100, What::Interrupted),
        event(9_200, What::Ended { outcome: Outcome::Interrupted, millis: 9_200 }),
    ];
    insta::assert_snapshot!(text(summary, &fold(&[beginning(), end])), @"
    Stopped after 9.2 s: 1 of 7 steps done. Run the same command again to continue.
    Most of the time went into:
             8.8 s  download talos-v1.13.9-376567988ad3-nocloud-amd64.qcow2 to local on pve2
    ");
}

/// Someone took over: that is no failure to mend, and not ours to go on with.
fn taken_over() -> Vec<Event> {
    let lost = What::StepFailed {
        step: StepId("lease".into()),
        node: None,
        code: "busy".into(),
        causes: vec!["kim@laptop took over the lease".into()],
        hint: "nothing more is changed by this run; `talosmith status` shows its state".into(),
    };
    vec![event(40_000, lost), event(40_000, What::Ended { outcome: Outcome::Failed, millis: 40_000 })]
}

#[test]
fn a_run_that_was_taken_over_does_not_ask_to_be_repeated() {
    insta::assert_snapshot!(text(summary, &fold(&[beginning(), middle(), taken_over()])), @"
    Stopped after 40 s: 4 of 7 steps done. Another operator is changing the cluster now.
    ");
}

#[test]
fn a_failure_that_was_just_shown_is_not_shown_again() {
    let told = |events: &[Vec<Event>], quiet| {
        let (out, err) = printed(events, false, quiet);
        (out + &err).matches("kim@laptop took over the lease").count()
    };
    assert_eq!(told(&[beginning(), middle(), taken_over()], false), 1);
    assert_eq!(told(&[beginning(), middle(), taken_over()], true), 1, "nothing was shown before");
    let mut later = taken_over();
    later.insert(1, done(40_100, "configure/home-work-3", W3, 12_000));
    assert_eq!(told(&[beginning(), middle(), later], false), 2, "something else stands below it");
}

/// A writer that others can look into.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn printed(events: &[Vec<Event>], json: bool, quiet: bool) -> (String, String) {
    let (out, err) = (Shared::default(), Shared::default());
    let settings = Settings {
        stdout_is_terminal: false,
        stderr_is_terminal: false,
        colour: true,
        width: 100,
        height: 24,
        ascii: false,
        json,
        quiet,
    };
    let printer = Printer::onto(settings, Box::new(out.clone()), Box::new(err.clone()));
    let view = printer.run(&one_more(), false);
    events.iter().flatten().for_each(|event| view.see(event));
    view.finish();
    let text = |shared: Shared| String::from_utf8(shared.0.lock().unwrap().clone()).unwrap();
    (text(out), text(err))
}

#[test]
fn programs_get_every_event_and_nothing_else() {
    let (out, err) = printed(&[beginning(), middle(), good_end()], true, false);
    let events: Vec<Event> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events, [beginning(), middle(), good_end()].concat());
    assert_eq!(err, "");
}

#[test]
fn a_quiet_run_prints_its_summary_only() {
    let (out, err) = printed(&[beginning(), middle(), good_end()], false, true);
    assert!(out.contains("Apply complete in 1 min 45 s"), "{out}");
    assert_eq!(err, "");
    let (_, err) = printed(&[beginning(), middle(), good_end()], false, false);
    assert!(err.contains("home-work-3  joined"), "{err}");
}

/// Off a terminal a wait that says nothing new is still heard of.
#[test]
fn f10_a_quiet_wait_is_told_every_thirty_seconds() {
    let at = |seconds: i64| event(seconds * 1000, What::Interrupted).at;
    let mut state = fold(&[beginning(), middle()]);
    let mut pulse = Pulse::default();
    pulse.shown(at(31));
    assert_eq!(pulse.next(at(40)), Duration::from_millis(20_500));
    state.tick(at(60));
    assert!(!pulse.is_due(at(60)));
    assert!(pulse.is_due(at(61)));
    state.tick(at(61));
    let waiting = state.waiting().unwrap();
    assert_eq!(
        plain::still(&state, &waiting),
        "  1:01.0  home-work-3  still configuring after 33 s: waiting for the machine to answer"
    );
    let json = serde_json::to_string(&Event { at: at(61), what: waiting }).unwrap();
    assert_eq!(
        json,
        r#"{"at":"2026-01-01T00:01:01Z","event":"waiting","step":"configure/home-work-3","node":"home-work-3","note":"waiting for the machine to answer","millis":33000,"others":0}"#
    );
    // Before the first step, too: the run waits for the lease.
    let lease = fold(&[vec![note(0, "lease", None, "waiting for the lease of anna", None)]]);
    assert!(
        plain::still(&lease, &lease.waiting().unwrap())
            .ends_with("home         still waiting: waiting for the lease of anna")
    );
    assert_eq!(fold(&[beginning(), middle(), good_end()]).waiting(), None);
}

#[test]
fn i16_a_machine_that_is_not_proved_is_not_a_reason_to_run_again() {
    let failed = |code: &str| {
        let mut state = fold(&[beginning(), middle(), bad_end()]);
        let step = StepId("configure/home-work-3".into());
        let (causes, hint) = (vec!["not proved".into()], "nothing was sent to it".into());
        state.see(&event(
            40_000,
            What::StepFailed { step, node: W3.map(Into::into), code: code.into(), causes, hint },
        ));
        text(summary, &state)
    };
    assert!(failed("timed-out").contains("Run the same command again to continue."));
    let said = failed("machine-identity");
    assert!(!said.contains("Run the same command again"), "{said}");
    assert!(said.contains("Read the reason before you run the command again."), "{said}");
}

/// The end of the operator's time: one step was waiting, the others were not started. Nothing failed.
fn time_is_over(step: &str, node: Option<&str>) -> Vec<Event> {
    let late = What::StepFailed {
        step: StepId(step.into()),
        node: node.map(Into::into),
        code: "timeout".into(),
        causes: vec!["configure home-work-3: not finished".into()],
        hint: "run the command again to continue".into(),
    };
    vec![event(40_000, late), event(40_000, What::Ended { outcome: Outcome::Failed, millis: 40_000 })]
}

#[test]
fn left_4_what_a_timeout_leaves_is_not_called_failed() {
    let state = fold(&[beginning(), middle(), time_is_over("configure/home-work-3", W3)]);
    assert_eq!(state.counts(), Counts { total: 7, done: 4, failed: 0, unfinished: 1 });
    insta::assert_snapshot!(text(failures, &state) + &text(summary, &state), @"
    timeout: configure home-work-3: not finished
      hint: run the command again to continue
    Stopped after 40 s, when `--timeout` expired: 4 of 7 steps done, 1 not finished, 2 not started. Run the same command again to continue.
    ");
    assert!(!rows(&state).contains("failed"), "{}", rows(&state));
    // Nothing ran when the time was over, or the lease was not acquired: the event is about no step of the plan.
    for step in ["timeout", "lease"] {
        let state = fold(&[beginning()[..3].to_vec(), time_is_over(step, None)]);
        assert_eq!(state.counts(), Counts { total: 7, done: 1, failed: 0, unfinished: 0 });
        let said = text(summary, &state);
        assert!(said.contains("1 of 7 steps done, 6 not started."), "{said}");
    }
    // What Proxmox goes on with was started.
    let mut end = time_is_over("timeout", None);
    end.remove(0);
    let state = fold(&[beginning(), end]);
    assert_eq!(state.counts(), Counts { total: 7, done: 1, failed: 0, unfinished: 1 });
    // A step that failed before is one that failed.
    let mut both = bad_end();
    both.truncate(1);
    let state = fold(&[beginning(), middle(), both, time_is_over("timeout", None)]);
    let said = text(summary, &state);
    assert!(said.starts_with("Failed after 40 s: 4 of 7 steps done, 1 failed, 2 not started."), "{said}");
}

#[test]
fn x2_10_what_waits_at_the_gate_is_waiting() {
    let waits = note(5_000, "configure/home-work-3", W3, "home-work-1 is being disrupted", None);
    let state = fold(&[beginning()[..1].to_vec(), vec![waits.clone()]]);
    assert!(rows(&state).contains("waiting: home-work-1 is being disrupted"), "{}", rows(&state));
    let lines = Plain::default().lines(&state, &waits);
    assert!(lines[0].ends_with("home-work-3  waiting: home-work-1 is being disrupted"), "{lines:?}");
    let still = plain::still(&state, &state.waiting().unwrap());
    assert!(still.ends_with("still waiting after 0.0 s: home-work-1 is being disrupted"), "{still}");
}
