//! [`read_secret`]: the secrets that come from the environment, or from files.

use std::env;

use super::WrongConfiguration;

pub(super) const NATS_VARIABLE: &str = "RAILBIRD_NATS";
pub(super) const SMTP_VARIABLE: &str = "RAILBIRD_SMTP_URL";
pub(super) const TOKEN_VARIABLE: &str = "RAILBIRD_ADMIN_TOKEN";
pub(super) const SNAPSHOT_VARIABLE: &str = "RAILBIRD_SNAPSHOT_SECRET";
pub(super) const KEY_VARIABLE: &str = "RAILBIRD_API_KEY";
/// The variables of secrets. The file of each is in `<variable>_FILE`.
pub(super) const SECRETS: [&str; 5] = [
    NATS_VARIABLE,
    SMTP_VARIABLE,
    TOKEN_VARIABLE,
    SNAPSHOT_VARIABLE,
    KEY_VARIABLE,
];

/// The secret of a flag or its variable, or the content of the file that `<variable>_FILE` names. The flag takes
/// precedence. An empty variable counts as unset, as for all flags.
///
/// # Errors
/// Returns [`WrongConfiguration`] if both variables are set, or the file cannot be read.
pub(super) fn read_secret(
    variable: &str,
    value: Option<&str>,
) -> Result<Option<String>, WrongConfiguration> {
    debug_assert!(SECRETS.contains(&variable), "{variable}");
    let file_variable = format!("{variable}_FILE");
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let file = set(&file_variable);
    if file.is_some() && set(variable).is_some() {
        return Err(format!("{variable} and {file_variable} are both set: set one of them").into());
    }
    let (None, Some(file)) = (value, &file) else {
        return Ok(value.map(str::to_owned));
    };
    let wrong = |reason: &dyn ToString| {
        let (file, reason) = (file.display(), reason.to_string());
        WrongConfiguration(format!("{file_variable}: {file}: {reason}"))
    };
    let read = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
    // Editors and `echo` end a file with a line feed.
    let secret = read.strip_suffix('\n').unwrap_or(&read);
    let secret = secret.strip_suffix('\r').unwrap_or(secret);
    if secret.is_empty() {
        return Err(wrong(&"the file is empty"));
    }
    Ok(Some(secret.to_owned()))
}
