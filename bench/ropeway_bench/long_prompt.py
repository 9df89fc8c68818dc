"""Streams that decode while long prompts arrive: how long either waits.

Starts the servers itself, one after the other, on a machine that should do nothing else.
"""
from ropeway_bench import load, plot, report, servers
from ropeway_bench.metrics import ratio
from ropeway_bench.report import Column, Verdict, few
from ropeway_bench.service import Trail
from ropeway_bench.suite import real, timing, whole

TITLE = "Long prompts beside streams"
ROPEWAY, LLAMA, SERVER = "ropeway", "llama-server", "server"
IDLE, ALONE, BOTH = "long prompts alone", "streams alone", "both"
STREAMS, LONG = "streams", "long prompts"
LEAD_SECONDS = 2.0  # Until all streams decode.
SPARE_TOKENS = 64   # Of a slot of llama-server.

COLUMNS = [Column("gaps between tokens", "itl_samples"), Column("requests", "requests"),
           Column("TTFT p50 s", "ttft_p50_s", 1, 3), Column("TTFT p90 s", "ttft_p90_s", 1, 3),
           report.LONGEST_WAIT, report.ITL[0], Column("ITL p90 ms", "itl_p90_s", 1000, 1), report.ITL[1],
           Column("prompt tokens each", "prompt_tokens_each"), Column("output tok/s", "output_tok_per_s", 1, 1),
           Column("seconds", "window_s", 1, 1), *report.OTHERS]


def add_flags(parser):
    parser.add_argument("--streams", type=whole(1, 1000), default=8, help="streams that always decode")
    parser.add_argument("--stream-prompt", type=whole(8, 100000), default=16, help="tokens of a stream's prompt")
    parser.add_argument("--stream-output", type=whole(2, 100000), default=400,
                        help="tokens of a stream's answer, after which its user asks again")
    parser.add_argument("--prompt-tokens", type=whole(8, 1000000), default=4000, help="of each long prompt")
    parser.add_argument("--output-tokens", type=whole(1, 100000), default=8, help="of each long prompt's answer")
    parser.add_argument("--prompts", type=whole(1, 100000), default=4, help="long prompts, one after the other")
    parser.add_argument("--alone-seconds", type=real(0.1, 3600), default=20.0, help="of the streams alone")


def make_quick(args):
    args.prompts, args.alone_seconds = min(args.prompts, 2), min(args.alone_seconds, 8)


def start(suite, system):
    args = suite.args
    if system == SERVER:
        return suite.given()
    if system == LLAMA:
        longest = max(args.prompt_tokens + args.output_tokens, args.stream_prompt + args.stream_output)
        return suite.llama(args.streams + 1, longest + SPARE_TOKENS)
    return suite.ropeway(*servers.QUEUE_ALL)


def streams(suite, number, **fields):
    args = suite.args
    return suite.load(load.same(load.ENDLESS, args.stream_prompt, args.stream_output), users=args.streams,
                      seed=args.seed * 1000 + number, **fields)


def long_prompts(suite, number):
    args = suite.args
    return suite.load(load.same(args.prompts, args.prompt_tokens, args.output_tokens), seed=args.seed * 1000 + number)


def add_streams(metrics, where, run, begin, end):
    """The streams' gaps and tokens between two moments after the run's begin."""
    gaps = []
    for record in run.records:
        at = record.due + (record.ttft or 0)
        for gap in record.gaps:
            at += gap
            if begin < at <= end:
                gaps.append(gap)
    load.add_gaps(metrics, where, gaps)
    tokens = Trail(run.records, 0, 1).between(begin, end)
    metrics.add(where, window_s=end - begin, output_tok_per_s=tokens / (end - begin))


def add_long(metrics, where, run):
    load.add_load(metrics, where, run)
    metrics.add(where, prompt_tokens_each=sum(r.input_tokens for r in run.records) / len(run.records))


def measure(suite):
    systems = [SERVER] if suite.args.base_url else [ROPEWAY] + ([LLAMA] if suite.has_llama else [])
    for system in systems:
        if suite.wants(system):
            with start(suite, system) as server:
                measure_server(suite, system, server)


def measure_server(suite, system, server):
    args, metrics = suite.args, suite.metrics
    streams_text = f"{args.streams} streams of {args.stream_prompt} tokens in, {args.stream_output} out"
    long_text = (f"{args.prompts} prompts of {args.prompt_tokens} tokens, {args.output_tokens} out, one after the "
                 "other")
    for where in suite.measuring(IDLE, system):
        with timing(where):
            run = suite.put(server, long_prompts(suite, 1))
        add_long(metrics, where, run)
        metrics.add(where, load=long_text, command=server.command)
    for where in suite.measuring(ALONE, system):
        end = LEAD_SECONDS + args.alone_seconds
        with timing(where):
            run = suite.put(server, streams(suite, 2, duration=end))
        add_streams(metrics, where, run, LEAD_SECONDS, end)
        metrics.add(where, load=streams_text, command=server.command)
    for where in suite.measuring(BOTH, system):
        with timing(where):
            back, front = suite.beside(server, streams(suite, 3), LEAD_SECONDS, long_prompts(suite, 4))
        begin = front.begin - back.begin
        add_streams(metrics, where.at(STREAMS), back, begin, begin + front.wall_s)
        add_long(metrics, where.at(LONG), front)
        metrics.add(where, load=f"{streams_text}; {long_text}", command=server.command)


def verdicts(metrics):
    found = []
    for system in (ROPEWAY, SERVER):
        if not metrics.rounds(BOTH, system):
            continue
        both = metrics.median(BOTH, system, "itl_p99_s", STREAMS)
        alone = metrics.median(ALONE, system, "itl_p99_s")
        of = "" if None in (both, alone) else (f"{1000 * both:.1f} / {1000 * alone:.1f} ms"
                                               + few(metrics.median(BOTH, system, "itl_samples", STREAMS)))
        found.append(Verdict(f"{system}: streams' ITL p99 beside long prompts over alone", ratio(both, alone), 3, of,
                             at_most=True))
    return found


def report_text(metrics, _args):
    text = report.verdict_table(verdicts(metrics))
    times = ""
    for system in metrics.systems(BOTH):
        times += report.shown(f"- {system}: the long prompts' median TTFT is {{:.2f}} s beside the streams and {{:.2f}} s "
                              "on an idle engine\n", metrics.median(BOTH, system, "ttft_p50_s", LONG),
                              metrics.median(IDLE, system, "ttft_p50_s"))
    text += f"\n{times}" if times else ""
    for part in (ALONE, IDLE):
        text += report.section(part, report.system_table(metrics, part, COLUMNS))
    return text + report.section(BOTH, report.x_table(metrics, BOTH, "of", COLUMNS)) + report.FEW_SAMPLES_NOTE


def draw(axes, metrics):
    systems = metrics.systems(BOTH)

    def beside(axis, alone, x, metric, title, factor=1):
        plot.bars(axis, {f"{system}, {name}": metrics.median(part, system, metric, at) for system in systems
                         for name, part, at in (("alone", alone, ""), ("both", BOTH, x))}, title, factor)

    beside(axes[0], ALONE, STREAMS, "itl_p99_s", "streams: ITL p99, ms", 1000)
    beside(axes[1], IDLE, LONG, "ttft_p50_s", "long prompts: median TTFT, s")
    beside(axes[2], ALONE, STREAMS, "output_tok_per_s", "streams: output tok/s")
