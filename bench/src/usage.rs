//! CPU time and memory of processes, from `/proc`.

use std::fs;

use anyhow::Context;

/// User and system time of a process.
pub(crate) fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    cpu_seconds_of(&fs::read_to_string(format!("/proc/{pid}/stat"))?)
}

/// User and system time of the threads whose names begin with `name`.
pub(crate) fn thread_cpu_seconds(pid: u32, name: &str) -> anyhow::Result<f64> {
    let mut seconds = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.path();
        if fs::read_to_string(thread.join("comm"))?.starts_with(name) {
            seconds += cpu_seconds_of(&fs::read_to_string(thread.join("stat"))?)?;
        }
    }
    Ok(seconds)
}

fn cpu_seconds_of(stat: &str) -> anyhow::Result<f64> {
    let (_, fields) = stat.rsplit_once(')').context("a stat has a name")?;
    let ticks = |index| {
        let field = fields.split_ascii_whitespace().nth(index);
        field
            .context("a stat has times")?
            .parse::<f64>()
            .context("a time is a number")
    };
    Ok((ticks(11)? + ticks(12)?) / rustix::param::clock_ticks_per_second() as f64)
}

/// CPU time of all processes of the machine, this one and the servers included.
pub(crate) fn machine_cpu_seconds() -> anyhow::Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let fields = stat.lines().next().context("a machine has CPUs")?;
    // user nice system idle iowait irq softirq steal; the guests behind them are in user.
    let ticks: Vec<f64> = fields
        .split_ascii_whitespace()
        .skip(1)
        .take(8)
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let idle: f64 = ticks.iter().skip(3).take(2).sum();
    let busy = ticks.iter().sum::<f64>() - idle;
    Ok(busy / rustix::param::clock_ticks_per_second() as f64)
}

/// Resident memory.
pub(crate) fn resident_kib(pid: u32) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next());
    Ok(kib.context("a status has VmRSS")?.parse()?)
}
