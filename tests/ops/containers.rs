//! docker-compose.yml, the Dockerfile and what they read. Nothing is built: no test needs Docker.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use railbird::projector::snapshots::SnapshotSecret;
use serde_json::Value;

use crate::support::*;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// One machine, and a cluster on one machine.
const COMPOSED: [&str; 2] = ["docker-compose.yml", "ops/docker-compose.cluster.yml"];

fn compose(file: &str) -> Value {
    let python = tool(
        "RAILBIRD_DOCUMENTS_PYTHON",
        "python3",
        ["-c", "import yaml"],
    );
    let print = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)";
    let file = fs::File::open(root().join(file)).unwrap();
    let output = Command::new(python)
        .args(["-c", print])
        .stdin(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The services of a file, each with its name.
fn services(file: &str) -> Vec<(String, Value)> {
    let Value::Object(services) = compose(file)["services"].take() else {
        panic!("{file} has no services");
    };
    services.into_iter().collect()
}

/// Those with a name, or with a number after it.
fn services_named(file: &str, name: &str) -> Vec<Value> {
    let is_named = |of: &str| of.trim_end_matches(|c: char| c.is_numeric() || c == '-') == name;
    let services = services(file).into_iter();
    let named = services.filter(|(of, _)| is_named(of));
    named.map(|(_, service)| service).collect()
}

#[test]
fn containers_have_the_least_rights() {
    for file in COMPOSED {
        let services = services(file);
        assert!(services.len() >= 4);
        for (name, service) in services {
            assert_least_rights(&format!("{file}: {name}"), &service);
        }
        let logs = services_named(file, "nats");
        for nats in &logs {
            let user = &nats["user"];
            assert_ne!(user, "0:0");
            let owner = ["log-folder", "log-folders"].map(|name| services_named(file, name));
            let gives = owner.concat()[0]["entrypoint"].clone();
            let gives = gives.as_array().unwrap();
            assert!(gives.contains(user), "its volume is its own: {gives:?}");
        }
        // Only Caddy may name the address of a client.
        let caddy = services_named(file, "caddy");
        let address = caddy[0]["networks"]["web"]["ipv4_address"]
            .as_str()
            .unwrap();
        for replica in services_named(file, "railbird") {
            let trusted = replica["environment"]["RAILBIRD_TRUSTED_PROXIES"].as_str();
            let is_caddy = trusted.unwrap().ends_with(&format!(":-{address}}}"));
            assert!(is_caddy, "{trusted:?}");
        }
        assert_the_log_is_private(file);
    }
}

fn assert_least_rights(name: &str, service: &Value) {
    assert_eq!(service["read_only"], true, "{name}");
    assert_eq!(service["cap_drop"], serde_json::json!(["ALL"]), "{name}");
    let options = service["security_opt"].to_string();
    assert!(options.contains("no-new-privileges:true"), "{name}");
    let log = &service["logging"]["options"];
    assert!(log["max-size"].is_string(), "{name}: its log grows");
    let image = service["image"].as_str();
    // Ours, or one that can be pinned.
    let is_pinned = image.is_none_or(|image| image == "railbird" || image.starts_with("${"));
    assert!(is_pinned, "{name}: {image:?}");
    for volume in service["volumes"].as_array().into_iter().flatten() {
        let (source, target) = volume.as_str().unwrap().split_once(':').unwrap();
        if source.starts_with("./") {
            assert!(root().join(source).is_file(), "{name}: {source}");
            let is_written = name.ends_with(": feeders");
            assert_ne!(target.ends_with(":ro"), is_written, "{name}: {target}");
        }
    }
}

/// Only railbird shares the plain network of nats-server, and all of it that connects.
fn assert_the_log_is_private(file: &str) {
    for (name, service) in services(file) {
        let is_in_log = service["networks"].to_string().contains("\"log\"");
        let connects = service["environment"]["RAILBIRD_NATS"].is_string();
        let is_nats = name.starts_with("nats");
        assert_eq!(is_in_log, connects || is_nats, "{file}: {name}");
    }
}

#[test]
fn the_servers_of_a_composed_cluster_differ_in_name_and_volume_alone() {
    let file = COMPOSED[1];
    let document = compose(file);
    for name in ["nats", "railbird"] {
        let services = services_named(file, name);
        assert_eq!(services.len(), 3, "{name}");
        let mut seen = std::collections::BTreeSet::new();
        for (n, service) in (1..).zip(&services) {
            let volumes: Vec<_> = service["volumes"].as_array().unwrap().iter().collect();
            let own = volumes.last().unwrap().as_str().unwrap();
            let (volume, _) = own.split_once(":/data").unwrap();
            assert!(document["volumes"].get(volume).is_some(), "{volume}");
            assert!(
                seen.insert(volume.to_owned()),
                "{volume} is of another one, too"
            );
            assert!(volume.ends_with(&n.to_string()), "{volume}");
            assert_eq!(service["environment"], services[0]["environment"]);
            if name == "nats" {
                let command = service["command"].to_string();
                assert!(
                    command.contains(&format!("\"--name\",\"nats-{n}\"")),
                    "{command}"
                );
                let routes = &service["environment"]["RAILBIRD_NATS_ROUTES"];
                assert!(
                    routes
                        .as_str()
                        .unwrap()
                        .contains(&format!("//nats-{n}:6222"))
                );
            }
        }
    }
    // Every variable of the configuration is set.
    let conf =
        ["nats.conf", "ops/nats-cluster.conf"].map(|conf| fs::read_to_string(root().join(conf)));
    let conf = conf.map(Result::unwrap).concat();
    let code = conf.lines().filter(|line| !line.trim().starts_with('#'));
    let named = code.filter_map(|line| line.split_once("$RAILBIRD_"));
    let environment = services_named(file, "nats")[0]["environment"].clone();
    let named: Vec<_> = named
        .map(|(_, name)| format!("RAILBIRD_{}", name.trim()))
        .collect();
    assert!(named.len() > 5, "{named:?}");
    for name in named {
        assert!(environment[&name].is_string(), "{name}");
    }
}

#[test]
fn caddy_of_the_composed_cluster_has_the_shipped_configuration() {
    let read = |name: &str| fs::read_to_string(root().join("ops").join(name)).unwrap();
    let settings = |text: &str| text.split_once("\n{\n").unwrap().1.to_owned();
    let three = "railbird-1:8080 railbird-2:8080 railbird-3:8080";
    let expected = settings(&read("Caddyfile"))
        .replace("racing.example", "{$RAILBIRD_DOMAIN}")
        .replace("127.0.0.1:8081 127.0.0.1:8082", three);
    assert_eq!(settings(&read("cluster.Caddyfile")), expected);
}

/// The settings that are those of the container: its addresses and folders, NATS, and TLS, which Caddy has.
const OF_THE_CONTAINER: [&str; 8] = [
    "RAILBIRD_ADMIN",
    "RAILBIRD_DATA",
    "RAILBIRD_HTTP",
    "RAILBIRD_NATS_CA",
    "RAILBIRD_NATS_CREDS",
    "RAILBIRD_PRODUCTION",
    "RAILBIRD_TLS_CERT",
    "RAILBIRD_TLS_KEY",
];

#[tokio::test]
async fn each_setting_of_the_service_can_be_set_in_compose() {
    let help = railbird(["serve", "--help"]).await.all;
    let help: Vec<&str> = help.split_whitespace().collect();
    let is_name = |c: char| c.is_ascii_uppercase() || c == '_';
    let settings = help.windows(2).filter(|words| words[0] == "[env:");
    let settings = settings.map(|words| words[1].split(|c| !is_name(c)).next().unwrap());
    let mut settings: Vec<&str> = settings
        .filter(|name| !OF_THE_CONTAINER.contains(name))
        .collect();
    settings.sort_unstable();
    for file in COMPOSED {
        for replica in services_named(file, "railbird") {
            let environment = replica["environment"].as_object().unwrap();
            let mut set: Vec<&str> = environment.keys().map(String::as_str).collect();
            set.sort_unstable();
            assert_eq!(settings, set, "{file}");
        }
    }
}

#[test]
fn the_health_check_asks_whether_the_process_answers_and_not_whether_it_is_ready() {
    let dockerfile = fs::read_to_string(root().join("ops/Dockerfile")).unwrap();
    let check = dockerfile
        .lines()
        .find(|line| line.trim_start().starts_with("CMD [\"bash\""));
    let check = check.unwrap();
    assert!(check.contains("/127.0.0.1/9090 "), "{check}");
    assert!(check.contains("'GET /healthz "), "{check}");
    assert!(dockerfile.contains("RAILBIRD_ADMIN=0.0.0.0:9090"));
    for file in COMPOSED {
        let mut replicas = services_named(file, "railbird").into_iter();
        assert!(
            replicas.all(|replica| replica["healthcheck"].is_null()),
            "{file}"
        );
    }
}

/// The health check of the image as a shell runs it, on another port.
#[tokio::test]
async fn the_health_check_needs_no_token() {
    let nats = Nats::start();
    let railbird = Railbird::start_with(&nats, |config| {
        config.admin_access =
            railbird::http::AdminAccess::new(Vec::new(), Some("0123456789abcdef"));
    })
    .await;
    let dockerfile = fs::read_to_string(root().join("ops/Dockerfile")).unwrap();
    let check = dockerfile.lines().find_map(|line| {
        let json = line.trim_start().strip_prefix("CMD ")?;
        let words: Vec<String> = serde_json::from_str(json).ok()?;
        words
            .first()
            .is_some_and(|word| word == "bash")
            .then_some(words)
    });
    let check = check.unwrap();
    let run = async |port: u16| {
        let script = check[2].replace("9090", &port.to_string());
        let mut check = tokio::process::Command::new("bash");
        let check = check.args(["-c", &script]).output().await;
        check.unwrap().status.success()
    };
    assert!(run(railbird.admin.port()).await);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    assert!(!run(port).await);
}

#[test]
fn the_passwords_of_compose_are_private_and_never_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let compose = fs::read_to_string(root().join("docker-compose.yml")).unwrap();
    let comment = compose.lines().map_while(|line| line.strip_prefix('#'));
    let lines: Vec<&str> = comment.map(str::trim).collect();
    let begin = lines
        .iter()
        .position(|line| line.starts_with("(umask"))
        .unwrap();
    let command = lines[begin..begin + 3].join("\n");
    assert!(command.ends_with(".env)"), "{command}");
    let documented = fs::read_to_string(root().join("docs/operating.md")).unwrap();
    let documented: Vec<&str> = documented.split_whitespace().collect();
    let words: Vec<&str> = command.split_whitespace().collect();
    assert!(
        documented
            .windows(words.len())
            .any(|window| window == words)
    );
    let folder = tempfile::tempdir().unwrap();
    let run = || {
        let run = Command::new("sh")
            .args(["-c", &command])
            .current_dir(&folder)
            .output();
        run.unwrap().status.success()
    };
    assert!(run());
    let file = folder.path().join(".env");
    let passwords = fs::read_to_string(&file).unwrap();
    assert_eq!(passwords.lines().count(), 5, "{passwords}");
    let secret = passwords
        .lines()
        .find_map(|line| line.strip_prefix("RAILBIRD_SNAPSHOT_SECRET="));
    assert!(
        SnapshotSecret::new(secret.unwrap()).is_some(),
        "{passwords}"
    );
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!run(), "a second run is refused");
    assert_eq!(fs::read_to_string(&file).unwrap(), passwords);
}

