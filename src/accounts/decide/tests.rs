//! Decisions on subscriptions.

use events::{Moment, Text};
use jiff::SignedDuration;

use super::*;
use crate::accounts::tests::{Stream, sealed};
use crate::accounts::{MailAttempted, MailDelivered, SubscriptionRequested, now};

fn text(text: &str) -> Text {
    Text::parse(text).expect("text")
}

fn ago(minutes: i64) -> Moment {
    (now().timestamp() - SignedDuration::from_mins(minutes)).into()
}

/// A subscription whose first mail was delivered with the link `token`.
struct Subscribed {
    stream: Stream,
    id: SubscriptionId,
    mail_id: MailId,
}

impl Subscribed {
    fn new(delivered_at: Moment) -> Self {
        let mut stream = Stream::default();
        let id = SubscriptionId::parse("sub-1").expect("an id");
        let requested = SubscriptionRequested {
            generation: next_generation(&stream.ledger, &id).expect("a new subscription"),
            subscription_id: id.clone(),
            email: sealed(),
            plan: text("free"),
            approved: true,
        };
        stream.append_at(requested, delivered_at);
        let (mail_id, _) = stream.ledger.open_mails().next().expect("a mail");
        let mail_id = mail_id.clone();
        let attempt = 1;
        stream.append_at(
            MailAttempted {
                mail_id: mail_id.clone(),
                attempt,
                link: Some(new_link("token", now())),
            },
            delivered_at,
        );
        let delivered = MailDelivered {
            mail_id: mail_id.clone(),
            attempt,
        };
        stream.append_at(delivered, delivered_at);
        Self {
            stream,
            id,
            mail_id,
        }
    }

    /// The mail that a request for a link names.
    fn next_link(&self) -> MailId {
        let ledger = &self.stream.ledger;
        let known = current(ledger, &self.id).expect("it is subscribed");
        request_link(ledger, self.id.clone(), known, now()).mail_id
    }

    fn sign_in(&mut self) {
        let fact = start_session(&self.stream.ledger, "token", "cookie", now());
        self.stream.append(fact.expect("the link works"));
    }

    fn create(&mut self, keys_max: usize) -> Result<KeyId, CommandError> {
        let key = ApiKey::generate("test").expect("random");
        let named = (&key, Text::default());
        let ledger = &self.stream.ledger;
        let fact = issue_to_subscriber(ledger, self.id.clone(), named, keys_max, now())?;
        self.stream.append(fact);
        Ok(key.key_id)
    }
}

#[test]
fn another_link_is_sent_once_the_last_one_is_used_or_old() {
    let minutes = RESEND_AFTER.as_mins();
    let recent = Subscribed::new(ago(minutes - 1));
    assert_eq!(recent.next_link(), recent.mail_id, "it changes nothing");
    let old = Subscribed::new(ago(minutes + 1));
    let next = old.next_link();
    assert_ne!(next, old.mail_id);
    assert_eq!(next, old.next_link(), "the same on every replica");
    let mut used = Subscribed::new(ago(minutes - 1));
    used.sign_in();
    assert_ne!(used.next_link(), used.mail_id);
}

#[test]
fn a_link_cannot_be_used_twice() {
    let mut subscribed = Subscribed::new(ago(1));
    subscribed.sign_in();
    let again = start_session(&subscribed.stream.ledger, "token", "other", now());
    assert!(matches!(again, Err(CommandError::UnknownLink)));
    let unused = Subscribed::new(ago(1));
    let late: Moment = (now().timestamp() + LINK_LASTS).into();
    let late = start_session(&unused.stream.ledger, "token", "cookie", late);
    assert!(matches!(late, Err(CommandError::UnknownLink)));
}

#[test]
fn a_link_that_nobody_asked_for_ends_a_new_subscription_and_no_other() {
    let new = Subscribed::new(ago(1));
    let fact = reject_link(&new.stream.ledger, "token", now()).expect("a link");
    assert!(matches!(fact, Fact::SubscriptionSuppressed(_)));
    let mut old = Subscribed::new(ago(10));
    old.sign_in();
    let mail_id = old.next_link();
    old.stream.append(LinkRequested {
        subscription_id: old.id.clone(),
        mail_id: mail_id.clone(),
    });
    old.stream.append(MailAttempted {
        mail_id,
        attempt: 1,
        link: Some(new_link("another", now())),
    });
    let fact = reject_link(&old.stream.ledger, "another", now()).expect("a link");
    assert!(matches!(fact, Fact::SessionEnded(_)));
    old.stream.append(fact);
    assert!(reject_link(&old.stream.ledger, "another", now()).is_err());
    assert!(old.stream.ledger.session("cookie", now()).is_some());
}

#[test]
fn a_plan_bounds_the_keys_of_a_subscriber_and_those_that_overlap() {
    let mut subscribed = Subscribed::new(ago(1));
    assert!(matches!(
        subscribed.create(2),
        Err(CommandError::NotActive(SubscriptionState::Unconfirmed))
    ));
    subscribed.sign_in();
    let mut last = subscribed.create(2).expect("the first");
    subscribed.create(2).expect("the second");
    let full = subscribed.create(2);
    assert!(matches!(full, Err(CommandError::TooManyKeys(2))));

    let holder = Holder::Subscription(subscribed.id.clone());
    let later = (now().timestamp() + SignedDuration::from_hours(1)).into();
    for rotations in 0.. {
        let ledger = &subscribed.stream.ledger;
        if check_overlaps(ledger, &holder, 2, now()).is_err() {
            assert_eq!(rotations, 2, "four keys are valid");
            break;
        }
        let new = ApiKey::generate("test").expect("random");
        let rotated = rotate(ledger, last, &new, later, now()).expect("it is valid");
        subscribed.stream.append(rotated);
        last = new.key_id;
    }
}

#[test]
fn an_approval_is_an_event_once_and_not_of_an_ended_subscription() {
    let mut subscribed = Subscribed::new(ago(1));
    let id = subscribed.id.clone();
    let approved = approve(&subscribed.stream.ledger, id.clone());
    assert!(approved.expect("known").is_none(), "with the request");
    let forgotten = forget(&subscribed.stream.ledger, id.clone()).expect("known");
    subscribed.stream.append(forgotten.expect("an event"));
    let again = forget(&subscribed.stream.ledger, id.clone()).expect("known");
    assert!(again.is_none());
    let approved = approve(&subscribed.stream.ledger, id);
    assert!(matches!(approved, Err(CommandError::NotActive(_))));
}
