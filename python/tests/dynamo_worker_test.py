#!/usr/bin/env python3
"""The worker of Dynamo without Dynamo: requests as Dynamo 1.6.1 sent them, on the real model. The real one is in
dynamo_suite.py. The environment has ROPEWAY_TEST_MODEL."""

import asyncio
import contextlib
import copy
import dataclasses
import io
import os
import re
import stat
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

MODEL = os.environ["ROPEWAY_TEST_MODEL"]


def fake_dynamo():
    """What ropeway.dynamo imports."""

    def module(name, **members):
        made = sys.modules[name] = types.ModuleType(name)
        made.__dict__.update(members)
        return made

    def record(name, *fields):
        return dataclasses.make_dataclass(name, [(field, object, None) for field in fields])

    errors = {name: type(name, (Exception,), {})
              for name in ("InvalidArgument", "EngineShutdown", "WorkerUnavailable", "Cancelled")}
    for name in ("dynamo", "dynamo.common"):
        module(name)
    module("dynamo.common.backend", LLMEngine=object, GenerateChunk=dict, GenerateRequest=dict,
           EngineConfig=record("EngineConfig", "model", "served_model_name", "runtime_data", "llm"),
           LlmRegistration=record("LlmRegistration", "context_length", "kv_cache_block_size", "total_kv_blocks",
                                  "max_num_seqs", "max_num_batched_tokens"),
           WorkerConfig=record("WorkerConfig", "namespace", "component", "endpoint", "model_name", "served_model_name",
                               "endpoint_types", "discovery_backend", "enable_kv_routing"))
    module("dynamo.common.backend.publisher", KvEventSource=object,
           ComponentSnapshot=record("ComponentSnapshot", "kv_used_blocks", "kv_total_blocks", "gpu_cache_usage", "dp_rank"),
           ZmqSource=record("ZmqSource", "endpoint", "topic", "dp_rank"))
    exceptions = module("dynamo.llm.exceptions", **errors)
    module("dynamo.llm", exceptions=exceptions)
    return exceptions


exceptions = fake_dynamo()
import ropeway  # noqa: E402
from ropeway import _dynamo_requests as requests, dynamo  # noqa: E402

# POST /v1/chat/completions with one message, min_tokens, frequency_penalty and logprobs, as the front passed it on.
CHAT = {
    "model": "smollm2",
    "token_ids": [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182,
                  2, 198, 1, 4093, 198, 5820, 1296, 14797, 30, 2, 198, 1, 520, 9531, 198],
    "stop_conditions": {"max_tokens": 40, "stop": None, "stop_token_ids": None, "stop_token_ids_visible": None,
                        "stop_token_ids_hidden": None, "min_tokens": 30, "ignore_eos": True, "max_thinking_tokens": None},
    "sampling_options": {"n": None, "best_of": None, "presence_penalty": None, "frequency_penalty": 0.5,
                         "repetition_penalty": None, "temperature": 0.800000011920929, "top_p": None, "top_k": None,
                         "min_p": None, "use_beam_search": None, "length_penalty": None, "seed": 7,
                         "include_stop_str_in_output": None, "guided_decoding": None},
    "output_options": {"logprobs": 2, "prompt_logprobs": None, "skip_special_tokens": None, "formatted_prompt": None,
                       "return_tokens_as_token_ids": None},
    "eos_token_ids": [],
    "annotations": [],
    "routing": {"dp_rank": 0},
}
# POST /v1/completions with "One two three" alone.
TEXT = copy.deepcopy(CHAT)
TEXT["token_ids"] = [2705, 827, 1296]
TEXT["stop_conditions"]["min_tokens"] = None
TEXT["sampling_options"].update(frequency_penalty=None, temperature=None, seed=None)
TEXT["output_options"]["logprobs"] = None


def changed(request, **groups):
    made = copy.deepcopy(request)
    for group, values in groups.items():
        made[group].update(values)
    return made


