//! `ops/kubernetes`: valid for the API of Kubernetes, whole, and with the least rights. No test needs a cluster.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::*;

/// Fails without the packages. What kubernetes-validate needs to run is not there: only its schemas are used.
const FIND: &str =
    "import importlib.util, yaml; importlib.util.find_spec('kubernetes_validate').origin";
/// Prints the documents of files as JSON, and the strict schemas of Kubernetes, which refuse fields that do not exist.
const READ: &str = "
import importlib.util, json, pathlib, sys, yaml
package = pathlib.Path(importlib.util.find_spec('kubernetes_validate').origin).parent
schemas = package / 'kubernetes-json-schema' / 'v1.37.0-local-strict' / '_definitions.json'
documents = [document for file in sys.argv[1:] for document in yaml.safe_load_all(open(file))]
json.dump({'documents': documents, 'schemas': json.load(open(schemas))}, sys.stdout)
";
/// Resources that the kustomization has in comments, for those who want them.
const OPTIONAL: [&str; 2] = ["feeders.yaml", "monitoring.yaml"];
/// The seconds that a replica takes to stop, after its drain delay.
const STOP_SECONDS: u64 = 18;

struct Manifests {
    kustomization: Value,
    documents: Vec<Value>,
    schemas: Value,
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/ops/kubernetes"))
}

