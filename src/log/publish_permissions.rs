//! [`PublishPermissions`]: the subjects on which the server has denied this user to publish.
//!
//! The server reports a denial on the connection, and does not answer the denied message.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;

use tokio::sync::watch;

use super::error::LogError;

/// Denied subjects that are kept: more than a program has in flight.
const SUBJECTS_MAX: usize = 1024;

/// The client library asks for this by itself when a server has restarted, which nats.conf does not allow: it would
/// show the consumers of other replicas. The reader notices by itself that its consumer is gone.
const BY_ITSELF: &str = "CONSUMER.INFO.";

/// The user of a connection, and the subjects that the server has denied it so far.
#[derive(Debug, Clone)]
pub(super) struct PublishPermissions {
    user: Arc<str>,
    denied: watch::Receiver<BTreeSet<String>>,
}

/// Records what the server denies.
pub(super) struct DenialSender(watch::Sender<BTreeSet<String>>);

impl PublishPermissions {
    /// The permissions of a user, as an error names it.
    pub(super) fn new(user: &str) -> (DenialSender, Self) {
        let user = user.into();
        let (sender, denied) = watch::channel(BTreeSet::new());
        (DenialSender(sender), Self { user, denied })
    }

    /// Resolves with [`LogError::Denied`] when the server has denied a subject that matches.
    pub(super) async fn denied(&self, matches: impl Fn(&str) -> bool) -> LogError {
        let mut denied = self.denied.clone();
        let find = |denied: &BTreeSet<String>| denied.iter().find(|s| matches(s)).cloned();
        let found = denied.wait_for(|denied| find(denied).is_some()).await;
        match found.ok().and_then(|denied| find(&denied)) {
            Some(subject) => LogError::Denied(self.user.to_string(), subject),
            None => pending().await,
        }
    }

    /// The error of a connection whose login the server rejects.
    pub(super) fn login_rejected(&self) -> LogError {
        LogError::LoginRejected(self.user.to_string())
    }
}

impl DenialSender {
    /// Records an error of the server, if it denies a subject. Returns whether to log it as a warning: of the denials
    /// on one connection only the first, because a whole window of messages may be denied at once, and none of
    /// [`BY_ITSELF`].
    pub(super) fn record(&self, error: &str) -> bool {
        let Some((_, quoted)) = error.split_once("Permissions Violation for Publish to \"") else {
            return true;
        };
        let subject = quoted.trim_end_matches('"').to_owned();
        if subject.contains(BY_ITSELF) {
            return false;
        }
        let is_first = self.0.borrow().is_empty();
        self.0.send_modify(|subjects| {
            if subjects.len() >= SUBJECTS_MAX {
                subjects.clear();
            }
            subjects.insert(subject);
        });
        is_first
    }

    /// Forgets all denials: on another connection the user may have other permissions.
    pub(super) fn clear(&self) {
        self.0.send_modify(BTreeSet::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::PublishPermissions;

    #[test]
    fn the_first_denial_is_logged_unless_the_library_asked_by_itself() {
        let (sender, _permissions) = PublishPermissions::new("the user");
        let record = |subject: &str| {
            let error = format!("nats: Permissions Violation for Publish to \"{subject}\"");
            sender.record(&error)
        };
        assert!(!record("log.CONSUMER.INFO.RACING.1Onr4qik"));
        assert!(record("$JS.API.STREAM.CREATE.RACING"));
        assert!(!record("racing.races.carded"), "not the first");
        assert!(sender.record("nats: another error"));
    }
}
