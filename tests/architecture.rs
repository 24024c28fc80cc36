//! The architecture: which crate, room and file may import which, where each technology is named, and the rules for
//! names and sizes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::*;

/// The sources of the crates, without their tests.
const CRATES: [&str; 7] = [
    "events/src",
    "projections/src",
    "importers/src",
    "simulator/src",
    "clients/rust/src",
    "watch/src",
    "src",
];

/// The crates of the workspace that each crate may name.
const CRATE_ARROWS: [(&str, &[&str]); 7] = [
    ("events/src", &[]),
    ("projections/src", &["events"]),
    ("importers/src", &["events"]),
    ("simulator/src", &["events"]),
    ("clients/rust/src", &[]),
    ("watch/src", &["client", "events"]),
    (
        "src",
        &[
            "events",
            "projections",
            "importers",
            "simulator",
            "client",
            "watch",
        ],
    ),
];

/// Each technology, and the folders or files that may name it.
const TECHNOLOGIES: [(&str, &[&str]); 8] = [
    ("sled", &["projections/src/store/"]),
    ("async_nats", &["src/log/"]),
    ("axum", &["src/http/"]),
    ("lettre", &["src/mail/"]),
    ("tokio_rustls", &["src/tls/"]),
    ("tokio_tungstenite", &["clients/rust/src/"]),
    ("ratatui", &["watch/src/"]),
    ("clap", &["src/cli/"]),
];

/// Identifiers that the project has retired for the field's own words.
const RETIRED: [&str; 47] = [
    "tell",
    "Told",
    "Telling",
    "Said",
    "Heard",
    "hear",
    "can_hear",
    "Due",
    "DueMessages",
    "Desk",
    "KeyRing",
    "Allowance",
    "strangers",
    "Denials",
    "append_behind",
    "settle",
    "with_rest",
    "Reading",
    "Works",
    "Wish",
    "wish",
    "Wishes",
    "wished",
    "Errand",
    "Carrier",
    "Letter",
    "MailWished",
    "unanswered",
    "Wire",
    "Tickets",
    "Ticket",
    "Seat",
    "Arrival",
    "Answering",
    "birth",
    "Recall",
    "Recalled",
    "recall",
    "begin_anew",
    "witness",
    "House",
    "instances",
    "errand",
    "carrier",
    "desk",
    "somebody_is_due",
    "can_tell",
];

/// A function fits on a screen.
const FUNCTION_LINES_MAX: usize = 70;
const ARCHITECTURE_LINES_MAX: usize = 150;
const COLUMNS_MAX: usize = 120;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files with an extension below a folder.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&root().join(folder), extension, &mut found);
    found.sort();
    found
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("node_modules") {
            continue;
        }
        if path.is_dir() {
            collect(&path, extension, found);
        } else if path.extension().is_some_and(|of| of == extension) {
            found.push(path);
        }
    }
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

/// The lines of a source file with their numbers, without comments.
fn code(path: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(index, line)| (index + 1, line.to_owned()))
        .collect()
}

/// The words of a line: runs of letters, digits and underscores.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
}

/// The names that stand behind a prefix such as `crate::`, with braces resolved one level deep.
fn names_behind<'a>(line: &'a str, prefix: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    for (at, _) in line.match_indices(prefix) {
        let before = line[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &line[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => {
                let group = group.split('}').next().unwrap_or_default();
                names.extend(group.split(',').filter_map(|item| words(item).next()));
            }
            None => names.extend(words(rest).next()),
        }
    }
    names
}

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn crates_import_only_the_crates_below_them() {
    let crates = [
        "events",
        "projections",
        "importers",
        "simulator",
        "client",
        "watch",
        "railbird",
    ];
    let mut wrong = Vec::new();
    for (folder, allowed) in CRATE_ARROWS {
        for file in files(folder, "rs") {
            for (number, line) in code(&file) {
                let forbidden = crates.iter().find(|name| {
                    let named = !names_behind(&line, &format!("{name}::")).is_empty();
                    named && !allowed.contains(name) && !(folder == "src" && **name == "railbird")
                });
                if let Some(name) = forbidden {
                    wrong.push(format!("{}:{number} names {name}", relative(&file)));
                }
            }
        }
    }
    assert_none("imports between crates that run back up", &wrong);
}

