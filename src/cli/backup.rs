//! [`Backup`]: a folder with the snapshots of the streams, and `manifest.json`, which makes it whole.

#[cfg(feature = "fuzzing")]
#[path = "../../tests/fuzz/doors/backup.rs"]
pub(crate) mod fuzzing;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use events::{Moment, ParseError, Text, cut_reason};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::report::{Progress, result};
use crate::log::{Log, LogError, LogState, Restoring, SnapshotHead, StreamName};

const MANIFEST: &str = "manifest.json";
/// The folder of a backup that is not whole yet.
pub(super) const DRAFT: &str = ".railbird-backup-";
/// Raised when older versions cannot restore what this one writes.
const FORMAT: u32 = 1;
/// What a server that syncs every write restores on any disk: it gives up when a part takes 5 seconds.
const SYNCED_MESSAGES_MAX: u64 = 500;
/// The secrets of addresses are in it: for the owner alone.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// The content of `manifest.json`, with the hash of its text.
#[derive(Serialize, Deserialize)]
struct SealedManifest {
    manifest: Box<RawValue>,
    sha256: String,
}

/// What a backup has.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    format: u32,
    /// The version of railbird that wrote it.
    railbird: Text,
    /// The version of nats-server, whose format the snapshots have.
    nats_server: Text,
    /// When the backup began. Everything that was acknowledged before is in it.
    pub(super) began_at: Moment,
    pub(super) streams: Vec<StreamFile>,
}

/// The snapshot of a stream.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StreamFile {
    name: Text,
    file: Text,
    file_bytes: u64,
    sha256: Text,
    #[serde(flatten)]
    pub(super) head: SnapshotHead,
}

/// A folder that becomes a backup once its manifest is written.
pub(super) struct Draft {
    folder: TempDir,
    target: PathBuf,
    manifest: Manifest,
}

/// A whole backup.
pub(super) struct Backup {
    folder: PathBuf,
    pub(super) manifest: Manifest,
}

impl Draft {
    /// Starts a backup, beside the folder that it becomes: that may exist if it is empty.
    pub(super) fn new(target: &Path, log: &Log) -> anyhow::Result<Self> {
        if let Ok(mut entries) = fs::read_dir(target)
            && entries.next().is_some()
        {
            let target = target.display();
            bail!("{target} is not empty: a backup needs a folder of its own");
        }
        let target = std::path::absolute(target)?;
        let parent = target.parent().context("a backup needs a folder")?;
        fs::create_dir_all(parent)
            .with_context(|| format!("{} cannot be created", parent.display()))?;
        let folder = tempfile::Builder::new()
            .prefix(DRAFT)
            .permissions(Permissions::from_mode(FOLDER_MODE))
            .tempdir_in(parent);
        let folder = folder.with_context(|| format!("{} cannot be written", parent.display()))?;
        let manifest = Manifest {
            format: FORMAT,
            railbird: Text::parse(env!("CARGO_PKG_VERSION"))?,
            nats_server: Text::parse(&log.server_version())?,
            began_at: Timestamp::now().into(),
            streams: Vec::new(),
        };
        Ok(Self {
            folder,
            target,
            manifest,
        })
    }

    /// Writes the snapshot of a stream.
    pub(super) async fn add(&mut self, log: &Log, stream: StreamName) -> anyhow::Result<()> {
        let mut snapshot = log.snapshot(stream).await?;
        let name = file_name(stream.name);
        let path = self.folder.path().join(&name);
        let unwritable = || format!("{} cannot be written", path.display());
        let mut file = create(&path).with_context(unwritable)?;
        // The file is compressed, so it ends before the bytes of the messages are reached.
        let mut progress = Progress::new(stream.name, snapshot.head.state.bytes);
        let mut hash = Sha256::new();
        let mut bytes = 0;
        while let Some(chunk) = snapshot.next().await? {
            file.write_all(&chunk).with_context(unwritable)?;
            hash.update(&chunk);
            bytes += chunk.len() as u64;
            progress.set(bytes);
        }
        file.sync_all().with_context(unwritable)?;
        drop(progress);
        let head = snapshot.head;
        result(format_args!(
            "{}: {} messages up to {}, {bytes} bytes in {name}",
            stream.name, head.state.messages, head.state.last_seq
        ));
        self.manifest.streams.push(StreamFile {
            name: Text::parse(stream.name)?,
            file: Text::parse(&name)?,
            file_bytes: bytes,
            sha256: Text::parse(&hex(hash))?,
            head,
        });
        Ok(())
    }

