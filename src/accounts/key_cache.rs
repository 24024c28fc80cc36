//! [`KeyCache`]: the keys and sessions that are valid, as every request checks them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use events::{Moment, Text};
use parking_lot::{RwLock, RwLockWriteGuard};

use super::key::is_of_env;
use super::{Holder, KeyId, KeyUses, Ledger, SecretHash, UseCounter, now};
use crate::limits::Meter;
use crate::limits::plans::{Plan, Plans};
use crate::log::{Freshness, Head};

/// The keys that are valid, and the sessions with which pages read the API.
#[derive(Debug)]
pub struct KeyCache {
    /// Keys are accepted for this long without a proof that no revocation is missing.
    stale_max: Duration,
    /// The environment whose keys are not accepted.
    pub refused_env: Option<&'static str>,
    /// The use of keys.
    pub uses: Arc<KeyUses>,
    keys: RwLock<CachedKeys>,
    losses: AtomicU64,
}

#[derive(Debug)]
struct CachedKeys {
    /// The plans in force.
    plans: Plans,
    entries: HashMap<KeyId, Arc<KeyEntry>>,
    /// The quotas of each holder that had a key.
    meters: HashMap<Holder, Arc<Meter>>,
    /// When keys expire or their overlap ends, first to last.
    ends: BTreeSet<(Moment, KeyId)>,
    /// Whether every valid key is here.
    complete: bool,
    /// When the keys were last known to reflect the whole stream.
    freshness: Freshness,
    /// Plans of keys that are not configured. Each is logged once.
    unknown_plans: HashSet<Text>,
}

/// A key or a session that is valid, until it expires.
#[derive(Debug, Clone)]
pub struct KeyEntry {
    pub key_id: KeyId,
    pub holder: Holder,
    /// The name of the holder's plan.
    pub plan: Text,
    /// The holder's request quota, shared by all its keys.
    pub meter: Arc<Meter>,
    /// Counts the use of this key, through all changes of it.
    pub use_counter: Arc<UseCounter>,
    /// When it expires or its overlap ends, if ever.
    pub valid_until: Option<Moment>,
    hash: SecretHash,
}

/// Why a key is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The text does not have the form of a key, or its checksum is wrong.
    Malformed,
    /// The key was never issued, or is not valid any more.
    NotValid,
    /// The keys have not been read from the stream yet.
    NotKnownYet,
    /// It is not known for too long whether keys were revoked.
    Stale,
}

impl KeyEntry {
    fn is_valid(&self) -> bool {
        self.valid_until.is_none_or(|until| now() < until)
    }
}

impl KeyCache {
    /// An empty cache for keys on these plans. It accepts keys for `stale_max` without a proof that none was revoked.
    pub fn new(plans: Plans, stale_max: Duration) -> Self {
        Self {
            stale_max,
            refused_env: None,
            uses: Arc::default(),
            keys: RwLock::new(CachedKeys::new(plans, Freshness::default())),
            losses: AtomicU64::default(),
        }
    }

    /// The plans in force.
    pub fn plans(&self) -> Plans {
        self.keys.read().plans.clone()
    }

    /// Puts other plans in force, for all keys at once. A holder whose plan has other limits than before starts with
    /// full quotas, as after a change of plan; the others keep theirs.
    pub fn replace_plans(&self, plans: Plans) {
        let mut keys = self.keys.write();
        keys.replace_plans(plans);
        // Open WebSockets of plans without live odds are closed.
        self.count_loss(keys);
    }

    /// Looks up a key.
    pub fn check(&self, key: &str) -> Result<Arc<KeyEntry>, Refusal> {
        let key_id = KeyId::of_key(key).ok_or(Refusal::Malformed)?;
        if self.refused_env.is_some_and(|env| is_of_env(key, env)) {
            return Err(Refusal::NotValid);
        }
        self.find(key_id, SecretHash::of(key))
    }

    /// Looks up the session of a cookie.
    pub fn check_session(&self, cookie: &str) -> Result<Arc<KeyEntry>, Refusal> {
        let hash = SecretHash::of(cookie);
        self.find(hash.session_id(), hash)
    }

    /// Looks up an id and compares its hash in constant time.
    fn find(&self, key_id: KeyId, hash: SecretHash) -> Result<Arc<KeyEntry>, Refusal> {
        let keys = self.keys.read();
        if keys.complete && keys.freshness.age() > self.stale_max {
            return Err(Refusal::Stale);
        }
        let Some(entry) = keys.entries.get(&key_id).cloned() else {
            return Err(if keys.complete {
                Refusal::NotValid
            } else {
                Refusal::NotKnownYet
            });
        };
        drop(keys);
        let is_valid = entry.hash == hash && entry.is_valid();
        is_valid.then_some(entry).ok_or(Refusal::NotValid)
    }

