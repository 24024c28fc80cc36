"""From the publication of a quote to a WebSocket client and a GET, compared with a bare consumer and a bare relay."""

from common import Figures, issue_key, log, nats_server, programs, run_json, start_nats, start_railbird, version

FULL = {"rate": 500, "seconds": 20}
SMALL = {"rate": 500, "seconds": 2}

# As nats.conf has it.
JETSTREAM = "jetstream { sync_interval: always }"


def measure(bench, size, runs, folder):
    server = nats_server()
    railbird, load = programs(folder)
    figures = Figures()
    for run in range(runs):
        # A log of its own: the server drops what was published before.
        _, addresses = start_nats(bench, server, f"nats-{run}", JETSTREAM)
        url = addresses["nats"]
        key = issue_key(railbird, url)
        _, port, *_ = start_railbird(bench, railbird, url, bench.folder / f"data-{run}")
        command = [load, "--nats", url, "latency", "--http", f"127.0.0.1:{port}", "--key", key]
        for name, ms in run_json([*command, "--rate", size["rate"], "--seconds", size["seconds"]]).items():
            log(f"run {run + 1}: {name:<18}{ms:>8.2f}")
            figures.add(name, ms)
    for reader, aim in [("relay", ""), ("socket", "<= 1.3"), ("get", "<= 1.5")]:
        for quantile in ["p50", "p99"]:
            figures.ratio(f"{reader}_{quantile}", f"{reader}_{quantile}_ms", f"consumer_{quantile}_ms", aim)
    figures.facts = {**size, "nats_server": version([server, "--version"])}
    return figures
