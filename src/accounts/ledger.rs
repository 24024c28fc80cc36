//! [`Ledger`]: the state of the stream `ACCOUNTS`: keys, accounts, subscriptions, mails and sessions, and the record of
//! the service.
//!
//! A pure, synchronous and total fold. An event that is not possible in the current state (the rotation of a revoked
//! key, an attempt of a mail that was not requested) changes nothing, and neither does a repeated event. Mails have no
//! events of their own that request them: what happened to a subscription requests them, so none can be missing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use events::{Moment, Text};
use jiff::Timestamp;
use projections::StoredMessage;

use super::decide::{SESSION_READS, after};
use super::event::{
    AccountEvent, AccountEventError, Fact, KeyIssued, KeyRevoked, KeyRotated, Link, LinkRequested,
    MailAttempted, MailDelivered, MailFailed, PlanChanged, SessionStarted, SubscriptionApproved,
    SubscriptionKeyIssued, SubscriptionRequested,
};
use super::state::{
    Account, AccountSession, Change, Holder, Key, KeyState, MAILBOX_DEFERRED, Mail, MailContent,
    MailState, Revocation, Rotation, Subscription, SubscriptionState,
};
use super::{AccountSubject, Actor, KeyId, MailId, SecretHash, ServiceRecord, SubscriptionId};

const ENDED: &str = "the subscription ended";

/// The state at one position of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The sequence of the last message that was folded, decodable or not.
    pub seq: u64,
    pub keys: BTreeMap<KeyId, Key>,
    pub accounts: HashMap<Holder, Account>,
    pub subscriptions: BTreeMap<SubscriptionId, Subscription>,
    /// Forgotten subscriptions whose address is not erased yet, with their generation.
    pub to_erase: BTreeSet<(SubscriptionId, u32)>,
    pub mails: BTreeMap<MailId, Mail>,
    /// Mails that are neither delivered nor given up.
    open_mails: BTreeSet<MailId>,
    /// The links that were not used, by the mail of their last attempt.
    pub(super) links: BTreeMap<MailId, Link>,
    /// The sessions that did not end, by their ids.
    sessions: HashMap<KeyId, AccountSession>,
    /// Incidents of the service, and planned maintenance.
    pub(crate) record: ServiceRecord,
    /// The sequence of the last event on each subject.
    last_seqs: HashMap<Box<str>, u64>,
}

/// An event while it is folded.
struct Folding {
    /// The writer's clock.
    time: Moment,
    /// The log's clock.
    recorded_at: Moment,
    actor: Actor,
    /// The keys and sessions that the event changed.
    changed: Vec<KeyId>,
}

impl Folding {
    /// A key that the event issued.
    fn key(&self, hash: SecretHash, holder: Holder, name: Text) -> Key {
        Key {
            hash,
            holder,
            name,
            issued_at: self.time,
            issued_by: self.actor.clone(),
            expires_at: None,
            rotated: None,
            revoked: None,
        }
    }
}

