#!/usr/bin/env python3
"""The benchmark of models of the sizes that people have: what files with random weights hold, by the package gguf; the
targets and tables of made-up metrics; and a run of it on tiny shapes with the real engine.

usage: bench_models_test.py --ropeway PROGRAM --model TINY.gguf
"""
import collections
import math
import os
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

import gguf
import numpy as np

import bench_runner
from bench_runner import ARGS, bench
from ropeway_bench import BenchError, model_shapes, models, servers, suite
from ropeway_bench.metrics import ABOUT, Metrics, Where
from ropeway_bench.model_shapes import SHAPES, Shape

LLAMA_VOCABULARY = pathlib.Path(os.environ["ROPEWAY_VOCAB_DIR"]) / "ggml-vocab-llama-bpe.gguf"
TINY = {"tiny": Shape("nothing", "llama", "tiny", 4, 512, 256, 512, 4, 2, 64, 10000.0, 1e-5, tied=True,
                      rope_scaling=8.0),
        "tiny-moe": Shape("nothing", "qwen3moe", "tiny", 4, 512, 256, 512, 4, 2, 64, 10000.0, 1e-6, head_norms=True,
                          experts=4, experts_used=2, expert_ffn=256)}
CASES = (models.Case("tiny", tokens=(24, 6), requests=4, targets=models.targets(3, 1.1)),
         models.Case("tiny", "Q8_0", tokens=(24, 6), requests=4),
         models.Case("tiny-moe", tokens=(24, 6), requests=4, targets=models.targets(many=1.2, prefill=2)))


