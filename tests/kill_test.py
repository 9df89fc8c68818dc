#!/usr/bin/env python3
"""`ropeway serve` with a disk tier, killed by SIGKILL again and again while clients stream at temperature 1.

A client whose stream was cut sends the same request with its seed again to the next server. What each was
sent before a cut must be the beginning of, and what it ends with must be, the text of a server that was
never killed. After each start: nothing that had been flushed is missing, and no block is found broken.

Each kill is logged with what it interrupted: requests that were queued, in prefill or in decode, and what
the tier was doing (the file UNDER_WAY in its directory outlives the kill): writing, compacting, dropping.

usage: kill_test.py --ropeway PROGRAM --model TINY.gguf [--seconds N | --least N] [--seed N] [--plant NAME]

--seconds: kills for so long, or longer until there was something to see. --least: until each state was hit so often.
--plant: the program is ropeway_planted, and the exit code is 0 only where the test finds this bug in it.
"""
import argparse
import collections
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import threading
import time

from ropeway_server import PATIENCE, RopewayServer

STATES = ("queued", "prefill", "decode", "writing", "compacting")
ADMIN_KEY = "kill-test"
CLIENTS = 6
# A pool for about two of the longest requests: blocks are evicted, requests are preempted.
SERVE = ("--threads", "2", "--max-num-seqs", "4", "--kv-cache-size", "8MiB", "--max-num-batched-tokens", "128",
         "--prefix-caching", "on", "--admin-key", ADMIN_KEY, "--log-level", "info")


class Wrong(Exception):
    """What the test is there to find."""


class Server(RopewayServer):
    key = ADMIN_KEY
    failure = Wrong

    def __init__(self, args, *flags):
        environment = {**os.environ, **({"ROPEWAY_PLANT": args.plant} if args.plant else {})}
        super().__init__(args.ropeway, args.model, *SERVE, *flags, environment=environment)

    def metrics(self):
        text = self.get("/metrics")[1]
        return {name: float(number) for name, number in
                re.findall(r"^(ropeway_kv_disk_\w+) ([0-9.e+-]+)$", text, re.MULTILINE)}

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def requests(seed):
    """What the clients ask: token ids, so that lengths are known; several share a beginning."""
    numbers = random.Random(seed)
    ids = lambda count: [numbers.randrange(3, 267) for _ in range(count)]
    shared = [ids(600), ids(1200)]
    made = []
    for i in range(24):
        beginning = shared[i % 2] if i % 3 else []
        made.append({"prompt": beginning + ids(numbers.choice((20, 150, 1500))), "temperature": 1, "seed": i,
                     "max_tokens": numbers.choice((16, 60, 250)), "ignore_eos": True, "stream": True,
                     "stream_options": {"include_usage": True}})
    return made


class Stream:
    """One request's answer, as far as it came."""

    def __init__(self):
        self.text = ""
        self.tokens = False  # The first has come.
        self.usage = None
        self.error = None
        self.whole = False


