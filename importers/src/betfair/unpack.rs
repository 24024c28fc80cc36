//! [`Unpacked`]: the bytes of a file, packed or not, as far as they are intact.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use bzip2::{Decompress, Status};
use flate2::bufread::MultiGzDecoder;

/// Bytes that are read and unpacked at a time.
const BUFFER_BYTES: usize = 64 * 1024;

const BZIP2: &[u8] = b"BZh";
const GZIP: &[u8] = b"\x1f\x8b";

/// A file from its beginning. The packing is detected from its first bytes. A read error is a [`Damage`].
pub(super) enum Unpacked {
    Plain(Input),
    Gzip(Box<BufReader<MultiGzDecoder<Input>>>),
    Bzip2(BufReader<Blocks>),
}

/// Why a file cannot be read on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    /// The file is truncated. What came before is intact.
    #[error("the file ends at byte {at}, in the middle of its {packing} data")]
    Cut { at: u64, packing: &'static str },
    /// A block of a bzip2 file is damaged. What came before is intact.
    #[error("the file is damaged between byte {from} and byte {to}: {reason}")]
    Block { from: u64, to: u64, reason: String },
    /// A gzip file is damaged somewhere: it has only a checksum of the whole.
    #[error(
        "the file is damaged somewhere before byte {to}: {reason}; gzip does not locate damage, so the whole file is rejected"
    )]
    Somewhere { to: u64, reason: String },
    /// An I/O error.
    #[error("{reason}, at byte {at}")]
    Unread { at: u64, reason: String },
}

impl Damage {
    pub(super) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl Unpacked {
    pub(super) fn of(file: impl Read + Send + 'static) -> io::Result<Self> {
        let file = CountedFile(Box::new(file), 0);
        let mut input = BufReader::with_capacity(BUFFER_BYTES, file);
        let head = input.fill_buf()?;
        Ok(if head.starts_with(BZIP2) {
            Self::Bzip2(BufReader::with_capacity(BUFFER_BYTES, Blocks::new(input)))
        } else if head.starts_with(GZIP) {
            let decoder = MultiGzDecoder::new(input);
            Self::Gzip(Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder)))
        } else {
            Self::Plain(input)
        })
    }

    /// The number of bytes of the file that have been used.
    pub(super) fn offset(&self) -> u64 {
        match self {
            Self::Plain(input) => offset(input),
            Self::Gzip(decoder) => offset(decoder.get_ref().get_ref()),
            Self::Bzip2(blocks) => offset(&blocks.get_ref().input),
        }
    }

    fn buffer(&mut self) -> &mut dyn BufRead {
        match self {
            Self::Plain(input) => input,
            Self::Gzip(decoder) => decoder,
            Self::Bzip2(blocks) => blocks,
        }
    }

    fn damage(&self, error: io::Error) -> io::Error {
        let at = self.offset();
        let reason = error.to_string();
        let packing = "gzip";
        let damage = match (self, error.kind()) {
            (_, ErrorKind::Interrupted) => return error,
            // It has a cause already.
            _ if Damage::of(&error).is_some() => return error,
            (Self::Gzip(_), ErrorKind::UnexpectedEof) => Damage::Cut { at, packing },
            (Self::Gzip(_), ErrorKind::InvalidInput | ErrorKind::InvalidData) => {
                Damage::Somewhere { to: at, reason }
            }
            _ => Damage::Unread { at, reason },
        };
        io::Error::other(damage)
    }
}

impl Read for Unpacked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Unpacked {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if let Err(error) = self.buffer().fill_buf() {
            return Err(self.damage(error));
        }
        self.buffer().fill_buf()
    }

    fn consume(&mut self, used: usize) {
        self.buffer().consume(used);
    }
}

type Input = BufReader<CountedFile>;

/// A file, and how many bytes of it have been read.
pub(super) struct CountedFile(Box<dyn Read + Send>, u64);

