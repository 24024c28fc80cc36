//! `railbird keys list` and `railbird keys subscriptions`.

use events::Moment;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::report::{result, table};
use crate::accounts::{
    AccountCommands, CommandError, Holder, Key, KeyId, Ledger, Subscription, SubscriptionId,
    UsesByProcess,
};

const KEY_COLUMNS: &str = "key_id state plan name issued_at issued_by valid_until last_used_at requests_today network \
                           subscription_id";
const SUBSCRIPTION_COLUMNS: &str = "subscription_id state plan requested_at mail valid_keys";

/// Prints all keys with their use, oldest first.
pub(super) fn print_keys(ledger: &Ledger, uses: &UsesByProcess, as_json: bool) {
    let mut keys: Vec<_> = ledger.keys.iter().collect();
    keys.sort_by_key(|(_, key)| key.issued_at);
    let rows = keys.into_iter().map(|(&id, key)| {
        let mut row = key_row(ledger, id, key);
        let found = uses.get(id);
        let now = Timestamp::now().into();
        row["last_used_at"] = found.map(|found| time(found.last_used_at)).into();
        row["requests_today"] = found.map_or(0, |found| found.requests_on(now)).into();
        row["network"] = found.map(|found| found.network.to_string()).into();
        row
    });
    print(rows, as_json, KEY_COLUMNS);
}

/// Prints all subscriptions, oldest first; with their e-mail addresses, if these are asked for.
pub(super) async fn print_subscriptions(
    commands: &AccountCommands,
    emails: bool,
    as_json: bool,
) -> Result<(), CommandError> {
    let ledger = commands.ledger.borrow().clone();
    let mut all: Vec<_> = ledger.subscriptions.iter().collect();
    all.sort_by_key(|(_, subscription)| subscription.requested_at);
    let mut rows = Vec::new();
    for (id, subscription) in all {
        let mut row = subscription_row(&ledger, id, subscription);
        if emails {
            let (generation, email) = (subscription.generation, &subscription.email);
            let email = commands.book.open(id, generation, email).await?;
            row["email"] = email.map_or(Value::Null, |email| email.reveal().into());
        }
        rows.push(row);
    }
    let email = if emails { " email" } else { "" };
    let columns = format!("{SUBSCRIPTION_COLUMNS}{email}");
    print(rows.into_iter(), as_json, &columns);
    Ok(())
}

fn subscription_row(ledger: &Ledger, id: &SubscriptionId, subscription: &Subscription) -> Value {
    let holder = Holder::Subscription(id.clone());
    let now = Timestamp::now().into();
    let valid = ledger.keys_of(&holder).filter(|(_, key)| key.is_valid(now));
    let mail = ledger.mails.get(&subscription.link_mail);
    json!({
        "subscription_id": id,
        "state": subscription.state().into_str(),
        "plan": ledger.accounts.get(&holder).map(|account| &account.plan),
        "requested_at": time(subscription.requested_at),
        "confirmed_at": subscription.confirmed_at.map(time),
        "approved_at": subscription.approved_at.map(time),
        "mail": mail.map(|mail| mail.state.into_str()),
        "mail_since": mail.map(|mail| time(mail.since)),
        "mail_attempts": mail.map(|mail| mail.attempts),
        "mail_reason": mail.and_then(|mail| mail.state.reason()),
        "valid_keys": valid.count(),
    })
}

fn key_row(ledger: &Ledger, key_id: KeyId, key: &Key) -> Value {
    let subscription_id = match &key.holder {
        Holder::Subscription(id) => Some(id),
        Holder::Key(_) | Holder::Pages(_) => None,
    };
    let revoked = key.revoked.as_ref();
    json!({
        "key_id": key_id,
        "state": key.state(Timestamp::now().into()).into_str(),
        "plan": ledger.accounts.get(&key.holder).map(|account| &account.plan),
        "issued_at": time(key.issued_at),
        "issued_by": key.issued_by.to_string(),
        "valid_until": key.valid_until().map(time),
        "rotated_to": key.rotated.as_ref().map(|rotation| rotation.to),
        "rotated_by": key.rotated.as_ref().map(|rotation| rotation.by.to_string()),
        "revoked_by": revoked.map(|revoked| revoked.by.to_string()),
        "revoked_at": revoked.map(|revoked| time(revoked.at)),
        "reason": revoked.map(|revoked| &revoked.reason).filter(|reason| !reason.is_empty()),
        "subscription_id": subscription_id,
        "name": Some(&key.name).filter(|name| !name.is_empty()),
    })
}

/// A time to the second.
pub(in crate::cli) fn time(moment: Moment) -> String {
    moment.timestamp().strftime("%FT%TZ").to_string()
}

/// Prints rows as JSON, or some of their fields as a table.
fn print(rows: impl Iterator<Item = Value>, as_json: bool, columns: &str) {
    if as_json {
        rows.for_each(result);
    } else {
        table(rows, columns);
    }
}
