#!/usr/bin/env python3
"""The ollama client and langchain-ollama, from PyPI in a venv of their own, before a `ropeway serve`, before a gateway in front of
it, and pulling a model from a server that stands for the hub.

usage: ollama_clients_test.py --ropeway PROGRAM --model FILE.gguf     (./test --suite clients)
"""
import argparse
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import typing
import unittest

OLLAMA = ("ollama==0.6.3", "langchain-ollama==1.1.0", "pydantic==2.14.4")
PACKAGES = {"OllamaTest": OLLAMA, "GatewayTest": OLLAMA, "LangChainTest": OLLAMA, "PullTest": OLLAMA}
# Set where a test runs in its venv.
URL = os.environ.get("ROPEWAY_TEST_URL", "")
GATEWAY = os.environ.get("ROPEWAY_TEST_GATEWAY", "")
PAGE = pathlib.Path(__file__).parent.parent / "docs" / "clients" / "ollama.md"
MODEL = "sea"
ASK = [{"role": "user", "content": "Name the capital of France in one word."}]
GREEDY = {"temperature": 0, "num_predict": 6}

if URL:
    import ollama
    from langchain_ollama import ChatOllama, OllamaLLM
    from pydantic import BaseModel

    class Country(BaseModel):
        name: typing.Literal["France", "Italy"]
        big: bool


def weather(city: str) -> str:
    """The weather of a city.

    Args:
      city: Its name.
    """
    return f"Sunny in {city}."


class OllamaTest(unittest.TestCase):
    url = URL

    def setUp(self):
        self.client = ollama.Client(host=self.url)

    def chat(self, **more):
        return self.client.chat(**{"model": MODEL, "messages": ASK, "options": GREEDY, **more})

    def test_a_chat_whole_and_streamed(self):
        whole = self.chat()
        self.assertEqual((whole.message.role, whole.done, whole.done_reason), ("assistant", True, "length"))
        self.assertEqual(whole.eval_count, 6)
        self.assertGreaterEqual(whole.total_duration, whole.eval_duration)
        parts = list(self.chat(stream=True))
        self.assertGreater(len(parts), 3)
        self.assertEqual("".join(part.message.content for part in parts), whole.message.content)
        self.assertEqual([part.done for part in parts], [False] * (len(parts) - 1) + [True])

    def test_a_text(self):
        whole = self.client.generate(model=MODEL, prompt=ASK[0]["content"], options=GREEDY)
        self.assertEqual(whole.response, self.chat().message.content)
        raw = self.client.generate(model=MODEL, prompt="Once upon a time", raw=True, options=GREEDY)
        streamed = self.client.generate(model=MODEL, prompt="Once upon a time", raw=True, options=GREEDY, stream=True)
        self.assertEqual("".join(part.response for part in streamed), raw.response)
        self.assertEqual(self.client.generate(model=MODEL).done_reason, "load")

    def test_a_form(self):
        for temperature in (0, 1.5):
            reply = self.chat(format=Country.model_json_schema(), options={"temperature": temperature, "num_predict": 60, "seed": 3})
            Country.model_validate_json(reply.message.content)

    def test_tools(self):
        """A small model seldom calls; what it is shown and what comes back must be read."""
        messages = [*ASK, {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Bern"}}}]},
                    {"role": "tool", "tool_name": "weather", "content": weather("Bern")}]
        reply = self.chat(messages=messages, tools=[weather])
        self.assertEqual(reply.message.role, "assistant")
        again = self.chat(messages=[*messages, reply.message, *ASK], tools=[weather])
        self.assertTrue(again.done)
        for part in self.chat(tools=[weather], stream=True, options={"num_predict": 40, "temperature": 1, "seed": 5}):
            for call in part.message.tool_calls or []:
                self.assertIsInstance(call.function.arguments, dict)

    def test_logprobs_and_thinking(self):
        reply = self.chat(logprobs=True, top_logprobs=2, think=False)
        self.assertEqual(len(reply.logprobs), 6)
        self.assertEqual(len(reply.logprobs[0].top_logprobs), 2)

    def test_models(self):
        listed = self.client.list().models
        self.assertIn(f"{MODEL}:latest", [model.model for model in listed])
        self.assertEqual(self.client.ps().models[0].model, listed[0].model)
        shown = self.client.show(MODEL)
        self.assertIn("completion", shown.capabilities)
        self.assertIsNotNone(shown.modelinfo)  # A gateway knows little of it.

    def test_errors(self):
        for status, call in ((404, lambda: self.chat(model="none")), (400, lambda: self.chat(options={"temperature": -1})),
                             (501, lambda: self.client.delete(MODEL)), (501, lambda: self.client.create("mine", from_=MODEL)),
                             (404, lambda: list(self.chat(model="none", stream=True)))):
            with self.assertRaises(ollama.ResponseError) as raised:
                call()
            self.assertEqual(raised.exception.status_code, status)
            self.assertNotIn("{", raised.exception.error)

    def test_the_page(self):
        code = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
        code = code.replace("http://127.0.0.1:8080", self.url).replace('"default"', f'"{MODEL}"')
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, PAGE.name, "exec"), {})  # pylint: disable=exec-used
        self.assertTrue(printed.getvalue())