impl Read for CountedFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(into)?;
        self.1 += read as u64;
        Ok(read)
    }
}

/// The number of bytes of a file that have been used.
fn offset(input: &Input) -> u64 {
    input.get_ref().1 - input.buffer().len() as u64
}

/// A bzip2 file block by block, each returned when its checksum has been verified.
///
/// A decoder unpacks a whole block, returns its bytes, and checks the checksum only then; and one wrong bit changes all
/// lines of a block. So a block is held until the decoder has reached its end. It is made of at most 900,000 bytes with
/// counted runs of equal bytes: a few MB are held, or 46 MB for a file that was made for it.
pub(super) struct Blocks {
    input: Input,
    decoder: Decompress,
    /// The block that is being returned, and how much of it was used.
    block: Vec<u8>,
    used: usize,
    /// The byte in which the last intact block ends.
    intact: u64,
    /// No stream has begun: the file may end here.
    between_streams: bool,
}

impl Read for Blocks {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.used == self.block.len() {
            self.block.clear();
            self.used = 0;
            self.next_block().map_err(io::Error::other)?;
        }
        let read = (&self.block[self.used..]).read(into)?;
        self.used += read;
        Ok(read)
    }
}

impl Blocks {
    fn new(input: Input) -> Self {
        Self {
            input,
            decoder: Decompress::new(false),
            block: Vec::new(),
            used: 0,
            intact: 0,
            between_streams: true,
        }
    }

    /// Unpacks the next block; nothing at the end.
    fn next_block(&mut self) -> Result<(), Damage> {
        while self.block.is_empty() {
            if !self.feed()? {
                return Ok(());
            }
            if let Err(error) = self.unpack() {
                self.block.clear();
                return Err(self.damaged(&error));
            }
        }
        self.intact = offset(&self.input) - 1;
        Ok(())
    }

    /// Gives the decoder more of the file and no room for output, so that it stops behind the block. Returns false at
    /// the end.
    fn feed(&mut self) -> Result<bool, Damage> {
        let at = offset(&self.input);
        let input = self.input.fill_buf().map_err(|error| {
            let reason = error.to_string();
            error.downcast().unwrap_or(Damage::Unread { at, reason })
        })?;
        if input.is_empty() {
            let packing = "bzip2";
            let end = self.between_streams.then_some(false);
            return end.ok_or(Damage::Cut { at, packing });
        }
        let before = self.decoder.total_in();
        let status = self.decoder.decompress(input, &mut []);
        let used = usize::try_from(self.decoder.total_in() - before)
            .expect("no more than the buffer that was given");
        self.input.consume(used);
        self.between_streams = status.map_err(|error| self.damaged(&error))? == Status::StreamEnd;
        if self.between_streams {
            // A file may have several streams.
            self.decoder = Decompress::new(false);
        }
        Ok(true)
    }

    /// Takes the block from the decoder without giving it more: at the end of the block it verifies the checksum.
    fn unpack(&mut self) -> Result<(), bzip2::Error> {
        loop {
            self.block.reserve(BUFFER_BYTES);
            let before = self.block.len();
            self.decoder.decompress_vec(&[], &mut self.block)?;
            if self.block.len() == before {
                return Ok(());
            }
        }
    }

    fn damaged(&self, error: &bzip2::Error) -> Damage {
        Damage::Block {
            from: self.intact,
            to: offset(&self.input),
            reason: error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, Cursor, Write};

    use bzip2::write::BzEncoder;
    use flate2::write::GzEncoder;

    use super::{Damage, Unpacked};

    /// Lines that do not pack well, so that there are several blocks of 100,000 bytes.
    fn text() -> Vec<u8> {
        let lines = (0..30_000_u32).map(|n| format!("{n} {}\n", n.wrapping_mul(2_654_435_761)));
        lines.collect::<String>().into_bytes()
    }

    fn bzip2(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = BzEncoder::new(Vec::new(), bzip2::Compression::new(1));
        encoder.write_all(bytes).expect("into memory");
        encoder.finish().expect("into memory")
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).expect("into memory");
        encoder.finish().expect("into memory")
    }

