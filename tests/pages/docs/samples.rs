//! Runs code samples as a reader does who has copied them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use futures::{StreamExt, stream};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

use super::*;

/// Most of the time of a sample is the start of its interpreter.
const SAMPLES_AT_ONCE: usize = 4;

/// A sample as a page shows it. The same one may be on several pages.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sample {
    language: String,
    code: String,
}

impl Sample {
    /// A sample among the lines of the browser.
    pub(super) fn of(line: &Value) -> Option<Self> {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        Some(Self {
            language: text("language")?,
            code: text("code")?,
        })
    }

    /// Whether it reads the live channel, and so never ends.
    fn is_live(&self) -> bool {
        self.code.contains("ws://")
    }

    /// The end of the name of its file.
    fn extension(&self) -> &'static str {
        match self.language.as_str() {
            "curl" => "sh",
            "Python" => "py",
            "JavaScript" => "mjs",
            "Rust" => "rs",
            other => panic!("there is no way to run {other}"),
        }
    }
}

/// Runs all samples against the service whose address and key are in them.
pub(super) async fn run_all(samples: BTreeSet<Sample>, dev: &Dev) {
    let folder = tempfile::tempdir().unwrap();
    let mut programs = Vec::new();
    let bin = rust_package();
    for (number, sample) in samples.into_iter().enumerate() {
        assert!(
            sample.code.contains(&dev.http.to_string()),
            "{sample:?} has the address"
        );
        assert!(!sample.code.contains("rb_..."), "{sample:?} has the key");
        let name = format!("sample-{number}");
        let in_folder = match sample.extension() {
            "rs" => bin.join("src/bin"),
            _ => folder.path().to_owned(),
        };
        let file = in_folder.join(format!("{name}.{}", sample.extension()));
        fs::write(&file, &sample.code).unwrap();
        programs.push((sample, name, file));
    }
    for extension in ["sh", "py", "mjs", "rs"] {
        let count = programs
            .iter()
            .filter(|(sample, ..)| sample.extension() == extension)
            .count();
        assert!(count > 10, "{count} samples are .{extension}");
    }
    build(&bin);
    let running = stream::iter(programs).map(async |(sample, name, file)| {
        let mut command = match sample.extension() {
            "sh" => Command::new("sh"),
            "py" => Command::new(tool(
                "RAILBIRD_PYTHON",
                "python3",
                ["-c", "import websockets"],
            )),
            "mjs" => Command::new(tool("RAILBIRD_NODE", "node", ["--eval", "WebSocket"])),
            _ => Command::new(bin.join("target/debug").join(&name)),
        };
        if sample.extension() != "rs" {
            command.arg(&file);
        }
        command.envs([("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")]);
        run(&sample, command).await;
    });
    running
        .buffer_unordered(SAMPLES_AT_ONCE)
        .collect::<()>()
        .await;
}

/// Runs a sample. One of the live channel has to print a price; any other has to succeed, and to print something.
async fn run(sample: &Sample, command: Command) {
    let mut command = tokio::process::Command::from(command);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    if sample.is_live() {
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = timeout(PATIENCE, output.next_line())
            .await
            .expect("in time")
            .unwrap();
        let line = line.unwrap_or_else(|| panic!("{sample:?} printed nothing"));
        assert!(
            line.starts_with(char::is_numeric),
            "{sample:?} printed {line}"
        );
        return;
    }
    let output = timeout(PATIENCE, child.wait_with_output())
        .await
        .expect("in time")
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{sample:?}: {printed}\n{errors}");
    assert!(!printed.trim().is_empty(), "{sample:?} printed nothing");
}

/// The package of the Rust samples without the samples of an earlier run. What it depends on stays compiled.
fn rust_package() -> PathBuf {
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("samples");
    let _ = fs::remove_dir_all(package.join("src"));
    fs::create_dir_all(package.join("src/bin")).unwrap();
    for file in ["Cargo.toml", "Cargo.lock"] {
        fs::copy(root().join("tests/samples").join(file), package.join(file)).unwrap();
    }
    package
}

fn build(package: &Path) {
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--locked",
            "--quiet",
            "--bins",
            "--target-dir",
            "target",
        ])
        .current_dir(package)
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
}
