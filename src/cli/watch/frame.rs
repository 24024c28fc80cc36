//! Boards as the lines of a window: pure, so that what a terminal shows can be tested without one.

use console::{Alignment, Style, measure_text_width, pad_str, truncate_str};
use events::{Odds, RaceKey};
use jiff::{SignedDuration, Timestamp};

use super::boards::{Board, Boards};
use super::message::Runner;
use super::status::{Ago, Link, Status};

/// Beside each other, boards are so wide.
const BOARD_COLUMNS: usize = 60;
/// Between two of them.
const GUTTER_COLUMNS: usize = 3;
/// A line of prices without the name: number, win and arrow; place; opening.
const WIN_COLUMNS: usize = 17;
const PLACE_COLUMNS: usize = 7;
const OPENING_COLUMNS: usize = 9;
const NAME_COLUMNS_MIN: usize = 8;
const NAME_COLUMNS_MAX: usize = 24;
/// Horses that a result names.
const PLACED_SHOWN: usize = 3;

/// Races that changed so shortly before the latest one count as changing now. They stand in their order, or every
/// quote would move the boards about.
const LATELY: SignedDuration = SignedDuration::from_secs(60);

/// How large a window is, and what it can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) colours: bool,
}

/// The lines that fill a window: boards, those that changed lately first, and the status.
pub(super) fn frame(
    boards: &Boards,
    status: &Status,
    at: &str,
    now: Timestamp,
    window: Window,
) -> Vec<String> {
    let painter = Painter {
        status,
        now,
        window,
        plain: Style::new().force_styling(window.colours),
    };
    let order = order(boards);
    let rows = window.rows.saturating_sub(1);
    let (mut lines, mut shown) = painter.lay_out(&order, rows);
    if shown < order.len() {
        // The line that says so takes a row, too.
        let rows = rows.saturating_sub(1);
        (lines, shown) = painter.lay_out(&order, rows);
        let more = order.len() - shown;
        let races = if more == 1 { "race" } else { "races" };
        lines.resize(rows, String::new());
        lines.push(painter.dim(format!("{more} more {races}")));
    }
    if order.is_empty() && status.link == Link::Up {
        lines.push("no open race to show".to_owned());
    }
    lines.resize(rows, String::new());
    lines.push(painter.status_line(at));
    lines.truncate(window.rows);
    lines.iter().map(|line| cut(line, window.columns)).collect()
}

/// Those that changed lately in the order of the card, then the others, the latest first.
fn order(boards: &Boards) -> Vec<(&RaceKey, &Board)> {
    let mut all: Vec<_> = boards.all().collect();
    let latest = all.iter().map(|(_, board)| board.changed_at).max();
    all.sort_by_key(|(key, board)| {
        let changed_at = board.changed_at.timestamp();
        let behind = latest.map(|latest| latest.timestamp().duration_since(changed_at));
        (behind.filter(|behind| *behind > LATELY), *key)
    });
    all
}

/// What all that is drawn has in common.
struct Painter<'a> {
    status: &'a Status,
    now: Timestamp,
    window: Window,
    plain: Style,
}

