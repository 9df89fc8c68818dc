#!/usr/bin/env python3
"""What bench/compare.py makes of its metrics, without a peer and without measuring: fitted lines,
targets, parsed output, tables, and that the checked-in pages say what the checked-in CSV files do."""
import csv
import json
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

# pylint: disable=wrong-import-position
import compare  # noqa: E402
import compare_report  # noqa: E402
import engine_part  # noqa: E402
import machine  # noqa: E402
import step_part  # noqa: E402
import targets  # noqa: E402

ABOUT = {"date": "2026-11-21", "machine": "a CPU", "isa": "avx512vnni", "model": "m.gguf",
         "version": "1", "command": "run", "load": "load it", "barrier_ns": 60,
         "others_cpu_share": 0.01}


def http_row(name, users, rate, ttft, round_number=1):
    values = {c[1]: 1.0 for c in compare_report.COLUMNS["http"]}
    return ABOUT | values | {"system": name, "round": round_number, "users": users,
                              "output_tok_s": rate, "ttft_p50_s": ttft, "barrier_ns": 60}


def engine_row(name, sequences, prefill, decode):
    return ABOUT | {"system": name, "round": 1, "sequences": sequences} | engine_part.row_of(
        sequences, 128 * sequences, 64 * sequences, 128 * sequences / prefill,
        63 * sequences / decode, 63 * sequences)


class FitTest(unittest.TestCase):
    def test_a_line_is_found(self):
        intercept, slope, r2, furthest = step_part.fit([(1, 5), (2, 7), (4, 11)])
        self.assertAlmostEqual(intercept, 3)
        self.assertAlmostEqual(slope, 2)
        self.assertAlmostEqual(r2, 1)
        self.assertAlmostEqual(furthest, 0)

    def test_what_is_no_line_is_seen(self):
        # By hand: the line is y = 2/3, and the middle point lies twice as far from it as the others.
        intercept, slope, r2, furthest = step_part.fit([(0, 0), (1, 2), (2, 0)])
        self.assertAlmostEqual(intercept, 2 / 3)
        self.assertAlmostEqual(slope, 0)
        self.assertAlmostEqual(r2, 0)
        self.assertAlmostEqual(furthest, 2)

    def test_steps_are_read(self):
        x = "shape=context8; sequences=8; tokens=1; context=127"
        rows = step_part.parse("part,system,round,x,metric,value\nabout,avx2,1,,barrier_ns,62\n"
                               f"steps,avx2,1,{x},median_ms,5.5\nsteps,avx2,1,{x},best_ms,5.25\n")
        self.assertEqual(rows, [{"barrier_ns": 62, "curve": "context8", "sequences": 8, "length": 128,
                                 "step_ms": 5.5, "best_ms": 5.25}])


class EngineTest(unittest.TestCase):
    def test_decode_is_what_all_tokens_take_beyond_the_first(self):
        text = ("warning: 1\npart,system,round,x,metric,value\nengine,ropeway,1,8,input_tokens,1024\n"
                "engine,ropeway,1,8,output_tokens,512\nengine,ropeway,1,8,one_token_s,0.5\n"
                "engine,ropeway,1,8,all_tokens_s,1.5\n")
        [row] = engine_part.parse_own(text)
        self.assertEqual(row["prefill_tok_s"], 2048)
        self.assertEqual(row["decode_tok_s"], 504)  # 512 less one of each of 8.

    def test_of_llamas_runs_the_median_counts(self):
        run = {"pp": 128, "tg": 64, "pl": 1, "t_pp": 0.5}
        text = "".join(json.dumps(run | {"t_tg": t}) + "\n" for t in (9, 0.5, 1))
        [row] = engine_part.parse_llama("a log line\n" + text)
        self.assertEqual(row["decode_tok_s"], 64)
        self.assertEqual(row["prefill_tok_s"], 256)