/// The rooms of `src/` and those that each one uses, by the table in `src/lib.rs`. A room stands below those that it
/// uses.
fn rooms() -> Vec<(String, BTreeSet<String>)> {
    let text = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let mut rooms: Vec<(String, BTreeSet<String>)> = Vec::new();
    for row in text.lines().filter_map(|line| line.strip_prefix("//! | ")) {
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        let names = |cell: &str| -> BTreeSet<String> {
            let parts = cell.split('`').skip(1).step_by(2);
            parts.map(str::to_owned).collect()
        };
        let Some(room) = names(cells[0]).into_iter().next() else {
            continue;
        };
        let uses = names(cells.get(2).copied().unwrap_or_default());
        let above: BTreeSet<String> = rooms.iter().map(|(room, _)| room.clone()).collect();
        assert!(
            uses.is_subset(&above),
            "{room} uses a room that stands below it"
        );
        let uses = match cells
            .get(2)
            .is_some_and(|cell| cell.starts_with("all above"))
        {
            true => above.difference(&uses).cloned().collect(),
            false => uses,
        };
        rooms.push((room, uses));
    }
    rooms
}

#[test]
fn rooms_use_exactly_the_rooms_that_the_table_names() {
    let rooms: BTreeMap<String, BTreeSet<String>> = rooms().into_iter().collect();
    let mut used: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for file in files("src", "rs") {
        let path = relative(&file);
        let inside = path.trim_start_matches("src/");
        let room = inside.split(['/', '.']).next().unwrap_or_default();
        let Some((room, _)) = rooms.get_key_value(room) else {
            assert!(["lib", "main"].contains(&room), "{path} is in no room");
            continue;
        };
        let used = used.entry(room).or_default();
        if path.ends_with("tests.rs") {
            continue;
        }
        let code = code(&file).into_iter().map(|(_, line)| line);
        for line in code.take_while(|line| !line.starts_with("mod tests {")) {
            let names = names_behind(&line, "crate::").into_iter();
            let named = names.filter(|name| rooms.contains_key(*name) && name != room);
            used.extend(named.map(str::to_owned));
        }
    }
    for (room, expected) in &rooms {
        assert_eq!(&used[&**room], expected, "the rooms that {room} uses");
    }
}

/// The module path of a file: `src/live/feed/mod.rs` is `live::feed`.
fn module(folder: &str, file: &Path) -> Vec<String> {
    let path = relative(file);
    let inside = path.trim_start_matches(folder).trim_start_matches('/');
    let mut parts: Vec<String> = inside
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    if parts
        .last()
        .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
    {
        parts.pop();
    }
    parts
}

/// The paths that a file imports, as module paths from the root of its crate.
fn imports(own: &[String], text: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for statement in text.split("\nuse ").skip(1) {
        let statement = statement.split(';').next().unwrap_or_default();
        let compact: String = statement.split_whitespace().collect();
        expand("", &compact, &mut paths);
    }
    let absolute = |path: &String| {
        let mut parts = path.split("::").map(str::to_owned).peekable();
        match parts.next()?.as_str() {
            "crate" => Some(parts.collect()),
            "self" => Some([own.to_vec(), parts.collect()].concat()),
            "super" => {
                let mut base = own[..own.len().saturating_sub(1)].to_vec();
                while parts.next_if(|part| part == "super").is_some() {
                    base.pop();
                }
                Some([base, parts.collect()].concat())
            }
            _ => None,
        }
    };
    paths.iter().filter_map(absolute).collect()
}

