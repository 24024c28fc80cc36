//! [`Ledger`]: what the stream `ACCOUNTS` means: keys, who holds them, subscriptions and mails.
//!
//! A fold: pure, synchronous and total. An event that says what cannot be (a rotation of a revoked key, an attempt of a mail
//! that nobody wished) changes nothing, and so does one that is said again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use events::{Moment, Text};
use jiff::Timestamp;
use projections::StoredMessage;

use super::event::{
    AccountEvent, Fact, KeyIssued, KeyRevoked, KeyRotated, MailAttempted, MailDelivered,
    MailFailed, MailRequested, NotUnderstood, PlanChanged, SubscriptionRequested,
};
use super::{Email, KeyId, MailId, SecretHash, Subject, SubscriptionId};

const NOT_SENT: &str = "the mail with it was not sent";
const SENT_ANEW: &str = "the mail was sent again, with another key";

/// Keys, who holds them, subscriptions and mails, as of one place in the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    seq: u64,
    keys: BTreeMap<KeyId, Key>,
    accounts: HashMap<Holder, Account>,
    subscriptions: BTreeMap<SubscriptionId, Subscription>,
    /// Those that are approved of, and of which no mail was wished yet.
    awaiting_mail: BTreeSet<SubscriptionId>,
    mails: BTreeMap<MailId, Mail>,
    /// Those that are neither delivered nor given up.
    open_mails: BTreeSet<MailId>,
    /// Which mail a link is from. Of each mail those of the last attempt count.
    links: HashMap<SecretHash, MailId>,
    /// Where the last event of each subject stands.
    last_seqs: HashMap<Box<str>, u64>,
}

/// Who holds keys. A plan and its limits are the holder's: a key that was rotated has them together with the one before.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// Of a key without a subscription, and all that came of it by rotation: the first of them.
    Key(KeyId),
    /// A subscription.
    Subscription(SubscriptionId),
}

/// What a holder has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The plan.
    pub plan: Text,
    /// How often it was changed.
    pub plan_revision: u32,
    /// The keys, in the order in which they were made.
    pub keys: Vec<KeyId>,
}

/// A key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// What is kept of it.
    pub hash: SecretHash,
    /// Whose it is.
    pub holder: Holder,
    /// When it was made.
    pub issued_at: Moment,
    /// When it ends by itself.
    pub expires_at: Option<Moment>,
    /// What took its place.
    pub rotated: Option<Rotation>,
    /// It was taken back.
    pub revoked: Option<Revocation>,
}

/// Another key took the place of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// The new key.
    pub to: KeyId,
    /// The end of the overlap, in which both are valid.
    pub overlap_until: Moment,
}

/// A key was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    /// When.
    pub at: Moment,
    /// Why; empty if nobody said.
    pub reason: Text,
}

/// Where a key stands at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It is valid.
    Valid,
    /// It is valid, and so is the key that takes its place.
    Overlapping,
    /// Another key has taken its place.
    Rotated,
    /// It ended by itself.
    Expired,
    /// It was taken back.
    Revoked,
}

impl KeyState {
    /// As lists say it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Overlapping => "overlapping",
            Self::Rotated => "rotated",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl Key {
    fn new(hash: SecretHash, holder: Holder, issued_at: Moment) -> Self {
        Self {
            hash,
            holder,
            issued_at,
            expires_at: None,
            rotated: None,
            revoked: None,
        }
    }

    /// When it ends, unless it is taken back before: it expires, or the overlap is over.
    #[must_use]
    pub fn valid_until(&self) -> Option<Moment> {
        let overlap = self.rotated.map(|rotation| rotation.overlap_until);
        overlap.into_iter().chain(self.expires_at).min()
    }

    /// Where it stands at a moment.
    #[must_use]
    pub fn state(&self, now: Moment) -> KeyState {
        let over = |end: Moment| end <= now;
        match &self.rotated {
            _ if self.revoked.is_some() => KeyState::Revoked,
            _ if self.expires_at.is_some_and(over) => KeyState::Expired,
            Some(rotation) if over(rotation.overlap_until) => KeyState::Rotated,
            Some(_) => KeyState::Overlapping,
            None => KeyState::Valid,
        }
    }

    /// Whether it opens anything at a moment.
    #[must_use]
    pub fn is_valid(&self, now: Moment) -> bool {
        matches!(self.state(now), KeyState::Valid | KeyState::Overlapping)
    }
}

/// A subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Where its keys are sent.
    pub email: Email,
    /// When it was asked for.
    pub requested_at: Moment,
    /// When it was approved of: at once, or by an operator.
    pub approved_at: Option<Moment>,
    /// The latest mail with a key.
    pub mail: Option<MailId>,
}

