//! [`Prometheus`]: a real one, with the project's configuration.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::*;

/// A file of `ops`.
pub(super) fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("ops").join(path)
}

pub(super) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Replaces a text that is there once.
pub(super) fn replace_once(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "{from:?} in {text}");
    text.replace(from, to)
}

/// A Prometheus that scrapes every second, and reads its targets from files.
#[derive(Debug)]
pub(super) struct Prometheus {
    _process: Process,
    address: SocketAddr,
    folder: TempDir,
}

impl Prometheus {
    /// Starts one with these rules, and with a token for the admin addresses if there is one. `None` where no
    /// Prometheus is installed.
    pub(super) async fn start(rules: &str, token: Option<&str>) -> Option<Self> {
        let program = program("prometheus")?;
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("targets")).unwrap();
        write("alerts.yml", rules);
        write("token", token.unwrap_or_default());
        write("prometheus.yml", &config(token.is_some()));
        let mut command = Command::new(program);
        command
            .args([
                "--config.file",
                "prometheus.yml",
                "--storage.tsdb.path",
                "data",
            ])
            .args(["--web.listen-address", "127.0.0.1:0"])
            .current_dir(folder.path());
        let output = folder.path().join("output.log");
        let mut process = Process::start(command, output.clone());
        let mut address = None;
        let listens = || {
            let output = read(&output);
            let mut lines = output.split_inclusive('\n');
            address = lines.find_map(|line| {
                let (_, address) = line.split_once("msg=\"Listening on\" address=")?;
                address.strip_suffix('\n')?.parse().ok()
            });
            std::future::ready(address.is_some())
        };
        process.until("Prometheus listens", listens).await;
        let address = address.unwrap();
        Some(Self {
            _process: process,
            address,
            folder,
        })
    }

    /// Scrapes the admin addresses of the replicas of a log.
    pub(super) async fn watch(&self, job: &str, replicas: &[SocketAddr]) {
        let targets: Vec<_> = replicas.iter().map(ToString::to_string).collect();
        let targets = json!([{ "targets": targets, "labels": { "job": job } }]);
        let file = self.folder.path().join("targets").join(job);
        std::fs::write(&file, targets.to_string()).unwrap();
        std::fs::rename(&file, file.with_extension("json")).unwrap();
        let up = format!("up{{job={job:?}}} == 1");
        eventually(&format!("{job} is scraped"), || async {
            self.query(&up).await.len() == replicas.len()
        })
        .await;
    }

    /// Forgets the replicas of a log.
    pub(super) fn forget(&self, job: &str) {
        let file = self.folder.path().join("targets").join(job);
        std::fs::remove_file(file.with_extension("json")).unwrap();
    }

    /// The result of a query: a sample for each series.
    pub(super) async fn query(&self, query: &str) -> Vec<Value> {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("query", query)
            .finish();
        let answer = self.get(&format!("/api/v1/query?{query}")).await;
        answer["result"].as_array().unwrap().clone()
    }

    /// The alerts of a job that fire now.
    pub(super) async fn firing(&self, job: &str) -> BTreeSet<String> {
        let answer = self.get("/api/v1/alerts").await;
        let alerts = answer["alerts"].as_array().unwrap().iter();
        let firing =
            alerts.filter(|alert| alert["state"] == "firing" && alert["labels"]["job"] == job);
        firing.map(|alert| name(&alert["labels"])).collect()
    }

    /// The alerts of jobs, as a pattern, that have fired since the start.
    pub(super) async fn fired(&self, job: &str) -> BTreeSet<String> {
        let firing = format!("ALERTS{{alertstate=\"firing\",job=~{job:?}}}");
        let fired = self.query(&format!("last_over_time({firing}[1h])")).await;
        fired.iter().map(|sample| name(&sample["metric"])).collect()
    }

    /// The rules that it evaluates.
    pub(super) async fn rules(&self) -> Vec<Value> {
        let answer = self.get("/api/v1/rules").await;
        let groups = answer["groups"].as_array().unwrap().iter();
        groups
            .flat_map(|group| group["rules"].as_array().unwrap().clone())
            .collect()
    }

    async fn get(&self, path: &str) -> Value {
        let reply = request(self.address, "GET", path, &[]).await;
        let mut answer = reply.json();
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].take()
    }
}

fn name(labels: &Value) -> String {
    labels["alertname"].as_str().unwrap().to_owned()
}

/// The shipped configuration, with shorter intervals, and targets from files.
fn config(has_token: bool) -> String {
    let config = read(&shipped("prometheus/prometheus.yml")).replace(": 15s", ": 1s");
    let config = replace_once(
        &config,
        "static_configs:\n      - targets: [127.0.0.1:9091, 127.0.0.1:9092]",
        "file_sd_configs:\n      - files: [targets/*.json]",
    );
    if !has_token {
        return config;
    }
    let config = replace_once(&config, "# authorization:", "authorization:");
    let credentials = "#   credentials_file: /etc/prometheus/railbird-admin-token";
    replace_once(&config, credentials, "  credentials_file: token")
}
