#!/usr/bin/env python3
"""Clients of Anthropic's API from PyPI, each in a venv of its own: before a `ropeway serve` with a small model, before a `ropeway
gateway` in front of that, and before a gateway whose backend is a script (scripted_agent.py), so that loops of tools are tried
whatever a model knows.

usage: anthropic_clients_test.py --ropeway PROGRAM --model FILE.gguf     (./test --suite clients)
"""
import argparse
import asyncio
import contextlib
import io
import json
import os
import pathlib
import re
import sys
import typing
import unittest

from scripted_agent import CALLS, QUESTION

CLIENT = ("anthropic==2.14.0", "pydantic==2.14.4", "jsonschema==4.26.0")
# By the test that needs it.
PACKAGES = {
    "AnthropicTest": CLIENT,
    "PageTest": CLIENT,
    "LangChainTest": (*CLIENT, "langchain-anthropic==1.7.10"),
    "LiteLlmTest": ("litellm==1.110.2", "pydantic==2.14.4"),
}
# Set where a test runs in its venv. The scripted model is behind the last one.
URL = os.environ.get("ROPEWAY_TEST_URL", "")
GATEWAY = os.environ.get("ROPEWAY_TEST_GATEWAY", "")
SCRIPTED = os.environ.get("ROPEWAY_TEST_SCRIPTED", "")
PAGE = pathlib.Path(__file__).parent.parent / "docs" / "clients" / "anthropic.md"

ASKED = [{"role": "user", "content": "What is a ropeway?"}]
SHORT = {"model": "default", "max_tokens": 12, "messages": ASKED}
GREEDY = {"extra_body": {"temperature": 0}}
SCHEMAS = {"weather": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Bern", "Rome"]}}, "required": ["city"],
                       "additionalProperties": False},
           "add": {"type": "object", "properties": {name: {"type": "integer", "minimum": 0, "maximum": 99}
                                                    for name in ("first", "second")},
                   "required": ["first", "second"], "additionalProperties": False}}
TOOLS = [{"name": name, "description": f"Tells: {name}.", "input_schema": schema} for name, schema in SCHEMAS.items()]
RESULTS = {"weather": "11 degrees", "add": "the sum is 42"}
ANSWER = "11 degrees and the sum is 42"


