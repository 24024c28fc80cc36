//! The ledger and the ring under any history.

use std::collections::{BTreeMap, BTreeSet};

use events::{Moment, Text};
use jiff::{SignedDuration, Timestamp};
use projections::StoredMessage;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::log::Outgoing;

pub(super) fn now() -> Moment {
    Timestamp::now().into()
}

fn text(text: &str) -> Text {
    Text::parse(text).expect("text")
}

/// A stream, and the fold of it.
#[derive(Default)]
pub(super) struct Stream {
    pub(super) ledger: Ledger,
    seq: u64,
}

impl Stream {
    /// Says something now.
    pub(super) fn say(&mut self, fact: impl Into<Fact>) -> Vec<KeyId> {
        self.say_at(fact, now())
    }

    /// Says something that happened at a time.
    pub(super) fn say_at(&mut self, fact: impl Into<Fact>, time: Moment) -> Vec<KeyId> {
        self.take(&AccountEvent::new(fact, time), now())
    }

    fn take(&mut self, event: &AccountEvent, recorded_at: Moment) -> Vec<KeyId> {
        let outgoing = Outgoing::from(event);
        self.take_raw(&outgoing.subject, &outgoing.payload, recorded_at)
            .expect("its own event")
    }

    fn take_raw(
        &mut self,
        subject: &str,
        payload: &[u8],
        recorded_at: Moment,
    ) -> Result<Vec<KeyId>, NotUnderstood> {
        self.seq += 1;
        let seq = self.seq;
        self.ledger.fold(StoredMessage {
            seq,
            recorded_at,
            subject,
            payload,
        })
    }
}

/// The `n`th second of a history.
fn second(n: i64) -> Moment {
    let beginning: Timestamp = "2026-11-21T00:00:00Z".parse().expect("a time");
    (beginning + SignedDuration::from_secs(n)).into()
}

