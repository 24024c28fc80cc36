"""Instructions of an event decoded or folded, counted by valgrind, compared with those of bench/instructions.json."""

import json
import os
import re
import subprocess

from common import ROOT, BenchError, Figures, built, script

# What is counted does not vary: every run is the whole.
FULL = SMALL = {}

BASELINE = ROOT / "bench" / "instructions.json"
# More than the baseline by this share fails, unless the baseline is written again, with the reason in the commit.
TOLERANCE = 0.03


def callgrind(valgrind, out, *options):
    return [valgrind, "--tool=callgrind", f"--callgrind-out-file={out}", *options]


def total(file):
    """The instructions of a dump."""
    return int(re.search(r"^(?:summary|totals): (\d+)", file.read_text(), re.MULTILINE).group(1))


def measure(bench, size, runs, folder):
    valgrind = script("program", "valgrind")
    # Optimised, whatever the build of the other programs is: a debug build has other instructions.
    program = built("railbird-counted")["railbird-counted"]
    figures = Figures()
    for run in range(runs):
        for work in ("decode", "odds", "results"):
            out, data = bench.folder / f"{work}.{run}.out", bench.folder / f"{work}.{run}"
            toggle = ["--collect-atstart=no", "--toggle-collect=*counted::counted*"]
            done = subprocess.run([*callgrind(valgrind, out, *toggle), program, work, "--data", data], capture_output=True, text=True)
            if done.returncode != 0:
                raise BenchError(f"{work} failed:\n{done.stderr}")
            figures.add(work, total(out) / int(done.stdout))
    compare(figures)
    return figures


def compare(figures):
    """Fails where anything takes more instructions than the baseline allows."""
    kept = json.loads(BASELINE.read_text())
    found = {name: round(figures.of(name)) for name in figures.runs}
    if os.environ.get("UPDATE_BASELINE"):
        BASELINE.write_text(json.dumps(kept | found, indent=2, sort_keys=True) + "\n")
        return
    most = {name: kept.get(name, 0) for name in found}
    over = [f"{name}: {count} instead of {most[name]}" for name, count in found.items() if count > most[name] * (1 + TOLERANCE)]
    if over:
        raise BenchError("more instructions than bench/instructions.json allows:\n" + "\n".join(over))
