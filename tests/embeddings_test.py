#!/usr/bin/env python3
"""Embeddings of a real model over HTTP: openai's client in front of one `ropeway serve`, and of a gateway before it; a request of 2,048 inputs
beside a chat.

usage: embeddings_test.py --ropeway PROGRAM --model FILE.gguf [unittest flags]
"""
import array
import concurrent.futures
import json
import math
import time
import unittest

from gateway_server import Gateway, backend
from openai_server import ARGS, Server, main

TEXTS = ["The cable car leaves the valley.", "A gondola lift goes up the mountain.", "Bread is made of flour."]
MOST = 2048


def single(numbers):
    """As the floats that they were."""
    return array.array("f", numbers).tolist()


def vectors(reply):
    return [single(one.embedding) for one in reply.data]


class EmbeddingsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.stop)
        cls.client = cls.server.client()

    def embed(self, texts, **more):
        return self.client.embeddings.create(model="default", input=texts, **more)

    def ask(self, path, body):
        status, text = self.server.plain("POST", path, body)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def test_all_paths_tell_the_same(self):
        floats = vectors(self.embed(TEXTS, encoding_format="float"))
        shown = [one.embedding for one in self.embed(TEXTS, encoding_format="float").data]
        self.assertEqual(vectors(self.embed(TEXTS)), floats, "base64, which the client asks for")
        for one in floats:
            self.assertAlmostEqual(math.hypot(*one), 1, places=5)
        self.assertEqual(vectors(self.embed(TEXTS[1])), floats[1:2], "company changes no bit")
        ids = [self.server.tokenize(text) for text in TEXTS]
        self.assertEqual(vectors(self.embed(ids)), floats)
        self.assertEqual(self.embed(ids).usage.prompt_tokens, sum(map(len, ids)))
        self.assertEqual(self.ask("/api/embed", {"model": "default", "input": TEXTS})["embeddings"], shown)
        self.assertEqual([one["embedding"][0] for one in self.ask("/embedding", {"content": TEXTS})], shown)
        old = self.ask("/api/embeddings", {"model": "default", "prompt": TEXTS[0]})["embedding"]
        length = math.hypot(*old)
        self.assertLess(max(abs(x / length - y) for x, y in zip(old, floats[0])), 1e-6)
        for pooling in ("mean", "cls"):
            [other] = vectors(self.embed(TEXTS[0], extra_body={"pooling": pooling}))
            self.assertNotEqual(other, floats[0])

    def test_through_a_gateway(self):
        gateway = Gateway(ARGS.ropeway, *backend(f"http://127.0.0.1:{self.server.port}", kind="ropeway", model="gates"))
        try:
            body = {"input": TEXTS, "pooling": "mean", "dimensions": 32}
            replies = [server.request("POST", "/v1/embeddings", body) for server in (self.server, gateway)]
            self.assertEqual([reply[0] for reply in replies], [200, 200], replies)
            here, there = (json.loads(reply[1]) for reply in replies)
            self.assertEqual(here["data"], there["data"], "the same bits")
            self.assertEqual(here["usage"], there["usage"])
            status, text = gateway.request("POST", "/v1/embeddings", {"input": "a", "dimensions": 100_000})[:2]
            self.assertEqual((status, json.loads(text)["error"]["param"]), (400, "dimensions"))
            gateway.wait_until_idle()
        finally:
            gateway.stop()

    def test_a_chat_beside_the_most_inputs(self):
        """With the default options; it waits behind a window of them, not behind all."""
        inputs = [f"{i % 10}" for i in range(MOST)]
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            begun = time.monotonic()
            embedded = pool.submit(self.embed, inputs)
            before = self.server.metric("ropeway_prompt_tokens_total")
            self.server.wait_for("ropeway_prompt_tokens_total", lambda n: n > before + 200)
            asked = time.monotonic()
            stream = self.client.chat.completions.create(model="default", messages=[{"role": "user", "content": "Hi"}], max_tokens=1,
                                                         stream=True)
            next(iter(stream))
            first = time.monotonic() - asked
            done = embedded.done()
            reply = embedded.result()
            took = time.monotonic() - begun
            stream.close()
        self.assertFalse(done, "the chat came before the inputs had ended")
        self.assertLess(first, took / 3)
        found = vectors(reply)
        self.assertEqual(len(found), MOST)
        for i in (0, 9, 777, MOST - 1):
            self.assertEqual(found[i], found[i % 10], i)
        self.server.wait_until_idle()


if __name__ == "__main__":
    main()
