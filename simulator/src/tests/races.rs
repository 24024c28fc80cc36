//! The rules of each race from its card to its result.

use events::{FinishTime, RaceDeclared, ResultDeclared, ResultRunner, ResultStatus, VenueCode};

use super::*;

fn card<'a>(race: &[&'a Envelope]) -> &'a RaceDeclared {
    match &race[0].event {
        Event::RaceDeclared(card) => card,
        other => panic!("a race begins with {other:?}"),
    }
}

fn results<'a>(race: &'a [&Envelope]) -> impl Iterator<Item = (&'a Envelope, &'a ResultDeclared)> {
    race.iter().filter_map(|envelope| match &envelope.event {
        Event::ResultDeclared(result) => Some((*envelope, result)),
        _ => None,
    })
}

proptest! {
    #![proptest_config(some())]

    #[test]
    fn the_card_has_the_time_of_the_off(day in full_days(), speed in 0.1..1000.0) {
        let begins = midnight();
        for (key, race) in by_race(&script(&day, &Pace { begins, speed })) {
            let off = race.iter().find(|envelope| {
                matches!(&envelope.event, Event::RaceStatusChanged(fact) if fact.status == RaceStatus::Off)
            });
            match off {
                Some(off) => prop_assert_eq!(card(&race).off_time, Some(off.time), "{}", key),
                None => prop_assert!(matches!(&race[race.len() - 2].event,
                    Event::RaceStatusChanged(fact) if fact.status == RaceStatus::Abandoned)),
            }
        }
    }

    #[test]
    fn statuses_follow_their_order_and_quotes_end_at_the_close(day in full_days()) {
        use RaceStatus::{Abandoned, Closed, Finished, Off, Open, Result, Scheduled};
        for race in by_race(&in_life(&day)).values() {
            let mut now = Scheduled;
            let mut revision = 0;
            for envelope in race {
                match &envelope.event {
                    Event::RaceStatusChanged(fact) => {
                        let next = matches!((now, fact.status),
                            (Scheduled, Open | Abandoned) | (Open, Closed | Scheduled) | (Closed, Off) | (Off, Finished) |
                            (Finished, Result));
                        prop_assert!(next, "from {:?} to {:?}", now, fact.status);
                        prop_assert_eq!(fact.reason.is_some(), matches!(fact.status, Scheduled | Abandoned));
                        now = fact.status;
                    }
                    Event::OddsQuoted(quote) => {
                        let inspected = now == Scheduled && quote.runners.iter().all(|r| r.state.is_some());
                        prop_assert!(now == Open || inspected, "a quote when {:?}", now);
                    }
                    Event::MarketQuoted(quote) => {
                        let inspected = now == Scheduled && quote.prices.iter().all(|price| price.state.is_some());
                        prop_assert!(now == Open || inspected, "a quote when {:?}", now);
                    }
                    Event::ResultDeclared(result) => {
                        prop_assert!(now.is_over() && result.revision == revision + 1);
                        revision = result.revision;
                    }
                    Event::ResultVoided(void) => {
                        prop_assert!(now.is_over() && void.revision == revision + 1 && void.reason.is_some());
                        revision = void.revision;
                    }
                    _ => {}
                }
            }
            prop_assert!(now.is_over());
        }
    }

    #[test]
    fn two_meetings_overlap_and_the_last_race_is_off_after_midnight(day in full_days()) {
        let events = in_life(&day);
        let off = |envelope: &Envelope| match &envelope.event {
            Event::RaceDeclared(card) => card.off_time.map(|time| (time, card.venue.clone(), card.date)),
            _ => None,
        };
        let mut offs: Vec<_> = events.iter().filter_map(off).collect();
        offs.sort();
        let venues: Vec<&VenueCode> = offs.iter().map(|(_, venue, _)| venue).collect();
        let changes = venues.windows(2).filter(|pair| pair[0] != pair[1]).count();
        prop_assert!(changes > 3, "{:?}", venues);
        prop_assert!(offs.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let (last, _, date) = &offs[offs.len() - 1];
        let over: Timestamp = "2026-11-21T16:00:00Z".parse().expect("a time");
        prop_assert!(last.timestamp() > over && date.to_string() == "2026-11-21");
        prop_assert_eq!(last.timestamp(), day.last_off(&day.as_in_life(midnight())));
    }

    #[test]
    fn positions_times_and_runners_of_a_result_agree(day in full_days()) {
        for race in by_race(&in_life(&day)).values() {
            let going = race.iter().rev().find_map(|envelope| match &envelope.event {
                Event::GoingChanged(fact) => Some(fact.going.clone()),
                _ => None,
            });
            for (_, result) in results(race) {
                let placed: Vec<_> = result.runners.iter().filter(|r| r.position.is_some()).collect();
                for runner in &placed {
                    let faster = placed.iter().filter(|other| other.finish_time < runner.finish_time).count();
                    prop_assert_eq!(runner.position.map(usize::from), Some(faster + 1));
                    prop_assert_eq!(runner.margin.is_some(), runner.finish_time > placed[0].finish_time);
                    let sections = runner.sectionals.iter().map(|time| time.hundredths());
                    prop_assert_eq!(Some(sections.sum()), runner.finish_time.map(FinishTime::hundredths));
                }
                prop_assert!(placed.is_sorted_by_key(|runner| runner.margin.filter(|m| m.to_string() != "SH")));
                prop_assert_eq!(&result.sectionals, &placed[0].sectionals);
                prop_assert!(placed.len() >= 3);
                let ran: HashSet<_> = result.runners.iter().map(|r| &r.horse_no).collect();
                let declared: HashSet<_> = card(race).runners.iter().map(|r| &r.horse_no).collect();
                prop_assert_eq!(ran, declared);
                prop_assert_eq!(result.going.as_ref(), going.as_ref().or(card(race).going.as_ref()));
            }
        }
    }

    #[test]
    fn an_announced_rider_is_in_the_result(day in full_days()) {
        for race in by_race(&in_life(&day)).values() {
            let mut riders: HashMap<_, _> = card(race).runners.iter().map(|r| (&r.horse_no, &r.jockey)).collect();
            for envelope in race {
                if let Event::RiderChanged(fact) = &envelope.event {
                    prop_assert!(riders.values().all(|jockey| **jockey != fact.jockey));
                    riders.insert(&fact.horse_no, &fact.jockey);
                }
            }
            for (_, result) in results(race) {
                prop_assert!(result.runners.iter().all(|r| riders[&r.horse_no] == &r.jockey));
            }
        }
    }

    #[test]
    fn an_amended_result_disqualifies_the_winner_and_moves_the_others_up(day in full_days()) {
        for race in by_race(&in_life(&day)).values() {
            let results: Vec<_> = results(race).collect();
            let [_, (official_at, official), (amended_at, amended)] = &results[..] else {
                continue;
            };
            prop_assert_eq!(official.status, ResultStatus::Official);
            let later = amended_at.time.timestamp().duration_since(official_at.time.timestamp());
            prop_assert_eq!(later.as_secs(), 600);
            prop_assert!(amended.reason.is_some());
            let of = |result: &ResultDeclared, horse_no: &HorseNo| -> ResultRunner {
                result.runners.iter().find(|r| r.horse_no == *horse_no).cloned().expect("all are there")
            };
            let winner = &official.runners[0];
            let disqualified = of(amended, &winner.horse_no);
            prop_assert_eq!(disqualified.outcome.as_ref().map(|o| o.as_str()), Some("DISQ"));
            prop_assert_eq!((disqualified.finish_time, disqualified.stakes), (winner.finish_time, Some(0)));
            for before in official.runners.iter().filter(|r| r.position > winner.position) {
                let after = of(amended, &before.horse_no);
                prop_assert_eq!(after.position.map(|p| p + 1), before.position);
                prop_assert!(after.stakes >= before.stakes);
            }
        }
    }

    #[test]
    fn a_horse_runs_once_and_is_registered_before(day in full_days()) {
        let mut registered = HashSet::new();
        let mut ran = HashSet::new();
        for envelope in in_life(&day) {
            match envelope.event {
                Event::HorseRegistered(horse) => prop_assert!(registered.insert(horse.horse_no)),
                Event::RaceDeclared(card) => {
                    prop_assert!((8..=14).contains(&card.runners.len()));
                    for runner in card.runners {
                        prop_assert!(registered.contains(&runner.horse_no));
                        prop_assert!(ran.insert(runner.horse_no));
                    }
                }
                _ => {}
            }
        }
        prop_assert_eq!(registered, ran);
    }
}
