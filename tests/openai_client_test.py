#!/usr/bin/env python3
"""The server through OpenAI's official Python client: `ropeway serve` on the default
model, and the unchanged `openai` package in front of it.

usage: openai_client_test.py --ropeway PROGRAM --model FILE.gguf [unittest flags]
"""
import asyncio
import concurrent.futures
import functools
import json
import math
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

import openai

from openai_server import ARGS, ENDLESS, FRANCE, GREEDY, MODEL, QUESTIONS, Server, TimedCase, ask, counts, main


@functools.cache
def shared_server():
    """The server of all tests."""
    server = Server()
    unittest.addModuleCleanup(server.stop)
    return server


class ClientTest(TimedCase):
    @classmethod
    def setUpClass(cls):
        cls.server = shared_server()
        cls.client = cls.server.client()

    def complete(self, prompt, **more):
        return self.client.completions.create(prompt=prompt, **{**GREEDY, "max_tokens": 8, **more})

    def chat(self, question, **more):
        return self.client.chat.completions.create(messages=ask(question),
                                                   **{**GREEDY, "max_tokens": 16, **more})

    def rejected(self, error, param, call, *args, **more):
        with self.assertRaises(error) as caught:
            call(*args, **more)
        self.assertEqual(caught.exception.param, param, caught.exception)
        self.assertTrue(caught.exception.body["message"])
        self.assertEqual(set(caught.exception.body), {"message", "type", "param", "code"})
        return caught.exception


