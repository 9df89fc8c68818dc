#!/usr/bin/env python3
"""Runs the smallest cases of `ropeway bench sessions` and `ropeway bench prefixes` on the real engine: figures,
files and reports are whole; the counts are right where they do not depend on time; nonsense gets one sentence
and exit code 1; and what bench/kv_memory.py draws is drawn.

usage: bench_kv_memory_test.py --ropeway PROGRAM --model FILE.gguf
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import figures_file  # noqa: E402  pylint: disable=wrong-import-position
import kv_memory  # noqa: E402  pylint: disable=wrong-import-position

ARGS = argparse.Namespace()
PAGE = ROOT / "docs" / "benchmarks.md"


def bench(name, *flags):
    return subprocess.run([ARGS.ropeway, "bench", name, "--model", ARGS.model, *flags], capture_output=True,
                          text=True, check=False, timeout=280)


def trace_lines():
    """Four requests of which the second and the fourth begin as the first."""
    blocks = [[1, 2, 3], [1, 2, 4], [7], [1, 2, 3, 9]]
    return "".join(json.dumps({"timestamp": 1000 * i, "input_length": 512 * len(ids) - 100, "output_length": 12,
                               "hash_ids": ids}) + "\n" for i, ids in enumerate(blocks))


class KvMemoryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def rows(self, reply, name="figures.csv"):
        self.assertEqual(reply.returncode, 0, reply.stderr)
        return figures_file.read(self.folder / name)

    def test_chats_keep_what_was_said(self):
        csv_file = self.folder / "figures.csv"
        small = ["--part", "chats", "--users", "2", "--turns", "3", "--first-tokens", "40", "--input-tokens", "40", "--output-tokens", "8",
                 "--spread", "0", "--request-interval", "0", "--csv", str(csv_file)]
        reply = bench("sessions", *small)
        rows = self.rows(reply)
        for contestant in ("stateful", "stateless"):
            self.assertEqual(figures_file.single(rows, "chats", contestant, "turns"), 6)
            self.assertEqual(figures_file.single(rows, "chats", contestant, "failed"), 0)
            self.assertEqual([x for x, _ in figures_file.curve(rows, "chats", contestant, "ttft_p50_s")], [1, 2, 3])
        prompt = figures_file.single(rows, "chats", "stateless", "prompt_tokens")
        self.assertEqual(figures_file.single(rows, "chats", "stateless", "prefilled_tokens"), prompt)
        # The second and third prompts repeat one and two turns of more than 48 tokens: of the 6 x 48 tokens
        # and more that are said again, less a block each is computed again.
        kept = prompt - figures_file.single(rows, "chats", "stateful", "prefilled_tokens")
        self.assertGreater(kept, 2 * (2 * 32 + 32), prompt)
        self.assertIn("turns/s, stateful over stateless", reply.stdout)
        self.assertIn("| turn |", reply.stdout)
        # A second run goes on with the file, and a report needs no run.
        reply = bench("sessions", *small, "--append", "--mode", "stateful")
        self.assertEqual({r["round"] for r in self.rows(reply) if r["contestant"] == "stateful"}, {"1", "2"})
        report = bench("sessions", "--rounds", "0", "--csv", str(csv_file))
        self.assertEqual((report.returncode, report.stderr), (0, ""))
        self.assertIn("- chats, stateful, 2 rounds: `ropeway serve", report.stdout)
        if figures_file.pyplot.load():
            self.assertTrue(figures_file.draw("sessions", kv_memory.draw_sessions, figures_file.read(csv_file),
                                              self.folder / "s.png"))
            self.assertGreater((self.folder / "s.png").stat().st_size, 1000)

    def test_dialogues_pool_and_restart(self):
        dialogue = {"history": [{"user": "What is a gondola lift?", "bot": "A cabin on a rope."},
                                {"user": "Does it stop?", "bot": "Never."}]}
        file = self.folder / "dialogues.jsonl"
        file.write_text(json.dumps(dialogue) + "\n", encoding="utf-8")
        csv_file = self.folder / "figures.csv"
        reply = bench("sessions", "--dialogues", str(file), "--part", "chats", "--mode", "stateful", "--users", "1",
                      "--csv", str(csv_file))
        self.assertEqual(figures_file.single(self.rows(reply), "dialogues", "stateful", "turns"), 2)
        reply = bench("sessions", "--part", "pool", "--quick", "--users", "1", "--input-tokens", "16",
                      "--output-tokens", "8", "--history-tokens", "200", "--csv", str(csv_file))
        rows = self.rows(reply)
        for contestant in ("all in the pool", "a third in the pool, disk"):
            self.assertEqual(figures_file.single(rows, "pool", contestant, "turns"), 12)  # 3 users, 4 turns.
        reply = bench("sessions", "--part", "restart", "--restart-tokens", "320", "--restart-chats", "2", "--csv",
                      str(csv_file))
        rows = self.rows(reply)
        self.assertEqual(figures_file.single(rows, "restart", "next turn after a restart", "turns"), 2)
        # The beginning of the chat template may be known.
        self.assertLessEqual(figures_file.single(rows, "restart", "full prefill", "cached_tokens"), 2 * 32)
        # Found again on the disk: 320 tokens of each chat, less the last block or two.
        self.assertGreater(figures_file.single(rows, "restart", "next turn after a restart", "cached_tokens"), 2 * 280)
        self.assertIn("restart: TTFT of the next turn over a full prefill", reply.stdout)

    def test_a_shared_prompt_is_computed_once(self):
        csv_file = self.folder / "figures.csv"
        reply = bench("prefixes", "--users", "4", "--requests", "4", "--prompt-tokens", "200", "--tail-tokens", "10",
                      "--output-tokens", "4", "--csv", str(csv_file))
        rows = self.rows(reply)
        prompt = figures_file.single(rows, "shared prompt", "cache off", "prompt_tokens")
        self.assertGreater(prompt, 4 * 210)
        self.assertEqual(figures_file.single(rows, "shared prompt", "cache off", "prefilled_tokens"), prompt)
        self.assertLessEqual(figures_file.single(rows, "shared prompt", "cache on", "prefilled_tokens"),
                             figures_file.single(rows, "shared prompt", "cache on", "prompt_and_tails_tokens"))
        self.assertIn("prefilled tokens over one prompt and the tails", reply.stdout)

    def test_a_trace(self):
        trace = self.folder / "trace.jsonl"
        trace.write_text(trace_lines(), encoding="utf-8")
        csv_file = self.folder / "figures.csv"
        reply = bench("prefixes", "--part", "curves", "--trace", str(trace), "--pools", "100", "--csv", str(csv_file))
        rows = self.rows(reply)
        # Of 90, 90, 26 and 122 tokens 0, 64, 0 and 80 are known: the third block was 26 tokens long, one
        # block of 16 of which is whole.
        self.assertAlmostEqual(figures_file.single(rows, "curves", "no bounds", "hit_share"), (64 + 80) / 328, places=4)
        names = {r["contestant"] for r in rows if r["part"] == "curves"}
        self.assertEqual(names, {"no bounds", "cost", "LRU", "cost, tier", "LRU, tier"})
        reply = bench("prefixes", "--part", "slice", "--trace", str(trace), "--slice-start", "1", "--slice-seconds",
                      "3", "--slice-pool", "2", "--csv", str(csv_file))
        rows = self.rows(reply)
        for contestant in figures_file.contestants(rows, "slice", "requests"):
            self.assertEqual(figures_file.single(rows, "slice", contestant, "requests"), 3)
        self.assertIn(figures_file.single(rows, "slice", "cache off", "cached_share"), (None, 0))
        self.assertIn("slice, cache off: time to drain", reply.stdout)
        if figures_file.pyplot.load():
            self.assertTrue(figures_file.draw("prefixes", kv_memory.draw_prefixes, rows, self.folder / "p.png"))

    def test_nonsense_gets_one_sentence(self):
        cases = [("sessions", "--users", "0", "--users"), ("sessions", "--mode", "both", "--mode"),
                 ("sessions", "--dialogues", "/no/such/file", "/no/such/file"),
                 ("sessions", "--model", "no-such-model", "no-such-model"),
                 ("sessions", "--rounds", "0", "--rounds"),
                 ("prefixes", "--trace", "/no/such/file", "/no/such/file"),
                 ("prefixes", "--pools", "50,5", "--pools"), ("prefixes", "--part", "curves", "--part")]
        for name, flag, value, words in cases:
            command = [ARGS.ropeway, "bench", name, flag, value]
            reply = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual((reply.returncode, reply.stdout, reply.stderr.count("\n")), (1, "", 1), reply)
            self.assertIn(words, reply.stderr)

    def test_the_page_names_every_part(self):
        page = PAGE.read_text(encoding="utf-8")
        for word in ("bench sessions", "bench prefixes", "part,contestant,round,x,metric,value",
                     *kv_memory.DRAW):
            self.assertIn(word, page)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    _, rest = parser.parse_known_args(namespace=ARGS)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
