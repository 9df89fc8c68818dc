#!/usr/bin/env python3
"""What bench/ropeway_bench computes from the rows of ropeway-bench: shares of the machine's limits, distinct outputs,
and what caches find of a trace."""
import argparse
import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

from ropeway_bench import determinism, kernels, load, prefixes  # noqa: E402  pylint: disable=wrong-import-position
from ropeway_bench.metrics import Metrics  # noqa: E402  pylint: disable=wrong-import-position


def cell(part, x, **values):
    return [{"part": part, "system": "avx2", "round": 1, "x": x, "metric": metric, "value": str(value)}
            for metric, value in values.items()]


def product(name, n, count, logits, rows, seconds, **more):
    """Of 1024 inputs and two matrices of Q4_1 with n outputs each."""
    return cell("matmul", f"model=a model; name={name}; type=Q4_1; k=1024; n={n}+{n}; count={count}; logits={logits}; "
                f"rows={rows}", median_us=seconds * 1e6, min_us=seconds * 0.9e6, max_us=seconds * 1.2e6,
                barrier_ns=68, sweep_bytes_per_s=40e9, int8_ops=2.0 * 1024 * 2 * n * rows,
                bytes=1024 * 2 * n * 20 / 32, **more)


def peaks():
    return [row for threads, factor in ((1, 0.5), (2, 1)) for what, rate in (("int8", 800e9), ("f32", 200e9))
            for row in cell("peak", f"what={what}; threads={threads}", per_second=rate * factor, work=1e6,
                            median_us=1000, min_us=900, max_us=1200, barrier_ns=65)]


def example():
    about = cell("about", "", cpu="a CPU, fast", model="a model", threads=2, cold=1)
    sweep = cell("peak", "what=sweep; threads=2", per_second=40e9, work=80e6, median_us=2000, min_us=1800, max_us=2400)
    return about + peaks() + sweep + (
        product("q/k", 1024, 30, 0, 1, 50e-6) + product("q/k", 1024, 30, 0, 1024, 10e-3)
        + product("output", 4096, 1, 1, 1, 200e-6)
        + cell("attention", "model=a model; type=q8_0; head_dim=64; kv_heads=3; group=3; rows=1; sequences=1; "
               "context=128", median_us=100, min_us=90, max_us=120, barrier_ns=260, sweep_bytes_per_s=30e9,
               f32_ops=2e6, bytes=2e6))