/// Resolves the braces of an import into single paths.
fn expand(prefix: &str, item: &str, paths: &mut Vec<String>) {
    let Some((head, rest)) = item.split_once('{') else {
        paths.push(format!("{prefix}{item}"));
        return;
    };
    let group = rest.strip_suffix('}').unwrap_or(rest);
    let prefix = format!("{prefix}{head}");
    let (mut depth, mut start) = (0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &group[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < group.len() {
        expand(&prefix, &group[start..], paths);
    }
}

/// For each module of a crate the modules that it needs: those that it imports, and those inside it. These may use
/// what stands in it, so an arrow to a module around is left out.
fn module_arrows(folder: &str) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let sources: Vec<(Vec<String>, String)> = files(folder, "rs")
        .iter()
        .map(|file| (module(folder, file), fs::read_to_string(file).unwrap()))
        .filter(|(module, _)| {
            !module
                .iter()
                .any(|part| part == "tests" || part == "testing")
        })
        .collect();
    let modules: BTreeSet<Vec<String>> = sources.iter().map(|(module, _)| module.clone()).collect();
    let resolve = |path: Vec<String>| {
        (0..=path.len())
            .rev()
            .map(|length| path[..length].to_vec())
            .find(|module| modules.contains(module))
    };
    let of_file = |(own, text): (Vec<String>, String)| {
        let code = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        let inside = modules
            .iter()
            .filter(|it| it.split_last().is_some_and(|(_, outer)| outer == own));
        let targets = imports(&own, code).into_iter().filter_map(resolve);
        let targets = targets.filter(|target| !own.starts_with(target));
        let targets = targets.chain(inside.cloned()).collect();
        (own, targets)
    };
    sources.into_iter().map(of_file).collect()
}

#[test]
fn no_files_of_a_crate_import_each_other_in_a_circle() {
    let mut circles = Vec::new();
    for folder in CRATES {
        let arrows = module_arrows(folder);
        assert!(
            folder == "events/src" || arrows.values().any(|to| !to.is_empty()),
            "{folder} has imports"
        );
        for start in arrows.keys() {
            let (mut reached, mut next) = (BTreeSet::new(), vec![start]);
            while let Some(module) = next.pop() {
                for target in arrows.get(module).into_iter().flatten() {
                    if reached.insert(target) {
                        next.push(target);
                    }
                }
            }
            if reached.contains(start) {
                let needed = arrows[start].iter().map(|to| to.join("::"));
                let needed: Vec<String> = needed.collect();
                circles.push(format!(
                    "{folder}: {} is in a circle, by one of {needed:?}",
                    start.join("::")
                ));
            }
        }
    }
    assert_none("import cycles", &circles);
}

#[test]
fn each_technology_is_named_in_one_place() {
    for (technology, places) in TECHNOLOGIES {
        let path = format!("{technology}::");
        let is_named = |file: &PathBuf| {
            code(file)
                .iter()
                .any(|(_, line)| !names_behind(line, &path).is_empty())
        };
        let (inside, outside): (Vec<String>, Vec<String>) = CRATES
            .iter()
            .flat_map(|folder| files(folder, "rs"))
            .filter(is_named)
            .map(|file| relative(&file))
            .partition(|file| places.iter().any(|place| file.starts_with(place)));
        assert!(!inside.is_empty(), "no file names {technology}");
        assert_none(
            &format!("{technology} is named outside of {places:?}"),
            &outside,
        );
    }
}

/// All Rust files, tests and benches included.
fn all_rust() -> Vec<PathBuf> {
    let folders = [
        "src",
        "events",
        "projections",
        "importers",
        "simulator",
        "clients/rust",
        "watch",
        "tests",
        "bench/src",
    ];
    folders
        .iter()
        .flat_map(|folder| files(folder, "rs"))
        .collect()
}

/// The scripts: of pages, clients and tests, and those without an extension.
fn all_scripts() -> Vec<PathBuf> {
    let folders = ["web", "clients", "examples", "tests", "bench"];
    let extensions = ["js", "mjs", "py"];
    let scripts = folders.iter().flat_map(|folder| {
        let extensions = extensions.iter();
        extensions.flat_map(|extension| files(folder, extension))
    });
    let tools = fs::read_dir(root().join("script")).unwrap();
    let tools = tools.map(|entry| entry.unwrap().path());
    scripts
        .chain(tools)
        .chain([root().join(".ci/run")])
        .collect()
}

#[test]
fn retired_identifiers_stay_out() {
    let own = Path::new(file!()).file_name().unwrap();
    let mut found = Vec::new();
    for file in all_rust()
        .iter()
        .filter(|file| file.file_name() != Some(own))
    {
        for (number, line) in code(file) {
            // Text of test data and messages is not an identifier.
            let unquoted: String = line.split('"').step_by(2).collect();
            for word in words(&unquoted).filter(|word| RETIRED.contains(word)) {
                found.push(format!("{}:{number}: {word}", relative(file)));
            }
        }
    }
    assert_none("retired identifiers", &found);
}

/// The name that a line of rustfmt's output defines at the top level of a file as a type.
fn type_name(line: &str) -> Option<&str> {
    if line.starts_with(' ') {
        return None;
    }
    let mut rest =
        words(line).skip_while(|word| ["pub", "crate", "super", "in", "self"].contains(word));
    let keyword = rest.next()?;
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&keyword);
    is_type.then(|| rest.next()).flatten()
}

