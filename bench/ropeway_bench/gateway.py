"""`ropeway gateway`: what it brings to backends, and what it costs.

Parts: simulated, before backends whose calls take a fixed time (ropeway-bench gateway); batches, serial against batched before
real servers; classes, three classes before a server of few slots that knows none, at more than it can bear; latency, the first
token directly and through the gateway in turns, and the processor time of streams; streams, the memory of many open ones;
affinity, chats before three Ropeways. Starts the servers itself, on a machine that should do nothing else.
"""
import argparse
import dataclasses
import functools
import pathlib
import statistics
import sys

from ropeway_bench import BenchError, load, plot, relay, report, servers, sessions
from ropeway_bench.metrics import Where, cells, ratio
from ropeway_bench.report import Column, Verdict
from ropeway_bench.service import steady_rate
from ropeway_bench.suite import counts, milliseconds, real, timing, whole

TITLE = "The gateway"
SIMULATED, BATCHES, CLASSES, LATENCY, STREAMS, AFFINITY = "simulated", "batches", "classes", "latency", "streams", "affinity"
CAPACITY, CEILING, CPU = "capacity", "ceiling", "processor time"
KINDS = ("high", "medium", "low")
GATEWAY, SERIAL = "through the gateway", "serial"
DIRECTLY, THROUGH = "directly", "through it"
ROPEWAY, LLAMA, STAND_IN = "ropeway", "llama-server", "ropeway, first come first served"
ONE, ROUTED, RANDOM = "one replica", "three replicas", "three replicas, at random"
REPLICAS = 3
FAST_BACKEND = pathlib.Path(__file__).with_name("fast_backend.py")
BATCH_WAIT = 0.05
BATCH_TARGET = 0.7        # Of the theoretical maximum, on real servers.
CPU_STREAMS, CPU_PAUSE = 20, 0.02  # 1,000 tokens a second.
CPU_TOKENS = 100          # Of each stream.
SPARE_DESCRIPTORS = 200

TIMES = [Column("requests", "requests"), Column("failed", "failed"), *report.TTFT_S, *report.LATENCY,
         Column("output tok/s", "output_tok_per_s", 1, 1), Column("duration s", "wall_s", 1, 2),
         Column("requests/s", "requests_per_s", 1, 2), Column("offered / capacity", "offered_load", 1, 2), *report.OTHERS]
COST = [Column("requests", "requests"), Column("TTFT p50 ms", "ttft_p50_s", 1000, 3),
        Column("TTFT p99 ms", "ttft_p99_s", 1000, 3, "requests"), Column("output tok/s", "output_tok_per_s", 1, 1),
        Column("CPU s", "cpu_s", 1, 2), Column("% of a core at 1,000 tok/s", "core_share", 100, 2),
        Column("streams", "streams"), Column("RSS MB", "rss_mb", 1, 1), Column("peak RSS MB", "peak_rss_mb", 1, 1),
        Column("KB per stream", "kb_per_stream", 1, 1), Column("opened in s", "open_s", 1, 2), *report.OTHERS[:1]]


def add_flags(parser):
    parser.add_argument("--part", choices=(SIMULATED, BATCHES, CLASSES, LATENCY, STREAMS, AFFINITY, "all"), default="all")
    parser.add_argument("--requests", type=whole(1, 10000), default=32, help="simulated and batches: all there at once")
    parser.add_argument("--sizes", type=counts(256), default=[1, 2, 4, 8, 16], help="sizes of batches")
    parser.add_argument("--call-ms", type=real(0.1, 100000), default=50.0, help="of the simulated backend")
    parser.add_argument("--prompt-tokens", type=whole(8, 100000), default=64, help="batches and classes: of each prompt")
    parser.add_argument("--output-tokens", type=whole(2, 100000), default=48, help="batches and classes: of each answer")
    parser.add_argument("--slots", type=whole(1, 256), default=4, help="classes: of the backend")
    parser.add_argument("--class-load", type=real(0.01, 10), default=1.5, help="classes: requests offered over the capacity")
    parser.add_argument("--class-shares", type=percentages, default=[20, 50, 30], metavar="HIGH,MEDIUM,LOW")
    parser.add_argument("--class-seconds", type=real(0.1, 3600), default=120, help="classes: in which requests arrive")
    parser.add_argument("--capacity-requests", type=whole(2, 100000), default=64)
    parser.add_argument("--latency-requests", type=whole(2, 100000), default=100, help="latency: of each turn")
    parser.add_argument("--latency-turns", type=whole(1, 1000), default=10, help="latency: direct and through the gateway")
    parser.add_argument("--cpu-seconds", type=real(0.1, 3600), default=20, help="latency: of 1,000 tokens a second")
    parser.add_argument("--streams", type=whole(1, 100000), default=9000, help="open at once")
    parser.add_argument("--dialogues", metavar="FILE", default="",
                        help='affinity: chats of a file: lines of {"history": [{"user": ..., "bot": ...}, ...]} '
                        "(MT-Bench-101); without, random ones")
    parser.add_argument("--chats", type=whole(1, 100000), default=240, help="affinity: so many")
    parser.add_argument("--chat-users", type=whole(1, 1000), default=12, help="affinity: that chat at once")
    parser.add_argument("--chat-tokens", type=whole(1, 100000), default=16, help="affinity: of each answer, at most")
    parser.add_argument("--chat-cache", default="512MiB", metavar="SIZE", help="affinity: --kv-cache-size of each replica")


