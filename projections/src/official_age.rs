//! [`OfficialAge`]: the age of a horse by the calendar of its hemisphere.

use events::{Foaled, HorseRegistered, RacingDate};

/// The season in which a horse was foaled, which decides its official age on any day.
///
/// The birthday is 1 January for horses bred in the northern hemisphere and 1 August in the southern (International
/// Federation of Horseracing Authorities, International Agreement, article 13).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OfficialAge {
    /// The year of its official birthday.
    pub year: i16,
    /// Whether it was bred in the southern hemisphere.
    pub southern: bool,
}

/// The country codes of the southern hemisphere: those of studbooks and racing authorities, and those of ISO 3166.
#[rustfmt::skip]
const SOUTHERN: [&str; 32] = [
    "ARG", "AUS", "BOL", "BRZ", "CHI", "MAU", "NZ", "PAR", "PER", "RSA", "SAF", "URU", "ZIM",
    "BRA", "CHL", "MUS", "NZL", "PRY", "URY", "ZAF", "ZWE",
    "AR", "AU", "BO", "BR", "CL", "MU", "PE", "PY", "UY", "ZA", "ZW",
];

const AUGUST: i8 = 8;

impl OfficialAge {
    /// From a registration. `None` if it has neither the foaling year nor an age on a day.
    pub(crate) fn of(horse: &HorseRegistered) -> Option<Self> {
        let southern = SOUTHERN.contains(&horse.country_of_origin.as_str());
        let year = match (horse.foaled, horse.age, horse.age_as_of) {
            (Some(Foaled::Year(year)), _, _) => year,
            (Some(Foaled::Day(day)), _, _) => season(day, southern),
            (None, Some(age), Some(as_of)) => season(as_of, southern) - i16::from(age),
            _ => return None,
        };
        Some(Self { year, southern })
    }

    /// The official age on a day, in years; 0 before the first birthday.
    pub(crate) fn on(self, day: RacingDate) -> u16 {
        u16::try_from(season(day, self.southern) - self.year).unwrap_or(0)
    }
}

/// The year of the last official birthday on or before a day.
fn season(day: RacingDate, southern: bool) -> i16 {
    let before_august = southern && day.civil().month() < AUGUST;
    day.civil().year() - i16::from(before_august)
}

#[cfg(test)]
mod tests {
    use super::OfficialAge;
    use events::{HorseRegistered, RacingDate};

    fn horse(country: &str, rest: &str) -> HorseRegistered {
        let json = format!(
            r#"{{"horse_no":"A1","horse_name":"A","country_of_origin":"{country}","colour":"","sex":"","trainer":"","owner":""{rest}}}"#
        );
        serde_json::from_str(&json).expect("a registration")
    }

    fn age(country: &str, rest: &str, on: &str) -> Option<u16> {
        OfficialAge::of(&horse(country, rest))
            .map(|age| age.on(RacingDate::parse(on).expect("a date")))
    }

    #[test]
    fn a_northern_horse_is_a_year_older_on_new_years_day() {
        assert_eq!(
            age("IRE", r#","foaled":"2014-04-11""#, "2018-12-31"),
            Some(4)
        );
        assert_eq!(
            age("IRE", r#","foaled":"2014-04-11""#, "2019-01-01"),
            Some(5)
        );
    }

    #[test]
    fn a_southern_horse_is_a_year_older_on_the_first_of_august() {
        assert_eq!(
            age("AUS", r#","foaled":"2014-09-03""#, "2019-07-31"),
            Some(4)
        );
        assert_eq!(
            age("AUS", r#","foaled":"2014-09-03""#, "2019-08-01"),
            Some(5)
        );
        assert_eq!(age("NZ", r#","foaled":"2014""#, "2019-08-01"), Some(5));
        assert_eq!(
            age("NZ", r#","foaled":"2014-03-01""#, "2019-07-31"),
            Some(5)
        );
    }

    #[test]
    fn a_country_is_southern_under_each_of_its_codes() {
        let foaled = r#","foaled":"2014-09-03""#;
        for southern in [
            "AUS", "AU", "NZL", "NZ", "SAF", "ZA", "BRZ", "BR", "CHI", "CL",
        ] {
            assert_eq!(age(southern, foaled, "2019-07-31"), Some(4), "{southern}");
        }
        for northern in ["AUT", "GB", "IRE", "USA", "JPN", "CHN", ""] {
            assert_eq!(age(northern, foaled, "2019-07-31"), Some(5), "{northern}");
        }
    }

    #[test]
    fn an_age_on_a_day_moves_on_with_the_birthdays() {
        let five = r#","age":5,"age_as_of":"2018-03-01""#;
        assert_eq!(age("AUS", five, "2018-07-31"), Some(5));
        assert_eq!(age("AUS", five, "2018-08-01"), Some(6));
        assert_eq!(age("GB", five, "2018-12-31"), Some(5));
        assert_eq!(age("GB", five, "2019-01-01"), Some(6));
    }

    #[test]
    fn an_age_is_unknown_without_a_foaling_year_and_never_negative() {
        assert_eq!(age("GB", "", "2019-01-01"), None);
        assert_eq!(age("GB", r#","foaled":"2019""#, "2018-01-01"), Some(0));
    }
}
