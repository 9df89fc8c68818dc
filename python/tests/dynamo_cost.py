#!/usr/bin/env python3
"""What Dynamo costs: tokens a second of two one-thread engines, as two `ropeway serve` and as two workers behind Dynamo's
front, by turns; and the CPU time of each part. dynamo_suite.sh --cost runs it; ROPEWAY_PROGRAM is the program."""

import json
import os
import signal
import socket
import statistics
import subprocess
import threading
import time
import urllib.request

from dynamo_suite import MODEL, Cluster, chats, free_port

ROUNDS = 3
STREAMS = 16
TOKENS = 150


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_stream(port, body, failures):
    data = json.dumps({"model": "smollm2", "stream": True, **body}).encode()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        last = b""
        while some := connection.recv(1 << 16):
            last = (last + some)[-200:]
    if b"[DONE]" not in last:
        failures.append(last)


def ask_all(ports):
    """Seconds until all streams have ended, spread over the ports."""
    failures = []
    bodies = list(chats(STREAMS, max_tokens=TOKENS))
    threads = [threading.Thread(target=read_stream, args=(ports[i % len(ports)], body, failures)) for i, body in enumerate(bodies)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    return time.monotonic() - started


def measure(ports, parts):
    """Seconds, and CPU µs a token by part."""
    before = {name: sum(map(cpu_seconds, processes)) for name, processes in parts.items()}
    own = time.process_time()
    took = ask_all(ports)
    tokens = STREAMS * TOKENS
    used = {name: 1e6 * (sum(map(cpu_seconds, processes)) - before[name]) / tokens for name, processes in parts.items()}
    return took, {**used, "client": 1e6 * (time.process_time() - own) / tokens}


def start_servers(count):
    servers = []
    for _ in range(count):
        port = free_port()
        process = subprocess.Popen(
            [os.environ["ROPEWAY_PROGRAM"], "serve", "--model", MODEL, "--served-model-name", "smollm2", "--port", str(port),
             "--threads", "1", "--kv-cache-size", "96MiB"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        servers.append((process, port))
    for process, port in servers:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
                break
            except OSError:
                assert process.poll() is None
                time.sleep(0.1)
    return servers


def main():
    servers = start_servers(2)
    cluster = Cluster("--router-mode", "round-robin")
    try:
        for _ in range(2):
            cluster.add_worker()
        cluster.wait_for_workers(2)
        ways = {
            "direct": ([port for _, port in servers], {"engines": [process for process, _ in servers]}),
            "Dynamo": ([cluster.port], {"engines": cluster.workers, "front": cluster.processes[:1]}),
        }
        rows = {name: [] for name in ways}
        for ports, _ in ways.values():
            ask_all(ports)  # It fills the prefix caches.
        for _ in range(ROUNDS):
            for name, (ports, parts) in ways.items():
                rows[name].append(measure(ports, parts))
        took = {}
        for name, measured in rows.items():
            took[name] = statistics.median(seconds for seconds, _ in measured)
            parts = ", ".join(f"{part} {statistics.median(used[part] for _, used in measured):.0f}" for part in measured[0][1])
            print(f"{name}: {STREAMS * TOKENS / took[name]:.0f} tokens/s; CPU µs a token: {parts}")
        front = statistics.median(used["front"] for _, used in rows["Dynamo"]) * STREAMS * TOKENS / 1e6
        lost = 1 - took["direct"] / took["Dynamo"]
        cores = len(os.sched_getaffinity(0))
        print(f"lost through Dynamo: {lost:.1%}; the front's CPU alone is {front / cores / took['Dynamo']:.1%} of {cores} cores")
    finally:
        cluster.close()
        for process, _ in servers:
            process.send_signal(signal.SIGTERM)
            process.wait()


if __name__ == "__main__":
    main()
