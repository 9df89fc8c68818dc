#!/usr/bin/env python3
"""Runs `ropeway bench kernels --quick`: all sections are printed and in the CSV, whose columns are those that
docs/benchmarks.md names; and nonsense gets one sentence and exit code 1.

usage: bench_kernels_test.py --ropeway PROGRAM --model FILE.gguf
"""
import argparse
import csv
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ARGS = argparse.Namespace()
PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
TITLES = {"matmul": "Matrix products", "lm-head": "Logits by vocabulary", "attention": "Attention of one layer"}


def bench(*flags, before=(), **environment):
    return subprocess.run([*before, ARGS.ropeway, "bench", "kernels", "--model", ARGS.model, *flags],
                          capture_output=True, text=True, check=False, timeout=240,
                          env={**os.environ, **environment})


class BenchKernelsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.csv = pathlib.Path(folder.name) / "kernels.csv"

    def lines(self):
        with open(self.csv, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_a_quick_run_has_every_section(self):
        reply = bench("--quick", "--threads", "2", "--csv", str(self.csv))
        self.assertEqual((reply.returncode, reply.stderr), (0, ""))
        self.assertRegex(reply.stdout, r"\ACPU .+; kernels \w+; threads 2; barrier \d+ ns \(mostly \d+ to \d+\)\n")
        self.assertIn("\nThe machine's limits", reply.stdout)
        for title in TITLES.values():
            self.assertIn("\n" + title, reply.stdout)
        lines = self.lines()
        page = PAGE.read_text(encoding="utf-8").split("`--csv` writes one line")[1].split("\n## ")[0]
        named = [name for line in page.splitlines() if line.startswith("| `")
                 for name in re.findall(r"`(\w+)`", line.split("|")[1])]
        self.assertEqual(list(lines[0]), named)
        self.assertEqual({line["section"] for line in lines}, {"peak", "weighted", *TITLES})
        for line in lines:
            if line["section"] == "weighted":
                continue
            self.assertGreaterEqual(int(line["repetitions"]), 3, line)
            self.assertTrue(0 < float(line["min_us"]) <= float(line["median_us"]) <= float(line["max_us"]), line)
            self.assertGreater(float(line["gops"] or line["gb_per_s"]), 0, line)
        self.assertEqual({line["name"] for line in lines if line["section"] == "lm-head"}, {"sampled", "greedy"})
        products = {(line["name"], line["k"], line["n"], line["count"])
                    for line in lines if line["section"] == "matmul"}
        self.assertEqual(products, {("q/k/v", "576", "576+192+192", "30"), ("o", "576", "576", "30"),
                                    ("gate/up", "576", "1536+1536", "30"), ("down", "1536", "576", "30"),
                                    ("output", "576", "49152", "1")})

    def test_only_what_is_asked_for_with_the_table_and_the_rows_that_are_named(self):
        for only, title in TITLES.items():
            with self.subTest(only=only):
                reply = bench("--quick", "--only", only, "--rows", "2", "--isa", "reference", "--threads", "1",
                              "--csv", str(self.csv))
                self.assertEqual(reply.returncode, 0, reply.stderr)
                self.assertIn("kernels reference; threads 1", reply.stdout)
                for name, other in TITLES.items():
                    self.assertEqual("\n" + other in reply.stdout, name == only)
                rows = {line["rows"] for line in self.lines() if line["section"] in ("matmul", "lm-head")}
                self.assertEqual(rows, set() if only == "attention" else {"2"})
        reply = bench("--quick", "--only", "peaks", ROPEWAY_ISA="reference")
        self.assertIn("kernels reference", reply.stdout)
        self.assertFalse(any("\n" + title in reply.stdout for title in TITLES.values()))

    def test_no_logits_for_many_rows_and_why(self):
        reply = bench("--quick", "--only", "lm-head", "--rows", "128", "--threads", "1")
        self.assertEqual((reply.returncode, reply.stderr), (0, ""))
        self.assertNotIn("Logits by vocabulary", reply.stdout)
        self.assertIn("left out: products that make logits, which are computed for at most 64 rows together\n",
                      reply.stdout)

    def test_nonsense_is_one_sentence(self):
        for flags, expected in ((("--only", "everything"), "--only"), (("--isa", "sse9"), "--isa"),
                                (("--rows", "1,x"), "--rows"), (("--rows", "4,2"), "--rows"),
                                (("--rows", "1,,2"), "--rows"), (("--rows", ""), "--rows"), (("--rows", "0"), "--rows"),
                                (("--threads", "0"), "--threads"), (("--seconds", "0"), "--seconds"),
                                (("--model", "no-such-model"), "no-such-model"),
                                (("--csv", "no/such/folder/x.csv"), "no/such/folder/x.csv"),
                                (("--jsn", "x"), "--jsn")):
            with self.subTest(flags=flags):
                reply = bench(*flags)
                self.assertEqual((reply.returncode, reply.stdout), (1, ""))
                self.assertIn(expected, reply.stderr)
                self.assertEqual(reply.stderr.count("\n"), 1, reply.stderr)
        # No address space for so many stacks.
        with_limit = ["bash", "-c", 'ulimit -v 2000000; exec "$@"', "bash"]
        reply = bench("--quick", "--threads", "1024", before=with_limit)
        self.assertEqual((reply.returncode, reply.stdout), (1, ""))
        self.assertRegex(reply.stderr, r"\A.*cannot measure the kernels: .+\n\Z")
        reply = bench(ROPEWAY_ISA="sse9")
        self.assertEqual((reply.returncode, reply.stdout), (1, ""))
        self.assertIn("ROPEWAY_ISA", reply.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.parse_args(namespace=ARGS)
    unittest.main(argv=sys.argv[:1])
