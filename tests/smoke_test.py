#!/usr/bin/env python3
"""The program as its users meet it: `ropeway serve` on the default model, over HTTP.

Sixteen users at once get the very text that each gets alone; streams, chats, errors, a vanished
client, an idle server and SIGTERM do what the documentation says.

usage: smoke_test.py --ropeway PROGRAM --model FILE.gguf
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

from ropeway_server import PATIENCE, RopewayServer, eventually

ARGS = argparse.Namespace()


def counts(usage):
    """Of a usage, all but what the cache happened to have."""
    return {name: usage[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}


class Server(RopewayServer):
    """With ARGS.model unless another is given."""

    def __init__(self, *flags, port=0, model=None):
        super().__init__(ARGS.ropeway, model or ARGS.model, *flags, port=port)
        self.ready_cpu_seconds = self.cpu_seconds()

    def post(self, path, body):
        status, text, _ = self.request("POST", path, body)
        return status, json.loads(text)

    def stream(self, path, body):
        """The events of a stream, as JSON; the last must be [DONE]."""
        status, text, _ = self.request("POST", path, {**body, "stream": True})
        assert status == 200, (status, text)
        events = [e[len("data: "):] for e in text.split("\n\n") if e.startswith("data: ")]
        assert events[-1] == "[DONE]", events[-1]
        return [json.loads(e) for e in events[:-1]]

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")")[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE), self.output()


QUESTIONS = [f"Write one sentence about {thing}." for thing in (
    "the sea", "a ropeway", "bread", "the moon", "a violin", "rain", "a library", "iron", "bees",
    "winter", "a lighthouse", "chess", "rivers", "a clock", "mountains", "paper")]


def chat(question, **more):
    return {"messages": [{"role": "user", "content": question}], "max_tokens": 24, "temperature": 0,
            **more}


class SmokeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-queued-requests", "40", "--any-model", "off", "--alias", "smoke", "--alias", "second")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_ready_soon(self):
        """In processor time, which others on the machine do not add to."""
        self.assertLess(self.server.ready_cpu_seconds, 3.0)

    def test_sixteen_users_get_what_each_gets_alone(self):
        ask = lambda q: self.server.post("/v1/chat/completions", chat(q, logprobs=True))[1]
        pick = lambda r: (r["choices"][0]["message"]["content"], r["choices"][0]["logprobs"], counts(r["usage"]))
        alone = [pick(ask(q)) for q in QUESTIONS]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            together = list(map(pick, pool.map(ask, QUESTIONS)))
        self.assertEqual(alone, together)
        self.assertEqual(len({text for text, _, _ in alone}), 16)

    def test_knows_the_capital_of_france(self):
        status, reply = self.server.post("/v1/completions", {
            "prompt": "The capital of France is", "max_tokens": 5, "temperature": 0})
        self.assertEqual(status, 200)
        self.assertIn("Paris", reply["choices"][0]["text"])
        self.assertEqual(reply["usage"], {**reply["usage"], "prompt_tokens": 5, "completion_tokens": 5,
                                          "total_tokens": 10})

    def test_stream_equals_whole(self):
        whole = self.server.post("/v1/chat/completions", chat("Tell me a joke."))[1]
        events = self.server.stream("/v1/chat/completions",
                                    chat("Tell me a joke.", stream_options={"include_usage": True}))
        text = "".join(e["choices"][0]["delta"].get("content") or "" for e in events if e["choices"])
        self.assertEqual(text, whole["choices"][0]["message"]["content"])
        self.assertEqual(counts(events[-1]["usage"]), counts(whole["usage"]))

    def test_lm_eval_finds_its_tokenizer(self):
        """What its RemoteTokenizer asks for, field by field."""
        status, text, _ = self.server.request("GET", "/tokenizer_info")
        self.assertEqual(status, 200, text)
        info = json.loads(text)
        self.assertEqual((info["bos_token"], info["eos_token"]), ("<|im_start|>", "<|im_end|>"))
        self.assertIn("pad_token", info)
        self.assertIn("messages", info["chat_template"])
        for name in ("bos_token", "eos_token"):
            ids = self.server.post("/tokenize", {"prompt": info[name], "add_special_tokens": False})[1]["tokens"]
            self.assertEqual(len(ids), 1)
            self.assertEqual(self.server.post("/detokenize", {"tokens": ids})[1]["prompt"], info[name])

    def test_token_ids_seed_and_stop(self):
        body = {"prompt": [504, 3575, 282, 4649, 314], "max_tokens": 16, "seed": 7}
        first = self.server.post("/v1/completions", body)[1]["choices"][0]["text"]
        self.assertEqual(self.server.post("/v1/completions", body)[1]["choices"][0]["text"], first)
        self.assertNotEqual(
            self.server.post("/v1/completions", {**body, "seed": 8})[1]["choices"][0]["text"], first)
        counting = {"prompt": "1, 2, 3, 4, 5, 6, 7, 8, 9,", "max_tokens": 30, "temperature": 0}
        stopped = self.server.post("/v1/completions", {**counting, "stop": "12"})[1]["choices"][0]
        self.assertEqual(stopped["finish_reason"], "stop")
        self.assertEqual(stopped["text"].strip(), "10, 11,")

    def test_errors_in_openai_shape(self):
        cases = [
            ("POST", "/v1/completions", b"{", 400), ("POST", "/v1/completions", b"{}", 400),
            ("POST", "/v1/completions", {"prompt": "x", "max_tokens": -2}, 400),
            ("POST", "/v1/completions", {"prompt": "x " * 20000}, 400),
            ("POST", "/v1/completions", {"prompt": [1, 999999999]}, 400),
            ("POST", "/v1/completions", {"prompt": "x", "model": "no such model"}, 404),
            ("POST", "/v1/chat/completions", {"messages": []}, 400),
            ("GET", "/v1/completions", None, 405), ("GET", "/nowhere", None, 404),
        ]
        for method, path, body, expected in cases:
            with self.subTest(path=path, body=str(body)[:60]):
                status, text, _ = self.server.request(method, path, body)
                self.assertEqual(status, expected, text)
                error = json.loads(text)["error"]
                self.assertEqual(set(error), {"message", "type", "param", "code"})
                self.assertTrue(error["message"])

    def test_models_and_health(self):
        models = json.loads(self.server.get("/v1/models")[1])
        self.assertEqual([m["id"] for m in models["data"]], ["smoke", "second"])
        self.assertEqual(json.loads(self.server.get("/v1/models/second")[1])["id"], "second")
        for path in ("/livez", "/readyz", "/health"):
            self.assertEqual(self.server.get(path)[0], 200)
        for model in ("smoke", "second", "default"):
            status, answer = self.server.post("/v1/completions", {"prompt": "x", "max_tokens": 1, "model": model})
            self.assertEqual((status, answer["model"]), (200, "smoke"))

    def test_a_full_queue_is_429_and_everybody_else_is_served(self):
        # Else the endless one's length, which is known, would reject those that are to wait.
        server = Server("--max-queued-requests", "2", "--max-num-seqs", "1", "--max-wait", "1h")
        self.addCleanup(server.stop)
        ask = lambda q: server.request("POST", "/v1/chat/completions", chat(q, max_tokens=40))
        is_metric = lambda name, value: lambda: server.metric(f"ropeway_num_requests_{name}") == value
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            with self.endless(server):
                eventually(is_metric("running", 1), "the endless one runs")
                waiting = [pool.submit(ask, q) for q in QUESTIONS[:2]]
                eventually(is_metric("waiting", 2), "two wait")
                for question in QUESTIONS[2:]:
                    status, _, headers = ask(question)
                    self.assertEqual(status, 429)
                    self.assertGreaterEqual(int(headers["Retry-After"]), 1)
            self.assertEqual([reply.result()[0] for reply in waiting], [200, 200])

    def test_a_vanished_client_is_a_cancel(self):
        for streaming in (True, False):
            with self.endless(self.server, streaming):
                self.wait_for("ropeway_num_requests_running", lambda n: n >= 1)
            self.wait_for("ropeway_num_requests_running", lambda n: n == 0)
            self.wait_for("ropeway_kv_cache_usage_ratio", lambda n: n == 0)

    @contextlib.contextmanager
    def endless(self, server, streaming=False):
        """A request that runs for far longer than its client stays."""
        body = json.dumps({"prompt": "Once upon a time", "max_tokens": 8000, "ignore_eos": True,
                           "stream": streaming}).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(body) + body)
            yield

    def wait_for(self, metric, condition):
        eventually(lambda: condition(self.server.metric(metric)), metric)

    def test_metrics(self):
        self.server.post("/v1/completions", {"prompt": "x", "max_tokens": 3})
        for name in ("ropeway_time_to_first_token_seconds_count",
                     "ropeway_inter_token_latency_seconds_count",
                     "ropeway_request_queue_time_seconds_count",
                     "ropeway_e2e_request_latency_seconds_count", "ropeway_generation_tokens_total"):
            self.assertGreater(self.server.metric(name), 0, name)
        self.server.metric("ropeway_num_preemptions_total")
        self.server.metric("ropeway_num_requests_waiting")

    def test_the_best_kernels_of_this_cpu_compute(self):
        """As /proc/cpuinfo has it, not as the program's own look at the CPU does."""
        forced = os.environ.get("ROPEWAY_ISA")
        flags = set(re.search(r"^flags\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(
            encoding="utf-8"), re.M).group(1).split())
        avx2 = {"avx2", "fma", "f16c"} <= flags
        vnni = avx2 and {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"} <= flags
        best = forced or ("avx512vnni" if vnni else "avx2" if avx2 else "reference")
        self.assertRegex(self.server.get("/metrics")[1],
                         rf'(?m)^ropeway_engine_info{{kernels="{best}",threads="\d+"}} 1$')

    def test_sigterm_drains_and_an_idle_server_rests(self):
        server = Server()
        for _ in range(3):  # On a busy machine the start may reach into the first.
            before = server.cpu_seconds()
            time.sleep(2)
            used = server.cpu_seconds() - before
            if used < 0.05:
                break
        self.assertLess(used, 0.05)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(server.post, "/v1/chat/completions", chat(q, max_tokens=60))
                     for q in QUESTIONS[:4]]
            started = "ropeway_request_queue_time_seconds_count"
            eventually(lambda: server.metric(started) == 4, "all four have started")
            code, output = server.stop()
            for reply in asked:
                self.assertEqual(reply.result()[0], 200)
                self.assertTrue(reply.result()[1]["choices"][0]["message"]["content"])
        self.assertEqual(code, 0, output)
        self.assertIn("curl", output)