impl Painter<'_> {
    /// As many boards as fit, each into the first column with room for it, and how many these are.
    fn lay_out(&self, order: &[(&RaceKey, &Board)], rows: usize) -> (Vec<String>, usize) {
        let all = self.window.columns;
        let abreast = ((all + GUTTER_COLUMNS) / (BOARD_COLUMNS + GUTTER_COLUMNS)).max(1);
        let width = if abreast == 1 { all } else { BOARD_COLUMNS };
        let mut columns: Vec<Vec<String>> = vec![Vec::new(); abreast];
        let mut shown = 0;
        for (key, board) in order {
            let block = self.block(key, board, width);
            let gap = |column: &Vec<String>| usize::from(!column.is_empty());
            let room = columns
                .iter()
                .position(|column| column.len() + gap(column) + block.len() <= rows);
            let column = match room {
                Some(column) => &mut columns[column],
                None if shown == 0 => &mut columns[0],
                None => continue,
            };
            if !column.is_empty() {
                column.push(String::new());
            }
            column.extend(self.cut_short(block, rows));
            shown += 1;
        }
        (side_by_side(&columns, width), shown)
    }

    /// A field that is larger than the window: a part of it is better than nothing.
    fn cut_short(&self, mut block: Vec<String>, rows: usize) -> Vec<String> {
        if block.len() > rows {
            let kept = rows.saturating_sub(1);
            let more = format!("     {} more lines", block.len() - kept);
            block.truncate(kept);
            block.push(self.dim(more));
            block.truncate(rows);
        }
        block
    }

    /// A race: its header, a line a runner, and the result if there is one.
    fn block(&self, key: &RaceKey, board: &Board, width: usize) -> Vec<String> {
        let venue = board.venue.as_str();
        let title = format!("{} {venue} race {}", key.date, key.race_number);
        let title = self.plain.clone().bold().apply_to(title);
        let state = match board.status.as_str() {
            state @ "open" => self.green(state),
            state => self.yellow(state),
        };
        let age = self.status.since(board.changed_at.timestamp(), self.now);
        let columns = Columns::of(width);
        let heading = columns.line("no", "horse", "      win  ", "place", "opening");
        let mut lines = vec![format!("{title}  {state}  {age}"), self.dim(heading)];
        lines.extend(
            board
                .runners
                .iter()
                .map(|runner| self.row(runner, &columns)),
        );
        lines.extend(result(board));
        lines.iter().map(|line| cut(line, width)).collect()
    }

    fn row(&self, runner: &Runner, columns: &Columns) -> String {
        let price = |odds: Option<Odds>| odds.map_or("-".to_owned(), |odds| odds.to_string());
        let number = match runner.number {
            0 => String::new(),
            number => number.to_string(),
        };
        let (name, opening) = (runner.horse_name.as_str(), price(runner.opening));
        let Some(win) = runner.win else {
            let why = match runner.state.as_str() {
                "" => "-",
                state => state,
            };
            let why = format!("{why:>9}  ");
            return self.dim(columns.line(&number, name, &why, &price(runner.place), &opening));
        };
        let text = win.to_string();
        let win = match runner.previous {
            Some(previous) if win < previous => self.green(&format!("{text:>9} ▼")),
            Some(previous) if win > previous => self.red(&format!("{text:>9} ▲")),
            _ => format!("{text:>9}  "),
        };
        columns.line(&number, name, &win, &price(runner.place), &opening)
    }

    fn status_line(&self, at: &str) -> String {
        let Status { link, feed, .. } = self.status;
        let state = match (link, feed.as_str()) {
            (Link::Lost { why, retry_at }, _) => {
                let seconds = retry_at.duration_since(self.now).as_secs().max(0);
                let said = format!("connection lost, reconnecting in {seconds} s: {why}");
                return self.red(&said);
            }
            (Link::Connecting, _) => self.yellow("connecting"),
            (Link::Up, "") => "connected".to_owned(),
            (Link::Up, state @ "live") => self.green(state),
            (Link::Up, state @ "stale") => self.yellow(state),
            (Link::Up, state) => self.red(state),
        };
        let mut parts = vec![state, at.to_owned()];
        if *link == Link::Up {
            parts.push(format!("seq {}", self.status.seq));
            let heartbeat_at = self.status.heartbeat_at;
            let ago = heartbeat_at.map(|at| Ago(self.now.duration_since(at)));
            parts.extend(ago.map(|ago| format!("heartbeat {ago}")));
        }
        if self.status.gaps > 0 {
            parts.push(self.red(&format!("{} gaps", self.status.gaps)));
        }
        self.with_hint(parts.join("  "))
    }

    /// A line with how to end at its right end, if there is room.
    fn with_hint(&self, line: String) -> String {
        let hint = "Ctrl-C ends";
        let free = self
            .window
            .columns
            .saturating_sub(measure_text_width(&line));
        match free.checked_sub(hint.len()) {
            Some(spaces) if spaces >= 2 => format!("{line}{}{hint}", " ".repeat(spaces)),
            _ => line,
        }
    }

    fn dim(&self, text: String) -> String {
        self.plain.clone().dim().apply_to(text).to_string()
    }

    fn green(&self, text: &str) -> String {
        self.plain.clone().green().apply_to(text).to_string()
    }

    fn yellow(&self, text: &str) -> String {
        self.plain.clone().yellow().apply_to(text).to_string()
    }

    fn red(&self, text: &str) -> String {
        self.plain.clone().red().apply_to(text).to_string()
    }
}

/// Which columns a board has. What has no room is left out as a whole: half a price is another price.
struct Columns {
    name: usize,
    place: bool,
    opening: bool,
}

