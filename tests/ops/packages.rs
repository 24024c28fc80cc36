//! The clients as packages: packed, installed from the packed files, and taken by type checkers as users run them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::*;

/// What a user writes with the types, and with `WRONG` what the types must reject.
const TYPESCRIPT: &str = r#"
import { LiveOdds, type Message, type State } from "railbird";

const odds = new LiveOdds("wss://example.org/ws/live/odds", {
  apiKey: "k",
  dates: ["2026-11-21"],
  races: [3, { date: "2026-11-21", venue: "ST", race_number: 4 }],
  events: ["odds_update", "result_update"],
  heartbeatMs: 1000,
});
const prices = (message: Message): (number | null)[] =>
  message.event === "odds_update" ? message.runners.map((runner) => runner.win) : [];
odds.addEventListener("message", ({ detail }) => console.log(prices(detail)));
odds.addEventListener("state", ({ detail }) => {
  const { phase, gaps }: State = detail;
  if (phase === "closed" || gaps > 0) odds.close();
});
const id: string = odds.subscribe({ venues: ["ST"] });
console.log(id, odds.state.seq ?? 0);
odds.connect();
WRONG
"#;

const PYTHON: &str = r#"
from railbird import LiveOdds, LiveOddsClosed, State


def show(state: State) -> None:
    print(state.phase == "live", state.gaps + 1, state.seq or 0)


async def main() -> None:
    async with LiveOdds("wss://example.org/ws/live/odds", api_key="k", races=[3, {"venue": "ST", "race_number": 4}]) as odds:
        odds.on_state = show
        try:
            async for message in odds:
                request: str = await odds.subscribe(venues=["ST"], heartbeat_ms=1000)
                print(message["event"], request)
        except LiveOddsClosed as closed:
            print(closed)


WRONG
"#;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a program in a folder. Returns whether it succeeded, and what it printed.
fn run(program: impl AsRef<std::ffi::OsStr>, args: &[&str], folder: &Path) -> (bool, String) {
    let mut command = Command::new(program);
    command.args(args).current_dir(folder);
    command
        .env("PYTHONPATH", "installed")
        .env("MYPYPATH", "installed");
    let output = command.output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(printed).unwrap())
}

fn succeeded((success, printed): (bool, String)) -> String {
    assert!(success, "{printed}");
    printed
}

/// The file with this ending, of those that `script/pack-clients` writes into `folder`.
fn packed(folder: &Path, ending: &str) -> PathBuf {
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut found = files.filter(|path| path.to_string_lossy().ends_with(ending));
    found
        .next()
        .unwrap_or_else(|| panic!("no {ending} was packed"))
}

fn pack(folder: &Path) {
    let script = root().join("script/pack-clients");
    succeeded(run(script, &[folder.to_str().unwrap()], root()));
}

/// Checks that a folder of an installed package has the licences of this repository.
fn check_licences(folder: &Path) {
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let text = std::fs::read(folder.join(name)).unwrap_or_else(|error| {
            panic!("{name} is not in {}: {error}", folder.display());
        });
        assert_eq!(text, std::fs::read(root().join(name)).unwrap(), "{name}");
    }
}

fn python() -> String {
    tool(
        "RAILBIRD_PYTHON",
        "python3",
        ["-c", "import websockets, mypy, flit_core"],
    )
}

/// Checks that a type checker accepts a program, and rejects it with an error in it.
fn check_types(program: &str, wrong: [&str; 2], check: impl Fn(&str) -> (bool, String)) {
    succeeded(check(&program.replace("WRONG", "")));
    for wrong in wrong {
        let (accepted, printed) = check(&program.replace("WRONG", wrong));
        assert!(!accepted && printed.contains("error"), "{wrong}: {printed}");
    }
}

