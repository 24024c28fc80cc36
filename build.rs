//! Embeds the files of `web/` and the client of the live channel: as they are, compressed, and with their entity tags.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

const FOLDER: &str = "web";
/// The board connects as any other client does.
const CLIENT: &str = "clients/js/railbird.js";

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
        _ => Err(format!("{}: add its content type to build.rs", path.display()).into()),
    }
}
