"""Prompts that begin alike: what it brings to compute once what they share.

Parts: shared, many users behind one long prompt; curves, hit ratios of a whole --trace in virtual time
(ropeway-bench replay); slice, a part of the trace on the real engine, at more than it can bear without a cache.
Starts the servers itself, one after the other, on a machine that should do nothing else.
"""
import argparse
import concurrent.futures
import csv
import dataclasses
import functools
import json
import math
import os
import pathlib
import random
import re
import tempfile

from ropeway_bench import BenchError, load, plot, report, servers
from ropeway_bench.metrics import Where, quantile, ratio
from ropeway_bench.report import Column, Verdict, shown
from ropeway_bench.suite import real, timing, whole

TITLE = "Prompts that begin alike"
SHARED, CURVES, SLICE = "shared prompt", "curves", "slice"
ON, OFF, LLAMA, SERVER = "cache on", "cache off", "llama-server", "server"
INFINITE, WARM = "no bounds", "cache on, filled as the trace had left it"
BLOCK = servers.BLOCK_TOKENS
TEMPLATE_TOKENS = 64       # That a chat template adds, at most.
CALIBRATION_USERS = 16
CALIBRATION_PART = 8       # One request in so many; with --quick one in half as many.
LEAST_DISK = 256 << 20
QUICK_PART = 6             # With --quick the slice is so much shorter.
GROWS_FROM, STABLE_TO = 0.15, 0.08  # drain_share; the last answers take their time also in a stable queue.

SHARED_COLUMNS = [Column("requests", "requests"), Column("failed", "failed"),
                  Column("output tok/s", "output_tok_per_s", 1, 1), Column("TTFT p50 s", "ttft_p50_s", 1, 3),
                  Column("TTFT p90 s", "ttft_p90_s", 1, 3), Column("prompt tokens", "prompt_tokens"),
                  Column("prefilled", "prefilled_tokens"),
                  Column("one prompt and the tails", "prompt_and_tails_tokens"), Column("wall s", "wall_s", 1, 1),
                  *report.OTHERS]
SLICE_COLUMNS = [Column("requests", "requests"), Column("failed", "failed"),
                 Column("offered / capacity", "offered_load", 1, 2), Column("arrivals s", "arrivals_s"),
                 Column("to drain s", "drain_s", 1, 1), Column("TTFT p50 s", "ttft_p50_s", 1, 3),
                 Column("TTFT p90 s", "ttft_p90_s", 1, 3), Column("cached %", "cached_share", 100, 1),
                 Column("from the pool %", "pool_share", 100, 1), Column("from disk %", "disk_share", 100, 1),
                 Column("infinite cache %", "infinite_share", 100, 1), report.OTHERS[0]]


def pools(text):
    """A converter for argparse, of a list such as 5,10.5,50."""
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = [0]
    if not all(a < b for a, b in zip([0, *values], values)) or values[-1] > 100:
        raise argparse.ArgumentTypeError(f"expected rising numbers above 0 and up to 100, with commas between, "
                                         f"not '{text}'")
    return values


