//! [`Connection`]: a connection after the handshake. Frames are read by a library, and written as they are.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::net::TcpStream;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Error, Message};

use super::MESSAGE_BYTES_MAX;

/// What clients say is mostly nothing; the buffer grows with a message.
const READ_BUFFER_BYTES: usize = 512;
/// Replies of the library are pongs and close frames, of which it holds one at a time.
const REPLY_BYTES_MAX: usize = 4 * 1024;
/// What the system holds of what a client has not taken; Linux doubles it for its own needs.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Frames of one client alone that wait for it to take more. Beyond that it is not listened to.
const QUEUE_MAX: usize = 16;
/// Frames in one system call.
const FRAMES_PER_WRITE: usize = 256;

/// What came from a client.
#[derive(Debug)]
pub(super) enum Incoming {
    Text(String),
    /// A ping or a pong: it is alive, and it costs something.
    Control,
    Binary,
    /// Nothing more for now.
    Nothing,
    /// It closed, and its close frame is answered.
    Closed,
    /// The connection ended.
    Gone,
    /// It broke the protocol; the code to close with, and why.
    Wrong(u16, String),
}

/// A connection that frames are written to.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    context: WebSocketContext,
    /// What came with the handshake is not read yet. The system does not tell of it: it has nothing more.
    read_ahead: bool,
    /// Frames of this client alone, before what the feed has; of the first, so much is written.
    queue: VecDeque<Bytes>,
    written: usize,
    /// The system takes nothing more for now.
    blocked: bool,
    bytes_written: u64,
}

/// The stream as the library sees it: it reads from the socket, and what it writes is put into the queue, so that it never
/// comes between the halves of a frame.
struct Pipe<'a> {
    stream: &'a TcpStream,
    queue: &'a mut VecDeque<Bytes>,
    /// So much may be read before others have their turn.
    allowed: &'a mut usize,
}

