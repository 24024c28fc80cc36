//! Writes each message of NATS to each WebSocket in a loop, and nothing else: the least that a fan-out takes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use anyhow::ensure;
use serde_json::Value;

use crate::fanout::frame;
use crate::fanout::nats::{self, Op};

/// Room for one read from NATS.
const BUFFER_BYTES: usize = 512 * 1024;
/// The end of the snapshots of railbird's live channel, after which a client counts messages.
const BEGIN: &[u8] = br#"{"event":"snapshot_complete","seq":0}"#;
/// The answer to the key that each client of `fanout` sends: the example of RFC 6455.
const UPGRADED: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

#[derive(Debug, clap::Args)]
pub(crate) struct WriteLoop {
    /// Where the clients connect.
    #[arg(long)]
    ws: String,
}

impl WriteLoop {
    pub(crate) fn run(&self, nats: &str) -> anyhow::Result<Value> {
        let mut log = TcpStream::connect(nats.trim_start_matches("nats://"))?;
        log.set_nodelay(true)?;
        log.write_all(b"CONNECT {\"verbose\":false}\r\nSUB odds.* 1\r\n")?;
        let listener = TcpListener::bind(&self.ws)?;
        let (connected, clients) = channel();
        thread::spawn(move || accept(&listener, &connected));
        write_all(&mut log, &clients)
    }
}

fn accept(listener: &TcpListener, connected: &Sender<Arc<TcpStream>>) {
    for socket in listener.incoming().flatten() {
        // One that leaves before it is a WebSocket only tried whether this server is there.
        let _ = begin(Arc::new(socket), connected);
    }
}

fn begin(socket: Arc<TcpStream>, connected: &Sender<Arc<TcpStream>>) -> anyhow::Result<()> {
    socket.set_nodelay(true)?;
    let mut request = BufReader::new(&*socket);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        ensure!(request.read_line(&mut line)? > 0, "the client left");
    }
    let mut answer = UPGRADED.to_vec();
    add_frame(&mut answer, BEGIN);
    connected.send(Arc::clone(&socket))?;
    (&*socket).write_all(&answer)?;
    Ok(())
}

/// Takes what has arrived from NATS, and writes its frames to each client, for ever.
fn write_all(log: &mut TcpStream, clients: &Receiver<Arc<TcpStream>>) -> anyhow::Result<Value> {
    let mut sockets = Vec::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut kept = 0;
    loop {
        let read = log.read(&mut buffer[kept..])?;
        ensure!(read > 0, "NATS closed the connection");
        let end = kept + read;
        let mut frames = Vec::new();
        let mut at = 0;
        while let Some((op, length)) = nats::op(&buffer[at..end]) {
            at += length;
            match op {
                Op::Message(text) => add_frame(&mut frames, text),
                Op::Ping => log.write_all(b"PONG\r\n")?,
                _ => {}
            }
        }
        buffer.copy_within(at..end, 0);
        kept = end - at;
        if frames.is_empty() {
            continue;
        }
        sockets.extend(clients.try_iter());
        for socket in &sockets {
            (&**socket).write_all(&frames)?;
        }
    }
}

fn add_frame(frames: &mut Vec<u8>, text: &[u8]) {
    frames.push(0x80 | frame::TEXT);
    match u8::try_from(text.len()) {
        Ok(short) if short < 126 => frames.push(short),
        _ => {
            let length = u16::try_from(text.len()).expect("a message of at most 64 KiB");
            frames.push(126);
            frames.extend(length.to_be_bytes());
        }
    }
    frames.extend(text);
}