def add_flags(parser):
    parser.add_argument("--part", choices=["shared", "curves", "slice", "all"], default="all")
    parser.add_argument("--users", type=whole(1, 1000), default=16, help="shared: users that ask at once")
    parser.add_argument("--requests", type=whole(1, 100000), default=32, help="shared: of all users together")
    parser.add_argument("--prompt-tokens", type=whole(1, 100000), default=2000, help="shared: the common prompt")
    parser.add_argument("--tail-tokens", type=whole(1, 100000), default=50, help="shared: of each user's own text")
    parser.add_argument("--output-tokens", type=whole(1, 100000), default=64, help="shared: of each answer")
    parser.add_argument("--trace", type=pathlib.Path, help="JSON lines with timestamp (ms), input_length, "
                        "output_length and hash_ids, as Mooncake's; curves and slice need it")
    parser.add_argument("--input-divisor", type=whole(1, 1000), default=16, help="of the trace's prompt lengths")
    parser.add_argument("--output-divisor", type=whole(1, 1000), default=4, help="of its answers' lengths")
    parser.add_argument("--block-tokens", type=whole(1, 100000), default=32,
                        help="tokens that one of hash_ids stands for, after the division")
    parser.add_argument("--pools", type=pools, default=[5, 10, 20, 30, 50], metavar="LIST",
                        help="curves: sizes of the pool in %% of the working set (default: 5,10,20,30,50)")
    parser.add_argument("--curve-load", type=real(0.01, 100), default=0.7,
                        help="curves: offered work over the virtual device's capacity, without a cache")
    parser.add_argument("--curve-requests", type=whole(0, 10**8), default=0,
                        help="curves: only so many from the trace's beginning; 0: all")
    parser.add_argument("--slice-start", type=real(0, 1e9), default=360, help="seconds of the trace before the slice")
    parser.add_argument("--slice-seconds", type=real(0.001, 1e9), default=180, help="seconds of the trace")
    parser.add_argument("--slice-load", type=real(0.01, 100), default=1.3,
                        help="offered work over the capacity that is measured without a cache")
    parser.add_argument("--slice-pool", type=real(0.01, 100), default=0.33,
                        help="the KV cache as part of the slice's working set; a disk tier has room for all")
    parser.add_argument("--max-request-tokens", type=whole(1, 10**8), default=8192, help="slice: leave out longer ones")
    parser.add_argument("--kv-cache-dtype", choices=["f16", "q8_0"], default="q8_0", help="slice")


def make_quick(args):
    args.pools = [10, 30]
    args.requests = min(args.requests, args.users)
    args.curve_requests = args.curve_requests or 4000


# The trace.


@dataclasses.dataclass
class Asked:
    """A request of the scaled trace: its prompt is the first input_tokens tokens of its blocks'."""
    arrival: float
    input_tokens: int
    output_tokens: int
    blocks: list


