//! [`Connection`]: the socket of a client after the handshake. A library decodes frames; encoded frames are written as
//! they are.

mod inflate;
mod outgoing;
mod socket;

use std::io::{self, IoSlice, Read, Write};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use rustix::event::PollFlags;
use tokio::net::TcpStream;
use tungstenite::error::ProtocolError;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Error, Message};

use self::inflate::DeflatedInput;
use self::outgoing::OutgoingBuffer;
use self::socket::ClientSocket;
use super::{CloseReason, NewConnection};
use crate::feed::frame::{Encoding, Frame};

/// Bytes of a message from a client, all fragments together.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// Most clients send nothing; the buffer grows with a message.
const READ_BUFFER_BYTES: usize = 512;
/// Replies of the library are pongs and close frames. It holds one at a time.
const REPLY_BYTES_MAX: usize = 4 * 1024;
/// Bytes that the system buffers for a client that does not read. Linux doubles it for its own needs.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Frames for one client alone that wait until it reads. Its messages are not read while there are more.
const OUTGOING_FRAMES_MAX: usize = 16;
/// An empty ping (RFC 6455, 5.5.2).
const PING: Bytes = Bytes::from_static(&[0x89, 0x00]);
/// A comment, which clients ignore.
const EVENT_STREAM_PING: Bytes = Bytes::from_static(b":\n\n");

pub(super) enum Incoming {
    Text(String),
    /// A ping or a pong: the client is alive, and the frame counts towards its quota.
    Control,
    Binary,
    Nothing,
    /// The client closed the connection, and its close frame is answered.
    Closed,
    Disconnected,
    /// The client broke the protocol.
    Invalid(CloseReason),
}

pub(super) struct Connection {
    pipe: Pipe,
    encoding: Encoding,
    context: WebSocketContext,
    /// Bytes that arrived with the handshake are not decoded yet. The system does not report them as readable.
    has_read_ahead: bool,
    /// The system accepts no more bytes for now.
    pub(super) blocked: bool,
    /// Wakes the task that polls this connection, when it is blocked or ends.
    pub(super) waker: Waker,
}

/// The stream for the library: it reads from the socket, but what it writes is queued, so that it never interrupts a
/// frame.
struct Pipe {
    socket: ClientSocket,
    /// Of a client that may compress its messages.
    deflated: Option<Box<DeflatedInput>>,
    outgoing: OutgoingBuffer,
    /// Bytes that may be read before other clients have their turn.
    budget: usize,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = buffer.len().min(self.budget);
        let Some(buffer) = buffer.get_mut(..end).filter(|buffer| !buffer.is_empty()) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let bytes = self.socket.read(buffer)?;
        self.budget -= bytes;
        if let Some(deflated) = &mut self.deflated {
            deflated.pass(buffer.get_mut(..bytes).unwrap_or_default());
        }
        Ok(bytes)
    }
}