impl Ledger {
    /// Folds a message of the stream, and returns the keys and sessions that are new, on another plan, or valid for
    /// another time than before. A message that this version cannot decode changes nothing but the sequences.
    pub fn fold(&mut self, message: StoredMessage<'_>) -> Result<Vec<KeyId>, AccountEventError> {
        self.seq = message.seq;
        self.record.began_at.get_or_insert(message.recorded_at);
        self.last_seqs.insert(message.subject.into(), message.seq);
        let event = AccountEvent::decode(message.subject, message.payload)?;
        let mut folding = Folding {
            time: event.time,
            recorded_at: message.recorded_at,
            actor: event.actor,
            changed: Vec::new(),
        };
        match event.fact {
            Fact::KeyIssued(fact) => self.issue(&mut folding, fact),
            Fact::KeyRotated(fact) => self.rotate(&mut folding, &fact),
            Fact::KeyRevoked(fact) => self.revoke(&mut folding, fact),
            Fact::PlanChanged(fact) => self.change_plan(&mut folding, fact),
            Fact::SubscriptionRequested(fact) => self.subscribe(&folding, fact),
            Fact::SubscriptionApproved(fact) => self.approve(&mut folding, fact),
            Fact::SubscriptionKeyIssued(fact) => self.issue_to_subscriber(&mut folding, fact),
            Fact::LinkRequested(fact) => self.request_link(&folding, fact),
            Fact::SubscriptionSuppressed(fact) => {
                self.suppress(&mut folding, &fact.subscription_id)
            }
            Fact::SubscriptionForgotten(fact) => {
                self.forget(&mut folding, &fact.subscription_id, fact.generation);
            }
            Fact::AddressErased(fact) => {
                let erased = (fact.subscription_id, fact.generation);
                self.to_erase.remove(&erased);
            }
            Fact::MailAttempted(fact) => self.attempt(&folding, fact),
            Fact::MailDelivered(fact) => self.deliver(&folding, &fact),
            Fact::MailFailed(fact) => self.fail(&folding, fact),
            Fact::SessionStarted(fact) => self.start_session(&mut folding, fact),
            Fact::SessionEnded(fact) => self.end_session(&mut folding, &fact.mail_id),
            Fact::IncidentNoted(fact) => self.record.note(fact, folding.recorded_at),
            Fact::MaintenancePlanned(fact) => self.record.plan(fact, folding.recorded_at),
            Fact::MaintenanceCancelled(fact) => self.record.cancel(&fact, folding.recorded_at),
        }
        Ok(folding.changed)
    }

    // Keys and plans.

    fn issue(&mut self, folding: &mut Folding, fact: KeyIssued) {
        let mut key = folding.key(fact.sha256, Holder::Key(fact.key_id), fact.name);
        key.expires_at = fact.expires_at;
        self.add(folding, fact.key_id, key, fact.plan);
    }

    fn issue_to_subscriber(&mut self, folding: &mut Folding, fact: SubscriptionKeyIssued) {
        let id = fact.subscription_id;
        let key_id = fact.key_id;
        let subscription = self.subscriptions.get(&id);
        if !subscription.is_some_and(Subscription::is_active) || self.keys.contains_key(&key_id) {
            return;
        }
        let key = folding.key(fact.sha256, Holder::Subscription(id.clone()), fact.name);
        self.add(folding, key_id, key, Text::default());
        let mail_id = MailId::because(format_args!("key {key_id} was issued"));
        self.announce(folding, mail_id, &id, Change::KeyIssued(key_id));
    }

    /// Adds a key unless its id exists. `plan` is that of a holder without an account.
    fn add(&mut self, folding: &mut Folding, key_id: KeyId, key: Key, plan: Text) {
        if self.keys.contains_key(&key_id) {
            return;
        }
        let account = self.accounts.entry(key.holder.clone());
        let new = || Account {
            plan,
            ..Account::default()
        };
        account.or_insert_with(new).keys.push(key_id);
        self.keys.insert(key_id, key);
        folding.changed.push(key_id);
    }

    fn rotate(&mut self, folding: &mut Folding, fact: &KeyRotated) {
        let key_id = fact.key_id;
        let new_key_id = fact.new_key_id;
        if self.keys.contains_key(&new_key_id) {
            return;
        }
        let is_valid = |key: &&mut Key| key.state(folding.recorded_at) == KeyState::Valid;
        let Some(old) = self.keys.get_mut(&key_id).filter(is_valid) else {
            return;
        };
        let new = Key {
            hash: fact.new_sha256,
            issued_at: folding.time,
            issued_by: folding.actor.clone(),
            ..old.clone()
        };
        old.rotated = Some(Rotation {
            to: new_key_id,
            overlap_until: fact.valid_until,
            by: folding.actor.clone(),
        });
        let holder = new.holder.clone();
        self.add(folding, new_key_id, new, Text::default());
        folding.changed.push(key_id);
        if let Holder::Subscription(id) = holder {
            self.lock_out(folding, &id, folding.actor.session().cloned());
            let mail_id = MailId::because(format_args!("key {key_id} was rotated"));
            let old = key_id;
            let new = new_key_id;
            self.announce(folding, mail_id, &id, Change::KeyRotated { old, new });
        }
    }