def read_trace(args):
    found = []
    try:
        for line in args.trace.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            asked = Asked(entry["timestamp"] / 1000, -(-entry["input_length"] // args.input_divisor),
                          -(-entry["output_length"] // args.output_divisor), entry["hash_ids"])
            if len(asked.blocks) != -(-asked.input_tokens // args.block_tokens):
                raise BenchError(f"request {len(found) + 1} of the trace must have one of hash_ids for each "
                                 f"{args.block_tokens * args.input_divisor} of its input tokens")
            found.append(asked)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"--trace: {args.trace}: {error!r}") from error
    if not found:
        raise BenchError(f"--trace: {args.trace} holds no requests")
    return found


@dataclasses.dataclass
class InfiniteCache:
    """What a cache without bounds finds of requests that come one after the other."""
    input_tokens: int = 0
    output_tokens: int = 0
    hit_tokens: int = 0       # In whole blocks of the trace.
    hit_kv_tokens: int = 0    # In KV blocks, and never a prompt's last token.
    distinct_tokens: int = 0  # Of the prompts: what the cache holds in the end, without answers.

    @classmethod
    def of(cls, requests, block_tokens, before=()):
        cache, known = cls(), {block for r in before for block in r.blocks}
        for r in requests:
            found = block_tokens * next((i for i, b in enumerate(r.blocks) if b not in known), len(r.blocks))
            cache.input_tokens += r.input_tokens
            cache.output_tokens += r.output_tokens
            cache.hit_tokens += min(found, r.input_tokens)
            cache.hit_kv_tokens += min(found // BLOCK * BLOCK, (r.input_tokens - 1) // BLOCK * BLOCK)
            for i, block in enumerate(r.blocks):
                if block not in known:
                    known.add(block)
                    cache.distinct_tokens += min(r.input_tokens - i * block_tokens, block_tokens)
        return cache


@functools.lru_cache(maxsize=65536)
def block_ids(block, count):
    rng = random.Random(block)
    return [rng.randint(1000, 29999) for _ in range(count)]


def prompt_ids(asked, block_tokens):
    """Token ids made of the blocks' names alone: prompts agree exactly as far as the trace says."""
    ids = [token for block in asked.blocks for token in block_ids(block, block_tokens)]
    return ids[:asked.input_tokens]


def replay(suite, requests, stretch, *flags):
    """{metric: value} of `ropeway-bench replay` over requests whose times are stretched."""
    first = requests[0].arrival
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        for r in requests:
            json.dump({"arrival": (r.arrival - first) * stretch, "input_tokens": r.input_tokens,
                       "output_tokens": r.output_tokens, "hash_ids": r.blocks}, file)
            file.write("\n")
        file.flush()
        text = suite.worker("replay", file.name, "--block-tokens", suite.args.block_tokens, *flags)
    return {row["metric"]: float(row["value"]) for row in csv.DictReader(text.splitlines())}


def work_seconds(suite, requests):
    """What they cost on the virtual device, without a cache."""
    return replay(suite, requests, 1, "--work-only")["work_s"]


def stretch_to(suite, requests, load_factor, work):
    span = requests[-1].arrival - requests[0].arrival
    return work / load_factor / span if span > 0 else 1


# Measurements.


def prepare(suite):
    args = suite.args
    traced = args.part in ("curves", "slice")
    if traced and not args.trace:
        raise BenchError(f"--part: {args.part} needs a --trace")
    if traced and args.base_url:
        raise BenchError(f"--part: {args.part} runs engines of its own, which --base-url excludes")
    suite.trace = read_trace(args) if args.trace and not args.base_url else None


def measure(suite):
    part = suite.args.part
    if part in ("shared", "all"):
        measure_shared(suite)
    if suite.trace and part in ("curves", "all"):
        measure_curves(suite)
    if suite.trace and part in ("slice", "all"):
        Slice(suite).measure()


def words(*seeds, count):
    rng = load.random_of(*seeds)
    return " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 6))) for _ in range(count))


def start_shared(suite, system):
    args = suite.args
    if system == SERVER:
        return suite.given()
    if system == LLAMA:
        longest = args.prompt_tokens + args.tail_tokens + args.output_tokens + TEMPLATE_TOKENS
        return suite.llama(args.users, longest, unit=512)
    return suite.ropeway(*(["--prefix-caching", "off"] if system == OFF else []))


def measure_shared(suite):
    args, metrics = suite.args, suite.metrics
    system_prompt = words(args.seed, "shared", count=args.prompt_tokens)
    requests = [load.Request(output_tokens=args.output_tokens, messages=[
        {"role": "system", "content": system_prompt},
        {"role": "user", "content": words(args.seed, "tail", i, count=args.tail_tokens)}])
        for i in range(args.requests)]
    systems = [SERVER] if args.base_url else [ON, OFF] + ([LLAMA] if suite.has_llama else [])
    for system in systems:
        for where in suite.measuring(SHARED, system):
            with start_shared(suite, system) as server:
                with timing(where):
                    run = suite.put(server, suite.load(requests, users=args.users))
                load.add_load(metrics, where, run)
                # One prompt and each request's own text; blocks are shared as a whole, so up to a block less
                # one token of the prompt is each one's own.
                bound = args.prompt_tokens + sum(r.input_tokens - args.prompt_tokens + BLOCK - 1 for r in run.records)
                told = any(r.cached_tokens is not None for r in run.records)
                metrics.add(where, prefilled_tokens=sum(r.prefilled for r in run.records) if told else None,
                            prompt_and_tails_tokens=bound, command=server.command,
                            load=f"{args.users} users, {args.requests} requests: a system prompt of "
                                 f"{args.prompt_tokens} words that all share, {args.tail_tokens} words each, "
                                 f"{args.output_tokens} tokens out, seed {args.seed}")


def measure_curves(suite):
    args, metrics = suite.args, suite.metrics
    requests = suite.trace[:args.curve_requests or None]
    cache = InfiniteCache.of(requests, args.block_tokens)
    working_set = (cache.distinct_tokens + cache.output_tokens) // BLOCK + 1
    stretch = stretch_to(suite, requests, args.curve_load, work_seconds(suite, requests))
    # Each answer may end in a block of its own.
    everything = working_set + 2 * len(requests)
    points = [(INFINITE, "", ("--pool-blocks", everything))]
    for pool in args.pools:
        for tier in (False, True):
            for eviction in ("cost", "LRU"):
                # A tier has copies of what is in the pool too, so it is given room for everything.
                points.append((eviction + (", tier" if tier else ""), f"{pool:g}", (
                    "--pool-blocks", math.ceil(working_set * pool / 100), "--eviction", eviction.lower(),
                    *(("--tier-blocks", everything) if tier else ()))))
    points = [point for point in points if suite.wants(point[0])]
    number = metrics.rounds(CURVES, INFINITE) + 1
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda point: replay(suite, requests, stretch, *point[2]), points))
    for (system, x, _), result in zip(points, results):
        metrics.add(Where(CURVES, system, number, x), **result)
    metrics.add(Where(CURVES, INFINITE, number), hit_share_by_hand=cache.hit_tokens / cache.input_tokens,
                hit_share_by_hand_in_kv_blocks=cache.hit_kv_tokens / cache.input_tokens,
                load=f"{len(requests)} requests, {cache.input_tokens} input tokens, working set {working_set} blocks "
                     f"of {BLOCK} tokens; time stretched {stretch:.2f}x to {args.curve_load:g} of the virtual "
                     "device's capacity")
    suite.save()


def warm_up_requests(before, requests, block_tokens):
    """The prompts whose blocks a cache that saw `before` has for `requests`: of each its known blocks; those
    that begin another one are left out."""
    known = {block for r in before for block in r.blocks}
    found = []
    for r in requests:
        count = next((i for i, b in enumerate(r.blocks) if b not in known), len(r.blocks))
        if count:
            # A block's token ids are known as a whole, so the last one is asked for as a whole too.
            found.append(Asked(0, count * block_tokens, 1, r.blocks[:count]))
    warmed, kept = set(), []
    for r in sorted(found, key=lambda r: -len(r.blocks)):
        if r.blocks[-1] not in warmed:
            kept.append(r)
        warmed.update(r.blocks)
    return kept


class Slice:
    """A slice of the trace, on servers without a cache, with an empty one, and with one that holds what the trace
    before it would have left."""

    def __init__(self, suite):
        args = self.args = suite.args
        self.suite = suite
        self.seconds = args.slice_seconds / (QUICK_PART if args.quick else 1)
        end = args.slice_start + self.seconds
        self.before = [r for r in suite.trace if r.arrival < args.slice_start]
        inside = [r for r in suite.trace if args.slice_start <= r.arrival < end]
        self.requests = [r for r in inside if r.input_tokens + r.output_tokens <= args.max_request_tokens]
        self.left_out = len(inside) - len(self.requests)
        if not self.requests:
            raise BenchError("--slice-start: the trace has no requests there")
        told = re.search(r"(\d+) KV bytes per token \((\d+) in q8_0\)", suite.inspect())
        if told is None:
            raise BenchError(f"--model: ropeway inspect does not tell the KV bytes per token of {args.model}")
        self.token_bytes = int(told[1] if args.kv_cache_dtype == "f16" else told[2])

    def asks(self, requests, stretch=None):
        first = requests[0].arrival
        return [load.Request(output_tokens=r.output_tokens, prompt=prompt_ids(r, self.args.block_tokens),
                             arrival=None if stretch is None else round((r.arrival - first) * stretch, 6))
                for r in requests]

    def capacity(self):
        """The seconds that the slice takes without a cache: one request in a few is asked."""
        part = CALIBRATION_PART // 2 if self.args.quick else CALIBRATION_PART
        sample = self.requests[::part]
        with self.suite.ropeway("--kv-cache-dtype", self.args.kv_cache_dtype, "--prefix-caching", "off") as server:
            with timing(Where(SLICE, "capacity")):
                run = self.suite.put(server, self.suite.load(self.asks(sample), users=CALIBRATION_USERS))
        return run.wall_s * work_seconds(self.suite, self.requests) / work_seconds(self.suite, sample)

    def measure(self):
        capacity = self.capacity()
        stretch = stretch_to(self.suite, self.requests, self.args.slice_load, capacity)
        for system in (OFF, ON, WARM):
            # From empty caches it says least: most slices share too little within themselves.
            if self.args.quick and system == ON:
                continue
            for where in self.suite.measuring(SLICE, system):
                self.measure_one(where, system, capacity, stretch)

    def measure_one(self, where, system, capacity, stretch):
        suite, args = self.suite, self.args
        warm_up = warm_up_requests(self.before, self.requests, args.block_tokens) if system == WARM else []
        found = InfiniteCache.of(self.requests, args.block_tokens, self.before if system == WARM else ())
        tokens = found.distinct_tokens + found.output_tokens + sum(r.input_tokens for r in warm_up)
        with servers.disk_folder(args.disk_path) as disk:
            flags = ["--kv-cache-dtype", args.kv_cache_dtype, *servers.QUEUE_ALL, "--kv-cache-size",
                     int(args.slice_pool * tokens) * self.token_bytes]
            flags += ["--prefix-caching", "off"] if system == OFF else [
                # Half as much again, for the overhead; and never less than a tier can do with.
                "--kv-disk-path", disk, "--kv-disk-size", max(LEAST_DISK, tokens * self.token_bytes * 3 // 2)]
            with suite.ropeway(*flags) as server:
                if warm_up:
                    suite.put(server, suite.load(self.asks(warm_up), users=CALIBRATION_USERS))
                before = server.page()
                with timing(where):
                    run = suite.put(server, suite.load(self.asks(self.requests, stretch)))
                suite.metrics.add(where, **servers.cache_metrics(server, before), command=server.command)
        self.add(where, run, found, capacity, stretch)

    def add(self, where, run, found, capacity, stretch):
        metrics, args = self.suite.metrics, self.args
        growth = queue_growth(run.records)
        metrics.add(where, requests=len(run.records), failed=0, offered_load=ratio(capacity, growth["arrivals_s"]),
                    capacity_s=capacity, **{k: v for k, v in growth.items() if k != "in_flight"},
                    ttft_p50_s=quantile([r.ttft for r in run.records], 0.5),
                    ttft_p90_s=quantile([r.ttft for r in run.records], 0.9),
                    infinite_share=found.hit_kv_tokens / found.input_tokens,
                    prefilled_tokens=sum(r.prefilled for r in run.records),
                    load=f"{self.seconds:g} s of the trace from {args.slice_start:g} s on, {len(self.requests)} "
                         f"requests ({self.left_out} too long left out), time stretched {stretch:.2f}x, prompts / "
                         f"{args.input_divisor}, answers / {args.output_divisor}")
        for i, value in enumerate(growth["in_flight"]):
            metrics.add(where.at(i + 1), in_flight=value)


def queue_growth(records):
    """Whether the queue grew: the time from the first to the last arrival, from there to the last answer, their
    ratio (it tends to L - 1 at a load of L times the capacity, and to 0 below 1), and the requests in flight, on
    average over each quarter of the arrivals' time."""
    arrivals = max(r.due for r in records)
    drain = max(r.end for r in records) - arrivals
    quarter = arrivals / 4
    in_flight = [sum(max(0, min(r.end, quarter * (i + 1)) - max(r.due, quarter * i)) for r in records) / quarter
                 for i in range(4)] if quarter > 0 else []
    return {"arrivals_s": arrivals, "drain_s": drain, "drain_share": drain / arrivals if arrivals > 0 else 0,
            "in_flight": in_flight}


# The report.


def rate_over(metrics, system, title, target):
    ours, theirs = (metrics.median(SHARED, name, "output_tok_per_s") for name in (ON, system))
    return Verdict(title, ratio(ours, theirs), target, shown("{:.1f} / {:.1f} tok/s", ours, theirs))


def growth_verdict(metrics, system, grows):
    first, last = (metrics.median(SLICE, system, "in_flight", x) for x in (1, 4))
    state = "the queue grows" if grows else "the queue is stable"
    return Verdict(f"slice, {system}: time to drain over the arrivals' time ({state})",
                   metrics.median(SLICE, system, "drain_share"), GROWS_FROM if grows else STABLE_TO,
                   shown("in flight, first and last quarter: {:.1f}, {:.1f}", first, last), at_most=not grows)


def verdicts(metrics):
    found = []
    if metrics.systems(SHARED):
        prefilled, bound = (metrics.median(SHARED, ON, m) for m in ("prefilled_tokens", "prompt_and_tails_tokens"))
        found += [rate_over(metrics, LLAMA, "shared prompt: output tok/s over llama-server", 20),
                  rate_over(metrics, OFF, "shared prompt: output tok/s over the cache off", 5),
                  Verdict("shared prompt: prefilled tokens over one prompt and the tails", ratio(prefilled, bound), 1,
                          shown("{:.0f} / {:.0f} tokens", prefilled, bound), at_most=True)]
    if metrics.systems(CURVES):
        found.append(Verdict("curves: share of input tokens that a cache without bounds finds",
                             metrics.median(CURVES, INFINITE, "hit_share"), 0.37, "37.4 % in whole blocks of the trace"))
    if metrics.systems(SLICE):
        found += [growth_verdict(metrics, system, system == OFF) for system in (OFF, ON, WARM)]
    return found


def report_text(metrics, _args):
    size = "pool, % of the working set"
    text = report.verdict_table(verdicts(metrics))
    text += report.section("Users behind one prompt", report.system_table(metrics, SHARED, SHARED_COLUMNS))
    text += report.section("Hit ratio by size of the pool", report.cross_table(
        metrics, CURVES, size, Column("Input tokens that were cached, %:", "hit_share", 100, 1)))
    text += report.section("Prefill work saved by size of the pool", report.cross_table(
        metrics, CURVES, size, Column("Time to compute all prompts, by the cost formula, less that of what was "
                                      "computed, %:", "saved_share", 100, 1)))
    text += report.section("A slice of the trace on the real engine",
                           report.system_table(metrics, SLICE, SLICE_COLUMNS))
    return text + report.section("Requests in flight, by quarter of the arrivals' time",
                                 report.cross_table(metrics, SLICE, "quarter", Column("", "in_flight", 1, 1)))


def draw(axes, metrics):
    plot.metric_bars(axes[0], metrics, SHARED, "output_tok_per_s", "users behind one prompt: output tok/s")
    plot.metric_lines(axes[1], metrics, CURVES, "hit_share", "input tokens cached, %", "pool, % of the working set",
                      100)
    bound = metrics.median(CURVES, INFINITE, "hit_share")
    if bound is not None:
        axes[1].axhline(100 * bound, color="#333333", linewidth=0.8, linestyle=":")
    plot.metric_lines(axes[2], metrics, SLICE, "in_flight", "slice of the trace: requests in flight",
                      "quarter of the arrivals' time")
    plot.metric_bars(axes[3], metrics, SLICE, "ttft_p50_s", "slice: median TTFT, s")
