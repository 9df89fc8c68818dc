#!/usr/bin/env python3
"""Stored answers outlive their server: `ropeway serve --state-path`, killed by SIGKILL again and again while clients submit,
poll, stream, cancel, and go on by previous_response_id and in conversations.

After each start every answer whose id a client has is there, once, with the text, events and items that a server gives that
was never killed; a stream goes on behind the event that its client had last. Then: a drain parks what is under way, the next
turn finds its blocks after a kill, and another tenant finds nothing.

usage: stored_test.py --ropeway PROGRAM --model TINY.gguf [--least N] [--seed N]

--least: kills until each state of an answer was met so often.
"""
import collections
import json
import pathlib
import random
import sys
import threading
import time

from ropeway_server import RopewayServer, eventually
from stored_client import ENDED, Events, call, path_of, plain, replay, status_of, stream
from stored_jobs import Clients, Wrong, check_all, failing_jobs, jobs_of, never_killed, refused_with, run

STATES = ("queued", "in_progress", "completed", "incomplete", "cancelled", "failed")
KEY, OTHER_KEY, ADMIN_KEY = "key-of-a-tenant", "key-of-another-tenant", "key-of-the-admin"
KEYS = "".join(f'[[keys]]\nname = "{name}"\nkey = "{key}"\n' for name, key in (("ours", KEY), ("theirs", OTHER_KEY)))
# Few slots, so that some wait.
SERVE = ("--threads", "2", "--max-num-seqs", "3", "--kv-cache-size", "32MiB", "--max-wait", "1h", "--drain-timeout", "100ms")
CLIENTS = 8
LEAST_CACHED = 0.95  # Of what a turn finds where no kill came before it.


class Server(RopewayServer):
    key, admin_key = KEY, ADMIN_KEY
    failure = Wrong

    def __init__(self, args, folder, name, *flags):
        folder = pathlib.Path(folder)
        super().__init__(args.ropeway, args.model, *SERVE, "--state-path", folder / name, "--kv-disk-path", folder / f"{name} blocks",
                         "--kv-disk-size", "1GiB", "--kv-disk-write-rate", "200MB/s", "--api-keys", keys_file(folder),
                         "--admin-key", ADMIN_KEY, *flags)

    def call(self, method, path, body=None, key=KEY):
        return call(self.port, method, path, body, key)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def drain(self):
        """SIGTERM; the exit code."""
        self.process.terminate()
        try:
            return self.process.wait(timeout=30)
        finally:
            self.kill()


def keys_file(folder):
    file = pathlib.Path(folder) / "keys.toml"
    file.write_text(KEYS, encoding="utf-8")
    file.chmod(0o600)
    return file


class Killer:
    """Servers in a row, each with what the one before has stored."""

    def __init__(self, args, start, jobs, wanted, states=STATES):
        self.args, self.start, self.states = args, start, states
        self.numbers = random.Random(args.seed)
        self.hits = collections.Counter()
        self.kills = 0
        self.clients = Clients(jobs, wanted, KEY, args.seed, CLIENTS)

    def kill_once(self, server, kill):
        target = min(self.states, key=lambda state: (self.hits[state], self.numbers.random()))
        time.sleep(self.numbers.uniform(0.05, 0.4))
        self.clients.wait_for(target, 3)
        hit = self.clients.hit()
        kill(server)
        self.clients.serve(None)
        self.kills += 1
        self.hits.update(hit)
        print(f"kill {self.kills:3}, at {target}: {', '.join(sorted(hit))}; {len(self.clients.accepted)} accepted", flush=True)
        if self.clients.wrong:
            raise Wrong(self.clients.wrong[0])

    def run(self, kill, at_least=1):
        """Kills until each state was met, and so often; the last server, which lives on."""
        begin = time.monotonic()
        while self.kills < at_least or any(self.hits[state] < self.args.least for state in self.states):
            if time.monotonic() - begin > 1000:
                raise Wrong(f"not all states are met: {dict(self.hits)}")
            server = self.start()
            self.clients.serve(server.port)
            self.kill_once(server, kill)
        server = self.start()
        self.clients.serve(server.port)
        self.clients.stop()
        if self.clients.wrong:
            raise Wrong(f"{self.clients.wrong[0]}\n{server.output()[-3000:]}")
        print(f"{self.kills} kills ({', '.join(f'{state} {self.hits[state]}' for state in STATES)}); "
              f"{len(self.clients.accepted)} answers and conversations of {sum(self.clients.done.values())} jobs, all as wanted; "
              f"cut: {dict(self.clients.cuts)}", flush=True)
        return server


def wait_until_ended(server, ids):
    for identifier in ids:
        eventually(lambda one=identifier: status_of(server.call("GET", path_of(one))) in ENDED, f"{identifier} has ended")


