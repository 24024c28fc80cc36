//! [`PublishPermissions`]: what the server says that this user may not do. It says so on the connection, not as an answer.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;

use tokio::sync::watch;

use super::LogError;

/// Subjects that are remembered: more than a program has under way.
const SUBJECTS_MAX: usize = 1024;

/// The user of a connection, and the subjects on which it may not publish, as far as the server has said so.
#[derive(Debug, Clone)]
pub(super) struct PublishPermissions {
    user: Arc<str>,
    subjects: watch::Receiver<BTreeSet<String>>,
}

/// The other end, for what the server says.
#[derive(Debug)]
pub(super) struct DenialSender(watch::Sender<BTreeSet<String>>);

impl PublishPermissions {
    /// Those of a user; of an anonymous one, if it has no name.
    pub(super) fn of(user: Option<&str>) -> (DenialSender, Self) {
        let user = user.map_or("an anonymous user".into(), |user| {
            format!("the user {user:?}").into()
        });
        let (said, subjects) = watch::channel(BTreeSet::new());
        (DenialSender(said), Self { user, subjects })
    }

    /// Resolves when the server has said that the user may not publish on a subject of which something holds.
    pub(super) async fn of_subject(&self, is_it: impl Fn(&str) -> bool) -> LogError {
        let mut subjects = self.subjects.clone();
        let find = |subjects: &BTreeSet<String>| subjects.iter().find(|s| is_it(s)).cloned();
        let found = subjects.wait_for(|subjects| find(subjects).is_some()).await;
        match found.ok().and_then(|subjects| find(&subjects)) {
            Some(subject) => LogError::Denied {
                user: self.user.to_string(),
                subject,
            },
            None => pending().await,
        }
    }

    /// The error of a connection that the server does not let in.
    pub(super) fn not_let_in(&self) -> LogError {
        LogError::NotLetIn(self.user.to_string())
    }
}

impl DenialSender {
    /// Notes what the server said, if it is about publishing. False if it has said the like before: a window full of messages
    /// may be refused at once.
    pub(super) fn note(&self, text: &str) -> bool {
        let Some((_, quoted)) = text.split_once("Permissions Violation for Publish to \"") else {
            return true;
        };
        let subject = quoted.trim_end_matches('"').to_owned();
        let is_first = self.0.borrow().is_empty();
        self.0.send_modify(|subjects| {
            if subjects.len() >= SUBJECTS_MAX {
                subjects.clear();
            }
            subjects.insert(subject);
        });
        is_first
    }

    /// On another connection the user may have other permissions.
    pub(super) fn forget(&self) {
        self.0.send_modify(BTreeSet::clear);
    }
}
