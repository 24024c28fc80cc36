//! [`KeyCache`]: the keys that are valid now, as every request asks for them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use events::{Moment, Text};
use jiff::Timestamp;

use super::{Holder, KeyId, Ledger, SecretHash};
use crate::limits::Meter;
use crate::limits::plans::{Plan, Plans};

/// The keys that are valid now.
#[derive(Debug, Default)]
pub struct KeyCache {
    plans: Plans,
    held: RwLock<Held>,
    losses: AtomicU64,
}

#[derive(Debug, Default)]
struct Held {
    entries: HashMap<KeyId, Arc<KeyEntry>>,
    /// When keys end by themselves, first to last.
    ends: BTreeSet<(Moment, KeyId)>,
    /// Every key that is valid is here.
    complete: bool,
    /// Names of plans that keys are on and that there are none of.
    unknown_plans: HashSet<Text>,
}

/// A key that is valid, until it ends.
#[derive(Debug)]
pub struct KeyEntry {
    /// The key.
    pub key_id: KeyId,
    /// Whose it is: limits are counted by holder.
    pub holder: Holder,
    /// The name of the holder's plan.
    pub plan: Text,
    /// What the holder has asked for, with all keys together.
    pub meter: Arc<Meter>,
    /// When it ends by itself.
    pub valid_until: Option<Moment>,
    hash: SecretHash,
}

/// But for what was asked for.
impl PartialEq for KeyEntry {
    fn eq(&self, other: &Self) -> bool {
        let all = |entry: &Self| (entry.key_id, entry.valid_until, entry.hash);
        all(self) == all(other) && self.holder == other.holder && self.plan == other.plan
    }
}

/// Why a key opens nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It does not have the form of a key, or its checksum is wrong.
    Malformed,
    /// It was never issued, or is no longer valid.
    NotValid,
    /// It is not known yet which keys are valid.
    NotKnownYet,
}

impl KeyEntry {
    fn is_valid(&self) -> bool {
        let until = self.valid_until;
        until.is_none_or(|until| Timestamp::now() < until.timestamp())
    }
}

impl KeyCache {
    /// A ring of keys that are on these plans.
    #[must_use]
    pub fn new(plans: Plans) -> Self {
        Self {
            plans,
            ..Self::default()
        }
    }

    /// What is known of a key, if it is valid.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, key: &str) -> Result<Arc<KeyEntry>, Refusal> {
        let key_id = KeyId::of_key(key).ok_or(Refusal::Malformed)?;
        let held = self.read();
        let Some(entry) = held.entries.get(&key_id).cloned() else {
            return Err(held.refusal());
        };
        drop(held);
        let right = entry.hash == SecretHash::of(key) && entry.is_valid();
        right.then_some(entry).ok_or(Refusal::NotValid)
    }

    /// Whether it is known that a key is not valid, as one may be that was.
    #[must_use]
    pub fn has_lost(&self, key_id: KeyId) -> bool {
        let held = self.read();
        match held.entries.get(&key_id) {
            Some(entry) => !entry.is_valid(),
            None => held.complete,
        }
    }

    /// Whether it is known that the plan of a key does not include live odds.
    #[must_use]
    pub fn is_without_live_odds(&self, key_id: KeyId) -> bool {
        let held = self.read();
        let entry = held.entries.get(&key_id);
        entry.is_some_and(|entry| entry.meter.plan().connections.is_none())
    }

    /// Counts what was taken out or replaced. While it stays the same, who was let in may stay.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// Whether every key that is valid is here.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.read().complete
    }

    /// How many keys are valid.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().entries.len()
    }

    /// Whether no key is valid.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes in all keys of a ledger: from now on it is known which are valid.
    pub fn fill(&self, ledger: &Ledger, now: Moment) {
        let mut held = self.write();
        *held = Held::default();
        for (key_id, _) in ledger.keys() {
            held.put(&self.plans, ledger, key_id, now, &[]);
        }
        held.complete = true;
        self.lose(held);
    }

    /// Takes in what became of some keys.
    pub(super) fn update(&self, ledger: &Ledger, changed: &[KeyId], now: Moment) {
        let mut held = self.write();
        let lost: Vec<_> = changed.iter().filter_map(|id| held.remove(*id)).collect();
        for key_id in changed {
            held.put(&self.plans, ledger, *key_id, now, &lost);
        }
        if !lost.is_empty() {
            self.lose(held);
        }
    }

    /// Takes out what has ended.
    pub(super) fn drop_ended(&self, now: Moment) {
        if self.read().ends.first().is_none_or(|(end, _)| *end > now) {
            return;
        }
        let mut held = self.write();
        while let Some((end, key_id)) = held.ends.first().copied()
            && end <= now
        {
            held.remove(key_id);
        }
        self.lose(held);
    }

    /// Forgets every key: it is not known which are valid.
    pub(super) fn clear(&self) {
        let mut held = self.write();
        *held = Held::default();
        self.lose(held);
    }

    /// Counts a loss, once everyone sees it.
    fn lose(&self, held: RwLockWriteGuard<'_, Held>) {
        drop(held);
        self.losses.fetch_add(1, Ordering::Release);
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> HashMap<KeyId, Arc<KeyEntry>> {
        self.read().entries.clone()
    }

    fn read(&self) -> RwLockReadGuard<'_, Held> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Held> {
        self.held.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Takes in what a ledger says of a key, unless it opens nothing any more. Keys of one holder share a meter, for as long as the
    /// plan stays the same; `lost` are those that were just taken out.
    fn put(
        &mut self,
        plans: &Plans,
        ledger: &Ledger,
        key_id: KeyId,
        now: Moment,
        lost: &[Arc<KeyEntry>],
    ) {
        let key = ledger.key(key_id).filter(|key| key.is_valid(now));
        let account = key.and_then(|key| ledger.account(&key.holder));
        let Some((key, account)) = key.zip(account) else {
            return;
        };
        let siblings = account.keys.iter().filter_map(|id| self.entries.get(id));
        let meter = siblings
            .chain(lost)
            .find(|other| other.holder == key.holder && other.plan == account.plan)
            .map(|other| Arc::clone(&other.meter));
        let entry = KeyEntry {
            key_id,
            holder: key.holder.clone(),
            plan: account.plan.clone(),
            meter: meter.unwrap_or_else(|| Arc::new(Meter::new(self.plan(plans, &account.plan)))),
            valid_until: key.valid_until(),
            hash: key.hash,
        };
        self.ends.extend(entry.valid_until.map(|end| (end, key_id)));
        self.entries.insert(key_id, Arc::new(entry));
    }

    /// The plan of a name; the one named `default`, with a word about it, if there is none.
    fn plan(&mut self, plans: &Plans, name: &Text) -> Arc<Plan> {
        let plan = plans.get(name.as_str());
        if plan.is_none() && self.unknown_plans.insert(name.clone()) {
            tracing::warn!(
                plan = name.as_str(),
                "there are keys on a plan that is not known; they have what the plan \"default\" allows"
            );
        }
        Arc::clone(plan.unwrap_or_else(|| plans.default_plan()))
    }

    fn remove(&mut self, key_id: KeyId) -> Option<Arc<KeyEntry>> {
        let entry = self.entries.remove(&key_id)?;
        if let Some(end) = entry.valid_until {
            self.ends.remove(&(end, key_id));
        }
        Some(entry)
    }

    fn refusal(&self) -> Refusal {
        if self.complete {
            Refusal::NotValid
        } else {
            Refusal::NotKnownYet
        }
    }
}

