//! Decisions: which event a command appends, given the ledger. Pure functions;
//! [`AccountCommands`](super::AccountCommands) runs them.

use events::{Moment, Text};
use jiff::SignedDuration;

use super::{
    ApiKey, Fact, Holder, KeyId, KeyRevoked, KeyRotated, KeyState, Ledger, Mail, MailId,
    MailRequested, MailState, PlanChanged, SubscriptionApproved, SubscriptionId,
    SubscriptionRequested,
};
use crate::log::LogError;

/// The time after a delivered mail in which subscribing again sends no second mail.
pub const RESEND_AFTER: SignedDuration = SignedDuration::from_mins(10);
const RESENT: &str = "requested again";

/// A command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("there is no key {0}; see `railbird keys list`")]
    UnknownKey(KeyId),
    #[error("key {key_id} was rotated before; rotate key {new_key_id}, which replaced it")]
    AlreadyRotated { key_id: KeyId, new_key_id: KeyId },
    #[error("key {key_id} is {}; create a new key with `railbird keys issue --plan PLAN`", state.as_str())]
    KeyNotValid { key_id: KeyId, state: KeyState },
    #[error("there is no subscription {0}; see `railbird keys subscriptions`")]
    UnknownSubscription(SubscriptionId),
    /// The log did not accept the event. [`LogError::Conflict`]: another writer was first.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Rotates a key that is valid and was not rotated before.
pub(super) fn rotate(
    ledger: &Ledger,
    key_id: KeyId,
    new: &ApiKey,
    valid_until: Moment,
    now: Moment,
) -> Result<Fact, CommandError> {
    let key = ledger.key(key_id).ok_or(CommandError::UnknownKey(key_id))?;
    match (key.state(now), key.rotated) {
        (KeyState::Valid, _) => Ok(Fact::from(KeyRotated {
            key_id,
            valid_until,
            new_key_id: new.key_id(),
            new_sha256: new.hash(),
        })),
        (KeyState::Overlapping, Some(rotation)) => Err(CommandError::AlreadyRotated {
            key_id,
            new_key_id: rotation.to,
        }),
        (state, _) => Err(CommandError::KeyNotValid { key_id, state }),
    }
}

/// Revokes a key; `None` if it is revoked.
pub(super) fn revoke(
    ledger: &Ledger,
    key_id: KeyId,
    reason: Text,
) -> Result<Option<Fact>, CommandError> {
    let key = ledger.key(key_id).ok_or(CommandError::UnknownKey(key_id))?;
    let is_revoked = key.revoked.is_some();
    Ok((!is_revoked).then(|| Fact::from(KeyRevoked { key_id, reason })))
}

/// Puts the holder of a valid key on a plan; `None` if it is on that plan.
pub(super) fn change_plan(
    ledger: &Ledger,
    key_id: KeyId,
    plan: Text,
    now: Moment,
) -> Result<Option<Fact>, CommandError> {
    let key = ledger.key(key_id).ok_or(CommandError::UnknownKey(key_id))?;
    if !key.is_valid(now) {
        let state = key.state(now);
        return Err(CommandError::KeyNotValid { key_id, state });
    }
    let account = ledger.account(&key.holder);
    let revision = account.map_or(0, |account| account.plan_revision) + 1;
    let is_on_plan = account.is_some_and(|account| account.plan == plan);
    Ok((!is_on_plan).then(|| {
        Fact::from(PlanChanged {
            key_id,
            plan,
            revision,
        })
    }))
}

/// Approves a subscription; `None` if it is approved.
pub(super) fn approve(
    ledger: &Ledger,
    subscription_id: SubscriptionId,
) -> Result<Option<Fact>, CommandError> {
    let Some(subscription) = ledger.subscription(&subscription_id) else {
        return Err(CommandError::UnknownSubscription(subscription_id));
    };
    let is_approved = subscription.approved_at.is_some();
    Ok((!is_approved).then(|| Fact::from(SubscriptionApproved { subscription_id })))
}

