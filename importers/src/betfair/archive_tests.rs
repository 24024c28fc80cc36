//! Archives of small invented streams, intact and damaged.

use std::io::{Cursor, Write};

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::BetfairStream;
use crate::item::Item;
use crate::testing::folder_of;

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = BzEncoder::new(Vec::new(), bzip2::Compression::new(1));
    encoder.write_all(bytes).expect("into memory");
    encoder.finish().expect("into memory")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("into memory");
    encoder.finish().expect("into memory")
}

type Files = Vec<(String, Vec<u8>)>;

fn stream(number: u32) -> Vec<u8> {
    let ticks = (0..20_u32).map(|tick| {
        let ltp = f64::from(1_000 + tick * number) / 100.0;
        json!({ "op": "mcm", "pt": 1_781_456_100_000_u64 + u64::from(tick), "mc": [
            { "id": format!("1.{number}"), "rc": [{ "id": 11, "ltp": ltp }] },
        ] })
    });
    let definition = json!({ "op": "mcm", "pt": 1_781_456_000_000_u64, "mc": [{
        "id": format!("1.{number}"),
        "marketDefinition": {
            "eventTypeId": "7", "marketType": "WIN", "marketTime": "2026-06-14T18:55:00Z", "timezone": "UTC",
            "venue": "Hamilton", "name": format!("R{number} 1200m"), "status": "OPEN",
            "runners": [{ "id": 11, "status": "ACTIVE", "name": "Paper Lantern" }],
        },
    }] });
    let lines = std::iter::once(definition).chain(ticks);
    lines
        .map(|line| format!("{line}\n"))
        .collect::<String>()
        .into_bytes()
}

/// Three markets, packed in different ways.
fn files() -> Files {
    vec![
        ("BASIC/2026/1.1.bz2".to_owned(), bzip2(&stream(1))),
        ("BASIC/2026/1.2.gz".to_owned(), gzip(&stream(2))),
        ("BASIC/2026/1.3".to_owned(), stream(3)),
    ]
}

fn tar(files: &Files) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, name, &bytes[..])
            .expect("into memory");
    }
    archive.into_inner().expect("into memory")
}

fn zip(files: &Files, method: CompressionMethod) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        let options = SimpleFileOptions::default().compression_method(method);
        archive
            .start_file(name.as_str(), options)
            .expect("into memory");
        archive.write_all(bytes).expect("into memory");
    }
    archive.finish().expect("into memory").into_inner()
}

fn stored(files: &Files) -> Vec<u8> {
    zip(files, CompressionMethod::Stored)
}

fn deflated(files: &Files) -> Vec<u8> {
    zip(files, CompressionMethod::Deflated)
}

/// The ids of the events, and the rejections: the name behind the folder, and the reason.
fn read(files: &[(&str, &[u8])]) -> (Vec<String>, Vec<String>) {
    let (folder, _) = folder_of(files);
    let (mut ids, mut rejected) = (Vec::new(), Vec::new());
    for item in BetfairStream::find(&[folder.path().to_owned()]).items(None) {
        match item {
            Item::Event(envelope) => ids.push(envelope.id),
            Item::Rejected(diagnostic) => {
                let text = diagnostic.to_string();
                let prefix = format!("{}/", folder.path().display());
                rejected.push(
                    text.strip_prefix(&prefix)
                        .expect("in the folder")
                        .to_owned(),
                );
            }
            Item::Note(_) | Item::Omitted(_) => {}
        }
    }
    (ids, rejected)
}

fn all_ids() -> Vec<String> {
    let streams = [1, 2, 3].map(stream);
    let files = [
        ("1.1", &streams[0][..]),
        ("1.2", &streams[1]),
        ("1.3", &streams[2]),
    ];
    let (ids, rejected) = read(&files);
    assert_eq!((ids.len(), rejected.len()), (3 * 22, 0));
    ids
}

