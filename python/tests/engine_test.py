#!/usr/bin/env python3
"""The Python package on the real model. The environment has ROPEWAY_TEST_MODEL."""

import asyncio
import ctypes
import gc
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import numpy as np

import ropeway

MODEL = os.environ["ROPEWAY_TEST_MODEL"]
CHAT = [{"role": "user", "content": "Name three colours."}]


def open_engine(**options):
    options.setdefault("kv_cache_size", "128MiB")
    return ropeway.Engine(MODEL, threads=1, **options)


class EngineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = open_engine()

    @classmethod
    def tearDownClass(cls):
        cls.engine.close()

    def test_a_result_has_all_of_it(self):
        result = self.engine.generate("The capital of France is", max_tokens=4, temperature=0, logprobs=3)
        self.assertTrue(result.text.startswith(" Paris"))
        self.assertEqual(result.finish_reason, "length")
        self.assertEqual(result.usage.completion_tokens, 4)
        self.assertEqual(result.logprobs.dtype, np.float32)
        self.assertEqual(result.top_logprobs.shape, (4, 3))
        self.assertTrue((np.diff(result.top_logprobs, axis=1) <= 0).all())
        # Greedy: the most probable one is the token itself.
        self.assertEqual(result.top_ids[:, 0].tolist(), result.token_ids)
        self.assertEqual(result.top_logprobs[:, 0].tolist(), result.logprobs.tolist())
        self.assertEqual(self.engine.detokenize(result.token_ids), result.text)
        self.assertIsNone(result.prompt_logprobs)
        again = self.engine.generate("The capital of France is", max_tokens=4, temperature=0)
        self.assertIsNone(again.logprobs)
        self.assertEqual(again.text, result.text)

    def test_prompts_are_texts_ids_and_chats(self):
        ids = self.engine.tokenize("Once upon a time")
        by_text = self.engine.generate("Once upon a time", max_tokens=6, seed=7)
        by_ids = self.engine.generate(np.array(ids), max_tokens=6, seed=np.int64(7))
        self.assertEqual(by_text.text, by_ids.text)
        self.assertEqual(by_text.seed, 7)
        chat = self.engine.generate(messages=CHAT, max_tokens=6, temperature=0)
        rendered = self.engine.apply_chat_template(CHAT)
        self.assertIn("Name three colours.<|im_end|>", rendered)
        as_ids = self.engine.apply_chat_template(CHAT, tokenize=True)
        self.assertEqual(self.engine.detokenize(as_ids), rendered)
        self.assertEqual(self.engine.generate(as_ids, max_tokens=6, temperature=0).text, chat.text)
        self.assertIn("im_start", self.engine.chat_template)

    def test_classes_explain_themselves(self):
        for made in (ropeway.Delta, ropeway.Engine, ropeway.Handle, ropeway.Result):
            names = [name for name in dir(made) if not name.startswith("_")]
            self.assertGreater(len(made.__doc__ or ""), 20, made)
            for name in names if made is ropeway.Delta else ():
                self.assertTrue(getattr(made, name).__doc__, name)

    def test_deltas_make_up_the_result(self):
        handle = self.engine.submit("One, two,", max_tokens=12, seed=1, logprobs=0)
        deltas = list(handle)
        result = handle.wait()
        self.assertEqual("".join(delta.text for delta in deltas), result.text)
        self.assertEqual(np.concatenate([delta.logprobs for delta in deltas]).tolist(), result.logprobs.tolist())
        self.assertEqual(handle.poll().text, result.text)
        self.assertTrue(handle.done)

    def test_many_are_computed_together_and_none_changes_another(self):
        alone = [self.engine.generate(f"Number {i}:", max_tokens=8, seed=i).text for i in range(6)]
        steps = self.engine.stats()["total_steps"]
        handles = [self.engine.submit(f"Number {i}:", max_tokens=8, seed=i) for i in range(6)]
        self.assertEqual([handle.wait().text for handle in handles], alone)
        self.assertLess(self.engine.stats()["total_steps"] - steps, 6 * 8)
        results = self.engine.generate_many(["Number 0:", "Number 0:"], max_tokens=8, seed=0)
        self.assertEqual([result.text for result in results], [alone[0]] * 2)

    def test_prompt_log_probs(self):
        result = self.engine.generate("The sea is blue", max_tokens=0, prompt_logprobs=0)
        self.assertEqual(result.prompt_ids, self.engine.tokenize("The sea is blue"))
        self.assertTrue(np.isnan(result.prompt_logprobs[0]))
        self.assertTrue((result.prompt_logprobs[1:] < 0).all())

    def test_choices_of_one_seed_differ(self):
        fields = {"max_tokens": 16, "seed": 3, "temperature": 1.0}
        first, second = (self.engine.generate("A story:", choice=i, **fields).text for i in (0, 1))
        self.assertNotEqual(first, second)
        self.assertEqual(self.engine.generate("A story:", choice=1, **fields).text, second)

    def test_an_output_goes_on_where_another_engine_left_off(self):
        fields = {"max_tokens": 16, "seed": 5, "frequency_penalty": 0.5}
        whole = self.engine.generate("Rain", **fields)
        with open_engine() as other:
            rest = other.generate("Rain", resume_ids=whole.token_ids[:6], **fields)
        self.assertTrue(whole.text.endswith(rest.text))
        self.assertEqual(rest.token_ids, whole.token_ids[6:])
        self.assertEqual(rest.usage, whole.usage)

    def test_forms_and_tools(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}
        form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
        result = self.engine.generate(messages=CHAT, response_format=form, max_tokens=60, seed=1)
        self.assertIn('"n"', result.text)
        tool = {"type": "function", "function": {"name": "look", "parameters": schema}}
        fields = {"tools": [tool], "tool_choice": "required", "max_tokens": 60, "seed": 1}
        handle = self.engine.submit(messages=CHAT, **fields)
        pieces = [piece for delta in handle for piece in delta.tool_calls]
        calls = handle.wait().tool_calls
        self.assertEqual(calls[0]["name"], "look")
        first = [piece for piece in pieces if piece["index"] == 0]
        self.assertEqual(first[0]["name"], "look")
        self.assertEqual("".join(piece["arguments"] for piece in first), calls[0]["arguments"])

    def test_embeddings(self):
        table = self.engine.embed(["the sea", "an ocean", "tax law"])
        self.assertEqual(table.shape, (3, self.engine.model.embedding_size))
        np.testing.assert_allclose(np.linalg.norm(table, axis=1), 1, rtol=1e-5)
        self.assertEqual(self.engine.embed("the sea")[0].tolist(), table[0].tolist())
        np.testing.assert_allclose(np.linalg.norm(self.engine.embed("the sea", dimensions=64)), 1, rtol=1e-5)
        self.assertEqual(self.engine.embed([]).shape, (0, table.shape[1]))
        for dimensions in (0, -1, 10**6):
            with self.assertRaisesRegex(ropeway.InvalidArgumentError, "dimensions"):
                self.engine.embed("the sea", dimensions=dimensions)

    def test_bad_input_names_the_field(self):
        for fields, field in [
            ({"prompt": "x", "nonsense": 1}, "nonsense"),
            ({"prompt": "x", "temperature": 9}, "temperature"),
            ({"prompt": "x", "temperature": float("nan")}, "temperature"),
            ({"prompt": "x", "timeout": float("inf")}, "timeout"),
            ({"prompt": "x", "logit_bias": {"5": np.float32("nan")}}, "logit_bias"),
            ({"prompt": "a\ud800b"}, "prompt"),
            ({"prompt": "x", "stop": ["\udc00"]}, "stop"),
            ({"prompt": "x", "session": "\ud800"}, "session"),
            ({"messages": [{"role": "user", "content": "\udc00"}]}, "messages"),
            ({"prompt": [2**31]}, "prompt"),
            ({"prompt": np.array([5, -(2**40)])}, "prompt"),
            ({"prompt": "x", "resume_ids": [2**40]}, "resume_ids"),
            ({"prompt": "x", "choice": -1}, "choice"),
            ({"prompt": "x", "choice": 2**32}, "choice"),
            ({"prompt": "x", "n": 2}, "n"),
            ({"prompt": "x", "stream": True}, "stream"),
            ({"prompt": [-1]}, "prompt"),
            ({"prompt": "x", "tenant": "t", "priority": "none"}, "priority"),
            ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ]:
            with self.subTest(fields), self.assertRaises(ropeway.InvalidArgumentError) as raised:
                self.engine.submit(**fields).wait(10)
            self.assertEqual(raised.exception.field, field)
        with self.assertRaises(TypeError):
            self.engine.submit()
        with self.assertRaises(TypeError):
            self.engine.submit("x", messages=CHAT)
        with self.assertRaises(TypeError):
            self.engine.submit("x", max_tokens=object())
        with self.assertRaisesRegex(ropeway.InvalidArgumentError, "context|tokens") as raised:
            self.engine.generate([5] * 60_000)
        self.assertEqual(raised.exception.code, "context_length_exceeded")
        for options in [{"thread": 1}, {"threads": 0}, {"kv_cache_size": "much"}, {"policy": "none"}, {"port": 1}]:
            with self.subTest(options), self.assertRaises(ropeway.InvalidArgumentError) as raised:
                ropeway.Engine(MODEL, **options)
            self.assertEqual(raised.exception.field, next(iter(options)))
        with self.assertRaises(ropeway.NotFoundError):
            ropeway.Engine("/nowhere/model.gguf")

    def test_a_wrong_type_names_the_argument(self):
        engine = self.engine
        handle = engine.submit("x", max_tokens=1)
        for name, call in [
            ("prompt", lambda: engine.submit(b"abc")),
            ("prompt", lambda: engine.submit(bytearray(b"abc"))),
            ("prompt", lambda: engine.submit(5)),
            ("prompt", lambda: engine.submit([1.0])),
            ("prompt", lambda: engine.submit(np.array([1.5]))),
            ("prompt", lambda: engine.submit(np.array([[1, 2]]))),
            ("prompt", lambda: engine.submit(["a", "b"])),
            ("prompt", lambda: engine.submit({1: 2})),
            ("prompt", lambda: engine.generate_many([CHAT, CHAT])),
            ("prompts", lambda: engine.generate_many("abc")),
            ("prompts", lambda: engine.generate_many(5)),
            ("resume_ids", lambda: engine.submit("x", resume_ids="12")),
            ("session", lambda: engine.submit("x", session=5)),
            ("tenant", lambda: engine.submit("x", tenant=5)),
            ("cache_scope", lambda: engine.submit("x", cache_scope=b"x")),
            ("choice", lambda: engine.submit("x", choice="1")),
            ("choice", lambda: engine.submit("x", choice=1.5)),
            ("stop", lambda: engine.submit("x", stop={"a"})),
            ("ids", lambda: engine.detokenize("12")),
            ("ids", lambda: engine.detokenize([1.7])),
            ("text", lambda: engine.tokenize(b"x")),
            ("add_special", lambda: engine.tokenize("x", add_special="no")),
            ("inputs", lambda: engine.embed(5)),
            ("tenant", lambda: engine.embed("x", tenant=5)),
            ("dimensions", lambda: engine.embed("x", dimensions="5")),
            ("tenant", lambda: engine.sessions(5)),
            ("id", lambda: engine.close_session(5)),
            ("timeout", lambda: handle.wait("1")),
            ("timeout", lambda: engine.drain(None)),
            ("model", lambda: ropeway.Engine(None)),
            ("model", lambda: ropeway.Engine(b"/x")),
            ("threads", lambda: ropeway.Engine(MODEL, threads=[1])),
        ]:
            with self.subTest(name), self.assertRaisesRegex(TypeError, rf"\A{name}.*: expected [^\n]*\Z"):
                call()
        for name, call in [
            ("text", lambda: engine.tokenize("\ud800")),
            ("ids", lambda: engine.detokenize([2**31])),
            ("input", lambda: engine.embed("\ud800")),
            ("timeout", lambda: handle.wait(float("nan"))),
            ("timeout", lambda: engine.drain(float("nan"))),
        ]:
            with self.subTest(name), self.assertRaisesRegex(ropeway.InvalidArgumentError, rf"\A{name}: [^\n]*\Z") as raised:
                call()
            self.assertEqual(raised.exception.field, name)
        np.testing.assert_array_equal(engine.embed(np.array([[5, 6], [7, 8]])), engine.embed([[5, 6], [7, 8]]))

    def test_cancelling_and_time_limits(self):
        handle = self.engine.submit("On and on", max_tokens=5000, ignore_eos=True)
        with self.assertRaises(TimeoutError):
            handle.wait(0.05)
        self.assertIsNone(handle.poll())
        next(iter(handle))
        handle.cancel()
        with self.assertRaises(ropeway.CancelledError):
            handle.wait(10)
        with self.assertRaises(ropeway.CancelledError):
            list(handle)
        with self.assertRaises(ropeway.DeadlineExceededError):
            self.engine.generate("On and on", max_tokens=5000, ignore_eos=True, timeout=0.1)

    def test_other_threads_run_while_one_waits(self):
        handle = self.engine.submit("Wait", max_tokens=100, ignore_eos=True)
        counted = 0
        waiter = threading.Thread(target=handle.wait)
        waiter.start()
        while waiter.is_alive():
            counted += 1
        waiter.join()
        self.assertGreater(counted, 10_000)

    def test_tasks(self):
        async def stream(i):
            ids = [token async for delta in self.engine.submit(f"Task {i}", max_tokens=8, seed=i) for token in delta.token_ids]
            return ids

        async def run():
            streams = asyncio.gather(*(stream(i) for i in range(8)))
            result = await self.engine.submit("Task 0", max_tokens=8, seed=0)
            streamed = await streams
            self.assertEqual(streamed[0], result.token_ids)
            handle = self.engine.submit("Cancelled", max_tokens=5000, ignore_eos=True)
            asyncio.get_running_loop().call_later(0.1, handle.cancel)
            with self.assertRaises(ropeway.CancelledError):
                await asyncio.wait_for(handle, 10)
            # It ended before anyone asked.
            self.assertEqual((await handle_of_before).text, handle_of_before.wait().text)

        handle_of_before = self.engine.submit("Before", max_tokens=1)
        handle_of_before.wait()
        for _ in range(2):  # Each run has a loop of its own.
            asyncio.run(run())

    def test_tasks_need_an_event_loop(self):
        handle = self.engine.submit("x", max_tokens=1)
        with unittest.mock.patch("sys.unraisablehook") as unraisable:
            with self.assertRaisesRegex(RuntimeError, "no running event loop"):
                handle.__aiter__()
            gc.collect()
        unraisable.assert_not_called()

    def test_several_wait_for_one(self):
        async def run():
            handle = self.engine.submit("Shared", max_tokens=40, seed=1)

            async def read():
                return [token async for delta in handle for token in delta.token_ids]

            async def wait():
                return (await handle).token_ids

            first, second, *lists = await asyncio.wait_for(asyncio.gather(wait(), wait(), read(), read()), 20)
            self.assertEqual(first, second)
            self.assertEqual(sorted(lists[0] + lists[1]), sorted(first))

        asyncio.run(run())

    def test_tasks_share_an_iterator(self):
        async def run():
            handle = self.engine.submit("Shared", max_tokens=40, seed=1, ignore_eos=True)
            deltas = aiter(handle)

            async def read():
                return [token async for delta in deltas for token in delta.token_ids]

            lists = await asyncio.wait_for(asyncio.gather(read(), read(), read()), 20)
            self.assertEqual(sorted(sum(lists, [])), sorted(handle.wait().token_ids))

        asyncio.run(run())

    def test_an_iterator_is_of_one_event_loop(self):
        handle = self.engine.submit("x", max_tokens=2000, ignore_eos=True)
        deltas = None

        async def begin():
            nonlocal deltas
            deltas = aiter(handle)
            await anext(deltas)

        async def go_on():
            with self.assertRaisesRegex(RuntimeError, "event loop"):
                await asyncio.wait_for(anext(deltas), 5)

        asyncio.run(begin())
        asyncio.run(go_on())
        handle.cancel()

    def test_event_loops_leave_nothing_open(self):
        async def run():
            await self.engine.submit("x", max_tokens=1)

        asyncio.run(run())
        gc.collect()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            asyncio.run(run())
        gc.collect()
        self.assertLessEqual(len(os.listdir("/proc/self/fd")), before + 1)

    def test_the_engine_never_waits_for_python(self):
        """Though a handle that is watched is dropped while its request runs, and Python's lock is held."""

        async def run():
            dropped = self.engine.submit("Dropped", max_tokens=60, ignore_eos=True)
            task = asyncio.create_task(dropped._ended())
            await asyncio.sleep(0.05)
            task.cancel()
            del dropped, task
            await asyncio.sleep(0)
            other = self.engine.submit("Other", max_tokens=2000, ignore_eos=True)
            before = self.engine.stats()["total_steps"]
            ctypes.PyDLL(None).usleep(1_500_000)  # It keeps the lock.
            steps = self.engine.stats()["total_steps"] - before
            other.cancel()
            return steps

        self.assertGreater(asyncio.run(run()), 100)

    def test_what_was_said_before_is_read_by_who_comes_late(self):
        handle = self.engine.submit("Late", max_tokens=10, seed=2, logprobs=1)
        result = handle.wait()
        deltas = list(handle)
        self.assertEqual([token for delta in deltas for token in delta.token_ids], result.token_ids)
        self.assertEqual(list(handle), [])
        self.assertEqual(handle.wait().text, result.text)

    def test_metrics(self):
        self.assertIn("ropeway_generation_tokens_total", self.engine.metrics())
        stats = self.engine.stats()
        self.assertGreater(stats["total_steps"], 0)
        self.assertEqual(self.engine.model.architecture, "llama")


