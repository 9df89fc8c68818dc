"""How a decode step's time grows with the number of sequences and with the context: `ropeway-bench steps`, the executor
alone, with lines fitted by least squares. Part shares: what sampling and scheduling take of a step under many users.

Run it on a machine that should do nothing else.
"""
import concurrent.futures
import json
import urllib.request

from ropeway_bench import metrics as rows, peers, plot, report
from ropeway_bench.report import Column
from ropeway_bench.servers import command_text
from ropeway_bench.suite import program, whole

TITLE = "Time of a decode step"
PART, SHARES = "steps", "shares"
PANELS = 3
CURVES = {  # Metric: (title, divisor of x, what a line's slope is per).
    "sequences_ms": ("context 256", 1, "sequence"),
    "context1_ms": ("1 sequence", 1000, "1,000 tokens of context"),
    "context8_ms": ("8 sequences", 1000, "1,000 tokens of context of each"),
}
SAMPLING = {"greedy": {"temperature": 0},
            "temperature, top_p, logprobs": {"temperature": 0.8, "top_p": 0.95, "logprobs": 5}}
STEP_PARTS = ("forward", "sampling", "scheduling")


def add_flags(parser):
    peers.add_flags(parser)
    parser.add_argument("--part", choices=(PART, SHARES), default=PART)
    parser.add_argument("--users", type=whole(1, 1000), default=64, help="of part shares, all at once")
    parser.add_argument("--output-tokens", type=whole(1, 100000), default=120, help="of each of their answers")


make_quick = peers.make_quick


def measure(suite):
    if suite.args.part == SHARES:
        measure_shares(suite)
    else:
        peers.measure(suite, PART, {peers.OURS: lambda where: measure_curves(suite, where)})


def measure_curves(suite, where):
    words = ["steps", "--model", suite.model, "--threads", suite.threads, "--curves", "--kv-cache-mb", 1500, "--seconds",
             0.3]
    add_steps(suite.metrics, where, suite.worker(*words))
    suite.metrics.add(where, command=command_text([program("ropeway-bench", suite.args.ropeway_bench), *words]))


def add_steps(metrics, where, text):
    """The metrics of what `ropeway-bench steps --curves` prints, x being what grows: sequences, or the context."""
    for part, _, of, values in rows.cells(text):
        if part == "about":
            metrics.add(where, barrier_ns=float(values["barrier_ns"]))
            continue
        grows = of["sequences"] if of["shape"] == "sequences" else int(of["context"]) + int(of["tokens"])
        metrics.add(where.at(grows), **{f"{of['shape']}_ms": float(values["median_ms"]),
                                        f"{of['shape']}_best_ms": float(values["best_ms"])})


def measure_shares(suite):
    """By the engine's own metric, after a warm-up of the same kind."""
    with suite.ropeway("--max-num-seqs", suite.args.users) as server:
        for system, fields in SAMPLING.items():
            for where in suite.measuring(SHARES, system):
                answer_all(suite.args, server, fields)
                before = server.page()
                tokens = answer_all(suite.args, server, fields)
                after = server.page()
                seconds = {part: after.grown(before, "ropeway_step_seconds_total", f'part="{part}"')
                           for part in STEP_PARTS}
                suite.metrics.add(where, output_tokens=tokens, command=server.command,
                                  **{f"{part}_share": s / sum(seconds.values()) for part, s in seconds.items()})


def answer_all(args, server, fields):
    """The tokens of all users' answers, which are asked for at once."""
    def tokens_of(user):
        body = {"prompt": f"{user}", "max_tokens": args.output_tokens, "ignore_eos": True, "seed": user, **fields}
        request = urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=args.timeout) as reply:
            return json.load(reply)["usage"]["completion_tokens"]

    with concurrent.futures.ThreadPoolExecutor(args.users) as pool:
        return sum(pool.map(tokens_of, range(args.users)))


def fit(points):
    """(intercept, slope, R^2, largest distance from the line as a share of its value) of the line of
    least squares through [(x, y)]. REQUIRES: two different x."""
    n = len(points)
    mean_x = sum(x for x, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    intercept = mean_y - slope * mean_x
    residual = sum((y - intercept - slope * x) ** 2 for x, y in points)
    total = sum((y - mean_y) ** 2 for _, y in points)
    furthest = max(abs(y / (intercept + slope * x) - 1) for x, y in points)
    return intercept, slope, 1 - residual / total if total else 1.0, furthest


def curves(metrics):
    """(metric, title, unit, points [(x, ms)], the line) of each curve that was measured."""
    for metric, (title, divisor, unit) in CURVES.items():
        points = [(x / divisor, ms) for x, ms in metrics.curve(PART, peers.OURS, metric)]
        if points:
            yield metric, title, unit, points, fit(points)


def verdicts(_metrics):
    """None: lines are what is looked for."""
    return []


def fit_table(metrics):
    return report.table(
        ["curve", "a step takes" + report.LOWER, "R²", "furthest from the line" + report.LOWER],
        [[title, f"{line[0]:.2f} ms + {line[1]:.3f} ms per {unit}", f"{line[2]:.4f}", f"{100 * line[3]:.0f} %"]
         for _, title, unit, _, line in curves(metrics)])


def point_table(metrics):
    """What was measured, and the line's value there."""
    found = []
    for metric, title, _, points, line in curves(metrics):
        for x, ms in points:
            sequences = x if metric == "sequences_ms" else int(title.split()[0])
            length = 256 if metric == "sequences_ms" else 1000 * x
            found.append([title, f"{sequences:.0f}", f"{length:.0f}", f"{ms:.2f}", f"{line[0] + line[1] * x:.2f}",
                          f"{sequences / ms * 1e3:.0f}"])
    return report.table(["curve", "sequences", "tokens of each", "step ms" + report.LOWER, "line ms" + report.LOWER,
                         "tok/s"], found)


def embeds(metrics):
    return {PART: report.with_legend(fit_table(metrics))}


def report_text(metrics, _args):
    text = ""
    if metrics.systems(PART):
        text = peers.placement_text(metrics, PART) + fit_table(metrics) + "\n" + point_table(metrics)
    return text + report.section("Shares of a step", report.system_table(metrics, SHARES, [
        Column(f"{part} %", f"{part}_share", 100, 2) for part in STEP_PARTS]))


def draw(axes, metrics):
    for axis, (metric, title, _, points, line) in zip(axes, curves(metrics)):
        last = max(x for x, _ in points)
        axis.plot(*zip(*points), "o", color=plot.COLOURS[0], markersize=4)
        axis.plot([0, last], [line[0], line[0] + line[1] * last], color=plot.COLOURS[4], linewidth=1)
        axis.set_title(f"{title}: {line[0]:.2f} + {line[1]:.3f} x, R² {line[2]:.4f}; ms per step")
        axis.set_xlabel("sequences" if metric == "sequences_ms" else "1,000 tokens of context")
        axis.set_ylim(bottom=0)
        axis.set_xlim(left=0)
