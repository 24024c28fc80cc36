//! A season of events: horses, cards, moving odds, statuses and results, with the races of a meeting interleaved.
//!
//! The same parameters make the same events, byte for byte.

use events::{
    DeclaredRunner, Envelope, Event, FinishTime, Foaled, HorseNo, HorseRegistered, Moment, Odds,
    OddsQuoted, Outcome, QuotedRunner, RaceDeclared, RaceKey, RaceNumber, RaceStatus,
    RaceStatusChanged, RacingDate, ResultDeclared, ResultRunner, ResultStatus, RunnerWithdrawn,
    Text, VenueCode,
};
use jiff::{Timestamp, ToSpan, civil};

use crate::conformance::rng::Rng;

const RACES: u64 = 10;
const RUNNERS: u64 = 12;
/// A horse runs about once in ten meetings.
const STABLED: u64 = RACES * RUNNERS * 10;
/// Horses that change hands between two meetings.
const SOLD: u64 = 12;
/// Every fifth race loses a runner.
const WITHDRAWN_EVERY: u64 = 5;
/// Card, open, closed, off, finished, provisional and official result.
const FACTS: u64 = 7;
/// Quotes begin this long before the off, and become more frequent towards it.
const MARKET_MS: u64 = 4 * 3_600_000;
const BETWEEN_RACES_MS: u64 = 30 * 60_000;
/// The first race is off at 13:00 in Hong Kong; cards are out five hours earlier.
const FIRST_OFF: i8 = 5;
const FIRST_OFF_MS: u64 = FIRST_OFF as u64 * 3_600_000;

const WORDS: [&str; 16] = [
    "Lucky", "Golden", "Silent", "Brave", "Swift", "Royal", "Noble", "Happy", "Storm", "River",
    "Comet", "Dragon", "Tiger", "Thunder", "Harbour", "Summer",
];
const PEOPLE: [&str; 12] = [
    "A B Carter",
    "C Lam",
    "D Whyte",
    "E Moreira",
    "F Teetan",
    "G Purton",
    "H Bowman",
    "J Ho",
    "K Leung",
    "L Hewitson",
    "M Chadwick",
    "N Callan",
];

/// The registrations of horses.
pub(crate) fn horses(count: u64) -> impl Iterator<Item = Envelope> {
    let mut rng = Rng::new(1);
    (0..count).map(move |number| {
        let time = moment(day(0), 1 + number / 1000);
        envelope(&mut rng, time, registered(number, 0))
    })
}

/// The events of a season, in the order of the log.
pub(crate) fn season(events: u64, of_meeting: u64) -> impl Iterator<Item = Envelope> {
    let meetings = (events / of_meeting).max(1);
    let races = meetings * RACES;
    let other_facts = STABLED + meetings * SOLD + races * FACTS + races.div_ceil(WITHDRAWN_EVERY);
    let quotes = events.saturating_sub(other_facts);
    let mut rng = Rng::new(2);
    let registrations: Vec<_> = (0..STABLED)
        .map(|number| envelope(&mut rng, moment(day(0), 0), registered(number, 0)))
        .collect();
    registrations
        .into_iter()
        .chain((0..meetings).flat_map(move |meeting| {
            let mut rng = Rng::new(3 + meeting);
            let mut facts = Vec::new();
            let mut field: Vec<u64> = (0..STABLED).collect();
            rng.shuffle(&mut field);
            for sold in &field[..SOLD as usize] {
                facts.push((0, registered(*sold, 1 + meeting)));
            }
            for (index, runners) in (0..RACES).zip(field.chunks(RUNNERS as usize)) {
                let race = meeting * RACES + index;
                let quotes = quotes / races + u64::from(race < quotes % races);
                Race::new(meeting, index, runners).run(quotes, &mut rng, &mut facts);
            }
            facts.sort_by_key(|(at_ms, _)| *at_ms);
            let day = day(meeting);
            let dated = |(at_ms, event)| envelope(&mut rng, moment(day, at_ms), event);
            facts.into_iter().map(dated).collect::<Vec<_>>()
        }))
}

