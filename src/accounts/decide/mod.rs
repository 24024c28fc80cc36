//! Decisions: which event a command appends, given the ledger. Pure functions;
//! [`AccountCommands`](super::AccountCommands) runs them.

use events::{Moment, Text};
use jiff::SignedDuration;

use super::service_record::MAINTENANCE_MAX;
use super::{
    ApiKey, Fact, Holder, Incident, IncidentNoted, Key, KeyId, KeyRevoked, KeyRotated, KeyState,
    Ledger, Link, LinkRequested, Mail, MailId, MailState, MaintenanceCancelled, MaintenanceId,
    MaintenancePlanned, PlanChanged, SecretHash, SessionEnded, SessionStarted, Subscription,
    SubscriptionApproved, SubscriptionForgotten, SubscriptionId, SubscriptionKeyIssued,
    SubscriptionState, SubscriptionSuppressed,
};
use crate::log::LogError;

/// The time in which a link can be used.
pub const LINK_LASTS: SignedDuration = SignedDuration::from_mins(30);
/// The time after a mail with a link in which another request sends none, unless the link was used. It is less than
/// [`LINK_LASTS`]: a stranger who sends requests for an address cannot keep a link that works from its holder.
pub const RESEND_AFTER: SignedDuration = SignedDuration::from_mins(5);
/// The time in which someone who is signed in can change the account.
pub const SESSION_LASTS: SignedDuration = SignedDuration::from_hours(2);
/// The time in which the pages read the API with a session.
pub const SESSION_READS: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The time after the last request for a link in which an address has to be confirmed. Then it is forgotten.
pub const UNCONFIRMED_KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);
/// A subscriber may have this many times as many valid keys as the plan allows while rotated keys overlap.
const OVERLAP_FACTOR: usize = 2;

