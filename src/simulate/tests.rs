use std::collections::{HashMap, HashSet};

use events::{
    HorseNo, Odds, OddsQuoted, PriceState, RaceDeclared, RaceNumber, RaceStatus, ResultDeclared,
};

use super::words::text;
use super::*;

fn meeting(races: u16, seed: u64) -> Meeting {
    let (code, name) = VENUES[0];
    Meeting {
        date: RacingDate::parse("2026-11-21").expect("a date"),
        venue: VenueCode::parse(code).expect("a code"),
        venue_name: text(name),
        races,
        seed,
    }
}

fn played(races: u16, seed: u64) -> Vec<Envelope> {
    script(&meeting(races, seed), Timestamp::UNIX_EPOCH, 1.0)
        .into_iter()
        .map(|(_, envelope)| envelope)
        .collect()
}

fn result(envelope: &Envelope) -> Option<&ResultDeclared> {
    if let Event::ResultDeclared(fact) = &envelope.event {
        Some(fact)
    } else {
        None
    }
}

fn card(envelope: &Envelope) -> Option<(RaceNumber, &RaceDeclared)> {
    if let Event::RaceDeclared(fact) = &envelope.event {
        Some((fact.race_number, fact))
    } else {
        None
    }
}

fn quote(envelope: &Envelope) -> Option<&OddsQuoted> {
    if let Event::OddsQuoted(fact) = &envelope.event {
        Some(fact)
    } else {
        None
    }
}

#[test]
fn one_seed_is_one_meeting_whenever_and_however_fast() {
    let slow = script(&meeting(4, 7), Timestamp::UNIX_EPOCH, 1.0);
    let start: Timestamp = "2026-11-21T05:00:00.123456Z".parse().expect("a time");
    let fast = script(&meeting(4, 7), start, 60.0);
    assert_eq!(slow.len(), fast.len());
    for ((late, one), (soon, other)) in slow.iter().zip(&fast) {
        let same_time = Envelope {
            time: one.time,
            ..other.clone()
        };
        assert_eq!(one.encode(), same_time.encode());
        assert!(
            soon.as_millis().abs_diff(late.as_millis() / 60) <= 1,
            "{soon:?} {late:?}"
        );
        let since = other.time.timestamp().as_millisecond() - start.as_millisecond();
        assert_eq!(u128::from(since.unsigned_abs()), soon.as_millis());
    }
    assert_ne!(
        slow[0].1.id,
        script(&meeting(4, 8), Timestamp::UNIX_EPOCH, 1.0)[0].1.id
    );
}

#[test]
fn offsets_never_go_back_and_ids_never_repeat() {
    let events = script(&meeting(6, 1), Timestamp::UNIX_EPOCH, 30.0);
    assert!(events.is_sorted_by_key(|(offset, _)| *offset));
    assert!(events.is_sorted_by_key(|(_, envelope)| envelope.time));
    let ids: HashSet<&str> = events
        .iter()
        .map(|(_, envelope)| envelope.id.as_str())
        .collect();
    assert_eq!(ids.len(), events.len());
}

#[test]
fn any_speed_and_number_of_races_is_taken() {
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
        assert!(
            !script(&meeting(1, 1), Timestamp::MAX, speed).is_empty(),
            "{speed}"
        );
    }
    assert_eq!(played(0, 1), played(1, 1));
}

#[test]
fn every_event_is_one_that_the_service_takes() {
    for (races, seed) in [(1, 1), (3, 2), (11, 3)] {
        for envelope in played(races, seed) {
            let subject = envelope.event.subject().to_string();
            assert_eq!(
                Envelope::decode(&subject, &envelope.encode()).as_ref(),
                Ok(&envelope)
            );
        }
    }
}

#[test]
fn every_meeting_has_all_that_goes_wrong() {
    for (races, seed) in [1, 2, 3, 5]
        .into_iter()
        .flat_map(|races| (0..8).map(move |seed| (races, seed)))
    {
        let events = played(races, seed);
        let count = |of: fn(&Event) -> bool| events.iter().filter(|e| of(&e.event)).count();
        assert_eq!(count(|e| matches!(e, Event::RunnerWithdrawn(_))), 1);
        assert_eq!(count(|e| matches!(e, Event::RiderChanged(_))), 1);
        let amended: Vec<_> = events
            .iter()
            .filter_map(result)
            .filter(|r| r.revision == 3)
            .collect();
        assert_eq!(amended.len(), 1);
        assert!(
            amended[0]
                .runners
                .iter()
                .any(|r| r.outcome.as_ref().is_some_and(|o| o.as_str() == "DISQ"))
        );
        let official = |r: &&ResultDeclared| r.revision == 2;
        let heats = events
            .iter()
            .filter_map(result)
            .filter(official)
            .filter(|r| {
                r.runners
                    .windows(2)
                    .any(|pair| pair[0].position.is_some() && pair[0].position == pair[1].position)
            });
        assert_eq!(heats.count(), 1, "{races} races, seed {seed}");
    }
}

