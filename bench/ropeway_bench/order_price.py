"""What the fixed order of float sums costs: steps of the real executor with the production kernels and with a table
that may reorder, in alternated pairs. Needs a CPU with AVX-512 VNNI and a machine that does nothing else.
"""
import csv
import statistics

from ropeway_bench import plot, report
from ropeway_bench.report import Verdict
from ropeway_bench.suite import real, resolve_model, whole

TITLE = "The price of the fixed order"
PART = "order-price"
GOAL = 1.03


def add_flags(parser):
    parser.add_argument("--pairs", type=whole(1, 1000), default=9, help="pairs that count, for each shape")
    parser.add_argument("--seconds", type=real(0.001, 3600), default=0.25, help="for each side of a pair")


def make_quick(args):
    args.pairs, args.seconds = min(args.pairs, 3), min(args.seconds, 0.05)


def measure(suite):
    args, metrics = suite.args, suite.metrics
    flags = ["--model", resolve_model(args.model), "--threads", suite.threads, "--pairs", args.pairs, "--seconds",
             args.seconds]
    number = max(metrics.unique("round", part=PART), default=0) + 1
    for row in csv.DictReader(suite.worker("order-price", *flags).splitlines()):
        metrics.rows.append(row | {"round": number})
    suite.save()


def pairs_of(metrics):
    """{shape: [{metric: value}, one for each pair]}."""
    pairs = {}
    for row in metrics.rows:
        if row["part"] == PART:
            key = row["round"], row["x"]
            pairs.setdefault(row["system"], {}).setdefault(key, {})[row["metric"]] = float(row["value"])
    return {shape: list(found.values()) for shape, found in pairs.items()}


def ratios(pairs):
    """The time of a step with the fixed order over that with a free one, of the pairs that count, rising."""
    return sorted(pair["fixed_ms"] / pair["free_ms"] for pair in pairs if pair["counts"])


def verdicts(metrics):
    found = {shape: ratios(pairs) for shape, pairs in pairs_of(metrics).items()}
    return [Verdict(f"{shape}: fixed over free order", statistics.median(values) if values else None, GOAL,
                    f"{len(values)} pairs", at_most=True) for shape, values in found.items()]


def report_text(metrics, _args):
    shapes = pairs_of(metrics)
    barriers = [pair[name] for pairs in shapes.values() for pair in pairs
                for name in ("barrier_before_ns", "barrier_after_ns")]
    rows = []
    for shape, pairs in shapes.items():
        found, counting = ratios(pairs), [pair for pair in pairs if pair["counts"]]
        if found:
            fixed, free = (statistics.median(pair[name] for pair in counting) for name in ("fixed_ms", "free_ms"))
            rows.append([shape, f"{fixed:.3f}", f"{free:.3f}", f"{statistics.median(found):.4f}", f"{found[0]:.4f}", f"{found[-1]:.4f}",
                         str(len(found)), str(len(pairs) - len(found))])
    spread = (f"- barrier {min(barriers):.0f} to {max(barriers):.0f} ns, median {statistics.median(barriers):.0f}\n\n"
              if barriers else "")
    return (spread + report.verdict_table(verdicts(metrics)) + "\nRatio: the time of a step with the fixed order over that with a "
            "free one; above 1 the fixed order is slower.\n\n" + report.table(
                ["shape", *(name + report.LOWER for name in ("fixed ms", "free ms", "ratio, median", "lowest", "highest")),
                 "pairs", "discarded"], rows))


def draw(axes, metrics):
    """Each pair's ratio as a dot, the medians as lines, and the goal."""
    axis, shapes = axes[0], pairs_of(metrics)
    for at, pairs in enumerate(shapes.values()):
        found = ratios(pairs)
        spread = [at + 0.25 * (i / max(1, len(found) - 1) - 0.5) for i in range(len(found))]
        axis.plot(spread, [100 * (r - 1) for r in found], "o", color=plot.COLOURS[1], markersize=4)
        if found:
            middle = 100 * (statistics.median(found) - 1)
            axis.plot([at - 0.3, at + 0.3], [middle, middle], color=plot.COLOURS[0], linewidth=2)
            axis.annotate(f"{middle:+.2f} %", (at + 0.32, middle), fontsize=7, va="center")
    axis.axhline(100 * (GOAL - 1), color="#333333", linewidth=0.8, linestyle="--")
    axis.axhline(0, color="#333333", linewidth=0.8)
    axis.set_xticks(range(len(shapes)), list(shapes), fontsize=7)
    axis.set_title("% slower than with a free order")
