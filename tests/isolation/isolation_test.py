#!/usr/bin/env python3
"""No tenant shuts out another: key b beside attacks of key a, and of strangers without a key.

Each attack of attack.py runs from one process of the lowest priority against a server with --threads 1. Under each, and
under all at once:
- the time to b's first token (8 tokens, class medium) is at most 3 times what it is in quiet, and 200 ms;
- b is never rejected (429, 503), nor is anything that it asks for answered otherwise than in quiet;
- a schema that takes too much work to compile is a 400, whose text is the same each time, and takes the server's thread
  of grammars at most 3 seconds of processor time;
- the server's memory stays within the bound of docs/security.md, it ends in time, and with exit code 0.
And nothing is wasted on b (case "share"): a flood of key a gets at least 90 % of its tokens while b is idle.

The long form has 200 samples of b, beside 200 in quiet, three times, and holds the median of the three p99s against the
bound. The short form takes what a few seconds give, beside one run in quiet; it holds the median against the bound, and
the longest against twice the bound. What is too slow there is measured once more: others may use the machine too.
It has the case "share" only where that is named.

At the end there is a table of all figures; --out writes it to a file too.

usage: isolation_test.py --ropeway PROGRAM --model FILE.gguf [--long] [--rounds N] [--out FILE.json|FILE.csv]
                         [CASE...]
"""
import argparse
import statistics
import sys
import time

from attack import TOO_DEAR, dear_schemas
from load import (DRAIN_SECONDS, KEYS, MIB, Attacker, Background, Honest, Results, Server, ms, percentile,
                  print_table, write_figures)

# What runs at once, and whether without a key.
CASES = {
    "slots": (["slots"], False),
    "bodies": (["bodies"], False),
    "encode": (["encode"], False),
    "helper": (["helper"], False),
    "fields": (["fields"], False),
    "flood": (["flood"], False),
    "sampling": (["sampling"], False),
    "compiles": (["compiles"], False),
    "masks": (["masks"], False),
    "all": (["slots", "bodies", "encode", "helper", "flood", "sampling", "compiles", "masks"], False),
    "strangers": (["slots", "bodies", "encode", "helper", "flood", "sampling", "sockets"], True),
}
SHARE = "share"  # The case of a's own throughput.
SETTLE_SECONDS = 1  # From the first requests of an attack to the first sample.
# Attacks that take slots have so many at least, else they prove nothing.
TAKES_SLOTS = {"slots", "flood", "sampling", "masks"}
LEAST_RUNNING = 16
ALL_WRONG = {"encode", "fields"}  # Each of their requests is wrong, and is read to its end before that shows.
OPEN_TO_STRANGERS = {"bodies", "sockets"}  # They ask for /livez.
REJECTED_AT_THE_DOOR = {401, 403, 404, 405}  # Such an attack would cost nothing.
GRAMMAR_THREAD = "ropeway-grammar"
MOST_COMPILE_SECONDS = 3
# The columns of the table: b's times to the first token, its median gap and its longest request with a large or chunked
# body, in ms; sequences that run; tokens/s of a; grammars compiled and processor seconds of one; masks and ms of one;
# answers to b that were wrong.
COLUMNS = ("case", "round", "quiet_samples", "quiet_p50", "quiet_p99", "quiet_longest", "samples", "p50", "p99",
           "longest", "gap", "quiet_bodies", "bodies", "running", "a_alone", "a_beside", "ratio",
           "compiles", "compile_s", "masks", "mask_ms", "idle_mib", "peak_mib", "bound", "holds", "wrong")


class Form:
    """How much is measured, and what of it must be within the bound."""

    def __init__(self, is_long, rounds=None):
        self.is_long = is_long
        self.rounds = rounds or (3 if is_long else 1)
        self.samples = 200 if is_long else 20
        self.least_samples = 200 if is_long else 3
        self.seconds = None if is_long else 2.5  # At most; the long form takes what it takes.
        self.share_seconds = 30 if is_long else 4
        self.checks = [(99, 1)] if is_long else [(50, 1), (100, 2)]  # Percentiles, times the bound.


def bound(quiet):
    return 3 * quiet + 0.2


def measure(server, form):
    return Honest(server).run(form.samples, form.seconds, form.least_samples)


def check_samples(client, case, what, form, results):
    results.check(not client.wrong, case, f"b, {what}: {client.wrong[:3]}")
    results.check(len(client.ttft) >= form.least_samples, case, f"b, {what}: {len(client.ttft)} samples")


def check_wrong(kind, case, answers, results):
    """An attack of wrong requests that are served would be another attack."""
    if kind in ALL_WRONG:
        results.check(answers.get(400, 0) > 0 and 200 not in answers, case, f"{kind}: not all are a 400: {answers}")