/// A mail with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// To whom.
    pub subscription_id: SubscriptionId,
    /// What for.
    pub purpose: Text,
    /// When it was wished.
    pub requested_at: Moment,
    /// When it was first tried to send it.
    pub begun_at: Option<Moment>,
    /// Where it stands.
    pub state: MailState,
    /// Since when.
    pub since: Moment,
    /// The last attempt.
    pub attempt: Option<Attempt>,
}

/// An attempt to send a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Which it is, from 1.
    pub number: u32,
    /// The key that was made for it.
    pub key_id: KeyId,
    /// What is kept of the token in its links.
    pub manage_hash: SecretHash,
}

/// Where a mail stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailState {
    /// Nobody has tried yet.
    Wished,
    /// Somebody tries.
    UnderWay,
    /// The last attempt failed.
    Failed(Text),
    /// It reached the mail server.
    Delivered,
    /// There will be no other attempt.
    GivenUp(Text),
}

impl MailState {
    /// As lists say it.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Wished => "requested",
            Self::UnderWay => "under_way",
            Self::Failed(_) => "failed",
            Self::Delivered => "delivered",
            Self::GivenUp(_) => "given_up",
        }
    }

    /// Why it was not taken.
    #[must_use]
    pub fn reason(&self) -> Option<&Text> {
        match self {
            Self::Failed(reason) | Self::GivenUp(reason) => Some(reason),
            Self::Wished | Self::UnderWay | Self::Delivered => None,
        }
    }
}

/// What stands in the stream at one place, and when the stream took it.
struct Said {
    time: Moment,
    recorded_at: Moment,
}

impl Ledger {
    /// Takes in a message of the stream, and names the keys that are new, on another plan, or valid for another time than before.
    ///
    /// # Errors
    /// This version does not understand it. It changes nothing.
    pub fn fold(&mut self, message: StoredMessage<'_>) -> Result<Vec<KeyId>, NotUnderstood> {
        self.seq = message.seq;
        self.last_seqs.insert(message.subject.into(), message.seq);
        let AccountEvent { time, fact, .. } =
            AccountEvent::decode(message.subject, message.payload)?;
        let said = Said {
            time,
            recorded_at: message.recorded_at,
        };
        Ok(match fact {
            Fact::KeyIssued(fact) => self.issue(&said, fact),
            Fact::KeyRotated(fact) => self.rotate(&said, &fact),
            Fact::KeyRevoked(fact) => self.revoke(&said, fact),
            Fact::PlanChanged(fact) => self.change_plan(fact),
            Fact::SubscriptionRequested(fact) => self.subscribe(&said, fact),
            Fact::SubscriptionApproved(fact) => self.approve(&said, &fact.subscription_id),
            Fact::MailRequested(fact) => self.wish(&said, fact),
            Fact::MailAttempted(fact) => self.attempt(&said, &fact),
            Fact::MailDelivered(fact) => self.deliver(&said, &fact),
            Fact::MailFailed(fact) => self.fail(&said, fact),
        })
    }

    fn issue(&mut self, said: &Said, fact: KeyIssued) -> Vec<KeyId> {
        let holder = match fact.subscription_id {
            Some(id) => Holder::Subscription(id),
            None => Holder::Key(fact.key_id),
        };
        let mut key = Key::new(fact.sha256, holder, said.time);
        key.expires_at = fact.expires_at;
        self.add(fact.key_id, key, fact.plan)
    }

    /// Takes in a key, unless there is one with its id.
    fn add(&mut self, key_id: KeyId, key: Key, plan: Text) -> Vec<KeyId> {
        if self.keys.contains_key(&key_id) {
            return Vec::new();
        }
        let account = self.accounts.entry(key.holder.clone());
        account.or_insert(Account::on(plan)).keys.push(key_id);
        self.keys.insert(key_id, key);
        vec![key_id]
    }

    fn rotate(&mut self, said: &Said, fact: &KeyRotated) -> Vec<KeyId> {
        if self.keys.contains_key(&fact.new_key_id) {
            return Vec::new();
        }
        let Some(old) = self.keys.get_mut(&fact.key_id) else {
            return Vec::new();
        };
        if old.state(said.recorded_at) != KeyState::Valid {
            return Vec::new();
        }
        old.rotated = Some(Rotation {
            to: fact.new_key_id,
            overlap_until: fact.valid_until,
        });
        let mut new = Key::new(fact.new_sha256, old.holder.clone(), said.time);
        new.expires_at = old.expires_at;
        let mut changed = self.add(fact.new_key_id, new, Text::default());
        changed.push(fact.key_id);
        changed
    }