class GatewayTest(OllamaTest):
    """The same, with a gateway between."""
    url = GATEWAY

    def test_it_says_what_its_backend_says(self):
        options = {"seed": 7, "temperature": 1.1, "num_predict": 12}
        self.assertEqual(self.chat(options=options).message.content,
                         ollama.Client(host=URL).chat(MODEL, ASK, options=options).message.content)


class LangChainTest(unittest.TestCase):
    def test_a_chat(self):
        model = ChatOllama(model=MODEL, base_url=URL, temperature=0, num_predict=6, num_ctx=2048, seed=1, validate_model_on_init=True)
        whole = model.invoke("Name the capital of France in one word.")
        self.assertTrue(whole.content)
        self.assertEqual(whole.usage_metadata["output_tokens"], 6)
        self.assertEqual("".join(part.content for part in model.stream("Name the capital of France in one word.")), whole.content)

    def test_a_form_and_a_text(self):
        model = ChatOllama(model=MODEL, base_url=URL, temperature=0, num_predict=60)
        self.assertIn(model.with_structured_output(Country, method="json_schema").invoke("Which is it?").name, ("France", "Italy"))
        self.assertTrue(OllamaLLM(model=MODEL, base_url=URL, num_predict=8).invoke("Once upon a time"))


class PullTest(unittest.TestCase):
    def test_a_pull(self):
        client = ollama.Client(host=URL)
        steps = list(client.pull("small", stream=True))
        self.assertEqual((steps[0].status, steps[-1].status), ("pulling manifest", "success"))
        files = [step for step in steps if step.digest]
        self.assertTrue(files)
        self.assertEqual(files[-1].completed, files[-1].total)
        self.assertIn("ropeway serve --model Small", steps[-2].status)
        self.assertEqual(client.pull("small:latest").status, "success")
        for name in ("hf:owner/repo", "../small", "http://127.0.0.1/x.gguf", "none"):
            with self.assertRaises(ollama.ResponseError) as raised:
                client.pull(name)
            self.assertEqual(raised.exception.status_code, 404, name)


def main():
    from client_venvs import run_in_venvs
    from gateway_server import Gateway, backend
    from hub_double import HubDouble
    from ropeway_server import RopewayServer

    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as open_ones:
        work = pathlib.Path(open_ones.enter_context(tempfile.TemporaryDirectory()))
        hub = HubDouble()
        open_ones.callback(hub.close)
        hub.put("owner/repo", {"Small.gguf": pathlib.Path(arguments.model).read_bytes()})
        registry = work / "registry.json"
        registry.write_text(json.dumps([{"name": "small", "file": "Small.gguf", "source": "hf:owner/repo"}]))
        environment = {**os.environ, "XDG_CACHE_HOME": str(work), "HF_ENDPOINT": hub.url}
        server = RopewayServer(arguments.ropeway, arguments.model, "--alias", MODEL, "--any-model", "off", "--allow-pull", "--registry", registry,
                               environment=environment)
        gateway = Gateway(arguments.ropeway, *backend(f"http://127.0.0.1:{server.port}", model=MODEL, kind="ropeway"))
        for one in (server, gateway):
            open_ones.callback(one.log.close)
            open_ones.callback(one.process.wait)
            open_ones.callback(one.process.terminate)
        urls = [f"http://127.0.0.1:{one.port}" for one in (server, gateway)]
        passed = run_in_venvs(__file__, PACKAGES, {"ROPEWAY_TEST_URL": urls[0], "ROPEWAY_TEST_GATEWAY": urls[1]})
        pulled = (work / "ropeway" / "models" / "Small.gguf").exists()
        if not pulled:
            print("the pulled model is missing", file=sys.stderr)
    return 0 if passed and pulled else 1


if __name__ == "__main__":
    if URL:
        unittest.main()
    sys.exit(main())
