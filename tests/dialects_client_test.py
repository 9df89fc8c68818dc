#!/usr/bin/env python3
"""All dialects of the API give the same text for the same chat, parameters and seed: whole and as a stream, from `ropeway serve` and
through a `ropeway gateway` before it. A dialect is one row of DIALECTS.

usage: dialects_client_test.py --ropeway PROGRAM --model FILE.gguf
"""
import http.client
import json
import sys
import unittest

import gateway_server
import openai_server
from gateway_server import Gateway, backend, together
from openai_server import ARGS, Server

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tell me all about the sea."}]
SAMPLING = {"temperature": 0.8, "top_p": 0.9, "top_k": 40, "seed": 7}
TOKENS = 12


def openai_chunks(field):
    def read(events):
        choices = [choice for event in events for choice in event["choices"]]
        return "".join((choice["delta"].get("content") if field == "delta" else choice["text"]) or "" for choice in choices)
    return read


# By path: the body for a prompt, which is what the model's template makes of the chat; what the text of a whole answer is; and what
# that of a stream's events is. Events are the JSON of an event stream's data, or the lines of an NDJSON body.
DIALECTS = {
    "/v1/completions": (
        lambda prompt: {**SAMPLING, "prompt": prompt, "max_tokens": TOKENS},
        lambda answer: answer["choices"][0]["text"],
        openai_chunks("text")),
    "/v1/chat/completions": (
        lambda prompt: {**SAMPLING, "messages": CHAT, "max_tokens": TOKENS},
        lambda answer: answer["choices"][0]["message"]["content"],
        openai_chunks("delta")),
    "/v1/responses": (
        lambda prompt: {**SAMPLING, "input": CHAT, "max_output_tokens": TOKENS},
        lambda answer: answer["output"][-1]["content"][0]["text"],
        lambda events: "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")),
    "/completion": (
        lambda prompt: {**SAMPLING, "prompt": prompt, "n_predict": TOKENS},
        lambda answer: answer["content"],
        lambda events: "".join(event["content"] for event in events)),
    "/v1/messages": (
        lambda prompt: {**SAMPLING, "messages": CHAT, "max_tokens": TOKENS},
        lambda answer: answer["content"][0]["text"],
        lambda events: "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")),
    "/api/chat": (
        lambda prompt: {"messages": CHAT, "options": {**SAMPLING, "num_predict": TOKENS}},
        lambda answer: answer["message"]["content"],
        lambda events: "".join(event["message"]["content"] for event in events)),
    "/api/generate": (
        lambda prompt: {"prompt": prompt, "raw": True, "options": {**SAMPLING, "num_predict": TOKENS}},
        lambda answer: answer["response"],
        lambda events: "".join(event["response"] for event in events)),
}


def ask(port, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, reply.headers.get_content_type(), reply.read().decode()
    finally:
        connection.close()


def text_of(job):
    """What one dialect answers."""
    port, path, prompt, stream = job
    body, whole, streamed = DIALECTS[path]
    status, kind, reply = ask(port, path, {**body(prompt), "stream": stream})
    assert status == 200, f"{path}: {reply}"
    if not stream:
        return whole(json.loads(reply))
    if kind == "text/event-stream":
        data = [line[len("data: "):] for line in reply.split("\n") if line.startswith("data: ")]
        return streamed([json.loads(one) for one in data if one != "[DONE]"])
    return streamed([json.loads(line) for line in reply.splitlines()])


class DialectsTest(unittest.TestCase):
    def test_all_say_the_same(self):
        server = Server()
        self.addCleanup(server.stop)
        gateway = Gateway(ARGS.ropeway, *backend(f"http://127.0.0.1:{server.port}", kind="ropeway", model="ours",
                                                upstream="default"))
        self.addCleanup(gateway.stop)
        status, _, reply = ask(server.port, "/apply-template", {"messages": CHAT})
        self.assertEqual(status, 200, reply)
        prompt = json.loads(reply)["prompt"]
        jobs = [(port, path, prompt, stream) for port in (server.port, gateway.port) for path in DIALECTS
                for stream in (False, True)]
        texts = together(text_of, jobs)
        self.assertTrue(texts[0])
        for (port, path, _, stream), text in zip(jobs, texts):
            with self.subTest(path, gateway=port == gateway.port, stream=stream):
                self.assertEqual(text, texts[0])


if __name__ == "__main__":
    gateway_server.ARGS = openai_server.ARGS
    sys.exit(openai_server.main())