    fn revoke(&mut self, folding: &mut Folding, fact: KeyRevoked) {
        let key_id = fact.key_id;
        let Some(Holder::Subscription(id)) = self.revoke_key(folding, key_id, fact.reason) else {
            return;
        };
        self.lock_out(folding, &id, folding.actor.session().cloned());
        let mail_id = MailId::because(format_args!("key {key_id} was revoked"));
        self.announce(folding, mail_id, &id, Change::KeyRevoked(key_id));
        let is_by_operator = matches!(folding.actor, Actor::Operator { .. });
        let holder = Holder::Subscription(id.clone());
        let is_valid = |(_, key): (KeyId, &Key)| key.is_valid(folding.recorded_at);
        // Otherwise the subscriber could undo the decision with another key.
        if is_by_operator
            && !self.keys_of(&holder).any(is_valid)
            && let Some(subscription) = self.subscriptions.get_mut(&id)
        {
            subscription.approved_at = None;
        }
    }

    /// Revokes a key, and returns its holder unless it was revoked before.
    fn revoke_key(&mut self, folding: &mut Folding, key_id: KeyId, reason: Text) -> Option<Holder> {
        let key = self.keys.get_mut(&key_id)?;
        if key.revoked.is_some() {
            return None;
        }
        key.revoked = Some(Revocation {
            at: folding.time,
            reason,
            by: folding.actor.clone(),
        });
        folding.changed.push(key_id);
        Some(key.holder.clone())
    }

    fn change_plan(&mut self, folding: &mut Folding, fact: PlanChanged) {
        let Some(holder) = self.keys.get(&fact.key_id).map(|key| key.holder.clone()) else {
            return;
        };
        let account = self.accounts.get_mut(&holder);
        let is_new = |account: &&mut Account| account.plan_revision < fact.revision;
        let Some(account) = account.filter(is_new) else {
            return;
        };
        account.plan = fact.plan.clone();
        account.plan_revision = fact.revision;
        folding.changed.extend(&account.keys);
        if let Holder::Subscription(id) = holder {
            folding.changed.extend(self.sessions_of(&id));
            let mail_id = MailId::because(format_args!("plan {} of {id}", fact.revision));
            self.announce(folding, mail_id, &id, Change::PlanChanged(fact.plan));
        }
    }

    // Subscriptions and sessions.

    fn subscribe(&mut self, folding: &Folding, fact: SubscriptionRequested) {
        let id = fact.subscription_id;
        let known = self.subscriptions.get(&id);
        // A forgotten address may be subscribed again, a suppressed one may not.
        let is_open = |known: &Subscription| {
            known.forgotten_at.is_some()
                && known.suppressed_at.is_none()
                && known.generation < fact.generation
        };
        if !known.is_none_or(is_open) {
            return;
        }
        let mail_id = MailId::because(format_args!("subscription {} of {id}", fact.generation));
        let subscription = Subscription {
            email: fact.email,
            generation: fact.generation,
            requested_at: folding.time,
            confirmed_at: None,
            approved_at: fact.approved.then_some(folding.time),
            approval_revision: known.map_or(0, |known| known.approval_revision),
            suppressed_at: None,
            forgotten_at: None,
            link_mail: mail_id.clone(),
        };
        self.subscriptions.insert(id.clone(), subscription);
        let account = self.accounts.entry(Holder::Subscription(id.clone()));
        account.or_default().plan = fact.plan;
        self.request_mail(folding, mail_id, &id, MailContent::Confirmation);
    }

    fn approve(&mut self, folding: &mut Folding, fact: SubscriptionApproved) {
        let id = fact.subscription_id;
        let revision = fact.revision;
        let Some(subscription) = self.subscriptions.get_mut(&id) else {
            return;
        };
        if subscription.approval_revision >= revision {
            return;
        }
        subscription.approval_revision = revision;
        subscription.approved_at.get_or_insert(folding.time);
        let confirmed_at = subscription.confirmed_at;
        folding.changed.extend(self.sessions_of(&id));
        // Before that, the link in the mail on its way leads to a subscription that is approved.
        if confirmed_at.is_some() {
            let mail_id = MailId::because(format_args!("approval {revision} of {id}"));
            self.request_mail(folding, mail_id, &id, MailContent::Approved);
        }
    }