class TargetTest(unittest.TestCase):
    rows = [http_row("ropeway", 16, 900, 0.5), http_row("ropeway", 16, 700, 0.3, 2),
            http_row("ropeway", 16, 800, 0.4, 3), http_row("llama-server", 16, 100, 4),
            http_row("llama-server -kvu", 16, 160, 2), http_row("llama-server Q4_0", 16, 400, 3),
            http_row("llama-server Q4_0 -kvu", 16, 300, 3)]

    def test_medians_against_the_best_peer(self):
        rate, ttft, q4_0 = targets.verdicts("http", self.rows)
        self.assertEqual((rate.ours, rate.peers, rate.ratio, rate.met), (800, 160, 5, False))
        self.assertEqual((ttft.ours, ttft.peers, ttft.ratio, ttft.met), (0.4, 2, 0.2, False))
        self.assertEqual((q4_0.ratio, q4_0.wanted, q4_0.met), (2, 2.7, False))

    def test_no_verdict_while_a_peer_is_missing(self):
        rows = [row for row in self.rows if not row["system"].endswith("-kvu")]
        rate, _, q4_0 = targets.verdicts("http", rows)
        self.assertEqual((rate.peers, rate.ratio, rate.met), (100, 8, None))
        self.assertEqual((rate.missing, q4_0.missing), (("llama-server -kvu",), ("llama-server Q4_0 -kvu",)))
        text = "\n".join(compare_report.target_table("http", rows))
        self.assertIn("| 8.00 | ≥ 6.00 | peer missing: llama-server -kvu |", text)
        ran = compare_report.what_ran("http", rows)
        self.assertIn("ropeway (3), llama-server (1), llama-server Q4_0 (1). Not run: llama-server -kvu, "
                      "llama-server Q4_0 -kvu. Of 3 targets 3 without a verdict.", ran)
        self.assertIn("(1). Of 3 targets 3 missed.", compare_report.what_ran("http", self.rows))
        alone = targets.verdicts("http", self.rows[:3])
        self.assertEqual([(v.peers, v.ratio, v.met) for v in alone], [(None, None, None)] * 3)
        self.assertIn("| 800 |  |  | ≥ 6.00 | peer missing: llama-server, llama-server -kvu |",
                      "\n".join(compare_report.target_table("http", self.rows[:3])))

    def test_avx2_halves_what_many_rows_aim_at(self):
        rows = [row | {"isa": "avx2"} for row in self.rows]
        rate, ttft, q4_0 = targets.verdicts("http", rows)
        self.assertEqual((rate.wanted, rate.met), (3, True))
        self.assertAlmostEqual(ttft.wanted, 1 / 3)
        self.assertTrue(ttft.met)
        self.assertEqual((q4_0.wanted, q4_0.met), (1.35, True))
        one = targets.TARGETS["http"][3]
        self.assertEqual((one.wanted("avx2"), one.wanted("avx512vnni")), (2.3, 2.3))

    def test_every_engine_target_finds_its_rows(self):
        rows = [engine_row(name, n, 1000 * f, 100 * f)
                for name, f in (("ropeway", 2), ("OpenVINO GenAI", 1), ("llama.cpp", 0.5))
                for n in engine_part.SEQUENCES]
        found = targets.verdicts("engine", rows)
        self.assertEqual([round(v.ratio, 6) for v in found], [2, 2, 2, 2, 4])
        self.assertEqual([v.met for v in found], [True, False, False, False, True])

    def test_the_instruction_set_is_the_one_that_ropeway_chooses(self):
        cpuinfo = "model name : x\nflags\t\t: sse avx2 avx512_vnni\n"
        self.assertEqual(machine.instruction_set(cpuinfo, {}), "avx512vnni")
        self.assertEqual(machine.instruction_set(cpuinfo, {"ROPEWAY_ISA": "avx2"}), "avx2")
        self.assertEqual(machine.instruction_set("flags: sse avx2\n", {}), "avx2")