impl Read for Pipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = buffer.len().min(*self.allowed);
        let Some(buffer) = buffer.get_mut(..end).filter(|buffer| !buffer.is_empty()) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let bytes = self.stream.try_read(buffer)?;
        *self.allowed -= bytes;
        Ok(bytes)
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, reply: &[u8]) -> io::Result<usize> {
        self.queue.push_back(Bytes::copy_from_slice(reply));
        Ok(reply.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Connection {
    /// A connection whose client may have sent the first bytes behind its handshake.
    ///
    /// # Errors
    /// The system does not take it into its event queue.
    pub(super) fn open(stream: std::net::TcpStream, read_ahead: Vec<u8>) -> io::Result<Self> {
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES)?;
        let stream = TcpStream::from_std(stream)?;
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(0)
            .max_write_buffer_size(REPLY_BYTES_MAX)
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        Ok(Self {
            stream,
            read_ahead: !read_ahead.is_empty(),
            context: WebSocketContext::from_partially_read(read_ahead, Role::Server, Some(config)),
            queue: VecDeque::new(),
            written: 0,
            blocked: false,
            bytes_written: 0,
        })
    }

    /// Reads the next message, without waiting, and at most `allowed` bytes, of which it takes off what came in.
    pub(super) fn read(&mut self, allowed: &mut usize) -> Incoming {
        let mut pipe = Pipe {
            stream: &self.stream,
            queue: &mut self.queue,
            allowed,
        };
        match self.context.read(&mut pipe) {
            Ok(Message::Text(text)) => Incoming::Text(text.as_str().to_owned()),
            Ok(Message::Ping(_) | Message::Pong(_)) => Incoming::Control,
            Ok(Message::Binary(_)) => Incoming::Binary,
            // The library answers a close frame at the next read, and then says that it is over.
            Ok(Message::Close(_) | Message::Frame(_)) => Incoming::Control,
            Err(Error::ConnectionClosed) => Incoming::Closed,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                self.read_ahead = false;
                Incoming::Nothing
            }
            Err(Error::Capacity(error)) => {
                Incoming::Wrong(CloseCode::Size.into(), error.to_string())
            }
            Err(Error::Utf8(_)) => Incoming::Wrong(
                CloseCode::Invalid.into(),
                "the text is not UTF-8".to_owned(),
            ),
            Err(Error::Protocol(
                tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
            )) => Incoming::Gone,
            Err(Error::Protocol(error)) => {
                Incoming::Wrong(CloseCode::Protocol.into(), error.to_string())
            }
            Err(_) => Incoming::Gone,
        }
    }

    /// Reads and throws away what comes, at most `allowed` bytes. False when the other end is done.
    pub(super) fn discard(&mut self, mut allowed: usize) -> bool {
        self.read_ahead = false;
        let mut buffer = [0; 4096];
        while allowed > 0 {
            match self.stream.try_read(&mut buffer) {
                Ok(0) => return false,
                Ok(bytes) => allowed = allowed.saturating_sub(bytes),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// Puts a frame behind those that wait.
    pub(super) fn queue(&mut self, frame: Bytes) {
        self.queue.push_back(frame);
    }

    /// Forgets what waits and has not been begun.
    pub(super) fn forget(&mut self) {
        self.queue.truncate(usize::from(self.written > 0));
    }

    /// Puts a close frame behind those that wait.
    pub(super) fn close(&mut self, code: u16, reason: &str) {
        let frame = CloseFrame {
            code: code.into(),
            reason: reason.into(),
        };
        let mut due = VecDeque::new();
        let mut pipe = Pipe {
            stream: &self.stream,
            queue: &mut due,
            allowed: &mut 0,
        };
        // The pipe takes everything; an error says that the client closed first, and then the answer to that is due.
        let client_closed = !self.context.can_write();
        let _ = self.context.flush(&mut pipe);
        if !client_closed {
            // A pong that is due would come behind the close frame, where nothing may be.
            pipe.queue.clear();
            let _ = self.context.close(&mut pipe, Some(frame));
        }
        self.queue.append(&mut due);
    }

    /// Whether all that was queued is written.
    pub(super) fn is_clear(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether so much waits that nothing should be added that can wait, too.
    pub(super) fn is_crowded(&self) -> bool {
        self.queue.len() >= QUEUE_MAX
    }

    /// Bytes that the system has taken so far.
    pub(super) fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Tells the other end that nothing more comes.
    pub(super) fn end_writing(&self) {
        // An error means that the connection is gone.
        let _ = rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Write);
    }

    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.read_ahead {
            return Poll::Ready(Ok(()));
        }
        self.stream.poll_read_ready(context)
    }

    /// Waits until the system takes more.
    pub(super) fn poll_unblocked(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ready = self.stream.poll_write_ready(context);
        self.blocked = ready.is_pending();
        ready
    }

    /// Writes what is queued, then `frames`, as far as the system takes them. Returns how many of `frames` are no longer the
    /// caller's: one that was begun is finished later, from the queue.
    ///
    /// # Errors
    /// The connection is gone.
    pub(super) fn write(&mut self, frames: &[Bytes]) -> io::Result<usize> {
        let mut taken = 0;
        while let Some(bytes) = self.write_once(frames.get(taken..).unwrap_or_default())? {
            taken += self.advance(bytes, frames.get(taken..).unwrap_or_default());
        }
        Ok(taken)
    }

    /// One system call; `None` when there is nothing to write, or the system takes nothing.
    fn write_once(&mut self, frames: &[Bytes]) -> io::Result<Option<usize>> {
        let mut slices = [IoSlice::new(&[]); FRAMES_PER_WRITE];
        let mut count = 0;
        for (slice, frame) in slices.iter_mut().zip(self.queue.iter().chain(frames)) {
            let skip = if count == 0 { self.written } else { 0 };
            *slice = IoSlice::new(frame.get(skip..).unwrap_or_default());
            count += 1;
        }
        if count == 0 {
            return Ok(None);
        }
        match self
            .stream
            .try_write_vectored(slices.get(..count).unwrap_or_default())
        {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.blocked = true;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Notes that so many bytes were written. Returns how many of `frames` were at least begun.
    fn advance(&mut self, bytes: usize, frames: &[Bytes]) -> usize {
        self.bytes_written += bytes as u64;
        let mut bytes = bytes + std::mem::take(&mut self.written);
        while let Some(front) = self.queue.front() {
            if bytes < front.len() {
                self.written = bytes;
                return 0;
            }
            bytes -= front.len();
            self.queue.pop_front();
        }
        let mut taken = 0;
        for frame in frames {
            if bytes == 0 {
                break;
            }
            taken += 1;
            if bytes < frame.len() {
                self.queue.push_back(frame.clone());
                self.written = bytes;
                break;
            }
            bytes -= frame.len();
        }
        taken
    }
}
