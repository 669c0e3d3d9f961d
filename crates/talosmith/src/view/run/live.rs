//! A line per node on a terminal, redrawn in place.
//!
//! The text of each line comes from the state; indicatif only keeps the lines where they are and draws the bars of
//! downloads. Failures are printed above the lines, where they stay. Where there are more lines than the terminal has, those
//! that failed or are at work are shown, and the others are counted in the last one.

use ambient::Clock;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::{SignedDuration, Timestamp};
use model::event::{Event, Outcome, What};

use super::super::error::causes;
use super::super::harmless::for_people;
use super::super::ink::{Ink, clean, duration};
use super::super::window::{plain_letters, wrap};
use super::state::{Row, RunState, Sign};
use super::words;

/// Frames of the sign of a line at work, one a redraw.
const FRAMES: [&str; 4] = ["-", "\\", "|", "/"];

/// The shortest time between two drawings.
const INTERVAL: SignedDuration = SignedDuration::from_millis(100);

/// The fewest lines that are of use, however small the terminal.
const FEWEST: usize = 5;

/// Columns that the bar of a download takes, with its number.
const BAR: usize = 33;

/// The lines on the terminal.
pub struct Live {
    lines: MultiProgress,
    bars: Vec<ProgressBar>,
    ink: Ink,
    frame: usize,
    width: usize,
    shown: Vec<String>,
    /// The terminal's own time, which in a lab is not the world's.
    clock: Clock,
    drawn: Option<Timestamp>,
    plain: ProgressStyle,
    filled: ProgressStyle,
}

impl Live {
    /// A line for each row, on stderr.
    pub fn new(rows: &[Row], ink: Ink, height: usize) -> Self {
        let lines = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let number = rows.len().min(height.max(FEWEST));
        let bars = (0..number)
            .map(|_| {
                let bar = lines.add(ProgressBar::new(100));
                bar.set_style(plain_style());
                bar
            })
            .collect();
        let shown = vec![String::new(); number];
        Self {
            lines,
            bars,
            ink,
            frame: 0,
            width,
            shown,
            clock: Clock::real(),
            drawn: None,
            plain: plain_style(),
            filled: bar_style(),
        }
    }

    /// Shows what an event changed. Says whether something was printed that stays.
    pub fn show(&mut self, state: &RunState, event: &Event) -> bool {
        let mut printed = true;
        match &event.what {
            What::StepFailed { code, causes: all, hint, .. } => {
                let title = self.ink.red(&words::failed(code));
                let mut text = Vec::new();
                // Writing to memory cannot fail.
                let _ = causes(&mut text, self.ink, &title, "", all, Some(hint));
                self.above(&String::from_utf8_lossy(&text));
            }
            What::StepDone { step, warnings, .. } if !warnings.is_empty() => {
                for warning in warnings {
                    let warning = format!("{}: {}", state.title(step), clean(warning));
                    self.above(&format!("{} {warning}", self.ink.yellow("warning:")));
                }
            }
            What::Interrupted => self.above(words::STOPPING),
            _ => printed = false,
        }
        self.redraw(state);
        printed
    }

    /// Takes the lines away.
    pub fn clear(&mut self) {
        // A terminal that went away is no reason to stop.
        let _ = self.lines.clear();
    }

    /// Prints something above the lines, where it stays.
    fn above(&self, text: &str) {
        let text = for_people(text, self.ink.colour);
        let text = wrap(text.trim_end(), self.ink.limit);
        let text = if self.ink.ascii { plain_letters(&text) } else { text };
        // A terminal that went away is no reason to stop.
        let _ = self.lines.println(text);
    }

    /// Draws every line again, unless that was done just now: more is not visible, and a hundred lines for each of a thousand events
    /// would take longer than the work that they tell of.
    pub fn redraw(&mut self, state: &RunState) {
        let now = self.clock.now();
        if self.drawn.is_none_or(|then| now.duration_since(then).abs() >= INTERVAL) {
            self.drawn = Some(now);
            self.draw(state);
        }
    }

    fn draw(&mut self, state: &RunState) {
        self.frame = (self.frame + 1) % FRAMES.len();
        let rows = fit(state.rows(), self.bars.len());
        for ((row, bar), shown) in rows.iter().zip(&self.bars).zip(&mut self.shown) {
            let text = line(self.ink, row, self.width, FRAMES[self.frame]);
            if *shown == text {
                continue;
            }
            // A bar only while the download runs: before and after it there is nothing to fill.
            let room = match row.percent {
                Some(percent) if row.sign == Sign::Working => {
                    bar.set_style(self.filled.clone());
                    bar.set_position(u64::from(percent));
                    self.ink.limit.saturating_sub(BAR)
                }
                _ => {
                    bar.set_style(self.plain.clone());
                    self.ink.limit
                }
            };
            bar.set_message(cut(self.ink, &text, room));
            *shown = text;
        }
    }

    /// Takes the lines away after a good end, because the summary says more; otherwise leaves them as they stand.
    pub fn finish(&mut self, state: &RunState) {
        self.draw(state);
        if matches!(state.ended(), Some((Outcome::Done, _))) {
            self.clear();
        } else {
            self.bars.iter().for_each(ProgressBar::abandon);
        }
    }
}

