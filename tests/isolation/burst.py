#!/usr/bin/env python3
"""Clients that all come at once and obey Retry-After, in this process.

usage: burst.py --port N --clients N --tokens N --admin-key KEY [--key KEY]... [--spread S] [--label TEXT]
                [--patience S]

Each client sends one short completion, streamed, on a connection of its own, with the keys in turn; the last one
comes --spread seconds after the first. A 429 that says when is obeyed to the letter: so many seconds after its head
came, the same body is sent again on a new connection, and nothing else with it: the server knows a client by its text.
/metrics are read meanwhile. Texts are equal only between runs with the same --label.

Prints one line of JSON when all clients have ended, or after --patience seconds. Times are seconds since the first
client came:
  clients  for each: `sent`, the time of each request; `told`, for each rejection the time when its head came and its
           Retry-After; `admitted`, when the head of the stream came, which the server sends on admission; `first` and
           `ended`, of the stream: its first token and its end; what has not happened is null; `why`, what the last
           rejection said; `wrong`, what was not answered as it should be
  samples  for each reading of /metrics: `at`, `running` and `waiting` requests, and the counters COUNTERS
"""
import argparse
import asyncio
import json
import re
import resource
import sys

from load import metric

HOST = "127.0.0.1"
PIECE = 64 << 10
SAMPLE_SECONDS = 0.2
# Names and labels in /metrics.
GAUGES = {"running": ("ropeway_num_requests_running", None), "waiting": ("ropeway_num_requests_waiting", None)}
COUNTERS = {"busy": ("ropeway_busy_seconds_total", None),
            "slots_used": ("ropeway_slot_seconds_total", 'state="used"'),
            "slots_all": ("ropeway_slot_seconds_total", 'state="all"'),
            "tokens": ("ropeway_generation_tokens_total", None)}


class Burst:
    """The server, its clients, and what became of them."""

    def __init__(self, args):
        self.args = args
        self.clients = []
        self.samples = []
        self.begin = asyncio.get_running_loop().time()

    def now(self):
        return asyncio.get_running_loop().time() - self.begin

    async def open(self, method, path, key, body=b""):
        """Sends a request on a new connection; returns its reader, its writer and the head of the answer."""
        head = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Length: {len(body)}"]
        if body:
            head.append("Content-Type: application/json")
        if key:
            head.append(f"Authorization: Bearer {key}")
        reader, writer = await asyncio.open_connection(HOST, self.args.port, limit=PIECE)
        try:
            writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
            return reader, writer, await reader.readuntil(b"\r\n\r\n")
        except BaseException:
            writer.transport.abort()
            raise

    def body(self, number):
        # What distinguishes it comes first: no two share a block of the prefix cache.
        text = f"{number} {self.args.label}: tell a story about a cable car"
        return json.dumps({"prompt": text, "max_tokens": self.args.tokens, "ignore_eos": True, "temperature": 0,
                           "stream": True}).encode()

    async def read_stream(self, client, reader):
        tail = b""
        while piece := await reader.read(PIECE):
            tail += piece
            if client["first"] is None and b"data: " in tail:
                client["first"] = self.now()
            tail = tail[-64:]
        if b"data: [DONE]" in tail:
            client["ended"] = self.now()
        else:
            client["wrong"] = f"its stream was cut off: {tail!r}"

    async def ask(self, client, body, key):
        """One request. Returns when to send it again; None: it was not rejected for a time."""
        client["sent"].append(self.now())
        reader, writer, head = await self.open("POST", "/v1/completions", key, body)
        try:
            came = self.now()
            if head.startswith(b"HTTP/1.1 200 "):
                client["admitted"] = came
                await self.read_stream(client, reader)
                return None
            rest = (await reader.read()).decode(errors="replace")
            after = re.search(rb"\r\nretry-after: *([1-9]\d*)\r\n", head, re.IGNORECASE)
            if not head.startswith(b"HTTP/1.1 429 ") or not after:
                client["wrong"] = f"{head!r} {rest[:300]}"
                return None
            client["told"].append([came, int(after.group(1))])
            client["why"] = rest[:300]
            return came + int(after.group(1))
        finally:
            writer.transport.abort()

    async def obey(self, number):
        client = {"sent": [], "told": [], "admitted": None, "first": None, "ended": None, "why": "", "wrong": ""}
        self.clients.append(client)
        keys = self.args.key or [""]
        body = self.body(number)
        due = self.args.spread * number / max(1, self.args.clients - 1)
        try:
            while due is not None:
                await asyncio.sleep(max(0, due - self.now()))
                due = await self.ask(client, body, keys[number % len(keys)])
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            client["wrong"] = f"no answer: {error!r}"

    async def sample(self):
        reader, writer, _ = await self.open("GET", "/metrics", self.args.admin_key)
        try:
            text = (await reader.read()).decode()
        finally:
            writer.transport.abort()
        self.samples.append({"at": self.now(), **{name: metric(text, *which)
                                                  for name, which in {**GAUGES, **COUNTERS}.items()}})

    async def watch(self):
        while True:
            await self.sample()
            await asyncio.sleep(SAMPLE_SECONDS)

    async def run(self):
        everyone = asyncio.gather(*(self.obey(number) for number in range(self.args.clients)))
        watcher = asyncio.ensure_future(self.watch())
        await asyncio.wait([everyone, watcher], timeout=self.args.patience, return_when=asyncio.FIRST_COMPLETED)
        everyone.cancel()
        watcher.cancel()
        ends = await asyncio.gather(everyone, watcher, return_exceptions=True)
        print(json.dumps({"clients": self.clients, "samples": self.samples}), flush=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end


async def run(args):
    await Burst(args).run()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--admin-key", required=True)
    parser.add_argument("--key", action="append", default=[])
    parser.add_argument("--spread", type=float, default=0)
    parser.add_argument("--label", default="")
    parser.add_argument("--patience", type=float, default=600)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
