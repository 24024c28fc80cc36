//! An oracle of the pools of each race: it computes the stakes from the bets, and the odds and dividends from the
//! stakes, with fractions, over every order of the finish that a dead heat leaves open.

use events::{
    Dividend, DividendState, DividendStatus, DividendsDeclared, Odds, OddsQuoted, ResultDeclared,
};

use super::*;
use crate::card::{RacePlan, plan_races};
use crate::day::MeetingTime;
use crate::finish::{Combination as Bits, Finish, Group};
use crate::meeting::MeetingPlan;
use crate::pool::{Pool, PoolKind};
use crate::race_script::ScriptedEvent;
use crate::script::race_events;
use crate::source::TOTE;

/// Of a pool of 1,000.
const PAID_OUT: u128 = 825;
const POOLS: [&str; 4] = ["win", "place", "quinella", "quinella_place"];

/// Saddle-cloth numbers, the lowest first.
type Combination = Vec<u16>;
/// Cents by combination.
type Stakes<'a> = BTreeMap<&'a Combination, u128>;

struct RawBet {
    at_ms: u64,
    pool: &'static str,
    combination: Combination,
    cents: u64,
}

/// A race with all of its bets.
struct OracleRace {
    card: RacePlan,
    events: Vec<ScriptedEvent>,
    bets: Vec<RawBet>,
}

fn races(day: &RaceDay) -> Vec<OracleRace> {
    let clock = |at_ms| Moment::from(day.as_in_life(midnight()).at(at_ms));
    let mut races = Vec::new();
    for session in [MeetingTime::Afternoon, MeetingTime::Evening] {
        let meeting = MeetingPlan { day, session };
        for card in plan_races(&meeting, &clock) {
            let (events, tote) = race_events(&meeting, &card);
            let bet = |(at_ms, kind, runners, cents): &(u64, PoolKind, Bits, u64)| RawBet {
                at_ms: *at_ms,
                pool: POOLS[*kind as usize],
                combination: numbers(&card, *runners),
                cents: *cents,
            };
            let bets = tote.bets.iter().map(bet).collect();
            races.push(OracleRace { card, events, bets });
        }
    }
    races
}

fn numbers(race: &RacePlan, runners: Bits) -> Combination {
    let card = race.card.runners.iter().enumerate();
    let chosen = card.filter(|(index, _)| (runners >> index) & 1 == 1);
    chosen.map(|(_, runner)| runner.number).collect()
}

/// What the oracle knows of a race at a time.
struct Book<'a> {
    race: &'a OracleRace,
    /// Since when bets on a runner count; `None` while it is withdrawn.
    counts_from: BTreeMap<u16, Option<u64>>,
    now_ms: u64,
}

impl<'a> Book<'a> {
    fn new(race: &'a OracleRace) -> Self {
        let runners = race.card.card.runners.iter();
        let counts_from = runners.map(|runner| (runner.number, Some(0))).collect();
        Self {
            race,
            counts_from,
            now_ms: 0,
        }
    }

    fn number(&self, horse_no: &HorseNo) -> u16 {
        let mut runners = self.race.card.card.runners.iter();
        runners
            .find(|r| r.horse_no == *horse_no)
            .expect("on the card")
            .number
    }

    fn take(&mut self, (at_ms, _, event): &ScriptedEvent) {
        self.now_ms = *at_ms;
        match event {
            Event::RunnerWithdrawn(fact) => {
                self.counts_from.insert(self.number(&fact.horse_no), None);
            }
            Event::RunnerReinstated(fact) => {
                self.counts_from
                    .insert(self.number(&fact.horse_no), Some(*at_ms));
            }
            _ => {}
        }
    }

    fn is_refunded(&self, bet: &RawBet) -> bool {
        let counts = |number: &u16| self.counts_from[number].is_some_and(|from| bet.at_ms >= from);
        !bet.combination.iter().all(counts)
    }