/// One thing that happens. What it is about is picked from what there is by then.
#[derive(Debug, Clone)]
enum Step {
    Issue { lasts: Option<i64> },
    IssueTo { subscription: Index },
    Rotate { key: Index, overlap: i64 },
    Revoke { key: Index },
    ChangePlan { key: Index, revision: u32 },
    Subscribe { approved: bool },
    Approve { subscription: Index },
    Wish { subscription: Index },
    Attempt { mail: Index, ahead: u32 },
    Deliver { attempt: Index },
    Fail { attempt: Index, is_final: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let pick = any::<Index>;
    prop_oneof![
        1 => prop::option::of(0..60_i64).prop_map(|lasts| Step::Issue { lasts }),
        1 => pick().prop_map(|subscription| Step::IssueTo { subscription }),
        3 => (pick(), 0..30_i64).prop_map(|(key, overlap)| Step::Rotate { key, overlap }),
        1 => pick().prop_map(|key| Step::Revoke { key }),
        1 => (pick(), 1..4_u32).prop_map(|(key, revision)| Step::ChangePlan { key, revision }),
        1 => any::<bool>().prop_map(|approved| Step::Subscribe { approved }),
        1 => pick().prop_map(|subscription| Step::Approve { subscription }),
        2 => pick().prop_map(|subscription| Step::Wish { subscription }),
        5 => (pick(), 0..3_u32).prop_map(|(mail, ahead)| Step::Attempt { mail, ahead }),
        2 => pick().prop_map(|attempt| Step::Deliver { attempt }),
        3 => (pick(), any::<bool>()).prop_map(|(attempt, is_final)| Step::Fail { attempt, is_final }),
    ]
}

/// What was made so far, whether it took effect or not.
#[derive(Default)]
struct Made {
    keys: Vec<KeyId>,
    subscriptions: Vec<SubscriptionId>,
    mails: Vec<MailId>,
    attempts: Vec<(MailId, u32)>,
}

impl Made {
    fn key(&mut self) -> KeyId {
        let key_id = KeyId::parse(&format!("{:08}", self.keys.len())).expect("an id");
        self.keys.push(key_id);
        key_id
    }
}

fn pick<T: Clone>(from: &[T], index: &Index) -> Option<T> {
    (!from.is_empty()).then(|| index.get(from).clone())
}

/// A step as a fact; `None` if there is nothing yet that it could be about.
fn fact(step: &Step, at: i64, made: &mut Made) -> Option<Fact> {
    Some(match step {
        Step::Issue { lasts } => issued(made.key(), None, lasts.map(|lasts| second(at + lasts))),
        Step::IssueTo { subscription } => {
            let subscription = pick(&made.subscriptions, subscription)?;
            issued(made.key(), Some(subscription), None)
        }
        Step::Rotate { key, overlap } => {
            let (key_id, new_key_id) = (pick(&made.keys, key)?, made.key());
            KeyRotated {
                key_id,
                valid_until: second(at + overlap),
                new_key_id,
                new_sha256: SecretHash::of(new_key_id.as_str()),
            }
            .into()
        }
        Step::Revoke { key } => KeyRevoked {
            key_id: pick(&made.keys, key)?,
            reason: text("compromised"),
        }
        .into(),
        Step::ChangePlan { key, revision } => PlanChanged {
            key_id: pick(&made.keys, key)?,
            plan: text(&format!("plan {at}")),
            revision: *revision,
        }
        .into(),
        Step::Subscribe { approved } => {
            let id = format!("sub-{}", made.subscriptions.len());
            let subscription_id = SubscriptionId::parse(&id).expect("an id");
            made.subscriptions.push(subscription_id.clone());
            SubscriptionRequested {
                subscription_id,
                email: Email::parse("a@racing.example").expect("an address"),
                plan: text("basic"),
                approved: *approved,
            }
            .into()
        }
        Step::Approve { subscription } => SubscriptionApproved {
            subscription_id: pick(&made.subscriptions, subscription)?,
        }
        .into(),
        Step::Wish { subscription } => {
            let subscription_id = pick(&made.subscriptions, subscription)?;
            let mail_id = MailId::parse(&format!("mail-{}", made.mails.len())).expect("an id");
            made.mails.push(mail_id.clone());
            let purpose = text("welcome");
            MailRequested {
                mail_id,
                subscription_id,
                purpose,
            }
            .into()
        }
        Step::Attempt { mail, ahead } => attempted(pick(&made.mails, mail)?, *ahead, made),
        Step::Deliver { attempt } => {
            let (mail_id, attempt) = pick(&made.attempts, attempt)?;
            MailDelivered { mail_id, attempt }.into()
        }
        Step::Fail { attempt, is_final } => {
            let (mail_id, attempt) = pick(&made.attempts, attempt)?;
            let reason = text("450 busy");
            MailFailed {
                mail_id,
                attempt,
                reason,
                is_final: *is_final,
            }
            .into()
        }
    })
}

fn issued(
    key_id: KeyId,
    subscription_id: Option<SubscriptionId>,
    expires_at: Option<Moment>,
) -> Fact {
    KeyIssued {
        key_id,
        sha256: SecretHash::of(key_id.as_str()),
        plan: text("default"),
        subscription_id,
        expires_at,
    }
    .into()
}

/// An attempt after, at or before the one that would be next.
fn attempted(mail_id: MailId, ahead: u32, made: &mut Made) -> Fact {
    let before = made
        .attempts
        .iter()
        .filter(|(of, _)| *of == mail_id)
        .count();
    let attempt = (u32::try_from(before).expect("few") + ahead).max(1);
    made.attempts.push((mail_id.clone(), attempt));
    let key_id = made.key();
    MailAttempted {
        mail_id,
        attempt,
        key_id,
        sha256: SecretHash::of(key_id.as_str()),
        manage_sha256: SecretHash::of("token"),
    }
    .into()
}

/// An event a second.
fn history() -> impl Strategy<Value = Vec<AccountEvent>> {
    prop::collection::vec(step(), 0..60).prop_map(|steps| {
        let mut made = Made::default();
        let facts = steps
            .iter()
            .zip(0..)
            .map(|(step, at)| (at, fact(step, at, &mut made)));
        facts
            .filter_map(|(at, fact)| Some(AccountEvent::new(fact?, second(at))))
            .collect()
    })
}

/// What a ledger means, without where it was said.
fn meaning(ledger: &Ledger) -> String {
    let accounts: BTreeMap<_, _> = ledger
        .keys()
        .map(|(_, key)| (&key.holder, ledger.account(&key.holder)))
        .collect();
    let keys: Vec<_> = ledger.keys().collect();
    let subscriptions: Vec<_> = ledger.subscriptions().collect();
    let open: Vec<_> = ledger.open_mails().collect();
    let awaiting_mail: Vec<_> = ledger.awaiting_mail().collect();
    format!("{keys:?} {accounts:?} {subscriptions:?} {open:?} {awaiting_mail:?}")
}

fn told(history: &[AccountEvent]) -> Stream {
    let mut stream = Stream::default();
    for event in history {
        stream.take(event, event.time);
    }
    stream
}

/// Which keys came of an attempt of a mail, by rotation too: told from the events alone.
fn of_attempts(history: &[AccountEvent]) -> BTreeMap<KeyId, (MailId, u32)> {
    let mut of: BTreeMap<KeyId, (MailId, u32)> = BTreeMap::new();
    for event in history {
        match &event.fact {
            Fact::MailAttempted(fact) => {
                of.insert(fact.key_id, (fact.mail_id.clone(), fact.attempt));
            }
            Fact::KeyRotated(fact) => {
                if let Some(attempt) = of.get(&fact.key_id).cloned() {
                    of.insert(fact.new_key_id, attempt);
                }
            }
            _ => {}
        }
    }
    of
}

proptest! {
    #[test]
    fn what_is_said_again_at_any_time_changes_nothing(
        history in history(),
        again in prop::collection::vec((any::<Index>(), 0..80_i64), 0..40),
    ) {
        let mut stream = Stream::default();
        for (event, at) in history.iter().zip(0..) {
            stream.take(event, event.time);
            for (of, _) in again.iter().filter(|(_, when)| *when == at) {
                stream.take(of.get(&history[..=usize::try_from(at).expect("small")]), event.time);
            }
        }
        prop_assert_eq!(meaning(&stream.ledger), meaning(&told(&history).ledger));
    }

    #[test]
    fn what_is_not_understood_changes_nothing(history in history(), seq in any::<Index>(), garbage in any::<Vec<u8>>()) {
        let mut stream = Stream::default();
        for (event, at) in history.iter().zip(0..) {
            stream.take(event, event.time);
            if at == seq.index(history.len()) {
                let unknown = br#"{"specversion":"1.0","id":"1","source":"later","type":"accounts.key.lent.v9","time":"2026-11-21T00:00:00Z","data":{}}"#;
                prop_assert!(stream.take_raw("accounts.key.00000000", unknown, event.time).is_err());
                prop_assert!(stream.take_raw("accounts.key.00000000", &garbage, event.time).is_err());
            }
        }
        prop_assert_eq!(meaning(&stream.ledger), meaning(&told(&history).ledger));
    }

    #[test]
    fn a_key_that_is_not_valid_never_is_again(history in history()) {
        let (mut stream, mut over) = (Stream::default(), BTreeSet::new());
        for event in &history {
            stream.take(event, event.time);
            for (key_id, key) in stream.ledger.keys() {
                if !key.is_valid(event.time) {
                    over.insert(key_id);
                }
                prop_assert!(!(over.contains(&key_id) && key.is_valid(event.time)), "{key_id} came back");
            }
        }
        for event in &history {
            if let Fact::KeyRevoked(fact) = &event.fact {
                let key = stream.ledger.key(fact.key_id);
                prop_assert!(key.is_none_or(|key| !key.is_valid(event.time)));
            }
        }
    }

    #[test]
    fn of_the_attempts_of_a_mail_one_at_most_has_left_a_working_key(history in history()) {
        let mut stream = Stream::default();
        let of_attempts = of_attempts(&history);
        for event in &history {
            stream.take(event, event.time);
            let mut working: BTreeMap<MailId, BTreeSet<u32>> = BTreeMap::new();
            for (key_id, (mail, attempt)) in &of_attempts {
                if stream.ledger.key(*key_id).is_some_and(|key| key.is_valid(event.time)) {
                    working.entry(mail.clone()).or_default().insert(*attempt);
                }
            }
            prop_assert!(working.values().all(|attempts| attempts.len() <= 1), "{working:?}");
        }
    }

    #[test]
    fn an_overlap_ends_when_it_was_said_to(history in history()) {
        let ledger = told(&history).ledger;
        for event in &history {
            let Fact::KeyRotated(fact) = &event.fact else { continue };
            let (old, new) = (ledger.key(fact.key_id), ledger.key(fact.new_key_id));
            let Some(new) = new else { continue };
            let old = old.expect("what was rotated is there");
            prop_assert!(!old.is_valid(fact.valid_until));
            prop_assert_eq!(&new.holder, &old.holder);
            prop_assert_eq!(new.expires_at, old.expires_at);
        }
    }

    #[test]
    fn a_subscription_that_is_approved_of_is_unanswered_until_a_mail_is_wished(history in history()) {
        let ledger = told(&history).ledger;
        let of = |fact: &Fact| match fact {
            Fact::SubscriptionRequested(fact) if fact.approved => Some((fact.subscription_id.clone(), true)),
            Fact::SubscriptionApproved(fact) => Some((fact.subscription_id.clone(), true)),
            Fact::MailRequested(fact) => Some((fact.subscription_id.clone(), false)),
            _ => None,
        };
        let said: Vec<_> = history.iter().filter_map(|event| of(&event.fact)).collect();
        let wished: BTreeSet<_> = said.iter().filter(|(_, approved)| !approved).map(|(id, _)| id).collect();
        let approved: BTreeSet<_> = said.iter().filter(|(_, approved)| *approved).map(|(id, _)| id).collect();
        let awaiting_mail: BTreeSet<_> = ledger.awaiting_mail().map(|(id, _)| id).collect();
        prop_assert_eq!(awaiting_mail, &approved - &wished);
    }

    #[test]
    fn a_ring_that_follows_is_the_ring_that_is_filled_at_the_end(history in history()) {
        let (mut stream, following) = (Stream::default(), KeyCache::default());
        following.fill(&stream.ledger, second(0));
        for event in &history {
            let changed = stream.take(event, event.time);
            following.update(&stream.ledger, &changed, event.time);
            following.drop_ended(event.time);
        }
        let end = second(60);
        following.drop_ended(end);
        let filled = KeyCache::default();
        filled.fill(&stream.ledger, end);
        prop_assert_eq!(following.entries(), filled.entries());
        for (key_id, key) in stream.ledger.keys() {
            prop_assert_eq!(filled.entries().contains_key(&key_id), key.is_valid(end), "{}", key_id);
        }
    }
}

/// A subscription, a mail, and its first attempts.
struct Outbox {
    stream: Stream,
    mail_id: MailId,
}

impl Outbox {
    fn new() -> Self {
        let mut stream = Stream::default();
        let subscription_id = SubscriptionId::parse("sub-1").expect("an id");
        let mail_id = MailId::parse("mail-1").expect("an id");
        stream.say(SubscriptionRequested {
            subscription_id: subscription_id.clone(),
            email: Email::parse("a@racing.example").expect("an address"),
            plan: text("basic"),
            approved: true,
        });
        stream.say(MailRequested {
            mail_id: mail_id.clone(),
            subscription_id,
            purpose: text("welcome"),
        });
        Self { stream, mail_id }
    }

