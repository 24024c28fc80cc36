//! Damage of the files of a service: flipped bits and lost ends, while it does not run and while it serves.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::budget::Budget;
use super::quotes::Quotes;
use super::replica::UNLIMITED;
use crate::conformance::rng::Rng;
use crate::support::*;

/// The time within which damage is healed, on a machine that has nothing else to do.
const HEALED_WITHIN: Duration = Duration::from_secs(60);
/// How much is damaged at a time.
const DAMAGES_MAX: u64 = 8;
/// 500 in the share of this rig of two hours.
const DAMAGES_AN_HOUR: u64 = 1_630;

/// All files below a folder that have bytes, in a fixed order, but those that were set aside.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains(".corrupt-") {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.metadata().is_ok_and(|metadata| metadata.len() > 0) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Damages a file: flips a bit, or cuts off its end. Small files are chosen as often as large ones.
fn damage(data: &Path, rng: &mut Rng) -> String {
    let files = files(data);
    let path = rng.of(&files);
    let name = path.strip_prefix(data).unwrap().display();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let at = rng.below(file.metadata().unwrap().len());
    if rng.happens(20) {
        file.set_len(at).unwrap();
        return format!("{name} ends at {at}");
    }
    let (mut byte, bit) = ([0], rng.below(8));
    file.read_exact_at(&mut byte, at).unwrap();
    byte[0] ^= 1 << bit;
    file.write_all_at(&byte, at).unwrap();
    format!("bit {bit} of byte {at} of {name}")
}

fn damage_some(data: &Path, rng: &mut Rng, budget: &mut Budget) {
    for _ in 0..=rng.below(DAMAGES_MAX) {
        let what = damage(data, rng);
        budget.step(what);
        budget.count("damages", 1);
    }
}

fn healed(budget: &mut Budget, column: &'static str, begun: Instant) {
    let took = begun.elapsed();
    budget.count_max(column, took);
    assert!(
        took < HEALED_WITHIN || !budget.is_long(),
        "healed after {took:?}"
    );
}

fn serve(nats: &Nats, data: &Path) -> Serving {
    let flags = [
        "--http",
        "127.0.0.1:0",
        "--nats",
        &nats.url(),
        "--plans",
        UNLIMITED,
    ];
    Serving::start_with(&flags, data)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_files_give_no_wrong_answer_and_are_healed() {
    let mut budget = Budget::of("damage", 3).with_an_hour("damages", DAMAGES_AN_HOUR);
    let (nats, data) = (Nats::start(), tempfile::tempdir().unwrap());
    let quotes = Quotes::begin(&nats).await;
    quotes.publish(&nats, 50).await;
    quotes.publish_large_cards(&nats).await;
    let mut serving = serve(&nats, data.path());
    until_valid(serving.http, &quotes.revoked).await;
    quotes.revoke(&nats).await;
    quotes.until_whole(&nats, &serving).await;
    while let Some(mut rng) = budget.next_round() {
        if rng.happens(50) {
            budget.step("while it serves");
            damage_some(data.path(), &mut rng, &mut budget);
            let begun = Instant::now();
            quotes.until_healed(&nats, &serving).await;
            healed(&mut budget, "ms until healed while serving", begun);
        }
        if rng.happens(50) {
            serving.stop().await;
        } else {
            serving.kill();
        }
        budget.step("while it does not run");
        damage_some(data.path(), &mut rng, &mut budget);
        let begun = Instant::now();
        serving = serve(&nats, data.path());
        quotes.publish(&nats, 20).await;
        quotes.until_whole(&nats, &serving).await;
        healed(&mut budget, "ms until healed by a start", begun);
        let http = serving.http;
        eventually("the valid key is accepted", async || {
            quotes.status(http, &quotes.valid).await == 200
        })
        .await;
        assert_eq!(quotes.status(http, &quotes.revoked).await, 401);
        if !Quotes::note(&serving).await.is_empty() {
            budget.count("stores replaced", 1);
        }
    }
    budget.end();
}