    /// The bets until now that are not refunded.
    fn stakes(&self, pool: &str) -> Stakes<'a> {
        let mut stakes = Stakes::new();
        let until_now = |bet: &&RawBet| bet.pool == pool && bet.at_ms <= self.now_ms;
        for bet in self.race.bets.iter().filter(until_now) {
            if !self.is_refunded(bet) && bet.cents > 0 {
                *stakes.entry(&bet.combination).or_default() += u128::from(bet.cents);
            }
        }
        stakes
    }

    fn places(&self) -> usize {
        let running = self.counts_from.values().flatten().count();
        if running < 7 { 2 } else { 3 }
    }

    /// Whether a price is what the pool pays for this combination alone, rounded down.
    fn is_price(stakes: &Stakes<'_>, ways: usize, combination: &Combination, odds: Odds) -> bool {
        let thousandths = stakes.values().sum::<u128>() * PAID_OUT;
        let of = stakes[combination] * ways as u128;
        let price = u128::from(odds.thousandths());
        let step = if price < 10_000 { 100 } else { 1_000 };
        let pays_it = price == 1_000 || price * of <= thousandths;
        price % step == 0 && pays_it && (price == 999_000 || thousandths < (price + step) * of)
    }

    fn check_quote(&self, quote: &OddsQuoted) {
        let (win, place) = (self.stakes("win"), self.stakes("place"));
        for runner in &quote.runners {
            let number = runner.number.expect("a number");
            let withdrawn = self.counts_from[&number].is_none();
            assert_eq!(withdrawn, runner.state == Some(PriceState::Scratched));
            let pools = [(&win, 1, runner.win), (&place, self.places(), runner.place)];
            for (stakes, ways, odds) in pools {
                assert_eq!(odds.is_none(), runner.state.is_some());
                let is_price = |odds| Self::is_price(stakes, ways, &vec![number], odds);
                assert!(
                    odds.is_none_or(is_price),
                    "{number}: {odds:?} of {stakes:?}"
                );
            }
        }
    }

    fn check_market(&self, quote: &events::MarketQuoted) {
        let count = self.counts_from.len();
        assert_eq!(quote.prices.len(), count * (count - 1) / 2);
        let pool = quote.market.as_str();
        let stakes = self.stakes(pool);
        let ways = if pool == "quinella" { 1 } else { 3 };
        for price in &quote.prices {
            let pair = &price.combination;
            assert!(pair.is_sorted());
            let withdrawn = pair.iter().any(|number| self.counts_from[number].is_none());
            assert_eq!(
                withdrawn,
                price.state == Some(PriceState::Scratched),
                "{pair:?}"
            );
            assert_eq!(price.odds.is_none(), price.state.is_some());
            if let Some(odds) = price.odds {
                assert!(
                    Self::is_price(&stakes, ways, pair, odds),
                    "{pool} {pair:?}: {odds}"
                );
            } else if price.state == Some(PriceState::NoMarket) && stakes.contains_key(pair) {
                // The race was abandoned with these bets.
                assert_eq!(self.now_ms, self.race.card.off_ms - 4 * 60_000);
            }
        }
    }

    /// The pools' dividends, by combination, of an official result.
    fn check_dividends(
        &self,
        declared: &DividendsDeclared,
        result: &ResultDeclared,
        seen: &mut Seen,
    ) {
        let groups = groups(result);
        let known: HashSet<&str> = declared.dividends.iter().map(|d| d.pool.as_str()).collect();
        assert_eq!(known, HashSet::from(POOLS));
        for pool in POOLS {
            let lines = declared
                .dividends
                .iter()
                .filter(|line| line.pool.as_str() == pool);
            let lines: Vec<&Dividend> = lines.collect();
            let stakes = self.stakes(pool);
            let shares = shares(pool, &groups, self.places(), &stakes);
            seen.check(pool, &lines, &stakes, &shares);
        }
    }
}

/// The numbers that share each position, in order.
fn groups(result: &ResultDeclared) -> Vec<Vec<u16>> {
    let mut groups: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
    for runner in &result.runners {
        if let Some(position) = runner.position {
            let number = runner.number.expect("a number");
            groups.entry(position).or_default().push(number);
        }
    }
    groups.into_values().collect()
}

/// Every order of the first three that the groups allow, each as often as the others.
fn orders(groups: &[Vec<u16>]) -> Vec<Vec<u16>> {
    let Some((first, rest)) = groups.split_first() else {
        return vec![Vec::new()];
    };
    let mut all = Vec::new();
    for (index, number) in first.iter().enumerate() {
        let mut left = first.clone();
        left.remove(index);
        let mut groups = rest.to_vec();
        if !left.is_empty() {
            groups.insert(0, left);
        }
        for order in orders(&groups[..groups.len().min(3)]) {
            all.push([vec![*number], order].concat());
        }
    }
    all
}

/// A part of a pool: numerator and denominator.
type Fraction = (u128, u128);

fn sum((a, b): Fraction, (c, d): Fraction) -> Fraction {
    (a * d + c * b, b * d)
}

