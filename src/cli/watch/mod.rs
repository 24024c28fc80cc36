//! `railbird watch`: a board of live odds on a terminal, plain lines or JSON elsewhere.

mod boards;
mod connection;
mod controls;
mod draw;
mod filter;
mod message;
mod plain;
mod service_url;
mod status;
mod terminal;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use events::RacingDate;
use hyper::header::HeaderValue;
use jiff::Timestamp;
use tokio::sync::mpsc::{Receiver, channel};

use self::boards::{Applied, WatchBoards};
use self::connection::{ClientEvent, LiveClient};
use self::controls::KeyAction;
use self::filter::{RaceFilter, RaceSelector, VenueSelector};
use self::message::WatchMessage;
use self::service_url::{address, parse_service_url, with_query};
use self::status::{ConnectionState, WatchStatus};
use self::terminal::BoardTerminal;
use super::WrongConfiguration;
use super::report::line;
use super::secret::read_secret;
use crate::shutdown::Signals;

pub(super) use self::connection::WatchError;

/// Messages that are received and not yet shown. Beyond that, the client stops reading from the service.
const QUEUE_LEN_MAX: usize = 64;

/// The file in which `railbird dev` stores its key.
const DEV_KEY: &str = ".railbird/dev.key";
const KEY_VARIABLE: &str = "RAILBIRD_API_KEY";
const NO_KEY: &str = "there is no API key: use --api-key-file, --api-key or RAILBIRD_API_KEY; \
                      `railbird keys issue --plan PLAN` creates a key";

#[derive(Debug, Args)]
#[command(
    after_help = "A terminal shows a board per race; press ? for the keys. Elsewhere each message is a line. NO_COLOR=1 disables \
                  colours.\n\nExamples:\n  railbird watch\n  railbird watch --race ST/3 --race ST/4\n  \
                  railbird watch --url wss://odds.example.org --api-key-file key.txt --json | jq .seq"
)]
pub(super) struct Watch {
    /// The URL of the service. For wss://, the certificate is checked against the root certificates of this machine.
    #[arg(
        long,
        env = "RAILBIRD_URL",
        default_value = "ws://127.0.0.1:8080/ws/live/odds",
        hide_env_values = true
    )]
    url: String,
    /// The API key. Other processes can read command lines: prefer the variable, or --api-key-file, or
    /// RAILBIRD_API_KEY_FILE.
    #[arg(long, env = KEY_VARIABLE, hide_env_values = true)]
    api_key: Option<String>,
    /// A file that holds the API key. It takes precedence over --api-key. The default is the key of `railbird dev` in
    /// .railbird/dev.key.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// Show only this race: 3, ST/3 or 2026-11-21/ST/3. May be repeated.
    #[arg(long = "race", value_name = "RACE")]
    races: Vec<RaceSelector>,
    /// Show only this venue, by code or name. May be repeated.
    #[arg(long = "venue", value_name = "VENUE")]
    venues: Vec<VenueSelector>,
    /// Show only this date. May be repeated.
    #[arg(long = "date", value_name = "DATE", value_parser = RacingDate::parse)]
    dates: Vec<RacingDate>,
    /// Print each message unchanged, one JSON object per line.
    #[arg(long)]
    json: bool,
}

impl Watch {
    /// Shows live odds until the user quits or the reader of standard output closes it.
    ///
    /// # Errors
    /// Returns [`WrongConfiguration`] if the URL or the key is invalid, [`WatchError`] if the service is not available,
    /// and an I/O error if the output fails.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let (url, key_of_url) = parse_service_url(&self.url)
            .map_err(|error| WrongConfiguration(format!("--url: {error}")))?;
        let key = self.key(key_of_url)?;
        let filter = RaceFilter {
            races: self.races,
            venues: self.venues,
            dates: self.dates,
        };
        let (send, mut events) = channel(QUEUE_LEN_MAX);
        let address = address(&url);
        let url = with_query(url, &filter.query());
        let client = tokio::spawn(LiveClient::run(url, key, send));
        let mut session = WatchSession {
            filter,
            output: WatchOutput::open(self.json)?,
            boards: WatchBoards::default(),
            status: WatchStatus::default(),
            address,
        };
        let mut signals = Signals::install()?;
        let shown = tokio::select! {
            shown = session.run(&mut events) => shown,
            () = signals.next() => Ok(()),
        };
        // Restores the terminal before an error is printed, and ends the client.
        drop((session, events));
        match shown {
            // The reader has closed the pipe, as in `railbird watch | head`.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            shown => shown?,
        }
        client.await??;
        Ok(())
    }

    /// The key of the arguments, or the key of `railbird dev`.
    fn key(&self, key_of_url: Option<String>) -> Result<HeaderValue, WrongConfiguration> {
        let given = read_secret(KEY_VARIABLE, self.api_key.as_deref())?.or(key_of_url);
        let key = match (&self.api_key_file, given) {
            (Some(path), _) => fs::read_to_string(path).map_err(|error| {
                let path = path.display();
                WrongConfiguration(format!("cannot read --api-key-file {path}: {error}"))
            })?,
            (None, Some(key)) => key,
            (None, None) => {
                fs::read_to_string(DEV_KEY).map_err(|_| WrongConfiguration(NO_KEY.to_owned()))?
            }
        };
        let mut key = HeaderValue::from_str(key.trim()).map_err(|_| {
            WrongConfiguration("the API key contains characters that no key contains".to_owned())
        })?;
        key.set_sensitive(true);
        Ok(key)
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
    async fn run(&mut self, events: &mut Receiver<ClientEvent>) -> io::Result<()> {
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.handle(event)?,
                    None => return Ok(()),
                },
                action = self.output.input() => match (action?, &mut self.output) {
                    (Some(KeyAction::Quit), _) => return Ok(()),
                    (action, WatchOutput::Board(terminal)) => {
                        terminal.draw(action, &self.boards, &self.status, &self.address)?;
                    }
                    _ => {}
                },
            }
        }
    }

    fn handle(&mut self, event: ClientEvent) -> io::Result<()> {
        let now = Timestamp::now();
        match event {
            ClientEvent::Message(message, text) => {
                self.status.apply(&message, now);
                if self.accept(&message) {
                    self.output.print(&text)?;
                }
            }
            ClientEvent::Disconnected { reason, retry_in } => {
                let seconds = retry_in.as_secs_f64();
                self.note(&format!(
                    "connection lost, reconnecting in {seconds:.1} s: {reason}"
                ));
                self.status.disconnected(reason, retry_in, now);
            }
            ClientEvent::Connecting => self.status.connection = ConnectionState::Connecting,
        }
        Ok(())
    }

    /// Applies a message, and returns whether it is selected and new.
    fn accept(&mut self, message: &WatchMessage) -> bool {
        let header = message.header();
        if header.is_some_and(|header| !self.filter.matches(&header.race(), &header.venue)) {
            return false;
        }
        match self.boards.apply(message) {
            Applied::New => true,
            Applied::Repeated => false,
            Applied::Gap { last_seq, prev_seq } => {
                self.status.gaps += 1;
                let race = header.map_or(String::new(), |header| header.race_as_argument());
                self.note(&format!(
                    "{race}: messages between seq {last_seq} and {prev_seq} are missing"
                ));
                true
            }
        }
    }

    /// Prints a note on standard error, unless the board shows it.
    fn note(&self, text: &str) {
        if !matches!(self.output, WatchOutput::Board(_)) {
            line(format_args!("railbird: {text}"));
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
