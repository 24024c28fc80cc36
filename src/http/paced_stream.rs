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
/// A deadline that is noticed this late was missed by a process that was stopped or had no time.
const NOTICED_WITHIN: Duration = Duration::from_secs(1);
/// Bytes that the operating system takes before they can be sent. Without this bound it takes up to 4 MiB for each
/// connection, and a client that reads nothing goes unnoticed.
const UNSENT_BYTES_MAX: u32 = 64 * 1024;

/// A connection that fails while it sends an answer to a client that reads too slowly: after [`SEND_GRACE`] and less
/// than [`SEND_RATE_MIN`], or after a total time. The times count from the first byte that has to wait, and again when
/// this process could not keep them.
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
pub(super) type AnswerCounter = Arc<AtomicU64>;

/// An answer that had to wait for the client.
struct Blocked {
    answer: u64,
    since: Instant,
    /// Bytes that had been sent before.
    sent: u64,
    deadline: Pin<Box<Sleep>>,
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
        let answer = self.answer.load(Ordering::Relaxed);
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
        if deadline.elapsed() > NOTICED_WITHIN {
            self.blocked = None;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let slow = "the client reads too slowly";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, slow)))
    }
}

/// Limits the bytes that the operating system takes; 0 for its default.
fn limit_unsent(stream: &TcpStream, bytes: u32) -> io::Result<()> {
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(bytes)
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

#[cfg(test)]
mod tests {
    use std::io::{self, Read};
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use tokio::io::AsyncWrite;
    use tokio::net::TcpListener;
    use tokio::time::sleep;

    use super::{AnswerCounter, NOTICED_WITHIN, PacedStream};

    const ANSWER_TIMEOUT: Duration = Duration::from_millis(50);

    /// Writes until the system accepts no more, or the client is too slow.
    fn fill(stream: &mut PacedStream) -> io::Result<()> {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match Pin::new(&mut *stream).poll_write(&mut context, &[0; 64 * 1024]) {
                Poll::Ready(written) => written.map(drop)?,
                Poll::Pending => return Ok(()),
            }
        }
    }

    #[tokio::test]
    async fn the_time_of_a_process_that_was_stopped_is_not_that_of_its_clients() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut client = std::net::TcpStream::connect(address).expect("a connection");
        client.set_nonblocking(true).expect("a socket");
        let (stream, _) = listener.accept().await.expect("the other end");
        let mut stream = PacedStream::new(stream, AnswerCounter::default(), ANSWER_TIMEOUT);
        fill(&mut stream).expect("the client has time");

        let mut buffer = vec![0; 1 << 20];
        while client.read(&mut buffer).is_ok() {}
        std::thread::sleep(ANSWER_TIMEOUT + NOTICED_WITHIN);
        stream.stream.writable().await.expect("the client has read");
        fill(&mut stream).expect("the client could read no more");
        // From here on it reads nothing.
        let error = loop {
            sleep(ANSWER_TIMEOUT).await;
            if let Err(error) = fill(&mut stream) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
