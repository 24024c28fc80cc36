//! The rules of the prices of a pool.

use events::{Odds, OddsQuoted};

use super::*;
use crate::source::{BOOKMAKER, EXCHANGE, TOTE};

/// The part of all bets that the pools keep.
const TAKEOUT: f64 = 0.175;

/// A quote of the tote.
fn quote(envelope: &Envelope) -> Option<&OddsQuoted> {
    match &envelope.event {
        Event::OddsQuoted(quote) if envelope.source == TOTE => Some(quote),
        _ => None,
    }
}

fn win(quote: &OddsQuoted) -> HashMap<&HorseNo, Option<u32>> {
    let runners = quote.runners.iter();
    runners
        .map(|r| (&r.horse_no, r.win.map(Odds::thousandths)))
        .collect()
}

/// Whether a pool pays out what it should. Prices are rounded down, so that is between these and the next higher
/// prices.
fn is_a_book(prices: &[u32]) -> bool {
    let share = |thousandths: u32| 1000.0 / f64::from(thousandths);
    let higher = |price: u32| match price {
        999_000.. => 0.0,
        10_000.. => share(price + 1_000),
        _ => share(price + 100),
    };
    let least: f64 = prices.iter().map(|price| higher(*price)).sum();
    let most: f64 = prices.iter().map(|price| share(*price)).sum();
    let paid = 1.0 / (1.0 - TAKEOUT);
    // A runner with more bets than what is paid out still returns the stake.
    (least..=most).contains(&paid) || prices.contains(&1_000)
}

proptest! {
    #![proptest_config(some())]

    #[test]
    fn the_exchange_has_a_smaller_margin_than_the_bookmaker_and_both_have_their_ladders(day in full_days()) {
        for envelope in in_life(&day) {
            let Event::OddsQuoted(quote) = &envelope.event else { continue };
            let wins = quote.runners.iter().filter_map(|r| r.win.map(Odds::thousandths));
            let book: f64 = wins.clone().map(|price| 1000.0 / f64::from(price)).sum();
            match envelope.source.as_str() {
                _ if book == 0.0 => {}
                BOOKMAKER => {
                    prop_assert!((1.15..1.30).contains(&book), "{}", book);
                    let halves = |price: u32| !(5_000..10_000).contains(&price) || price.is_multiple_of(500);
                    prop_assert!(wins.clone().all(|price| price <= 101_000 && halves(price)));
                    prop_assert!(quote.runners.iter().all(|r| r.place <= r.win && r.place.is_some() == r.win.is_some()));
                }
                EXCHANGE => {
                    prop_assert!((1.01..1.06).contains(&book), "{}", book);
                    prop_assert!(wins.clone().all(|price| price % 10 == 0));
                    prop_assert!(quote.runners.iter().all(|r| r.place.is_none()));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn prices_are_those_of_a_pool(day in full_days()) {
        for quote in in_life(&day).iter().filter_map(quote) {
            let prices: Vec<u32> = win(quote).into_values().flatten().collect();
            let suspended = quote.runners.iter().any(|r| r.state == Some(PriceState::Suspended));
            if !prices.is_empty() && !suspended {
                prop_assert!(is_a_book(&prices), "{:?}", prices);
            }
            for runner in &quote.runners {
                prop_assert_eq!(runner.place.is_some(), runner.win.is_some());
                prop_assert_eq!(runner.state.is_some(), runner.win.is_none());
            }
        }
    }

    #[test]
    fn a_withdrawn_runner_has_no_price_until_it_is_reinstated_and_the_others_shorten_at_once(day in full_days()) {
        for race in by_race(&in_life(&day)).values() {
            let mut out = HashSet::new();
            let mut before = HashMap::new();
            let mut refunded = false;
            for envelope in race {
                match &envelope.event {
                    Event::RunnerWithdrawn(fact) => refunded = out.insert(&fact.horse_no),
                    Event::RunnerReinstated(fact) => prop_assert!(out.remove(&fact.horse_no)),
                    Event::OddsQuoted(quote) => {
                        for runner in &quote.runners {
                            let scratched = runner.state == Some(PriceState::Scratched);
                            prop_assert_eq!(scratched, out.contains(&runner.horse_no));
                        }
                        if envelope.source != TOTE {
                            continue;
                        }
                        let now = win(quote);
                        if std::mem::take(&mut refunded) {
                            prop_assert!(now.iter().all(|(horse, price)| price.is_none() || *price <= before[horse]));
                        }
                        before = now;
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn prices_move_more_often_towards_the_off_and_the_last_one_is_paid(day in full_days()) {
        for (key, race) in by_race(&in_life(&day)) {
            let quotes: Vec<_> = race.iter().copied().filter(|envelope| quote(envelope).is_some()).collect();
            let moved = quotes.windows(2).filter(|pair| quote(pair[0]) != quote(pair[1])).count();
            prop_assert!(quotes.len() > 40 && moved * 2 > quotes.len(), "{}: {} of {}", key, moved, quotes.len());
            let last = quotes[quotes.len() - 1];
            let paid = win(quote(last).expect("a quote"));
            for envelope in &race {
                let Event::ResultDeclared(result) = &envelope.event else { continue };
                for runner in &result.runners {
                    prop_assert_eq!(runner.win_odds.map(Odds::thousandths), paid[&runner.horse_no]);
                }
            }
        }
    }
}
