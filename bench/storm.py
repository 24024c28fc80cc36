"""All clients reconnect at once: handshakes a second of one replica, a real storm through HAProxy beside the simulated one, and
simulated storms of a million clients."""

import contextlib
import shutil
import socket
import subprocess
import time

from common import CORES, POLL, ROOT, BenchError, Figures, free_port, issue_key, log, nats_server, programs, run_json, start_nats
from common import script, start_railbird, stop, version
from fanout import allow_files

FULL = {"clients": 1_000_000, "replicas": 64, "real_clients": 2_000, "seconds": 5}
SMALL = {"clients": 50_000, "replicas": 4, "real_clients": 200, "seconds": 1}

# Most races of the day are open: the snapshots are a part of each handshake.
EVENTS = 5_000
# How long nothing listens while a balancer restarts.
DOWN_MS = 1_000
# Sockets of each real client: its own, and two of HAProxy and one of the replica.
FILES_PER_CLIENT = 4

# The packages in clients/, and the same without jitter, and without back-off either.
STORMS = {"jitter": ["--waiting", "random"], "no_jitter": ["--waiting", "bound"], "no_back_off": ["--waiting", "second"]}
# From `retry_after_ms` (src/live/close_reason.rs): a ms for each client of a replica that stops, within bounds.
SPREAD_FROM_MS, SPREAD_MS_MIN, SPREAD_MS_MAX = 500, 5_000, 60_000


def certificate(bench):
    """A certificate for localhost. Returns the paths of the certificate and its key."""
    cert, key = bench.folder / "cert.pem", bench.folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return cert, key


def haproxy_config(bench, cert, key, port, replica):
    """The shipped configuration in front of one replica."""
    both = bench.folder / "both.pem"
    both.write_text(cert.read_text() + key.read_text())
    text = (ROOT / "ops/haproxy.cfg").read_text()
    for old, new in {
        "    user haproxy\n    group haproxy\n    chroot /var/lib/haproxy\n": "",
        "maxconn 40000": "maxconn 8000",
        "bind :80\n": f"bind 127.0.0.1:{free_port()}\n",
        "bind :443 ": f"bind 127.0.0.1:{port} ",
        "/etc/haproxy/certs/racing.example.pem": str(both),
        "127.0.0.1:8081": f"127.0.0.1:{replica}",
        "127.0.0.1:8082": f"127.0.0.1:{replica}",
    }.items():
        if old not in text:
            raise BenchError(f"ops/haproxy.cfg has no {old!r}")
        text = text.replace(old, new)
    config = bench.folder / "haproxy.cfg"
    config.write_text(text)
    return config


class Storms:
    def __init__(self, bench, size, folder):
        self.bench, self.size = bench, size
        self.haproxy = script("program", "haproxy")
        self.railbird, self.load = programs(folder)
        self.cert, self.key_file = certificate(bench)
        self.nats = nats_server()
        _, addresses = start_nats(bench, self.nats)
        self.url = addresses["nats"]
        run_json([self.load, "--nats", self.url, "season", "--events", EVENTS])
        self.path = f"/ws/live/odds?api_key={issue_key(self.railbird, self.url)}"

    def serve(self, *options):
        limit = ["--connections-max", 8_000, "--connections-per-network", 8_000, "--trusted-proxies", "127.0.0.1"]
        data = self.bench.folder / "data"
        process, port, _, _ = start_railbird(self.bench, self.railbird, self.url, data, [*limit, *options])
        return process, port

    def target(self, port, encrypted):
        return ["--address", f"127.0.0.1:{port}", "--path", self.path, *(["--cert", self.cert] if encrypted else [])]

    def handshakes(self, process, port, encrypted):
        target = self.target(port, encrypted)
        return run_json([self.load, "storm", "handshakes", *target, "--pid", process.pid, "--seconds", self.size["seconds"]])

    def until_listens(self, process, port):
        while True:
            self.bench.check(process)
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                return
            time.sleep(POLL)

    def simulate(self, clients, servers, handshakes, down_ms, options):
        command = [self.load, "storm", "simulate", "--clients", clients, "--servers", servers, "--down-ms", down_ms]
        return run_json([*command, "--handshakes-per-second", handshakes, *options])

    def real(self, port):
        """Returns the handshakes a second through HAProxy, what a storm was measured to be, and what is simulated for it."""
        balancer = free_port()
        config = haproxy_config(self.bench, self.cert, self.key_file, balancer, port)
        haproxy = self.bench.start("haproxy", [self.haproxy, "-f", config])
        self.until_listens(haproxy, balancer)
        closed_loop = self.handshakes(haproxy, balancer, True)
        stop(haproxy)
        clients = self.size["real_clients"]
        command = [self.load, "storm", "real", *self.target(balancer, True), "--clients", clients, "--down-ms", DOWN_MS]
        measured = run_json([*command, "--haproxy", self.haproxy, "--config", config])
        return closed_loop, measured, self.simulate(clients, 1, closed_loop["per_second"], DOWN_MS, STORMS["jitter"])


def measure(bench, size, runs, folder):
    allow_files(FILES_PER_CLIENT * size["real_clients"])
    storms, figures = Storms(bench, size, folder), Figures()
    for run in range(runs):
        process, port = storms.serve()
        plain = storms.handshakes(process, port, False)
        closed_loop, measured, simulated = storms.real(port)
        stop(process)
        encrypted, port = storms.serve("--tls-cert", storms.cert, "--tls-key", storms.key_file)
        with_tls = storms.handshakes(encrypted, port, True)
        stop(encrypted)
        shutil.rmtree(bench.folder / "data")
        for name, found in {"plain": plain, "tls": with_tls, "haproxy": closed_loop}.items():
            figures.add(f"{name}_handshakes_per_s", found["per_second"])
            figures.add(f"{name}_cpu_ms_per_handshake", found["cpu_ms"])
        for figure in ("back_50_s", "back_99_s", "back_all_s", "attempts", "failed"):
            figures.add(f"real_measured_{figure}", measured[figure])
            figures.add(f"real_simulated_{figure}", simulated[figure])
        log(f"run {run + 1}: measured {measured}, simulated {simulated}")
    for figure in ("back_50_s", "back_99_s", "back_all_s"):
        figures.ratio(f"measured_over_simulated_{figure}", f"real_measured_{figure}", f"real_simulated_{figure}")
    # The load generator shares this machine: a replica that has it for itself is limited by its own CPU time.
    for name in ("plain", "tls"):
        figures.facts[f"{name}_handshakes_per_s_of_own_cpu"] = round(CORES * 1_000 / figures.of(f"{name}_cpu_ms_per_handshake"))
    spread = min(max(SPREAD_FROM_MS + size["clients"] // size["replicas"], SPREAD_MS_MIN), SPREAD_MS_MAX)
    closing = {"closing": ["--waiting", "closing", "--spread-ms", SPREAD_FROM_MS, spread]}
    for storm, options in (STORMS | closing).items():
        handshakes = figures.facts["tls_handshakes_per_s_of_own_cpu"]
        found = storms.simulate(size["clients"], size["replicas"], handshakes, DOWN_MS, options)
        log(f"{storm}: {found}")
        for figure, value in found.items():
            figures.facts[f"{storm}_{figure}"] = "never" if value is None else round(value, 3)
    figures.facts |= {"clients": size["clients"], "replicas": size["replicas"], "haproxy": version([storms.haproxy, "-v"])}
    return figures
