//! The facts themselves, a file for each kind of subject.

pub(crate) mod horse;
pub(crate) mod odds;
pub(crate) mod race;
pub(crate) mod result;

use crate::{DecodeError, HorseNo, RUNNERS_MAX};

/// A rule that a single field's type cannot hold.
pub(crate) fn invalid(path: impl Into<String>, reason: impl Into<String>) -> DecodeError {
    DecodeError::Invalid {
        path: path.into(),
        reason: reason.into(),
    }
}

/// Holds a list of runners to what every list of runners keeps: bounded, and no horse twice.
pub(crate) fn check_runners<'a>(
    horses: impl ExactSizeIterator<Item = &'a HorseNo>,
) -> Result<(), DecodeError> {
    let count = horses.len();
    if count == 0 || count > RUNNERS_MAX {
        return Err(invalid(
            "data.runners",
            format!("{count} runners, a race has 1 to {RUNNERS_MAX}"),
        ));
    }
    let mut seen: [Option<&HorseNo>; RUNNERS_MAX] = [None; RUNNERS_MAX];
    for (index, horse_no) in horses.enumerate() {
        if seen[..index].contains(&Some(horse_no)) {
            return Err(invalid(
                format!("data.runners[{index}].horse_no"),
                format!("{horse_no} stands twice"),
            ));
        }
        seen[index] = Some(horse_no);
    }
    Ok(())
}
