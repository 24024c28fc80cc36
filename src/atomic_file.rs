//! [`replace`]: files that are either the old or the new ones, whenever the machine stops. JSON has a checksum.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::{DeserializeOwned, Error};
use serde_json::{Map, Value};

/// The field with the CRC-32 of the others.
const CHECKSUM: &str = "crc32";

/// Writes a JSON object with its checksum in place of a file. See [`replace`].
pub(crate) fn replace_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let mut object: Map<_, _> = serde_json::from_value(serde_json::to_value(value)?)?;
    object.insert(CHECKSUM.to_owned(), checksum(&object)?);
    replace(path, &serde_json::to_vec_pretty(&object)?)
}

/// Reads what [`replace_json`] has written; `None` if there is no file.
///
/// # Errors
/// Returns an error of the kind [`InvalidData`](io::ErrorKind::InvalidData) if that is not what the file has.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let parsed = serde_json::from_slice::<Map<_, _>>(&bytes).and_then(|mut object| {
        // Earlier versions wrote none. The type has no such field, so that a damaged name of it is damage.
        let found = object.remove(CHECKSUM);
        if found.is_some() && found != Some(checksum(&object)?) {
            return Err(serde_json::Error::custom("the checksum is wrong"));
        }
        serde_json::from_value(Value::Object(object))
    });
    let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    parsed.map(Some).map_err(damaged)
}

fn checksum(object: &Map<String, Value>) -> serde_json::Result<Value> {
    Ok(crc32fast::hash(&serde_json::to_vec(object)?).into())
}

/// Writes a file, which this user alone can read, in place of the one of that name.
///
/// # Errors
/// Returns an error if the file cannot be written. The old one is then in force.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(draft_of(path))?;
    file.write_all(bytes)?;
    put_in_place(&file, path)
}

/// The path under which a file is written before it is [put in place](put_in_place).
pub(crate) fn draft_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.new"))
}

/// Puts a file that was written as the [draft](draft_of) of a path there, in place of the one of that name.
///
/// # Errors
/// Returns an error if the file cannot be written. The old one is then in force.
pub(crate) fn put_in_place(file: &File, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    fs::rename(draft_of(path), path)?;
    // The new file is in force. Until its name is on disk, a crash brings the old one back.
    let folder = path.parent().unwrap_or(path);
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::warn!(path = %folder.display(), %error, "cannot sync a folder");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::{read_json, replace_json};

    #[test]
    fn no_flipped_bit_and_no_truncation_of_a_file_is_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let value = BTreeMap::from([("RACING", vec![7, 300]), ("ACCOUNTS", vec![])]);
        let value: BTreeMap<_, _> = value.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        assert_eq!(read_json(&path).expect("none"), None::<()>);
        replace_json(&path, &value).expect("a folder");
        let whole = fs::read(&path).expect("the file");
        let read = || read_json::<BTreeMap<String, Vec<u64>>>(&path);
        assert_eq!(read().expect("a whole file").as_ref(), Some(&value));
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).expect("a folder");
            let believed = read().ok().flatten();
            assert!(believed.is_none(), "bit {bit}: {believed:?}");
        }
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).expect("a folder");
            assert!(read().is_err(), "the first {length} bytes");
        }
    }
}
