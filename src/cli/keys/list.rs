//! `railbird keys list` and `railbird keys subscriptions`.

use clap::Args;
use events::Moment;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::report::result;
use crate::accounts::{
    Holder, Key, KeyId, Ledger, Mail, Subscription, SubscriptionId, UsesByProcess,
};

const KEY_COLUMNS: &str =
    "key_id state plan issued_at valid_until last_used_at requests_today network subscription_id";
const SUBSCRIPTION_COLUMNS: &str = "subscription_id state plan requested_at mail valid_keys email";

#[derive(Debug, Args)]
pub(super) struct List {
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Subscriptions {
    /// Show the e-mail addresses in full.
    #[arg(long)]
    emails: bool,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

impl List {
    /// Prints all keys with their use, oldest first.
    pub(super) fn print(&self, ledger: &Ledger, uses: &UsesByProcess) {
        let mut keys: Vec<_> = ledger.keys().collect();
        keys.sort_by_key(|(_, key)| key.issued_at);
        let rows = keys.into_iter().map(|(id, key)| {
            let mut row = key_row(ledger, id, key);
            let found = uses.get(id);
            let now = Timestamp::now().into();
            row["last_used_at"] = found.map(|found| time(found.last_used_at)).into();
            row["requests_today"] = found.map_or(0, |found| found.requests_on(now)).into();
            row["network"] = found.map(|found| found.network.to_string()).into();
            row
        });
        print(rows, self.json, KEY_COLUMNS);
    }
}

impl Subscriptions {
    /// Prints all subscriptions, oldest first.
    pub(super) fn print(&self, ledger: &Ledger) {
        let mut all: Vec<_> = ledger.subscriptions().collect();
        all.sort_by_key(|(_, subscription)| subscription.requested_at);
        let rows = all.into_iter().map(|(id, of)| self.row(ledger, id, of));
        print(rows, self.json, SUBSCRIPTION_COLUMNS);
    }

    fn row(&self, ledger: &Ledger, id: &SubscriptionId, subscription: &Subscription) -> Value {
        let account = ledger.account(&Holder::Subscription(id.clone()));
        let keys = account.map_or(&[][..], |account| &account.keys);
        let now = Timestamp::now().into();
        let is_valid = |id: &&KeyId| ledger.key(**id).is_some_and(|key| key.is_valid(now));
        let mail = subscription.mail.as_ref().and_then(|id| ledger.mail(id));
        let email = match self.emails {
            true => subscription.email.reveal().to_owned(),
            false => subscription.email.to_string(),
        };
        json!({
            "subscription_id": id,
            "state": if subscription.approved_at.is_some() { "approved" } else { "requested" },
            "plan": account.map(|account| &account.plan),
            "requested_at": time(subscription.requested_at),
            "approved_at": subscription.approved_at.map(time),
            "mail": mail.map(|mail| mail.state.as_str()),
            "mail_since": mail.map(|mail| time(mail.since)),
            "mail_attempts": mail.map(Mail::attempts),
            "mail_reason": mail.and_then(|mail| mail.state.reason()),
            "valid_keys": keys.iter().filter(is_valid).count(),
            "email": email,
        })
    }
}

fn key_row(ledger: &Ledger, key_id: KeyId, key: &Key) -> Value {
    let subscription_id = match &key.holder {
        Holder::Subscription(id) => Some(id),
        Holder::Key(_) => None,
    };
    let revoked = key.revoked.as_ref();
    json!({
        "key_id": key_id,
        "state": key.state(Timestamp::now().into()).as_str(),
        "plan": ledger.account(&key.holder).map(|account| &account.plan),
        "issued_at": time(key.issued_at),
        "valid_until": key.valid_until().map(time),
        "rotated_to": key.rotated.map(|rotation| rotation.to),
        "revoked_at": revoked.map(|revoked| time(revoked.at)),
        "reason": revoked.map(|revoked| &revoked.reason).filter(|reason| !reason.is_empty()),
        "subscription_id": subscription_id,
    })
}

/// A time to the second.
pub(super) fn time(moment: Moment) -> String {
    moment.timestamp().strftime("%FT%TZ").to_string()
}

/// Prints rows as JSON, or some of their fields as an aligned table.
fn print(rows: impl Iterator<Item = Value>, as_json: bool, columns: &str) {
    if as_json {
        return rows.for_each(result);
    }
    let columns: Vec<&str> = columns.split(' ').collect();
    let heading = columns.iter().map(|name| name.to_uppercase()).collect();
    let cells = rows.map(|row| columns.iter().map(|name| cell(&row[name])).collect());
    let table: Vec<Vec<String>> = std::iter::once(heading).chain(cells).collect();
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns.len()).filter_map(width).collect();
    for row in &table {
        let cells = row.iter().zip(&widths);
        let padded: Vec<_> = cells.map(|(cell, w)| format!("{cell:w$}")).collect();
        result(padded.join("  ").trim_end());
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