    fn attempt(&mut self, attempt: u32) -> KeyId {
        let key = ApiKey::generate("test").expect("random");
        self.stream.say(MailAttempted {
            mail_id: self.mail_id.clone(),
            attempt,
            key_id: key.key_id(),
            sha256: key.hash(),
            manage_sha256: SecretHash::of("token"),
        });
        key.key_id()
    }

    fn fail(&mut self, attempt: u32, is_final: bool) {
        let (mail_id, reason) = (self.mail_id.clone(), text("450 busy"));
        self.stream.say(MailFailed {
            mail_id,
            attempt,
            reason,
            is_final,
        });
    }

    fn state_of(&self, key_id: KeyId) -> KeyState {
        self.stream.ledger.key(key_id).expect("a key").state(now())
    }

    fn is_open(&self) -> bool {
        self.stream.ledger.open_mails().next().is_some()
    }
}

#[test]
fn an_attempt_makes_its_key_valid_and_takes_back_the_one_before() {
    let mut outbox = Outbox::new();
    let first = outbox.attempt(1);
    assert_eq!(outbox.state_of(first), KeyState::Valid);
    let key = outbox.stream.ledger.key(first).expect("a key");
    let account = outbox
        .stream
        .ledger
        .account(&key.holder)
        .expect("an account");
    assert_eq!(account.plan, text("basic"), "of the subscription");
    // The one who sent it crashed, and another one tries.
    let second = outbox.attempt(2);
    assert_eq!(outbox.state_of(first), KeyState::Revoked);
    assert_eq!(outbox.state_of(second), KeyState::Valid);
    outbox.fail(2, false);
    assert_eq!(outbox.state_of(second), KeyState::Revoked);
    assert!(outbox.is_open(), "it will be tried again");
    let third = outbox.attempt(3);
    outbox.stream.say(MailDelivered {
        mail_id: outbox.mail_id.clone(),
        attempt: 3,
    });
    assert!(!outbox.is_open());
    // Too late: it was delivered.
    outbox.fail(3, true);
    let fourth = outbox.attempt(4);
    assert_eq!(outbox.state_of(third), KeyState::Valid);
    assert_eq!(outbox.stream.ledger.key(fourth), None);
}

#[test]
fn a_mail_that_is_given_up_leaves_no_key() {
    let mut outbox = Outbox::new();
    let key = outbox.attempt(1);
    outbox.fail(1, false);
    outbox.fail(1, true);
    assert!(!outbox.is_open());
    assert_eq!(outbox.state_of(key), KeyState::Revoked);
    let later = outbox.attempt(2);
    assert_eq!(outbox.stream.ledger.key(later), None);

    let mut outbox = Outbox::new();
    outbox.fail(0, true);
    assert!(!outbox.is_open(), "nor does one that nobody tried to send");
}

#[test]
fn a_plan_is_that_of_all_keys_of_a_holder() {
    let mut stream = Stream::default();
    let [first, second, other] = [0; 3].map(|_| ApiKey::generate("test").expect("random"));
    for key in [&first, &other] {
        stream.say(KeyIssued::new(key, text("basic"), None));
    }
    stream.say(KeyRotated {
        key_id: first.key_id(),
        valid_until: (now().timestamp() + SignedDuration::from_hours(24)).into(),
        new_key_id: second.key_id(),
        new_sha256: second.hash(),
    });
    let changed = stream.say(PlanChanged {
        key_id: second.key_id(),
        plan: text("pro"),
        revision: 1,
    });
    assert_eq!(changed, [first.key_id(), second.key_id()]);
    let (key_id, plan) = (first.key_id(), text("another"));
    let overtaken = PlanChanged {
        key_id,
        plan,
        revision: 1,
    };
    assert_eq!(stream.say(overtaken), [], "somebody was first");
    let plan_of = |key: &ApiKey| {
        let holder = &stream.ledger.key(key.key_id()).expect("a key").holder;
        stream
            .ledger
            .account(holder)
            .expect("an account")
            .plan
            .clone()
    };
    assert_eq!(
        [&first, &second, &other].map(plan_of),
        ["pro", "pro", "basic"].map(text)
    );
}

#[test]
fn who_writes_knows_where_the_last_event_of_a_subject_stands() {
    let mut stream = Stream::default();
    let key = ApiKey::generate("test").expect("random");
    let subject = Subject::Key(key.key_id());
    assert_eq!(stream.ledger.last_seq(&subject), 0);
    stream.say(KeyIssued::new(&key, text("basic"), None));
    assert_eq!(stream.ledger.last_seq(&subject), 1);
    // What is not understood stands there too.
    let _ = stream.take_raw(&subject.to_string(), b"{}", now());
    assert_eq!(
        (stream.ledger.last_seq(&subject), stream.ledger.seq()),
        (2, 2)
    );
}
