#!/usr/bin/env python3
"""The suite `models`: a real encoder, all-MiniLM-L6-v2, against what sentence-transformers made of the same texts
(make_encoder_references.py). The first run fetches it (scripts/fetch_encoder.sh).

    ./test --suite models

usage: encoder_model_test.py --ropeway PROGRAM --embed PROGRAM [unittest flags]
--embed: embed_lines.
"""
import argparse
import array
import base64
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

from ropeway_server import RopewayServer

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

from ropeway_bench import encoder_file  # noqa: E402  pylint: disable=wrong-import-position

ARGS = argparse.Namespace()
POSITIONS = 512            # All that the model has: the references are of texts of so many tokens.
LEAST_COSINE = 0.9999      # Of each text.
LEAST_Q8_0 = 0.998         # The same with 8 bits, which round the activations too,
LEAST_MEAN_Q8_0 = 0.9993   # and of the mean.


def halves(text):
    """From base64 of half-precision floats."""
    data = base64.b64decode(text)
    return struct.unpack(f"<{len(data) // 2}e", data)


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


class EncoderModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        found = subprocess.run([ROOT / "scripts" / "fetch_encoder.sh"], stdout=subprocess.PIPE, text=True, check=True)
        cls.model = found.stdout.strip()
        references = json.loads((ROOT / "tests" / "data" / "encoder_references.json").read_text(encoding="utf-8"))["texts"]
        cls.texts = [one["text"] for one in references]
        cls.ids = [one["ids"] for one in references]
        cls.expected = [halves(one["embedding"]) for one in references]
        cls.embedded = cls.embed()
        cls.server = cls.serve("--max-model-len", str(POSITIONS))

    @classmethod
    def serve(cls, *flags):
        server = RopewayServer(ARGS.ropeway, cls.model, *flags)

        def stop():
            server.process.terminate()
            server.process.wait(timeout=60)
            server.log.close()

        cls.addClassCleanup(stop)
        return server

    @classmethod
    def embed(cls, quantize="", model=""):
        """By the library, all together. `model`: another file."""
        reply = subprocess.run([ARGS.embed, model or cls.model, quantize, str(POSITIONS)], input=json.dumps(cls.texts), stdout=subprocess.PIPE,
                               text=True, check=True, timeout=120)
        return [array.array("f", one) for one in json.loads(reply.stdout)["embeddings"]]

    def ask(self, path, body, server=None):
        status, text = (server or self.server).request("POST", path, body)[:2]
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def over_http(self, texts):
        body = {"input": texts, "truncate": True, "encoding_format": "base64"}
        reply = self.ask("/v1/embeddings", body)
        return [array.array("f", base64.b64decode(one["embedding"])) for one in reply["data"]]

    def test_ids_are_those_of_tokenizers(self):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in self.texts)
        reply = subprocess.run([ARGS.ropeway, "tokenize", "--model", self.model, "--batch"], input=lines,
                               stdout=subprocess.PIPE, text=True, check=True, timeout=60)
        for text, line, expected in zip(self.texts, reply.stdout.splitlines(), self.ids, strict=True):
            ids = json.loads(line)["ids"]
            longer = len(ids) > len(expected)
            self.assertEqual(ids[:len(expected) - 1] + ids[-1:] if longer else ids, expected, text[:200])

    def test_vectors_are_those_of_sentence_transformers(self):
        cosines = [cosine(a, b) for a, b in zip(self.embedded, self.expected, strict=True)]
        print(f"{len(cosines)} texts: cosine {sum(cosines) / len(cosines):.8f}, at least {min(cosines):.8f}", flush=True)
        for text, one in zip(self.texts, cosines):
            self.assertGreater(one, LEAST_COSINE, text[:200])

    def test_in_eight_bits_they_are_near(self):
        cosines = [cosine(a, b) for a, b in zip(self.embed("q8_0"), self.expected, strict=True)]
        mean = sum(cosines) / len(cosines)
        print(f"q8_0, {len(cosines)} texts: cosine {mean:.6f}, at least {min(cosines):.6f}", flush=True)
        self.assertGreater(mean, LEAST_MEAN_Q8_0)
        self.assertGreater(min(cosines), LEAST_Q8_0)

    def test_company_and_http_change_no_bit(self):
        for text, one, embedded in zip(self.texts, self.over_http(self.texts), self.embedded, strict=True):
            self.assertEqual(one, embedded, text[:200])
            self.assertEqual(self.over_http([text]), [embedded], text[:200])

    def test_a_gguf_file_gives_the_same_bits(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "encoder.gguf"
            encoder_file.write(self.model, path)
            self.assertEqual(self.embed(model=path), self.embedded)
            encoder_file.write(self.model, path, q8_0=True)
            self.assertEqual(self.embed(model=path), self.embed("q8_0"))

    def test_what_is_too_long_is_rejected_unless_it_is_to_be_cut(self):
        status, text = self.server.request("POST", "/v1/embeddings", {"input": "word " * 511})[:2]
        self.assertEqual((status, json.loads(text)["error"]["code"]), (400, "context_length_exceeded"))
        self.assertEqual(self.ask("/v1/embeddings", {"input": "word " * 510})["usage"]["prompt_tokens"], 512)
        # Ollama's default is to cut.
        self.assertEqual(self.ask("/api/embed", {"model": "default", "input": "word " * 900})["prompt_eval_count"], 512)

    def test_texts_are_cut_where_sentence_transformers_cuts_them(self):
        server = self.serve()
        body = {"input": "word " * 300, "truncate": True}
        self.assertEqual(self.ask("/v1/embeddings", body, server)["usage"]["prompt_tokens"], 256)
        self.assertEqual(server.request("POST", "/v1/embeddings", {"input": "word " * 255})[0], 400)

    def test_it_generates_nothing(self):
        self.assertEqual(self.ask("/api/show", {"model": "default"})["capabilities"], ["embedding"])
        status, text = self.server.request("POST", "/v1/completions", {"prompt": "A"})[:2]
        self.assertEqual(status, 400)
        self.assertIn("makes embeddings only", text)
        for words in (["A"], ["--prompts", str(ROOT / "bench" / "data" / "prompts.jsonl")]):
            run = subprocess.run([ARGS.ropeway, "run", "--model", self.model, *words], capture_output=True, text=True,
                                 check=False, stdin=subprocess.DEVNULL, timeout=60)
            self.assertEqual(run.returncode, 1)
            self.assertRegex(run.stderr, r"^ropeway: the model '.*' makes embeddings only and generates no text")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("ropeway", "embed"):
        parser.add_argument(f"--{name}", required=True)
    _, rest = parser.parse_known_args(namespace=ARGS)
    unittest.main(argv=[sys.argv[0], "-v", *rest])
