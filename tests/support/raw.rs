//! [`Raw`]: a WebSocket written from RFC 6455, without a library: it can send what violates the protocol, and checks
//! what it receives.

use std::io;
use std::net::SocketAddr;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::PATIENCE;

// The first octet of a frame: FIN, three reserved bits, the opcode (5.2).
pub(crate) const FIN: u8 = 0x80;
pub(crate) const CONTINUATION: u8 = 0x0;
pub(crate) const TEXT: u8 = 0x1;
pub(crate) const BINARY: u8 = 0x2;
pub(crate) const CLOSE: u8 = 0x8;
pub(crate) const PING: u8 = 0x9;
pub(crate) const PONG: u8 = 0xA;

/// The frame's message is compressed (RFC 7692, 6).
pub(crate) const COMPRESSED: u8 = 0x40;
/// What a compressed message leaves out (RFC 7692, 7.2.1).
const DEFLATED_END: [u8; 4] = [0, 0, 0xff, 0xff];

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// The header of a masked frame.
pub(crate) fn header(first: u8, length: usize) -> Vec<u8> {
    let mut header = vec![first];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ ..=125), _) => header.push(0x80 | short),
        (_, Ok(medium)) => {
            header.push(0x80 | 126);
            header.extend(medium.to_be_bytes());
        }
        _ => {
            header.push(0x80 | 127);
            header.extend((length as u64).to_be_bytes());
        }
    }
    header.extend(MASK);
    header
}

/// A masked frame.
pub(crate) fn frame(first: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    let mut frame = header(first, payload.len());
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(b, m)| b ^ m));
    frame
}

/// A frame without a mask.
pub(crate) fn unmasked(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    assert!(length <= 125);
    [&[first, length], payload].concat()
}

pub(crate) fn text(payload: impl AsRef<[u8]>) -> Vec<u8> {
    frame(FIN | TEXT, payload)
}

/// The payload of a compressed text.
pub(crate) fn deflate(payload: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.len() + 64);
    let mut deflater = Compress::new(Compression::best(), false);
    let compressed = deflater.compress_vec(payload.as_bytes(), &mut bytes, FlushCompress::Sync);
    compressed.unwrap();
    bytes.strip_suffix(&DEFLATED_END).unwrap().to_vec()
}

pub(crate) fn close(code: u16, reason: &str) -> Vec<u8> {
    frame(
        FIN | CLOSE,
        [&code.to_be_bytes(), reason.as_bytes()].concat(),
    )
}

/// A request that the service acknowledges with the same id.
pub(crate) fn ping(id: &str) -> String {
    json!({ "op": "ping", "id": id }).to_string()
}

/// The head of a handshake, with the key of the RFC's example (1.3).
pub(crate) fn handshake(key: &str) -> String {
    format!(
        "GET /ws/live/odds?api_key={key} HTTP/1.1\r\nHost: railbird\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
}

/// A frame of the service, other than those that every client gets: welcome, races, heartbeats, pings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Got {
    /// An `ack` with this id.
    Ack(Value),
    /// An `error` with this code.
    Error(String),
    Pong(Vec<u8>),
    /// A `closing` message with this code.
    Closing(u16),
    Close(Option<u16>),
    /// The service ended the connection with FIN.
    End,
    /// The connection was reset: frames in flight may be lost.
    Reset,
}

pub(crate) fn ack(id: &str) -> Got {
    Got::Ack(id.into())
}

/// A connection after its handshake.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) read: Reader,
    pub(crate) write: OwnedWriteHalf,
}

#[derive(Debug)]
pub(crate) struct Reader {
    stream: BufReader<OwnedReadHalf>,
    closed: bool,
    /// Compressed messages received.
    pub(crate) deflated: usize,
}

impl Raw {
    /// Negotiates compression, as a browser does.
    pub(crate) async fn open_deflated(address: SocketAddr, key: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let offer =
            "\r\nSec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n";
        let handshake = handshake(key).replace("\r\n\r\n", offer);
        let (raw, head) = Self::shake_hands(stream, handshake.as_bytes()).await;
        let accepted = "sec-websocket-extensions: permessage-deflate; server_no_context_takeover; \
            client_no_context_takeover\r\n";
        assert!(head.contains(accepted), "{head}");
        raw
    }

    pub(crate) async fn open(address: SocketAddr, key: &str) -> Self {
        Self::open_and_send(address, key, &[]).await
    }

