#!/usr/bin/env python3
"""The benchmark of the gateway on the smallest cases, with real Ropeways and without llama-server: metrics, reports and what
does not depend on the machine's speed.

usage: bench_gateway_test.py --ropeway PROGRAM --model FILE.gguf
"""
import json
import subprocess

import bench_runner
from bench_runner import bench
from ropeway_bench import gateway, suite
from ropeway_bench.metrics import ABOUT, Metrics, Where

SMALL = ("--prompt-tokens", "16", "--output-tokens", "8")


class GatewayBenchTest(bench_runner.BenchTest):
    SHARED = False  # Three replicas are three servers.

    def test_simulated_backends(self):
        report = self.run_bench("gateway", "--part", "simulated", "--quick", "--requests", "8", "--call-ms", "25")
        self.assertGreater(self.value("simulated batches", "serial", "wall_s"), 8 * 0.025)
        self.assertEqual(self.value("simulated batches", "batch of 4", "theoretical_maximum"), 4)
        self.assertEqual(self.value("simulated parallel batches", "2 of 4", "theoretical_maximum"), 8)
        self.assertEqual(self.value("simulated replicas", "2 replicas", "theoretical_maximum"), 2)
        for part, system, most in (("batches", "batch of 4", 4), ("parallel batches", "2 of 4", 8),
                                   ("replicas", "2 replicas", 2)):
            gained = self.value(f"simulated {part}", system, "improvement")
            self.assertGreater(gained, 0.5 * most, system)  # Other tests run meanwhile.
            self.assertLess(gained, 1.2 * most, system)
        self.assertIn("## simulated parallel batches", report)
        self.assertRegex(report, r"\| batch of 4 +\| 0\.\d\d\d ")

    def test_the_command_prints_tables(self):
        program = suite.program("ropeway-bench", "")
        reply = subprocess.run([program, "gateway", "--requests", "4", "--call-ms", "5", "--runs", "1", "--sizes", "1,4",
                                "--parallel", "1"], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual((reply.returncode, reply.stderr), (0, ""))
        for words in ("duration s", "requests/s", "improvement", "theoretical maximum", "efficiency", "verdict", "serial",
                      "batch of 4", "2 replicas"):
            self.assertIn(words, reply.stdout)
        reply = subprocess.run([program, "gateway", "--sizes", "4,1"], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual((reply.returncode, reply.stdout, reply.stderr.count("\n")), (1, "", 1), reply.stderr)
        self.assertIn("--sizes", reply.stderr)

    def test_serial_against_batched(self):
        report = self.run_bench("gateway", "--part", "batches", "--requests", "4", "--sizes", "1,4", *SMALL)
        for system in ("serial", "batch of 1", "batch of 4"):
            self.assertEqual(self.value("batches, ropeway", system, "requests"), 4)
            self.assertEqual(self.value("batches, ropeway", system, "output_tokens"), 32)
        self.assertGreater(self.value("ceiling", "ropeway", "itl_p50_s", 4), 0)
        self.assertIn("--dispatch batch --max-batch-size 4", report)
        self.assertIn("batches, ropeway, batch of 4: share of the theoretical maximum", report)

    def test_classes_lose_nobody(self):
        report = self.run_bench("gateway", "--part", "classes", "--slots", "2", "--capacity-requests", "12",
                                "--class-seconds", "1.5", *SMALL)
        for system in (gateway.STAND_IN, gateway.GATEWAY):
            self.assertEqual(self.value("classes", system, "lost"), 0)
            self.assertEqual(self.value("classes", system, "failed"), 0)
            self.assertEqual(sum(self.value("classes", system, "requests", kind) for kind in gateway.KINDS),
                             self.value("classes", system, "requests"))
        self.assertEqual(*(self.value("classes", system, "output_tokens") for system in (gateway.STAND_IN, gateway.GATEWAY)))
        self.assertIn("classes: high's median TTFT without the gateway over that with it", report)

    def test_what_it_costs(self):
        report = self.run_bench("gateway", "--part", "latency", "--latency-requests", "8", "--latency-turns", "2",
                                "--cpu-seconds", "2")
        for way in (gateway.DIRECTLY, gateway.THROUGH):
            self.assertEqual(self.value("latency", gateway.GATEWAY, "requests", way), 16)
        self.assertLess(abs(self.value("latency", gateway.GATEWAY, "added_s")), 0.5)
        self.assertEqual(self.value("processor time", gateway.GATEWAY, "output_tokens"), 2000)
        self.assertLess(self.value("processor time", gateway.GATEWAY, "core_share"), 1)
        self.assertIn("latency: added to the first token, ms", report)
        report = self.run_bench("gateway", "--part", "streams", "--streams", "200")
        self.assertEqual(self.value("streams", gateway.GATEWAY, "streams"), 200)
        self.assertLess(self.value("streams", gateway.GATEWAY, "peak_rss_mb"), 400)
        self.assertIn("| 200 ", report)

    def test_chats_stay_where_their_cache_is(self):
        dialogue = {"history": [{"user": f"Question {turn}: what is a gondola lift, and how does it work?" * 3,
                                 "bot": "A cabin on a rope that never stops. " * 6} for turn in range(4)]}
        file = self.folder / "dialogues.jsonl"
        file.write_text("".join(json.dumps(dialogue | {"history": [
            {"user": f"I am user {i}. " * 20, "bot": "Hello."}, *dialogue["history"]]}) + "\n" for i in range(8)),
            encoding="utf-8")
        report = self.run_bench("gateway", "--part", "affinity", "--dialogues", file, "--chats", "8", "--chat-users", "2",
                                "--chat-tokens", "2", "--chat-cache", "64MiB")
        one, routed, spread = (self.value("affinity", system, "cached_share")
                               for system in (gateway.ONE, gateway.ROUTED, gateway.RANDOM))
        self.assertEqual(self.value("affinity", gateway.ROUTED, "turns"), 40)
        self.assertLess(one - routed, 0.1)
        self.assertGreater(routed, spread)
        self.assertIn("affinity: cached share of one replica less that of three, points", report)

    def test_nonsense_gets_one_sentence(self):
        for flags, named in ((("--base-url", "http://127.0.0.1:1"), "--base-url"),
                             (("--class-shares", "1,2"), "--class-shares"), (("--dialogues", "/no/such/file"), "/no/such/file"),
                             (("--sizes", "2,1"), "--sizes")):
            reply = bench("gateway", "--model", bench_runner.ARGS.model, *flags)
            self.expect_sentence(reply, named)


class VerdictTest(bench_runner.unittest.TestCase):
    def test_figures_are_held_against_what_is_expected(self):
        metrics = Metrics()
        metrics.add(Where(ABOUT), date="2026-11-23", machine="a CPU", isa="avx2")
        for system, share in ((gateway.ONE, 0.70), (gateway.ROUTED, 0.66), (gateway.RANDOM, 0.3)):
            metrics.add(Where("affinity", system), cached_share=share)
        for system, median, rate in ((gateway.LLAMA, 20, 100), (gateway.GATEWAY, 1.6, 98)):
            metrics.add(Where("classes", system), output_tok_per_s=rate, lost=0)
            metrics.add(Where("classes", system, 1, "high"), ttft_p50_s=median, ttft_p99_s=2 * median)
        for way, seconds in ((gateway.DIRECTLY, 0.001), (gateway.THROUGH, 0.0018)):
            metrics.add(Where("latency", gateway.GATEWAY, 1, way), ttft_p50_s=seconds)
        metrics.add(Where("latency", gateway.GATEWAY), added_s=0.0008)
        metrics.add(Where("processor time", gateway.GATEWAY), core_share=0.031, output_tok_per_s=1000)
        metrics.add(Where("streams", gateway.GATEWAY), peak_rss_mb=210, streams=9000)
        for system, gained in (("serial", 1), ("batch of 8", 7.6), ("batch of 16", 14)):
            size = 1 if system == "serial" else int(system.split()[-1])
            metrics.add(Where("simulated batches", system), wall_s=1.6 / gained, requests_per_s=20 * gained,
                        improvement=gained, theoretical_maximum=size, target=0 if size == 1 else 0.93)
        found = {verdict.title: verdict.met for verdict in gateway.verdicts(metrics)}
        self.assertEqual(found, {
            "simulated batches, batch of 8: share of the theoretical maximum": True,
            "simulated batches, batch of 16: share of the theoretical maximum": False,
            "simulated batches, batch of 8: times serial": True, "simulated batches, batch of 16: times serial": False,
            "classes: high's median TTFT without the gateway over that with it": True,
            "classes: high's p99 TTFT without the gateway over that with it": True,
            "classes: throughput with the gateway over without": True,
            "classes: requests lost with the gateway": True,
            "latency: added to the first token, ms": False,
            "processor time: % of a core at 1,000 streamed tokens/s": True,
            "streams: peak memory of all, MB": True,
            "affinity: cached share of one replica less that of three, points": True})
        text = gateway.report_text(metrics, None)
        self.assertRegex(text, r"\| batch of 8 +\| 0.211 +\| 152.0 +\| 7.60 +\| 8.00 +\| 95.0 % +\| met ")


if __name__ == "__main__":
    bench_runner.main()