    fn request_link(&mut self, folding: &Folding, fact: LinkRequested) {
        let id = fact.subscription_id;
        let mail_id = fact.mail_id;
        let Some(subscription) = self.subscriptions.get(&id) else {
            return;
        };
        let content = match subscription.confirmed_at {
            Some(_) => MailContent::SignIn,
            None => MailContent::Confirmation,
        };
        if self.request_mail(folding, mail_id.clone(), &id, content)
            && let Some(subscription) = self.subscriptions.get_mut(&id)
        {
            subscription.link_mail = mail_id;
        }
    }

    fn suppress(&mut self, folding: &mut Folding, id: &SubscriptionId) {
        // The holder of a confirmed address can leave, or sign out.
        let is_unconfirmed = |known: &&mut Subscription| known.confirmed_at.is_none();
        if let Some(subscription) = self.subscriptions.get_mut(id).filter(is_unconfirmed) {
            subscription.suppressed_at.get_or_insert(folding.time);
            let generation = subscription.generation;
            self.forget(folding, id, generation);
        }
    }

    fn forget(&mut self, folding: &mut Folding, id: &SubscriptionId, generation: u32) {
        let is_meant = |known: &&mut Subscription| {
            known.generation == generation && known.forgotten_at.is_none()
        };
        let Some(subscription) = self.subscriptions.get_mut(id).filter(is_meant) else {
            return;
        };
        subscription.forgotten_at = Some(folding.time);
        self.to_erase.insert((id.clone(), generation));
        let account = self.accounts.get(&Holder::Subscription(id.clone()));
        let keys = account.map_or_else(Vec::new, |account| account.keys.clone());
        let reason = Text::parse(ENDED).unwrap_or_default();
        for key_id in keys {
            self.revoke_key(folding, key_id, reason.clone());
        }
        self.lock_out(folding, id, None);
        self.open_mails.retain(|mail_id| {
            let mail = self.mails.get_mut(mail_id);
            let Some(mail) = mail.filter(|mail| mail.subscription_id == *id) else {
                return true;
            };
            mail.enter(MailState::GivenUp(reason.clone()), folding.time);
            false
        });
    }

    /// Ends the links and sessions of a subscription, but for one session, that of the actor: a stranger who has
    /// another one may be the reason for the change.
    fn lock_out(&mut self, folding: &mut Folding, id: &SubscriptionId, kept: Option<MailId>) {
        self.end_sessions(folding, |session| {
            session.subscription_id == *id && kept.as_ref() != Some(&session.mail_id)
        });
        self.links
            .retain(|mail, _| self.mails[mail].subscription_id != *id);
    }

    fn end_sessions(&mut self, folding: &mut Folding, ends: impl Fn(&AccountSession) -> bool) {
        let ended = self.sessions.extract_if(|_, session| ends(session));
        folding.changed.extend(ended.map(|(id, _)| id));
    }

    fn sessions_of(&self, id: &SubscriptionId) -> impl Iterator<Item = KeyId> {
        let sessions = self.sessions.iter();
        let of_it = sessions.filter(move |(_, session)| session.subscription_id == *id);
        of_it.map(|(id, _)| *id)
    }

    fn start_session(&mut self, folding: &mut Folding, fact: SessionStarted) {
        let now = folding.recorded_at;
        self.end_sessions(folding, |session| session.reads_until <= now);
        let link = self.links.remove(&fact.mail_id);
        let is_usable = link.is_some_and(|link| link.expires_at > now);
        let Some(mail) = self.mails.get(&fact.mail_id).filter(|_| is_usable) else {
            return;
        };
        let subscription_id = mail.subscription_id.clone();
        self.note_arrival(folding, &fact.mail_id);
        if let Some(subscription) = self.subscriptions.get_mut(&subscription_id) {
            subscription.confirmed_at.get_or_insert(folding.time);
        }
        let session = AccountSession {
            subscription_id,
            mail_id: fact.mail_id,
            hash: fact.sha256,
            expires_at: fact.expires_at,
            reads_until: after(now, SESSION_READS),
        };
        let id = fact.sha256.session_id();
        folding.changed.push(id);
        self.sessions.insert(id, session);
    }

    fn end_session(&mut self, folding: &mut Folding, mail_id: &MailId) {
        self.links.remove(mail_id);
        self.end_sessions(folding, |session| session.mail_id == *mail_id);
        self.note_arrival(folding, mail_id);
    }

