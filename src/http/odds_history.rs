//! `/api/v1/odds/{date}/{race_number}/history`: the quotes of a race, or the prices that they make by steps of time.
//! `/api/v1/odds/{date}/{race_number}/moves`: one step until the race was off.

use std::collections::VecDeque;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use events::{Moment, PoolCode, RaceKey, Recorded};
use projections::json::{JsonObject, render};
use projections::odds_history::{OddsStep, OddsTick, PriceSteps, Priced, market_ticks, ticks};
use projections::{LogClock, keys};
use serde::Deserialize;

use super::odds::{chosen, find, market, odds_path};
use super::paging::{LIMIT_MAX, next_path, read_page};
use super::{Answer, ApiError, ApiRequest, App, PageRows, Routes};

const HISTORY: &str = "/api/v1/odds/{date}/{race_number}/history";
const MOVES: &str = "/api/v1/odds/{date}/{race_number}/moves";
const PARAMETERS: [&str; 10] = [
    "after", "every", "from", "last", "limit", "market", "runner", "source", "to", "venue",
];
const MOVE_PARAMETERS: [&str; 6] = ["after", "limit", "market", "runner", "source", "venue"];
/// The shortest step. A feeder sends a few quotes a second at most.
const EVERY_MIN: Duration = Duration::from_secs(1);
const STEP: &str = "every is 1s or longer";
const NEWEST: &str = "last is without after and limit: it is the limit of the newest rows";

pub(super) fn router() -> Routes {
    Routes::default()
        .route(HISTORY, rows(&PARAMETERS, false))
        .route(MOVES, rows(&MOVE_PARAMETERS, true))
}

fn rows(parameters: &'static [&'static str], has_moves: bool) -> MethodRouter<Arc<App>> {
    get(async move |State(app): State<Arc<App>>, request: Request| {
        let request = ApiRequest::read(request, &app, parameters).await?;
        respond(&app, request, has_moves).await
    })
}

async fn respond(app: &App, request: ApiRequest, has_moves: bool) -> Result<Response, ApiError> {
    request.require_odds(None)?;
    let market = market(&request)?;
    // The views have no quotes of other markets, the log has them. Both are read as of one event.
    let request = match market {
        Some(_) => request.rewound_to_one_event().await?,
        None => request.rewound().await?,
    };
    let (mut off, mut quotes) = (None, Vec::new());
    if has_moves || market.is_some() {
        let found = find(&request);
        let (race, _) =
            found.map_err(|error| app.unless_caught_up(request.was_caught_up, error))?;
        if has_moves {
            off = Some(request.end_of_moves(&race).await?);
        }
        if market.is_some() {
            quotes = app.past.quotes(&race, request.seq()).await?;
        }
    }
    let read = move |request: &ApiRequest| {
        let of_market = market.as_ref().map(|market| (market, &*quotes));
        answer(request, of_market, off)
    };
    read_page(request, read).await
}

/// The board with the quotes that the query chooses, or with their steps; or with the moves until the event `off`.
fn answer(
    request: &ApiRequest,
    of_market: Option<(&PoolCode, &[Recorded])>,
    off: Option<u64>,
) -> Result<Answer, ApiError> {
    let (race, primary) = find(request)?;
    let board = chosen(request, &race, primary.clone())?;
    let mut rows = HistoryRows::of(request, &primary, &board, off)?;
    if let Some((market, quotes)) = of_market {
        let clock = (request.store.checkpoint()).map_or(LogClock::default(), |whole| whole.clock);
        rows.add(market_ticks(&clock, market, quotes));
    } else {
        rows.read(request, &race)?;
    }
    let has_steps = rows.steps.is_some();
    let (page, next) = rows.finish();
    let list = if off.is_some() { "moves" } else { "history" };
    let path = format!("{}/{list}", odds_path(&race));
    let next = next.map(|after| next_path(&path, &request.query, &after.to_string()));
    let json = JsonObject::from_rendered(board);
    let json = match has_steps && off.is_none() {
        true => json.list(list, None::<&[u8]>).list("steps", page.list()),
        false => json.list(list, page.list()),
    };
    Ok(Answer::page(json, &next.unwrap_or_default()))
}

/// The moves of all prices of a race until the event `off`, by its primary source. None if it was never quoted.
pub(super) fn moves(request: &ApiRequest, off: u64) -> Result<PageRows, ApiError> {
    let (race, board) = match find(request) {
        Err(ApiError::NotFound(_)) => return Ok(PageRows::default()),
        found => found?,
    };
    let mut rows = HistoryRows::of(request, &board, &board, Some(off))?;
    rows.read(request, &race)?;
    Ok(rows.finish().0)
}

/// The fields of a board that the history depends on.
#[derive(Deserialize)]
struct HistoryBoard {
    source: String,
    runners: Vec<HistoryRunner>,
}

#[derive(Deserialize)]
struct HistoryRunner {
    horse_no: String,
    number: u16,
}

impl HistoryRunner {
    fn is_named(&self, name: &str) -> bool {
        self.horse_no == name || self.number.to_string() == name
    }

    fn is_in(&self, priced: &Priced) -> bool {
        priced.has(&self.horse_no, self.number)
    }
}

/// The rows that a query chooses of the quotes of a race, in the order of the log.
struct HistoryRows {
    /// When the log stored the quotes: this time or later.
    from: Option<Moment>,
    /// Before this time.
    to: Option<Moment>,
    source: Option<String>,
    runner: Option<HistoryRunner>,
    /// The event up to which one step has all quotes, of which the moves are made.
    off: Option<u64>,
    /// Of all rows that are steps.
    steps: Option<PriceSteps>,
    after: u64,
    /// The index of the next row.
    index: u64,
    page: PageRows,
    /// The number of the newest rows that are wanted, and these rows.
    last: Option<usize>,
    newest: VecDeque<Vec<u8>>,
    /// The index of the first row of the next page.
    next: Option<u64>,
}