def moved(request, generated):
    """As the front sends it to the next worker once the first one has generated so much."""
    made = copy.deepcopy(request)
    made["token_ids"] = request["token_ids"] + generated
    for name in ("max_tokens", "min_tokens"):
        if made["stop_conditions"][name]:
            made["stop_conditions"][name] = max(0, made["stop_conditions"][name] - len(generated))
    return made


class Context:
    def __init__(self, request_id="5d97f200-0fd1-429c-818b-e1f182f895c6"):
        self._id = request_id

    def id(self):
        return self._id


class FieldsTest(unittest.TestCase):
    def test_fields_are_those_of_the_engine(self):
        self.assertEqual(requests.fields_of(CHAT, "x"), {
            "temperature": 0.800000011920929, "frequency_penalty": 0.5, "seed": 7, "max_tokens": 40, "min_tokens": 30,
            "ignore_eos": True, "logprobs": 2})
        fields = requests.fields_of(TEXT, "5d97f200")
        self.assertEqual(fields, {"seed": requests.seed_of("5d97f200"), "max_tokens": 40, "ignore_eos": True})
        self.assertNotEqual(requests.seed_of("5d97f200"), requests.seed_of("5d97f201"))
        hidden = changed(TEXT, stop_conditions={"stop_token_ids_hidden": [2, 0], "stop_token_ids": [2]})
        self.assertEqual(requests.fields_of(hidden, "x")["stop_token_ids"], [0, 2])
        # Dynamo has no place for them in an answer, so they are not computed.
        self.assertNotIn("prompt_logprobs", requests.fields_of(changed(TEXT, output_options={"prompt_logprobs": 1}), "x"))

    def test_a_limit_of_none_is_a_limit(self):
        self.assertEqual(requests.fields_of(changed(TEXT, stop_conditions={"max_tokens": 0}), "x")["max_tokens"], 0)

    def test_forms(self):
        of = lambda guided: requests.fields_of(changed(TEXT, sampling_options={"guided_decoding": guided}), "x").get("response_format")
        self.assertEqual(of({"json": {"type": "object"}})["json_schema"]["schema"], {"type": "object"})
        self.assertEqual(of({"json_object": True}), {"type": "json_object"})
        with self.assertRaisesRegex(exceptions.InvalidArgument, "grammar"):
            of({"grammar": "root ::= x"})

    def test_where_the_prompt_of_a_chat_ends(self):
        end = lambda ids: requests.prompt_end(ids, [7, 8], {1, 2})
        self.assertEqual(end([1, 5, 7, 8]), 4)
        self.assertEqual(end([1, 5, 7, 8, 9, 9]), 4)
        self.assertEqual(end([1, 7, 8, 9, 2, 1, 7, 8, 3]), 8)
        self.assertEqual(end([1, 7, 8, 9, 2, 5]), 6, "an earlier answer")
        self.assertEqual(end([5, 6]), 2)
        self.assertEqual(requests.prompt_end([5, 6], [], {1}), 2)

    def test_errors(self):
        for error, kind in [
            (ropeway.InvalidArgumentError("x"), exceptions.InvalidArgument),
            (ropeway.UnimplementedError("x"), exceptions.InvalidArgument),
            (ropeway.ResourceExhaustedError("x"), exceptions.WorkerUnavailable),
            (ropeway.DeadlineExceededError("x"), exceptions.WorkerUnavailable),
            (ropeway.UnavailableError("x"), exceptions.EngineShutdown),
            (ropeway.InternalError("x"), exceptions.EngineShutdown),
        ]:
            self.assertIsInstance(requests.exception_of(error), kind)


class WorkerTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.worker = dynamo.RopewayWorker(MODEL, "folder", "smollm2", {"threads": "1", "kv_cache_size": "64MiB"})
        self.config = await self.worker.start(1)

    async def asyncTearDown(self):
        await self.worker.cleanup()

    async def answer(self, request, context=None):
        """(ids, log-probs, reason) by choice."""
        choices = {}
        async for chunk in self.worker.generate(request, context or Context()):
            ids, logprobs, _ = choices.setdefault(chunk["index"], ([], [], []))
            ids += chunk["token_ids"]
            logprobs += chunk.get("log_probs", [])
            choices[chunk["index"]][2].extend([chunk["finish_reason"]] if "finish_reason" in chunk else [])
        return choices

    async def test_the_registration_says_what_the_engine_is(self):
        self.assertEqual(self.config.llm.kv_cache_block_size, 16)
        self.assertGreater(self.config.llm.total_kv_blocks, 0)
        self.assertEqual(len(self.config.runtime_data["ropeway_digest"]), 64)
        self.assertEqual(self.config.served_model_name, "smollm2")

    async def test_an_answer_goes_on_at_another_worker(self):
        for request in (CHAT, changed(CHAT, sampling_options={"presence_penalty": 0.4, "seed": None}), TEXT):
            (ids, logprobs, reason) = (await self.answer(request))[0]
            self.assertEqual((len(ids), reason), (40, ["length"]))
            self.assertEqual(len(logprobs), 40 if request["output_options"]["logprobs"] else 0)
            for cut in (1, 9, 17):
                self.assertFalse(set(ids[:cut]) & self.worker._ends)
                (rest, rest_logprobs, reason) = (await self.answer(moved(request, ids[:cut])))[0]
                self.assertEqual(rest, ids[cut:])
                self.assertEqual(rest_logprobs, logprobs[cut:] if logprobs else [])
                self.assertEqual(reason, ["length"])

    async def test_it_says_what_its_answers_depend_on(self):
        (chunk,) = [chunk async for chunk in self.worker.generate(dict(TEXT, annotations=["ropeway.identity"]), Context())]
        self.assertRegex(chunk["engine_data"]["ropeway.identity"], "digest [0-9a-f]{16}, numerics .*KV f16")

    async def test_ends_of_messages_are_no_white_space(self):
        # <|im_start|> and <|im_end|>
        self.assertEqual((self.worker._opening, self.worker._ends), ([1, 520, 9531, 198], {1, 2}))

    async def test_the_beginning_of_an_answer_may_be_the_prompts(self):
        begun = changed(CHAT, stop_conditions={"min_tokens": None, "max_tokens": 8})
        begun["token_ids"] = CHAT["token_ids"] + [5, 6, 7, 8, 9]
        (ids, _, _) = (await self.answer(begun))[0]
        self.assertEqual(len(ids), 8)

    async def test_a_front_of_another_version(self):
        """It may say more, which means nothing here, and less, of which there are defaults."""
        answer = await self.answer(CHAT)
        newer = changed(CHAT, sampling_options={"dry_multiplier": 0.8}, stop_conditions={"max_pause": 3}, output_options={"x": [1]})
        self.assertEqual(await self.answer({**newer, "lora_name": None, "extra_args": {"a": 1}}), answer)
        older = {"token_ids": CHAT["token_ids"], "stop_conditions": {"max_tokens": 3}}
        self.assertEqual([len(ids) for ids, _, _ in (await self.answer(older)).values()], [3])

    async def test_choices(self):
        choices = await self.answer(changed(TEXT, sampling_options={"n": 3, "temperature": 1.0}))
        self.assertEqual(set(choices), {0, 1, 2})
        for ids, _, reason in choices.values():
            self.assertEqual((len(ids), reason), (40, ["length"]))
        alone = await self.answer(changed(TEXT, sampling_options={"temperature": 1.0}))
        self.assertEqual(choices[0][0], alone[0][0])
        self.assertNotEqual(choices[0][0], choices[1][0])

    async def test_forms_are_kept(self):
        for guided, pattern in [
            ({"regex": "[0-9]{3}-[a-c]{2}"}, "[0-9]{3}-[a-c]{2}"),
            ({"choice": ["maybe never", "certainly"]}, "maybe never|certainly"),
            ({"json": {"enum": ["a", "b"]}}, '"[ab]"'),
        ]:
            request = changed(CHAT, sampling_options={"guided_decoding": guided, "frequency_penalty": None},
                              stop_conditions={"min_tokens": None, "ignore_eos": None})
            (ids, _, reason) = (await self.answer(request))[0]
            self.assertEqual(reason, ["stop"])
            self.assertRegex(self.worker._engine.detokenize(ids), rf"\A({pattern})(<\|[a-z_]+\|>)?\Z")

    async def test_blocks_are_shared_within_a_salt(self):
        async def hits_of(salt):
            hits = lambda: int(re.search(r"^ropeway_prefix_cache_hits_total(?:{.*})? ([0-9]+)$", self.worker._engine.metrics(), re.MULTILINE)[1])
            before = hits()
            request = changed(TEXT, routing={"cache_salt": salt}, stop_conditions={"max_tokens": 1})
            await self.answer(dict(request, token_ids=list(range(100, 150))))
            return hits() - before

        self.assertEqual([await hits_of(salt) for salt in ("one", "two", "one", None, None)], [0, 0, 48, 0, 48])

    async def test_a_stream_that_has_nothing_to_say_shows_its_life(self):
        with unittest.mock.patch.object(dynamo, "LIFE_SECONDS", 0.02):
            for count in (1, 2):
                request = dict(changed(TEXT, stop_conditions={"max_tokens": 2}), token_ids=[count] * 1500)
                chunks = [chunk async for chunk in self.worker.generate(changed(request, sampling_options={"n": count}), Context())]
                silent = [chunk for chunk in chunks if chunk["token_ids"] == [] and "finish_reason" not in chunk]
                self.assertGreater(len(silent), 2)
                self.assertEqual(set(map(str, silent)), {str({"token_ids": [], "index": i}) for i in range(count)})
                self.assertEqual(sum(len(chunk["token_ids"]) for chunk in chunks), 2 * count)

    async def test_life_that_was_shown_is_no_beginning_of_an_answer(self):
        begun = dict(CHAT, token_ids=[5] * 1500 + CHAT["token_ids"] + [5, 6, 7, 8, 9])
        with unittest.mock.patch.object(dynamo, "LIFE_SECONDS", 0.02), self.assertLogs("ropeway.dynamo", "WARNING"):
            ((ids, _, _),) = (await self.answer(begun)).values()
        self.assertEqual(len(ids), 40)

    async def test_log_probs_are_as_dynamo_wants_them(self):
        async for chunk in self.worker.generate(CHAT, Context()):
            if chunk["token_ids"]:
                self.assertEqual(len(chunk["log_probs"]), len(chunk["token_ids"]))
                (first, second) = chunk["top_logprobs"][0]
                self.assertEqual((first["rank"], second["rank"]), (1, 2))
                self.assertGreaterEqual(first["logprob"], second["logprob"])

    async def test_batched_tokens_are_said_if_they_were_given(self):
        self.assertIsNone(self.config.llm.max_num_batched_tokens)

    async def test_a_request_that_came_back_is_its_own(self):
        """It keeps its id: the end of its first stream does not end the second one."""
        old = self.worker.generate(changed(TEXT, stop_conditions={"max_tokens": 2000}), Context())
        await anext(old)
        new = self.worker.generate(changed(TEXT, stop_conditions={"max_tokens": 2000}), Context())
        await anext(new)
        await old.aclose()
        await anext(new)
        await self.worker.abort(Context())
        with self.assertRaises(exceptions.Cancelled):
            async for _ in new:
                pass
        self.assertEqual((self.worker._handles, self.worker._running), ({}, {}))

    async def test_choices_are_submitted_all_or_none(self):
        submit = self.worker._engine.submit
        made = []

        def once(*words, **fields):
            if fields["choice"] == 2:
                raise ropeway.ResourceExhaustedError("full")
            made.append(submit(*words, **fields))
            return made[-1]

        with unittest.mock.patch.object(self.worker._engine, "submit", once):
            with self.assertRaises(exceptions.WorkerUnavailable):
                await self.answer(changed(TEXT, sampling_options={"n": 3}, stop_conditions={"max_tokens": 2000}))
        self.assertEqual(len(made), 2)
        for handle in made:
            with self.assertRaises(ropeway.CancelledError):
                await handle

    async def test_a_continuation_that_is_none_is_told_in_the_log(self):
        begun = dict(CHAT, token_ids=CHAT["token_ids"] + [5, 6, 7, 8, 9])
        with self.assertLogs("ropeway.dynamo", "WARNING") as logs:
            await self.answer(begun)
            await self.answer(begun)
            await self.answer(begun)
        self.assertEqual(len(logs.output), 1)  # Any client can bring it about.
        self.assertIn("does not go on where it was", logs.output[0])
        with self.assertLogs("ropeway.dynamo", "WARNING") as logs, unittest.mock.patch.object(dynamo, "WARNING_SECONDS", 0):
            await self.answer(begun)
        self.assertIn("2 more", logs.output[0])

    async def test_snapshots_go_on_after_a_failure(self):
        published = []

        def publish(_rank, snapshot):
            published.append(snapshot)
            if len(published) == 1:
                raise RuntimeError("the first one fails")

        with self.assertLogs("ropeway.dynamo", "WARNING"):
            self.worker.attach_snapshot_publisher(types.SimpleNamespace(publish=publish))
            async with asyncio.timeout(10):
                while len(published) < 2:
                    await asyncio.sleep(0.05)

    async def test_aborting(self):
        context = Context()
        chunks = self.worker.generate(changed(TEXT, stop_conditions={"max_tokens": 2000}), context)
        await anext(chunks)
        await self.worker.abort(context)
        with self.assertRaises(exceptions.Cancelled):
            async for _ in chunks:
                pass
        await self.worker.abort(Context("another"))

    async def test_leaving_moves_all(self):
        contexts = [Context(str(i)) for i in range(3)]
        streams = [self.worker.generate(changed(TEXT, stop_conditions={"max_tokens": 2000}), context) for context in contexts]
        for stream in streams:
            await anext(stream)

        async def end(stream):
            async for _ in stream:
                pass

        ends = [asyncio.create_task(end(stream)) for stream in streams]
        await self.worker.cleanup()
        for ended in await asyncio.gather(*ends, return_exceptions=True):
            self.assertIsInstance(ended, exceptions.EngineShutdown)
        with self.assertRaises(exceptions.EngineShutdown):
            await anext(self.worker.generate(TEXT, Context()))
        await self.worker.cleanup()

    async def test_bad_input_is_the_clients(self):
        with self.assertRaisesRegex(exceptions.InvalidArgument, "temperature"):
            await self.answer(changed(TEXT, sampling_options={"temperature": 5.0}))
        with self.assertRaisesRegex(exceptions.InvalidArgument, "token"):
            await self.answer(dict(TEXT, token_ids=[10**9]))
        with self.assertRaisesRegex(exceptions.InvalidArgument, "context|tokens"):
            await self.answer(dict(TEXT, token_ids=[5] * 30_000))


class EventsTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        with open(f"{self.folder.name}/tokenizer.json", "w") as file:
            file.write("{}")

    async def made(self, *flags):
        worker, config = await dynamo.RopewayWorker.from_args(
            ["--model", MODEL, "--tokenizer", self.folder.name, "--threads", "1", "--kv-cache-size", "64MiB", *flags])
        return worker, config

    async def sources_of(self, *flags):
        worker, config = await self.made(*flags)
        await worker.start(1)
        try:
            sources = await worker.kv_event_sources()
            self.assertEqual(config.enable_kv_routing, bool(sources))
            return [source.endpoint for source in sources]
        finally:
            await worker.cleanup()

    async def test_they_are_for_this_user_alone(self):
        worker, _ = await self.made("--digest")
        await worker.start(1)
        (source,) = await worker.kv_event_sources()
        path = source.endpoint.removeprefix("ipc://")
        self.assertTrue(stat.S_ISSOCK(os.stat(path).st_mode))
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode), 0o700)
        await worker.cleanup()
        self.assertFalse(os.path.exists(os.path.dirname(path)))

    async def test_a_socket_has_a_short_path(self):
        long = f"{self.folder.name}/{'x' * 100}"
        os.mkdir(long)
        with unittest.mock.patch.object(tempfile, "tempdir", long):
            worker, _ = await self.made()
            await worker.start(1)
        (source,) = await worker.kv_event_sources()
        self.assertLess(len(source.endpoint.removeprefix("ipc://")), 108)
        await worker.cleanup()

    async def test_there_are_none_without_a_prefix_cache(self):
        self.assertEqual(await self.sources_of("--prefix-caching", "off"), [])
        self.assertEqual(await self.sources_of("--no-kv-events"), [])

    async def test_none_of_a_model_that_embeds_only(self):
        worker, _ = await self.made()
        worker._options["kv_events"] = "5557"
        worker._engine = types.SimpleNamespace(model=types.SimpleNamespace(embeds_only=True))
        self.assertEqual(await worker.kv_event_sources(), [])

    async def test_where_to_connect(self):
        for given, expected in [
            ("5557", "tcp://127.0.0.1:5557"),
            ("tcp://*:5557", "tcp://127.0.0.1:5557"),
            ("tcp://0.0.0.0:5557", "tcp://127.0.0.1:5557"),
            ("tcp://[::]:5557", "tcp://[::1]:5557"),
            ("tcp://10.0.0.1:5557", "tcp://10.0.0.1:5557"),
            ("ipc:///x/y", "ipc:///x/y"),
            ("tcp://127.0.0.1:*", None),
            ("true", None),
        ]:
            self.assertEqual(dynamo.source_address(given), expected)
        for flags in (["--kv-events", "tcp://127.0.0.1:*"], ["--kv-events", "5557", "--no-kv-events"]):
            with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                await self.made(*flags)


