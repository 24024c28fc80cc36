"""A feeder that shares no code with railbird, and what the log has.

    feeder.py feed FILE     publishes an event after the other; each line of FILE is "sequence id" of an acknowledged one.
                            At the end it prints the seconds of the longest wait for an acknowledgement
    feeder.py list FILE     writes "sequence id" of each message of the log

Both take the address from /etc/railbird/feeder.url, each time they connect. The feeder publishes an event again until it
is acknowledged, and no other one before. `feed` ends at the end of its input.
"""

import itertools
import json
import os
import re
import socket
import ssl
import sys
import threading
import time

CONFIG = "/etc/railbird"
DATE = "2026-11-21"


class Connection:
    """A connection to one of the servers."""

    def __init__(self, turn):
        url = open(f"{CONFIG}/feeder.url").read().strip().split(",")
        scheme, user, password, host, port = re.match(r"(\w+)://(\w+):(\w+)@([\d.]+):(\d+)", url[turn % len(url)]).groups()
        plain = socket.create_connection((host, int(port)), timeout=5)
        self.file = plain.makefile("rb")
        self.file.readline()
        self.socket = plain
        if scheme == "tls":
            trusted = ssl.create_default_context(cafile=f"{CONFIG}/nats-ca.crt")
            self.socket = trusted.wrap_socket(plain, server_hostname=host)
            self.file = self.socket.makefile("rb")
        options = {"verbose": False, "user": user, "pass": password, "headers": True, "no_responders": True}
        # The server sends an answer to everybody of the account who subscribes to its subject.
        self.inbox = f"_INBOX.{os.urandom(8).hex()}"
        self.socket.sendall(f"CONNECT {json.dumps(options)}\r\nSUB {self.inbox}.* 1\r\nPING\r\n".encode())
        # The mappings of the account hold for what is sent after the login.
        while (line := self.file.readline()) and line.strip() != b"PONG":
            if line.startswith(b"-ERR"):
                raise OSError(f"the server refuses the login: {line}")
        self.requests = itertools.count()

    def request(self, subject, payload, headers=""):
        """The headers and the payload of the answer."""
        inbox = f"{self.inbox}.{next(self.requests)}"
        head = f"NATS/1.0\r\n{headers}\r\n".encode()
        command = f"HPUB {subject} {inbox} {len(head)} {len(head) + len(payload)}\r\n".encode()
        self.socket.sendall(command + head + payload + b"\r\n")
        while True:
            words = self.file.readline().split()
            if not words or words[0] == b"-ERR":
                raise OSError(f"the server ended the connection: {words}")
            if words[0] == b"PING":
                self.socket.sendall(b"PONG\r\n")
            if words[0] in (b"MSG", b"HMSG"):
                body = self.file.read(int(words[-1]) + 2)[:-2]
                split = int(words[-2]) if words[0] == b"HMSG" else 0
                if words[1].decode() == inbox:
                    return body[:split].decode(), body[split:]


def event(number):
    """A quote of an outsider, and its id."""
    now = time.time()
    moment = int(now * 1000)
    random = os.urandom(10).hex()
    id = f"{moment >> 16:08x}-{moment & 0xFFFF:04x}-7{random[:3]}-a{random[3:6]}-{random[6:18]}"
    runner = {"horse_no": "H1", "horse_name": "HORSE 1", "number": 1, "win": 10 + number % 80}
    data = {"date": DATE, "venue": "ST", "race_number": 3, "runners": [runner]}
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{moment % 1000:03}Z"
    kind = "racing.odds.quoted.v1"
    event = {"specversion": "1.0", "id": id, "source": "test", "type": kind, "time": at, "data": data}
    return id, json.dumps(event).encode()


def feed(file):
    ending = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ending.set()), daemon=True).start()
    connection, longest = None, 0
    with open(file, "w", buffering=1) as acknowledged:
        for number in itertools.count():
            id, body = event(number)
            begin = time.monotonic()
            for turn in itertools.count():
                try:
                    connection = connection or Connection(turn)
                    _, answer = connection.request(f"racing.odds.{DATE}.ST.3", body, f"Nats-Msg-Id: {id}\r\n")
                    answer = json.loads(answer or b"{}")
                    if answer.get("stream") == "RACING" and "error" not in answer:
                        acknowledged.write(f"{answer['seq']} {id}\n")
                        longest = max(longest, time.monotonic() - begin)
                        break
                except OSError:
                    connection = None
                if ending.is_set():
                    return
                time.sleep(0.05)
            if ending.wait(0.01):
                print(round(longest))
                return


def list_log(file):
    connection = Connection(0)
    _, info = connection.request("$JS.API.STREAM.INFO.RACING", b"")
    state = json.loads(info)["state"]
    with open(file, "w") as found:
        for seq in range(state["first_seq"], state["last_seq"] + 1):
            # The next message from this sequence on: a hole shows as a later one.
            headers, body = connection.request("$JS.API.DIRECT.GET.RACING", json.dumps({"seq": seq}).encode())
            at = re.search(r"Nats-Sequence: (\d+)", headers)
            if not at:
                raise SystemExit(f"seq {seq} cannot be read: {headers}")
            found.write(f"{at[1]} {json.loads(body)['id']}\n")


if __name__ == "__main__":
    {"feed": feed, "list": list_log}[sys.argv[1]](sys.argv[2])