fn read() -> Manifests {
    let python = tool("RAILBIRD_DOCUMENTS_PYTHON", "python3", ["-c", FIND]);
    let run = |files: &[String]| -> Value {
        let files = files.iter().map(|file| folder().join(file));
        let mut command = Command::new(&python);
        let output = command.args(["-c", READ]).args(files).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let kustomization = run(&["kustomization.yaml".to_owned()])["documents"][0].take();
    let mut read = run(&resources(&kustomization));
    let Value::Array(documents) = read["documents"].take() else {
        panic!("no documents");
    };
    let schemas = read["schemas"].take();
    Manifests {
        kustomization,
        documents,
        schemas,
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn strings(value: &Value) -> Vec<String> {
    let texts = items(value)
        .iter()
        .map(|text| text.as_str().unwrap().to_owned());
    texts.collect()
}

/// The files of the kustomization, with those in comments.
fn resources(kustomization: &Value) -> Vec<String> {
    let optional = OPTIONAL.map(str::to_owned);
    [strings(&kustomization["resources"]), optional.to_vec()].concat()
}

fn names(values: &Value) -> BTreeSet<&str> {
    items(values)
        .iter()
        .map(|value| value["name"].as_str().unwrap())
        .collect()
}

impl Manifests {
    fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.documents
            .iter()
            .filter(|document| document["kind"] == kind)
            .collect()
    }

    fn stateful_set(&self, name: &str) -> &Value {
        let mut sets = self.of_kind("StatefulSet").into_iter();
        sets.find(|set| set["metadata"]["name"] == name).unwrap()
    }

    /// The pods of a stateful set, or of the job for backups.
    fn template(&self, name: &str) -> &Value {
        match self.of_kind("CronJob").as_slice() {
            [job] if job["metadata"]["name"] == name => {
                &job["spec"]["jobTemplate"]["spec"]["template"]
            }
            _ => &self.stateful_set(name)["spec"]["template"],
        }
    }

    /// The only container of a pod.
    fn container(&self, name: &str) -> &Value {
        let containers = &self.template(name)["spec"]["containers"];
        assert_eq!(items(containers).len(), 1);
        &containers[0]
    }

    /// Why a document is not valid.
    fn errors(&self, document: &Value) -> Vec<String> {
        let (group, version) = match document["apiVersion"].as_str().unwrap().split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", document["apiVersion"].as_str().unwrap()),
        };
        let kind = json!([{ "group": group, "kind": document["kind"], "version": version }]);
        let definitions = self.schemas["$defs"].as_object().unwrap();
        let mut of_kind = definitions.iter();
        let found = of_kind.find(|(_, schema)| schema["x-kubernetes-group-version-kind"] == kind);
        let Some((name, _)) = found else {
            return vec![format!("there is no {kind}")];
        };
        let schema = json!({ "$defs": definitions, "$ref": format!("#/$defs/{name}") });
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors = validator.iter_errors(document);
        errors
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect()
    }
}

#[test]
fn kubernetes_accepts_the_manifests() {
    let manifests = read();
    assert!(manifests.documents.len() > 10);
    for document in &manifests.documents {
        // The Prometheus Operator defines it.
        if document["kind"] == "PodMonitor" {
            continue;
        }
        let errors = manifests.errors(document);
        assert!(
            errors.is_empty(),
            "{}: {errors:#?}",
            document["metadata"]["name"]
        );
    }
    // What is no field, or has another type, is found.
    for (pointer, key, value) in [
        ("/spec", "replica", json!(3)),
        ("/spec", "replicas", json!("three")),
        (
            "/spec/template/spec/containers/0/readinessProbe",
            "period",
            json!(1),
        ),
    ] {
        let mut wrong = manifests.stateful_set("nats").clone();
        wrong.pointer_mut(pointer).unwrap()[key] = value;
        assert!(!manifests.errors(&wrong).is_empty(), "{pointer}/{key}");
    }
}

#[test]
fn the_kustomization_names_each_file_and_ships_the_configurations_of_the_repository() {
    let manifests = read();
    let mut files: Vec<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "kustomization.yaml")
        .collect();
    let mut resources = resources(&manifests.kustomization);
    let text = fs::read_to_string(folder().join("kustomization.yaml")).unwrap();
    for optional in OPTIONAL {
        assert!(
            text.contains(&format!("\n  # - {optional}\n")),
            "{optional}"
        );
    }
    files.sort_unstable();
    resources.sort_unstable();
    assert_eq!(files, resources);
    let generated = &manifests.kustomization["configMapGenerator"];
    assert_eq!(
        names(generated),
        BTreeSet::from(["feeders", "nats", "plans"])
    );
    for file in items(generated)
        .iter()
        .flat_map(|map| strings(&map["files"]))
    {
        assert!(folder().join(&file).is_file(), "{file}");
    }
    // nats-server finds the files that its configuration includes.
    let config = &manifests.template("nats")["spec"]["volumes"][0]["projected"]["sources"];
    let sources = items(config)
        .iter()
        .map(|source| source["configMap"]["name"].as_str().unwrap());
    let sources: BTreeSet<&str> = sources.collect();
    let mounted = items(generated).iter();
    let mounted = mounted.filter(|map| sources.contains(map["name"].as_str().unwrap()));
    let shipped: Vec<String> = mounted.flat_map(|map| strings(&map["files"])).collect();
    for line in ["../nats-cluster-tls.conf", "../../nats.conf"] {
        let text = fs::read_to_string(folder().join(line)).unwrap();
        let includes = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("include "));
        for include in includes {
            let file = include.trim_matches('"').trim_start_matches("../");
            let file = format!("../../{file}");
            assert!(shipped.contains(&file), "{file}");
        }
    }
}

