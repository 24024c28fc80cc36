//! [`Names`]: a name in several languages, and how two statements of it are merged.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::successors;

use schemars::JsonSchema;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::string_form::string_newtype;
use crate::{ParseError, Text};

/// A language: a BCP 47 tag of a language, and optionally a script and a region, in their usual case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(extend("pattern" = LanguageTag::PATTERN, "examples" = ["zh-Hant"]))]
pub struct LanguageTag(String);

string_newtype!(LanguageTag);

impl LanguageTag {
    const PATTERN: &str = "^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$";

    /// Parses a tag.
    ///
    /// # Errors
    /// Returns [`ParseError`] for anything but `zh`, `zh-Hant`, `zh-HK`, `zh-Hant-HK` and the like.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let shape = text.replace(|c: char| c.is_ascii_lowercase(), "a");
        let shape = shape.replace(|c: char| c.is_ascii_uppercase(), "A");
        let shape = shape.replace(|c: char| c.is_ascii_digit(), "0");
        let language = shape.strip_prefix("aaa").or(shape.strip_prefix("aa"));
        let region = language.map(|rest| rest.strip_prefix("-Aaaa").unwrap_or(rest));
        if !matches!(region, Some("" | "-AA" | "-000")) {
            return Err(ParseError::new("a language is such as zh-Hant", text));
        }
        Ok(Self(text.to_owned()))
    }
}

/// A name in other languages than that of the field beside it, by their BCP 47 tags, at most 8.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Option<NamesObject>")]
#[schemars(
    with = "Option<BTreeMap<String, Text>>",
    extend("maxProperties" = 8, "propertyNames" = { "pattern": LanguageTag::PATTERN })
)]
pub struct Names(BTreeMap<LanguageTag, Text>);

/// The name of one thing by a statement, with its names in other languages.
type Named<'a> = (&'a Text, &'a Names);

impl Names {
    /// A racing authority has two or three.
    const LANGUAGES_MAX: usize = 8;

    /// A name in one language; none if it is empty.
    pub fn of(language: LanguageTag, name: &Text) -> Self {
        let known = (!name.is_empty()).then(|| (language, name.clone()));
        Self(known.into_iter().collect())
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names, by language.
    pub fn all(&self) -> impl Iterator<Item = &Text> {
        self.0.values()
    }

    /// The name in a language, else in that without the region or the script (RFC 4647, lookup).
    pub fn get(&self, language: &LanguageTag) -> Option<&Text> {
        let mut tags = successors(Some(language.as_str()), |tag| Some(tag.rsplit_once('-')?.0));
        tags.find_map(|tag| Some(self.0.iter().find(|(known, _)| known.as_str() == tag)?.1))
    }

    /// The first of the best names. The best is one that is not also in the names in other languages: a name that is
    /// stands in for one that is not known. Of two of these, that of the first tag is the better, so that the order of
    /// statements does not matter. An empty name is the worst.
    pub fn best<'a>(statements: impl IntoIterator<Item = Named<'a>>) -> Option<&'a Text> {
        let rank = |&(name, names): &Named<'a>| (name.is_empty(), names.language_of(name));
        Some(statements.into_iter().min_by_key(rank)?.0)
    }

    fn language_of(&self, name: &Text) -> Option<&LanguageTag> {
        Some(self.0.iter().find(|(_, text)| *text == name)?.0)
    }

    fn is_own(&self, name: &Text) -> bool {
        !name.is_empty() && self.language_of(name).is_none()
    }

    /// Completes a statement of a name with an earlier one of the same thing: languages that it leaves out are kept.
    pub fn merge(name: &mut Text, names: &mut Self, earlier: Named<'_>) {
        if names.is_empty() && earlier.1.is_empty() {
            return;
        }
        let statements = [(&*name, &*names), earlier];
        let best = Self::best(statements).cloned().unwrap_or_default();
        let is_own = names.is_own(name) || earlier.1.is_own(earlier.0);
        let mut merged = earlier.1.0.clone();
        merged.append(&mut names.0);
        // As one of the names, it would stand in.
        merged.retain(|_, text| !is_own || *text != best);
        names.0 = merged.into_iter().take(Self::LANGUAGES_MAX).collect();
        *name = best;
    }

    /// As [`merge`](Self::merge), for a name that may be left out.
    pub fn merge_known(name: &mut Option<Text>, names: &mut Self, earlier: (&Option<Text>, &Self)) {
        if !names.is_empty() || !earlier.1.is_empty() {
            let earlier = (&earlier.0.clone().unwrap_or_default(), earlier.1);
            Self::merge(name.get_or_insert_default(), names, earlier);
        }
    }

    /// As [`merge`](Self::merge), for a person. A statement with another name in a language of the earlier one is
    /// about another person, and replaces it.
    pub fn merge_person(name: &mut Text, names: &mut Self, earlier: Named<'_>) {
        let is_other = name != earlier.0 && names.is_own(name) && earlier.1.is_own(earlier.0);
        let differs = |(tag, text)| earlier.1.0.get(tag).is_some_and(|known| known != text);
        if !is_other && !names.0.iter().any(differs) {
            Self::merge(name, names, earlier);
        }
    }
}

impl TryFrom<Option<NamesObject>> for Names {
    type Error = ParseError;

    fn try_from(object: Option<NamesObject>) -> Result<Self, ParseError> {
        let mut names = object.map_or_else(BTreeMap::new, |NamesObject(names)| names);
        if names.len() > Self::LANGUAGES_MAX {
            return Err(ParseError::new("a name has at most 8 languages", "more"));
        }
        names.retain(|_, name| !name.is_empty());
        Ok(Self(names))
    }
}

/// The names of a JSON object without a language that occurs twice.
struct NamesObject(BTreeMap<LanguageTag, Text>);

impl<'de> Deserialize<'de> for NamesObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = NamesObject;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("names by language")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<NamesObject, A::Error> {
                let mut names = BTreeMap::new();
                while let Some((language, name)) = object.next_entry::<LanguageTag, Text>()? {
                    if names.insert(language.clone(), name).is_some() {
                        let language = language.as_str();
                        return Err(Error::custom(format_args!("duplicate field `{language}`")));
                    }
                }
                Ok(NamesObject(names))
            }
        }

        deserializer.deserialize_map(Entries)
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
    fn a_language_occurs_once() {
        let error = serde_json::from_str::<Names>(r#"{"zh": "一", "zh": "二"}"#);
        let error = error.expect_err("zh occurs twice").to_string();
        assert!(error.starts_with("duplicate field `zh`"), "{error}");
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
    fn names_have_a_bound() {
        let of = |json: &str| serde_json::from_str::<Names>(json);
        assert!(of("null").expect("none").is_empty());
        assert!(of(r#"{"zh":" "}"#).expect("an unknown name").is_empty());
        let list = |count: usize| {
            let names = (0..count).map(|n| format!("\"{}a\":\"x\"", char::from(b'a' + n as u8)));
            format!("{{{}}}", names.collect::<Vec<_>>().join(","))
        };
        assert!(of(&list(8)).is_ok() && of(&list(9)).is_err());
        for json in [r#"{"ZH":"a"}"#, r#"{"zh":null}"#, "[]", "\"a\""] {
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
