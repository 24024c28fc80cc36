//! [`Market`]: a market of a file so far, and the events that a change makes.

use std::collections::BTreeMap;
use std::ops::Range;

use events::{
    DeclaredRunner, Event, HorseNo, Moment, Odds, ParseError, PriceState, QuotedRunner,
    RUNNERS_MAX, RaceDeclared, RaceStatus, Text, race_event,
};
use uuid::Uuid;

use super::message::{
    MarketChange, MarketDefinition, MarketRunner, MarketRunnerStatus, MarketStatus,
};
use super::races::{MarketRace, split_number};
use crate::item::{Item, LineItems, Omitted};
use crate::units;

const FORMAT: &str = "betfair-stream";
/// Starting prices are those of a source of their own, because they are not traded.
const STARTING_PRICES: &str = "betfair-sp";

pub(super) struct Market {
    id: String,
    race: MarketRace,
    card: Option<RaceDeclared>,
    runners: BTreeMap<u64, MarketRunnerStatus>,
    status: Option<(RaceStatus, Option<Text>)>,
    has_trades: bool,
    wins: BTreeMap<u64, Option<Odds>>,
    starting_prices: BTreeMap<u64, Odds>,
    /// The prices of the PLACE market from the first message to the last.
    places: Option<Range<usize>>,
    /// The time and the id of the last quote.
    last_quote: Option<(Moment, Uuid)>,
}

impl Market {
    pub(super) fn new(id: &str, race: MarketRace) -> Self {
        Self {
            id: id.to_owned(),
            race,
            card: None,
            runners: BTreeMap::new(),
            status: None,
            has_trades: false,
            wins: BTreeMap::new(),
            starting_prices: BTreeMap::new(),
            places: None,
            last_quote: None,
        }
    }

    /// The notes at the end of the file.
    pub(super) fn notes(&self) -> Vec<String> {
        let id = &self.id;
        let mut notes = Vec::new();
        if self.has_trades && self.last_quote.is_none() {
            let why = "has no last traded price (ltp): its prices are not imported";
            notes.push(format!("market {id} {why}"));
        }
        let omitted = self.race.place.prices.len() - self.places.as_ref().map_or(0, Range::len);
        if omitted > 0 {
            let why = "place prices before its first or after its last message are not imported";
            notes.push(format!("market {id}: {omitted} {why}"));
        }
        let status = self.status.as_ref();
        if !status.is_some_and(|(status, _)| status.is_over()) {
            notes.push(format!("market {id} is still open at the end of the file"));
        }
        notes
    }

    /// Appends the events that a change makes: the card, the runners, the prices and the status, in this order.
    /// Counts the names of a definition that are not read.
    pub(super) fn apply(
        &mut self,
        change: &MarketChange<'_>,
        time: Moment,
        omitted: &mut Omitted,
        out: &mut LineItems,
    ) {
        let definition = change.definition(omitted).unwrap_or_else(|reason| {
            out.reject(format!("the definition of market {}: {reason}", self.id));
            None
        });
        if let Some(definition) = &definition {
            if definition.venue.is_none() && self.card.is_none() {
                let later = "has no venue; it is that of a later definition";
                out.note(format!("a definition of market {} {later}", self.id));
            }
            match self.card(definition) {
                Ok(Some(card)) => out.event(FORMAT, time, card),
                Ok(None) => {}
                Err(error) => out.reject(error),
            }
            for event in self.withdrawals(definition) {
                out.event(FORMAT, time, event);
            }
        }
        let mut ticks = self.place_ticks(time);
        for change in change.rc.iter().flatten() {
            self.has_trades |= change.trd.is_some();
            match change.price() {
                Some(Ok(win)) => ticks.push((time, self.win(change.id, win))),
                Some(Err(reason)) => out.reject(reason),
                None => {}
            }
        }
        self.quote(ticks, out);
        // After the prices, so that those are shown: they are of the source that quoted first.
        if let Some(definition) = &definition {
            self.start(definition, time, out);
        }
        if let Some(event) = definition.and_then(|definition| self.status(&definition)) {
            out.event(FORMAT, time, event);
        }
    }

