#!/usr/bin/env python3
"""The benchmarks that measure Ropeway beside its peers (http, engine, steps), without a peer and without measuring: fitted
lines, targets, parsed output, what is measured anew, tables, and that the pages show the checked-in metrics."""
import argparse
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

# pylint: disable=wrong-import-position
from ropeway_bench import engine, http, peers, pictures, report, servers, steps, suite  # noqa: E402
from ropeway_bench.metrics import ABOUT, Metrics, Where  # noqa: E402

MODULES = {"http": http, "engine": engine, "steps": steps}


def about(isa="avx512vnni"):
    metrics = Metrics()
    metrics.add(Where(ABOUT), date="2026-11-21", machine="a CPU", isa=isa)
    return metrics


def add_http(metrics, system, rate, ttft, number=1, users=16, barrier=60):
    """A piece with every metric of the report."""
    at = Where("http", system, number, str(users))
    metrics.add(at, **{c.metric: 1.0 for c in http.COLUMNS if c.metric not in (http.RATE, "ttft_p50_s", "barrier_ns")},
                **{http.RATE: rate, "ttft_p50_s": ttft, "barrier_ns": barrier}, load="load it")
    metrics.add(Where("http", system, number), others_cpu_share=0.01, command="run")


def http_metrics(isa="avx512vnni", without=()):
    metrics = about(isa)
    for system, rate, ttft, number in (("ropeway", 900, 0.5, 1), ("ropeway", 700, 0.3, 2), ("ropeway", 800, 0.4, 3),
                                       ("llama-server", 100, 4, 1), ("llama-server -kvu", 160, 2, 1),
                                       ("llama-server Q4_0", 400, 3, 1), ("llama-server Q4_0 -kvu", 300, 3, 1)):
        if system not in without:
            add_http(metrics, system, rate, ttft, number)
    return metrics


class FitTest(unittest.TestCase):
    def test_a_line_is_found(self):
        intercept, slope, r2, furthest = steps.fit([(1, 5), (2, 7), (4, 11)])
        self.assertAlmostEqual(intercept, 3)
        self.assertAlmostEqual(slope, 2)
        self.assertAlmostEqual(r2, 1)
        self.assertAlmostEqual(furthest, 0)

    def test_what_is_no_line_is_seen(self):
        # By hand: the line is y = 2/3, and the middle point lies twice as far from it as the others.
        intercept, slope, r2, furthest = steps.fit([(0, 0), (1, 2), (2, 0)])
        self.assertAlmostEqual(intercept, 2 / 3)
        self.assertAlmostEqual(slope, 0)
        self.assertAlmostEqual(r2, 0)
        self.assertAlmostEqual(furthest, 2)

    def test_steps_are_read(self):
        metrics = Metrics()
        text = "part,system,round,x,metric,value\nabout,avx2,1,,barrier_ns,62\n"
        for shape, sequences, context in (("context8", 8, 127), ("context8", 8, 8191), ("sequences", 4, 255)):
            x = f"shape={shape}; sequences={sequences}; tokens=1; context={context}"
            text += f"steps,avx2,1,{x},median_ms,5.5\nsteps,avx2,1,{x},best_ms,5.25\n"
        steps.add_steps(metrics, Where("steps", "ropeway"), text)
        self.assertEqual(metrics.median("steps", "ropeway", "barrier_ns"), 62)
        self.assertEqual(metrics.curve("steps", "ropeway", "context8_ms"), [(128, 5.5), (8192, 5.5)])
        self.assertEqual(metrics.curve("steps", "ropeway", "sequences_best_ms"), [(4, 5.25)])

    def test_tables_of_lines_and_points(self):
        metrics = about()
        for number in (1, 2):
            where = Where("steps", "ropeway", number)
            metrics.add(where, barrier_ns=60, others_cpu_share=0.01)
            for x, ms in ((1, 3), (2, 5), (4, 9)):
                metrics.add(where.at(x), sequences_ms=ms + number - 1.5)
            for x in (1000, 2000):
                metrics.add(where.at(x), context8_ms=x / 100)
        text = steps.report_text(metrics, None)
        self.assertIn("| context 256 | 1.00 ms + 2.000 ms per sequence ", text)
        self.assertIn("| 8 sequences | 0.00 ms + 10.000 ms per 1,000 tokens of context of each | 1.0000 | 0 % ", text)
        self.assertRegex(text, r"\| context 256 +\| 4 +\| 256 +\| 9.00 +\| 9.00 +\| 444 +\|")
        self.assertRegex(text, r"\| 8 sequences +\| 8 +\| 2000 +\| 20.00 +\| 20.00 +\| 400 +\|")


