//! The facts, in a file for each kind of subject.

pub(crate) mod dividends;
pub(crate) mod horse;
pub(crate) mod odds;
pub(crate) mod pools;
pub(crate) mod race;
pub(crate) mod result;
pub(crate) mod sources;

use crate::{DecodeError, HorseNo, RUNNERS_MAX};

/// The error of a field that breaks a rule beyond its type.
pub(crate) fn invalid(path: impl Into<String>, reason: impl Into<String>) -> DecodeError {
    DecodeError::Invalid(path.into(), reason.into())
}

/// A struct with some fields, and the others empty.
/// Returns [`DecodeError::Invalid`] unless the data at the path are as they have to be.
fn require<P: Into<String>, R: Into<String>>(
    is_valid: bool,
    path: impl FnOnce() -> P,
    reason: impl FnOnce() -> R,
) -> Result<(), DecodeError> {
    let error = || invalid(path(), reason());
    is_valid.then_some(()).ok_or_else(error)
}

macro_rules! empty_but {
    ($($known:ident: $value:expr),+; $($empty:ident)+) => {
        Self { $($known: $value,)+ $($empty: Default::default(),)+ }
    };
}

/// Implements `merge_names`, which completes the names of a statement with those of an earlier one: of fields, each
/// merged in its way, and of the same runners.
macro_rules! merge_names {
    ($type:ty: $($name:ident + $names:ident: $merge:ident),* $(; $runners:ident)?) => {
        impl $type {
            /// Completes the names with those of an earlier statement.
            pub fn merge_names(&mut self, earlier: Option<&Self>) {
                let Some(earlier) = earlier else { return };
                $(Names::$merge(&mut self.$name, &mut self.$names, (&earlier.$name, &earlier.$names));)*
                $(for runner in &mut self.$runners {
                    let mut others = earlier.$runners.iter();
                    let other = others.find(|other| other.horse_no == runner.horse_no);
                    runner.merge_names(other);
                })?
            }
        }
    };
}
pub(crate) use {empty_but, merge_names};

/// The largest stakes of one statement. The sum of a million of them fits in a `u64`.
const STAKES_MAX: u64 = 1_000_000_000_000;

/// The longest distance of a race. The longest race of the world, the Mongol Derby, is 1,000 km, but over days.
const DISTANCE_METRES_MAX: u32 = 100_000;

fn check_distance(metres: u32) -> Result<(), DecodeError> {
    let reason = || format!("a distance is 0 to {DISTANCE_METRES_MAX} metres");
    require(metres <= DISTANCE_METRES_MAX, || "data.distance", reason)
}

fn check_stakes(path: impl FnOnce() -> String, stakes: u64) -> Result<(), DecodeError> {
    let reason = || format!("stakes are 0 to {STAKES_MAX}");
    require(stakes <= STAKES_MAX, path, reason)
}

/// The oldest horse known became 62, long after it could race.
const AGE_YEARS_MAX: u8 = 60;

fn check_age(path: impl FnOnce() -> String, age: Option<u8>) -> Result<(), DecodeError> {
    let reason = || format!("an age is 0 to {AGE_YEARS_MAX} years");
    require(age.is_none_or(|age| age <= AGE_YEARS_MAX), path, reason)
}

/// The largest number of runners in a combination. Pools ask for up to six.
const COMBINATION_NUMBERS_MAX: usize = 16;

fn check_combination(path: impl FnOnce() -> String, numbers: &[u16]) -> Result<(), DecodeError> {
    let count = numbers.len();
    let reason = || format!("{count} numbers, at most {COMBINATION_NUMBERS_MAX}");
    require(count <= COMBINATION_NUMBERS_MAX, path, reason)
}

/// Checks a list of runners: its length, and that no horse is in it twice.
pub(crate) fn check_runners<'a>(
    horses: impl ExactSizeIterator<Item = &'a HorseNo>,
) -> Result<(), DecodeError> {
    let count = horses.len();
    let reason = || format!("{count} runners, a race has 1 to {RUNNERS_MAX}");
    let is_valid = (1..=RUNNERS_MAX).contains(&count);
    require(is_valid, || "data.runners", reason)?;
    let mut seen: [Option<&HorseNo>; RUNNERS_MAX] = [None; RUNNERS_MAX];
    for (index, horse_no) in horses.enumerate() {
        if seen[..index].contains(&Some(horse_no)) {
            let path = format!("data.runners[{index}].horse_no");
            return Err(invalid(path, format!("{horse_no} is listed twice")));
        }
        seen[index] = Some(horse_no);
    }
    Ok(())
}
