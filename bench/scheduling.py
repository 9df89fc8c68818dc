#!/usr/bin/env python3
"""Runs `ropeway bench schedulers`, `bench priorities`, `bench fairness` and `bench long-prompt`, and writes
{schedulers,priorities,fairness,long-prompt}.{csv,md,png} to the folder --out.

usage: scheduling.py --ropeway P --trace FILE [--llama-server P] [--only schedulers priorities ...] [--quick]
       [-- further flags of the command that --only names]

--trace: the Arena trace of VTC, for fairness. --report measures nothing and writes pages and plots anew from
the CSV files. --quick takes at most 10 minutes, the rest up to an hour.
"""
import argparse
import re
import sys

import figures_file
from figures_file import COLOURS, bars, named_bars, places, single

CLASSES = ("high", "medium", "low")


def sizes(rows):
    """The batch sizes that were measured."""
    found = {re.fullmatch(r"batch of (\d+)", r["part"]) for r in rows}
    return sorted(int(match[1]) for match in found if match)


def batch_rates(rows):
    """{contestant: [(batch size, output tok/s)]}."""
    rates = {}
    for size in sizes(rows):
        part = f"batch of {size}"
        for name in figures_file.contestants(rows, part, "output_tok_per_s"):
            rates.setdefault(name, []).append((size, single(rows, part, name, "output_tok_per_s")))
    return rates


def draw_schedulers(axes, rows):
    for (name, points), colour in zip(batch_rates(rows).items(), COLOURS * 2):
        axes[0].plot([x for x, _ in points], [y for _, y in points], color=colour, marker="o", markersize=3,
                     label=name)
    axes[0].set_title("output tok/s by batch size, twice as many in flight", fontsize=9)
    axes[0].set_ylim(bottom=0)
    if axes[0].get_legend_handles_labels()[0]:
        axes[0].legend(fontsize=7, frameon=False)
    largest = f"batch of {max(sizes(rows), default=0)}"
    bars(axes[1], rows, largest, "ttft_p50_s", f"{largest}: median TTFT, s")
    bars(axes[2], rows, largest, "place_share", f"{largest}: places used while some wait, %", 100)
    bars(axes[3], rows, "mixed", "latency_p50_s", "mixed: median latency, s")


def by_class(axis, rows, part, metric, title, factor=1000):
    names, values = [], []
    for name in figures_file.contestants(rows, part, metric):
        for cls in CLASSES:
            names.append(f"{name}, {cls}")
            value = single(rows, part, name, metric, cls)
            values.append(None if value is None else factor * value)
    named_bars(axis, names, values, title)


def draw_priorities(axes, rows):
    by_class(axes[0], rows, "open loop", "ttft_p99_s", "open loop: TTFT p99, ms")
    by_class(axes[1], rows, "low and urgent", "ttft_p99_s", "saturated by low: TTFT p99, ms")
    by_class(axes[2], rows, "low and urgent", "itl_p99_s", "saturated by low: ITL p99, ms")
    parts = ("low alone", "low and urgent")
    ours = figures_file.contestants(rows, "low alone", "work_per_s")
    named_bars(axes[3], [f"{name}, {part}" for name in ours for part in parts],
               [single(rows, part, name, "work_per_s") for name in ours for part in parts], "work, tokens/s")


def client_number(name):
    return int(name.split()[-1])


def draw_fairness(axes, rows):
    for axis, part in ((axes[0], "measured"), (axes[1], "simulated")):
        names = [x for x in places(rows, part, "ttft_p50_s") if x.startswith("client")]
        names.sort(key=lambda x, part=part: single(rows, part, "priority+fair", "offered_work", x) or 0)
        for contestant, colour in (("fcfs", COLOURS[1]), ("priority+fair", COLOURS[0])):
            axis.plot(range(len(names)), [single(rows, part, contestant, "ttft_p50_s", x) for x in names],
                      color=colour, marker="o", markersize=3, label=contestant)
        axis.set_title(f"{part}: each client's median TTFT, s", fontsize=9)
        axis.set_xlabel("clients, those who ask for least first", fontsize=8)
        axis.set_yscale("log")
        axis.legend(fontsize=7, frameon=False)
    bars(axes[2], rows, "measured", "tok_per_s", "measured: tokens/s")
    bars(axes[3], rows, "measured", "service_gap", "measured: largest service gap")


def draw_long_prompt(axes, rows):
    names = figures_file.contestants(rows, "both", "itl_p99_s")
    both = [("streams alone", ""), ("both", "streams")]
    values = [single(rows, part, name, "itl_p99_s", x) for name in names for part, x in both]
    named_bars(axes[0], [f"{name}, {'alone' if not x else 'both'}" for name in names for _, x in both],
               [None if v is None else 1000 * v for v in values], "streams: ITL p99, ms")
    long = [("long prompts alone", ""), ("both", "long prompts")]
    named_bars(axes[1], [f"{name}, {'alone' if not x else 'both'}" for name in names for _, x in long],
               [single(rows, part, name, "ttft_p50_s", x) for name in names for part, x in long],
               "long prompts: median TTFT, s")
    named_bars(axes[2], [f"{name}, {'alone' if not x else 'both'}" for name in names for _, x in both],
               [single(rows, part, name, "output_tok_per_s", x) for name in names for part, x in both],
               "streams: output tok/s")
    axes[3].axis("off")


DRAW = {"schedulers": draw_schedulers, "priorities": draw_priorities, "fairness": draw_fairness,
        "long-prompt": draw_long_prompt}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    figures_file.add_flags(parser, DRAW)
    return figures_file.run_all(figures_file.parse(parser, sys.argv[1:]), DRAW, ("fairness",))


if __name__ == "__main__":
    sys.exit(main())