/// A command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("there is no key {0}; see `railbird keys list`")]
    UnknownKey(KeyId),
    #[error("key {0} was rotated before; rotate key {1}, which replaced it")]
    AlreadyRotated(KeyId, KeyId),
    #[error("key {key_id} is {}; create a new key with `railbird keys issue --plan PLAN`", state.into_str())]
    KeyNotValid { key_id: KeyId, state: KeyState },
    /// The plan of a subscriber allows no more valid keys.
    #[error("the plan allows {0} valid keys; revoke one first")]
    TooManyKeys(usize),
    #[error("there is no subscription {0}; see `railbird keys subscriptions`")]
    UnknownSubscription(SubscriptionId),
    #[error("the subscription is {}", .0.into_str())]
    NotActive(SubscriptionState),
    /// The link was used, has expired, or never existed.
    #[error("the link does not work any more")]
    UnknownLink,
    #[error("there is no subscription of this address; see `railbird keys subscriptions --emails`")]
    UnknownAddress,
    #[error("there is no maintenance {0} to come; see `railbird maintenance list`")]
    UnknownMaintenance(MaintenanceId),
    #[error("{MAINTENANCE_MAX} are planned; cancel one first")]
    TooMuchMaintenance,
    #[error("no random numbers for the secret of an address")]
    NoRandomNumbers(#[from] getrandom::Error),
    /// A message of the stream of addresses is not a secret, or not the one of this address.
    #[error("the secret on {0} does not fit")]
    WrongSecret(String),
    /// The log did not accept the event. [`LogError::Conflict`]: another writer was first.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The event to append; `None` if the ledger is as it should be.
type Decision = Result<Option<Fact>, CommandError>;

fn known_key(ledger: &Ledger, key_id: KeyId) -> Result<&Key, CommandError> {
    let key = ledger.keys.get(&key_id);
    key.ok_or(CommandError::UnknownKey(key_id))
}

/// Rotates a key that is valid and was not rotated before.
pub(super) fn rotate(
    ledger: &Ledger,
    key_id: KeyId,
    new: &ApiKey,
    valid_until: Moment,
    now: Moment,
) -> Result<Fact, CommandError> {
    let key = known_key(ledger, key_id)?;
    match (key.state(now), &key.rotated) {
        (KeyState::Valid, _) => Ok(Fact::from(KeyRotated {
            key_id,
            valid_until,
            new_key_id: new.key_id,
            new_sha256: new.hash(),
        })),
        (KeyState::Overlapping, Some(rotation)) => {
            Err(CommandError::AlreadyRotated(key_id, rotation.to))
        }
        (state, _) => Err(CommandError::KeyNotValid { key_id, state }),
    }
}

/// Revokes a key; `None` if it is revoked.
pub(super) fn revoke(ledger: &Ledger, key_id: KeyId, reason: Text) -> Decision {
    let key = known_key(ledger, key_id)?;
    let revoked = KeyRevoked { key_id, reason };
    Ok(key.revoked.is_none().then(|| revoked.into()))
}

/// Puts the holder of a valid key on a plan; `None` if it is on that plan.
pub(super) fn change_plan(ledger: &Ledger, key_id: KeyId, plan: Text, now: Moment) -> Decision {
    let key = known_key(ledger, key_id)?;
    if !key.is_valid(now) {
        let state = key.state(now);
        return Err(CommandError::KeyNotValid { key_id, state });
    }
    let account = ledger.accounts.get(&key.holder);
    let revision = account.map_or(0, |account| account.plan_revision) + 1;
    let is_on_plan = account.is_some_and(|account| account.plan == plan);
    let changed = PlanChanged {
        key_id,
        plan,
        revision,
    };
    Ok((!is_on_plan).then(|| changed.into()))
}

/// Approves a subscription; `None` if it is approved.
pub(super) fn approve(ledger: &Ledger, subscription_id: SubscriptionId) -> Decision {
    let Some(subscription) = ledger.subscriptions.get(&subscription_id) else {
        return Err(CommandError::UnknownSubscription(subscription_id));
    };
    let ended_at = subscription.suppressed_at.or(subscription.forgotten_at);
    if ended_at.is_some() {
        return Err(CommandError::NotActive(subscription.state()));
    }
    let revision = subscription.approval_revision + 1;
    let approved = SubscriptionApproved {
        subscription_id,
        revision,
    };
    Ok(subscription.approved_at.is_none().then(|| approved.into()))
}

/// Records the beginning or the end of an incident; `None` if another replica has. A service that is out of order again
/// and again fills the list of incidents once a day, not the log.
pub(super) fn record(ledger: &Ledger, incident: &Incident, now: Moment) -> Option<Fact> {
    let known = &ledger.record.incidents;
    let yesterday = now.timestamp() - SignedDuration::from_hours(24);
    let ends = incident.ended_at.is_some() && known.lasts(incident.kind);
    let is_new = !known.cover(incident) && !known.are_all_since(yesterday.into());
    let noted = IncidentNoted {
        kind: incident.kind,
        started_at: incident.started_at,
        ended_at: incident.ended_at,
        times: incident.times,
    };
    (ends || is_new).then(|| noted.into())
}

/// Plans maintenance.
pub(super) fn plan(ledger: &Ledger, planned: MaintenancePlanned, now: Moment) -> Decision {
    let known = ledger.record.maintenance.iter();
    let is_room = known.filter(|known| known.is_ahead(now)).count() < MAINTENANCE_MAX;
    let planned = is_room.then(|| planned.into());
    planned.map(Some).ok_or(CommandError::TooMuchMaintenance)
}

/// Cancels maintenance that is not over.
pub(super) fn cancel(ledger: &Ledger, maintenance_id: MaintenanceId, now: Moment) -> Decision {
    let mut known = ledger.record.maintenance.iter();
    let is_known = known.any(|known| known.id == maintenance_id && known.is_ahead(now));
    if !is_known {
        return Err(CommandError::UnknownMaintenance(maintenance_id));
    }
    Ok(Some(MaintenanceCancelled { maintenance_id }.into()))
}

/// The subscription of an address, unless it was never subscribed or is forgotten.
pub(super) fn current<'a>(ledger: &'a Ledger, id: &SubscriptionId) -> Option<&'a Subscription> {
    let subscription = ledger.subscriptions.get(id);
    // One that is suppressed stays: it cannot be requested again.
    subscription.filter(|known| known.forgotten_at.is_none() || known.suppressed_at.is_some())
}

/// The generation of a new subscription of an address; `None` if it is subscribed, or suppressed.
pub(super) fn next_generation(ledger: &Ledger, id: &SubscriptionId) -> Option<u32> {
    let earlier = ledger.subscriptions.get(id);
    let generation = earlier.map_or(0, |earlier| earlier.generation) + 1;
    current(ledger, id).is_none().then_some(generation)
}

/// Requests a mail with a link for a subscription. The mail is the last one if that was requested recently, so that
/// the event changes nothing.
pub(super) fn request_link(
    ledger: &Ledger,
    subscription_id: SubscriptionId,
    subscription: &Subscription,
    now: Moment,
) -> LinkRequested {
    let last = &subscription.link_mail;
    let recent = ledger.mails.get(last);
    let recent = recent.filter(|mail| is_recent(mail, ledger.links.contains_key(last), now));
    let new = || MailId::because(format_args!("link after {last}"));
    LinkRequested {
        subscription_id,
        mail_id: recent.map_or_else(new, |_| last.clone()),
    }
}

