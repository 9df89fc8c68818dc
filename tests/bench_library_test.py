#!/usr/bin/env python3
"""What bench/ropeway_bench makes of metrics, without servers: files, medians, tables, service over time, and that
the checked-in reports are those of the checked-in metrics."""
import argparse
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

# pylint: disable=wrong-import-position
import fake_ropeway  # noqa: E402
from ropeway_bench import (BenchError, determinism, engine, fairness, http, knobs, load, long_prompt,  # noqa: E402
                           order_price, plot, prefixes, priorities, report, schedulers, serial_vs_batched, servers, service,
                           sessions, steps, suite, users)
from ropeway_bench.metrics import Metrics, Where, quantile, ratio  # noqa: E402

MODULES = {"schedulers": schedulers, "priorities": priorities, "fairness": fairness, "long-prompt": long_prompt,
           "sessions": sessions, "prefixes": prefixes, "determinism": determinism,
           "order-price": order_price, "http": http, "users": users, "engine": engine, "steps": steps,
           "serial-vs-batched": serial_vs_batched, "knobs": knobs}
FAKE = str(ROOT / "tests" / "fake_ropeway.py")


class FakeServer(servers.Server):
    """A server in this process."""

    def _start(self, command, patience):
        self.process = types.SimpleNamespace(pid=os.getpid(), poll=lambda: 0)

    def get(self, path, timeout=10):
        return fake_ropeway.metrics_page() if path == "/metrics" else "{}"


class FakeRunning:
    """A load in this process."""

    def __init__(self, _ropeway, _server, what):
        self.folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.records = pathlib.Path(self.folder.name) / "records"
        self.words = ["--records", self.records, *what.flags(pathlib.Path(self.folder.name))]
        self.begin, self.end = time.monotonic(), None

    def stop(self):
        self.end = time.monotonic()

    def wait(self):
        fake_ropeway.bench_serve(list(map(str, self.words)), self.begin, self.end)
        found = load.read_records(self.records)
        self.folder.cleanup()
        return found


def fake_output(*command):
    """What a program prints, by tests/fake_ropeway.py in this process."""
    words = [str(word) for word in command[1:]]
    if words[0].endswith("openvino_engine.py"):
        words[0] = "engine"
    with contextlib.redirect_stdout(io.StringIO()) as out:
        fake_ropeway.main(words)
    return out.getvalue()


def record(due, ttft, gaps=(), tokens=10, output=1):
    return load.Record(due=due, ttft=ttft, gaps=list(gaps), latency=ttft + sum(gaps), input_tokens=tokens,
                       output_tokens=output)


class MetricsTest(unittest.TestCase):
    def setUp(self):
        self.metrics = Metrics()
        for round_number, value in ((1, 3), (2, 1), (3, 8)):
            where = Where("part", "a", round_number)
            self.metrics.add(where, rate=value, nothing=None, command="run it")
            self.metrics.add(where.at(10), rate=value * 10)
        self.metrics.add(Where("part", "b, c").at("x \"y\""), rate=1 / 3)

    def test_medians_over_the_rounds(self):
        self.assertEqual(self.metrics.median("part", "a", "rate"), 3)
        self.assertEqual(self.metrics.median("part", "a", "rate", 10), 30)
        self.assertIsNone(self.metrics.median("part", "a", "nothing"))
        self.assertIsNone(self.metrics.median("part", "a", "command"))
        self.assertEqual(self.metrics.values("part", "a", "rate", "", 2), [1])
        self.assertEqual(self.metrics.text("part", "a", "command"), "run it")
        self.assertEqual((self.metrics.rounds("part", "a"), self.metrics.rounds("part", "z")), (3, 0))
        self.assertEqual(self.metrics.curve("part", "a", "rate"), [(10, 30)])

    def test_what_is_written_is_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "metrics.csv"
            self.metrics.write(path)
            self.assertEqual(Metrics.read(path).rows, self.metrics.rows)
            self.assertIn(b"part,\"b, c\",1,\"x \"\"y\"\"\",rate,0.333333\r\n", path.read_bytes())
            path.write_text("part,name\n", encoding="utf-8")
            with self.assertRaisesRegex(BenchError, "holds no metrics"):
                Metrics.read(path)
            with self.assertRaisesRegex(BenchError, "cannot be read"):
                Metrics.read(path / "none")

    def test_quantiles_interpolate(self):
        self.assertEqual(quantile([4, 1, 3, 2], 0.5), 2.5)
        self.assertAlmostEqual(quantile([0, 10], 0.9), 9)
        self.assertEqual(quantile([7], 0.99), 7)
        self.assertEqual((ratio(1, 0), ratio(None, 1), ratio(1, 2)), (None, None, 0.5))