impl Columns {
    fn of(width: usize) -> Self {
        let without = |columns: usize| width.checked_sub(WIN_COLUMNS + NAME_COLUMNS_MIN + columns);
        let opening = without(PLACE_COLUMNS + OPENING_COLUMNS).is_some();
        let place = without(PLACE_COLUMNS).is_some();
        let prices = WIN_COLUMNS
            + if place { PLACE_COLUMNS } else { 0 }
            + if opening { OPENING_COLUMNS } else { 0 };
        Self {
            name: width.saturating_sub(prices).min(NAME_COLUMNS_MAX),
            place,
            opening,
        }
    }

    /// A line. `win` fills its cell, as colours would be counted in.
    fn line(&self, number: &str, name: &str, win: &str, place: &str, opening: &str) -> String {
        let name = pad_str(name, self.name, Alignment::Left, Some("…"));
        let mut line = format!("{number:>3}  {name} {win}");
        if self.place {
            line += &format!(" {place:>6}");
        }
        if self.opening {
            line += &format!(" {opening:>8}");
        }
        line
    }
}

fn cut(line: &str, columns: usize) -> String {
    let tail = if columns > 0 { "…" } else { "" };
    truncate_str(line, columns, tail).into_owned()
}

fn side_by_side(columns: &[Vec<String>], width: usize) -> Vec<String> {
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    let row = |row: usize| {
        let mut line = String::new();
        for column in columns {
            let cell = column.get(row).map_or("", String::as_str);
            line += &pad_str(cell, width + GUTTER_COLUMNS, Alignment::Left, None);
        }
        line.trim_end().to_owned()
    };
    (0..rows).map(row).collect()
}

