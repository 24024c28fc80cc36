//! [`Log::publish_core`]: messages on core NATS, for current subscribers only; nothing stores them.

use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;

use super::connection::Log;
use super::error::LogError;

impl Log {
    /// Publishes a message on core NATS once the connection is up. There is no acknowledgement.
    ///
    /// # Errors
    /// Returns [`LogError::Unreachable`] if the client cannot send it: the subject is not valid, the message is too
    /// large, or the connection is closed.
    pub async fn publish_core(
        &self,
        subject: String,
        id: &str,
        payload: Vec<u8>,
    ) -> Result<(), LogError> {
        let mut status = self.status.clone();
        // An error means that the connection is closed, which the publish below reports.
        let _ = status.wait_for(|status| status.up).await;
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, id);
        self.client
            .publish_with_headers(subject, headers, payload.into())
            .await
            .map_err(|error| LogError::Unreachable(error.to_string()))
    }
}