def percentages(text):
    """Percentages, of 20,50,30."""
    try:
        values = [int(word) for word in text.split(",")]
    except ValueError:
        values = []
    if len(values) != 3 or sum(values) != 100 or min(values) < 1:
        raise argparse.ArgumentTypeError(f"expected three percentages with commas between, not '{text}'")
    return values


def make_quick(args):
    for name, most in (("requests", 8), ("class_seconds", 20), ("capacity_requests", 24), ("latency_requests", 40),
                       ("latency_turns", 3), ("cpu_seconds", 3), ("streams", 1000), ("chats", 24), ("output_tokens", 16)):
        setattr(args, name, min(getattr(args, name), most))
    args.sizes = [size for size in args.sizes if size in (1, 4)] or args.sizes[:2]


def prepare(suite):
    if suite.args.base_url:
        raise BenchError("--base-url: gateway starts servers of its own")
    if suite.args.dialogues:
        sessions.read_dialogues(suite.args.dialogues)


def measure(suite):
    parts = {SIMULATED: simulate, BATCHES: measure_batches, CLASSES: measure_classes, LATENCY: measure_latency,
             STREAMS: measure_streams, AFFINITY: measure_affinity}
    for name, function in parts.items():
        if suite.args.part in (name, "all"):
            function(suite)


# Servers.


def port_of(server):
    return int(server.url.rpartition(":")[2])


def gateway(suite, backends, *flags):
    """Starts one before `backends`, [(server, fields of --backend)]."""
    port = servers.free_port()
    words = [word for server, fields in backends
             for word in ("--backend", ",".join([server.url, "model=served", "upstream=default", *fields]))]
    return servers.Server([suite.program, "gateway", "--port", port, *words, *servers.QUEUE_ALL, *flags], port)


def fast_backend(pause):
    """A server that computes nothing; an answer's tokens come so many seconds apart."""
    port = servers.free_port()
    return servers.Server([sys.executable, FAST_BACKEND, "--port", port, "--pause", pause], port)


def real_backends(suite, slots, longest):
    """{name: (a function that starts it, its fields of --backend)}."""
    found = {ROPEWAY: (functools.partial(suite.ropeway, "--max-num-seqs", slots, *servers.QUEUE_ALL), ("kind=ropeway",))}
    if suite.has_llama:
        found[LLAMA] = (functools.partial(suite.llama, slots, longest), ("kind=llamacpp",))
    return found


# Simulated backends.


def simulate(suite):
    args = suite.args
    # It sleeps most of the time: what others do hardly matters.
    for where in suite.measuring(SIMULATED, GATEWAY, virtual=True):
        text = suite.worker("gateway", "--rows", "--requests", args.requests, "--call-ms", args.call_ms, "--sizes",
                            ",".join(map(str, args.sizes)), "--runs", 1 if args.quick else 3)
        for part, system, _, values in cells(text):
            suite.metrics.add(Where(f"{SIMULATED} {part}", system, where.round),
                              **{name: float(value) for name, value in values.items()},
                              load=f"{args.requests} requests at once, {args.call_ms:g} ms per call")


# Serial against batched, on real servers.


def batch_name(size):
    return f"batch of {size}"


