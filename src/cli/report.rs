//! What commands say to people: lines, progress, and the summary at the end.

use std::fmt::Arguments;
use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::log::Appended;

/// Reasons that a summary repeats; the rest are counted.
const REASONS_SHOWN: usize = 10;

/// Where nobody watches a bar, a line says how far it is this often.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// A line for people, on standard error.
pub(super) fn line(text: Arguments<'_>) {
    // Nobody may be there to read it; that is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A line that is the result of a command, on standard output.
pub(super) fn result(text: Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// How far a long command is: a bar on a terminal, a line now and then elsewhere.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    what: &'static str,
    said_at: Instant,
}

impl Progress {
    /// Of a known total, or 0 where it is not known.
    pub(super) fn new(what: &'static str, total: u64) -> Self {
        let bar = if total == 0 {
            ProgressBar::no_length()
        } else {
            ProgressBar::new(total)
        };
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        let template = if total == 0 {
            "{msg} {human_pos} ({per_sec})"
        } else {
            "{msg} {wide_bar} {human_pos}/{human_len} ({per_sec})"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what);
        Self {
            bar,
            what,
            said_at: Instant::now(),
        }
    }

    pub(super) fn set(&mut self, position: u64) {
        self.bar.set_position(position);
        if self.bar.is_hidden() && self.said_at.elapsed() >= LINE_EVERY {
            self.said_at = Instant::now();
            line(format_args!("{}: {position}", self.what));
        }
    }

    pub(super) fn say(&self, text: &str) {
        self.bar.suspend(|| line(format_args!("{text}")));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// What became of input.
#[derive(Debug)]
pub(super) struct Summary {
    began: Instant,
    pub(super) read: u64,
    pub(super) published: u64,
    pub(super) duplicates: u64,
    refused: u64,
    notes: u64,
    reasons: Vec<String>,
}

impl Summary {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            read: 0,
            published: 0,
            duplicates: 0,
            refused: 0,
            notes: 0,
            reasons: Vec::new(),
        }
    }

    /// Counts a refusal, and keeps the first reasons.
    pub(super) fn refuse(&mut self, reason: String) {
        self.refused += 1;
        if self.reasons.len() < REASONS_SHOWN {
            self.reasons.push(reason);
        }
    }

    /// Counts a note, and says how many there were.
    pub(super) fn note(&mut self) -> u64 {
        self.notes += 1;
        self.notes
    }

    /// Counts what the log acknowledged.
    pub(super) fn count(&mut self, appended: Appended) {
        if appended.duplicate {
            self.duplicates += 1;
        } else {
            self.published += 1;
        }
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Says everything, on standard output.
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub(super) fn say(&self) {
        for reason in &self.reasons {
            result(format_args!("refused: {reason}"));
        }
        let more = self.refused.saturating_sub(self.reasons.len() as u64);
        if more > 0 {
            result(format_args!("refused: and {more} more"));
        }
        let seconds = self.began.elapsed().as_secs_f64();
        let Self {
            read,
            published,
            duplicates,
            refused,
            notes,
            ..
        } = self;
        let rate = *read as f64 / seconds.max(0.001);
        result(format_args!(
            "{read} read, {published} published, {duplicates} duplicates, {refused} refused, {notes} notes, {seconds:.1} s, {rate:.0} events/s"
        ));
        if *published == 0 && *duplicates > 0 && *refused == 0 {
            result(format_args!("nothing changed: the log had all of it"));
        }
    }
}
