#!/usr/bin/env python3
"""Streams that outlive their machine: three real Ropeways behind a gateway, of which one after the other is killed by SIGKILL,
stopped in the middle of its work, or drained. Every stream is complete, and to the bit what it is where nothing happens.

usage: gateway_replicas_test.py --ropeway PROGRAM --model FILE.gguf ShortTest|LocalTest|LongTest ...
"""
import concurrent.futures
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import threading
import time

import gateway_server
from gateway_server import ARGS, PATIENCE, Gateway, GatewayCase, Outcome, ask, backend, eventually, together
from ropeway_server import RopewayServer

KEY = "key-of-the-gateway-0123"
KEYS = f'[[keys]]\nname = "gateway"\nkey = "{KEY}"\ngateway = true\n'
REPLICAS = 3
SERVE = ("--threads", "1", "--max-num-seqs", "16", "--kv-cache-size", "96MiB", "--max-wait", "1h", "--drain-timeout", "50ms")
CUT = ". And then"  # A stop string that hardly ever comes; what may begin it is held back.


class Replica(RopewayServer):
    key = KEY


class Fleet:
    """The replicas, on ports that they keep when they are started again. Call it in the main thread."""

    def __init__(self, folder):
        self.keys = pathlib.Path(folder) / "keys.toml"
        self.keys.write_text(KEYS, encoding="utf-8")
        self.keys.chmod(0o600)
        self.servers = []
        for i in range(REPLICAS):
            self.servers.append(self.start(i))

    def start(self, i):
        port = self.servers[i].port if i < len(self.servers) else 0
        return Replica(ARGS.ropeway, ARGS.model, *SERVE, "--api-keys", self.keys, port=port)

    def restart(self, i):
        self.servers[i].process.wait(PATIENCE)
        self.servers[i] = self.start(i)

    def backends(self):
        return [word for i, one in enumerate(self.servers) for word in backend(
            f"http://127.0.0.1:{one.port}", kind="ropeway", model="ours", upstream="default", name=f"replica-{i}",
            key_env="REPLICA_KEY")]

    def running(self):
        """How many requests each computes; 0 of one that is not there."""
        counts = []
        for one in self.servers:
            try:
                counts.append(one.metric("ropeway_num_requests_running"))
            except (OSError, AssertionError):
                counts.append(0)
        return counts

    def stop(self):
        for one in self.servers:
            one.process.send_signal(signal.SIGCONT)
            one.process.kill()
            one.process.wait()


def bodies(count, tokens):
    """(path, body) of requests of all kinds that must survive: each with a seed of its own."""
    made = []
    for i in range(count):
        body = {"model": "ours", "prompt": f"Number {i}. The cable car leaves the valley and", "max_tokens": tokens,
                "temperature": 0.8, "seed": 1000 + i, "ignore_eos": True, "stream": True,
                "stream_options": {"include_usage": True}}
        path = "/v1/completions"
        kind = i % 8
        if kind == 1:
            body |= {"presence_penalty": 0.7, "frequency_penalty": 0.4, "repetition_penalty": 1.15, "top_p": 0.95}
        elif kind == 2:
            body |= {"stop": [CUT, ".\n\n\n", " the the"], "min_tokens": 5}
        elif kind == 3:
            body |= {"n": 2, "logprobs": 1}
        elif kind == 4:
            del body["prompt"]
            path = "/v1/chat/completions"
            body |= {"messages": [{"role": "system", "content": "You tell long stories."},
                                  {"role": "user", "content": f"Tell me story {i}, please."}],
                     "logprobs": True, "top_logprobs": 3}
        elif kind == 5:
            body |= {"logprobs": 0, "top_k": 40, "min_p": 0.02, "logit_bias": {"11": -2.5}}
        elif kind == 6:
            stop = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 30}, "height": {"type": "integer"}},
                    "required": ["name", "height"]}
            schema = {"type": "array", "items": stop, "minItems": 60}
            body |= {"response_format": {"type": "json_schema", "json_schema": {"name": "stops", "schema": schema}}}
        elif kind == 7:
            del body["prompt"]
            path = "/v1/chat/completions"
            text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
            body |= {"messages": [{"role": "user", "content": f"Save story {i}."}], "tool_choice": "required",
                     "tools": [{"type": "function", "function": {"name": "save", "parameters": text}}]}
        made.append((path, body))
    return made


