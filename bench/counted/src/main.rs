//! Work in memory and in one thread, on the race days of the simulator. `bench/run instructions` counts its
//! instructions.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use events::{Envelope, Event, Moment, RacingDate};
use jiff::Timestamp;
use projections::{BATCH_MESSAGES_MAX, LogIdentity, Projection, Store, StoredMessage};
use simulator::{RaceDay, script};

/// As the service has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Days of two meetings. A horse runs on more than one: it has a form.
const DAYS: [&str; 3] = ["2026-11-21", "2026-11-22", "2026-11-23"];
const RACES: u16 = 8;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Work {
    /// Decode and validate every event.
    Decode,
    /// Fold the quotes of runners, after the cards.
    Odds,
    /// Fold the results, after the cards.
    Results,
}

#[derive(Debug, Parser)]
struct Cli {
    #[arg(value_enum)]
    work: Work,
    /// An empty folder for the store.
    #[arg(long)]
    data: PathBuf,
}

/// A message of the log: its time, subject and payload.
type Message = (Moment, String, Vec<u8>);

/// Prints the number of events.
fn main() -> anyhow::Result<()> {
    let Cli { work, data } = Cli::parse();
    let envelopes = DAYS
        .map(day)
        .into_iter()
        .collect::<anyhow::Result<Vec<_>>>()?;
    let is_counted = |event: &Event| match work {
        Work::Decode => true,
        Work::Odds => matches!(event, Event::OddsQuoted(_)),
        Work::Results => matches!(event, Event::ResultDeclared(_)),
    };
    let is_card =
        |event: &Event| matches!(event, Event::HorseRegistered(_) | Event::RaceDeclared(_));
    let messages = |is_taken: &dyn Fn(&Event) -> bool| -> Vec<Message> {
        let taken = envelopes
            .iter()
            .flatten()
            .filter(|envelope| is_taken(&envelope.event));
        taken
            .map(|envelope| {
                (
                    envelope.time,
                    envelope.event.subject().to_string(),
                    envelope.encode(),
                )
            })
            .collect()
    };
    let counted_messages = messages(&is_counted);
    if work == Work::Decode {
        counted(&mut || {
            for (_, subject, payload) in &counted_messages {
                black_box(Envelope::decode(subject, payload)).ok();
            }
            Ok(())
        })?;
    } else {
        let log = LogIdentity {
            name: "bench".to_owned(),
            created: String::new(),
        };
        let mut projection = Projection::new(Arc::new(Store::open(&data)?), log);
        fold(&mut projection, &messages(&is_card))?;
        counted(&mut || fold(&mut projection, &counted_messages))?;
    }
    println!("{}", counted_messages.len());
    Ok(())
}

fn day(date: &str) -> anyhow::Result<Vec<Envelope>> {
    let date = RacingDate::parse(date)?;
    let midnight: Timestamp = format!("{date}T00:00:00Z")
        .parse()
        .context("a date has a midnight")?;
    let day = RaceDay::new(date, RACES, 1);
    Ok(script(&day, &day.as_in_life(midnight)))
}

fn fold(projection: &mut Projection, messages: &[Message]) -> anyhow::Result<()> {
    let mut seq = projection.checkpoint().seq;
    for batch in messages.chunks(BATCH_MESSAGES_MAX) {
        let messages = batch.iter().map(|(recorded_at, subject, payload)| {
            seq += 1;
            StoredMessage {
                seq,
                recorded_at: *recorded_at,
                subject,
                payload,
            }
        });
        projection.step(messages, false)?;
    }
    Ok(())
}

/// `bench/instructions.py` names this function to valgrind.
#[inline(never)]
fn counted(work: &mut dyn FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
    work()
}
