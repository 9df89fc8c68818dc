#!/usr/bin/env python3
"""Half an hour of mixed hostile and honest load: nothing grows, and honest requests are answered as in quiet.

Key b asks all the time. Every minute one to three attacks of attack.py, drawn from the seed, of key a or of strangers,
take the place of those before; in between, the server is idle for a moment. Then:
- b is never rejected, and the p99 of its time to the first token is at most 3 times that in quiet, and 200 ms;
- memory and descriptors, looked at while it is idle, are in the last third what they were in the first;
- the server ends in time with exit code 0.

usage: soak_test.py --ropeway PROGRAM --model FILE.gguf [--minutes N] [--seed N]
"""
import argparse
import random
import statistics
import sys
import time

from attack import KINDS
from load import DRAIN_SECONDS, MIB, Attacker, Honest, Server, memory_bound, percentile

ATTACK_SECONDS = 50
PAUSE_SECONDS = 3
# What may be more at the end than at the beginning: malloc's free lists, and connections that are being closed.
MEMORY_FACTOR, MEMORY_MARGIN = 1.05, 48 * MIB
DESCRIPTOR_MARGIN = 8


def soak(server, args):
    """What is wrong, as sentences."""
    wrong = []
    numbers = random.Random(args.seed)
    quiet = Honest(server).run(200)
    wrong += quiet.wrong
    idle = server.memory("VmRSS")
    client = Honest(server)
    memory, descriptors = [], []
    deadline = time.monotonic() + args.minutes * 60
    while time.monotonic() < deadline and not client.wrong:
        kinds = numbers.sample(KINDS, numbers.randint(1, 3))
        stranger = numbers.random() < 0.3
        samples = len(client.ttft)
        with Attacker(server, kinds, stranger) as attacker:
            client.run(sys.maxsize, ATTACK_SECONDS)
            attacker.stop()
        server.wait_until_idle()
        time.sleep(PAUSE_SECONDS)
        memory.append(server.memory("VmRSS"))
        descriptors.append(server.descriptors())
        print(f"  {' + '.join(kinds)}{' of strangers' if stranger else ''}: b's p99 "
              f"{percentile(client.ttft[samples:] or [0], 99) * 1e3:.0f} ms of {len(client.ttft) - samples}; "
              f"{memory[-1] / MIB:.0f} MiB, {descriptors[-1]} descriptors", flush=True)
    wrong += client.wrong
    before, after = percentile(quiet.ttft, 99), percentile(client.ttft, 99)
    print(f"  b's p99: {before * 1e3:.0f} ms in quiet, {after * 1e3:.0f} ms in {len(client.ttft)} samples", flush=True)
    if after > 3 * before + 0.2:
        wrong.append("b's p99 is more than 3 times that in quiet and 200 ms")
    third = max(1, len(memory) // 3)
    first, last = statistics.median(memory[:third]), statistics.median(memory[-third:])
    if last > MEMORY_FACTOR * first + MEMORY_MARGIN:
        wrong.append(f"memory grows: {first / MIB:.0f} MiB in the first third, {last / MIB:.0f} in the last")
    if max(descriptors[-third:]) > max(descriptors[:third]) + DESCRIPTOR_MARGIN:
        wrong.append(f"descriptors grow: {descriptors}")
    if server.memory() - idle > memory_bound():
        wrong.append(f"the peak of memory is {(server.memory() - idle) / MIB:.0f} MiB above the idle server's")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with Server(args.ropeway, args.model) as server:
        wrong = soak(server, args)
        code, seconds = server.stop()
        if code != 0:
            wrong.append(f"the server ended with {code}: {server.output()[-1000:]}")
        if seconds > DRAIN_SECONDS + 5:
            wrong.append(f"SIGTERM took {seconds:.1f} s")
    for each in wrong:
        print(f"FAILED: {each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