#[cfg(test)]
mod tests {
    use events::Text;
    use jiff::SignedDuration;

    use super::{KeyCache, KeyEntry, Meter, Refusal};
    use crate::accounts::tests::{Stream, now};
    use crate::accounts::{ApiKey, Fact, KeyIssued, KeyRevoked, KeyRotated, PlanChanged};

    fn issued(key: &ApiKey, lasts: Option<SignedDuration>) -> Fact {
        let expires_at = lasts.map(|lasts| (now().timestamp() + lasts).into());
        KeyIssued::new(
            key,
            "default".to_owned().try_into().expect("text"),
            expires_at,
        )
        .into()
    }

    fn key() -> ApiKey {
        ApiKey::generate("dev").expect("random")
    }

    fn ring(stream: &Stream) -> KeyCache {
        let ring = KeyCache::default();
        ring.fill(&stream.ledger, now());
        ring
    }

    #[test]
    fn an_issued_key_is_valid_and_no_other() {
        let (mut stream, one, other) = (Stream::default(), key(), key());
        stream.say(issued(&one, None));
        let ring = ring(&stream);
        let entry = ring.check(one.reveal()).expect("valid");
        assert_eq!(
            (entry.key_id, entry.plan.as_str()),
            (one.key_id(), "default")
        );
        assert_eq!(ring.check(other.reveal()), Err(Refusal::NotValid));
        assert_eq!(ring.check("rb_dev_nonsense"), Err(Refusal::Malformed));
        assert!(!ring.has_lost(one.key_id()) && ring.has_lost(other.key_id()));
    }

    #[test]
    fn another_secret_under_the_same_id_is_not_valid() {
        let (mut stream, one, other) = (Stream::default(), key(), key());
        let mut forged = KeyIssued::new(&one, Default::default(), None);
        forged.sha256 = other.hash();
        stream.say(forged);
        assert_eq!(ring(&stream).check(one.reveal()), Err(Refusal::NotValid));
    }