    /// A mail whose link was used has arrived, whether or not the mail server's reply did.
    fn note_arrival(&mut self, folding: &Folding, mail_id: &MailId) {
        if self.open_mails.remove(mail_id)
            && let Some(mail) = self.mails.get_mut(mail_id)
        {
            mail.enter(MailState::Delivered, folding.time);
        }
    }

    // Mails.

    /// Requests a notice of a change to a subscriber.
    fn announce(
        &mut self,
        folding: &Folding,
        mail_id: MailId,
        id: &SubscriptionId,
        change: Change,
    ) {
        let by = folding.actor.clone();
        self.request_mail(folding, mail_id, id, MailContent::Notice { change, by });
    }

    /// Requests a mail, and returns whether it is new. An address that is forgotten or suppressed gets none.
    fn request_mail(
        &mut self,
        folding: &Folding,
        mail_id: MailId,
        id: &SubscriptionId,
        content: MailContent,
    ) -> bool {
        let subscription = self.subscriptions.get(id);
        let is_known = subscription.is_some_and(|known| known.forgotten_at.is_none());
        if !is_known || self.mails.contains_key(&mail_id) {
            return false;
        }
        let mail = Mail {
            subscription_id: id.clone(),
            content,
            requested_at: folding.time,
            begun_at: None,
            state: MailState::Requested,
            since: folding.time,
            attempts: 0,
            waits_for_mailbox: false,
        };
        self.open_mails.insert(mail_id.clone());
        self.mails.insert(mail_id, mail);
        true
    }

    fn attempt(&mut self, folding: &Folding, fact: MailAttempted) {
        let is_open = self.open_mails.contains(&fact.mail_id);
        let is_next = |mail: &&mut Mail| is_open && fact.attempt > mail.attempts;
        let Some(mail) = self.mails.get_mut(&fact.mail_id).filter(is_next) else {
            return;
        };
        mail.enter(MailState::UnderWay, folding.time);
        mail.begun_at.get_or_insert(folding.time);
        mail.attempts = fact.attempt;
        let now = folding.recorded_at;
        self.links.retain(|_, link| link.expires_at > now);
        match fact.link.filter(|_| mail.content.has_link()) {
            Some(link) => self.links.insert(fact.mail_id, link),
            None => self.links.remove(&fact.mail_id),
        };
    }

    fn deliver(&mut self, folding: &Folding, fact: &MailDelivered) {
        if let Some(mail) = self.mails.get_mut(&fact.mail_id)
            && mail.state == MailState::UnderWay
            && mail.attempts == fact.attempt
        {
            mail.enter(MailState::Delivered, folding.time);
            self.open_mails.remove(&fact.mail_id);
        }
    }

    fn fail(&mut self, folding: &Folding, fact: MailFailed) {
        let Some(mail) = self.mails.get_mut(&fact.mail_id) else {
            return;
        };
        let is_change = match mail.state {
            MailState::Requested | MailState::UnderWay => true,
            MailState::Failed(_) => fact.is_final,
            MailState::Delivered | MailState::GivenUp(_) => false,
        };
        if !is_change || mail.attempts != fact.attempt {
            return;
        }
        self.links.remove(&fact.mail_id);
        if fact.is_final {
            mail.enter(MailState::GivenUp(fact.reason), folding.time);
            self.open_mails.remove(&fact.mail_id);
        } else {
            mail.waits_for_mailbox = fact.reason.as_str().starts_with(MAILBOX_DEFERRED);
            mail.enter(MailState::Failed(fact.reason), folding.time);
        }
    }

    // Reads.

    /// The sequence of the last event on a subject; 0 if there is none. An append that expects this sequence fails if
    /// another writer was first.
    pub fn last_seq(&self, subject: &AccountSubject) -> u64 {
        let seq = self.last_seqs.get(subject.to_string().as_str());
        seq.copied().unwrap_or(0)
    }

