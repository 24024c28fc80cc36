//! [`IssuedKey`]: a key, and what operators did with it. [`KeyChecks`]: which keys replicas may accept.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use events::Text;
use serde_json::Value;

use super::chance::Chance;
use super::checks::{CALM, SLACK};
use super::replica::{KEYS_STALE_MAX, Replica, Running};
use super::server::{LogServer, Model};
use super::world::World;
use crate::accounts::{ApiKey, Fact, KeyIssued, KeyRevoked, KeyRotated, Refusal};
use crate::log::ACCOUNTS;

const REVOKED_WITHIN: Duration = Duration::from_secs(5);
/// A file that could not be written is written again within this time.
const SAVED_WITHIN: Duration = Duration::from_secs(5);
/// The overlap of a rotated key: longer than all steps of the clocks together.
const OVERLAP_DAYS: u64 = 100;

pub(super) struct IssuedKey {
    pub(super) key: ApiKey,
    pub(super) revoked_at: Option<Duration>,
    /// It was rotated, or a replica is about to revoke it.
    pub(super) is_taken: bool,
}

impl IssuedKey {
    fn new(number: usize) -> Self {
        Self {
            key: ApiKey::derive("live", &["simulation", &number.to_string()]),
            revoked_at: None,
            is_taken: false,
        }
    }

    fn id(&self) -> String {
        self.key.key_id.as_str().to_owned()
    }
}

/// Runs commands of an operator one after the other, if the server takes them.
pub(super) fn change_keys(
    server: &LogServer,
    keys: &mut Vec<IssuedKey>,
    commands: u64,
    now: Duration,
    chance: &mut Chance,
) {
    server.change(|model| {
        if model.takes_commands() {
            for _ in 0..commands {
                change_key(model, keys, now, chance);
            }
        }
    });
}

fn change_key(model: &mut Model, keys: &mut Vec<IssuedKey>, now: Duration, chance: &mut Chance) {
    let number = keys.len();
    let valid = (0..number).filter(|n| keys[*n].revoked_at.is_none());
    let valid: Vec<_> = valid.collect();
    let of = (!valid.is_empty()).then(|| *chance.pick(&valid));
    let fact: Fact = match (chance.below(4), of) {
        (0 | 1, Some(old)) => {
            keys[old].revoked_at = Some(now);
            let key_id = keys[old].key.key_id;
            let reason = Text::default();
            KeyRevoked { key_id, reason }.into()
        }
        (2, Some(old)) if !keys[old].is_taken => {
            keys[old].is_taken = true;
            let key_id = keys[old].key.key_id;
            let new = IssuedKey::new(number);
            let overlap = jiff::SignedDuration::from_hours(24 * OVERLAP_DAYS.cast_signed());
            let rotated = KeyRotated {
                key_id,
                valid_until: (model.streams.now() + overlap).into(),
                new_key_id: new.key.key_id,
                new_sha256: new.key.hash(),
            };
            keys.push(new);
            rotated.into()
        }
        _ => {
            let new = IssuedKey::new(number);
            let plan = Text::parse("default").expect("text");
            let issued = KeyIssued::new(&new.key, plan, None);
            keys.push(new);
            issued.into()
        }
    };
    model.append_account(&fact);
}

/// What holds of the keys.
#[derive(Default)]
pub(super) struct KeyChecks {
    /// The keys that each replica has rejected, and remembers in its data folder.
    rejected: BTreeSet<(usize, String)>,
    /// The count of losses of a process when it last accepted a key.
    accepted: BTreeMap<(usize, u64, String), u64>,
    /// When the small files of a replica could last not be written, or it slept.
    unwritable_at: BTreeMap<usize, Duration>,
    /// The stream as it was last read: its length, and the keys that are valid, and revoked.
    read: (u64, usize),
    valid: BTreeSet<String>,
    revoked: BTreeSet<String>,
}