class Streams:
    """Clients that ask for all of the bodies, so many at a time."""

    def __init__(self, port, asked, clients):
        self.port, self.asked = port, asked
        self.outcomes = [Outcome() for _ in asked]
        self.events = 0  # That came, of all streams.
        self.lock = threading.Lock()
        self.pool = concurrent.futures.ThreadPoolExecutor(clients)
        self.futures = [self.pool.submit(self.one, i) for i in range(len(asked))]

    def one(self, i):
        self.outcomes[i] = ask(self.port, *self.asked[i], timeout=PATIENCE, seen=self.count)

    def count(self, _outcome):
        with self.lock:
            self.events += 1

    @property
    def over(self):
        return all(future.done() for future in self.futures)

    def wait(self):
        for future in self.futures:
            future.result(timeout=4 * PATIENCE)
        self.pool.shutdown()
        return self.outcomes


class ReplicasCase(GatewayCase):
    COUNT = TOKENS = CLIENTS = 0

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.fleet = Fleet(folder.name)
        cls.addClassCleanup(cls.fleet.stop)
        cls.asked = bodies(cls.COUNT, cls.TOKENS)
        cls.wanted = cls.undisturbed()
        os.environ["REPLICA_KEY"] = KEY
        cls.gateway = Gateway(ARGS.ropeway, *cls.fleet.backends(), "--backend-idle-timeout", "3s",
                              "--backend-first-byte-timeout", "20s", "--max-wait", "1h")
        cls.addClassCleanup(cls.gateway.process.wait)
        cls.addClassCleanup(cls.gateway.process.kill)

    @classmethod
    def undisturbed(cls):
        """What a Ropeway without a gateway answers."""
        port = cls.fleet.servers[0].port
        direct = [(path, body | {"model": "default"}) for path, body in cls.asked]
        with concurrent.futures.ThreadPoolExecutor(cls.CLIENTS) as pool:
            outcomes = list(pool.map(lambda one: ask(port, *one, key=KEY), direct))
        for (path, body), outcome in zip(direct, outcomes):
            assert outcome.good and outcome.usage["completion_tokens"] <= cls.TOKENS * body.get("n", 1), (path, outcome)
        assert len({str((outcome.text, outcome.more)) for outcome in outcomes}) == len(outcomes), "the texts would show nothing"
        return [outcome.shown() for outcome in outcomes]

    def setUp(self):
        self.events = sum(len(shown[1]) for shown in self.wanted) * self.TOKENS  # About: one for each token.

    def resumptions(self):
        return self.gateway.metric("ropeway_gateway_resumptions_total")

    def victim(self, numbers):
        """One of the replicas that compute streams; None if there is none."""
        running = self.fleet.running()
        there = [i for i, count in enumerate(running) if count > 0]
        return numbers.choice(there) if there else None

    def busiest(self, streams, part):
        """When so much has come: the replica that has most streams, and how many."""
        eventually(lambda: streams.over or streams.events >= part * self.events, f"{part:.0%} of the events", pause=0.002)
        running = self.fleet.running()
        return running.index(max(running)), max(running)

    def all_as_wanted(self, streams):
        for (path, body), outcome, wanted in zip(self.asked, streams.wait(), self.wanted):
            self.assertEqual(outcome.shown(), wanted, (path, body, outcome.raw[-2:]))
        self.gateway.wait_until_idle()


