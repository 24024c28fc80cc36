//! [`Ledger`]: the state of the stream `ACCOUNTS`: keys, accounts, subscriptions and mails.
//!
//! A pure, synchronous and total fold. An event that is not possible in the current state (the rotation of a revoked
//! key, an attempt of a mail that was not requested) changes nothing, and neither does a repeated event.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use events::{Moment, Text};
use jiff::Timestamp;
use projections::StoredMessage;

use super::event::{
    AccountEvent, AccountEventError, Fact, KeyIssued, KeyRevoked, KeyRotated, MailAttempted,
    MailDelivered, MailFailed, MailRequested, PlanChanged, SubscriptionRequested,
};
use super::state::{
    Account, Attempt, Holder, Key, KeyState, Mail, MailState, Revocation, Rotation, Subscription,
};
use super::{AccountSubject, KeyId, MailId, SecretHash, SubscriptionId};

const DELIVERY_FAILED: &str = "the mail with the key was not delivered";
const SENT_AGAIN: &str = "the mail was sent again with another key";

/// Keys, accounts, subscriptions and mails at one position of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    seq: u64,
    keys: BTreeMap<KeyId, Key>,
    accounts: HashMap<Holder, Account>,
    subscriptions: BTreeMap<SubscriptionId, Subscription>,
    /// Approved subscriptions for which no mail was requested yet.
    awaiting_mail: BTreeSet<SubscriptionId>,
    mails: BTreeMap<MailId, Mail>,
    /// Mails that are neither delivered nor given up.
    open_mails: BTreeSet<MailId>,
    /// The mail of each valid link: the links of a mail's last attempt are valid.
    links: HashMap<SecretHash, MailId>,
    /// The sequence of the last event on each subject.
    last_seqs: HashMap<Box<str>, u64>,
}

/// An event while it is folded.
struct Folding {
    /// The writer's clock.
    time: Moment,
    /// The log's clock.
    recorded_at: Moment,
    /// The keys that the event changed.
    changed: Vec<KeyId>,
}

impl Ledger {
    /// Folds a message of the stream, and returns the keys that are new, on another plan, or valid for another time
    /// than before. A message that this version cannot decode changes nothing but the sequences.
    pub fn fold(&mut self, message: StoredMessage<'_>) -> Result<Vec<KeyId>, AccountEventError> {
        self.seq = message.seq;
        self.last_seqs.insert(message.subject.into(), message.seq);
        let event = AccountEvent::decode(message.subject, message.payload)?;
        let mut folding = Folding {
            time: event.time,
            recorded_at: message.recorded_at,
            changed: Vec::new(),
        };
        match event.fact {
            Fact::KeyIssued(fact) => self.issue(&mut folding, fact),
            Fact::KeyRotated(fact) => self.rotate(&mut folding, &fact),
            Fact::KeyRevoked(fact) => self.revoke(&mut folding, fact),
            Fact::PlanChanged(fact) => self.change_plan(&mut folding, fact),
            Fact::SubscriptionRequested(fact) => self.subscribe(&folding, fact),
            Fact::SubscriptionApproved(fact) => self.approve(&folding, &fact.subscription_id),
            Fact::MailRequested(fact) => self.request_mail(&folding, fact),
            Fact::MailAttempted(fact) => self.attempt(&mut folding, &fact),
            Fact::MailDelivered(fact) => self.deliver(&folding, &fact),
            Fact::MailFailed(fact) => self.fail(&mut folding, fact),
        }
        Ok(folding.changed)
    }

    fn issue(&mut self, folding: &mut Folding, fact: KeyIssued) {
        let holder = match fact.subscription_id {
            Some(id) => Holder::Subscription(id),
            None => Holder::Key(fact.key_id),
        };
        let mut key = Key::new(fact.sha256, holder, folding.time);
        key.expires_at = fact.expires_at;
        self.add(folding, fact.key_id, key, fact.plan);
    }

    /// Adds a key unless its id exists. `plan` is that of a holder without an account.
    fn add(&mut self, folding: &mut Folding, key_id: KeyId, key: Key, plan: Text) {
        if self.keys.contains_key(&key_id) {
            return;
        }
        let account = self.accounts.entry(key.holder.clone());
        account.or_insert(Account::on(plan)).keys.push(key_id);
        self.keys.insert(key_id, key);
        folding.changed.push(key_id);
    }

