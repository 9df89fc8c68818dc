"""Serial against batched processing of 32 requests that are there at once, at several batch sizes.

Parts: engine, on `ropeway serve`; simulated, the same engine core over a backend that takes 50 ms per call, whatever
is in it, in virtual time. Starts the servers itself, on a machine that should do nothing else.
"""
import math

from ropeway_bench import load, plot, report, schedulers
from ropeway_bench.metrics import ratio
from ropeway_bench.report import Column, Verdict
from ropeway_bench.suite import counts, duration, real, timing, whole

TITLE = "Serial against batched"
ENGINE, SIMULATED, CEILING = "engine", "simulated", "ceiling"
SERIAL = "serial"
SIMULATED_PROMPT = 8  # Tokens: a batch of them fits into one step.
TARGETS = {ENGINE: 0.7, SIMULATED: 0.95}  # Of the theoretical maximum.

COLUMNS = [Column("requests", "requests"), Column("duration s", "wall_s", 1, 3),
           Column("requests/s", "requests_per_s", 1, 2), Column("output tok/s", "output_tok_per_s", 1, 1),
           report.LATENCY[0], report.LONGEST_WAIT,
           Column("calls", "calls"), *report.OTHERS]


def add_flags(parser):
    parser.add_argument("--part", choices=("engine", "simulated", "all"), default="all")
    parser.add_argument("--requests", type=whole(1, 10000), default=32, help="all there at once")
    parser.add_argument("--sizes", type=counts(256), default=[1, 2, 4, 8, 16], help="batch sizes")
    parser.add_argument("--strategy", choices=("dynamic", "continuous"), default="dynamic",
                        help="how the engine's part batches")
    parser.add_argument("--batch-timeout", type=duration, default=0.05, help="of the dynamic strategy")
    parser.add_argument("--prompt-tokens", type=whole(8, 100000), default=16)
    parser.add_argument("--output-tokens", type=whole(2, 100000), default=64)
    parser.add_argument("--call-ms", type=real(0.001, 100000), default=50.0, help="of the simulated backend")


def make_quick(args):
    args.requests, args.output_tokens = min(args.requests, 8), min(args.output_tokens, 16)
    args.sizes = [size for size in args.sizes if size in (1, 4)] or args.sizes[:2]


def name_of(size):
    return f"batch of {size}"


def measure(suite):
    args = suite.args
    systems = {SERIAL: (schedulers.SERIAL, 1)} | {name_of(size): (args.strategy, size) for size in args.sizes}
    if args.part != SIMULATED and not args.base_url:
        measure_ceiling(suite)
        for name, (strategy, size) in systems.items():
            measure_engine(suite, name, strategy, size)
    if args.part != ENGINE:
        for name, (_, size) in systems.items():
            simulate(suite, name, size)


def requests_of(suite, count):
    return load.same(count, suite.args.prompt_tokens, suite.args.output_tokens)


def measure_engine(suite, name, strategy, size):
    args = suite.args
    for where in suite.measuring(ENGINE, name):
        with suite.ropeway(*schedulers.flags_of(strategy, size, args.batch_timeout)) as server:
            before = server.page()
            with timing(where):
                run = suite.put(server, suite.load(requests_of(suite, args.requests), users=args.requests))
            load.add_load(suite.metrics, where, run)
            suite.metrics.add(where, calls=server.page().grown(before, "ropeway_step_time_seconds_count"),
                              command=server.command,
                              load=f"{args.requests} requests at once, {args.prompt_tokens} tokens in, "
                                   f"{args.output_tokens} out")


def measure_ceiling(suite):
    """What a batch brings to decoding alone: so many requests at once, while all of them decode."""
    args = suite.args
    for where in suite.measuring(CEILING, ENGINE):
        flags = schedulers.flags_of(schedulers.CONTINUOUS, max(args.sizes), 0)
        with suite.ropeway(*flags) as server, timing(where):
            for size in sorted({1, *args.sizes}):
                what = suite.load(requests_of(suite, size), users=size, seed=args.seed * 1000 + size)
                gaps = [gap for record in suite.put(server, what).records for gap in record.gaps]
                suite.metrics.add_distribution(where.at(size), "itl", gaps)
        suite.metrics.add(where, command=server.command)