    fn revoke(&mut self, said: &Said, fact: KeyRevoked) -> Vec<KeyId> {
        match self.keys.get_mut(&fact.key_id) {
            Some(key) if key.revoked.is_none() => {
                key.revoked = Some(Revocation {
                    at: said.time,
                    reason: fact.reason,
                });
                vec![fact.key_id]
            }
            _ => Vec::new(),
        }
    }

    fn change_plan(&mut self, fact: PlanChanged) -> Vec<KeyId> {
        let key = self.keys.get(&fact.key_id);
        let account = key.and_then(|key| self.accounts.get_mut(&key.holder));
        match account {
            Some(account) if account.plan_revision < fact.revision => {
                account.plan = fact.plan;
                account.plan_revision = fact.revision;
                account.keys.clone()
            }
            _ => Vec::new(),
        }
    }

    fn subscribe(&mut self, said: &Said, fact: SubscriptionRequested) -> Vec<KeyId> {
        let holder = Holder::Subscription(fact.subscription_id.clone());
        let account = self.accounts.entry(holder);
        account.or_insert(Account::on(fact.plan));
        let id = fact.subscription_id;
        if self.subscriptions.contains_key(&id) {
            return Vec::new();
        }
        let subscription = Subscription {
            email: fact.email,
            requested_at: said.time,
            approved_at: None,
            mail: None,
        };
        self.subscriptions.insert(id.clone(), subscription);
        if fact.approved {
            self.approve(said, &id);
        }
        Vec::new()
    }

    fn approve(&mut self, said: &Said, id: &SubscriptionId) -> Vec<KeyId> {
        if let Some(subscription) = self.subscriptions.get_mut(id) {
            subscription.approved_at.get_or_insert(said.time);
            if subscription.mail.is_none() {
                self.awaiting_mail.insert(id.clone());
            }
        }
        Vec::new()
    }

    fn wish(&mut self, said: &Said, fact: MailRequested) -> Vec<KeyId> {
        if self.mails.contains_key(&fact.mail_id) {
            return Vec::new();
        }
        if let Some(subscription) = self.subscriptions.get_mut(&fact.subscription_id) {
            subscription.mail = Some(fact.mail_id.clone());
            self.awaiting_mail.remove(&fact.subscription_id);
            self.open_mails.insert(fact.mail_id.clone());
            let mail = Mail {
                subscription_id: fact.subscription_id,
                purpose: fact.purpose,
                requested_at: said.time,
                begun_at: None,
                state: MailState::Wished,
                since: said.time,
                attempt: None,
            };
            self.mails.insert(fact.mail_id, mail);
        }
        Vec::new()
    }

    fn attempt(&mut self, said: &Said, fact: &MailAttempted) -> Vec<KeyId> {
        let Some(mail) = self.mails.get_mut(&fact.mail_id) else {
            return Vec::new();
        };
        let said_before = fact.attempt <= mail.attempts() || self.keys.contains_key(&fact.key_id);
        if mail.is_over() || said_before {
            return Vec::new();
        }
        mail.stands(MailState::UnderWay, said);
        mail.begun_at.get_or_insert(said.time);
        let before = mail.attempt.replace(Attempt {
            number: fact.attempt,
            key_id: fact.key_id,
            manage_hash: fact.manage_sha256,
        });
        if let Some(before) = before {
            self.links.remove(&before.manage_hash);
        }
        self.links.insert(fact.manage_sha256, fact.mail_id.clone());
        let holder = Holder::Subscription(mail.subscription_id.clone());
        let mut changed = self.take_back(before, said, SENT_ANEW);
        let key = Key::new(fact.sha256, holder, said.time);
        changed.extend(self.add(fact.key_id, key, Text::default()));
        changed
    }

    fn deliver(&mut self, said: &Said, fact: &MailDelivered) -> Vec<KeyId> {
        let mail = self.mails.get_mut(&fact.mail_id);
        let under_way = |mail: &&mut Mail| mail.state == MailState::UnderWay;
        if let Some(mail) = mail.filter(under_way)
            && mail.attempts() == fact.attempt
        {
            mail.stands(MailState::Delivered, said);
            self.open_mails.remove(&fact.mail_id);
        }
        Vec::new()
    }

    fn fail(&mut self, said: &Said, fact: MailFailed) -> Vec<KeyId> {
        let Some(mail) = self.mails.get_mut(&fact.mail_id) else {
            return Vec::new();
        };
        let news = match mail.state {
            MailState::Wished | MailState::UnderWay => true,
            MailState::Failed(_) => fact.is_final,
            MailState::Delivered | MailState::GivenUp(_) => false,
        };
        if !news || mail.attempts() != fact.attempt {
            return Vec::new();
        }
        let attempt = mail.attempt;
        if fact.is_final {
            mail.stands(MailState::GivenUp(fact.reason), said);
            self.open_mails.remove(&fact.mail_id);
        } else {
            mail.stands(MailState::Failed(fact.reason), said);
        }
        self.take_back(attempt, said, NOT_SENT)
    }

