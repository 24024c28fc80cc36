//! [`Checks`]: the parts of a configuration, each with what it has or why it cannot be used.

use super::WrongConfiguration;

/// The parts of a configuration that were read.
#[derive(Debug, Default)]
pub(super) struct Checks(Vec<Check>);

#[derive(Debug)]
pub(super) struct Check {
    /// The name of the part.
    pub(super) part: &'static str,
    /// What it has, or why it cannot be used. Without secrets.
    pub(super) outcome: Result<String, String>,
}

impl Checks {
    /// Adds a part, with the text of what it has.
    pub(super) fn add<T, E: ToString>(
        &mut self,
        part: &'static str,
        read: Result<T, E>,
        text: impl FnOnce(&T) -> String,
    ) -> Option<T> {
        let outcome = read.as_ref().map(text).map_err(E::to_string);
        self.0.push(Check { part, outcome });
        read.ok()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Check> {
        self.0.iter()
    }

    /// All errors, as one.
    ///
    /// # Errors
    /// Returns [`WrongConfiguration`] if there is one.
    pub(super) fn result(&self) -> Result<(), WrongConfiguration> {
        let errors = self.iter().filter_map(|check| check.outcome.as_ref().err());
        let errors: Vec<&str> = errors.map(String::as_str).collect();
        match errors.as_slice() {
            [] => Ok(()),
            [error] => Err((*error).into()),
            errors => {
                let count = errors.len();
                let errors = errors.join("\n  ");
                Err(format!("{count} errors in the configuration:\n  {errors}").into())
            }
        }
    }
}
