//! The rules: valid, tested, and explained.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::prometheus::{read, shipped};
use crate::support::*;

/// Runs promtool. Returns whether it succeeds, and its output. `None` where it is not installed.
fn promtool(args: &[&str], file: &Path) -> Option<(bool, String)> {
    let output = Command::new(program("promtool")?)
        .args(args)
        .arg(file)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8(text).unwrap()))
}

/// The names of all alerts.
pub(super) fn alerts() -> Vec<String> {
    values(&read(&shipped("prometheus/alerts.yml")), "- alert: ")
}

/// The rest of each line that begins with a text.
fn values(text: &str, start: &str) -> Vec<String> {
    let values = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix(start));
    values.map(str::to_owned).collect()
}

#[test]
fn the_configuration_and_the_rules_of_prometheus_are_valid() {
    let files = [
        (["check", "config"], "prometheus/prometheus.yml"),
        (["check", "rules"], "prometheus/alerts.yml"),
        (["test", "rules"], "prometheus/alerts.test.yml"),
    ];
    for (args, file) in files {
        if let Some((succeeds, text)) = promtool(&args, &shipped(file)) {
            assert!(succeeds, "{text}");
        }
    }
}

/// promtool compares all alerts that fire with those that a test expects.
#[test]
fn each_alert_has_unit_tests_in_which_it_fires_and_in_which_none_does() {
    let tests = read(&shipped("prometheus/alerts.test.yml"));
    let mut groups = tests.split("  - name: ").skip(1);
    for alert in alerts() {
        let group = groups.next().unwrap_or_default();
        assert_eq!(
            group.lines().next(),
            Some(&*alert),
            "the order of the rules"
        );
        for part in [
            &*format!("- alertname: {alert}\n"),
            "exp_labels: ",
            "exp_alerts: []",
        ] {
            assert!(group.contains(part), "{part} of {alert}");
        }
    }
    assert_eq!(groups.next(), None);
}

#[test]
fn each_alert_has_a_section_in_the_runbook() {
    let rules = read(&shipped("prometheus/alerts.yml"));
    let runbook = read(&shipped("../docs/production.md"));
    let sections: Vec<_> = values(&runbook, "### ")
        .into_iter()
        .filter(|title| title.starts_with("Railbird"))
        .collect();
    assert_eq!(
        sections.iter().collect::<BTreeSet<_>>(),
        alerts().iter().collect(),
        "sections and alerts"
    );
    let links = sections
        .iter()
        .map(|alert| format!("docs/production.md#{}", alert.to_lowercase()));
    let links: BTreeSet<_> = links.collect();
    assert_eq!(
        values(&rules, "runbook_url: ")
            .into_iter()
            .collect::<BTreeSet<_>>(),
        links
    );
}
