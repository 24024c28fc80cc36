//! What each source sends, and where races are due: for alerts about a feeder that is silent, or sends invalid events.

use std::collections::{BTreeMap, BTreeSet};

use events::VenueCode;
use metrics::{counter, gauge};
use parking_lot::Mutex;
use projections::SourceActivity;

/// Values of a label, which feeders choose. Further ones share [`OTHER`].
const LABEL_VALUES_MAX: usize = 64;
const OTHER: &str = "(other)";
/// The source of messages that name none.
const NONE: &str = "(none)";

static SOURCES: LabelValues = LabelValues(Mutex::new(BTreeSet::new()));
static VENUES: LabelValues = LabelValues(Mutex::new(BTreeSet::new()));

/// The values that a label has had.
struct LabelValues(Mutex<BTreeSet<String>>);

impl LabelValues {
    /// The value to use for this one.
    fn bounded(&self, value: &str) -> String {
        let mut values = self.0.lock();
        let is_room = values.contains(value) || values.len() < LABEL_VALUES_MAX;
        let value = if is_room { value } else { OTHER };
        values.insert(value.to_owned());
        value.to_owned()
    }
}

/// Notes what sources have sent.
pub(crate) fn sources(activity: &SourceActivity) {
    for ((source, venue), at) in &activity.quoted_at {
        let labels = [
            ("source", SOURCES.bounded(source)),
            ("venue", VENUES.bounded(venue.as_str())),
        ];
        let at = at.timestamp().as_millisecond() as f64 / 1e3;
        gauge!("railbird_source_quoted_timestamp_seconds", &labels).set(at);
    }
    for (source, count) in &activity.rejected {
        let source = if source.is_empty() { NONE } else { source };
        let source = SOURCES.bounded(source);
        counter!("railbird_source_rejections_total", "source" => source).increment(*count);
    }
}

/// Sets which sources are alive.
pub(crate) fn sources_alive<'a>(states: impl Iterator<Item = (&'a str, bool)>) {
    for (source, is_alive) in states {
        let source = SOURCES.bounded(source);
        gauge!("railbird_source_alive", "source" => source).set(u8::from(is_alive));
    }
}

/// Sets the races that are due by venue; 0 for other venues that had odds.
pub(crate) fn races_due(due: BTreeMap<VenueCode, u64>) {
    let mut by_venue: BTreeMap<String, u64> = BTreeMap::new();
    for (venue, races) in due {
        *by_venue.entry(VENUES.bounded(venue.as_str())).or_default() += races;
    }
    let known = VENUES.0.lock().clone();
    for venue in known {
        let races = by_venue.remove(&venue).unwrap_or(0);
        gauge!("railbird_races_due", "venue" => venue).set(races as f64);
    }
}
