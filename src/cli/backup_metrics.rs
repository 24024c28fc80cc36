//! [`write_backup_metrics`]: a file in the text format of Prometheus about the last backup.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jiff::Timestamp;
use projections::free_bytes;

use crate::atomic_file;

const FAILED: &str = "railbird_backup_failed";
/// node_exporter runs as another user.
const FILE_MODE: u32 = 0o644;

/// Writes the file about a backup that began at a time, has these bytes, and is in the folder; without one, that it
/// failed, and what is known of the last one.
pub(super) fn write_backup_metrics(
    last: Option<(Timestamp, u64)>,
    folder: &Path,
    file: &Path,
) -> io::Result<()> {
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, value: u64| {
        text += &format!("# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}\n");
    };
    let help = "1 if the latest attempt to back up the log failed.";
    gauge(FAILED, help, u64::from(last.is_none()));
    if let Some((began_at, bytes)) = last {
        let began_at = began_at.as_second().cast_unsigned();
        let help = "When the last whole backup began, as a Unix time.";
        gauge("railbird_backup_timestamp_seconds", help, began_at);
        gauge("railbird_backup_bytes", "Its size.", bytes);
        if let Some(free) = free_bytes(folder) {
            let help = "Free space of its disk, after it was written.";
            gauge("railbird_backup_disk_free_bytes", help, free);
        }
    } else if let Ok(before) = fs::read_to_string(file) {
        let others = before.split_inclusive('\n');
        text.extend(others.filter(|line| !line.contains(FAILED)));
    }
    atomic_file::replace(file, text.as_bytes())?;
    fs::set_permissions(file, Permissions::from_mode(FILE_MODE))
}