    #[test]
    fn a_key_ends_by_itself_without_a_word() {
        let (mut stream, over, lasting) = (Stream::default(), key(), key());
        stream.say(issued(&over, Some(SignedDuration::from_secs(-1))));
        stream.say(issued(&lasting, Some(SignedDuration::from_hours(1))));
        // The ring is that of an hour ago, in which both were valid.
        let ring = KeyCache::default();
        let an_hour_ago = now().timestamp() - SignedDuration::from_hours(1);
        ring.fill(&stream.ledger, an_hour_ago.into());
        assert_eq!(ring.len(), 2);
        assert_eq!(ring.check(over.reveal()), Err(Refusal::NotValid));
        assert!(ring.has_lost(over.key_id()));
        assert!(ring.check(lasting.reveal()).is_ok());

        let losses = ring.losses();
        ring.drop_ended(now());
        assert_eq!((ring.len(), ring.losses()), (1, losses + 1));
        ring.drop_ended(now());
        assert_eq!(ring.losses(), losses + 1, "nothing more has ended");
    }

    #[test]
    fn a_new_key_takes_nothing_from_anyone_and_a_revoked_one_does() {
        let (mut stream, one, other) = (Stream::default(), key(), key());
        stream.say(issued(&one, None));
        let ring = ring(&stream);
        let losses = ring.losses();
        let changed = stream.say(issued(&other, None));
        ring.update(&stream.ledger, &changed, now());
        assert_eq!((ring.len(), ring.losses()), (2, losses));
        let reason = Default::default();
        let changed = stream.say(KeyRevoked {
            key_id: one.key_id(),
            reason,
        });
        ring.update(&stream.ledger, &changed, now());
        assert_eq!((ring.len(), ring.losses()), (1, losses + 1));
        assert_eq!(ring.check(one.reveal()), Err(Refusal::NotValid));
    }

    /// Takes one request of each key, and says how many are left then.
    fn left(ring: &KeyCache, keys: &[&ApiKey]) -> Vec<u32> {
        let take = |key: &&ApiKey| {
            let entry = ring.check(key.reveal()).expect("valid");
            let allowance = entry.meter.take().expect("few were asked for");
            allowance.expect("the plan has limits").remaining
        };
        keys.iter().map(take).collect()
    }

    fn on_plan(key: &ApiKey, plan: &str) -> Fact {
        KeyIssued::new(key, Text::parse(plan).expect("text"), None).into()
    }

    #[test]
    fn keys_of_one_holder_share_what_the_plan_allows() {
        let (mut stream, first, second, other) = (Stream::default(), key(), key(), key());
        stream.say(on_plan(&first, "free"));
        stream.say(on_plan(&other, "free"));
        let following = ring(&stream);
        assert_eq!(left(&following, &[&first, &first]), [59, 58]);
        let changed = stream.say(KeyRotated {
            key_id: first.key_id(),
            valid_until: (now().timestamp() + SignedDuration::from_hours(1)).into(),
            new_key_id: second.key_id(),
            new_sha256: second.hash(),
        });
        following.update(&stream.ledger, &changed, now());
        assert_eq!(left(&following, &[&second, &first, &other]), [57, 56, 59]);
        let anew = ring(&stream);
        assert_eq!(left(&anew, &[&first, &second, &other]), [59, 58, 59]);
    }

    #[test]
    fn a_million_keys_that_are_not_valid_leave_nothing_behind() {
        let (mut stream, one) = (Stream::default(), key());
        stream.say(on_plan(&one, "free"));
        let ring = ring(&stream);
        let size = |ring: &KeyCache| {
            let held = ring.read();
            (
                held.entries.capacity(),
                held.ends.len(),
                held.unknown_plans.capacity(),
            )
        };
        let before = size(&ring);
        for _ in 0..1_000_000 {
            assert_eq!(ring.check(key().reveal()), Err(Refusal::NotValid));
        }
        assert_eq!(size(&ring), before);
        // What there is for each that is valid.
        assert!(size_of::<KeyEntry>() + size_of::<Meter>() <= 320);
    }

    #[test]
    fn another_plan_is_in_force_at_once_and_begins_full() {
        let (mut stream, one) = (Stream::default(), key());
        stream.say(on_plan(&one, "free"));
        let ring = ring(&stream);
        assert_eq!(left(&ring, &[&one, &one]), [59, 58]);
        let mut change = |plan: &str, revision| {
            let (key_id, plan) = (one.key_id(), Text::parse(plan).expect("text"));
            let changed = stream.say(PlanChanged {
                key_id,
                plan,
                revision,
            });
            ring.update(&stream.ledger, &changed, now());
        };
        change("standard", 1);
        assert_eq!(left(&ring, &[&one]), [599]);
        change("of another file", 2);
        let entry = ring.check(one.reveal()).expect("valid");
        assert_eq!(entry.plan.as_str(), "of another file");
        assert_eq!(entry.meter.plan().name.as_str(), "default");
    }

    #[test]
    fn until_all_are_read_no_key_is_known_to_be_wrong() {
        let (mut stream, one) = (Stream::default(), key());
        stream.say(issued(&one, None));
        let ring = ring(&stream);
        ring.clear();
        assert_eq!(ring.check(one.reveal()), Err(Refusal::NotKnownYet));
        assert!(!ring.has_lost(one.key_id()) && !ring.is_complete());
        assert_eq!(ring.check("rb_dev_nonsense"), Err(Refusal::Malformed));
    }
}
