//! `railbird watch`.

mod address;
mod boards;
mod connection;
mod filter;
mod frame;
mod lines;
mod message;
mod screen;
mod status;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use events::{ParseError, RacingDate};
use hyper::header::HeaderValue;
use jiff::Timestamp;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{MissedTickBehavior, interval};

use self::address::Address;
use self::boards::{Boards, Taken};
use self::connection::{Event, Follower};
use self::filter::{Filter, RaceChoice, Venue};
use self::message::Message;
use self::screen::Screen;
use self::status::{Link, Status};
use super::report::line;
use super::{ExitStatus, WrongConfiguration};
use crate::shutdown::signalled;

pub(super) use self::connection::FollowError;

/// How often a board is drawn. Eyes need no more.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// Messages that were read and not yet shown. Beyond that the service is told to wait.
const BEHIND_MAX: usize = 64;

/// Where `railbird dev` leaves its key.
const DEV_KEY: &str = ".railbird/dev.key";

/// What is watched, and where.
#[derive(Debug, Args)]
#[command(
    after_help = "Boards are drawn on a terminal; elsewhere each message is a line.\n\nExamples:\n  railbird watch\n  \
                  railbird watch --race ST/3 --race ST/4\n  \
                  railbird watch --url wss://odds.example.org --api-key-file key.txt --json | jq .seq"
)]
pub(super) struct Watch {
    /// Where the service is; wss:// is checked against this machine's root certificates.
    #[arg(
        long,
        env = "RAILBIRD_URL",
        default_value = "ws://127.0.0.1:8080/ws/live/odds",
        hide_env_values = true
    )]
    url: String,
    /// The API key. Other processes of the machine see command lines: prefer the variable or a file.
    #[arg(long, env = "RAILBIRD_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// A file that holds the API key; it goes before --api-key. Without any key, what `railbird dev` left in
    /// .railbird/dev.key is taken.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// Only this race: 3, ST/3 or 2026-11-21/ST/3. May be given several times.
    #[arg(long = "race", value_name = "RACE")]
    races: Vec<RaceChoice>,
    /// Only this venue, by code or name. May be given several times.
    #[arg(long = "venue", value_name = "VENUE")]
    venues: Vec<Venue>,
    /// Only this date. May be given several times.
    #[arg(long = "date", value_name = "DATE", value_parser = parse_date)]
    dates: Vec<RacingDate>,
    /// Print each message as it came, a JSON object a line.
    #[arg(long)]
    json: bool,
}

fn parse_date(text: &str) -> Result<RacingDate, ParseError> {
    RacingDate::parse(text)
}

impl Watch {
    pub(super) async fn run(self) -> anyhow::Result<ExitStatus> {
        let (address, key_of_url) = Address::parse(&self.url)
            .map_err(|wrong| WrongConfiguration(format!("the address of the service: {wrong}")))?;
        let key = self.key(key_of_url)?;
        let filter = Filter {
            races: self.races,
            venues: self.venues,
            dates: self.dates,
        };
        let (send, mut events) = channel(BEHIND_MAX);
        let at = address.to_string();
        let following =
            tokio::spawn(Follower::new(address, key, filter.parameters(), send).follow());
        let mut watching = Watching {
            filter,
            show: Show::choose(self.json)?,
            boards: Boards::default(),
            status: Status::default(),
            at,
        };
        tokio::select! {
            shown = watching.show(&mut events) => match shown {
                Ok(()) => {}
                // As in `railbird watch | head`: whoever read has read enough.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitStatus::Success),
                Err(error) => return Err(error.into()),
            },
            signalled = signalled() => {
                signalled?;
                return Ok(ExitStatus::Success);
            }
        }
        // Nothing comes any more: the terminal is given back before it is said why.
        drop((watching, events));
        following.await??;
        Ok(ExitStatus::Success)
    }