    /// The subscriptions that were not confirmed, with the time of the last request for a link.
    pub fn unconfirmed(&self) -> impl Iterator<Item = (&SubscriptionId, Timestamp)> {
        self.subscriptions.iter().filter_map(|(id, known)| {
            let is_unconfirmed = known.state() == SubscriptionState::Unconfirmed;
            let last = self.mails.get(&known.link_mail)?;
            is_unconfirmed.then(|| (id, last.requested_at.timestamp()))
        })
    }

    /// The keys of a holder, oldest first.
    pub fn keys_of(&self, holder: &Holder) -> impl Iterator<Item = (KeyId, &Key)> {
        let account = self.accounts.get(holder);
        let ids = account.map_or(&[][..], |account| &account.keys);
        ids.iter().filter_map(|id| Some((*id, self.keys.get(id)?)))
    }

    /// The mail with a link that can be used.
    pub fn mail_of_link(&self, token: &str, now: Moment) -> Option<(&MailId, &Mail)> {
        let sha256 = SecretHash::of(token);
        let is_it = |link: &Link| link.sha256 == sha256 && link.expires_at > now;
        let (mail_id, _) = self.links.iter().find(|(_, link)| is_it(link))?;
        self.mails.get_key_value(mail_id)
    }

    /// The session of a cookie. The account can be changed until it [expires](AccountSession::expires_at).
    pub fn session(&self, cookie: &str, now: Moment) -> Option<&AccountSession> {
        let hash = SecretHash::of(cookie);
        let session = self.sessions.get(&hash.session_id());
        session.filter(|session| session.hash == hash && session.reads_until > now)
    }

    /// The ids of all keys and sessions.
    pub(super) fn ids(&self) -> impl Iterator<Item = KeyId> {
        self.keys.keys().chain(self.sessions.keys()).copied()
    }

    /// The hash, the holder, the plan and the end of the key or session with an id, if it may read the API.
    pub(super) fn admitted(
        &self,
        id: KeyId,
        now: Moment,
    ) -> Option<(SecretHash, Holder, Text, Option<Moment>)> {
        if let Some(key) = self.keys.get(&id) {
            let account = self.accounts.get(&key.holder);
            let account = account.filter(|_| key.is_valid(now))?;
            let (holder, plan) = (key.holder.clone(), account.plan.clone());
            return Some((key.hash, holder, plan, key.valid_until()));
        }
        let session = self.sessions.get(&id)?;
        let id = &session.subscription_id;
        let is_active = self.subscriptions.get(id)?.is_active() && session.reads_until > now;
        let account = self.accounts.get(&Holder::Subscription(id.clone()));
        let plan = account.filter(|_| is_active)?.plan.clone();
        let end = Some(session.reads_until);
        Some((session.hash, Holder::Pages(id.clone()), plan, end))
    }

    /// The number of mails that are waiting, and the age of the oldest that does not wait for its recipient's mailbox.
    pub(crate) fn waiting_mails(&self, now: Timestamp) -> (usize, Duration) {
        let mails = self.open_mails().map(|(_, mail)| mail);
        let ours = mails.filter(|mail| !mail.waits_for_mailbox);
        let since = ours.map(|mail| mail.requested_at).min();
        let age = since.map(|since| now.duration_since(since.timestamp()));
        // The age is negative if the writer's clock is ahead.
        let age = age.and_then(|age| Duration::try_from(age).ok());
        (self.open_mails.len(), age.unwrap_or_default())
    }

    /// The mails that are neither delivered nor given up, by id.
    pub fn open_mails(&self) -> impl Iterator<Item = (&MailId, &Mail)> {
        let ids = self.open_mails.iter();
        ids.filter_map(|id| self.mails.get_key_value(id))
    }
}

#[cfg(test)]
mod testing {
    use std::collections::BTreeMap;

    use super::{Ledger, MailId};

    impl Ledger {
        /// The links and sessions that work, in an order of their own.
        pub(in crate::accounts) fn access(&self) -> String {
            let sessions = self.sessions.values().map(|of| (&of.mail_id, of));
            let sessions: BTreeMap<_, _> = sessions.collect();
            let of_link = |mail_id: &MailId| self.mails[mail_id].subscription_id.to_string();
            let links = self.links.iter().map(|(id, link)| (id, of_link(id), link));
            format!("{sessions:?} {:?}", links.collect::<Vec<_>>())
        }
    }
}
