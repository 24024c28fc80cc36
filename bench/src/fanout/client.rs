//! [`Client`]: a subscriber that costs little: it reads only the heads of frames and the number of each message.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use anyhow::{Context, bail, ensure};

use super::frame::{self, Head};
use super::nats::{self, Op};
use super::tally::Tally;
use super::{Following, RACES, race_number};

/// Room for one read, and for what earlier reads left.
pub(super) const BUFFER_BYTES: usize = 512 * 1024;

/// The header that offers compression.
const DEFLATE: &str = "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; \
                       client_no_context_takeover\r\n";

/// The protocol of a server within WebSocket frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Server {
    /// railbird's live channel: a message is a frame.
    Railbird,
    /// nats-server's gateway: the NATS protocol as a stream of bytes, cut into frames anywhere.
    Nats,
    /// The bare loop: frames as railbird's.
    Loop,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) socket: TcpStream,
    server: Server,
    following: Following,
    /// The part of a message that was read.
    kept: Vec<u8>,
    /// For `Nats`: bytes of it that are already out of their frames.
    unframed: usize,
    /// Bytes of the current frame that were not read yet.
    frame_left: usize,
    /// The log sequence before the first message, once everything before it was received.
    pub(super) base: Option<u64>,
    /// The number of the next message.
    next: u64,
}

