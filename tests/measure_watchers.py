#!/usr/bin/env python3
"""What watching costs a busy server (docs/events.md): the CPU time of its threads with no watcher, one and ten.

usage: measure_watchers.py --ropeway PROGRAM --model FILE.gguf [--seconds 30]
"""
import argparse
import http.client
import json
import multiprocessing
import pathlib
import sys
import threading
import time

from ropeway_server import RopewayServer

CLIENTS = 48


def cpu_seconds(pid):
    """Of each thread, by name; threads of one name together."""
    used = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        name = (task / "comm").read_text(encoding="utf-8").strip()
        used[name] = used.get(name, 0) + int((task / "schedstat").read_text(encoding="utf-8").split()[0]) / 1e9
    return used


def read_stream(connection):
    reply = connection.getresponse()
    total = 0
    while some := reply.read1(1 << 20):
        total += len(some)
    return total


def ask(port):
    """Streams without end, of a process of its own."""
    def one(number):
        body = {"prompt": f"{number} The cable car leaves the valley and climbs above the pines. " * 4, "max_tokens": 200,
                "ignore_eos": True, "stream": True}
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            read_stream(connection)
            connection.close()

    for number in range(CLIENTS):
        threading.Thread(target=one, args=(number,), daemon=True).start()
    time.sleep(3600)


def watch(port, count, frames):
    """Counts the frames of all."""
    def one():
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/admin/events")
        reply = connection.getresponse()
        while line := reply.readline():
            if line.startswith(b"data"):
                with frames.get_lock():
                    frames.value += 1

    for _ in range(count):
        threading.Thread(target=one, daemon=True).start()
    time.sleep(3600)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, default=30)
    args = parser.parse_args()
    server = RopewayServer(args.ropeway, args.model, "--max-num-seqs", "32")
    children = [multiprocessing.Process(target=ask, args=(server.port,), daemon=True)]
    children[0].start()
    time.sleep(5)
    try:
        for count in (0, 1, 10, 0):
            frames = multiprocessing.Value("q", 0)
            watcher = multiprocessing.Process(target=watch, args=(server.port, count, frames), daemon=True)
            watcher.start()
            time.sleep(2)
            begin, steps = time.monotonic(), server.metric("ropeway_step_time_seconds_count")
            before, seen = cpu_seconds(server.process.pid), frames.value
            time.sleep(args.seconds)
            after, took = cpu_seconds(server.process.pid), time.monotonic() - begin
            shares = {name: (after[name] - before.get(name, 0)) / took * 100 for name in after}
            steps = (server.metric("ropeway_step_time_seconds_count") - steps) / took
            print(f"{count} watchers, {(frames.value - seen) / took:.0f} frames/s, {steps:.0f} steps/s, % of a core:",
                  {name: round(share, 2) for name, share in sorted(shares.items()) if share > 0.005}, flush=True)
            watcher.kill()
    finally:
        children[0].kill()
        server.process.terminate()
        server.process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
