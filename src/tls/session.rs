//! [`TlsSession`]: the TLS of a connection, without its socket.

use std::io::{self, BufRead, IoSlice, Read, Write};

use tokio_rustls::rustls::ServerConnection;

/// Encrypts and decrypts for a socket that somebody else waits for. No call waits: those that would fail with
/// `WouldBlock`.
#[derive(Debug)]
pub(crate) struct TlsSession(Box<ServerConnection>);

impl TlsSession {
    /// Continues a connection after its handshake, with the bytes that are decrypted already.
    pub(crate) fn new(connection: ServerConnection) -> Self {
        Self(Box::new(connection))
    }

    /// Reads from the socket, and decrypts. Returns 0 if the client sends no more.
    ///
    /// # Errors
    /// Returns an I/O error of the socket, and one if the client breaks the protocol.
    pub(crate) fn read(&mut self, socket: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            self.0.read_tls(socket)?;
            let processed = self.0.process_new_packets();
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    /// Whether a read returns at once, whatever the socket has.
    pub(crate) fn is_readable(&mut self) -> bool {
        // An error is also one of a connection that was cut, which a read returns.
        let waits = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
        !self.0.reader().fill_buf().map(drop).is_err_and(waits)
    }

    /// Encrypts, and writes to the socket. Returns how many bytes were taken: not all of them may be written, which
    /// [`Self::flush`] continues.
    ///
    /// # Errors
    /// Returns an I/O error of the socket, and takes no byte then.
    pub(crate) fn write(
        &mut self,
        socket: &mut impl Write,
        slices: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        // What is encrypted has to leave first: the buffer is bounded.
        self.flush(socket)?;
        let taken = self.0.writer().write_vectored(slices)?;
        match self.flush(socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Writes what is encrypted.
    ///
    /// # Errors
    /// Returns an I/O error of the socket.
    pub(crate) fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while self.0.wants_write() {
            if self.0.write_tls(socket)? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Whether all that was taken is written.
    pub(crate) fn is_flushed(&self) -> bool {
        !self.0.wants_write()
    }

    /// Writes the end of the output.
    ///
    /// # Errors
    /// Returns an I/O error of the socket.
    pub(crate) fn close(&mut self, socket: &mut impl Write) -> io::Result<()> {
        self.0.send_close_notify();
        self.flush(socket)
    }
}
