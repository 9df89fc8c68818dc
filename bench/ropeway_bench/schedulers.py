"""Batching strategies side by side: serial, static, dynamic and continuous on the same engine.

Starts the servers itself, one after the other, on a machine that should do nothing else.
"""
import itertools
import json
import pathlib

from ropeway_bench import BenchError, load, plot, report, servers
from ropeway_bench.metrics import ratio
from ropeway_bench.report import Column, Verdict
from ropeway_bench.suite import counts, duration, milliseconds, real, timing, whole

TITLE = "Batching strategies"
SERIAL, PADDED, UNPADDED, DYNAMIC, CONTINUOUS = (
    "serial", "static, padded", "static, unpadded", "dynamic", "continuous")
STRATEGIES = (SERIAL, PADDED, UNPADDED, DYNAMIC, CONTINUOUS)
LLAMA, SERVER = "llama-server", "server"
CEILING, MIXED = "ceiling", "mixed"
CEILING_SLOTS = 16
CEILING_PROMPT = 16
LEAST_REQUESTS = 20
PROMPTS = pathlib.Path(__file__).resolve().parents[1] / "data" / "prompts.jsonl"
RATE = "output_tok_per_s"
KNOWN = {16: 8.5}  # Times the throughput of serial at a batch of so many in the classic literature, on a GPU.

COLUMNS = [Column("requests", "requests"), Column("failed", "failed"), Column("output tok/s", RATE, 1, 1),
           Column("requests/s", "requests_per_s", 1, 2), *report.TTFT_S, *report.ITL, *report.LATENCY,
           Column("batches", "batches"), Column("batch size", "batch_size", 1, 1),
           Column("slots used while requests wait %", "slot_share", 100, 1), Column("busy %", "busy_share", 100, 1),
           Column("rows a step", "rows_per_step", 1, 1), Column("output tokens", "output_tokens"),
           Column("wall s", "wall_s", 1, 1), *report.OTHERS]


def add_flags(parser):
    parser.add_argument("--part", choices=("mixed", "sizes", "users", "ceiling", "all"), default="all",
                        help="mixed: short runs of small batches with the prompts of bench/data/prompts.jsonl; sizes: "
                        "each batch size with twice as many in flight; users: few users, serial against continuous; "
                        "ceiling: what a batch brings to decoding alone")
    parser.add_argument("--sizes", type=counts(256), default=[1, 2, 4, 8, 16], help="batch sizes")
    parser.add_argument("--users", type=counts(256), default=[6, 8], help="numbers of users")
    parser.add_argument("--requests-per-slot", type=whole(1, 10000), default=20,
                        help="requests per slot of a batch; half as many per user in the users' part")
    parser.add_argument("--batch-timeout", type=duration, default=0.05,
                        help="how long a dynamic or static batch waits for more requests, in sizes")
    parser.add_argument("--least-prompt", type=whole(8, 100000), default=16, help="tokens of the shortest prompt")
    parser.add_argument("--most-prompt", type=whole(8, 100000), default=32, help="tokens of the longest prompt")
    parser.add_argument("--output-tokens", type=real(1, 100000), default=20, help="median of the answers, log-normal")
    parser.add_argument("--spread", type=real(0, 3), default=1.1, help="standard deviation of the answers' logarithms")
    parser.add_argument("--most-output", type=real(1, 100000), default=256, help="longest answer")
    parser.add_argument("--ceiling-tokens", type=whole(2, 100000), default=96, help="answers of the ceiling's part")
    parser.add_argument("--mixed-runs", type=whole(1, 1000), default=3)
    parser.add_argument("--mixed-requests", type=whole(1, 100000), default=30, help="of each run")
    parser.add_argument("--mixed-batch", type=whole(1, 1000), default=4, help="batch size")
    parser.add_argument("--mixed-in-flight", type=whole(1, 10000), default=10, help="requests in flight at most")
    parser.add_argument("--mixed-timeout", type=duration, default=0.5,
                        help="how long a dynamic or static batch waits for more requests")


def make_quick(args):
    args.sizes = [16] if args.sizes == [1, 2, 4, 8, 16] else args.sizes
    args.users = [8] if args.users == [6, 8] else args.users
    args.requests_per_slot = min(args.requests_per_slot, 8)
    args.mixed_runs = 1
    args.ceiling_tokens = min(args.ceiling_tokens, 48)


