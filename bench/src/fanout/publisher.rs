//! [`Publisher`]: publishes messages on a connection to NATS while the clients are read.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;

use anyhow::{Context, bail, ensure};
use events::{
    Envelope, Event, HorseNo, Odds, OddsQuoted, QuotedRunner, RaceNumber, RacingDate, VenueCode,
};
use jiff::Timestamp;
use railbird::log::Outgoing;

use super::nats::{self, Op};
use super::tally::find_number;
use super::{RACES, race_number};

const ACKS: &str = "_INBOX.fanout";

/// The messages to publish.
#[derive(Debug)]
pub(super) enum Texts {
    /// Quotes to railbird's log after this sequence, each with an id and acknowledged, as a feeder publishes them.
    Quotes { base: u64 },
    /// The messages themselves: the text before and after the number, and its least number of digits.
    Ready {
        before: Vec<u8>,
        digits: usize,
        behind: Vec<u8>,
    },
}

impl Texts {
    /// Messages like this one.
    pub(super) fn like(sample: &str) -> anyhow::Result<Self> {
        let at = find_number(sample.as_bytes(), 0).context("the text has no seq")?;
        let (before, behind) = sample.split_at(at);
        let rest = behind.trim_start_matches(|c: char| c.is_ascii_digit());
        Ok(Self::Ready {
            before: before.into(),
            digits: behind.len() - rest.len(),
            behind: rest.into(),
        })
    }
}

/// It implements the protocol itself, in the thread that reads the clients: the same for both servers, with known times
/// of publishing, and without threads that would compete with the servers.
#[derive(Debug)]
pub(super) struct Publisher {
    pub(super) socket: TcpStream,
    texts: Texts,
    out: Vec<u8>,
    received: Vec<u8>,
}

impl Publisher {
    pub(super) fn connect(nats: &str, texts: Texts) -> anyhow::Result<Self> {
        let mut socket = TcpStream::connect(nats.trim_start_matches("nats://"))?;
        socket.set_nodelay(true)?;
        let mut info = String::new();
        BufReader::with_capacity(1, &socket).read_line(&mut info)?;
        ensure!(info.starts_with("INFO "), "this is no NATS: {info}");
        let hello = format!("CONNECT {{\"verbose\":false,\"headers\":true}}\r\nSUB {ACKS} 1\r\n");
        socket.write_all(hello.as_bytes())?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            texts,
            out: Vec::new(),
            received: Vec::new(),
        })
    }

    /// Queues a message for the next flush.
    pub(super) fn publish(&mut self, number: u64) -> anyhow::Result<()> {
        let race = race_number(((number - 1) % RACES as u64) as usize);
        let out = &mut self.out;
        match &self.texts {
            Texts::Quotes { base } => {
                let quote = Outgoing::from(&quote(number, race, base + number)?);
                let header = format!("NATS/1.0\r\nNats-Msg-Id: {}\r\n\r\n", quote.id);
                let subject = quote.subject;
                let header_bytes = header.len();
                let bytes = header_bytes + quote.payload.len();
                write!(
                    out,
                    "HPUB {subject} {ACKS} {header_bytes} {bytes}\r\n{header}"
                )?;
                out.extend_from_slice(&quote.payload);
            }
            Texts::Ready {
                before,
                digits,
                behind,
            } => {
                let number = format!("{number:0digits$}");
                let bytes = before.len() + number.len() + behind.len();
                write!(out, "PUB odds.{race} {bytes}\r\n")?;
                for part in [before, number.as_bytes(), behind] {
                    out.extend_from_slice(part);
                }
            }
        }
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Sends what the server accepts now. Returns false if something is left.
    pub(super) fn flush(&mut self) -> anyhow::Result<bool> {
        while !self.out.is_empty() {
            match self.socket.write(&self.out) {
                Ok(written) => drop(self.out.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Reads acknowledgements, and answers pings.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> anyhow::Result<()> {
        let read = self.socket.read(buffer)?;
        ensure!(read > 0, "NATS closed the publisher's connection");
        self.received.extend_from_slice(&buffer[..read]);
        let mut at = 0;
        while let Some((op, length)) = nats::op(&self.received[at..]) {
            match op {
                Op::Message(ack) if ack.starts_with(br#"{"error""#) => {
                    bail!("the log refused a message: {}", ack.escape_ascii());
                }
                Op::Error(error) => bail!("error from NATS: {}", error.escape_ascii()),
                Op::Ping => self.out.extend_from_slice(b"PONG\r\n"),
                _ => {}
            }
            at += length;
        }
        self.received.drain(..at);
        Ok(())
    }
}

/// A short quote of one runner. All quotes have the same length.
fn quote(number: u64, race: u16, seq: u64) -> anyhow::Result<Envelope> {
    let win = Odds::from_thousandths(10_000 + 100 * (number % 900) as u32)?;
    let place = Odds::from_thousandths(1_900)?;
    let runner = QuotedRunner {
        horse_no: HorseNo::parse("RB_1")?,
        horse_name: None,
        number: Some(1),
        win: Some(win),
        place: Some(place),
        state: None,
    };
    let quoted = OddsQuoted {
        date: RacingDate::parse("2026-11-21")?,
        venue: VenueCode::parse("RB")?,
        race_number: RaceNumber::try_from(race)?,
        runners: vec![runner],
    };
    Ok(Envelope {
        id: format!("fanout-{seq}"),
        source: "bench".to_owned(),
        time: Timestamp::now().into(),
        event: Event::OddsQuoted(quoted),
    })
}