class OthersTest(unittest.IsolatedAsyncioTestCase):
    """Workers that serve already, when another one starts."""

    async def start_beside(self, *answers):
        """`answers`: what one says each time that it is asked; an exception, chunks, or None for no answer."""
        worker = dynamo.RopewayWorker(MODEL, "folder", "smollm2", {})
        worker._identity = "digest a"
        left = list(answers)

        async def direct(_question, instance):
            self.assertEqual(instance, 77)
            answer = left.pop(0)
            if isinstance(answer, Exception):
                raise answer

            async def chunks():
                if answer is None:
                    await asyncio.sleep(60)
                for chunk in answer:
                    yield types.SimpleNamespace(data=lambda: chunk)

            return chunks()

        client = types.SimpleNamespace(instance_ids=lambda: self.instances, direct=direct)

        async def make_client():
            return client

        with unittest.mock.patch.object(dynamo, "ANSWER_SECONDS", 0.05):
            await worker.on_endpoint_ready(types.SimpleNamespace(client=make_client))
        self.assertEqual(left, [])

    def setUp(self):
        self.instances = [77]

    @staticmethod
    def chunk(identity):
        return {"token_ids": [], "engine_data": {"ropeway.identity": identity}}

    async def test_one_that_answers_alike(self):
        with self.assertNoLogs("ropeway.dynamo"):
            await self.start_beside([self.chunk("digest a")])
            await self.start_beside([{"token_ids": []}, None, {"token_ids": [], "engine_data": None}, self.chunk("digest a")])
            await self.start_beside(None, [self.chunk("digest a")])

    async def test_one_that_answers_otherwise(self):
        with self.assertRaisesRegex(exceptions.InvalidArgument, "here digest a; there 'digest b'"):
            await self.start_beside([self.chunk("digest b")])
        with self.assertRaises(exceptions.InvalidArgument) as raised:
            await self.start_beside([self.chunk({"long": "x" * 5000})])
        self.assertLess(len(str(raised.exception)), 500)

    async def test_one_that_does_not_answer(self):
        with self.assertRaisesRegex(exceptions.InvalidArgument, "worker 77.*does not say within 0.05 s"):
            await self.start_beside(None, None)

    async def test_one_that_is_gone(self):
        gone = unittest.mock.Mock(side_effect=[[77], []])
        with unittest.mock.patch.object(self, "instances", None), self.assertLogs("ropeway.dynamo", "WARNING"):
            type(self).instances = property(lambda _: gone(), lambda *_: None)
            self.addCleanup(lambda: delattr(type(self), "instances"))
            await self.start_beside(None)

    async def test_one_that_is_no_ropeway(self):
        for answer in ([], [{"token_ids": [5]}], [{"engine_data": {}}], [self.chunk(None)], OSError("refused")):
            with self.subTest(answer), self.assertLogs("ropeway.dynamo", "WARNING") as logs:
                await self.start_beside(answer)
            self.assertIn("worker 77 does not say what it serves", logs.output[-1])