class ReportTest(unittest.TestCase):
    def test_verdicts(self):
        verdicts = [report.Verdict("more", 2.0, 1.5, "4 / 2"), report.Verdict("less", 2.0, 1.5, at_most=True),
                    report.Verdict("none", None, 1)]
        verdicts.append(report.Verdict("some", 2.0, 1, missing="a peer"))
        self.assertEqual([v.met for v in verdicts], [True, False, None, None])
        self.assertEqual(report.verdict_table(verdicts), """\
| expected | target | measured     | of    | verdict         |
| -------- | ------ | ------------ | ----- | --------------- |
| more     | >= 1.5 | 2            | 4 / 2 | met             |
| less ↓   | <= 1.5 | 2            |       | missed          |
| none     | >= 1   | not measured |       |                 |
| some     | >= 1   | 2            |       | missing: a peer |
""")

    def test_what_is_better_when_lower_is_marked(self):
        for metric, lower in (("ttft_p99_s", True), ("ttft_max_s", True), ("itl_p50_s", True), ("wall_s", True),
                              ("preemptions", True), ("others_cpu_share", True), ("barrier_ns", True),
                              ("output_tok_per_s", False),
                              ("itl_samples", False), ("requests", False), ("slot_share", False), ("window_s", False)):
            self.assertEqual(report.Column("x", metric).heading, "x ↓" if lower else "x", metric)
        self.assertIn("- ↓ marks what is better when lower\n", report.head("x", Metrics()))

    def test_a_known_gain_of_batching_stands_beside_ours(self):
        for rate, words in ((445, "445.0 / 100.0 tok/s; known of a GPU: 8.5, missed"),
                            (850, "850.0 / 100.0 tok/s; known of a GPU: 8.5, met")):
            metrics = Metrics()
            metrics.add(Where("batch of 16", "continuous"), output_tok_per_s=rate)
            metrics.add(Where("batch of 16", "serial"), output_tok_per_s=100)
            self.assertIn(words, [v.of for v in schedulers.verdicts(metrics)])
        self.assertNotIn("known", schedulers.over(metrics, "batch of 16", 16, "static, padded", 1, 1).of)

    def test_serial_against_batched_says_improvement_maximum_efficiency_and_verdict(self):
        metrics = Metrics()
        for system, wall in (("serial", 1.6), ("batch of 2", 0.8), ("batch of 16", 0.2)):
            metrics.add(Where("simulated", system), wall_s=wall, requests=32)
        self.assertIn("""\
| batch size | serial s ↓ | batched s ↓ | improvement | theoretical maximum | efficiency | verdict |
| ---------- | ---------- | ----------- | ----------- | ------------------- | ---------- | ------- |
| 2          | 1.600      | 0.800       | 2.00        | 2.00                | 100 %      | met     |
| 16         | 1.600      | 0.200       | 8.00        | 16.00               | 50 %       | missed  |
""", serial_vs_batched.report_text(metrics, None))

    def test_columns_without_values_are_left_out_and_few_samples_marked(self):
        metrics = Metrics()
        metrics.add(Where("p", "a"), ttft_p99_s=0.5, requests=100)
        metrics.add(Where("p", "b"), ttft_p99_s=0.25, requests=200)
        columns = [report.Column("TTFT ms", "ttft_p99_s", 1000, 1, "requests"), report.Column("none", "none")]
        self.assertEqual(report.system_table(metrics, "p", columns), "| system | TTFT ms ↓ |\n| ------ | --------- |\n"
                         "| a      | 500.0 *   |\n| b      | 250.0     |\n")
        self.assertEqual(report.system_table(metrics, "other", columns), "")

    def test_the_checked_in_reports_are_those_of_the_metrics(self):
        for name, module in MODULES.items():
            path = ROOT / "bench" / "results" / f"{name}.csv"
            metrics = Metrics.read(path)
            args = argparse.Namespace(limit_factor=1.0)
            with self.subTest(name):
                text = report.head(module.TITLE, metrics) + module.report_text(metrics, args)
                self.assertEqual(text, path.with_suffix(".md").read_text(encoding="utf-8"))
                self.assertEqual(len(module.verdicts(metrics)) > 0, name not in ("steps", "knobs"))
                with tempfile.TemporaryDirectory() as folder, mock.patch.object(plot, "DPI", 30):
                    picture = pathlib.Path(folder) / "x.png"
                    if plot.draw(name, module.draw, metrics, picture):
                        self.assertGreater(picture.stat().st_size, 1000)

    def test_throughput_is_the_ratio_of_medians(self):
        metrics = Metrics()
        for i, (fair, fcfs) in enumerate(((10, 20), (30, 20), (40, 50)), 1):
            metrics.add(Where("measured", "priority+fair", i), tok_per_s=fair)
            metrics.add(Where("measured", "fcfs", i), tok_per_s=fcfs)
        verdict = fairness.throughput(metrics, "measured", 0.97)
        self.assertEqual((verdict.measured, verdict.met), (1.5, True))  # 30 / 20; the median pair's is 0.8.
        self.assertIn("3 pairs, from 0.5000 to 1.5000 (fewer than 7 pairs)", verdict.of)


