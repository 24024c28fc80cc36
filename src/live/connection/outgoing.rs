//! [`OutgoingBuffer`]: the frames for one client alone that it has not taken yet.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes;

/// Frames in one system call.
const FRAMES_PER_WRITE: usize = 256;

/// Frames that are written before those of the feed.
#[derive(Debug, Default)]
pub(super) struct OutgoingBuffer {
    pub(super) frames: VecDeque<Bytes>,
    /// Bytes of the first frame that are written.
    written: usize,
}

impl OutgoingBuffer {
    /// Drops all frames but one that is partly written.
    pub(super) fn discard_unstarted(&mut self) {
        self.frames.truncate(usize::from(self.written > 0));
    }

    /// Calls `write` with the next bytes to write: of the buffer, and then of `frames`. `None` if there are none.
    pub(super) fn with_slices<'a, T>(
        &self,
        frames: impl Iterator<Item = &'a Bytes>,
        write: impl FnOnce(&[IoSlice<'_>]) -> T,
    ) -> Option<T> {
        let mut slices = [IoSlice::new(&[]); FRAMES_PER_WRITE];
        let mut count = 0;
        let own = self.frames.iter().map(|frame| &frame[..]);
        let all = own.chain(frames.map(|frame| &frame[..]));
        for (slice, frame) in slices.iter_mut().zip(all) {
            let skip = if count == 0 { self.written } else { 0 };
            *slice = IoSlice::new(frame.get(skip..).unwrap_or_default());
            count += 1;
        }
        let slices = slices.get(..count).filter(|slices| !slices.is_empty())?;
        Some(write(slices))
    }

    /// Records that `bytes` were written. Returns how many of `frames` were at least started; one that was not finished
    /// is in the buffer then.
    pub(super) fn advance<'a>(
        &mut self,
        bytes: usize,
        frames: impl ExactSizeIterator<Item = &'a Bytes>,
    ) -> usize {
        let count = frames.len();
        let mut bytes = bytes + std::mem::take(&mut self.written);
        while let Some(front) = self.frames.front() {
            if bytes < front.len() {
                self.written = bytes;
                return 0;
            }
            bytes -= front.len();
            self.frames.pop_front();
        }
        for (finished, frame) in frames.enumerate() {
            if bytes == 0 {
                return finished;
            }
            if bytes < frame.len() {
                self.frames.push_back(frame.clone());
                self.written = bytes;
                return finished + 1;
            }
            bytes -= frame.len();
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::OutgoingBuffer;

    fn pending(buffer: &OutgoingBuffer, frames: &[Bytes]) -> Vec<u8> {
        let slices = buffer.with_slices(frames.iter(), |slices| {
            slices.iter().flat_map(|slice| slice.to_vec()).collect()
        });
        slices.unwrap_or_default()
    }

    #[test]
    fn every_byte_is_written_once_wherever_a_write_stops() {
        let frames = [b"ccc", b"ddd"].map(|frame| Bytes::from_static(frame));
        for written in 0..=10 {
            let mut buffer = OutgoingBuffer::default();
            buffer.frames.push_back(Bytes::from_static(b"aa"));
            buffer.frames.push_back(Bytes::from_static(b"bb"));
            let all = pending(&buffer, &frames);
            assert_eq!(all, b"aabbcccddd");

            let started = buffer.advance(written, frames.iter());
            assert_eq!(started, written.saturating_sub(4).div_ceil(3));
            assert_eq!(pending(&buffer, &frames[started..]), all[written..]);
        }
    }

    #[test]
    fn a_frame_that_was_started_is_not_discarded() {
        let mut buffer = OutgoingBuffer::default();
        buffer.frames.push_back(Bytes::from_static(b"aa"));
        buffer.frames.push_back(Bytes::from_static(b"bb"));
        buffer.advance(1, [].iter());
        buffer.discard_unstarted();
        assert_eq!(pending(&buffer, &[]), b"a");
        buffer.advance(1, [].iter());
        buffer.frames.push_back(Bytes::from_static(b"cc"));
        buffer.discard_unstarted();
        assert_eq!(pending(&buffer, &[]), b"");
    }
}
