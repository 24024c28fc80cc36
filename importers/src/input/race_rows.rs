//! [`RaceRows`]: what the rows of a file say of one race, and the result and the card that they make.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

use events::{
    DeclaredRunner, Event, FinishTime, HorseNo, Moment, Odds, ParseError, RUNNERS_MAX,
    RaceDeclared, RaceKey, ResultDeclared, ResultRunner, ResultStatus, Text,
};

use crate::hkjc::json::REVISION;
use crate::placing::Placing;
use crate::{Item, Location, sealed};

/// A race of which rows are being read.
#[derive(Debug)]
pub(crate) struct RaceRows {
    key: RaceKey,
    /// Its first row.
    place: Location,
    heading: Heading,
    runners: Vec<(Location, Runner)>,
}

/// What every row of a race says again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(crate) venue_name: Option<Text>,
    pub(crate) race_name: Text,
    /// Metres; 0 where it is not known.
    pub(crate) distance: u32,
    pub(crate) class: Text,
    pub(crate) going: Option<Text>,
    pub(crate) off_time: Option<Moment>,
}

/// A row: a runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Runner {
    pub(crate) horse_no: HorseNo,
    pub(crate) horse_name: Text,
    /// 0 where it is not known, as the draw and the weight.
    pub(crate) number: u16,
    pub(crate) placing: Placing,
    pub(crate) jockey: Text,
    pub(crate) trainer: Text,
    pub(crate) draw: u16,
    pub(crate) weight: u16,
    pub(crate) finish_time: Option<FinishTime>,
    pub(crate) win_odds: Option<Odds>,
    pub(crate) stakes: Option<u64>,
}

impl RaceRows {
    pub(crate) fn new(key: RaceKey, heading: Heading, place: Location) -> Self {
        Self {
            key,
            place,
            heading,
            runners: Vec::new(),
        }
    }

    /// Adds a row. The first to say something stands; what stands in the file twice counts once.
    pub(crate) fn add(
        &mut self,
        heading: &Heading,
        runner: Runner,
        place: &Location,
        said: &mut Vec<Item>,
    ) -> Result<(), String> {
        let Self { key, runners, .. } = self;
        if self.heading != *heading {
            let line = self.place.line;
            said.push(place.note(format!(
                "another name, distance, class or going of {key} than line {line}: that one stands"
            )));
        }
        match runners.iter().find(|(_, r)| r.horse_no == runner.horse_no) {
            Some((_, earlier)) if *earlier == runner => {}
            Some((earlier, _)) => {
                return Err(format!(
                    "{} stands in {key} already, on line {}, with other figures",
                    runner.horse_no, earlier.line
                ));
            }
            None if runners.len() >= RUNNERS_MAX => {
                return Err(format!("{key} has {RUNNERS_MAX} runners already"));
            }
            None => runners.push((place.clone(), runner)),
        }
        Ok(())
    }

    /// The result and then the card: so a race that is over does not come up as one to be run.
    fn events(self) -> Vec<Event> {
        let Self { key, heading, .. } = self;
        let mut runners: Vec<Runner> = self.runners.into_iter().map(|(_, r)| r).collect();
        // A reserve that was never called up is no runner of the card.
        let on_card = runners
            .iter()
            .filter(|r| r.number > 0 || r.placing.is_start());
        let card: Vec<DeclaredRunner> = on_card.map(Runner::declared).collect();
        runners.sort_by_key(|runner| runner.placing.position().unwrap_or(u16::MAX));
        let known = |text: &Text| (!text.is_empty()).then(|| text.clone());
        let result = ResultDeclared {
            date: key.date,
            venue: key.venue.clone(),
            race_number: key.race_number,
            venue_name: heading.venue_name.clone(),
            race_name: known(&heading.race_name),
            distance: (heading.distance > 0).then_some(heading.distance),
            going: heading.going.clone(),
            revision: REVISION,
            status: ResultStatus::Official,
            reason: None,
            runners: runners.into_iter().map(Runner::result).collect(),
        };
        let card = (!card.is_empty()).then_some(RaceDeclared {
            date: key.date,
            venue: key.venue,
            race_number: key.race_number,
            venue_name: heading.venue_name,
            race_name: heading.race_name,
            distance: heading.distance,
            class: heading.class,
            going: heading.going,
            off_time: heading.off_time,
            runners: card,
        });
        let result = std::iter::once(Event::ResultDeclared(result));
        result.chain(card.map(Event::RaceDeclared)).collect()
    }
}

impl Runner {
    fn result(self) -> ResultRunner {
        ResultRunner {
            horse_no: self.horse_no,
            horse_name: self.horse_name,
            number: (self.number > 0).then_some(self.number),
            position: self.placing.position(),
            outcome: self.placing.outcome().cloned(),
            jockey: self.jockey,
            trainer: self.trainer,
            finish_time: self.finish_time,
            win_odds: self.win_odds,
            stakes: self.stakes,
        }
    }

    fn declared(&self) -> DeclaredRunner {
        DeclaredRunner {
            horse_no: self.horse_no.clone(),
            horse_name: self.horse_name.clone(),
            number: self.number,
            jockey: self.jockey.clone(),
            trainer: self.trainer.clone(),
            draw: self.draw,
            weight: self.weight,
        }
    }
}

/// The races that were said in a call, so that one that comes again is noticed.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// The id of the result, and the file.
    by_race: HashMap<RaceKey, (String, Arc<Path>)>,
}

impl Said {
    /// Says a race whose rows have all been read.
    pub(crate) fn say(
        &mut self,
        format: &str,
        at: Result<Moment, ParseError>,
        race: RaceRows,
        said: &mut Vec<Item>,
    ) {
        let (key, place) = (race.key.clone(), race.place.clone());
        let at = match at {
            Ok(at) => at,
            Err(error) => return said.push(place.refused(error)),
        };
        let items: Vec<Item> = race
            .events()
            .into_iter()
            .map(|event| sealed(format, at, event, &place))
            .collect();
        let Some(Item::Event(result)) = items.first() else {
            return said.extend(items);
        };
        let file = Arc::clone(&place.file);
        match self.by_race.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert((result.id.clone(), file));
            }
            Entry::Occupied(mut entry) => {
                let (id, earlier) = entry.get();
                if *id == result.id {
                    // Said already: what comes of it is the same.
                } else if *earlier == file {
                    let reason = "this race was read before: its rows have to stand together";
                    return said.push(place.refused(reason));
                } else {
                    said.push(
                        place.note("this race was read before with other words: these stand"),
                    );
                }
                entry.insert((result.id.clone(), file));
            }
        }
        said.extend(items);
    }
}
