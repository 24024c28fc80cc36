//! [`AsyncApiDocuments`]: `/asyncapi.json`, which names the host that was asked.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use parking_lot::Mutex;

use super::descriptions::asyncapi;
use super::static_document::StaticDocument;
use crate::public_url::PublicUrl;

/// The hosts that have a document of their own. It takes 300 KB; any other host is sent that of the public URL.
const HOSTS_MAX: usize = 16;

/// The AsyncAPI document by the host that it names.
#[derive(Debug)]
pub struct AsyncApiDocuments {
    public_url: PublicUrl,
    /// Whether the service does TLS itself.
    is_encrypted: bool,
    documents: Mutex<HashMap<String, Arc<StaticDocument>>>,
}

impl AsyncApiDocuments {
    pub(crate) fn new(public_url: PublicUrl, is_encrypted: bool) -> Self {
        Self {
            public_url,
            is_encrypted,
            documents: Mutex::default(),
        }
    }

    /// The document for a request with these headers.
    pub(super) fn for_request(&self, headers: &HeaderMap) -> Arc<StaticDocument> {
        let public = self.public_url.authority();
        let asked = headers.get(HOST).and_then(|host| host.to_str().ok());
        let asked = asked.filter(|host| host.parse::<Authority>().is_ok() && !host.contains('@'));
        let asked = asked.unwrap_or(public);
        let mut documents = self.documents.lock();
        let is_kept = documents.contains_key(asked) || documents.len() < HOSTS_MAX;
        let host = if is_kept { asked } else { public };
        let document = documents.entry(host.to_owned()).or_insert_with(|| {
            let is_public = host == public && self.public_url.is_secure();
            let is_encrypted = self.is_encrypted || is_public;
            let mut document = asyncapi();
            let server = &mut document["servers"]["live"];
            server["host"] = host.into();
            server["protocol"] = if is_encrypted { "wss" } else { "ws" }.into();
            Arc::new(StaticDocument::json(&document))
        });
        Arc::clone(document)
    }
}