class ShortTest(ReplicasCase):
    COUNT, TOKENS, CLIENTS = 12, 250, 12

    def disturb(self, streams, part, signal_number):
        """A replica that has streams gets a signal."""
        victim, count = self.busiest(streams, part)
        self.assertGreater(count, 0, "nothing ran: this test shows nothing")
        self.fleet.servers[victim].process.send_signal(signal_number)
        return victim

    def test_streams_outlive_sigkill(self):
        before = self.resumptions()
        streams = Streams(self.gateway.port, self.asked, self.CLIENTS)
        for part in (0.2, 0.6):
            self.fleet.restart(self.disturb(streams, part, signal.SIGKILL))
        self.all_as_wanted(streams)
        self.assertGreater(self.resumptions(), before)

    def test_streams_outlive_a_replica_that_hangs(self):
        before = self.resumptions()
        streams = Streams(self.gateway.port, self.asked, self.CLIENTS)
        victim = self.disturb(streams, 0.3, signal.SIGSTOP)
        try:
            self.all_as_wanted(streams)
        finally:
            self.fleet.servers[victim].process.send_signal(signal.SIGCONT)
        self.assertGreater(self.resumptions(), before)
        # What it did for nobody is cancelled.
        eventually(lambda: self.fleet.running()[victim] == 0, "the stopped replica rests")

    def test_a_drained_replica_ends_no_stream(self):
        before = self.resumptions()
        streams = Streams(self.gateway.port, self.asked, self.CLIENTS)
        # Early, so that its streams do not end within --drain-timeout.
        self.fleet.restart(self.disturb(streams, 0.15, signal.SIGTERM))
        self.all_as_wanted(streams)
        self.assertGreater(self.resumptions(), before)

    def test_when_all_are_gone_it_is_one_clear_error(self):
        """And what had not begun comes when they are back."""
        streams = Streams(self.gateway.port, self.asked, self.CLIENTS)
        eventually(lambda: streams.events >= 0.2 * self.events or streams.over, "some of the streams", pause=0.002)
        for one in self.fleet.servers:
            one.process.kill()
        for i in range(REPLICAS):
            self.fleet.restart(i)
        for outcome, wanted in zip(streams.wait(), self.wanted):
            # Either way: resumed on one that was started in time, or told so; never another text.
            self.assertFalse(outcome.cut, outcome)
            self.assertLessEqual(len(outcome.errors), len(wanted[1]))
            if not outcome.errors:
                self.assertEqual(outcome.shown(), wanted)
            for choice, text in outcome.text.items():
                self.assertTrue(wanted[1][choice].startswith(text), (text, wanted[1][choice]))
        self.gateway.wait_until_idle()