class SignalTest(unittest.TestCase):
    def test_a_second_signal_ends_at_once(self):
        server = Server("--drain-timeout", "600s")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(server.request, "POST", "/v1/completions", {
                "prompt": "x", "max_tokens": 8000, "ignore_eos": True})
            eventually(lambda: server.metric("ropeway_num_requests_running") == 1, "it runs")
            server.process.send_signal(signal.SIGTERM)
            eventually(lambda: server.get("/readyz")[0] == 503, "the first signal drains")
            code, _ = server.stop()
            self.assertEqual(code, 1)  # A complete drain exits with 0.


class CommandLineTest(unittest.TestCase):
    def run_program(self, *words):
        return subprocess.run([ARGS.ropeway, *words], capture_output=True, text=True, check=False,
                              timeout=PATIENCE)

    def test_bad_input_is_one_sentence_and_exit_code_1(self):
        missing = "no/such/model.gguf"
        for words in (["serve", "--model", missing], ["inspect", missing],
                      ["serve", "--model", __file__], ["inspect", __file__],
                      ["tokenize", "--model", __file__, "x"],
                      ["serve", "--model", ARGS.model, "--host", "999.1.1.1", "--port", "0"],
                      ["serve", "--model", ARGS.model, "--max-num-seqs", "0"],
                      ["serve", "--model", ARGS.model, "--kv-cache-size", "1KiB"],
                      ["serve", "--model", ARGS.model, "--kv-cache-size", "lots"],
                      ["serve", "--model", ARGS.model, "--port", "70000"],
                      ["serve", "--model", ARGS.model, "--threads", "-3"],
                      ["serve", "--no-such-flag"]):
            with self.subTest(words=words):
                reply = self.run_program(*words)
                self.assertEqual(reply.returncode, 1, reply.stdout + reply.stderr)
                self.assertTrue(reply.stderr.strip())
                errors = [line for line in reply.stderr.strip().splitlines() if "[info]" not in line]
                self.assertIn(len(errors), (1, 2), reply.stderr)

    def test_inspect_and_tokenize(self):
        shown = self.run_program("inspect", ARGS.model).stdout
        for part in ("llama", "token_embd.weight", "Q4_1", "smollm"):
            self.assertIn(part, shown)
        self.assertEqual(self.run_program("tokenize", "--model", ARGS.model, "Hello world").stdout.split(),
                         ["19556", "905"])

    def test_output_that_is_lost_is_no_success(self):
        for words in (["inspect", ARGS.model], ["tokenize", "--model", ARGS.model, "Hello world"]):
            with self.subTest(words=words), open("/dev/full", "w") as full:
                reply = subprocess.run([ARGS.ropeway, *words], stdout=full, stderr=subprocess.PIPE,
                                       text=True, check=False, timeout=PATIENCE)
                self.assertEqual(reply.returncode, 1)
                self.assertEqual(reply.stderr, "ropeway: the output could not be written\n")

    def test_memory_bound(self):
        server = Server("--kv-cache-size", "256MiB")
        try:
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                list(pool.map(lambda q: server.post("/v1/chat/completions", chat(q)), QUESTIONS))
            status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
            peak = int(re.search(r"VmHWM:\s*(\d+)", status).group(1)) * 1024
            bound = os.path.getsize(ARGS.model) * 1.4 + (256 << 20) + 100e6
            self.assertLess(peak, bound)
        finally:
            server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.parse_known_args(namespace=ARGS)
    unittest.main(argv=[sys.argv[0], "-v"])