class KernelsTest(unittest.TestCase):
    def share(self, seconds, sweep=40e9, **work):
        rows = peaks() + cell("matmul", "name=x", median_us=seconds * 1e6, sweep_bytes_per_s=sweep, **work)
        parts = kernels.cells_of(Metrics(rows))
        return kernels.share(parts, parts["matmul"][0])

    def test_the_longer_of_computing_and_reading_is_the_limit(self):
        self.assertEqual(self.share(2, int8_ops=800e9, bytes=20e9), (0.5, "i"))
        self.assertEqual(self.share(1.25, int8_ops=200e9, bytes=40e9), (0.8, "m"))
        self.assertEqual(self.share(1, f32_ops=100e9, bytes=1e9), (0.5, "f"))

    def test_both_kinds_of_operations_take_the_same_units(self):
        self.assertEqual(self.share(1, int8_ops=400e9, f32_ops=50e9, bytes=1), (0.75, "i"))

    def test_a_sweep_beyond_fifty_gigabytes_a_second_is_no_limit(self):
        self.assertEqual(self.share(2, sweep=90e9, bytes=50e9), (0.5, "m"))

    def test_each_product_counts_as_often_as_it_occurs(self):
        parts = kernels.cells_of(Metrics(example()))
        products = parts["matmul"]
        one = [c for c in products if c.rows == 1]
        ops, _, share = kernels.weighted(parts, [c for c in one if c.of["logits"] == "0"])
        self.assertAlmostEqual(ops, 2.0 * 1024 * 2048 / 50e-6, delta=1)
        self.assertAlmostEqual(share, 1024 * 2048 * 20 / 32 / 40e9 / 50e-6)
        # 30 times 2048 outputs and once 8192, in 30 times 50 us and once 200 us.
        self.assertAlmostEqual(kernels.weighted(parts, one)[0],
                               2.0 * 1024 * (30 * 2048 + 8192) / (30 * 50e-6 + 200e-6), delta=1)
        _, of_peak, share = kernels.weighted(parts, [c for c in products if c.rows == 1024])
        self.assertAlmostEqual(of_peak, 2.0 * 1024 * 1024 * 2048 / 800e9 / 10e-3)
        self.assertAlmostEqual(share, of_peak)

    def test_the_report(self):
        text = kernels.report_text(Metrics(example()), None)
        self.assertIn("CPU a CPU, fast; kernels avx2; threads 2; barrier 68 ns (mostly 65 to 260)", text)
        self.assertIn("differ by 30% in the median, mostly by less than 30%: something else", text)
        for words in ("| 800 ", "| 40.0 ", "q/k 1024 x 1024+1024, Q4_1, 30 times", "66%m", "54%i",
                      "a model, q8_0 KV cache, 3 KV heads of 64", "decode, 1 sequences", "layers and output"):
            self.assertIn(words, text)
        self.assertNotIn("quick", text)
        self.assertNotIn("Logits by vocabulary", text)

    def test_targets_are_of_all_products_of_a_type_together(self):
        k_quants = [row | {"x": row["x"].replace("Q4_1", "Q4_K")} for rows, seconds in ((64, 1e-3), (1, 50e-6))
                    for row in product("q/k", 1024, 30, 0, rows, seconds)]
        many, one = kernels.verdicts(Metrics(peaks() + k_quants))
        self.assertAlmostEqual(many.measured, 2.0 * 1024 * 2048 * 64 / 800e9 / 1e-3)
        self.assertAlmostEqual(one.measured, 1024 * 2048 * 20 / 32 / 40e9 / 50e-6)
        self.assertEqual((many.target, one.target), (0.275, 0.8))  # The table of kernels is avx2.
        self.assertEqual((many.met, one.met), (True, False))
        self.assertIn("products of Q4_K, 64 rows: share of the int8 peak",
                      kernels.report_text(Metrics(example() + k_quants), None))
        self.assertEqual(kernels.verdicts(Metrics(example())), [])
        self.assertNotIn("Targets", kernels.report_text(Metrics(example()), None))

    def test_what_was_left_out_is_named(self):
        rows = example() + cell("about", "", left_out="down needs 9 MB") + cell(
            "matmul", "model=a model; name=down; type=Q4_1; k=9; n=9; count=30; logits=0", left_out=1)
        text = kernels.report_text(Metrics(rows), None)
        self.assertIn("- left out: down needs 9 MB\n", text)
        self.assertIn("| layers less 1 ", text)
        self.assertIn("| layers and output less 1 ", text)

    def test_only_the_limits(self):
        rows = [row for row in example() if row["part"] not in ("matmul", "attention")]
        text = kernels.report_text(Metrics(rows), None)
        self.assertNotIn("Matrix products", text)
        self.assertNotIn("Attention", text)


class TallyTest(unittest.TestCase):
    def tally(self, *answers):
        tally = determinism.Tally()
        for answer in answers:
            tally.add(*answer)
        return tally

    def test_one_answer_many_times_is_one_output(self):
        found = self.tally(*[("ab", (-0.5, -1.25))] * 5).metrics()
        self.assertEqual(found, {"answers": 5, "distinct": 1, "distinct_with_logprobs": 1, "most_frequent": 5,
                                 "largest_logprob_difference": 0.0, "differ_at": None})

    def test_outputs_that_differ(self):
        tally = self.tally(("abc", (-0.5, -1.0, -2.0)), ("axc", (-0.5, -1.5, -9.0)), ("axc", (-0.5, -1.5, -9.0)),
                           ("ab", (-0.5, -1.0)))
        found = tally.metrics()
        self.assertEqual((found["distinct"], found["most_frequent"], found["differ_at"]), (3, 2, 2))
        # After the first difference the texts are others: no difference of log-probabilities.
        self.assertEqual(found["largest_logprob_difference"], 0.0)
        self.assertEqual(tally.counts(), [2, 1, 1])
        self.assertEqual(tally.describe(), "first differ at token 2: 'x' and 'b'")

    def test_a_last_bit_of_a_logprob_counts(self):
        found = self.tally(("a", [-0.123456]), ("a", [math.nextafter(-0.123456, 0)]), ("a", [-0.123456])).metrics()
        self.assertEqual((found["distinct"], found["distinct_with_logprobs"]), (1, 2))
        self.assertTrue(0 < found["largest_logprob_difference"] < 1e-15)
        self.assertEqual(self.tally(("a", [math.nan]), ("a", [float("nan")])).metrics()["distinct_with_logprobs"], 1)

    def test_an_answer_that_ends_early(self):
        tally = self.tally(("ab", ()), ("a", ()))
        self.assertEqual(tally.metrics()["differ_at"], 2)
        self.assertIsNone(tally.metrics()["distinct_with_logprobs"])
        self.assertEqual(tally.describe(), "first differ at token 2: 'b' and (the end)")

    def test_answers_are_read(self):
        for logprobs in ('{"tokens":["a"," b"],"token_logprobs":[-0.5,-1],"top_logprobs":null}',
                         '{"content":[{"id":3,"token":"a","logprob":-0.5},{"token":" b","logprob":-1}]}'):
            answer = determinism.read_answer('{"choices":[{"text":"a b","logprobs":%s}]}' % logprobs)
            self.assertEqual(answer, (["a", " b"], [-0.5, -1]))
        for logprobs in ("null", "{}", "3", '{"tokens":[1],"token_logprobs":[1]}', '{"content":[{}]}',
                         '{"tokens":["a"],"token_logprobs":[]}', '{"tokens":7,"token_logprobs":null}'):
            answer = determinism.read_answer('{"choices":[{"text":"a b","logprobs":%s}]}' % logprobs)
            self.assertEqual(answer, (["a b"], []), logprobs)
        for body in ("", "[]", "{}", '{"choices":[]}', '{"choices":[{"text":3}]}', '{"choices":{"text":"a"}}'):
            with self.assertRaises((ValueError, KeyError, IndexError, TypeError), msg=body):
                determinism.read_answer(body)


