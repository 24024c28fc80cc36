//! [`Names`]: a name in several languages, and how two statements of it are merged.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::iter::successors;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use crate::string_form::string_newtype;
use crate::{ParseError, Text};

/// A language: a BCP 47 tag of a language, and optionally a script and a region, in their usual case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(description = "A language with an optional script and region, as a BCP 47 tag.")]
#[schemars(extend(
    "pattern" = "^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$",
    "examples" = ["zh-Hant"],
))]
pub struct LanguageTag(String);

string_newtype!(LanguageTag);

impl LanguageTag {
    /// Parses a tag.
    ///
    /// # Errors
    /// Returns [`ParseError`] for anything but `zh`, `zh-Hant`, `zh-HK`, `zh-Hant-HK` and the like.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut parts = text.split('-').peekable();
        let is = |part: &str, lengths: &[usize], byte: fn(&u8) -> bool| {
            lengths.contains(&part.len()) && part.bytes().all(|b| byte(&b))
        };
        let is_language = |part: &str| is(part, &[2, 3], u8::is_ascii_lowercase);
        let is_script = |part: &&str| {
            is(part, &[4], u8::is_ascii_alphabetic)
                && (part.bytes().enumerate()).all(|(at, b)| b.is_ascii_uppercase() == (at == 0))
        };
        let is_region = |part: &&str| {
            is(part, &[2], u8::is_ascii_uppercase) || is(part, &[3], u8::is_ascii_digit)
        };
        let has_language = parts.next().is_some_and(is_language);
        parts.next_if(is_script);
        parts.next_if(is_region);
        if !has_language || parts.next().is_some() {
            return Err(ParseError::new("a language is such as zh-Hant", text));
        }
        Ok(Self(text.to_owned()))
    }
}

/// A name in other languages than that of the field beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(
    with = "Option<BTreeMap<String, Text>>",
    description = "A name in other languages, by their BCP 47 tags, at most 8.",
    extend(
        "maxProperties" = Names::LANGUAGES_MAX,
        "propertyNames" = { "pattern": "^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$" },
        "examples" = [{ "zh-Hant": "沙田" }],
    )
)]
pub struct Names(BTreeMap<LanguageTag, Text>);

/// How well a text serves as the name of its field: the least is the best.
type Rank<'a> = (bool, Option<&'a LanguageTag>);
/// The rank of a name that is none of those in other languages.
const OWN: Rank<'static> = (false, None);

impl Names {
    /// The largest number of languages of a name: a racing authority has two or three.
    pub const LANGUAGES_MAX: usize = 8;

    /// A name in one language; none if it is empty.
    pub fn of(language: LanguageTag, name: &Text) -> Self {
        let known = Some(name).filter(|name| !name.is_empty());
        Self(
            known
                .map(|name| (language, name.clone()))
                .into_iter()
                .collect(),
        )
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name in a language, else in that without the region or the script (RFC 4647, lookup).
    pub fn get(&self, language: &LanguageTag) -> Option<&Text> {
        let mut tags = successors(Some(language.as_str()), |tag| Some(tag.rsplit_once('-')?.0));
        tags.find_map(|tag| self.0.iter().find(|(known, _)| known.as_str() == tag))
            .map(|(_, name)| name)
    }

    /// A name that is also one of its `names` stands in for one that is not known. It never replaces a name that is
    /// not, and of two the one of the first tag is kept, so that the order of statements does not matter. An empty name
    /// is the worst.
    fn rank(&self, name: &Text) -> Rank<'_> {
        let in_language = self.0.iter().find(|(_, text)| *text == name);
        (name.is_empty(), in_language.map(|(tag, _)| tag))
    }

