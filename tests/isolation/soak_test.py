#!/usr/bin/env python3
"""Half an hour of mixed hostile and honest load: nothing grows, and honest requests are answered as in quiet.

Key b asks all the time. Every minute one to three attacks of attack.py, drawn from the seed, of key a or of strangers,
take the place of those before; in between, the server is idle for a moment. First the server gets as many grammars as
it keeps, and each attack of key a comes once, so that all that they need has been taken. Then:
- b is never rejected, and the p99 of its time to the first token is at most 3 times that in quiet, and 200 ms;
- memory and descriptors, looked at while it is idle after the drawn attacks, are in the last third what they were in the
  first;
- the server ends in time with exit code 0.

With fewer than 10 minutes the attacks are shorter: there are about 20 of them. --out: the figures of each attack.

usage: soak_test.py --ropeway PROGRAM --model FILE.gguf [--minutes N] [--seed N] [--out FILE.json|FILE.csv]
"""
import argparse
import random
import statistics
import sys
import time

from attack import KINDS, dear_schemas
from load import (DRAIN_SECONDS, KEYS, MIB, Attacker, Honest, Server, percentile, print_table,
                  write_figures)

ATTACK_SECONDS = 50
ATTACKS = 12 + len(KINDS)  # At least, in a short run.
PAUSE_SECONDS = 3
COLUMNS = ("minute", "attack", "samples", "p50", "p99", "longest", "memory_mib", "descriptors")
# What may be more at the end than at the beginning: malloc's free lists, and connections that are being closed.
MEMORY_FACTOR, MEMORY_MARGIN = 1.05, 48 * MIB
DESCRIPTOR_MARGIN = 8


def figures_of(samples):
    """Times in ms."""
    return {"samples": len(samples), **{name: round(percentile(samples or [0], percent) * 1e3, 1)
                                        for name, percent in (("p50", 50), ("p99", 99), ("longest", 100))}}


def fill_grammars(server):
    """Has other grammars compiled until the server keeps no more of them than before."""
    kept, number = -1, 0
    while (now := server.metric("ropeway_grammar_cache_bytes")) > kept:
        kept = now
        for number in range(number + 1, number + 11):
            schema = dear_schemas(f"fill{number:06}")["objects"]
            body = {"prompt": "Hi", "max_tokens": 1, "guided_json": schema}
            status, text, _ = server.request("POST", "/v1/completions", body, KEYS["a"])
            assert status == 200, f"{status} {text}"
    print(f"  {number} grammars, of which those kept take {kept / MIB:.0f} MiB", flush=True)


def soak(server, args, rows, wrong):
    """Adds the figures of each attack to `rows`, and to `wrong` what is, as sentences."""
    numbers = random.Random(args.seed)
    quiet = Honest(server).run(200)
    wrong += quiet.wrong
    if not quiet.ttft:
        return
    rows.append({"minute": 0, "attack": "none", **figures_of(quiet.ttft)})
    idle = server.memory("VmRSS")
    fill_grammars(server)
    client = Honest(server)
    memory, descriptors = [], []
    seconds = max(1, min(ATTACK_SECONDS, args.minutes * 60 / ATTACKS - PAUSE_SECONDS))
    begin = time.monotonic()
    each_once = list(KINDS)
    while (each_once or not memory or time.monotonic() < begin + args.minutes * 60) and not client.wrong:
        is_drawn = not each_once
        kinds = numbers.sample(KINDS, numbers.randint(1, 3)) if is_drawn else [each_once.pop()]
        stranger = is_drawn and numbers.random() < 0.3
        samples = len(client.ttft)
        with Attacker(server, kinds, stranger) as attacker:
            client.run(sys.maxsize, seconds)
            attacker.stop()
        server.wait_until_idle()
        time.sleep(PAUSE_SECONDS)
        idle_memory, open_descriptors = server.memory("VmRSS"), server.descriptors()
        if is_drawn:
            memory.append(idle_memory)
            descriptors.append(open_descriptors)
        rows.append({"minute": round((time.monotonic() - begin) / 60, 1),
                     "attack": " + ".join(kinds) + (" of strangers" if stranger else ""),
                     **figures_of(client.ttft[samples:]), "memory_mib": idle_memory // MIB,
                     "descriptors": open_descriptors})
        print("  " + ", ".join(f"{name} {figure}" for name, figure in rows[-1].items()), flush=True)
    wrong += client.wrong
    if not client.ttft:
        wrong.append("b has no answer under attack")
        return
    rows.append({"attack": "all", **figures_of(client.ttft)})
    before, after = percentile(quiet.ttft, 99), percentile(client.ttft, 99)
    if after > 3 * before + 0.2:
        wrong.append(f"b's p99 is {after * 1e3:.0f} ms, in quiet {before * 1e3:.0f}: more than 3 times that and 200 ms")
    if not memory:
        return  # What was wrong came first.
    third = max(1, len(memory) // 3)
    first, last = statistics.median(memory[:third]), statistics.median(memory[-third:])
    if last > MEMORY_FACTOR * first + MEMORY_MARGIN:
        wrong.append(f"memory grows: {first / MIB:.0f} MiB in the first third, {last / MIB:.0f} in the last")
    if max(descriptors[-third:]) > max(descriptors[:third]) + DESCRIPTOR_MARGIN:
        wrong.append(f"descriptors grow: {descriptors}")
    peak = server.memory() - idle
    if peak > (bound := server.memory_bound()):
        wrong.append(f"the peak is {peak // MIB} MiB above the idle server's; the bound is {bound // MIB}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", help="a file for the figures: .json, or .csv")
    args = parser.parse_args()
    rows, wrong = [], []
    try:
        with Server(args.ropeway, args.model) as server:
            soak(server, args, rows, wrong)
            code, seconds = server.stop()
            if code != 0:
                wrong.append(f"the server ended with {code}: {server.output()[-1000:]}")
            if seconds > DRAIN_SECONDS + 5:
                wrong.append(f"SIGTERM took {seconds:.1f} s")
    finally:
        print_table(rows, COLUMNS)
        if args.out:
            write_figures(args.out, rows, wrong, {"minutes": args.minutes, "seed": args.seed, "times": "ms"})
    for each in wrong:
        print(f"FAILED: {each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