def check_attack(case, counts, running, results):
    """Whether it was one."""
    kinds, stranger = CASES[case]
    for kind in kinds:
        results.check(sum(counts.get(kind, {}).values()) > 0, case, f"the attack {kind} did nothing")
        if not stranger:
            results.check(not REJECTED_AT_THE_DOOR.intersection(counts.get(kind, {})), case,
                          f"the attack {kind} did not come in: {counts}")
        if stranger and kind not in OPEN_TO_STRANGERS:
            results.check(200 not in counts.get(kind, {}), case, f"{kind}: served without a key: {counts}")
    for kind in () if stranger else kinds:
        check_wrong(kind, case, counts.get(kind, {}), results)
    if not stranger and TAKES_SLOTS.intersection(kinds):
        results.check(running >= LEAST_RUNNING, case, f"the attack has {running} slots")


def check_rejections(server, kinds, results):
    """Schemas that take too much work, each under two names and then once more."""
    for kind in kinds:
        answers, seconds = [], []
        for name in ("one", "two", "two"):
            before = server.thread_seconds(GRAMMAR_THREAD)
            body = {"prompt": "Hi", "max_tokens": 1, "guided_json": dear_schemas(name)[kind]}
            answers.append(server.request("POST", "/v1/completions", body, KEYS["a"])[:2])
            seconds.append(round(server.thread_seconds(GRAMMAR_THREAD) - before, 3))
        status, text = answers[0]
        results.check(status == 400 and "too much work" in text, kind, f"{status} {text}")
        results.check(answers[1:] == 2 * answers[:1], kind, f"not the same each time: {answers}")
        results.check(max(seconds) <= MOST_COMPILE_SECONDS, kind, f"it takes {seconds} s")
        results.add_row(case=kind, compile_s=max(seconds), seconds=seconds)


def grammar_counts(server):
    """What grammars have taken of the server so far."""
    names = ("cache_misses", "rejected", "masks", "masks_deferred", "mask_seconds")
    return (server.thread_seconds(GRAMMAR_THREAD), *(server.metric(f"ropeway_grammar_{name}_total") for name in names))


def grammar_figures(before, after):
    """Compiles that began, and masks; with those put off to a later step."""
    seconds, compiles, rejected, masks, deferred, mask_seconds = (b - a for a, b in zip(before, after))
    figures = {}
    if compiles:
        figures |= {"compiles": int(compiles), "rejected": int(rejected), "compile_s": round(seconds / compiles, 3)}
    if masks:
        figures |= {"masks": int(masks), "deferred": int(deferred), "mask_ms": ms(mask_seconds / masks)}
    return figures


def check_grammars(case, figures, results):
    """Whether the attack made the server compile or fill masks, and what each grammar took."""
    if CASES[case] == (["compiles"], False):
        results.check(figures.get("compile_s", 0) > 0.05, case, f"the attack compiles too little: {figures}")
    if CASES[case] == (["masks"], False):
        results.check(figures.get("mask_ms", 0) > 0.5, case, f"the attack has no dear masks: {figures}")
    seconds = figures.get("compile_s", 0)
    results.check(seconds <= MOST_COMPILE_SECONDS, case, f"a grammar takes {seconds} s to compile")


def under_attack(server, case, form, results):
    """b in one round, how many sequences ran, the attack's answers, and the figures of its grammars."""
    kinds, stranger = CASES[case]
    before = grammar_counts(server)
    with Attacker(server, kinds, stranger) as attacker:
        time.sleep(SETTLE_SECONDS)
        running = server.running()
        client = measure(server, form)
        running = max(running, server.running())
        figures = grammar_figures(before, grammar_counts(server))
        counts = attacker.stop()
    check_samples(client, case, "under attack", form, results)
    check_attack(case, counts, running, results)
    check_grammars(case, figures, results)
    server.wait_until_idle()
    return client, running, counts, figures


def in_quiet(server, form, results):
    client = measure(server, form)
    check_samples(client, "quiet", "alone", form, results)
    if not client.ttft:
        raise RuntimeError(f"b has no answer on a quiet server: {client.wrong}")
    return client


def figures_of(client):
    return {"samples": len(client.ttft), "p50": ms(percentile(client.ttft, 50)), "p99": ms(percentile(client.ttft, 99)),
            "longest": ms(max(client.ttft))}


