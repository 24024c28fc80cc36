//! [`BrowserScript`]: a script of `tests/browser/`, which drives a real browser.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::{PATIENCE, tool};

/// It is ended when it is dropped.
pub(crate) struct BrowserScript {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl BrowserScript {
    /// Starts a script for the pages of a service.
    pub(crate) fn start(file: &str, service: SocketAddr, arguments: &[&str]) -> Self {
        let check = ["--no-sandbox", "--version"];
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
        let mut child = Command::new(tool("RAILBIRD_NODE", "node", ["--eval", "WebSocket"]))
            .arg(folder.join(file))
            .arg(format!("http://{service}"))
            .args(arguments)
            .env(
                "RAILBIRD_BROWSER",
                tool("RAILBIRD_BROWSER", "chromium", check),
            )
            .env("RAILBIRD_PATIENCE_MS", PATIENCE.as_millis().to_string())
            .envs([("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    pub(crate) async fn send(&mut self, line: &str) {
        let line = format!("{line}\n");
        self.input.write_all(line.as_bytes()).await.unwrap();
    }

    /// The next line of its output, which is JSON; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = timeout(2 * PATIENCE, self.output.next_line()).await;
        let line = line.expect("a line in time").unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// The next line of a script that has not ended.
    pub(crate) async fn done(&mut self) -> Value {
        let line = self.next().await;
        line.expect("a line; the error is on standard error")
    }

    pub(crate) async fn finished(&mut self) {
        let finished = timeout(PATIENCE, self.child.wait()).await;
        assert!(finished.expect("in time").unwrap().success());
    }
}
