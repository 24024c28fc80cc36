//! [`BackupMetrics`]: a file in the text format of Prometheus about the last backup.

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

/// The backup that was written last.
#[derive(Debug)]
pub(super) struct BackupMetrics {
    began_at: Timestamp,
    bytes: u64,
    disk_free_bytes: Option<u64>,
}

impl BackupMetrics {
    pub(super) fn new(began_at: Timestamp, bytes: u64, folder: &Path) -> Self {
        Self {
            began_at,
            bytes,
            disk_free_bytes: free_bytes(folder),
        }
    }

    /// Writes the file; without a backup, that it failed, and what is known of the last one.
    pub(super) fn write(last: Option<Self>, file: &Path) -> io::Result<()> {
        let mut text = String::new();
        let mut gauge = |name: &str, help: &str, value: u64| {
            text += &format!("# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}\n");
        };
        let help = "1 if the latest attempt to back up the log failed.";
        gauge(FAILED, help, u64::from(last.is_none()));
        if let Some(last) = last {
            let began_at = last.began_at.as_second().cast_unsigned();
            let help = "When the last whole backup began, as a Unix time.";
            gauge("railbird_backup_timestamp_seconds", help, began_at);
            gauge("railbird_backup_bytes", "Its size.", last.bytes);
            if let Some(free) = last.disk_free_bytes {
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
}
