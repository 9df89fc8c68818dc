#!/usr/bin/env python3
"""Embeddings as real programs ask for them: openai, langchain-openai (which sends token ids), litellm and ollama, each from PyPI in a
venv of its own, before a `ropeway serve` and a gateway before it.

usage: embedding_clients_test.py --ropeway PROGRAM --model FILE.gguf     (./test --suite clients)
"""
import argparse
import contextlib
import json
import math
import os
import pathlib
import re
import sys
import unittest
import urllib.request

OPENAI = ("openai==3.57.0", "langchain-openai==1.7.4")
PACKAGES = {"OpenAiTest": OPENAI, "LangChainTest": OPENAI, "LiteLlmTest": ("litellm==1.110.2",), "OllamaTest": ("ollama==0.6.3",)}
URLS = os.environ.get("ROPEWAY_TEST_URLS", "").split()  # Set where a test runs in its venv.
DOCS = pathlib.Path(__file__).parent.parent / "docs"
TEXTS = ["The cable car leaves the valley.", "A gondola lift goes up the mountain.", "Bread is made of flour."]
EXACT = 1e-7


def plain(url, texts, **more):
    """The vectors, without a client."""
    body = json.dumps({"input": texts, **more}).encode()
    request = urllib.request.Request(f"{url}/v1/embeddings", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as reply:
        return [one["embedding"] for one in json.loads(reply.read())["data"]]


class ClientCase(unittest.TestCase):
    def each(self):
        """Each server's URL with what it answers for TEXTS."""
        return [(url, plain(url, TEXTS)) for url in URLS]

    def check_same(self, given, wanted):
        self.assertEqual(len(given), len(wanted))
        for one, other in zip(given, wanted):
            self.assertEqual(len(one), len(other))
            self.assertLess(max(abs(a - b) for a, b in zip(one, other)), EXACT)


class OpenAiTest(ClientCase):
    def test_embeddings(self):
        import openai

        for url, wanted in self.each():
            client = openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, timeout=300)
            # By itself it asks for base64.
            for encoding in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
                reply = client.embeddings.create(model="default", input=TEXTS, **encoding)
                self.assertEqual([one.index for one in reply.data], [0, 1, 2])
                self.assertGreater(reply.usage.prompt_tokens, 12)
                if encoding.get("encoding_format") != "base64":
                    self.check_same([one.embedding for one in reply.data], wanted)
            short = client.embeddings.create(model="default", input=TEXTS[0], dimensions=16).data[0].embedding
            self.assertEqual(len(short), 16)
            self.assertAlmostEqual(math.hypot(*short), 1, places=5)
            scale = math.hypot(*wanted[0][:16])
            self.check_same([short], [[x / scale for x in wanted[0][:16]]])
            many = client.embeddings.create(model="default", input=[f"{i}" for i in range(300)])
            self.assertEqual([one.index for one in many.data], list(range(300)))
            for wrong in ({"dimensions": 100_000}, {"input": ""}, {"extra_body": {"truncate_prompt_tokens": 4}}):
                with self.assertRaises(openai.BadRequestError) as raised:
                    client.embeddings.create(**{"model": "default", "input": "a", **wrong})
                name = next(iter(wrong.get("extra_body", wrong)))
                self.assertEqual(raised.exception.param, name, raised.exception)

    def test_its_page(self):
        """The page's first example in Python runs as it is."""
        block = re.search(r"```python\n(from openai.*?)```", (DOCS / "embeddings.md").read_text(), re.DOTALL).group(1)
        out = []
        exec(block.replace("http://127.0.0.1:8080", URLS[0]), {"print": lambda *words: out.extend(words)})
        self.assertEqual(out[0], len(plain(URLS[0], TEXTS[:1])[0]))


class LangChainTest(ClientCase):
    def test_embeddings(self):
        from langchain_openai import OpenAIEmbeddings

        for url, wanted in self.each():
            given = OpenAIEmbeddings(model="default", base_url=f"{url}/v1", api_key="any", check_embedding_ctx_length=False)
            self.check_same(given.embed_documents(TEXTS), wanted)
            self.check_same([given.embed_query(TEXTS[1])], wanted[1:2])

    def test_ids(self):
        """By itself it sends ids of tokens, of OpenAI's vocabulary: what they are here is another text, of the same length."""
        from langchain_openai import OpenAIEmbeddings

        class Few:
            """What it takes of tiktoken, which would fetch its vocabulary."""

            def encode(self, text, **_):
                return [ord(c) for c in text]

            encode_ordinary = encode

        import langchain_openai.embeddings.base as base
        base.tiktoken.encoding_for_model = base.tiktoken.get_encoding = lambda _: Few()
        for url, _ in self.each():
            given = OpenAIEmbeddings(model="default", base_url=f"{url}/v1", api_key="any")
            self.check_same(given.embed_documents(TEXTS), plain(url, [[ord(c) for c in text] for text in TEXTS]))


class LiteLlmTest(ClientCase):
    def test_embedding(self):
        import litellm

        for url, wanted in self.each():
            reply = litellm.embedding(model="openai/default", input=TEXTS, api_base=f"{url}/v1", api_key="any")
            self.check_same([one["embedding"] for one in reply.data], wanted)
            self.assertGreater(reply.usage.prompt_tokens, 12)


class OllamaTest(ClientCase):
    def test_embed(self):
        import ollama

        for url, wanted in self.each():
            client = ollama.Client(url)
            reply = client.embed(model="default", input=TEXTS)
            self.check_same(reply.embeddings, wanted)
            self.assertGreater(reply.prompt_eval_count, 12)
            self.assertGreater(reply.total_duration, 0)
            self.check_same(client.embed("default", TEXTS[0]).embeddings, wanted[:1])
            short = client.embed("default", TEXTS[0], dimensions=16).embeddings[0]
            self.assertEqual(len(short), 16)
            # Cut to the context, unless it is not to be.
            long = "word " * 20_000
            self.assertEqual(len(client.embed("default", long).embeddings), 1)
            with self.assertRaises(ollama.ResponseError) as raised:
                client.embed("default", long, truncate=False)
            self.assertEqual(raised.exception.status_code, 400)
            # The older path normalises nothing.
            old = list(client.embeddings("default", TEXTS[0]).embedding)
            length = math.hypot(*old)
            self.assertGreater(abs(length - 1), 0.01)
            self.check_same([[x / length for x in old]], wanted[:1])


def main():
    from client_venvs import run_in_venvs
    from gateway_server import Gateway, backend
    from ropeway_server import RopewayServer

    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as open_ones:
        server = RopewayServer(arguments.ropeway, arguments.model, "--max-model-len", "2048")
        gateway = Gateway(arguments.ropeway, *backend(f"http://127.0.0.1:{server.port}", kind="ropeway", model="gates"))
        for one in (server, gateway):
            open_ones.callback(one.log.close)
            open_ones.callback(one.process.wait)
            open_ones.callback(one.process.terminate)
        urls = " ".join(f"http://127.0.0.1:{one.port}" for one in (server, gateway))
        passed = run_in_venvs(__file__, PACKAGES, {"ROPEWAY_TEST_URLS": urls, "LITELLM_LOCAL_MODEL_COST_MAP": "True"})
    return 0 if passed else 1


if __name__ == "__main__":
    if URLS:
        unittest.main()
    sys.exit(main())
