//! The sources of a day: their prices, their clocks, and one that is down for some minutes.

use std::ops::Range;

use super::*;
use crate::source::{BOOKMAKER, EXCHANGE, RACECOURSE, TOTE};

fn outage(day: &RaceDay, pace: &Pace) -> Range<Timestamp> {
    let at = |ms| pace.at(ms - day.cards_out_ms());
    at(day.outage_ms().start)..at(day.outage_ms().end)
}

#[test]
fn each_source_publishes_at_its_own_times_by_its_own_clock() {
    let day = day(8, 3);
    let mut quotes: BTreeMap<&str, usize> = BTreeMap::new();
    let events = in_life(&day);
    for envelope in &events {
        let clock_ahead = envelope
            .time
            .timestamp()
            .duration_since(publish_at(envelope));
        let expected_ms = match envelope.source.as_str() {
            RACECOURSE | TOTE => 0,
            BOOKMAKER => -1_400,
            EXCHANGE => 250,
            other => panic!("an unknown source {other}"),
        };
        assert_eq!(clock_ahead.as_millis(), expected_ms);
        if matches!(envelope.event, Event::OddsQuoted(_)) {
            *quotes.entry(&envelope.source).or_default() += 1;
        }
    }
    let [bookmaker, exchange, tote] = quotes.into_values().collect::<Vec<_>>()[..] else {
        panic!("three sources quote");
    };
    assert!(
        bookmaker * 2 < exchange && exchange * 2 < tote,
        "{bookmaker} {exchange} {tote}"
    );
}

proptest! {
    #![proptest_config(some())]

    #[test]
    fn the_tote_quotes_each_race_first(day in full_days()) {
        for race in by_race(&in_life(&day)).values() {
            let is_quote = |e: &&&Envelope| matches!(e.event, Event::OddsQuoted(_) | Event::MarketQuoted(_));
            let first = race.iter().find(is_quote).expect("it is quoted");
            prop_assert_eq!(&first.source, TOTE);
        }
    }

    #[test]
    fn the_bookmaker_is_down_for_eight_minutes_and_then_quotes_every_open_race(day in full_days(), speed in 0.1..1000.0) {
        let pace = Pace { begins: midnight(), speed };
        let outage = outage(&day, &pace);
        let events = script(&day, &pace);
        let of_bookmaker = |e: &&Envelope| e.source == BOOKMAKER;
        let during = |e: &&Envelope| outage.contains(&publish_at(e));
        prop_assert_eq!(events.iter().filter(of_bookmaker).filter(during).count(), 0);
        let before = events.iter().filter(of_bookmaker).filter(|e| publish_at(e) < outage.start);
        let quoted: HashSet<Subject> = before.map(|e| e.event.subject()).collect();
        let mut open = HashSet::new();
        for envelope in events.iter().filter(|e| publish_at(e) < outage.end) {
            if let (Event::RaceStatusChanged(fact), Subject::Race(key)) = (&envelope.event, envelope.event.subject()) {
                match fact.status {
                    RaceStatus::Open => open.insert(key),
                    _ => open.remove(&key),
                };
            }
        }
        let up = events.iter().filter(of_bookmaker).filter(|e| publish_at(e) == outage.end);
        let quoted_again: HashSet<Subject> = up.map(|e| e.event.subject()).collect();
        let open: HashSet<Subject> = open.into_iter().map(Subject::Odds).collect();
        prop_assert_eq!(&quoted_again, &open);
        prop_assert!(open.len() > 1 && open.iter().any(|subject| quoted.contains(subject)));
    }

    #[test]
    fn a_source_that_is_down_is_not_alive(day in full_days(), speed in 0.1..1000.0) {
        let pace = Pace { begins: midnight(), speed };
        let outage = outage(&day, &pace);
        let moment = jiff::SignedDuration::from_micros(1);
        for (at, is_up) in [
            (outage.start - moment, true), (outage.start, false), (outage.end - moment, false), (outage.end, true),
            (pace.begins, true), (day.last_off(&pace), true),
        ] {
            let alive = day.sources_alive(&pace, at);
            prop_assert_eq!(alive.contains(&BOOKMAKER), is_up);
            prop_assert_eq!(alive.len(), if is_up { 4 } else { 3 });
        }
    }
}
