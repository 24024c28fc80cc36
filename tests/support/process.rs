//! [`Process`]: a program that runs beside a test, whose output explains why a wait for it was in vain.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::holds_in_time;

/// It is ended with SIGTERM when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    output: PathBuf,
}

impl Process {
    /// Starts a command with its output in a file.
    pub(crate) fn start(mut command: Command, output: PathBuf) -> Self {
        let file = File::create(&output).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap());
        let spawned = command.stderr(file).spawn();
        let child = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, output }
    }

    /// What it has written so far to standard output and standard error.
    pub(crate) fn output(&self) -> String {
        fs::read_to_string(&self.output).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until a condition holds. Panics with the program's output if it never does, or if the program ends before.
    pub(crate) async fn until<F: Future<Output = bool>>(
        &mut self,
        what: &str,
        holds: impl FnMut() -> F,
    ) {
        let has_ended = || self.child.try_wait().unwrap().is_some();
        let held = holds_in_time(holds, has_ended).await;
        assert!(held, "{}", self.in_vain(what));
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let has_ended = || std::future::ready(self.child.try_wait().unwrap().is_some());
        let held = holds_in_time(has_ended, || false).await;
        assert!(held, "{}", self.in_vain("it has ended"));
        self.child.wait().unwrap()
    }

    fn in_vain(&mut self, what: &str) -> String {
        let state = match self.child.try_wait().unwrap() {
            Some(status) => status.to_string(),
            None => "it still runs".to_owned(),
        };
        format!(
            "waited in vain until {what} ({state}). The output:\n{}",
            self.output()
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            // Not SIGKILL, which would leave the workers of nginx.
            self.signal(Signal::TERM);
            let _ = self.child.wait();
        }
    }
}