#[test]
fn one_type_name_means_one_thing() {
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // A message has one name at both ends of the live channel.
    let of_service = CRATES
        .iter()
        .filter(|folder| **folder != "clients/rust/src");
    for file in of_service.flat_map(|folder| files(folder, "rs")) {
        let path = relative(&file);
        let is_test = path.contains("/tests") || path.ends_with("/testing.rs");
        let text = fs::read_to_string(&file).unwrap();
        let text = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        for name in text.lines().filter_map(type_name).filter(|_| !is_test) {
            places
                .entry(name.to_owned())
                .or_default()
                .insert(path.clone());
        }
    }
    let twice: Vec<String> = places
        .into_iter()
        .filter(|(_, files)| files.len() > 1)
        .map(|(name, files)| format!("{name}: {}", Vec::from_iter(files).join(", ")))
        .collect();
    assert_none("type names with several meanings", &twice);
}

/// Whether a line of rustfmt's output begins a function.
fn is_function(line: &str) -> bool {
    let qualifiers = ["pub", "async", "const", "unsafe", "extern"];
    let line = line.trim_start();
    let mut rest = line
        .split_whitespace()
        .skip_while(|word| qualifiers.contains(word) || word.starts_with("pub("));
    rest.next() == Some("fn")
}

#[test]
fn a_function_fits_on_a_screen() {
    let mut long = Vec::new();
    for file in all_rust() {
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (start, line) in lines.iter().enumerate() {
            let is_function = is_function(line);
            if !is_function || line.trim_end().ends_with(';') {
                continue;
            }
            let indent = line.len() - line.trim_start().len();
            let end = format!("{}}}", " ".repeat(indent));
            let length = lines[start..]
                .iter()
                .position(|line| **line == end)
                .map_or(0, |last| last + 1);
            if length > FUNCTION_LINES_MAX {
                long.push(format!(
                    "{}:{} has {length} lines",
                    relative(&file),
                    start + 1
                ));
            }
        }
    }
    assert_none(
        &format!("functions of more than {FUNCTION_LINES_MAX} lines"),
        &long,
    );
}

#[test]
fn documents_and_comments_are_wrapped() {
    let mut long = Vec::new();
    let mut check = |file: &Path, is_prose: &dyn Fn(&str) -> bool| {
        let text = fs::read_to_string(file).unwrap();
        for (index, line) in text.lines().enumerate() {
            if is_prose(line) && line.chars().count() > COLUMNS_MAX {
                long.push(format!("{}:{}", relative(file), index + 1));
            }
        }
    };
    for file in all_rust() {
        check(&file, &|line| {
            let line = line.trim_start();
            line.starts_with("//") && !line.starts_with("//! |")
        });
    }
    for file in all_scripts() {
        check(&file, &|line| {
            ["//", "#"]
                .iter()
                .any(|it| line.trim_start().starts_with(it))
        });
    }
    let documents = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ];
    let documents = documents
        .map(|name| root().join(name))
        .into_iter()
        .chain(files("docs", "md"));
    for file in documents {
        check(&file, &|line| {
            !line.starts_with('|') && !line.starts_with("    ")
        });
    }
    assert_none(&format!("prose of more than {COLUMNS_MAX} columns"), &long);
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(
        map.lines().count() <= ARCHITECTURE_LINES_MAX,
        "ARCHITECTURE.md is too long to be a map"
    );
}

#[test]
fn the_tests_that_documents_name_are_there() {
    let code: String = all_rust()
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let is_name = |word: &&str| {
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_metric = word.starts_with("railbird_");
        word.matches('_').count() > 2 && word.chars().all(letters) && !is_metric
    };
    for document in ["docs/reliability.md", "tests/racing/mod.rs"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let names: Vec<&str> = text.split('`').filter(is_name).collect();
        assert!(names.len() > 10, "{document} names tests");
        for name in names {
            assert!(
                code.contains(&format!("fn {name}(")),
                "{document} names the test {name}, which does not exist"
            );
        }
    }
}

#[tokio::test]
async fn the_files_in_schemas_are_what_the_command_writes() {
    let written = tempfile::tempdir().unwrap();
    let out = written.path().display().to_string();
    let output = railbird(["schemas", "--out", &out]).await;
    assert_eq!(output.code, 0, "{}", output.all);
    let names = |folder: &Path| -> BTreeSet<String> {
        let files = fs::read_dir(folder).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".json")).collect()
    };
    let kept = root().join("schemas");
    assert_eq!(names(written.path()), names(&kept));
    for name in names(&kept) {
        let text = |folder: &Path| fs::read_to_string(folder.join(&name)).unwrap();
        assert_eq!(text(written.path()), text(&kept), "{name}");
    }
}
