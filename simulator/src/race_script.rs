//! [`RaceScript`]: the events of one race.

use events::{
    Currency, Dividend, DividendStatus, Event, FinishTime, Margin, Odds, Outcome, QuotedRunner,
    RaceStatus, ResultDeclared, ResultRunner, ResultStatus, Text, race_event,
};

use crate::card::RacePlan;
use crate::finish::Finish;
use crate::pool::{PoolKind, amount};
use crate::rng::Rng;
use crate::source::{RACECOURSE, TOTE};
use crate::tote::Tote;
use crate::twists::{Ending, Twists};
use crate::units::{MINUTE_MS, SECOND_MS};
use crate::words::{JOCKEYS, text};

/// After the last horse has finished.
const PROVISIONAL_AFTER_MS: u64 = 45 * SECOND_MS;
const OFFICIAL_AFTER_MS: u64 = 4 * MINUTE_MS;
/// After the official result.
const AMENDED_AFTER_MS: u64 = 10 * MINUTE_MS;
/// The shares of the first to the fifth in a race's stakes, in thousandths.
const STAKES_SPLIT: [u64; 5] = [560, 220, 115, 60, 45];
/// The time in which a horse runs its own length.
const LENGTH_HUNDREDTHS: u32 = 17;
/// The sections of a race are counted from its end; the first is longer.
const SECTION_M: u32 = 400;

fn currency() -> Currency {
    Currency::parse("HKD").expect("a code")
}

/// Appends an event of this type about the race.
macro_rules! push {
    ($script:expr, $source:expr, $at_ms:expr => $($event:tt)*) => {{
        let event = race_event!($script.race.key.clone() => $($event)*);
        $script.push($source, $at_ms, event);
    }};
}

/// The milliseconds after midnight, the source and the event.
pub(crate) type ScriptedEvent = (u64, &'static str, Event);

pub(crate) struct RaceScript<'a> {
    pub(crate) race: &'a RacePlan,
    pub(crate) twists: Twists,
    /// The current jockeys, in the order of the card.
    riders: Vec<Text>,
    events: Vec<ScriptedEvent>,
}

impl<'a> RaceScript<'a> {
    pub(crate) fn new(race: &'a RacePlan, twists: Twists) -> Self {
        let riders = race.card.runners.iter().map(|r| r.jockey.clone());
        Self {
            race,
            twists,
            riders: riders.collect(),
            events: Vec::new(),
        }
    }

    /// All events of the race behind its card, and its pools at the end.
    pub(crate) fn events(mut self, rng: &mut Rng) -> (Vec<ScriptedEvent>, Tote<'a>) {
        if let Some((at_ms, going)) = &self.race.rain {
            push!(self, RACECOURSE, *at_ms => GoingChanged { going: going.clone() });
        }
        self.status(self.race.open_ms, RaceStatus::Open, None);
        let mut tote = self.bet(rng);
        if self.twists.ending == Ending::Abandoned {
            self.abandon(&mut tote, rng);
        } else {
            self.run(&tote, rng);
        }
        (self.events, tote)
    }

    fn run(&mut self, tote: &Tote<'_>, rng: &mut Rng) {
        let race = self.race;
        let finish = Finish::of(race, &self.twists, rng);
        let finish_ms = race.off_ms + finish.last_finish_ms();
        let official_ms = finish_ms + OFFICIAL_AFTER_MS;
        self.quote_tote(race.close_ms(), tote);
        self.quote_pairs(race.close_ms(), tote);
        self.status(race.close_ms(), RaceStatus::Closed, None);
        self.status(race.off_ms, RaceStatus::Off, None);
        self.status(finish_ms, RaceStatus::Finished, None);
        let provisional = self.result(1, ResultStatus::Provisional, None, &finish, tote);
        self.push(RACECOURSE, finish_ms + PROVISIONAL_AFTER_MS, provisional);
        if self.twists.ending == Ending::Voided {
            push!(self, RACECOURSE, official_ms => ResultVoided {
                revision: 2,
                reason: Some(text("Void: the starter had recalled the field")),
            });
            self.pay(official_ms, DividendStatus::Refund, Vec::new());
            return;
        }
        let official = self.result(2, ResultStatus::Official, None, &finish, tote);
        self.push(RACECOURSE, official_ms, official);
        self.status(official_ms, RaceStatus::Result, None);
        let dividends = tote.dividends(&finish);
        self.pay(official_ms, DividendStatus::Official, dividends);
        if self.twists.ending == Ending::Amended {
            let (finish, winner) = finish.without_its_winner();
            let name = &race.card.runners[winner].horse_name;
            let reason = text(&format!("{name} is disqualified for careless riding"));
            let amended = self.result(3, ResultStatus::Official, Some(reason), &finish, tote);
            self.push(RACECOURSE, official_ms + AMENDED_AFTER_MS, amended);
        }
    }

