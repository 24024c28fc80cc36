//! Embeds the files of `web/`, the client of the live channel and Swagger UI. Names the commit that is built.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;
use walkdir::WalkDir;
use zip::ZipArchive;

/// The variable with the commit, for this script and for the program.
const REVISION: &str = "RAILBIRD_REVISION";
const UNKNOWN: &str = "unknown";

const FOLDER: &str = "web";
/// Its folder with the templates, which are built into the pages.
const TEMPLATES: &str = "web/templates";
/// The board connects as any other client does.
const CLIENT: &str = "clients/js/railbird.js";
/// The version in the archive of the pinned crate, whose only folder is named after it.
const SWAGGER_UI_VERSION: &str = "5.32.6";
/// The files of Swagger UI that a page needs, and its licence, in that folder.
const SWAGGER_UI: [&str; 4] = [
    "dist/swagger-ui-bundle.js",
    "dist/swagger-ui.css",
    "LICENSE",
    "NOTICE",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={FOLDER}");
    println!("cargo::rerun-if-changed={CLIENT}");
    println!("cargo::rerun-if-env-changed={REVISION}");
    println!("cargo::rustc-env={REVISION}={}", revision());
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let mut files = vec![("railbird.js".to_owned(), root.join(CLIENT))];
    let folder = root.join(FOLDER);
    let entries = WalkDir::new(&folder).into_iter();
    for entry in entries.filter_entry(|entry| !entry.path().ends_with(TEMPLATES)) {
        let entry = entry?;
        if entry.file_type().is_file() {
            let name = entry.path().strip_prefix(&folder)?.display().to_string();
            files.push((name, entry.into_path()));
        }
    }
    files.extend(unpack_swagger_ui(&out)?);
    files.sort();
    let mut table = String::from("[\n");
    for (name, path) in files {
        let content_type = content_type(&path)?;
        writeln!(
            table,
            "    ({name:?}, StaticDocument::new({content_type:?}, &include_bytes!({path:?})[..])),"
        )?;
    }
    table.push(']');
    fs::write(out.join("assets.rs"), table)?;
    Ok(())
}

/// The commit that is built: from the environment, where the sources come without git, else that of the repository,
/// else `unknown`.
fn revision() -> String {
    let named = std::env::var(REVISION).ok();
    let named = named.filter(|revision| !revision.is_empty());
    named.or_else(head).unwrap_or_else(|| UNKNOWN.to_owned())
}

/// The commit of the repository whose root this folder is; `None` without one, as in an archive inside another one.
fn head() -> Option<String> {
    if !Path::new(".git").exists() {
        return None;
    }
    // HEAD changes with a checkout, its log with each commit. A file that is not there would have cargo build always.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// The output of git; `None` if it fails, or is not installed.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Unpacks Swagger UI. Returns the name and the path of each file.
fn unpack_swagger_ui(out: &Path) -> Result<Vec<(String, PathBuf)>, Box<dyn Error>> {
    let mut archive = ZipArchive::new(Cursor::new(SWAGGER_UI_VENDORED))?;
    let folder = format!("swagger-ui-{SWAGGER_UI_VERSION}");
    let mut files = Vec::new();
    for inside in SWAGGER_UI {
        let mut bytes = Vec::new();
        let mut file = archive.by_name(&format!("{folder}/{inside}"))?;
        file.read_to_end(&mut bytes)?;
        let name = inside.trim_start_matches("dist/");
        let path = out.join(format!("swagger-ui-{name}"));
        fs::write(&path, bytes)?;
        files.push((format!("swagger-ui/{name}"), path));
    }
    Ok(files)
}

fn content_type(path: &Path) -> Result<&'static str, Box<dyn Error>> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("js") => Ok("text/javascript; charset=utf-8"),
        Some("css") => Ok("text/css; charset=utf-8"),
        Some("svg") => Ok("image/svg+xml"),
        Some("png") => Ok("image/png"),
        Some("webmanifest") => Ok("application/manifest+json"),
        // The licence and the notice of Swagger UI have none.
        Some("txt") | None => Ok("text/plain; charset=utf-8"),
        _ => Err(format!("{}: add its content type to build.rs", path.display()).into()),
    }
}