#[test]
fn positions_times_and_runners_of_a_result_agree() {
    for seed in 0..20 {
        let events = played(3, seed);
        let cards: HashMap<_, _> = events.iter().filter_map(card).collect();
        for result in events.iter().filter_map(result) {
            let placed: Vec<_> = result
                .runners
                .iter()
                .filter(|r| r.position.is_some())
                .collect();
            for (index, runner) in placed.iter().enumerate() {
                let faster = placed
                    .iter()
                    .filter(|other| other.finish_time < runner.finish_time)
                    .count();
                assert_eq!(
                    runner.position.map(usize::from),
                    Some(faster + 1),
                    "seed {seed}, row {index}"
                );
            }
            assert!(placed.len() >= 4);
            let ran: HashSet<_> = result.runners.iter().map(|r| &r.horse_no).collect();
            let declared: HashSet<_> = cards[&result.race_number]
                .runners
                .iter()
                .map(|r| &r.horse_no)
                .collect();
            assert_eq!(ran, declared);
        }
    }
}

#[test]
fn a_horse_runs_once_and_is_registered_before() {
    let events = played(11, 5);
    let mut registered = HashSet::new();
    let mut ran = HashSet::new();
    for envelope in &events {
        match &envelope.event {
            Event::HorseRegistered(horse) => assert!(registered.insert(horse.horse_no.clone())),
            Event::RaceDeclared(card) => {
                assert!((8..=14).contains(&card.runners.len()));
                for runner in &card.runners {
                    assert!(registered.contains(&runner.horse_no));
                    assert!(ran.insert(runner.horse_no.clone()));
                }
            }
            _ => {}
        }
    }
    assert_eq!(registered, ran);
}

#[test]
fn a_horse_is_the_same_on_another_day() {
    let other_day = Meeting {
        date: RacingDate::parse("2026-11-22").expect("a date"),
        ..meeting(8, 5)
    };
    let horses = |meeting: &Meeting| -> HashMap<HorseNo, HorseRegistered> {
        draw_up(meeting)
            .into_iter()
            .flat_map(|race| race.horses)
            .map(|h| (h.horse_no.clone(), h))
            .collect()
    };
    let (one, other) = (horses(&meeting(8, 5)), horses(&other_day));
    let both: Vec<_> = one
        .iter()
        .filter(|(horse_no, _)| other.contains_key(horse_no))
        .collect();
    assert!(both.len() > 30);
    assert!(
        both.into_iter()
            .all(|(horse_no, horse)| other[horse_no] == *horse)
    );
}

#[test]
fn prices_are_those_of_a_pool() {
    for seed in 0..20 {
        for quote in played(1, seed).iter().filter_map(quote) {
            let win: Vec<u32> = quote
                .runners
                .iter()
                .filter_map(|r| r.win)
                .map(Odds::thousandths)
                .collect();
            assert!(
                win.iter()
                    .all(|w| w % if *w < 10_000 { 100 } else { 1_000 } == 0),
                "{win:?}"
            );
            // Rounding down and the bounds add to the takeout.
            let book: f64 = win.iter().map(|w| 1000.0 / f64::from(*w)).sum();
            assert!((1.2..1.4).contains(&book), "a book of {book}: {win:?}");
            assert!(
                quote
                    .runners
                    .iter()
                    .all(|r| r.place <= r.win && r.place.is_some() == r.win.is_some())
            );
        }
    }
}

#[test]
fn prices_move_and_the_last_is_the_dividend() {
    let events = played(3, 9);
    let quotes: Vec<_> = events
        .iter()
        .filter_map(quote)
        .filter(|q| q.race_number.get() == 3)
        .collect();
    // 70 minutes, about every 10 seconds.
    assert!((380..480).contains(&quotes.len()), "{}", quotes.len());
    let moved = quotes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(moved * 2 > quotes.len(), "{moved} of {}", quotes.len());
    let last = quotes[quotes.len() - 1];
    let result = events
        .iter()
        .filter_map(result)
        .find(|r| r.race_number.get() == 3)
        .expect("a result");
    for runner in &result.runners {
        let quoted = last
            .runners
            .iter()
            .find(|q| q.horse_no == runner.horse_no)
            .expect("all are quoted");
        assert_eq!(quoted.win, runner.win_odds);
    }
}

#[test]
fn a_withdrawn_runner_has_no_price_from_then_on() {
    let mut withdrawn = None;
    for envelope in played(2, 4) {
        match envelope.event {
            Event::RunnerWithdrawn(fact) => withdrawn = Some(fact),
            Event::OddsQuoted(quote) => {
                for runner in &quote.runners {
                    let out = withdrawn.as_ref().is_some_and(|w| {
                        w.race_number == quote.race_number && w.horse_no == runner.horse_no
                    });
                    assert_eq!(runner.win.is_none(), out);
                    assert_eq!(runner.state, out.then_some(PriceState::Scratched));
                }
            }
            _ => {}
        }
    }
    assert!(withdrawn.is_some());
}

#[test]
fn three_races_are_open_at_a_time_and_each_goes_its_way() {
    let mut now: HashMap<u16, RaceStatus> = HashMap::new();
    let mut open_most = 0;
    for envelope in played(8, 2) {
        match envelope.event {
            Event::RaceStatusChanged(fact) => {
                let before = now
                    .insert(fact.race_number.get(), fact.status)
                    .unwrap_or_default();
                assert_eq!(before as u8 + 1, fact.status as u8);
                open_most = open_most.max(now.values().filter(|s| **s == RaceStatus::Open).count());
            }
            Event::OddsQuoted(fact) => assert_eq!(now[&fact.race_number.get()], RaceStatus::Open),
            Event::ResultDeclared(fact) => assert!(now[&fact.race_number.get()].is_over()),
            _ => {}
        }
    }
    assert_eq!(open_most, 3);
    assert!(now.len() == 8 && now.values().all(|s| *s == RaceStatus::Result));
}
