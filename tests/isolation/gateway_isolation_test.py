#!/usr/bin/env python3
"""No tenant shuts out another before a gateway: key b beside attacks of key a.

Before one Ropeway, which is told the tenants, the bound is the engine's own (isolation_test.py): b's time to the first token is
at most 3 times what it is in quiet, and 200 ms; and b is never rejected. Before a server of 4 places that knows no tenants one
place is kept for b, which asks for one thing at a time: it waits for nobody, so the bound is the same. There the attack must have
the other three, and never more.

The short form holds b's median against the bound, and the longest against twice the bound; what is too slow is measured once
more. The long form has 200 samples and holds the p99.

usage: gateway_isolation_test.py --ropeway PROGRAM --model FILE.gguf [--long] [--out FILE.json|FILE.csv] [CASE...]
"""
import argparse
import os
import sys
import time

from load import ADMIN_KEY, KEYS, Attacker, Honest, Results, Server, ms, percentile, print_table, write_figures
from isolation_test import SETTLE_SECONDS, bound, check_wrong, figures_of
# pylint: disable=wrong-import-order
from backend_double import Double, OpenAi

GATEWAY_KEY = "key-of-the-gateway"
PLACES = 4
# Class high before a Ropeway is not among them: there a tenant's class high goes before another one's class medium, as its
# policy says.
SHORT = {"ropeway": ["slots", "flood"], "server": ["slots", "urgent"]}
LONG = {"ropeway": ["slots", "flood", "sampling", "fields", "bodies"],
        "server": ["slots", "urgent", "flood", "fields", "bodies"]}
TAKES_PLACES = {"slots", "urgent", "flood", "sampling"}
COLUMNS = ("case", "quiet_p50", "quiet_longest", "samples", "p50", "p99", "longest", "running", "bound", "holds", "wrong")


class Gateway(Server):
    """With the keys of load.py, before one backend."""

    def __init__(self, ropeway, backend):
        self.launch([ropeway, "gateway", "--port", 0, *self.key_flags(KEYS), "--backend", backend],
                    {**os.environ, "BACKEND_KEY": GATEWAY_KEY})


def slow_answer(exchange):
    """A token each 20 ms."""
    answer = OpenAi(exchange)
    answer.pieces(exchange.max_tokens, pause=0.02)
    answer.finish()


def measure(gateway, args):
    samples = 200 if args.long else 20
    return Honest(gateway, probes=False).run(samples, None if args.long else 1.5, 3)


def run_case(gateway, kind, name, quiet, args, results):
    with Attacker(gateway, [kind]) as attacker:
        time.sleep(SETTLE_SECONDS)
        running = gateway.running()
        client = measure(gateway, args)
        running = max(running, gateway.running())
        counts = attacker.stop().get(kind, {})
    gateway.wait_until_idle()
    results.check(sum(counts.values()) > 0, name, f"the attack did nothing: {counts}")
    check_wrong(kind, name, counts, results)
    results.check(not client.wrong, name, f"b under attack: {client.wrong[:3]}")
    if kind in TAKES_PLACES:
        least = 16 if name.startswith("ropeway") else PLACES - 1
        results.check(running >= least, name, f"the attack has {running} places")
    results.check(len(client.ttft) >= 3, name, f"b has {len(client.ttft)} samples")
    if not client.ttft:
        return
    most = bound(percentile(quiet.ttft, 50))
    checks = [(99, bound(percentile(quiet.ttft, 99)))] if args.long else [(50, most), (100, 2 * most)]
    holds = True
    for percent, limit in checks:
        took = percentile(client.ttft, percent)
        holds = holds and took <= limit
        results.check(took <= limit, name, f"p{percent} of b's TTFT is {ms(took)} ms: more than {ms(limit)}", is_time=True)
    results.add_row(case=name, quiet_p50=ms(percentile(quiet.ttft, 50)), quiet_longest=ms(max(quiet.ttft)),
                    **figures_of(client), running=running, bound=ms(most), holds=holds, wrong=len(client.wrong))


def run_all(gateway, before, cases, args, results):
    with gateway:
        Honest(gateway, probes=False).run(5)
        quiet = measure(gateway, args)
        results.check(not quiet.wrong, before, f"b in quiet: {quiet.wrong[:3]}")
        if not quiet.ttft:
            return
        for name in cases:
            if name.startswith(before + "-"):
                run_case(gateway, name.removeprefix(before + "-"), name, quiet, args, results)
        code, _ = gateway.stop()
        results.check(code == 0, before, f"the gateway ended with {code}: {gateway.output()[-1000:]}")


def run(args, cases, results):
    if any(name.startswith("ropeway-") for name in cases):
        with Server(args.ropeway, args.model, keys={**KEYS, "gateway": GATEWAY_KEY}) as engine:
            backend = f"http://127.0.0.1:{engine.port},kind=ropeway,key-env=BACKEND_KEY"
            run_all(Gateway(args.ropeway, backend), "ropeway", cases, args, results)
    if any(name.startswith("server-") for name in cases):
        with Double(slow_answer) as double:
            backend = f"{double.url},max-concurrency={PLACES}"
            run_all(Gateway(args.ropeway, backend), "server", cases, args, results)
            if any(f"server-{kind}" in cases for kind in TAKES_PLACES):
                results.check(double.most_in_flight == PLACES, "server",
                              f"it had {double.most_in_flight} requests at once, with {PLACES} places")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--out", help="a file for the figures: .json, or .csv")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="such as ropeway-slots")
    args = parser.parse_args()
    known = [f"{before}-{kind}" for before, kinds in LONG.items() for kind in kinds]
    form = LONG if args.long else SHORT
    cases = args.cases or [f"{before}-{kind}" for before, kinds in form.items() for kind in kinds]
    if unknown := set(cases) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    results = Results()
    try:
        run(args, cases, results)
        slow = [name for name in cases if name in results.too_slow()]
        if slow and not args.long:
            print(f"  again: {', '.join(slow)}", flush=True)
            results.drop(set(slow))
            run(args, slow, results)
    finally:
        print_table(results.rows, COLUMNS)
        if args.out:
            write_figures(args.out, results.rows, results.sentences(), {"cases": cases, "times": "ms"})
    for sentence in results.sentences():
        print(f"FAILED: {sentence}")
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
