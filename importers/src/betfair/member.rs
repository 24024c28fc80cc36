//! [`MarketFile`]: a file of a folder, or a member of a `.tar` or `.zip` archive. Nothing is unpacked to the disk.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use events::cut_reason;
use flate2::CrcReader;
use zip::read::ZipFile;
use zip::{CompressionMethod, ZipArchive};

use super::unpack::Unpacked;
use crate::item::{Item, Location, Result};

/// More than the markets of a country in three years.
const MEMBERS_MAX: usize = 100_000;

/// A file to read.
#[derive(Debug, Clone)]
pub(super) struct MarketFile {
    /// For a member, its name behind that of the archive.
    pub(super) location: Location,
    /// The file on the disk.
    path: Arc<Path>,
    /// Where it is in the archive.
    member: Option<Member>,
}

/// The bytes of a member in its archive.
#[derive(Debug, Clone, Copy)]
struct Member {
    start: u64,
    length: u64,
    packing: MemberPacking,
}

#[derive(Debug, Clone, Copy)]
enum MemberPacking {
    /// In a tar archive, which has no checksums of its members.
    Tar,
    /// In a zip archive as it is.
    Stored { crc: u32 },
    /// In a zip archive. The size is that of the unpacked member.
    Deflated { crc: u32, size: u64 },
}

impl MarketFile {
    /// The file, or the members of the archive, that a path names. The items are about members that cannot be read.
    pub(super) fn at(path: &Path) -> (Vec<Self>, Vec<Item>) {
        let file = Self {
            location: Location::file(path),
            path: path.into(),
            member: None,
        };
        // A file that cannot be read is rejected when it is.
        let mut head = [0; 512];
        let read = File::open(path).and_then(|file| file.take(512).read(&mut head));
        let archive = read.ok().and_then(|read| archive(&head[..read]));
        let mut members = Vec::new();
        let mut items = Vec::new();
        let listed = match archive {
            None => return (vec![file], items),
            Some("tar") => file.tar(&mut members),
            Some(_) => file.zip(&mut members, &mut items),
        };
        match listed {
            Err(reason) => items.push(file.location.rejected(reason)),
            Ok(()) if members.is_empty() && items.is_empty() => {
                items.push(file.location.rejected("there is no file in this archive"));
            }
            Ok(()) => {}
        }
        (members, items)
    }

    /// Lists the members of a tar archive, as far as it is intact.
    fn tar(&self, members: &mut Vec<Self>) -> Result<()> {
        let damaged = |error: io::Error| format!("the tar archive is damaged: {error}");
        let mut archive = tar::Archive::new(File::open(&self.path).map_err(damaged)?);
        // Raw entries have the names of their own headers, of at most 256 bytes.
        for entry in archive.entries_with_seek().map_err(damaged)?.raw(true) {
            let entry = entry.map_err(damaged)?;
            if entry.header().entry_type().is_file() {
                let member = Member {
                    start: entry.raw_file_position(),
                    length: entry.size(),
                    packing: MemberPacking::Tar,
                };
                self.add(&entry.path_bytes(), member, members)?;
            }
        }
        Ok(())
    }

    /// Lists the members of a zip archive.
    fn zip(&self, members: &mut Vec<Self>, items: &mut Vec<Item>) -> Result<()> {
        let damaged = |error: zip::result::ZipError| format!("the zip archive: {error}");
        let file = File::open(&self.path).map_err(|error| error.to_string())?;
        let mut archive = ZipArchive::new(file).map_err(damaged)?;
        if archive.has_duplicate_names() {
            return Err("the zip archive has two members of one name".into());
        }
        let names: Vec<Vec<u8>> = archive.file_names_raw().map(<[u8]>::to_vec).collect();
        for (index, name) in names.iter().enumerate() {
            let entry = archive.by_index_raw(index).map_err(damaged);
            match entry.and_then(|entry| zip_member(&entry)) {
                Ok(Some(member)) => self.add(name, member, members)?,
                Ok(None) => {}
                Err(reason) => items.push(self.named(name).rejected(reason)),
            }
        }
        Ok(())
    }

