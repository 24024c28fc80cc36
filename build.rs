//! Embeds the files of `web/`, the client of the live channel and Swagger UI: as they are, compressed, and with their
//! entity tags.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{Cursor, Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;
use zip::ZipArchive;

const FOLDER: &str = "web";
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
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let mut paths = Vec::new();
    collect(&root.join(FOLDER), &mut paths)?;
    let mut files = vec![("railbird.js".to_owned(), root.join(CLIENT))];
    for path in paths {
        let name = path.strip_prefix(root.join(FOLDER))?.display().to_string();
        files.push((name, path));
    }
    files.extend(unpack_swagger_ui(&out)?);
    files.sort();
    let mut table = String::from("[\n");
    for (number, (name, path)) in files.iter().enumerate() {
        let bytes = fs::read(path)?;
        let compressed = out.join(format!("asset-{number}.gz"));
        fs::write(&compressed, gzip(&bytes)?)?;
        let hash = blake3::hash(&bytes).to_hex();
        writeln!(
            table,
            "    Asset {{ name: {:?}, etag: {:?}, content_type: {:?}, bytes: include_bytes!({path:?}), gzip: include_bytes!({compressed:?}) }},",
            name,
            format!("W/\"{}\"", &hash[..16]),
            content_type(path)?,
        )?;
    }
    table.push(']');
    fs::write(out.join("assets.rs"), table)?;
    Ok(())
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => collect(&path, paths)?,
            false => paths.push(path),
        }
    }
    Ok(())
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

fn gzip(bytes: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn content_type(path: &Path) -> Result<&'static str, Box<dyn Error>> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("js") => Ok("text/javascript; charset=utf-8"),
        Some("css") => Ok("text/css; charset=utf-8"),
        Some("svg") => Ok("image/svg+xml"),
        // The licence and the notice of Swagger UI.
        None => Ok("text/plain; charset=utf-8"),
        _ => Err(format!("{}: add its content type to build.rs", path.display()).into()),
    }
}
