"""A running `ropeway gateway`, and what became of a request to it, for the tests of the gateway."""
import argparse
import concurrent.futures
import dataclasses
import http.client
import json
import os
import sys
import unittest

from backend_double import Double, text_for
from ropeway_server import PATIENCE, RopewayServer, eventually

ARGS = argparse.Namespace()
# What a broken connection, or one that is taken apart, may take on a busy machine.
SOON = 20


class Gateway(RopewayServer):
    """In front of the backends that the flags name. Start it in the main thread (child.py)."""

    def __init__(self, ropeway, *flags, port=0, environment=None, ready=True):
        self.launch([ropeway, "gateway", "--port", port, *flags], {**os.environ, **(environment or {})}, ready)

    def ask(self, path, body, key="", timeout=None):
        """The Outcome of a request, however it ends."""
        return ask(self.port, path, body, key or self.key, timeout or self.patience)

    def complete(self, prompt, max_tokens=8, **more):
        return self.ask("/v1/completions", {"prompt": prompt, "max_tokens": max_tokens, **more})

    def chat(self, prompt, max_tokens=8, **more):
        messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
        return self.ask("/v1/chat/completions", {"messages": messages, "max_tokens": max_tokens, **more})

    def health(self):
        """The body of /health, whatever its status."""
        return json.loads(self.get("/health", self.admin_key)[1])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def wait_until_idle(self):
        for name in ("running", "waiting"):
            eventually(lambda name=name: self.metric(f"ropeway_num_requests_{name}") == 0, f"none is {name}")

    def stop(self):
        """The exit code of an end in good order."""
        self.process.terminate()
        try:
            return self.process.wait(timeout=PATIENCE)
        finally:
            self.process.kill()
            self.log.close()


@dataclasses.dataclass
class Outcome:
    """What a client saw of its request."""
    status: int = 0
    fields: dict = dataclasses.field(default_factory=dict)  # Of the answer's head.
    text: dict = dataclasses.field(default_factory=dict)    # By choice.
    more: dict = dataclasses.field(default_factory=dict)    # By choice: thoughts, and calls of tools with their ids.
    logprobs: dict = dataclasses.field(default_factory=dict)
    reasons: dict = dataclasses.field(default_factory=dict)
    errors: list = dataclasses.field(default_factory=list)  # Messages, of the answer or of events.
    usage: dict | None = None
    done: int = 0      # How often the stream said so.
    cut: bool = False  # The answer did not end in order.
    raw: list = dataclasses.field(default_factory=list)     # All JSON that came.

    @property
    def good(self):
        """It ended well, once."""
        return (self.status == 200 and not self.errors and not self.cut and self.done == 1 and bool(self.reasons)
                and all(reason in ("stop", "length", "tool_calls") for reason in self.reasons.values()))

    @property
    def failed(self):
        """It ended with one error, and nothing says that it ended well."""
        return self.status != 0 and not self.cut and len(self.errors) == 1 and not self.reasons

    @property
    def ended_once(self):
        return self.good != self.failed

    def add(self, event, whole):
        self.raw.append(event)
        if "error" in event:
            self.errors.append(event["error"]["message"])
            return
        self.usage = event.get("usage") or self.usage
        for choice in event.get("choices", []):
            index = choice["index"]
            said = choice.get("message" if whole else "delta") or choice
            text = said.get("content") if said is not choice else choice.get("text")
            self.text[index] = self.text.get(index, "") + (text or "")
            self.more[index] = self.more.get(index, "") + (said.get("reasoning_content") or "") + "".join(
                (call.get("id") or "") + (call["function"].get("name") or "") + call["function"]["arguments"]
                for call in said.get("tool_calls") or [])
            self.add_logprobs(index, choice.get("logprobs"))
            if choice.get("finish_reason"):
                if index in self.reasons:
                    self.errors.append(f"choice {index} ended twice")
                self.reasons[index] = choice["finish_reason"]

    def add_logprobs(self, index, found):
        """Of a chat a list of objects, of a completion an object of lists."""
        if not found:
            return
        lists = self.logprobs.setdefault(index, {})
        for name, values in found.items():
            lists.setdefault(name, []).extend(values or [])

    def shown(self):
        """All that must not depend on what happened on the way."""
        usage = {name: self.usage[name] for name in ("prompt_tokens", "completion_tokens")} if self.usage else None
        return self.status, self.text, self.more, self.logprobs, self.reasons, self.errors, usage, self.done, self.cut


def ask(port, path, body, key="", timeout=PATIENCE, seen=None):
    """The Outcome of a request to any such server. `seen`, of a stream: called with the Outcome after each event."""
    outcome = Outcome()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", path, json.dumps(body).encode(),
                           {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})})
        reply = connection.getresponse()
        outcome.status, outcome.fields = reply.status, {name.lower(): value for name, value in reply.getheaders()}
        if not outcome.fields.get("content-type", "").startswith("text/event-stream"):
            outcome.add(json.loads(reply.read()), whole=True)
            outcome.done = int(outcome.status == 200)
            return outcome
        while line := reply.readline():
            data = line.strip().removeprefix(b"data:").strip()
            if not line.startswith(b"data:"):
                continue
            if data == b"[DONE]":
                outcome.done += 1
                continue
            outcome.add(json.loads(data), whole=False)
            if seen:
                seen(outcome)
    except (OSError, http.client.HTTPException, ValueError) as error:
        outcome.cut = True
        outcome.raw.append(repr(error))
    finally:
        connection.close()
    return outcome


def backend(of, **fields):
    """The words of --backend for a double, or for a URL."""
    url = of.url if isinstance(of, Double) else of
    fields = {"model": getattr(of, "model", "fake-model"), **fields}
    return ["--backend", ",".join([url, *(f"{name.replace('_', '-')}={value}" for name, value in fields.items())])]


def together(function, items, threads=16):
    """The results of function(item), all at once."""
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


class GatewayCase(unittest.TestCase):
    def double(self, behave, *args, **fields):
        made = Double(behave, *args, **fields)
        self.addCleanup(made.close)
        return made

    def start(self, *flags, **fields):
        made = Gateway(ARGS.ropeway, *flags, **fields)
        self.addCleanup(made.process.wait)
        self.addCleanup(made.process.kill)
        return made

    def good(self, outcome, prompt, count=8):
        """It has the very answer to this prompt."""
        self.assertTrue(outcome.good, outcome)
        self.assertEqual(outcome.text, {0: text_for(prompt, count)})

    def keeps_no_connection(self, gateway, doubles, before):
        """Beyond those that it keeps for later requests, each of which a double knows."""
        own = lambda: gateway.descriptors() - sum(one.open for one in doubles)
        eventually(lambda: own() <= before, f"{own()} descriptors, {before} before; "
                   f"{[(one.model, one.open) for one in doubles]} connections", SOON)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    for name in ("model", "llama-server"):
        parser.add_argument(f"--{name}", default="")
    _, rest = parser.parse_known_args(namespace=ARGS)
    unittest.main(argv=[sys.argv[0], "-v", *rest])
