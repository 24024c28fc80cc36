//! [`AccountCommands`]: what subscribers ask for, said into the stream.

use std::time::Duration;

use events::{Moment, Text};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{
    AccountEvent, ApiKey, Email, Fact, Holder, KeyId, KeyRevoked, KeyRotated, KeyState, Ledger,
    Mail, MailId, MailRequested, MailState, Subject, SubscriptionApproved, SubscriptionId,
    SubscriptionRequested,
};
use crate::log::{ACCOUNTS, Log, LogError, Outgoing};

/// Who asks again within this time is not sent another mail: the first is on its way.
const ANOTHER_MAIL_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// What stands in the stream is heard within moments, unless the stream was replaced meanwhile.
const HEARD_WITHIN: Duration = Duration::from_secs(5);
const SENT_AGAIN: &str = "asked again";
const REVOKED_BY_LINK: &str = "the subscriber, by the link in the mail";

/// Where subscribers ask. What became of it is read from the ledger, and not from what was said: somebody else may have said
/// something at the same moment, here or at another replica.
#[derive(Debug, Clone)]
pub struct AccountCommands {
    log: Log,
    ledger: watch::Receiver<Ledger>,
}

impl AccountCommands {
    /// A commands that writes to this log and hears of it by this ledger.
    #[must_use]
    pub fn new(log: Log, ledger: watch::Receiver<Ledger>) -> Self {
        Self { log, ledger }
    }

    /// Subscribes an address to a plan. Where it is subscribed already, it is sent another key of the same subscription, but not
    /// soon after the last one.
    ///
    /// `is_free` says of a plan that nobody has to approve of it. One that was approved of once, and has no valid key any more,
    /// was ended by somebody: asking again does not bring it back.
    ///
    /// # Errors
    /// The log does not take it.
    pub async fn subscribe(
        &self,
        email: Email,
        plan: Text,
        is_free: impl Fn(&Text) -> bool,
    ) -> Result<(), LogError> {
        let (fact, last_seq) = {
            let ledger = self.ledger.borrow();
            let Some(fact) = answer(&ledger, email, plan, is_free) else {
                return Ok(());
            };
            let last_seq = ledger.last_seq(&fact.subject());
            (fact, last_seq)
        };
        self.say(fact, last_seq).await
    }

    /// Lets a key take the place of another, and says whether it has. Said twice, of one key and the same other one, it has once.
    ///
    /// # Errors
    /// The log does not take it.
    pub async fn rotate(
        &self,
        key_id: KeyId,
        new: &ApiKey,
        overlap: SignedDuration,
    ) -> Result<bool, LogError> {
        let now = Timestamp::now();
        let valid_until = now.saturating_add(overlap).unwrap_or(Timestamp::MAX).into();
        let last_seq = {
            let ledger = self.ledger.borrow();
            let key = ledger.key(key_id);
            let rotatable = key.is_some_and(|key| key.state(now.into()) == KeyState::Valid);
            rotatable.then(|| ledger.last_seq(&Subject::Key(key_id)))
        };
        if let Some(last_seq) = last_seq {
            let rotated = KeyRotated {
                key_id,
                valid_until,
                new_key_id: new.key_id(),
                new_sha256: new.hash(),
            };
            self.say(rotated, last_seq).await?;
        }
        let ledger = self.ledger.borrow();
        let made = ledger.key(new.key_id());
        Ok(made.is_some_and(|key| key.hash == new.hash() && key.is_valid(self::now())))
    }

    /// Takes a key back.
    ///
    /// # Errors
    /// The log does not take it.
    pub async fn revoke(&self, key_id: KeyId) -> Result<(), LogError> {
        loop {
            let last_seq = {
                let ledger = self.ledger.borrow();
                let valid = ledger.key(key_id).filter(|key| key.revoked.is_none());
                valid.map(|_| ledger.last_seq(&Subject::Key(key_id)))
            };
            let Some(last_seq) = last_seq else {
                return Ok(());
            };
            let reason = Text::parse(REVOKED_BY_LINK).unwrap_or_default();
            self.say(KeyRevoked { key_id, reason }, last_seq).await?;
        }
    }

