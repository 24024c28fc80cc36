//! [`AccountPage`]: the plan, its use, and the keys of someone who is signed in.

use std::num::NonZeroU32;
use std::time::Duration;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use events::{Moment, Text};
use jiff::{SignedDuration, Timestamp};

use super::session::SignedIn;
use crate::accounts::{ApiKey, Key, KeyId, KeyState, KeyUse, Ledger, now, random_secret};
use crate::http::pages::words::{self, date_time, number, title};
use crate::http::pages::{NEW_KEY_POLICY, POLICY, PageError, private_page};
use crate::http::state::App;
use crate::limits::{Period, Usage};

/// The keys that have ended and are shown, newest first.
const ENDED_KEYS_MAX: usize = 50;
/// The longest name of a key.
pub(super) const NAME_CHARS_MAX: usize = 60;

/// For how long a replaced key stays valid: the value in the form, the words, and the time.
pub(super) type Overlap = (&'static str, &'static str, SignedDuration);
pub(super) const OVERLAPS: [Overlap; 4] = [
    ("24h", "24 hours", SignedDuration::from_hours(24)),
    ("7d", "7 days", SignedDuration::from_hours(7 * 24)),
    ("1h", "1 hour", SignedDuration::from_hours(1)),
    ("none", "no time: it ends at once", SignedDuration::ZERO),
];

/// What a form came to, which the account page shows first.
pub(super) enum FormOutcome {
    /// There was no form.
    Opened,
    Created(ApiKey),
    Revoked(KeyId),
    /// Nothing was changed.
    Refused(String),
}

#[derive(Template)]
#[template(path = "pages/account.html", config = "web/templates/askama.toml")]
struct AccountPage {
    outcome: FormOutcome,
    plan: String,
    is_active: bool,
    uses: Vec<PlanUse>,
    /// The requests of today with all keys, at all replicas.
    requests_today: u64,
    keys: Vec<KeyRow>,
    ended: Vec<KeyRow>,
    keys_max: u32,
    can_create: bool,
    /// A new key is derived from the nonce and the cookie: pressing the same button again creates the same key.
    nonce: String,
    url: String,
    overlaps: &'static [Overlap],
    subscription_id: String,
    signed_in_until: String,
}

/// The use of a limit. All keys share it.
struct PlanUse {
    what: &'static str,
    used: u32,
    limit: u32,
    note: String,
}

impl PlanUse {
    fn of_requests(period: Period, usage: Usage) -> Self {
        let (what, time) = match period {
            Period::Minute => ("Quota of a minute", "%H:%M:%S UTC"),
            Period::Day => ("Quota of a day", "%-d %B, %H:%M UTC"),
        };
        let at = |wait: Duration| {
            let at = Timestamp::now().saturating_add(wait);
            at.unwrap_or(Timestamp::MAX).strftime(time).to_string()
        };
        let Usage { limit, used, .. } = usage;
        let note = match limit - used {
            _ if used == 0 => "All are left.".to_owned(),
            0 => format!("None is left. The next one: {}.", at(usage.next_after)),
            left => {
                let full_at = at(usage.full_after);
                format!("{} left. All are back: {full_at}.", number(left.into()))
            }
        };
        Self {
            what,
            used,
            limit,
            note,
        }
    }

    fn of_connections(used: u32, limit: NonZeroU32) -> Self {
        let limit = limit.get();
        let left = limit.saturating_sub(used);
        Self {
            what: "Live connections",
            used,
            limit,
            note: format!("{} left.", number(left.into())),
        }
    }
}

#[derive(derive_more::Deref)]
struct KeyRow {
    id: KeyId,
    #[deref]
    key: Key,
    last_use: Option<KeyUse>,
    now: Moment,
}

impl KeyRow {
    fn requests_today(&self) -> u64 {
        self.last_use.map_or(0, |last| last.requests_on(self.now))
    }
}

/// The account page after a form.
pub(super) fn account_page(
    app: &App,
    signed_in: &SignedIn,
    status: StatusCode,
    outcome: FormOutcome,
) -> Result<Response, PageError> {
    let ledger = app.health.ledger.borrow();
    let now = now();
    let session = &signed_in.session;
    let holder = &signed_in.holder;
    let id = &session.subscription_id;
    let (Some(subscription), Some(account)) =
        (ledger.subscriptions.get(id), ledger.accounts.get(holder))
    else {
        return Err(PageError::NotReady);
    };
    let keys_max = keys_max(app, &account.plan);
    let row = |(id, key): (KeyId, &Key)| KeyRow {
        id,
        key: key.clone(),
        last_use: app.keys.uses.get(id, now),
        now,
    };
    let keys: Vec<_> = ledger.keys_of(holder).map(row).collect();
    let requests_today = keys.iter().map(KeyRow::requests_today).sum();
    let (mut keys, mut ended): (Vec<_>, Vec<_>) =
        keys.into_iter().partition(|key| key.is_valid(now));
    keys.reverse();
    ended.reverse();
    ended.truncate(ENDED_KEYS_MAX);
    let used = keys.iter().filter(|key| key.state(now) == KeyState::Valid);
    let account = AccountPage {
        plan: title(account.plan.as_str()),
        is_active: subscription.is_active(),
        uses: uses(app, &ledger, signed_in),
        requests_today,
        can_create: subscription.is_active() && used.count() < keys_max as usize,
        keys_max,
        keys,
        ended,
        nonce: random_secret().map_err(|_| PageError::NotReady)?,
        url: app.pages.url.to_string(),
        overlaps: &OVERLAPS,
        subscription_id: id.to_string(),
        signed_in_until: date_time(session.expires_at),
        outcome,
    };
    let policy = match account.outcome {
        FormOutcome::Created(_) => NEW_KEY_POLICY.clone(),
        _ => POLICY.clone(),
    };
    Ok(private_page(status, policy, &account))
}

/// The maximum valid keys on a plan.
pub(super) fn keys_max(app: &App, plan: &Text) -> u32 {
    let plans = app.keys.plans();
    let known = plans.get(plan.as_str());
    let keys = known.map_or_else(|| plans.tightest(plan.clone()).keys, |known| known.keys);
    keys.get()
}

/// What a subscriber uses of the plan; nothing without a valid key.
fn uses(app: &App, ledger: &Ledger, signed_in: &SignedIn) -> Vec<PlanUse> {
    let mut keys = ledger.keys_of(&signed_in.holder);
    let Some(entry) = keys.find_map(|(id, _)| app.keys.get(id)) else {
        return Vec::new();
    };
    let of_requests = |period| {
        let usage = entry.meter.usage(period)?;
        Some(PlanUse::of_requests(period, usage))
    };
    let periods = [Period::Day, Period::Minute].into_iter();
    let requests = periods.filter_map(of_requests);
    let connections = entry.meter.plan.connections;
    let open = app.fan_out.clients_of(&entry.holder);
    let connections = connections.map(|limit| PlanUse::of_connections(open, limit));
    requests.chain(connections).collect()
}
