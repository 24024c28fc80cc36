//! [`DigestFile`]: a file whose digest is known when it is written.

use std::fs::File;
use std::io::{self, BufWriter, Write};

/// Counts and digests what is written to a file.
pub(super) struct DigestFile {
    file: BufWriter<File>,
    pub(super) digest: blake3::Hasher,
}

impl DigestFile {
    pub(super) fn new(file: File) -> Self {
        Self {
            file: BufWriter::new(file),
            digest: blake3::Hasher::new(),
        }
    }

    pub(super) fn file(&self) -> &File {
        self.file.get_ref()
    }
}

impl Write for DigestFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