class LifeTest(unittest.TestCase):
    def test_switches_are_pythons(self):
        for caching, strict in ((False, np.True_), (True, False)):
            with open_engine(prefix_caching=caching, strict_priority=strict) as engine:
                runs = [engine.generate(list(range(100, 150)), max_tokens=1).usage.cached_tokens for _ in range(2)]
                self.assertEqual(runs, [0, 48 if caching else 0])
        with self.assertRaisesRegex(ropeway.InvalidArgumentError, "threads.*'true'"):
            ropeway.Engine(MODEL, threads=True)

    def test_options_set_up_the_schedule(self):
        with open_engine(policy="fair", scheduler="static", max_batch_size=3) as engine:
            self.assertEqual(engine.stats()["strategy"], "static")
            self.assertEqual(engine.stats()["max_batch_size"], 3)

    def test_handles_outlive_their_engine(self):
        engine = open_engine()
        done = engine.submit("Hello", max_tokens=3, temperature=0)
        text = done.wait().text
        running = engine.submit("On and on", max_tokens=5000, ignore_eos=True)
        del engine
        gc.collect()
        self.assertEqual(done.wait().text, text)
        with self.assertRaises(ropeway.CancelledError):
            running.wait(10)
        running.cancel()

    def test_a_closed_engine_says_so(self):
        engine = open_engine()
        engine.close()
        engine.close()
        for call in [lambda: engine.submit("x"), lambda: engine.model, engine.stats, lambda: engine.tokenize("x")]:
            with self.assertRaises(ropeway.UnavailableError):
                call()

    def test_closing_beside_calls(self):
        engine = open_engine()

        def work():
            try:
                while True:
                    engine.generate("x", max_tokens=2)
                    engine.tokenize("some text " * 50)
            except (ropeway.UnavailableError, ropeway.CancelledError):
                pass

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        engine.close()
        for thread in threads:
            thread.join(20)
            self.assertFalse(thread.is_alive())

    def test_draining(self):
        with open_engine() as engine:
            short = engine.submit("Hello", max_tokens=3)
            engine.drain(20)
            self.assertTrue(short.done)
            with self.assertRaises(ropeway.UnavailableError):
                engine.submit("x")

    def test_closing_ends_a_drain(self):
        engine = open_engine()
        engine.submit("On and on", max_tokens=5000, ignore_eos=True)
        draining = threading.Thread(target=engine.drain, args=(60,))
        draining.start()
        time.sleep(0.2)
        started = time.monotonic()
        engine.close()
        draining.join(10)
        self.assertLess(time.monotonic() - started, 5)

    def test_sessions(self):
        with tempfile.TemporaryDirectory() as folder:
            fields = {"session": "s", "max_tokens": 8, "temperature": 0}
            with open_engine(state_path=folder) as engine:
                first = engine.generate(messages=CHAT, **fields)
            with open_engine(state_path=folder) as engine:
                (session,) = engine.sessions()
                self.assertEqual((session.id, session.turns, session.durable), ("s", 1, True))
                more = [{"role": "user", "content": "And one more?"}]
                second = engine.generate(messages=more, **fields)
                history = CHAT + [{"role": "assistant", "content": first.text}] + more
                whole = engine.generate(messages=history, max_tokens=8, temperature=0)
                self.assertEqual(second.text, whole.text)
                engine.close_session("s")
                with self.assertRaises(ropeway.NotFoundError):
                    engine.close_session("s")

    def test_a_key_press_interrupts_a_wait(self):
        script = (
            "import os, ropeway, sys\n"
            "engine = ropeway.Engine(os.environ['ROPEWAY_TEST_MODEL'], threads=1, kv_cache_size='64MiB')\n"
            "print('ready', flush=True)\n"
            "try:\n"
            "    engine.generate('On and on', max_tokens=2000, ignore_eos=True)\n"
            "except KeyboardInterrupt:\n"
            "    engine.drain(10)\n"
            "    sys.exit(7)\n"
        )
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(20), 7)

    def test_a_program_may_end_with_requests_under_way(self):
        script = (
            "import os, ropeway\n"
            "engine = ropeway.Engine(os.environ['ROPEWAY_TEST_MODEL'], threads=1, kv_cache_size='64MiB')\n"
            "handle = engine.submit('On and on', max_tokens=2000, ignore_eos=True)\n"
        )
        done = subprocess.run([sys.executable, "-c", script], timeout=30, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_program_may_be_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/ropeway")
            for source in pathlib.Path(ropeway.__file__).parent.glob("*.*"):
                os.symlink(source.resolve(), f"{folder}/ropeway/{source.name}")
            done = subprocess.run([sys.executable, "-m", "ropeway", "serve"], env={**os.environ, "PYTHONPATH": folder},
                                  capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Apython -m ropeway: there is no .*/bin/ropeway[^\n]*\n\Z")

    def test_a_fork_leaves_the_engine_behind(self):
        script = (
            "import asyncio, os, ropeway, signal, sys\n"
            "open_engine = lambda: ropeway.Engine(os.environ['ROPEWAY_TEST_MODEL'], threads=1, kv_cache_size='64MiB')\n"
            "engine = open_engine()\n"
            "handle = engine.submit('On and on', max_tokens=2000, ignore_eos=True)\n"
            "deltas = iter(handle)\n"
            "next(deltas)\n"
            "child = os.fork()\n"
            "if child == 0:\n"
            "    signal.alarm(15)\n"
            "    async def wait():\n"
            "        await handle\n"
            "    for call in (lambda: engine.generate('x'), lambda: engine.model, handle.wait, handle.poll, handle.cancel,\n"
            "                 lambda: next(deltas), lambda: next(iter(handle)), lambda: asyncio.run(wait())):\n"
            "        try:\n"
            "            call()\n"
            "        except ropeway.UnavailableError as error:\n"
            "            assert 'belongs to the process that made it' in str(error), error\n"
            "        else:\n"
            "            os._exit(1)\n"
            "    if sys.argv[1] == 'close':\n"
            "        engine.close()\n"
            "        del engine, handle, deltas\n"
            "    if sys.argv[1] == 'own':\n"
            "        with open_engine() as own:\n"
            "            own.generate('x', max_tokens=2)\n"
            "    sys.exit(3)\n"
            "_, status = os.waitpid(child, 0)\n"
            "engine.generate('x', max_tokens=2)\n"
            "sys.exit(os.waitstatus_to_exitcode(status))\n"
        )
        for way in ("end", "close", "own"):
            done = subprocess.run([sys.executable, "-c", script, way], timeout=60, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (3, ""), way)

    def test_kv_events_reach_a_reader(self):
        import zmq

        with tempfile.TemporaryDirectory() as folder, zmq.Context() as context:
            address = f"ipc://{folder}/events"
            with open_engine(kv_events=address, kv_events_topic="kv") as engine:
                result = engine.generate(list(range(100, 140)), max_tokens=1)
                self.assertEqual(result.usage.prompt_tokens, 40)
                with context.socket(zmq.SUB) as reader:
                    reader.setsockopt(zmq.SUBSCRIBE, b"kv")
                    reader.setsockopt(zmq.RCVTIMEO, 10_000)
                    reader.connect(address)
                    topic, number, payload = reader.recv_multipart()
                self.assertEqual((topic, len(number)), (b"kv", 8))
                self.assertIn(b"BlockStored", payload)


if __name__ == "__main__":
    unittest.main()