fn result(board: &Board) -> Option<String> {
    let result = board.result.as_ref()?;
    let placed = result.placed.iter().take(PLACED_SHOWN);
    let named: Vec<String> = placed
        .map(|placed| format!("{} {}", placed.position, placed.horse_name.as_str()))
        .collect();
    let status = result.status.as_str();
    Some(format!("     {status} result: {}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-11-21T09:01:20Z";

    fn window(rows: usize, columns: usize) -> Window {
        Window {
            rows,
            columns,
            colours: false,
        }
    }

    /// A board with so many runners that changed so many seconds before now.
    fn race(boards: &mut Boards, race_number: u16, runners: u16, seconds_ago: i64) {
        let now: Timestamp = NOW.parse().unwrap();
        let recorded_at = now - SignedDuration::from_secs(seconds_ago);
        let runners: Vec<_> = (1..=runners)
            .map(|n| {
                json!({ "horse_no": format!("H{n}"), "number": n, "horse_name": format!("HORSE {n}"),
                    "win": 2.5 + f64::from(n), "place": 1.4, "opening": 4.0, "previous": 4.5 })
            })
            .collect();
        let message = json!({
            "event": "odds_update", "date": "2026-11-21", "venue": "Railbird Park", "venue_code": "RB",
            "race_number": race_number, "status": "open", "recorded_at": recorded_at.to_string(), "seq": 5,
            "prev_seq": 0, "runners": runners,
        });
        boards.take(&serde_json::from_value(message).unwrap());
    }

    fn drawn(boards: &Boards, window: Window) -> Vec<String> {
        let mut status = Status::default();
        let heartbeat = json!({ "event": "heartbeat", "seq": 12, "server_time": NOW, "feed": { "state": "live" } });
        let now = NOW.parse().unwrap();
        status.take(&serde_json::from_value(heartbeat).unwrap(), now);
        let lines = frame(boards, &status, "ws://127.0.0.1:8080", now, window);
        assert_eq!(lines.len(), window.rows);
        for line in &lines {
            assert!(measure_text_width(line) <= window.columns, "{line}");
        }
        lines
    }

    fn titles(lines: &[String]) -> Vec<&str> {
        lines
            .iter()
            .filter_map(|line| Some(line.split_once("race ")?.1.split_once(' ')?.0))
            .collect()
    }

    #[test]
    fn a_board_has_a_header_a_line_a_runner_and_the_status_at_the_bottom() {
        let mut boards = Boards::default();
        race(&mut boards, 3, 3, 4);
        let lines = drawn(&boards, window(8, 80));
        assert_eq!(
            lines,
            [
                "2026-11-21 Railbird Park race 3  open  4 s ago",
                " no  horse                          win    place  opening",
                "  1  HORSE 1                        3.5 ▼    1.4      4.0",
                "  2  HORSE 2                        4.5      1.4      4.0",
                "  3  HORSE 3                        5.5 ▲    1.4      4.0",
                "",
                "",
                "live  ws://127.0.0.1:8080  seq 12  heartbeat now                     Ctrl-C ends",
            ]
        );
    }

    #[test]
    fn a_scratched_runner_says_so_where_its_price_was() {
        let runner = json!({ "horse_no": "H1", "number": 11, "horse_name": "A NAME THAT IS FAR TOO LONG", "win": null,
            "place": null, "state": "scratched", "opening": 6.6, "previous": 3.2 });
        let odds = json!({ "event": "odds_update", "date": "2026-11-21", "venue": "V", "venue_code": "V", "race_number": 1,
            "status": "open", "recorded_at": NOW, "seq": 5, "prev_seq": 0, "runners": [runner] });
        let mut boards = Boards::default();
        boards.take(&serde_json::from_value(odds).unwrap());
        assert_eq!(
            drawn(&boards, window(5, 45))[2],
            " 11  A NAME THAT… scratched        -      6.6"
        );
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut boards = Boards::default();
        for number in 1..=4 {
            race(&mut boards, number, 3, 4);
        }
        let lines = drawn(&boards, window(13, 80));
        assert_eq!(titles(&lines), ["1", "2"]);
        assert_eq!(lines[11], "2 more races");
        let lines = drawn(&boards, window(24, 80));
        assert_eq!(titles(&lines), ["1", "2", "3", "4"]);
    }

    #[test]
    fn races_that_change_keep_their_order_and_come_before_those_that_rest() {
        let mut boards = Boards::default();
        for (number, seconds_ago) in [(1, 900), (2, 5), (3, 600), (4, 1), (5, 30)] {
            race(&mut boards, number, 1, seconds_ago);
        }
        let lines = drawn(&boards, window(30, 80));
        assert_eq!(titles(&lines), ["2", "4", "5", "3", "1"]);
    }

    #[test]
    fn a_wide_window_has_boards_beside_each_other() {
        let mut boards = Boards::default();
        for number in 1..=3 {
            race(&mut boards, number, 3, 4);
        }
        let lines = drawn(&boards, window(13, 130));
        let first = lines[0].matches("2026-11-21").count();
        assert_eq!(first, 2, "{}", lines[0]);
        assert!(!lines.iter().any(|line| line.contains("more race")));
    }

    #[test]
    fn no_window_is_too_small() {
        let mut boards = Boards::default();
        race(&mut boards, 1, 14, 4);
        race(&mut boards, 2, 14, 4);
        for rows in 0..40 {
            for columns in [0, 1, 7, 20, 40, 80, 200] {
                drawn(&boards, window(rows, columns));
            }
        }
        let lines = drawn(&boards, window(6, 40));
        assert_eq!(titles(&lines), ["1"], "a part is better than nothing");
        assert_eq!(lines[3..5], ["     13 more lines", "1 more race"]);
    }

    #[test]
    fn no_price_is_cut_in_the_middle() {
        let mut boards = Boards::default();
        race(&mut boards, 1, 1, 4);
        for (columns, row) in [
            (41, "  1  HORSE 1        3.5 ▼    1.4      4.0"),
            (40, "  1  HORSE 1                3.5 ▼    1.4"),
            (31, "  1  HORSE 1              3.5 ▼"),
            (20, "  1  HO…       3.5 ▼"),
        ] {
            assert_eq!(drawn(&boards, window(5, columns))[2], row);
        }
    }

    #[test]
    fn colours_are_there_only_where_they_are_wanted() {
        let mut boards = Boards::default();
        race(&mut boards, 1, 3, 4);
        let plain = drawn(&boards, window(10, 80)).join("\n");
        assert!(!plain.contains('\u{1b}'));
        let colours = Window {
            colours: true,
            ..window(10, 80)
        };
        assert!(drawn(&boards, colours).join("\n").contains("\u{1b}[32m"));
    }

    #[test]
    fn a_lost_connection_is_said_and_the_boards_stay() {
        let mut boards = Boards::default();
        race(&mut boards, 1, 3, 4);
        let mut status = Status::default();
        let now = NOW.parse().unwrap();
        let pause = std::time::Duration::from_secs(2);
        status.lose("the service is stopping".to_owned(), pause, now);
        let lines = frame(&boards, &status, "ws://h", now, window(8, 80));
        assert_eq!(titles(&lines), ["1"]);
        assert_eq!(
            lines[7],
            "connection lost, reconnecting in 2 s: the service is stopping"
        );
    }
}
