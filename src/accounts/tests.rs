//! The ledger and the key cache under arbitrary histories.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use events::{Moment, Text};
use jiff::{SignedDuration, Timestamp};
use projections::StoredMessage;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::limits::plans::Plans;
use crate::log::Outgoing;

fn text(text: &str) -> Text {
    Text::parse(text).expect("text")
}

pub(super) fn key_cache() -> KeyCache {
    KeyCache::new(Plans::default(), Duration::MAX)
}

/// A stream and its fold.
#[derive(Default)]
pub(super) struct Stream {
    pub(super) ledger: Ledger,
    seq: u64,
}

impl Stream {
    /// Appends a fact of this moment, and returns the keys that changed.
    pub(super) fn append(&mut self, fact: impl Into<Fact>) -> Vec<KeyId> {
        self.append_at(fact, now())
    }

    /// Appends a fact that happened at a time.
    pub(super) fn append_at(&mut self, fact: impl Into<Fact>, time: Moment) -> Vec<KeyId> {
        self.append_event(&AccountEvent::new(fact, time), now())
    }

    fn append_event(&mut self, event: &AccountEvent, recorded_at: Moment) -> Vec<KeyId> {
        let outgoing = Outgoing::from(event);
        self.append_raw(&outgoing.subject, &outgoing.payload, recorded_at)
            .expect("an event of this version")
    }