    fn unpack(packed: &[u8]) -> (Vec<u8>, Option<Damage>) {
        let mut unpacked = Unpacked::of(Cursor::new(packed.to_vec())).expect("a file");
        let mut text = Vec::new();
        loop {
            let length = match unpacked.fill_buf() {
                Ok([]) => return (text, None),
                Ok(bytes) => {
                    text.extend_from_slice(bytes);
                    bytes.len()
                }
                Err(error) => return (text, Some(error.downcast().expect("a damage"))),
            };
            unpacked.consume(length);
        }
    }

    /// Offsets all over a file.
    fn offsets(length: usize) -> impl Iterator<Item = usize> {
        (0..length).step_by(length / 101).chain([length - 1])
    }

    #[test]
    fn packed_text_is_unpacked() {
        let text = text();
        let twice = [text.as_slice(), &text].concat();
        assert_eq!(unpack(&text), (text.clone(), None));
        assert_eq!(unpack(&bzip2(&text)), (text.clone(), None));
        assert_eq!(unpack(&gzip(&text)), (text.clone(), None));
        let [blocks, members] = [bzip2, gzip].map(|pack| [pack(&text), pack(&text)].concat());
        assert_eq!(unpack(&blocks), (twice.clone(), None));
        assert_eq!(unpack(&members), (twice, None));
        assert_eq!(unpack(b""), (Vec::new(), None));
    }

    #[test]
    fn a_truncated_file_gives_all_that_is_intact() {
        let text = text();
        for pack in [bzip2, gzip] {
            let packed = pack(&text);
            let mut kept = Vec::new();
            for cut in offsets(packed.len()).filter(|cut| *cut > 2) {
                let (came, damage) = unpack(&packed[..cut]);
                assert!(text.starts_with(&came), "cut at {cut}");
                assert!(
                    matches!(damage, Some(Damage::Cut { at, .. }) if at == cut as u64),
                    "cut at {cut}: {damage:?}"
                );
                kept.push(came.len());
            }
            assert!(
                kept.is_sorted() && kept[kept.len() / 2] > 100_000,
                "{kept:?}"
            );
        }
    }

    #[test]
    fn a_damaged_bzip2_file_gives_only_the_blocks_before_the_damage() {
        let text = text();
        let packed = bzip2(&text);
        let mut damages = 0;
        for offset in offsets(packed.len()).filter(|offset| *offset > 2) {
            let mut packed = packed.clone();
            packed[offset] ^= 0x10;
            let (came, damage) = unpack(&packed);
            assert!(text.starts_with(&came), "byte {offset}");
            match damage {
                // The file is cut off, as the end of it could not be found.
                Some(Damage::Cut { .. }) => {}
                Some(Damage::Block { from, to, .. }) => {
                    let offset = offset as u64;
                    assert!(
                        from <= offset && offset < to,
                        "{offset} is not in {from} to {to}"
                    );
                }
                // The fourth byte is the largest size of a block.
                None => assert_eq!(came.len(), text.len(), "byte {offset}"),
                other => panic!("byte {offset}: {other:?}"),
            }
            damages += usize::from(damage.is_some());
        }
        assert!(damages > 100);
    }

    #[test]
    fn damage_of_a_gzip_file_is_always_detected() {
        let text = text();
        let packed = gzip(&text);
        for offset in offsets(packed.len()).filter(|offset| *offset > 10) {
            let mut packed = packed.clone();
            packed[offset] ^= 0x10;
            let (_, damage) = unpack(&packed);
            let noticed = matches!(damage, Some(Damage::Somewhere { .. } | Damage::Cut { .. }));
            assert!(noticed, "byte {offset}: {damage:?}");
        }
    }
}
