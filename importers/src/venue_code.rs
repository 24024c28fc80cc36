//! Venue codes made of names, for files that have no others.

use events::{ParseError, VenueCode};

/// A racecourse's code: its letters and digits in capitals, `YORK`. Of more than eight, the first five and a checksum
/// of all, because names begin alike: Warwick and Warwick Farm.
pub(crate) fn venue_code(name: &str) -> Result<VenueCode, ParseError> {
    const LEN_MAX: usize = 8;
    const LETTERS: usize = 5;
    const DIGITS: [u8; 36] = *b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let all: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    let all = all.to_uppercase();
    if all.is_empty() {
        let expected = "the name of a venue has a letter or a digit";
        return Err(ParseError::new(expected, name));
    }
    if all.is_ascii() && all.len() <= LEN_MAX {
        return VenueCode::parse(&all);
    }
    let mut code: String = all.chars().filter(char::is_ascii).take(LETTERS).collect();
    let checksum = blake3::hash(all.as_bytes());
    let digits = checksum.as_bytes().iter().take(LEN_MAX - LETTERS);
    code.extend(digits.map(|b| char::from(DIGITS[usize::from(*b) % DIGITS.len()])));
    VenueCode::parse(&code)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::venue_code;

    #[test]
    fn different_courses_have_different_codes() {
        let code = |course: &str| venue_code(course).expect(course).to_string();
        assert_eq!(code("York"), "YORK");
        assert_eq!(code("Down Royal").len(), 8);
        assert_eq!(code("Kempton (AW)"), code("kempton-aw"));
        for (course, other) in [
            ("Newcastle", "Newcastle (AW)"),
            ("Newmarket", "Newmarket (July)"),
            ("Lingfield", "Lingfield (AW)"),
            ("AU Warwick", "AU Warwick Farm"),
        ] {
            assert_ne!(code(course), code(other));
        }
        assert!(venue_code("").is_err() && venue_code("()").is_err());
    }

    proptest! {
        #[test]
        fn any_names_make_valid_codes(name in "\\PC{1,60}") {
            prop_assert_eq!(venue_code(&name).is_ok(), name.chars().any(char::is_alphanumeric));
        }
    }
}
