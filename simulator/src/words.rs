//! Invented names of horses and people.

use events::Text;

pub(crate) fn text(words: &str) -> Text {
    Text::parse(words).expect("the words of the simulator are short and plain")
}

pub(crate) const COLOURS: [&str; 6] = ["Bay", "Brown", "Chestnut", "Grey", "Dark Bay", "Black"];
pub(crate) const SEXES: [&str; 4] = ["Gelding", "Horse", "Mare", "Rig"];
pub(crate) const COUNTRIES: [&str; 7] = ["AUS", "NZ", "IRE", "GB", "USA", "FR", "JPN"];
/// From firm to soft: rain changes each into the next one.
#[rustfmt::skip]
pub(crate) const GOINGS: [&str; 5] =
    ["GOOD TO FIRM", "GOOD", "GOOD TO YIELDING", "YIELDING", "YIELDING TO SOFT"];
pub(crate) const DISTANCES_METRES: [u32; 8] = [1000, 1200, 1400, 1600, 1650, 1800, 2000, 2400];
pub(crate) const RACE_KINDS: [&str; 5] = ["HANDICAP", "PLATE", "CUP", "STAKES", "TROPHY"];

#[rustfmt::skip]
pub(crate) const FIRST_WORDS: [&str; 36] = [
    "AMBER", "AUTUMN", "BRASS", "BRISK", "CANDID", "CEDAR", "COBALT", "COPPER", "CRIMSON", "DISTANT", "EAGER",
    "EARLY", "FABLED", "GENTLE", "GILDED", "HIDDEN", "HONEST", "INDIGO", "IVORY", "JOLLY", "LATE", "LUNAR", "MELLOW",
    "NIMBLE", "NORTHERN", "PATIENT", "PLAIN", "QUIET", "RESTLESS", "SALTED", "SILVER", "STEADY", "TIDAL", "VELVET",
    "WANDERING", "WINTER",
];

#[rustfmt::skip]
pub(crate) const SECOND_WORDS: [&str; 36] = [
    "ALMANAC", "ANCHOR", "ARCADE", "BALLAD", "BEACON", "BRAMBLE", "CANYON", "COMPASS", "CORNET", "CURLEW", "DISPATCH",
    "EMBER", "FATHOM", "FERRY", "GARNET", "HARBOUR", "HERALD", "JUNIPER", "LANTERN", "LEDGER", "MARINER", "MERIDIAN",
    "ORCHARD", "PARCEL", "PEBBLE", "QUARRY", "RAMBLER", "SATCHEL", "SEXTANT", "SPARROW", "TANGENT", "THIMBLE",
    "TURNSTILE", "VERDICT", "WHISTLE", "ZEPHYR",
];

#[rustfmt::skip]
pub(crate) const JOCKEYS: [&str; 24] = [
    "A Brindle", "B Calloway", "C Dunmore", "D Eastlake", "E Farrow", "F Garside", "G Hollis", "H Inchbald",
    "I Jessop", "J Kettering", "K Lomax", "L Marchbank", "M Nettleton", "N Oakshott", "O Pemberley", "P Quillfeather",
    "Q Rushworth", "R Stanhope", "S Thistlewood", "T Underhay", "U Vantongeren", "V Wetherall", "W Yarrow",
    "Z Abernethy",
];

#[rustfmt::skip]
pub(crate) const TRAINERS: [&str; 12] = [
    "A T Marlowe", "B J Penhallow", "C K Osgood", "D Fairweather", "E R Lindqvist", "F Castellane", "G P Rookwood",
    "H S Tamworth", "J Vellacott", "K L Winterbourne", "M Draycott", "P F Ashgrove",
];

#[rustfmt::skip]
pub(crate) const SURNAMES: [&str; 16] = [
    "Applegarth", "Birdwhistle", "Coppersmith", "Dovecote", "Elderfield", "Foxglove", "Greatorex", "Hawksworth",
    "Ironmonger", "Larkspur", "Millstone", "Nightingale", "Ottershaw", "Partridge", "Silverlock", "Tumbledown",
];

/// What follows the surname of an owner.
pub(crate) const OWNERS: [&str; 4] = ["Stable", "Syndicate", "& Sons", "Racing"];

/// A name of two words. Pairs repeat only when all have been used.
pub(crate) fn horse_name(index: u64) -> Text {
    /// A prime, so that neighbours share no word.
    const STRIDE: usize = 7919;
    let pairs = FIRST_WORDS.len() * SECOND_WORDS.len();
    let pair = usize::try_from(index % pairs as u64).unwrap_or(0) * STRIDE % pairs;
    let first = FIRST_WORDS[pair / SECOND_WORDS.len()];
    let second = SECOND_WORDS[pair % SECOND_WORDS.len()];
    text(&format!("{first} {second}"))
}
