//! `railbird maintenance`.

use anyhow::bail;
use clap::{Args, Subcommand};
use events::{Moment, Text};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::keys::{Operator, parse_duration};
use super::report::{line, result, table};
use super::{WrongUse, keys};
use crate::accounts::{AccountCommands, Maintenance, MaintenanceId, MaintenancePlanned};

const COLUMNS: &str = "id state starts_at ends_at text";

#[derive(Debug, Args)]
pub(super) struct MaintenanceCommand {
    #[command(subcommand)]
    action: MaintenanceAction,
    #[command(flatten)]
    operator: Operator,
}

#[derive(Debug, Subcommand)]
enum MaintenanceAction {
    /// Show maintenance to come on /status and in its feed. Prints its id.
    Plan {
        /// What it means for users, in a sentence.
        #[arg(value_parser = Text::parse)]
        text: Text,
        /// The start, such as 2027-01-31T02:00:00Z.
        #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
        at: Moment,
        /// The duration, such as 90m.
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        lasts: SignedDuration,
    },
    /// List the maintenance of the last 90 days and of the future.
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Cancel maintenance, also while it is under way.
    Cancel {
        /// Its id.
        #[arg(value_parser = MaintenanceId::parse)]
        id: MaintenanceId,
    },
}

impl MaintenanceCommand {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let (_, commands) = self.operator.connect().await?;
        let now = Moment::from(Timestamp::now());
        match self.action {
            MaintenanceAction::Plan { text, at, lasts } => {
                let ends_at = at.timestamp().checked_add(lasts).map_or(at, Moment::from);
                if ends_at <= at.max(now) {
                    bail!(WrongUse("the maintenance has no time to come".to_owned()));
                }
                let maintenance_id = MaintenanceId::random();
                let planned = MaintenancePlanned {
                    maintenance_id: maintenance_id.clone(),
                    starts_at: at,
                    ends_at,
                    text,
                };
                commands.plan_maintenance(planned).await?;
                result(maintenance_id);
            }
            MaintenanceAction::List { json } => list(&commands, now, json),
            MaintenanceAction::Cancel { id } => {
                commands.cancel_maintenance(id.clone()).await?;
                line(format_args!("maintenance {id} is cancelled"));
            }
        }
        Ok(())
    }
}

fn list(commands: &AccountCommands, now: Moment, as_json: bool) {
    let ledger = commands.ledger.borrow();
    let known = ledger.record.maintenance.iter();
    if as_json {
        return known.for_each(|known| result(json!(known)));
    }
    let row = |known: &Maintenance| {
        let state = match known.cancelled_at {
            Some(_) => "cancelled",
            None if !known.is_ahead(now) => "over",
            None if known.starts_at <= now => "under way",
            None => "planned",
        };
        json!({ "state": state, "id": known.id, "starts_at": keys::time(known.starts_at),
                "ends_at": keys::time(known.ends_at), "text": known.text })
    };
    table(known.map(row), COLUMNS);
}