#[test]
fn pods_have_the_least_rights() {
    let manifests = read();
    let namespace = &manifests.of_kind("Namespace")[0]["metadata"]["labels"];
    assert_eq!(
        namespace["pod-security.kubernetes.io/enforce"],
        "restricted"
    );
    for name in ["nats", "railbird", "backup"] {
        let pod = &manifests.template(name)["spec"];
        assert_eq!(pod["automountServiceAccountToken"], false, "{name}");
        let security = &pod["securityContext"];
        assert_eq!(security["runAsNonRoot"], true, "{name}");
        assert!(security["runAsUser"].as_u64().unwrap() > 10_000, "{name}");
        assert_eq!(
            security["seccompProfile"]["type"], "RuntimeDefault",
            "{name}"
        );
        let container = manifests.container(name);
        let rights = json!({
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        });
        assert_eq!(container["securityContext"], rights, "{name}");
        let resources = &container["resources"];
        assert!(resources["requests"]["cpu"].is_string(), "{name}");
        assert!(resources["limits"]["memory"].is_string(), "{name}");
    }
    let policies = manifests.of_kind("NetworkPolicy");
    let closed = policies
        .iter()
        .find(|policy| policy["metadata"]["name"] == "nothing-else");
    let all = json!({ "podSelector": {}, "policyTypes": ["Ingress", "Egress"] });
    assert_eq!(closed.unwrap()["spec"], all);
    // From outside, only networks that are named reach NATS.
    let outside: Vec<_> = manifests
        .of_kind("Service")
        .into_iter()
        .filter(|service| service["spec"]["type"] == "LoadBalancer")
        .collect();
    assert_eq!(outside.len(), 1);
    let networks = &outside[0]["spec"]["loadBalancerSourceRanges"];
    let policy = policies
        .iter()
        .find(|policy| policy["metadata"]["name"] == outside[0]["metadata"]["name"]);
    let from = &policy.unwrap()["spec"]["ingress"][0]["from"];
    let from: Vec<_> = items(from)
        .iter()
        .map(|from| from["ipBlock"]["cidr"].clone())
        .collect();
    assert_eq!(json!(from), *networks);
    // Routes are for servers alone.
    for policy in policies {
        for rule in items(&policy["spec"]["ingress"]) {
            if rule["ports"].to_string().contains("6222") {
                assert_eq!(
                    rule["from"],
                    json!([{ "podSelector": { "matchLabels": { "app": "nats" } } }])
                );
            }
        }
    }
}

#[test]
fn each_name_in_the_manifests_is_one_of_the_manifests() {
    let manifests = read();
    for name in ["nats", "railbird"] {
        let set = &manifests.stateful_set(name)["spec"];
        let labels = &set["template"]["metadata"]["labels"];
        let services = manifests.of_kind("Service").into_iter();
        let headless: Vec<_> = services
            .filter(|service| service["spec"]["clusterIP"] == "None")
            .collect();
        let mut headless = headless.iter().map(|service| &service["metadata"]["name"]);
        assert!(
            headless.any(|headless| *headless == set["serviceName"]),
            "{name}"
        );
        assert_eq!(set["replicas"], 3);
        assert_eq!(set["selector"]["matchLabels"]["app"], labels["app"]);
        for budget in manifests.of_kind("PodDisruptionBudget") {
            assert_eq!(budget["spec"]["maxUnavailable"], 1);
            assert_eq!(
                budget["spec"]["selector"]["matchLabels"]["app"],
                budget["metadata"]["name"]
            );
        }
        for spread in items(&set["template"]["spec"]["topologySpreadConstraints"]) {
            assert_eq!(spread["labelSelector"]["matchLabels"]["app"], labels["app"]);
        }
        let container = manifests.container(name);
        let mounted = names(&container["volumeMounts"]);
        let mut volumes = names(&set["template"]["spec"]["volumes"]);
        let claims = items(&set["volumeClaimTemplates"]).iter();
        volumes.extend(claims.map(|claim| claim["metadata"]["name"].as_str().unwrap()));
        assert_eq!(mounted, volumes, "{name}");
        let ports = names(&container["ports"]);
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            let port = container[probe]["httpGet"]["port"].as_str().unwrap();
            assert!(ports.contains(port), "{name}: {probe}");
        }
    }
    let paths = ["startupProbe", "readinessProbe", "livenessProbe"];
    let of =
        |name: &str| paths.map(|probe| manifests.container(name)[probe]["httpGet"]["path"].clone());
    let nats = [
        "/healthz",
        "/healthz?js-server-only=true",
        "/healthz?js-enabled-only=true",
    ];
    assert_eq!(of("nats"), nats);
    assert_eq!(of("railbird"), ["/healthz", "/readyz", "/healthz"]);
}

#[test]
fn a_new_feeder_restarts_no_server() {
    let manifests = read();
    let generated = items(&manifests.kustomization["configMapGenerator"]);
    let feeders = generated
        .iter()
        .find(|map| map["name"] == "feeders")
        .unwrap();
    assert_eq!(strings(&feeders["files"]), ["../../feeders.conf"]);
    assert_eq!(feeders["options"]["disableNameSuffixHash"], true);
    // A file that is mounted by itself never changes.
    for mount in items(&manifests.container("nats")["volumeMounts"]) {
        assert!(mount.get("subPath").is_none(), "{mount}");
    }
}