/// A meeting every third day.
fn day(meeting: u64) -> civil::Date {
    civil::date(2025, 9, 3) + (3 * meeting as i64).days()
}

fn moment(day: civil::Date, at_ms: u64) -> Moment {
    let midnight = day
        .to_zoned(jiff::tz::TimeZone::UTC)
        .map_or(Timestamp::UNIX_EPOCH, |zoned| zoned.timestamp());
    (midnight + (at_ms as i64).milliseconds()).into()
}

fn envelope(rng: &mut Rng, time: Moment, event: Event) -> Envelope {
    let random = u128::from(rng.next()) << 64 | u128::from(rng.next());
    let id = uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid();
    Envelope {
        id: id.to_string(),
        source: "bench".to_owned(),
        time,
        event,
    }
}

fn text(text: &str) -> Text {
    Text::parse(text).expect("a line of text")
}

fn horse_no(number: u64) -> HorseNo {
    HorseNo::parse(&format!("HK_20{}_{number:06}", 16 + number % 8)).expect("letters and digits")
}

fn horse_name(number: u64) -> Text {
    let word = |n: u64| WORDS[(n % WORDS.len() as u64) as usize];
    text(&format!("{} {} {number}", word(number), word(number / 16)).to_uppercase())
}

fn person(number: u64) -> Text {
    text(PEOPLE[(number % PEOPLE.len() as u64) as usize])
}

fn registered(number: u64, owners_before: u64) -> Event {
    let pick = |of: &[&str]| text(of[(number % of.len() as u64) as usize]);
    Event::HorseRegistered(HorseRegistered {
        horse_name: horse_name(number),
        country_of_origin: pick(&["AUS", "NZ", "IRE", "GB", "FR"]),
        colour: pick(&["Bay", "Brown", "Chestnut", "Grey"]),
        sex: pick(&["Gelding", "Horse", "Mare"]),
        foaled: Some(Foaled::Year(2016 + (number % 8) as i16)),
        trainer: person(number + owners_before),
        owner: text(&format!("Syndicate {}", number + owners_before)),
        stakes_currency: Some(text("HKD")),
        ..HorseRegistered::of(horse_no(number))
    })
}

/// A race of the season, from its card to its official result.
struct Race {
    date: RacingDate,
    venue: VenueCode,
    race_number: RaceNumber,
    off_ms: u64,
    withdrawn: bool,
    runners: Vec<u64>,
}

impl Race {
    fn new(meeting: u64, index: u64, runners: &[u64]) -> Self {
        let venue = if meeting.is_multiple_of(2) {
            "ST"
        } else {
            "HV"
        };
        Self {
            date: day(meeting).into(),
            venue: VenueCode::parse(venue).expect("a venue code"),
            race_number: RaceNumber::try_from(index as u16 + 1).expect("a race number"),
            off_ms: FIRST_OFF_MS + index * BETWEEN_RACES_MS,
            withdrawn: (meeting * RACES + index).is_multiple_of(WITHDRAWN_EVERY),
            runners: runners.to_vec(),
        }
    }

    fn run(&self, quotes: u64, rng: &mut Rng, facts: &mut Vec<(u64, Event)>) {
        facts.push((1, self.card()));
        facts.push((2, self.status(RaceStatus::Open)));
        facts.extend(self.quotes(quotes, rng));
        if self.withdrawn {
            facts.push((self.off_ms - MARKET_MS / 2, self.withdrawal()));
        }
        facts.push((self.off_ms, self.status(RaceStatus::Closed)));
        facts.push((self.off_ms + 1_000, self.status(RaceStatus::Off)));
        facts.push((self.off_ms + 90_000, self.status(RaceStatus::Finished)));
        let provisional = self.result(1, ResultStatus::Provisional);
        facts.push((self.off_ms + 120_000, provisional));
        let official = self.result(2, ResultStatus::Official);
        facts.push((self.off_ms + 480_000, official));
    }

