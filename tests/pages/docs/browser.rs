//! The docs in a browser, and all samples as the pages show them.

use super::samples::{Sample, run_all};
use super::*;

#[tokio::test]
async fn the_docs_work_in_a_browser_and_every_sample_runs() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    let mut browser = BrowserScript::start("docs.mjs", dev.http, &[&dev.key]);
    let mut lines = Vec::new();
    while let Some(line) = browser.next().await {
        lines.push(line);
    }
    browser.finished().await;
    for step in ["searched", "ran", "requested", "finished"] {
        assert!(lines.iter().any(|line| line[step] == true), "{step}");
    }
    // The samples read the result of the first race.
    let path = "/api/v1/results/today/1";
    let key = [("x-api-key", dev.key.as_str())];
    eventually("today's first race has a result", || async {
        request(dev.http, "GET", path, &key).await.status == 200
    })
    .await;
    let samples: BTreeSet<Sample> = lines.iter().filter_map(Sample::of).collect();
    run_all(samples, &dev).await;
    dev.interrupt();
}
