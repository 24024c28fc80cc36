//! [`ClientHello`]: the first message of a TLS client, written from RFC 5246 and RFC 8446 without a library: it can
//! offer what no library offers any more.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::PATIENCE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Ssl3 = 0x0300,
    Tls10 = 0x0301,
    Tls11 = 0x0302,
    Tls12 = 0x0303,
    Tls13 = 0x0304,
}

/// What a client offers.
#[derive(Debug)]
pub(super) struct ClientHello {
    /// The only version.
    version: Version,
    pub(super) suites: BTreeSet<u16>,
}

/// What the server chooses.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerHello {
    pub(super) version: Version,
    pub(super) suite: u16,
}

const HANDSHAKE: u8 = 22;
const SERVER_HELLO: u8 = 2;
const SUPPORTED_VERSIONS: u16 = 43;

impl ClientHello {
    /// Offers every suite that IANA has registered, and those around them.
    pub(super) fn all_suites(version: Version) -> Self {
        let old = (0x0001..=0x00ff).chain(0xc000..=0xc0ff);
        let new = (0x1301..=0x1307)
            .chain(0xcca8..=0xccae)
            .chain(0xd001..=0xd005);
        Self {
            version,
            suites: old.chain(new).collect(),
        }
    }

    /// The record with this message.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let version = self.version as u16;
        let legacy_version = version.min(Version::Tls12 as u16);
        let suites: Vec<u8> = self
            .suites
            .iter()
            .flat_map(|suite| suite.to_be_bytes())
            .collect();
        let mut body = legacy_version.to_be_bytes().to_vec();
        body.extend([7; 32]);
        body.extend(sized::<1>(&[9; 32]));
        body.extend(sized::<2>(&suites));
        // No compression.
        body.extend(sized::<1>(&[0]));
        if self.version != Version::Ssl3 {
            body.extend(sized::<2>(&self.extensions()));
        }
        let message = [&[1], &sized::<3>(&body)[..]].concat();
        let mut record = vec![HANDSHAKE];
        record.extend(version.min(Version::Tls10 as u16).to_be_bytes());
        record.extend(sized::<2>(&message));
        record
    }

    fn extensions(&self) -> Vec<u8> {
        let extension = |id: u16, data: &[u8]| [&id.to_be_bytes(), &sized::<2>(data)[..]].concat();
        let name = [&[0], &sized::<2>(b"localhost")[..]].concat();
        // secp256r1, secp384r1, x25519.
        let groups = sized::<2>(&[0, 0x17, 0, 0x18, 0, 0x1d]);
        // ECDSA, RSA-PSS and RSA with SHA-256, ECDSA and RSA with SHA-1.
        let signatures = sized::<2>(&[4, 3, 8, 4, 4, 1, 2, 3, 2, 1]);
        let mut all = extension(0, &sized::<2>(&name));
        all.extend(extension(10, &groups));
        all.extend(extension(11, &sized::<1>(&[0])));
        all.extend(extension(13, &signatures));
        if self.version == Version::Tls13 {
            let version = (Version::Tls13 as u16).to_be_bytes();
            all.extend(extension(SUPPORTED_VERSIONS, &sized::<1>(&version)));
            let share = [&[0, 0x1d], &sized::<2>(&[9; 32])[..]].concat();
            all.extend(extension(51, &sized::<2>(&share)));
        }
        all
    }

    /// Sends it, and returns the answer; `None` if it is an alert or the end.
    pub(super) async fn send(&self, address: SocketAddr) -> Option<ServerHello> {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&self.bytes()).await.unwrap();
        let mut head = [0; 5];
        let read = timeout(PATIENCE, stream.read_exact(&mut head)).await;
        read.expect("an answer or the end").ok()?;
        if head[0] != HANDSHAKE {
            return None;
        }
        let mut message = vec![0; u16::from_be_bytes([head[3], head[4]]).into()];
        stream.read_exact(&mut message).await.unwrap();
        assert_eq!(message[0], SERVER_HELLO);
        Some(ServerHello::parse(&message[4..]))
    }
}

impl ServerHello {
    fn parse(body: &[u8]) -> Self {
        let number = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
        let session_bytes = usize::from(body[34]);
        let suite = number(35 + session_bytes);
        let mut version = number(0);
        let mut at = 35 + session_bytes + 2 + 1 + 2;
        while at < body.len() {
            let (id, length) = (number(at), usize::from(number(at + 2)));
            if id == SUPPORTED_VERSIONS {
                version = number(at + 4);
            }
            at += 4 + length;
        }
        let all = [
            Version::Ssl3,
            Version::Tls10,
            Version::Tls11,
            Version::Tls12,
            Version::Tls13,
        ];
        let version = all.into_iter().find(|known| *known as u16 == version);
        Self {
            version: version.expect("a version"),
            suite,
        }
    }
}

/// Bytes after their length, a number of `N` bytes.
fn sized<const N: usize>(bytes: &[u8]) -> Vec<u8> {
    let length = u64::try_from(bytes.len()).unwrap().to_be_bytes();
    [&length[8 - N..], bytes].concat()
}
