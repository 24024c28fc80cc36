#!/usr/bin/env python3
"""Prints the tables of "How much it takes" in docs/scaling.md. Change a number, and run it again."""

import math

# Measured: docs/benchmarks.md. With 5,000 clients, 50 messages a second cost the most CPU time for each.
CPU_PER_DELIVERY = 3.9e-6  # s
MEMORY_PER_SOCKET = 12 * 1024  # Bytes: the most of all sizes.
HANDSHAKE_CPU = 0.31e-3  # s, with TLS
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
# nats-server allows 1,000 consumers of a stream, and a replica that comes back is one more. More replicas read mirrors.
READERS_MAX = 900

# Assumptions, for an example only.
PRICE_PER_HOUR = 0.05
PRICE_PER_GB = 0.01

SUBSCRIBERS = (100_000, 10_000_000)
RATES = (0.5, 5, 50)  # Messages a second for each subscriber.


def per_replica(rate):
    """How many sockets a replica has, by what bounds it."""
    return {
        "maximum": CONNECTIONS_MAX,
        "CPU": PLANNED * CORES / (rate * CPU_PER_DELIVERY),
        "network": PLANNED * NETWORK / (rate * MESSAGE * ON_THE_WIRE),
        "memory": (PLANNED * MEMORY - BASE_MEMORY) / MEMORY_PER_SOCKET,
    }


def nats_servers(replicas):
    """Three with the log, and three with mirrors for each READERS_MAX replicas if those are too many."""
    return 3 if replicas <= READERS_MAX else 3 + 3 * math.ceil(replicas / READERS_MAX)


def case(subscribers, rate):
    bounds = per_replica(rate)
    bound = min(bounds, key=bounds.get)
    replicas = math.ceil(subscribers / bounds[bound]) + 1  # One may be away.
    sockets = subscribers / replicas
    out = rate * MESSAGE * ON_THE_WIRE * subscribers
    gigabytes = out * HOURS * 3600 / 1e9
    return {
        "subscribers": f"{subscribers:,}",
        "messages a second, each": f"{rate:g}",
        "**replicas**": f"**{replicas:,}**",
        "bound by": bound,
        "sockets of a replica": f"{sockets:,.0f}",
        "its CPU": f"{100 * sockets * rate * CPU_PER_DELIVERY / CORES:.0f} %",
        "its network, Mbit/s": f"{8 * out / replicas / 1e6:,.0f}",
        "its memory, MB": f"{(BASE_MEMORY + sockets * MEMORY_PER_SOCKET) / 1e6:,.0f}",
        "its files": f"{2 * sockets + 256:,.0f}",
        "its handshakes, all at once, s": f"{sockets * HANDSHAKE_CPU / CORES:,.1f}",
        "nats-servers": f"{nats_servers(replicas)}",
        "out of all replicas, Gbit/s": f"{8 * out / 1e9:,.1f}",
        "out of NATS, Mbit/s": f"{8 * replicas * rate * EVENT / 1e6:,.2f}",
        "machine-hours of a race day": f"{replicas * HOURS:,}",
        "GB of a race day": f"{gigabytes:,.0f}",
        "example of a price": f"{replicas * HOURS * PRICE_PER_HOUR + gigabytes * PRICE_PER_GB:,.0f}",
    }


def main():
    cases = [case(subscribers, rate) for subscribers in SUBSCRIBERS for rate in RATES]
    for number, name in enumerate(cases[0]):
        print("| " + " | ".join([name, *(case[name] for case in cases)]) + " |")
        if number == 0:
            print("|" + "---|" * (len(cases) + 1))


if __name__ == "__main__":
    main()