def prepare(suite):
    if suite.args.most_prompt < suite.args.least_prompt:
        raise BenchError("--most-prompt: must be at least --least-prompt")


def flags_of(strategy, batch, timeout):
    """Of `ropeway serve`: as many slots as the batch; all that is offered is queued, and no request of class high joins a
    batch that runs: a strategy is compared as it is."""
    flags = ["--max-num-seqs", batch, *servers.QUEUE_ALL]
    flags += [] if strategy == CONTINUOUS else servers.PURE
    if strategy == DYNAMIC:
        return flags + ["--scheduler", "dynamic", "--max-batch-size", batch, "--batch-timeout", milliseconds(timeout)]
    if strategy in (PADDED, UNPADDED):
        return flags + ["--scheduler", "static", "--static-padding", "on" if strategy == PADDED else "off",
                        "--max-batch-size", batch, "--static-flush", milliseconds(timeout)]
    return flags + ["--scheduler", strategy]


def start(suite, strategy, batch, timeout):
    args = suite.args
    if strategy == SERVER:
        return suite.given()
    if strategy == LLAMA:
        return suite.llama(batch, args.most_prompt + int(args.most_output) + 16)
    return suite.ropeway(*flags_of(strategy, batch, timeout))


def compare(suite, part, strategies, batch, timeout, loads, text):
    """Each strategy under the same loads, one after the other."""
    for strategy in strategies:
        for where in suite.measuring(part, strategy):
            with start(suite, strategy, batch, timeout) as server:
                before = server.page()
                with timing(where):
                    runs = [suite.put(server, what) for what in loads]
                load.add_load(suite.metrics, where, *runs)
                suite.metrics.add(where, **servers.scheduler_metrics(server, before), command=server.command, load=text)


def systems(suite):
    if suite.args.base_url:
        return [SERVER]
    return [*STRATEGIES] + ([LLAMA] if suite.has_llama else [])


def random_load(suite, count, in_flight):
    """Random prompts and lengths: the same for all strategies."""
    args = suite.args
    rng = load.random_of("schedulers", args.seed, count)
    requests = [load.Request(rng.randint(args.least_prompt, args.most_prompt),
                             load.log_normal(rng, args.output_tokens, args.spread, 1, args.most_output))
                for _ in range(count)]
    text = (f"1 run of {count} requests, {in_flight} in flight; prompts of {args.least_prompt} to {args.most_prompt} "
            f"tokens, answers log-normal, median {args.output_tokens:g}, spread {args.spread:g}, cut at "
            f"{args.most_output:g}; seed {args.seed}")
    return [suite.load(requests, users=in_flight)], text


def mixed_load(suite):
    """The prompts of the checked-in file, in each run."""
    args = suite.args
    asked = [json.loads(line) for line in PROMPTS.read_text(encoding="utf-8").splitlines()]
    requests = [load.Request(prompt=p["prompt"], output_tokens=p["max_tokens"])
                for p in itertools.islice(itertools.cycle(asked), args.mixed_requests)]
    text = (f"{args.mixed_runs} run{'' if args.mixed_runs == 1 else 's'} of {len(requests)} requests, "
            f"{args.mixed_in_flight} in flight; prompts and answers' lengths of {PROMPTS.name}")
    return [suite.load(requests, users=args.mixed_in_flight) for _ in range(args.mixed_runs)], text


def wants(args, part):
    # A given server has one strategy and one number of slots.
    return args.part in (part, "all") and not (args.base_url and part in ("users", "ceiling"))