#[tokio::test]
async fn backups_are_made_as_those_of_the_unit_and_metrics_are_scraped() {
    let manifests = read();
    let container = manifests.container("backup");
    let unit = fs::read_to_string(folder().join("../railbird-backup.service")).unwrap();
    let args = strings(&container["args"]);
    assert_eq!(args, ["log", "backup", "/backups", "--rotate"]);
    assert!(unit.contains("railbird log backup /var/backups/railbird --rotate"));
    let template = manifests.template("backup");
    assert_eq!(template["metadata"]["labels"]["nats-client"], "true");
    let volumes = names(&template["spec"]["volumes"]);
    assert_eq!(names(&container["volumeMounts"]), volumes);
    let claim = &template["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"];
    let claims = manifests.of_kind("PersistentVolumeClaim");
    assert_eq!(*claim, claims[0]["metadata"]["name"]);
    let railbird_pod = manifests.container("railbird");
    let servers = |container| {
        variable(container, "RAILBIRD_NATS")
            .split_once('@')
            .unwrap()
            .1
    };
    assert_eq!(servers(container), servers(railbird_pod));
    assert_eq!(container["image"], railbird_pod["image"]);
    let help = railbird(["log", "backup", "--help"]).await.all;
    for name in names(&container["env"]) {
        let is_known = name == "RAILBIRD_NATS_ADMIN_PASSWORD" || help.contains(name);
        assert!(is_known, "{name}");
    }

    let monitors = manifests.of_kind("PodMonitor");
    let monitor = &monitors[0]["spec"];
    let pod = &manifests.template("railbird")["metadata"]["labels"];
    assert_eq!(monitor["selector"]["matchLabels"]["app"], pod["app"]);
    let port = monitor["podMetricsEndpoints"][0]["port"].as_str().unwrap();
    assert!(names(&railbird_pod["ports"]).contains(port), "{port}");
}

/// The value of a variable of a container.
fn variable<'a>(container: &'a Value, name: &str) -> &'a str {
    let mut variables = items(&container["env"]).iter();
    let variable = variables.find(|variable| variable["name"] == name);
    variable.unwrap()["value"].as_str().unwrap()
}

#[tokio::test]
async fn the_programs_know_their_settings() {
    let manifests = read();
    let (nats, railbird_pod) = (manifests.container("nats"), manifests.container("railbird"));
    // Each variable of the configuration is set.
    let conf = fs::read_to_string(folder().join("../nats-cluster-tls.conf")).unwrap();
    let settings = conf.lines().filter(|line| !line.trim().starts_with('#'));
    let settings: BTreeSet<&str> = settings
        .filter_map(|line| line.split_once('$'))
        .map(|(_, name)| name)
        .collect();
    assert!(settings.len() > 4);
    let set = names(&nats["env"]);
    assert!(settings.is_subset(&set), "{settings:?} {set:?}");
    let help = railbird(["serve", "--help"]).await.all;
    for name in names(&railbird_pod["env"]) {
        let is_known = name == "RAILBIRD_NATS_PASSWORD" || help.contains(name);
        assert!(is_known, "{name}");
    }
    for n in 0..3 {
        assert!(variable(nats, "RAILBIRD_NATS_ROUTES").contains(&format!("//nats-{n}.nats:6222")));
        assert!(variable(railbird_pod, "RAILBIRD_NATS").contains(&format!("nats-{n}.nats")));
    }
    let delay = variable(railbird_pod, "RAILBIRD_DRAIN_DELAY")
        .strip_suffix('s')
        .unwrap();
    let stopped = delay.parse::<u64>().unwrap() + STOP_SECONDS;
    let pod = &manifests.stateful_set("railbird")["spec"]["template"]["spec"];
    let granted = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(granted > stopped, "{granted} {stopped}");
}
