"""Load on a server by `ropeway bench serve`, and what came back."""
import csv
import dataclasses
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile

from ropeway_bench import BenchError
from ropeway_bench.servers import LIBC, PR_SET_PDEATHSIG

ENDLESS = 100_000  # Requests of a background load, at most.


@dataclasses.dataclass
class Request:
    """One request of a load: a random prompt of `input_tokens` words, or `prompt` (text or token ids), or
    chat `messages`."""
    input_tokens: int = 1
    output_tokens: int = 1
    arrival: float | None = None  # Seconds after the load's begin; all or none of a load have one.
    priority: str = ""            # "high", "medium", "low".
    client: int = 0               # Which of Load.keys it is sent with.
    prompt: object = None
    messages: list | None = None


@dataclasses.dataclass
class Load:
    """What goes to a server. With arrivals it is an open loop, else a closed loop of `users`."""
    requests: list = dataclasses.field(default_factory=list)
    users: int = 1
    seed: int = 1
    temperature: float = 0
    timeout: float = 600
    stream: bool = True
    prompt_format: str = "text"   # Of random prompts; "auto": token ids where the server takes them.
    duration: float = 0           # A closed loop sends nothing after so many seconds; 0: until all are done.
    keys: list = dataclasses.field(default_factory=list)  # API keys, by client.
    conversations: list = dataclasses.field(default_factory=list)  # In place of requests: see sessions.py.
    think_time: float = 0
    user_interval: float = 0

    def flags(self, folder):
        """Those of `ropeway bench serve`; files of the load go to `folder`."""
        words = ["--seed", self.seed, "--temperature", self.temperature, "--timeout", self.timeout,
                 "--prompt-format", self.prompt_format, "--ignore-eos", "on", "--max-request-tokens", 100_000_000]
        words += [] if self.stream else ["--no-stream"]
        words += ["--duration", self.duration] if self.duration else []
        if self.keys:
            (folder / "keys").write_text("\n".join(self.keys) + "\n", encoding="utf-8")
            words += ["--client-keys", folder / "keys"]
        if self.conversations:
            path = write_lines(folder / "conversations.jsonl", self.conversations)
            return words + ["--endpoint", "chat", "--conversations", path, "--users", self.users, "--num-prompts",
                            len(self.conversations), "--think-time", self.think_time, "--user-interval",
                            self.user_interval]
        first = self.requests[0]
        words += ["--num-prompts", len(self.requests)]
        words += ["--users", self.users] if first.arrival is None else []
        if first.messages is not None:
            words += ["--endpoint", "chat"]
        if first.messages is None and first.prompt is None:
            return words + ["--trace", write_trace(folder / "trace.csv", self.requests)]
        return words + ["--dataset", write_lines(folder / "data.jsonl", map(data_line, self.requests))]


def data_line(request):
    asked = {"messages": request.messages} if request.messages is not None else {"prompt": request.prompt}
    arrival = {} if request.arrival is None else {"arrival_s": request.arrival}
    return asked | {"max_tokens": request.output_tokens} | arrival


def write_lines(path, objects):
    path.write_text("".join(json.dumps(o) + "\n" for o in objects), encoding="utf-8")
    return path


def write_trace(path, requests):
    fields = {"arrival_s": "arrival", "client": "client", "priority": "priority", "input_tokens": "input_tokens",
              "output_tokens": "output_tokens"}
    first = requests[0]
    if first.arrival is None:
        del fields["arrival_s"]
    if not first.priority:
        del fields["priority"]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(fields)
        writer.writerows([getattr(r, name) for name in fields.values()] for r in requests)
    return path


@dataclasses.dataclass
class Record:
    """One request as its client saw it: a line of --records. Times count from `due`, and `due` from the load's
    begin; seconds."""
    run: int = 1
    seq: int = 0
    status: int = 200
    error_kind: str = ""
    error: str = ""
    due: float = 0
    latency: float = 0
    ttft: float | None = None
    gaps: list = dataclasses.field(default_factory=list)
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int | None = None
    estimated: bool = False
    batch_num: int | None = None
    batch: int | None = None
    batch_size: int | None = None
    conversation: int = 0
    turn: int = 0
    prompt: object = None
    output: str = ""
    times: dict = dataclasses.field(default_factory=dict)  # Of the server: queue, formation, ... seconds.
    tries: int = 1                 # With --retries; of these:
    promised: float | None = None  # the first Retry-After,
    waited: float = 0              # and the time from the first rejection to the last answer.

    @property
    def ok(self):
        return not self.error_kind

    @property
    def end(self):
        return self.due + self.latency

    @property
    def prefilled(self):
        """Prompt tokens that no cache gave; all if the server does not tell."""
        return self.input_tokens - (self.cached_tokens or 0)


