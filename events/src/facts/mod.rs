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
    DecodeError::Invalid {
        path: path.into(),
        reason: reason.into(),
    }
}

/// A struct with some fields, and the others empty.
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
    if metres > DISTANCE_METRES_MAX {
        let reason = format!("a distance is 0 to {DISTANCE_METRES_MAX} metres");
        return Err(invalid("data.distance", reason));
    }
    Ok(())
}

fn check_stakes(path: impl FnOnce() -> String, stakes: u64) -> Result<(), DecodeError> {
    if stakes > STAKES_MAX {
        return Err(invalid(path(), format!("stakes are 0 to {STAKES_MAX}")));
    }
    Ok(())
}

/// The oldest horse known became 62, long after it could race.
const AGE_YEARS_MAX: u8 = 60;

fn check_age(path: impl FnOnce() -> String, age: Option<u8>) -> Result<(), DecodeError> {
    if age.is_some_and(|age| age > AGE_YEARS_MAX) {
        let reason = format!("an age is 0 to {AGE_YEARS_MAX} years");
        return Err(invalid(path(), reason));
    }
    Ok(())
}

/// The largest number of runners in a combination. Pools ask for up to six.
const COMBINATION_NUMBERS_MAX: usize = 16;

fn check_combination(path: impl FnOnce() -> String, numbers: &[u16]) -> Result<(), DecodeError> {
    let count = numbers.len();
    if count > COMBINATION_NUMBERS_MAX {
        let reason = format!("{count} numbers, at most {COMBINATION_NUMBERS_MAX}");
        return Err(invalid(path(), reason));
    }
    Ok(())
}

/// Checks a list of runners: its length, and that no horse is in it twice.
pub(crate) fn check_runners<'a>(
    horses: impl ExactSizeIterator<Item = &'a HorseNo>,
) -> Result<(), DecodeError> {
    let count = horses.len();
    if count == 0 || count > RUNNERS_MAX {
        let reason = format!("{count} runners, a race has 1 to {RUNNERS_MAX}");
        return Err(invalid("data.runners", reason));
    }
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
