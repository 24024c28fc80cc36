//! [`LiveRace`]: one race and its board, and what is to be told of each event about them.

use events::{Envelope, Event, OddsQuoted, RaceKey, Recorded};

use crate::live::{LiveBoard, LiveKind, LiveMessage, LiveUpdate};
use crate::live_message::{self, MessageContext, RunnerChange};
use crate::odds_board::{self, Board, Quote};
use crate::race::Effect;
use crate::{Race, race_result};

/// A race as its own events make it: the same wherever they are folded.
#[derive(Debug, Default)]
pub(crate) struct LiveRace {
    pub(crate) race: Race,
    pub(crate) board: Board,
}

/// A message that is to be told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingMessage {
    kind: LiveKind,
    prev_seq: u64,
}

/// What is to be told of an event that changed what is live, in this order; none of one that did not.
pub(crate) type PendingMessages = Option<Vec<PendingMessage>>;

impl LiveRace {
    /// Takes in a quote.
    pub(crate) fn quote(
        &mut self,
        recorded: &Recorded,
        quote: &OddsQuoted,
    ) -> (Quote, PendingMessages) {
        let outcome = self.board.quote(recorded, quote);
        let due = (outcome == Quote::Shown).then(|| vec![self.odds_due()]);
        (outcome, due)
    }

    /// Takes in any other event about the race.
    pub(crate) fn fact(&mut self, recorded: &Recorded) -> (Effect, PendingMessages) {
        let Envelope { id, event, .. } = &recorded.envelope;
        let status = (self.race.status(), self.race.status_reason.clone());
        let effect = self.race.apply(id, event);
        if !matches!(
            effect,
            Effect::Changed | Effect::Stated { in_force: true, .. }
        ) {
            return (effect, None);
        }
        let mut due = Vec::new();
        if RunnerChange::of(event).is_some() {
            due.push(self.due(LiveKind::Runner, recorded.seq));
        }
        if matches!(effect, Effect::Stated { .. }) {
            due.push(self.due(LiveKind::Result, recorded.seq));
        }
        if status != (self.race.status(), self.race.status_reason.clone()) {
            due.push(self.due(LiveKind::Status, recorded.seq));
        }
        let in_image = matches!(
            event,
            Event::RaceDeclared(_) | Event::RunnerWithdrawn(_) | Event::RunnerReinstated(_)
        );
        if in_image && self.board.seq > 0 {
            self.board.touch(recorded.seq, recorded.recorded_at);
            due.push(self.odds_due());
        }
        let live = self.board.seq > 0 || !self.race.last_seq_by_kind.is_empty();
        (effect, live.then_some(due))
    }

    fn due(&mut self, kind: LiveKind, seq: u64) -> PendingMessage {
        let prev_seq = self.race.last_seq_by_kind.insert(kind, seq).unwrap_or(0);
        PendingMessage { kind, prev_seq }
    }

    fn odds_due(&self) -> PendingMessage {
        PendingMessage {
            kind: LiveKind::Odds,
            prev_seq: self.board.prev_seq,
        }
    }

    /// The race has a board, and is not over.
    pub(crate) fn is_open(&self) -> bool {
        self.board.seq > 0 && !self.race.status().is_over()
    }

    /// Says what is due of an event that was just taken in.
    pub(crate) fn render_update(
        &self,
        key: &RaceKey,
        recorded: &Recorded,
        due: &[PendingMessage],
    ) -> LiveUpdate {
        let board = (self.board.seq > 0).then(|| LiveBoard {
            seq: self.board.seq,
            json: odds_board::render(key, &self.race, &self.board),
        });
        let messages = due.iter().filter_map(|PendingMessage { kind, prev_seq }| {
            let telling = MessageContext {
                key,
                recorded,
                prev_seq: *prev_seq,
            };
            Some(LiveMessage {
                kind: *kind,
                prev_seq: *prev_seq,
                json: self.message(*kind, &telling, board.as_ref())?,
            })
        });
        LiveUpdate {
            seq: recorded.seq,
            race: key.clone(),
            venue: self.race.venue_name(key).to_owned(),
            messages: messages.collect(),
            open: self.is_open(),
            runners: self.race.horses(self.board.horses()),
            board,
        }
    }

    fn message(
        &self,
        kind: LiveKind,
        telling: &MessageContext<'_>,
        board: Option<&LiveBoard>,
    ) -> Option<Vec<u8>> {
        match kind {
            LiveKind::Odds => Some(live_message::odds_update(&board?.json)),
            LiveKind::Status => Some(live_message::status_update(telling, &self.race)),
            LiveKind::Runner => {
                let change = RunnerChange::of(&telling.recorded.envelope.event)?;
                let Self { race, board } = self;
                Some(live_message::runner_update(telling, race, board, &change))
            }
            LiveKind::Result => {
                let result = race_result::of(telling.key, &self.race)?;
                Some(live_message::result_update(telling, &self.race, result))
            }
        }
    }
}
