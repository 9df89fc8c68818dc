#!/usr/bin/env python3
"""What the fixed order of float sums costs: runs order_price, and writes order-price.csv (a line per
pair), order-price.md (medians and spread) and order-price.png to the folder --out.

usage: order_price.py --order-price P --model FILE.gguf
"""
import argparse
import csv
import datetime
import pathlib
import statistics
import subprocess
import sys

import machine
import pyplot

GOAL = 1.03


def figures(rows):
    """[(shape, pairs that count, discarded, median fixed ms, median free ms, ratios)]."""
    result = []
    for shape in dict.fromkeys(row["shape"] for row in rows):
        mine = [row for row in rows if row["shape"] == shape]
        good = [row for row in mine if row["counts"] == "1"]
        result.append((shape, len(good), len(mine) - len(good),
                       statistics.median(float(r["fixed_ms"]) for r in good),
                       statistics.median(float(r["free_ms"]) for r in good),
                       sorted(float(r["ratio"]) for r in good)))
    return result


def table(about, rows):
    barriers = [float(r[k]) for r in rows for k in ("barrier_before_ns", "barrier_after_ns")]
    out = [f"# The price of the fixed order, {datetime.date.today()}", "",
           f"- machine: {about}",
           f"- command: `{machine.command_text(sys.argv)}`",
           f"- barrier {min(barriers):.0f} to {max(barriers):.0f} ns, median "
           f"{statistics.median(barriers):.0f}", "",
           "Ratio: time of a step with the fixed order over time with a free one, in alternated pairs; "
           "above 1 the fixed order is slower. Goal: at most 1.03.", "",
           "| shape | fixed ms | free ms | ratio, median | lowest | highest | pairs | discarded |",
           "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for shape, good, discarded, fixed, free, ratios in figures(rows):
        out.append(f"| {shape} | {fixed:.3f} | {free:.3f} | {statistics.median(ratios):.4f} | "
                   f"{ratios[0]:.4f} | {ratios[-1]:.4f} | {good} | {discarded} |")
    return "\n".join(out) + "\n"


def plot(about, rows, path):
    """Each pair's ratio as a dot, the median as a line; False without matplotlib."""
    plt = pyplot.load()
    if plt is None:
        return False

    shapes = figures(rows)
    figure, axis = plt.subplots(figsize=(9, 4.5))
    for place, (_, _, _, _, _, ratios) in enumerate(shapes):
        spread = [place + 0.25 * (i / max(1, len(ratios) - 1) - 0.5) for i in range(len(ratios))]
        axis.plot(spread, [100 * (r - 1) for r in ratios], "o", color="#8a94a0", markersize=4)
        middle = 100 * (statistics.median(ratios) - 1)
        axis.plot([place - 0.3, place + 0.3], [middle, middle], color="#b5442e", linewidth=2)
        axis.annotate(f"{middle:+.2f} %", (place + 0.32, middle), fontsize=9, va="center")
    axis.axhline(100 * (GOAL - 1), color="#333333", linewidth=0.8, linestyle="--")
    axis.axhline(0, color="#333333", linewidth=0.8)
    axis.set_xticks(range(len(shapes)), [s[0] for s in shapes])
    axis.set_xlim(-0.5, len(shapes) - 0.2)
    axis.set_ylabel("% slower than with a free order")
    axis.set_title("price of the fixed order: dots are pairs, lines their medians; dashed: the goal",
                   fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(about, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--order-price", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.25, help="per side of a pair")
    parser.add_argument("--out", default="bench/results")
    args = parser.parse_args()
    reply = subprocess.run(
        [args.order_price, "order-price", "--model", args.model, "--threads", str(args.threads), "--pairs",
         str(args.pairs), "--seconds", str(args.seconds)],
        stdout=subprocess.PIPE, text=True, check=True)
    lines = [line for line in reply.stdout.splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    about = f"{machine.describe()['machine']}, {pathlib.Path(args.model).name}"
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "order-price.csv").write_text(f"# {about}\n" + "\n".join(lines) + "\n", encoding="utf-8")
    text = table(about, rows)
    (out / "order-price.md").write_text(text, encoding="utf-8")
    print(text)
    if not plot(about, rows, out / "order-price.png"):
        print("No plot: matplotlib is not installed (bench/requirements.txt).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
