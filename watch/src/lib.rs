//! A board of live odds on a terminal, plain lines or JSON elsewhere.

mod boards;
mod controls;
mod draw;
mod filter;
mod plain;
mod replay;
mod status;
mod terminal;

use std::io::{self, Write};

use client::{Event, InvalidKey, LiveOdds, LiveOddsError, Message, ServiceUrl};
use jiff::Timestamp;

use crate::boards::WatchBoards;
use crate::controls::KeyAction;
use crate::replay::PlaybackClock;
use crate::status::{ConnectionState, WatchStatus};
use crate::terminal::BoardTerminal;

pub use crate::filter::{RaceFilter, RaceSelector, VenueSelector};

/// Why the live channel is not shown.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error(transparent)]
    Key(#[from] InvalidKey),
    #[error(transparent)]
    LiveOdds(#[from] LiveOddsError),
    #[error("the output failed: {0}")]
    Output(#[from] io::Error),
}

/// Shows live odds until the user quits or the reader of standard output closes it. On a terminal it draws a board per
/// race, elsewhere each message is a line, of JSON if `json` says so. `replay_speed` is that of the URL of a replay, at
/// whose end lines end, too. To drop it restores the terminal.
///
/// # Errors
/// Returns [`WatchError`].
pub async fn watch(
    url: ServiceUrl,
    key: &str,
    filter: RaceFilter,
    replay_speed: Option<f64>,
    json: bool,
) -> Result<(), WatchError> {
    let address = url.address();
    let mut odds = LiveOdds::connect(url.with_query(&filter.query()), key)?;
    let mut session = WatchSession {
        filter,
        output: WatchOutput::open(json)?,
        boards: WatchBoards::default(),
        status: WatchStatus {
            replay: replay_speed.map(PlaybackClock::new),
            ..WatchStatus::default()
        },
        address,
    };
    match session.run(&mut odds).await {
        // The reader has closed the pipe, as in `railbird watch | head`.
        Err(WatchError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        ended => ended,
    }
}

/// The watched races, their state, and where they are shown.
struct WatchSession {
    filter: RaceFilter,
    output: WatchOutput,
    boards: WatchBoards,
    status: WatchStatus,
    address: String,
}

impl WatchSession {
    /// Shows events until the client ends or the user quits.
    async fn run(&mut self, odds: &mut LiveOdds) -> Result<(), WatchError> {
        loop {
            tokio::select! {
                event = odds.next() => match event? {
                    Some(event) => self.handle(event)?,
                    None => return Ok(()),
                },
                action = self.output.input() => match (self.play(action?, odds), &mut self.output) {
                    (Some(KeyAction::Quit), _) => return Ok(()),
                    (action, WatchOutput::Board(terminal)) => {
                        terminal.draw(action, &self.boards, &self.status, &self.address)?;
                    }
                    _ => {}
                },
            }
            let replay = self.status.replay.as_ref();
            let has_ended = replay.is_some_and(|replay| replay.has_ended);
            if has_ended && !matches!(self.output, WatchOutput::Board(_)) {
                return Ok(());
            }
        }
    }

    /// Lets a key change the replay. Returns the action of any other key.
    fn play(&mut self, action: Option<KeyAction>, odds: &LiveOdds) -> Option<KeyAction> {
        let replay = self.status.replay.as_mut().zip(action);
        let Some(play) = replay.and_then(|(clock, key)| clock.change(key, Timestamp::now())) else {
            return action;
        };
        odds.play(play);
        None
    }

    fn handle(&mut self, event: Event) -> io::Result<()> {
        let now = Timestamp::now();
        match event {
            Event::Message { message, text, gap } => {
                self.status.apply(&message, now);
                if !self.is_selected(&message) {
                    return Ok(());
                }
                self.boards.apply(&message);
                if let (Some(gap), Some(header)) = (gap, message.header()) {
                    let race = &header.race;
                    self.status.gaps += 1;
                    self.note(&format!(
                        "{}/{}/{}: messages between seq {} and {} are missing",
                        race.date, race.venue_code, race.race_number, gap.last_seq, gap.prev_seq
                    ));
                }
                self.output.print(&text)?;
            }
            Event::Disconnected { reason, retry_in } => {
                let seconds = retry_in.as_secs_f64();
                let lost = format!("connection lost, reconnecting in {seconds:.1} s: {reason}");
                self.note(&lost);
                let retry_at = now + retry_in;
                self.status.connection = ConnectionState::Disconnected { reason, retry_at };
            }
            Event::Connecting => self.status.connection = ConnectionState::Connecting,
        }
        Ok(())
    }

    fn is_selected(&self, message: &Message) -> bool {
        let header = message.header();
        header.is_none_or(|header| self.filter.matches(&header.race, &header.venue))
    }

    /// Prints a note on standard error, unless the board shows it.
    fn note(&self, text: &str) {
        if !matches!(self.output, WatchOutput::Board(_)) {
            // A closed pipe is no reason to stop.
            let _ = writeln!(io::stderr(), "railbird: {text}");
        }
    }
}

/// Where messages are shown.
enum WatchOutput {
    Board(Box<BoardTerminal>),
    Lines,
    Json,
}

impl WatchOutput {
    fn open(json: bool) -> io::Result<Self> {
        if json {
            return Ok(Self::Json);
        }
        let terminal = BoardTerminal::open()?;
        Ok(terminal.map_or(Self::Lines, |terminal| Self::Board(Box::new(terminal))))
    }

    /// Waits until the board has to be drawn, with the action of a key if one was pressed.
    async fn input(&mut self) -> io::Result<Option<KeyAction>> {
        match self {
            Self::Board(terminal) => terminal.input().await,
            Self::Lines | Self::Json => std::future::pending().await,
        }
    }

    /// Prints a message, unless the board shows it.
    fn print(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout();
        match self {
            Self::Board(_) => Ok(()),
            Self::Json => writeln!(out, "{text}"),
            Self::Lines => plain::line(text).map_or(Ok(()), |line| writeln!(out, "{line}")),
        }
    }
}
