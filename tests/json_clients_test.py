#!/usr/bin/env python3
"""JSON output as real clients ask for it: openai's .parse(), langchain-openai's with_structured_output and instructor, each from
PyPI in a venv of its own, before one `ropeway serve`. Whatever ends with finish_reason stop, or with a call that stands for the
form, must be valid.

usage: json_clients_test.py --ropeway PROGRAM --model FILE.gguf     (./test --suite clients)
"""
import argparse
import concurrent.futures
import contextlib
import datetime
import enum
import io
import json
import logging
import os
import pathlib
import re
import sys
import typing
import unittest
import uuid

# By the test that needs it. instructor and the newest openai want different versions of jiter.
PACKAGES = {
    "OpenAiTest": ("openai==3.57.0", "langchain-openai==1.7.4", "pydantic==2.14.4", "jsonschema==4.26.0"),
    "LangChainTest": ("openai==3.57.0", "langchain-openai==1.7.4", "pydantic==2.14.4", "jsonschema==4.26.0"),
    "InstructorTest": ("openai==2.54.0", "instructor==1.17.0", "pydantic==2.14.4", "jsonschema==4.26.0"),
}
URL = os.environ.get("ROPEWAY_TEST_URL", "")  # Set where a test runs in its venv.

if URL:
    import jsonschema
    import openai
    from pydantic import BaseModel, Field

    class Colour(enum.Enum):
        RED = "red"
        DARK_BLUE = "dark blue"
        GREEN = "grün"

    class Address(BaseModel):
        street: str = Field(max_length=30)
        number: int

    class Person(BaseModel):
        """Nested, an enum and a list."""
        name: str = Field(max_length=30)
        home: Address
        favourite: Colour
        nicknames: list[typing.Annotated[str, Field(max_length=12)]] = Field(max_length=3)

    class Book(BaseModel):
        """Optional values."""
        title: str = Field(max_length=40)
        subtitle: typing.Optional[typing.Annotated[str, Field(max_length=40)]]
        year: typing.Optional[int]
        rating: typing.Optional[float]
        sold_out: bool

    class Dog(BaseModel):
        kind: typing.Literal["dog"]
        is_loud: bool

    class Fish(BaseModel):
        kind: typing.Literal["fish"]
        water: typing.Literal["sweet", "salt"]
        litres: float

    class Household(BaseModel):
        """A union, and one in a list."""
        main_pet: typing.Union[Dog, Fish, None]
        others: list[typing.Union[Dog, Fish]] = Field(min_length=1, max_length=3)
        code: typing.Union[int, bool]

    class Part(BaseModel):
        """It refers to itself."""
        name: typing.Literal["wheel", "axle", "frame"]
        parts: list["Part"] = Field(max_length=2)

    class Order(BaseModel):
        """Bounds, a pattern and formats."""
        id: uuid.UUID
        code: str = Field(pattern=r"^[A-Z]{2}-\d{3,5}$")
        pieces: int = Field(ge=1, le=500)
        discount: float = Field(ge=0, lt=1)
        ordered: datetime.date
        sent: typing.Optional[datetime.datetime]

    class Flat(BaseModel):
        """What a small model may also meet without its schema."""
        city: str

    QUESTIONS = {Person: "Invent a person.", Book: "Name a book.", Household: "Describe a household with pets.",
                 Part: "List the parts of a bicycle.", Order: "Invent an order.",
                 Flat: "Name the capital of France."}
    logging.disable(logging.ERROR)  # instructor's, of answers that fit no schema.


class Answer(typing.NamedTuple):
    finish: str
    text: str
    parsed: object  # What the client made of it; None: it could not.


def answer_of(completion, parsed):
    choice = completion.choices[0]
    calls = choice.message.tool_calls  # Of the one tool that stands for the form.
    return Answer(choice.finish_reason, calls[0].function.arguments if calls else choice.message.content, parsed)


def messages(form):
    return [{"role": "system", "content": "You answer in JSON."}, {"role": "user", "content": QUESTIONS[form]}]


