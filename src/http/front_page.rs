//! [`FrontPage`]: the racing that `/` shows to visitors without a key.

use std::sync::Arc;

use askama::Template;
use events::{RaceNumber, RacingDate, VenueCode};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde::Deserialize;

use super::error::{ApiError, capitalized};
use super::pages::words;

/// An invented meeting, in the form of `/api/v1/races/next`, with prices.
const DEMO: &str = include_str!("../../web/templates/pages/front_demo.json");

/// The racing that visitors without a key are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrontRacing {
    None,
    /// An invented meeting.
    Demo,
    /// The next races with the prices of so long ago; the invented meeting while none is known.
    Delayed(SignedDuration),
}

/// The racing as HTML, as it was rendered last: no visitor waits for it.
#[derive(Debug)]
pub struct FrontPage(Mutex<Arc<str>>);

impl FrontPage {
    pub fn new(racing: FrontRacing) -> Self {
        let page = Self(Mutex::default());
        if racing != FrontRacing::None {
            page.show(&FrontRaces::demo()).expect("it is tested");
        }
        page
    }

    pub(super) fn html(&self) -> Arc<str> {
        Arc::clone(&self.0.lock())
    }

    pub(super) fn show(&self, races: &FrontRaces) -> Result<(), ApiError> {
        let html = races.render().map_err(ApiError::internal)?;
        *self.0.lock() = html.into();
        Ok(())
    }
}

#[derive(Template)]
#[template(path = "pages/front_races.html", config = "web/templates/askama.toml")]
pub(super) struct FrontRaces {
    pub(super) races: Vec<FrontRace>,
    /// The time of the prices, also in the zone of the service, and its age; `None` of the invented meeting.
    pub(super) as_of: Option<(Timestamp, String, SignedDuration)>,
}

impl FrontRaces {
    pub(super) fn demo() -> Self {
        let races = serde_json::from_str(DEMO).expect("it is tested");
        Self { races, as_of: None }
    }
}

/// A race as the API has it, with the prices that are shown.
#[derive(Deserialize)]
pub(super) struct FrontRace {
    pub(super) date: RacingDate,
    venue: String,
    pub(super) venue_code: VenueCode,
    pub(super) race_number: RaceNumber,
    race_name: String,
    distance: u64,
    status: String,
    pub(super) time_zone: String,
    /// When it is off, in its time zone.
    #[serde(default)]
    pub(super) off: String,
    runners: Vec<FrontRunner>,
}

/// A runner of a card, or of a board.
#[derive(Deserialize)]
struct FrontRunner {
    horse_no: String,
    number: u16,
    horse_name: String,
    #[serde(default)]
    jockey: String,
    win: Option<f64>,
    previous: Option<f64>,
    opening: Option<f64>,
}

#[derive(Deserialize)]
struct FrontBoard {
    runners: Vec<FrontRunner>,
}

impl FrontRace {
    /// Takes the prices of a board.
    pub(super) fn price(&mut self, board: &[u8]) -> Result<(), ApiError> {
        let board: FrontBoard = serde_json::from_slice(board)?;
        for runner in &mut self.runners {
            let mut priced = board.runners.iter();
            if let Some(priced) = priced.find(|priced| priced.horse_no == runner.horse_no) {
                (runner.win, runner.previous) = (priced.win, priced.previous);
                runner.opening = priced.opening;
            }
        }
        Ok(())
    }
}

impl FrontRunner {
    /// The direction of the last move.
    fn direction(&self) -> &'static str {
        match (self.previous, self.win) {
            (Some(before), Some(win)) if win < before => "in",
            (Some(before), Some(win)) if win > before => "out",
            _ => "none",
        }
    }
}

/// `4.0`, `12.34`; a dash without a price.
fn price(odds: &Option<f64>) -> String {
    odds.map_or_else(|| "–".to_owned(), |odds| format!("{odds:?}"))
}