class EngineTest(unittest.TestCase):
    def test_decode_is_what_all_tokens_take_beyond_the_first(self):
        text = ("warning: 1\npart,system,round,x,metric,value\nengine,ropeway,1,8,input_tokens,1024\n"
                "engine,ropeway,1,8,output_tokens,512\nengine,ropeway,1,8,one_token_s,0.5\n"
                "engine,ropeway,1,8,all_tokens_s,1.5\n")
        [(sequences, values)] = engine.parse_own(text).items()
        self.assertEqual((sequences, values["input_tokens"], values["output_tokens"]), (8, 1024, 512))
        self.assertEqual(values[engine.PREFILL], 2048)
        self.assertEqual(values[engine.DECODE], 504)  # 512 less one of each of 8.

    def test_of_llamas_runs_the_median_counts(self):
        run = {"pp": 128, "tg": 64, "pl": 1, "t_pp": 0.5}
        text = "".join(json.dumps(run | {"t_tg": t}) + "\n" for t in (9, 0.5, 1))
        [values] = engine.parse_llama("a log line\n" + text).values()
        self.assertEqual(values[engine.DECODE], 64)
        self.assertEqual(values[engine.PREFILL], 256)


class TargetTest(unittest.TestCase):
    def test_medians_against_the_best_peer(self):
        rate, ttft, q4_0 = http.verdicts(http_metrics())
        self.assertEqual((rate.measured, rate.of, rate.met), (5, "800 / 160 tok/s", False))
        self.assertEqual((ttft.measured, ttft.of, ttft.met), (0.2, "0.400 / 2.000 s", False))
        self.assertEqual((q4_0.measured, q4_0.target, q4_0.met), (2, 2.7, False))

    def test_no_verdict_while_a_peer_is_missing(self):
        metrics = http_metrics(without=("llama-server -kvu", "llama-server Q4_0 -kvu"))
        rate, _, q4_0 = http.verdicts(metrics)
        self.assertEqual((rate.measured, rate.met), (8, None))
        self.assertEqual((rate.missing, q4_0.missing), ("llama-server -kvu", "llama-server Q4_0 -kvu"))
        self.assertRegex(report.verdict_table([rate]), r"\| >= 6 +\| 8 +\| 800 / 100 tok/s +\| missing: llama-server -kvu")
        self.assertIn("ropeway (3), llama-server (1), llama-server Q4_0 (1). Not run: llama-server -kvu, "
                      "llama-server Q4_0 -kvu. Of 3 targets 3 without a verdict.\n", http.COMPARISON.what_ran(metrics))
        self.assertIn("(1). Of 3 targets 3 missed.", http.COMPARISON.what_ran(http_metrics()))
        alone = http.verdicts(http_metrics(without=(*http.SAME, *http.Q4_0)))
        self.assertEqual([(v.measured, v.met) for v in alone], [(None, None)] * 3)
        self.assertRegex(report.verdict_table(alone[:1]),
                         r"\| not measured \| 800 tok/s \| missing: llama-server, llama-server -kvu \|")

    def test_avx2_halves_what_many_rows_aim_at(self):
        rate, ttft, q4_0 = http.verdicts(http_metrics("avx2"))
        self.assertEqual((rate.target, rate.met), (3, True))
        self.assertAlmostEqual(ttft.target, 1 / 3)
        self.assertTrue(ttft.met)
        self.assertEqual((q4_0.target, q4_0.met), (1.35, True))
        one = http.TARGETS[3]
        self.assertEqual((one.wanted("avx2"), one.wanted("avx512vnni")), (2.3, 2.3))

    def test_every_engine_target_finds_its_rows(self):
        metrics = about()
        for system, factor in (("ropeway", 2), ("OpenVINO GenAI", 1), ("llama.cpp", 0.5)):
            for n in engine.SEQUENCES:
                values = engine.values_of(128 * n, 64 * n, 128 * n / (1000 * factor), 63 * n / (100 * factor), 63 * n)
                metrics.add(Where("engine", system, 1, str(n)), **values)
        found = engine.verdicts(metrics)
        self.assertEqual([round(v.measured, 6) for v in found], [2, 2, 2, 2, 4])
        self.assertEqual([v.met for v in found], [True, False, False, False, True])

    def test_the_instruction_set_is_the_one_that_ropeway_chooses(self):
        cpuinfo = "model name : x\nflags\t\t: sse avx2 avx512_vnni\n"
        self.assertEqual(servers.instruction_set(cpuinfo, {}), "avx512vnni")
        self.assertEqual(servers.instruction_set(cpuinfo, {"ROPEWAY_ISA": "avx2"}), "avx2")
        self.assertEqual(servers.instruction_set("flags: sse avx2\n", {}), "avx2")


