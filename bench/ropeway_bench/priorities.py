"""Classes of priority: how long urgent requests wait beside others, and what that costs the others.

Starts the servers itself, one after the other, on a machine that should do nothing else. The simulated part needs no
such machine: the same scheduler in virtual time.
"""
import argparse
import dataclasses

from ropeway_bench import BenchError, load, plot, report, servers
from ropeway_bench.metrics import Where, cells, ratio
from ropeway_bench.report import Column, Verdict, few
from ropeway_bench.service import Trail, steady_rate
from ropeway_bench.suite import real, timing, whole

TITLE = "Classes of priority"
CLASSES = ("high", "medium", "low")
ROPEWAY, LLAMA, SERVER = "ropeway", "llama-server", "server"
CAPACITY, UNLOADED, OPEN, OVERLOAD = "capacity", "unloaded", "open loop", "overload"
ALONE, URGENT = "low alone", "low and urgent"
MEASURED, SIMULATED = "measured", "simulated"
SIMULATED_PARTS = tuple(f"{SIMULATED} {part}" for part in (CAPACITY, OPEN, ALONE, URGENT))
PARTS = (CAPACITY, UNLOADED, OPEN, OVERLOAD, ALONE, URGENT, *SIMULATED_PARTS)
OPEN_LIMITS = (80.0, 250.0, 450.0)  # TTFT p99 of each class at 0.8 of the capacity, ms.
URGENT_LIMIT, URGENT_MEDIUM_LIMIT = 100.0, 300.0
URGENT_GAPS = 2.0  # Simulated: ITL p99 of high over the median of low beside it.
DEFAULT_SLOTS = 64  # Of `ropeway serve`.
SIMULATED_BLOCKS = 8192  # Of the KV pool: memory is not short.
DEFAULT_MAX_WAIT = 30.0  # Of `ropeway serve`, seconds.
UNLOADED_OUTPUT = 8
LEAD_SECONDS = 3.0  # Until the background is at full work.
LLAMA_PART = 3      # It gets a third of each load: it is slower.

COLUMNS = [Column("requests", "requests"), Column("rejected", "rejected"), *report.TTFT_MS, *report.ITL, *report.LATENCY,
           Column("offered / capacity", "offered_load", 1, 2), Column("requests/s", "capacity_per_s", 1, 2),
           Column("work tokens/s", "work_per_s", 1, 1), Column("preemptions", "preemptions"),
           Column("recomputed", "recomputed_tokens"), Column("texts compared", "texts_compared"),
           Column("different", "texts_different"), Column("mean step ms", "mean_step_s", 1000, 1), *report.OTHERS]


def step_times(text):
    """Of 2.87,0.927,0.424."""
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = []
    if len(values) != 3 or not all(0 < value < 1e6 for value in values):
        raise argparse.ArgumentTypeError(f"expected three numbers of milliseconds with commas between, not '{text}'")
    return values


