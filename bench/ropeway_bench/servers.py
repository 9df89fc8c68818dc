"""Servers under test: started, asked for /metrics, stopped; and what the machine did meanwhile."""
import contextlib
import ctypes
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from ropeway_bench import BenchError

QUEUE_ALL = ("--max-wait", "1h")  # For servers that are to queue all that is offered.
PURE = ("--urgent-joins", "off")         # For batching strategies that are compared as they are.
BLOCK_TOKENS = 16
ISA_TITLES = {"avx512vnni": "AVX-512 VNNI", "avx2": "AVX2", "reference": "no vectors"}
START_PATIENCE = 120
STOP_PATIENCE = 60
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command_text(command):
    """The command line without folders, which differ from machine to machine."""
    return " ".join(pathlib.Path(w).name if w.startswith("/") or "build/" in w else w for w in map(str, command))


def version_of(*words):
    """The line of a program's --version that names one."""
    reply = subprocess.run([*words, "--version"], capture_output=True, text=True, check=False)
    lines = (reply.stdout + reply.stderr).splitlines()
    named = [line for line in lines if "version" in line and re.search(r"\d", line)]
    return (named or lines or ["unknown version"])[0]


class Page:
    """A snapshot of a server's /metrics; empty if the server has none."""

    def __init__(self, text=""):
        self.text = text
        self.begin = time.monotonic()

    def sum(self, name, label=""):
        """Of all series of the name whose labels hold `label`; None if there is none."""
        found = [line.rpartition(" ") for line in self.text.splitlines()
                 if line.startswith((name + "{", name + " "))]
        values = [float(value) for series, _, value in found if label in series]
        return sum(values) if values else None

    def label(self, name, label):
        match = re.search(rf'^{name}\{{[^}}]*{label}="([^"]*)"', self.text, re.MULTILINE)
        return match[1] if match else None

    def grown(self, before, name, label=""):
        """Since an earlier page; None if the server does not tell."""
        now = self.sum(name, label)
        return None if now is None else now - (before.sum(name, label) or 0)


