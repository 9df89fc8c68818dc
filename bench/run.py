#!/usr/bin/env python3
"""run.py NAME [flags]: runs a benchmark that drives servers over HTTP. `ropeway bench NAME` runs it, too.

run.py NAME --help lists a benchmark's flags; docs/benchmarks.md explains what it measures.
"""
import importlib
import sys

from ropeway_bench import suite

NAMES = ("schedulers", "priorities", "fairness", "long-prompt", "sessions", "serial-vs-batched", "knobs")


def main():
    words = sys.argv[1:]
    if not words or words[0] not in NAMES:
        print(f"ropeway-bench: expected a benchmark, one of {', '.join(NAMES)}", file=sys.stderr)
        return 1
    module = importlib.import_module(f"ropeway_bench.{words[0].replace('-', '_')}")
    return suite.run(words[0], module, words[1:])


if __name__ == "__main__":
    sys.exit(main())