    /// The name of one thing by several statements, each with its names in other languages: the first of those that
    /// do not stand in for it.
    pub fn best<'a>(
        statements: impl IntoIterator<Item = (&'a Text, &'a Self)>,
    ) -> Option<&'a Text> {
        let best = statements.into_iter();
        let best = best.min_by_key(|&(name, names)| names.rank(name));
        best.map(|(name, _)| name)
    }

    /// Completes a statement of a name with an earlier one of the same thing: the languages that it leaves out are
    /// kept.
    pub fn merge(name: &mut Text, names: &mut Self, earlier: (&Text, &Self)) {
        let (earlier_name, earlier_names) = earlier;
        if names.is_empty() && earlier_names.is_empty() {
            return;
        }
        let best = Self::best([(&*name, &*names), earlier]).cloned();
        let is_own = [names.rank(name), earlier_names.rank(earlier_name)].contains(&OWN);
        for (tag, text) in &earlier_names.0 {
            if names.0.len() < Self::LANGUAGES_MAX {
                names.0.entry(tag.clone()).or_insert_with(|| text.clone());
            }
        }
        *name = best.unwrap_or_default();
        if is_own {
            // It would become a name that stands in.
            names.0.retain(|_, text| text != name);
        }
    }

    /// As [`merge`](Self::merge), for a name that may be left out.
    pub fn merge_optional(
        name: &mut Option<Text>,
        names: &mut Self,
        earlier: (&Option<Text>, &Self),
    ) {
        let (earlier_name, earlier_names) = earlier;
        if !names.is_empty() || !earlier_names.is_empty() {
            let mut text = name.take().unwrap_or_default();
            let earlier_name = earlier_name.clone().unwrap_or_default();
            Self::merge(&mut text, names, (&earlier_name, earlier_names));
            *name = Some(text).filter(|text| !text.is_empty());
        }
    }

    /// As [`merge`](Self::merge), for a person. A statement with another name in a language of the earlier one is
    /// about another person, and replaces it.
    pub fn merge_person(name: &mut Text, names: &mut Self, earlier: (&Text, &Self)) {
        let (earlier_name, earlier_names) = earlier;
        let is_own = names.rank(name) == OWN && earlier_names.rank(earlier_name) == OWN;
        let differs = |(tag, text)| earlier_names.0.get(tag).is_some_and(|known| known != text);
        if !(is_own && name != earlier_name || names.0.iter().any(differs)) {
            Self::merge(name, names, earlier);
        }
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NamesVisitor;

        impl<'de> Visitor<'de> for NamesVisitor {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of names by language, or null")
            }

            fn visit_unit<E>(self) -> Result<Names, E> {
                Ok(Names::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
                let mut names = BTreeMap::new();
                while let Some((tag, text)) = map.next_entry::<LanguageTag, Text>()? {
                    match names.entry(tag) {
                        Entry::Occupied(known) => {
                            let reason = format!("{} is listed twice", known.key());
                            return Err(A::Error::custom(reason));
                        }
                        Entry::Vacant(free) => free.insert(text),
                    };
                    if names.len() > Names::LANGUAGES_MAX {
                        let max = Names::LANGUAGES_MAX;
                        return Err(A::Error::custom(format!("at most {max} languages")));
                    }
                }
                names.retain(|_, text| !text.is_empty());
                Ok(Names(names))
            }
        }

        deserializer.deserialize_any(NamesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::{LanguageTag, Names};
    use crate::Text;

    fn tag(text: &str) -> LanguageTag {
        LanguageTag::parse(text).expect(text)
    }

    fn names(json: &str) -> Names {
        serde_json::from_str(json).expect(json)
    }

    /// The name and the names after statements in this order.
    fn merged(statements: &[(&str, &str)], is_person: bool) -> (String, String) {
        let mut state: Option<(Text, Names)> = None;
        for (text, json) in statements {
            let mut statement = (Text::parse(text).expect(text), names(json));
            if let Some((name, names)) = &state {
                let merge = if is_person {
                    Names::merge_person
                } else {
                    Names::merge
                };
                merge(&mut statement.0, &mut statement.1, (name, names));
            }
            state = Some(statement);
        }
        let (name, names) = state.expect("a statement");
        (
            name.to_string(),
            serde_json::to_string(&names).expect("names"),
        )
    }

    #[test]
    fn a_language_is_a_tag_in_its_usual_case() {
        for text in ["zh", "yue", "zh-Hant", "zh-HK", "zh-Hant-HK", "es-419"] {
            assert_eq!(tag(text).as_str(), text);
        }
        for text in [
            "",
            "z",
            "zhong",
            "ZH",
            "zh-",
            "zh-hant",
            "zh-HANT",
            "zh-Hant-",
            "zh-hk",
            "zh_HK",
            "zh-HK-Hant",
            "zh-Hant-HK-x",
            "zh-Hant-Hant",
            "中文",
            "*",
        ] {
            assert!(LanguageTag::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_name_is_found_by_the_language_with_and_without_its_region_and_script() {
        let names = names(r#"{"zh-Hant":"沙田","pt":"A"}"#);
        let found = |language| names.get(&tag(language)).map(Text::as_str);
        assert_eq!(found("zh-Hant-HK"), Some("沙田"));
        assert_eq!(found("zh-Hant"), Some("沙田"));
        assert_eq!(
            (found("zh"), found("zh-Hans"), found("zh-HK")),
            (None, None, None)
        );
        assert_eq!((found("pt-BR"), found("en")), (Some("A"), None));
    }

    #[test]
    fn names_have_a_bound_and_no_language_twice() {
        let of = |json: &str| serde_json::from_str::<Names>(json);
        assert!(of("null").expect("none").is_empty());
        assert!(of(r#"{"zh":" "}"#).expect("an unknown name").is_empty());
        let list = |count: usize| {
            let names = (0..count).map(|n| format!("\"{}a\":\"x\"", char::from(b'a' + n as u8)));
            format!("{{{}}}", names.collect::<Vec<_>>().join(","))
        };
        assert!(of(&list(8)).is_ok() && of(&list(9)).is_err());
        for json in [
            r#"{"zh":"a","zh":"b"}"#,
            r#"{"ZH":"a"}"#,
            r#"{"zh":null}"#,
            "[]",
            "\"a\"",
        ] {
            assert!(of(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_name_that_stands_in_never_replaces_another_one() {
        let english = ("SHA TIN", "{}");
        let chinese = ("沙田", r#"{"zh-Hant":"沙田"}"#);
        let both = ("SHA TIN".to_owned(), r#"{"zh-Hant":"沙田"}"#.to_owned());
        for is_person in [false, true] {
            assert_eq!(merged(&[english, chinese], is_person), both);
            assert_eq!(merged(&[chinese, english], is_person), both);
            assert_eq!(
                merged(&[chinese, english, chinese, english], is_person),
                both
            );
            let alone = ("沙田".to_owned(), both.1.clone());
            assert_eq!(merged(&[chinese, chinese], is_person), alone);
            assert_eq!(
                merged(&[chinese, ("", "{}")], is_person),
                alone,
                "it is unknown"
            );
        }
    }

    #[test]
    fn a_later_name_replaces_the_one_of_its_language_alone() {
        let first = ("A", r#"{"ja":"1","zh":"2"}"#);
        let second = ("A", r#"{"zh":"3"}"#);
        let expected = ("A".to_owned(), r#"{"ja":"1","zh":"3"}"#.to_owned());
        assert_eq!(merged(&[first, second], false), expected);
        let renamed = ("B".to_owned(), r#"{"ja":"1","zh":"2"}"#.to_owned());
        assert_eq!(merged(&[first, ("B", "{}")], false), renamed);
    }

    #[test]
    fn the_names_of_one_person_are_not_given_to_another() {
        let first = ("A. Quill", r#"{"zh":"夏"}"#);
        let other = ("C. Finch".to_owned(), "{}".to_owned());
        assert_eq!(merged(&[first, ("C. Finch", "{}")], true), other);
        let chinese = ("范".to_owned(), r#"{"zh":"范"}"#.to_owned());
        assert_eq!(merged(&[first, ("范", r#"{"zh":"范"}"#)], true), chinese);
    }

    /// The same text in both languages: one file would take the other's for a name that stands in.
    #[test]
    fn a_name_that_is_the_same_in_two_languages_stays_that_of_the_field() {
        let same = ("SMITH", r#"{"zh":"SMITH"}"#);
        let own = ("SMITH".to_owned(), "{}".to_owned());
        assert_eq!(merged(&[("SMITH", "{}"), same], false), own);
        assert_eq!(merged(&[same, ("SMITH", "{}")], false), own);
    }
}