    /// Says something behind a place on its subject, unless somebody else has said something there, and waits until the ledger
    /// has what stands there now.
    async fn say(&self, fact: impl Into<Fact>, last_seq: u64) -> Result<(), LogError> {
        let event = AccountEvent::new(fact, now());
        let subject = event.fact.subject();
        let outgoing = Outgoing::from(&event);
        match self
            .log
            .append_expecting(ACCOUNTS, outgoing, last_seq)
            .await
        {
            Ok(_) | Err(LogError::Conflict) => {}
            Err(error) => return Err(error),
        }
        let mut ledger = self.ledger.clone();
        let heard = ledger.wait_for(|ledger| ledger.last_seq(&subject) > last_seq);
        match timeout(HEARD_WITHIN, heard).await {
            Ok(Ok(_)) => Ok(()),
            // It is in the stream, but this service is ending, or reads another one.
            Ok(Err(_)) | Err(_) => Err(LogError::Unreachable("it was not heard again".to_owned())),
        }
    }
}

/// What is said when an address asks for a plan, if anything is.
fn answer(
    ledger: &Ledger,
    email: Email,
    plan: Text,
    is_free: impl Fn(&Text) -> bool,
) -> Option<Fact> {
    let subscription_id = SubscriptionId::of(&email, &plan);
    let holder = Holder::Subscription(subscription_id.clone());
    let (Some(known), Some(account)) = (
        ledger.subscription(&subscription_id),
        ledger.account(&holder),
    ) else {
        let approved = is_free(&plan);
        return Some(Fact::from(SubscriptionRequested {
            subscription_id,
            email,
            plan,
            approved,
        }));
    };
    let is_free = is_free(&account.plan);
    if known.approved_at.is_none() {
        // Plans may have changed since it was asked for.
        return is_free.then(|| Fact::from(SubscriptionApproved { subscription_id }));
    }
    let last = known.mail.as_ref()?;
    let mut keys = account.keys.iter().filter_map(|id| ledger.key(*id));
    let is_alive = is_free || keys.any(|key| key.is_valid(now()));
    let may_be_sent = is_alive && !ledger.mail(last).is_some_and(is_on_its_way);
    may_be_sent.then(|| {
        Fact::from(MailRequested {
            mail_id: MailId::after(last),
            subscription_id,
            purpose: Text::parse(SENT_AGAIN).unwrap_or_default(),
        })
    })
}

fn is_on_its_way(mail: &Mail) -> bool {
    match mail.state {
        MailState::Wished | MailState::UnderWay | MailState::Failed(_) => true,
        MailState::Delivered => {
            let age = Timestamp::now().duration_since(mail.since.timestamp());
            age < ANOTHER_MAIL_AFTER
        }
        MailState::GivenUp(_) => false,
    }
}

fn now() -> Moment {
    Timestamp::now().into()
}

#[cfg(test)]
mod tests {
    use events::Text;
    use jiff::SignedDuration;

    use super::{KeyRevoked, Ledger, MailId, MailRequested, SubscriptionId, answer, now};
    use crate::accounts::tests::Stream;
    use crate::accounts::{
        ApiKey, Email, Fact, MailAttempted, MailDelivered, MailFailed, SecretHash,
    };

    const FREE: &str = "free";

    fn text(text: &str) -> Text {
        Text::parse(text).expect("text")
    }

    /// What is said when somebody asks for a plan.
    fn asked(ledger: &Ledger, plan: &str) -> Option<Fact> {
        let email = Email::parse("a@racing.example").expect("an address");
        answer(ledger, email, text(plan), |plan| plan.as_str() == FREE)
    }