/// Requests or approves a subscription, or another mail of an approved one. `None` if nothing is to be done.
pub(super) fn subscribe(
    ledger: &Ledger,
    request: SubscriptionRequested,
    needs_no_approval: impl Fn(&Text) -> bool,
    now: Moment,
) -> Option<Fact> {
    let subscription_id = request.subscription_id.clone();
    let holder = Holder::Subscription(subscription_id.clone());
    let (Some(subscription), Some(account)) = (
        ledger.subscription(&subscription_id),
        ledger.account(&holder),
    ) else {
        return Some(Fact::from(request));
    };
    let needs_no_approval = needs_no_approval(&account.plan);
    if subscription.approved_at.is_none() {
        // The plan may have needed approval at the time of the request.
        return needs_no_approval.then(|| Fact::from(SubscriptionApproved { subscription_id }));
    }
    let last = subscription.mail.as_ref()?;
    let mut keys = account.keys.iter().filter_map(|id| ledger.key(*id));
    // An approved subscription without a valid key was ended by an operator.
    let is_active = needs_no_approval || keys.any(|key| key.is_valid(now));
    let is_mail_due = !ledger.mail(last).is_some_and(|mail| is_recent(mail, now));
    (is_active && is_mail_due).then(|| {
        Fact::from(MailRequested {
            mail_id: MailId::after(last),
            subscription_id,
            purpose: Text::parse(RESENT).unwrap_or_default(),
        })
    })
}

