"""What the tests that run benchmarks on the real engine share."""
import argparse
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

# pylint: disable=wrong-import-position
from ropeway_bench import (conversations, determinism, embeddings, engine, fairness, first_answers, gateway, http, knobs, long_prompt,  # noqa: E402
                           models, plot, prefixes, priorities, schedulers, serial_vs_batched, servers, sessions, steps, suite)
from ropeway_bench.metrics import Metrics  # noqa: E402

ARGS = argparse.Namespace()
MODULES = {"schedulers": schedulers, "priorities": priorities, "fairness": fairness, "long-prompt": long_prompt,
           "sessions": sessions, "serial-vs-batched": serial_vs_batched, "knobs": knobs, "http": http, "engine": engine,
           "steps": steps, "prefixes": prefixes, "determinism": determinism, "models": models,
           "first-answers": first_answers, "embeddings": embeddings, "gateway": gateway, "conversations": conversations}


def front(name, *flags):
    """`ropeway bench NAME` as a process."""
    return subprocess.run([ARGS.ropeway, "bench", name, *map(str, flags)], capture_output=True, text=True,
                          check=False, timeout=60, env=os.environ | {"ROPEWAY_PYTHON": sys.executable})


def bench(name, *flags):
    """The same in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = suite.run(name, MODULES[name], list(map(str, flags)))
        except SystemExit as end:
            code = end.code
    return subprocess.CompletedProcess(name, code, out.getvalue(), err.getvalue())


class Lent:
    """A shared server, which goes on when its user is done with it."""

    def __init__(self, server):
        self.server = server

    def __getattr__(self, name):
        return getattr(self.server, name)

    def __enter__(self):
        return self.server

    def __exit__(self, *_):
        pass


class SharedServers:
    """Stands for servers.Server: one server for each command line, which goes on until the end of all tests. Those with
    a disk tier or keys are started anew."""

    def __init__(self):
        self.start, self.running = servers.Server, {}

    def __call__(self, command=None, port=0, **fields):
        words = [str(word) for word in command or ()]
        if not words or fields.get("key") or "--kv-disk-path" in words:
            return self.start(command, port, **fields)
        at = words.index("--port")
        key = tuple(words[:at] + words[at + 2:])
        if key not in self.running:
            self.running[key] = self.start(command, port, **fields)
        return Lent(self.running[key])

    def stop(self):
        for server in self.running.values():
            with server:
                pass


class BenchTest(unittest.TestCase):
    """Runs benchmarks in this process; with SHARED, servers with the same flags are started once for all tests of a
    class."""

    SHARED = True

    @classmethod
    def setUpClass(cls):
        shared = SharedServers()
        cls.addClassCleanup(shared.stop)
        server = shared if cls.SHARED else servers.Server
        for patch in (mock.patch.object(servers, "Server", server), mock.patch.object(priorities, "LEAD_SECONDS", 1.0),
                      mock.patch.object(long_prompt, "LEAD_SECONDS", 1.0), mock.patch.object(plot, "DPI", 30),
                      mock.patch.object(sessions, "QUIET_SECONDS", 1.0)):
            patch.start()
            cls.addClassCleanup(patch.stop)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.metrics = Metrics()

    def run_bench(self, name, *flags):
        """Runs it; its report. self.metrics has its metrics."""
        # One thread: beside other tests several would wait for each other.
        reply = bench(name, "--model", ARGS.model, "--threads", 1, "--out", self.folder, *flags)
        self.assertEqual(reply.returncode, 0, reply.stderr)
        self.metrics = Metrics.read(self.folder / f"{name}.csv")
        self.assertEqual((self.folder / f"{name}.md").read_text(encoding="utf-8"), reply.stdout)
        if plot.pyplot():
            self.assertGreater((self.folder / f"{name}.png").stat().st_size, 1000)
        # What was written is what is reported again without a run.
        with mock.patch.object(plot, "pyplot", lambda: None):
            again = bench(name, "--report", "--out", self.folder)
        self.assertEqual((again.returncode, again.stdout), (0, reply.stdout), again.stderr)
        return reply.stdout

    def value(self, *where):
        found = self.metrics.median(*where)
        self.assertIsNotNone(found, where)
        return found

    def expect_sentence(self, reply, named):
        with self.subTest(reply.args):
            self.assertEqual((reply.returncode, reply.stdout, reply.stderr.count("\n")), (1, "", 1), reply)
            self.assertIn(named, reply.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    _, rest = parser.parse_known_args(namespace=ARGS)
    os.environ |= {"ROPEWAY": ARGS.ropeway,
                   "ROPEWAY_BENCH": str(pathlib.Path(ARGS.ropeway).with_name("ropeway-bench"))}
    unittest.main(argv=[sys.argv[0], *rest])