def measure_batches(suite):
    args = suite.args
    most = max(args.sizes)
    for name, (start, fields) in real_backends(suite, most, args.prompt_tokens + args.output_tokens + 16).items():
        measure_ceiling(suite, name, start)
        dispatches = {SERIAL: ("--enable-batching", "off")} | {batch_name(size): (
            "--max-batch-size", size, "--max-batch-wait", milliseconds(BATCH_WAIT)) for size in args.sizes}
        for system, flags in dispatches.items():
            for where in suite.measuring(f"{BATCHES}, {name}", system):
                with start() as server, gateway(suite, [(server, (*fields, f"max-concurrency={most}"))], "--dispatch",
                                                "batch", *flags) as front:
                    with timing(where):
                        run = suite.put(front, suite.load(same(args, args.requests), users=args.requests))
                    load.add_load(suite.metrics, where, run)
                    suite.metrics.add(where, command=front.command,
                                      load=f"{args.requests} requests at once, {args.prompt_tokens} tokens in, "
                                           f"{args.output_tokens} out")


def same(args, count):
    return load.same(count, args.prompt_tokens, args.output_tokens)


def measure_ceiling(suite, name, start):
    """What a batch brings to decoding alone, without the gateway: so many requests at once."""
    args = suite.args
    for where in suite.measuring(CEILING, name):
        with start() as server, timing(where):
            for size in sorted({1, *args.sizes}):
                what = suite.load(same(args, size), users=size, seed=args.seed * 1000 + size)
                gaps = [gap for record in suite.put(server, what).records for gap in record.gaps]
                suite.metrics.add_distribution(where.at(size), "itl", gaps)


# Classes before a server that knows none.


def class_backend(suite):
    """(name, a function that starts it, its fields of --backend): llama-server, or a Ropeway in its place."""
    slots, args = suite.args.slots, suite.args
    if suite.has_llama:
        return LLAMA, functools.partial(suite.llama, slots, args.prompt_tokens + args.output_tokens + 16), ("kind=llamacpp",)
    flags = ("--max-num-seqs", slots, "--policy", "fcfs", *servers.QUEUE_ALL, "--max-queued-requests", 100000)
    return STAND_IN, functools.partial(suite.ropeway, *flags), ("kind=openai", f"max-concurrency={slots}")


def class_load(suite, rate):
    """Random classes in their shares, at random times: the same for all systems."""
    args = suite.args
    count = max(10, round(rate * args.class_seconds))
    rng = load.random_of("gateway", args.seed)
    kinds = load.deal(rng, count, args.class_shares)
    requests = [dataclasses.replace(same(args, 1)[0], priority=KINDS[kind]) for kind in kinds]
    return suite.load(load.poisson(rng, requests, rate), seed=args.seed * 1000 + 1)


def measure_classes(suite):
    args = suite.args
    name, start, fields = class_backend(suite)
    for where in suite.measuring(CAPACITY, name):
        with start() as server, timing(where):
            run = suite.put(server, suite.load(same(args, args.capacity_requests), users=2 * args.slots,
                                               seed=args.seed * 1000))
            suite.metrics.add(where, capacity_per_s=steady_rate(run.records, 0, 1) / args.output_tokens,
                              command=server.command, load=f"{2 * args.slots} in flight")
    capacity = suite.metrics.median(CAPACITY, name, "capacity_per_s")
    if not capacity:
        return
    what = class_load(suite, args.class_load * capacity)
    for system in (name, GATEWAY):
        for where in suite.measuring(CLASSES, system):
            with start() as server:
                if system == GATEWAY:
                    with gateway(suite, [(server, fields)], "--max-queued-requests", 100000) as front:
                        put_classes(suite, where, front, what)
                else:
                    put_classes(suite, where, server, what)


def put_classes(suite, where, server, what):
    args = suite.args
    with timing(where):
        run = suite.put(server, what, may_fail=True)
    load.add_load(suite.metrics, where, run)
    for kind in KINDS:
        records = [r for r in run.records if what.requests[r.seq].priority == kind]
        load.add_times(suite.metrics, where.at(kind), records)
    shares = "/".join(map(str, args.class_shares))
    suite.metrics.add(where, lost=len(what.requests) - sum(r.ok for r in run.records), offered_load=args.class_load,
                      command=server.command, load=f"Poisson for {args.class_seconds:g} s, {len(what.requests)} requests, "
                      f"high/medium/low {shares}, {args.prompt_tokens} tokens in, {args.output_tokens} out, seed {args.seed}")