def add_flags(parser):
    parser.add_argument("--part", choices=(MEASURED, SIMULATED, "all"), default=MEASURED,
                        help="measured: on servers; simulated: the same scheduler in virtual time, with other arrivals in "
                        "each round")
    parser.add_argument("--step-times", type=step_times, default=[2.87, 0.927, 0.424], metavar="STEP,DECODE,PREFILL",
                        help="simulated: milliseconds of a step, of each sequence that decodes in it, and of each token of "
                        "a prompt's chunk")
    parser.add_argument("--prompt-tokens", type=whole(8, 100000), default=64, help="of each prompt")
    parser.add_argument("--output-tokens", type=whole(2, 100000), default=64, help="of each answer")
    parser.add_argument("--slots", type=whole(1, 1000), default=16, help="--max-num-seqs of the saturated parts")
    parser.add_argument("--temperature", type=real(0, 2), default=0.0)
    parser.add_argument("--open-load", type=real(0.01, 10), default=0.8,
                        help="open loop: requests offered over the capacity")
    parser.add_argument("--overload", type=real(0.01, 100), default=2.0, help="likewise, in the overload's part")
    parser.add_argument("--high-load", type=real(0.01, 10), default=0.2,
                        help="requests of class high over the capacity, beside work of class low")
    parser.add_argument("--medium-load", type=real(0.01, 10), default=0.15, help="likewise, of class medium")
    parser.add_argument("--capacity-requests", type=whole(1, 100000), default=160)
    parser.add_argument("--unloaded-requests", type=whole(1, 100000), default=200)
    parser.add_argument("--open-requests", type=whole(3, 100000), default=600, help="a third of each class")
    parser.add_argument("--overload-requests", type=whole(3, 100000), default=6000, help="a third of each class")
    parser.add_argument("--urgent-requests", type=whole(2, 100000), default=500, help="of classes high and medium")
    parser.add_argument("--alone-seconds", type=real(0.1, 3600), default=30.0, help="of work of class low alone")
    parser.add_argument("--texts", type=whole(1, 10000), default=16,
                        help="texts of class low that are compared with an idle server's: those that paused longest")
    parser.add_argument("--limit-factor", type=real(0.01, 1000), default=1.0,
                        help="limits of TTFT are times this: the unloaded TTFT here over that of the machine of "
                        "docs/scheduling_notes.md")


def make_quick(args):
    for name, most in (("capacity_requests", 64), ("unloaded_requests", 40), ("open_requests", 150),
                       ("overload_requests", 1500), ("urgent_requests", 120), ("alone_seconds", 12), ("texts", 6)):
        setattr(args, name, min(getattr(args, name), most))


