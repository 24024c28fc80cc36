//! [`Screen`]: the window that boards are drawn on, and given back as it was.

use std::io::{self, Write};

use console::{Term, colors_enabled};

use super::frame::Window;

/// Another screen than the shell's, without its cursor.
const BEGIN: &str = "\x1b[?1049h\x1b[?25l";
const END: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_REST_OF_LINE: &str = "\x1b[K";
const CLEAR_ALL: &str = "\x1b[2J";

/// A terminal, for as long as boards are drawn on it.
#[derive(Debug)]
pub(super) struct Screen {
    term: Term,
    drawn: (Vec<String>, Option<Window>),
}

impl Screen {
    /// Takes the terminal, if standard output is one that can be drawn on.
    pub(super) fn take() -> io::Result<Option<Self>> {
        let term = Term::stdout();
        let dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
        if dumb || !term.is_term() {
            return Ok(None);
        }
        let drawn = (Vec::new(), None);
        let mut screen = Self { term, drawn };
        screen.write(BEGIN)?;
        Ok(Some(screen))
    }

    /// How large it is now.
    pub(super) fn window(&self) -> Window {
        let (rows, columns) = self.term.size();
        Window {
            rows: rows.into(),
            columns: columns.into(),
            colours: colors_enabled(),
        }
    }

    /// Draws lines that fill a window, if they are others than before.
    pub(super) fn draw(&mut self, lines: Vec<String>, window: Window) -> io::Result<()> {
        let (drawn, drawn_for) = &self.drawn;
        if *drawn == lines && *drawn_for == Some(window) {
            return Ok(());
        }
        let mut text = HOME.to_owned();
        if *drawn_for != Some(window) {
            text += CLEAR_ALL;
        }
        text += &lines.join(&format!("{CLEAR_REST_OF_LINE}\r\n"));
        text += CLEAR_REST_OF_LINE;
        self.drawn = (lines, Some(window));
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.term.write_all(text.as_bytes())?;
        self.term.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = self.write(END);
    }
}
