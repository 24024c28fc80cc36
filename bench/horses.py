"""A thousand horses and a million: requests for a profile, the fold, a start with its views, and memory."""

import shutil

from common import Figures, cpu_seconds, issue_key, log, nats_server, programs, resident_bytes, run_json, script, start_nats
from common import start_railbird, stop, version
from http_profile import profile, wrk

FULL = {"horses": (1_000, 1_000_000), "seconds": 10}
SMALL = {"horses": (1_000, 50_000), "seconds": 2}


def measure(bench, size, runs, folder):
    wrk_program = script("program", "wrk")
    server = nats_server()
    railbird, load = programs(folder)
    figures = Figures()
    logs = {}
    for horses in size["horses"]:
        _, addresses = start_nats(bench, server, f"nats-{horses}")
        logs[horses] = addresses["nats"], issue_key(railbird, addresses["nats"])
        log(f"publishing {horses:,} horses")
        run_json([load, "--nats", addresses["nats"], "horses", "--count", horses])
    for run in range(runs):
        for horses, (url, key) in logs.items():
            data = bench.folder / f"data-{horses}"
            process, *_, folded = start_railbird(bench, railbird, url, data)
            stop(process)
            process, port, _, started = start_railbird(bench, railbird, url, data)
            resident = resident_bytes(process)
            address = f"http://127.0.0.1:{port}{profile(horses)}"
            wrk(wrk_program, 1, address, key)
            before = cpu_seconds(process.pid)
            requests, _, p99_ms = wrk(wrk_program, size["seconds"], address, key)
            cpu_us = (cpu_seconds(process.pid) - before) / requests * 1e6
            stop(process)
            shutil.rmtree(data)
            log(
                f"run {run + 1}: {horses:>9,} horses, folded in {folded:.1f} s, ready again in {started:.2f} s with {resident / 1e6:.0f} MB; "
                f"a GET takes {cpu_us:.2f} us of CPU, p99 {p99_ms:.2f} ms"
            )
            values = {"cpu_us": cpu_us, "p99_ms": p99_ms, "fold_seconds": folded, "start_seconds": started, "resident_mb": resident / 1e6}
            for name, value in values.items():
                figures.add(f"{horses}_{name}", value)
    few, many = size["horses"]
    for name, aim in (("cpu_us", "<= 1.15"), ("p99_ms", ""), ("start_seconds", ""), ("resident_mb", "")):
        figures.ratio(f"{name}_of_many_to_few", f"{many}_{name}", f"{few}_{name}", aim)
    figures.facts = {"few": few, "many": many, "nats_server": version([server, "--version"])}
    return figures