class RunTest(unittest.TestCase):
    """Rounds of two systems a and b, whose pieces tell how long a barrier took."""

    def run_rounds(self, barriers, shares=(), rounds=1):
        """The suite after so many rounds; `barriers` and `shares` of the other processes: of each piece, as they come."""
        barriers, shares, self.pieces = iter(barriers), iter(shares), []
        bench = object.__new__(suite.Suite)
        bench.args = argparse.Namespace(system=[], max_others=0.03, max_barrier_ratio=3.0)
        bench.path, bench.metrics, bench.known, bench.missing = None, Metrics(), set(), []

        def piece(where):
            self.pieces.append((where.system, where.round))
            bench.metrics.add(where.at(16), barrier_ns=next(barriers))

        with mock.patch.object(servers, "Others") as others, contextlib.redirect_stderr(io.StringIO()):
            others.return_value.share.side_effect = lambda: next(shares, 0.01)
            for _ in range(rounds):
                peers.measure(bench, "http", {"b": piece, "a": piece})
        return bench

    def kept(self, bench):
        return [(system, number) for number in bench.metrics.unique("round", part="http")
                for system in bench.metrics.unique("system", part="http", round=number)]

    def not_kept(self, bench):
        return bench.metrics.unique("value", part=ABOUT, metric="not_kept")

    def test_a_piece_that_stays_disturbed_is_missing_and_the_run_goes_on(self):
        # b: thrice in round 1, once in round 2.
        bench = self.run_rounds([60] * 7, [0.5, 0.5, 0.5, 0.01, 0.5, 0.01, 0.01], rounds=2)
        self.assertEqual(self.pieces, [("b", 1)] * 3 + [("a", 1)] + [("b", 2)] * 2 + [("a", 2)])
        self.assertEqual(self.kept(bench), [("a", 1), ("b", 2), ("a", 2)])
        self.assertEqual(bench.missing, ["http, b, round 1"])
        self.assertEqual(self.not_kept(bench), ["http, b, round 1: other processes took 50.0 % of the CPUs",
                                                "http, b, round 2: other processes took 50.0 % of the CPUs"])
        self.assertEqual(bench.metrics.values("http", "b", "others_cpu_share"), [0.01])
        self.assertIn("- measured anew: http, b, round 1: other", report.head("Title", bench.metrics))

    def test_a_piece_at_another_placement_is_measured_anew(self):
        bench = self.run_rounds([70, 9000, 200])  # b is the first: then a, and a again.
        self.assertEqual(self.pieces, [("b", 1), ("a", 1), ("a", 1)])
        self.assertEqual((self.kept(bench), bench.missing), ([("b", 1), ("a", 1)], []))
        self.assertEqual(bench.metrics.values("http", "a", "barrier_ns", 16), [200])
        self.assertEqual(self.not_kept(bench),
                         ["http, a, round 1: a barrier took 9000 ns, more than 3 times the round's shortest"])

    def test_the_shortest_barrier_of_the_round_counts_whenever_it_comes(self):
        bench = self.run_rounds([9000, 70, 65])
        self.assertEqual(self.pieces, [("b", 1), ("a", 1), ("b", 1)])
        self.assertEqual((self.kept(bench), bench.missing), ([("a", 1), ("b", 1)], []))

    def test_a_piece_that_stays_at_another_placement_is_missing(self):
        bench = self.run_rounds([70, 9000, 9000, 1001, 2100, 700], rounds=2)
        self.assertEqual(self.pieces, [("b", 1)] + [("a", 1)] * 3 + [("b", 2), ("a", 2)])
        self.assertEqual((self.kept(bench), bench.missing),
                         ([("b", 1), ("b", 2), ("a", 2)], ["http, a, round 1"]))  # 2100 is 3 times 700, not more.

    def test_a_short_barrier_is_at_the_same_placement_whatever_the_ratio(self):
        bench = self.run_rounds([70, 1000])
        self.assertEqual((self.pieces, self.kept(bench)), ([("b", 1), ("a", 1)], [("b", 1), ("a", 1)]))

    def test_metrics_of_unequal_placements_are_named(self):
        metrics = http_metrics()
        self.assertNotIn("another placement", http.report_text(metrics, None))
        add_http(metrics, "llama-server Q4_0", 1, 1, number=2, barrier=9891)
        text = http.report_text(metrics, None)
        self.assertEqual(text.count("another placement"), 1)
        self.assertIn("- measured at another placement: http, llama-server Q4_0, round 2: a barrier took 9891 ns, more "
                      "than 3 times the round's shortest\n", text)

    def test_nonsense_is_rejected(self):
        for name, flags in (("http", ["--rounds", "0"]), ("http", ["--rounds", "x"]), ("http", ["--max-others", "1.5"]),
                            ("engine", ["--max-others", "-1"]), ("steps", ["--max-others", "nan"]),
                            ("http", ["--max-barrier-ratio", "0.5"]), ("http", ["--users", "16,1"]),
                            ("http", ["--base-url", "http://127.0.0.1:1", "--model", __file__]),
                            ("steps", ["--part", "all"]), ("engine", ["--report"])):
            error = io.StringIO()
            with self.subTest(flags=flags), contextlib.redirect_stderr(error):
                try:
                    code = suite.run(name, MODULES[name], ["--ropeway", sys.executable, *flags])
                except SystemExit as end:
                    code = end.code
                self.assertEqual((code, error.getvalue().count("\n")), (1, 1), error.getvalue())
                self.assertIn(flags[0], error.getvalue())


