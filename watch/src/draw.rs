//! [`BoardView`]: the boards, the status line and the help as a ratatui widget.

use std::cmp::Ordering;

use client::message::{BoardRunner, Race, ResultUpdate};
use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Sparkline, Table, Widget};

use crate::boards::{TREND_LEN_MAX, WatchBoard, WatchBoards};
use crate::controls::{BoardControls, HELP};
use crate::status::{Age, ConnectionState, WatchStatus};

/// Boards are side by side if each gets this width.
const BOARD_WIDTH_MIN: u16 = 72;
const BOARD_WIDTH_MAX: u16 = 96;
const BOARD_SPACING: u16 = 3;
/// Lines of a board above its runners: title and column heads.
const HEAD_HEIGHT: usize = 2;

const NUMBER_WIDTH: u16 = 3;
const NAME_WIDTH_MIN: u16 = 8;
/// The columns after the name. A narrow board drops them from the end: a clipped price would read as another price.
const COLUMNS: [(&str, u16); 5] = [
    ("    win  ", 9),
    (" place", 6),
    ("opening", 7),
    ("    move", 8),
    ("trend           ", TREND_LEN_MAX),
];

/// The first finishers, as many as a board names.
const FINISHERS_SHOWN: usize = 3;

const KEY_HINT: &str = "? help  q quit";

/// Everything that is on the screen.
pub(crate) struct BoardView<'a> {
    pub(crate) boards: &'a WatchBoards,
    pub(crate) status: &'a WatchStatus,
    pub(crate) controls: &'a BoardControls,
    /// Scheme, host and port of the service.
    pub(crate) address: &'a str,
    pub(crate) now: Timestamp,
    /// Colours repeat the meaning of arrows and words, so they can be left out.
    pub(crate) colours: bool,
}

impl Widget for &BoardView<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let [boards, status] = with_last_line(area);
        self.render_boards(boards, buf);
        self.render_status(status, buf);
        if self.controls.help {
            render_help(area, buf);
        }
        if !self.colours {
            for cell in &mut buf.content {
                cell.fg = Color::Reset;
            }
        }
    }
}

impl BoardView<'_> {
    /// Draws as many boards as fit, the selected one first, and the number of the others.
    fn render_boards(&self, area: Rect, buf: &mut Buffer) {
        let mut order = self.boards.in_display_order();
        if order.is_empty() && self.status.connection == ConnectionState::Connected {
            Line::from("no open race to show").render(area, buf);
        }
        let selected = self.controls.selected.as_ref();
        let first = order.iter().position(|(key, _)| Some(*key) == selected);
        order.rotate_left(first.unwrap_or(0));
        let mut placed = arrange(&order, area);
        if placed.len() < order.len() {
            let [above, last] = with_last_line(area);
            placed = arrange(&order, above);
            let more = order.len() - placed.len();
            let races = if more == 1 { "race" } else { "races" };
            let more = Line::from(format!("{more} more {races}"));
            more.dim().render(last, buf);
        }
        for (key, board, area) in placed {
            self.render_board(key, board, area, buf);
        }
    }

    /// Draws a board; if it does not fit, its last line counts the lines that are missing.
    fn render_board(&self, key: &Race, board: &WatchBoard, area: Rect, buf: &mut Buffer) {
        let race = format!("{} {} race {}", key.date, board.venue, key.race_number);
        let status = match board.status.as_str() {
            "open" => "open".green(),
            status => status.yellow(),
        };
        let age = self.status.age(board.changed_at, self.now);
        let age = format!("  {age}").into();
        Line::from(vec![race.bold(), "  ".into(), status, age]).render(area, buf);
        let missing = height(board).saturating_sub(area.height.into());
        let last_line = match (missing, &board.result) {
            (0, None) => None,
            (0, Some(result)) => Some(Line::from(result_text(result))),
            // The count takes a line itself.
            _ => Some(Line::from(format!("     {} more lines", missing + 1)).dim()),
        };
        let [above, last] = with_last_line(area);
        let rows = if last_line.is_some() { above } else { area };
        let [_, below_title] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(rows);
        render_runners(board, below_title, buf);
        if let Some(line) = last_line {
            line.render(last, buf);
        }
    }

    fn render_status(&self, area: Rect, buf: &mut Buffer) {
        let status = self.status;
        let mut parts = Vec::new();
        if self.controls.paused.is_some() {
            parts.push("paused".yellow());
        }
        match &status.connection {
            ConnectionState::Disconnected { reason, retry_at } => {
                let seconds = retry_at.duration_since(self.now).as_secs().max(0);
                parts.push(format!("connection lost, reconnecting in {seconds} s: {reason}").red());
            }
            ConnectionState::Connecting => {
                parts.extend(["connecting".yellow(), self.address.into()])
            }
            ConnectionState::Connected => {
                if let Some(replay) = &status.replay {
                    let time = replay.time(self.now);
                    let time = time.map(|time| time.strftime("%F %T UTC").to_string());
                    parts.extend([replay.to_string().yellow(), time.unwrap_or_default().bold()]);
                } else {
                    parts.push(match status.feed.as_str() {
                        "" => "connected".into(),
                        "live" => "live".green(),
                        "stale" => "stale".yellow(),
                        state => state.red(),
                    });
                }
                parts.extend([self.address.into(), format!("seq {}", status.seq).into()]);
                if let Some(at) = status.heartbeat_at {
                    let age = Age(self.now.duration_since(at));
                    parts.push(format!("heartbeat {age}").into());
                }
            }
        }
        if status.gaps > 0 {
            parts.push(format!("{} gaps", status.gaps).red());
        }
        let line = Line::from_iter(parts.into_iter().flat_map(|part| [part, "  ".into()]));
        if line.width() + KEY_HINT.len() <= area.width.into() {
            Line::from(KEY_HINT).right_aligned().render(area, buf);
        }
        line.render(area, buf);
    }
}