/// Whether a mail is on its way or was delivered recently.
fn is_recent(mail: &Mail, now: Moment) -> bool {
    match mail.state {
        MailState::Requested | MailState::UnderWay | MailState::Failed(_) => true,
        MailState::Delivered => {
            now.timestamp().duration_since(mail.since.timestamp()) < RESEND_AFTER
        }
        MailState::GivenUp(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use events::Text;
    use jiff::SignedDuration;

    use super::{
        Fact, KeyRevoked, Ledger, MailId, MailRequested, SubscriptionId, SubscriptionRequested,
        subscribe,
    };
    use crate::accounts::now;
    use crate::accounts::tests::Stream;
    use crate::accounts::{ApiKey, Email, MailAttempted, MailDelivered, MailFailed, SecretHash};

    const FREE: &str = "free";

    fn text(text: &str) -> Text {
        Text::parse(text).expect("text")
    }

    /// The event that is appended when an address subscribes to a plan.
    fn decide(ledger: &Ledger, plan: &str) -> Option<Fact> {
        let email = Email::parse("a@racing.example").expect("an address");
        let is_free = |plan: &Text| plan.as_str() == FREE;
        let request = SubscriptionRequested::new(email, text(plan), is_free(&text(plan)));
        subscribe(ledger, request, is_free, now())
    }

    /// Adds a subscription and its mail, delivered `ago`. Returns the mail and the key in it.
    fn subscribed(stream: &mut Stream, plan: &str, ago: SignedDuration) -> (MailId, ApiKey) {
        let Some(Fact::SubscriptionRequested(mut requested)) = decide(&stream.ledger, plan) else {
            panic!("a new subscription");
        };
        assert_eq!(requested.approved, plan == FREE);
        requested.approved = true;
        let subscription_id = requested.subscription_id.clone();
        let mail_id = MailId::first_to(&subscription_id);
        let key = ApiKey::generate("test").expect("random");
        stream.append(requested);
        assert_eq!(
            decide(&stream.ledger, plan),
            None,
            "the outbox requests the mail"
        );
        stream.append(mail_requested(&mail_id, subscription_id));
        stream.append(MailAttempted {
            mail_id: mail_id.clone(),
            attempt: 1,
            key_id: key.key_id(),
            sha256: key.hash(),
            manage_sha256: SecretHash::of("token"),
        });
        let delivered = MailDelivered {
            mail_id: mail_id.clone(),
            attempt: 1,
        };
        assert_eq!(decide(&stream.ledger, plan), None, "one is on its way");
        stream.append_at(delivered, (now().timestamp() - ago).into());
        (mail_id, key)
    }

    fn mail_requested(mail_id: &MailId, subscription_id: SubscriptionId) -> MailRequested {
        MailRequested {
            mail_id: mail_id.clone(),
            subscription_id,
            purpose: text("subscription"),
        }
    }

    /// The mail that is requested when the address subscribes again.
    fn next_mail(stream: &Stream, plan: &str) -> Option<MailRequested> {
        match decide(&stream.ledger, plan) {
            Some(Fact::MailRequested(requested)) => Some(requested),
            None => None,
            other => panic!("{other:?}"),
        }
    }

    fn revoke(stream: &mut Stream, key: &ApiKey) {
        stream.append(KeyRevoked {
            key_id: key.key_id(),
            reason: text("not paid"),
        });
    }

    #[test]
    fn subscribing_again_sends_another_key_but_not_at_once() {
        for plan in [FREE, "paid"] {
            let mut stream = Stream::default();
            subscribed(
                &mut stream,
                plan,
                super::RESEND_AFTER - SignedDuration::from_mins(1),
            );
            assert_eq!(next_mail(&stream, plan), None);

            let mut stream = Stream::default();
            let (first, _) = subscribed(
                &mut stream,
                plan,
                super::RESEND_AFTER + SignedDuration::from_mins(1),
            );
            let requested = next_mail(&stream, plan).expect("another mail");
            assert_ne!(requested.mail_id, first);
            assert_eq!(
                next_mail(&stream, plan),
                Some(requested.clone()),
                "the same on every replica"
            );
            let second = requested.mail_id.clone();
            stream.append(requested);
            assert_eq!(next_mail(&stream, plan), None, "it is on its way");

            let reason = text("no such mailbox");
            stream.append(MailFailed {
                mail_id: second.clone(),
                attempt: 0,
                reason,
                is_final: true,
            });
            let third = next_mail(&stream, plan).expect("the second was given up");
            assert!(third.mail_id != first && third.mail_id != second);
        }
    }

    #[test]
    fn a_revoked_subscription_that_needed_approval_is_not_renewed() {
        for plan in [FREE, "paid"] {
            let mut stream = Stream::default();
            let (_, key) = subscribed(&mut stream, plan, SignedDuration::from_hours(1));
            assert!(next_mail(&stream, plan).is_some());
            revoke(&mut stream, &key);
            assert_eq!(next_mail(&stream, plan).is_some(), plan == FREE);
        }
    }

    #[test]
    fn a_subscription_on_another_plan_follows_the_rules_of_that_plan() {
        let mut stream = Stream::default();
        let (_, key) = subscribed(&mut stream, FREE, SignedDuration::from_hours(1));
        stream.append(crate::accounts::PlanChanged {
            key_id: key.key_id(),
            plan: text("paid"),
            revision: 1,
        });
        assert!(next_mail(&stream, FREE).is_some());
        revoke(&mut stream, &key);
        assert_eq!(next_mail(&stream, FREE), None);
    }

    #[test]
    fn a_subscription_waits_for_approval_unless_its_plan_needs_none() {
        let mut stream = Stream::default();
        let Some(Fact::SubscriptionRequested(mut requested)) = decide(&stream.ledger, FREE) else {
            panic!("a new subscription");
        };
        requested.approved = false;
        stream.append(requested);
        let approved = decide(&stream.ledger, FREE).expect("the plan is free");
        assert!(matches!(approved, Fact::SubscriptionApproved(_)));
        stream.append(approved);
        assert_eq!(
            decide(&stream.ledger, FREE),
            None,
            "the outbox requests the mail"
        );

        let paid = decide(&stream.ledger, "paid").expect("a new subscription");
        stream.append(paid);
        assert_eq!(decide(&stream.ledger, "paid"), None);
    }
}
