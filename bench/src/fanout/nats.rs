//! The part of the NATS protocol that a subscriber needs.

use std::str;

/// An operation from a server.
#[derive(Debug)]
pub(crate) enum Op<'a> {
    Message(&'a [u8]),
    Ping,
    Pong,
    Error(&'a [u8]),
    Other,
}

/// Parses the operation at the start of these bytes. Returns it with its length; `None` if it is incomplete.
pub(crate) fn op(bytes: &[u8]) -> Option<(Op<'_>, usize)> {
    let line_bytes = 1 + bytes.iter().position(|byte| *byte == b'\n')?;
    let line = bytes[..line_bytes].trim_ascii_end();
    let op = match line.first_chunk() {
        Some(b"MSG ") => {
            let end = line_bytes + last_number(line)?;
            let payload = bytes.get(line_bytes..end)?;
            bytes.get(end + 1)?;
            return Some((Op::Message(payload), end + 2));
        }
        Some(b"PING") => Op::Ping,
        Some(b"PONG") => Op::Pong,
        Some(b"-ERR") => Op::Error(line),
        _ => Op::Other,
    };
    Some((op, line_bytes))
}

fn last_number(line: &[u8]) -> Option<usize> {
    let digits = line.rsplit(|byte| *byte == b' ').next()?;
    str::from_utf8(digits).ok()?.parse().ok()
}