    /// A subscription with a mail that was delivered so long ago, and the key in it.
    fn subscribed(stream: &mut Stream, plan: &str, ago: SignedDuration) -> (MailId, ApiKey) {
        let Some(Fact::SubscriptionRequested(mut requested)) = asked(&stream.ledger, plan) else {
            panic!("it is not known yet");
        };
        assert_eq!(requested.approved, plan == FREE);
        requested.approved = true;
        let subscription_id = requested.subscription_id.clone();
        let mail_id = MailId::first_to(&subscription_id);
        let key = ApiKey::generate("test").expect("random");
        stream.say(requested);
        assert_eq!(asked(&stream.ledger, plan), None, "a mail comes by itself");
        stream.say(wish(&mail_id, subscription_id));
        stream.say(MailAttempted {
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
        assert_eq!(asked(&stream.ledger, plan), None, "one is on its way");
        stream.say_at(delivered, (now().timestamp() - ago).into());
        (mail_id, key)
    }

    fn wish(mail_id: &MailId, subscription_id: SubscriptionId) -> MailRequested {
        MailRequested {
            mail_id: mail_id.clone(),
            subscription_id,
            purpose: text("subscription"),
        }
    }

    /// The mail that is wished for when somebody asks again.
    fn next(stream: &Stream, plan: &str) -> Option<MailRequested> {
        match asked(&stream.ledger, plan) {
            Some(Fact::MailRequested(wished)) => Some(wished),
            None => None,
            other => panic!("{other:?}"),
        }
    }

    fn revoke(stream: &mut Stream, key: &ApiKey) {
        stream.say(KeyRevoked {
            key_id: key.key_id(),
            reason: text("not paid"),
        });
    }

    #[test]
    fn who_asks_again_is_sent_another_key_but_not_soon() {
        for plan in [FREE, "paid"] {
            let mut stream = Stream::default();
            subscribed(&mut stream, plan, SignedDuration::from_mins(9));
            assert_eq!(next(&stream, plan), None);

            let mut stream = Stream::default();
            let (first, _) = subscribed(&mut stream, plan, SignedDuration::from_mins(11));
            let wished = next(&stream, plan).expect("another mail");
            assert_ne!(wished.mail_id, first);
            assert_eq!(
                next(&stream, plan),
                Some(wished.clone()),
                "whoever wishes says the same"
            );
            let second = wished.mail_id.clone();
            stream.say(wished);
            assert_eq!(next(&stream, plan), None, "it is on its way");

            let reason = text("no such mailbox");
            stream.say(MailFailed {
                mail_id: second.clone(),
                attempt: 0,
                reason,
                is_final: true,
            });
            let third = next(&stream, plan).expect("the second never comes");
            assert!(third.mail_id != first && third.mail_id != second);
        }
    }

    #[test]
    fn what_had_to_be_approved_of_and_was_ended_does_not_come_back() {
        for plan in [FREE, "paid"] {
            let mut stream = Stream::default();
            let (_, key) = subscribed(&mut stream, plan, SignedDuration::from_hours(1));
            assert!(next(&stream, plan).is_some());
            revoke(&mut stream, &key);
            assert_eq!(next(&stream, plan).is_some(), plan == FREE);
        }
    }

    #[test]
    fn who_was_put_on_another_plan_is_held_to_that_one() {
        let mut stream = Stream::default();
        let (_, key) = subscribed(&mut stream, FREE, SignedDuration::from_hours(1));
        stream.say(crate::accounts::PlanChanged {
            key_id: key.key_id(),
            plan: text("paid"),
            revision: 1,
        });
        assert!(next(&stream, FREE).is_some());
        revoke(&mut stream, &key);
        assert_eq!(next(&stream, FREE), None);
    }

    #[test]
    fn what_waits_for_approval_waits_unless_the_plan_needs_none_any_more() {
        let mut stream = Stream::default();
        let Some(Fact::SubscriptionRequested(mut requested)) = asked(&stream.ledger, FREE) else {
            panic!("it is not known yet");
        };
        requested.approved = false;
        stream.say(requested);
        let approved = asked(&stream.ledger, FREE).expect("it is free now");
        assert!(matches!(approved, Fact::SubscriptionApproved(_)));
        stream.say(approved);
        assert_eq!(asked(&stream.ledger, FREE), None, "a mail comes by itself");

        let paid = asked(&stream.ledger, "paid").expect("it is not known yet");
        stream.say(paid);
        assert_eq!(asked(&stream.ledger, "paid"), None);
    }
}
