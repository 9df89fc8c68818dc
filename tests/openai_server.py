"""A server, and OpenAI's official Python client in front of it, for the tests that use them.

Their flags: --ropeway PROGRAM --model FILE.gguf [--tiny TINY.gguf] [unittest flags]
"""
import argparse
import http.client
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import openai

import child

ARGS = argparse.Namespace()


class Server:
    """A running `ropeway serve` on a port of its own choice."""

    key = "any"
    admin_key = ""  # Of --admin-key: sees the numbers of all tenants.

    def __init__(self, *flags, model=None):
        # A file, not a pipe, which would fill up: the log is read at the end.
        self.log = tempfile.NamedTemporaryFile("w+", prefix="ropeway-serve-")
        self.process = child.start(
            [ARGS.ropeway, "serve", "--model", model or ARGS.model, "--port", "0", *flags],
            stdout=self.log, stderr=subprocess.STDOUT)
        self.port = self.wait_for_port()

    def wait_for_port(self):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            text = self.output()
            found = re.search(r"\bon http://127\.0\.0\.1:(\d+)\n", text)
            if found:
                return int(found.group(1))
            if self.process.poll() is not None:
                raise RuntimeError(f"serve ended early: {text}")
            time.sleep(0.02)
        self.process.kill()
        raise RuntimeError(f"no address within 120 s: {self.output()}")

    def output(self):
        return pathlib.Path(self.log.name).read_text(encoding="utf-8")

    def client(self, **more):
        options = {"api_key": "any", "max_retries": 0, "timeout": 120, **more}
        return openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", **options)

    def async_client(self):
        return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="any",
                                  max_retries=0, timeout=120)

    def plain(self, method, path, body=None, key=""):
        """A request without the client, which has no call for it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json",
                                                    "Authorization": f"Bearer {key or self.key}"})
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def tokenize(self, text):
        status, reply = self.plain("POST", "/tokenize", {"prompt": text, "add_special_tokens": False})
        assert status == 200, reply
        return json.loads(reply)["tokens"]

    def metric(self, name):
        text = self.plain("GET", "/metrics", key=self.admin_key)[1]
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+-]+)$", text, re.MULTILINE)
        assert found, f"no metric {name} in:\n{text}"
        return sum(map(float, found))

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