impl KeyChecks {
    /// Reads the stream.
    pub(super) fn follow(&mut self, world: &World) {
        let model = world.server.model.lock();
        let stream = &model.streams.all[ACCOUNTS.name];
        let read = (stream.last_seq, stream.messages.len());
        if self.read != read {
            self.read = read;
            self.valid.clear();
            self.revoked.clear();
            for message in stream.messages.values() {
                self.take(&message.payload);
            }
        }
        drop(model);
        for (n, replica) in world.replicas.iter().enumerate() {
            if replica.has_lost_disk {
                self.rejected.retain(|(of, _)| *of != n);
            }
            if replica.machine.is_suspended() || replica.are_files_blocked {
                self.unwritable_at.insert(n, world.now());
            }
        }
    }

    fn take(&mut self, event: &[u8]) {
        let event: Value = serde_json::from_slice(event).expect("JSON");
        let data = &event["data"];
        let id = |field: &str| data[field].as_str().unwrap_or_default().to_owned();
        let key = id("key_id");
        match event["type"].as_str() {
            Some("accounts.key.issued.v1") => drop(self.valid.insert(key)),
            Some("accounts.key.rotated.v1") if self.valid.contains(&key) => {
                self.valid.insert(id("new_key_id"));
            }
            Some("accounts.key.revoked.v1") => {
                self.valid.remove(&key);
                self.revoked.insert(key);
            }
            _ => {}
        }
    }

    /// A revoked key is not accepted for longer than without the log, and never again while the data folder is there
    /// that saw it revoked. What a replica rejects is in its data folder before, and closes the sockets.
    pub(super) fn check(
        &mut self,
        world: &World,
        n: usize,
        running: &Running,
    ) -> Result<(), String> {
        let now = world.now();
        let replica = &world.replicas[n];
        for issued in world.keys.lock().iter() {
            let id = issued.id();
            let of_process = (n, replica.incarnation, id.clone());
            let losses = running.health.keys.losses();
            let refusal = running.health.keys.check(issued.key.reveal()).err();
            let is_reached = world.disturbed_at + CALM + REVOKED_WITHIN < now;
            let limit = match is_reached {
                true => REVOKED_WITHIN + SLACK,
                false => KEYS_STALE_MAX + REVOKED_WITHIN,
            };
            let is_long = issued.revoked_at.is_some_and(|at| at + limit < now);
            let is_revoked = self.revoked.contains(&id);
            let Some(refusal) = refusal else {
                if is_long && is_revoked || self.rejected.contains(&(n, id.clone())) {
                    return Err(format!("the revoked key {id} is accepted"));
                }
                self.accepted.insert(of_process, losses);
                continue;
            };
            if refusal != Refusal::NotValid || issued.revoked_at.is_none() {
                continue;
            }
            if self.accepted.get(&of_process) == Some(&losses) {
                return Err(format!("the sockets of the revoked key {id} stay open"));
            }
            let ledger = running.health.ledger.borrow();
            let known = ledger.keys.get(&issued.key.key_id);
            let knows = known.is_some_and(|key| key.revoked.is_some());
            drop(ledger);
            if knows
                && is_revoked
                && self.rejected.insert((n, id.clone()))
                && !is_remembered(replica, &id)
            {
                self.rejected.remove(&(n, id.clone()));
                let unwritable_at = self.unwritable_at.get(&n);
                if unwritable_at.is_none_or(|at| *at + SAVED_WITHIN < now) {
                    return Err(format!(
                        "the revoked key {id} is rejected, and not remembered"
                    ));
                }
            }
        }
        Ok(())
    }

    /// A replica accepts the keys that are valid, and no others.
    pub(super) fn well(&self, world: &World, n: usize, running: &Running) -> Result<(), String> {
        let knows = |issued: &IssuedKey| {
            let accepts = running.health.keys.check(issued.key.reveal()).is_ok();
            accepts == self.valid.contains(&issued.id())
        };
        match world.keys.lock().iter().all(knows) {
            true => Ok(()),
            false => Err(format!("replica {n} does not know which keys are valid")),
        }
    }
}

/// Whether the data folder of a replica names a key as revoked.
fn is_remembered(replica: &Replica, id: &str) -> bool {
    let file = fs::read_to_string(replica.data().join("ended.json"));
    file.is_ok_and(|file| file.contains(id))
}
