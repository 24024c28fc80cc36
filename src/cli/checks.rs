//! [`Checks`]: the parts of a configuration, each with what it has or why it cannot be used.

use super::WrongConfiguration;

/// The parts of a configuration that were read: the name of each, and what it has, or why it cannot be used. Without
/// secrets.
#[derive(Debug, Default)]
pub(super) struct Checks(pub(super) Vec<(&'static str, Result<String, String>)>);

impl Checks {
    /// Adds a part, with the text of what it has.
    pub(super) fn add<T, E: ToString>(
        &mut self,
        part: &'static str,
        read: Result<T, E>,
        text: impl FnOnce(&T) -> String,
    ) -> Option<T> {
        let outcome = read.as_ref().map(text).map_err(E::to_string);
        self.0.push((part, outcome));
        read.ok()
    }

    /// All errors, as one.
    ///
    /// # Errors
    /// Returns [`WrongConfiguration`] if there is one.
    pub(super) fn result(&self) -> Result<(), WrongConfiguration> {
        let outcomes = self.0.iter().map(|(_, outcome)| outcome.as_deref());
        let errors = outcomes.filter_map(Result::err);
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