def ask(port, body, stream):
    """Reads the answer into `stream`; returns where it ends or is cut."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        if reply.status != 200:
            stream.error = f"{reply.status}: {reply.read().decode()}"
            return
        while line := reply.readline():
            if not line.startswith(b"data: "):
                continue
            data = line[len(b"data: "):].strip()
            if data == b"[DONE]":
                stream.whole = True
                return
            event = json.loads(data)
            if "error" in event:
                stream.error = str(event["error"])
                return
            stream.usage = event.get("usage") or stream.usage
            for choice in event.get("choices", []):
                stream.tokens = True
                stream.text += choice["text"]
    except (OSError, http.client.HTTPException, ValueError):
        pass  # Cut.
    finally:
        connection.close()


class Clients:
    """Threads that ask one request after the other, and again where they were cut."""

    def __init__(self, bodies, wanted, seed):
        self.bodies, self.wanted, self.seed = bodies, wanted, seed
        self.lock = threading.Condition()
        self.port = None
        self.stopping = False
        self.wrong = []
        self.under_way = set()  # Streams.
        self.done, self.cut, self.cached, self.servers = 0, 0, 0, 0
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def serve(self, port):
        """The next server; None: there is none now."""
        with self.lock:
            self.port = port
            self.servers += port is not None
            self.lock.notify_all()

    def run(self, number):
        numbers = random.Random(self.seed * 100 + number)
        again = None
        while True:
            with self.lock:
                self.lock.wait_for(lambda: self.stopping or self.port is not None)
                if self.stopping:
                    return
                port = self.port
                which = numbers.randrange(len(self.bodies)) if again is None else again
                # Of half of them the blocks have other names after every third kill: so there is always
                # something to be written. The text is the same.
                salt = {"cache_salt": f"after {self.servers // 3}"} if which % 2 else {}
                stream = Stream()
                self.under_way.add(stream)
            ask(port, {**self.bodies[which], **salt}, stream)
            with self.lock:
                self.under_way.discard(stream)
                again = self.judge(which, stream)
                if again is not None and self.port == port:
                    # The kill has cut us before its author said so.
                    self.lock.wait_for(lambda: self.stopping or self.port != port, timeout=PATIENCE)

    def judge(self, which, stream):
        """The request to be sent again, if it is."""
        wanted = self.wanted[which]
        if stream.error:
            self.wrong.append(f"request {which} failed: {stream.error}")
        elif stream.whole and stream.text != wanted:
            self.wrong.append(f"request {which}: {stream.text!r} instead of {wanted!r}")
        elif not wanted.startswith(stream.text):
            self.wrong.append(f"request {which}: {stream.text!r} does not begin {wanted!r}")
        elif not stream.whole:
            self.cut += 1
            return which
        else:
            self.done += 1
            self.cached += stream.usage["prompt_tokens_details"]["cached_tokens"] if stream.usage else 0
        return None

    def counts(self):
        """How many streams have no token yet, and how many have some."""
        with self.lock:
            begun = sum(stream.tokens for stream in self.under_way)
            return len(self.under_way) - begun, begun

    def stop(self):
        with self.lock:
            self.stopping = True
            self.lock.notify_all()
        for thread in self.threads:
            thread.join(timeout=PATIENCE)


class Killer:
    def __init__(self, args, folder):
        self.args = args
        self.disk = pathlib.Path(folder) / "blocks"
        self.flags = ["--kv-disk-path", str(self.disk), "--kv-disk-size", "4GiB", "--kv-disk-write-rate", "200MB/s"]
        self.numbers = random.Random(args.seed)
        self.hits = collections.Counter()
        self.kills = 0
        self.read_from_disk = 0
        self.last = {}  # The tier's metrics of the server before, as last seen.

    def marks(self):
        try:
            return (self.disk / "UNDER_WAY").read_bytes()
        except FileNotFoundError:
            return b""

    def start(self):
        server = Server(self.args, *self.flags)
        try:
            found = server.metrics()["ropeway_kv_disk_blocks"]
            # Nothing is dropped in so much space: what was flushed before the kill is there.
            flushed = self.last.get("ropeway_kv_disk_blocks", 0)
            if found < flushed:
                raise Wrong(f"of {flushed:.0f} flushed blocks {found:.0f} are found again\n{server.output()}")
        except BaseException:
            server.kill()
            raise
        return server

    def check(self, server):
        now = server.metrics()
        if now["ropeway_kv_disk_on"] != 1 or now["ropeway_kv_disk_rejected_blocks_total"] != 0:
            raise Wrong(f"the tier is not whole: {now}\n{server.output()}")
        status, text, _ = server.get("/livez")
        if status != 200:
            raise Wrong(f"/livez: {status} {text}")
        return now

    def wait_for(self, state, server, clients):
        """Until the server is in `state`, as far as one can see, or for a few seconds."""
        # Tables are merged once in eight flushes, and flushes come 200 ms apart.
        deadline = time.monotonic() + (8 if state == "compacting" else 3)
        while time.monotonic() < deadline:
            if state in ("writing", "compacting"):
                if state[0].encode() in self.marks():
                    return
                time.sleep(0.0002)
                continue
            if self.requests_in(server, clients)[state] > 0:
                return
            time.sleep(0.002)

    def requests_in(self, server, clients):
        started = [one["started"] for one in json.loads(server.get("/admin/requests")[1])["data"]]
        without, begun = clients.counts()
        # A started request of which no token has come computes its prompt, or its first token is on the way.
        prefill = max(0, min(without, sum(started) - begun))
        return {"queued": started.count(False), "prefill": prefill, "decode": begun}

    def kill(self, server, clients):
        target = min(STATES, key=lambda state: (self.hits[state], self.numbers.random()))
        time.sleep(self.numbers.uniform(0.1, 1.0))
        self.last = self.check(server)
        self.wait_for(target, server, clients)
        if target not in ("writing", "compacting"):
            seen = self.requests_in(server, clients)
            server.process.kill()
        else:
            server.process.kill()
            without, begun = clients.counts()
            seen = {"decode": begun, "queued": 0, "prefill": 0}
        clients.serve(None)
        self.read_from_disk += self.last["ropeway_kv_disk_fetched_blocks_total"]
        server.kill()
        marks = self.marks()
        hit = [state for state, count in seen.items() if count > 0]
        hit += [name for name, letter in (("writing", b"w"), ("compacting", b"c"), ("dropping", b"d"))
                if letter in marks]
        self.hits.update(hit)
        self.kills += 1
        print(f"kill {self.kills:3}: {', '.join(hit) or 'idle'}; {self.last['ropeway_kv_disk_blocks']:.0f} blocks",
              flush=True)

    def enough(self, since, clients):
        if self.args.least:
            if time.monotonic() - since > 1200:
                raise Wrong(f"20 minutes of kills did not show enough: {dict(self.hits)}, {clients.cut} cuts, "
                            f"{self.read_from_disk:.0f} blocks read back")
            return all(self.hits[state] >= self.args.least for state in STATES) and self.shows(clients)
        elapsed = time.monotonic() - since
        # A slow machine may need longer to show anything.
        return elapsed > self.args.seconds and (self.shows(clients) or elapsed > 300)

    def shows(self, clients):
        return clients.done > 0 and clients.cut > 0 and self.read_from_disk > 0


def never_killed(args, bodies):
    """The texts of a server without a disk tier."""
    server = Server(args)
    try:
        streams = [Stream() for _ in bodies]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda pair: ask(server.port, *pair), zip(bodies, streams)))
        for stream in streams:
            if not stream.whole:
                raise Wrong(f"a request to the server that is never killed fails: {stream.error}\n{server.output()}")
        return [stream.text for stream in streams]
    finally:
        server.kill()


def run(args, folder):
    bodies = requests(args.seed)
    wanted = never_killed(args, bodies)
    if len(set(wanted)) < len(wanted) // 2:
        raise Wrong("the model's answers hardly differ: they would show nothing")
    killer = Killer(args, folder)
    clients = Clients(bodies, wanted, args.seed)
    since = time.monotonic()
    server = None
    try:
        while not killer.enough(since, clients):
            server = killer.start()
            clients.serve(server.port)
            killer.kill(server, clients)
            if clients.wrong:
                raise Wrong(clients.wrong[0])
        # The last one lives on: all that is under way ends.
        server = killer.start()
        clients.serve(server.port)
        stopper = threading.Thread(target=clients.stop)
        stopper.start()
        stopper.join(timeout=PATIENCE)
        if clients.wrong:
            raise Wrong(clients.wrong[0])
        killer.check(server)
        reread(server, bodies, wanted)
    finally:
        if server is not None:
            server.kill()
    states = ", ".join(f"{state} {killer.hits[state]}" for state in (*STATES, "dropping"))
    print(f"{killer.kills} kills in {time.monotonic() - since:.0f} s ({states}); {clients.done} answers, all as "
          f"wanted, after {clients.cut} cuts; {clients.cached} cached prompt tokens; at least "
          f"{killer.read_from_disk:.0f} blocks read back from disk")
    if not killer.shows(clients):
        raise Wrong("nothing was answered, cut or read back: the test showed nothing")


def reread(server, bodies, wanted):
    """Each request once more, to the last server: its blocks are in some tier."""
    for body, text in zip(bodies, wanted):
        stream = Stream()
        ask(server.port, body, stream)
        if not stream.whole or stream.text != text:
            raise Wrong(f"at the end: {stream.error or stream.text!r} instead of {text!r}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--least", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plant", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ropeway-kill-test-") as folder:
        try:
            run(args, folder)
        except Wrong as wrong:
            print(f"WRONG: {wrong}")
            return 0 if args.plant else 1
    if args.plant:
        print(f"the planted bug {args.plant} was not found")
    return 1 if args.plant else 0


if __name__ == "__main__":
    sys.exit(main())
