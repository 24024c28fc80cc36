//! `/api/v1/account`: the plan of a key, what it has used of it, and the keys of the same holder.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Extension, Json};
use events::Moment;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{ApiError, App, QueryParams, Routes};
use crate::accounts::{Key, KeyEntry, KeyId, now};
use crate::limits::{Period, Usage};

/// The plan of a key, and what its holder has used. All keys of a holder share the limits.
#[derive(Serialize, JsonSchema)]
pub(super) struct AccountStatus {
    /// The name of the plan.
    plan: String,
    /// Whether the plan includes live odds.
    live_odds: bool,
    requests: RequestUse,
    connections: ConnectionUse,
    /// The keys of the holder that are valid, oldest first.
    keys: Vec<ListedKey>,
}

/// The requests of both periods. Each replica counts for itself.
#[serde_with::skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct RequestUse {
    /// Left out if the plan has no limit.
    minute: Option<LimitUse>,
    /// Left out if the plan has no limit.
    day: Option<LimitUse>,
}

/// The use of a limit. It refills evenly.
#[derive(Serialize, JsonSchema)]
struct LimitUse {
    /// The requests in the period.
    limit: u32,
    /// The requests that are used and not available again yet.
    used: u32,
    /// The requests left.
    left: u32,
    /// When the next request is available (RFC 3339); now if one is left.
    next_at: String,
    /// When all requests are available again, if none is sent (RFC 3339).
    full_at: String,
}

/// The WebSockets of the live channel. Each replica counts for itself.
#[derive(Serialize, JsonSchema)]
struct ConnectionUse {
    /// The maximum at a time; 0 if the plan includes no live odds.
    limit: u32,
    /// Those that are open.
    open: u32,
    /// Those that may be opened.
    left: u32,
}

/// A key.
#[derive(Serialize, JsonSchema)]
struct ListedKey {
    /// The public part of the key.
    key_id: String,
    /// What it is for; empty if its holder gave no name.
    name: String,
    /// When it was created (RFC 3339).
    created_at: String,
    /// When it expires or its overlap ends (RFC 3339); empty if it does not.
    expires_at: String,
    /// When it was last used, to within five minutes (RFC 3339); empty if that is not known, or 35 days ago.
    last_used_at: String,
    /// Its requests today (UTC), at all replicas, also those that cost no quota.
    requests_today: u64,
    /// The network of its last client, /24 for IPv4 and /48 for IPv6; empty if that is not known.
    network: String,
}

pub(super) fn router() -> Routes {
    Routes::default().route("/api/v1/account", get(account))
}

async fn account(
    State(app): State<Arc<App>>,
    Extension(entry): Extension<Arc<KeyEntry>>,
    query: QueryParams,
) -> Result<impl IntoResponse, ApiError> {
    query.check_names(&[])?;
    let plan = &entry.meter.plan;
    let limit_of = |period| entry.meter.usage(period).map(LimitUse::of);
    let limit = plan.connections.map_or(0, NonZeroU32::get);
    let open = app.fan_out.clients_of(&entry.holder);
    let status = AccountStatus {
        plan: plan.name.to_string(),
        live_odds: plan.connections.is_some(),
        requests: RequestUse {
            minute: limit_of(Period::Minute),
            day: limit_of(Period::Day),
        },
        connections: ConnectionUse {
            limit,
            open,
            left: limit.saturating_sub(open),
        },
        keys: keys_of(&app, &entry),
    };
    Ok(([(CACHE_CONTROL, "no-store")], Json(status)))
}

fn keys_of(app: &App, entry: &KeyEntry) -> Vec<ListedKey> {
    let ledger = app.health.ledger.borrow();
    let now = now();
    let keys = ledger.keys_of(&entry.holder);
    let valid = keys.filter(|(_, key)| key.is_valid(now));
    let text = |moment: Option<Moment>| moment.map_or(String::new(), |moment| moment.to_string());
    let row = |(id, key): (KeyId, &Key)| {
        let found = app.keys.uses.get(id, now);
        ListedKey {
            key_id: id.to_string(),
            name: key.name.to_string(),
            created_at: key.issued_at.to_string(),
            expires_at: text(key.valid_until()),
            last_used_at: text(found.map(|found| found.last_used_at)),
            requests_today: found.map_or(0, |found| found.requests_on(now)),
            network: found.map_or(String::new(), |found| found.network.to_string()),
        }
    };
    valid.map(row).collect()
}

impl LimitUse {
    fn of(usage: Usage) -> Self {
        let now = Timestamp::now();
        let after =
            |wait: Duration| Moment::from(now.saturating_add(wait).unwrap_or(now)).to_string();
        Self {
            limit: usage.limit,
            used: usage.used,
            left: usage.limit - usage.used,
            next_at: after(usage.next_after),
            full_at: after(usage.full_after),
        }
    }
}