    /// The card, if it is new.
    fn card(&mut self, definition: &MarketDefinition) -> Result<Option<Event>, ParseError> {
        let key = self.race.key.clone();
        let (_, name) = split_number(definition.name.as_deref().unwrap_or_default());
        let shown = definition.runners.iter();
        let shown = shown.filter(|runner| runner.status != MarketRunnerStatus::Hidden);
        let mut runners: Vec<DeclaredRunner> = shown.map(declared).collect::<Result<_, _>>()?;
        // A market lists them by price, so the order changes while the card does not.
        runners.sort_by(|a, b| (a.number, &a.horse_no).cmp(&(b.number, &b.horse_no)));
        let card = RaceDeclared {
            venue_name: Some(self.race.venue_name.clone()),
            race_name: Text::parse(name)?,
            distance: distance(name),
            off_time: Some(definition.market_time),
            time_zone: Some(Text::parse(&definition.timezone)?),
            runners,
            ..RaceDeclared::of(key)
        };
        if self.card.as_ref() == Some(&card) {
            return Ok(None);
        }
        self.card = Some(card.clone());
        Ok(Some(Event::RaceDeclared(card)))
    }

    /// The runners that are withdrawn or reinstated.
    fn withdrawals(&mut self, definition: &MarketDefinition) -> Vec<Event> {
        let now = definition.runners.iter().map(|r| (r.id, r.status));
        let before = std::mem::replace(&mut self.runners, now.collect());
        let mut events = Vec::new();
        for (id, status) in &self.runners {
            let was_out = before.get(id).is_some_and(|status| status.is_out());
            let key = self.race.key.clone();
            let horse_no = horse_no(*id);
            let reason = None;
            match (was_out, status.is_out()) {
                // All runners of a void market are removed from it, but not withdrawn.
                (false, true) if !definition.is_void() => {
                    events.push(race_event!(key => RunnerWithdrawn { horse_no, reason }));
                }
                (true, false) => {
                    events.push(race_event!(key => RunnerReinstated { horse_no, reason }));
                }
                _ => {}
            }
        }
        events
    }

    /// The prices of the PLACE market that are new up to a time, each with the last win price.
    fn place_ticks(&mut self, time: Moment) -> Vec<(Moment, QuotedRunner)> {
        let prices = &self.race.place.prices;
        let first = prices.partition_point(|(at, ..)| *at < time);
        let places = self.places.get_or_insert(first..first);
        let new = prices[places.end..].iter();
        let new = new.take_while(|(at, ..)| *at <= time);
        let new = new.map(|(at, runner, place)| {
            let win = self.wins.get(runner).copied().flatten();
            (*at, quoted_runner(*runner, win, Some(*place)))
        });
        let ticks: Vec<_> = new.collect();
        places.end += ticks.len();
        ticks
    }

    fn win(&mut self, runner: u64, win: Option<Odds>) -> QuotedRunner {
        self.wins.insert(runner, win);
        // A quote without a win price withdraws a place price that it does not repeat.
        let places = self.places.clone().filter(|_| win.is_none());
        let mut places = self.race.place.prices[places.unwrap_or_default()].iter();
        let last = places.rfind(|(_, of, _)| *of == runner);
        quoted_runner(runner, win, last.map(|(.., place)| *place))
    }

    /// Quotes prices. Two of a runner at one time are two quotes.
    fn quote(&mut self, ticks: Vec<(Moment, QuotedRunner)>, out: &mut LineItems) {
        let mut ticks = ticks.into_iter().peekable();
        while let Some((time, first)) = ticks.next() {
            let mut runners = vec![first];
            while runners.len() < RUNNERS_MAX
                && let Some((_, next)) = ticks.next_if(|(at, next)| {
                    *at == time && runners.iter().all(|r| r.horse_no != next.horse_no)
                })
            {
                runners.push(next);
            }
            self.quoted(runners, time, out);
        }
    }

    /// A quote with an id of its own, even if an equal one was made within the same millisecond: of the prices 3.5, 3.6
    /// and 3.5 the last one applies.
    fn quoted(&mut self, runners: Vec<QuotedRunner>, time: Moment, out: &mut LineItems) {
        out.event(FORMAT, time, self.odds(runners));
        if let Some(Item::Event(quote)) = out.items.last_mut() {
            let content: Uuid = quote.id.parse().expect("a derived id is a UUID");
            let id = match self.last_quote {
                Some((at, last)) if at == time => Uuid::new_v5(&last, content.as_bytes()),
                _ => content,
            };
            quote.id = id.to_string();
            self.last_quote = Some((time, id));
        }
    }

