#!/usr/bin/env python3
"""Tools as real programs use them: the openai client, LangChain, openai-agents, pydantic-ai, smolagents and instructor, each from
PyPI in a venv of its own. Before a gateway whose backend is a script (scripted_agent.py), so that the protocol is tried whatever
a model knows, and before a `ropeway serve` with a small model, whose calls must be valid where they are required.

usage: tool_clients_test.py --ropeway PROGRAM --model FILE.gguf     (./test --suite clients)
"""
import argparse
import asyncio
import contextlib
import io
import json
import os
import pathlib
import random
import re
import sys
import typing
import unittest

from scripted_agent import CALLS, ONE_BY_ONE, QUESTION, STUMBLE

# By the test that needs it. instructor and the newest openai want different versions of jiter.
OPENAI = ("openai==3.57.0", "langchain-openai==1.7.4", "pydantic==2.14.4", "jsonschema==4.26.0")
PACKAGES = {
    "OpenAiTest": OPENAI,
    "LangChainTest": OPENAI,
    "OpenAiAgentsTest": ("openai==3.57.0", "openai-agents==0.24.0", "pydantic==2.14.4"),
    "PydanticAiTest": ("openai==3.57.0", "pydantic-ai-slim[openai]==2.68.0", "pydantic==2.14.4"),
    "SmolagentsTest": ("openai==3.57.0", "smolagents[openai]==1.26.0", "pydantic==2.14.4"),
    "InstructorTest": ("openai==2.54.0", "instructor==1.17.0", "pydantic==2.14.4"),
}
# Set where a test runs in its venv.
URL = os.environ.get("ROPEWAY_TEST_URL", "")
GATEWAY = os.environ.get("ROPEWAY_TEST_GATEWAY", "")
DOCS = pathlib.Path(__file__).parent.parent / "docs"

if URL:
    import openai
    from pydantic import BaseModel, Field

    class Answer(BaseModel):
        answer: str

    class Person(BaseModel):
        """A person."""
        name: str = Field(max_length=20)
        age: int = Field(ge=0, le=120)
        colour: typing.Literal["red", "green"]

ANNA = {"name": "Anna", "age": 31, "colour": "red"}
INVENT = "Invent a person."
City = typing.Literal["Bern", "Rome", "Paris"]  # So that a small model's calls end soon.
Small = typing.Literal[19, 20, 21, 22, 23]


class Tools:
    """Two tools that note what they were called with."""

    def __init__(self):
        self.calls, self.degrees = [], random.randrange(10, 40)

    def functions(self):
        def weather(city: City) -> str:
            """The weather of a city.

            Args:
                city: The name of the city.
            """
            self.calls.append(("weather", {"city": city}))
            return f"{self.degrees} degrees"

        def add(first: Small, second: Small) -> str:
            """Adds two numbers.

            Args:
                first: The first number.
                second: The second number.
            """
            self.calls.append(("add", {"first": first, "second": second}))
            return f"the sum is {first + second}"

        return [weather, add]


class ClientTest(unittest.TestCase):
    def check_loop(self, ask, streams=(False, True)):
        """ask(functions, question, stream) lets an agent with these functions answer, and returns its last text."""
        for stream in streams:
            for question in (QUESTION, ONE_BY_ONE):
                with self.subTest(stream=stream, question=question):
                    tools = Tools()
                    answer = ask(tools.functions(), question, stream)
                    self.assertEqual(dict(tools.calls), CALLS)
                    self.assertEqual(len(tools.calls), 2)
                    self.assertEqual(answer, f"{tools.degrees} degrees and the sum is 42")

    def check_stumble(self, ask, streams=(False, True)):
        """A call that is broken is told to the model, which makes it again."""
        for stream in streams:
            with self.subTest(stream=stream):
                tools = Tools()
                self.assertEqual(ask(tools.functions(), STUMBLE, stream), f"{tools.degrees} degrees and the sum is 42")
                self.assertEqual(tools.calls, list(CALLS.items()))

    def check_small(self, ask, streams=(False, True)):
        """The same before a small model that has to call one of them. What they were called with holds to their types."""
        for stream in streams:
            with self.subTest(stream=stream):
                tools = Tools()
                answer = ask(tools.functions(), "What is the weather in Bern?", stream)
                self.assertTrue(tools.calls)
                for name, arguments in tools.calls:
                    self.assertIn(name, CALLS)
                    for value in arguments.values():
                        self.assertIn(value, typing.get_args(City) + typing.get_args(Small))
                self.assertIsInstance(answer, str)

    def run_page(self, name, heading):
        """What the Python below a heading of a page prints, before the small model."""
        page = (DOCS / name).read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
        blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        self.assertEqual(len(blocks), 1)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(blocks[0].replace("http://127.0.0.1:8080/v1", URL), {})  # pylint: disable=exec-used
        return printed.getvalue()


