//! [`Unpacked`]: the bytes of a file, whichever way it is packed, as far as they are sound.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use bzip2::{Decompress, Status};
use flate2::bufread::MultiGzDecoder;

/// Unpacked bytes that are asked for at a time.
const PIECE_BYTES: usize = 64 * 1024;

const BZIP2: &[u8] = b"BZh";
const GZIP: &[u8] = b"\x1f\x8b";

/// A file from its beginning. How it is packed is told by its first bytes, not by its name.
#[derive(Debug)]
pub(super) enum Unpacked {
    Plain(Input),
    Gzip(Box<MultiGzDecoder<Input>>),
    Bzip2(Blocks),
}

/// Why a file cannot be read on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    /// It ends too soon. What came before is sound.
    #[error("the file breaks off at byte {at}, in the middle of its {packing} data")]
    Cut { at: u64, packing: &'static str },
    /// A part of a bzip2 file is not what was packed. What came before is sound.
    #[error("the file is damaged between byte {from} and byte {to}: {reason}")]
    Block { from: u64, to: u64, reason: String },
    /// Somewhere in a gzip file something is not what was packed: it has a check sum of the whole alone.
    #[error(
        "the file is damaged somewhere before byte {to}: {reason}; gzip does not tell where, so nothing of it is taken"
    )]
    Somewhere { to: u64, reason: String },
    /// It cannot be read.
    #[error("{reason}, at byte {at}")]
    Unread { at: u64, reason: String },
}

impl Unpacked {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut input = Input {
            file: BufReader::with_capacity(PIECE_BYTES, File::open(path)?),
            offset: 0,
        };
        let head = input.fill_buf()?;
        Ok(if head.starts_with(BZIP2) {
            Self::Bzip2(Blocks::new(input))
        } else if head.starts_with(GZIP) {
            Self::Gzip(Box::new(MultiGzDecoder::new(input)))
        } else {
            Self::Plain(input)
        })
    }

    /// How many bytes of the file were used so far.
    pub(super) fn offset(&self) -> u64 {
        match self {
            Self::Plain(input) => input.offset,
            Self::Gzip(decoder) => decoder.get_ref().offset,
            Self::Bzip2(blocks) => blocks.input.offset,
        }
    }

    /// Appends the next bytes; none at the end.
    pub(super) fn read(&mut self, into: &mut Vec<u8>) -> Result<usize, Damage> {
        let read = match self {
            Self::Plain(input) => input.take(PIECE_BYTES as u64).read_to_end(into),
            Self::Gzip(decoder) => decoder.take(PIECE_BYTES as u64).read_to_end(into),
            Self::Bzip2(blocks) => return blocks.read(into),
        };
        read.map_err(|error| self.damage(&error))
    }

    fn damage(&self, error: &io::Error) -> Damage {
        let (at, reason) = (self.offset(), error.to_string());
        match (self, error.kind()) {
            (Self::Gzip(_), ErrorKind::UnexpectedEof) => Damage::Cut {
                at,
                packing: "gzip",
            },
            (Self::Gzip(_), ErrorKind::InvalidInput | ErrorKind::InvalidData) => {
                Damage::Somewhere { to: at, reason }
            }
            _ => Damage::Unread { at, reason },
        }
    }
}

/// A file that counts what is taken from it.
#[derive(Debug)]
pub(super) struct Input {
    file: BufReader<File>,
    offset: u64,
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(into)?;
        self.offset += read as u64;
        Ok(read)
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.file.fill_buf()
    }

    fn consume(&mut self, used: usize) {
        self.offset += used as u64;
        self.file.consume(used);
    }
}

/// A bzip2 file block by block, each handed out when its check sum has been seen to be right.
///
/// A decoder unpacks a whole block, hands it out and only then looks at its check sum; and one wrong bit turns all
/// lines of a block around. So a block is held until the decoder has come to its end. It is made of at most 900,000
/// bytes, of which runs of equal ones are counted: what is held is a few MB, or 46 MB if a file is made to be so.
pub(super) struct Blocks {
    input: Input,
    decoder: Decompress,
    /// The byte in which the last sound block ends.
    sound: u64,
    /// Nothing of a stream has been read: the file may end here.
    between: bool,
}

impl std::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blocks")
            .field("sound", &self.sound)
            .finish_non_exhaustive()
    }
}

impl Blocks {
    fn new(input: Input) -> Self {
        Self {
            input,
            decoder: Decompress::new(false),
            sound: 0,
            between: true,
        }
    }

