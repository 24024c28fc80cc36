//! Names of horses as the files write them: padded, and with the brand in brackets.

use events::{ParseError, Text};

const ONE_BRAND: &str = "a horse has one brand (several are ambiguous)";

/// Splits `NAME (CM199)` into the name and the brands behind it. Other brackets, like `(IRE)`, belong to the name.
pub(crate) fn split_brands(text: &str) -> (&str, Vec<&str>) {
    let mut name = text.trim();
    let mut brands = Vec::new();
    while let Some(rest) = name.strip_suffix(')')
        && let Some((before, brand)) = rest.rsplit_once('(')
        && is_brand(brand)
    {
        brands.push(brand);
        name = before.trim_end();
    }
    brands.reverse();
    (name, brands)
}

/// The name and the one brand of `NAME(A123)`.
pub(crate) fn name_and_brand(text: &str) -> Result<(Text, String), ParseError> {
    let (name, brands) = split_brands(text);
    match brands[..] {
        [brand] if is_name(name) => Ok((Text::parse(name)?, brand.to_owned())),
        [_, _, ..] => Err(ParseError::new(ONE_BRAND, text)),
        _ => Err(ParseError::new("a horse is NAME(BRAND)", text)),
    }
}

/// Whether a text has letters, unlike `()`.
pub(crate) fn is_name(text: &str) -> bool {
    text.contains(char::is_alphanumeric)
}

/// One or two letters and up to four digits: `A123`, `CM199`.
fn is_brand(text: &str) -> bool {
    let letters = text.bytes().take_while(u8::is_ascii_uppercase).count();
    let digits = &text.as_bytes()[letters..];
    (1..=2).contains(&letters)
        && (1..=4).contains(&digits.len())
        && digits.iter().all(u8::is_ascii_digit)
}

/// Whether two spellings are one name. Case, blanks and apostrophes differ between files.
pub(crate) fn same_name(a: &str, b: &str) -> bool {
    let letters = |text: &str| -> String {
        let letters = text.chars().filter(|c| c.is_alphanumeric());
        letters.flat_map(char::to_uppercase).collect()
    };
    letters(a) == letters(b)
}

#[cfg(test)]
mod tests {
    use super::{same_name, split_brands};

    #[test]
    fn a_brand_behind_the_name_is_removed() {
        for (text, name, brands) in [
            ("QUIET RIVER(A123)", "QUIET RIVER", &["A123"][..]),
            (" QUIET RIVER  (CM199) ", "QUIET RIVER", &["CM199"]),
            ("QUIET      (V291)(S424)", "QUIET", &["V291", "S424"]),
            ("QUIET RIVER (IRE)", "QUIET RIVER (IRE)", &[]),
            ("QUIET (IRE)(A1)", "QUIET (IRE)", &["A1"]),
        ] {
            assert_eq!(split_brands(text), (name, brands.to_vec()));
        }
        for odd in ["", ")", "()", "(", "A)", "(A123", "馬(é1)"] {
            assert!(split_brands(odd).1.is_empty(), "{odd}");
        }
    }

    #[test]
    fn spellings_of_one_name_are_the_same() {
        assert!(same_name("LET'S GO  NOW", "Let’s Go Now"));
        assert!(!same_name("QUIET RIVER", "QUIET RIVERS"));
    }
}
