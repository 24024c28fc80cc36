//! Names of horses as the files write them: with a brand in brackets, and padded.

use events::{ParseError, Text};

/// Splits `NAME (CM199)` into the name and the brands behind it. Other brackets, such as `(IRE)`, belong to the name.
pub(crate) fn split_brands(text: &str) -> (&str, Vec<&str>) {
    let mut name = text.trim();
    let mut brands = Vec::new();
    while let Some((before, brand)) = name
        .strip_suffix(')')
        .and_then(|rest| rest.rsplit_once('('))
    {
        if !is_brand(brand) {
            break;
        }
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
        [brand] if !name.is_empty() => Ok((Text::parse(name)?, brand.to_owned())),
        [_, _, ..] => Err(ParseError::new(
            "a horse has one brand (several are ambiguous)",
            text,
        )),
        _ => Err(ParseError::new("a horse is NAME(BRAND)", text)),
    }
}

/// One or two letters and up to four digits: `A123`, `CM199`.
fn is_brand(text: &str) -> bool {
    let letters = text.bytes().take_while(u8::is_ascii_uppercase).count();
    let digits = &text.as_bytes()[letters..];
    (1..=2).contains(&letters)
        && (1..=4).contains(&digits.len())
        && digits.iter().all(u8::is_ascii_digit)
}

/// Whether two spellings are one name: case, blanks and apostrophes differ from file to file.
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
    fn a_brand_behind_the_name_is_taken_off() {
        assert_eq!(
            split_brands("QUIET RIVER(A123)"),
            ("QUIET RIVER", vec!["A123"])
        );
        assert_eq!(
            split_brands(" QUIET RIVER  (CM199) "),
            ("QUIET RIVER", vec!["CM199"])
        );
        assert_eq!(
            split_brands("QUIET      (V291)(S424)"),
            ("QUIET", vec!["V291", "S424"])
        );
        assert_eq!(
            split_brands("QUIET RIVER (IRE)"),
            ("QUIET RIVER (IRE)", vec![])
        );
        assert_eq!(split_brands("QUIET (IRE)(A1)"), ("QUIET (IRE)", vec!["A1"]));
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