def simulate(suite, name, size):
    args = suite.args
    for where in suite.measuring(SIMULATED, name, virtual=True):
        line = {"arrival": 0, "input_tokens": SIMULATED_PROMPT, "output_tokens": 1}
        run, _ = suite.replay([line] * args.requests, "--step-ms", args.call_ms, "--max-num-seqs", size,
                              "--prefix-caching", "off")
        run.wall_s = max(r.end for r in run.records)
        load.add_load(suite.metrics, where, run)
        suite.metrics.add(where, calls=round(run.wall_s * 1000 / args.call_ms), call_s=args.call_ms / 1000,
                          load=f"{args.requests} requests at once, {args.call_ms:g} ms per call")


def sizes(metrics, part):
    return sorted(int(s.removeprefix("batch of ")) for s in metrics.systems(part) if s != SERIAL)


def theoretical(metrics, part, size):
    """The largest possible improvement: on the simulated backend by the number of calls, on the engine the decode
    speed at this batch over that at 1."""
    if part == SIMULATED:
        requests = metrics.median(part, name_of(size), "requests")
        return None if requests is None else requests / math.ceil(requests / size)
    one, many = (metrics.median(CEILING, ENGINE, "itl_p50_s", x) for x in (1, size))
    return None if None in (one, many) else size * one / many


def improvement(metrics, part, size):
    return ratio(metrics.median(part, SERIAL, "wall_s"), metrics.median(part, name_of(size), "wall_s"))


def verdict(metrics, part, size):
    """Of the efficiency: the improvement over the theoretical maximum."""
    gained, most = improvement(metrics, part, size), theoretical(metrics, part, size)
    return Verdict(f"{part}, {name_of(size)}: share of the theoretical maximum", ratio(gained, most), TARGETS[part],
                   report.shown("{:.2f} / {:.2f} times serial", gained, most))


def verdicts(metrics):
    return [verdict(metrics, part, size) for part in (ENGINE, SIMULATED) for size in sizes(metrics, part)]


def comparison(metrics, part):
    rows = []
    for size in sizes(metrics, part):
        found = verdict(metrics, part, size)
        times = [metrics.median(part, system, "wall_s") for system in (SERIAL, name_of(size))]
        rows.append([str(size), *(report.shown("{:.3f}", t) for t in times),
                     report.shown("{:.2f}", improvement(metrics, part, size)),
                     report.shown("{:.2f}", theoretical(metrics, part, size)),
                     "" if found.measured is None else f"{100 * found.measured:.0f} %", found.word])
    return report.table(["batch size", "serial s" + report.LOWER, "batched s" + report.LOWER, "improvement",
                         "theoretical maximum", "efficiency", "verdict"], rows)


def report_text(metrics, _args):
    text = report.verdict_table(verdicts(metrics))
    for part in (ENGINE, SIMULATED):
        table = report.system_table(metrics, part, [c for c in COLUMNS if part == ENGINE or c not in report.OTHERS])
        text += report.section(part, table and f"{comparison(metrics, part)}\n{table}")
    return text


def draw(axes, metrics):
    for axis, part in zip(axes, (ENGINE, SIMULATED)):
        curves = {"measured": improvement, "theoretical maximum": theoretical}
        plot.lines(axis, {name: [(size, value) for size in sizes(metrics, part)
                                 if (value := function(metrics, part, size)) is not None]
                          for name, function in curves.items()},
                   f"{part}: throughput over serial", "batch size")
    plot.metric_bars(axes[2], metrics, ENGINE, "wall_s", "engine: duration, s")
    plot.metric_bars(axes[3], metrics, SIMULATED, "wall_s", "simulated: duration, s")
