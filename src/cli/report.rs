//! Output for people: lines, progress, and the summary at the end.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use importers::Omitted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::log::Appended;

/// Reasons that a summary lists; further ones are only counted.
const REASONS_SHOWN: usize = 10;

/// Names of columns and fields without a place that a summary lists; others are counted together.
const OMITTED_NAMES_MAX: usize = 100;

/// Interval of progress lines where standard error is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The letters of Unicode that change the direction of others.
const DIRECTIONS: &str = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\
                          \u{2066}\u{2067}\u{2068}\u{2069}";

/// Writes a line to standard error.
pub(super) fn line(text: impl Display) {
    // A closed pipe is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{}", visible(&text.to_string()));
}

/// Writes a line of the command's result to standard output.
pub(super) fn result(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{}", visible(&text.to_string()));
}

/// Writes some fields of rows to standard output, as an aligned table with a heading.
pub(super) fn table(rows: impl Iterator<Item = Value>, columns: &str) {
    let columns: Vec<&str> = columns.split(' ').collect();
    let heading = columns.iter().map(|name| name.to_uppercase()).collect();
    let cells = rows.map(|row| columns.iter().map(|name| cell(&row[name])).collect());
    let table: Vec<Vec<String>> = std::iter::once(heading).chain(cells).collect();
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns.len()).filter_map(width).collect();
    for row in &table {
        let cells = row.iter().zip(&widths);
        let padded: Vec<_> = cells.map(|(cell, w)| format!("{cell:w$}")).collect();
        result(padded.join("  ").trim_end());
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A text in which what controls a terminal, or reverses how it is read, is written as in JSON. Feeders, files and
/// servers can put it into a message.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let is_hidden = c.is_control() && !['\n', '\t'].contains(&c) || DIRECTIONS.contains(c);
        if is_hidden {
            shown += &format!("\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The progress of a long command: a bar on a terminal, else a line every [`LINE_EVERY`].
pub(super) struct Progress {
    bar: ProgressBar,
    printed_at: Instant,
}

impl Progress {
    /// Starts at 0; a total of 0 means that it is unknown.
    pub(super) fn new(action: &'static str, total: u64) -> Self {
        let length = Some(total).filter(|total| *total > 0);
        let template = match length {
            None => "{msg} {human_pos} ({per_sec})",
            Some(_) => "{msg} {wide_bar} {human_pos}/{human_len} ({per_sec})",
        };
        let style = ProgressStyle::with_template(template).expect("a valid template");
        let target = ProgressDrawTarget::stderr_with_hz(5);
        let bar = ProgressBar::with_draw_target(length, target).with_style(style);
        bar.set_message(action);
        let printed_at = Instant::now();
        Self { bar, printed_at }
    }

    pub(super) fn set(&mut self, position: u64) {
        self.bar.set_position(position);
        if self.bar.is_hidden() && self.printed_at.elapsed() >= LINE_EVERY {
            self.printed_at = Instant::now();
            line(format_args!("{}: {position}", self.bar.message()));
        }
    }

    /// Writes a line to standard error, above the bar.
    pub(super) fn print(&self, text: &str) {
        self.bar.suspend(|| line(text));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// When a command began.
struct Began(Instant);

impl Default for Began {
    fn default() -> Self {
        Self(Instant::now())
    }
}

/// Counts of what a command read and published, from its start on.
#[derive(Default)]
pub(super) struct Summary {
    began: Began,
    pub(super) read: u64,
    pub(super) published: u64,
    pub(super) duplicates: u64,
    /// Published ones that the log had, until others replaced them.
    pub(super) restated: u64,
    /// Duplicates that are not in force.
    pub(super) outdated: u64,
    rejected: u64,
    pub(super) notes: u64,
    reasons: Vec<String>,
    omitted: Omitted,
}

impl Summary {
    /// Counts a rejected input, and keeps the first [`REASONS_SHOWN`] reasons.
    pub(super) fn reject(&mut self, reason: String) {
        self.rejected += 1;
        if self.reasons.len() < REASONS_SHOWN {
            self.reasons.push(reason);
        }
    }

    /// Counts values for which no event has a place. After [`OMITTED_NAMES_MAX`] names, others are counted together.
    pub(super) fn omit(&mut self, values: Omitted) {
        for (name, count) in values {
            let is_room = self.omitted.len() < OMITTED_NAMES_MAX;
            let name = match is_room || self.omitted.contains_key(&name) {
                true => name,
                false => "others".to_owned(),
            };
            *self.omitted.entry(name).or_default() += count;
        }
    }

    /// Counts acknowledged messages.
    pub(super) fn count(&mut self, acknowledged: impl IntoIterator<Item = Appended>) {
        for appended in acknowledged {
            if appended.duplicate {
                self.duplicates += 1;
            } else {
                self.published += 1;
            }
        }
    }

    /// Prints the summary to standard output. Returns a failure if some input was rejected.
    pub(super) fn print(&self) -> ExitCode {
        for reason in &self.reasons {
            result(format_args!("refused: {reason}"));
        }
        let more = self.rejected.saturating_sub(self.reasons.len() as u64);
        if more > 0 {
            result(format_args!("refused: and {more} more"));
        }
        let seconds = self.began.0.elapsed().as_secs_f64();
        let rate = self.read as f64 / seconds.max(0.001);
        result(format_args!(
            "{} read, {} published, {} duplicates, {} refused, {} notes, {seconds:.1} s, {rate:.0} events/s",
            self.read, self.published, self.duplicates, self.rejected, self.notes
        ));
        if !self.omitted.is_empty() {
            let names = self.omitted.iter();
            let names: Vec<String> = names.map(|(name, n)| format!("{name} {n}")).collect();
            result(format_args!("without a place: {}", names.join(", ")));
        }
        if self.restated > 0 {
            result(format_args!(
                "{} had been replaced in the log, and are stated again",
                self.restated
            ));
        }
        if self.outdated > 0 {
            result(format_args!(
                "{} are in the log, but a later statement of another source is in force",
                self.outdated
            ));
        }
        if self.rejected > 0 {
            return ExitCode::FAILURE;
        }
        if self.published == 0 && self.duplicates > 0 {
            result("nothing changed: the log had all of it");
        }
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn what_controls_a_terminal_is_shown() {
        assert_eq!(visible("a\tb\n"), "a\tb\n");
        assert_eq!(visible("\u{1b}[2J\r"), "\\u001b[2J\\u000d");
        assert_eq!(visible("\u{202e}desrever"), "\\u202edesrever");
        assert_eq!(visible("速度 Ünï"), "速度 Ünï");
    }
}