    /// Appends the next block.
    fn read(&mut self, into: &mut Vec<u8>) -> Result<usize, Damage> {
        let before = into.len();
        while into.len() == before {
            if !self.take_in()? {
                return Ok(0);
            }
            if let Err(error) = self.hand_out(into) {
                into.truncate(before);
                return Err(self.damaged(&error));
            }
        }
        self.sound = self.input.offset - 1;
        Ok(into.len() - before)
    }

    /// Gives the decoder more of the file, and no room to put anything: it stops behind the block. False at the end.
    fn take_in(&mut self) -> Result<bool, Damage> {
        let at = self.input.offset;
        let input = self.input.fill_buf().map_err(|error| Damage::Unread {
            at,
            reason: error.to_string(),
        })?;
        if input.is_empty() {
            return match self.between {
                true => Ok(false),
                false => Err(Damage::Cut {
                    at,
                    packing: "bzip2",
                }),
            };
        }
        let before = self.decoder.total_in();
        let status = self.decoder.decompress(input, &mut []);
        let used = usize::try_from(self.decoder.total_in() - before)
            .expect("no more than the buffer that was given");
        self.input.consume(used);
        self.between = status.map_err(|error| self.damaged(&error))? == Status::StreamEnd;
        if self.between {
            // Several streams may stand one behind the other.
            self.decoder = Decompress::new(false);
        }
        Ok(true)
    }

    /// Lets the decoder hand out what it holds, and gives it nothing more: at the end it compares the check sum.
    fn hand_out(&mut self, into: &mut Vec<u8>) -> Result<(), bzip2::Error> {
        loop {
            into.reserve(PIECE_BYTES);
            let before = into.len();
            self.decoder.decompress_vec(&[], into)?;
            if into.len() == before {
                return Ok(());
            }
        }
    }

    fn damaged(&self, error: &bzip2::Error) -> Damage {
        Damage::Block {
            from: self.sound,
            to: self.input.offset,
            reason: error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use bzip2::write::BzEncoder;
    use flate2::write::GzEncoder;
    use tempfile::TempDir;

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
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, packed).expect("a file");
        let (mut unpacked, mut text) = (Unpacked::open(&path).expect("a file"), Vec::new());
        loop {
            match unpacked.read(&mut text) {
                Ok(0) => return (text, None),
                Ok(_) => {}
                Err(damage) => return (text, Some(damage)),
            }
        }
    }

    /// Places all over a file.
    fn places(length: usize) -> impl Iterator<Item = usize> {
        (0..length).step_by(length / 101).chain([length - 1])
    }

    #[test]
    fn what_was_packed_comes_out() {
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
    fn of_a_file_that_is_cut_off_all_that_is_whole_comes_out() {
        let text = text();
        for pack in [bzip2, gzip] {
            let packed = pack(&text);
            let mut kept = Vec::new();
            for cut in places(packed.len()).filter(|cut| *cut > 2) {
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
    fn of_a_damaged_bzip2_file_the_blocks_before_come_out_and_nothing_else() {
        let text = text();
        let packed = bzip2(&text);
        let mut damages = 0;
        for place in places(packed.len()).filter(|place| *place > 2) {
            let mut packed = packed.clone();
            packed[place] ^= 0x10;
            let (came, damage) = unpack(&packed);
            assert!(text.starts_with(&came), "byte {place}");
            match damage {
                // The file is cut off, as the end of it could not be found.
                Some(Damage::Cut { .. }) => {}
                Some(Damage::Block { from, to, .. }) => {
                    let place = place as u64;
                    assert!(
                        from <= place && place < to,
                        "{place} is not in {from} to {to}"
                    );
                }
                // The fourth byte says how large the blocks may be.
                None => assert_eq!(came.len(), text.len(), "byte {place}"),
                other => panic!("byte {place}: {other:?}"),
            }
            damages += usize::from(damage.is_some());
        }
        assert!(damages > 100);
    }

    #[test]
    fn a_damaged_gzip_file_is_never_taken_for_a_sound_one() {
        let text = text();
        let packed = gzip(&text);
        for place in places(packed.len()).filter(|place| *place > 10) {
            let mut packed = packed.clone();
            packed[place] ^= 0x10;
            let (_, damage) = unpack(&packed);
            let noticed = matches!(damage, Some(Damage::Somewhere { .. } | Damage::Cut { .. }));
            assert!(noticed, "byte {place}: {damage:?}");
        }
    }
}
