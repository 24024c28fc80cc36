//! [`LoggedRaces`]: refuses races that the log has under another number, or whose number it has for another race.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use events::{Envelope, Event, HorseNo, Moment, RaceKey, RaceNumber, RacingDate, Text, VenueCode};
use jiff::tz::TimeZone;

use crate::log::{Log, LogError, RACING};

/// Meetings in memory, of about 20 KB: those of a month in Britain.
const MEETINGS_MAX: usize = 500;
/// Cards, results and changes of one meeting.
const EVENTS_MAX: usize = 100_000;

/// The races of a meeting.
type MeetingRaces = BTreeMap<RaceNumber, RaceIdentity>;

/// The races of the log at the meetings of an import whose files have no race numbers. Such a race has a number only by
/// the races around it, so the parts of a meeting would all begin with race 1.
#[derive(Default)]
pub(super) struct LoggedRaces {
    meetings: HashMap<(RacingDate, VenueCode), MeetingRaces>,
    /// The races of the import, and whether they are refused.
    refused: HashMap<RaceKey, bool>,
}

impl LoggedRaces {
    /// Removes the events of refused races. Returns why, once for each race.
    ///
    /// # Errors
    /// As [`Log::read_subject`].
    pub(super) async fn refuse(
        &mut self,
        log: &Log,
        events: &mut Vec<Envelope>,
    ) -> Result<Vec<String>, LogError> {
        let mut races: BTreeMap<RaceKey, RaceIdentity> = BTreeMap::new();
        for event in events.iter().map(|event| &event.event) {
            if let Some(key) = event.race().filter(|key| !self.refused.contains_key(key)) {
                races.entry(key).or_default().add(event);
            }
        }
        let mut reasons = Vec::new();
        for (key, race) in races.into_iter().filter(|(_, race)| race.is_known()) {
            let reason = conflict(self.meeting(log, &key).await?, &key, &race);
            self.refused.insert(key, reason.is_some());
            reasons.extend(reason);
        }
        let is_refused = |key: RaceKey| self.refused.get(&key) == Some(&true);
        events.retain(|event| !event.event.race().is_some_and(is_refused));
        Ok(reasons)
    }

    async fn meeting(&mut self, log: &Log, key: &RaceKey) -> Result<&MeetingRaces, LogError> {
        if self.meetings.len() >= MEETINGS_MAX {
            self.meetings.clear();
        }
        match self.meetings.entry((key.date, key.venue.clone())) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => Ok(unknown.insert(read_meeting(log, key).await?)),
        }
    }
}

/// The races of a meeting in the log.
async fn read_meeting(log: &Log, key: &RaceKey) -> Result<MeetingRaces, LogError> {
    let mut races = MeetingRaces::new();
    for kind in ["race", "result"] {
        let subject = format!("racing.{kind}.{}.{}.*", key.date, key.venue);
        let read = |_: &str, payload: &[u8]| Envelope::from_json(payload).ok();
        for event in log.read_subject(RACING, &subject, EVENTS_MAX, read).await? {
            if let Some(key) = event.event.race() {
                races.entry(key.race_number).or_default().add(&event.event);
            }
        }
    }
    races.retain(|_, race| race.is_known());
    Ok(races)
}

/// Why a race cannot have its number.
fn conflict(meeting: &MeetingRaces, key: &RaceKey, race: &RaceIdentity) -> Option<String> {
    let number = key.race_number;
    let logged = meeting.get(&number);
    if logged.is_some_and(|logged| logged.is_same(race)) {
        return None;
    }
    let venue = match race.venue_name.as_str() {
        "" => key.venue.as_str(),
        name => name,
    };
    let at = format!("{venue} on {}", key.date);
    let elsewhere = meeting.iter().find(|(_, logged)| logged.is_same(race));
    let difference = match (elsewhere, logged) {
        (Some((other, _)), _) => {
            format!(
                "the {race} is race {other} of {at} in the log, and race {number} in this import"
            )
        }
        (None, Some(logged)) => {
            let are_others = logged.runners.is_disjoint(&race.runners);
            let runners = are_others.then_some(", with other runners");
            let runners = runners.unwrap_or_default();
            format!(
                "race {number} of {at} is the {logged} in the log, and the {race} in this import{runners}"
            )
        }
        (None, None) => return None,
    };
    Some(format!(
        "{difference}; import all races of the meeting together"
    ))
}

/// What races are recognised by.
#[derive(Debug, Default)]
struct RaceIdentity {
    venue_name: Text,
    name: Text,
    off_time: Option<Moment>,
    time_zone: Option<Text>,
    runners: BTreeSet<HorseNo>,
}

impl RaceIdentity {
    /// Adds a later event about the race.
    fn add(&mut self, event: &Event) {
        let known = |text: &mut Text, later: Option<&Text>| {
            if let Some(later) = later.filter(|later| !later.is_empty()) {
                *text = later.clone();
            }
        };
        match event {
            Event::RaceDeclared(card) => {
                known(&mut self.venue_name, card.venue_name.as_ref());
                known(&mut self.name, Some(&card.race_name));
                if card.off_time.is_some() {
                    (self.off_time, self.time_zone) = (card.off_time, card.time_zone.clone());
                }
                let runners = card.runners.iter();
                self.runners.extend(runners.map(|r| r.horse_no.clone()));
            }
            Event::ResultDeclared(result) => {
                known(&mut self.venue_name, result.venue_name.as_ref());
                known(&mut self.name, result.race_name.as_ref());
                let runners = result.runners.iter();
                self.runners.extend(runners.map(|r| r.horse_no.clone()));
            }
            // The number is free for another race.
            Event::ResultVoided(_) => *self = Self::default(),
            _ => {}
        }
    }

    fn is_known(&self) -> bool {
        !self.runners.is_empty()
    }

    /// Whether two races are one: they share a runner, and the off time or the name, which may be corrected. A horse
    /// may run in two heats.
    fn is_same(&self, other: &Self) -> bool {
        let off_times = self.off_time.zip(other.off_time);
        let off_times = off_times.map(|(one, two)| one == two);
        let is_named = !self.name.is_empty() && !other.name.is_empty();
        let names = is_named.then(|| self.name == other.name);
        let known = Vec::from_iter(off_times.into_iter().chain(names));
        let are_equal = known.is_empty() || known.contains(&true);
        are_equal && !self.runners.is_disjoint(&other.runners)
    }
}

impl fmt::Display for RaceIdentity {
    /// `13:45 (Lantern Handicap)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(off_time) = self.off_time else {
            return write!(f, "{:?}", self.name.as_str());
        };
        let zone = self.time_zone.as_ref().map_or("UTC", Text::as_str);
        let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
        let clock = off_time.timestamp().to_zoned(zone);
        write!(f, "{} ({})", clock.strftime("%H:%M"), self.name)
    }
}