class ArgumentsTest(unittest.TestCase):
    def test_a_failed_start_is_one_line(self):
        for error, line in [
            (Exception("InvalidRequest: InvalidArgumentError: no such thing"), "ropeway.dynamo: no such thing"),
            (Exception("Internal: NotFoundError: /x: gone.\nWhat to do: look."), "ropeway.dynamo: /x: gone. What to do: look."),
            (ropeway.InternalError(""), "ropeway.dynamo: InternalError"),
            (OSError(5, "bad"), "ropeway.dynamo: [Errno 5] bad"),
        ]:
            run = unittest.mock.Mock(side_effect=error)
            with unittest.mock.patch.dict(sys.modules, {"dynamo.common.backend.run": types.SimpleNamespace(run=run)}):
                with self.assertRaises(SystemExit) as raised, self.assertLogs():
                    dynamo.logger.info("Not none.")
                    dynamo.main()
            self.assertEqual(raised.exception.code, line)

    def test_options_are_looked_at_before_anything_starts(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/tokenizer.json", "w") as file:
                file.write("{}")
            for flags, sentence in [
                (["--thread", "1"], "'thread' is not an option of an engine"),
                (["--threads", "0"], "threads: expected a whole number"),
                (["--device", "toaster"], "device"),
            ]:
                said = io.StringIO()
                with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
                    asyncio.run(dynamo.RopewayWorker.from_args(["--model", MODEL, "--tokenizer", folder, *flags]))
                self.assertIn(sentence, said.getvalue())

    def test_another_version_is_warned_of(self):
        version = lambda given: unittest.mock.patch("importlib.metadata.version", return_value=given)
        with version("1.6.1"), self.assertNoLogs(dynamo.logger):
            dynamo.check_version()
        with version("1.7.0"), self.assertLogs(dynamo.logger) as logs:
            dynamo.check_version()
        self.assertRegex(logs.output[0], "1.6.1.*1.7.0")

    def test_dynamo_is_missing(self):
        done = subprocess.run([sys.executable, "-m", "ropeway.dynamo", "--model", "x"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Aropeway.dynamo needs NVIDIA Dynamo, which scripts/dynamo_venv.sh installs: .*\n\Z")

    def test_flags_are_the_engines(self):
        of = lambda *words: dynamo.options_of(list(words), None)
        self.assertEqual(of("--kv-cache-size", "1GiB", "--threads=2", "--strict-priority"),
                         {"kv_cache_size": "1GiB", "threads": "2", "strict_priority": "true"})


if __name__ == "__main__":
    unittest.main()