class ServiceTest(unittest.TestCase):
    def test_work_counts_when_it_is_seen(self):
        trail = service.Trail([record(1, 2, [1, 1], tokens=10, output=3)], 1, 2)
        self.assertEqual([trail.between(0, t) for t in (2.9, 3, 4, 5)], [0, 12, 14, 16])
        self.assertTrue(trail.waited_through(1, 3))
        self.assertFalse(trail.waited_through(1, 3.5))
        self.assertEqual(service.Trail([record(0, 1)], 1, 1, offset=5).between(5, 6), 11)

    def test_a_steady_rate_leaves_out_the_first_tenth(self):
        records = [record(due, 0.5, tokens=0) for due in range(11)]
        self.assertAlmostEqual(service.steady_rate(records, 1, 1), 1.0)

    def test_the_gap_is_between_clients_that_both_wait(self):
        records = [record(0, 0.1, [1] * 20, tokens=0, output=21), record(0, 20, tokens=0), record(0, 20, tokens=0)]
        self.assertEqual(service.service_gap(records, [0, 1, 2], 5, 1, 1), (11, 0.0))
        records += [record(i, 1, tokens=0) for i in range(20)]  # Client 1 is served all the time and waits for one.
        windows, gap = service.service_gap(records, [0, 1, 2] + [1] * 20, 5, 1, 1)
        self.assertEqual((windows, gap), (11, 10.0))

    def test_fair_shares(self):
        self.assertEqual(service.fair_share([1, 2, 9], 9), 6)
        self.assertEqual(service.fair_share([1, 2, 3], 100), 3)
        self.assertEqual(service.fair_share([8, 8], 8), 4)


