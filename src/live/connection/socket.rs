//! [`ClientSocket`]: the bytes of a client's connection, with TLS or without. No call waits.

use std::io::{self, IoSlice, Read, Write};
use std::task::{Context, Poll};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;
use tokio::net::TcpStream;

use crate::tls::TlsSession;

pub(super) struct ClientSocket {
    stream: NonBlocking,
    tls: Option<TlsSession>,
}

/// Counts what is written.
struct NonBlocking {
    /// The connection to a client, or the pair of sockets to the task of the server that sends it what is written. Only
    /// its descriptor is used, so the type does not matter.
    stream: TcpStream,
    bytes_written: u64,
}

impl Read for NonBlocking {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.try_read(buffer)
    }
}

impl Write for NonBlocking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes = self.stream.try_write_vectored(slices)?;
        self.bytes_written += bytes as u64;
        Ok(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ClientSocket {
    pub(super) fn new(stream: TcpStream, tls: Option<TlsSession>) -> Self {
        let stream = NonBlocking {
            stream,
            bytes_written: 0,
        };
        Self { stream, tls }
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.read(buffer),
            Some(tls) => tls.read(&mut self.stream, buffer),
        }
    }

    /// Writes as much as the system accepts, and returns how much that is. With TLS, some of it may wait for
    /// [`Self::flush`].
    pub(super) fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.write_vectored(slices),
            Some(tls) => tls.write(&mut self.stream, slices),
        }
    }

    /// Writes what waits of earlier writes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => tls.flush(&mut self.stream),
        }
    }

    pub(super) fn is_flushed(&self) -> bool {
        self.tls.as_ref().is_none_or(TlsSession::is_flushed)
    }

    /// Bytes that the system has accepted so far, with those of TLS.
    pub(super) fn bytes_written(&self) -> u64 {
        self.stream.bytes_written
    }

    /// Ends the output, so that the client reads the end of the stream.
    pub(super) fn shut_down_output(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.close(&mut self.stream)?;
        }
        Ok(rustix::net::shutdown(&self.stream.stream, Shutdown::Write)?)
    }

    pub(super) fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The system does not report what TLS has read from it.
        if self.tls.as_mut().is_some_and(TlsSession::is_readable) {
            return Poll::Ready(Ok(()));
        }
        self.stream.stream.poll_read_ready(context)
    }

    pub(super) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.stream.poll_write_ready(context)
    }

    /// Asks the system whether the socket is ready, or has ended.
    pub(super) fn is_ready(&self, flags: PollFlags) -> bool {
        let mut sockets = [PollFd::new(&self.stream.stream, flags)];
        poll(&mut sockets, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}
