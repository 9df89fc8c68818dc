"""The scheduler's knobs, one at a time: what each setting does to throughput and waiting.

Starts the servers itself, one after the other, on a machine that should do nothing else.
"""
import dataclasses

from ropeway_bench import BenchError, load, plot, report, servers
from ropeway_bench.report import Column
from ropeway_bench.sessions import words
from ropeway_bench.suite import real, timing, whole

TITLE = "The scheduler's knobs"
PANELS = 6
CAPACITY, DEFAULT = "capacity", "default"
PRESET, TIMEOUT, POLICY, CACHE, CLASSES, CONTROL = (
    "preset", "batch timeout", "policy", "cache-aware policy", "classes", "batch control")
GROUPS = 8  # Of requests with one prefix, in the cache-aware part.

COLUMNS = [Column("requests", "requests"), Column("output tok/s", "output_tok_per_s", 1, 1),
           Column("TTFT p50 ms", "ttft_p50_s", 1000, 1), Column("TTFT p90 ms", "ttft_p90_s", 1000, 1),
           Column("TTFT p99 ms", "ttft_p99_s", 1000, 1, "requests"), Column("longest wait s", "ttft_max_s", 1, 3),
           Column("ITL p50 ms", "itl_p50_s", 1000, 1), Column("ITL p99 ms", "itl_p99_s", 1000, 1, "itl_samples"),
           Column("latency p50 s", "latency_p50_s", 1, 3), Column("latency p99 s", "latency_p99_s", 1, 3, "requests"),
           Column("batch size", "batch_size", 1, 1), Column("cached %", "cached_share", 100, 1),
           Column("rows a step", "rows_per_step", 1, 1), Column("preemptions", "preemptions"), *report.OTHERS]


def add_flags(parser):
    parser.add_argument("--knob", choices=("preset", "batch-timeout", "policy", "cache-aware", "strict", "batch-control",
                                           "all"), default="all")
    parser.add_argument("--requests", type=whole(6, 100000), default=400, help="of each system")
    parser.add_argument("--slots", type=whole(1, 1000), default=16, help="--max-num-seqs, and the batches' size")
    parser.add_argument("--open-load", type=real(0.01, 10), default=0.6,
                        help="presets and batch timeouts: requests offered over the capacity")
    parser.add_argument("--overload", type=real(0.01, 10), default=1.2, help="classes: likewise")
    parser.add_argument("--least-prompt", type=whole(1, 100000), default=16)
    parser.add_argument("--most-prompt", type=whole(1, 100000), default=256)
    parser.add_argument("--output-tokens", type=whole(1, 100000), default=32, help="median of the answers, log-normal")
    parser.add_argument("--prefix-tokens", type=whole(1, 100000), default=256, help="shared by a group of requests")


def make_quick(args):
    args.requests = min(args.requests, 48)


def prepare(suite):
    if suite.args.base_url:
        raise BenchError("--base-url: knobs starts servers of its own")
    if suite.args.most_prompt < suite.args.least_prompt:
        raise BenchError("--most-prompt: must be at least --least-prompt")


class Loads:
    """The loads of one round. `capacity`: requests per second."""

    def __init__(self, suite, capacity):
        self.suite, self.args, self.capacity = suite, suite.args, capacity

    def requests(self, rng):
        args = self.args
        return [load.Request(rng.randint(args.least_prompt, args.most_prompt),
                             load.log_normal(rng, args.output_tokens, 1.0, 1, 8 * args.output_tokens))
                for _ in range(args.requests)]

    def closed(self):
        """Four times as many users as slots."""
        rng = load.random_of("knobs", self.args.seed)
        users = 4 * self.args.slots
        return self.suite.load(self.requests(rng), users=users), f"closed loop, {users} users"

    def open(self):
        rng = load.random_of("knobs, open", self.args.seed)
        rate = self.args.open_load * self.capacity
        return (self.suite.load(load.poisson(rng, self.requests(rng), rate)),
                f"Poisson, {rate:.2f} requests/s: {self.args.open_load:g} of the capacity")

    def prefixes(self):
        """Groups of requests with one prefix, shuffled; more users than slots, so that there is a choice."""
        rng = load.random_of("knobs, prefixes", self.args.seed)
        prefixes = [words(rng, self.args.prefix_tokens) for _ in range(GROUPS)]
        requests = [load.Request(prompt=f"{rng.choice(prefixes)} {words(rng, 16)}", output_tokens=r.output_tokens)
                    for r in self.requests(rng)]
        users = 4 * self.args.slots
        return (self.suite.load(requests, users=users),
                f"closed loop, {users} users, {GROUPS} prefixes of {self.args.prefix_tokens} words")

    def classes(self):
        rng = load.random_of("knobs, classes", self.args.seed)
        rate = self.args.overload * self.capacity
        kinds = load.deal(rng, self.args.requests, [1, 1, 1])
        requests = [dataclasses.replace(r, priority=("high", "medium", "low")[kind])
                    for r, kind in zip(self.requests(rng), kinds)]
        return (self.suite.load(load.poisson(rng, requests, rate)),
                f"Poisson, {rate:.2f} requests/s: {self.args.overload:g} times the capacity, a third of each class")


