//! [`PacedStream`]: a connection whose client has to read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// The time that a client may take before the lowest rate counts: an answer may wait for a bad mobile connection.
const SEND_GRACE: Duration = Duration::from_secs(10);
/// The lowest rate at which a client may read an answer, in bytes a second. The slowest mobile networks reach it.
const SEND_RATE_MIN: u64 = 4 * 1024;
/// Bytes that the operating system takes before they can be sent. Without this bound it takes up to 4 MiB for each
/// connection, and a client that reads nothing goes unnoticed.
const UNSENT_BYTES_MAX: u32 = 64 * 1024;

/// A connection that fails while it sends an answer to a client that reads too slowly: after [`SEND_GRACE`] and less
/// than [`SEND_RATE_MIN`], or after a total time. The times count from the first byte that has to wait.
#[derive(Debug)]
pub(super) struct PacedStream {
    stream: TcpStream,
    answer_timeout: Duration,
    /// The number of the answer that is being sent.
    answer: AnswerCounter,
    /// Bytes that were sent.
    sent: u64,
    blocked: Option<Blocked>,
}

/// Counts the answers of a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct AnswerCounter(Arc<AtomicU64>);

/// An answer that had to wait for the client.
#[derive(Debug)]
struct Blocked {
    answer: u64,
    since: Instant,
    /// Bytes that had been sent before.
    sent: u64,
    deadline: Pin<Box<Sleep>>,
}

impl AnswerCounter {
    /// The next answer begins.
    pub(super) fn next(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl PacedStream {
    pub(super) fn new(stream: TcpStream, answer: AnswerCounter, answer_timeout: Duration) -> Self {
        let set = stream.set_nodelay(true);
        let set = set.and_then(|()| limit_unsent(&stream, UNSENT_BYTES_MAX));
        if let Err(error) = set {
            tracing::debug!(%error, "the options of a connection could not be set");
        }
        Self {
            stream,
            answer_timeout,
            answer,
            sent: 0,
            blocked: None,
        }
    }

    /// The connection as it was.
    ///
    /// # Errors
    /// Returns an I/O error if its options cannot be reset.
    pub(super) fn into_inner(self) -> io::Result<TcpStream> {
        limit_unsent(&self.stream, 0)?;
        Ok(self.stream)
    }

    /// Notes what was sent, or fails when the client has taken too long.
    fn pace(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            self.sent += *written.as_ref().unwrap_or(&0) as u64;
            return Poll::Ready(written);
        }
        let answer = self.answer.0.load(Ordering::Relaxed);
        if self.blocked.as_ref().is_none_or(|it| it.answer != answer) {
            let since = Instant::now();
            self.blocked = Some(Blocked {
                answer,
                since,
                sent: self.sent,
                deadline: Box::pin(sleep_until(since)),
            });
        }
        let Some(blocked) = &mut self.blocked else {
            return Poll::Pending;
        };
        let earned = Duration::from_secs((self.sent - blocked.sent) / SEND_RATE_MIN);
        let allowed = (SEND_GRACE + earned).min(self.answer_timeout);
        let deadline = blocked.since + allowed;
        if blocked.deadline.deadline() != deadline {
            blocked.deadline.as_mut().reset(deadline);
        }
        ready!(blocked.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client reads too slowly",
        )))
    }
}

/// Limits the bytes that the operating system takes; 0 for its default.
#[cfg(target_os = "linux")]
fn limit_unsent(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(bytes)
}

/// Other systems have no such limit, or another one. Their buffers are smaller.
#[cfg(not(target_os = "linux"))]
fn limit_unsent(_: &TcpStream, _: u32) -> io::Result<()> {
    Ok(())
}

impl AsyncRead for PacedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for PacedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.pace(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.pace(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