impl Client {
    /// Connects, upgrades to a WebSocket, and subscribes.
    pub(super) fn connect(
        server: Server,
        url: &str,
        following: Following,
        deflate: bool,
    ) -> anyhow::Result<Self> {
        let (address, path) = url.split_once('/').unwrap_or((url, ""));
        let (next, filter, subject) = match following {
            Following::All => (1, String::new(), "odds.*".to_owned()),
            Following::Race(index) => {
                let race = race_number(index);
                (
                    1 + index as u64,
                    format!("&race={race}"),
                    format!("odds.{race}"),
                )
            }
        };
        let mut socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let extension = if deflate { DEFLATE } else { "" };
        let kept = upgrade(&mut socket, address, &format!("/{path}{filter}"), extension)?;
        if server == Server::Nats {
            let hello = format!("CONNECT {{\"verbose\":false}}\r\nSUB {subject} 1\r\nPING\r\n");
            socket.write_all(&frame::masked(frame::BINARY, hello.as_bytes()))?;
        }
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            server,
            following,
            kept,
            unframed: 0,
            frame_left: 0,
            base: None,
            next,
        })
    }

    /// Reads what has arrived. `buffer` is shared by all clients.
    pub(super) fn read(&mut self, buffer: &mut [u8], tally: &mut Tally) -> anyhow::Result<()> {
        let kept = self.kept.len();
        buffer[..kept].copy_from_slice(&self.kept);
        let read = match self.socket.read(&mut buffer[kept..]) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(read) => read,
            // What came with the answer to the handshake may be all there is.
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error).context("a connection was lost"),
        };
        let bytes = &mut buffer[..kept + read];
        match self.server {
            Server::Railbird | Server::Loop => self.frames(bytes, tally),
            Server::Nats => self.stream(bytes, tally),
        }
    }

    fn frames(&mut self, bytes: &[u8], tally: &mut Tally) -> anyhow::Result<()> {
        let now_us = tally.now_us();
        let mut rest = bytes;
        while let Some(head) = Head::parse(rest) {
            let Some(payload) = rest.get(head.bytes..head.bytes + head.payload_bytes) else {
                break;
            };
            match head.opcode {
                frame::TEXT if head.is_deflated => {
                    let text = tally.inflate(payload)?;
                    self.receive(&text, payload.len(), tally, now_us)?;
                }
                frame::TEXT => self.receive(payload, payload.len(), tally, now_us)?,
                frame::PING => self.send(frame::PONG, payload)?,
                frame::CLOSE => bail!("the server closed a connection: {}", payload.escape_ascii()),
                _ => {}
            }
            rest = &rest[head.bytes + head.payload_bytes..];
        }
        self.kept.clear();
        self.kept.extend_from_slice(rest);
        Ok(())
    }

    /// A message of railbird's channel, and its size on the wire.
    fn receive(
        &mut self,
        text: &[u8],
        bytes: usize,
        tally: &mut Tally,
        now_us: u64,
    ) -> anyhow::Result<()> {
        let is = |event: &str| {
            let event = format!(r#"{{"event":"{event}""#);
            text.starts_with(event.as_bytes())
        };
        if is("odds_update") || is("quote") {
            // Messages before the end of the snapshots are not counted.
            return match self.base {
                Some(_) => self.take(text, bytes, tally, now_us),
                None => Ok(()),
            };
        }
        if is("snapshot_complete") {
            self.base = tally.number_in(text);
        } else if ["lagged", "resync", "closing", "error"].into_iter().any(is) {
            bail!(
                "unexpected message from the service: {}",
                text.escape_ascii()
            );
        }
        Ok(())
    }

    fn stream(&mut self, bytes: &mut [u8], tally: &mut Tally) -> anyhow::Result<()> {
        let now_us = tally.now_us();
        let (unframed, framed) = self.unframe(bytes)?;
        let mut at = 0;
        while let Some((op, length)) = nats::op(&bytes[at..unframed]) {
            at += length;
            match op {
                Op::Message(text) => self.take(text, text.len(), tally, now_us)?,
                Op::Ping => self.send(frame::BINARY, b"PONG\r\n")?,
                // The answer to the PING after the subscription.
                Op::Pong => self.base = Some(0),
                Op::Error(error) => bail!("error from the gateway: {}", error.escape_ascii()),
                Op::Other => {}
            }
        }
        self.kept.clear();
        self.kept.extend_from_slice(&bytes[at..unframed]);
        self.kept.extend_from_slice(&bytes[framed..]);
        self.unframed = unframed - at;
        Ok(())
    }

    /// Moves the payloads of frames together. Returns where they end, and where an incomplete head begins.
    fn unframe(&mut self, bytes: &mut [u8]) -> anyhow::Result<(usize, usize)> {
        let mut to = self.unframed;
        let mut from = self.unframed;
        loop {
            if self.frame_left == 0 {
                let Some(head) = Head::parse(&bytes[from..]) else {
                    return Ok((to, from));
                };
                ensure!(
                    head.opcode == frame::BINARY,
                    "the gateway sent a frame of kind {}",
                    head.opcode
                );
                from += head.bytes;
                self.frame_left = head.payload_bytes;
            }
            let length = self.frame_left.min(bytes.len() - from);
            bytes.copy_within(from..from + length, to);
            (to, from) = (to + length, from + length);
            self.frame_left -= length;
            if from == bytes.len() {
                return Ok((to, from));
            }
        }
    }

    /// Compares a message with the one that was expected.
    fn take(
        &mut self,
        text: &[u8],
        bytes: usize,
        tally: &mut Tally,
        now_us: u64,
    ) -> anyhow::Result<()> {
        let seq = tally.number_in(text).context("a message has no seq")?;
        let base = self.base.context("a message came before it could")?;
        let number = seq.checked_sub(base).context("a message is an old one")?;
        if number != self.next {
            tally.skipped(self.next, number, self.stride(), text);
        }
        ensure!(
            tally.delivered(number, text, bytes, now_us),
            "{} was not published",
            text.escape_ascii()
        );
        self.next = number + self.stride() as u64;
        Ok(())
    }

    fn stride(&self) -> usize {
        match self.following {
            Following::All => 1,
            Following::Race(_) => RACES,
        }
    }

    fn send(&mut self, opcode: u8, payload: &[u8]) -> anyhow::Result<()> {
        // This little always fits into the send buffer.
        self.socket.write_all(&frame::masked(opcode, payload))?;
        Ok(())
    }
}

/// Returns what was read after the head of the response.
fn upgrade(
    socket: &mut TcpStream,
    address: &str,
    path: &str,
    extension: &str,
) -> anyhow::Result<Vec<u8>> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{extension}\r\n"
    );
    socket.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    loop {
        let mut part = [0; 4096];
        let read = socket.read(&mut part)?;
        ensure!(
            read > 0,
            "the server closed a connection: {}",
            answer.escape_ascii()
        );
        answer.extend_from_slice(&part[..read]);
        if let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") {
            ensure!(
                answer.starts_with(b"HTTP/1.1 101 "),
                "no WebSocket: {}",
                answer.escape_ascii()
            );
            return Ok(answer.split_off(end + 4));
        }
    }
}
