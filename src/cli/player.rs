//! [`Player`]: publishes a simulated race day as its clock runs.

use std::collections::{BTreeSet, HashSet};

use events::{Envelope, Event};
use jiff::Timestamp;

use super::report::{Progress, Summary};
use crate::clock::sleep_until;
use crate::log::{Log, LogError, Outgoing, RACING};
use crate::shutdown::Shutdown;
use simulator::{Pace, RaceDay, script};

/// Maximum number of unacknowledged messages.
const WINDOW: usize = 256;

/// Whether the log already has events of a race day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum EarlierRun {
    None,
    /// An earlier run published it at this pace.
    At(Pace),
    /// The log has other races under the same numbers.
    Different,
}

/// When events are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PublishTiming {
    /// Each event at its time; events of the past at once.
    OnSchedule,
    /// All events at once.
    Immediate,
}

#[derive(Debug, Clone)]
pub(super) struct Player {
    log: Log,
    shutdown: Shutdown,
}

impl Player {
    pub(super) fn new(log: &Log, shutdown: &Shutdown) -> Self {
        Self {
            log: log.clone(),
            shutdown: shutdown.clone(),
        }
    }

    /// Looks in the log for an earlier run of a day at one of these speeds.
    pub(super) async fn earlier_run(
        &self,
        day: &RaceDay,
        speeds: &[f64],
    ) -> Result<EarlierRun, LogError> {
        let (begins, speed) = (Timestamp::UNIX_EPOCH, 1.0);
        let subject = subject(&first_card(day, &Pace { begins, speed }));
        let Some(card) = self.log.first(RACING, &subject).await? else {
            return Ok(EarlierRun::None);
        };
        let paces = speeds.iter().filter_map(|speed| pace(day, *speed, &card));
        Ok(paces.last().map_or(EarlierRun::Different, EarlierRun::At))
    }

    /// Publishes the events that the log does not have, until all are published or the process shuts down.
    pub(super) async fn play(
        &self,
        events: Vec<Envelope>,
        timing: PublishTiming,
        mut progress: Option<Progress>,
    ) -> anyhow::Result<Summary> {
        let mut summary = Summary::new();
        summary.read = events.len() as u64;
        let missing = self.missing(events).await?;
        summary.read -= missing.len() as u64;
        summary.duplicates = summary.read;
        let mut appender = self.log.appender(WINDOW);
        let mut registering = true;
        for envelope in missing {
            let due = envelope.time.timestamp();
            let registered = std::mem::replace(&mut registering, envelope.event.race().is_none());
            if registered && !registering {
                // `missing` relies on it: if the log has a race, it has all horses.
                appender.flush().await?;
            }
            if timing == PublishTiming::OnSchedule && due > Timestamp::now() {
                appender.flush().await?;
                tokio::select! {
                    () = sleep_until(due) => {}
                    () = self.shutdown.cancelled() => break,
                }
            }
            appender.append(Outgoing::from(&envelope)).await?;
            summary.read += 1;
            summary.count(appender.take_done());
            if let Some(progress) = &mut progress {
                progress.set(summary.read);
            }
        }
        summary.count(appender.finish().await?);
        Ok(summary)
    }

    /// The events that the log does not have: of each race those after the last one in the log, and the horses if the
    /// log has none of the races.
    async fn missing(&self, events: Vec<Envelope>) -> Result<Vec<Envelope>, LogError> {
        let of_races = events.iter().filter(|e| e.event.race().is_some());
        let subjects: BTreeSet<String> = of_races.map(subject).collect();
        let (mut last_ids, mut known_races) = (HashSet::new(), HashSet::new());
        for subject in subjects {
            last_ids.extend(self.log.last_id(RACING, &subject).await?);
        }
        let mut missing = Vec::new();
        for envelope in events.into_iter().rev() {
            let race = envelope.event.race();
            if last_ids.contains(&envelope.id) {
                known_races.extend(race.clone());
            }
            if race.map_or(known_races.is_empty(), |race| !known_races.contains(&race)) {
                missing.push(envelope);
            }
        }
        missing.reverse();
        Ok(missing)
    }
}

fn subject(envelope: &Envelope) -> String {
    envelope.event.subject().to_string()
}

/// A pace that begins in this second.
pub(super) fn pace_from_now(speed: f64) -> Pace {
    let now = Timestamp::now().as_second();
    let begins = Timestamp::from_second(now).unwrap_or(Timestamp::UNIX_EPOCH);
    Pace { begins, speed }
}

/// The pace of the run that published `card` as its first card; `None` if it was another day or another speed.
fn pace(day: &RaceDay, speed: f64, card: &[u8]) -> Option<Pace> {
    let time = Envelope::from_json(card).ok()?.time.timestamp();
    let pace = |begins| Pace { begins, speed };
    let offset = first_card(day, &pace(time)).time.timestamp() - time;
    let pace = pace(time - offset);
    (first_card(day, &pace).encode() == card).then_some(pace)
}

fn first_card(day: &RaceDay, pace: &Pace) -> Envelope {
    let is_card = |e: &Envelope| matches!(e.event, Event::RaceDeclared(_));
    let card = script(day, pace).into_iter().find(is_card);
    card.expect("a day has a race")
}
