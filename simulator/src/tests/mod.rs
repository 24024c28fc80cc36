mod dividends;
mod prices;
mod races;
mod sources;

use std::collections::{BTreeMap, HashMap, HashSet};

use events::{
    Envelope, Event, HorseNo, HorseRegistered, Moment, PriceState, RaceKey, RaceStatus, RacingDate,
    Subject,
};
use jiff::Timestamp;
use proptest::prelude::*;

use crate::{Pace, RACES_MAX, RaceDay, publish_at, script};

/// Midnight in Hong Kong.
const MIDNIGHT: &str = "2026-11-20T16:00:00Z";

fn midnight() -> Timestamp {
    MIDNIGHT.parse().expect("a time")
}

fn day(races: u16, seed: u64) -> RaceDay {
    RaceDay::new(
        RacingDate::parse("2026-11-21").expect("a date"),
        races,
        seed,
    )
}

fn in_life(day: &RaceDay) -> Vec<Envelope> {
    script(day, &day.as_in_life(midnight()))
}

/// Any day on which everything happens.
fn full_days() -> impl Strategy<Value = RaceDay> {
    let more = |(races, seed, more): (u16, u64, bool)| {
        let day = day(races, seed);
        if more {
            day.more().expect("there are numbers")
        } else {
            day
        }
    };
    (RaceDay::FULL_RACES..=RACES_MAX, any::<u64>(), any::<bool>()).prop_map(more)
}

/// Few cases, as a full day takes time to make.
fn some() -> ProptestConfig {
    ProptestConfig::with_cases(12)
}

/// The events of each race, its card first.
fn by_race(events: &[Envelope]) -> BTreeMap<RaceKey, Vec<&Envelope>> {
    let mut races: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for envelope in events {
        match envelope.event.subject() {
            Subject::Horse(_) | Subject::Sources => {}
            Subject::Race(key) | Subject::Result(key) | Subject::Odds(key) => {
                races.entry(key).or_default().push(envelope);
            }
        }
    }
    races
}

#[test]
fn the_same_day_at_the_same_pace_is_the_same_to_the_byte() {
    let bytes =
        |day: &RaceDay| -> Vec<Vec<u8>> { in_life(day).iter().map(Envelope::encode).collect() };
    assert_eq!(bytes(&day(8, 7)), bytes(&day(8, 7)));
    let ids = |day: &RaceDay| -> HashSet<String> {
        in_life(day)
            .into_iter()
            .map(|envelope| envelope.id)
            .collect()
    };
    let more = day(8, 7).more().expect("there are numbers");
    for other in [day(8, 8), day(7, 7), more] {
        assert!(ids(&other).is_disjoint(&ids(&day(8, 7))));
    }
}

/// A later version continues a day that an earlier one began, so a day must not change by accident.
#[test]
fn a_day_is_the_same_in_every_version() {
    let mut digest = blake3::Hasher::new();
    let events = in_life(&day(8, 1));
    for envelope in &events {
        digest.update(&envelope.encode());
        digest.update(b"\n");
    }
    assert_eq!(
        (events.len(), digest.finalize().to_hex().as_str()),
        (
            4874,
            "eecbf1e15cbcb2b33a8d742c25e2de7108251325bd917112ff5e6711bb1e22c0"
        )
    );
}

#[test]
fn another_pace_changes_only_the_times() {
    let begins: Timestamp = "2026-11-21T05:00:00.123456Z".parse().expect("a time");
    let fast = Pace {
        begins,
        speed: 60.0,
    };
    let life = day(4, 7).as_in_life(midnight());
    let slow = script(&day(4, 7), &life);
    let fast = script(&day(4, 7), &fast);
    assert_eq!(slow.len(), fast.len());
    let since = |e: &Envelope, begins| publish_at(e).duration_since(begins).as_secs_f64();
    for (one, mut other) in slow.into_iter().zip(fast) {
        let late = since(&one, life.begins);
        let soon = since(&other, begins);
        assert!((late / 60.0 - soon).abs() < 0.001, "{late} {soon}");
        other.time = one.time;
        if let (Event::RaceDeclared(one), Event::RaceDeclared(other)) =
            (&one.event, &mut other.event)
        {
            other.off_time = one.off_time;
        }
        assert_eq!(one, other);
    }
}

#[test]
fn any_pace_and_number_of_races_is_accepted() {
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
        let begins = Timestamp::MAX;
        assert!(!script(&day(1, 1), &Pace { begins, speed }).is_empty());
    }
    assert_eq!(day(0, 1), day(1, 1));
    assert_eq!(day(u16::MAX, 1), day(RACES_MAX, 1));
}

