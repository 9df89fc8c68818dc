"""The scheduler's knobs, one at a time: what each setting does to throughput and waiting.

Each knob has a load under which it can make a difference: two rates for timeouts, long common prefixes and a small KV
cache for cache-aware, and so on (Part). Starts the servers itself, one after the other, on a machine that should do
nothing else.
"""
import dataclasses

from ropeway_bench import BenchError, load, plot, report, servers
from ropeway_bench.report import Column
from ropeway_bench.sessions import words
from ropeway_bench.suite import real, timing, whole

TITLE = "The scheduler's knobs"
CAPACITY, DEFAULT = "capacity", "default"
SHORT, LONG = "short requests", "long requests"
CLASSES = "classes"
NAMES = ("high", "medium", "low")

COLUMNS = [Column("requests", "requests"), Column("output tok/s", "output_tok_per_s", 1, 1),
           *report.TTFT_MS, *report.ITL, *report.LATENCY, Column("batch size", "batch_size", 1, 1), Column("cached %", "cached_share", 100, 1),
           Column("rows a step", "rows_per_step", 1, 1), Column("preemptions", "preemptions"), *report.OTHERS]


def add_flags(parser):
    parser.add_argument("--knob", choices=sorted({part.knob for part in PARTS}) + ["all"], default="all")
    parser.add_argument("--requests", type=whole(6, 100000), default=120, help="of each system")
    parser.add_argument("--slots", type=whole(1, 1000), default=16, help="--max-num-seqs, and the batches' size")
    parser.add_argument("--light", type=real(0.01, 10), default=0.25,
                        help="requests offered over the capacity of continuous batching, light load")
    parser.add_argument("--heavy", type=real(0.01, 10), default=0.6, help="likewise, heavy load")
    parser.add_argument("--overload", type=real(0.01, 100), default=2.0, help="likewise, classes")
    parser.add_argument("--prefix-tokens", type=whole(1, 100000), default=512, help="shared by a group of requests")


def make_quick(args):
    args.requests = min(args.requests, 24)


def prepare(suite):
    if suite.args.base_url:
        raise BenchError("--base-url: knobs starts servers of its own")


class Loads:
    """The loads of one round; each method returns (load, its description)."""

    def __init__(self, suite, capacity):
        self.suite, self.args = suite, suite.args
        self.capacity = capacity  # {SHORT or LONG: requests per second}

    def requests(self, kind):
        """SHORT: a step or two of prefill and about half a second of answer; LONG: of very unequal lengths."""
        rng = load.random_of("knobs", kind, self.args.seed)
        most, median, spread, longest = (64, 16, 0.5, 64) if kind == SHORT else (256, 32, 1.0, 256)
        return [load.Request(rng.randint(16, most), load.log_normal(rng, median, spread, 1, longest))
                for _ in range(self.args.requests)]

    def closed(self, kind, slots=0):
        """Four times as many users as slots."""
        users = 4 * (slots or self.args.slots)
        return self.suite.load(self.requests(kind), users=users), f"{kind}, closed loop, {users} users"

    def open(self, kind, share, requests=()):
        rng = load.random_of("knobs, arrivals", self.args.seed)
        rate = share * self.capacity[kind]
        return (self.suite.load(load.poisson(rng, requests or self.requests(kind), rate)),
                f"{kind}, Poisson, {rate:.2f} requests/s: {share:g} of the capacity")

    def light(self):
        return self.open(SHORT, self.args.light)

    def heavy(self):
        return self.open(SHORT, self.args.heavy)

    def long_closed(self):
        return self.closed(LONG)

    def prefixes(self):
        """8 groups with one prefix each, shuffled; more users than slots, so that there is a choice."""
        rng = load.random_of("knobs, prefixes", self.args.seed)
        prefixes = [words(rng, self.args.prefix_tokens) for _ in range(8)]
        requests = [load.Request(prompt=f"{rng.choice(prefixes)} {words(rng, 16)}", output_tokens=r.output_tokens)
                    for r in self.requests(SHORT)]
        return (self.suite.load(requests, users=16),
                f"closed loop, 16 users, 8 prefixes of {self.args.prefix_tokens} words")

    def classes(self):
        rng = load.random_of("knobs, classes", self.args.seed)
        kinds = load.deal(rng, self.args.requests, [1, 1, 1])
        requests = [dataclasses.replace(r, priority=NAMES[kind]) for r, kind in zip(self.requests(LONG), kinds)]
        what, text = self.open(LONG, self.args.overload, requests)
        return what, f"{text}, a third of each class"


@dataclasses.dataclass(frozen=True)
class Part:
    """A load on each of some systems. `flags`: of all systems; `systems`: {name: its own flags}."""
    name: str
    knob: str  # The value of --knob.
    make_load: object
    flags: tuple
    systems: dict
    slots: int = 0        # 0: --slots


def choices(flag, *values):
    return {value: (flag, value) for value in values}