    /// The key that was given, or the one of `railbird dev`.
    fn key(&self, key_of_url: Option<String>) -> Result<HeaderValue, WrongConfiguration> {
        let given = self.api_key.clone().or(key_of_url);
        let key = match (&self.api_key_file, given) {
            (Some(path), _) => read_key(path).map_err(|error| {
                WrongConfiguration(format!("{} cannot be read: {error}", path.display()))
            })?,
            (None, Some(key)) => key,
            (None, None) => read_key(Path::new(DEV_KEY)).map_err(|_| {
                WrongConfiguration(
                    "there is no API key: give --api-key-file, --api-key or RAILBIRD_API_KEY; \
                     `railbird keys issue` makes one"
                        .to_owned(),
                )
            })?,
        };
        let mut key = HeaderValue::from_str(key.trim()).map_err(|_| {
            WrongConfiguration("the API key has characters that no key has".to_owned())
        })?;
        key.set_sensitive(true);
        Ok(key)
    }
}

fn read_key(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path)
}

/// What is watched, what is known of it, and where it is shown.
#[derive(Debug)]
struct Watching {
    filter: Filter,
    show: Show,
    boards: Boards,
    status: Status,
    at: String,
}

impl Watching {
    /// Shows what comes until nothing comes any more.
    async fn show(&mut self, events: &mut Receiver<Event>) -> io::Result<()> {
        let mut draw = interval(DRAW_EVERY);
        draw.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.take(event)?,
                    None => return Ok(()),
                },
                _ = draw.tick() => self.draw()?,
            }
        }
    }

    fn take(&mut self, event: Event) -> io::Result<()> {
        let now = Timestamp::now();
        match event {
            Event::Said(message, text) => {
                self.status.take(&message, now);
                if self.is_news(&message) {
                    self.show.say(&message, &text)?;
                }
            }
            Event::Lost { why, pause } => {
                let seconds = pause.as_secs_f64();
                self.note(&format!(
                    "connection lost, reconnecting in {seconds:.1} s: {why}"
                ));
                self.status.lose(why, pause, now);
            }
            Event::Connecting => self.status.link = Link::Connecting,
        }
        Ok(())
    }

    /// Takes in a message, and says whether it is watched and was not there before.
    fn is_news(&mut self, message: &Message) -> bool {
        let about = message.about();
        if about.is_some_and(|about| !self.filter.passes(&about.race(), &about.venue)) {
            return false;
        }
        match self.boards.take(message) {
            Taken::New => true,
            Taken::Repeated => false,
            Taken::Gap { last_seq, prev_seq } => {
                self.status.gaps += 1;
                let race = about.map_or(String::new(), |about| lines::race(&about.race()));
                self.note(&format!(
                    "{race}: something between {last_seq} and {prev_seq} is missing"
                ));
                true
            }
        }
    }

    /// A word for people, where no board says it.
    fn note(&self, text: &str) {
        if !matches!(self.show, Show::Boards(_)) {
            line(format_args!("railbird: {text}"));
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let Show::Boards(screen) = &mut self.show else {
            return Ok(());
        };
        let (now, window) = (Timestamp::now(), screen.window());
        let lines = frame::frame(&self.boards, &self.status, &self.at, now, window);
        screen.draw(lines, window)
    }
}

/// How messages are shown.
#[derive(Debug)]
enum Show {
    Boards(Screen),
    Lines,
    Json,
}

impl Show {
    fn choose(json: bool) -> io::Result<Self> {
        if json {
            return Ok(Self::Json);
        }
        Ok(Screen::take()?.map_or(Self::Lines, Self::Boards))
    }

    fn say(&self, message: &Message, text: &str) -> io::Result<()> {
        let mut out = io::stdout();
        match self {
            Self::Boards(_) => Ok(()),
            Self::Json => writeln!(out, "{text}"),
            Self::Lines => lines::line(message).map_or(Ok(()), |line| writeln!(out, "{line}")),
        }
    }
}
