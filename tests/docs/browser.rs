//! The docs in a browser, and all samples as the pages show them.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::samples::{Sample, run_all};
use super::*;

/// All pages and steps take far less, also on a slow machine.
const BROWSER_PATIENCE: Duration = Duration::from_secs(300);

#[tokio::test]
async fn the_docs_work_in_a_browser_and_every_sample_runs() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let node = tool("RAILBIRD_NODE", "node", ["--eval", "WebSocket"]);
    let browser = tool(
        "RAILBIRD_BROWSER",
        "chromium",
        ["--no-sandbox", "--version"],
    );
    let output = Command::new(node)
        .arg(root().join("tests/browser/docs.mjs"))
        .args([&format!("http://{}", dev.http), &dev.key])
        .env("RAILBIRD_BROWSER", browser)
        .envs([("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output();
    let output = timeout(BROWSER_PATIENCE, output)
        .await
        .expect("in time")
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let output = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = output.lines().map(json).collect();
    for step in ["searched", "requested", "finished"] {
        assert!(lines.iter().any(|line| line[step] == true), "{step}");
    }
    let samples: BTreeSet<Sample> = lines.iter().filter_map(Sample::of).collect();
    run_all(samples, &dev).await;
    dev.interrupt();
}