/// Whether a mail with a link is on its way, or arrived recently and its link was not used.
fn is_recent(mail: &Mail, has_link: bool, now: Moment) -> bool {
    let age = now.timestamp().duration_since(mail.since.timestamp());
    match mail.state {
        MailState::Requested | MailState::UnderWay | MailState::Failed(_) => true,
        MailState::Delivered => has_link && age < RESEND_AFTER,
        MailState::GivenUp(_) => false,
    }
}

/// Starts a session with the link of a mail.
pub(super) fn start_session(
    ledger: &Ledger,
    token: &str,
    cookie: &str,
    now: Moment,
) -> Result<Fact, CommandError> {
    let found = ledger.mail_of_link(token, now);
    let (mail_id, _) = found.ok_or(CommandError::UnknownLink)?;
    Ok(Fact::from(SessionStarted {
        mail_id: mail_id.clone(),
        sha256: SecretHash::of(cookie),
        expires_at: after(now, SESSION_LASTS),
    }))
}

/// Ends a link that was not meant for the person who received it. A new subscription ends with it, and the address gets
/// no mail again.
pub(super) fn reject_link(ledger: &Ledger, token: &str, now: Moment) -> Result<Fact, CommandError> {
    let found = ledger.mail_of_link(token, now);
    let (mail_id, mail) = found.ok_or(CommandError::UnknownLink)?;
    let mail_id = mail_id.clone();
    let subscription_id = mail.subscription_id.clone();
    let subscription = ledger.subscriptions.get(&subscription_id);
    let is_confirmed = subscription.is_some_and(|known| known.confirmed_at.is_some());
    Ok(if is_confirmed {
        SessionEnded { mail_id }.into()
    } else {
        SubscriptionSuppressed { subscription_id }.into()
    })
}

/// Creates a key of a subscription. `keys_max` is what its plan allows.
pub(super) fn issue_to_subscriber(
    ledger: &Ledger,
    subscription_id: SubscriptionId,
    (key, name): (&ApiKey, Text),
    keys_max: usize,
    now: Moment,
) -> Result<Fact, CommandError> {
    let Some(subscription) = ledger.subscriptions.get(&subscription_id) else {
        return Err(CommandError::UnknownSubscription(subscription_id));
    };
    if !subscription.is_active() {
        return Err(CommandError::NotActive(subscription.state()));
    }
    let holder = Holder::Subscription(subscription_id.clone());
    let keys = ledger.keys_of(&holder);
    // A key that was replaced takes no place while it overlaps.
    let valid = keys.filter(|(_, key)| key.state(now) == KeyState::Valid);
    if valid.count() >= keys_max {
        return Err(CommandError::TooManyKeys(keys_max));
    }
    Ok(Fact::from(SubscriptionKeyIssued {
        subscription_id,
        key_id: key.key_id,
        sha256: key.hash(),
        name,
    }))
}

/// Checks that a subscriber may rotate a key: rotated keys that overlap are bounded, too.
pub(super) fn check_overlaps(
    ledger: &Ledger,
    holder: &Holder,
    keys_max: usize,
    now: Moment,
) -> Result<(), CommandError> {
    let keys_max = keys_max * OVERLAP_FACTOR;
    let valid = ledger.keys_of(holder).filter(|(_, key)| key.is_valid(now));
    let too_many = CommandError::TooManyKeys(keys_max);
    (valid.count() < keys_max).then_some(()).ok_or(too_many)
}

/// Ends a subscription whose address is to be erased; `None` if it has ended.
pub(super) fn forget(ledger: &Ledger, subscription_id: SubscriptionId) -> Decision {
    let subscription = ledger.subscriptions.get(&subscription_id);
    let subscription = subscription.ok_or(CommandError::UnknownAddress)?;
    let forgotten = SubscriptionForgotten {
        subscription_id,
        generation: subscription.generation,
    };
    let is_open = subscription.forgotten_at.is_none();
    Ok(is_open.then(|| forgotten.into()))
}

/// A link with this token, for a mail that is sent now.
pub fn new_link(token: &str, now: Moment) -> Link {
    Link {
        sha256: SecretHash::of(token),
        expires_at: after(now, LINK_LASTS),
    }
}

pub(super) fn after(now: Moment, duration: SignedDuration) -> Moment {
    let end = now.timestamp().saturating_add(duration);
    end.unwrap_or(jiff::Timestamp::MAX).into()
}

#[cfg(test)]
mod tests;
