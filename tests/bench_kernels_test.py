#!/usr/bin/env python3
"""Runs `ropeway-bench kernels --quick`: all parts are measured, with the metrics that docs/benchmarks.md names, and
`bench/run.py kernels` makes tables of them; nonsense gets one sentence and exit code 1.

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
ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
TITLES = {"matmul": "Matrix products", "lm-head": "Logits by vocabulary", "attention": "Attention of one layer"}


def bench(*flags, before=(), **environment):
    model = () if "--model" in flags else ("--model", ARGS.model)
    return subprocess.run([*before, ARGS.ropeway, "bench", "kernels", *model, *flags],
                          capture_output=True, text=True, check=False, timeout=240,
                          env={**os.environ, **environment})


class Cell:
    """One case of the rows that a run printed."""

    def __init__(self, part, system, x):
        self.part, self.system = part, system
        self.of = dict(word.split("=", 1) for word in x.split("; ")) if x else {}
        self.values = {}


def cells(reply):
    found = {}
    for row in csv.DictReader(reply.stdout.splitlines()):
        key = row["part"], row["system"], row["x"]
        found.setdefault(key, Cell(*key)).values[row["metric"]] = row["value"]
    return list(found.values())


class BenchKernelsTest(unittest.TestCase):
    def test_a_quick_run_has_every_part(self):
        reply = bench("--quick", "--threads", "2")
        self.assertEqual((reply.returncode, reply.stderr), (0, ""))
        found = cells(reply)
        self.assertEqual({c.part for c in found}, {"about", "peak", *TITLES})
        page = PAGE.read_text(encoding="utf-8").split("prints one row for each metric")[1].split("\n## ")[0]
        named = {name for line in page.splitlines() if line.startswith("| `")
                 for name in re.findall(r"`(\w+)`", line.split("|")[1])}
        self.assertEqual({metric for c in found for metric in c.values} - {"left_out"}, named - {"left_out"})
        for c in found:
            if c.part == "about":
                continue
            self.assertGreaterEqual(int(c.values["repetitions"]), 3)
            self.assertTrue(0 < float(c.values["min_us"]) <= float(c.values["median_us"]) <= float(c.values["max_us"]))
        self.assertEqual({c.of["name"] for c in found if c.part == "lm-head"}, {"sampled", "greedy"})
        products = {tuple(c.of[name] for name in ("name", "k", "n", "count")) for c in found if c.part == "matmul"}
        self.assertEqual(products, {("q/k/v", "576", "576+192+192", "30"), ("o", "576", "576", "30"),
                                    ("gate/up", "576", "1536+1536", "30"), ("down", "1536", "576", "30"),
                                    ("output", "576", "49152", "1")})

    def test_the_report_has_a_table_for_each_part(self):
        with tempfile.TemporaryDirectory() as folder:
            bench_program = pathlib.Path(ARGS.ropeway).with_name("ropeway-bench")
            reply = subprocess.run([sys.executable, ROOT / "bench" / "run.py", "kernels", "--quick", "--threads", "2",
                                    "--model", ARGS.model, "--ropeway", ARGS.ropeway, "--ropeway-bench", bench_program,
                                    "--out", folder], capture_output=True, text=True, check=False, timeout=240)
            self.assertEqual(reply.returncode, 0, reply.stderr)
            self.assertRegex(reply.stdout, r"\n- CPU .+; kernels \w+; threads 2; barrier \d+ ns \(mostly \d+ to \d+\)\n")
            for title in ("The machine's limits", *TITLES.values()):
                self.assertIn("\n## " + title, reply.stdout)
            self.assertEqual((pathlib.Path(folder) / "kernels.md").read_text(encoding="utf-8"), reply.stdout)

    def test_only_what_is_asked_for_with_the_table_and_the_rows_that_are_named(self):
        for only in TITLES:
            with self.subTest(only=only):
                reply = bench("--quick", "--only", only, "--rows", "2", "--isa", "reference", "--threads", "1")
                self.assertEqual(reply.returncode, 0, reply.stderr)
                found = cells(reply)
                self.assertEqual({c.part for c in found}, {"about", "peak", only})
                self.assertEqual({c.system for c in found if c.part == only}, {"reference"})
                rows = {c.of.get("rows") for c in found if c.part in ("matmul", "lm-head")}
                self.assertEqual(rows, set() if only == "attention" else {"2"})
        reply = bench("--quick", "--only", "peaks", ROPEWAY_ISA="reference")
        self.assertEqual({c.part for c in cells(reply)}, {"about", "peak"})
        self.assertIn("about,reference,1,,cpu,", reply.stdout)

    def test_no_logits_for_many_rows_and_why(self):
        reply = bench("--quick", "--only", "lm-head", "--rows", "128", "--threads", "1")
        self.assertEqual((reply.returncode, reply.stderr), (0, ""))
        self.assertNotIn("lm-head", reply.stdout)
        self.assertIn('left_out,"products that make logits, which are computed for at most 64 rows together"\n',
                      reply.stdout)

    def test_nonsense_is_one_sentence(self):
        for flags, expected in ((("--only", "everything"), "--only"), (("--isa", "sse9"), "--isa"),
                                (("--rows", "1,x"), "--rows"), (("--rows", "4,2"), "--rows"),
                                (("--rows", "1,,2"), "--rows"), (("--rows", ""), "--rows"), (("--rows", "0"), "--rows"),
                                (("--types", "Q4_K,Q9"), "--types"),
                                (("--threads", "0"), "--threads"), (("--seconds", "0"), "--seconds"),
                                (("--model", "no-such-model"), "no-such-model"),
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