def asked(input_tokens, *blocks):
    return prefixes.Asked(0, input_tokens, 4, list(blocks))


class PrefixesTest(unittest.TestCase):
    def test_an_infinite_cache_finds_leading_blocks(self):
        requests = [asked(64, 1, 2), asked(64, 1, 2), asked(80, 1, 9, 2), asked(40, 1, 2)]
        found = prefixes.InfiniteCache.of(requests, 32)
        self.assertEqual((found.input_tokens, found.output_tokens), (64 + 64 + 80 + 40, 16))
        self.assertEqual(found.hit_tokens, 64 + 32 + 40)  # Block 2 behind block 9 is known and no use.
        # Never the last token of a prompt, and whole blocks of 16: 48, 32, 32.
        self.assertEqual(found.hit_kv_tokens, 48 + 32 + 32)
        self.assertEqual(found.distinct_tokens, 64 + 32)
        last = prefixes.InfiniteCache.of(requests[3:], 32, before=requests[:3])
        self.assertEqual((last.input_tokens, last.hit_tokens, last.distinct_tokens), (40, 40, 0))

    def test_prompts_agree_as_far_as_their_blocks(self):
        one, two = (prefixes.prompt_ids(a, 32) for a in (asked(70, 5, 6, 7), asked(96, 5, 6, 8)))
        self.assertEqual((len(one), len(two), determinism.common(one, two)), (70, 96, 64))
        self.assertTrue(all(1000 <= token <= 29999 for token in two))

    def test_warm_up_requests_are_what_the_trace_knew(self):
        before = [asked(40, 1, 2), asked(40, 1, 3, 4), asked(40, 9)]
        requests = [asked(40, *blocks) for blocks in ((1, 2), (1, 5), (1, 3, 7), (1, 2, 8), (6,), (6, 9))]
        # {1} is a part of {1, 2}; 6 was unknown, so 9 behind it is no prefix.
        warm = prefixes.warm_up_requests(before, requests, 32)
        self.assertEqual([(r.blocks, r.input_tokens, r.output_tokens) for r in warm],
                         [([1, 2], 64, 1), ([1, 3], 64, 1)])
        self.assertEqual(prefixes.warm_up_requests([], requests, 32), [])

    def test_a_stable_queue_drains_at_once_and_a_growing_one_does_not(self):
        calm = prefixes.queue_growth([load.Record(due=i, latency=2) for i in range(101)])
        self.assertEqual((calm["arrivals_s"], calm["drain_s"]), (100, 2))
        self.assertLessEqual(calm["drain_share"], prefixes.STABLE_TO)
        self.assertAlmostEqual(calm["in_flight"][0], 2, delta=0.1)
        # Served one after the other, 1.3 s each.
        queue = prefixes.queue_growth([load.Record(due=i, latency=1.3 * (i + 1) - i) for i in range(101)])
        self.assertAlmostEqual(queue["drain_share"], 0.31, delta=0.02)
        self.assertGreater(queue["in_flight"][3], 2 * queue["in_flight"][1])

    def test_pools_rise(self):
        self.assertEqual(prefixes.pools("5,10.5,100"), [5, 10.5, 100])
        for wrong in ("", "0", "101", "5,5", "10,5", "5,", "x", "5;10", "nan"):
            with self.assertRaisesRegex(argparse.ArgumentTypeError, "expected rising numbers", msg=wrong):
                prefixes.pools(wrong)


if __name__ == "__main__":
    unittest.main()