def knobs(args):
    """{part: (value of --knob, load of Loads, {system: flags of `ropeway serve`})}."""
    dynamic = ["--scheduler", "dynamic", "--max-batch-size", args.slots]
    timeouts = {f"{ms} ms": [*dynamic, "--batch-timeout", f"{ms}ms"] for ms in (5, 10, 20, 50, 100, 200, 500)}
    return {
        PRESET: ("preset", Loads.open, {name: ["--preset", name] for name in ("latency", "balanced", "throughput")}),
        TIMEOUT: ("batch-timeout", Loads.open, timeouts | {"auto": [*dynamic, "--batch-timeout", "auto"]}),
        POLICY: ("policy", Loads.closed, {name: ["--policy", name] for name in ("fcfs", "sjf", "length-balance")}),
        CACHE: ("cache-aware", Loads.prefixes, {name: ["--policy", name] for name in ("fcfs", "cache-aware")}),
        CLASSES: ("strict", Loads.classes, {"shares": [], "strict": ["--strict"]}),
        CONTROL: ("batch-control", Loads.closed, {name: ["--batch-control", name]
                                                  for name in ("fixed", "aimd", "memory")}),
    }


def start(suite, flags):
    return suite.ropeway("--max-num-seqs", suite.args.slots, *servers.QUEUE_ALL, *flags)


def measure(suite):
    loads = Loads(suite, measure_capacity(suite))
    for part, (knob, make_load, systems) in knobs(suite.args).items():
        if suite.args.knob not in (knob, "all"):
            continue
        for system, flags in systems.items():
            for where in suite.measuring(part, system):
                measure_system(suite, where, flags, *make_load(loads))


def measure_capacity(suite):
    """Requests per second of the default server in a closed loop."""
    what, text = Loads(suite, 0).closed()
    capacity = 0.0
    for where in suite.measuring(CAPACITY, DEFAULT):
        with start(suite, []) as server:
            run = suite.put(server, what)
        capacity = len(run.records) / run.wall_s
        load.add_load(suite.metrics, where, run)
        suite.metrics.add(where, command=server.command, load=text)
    if not capacity:
        raise BenchError(f"--system: the capacity is measured with {DEFAULT}")
    return capacity


def measure_system(suite, where, flags, what, text):
    with start(suite, flags) as server:
        before = server.page()
        with timing(where):
            run = suite.put(server, what)
        load.add_load(suite.metrics, where, run)
        for name in ("high", "medium", "low") if what.requests[0].priority else ():
            load.add_times(suite.metrics, where.at(name),
                           [r for r in run.records if what.requests[r.seq].priority == name])
        suite.metrics.add(where, **servers.scheduler_metrics(server, before))
        suite.metrics.add(where, **servers.cache_metrics(server, before), command=server.command, load=text)


def verdicts(_metrics):
    """None: knobs are for different aims."""
    return []


def report_text(metrics, _args):
    text = ""
    for part in (CAPACITY, PRESET, TIMEOUT, POLICY, CACHE, CLASSES, CONTROL):
        table = report.system_table(metrics, part, COLUMNS)
        classes = report.x_table(metrics, part, "class", COLUMNS)
        text += report.section(part, f"{table}\n{classes}" if classes else table)
    return text.removeprefix("\n") + report.FEW_SAMPLES_NOTE


def draw(axes, metrics):
    """Each knob: output tok/s and the longest wait, or p99 of the TTFT by class."""
    for axis, part in zip(axes, (PRESET, TIMEOUT, POLICY, CACHE, CLASSES, CONTROL)):
        if part == CLASSES:
            plot.bars(axis, {f"{system}, {name}": metrics.median(part, system, "ttft_p99_s", name)
                             for system in metrics.systems(part) for name in ("high", "medium", "low")},
                      "classes: TTFT p99, s")
            continue
        for system, colour in zip(metrics.systems(part), plot.COLOURS):
            x, y = (metrics.median(part, system, name) for name in ("output_tok_per_s", "ttft_p99_s"))
            if None not in (x, y):
                axis.plot([x], [1000 * y], "o", color=colour, label=system)
        axis.set_title(f"{part}: TTFT p99 ms by output tok/s")
        axis.set_ylim(bottom=0)
