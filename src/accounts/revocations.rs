//! [`Revocations`]: the keys and the subscriptions that have ended, as the data folder remembers them.
//!
//! `ACCOUNTS` may be restored from a backup that was made before a key was revoked. The service appends again what the
//! stream lacks, so that the key is not accepted again, here or by another replica.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use events::{Moment, Text};
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Fact, Holder, KeyId, KeyRevoked, Ledger, SubscriptionForgotten, SubscriptionId};
use crate::atomic_file::{read_json, replace_json};
use crate::task;

const FILE: &str = "ended.json";
/// How long keys wait for the file. A disk that hangs must not delay a revocation beyond its 5 s.
const WRITE_WAIT: Duration = Duration::from_secs(2);
const REASON: &str = "ended before the stream was restored";

/// What has ended, and the file of it.
#[derive(Debug)]
pub struct Revocations {
    path: PathBuf,
    known: Record,
    /// The file has all that is known.
    is_saved: bool,
    writing: Option<Writing>,
}

/// A record that is being written, and the end of that. On a disk that hangs there is none.
type Writing = (Record, JoinHandle<io::Result<()>>);

/// The content of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// The end of the overlap of rotated keys; null for those that were revoked.
    keys: BTreeMap<KeyId, Option<Moment>>,
    /// The last generation of each subscription that was forgotten.
    subscriptions: BTreeMap<SubscriptionId, u32>,
}

impl Revocations {
    /// Reads the file of a data folder. A damaged one counts as empty: it is written anew from the stream.
    ///
    /// # Errors
    /// Returns an I/O error if the file exists and cannot be read.
    pub fn open(data: &Path) -> io::Result<Self> {
        let path = data.join(FILE);
        let read = read_json(&path);
        let is_saved = read.is_ok();
        let known = match read {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                tracing::error!(path = %path.display(), %error, "the file of revoked keys is damaged");
                Record::default()
            }
            read => read?.unwrap_or_default(),
        };
        Ok(Self {
            path,
            known,
            is_saved,
            writing: None,
        })
    }

    /// Adds what has ended in a ledger.
    pub(super) fn note(&mut self, ledger: &Ledger) {
        let before = self.known.clone();
        for (&key_id, key) in &ledger.keys {
            if key.revoked.is_some() {
                self.known.keys.insert(key_id, None);
            } else if let Some(rotation) = &key.rotated {
                let end = self.known.keys.entry(key_id);
                let end = end.or_insert(Some(rotation.overlap_until));
                *end = end.map(|_| rotation.overlap_until);
            }
        }
        for (id, subscription) in &ledger.subscriptions {
            let is_forgotten = subscription.forgotten_at.is_some();
            // An earlier generation was forgotten before the next one.
            let forgotten = subscription.generation - u32::from(!is_forgotten);
            if forgotten > 0 {
                let known = self.known.subscriptions.entry(id.clone()).or_default();
                *known = forgotten.max(*known);
            }
        }
        self.is_saved &= self.known == before;
    }

    /// The events that a ledger lacks: without them, what has ended is valid in it.
    pub(super) fn missing_from(&self, ledger: &Ledger, now: Moment) -> Vec<Fact> {
        let revived = |id: &SubscriptionId| {
            let forgotten = self.known.subscriptions.get(id)?;
            let known = ledger.subscriptions.get(id)?;
            let is_revived = known.forgotten_at.is_none() && known.generation <= *forgotten;
            is_revived.then_some(known.generation)
        };
        let subscriptions = self.known.subscriptions.keys().filter_map(|id| {
            let generation = revived(id)?;
            let subscription_id = id.clone();
            Some(Fact::from(SubscriptionForgotten {
                subscription_id,
                generation,
            }))
        });
        let keys = self.known.keys.iter().filter_map(|(key_id, end)| {
            let key = ledger.keys.get(key_id).filter(|key| key.is_valid(now))?;
            // It ends with its subscription.
            let ends_anyway =
                matches!(&key.holder, Holder::Subscription(id) if revived(id).is_some());
            let has_ended = end.is_none_or(|end| end <= now) && !ends_anyway;
            has_ended.then(|| {
                let key_id = *key_id;
                let reason = Text::parse(REASON).unwrap_or_default();
                Fact::from(KeyRevoked { key_id, reason })
            })
        });
        subscriptions.chain(keys).collect()
    }

    /// Writes the file if it is out of date, and waits for that, but for a bounded time and only once. What failed is
    /// tried again at the next call.
    pub(super) async fn save(&mut self) {
        let mut wait = (self.writing.as_ref()).map_or(WRITE_WAIT, |_| Duration::ZERO);
        while !self.is_saved {
            let (record, mut done) = self.writing.take().unwrap_or_else(|| self.write());
            let Ok(written) = timeout(wait, &mut done).await else {
                let path = self.path.display();
                tracing::error!(%path, "the file of revoked keys is not written: the disk does not answer");
                self.writing = Some((record, done));
                return;
            };
            if let Err(error) = written.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
                let path = self.path.display();
                tracing::error!(%path, %error, "cannot write the file of revoked keys");
                return;
            }
            self.is_saved = record == self.known;
            wait = WRITE_WAIT;
        }
    }

    fn write(&self) -> Writing {
        let path = self.path.clone();
        let record = self.known.clone();
        let content = record.clone();
        let done = task::spawn_blocking(move || replace_json(&path, &content));
        (record, done)
    }
}

