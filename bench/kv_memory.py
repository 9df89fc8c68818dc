#!/usr/bin/env python3
"""Runs `ropeway bench sessions` and `ropeway bench prefixes`, and writes {sessions,prefixes}.{csv,md,png} to
the folder --out.

usage: kv_memory.py --ropeway P [--llama-server P] [--trace FILE] [--only sessions prefixes] [--quick]
       [-- further flags of the command that --only names]

--report measures nothing and writes pages and plots anew from the CSV files. Without --quick it takes up to
an hour.
"""
import argparse
import csv
import pathlib
import statistics
import subprocess
import sys

import pyplot

COLOURS = ("#b5442e", "#8a94a0", "#2e6fb5", "#4a9a5b", "#333333")


def read(path):
    """The figures of a file: a list of rows."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def contestants(rows, part, metric):
    return list(dict.fromkeys(r["contestant"] for r in rows if r["part"] == part and r["metric"] == metric))


def curve(rows, part, contestant, metric):
    """[(x, median over the rounds)], by x; figures without a place are left out."""
    values = {}
    for r in rows:
        if (r["part"], r["contestant"], r["metric"]) == (part, contestant, metric) and r["x"]:
            values.setdefault(float(r["x"]), []).append(float(r["value"]))
    return sorted((x, statistics.median(v)) for x, v in values.items())


def single(rows, part, contestant, metric):
    """The median over the rounds of the figure without a place; None where there is none."""
    values = [float(r["value"]) for r in rows
              if (r["part"], r["contestant"], r["metric"], r["x"]) == (part, contestant, metric, "")]
    return statistics.median(values) if values else None


def lines(axis, rows, part, metric, title, xlabel, factor=1):
    for name, colour in zip(contestants(rows, part, metric), COLOURS * 2):
        points = curve(rows, part, name, metric)
        if points:
            axis.plot([x for x, _ in points], [factor * y for _, y in points], color=colour, marker="o",
                      label=name, markersize=3, linestyle="--" if "LRU" in name else "-")
    axis.set_title(title, fontsize=9)
    axis.set_xlabel(xlabel, fontsize=8)
    axis.set_ylim(bottom=0)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=7, frameon=False)


def bars(axis, rows, part, metric, title, factor=1):
    names = [n for n in contestants(rows, part, metric) if single(rows, part, n, metric) is not None]
    values = [factor * single(rows, part, n, metric) for n in names]
    axis.barh(range(len(names)), values, color=COLOURS[0], height=0.6)
    axis.set_yticks(range(len(names)), names, fontsize=7)
    axis.invert_yaxis()
    for place, value in enumerate(values):
        axis.text(value, place, f" {value:.3g}", va="center", fontsize=7)
    axis.set_title(title, fontsize=9)


def draw_sessions(axes, rows):
    bars(axes[0], rows, "chats", "turns_per_s", "chats: turns/s")
    lines(axes[1], rows, "chats", "ttft_p50_s", "chats: median TTFT, s", "turn")
    bars(axes[2], rows, "pool", "turns_per_s", "three times the chats that fit: turns/s")
    bars(axes[3], rows, "restart", "ttft_p50_s", "TTFT, s")


def draw_prefixes(axes, rows):
    bars(axes[0], rows, "shared prompt", "output_tok_per_s", "users behind one prompt: output tok/s")
    lines(axes[1], rows, "curves", "hit_share", "input tokens cached, %", "pool, % of the working set", 100)
    bound = single(rows, "curves", "no bounds", "hit_share")
    if bound is not None:
        axes[1].axhline(100 * bound, color="#333333", linewidth=0.8, linestyle=":")
    lines(axes[2], rows, "slice", "in_flight", "slice of the trace: requests in flight",
          "quarter of the arrivals' time")
    bars(axes[3], rows, "slice", "ttft_p50_s", "slice: median TTFT, s")


DRAW = {"sessions": draw_sessions, "prefixes": draw_prefixes}


def draw(name, rows, path):
    """False without matplotlib."""
    plt = pyplot.load()
    if plt is None:
        return False
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.5))
    DRAW[name](list(axes.flat), rows)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=7)
    machine = next((r["value"] for r in rows if (r["part"], r["metric"]) == ("about", "machine")), "")
    figure.suptitle(f"bench {name}: {machine}", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def command(args, name, path):
    """The command line that measures, or that only reports."""
    words = [args.ropeway, "bench", name, "--csv", str(path)]
    if args.report:
        return words + ["--rounds", "0"]
    words += ["--quick"] if args.quick else []
    words += ["--append"] if args.append else []
    words += ["--model", args.model] if args.model else []
    words += ["--llama-server", args.llama_server] if args.llama_server else []
    words += ["--trace", args.trace] if args.trace and name == "prefixes" else []
    return words + args.further


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", default="")
    parser.add_argument("--llama-server", default="")
    parser.add_argument("--trace", default="", help="Mooncake's, for `bench prefixes`")
    parser.add_argument("--only", nargs="+", choices=list(DRAW), default=list(DRAW))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench/results"))
    parser.add_argument("--quick", action="store_true", help="our engine only, at most 10 minutes")
    parser.add_argument("--append", action="store_true", help="go on with the figures in the CSV files")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    own, further = sys.argv[1:], []
    if "--" in own:
        own, further = own[:own.index("--")], own[own.index("--") + 1:]
    args = parser.parse_args(own)
    args.further = further
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.only:
        path = args.out / f"{name}.csv"
        reply = subprocess.run(command(args, name, path), stdout=subprocess.PIPE, text=True, check=False)
        if reply.returncode != 0:
            return reply.returncode
        path.with_suffix(".md").write_text(reply.stdout, encoding="utf-8")
        print(reply.stdout)
        if not draw(name, read(path), path.with_suffix(".png")):
            print("No plot: matplotlib is not installed (bench/requirements.txt).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
