"""Requests for one profile of 100,000 horses, for a card and for the results of a day, compared with nginx serving the
same bytes from a file, and with hyper alone; documents without a key, compared with `/healthz`."""

import os
import re
import subprocess

from common import CORES, BenchError, Figures, cpu_seconds, free_port, get, issue_key, log, nats_server
from common import programs, run_json, script, start_nats, start_railbird, version, wait_for_port

FULL = {"horses": 100_000, "seconds": 6}
SMALL = {"horses": 5_000, "seconds": 2}

CONNECTIONS = 64

# The first day of the bench's season.
DAY = "2025-09-03"
DOCUMENTS = {"docs": "/docs", "docs_page": "/docs/api", "search_index": "/docs/search.json", "openapi": "/openapi.json"}
# A second: without a key, a network has 64 MiB a minute.
DOCUMENT_RATE = 2

# The settings of Debian's package, and the fastest that were found.
NGINX = {
    "nginx": "sendfile on; tcp_nopush on;",
    "nginx_tuned": "sendfile off; open_file_cache max=1000 inactive=1h; open_file_cache_valid 1h;",
}


def nginx_config(folder, name, port):
    user = "user root;" if os.geteuid() == 0 else ""
    temps = "".join(f"  {kind}_temp_path {folder}/temp;\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    return f"""
daemon off;
{user}
worker_processes {CORES};
pid {folder}/{name}.pid;
error_log stderr;
events {{ worker_connections 1024; }}
http {{
{temps}
  access_log off;
  default_type application/json;
  {NGINX[name]}
  keepalive_requests 1000000000;
  server_tokens off;
  max_ranges 0;
  add_header Last-Modified "";
  server {{
    listen 127.0.0.1:{port};
    root {folder}/www;
  }}
}}
"""


class Page:
    """A path of the service, with its bytes."""

    def __init__(self, bench, port, key, name, path):
        self.name, self.path = name, path
        status, headers, self.body = get(port, path, {"X-API-Key": key})
        if status != 200:
            raise BenchError(f"{path} answers {status}: {self.body}")
        # Those that hyper does not write itself.
        self.headers = [f"{name}:{value}" for name, value in headers if name not in ("date", "content-length")]
        self.file = bench.folder / "www" / path.lstrip("/")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(self.body)

    def check(self, bench, process, port):
        wait_for_port(bench, process, port)
        if get(port, self.path)[2] != self.body:
            raise BenchError(f"{process.name} does not serve the same bytes")


def start_nginx(bench, nginx, name, pages):
    port = free_port()
    config = bench.folder / f"{name}.conf"
    config.write_text(nginx_config(bench.folder, name, port))
    process = bench.start(name, [nginx, "-c", config, "-p", bench.folder])
    for page in pages:
        page.check(bench, process, port)
    return process, port


def start_hyper(bench, load, page):
    port = free_port()
    command = [load, "constant", "--http", f"127.0.0.1:{port}", "--body", page.file]
    for header in page.headers:
        command += ["--header", header]
    process = bench.start(f"hyper-{page.name}", command)
    page.check(bench, process, port)
    return process, port


def profile(horses):
    """The path of one of these horses."""
    number = horses // 2
    return f"/api/v1/horses/HK_20{16 + number % 8}_{number:06}"


def wrk(program, seconds, url, key):
    command = [program, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-H", f"X-API-Key: {key}", url]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        raise BenchError(f"not every request was answered:\n{out}")
    number, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", out).groups()
    p99_ms = float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]
    return int(re.search(r"(\d+) requests in", out).group(1)), float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)), p99_ms


def measure_documents(figures, load, port, runs, seconds):
    for run in range(runs):
        for name, path in {"healthz": "/healthz", **DOCUMENTS}.items():
            command = [load, "http-load", "--http", f"127.0.0.1:{port}", "--path", path]
            measured = run_json([*command, "--rate", DOCUMENT_RATE, "--connections", 1, "--seconds", seconds])
            figures.add(f"{name}_p50_ms", measured["p50_ms"])
            log(f"run {run + 1}: {path:<20}p50 {measured['p50_ms']:.2f} ms")
    for name in DOCUMENTS:
        figures.difference(f"{name}_p50_ms_over_healthz", f"{name}_p50_ms", "healthz_p50_ms", "<= 0.2")


def measure_page(figures, wrk_program, page, servers, key, runs, seconds):
    """Each server in turn; the figures have the page's name before that of the server."""
    for _, _, port in servers:
        wrk(wrk_program, 2, f"http://127.0.0.1:{port}{page.path}", key)
    for run in range(runs):
        for name, process, port in servers:
            before = cpu_seconds(process.pid)
            requests, per_second, p99_ms = wrk(wrk_program, seconds, f"http://127.0.0.1:{port}{page.path}", key)
            cpu_us = (cpu_seconds(process.pid) - before) / requests * 1e6
            log(
                f"run {run + 1}: {page.name}, {name:<12}{per_second:>8.0f} requests/s, {cpu_us:.2f} us of CPU per request, "
                f"p99 {p99_ms:.2f} ms"
            )
            figures.add(f"{page.name}_{name}_cpu_us_per_request", cpu_us)
            figures.add(f"{page.name}_{name}_requests_per_second", per_second)
            figures.add(f"{page.name}_{name}_p99_ms", p99_ms)
    aims = {"nginx": "<= 0.65", "nginx_tuned": "<= 1.0", "hyper": "<= 1.15"}
    for name, _, _ in servers[1:]:
        for figure in ("cpu_us_per_request", "requests_per_second", "p99_ms"):
            aim = aims[name] if figure.startswith("cpu") else "<= 0.5" if (name, figure) == ("nginx", "p99_ms") else ""
            figures.ratio(f"{page.name}_{figure}_to_{name}", f"{page.name}_railbird_{figure}", f"{page.name}_{name}_{figure}", aim)
    figures.facts[f"{page.name}_body_bytes"] = len(page.body)


def measure(bench, size, runs, folder):
    wrk_program, nginx = script("program", "wrk"), script("program", "nginx")
    server = nats_server()
    railbird, load = programs(folder)
    _, addresses = start_nats(bench, server)
    url = addresses["nats"]
    log(f"publishing {size['horses']:,} horses and ten meetings")
    run_json([load, "--nats", url, "horses", "--count", size["horses"]])
    run_json([load, "--nats", url, "season", "--events", 5_000, "--of-meeting", 500])
    key = issue_key(railbird, url)
    process, port, _, seconds = start_railbird(bench, railbird, url, bench.folder / "data")
    log(f"railbird was ready after {seconds:.1f} s")
    paths = {
        "profile": profile(size["horses"]),
        "card": f"/api/v1/racecards/{DAY}",
        "results": f"/api/v1/results/{DAY}",
    }
    pages = [Page(bench, port, key, name, path) for name, path in paths.items()]
    peers = [(name, *start_nginx(bench, nginx, name, pages)) for name in NGINX]
    figures = Figures()
    for page in pages:
        servers = [("railbird", process, port), *peers, ("hyper", *start_hyper(bench, load, page))]
        measure_page(figures, wrk_program, page, servers, key, runs, size["seconds"])
    measure_documents(figures, load, port, runs, size["seconds"])
    figures.facts |= {
        "horses": size["horses"],
        "threads": CORES,
        "wrk": version([wrk_program, "-v"]),
        "nginx": version([nginx, "-v"]),
        "nats_server": version([server, "--version"]),
    }
    return figures
