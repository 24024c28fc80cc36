//! [`Example`]: a program of `examples/`, run as a reader of the docs runs it.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, timeout, timeout_at};

use super::PATIENCE;

pub(crate) struct Example {
    child: Child,
    output: UnboundedReceiver<String>,
    /// The lines of its output so far.
    pub(crate) lines: Vec<String>,
}

impl Example {
    /// Starts a client of the live channel.
    pub(crate) fn start(file: &str, url: &str, key: &str) -> Self {
        Self::run(
            file,
            &[],
            &[("RAILBIRD_URL", url), ("RAILBIRD_API_KEY", key)],
        )
    }

    /// Starts a driver of a client, in `tests/clients/`. It takes commands.
    pub(crate) fn drive(file: &str, url: &str, key: &str) -> Self {
        let variables = [("RAILBIRD_URL", url), ("RAILBIRD_API_KEY", key)];
        Self::run_in("tests/clients", file, &[], &variables)
    }

    /// Sends a command to a driver.
    pub(crate) fn command(&mut self, command: &Value) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{command}").unwrap();
    }

    /// Starts a file of `examples/`.
    pub(crate) fn run(file: &str, args: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::run_in("examples", file, args, variables)
    }

    fn run_in(folder: &str, file: &str, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = if file.ends_with(".py") {
            tool(
                "RAILBIRD_PYTHON",
                "python3",
                ["-c", "import websockets, nats"],
            )
        } else {
            tool(
                "RAILBIRD_NODE",
                "node",
                ["--eval", "WebSocket, require('@nats-io/jetstream')"],
            )
        };
        let (reader, writer) = std::io::pipe().unwrap();
        let child = Command::new(program)
            .arg(root.join(folder).join(file))
            .args(args)
            .env("PYTHONPATH", root.join("clients/python/src"))
            // As on a terminal, each line is there at once.
            .env("PYTHONUNBUFFERED", "1")
            .envs(variables.iter().copied())
            .envs([("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")])
            .stdin(Stdio::piped())
            .stdout(writer.try_clone().unwrap())
            .stderr(writer)
            .spawn()
            .unwrap();
        let (sender, output) = unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(reader).lines() {
                let _ = sender.send(line.unwrap());
            }
        });
        Self {
            child,
            output,
            lines: Vec::new(),
        }
    }

    /// Reads on to the next line that matches. Other lines give it no more time.
    pub(crate) async fn until(&mut self, what: &str, mut holds: impl FnMut(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let line = timeout_at(deadline, self.output.recv())
                .await
                .ok()
                .flatten();
            let line = line.unwrap_or_else(|| {
                panic!("timed out waiting for {what}:\n{}", self.lines.join("\n"))
            });
            self.lines.push(line);
            if holds(&self.lines[self.lines.len() - 1]) {
                return;
            }
        }
    }

    /// Reads on to the next message that matches, among those printed as JSON.
    pub(crate) async fn until_message(&mut self, event: &str, holds: impl Fn(&Value) -> bool) {
        self.until(event, |line| {
            message(line).is_some_and(|m| m["event"] == event && holds(&m))
        })
        .await;
    }

    /// The messages that were printed as JSON.
    pub(crate) fn messages(&self, event: &str) -> Vec<Value> {
        let all = self.lines.iter().filter_map(|line| message(line));
        all.filter(|m| m["event"] == event).collect()
    }

    /// Waits until the program has ended, and returns its exit code.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        while let Some(line) = timeout(PATIENCE, self.output.recv())
            .await
            .expect("its end")
        {
            self.lines.push(line);
        }
        self.child.wait().unwrap().code()
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn message(line: &str) -> Option<Value> {
    serde_json::from_str(line).ok().filter(Value::is_object)
}

/// The program that a variable names, else the one on PATH, after checking that it has the packages of the examples.
pub(crate) fn tool(variable: &str, otherwise: &str, check: [&str; 2]) -> String {
    let program = std::env::var(variable).unwrap_or_else(|_| otherwise.to_owned());
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let checked = Command::new(&program)
        .args(check)
        .current_dir(examples)
        .output();
    assert!(
        checked.is_ok_and(|output| output.status.success()),
        "{program} is missing or fails at `{}`; script/test finds or installs a suitable one",
        check[1]
    );
    program
}
