//! [`BoardTerminal`]: the terminal that boards are drawn on, restored when dropped.

use std::io::{self, IsTerminal};
use std::time::Duration;

use crossterm::event::{Event, EventStream};
use crossterm::style::Colored;
use futures::StreamExt;
use jiff::Timestamp;
use ratatui::DefaultTerminal;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::boards::WatchBoards;
use crate::controls::{BoardControls, KeyAction};
use crate::draw::BoardView;
use crate::status::WatchStatus;

const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// A terminal in raw mode with the alternate screen, for as long as boards are drawn on it.
pub(crate) struct BoardTerminal {
    terminal: DefaultTerminal,
    input: EventStream,
    redraw: Interval,
    colours: bool,
    controls: BoardControls,
}

impl BoardTerminal {
    /// Opens the terminal; `None` if standard output is not a terminal that can be drawn on.
    pub(crate) fn open() -> io::Result<Option<Self>> {
        let dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
        if dumb || !io::stdout().is_terminal() {
            return Ok(None);
        }
        let terminal = ratatui::try_init()?;
        let mut redraw = interval(REDRAW_INTERVAL);
        redraw.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Some(Self {
            terminal,
            input: EventStream::new(),
            redraw,
            colours: !Colored::ansi_color_disabled(),
            controls: BoardControls::default(),
        }))
    }

    /// Waits until the boards have to be drawn; returns the action of a key if one was pressed.
    pub(crate) async fn input(&mut self) -> io::Result<Option<KeyAction>> {
        tokio::select! {
            _ = self.redraw.tick() => Ok(None),
            Some(event) = self.input.next() => match event? {
                Event::Key(key) if key.is_press() => Ok(KeyAction::of(key)),
                _ => Ok(None),
            },
        }
    }

    /// Applies the action of a key, and draws the boards. The terminal receives only the cells that changed.
    pub(crate) fn draw(
        &mut self,
        action: Option<KeyAction>,
        boards: &WatchBoards,
        status: &WatchStatus,
        address: &str,
    ) -> io::Result<()> {
        if let Some(action) = action {
            self.controls.apply(action, boards);
        }
        let view = BoardView {
            boards: self.controls.shown(boards),
            status,
            controls: &self.controls,
            address,
            now: Timestamp::now(),
            colours: self.colours,
        };
        let drawn = (self.terminal).draw(|frame| frame.render_widget(&view, frame.area()));
        drawn.map(drop)
    }
}

impl Drop for BoardTerminal {
    fn drop(&mut self) {
        // Fails only if the terminal is closed.
        let _ = ratatui::try_restore();
    }
}