/// The part of the pool that each combination wins. A portion of combinations without stakes goes to the others.
fn shares(
    pool: &str,
    groups: &[Vec<u16>],
    places: usize,
    stakes: &Stakes<'_>,
) -> BTreeMap<Combination, Fraction> {
    let portions: &[&[usize]] = match (pool, places) {
        ("win", _) => &[&[0]],
        ("place", 2) => &[&[0], &[1]],
        ("place", _) => &[&[0], &[1], &[2]],
        ("quinella", _) => &[&[0, 1]],
        _ => &[&[0, 1], &[0, 2], &[1, 2]],
    };
    let orders = orders(groups);
    let winners = |positions: &&[usize]| -> Vec<Combination> {
        let winner = |order: &Vec<u16>| {
            let mut winner: Combination = positions.iter().map(|p| order[*p]).collect();
            winner.sort_unstable();
            winner
        };
        let winners = orders.iter().map(winner);
        winners.filter(|c| stakes.contains_key(c)).collect()
    };
    let won: Vec<_> = portions
        .iter()
        .map(winners)
        .filter(|w| !w.is_empty())
        .collect();
    let mut shares = BTreeMap::new();
    for winners in &won {
        let part = (1, (won.len() * winners.len()) as u128);
        for winner in winners {
            let share = shares.entry(winner.clone()).or_insert((0, 1));
            *share = sum(*share, part);
        }
    }
    shares
}

/// What the checked dividends had.
#[derive(Debug, Default)]
struct Seen {
    pools: usize,
    dead_heats: usize,
    stakes_only: usize,
    without_winner: usize,
    late_refunds: usize,
    all_refunded: usize,
}

impl Seen {
    fn check(
        &mut self,
        pool: &str,
        lines: &[&Dividend],
        stakes: &Stakes<'_>,
        shares: &BTreeMap<Combination, Fraction>,
    ) {
        self.pools += 1;
        if shares.is_empty() {
            self.without_winner += 1;
            let [line] = lines else { panic!("{lines:?}") };
            assert_eq!(
                (line.state, line.dividend),
                (Some(DividendState::Refund), None)
            );
            return assert!(line.combination.is_empty());
        }
        let declared: Vec<&Combination> = lines.iter().map(|line| &line.combination).collect();
        assert!(declared.iter().all(|combination| combination.is_sorted()));
        assert_eq!(declared.len(), shares.len(), "{pool}: {lines:?}");
        let paid_out = stakes.values().sum::<u128>() * PAID_OUT;
        let (mut paid, mut breakage, mut stakes_only) = (0, 0, false);
        for (line, winner) in lines.iter().zip(&declared) {
            assert_eq!((line.state, line.unit.hundredths()), (None, 1_000));
            let dividend = u128::from(line.dividend.expect("a dividend").hundredths());
            let (part, of) = shares[*winner];
            // Ten units have as many cents as one has thousandths.
            let (pays, of) = (paid_out * part, stakes[winner] * of);
            assert_eq!(dividend % 10, 0);
            if dividend == 1_000 {
                stakes_only = true;
            } else {
                assert!(
                    dividend * of <= pays,
                    "{pool} {winner:?} pays too much: {dividend}"
                );
            }
            assert!(
                pays < (dividend + 10) * of,
                "{pool} {winner:?} pays too little: {dividend}"
            );
            paid += dividend * stakes[winner];
            breakage += 10 * stakes[winner];
        }
        // What is kept is the takeout and less than one breakage of the winning stakes.
        assert!(
            paid + breakage > paid_out,
            "{pool} keeps {}",
            paid_out - paid
        );
        assert!(
            stakes_only || paid <= paid_out,
            "{pool} pays {paid} of {paid_out}"
        );
        self.stakes_only += usize::from(stakes_only);
        let usual = [1, 3, 1, 3][POOLS.iter().position(|p| *p == pool).expect("known")];
        self.dead_heats += usize::from(lines.len() > usual);
    }

    fn check_race(&mut self, race: &OracleRace) {
        let mut book = Book::new(race);
        let mut official = None;
        for timed in &race.events {
            let (_, source, event) = timed;
            book.take(timed);
            let is_tote = *source == TOTE;
            match event {
                Event::OddsQuoted(quote) if is_tote => book.check_quote(quote),
                Event::MarketQuoted(quote) => {
                    assert!(is_tote);
                    book.check_market(quote);
                }
                Event::PoolInvested(total) => {
                    let stakes = book.stakes(total.pool.as_str());
                    let invested = u128::from(total.invested.hundredths());
                    assert_eq!(invested, stakes.values().sum());
                }
                Event::ResultDeclared(result) => official = Some(result),
                Event::ResultVoided(_) => official = None,
                Event::DividendsDeclared(declared) => match official {
                    Some(result) => {
                        assert_eq!(declared.status, DividendStatus::Official);
                        book.check_dividends(declared, result, self);
                    }
                    None => {
                        self.all_refunded += 1;
                        assert_eq!(declared.status, DividendStatus::Refund);
                        assert!(declared.dividends.is_empty());
                    }
                },
                _ => {}
            }
        }
        let refunded = race.bets.iter().filter(|bet| book.is_refunded(bet));
        self.late_refunds += usize::from(refunded.count() > 0);
    }
}