    /// Writes the manifest, and gives the folder its name. Returns the bytes of the streams.
    pub(super) fn finish(self) -> anyhow::Result<u64> {
        let path = self.folder.path();
        let manifest = RawValue::from_string(serde_json::to_string_pretty(&self.manifest)?)?;
        let sha256 = hex(Sha256::new_with_prefix(manifest.get()));
        let sealed = SealedManifest { manifest, sha256 };
        let mut file = create(&path.join(MANIFEST))?;
        file.write_all(&serde_json::to_vec_pretty(&sealed)?)?;
        file.sync_all()?;
        File::open(path)?.sync_all()?;
        // Fails where somebody has written to the folder meanwhile.
        let (renamed, target) = (fs::rename(path, &self.target), self.target.display());
        renamed.with_context(|| format!("the backup cannot be moved to {target}"))?;
        if let Some(parent) = self.target.parent() {
            File::open(parent)?.sync_all()?;
        }
        // The folder has another name, so nothing is removed.
        let _ = self.folder.keep();
        let streams = self.manifest.streams.iter();
        Ok(streams.map(|stream| stream.file_bytes).sum())
    }
}

impl Backup {
    /// Opens a backup, and checks that each byte of it is as it was written.
    pub(super) fn open(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(MANIFEST);
        let manifest = read_manifest(&path).with_context(|| format!("{}", path.display()))?;
        for stream in &manifest.streams {
            let path = folder.join(stream.file.as_str());
            let checked = stream.check(&path);
            checked.with_context(|| format!("{}", path.display()))?;
        }
        let folder = folder.to_owned();
        Ok(Self { folder, manifest })
    }

    /// The file of a stream, if the backup has one.
    pub(super) fn stream(&self, stream: StreamName) -> Option<&StreamFile> {
        let mut streams = self.manifest.streams.iter();
        streams.find(|file| file.name.as_str() == stream.name)
    }

    /// Restores a stream, and checks that it is the one that the backup was made of.
    pub(super) async fn restore(&self, log: &Log, stream: StreamName) -> anyhow::Result<()> {
        let Some(found) = self.stream(stream) else {
            return Ok(());
        };
        let servers = log.servers().await?;
        if found.head.state.messages > SYNCED_MESSAGES_MAX
            && servers.answering.values().any(|of| of.syncs_always)
        {
            bail!(
                "nats-server syncs each of {} messages to disk, and gives up what takes so long: start it with \
                 `sync_interval: 2m` for the restore, see \"Restore\" in docs/production.md",
                found.head.state.messages
            );
        }
        let file = File::open(self.folder.join(found.file.as_str()))?;
        let restoring = log.restore(stream, &found.head).await?;
        let mut progress = Progress::new(stream.name, found.file_bytes);
        let mut sent = 0;
        loop {
            let mut chunk = Vec::with_capacity(Restoring::CHUNK_BYTES);
            let part = Restoring::CHUNK_BYTES as u64;
            (&file).take(part).read_to_end(&mut chunk)?;
            if chunk.is_empty() {
                break;
            }
            sent += chunk.len() as u64;
            restoring.send(Bytes::from(chunk)).await?;
            progress.set(sent);
        }
        let state = restoring.finish().await?;
        drop(progress);
        let (name, restored, head) = (stream.name, shown(&state), &found.head);
        if !found.is_in(&state) {
            bail!(
                "the stream {name} was restored with {restored}, and the backup has {} up to {}, created at {}: delete \
                 the stream and restore another backup",
                head.state.messages,
                head.state.last_seq,
                head.created
            );
        }
        result(format_args!("{name}: restored, {restored}"));
        Ok(())
    }
}

/// The file of a stream.
fn file_name(stream: &str) -> String {
    format!("{stream}.snapshot")
}

impl StreamFile {
    /// Checks that the file is in the folder of the backup, and that a message can quote the names: anybody may have
    /// written the manifest.
    fn check_names(&self) -> Result<(), ParseError> {
        let Self {
            name, file, head, ..
        } = self;
        let in_name = |c: char| c.is_ascii_uppercase() || c == '_';
        if !name.as_str().chars().all(in_name) || file.as_str() != file_name(name.as_str()) {
            let form = "the file of a stream is STREAM.snapshot";
            return Err(ParseError::new(form, file));
        }
        Text::parse(&head.created).map(drop)
    }

    /// Whether a stream is the one that the backup was made of, with every message that it had.
    pub(super) fn is_in(&self, state: &LogState) -> bool {
        let head = &self.head;
        // Messages may have been appended after the head was taken, and where that is allowed, erased.
        let keeps_all = head.config.get("deny_delete") == Some(&true.into());
        let appended = state.last_seq.saturating_sub(head.state.last_seq);
        state.identity.created == head.created
            && state.last_seq >= head.state.last_seq
            && (!keeps_all || state.messages == head.state.messages + appended)
    }

    /// Checks that the file has the bytes that were written.
    fn check(&self, path: &Path) -> anyhow::Result<()> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        if bytes != self.file_bytes {
            bail!("the file ends at byte {bytes}, not at {}", self.file_bytes);
        }
        let mut hash = Sha256::new();
        io::copy(&mut file, &mut hash)?;
        let found = hex(hash);
        if found != self.sha256.as_str() {
            bail!(
                "the file is damaged: its SHA-256 is {found}, not {}",
                self.sha256
            );
        }
        Ok(())
    }
}