class ClientTest(unittest.TestCase):
    def check(self, ask, forms=None, schema_holds=True, finish="stop"):
        """Asks for each form at temperatures 0 and 1.5, and judges what came. `ask` takes a form and sampling parameters."""
        draws = [{"temperature": 0}] + [{"temperature": 1.5, "seed": seed} for seed in range(4)]
        cases = [(form, draw) for form in forms or QUESTIONS for draw in draws]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda case: ask(case[0], {"max_tokens": 160, **case[1]}), cases))
        stopped = 0
        for (form, draw), answer in zip(cases, answers):
            with self.subTest(form=form.__name__, **draw):
                if answer.finish != finish:
                    self.assertEqual(answer.finish, "length")
                    continue
                stopped += 1
                value = json.loads(answer.text)
                self.assertIsInstance(value, dict)
                if schema_holds:
                    judge = jsonschema.Draft202012Validator
                    jsonschema.validate(value, form.model_json_schema(), judge, format_checker=judge.FORMAT_CHECKER)
                    self.assertEqual(answer.parsed, form.model_validate(value))
        print(f"  {self.id().split('.', 1)[1]}: {stopped} of {len(cases)} ended with {finish}, the others with length", flush=True)
        self.assertGreaterEqual(stopped, len(cases) // 2 if schema_holds else 1)


class OpenAiTest(ClientTest):
    def setUp(self):
        self.client = openai.OpenAI(base_url=URL, api_key="any", max_retries=0, timeout=300)

    def test_parse(self):
        def ask(form, how):
            try:
                reply = self.client.chat.completions.parse(model="default", messages=messages(form), response_format=form, **how)
            except openai.LengthFinishReasonError as error:
                return answer_of(error.completion, None)
            return answer_of(reply, reply.choices[0].message.parsed)

        self.check(ask)

    def test_a_stream_is_parsed(self):
        def ask(form, how):
            try:
                with self.client.chat.completions.stream(model="default", messages=messages(form), response_format=form,
                                                         **how) as stream:
                    reply = stream.get_final_completion()
            except openai.LengthFinishReasonError as error:
                return answer_of(error.completion, None)
            return answer_of(reply, reply.choices[0].message.parsed)

        self.check(ask, [Person, Flat])

    def test_json_object(self):
        def ask(form, how):
            return answer_of(self.client.chat.completions.create(model="default", messages=messages(form),
                                                                 response_format={"type": "json_object"}, **how), None)

        self.check(ask, schema_holds=False)


class LangChainTest(ClientTest):
    def test_the_page(self):
        page = pathlib.Path(__file__).parent.parent.joinpath("docs", "clients", "langchain.md").read_text(encoding="utf-8")
        blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        self.assertEqual(len(blocks), 2)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            variables = {}
            for code in blocks:
                exec(code.replace("http://127.0.0.1:8080/v1", URL), variables)  # pylint: disable=exec-used
        self.assertRegex(printed.getvalue(), r"name='.*' capital='.*'\n$")

    def ask_by(self, method):
        from langchain_openai import ChatOpenAI

        def ask(form, how):
            model = ChatOpenAI(base_url=URL, api_key="any", model="default", max_retries=0, timeout=300, **how)
            try:
                reply = model.with_structured_output(form, method=method, include_raw=True).invoke(messages(form))
            except openai.LengthFinishReasonError as error:
                return answer_of(error.completion, None)
            calls = reply["raw"].tool_calls
            text = json.dumps(calls[0]["args"]) if calls else reply["raw"].content
            return Answer(reply["raw"].response_metadata["finish_reason"], text, reply["parsed"])

        return ask

    def test_json_schema(self):
        self.check(self.ask_by("json_schema"))

    def test_json_mode(self):
        self.check(self.ask_by("json_mode"), schema_holds=False)

    def test_function_calling(self):
        # What refers to itself is written without saying what it refers to.
        self.check(self.ask_by("function_calling"), [form for form in QUESTIONS if form is not Part], finish="tool_calls")


class InstructorTest(ClientTest):
    def ask_in(self, mode):
        import instructor
        from instructor.core.exceptions import IncompleteOutputException, InstructorRetryException

        client = instructor.from_openai(openai.OpenAI(base_url=URL, api_key="any", max_retries=0, timeout=300), mode=mode)

        def ask(form, how):
            try:
                parsed, reply = client.chat.completions.create_with_completion(
                    model="default", messages=messages(form), response_model=form, max_retries=0, **how)
            except (IncompleteOutputException, InstructorRetryException) as error:
                return answer_of(error.last_completion, None)
            return answer_of(reply, form.model_validate(parsed.model_dump()))

        return ask

    def test_json_schema(self):
        import instructor
        self.check(self.ask_in(instructor.Mode.JSON_SCHEMA))

    def test_json(self):
        import instructor
        self.check(self.ask_in(instructor.Mode.JSON), schema_holds=False)

    def test_tools(self):
        import instructor
        self.check(self.ask_in(instructor.Mode.TOOLS), finish="tool_calls")


def main():
    from client_venvs import run_in_venvs
    from ropeway_server import RopewayServer

    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    arguments = parser.parse_args()
    server = RopewayServer(arguments.ropeway, arguments.model)
    try:
        passed = run_in_venvs(__file__, PACKAGES, {"ROPEWAY_TEST_URL": f"http://127.0.0.1:{server.port}/v1"})
    finally:
        server.process.terminate()
        server.process.wait()
        server.log.close()
    return 0 if passed else 1


if __name__ == "__main__":
    if URL:
        unittest.main()
    sys.exit(main())
