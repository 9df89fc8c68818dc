"""What the tests of isolation share: the server, an honest client, the attacker's process, and the table of figures."""
import collections
import csv
import http.client
import json
import math
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
# pylint: disable=wrong-import-position
import child
from ropeway_server import RopewayServer, eventually, metric  # metric: for burst.py

PATIENCE = 60
MIB = 1 << 20
KEYS = {"a": "key-aaaaaaaa", "b": "key-bbbbbbbb", "metered": "key-metered-m"}
ADMIN_KEY = "key-of-the-admin"
DRAIN_SECONDS = 5
# The flags of the server, with those that the bound on memory names (docs/security.md#memory) at their defaults.
KV_CACHE_BYTES = 512 * MIB
FLAGS = ["--threads", "1", "--kv-cache-size", "512MiB", "--drain-timeout", f"{DRAIN_SECONDS}s"]


def memory_bound(max_model_len, max_connections=4096, max_bodies=256 * MIB, max_answers=256 * MIB,
                 max_body=8 * MIB, max_queued_requests=1000, max_num_seqs=64, max_queued_tokens=4_000_000,
                 io_threads=1, helper_threads=1, frontend_threads=1):
    """What docs/security.md#memory says that requests may take above an idle server, in bytes."""
    kib = 1 << 10
    return (KV_CACHE_BYTES + (max_connections + 192) * 192 * kib + max_bodies + max_answers + 256 * MIB
            + (2 * max_queued_requests + max_num_seqs) * 32 * kib + 2 * max_queued_tokens * 40
            + io_threads * 2 * max_body + (helper_threads + 2) * (128 * MIB + 4 * max_body)
            + (helper_threads + frontend_threads + 4) * (MIB + 4 * max_body)
            + 896 * MIB + max_num_seqs * max_model_len * 600)


class Server(RopewayServer):
    """With the keys above."""

    key = admin_key = ADMIN_KEY
    patience = PATIENCE

    def __init__(self, ropeway, model, *flags, keys=None):
        self.tenant_key = next(iter((keys or KEYS).values()))
        super().__init__(ropeway, model, *self.key_flags(keys or KEYS), *FLAGS, *flags)

    def key_flags(self, keys):
        """The flags for these keys, in a file in self.folder."""
        self.folder = tempfile.TemporaryDirectory(prefix="ropeway-isolation-")
        file = pathlib.Path(self.folder.name) / "keys.toml"
        file.touch(mode=0o600)
        rights = {"metered": "tokens_per_minute = 1\n", "gateway": "gateway = true\n"}
        file.write_text("".join(f'[[keys]]\nname = "{name}"\nkey = "{key}"\n{rights.get(name, "")}'
                                for name, key in keys.items()), encoding="utf-8")
        return ["--api-keys", file, "--admin-key", ADMIN_KEY]

    def running(self):
        """Sequences that have a slot."""
        return int(self.metric("ropeway_num_requests_running"))

    def wait_until_idle(self):
        def idle():
            return self.metric("ropeway_num_requests_running") + self.metric("ropeway_num_requests_waiting") == 0
        eventually(idle, "no request runs or waits", PATIENCE, pause=0.05)

    def memory_bound(self):
        """That of this server."""
        return memory_bound(json.loads(self.get("/v1/models", self.tenant_key)[1])["data"][0]["max_model_len"])

    def memory(self, name="VmHWM"):
        """The peak of its resident memory, or with VmRSS what it is now, in bytes."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE).group(1)) << 10

    def thread_seconds(self, name):
        """Processor time that the threads of this name took."""
        threads = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text(encoding="utf-8").split()[0]) / 1e9 for thread in threads
                   if (thread / "comm").read_text(encoding="utf-8").strip() == name)

    def descriptors(self):
        return len(list(pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def stop(self):
        """Exit code, and seconds that the end took."""
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return code, time.monotonic() - begin

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


def percentile(samples, percent):
    """The nearest rank."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


