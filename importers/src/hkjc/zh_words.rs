//! [`Translator`]: the words of the Chinese pages in those of the English ones.

use std::collections::HashSet;

use events::{LanguageTag, Margin, Names, ParseError, Text, VenueCode};

use crate::item::LineItems;

/// Racecourses. The all-weather track is at Sha Tin.
#[rustfmt::skip]
const VENUES: [(&str, &str); 4] = [("沙田", "ST"), ("沙田全天候", "ST"), ("跑馬地", "HV"), ("從化", "CH")];

/// Countries, with the codes of the English profiles.
#[rustfmt::skip]
const COUNTRIES: [(&str, &str); 17] = [
    ("澳洲", "AUS"), ("紐西蘭", "NZ"), ("愛爾蘭", "IRE"), ("英國", "GB"), ("法國", "FR"), ("美國", "USA"),
    ("日本", "JPN"), ("德國", "GER"), ("南非", "SAF"), ("意大利", "ITY"), ("西班牙", "SPA"), ("阿根廷", "ARG"),
    ("加拿大", "CAN"), ("巴西", "BRZ"), ("智利", "CHI"), ("烏拉圭", "URU"), ("津巴布韋", "ZIM"),
];

#[rustfmt::skip]
const COLOURS: [(&str, &str); 8] = [
    ("棗", "Bay"), ("深棗", "Dark Bay"), ("棕", "Brown"), ("栗", "Chestnut"), ("灰", "Grey"), ("黑", "Black"),
    ("沙", "Roan"), ("白", "White"),
];

#[rustfmt::skip]
const SEXES: [(&str, &str); 4] = [("閹", "Gelding"), ("雄", "Horse"), ("雌", "Mare"), ("隱睪", "Rig")];

#[rustfmt::skip]
const GOINGS: [(&str, &str); 12] = [
    ("好地至快地", "GOOD TO FIRM"), ("好地", "GOOD"), ("好地至黏地", "GOOD TO YIELDING"), ("黏地", "YIELDING"),
    ("黏地至軟地", "YIELDING TO SOFT"), ("軟地", "SOFT"), ("大爛地", "HEAVY"), ("濕快地", "WET FAST"),
    ("濕慢地", "WET SLOW"), ("慢地", "SLOW"), ("快地", "FIRM"), ("封地", "SEALED"),
];
/// `快地` on the all-weather track. On turf it is `FIRM`.
const FAST: (&str, &str) = ("快地", "FAST");
pub(crate) const ALL_WEATHER: &str = "全天候";

#[rustfmt::skip]
const CLASSES: [(&str, &str); 12] = [
    ("第一班", "1"), ("第二班", "2"), ("第三班", "3"), ("第四班", "4"), ("第五班", "5"), ("一級賽", "Group One"),
    ("二級賽", "Group Two"), ("三級賽", "Group Three"), ("新馬賽", "Griffin Race"),
    ("香港一級賽", "Hong Kong Group One"), ("香港二級賽", "Hong Kong Group Two"),
    ("香港三級賽", "Hong Kong Group Three"),
];
#[rustfmt::skip]
const MARGINS: [(&str, &str); 6] = [
    ("鼻位", "NOSE"), ("短馬頭位", "SH"), ("頭位", "HD"), ("頸位", "N"), ("多個馬位", "ML"), ("遙遙落後", "TO"),
];
const RESTRICTED: (&str, &str) = ("（條件限制）", " (Restricted)");

/// Untranslated words that are remembered, so that each is noted once.
const UNKNOWN_WORDS_MAX: usize = 1000;

/// Translates words into English. A word that no table has is kept, and noted once.
#[derive(Debug, Default)]
pub(crate) struct Translator {
    unknown: HashSet<String>,
    not_noted: Vec<String>,
}

impl Translator {
    pub(crate) fn country(&mut self, text: &str) -> Result<Text, ParseError> {
        Text::parse(self.word("country", &COUNTRIES, text))
    }

    /// `深棗／棕`, a colour or two.
    pub(crate) fn colour(&mut self, text: &str) -> Result<Text, ParseError> {
        let parts = text.split(['／', '/']);
        let parts: Vec<&str> = parts.map(|p| self.word("colour", &COLOURS, p)).collect();
        Text::parse(&parts.join(" / "))
    }

    pub(crate) fn sex(&mut self, text: &str) -> Result<Text, ParseError> {
        Text::parse(self.word("sex", &SEXES, text))
    }

    /// The going on a course such as `草地 - "C" 賽道` or `全天候跑道`.
    pub(crate) fn going(&mut self, text: &str, course: &str) -> Result<Text, ParseError> {
        Text::parse(if text == FAST.0 && course.contains(ALL_WEATHER) {
            FAST.1
        } else {
            self.word("going", &GOINGS, text)
        })
    }