# What it costs.


def measure_latency(suite):
    args = suite.args
    for where in suite.measuring(LATENCY, GATEWAY):
        with fast_backend(0) as server, gateway(suite, [(server, ("max-concurrency=64",))]) as front:
            times = {DIRECTLY: [], THROUGH: []}
            for turn in range(args.latency_turns):
                order = ((DIRECTLY, server), (THROUGH, front))
                for way, asked in order if turn % 2 == 0 else reversed(order):
                    run = suite.put(asked, suite.load(load.same(args.latency_requests, 16, 1), seed=args.seed * 1000 + turn))
                    times[way] += [record.ttft for record in run.records]
            for way, found in times.items():
                suite.metrics.add(where.at(way), requests=len(found))
                suite.metrics.add_distribution(where.at(way), "ttft", found)
            suite.metrics.add(where, added_s=statistics.median(times[THROUGH]) - statistics.median(times[DIRECTLY]),
                              command=front.command, load=f"one request after the other, in {args.latency_turns} turns of "
                              f"{args.latency_requests} each")
    requests = max(1, round(args.cpu_seconds / CPU_PAUSE / CPU_TOKENS)) * CPU_STREAMS
    for where in suite.measuring(CPU, GATEWAY):
        with fast_backend(CPU_PAUSE) as server, gateway(suite, [(server, ("max-concurrency=64",))]) as front:
            before = relay.cpu_seconds(front.process.pid)
            with timing(where):
                run = suite.put(front, suite.load(load.same(requests, 16, CPU_TOKENS), users=CPU_STREAMS))
            took = relay.cpu_seconds(front.process.pid) - before
            load.add_load(suite.metrics, where, run)
            tokens = sum(record.output_tokens for record in run.records)
            suite.metrics.add(where, cpu_s=took, core_share=took / tokens * 1000, command=front.command,
                              load=f"{CPU_STREAMS} streams, a token every {1000 * CPU_PAUSE:g} ms")