class Honest:
    """Key b: one short request after the other, streamed. Each fifth is followed by a large and by a chunked body."""

    TOKENS = 8

    def __init__(self, server, pause=0.02, probes=True):
        self.server = server
        self.pause = pause
        self.probes = probes
        self.ttft, self.gaps, self.probe_seconds = [], [], []
        self.wrong = []  # What was not answered as it should be.
        self.count = 0

    def request(self, path, body, chunked=False):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)
        data = json.dumps(body).encode()
        connection.request("POST", path, iter([data]) if chunked else data,
                           {"Content-Type": "application/json", "Authorization": f"Bearer {KEYS['b']}"},
                           encode_chunked=chunked)
        return connection, connection.getresponse()

    def note(self, reply, what):
        if reply.status != 200:
            self.wrong.append(f"{what}: {reply.status} {reply.read()[:300]!r}")
        return reply.status == 200

    def sample(self):
        self.count += 1
        begin = time.monotonic()
        body = {"prompt": f"The cat number {self.count} sat", "max_tokens": self.TOKENS, "ignore_eos": True,
                "temperature": 0, "stream": True, "priority": "medium"}
        connection, reply = self.request("/v1/completions", body)
        try:
            if not self.note(reply, "a completion"):
                return
            times = []
            ended = False
            while line := reply.readline():
                if line.startswith(b"data: [DONE]"):
                    ended = True
                elif line.startswith(b"data: "):
                    if b'"error"' in line:
                        self.wrong.append(f"a stream: {line[:300]!r}")
                    times.append(time.monotonic())
            if not ended or not times:
                self.wrong.append("a stream was cut off")
                return
            self.ttft.append(times[0] - begin)
            self.gaps += [after - before for before, after in zip(times, times[1:])]
        finally:
            connection.close()

    def probe(self):
        """A body that is charged, and one without a length."""
        for what, path, body, chunked in (
                ("a large body", "/tokenize", {"prompt": "x " * 20_000}, False),
                ("a chunked body", "/v1/completions", {"prompt": "Hi", "max_tokens": 2, "temperature": 0}, True)):
            begin = time.monotonic()
            connection, reply = self.request(path, body, chunked)
            try:
                if self.note(reply, what):
                    reply.read()
                    self.probe_seconds.append(time.monotonic() - begin)
            finally:
                connection.close()

    def run(self, samples, seconds=None, least=0):
        """Until there are `samples`, or for `seconds`, if that is sooner and there are `least` by then."""
        deadline = time.monotonic() + (seconds or math.inf)
        while len(self.ttft) < samples and len(self.wrong) < 20:
            late = time.monotonic() - deadline
            if late > (PATIENCE if len(self.ttft) < least else 0):
                break
            try:
                self.sample()
                if self.probes and self.count % 5 == 0:
                    self.probe()
            except (OSError, http.client.HTTPException) as error:
                self.wrong.append(f"no answer: {error!r}")
            time.sleep(self.pause)
        return self


def start_clients(script, *arguments):
    """A script of this folder, in a process of the lowest priority, so that it takes no processor from the server."""
    return child.start(["nice", "-n", "19", sys.executable, HERE / script, *arguments], stdout=subprocess.PIPE,
                       text=True)


class Attacker:
    """attack.py in a process of its own."""

    def __init__(self, server, kinds, stranger=False):
        self.kinds = kinds
        keys = [] if stranger else ["--key", KEYS["a"], "--metered-key", KEYS["metered"]]
        self.process = start_clients("attack.py", "--port", server.port, *keys, *kinds)
        line = self.process.stdout.readline()
        assert line == "ready\n", f"the attack did not begin: {line!r}"

    def stop(self):
        """What became of its requests: {kind: {status: number}}."""
        self.process.send_signal(signal.SIGTERM)
        try:
            output, _ = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        assert self.process.returncode == 0, f"the attack failed: {output}"
        return {kind: {int(status): number for status, number in counts.items()}
                for kind, counts in json.loads(output.splitlines()[-1]).items()}

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Background:
    """An honest client in a thread of its own, for a time."""

    def __init__(self, client):
        self.client = client
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()

    def loop(self):
        while not self.stopping.is_set() and not self.client.wrong:
            self.client.run(len(self.client.ttft) + 1, seconds=PATIENCE)

    def stop(self):
        self.stopping.set()
        self.thread.join(timeout=PATIENCE)
        return self.client


def ms(seconds):
    return round(seconds * 1e3, 1)


# `is_time`: it may be another's doing on the same machine.
Failure = collections.namedtuple("Failure", "case what is_time")


class Results:
    """What was measured, and what is wrong with it."""

    def __init__(self):
        self.rows = []
        self.failures = []

    def check(self, holds, case, what, is_time=False):
        if not holds:
            self.failures.append(Failure(case, what, is_time))
            print(f"    FAILED: {case}: {what}", flush=True)

    def add_row(self, **figures):
        self.rows.append(figures)
        print("  " + ", ".join(f"{name} {figure}" for name, figure in figures.items()), flush=True)

    def too_slow(self):
        return {failure.case for failure in self.failures if failure.is_time}

    def drop(self, cases):
        """All of these cases that a second measurement replaces: not what was answered wrongly."""
        self.rows = [row for row in self.rows if row["case"] not in cases]
        self.failures = [failure for failure in self.failures if failure.case not in cases or not failure.is_time]

    def sentences(self):
        return [f"{failure.case}: {failure.what}" for failure in self.failures]


def print_table(rows, columns):
    """Those of the columns that any row has."""
    shown = [name for name in columns if any(name in row for row in rows)]
    lines = [shown] + [[str(row.get(name, "")) for name in shown] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths)).rstrip(), flush=True)


def write_figures(path, rows, failures, about):
    """All figures: as JSON with the failures, or as CSV if the name ends so."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        if not str(path).endswith(".csv"):
            json.dump({**about, "rows": rows, "failures": failures}, file, indent=1)
            file.write("\n")
            return
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows({name: json.dumps(figure) if isinstance(figure, dict) else figure
                          for name, figure in row.items()} for row in rows)