    /// A key that is valid.
    pub fn get(&self, key_id: KeyId) -> Option<Arc<KeyEntry>> {
        self.keys.read().entries.get(&key_id).cloned()
    }

    /// Notes the end of the stream, if the server reported it, and how far it is read.
    pub(super) fn advance(&self, head: Option<Head>, seq: u64) {
        self.keys.write().freshness.advance(head, seq);
    }

    /// The time since the keys were last known to reflect the whole stream.
    pub fn age(&self) -> Duration {
        self.keys.read().freshness.age()
    }

    /// Whether keys are not accepted, because it is not known for too long whether any was revoked.
    pub fn is_stale(&self) -> bool {
        self.age() > self.stale_max
    }

    /// Whether a key is known to be invalid. Before all keys are read, none is.
    pub fn has_lost(&self, key_id: KeyId) -> bool {
        let keys = self.keys.read();
        match keys.entries.get(&key_id) {
            Some(entry) => !entry.is_valid(),
            None => keys.complete,
        }
    }

    /// Whether the plan of a key is known not to include live odds.
    pub fn is_without_live_odds(&self, key_id: KeyId) -> bool {
        let keys = self.keys.read();
        let entry = keys.entries.get(&key_id);
        entry.is_some_and(|entry| entry.meter.plan.connections.is_none())
    }

    /// A counter of removed and replaced keys. While it stays the same, open connections need no check.
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// Whether every valid key is in the cache.
    pub fn is_complete(&self) -> bool {
        self.keys.read().complete
    }

    /// The number of valid keys.
    pub fn count(&self) -> usize {
        let keys = self.keys.read();
        let is_key = |entry: &&Arc<KeyEntry>| !matches!(entry.holder, Holder::Pages(_));
        keys.entries.values().filter(is_key).count()
    }

    /// Replaces the cache by all valid keys of a ledger, and marks it as complete.
    pub fn fill(&self, ledger: &Ledger, now: Moment) {
        let mut keys = self.keys.write();
        *keys = keys.cleared();
        for key_id in ledger.ids() {
            keys.insert(self, ledger, key_id, now);
        }
        keys.complete = true;
        self.count_loss(keys);
    }

    /// Updates the keys that changed in a ledger.
    pub(super) fn update(&self, ledger: &Ledger, changed: &[KeyId], now: Moment) {
        let mut keys = self.keys.write();
        let mut is_loss = false;
        for key_id in changed {
            is_loss |= keys.remove(*key_id);
            keys.insert(self, ledger, *key_id, now);
        }
        if is_loss {
            self.count_loss(keys);
        }
    }

    /// Removes the keys that have expired.
    pub(super) fn remove_expired(&self, now: Moment) {
        let next = self.keys.read().ends.first().copied();
        if next.is_none_or(|(end, _)| end > now) {
            return;
        }
        let mut keys = self.keys.write();
        while let Some((end, key_id)) = keys.ends.first().copied()
            && end <= now
        {
            keys.remove(key_id);
        }
        self.count_loss(keys);
    }

    /// Removes all keys and marks the cache as incomplete.
    pub(super) fn clear(&self) {
        let mut keys = self.keys.write();
        *keys = keys.cleared();
        self.count_loss(keys);
    }

    /// Counts a loss after the lock is released, so that a reader of the new count sees the change.
    fn count_loss(&self, keys: RwLockWriteGuard<'_, CachedKeys>) {
        drop(keys);
        self.losses.fetch_add(1, Ordering::Release);
    }
}

impl CachedKeys {
    fn new(plans: Plans, freshness: Freshness) -> Self {
        Self {
            plans,
            entries: HashMap::new(),
            meters: HashMap::new(),
            ends: BTreeSet::new(),
            complete: false,
            freshness,
            unknown_plans: HashSet::new(),
        }
    }

    /// No keys. The plans, and how fresh the stream is, are as before.
    fn cleared(&self) -> Self {
        Self::new(self.plans.clone(), self.freshness.clone())
    }

    fn replace_plans(&mut self, plans: Plans) {
        self.plans = plans;
        self.unknown_plans.clear();
        for (key_id, entry) in std::mem::take(&mut self.entries) {
            let entry = KeyEntry {
                meter: self.meter(&entry.holder, &entry.plan),
                ..KeyEntry::clone(&entry)
            };
            self.entries.insert(key_id, Arc::new(entry));
        }
    }

