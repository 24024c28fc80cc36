//! Keys, accounts, subscriptions and mails, as the [`Ledger`](super::Ledger) holds them.

use events::{Moment, Text};

use super::{Email, KeyId, MailId, SecretHash, SubscriptionId};

/// The holder of keys. Plan and limits belong to the holder: a rotated key shares them with the key that it replaced.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// The first of a chain of rotated keys, for keys without a subscription.
    Key(KeyId),
    Subscription(SubscriptionId),
}

/// The plan and the keys of a holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub plan: Text,
    /// How often the plan was changed.
    pub plan_revision: u32,
    /// The keys, oldest first.
    pub keys: Vec<KeyId>,
}

impl Account {
    pub(super) fn on(plan: Text) -> Self {
        Self {
            plan,
            plan_revision: 0,
            keys: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub hash: SecretHash,
    pub holder: Holder,
    pub issued_at: Moment,
    /// When it expires, if ever.
    pub expires_at: Option<Moment>,
    pub rotated: Option<Rotation>,
    pub revoked: Option<Revocation>,
}

/// The replacement of a key by another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    pub to: KeyId,
    /// The end of the overlap, in which both keys are valid.
    pub overlap_until: Moment,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    pub at: Moment,
    /// Empty if none was given.
    pub reason: Text,
}

/// The state of a key at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    Valid,
    /// Replaced and still valid, as is the new key.
    Overlapping,
    /// Replaced, and the overlap is over.
    Rotated,
    Expired,
    Revoked,
}

impl KeyState {
    /// The name of the state in lists.
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
    pub(super) fn new(hash: SecretHash, holder: Holder, issued_at: Moment) -> Self {
        Self {
            hash,
            holder,
            issued_at,
            expires_at: None,
            rotated: None,
            revoked: None,
        }
    }

    /// The end of the key unless it is revoked earlier: its expiry or the end of the overlap.
    pub fn valid_until(&self) -> Option<Moment> {
        let overlap = self.rotated.map(|rotation| rotation.overlap_until);
        overlap.into_iter().chain(self.expires_at).min()
    }

    pub fn state(&self, now: Moment) -> KeyState {
        let is_past = |end: Moment| end <= now;
        match &self.rotated {
            _ if self.revoked.is_some() => KeyState::Revoked,
            _ if self.expires_at.is_some_and(is_past) => KeyState::Expired,
            Some(rotation) if is_past(rotation.overlap_until) => KeyState::Rotated,
            Some(_) => KeyState::Overlapping,
            None => KeyState::Valid,
        }
    }

    /// Whether requests with the key are accepted at a moment.
    pub fn is_valid(&self, now: Moment) -> bool {
        matches!(self.state(now), KeyState::Valid | KeyState::Overlapping)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Where its keys are sent.
    pub email: Email,
    pub requested_at: Moment,
    /// When it was approved: with the request, or by an operator.
    pub approved_at: Option<Moment>,
    /// The latest mail with a key.
    pub mail: Option<MailId>,
}

/// A mail with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// The subscription whose holder receives it.
    pub subscription_id: SubscriptionId,
    pub purpose: Text,
    pub requested_at: Moment,
    /// When the first attempt began.
    pub begun_at: Option<Moment>,
    pub state: MailState,
    /// When it entered the state.
    pub since: Moment,
    /// The last attempt.
    pub attempt: Option<Attempt>,
}

impl Mail {
    /// How often a delivery was attempted.
    pub fn attempts(&self) -> u32 {
        self.attempt.map_or(0, |attempt| attempt.number)
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, MailState::Delivered | MailState::GivenUp(_))
    }

    pub(super) fn enter(&mut self, state: MailState, at: Moment) {
        self.state = state;
        self.since = at;
    }
}

/// An attempt to deliver a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The number, from 1.
    pub number: u32,
    /// The key that was created for it.
    pub key_id: KeyId,
    /// The hash of the token in the mail's link.
    pub manage_hash: SecretHash,
}

/// The state of a mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailState {
    /// No attempt yet.
    Requested,
    /// An attempt is under way.
    UnderWay,
    /// The last attempt failed, for this reason.
    Failed(Text),
    /// The mail server accepted it.
    Delivered,
    /// There will be no further attempt, for this reason.
    GivenUp(Text),
}

impl MailState {
    /// The name of the state in lists.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::UnderWay => "under_way",
            Self::Failed(_) => "failed",
            Self::Delivered => "delivered",
            Self::GivenUp(_) => "given_up",
        }
    }

    /// The reason of the last failure.
    pub fn reason(&self) -> Option<&Text> {
        match self {
            Self::Failed(reason) | Self::GivenUp(reason) => Some(reason),
            Self::Requested | Self::UnderWay | Self::Delivered => None,
        }
    }
}