    /// Sends bytes after the handshake, in the same packet.
    pub(crate) async fn open_and_send(address: SocketAddr, key: &str, after: &[u8]) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        Self::on(stream, key, after).await
    }

    /// The same on an open connection.
    pub(crate) async fn on(stream: TcpStream, key: &str, after: &[u8]) -> Self {
        let first = [handshake(key).as_bytes(), after].concat();
        let (raw, head) = Self::shake_hands(stream, &first).await;
        assert!(!head.contains("sec-websocket-extensions"), "{head}");
        raw
    }

    /// Returns the head of the answer as well, in lower case.
    async fn shake_hands(stream: TcpStream, first: &[u8]) -> (Self, String) {
        stream.set_nodelay(true).unwrap();
        let (read, mut write) = stream.into_split();
        write.write_all(first).await.unwrap();
        let mut read = Reader {
            stream: BufReader::new(read),
            closed: false,
            deflated: 0,
        };
        let head = read.head().await.unwrap().to_lowercase();
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        let accept = "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=";
        assert!(head.contains(accept), "{head}");
        (Self { read, write }, head)
    }

    /// Sends bytes, and reads until the connection has ended.
    pub(crate) async fn send(mut self, octets: &[u8]) -> Vec<Got> {
        let sending = self.write.write_all(octets);
        // Sending fails if the service has closed already.
        let (_, got) = tokio::join!(sending, self.read.until_end());
        got
    }

    /// Sends the same bytes again and again, and reads until the connection has ended.
    pub(crate) async fn flood(mut self, octets: &[u8]) -> Vec<Got> {
        let sending = async {
            while self.write.write_all(octets).await.is_ok() {}
            std::future::pending().await
        };
        tokio::select! {
            got = self.read.until_end() => got,
            () = sending => unreachable!(),
        }
    }
}

impl Reader {
    async fn head(&mut self) -> io::Result<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await?);
        }
        Ok(String::from_utf8(head).unwrap())
    }

    /// All frames up to the end of the connection.
    pub(crate) async fn until_end(&mut self) -> Vec<Got> {
        let mut all = Vec::new();
        // Heartbeats go on for ever.
        let ended = timeout(PATIENCE, async {
            loop {
                let got = self.next().await;
                let over = matches!(got, Got::End | Got::Reset);
                all.push(got);
                if over {
                    return;
                }
            }
        });
        let is_ended = ended.await.is_ok();
        assert!(
            is_ended,
            "the connection is open after {} frames",
            all.len()
        );
        all
    }

    /// The next message.
    pub(crate) async fn message(&mut self) -> String {
        loop {
            let frame = timeout(PATIENCE, self.frame())
                .await
                .expect("a frame in time");
            let (opcode, payload) = frame.unwrap().expect("the socket stays open");
            if opcode == TEXT {
                return String::from_utf8(payload).unwrap();
            }
        }
    }

    pub(crate) async fn next(&mut self) -> Got {
        loop {
            let frame = timeout(PATIENCE, self.frame()).await;
            let (opcode, payload) = match frame.expect("a frame in time") {
                Ok(Some(frame)) => frame,
                Ok(None) => return Got::End,
                Err(_) => return Got::Reset,
            };
            assert!(!self.closed, "a frame after the close frame");
            match opcode {
                TEXT => {
                    if let Some(got) = reply(&serde_json::from_slice(&payload).unwrap()) {
                        return got;
                    }
                }
                CLOSE => {
                    self.closed = true;
                    let code = payload.get(..2).map(|code| code.try_into().unwrap());
                    std::str::from_utf8(payload.get(2..).unwrap_or_default()).unwrap();
                    return Got::Close(code.map(u16::from_be_bytes));
                }
                PONG => return Got::Pong(payload),
                PING => {}
                other => panic!("opcode {other}"),
            }
        }
    }

    /// A frame, checked against the rules for servers; `None` at the end.
    async fn frame(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        let first = match self.stream.read_u8().await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            first => first?,
        };
        let is_deflated = first & COMPRESSED != 0;
        assert_eq!(first & 0x30, 0, "reserved bits");
        assert_eq!(first & FIN, FIN, "the service sends no fragments");
        let length = match self.stream.read_u8().await? {
            short @ ..=125 => u64::from(short),
            126 => {
                let length = self.stream.read_u16().await?;
                assert!(length > 125, "the shortest form");
                length.into()
            }
            127 => {
                let length = self.stream.read_u64().await?;
                assert!(length > u64::from(u16::MAX), "the shortest form");
                length
            }
            _ => panic!("a server sends no mask"),
        };
        let opcode = first & 0xF;
        assert!(opcode < 8 || length <= 125, "a control frame is short");
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut payload).await?;
        if is_deflated {
            self.deflated += 1;
            payload = inflated(&payload);
        }
        Ok(Some((opcode, payload)))
    }
}

fn inflated(payload: &[u8]) -> Vec<u8> {
    let payload = [payload, &DEFLATED_END].concat();
    let mut message = Vec::with_capacity(1 << 20);
    let mut inflater = Decompress::new(false);
    let inflating = inflater.decompress_vec(&payload, &mut message, FlushDecompress::Sync);
    inflating.unwrap();
    message
}

/// `None` for messages that every client gets.
fn reply(message: &Value) -> Option<Got> {
    match message["event"].as_str().unwrap() {
        "ack" => Some(Got::Ack(message["id"].clone())),
        "error" => Some(Got::Error(message["error"].as_str().unwrap().to_owned())),
        "closing" => Some(Got::Closing(
            u16::try_from(message["code"].as_u64().unwrap()).unwrap(),
        )),
        _ => None,
    }
}