    fn named(&self, name: &[u8]) -> Location {
        let name = cut_reason(&String::from_utf8_lossy(name));
        Location::file(&self.path.join(name.trim_start_matches('/')))
    }

    /// Adds a member, unless it is hidden.
    fn add(&self, name: &[u8], member: Member, members: &mut Vec<Self>) -> Result<()> {
        let mut folders = name.split(|byte| *byte == b'/');
        if folders.any(|folder| folder.starts_with(b".") && ![&b"."[..], b".."].contains(&folder)) {
            return Ok(());
        }
        if members.len() >= MEMBERS_MAX {
            return Err(format!("more than {MEMBERS_MAX} members: split it").into());
        }
        members.push(Self {
            location: self.named(name),
            path: Arc::clone(&self.path),
            member: Some(member),
        });
        Ok(())
    }

    /// Opens the file, which is packed or not.
    pub(super) fn open(&self) -> io::Result<Unpacked> {
        let input = self.bytes()?;
        let packing = self.member.map(|member| member.packing);
        let Some(MemberPacking::Deflated { crc, size }) = packing else {
            return Unpacked::of(input);
        };
        // With a head and an end a deflated member is a gzip file, whose reader checks it.
        let head = Cursor::new(b"\x1f\x8b\x08\0\0\0\0\0\0\xff");
        // A gzip file has the size modulo 2^32.
        let size = size.to_le_bytes();
        let end = [crc.to_le_bytes(), [size[0], size[1], size[2], size[3]]].concat();
        Unpacked::of(Unpacked::of(head.chain(input).chain(Cursor::new(end)))?)
    }

    /// The bytes of the file on the disk.
    fn bytes(&self) -> io::Result<Box<dyn Read + Send>> {
        let mut file = File::open(&self.path)?;
        let Some(Member { start, length, .. }) = self.member else {
            return Ok(Box::new(file));
        };
        file.seek(SeekFrom::Start(start))?;
        Ok(Box::new(WholeMember(file.take(length))))
    }

    /// Checks the checksum of a member that only the archive has.
    pub(super) fn verify(&self) -> Result<()> {
        if let Some(MemberPacking::Stored { crc }) = self.member.map(|member| member.packing) {
            let bytes = self.bytes().map(CrcReader::new);
            let read = bytes.and_then(|mut bytes| {
                io::copy(&mut bytes, &mut io::sink())?;
                Ok(bytes.crc().sum())
            });
            if read.map_err(|error| error.to_string())? != crc {
                return Err("the member is damaged: its checksum is another one".into());
            }
        }
        Ok(())
    }
}

/// The member of an entry; `None` for a folder.
fn zip_member(entry: &ZipFile<'_, File>) -> Result<Option<Member>, String> {
    let (crc, size) = (entry.crc32(), entry.size());
    let packing = match entry.compression() {
        _ if entry.is_dir() => return Ok(None),
        _ if entry.encrypted() => return Err("it is encrypted".to_owned()),
        CompressionMethod::Stored => MemberPacking::Stored { crc },
        CompressionMethod::Deflated => MemberPacking::Deflated { crc, size },
        other => return Err(format!("{other} is not read: unpack it first")),
    };
    Ok(Some(Member {
        start: entry.data_start().ok_or("it has no data")?,
        length: entry.compressed_size(),
        packing,
    }))
}

/// The kind of the archive that begins with some bytes.
pub(super) fn archive(head: &[u8]) -> Option<&'static str> {
    const ZIP: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];
    const TAR: &[u8] = b"ustar";
    const TAR_AT: usize = 257;
    if ZIP.iter().any(|zip| head.starts_with(zip)) {
        return Some("zip");
    }
    head.get(TAR_AT..)?.starts_with(TAR).then_some("tar")
}

/// A member of an archive, which may be truncated.
struct WholeMember(io::Take<File>);

impl Read for WholeMember {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 if self.0.limit() > 0 && !into.is_empty() => {
                Err(io::Error::other("the archive ends in the middle of it"))
            }
            read => Ok(read),
        }
    }
}