#[test]
fn an_archive_is_read_as_its_members_are() {
    let all = all_ids();
    let mut files = files();
    files.push(("__MACOSX/._1.1.bz2".to_owned(), b"hidden".to_vec()));
    files.push(("./README".to_owned(), b"of the archive".to_vec()));
    for pack in [tar, stored, deflated] {
        let (ids, rejected) = read(&[("data", &pack(&files))]);
        assert_eq!(ids, all);
        assert_eq!(rejected.len(), 1, "{rejected:?}");
        assert!(
            rejected[0].contains("README: not a stream file"),
            "{rejected:?}"
        );
    }
    for pack in [stored, deflated] {
        let (ids, rejected) = read(&[("data", &pack(&files[3..4].to_vec()))]);
        assert!(ids.is_empty());
        assert_eq!(rejected, ["data: there is no file in this archive"]);
    }
    let outside: Files = vec![("../1.3".to_owned(), stream(3))];
    let (ids, rejected) = read(&[("data", &stored(&outside))]);
    assert_eq!((&ids[..], rejected.len()), (&all[44..], 0));
    let (ids, rejected) = read(&[("data.tar.gz", &gzip(&tar(&files)))]);
    assert!(ids.is_empty());
    assert_eq!(rejected, ["data.tar.gz: a tar archive: unpack it first"]);
}

#[test]
fn a_damaged_member_is_named_and_the_others_are_read() {
    let all = all_ids();
    for (name, bytes) in files() {
        // A tar header has 512 bytes; a zip header ends with the name, and the packed members have over 100 bytes.
        for (archive, offset) in [
            (tar(&files()), 512 + bytes.len() / 2),
            (stored(&files()), name.len() + bytes.len() / 2),
            (deflated(&files()), name.len() + 60),
        ] {
            let header = archive
                .windows(name.len())
                .position(|w| w == name.as_bytes());
            let mut damaged = archive.clone();
            damaged[header.expect("its name") + offset] ^= 0x80;
            let (ids, rejected) = read(&[("data", &damaged)]);
            assert_eq!(rejected.len(), 1, "{rejected:?}");
            assert!(
                rejected[0].starts_with(&format!("data/{name}:")),
                "{rejected:?}"
            );
            let index = files().iter().position(|(other, _)| *other == name);
            let others = all
                .chunks(22)
                .enumerate()
                .filter(|(at, _)| Some(*at) != index);
            assert!(others.flat_map(|(_, ids)| ids).all(|id| ids.contains(id)));
        }
    }
}

#[test]
fn the_prices_of_a_damaged_place_market_are_not_imported() {
    let win = stream(1);
    let text = String::from_utf8(win.clone()).expect("text");
    let place = text
        .replace("\"WIN\"", "\"PLACE\"")
        .replace("\"1.1\"", "\"1.9\"");
    let place = gzip(place.as_bytes());
    let (ids, rejected) = read(&[("1.1", &win), ("1.9", &place)]);
    assert_eq!((ids.len(), rejected.len()), (2 * 22 - 2, 0));
    let mut damaged = place;
    let checksum = damaged.len() - 8;
    damaged[checksum] ^= 1;
    let (ids, rejected) = read(&[("1.1", &win), ("1.9", &damaged)]);
    assert_eq!((&ids[..], rejected.len()), (&all_ids()[..22], 1));
    assert!(
        rejected[0].starts_with("1.9: the file is damaged"),
        "{rejected:?}"
    );
}

#[test]
fn a_truncated_tar_archive_gives_what_is_intact() {
    let whole = tar(&files());
    let last = whole
        .windows(7)
        .position(|bytes| bytes == b"\"ltp\":1")
        .expect("a plain member");
    let (ids, rejected) = read(&[("data.tar", &whole[..last])]);
    assert_eq!(
        ids,
        all_ids()[..46],
        "and the card and the status of the last one"
    );
    assert_eq!(rejected.len(), 1, "{rejected:?}");
    assert!(
        rejected[0].contains("the archive ends in the middle of it, at byte "),
        "{rejected:?}"
    );
    let (ids, rejected) = read(&[("data.zip", &stored(&files())[..last])]);
    assert!(
        ids.is_empty() && rejected[0].starts_with("data.zip: the zip archive: "),
        "{rejected:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn of_a_damaged_archive_nothing_false_is_imported(
        kind in 0..3_usize,
        at in any::<Index>(),
        bit in 0..8_u8,
        cut in prop::option::of(any::<Index>()),
    ) {
        let files: Files = [1, 2, 3].map(|n| (format!("1.{n}.bz2"), bzip2(&stream(n)))).into();
        let mut archive = [tar, stored, deflated][kind](&files);
        let at = at.index(archive.len());
        archive[at] ^= 1 << bit;
        if let Some(cut) = cut {
            archive.truncate(cut.index(archive.len()));
        }
        let all = all_ids();
        let (ids, _) = read(&[("data", &archive)]);
        prop_assert!(ids.iter().all(|id| all.contains(id)), "byte {at}");
    }
}