class ReportTest(unittest.TestCase):
    def test_a_missing_metric_is_an_empty_cell(self):
        metrics = http_metrics()
        share = "service_share_at_1000_tok_s"
        metrics = Metrics(row for row in metrics.rows if (row["system"], row["metric"]) != ("llama-server", share))
        text = http.report_text(metrics, None)
        self.assertRegex(text, r"\| ropeway +\| 16 +\| 800.0 +\| 0.400 ")
        self.assertRegex(text, r"\| >= 6 +\| 5 +\| 800 / 160 tok/s +\| missed")
        self.assertRegex(text, r"\| llama-server +\| 16 .*\|  +\|")
        self.assertIn("- load: `load it`", text)

    def test_only_what_lies_between_the_marks_changes(self):
        page = "a\n<!-- bench:x -->\nold\n<!-- /bench:x -->\nb\n"
        self.assertEqual(report.embedded(page, {"x": "new\nlines\n"}), page.replace("old", "new\nlines"))
        self.assertEqual(report.embedded(page, {"y": "new\n"}), page)

    def test_the_pages_tables_are_renewed(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            for page in report.PAGES:
                (root / page).write_text("a\n<!-- bench:http -->\nold\n<!-- /bench:http -->\nb\n", encoding="utf-8")
            http_metrics().write(root / "http.csv")
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), \
                    mock.patch("ropeway_bench.plot.draw"):
                code = suite.run("http", http, ["--report", "--out", folder, "--embed", folder])
            self.assertEqual(code, 0)
            for page in report.PAGES:
                self.assertEqual((root / page).read_text(encoding="utf-8"),
                                 f"a\n<!-- bench:http -->\n{http.embeds(http_metrics())['http']}<!-- /bench:http -->\nb\n")

    def test_the_pages_show_the_checked_in_metrics(self):
        for name, module in MODULES.items():
            tables = module.embeds(Metrics.read(ROOT / "bench" / "results" / f"{name}.csv"))
            for page in report.PAGES:
                with self.subTest(name=name, page=page):
                    text = (ROOT / page).read_text(encoding="utf-8")
                    self.assertEqual(text, report.embedded(text, tables))
                    self.assertIn("<!-- bench:http -->", text)
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        for path, picture in pictures.drawn(ROOT):
            with self.subTest(path.name):
                self.assertEqual(path.read_text(encoding="utf-8"), picture)
                self.assertIn(f"(docs/pictures/{path.name})", readme)


if __name__ == "__main__":
    unittest.main()
