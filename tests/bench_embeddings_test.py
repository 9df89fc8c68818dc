#!/usr/bin/env python3
"""The benchmark of embeddings: what its page says of made-up metrics, the names in the GGUF file of an encoder, and a run of
it with the tiny model.

usage: bench_embeddings_test.py --ropeway PROGRAM --model TINY.gguf
"""
import unittest

import bench_runner
from bench_runner import ARGS, bench
from ropeway_bench import embeddings, encoder_file
from ropeway_bench.metrics import ABOUT, Metrics, Where


def made_up():
    metrics = Metrics()
    metrics.add(Where(ABOUT), date="2026-11-30", machine="a CPU", isa="avx2")
    for system, rates in (("ropeway", (100, 60, 120)), ("llama-server", (50, 50, 200)),
                          ("ropeway --quantize q8_0", (300, 90, 110))):
        for number, rate in enumerate(rates, 1):
            metrics.add(Where("encoder", system, number, "64"), inputs_per_s=rate, tokens=80, barrier_ns=500)
            metrics.add(Where("encoder", system, number), others_cpu_share=0.001)
    return metrics


class PageTest(unittest.TestCase):
    def test_targets_are_of_medians(self):
        found = {v.title: v for v in embeddings.verdicts(made_up())}
        same = found["encoder, F32: inputs/s over llama-server's, 64 words"]
        self.assertEqual((same.measured, same.met, same.of), (2, True, "100 / 50 inputs/s"))
        quantised = found["encoder, --quantize q8_0: inputs/s over llama-server's in F32, 64 words"]
        self.assertEqual((quantised.measured, quantised.met), (2.2, True))
        without = found["encoder, --quantize q8_0: inputs/s over llama-server's in Q8_0, 64 words"]
        self.assertEqual((without.met, without.word), (None, "missing: llama-server Q8_0"))
        self.assertFalse(any(title.startswith("chat") for title in found))

    def test_the_page_has_a_table_for_each_model(self):
        text = embeddings.report_text(made_up())
        self.assertRegex(text, r"\| ropeway +\| 64 +\| 100.0 ")
        self.assertIn("## encoder", text)
        self.assertNotIn("## chat", text)


class NamesTest(unittest.TestCase):
    def test_tensors_have_ggufs_names(self):
        for name, expected in (("embeddings.word_embeddings.weight", "token_embd.weight"),
                               ("bert.embeddings.LayerNorm.bias", "token_embd_norm.bias"),
                               ("encoder.layer.11.attention.output.LayerNorm.weight", "blk.11.attn_output_norm.weight"),
                               ("encoder.layer.0.output.dense.bias", "blk.0.ffn_down.bias"),
                               ("embeddings.position_ids", None), ("pooler.dense.weight", None)):
            self.assertEqual(encoder_file.gguf_name(name), expected, name)


class RunTest(bench_runner.BenchTest):
    def test_a_model_embeds(self):
        report = self.run_bench("embeddings", "--part", "chat", "--model", ARGS.model, "--words", "2,5", "--tokens", "40",
                                "--inputs", "8")
        for words in (2, 5):
            self.assertGreater(self.value("chat", "ropeway", "inputs_per_s", words), 0)
            self.assertGreater(self.value("chat", "ropeway", "tokens", words), words)
        self.assertIn("chat model: inputs/s over llama-server's, 5 words", report)

    def test_a_server_that_runs_is_not_measured(self):
        reply = bench("embeddings", "--base-url", "http://127.0.0.1:1")
        self.assertEqual((reply.returncode, reply.stdout), (1, ""))
        self.assertIn("embeddings starts servers of its own", reply.stderr)


if __name__ == "__main__":
    bench_runner.main()
