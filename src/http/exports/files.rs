//! [`ExportFiles`]: the files of exports that were made, for all who ask for one of them again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use events::{LanguageTag, RacingDate, VenueCode};
use futures::{FutureExt, StreamExt, stream};
use tokio::task::spawn_blocking;

use super::kind::ExportKind;
use crate::http::entity_tag::EntityTag;
use crate::http::error::ApiError;
use crate::http::formats::BodyFormat;
use crate::past::Kept;

/// Bytes of the files that are kept: those of a season of results, cards and dividends.
const KEPT_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Files that are made at a time. Each takes a thread and some ten megabytes.
const MAKING_MAX: usize = 1;
/// Bytes of a file that are in memory for a client.
const CHUNK_BYTES: usize = 64 * 1024;

/// What a file has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExportName {
    pub(super) kind: ExportKind,
    pub(super) date: RacingDate,
    pub(super) venue: VenueCode,
    pub(super) language: Option<LanguageTag>,
    /// The event that it is as of.
    pub(super) seq: u64,
    pub(super) format: BodyFormat,
}

/// A file without a name: its space is free once nobody reads it any more, also after a crash.
#[derive(Debug)]
pub(super) struct ExportFile {
    file: File,
    pub(super) bytes: u64,
    pub(super) tag: EntityTag,
}

/// Makes files, and keeps those that were asked for last.
#[derive(Debug)]
pub struct ExportFiles {
    folder: PathBuf,
    kept: Arc<Kept<ExportName, Arc<ExportFile>>>,
}

impl ExportFiles {
    /// The files take space in a folder.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            kept: Kept::new(KEPT_BYTES_MAX, MAKING_MAX),
        }
    }

    /// The file of this name. `make` writes it, unless it is kept. It is also kept if the client is gone meanwhile.
    ///
    /// # Errors
    /// Returns those of `make`, and [`ApiError::Internal`] if the disk is full.
    pub(super) async fn get(
        &self,
        name: ExportName,
        make: impl FnOnce(File) -> Result<File, ApiError> + Send + 'static,
    ) -> Result<Arc<ExportFile>, ApiError> {
        let folder = self.folder.clone();
        let making = move || {
            let file = tempfile::tempfile_in(folder).map_err(ApiError::internal)?;
            let file = Arc::new(ExportFile::of(make(file)?).map_err(ApiError::internal)?);
            let bytes = file.bytes;
            Ok((file, bytes))
        };
        let make = async { spawn_blocking(making).await? };
        self.kept.get_or_make(name, make).await
    }
}

impl ExportFile {
    fn of(mut file: File) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        io::Seek::rewind(&mut file)?;
        hasher.update_reader(&file)?;
        let mut hash = [0; 8];
        hasher.finalize_xof().fill(&mut hash);
        Ok(Self {
            bytes: hasher.count(),
            tag: EntityTag::of_hash(u64::from_be_bytes(hash)),
            file,
        })
    }

    /// The bytes, which are read as the client takes them.
    pub(super) fn body(self: Arc<Self>) -> Body {
        let chunks = stream::iter((0..self.bytes).step_by(CHUNK_BYTES)).then(move |at| {
            let this = Arc::clone(&self);
            let read = spawn_blocking(move || {
                let count = CHUNK_BYTES.min(usize::try_from(this.bytes - at).unwrap_or(usize::MAX));
                let mut chunk = vec![0; count];
                this.file.read_exact_at(&mut chunk, at)?;
                io::Result::Ok(Bytes::from(chunk))
            });
            read.map(|read| read.unwrap_or_else(|error| Err(io::Error::other(error))))
        });
        Body::from_stream(chunks)
    }
}
