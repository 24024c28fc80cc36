//! [`LiveUpdate`]: what one event changed in the live view of a race.

use events::{HorseNo, Moment, RaceKey};

use super::kind::LiveKind;
use super::quote::LiveQuote;

/// A message of the live channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveMessage {
    /// The kind of message.
    pub kind: LiveKind,
    /// The sequence of the previous message of the same kind about the same race; 0 if there is none.
    pub prev_seq: u64,
    /// The whole message, a JSON object with `event`.
    pub json: Vec<u8>,
}

/// The image of a race's odds board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveBoard {
    /// The sequence of the last `odds_update`.
    pub seq: u64,
    /// The board as it is stored: a JSON object without `event`.
    pub json: Vec<u8>,
}

/// What an event changed in the live view of a race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveUpdate {
    /// The sequence of the event.
    pub seq: u64,
    /// The race.
    pub race: RaceKey,
    /// The racecourse's name.
    pub venue: String,
    /// The messages to publish, in this order: about the runner, the card, the result or the dividends, about the
    /// status, about the odds. Empty if only the image changed, or a source that is not shown has quoted.
    pub messages: Vec<LiveMessage>,
    /// The board after the event, if the race has one and the event may have changed it.
    pub board: Option<LiveBoard>,
    /// The quote to publish after the messages.
    pub quote: Option<LiveQuote>,
    /// All prices of its markets, if the event has opened the race; without an event, if it is open.
    pub markets: Option<Vec<LiveQuote>>,
    /// Whether the race has a board and is not over. If its date has ended everywhere it is closed all the same, which
    /// depends on the whole log: [`Checkpoint::open_from`](crate::Checkpoint::open_from).
    pub open: bool,
    /// Whether the race is on a card. Else only quotes, or facts about its runners or its result, name it.
    pub on_card: bool,
    /// The scheduled off, if it is known.
    pub off_time: Option<Moment>,
    /// The horses on the card or the board, sorted, each once.
    pub runners: Vec<HorseNo>,
}
