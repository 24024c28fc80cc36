//! Surfaces and courses as the files write them.

use events::{ParseError, Text};

const TURF: &str = "TURF";
const ALL_WEATHER: &str = "AWT";

/// The surface and the course of `TURF - "C+3" Course`, `TURF - C+3 COURSE`, `草地 - "C+3" 賽道`, `ALL WEATHER TRACK` and
/// `全天候跑道`, which has no courses. Any other text is a course.
pub(crate) fn surface_and_course(text: &str) -> Result<(Text, Text), ParseError> {
    let text = text.trim();
    let upper = text.to_uppercase();
    if ["ALL WEATHER TRACK", "全天候跑道"].contains(&upper.as_str()) {
        return Ok((Text::parse(ALL_WEATHER)?, Text::default()));
    }
    let turf = [(TURF, "COURSE"), ("草地", "賽道")];
    let course = turf.iter().find_map(|(turf, course)| {
        let course = upper.strip_prefix(turf)?.strip_suffix(course)?;
        Some(course.trim_matches([' ', '-', ',', '"']))
    });
    match course {
        Some(course) => Ok((Text::parse(TURF)?, Text::parse(course)?)),
        None => Ok((Text::default(), Text::parse(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::surface_and_course;

    #[test]
    fn a_course_is_the_position_of_the_rail() {
        for (text, surface, course) in [
            ("TURF - \"C+3\" Course", "TURF", "C+3"),
            ("Turf, \"A\" Course", "TURF", "A"),
            ("TURF - B+2 COURSE", "TURF", "B+2"),
            ("草地 - \"C\" 賽道", "TURF", "C"),
            ("草地 - C+3 賽道", "TURF", "C+3"),
            ("ALL WEATHER TRACK", "AWT", ""),
            ("全天候跑道", "AWT", ""),
            ("Inner Loop", "", "Inner Loop"),
            ("", "", ""),
        ] {
            let (read_surface, read_course) = surface_and_course(text).expect(text);
            assert_eq!(
                (read_surface.as_str(), read_course.as_str()),
                (surface, course)
            );
        }
    }
}