class InFolder(unittest.TestCase):
    """A folder with a vocabulary for the tiny shapes: that of the tiny model."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "ggml-vocab-tiny.gguf").symlink_to(pathlib.Path(ARGS.model).resolve())

    def write(self, name, mixture):
        path = self.folder / f"{name}-{mixture}.gguf"
        model_shapes.write(path, TINY[name], mixture, self.folder / "ggml-vocab-tiny.gguf")
        return path


class ShapesTest(unittest.TestCase):
    def test_types_are_those_that_the_quantizer_gives(self):
        # What llama.cpp prints when it loads the models' Q4_K_M files: F32, Q4_K and Q6_K.
        for name, tokens, expected in (("llama-3.2-1b", 128256, (34, 96, 17)), ("qwen3-4b", 151936, (145, 216, 37)),
                                       ("llama-3.1-8b", 128256, (66, 193, 33))):
            types = collections.Counter(t.type for t in model_shapes.tensors_of(SHAPES[name], "Q4_K_M", tokens))
            self.assertEqual((types["F32"], types["Q4_K"], types["Q6_K"]), expected, name)
            types = collections.Counter(t.type for t in model_shapes.tensors_of(SHAPES[name], "Q8_0", tokens))
            self.assertEqual(set(types), {"F32", "Q8_0"})

    def test_a_file_is_as_large_as_the_real_one(self):
        # Llama-3.2-1B-Instruct-Q4_K_M.gguf as it is published; its chat template and texts are a few KB.
        tensors = model_shapes.tensors_of(SHAPES["llama-3.2-1b"], "Q4_K_M", 128256)
        bytes_of_all = sum(t.bytes for t in tensors) + LLAMA_VOCABULARY.stat().st_size
        self.assertLess(abs(bytes_of_all - 807_694_464), 50_000)

    def test_every_shape_has_whole_blocks_and_a_vocabulary(self):
        for name, shape in SHAPES.items():
            with self.subTest(name=name):
                self.assertTrue(LLAMA_VOCABULARY.with_name(f"ggml-vocab-{shape.vocabulary}.gguf").exists())
                for mixture in model_shapes.MIXTURES:
                    self.assertGreater(len(model_shapes.tensors_of(shape, mixture, 1000)), 9 * shape.layers)
        odd = Shape("odd", "llama", "tiny", 1, 512, 288, 512, 4, 2, 64, 10000.0, 1e-5)
        with self.assertRaisesRegex(BenchError, "token_embd.weight: rows of 288 are no whole blocks of Q4_K"):
            model_shapes.tensors_of(odd, "Q4_K_M", 1000)

    def test_the_divisors_of_llama_3(self):
        divisors = model_shapes.rope_divisors(SHAPES["llama-3.2-1b"])
        self.assertEqual((len(divisors), divisors[0], divisors[-1]), (32, 1, 32))
        self.assertEqual(divisors, sorted(divisors))


class FilesTest(InFolder):
    def test_the_package_gguf_reads_what_was_meant(self):
        for name, shape in TINY.items():
            for mixture in model_shapes.MIXTURES:
                with self.subTest(name=name, mixture=mixture):
                    reader = gguf.GGUFReader(self.write(name, mixture))
                    field = lambda key: reader.fields[key].contents()  # pylint: disable=cell-var-from-loop
                    self.assertEqual(field("general.architecture"), shape.architecture)
                    self.assertEqual(field(f"{shape.architecture}.embedding_length"), 256)
                    self.assertEqual(field("general.file_type"), model_shapes.FILE_TYPES[mixture])
                    tokens = len(field("tokenizer.ggml.tokens"))
                    expected = {t.name: t for t in model_shapes.tensors_of(shape, mixture, tokens)}
                    self.assertEqual({t.name for t in reader.tensors}, set(expected))
                    for tensor in reader.tensors:
                        wanted = expected[tensor.name]
                        self.assertEqual(tuple(tensor.shape), wanted.shape)
                        self.assertEqual(tensor.tensor_type.name, wanted.type)
                        self.check_weights(tensor, wanted)

    def check_weights(self, tensor, wanted):
        weights = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)
        self.assertTrue(np.isfinite(weights).all(), wanted.name)
        if len(wanted.shape) == 1:
            self.assertGreaterEqual(weights.min(), 1, wanted.name)
            return
        # As large as lets a product keep the size of its inputs.
        self.assertAlmostEqual(weights.std() * math.sqrt(wanted.shape[0]), 1, delta=0.1, msg=wanted.name)
        self.assertAlmostEqual(weights.mean() * math.sqrt(wanted.shape[0]), 0, delta=0.1, msg=wanted.name)

    def test_the_same_seed_gives_the_same_bytes(self):
        first = self.write("tiny", "Q4_K_M").read_bytes()
        self.assertEqual(self.write("tiny", "Q4_K_M").read_bytes(), first)

    def test_it_is_written_in_small_pieces(self):
        tensor = model_shapes.Tensor("blk.0.ffn_up.weight", (256, 5000), "Q4_K")
        with mock.patch.object(model_shapes, "PIECE_BYTES", 1000):
            pieces = list(model_shapes.pieces_of(tensor, TINY["tiny"], np.random.default_rng(1)))
        self.assertEqual(sum(map(len, pieces)), tensor.bytes)
        self.assertLessEqual(max(map(len, pieces)), 1000)

    def test_no_space_and_an_interruption_leave_no_file(self):
        with mock.patch.object(model_shapes, "SPARE_BYTES", 1 << 60), self.assertRaisesRegex(BenchError, "stays free"):
            self.write("tiny", "Q8_0")
        with mock.patch.object(model_shapes, "pieces_of", side_effect=KeyboardInterrupt), \
                self.assertRaises(KeyboardInterrupt):
            self.write("tiny", "Q8_0")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["ggml-vocab-tiny.gguf"])

    def test_ropeway_runs_them(self):
        for name in TINY:
            for mixture in model_shapes.MIXTURES:
                reply = subprocess.run([ARGS.ropeway, "inspect", self.write(name, mixture)], capture_output=True,
                                       text=True, check=False, timeout=60)
                self.assertEqual(reply.returncode, 0, reply.stdout + reply.stderr)
                self.assertIn("Ropeway can run this model", reply.stdout)


def made_up(isa="avx512vnni"):
    """Metrics of all systems with two of the tiny models, OpenVINO GenAI taking one of them."""
    metrics = Metrics()
    metrics.add(Where(ABOUT), date="2026-11-23", machine="a CPU", isa=isa)
    for case in CASES[::2]:
        for system, factor in (("ropeway", 4), ("llama-server", 1), ("llama-server -kvu", 1.25)):
            for users in (1, 16):
                metrics.add(Where(case.name, system, 1, str(users)), output_tok_per_s=10 * factor * math.sqrt(users),
                            prefill_tok_per_s=100 * factor if users == 1 else None, barrier_ns=60, peak_rss_mb=500,
                            experts_per_layer=3.5 if system == "ropeway" else None, load=f"{users} in flight")
            metrics.add(Where(case.name, system), others_cpu_share=0.01, command="run")
    metrics.add(Where(CASES[2].name, models.OPENVINO), refused="Unsupported architecture")
    return metrics


class ReportTest(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(models, "CASES", CASES)
        patch.start()
        self.addCleanup(patch.stop)

    def test_targets_are_held_against_the_better_of_its_settings(self):
        found = {v.title: (v.measured, v.target, v.met) for v in models.verdicts(made_up())}
        self.assertEqual(found, {
            "tiny Q4_K_M, 16 users: output tokens/s over llama-server's, same file": (3.2, 3, True),
            "tiny Q4_K_M, 1 user: output tokens/s over llama-server's, same file": (4, 1.1, True),
            "tiny-moe Q4_K_M, 16 users: output tokens/s over llama-server's, same file": (3.2, 1.2, True),
            "tiny-moe Q4_K_M, 1 user: prefill tokens/s over llama-server's, same file": (4, 2, True)})
        halved = [v.target for v in models.verdicts(made_up("avx2"))]
        self.assertEqual(halved, [1.5, 1.1, 0.6, 1])

    def test_the_report(self):
        text = models.report_text(made_up(), None)
        self.assertIn("\n## tiny Q4_K_M\n", text)
        self.assertNotIn("## tiny Q8_0", text)
        self.assertIn("- OpenVINO GenAI does not take the file: Unsupported architecture\n", text)
        self.assertIn("- load: 16 in flight; the seed is another one each round\n", text)
        self.assertRegex(text, r"\| ropeway +\| 16 +\| 160.0 .*\| 3.5 ")
        self.assertIn("models", models.embeds(made_up()))
        self.assertRegex(models.embeds(made_up())["models-ran"], r"rounds of each: tiny Q4_K_M: ropeway \(\d")

    def test_what_openvino_prints_is_read(self):
        text = "a warning\npart,system,round,x,metric,value\n" + "".join(
            f"engine,OpenVINO GenAI,1,{users},{metric},{value}\n" for users in (1, 16)
            for metric, value in (("input_tokens", 512 * users), ("output_tokens", 128 * users), ("all_tokens_s", 8),
                                  ("peak_rss_mb", 900), *([("one_token_s", 2)] if users == 1 else [])))
        found = models.parse_openvino(text)
        self.assertEqual(found[16], {"prompt_tokens": 8192, "output_tokens": 2048, "output_tok_per_s": 256,
                                     "peak_rss_mb": 900})
        self.assertEqual((found[1]["prefill_tok_per_s"], found[1]["ttft_p50_s"]), (256, 2))

    def test_a_file_that_openvino_does_not_take_is_no_failure(self):
        run = suite.Suite.__new__(suite.Suite)
        run.args = mock.Mock(users=[1, 16], timeout=5)
        run.metrics, run.threads = Metrics(), 1
        reply = subprocess.CompletedProcess([], 1, "", "Traceback\nRuntimeError: Unsupported architecture\n")
        with mock.patch.object(models.peers, "barrier_ns", lambda _: 60), \
                mock.patch.object(models.subprocess, "run", return_value=reply):
            models.measure_openvino(run, CASES[0], "x.gguf", Where(CASES[0].name, models.OPENVINO))
        self.assertEqual(run.metrics.text(CASES[0].name, models.OPENVINO, "refused"),
                         "RuntimeError: Unsupported architecture")

    def test_experts_are_counted_by_layer_and_step(self):
        pages = [servers.Page(f"ropeway_experts_read_total {read}\nropeway_step_time_seconds_count {steps}\n")
                 for read, steps in ((100, 10), (500, 60))]
        with mock.patch.dict(SHAPES, TINY):
            self.assertEqual(models.experts_per_layer(CASES[2], *pages), 2)
            self.assertIsNone(models.experts_per_layer(CASES[2], servers.Page(), servers.Page()))

    def test_nonsense_gets_one_sentence(self):
        for flags, named in ((["--only", "gpt-5"], "--only"), (["--users", "2,1"], "--users"),
                             (["--base-url", "http://127.0.0.1:1"], "--base-url")):
            reply = bench("models", "--model", ARGS.model, *flags)
            self.assertEqual((reply.returncode, reply.stdout, reply.stderr.count("\n")), (1, "", 1), reply.stderr)
            self.assertIn(named, reply.stderr)


class RunTest(bench_runner.BenchTest):
    def setUp(self):
        super().setUp()
        (self.folder / "ggml-vocab-tiny.gguf").symlink_to(pathlib.Path(ARGS.model).resolve())
        for patch in (mock.patch.object(models, "CASES", CASES), mock.patch.dict(SHAPES, TINY)):
            patch.start()
            self.addCleanup(patch.stop)

    def test_models_of_random_weights_are_made_and_measured(self):
        report = self.run_bench("models", "--only", "tiny Q4_K_M", "--only", "tiny-moe Q4_K_M", "--users", "1,2",
                                "--shapes", self.folder / "shapes", "--vocabularies", self.folder)
        self.assertEqual(sorted(path.name for path in (self.folder / "shapes").iterdir()),
                         ["tiny-Q4_K_M.gguf", "tiny-moe-Q4_K_M.gguf"])
        for part in ("tiny Q4_K_M", "tiny-moe Q4_K_M"):
            for users, requests in ((1, models.ALONE_REQUESTS), (2, 4)):
                # Words: the tiny vocabulary lacks the ids of random prompts, whose lengths are exact.
                self.assertGreater(self.value(part, "ropeway", "prompt_tokens", users), requests)
                self.assertEqual(self.value(part, "ropeway", "output_tokens", users), 6 * requests)
                for metric in ("output_tok_per_s", "ttft_p50_s", "peak_rss_mb"):
                    self.assertGreater(self.value(part, "ropeway", metric, users), 0, metric)
            self.assertGreater(self.value(part, "ropeway", "prefill_tok_per_s", 1), 0)
        # Each row goes through two of four; all four are the most.
        read = self.value("tiny-moe Q4_K_M", "ropeway", "experts_per_layer", 2)
        self.assertTrue(2 <= read <= 4, read)
        self.assertIn("## tiny-moe Q4_K_M", report)


if __name__ == "__main__":
    bench_runner.main()