    pub(crate) fn class(&mut self, text: &str) -> Result<Text, ParseError> {
        let (class, restricted) = match text.strip_suffix(RESTRICTED.0) {
            Some(class) => (class, RESTRICTED.1),
            None => (text, ""),
        };
        let class = self.word("class", &CLASSES, class);
        Text::parse(&format!("{class}{restricted}"))
    }

    /// Notes the untranslated words since the last note.
    pub(crate) fn note(&mut self, out: &mut LineItems) {
        let words = std::mem::take(&mut self.not_noted).join(", ");
        if !words.is_empty() {
            out.note(format!("no English word is known for {words}"));
        }
    }

    fn word<'a>(&mut self, what: &str, table: &[(&str, &'a str)], text: &'a str) -> &'a str {
        let text = text.trim();
        if let Some((_, english)) = table.iter().find(|(chinese, _)| *chinese == text) {
            return english;
        }
        let unknown = format!("{what} {text}");
        if !text.is_empty()
            && self.unknown.len() < UNKNOWN_WORDS_MAX
            && self.unknown.insert(unknown.clone())
        {
            self.not_noted.push(unknown);
        }
        text
    }
}

/// A distance behind the winner: lengths, or a word.
pub(crate) fn margin(text: &str) -> Result<Margin, ParseError> {
    let word = MARGINS.iter().find(|(chinese, _)| *chinese == text);
    Margin::parse(word.map_or(text, |(_, english)| english))
}

/// A name that the Chinese pages have, as one in that language.
pub(crate) fn chinese(name: &Text) -> Names {
    Names::of(LanguageTag::parse("zh-Hant").expect("a tag"), name)
}

/// The code of a racecourse.
pub(crate) fn venue(text: &str) -> Result<VenueCode, ParseError> {
    let known = VENUES.iter().find(|(chinese, _)| *chinese == text);
    let (_, code) = known
        .ok_or_else(|| ParseError::new("a racecourse is 沙田, 沙田全天候, 跑馬地 or 從化", text))?;
    VenueCode::parse(code)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Translator, venue};
    use crate::item::{Item, LineItems, Location};

    fn note(words: &mut Translator) -> Option<String> {
        let mut out = LineItems::new(Location::file(Path::new("a.csv")));
        words.note(&mut out);
        out.items.pop().map(|item| match item {
            Item::Note(note) => note.reason,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn words_are_translated_into_those_of_the_english_pages() {
        let mut words = Translator::default();
        let text = |text: Result<events::Text, _>| text.expect("a text").to_string();
        assert_eq!(text(words.country("紐西蘭")), "NZ");
        assert_eq!(text(words.colour("棗")), "Bay");
        assert_eq!(text(words.colour("深棗／棕")), "Dark Bay / Brown");
        assert_eq!(text(words.sex("閹")), "Gelding");
        assert_eq!(
            text(words.going("好地至快地", "草地 - \"A\" 賽道")),
            "GOOD TO FIRM"
        );
        assert_eq!(text(words.going("快地", "草地 - \"A\" 賽道")), "FIRM");
        assert_eq!(text(words.going("快地", "全天候跑道")), "FAST");
        assert_eq!(text(words.going("封地", "全天候跑道")), "SEALED");
        assert_eq!(text(words.class("香港三級賽")), "Hong Kong Group Three");
        assert_eq!(text(words.class("第四班")), "4");
        assert_eq!(text(words.class("第四班（條件限制）")), "4 (Restricted)");
        assert_eq!(text(words.country("")), "");
        assert_eq!(note(&mut words), None);
    }

    #[test]
    fn an_unknown_word_is_kept_and_noted_once() {
        let mut words = Translator::default();
        assert_eq!(words.country("火星").expect("a text").as_str(), "火星");
        assert_eq!(words.colour("棗／紫").expect("a text").as_str(), "Bay / 紫");
        assert_eq!(
            note(&mut words).expect("two words"),
            "no English word is known for country 火星, colour 紫"
        );
        assert_eq!(words.country("火星").expect("a text").as_str(), "火星");
        assert_eq!(note(&mut words), None);
    }

    #[test]
    fn an_unknown_racecourse_is_rejected() {
        for (text, code) in [("沙田", "ST"), ("沙田全天候", "ST"), ("跑馬地", "HV")] {
            assert_eq!(venue(text).expect(text).as_str(), code);
        }
        assert!(venue("澳門").is_err() && venue("").is_err());
    }
}
