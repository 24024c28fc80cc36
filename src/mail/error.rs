//! [`InvalidMailSetting`]: the error of a mail setting.

/// A mail setting is invalid: its flag, and what is expected. That does not repeat the value, which may contain a
/// password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}: {1}")]
pub struct InvalidMailSetting(pub &'static str, pub &'static str);