class RunTest(unittest.TestCase):
    def test_a_piece_that_stays_disturbed_is_missing_and_the_run_goes_on(self):
        shares = iter([0.5, 0.5, 0.5, 0.01, 0.5, 0.01, 0.01])  # b: thrice in round 1, once in round 2.
        names = []

        def piece(_args, _words, _part, name, number):
            names.append((name, number))
            return [http_row(name, 16, 1, 1, number) | {"others_cpu_share": next(shares)}]

        with tempfile.TemporaryDirectory() as folder:
            args = types.SimpleNamespace(out=pathlib.Path(folder), append=False, systems=[], rounds=2,
                                         max_others=0.03)
            part = types.SimpleNamespace(systems=lambda _: {"b": None, "a": None}, line=lambda _: "")
            with mock.patch.object(compare, "run_piece", piece), mock.patch("builtins.print"), \
                    mock.patch.dict(compare.PARTS, {"http": part}):
                self.assertEqual(compare.run_part(args, [], "http"), ["http round 1 b"])
            rows = compare_report.read(args.out / "http.csv")
        self.assertEqual(names, [("b", 1)] * 3 + [("a", 1)] + [("b", 2)] * 2 + [("a", 2)])
        self.assertEqual([(r["system"], r["round"]) for r in rows], [("a", 1), ("b", 2), ("a", 2)])

    def test_nonsense_is_rejected(self):
        for flags, expected in ((["--rounds", "0"], "--rounds: expected a whole number from 1"),
                                (["--rounds", "x"], "--rounds: expected a whole number from 1"),
                                (["--max-others", "1.5"], "--max-others: expected a share from 0 to 1, not"),
                                (["--max-others", "-1"], "--max-others: expected a share from 0 to 1, not"),
                                (["--max-others", "nan"], "--max-others: expected a share from 0 to 1, not")):
            with self.subTest(flags=flags), mock.patch("sys.stderr") as error, \
                    mock.patch.object(sys, "argv", ["compare.py", *flags]), self.assertRaises(SystemExit):
                compare.main()
            self.assertIn(expected, "".join(call.args[0] for call in error.write.mock_calls))


class ReportTest(unittest.TestCase):
    def test_a_missing_metric_is_an_empty_cell(self):
        rows = [row | {"service_share_at_1000_tok_s": ""} for row in TargetTest.rows]
        text = compare_report.table("http", rows)
        self.assertIn("| ropeway | 16 | 800.0 | 0.400 |", text)
        self.assertIn("| 5.00 | ≥ 6.00 | no |", text)
        self.assertIn("|  |", text)

    def test_what_is_written_is_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.csv"
            rows = TargetTest.rows + [engine_row("llama.cpp", 8, 10, 20)]
            compare_report.write(path, rows)
            with open(path, encoding="utf-8") as file:
                self.assertIn("system", next(csv.reader(file)))
            again = compare_report.read(path)
            self.assertEqual([{k: v for k, v in r.items() if v != ""} for r in again], rows)

    def test_only_what_lies_between_the_marks_changes(self):
        page = "a\n<!-- bench:x -->\nold\n<!-- /bench:x -->\nb\n"
        new = compare_report.embed(page, "x", ["new", "lines"])
        self.assertEqual(new, page.replace("old", "new\nlines"))
        self.assertEqual(compare_report.embed(page, "y", ["new"]), page)

    def test_the_checked_in_pages_are_those_of_the_csv_files(self):
        for part in compare_report.TITLES:
            path = ROOT / "bench" / "results" / f"{part}.csv"
            rows = compare_report.read(path)
            with self.subTest(part):
                text = path.with_suffix(".md").read_text(encoding="utf-8")
                self.assertEqual(text, compare_report.table(part, rows))
                for page in ("README.md", "docs/performance.md"):
                    text = (ROOT / page).read_text(encoding="utf-8")
                    self.assertEqual(text, compare_report.embedded(text, part, rows), page)


if __name__ == "__main__":
    unittest.main()
