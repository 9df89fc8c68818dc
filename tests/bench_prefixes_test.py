#!/usr/bin/env python3
"""Runs the smallest cases of the benchmarks prefixes and determinism on the real engine: the counts are
right where they do not depend on time, reports are whole, and nonsense gets one sentence and exit code 1.

usage: bench_prefixes_test.py --ropeway PROGRAM --model FILE.gguf
"""
import json

import bench_runner
from bench_runner import ARGS, bench


def trace_lines():
    """Four requests of which the second and the fourth begin as the first."""
    blocks = [[1, 2, 3], [1, 2, 4], [7], [1, 2, 3, 9]]
    return "".join(json.dumps({"timestamp": 1000 * i, "input_length": 512 * len(ids) - 100, "output_length": 12,
                               "hash_ids": ids}) + "\n" for i, ids in enumerate(blocks))


class PrefixesTest(bench_runner.BenchTest):
    SHARED = False  # Each starts with a cache of its own.

    def test_a_shared_prompt_is_computed_once(self):
        report = self.run_bench("prefixes", "--part", "shared", "--users", 4, "--requests", 4, "--prompt-tokens", 60,
                                "--tail-tokens", 10, "--output-tokens", 4)
        prompt = self.value("shared prompt", "cache off", "prompt_tokens")
        self.assertGreater(prompt, 4 * 70)
        self.assertEqual(self.value("shared prompt", "cache off", "prefilled_tokens"), prompt)
        self.assertLessEqual(self.value("shared prompt", "cache on", "prefilled_tokens"),
                             self.value("shared prompt", "cache on", "prompt_and_tails_tokens"))
        self.assertIn("prefilled tokens over one prompt and the tails", report)

    def test_a_trace(self):
        trace = self.folder / "trace.jsonl"
        trace.write_text(trace_lines(), encoding="utf-8")
        self.run_bench("prefixes", "--part", "curves", "--trace", trace, "--pools", "100")
        # Of 90, 90, 26 and 122 tokens 0, 64, 0 and 80 are known: the third block was 26 tokens long, one
        # block of 16 of which is whole.
        self.assertAlmostEqual(self.value("curves", "no bounds", "hit_share"), (64 + 80) / 328, places=4)
        self.assertEqual(self.metrics.systems("curves"), ["no bounds", "cost", "LRU", "cost, tier", "LRU, tier"])
        report = self.run_bench("prefixes", "--part", "slice", "--trace", trace, "--slice-start", 1, "--slice-seconds",
                                3, "--slice-pool", 2)
        for system in self.metrics.systems("slice", metric="requests"):
            self.assertEqual(self.value("slice", system, "requests"), 3)
        self.assertIn(self.metrics.median("slice", "cache off", "cached_share"), (None, 0))
        self.assertIn("slice, cache off: time to drain", report)

    def test_one_prompt_has_one_answer(self):
        report = self.run_bench("determinism", "--asks", 8, "--engines", 2, "--output-tokens", 8, "--company", 0.5,
                                "--concurrency", 4)
        for system in ("ropeway, engine", "ropeway serve"):
            self.assertGreaterEqual(self.value("asks", system, "answers"), 8)
            self.assertEqual(self.value("asks", system, "distinct"), 1)
            self.assertEqual(self.value("asks", system, "distinct_with_logprobs"), 1)
            self.assertGreater(self.value("asks", system, "company"), 0)
        self.assertEqual(self.metrics.unique("x", part="rounds"), ["1", "2"])
        self.assertIn("## The engines of ropeway, engine", report)

    def test_nonsense_gets_one_sentence(self):
        cases = [("prefixes", ("--trace", "/no/such/file"), "/no/such/file"), ("prefixes", ("--pools", "50,5"), "--pools"),
                 ("prefixes", ("--part", "curves"), "--part"), ("determinism", ("--asks", "0"), "--asks"),
                 ("determinism", ("--base-url", "http://127.0.0.1:1"), "127.0.0.1:1"),
                 ("determinism", ("--prompt", "word " * 2000, "--asks", "1"), "--prompt")]
        for name, flags, words in cases:
            reply = bench(name, "--model", ARGS.model, *flags)
            with self.subTest(flags=flags[0]):
                self.assertEqual((reply.returncode, reply.stdout), (1, ""), reply)
                self.assertIn(words, reply.stderr.splitlines()[-1])


if __name__ == "__main__":
    bench_runner.main()
