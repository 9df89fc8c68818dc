#!/usr/bin/env python3
"""Runs the smallest cases of the benchmarks over HTTP on the real engine: metrics, files and reports are whole; the counts
are right where they do not depend on time; nonsense gets one sentence and exit code 1. Benchmarks run in this process,
and servers with the same flags are started once for all of them; the front `ropeway bench NAME` has a test of its own.

usage: bench_http_test.py --ropeway PROGRAM --model FILE.gguf
"""
import json
import subprocess
from unittest import mock

import bench_runner
from bench_runner import ARGS, ROOT, bench, front
from ropeway_bench import http, knobs, load, schedulers, servers, steps, suite

TRACE = ROOT / "tests" / "data" / "tenants.csv"
CLASSES = ("high", "medium", "low")


class HttpBenchTest(bench_runner.BenchTest):
    def test_schedulers(self):
        with mock.patch.object(schedulers, "LEAST_REQUESTS", 6):
            report = self.run_bench("schedulers", "--sizes", "2", "--users", "3", "--requests-per-slot", "3",
                                    "--output-tokens", "4", "--most-output", "12", "--ceiling-tokens", "8",
                                    "--mixed-runs", "2", "--mixed-requests", "1", "--mixed-batch", "2", "--mixed-timeout",
                                    "20ms", "--batch-timeout", "20ms")
        for name in schedulers.STRATEGIES:
            self.assertEqual(self.value("mixed", name, "requests"), 2)
            self.assertEqual(self.value("batch of 2", name, "requests"), 6)
            self.assertEqual(self.value("batch of 2", name, "failed"), 0)
            self.assertGreater(self.value("batch of 2", name, "ttft_max_s"), 0)
        tokens = {self.value("batch of 2", name, "output_tokens") for name in schedulers.STRATEGIES}
        self.assertEqual(len(tokens), 1)  # All got the same requests.
        for name in ("serial", "continuous"):
            self.assertEqual(self.value("3 users", name, "requests"), 6)
        self.assertEqual([x for x, _ in self.metrics.curve("ceiling", "continuous", "decode_tok_per_s")], [1, 3, 16])
        self.assertIn("## batch of 2", report)
        self.assertIn("--scheduler static --static-padding on", report)
        self.assertIn("longest wait s", report)

    def test_priorities(self):
        report = self.run_bench("priorities", "--capacity-requests", "8", "--unloaded-requests", "3",
                                "--open-requests", "9", "--overload-requests", "9", "--urgent-requests", "7",
                                "--alone-seconds", "0.5", "--prompt-tokens", "16", "--output-tokens", "8", "--slots", "2",
                                "--texts", "3")
        self.assertGreater(self.value("capacity", "ropeway", "capacity_per_s"), 0)
        self.assertEqual(self.value("unloaded", "ropeway", "requests"), 3)
        for name in CLASSES:
            self.assertEqual(self.value("open loop", "ropeway", "requests", name), 3)
            self.assertEqual(self.value("overload", "ropeway", "requests", name)
                             + self.value("overload", "ropeway", "rejected", name), 3)
        self.assertEqual(self.value("low and urgent", "ropeway", "requests", "high"), 4)
        self.assertEqual(self.value("low and urgent", "ropeway", "requests", "medium"), 3)
        self.assertGreaterEqual(self.value("low and urgent", "ropeway", "requests", "low"), 4)
        self.assertGreater(self.value("low and urgent", "ropeway", "work_per_s"), 0)
        self.assertEqual(self.value("low and urgent", "ropeway", "texts_compared"), 3)
        self.assertEqual(self.value("low and urgent", "ropeway", "texts_different"), 0)
        self.assertEqual(self.value("low and urgent", "ropeway", "recomputed_tokens"), 0)
        self.assertIn("low and urgent: high TTFT p99, ms", report)
        self.assertIn("overload: longest wait of accepted requests, s", report)
        self.assertIn("3 samples *", report)

    def test_priorities_in_virtual_time(self):
        small = ("priorities", "--part", "simulated", "--rounds", "2", "--capacity-requests", "200", "--open-requests", "150",
                 "--urgent-requests", "70", "--alone-seconds", "5")
        report = self.run_bench(*small)
        rows = self.metrics.rows
        self.assertAlmostEqual(self.value("simulated capacity", "ropeway", "capacity_per_s"), 10.9, delta=0.5)
        for name in CLASSES:
            self.assertEqual(self.value("simulated open loop", "ropeway", "requests", name), 50)
        self.assertEqual(self.value("simulated low and urgent", "ropeway", "requests", "high"), 40)
        self.assertGreater(self.value("simulated low and urgent", "ropeway", "requests", "low"), 100)
        # Each round has arrivals of its own.
        self.assertEqual(len(set(self.metrics.values("simulated open loop", "ropeway", "ttft_p99_s", "high"))), 2)
        self.assertIn("simulated low and urgent: high ITL p99 over low's p50", report)
        self.assertIn("a step takes 2.87 ms, 0.927 more per decode and 0.424 per token of a prompt", report)
        self.run_bench(*small)
        virtual = [[row for row in of if row["part"].startswith("simulated") and row["metric"] != "others_cpu_share"]
                   for of in (rows, self.metrics.rows)]
        self.assertEqual(*virtual)
        self.expect_sentence(bench("priorities", "--step-times", "1,2"), "three numbers of milliseconds")

    def test_fairness(self):
        report = self.run_bench("fairness", "--trace", TRACE, "--pairs", "2", "--length-divisor", "4", "--slots", "2",
                                "--capacity-part", "1")
        for part in ("measured", "simulated"):
            for name in ("priority+fair", "fcfs"):
                self.assertEqual(self.value(part, name, "requests"), 24)
                self.assertEqual(self.value(part, name, "requests", "client 0"), 12)
                light = self.value(part, name, "requests", "light")
                self.assertEqual(light + self.value(part, name, "requests", "heavy"), 24)
        self.assertEqual(self.metrics.unique("round", part="measured"), [1, 2])
        self.assertIn("2 pairs, from", report)
        self.assertIn("--policy fcfs", report)
        self.assertNotIn("client-0", report + (self.folder / "fairness.csv").read_text(encoding="utf-8"))

    def test_long_prompt(self):
        report = self.run_bench("long-prompt", "--streams", "2", "--stream-output", "24", "--prompt-tokens", "300",
                                "--prompts", "2", "--alone-seconds", "0.5")
        self.assertEqual(self.value("long prompts alone", "ropeway", "requests"), 2)
        self.assertEqual(self.value("both", "ropeway", "requests", "long prompts"), 2)
        self.assertAlmostEqual(self.value("both", "ropeway", "prompt_tokens_each", "long prompts"), 300, delta=10)
        self.assertGreater(self.value("both", "ropeway", "itl_samples", "streams"), 2)
        self.assertIn("ropeway: streams' ITL p99 beside long prompts over alone", report)

    def test_chats_keep_what_was_said(self):
        small = ("--part", "chats", "--users", "2", "--turns", "3", "--first-tokens", "40", "--input-tokens", "40",
                 "--output-tokens", "8", "--spread", "0", "--request-interval", "0")
        report = self.run_bench("sessions", *small)
        for system in ("stateful", "stateless"):
            self.assertEqual(self.value("chats", system, "turns"), 6)
            self.assertEqual(self.value("chats", system, "failed"), 0)
            self.assertEqual([x for x, _ in self.metrics.curve("chats", system, "ttft_p50_s")], [1, 2, 3])
        prompt = self.value("chats", "stateless", "prompt_tokens")
        self.assertEqual(self.value("chats", "stateless", "prefilled_tokens"), prompt)
        # The second and third prompts repeat one and two turns of more than 48 tokens: of the 6 x 48 tokens and more
        # that are repeated, less than a block each is computed again.
        kept = prompt - self.value("chats", "stateful", "prefilled_tokens")
        self.assertGreater(kept, 2 * (2 * 32 + 32), prompt)
        self.assertIn("turns/s, stateful over stateless", report)
        self.assertIn("| turn |", report)
        # A second run adds to the file.
        report = self.run_bench("sessions", *small, "--append", "--mode", "stateful")
        self.assertEqual(self.metrics.rounds("chats", "stateful"), 2)
        self.assertIn("- chats, stateful, 2 rounds: `ropeway serve", report)

    def test_dialogues_pool_and_restart(self):
        dialogue = {"history": [{"user": "What is a gondola lift?", "bot": "A cabin on a rope."},
                                {"user": "Does it stop?", "bot": "Never."}]}
        file = self.folder / "dialogues.jsonl"
        file.write_text(json.dumps(dialogue) + "\n", encoding="utf-8")
        self.run_bench("sessions", "--dialogues", file, "--part", "chats", "--mode", "stateful", "--users", "1")
        self.assertEqual(self.value("dialogues", "stateful", "turns"), 2)
        self.run_bench("sessions", "--part", "pool", "--quick", "--users", "1", "--input-tokens", "16",
                       "--output-tokens", "4", "--history-tokens", "100")
        for system in ("all in the pool", "a third in the pool, disk"):
            self.assertEqual(self.value("pool", system, "turns"), 12)  # 3 users, 4 turns.
        report = self.run_bench("sessions", "--part", "restart", "--restart-tokens", "200", "--restart-chats", "2")
        self.assertEqual(self.value("restart", "next turn after a restart", "turns"), 2)
        # The beginning of the chat template may be known.
        self.assertLessEqual(self.value("restart", "full prefill", "cached_tokens"), 2 * 32)
        # Found again on the disk: 200 tokens of each chat, less the last block or two.
        self.assertGreater(self.value("restart", "next turn after a restart", "cached_tokens"), 2 * 160)
        self.assertIn("restart: TTFT of the next turn over a full prefill", report)

    def test_serial_vs_batched(self):
        report = self.run_bench("serial-vs-batched", "--requests", "8", "--sizes", "1,4", "--output-tokens", "8")
        for system in ("serial", "batch of 1", "batch of 4"):
            self.assertEqual(self.value("engine", system, "requests"), 8)
            self.assertEqual(self.value("engine", system, "output_tokens"), 64)
        # 8 requests of 50 ms, one and four to a call.
        self.assertAlmostEqual(self.value("simulated", "serial", "wall_s"), 0.4, places=5)
        self.assertAlmostEqual(self.value("simulated", "batch of 4", "wall_s"), 0.1, places=5)
        self.assertEqual(self.value("simulated", "batch of 4", "calls"), 2)
        self.assertIn("| 4          | 0.400      | 0.100       | 4.00        | 4.00                | 100 %      | met     |", report)
        self.assertIn("simulated, batch of 4: share of the theoretical maximum", report)

    def test_knobs(self):
        small = ("--requests", "6", "--slots", "2", "--prefix-tokens", "32", "--light", "5", "--overload", "5")
        with mock.patch.object(knobs.Loads, "requests", lambda loads, _: load.same(loads.args.requests, 16, 4)):
            report = self.run_bench("knobs", "--knob", "strict", *small)
        self.assertEqual(self.metrics.systems("classes"), ["shares", "strict"])
        for system in ("shares", "strict"):
            self.assertEqual(self.value("classes", system, "requests"), 6)
            self.assertGreater(self.value("classes", system, "ttft_max_s"), 0)
        self.assertIn("## classes\n", report)
        self.assertEqual(self.value("classes", "strict", "requests", "high"), 2)

    def test_the_server_knows_all_knobs(self):
        """That is, it gets as far as the model."""
        self.assertEqual([len(part.systems) for part in knobs.PARTS], [3, 3, 7, 7, 2, 2, 2, 2, 3])
        for part in knobs.PARTS:
            for system, flags in part.systems.items():
                words = [ARGS.ropeway, "serve", "--model", "no-such-model", *servers.QUEUE_ALL, *part.flags, *flags]
                reply = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
                self.assertEqual((reply.returncode, reply.stderr.count("\n")), (1, 1), (part, system))
                self.assertIn("no-such-model", reply.stderr, (part, system))

    def test_peers_over_http(self):
        with mock.patch.object(http, "INPUT_TOKENS", 16), mock.patch.object(http, "OUTPUT_TOKENS", 8):
            self.run_bench("http", "--requests", "4", "--users", "1,2")
        for users, requests in ((1, 6), (2, 4)):
            self.assertEqual(self.value("http", "ropeway", "requests", users), requests)
            self.assertEqual(self.value("http", "ropeway", "prompt_tokens", users), 16 * requests)
            self.assertEqual(self.value("http", "ropeway", "output_tokens", users), 8 * requests)
            for metric in ("output_tok_per_s", "ttft_p99_s", "itl_p99_s", "tpot_p50_s", "service_share_at_1000_tok_s",
                           "peak_rss_mb"):
                self.assertGreater(self.value("http", "ropeway", metric, users), 0, metric)

    def test_the_barrier_of_two_threads_takes_time(self):
        text = suite.output_of(suite.program("ropeway-bench", ""), "steps", "--barrier", "--threads", "2")
        self.assertGreater(float(text.split()[0]), 0)

    def test_shares_of_a_step(self):
        report = self.run_bench("steps", "--part", "shares", "--users", "3", "--output-tokens", "4")
        for system in steps.SAMPLING:
            self.assertEqual(self.value("shares", system, "output_tokens"), 12)
            shares = [self.value("shares", system, f"{part}_share") for part in steps.STEP_PARTS]
            self.assertAlmostEqual(sum(shares), 1, places=4)
        self.assertIn("## Shares of a step", report)

    def test_nonsense_gets_one_sentence(self):
        cases = [("schedulers", "--sizes", "4,2", "--sizes"), ("schedulers", "--users", "0", "--users"),
                 ("schedulers", "--most-prompt", "10", "--most-prompt"), ("schedulers", "--part", "both", "--part"),
                 ("schedulers", "--llama-server", "/no/such/program", "/no/such/program"),
                 ("priorities", "--slots", "0", "--slots"), ("priorities", "--rounds", "0", "--rounds"),
                 ("fairness", "--trace", "/no/such/file", "/no/such/file"), ("fairness", "--pairs", "0", "--pairs"),
                 ("fairness", "--base-url", "http://127.0.0.1:1", "--base-url"),
                 ("fairness", "--part", "measured", "--trace"), ("long-prompt", "--streams", "0", "--streams"),
                 ("sessions", "--users", "0", "--users"), ("sessions", "--mode", "both", "--mode"),
                 ("sessions", "--dialogues", "/no/such/file", "/no/such/file"),
                 ("sessions", "--model", "no-such-model", "no-such-model"), ("knobs", "--knob", "speed", "--knob")]
        for name, flag, value, named in cases:
            self.expect_sentence(bench(name, flag, value), named)

    def test_the_front(self):
        self.expect_sentence(front("no-such-benchmark", "--seed", "1"), "schedulers, priorities")
        self.expect_sentence(front("schedulers", "--sizes", "4,2"), "--sizes")
        self.expect_sentence(front("sessions", "--model", "no-such-model"), "no-such-model")
        results = ROOT / "bench" / "results"
        (self.folder / "fairness.csv").write_bytes((results / "fairness.csv").read_bytes())
        reply = front("fairness", "--report", "--out", self.folder)
        self.assertEqual((reply.returncode, reply.stdout), (0, (results / "fairness.md").read_text(encoding="utf-8")))

    def test_the_page_names_every_benchmark(self):
        page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
        for name in ("schedulers", "priorities", "fairness", "long-prompt", "sessions", "prefixes", "serial-vs-batched",
                     "knobs"):
            self.assertTrue(f"bench {name}" in page, name)
        for name in ("http", "engine", "steps"):
            self.assertTrue(f"bench/run.py {name}" in page, name)
        self.assertTrue("part,system,round,x,metric,value" in page)


if __name__ == "__main__":
    bench_runner.main()
