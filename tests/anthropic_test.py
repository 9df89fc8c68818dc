#!/usr/bin/env python3
"""POST /v1/messages: recorded requests of clients of Anthropic's API (data/anthropic/, record.py) against one `ropeway serve`, and
that its answers are those of the other dialects.

usage: anthropic_test.py --ropeway PROGRAM --model FILE.gguf [unittest flags]
"""
import concurrent.futures
import functools
import json
import pathlib
import unittest

import jsonschema
from openai_server import Server, TimedCase, main

DATA = pathlib.Path(__file__).parent / "data" / "anthropic"
KEY = "sk-the-key-of-this-test"
QUESTION = {"role": "user", "content": "What is a ropeway?"}
DELTAS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking"), "tool_use": ("input_json_delta", "partial_json")}
USAGE = {"input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"}


def gather(text):
    """A stream's events as the message that they make, as Anthropic's client makes it. What it could not read fails here."""
    message, block, inputs = None, None, ""
    for event in text.removesuffix("\n\n").split("\n\n"):
        name, data = event.split("\n")
        data = json.loads(data.removeprefix("data: "))
        assert name == "event: " + data["type"], event
        kind = data["type"]
        if kind == "message_start":
            assert message is None and data["message"]["content"] == [] and data["message"]["stop_reason"] is None, event
            message = data["message"]
        elif kind == "content_block_start":
            assert block is None and data["index"] == len(message["content"]), event
            block, inputs = data["content_block"], ""
            message["content"].append(block)
        elif kind == "content_block_delta":
            assert data["index"] == len(message["content"]) - 1, event
            delta = data["delta"]
            if delta["type"] == "signature_delta":
                assert block["type"] == "thinking", event
                continue
            of_type, member = DELTAS[block["type"]]
            assert delta["type"] == of_type and delta[member], event
            if block["type"] == "tool_use":
                inputs += delta[member]
            else:
                block[member] += delta[member]
        elif kind == "content_block_stop":
            if inputs:
                block["input"] = json.loads(inputs)
            block = None
        elif kind == "message_delta":
            assert block is None, event
            message |= data["delta"]
            message["usage"] |= data["usage"]
            message["ropeway"] = data["ropeway"]
        else:
            assert kind in ("ping", "message_stop"), event
    assert kind == "message_stop", text
    return message


@functools.cache
def shared_server():
    server = Server("--api-key", KEY, "--any-model", "on")
    unittest.addModuleCleanup(server.stop)
    return server


