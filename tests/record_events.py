#!/usr/bin/env python3
"""Records a minute of /admin/events: what people who work on the page see without a model, and what events_test.py replays.
A server with a small KV cache has more requests than fit, of two tenants and three classes, with short and long prompts: they
wait, are computed in chunks, are preempted and resumed.

usage: record_events.py --ropeway PROGRAM --model FILE.gguf [--seconds 60] [--out FILE.sse.gz]
"""
import argparse
import gzip
import http.client
import json
import pathlib
import random
import sys
import tempfile
import threading
import time

from ropeway_server import RopewayServer

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "data" / "events" / "minute.sse.gz"
KEYS = {"cabin": "key-of-cabin-1", "valley": "key-of-valley-1"}
ADMIN_KEY = "key-of-the-admin"
FLAGS = ("--kv-cache-size", "24MiB", "--max-num-seqs", "8", "--max-num-batched-tokens", "96", "--prefill-chunk", "64",
         "--policy", "priority", "--unknown-fields", "ignore")
# A word that each prompt has: no frame may hold it.
SECRET = "edelweiss"
WORDS = "the cable car leaves the valley and climbs above the pines toward the glacier".split()


def words(numbers, count):
    return " ".join([SECRET] + [numbers.choice(WORDS) for _ in range(count)])


class Tenant(threading.Thread):
    """Sends one request after the other until the end; several of them are one tenant."""

    def __init__(self, port, key, seed, until):
        super().__init__(daemon=True)
        self.port, self.key, self.numbers, self.until = port, key, random.Random(seed), until
        self.shared = words(random.Random(7), 60)  # So that blocks are found in the cache.

    def run(self):
        while time.monotonic() < self.until:
            self.ask()
            time.sleep(self.numbers.expovariate(2.0))

    def ask(self):
        numbers = self.numbers
        kind = numbers.choices(("short", "long", "shared"), (6, 2, 2))[0]
        prompt = {"short": lambda: words(numbers, numbers.randint(5, 40)), "long": lambda: words(numbers, numbers.randint(200, 420)),
                  "shared": lambda: self.shared + " " + words(numbers, 8)}[kind]()
        body = {"prompt": prompt, "stream": True, "max_tokens": numbers.randint(16, 120), "temperature": 0,
                "ignore_eos": numbers.random() < 0.7,
                "priority": numbers.choices(("high", "medium", "low"), (2, 4, 4))[0]}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"})
            reply = connection.getresponse()
            if numbers.random() < 0.05:
                reply.read(300)  # It leaves.
                return
            reply.read()
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()


def record(port, seconds):
    """The bytes of the stream, whole events."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/admin/events", headers={"Authorization": f"Bearer {ADMIN_KEY}"})
    reply = connection.getresponse()
    assert reply.status == 200, reply.status
    until, lines = time.monotonic() + seconds, []
    while time.monotonic() < until or lines[-1] != b"\n":
        lines.append(reply.readline())
    connection.close()
    return b"".join(lines)


def start(ropeway, model, *flags):
    """A server with KEYS, and the folder that it reads them from."""
    folder = tempfile.TemporaryDirectory(prefix="ropeway-events-")
    keys = pathlib.Path(folder.name) / "keys.toml"
    keys.touch(mode=0o600)
    keys.write_text("".join(f'[[keys]]\nname = "{name}"\nkey = "{key}"\n' for name, key in KEYS.items()), encoding="utf-8")

    class Server(RopewayServer):
        key = admin_key = ADMIN_KEY

    return Server(ropeway, model, "--api-keys", keys, "--admin-key", ADMIN_KEY, *FLAGS, *flags), folder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    args = parser.parse_args()
    server, folder = start(args.ropeway, args.model)
    try:
        until = time.monotonic() + args.seconds - 4  # The end is seen too.
        for number in range(args.clients):
            Tenant(server.port, list(KEYS.values())[number % 3 > 0], number, until).start()
        stream = record(server.port, args.seconds)
    finally:
        server.process.terminate()
        server.process.wait()
        folder.cleanup()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_bytes(gzip.compress(stream, mtime=0))
    print(f"{args.out}: {len(stream)} bytes, {args.out.stat().st_size} compressed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