    pub(crate) fn status(&mut self, at_ms: u64, status: RaceStatus, reason: Option<&str>) {
        push!(self, RACECOURSE, at_ms => RaceStatusChanged {
            status,
            reason: reason.map(text),
        });
    }

    pub(crate) fn withdraw(&mut self, at_ms: u64, runner: usize, reason: &str) {
        push!(self, RACECOURSE, at_ms => RunnerWithdrawn {
            horse_no: self.race.card.runners[runner].horse_no.clone(),
            reason: Some(text(reason)),
        });
    }

    pub(crate) fn reinstate(&mut self, at_ms: u64, runner: usize, reason: &str) {
        push!(self, RACECOURSE, at_ms => RunnerReinstated {
            horse_no: self.race.card.runners[runner].horse_no.clone(),
            reason: Some(text(reason)),
        });
    }

    /// A jockey without a ride in the race takes over, at up to two pounds over the weight.
    pub(crate) fn change_rider(&mut self, at_ms: u64, runner: usize, rng: &mut Rng) {
        let is_free = |name: &&str| self.riders.iter().all(|r| r.as_str() != *name);
        let free: Vec<&str> = JOCKEYS.into_iter().filter(is_free).collect();
        self.riders[runner] = text(rng.pick(&free));
        let over = u16::try_from(rng.below(3)).unwrap_or(0);
        let declared = &self.race.card.runners[runner];
        push!(self, RACECOURSE, at_ms => RiderChanged {
            horse_no: declared.horse_no.clone(),
            jockey: self.riders[runner].clone(),
            weight: (over > 0).then_some(declared.weight + over),
        });
    }

    /// Quotes the win and the place price of each runner.
    pub(crate) fn quote(
        &mut self,
        source: &'static str,
        at_ms: u64,
        tote: &Tote<'_>,
        prices: &[[Option<Odds>; 2]],
    ) {
        let runners = self.race.card.runners.iter().zip(prices).enumerate();
        let quoted = runners.map(|(index, (runner, [win, place]))| QuotedRunner {
            horse_no: runner.horse_no.clone(),
            horse_name: None,
            number: Some(runner.number),
            win: *win,
            place: *place,
            state: tote.closed(1 << index),
        });
        push!(self, source, at_ms => OddsQuoted {
            runners: quoted.collect(),
        });
    }

    /// Quotes the pools of pairs, and states the totals of all.
    pub(crate) fn quote_pairs(&mut self, at_ms: u64, tote: &Tote<'_>) {
        for kind in [PoolKind::Quinella, PoolKind::QuinellaPlace] {
            push!(self, TOTE, at_ms => MarketQuoted {
                market: kind.code(),
                prices: tote.pair_prices(kind),
            });
        }
        for pool in tote.pools.iter().filter(|pool| pool.total > 0) {
            push!(self, TOTE, at_ms => PoolInvested {
                pool: pool.kind.code(),
                currency: currency(),
                invested: amount(pool.total),
            });
        }
    }

    pub(crate) fn pay(&mut self, at_ms: u64, status: DividendStatus, dividends: Vec<Dividend>) {
        push!(self, TOTE, at_ms => DividendsDeclared {
            revision: 1,
            status,
            reason: None,
            currency: currency(),
            dividends,
        });
    }