/// Draws the column heads, and a row for each runner that fits.
fn render_runners(board: &WatchBoard, area: Rect, buf: &mut Buffer) {
    let columns = &COLUMNS[..columns_that_fit(area.width)];
    let heads = columns.iter().map(|(head, _)| *head);
    let heads = [" no", "horse"].into_iter().chain(heads);
    let widths = columns.iter().map(|(_, width)| Constraint::Length(*width));
    let first = [Constraint::Length(NUMBER_WIDTH), Constraint::Fill(1)];
    let runners = board.runners.iter();
    let rows = runners.map(|runner| runner_row(runner, columns.len()));
    Table::new(rows, first.into_iter().chain(widths))
        .header(Row::new(heads).dim())
        .render(area, buf);
    if columns.len() < COLUMNS.len() {
        return;
    }
    for (runner, row) in board.runners.iter().zip(area.rows().skip(1)) {
        let [_, trend] =
            Layout::horizontal([Constraint::Fill(1), Constraint::Length(TREND_LEN_MAX)]).areas(row);
        let levels = trend_levels(&board.trend(&runner.horse_no));
        Sparkline::default().data(levels).max(8).render(trend, buf);
    }
}

fn runner_row<'a>(runner: &'a BoardRunner, columns: usize) -> Row<'a> {
    let text = |odds: f64| format!("{odds:?}").into();
    let price = |odds: Option<f64>| odds.map_or("-".into(), text);
    let number = match runner.number {
        0 => String::new(),
        number => number.to_string(),
    };
    let (win, change) = match runner.win {
        Some(win) => {
            let (arrow, colour) = direction(win, runner.previous);
            let price = format!("{win:?} {arrow}").fg(colour);
            (price, change(win, runner.opening))
        }
        None if runner.state.is_empty() => ("-  ".into(), Span::default()),
        None => (runner.state.as_str().into(), Span::default()),
    };
    let right = |span: Span<'a>| Line::from(span).right_aligned();
    let name = Line::from(runner.horse_name.as_str());
    let prices = [win, price(runner.place), price(runner.opening), change].map(right);
    let cells = [right(number.into()), name].into_iter().chain(prices);
    let row = Row::new(cells.take(columns + 2));
    if runner.win.is_none() { row.dim() } else { row }
}

