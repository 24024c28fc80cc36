//! [`Frame`]: a message of the live channel, encoded once for all clients that are sent it.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress, Status};
use projections::json;
use serde::{Deserialize, Serialize};
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Data, OpCode};

/// What a compressed message ends with, and leaves out (RFC 7692, 7.2.1).
pub(crate) const DEFLATED_END: [u8; 4] = [0x00, 0x00, 0xff, 0xff];
/// Shorter messages are not compressed: they fit into one packet anyway.
const DEFLATED_BYTES_MIN: usize = 256;
/// Of 1,500 bytes of quotes this leaves 447, level 1 leaves 569, and level 6 leaves 443.
const DEFLATE_LEVEL: u32 = 3;

thread_local! {
    /// Reused, because each allocates its tables.
    static DEFLATER: RefCell<Compress> = RefCell::new(Compress::new(Compression::new(DEFLATE_LEVEL), false));
}

/// How the messages of a client are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// WebSocket frames. A server does not mask its frames, so the same bytes go to every client.
    WebSocket,
    /// WebSocket frames with permessage-deflate, each compressed alone.
    Deflated,
    /// Server-Sent Events.
    EventStream,
}

/// A message, and its bytes in each encoding that a client needed. Clones share it.
#[derive(Debug, Clone)]
pub struct Frame(Arc<Encoded>);

#[derive(Debug)]
struct Encoded {
    /// As a WebSocket frame.
    text: Bytes,
    deflated: OnceLock<Bytes>,
    event: OnceLock<Bytes>,
}

/// Where a client is after a message. `id:` of an event has it, for `Last-Event-ID`.
#[derive(Deserialize)]
struct ResumeId<'a> {
    seq: u64,
    recorded_at: &'a str,
    /// An image may be older than what the client was sent before.
    #[serde(default)]
    snapshot: bool,
    /// Messages that belong together follow.
    #[serde(default)]
    more: bool,
}

impl Frame {
    /// The message that is made of these parts.
    pub fn text(parts: &[&[u8]]) -> Self {
        let length = parts.iter().map(|part| part.len()).sum();
        let mut text = header(false, length);
        for part in parts {
            text.extend_from_slice(part);
        }
        Self(Arc::new(Encoded {
            text: text.into(),
            deflated: OnceLock::new(),
            event: OnceLock::new(),
        }))
    }

    pub fn encode(message: &impl Serialize) -> Self {
        Self::text(&[&json::render(message)])
    }