class AnthropicTest(TimedCase):
    def setUp(self):
        super().setUp()
        self.server = shared_server()

    def send(self, body, path="/v1/messages", headers=None):
        """Status, answer and headers."""
        connection = self.server.connect(60)
        try:
            connection.request("POST", path, json.dumps(body), headers or {"x-api-key": KEY, "anthropic-version": "2023-06-01"})
            reply = connection.getresponse()
            text = reply.read().decode()
        finally:
            connection.close()
        streams = reply.headers.get_content_type() == "text/event-stream"
        return reply.status, gather(text) if streams else json.loads(text), reply.headers

    def ask(self, *messages, **body):
        status, answer, _ = self.send({"model": "default", "max_tokens": 12, "temperature": 0, "messages": list(messages) or [QUESTION],
                                       **body})
        self.assertEqual(status, 200, answer)
        self.check(answer, body)
        return answer

    def chat(self, *messages, **body):
        status, answer, _ = self.send({"model": "default", "max_tokens": 12, "temperature": 0, "messages": list(messages) or [QUESTION],
                                       **body}, "/v1/chat/completions")
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]["message"]["content"], answer["usage"]

    def check(self, answer, body):
        """What holds for every message."""
        self.assertLessEqual({"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}, set(answer))
        self.assertEqual((answer["type"], answer["role"], answer["id"][:4]), ("message", "assistant", "msg_"))
        self.assertLessEqual(USAGE, set(answer["usage"]))
        self.assertIn(answer["stop_reason"], ("end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"))
        self.assertEqual(answer["stop_sequence"] is not None, answer["stop_reason"] == "stop_sequence")
        schemas = {tool["name"]: tool["input_schema"] for tool in body.get("tools", [])}
        must = body.get("tool_choice", {}).get("type") in ("any", "tool")
        calls = [block for block in answer["content"] if block["type"] == "tool_use"]
        self.assertTrue(calls or not must, answer)
        for call in calls:
            jsonschema.validate(call["input"], schemas[call["name"]] if must else {"type": "object"})
        form = body.get("output_config", {}).get("format")
        if form and answer["stop_reason"] == "end_turn":
            jsonschema.validate(json.loads(answer["content"][0]["text"]), form["schema"])

    def test_each_client_gets_what_it_reads(self):
        files = sorted(DATA.glob("*.json"))
        self.assertGreater(len(files), 10)

        def replay(file):
            golden = json.loads(file.read_text(encoding="utf-8"))
            body = {**golden["body"], **golden.get("replay", {})}  # What a small model would take too long for.
            headers = {name: value.replace("any", KEY) if name in ("x-api-key", "authorization") else value
                       for name, value in golden["headers"].items()}
            status, answer, got = self.send(body, golden["path"], headers)
            self.assertEqual(status, golden["expect"]["status"], answer)
            self.assertEqual(got["x-ropeway-ignored"], None)
            if "count_tokens" in golden["path"]:
                self.assertEqual(list(answer), ["input_tokens"])
            else:
                self.check(answer, body)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            replays = [pool.submit(replay, file) for file in files]
        for file, done in zip(files, replays):
            with self.subTest(file.name):
                done.result()

    def test_the_text_is_that_of_a_chat(self):
        for sampling in ({"temperature": 0}, {"temperature": 1, "seed": 7, "top_p": 0.9}):
            system = "You know all about ropeways, and are brief. " * 3
            whole = self.ask(system=system, **sampling)
            streamed = self.ask(system=[{"type": "text", "text": system}], stream=True, **sampling)
            text, usage = self.chat({"role": "system", "content": system}, QUESTION, **sampling)
            self.assertEqual([block["text"] for block in whole["content"]], [text])
            self.assertEqual(streamed["content"], whole["content"])
            self.assertEqual(streamed["stop_reason"], whole["stop_reason"])
            self.assertGreater(streamed["usage"]["cache_read_input_tokens"], 0)
            for answer in (whole, streamed):
                counted = answer["usage"]
                self.assertEqual(counted["input_tokens"] + counted["cache_read_input_tokens"], usage["prompt_tokens"])
                self.assertEqual(counted["output_tokens"], usage["completion_tokens"])
        status, answer, _ = self.send({"messages": [QUESTION], "system": system}, "/v1/messages/count_tokens")
        self.assertEqual((status, answer), (200, {"input_tokens": usage["prompt_tokens"]}))

    def test_a_begun_answer_goes_on(self):
        begun = {"role": "assistant", "content": "A ropeway is a kind of"}
        text, _ = self.chat(QUESTION, begun, continue_final_message=True)
        self.assertEqual(self.ask(QUESTION, begun)["content"][0]["text"], text)

    def test_the_stop_sequence_is_told(self):
        text = self.ask()["content"][0]["text"]
        word = text.split()[3]
        for stream in (False, True):
            answer = self.ask(stop_sequences=["never to be said", word], stream=stream)
            self.assertEqual((answer["stop_reason"], answer["stop_sequence"]), ("stop_sequence", word))
            self.assertEqual(answer["content"][0]["text"], text[:text.index(word)])
        self.assertEqual(self.ask()["stop_reason"], "max_tokens")

    def test_errors_have_its_shape(self):
        good = {"max_tokens": 4, "messages": [QUESTION]}
        image = {"max_tokens": 4, "messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}
        for body, headers, status, kind, words in (
                ({**good, "max_tokens": "4"}, None, 400, "invalid_request_error", "'max_tokens'"),
                (image, None, 400, "invalid_request_error", "'messages[0].content[0].type'"),
                ({**good, "messages": [{"role": "user", "content": "a " * 20000}]}, None, 400, "invalid_request_error", "prompt is too long"),
                (good, {"x-api-key": "sk-another-key"}, 401, "authentication_error", "key"),
                (good, {}, 401, "authentication_error", "key")):
            with self.subTest(words):
                connection = self.server.connect(60)
                connection.request("POST", "/v1/messages", json.dumps(body), {"x-api-key": KEY} if headers is None else headers)
                reply = connection.getresponse()
                answer = json.loads(reply.read())
                connection.close()
                self.assertEqual((reply.status, answer["type"], answer["error"]["type"]), (status, "error", kind))
                self.assertIn(words, answer["error"]["message"])


if __name__ == "__main__":
    main()
