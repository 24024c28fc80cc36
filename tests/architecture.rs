//! The house: which file may name which technology, which tests the documents name, and the files that are made from the
//! code.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::*;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The files under the crates' sources that name a crate in their code.
fn that_name(krate: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in [
        "src",
        "events/src",
        "projections/src",
        "importers/src",
        "simulator/src",
    ] {
        sources(&root.join(folder), &mut files);
    }
    let path = format!("{krate}::");
    let names = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        text.lines()
            .any(|line| !line.trim_start().starts_with("//") && line.contains(&path))
    };
    let mut found: Vec<String> = files
        .iter()
        .filter(|file| names(file))
        .map(|file| file.strip_prefix(root).unwrap().display().to_string())
        .collect();
    found.sort();
    found
}

#[test]
fn each_technology_is_named_in_one_place() {
    assert_eq!(
        that_name("sled"),
        [
            "projections/src/store.rs",
            "projections/src/store/flusher.rs"
        ]
    );
    let elsewhere = |krate: &str, places: &[&str]| {
        let found = that_name(krate);
        assert!(!found.is_empty(), "nothing names {krate}");
        found
            .into_iter()
            .filter(|file| !places.iter().any(|place| file.starts_with(place)))
            .collect::<Vec<_>>()
    };
    assert_eq!(elsewhere("async_nats", &["src/log/"]), [""; 0]);
    assert_eq!(elsewhere("tokio_tungstenite", &["src/cli/watch/"]), [""; 0]);
    assert_eq!(elsewhere("lettre", &["src/mail/"]), [""; 0]);
    assert_eq!(elsewhere("axum", &["src/http/"]), [""; 0]);
}

#[test]
fn the_tests_that_documents_name_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in [
        "src",
        "events",
        "projections",
        "importers",
        "simulator",
        "tests",
    ] {
        sources(&root.join(folder), &mut files);
    }
    let read = |file: &Path| fs::read_to_string(file).unwrap();
    let code: String = files.iter().map(|file| read(file)).collect();
    let is_name = |word: &&str| {
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        word.matches('_').count() > 2 && word.chars().all(letters)
    };
    for document in ["ARCHITECTURE.md", "tests/racing.rs"] {
        let text = read(&root.join(document));
        let names: Vec<&str> = text.split('`').filter(is_name).collect();
        assert!(names.len() > 10, "{document} names tests");
        for name in names {
            let there = code.contains(&format!("fn {name}("));
            assert!(there, "{document} names {name}, and there is none");
        }
    }
}

#[tokio::test]
async fn the_files_in_schemas_are_what_the_command_writes() {
    let written = tempfile::tempdir().unwrap();
    let out = written.path().display().to_string();
    assert_eq!(railbird(["schemas", "--out", &out]).await.code, 0);
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    for entry in fs::read_dir(written.path()).unwrap() {
        let name = entry.unwrap().file_name();
        let (new, old) = (written.path().join(&name), kept.join(&name));
        let old = fs::read_to_string(&old).unwrap_or_default();
        assert!(
            fs::read_to_string(new).unwrap() == old,
            "{} is not what the code says: run `railbird schemas`",
            name.display()
        );
    }
}
