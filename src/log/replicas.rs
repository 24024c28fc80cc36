//! [`Replicas`]: how many servers of a cluster store a stream.

use derive_more::Display;

/// How many servers of a cluster store a stream. A stream goes on while more than half of them are up.
#[derive(Debug, Display, Clone, Copy, PartialEq, Eq)]
pub struct Replicas(usize);

impl Replicas {
    /// Parses a number of replicas.
    ///
    /// # Errors
    /// Returns a text if it is not 1, 3 or 5. nats-server has no others but 2 and 4, which survive the loss of no more
    /// servers than 1 and 3.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text.trim() {
            "1" => Ok(Self(1)),
            "3" => Ok(Self(3)),
            "5" => Ok(Self(5)),
            _ => Err("expected 1, 3 or 5"),
        }
    }

    pub fn count(self) -> usize {
        self.0
    }
}

impl Default for Replicas {
    /// One, as on a single server.
    fn default() -> Self {
        Self(1)
    }
}

#[cfg(test)]
mod tests {
    use super::Replicas;

    #[test]
    fn only_numbers_that_survive_more_than_the_one_before_are_replicas() {
        for count in [1, 3, 5] {
            assert_eq!(
                Replicas::parse(&count.to_string()).map(Replicas::count),
                Ok(count)
            );
        }
        for text in ["0", "2", "4", "6", "", "three", "-3"] {
            assert!(Replicas::parse(text).is_err(), "{text}");
        }
    }
}