def measure(suite):
    args = suite.args
    if wants(args, CEILING):
        measure_ceiling(suite)
    if wants(args, MIXED):
        compare(suite, MIXED, systems(suite), args.mixed_batch, args.mixed_timeout, *mixed_load(suite))
    for size in args.sizes if wants(args, "sizes") else []:
        count = max(LEAST_REQUESTS, args.requests_per_slot * size)
        compare(suite, f"batch of {size}", systems(suite), size, args.batch_timeout,
                *random_load(suite, count, 2 * size))
    for users in args.users if wants(args, "users") else []:
        count = max(LEAST_REQUESTS, args.requests_per_slot * users // 2)
        compare(suite, f"{users} users", (SERIAL, CONTINUOUS), max(users, CEILING_SLOTS), args.batch_timeout,
                *random_load(suite, count, users))


def measure_ceiling(suite):
    """1, 6, ... requests at once, of equal lengths: while all decode, a step takes the median of the gaps."""
    args = suite.args
    together = sorted({1, CEILING_SLOTS, *args.users})
    for where in suite.measuring(CEILING, CONTINUOUS):
        with start(suite, CONTINUOUS, max(together), 0) as server, timing(where):
            for users in together:
                what = suite.load(load.same(users, CEILING_PROMPT, args.ceiling_tokens), users=users,
                                  seed=args.seed * 1000 + 900 + users)
                at = where.at(users)
                load.add_times(suite.metrics, at, suite.put(server, what).records)
                step = suite.metrics.values(CEILING, CONTINUOUS, "itl_p50_s", at.x, at.round)
                suite.metrics.add(at, decode_tok_per_s=ratio(users, step[0] if step else None))
            suite.metrics.add(where, command=server.command)


def over(metrics, part, users, other, target_vnni, target):
    """Throughput of continuous batching over another. `target_vnni` is for machines with AVX-512 VNNI, `target` for
    others, whose decode speed grows less with the batch."""
    ours, theirs = (metrics.median(part, system, RATE) for system in (CONTINUOUS, other))
    ceiling = ratio(metrics.median(CEILING, CONTINUOUS, "decode_tok_per_s", users),
                    metrics.median(CEILING, CONTINUOUS, "decode_tok_per_s", 1))
    vnni = metrics.text(part, CONTINUOUS, "kernels") == "avx512vnni"
    of = report.shown("{:.1f} / {:.1f} tok/s", ours, theirs)
    of += report.shown("; ceiling {:.2f}: decode speed at " + f"{users} / at 1", ceiling)
    gained = ratio(ours, theirs)
    if other == SERIAL and gained is not None and users in KNOWN:
        of += f"; known of a GPU: {KNOWN[users]:g}, {'met' if gained >= KNOWN[users] else 'missed'}"
    return Verdict(f"{part}: output tok/s, continuous over {other}", gained, target_vnni if vnni else target, of)


def verdicts(metrics):
    found = []
    if metrics.systems("batch of 16"):
        part = "batch of 16"
        found += [over(metrics, part, 16, PADDED, 2.5, 2.5), over(metrics, part, 16, UNPADDED, 1.5, 1.5),
                  over(metrics, part, 16, SERIAL, 2.8, 1.7),
                  Verdict(f"{part}: share of max_num_seqs used while requests wait",
                          metrics.median(part, CONTINUOUS, "slot_share"), 0.85, "continuous, from /metrics")]
    for users, target_vnni, target in ((8, 2.3, 1.7), (6, 2.0, 1.5)):
        if metrics.systems(f"{users} users"):
            found.append(over(metrics, f"{users} users", users, SERIAL, target_vnni, target))
    return found


def report_text(metrics, _args=None):
    parts = [part for part in metrics.parts() if part != CEILING]
    text = report.verdict_table(verdicts(metrics))
    text += report.section("Output tok/s", report.part_table(metrics, parts, RATE))
    text += report.section("ceiling: what a batch brings to decoding alone", report.x_table(
        metrics, CEILING, "decode together",
        [Column("decode tok/s", "decode_tok_per_s", 1, 1), Column("ITL p50 ms", "itl_p50_s", 1000, 2)]))
    for part in parts:
        text += report.section(part, report.system_table(metrics, part, COLUMNS))
    return text + report.FEW_SAMPLES_NOTE


def draw(axes, metrics):
    sizes = sorted(int(part.removeprefix("batch of ")) for part in metrics.parts() if part.startswith("batch of "))
    curves = {}
    for size in sizes:
        for system in metrics.systems(f"batch of {size}", metric=RATE):
            curves.setdefault(system, []).append((size, metrics.median(f"batch of {size}", system, RATE)))
    plot.lines(axes[0], curves, "output tok/s by batch size, twice as many in flight", "batch size")
    largest = f"batch of {max(sizes, default=0)}"
    plot.metric_bars(axes[1], metrics, largest, "ttft_p50_s", f"{largest}: median TTFT, s")
    plot.metric_bars(axes[2], metrics, largest, "slot_share", f"{largest}: slots used while requests wait, %", 100)
    plot.metric_bars(axes[3], metrics, MIXED, "latency_p50_s", "mixed: median latency, s")