    fn rotate(&mut self, folding: &mut Folding, fact: &KeyRotated) {
        if self.keys.contains_key(&fact.new_key_id) {
            return;
        }
        let is_valid = |key: &&mut Key| key.state(folding.recorded_at) == KeyState::Valid;
        let Some(old) = self.keys.get_mut(&fact.key_id).filter(is_valid) else {
            return;
        };
        old.rotated = Some(Rotation {
            to: fact.new_key_id,
            overlap_until: fact.valid_until,
        });
        let mut new = Key::new(fact.new_sha256, old.holder.clone(), folding.time);
        new.expires_at = old.expires_at;
        self.add(folding, fact.new_key_id, new, Text::default());
        folding.changed.push(fact.key_id);
    }

    fn revoke(&mut self, folding: &mut Folding, fact: KeyRevoked) {
        if let Some(key) = self.keys.get_mut(&fact.key_id)
            && key.revoked.is_none()
        {
            key.revoked = Some(Revocation {
                at: folding.time,
                reason: fact.reason,
            });
            folding.changed.push(fact.key_id);
        }
    }

    fn change_plan(&mut self, folding: &mut Folding, fact: PlanChanged) {
        if let Some(key) = self.keys.get(&fact.key_id)
            && let Some(account) = self.accounts.get_mut(&key.holder)
            && account.plan_revision < fact.revision
        {
            account.plan = fact.plan;
            account.plan_revision = fact.revision;
            folding.changed.extend(&account.keys);
        }
    }

    fn subscribe(&mut self, folding: &Folding, fact: SubscriptionRequested) {
        let id = fact.subscription_id;
        let account = self.accounts.entry(Holder::Subscription(id.clone()));
        account.or_insert(Account::on(fact.plan));
        if self.subscriptions.contains_key(&id) {
            return;
        }
        let subscription = Subscription {
            email: fact.email,
            requested_at: folding.time,
            approved_at: None,
            mail: None,
        };
        self.subscriptions.insert(id.clone(), subscription);
        if fact.approved {
            self.approve(folding, &id);
        }
    }

    fn approve(&mut self, folding: &Folding, id: &SubscriptionId) {
        if let Some(subscription) = self.subscriptions.get_mut(id) {
            subscription.approved_at.get_or_insert(folding.time);
            if subscription.mail.is_none() {
                self.awaiting_mail.insert(id.clone());
            }
        }
    }

    fn request_mail(&mut self, folding: &Folding, fact: MailRequested) {
        if self.mails.contains_key(&fact.mail_id) {
            return;
        }
        if let Some(subscription) = self.subscriptions.get_mut(&fact.subscription_id) {
            subscription.mail = Some(fact.mail_id.clone());
            self.awaiting_mail.remove(&fact.subscription_id);
            self.open_mails.insert(fact.mail_id.clone());
            let mail = Mail {
                subscription_id: fact.subscription_id,
                purpose: fact.purpose,
                requested_at: folding.time,
                begun_at: None,
                state: MailState::Requested,
                since: folding.time,
                attempt: None,
            };
            self.mails.insert(fact.mail_id, mail);
        }
    }

    fn attempt(&mut self, folding: &mut Folding, fact: &MailAttempted) {
        if self.keys.contains_key(&fact.key_id) {
            return;
        }
        let is_next = |mail: &&mut Mail| !mail.is_closed() && fact.attempt > mail.attempts();
        let Some(mail) = self.mails.get_mut(&fact.mail_id).filter(is_next) else {
            return;
        };
        mail.enter(MailState::UnderWay, folding.time);
        mail.begun_at.get_or_insert(folding.time);
        let previous = mail.attempt.replace(Attempt {
            number: fact.attempt,
            key_id: fact.key_id,
            manage_hash: fact.manage_sha256,
        });
        if let Some(previous) = previous {
            self.links.remove(&previous.manage_hash);
        }
        self.links.insert(fact.manage_sha256, fact.mail_id.clone());
        let holder = Holder::Subscription(mail.subscription_id.clone());
        self.revoke_attempt(folding, previous, SENT_AGAIN);
        let key = Key::new(fact.sha256, holder, folding.time);
        self.add(folding, fact.key_id, key, Text::default());
    }

    fn deliver(&mut self, folding: &Folding, fact: &MailDelivered) {
        if let Some(mail) = self.mails.get_mut(&fact.mail_id)
            && mail.state == MailState::UnderWay
            && mail.attempts() == fact.attempt
        {
            mail.enter(MailState::Delivered, folding.time);
            self.open_mails.remove(&fact.mail_id);
        }
    }