class AnthropicTest(unittest.TestCase):
    def setUp(self):
        import anthropic
        self.module = anthropic
        options = {"api_key": "any", "max_retries": 0, "timeout": 300}
        self.client, self.gateway, self.scripted = (anthropic.Anthropic(base_url=url, **options) for url in (URL, GATEWAY, SCRIPTED))
        self.asynchronous = anthropic.AsyncAnthropic(base_url=URL, **options)

    def streamed(self, client, **body):
        with client.messages.stream(**body) as events:
            text = "".join(events.text_stream)
            message = events.get_final_message()
        self.assertEqual(text, "".join(block.text for block in message.content if block.type == "text"))
        return message

    def test_whole_streamed_and_through_a_gateway(self):
        body = {**SHORT, "system": "Be brief.", **GREEDY}
        answers = [self.client.messages.create(**body), self.streamed(self.client, **body), self.gateway.messages.create(**body),
                   self.streamed(self.gateway, **body), asyncio.run(self.asynchronous.messages.create(**body))]
        first = answers[0]
        self.assertEqual((first.type, first.role, first.stop_reason), ("message", "assistant", "max_tokens"))
        for answer in answers:
            self.assertEqual([block.model_dump() for block in answer.content], [block.model_dump() for block in first.content])
            self.assertEqual(answer.stop_reason, first.stop_reason)
            usage = answer.usage
            self.assertEqual(usage.output_tokens, 12)
            self.assertEqual(usage.input_tokens + usage.cache_read_input_tokens,
                             first.usage.input_tokens + first.usage.cache_read_input_tokens)
        counted = self.client.messages.count_tokens(model="default", messages=ASKED, system="Be brief.")
        self.assertEqual(counted.input_tokens, first.usage.input_tokens + first.usage.cache_read_input_tokens)

    def test_events(self):
        """The events of the client's own stream, which each have the type that it knows."""
        with self.client.messages.create(**SHORT, stream=True, **GREEDY) as events:
            kinds = [type(event).__name__ for event in events]
        self.assertEqual([kind for i, kind in enumerate(kinds) if i == 0 or kinds[i - 1] != kind],
                         ["RawMessageStartEvent", "RawContentBlockStartEvent", "RawContentBlockDeltaEvent",
                          "RawContentBlockStopEvent", "RawMessageDeltaEvent", "RawMessageStopEvent"])

    def test_answers_are_valid_by_the_clients_types(self):
        """The client itself takes what is not."""
        from pydantic import TypeAdapter

        event = TypeAdapter(self.module.types.RawMessageStreamEvent)
        error = TypeAdapter(self.module.types.ErrorResponse)
        for more in ({}, {"tools": TOOLS, "tool_choice": {"type": "any"}, "max_tokens": 100}, {"stop_sequences": ["e"]}):
            body = {**SHORT, **GREEDY, **more}
            self.module.types.Message.model_validate_json(self.client.messages.with_raw_response.create(**body).text())
            lines = self.client.messages.with_raw_response.create(**body, stream=True).http_response.iter_lines()
            data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
            self.assertGreater(len(data), 5)
            for line in data:
                if line != '{"type":"ping"}':  # It has no type there.
                    event.validate_json(line)
        with self.assertRaises(self.module.NotFoundError) as caught:
            self.client.models.retrieve("nobody")
        self.assertTrue(caught.exception.api_message)
        with self.assertRaises(self.module.BadRequestError) as caught:
            self.client.messages.create(**{**SHORT, "max_tokens": -7})
        error.validate_json(caught.exception.response.text)

    def test_a_stop_sequence(self):
        text = self.client.messages.create(**SHORT, **GREEDY).content[0].text
        word = text.split()[3]
        for client in (self.client, self.gateway):
            for answer in (client.messages.create(**SHORT, stop_sequences=[word], **GREEDY),
                           self.streamed(client, **SHORT, stop_sequences=[word], **GREEDY)):
                self.assertEqual((answer.stop_reason, answer.stop_sequence), ("stop_sequence", word))
                self.assertEqual(answer.content[0].text, text[:text.index(word)])

    def test_a_loop_of_tools(self):
        for stream in (False, True):
            messages = [{"role": "user", "content": QUESTION}]
            body = {"model": "default", "max_tokens": 100, "messages": messages, "tools": TOOLS}
            first = self.streamed(self.scripted, **body) if stream else self.scripted.messages.create(**body)
            self.assertEqual(first.stop_reason, "tool_use")
            self.assertEqual([block.type for block in first.content], ["text", "tool_use", "tool_use"])
            calls = first.content[1:]
            self.assertEqual([(call.name, call.input) for call in calls], list(CALLS.items()))
            messages += [{"role": "assistant", "content": first.content},
                         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": RESULTS[call.name]}
                                                      for call in calls]}]
            last = self.streamed(self.scripted, **body) if stream else self.scripted.messages.create(**body)
            self.assertEqual((last.stop_reason, last.content[0].text), ("end_turn", ANSWER))

    def test_required_tools_and_a_form(self):
        import jsonschema

        for client in (self.client, self.gateway):
            for choice in ({"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "add"}):
                body = {**SHORT, "max_tokens": 100, "tools": TOOLS, "tool_choice": choice, "extra_body": {"seed": 3}}
                whole, streamed = client.messages.create(**body), self.streamed(client, **body)
                [call], [again] = whole.content, streamed.content
                self.assertEqual((call.name, call.input), (again.name, again.input))
                self.assertEqual(whole.stop_reason, "tool_use")
                jsonschema.validate(call.input, SCHEMAS[call.name])
            form = {"type": "json_schema", "schema": SCHEMAS["weather"]}
            answer = client.messages.create(**{**SHORT, "max_tokens": 60}, output_config={"format": form})
            jsonschema.validate(json.loads(answer.content[0].text), SCHEMAS["weather"])

    def test_the_clients_own_runner_of_tools(self):
        from anthropic import beta_tool

        called = []

        @beta_tool
        def weather(city: typing.Literal["Bern", "Rome"]) -> str:
            """The weather of a city."""
            called.append(city)
            return RESULTS["weather"]

        @beta_tool
        def add(first: int, second: int) -> str:
            """Adds two numbers."""
            called.append((first, second))
            return RESULTS["add"]

        runner = self.scripted.beta.messages.tool_runner(model="default", max_tokens=100, tools=[weather, add],
                                                         messages=[{"role": "user", "content": QUESTION}])
        self.assertEqual(runner.until_done().content[0].text, ANSWER)
        self.assertEqual(called, ["Bern", (19, 23)])

    def test_errors(self):
        def fails(error, status, kind, words, **more):
            with self.assertRaises(error) as caught:
                self.client.messages.create(**{**SHORT, **more})
            self.assertEqual((caught.exception.status_code, caught.exception.type), (status, kind))
            self.assertIn(words, caught.exception.api_message)

        image = [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}]}]
        fails(self.module.BadRequestError, 400, "invalid_request_error", "'messages[0].content[0].type'", messages=image)
        fails(self.module.BadRequestError, 400, "invalid_request_error", "web_search",
              tools=[{"type": "web_search_20250305", "name": "web_search"}])

    def test_models(self):
        [model] = list(self.client.models.list())
        self.assertEqual((model.type, model.display_name), ("model", model.id))
        self.assertEqual(self.client.models.retrieve(model.id).created_at, model.created_at)


