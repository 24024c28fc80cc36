//! Runs a program under ptrace, to observe or change its system calls. Each thread of a static program is traced too.
//!
//! The tracer is a process of its own: this test binary, run with the name of an ignored test. A tracer receives the
//! signals and ends of what it traces, which other tests in this process wait for.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::support::*;

/// A command that runs a program under the ignored test `run`, whose arguments are added to it. If it is killed, so is
/// the program.
pub(super) fn command(run: &str, program: &Path) -> Command {
    let mut command = command_of(&std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", run, "--"]);
    command.arg(program);
    command
}

/// The program and its arguments, in the process of [`command`].
pub(super) fn program_of_this_process() -> Vec<OsString> {
    let args = std::env::args_os().skip_while(|arg| arg != "--");
    args.skip(1).collect()
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) use linux::{Tracer, trace};

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux {
    use std::ffi::OsString;
    use std::process::Command;

    use nix::libc::{self, user_regs_struct};
    use nix::sys::ptrace::{self, Options};
    use nix::sys::signal::{Signal, kill};
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    use nix::unistd::Pid;

    /// What is done with the system calls of a program.
    pub(in super::super) trait Tracer {
        /// A thread enters or leaves a system call. What fails for a thread that was killed is no error.
        fn at_call(&mut self, thread: Pid, registers: user_regs_struct);

        /// A program begins.
        fn at_exec(&mut self, _thread: Pid) {}
    }

    /// Runs a command, and all that it starts, to the end.
    #[expect(
        clippy::zombie_processes,
        reason = "the tracer waits for all that it traces"
    )]
    pub(in super::super) fn trace(command: &[OsString], tracer: &mut impl Tracer) {
        // It stops itself until it is traced.
        let mut shell = Command::new("sh");
        let stopped = ["-c", "kill -STOP $$; exec \"$0\" \"$@\""];
        let child = shell.args(stopped).args(command).spawn().unwrap();
        let child = Pid::from_raw(i32::try_from(child.id()).unwrap());
        waitpid(child, Some(WaitPidFlag::WUNTRACED)).unwrap();
        let options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_TRACEEXEC
            | Options::PTRACE_O_EXITKILL;
        ptrace::seize(child, options).unwrap();
        kill(child, Signal::SIGCONT).unwrap();
        // Only what this thread traces: other threads of the test binary have children, too.
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD)) {
            step(status, tracer);
            if let WaitStatus::Exited(pid, code) = status
                && pid == child
            {
                assert_eq!(code, 0);
            }
        }
    }

    fn step(status: WaitStatus, tracer: &mut impl Tracer) {
        let (thread, signal) = match status {
            WaitStatus::PtraceSyscall(thread) => {
                if let Ok(registers) = ptrace::getregs(thread) {
                    tracer.at_call(thread, registers);
                }
                (thread, None)
            }
            WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
            WaitStatus::PtraceEvent(thread, _, event) => {
                if event == libc::PTRACE_EVENT_EXEC {
                    tracer.at_exec(thread);
                }
                (thread, None)
            }
            _ => return,
        };
        // It fails if the thread was killed.
        let _ = ptrace::syscall(thread, signal.filter(|signal| *signal != Signal::SIGTRAP));
    }
}
