"""Live channel clients through cuts, slowness and restarts: prints the figures of `railbird-bench faults`."""

import contextlib
import json
import resource

from common import Bench, BenchError, log, nats_server, programs, run_json


def raise_limits():
    """Allows the open files of 2,000 clients and their service."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def median(values):
    return sorted(values)[len(values) // 2]


def rows(found):
    cuts, slow, restart, nats = (found[name] for name in ("cuts", "slow", "restart", "nats"))
    for name in ("clients", "connections", "resumed", "not_recovered", "messages", "repeated", "objections"):
        yield f"cuts_{name}", cuts[name]
    for side in ("without", "with"):
        for name in ("p50_us", "p99_us", "resident_before_kib", "resident_after_kib"):
            yield f"slow_{side}_{name}", median([run[side][name] for run in slow])
        yield f"slow_{side}_objections", sum(run[side]["objections"] for run in slow)
    for name in ("clients", "stopped_ready_s", "stopped_all_back_s", "killed_ready_s", "killed_all_back_s", "resumed", "not_recovered", "objections"):
        yield f"restart_{name}", restart[name]
    for name in ("clients", "stale_told_s", "live_told_s", "connections", "objections"):
        yield f"nats_{name}", nats[name]


def report(found, file):
    """Prints the table, and returns whether there were no objections."""
    for name, value in rows(found):
        print(f"{name:<36}{value:>14,.3f}" if isinstance(value, float) else f"{name:<36}{value:>14,}")
    for objection in found["objections"][:20]:
        print(f"OBJECTION {objection}")
    if file:
        with open(file, "w") as out:
            json.dump({**dict(rows(found)), "runs": found}, out, indent=2)
            out.write("\n")
    return not found["objections"]


def run(args):
    raise_limits()
    try:
        with contextlib.ExitStack() as stack:
            bench, server = Bench(stack), nats_server()
            railbird, load = programs(args.bin)
            command = [load, "faults", "--railbird", railbird, "--nats-server", server, "--folder", bench.folder, "--runs", args.runs]
            found = run_json(command + ["--small"] * args.small)
    except (BenchError, OSError) as error:
        log(f"bench/run: {error}")
        return 1
    return 0 if report(found, args.json) else 1