/// The arrow and the colour of a price, compared with an earlier one.
fn direction(odds: f64, earlier: Option<f64>) -> (char, Color) {
    match earlier.map_or(Ordering::Equal, |earlier| odds.total_cmp(&earlier)) {
        Ordering::Less => ('▼', Color::Green),
        Ordering::Equal => (' ', Color::Reset),
        Ordering::Greater => ('▲', Color::Red),
    }
}

/// The change of the win price since opening, in per cent.
fn change(win: f64, opening: Option<f64>) -> Span<'static> {
    let (arrow, colour) = direction(win, opening);
    match opening.map(thousandths) {
        None => "-".into(),
        Some(opening) if thousandths(win) == opening => "=".into(),
        Some(opening) => {
            let percent = (thousandths(win).abs_diff(opening) * 100 + opening / 2) / opening;
            format!("{arrow} {}%", percent.max(1)).fg(colour)
        }
    }
}

/// The areas of the boards that fit, each in the first column of the screen that has room for it. The first board is
/// placed even if it does not fit.
fn arrange<'a>(
    order: &[(&'a Race, &'a WatchBoard)],
    area: Rect,
) -> Vec<(&'a Race, &'a WatchBoard, Rect)> {
    let count = (area.width + BOARD_SPACING) / (BOARD_WIDTH_MIN + BOARD_SPACING);
    let columns = vec![Constraint::Fill(1); count.max(1).into()];
    let columns = Layout::horizontal(columns).spacing(BOARD_SPACING);
    let mut free = columns.split(area).to_vec();
    let mut placed = Vec::new();
    for (key, board) in order {
        let fits = |column: &Rect| height(board) <= column.height.into();
        let column = match free.iter().position(fits) {
            Some(column) => &mut free[column],
            None if placed.is_empty() => &mut free[0],
            None => continue,
        };
        let board_area = Rect {
            width: column.width.min(BOARD_WIDTH_MAX),
            height: u16::try_from(height(board)).map_or(column.height, |h| h.min(column.height)),
            ..*column
        };
        column.y = board_area.bottom() + 1;
        column.height = column.height.saturating_sub(board_area.height + 1);
        placed.push((*key, *board, board_area));
    }
    placed
}

/// The lines that a board needs.
fn height(board: &WatchBoard) -> usize {
    HEAD_HEIGHT + board.runners.len() + usize::from(board.result.is_some())
}

fn columns_that_fit(width: u16) -> usize {
    let mut used = NUMBER_WIDTH + 1 + NAME_WIDTH_MIN;
    let fitting = COLUMNS.iter().take_while(|(_, column)| {
        used += 1 + column;
        used <= width
    });
    fitting.count().max(1)
}

/// A price in the smallest unit that prices have.
fn thousandths(odds: f64) -> u64 {
    (odds * 1_000.0).round() as u64
}

/// Prices as levels from 1 to 8, the lowest price at 1.
fn trend_levels(trend: &[f64]) -> Vec<u64> {
    let prices = trend.iter().copied().map(thousandths);
    let min = prices.clone().min().unwrap_or_default();
    let max = prices.clone().max().unwrap_or_default();
    let range = (max - min).max(1);
    prices.map(|price| 1 + (price - min) * 7 / range).collect()
}

fn result_text(result: &ResultUpdate) -> String {
    let names = result.runners.iter().take(FINISHERS_SHOWN).map(|runner| {
        let behind = match runner.margin.as_str() {
            "" => String::new(),
            margin => format!(" +{margin}"),
        };
        format!("{} {}{behind}", runner.position, runner.horse_name)
    });
    let names = Vec::from_iter(names).join(", ");
    let sections = match result.sectionals.join(" ") {
        times if times.is_empty() => times,
        times => format!("; sections {times}"),
    };
    format!("     {} result: {names}{sections}", result.status)
}

/// The area without its last line, and the last line.
fn with_last_line(area: Rect) -> [Rect; 2] {
    Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area)
}

