//! [`DurationHistogram`]: how often something took how long.
//!
//! The recorder's own histogram keeps every observation until the next scrape, so its memory would have no bound. This
//! one has a counter for each bucket, and an observation costs two additions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// All histograms of the process, in the order in which they were made.
static ALL: Mutex<Vec<Arc<DurationHistogram>>> = Mutex::new(Vec::new());

/// What a histogram is about, and its buckets.
#[derive(Debug)]
pub(super) struct HistogramSettings {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    /// The label that separates histograms of this name; empty if there is one.
    pub(super) label: &'static str,
    /// The upper bounds of the buckets in seconds, ascending.
    pub(super) buckets: &'static [f64],
}

/// Durations, counted by bucket.
#[derive(Debug)]
pub(crate) struct DurationHistogram {
    settings: &'static HistogramSettings,
    /// The value of the label.
    value: &'static str,
    /// One for each bucket, and one for what is longer.
    counts: Box<[AtomicU64]>,
    nanoseconds: AtomicU64,
}

impl DurationHistogram {
    /// The histogram for a value of the label. It exists once in a process.
    pub(super) fn get(settings: &'static HistogramSettings, value: &'static str) -> Arc<Self> {
        let mut all = ALL.lock();
        let is_this =
            |known: &&Arc<Self>| (known.settings.name, known.value) == (settings.name, value);
        if let Some(known) = all.iter().find(is_this) {
            return Arc::clone(known);
        }
        let counts = (0..=settings.buckets.len()).map(|_| AtomicU64::new(0));
        let new = Arc::new(Self {
            settings,
            value,
            counts: counts.collect(),
            nanoseconds: AtomicU64::new(0),
        });
        all.push(Arc::clone(&new));
        new
    }

    pub(crate) fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = (self.settings.buckets).partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Writes the lines of this histogram: in each bucket count those of the smaller ones, too.
    fn render(&self, text: &mut String) {
        let name = self.settings.name;
        let (own, labels) = match self.settings.label {
            "" => (String::new(), String::new()),
            label => {
                let own = format!("{label}=\"{}\"", self.value);
                (format!("{own},"), format!("{{{own}}}"))
            }
        };
        let bounds = self.settings.buckets.iter().map(f64::to_string);
        let mut sum = 0;
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(&self.counts) {
            sum += count.load(Ordering::Relaxed);
            *text += &format!("{name}_bucket{{{own}le=\"{bound}\"}} {sum}\n");
        }
        let seconds = self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
        *text += &format!("{name}_sum{labels} {seconds}\n{name}_count{labels} {sum}\n");
    }
}

/// Writes all histograms in the Prometheus text format.
pub(super) fn render(text: &mut String) {
    let mut all = ALL.lock().clone();
    all.sort_by_key(|histogram| histogram.settings.name);
    for same in all.chunk_by(|a, b| a.settings.name == b.settings.name) {
        let HistogramSettings { name, help, .. } = same[0].settings;
        *text += &format!("# HELP {name} {help}\n# TYPE {name} histogram\n");
        for histogram in same {
            histogram.render(text);
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{DurationHistogram, HistogramSettings};

    static SETTINGS: HistogramSettings = HistogramSettings {
        name: "test_seconds",
        help: "A test.",
        label: "route",
        buckets: &[0.001, 0.5, 1.0],
    };

    #[test]
    fn a_duration_is_counted_in_each_bucket_that_it_fits() {
        let histogram = DurationHistogram::get(&SETTINGS, "/");
        for micros in [0, 1_000, 1_001, 500_000, 1_000_000, 70_000_000] {
            histogram.observe(Duration::from_micros(micros));
        }
        let mut text = String::new();
        histogram.render(&mut text);
        let expected = "\
            test_seconds_bucket{route=\"/\",le=\"0.001\"} 2\n\
            test_seconds_bucket{route=\"/\",le=\"0.5\"} 4\n\
            test_seconds_bucket{route=\"/\",le=\"1\"} 5\n\
            test_seconds_bucket{route=\"/\",le=\"+Inf\"} 6\n\
            test_seconds_sum{route=\"/\"} 71.502001\n\
            test_seconds_count{route=\"/\"} 6\n";
        assert_eq!(text, expected);
        let again = DurationHistogram::get(&SETTINGS, "/");
        assert!(std::sync::Arc::ptr_eq(&histogram, &again), "it exists once");
    }
}