    /// The same message with `"more":true`: one of several that belong together, but not the last.
    pub fn with_more(&self) -> Self {
        Self::text(&[br#"{"more":true,"#, json::fields(self.json()), b"}"])
    }

    /// The message in an encoding.
    pub fn bytes(&self, encoding: Encoding) -> &Bytes {
        let encoded = &*self.0;
        let text = &encoded.text;
        let deflated = || deflate(self.json()).unwrap_or_else(|| text.clone());
        match encoding {
            Encoding::WebSocket => text,
            Encoding::Deflated => encoded.deflated.get_or_init(deflated),
            Encoding::EventStream => encoded.event.get_or_init(|| to_event(self.json())),
        }
    }

    /// The bytes of the WebSocket frame that is not compressed.
    #[expect(clippy::len_without_is_empty, reason = "no frame is empty")]
    pub fn len(&self) -> usize {
        self.0.text.len()
    }

    /// The message itself.
    pub fn json(&self) -> &[u8] {
        let text = &self.0.text;
        let header = match text.get(1) {
            Some(126) => 4,
            Some(127) => 10,
            _ => 2,
        };
        text.get(header..).unwrap_or_default()
    }
}

/// The header of a whole text message of the server (RFC 6455, 5.2), compressed or not (RFC 7692, 6), with room for the
/// message.
fn header(is_deflated: bool, length: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(length + 10);
    let header = FrameHeader {
        rsv1: is_deflated,
        opcode: OpCode::Data(Data::Text),
        ..FrameHeader::default()
    };
    let written = header.format(length as u64, &mut frame);
    written.expect("memory takes all");
    frame
}

/// The compressed frame of a message; `None` if the message is short, or no shorter then.
fn deflate(message: &[u8]) -> Option<Bytes> {
    if message.len() < DEFLATED_BYTES_MIN {
        return None;
    }
    let mut payload = Vec::with_capacity(message.len());
    let deflated = DEFLATER.with_borrow_mut(|deflater| {
        deflater.reset();
        deflater.compress_vec(message, &mut payload, FlushCompress::Sync)
    });
    // The end is missing if there was no room for it.
    let payload = payload.strip_suffix(&DEFLATED_END)?;
    deflated.is_ok_and(|status| status == Status::Ok).then(|| {
        let mut frame = header(true, payload.len());
        frame.extend_from_slice(payload);
        frame.into()
    })
}

fn to_event(message: &[u8]) -> Bytes {
    let id: Option<ResumeId<'_>> = serde_json::from_slice(message).ok();
    let id = id.filter(|id| !id.snapshot && !id.more && !id.recorded_at.is_empty());
    let id = id.map(|id| format!("id: {} {}\n", id.seq, id.recorded_at));
    let id = id.unwrap_or_default();
    [id.as_bytes(), b"data: ", message, b"\n\n"].concat().into()
}

#[cfg(test)]
mod tests {
    use flate2::{Decompress, FlushDecompress};
    use tungstenite::protocol::frame::FrameSocket;

    use super::{DEFLATED_END, Encoding, Frame};

    #[test]
    fn another_implementation_decodes_frames_of_every_length() {
        for length in [0, 1, 125, 126, 127, 65_535, 65_536, 200_000] {
            let payload = vec![b'x'; length];
            let (head, tail) = payload.split_at(length / 3);
            let frame = Frame::text(&[head, tail]);
            assert_eq!(frame.json(), payload);
            let bytes = frame.bytes(Encoding::WebSocket).to_vec();
            let mut socket = FrameSocket::new(std::io::Cursor::new(bytes));
            let frame = socket.read(None).expect("a frame").expect("a whole one");
            assert!(frame.header().is_final && frame.header().mask.is_none());
            assert_eq!(frame.into_payload(), payload, "of {length} bytes");
        }
    }

    #[test]
    fn a_field_is_added_to_messages_of_every_length() {
        for length in [1, 100, 130, 70_000] {
            let fields = format!(r#""field":"{}"}}"#, "x".repeat(length));
            let frame = Frame::text(&[b"{", fields.as_bytes()]);
            let expected = [br#"{"more":true,"#, fields.as_bytes()].concat();
            assert_eq!(frame.with_more().json(), expected);
        }
    }

    /// The payload of a compressed frame, decompressed.
    fn inflated(frame: &[u8]) -> Vec<u8> {
        let mut socket = FrameSocket::new(std::io::Cursor::new(frame.to_vec()));
        let frame = socket.read(None).expect("a frame").expect("a whole one");
        assert!(frame.header().rsv1);
        let payload = [&frame.into_payload()[..], &DEFLATED_END].concat();
        let mut message = Vec::with_capacity(1 << 20);
        let mut inflater = Decompress::new(false);
        inflater
            .decompress_vec(&payload, &mut message, FlushDecompress::Sync)
            .expect("deflated");
        message
    }

    #[test]
    fn a_compressed_message_is_the_same_message_and_a_short_or_random_one_is_not_compressed() {
        for length in [300, 1_400, 100_000] {
            let message: String = (0..)
                .map(|n: u32| format!("{n},"))
                .take(length / 2)
                .collect();
            let frame = Frame::text(&[message.as_bytes()]);
            let deflated = frame.bytes(Encoding::Deflated);
            assert!(deflated.len() < frame.len());
            assert_eq!(inflated(deflated), message.as_bytes());
        }
        let mut random = vec![0; 1_000];
        getrandom::fill(&mut random).expect("random bytes");
        for message in [&b"{}"[..], &random] {
            let frame = Frame::text(&[message]);
            assert_eq!(
                frame.bytes(Encoding::Deflated),
                frame.bytes(Encoding::WebSocket)
            );
        }
    }

    #[test]
    fn an_event_has_an_id_only_where_a_client_can_resume() {
        let at = r#""seq":7,"recorded_at":"2026-11-21T06:32:00Z""#;
        for (message, id) in [
            (format!("{{{at}}}"), "id: 7 2026-11-21T06:32:00Z\n"),
            (format!(r#"{{"snapshot":true,{at}}}"#), ""),
            (format!(r#"{{"more":true,{at}}}"#), ""),
            (r#"{"seq":7,"recorded_at":""}"#.to_owned(), ""),
            (r#"{"seq":7}"#.to_owned(), ""),
        ] {
            let frame = Frame::text(&[message.as_bytes()]);
            let expected = format!("{id}data: {message}\n\n");
            assert_eq!(frame.bytes(Encoding::EventStream), expected.as_bytes());
        }
    }
}
