//! Keys, accounts, subscriptions and mails, as the [`Ledger`](super::Ledger) holds them.

use events::{Moment, Text};

use super::{Actor, KeyId, MailId, SealedEmail, SecretHash, SubscriptionId};

/// The holder of keys. Plan and limits belong to the holder: a rotated key shares them with the key that it replaced.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// The first of a chain of rotated keys, for keys without a subscription.
    Key(KeyId),
    Subscription(SubscriptionId),
    /// The pages that someone who is signed in has open. Their limits are not those of the keys.
    Pages(SubscriptionId),
}

/// The plan and the keys of a holder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    pub plan: Text,
    /// How often the plan was changed.
    pub plan_revision: u32,
    /// The keys, oldest first.
    pub keys: Vec<KeyId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub hash: SecretHash,
    pub holder: Holder,
    /// What it is for; empty if its holder gave no name.
    pub name: Text,
    pub issued_at: Moment,
    pub issued_by: Actor,
    /// When it expires, if ever.
    pub expires_at: Option<Moment>,
    pub rotated: Option<Rotation>,
    pub revoked: Option<Revocation>,
}

/// The replacement of a key by another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    pub to: KeyId,
    /// The end of the overlap, in which both keys are valid.
    pub overlap_until: Moment,
    pub by: Actor,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    pub at: Moment,
    /// Empty if none was given.
    pub reason: Text,
    pub by: Actor,
}

/// The state of a key at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum KeyState {
    Valid,
    /// Replaced and still valid, as is the new key.
    Overlapping,
    /// Replaced, and the overlap is over.
    Rotated,
    Expired,
    Revoked,
}

impl Key {
    /// The end of the key unless it is revoked earlier: its expiry or the end of the overlap.
    pub fn valid_until(&self) -> Option<Moment> {
        let overlap = self.rotated.as_ref().map(|rotation| rotation.overlap_until);
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
    /// Where its mails are sent.
    pub email: SealedEmail,
    /// How often the address was subscribed.
    pub generation: u32,
    pub requested_at: Moment,
    /// When the link of a mail was used, which proves that the address is the subscriber's.
    pub confirmed_at: Option<Moment>,
    /// When it was approved: with the request, or by an operator. An operator who revokes its last valid key withdraws
    /// the approval.
    pub approved_at: Option<Moment>,
    /// The number of the last approval by an operator.
    pub approval_revision: u32,
    /// When the person at the address said that they did not subscribe.
    pub suppressed_at: Option<Moment>,
    pub forgotten_at: Option<Moment>,
    /// The latest mail with a link.
    pub link_mail: MailId,
}

impl Subscription {
    /// Whether keys may be created.
    pub fn is_active(&self) -> bool {
        self.state() == SubscriptionState::Active
    }

    pub fn state(&self) -> SubscriptionState {
        if self.suppressed_at.is_some() {
            SubscriptionState::Suppressed
        } else if self.forgotten_at.is_some() {
            SubscriptionState::Forgotten
        } else if self.confirmed_at.is_none() {
            SubscriptionState::Unconfirmed
        } else if self.approved_at.is_none() {
            SubscriptionState::AwaitingApproval
        } else {
            SubscriptionState::Active
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum SubscriptionState {
    /// The link in the first mail was not used yet.
    Unconfirmed,
    /// An operator has to approve it.
    AwaitingApproval,
    /// Keys may be created.
    Active,
    /// The person at the address did not subscribe: there will be no further mail.
    Suppressed,
    /// It ended, and its address is erased.
    Forgotten,
}

/// Someone who is signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountSession {
    pub subscription_id: SubscriptionId,
    /// The mail whose link started it.
    pub mail_id: MailId,
    /// The hash of its cookie.
    pub hash: SecretHash,
    /// Until then, the account can be changed.
    pub expires_at: Moment,
    /// Until then, the pages read the API with it.
    pub reads_until: Moment,
}

/// A mail to a subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    pub subscription_id: SubscriptionId,
    pub content: MailContent,
    pub requested_at: Moment,
    /// When the first attempt began.
    pub begun_at: Option<Moment>,
    pub state: MailState,
    /// When it entered the state.
    pub since: Moment,
    /// How often a delivery was attempted.
    pub attempts: u32,
    /// Whether the last attempt that failed did so because the server took no mail for the recipient.
    pub waits_for_mailbox: bool,
}

/// What the reason of a failure begins with if the recipient is the cause.
pub const MAILBOX_DEFERRED: &str = "mailbox_deferred";

/// What a mail says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailContent {
    /// A link with which the person at the address confirms a new subscription.
    Confirmation,
    /// A link to the account page.
    SignIn,
    /// An operator approved the subscription.
    Approved,
    /// A key or the plan was changed.
    Notice { change: Change, by: Actor },
}

impl MailContent {
    pub fn has_link(&self) -> bool {
        matches!(self, Self::Confirmation | Self::SignIn)
    }
}

/// A change that is announced to the subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    KeyIssued(KeyId),
    KeyRotated { old: KeyId, new: KeyId },
    KeyRevoked(KeyId),
    PlanChanged(Text),
}

impl Mail {
    pub(super) fn enter(&mut self, state: MailState, at: Moment) {
        self.state = state;
        self.since = at;
    }
}

/// The state of a mail.
#[derive(Debug, Clone, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
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
    /// The reason of the last failure.
    pub fn reason(&self) -> Option<&Text> {
        match self {
            Self::Failed(reason) | Self::GivenUp(reason) => Some(reason),
            Self::Requested | Self::UnderWay | Self::Delivered => None,
        }
    }
}
