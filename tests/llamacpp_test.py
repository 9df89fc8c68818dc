#!/usr/bin/env python3
"""llama.cpp's own API of `ropeway serve`, on the default model: the names and types of its answers are llama-server's
(llamacpp_shapes.py), and what llama.cpp's clients ask for at their start is answered.

usage: llamacpp_test.py --ropeway PROGRAM --model FILE.gguf [unittest flags]
"""
import functools
import json
import unittest

from llamacpp_shapes import ALSO, BOUNDED, CHAT, PROMPT, RECORDED, REQUESTS, ask
from openai_server import Server, TimedCase, main


@functools.cache
def shared_server():
    server = Server("--max-model-len", "512")
    unittest.addModuleCleanup(server.stop)
    return server


class LlamaCppTest(TimedCase):
    def setUp(self):
        super().setUp()
        self.server = shared_server()

    def post(self, path, body, status=200):
        code, reply = self.server.plain("POST", path, body)
        self.assertEqual(code, status, reply)
        return json.loads(reply)

    def test_answers_have_llama_servers_names_and_types(self):
        recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
        self.assertEqual(sorted(recorded), sorted(REQUESTS))
        for name, (status, shape) in recorded.items():
            with self.subTest(name):
                code, found = ask(self.server.port, name)
                for also in ALSO.get(name, ()):
                    found.pop(also)
                self.assertEqual((code, found), (status, shape))

    def test_what_clients_ask_at_their_start(self):
        for path in ("/props", "/v1/models", "/models", "/slots", "/health"):
            self.assertEqual(self.server.plain("GET", path)[0], 200, path)

    def test_how_it_ended(self):
        def end(**more):
            answer = self.post("/completion", {**BOUNDED, "ignore_eos": True, **more})
            return answer["stop_type"], answer["stopping_word"], answer["truncated"]
        self.assertEqual(end(), ("limit", "", False))
        text = self.post("/completion", {**BOUNDED, "n_predict": 8, "ignore_eos": True})["content"]
        word = text.split()[1]
        self.assertEqual(end(n_predict=8, stop=["zzz", word]), ("word", word, False))
        forbidden = {"n_predict": 2, "ignore_eos": False, "logit_bias": [[2, 100]]}
        self.assertEqual(end(**forbidden), ("eos", "", False))
        # -1 is up to the end of the context.
        self.assertEqual(end(n_predict=-1, prompt=[504] * 504), ("limit", "", True))

    def test_prompts_of_texts_and_ids(self):
        ids = self.post("/tokenize", {"content": PROMPT, "add_special": True})["tokens"]
        whole = self.post("/completion", BOUNDED)
        self.assertEqual(whole["tokens_evaluated"], len(ids))
        for prompt in (ids, [ids[0], *ids[1:]], {"prompt_string": PROMPT}):
            self.assertEqual(self.post("/completion", {**BOUNDED, "prompt": prompt})["content"], whole["content"])
        first = self.post("/detokenize", {"tokens": ids[:1]})["content"]
        mixed = self.post("/completion", {**BOUNDED, "prompt": [first, *ids[1:]]})
        self.assertEqual((mixed["content"], mixed["prompt"]), (whole["content"], PROMPT))

    def test_a_text_is_forbidden_and_probabilities_are_the_models(self):
        answer = self.post("/completion", {**BOUNDED, "n_probs": 3})
        first = answer["completion_probabilities"][0]
        self.assertEqual(first["token"], first["top_logprobs"][0]["token"])
        other = self.post("/completion", {**BOUNDED, "logit_bias": [[first["token"], False]]})
        self.assertFalse(other["content"].startswith(first["token"]))

    def test_a_template_and_its_completion_are_the_chat(self):
        prompt = self.post("/apply-template", {"messages": CHAT})["prompt"]
        chat = self.post("/v1/chat/completions", {"messages": CHAT, "max_tokens": 8, "temperature": 0, "seed": 1})
        answer = self.post("/completion", {"prompt": prompt, "n_predict": 8, "temperature": 0, "seed": 1})
        self.assertEqual(answer["content"], chat["choices"][0]["message"]["content"])


if __name__ == "__main__":
    main()
