//! [`Player`]: publishes a simulated race day as its clock runs.

use std::collections::{BTreeSet, HashSet};

use events::{Envelope, Event};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use uuid::Uuid;

use super::report::{Progress, Summary};
use super::speed::Speed;
use crate::clock::sleep_until;
use crate::log::{Log, LogError, Outgoing, RACING};
use crate::shutdown::Shutdown;
use simulator::{Pace, RaceDay, publish_at, script};

/// Maximum number of subjects that are looked up in the log at a time.
const LOOKUPS: usize = 64;
/// Maximum number of messages about a race that are looked up: a feeder of a real race may share the subject.
const IDS_MAX: usize = 1_000_000;

/// Whether the log already has events of a race day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum EarlierRun {
    None,
    /// An earlier run published it at this pace.
    At(Pace),
    /// The log has other races under the same numbers.
    Different,
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
        let begins = Timestamp::UNIX_EPOCH;
        let speed = 1.0;
        let subject = subject(&first_card(day, &Pace { begins, speed }));
        let Some(card) = self.log.first(RACING, &subject).await? else {
            return Ok(EarlierRun::None);
        };
        let paces = speeds.iter().filter_map(|speed| pace(day, *speed, &card));
        Ok(paces.last().map_or(EarlierRun::Different, EarlierRun::At))
    }

    /// Publishes those events of a day that the log does not have, until all are published or the process shuts down.
    /// Each is published at its time, and those of the past at once; at full speed all are. Shows which of its sources
    /// are alive.
    pub(super) async fn play(
        &self,
        day: RaceDay,
        pace: Pace,
        events: Vec<Envelope>,
        speed: Speed,
        mut progress: Option<Progress>,
    ) -> anyhow::Result<Summary> {
        let mut summary = Summary::default();
        let alive = move || day.sources_alive(&pace, Timestamp::now());
        let _alive = self.log.show_alive(alive);
        summary.read = events.len() as u64;
        let missing = self.missing(events).await?;
        summary.read -= missing.len() as u64;
        summary.duplicates = summary.read;
        let mut appender = self.log.appender();
        for envelope in missing {
            let due = publish_at(&envelope);
            if speed != Speed::Max && due > Timestamp::now() {
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

    /// The events that the log does not have.
    async fn missing(&self, mut events: Vec<Envelope>) -> Result<Vec<Envelope>, LogError> {
        let subjects: BTreeSet<String> = events.iter().map(subject).collect();
        let logged = stream::iter(subjects)
            .map(|subject| async move {
                let id = |id: &str, _: &[u8]| id.parse::<Uuid>().ok();
                self.log.read_subject(RACING, &subject, IDS_MAX, id).await
            })
            .buffer_unordered(LOOKUPS);
        let logged: Vec<Uuid> = logged.try_concat().await?;
        let logged = HashSet::<Uuid>::from_iter(logged);
        events.retain(|envelope| !logged.contains(&envelope.message_id()));
        Ok(events)
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
