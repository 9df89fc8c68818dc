#!/usr/bin/env python3
"""The cost of many open streams, and of what remains when their clients vanish.

A thousand accepted streams that wait for one slot take less than 50 MB of memory; when their clients
leave, or 200 clients leave in the middle of their streams, no block, thread or descriptor stays behind.

usage: waiting_streams_test.py --ropeway PROGRAM --model FILE.gguf
"""
import argparse
import http.client
import json
import os
import pathlib
import re
import resource
import socket
import struct
import sys
import unittest

from smoke_test import ARGS, Server, eventually

STREAMS = 1000
MOST_BYTES = 50e6
VANISHING = 200
PROMPT = "The gondola rises over the valley, the river, the farms and the old railway. " * 4


def bytes_of(body):
    data = json.dumps({"ignore_eos": True, "temperature": 0, "stream": True, **body}).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(data) + data)


def read_until(client, mark):
    """The bytes that `client` receives up to `mark`, inclusive."""
    received = b""
    while mark not in received:
        some = client.recv(65536)
        assert some, f"closed after {received!r}"
        received += some
    return received


def vanish(clients):
    """Closes half of the connections and resets the others."""
    for i, client in enumerate(clients):
        if i % 2:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()


class StreamsTest(unittest.TestCase):
    def start(self, *flags):
        server = Server(*flags)
        self.addCleanup(server.process.wait)
        self.addCleanup(server.process.kill)
        return server

    def status(self, server, field):
        text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(rf"^{field}:\s*(\d+)", text, re.MULTILINE).group(1))

    def descriptors(self, server, connections):
        """The server's open connections, once it has no more than these."""
        watcher = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)

        def only_these():
            watcher.request("GET", "/metrics")
            text = watcher.getresponse().read().decode()
            found = re.search(r"^ropeway_http_connections (\d+)$", text, re.MULTILINE)
            return int(found.group(1)) == connections + 1  # And the watcher.

        try:
            eventually(only_these, f"{connections} connections are left")
            return len(os.listdir(f"/proc/{server.process.pid}/fd")) - 1
        finally:
            watcher.close()

    def becomes(self, what, value, wanted):
        """Waits for value() to be `wanted`."""
        eventually(lambda: value() == wanted, f"{what} become {wanted}")

    def connect(self, server, body):
        client = socket.create_connection(("127.0.0.1", server.port), timeout=120)
        self.addCleanup(client.close)
        client.sendall(bytes_of(body))
        return client

    def probe(self, server):
        reply = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 8, "temperature": 0})
        return reply[1]["choices"][0]["text"]

    def nothing_is_left(self, server, threads, descriptors, text):
        for name in ("running", "waiting"):
            metric = f"ropeway_num_requests_{name}"
            self.becomes(metric, lambda metric=metric: server.metric(metric), 0)
        self.becomes("blocks", lambda: server.metric("ropeway_kv_cache_usage_ratio"), 0)
        self.assertEqual(self.descriptors(server, 0), descriptors)
        self.becomes("threads", lambda: self.status(server, "Threads"), threads)
        self.assertEqual(self.probe(server), text)

    def test_a_thousand_waiting_streams_are_cheap(self):
        server = self.start("--max-num-seqs", "1", "--max-queued-requests", "2000", "--max-connections",
                            "2000", "--max-wait", "24h", "--kv-cache-size", "64MiB")
        text = self.probe(server)
        # A prompt that fills the pool, so that its memory is not counted below.
        longest = json.loads(server.get("/v1/models")[1])["data"][0]["max_model_len"]
        self.assertEqual(server.request("POST", "/v1/completions", {
            "prompt": [504] * (longest - 2), "max_tokens": 2, "ignore_eos": True}, timeout=400)[0], 200)
        runs = self.connect(server, {"prompt": [504], "max_tokens": longest - 1})
        read_until(runs, b"\n\n")
        threads, descriptors = self.status(server, "Threads"), self.descriptors(server, 1)
        before = self.status(server, "VmRSS")
        clients = [self.connect(server, {"prompt": PROMPT, "max_tokens": 100})
                   for _ in range(STREAMS)]
        for client in clients:
            self.assertIn(b" 200 OK\r\n", read_until(client, b"\r\n\r\n"))
        waiting = server.metric("ropeway_num_requests_waiting")
        after = self.status(server, "VmRSS")
        growth = (after - before) * 1024
        print(f"{waiting:.0f} waiting streams: resident size {before} -> {after} KiB, "
              f"{growth / STREAMS / 1024:.1f} KiB each")
        # On a slow machine the running one may have ended and a few may have followed.
        self.assertGreater(waiting, STREAMS * 0.95)
        self.assertLess(growth, MOST_BYTES)
        vanish(clients)
        vanish([runs])
        self.nothing_is_left(server, threads, descriptors - 1, text)
        self.assertEqual(server.stop()[0], 0)

    def test_clients_that_vanish_in_the_middle_leave_nothing_behind(self):
        server = self.start("--max-num-seqs", str(VANISHING), "--max-queued-requests", "1000")
        text = self.probe(server)
        threads, descriptors = self.status(server, "Threads"), self.descriptors(server, 0)
        clients = [self.connect(server, {"prompt": f"Number {i}:", "max_tokens": 1500})
                   for i in range(VANISHING)]
        for client in clients:
            read_until(client, b"data: ")
        self.assertGreater(server.metric("ropeway_num_requests_running"), VANISHING * 0.9)
        vanish(clients)
        self.nothing_is_left(server, threads, descriptors, text)
        self.assertEqual(server.stop()[0], 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.parse_known_args(namespace=ARGS)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    unittest.main(argv=[sys.argv[0], "-v"])