/// The files that the build reads and that are no sources: of `include_...!`, of the docs, and of build.rs.
fn files_of_the_build() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = ["build.rs", "Cargo.lock", "schemas", "web", "ops/plans.toml"]
        .map(PathBuf::from)
        .to_vec();
    let texts = |text: &str| -> Vec<String> {
        text.split('"')
            .skip(1)
            .step_by(2)
            .map(ToOwned::to_owned)
            .collect()
    };
    let build = fs::read_to_string(root().join("build.rs")).unwrap();
    let constants = build.lines().filter(|line| line.starts_with("const "));
    files.extend(
        constants
            .flat_map(texts)
            .map(PathBuf::from)
            .filter(|path| root().join(path).exists()),
    );
    let site = fs::read_to_string(root().join("src/http/pages/docs/site.rs")).unwrap();
    let shown = site
        .split("= files![")
        .nth(1)
        .unwrap()
        .split(']')
        .next()
        .unwrap();
    files.extend(texts(shown).into_iter().map(PathBuf::from));
    let mut folders = vec![root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = fs::read_to_string(&path).unwrap_or_default();
            let code = source.split("#[cfg(test)]").next().unwrap_or_default();
            for macro_name in ["include_str!(\"", "include_bytes!(\""] {
                let included = code.split(macro_name).skip(1);
                let included = included.map(|rest| rest.split('"').next().unwrap_or_default());
                files.extend(included.map(|file| {
                    let file = folder.join(file).canonicalize().unwrap();
                    file.strip_prefix(root().canonicalize().unwrap())
                        .unwrap()
                        .to_owned()
                }));
            }
        }
    }
    files
}

#[test]
fn the_image_is_built_of_all_files_that_the_build_reads() {
    let ignore = fs::read_to_string(root().join("ops/Dockerfile.dockerignore")).unwrap();
    let sent: Vec<&str> = ignore
        .lines()
        .filter_map(|line| line.strip_prefix('!'))
        .collect();
    let files = files_of_the_build();
    for file in [
        "web",
        "clients/js/railbird.js",
        "docs/board.png",
        "nats.conf",
        "schemas/openapi.json",
    ] {
        assert!(
            files.iter().any(|found| found == Path::new(file)),
            "{file}: {files:?}"
        );
    }
    let missing: Vec<_> = files
        .iter()
        .filter(|file| !sent.iter().any(|sent| file.starts_with(sent)))
        .collect();
    assert!(missing.is_empty(), "the image leaves out {missing:?}");
}
