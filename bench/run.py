#!/usr/bin/env python3
"""run.py NAME [flags]: runs a benchmark: its metrics, report and plots. `ropeway bench NAME` runs those that
`ropeway-bench` has no command for, too.

run.py NAME --help lists a benchmark's flags; docs/benchmarks.md explains what it measures.
"""
import importlib
import signal
import sys

from ropeway_bench import suite

NAMES = ("schedulers", "priorities", "fairness", "long-prompt", "sessions", "prefixes", "determinism",
         "kernels", "order-price", "serial-vs-batched", "knobs", "http", "users", "engine", "steps", "models", "embeddings",
         "first-answers", "gateway", "conversations")


def main():
    words = sys.argv[1:]
    if not words or words[0] not in NAMES:
        given = f", not '{words[0]}'" if words else ""
        print(f"ropeway-bench: expected a command of ropeway-bench --help, or one of {', '.join(NAMES)}{given}",
              file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Temporary folders are removed.
    module = importlib.import_module(f"ropeway_bench.{words[0].replace('-', '_')}")
    return suite.run(words[0], module, words[1:])


if __name__ == "__main__":
    sys.exit(main())