    /// Inserts a key or a session of a ledger if it is valid.
    fn insert(&mut self, cache: &KeyCache, ledger: &Ledger, key_id: KeyId, now: Moment) {
        let Some((hash, holder, plan, valid_until)) = ledger.admitted(key_id, now) else {
            return;
        };
        let use_counter = match holder {
            Holder::Pages(_) => Arc::default(),
            Holder::Key(_) | Holder::Subscription(_) => cache.uses.counter(key_id),
        };
        let entry = KeyEntry {
            key_id,
            meter: self.meter(&holder, &plan),
            holder,
            plan,
            use_counter,
            valid_until,
            hash,
        };
        self.ends.extend(valid_until.map(|end| (end, key_id)));
        self.entries.insert(key_id, Arc::new(entry));
    }

    /// The quotas of a holder. They last while its plan stays the same.
    fn meter(&mut self, holder: &Holder, plan: &Text) -> Arc<Meter> {
        let plan = match (self.plan(plan), holder) {
            (plan, Holder::Pages(_)) => Arc::new(plan.of_pages()),
            (plan, _) => plan,
        };
        let known = self.meters.get(holder);
        if let Some(meter) = known.filter(|meter| meter.plan == plan) {
            return Arc::clone(meter);
        }
        let meter = Arc::new(Meter::new(plan));
        self.meters.insert(holder.clone(), Arc::clone(&meter));
        meter
    }

    /// The plan of a name, or the tightest plan if it is not configured.
    fn plan(&mut self, name: &Text) -> Arc<Plan> {
        if let Some(plan) = self.plans.get(name.as_str()) {
            return Arc::clone(plan);
        }
        if self.unknown_plans.insert(name.clone()) {
            tracing::warn!(
                plan = name.as_str(),
                "keys are on a plan that is not configured; the tightest limits of all plans apply"
            );
        }
        Arc::new(self.plans.tightest(name.clone()))
    }

