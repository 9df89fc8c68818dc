#!/usr/bin/env python3
"""Hostile clients of a ropeway server, all in this process: as one attacker would run them.

usage: attack.py --port N [--key KEY] [--metered-key KEY] [--seconds S] KIND...

Prints "ready" once each kind has sent something, and at the end (--seconds, SIGTERM or SIGINT) one line of JSON:
for each kind its answers by status, 0 for connections that ended without one. Without --key the clients are
strangers. --metered-key: of a key with a limit of tokens per minute, which half of the senders of long prompts use.
"""
import argparse
import asyncio
import collections
import itertools
import json
import random
import resource
import signal
import socket
import sys

HOST = "127.0.0.1"
PIECE = 256 << 10
HOLD_SECONDS = 20
ENDLESS = {"prompt": "Once upon a time", "max_tokens": 2000, "ignore_eos": True}


# Those of dear_schemas() that meet the limit of the work.
TOO_DEAR = ("optional", "chain")


def dear_schemas(name):
    """JSON Schemas of properties with this name that take long to compile."""
    def closed(properties, **more):
        return {"type": "object", "properties": properties, "additionalProperties": False, **more}

    def each(count, schema_of):
        return closed({f"{name}_{i}": schema_of(i) for i in range(count)})

    def link(i):
        after = {"$ref": f"#/$defs/d{i + 1}"}
        return {"anyOf": [{"type": "array", "items": after}, closed({name: after}, required=[name])]}
    chain = {f"d{i}": link(i) for i in range(299)}
    return {
        "chain": {"$ref": "#/$defs/d0", "$defs": {**chain, "d299": {"type": "string"}}},
        "optional": each(256, lambda i: {"type": "integer"}),
        "many": each(200, lambda i: {"type": "string"}),
        "lengths": each(8, lambda i: {"type": "string", "minLength": 8, "maxLength": 20 + i}),
        "patterns": each(3, lambda i: {"type": "string", "pattern": f"^.{{1,{50 + i}}}$"}),
        "objects": {"anyOf": [closed({f"{name}_{i}": {"type": "string"}}, required=[f"{name}_{i}"])
                              for i in range(100)]},
    }