class CompletionTest(ClientTest):
    def test_answers_and_health_show_batches_and_times(self):
        def batching():
            return json.loads(self.server.plain("GET", "/health")[1])["batching"]

        self.server.wait_until_idle()
        before = batching()
        start = time.monotonic()
        reply = self.complete("One, two, three,", max_tokens=8, extra_body={"ignore_eos": True})
        latency_ms = (time.monotonic() - start) * 1000
        shown = reply.model_extra["ropeway"]
        self.assertEqual(shown["batch_num"], before["total_batches"] + 1)
        self.assertEqual(shown["batch_size"], 1)
        self.assertEqual(shown["formation_ms"], 0)
        phases = [shown[f"{phase}_ms"] for phase in ("queue", "prefill", "decode", "output")]
        self.assertGreater(shown["prefill_ms"], 0)
        self.assertGreater(shown["decode_ms"], 0)
        self.assertTrue(all(ms >= 0 for ms in phases), phases)
        self.assertLessEqual(sum(phases), latency_ms)

        self.server.wait_until_idle()
        after = batching()
        self.assertEqual(after["strategy"], "continuous")
        self.assertTrue(after["enabled"])
        self.assertEqual(after["total_batches"], shown["batch_num"])
        self.assertEqual(after["total_requests"], before["total_requests"] + 1)
        self.assertGreaterEqual(after["total_steps"], before["total_steps"] + 8)
        self.assertGreaterEqual(after["total_rows"],
                                before["total_rows"] + reply.usage.prompt_tokens
                                - reply.usage.prompt_tokens_details.cached_tokens + 7)
        self.assertEqual(after["queue_depth"], 0)
        for name in ("avg_batch_size", "avg_batch_duration_ms", "avg_step_size", "avg_step_rows",
                     "avg_step_duration_ms", "max_batch_size"):
            self.assertGreater(after[name], 0, name)
        self.assertEqual(self.server.metric("ropeway_batches_total"), after["total_batches"])
        self.assertEqual(self.server.metric("ropeway_batched_requests_total"), after["total_requests"])

    def test_a_completion(self):
        reply = self.complete(FRANCE, max_tokens=5)
        self.assertEqual(reply.object, "text_completion")
        self.assertIn("Paris", reply.choices[0].text)
        self.assertEqual(reply.choices[0].finish_reason, "length")
        self.assertEqual((reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.total_tokens),
                         (5, 5, 10))
        self.assertTrue(reply.id and reply.model and reply.created)

    def test_token_ids_are_the_text_they_stand_for(self):
        ids = self.server.tokenize(FRANCE)
        self.assertEqual(len(ids), 5)
        self.assertEqual(self.complete(ids).choices[0].text, self.complete(FRANCE).choices[0].text)

    def test_a_list_of_prompts_in_order(self):
        prompts = [FRANCE, "1, 2, 3,", "Once upon a time"]
        reply = self.complete(prompts)
        self.assertEqual([c.index for c in reply.choices], [0, 1, 2])
        self.assertEqual([c.text for c in reply.choices],
                         [self.complete(p).choices[0].text for p in prompts])
        self.assertEqual(reply.usage.completion_tokens, 24)
        ids = [self.server.tokenize(p) for p in prompts]
        self.assertEqual([c.text for c in self.complete(ids).choices], [c.text for c in reply.choices])

    def test_several_choices(self):
        drawn = {"seed": 11, "temperature": 1, "top_p": 1, "max_tokens": 12}
        one = self.complete(FRANCE, **drawn).choices[0].text
        reply = self.complete([FRANCE, "Once upon a time"], n=3, **drawn)
        self.assertEqual([c.index for c in reply.choices], list(range(6)))
        self.assertEqual(reply.choices[0].text, one)
        self.assertEqual(len({c.text for c in reply.choices[:3]}), 3)
        self.assertEqual(reply.choices[3].text, self.complete("Once upon a time", **drawn).choices[0].text)
        self.assertEqual(reply.usage.completion_tokens, 72)

    def test_seeds(self):
        drawn = lambda seed: self.complete("My favourite colour is", seed=seed, temperature=1.2,
                                           max_tokens=16).choices[0].text
        self.assertEqual(drawn(3), drawn(3))
        self.assertNotEqual(drawn(3), drawn(4))

    def test_logprobs(self):
        choice = self.complete(FRANCE, logprobs=3).choices[0]
        found = choice.logprobs
        self.assertEqual("".join(found.tokens), choice.text)
        self.assertEqual([len(lists) for lists in (found.token_logprobs, found.top_logprobs, found.text_offset)],
                         [len(found.tokens)] * 3)
        for token, logprob, top in zip(found.tokens, found.token_logprobs, found.top_logprobs):
            self.assertLessEqual(logprob, 0)
            self.assertEqual(len(top), 3)
            # Greedy: the token is the most probable one.
            self.assertEqual(top[token], logprob)
            self.assertEqual(max(top.values()), logprob)
        self.assertEqual(found.text_offset[1] - found.text_offset[0], len(found.tokens[0]))

    def test_echo(self):
        plain = self.complete(FRANCE).choices[0].text
        self.assertEqual(self.complete(FRANCE, echo=True).choices[0].text, FRANCE + plain)
        # max_tokens 0: only the prompt is scored.
        reply = self.complete(FRANCE, echo=True, max_tokens=0, logprobs=0)
        choice = reply.choices[0]
        self.assertEqual(choice.text, FRANCE)
        self.assertEqual(len(choice.logprobs.tokens), 5)
        self.assertIsNone(choice.logprobs.token_logprobs[0])
        self.assertTrue(all(value < 0 for value in choice.logprobs.token_logprobs[1:]))
        self.assertEqual(choice.logprobs.text_offset[0], 0)
        self.assertEqual(reply.usage.completion_tokens, 0)

    def test_stop_and_penalties(self):
        counting = "1, 2, 3, 4, 5, 6, 7, 8, 9,"
        stopped = self.complete(counting, stop=["12"], max_tokens=30).choices[0]
        self.assertEqual((stopped.finish_reason, stopped.text.strip()), ("stop", "10, 11,"))
        free = self.complete(counting, max_tokens=12).choices[0].text
        self.assertNotEqual(self.complete(counting, max_tokens=12, frequency_penalty=2,
                                          presence_penalty=2).choices[0].text, free)
        [paris] = self.server.tokenize(" Paris")
        self.assertNotIn("Paris", self.complete(FRANCE, logit_bias={str(paris): -100}).choices[0].text[:6])

    def test_a_stream_is_the_whole_in_parts(self):
        whole = self.complete(FRANCE, max_tokens=24)
        chunks = list(self.complete(FRANCE, max_tokens=24, stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(c.choices[0].text for c in chunks if c.choices), whole.choices[0].text)
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(counts(chunks[-1].usage), counts(whole.usage))
        self.assertTrue(all(c.usage is None for c in chunks[:-1]))
        self.assertGreater(len(chunks), 10)

    def test_a_stream_of_several_choices(self):
        whole = self.complete([FRANCE, "Once upon a time"], n=2, seed=5, temperature=1)
        texts = [""] * 4
        reasons = [None] * 4
        for chunk in self.complete([FRANCE, "Once upon a time"], n=2, seed=5, temperature=1, stream=True):
            for choice in chunk.choices:
                texts[choice.index] += choice.text
                reasons[choice.index] = choice.finish_reason or reasons[choice.index]
        self.assertEqual(texts, [c.text for c in whole.choices])
        self.assertEqual(reasons, [c.finish_reason for c in whole.choices])


class ChatTest(ClientTest):
    def test_a_chat(self):
        question = "What is the colour of the sky?"
        reply = self.client.chat.completions.create(
            messages=[{"role": "user", "content": [{"type": "text", "text": question}]}],
            max_completion_tokens=24, response_format={"type": "text"}, user="me", **GREEDY)
        self.assertEqual(reply.choices[0].message, self.chat(question, max_tokens=24).choices[0].message)
        self.assertEqual(reply.object, "chat.completion")
        self.assertEqual(reply.choices[0].message.role, "assistant")
        self.assertTrue(reply.choices[0].message.content.strip())
        self.assertIn(reply.choices[0].finish_reason, ("stop", "length"))
        self.assertEqual(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens)

    def test_turns_and_roles(self):
        reply = self.client.chat.completions.create(
            messages=[{"role": "developer", "content": "Answer with one word."},
                      {"role": "user", "content": "What is 1 + 1?", "name": "bo"},
                      {"role": "assistant", "content": "Two."},
                      {"role": "user", "content": "And what is 2 + 1?"}], max_tokens=8, **GREEDY)
        self.assertTrue(reply.choices[0].message.content)

    def test_a_stream_is_the_whole_in_parts(self):
        whole = self.chat("Tell me a joke.")
        with self.chat("Tell me a joke.", stream=True, stream_options={"include_usage": True}) as stream:
            chunks = list(stream)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertRegex(whole.system_fingerprint, "^fp_[0-9a-f]{12}$")
        self.assertEqual({c.system_fingerprint for c in chunks}, {whole.system_fingerprint})
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices),
                         whole.choices[0].message.content)
        self.assertEqual(counts(chunks[-1].usage), counts(whole.usage))
        self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices][-1],
                         whole.choices[0].finish_reason)

    def test_the_clients_own_stream_helper(self):
        # The helper treats an answer that max_tokens cut as an error; this one ends by its stop string.
        whole = self.chat("Tell me a joke.", stop=["a"], max_tokens=100).choices[0].message.content
        with self.client.chat.completions.stream(messages=ask("Tell me a joke."), stop=["a"], max_tokens=100,
                                                 **GREEDY) as stream:
            text = "".join(event.delta for event in stream if event.type == "content.delta")
            final = stream.get_final_completion()
        self.assertEqual(text, whole)
        self.assertEqual(final.choices[0].message.content, whole)

    def test_logprobs_and_choices(self):
        reply = self.chat("Name a colour.", n=2, logprobs=True, top_logprobs=2, seed=1, temperature=1, max_tokens=6)
        self.assertEqual([c.index for c in reply.choices], [0, 1])
        for choice in reply.choices:
            entries = choice.logprobs.content
            for entry in entries:
                self.assertEqual(len(entry.top_logprobs), 2)
                self.assertLessEqual(entry.logprob, entry.top_logprobs[0].logprob + 1e-9)
            shown = b"".join(bytes(entry.bytes or []) for entry in entries).decode(errors="replace")
            self.assertTrue(shown.startswith(choice.message.content))

    def test_a_call_goes_back_as_the_client_dumps_it(self):
        function = {"name": "weather", "arguments": '{"city": "Chur"}'}
        called = openai.types.chat.ChatCompletionMessage(
            role="assistant", tool_calls=[{"id": "c1", "type": "function", "function": function}])
        tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
        history = [*ask("What is the weather?"), called.model_dump(),
                   {"role": "tool", "tool_call_id": "c1", "content": "Fog"}]

        def answer(messages):
            return self.client.chat.completions.create(messages=messages, tools=[tool], tool_choice="none",
                                                       reasoning_effort="low", **GREEDY)

        self.assertTrue(answer(history).choices[0].message.content)
        with self.assertRaises(openai.BadRequestError) as caught:
            answer(history[:1] + history[2:])
        self.assertEqual(caught.exception.param, "messages[1].tool_call_id")

    def test_a_required_call_is_valid_however_hot(self):
        schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12},
                                                   "unit": {"enum": ["C", "F"]}}, "required": ["city", "unit"]}
        tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}},
                 {"type": "function", "function": {"name": "now"}}]
        for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
            for seed in range(3):
                with self.subTest(choice=choice, seed=seed):
                    answer = self.client.chat.completions.create(
                        model="default", messages=ask("What is the weather in Chur?"), tools=tools, tool_choice=choice,
                        parallel_tool_calls=False, temperature=1.5, seed=seed, max_completion_tokens=200).choices[0]
                    self.assertEqual(answer.finish_reason, "tool_calls")
                    self.assertEqual(len(answer.message.tool_calls), 1)
                    call = answer.message.tool_calls[0].function
                    arguments = json.loads(call.arguments)
                    if choice != "required":
                        self.assertEqual(call.name, "weather")
                    if call.name == "weather":
                        self.assertEqual(sorted(arguments), ["city", "unit"])
                        self.assertIn(arguments["unit"], ("C", "F"))
                    else:
                        self.assertEqual(arguments, {})


