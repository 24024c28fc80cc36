//! What the system knows of this process. What it reports in `/proc` is `None` where it has no such file.

use std::fs;

use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};

/// The CPU time of all threads.
pub(super) fn cpu_seconds() -> f64 {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9
}

/// The second field of statm, in pages (proc(5)).
pub(super) fn resident_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}

/// Open file descriptors, without the one that lists them.
pub(super) fn open_files() -> Option<u64> {
    let files = fs::read_dir("/proc/self/fd").ok()?;
    Some(files.count().saturating_sub(1) as u64)
}
