//! [`LiveRace`]: a race, its odds board, and the messages that each event about them publishes.

use std::collections::BTreeMap;

use events::{Envelope, Event, MarketQuoted, OddsQuoted, RaceKey, Recorded, Text};
use serde::{Deserialize, Serialize};

use super::kind::LiveKind;
use super::message::{self, ChangedRunner, ChangedStatus, MessageContext, runner_change};
use super::quote::LiveQuote;
use super::update::{LiveBoard, LiveMessage, LiveUpdate};
use crate::effect::Effect;
use crate::markets::Markets;
use crate::newest::Order;
use crate::odds_board::{self, Board, OddsSource};
use crate::quotes::Quoted;
use crate::race::Race;
use crate::{LogClock, MarketKey, race_card, race_dividends, race_result};

/// The state of a race: a pure function of the events about it, in their order.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct LiveRace {
    pub(crate) race: Race,
    /// The sequence of the last message of each kind but the odds. The board keeps that of the odds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    last_seq_by_kind: BTreeMap<LiveKind, u64>,
    /// Stored under a key of its own, because it changes with every quote.
    #[serde(skip)]
    pub(crate) board: Board,
    /// Stored under a key for each.
    #[serde(skip)]
    pub(crate) markets: Markets,
}

/// A message that is to be published.
/// The kind of a message that is not rendered yet, and its `prev_seq`.
type PendingMessage = (LiveKind, u64);

impl LiveRace {
    /// Folds a quote. `ranking` is that of the sources. With `live`, returns what it changed in the live view, if
    /// anything.
    pub(crate) fn quote(
        &mut self,
        key: &RaceKey,
        recorded: &Recorded,
        quote: &OddsQuoted,
        clock: &LogClock,
        ranking: &[Text],
        live: bool,
    ) -> (Order, Option<LiveUpdate>) {
        let was_open = self.is_open();
        let order = self.board.quote(recorded, quote, clock, ranking);
        let source = &recorded.envelope.source;
        let update = (live && order == Order::New).then(|| {
            let is_shown = self.board.seq == recorded.seq;
            let odds = is_shown.then(|| self.pending_odds());
            let quoted = self.board.quoted(source, Some(quote));
            let quoted = quoted.map(|quoted| (MarketKey::of_runners(source), quoted));
            self.render_quoted(key, recorded, odds, quoted)
        });
        (order, self.with_markets(key, was_open, update.flatten()))
    }

    /// Adds the prices of all markets to the update of an event that has opened the race.
    fn with_markets(
        &self,
        key: &RaceKey,
        was_open: bool,
        update: Option<LiveUpdate>,
    ) -> Option<LiveUpdate> {
        let opens = !was_open && self.is_open();
        let markets = opens.then(|| self.quotes(key));
        update.map(|update| LiveUpdate { markets, ..update })
    }

    /// Folds a quote of another market. With `live`, returns what it changed in the live view, if anything.
    pub(crate) fn quote_market(
        &mut self,
        key: &RaceKey,
        recorded: &Recorded,
        quote: &MarketQuoted,
        clock: &LogClock,
        live: bool,
    ) -> (Order, Option<LiveUpdate>) {
        let market = MarketKey::of(quote, recorded);
        let order = self.markets.quote(&market, recorded, quote, clock);
        let update = (live && order == Order::New).then(|| {
            let quoted = self.markets.quoted(&market, Some(quote));
            let quoted = quoted.map(|quoted| (market, quoted));
            self.render_quoted(key, recorded, None, quoted)
        });
        (order, update.flatten())
    }