class ErrorTest(ClientTest):
    def test_any_name_means_the_only_model_and_none_is_listed_but_its_own(self):
        name = self.client.models.list().data[0].id
        for call in (self.complete, self.chat):
            self.assertEqual(call("x", model="gpt-4").model, name)
        self.assertEqual({chunk.model for chunk in self.complete("x", model="gpt-4", stream=True)}, {name})
        error = self.rejected(openai.NotFoundError, "model", self.client.models.retrieve, "gpt-4")
        self.assertEqual(error.code, "model_not_found")

    def test_bad_values_name_their_field(self):
        bad = openai.BadRequestError
        for param, more in (
                ("temperature", {"temperature": 3}), ("top_p", {"top_p": 0}), ("n", {"n": 0}),
                ("n", {"n": 100000}), ("max_tokens", {"max_tokens": -2}), ("stop", {"stop": ["x"] * 17}),
                ("presence_penalty", {"presence_penalty": -3}), ("frequency_penalty", {"frequency_penalty": 2.5}),
                ("stream_options", {"stream_options": {"include_usage": True}}),
                ("seeds", {"extra_body": {"seeds": 1}}), ("min_tokens", {"extra_body": {"min_tokens": -1}}),
                ("timeout", {"extra_body": {"timeout": 0}}), ("timeout", {"extra_body": {"timeout": "soon"}}),
                ("typical_p", {"extra_body": {"typical_p": 0}})):
            with self.subTest(**more):
                self.rejected(bad, param, self.complete, "x", **more)
                self.rejected(bad, param, self.chat, "x", **more)
        for param, more in (("suffix", {"suffix": "end"}), ("logprobs", {"logprobs": 21}),
                            ("max_tokens", {"max_tokens": 0})):
            with self.subTest(**more):
                self.rejected(bad, param, self.complete, "x", **more)
        self.assertIn("logit_bias", self.rejected(bad, "logit_bias", self.complete, "x",
                                                 logit_bias={"999999": 1}).body["message"])

    def test_unsupported_fields_are_rejected_by_name(self):
        function = {"name": "f", "parameters": {"type": "object", "properties": {}}}
        for param, more in (("functions", {"extra_body": {"functions": [function]}}),
                            ("modalities", {"modalities": ["text", "audio"]}),
                            ("guided_grammar", {"extra_body": {"guided_grammar": "root ::= root"}})):
            with self.subTest(param=param):
                error = self.rejected(openai.BadRequestError, param, self.chat, "x", **more)
                self.assertEqual(error.code, "unsupported_parameter")
        image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(messages=[{"role": "user", "content": image}], **GREEDY)
        self.assertEqual(caught.exception.param, "messages[0].content[0].type")

    def test_json_has_its_form(self):
        schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "population": {"type": "integer"}},
                  "required": ["city", "population"], "additionalProperties": False}
        form = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema, "strict": True}}
        for temperature in (0, 1.5):
            answer = self.chat("Name a city.", response_format=form, max_tokens=80, temperature=temperature, seed=3)
            self.assertEqual(answer.choices[0].finish_reason, "stop")
            place = json.loads(answer.choices[0].message.content)
            self.assertEqual(sorted(place), ["city", "population"])
            self.assertIsInstance(place["population"], int)
        text = self.chat("Yes or no?", extra_body={"guided_choice": ["yes", "no"]}).choices[0].message.content
        self.assertIn(text, ("yes", "no"))
        bad = {**schema, "not": {}}
        form = {"type": "json_schema", "json_schema": {"name": "place", "schema": bad}}
        error = self.rejected(openai.BadRequestError, "response_format.json_schema.schema", self.chat, "x", response_format=form)
        self.assertIn("at '#': the keyword 'not' is not supported", error.body["message"])

    def test_a_prompt_that_is_too_long_names_both_numbers(self):
        limit = json.loads(self.server.plain("GET", "/v1/models")[1])["data"][0]["max_model_len"]
        with self.assertRaises(openai.BadRequestError) as caught:
            self.complete([504] * (limit + 5))
        numbers = [int(n) for n in re.findall(r"\d+", caught.exception.body["message"])]
        self.assertIn(limit, numbers)
        self.assertTrue({limit + 5, limit + 13} & set(numbers), caught.exception)
        for param, ask in (("messages", lambda: self.chat("word " * (limit + 5))),
                           # The same where the answer is a stream.
                           ("prompt", lambda: list(self.complete([504] * (limit + 5), stream=True)))):
            with self.assertRaises(openai.BadRequestError) as caught:
                ask()
            self.assertEqual((caught.exception.code, caught.exception.param), ("context_length_exceeded", param))

    def test_the_clients_own_timeout_is_a_cancel(self):
        with self.assertRaises(openai.APITimeoutError):
            self.client.with_options(timeout=0.3).completions.create(prompt="x", **ENDLESS)
        self.server.wait_until_idle()

    def test_the_requests_timeout(self):
        endless = lambda timeout: {**ENDLESS, "extra_body": {"ignore_eos": True, "timeout": timeout}}
        with self.assertRaises(openai.APIStatusError) as caught:
            self.client.completions.create(prompt="x", **endless(0.3))
        self.assertEqual(caught.exception.status_code, 408)
        self.assertEqual(caught.exception.code, "timeout")
        for timeout in (0.3, 2, 8):  # A busy machine may not get to the first token in time.
            text = ""
            with self.assertRaises(openai.APIError) as caught:
                for chunk in self.client.completions.create(prompt="x", stream=True, **endless(timeout)):
                    text += chunk.choices[0].text
            self.assertEqual(caught.exception.code, "timeout")
            if text:
                break
        self.assertTrue(text, "nothing came before the time was up")
        self.server.wait_until_idle()

    def test_models(self):
        [model] = self.client.models.list().data
        self.assertEqual(self.client.models.retrieve(model.id).id, model.id)
        self.assertEqual(self.complete("x", model=model.id, max_tokens=1).model, model.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("nothing-of-the-kind")

    def test_what_is_not_served_is_a_404(self):
        with self.assertRaises(openai.NotFoundError):
            self.client.moderations.create(input="x")


class CrowdTest(ClientTest):
    def test_sixteen_threads_get_what_each_gets_alone(self):
        answer = lambda q: self.chat(q, logprobs=True).choices[0].model_dump()
        alone = [answer(q) for q in QUESTIONS[:4]]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            together = list(pool.map(answer, QUESTIONS))
        self.assertEqual(together[:4], alone)
        self.assertEqual(len({c["message"]["content"] for c in together}), 16)

    def test_sixteen_coroutines_stream_what_each_gets_alone(self):
        async def stream(client, question):
            chunks = await client.chat.completions.create(messages=ask(question), max_tokens=16, stream=True,
                                                          **GREEDY)
            return "".join([c.choices[0].delta.content or "" async for c in chunks if c.choices])

        async def crowd():
            async with self.server.async_client() as client:
                return await asyncio.gather(*(stream(client, q) for q in QUESTIONS))

        together = asyncio.run(crowd())
        for question, text in list(zip(QUESTIONS, together))[:4]:
            self.assertEqual(text, self.chat(question).choices[0].message.content)

    def test_a_stream_closed_in_the_middle_is_gone(self):
        for prompt in ("Once upon a time", ["Once upon a time", FRANCE]):
            stream = self.client.completions.create(prompt=prompt, stream=True, **ENDLESS)
            for _ in range(5):
                self.assertTrue(next(stream).choices)
            self.assertGreaterEqual(self.server.metric("ropeway_num_requests_running"), 1)
            stream.close()
            self.server.wait_until_idle()

    def test_coroutines_that_are_cancelled_are_gone(self):
        async def endless(client):
            async for _ in await client.completions.create(prompt="x", stream=True, **ENDLESS):
                pass

        async def crowd():
            async with self.server.async_client() as client:
                tasks = [asyncio.create_task(endless(client)) for _ in range(8)]
                await asyncio.to_thread(self.server.wait_for, "ropeway_num_requests_running", lambda n: n == 8)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run(crowd())
        self.server.wait_until_idle()


class EvaluationTest(ClientTest):
    """As lm-evaluation-harness's local-completions does it: token ids, echo, logprobs 1, temperature 0."""

    CONTEXT = "The cable car leaves the valley and"

    def score(self, ids, max_tokens):
        """The log-probs of all tokens but the first, and whether each was the most probable one."""
        reply = self.client.completions.create(model=MODEL, prompt=ids, echo=True, logprobs=1, temperature=0,
                                               max_tokens=max_tokens, seed=1234)
        results = []
        for choice, prompt in zip(reply.choices, ids):
            found = choice.logprobs
            self.assertEqual(len(found.token_logprobs), len(prompt) + max_tokens)
            end = len(prompt)
            greedy = [token == max(top, key=top.get) for token, top
                      in zip(found.tokens[1:end], found.top_logprobs[1:end])]
            results.append((found.token_logprobs[1:end], greedy))
        return results

    def test_scores_are_those_of_generation(self):
        generated = self.complete(self.CONTEXT, max_tokens=12, logprobs=1).choices[0].logprobs
        context = self.server.tokenize(self.CONTEXT)
        ids = list(context)
        for token in generated.tokens:
            [one] = self.server.tokenize(token)
            ids.append(one)
        # With 0 new tokens, with 1, and beside others: bit by bit the same as when they were generated.
        for max_tokens in (0, 1):
            [(scores, greedy), _] = self.score([ids, ids[:9]], max_tokens)
            self.assertEqual(scores[len(context) - 1:], generated.token_logprobs)
            self.assertTrue(all(greedy[len(context) - 1:]))
        [(short, _)] = self.score([ids[:9]], 0)
        self.assertEqual(short, scores[:8])

    def test_a_choice_of_endings(self):
        context = self.server.tokenize(FRANCE)
        endings = [" Paris", " London", " bread"]
        whole = [context + self.server.tokenize(ending) for ending in endings]
        sums = [sum(scores[len(context) - 1:]) for scores, _ in self.score(whole, 1)]
        self.assertEqual(max(zip(sums, endings))[1], " Paris")
        self.assertTrue(all(math.isfinite(s) and s < 0 for s in sums))

    def test_perplexity_agrees(self):
        text = " ".join((pathlib.Path(__file__).parent / "data" / "public_domain.txt")
                        .read_text(encoding="utf-8").split()[:200])
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(text)
            file.flush()
            reply = subprocess.run([ARGS.ropeway, "perplexity", "--model", ARGS.model, "--file", file.name],
                                   capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(reply.returncode, 0, reply.stderr)
        ids = self.server.tokenize(text)
        [(scores, _)] = self.score([ids], 0)
        expected = math.exp(-sum(scores) / len(scores))
        found = re.search(r"perplexity\D*([0-9.]+)", reply.stdout, re.IGNORECASE)
        self.assertTrue(found, reply.stdout)
        self.assertAlmostEqual(float(found.group(1)) / expected, 1, places=3)


if __name__ == "__main__":
    main()