impl HistoryRows {
    /// `primary` is the board of the primary source, `board` the chosen one.
    fn of(
        request: &ApiRequest,
        primary: &[u8],
        board: &[u8],
        off: Option<u64>,
    ) -> Result<Self, ApiError> {
        let query = &request.query;
        let parse = |board| serde_json::from_slice::<HistoryBoard>(board);
        let (primary, board) = (parse(primary)?, parse(board)?);
        let every = off.map(|_| Duration::MAX).or(query.duration("every")?);
        let last = query.count("last", LIMIT_MAX)?;
        if every.is_some_and(|every| every < EVERY_MIN) {
            return Err(ApiError::invalid(STEP));
        }
        if last.is_some() && (query.get("after").or(query.get("limit"))).is_some() {
            return Err(ApiError::invalid(NEWEST));
        }
        let runner = query.get("runner").map(|name| {
            let mut runners = primary.runners.into_iter();
            let found = runners.find(|runner| runner.is_named(name));
            found.ok_or_else(|| ApiError::NotFound(format!("No runner {name:?} is quoted")))
        });
        Ok(Self {
            from: query.moment("from")?,
            to: query.moment("to")?,
            // A step has the prices of one book.
            source: (query.get("source").map(str::to_owned)).or(every.map(|_| board.source)),
            runner: runner.transpose()?,
            off,
            steps: every.map(PriceSteps::of),
            after: query.number("after")?.unwrap_or(0),
            index: 0,
            page: PageRows::of(query)?,
            last,
            newest: VecDeque::new(),
            next: None,
        })
    }

    /// Adds the rows of the stored history, until the page is full.
    fn read(&mut self, request: &ApiRequest, race: &RaceKey) -> Result<(), ApiError> {
        let after = if self.steps.is_none() { self.after } else { 0 };
        let (first, skip) = keys::ticks_from(race, after);
        self.index = after - skip as u64;
        for chunk in request.store.range(&first, &(keys::ticks(race) + "~")) {
            let (key, chunk) = chunk?;
            self.add(ticks(&key, &chunk)?);
            if self.next.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Adds the rows of some quotes, until the page is full.
    fn add(&mut self, ticks: Vec<OddsTick<'_>>) {
        for tick in ticks {
            let flow = if self.steps.is_some() {
                let over = self.step(&tick);
                self.push_steps(over)
            } else {
                let row = self.chosen(tick).map(|tick| render(&tick));
                let flow = row.map_or(Continue(()), |row| self.push(&row));
                self.index += 1;
                flow
            };
            if flow.is_break() {
                break;
            }
        }
    }

    /// A quote with what the query chooses of it.
    fn chosen<'a>(&self, mut tick: OddsTick<'a>) -> Option<OddsTick<'a>> {
        if !self.has(&tick) || self.from.is_some_and(|from| tick.recorded_at < from) {
            return None;
        }
        let runner = self.runner.as_ref();
        let is_chosen = runner.is_none_or(|it| tick.retain(&it.horse_no, it.number));
        is_chosen.then_some(tick)
    }

    /// Whether a quote is of the source, and before the end.
    fn has(&self, tick: &OddsTick<'_>) -> bool {
        let source = self.source.as_deref();
        source.is_none_or(|source| source == tick.source)
            && self.to.is_none_or(|to| tick.recorded_at < to)
            && self.off.is_none_or(|off| tick.seq <= off)
    }

    /// Takes a quote. Returns the steps that are over.
    fn step(&mut self, tick: &OddsTick<'_>) -> Vec<OddsStep> {
        if tick.stale || !self.has(tick) {
            return Vec::new();
        }
        let runner = self.runner.as_ref();
        let is_chosen = |priced: &Priced| runner.is_none_or(|runner| runner.is_in(priced));
        let steps = self.steps.as_mut();
        steps.map_or(Vec::new(), |steps| steps.take(tick, is_chosen))
    }

    fn push_steps(&mut self, steps: Vec<OddsStep>) -> ControlFlow<()> {
        for step in steps {
            // The steps before `from` are the prices with which the first one opens.
            let is_before = self.from.is_some_and(|from| from > step.from);
            let row = match self.off {
                Some(_) => step.into_move().map(|moved| render(&moved)),
                None => Some(render(&step)),
            };
            if let Some(row) = row.filter(|_| !is_before) {
                self.push(&row)?;
                self.index += 1;
            }
        }
        Continue(())
    }

    fn push(&mut self, row: &[u8]) -> ControlFlow<()> {
        match self.last {
            Some(last) => {
                if self.newest.len() == last {
                    self.newest.pop_front();
                }
                self.newest.push_back(row.to_owned());
            }
            None if self.index < self.after => {}
            None if self.page.is_full() => {
                self.next = Some(self.index);
                return Break(());
            }
            None => self.page.push(row),
        }
        Continue(())
    }

    /// The page, and the index of the first row of the next one. The newest rows come first.
    fn finish(mut self) -> (PageRows, Option<u64>) {
        if self.next.is_none()
            && let Some(steps) = &mut self.steps
        {
            let latest = steps.finish();
            let _ = self.push_steps(latest);
        }
        for row in self.newest.iter().rev() {
            self.page.push(row);
        }
        (self.page, self.next)
    }
}
