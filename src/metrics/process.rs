//! The metrics of the process, with the names that Prometheus' own libraries give them.

use std::fs;
use std::path::Path;

use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// What the system knows of this process; `None` where it has no such file.
#[derive(Debug)]
pub(super) struct ProcessUsage {
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes: Option<u64>,
    pub(super) open_files: Option<u64>,
    /// The soft limit; `None` without one.
    pub(super) open_files_max: Option<u64>,
}

impl ProcessUsage {
    /// Takes a millisecond for some thousand open files: they have to be listed.
    pub(super) fn measure() -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let files = fs::read_dir("/proc/self/fd").ok();
        Self {
            cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            resident_bytes: resident_bytes(Path::new("/proc/self/statm")),
            // Without the one that lists them.
            open_files: files.map(|files| files.count().saturating_sub(1) as u64),
            open_files_max: getrlimit(Resource::Nofile).current,
        }
    }
}

/// The second field, in pages (proc(5)).
fn resident_bytes(statm: &Path) -> Option<u64> {
    let statm = fs::read_to_string(statm).ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}