class Server:
    """One server. `key`: of its API, if it asks for one. Use it in a with statement."""

    def __init__(self, command=None, port=0, url="", key="", patience=START_PATIENCE):
        self.url = (url or f"http://127.0.0.1:{port}").removesuffix("/").removesuffix("/v1")
        self.key = key
        self.command = command_text(command) if command else None
        self.process = self.log = None
        if command:
            self._start([str(word) for word in command], patience)

    def _start(self, command, patience):
        self.log = tempfile.TemporaryFile()  # pylint: disable=consider-using-with
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            command, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        end = time.monotonic() + patience
        name = pathlib.Path(command[0]).name
        while self.get("/health") is None:
            if self.process.poll() is not None:
                raise BenchError(f"{name} ended before it was ready: {self.last_words()}")
            if time.monotonic() > end:
                self.stop()
                raise BenchError(f"{name} was not ready after {patience} s: {self.last_words()}")
            time.sleep(0.05)

    def last_words(self):
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - 500))
        return self.log.read().decode(errors="replace").strip()

    def get(self, path, timeout=10):
        """The text at `path`; None if there is none."""
        request = urllib.request.Request(self.url + path)
        if self.key:
            request.add_header("Authorization", f"Bearer {self.key}")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as reply:
                return reply.read().decode()
        except (OSError, ValueError):
            return None

    def models(self):
        """The entries of /v1/models."""
        return json.loads(self.get("/v1/models") or "{}").get("data", [])

    def page(self):
        return Page(self.get("/metrics") or "")

    def peak_rss_mb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1024

    def stop(self):
        """SIGTERM, and SIGKILL if it has not ended after a minute."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        if self.log:
            self.log.close()


def scheduler_metrics(server, before):
    """What the scheduler did since the page `before`, as metrics; those that the server does not tell are None."""
    after = server.page()

    def grown(name, label=""):
        return after.grown(before, name, label)

    def per(a, b):
        return None if a is None or not b else a / b

    return {"slot_share": per(grown("ropeway_slot_seconds_total", 'state="used"'),
                              grown("ropeway_slot_seconds_total", 'state="all"')),
            "busy_share": per(grown("ropeway_busy_seconds_total"), after.begin - before.begin),
            "preemptions": grown("ropeway_num_preemptions_total"),
            "recomputed_tokens": grown("ropeway_recomputed_tokens_total"),
            "mean_step_s": per(grown("ropeway_step_time_seconds_sum"), grown("ropeway_step_time_seconds_count")),
            "kernels": after.label("ropeway_engine_info", "kernels"),
            "rows_per_step": per(grown("ropeway_step_rows_sum"), grown("ropeway_step_rows_count"))}


def cache_metrics(server, before):
    """Where the prompt tokens since the page `before` were found; nothing if the server does not tell."""
    after = server.page()

    def grown(name):
        return after.grown(before, name) or 0

    asked = grown("ropeway_prefix_cache_queries_total")
    if asked <= 0:
        return {}
    hits = grown("ropeway_prefix_cache_hits_total")
    disk = min(hits, grown("ropeway_kv_disk_fetched_blocks_total") * BLOCK_TOKENS)
    return {"cached_share": hits / asked, "pool_share": (hits - disk) / asked, "disk_share": disk / asked,
            "disk_read_mib": grown("ropeway_kv_disk_read_bytes_total") / 2**20,
            "disk_written_mib": grown("ropeway_kv_disk_written_bytes_total") / 2**20,
            "disk_lost_blocks": grown("ropeway_kv_disk_lost_blocks_total")}


@contextlib.contextmanager
def disk_folder(parent):
    """An empty folder for a disk tier, removed afterwards."""
    path = tempfile.mkdtemp(prefix="ropeway-bench-disk-", dir=parent or None)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


# The machine.


def physical_cores():
    """Those that this process may use."""
    siblings = set()
    for cpu in os.sched_getaffinity(0):
        path = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        siblings.add(path.read_text(encoding="utf-8") if path.exists() else cpu)
    return max(1, len(siblings))


def cpuinfo():
    return pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")


def instruction_set(text, environment):
    """The kernels that ropeway chooses: those of ROPEWAY_ISA, else by the CPU's flags in `text`."""
    flags = re.search(r"flags\s*:\s*(.*)", text)
    words = flags[1].split() if flags else []
    best = "avx512vnni" if "avx512_vnni" in words else "avx2" if "avx2" in words else "reference"
    return environment.get("ROPEWAY_ISA") or best


def machine_text():
    model = re.search(r"model name\s*:\s*(.*)", cpuinfo())
    own = instruction_set(cpuinfo(), {})
    chosen = instruction_set(cpuinfo(), os.environ)
    return (f"{model[1] if model else 'unknown'}, {os.cpu_count()} CPUs, {ISA_TITLES[own]}, Linux {platform.release()}"
            + ("" if chosen == own else f"; ropeway restricted to {chosen}, the others not"))


def today():
    return datetime.datetime.now(datetime.timezone.utc).date().isoformat()


def busy_seconds():
    """CPU seconds of all processes since the machine started, stolen time included."""
    fields = pathlib.Path("/proc/stat").read_text(encoding="utf-8").split("\n", maxsplit=1)[0].split()
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    """CPU seconds of this process and of all its children, those that still run included."""
    ticks = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # The fields after the name, which may hold spaces: state, ppid, ..., utime as the 12th.
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # It ended just now.
            continue
        if int(fields[1]) == os.getpid():
            ticks += sum(map(int, fields[11:15]))
    times = os.times()
    return (times.user + times.system + times.children_user + times.children_system
            + ticks / os.sysconf("SC_CLK_TCK"))


class Others:
    """What share of the CPUs other processes (and the host: stolen time) took since it was made."""

    def __init__(self):
        self.begin = time.monotonic(), busy_seconds(), own_seconds()

    def share(self):
        seconds, busy, own = (now - then for now, then in zip(
            (time.monotonic(), busy_seconds(), own_seconds()), self.begin))
        # At most 1: the kernel's ticks are coarse, and the pieces of tests short.
        return min(1.0, max(0.0, busy - own) / (seconds * os.cpu_count())) if seconds > 0 else 0.0
