//! Identifiers made of names, for files that have no others.

use events::{HorseNo, ParseError};

/// Splits `Quiet River (IRE)` into the name and the country, empty where there is none.
pub(super) fn split_country(text: &str) -> (&str, &str) {
    let text = text.trim();
    let bracket = text.strip_suffix(')').and_then(|t| t.rsplit_once('('));
    let is_country =
        |text: &str| (2..=3).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_uppercase());
    match bracket {
        Some((name, country)) if is_country(country) => (name.trim_end(), country),
        _ => (text, ""),
    }
}

/// A horse's number: `RP_` and its id, else its name and country in capitals: `QUIET-RIVER_IRE`.
///
/// A name that is too long or not ASCII is cut, and a checksum of the whole name follows.
pub(super) fn horse_no(horse_id: &str, name: &str, country: &str) -> Result<HorseNo, ParseError> {
    const LEN_MAX: usize = 32;
    const CHECKSUM_HEX: usize = 8;
    if !horse_id.is_empty() {
        let plain = horse_id.bytes().all(|b| b.is_ascii_digit());
        if !plain {
            return Err(ParseError::new("a horse's id is a number", horse_id));
        }
        return HorseNo::parse(&format!("RP_{horse_id}"));
    }
    let words = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '\'' && c != '’');
    let words: Vec<String> = words
        .map(|word| word.replace(['\'', '’'], "").to_ascii_uppercase())
        .filter(|word| !word.is_empty())
        .collect();
    let behind = match country {
        "" => String::new(),
        country => format!("_{country}"),
    };
    let mut made = words.join("-");
    if made.is_empty() || !name.is_ascii() || made.len() + behind.len() > LEN_MAX {
        made.truncate(LEN_MAX - behind.len() - 1 - CHECKSUM_HEX);
        let checksum = blake3::hash(name.to_uppercase().as_bytes()).to_hex();
        made = format!("{made}-{}", &checksum[..CHECKSUM_HEX]);
    }
    HorseNo::parse(&format!("{made}{behind}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{horse_no, split_country};

    #[test]
    fn the_country_behind_the_name_is_split_off() {
        for (text, expected) in [
            ("Quiet River (IRE)", ("Quiet River", "IRE")),
            ("Quiet River(GB)", ("Quiet River", "GB")),
            ("Quiet River", ("Quiet River", "")),
            ("Quiet (The) River", ("Quiet (The) River", "")),
            ("Quiet River (II) (FR)", ("Quiet River (II)", "FR")),
            ("(IRE)", ("", "IRE")),
        ] {
            assert_eq!(split_country(text), expected);
        }
    }

    #[test]
    fn a_horse_without_an_id_gets_a_number_made_of_its_name() {
        let made = |name: &str, country: &str| horse_no("", name, country).expect(name).to_string();
        assert_eq!(
            horse_no("1234567", "Any", "GB").expect("an id").as_str(),
            "RP_1234567"
        );
        assert!(horse_no("12a", "Any", "GB").is_err());
        assert_eq!(made("Quiet River", "IRE"), "QUIET-RIVER_IRE");
        assert_eq!(made("Quiet River", ""), "QUIET-RIVER");
        assert_eq!(made("L'Eau d'Or", "FR"), "LEAU-DOR_FR");
        assert_eq!(made("No. 1 (Again)", "USA"), "NO-1-AGAIN_USA");
        for (name, other) in [
            ("Étoile", "toile"),
            (
                "A Name That Is Longer Than Any Horse May Have",
                "A Name That Is Longer Than All",
            ),
        ] {
            assert_ne!(made(name, "FR"), made(other, "FR"));
        }
        assert_eq!(
            made("Étoile", "FR"),
            made("ÉTOILE", "FR"),
            "whatever its case"
        );
    }

    proptest! {
        #[test]
        fn any_names_make_valid_numbers(name in "\\PC{1,60}", country in "(|[A-Z]{2,3})") {
            prop_assert!(horse_no("", &name, &country).is_ok());
        }
    }
}