    /// Quotes the starting prices, if they are new.
    fn start(&mut self, definition: &MarketDefinition, time: Moment, out: &mut LineItems) {
        let prices = definition.starting_prices(|reason| out.reject(reason));
        if prices.is_empty() || prices == self.starting_prices {
            return;
        }
        let places = &self.race.place.starting_prices;
        let quoted = prices
            .iter()
            .map(|(id, win)| quoted_runner(*id, Some(*win), places.get(id).copied()));
        out.event(STARTING_PRICES, time, self.odds(quoted.collect()));
        self.starting_prices = prices;
    }

    fn odds(&self, runners: Vec<QuotedRunner>) -> Event {
        race_event!(self.race.key.clone() => OddsQuoted { runners })
    }

    /// The status of the race, if it is new.
    fn status(&mut self, definition: &MarketDefinition) -> Option<Event> {
        let now = status(definition);
        if self.status.as_ref() == Some(&now) {
            return None;
        }
        self.status = Some(now.clone());
        let (status, reason) = now;
        Some(race_event!(self.race.key.clone() => RaceStatusChanged { status, reason }))
    }
}

fn horse_no(runner: u64) -> HorseNo {
    HorseNo::parse(&format!("BF_{runner}")).expect("BF_ and at most 20 digits are a horse number")
}

fn declared(runner: &MarketRunner) -> Result<DeclaredRunner, ParseError> {
    let (number, name) = number_and_name(runner.name.as_deref().unwrap_or_default());
    Ok(DeclaredRunner {
        horse_name: Text::parse(name)?,
        number: number.unwrap_or(0),
        ..DeclaredRunner::of(horse_no(runner.id))
    })
}

/// Splits `13. Tottenham Hotspur`. Without a number in the name it is not known: the order of a market's runners is
/// that of their prices.
fn number_and_name(text: &str) -> (Option<u16>, &str) {
    let parts = text.split_once(". ");
    let found = parts.and_then(|(digits, name)| Some((units::whole(digits)?, name)));
    found.map_or((None, text), |(number, name)| (Some(number), name))
}

/// The metres at the beginning of `1200m 3yo` or `1m2f Hcap`; 0 if there are none.
fn distance(name: &str) -> u32 {
    let first = name.split(' ').next().unwrap_or_default();
    match first.strip_suffix('m').map(str::parse) {
        // `1m` is a mile: no race is over less than a hundred metres, or over a hundred miles.
        Some(Ok(metres @ 100..100_000)) => metres,
        _ => units::distance(first).unwrap_or(0),
    }
}

fn quoted_runner(runner: u64, win: Option<Odds>, place: Option<Odds>) -> QuotedRunner {
    QuotedRunner {
        horse_no: horse_no(runner),
        horse_name: None,
        number: None,
        win,
        place,
        state: win.is_none().then_some(PriceState::NoMarket),
    }
}

fn status(definition: &MarketDefinition) -> (RaceStatus, Option<Text>) {
    let because = |reason: &str| Text::parse(reason).ok();
    match definition.status {
        MarketStatus::Closed if definition.is_void() => {
            (RaceStatus::Abandoned, because("the market was voided"))
        }
        MarketStatus::Closed => {
            let winners: Vec<&str> = definition.winners().collect();
            let reason = format!("won by {}", winners.join(" and "));
            let reason = because(&reason).filter(|_| !winners.is_empty());
            (RaceStatus::Finished, reason)
        }
        // A market is suspended in play while the race is run, and after it.
        _ if definition.in_play => (RaceStatus::Off, None),
        MarketStatus::Suspended => (RaceStatus::Closed, because("suspended")),
        MarketStatus::Open => (RaceStatus::Open, None),
        MarketStatus::Inactive => (RaceStatus::Scheduled, None),
    }
}

impl MarketDefinition {
    /// Whether all bets on the market were cancelled.
    fn is_void(&self) -> bool {
        self.status == MarketStatus::Closed && self.runners.iter().all(|r| r.status.is_out())
    }

    /// The names of the winners: several in a dead heat.
    fn winners(&self) -> impl Iterator<Item = &str> {
        let winners = self.runners.iter();
        let winners = winners.filter(|r| r.status == MarketRunnerStatus::Winner);
        winners.filter_map(|r| Some(number_and_name(r.name.as_deref()?).1))
    }
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn the_distance_is_read_from_the_name() {
        for (name, metres) in [
            ("1200m 3yo", 1_200),
            ("1m Hcap", 1_609),
            ("2m4f Hcap Chs", 4_023),
            ("5f", 1_006),
            ("99m", 0),
            ("999999999m", 0),
            ("m", 0),
            ("To Be Placed", 0),
            ("", 0),
        ] {
            assert_eq!(distance(name), metres, "{name}");
        }
    }
}
