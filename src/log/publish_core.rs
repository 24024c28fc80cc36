//! Core NATS: what is said to those who listen now, and kept nowhere.

use async_nats::HeaderMap;

use super::{Log, LogError};

impl Log {
    /// Says something once the connection stands. Nobody answers, and nobody may have heard it.
    ///
    /// # Errors
    /// It is not sent: the subject is none, it is too large, or the connection is closed.
    pub async fn publish_core(
        &self,
        subject: String,
        id: &str,
        payload: Vec<u8>,
    ) -> Result<(), LogError> {
        let mut connection = self.connection.clone();
        // An error means that the connection is closed, which the next line says, too.
        let _ = connection.wait_for(|connection| connection.up).await;
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", id);
        self.client
            .publish_with_headers(subject, headers, payload.into())
            .await
            .map_err(|error| LogError::Unreachable(error.to_string()))
    }
}
