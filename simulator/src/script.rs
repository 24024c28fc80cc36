//! [`script`]: all events of a race day in order.

use events::{Envelope, Event, Moment};
use uuid::Uuid;

use crate::card::{RacePlan, plan_races};
use crate::day::{MeetingTime, Pace, RaceDay};
use crate::meeting::MeetingPlan;
use crate::race_script::{RaceScript, ScriptedEvent};
use crate::rng::{NAMESPACE, Rng};
use crate::source::{RACECOURSE, time_of};
use crate::tote::Tote;
use crate::twists::Twists;
use crate::units::SECOND_MS;

/// All events of a day in the order of publication. The `time` of each is by the clock of its source.
///
/// Another pace changes only the times: `time` of every event, and `off_time` of the cards, which is when the race will
/// be off.
pub fn script(day: &RaceDay, pace: &Pace) -> Vec<Envelope> {
    let begins_ms = day.cards_out_ms();
    let clock = |at_ms: u64| Moment::from(pace.at(at_ms - begins_ms));
    let mut events = Vec::new();
    for session in [MeetingTime::Afternoon, MeetingTime::Evening] {
        events.extend(meeting_events(&MeetingPlan { day, session }, &clock));
    }
    // Stable: events at one moment keep their order.
    events.sort_by_key(|(at_ms, ..)| *at_ms);
    let envelope = |(index, (at_ms, source, event)): (usize, ScriptedEvent)| Envelope {
        id: Uuid::new_v5(&NAMESPACE, day.label(index).as_bytes()).to_string(),
        source: source.to_owned(),
        time: time_of(source, clock(at_ms)),
        event,
    };
    events.into_iter().enumerate().map(envelope).collect()
}

/// All events of a meeting, race by race.
fn meeting_events(meeting: &MeetingPlan<'_>, clock: &impl Fn(u64) -> Moment) -> Vec<ScriptedEvent> {
    let races = plan_races(meeting, clock);
    let cards_out_ms = meeting.day.cards_out_ms();
    let mut horses: Vec<_> = races.iter().flat_map(|race| &race.horses).collect();
    horses.sort_by(|a, b| a.horse_no.cmp(&b.horse_no));
    let registered = horses.into_iter().map(|horse| {
        let event = Event::HorseRegistered(horse.clone());
        (cards_out_ms, RACECOURSE, event)
    });
    let declared = |race: &RacePlan| {
        let card = Event::RaceDeclared(race.card.clone());
        (cards_out_ms + SECOND_MS, RACECOURSE, card)
    };
    let mut events: Vec<_> = registered.chain(races.iter().map(declared)).collect();
    for race in &races {
        events.extend(race_events(meeting, race).0);
    }
    events
}

/// The events of a race behind its card, and its pools at the end.
pub(crate) fn race_events<'a>(
    meeting: &MeetingPlan<'_>,
    race: &'a RacePlan,
) -> (Vec<ScriptedEvent>, Tote<'a>) {
    let mut rng = Rng::new(&meeting.label(&format!("race {}", race.card.race_number)));
    let twists = Twists::of(meeting, race, &mut rng);
    RaceScript::new(race, twists).events(&mut rng)
}