#[test]
fn odds_and_dividends_are_what_the_pools_say() {
    let mut seen = Seen::default();
    for seed in 0..40 {
        for race in races(&day(RaceDay::FULL_RACES, seed)) {
            seen.check_race(&race);
        }
    }
    assert!(seen.pools > 800, "{seen:?}");
    let all = [
        seen.dead_heats,
        seen.late_refunds,
        seen.all_refunded,
        seen.without_winner,
    ];
    assert!(all.iter().all(|count| *count > 0), "{seen:?}");
}

fn finish(groups: &[&[usize]]) -> Finish {
    let group = |runners: &&[usize]| Group {
        runners: runners.to_vec(),
        time: 6_000,
    };
    Finish {
        placed: groups.iter().map(group).collect(),
        unplaced: Vec::new(),
    }
}

fn pool(kind: PoolKind, stakes: &[(Bits, u64)]) -> Pool {
    let mut pool = Pool::new(kind);
    for (combination, cents) in stakes {
        pool.add(*combination, *cents);
    }
    pool
}

/// Of 1,000.00, of which 825.00 are paid.
#[test]
fn a_dead_heat_shares_its_portion() {
    let win = pool(
        PoolKind::Win,
        &[(0b1, 20_000), (0b10, 30_000), (0b100, 50_000)],
    );
    let dividends = |groups: &[&[usize]]| win.dividends(&finish(groups));
    assert_eq!(dividends(&[&[0], &[1], &[2]]), [(0b1, 4_120)]);
    // 412.50 for 200.00 and for 300.00.
    assert_eq!(dividends(&[&[0, 1], &[2]]), [(0b1, 2_060), (0b10, 1_370)]);
    // 275.00 for 500.00 is less than the stake.
    assert_eq!(
        dividends(&[&[0, 1, 2]]),
        [(0b1, 1_370), (0b10, 1_000), (0b100, 1_000)]
    );

    let place = pool(
        PoolKind::Place,
        &[
            (0b1, 10_000),
            (0b10, 10_000),
            (0b100, 10_000),
            (0b1000, 10_000),
            (0b10000, 60_000),
        ],
    );
    let dividends = |groups: &[&[usize]]| place.dividends(&finish(groups));
    let full = 2_750;
    assert_eq!(
        dividends(&[&[0], &[1, 2], &[3]]),
        [(0b1, full), (0b10, full), (0b100, full)]
    );
    let half = 1_370;
    assert_eq!(
        dividends(&[&[0], &[1], &[2, 3]]),
        [(0b1, full), (0b10, full), (0b100, half), (0b1000, half)]
    );
}

#[test]
fn two_of_a_dead_heat_for_third_are_no_quinella_place() {
    let pairs: [(Bits, u64); 6] = [
        (0b11, 10_000),
        (0b101, 10_000),
        (0b1001, 10_000),
        (0b110, 10_000),
        (0b1010, 10_000),
        (0b1100, 50_000),
    ];
    let quinella_place = pool(PoolKind::QuinellaPlace, &pairs);
    let (full, half) = (2_750, 1_370);
    assert_eq!(
        quinella_place.dividends(&finish(&[&[0], &[1], &[2, 3]])),
        [
            (0b11, full),
            (0b101, half),
            (0b1001, half),
            (0b110, half),
            (0b1010, half)
        ]
    );
    let quinella = pool(PoolKind::Quinella, &pairs);
    let dividends = |groups: &[&[usize]]| quinella.dividends(&finish(groups));
    assert_eq!(dividends(&[&[1], &[0, 2]]), [(0b11, 4_120), (0b110, 4_120)]);
    assert_eq!(dividends(&[&[2, 0], &[1]]), [(0b101, 8_250)]);
}

#[test]
fn a_portion_without_a_winner_goes_to_the_others_and_a_pool_without_one_is_refunded() {
    let place = pool(
        PoolKind::Place,
        &[(0b1, 20_000), (0b100, 20_000), (0b1000, 60_000)],
    );
    let dividends = |groups: &[&[usize]]| place.dividends(&finish(groups));
    let (half, third) = (2_060, 1_370);
    assert_eq!(
        dividends(&[&[0], &[1], &[2], &[3]]),
        [(0b1, half), (0b100, half)]
    );
    assert_eq!(
        dividends(&[&[0], &[2, 3], &[1]]),
        [(0b1, third), (0b100, third), (0b1000, 1_000)]
    );
    assert!(dividends(&[&[4], &[5], &[6], &[0]]).is_empty());
    let mut place = place;
    place.refund(3);
    assert_eq!(
        (
            place.total,
            place.dividends(&finish(&[&[3], &[0], &[2]])).len()
        ),
        (40_000, 2)
    );
}