    /// Takes back the key of an attempt, and what came of it by rotation: a mail leaves one working key.
    fn take_back(&mut self, attempt: Option<Attempt>, said: &Said, why: &str) -> Vec<KeyId> {
        let reason = Text::parse(why).unwrap_or_default();
        let mut taken = Vec::new();
        let mut next = attempt.map(|attempt| attempt.key_id);
        while let Some(key_id) = next {
            let reason = reason.clone();
            taken.extend(self.revoke(said, KeyRevoked { key_id, reason }));
            let key = self.keys.get(&key_id);
            next = key.and_then(|key| key.rotated).map(|rotated| rotated.to);
        }
        taken
    }
}

impl Account {
    fn on(plan: Text) -> Self {
        Self {
            plan,
            plan_revision: 0,
            keys: Vec::new(),
        }
    }
}

impl Mail {
    /// How often it was tried to send it.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempt.map_or(0, |attempt| attempt.number)
    }

    fn is_over(&self) -> bool {
        matches!(self.state, MailState::Delivered | MailState::GivenUp(_))
    }

    fn stands(&mut self, state: MailState, said: &Said) {
        self.state = state;
        self.since = said.time;
    }
}

impl Ledger {
    /// The last message that was folded, understood or not.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Where the last event about something stands; 0 if there is none. Who appends with this in hand is refused if somebody
    /// else was first.
    #[must_use]
    pub fn last_seq(&self, subject: &Subject) -> u64 {
        let seq = self.last_seqs.get(subject.to_string().as_str());
        seq.copied().unwrap_or(0)
    }

    /// A key.
    #[must_use]
    pub fn key(&self, key_id: KeyId) -> Option<&Key> {
        self.keys.get(&key_id)
    }

    /// All keys, by id.
    pub fn keys(&self) -> impl Iterator<Item = (KeyId, &Key)> {
        self.keys.iter().map(|(id, key)| (*id, key))
    }

    /// What a holder has.
    #[must_use]
    pub fn account(&self, holder: &Holder) -> Option<&Account> {
        self.accounts.get(holder)
    }

    /// A subscription.
    #[must_use]
    pub fn subscription(&self, id: &SubscriptionId) -> Option<&Subscription> {
        self.subscriptions.get(id)
    }

    /// All subscriptions, by id.
    pub fn subscriptions(&self) -> impl Iterator<Item = (&SubscriptionId, &Subscription)> {
        self.subscriptions.iter()
    }

    /// The subscriptions that are approved of, and of which no mail was wished yet, by id.
    pub fn awaiting_mail(&self) -> impl Iterator<Item = (&SubscriptionId, &Subscription)> {
        self.awaiting_mail
            .iter()
            .filter_map(|id| self.subscriptions.get_key_value(id))
    }

    /// A mail.
    #[must_use]
    pub fn mail(&self, id: &MailId) -> Option<&Mail> {
        self.mails.get(id)
    }

    /// The mail whose last attempt has this token in its links.
    #[must_use]
    pub fn mail_of_link(&self, token: &str) -> Option<(&MailId, &Mail)> {
        let mail_id = self.links.get(&SecretHash::of(token))?;
        self.mails.get_key_value(mail_id)
    }

    /// The key of a mail and what took its place by rotation, first to last.
    pub fn keys_of_mail(&self, mail: &Mail) -> impl Iterator<Item = (KeyId, &Key)> {
        let first = mail.attempt.map(|attempt| attempt.key_id);
        let entry = |key_id| Some((key_id, self.key(key_id)?));
        std::iter::successors(first.and_then(entry), move |(_, key)| {
            entry(key.rotated?.to)
        })
    }

    /// How many mails wait, those that nobody has wished yet included, and how long the oldest has.
    #[must_use]
    pub fn waiting_mails(&self, now: Timestamp) -> (usize, Duration) {
        let wished = self.open_mails().map(|(_, mail)| mail.requested_at);
        let approved = self.awaiting_mail().filter_map(|(_, sub)| sub.approved_at);
        let since = wished.chain(approved).min();
        let age = since.map(|since| now.duration_since(since.timestamp()));
        // Another one's clock may be ahead.
        let age = age.and_then(|age| Duration::try_from(age).ok());
        let count = self.open_mails.len() + self.awaiting_mail.len();
        (count, age.unwrap_or_default())
    }

    /// The mails that are neither delivered nor given up, by id.
    pub fn open_mails(&self) -> impl Iterator<Item = (&MailId, &Mail)> {
        self.open_mails
            .iter()
            .filter_map(|id| self.mails.get_key_value(id))
    }
}
