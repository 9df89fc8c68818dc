#!/usr/bin/env python3
"""Runs `ropeway bench sessions` and `ropeway bench prefixes`, and writes {sessions,prefixes}.{csv,md,png} to
the folder --out.

usage: kv_memory.py --ropeway P [--llama-server P] [--trace FILE] [--only sessions prefixes] [--quick]
       [-- further flags of the command that --only names]

--report measures nothing and writes pages and plots anew from the CSV files. Without --quick it takes up to
an hour.
"""
import argparse
import sys

import figures_file
from figures_file import bars, lines, single


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    figures_file.add_flags(parser, DRAW)
    return figures_file.run_all(figures_file.parse(parser, sys.argv[1:]), DRAW, ("prefixes",))


if __name__ == "__main__":
    sys.exit(main())