fn read_manifest(path: &Path) -> anyhow::Result<Manifest> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("there is no backup here, or it was not finished")
        }
        text => Manifest::parse(&text?),
    }
}

impl Manifest {
    fn parse(text: &[u8]) -> anyhow::Result<Self> {
        let invalid = |error: serde_json::Error| anyhow!(cut_reason(&error.to_string()));
        let sealed: SealedManifest = serde_json::from_slice(text)
            .map_err(invalid)
            .context("the manifest is damaged")?;
        // Pretty printing keeps the text of a raw value.
        if hex(Sha256::new_with_prefix(sealed.manifest.get())) != sealed.sha256 {
            bail!("the manifest is damaged: it has another SHA-256");
        }
        let manifest: Self = serde_json::from_str(sealed.manifest.get()).map_err(invalid)?;
        if manifest.format != FORMAT {
            let format = manifest.format;
            let version = manifest.railbird;
            bail!("the backup has format {format}; use railbird {version}, which wrote it");
        }
        for stream in &manifest.streams {
            stream.check_names()?;
        }
        Ok(manifest)
    }
}

/// What a stream has, in words.
fn shown(state: &LogState) -> String {
    let created = &state.identity.created;
    let (messages, last_seq) = (state.messages, state.last_seq);
    format!("{messages} messages up to {last_seq}, created at {created}")
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(FILE_MODE);
    options.open(path)
}

fn hex(hash: Sha256) -> String {
    format!("{:x}", hash.finalize())
}

/// The streams of a backup that are not on the server, in an order in which none needs one that is restored later.
pub(super) async fn missing(
    log: &Log,
    backup: &Backup,
    order: &[StreamName],
) -> anyhow::Result<Vec<StreamName>> {
    let needed = &backup.manifest.nats_server;
    if log.is_older_than(needed.as_str()) {
        let found = log.server_version();
        bail!(
            "the backup is of nats-server {needed}, and this one is {found}: use {needed} or later"
        );
    }
    let mut missing = Vec::new();
    let mut others = Vec::new();
    for stream in order {
        let Some(file) = backup.stream(*stream) else {
            continue;
        };
        let name = stream.name;
        match log.state(*stream).await {
            Err(LogError::NoStream(_)) => missing.push(*stream),
            Err(LogError::Restoring(_)) => {
                log.delete_restoring(*stream).await?;
                result(format_args!(
                    "{name}: what an interrupted restore has left is deleted"
                ));
                missing.push(*stream);
            }
            Ok(state) if file.is_in(&state) => result(format_args!(
                "{name}: the server has it, with {} messages up to {}; not restored",
                state.messages, state.last_seq
            )),
            Ok(state) => others.push(format!("{name} ({})", shown(&state))),
            Err(error) => return Err(error.into()),
        }
    }
    if !others.is_empty() {
        bail!(
            "nothing was restored, because the server has other streams of these names: {}. If nobody needs them, stop \
             the feeders and the services that run on an empty data folder, delete the streams with `nats stream rm \
             NAME` as the user admin, and run this again",
            others.join(", ")
        );
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};
    use sha2::{Digest, Sha256};

    use super::{Manifest, SealedManifest, hex};

    /// Parses a manifest with a stream that has another value in a field.
    fn parse(field: &str, value: Value) -> Result<Manifest, String> {
        let mut manifest = json!({
            "format": 1, "railbird": "0.1.0", "nats_server": "2.15.1", "began_at": "2026-11-21T00:00:00Z",
            "streams": [{
                "name": "RACING", "file": "RACING.snapshot", "file_bytes": 1, "sha256": "00", "config": {},
                "created": "2026-11-20T00:00:00Z", "first_seq": 1, "last_seq": 1, "messages": 1, "bytes": 1,
            }],
        });
        match manifest.get_mut(field) {
            Some(found) => *found = value,
            None => manifest["streams"][0][field] = value,
        }
        let manifest = RawValue::from_string(manifest.to_string()).expect("JSON");
        let sha256 = hex(Sha256::new_with_prefix(manifest.get()));
        let sealed = serde_json::to_vec(&SealedManifest { manifest, sha256 }).expect("JSON");
        Manifest::parse(&sealed).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_manifest_names_no_file_outside_its_folder_and_nothing_that_a_terminal_obeys() {
        assert!(parse("messages", json!(2)).is_ok());
        let long = "\u{1b}[31m".repeat(1000);
        for (field, value) in [
            ("file", json!("../RACING.snapshot")),
            ("file", json!("/etc/hostname")),
            ("file", json!(".")),
            ("name", json!("../RACING")),
            ("file", json!(long)),
            ("sha256", json!(long)),
            ("created", json!(long)),
            ("railbird", json!(long)),
            ("nats_server", json!(long)),
            ("began_at", json!(long)),
            ("format", json!(long)),
            ("config", json!(long)),
        ] {
            let error = parse(field, value).expect_err(field);
            assert!(error.chars().count() < 600, "{field}: {error}");
            assert!(!error.contains('\u{1b}'), "{field}: {error}");
        }
    }
}