class OpenAiTest(ClientTest):
    def setUp(self):
        self.scripted, self.small = (openai.OpenAI(base_url=url, api_key="any", max_retries=0, timeout=300)
                                     for url in (GATEWAY, URL))

    SCHEMAS = {"weather": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"],
                           "additionalProperties": False},
               "add": {"type": "object", "properties": {name: {"type": "integer", "minimum": 0, "maximum": 99}
                                                        for name in ("first", "second")},
                       "required": ["first", "second"], "additionalProperties": False}}

    def tools(self, strict):
        return [{"type": "function", "function": {"name": name, "description": f"Tells: {name}.", "parameters": schema,
                                                  **({"strict": True} if strict else {})}}
                for name, schema in self.SCHEMAS.items()]

    def turn(self, client, stream, **body):
        """One answer's choice, by create(), or of a stream as the client gathers it."""
        if not stream:
            return client.chat.completions.create(model="default", **body).choices[0]
        with client.chat.completions.stream(model="default", **body) as events:
            return events.get_final_completion().choices[0]

    def loop(self, functions, question, stream):
        by_name = {function.__name__: function for function in functions}
        messages = [{"role": "user", "content": question}]
        for _ in range(4):
            choice = self.turn(self.scripted, stream, messages=messages, tools=self.tools(stream))
            messages.append(choice.message.model_dump(exclude_none=True))
            if not choice.message.tool_calls:
                self.assertEqual(choice.finish_reason, "stop")
                return choice.message.content
            self.assertEqual(choice.finish_reason, "tool_calls")
            self.assertEqual(choice.message.content, "Let me look. ")
            for call in choice.message.tool_calls:
                result = by_name[call.function.name](**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return self.fail("it goes on calling")

    def test_a_loop(self):
        self.check_loop(self.loop)

    def test_deltas(self):
        """As OpenAI sends them: what a call is with its first delta alone, and nothing of it afterwards but arguments."""
        seen = {}
        for chunk in self.scripted.chat.completions.create(model="default", messages=[{"role": "user", "content": QUESTION}],
                                                           tools=self.tools(False), stream=True):
            for call in chunk.choices[0].delta.tool_calls or [] if chunk.choices else []:
                first = call.index not in seen
                self.assertEqual([bool(call.id), bool(call.function.name), call.type == "function"], [first] * 3)
                seen[call.index] = seen.get(call.index, "") + call.function.arguments
        self.assertEqual([json.loads(seen[index]) for index in range(2)], list(CALLS.values()))

    def test_required(self):
        import jsonschema

        named = {"type": "function", "function": {"name": "add"}}
        for choice in ("required", named):
            for seed, temperature in enumerate((0, 1.5, 1.5, 1.5)):
                with self.subTest(choice=choice, seed=seed):
                    messages = [{"role": "user", "content": "What is the weather in Bern?"}]
                    body = {"messages": messages, "tools": self.tools(True), "tool_choice": choice, "max_tokens": 100,
                            "parallel_tool_calls": False, "temperature": temperature, "seed": seed}
                    whole, streamed = (self.turn(self.small, stream, **body) for stream in (False, True))
                    self.assertEqual(whole.finish_reason, "tool_calls")
                    self.assertEqual(len(whole.message.tool_calls), 1)
                    # The same seed gives the same calls, with the same ids.
                    [call], [again] = whole.message.tool_calls, streamed.message.tool_calls
                    self.assertEqual((call.id, call.function.name, call.function.arguments),
                                     (again.id, again.function.name, again.function.arguments))
                    jsonschema.validate(json.loads(call.function.arguments), self.SCHEMAS[call.function.name])
                    if choice is named:
                        self.assertEqual(call.function.name, "add")
                    messages += [whole.message.model_dump(exclude_none=True),
                                 {"role": "tool", "tool_call_id": call.id, "content": "11 degrees"}]
                    for after in ("auto", "none"):
                        last = self.turn(self.small, False, messages=messages, tools=self.tools(True), tool_choice=after,
                                         max_tokens=16, temperature=0)
                        self.assertTrue(last.message.content or last.message.tool_calls)


    def test_tools_beside_a_form(self):
        import jsonschema

        form = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": Person.model_json_schema()}}
        for seed in range(4):
            messages = [{"role": "user", "content": INVENT if seed % 2 else "What is the weather in Bern?"}]
            body = {"messages": messages, "tools": self.tools(True), "response_format": form, "max_tokens": 100, "seed": seed,
                    "temperature": 1.5, "parallel_tool_calls": False}
            with self.subTest(seed=seed):
                whole, streamed = (self.turn(self.small, stream, **body).message for stream in (False, True))
                self.assertEqual(whole.content or "", streamed.content or "")
                self.assertNotEqual(bool(whole.content), bool(whole.tool_calls))
                for call, again in zip(whole.tool_calls or [], streamed.tool_calls or [], strict=True):
                    self.assertEqual(call.function.arguments, again.function.arguments)
                    jsonschema.validate(json.loads(call.function.arguments), self.SCHEMAS[call.function.name])
                if whole.content:
                    Person.model_validate_json(whole.content)


class LangChainTest(ClientTest):
    def model(self, url, **more):
        from langchain_openai import ChatOpenAI
        return ChatOpenAI(base_url=url, api_key="any", model="default", max_retries=0, timeout=300, **more)

    def ask_with(self, model, limit, **first):
        """`first`: more parameters, of the first turn alone."""
        from langchain_core.messages import HumanMessage, ToolMessage

        def ask(functions, question, stream):
            by_name = {function.__name__: function for function in functions}
            messages, more = [HumanMessage(question)], first
            for _ in range(limit):
                bound = model.bind_tools(functions, **more)
                if stream:
                    reply = None
                    for chunk in bound.stream(messages):
                        reply = chunk if reply is None else reply + chunk
                else:
                    reply = bound.invoke(messages)
                messages.append(reply)
                if not reply.tool_calls:
                    break
                self.assertFalse(reply.invalid_tool_calls)
                for call in reply.tool_calls:
                    messages.append(ToolMessage(by_name[call["name"]](**call["args"]), tool_call_id=call["id"]))
                more = {}
            return str(messages[-1].text)

        return ask

    def test_a_loop(self):
        self.check_loop(self.ask_with(self.model(GATEWAY), 4))

    def test_responses(self):
        self.check_loop(self.ask_with(self.model(GATEWAY, use_responses_api=True), 4))
        small = self.model(URL, temperature=0, max_tokens=60, use_responses_api=True)
        self.check_small(self.ask_with(small, 2, tool_choice="any"))
        form = self.model(URL, temperature=0, max_tokens=100, use_responses_api=True).with_structured_output(Person, method="json_schema")
        self.assertIsInstance(form.invoke(INVENT), Person)

    def test_a_small_model(self):
        self.check_small(self.ask_with(self.model(URL, temperature=0, max_tokens=60), 2, tool_choice="any"))

    def test_function_calling(self):
        for strict in (None, True):
            form = self.model(GATEWAY).with_structured_output(Person, method="function_calling", strict=strict)
            self.assertEqual(form.invoke(INVENT), Person(**ANNA))
            small = self.model(URL, temperature=0, max_tokens=100).with_structured_output(Person, method="function_calling",
                                                                                          strict=strict)
            self.assertIsInstance(small.invoke(INVENT), Person)


class OpenAiAgentsTest(ClientTest):
    def ask_before(self, url, output_type=None, responses=False, **settings):
        import agents

        model = agents.OpenAIResponsesModel if responses else agents.OpenAIChatCompletionsModel

        agents.set_tracing_disabled(True)

        async def ask(functions, question, stream):
            async with openai.AsyncOpenAI(base_url=url, api_key="any", max_retries=0, timeout=300) as client:
                agent = agents.Agent(name="Helper", instructions="You answer questions by tools.",
                                     model=model(model="default", openai_client=client),
                                     tools=[agents.function_tool(function) for function in functions],
                                     model_settings=agents.ModelSettings(**settings), output_type=output_type)
                if stream:
                    run = agents.Runner.run_streamed(agent, question)
                    async for _ in run.stream_events():
                        pass
                else:
                    run = await agents.Runner.run(agent, question)
                return run.final_output_as(output_type, raise_if_incorrect_type=True).answer if output_type else run.final_output

        return lambda *case: asyncio.run(ask(*case))

    def test_a_loop(self):
        self.check_loop(self.ask_before(GATEWAY))
        self.check_loop(self.ask_before(GATEWAY, parallel_tool_calls=True, include_usage=True, store=False))

    def test_an_output_type(self):
        self.check_loop(self.ask_before(GATEWAY, output_type=Answer))

    def test_responses(self):
        self.check_loop(self.ask_before(GATEWAY, responses=True))
        self.check_loop(self.ask_before(GATEWAY, output_type=Answer, responses=True))
        self.check_stumble(self.ask_before(GATEWAY, responses=True))
        self.check_small(self.ask_before(URL, responses=True, tool_choice="required", temperature=0, max_tokens=60))

    def test_a_broken_call(self):
        self.check_stumble(self.ask_before(GATEWAY))

    def test_a_small_model(self):
        self.check_small(self.ask_before(URL, tool_choice="required", temperature=0, max_tokens=60))
        self.check_small(self.ask_before(URL, tool_choice="weather", temperature=0, max_tokens=60))

    def test_the_page(self):
        self.assertRegex(self.run_page("clients/agents.md", "openai-agents"), r"weather of (Bern|Rome|Paris)\n.")


class PydanticAiTest(ClientTest):
    def ask_before(self, url, **options):
        import pydantic_ai
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        async def ask(functions, question, stream):
            async with openai.AsyncOpenAI(base_url=url, api_key="any", max_retries=0, timeout=300) as client:
                agent = pydantic_ai.Agent(OpenAIChatModel("default", provider=OpenAIProvider(openai_client=client)),
                                          tools=functions, instructions="You answer questions by tools.", **options)
                if not stream:
                    return (await agent.run(question)).output
                # run_stream() would take the text before a call for the answer.
                async with agent.iter(question) as run:
                    async for node in run:
                        if agent.is_model_request_node(node):
                            async with node.stream(run.ctx) as events:
                                async for _ in events:
                                    pass
                return run.result.output

        return lambda *case: asyncio.run(ask(*case))

    def test_a_loop(self):
        self.check_loop(self.ask_before(GATEWAY))

    def test_a_broken_call(self):
        self.check_stumble(self.ask_before(GATEWAY))

    def test_allowed_tools(self):
        from pydantic_ai.settings import ToolOrOutput

        def forbidden() -> str:
            """What the script calls wherever it is shown."""
            return self.fail("it was called")

        ask = self.ask_before(GATEWAY, model_settings={"tool_choice": ToolOrOutput(function_tools=["weather", "add"])})
        self.check_loop(lambda functions, *case: ask([forbidden, *functions], *case))

    def test_a_form(self):
        for stream in (False, True):
            self.assertEqual(self.ask_before(GATEWAY, output_type=Person)([], INVENT, stream), Person(**ANNA))
            small = self.ask_before(URL, output_type=Person, model_settings={"temperature": 0, "max_tokens": 100})
            self.assertIsInstance(small([], INVENT, stream), Person)

    def test_the_page(self):
        self.assertRegex(self.run_page("clients/agents.md", "pydantic-ai"), r"^name='.*' age=\d+\n$")


class SmolagentsTest(ClientTest):
    def ask_before(self, url, max_steps, **more):
        import smolagents

        model = smolagents.OpenAIModel("default", api_base=url, api_key="any", client_kwargs={"max_retries": 0, "timeout": 300},
                                       **more)

        def ask(functions, question, stream):
            tools = [self.tool(function) for function in functions]
            with contextlib.redirect_stdout(io.StringIO()):  # It prints what it streams.
                agent = smolagents.ToolCallingAgent(tools=tools, model=model, max_steps=max_steps, stream_outputs=stream,
                                                    verbosity_level=smolagents.LogLevel.OFF)
                return str(agent.run(question))

        return ask

    def tool(self, function):
        """A class, since a decorated function would have to have its source in a file of its own."""
        import smolagents

        inputs = {"weather": {"city": {"type": "string", "description": "A city.", "enum": list(typing.get_args(City))},
                              "unit": {"type": "string", "description": "A unit.", "enum": ["celsius"], "nullable": True}},
                  "add": {name: {"type": "integer", "description": "A number.", "enum": list(typing.get_args(Small))}
                          for name in ("first", "second")}}
        fields = {"name": function.__name__, "description": function.__doc__, "inputs": inputs[function.__name__],
                  "output_type": "string", "skip_forward_signature_validation": True,
                  "forward": lambda _, unit=None, **arguments: function(**arguments)}
        return type("OwnTool", (smolagents.Tool,), fields)()

    def test_a_loop(self):
        self.check_loop(self.ask_before(GATEWAY, 4))

    def test_a_small_model(self):
        # It does not end by itself: after so many steps it is asked for text.
        self.check_small(self.ask_before(URL, 2, temperature=0, max_tokens=60))


class InstructorTest(ClientTest):
    def test_tools(self):
        import instructor

        for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT):
            for url in (GATEWAY, URL):
                client = instructor.from_openai(openai.OpenAI(base_url=url, api_key="any", max_retries=0, timeout=300), mode=mode)
                body = {"model": "default", "messages": [{"role": "user", "content": INVENT}], "response_model": Person,
                        "max_tokens": 100, "temperature": 0, "max_retries": 0}
                with self.subTest(mode=mode, scripted=url == GATEWAY):
                    found = [client.chat.completions.create(**body), *list(client.chat.completions.create_partial(**body))[-1:]]
                    self.assertEqual(len(found), 2)
                    for person in found:
                        person = Person(**person.model_dump())
                        if url == GATEWAY:
                            self.assertEqual(person, Person(**ANNA))


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
        servers = [RopewayServer(arguments.ropeway, arguments.model), Gateway(arguments.ropeway, *backend(scripted))]
        for server in servers:
            open_ones.callback(server.log.close)
            open_ones.callback(server.process.wait)
            open_ones.callback(server.process.terminate)
        urls = [f"http://127.0.0.1:{server.port}/v1" for server in servers]
        passed = run_in_venvs(__file__, PACKAGES, {"ROPEWAY_TEST_URL": urls[0], "ROPEWAY_TEST_GATEWAY": urls[1]})
    return 0 if passed else 1


if __name__ == "__main__":
    if URL:
        unittest.main()
    sys.exit(main())
