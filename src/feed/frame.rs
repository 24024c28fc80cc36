//! WebSocket frames, encoded once. A server does not mask its frames, so the same bytes go to every client.

use bytes::Bytes;
use projections::json;
use serde::Serialize;

/// The first byte of a whole text message (RFC 6455, 5.2).
const TEXT: u8 = 0x81;

/// A frame with one text message, made of these parts.
pub fn text(parts: &[&[u8]]) -> Bytes {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = Vec::with_capacity(length + 10);
    frame.push(TEXT);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => frame.push(short),
        (_, Ok(medium)) => {
            frame.push(126);
            frame.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    for part in parts {
        frame.extend_from_slice(part);
    }
    frame.into()
}

/// The same message with `"more":true`: one of several that belong together, but not the last.
pub fn with_more(frame: &[u8]) -> Bytes {
    let header = match frame.get(1) {
        Some(126) => 4,
        Some(127) => 10,
        _ => 2,
    };
    let message = frame.get(header..).unwrap_or_default();
    text(&[br#"{"more":true,"#, json::fields(message), b"}"])
}

pub fn encode(message: &impl Serialize) -> Bytes {
    text(&[&json::render(message)])
}

#[cfg(test)]
mod tests {
    use tungstenite::protocol::frame::FrameSocket;

    use super::{text, with_more};

    #[test]
    fn another_implementation_decodes_frames_of_every_length() {
        for length in [0, 1, 125, 126, 127, 65_535, 65_536, 200_000] {
            let payload = vec![b'x'; length];
            let (head, tail) = payload.split_at(length / 3);
            let bytes = text(&[head, tail]);
            let mut socket = FrameSocket::new(std::io::Cursor::new(bytes.to_vec()));
            let frame = socket.read(None).expect("a frame").expect("a whole one");
            assert!(frame.header().is_final && frame.header().mask.is_none());
            assert_eq!(frame.into_payload(), payload, "of {length} bytes");
        }
    }

    #[test]
    fn a_field_is_added_to_messages_of_every_length() {
        for length in [1, 100, 130, 70_000] {
            let fields = format!(r#""field":"{}"}}"#, "x".repeat(length));
            let frame = text(&[b"{", fields.as_bytes()]);
            let expected = text(&[br#"{"more":true,"#, fields.as_bytes()]);
            assert_eq!(with_more(&frame), expected);
        }
    }
}
