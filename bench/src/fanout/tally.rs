//! [`Tally`]: when each message was published, and which clients have received it.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

use flate2::read::DeflateDecoder;

use crate::histogram::Histogram;

/// Counts messages, numbered from 1 in the order of publishing. Number n is about race (n - 1) % [`super::RACES`].
#[derive(Debug)]
pub(super) struct Tally {
    begun: Instant,
    /// In µs since `begun`; that of number n is at n - 1, as in `received`.
    published_us: Vec<u64>,
    received: Vec<u32>,
    /// The number of clients that follow a race.
    followers: u32,
    /// Every follower has received every message up to this number.
    pub(super) complete: u64,
    pub(super) deliveries: u64,
    pub(super) bytes: u64,
    pub(super) gaps: u64,
    pub(super) conflated: u64,
    /// Of messages from `latencies_from` on, in µs.
    pub(super) latencies: Histogram,
    latencies_from: u64,
    /// The first message whose latency counts.
    pub(super) sample: Vec<u8>,
    /// Where the number was in the last message, or a little before.
    number_at: usize,
    /// Compressed messages as they were inflated: all clients receive the same.
    inflated: HashMap<Vec<u8>, Arc<[u8]>>,
}

/// More than are in flight.
const INFLATED_MAX: usize = 4_096;

impl Tally {
    pub(super) fn new(followers: u32) -> Self {
        Self {
            begun: Instant::now(),
            published_us: Vec::new(),
            received: Vec::new(),
            followers,
            complete: 0,
            deliveries: 0,
            bytes: 0,
            gaps: 0,
            conflated: 0,
            latencies: Histogram::default(),
            latencies_from: 0,
            sample: Vec::new(),
            number_at: 0,
            inflated: HashMap::new(),
        }
    }

    /// A compressed message as a text. Each is inflated once, so that the load takes little of the machine.
    pub(super) fn inflate(&mut self, payload: &[u8]) -> std::io::Result<Arc<[u8]>> {
        if let Some(text) = self.inflated.get(payload) {
            return Ok(Arc::clone(text));
        }
        // What the sender has cut off (RFC 7692, 7.2.2), and a last block, so that the stream ends.
        let whole = [payload, &[0, 0, 0xff, 0xff, 1, 0, 0, 0xff, 0xff]].concat();
        let mut text = Vec::new();
        DeflateDecoder::new(&whole[..]).read_to_end(&mut text)?;
        if self.inflated.len() == INFLATED_MAX {
            self.inflated.clear();
        }
        let text: Arc<[u8]> = text.into();
        self.inflated.insert(payload.into(), Arc::clone(&text));
        Ok(text)
    }

    pub(super) fn published(&self) -> u64 {
        self.published_us.len() as u64
    }

    pub(super) fn outstanding(&self) -> u64 {
        self.published() - self.complete
    }

    /// Records that a message is published now. Returns its number.
    pub(super) fn publish(&mut self) -> u64 {
        self.published_us.push(self.now_us());
        self.received.push(0);
        self.published()
    }

    /// Discards the latencies so far, also those of messages in flight.
    pub(super) fn begin_latencies(&mut self) {
        self.latencies = Histogram::default();
        self.latencies_from = self.published();
    }

    pub(super) fn now_us(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    /// Records that a client has received a message. Returns false if no message of this number was published.
    pub(super) fn delivered(
        &mut self,
        number: u64,
        text: &[u8],
        bytes: usize,
        now_us: u64,
    ) -> bool {
        let Some(published_us) = self.published_us.get(number.wrapping_sub(1) as usize) else {
            return false;
        };
        if number > self.latencies_from {
            self.latencies.add(now_us - published_us);
        }
        if number == self.latencies_from + 1 {
            self.sample = text.into();
        }
        self.deliveries += 1;
        self.bytes += bytes as u64;
        self.complete(number);
        true
    }

    /// Records that a client went from `from` to `to` without the messages between. A conflated message is no gap.
    pub(super) fn skipped(&mut self, from: u64, to: u64, stride: usize, text: &[u8]) {
        if contains(text, br#""conflated":"#) {
            self.conflated += 1;
        } else {
            self.gaps += 1;
        }
        for number in (from..to.min(self.published() + 1)).step_by(stride) {
            self.complete(number);
        }
    }

    fn complete(&mut self, number: u64) {
        self.received[number as usize - 1] += 1;
        while self.received.get(self.complete as usize) == Some(&self.followers) {
            self.complete += 1;
        }
    }

    /// The number after `"seq":`. It is near its position in the message before.
    pub(super) fn number_in(&mut self, text: &[u8]) -> Option<u64> {
        const NEARLY: usize = 16;
        let digits_at = match find_number(text, self.number_at) {
            Some(at) if at <= self.number_at + 2 * NEARLY => at,
            _ => {
                let at = find_number(text, 0)?;
                self.number_at = at.saturating_sub(NEARLY);
                at
            }
        };
        let digits = text[digits_at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit());
        Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    }
}

/// The position of the first digit.
pub(super) fn find_number(text: &[u8], from: usize) -> Option<usize> {
    const NAME: &[u8] = br#""seq":"#;
    let mut windows = text.get(from..)?.windows(NAME.len());
    Some(from + windows.position(|window| window == NAME)? + NAME.len())
}

pub(super) fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(published: u64) -> Tally {
        let mut tally = Tally::new(2);
        for _ in 0..published {
            tally.publish();
        }
        tally
    }

    #[test]
    fn the_number_is_found_at_any_position() {
        let mut tally = tally(0);
        let filler = "x".repeat(100);
        for text in [
            format!(r#"{{"prev_seq":1,"seq":12,{filler}"#),
            format!(r#"{{"{filler}","seq":13}}"#),
            format!(r#"{{"{filler}x","seq":1400,"prev_seq":7}}"#),
            r#"{"seq":5}"#.to_owned(),
        ] {
            let digits = text.split(r#""seq":"#).nth(1).unwrap();
            let expected = digits.split([',', '}']).next().unwrap().parse().ok();
            assert_eq!(tally.number_in(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_message_is_complete_when_every_follower_has_it_and_all_before_it() {
        let mut tally = tally(3);
        for (number, complete) in [(2, 0), (2, 0), (1, 0), (1, 2), (3, 2), (3, 3)] {
            assert!(tally.delivered(number, b"", 0, u64::MAX));
            assert_eq!(tally.complete, complete);
        }
        assert!(!tally.delivered(4, b"", 0, u64::MAX));
    }

    #[test]
    fn a_skipped_message_is_a_gap_unless_it_was_conflated() {
        let mut tally = tally(4);
        tally.skipped(1, 3, 1, br#"{"seq":3}"#);
        tally.skipped(1, 3, 1, br#"{"seq":3,"conflated":3}"#);
        assert_eq!((tally.gaps, tally.conflated, tally.complete), (1, 1, 2));
    }
}
