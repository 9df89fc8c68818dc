"""A server, and OpenAI's official Python client in front of it, for the tests that use them.

Their flags: --ropeway PROGRAM --model FILE.gguf [--tiny TINY.gguf] [unittest flags]
"""
import argparse
import json
import subprocess
import sys
import time
import unittest

import openai

from ropeway_server import RopewayServer

ARGS = argparse.Namespace()


class Server(RopewayServer):
    """With ARGS.model unless another is given."""

    key = "any"

    def __init__(self, *flags, model=None):
        super().__init__(ARGS.ropeway, model or ARGS.model, *flags)

    def client(self, **more):
        options = {"api_key": "any", "max_retries": 0, "timeout": 120, **more}
        return openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", **options)

    def async_client(self):
        return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="any",
                                  max_retries=0, timeout=120)

    def plain(self, method, path, body=None, key=""):
        """A request without the client, which has no call for it."""
        return self.request(method, path, body, key)[:2]

    def tokenize(self, text):
        status, reply = self.plain("POST", "/tokenize", {"prompt": text, "add_special_tokens": False})
        assert status == 200, reply
        return json.loads(reply)["tokens"]

    def wait_for(self, name, condition):
        deadline = time.monotonic() + 120
        while not condition(self.metric(name)):
            assert time.monotonic() < deadline, f"{name} is {self.metric(name)}"
            time.sleep(0.01)

    def wait_until_idle(self):
        """No request runs, and all its blocks are free."""
        self.wait_for("ropeway_num_requests_running", lambda n: n == 0)
        self.wait_for("ropeway_num_requests_waiting", lambda n: n == 0)
        self.wait_for("ropeway_kv_cache_usage_ratio", lambda n: n == 0)

    def stop(self):
        self.process.terminate()
        try:
            return self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.log.close()


MODEL = "default"
FRANCE = "The capital of France is"
GREEDY = {"model": MODEL, "temperature": 0}
ENDLESS = {"model": MODEL, "max_tokens": 4000, "extra_body": {"ignore_eos": True}}
QUESTIONS = [f"Write one sentence about {thing}." for thing in (
    "the sea", "a ropeway", "bread", "the moon", "a violin", "rain", "a library", "iron", "bees",
    "winter", "a lighthouse", "chess", "rivers", "a clock", "mountains", "paper")]


def counts(usage):
    """A usage without the tokens that happened to be cached."""
    return usage.prompt_tokens, usage.completion_tokens, usage.total_tokens


def ask(question):
    return [{"role": "user", "content": question}]


class TimedCase(unittest.TestCase):
    """Prints the time of each test."""

    def setUp(self):
        self.start = time.monotonic()

    def tearDown(self):
        print(f"  {self.id().split('.', 1)[1]}: {time.monotonic() - self.start:.2f} s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tiny")
    _, rest = parser.parse_known_args(namespace=ARGS)
    unittest.main(argv=[sys.argv[0], "-v", *rest])
