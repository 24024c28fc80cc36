//! `/api/v1/odds/{date}/{race_number}/history`: the quotes of a race, or the prices that they make by steps of time.

use std::collections::VecDeque;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::get;
use events::{Moment, PoolCode, Recorded};
use projections::json::{JsonObject, render};
use projections::odds_history::{OddsStep, PriceSteps, Priced, StoredQuote, market_history};
use projections::{LogClock, keys};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::ApiError;
use super::odds::{chosen, find, market, odds_path};
use super::paging::{LIMIT_MAX, PageRows, next_path, read_page};
use super::request::{Answer, ApiRequest};
use super::routes::Routes;
use super::state::App;

const PARAMETERS: [&str; 10] = [
    "after", "every", "from", "last", "limit", "market", "runner", "source", "to", "venue",
];
/// The shortest step. A feeder sends a few quotes a second at most.
const EVERY_MIN: Duration = Duration::from_secs(1);
const STEP: &str = "every is 1s or longer";
const NEWEST: &str = "last is without after and limit: it is the limit of the newest rows";

pub(super) fn router() -> Routes {
    Routes::default().route(
        "/api/v1/odds/{date}/{race_number}/history",
        get(odds_history),
    )
}

async fn odds_history(State(app): State<Arc<App>>, mut parts: Parts) -> Result<Response, ApiError> {
    let request = ApiRequest::read(&mut parts, &app, &PARAMETERS).await?;
    request.require_odds(None)?;
    let Some(market) = market(&request)? else {
        let request = request.rewound().await?;
        return read_page(request, |request| answer(request, None)).await;
    };
    // The views have no quotes of other markets, the log has them. Both are read as of one event.
    let (request, seq) = request.rewound_to_one_event().await?;
    let (race, _) = find(&request)?;
    let quotes = app.past.quotes(&race, seq).await?;
    let read = move |request: &ApiRequest| answer(request, Some((&market, &quotes)));
    read_page(request, read).await
}

/// The board with the quotes that the query chooses, or with their steps.
fn answer(
    request: &ApiRequest,
    of_market: Option<(&PoolCode, &[Recorded])>,
) -> Result<Answer, ApiError> {
    let (race, primary) = find(request)?;
    let board = chosen(request, &race, primary.clone())?;
    let mut rows = HistoryRows::of(request, &primary, &board)?;
    if let Some((market, quotes)) = of_market {
        let clock = (request.store.checkpoint()).map_or(LogClock::default(), |whole| whole.clock);
        rows.add(&market_history(&clock, market, quotes))?;
    } else {
        let after = if rows.steps.is_none() { rows.after } else { 0 };
        let (first, skip) = keys::ticks_from(&race, after);
        rows.index = after - skip as u64;
        for chunk in request.store.range(&first, &(keys::ticks(&race) + "~")) {
            rows.add(&chunk?.1)?;
            if rows.next.is_some() {
                break;
            }
        }
    }
    let has_steps = rows.steps.is_some();
    let (page, next) = rows.finish();
    let path = odds_path(&race) + "/history";
    let next = next.map(|after| next_path(&path, &request.query, &after.to_string()));
    let json = JsonObject::from_rendered(board);
    let json = match has_steps {
        true => json
            .list("history", None::<&[u8]>)
            .list("steps", page.list()),
        false => json.list("history", page.list()),
    };
    Ok(Answer::page(json, &next.unwrap_or_default()))
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
    fn of(request: &ApiRequest, primary: &[u8], board: &[u8]) -> Result<Self, ApiError> {
        let query = &request.query;
        let parse = |board| serde_json::from_slice::<HistoryBoard>(board);
        let primary = parse(primary).map_err(ApiError::internal)?;
        let board = parse(board).map_err(ApiError::internal)?;
        let every = query.duration("every")?;
        let last = query.count("last", LIMIT_MAX)?;
        let invalid = |text: &str| ApiError::InvalidParameter(text.to_owned());
        if every.is_some_and(|every| every < EVERY_MIN) {
            return Err(invalid(STEP));
        }
        if last.is_some() && (query.get("after").or(query.get("limit"))).is_some() {
            return Err(invalid(NEWEST));
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
            steps: every.map(PriceSteps::of),
            after: query.number("after")?.unwrap_or(0),
            index: 0,
            page: PageRows::of(query)?,
            last,
            newest: VecDeque::new(),
            next: None,
        })
    }

    /// Adds the rows of a chunk of the history, until the page is full.
    fn add(&mut self, chunk: &[u8]) -> Result<(), ApiError> {
        let list = [b"[", chunk, b"]"].concat();
        let quotes: Vec<&RawValue> = serde_json::from_slice(&list).map_err(ApiError::internal)?;
        for quote in quotes {
            let flow = if self.steps.is_some() {
                let over = self.step(quote).map_err(ApiError::internal)?;
                self.push_steps(over)
            } else {
                let row = self.chosen(quote).map_err(ApiError::internal)?;
                let flow = row.map_or(Continue(()), |row| self.push(&row));
                self.index += 1;
                flow
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// A quote with what the query chooses of it.
    fn chosen(&self, row: &RawValue) -> serde_json::Result<Option<Vec<u8>>> {
        let Self {
            from,
            to,
            source,
            runner,
            ..
        } = self;
        if from.is_none() && to.is_none() && source.is_none() && runner.is_none() {
            return Ok(Some(row.get().as_bytes().to_vec()));
        }
        let mut quote: StoredQuote<'_> = serde_json::from_str(row.get())?;
        if !self.has(&quote) || from.is_some_and(|from| quote.recorded_at < from) {
            return Ok(None);
        }
        if let Some(runner) = runner {
            for prices in [&mut quote.runners, &mut quote.prices] {
                prices.retain(|price| {
                    serde_json::from_str(price.get()).is_ok_and(|priced| runner.is_in(&priced))
                });
            }
            if quote.runners.is_empty() && quote.prices.is_empty() {
                return Ok(None);
            }
        }
        Ok(Some(render(&quote)))
    }

    /// Whether a quote is of the source, and before the end.
    fn has(&self, quote: &StoredQuote<'_>) -> bool {
        let is_of_source = self
            .source
            .as_ref()
            .is_none_or(|source| *source == quote.source);
        is_of_source && self.to.is_none_or(|to| quote.recorded_at < to)
    }

    /// Takes a quote. Returns the steps that are over.
    fn step(&mut self, row: &RawValue) -> serde_json::Result<Vec<OddsStep>> {
        let quote: StoredQuote<'_> = serde_json::from_str(row.get())?;
        if quote.stale || !self.has(&quote) {
            return Ok(Vec::new());
        }
        let runner = self.runner.as_ref();
        let is_chosen = |priced: &Priced| runner.is_none_or(|runner| runner.is_in(priced));
        let steps = self.steps.as_mut();
        steps.map_or(Ok(Vec::new()), |steps| steps.take(&quote, is_chosen))
    }

    fn push_steps(&mut self, steps: Vec<OddsStep>) -> ControlFlow<()> {
        for step in steps {
            // The steps before `from` are the prices with which the first one opens.
            if self.from.is_none_or(|from| from <= step.from) {
                self.push(&render(&step))?;
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
            if self.page.is_full() {
                break;
            }
            self.page.push(row);
        }
        (self.page, self.next)
    }
}