/// At most so many rows, the first always among them. Which of the others are shown goes by how much they tell; their
/// order stays.
fn fit(rows: Vec<Row>, number: usize) -> Vec<Row> {
    if rows.len() <= number {
        return rows;
    }
    let mut ranked: Vec<usize> = (1..rows.len()).collect();
    ranked.sort_by_key(|at| match rows[*at].sign {
        Sign::Failed => 0,
        Sign::Working => 1,
        Sign::Waiting => 2,
        Sign::Done => 3,
    });
    let (shown, counted) = ranked.split_at(number.saturating_sub(2).min(ranked.len()));
    let words = [
        (Sign::Failed, "failed"),
        (Sign::Working, "at work"),
        (Sign::Waiting, "waiting"),
        (Sign::Done, "done"),
    ];
    let counts: Vec<String> = words
        .into_iter()
        .map(|(sign, word)| (counted.iter().filter(|at| rows[**at].sign == sign).count(), word))
        .filter(|(number, _)| *number > 0)
        .map(|(number, word)| format!("{number} {word}"))
        .collect();
    let sign = if counted.iter().all(|at| rows[*at].sign == Sign::Done) { Sign::Done } else { Sign::Waiting };
    let text = format!("and {} more: {}", counted.len(), counts.join(", "));
    let rest = Row { name: String::new(), sign, text, millis: None, percent: None };
    let is_shown = |at: usize| at == 0 || shown.contains(&at);
    let kept = rows.into_iter().enumerate().filter(|(at, _)| is_shown(*at)).map(|(_, row)| row);
    kept.chain([rest]).collect()
}

fn plain_style() -> ProgressStyle {
    style("{wide_msg}")
}

fn bar_style() -> ProgressStyle {
    style("{wide_msg} [{bar:24}] {percent:>3} %").progress_chars("=> ")
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// One line: sign, name, for how long, what it is at.
fn line(ink: Ink, row: &Row, width: usize, frame: &str) -> String {
    let sign = match row.sign {
        Sign::Waiting => ink.dim("·"),
        Sign::Working => frame.to_owned(),
        Sign::Done => ink.green("✓"),
        Sign::Failed => ink.red("✗"),
    };
    let text = if row.sign == Sign::Waiting { ink.dim(&row.text) } else { row.text.clone() };
    // Before the text, so that a narrow terminal cuts words rather than the time.
    let time = ink.dim(&format!("{:>11}", row.millis.map(duration).unwrap_or_default()));
    let line = format!("{sign} {:<width$} {time}  {text}", row.name);
    let line = for_people(&line, ink.colour).into_owned();
    if ink.ascii { plain_letters(&line).into_owned() } else { line }
}

/// What fits into so many columns, and a sign where something is left out.
fn cut(ink: Ink, line: &str, room: usize) -> String {
    console::truncate_str(line, room, if ink.ascii { "..." } else { "…" }).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_cut_says_so() {
        assert_eq!(cut(Ink::PLAIN, "waits for its turn", 10), "waits for…");
        assert_eq!(cut(Ink::PLAIN, "waits", 10), "waits");
        assert_eq!(cut(Ink { ascii: true, ..Ink::PLAIN }, "waits for its turn", 10), "waits f...");
    }

    #[test]
    fn a_line_has_a_sign_a_name_a_stage_and_a_time() {
        let row = |sign, text: &str, millis| Row {
            name: "w1".into(),
            sign,
            text: text.into(),
            millis,
            percent: None,
        };
        let rows = [
            row(Sign::Waiting, "waits for: bootstrap etcd on c1", None),
            row(Sign::Working, "configuring: no answer yet", Some(12_000)),
            row(Sign::Done, "joined", Some(61_000)),
            row(Sign::Failed, "joining failed: no clock", None),
        ];
        let text: Vec<String> = rows.iter().map(|row| line(Ink::PLAIN, row, 4, "-")).collect();
        insta::assert_snapshot!(text.join("\n"), @"
        · w1                waits for: bootstrap etcd on c1
        - w1          12 s  configuring: no answer yet
        ✓ w1    1 min 01 s  joined
        ✗ w1                joining failed: no clock
        ");
    }

    #[test]
    fn a_hundred_nodes_fit_a_terminal() {
        let signs = [Sign::Done, Sign::Working, Sign::Waiting];
        let rows: Vec<Row> = (0..101)
            .map(|n| Row {
                name: format!("n{n}"),
                sign: if n == 77 { Sign::Failed } else { signs[n * 7 % 11 % 3] },
                text: "text".into(),
                millis: None,
                percent: None,
            })
            .collect();
        let fitted = fit(rows.clone(), 8);
        let text: Vec<String> = fitted.iter().map(|row| line(Ink::PLAIN, row, 4, "-")).collect();
        insta::assert_snapshot!(text.join("\n"), @"
        ✓ n0                text
        - n1                text
        - n3                text
        - n8                text
        - n10               text
        - n12               text
        ✗ n77               text
        ·                   and 94 more: 32 at work, 27 waiting, 35 done
        ");
        assert_eq!(fit(rows.clone(), 200), rows);
    }

    #[test]
    fn the_templates_are_sound() {
        for template in ["{wide_msg}", "{wide_msg} [{bar:24}] {percent:>3} %"] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
    }
}
