//! [`ResumePosition`]: from where a reconnect resumes.

use crate::message::{Message, Position};

/// The position in the log up to which this client has received everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResumePosition {
    epoch: String,
    /// That of the latest message that counts; `None` until the first snapshots are complete.
    latest: Option<Position>,
}

impl ResumePosition {
    pub(crate) fn advance(&mut self, message: &Message) {
        if let Some(epoch) = message.reset() {
            self.epoch = epoch.to_owned();
            self.latest = None;
        } else if let Some(position) = message.complete_up_to()
            && (self.latest.is_some() || matches!(message, Message::SnapshotComplete(_)))
        {
            self.latest = Some(position);
        }
    }

    /// The query parameters that resume at this position.
    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        match &self.latest {
            Some(latest) if !self.epoch.is_empty() => vec![
                ("since", latest.seq.to_string()),
                ("recorded_at", latest.recorded_at.clone()),
                ("epoch", self.epoch.clone()),
            ],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query_after(messages: &[&str]) -> Vec<(&'static str, String)> {
        let mut position = ResumePosition::default();
        for message in messages {
            position.advance(&serde_json::from_str(message).unwrap());
        }
        position.query()
    }

    const WELCOME: &str =
        r#"{"event":"welcome","seq":9,"epoch":"e1","server_time":"2026-11-21T09:01:15Z"}"#;
    const COMPLETE: &str =
        r#"{"event":"snapshot_complete","seq":9,"recorded_at":"2026-11-21T09:00:09Z","races":0}"#;
    const HEARTBEAT: &str = r#"{"event":"heartbeat","seq":12,"recorded_at":"2026-11-21T09:00:12Z","server_time":"2026-11-21T09:01:20Z","feed":{"state":"live"}}"#;

    fn since(seq: u64) -> Vec<(&'static str, String)> {
        vec![
            ("since", seq.to_string()),
            ("recorded_at", format!("2026-11-21T09:00:{seq:02}Z")),
            ("epoch", "e1".to_owned()),
        ]
    }

    #[test]
    fn an_incomplete_snapshot_is_not_resumed() {
        assert_eq!(query_after(&[]), []);
        assert_eq!(query_after(&[WELCOME]), []);
        assert_eq!(query_after(&[WELCOME, HEARTBEAT]), []);
    }

    #[test]
    fn a_connection_resumes_at_the_latest_message_that_counts() {
        assert_eq!(query_after(&[WELCOME, COMPLETE]), since(9));
        assert_eq!(query_after(&[WELCOME, COMPLETE, HEARTBEAT]), since(12));
        assert_eq!(
            query_after(&[WELCOME, COMPLETE, HEARTBEAT, COMPLETE]),
            since(9)
        );
    }

    #[test]
    fn the_position_is_kept_only_if_the_service_resumes() {
        let recovered = WELCOME.replace("\"seq\":9", "\"seq\":99,\"recovered\":true");
        let restarted = WELCOME.replace("\"seq\":9", "\"seq\":99,\"recovered\":false");
        let resync = r#"{"event":"resync","seq":3,"epoch":"e2","reason":"the log was replaced"}"#;
        assert_eq!(query_after(&[WELCOME, COMPLETE, &recovered]), since(9));
        assert_eq!(query_after(&[WELCOME, COMPLETE, &restarted]), []);
        assert_eq!(query_after(&[WELCOME, COMPLETE, resync]), []);
    }

    #[test]
    fn a_service_without_an_epoch_is_not_resumed() {
        let old = WELCOME.replace("\"epoch\":\"e1\",", "");
        assert_eq!(query_after(&[&old, COMPLETE]), []);
    }
}