    /// Renders the quote that was folded last, unless it changed no price, and the board if it is on it.
    fn render_quoted(
        &self,
        key: &RaceKey,
        recorded: &Recorded,
        odds: Option<PendingMessage>,
        quoted: Option<(MarketKey, Quoted<'_>)>,
    ) -> Option<LiveUpdate> {
        let changed = quoted.filter(|(_, (latest, _))| latest.changed().seq == recorded.seq);
        let quote = changed.map(|(market, quoted)| LiveQuote::new(key, &self.race, market, quoted));
        let is_changed = odds.is_some() || quote.is_some();
        is_changed.then(|| LiveUpdate {
            quote,
            ..self.render_update(key, recorded, odds.as_slice())
        })
    }

    /// All prices of all sources and markets.
    pub(crate) fn quotes(&self, key: &RaceKey) -> Vec<LiveQuote> {
        let of_runners = self.board.sources().map(|OddsSource { source, .. }| {
            let quoted = self.board.quoted(source, None);
            Some((MarketKey::of_runners(source), quoted?))
        });
        let markets = self.markets.0.keys();
        let others =
            markets.map(|market| Some((market.clone(), self.markets.quoted(market, None)?)));
        let quoted = of_runners.chain(others).flatten();
        let quotes = quoted.map(|(market, quoted)| LiveQuote::new(key, &self.race, market, quoted));
        quotes.collect()
    }

    /// Folds any other event about the race. With `live`, returns what it changed in the live view, if anything.
    pub(crate) fn fact(
        &mut self,
        key: &RaceKey,
        recorded: &Recorded,
        clock: &LogClock,
        live: bool,
    ) -> (Effect, Option<LiveUpdate>) {
        let Envelope { event, .. } = &recorded.envelope;
        let was_open = self.is_open();
        let status = self.race.status();
        let reason = self.race.status_reason.clone();
        let effect = self.race.apply(recorded, clock);
        if effect.is_stale() || matches!(effect, Effect::Repeated | Effect::Unchanged) {
            return (effect, None);
        }
        let mut pending = Vec::new();
        if runner_change(event).is_some() {
            pending.push(self.pending(LiveKind::RunnerUpdate, recorded.seq));
        }
        let is_card = matches!(event, Event::RaceDeclared(_) | Event::GoingChanged(_));
        if is_card && self.race.card.is_some() {
            pending.push(self.pending(LiveKind::CardUpdate, recorded.seq));
        }
        if matches!(effect, Effect::Stated { .. }) {
            let kind = match event {
                Event::DividendsDeclared(_) => LiveKind::DividendsUpdate,
                _ => LiveKind::ResultUpdate,
            };
            pending.push(self.pending(kind, recorded.seq));
        }
        if status != self.race.status() || reason != self.race.status_reason {
            pending.push(self.pending(LiveKind::StatusUpdate, recorded.seq));
        }
        let in_image = matches!(
            event,
            Event::RaceDeclared(_) | Event::RunnerWithdrawn(_) | Event::RunnerReinstated(_)
        );
        if in_image && self.board.seq > 0 {
            self.board.touch(recorded.seq, recorded.recorded_at);
            pending.push(self.pending_odds());
        }
        let is_live = live && (self.board.seq > 0 || !self.last_seq_by_kind.is_empty());
        let update = is_live.then(|| self.render_update(key, recorded, &pending));
        (effect, self.with_markets(key, was_open, update))
    }

    fn pending(&mut self, kind: LiveKind, seq: u64) -> PendingMessage {
        (kind, self.last_seq_by_kind.insert(kind, seq).unwrap_or(0))
    }

    fn pending_odds(&self) -> PendingMessage {
        (LiveKind::OddsUpdate, self.board.prev_seq)
    }

    /// Whether the race has a board and is not over.
    pub(crate) fn is_open(&self) -> bool {
        self.board.seq > 0 && !self.race.status().is_over()
    }

    /// Renders the pending messages and the board of the event that was folded last.
    fn render_update(
        &self,
        key: &RaceKey,
        recorded: &Recorded,
        pending: &[PendingMessage],
    ) -> LiveUpdate {
        let is_quote = matches!(
            recorded.envelope.event,
            Event::OddsQuoted(_) | Event::MarketQuoted(_)
        );
        let may_change_board = self.board.seq > 0 && !(is_quote && pending.is_empty());
        let board = may_change_board.then(|| LiveBoard {
            seq: self.board.seq,
            json: odds_board::render(key, &self.race, &self.board),
        });
        let messages = pending
            .iter()
            .filter_map(|&(kind, prev_seq)| {
                let context = MessageContext {
                    key,
                    race: &self.race,
                    recorded,
                    prev_seq,
                };
                let json = self.render_message(kind, &context, board.as_ref())?;
                Some(LiveMessage {
                    kind,
                    prev_seq,
                    json,
                })
            })
            .collect();
        LiveUpdate {
            seq: recorded.seq,
            race: key.clone(),
            venue: self.race.venue_name(key).to_owned(),
            messages,
            open: self.is_open(),
            on_card: self.race.card.is_some(),
            off_time: self.race.off_time(),
            runners: self.race.horses(self.board.horses()),
            board,
            quote: None,
            markets: None,
        }
    }

    fn render_message(
        &self,
        kind: LiveKind,
        context: &MessageContext<'_>,
        board: Option<&LiveBoard>,
    ) -> Option<Vec<u8>> {
        let (key, race) = (context.key, context.race);
        Some(match kind {
            LiveKind::OddsUpdate => message::odds_update(&board?.json),
            LiveKind::StatusUpdate => context.message(kind, ChangedStatus::of(context)),
            LiveKind::RunnerUpdate => {
                context.message(kind, ChangedRunner::of(context, &self.board)?)
            }
            LiveKind::ResultUpdate => context.message(kind, race_result::of(key, race)?),
            LiveKind::CardUpdate => context.message(kind, race_card::of(key, race)?),
            LiveKind::DividendsUpdate => context.message(kind, race_dividends::of(key, race)?),
        })
    }
}
