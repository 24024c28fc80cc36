//! The ledger and the key cache under arbitrary histories.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use events::{Moment, Text};
use jiff::{SignedDuration, Timestamp};
use projections::StoredMessage;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::limits::CoarseNetwork;
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
        self.append_event(&AccountEvent::new(Actor::Service, fact, time), now())
    }

    /// Appends a fact that someone caused now.
    pub(super) fn append_by(&mut self, actor: Actor, fact: impl Into<Fact>) -> Vec<KeyId> {
        self.append_event(&AccountEvent::new(actor, fact, now()), now())
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
    Issue {
        lasts: Option<i64>,
    },
    IssueTo {
        subscription: Index,
    },
    Rotate {
        key: Index,
        overlap: i64,
    },
    Revoke {
        key: Index,
    },
    ChangePlan {
        key: Index,
        revision: u32,
    },
    Subscribe {
        approved: bool,
    },
    SubscribeAgain {
        subscription: Index,
    },
    Approve {
        subscription: Index,
        revision: u32,
    },
    RequestLink {
        subscription: Index,
    },
    Suppress {
        subscription: Index,
    },
    Forget {
        subscription: Index,
        generation: u32,
    },
    Erase {
        subscription: Index,
        generation: u32,
    },
    Attempt {
        mail: Index,
        ahead: u32,
    },
    Deliver {
        attempt: Index,
    },
    Fail {
        attempt: Index,
        is_final: bool,
    },
    StartSession {
        mail: Index,
    },
    EndSession {
        mail: Index,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let pick = any::<Index>;
    prop_oneof![
        1 => prop::option::of(0..60_i64).prop_map(|lasts| Step::Issue { lasts }),
        4 => pick().prop_map(|subscription| Step::IssueTo { subscription }),
        3 => (pick(), 0..30_i64).prop_map(|(key, overlap)| Step::Rotate { key, overlap }),
        1 => pick().prop_map(|key| Step::Revoke { key }),
        1 => (pick(), 1..4_u32).prop_map(|(key, revision)| Step::ChangePlan { key, revision }),
        2 => any::<bool>().prop_map(|approved| Step::Subscribe { approved }),
        1 => pick().prop_map(|subscription| Step::SubscribeAgain { subscription }),
        1 => (pick(), 1..3_u32).prop_map(|(subscription, revision)| Step::Approve { subscription, revision }),
        2 => pick().prop_map(|subscription| Step::RequestLink { subscription }),
        1 => pick().prop_map(|subscription| Step::Suppress { subscription }),
        1 => (pick(), 1..3_u32).prop_map(|(subscription, generation)| Step::Forget { subscription, generation }),
        1 => (pick(), 1..3_u32).prop_map(|(subscription, generation)| Step::Erase { subscription, generation }),
        5 => (pick(), 0..3_u32).prop_map(|(mail, ahead)| Step::Attempt { mail, ahead }),
        2 => pick().prop_map(|attempt| Step::Deliver { attempt }),
        3 => (pick(), any::<bool>()).prop_map(|(attempt, is_final)| Step::Fail { attempt, is_final }),
        5 => pick().prop_map(|mail| Step::StartSession { mail }),
        1 => pick().prop_map(|mail| Step::EndSession { mail }),
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

    /// A request for a subscription, and the id of its first mail.
    fn requested(&mut self, id: &SubscriptionId, generation: u32, approved: bool) -> Fact {
        let mail_id = MailId::because(format_args!("subscription {generation} of {id}"));
        self.mails.push(mail_id);
        SubscriptionRequested {
            subscription_id: id.clone(),
            generation,
            email: sealed(),
            plan: text("basic"),
            approved,
        }
        .into()
    }
}

pub(super) fn sealed() -> SealedEmail {
    SealedEmail::try_from("AAAAAAAA".to_owned()).expect("base64")
}

fn pick<T: Clone>(from: &[T], index: &Index) -> Option<T> {
    (!from.is_empty()).then(|| index.get(from).clone())
}

/// A step as a fact; `None` if there is nothing yet to pick from.
fn fact(step: &Step, at: i64, ids: &mut Generated) -> Option<Fact> {
    Some(match step {
        Step::Issue { lasts } => issued(ids.key(), lasts.map(|lasts| second(at + lasts))),
        Step::IssueTo { subscription } => {
            let subscription_id = pick(&ids.subscriptions, subscription)?;
            let key_id = ids.key();
            SubscriptionKeyIssued {
                subscription_id,
                key_id,
                sha256: SecretHash::of(key_id.as_str()),
                name: text("the website"),
            }
            .into()
        }
        Step::Rotate { key, overlap } => {
            let key_id = pick(&ids.keys, key)?;
            let new_key_id = ids.key();
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
        other => return subscription_fact(other, ids).or_else(|| mail_fact(other, at, ids)),
    })
}

fn subscription_fact(step: &Step, ids: &mut Generated) -> Option<Fact> {
    Some(match step {
        Step::Subscribe { approved } => {
            let id = format!("sub-{}", ids.subscriptions.len());
            let id = SubscriptionId::parse(&id).expect("an id");
            ids.subscriptions.push(id.clone());
            ids.requested(&id, 1, *approved)
        }
        Step::SubscribeAgain { subscription } => {
            let id = pick(&ids.subscriptions, subscription)?;
            ids.requested(&id, 2, true)
        }
        Step::Approve {
            subscription,
            revision,
        } => SubscriptionApproved {
            subscription_id: pick(&ids.subscriptions, subscription)?,
            revision: *revision,
        }
        .into(),
        Step::RequestLink { subscription } => {
            let subscription_id = pick(&ids.subscriptions, subscription)?;
            let mail_id = MailId::parse(&format!("mail-{}", ids.mails.len())).expect("an id");
            ids.mails.push(mail_id.clone());
            LinkRequested {
                subscription_id,
                mail_id,
            }
            .into()
        }
        Step::Suppress { subscription } => SubscriptionSuppressed {
            subscription_id: pick(&ids.subscriptions, subscription)?,
        }
        .into(),
        Step::Forget {
            subscription,
            generation,
        } => SubscriptionForgotten {
            subscription_id: pick(&ids.subscriptions, subscription)?,
            generation: *generation,
        }
        .into(),
        Step::Erase {
            subscription,
            generation,
        } => AddressErased {
            subscription_id: pick(&ids.subscriptions, subscription)?,
            generation: *generation,
        }
        .into(),
        _ => return None,
    })
}

fn mail_fact(step: &Step, at: i64, ids: &mut Generated) -> Option<Fact> {
    Some(match step {
        Step::Attempt { mail, ahead } => attempted(pick(&ids.mails, mail)?, *ahead, at, ids),
        Step::Deliver { attempt } => {
            let (mail_id, attempt) = pick(&ids.attempts, attempt)?;
            MailDelivered { mail_id, attempt }.into()
        }
        Step::Fail { attempt, is_final } => failed(pick(&ids.attempts, attempt)?, *is_final),
        Step::StartSession { mail } => {
            let mail_id = pick(&ids.mails, mail)?;
            SessionStarted {
                sha256: SecretHash::of(&format!("cookie of {mail_id}")),
                mail_id,
                expires_at: second(at + 30),
            }
            .into()
        }
        Step::EndSession { mail } => SessionEnded {
            mail_id: pick(&ids.mails, mail)?,
        }
        .into(),
        _ => return None,
    })
}

fn issued(key_id: KeyId, expires_at: Option<Moment>) -> Fact {
    KeyIssued {
        key_id,
        sha256: SecretHash::of(key_id.as_str()),
        plan: text("basic"),
        name: Text::default(),
        expires_at,
    }
    .into()
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

/// The next attempt of a mail, or a later one.
fn attempted(mail_id: MailId, ahead: u32, at: i64, ids: &mut Generated) -> Fact {
    let before = ids.attempts.iter().filter(|(of, _)| *of == mail_id).count();
    let attempt = (u32::try_from(before).expect("few") + ahead).max(1);
    ids.attempts.push((mail_id.clone(), attempt));
    MailAttempted {
        link: Some(Link {
            sha256: SecretHash::of(&token(&mail_id, second(at))),
            expires_at: second(at + 20),
        }),
        mail_id,
        attempt,
    }
    .into()
}

/// The token of an attempt: of the mail and the time, because an attempt without effect leaves its number to another.
fn token(mail_id: &MailId, attempted_at: Moment) -> String {
    format!("token of {mail_id} at {attempted_at}")
}

/// Who acts in a history: each in turn.
fn actor(at: i64) -> Actor {
    match at % 3 {
        0 => Actor::Service,
        1 => Actor::Operator {
            name: text("alice"),
        },
        _ => Actor::Subscriber {
            network: network(),
            session: None,
        },
    }
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
            .filter_map(|(at, fact)| Some(AccountEvent::new(actor(at), fact?, second(at))))
            .collect()
    })
}

/// The state of a ledger without its sequences.
fn meaning(ledger: &Ledger) -> String {
    let accounts: BTreeMap<_, _> = ledger
        .keys
        .values()
        .map(|key| (&key.holder, ledger.accounts.get(&key.holder)))
        .collect();
    let keys: Vec<_> = ledger.keys.iter().collect();
    let subscriptions: Vec<_> = ledger.subscriptions.iter().collect();
    let open: Vec<_> = ledger.open_mails().collect();
    let to_erase: Vec<_> = ledger.to_erase.iter().collect();
    let access = ledger.access();
    format!("{keys:?} {accounts:?} {subscriptions:?} {open:?} {to_erase:?} {access}")
}

fn folded(history: &[AccountEvent]) -> Stream {
    let mut stream = Stream::default();
    for event in history {
        stream.append_event(event, event.time);
    }
    stream
}

proptest! {
    /// An event that took no effect is no fact: it may take effect later.
    #[test]
    fn an_event_that_took_effect_changes_nothing_when_it_is_repeated_at_any_time(
        history in history(),
        again in prop::collection::vec((any::<Index>(), 0..80_i64), 0..40),
    ) {
        let mut stream = Stream::default();
        let mut effective = Vec::new();
        for (event, at) in history.iter().zip(0..) {
            let before = meaning(&stream.ledger);
            stream.append_event(event, event.time);
            if meaning(&stream.ledger) != before {
                effective.push(event);
            }
            for (of, _) in again.iter().filter(|(_, when)| *when == at) {
                if let Some(event_before) = pick(&effective, of) {
                    stream.append_event(event_before, event.time);
                }
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
        let mut stream = Stream::default();
        let mut over = BTreeSet::new();
        for event in &history {
            stream.append_event(event, event.time);
            for (&key_id, key) in &stream.ledger.keys {
                if !key.is_valid(event.time) {
                    over.insert(key_id);
                }
                prop_assert!(!(over.contains(&key_id) && key.is_valid(event.time)), "{key_id} is valid again");
            }
        }
        for event in &history {
            if let Fact::KeyRevoked(fact) = &event.fact {
                let key = stream.ledger.keys.get(&fact.key_id);
                prop_assert!(key.is_none_or(|key| !key.is_valid(event.time)));
            }
        }
    }

    #[test]
    fn a_link_works_once_until_it_expires_or_the_mail_is_sent_again(history in history()) {
        let mut stream = Stream::default();
        let mut used = BTreeSet::new();
        for event in &history {
            stream.append_event(event, event.time);
            if let Fact::SessionStarted(fact) = &event.fact
                && stream.ledger.session(&format!("cookie of {}", fact.mail_id), event.time).is_some()
            {
                used.insert(fact.mail_id.clone());
            }
            for other in &history {
                let Fact::MailAttempted(fact) = &other.fact else { continue };
                let token = token(&fact.mail_id, other.time);
                if let Some((mail_id, mail)) = stream.ledger.mail_of_link(&token, event.time) {
                    prop_assert!(!used.contains(mail_id), "it was used");
                    prop_assert_eq!(mail.attempts, fact.attempt, "the last attempt");
                    prop_assert!(fact.link.is_some_and(|link| link.expires_at > event.time));
                    prop_assert!(!matches!(mail.state, MailState::Failed(_) | MailState::GivenUp(_)));
                }
            }
        }
    }

    #[test]
    fn a_forgotten_or_suppressed_subscription_has_no_key_no_mail_and_no_session(history in history()) {
        let mut stream = Stream::default();
        for event in &history {
            stream.append_event(event, event.time);
            let ledger = &stream.ledger;
            for (id, subscription) in &ledger.subscriptions {
                if subscription.forgotten_at.is_none() {
                    continue;
                }
                let holder = Holder::Subscription(id.clone());
                prop_assert!(!ledger.keys_of(&holder).any(|(_, key)| key.is_valid(event.time)));
                prop_assert!(!ledger.open_mails().any(|(_, mail)| mail.subscription_id == *id));
                prop_assert!(!ledger.access().contains(&id.to_string()));
            }
        }
    }

    #[test]
    fn a_subscriber_without_approval_gets_no_key(history in history()) {
        let mut stream = Stream::default();
        for event in &history {
            let before = stream.ledger.clone();
            stream.append_event(event, event.time);
            let Fact::SubscriptionKeyIssued(fact) = &event.fact else { continue };
            let known = before.subscriptions.get(&fact.subscription_id);
            let is_active = known.is_some_and(Subscription::is_active);
            prop_assert_eq!(stream.ledger.keys.contains_key(&fact.key_id), is_active);
        }
    }

    #[test]
    fn an_overlap_ends_at_its_time(history in history()) {
        let ledger = folded(&history).ledger;
        for event in &history {
            let Fact::KeyRotated(fact) = &event.fact else { continue };
            let old = ledger.keys.get(&fact.key_id);
            let new = ledger.keys.get(&fact.new_key_id);
            let Some(new) = new else { continue };
            let old = old.expect("the rotated key exists");
            prop_assert!(!old.is_valid(fact.valid_until));
            prop_assert_eq!(&new.holder, &old.holder);
            prop_assert_eq!(new.expires_at, old.expires_at);
        }
    }

    #[test]
    fn a_cache_that_follows_equals_a_cache_that_is_filled_at_the_end(history in history()) {
        let mut stream = Stream::default();
        let following = key_cache();
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
        for (&key_id, key) in &stream.ledger.keys {
            prop_assert_eq!(filled.entries().contains_key(&key_id), key.is_valid(end), "{}", key_id);
        }
    }
}

/// A subscription.
struct Subscriber {
    stream: Stream,
    id: SubscriptionId,
}

impl Subscriber {
    /// Someone who subscribed to a plan that needs no approval.
    fn new() -> Self {
        Self::approved(true)
    }

    fn approved(approved: bool) -> Self {
        let mut stream = Stream::default();
        let id = SubscriptionId::parse("sub-1").expect("an id");
        stream.append(SubscriptionRequested {
            subscription_id: id.clone(),
            generation: 1,
            email: sealed(),
            plan: text("basic"),
            approved,
        });
        Self { stream, id }
    }

    /// The only mail that is neither delivered nor given up.
    fn open_mail(&self) -> (MailId, Mail) {
        let mut open = self.stream.ledger.open_mails();
        let (id, mail) = open.next().expect("an open mail");
        assert!(open.next().is_none(), "it is the only one");
        (id.clone(), mail.clone())
    }

    /// Attempts the open mail, with a token.
    fn attempt(&mut self, token: &str) -> MailId {
        let (mail_id, mail) = self.open_mail();
        self.stream.append(MailAttempted {
            mail_id: mail_id.clone(),
            attempt: mail.attempts + 1,
            link: Some(new_link(token, now())),
        });
        mail_id
    }

    fn deliver(&mut self) {
        let (mail_id, mail) = self.open_mail();
        let attempt = mail.attempts;
        self.stream.append(MailDelivered { mail_id, attempt });
    }

    /// Sends the open mail, and uses its link. Returns the mail and the cookie.
    fn sign_in(&mut self) -> (MailId, String) {
        let mail_id = self.attempt("a token");
        self.deliver();
        let cookie = format!("cookie of {mail_id}");
        self.stream.append(SessionStarted {
            mail_id: mail_id.clone(),
            sha256: SecretHash::of(&cookie),
            expires_at: (now().timestamp() + SESSION_LASTS).into(),
        });
        (mail_id, cookie)
    }

    /// Requests another link.
    fn request_link(&mut self, mail_id: &str) {
        self.stream.append(LinkRequested {
            subscription_id: self.id.clone(),
            mail_id: MailId::parse(mail_id).expect("an id"),
        });
    }

    fn create_key(&mut self) -> KeyId {
        let key = ApiKey::generate("test").expect("random");
        self.stream.append(SubscriptionKeyIssued {
            subscription_id: self.id.clone(),
            key_id: key.key_id,
            sha256: key.hash(),
            name: Text::default(),
        });
        key.key_id
    }

    fn rotate_by(&mut self, actor: Actor, key_id: KeyId) -> KeyId {
        let new = ApiKey::generate("test").expect("random");
        let rotated = KeyRotated {
            key_id,
            valid_until: (now().timestamp() + SignedDuration::from_hours(1)).into(),
            new_key_id: new.key_id,
            new_sha256: new.hash(),
        };
        self.stream.append_by(actor, rotated);
        new.key_id
    }

    fn is_signed_in(&self, cookie: &str) -> bool {
        self.stream.ledger.session(cookie, now()).is_some()
    }

    fn has_link(&self, token: &str) -> bool {
        self.stream.ledger.mail_of_link(token, now()).is_some()
    }

    fn state(&self) -> SubscriptionState {
        let known = self.stream.ledger.subscriptions.get(&self.id);
        known.expect("a subscription").state()
    }
}

fn network() -> CoarseNetwork {
    CoarseNetwork::try_from("203.0.113.0/24".to_owned()).expect("a network")
}

fn operator() -> Actor {
    let name = text("alice");
    Actor::Operator { name }
}

fn in_session(mail_id: &MailId) -> Actor {
    Actor::Subscriber {
        network: network(),
        session: Some(mail_id.clone()),
    }
}

#[test]
fn a_key_can_be_created_after_the_link_was_used_and_not_before() {
    let mut subscriber = Subscriber::new();
    let early = subscriber.create_key();
    assert_eq!(subscriber.stream.ledger.keys.get(&early), None);
    let (_, cookie) = subscriber.sign_in();
    assert!(subscriber.is_signed_in(&cookie) && !subscriber.has_link("a token"));
    let key_id = subscriber.create_key();
    let key = subscriber.stream.ledger.keys.get(&key_id).expect("a key");
    let account = subscriber.stream.ledger.accounts.get(&key.holder);
    assert_eq!(account.expect("an account").plan, text("basic"));
    let (_, notice) = subscriber.open_mail();
    let change = Change::KeyIssued(key_id);
    let by = Actor::Service;
    assert_eq!(notice.content, MailContent::Notice { change, by });
}

#[test]
fn each_attempt_of_a_mail_has_a_link_of_its_own() {
    let mut subscriber = Subscriber::new();
    let mail_id = subscriber.attempt("first");
    assert!(subscriber.has_link("first"));
    // The first replica crashed, and another one tries.
    subscriber.attempt("second");
    assert!(!subscriber.has_link("first") && subscriber.has_link("second"));
    let fail = |attempt, is_final| failed((mail_id.clone(), attempt), is_final);
    subscriber.stream.append(fail(2, false));
    assert!(!subscriber.has_link("second"));
    subscriber.attempt("third");
    subscriber.deliver();
    // The mail was delivered: later events change nothing.
    subscriber.stream.append(fail(3, true));
    assert!(subscriber.has_link("third"));
    assert!(subscriber.stream.ledger.open_mails().next().is_none());
}

#[test]
fn a_link_that_is_used_before_the_delivery_is_recorded_proves_the_delivery() {
    let mut subscriber = Subscriber::new();
    let mail_id = subscriber.attempt("a token");
    subscriber.stream.append(SessionStarted {
        mail_id: mail_id.clone(),
        sha256: SecretHash::of("cookie"),
        expires_at: (now().timestamp() + SESSION_LASTS).into(),
    });
    assert!(subscriber.is_signed_in("cookie"));
    let mail = subscriber
        .stream
        .ledger
        .mails
        .get(&mail_id)
        .expect("a mail");
    assert_eq!(mail.state, MailState::Delivered);
    assert!(subscriber.stream.ledger.open_mails().next().is_none());
}

#[test]
fn a_rotation_locks_out_everybody_but_its_actor() {
    for by_operator in [false, true] {
        let mut subscriber = Subscriber::new();
        let (session, cookie) = subscriber.sign_in();
        let key = subscriber.create_key();
        subscriber.deliver_notice();
        subscriber.request_link("another");
        let (_, other_cookie) = subscriber.sign_in();
        subscriber.request_link("unused");
        subscriber.attempt("unused");
        subscriber.deliver();
        assert!(subscriber.is_signed_in(&cookie) && subscriber.is_signed_in(&other_cookie));
        assert!(subscriber.has_link("unused"));
        let actor = if by_operator {
            operator()
        } else {
            in_session(&session)
        };
        let new = subscriber.rotate_by(actor.clone(), key);
        assert!(!subscriber.has_link("unused") && !subscriber.is_signed_in(&other_cookie));
        assert_eq!(subscriber.is_signed_in(&cookie), !by_operator);
        let (_, notice) = subscriber.open_mail();
        let change = Change::KeyRotated { old: key, new };
        let by = actor;
        assert_eq!(notice.content, MailContent::Notice { change, by });
    }
}

impl Subscriber {
    /// Sends the open notice.
    fn deliver_notice(&mut self) {
        let (mail_id, _) = self.open_mail();
        let link = None;
        let attempt = 1;
        self.stream.append(MailAttempted {
            mail_id,
            attempt,
            link,
        });
        self.deliver();
    }
}

#[test]
fn an_operator_who_revokes_the_last_key_withdraws_the_approval() {
    let mut subscriber = Subscriber::new();
    subscriber.sign_in();
    let revoked = |key_id| KeyRevoked {
        key_id,
        reason: text("not paid"),
    };
    let [first, second] = [(); 2].map(|()| subscriber.create_key());
    subscriber.stream.append_by(operator(), revoked(first));
    assert_eq!(subscriber.state(), SubscriptionState::Active, "one is left");
    subscriber.stream.append_by(operator(), revoked(second));
    assert_eq!(subscriber.state(), SubscriptionState::AwaitingApproval);
    let denied = subscriber.create_key();
    assert_eq!(subscriber.stream.ledger.keys.get(&denied), None);
    subscriber.stream.append(SubscriptionApproved {
        subscription_id: subscriber.id.clone(),
        revision: 1,
    });
    let key = subscriber.create_key();
    let session = MailId::parse("any").expect("an id");
    let revocation = revoked(key);
    subscriber
        .stream
        .append_by(in_session(&session), revocation);
    assert_eq!(
        subscriber.state(),
        SubscriptionState::Active,
        "by the subscriber"
    );
}

#[test]
fn an_address_that_is_suppressed_gets_no_mail_again() {
    let mut subscriber = Subscriber::new();
    subscriber.attempt("a token");
    subscriber.stream.append(SubscriptionSuppressed {
        subscription_id: subscriber.id.clone(),
    });
    assert!(!subscriber.has_link("a token"));
    assert_eq!(subscriber.stream.ledger.to_erase.len(), 1);
    subscriber.stream.append(AddressErased {
        subscription_id: subscriber.id.clone(),
        generation: 1,
    });
    assert_eq!(subscriber.stream.ledger.to_erase.len(), 0);
    subscriber.request_link("another");
    subscriber.stream.append(SubscriptionRequested {
        subscription_id: subscriber.id.clone(),
        generation: 2,
        email: sealed(),
        plan: text("basic"),
        approved: true,
    });
    assert_eq!(subscriber.stream.ledger.open_mails().count(), 0);
    assert_eq!(subscriber.state(), SubscriptionState::Suppressed);
}

#[test]
fn a_forgotten_address_can_be_subscribed_again() {
    let mut subscriber = Subscriber::new();
    let (_, cookie) = subscriber.sign_in();
    let key = subscriber.create_key();
    let forgotten = SubscriptionForgotten {
        subscription_id: subscriber.id.clone(),
        generation: 1,
    };
    let changed = subscriber.stream.append(forgotten);
    let session = SecretHash::of(&cookie).session_id();
    assert_eq!(changed, [key, session]);
    assert!(!subscriber.is_signed_in(&cookie));
    assert_eq!(
        subscriber.stream.ledger.open_mails().count(),
        0,
        "the notice"
    );
    subscriber.stream.append(SubscriptionRequested {
        subscription_id: subscriber.id.clone(),
        generation: 2,
        email: sealed(),
        plan: text("pro"),
        approved: true,
    });
    assert_eq!(subscriber.state(), SubscriptionState::Unconfirmed);
    // The earlier address is still to be erased, and not that of the new subscription.
    let earlier = (subscriber.id.clone(), 1);
    let to_erase: Vec<_> = subscriber.stream.ledger.to_erase.iter().collect();
    assert_eq!(to_erase, [&earlier]);
    subscriber.stream.append(AddressErased {
        subscription_id: subscriber.id.clone(),
        generation: 1,
    });
    assert_eq!(subscriber.stream.ledger.to_erase.len(), 0);
    subscriber.sign_in();
    let new = subscriber.create_key();
    let key = subscriber.stream.ledger.keys.get(&new).expect("a key");
    let account = subscriber.stream.ledger.accounts.get(&key.holder);
    assert_eq!(account.expect("an account").plan, text("pro"));
}

#[test]
fn an_approval_is_announced_to_an_address_that_is_confirmed() {
    let approve = |subscriber: &mut Subscriber| {
        let subscription_id = subscriber.id.clone();
        let revision = 1;
        subscriber.stream.append(SubscriptionApproved {
            subscription_id,
            revision,
        });
    };
    let mut early = Subscriber::approved(false);
    approve(&mut early);
    assert_eq!(early.open_mail().1.content, MailContent::Confirmation);
    let mut late = Subscriber::approved(false);
    late.sign_in();
    assert_eq!(late.state(), SubscriptionState::AwaitingApproval);
    approve(&mut late);
    assert_eq!(late.open_mail().1.content, MailContent::Approved);
}

#[test]
fn a_plan_applies_to_all_keys_of_a_holder() {
    let mut stream = Stream::default();
    let [first, second, other] = [0; 3].map(|_| ApiKey::generate("test").expect("random"));
    for key in [&first, &other] {
        stream.append(KeyIssued::new(key, text("basic"), None));
    }
    stream.append(KeyRotated {
        key_id: first.key_id,
        valid_until: (now().timestamp() + SignedDuration::from_hours(24)).into(),
        new_key_id: second.key_id,
        new_sha256: second.hash(),
    });
    let changed = stream.append(PlanChanged {
        key_id: second.key_id,
        plan: text("pro"),
        revision: 1,
    });
    assert_eq!(changed, [first.key_id, second.key_id]);
    let key_id = first.key_id;
    let plan = text("another");
    let late = PlanChanged {
        key_id,
        plan,
        revision: 1,
    };
    assert_eq!(stream.append(late), [], "another change was first");
    let plan_of = |key: &ApiKey| {
        let holder = &stream.ledger.keys.get(&key.key_id).expect("a key").holder;
        stream
            .ledger
            .accounts
            .get(holder)
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
    let subject = AccountSubject::Key(key.key_id);
    assert_eq!(stream.ledger.last_seq(&subject), 0);
    stream.append(KeyIssued::new(&key, text("basic"), None));
    assert_eq!(stream.ledger.last_seq(&subject), 1);
    // A message that cannot be decoded counts too.
    let _ = stream.append_raw(&subject.to_string(), b"{}", now());
    assert_eq!(
        (stream.ledger.last_seq(&subject), stream.ledger.seq),
        (2, 2)
    );
}