@dataclasses.dataclass
class Run:
    """A load that ended. `begin` is of the machine's monotonic clock."""
    records: list
    begin: float = 0
    wall_s: float = 0
    cpu_s: float = 0
    interrupted: bool = False

    @property
    def cpu_share(self):
        """Of all CPUs, taken by the load generator."""
        return self.cpu_s / (self.wall_s * os.cpu_count()) if self.wall_s else 0


def read_records(path):
    """The run of a --records file with one run, or of a replay's, which has records only."""
    run, records = {}, []
    for line in path.read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        if "seq" in found:
            records.append(Record(**found))
        else:
            run = {key: found[key] for key in ("begin", "wall_s", "cpu_s", "interrupted")}
    return Run(records, **run)


class Running:
    """A load that was begun. `ropeway`: the program."""

    def __init__(self, ropeway, server, load):
        self.load = load
        self.folder = tempfile.TemporaryDirectory(prefix="ropeway-bench-")  # pylint: disable=consider-using-with
        folder = pathlib.Path(self.folder.name)
        self.records = folder / "records.jsonl"
        command = [ropeway, "bench", "serve", "--base-url", server.url, "--no-progress", "--records", self.records,
                   *load.flags(folder)]
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=os.environ | ({"ROPEWAY_API_KEY": server.key} if server.key else {}),
            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))

    def stop(self):
        """A closed loop sends nothing more; it ends with the answers that it waits for."""
        self.process.send_signal(signal.SIGUSR1)

    def wait(self):
        """The Run. BenchError if it could not begin."""
        try:
            _, errors = self.process.communicate()
            if not self.records.exists() or not self.records.stat().st_size:
                raise BenchError(errors.strip().removeprefix("ropeway: ") or "the load generator wrote nothing")
            return read_records(self.records)
        finally:
            self.process.kill()
            self.folder.cleanup()


def check(run):
    """The run, if no request of it failed."""
    if run.interrupted:
        raise BenchError("interrupted")
    for record in run.records:
        if not record.ok:
            raise BenchError(f"a request failed: {record.error_kind}: {record.error}")
    return run


# Loads.


def same(count, input_tokens, output_tokens, priority=""):
    """So many requests of equal lengths."""
    return [Request(input_tokens, output_tokens, priority=priority)] * count


def poisson(rng, requests, rate):
    """The requests with random arrivals, `rate` a second on average."""
    at, due = 0.0, []
    for request in requests:
        due.append(dataclasses.replace(request, arrival=round(at, 6)))
        at += rng.expovariate(rate)
    return due


def deal(rng, count, shares):
    """`count` kinds 0, 1, ... in the parts of `shares`, shuffled."""
    kinds, upper = [], 0.0
    for kind, share in enumerate(shares):
        upper += share
        kinds += [kind] * (round(count * upper / sum(shares)) - len(kinds))
    rng.shuffle(kinds)
    return kinds


def log_normal(rng, median, spread, least, most):
    """A length with exp(N(ln median, spread^2)), cut off at both ends."""
    return round(min(max(rng.lognormvariate(0, spread) * median, least), most))


def random_of(*seeds):
    """A generator for this purpose: the same seeds give the same numbers."""
    return random.Random("/".join(map(str, seeds)))


# Metrics of runs.


def add_gaps(metrics, where, gaps):
    metrics.add(where, itl_samples=len(gaps))
    metrics.add_distribution(where, "itl", gaps)


def add_times(metrics, where, records):
    """requests, ttft_*, itl_*, latency_* of the records that succeeded."""
    good = [r for r in records if r.ok]
    metrics.add(where, requests=len(good))
    metrics.add_distribution(where, "ttft", [r.ttft for r in good if r.ttft is not None])
    add_gaps(metrics, where, [gap for r in good for gap in r.gaps])
    metrics.add_distribution(where, "latency", [r.latency for r in good])


def add_load(metrics, where, *runs):
    """All metrics of runs that followed each other."""
    records = [r for run in runs for r in run.records]
    good = [r for r in records if r.ok]
    wall = sum(run.wall_s for run in runs) or 1e-9
    batches = {(i, r.batch) for i, run in enumerate(runs) for r in run.records if r.ok and r.batch is not None}
    sizes = [r.batch_size for r in good if r.batch_size is not None]
    add_times(metrics, where, records)
    output = sum(r.output_tokens for r in good)
    metrics.add(where, failed=len(records) - len(good), output_tok_per_s=output / wall,
                requests_per_s=len(good) / wall, prompt_tokens=sum(r.input_tokens for r in good),
                output_tokens=output, wall_s=wall,
                generator_cpu_share=sum(run.cpu_s for run in runs) / (wall * os.cpu_count()),
                batches=len(batches) or None, batch_size=sum(sizes) / len(sizes) if sizes else None)
