//! [`TlsSession`]: the TLS of a connection, without its socket.

use std::io::{self, BufRead, IoSlice, Read, Write};

use tokio_rustls::rustls::ServerConnection;

/// Encrypts and decrypts for a socket that somebody else waits for. No call waits: those that would fail with
/// `WouldBlock`.
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::{self, IoSlice, Read, Write};
    use std::sync::Arc;

    use rcgen::{CertificateParams, KeyPair};
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
    use tokio_rustls::rustls::{
        ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
    };

    use super::TlsSession;

    /// One direction of a socket, which takes some bytes, and then no more until it has room again.
    #[derive(Default)]
    struct NarrowPipe {
        bytes: VecDeque<u8>,
        room: usize,
    }

    impl Write for NarrowPipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let taken = bytes.len().min(self.room);
            self.room -= taken;
            self.bytes.extend(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for NarrowPipe {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.bytes.read(buffer)? {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                bytes => Ok(bytes),
            }
        }
    }

    /// A client and a server after their handshake.
    fn connected() -> (ClientConnection, TlsSession) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let crypto = Arc::new(ring::default_provider());
        let client = ClientConfig::builder_with_provider(Arc::clone(&crypto))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let server = ServerConfig::builder_with_provider(crypto)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();
        server.set_buffer_limit(Some(16 * 1024));
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            server.read_tls(&mut bytes.as_slice()).unwrap();
            server.process_new_packets().unwrap();
            bytes.clear();
            server.write_tls(&mut bytes).unwrap();
            client.read_tls(&mut bytes.as_slice()).unwrap();
            client.process_new_packets().unwrap();
        }
        (client, TlsSession::new(server))
    }

    /// What the client reads of the bytes in a pipe.
    fn received(client: &mut ClientConnection, pipe: &mut NarrowPipe) -> Vec<u8> {
        let mut all = Vec::new();
        while !pipe.bytes.is_empty() {
            client.read_tls(pipe).unwrap();
            client.process_new_packets().unwrap();
            let end = client.reader().read_to_end(&mut all);
            assert!(end.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
        }
        all
    }

    #[test]
    fn every_byte_is_sent_once_wherever_the_socket_is_full() {
        let frames: Vec<Vec<u8>> = (0..200u8)
            .map(|n| vec![n; 1 + usize::from(n) * 3])
            .collect();
        let all = frames.concat();
        assert!(all.len() > 3 * 16 * 1024);
        for room in [1, 7, 1_000, 16_000, 100_000] {
            let (mut client, mut server) = connected();
            let mut pipe = NarrowPipe::default();
            let mut taken = 0;
            let mut got = Vec::new();
            while got.len() < all.len() {
                pipe.room = room;
                let (first, second) = all[taken..].split_at((all.len() - taken) / 2);
                let slices = [IoSlice::new(first), IoSlice::new(second)];
                let written = if taken < all.len() {
                    server.write(&mut pipe, &slices)
                } else {
                    server.flush(&mut pipe).map(|()| 0)
                };
                match written {
                    Ok(bytes) => taken += bytes,
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
                assert!(
                    taken <= got.len() + 2 * 16 * 1024 + room,
                    "what waits is bounded"
                );
                got.extend(received(&mut client, &mut pipe));
            }
            assert_eq!(got, all, "room for {room}");
            assert!(server.is_flushed());
        }
    }

    #[test]
    fn bytes_that_tls_holds_are_readable_without_the_socket() {
        let (mut client, mut server) = connected();
        let mut pipe = NarrowPipe::default();
        let mut buffer = [0; 2];
        let nothing = server.read(&mut pipe, &mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        assert!(!server.is_readable());

        client.writer().write_all(b"hello").unwrap();
        pipe.room = usize::MAX;
        client.write_tls(&mut pipe).unwrap();
        let mut got: Vec<u8> = Vec::new();
        while let Ok(bytes) = server.read(&mut pipe, &mut buffer) {
            got.extend(&buffer[..bytes]);
            assert_eq!(server.is_readable(), got.len() < 5, "{got:?}");
        }
        assert_eq!(got, b"hello");

        client.send_close_notify();
        client.write_tls(&mut pipe).unwrap();
        assert_eq!(server.read(&mut pipe, &mut buffer).unwrap(), 0, "the end");
    }

    #[test]
    fn a_close_that_the_socket_has_no_room_for_is_finished_later() {
        let (mut client, mut server) = connected();
        let mut pipe = NarrowPipe::default();
        let full = server.close(&mut pipe).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(!server.is_flushed());
        pipe.room = usize::MAX;
        server.close(&mut pipe).unwrap();
        client.read_tls(&mut pipe).unwrap();
        let state = client.process_new_packets().unwrap();
        assert!(state.peer_has_closed());
        assert!(pipe.bytes.is_empty(), "one end, not two");
    }

    #[test]
    fn bytes_that_are_not_tls_are_an_error() {
        let (_, mut server) = connected();
        let mut pipe = NarrowPipe {
            bytes: VecDeque::from(vec![0xff; 64]),
            room: 0,
        };
        let error = server.read(&mut pipe, &mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