    fn result(
        &self,
        revision: u32,
        status: ResultStatus,
        reason: Option<Text>,
        finish: &Finish,
        tote: &Tote<'_>,
    ) -> Event {
        let card = &self.race.card;
        let going = self.race.rain.as_ref().map(|(_, going)| going.clone());
        Event::ResultDeclared(ResultDeclared {
            venue_name: card.venue_name.clone(),
            race_name: Some(card.race_name.clone()),
            distance: Some(card.distance),
            going: going.or_else(|| card.going.clone()),
            sectionals: sectionals(card.distance, finish.placed.first().map(|group| group.time)),
            status,
            reason,
            runners: self.result_runners(finish, tote),
            ..ResultDeclared::of(self.race.key.clone(), revision)
        })
    }

    /// The placed runners in order, then the others.
    fn result_runners(&self, finish: &Finish, tote: &Tote<'_>) -> Vec<ResultRunner> {
        let mut runners = Vec::with_capacity(self.race.card.runners.len());
        for group in &finish.placed {
            let before = runners.len();
            let stakes = shared_stakes(self.race.stakes, before, group.runners.len());
            runners.extend(group.runners.iter().map(|&runner| ResultRunner {
                position: u16::try_from(before + 1).ok(),
                margin: margin(group.time - finish.placed[0].time),
                stakes: Some(stakes),
                ..self.result_runner(runner, Some(group.time), tote)
            }));
        }
        let unplaced = finish.unplaced.iter();
        runners.extend(unplaced.map(|&(runner, outcome, time)| ResultRunner {
            outcome: Some(Outcome::parse(outcome).expect("its codes are well formed")),
            ..self.result_runner(runner, time, tote)
        }));
        runners
    }

    /// A runner without its placing, with its time in hundredths of a second.
    fn result_runner(&self, runner: usize, time: Option<u32>, tote: &Tote<'_>) -> ResultRunner {
        let declared = &self.race.card.runners[runner];
        ResultRunner {
            horse_name: declared.horse_name.clone(),
            number: Some(declared.number),
            jockey: self.riders[runner].clone(),
            trainer: declared.trainer.clone(),
            win_odds: tote.odds(PoolKind::Win, 1 << runner),
            finish_time: time.and_then(|time| FinishTime::from_hundredths(time).ok()),
            sectionals: sectionals(self.race.card.distance, time),
            stakes: Some(0),
            ..ResultRunner::of(declared.horse_no.clone())
        }
    }

    fn push(&mut self, source: &'static str, at_ms: u64, event: Event) {
        self.events.push((at_ms, source, event));
    }
}

/// Horses in a dead heat share the stakes of the places that they occupy.
fn shared_stakes(stakes: u64, before: usize, sharing: usize) -> u64 {
    let taken: u64 = STAKES_SPLIT.iter().skip(before).take(sharing).sum();
    stakes * taken / 1000 / sharing as u64
}

/// The margin of a runner that finished so many hundredths of a second behind the winner.
fn margin(behind: u32) -> Option<Margin> {
    let quarters = behind * 4 / LENGTH_HUNDREDTHS;
    match u16::try_from(quarters).ok()? {
        0 if behind == 0 => None,
        0 => Margin::parse("SH").ok(),
        quarters => Margin::from_quarters(quarters).ok(),
    }
}

/// The times of the sections of a race that was run in so many hundredths of a second at an even pace.
fn sectionals(distance: u32, time: Option<u32>) -> Vec<FinishTime> {
    let Some(time) = time else { return Vec::new() };
    let passed_at = |left: u32| time - time * left / distance;
    let left = (0..(distance / SECTION_M).max(1)).rev();
    let ends = left.map(|sections| passed_at(sections * SECTION_M));
    let ends: Vec<u32> = ends.collect();
    let begins = [0].into_iter().chain(ends.iter().copied());
    let times = begins.zip(&ends).map(|(begin, end)| end - begin);
    let times = times.filter_map(|time| FinishTime::from_hundredths(time).ok());
    times.collect()
}