#[test]
fn more_of_a_day_is_other_races_and_other_horses_until_the_numbers_are_used_up() {
    let days: Vec<_> = std::iter::successors(Some(day(20, 3)), |day| day.more()).collect();
    assert_eq!(days.len(), 49);
    let mut races = HashSet::new();
    let mut horses = HashSet::new();
    for day in days {
        for envelope in in_life(&day) {
            match envelope.event {
                Event::RaceDeclared(card) => {
                    assert!(races.insert((card.venue, card.race_number)));
                }
                Event::HorseRegistered(horse) => assert!(horses.insert(horse.horse_no)),
                _ => {}
            }
        }
    }
    assert_eq!(races.len(), 2 * 980);
}

#[test]
fn a_horse_is_the_same_on_another_day_and_ages_with_the_years() {
    let horses = |date: &str| -> HashMap<HorseNo, HorseRegistered> {
        let date = RacingDate::parse(date).expect("a date");
        let horse = |envelope: Envelope| match envelope.event {
            Event::HorseRegistered(horse) => Some((horse.horse_no.clone(), horse)),
            _ => None,
        };
        let events = in_life(&RaceDay::new(date, 8, 5));
        events.into_iter().filter_map(horse).collect()
    };
    let of_both = |date: &str, other: &str| -> Vec<bool> {
        let (horses, others) = (horses(date), horses(other));
        let same = |(no, horse): (&HorseNo, &HorseRegistered)| Some(others.get(no)? == horse);
        horses.iter().filter_map(same).collect()
    };
    let next_day = of_both("2026-11-21", "2026-11-22");
    assert!(next_day.len() > 60 && next_day.iter().all(|same| *same));
    let next_year = of_both("2026-12-31", "2027-01-01");
    let same = next_year.iter().filter(|same| **same).count();
    assert!(
        same * 4 > next_year.len() * 3,
        "{same} of {}",
        next_year.len()
    );
}

proptest! {
    #![proptest_config(some())]

    #[test]
    fn the_service_accepts_every_event(day in full_days()) {
        let events = in_life(&day);
        for envelope in &events {
            let subject = envelope.event.subject().to_string();
            let decoded = Envelope::decode(&subject, &envelope.encode());
            prop_assert_eq!(decoded.as_ref(), Ok(envelope));
        }
        let ids: HashSet<&str> = events.iter().map(|e| e.id.as_str()).collect();
        prop_assert_eq!(ids.len(), events.len());
        prop_assert!(events.is_sorted_by_key(publish_at));
    }

    #[test]
    fn everything_happens_on_a_full_day(day in full_days()) {
        let events = in_life(&day);
        let mut missing: HashSet<&str> = events::EVENT_TYPES.iter().copied().collect();
        // An operator publishes it.
        missing.remove("racing.sources.ranked.v1");
        missing.extend([
            "scheduled", "open", "closed", "off", "finished", "result", "abandoned", "suspended", "scratched", "no_market",
            "provisional", "official", "amended", "dead heat for 1", "dead heat for 3", "PU", "UR", "FE", "WV", "DISQ",
        ]);
        for envelope in &events {
            missing.remove(envelope.event.type_name());
            for what in happened(&envelope.event) {
                missing.remove(what.as_str());
            }
        }
        prop_assert!(missing.is_empty(), "{:?}", missing);
    }
}

/// The parts of a full day that an event contains.
fn happened(event: &Event) -> Vec<String> {
    match event {
        Event::RaceStatusChanged(fact) => vec![fact.status.as_str().to_owned()],
        Event::OddsQuoted(quote) => {
            let state = |state| match state {
                PriceState::Scratched => "scratched",
                PriceState::Suspended => "suspended",
                PriceState::NoMarket => "no_market",
            };
            let states = quote.runners.iter().filter_map(|r| r.state);
            states.map(|s| state(s).to_owned()).collect()
        }
        Event::ResultDeclared(result) => {
            let status = match (result.status, result.revision) {
                (events::ResultStatus::Provisional, _) => "provisional",
                (_, 3..) => "amended",
                _ => "official",
            };
            let outcomes = result.runners.iter().filter_map(|r| r.outcome.as_ref());
            let ties = result.runners.windows(2).filter_map(|pair| {
                let shared = pair[0]
                    .position
                    .filter(|_| pair[0].position == pair[1].position);
                shared.map(|position| format!("dead heat for {position}"))
            });
            let outcomes = outcomes.map(|outcome| outcome.as_str().to_owned());
            ties.chain(outcomes).chain([status.to_owned()]).collect()
        }
        _ => Vec::new(),
    }
}