    fn card(&self) -> Event {
        let runner = |(index, number): (usize, &u64)| DeclaredRunner {
            horse_name: horse_name(*number),
            number: index as u16 + 1,
            jockey: person(number + index as u64),
            trainer: person(*number),
            draw: 12 - index as u16,
            weight: 133 - index as u16,
            ..DeclaredRunner::of(horse_no(*number))
        };
        Event::RaceDeclared(RaceDeclared {
            race_name: text("THE RAILBIRD HANDICAP"),
            distance: 1200,
            class: text("Class 4"),
            going: Some(text("GOOD")),
            runners: self.runners.iter().enumerate().map(runner).collect(),
            ..RaceDeclared::of(self.key())
        })
    }

    fn key(&self) -> RaceKey {
        RaceKey {
            date: self.date,
            venue: self.venue.clone(),
            race_number: self.race_number,
        }
    }

    fn status(&self, status: RaceStatus) -> Event {
        Event::RaceStatusChanged(RaceStatusChanged {
            date: self.date,
            venue: self.venue.clone(),
            race_number: self.race_number,
            status,
            reason: None,
        })
    }

    fn withdrawal(&self) -> Event {
        Event::RunnerWithdrawn(RunnerWithdrawn {
            date: self.date,
            venue: self.venue.clone(),
            race_number: self.race_number,
            horse_no: horse_no(self.runners[11]),
            reason: Some(text("Lame")),
        })
    }

    /// The first quote prices all runners, each one after it one to four.
    fn quotes(&self, count: u64, rng: &mut Rng) -> Vec<(u64, Event)> {
        let mut times: Vec<u64> = (0..count)
            .map(|_| {
                let early = rng.below(1000).pow(3) * MARKET_MS / 1_000_000_000;
                self.off_ms - 1 - early
            })
            .collect();
        times.sort_unstable();
        let mut tenths: Vec<u64> = (0..RUNNERS).map(|_| 20 + rng.below(400)).collect();
        let quote = |(index, at_ms): (usize, u64)| {
            let all: Vec<usize> = (0..self.runners.len()).collect();
            let moved: Vec<usize> = if index == 0 {
                all
            } else {
                let first = rng.below(RUNNERS) as usize;
                let several = 1 + rng.below(2) * rng.below(4);
                (0..several as usize)
                    .map(|i| (first + 5 * i) % self.runners.len())
                    .collect()
            };
            let mut runner = |index: usize| {
                tenths[index] = (tenths[index] + rng.below(9))
                    .saturating_sub(4)
                    .clamp(11, 990);
                let price = |tenths: u64| Odds::from_thousandths(tenths as u32 * 100).ok();
                QuotedRunner {
                    horse_no: horse_no(self.runners[index]),
                    horse_name: None,
                    number: Some(index as u16 + 1),
                    win: price(tenths[index]),
                    place: price(10 + (tenths[index] - 10) / 3),
                    state: None,
                }
            };
            let runners = moved.into_iter().map(&mut runner).collect();
            let quoted = OddsQuoted {
                date: self.date,
                venue: self.venue.clone(),
                race_number: self.race_number,
                runners,
            };
            (at_ms, Event::OddsQuoted(quoted))
        };
        times.into_iter().enumerate().map(quote).collect()
    }

    fn result(&self, revision: u32, status: ResultStatus) -> Event {
        let runner = |(index, number): (usize, &u64)| {
            let ran = !(self.withdrawn && index == 11);
            ResultRunner {
                horse_name: horse_name(*number),
                number: Some(index as u16 + 1),
                position: ran.then_some(index as u16 + 1),
                outcome: (!ran).then(|| Outcome::parse("WV").expect("an outcome")),
                jockey: person(number + index as u64),
                trainer: person(*number),
                finish_time: ran
                    .then(|| FinishTime::from_hundredths(6_980 + 12 * index as u32).ok())
                    .flatten(),
                win_odds: ran
                    .then(|| Odds::from_thousandths(3_500 + 1_000 * index as u32).ok())
                    .flatten(),
                stakes: (index < 5).then(|| 600_000 / (index as u64 + 1)),
                ..ResultRunner::of(horse_no(*number))
            }
        };
        Event::ResultDeclared(ResultDeclared {
            status,
            runners: self.runners.iter().enumerate().map(runner).collect(),
            ..ResultDeclared::of(self.key(), revision)
        })
    }
}
