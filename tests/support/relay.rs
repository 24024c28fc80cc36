//! [`Relay`]: a proxy in front of NATS that loses replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Nats;

/// A proxy in front of a server. From the `n`th message to a subject on, it drops all that the server sends on that
/// connection.
pub(crate) struct Relay {
    port: u16,
    silence: Arc<Silence>,
    accepting: JoinHandle<()>,
}

struct Silence {
    command: Vec<u8>,
    nth: usize,
    seen: AtomicUsize,
}

impl Relay {
    pub(crate) async fn start(nats: &Nats, subject: &str, n: usize) -> Self {
        Self::silenced_by(nats, format!("HPUB {subject}"), n).await
    }

    /// From the `n`th of these commands of the protocol on.
    pub(crate) async fn silenced_by(nats: &Nats, command: String, n: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = nats.address();
        let silence = Arc::new(Silence {
            command: command.into_bytes(),
            nth: n,
            seen: AtomicUsize::new(0),
        });
        let relayed = Arc::clone(&silence);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // While the server is down, the client is disconnected.
                if let Ok(server) = TcpStream::connect(server).await {
                    tokio::spawn(relay(client, server, Arc::clone(&relayed)));
                }
            }
        });
        Self {
            port,
            silence,
            accepting,
        }
    }

    /// The number of messages to the subject so far.
    pub(crate) fn seen(&self) -> usize {
        self.silence.seen.load(Ordering::Relaxed)
    }

    pub(crate) fn url_of(&self, user: &str) -> String {
        format!("nats://{user}:p-{user}@127.0.0.1:{}", self.port)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn relay(client: TcpStream, server: TcpStream, silence: Arc<Silence>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (silent, is_silent) = watch::channel(false);
    // When one side ends, the other is disconnected.
    tokio::select! {
        () = relay_to_server(from_client, to_server, &silence, &silent) => {}
        () = relay_to_client(from_server, to_client, &is_silent) => {}
    }
}

async fn relay_to_server(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    silence: &Silence,
    silent: &watch::Sender<bool>,
) {
    let (mut buffer, mut carried) = (vec![0; 64 * 1024], Vec::new());
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        carried.extend_from_slice(&buffer[..read]);
        let found = carried.windows(silence.command.len());
        let found = found.filter(|bytes| *bytes == silence.command).count();
        let seen = silence.seen.fetch_add(found, Ordering::Relaxed);
        if (seen..seen + found).contains(&(silence.nth - 1)) {
            silent.send_replace(true);
        }
        let whole = carried.len().saturating_sub(silence.command.len() - 1);
        carried.drain(..whole);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn relay_to_client(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    silent: &watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if !*silent.borrow() && to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
