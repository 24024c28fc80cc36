//! [`BoardControls`]: the keys of the board, and the state that they change.

use client::message::Race;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::boards::WatchBoards;

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyAction {
    Quit,
    NextRace,
    PreviousRace,
    Pause,
    /// Doubles the speed of a replay, or halves it if it is negative.
    Speed(i32),
    /// Moves a replay by minutes.
    Seek(i64),
    ToggleHelp,
    CloseHelp,
}

/// The keys and their effects, and a legend.
pub(crate) const HELP: &str = include_str!("help.txt");

impl KeyAction {
    pub(crate) fn of(key: KeyEvent) -> Option<Self> {
        // A terminal in raw mode sends Ctrl-C as a key instead of a signal.
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Self::Quit);
        }
        Some(match key.code {
            KeyCode::Char('q') => Self::Quit,
            KeyCode::Char('n') | KeyCode::Right | KeyCode::Down | KeyCode::Tab => Self::NextRace,
            KeyCode::Char('p') | KeyCode::Left | KeyCode::Up | KeyCode::BackTab => {
                Self::PreviousRace
            }
            KeyCode::Char(' ') => Self::Pause,
            KeyCode::Char('+' | '=') => Self::Speed(1),
            KeyCode::Char('-') => Self::Speed(-1),
            KeyCode::Char('<' | ',') => Self::Seek(-1),
            KeyCode::Char('>' | '.') => Self::Seek(1),
            KeyCode::Char('?' | 'h') => Self::ToggleHelp,
            KeyCode::Esc => Self::CloseHelp,
            _ => return None,
        })
    }
}

/// The part of the board's state that keys change.
#[derive(Debug, Default)]
pub(crate) struct BoardControls {
    /// The race that is shown first; `None` for the first one in display order.
    pub(crate) selected: Option<Race>,
    /// The boards as they were when the board was paused.
    pub(crate) paused: Option<WatchBoards>,
    pub(crate) help: bool,
}

impl BoardControls {
    /// The boards to show: those of the pause, or the live ones.
    pub(crate) fn shown<'a>(&'a self, live: &'a WatchBoards) -> &'a WatchBoards {
        self.paused.as_ref().unwrap_or(live)
    }

    /// Applies the action of a key. [`KeyAction::Quit`] and those of a replay are left to the caller.
    pub(crate) fn apply(&mut self, action: KeyAction, live: &WatchBoards) {
        match action {
            KeyAction::Quit | KeyAction::Speed(_) | KeyAction::Seek(_) => {}
            KeyAction::NextRace => self.selected = self.neighbour(live, 1),
            KeyAction::PreviousRace => self.selected = self.neighbour(live, -1),
            KeyAction::Pause if self.paused.is_some() => self.paused = None,
            KeyAction::Pause => self.paused = Some(live.clone()),
            KeyAction::ToggleHelp => self.help = !self.help,
            KeyAction::CloseHelp => self.help = false,
        }
    }

    /// The race so many steps after the selected one, in a circle; `None` for the first.
    fn neighbour(&self, live: &WatchBoards, steps: isize) -> Option<Race> {
        let order = self.shown(live).in_display_order();
        let is_selected = |key: &Race| self.selected.as_ref() == Some(key);
        let current = order.iter().position(|(key, _)| is_selected(key));
        let next = (current.unwrap_or(0) + order.len()).checked_add_signed(steps)?;
        let next = next.checked_rem(order.len())?;
        (next > 0).then(|| order[next].0.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn boards(races: std::ops::RangeInclusive<u16>) -> WatchBoards {
        let mut boards = WatchBoards::default();
        for race_number in races {
            let odds = json!({
                "event": "odds_update", "date": "2026-11-21", "venue": "V", "venue_code": "V", "race_number": race_number,
                "status": "open", "recorded_at": "2026-11-21T09:01:20Z", "seq": 5, "prev_seq": 0, "runners": [],
            });
            boards.apply(&serde_json::from_value(odds).unwrap());
        }
        boards
    }

    #[test]
    fn next_and_previous_go_through_the_races_in_a_circle() {
        let mut controls = BoardControls::default();
        let boards = boards(1..=3);
        let mut selected_after = |action| {
            controls.apply(action, &boards);
            let selected = controls.selected.as_ref();
            selected.map(|key| key.race_number)
        };
        assert_eq!(selected_after(KeyAction::NextRace), Some(2));
        assert_eq!(selected_after(KeyAction::NextRace), Some(3));
        assert_eq!(selected_after(KeyAction::NextRace), None);
        assert_eq!(selected_after(KeyAction::PreviousRace), Some(3));
    }

    #[test]
    fn a_paused_board_keeps_its_races_until_it_is_resumed() {
        let mut controls = BoardControls::default();
        let live = boards(1..=4);
        controls.apply(KeyAction::Pause, &boards(1..=2));
        assert_eq!(controls.shown(&live).in_display_order().len(), 2);
        controls.apply(KeyAction::Pause, &live);
        assert_eq!(controls.shown(&live).in_display_order().len(), 4);
    }

    #[test]
    fn ctrl_c_quits_and_c_does_not() {
        let key = |code, modifiers| KeyAction::of(KeyEvent::new(code, modifiers));
        let c = KeyCode::Char('c');
        assert_eq!(key(c, KeyModifiers::CONTROL), Some(KeyAction::Quit));
        assert_eq!(key(c, KeyModifiers::NONE), None);
        let question_mark = key(KeyCode::Char('?'), KeyModifiers::SHIFT);
        assert_eq!(question_mark, Some(KeyAction::ToggleHelp));
    }
}
