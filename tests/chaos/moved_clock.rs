//! [`MovedClock`]: the clock of a program, which a test moves. It works for static programs too: a tracer changes what
//! the system calls return.

use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;

use super::tracer;

/// The variable with the file that has the seconds by which the clock is moved.
const FILE: &str = "MOVED_CLOCK";

/// The clocks of some programs that move together.
#[derive(Debug)]
pub(super) struct MovedClock {
    folder: TempDir,
}

impl MovedClock {
    /// A clock that is right.
    pub(super) fn new() -> Self {
        let clock = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        clock.move_by(0);
        clock
    }

    /// Moves it from what is right.
    pub(super) fn move_by(&self, seconds: i64) {
        let draft = self.folder.path().join("draft");
        std::fs::write(&draft, seconds.to_string()).unwrap();
        std::fs::rename(draft, self.file()).unwrap();
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::now() + SignedDuration::from_secs(moved_by(&self.file()))
    }

    /// A command that runs a program by this clock; arguments are added to it. If it is killed, so is the program.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = tracer::command("chaos::moved_clock::run", program);
        command.env(FILE, self.file());
        command
    }

    /// Whether this system lets a process trace another one. Prints a note if not.
    pub(super) fn is_permitted() -> bool {
        let clock = Self::new();
        clock.move_by(-1_000_000_000);
        let mut date = clock.command(Path::new("date"));
        let output = date.arg("+%Y").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let year = (clock.now().to_string())[..4].to_owned();
        let permitted = text.lines().any(|line| line == year);
        if !permitted {
            eprintln!("SKIPPED: no process can trace another one by ptrace: {text}");
        }
        permitted
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("seconds")
    }
}

fn moved_by(file: &Path) -> i64 {
    // The test may have ended.
    let seconds = std::fs::read_to_string(file).unwrap_or_default();
    seconds.parse().unwrap_or_default()
}

/// The tracer, for [`MovedClock::command`].
#[test]
#[ignore = "a process that other tests start"]
fn run() {
    let Some(file) = std::env::var_os(FILE) else {
        return;
    };
    clock_calls::run(&tracer::program_of_this_process(), PathBuf::from(file));
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod clock_calls {
    pub(super) fn run(_: &[std::ffi::OsString], _: std::path::PathBuf) {
        panic!("the tracer knows the system calls of Linux on x86-64 only");
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod clock_calls {
    use std::ffi::{OsString, c_long};
    use std::path::PathBuf;

    use nix::libc::{self, user_regs_struct};
    use nix::sys::ptrace::{self, AddressType};
    use nix::unistd::Pid;

    use super::tracer;

    /// Of the auxiliary vector, the address of the vDSO, in which programs read the clock without a system call.
    const AT_SYSINFO_EHDR: c_long = 33;
    const AT_IGNORE: c_long = 1;
    const AT_NULL: c_long = 0;
    const WORD: u64 = 8;

    /// Runs a command to its end.
    pub(super) fn run(command: &[OsString], file: PathBuf) {
        tracer::trace(command, &mut ClockTracer { file });
    }

    struct ClockTracer {
        file: PathBuf,
    }

    impl tracer::Tracer for ClockTracer {
        fn at_call(&mut self, thread: Pid, registers: user_regs_struct) {
            // It fails if the thread was killed.
            let _ = self.move_time(thread, &registers);
        }

        fn at_exec(&mut self, thread: Pid) {
            hide_vdso(thread).unwrap();
        }
    }

    impl ClockTracer {
        /// Moves the time, if the thread returns from a system call for that. No other call reads the file: it would
        /// take most of the time of a program.
        fn move_time(&self, thread: Pid, registers: &user_regs_struct) -> nix::Result<()> {
            let Some(at) = time_of(registers) else {
                return Ok(());
            };
            let right = ptrace::read(thread, address(at))?;
            ptrace::write(thread, address(at), right + super::moved_by(&self.file))
        }
    }

    /// Where a system call has written the seconds of the time. The result of one that begins is an error.
    fn time_of(registers: &user_regs_struct) -> Option<u64> {
        if registers.rax != 0 {
            return None;
        }
        match c_long::from_ne_bytes(registers.orig_rax.to_ne_bytes()) {
            libc::SYS_clock_gettime if is_real_time(registers.rdi) => Some(registers.rsi),
            libc::SYS_gettimeofday => Some(registers.rdi),
            _ => None,
        }
    }

    fn is_real_time(clock: u64) -> bool {
        [libc::CLOCK_REALTIME, libc::CLOCK_REALTIME_COARSE]
            .map(|id| id as u64)
            .contains(&clock)
    }

    fn address(at: u64) -> AddressType {
        at as AddressType
    }

    /// On the stack of a program that begins: the number of its arguments, these and a zero, the environment and a
    /// zero, and the auxiliary vector.
    fn hide_vdso(thread: Pid) -> nix::Result<()> {
        let read = |at| ptrace::read(thread, address(at));
        let mut at = ptrace::getregs(thread)?.rsp;
        at += WORD * (u64::try_from(read(at)?).unwrap() + 2);
        while read(at)? != 0 {
            at += WORD;
        }
        at += WORD;
        loop {
            match read(at)? {
                AT_NULL => return Ok(()),
                AT_SYSINFO_EHDR => ptrace::write(thread, address(at), AT_IGNORE)?,
                _ => {}
            }
            at += 2 * WORD;
        }
    }
}
