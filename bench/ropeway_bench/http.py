"""`ropeway serve` beside llama-server, each driven by `ropeway bench serve`: closed loops of many users and of one.

A piece starts the server anew, warms it up, and measures: random prompts, streamed, greedy, end tokens ignored. Run it on a
machine that should do nothing else.
"""
import functools
import os
import pathlib
import re

from ropeway_bench import BenchError, load, peers, report
from ropeway_bench.peers import Target
from ropeway_bench.report import Column
from ropeway_bench.suite import counts, whole

TITLE = "Over HTTP"
PART = "http"
PANELS = 2
INPUT_TOKENS, OUTPUT_TOKENS = 90, 64
SLOTS, SLOT_TOKENS = 16, 1024  # Of llama-server.
# Threads of `ropeway serve` that do HTTP, tokenizing and detokenizing.
SERVICE_THREADS = re.compile(r"ropeway-(io|prompt|output)$")
RATE = "output_tok_per_s"
SAME = ("llama-server", "llama-server -kvu")
Q4_0 = ("llama-server Q4_0", "llama-server Q4_0 -kvu")

TARGETS = (Target("16 users: output tokens/s over llama-server's, same file", 16, RATE, SAME, 6, halved=True),
           Target("16 users: median TTFT over llama-server's, same file", 16, "ttft_p50_s", SAME, 1 / 6, halved=True,
                  less=True),
           Target("16 users: output tokens/s over llama-server's, its Q4_0", 16, RATE, Q4_0, 2.7, halved=True),
           Target("1 user: output tokens/s over llama-server's, same file", 1, RATE, SAME, 2.3),
           Target("1 user: output tokens/s over llama-server's, its Q4_0", 1, RATE, Q4_0, 1.3))

COLUMNS = [Column("output tok/s", RATE, 1, 1), Column("TTFT p50 s", "ttft_p50_s", 1, 3),
           Column("TTFT p99 s", "ttft_p99_s", 1, 3), Column("ITL p50 ms", "itl_p50_s", 1e3, 2),
           Column("ITL p99 ms", "itl_p99_s", 1e3, 2), Column("TPOT p50 ms", "tpot_p50_s", 1e3, 2),
           Column("latency p50 s", "latency_p50_s", 1, 3), Column("tokens in", "prompt_tokens"),
           Column("tokens out", "output_tokens"),
           Column("service % of CPUs at 1,000 tok/s", "service_share_at_1000_tok_s", 100, 2), report.OTHERS[1],
           Column("peak RSS MB", "peak_rss_mb"), peers.BARRIER]

COMPARISON = peers.Comparison(PART, "users", COLUMNS, TARGETS,
                              {RATE: "output tokens/s", "ttft_p50_s": "median time to first token, s"})
verdicts, embeds = COMPARISON.verdicts, COMPARISON.embeds
report_text, draw = COMPARISON.report_text, COMPARISON.draw


def add_flags(parser):
    peers.add_flags(parser)
    parser.add_argument("--requests", type=whole(1, 100000), default=64, help="of many users; one sends an eighth")
    parser.add_argument("--users", type=counts(10000), default=[1, 16], help="closed loops of so many")


def make_quick(args):
    peers.make_quick(args)
    args.requests = min(args.requests, 16)


def prepare(suite):
    if suite.args.base_url:
        raise BenchError("--base-url: http starts servers of its own")
    peers.prepare(suite)


def measure(suite):
    starts = {peers.OURS: suite.ropeway}
    models = {"": suite.model} | ({" Q4_0": suite.args.q4_0_model} if suite.args.q4_0_model else {})
    for suffix, model in models.items() if suite.has_llama else ():
        for more, flags in (("", ()), (" -kvu", ("-kvu",))):
            starts[f"llama-server{suffix}{more}"] = functools.partial(suite.llama, SLOTS, SLOT_TOKENS, flags=flags,
                                                                      model=model)
    peers.measure(suite, PART, {name: functools.partial(measure_piece, suite, start) for name, start in starts.items()})


def measure_piece(suite, start, where):
    args = suite.args
    with start() as server:
        put_load(suite, server, 2, 4, 900 + where.round)  # Warms up.
        for users in reversed(args.users):
            requests = args.requests if users > 1 else max(6, args.requests // 8)
            seed = where.round * 10 + users
            at = where.at(users)
            suite.metrics.add(at, barrier_ns=peers.barrier_ns(suite),
                              load=f"{users} in flight, {requests} requests of {INPUT_TOKENS} tokens in and "
                                   f"{OUTPUT_TOKENS} out, seed {seed}")
            before = thread_seconds(server.process.pid)
            run = put_load(suite, server, users, requests, seed)
            load.add_load(suite.metrics, at, run)
            suite.metrics.add_distribution(at, "tpot", [(r.latency - r.ttft) / (r.output_tokens - 1)
                                                        for r in run.records if r.output_tokens > 1])
            share = service_share(before, thread_seconds(server.process.pid), sum(r.output_tokens for r in run.records))
            suite.metrics.add(at, service_share_at_1000_tok_s=share, peak_rss_mb=server.peak_rss_mb())
        suite.metrics.add(where, command=server.command)


def put_load(suite, server, users, requests, seed, tokens=None):
    """The Run of a closed loop of `users`. `tokens`: (in, out) of each request, if not those of this benchmark."""
    what = suite.load(load.same(requests, *(tokens or (INPUT_TOKENS, OUTPUT_TOKENS))), users=users, seed=seed,
                      prompt_format="auto")
    run = suite.put(server, what)
    if any(r.estimated for r in run.records):
        raise BenchError("the server does not count tokens")
    return run


def thread_seconds(pid):
    """CPU seconds so far of the process's threads whose names match SERVICE_THREADS; None where no
    name does. Nanoseconds where the kernel counts them (schedstat), else its clock ticks."""
    total = None
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            if not SERVICE_THREADS.match((task / "comm").read_text(encoding="utf-8").strip()):
                continue
            if (task / "schedstat").exists():
                seconds = int((task / "schedstat").read_text(encoding="utf-8").split()[0]) * 1e-9
            else:
                # utime and stime; the name before them may hold spaces, but ends with ')'.
                fields = (task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except FileNotFoundError:  # It ended just now.
            continue
        total = (total or 0) + seconds
    return total


def service_share(before, after, output_tokens):
    """The service threads' share of the machine, as it were at 1,000 streamed tokens/s."""
    return None if None in (before, after) else (after - before) / output_tokens * 1000 / os.cpu_count()