fn render_help(area: Rect, buf: &mut Buffer) {
    let height = u16::try_from(HELP.lines().count() + 2).unwrap_or(u16::MAX);
    let help = area.centered(Constraint::Max(60), Constraint::Max(height));
    Clear.render(help, buf);
    Paragraph::new(HELP)
        .block(Block::bordered().title(" Keys "))
        .render(help, buf);
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::{Value, json};

    use super::*;
    use crate::controls::KeyAction;
    use crate::replay::PlaybackClock;

    const NOW: &str = "2026-11-21T09:01:20Z";

    fn apply(boards: &mut WatchBoards, message: Value) {
        boards.apply(&serde_json::from_value(message).unwrap());
    }

    fn odds(race_number: u16, recorded_at: &str, runners: Vec<Value>) -> Value {
        json!({
            "event": "odds_update", "date": "2026-11-21", "venue": "Railbird Park", "venue_code": "RB",
            "race_number": race_number, "status": "open", "recorded_at": recorded_at, "seq": 5, "prev_seq": 0,
            "runners": runners,
        })
    }

    /// Adds a board with so many runners that changed so many seconds before [`NOW`].
    fn add_race(boards: &mut WatchBoards, race_number: u16, runners: u16, seconds_ago: i64) {
        let now: Timestamp = NOW.parse().unwrap();
        let recorded_at = now - SignedDuration::from_secs(seconds_ago);
        let runners = (1..=runners)
            .map(|n| {
                json!({ "horse_no": format!("H{n}"), "number": n, "horse_name": format!("HORSE {n}"),
                    "win": 2.5 + f64::from(n), "place": 1.4, "opening": 4.0, "previous": 4.5 })
            })
            .collect();
        apply(boards, odds(race_number, &recorded_at.to_string(), runners));
    }

    fn boards_of(races: std::ops::RangeInclusive<u16>, runners: u16) -> WatchBoards {
        let mut boards = WatchBoards::default();
        for race_number in races {
            add_race(&mut boards, race_number, runners, 4);
        }
        boards
    }

    fn live_status() -> WatchStatus {
        let mut status = WatchStatus::default();
        let heartbeat = json!({ "event": "heartbeat", "seq": 12, "server_time": NOW, "feed": { "state": "live" } });
        status.apply(
            &serde_json::from_value(heartbeat).unwrap(),
            NOW.parse().unwrap(),
        );
        status
    }

    /// Draws a view on a screen of columns and rows.
    fn draw(view: &BoardView<'_>, (width, height): (u16, u16)) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let drawn = terminal.draw(|frame| frame.render_widget(view, frame.area()));
        drawn.unwrap().buffer.clone()
    }

    fn lines_of(buffer: &Buffer) -> Vec<String> {
        let row = |y| {
            (0..buffer.area.width)
                .map(|x| buffer[(x, y)].symbol())
                .collect::<String>()
        };
        (0..buffer.area.height)
            .map(|y| row(y).trim_end().to_owned())
            .collect()
    }

    fn drawn_with(
        boards: &WatchBoards,
        status: &WatchStatus,
        controls: &BoardControls,
        size: (u16, u16),
    ) -> Vec<String> {
        let view = BoardView {
            boards: controls.shown(boards),
            status,
            controls,
            address: "ws://127.0.0.1:8080",
            now: NOW.parse().unwrap(),
            colours: false,
        };
        lines_of(&draw(&view, size))
    }

    fn drawn(boards: &WatchBoards, size: (u16, u16)) -> Vec<String> {
        drawn_with(boards, &live_status(), &BoardControls::default(), size)
    }

    fn titles(lines: &[String]) -> Vec<&str> {
        lines
            .iter()
            .filter_map(|line| Some(line.split_once("race ")?.1.split_once(' ')?.0))
            .collect()
    }

    #[test]
    fn a_board_has_a_title_heads_a_row_per_runner_and_the_status_at_the_bottom() {
        let lines = drawn(&boards_of(3..=3, 3), (80, 8));
        assert_eq!(
            lines,
            [
                "2026-11-21 Railbird Park race 3  open  4 s ago",
                " no horse                         win    place opening     move trend",
                "  1 HORSE 1                       3.5 ▼    1.4     4.0    ▼ 13% ▁",
                "  2 HORSE 2                       4.5      1.4     4.0    ▲ 13% ▁",
                "  3 HORSE 3                       5.5 ▲    1.4     4.0    ▲ 38% ▁",
                "",
                "",
                "live  ws://127.0.0.1:8080  seq 12  heartbeat now                  ? help  q quit",
            ]
        );
    }

    #[test]
    fn a_replay_has_its_time_and_its_ages_by_the_clock_of_the_log() {
        let mut status = live_status();
        let mut clock = PlaybackClock::new(60.0);
        let message = json!({ "event": "heartbeat", "seq": 12, "server_time": NOW, "feed": { "state": "live" },
            "recorded_at": "2026-11-21T09:01:18Z" });
        let local: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
        clock.apply(&serde_json::from_value(message).unwrap(), local);
        status.replay = Some(clock);
        let boards = boards_of(3..=3, 1);
        let controls = BoardControls::default();
        let view = BoardView {
            boards: &boards,
            status: &status,
            controls: &controls,
            address: "ws://h",
            now: local + SignedDuration::from_secs(1),
            colours: false,
        };
        let lines = lines_of(&draw(&view, (80, 4)));
        assert!(lines[0].ends_with("open  62 s ago"), "{lines:?}");
        assert!(
            lines[3].starts_with("replay x60  2026-11-21 09:02:18 UTC  ws://h"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_scratched_runner_shows_its_state_in_place_of_the_price() {
        let runner = json!({ "horse_no": "H1", "number": 11, "horse_name": "A NAME THAT IS FAR TOO LONG", "win": null,
            "place": null, "state": "scratched", "opening": 6.6, "previous": 3.2 });
        let mut boards = WatchBoards::default();
        apply(&mut boards, odds(1, NOW, vec![runner]));
        assert_eq!(
            drawn(&boards, (45, 5))[2],
            " 11 A NAME THAT IS F scratched      -     6.6"
        );
    }

    #[test]
    fn the_trend_is_a_sparkline_of_the_win_prices() {
        let mut boards = WatchBoards::default();
        for (seq, win) in [(1, 3.0), (2, 4.0), (3, 10.0), (4, 5.0)] {
            let runner = json!({ "horse_no": "H1", "number": 1, "horse_name": "A", "win": win });
            let mut odds = odds(1, NOW, vec![runner]);
            odds["seq"] = seq.into();
            apply(&mut boards, odds);
        }
        assert!(drawn(&boards, (80, 5))[2].ends_with(" ▁▂█▃"));
    }

    #[test]
    fn races_that_do_not_fit_are_counted() {
        let boards = boards_of(1..=4, 3);
        let lines = drawn(&boards, (80, 13));
        assert_eq!(titles(&lines), ["1", "2"]);
        assert_eq!(lines[11], "2 more races");
        let lines = drawn(&boards, (80, 24));
        assert_eq!(titles(&lines), ["1", "2", "3", "4"]);
    }

    #[test]
    fn active_races_keep_their_order_and_come_before_the_others() {
        let mut boards = WatchBoards::default();
        for (number, seconds_ago) in [(1, 900), (2, 5), (3, 600), (4, 1), (5, 30)] {
            add_race(&mut boards, number, 1, seconds_ago);
        }
        assert_eq!(titles(&drawn(&boards, (80, 30))), ["2", "4", "5", "3", "1"]);
    }

    #[test]
    fn the_selected_race_is_shown_first() {
        let boards = boards_of(1..=4, 3);
        let mut controls = BoardControls::default();
        controls.apply(KeyAction::PreviousRace, &boards);
        let lines = drawn_with(&boards, &live_status(), &controls, (80, 13));
        assert_eq!(titles(&lines), ["4", "1"]);
    }

    #[test]
    fn a_wide_screen_has_boards_beside_each_other() {
        let lines = drawn(&boards_of(1..=3, 3), (150, 13));
        let first = lines[0].matches("2026-11-21").count();
        assert_eq!(first, 2, "{}", lines[0]);
        assert!(!lines.iter().any(|line| line.contains("more race")));
    }

    #[test]
    fn no_screen_is_too_small() {
        let boards = boards_of(1..=2, 14);
        let mut controls = BoardControls::default();
        for help in [false, true] {
            controls.help = help;
            for rows in 0..40 {
                for columns in [0, 1, 7, 20, 40, 80, 200] {
                    drawn_with(&boards, &live_status(), &controls, (columns, rows));
                }
            }
        }
        let lines = drawn(&boards, (40, 6));
        assert_eq!(titles(&lines), ["1"], "a part is shown");
        assert_eq!(lines[3..5], ["     13 more lines", "1 more race"]);
    }

    #[test]
    fn no_price_is_cut_in_the_middle() {
        let boards = boards_of(1..=1, 1);
        let rows = [80, 56, 45, 40, 31, 20].map(|columns| drawn(&boards, (columns, 5))[2].clone());
        assert_eq!(
            rows,
            [
                "  1 HORSE 1                       3.5 ▼    1.4     4.0    ▼ 13% ▁",
                "  1 HORSE 1                3.5 ▼    1.4     4.0    ▼ 13%",
                "  1 HORSE 1              3.5 ▼    1.4     4.0",
                "  1 HORSE 1         3.5 ▼    1.4     4.0",
                "  1 HORSE 1        3.5 ▼    1.4",
                "  1 HORSE      3.5 ▼",
            ]
        );
    }

    #[test]
    fn colours_are_used_only_if_they_are_enabled() {
        let boards = boards_of(1..=1, 3);
        let status = live_status();
        let coloured = |colours| {
            let view = BoardView {
                boards: &boards,
                status: &status,
                controls: &BoardControls::default(),
                address: "ws://h",
                now: NOW.parse().unwrap(),
                colours,
            };
            let cells = draw(&view, (80, 10)).content;
            cells.iter().any(|cell| cell.fg != Color::Reset)
        };
        assert!(coloured(true));
        assert!(!coloured(false));
    }

    #[test]
    fn a_lost_connection_is_shown_and_the_boards_stay() {
        let boards = boards_of(1..=1, 3);
        let now: Timestamp = NOW.parse().unwrap();
        let status = WatchStatus {
            connection: ConnectionState::Disconnected {
                reason: "the service is stopping".to_owned(),
                retry_at: now + SignedDuration::from_secs(2),
            },
            ..WatchStatus::default()
        };
        let lines = drawn_with(&boards, &status, &BoardControls::default(), (80, 8));
        assert_eq!(titles(&lines), ["1"]);
        assert_eq!(
            lines[7],
            "connection lost, reconnecting in 2 s: the service is stopping     ? help  q quit"
        );
    }

    #[test]
    fn a_result_is_shown_below_the_runners() {
        let mut boards = boards_of(1..=1, 2);
        apply(
            &mut boards,
            json!({ "event": "result_update", "date": "2026-11-21", "venue": "Railbird Park", "venue_code": "RB",
                "race_number": 1, "status": "official", "revision": 1, "recorded_at": NOW, "seq": 6, "prev_seq": 0,
                "sectionals": ["0:24.12", "0:22.90"],
                "runners": [{ "position": 1, "horse_no": "H2", "horse_name": "HORSE 2" },
                    { "position": 2, "horse_no": "H1", "horse_name": "HORSE 1", "margin": "1-1/4" }] }),
        );
        assert_eq!(
            drawn(&boards, (80, 8))[4],
            "     official result: 1 HORSE 2, 2 HORSE 1 +1-1/4; sections 0:24.12 0:22.90"
        );
    }

    #[test]
    fn pause_gaps_and_help_are_shown() {
        let boards = boards_of(1..=1, 3);
        let mut controls = BoardControls::default();
        let mut status = live_status();
        controls.apply(KeyAction::Pause, &boards);
        controls.apply(KeyAction::ToggleHelp, &boards);
        status.gaps = 2;
        let lines = drawn_with(&boards, &status, &controls, (80, 24));
        assert!(
            lines[23]
                .starts_with("paused  live  ws://127.0.0.1:8080  seq 12  heartbeat now  2 gaps")
        );
        assert!(lines.iter().any(|line| line.contains("quit")));
    }
}
