//! [`Relay`]: a way to NATS on which answers can be lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Nats;

/// Stands before a server. From the `n`th message to a subject on, the connection hears nothing any more; later ones do.
pub(crate) struct Relay {
    port: u16,
    silence: Arc<Silence>,
    accepting: JoinHandle<()>,
}

struct Silence {
    before: Vec<u8>,
    messages: usize,
    seen: AtomicUsize,
}

impl Relay {
    pub(crate) async fn start(nats: &Nats, subject: &str, n: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = nats.address();
        let silence = Arc::new(Silence {
            before: format!("HPUB {subject}").into_bytes(),
            messages: n,
            seen: AtomicUsize::new(0),
        });
        let relayed = Arc::clone(&silence);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // While the server is down, the client is hung up on.
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

    /// How many messages to the subject have come by.
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
    let (silent, heard) = watch::channel(false);
    // Where one side is gone, the other is hung up on.
    tokio::select! {
        () = forth(from_client, to_server, &silence, &silent) => {}
        () = back(from_server, to_client, &heard) => {}
    }
}

async fn forth(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    silence: &Silence,
    silent: &watch::Sender<bool>,
) {
    let (mut buffer, mut carried) = (vec![0; 64 * 1024], Vec::new());
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        carried.extend_from_slice(&buffer[..read]);
        let found = carried.windows(silence.before.len());
        let found = found.filter(|bytes| *bytes == silence.before).count();
        let seen = silence.seen.fetch_add(found, Ordering::Relaxed);
        if (seen..seen + found).contains(&(silence.messages - 1)) {
            silent.send_replace(true);
        }
        let whole = carried.len().saturating_sub(silence.before.len() - 1);
        carried.drain(..whole);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn back(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, silent: &watch::Receiver<bool>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if !*silent.borrow() && to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