#[cfg(test)]
mod tests {
    use events::Moment;
    use jiff::SignedDuration;

    use super::Revocations;
    use crate::accounts::tests::Stream;
    use crate::accounts::{ApiKey, Fact, KeyIssued, KeyRevoked, KeyRotated, now};

    fn in_an_hour() -> Moment {
        let hour = crate::clock::now().checked_add(SignedDuration::from_hours(1));
        hour.expect("a time").into()
    }

    #[tokio::test]
    async fn a_restored_stream_gets_the_ends_that_it_lacks_and_no_others() {
        let data = tempfile::tempdir().expect("a folder");
        let mut old = Stream::default();
        let mut restored = Stream::default();
        let keys = ["valid", "revoked", "rotated", "overlapping"].map(|_| {
            let key = ApiKey::generate("test").expect("random numbers");
            let issued = KeyIssued::new(&key, events::Text::default(), None);
            old.append(issued.clone());
            restored.append(issued);
            key.key_id
        });
        let [_, revoked, rotated, overlapping] = keys;
        let reason = events::Text::default();
        old.append(KeyRevoked {
            key_id: revoked,
            reason,
        });
        for (key_id, valid_until) in [(rotated, now()), (overlapping, in_an_hour())] {
            let new = ApiKey::generate("test").expect("random numbers");
            old.append(KeyRotated {
                key_id,
                valid_until,
                new_key_id: new.key_id,
                new_sha256: new.hash(),
            });
        }
        let mut ended = Revocations::open(data.path()).expect("a folder");
        ended.note(&old.ledger);
        ended.save().await;
        assert_eq!(ended.missing_from(&old.ledger, now()), []);

        let ended = Revocations::open(data.path()).expect("the file");
        let revoked_in = |facts: &[Fact]| {
            let mut ids: Vec<_> = facts
                .iter()
                .map(|fact| fact.subject().to_string())
                .collect();
            ids.sort();
            ids
        };
        let subjects = |ids: &[_]| {
            let mut subjects: Vec<_> = ids.iter().map(|id| format!("accounts.key.{id}")).collect();
            subjects.sort();
            subjects
        };
        let missing = ended.missing_from(&restored.ledger, now());
        assert_eq!(revoked_in(&missing), subjects(&[revoked, rotated]));
        let later = ended.missing_from(&restored.ledger, in_an_hour());
        assert_eq!(
            revoked_in(&later),
            subjects(&[revoked, rotated, overlapping])
        );
        for fact in missing {
            restored.append(fact);
        }
        assert_eq!(ended.missing_from(&restored.ledger, now()), []);
    }

    #[tokio::test]
    async fn a_disk_that_hangs_delays_no_revocation_and_has_all_once_it_answers() {
        let data = tempfile::tempdir().expect("a folder");
        let draft = data.path().join(".ended.json.new");
        // A writer of a pipe waits for a reader, as for a disk that hangs.
        let made = std::process::Command::new("mkfifo").arg(&draft).status();
        assert!(made.is_ok_and(|made| made.success()));
        let mut stream = Stream::default();
        let mut ended = Revocations::open(data.path()).expect("a folder");
        let mut revoke = |ended: &mut Revocations| {
            let key = ApiKey::generate("test").expect("random numbers");
            stream.append(KeyIssued::new(&key, events::Text::default(), None));
            let (key_id, reason) = (key.key_id, events::Text::default());
            stream.append(KeyRevoked { key_id, reason });
            ended.note(&stream.ledger);
        };
        for _ in 0..3 {
            revoke(&mut ended);
            ended.save().await;
        }

        let mut pipe = std::fs::File::open(&draft).expect("the pipe");
        std::io::copy(&mut pipe, &mut std::io::sink()).expect("what was written");
        std::fs::remove_file(&draft).expect("the pipe");
        while !ended.is_saved {
            ended.save().await;
        }
        let saved = Revocations::open(data.path()).expect("the file");
        assert_eq!(saved.known, ended.known);
    }
}