def run_case(server, case, form, results, quiet):
    """`quiet`: b in quiet; None: measured before each round."""
    if case == "compiles":
        check_rejections(server, TOO_DEAR if form.is_long else TOO_DEAR[:1], results)
    rounds = []
    for number in range(1, form.rounds + 1):
        before = quiet or in_quiet(server, form, results)
        client, running, counts, grammars = under_attack(server, case, form, results)
        if not client.ttft:
            continue
        rounds.append((before.ttft, client.ttft))
        quiet_figures = {f"quiet_{name}": figure for name, figure in figures_of(before).items()}
        results.add_row(case=case, round=number, **quiet_figures, **figures_of(client),
                        gap=ms(statistics.median(client.gaps or [0])),
                        quiet_bodies=ms(max(before.probe_seconds, default=0)),
                        bodies=ms(max(client.probe_seconds, default=0)), running=running,
                        **grammars, peak_mib=server.memory() // MIB, wrong=len(client.wrong), attack=counts)
    results.check(len(rounds) == form.rounds, case, "no samples")
    for percent, factor in form.checks if rounds else ():
        before = statistics.median(percentile(samples, percent) for samples, _ in rounds)
        after = statistics.median(percentile(attacked, percent) for _, attacked in rounds)
        most = factor * bound(before)
        what = f"p{percent} of b's TTFT is {ms(after)} ms, in quiet {ms(before)}: more than {ms(most)}"
        results.check(after <= most, case, what, is_time=True)
        name = "longest" if percent == 100 else f"p{percent}"
        figures = {f"quiet_{name}": ms(before), name: ms(after)}
        results.add_row(case=case, round="median", **figures, bound=ms(most), holds=after <= most)


def tokens_per_second(server, seconds, client=None):
    """Of key a, in a flood, while `client` sends what it sends; and the sequences that run, its included."""
    with Attacker(server, ["flood"]) as attacker:
        time.sleep(SETTLE_SECONDS + 1)  # All slots are taken.
        background = Background(client) if client else None
        begin, before = time.monotonic(), server.metric("ropeway_tenant_generation_tokens_total", "a")
        running = []
        while time.monotonic() < begin + seconds:
            time.sleep(min(0.5, seconds))
            running.append(server.running())
        tokens = server.metric("ropeway_tenant_generation_tokens_total", "a") - before
        elapsed = time.monotonic() - begin
        if background:
            background.stop()
        attacker.stop()
    server.wait_until_idle()
    return tokens / elapsed, statistics.median(running)


def run_share(server, form, results):
    """What b takes is what b computes, and no more."""
    ratios = []
    for number in range(1, form.rounds + 1):
        alone, running = tokens_per_second(server, form.share_seconds)
        client = Honest(server, pause=0.5, probes=False)
        beside, _ = tokens_per_second(server, form.share_seconds, client)
        results.check(not client.wrong, SHARE, f"b, beside a flood: {client.wrong[:3]}")
        results.check(alone > 0, SHARE, "the flood gets no tokens")
        ratios.append(beside / max(alone, 1e-9))
        results.add_row(case=SHARE, round=number, samples=len(client.ttft), running=running, a_alone=round(alone, 1),
                        a_beside=round(beside, 1), ratio=round(ratios[-1], 3), wrong=len(client.wrong))
    ratio = statistics.median(ratios)
    results.check(ratio >= 0.9, SHARE, f"a gets {ratio:.2f} of what it gets alone", is_time=True)
    results.add_row(case=SHARE, round="median", ratio=round(ratio, 3), bound=0.9, holds=ratio >= 0.9)


def run(args, cases, form, results):
    with Server(args.ropeway, args.model) as server:
        Honest(server).run(5)  # The first requests touch memory.
        idle = server.memory("VmRSS")
        quiet = None if form.is_long else in_quiet(server, form, results)
        for case in cases:
            if case == SHARE:
                run_share(server, form, results)
            else:
                run_case(server, case, form, results, quiet)
        peak = server.memory()
        bound = server.memory_bound()
        results.check(peak - idle <= bound, "memory",
                      f"the peak is {(peak - idle) // MIB} MiB above the idle server's; the bound is {bound // MIB}")
        results.check(server.get("/livez")[0] == 200, "end", "/livez")
        code, seconds = server.stop()
        results.check(code == 0, "end", f"the server ended with {code}: {server.output()[-1000:]}")
        results.check(seconds <= DRAIN_SECONDS + 5, "end", f"SIGTERM took {seconds:.1f} s")
        results.add_row(case="memory", idle_mib=idle // MIB, peak_mib=peak // MIB, bound=(idle + bound) // MIB,
                        holds=peak - idle <= bound, seconds_to_end=round(seconds, 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--rounds", type=int, help="in place of 3 (long) or 1 (short)")
    parser.add_argument("--out", help="a file for the figures: .json, or .csv")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join([*CASES, SHARE])}")
    args = parser.parse_args()
    unknown = set(args.cases) - {*CASES, SHARE}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    form = Form(args.long, args.rounds)
    cases = args.cases or [*CASES, *([SHARE] if args.long else [])]
    results = Results()
    try:
        run(args, cases, form, results)
        slow = [case for case in cases if case in results.too_slow()]
        if slow and not args.long:
            print(f"  again: {', '.join(slow)}", flush=True)
            results.drop({*slow, "memory"})
            run(args, slow, form, results)
    finally:
        print_table(results.rows, COLUMNS)
        if args.out:
            write_figures(args.out, results.rows, results.sentences(),
                          {"form": "long" if args.long else "short", "cases": cases, "times": "ms"})
    for sentence in results.sentences():
        print(f"FAILED: {sentence}")
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
