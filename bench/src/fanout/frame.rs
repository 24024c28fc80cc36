//! The part of WebSocket framing that a client needs.

pub(crate) const TEXT: u8 = 1;
pub(super) const BINARY: u8 = 2;
pub(super) const CLOSE: u8 = 8;
pub(super) const PING: u8 = 9;
pub(super) const PONG: u8 = 10;

/// The head of a frame from a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) opcode: u8,
    pub(super) is_deflated: bool,
    /// Bytes of the head itself.
    pub(super) bytes: usize,
    pub(super) payload_bytes: usize,
}

impl Head {
    /// Parses the head at the start of these bytes; `None` if it is incomplete.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[first, second], rest) = bytes.split_first_chunk()?;
        let (extra, payload_bytes) = match second & 0x7f {
            126 => (2, u16::from_be_bytes(*rest.first_chunk()?).into()),
            127 => (8, u64::from_be_bytes(*rest.first_chunk()?) as usize),
            short => (0, usize::from(short)),
        };
        Some(Self {
            opcode: first & 0x0f,
            is_deflated: first & 0x40 != 0,
            bytes: 2 + extra,
            payload_bytes,
        })
    }
}

/// A frame from a client. It must be masked; a mask of zeros leaves the payload as it is.
pub(super) fn masked(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let short = u8::try_from(payload.len()).expect("clients send short messages");
    assert!(short < 126, "clients send short messages");
    [&[0x80 | opcode, 0x80 | short, 0, 0, 0, 0], payload].concat()
}
