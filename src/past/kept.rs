//! [`Kept`]: the values that were used last, within a bound of their bytes.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

use crate::task::spawn;

/// Values by key, each with its bytes. The one that was used last is at the end.
#[derive(Debug)]
pub(crate) struct Kept<K, V> {
    bytes_max: u64,
    making: Arc<Semaphore>,
    values: Mutex<Vec<(K, V, u64)>>,
}

impl<K, V> Kept<K, V>
where
    K: PartialEq + Send + 'static,
    V: Clone + Send + 'static,
{
    /// Keeps values of `bytes_max` bytes in all, and makes `making_max` at a time.
    pub(crate) fn new(bytes_max: u64, making_max: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            making: Arc::new(Semaphore::new(making_max)),
            values: Mutex::default(),
        })
    }

    /// Waits until a value may be made.
    pub(crate) async fn permit(&self) -> OwnedSemaphorePermit {
        let permit = Arc::clone(&self.making).acquire_owned().await;
        permit.expect("it is never closed")
    }

    /// The value of a key. `make` makes it with its bytes, unless it is kept. It is also made to its end and kept if
    /// nobody waits for it any more: else one that takes longer than a client waits would be made for ever.
    ///
    /// # Errors
    /// Returns those of `make`, and a [`JoinError`] if it panics.
    pub(crate) async fn get_or_make<E>(
        self: &Arc<Self>,
        key: K,
        make: impl Future<Output = Result<(V, u64), E>> + Send + 'static,
    ) -> Result<V, E>
    where
        E: From<JoinError> + Send + 'static,
    {
        if let Some(value) = self.get(&key) {
            return Ok(value);
        }
        let permit = self.permit().await;
        if let Some(value) = self.get(&key) {
            return Ok(value);
        }
        let this = Arc::clone(self);
        let making = spawn(async move {
            let _permit = permit;
            let (value, bytes) = make.await?;
            this.insert(key, value.clone(), bytes);
            Ok(value)
        });
        making.await?
    }

    /// The value of a key, which is then the one that was used last.
    fn get(&self, key: &K) -> Option<V> {
        let mut values = self.values.lock();
        let index = values.iter().position(|(known, ..)| known == key)?;
        values[index..].rotate_left(1);
        values.last().map(|(_, value, _)| value.clone())
    }

    /// Keeps a value, and drops the ones that were used longest ago while there are too many bytes. The newest stays
    /// whatever its size: else each page of a large race would fold it again.
    fn insert(&self, key: K, value: V, bytes: u64) {
        let mut values = self.values.lock();
        values.push((key, value, bytes));
        let sum = |values: &[(K, V, u64)]| values.iter().map(|(.., bytes)| bytes).sum::<u64>();
        while values.len() > 1 && sum(&values) > self.bytes_max {
            values.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_value_that_nobody_waits_for_any_more_is_made_and_kept() {
        let kept = Kept::new(10, 1);
        let (go_on, waiting) = oneshot::channel();
        let make = async {
            waiting.await.expect("the test goes on");
            Ok::<_, JoinError>(("made", 1))
        };
        let mut first = Box::pin(kept.get_or_make("key", make));
        assert!(futures::poll!(&mut first).is_pending());
        drop(first);
        go_on.send(()).expect("it is still made");
        let again = kept.get_or_make::<JoinError>("key", async { panic!("it is made again") });
        assert_eq!(again.await.expect("it is kept"), "made");
    }
}
