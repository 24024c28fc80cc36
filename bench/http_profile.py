"""Requests for one profile of 100,000 horses, compared with nginx serving the same bytes from a file."""

import contextlib
import os
import re
import subprocess
import time

from common import CORES, POLL, BenchError, Figures, cpu_seconds, free_port, get, issue_key, log, nats_server
from common import programs, run_json, script, start_nats, start_railbird, version

FULL = {"horses": 100_000, "seconds": 10}
SMALL = {"horses": 5_000, "seconds": 2}

CONNECTIONS = 64

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


def start_nginx(bench, nginx, name, path):
    port = free_port()
    config = bench.folder / f"{name}.conf"
    config.write_text(nginx_config(bench.folder, name, port))
    process = bench.start(name, [nginx, "-c", config, "-p", bench.folder])
    for _ in range(500):
        bench.check(process)
        with contextlib.suppress(OSError):
            get(port, path)
            return process, port
        time.sleep(POLL)
    raise BenchError("nginx did not start")


def wrk(program, seconds, url, key):
    command = [program, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-H", f"X-API-Key: {key}", url]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        raise BenchError(f"not every request was answered:\n{out}")
    number, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", out).groups()
    p99_ms = float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]
    return int(re.search(r"(\d+) requests in", out).group(1)), float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)), p99_ms


def measure(bench, size, runs, folder):
    wrk_program, nginx = script("program", "wrk"), script("program", "nginx")
    server = nats_server()
    railbird, load = programs(folder)
    _, addresses = start_nats(bench, server)
    url = addresses["nats"]
    log(f"publishing {size['horses']:,} horses")
    run_json([load, "--nats", url, "horses", "--count", size["horses"]])
    key = issue_key(railbird, url)
    process, port, _, seconds = start_railbird(bench, railbird, url, bench.folder / "data")
    log(f"railbird was ready after {seconds:.1f} s")
    number = size["horses"] // 2
    path = f"/api/v1/horses/HK_20{16 + number % 8}_{number:06}"
    status, ours, body = get(port, path, {"X-API-Key": key})
    if status != 200:
        raise BenchError(f"{path} answers {status}: {body}")
    file = bench.folder / "www" / path.lstrip("/")
    file.parent.mkdir(parents=True)
    file.write_bytes(body)
    servers = [("railbird", process, port)]
    for name in NGINX:
        servers.append((name, *start_nginx(bench, nginx, name, path)))
        _, theirs, same = get(servers[-1][2], path)
        if same != body:
            raise BenchError("nginx does not serve the same bytes")

    figures = Figures()
    for _, _, port in servers:
        wrk(wrk_program, 2, f"http://127.0.0.1:{port}{path}", key)
    for run in range(runs):
        for name, process, port in servers:
            before = cpu_seconds(process.pid)
            requests, per_second, p99_ms = wrk(wrk_program, size["seconds"], f"http://127.0.0.1:{port}{path}", key)
            cpu_us = (cpu_seconds(process.pid) - before) / requests * 1e6
            log(f"run {run + 1}: {name:<12}{per_second:>8.0f} requests/s, {cpu_us:.2f} us of CPU per request, p99 {p99_ms:.2f} ms")
            figures.add(f"{name}_cpu_us_per_request", cpu_us)
            figures.add(f"{name}_requests_per_second", per_second)
            figures.add(f"{name}_p99_ms", p99_ms)
    figures.ratio("http_cpu_per_request", "railbird_cpu_us_per_request", "nginx_cpu_us_per_request", "<= 1.0")
    figures.ratio("http_requests_per_second", "railbird_requests_per_second", "nginx_requests_per_second")
    figures.ratio("http_p99", "railbird_p99_ms", "nginx_p99_ms")
    figures.ratio("http_cpu_per_request_tuned", "railbird_cpu_us_per_request", "nginx_tuned_cpu_us_per_request")
    figures.ratio("http_requests_per_second_tuned", "railbird_requests_per_second", "nginx_tuned_requests_per_second")
    figures.ratio("http_p99_tuned", "railbird_p99_ms", "nginx_tuned_p99_ms")
    figures.facts = {
        "horses": size["horses"],
        "body_bytes": len(body),
        "railbird_headers": len(ours),
        "nginx_headers": len(theirs),
        "threads": CORES,
        "wrk": version([wrk_program, "-v"]),
        "nginx": version([nginx, "-v"]),
        "nats_server": version([server, "--version"]),
    }
    return figures