impl Write for Pipe {
    fn write(&mut self, reply: &[u8]) -> io::Result<usize> {
        (self.outgoing.frames).push_back(Bytes::copy_from_slice(reply));
        Ok(reply.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Connection {
    /// Takes over a socket, and its TLS, after the handshake; `read_ahead` are bytes that the client sent after it.
    ///
    /// # Errors
    /// Returns an I/O error if the system does not add the socket to its event queue.
    pub(super) fn open(connection: NewConnection) -> io::Result<Self> {
        let (encoding, mut read_ahead) = (connection.encoding, connection.read_ahead);
        rustix::net::sockopt::set_socket_send_buffer_size(&connection.stream, SEND_BUFFER_BYTES)?;
        let stream = TcpStream::from_std(connection.stream.into())?;
        let mut deflated = (encoding == Encoding::Deflated).then(Box::<DeflatedInput>::default);
        if let Some(deflated) = &mut deflated {
            deflated.pass(&mut read_ahead);
        }
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(0)
            .max_write_buffer_size(REPLY_BYTES_MAX)
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        Ok(Self {
            pipe: Pipe {
                socket: ClientSocket::new(stream, connection.tls),
                deflated,
                outgoing: OutgoingBuffer::default(),
                budget: 0,
            },
            encoding,
            has_read_ahead: !read_ahead.is_empty(),
            context: WebSocketContext::from_partially_read(read_ahead, Role::Server, Some(config)),
            blocked: false,
            waker: Waker::noop().clone(),
        })
    }

    /// Reads the next message without waiting, and at most `budget` bytes, which it reduces by what it read.
    pub(super) fn read(&mut self, budget: &mut usize) -> Incoming {
        self.pipe.budget = *budget;
        let result = self.context.read(&mut self.pipe);
        *budget = self.pipe.budget;
        let is_data = matches!(result, Ok(Message::Text(_) | Message::Binary(_)));
        let deflated = self.pipe.deflated.as_mut().filter(|_| is_data);
        let is_deflated = deflated.is_some_and(|deflated| deflated.take());
        match result {
            Ok(Message::Text(text)) => Incoming::Text(text.as_str().to_owned()),
            Ok(Message::Binary(payload)) if is_deflated => {
                inflate::inflate(&payload).map_or_else(Incoming::Invalid, Incoming::Text)
            }
            Ok(Message::Binary(_)) => Incoming::Binary,
            // After a close frame, the next read answers it and returns `ConnectionClosed`.
            Ok(_) => Incoming::Control,
            Err(Error::ConnectionClosed) => Incoming::Closed,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                self.has_read_ahead = false;
                Incoming::Nothing
            }
            Err(Error::Capacity(error)) => {
                Incoming::Invalid(CloseReason::MessageTooLarge(error.to_string()))
            }
            Err(Error::Utf8(_)) => Incoming::Invalid(CloseReason::InvalidUtf8),
            Err(Error::Protocol(error)) if error != ProtocolError::ResetWithoutClosingHandshake => {
                Incoming::Invalid(CloseReason::ProtocolViolation(error.to_string()))
            }
            Err(_) => Incoming::Disconnected,
        }
    }

    /// Reads and discards at most `budget` bytes. Returns false if the client sends no more.
    pub(super) fn discard_input(&mut self, mut budget: usize) -> bool {
        self.has_read_ahead = false;
        let mut buffer = [0; 4096];
        while budget > 0 {
            match self.pipe.socket.read(&mut buffer) {
                Ok(0) => return false,
                Ok(bytes) => budget = budget.saturating_sub(bytes),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }

    pub(super) fn queue(&mut self, frames: impl IntoIterator<Item = Frame>) {
        let frames = frames.into_iter();
        let frames = frames.map(|frame| frame.bytes(self.encoding).clone());
        self.pipe.outgoing.frames.extend(frames);
    }

    pub(super) fn queue_ping(&mut self) {
        let ping = match self.encoding {
            Encoding::EventStream => EVENT_STREAM_PING,
            Encoding::WebSocket | Encoding::Deflated => PING,
        };
        self.pipe.outgoing.frames.push_back(ping);
    }

    /// Drops the frames that wait and are not started.
    pub(super) fn discard_output(&mut self) {
        self.pipe.outgoing.discard_unstarted();
    }

    /// Adds a close frame to the frames that wait. An event stream has none.
    pub(super) fn queue_close(&mut self, reason: &CloseReason) {
        if self.encoding == Encoding::EventStream {
            return;
        }
        let (code, reason) = (reason.code().into(), reason.text().into());
        let frame = CloseFrame { code, reason };
        let queued = self.pipe.outgoing.frames.len();
        // The pipe accepts everything, so an error means that the client closed first: then the answer to that is sent.
        let client_closed = !self.context.can_write();
        let _ = self.context.flush(&mut self.pipe);
        if !client_closed {
            // A pong that is due would follow the close frame, which must be the last.
            self.pipe.outgoing.frames.truncate(queued);
            let _ = self.context.close(&mut self.pipe, Some(frame));
        }
    }

    /// Whether all that was queued is written.
    pub(super) fn is_clear(&self) -> bool {
        self.pipe.outgoing.frames.is_empty() && self.pipe.socket.is_flushed()
    }

    /// Bytes that the system has accepted so far.
    pub(super) fn bytes_written(&self) -> u64 {
        self.pipe.socket.bytes_written()
    }

    /// Whether so many frames wait that only urgent ones should be added.
    pub(super) fn is_crowded(&self) -> bool {
        self.pipe.outgoing.frames.len() >= OUTGOING_FRAMES_MAX
    }

    /// Ends the output, so that the client reads the end of the stream.
    pub(super) fn shut_down_output(&mut self) {
        let ended = self.pipe.socket.shut_down_output();
        // Any other error means that the connection has ended.
        if ended.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.blocked = true;
            self.waker.wake_by_ref();
        }
    }

    pub(super) fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.has_read_ahead {
            return Poll::Ready(Ok(()));
        }
        self.pipe.socket.poll_readable(context)
    }

    /// Whether the system accepts bytes again, or has bytes of the client if it always did. The runtime may not have
    /// reported that yet. A client of an event stream sends nothing while it is there.
    pub(super) fn has_client_acted(&self) -> bool {
        if self.encoding == Encoding::EventStream && !self.blocked {
            return true;
        }
        let flags = match self.blocked {
            true => PollFlags::OUT,
            false => PollFlags::IN,
        };
        self.pipe.socket.is_ready(flags)
    }

    /// Waits until the system accepts bytes again.
    pub(super) fn poll_unblocked(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ready = self.pipe.socket.poll_writable(context);
        self.blocked = ready.is_pending();
        ready
    }

    /// Writes what is queued and then `frames`, as far as the system accepts them. Returns how many of `frames` were
    /// started: the last of them is finished later, from the queue.
    ///
    /// # Errors
    /// Returns an I/O error if the connection has ended.
    pub(super) fn write(&mut self, frames: &[Frame]) -> io::Result<usize> {
        let mut started = 0;
        let (pipe, encoding) = (&mut self.pipe, self.encoding);
        loop {
            let frames = frames.get(started..).unwrap_or_default();
            let frames = || frames.iter().map(|frame| frame.bytes(encoding));
            let write = |slices: &[IoSlice<'_>]| pipe.socket.write_vectored(slices).map(Some);
            let written = pipe.outgoing.with_slices(frames(), write);
            match written.unwrap_or_else(|| pipe.socket.flush().map(|()| None)) {
                Ok(None) => break,
                Ok(Some(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(Some(bytes)) => started += pipe.outgoing.advance(bytes, frames()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if self.blocked {
            self.waker.wake_by_ref();
        }
        Ok(started)
    }
}