class LoadTest(unittest.TestCase):
    def test_kinds_are_dealt_in_fixed_parts(self):
        kinds = load.deal(load.random_of("test", 1), 100, [0.2, 0.15])
        self.assertEqual((kinds.count(0), kinds.count(1)), (57, 43))
        self.assertNotEqual(kinds, sorted(kinds))

    def test_arrivals_rise_and_have_their_rate(self):
        arriving = load.poisson(load.random_of("test", 1), load.same(1000, 1, 1), 10)
        times = [r.arrival for r in arriving]
        self.assertEqual((times[0], times), (0, sorted(times)))
        self.assertAlmostEqual(times[-1], 100, delta=15)

    def test_the_load_generators_flags_and_files(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            what = load.Load([load.Request(3, 4, 0.5, "high", 1)], keys=["k0", "k1"])
            words = what.flags(folder)
            self.assertNotIn("--users", words)
            self.assertEqual((folder / "trace.csv").read_text(encoding="utf-8"),
                             "arrival_s,client,priority,input_tokens,output_tokens\n0.5,1,high,3,4\n")
            self.assertEqual((folder / "keys").read_text(encoding="utf-8"), "k0\nk1\n")
            what = load.Load([load.Request(prompt="x", output_tokens=4)], users=2)
            self.assertIn("--users", what.flags(folder))
            line = (folder / "data.jsonl").read_text(encoding="utf-8")
            self.assertEqual(json.loads(line), {"prompt": "x", "max_tokens": 4})

    def test_records_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "records"
            path.write_text('{"run": 1, "begin": 2.5, "wall_s": 4, "cpu_s": 1, "interrupted": false}\n'
                            '{"run": 1, "seq": 0, "due": 1, "latency": 2, "error_kind": "HTTP 429", "status": 429}\n',
                            encoding="utf-8")
            run = load.read_records(path)
        self.assertEqual((run.begin, run.wall_s, run.records[0].end, run.records[0].ok), (2.5, 4, 3, False))
        with self.assertRaisesRegex(BenchError, "a request failed: HTTP 429"):
            load.check(run)


class SuiteTest(unittest.TestCase):
    def test_converters(self):
        self.assertEqual(suite.counts(16)("1,2,16"), [1, 2, 16])
        self.assertEqual((suite.duration("500ms"), suite.duration("2s"), suite.milliseconds(0.05)), (0.5, 2, "50ms"))
        for convert, text in ((suite.counts(16), "2,1"), (suite.counts(16), "17"), (suite.counts(16), ""),
                              (suite.duration, "fast"), (suite.whole(1, 2), "3"), (suite.real(0, 1), "nan")):
            with self.assertRaises(argparse.ArgumentTypeError):
                convert(text)

    def test_the_prompt_file_has_thirty_different_prompts(self):
        lines = [json.loads(line) for line in schedulers.PROMPTS.read_text(encoding="utf-8").splitlines()]
        self.assertEqual((len(lines), len({line["prompt"] for line in lines})), (30, 30))
        self.assertTrue(all(1 <= line["max_tokens"] <= 256 for line in lines))


class OrchestrationTest(unittest.TestCase):
    """Each benchmark, in small, with tests/fake_ropeway.py in place of all programs: in this process, and once as
    processes."""

    SMALL = {"schedulers": ["--sizes", "1,16", "--users", "6,8", "--requests-per-slot", "1", "--mixed-runs", "2"],
             "priorities": ["--capacity-requests", "40", "--unloaded-requests", "3", "--open-requests", "9",
                            "--overload-requests", "9", "--urgent-requests", "7", "--alone-seconds", "0.5"],
             "fairness": ["--trace", str(ROOT / "tests" / "data" / "tenants.csv"), "--pairs", "2"],
             "long-prompt": ["--alone-seconds", "0.5"], "sessions": ["--users", "2", "--turns", "2"],
             "serial-vs-batched": ["--requests", "8"], "knobs": ["--requests", "12"],
             "http": ["--requests", "8", "--llama-server", FAKE, "--q4-0-model", __file__],
             "users": ["--requests", "8", "--users", "1,4", "--llama-server", FAKE],
             "engine": ["--openvino", "--llama-batched-bench", FAKE], "steps": []}

    def run_bench(self, name, module, folder, *more):
        words = ["--ropeway", FAKE, "--ropeway-bench", FAKE, "--model", __file__, "--out", folder, *self.SMALL[name], *more]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.ExitStack() as patches:
            for target, attribute, value in ((sessions, "QUIET_SECONDS", 0.1), (priorities, "LEAD_SECONDS", 0.3),
                                             (long_prompt, "LEAD_SECONDS", 0.3), (plot, "DPI", 30)):
                patches.enter_context(mock.patch.object(target, attribute, value))
            if name in MODULES:  # Drawn from what is checked in.
                patches.enter_context(mock.patch.object(plot, "pyplot", lambda: None))
            code = suite.run(name, module, words)
        self.assertEqual(code, 0, err.getvalue())
        return out.getvalue()

    def in_process(self):
        patches = contextlib.ExitStack()
        for target, attribute, value in ((servers, "Server", FakeServer), (load, "Running", FakeRunning),
                                         (suite, "output_of", fake_output), (engine, "output_of", fake_output),
                                         (servers, "version_of", lambda *_: "a fake"),
                                         (engine, "version_of", lambda *_: "a fake")):
            patches.enter_context(mock.patch.object(target, attribute, value))
        return patches

    def test_every_benchmark_measures_and_reports(self):
        modules = MODULES
        for name in self.SMALL:
            module = modules[name]
            with self.subTest(name), tempfile.TemporaryDirectory() as folder, self.in_process():
                text = self.run_bench(name, module, folder)
                metrics = Metrics.read(pathlib.Path(folder) / f"{name}.csv")
                self.assertEqual((pathlib.Path(folder) / f"{name}.md").read_text(encoding="utf-8"), text)
                missing = [v.title for v in module.verdicts(metrics) if v.measured is None]
                # No two clients wait long enough here for fairness' service gap.
                self.assertEqual([title for title in missing if "service gap" not in title], [])
                # Comparisons of strategies are of pure ones.
                batching = [c for c in metrics.unique("value", metric="command")
                            if any(words in c for words in ("--scheduler s", "--scheduler dynamic", "--preset"))]
                self.assertEqual([c for c in batching if "--urgent-joins off" not in c], [])
                self.assertEqual(bool(batching), name in ("schedulers", "serial-vs-batched", "knobs"))
                for part in metrics.parts():
                    for system in metrics.systems(part):
                        self.assertIsNotNone(metrics.median(part, system, "others_cpu_share"), (part, system))
                        self.assertNotIn(" /", metrics.text(part, system, "command"))

    def test_strategies_are_compared_without_urgent_joins(self):
        for name in (schedulers.SERIAL, schedulers.PADDED, schedulers.UNPADDED, schedulers.DYNAMIC):
            words = list(map(str, schedulers.flags_of(name, 4, 0.05)))
            self.assertEqual(words[words.index("--urgent-joins") + 1], "off", name)
        self.assertNotIn("--urgent-joins", schedulers.flags_of(schedulers.CONTINUOUS, 4, 0.05))

    def test_rounds_and_systems_of_processes(self):
        with tempfile.TemporaryDirectory() as folder:
            more = ("--part", "sizes", "--sizes", "1", "--system", "serial", "--rounds", "2")
            self.run_bench("schedulers", schedulers, folder, *more)
            self.run_bench("schedulers", schedulers, folder, *more, "--append")
            metrics = Metrics.read(pathlib.Path(folder) / "schedulers.csv")
        self.assertEqual((metrics.systems("batch of 1"), metrics.rounds("batch of 1", "serial")), (["serial"], 4))


if __name__ == "__main__":
    unittest.main()
