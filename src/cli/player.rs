//! [`Player`]: publishes a made-up race day as its clock runs.

use std::collections::{BTreeSet, HashSet};

use events::{Envelope, Event, RaceKey, Subject};
use jiff::Timestamp;

use super::report::{Progress, Summary};
use crate::clock::sleep_until;
use crate::log::{Log, LogError, Outgoing, RACING};
use crate::shutdown::Shutdown;
use simulator::{Pace, RaceDay, script};

/// Messages under way at a time.
const WINDOW: usize = 256;

/// Whether the log has something of a race day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Begun {
    No,
    /// An earlier run began it at this pace.
    At(Pace),
    /// Its races are there, and are others.
    Otherwise,
}

/// When to publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Each event at its time; what is past, at once.
    AtItsTime,
    /// All of it.
    AtOnce,
}

/// Publishes a made-up race day as its clock runs.
#[derive(Debug, Clone)]
pub(super) struct Player {
    log: Log,
    ending: Shutdown,
}

impl Player {
    pub(super) fn new(log: &Log, ending: &Shutdown) -> Self {
        Self {
            log: log.clone(),
            ending: ending.clone(),
        }
    }

    /// Finds out whether an earlier run began a day, at one of these speeds.
    pub(super) async fn begun(&self, day: &RaceDay, speeds: &[f64]) -> Result<Begun, LogError> {
        let any_pace = Pace {
            begins: Timestamp::UNIX_EPOCH,
            speed: 1.0,
        };
        let subject = subject(&first_card(day, &any_pace));
        let Some(said) = self.log.first(RACING, &subject).await? else {
            return Ok(Begun::No);
        };
        let paces = speeds.iter().filter_map(|speed| pace(day, *speed, &said));
        Ok(paces.last().map_or(Begun::Otherwise, Begun::At))
    }

    /// Publishes what the log does not have of these events, to the end or until the process ends.
    pub(super) async fn play(
        &self,
        events: Vec<Envelope>,
        when: When,
        mut progress: Option<Progress>,
    ) -> anyhow::Result<Summary> {
        let mut summary = Summary::new();
        summary.read = events.len() as u64;
        let rest = self.unsaid(events).await?;
        summary.read -= rest.len() as u64;
        summary.duplicates = summary.read;
        let mut appender = self.log.appender(WINDOW);
        let mut registering = true;
        for envelope in rest {
            let due = envelope.time.timestamp();
            let registered = std::mem::replace(&mut registering, race(&envelope).is_none());
            if registered && !registering {
                // Where a race is in the log, so are all horses.
                appender.flush().await?;
            }
            if when == When::AtItsTime && due > Timestamp::now() {
                appender.flush().await?;
                tokio::select! {
                    () = sleep_until(due) => {}
                    () = self.ending.cancelled() => break,
                }
            }
            appender.append(Outgoing::from(&envelope)).await?;
            summary.read += 1;
            for appended in appender.take_done() {
                summary.count(appended);
            }
            if let Some(progress) = &mut progress {
                progress.set(summary.read);
            }
        }
        for appended in appender.finish().await? {
            summary.count(appended);
        }
        Ok(summary)
    }

    /// Those of these events that the log does not have: of each race what is behind the last that it has, and the horses
    /// if it has no race.
    async fn unsaid(&self, events: Vec<Envelope>) -> Result<Vec<Envelope>, LogError> {
        let of_races = events.iter().filter(|envelope| race(envelope).is_some());
        let subjects: BTreeSet<String> = of_races.map(subject).collect();
        let (mut last, mut said, mut unsaid) = (HashSet::new(), HashSet::new(), Vec::new());
        for subject in subjects {
            last.extend(self.log.last_id(RACING, &subject).await?);
        }
        for envelope in events.into_iter().rev() {
            let race = race(&envelope);
            if last.contains(&envelope.id) {
                said.extend(race.clone());
            }
            if race.map_or(said.is_empty(), |race| !said.contains(&race)) {
                unsaid.push(envelope);
            }
        }
        unsaid.reverse();
        Ok(unsaid)
    }
}

fn subject(envelope: &Envelope) -> String {
    envelope.event.subject().to_string()
}

/// The race that an event is about; none if it is a horse.
fn race(envelope: &Envelope) -> Option<RaceKey> {
    match envelope.event.subject() {
        Subject::Horse(_) => None,
        Subject::Race(race) | Subject::Result(race) | Subject::Odds(race) => Some(race),
    }
}

/// From this second on.
pub(super) fn from_now(speed: f64) -> Pace {
    let now = Timestamp::now().as_second();
    Pace {
        begins: Timestamp::from_second(now).unwrap_or(Timestamp::UNIX_EPOCH),
        speed,
    }
}

/// The pace of the run that published this card as its first, if it played this day at this speed.
fn pace(day: &RaceDay, speed: f64, said: &[u8]) -> Option<Pace> {
    let time = Envelope::from_json(said).ok()?.time.timestamp();
    let too_late = Pace {
        begins: time,
        speed,
    };
    let behind = first_card(day, &too_late).time.timestamp() - time;
    let pace = Pace {
        begins: time - behind,
        speed,
    };
    (first_card(day, &pace).encode() == said).then_some(pace)
}

fn first_card(day: &RaceDay, pace: &Pace) -> Envelope {
    let is_card = |e: &Envelope| matches!(e.event, Event::RaceDeclared(_));
    let card = script(day, pace).into_iter().find(is_card);
    card.expect("a day has a race")
}
