//! [`InvalidMailSetting`]: the error of a mail setting.

/// A mail setting is invalid. The message does not repeat its value, which may contain a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{flag}: {message}")]
pub struct InvalidMailSetting {
    flag: &'static str,
    message: &'static str,
}

impl InvalidMailSetting {
    /// An error of a flag.
    pub fn new(flag: &'static str, message: &'static str) -> Self {
        Self { flag, message }
    }
}