def measure_streams(suite):
    """So many as the limit on descriptors allows: each takes two of the gateway's."""
    count = min(suite.args.streams, (relay.raise_descriptor_limit() - 2 * SPARE_DESCRIPTORS) // 2)
    for where in suite.measuring(STREAMS, GATEWAY):
        flags = ("--max-connections", count + SPARE_DESCRIPTORS, "--max-queued-requests", count + 1, "--trusted-proxy",
                 "127.0.0.1", "--backend-idle-timeout", "1h")
        with fast_backend(3600) as server, gateway(suite, [(server, (f"max-concurrency={count + 1}",))], *flags) as front:
            idle = relay.rss_mb(front.process.pid)
            with relay.HeldStreams(port_of(front), count, suite.args.timeout) as held:
                rss = relay.rss_mb(front.process.pid)
                suite.metrics.add(where, streams=count, rss_mb=rss, kb_per_stream=1024 * (rss - idle) / count,
                                  open_s=held.seconds, peak_rss_mb=front.peak_rss_mb(), command=front.command,
                                  load=f"{count} streams, each with its first token")


# Chats before three replicas.


def chats_of(args):
    """Histories are given, so that all systems are asked the same; answers are short."""
    if args.dialogues:
        found = sessions.read_dialogues(args.dialogues)
        chats = [found[i % len(found)] for i in range(args.chats)]
    else:
        rng = load.random_of("gateway chats", args.seed)
        chats = [{"turns": [sessions.turn(rng, 120, args.chat_tokens, sessions.words(rng, 40)) for _ in range(4)]}
                 for _ in range(args.chats)]
    return [{"turns": [turn | {"max_tokens": min(turn["max_tokens"], args.chat_tokens)} for turn in chat["turns"]]}
            for chat in chats]


def measure_affinity(suite):
    args = suite.args
    chats = chats_of(args)
    what = "dialogues of a file" if args.dialogues else "random chats of 4 turns"
    for system in (ONE, ROUTED, RANDOM):
        for where in suite.measuring(AFFINITY, system):
            run, command = chat_with(suite, system, chats, where)
            sessions.add_sessions(suite.metrics, where, run)
            suite.metrics.add(where, cached_share=ratio(sum(r.cached_tokens or 0 for r in run.records),
                                                        sum(r.input_tokens for r in run.records)),
                              command=command, load=f"{len(chats)} {what}, {args.chat_users} users, answers of at most "
                              f"{args.chat_tokens} tokens, a cache of {args.chat_cache} for each replica, seed {args.seed}")


def chat_with(suite, system, chats, where):
    """The Run, and the command of what was asked."""
    args = suite.args
    flags = ("--kv-cache-size", args.chat_cache, *servers.QUEUE_ALL)
    load_of = suite.load(conversations=chats, users=args.chat_users)
    if system == ONE:
        with suite.ropeway(*flags) as server, timing(where):
            return suite.put(server, load_of), server.command
    with suite.ropeway(*flags) as first, suite.ropeway(*flags) as second, suite.ropeway(*flags) as third:
        replicas = [first, second, third]
        if system == RANDOM:
            with relay.RandomRelay([port_of(one) for one in replicas], args.seed) as spread, timing(where):
                return suite.put(servers.Server(url=spread.url), load_of), None
        with gateway(suite, [(one, ("kind=ropeway",)) for one in replicas]) as front, \
                timing(where):
            return suite.put(front, load_of), front.command


# The report.


def simulated_parts(metrics):
    return [part for part in metrics.parts() if part.startswith(f"{SIMULATED} ")]


def batch_parts(metrics):
    return [part for part in metrics.parts() if part.startswith(f"{BATCHES}, ")]


def theoretical(metrics, part, size):
    """The decode speed at this batch over that at 1, without the gateway."""
    name = part.removeprefix(f"{BATCHES}, ")
    one, many = (metrics.median(CEILING, name, "itl_p50_s", x) for x in (1, size))
    return None if None in (one, many) else size * one / many


def improvement(metrics, part, system):
    return ratio(metrics.median(part, SERIAL, "wall_s"), metrics.median(part, system, "wall_s"))


def batch_rows(metrics, part):
    """[(system, duration, requests/s, improvement, theoretical maximum, Verdict)]; a baseline's target is 0."""
    rows = []
    for system in metrics.systems(part):
        wall, rate = (metrics.median(part, system, name) for name in ("wall_s", "requests_per_s"))
        if part.startswith(SIMULATED):
            gained, most, target = (metrics.median(part, system, name)
                                    for name in ("improvement", "theoretical_maximum", "target"))
        else:
            gained = improvement(metrics, part, system)
            size = 0 if system == SERIAL else int(system.removeprefix("batch of "))
            most, target = (theoretical(metrics, part, size), BATCH_TARGET) if size else (1.0, 0.0)
        title = f"{part}, {system}: share of the theoretical maximum"
        rows.append((system, wall, rate, gained, most,
                     Verdict(title, ratio(gained, most), target or 0.0,
                             report.shown("{:.2f} / {:.2f} times", gained, most))))
    return rows


def batch_table(metrics, part):
    rows = []
    for system, wall, rate, gained, most, verdict in batch_rows(metrics, part):
        rows.append([system, report.shown("{:.3f}", wall), report.shown("{:.1f}", rate), report.shown("{:.2f}", gained),
                     report.shown("{:.2f}", most), "" if verdict.measured is None else f"{100 * verdict.measured:.1f} %",
                     verdict.word if verdict.target else ""])
    return report.table(["system", "duration s" + report.LOWER, "requests/s", "improvement", "theoretical maximum",
                         "efficiency", "verdict"], rows)


def class_verdicts(metrics):
    direct = next((system for system in metrics.systems(CLASSES) if system != GATEWAY), LLAMA)
    found = []
    for metric, words, target in (("ttft_p50_s", "median", 10), ("ttft_p99_s", "p99", 1)):
        before, now = (metrics.median(CLASSES, system, metric, "high") for system in (direct, GATEWAY))
        found.append(Verdict(f"classes: high's {words} TTFT without the gateway over that with it", ratio(before, now), target,
                             report.shown("{:.3f} / {:.3f} s", before, now)))
    before, now = (metrics.median(CLASSES, system, "output_tok_per_s") for system in (direct, GATEWAY))
    found.append(Verdict("classes: throughput with the gateway over without", ratio(now, before), 0.97,
                         report.shown("{:.1f} / {:.1f} tok/s", now, before)))
    found.append(Verdict("classes: requests lost with the gateway", metrics.median(CLASSES, GATEWAY, "lost"), 0, "", True))
    return found


def cost_verdicts(metrics):
    added, share = metrics.median(LATENCY, GATEWAY, "added_s"), metrics.median(CPU, GATEWAY, "core_share")
    peak = metrics.median(STREAMS, GATEWAY, "peak_rss_mb")
    found = []
    if metrics.systems(LATENCY):
        medians = [metrics.median(LATENCY, GATEWAY, "ttft_p50_s", way) for way in (THROUGH, DIRECTLY)]
        found.append(Verdict("latency: added to the first token, ms", None if added is None else 1000 * added, 0.7,
                             "" if None in medians else "{:.3f} - {:.3f} ms".format(*(1000 * m for m in medians)), True))
    if metrics.systems(CPU):
        found.append(Verdict("processor time: % of a core at 1,000 streamed tokens/s", None if share is None else 100 * share,
                             5, report.shown("{:.1f} tok/s", metrics.median(CPU, GATEWAY, "output_tok_per_s")), True))
    if metrics.systems(STREAMS):
        found.append(Verdict("streams: peak memory of all, MB", peak, 400,
                             report.shown("{:.0f} streams", metrics.median(STREAMS, GATEWAY, "streams")), True))
    return found


def affinity_verdicts(metrics):
    one, routed, random = (metrics.median(AFFINITY, system, "cached_share") for system in (ONE, ROUTED, RANDOM))
    points = None if None in (one, routed) else 100 * (one - routed)
    return [Verdict("affinity: cached share of one replica less that of three, points", points, 5,
                    report.shown("{:.1%} - {:.1%}", one, routed) + report.shown("; at random {:.1%}", random), True)]


def verdicts(metrics):
    found = [row[-1] for part in (*simulated_parts(metrics), *batch_parts(metrics)) for row in batch_rows(metrics, part)
             if row[-1].target]
    for size, target in ((8, 7.5), (16, 15)):
        gained = metrics.median(f"{SIMULATED} batches", batch_name(size), "improvement")
        if gained is not None:
            found.append(Verdict(f"simulated batches, {batch_name(size)}: times serial", gained, target))
    found += class_verdicts(metrics) if metrics.systems(CLASSES) else []
    found += cost_verdicts(metrics)
    return found + (affinity_verdicts(metrics) if metrics.systems(AFFINITY) else [])


def report_text(metrics, _args):
    text = report.verdict_table(verdicts(metrics))
    for part in (*simulated_parts(metrics), *batch_parts(metrics)):
        text += report.section(part, batch_table(metrics, part))
    classes = report.x_table(metrics, CLASSES, "class", TIMES)
    text += report.section(CLASSES, classes and f"{classes}\nAll together:\n\n{report.system_table(metrics, CLASSES, TIMES)}")
    text += report.section(LATENCY, report.x_table(metrics, LATENCY, "asked", COST))
    for part in (CPU, STREAMS):
        text += report.section(part, report.system_table(metrics, part, COST))
    text += report.section(AFFINITY, report.system_table(metrics, AFFINITY, sessions.COLUMNS))
    return text + report.FEW_SAMPLES_NOTE


def embeds(metrics):
    return {"gateway": report.with_legend(report.verdict_table(verdicts(metrics)))}


def draw(axes, metrics):
    curves = {}
    for part in (f"{SIMULATED} batches", *batch_parts(metrics)):
        curves[part] = [(int(row[0].removeprefix("batch of ")), row[3]) for row in batch_rows(metrics, part)
                        if row[0] != SERIAL and row[3] is not None]
    plot.lines(axes[0], curves, "throughput over serial", "batch size")
    for axis, metric, words in ((axes[1], "ttft_p50_s", "median"), (axes[2], "ttft_p99_s", "p99")):
        plot.bars(axis, {f"{system}, {kind}": metrics.median(CLASSES, system, metric, kind)
                         for system in metrics.systems(CLASSES, metric=metric) for kind in KINDS},
                  f"classes at 1.5 of the capacity: {words} TTFT, s", ours=GATEWAY)
    plot.metric_bars(axes[3], metrics, AFFINITY, "cached_share", "affinity: cached, % of the prompts", 100)