    fn fail(&mut self, folding: &mut Folding, fact: MailFailed) {
        let Some(mail) = self.mails.get_mut(&fact.mail_id) else {
            return;
        };
        let is_change = match mail.state {
            MailState::Requested | MailState::UnderWay => true,
            MailState::Failed(_) => fact.is_final,
            MailState::Delivered | MailState::GivenUp(_) => false,
        };
        if !is_change || mail.attempts() != fact.attempt {
            return;
        }
        let attempt = mail.attempt;
        if fact.is_final {
            mail.enter(MailState::GivenUp(fact.reason), folding.time);
            self.open_mails.remove(&fact.mail_id);
        } else {
            mail.enter(MailState::Failed(fact.reason), folding.time);
        }
        self.revoke_attempt(folding, attempt, DELIVERY_FAILED);
    }

    /// Revokes the key of an attempt and the keys that replaced it: a mail leaves one working key.
    fn revoke_attempt(&mut self, folding: &mut Folding, attempt: Option<Attempt>, reason: &str) {
        let reason = Text::parse(reason).unwrap_or_default();
        let mut next = attempt.map(|attempt| attempt.key_id);
        while let Some(key_id) = next {
            let reason = reason.clone();
            self.revoke(folding, KeyRevoked { key_id, reason });
            let key = self.keys.get(&key_id);
            next = key.and_then(|key| key.rotated).map(|rotated| rotated.to);
        }
    }
}

impl Ledger {
    /// The sequence of the last message that was folded, decodable or not.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The sequence of the last event on a subject; 0 if there is none. An append that expects this sequence fails if
    /// another writer was first.
    pub fn last_seq(&self, subject: &AccountSubject) -> u64 {
        let seq = self.last_seqs.get(subject.to_string().as_str());
        seq.copied().unwrap_or(0)
    }

    pub fn key(&self, key_id: KeyId) -> Option<&Key> {
        self.keys.get(&key_id)
    }

    /// All keys, by id.
    pub fn keys(&self) -> impl Iterator<Item = (KeyId, &Key)> {
        self.keys.iter().map(|(id, key)| (*id, key))
    }

    pub fn account(&self, holder: &Holder) -> Option<&Account> {
        self.accounts.get(holder)
    }

    pub fn subscription(&self, id: &SubscriptionId) -> Option<&Subscription> {
        self.subscriptions.get(id)
    }

    /// All subscriptions, by id.
    pub fn subscriptions(&self) -> impl Iterator<Item = (&SubscriptionId, &Subscription)> {
        self.subscriptions.iter()
    }

    /// The approved subscriptions for which no mail was requested yet, by id.
    pub fn awaiting_mail(&self) -> impl Iterator<Item = (&SubscriptionId, &Subscription)> {
        let ids = self.awaiting_mail.iter();
        ids.filter_map(|id| self.subscriptions.get_key_value(id))
    }

    pub fn mail(&self, id: &MailId) -> Option<&Mail> {
        self.mails.get(id)
    }

    /// The mail whose last attempt has this token in its link.
    pub fn mail_of_link(&self, token: &str) -> Option<(&MailId, &Mail)> {
        let mail_id = self.links.get(&SecretHash::of(token))?;
        self.mails.get_key_value(mail_id)
    }

    /// The key of a mail and the keys that replaced it, oldest first.
    pub fn keys_of_mail(&self, mail: &Mail) -> impl Iterator<Item = (KeyId, &Key)> {
        let first = mail.attempt.map(|attempt| attempt.key_id);
        let entry = |key_id| Some((key_id, self.key(key_id)?));
        std::iter::successors(first.and_then(entry), move |(_, key)| {
            entry(key.rotated?.to)
        })
    }

    /// The number of mails that are waiting, approved subscriptions without a mail included, and the age of the oldest.
    pub(crate) fn waiting_mails(&self, now: Timestamp) -> (usize, Duration) {
        let requested = self.open_mails().map(|(_, mail)| mail.requested_at);
        let approved = self.awaiting_mail().filter_map(|(_, sub)| sub.approved_at);
        let since = requested.chain(approved).min();
        let age = since.map(|since| now.duration_since(since.timestamp()));
        // The age is negative if the writer's clock is ahead.
        let age = age.and_then(|age| Duration::try_from(age).ok());
        let count = self.open_mails.len() + self.awaiting_mail.len();
        (count, age.unwrap_or_default())
    }

    /// The mails that are neither delivered nor given up, by id.
    pub fn open_mails(&self) -> impl Iterator<Item = (&MailId, &Mail)> {
        let ids = self.open_mails.iter();
        ids.filter_map(|id| self.mails.get_key_value(id))
    }
}
