#!/usr/bin/env python3
"""Ollama's API as its clients ask it: the requests of ollama's Python client and of Open WebUI's Ollama connection (as their sources
write them), against one `ropeway serve` with the default model.

usage: ollama_test.py --ropeway PROGRAM --model FILE.gguf [unittest flags]
"""
import datetime
import functools
import json
import pathlib
import unittest

from openai_server import ARGS, Server, main

KEY = "sk-the-key-of-this-test"
ASK = [{"role": "user", "content": "Name the capital of France in one word."}]
WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string", "description": "Its name"}}}}}
GREEDY = {"temperature": 0, "num_predict": 6}


@functools.cache
def shared_server():
    server = Server("--api-key", KEY, "--alias", "sea", "--alias", "sea-two")
    server.key = KEY
    unittest.addModuleCleanup(server.stop)
    return server


class OllamaTest(unittest.TestCase):
    def setUp(self):
        self.server = shared_server()

    def ask(self, path, body, status=200):
        """The answer's lines, or its one object."""
        got, text, headers = self.server.request("POST", path, body)
        self.assertEqual(got, status, text)
        if headers.get_content_type() == "application/x-ndjson":
            self.assertTrue(text.endswith("\n"))
            return [json.loads(line) for line in text.splitlines()]
        self.assertEqual(headers.get_content_type(), "application/json")
        return json.loads(text)

    def got(self, path):
        status, text, _ = self.server.get(path)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def check_end(self, line, reason):
        self.assertEqual((line["done"], line["done_reason"]), (True, reason))
        durations = [line[f"{name}_duration"] for name in ("load", "prompt_eval", "eval")]
        self.assertEqual(line["total_duration"], sum(durations))
        self.assertTrue(all(duration > 0 for duration in durations), line)
        self.assertGreater(line["prompt_eval_count"], 0)
        self.assertGreater(line["eval_count"], 0)

    def test_a_stream_says_what_a_whole_answer_says_and_so_do_other_dialects(self):
        lines = self.ask("/api/chat", {"model": "sea", "messages": ASK, "options": GREEDY})
        whole = self.ask("/api/chat", {"model": "sea:latest", "messages": ASK, "options": GREEDY, "stream": False})
        self.check_end(lines[-1], "length")
        self.check_end(whole, "length")
        said = "".join(line["message"]["content"] for line in lines)
        self.assertEqual(said, whole["message"]["content"])
        generated = self.ask("/api/generate", {"prompt": ASK[0]["content"], "options": GREEDY, "stream": False})
        self.assertEqual(generated["response"], said)
        status, text, _ = self.server.request("POST", "/v1/chat/completions", {"messages": ASK, "temperature": 0, "max_tokens": 6})
        self.assertEqual(status, 200, text)
        chat = json.loads(text)
        self.assertEqual(chat["choices"][0]["message"]["content"], said)
        self.assertEqual(chat["usage"]["prompt_tokens"], whole["prompt_eval_count"])

    def test_a_seed_gives_the_same_text_in_each_dialect(self):
        options = {"seed": 7, "temperature": 1.2, "top_p": 0.9, "num_predict": 6}
        texts = [self.ask("/api/generate", {"prompt": "Once", "raw": True, "options": options, "stream": False})["response"]
                 for _ in range(2)]
        status, text, _ = self.server.request("POST", "/v1/completions", {
            "prompt": "Once", "seed": 7, "temperature": 1.2, "top_p": 0.9, "max_tokens": 6})
        self.assertEqual(status, 200, text)
        self.assertEqual({*texts, json.loads(text)["choices"][0]["text"]}, {texts[0]})

    def test_forms(self):
        schema = {"type": "object", "required": ["city", "big"], "additionalProperties": False,
                  "properties": {"city": {"enum": ["Bern", "Rome"]}, "big": {"type": "boolean"}}}
        answer = self.ask("/api/chat", {"messages": ASK, "format": schema, "stream": False, "options": {"num_predict": 40}})
        self.assertEqual(list(json.loads(answer["message"]["content"])), ["city", "big"])
        lines = self.ask("/api/generate", {"prompt": "Describe a cat as JSON.", "format": "json", "options": {"num_predict": 8, "seed": 1}})
        self.assertTrue("".join(line["response"] for line in lines).lstrip().startswith("{"))

    def test_what_open_webui_asks(self):
        version = self.got("/api/version")["version"]
        self.assertGreater(tuple(map(int, version.split("."))), (0, 12, 0))  # As it compares them.
        models = {model["model"]: model for model in self.got("/api/tags")["models"]}
        self.assertEqual(set(models), {"sea:latest", "sea-two:latest"})
        model = models["sea:latest"]
        self.assertEqual(model["size"], pathlib.Path(ARGS.model).stat().st_size)
        self.assertEqual((model["details"]["family"], model["details"]["parameter_size"]), ("llama", "134.52M"))
        self.assertEqual(model["details"]["quantization_level"], "Q4_1")
        for loaded in self.got("/api/ps")["models"]:
            self.assertIn(loaded["name"], models)
            datetime.datetime.fromisoformat(loaded["expires_at"])
        shown = self.ask("/api/show", {"model": "sea:latest", "name": "sea:latest"})
        self.assertIn("completion", shown["capabilities"])
        self.assertIn("im_start", shown["template"])
        self.assertEqual(shown["model_info"]["general.architecture"], "llama")
        # It names the model with its tag, and sends what its pages set.
        lines = self.ask("/api/chat", {
            "model": "sea:latest", "messages": [{"role": "system", "content": "Be brief."}, *ASK], "stream": True, "keep_alive": "5m",
            "options": {"temperature": 0.7, "seed": 7, "top_k": 40, "num_ctx": 4096, "num_predict": 8, "repeat_penalty": 1.1, "mirostat": 0,
                        "use_mmap": True, "num_thread": 2, "stop": ["<|end|>"]}})
        self.check_end(lines[-1], "length")
        # A task of its own: a title.
        title = self.ask("/api/chat", {"model": "sea:latest", "messages": ASK, "stream": False, "options": {"num_predict": 8}})
        self.assertEqual(title["model"], "sea")

    def test_tools_and_what_they_gave(self):
        call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Bern"}}}]}
        lines = self.ask("/api/chat", {"messages": [*ASK, call, {"role": "tool", "tool_name": "weather", "content": "Sunny."}],
                                       "tools": [WEATHER], "options": GREEDY})
        self.check_end(lines[-1], "length")

    def test_logprobs(self):
        answer = self.ask("/api/chat", {"messages": ASK, "options": GREEDY, "logprobs": True, "top_logprobs": 2, "stream": False})
        self.assertEqual(len(answer["logprobs"]), 6)
        for token in answer["logprobs"]:
            self.assertEqual(token["top_logprobs"][0]["token"], token["token"])  # At temperature 0.
        lines = self.ask("/api/chat", {"messages": ASK, "options": GREEDY, "logprobs": True})
        self.assertEqual([token["token"] for line in lines for token in line.get("logprobs", [])],
                         [token["token"] for token in answer["logprobs"]])

    def test_what_asks_for_nothing_loads_the_model(self):
        self.assertEqual(self.ask("/api/chat", {"model": "sea", "messages": []})["done_reason"], "load")
        self.assertEqual(self.ask("/api/generate", {"model": "sea", "keep_alive": 0})["done_reason"], "load")

    def test_errors(self):
        for path, body, status, words in (
                ("/api/chat", {"model": "none", "messages": ASK}, 404, "none"),
                ("/api/chat", {"messages": [{"role": "user", "content": "a", "images": ["aGk="]}]}, 400, "messages[0].images"),
                ("/api/generate", {"prompt": "a", "suffix": "b"}, 400, "suffix"),
                ("/api/generate", {"prompt": "a", "options": {"temperature": -1}}, 400, "options.temperature"),
                ("/api/generate", {"prompt": "word " * 9000, "stream": True}, 400, "tokens"),
                ("/api/pull", {"model": "sea"}, 403, "key"),
                ("/api/create", {"model": "mine", "from": "sea"}, 501, "models")):
            with self.subTest(path, words=words):
                answer = self.ask(path, body, status)
                self.assertEqual(list(answer), ["error"])
                self.assertIn(words, answer["error"])


if __name__ == "__main__":
    main()