    /// Removes a key, and returns whether it was there.
    fn remove(&mut self, key_id: KeyId) -> bool {
        let removed = self.entries.remove(&key_id);
        let end = removed.as_ref().and_then(|entry| entry.valid_until);
        if let Some(end) = end {
            self.ends.remove(&(end, key_id));
        }
        removed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::IpAddr;
    use std::sync::Arc;

    use events::Text;
    use jiff::SignedDuration;

    use super::{KeyCache, KeyEntry, Meter, Refusal};
    use crate::accounts::now;
    use crate::accounts::tests::{Stream, key_cache};
    use crate::accounts::{ApiKey, Fact, KeyId, KeyIssued, KeyRevoked, KeyRotated, PlanChanged};
    use crate::limits::plans::Plans;

    /// Compares everything but the counts.
    impl PartialEq for KeyEntry {
        fn eq(&self, other: &Self) -> bool {
            let all = |entry: &Self| (entry.key_id, entry.valid_until, entry.hash);
            all(self) == all(other) && self.holder == other.holder && self.plan == other.plan
        }
    }

    impl KeyCache {
        pub(in crate::accounts) fn entries(&self) -> HashMap<KeyId, Arc<KeyEntry>> {
            self.keys.read().entries.clone()
        }
    }

    fn issued(key: &ApiKey, lasts: Option<SignedDuration>) -> Fact {
        let expires_at = lasts.map(|lasts| (now().timestamp() + lasts).into());
        let plan = events::Text::parse("default").expect("text");
        KeyIssued::new(key, plan, expires_at).into()
    }

    fn key() -> ApiKey {
        ApiKey::generate("dev").expect("random")
    }

    fn cache_of(stream: &Stream) -> KeyCache {
        let cache = key_cache();
        cache.fill(&stream.ledger, now());
        cache
    }

    #[test]
    fn an_issued_key_is_valid_and_no_other() {
        let mut stream = Stream::default();
        let one = key();
        let other = key();
        stream.append(issued(&one, None));
        let cache = cache_of(&stream);
        let entry = cache.check(one.reveal()).expect("valid");
        assert_eq!((entry.key_id, entry.plan.as_str()), (one.key_id, "default"));
        assert_eq!(cache.check(other.reveal()), Err(Refusal::NotValid));
        assert_eq!(cache.check("rb_dev_nonsense"), Err(Refusal::Malformed));
        assert!(!cache.has_lost(one.key_id) && cache.has_lost(other.key_id));
    }

    #[test]
    fn another_secret_under_the_same_id_is_not_valid() {
        let mut stream = Stream::default();
        let one = key();
        let other = key();
        let mut forged = KeyIssued::new(&one, Default::default(), None);
        forged.sha256 = other.hash();
        stream.append(forged);
        assert_eq!(
            cache_of(&stream).check(one.reveal()),
            Err(Refusal::NotValid)
        );
    }

    #[test]
    fn a_key_expires_without_an_event() {
        let mut stream = Stream::default();
        let over = key();
        let lasting = key();
        stream.append(issued(&over, Some(SignedDuration::from_secs(-1))));
        stream.append(issued(&lasting, Some(SignedDuration::from_hours(1))));
        // Filled as of an hour ago, when both were valid.
        let cache = key_cache();
        let an_hour_ago = now().timestamp() - SignedDuration::from_hours(1);
        cache.fill(&stream.ledger, an_hour_ago.into());
        assert_eq!(cache.count(), 2);
        assert_eq!(cache.check(over.reveal()), Err(Refusal::NotValid));
        assert!(cache.has_lost(over.key_id));
        assert!(cache.check(lasting.reveal()).is_ok());

        let losses = cache.losses();
        cache.remove_expired(now());
        assert_eq!((cache.count(), cache.losses()), (1, losses + 1));
        cache.remove_expired(now());
        assert_eq!(cache.losses(), losses + 1, "nothing more has ended");
    }

    #[test]
    fn a_new_key_counts_no_loss_and_a_revoked_one_does() {
        let mut stream = Stream::default();
        let one = key();
        let other = key();
        stream.append(issued(&one, None));
        let cache = cache_of(&stream);
        let losses = cache.losses();
        let changed = stream.append(issued(&other, None));
        cache.update(&stream.ledger, &changed, now());
        assert_eq!((cache.count(), cache.losses()), (2, losses));
        let reason = Default::default();
        let changed = stream.append(KeyRevoked {
            key_id: one.key_id,
            reason,
        });
        cache.update(&stream.ledger, &changed, now());
        assert_eq!((cache.count(), cache.losses()), (1, losses + 1));
        assert_eq!(cache.check(one.reveal()), Err(Refusal::NotValid));
    }

    /// Counts one request of each key, and returns how many remain after it.
    fn remaining(cache: &KeyCache, keys: &[&ApiKey]) -> Vec<u32> {
        let take = |key: &&ApiKey| {
            let entry = cache.check(key.reveal()).expect("valid");
            let status = entry.meter.take().expect("within the limit");
            status.expect("the plan has limits").remaining
        };
        keys.iter().map(take).collect()
    }

    fn on_plan(key: &ApiKey, plan: &str) -> Fact {
        KeyIssued::new(key, Text::parse(plan).expect("text"), None).into()
    }

    #[test]
    fn keys_of_one_holder_share_its_limits() {
        let mut stream = Stream::default();
        let first = key();
        let second = key();
        let other = key();
        stream.append(on_plan(&first, "free"));
        stream.append(on_plan(&other, "free"));
        let following = cache_of(&stream);
        assert_eq!(remaining(&following, &[&first, &first]), [59, 58]);
        let changed = stream.append(KeyRotated {
            key_id: first.key_id,
            valid_until: (now().timestamp() + SignedDuration::from_hours(1)).into(),
            new_key_id: second.key_id,
            new_sha256: second.hash(),
        });
        following.update(&stream.ledger, &changed, now());
        assert_eq!(
            remaining(&following, &[&second, &first, &other]),
            [57, 56, 59]
        );
        let anew = cache_of(&stream);
        assert_eq!(remaining(&anew, &[&first, &second, &other]), [59, 58, 59]);
    }

    #[test]
    fn the_use_of_a_key_is_counted_through_all_changes() {
        let mut stream = Stream::default();
        let first = key();
        let second = key();
        stream.append(on_plan(&first, "free"));
        let cache = cache_of(&stream);
        let network = IpAddr::from([192, 0, 2, 1]).into();
        let held = cache.check(first.reveal()).expect("valid");
        let count = |key: &ApiKey| {
            let entry = cache.check(key.reveal()).expect("valid");
            entry.use_counter.count(network);
        };
        let requests = |key: &ApiKey| {
            let found = cache.uses.get(key.key_id, now());
            found.map_or(0, |found| found.requests)
        };
        count(&first);
        let changed = stream.append(KeyRotated {
            key_id: first.key_id,
            valid_until: (now().timestamp() + SignedDuration::from_hours(1)).into(),
            new_key_id: second.key_id,
            new_sha256: second.hash(),
        });
        cache.update(&stream.ledger, &changed, now());
        count(&first);
        let changed = stream.append(PlanChanged {
            key_id: first.key_id,
            plan: Text::parse("default").expect("text"),
            revision: 1,
        });
        cache.update(&stream.ledger, &changed, now());
        count(&first);
        count(&second);
        cache.clear();
        cache.fill(&stream.ledger, now());
        count(&first);
        // A request that was under way meanwhile.
        held.use_counter.count(network);
        assert_eq!((requests(&first), requests(&second)), (5, 1));
        let changed = stream.append(KeyRevoked {
            key_id: first.key_id,
            reason: Default::default(),
        });
        cache.update(&stream.ledger, &changed, now());
        assert_eq!(requests(&first), 5);
    }

    #[test]
    fn a_million_invalid_keys_take_no_memory() {
        let mut stream = Stream::default();
        let one = key();
        stream.append(on_plan(&one, "free"));
        let cache = cache_of(&stream);
        let size = |cache: &KeyCache| {
            let keys = cache.keys.read();
            (
                keys.entries.capacity(),
                keys.ends.len(),
                keys.unknown_plans.capacity(),
            )
        };
        let before = size(&cache);
        for _ in 0..1_000_000 {
            assert_eq!(cache.check(key().reveal()), Err(Refusal::NotValid));
        }
        assert_eq!(size(&cache), before);
        // The memory of each valid key.
        assert!(size_of::<KeyEntry>() + size_of::<Meter>() <= 320);
    }

    #[test]
    fn a_change_of_plan_takes_effect_at_once_with_a_full_quota() {
        let mut stream = Stream::default();
        let one = key();
        stream.append(on_plan(&one, "free"));
        let cache = cache_of(&stream);
        assert_eq!(remaining(&cache, &[&one, &one]), [59, 58]);
        let mut change = |plan: &str, revision| {
            let key_id = one.key_id;
            let plan = Text::parse(plan).expect("text");
            let changed = stream.append(PlanChanged {
                key_id,
                plan,
                revision,
            });
            cache.update(&stream.ledger, &changed, now());
        };
        change("standard", 1);
        assert_eq!(remaining(&cache, &[&one]), [599]);
        change("of another file", 2);
        let entry = cache.check(one.reveal()).expect("valid");
        assert_eq!(entry.plan.as_str(), "of another file");
        let plan = &entry.meter.plan;
        assert_eq!(plan.name.as_str(), "of another file");
        assert_eq!(plan.requests_per_minute.map(u32::from), Some(60));
    }

    #[test]
    fn other_plans_are_in_force_for_all_keys_at_once_and_only_changed_ones_refill_quotas() {
        let mut stream = Stream::default();
        let first = key();
        let second = key();
        let other = key();
        stream.append(on_plan(&first, "free"));
        stream.append(KeyRotated {
            key_id: first.key_id,
            valid_until: (now().timestamp() + SignedDuration::from_hours(1)).into(),
            new_key_id: second.key_id,
            new_sha256: second.hash(),
        });
        stream.append(on_plan(&other, "standard"));
        let cache = cache_of(&stream);
        assert_eq!(remaining(&cache, &[&first, &second, &other]), [59, 58, 599]);
        let built_in = include_str!("../../ops/plans.toml");
        let losses = cache.losses();
        let changed = built_in.replace("requests_per_minute = 60\n", "requests_per_minute = 90\n");
        assert_ne!(changed, built_in);
        cache.replace_plans(Plans::parse(&changed).expect("plans"));
        assert_eq!(cache.losses(), losses + 1, "open sockets are checked");
        assert_eq!(remaining(&cache, &[&first, &second, &other]), [89, 88, 598]);
        assert_eq!(
            cache
                .plans()
                .get("free")
                .map(|plan| plan.requests_per_minute.map(u32::from)),
            Some(Some(90))
        );

        // A plan that is gone has the tightest limits of all.
        let gone = built_in.replace("name = \"standard\"", "name = \"other\"");
        cache.replace_plans(Plans::parse(&gone).expect("plans"));
        assert_eq!(remaining(&cache, &[&other]), [59]);
        // New keys and all that are read again are on the plans in force.
        cache.clear();
        cache.fill(&stream.ledger, now());
        assert_eq!(remaining(&cache, &[&other]), [59]);
    }

    #[test]
    fn no_key_is_known_to_be_invalid_before_all_are_read() {
        let mut stream = Stream::default();
        let one = key();
        stream.append(issued(&one, None));
        let cache = cache_of(&stream);
        cache.clear();
        assert_eq!(cache.check(one.reveal()), Err(Refusal::NotKnownYet));
        assert!(!cache.has_lost(one.key_id) && !cache.is_complete());
        assert_eq!(cache.check("rb_dev_nonsense"), Err(Refusal::Malformed));
    }
}
