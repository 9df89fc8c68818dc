#!/usr/bin/env python3
"""Runs the smallest cases of `ropeway bench schedulers`, `bench priorities`, `bench fairness` and
`bench long-prompt` on the real engine: figures, files and reports are whole; the counts are right where they do
not depend on time; nonsense gets one sentence and exit code 1; and what bench/scheduling.py draws is drawn.

usage: bench_scheduling_test.py --ropeway PROGRAM --model FILE.gguf
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import figures_file  # noqa: E402  pylint: disable=wrong-import-position
import scheduling  # noqa: E402  pylint: disable=wrong-import-position

ARGS = argparse.Namespace()
PAGE = ROOT / "docs" / "benchmarks.md"
TRACE = ROOT / "tests" / "data" / "tenants.csv"
STRATEGIES = ["serial", "static, padded", "static, unpadded", "dynamic", "continuous"]


class SchedulingTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.csv = self.folder / "figures.csv"

    def bench(self, name, *flags):
        """Runs the command; its report and its figures."""
        command = [ARGS.ropeway, "bench", name, "--model", ARGS.model, "--csv", str(self.csv), *flags]
        reply = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
        self.assertEqual(reply.returncode, 0, reply.stderr)
        rows = figures_file.read(self.csv)
        if figures_file.pyplot.load():
            picture = self.folder / "picture.png"
            self.assertTrue(figures_file.draw(name, scheduling.DRAW[name], rows, picture))
            self.assertGreater(picture.stat().st_size, 1000)
        # What was written is what is reported again without a run.
        again = subprocess.run([ARGS.ropeway, "bench", name, "--rounds", "0", "--csv", str(self.csv)],
                               capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual((again.returncode, again.stdout), (0, reply.stdout), again.stderr)
        return reply.stdout, rows

    def value(self, rows, *where):
        found = figures_file.single(rows, *where)
        self.assertIsNotNone(found, where)
        return found

    def test_schedulers(self):
        report, rows = self.bench("schedulers", "--sizes", "2", "--users", "3", "--requests-per-place", "10",
                                  "--output-tokens", "4", "--most-output", "12", "--ceiling-tokens", "8",
                                  "--mixed-runs", "2", "--mixed-requests", "7", "--mixed-timeout", "20ms")
        for name in STRATEGIES:
            self.assertEqual(self.value(rows, "mixed", name, "requests"), 14)
            self.assertEqual(self.value(rows, "batch of 2", name, "requests"), 20)
            self.assertEqual(self.value(rows, "batch of 2", name, "failed"), 0)
        tokens = {self.value(rows, "batch of 2", name, "output_tokens") for name in STRATEGIES}
        self.assertEqual(len(tokens), 1)  # All were asked for the same.
        for name in ("serial", "continuous"):
            self.assertEqual(self.value(rows, "3 users", name, "requests"), 20)
        self.assertEqual([x for x, _ in figures_file.curve(rows, "ceiling", "continuous", "decode_tok_per_s")],
                         [1, 3, 16])
        self.assertIn("## batch of 2", report)
        self.assertIn("--scheduler static --static-padding on", report)

    def test_priorities(self):
        report, rows = self.bench("priorities", "--capacity-requests", "8", "--unloaded-requests", "3",
                                  "--open-requests", "9", "--urgent-requests", "7", "--alone-seconds", "0.5",
                                  "--output-tokens", "8", "--places", "2", "--texts", "3")
        self.assertGreater(self.value(rows, "capacity", "ropeway", "capacity_per_s"), 0)
        self.assertEqual(self.value(rows, "unloaded", "ropeway", "requests"), 3)
        for cls in scheduling.CLASSES:
            self.assertEqual(self.value(rows, "open loop", "ropeway", "requests", cls), 3)
        self.assertEqual(self.value(rows, "low and urgent", "ropeway", "requests", "high"), 4)
        self.assertEqual(self.value(rows, "low and urgent", "ropeway", "requests", "medium"), 3)
        self.assertGreaterEqual(self.value(rows, "low and urgent", "ropeway", "requests", "low"), 4)
        self.assertEqual(self.value(rows, "low and urgent", "ropeway", "texts_compared"), 3)
        self.assertEqual(self.value(rows, "low and urgent", "ropeway", "texts_different"), 0)
        self.assertEqual(self.value(rows, "low and urgent", "ropeway", "recomputed_tokens"), 0)
        self.assertIn("low and urgent: high TTFT p99, ms", report)
        self.assertIn("3 samples *", report)

    def test_fairness(self):
        report, rows = self.bench("fairness", "--trace", str(TRACE), "--pairs", "2", "--length-divisor", "1",
                                  "--places", "2", "--capacity-part", "1")
        for part in ("measured", "simulated"):
            for name in ("priority+fair", "fcfs"):
                self.assertEqual(self.value(rows, part, name, "requests"), 24)
                self.assertEqual(self.value(rows, part, name, "requests", "client 0"), 12)
                light = self.value(rows, part, name, "requests", "light")
                self.assertEqual(light + self.value(rows, part, name, "requests", "heavy"), 24)
        self.assertEqual({r["round"] for r in rows if r["part"] == "measured"}, {"1", "2"})
        self.assertIn("2 pairs, from", report)
        self.assertIn("--policy fcfs", report)
        self.assertNotIn("client-0", report + self.csv.read_text(encoding="utf-8"))

    def test_long_prompt(self):
        report, rows = self.bench("long-prompt", "--streams", "2", "--stream-output", "24", "--prompt-tokens", "700",
                                  "--prompts", "2", "--alone-seconds", "0.5")
        self.assertEqual(self.value(rows, "long prompts alone", "ropeway", "requests"), 2)
        self.assertEqual(self.value(rows, "both", "ropeway", "requests", "long prompts"), 2)
        self.assertAlmostEqual(self.value(rows, "both", "ropeway", "prompt_tokens_each", "long prompts"), 700,
                               delta=10)
        self.assertGreater(self.value(rows, "both", "ropeway", "itl_samples", "streams"), 2)
        self.assertIn("ropeway: streams' ITL p99 beside long prompts over alone", report)

    def test_nonsense_gets_one_sentence(self):
        cases = [("schedulers", "--sizes", "4,2", "--sizes"), ("schedulers", "--users", "0", "--users"),
                 ("schedulers", "--most-prompt", "10", "--most-prompt"), ("schedulers", "--part", "both", "--part"),
                 ("priorities", "--places", "0", "--places"), ("priorities", "--rounds", "0", "--rounds"),
                 ("fairness", "--trace", "/no/such/file", "/no/such/file"), ("fairness", "--pairs", "0", "--pairs"),
                 ("fairness", "--base-url", "http://127.0.0.1:1", "--base-url"),
                 ("fairness", "--part", "measured", "--trace"),
                 ("long-prompt", "--streams", "0", "--streams")]
        for name, flag, value, words in cases:
            reply = subprocess.run([ARGS.ropeway, "bench", name, flag, value], capture_output=True, text=True,
                                   check=False, timeout=60)
            self.assertEqual((reply.returncode, reply.stdout, reply.stderr.count("\n")), (1, "", 1), reply)
            self.assertIn(words, reply.stderr)

    def test_the_page_names_every_command(self):
        page = PAGE.read_text(encoding="utf-8")
        for name in scheduling.DRAW:
            self.assertIn(f"bench {name}", page)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    _, rest = parser.parse_known_args(namespace=ARGS)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
