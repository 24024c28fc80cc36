//! [`DeflatedInput`]: compressed messages of a client (RFC 7692), for a library that knows no extension.

use std::collections::VecDeque;
use std::io::Cursor;

use flate2::{Decompress, FlushDecompress};
use tungstenite::protocol::frame::FrameHeader;

use super::MESSAGE_BYTES_MAX;
use crate::feed::frame::DEFLATED_END;
use crate::live::close_reason::CloseReason;

const FIN_AND_RESERVED: u8 = 0xf0;
const COMPRESSED: u8 = 0x40;
const OPCODE: u8 = 0x0f;
const TEXT: u8 = 1;
const BINARY: u8 = 2;

/// Finds the compressed messages in what a client sends, and has the library take them for binary ones, which it does
/// not check.
#[derive(Debug, Default)]
pub(super) struct DeflatedInput {
    /// The header of the frame, as far as it was received.
    header: Vec<u8>,
    /// Bytes of the payload of the frame that were not received yet.
    payload: u64,
    /// Whether the messages that the library has not returned yet are compressed. The bytes that it reads ahead bound
    /// them.
    messages: VecDeque<bool>,
}

impl DeflatedInput {
    /// Takes the next bytes of the client, and changes them for the library.
    pub(super) fn pass(&mut self, bytes: &mut [u8]) {
        let mut rest = bytes;
        loop {
            let payload = usize::try_from(self.payload).unwrap_or(usize::MAX);
            let (skipped, after) = rest.split_at_mut(payload.min(rest.len()));
            self.payload -= skipped.len() as u64;
            let Some((byte, after)) = after.split_first_mut() else {
                return;
            };
            if self.header.is_empty() {
                self.begin(byte);
            }
            self.header.push(*byte);
            match FrameHeader::parse(&mut Cursor::new(&self.header)) {
                Ok(None) => {}
                Ok(Some((_, payload))) => {
                    self.payload = payload;
                    self.header.clear();
                }
                // The library finds the same error, and reads no further.
                Err(_) => self.payload = u64::MAX,
            }
            rest = after;
        }
    }

    /// Takes the first byte of a frame.
    fn begin(&mut self, byte: &mut u8) {
        let opcode = *byte & OPCODE;
        if opcode != TEXT && opcode != BINARY {
            return;
        }
        let is_compressed = *byte & COMPRESSED != 0;
        if is_compressed {
            *byte = *byte & FIN_AND_RESERVED & !COMPRESSED | BINARY;
        }
        self.messages.push_back(is_compressed && opcode == TEXT);
    }

    /// Whether the next message that the library returns is a compressed text.
    pub(super) fn take(&mut self) -> bool {
        self.messages.pop_front().unwrap_or_default()
    }
}

/// The text of a compressed message.
///
/// # Errors
/// Returns why the connection is closed: the message is not compressed, too large, or no text.
pub(super) fn inflate(payload: &[u8]) -> Result<String, CloseReason> {
    let mut text = Vec::with_capacity(MESSAGE_BYTES_MAX + 1);
    let mut inflater = Decompress::new(false);
    let deflated = [payload, &DEFLATED_END].concat();
    let inflated = inflater.decompress_vec(&deflated, &mut text, FlushDecompress::Sync);
    if inflated.is_err() {
        let error = "a compressed message cannot be decompressed";
        return Err(CloseReason::ProtocolViolation(error.to_owned()));
    }
    if text.len() > MESSAGE_BYTES_MAX {
        let error = format!("a message has more than {MESSAGE_BYTES_MAX} bytes");
        return Err(CloseReason::MessageTooLarge(error));
    }
    String::from_utf8(text).map_err(|_| CloseReason::InvalidUtf8)
}

#[cfg(test)]
mod tests {
    use super::{DeflatedInput, inflate};
    use crate::live::close_reason::CloseReason;

    /// "Hello", compressed (RFC 7692, 7.2.3.1).
    const HELLO: [u8; 7] = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];

    #[test]
    fn the_first_byte_of_a_compressed_text_is_changed_wherever_a_read_ends() {
        let frames: [&[u8]; 5] = [
            &[
                0xc1, 0x87, 0, 0, 0, 0, 0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00,
            ],
            &[0x89, 0x80, 0, 0, 0, 0],
            &[&[0x41, 0xfe, 0, 200, 0, 0, 0, 0][..], &[0xc1; 200]].concat(),
            &[0x80, 0x81, 0, 0, 0, 0, 0xc1],
            &[0x81, 0x81, 0, 0, 0, 0, 0xc1],
        ];
        let sent = frames.concat();
        let mut expected = sent.clone();
        expected[0] = 0x82;
        expected[frames[0].len() + frames[1].len()] = 0x02;
        for size in [1, 2, 3, 7, sent.len()] {
            let mut input = DeflatedInput::default();
            let mut passed = sent.clone();
            passed.chunks_mut(size).for_each(|bytes| input.pass(bytes));
            assert_eq!(passed, expected, "in reads of {size} bytes");
            assert_eq!([0; 4].map(|_| input.take()), [true, true, false, false]);
        }
    }

    #[test]
    fn a_message_is_inflated_within_its_bound() {
        assert_eq!(inflate(&HELLO), Ok("Hello".to_owned()));
        let is_violation = |error| matches!(error, CloseReason::ProtocolViolation(_));
        assert!(inflate(&[0xff; 20]).is_err_and(is_violation));
        // Two stored bytes that are no text.
        assert_eq!(
            inflate(&[0x00, 2, 0, 0xfd, 0xff, 0xff, 0xff, 0x00]),
            Err(CloseReason::InvalidUtf8)
        );
        let mut bomb = Vec::with_capacity(1_000);
        let mut deflater = flate2::Compress::new(flate2::Compression::best(), false);
        let deflated =
            deflater.compress_vec(&[b' '; 100_000], &mut bomb, flate2::FlushCompress::Sync);
        deflated.expect("room");
        let is_too_large = |error| matches!(error, CloseReason::MessageTooLarge(_));
        assert!(inflate(&bomb).is_err_and(is_too_large));
    }
}