class Attack:
    """What all kinds share: the server, the keys, and what became of the requests."""

    def __init__(self, args):
        self.args = args
        self.counts = collections.defaultdict(collections.Counter)
        self.begun = set()  # Kinds that have sent something.
        self.random = random.Random(1)

    def head(self, kind, method, path, headers, key=None):
        self.begun.add(kind)
        key = self.args.key if key is None else key
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
        if key:
            lines.append(f"Authorization: Bearer {key}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def post(self, kind, path, body, key=None, receive_buffer=None, read=True):
        """One request on a connection of its own; returns the status."""
        head = self.head(kind, "POST", path, ["Content-Type: application/json", "Connection: close",
                                              f"Content-Length: {len(body)}"], key)
        return await self.exchange(kind, head, body, receive_buffer, read)

    async def exchange(self, kind, head, body, receive_buffer=None, read=True):
        status = 0
        writer = None
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            if receive_buffer:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            await asyncio.get_running_loop().sock_connect(made, (HOST, self.args.port))
            reader, writer = await asyncio.open_connection(sock=made, limit=PIECE)
            try:
                writer.write(head)
                view = memoryview(body)
                for at in range(0, len(view), PIECE):
                    writer.write(view[at:at + PIECE])
                    await writer.drain()
                await writer.drain()
            except OSError:
                pass  # It may be answered before it is sent whole.
            if not read:
                await asyncio.sleep(HOLD_SECONDS)
                return 0
            first = await reader.read(64)
            if first[9:12].isdigit():
                status = int(first[9:12])
            while await reader.read(PIECE):
                pass
        except OSError:
            pass
        finally:
            if writer is not None:
                writer.transport.abort()
            else:
                made.close()
            self.counts[kind][status] += 1
        return status

    async def repeat(self, kind, path, body, pause=0.5, **more):
        """The same request again and again; what is rejected waits `pause`, whatever the server asks for."""
        while True:
            if await self.post(kind, path, body, **more) != 200:
                await asyncio.sleep(pause)

    # The kinds: each a list of coroutines that go on until they are cancelled.

    def slots(self):
        """One request that fills every slot."""
        body = json.dumps({**ENDLESS, "n": 64}).encode()
        return [self.repeat("slots", "/v1/completions", body)]

    def urgent(self):
        """Two of class high that fill every slot, and what makes room for that class."""
        body = json.dumps({**ENDLESS, "n": 64, "priority": "high"}).encode()
        return [self.repeat("urgent", "/v1/completions", body) for _ in range(2)]

    def sampling(self):
        """Streams whose tokens cost as much to draw as to compute."""
        body = json.dumps({**ENDLESS, "max_tokens": 600, "n": 60, "stream": True, "temperature": 2, "top_p": 0.9999,
                           "typical_p": 0.9999, "logprobs": 5, "repetition_penalty": 1.1, "presence_penalty": 1,
                           "frequency_penalty": 1, "logit_bias": {str(i): 0.1 for i in range(1000)}}).encode()
        return [self.repeat("sampling", "/v1/completions", body)]

    def flood(self):
        """Many clients with one request each, all the time."""
        def body(i):
            return json.dumps({"prompt": f"Tell a long story {i}", "max_tokens": 300, "ignore_eos": True}).encode()
        return [self.repeat("flood", "/v1/completions", body(i)) for i in range(400)]

    def encode(self):
        """Prompts that take long to encode, and are too long at the end."""
        text = "".join(self.random.choices("abcdefghijklmnopqrstuvwxyz", k=660_000))
        body = json.dumps({"prompt": text, "max_tokens": 1}).encode()
        keys = [self.args.key, self.args.metered_key or self.args.key]
        return [self.repeat("encode", "/v1/completions", body, pause=0.05, key=keys[i % 2] or "") for i in range(150)]

    def bodies(self):
        """Chunked bodies that never come."""
        async def hold(method, path):
            while True:
                head = self.head("bodies", method, path, ["Transfer-Encoding: chunked"])
                await self.exchange("bodies", head, b"", read=False)
        return [hold("GET", "/livez") for _ in range(64)] + [hold("POST", "/tokenize") for _ in range(64)]

    def helper(self):
        """Large texts for /tokenize; some clients do not read the answer."""
        letters = 8 * "".join(self.random.choices("abcdefghijklmnopqrstuvwxyz", k=1_000_000))
        body = json.dumps({"prompt": letters}).encode()
        rare = ('{"prompt":"' + "\U0002A6D6" * 2_000_000 + '","return_token_strs":true}').encode()

        async def deaf(delay):
            await asyncio.sleep(delay)
            while True:
                await self.post("helper", "/tokenize", rare, receive_buffer=4096, read=False)
        return ([self.repeat("helper", "/tokenize", body, pause=0.3) for _ in range(36)]
                + [deaf(i) for i in range(16)])

    def fields(self):
        """Small bodies that take as long to read as small ones can, and are wrong at the end."""
        body = json.dumps({"prompt": "Hi", "metadata": {str(i): "" for i in range(2400)}, "top_p": "wrong"}).encode()
        return [self.repeat("fields", "/v1/completions", body, pause=0) for _ in range(400)]

    def compiles(self):
        """Schemas that take long to compile, or too long; each is another one, so that none is kept."""
        numbers = itertools.count()

        async def send(schema):
            body = json.dumps({"prompt": "Hi", "max_tokens": 1, "guided_json": schema})
            while True:
                named = body.replace("name", f"n{next(numbers):07}").encode()
                if await self.post("compiles", "/v1/completions", named) not in (200, 400):
                    await asyncio.sleep(0.5)
        return [send(schema) for _ in range(6) for schema in dear_schemas("name").values()]

    def masks(self):
        """Strings near their limit that may not end yet: there it takes longest to find the tokens that may come next."""
        schema = {"type": "array", "items": {"type": "string", "minLength": 4, "maxLength": 7}, "minItems": 900}
        body = json.dumps({"prompt": "Once upon a time", "max_tokens": 2000, "n": 16, "temperature": 1.5,
                           "guided_json": schema}).encode()
        return [self.repeat("masks", "/v1/completions", body)]

    def sockets(self):
        """Connections that stay open, and ask for little now and then."""
        async def idle(i):
            await asyncio.sleep(i * 0.005)
            while True:
                writer = None
                try:
                    reader, writer = await asyncio.open_connection(HOST, self.args.port)
                    while True:
                        writer.write(self.head("sockets", "GET", "/livez", [], key=""))
                        answer = await reader.read(4096)
                        self.counts["sockets"][int(answer[9:12]) if answer[9:12].isdigit() else 0] += 1
                        if not answer:
                            break
                        await asyncio.sleep(5)
                except OSError:
                    self.counts["sockets"][0] += 1
                finally:
                    if writer is not None:
                        writer.transport.abort()
                await asyncio.sleep(1)
        return [idle(i) for i in range(800)]

    async def run(self):
        kinds = self.args.kinds
        tasks = [asyncio.ensure_future(each) for kind in kinds for each in getattr(self, kind)()]
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        while not stop.is_set() and not self.begun.issuperset(kinds):
            await asyncio.sleep(0.05)
        print("ready", flush=True)
        try:
            await asyncio.wait_for(stop.wait(), self.args.seconds)
        except asyncio.TimeoutError:
            pass
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        print(json.dumps({kind: dict(counts) for kind, counts in self.counts.items()}), flush=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end


KINDS = ("slots", "urgent", "sampling", "flood", "encode", "bodies", "helper", "fields", "compiles", "masks",
         "sockets")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key", default="")
    parser.add_argument("--metered-key", default="")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("kinds", nargs="+", choices=KINDS)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(Attack(parser.parse_args()).run())


if __name__ == "__main__":
    sys.exit(main())
