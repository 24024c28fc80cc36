//! A folder with the backups of some days.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::backup::DRAFT;
use super::report::result;

/// The time for which every backup is kept: what is lost with the log is what came after the last one.
const ALL_KEPT: SignedDuration = SignedDuration::from_hours(48);
/// The time for which the last backup of each day is kept. A backup has the addresses of subscribers, also of those who
/// were forgotten since: docs/privacy.md.
const DAILY_KEPT: SignedDuration = SignedDuration::from_hours(14 * 24);
/// Of the names of the folders, which sort by time.
const NAME: &str = "%Y-%m-%dT%H%M%SZ";

/// The folder of a backup that begins now.
pub(super) fn named(root: &Path, now: Timestamp) -> PathBuf {
    root.join(now.strftime(NAME).to_string())
}

/// Removes the backups that are not kept any more, and what killed runs have left. Other folders stay.
pub(super) fn remove_old(root: &Path, now: Timestamp) -> anyhow::Result<()> {
    let unreadable = || format!("{} cannot be read", root.display());
    let mut backups = Vec::new();
    for entry in fs::read_dir(root).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(began_at) = time_of(&name) {
            backups.push(began_at);
        } else if name.starts_with(DRAFT)
            && now.duration_since(Timestamp::try_from(entry.metadata()?.modified()?)?) > ALL_KEPT
        {
            remove(&entry.path())?;
        }
    }
    let mut old = old(backups, now).into_iter();
    old.try_for_each(|began_at| remove(&named(root, began_at)))
}

/// When the backup in a folder of this name began.
fn time_of(name: &str) -> Option<Timestamp> {
    let parsed = DateTime::strptime(NAME, name).ok()?;
    let time = parsed.to_zoned(TimeZone::UTC).ok()?.timestamp();
    (time.strftime(NAME).to_string() == name).then_some(time)
}

/// The backups that are not kept.
fn old(mut backups: Vec<Timestamp>, now: Timestamp) -> Vec<Timestamp> {
    backups.sort_unstable_by(|a, b| b.cmp(a));
    let mut days = BTreeSet::new();
    backups.retain(|began_at| {
        let is_last_of_day = days.insert(began_at.to_zoned(TimeZone::UTC).date());
        let age = now.duration_since(*began_at);
        age > ALL_KEPT && !(is_last_of_day && age <= DAILY_KEPT)
    });
    backups
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    let shown = folder.display();
    fs::remove_dir_all(folder).with_context(|| format!("the old {shown} cannot be removed"))?;
    result(format_args!("{shown}: old, removed"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::{NAME, old, time_of};

    #[test]
    fn hourly_backups_are_kept_for_two_days_and_daily_ones_for_two_weeks() {
        let now: Timestamp = "2026-11-23T12:00:00Z".parse().expect("a time");
        let hour = SignedDuration::from_hours(1);
        let mut kept: Vec<Timestamp> = Vec::new();
        for n in 0..60 * 24 {
            let now = now + hour * n;
            kept.push(now);
            let removed = old(kept.clone(), now);
            kept.retain(|backup| !removed.contains(backup));
        }
        assert_eq!(kept.len(), 49 + 12, "{kept:?}");
        let last = now + hour * (60 * 24 - 1);
        let oldest = last.duration_since(kept[0]);
        assert!(oldest <= super::DAILY_KEPT && oldest > super::DAILY_KEPT - hour * 24);
        assert!(
            kept.windows(2)
                .all(|two| two[1].duration_since(two[0]) <= hour * 24)
        );
    }

    #[test]
    fn only_names_of_backups_have_a_time() {
        let time: Timestamp = "2026-11-23T09:05:01Z".parse().expect("a time");
        let name = time.strftime(NAME).to_string();
        assert_eq!((&*name, time_of(&name)), ("2026-11-23T090501Z", Some(time)));
        for other in [
            "",
            "2026-11-23",
            "2026-11-23T090501Z.keep",
            "2026-11-23T0905",
            "first",
        ] {
            assert_eq!(time_of(other), None, "{other}");
        }
    }
}