class PageTest(unittest.TestCase):
    def test_the_page(self):
        blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        self.assertEqual(len(blocks), 1)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(blocks[0].replace("http://127.0.0.1:8080", URL), {})  # pylint: disable=exec-used
        self.assertRegex(printed.getvalue(), r"\w+ \w+")


class LangChainTest(unittest.TestCase):
    def model(self, url, **more):
        from langchain_anthropic import ChatAnthropic
        return ChatAnthropic(model="default", base_url=url, api_key="any", max_retries=0, timeout=300, max_tokens=60, **more)

    def gathered(self, model, messages):
        whole = None
        for chunk in model.stream(messages):
            whole = chunk if whole is None else whole + chunk
        return whole

    def test_a_text(self):
        for url in (URL, GATEWAY):
            model = self.model(url, temperature=0)
            whole, streamed = model.invoke("What is a ropeway?"), self.gathered(model, "What is a ropeway?")
            self.assertTrue(whole.text)
            self.assertEqual(streamed.text, whole.text)
            self.assertEqual(streamed.usage_metadata["total_tokens"], whole.usage_metadata["total_tokens"])
            self.assertEqual(streamed.response_metadata["stop_reason"], whole.response_metadata["stop_reason"])

    def test_a_loop_of_tools(self):
        from langchain_core.messages import HumanMessage, ToolMessage

        model = self.model(SCRIPTED).bind_tools(TOOLS)
        for ask in (model.invoke, lambda messages: self.gathered(model, messages)):
            messages = [HumanMessage(QUESTION)]
            messages.append(ask(messages))
            self.assertEqual([(call["name"], call["args"]) for call in messages[-1].tool_calls], list(CALLS.items()))
            messages += [ToolMessage(RESULTS[call["name"]], tool_call_id=call["id"]) for call in messages[-1].tool_calls]
            self.assertEqual(ask(messages).text, ANSWER)


class LiteLlmTest(unittest.TestCase):
    def ask(self, url, **more):
        import litellm
        return litellm.completion(model="anthropic/default", api_base=url, api_key="any", **{"max_tokens": 12, "messages": ASKED, **more})

    def test_a_text(self):
        for url in (URL, GATEWAY):
            whole = self.ask(url, temperature=0)
            chunks = list(self.ask(url, temperature=0, stream=True, stream_options={"include_usage": True}))
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
            self.assertEqual(text, whole.choices[0].message.content)
            self.assertEqual(whole.choices[0].finish_reason, "length")
            self.assertEqual(whole.usage.completion_tokens, 12)
            self.assertEqual(chunks[-1].usage.total_tokens, whole.usage.total_tokens)

    def test_a_loop_of_tools(self):
        tools = [{"type": "function", "function": {"name": tool["name"], "description": tool["description"],
                                                   "parameters": tool["input_schema"]}} for tool in TOOLS]
        messages = [{"role": "user", "content": QUESTION}]
        message = self.ask(SCRIPTED, messages=messages, tools=tools).choices[0].message
        self.assertEqual([(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls], list(CALLS.items()))
        messages += [message.model_dump(), *({"role": "tool", "tool_call_id": call.id, "content": RESULTS[call.function.name]}
                                             for call in message.tool_calls)]
        self.assertEqual(self.ask(SCRIPTED, messages=messages, tools=tools).choices[0].message.content, ANSWER)


def main():
    from backend_double import Double
    from client_venvs import run_in_venvs
    from gateway_server import Gateway, backend
    from ropeway_server import RopewayServer
    from scripted_agent import behave

    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as open_ones:
        scripted = open_ones.enter_context(Double(behave))
        server = RopewayServer(arguments.ropeway, arguments.model)
        servers = [server, Gateway(arguments.ropeway, "--backend", f"http://127.0.0.1:{server.port},kind=ropeway"),
                   Gateway(arguments.ropeway, *backend(scripted))]
        for started in servers:
            open_ones.callback(started.log.close)
            open_ones.callback(started.process.wait)
            open_ones.callback(started.process.terminate)
        names = ("ROPEWAY_TEST_URL", "ROPEWAY_TEST_GATEWAY", "ROPEWAY_TEST_SCRIPTED")
        urls = {name: f"http://127.0.0.1:{started.port}" for name, started in zip(names, servers)}
        passed = run_in_venvs(__file__, PACKAGES, urls)
    return 0 if passed else 1


if __name__ == "__main__":
    if URL:
        unittest.main()
    sys.exit(main())