class LocalTest(GatewayCase):
    """`--backend local:MODEL`, an engine in the gateway's process, beside a Ropeway that is killed."""

    ENGINE = ("--threads", "1", "--max-num-seqs", "16", "--kv-cache-size", "96MiB")
    TEXT = "The cable car leaves the valley and"

    def answers(self, ask_one):
        """What six requests give that differ by their seeds."""
        return [outcome.shown() for outcome in together(
            lambda seed: ask_one({"prompt": self.TEXT, "max_tokens": 20, "temperature": 0.8, "seed": seed,
                                  "ignore_eos": True, "stream": seed % 2 == 0}), range(6))]

    def completed(self, gateway):
        return {one["name"]: one["completed"] for one in gateway.health()["backends"]}

    def test_an_engine_of_the_gateways_own(self):
        other = RopewayServer(ARGS.ropeway, ARGS.model, *SERVE)
        self.addCleanup(other.process.wait)
        self.addCleanup(other.process.kill)
        gateway = self.start(*backend(f"local:{ARGS.model}", model="ours", name="here"),
                             *backend(f"http://127.0.0.1:{other.port}", kind="ropeway", model="ours", upstream="default",
                                      name="there"), *self.ENGINE, "--max-wait", "1h")
        wanted = self.answers(lambda body: ask(other.port, "/v1/completions", body))
        self.assertGreater(len({str(shown) for shown in wanted}), len(wanted) // 2, "the texts would show nothing")
        self.assertEqual(self.answers(lambda body: gateway.ask("/v1/completions", body)), wanted)
        self.tokenizes(gateway, other)

        other.process.kill()
        other.process.wait()
        before = self.completed(gateway)
        self.assertEqual(self.answers(lambda body: gateway.ask("/v1/completions", body | {"model": "ours"})), wanted)
        after = self.completed(gateway)
        self.assertEqual((after["here"] - before["here"], after["there"] - before["there"]), (len(wanted), 0))
        self.assertEqual(json.loads(gateway.request("POST", "/detokenize", {"tokens": self.ids(gateway)})[1])["prompt"],
                         self.TEXT)

    def test_two_devices_in_one_process(self):
        """The CPU's replica and that of PoCL's OpenCL give the same texts."""
        gateway = self.start(*(word for device in ("cpu", "opencl") for word in backend(
            f"local:{ARGS.model}", model="ours", name=device, device=device)), *self.ENGINE, "--max-wait", "1h")
        alone = self.start(*backend(f"local:{ARGS.model}", model="ours"), *self.ENGINE)
        wanted = self.answers(lambda body: alone.ask("/v1/completions", body))
        before = self.completed(gateway)
        self.assertEqual(self.answers(lambda body: gateway.ask("/v1/completions", body)), wanted)
        after = self.completed(gateway)
        for device in before:
            self.assertGreater(after[device], before[device], device)

    def test_a_device_that_is_not_there_is_said_of_its_backend(self):
        reply = subprocess.run([ARGS.ropeway, "gateway", "--port", "0", *backend(f"local:{ARGS.model}", device="opencl:99")],
                               capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual((reply.returncode, reply.stdout, reply.stderr.count("\n")), (1, "", 1), reply.stderr)
        self.assertIn(f"--backend: 'local:{ARGS.model}': device: there is no OpenCL device 99", reply.stderr)

    def ids(self, server):
        status, text, _ = server.request("POST", "/tokenize", {"prompt": self.TEXT, "add_special_tokens": False})
        self.assertEqual(status, 200, text)
        return json.loads(text)["tokens"]

    def tokenizes(self, gateway, other):
        """By the first model's engine here: as the other server does."""
        self.assertGreater(len(self.ids(gateway)), 3)
        self.assertEqual(self.ids(gateway), self.ids(other))


class LongTest(ReplicasCase):
    """60 streams of 200 tokens; a replica that has some is killed every 3 s for a minute, and started again. The streams are
    over before the minute is, and asked for again. 8 at a time: a stream goes on elsewhere three times at most, and of 60 at
    once on three replicas that share two cores each lasts for so long that more kills would meet it."""

    COUNT, TOKENS, CLIENTS = 60, 200, 8
    SECONDS, EVERY, LEAST_KILLS, LEAST_HITS = 60, 3, 15, 12

    def victim_of(self, streams, numbers):
        """A replica that computes some of them; None if they are over."""
        while not streams.over:
            victim = self.victim(numbers)
            if victim is not None:
                return victim
            time.sleep(0.01)
        return None

    def taken_up(self):
        """How often a request that was at a replica went on, or was sent again, elsewhere."""
        return self.resumptions() + self.gateway.metric("ropeway_gateway_retries_total")

    def test_sixty_streams_outlive_a_kill_every_three_seconds(self):
        numbers = random.Random(16)
        begin = last = time.monotonic()
        kills = hits = rounds = 0
        streams = Streams(self.gateway.port, self.asked, self.CLIENTS)
        while True:
            # From kill to kill, however long a start took: a stream that met two at once would have fewer tries left.
            time.sleep(max(0.0, last + self.EVERY - time.monotonic()))
            last = time.monotonic()
            if streams.over:
                self.all_as_wanted(streams)
                rounds += 1
                if last - begin > self.SECONDS:
                    break
                streams = Streams(self.gateway.port, self.asked, self.CLIENTS)
            if last - begin > self.SECONDS:
                continue
            victim = self.victim_of(streams, numbers)
            if victim is None:
                continue
            before = self.taken_up()
            last = time.monotonic()
            self.fleet.servers[victim].process.kill()
            kills += 1
            self.fleet.restart(victim)
            # It hit something if another replica had to take that up; the start has left the gateway time to see it.
            hits += self.taken_up() > before
        print(f"  {rounds} times {self.COUNT} streams, all as wanted, in {time.monotonic() - begin:.0f} s; {hits} of {kills} "
              f"kills hit requests; {self.taken_up():.0f} were taken up, {self.resumptions():.0f} of them in the middle")
        self.assertGreaterEqual(kills, self.LEAST_KILLS)
        self.assertGreaterEqual(hits, self.LEAST_HITS)
        self.assertGreaterEqual(self.resumptions(), self.LEAST_HITS)


if __name__ == "__main__":
    gateway_server.main()
