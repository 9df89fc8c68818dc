#!/usr/bin/env python3
"""POST /v1/responses through OpenAI's official Python client: `ropeway serve` on the default model, without a store.

usage: responses_client_test.py --ropeway PROGRAM --model FILE.gguf [unittest flags]
"""
import contextlib
import functools
import io
import json
import pathlib
import re
import tempfile
import typing
import unittest
import urllib.request

import openai
import pydantic
from openai_server import MODEL, Server, TimedCase, main
from pydantic import BaseModel, Field

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "responses.md"
QUESTION = "What is a ropeway?"
WEATHER = {"type": "function", "name": "weather", "description": "The weather of a city.", "strict": True,
           "parameters": {"type": "object", "properties": {"city": {"enum": ["Bern", "Rome"]}}, "required": ["city"],
                          "additionalProperties": False}}


class Person(BaseModel):
    name: str = Field(max_length=12)
    colour: typing.Literal["red", "green"]


@functools.cache
def shared_server():
    """The server of all tests."""
    server = Server()
    unittest.addModuleCleanup(server.stop)
    return server


class ResponsesTest(TimedCase):
    @classmethod
    def setUpClass(cls):
        cls.client = shared_server().client()

    def ask(self, words=QUESTION, **more):
        return self.client.responses.create(**{"model": MODEL, "input": words, "temperature": 0, "max_output_tokens": 12, **more})

    def test_a_text(self):
        reply = self.ask(instructions="Be brief.", metadata={"a": "b"})
        self.assertTrue(reply.output_text)
        self.assertEqual((reply.object, reply.status, reply.incomplete_details.reason), ("response", "incomplete", "max_output_tokens"))
        self.assertEqual((reply.instructions, reply.metadata, reply.model_extra["store"]), ("Be brief.", {"a": "b"}, False))
        self.assertEqual(reply.usage.total_tokens, reply.usage.input_tokens + 12)
        chat = self.client.chat.completions.create(
            model=MODEL, temperature=0, max_tokens=12,
            messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}])
        self.assertEqual(reply.output_text, chat.choices[0].message.content)
        self.assertEqual(reply.usage.input_tokens, chat.usage.prompt_tokens)

    def test_events(self):
        whole = self.ask()
        events = list(self.ask(stream=True))
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        self.assertEqual(events[0].type, "response.created")
        self.assertEqual(events[-1].type, "response.incomplete")
        deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
        self.assertEqual(len(deltas), 12)
        self.assertEqual("".join(deltas), whole.output_text)
        self.assertEqual(events[-1].response.output_text, whole.output_text)
        again = list(self.ask(stream=True))
        self.assertEqual([(event.type, event.sequence_number) for event in events],
                         [(event.type, event.sequence_number) for event in again])

    def test_forms(self):
        body = {"model": MODEL, "input": "Invent a person.", "text_format": Person, "temperature": 0, "max_output_tokens": 60}
        person = self.client.responses.parse(**body).output_parsed
        self.assertIsInstance(person, Person)
        with self.client.responses.stream(**body) as events:
            self.assertEqual(events.get_final_response().output_parsed, person)

    def test_tools(self):
        body = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False, "max_output_tokens": 60,
                "extra_body": {"seed": 1}}
        items = [{"role": "user", "content": "What is the weather in Bern?"}]
        reply = self.ask(items, **body)
        [call] = reply.output
        self.assertEqual((call.type, call.name, call.status), ("function_call", "weather", "completed"))
        self.assertIn(json.loads(call.arguments)["city"], ("Bern", "Rome"))
        with self.client.responses.stream(model=MODEL, input=items, temperature=0, **body) as events:
            [again] = events.get_final_response().output
        self.assertEqual((again.call_id, again.arguments), (call.call_id, call.arguments))
        # The client's dump of an answer is an input, with all its empty fields.
        items += [call.model_dump(), {"type": "function_call_output", "call_id": call.call_id, "output": "11 degrees"}]
        raw = self.client.responses.with_raw_response.create(model=MODEL, input=items, tools=[WEATHER], tool_choice="none",
                                                             temperature=0, max_output_tokens=8)
        self.assertNotIn("x-ropeway-ignored", raw.headers)
        self.assertEqual(raw.parse().output[0].type, "message")
        items += [item.model_dump() for item in raw.parse().output]
        self.assertTrue(self.ask([*items, {"role": "user", "content": "Thanks."}]).output_text)

    def test_logprobs(self):
        content = self.ask(include=["message.output_text.logprobs"], top_logprobs=2).output[0].content[0]
        self.assertEqual(len(content.logprobs), 12)
        self.assertEqual("".join(entry.token for entry in content.logprobs), content.text)
        self.assertEqual({len(entry.top_logprobs) for entry in content.logprobs}, {2})

    def test_the_types_of_openai_fit(self):
        # The client itself takes whatever comes: what its types require is checked by nobody else.
        body = {"model": MODEL, "input": QUESTION, "temperature": 0, "max_output_tokens": 8, "tools": [WEATHER]}
        for more in ({}, {"tool_choice": "required", "max_output_tokens": 60},
                     {"include": ["message.output_text.logprobs"], "top_logprobs": 1, "metadata": {"a": "b"}}):
            self.check(openai.types.responses.Response, "responses", {**body, **more})
            self.check(openai.types.responses.ResponseStreamEvent, "responses", {**body, **more, "stream": True})
        chat = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 8, "logprobs": True}
        self.check(openai.types.chat.ChatCompletion, "chat/completions", chat)
        self.check(openai.types.chat.ChatCompletionChunk, "chat/completions",
                   {**chat, "stream": True, "stream_options": {"include_usage": True}})
        self.check(openai.types.Completion, "completions", {"model": MODEL, "prompt": "A ropeway", "max_tokens": 8, "logprobs": 1})

    def check(self, kind, path, body):
        """Asks, and checks that the answer, or each event of it, is one of OpenAI's type `kind`, with all that it requires."""
        request = urllib.request.Request(f"{self.client.base_url}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as reply:
            text = reply.read().decode()
        adapter = pydantic.TypeAdapter(kind)
        if not body.get("stream"):
            adapter.validate_json(text, strict=True)
            return
        events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
        self.assertGreater(len(events), 3)
        for event in events:
            if event != "[DONE]":
                adapter.validate_json(event, strict=True)

    def test_nothing_is_stored(self):
        for field, value in (("store", True), ("background", True), ("previous_response_id", "resp_1"), ("conversation", "conv_1")):
            with self.assertRaises(openai.InternalServerError) as caught:
                self.ask(**{field: value})
            self.assertEqual((caught.exception.status_code, caught.exception.param), (503, field))
            self.assertIn("--state-path", str(caught.exception))

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask([{"role": "user", "content": "a"}, {"type": "item_reference", "id": "msg_1"}])
        self.assertEqual(caught.exception.param, "input[1].type")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask("word " * 20_000)
        self.assertEqual((caught.exception.param, caught.exception.code), ("input", "context_length_exceeded"))

    def test_the_page(self):
        blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        self.assertEqual(len(blocks), 2)
        with tempfile.TemporaryDirectory() as state:
            server = Server("--state-path", state)
            try:
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    exec("".join(blocks).replace("127.0.0.1:8080", f"127.0.0.1:{server.port}"), {})  # pylint: disable=exec-used
            finally:
                server.stop()
        self.assertGreaterEqual(len(printed.getvalue().splitlines()), 2)


if __name__ == "__main__":
    main()