    fn append_raw(
        &mut self,
        subject: &str,
        payload: &[u8],
        recorded_at: Moment,
    ) -> Result<Vec<KeyId>, AccountEventError> {
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

/// One event of a history. Its key, subscription or mail is picked from those of earlier steps.
#[derive(Debug, Clone)]
enum Step {
    Issue { lasts: Option<i64> },
    IssueTo { subscription: Index },
    Rotate { key: Index, overlap: i64 },
    Revoke { key: Index },
    ChangePlan { key: Index, revision: u32 },
    Subscribe { approved: bool },
    Approve { subscription: Index },
    RequestMail { subscription: Index },
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
        2 => pick().prop_map(|subscription| Step::RequestMail { subscription }),
        5 => (pick(), 0..3_u32).prop_map(|(mail, ahead)| Step::Attempt { mail, ahead }),
        2 => pick().prop_map(|attempt| Step::Deliver { attempt }),
        3 => (pick(), any::<bool>()).prop_map(|(attempt, is_final)| Step::Fail { attempt, is_final }),
    ]
}

/// The ids that earlier steps generated, whether their events took effect or not.
#[derive(Default)]
struct Generated {
    keys: Vec<KeyId>,
    subscriptions: Vec<SubscriptionId>,
    mails: Vec<MailId>,
    attempts: Vec<(MailId, u32)>,
}

impl Generated {
    fn key(&mut self) -> KeyId {
        let key_id = KeyId::parse(&format!("{:08}", self.keys.len())).expect("an id");
        self.keys.push(key_id);
        key_id
    }
}

fn pick<T: Clone>(from: &[T], index: &Index) -> Option<T> {
    (!from.is_empty()).then(|| index.get(from).clone())
}

/// A step as a fact; `None` if there is nothing yet to pick from.
fn fact(step: &Step, at: i64, ids: &mut Generated) -> Option<Fact> {
    Some(match step {
        Step::Issue { lasts } => issued(ids.key(), None, lasts.map(|lasts| second(at + lasts))),
        Step::IssueTo { subscription } => {
            let subscription = pick(&ids.subscriptions, subscription)?;
            issued(ids.key(), Some(subscription), None)
        }
        Step::Rotate { key, overlap } => {
            let (key_id, new_key_id) = (pick(&ids.keys, key)?, ids.key());
            KeyRotated {
                key_id,
                valid_until: second(at + overlap),
                new_key_id,
                new_sha256: SecretHash::of(new_key_id.as_str()),
            }
            .into()
        }
        Step::Revoke { key } => KeyRevoked {
            key_id: pick(&ids.keys, key)?,
            reason: text("compromised"),
        }
        .into(),
        Step::ChangePlan { key, revision } => PlanChanged {
            key_id: pick(&ids.keys, key)?,
            plan: text(&format!("plan {at}")),
            revision: *revision,
        }
        .into(),
        Step::Subscribe { approved } => {
            let id = format!("sub-{}", ids.subscriptions.len());
            let subscription_id = SubscriptionId::parse(&id).expect("an id");
            ids.subscriptions.push(subscription_id.clone());
            SubscriptionRequested {
                subscription_id,
                email: Email::parse("a@racing.example").expect("an address"),
                plan: text("basic"),
                approved: *approved,
            }
            .into()
        }
        Step::Approve { subscription } => SubscriptionApproved {
            subscription_id: pick(&ids.subscriptions, subscription)?,
        }
        .into(),
        Step::RequestMail { subscription } => {
            let subscription_id = pick(&ids.subscriptions, subscription)?;
            let mail_id = MailId::parse(&format!("mail-{}", ids.mails.len())).expect("an id");
            ids.mails.push(mail_id.clone());
            let purpose = text("welcome");
            MailRequested {
                mail_id,
                subscription_id,
                purpose,
            }
            .into()
        }
        Step::Attempt { mail, ahead } => attempted(pick(&ids.mails, mail)?, *ahead, ids),
        Step::Deliver { attempt } => {
            let (mail_id, attempt) = pick(&ids.attempts, attempt)?;
            MailDelivered { mail_id, attempt }.into()
        }
        Step::Fail { attempt, is_final } => failed(pick(&ids.attempts, attempt)?, *is_final),
    })
}

fn failed((mail_id, attempt): (MailId, u32), is_final: bool) -> Fact {
    MailFailed {
        mail_id,
        attempt,
        reason: text("450 busy"),
        is_final,
    }
    .into()
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

/// An attempt whose number is the last one's or up to two higher.
fn attempted(mail_id: MailId, ahead: u32, ids: &mut Generated) -> Fact {
    let before = ids.attempts.iter().filter(|(of, _)| *of == mail_id).count();
    let attempt = (u32::try_from(before).expect("few") + ahead).max(1);
    ids.attempts.push((mail_id.clone(), attempt));
    let key_id = ids.key();
    MailAttempted {
        mail_id,
        attempt,
        key_id,
        sha256: SecretHash::of(key_id.as_str()),
        manage_sha256: SecretHash::of("token"),
    }
    .into()
}

/// A history of one event per second.
fn history() -> impl Strategy<Value = Vec<AccountEvent>> {
    prop::collection::vec(step(), 0..60).prop_map(|steps| {
        let mut ids = Generated::default();
        let facts = steps
            .iter()
            .zip(0..)
            .map(|(step, at)| (at, fact(step, at, &mut ids)));
        facts
            .filter_map(|(at, fact)| Some(AccountEvent::new(fact?, second(at))))
            .collect()
    })
}

/// The state of a ledger without its sequences.
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

fn folded(history: &[AccountEvent]) -> Stream {
    let mut stream = Stream::default();
    for event in history {
        stream.append_event(event, event.time);
    }
    stream
}

/// The keys that an attempt of a mail created, directly or by rotation, computed from the events alone.
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
    fn a_repeated_event_changes_nothing_at_any_time(
        history in history(),
        again in prop::collection::vec((any::<Index>(), 0..80_i64), 0..40),
    ) {
        let mut stream = Stream::default();
        for (event, at) in history.iter().zip(0..) {
            stream.append_event(event, event.time);
            for (of, _) in again.iter().filter(|(_, when)| *when == at) {
                stream.append_event(of.get(&history[..=usize::try_from(at).expect("small")]), event.time);
            }
        }
        prop_assert_eq!(meaning(&stream.ledger), meaning(&folded(&history).ledger));
    }

    #[test]
    fn a_message_that_cannot_be_decoded_changes_nothing(history in history(), seq in any::<Index>(), garbage in any::<Vec<u8>>()) {
        let mut stream = Stream::default();
        for (event, at) in history.iter().zip(0..) {
            stream.append_event(event, event.time);
            if at == seq.index(history.len()) {
                let unknown = br#"{"specversion":"1.0","id":"1","source":"later","type":"accounts.key.lent.v9","time":"2026-11-21T00:00:00Z","data":{}}"#;
                prop_assert!(stream.append_raw("accounts.key.00000000", unknown, event.time).is_err());
                prop_assert!(stream.append_raw("accounts.key.00000000", &garbage, event.time).is_err());
            }
        }
        prop_assert_eq!(meaning(&stream.ledger), meaning(&folded(&history).ledger));
    }

    #[test]
    fn an_invalid_key_never_becomes_valid_again(history in history()) {
        let (mut stream, mut over) = (Stream::default(), BTreeSet::new());
        for event in &history {
            stream.append_event(event, event.time);
            for (key_id, key) in stream.ledger.keys() {
                if !key.is_valid(event.time) {
                    over.insert(key_id);
                }
                prop_assert!(!(over.contains(&key_id) && key.is_valid(event.time)), "{key_id} is valid again");
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
    fn at_most_one_attempt_of_a_mail_leaves_a_working_key(history in history()) {
        let mut stream = Stream::default();
        let of_attempts = of_attempts(&history);
        for event in &history {
            stream.append_event(event, event.time);
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
    fn an_overlap_ends_at_its_time(history in history()) {
        let ledger = folded(&history).ledger;
        for event in &history {
            let Fact::KeyRotated(fact) = &event.fact else { continue };
            let (old, new) = (ledger.key(fact.key_id), ledger.key(fact.new_key_id));
            let Some(new) = new else { continue };
            let old = old.expect("the rotated key exists");
            prop_assert!(!old.is_valid(fact.valid_until));
            prop_assert_eq!(&new.holder, &old.holder);
            prop_assert_eq!(new.expires_at, old.expires_at);
        }
    }

    #[test]
    fn an_approved_subscription_awaits_mail_until_one_is_requested(history in history()) {
        let ledger = folded(&history).ledger;
        let of = |fact: &Fact| match fact {
            Fact::SubscriptionRequested(fact) if fact.approved => Some((fact.subscription_id.clone(), true)),
            Fact::SubscriptionApproved(fact) => Some((fact.subscription_id.clone(), true)),
            Fact::MailRequested(fact) => Some((fact.subscription_id.clone(), false)),
            _ => None,
        };
        let events: Vec<_> = history.iter().filter_map(|event| of(&event.fact)).collect();
        let requested: BTreeSet<_> = events.iter().filter(|(_, approved)| !approved).map(|(id, _)| id).collect();
        let approved: BTreeSet<_> = events.iter().filter(|(_, approved)| *approved).map(|(id, _)| id).collect();
        let awaiting_mail: BTreeSet<_> = ledger.awaiting_mail().map(|(id, _)| id).collect();
        prop_assert_eq!(awaiting_mail, &approved - &requested);
    }

    #[test]
    fn a_cache_that_follows_equals_a_cache_that_is_filled_at_the_end(history in history()) {
        let (mut stream, following) = (Stream::default(), key_cache());
        following.fill(&stream.ledger, second(0));
        for event in &history {
            let changed = stream.append_event(event, event.time);
            following.update(&stream.ledger, &changed, event.time);
            following.remove_expired(event.time);
        }
        let end = second(60);
        following.remove_expired(end);
        let filled = key_cache();
        filled.fill(&stream.ledger, end);
        prop_assert_eq!(following.entries(), filled.entries());
        for (key_id, key) in stream.ledger.keys() {
            prop_assert_eq!(filled.entries().contains_key(&key_id), key.is_valid(end), "{}", key_id);
        }
    }
}

/// A subscription with a mail.
struct MailFixture {
    stream: Stream,
    mail_id: MailId,
}

impl MailFixture {
    fn new() -> Self {
        let mut stream = Stream::default();
        let subscription_id = SubscriptionId::parse("sub-1").expect("an id");
        let mail_id = MailId::parse("mail-1").expect("an id");
        stream.append(SubscriptionRequested {
            subscription_id: subscription_id.clone(),
            email: Email::parse("a@racing.example").expect("an address"),
            plan: text("basic"),
            approved: true,
        });
        stream.append(MailRequested {
            mail_id: mail_id.clone(),
            subscription_id,
            purpose: text("welcome"),
        });
        Self { stream, mail_id }
    }

    fn attempt(&mut self, attempt: u32) -> KeyId {
        let key = ApiKey::generate("test").expect("random");
        self.stream.append(MailAttempted {
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
        self.stream.append(MailFailed {
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
fn an_attempt_makes_its_key_valid_and_revokes_the_previous_one() {
    let mut mail = MailFixture::new();
    let first = mail.attempt(1);
    assert_eq!(mail.state_of(first), KeyState::Valid);
    let key = mail.stream.ledger.key(first).expect("a key");
    let account = mail.stream.ledger.account(&key.holder).expect("an account");
    assert_eq!(account.plan, text("basic"), "the plan of the subscription");
    // The first replica crashed, and another one tries.
    let second = mail.attempt(2);
    assert_eq!(mail.state_of(first), KeyState::Revoked);
    assert_eq!(mail.state_of(second), KeyState::Valid);
    mail.fail(2, false);
    assert_eq!(mail.state_of(second), KeyState::Revoked);
    assert!(mail.is_open(), "it will be tried again");
    let third = mail.attempt(3);
    mail.stream.append(MailDelivered {
        mail_id: mail.mail_id.clone(),
        attempt: 3,
    });
    assert!(!mail.is_open());
    // The mail was delivered: later events change nothing.
    mail.fail(3, true);
    let fourth = mail.attempt(4);
    assert_eq!(mail.state_of(third), KeyState::Valid);
    assert_eq!(mail.stream.ledger.key(fourth), None);
}

#[test]
fn a_mail_that_is_given_up_leaves_no_key() {
    let mut mail = MailFixture::new();
    let key = mail.attempt(1);
    mail.fail(1, false);
    mail.fail(1, true);
    assert!(!mail.is_open());
    assert_eq!(mail.state_of(key), KeyState::Revoked);
    let later = mail.attempt(2);
    assert_eq!(mail.stream.ledger.key(later), None);

    let mut mail = MailFixture::new();
    mail.fail(0, true);
    assert!(!mail.is_open(), "given up before the first attempt");
}

#[test]
fn a_plan_applies_to_all_keys_of_a_holder() {
    let mut stream = Stream::default();
    let [first, second, other] = [0; 3].map(|_| ApiKey::generate("test").expect("random"));
    for key in [&first, &other] {
        stream.append(KeyIssued::new(key, text("basic"), None));
    }
    stream.append(KeyRotated {
        key_id: first.key_id(),
        valid_until: (now().timestamp() + SignedDuration::from_hours(24)).into(),
        new_key_id: second.key_id(),
        new_sha256: second.hash(),
    });
    let changed = stream.append(PlanChanged {
        key_id: second.key_id(),
        plan: text("pro"),
        revision: 1,
    });
    assert_eq!(changed, [first.key_id(), second.key_id()]);
    let (key_id, plan) = (first.key_id(), text("another"));
    let late = PlanChanged {
        key_id,
        plan,
        revision: 1,
    };
    assert_eq!(stream.append(late), [], "another change was first");
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
fn the_ledger_knows_the_last_sequence_of_each_subject() {
    let mut stream = Stream::default();
    let key = ApiKey::generate("test").expect("random");
    let subject = AccountSubject::Key(key.key_id());
    assert_eq!(stream.ledger.last_seq(&subject), 0);
    stream.append(KeyIssued::new(&key, text("basic"), None));
    assert_eq!(stream.ledger.last_seq(&subject), 1);
    // A message that cannot be decoded counts too.
    let _ = stream.append_raw(&subject.to_string(), b"{}", now());
    assert_eq!(
        (stream.ledger.last_seq(&subject), stream.ledger.seq()),
        (2, 2)
    );
}
