#!/usr/bin/env python3
"""The suite `llama`: `ropeway gateway` before a real llama-server, and before one and a Ropeway together. The first run builds
llama-server (scripts/build_llama_server.sh, about 10 minutes on two cores, once); where that fails, the suite fails.

    ./test --suite llama

usage: gateway_llama_test.py --ropeway PROGRAM --model FILE.gguf [--llama-server PROGRAM]
"""
import concurrent.futures
import json
import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.request

import child
import gateway_server
import llamacpp_shapes
from gateway_server import ARGS, PATIENCE, SOON, GatewayCase, ask, backend, eventually, together
from ropeway_server import RopewayServer

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLOTS = 4
GREEDY = {"temperature": 0, "seed": 1}


def llama_server():
    """The program: given, or built where it is missing."""
    if ARGS.llama_server:
        return ARGS.llama_server
    reply = subprocess.run([ROOT / "scripts" / "build_llama_server.sh"], stdout=subprocess.PIPE, text=True, check=False)
    assert reply.returncode == 0, "llama-server could not be built (see above)"
    return reply.stdout.strip()


class LlamaServer:
    """A real one, with so many slots. Start it in the main thread (child.py)."""

    def __init__(self, port=0, flags=()):
        if not port:
            with socket.create_server(("127.0.0.1", 0)) as probe:
                port = probe.getsockname()[1]
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self.log = tempfile.TemporaryFile()
        self.process = child.start([llama_server(), "-m", ARGS.model, "-np", SLOTS, "-c", SLOTS * 1024, "-t", 2, "--port", port,
                                    "--metrics", *flags], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        eventually(self.is_ready, "llama-server is ready", pause=0.1)

    def is_ready(self):
        assert self.process.poll() is None, "llama-server ended"
        try:
            return self.get("/health") is not None
        except OSError:
            return False

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as reply:
            return json.loads(reply.read())

    def busy(self):
        return sum(slot["is_processing"] for slot in self.get("/slots"))

    def ask(self, path, body):
        return ask(self.port, path, body)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class EmbeddingsTest(GatewayCase):
    """Before a llama-server that embeds, and a Ropeway with the same model."""

    def test_vectors_are_those_of_the_server(self):
        llama = LlamaServer(flags=("--embeddings", "--pooling", "last"))
        self.addCleanup(llama.kill)
        ropeway = RopewayServer(ARGS.ropeway, ARGS.model)
        self.addCleanup(lambda: (ropeway.process.kill(), ropeway.process.wait()))
        texts = ["The cable car leaves the valley.", "Bread is made of flour.", *(f"Number {i}." for i in range(60))]
        gateway = self.start(*backend(llama.url, kind="llamacpp", model="theirs"),
                             *backend(f"http://127.0.0.1:{ropeway.port}", kind="ropeway", model="ours"))
        found = {}
        for model in ("theirs", "ours"):
            status, text = gateway.request("POST", "/v1/embeddings", {"model": model, "input": texts})[:2]
            self.assertEqual(status, 200, text)
            reply = json.loads(text)
            found[model] = [one["embedding"] for one in reply["data"]]
            self.assertGreater(reply["usage"]["prompt_tokens"], 5 * len(texts) / 2)
        for theirs, ours in zip(found["theirs"], found["ours"]):
            self.assertGreater(sum(a * b for a, b in zip(theirs, ours)), 0.99)
        # What the kind cannot do is named.
        for field, value in (("pooling", "mean"), ("dimensions", 100_000)):
            status, text = gateway.request("POST", "/v1/embeddings", {"model": "theirs", "input": "a", field: value})[:2]
            self.assertEqual((status, json.loads(text)["error"]["param"]), (400, field), text)
        [short] = json.loads(gateway.request("POST", "/v1/embeddings", {"model": "theirs", "input": texts[0], "dimensions": 8})[1])["data"]
        self.assertEqual(len(short["embedding"]), 8)

    def test_a_server_without_embeddings_says_so(self):
        llama = LlamaServer()
        self.addCleanup(llama.kill)
        gateway = self.start(*backend(llama.url, kind="llamacpp", model="theirs"))
        status, text = gateway.request("POST", "/v1/embeddings", {"model": "theirs", "input": "a"})[:2]
        self.assertGreaterEqual(status, 400)
        self.assertIn("embeddings", json.loads(text)["error"]["message"])


class LlamaTest(GatewayCase):
    @classmethod
    def setUpClass(cls):
        cls.llama = LlamaServer()
        cls.addClassCleanup(lambda: cls.llama.kill())

    def test_answers_are_those_of_the_server(self):
        asked = [("/v1/completions", {"prompt": "The cable car leaves the valley and", "max_tokens": 24}),
                 ("/v1/chat/completions", {"messages": [{"role": "user", "content": "What is a gondola lift?"}],
                                           "max_tokens": 24}),
                 ("/v1/completions", {"prompt": "1, 2, 3, 4, 5, 6, 7,", "max_tokens": 30, "stop": ["11"]})]
        for kind in ("llamacpp", "openai"):
            gateway = self.start(*backend(self.llama.url, kind=kind, model="theirs"))
            for path, body in asked:
                for stream in (True, False):
                    with self.subTest(kind=kind, path=path, stream=stream):
                        wanted = self.llama.ask(path, body | GREEDY | {"model": "theirs", "stream": stream})
                        outcome = gateway.ask(path, body | GREEDY | {"model": "theirs", "stream": stream,
                                                                     **({"stream_options": {"include_usage": True}}
                                                                        if stream else {})})
                        self.assertTrue(outcome.good, outcome)
                        self.assertEqual((outcome.text, outcome.reasons), (wanted.text, wanted.reasons))
                        self.assertGreater(outcome.usage["prompt_tokens"], 3)
                        self.assertGreater(outcome.usage["completion_tokens"], 3)

    def test_its_own_api_answers_as_is_recorded(self):
        recorded = json.loads(llamacpp_shapes.RECORDED.read_text(encoding="utf-8"))
        for name in llamacpp_shapes.REQUESTS:
            with self.subTest(name):
                self.assertEqual(list(llamacpp_shapes.ask(self.llama.port, name)), recorded[name])

    def test_its_slots_are_the_places_and_classes_hold(self):
        gateway = self.start(*backend(self.llama.url, kind="llamacpp", model="theirs"))
        self.assertTrue(gateway.complete("Hello", 2).good)
        most, ends = [], []
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            def one(name, priority):
                outcome = gateway.complete(f"{name}: once upon a time", 48, priority=priority, ignore_eos=True)
                ends.append(name)
                return outcome
            asked = [pool.submit(one, f"low {i}", 2) for i in range(12)]
            eventually(lambda: self.llama.busy() == SLOTS, "all slots are busy")
            asked.append(pool.submit(one, "high", 0))
            while not all(future.done() for future in asked):
                most.append(self.llama.busy())
                time.sleep(0.05)
            for future in asked:
                self.assertTrue(future.result().good, future.result())
        self.assertLessEqual(max(most), SLOTS)
        # Those that ran when it came go before it, and no more than a batch of others.
        self.assertLess(ends.index("high"), 3 * SLOTS - 2)
        deferred = [line for line in urllib.request.urlopen(self.llama.url + "/metrics", timeout=PATIENCE).read().decode()
                    .splitlines() if line.startswith("llamacpp:requests_deferred")]
        self.assertTrue(all(float(line.split()[1]) == 0 for line in deferred), deferred)

    def test_batches(self):
        gateway = self.start(*backend(self.llama.url, kind="llamacpp", model="theirs"), "--dispatch", "batch",
                             "--max-batch-size", SLOTS)
        for outcome in together(lambda i: gateway.complete(f"Number {i}:", 8), range(8)):
            self.assertTrue(outcome.good, outcome)
        batching = gateway.health()["batching"]
        self.assertGreaterEqual(batching["avg_batch_size"], 2)
        self.assertEqual(batching["total_requests"], 8)

    def test_a_client_that_is_gone_frees_its_slot(self):
        gateway = self.start(*backend(self.llama.url, kind="llamacpp", model="theirs"))
        eventually(lambda: self.llama.busy() == 0, "it rests")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(ask, gateway.port, "/v1/completions",
                        {"prompt": "On and on", "max_tokens": 900, "ignore_eos": True}, timeout=1)
            eventually(lambda: self.llama.busy() == 1, "it works for the client")
        # Its time was up.
        eventually(lambda: self.llama.busy() == 0, "its slot is free", SOON)

    def test_it_is_killed_and_comes_back(self):
        gateway = self.start(*backend(self.llama.url, kind="llamacpp", model="theirs"), "--hold-timeout", "60s")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            begun = []
            cut = pool.submit(ask, gateway.port, "/v1/completions",
                              {"prompt": "On and on", "max_tokens": 800, "ignore_eos": True, "stream": True},
                              seen=lambda outcome: begun.append(1))
            eventually(lambda: len(begun) > 3, "the stream has begun")
            self.llama.kill()
            outcome = cut.result(timeout=PATIENCE)
            self.assertTrue(outcome.failed, outcome.errors)
            self.assertIn(str(self.llama.port), outcome.errors[0])
            held = pool.submit(gateway.complete, "Are you back?", 4)
            type(self).llama = LlamaServer(self.llama.port)
            self.assertTrue(held.result(timeout=PATIENCE).good, held.result())

    def test_beside_a_ropeway(self):
        """Two models, each of its own engine, under one roof."""
        ours = RopewayServer(ARGS.ropeway, ARGS.model, "--threads", "1", "--kv-cache-size", "128MiB")
        self.addCleanup(ours.process.wait)
        self.addCleanup(ours.process.kill)
        gateway = self.start(*backend(self.llama.url, kind="llamacpp", model="theirs"),
                             *backend(f"http://127.0.0.1:{ours.port}", kind="ropeway", model="ours", upstream="default"))
        for model in ("theirs", "ours"):
            outcome = gateway.complete("The capital of France is", 5, model=model, **GREEDY)
            self.assertTrue(outcome.good, outcome)
            self.assertIn("Paris", outcome.text[0])
        names = [model["id"] for model in json.loads(gateway.get("/v1/models")[1])["data"]]
        self.assertEqual(sorted(names), ["ours", "theirs"])


if __name__ == "__main__":
    gateway_server.main()
