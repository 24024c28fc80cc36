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
use crate::http::pages::{PageCaching, PageError, page};
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
    Done {
        title: String,
        text: &'static str,
    },
    /// Nothing was changed.
    Refused {
        status: StatusCode,
        text: String,
    },
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
    name_chars_max: usize,
    subscription_id: String,
    signed_in_until: String,
}

impl FormOutcome {
    fn status(&self) -> StatusCode {
        match self {
            Self::Refused { status, .. } => *status,
            _ => StatusCode::OK,
        }
    }

    /// The title of the page.
    fn title(&self) -> &str {
        match self {
            Self::Opened => "Your account",
            Self::Created(_) => "Your new key",
            Self::Done { title, .. } => title,
            Self::Refused { .. } => "Error: Nothing was changed",
        }
    }
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
            let wait = SignedDuration::try_from(wait).unwrap_or_default();
            let at = Timestamp::now().saturating_add(wait);
            at.unwrap_or(Timestamp::MAX).strftime(time).to_string()
        };
        let left = usage.limit - usage.used;
        let note = match (usage.used, left) {
            (0, _) => "All are left.".to_owned(),
            (_, 0) => format!("None is left. The next one: {}.", at(usage.next_after)),
            _ => format!(
                "{} left. All are back: {}.",
                number(left.into()),
                at(usage.full_after)
            ),
        };
        Self {
            what,
            used: usage.used,
            limit: usage.limit,
            note,
        }
    }

    fn of_connections(open: u32, limit: NonZeroU32) -> Self {
        let left = limit.get().saturating_sub(open);
        Self {
            what: "Live connections",
            used: open,
            limit: limit.get(),
            note: format!("{} left.", number(left.into())),
        }
    }
}

struct KeyRow {
    id: KeyId,
    name: String,
    state: &'static str,
    is_valid: bool,
    can_rotate: bool,
    requests_today: u64,
    /// When it was created, when and from where it was last used, and when it ends or ended.
    facts: Vec<String>,
}

impl KeyRow {
    fn of(id: KeyId, key: &Key, last_use: Option<KeyUse>, now: Moment) -> Self {
        let state = key.state(now);
        let mut facts = vec![format!("Created {}", date_time(key.issued_at))];
        facts.extend(last_use.map(|last| {
            let at = date_time(last.last_used_at);
            let network = last.network;
            format!("Last used {at} from {network}")
        }));
        facts.extend(end(key, now));
        Self {
            id,
            name: key.name.to_string(),
            state: match state {
                KeyState::Valid => "valid",
                KeyState::Overlapping => "replaced, and still valid",
                KeyState::Rotated => "replaced",
                KeyState::Expired => "expired",
                KeyState::Revoked => "revoked",
            },
            is_valid: key.is_valid(now),
            can_rotate: state == KeyState::Valid,
            requests_today: last_use.map_or(0, |last| last.requests_on(now)),
            facts,
        }
    }
}

/// The end of a key, and the key that replaced it.
fn end(key: &Key, now: Moment) -> Option<String> {
    let replaced = key.rotated.as_ref();
    let replaced = replaced.map(|rotation| format!(", replaced by {}", rotation.to));
    let (verb, at) = match (&key.revoked, key.valid_until()) {
        (Some(revoked), _) => ("Revoked", revoked.at),
        (None, Some(end)) if end > now => ("Valid until", end),
        (None, Some(end)) => ("Ended", end),
        (None, None) => return None,
    };
    Some(format!(
        "{verb} {}{}",
        date_time(at),
        replaced.unwrap_or_default()
    ))
}

/// The account page after a form.
pub(super) fn account_page(
    app: &App,
    signed_in: &SignedIn,
    outcome: FormOutcome,
) -> Result<Response, PageError> {
    let ledger = app.ledger.borrow();
    let now = now();
    let session = &signed_in.session;
    let holder = &signed_in.holder;
    let id = &session.subscription_id;
    let (Some(subscription), Some(account)) = (ledger.subscription(id), ledger.account(holder))
    else {
        return Err(PageError::NotReady);
    };
    let keys_max = keys_max(app, &account.plan);
    let row = |(id, key)| KeyRow::of(id, key, app.keys.uses().get(id, now), now);
    let keys: Vec<_> = ledger.keys_of(holder).map(row).collect();
    let requests_today = keys.iter().map(|key| key.requests_today).sum();
    let (mut keys, mut ended): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| key.is_valid);
    keys.reverse();
    ended.reverse();
    ended.truncate(ENDED_KEYS_MAX);
    let used = keys.iter().filter(|key| key.can_rotate).count();
    let account = AccountPage {
        plan: title(account.plan.as_str()),
        is_active: subscription.is_active(),
        uses: uses(app, &ledger, signed_in),
        requests_today,
        can_create: subscription.is_active() && used < keys_max as usize,
        keys_max,
        keys,
        ended,
        nonce: random_secret().map_err(|_| PageError::NotReady)?,
        url: app.pages.url.to_string(),
        overlaps: &OVERLAPS,
        name_chars_max: NAME_CHARS_MAX,
        subscription_id: id.to_string(),
        signed_in_until: date_time(session.expires_at),
        outcome,
    };
    Ok(page(
        account.outcome.status(),
        PageCaching::NoStore,
        &account,
    ))
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
    let requests = [Period::Day, Period::Minute]
        .into_iter()
        .filter_map(of_requests);
    let connections = entry.meter.plan().connections;
    let open = app.fan_out.clients_of(&entry.holder);
    let connections = connections.map(|limit| PlanUse::of_connections(open, limit));
    requests.chain(connections).collect()
}