#[tokio::test]
async fn the_npm_package_works_where_it_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    pack(folder);
    std::fs::write(
        folder.join("package.json"),
        r#"{ "private": true, "type": "module" }"#,
    )
    .unwrap();
    let file = packed(folder, ".tgz");
    let install = [
        "install",
        "--offline",
        "--no-audit",
        "--no-fund",
        file.to_str().unwrap(),
    ];
    succeeded(run(root().join("script/npm"), &install, folder));
    check_licences(&folder.join("node_modules/railbird"));

    let node = tool("RAILBIRD_NODE", "node", ["--eval", "WebSocket"]);
    let compiler = root().join("examples/node_modules/typescript/bin/tsc");
    let wrong = [
        "new LiveOdds('wss://example.org', { races: ['3'] });",
        "const phase: 'open' = odds.state.phase;",
    ];
    check_types(TYPESCRIPT, wrong, |program| {
        std::fs::write(folder.join("program.ts"), program).unwrap();
        let options = [
            "--strict",
            "--noEmit",
            "--module",
            "nodenext",
            "--target",
            "es2022",
            "--lib",
            "es2022,dom",
        ];
        let args = [&[compiler.to_str().unwrap()], &options[..], &["program.ts"]].concat();
        run(&node, &args, folder)
    });

    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let program = format!(
        r#"import {{ LiveOdds }} from "railbird";
        const odds = new LiveOdds("ws://{}/ws/live/odds", {{ apiKey: "{}" }});
        odds.addEventListener("message", ({{ detail }}) => (console.log(detail.event), odds.close()));
        odds.connect();"#,
        railbird.http, railbird.key
    );
    let printed =
        run_beside_the_service(node, ["--input-type=module", "--eval"], program, folder).await;
    assert_eq!(printed.trim(), "welcome");
    check_readme("js", "readme.mjs", folder).await;
}

#[tokio::test]
async fn the_python_package_works_where_it_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    pack(folder);
    let python = python();
    for ending in [".tar.gz", ".whl"] {
        let file = packed(folder, ending);
        let install = [
            "-m",
            "pip",
            "install",
            "--no-index",
            "--no-deps",
            "--no-build-isolation",
            "--upgrade",
            "--target",
            "installed",
        ];
        succeeded(run(
            &python,
            &[&install[..], &[file.to_str().unwrap()]].concat(),
            folder,
        ));
        assert!(
            folder.join("installed/railbird/py.typed").is_file(),
            "{ending}"
        );
        let version = env!("CARGO_PKG_VERSION");
        let info = folder.join(format!("installed/railbird-{version}.dist-info"));
        check_licences(&info.join("licenses"));
    }
    let wrong = [
        "LiveOdds('wss://example.org', races=['3'])",
        "print(State().gap)",
    ];
    check_types(PYTHON, wrong, |program| {
        std::fs::write(folder.join("program.py"), program).unwrap();
        run(&python, &["-m", "mypy", "--strict", "program.py"], folder)
    });

    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let program = format!(
        r#"
import asyncio
from railbird import LiveOdds
async def main():
    async with LiveOdds("ws://{}/ws/live/odds", api_key="{}") as odds:
        print((await anext(odds))["event"])
asyncio.run(main())"#,
        railbird.http, railbird.key
    );
    let printed = run_beside_the_service(python, ["-W", "error", "-c"], program, folder).await;
    assert_eq!(printed.trim(), "welcome");
    check_readme("python", "readme.py", folder).await;
}

/// Runs the program in the README of a client where it is installed, until it has printed a price.
async fn check_readme(client: &str, file: &str, folder: &Path) {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let readme = root().join("clients").join(client).join("README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let program = readme.split("```").nth(1).unwrap();
    let (_, program) = program.split_once('\n').unwrap();
    let program = program
        .replace("127.0.0.1:8080", &railbird.http.to_string())
        .replace("rb_...", &railbird.key);
    let file = folder.join(file);
    std::fs::write(&file, program).unwrap();
    let installed = folder.join("installed");
    let variables = [("PYTHONPATH", installed.to_str().unwrap())];
    let mut program = Example::run(file.to_str().unwrap(), &[], &variables);
    program.until("live", |line| line.trim() == "live").await;
    nats.publish([odds("ST", 3, &second(0), &[2.5, 1.4])]).await;
    let is_price = |line: &str| line.starts_with("3 ") && line.ends_with(" 2.5");
    program.until("a price", is_price).await;
}

/// Runs a program while the service in this process answers it.
async fn run_beside_the_service<const N: usize>(
    tool: String,
    args: [&'static str; N],
    program: String,
    folder: &Path,
) -> String {
    let folder = folder.to_owned();
    let ran = tokio::task::spawn_blocking(move || {
        let args = [&args[..], &[program.as_str()]].concat();
        run(tool, &args, &folder)
    });
    succeeded(ran.await.unwrap())
}

#[test]
fn a_client_is_one_module_of_at_most_300_lines() {
    for path in [
        "clients/js/railbird.js",
        "clients/python/src/railbird/__init__.py",
    ] {
        let lines = std::fs::read_to_string(root().join(path))
            .unwrap()
            .lines()
            .count();
        assert!(lines <= 300, "{path} has {lines} lines");
    }
}
