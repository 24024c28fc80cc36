#!/usr/bin/env python3
"""Prints the tables of "How much it takes" in docs/scaling.md. Change a number, and run it again."""

import math

# Measured: docs/benchmarks.md. With 5,000 clients, 50 messages a second cost the most CPU time for each.
CPU_PER_DELIVERY = 3.9e-6  # s
MEMORY_PER_SOCKET = 12 * 1024  # Bytes: the most of all sizes.
HANDSHAKE_CPU = {"without TLS": 0.5e-3, "with TLS": 1.0e-3}  # s
# An odds_update of a simulated race with 11 runners, in bytes, and what frames, TLS, TCP and IP add.
MESSAGE = 1_475
ON_THE_WIRE = 1.1
EVENT = 1_000  # Bytes of the quote behind it, with subject and headers.

# A replica: two cores, and half of them, of the network and of the memory planned for what is usual.
CORES = 2
NETWORK = 1e9 / 8  # Bytes a second.
MEMORY = 4e9
BASE_MEMORY = 512e6
PLANNED = 0.5
CONNECTIONS_MAX = 50_000  # --connections-max
HOURS = 8  # A race day.

# Assumptions, for an example only.
PRICE_PER_HOUR = 0.05
PRICE_PER_GB = 0.01

SUBSCRIBERS = (100_000, 10_000_000)
RATES = (0.5, 5, 50)  # Messages a second for each subscriber.


def per_replica(rate):
    """How many sockets a replica has, by what bounds it."""
    return {
        "--connections-max": CONNECTIONS_MAX,
        "CPU": PLANNED * CORES / (rate * CPU_PER_DELIVERY),
        "network": PLANNED * NETWORK / (rate * MESSAGE * ON_THE_WIRE),
        "memory": (PLANNED * MEMORY - BASE_MEMORY) / MEMORY_PER_SOCKET,
    }


def row(subscribers, rate):
    bounds = per_replica(rate)
    bound = min(bounds, key=bounds.get)
    replicas = max(2, math.ceil(subscribers / bounds[bound]) + 1)  # One may be away.
    sockets = subscribers / replicas
    out = rate * MESSAGE * ON_THE_WIRE * subscribers
    gigabytes = out * HOURS * 3600 / 1e9
    cost = replicas * HOURS * PRICE_PER_HOUR + gigabytes * PRICE_PER_GB
    back = sockets * HANDSHAKE_CPU["with TLS"] / CORES
    return [
        f"{subscribers:,}",
        f"{rate:g}",
        f"{replicas:,}",
        bound,
        f"{sockets:,.0f}",
        f"{sockets * rate * CPU_PER_DELIVERY / CORES:.0%}",
        f"{8 * out / replicas / 1e6:,.0f}",
        f"{8 * out / 1e9:,.1f}",
        f"{(BASE_MEMORY + sockets * MEMORY_PER_SOCKET) / 1e6:,.0f}",
        f"{2 * sockets + 256:,.0f}",
        f"{8 * replicas * rate * EVENT / 1e6:,.2f}",
        f"{back:,.0f}",
        f"{replicas * HOURS:,}",
        f"{gigabytes:,.0f}",
        f"{cost:,.0f}",
    ]


NAMES = [
    "subscribers",
    "messages/s",
    "replicas",
    "bound by",
    "sockets",
    "CPU",
    "Mbit/s out",
    "Gbit/s out, all",
    "memory, MB",
    "files",
    "Mbit/s of NATS, all",
    "all back, s",
    "machine-hours",
    "GB",
    "example",
]


def main():
    print("| " + " | ".join(NAMES) + " |")
    print("|" + "---|" * len(NAMES))
    for subscribers in SUBSCRIBERS:
        for rate in RATES:
            print("| " + " | ".join(row(subscribers, rate)) + " |")


if __name__ == "__main__":
    main()