def check_strangers(server, clients):
    """Another tenant finds none of it."""
    for identifier in sorted(clients.accepted)[:10]:
        path = path_of(identifier)
        for method, path in (("GET", path), ("DELETE", path)):
            refused_with(404, server.call, method, path, key=OTHER_KEY)
        if identifier.startswith("resp_"):
            refused_with(404, server.call, "GET", f"{path}/input_items", key=OTHER_KEY)
            refused_with(404, server.call, "POST", f"{path}/cancel", {}, key=OTHER_KEY)
    mine = server.call("GET", "/admin/stored?limit=10000&tenant=theirs", key=ADMIN_KEY)["data"]
    if mine:
        raise Wrong(f"another tenant has {mine[:2]}")


def check_drain(args, folder):
    """SIGTERM parks what is in the background: the next start goes on, and ends with the text that it would have been."""
    bodies = [{"input": f"ticket {i}", "seed": i, "temperature": 1, "max_output_tokens": 2500, "ignore_eos": True,
               "background": True} for i in range(5)]
    server = Server(args, folder, "drained")
    ids = [server.call("POST", "/v1/responses", body)["id"] for body in bodies]
    eventually(lambda: sum(server.call("GET", path_of(one))["status"] == "in_progress" for one in ids) >= 2, "two run")
    watched = Events()
    reader = threading.Thread(target=stream, args=(server.port, "POST", "/v1/responses", bodies[0] | {"stream": True}, KEY, watched))
    reader.start()
    eventually(lambda: watched.identifier, "a stream has begun")
    begin = time.monotonic()
    code = server.drain()
    took = time.monotonic() - begin
    reader.join()
    if code != 0 or took > 5:
        raise Wrong(f"the drain ended after {took:.1f} s with exit code {code}")
    server = Server(args, folder, "drained")
    states = [server.call("GET", path_of(one))["status"] for one in ids]
    wait_until_ended(server, ids)
    parked = [plain(server.call("GET", path_of(one))) for one in ids]
    again = [server.call("POST", "/v1/responses", body)["id"] for body in bodies]
    wait_until_ended(server, again)
    if parked != [plain(server.call("GET", path_of(one))) for one in again]:
        raise Wrong("what was parked ends with another text")
    # The stream broke off: an end would be of an answer that does not go on.
    if any(event["type"] in ("response.failed", "error") for event in watched.seen):
        raise Wrong("a stream whose answer goes on was told that it failed")
    watched.whole = False
    stream(server.port, "GET", f"{path_of(watched.identifier)}?stream=true&starting_after={watched.last}", None, KEY, watched)
    if plain(watched.seen) != plain(replay(server.port, watched.identifier, KEY).seen) or not watched.whole:
        raise Wrong("a stream that the drain has cut goes on otherwise")
    server.kill()
    print(f"a drain of {took:.2f} s; at the next start: {', '.join(states)}", flush=True)
    if "in_progress" not in states and "queued" not in states:
        raise Wrong("the drain waited for all: it parked nothing")


def check_cached(args, folder):
    """The next turn finds its blocks after a kill: at least LEAST_CACHED of what it finds without one."""
    text = " ".join(f"{i} the cable car leaves the valley." for i in range(40))
    first = {"input": text, "seed": 1, "temperature": 1, "max_output_tokens": 200, "ignore_eos": True}
    more = {"input": "And then?", "seed": 2, "temperature": 1, "max_output_tokens": 8, "ignore_eos": True}

    def turn(server, parent):
        return server.call("POST", "/v1/responses", more | {"previous_response_id": parent})

    cached, texts = {}, set()
    for kill in (False, True):
        name = f"cached, {'a' if kill else 'no'} kill"
        server = Server(args, folder, name)
        parent = server.call("POST", "/v1/responses", first)["id"]
        # Blocks are flushed a moment after they are full.
        eventually(lambda: settled(server), "the tier has written them")
        if kill:
            server.kill()
            server = Server(args, folder, name)
        answer = turn(server, parent)
        cached[kill] = answer["usage"]["input_tokens_details"]["cached_tokens"]
        texts.add(json.dumps(plain(answer["output"])))
        server.kill()
    if not cached[False] > 1000 or cached[True] < LEAST_CACHED * cached[False] or len(texts) != 1:
        raise Wrong(f"cached tokens of the next turn: {cached[True]} after a kill, {cached[False]} without; texts: {texts}")
    print(f"cached tokens of the next turn: {cached[True]} after a kill, {cached[False]} without", flush=True)


def settled(server, pause=0.5):
    """The tier has blocks, and gets no more."""
    before = server.metric("ropeway_kv_disk_blocks")
    time.sleep(pause)
    return before > 0 and server.metric("ropeway_kv_disk_blocks") == before


def test(args, folder):
    jobs = jobs_of(args.seed) + failing_jobs(args.seed)
    undisturbed = Server(args, folder, "undisturbed")
    wanted = never_killed(undisturbed.port, jobs, KEY)
    undisturbed.kill()
    killer = Killer(args, lambda: Server(args, folder, "killed"), jobs, wanted)
    server = killer.run(Server.kill)
    check_all(server.port, killer.clients, ADMIN_KEY)
    check_strangers(server, killer.clients)
    server.kill()
    check_drain(args, folder)
    check_cached(args, folder)


if __name__ == "__main__":
    sys.exit(run(test, least=3))
