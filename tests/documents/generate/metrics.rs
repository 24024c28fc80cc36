//! Makes `docs/metrics.md`: each metric with its labels.

use super::{COUNTERS, CPU_SECONDS, GAUGES, LABELED_COUNTERS, PUBLISH_TO_SOCKET, http};
use crate::documents::{MADE, add_item, check};

#[test]
fn the_page_of_metrics_is_that_of_the_code() {
    let mut page = format!("# Metrics\n\n{MADE}\n\n");
    for (metric, help) in described() {
        add_item(&mut page, &format!("`{metric}`: {help}"));
    }
    check("docs/metrics.md", &page);
}

/// Every metric, with its labels and its help text.
fn described() -> Vec<(String, &'static str)> {
    let histograms = [&PUBLISH_TO_SOCKET, &http::REQUEST_DURATION].map(|histogram| {
        let labels = match histogram.label {
            "" => String::new(),
            label => format!("{{{label}}}"),
        };
        (format!("{}{labels}", histogram.name), histogram.help)
    });
    let counters = COUNTERS.into_iter().chain(LABELED_COUNTERS);
    let metrics = GAUGES.into_iter().chain(counters).chain([CPU_SECONDS]);
    let metrics = metrics.map(|(metric, help)| (metric.to_owned(), help));
    let mut described: Vec<_> = metrics.chain(histograms).collect();
    described.sort();
    described
}