class Bench:
    """One round of one system."""

    def __init__(self, suite, system, capacity):
        self.suite, self.args, self.metrics = suite, suite.args, suite.metrics
        self.system = system
        self.part_of = LLAMA_PART if system == LLAMA else 1
        self.capacity = capacity  # Requests per second.
        self.low = []             # Records of class low that paused longest.

    def start(self, *flags):
        args = self.args
        if self.system == SERVER:
            return self.suite.given()
        if self.system == LLAMA:
            return self.suite.llama(args.slots, args.prompt_tokens + args.output_tokens + 16)
        return self.suite.ropeway(*flags)

    def run(self):
        """The capacity and what is below it on a default server, what is saturated on one of few slots."""
        self.measure(self.start(), (self.measure_capacity, CAPACITY), (self.measure_unloaded, UNLOADED),
                     (self.measure_open, OPEN), (self.measure_overload, OVERLOAD))
        self.measure(self.start("--max-num-seqs", self.args.slots), (self.measure_alone, ALONE),
                     (self.measure_urgent, URGENT))
        if self.low and self.system != LLAMA:
            self.compare_texts()

    def measure(self, server, *parts):
        with server:
            for function, part in parts:
                if part == OVERLOAD and self.system != ROPEWAY:
                    continue
                for where in self.suite.measuring(part, self.system):
                    before = server.page()
                    text = function(server, where)
                    if part in (OPEN, OVERLOAD, ALONE, URGENT):
                        self.metrics.add(where, **servers.scheduler_metrics(server, before))
                    self.metrics.add(where, load=text, command=server.command)

    def count(self, requests):
        return max(1, requests // self.part_of)

    def requests(self, count, priority="medium"):
        return load.same(count, self.args.prompt_tokens, self.args.output_tokens, priority)

    def load(self, number, requests, **fields):
        """Loads of one server with different numbers have different prompts."""
        return self.suite.load(requests, seed=self.args.seed * 1000 + number, temperature=self.args.temperature,
                               **fields)

    def open_load(self, number, count, rate, classes, seed=None):
        """Random classes in the parts of `classes`, {class: share}, at random times."""
        rng = load.random_of("priorities", self.args.seed if seed is None else seed, number)
        kinds = load.deal(rng, count, list(classes.values()))
        requests = [dataclasses.replace(self.requests(1)[0], priority=list(classes)[kind]) for kind in kinds]
        return self.load(number, load.poisson(rng, requests, rate))

    def low_load(self, number, **fields):
        """A closed loop that keeps all slots taken and a queue behind them."""
        return self.load(number, self.requests(load.ENDLESS, "low"), users=2 * self.args.slots, **fields)

    def add_classes(self, where, what, run):
        for name in CLASSES:
            records = [r for r in run.records if what.requests[r.seq].priority == name]
            if records:
                load.add_times(self.metrics, where.at(name), records)

    def timed(self, server, what, where, may_fail=False):
        with timing(where):
            return self.suite.put(server, what, may_fail)

    def measure_capacity(self, server, where):
        args = self.args
        what = self.load(1, self.requests(self.count(args.capacity_requests)), users=2 * args.slots)
        run = self.timed(server, what, where)
        load.add_load(self.metrics, where, run)
        work = steady_rate(run.records, 1, 1)
        capacity = work / (args.prompt_tokens + args.output_tokens)
        self.metrics.add(where, work_per_s=work, capacity_per_s=capacity)
        if self.system != LLAMA or not self.capacity:  # The peer gets the load that was made for ropeway.
            self.capacity = capacity
        if not self.capacity:
            raise BenchError("no capacity could be measured")
        return (f"prompts of {args.prompt_tokens} tokens, {args.output_tokens} out; {len(what.requests)} requests, "
                f"{what.users} in flight")

    def measure_unloaded(self, server, where):
        count = self.count(self.args.unloaded_requests)
        short = load.same(count, self.args.prompt_tokens, min(UNLOADED_OUTPUT, self.args.output_tokens), "high")
        load.add_load(self.metrics, where, self.timed(server, self.load(2, short), where))
        return f"{count} requests, one after the other"

    def measure_open(self, server, where):
        rate = self.args.open_load * self.capacity
        what = self.open_load(3, self.count(self.args.open_requests), rate, dict.fromkeys(CLASSES, 1))
        run = self.timed(server, what, where)
        load.add_load(self.metrics, where, run)
        self.add_classes(where, what, run)
        self.metrics.add(where, offered_load=self.args.open_load)
        return f"Poisson, {rate:.2f} requests/s, a third of each class"

    def measure_overload(self, server, where):
        """More than the server can do, at its default --max-wait: it rejects what would wait longer."""
        rate = self.args.overload * self.capacity
        what = self.open_load(7, self.args.overload_requests, rate, dict.fromkeys(CLASSES, 1))
        run = self.timed(server, what, where, may_fail=True)
        rejected = [r for r in run.records if r.status == 429]
        load.check(dataclasses.replace(run, records=[r for r in run.records if r.status != 429]))
        load.add_load(self.metrics, where, run)
        self.add_classes(where, what, run)
        for name in CLASSES:
            self.metrics.add(where.at(name), rejected=sum(what.requests[r.seq].priority == name for r in rejected))
        self.metrics.add(where, offered_load=self.args.overload, rejected=len(rejected))
        return f"Poisson, {rate:.2f} requests/s, a third of each class, the default --max-wait"

    def measure_alone(self, server, where):
        seconds = LEAD_SECONDS + self.args.alone_seconds
        run = self.timed(server, self.low_load(4, duration=seconds), where)
        load.add_load(self.metrics, where, run)
        work = Trail(run.records, 1, 1).between(LEAD_SECONDS, seconds)
        self.metrics.add(where, work_per_s=work / (seconds - LEAD_SECONDS))
        return f"class low in a closed loop, {2 * self.args.slots} in flight"

    def measure_urgent(self, server, where):
        args = self.args
        share = args.high_load + args.medium_load
        urgent = self.open_load(6, self.count(args.urgent_requests), share * self.capacity,
                                {"high": args.high_load, "medium": args.medium_load})
        with timing(where):
            back, front = self.suite.beside(server, self.low_load(5), LEAD_SECONDS, urgent)
        self.add_classes(where, urgent, front)
        load.add_times(self.metrics, where.at("low"), back.records)
        begin = front.begin - back.begin
        span = urgent.requests[-1].arrival
        work = (Trail(back.records, 1, 1).between(begin, begin + span)
                + Trail(front.records, 1, 1, begin).between(begin, begin + span))
        self.metrics.add(where, work_per_s=ratio(work, span) or 0, wall_s=back.wall_s,
                         generator_cpu_share=back.cpu_share + front.cpu_share, offered_load=share)
        self.low = sorted(back.records, key=longest_gap, reverse=True)[:args.texts]
        return (f"class low in a closed loop, {2 * args.slots} in flight; Poisson, {args.high_load:g} of the capacity of "
                f"class high and {args.medium_load:g} of medium")

    def compare_texts(self):
        """Asks for the texts of class low again, one after the other, on a new server."""
        requests = [load.Request(prompt=r.prompt, output_tokens=self.args.output_tokens) for r in self.low]
        with self.start() as server:
            again = self.suite.put(server, self.load(8, requests))
        different = sum(a.output != b.output for a, b in zip(again.records, self.low))
        round_number = self.metrics.rounds(URGENT, self.system)
        self.metrics.add(Where(URGENT, self.system, round_number), texts_compared=len(self.low),
                         texts_different=different, longest_gap_s=longest_gap(self.low[0]),
                         least_longest_gap_s=longest_gap(self.low[-1]))
        self.suite.save()


def longest_gap(record):
    return max(record.gaps, default=0.0)


def measure(suite):
    if suite.args.part != SIMULATED:
        measure_servers(suite)
    if suite.args.part != MEASURED:
        Simulation(suite).run()


class Simulation:
    """The parts that a model of the machine can stand for: ropeway's scheduler in virtual time, on a device whose steps
    take what --step-times says."""

    def __init__(self, suite):
        self.suite, self.args, self.metrics = suite, suite.args, suite.metrics
        self.bench = Bench(suite, ROPEWAY, 0.0)

    def replay(self, requests, slots):
        """(records, {metric: value}). Requests without an arrival are a closed loop of as many users as for a server."""
        step, decode, prefill = self.args.step_times
        lines = [{"input_tokens": r.input_tokens, "output_tokens": r.output_tokens, "priority": r.priority}
                 | ({} if r.arrival is None else {"arrival": r.arrival}) for r in requests]
        run, text = self.suite.replay(lines, "--as-served", "--policy", "priority+fair", "--max-num-seqs", slots,
                                      "--users", 2 * self.args.slots, "--pool-blocks", SIMULATED_BLOCKS, "--step-ms", step,
                                      "--decode-ms", decode, "--prefill-ms", prefill)
        return run.records, cells(text)[0][3]

    def measuring(self, part):
        """Yields (Where, seed)."""
        for where in self.suite.measuring(f"{SIMULATED} {part}", ROPEWAY, virtual=True):
            yield where, self.args.seed + where.round - 1

    def add(self, where, requests, records, values, text):
        """The metrics of all together, and of each class."""
        load.add_times(self.metrics, where, records)
        for name in CLASSES:
            of_class = [r for r in records if requests[r.seq].priority == name]
            if of_class:
                load.add_times(self.metrics, where.at(name), of_class)
        self.metrics.add(where, load=text, preemptions=float(values["preemptions"]))

    def run(self):
        args, capacity = self.args, 0.0
        for where, _ in self.measuring(CAPACITY):
            requests = self.bench.requests(args.capacity_requests)
            records, values = self.replay(requests, DEFAULT_SLOTS)
            work = steady_rate(records, 1, 1)
            capacity = work / (args.prompt_tokens + args.output_tokens)
            self.add(where, requests, records, values, f"{len(requests)} requests, {2 * args.slots} in flight; a step "
                     "takes {:g} ms, {:g} more per decode and {:g} per token of a prompt".format(*args.step_times))
            self.metrics.add(where, work_per_s=work, capacity_per_s=capacity)
        for where, seed in self.measuring(OPEN):
            rate = args.open_load * capacity
            requests = self.bench.open_load(3, args.open_requests, rate, dict.fromkeys(CLASSES, 1), seed).requests
            self.add(where, requests, *self.replay(requests, DEFAULT_SLOTS),
                     f"Poisson, {rate:.2f} requests/s, a third of each class")
        for where, _ in self.measuring(ALONE):
            requests = self.low(args.alone_seconds * capacity)
            records, values = self.replay(requests, args.slots)
            self.add(where, requests, records, values, f"class low in a closed loop, {2 * args.slots} in flight")
            self.metrics.add(where, work_per_s=steady_rate(records, 1, 1))
        for where, seed in self.measuring(URGENT):
            self.simulate_urgent(where, seed, capacity)

    def low(self, count):
        return self.bench.requests(int(count) + 2 * self.args.slots, "low")

    def simulate_urgent(self, where, seed, capacity):
        args = self.args
        rate = (args.high_load + args.medium_load) * capacity
        urgent = self.bench.open_load(6, args.urgent_requests, rate,
                                      {"high": args.high_load, "medium": args.medium_load}, seed).requests
        urgent = [dataclasses.replace(r, arrival=LEAD_SECONDS + r.arrival) for r in urgent]
        span = urgent[-1].arrival
        requests = urgent + self.low(span * capacity)
        records, values = self.replay(requests, args.slots)
        self.add(where, requests, records, values, f"class low in a closed loop, {2 * args.slots} in flight; Poisson, "
                 f"{args.high_load:g} of the capacity of class high and {args.medium_load:g} of medium")
        work = Trail(records, 1, 1).between(LEAD_SECONDS, span)
        self.metrics.add(where, work_per_s=ratio(work, span - LEAD_SECONDS))


def measure_servers(suite):
    systems = [SERVER] if suite.args.base_url else [ROPEWAY] + ([LLAMA] if suite.has_llama else [])
    capacity = 0.0
    for system in systems:
        if suite.wants(system):
            bench = Bench(suite, system, capacity)
            bench.run()
            capacity = bench.capacity


def ours(metrics):
    return SERVER if SERVER in metrics.systems(OPEN) else ROPEWAY


def samples(count):
    return "" if count is None else f"{count:.0f} samples{few(count)}"


def ttft(metrics, part, name, limit, more=""):
    system = ours(metrics)
    seconds = metrics.median(part, system, "ttft_p99_s", name)
    return Verdict(f"{part}: {name} TTFT p99, ms", None if seconds is None else 1000 * seconds, limit,
                   samples(metrics.median(part, system, "requests", name)) + more, at_most=True)


def urgent_ttft(metrics, factor):
    unloaded = metrics.median(UNLOADED, ours(metrics), "ttft_p50_s")
    step = metrics.median(ALONE, ours(metrics), "itl_p50_s")
    limit = URGENT_LIMIT * factor
    if unloaded is None or step is None:
        return ttft(metrics, URGENT, "high", limit, f"; limit: {limit:g} ms")
    text = f"; limit: the larger of {limit:g} ms and unloaded {1000 * unloaded:.1f} + 2 steps of {1000 * step:.1f} ms"
    return ttft(metrics, URGENT, "high", max(limit, 1000 * (unloaded + 2 * step)), text)


def urgent_itl(metrics, metric, words):
    """Against the step of a full batch: `metric` of low alone."""
    high = metrics.median(URGENT, ours(metrics), "itl_p99_s", "high")
    step = metrics.median(ALONE, ours(metrics), metric)
    of = "" if None in (high, step) else f"{1000 * high:.1f} / {1000 * step:.1f} ms; "
    return Verdict(f"{URGENT}: high ITL p99 over {words}", ratio(high, step), 1.3,
                   of + samples(metrics.median(URGENT, ours(metrics), "itl_samples", "high")), at_most=True)


def verdicts(metrics, factor=1.0):
    found, system = [], ours(metrics)
    if metrics.systems(OPEN):
        found += [ttft(metrics, OPEN, name, limit * factor) for name, limit in zip(CLASSES, OPEN_LIMITS)]
    if metrics.systems(OVERLOAD):
        rejected = metrics.median(OVERLOAD, system, "rejected")
        found.append(Verdict(f"{OVERLOAD}: longest wait of accepted requests, s",
                             metrics.median(OVERLOAD, system, "ttft_max_s"), DEFAULT_MAX_WAIT,
                             report.shown("{:.0f} rejected; limit: the default --max-wait", rejected), at_most=True))
    found += simulated_verdicts(metrics, factor)
    if not metrics.systems(URGENT):
        return found

    def urgent(metric):
        return metrics.median(URGENT, system, metric)

    both, alone = urgent("work_per_s"), metrics.median(ALONE, system, "work_per_s")
    return found + [
        urgent_ttft(metrics, factor), ttft(metrics, URGENT, "medium", URGENT_MEDIUM_LIMIT * factor),
        urgent_itl(metrics, "itl_p50_s", "the full batch's decode step (low alone, p50)"),
        urgent_itl(metrics, "itl_p99_s", "the full batch's step with prompts (low alone, p99)"),
        Verdict("low and urgent: work (1 x prompt + 1 x output tokens) over low alone", ratio(both, alone), 0.95,
                report.shown("{:.0f} / {:.0f} tokens/s", both, alone)),
        Verdict("low and urgent: tokens recomputed", urgent("recomputed_tokens"), 0,
                report.shown("{:.0f} preemptions", urgent("preemptions")), at_most=True),
        Verdict("low and urgent: texts of paused requests that differ from an unloaded run's",
                urgent("texts_different"), 0, report.shown(
                    "the {:.0f} with the longest pauses between tokens: {:.2f} to {:.2f} s", urgent("texts_compared"),
                    urgent("least_longest_gap_s"), urgent("longest_gap_s")), at_most=True)]


def simulated_verdicts(metrics, factor):
    _, opened, alone, urgent = SIMULATED_PARTS
    found = []
    if metrics.systems(opened):
        found += [ttft(metrics, opened, name, limit * factor) for name, limit in zip(CLASSES, OPEN_LIMITS)]
    if metrics.systems(urgent):
        high, low = (metrics.median(urgent, ROPEWAY, metric, name)
                     for metric, name in (("itl_p99_s", "high"), ("itl_p50_s", "low")))
        both, before = (metrics.median(part, ROPEWAY, "work_per_s") for part in (urgent, alone))
        found += [ttft(metrics, urgent, "high", URGENT_LIMIT * factor),
                  ttft(metrics, urgent, "medium", URGENT_MEDIUM_LIMIT * factor),
                  Verdict(f"{urgent}: high ITL p99 over low's p50", ratio(high, low), URGENT_GAPS,
                          "" if None in (high, low) else f"{1000 * high:.1f} / {1000 * low:.1f} ms", at_most=True),
                  Verdict(f"{urgent}: work (1 x prompt + 1 x output tokens) over low alone", ratio(both, before), 0.95,
                          report.shown("{:.0f} / {:.0f} tokens/s", both, before))]
    return found


def report_text(metrics, args):
    text = report.verdict_table(verdicts(metrics, args.limit_factor))
    if args.limit_factor != 1:
        text += f"\nLimits of TTFT are times {args.limit_factor:g}.\n"
    for part in PARTS:
        table = report.system_table(metrics, part, COLUMNS)
        classes = report.x_table(metrics, part, "class", COLUMNS)
        text += report.section(part, f"{classes}\nAll together:\n\n{table}" if classes else table)
    return text + report.FEW_SAMPLES_NOTE


def draw(axes, metrics):
    for axis, part, metric, title in ((axes[0], OPEN, "ttft_p99_s", "open loop: TTFT p99, ms"),
                                      (axes[1], URGENT, "ttft_p99_s", "saturated by low: TTFT p99, ms"),
                                      (axes[2], URGENT, "itl_p99_s", "saturated by low: ITL p99, ms")):
        plot.bars(axis, {f"{system}, {name}": metrics.median(part, system, metric, name)
                         for system in metrics.systems(part, metric=metric) for name in CLASSES}, title, 1000)
    plot.bars(axes[3], {f"{system}, {part}": metrics.median(part, system, "work_per_s")
                        for system in metrics.systems(ALONE, metric="work_per_s") for part in (ALONE, URGENT)},
              "work, tokens/s")