DYNAMIC = ("--scheduler", "dynamic", *servers.PURE)
PRESETS = choices("--preset", "latency", "balanced", "throughput")
TIMEOUTS = {value: ("--batch-timeout", value) for value in ("5ms", "20ms", "50ms", "100ms", "200ms", "500ms", "auto")}
# About three of the eight prefixes fit the KV cache of the cache-aware part; a quarter of the 64 sequences
# that of the batch controls'.
PARTS = (
    Part("preset, light load", "preset", Loads.light, servers.PURE, PRESETS),
    Part("preset, heavy load", "preset", Loads.heavy, servers.PURE, PRESETS),
    Part("batch timeout, light load", "batch-timeout", Loads.light, DYNAMIC, TIMEOUTS),
    Part("batch timeout, heavy load", "batch-timeout", Loads.heavy, DYNAMIC, TIMEOUTS),
    Part("policy", "policy", Loads.long_closed, (), choices("--policy", "fcfs", "sjf")),
    Part("length-balance, static batches", "policy", Loads.long_closed,
         ("--scheduler", "static", *servers.PURE), choices("--policy", "fcfs", "length-balance")),
    Part("cache-aware, small KV cache", "cache-aware", Loads.prefixes, ("--kv-cache-size", "48MiB"),
         choices("--policy", "fcfs", "cache-aware"), slots=4),
    Part(CLASSES, "strict", Loads.classes, (), {"shares": (), "strict": ("--strict-priority",)}),
    Part("batch control, small KV cache", "batch-control", lambda loads: loads.closed(LONG, 64),
         ("--kv-cache-size", "64MiB", "--step-target", "30ms"),
         choices("--batch-control", "fixed", "aimd", "memory"), slots=64),
)
PANELS = len(PARTS)


def start(suite, part, own):
    return suite.ropeway("--max-num-seqs", part.slots or suite.args.slots, *servers.QUEUE_ALL, *part.flags, *own)


def measure(suite):
    loads = Loads(suite, {kind: measure_capacity(suite, kind) for kind in (SHORT, LONG)})
    for part in PARTS:
        if suite.args.knob not in (part.knob, "all"):
            continue
        for system, flags in part.systems.items():
            for where in suite.measuring(part.name, system):
                measure_system(suite, where, part, flags, *part.make_load(loads))


def measure_capacity(suite, kind):
    """Requests per second of the default server in a closed loop, while it is full."""
    what, text = Loads(suite, {}).closed(kind)
    capacity = 0.0
    for where in suite.measuring(CAPACITY, f"{DEFAULT}, {kind}"):
        with suite.ropeway("--max-num-seqs", suite.args.slots, *servers.QUEUE_ALL) as server:
            run = suite.put(server, what)
        ends = sorted(r.end for r in run.records)
        full = ends[:max(len(ends) // 2, len(ends) - what.users)]
        capacity = len(full) / full[-1]
        load.add_load(suite.metrics, where, run)
        suite.metrics.add(where, command=server.command, load=text)
    if not capacity:
        raise BenchError(f"--system: the capacity is measured with '{DEFAULT}, {kind}'")
    return capacity


def measure_system(suite, where, part, flags, what, text):
    with start(suite, part, flags) as server:
        before = server.page()
        with timing(where):
            run = suite.put(server, what)
        load.add_load(suite.metrics, where, run)
        for name in NAMES if what.requests[0].priority else ():
            load.add_times(suite.metrics, where.at(name),
                           [r for r in run.records if what.requests[r.seq].priority == name])
        suite.metrics.add(where, **servers.scheduler_metrics(server, before))
        suite.metrics.add(where, **servers.cache_metrics(server, before), command=server.command, load=text)


def verdicts(_metrics):
    """None: knobs are for different aims."""
    return []


def report_text(metrics, _args):
    text = ""
    for part in (CAPACITY, *(part.name for part in PARTS)):
        table = report.system_table(metrics, part, COLUMNS)
        classes = report.x_table(metrics, part, "class", COLUMNS)
        text += report.section(part, f"{table}\n{classes}" if classes else table)
    return text.removeprefix("\n") + report.FEW_SAMPLES_NOTE


def draw(axes, metrics):
    """Each knob: the median time to the first token by output tok/s; the classes' p99 as bars."""
    for axis, part in zip(axes, PARTS):
        if part.name == CLASSES:
            plot.bars(axis, {f"{system}, {name}": metrics.median(CLASSES, system, "ttft_p99_s", name)
                             for system in metrics.systems(CLASSES) for name in NAMES}, "classes: TTFT p99, s")
            continue
        for system, colour in zip(metrics.systems(part.name), plot.COLOURS):
            x, y = (metrics.median(part.name, system, name) for name in ("output_tok_per_s", "ttft_p50_s"))
            if None not in (x, y):
                axis.plot([x], [1000 * y], "o", color=colour, label=system)
        axis.set_title(f"{part.name}: TTFT p50 ms by output tok/s")
        axis.set_ylim(bottom=0)
