#!/usr/bin/env python3
"""What sampling and scheduling take of a step: `ropeway serve`, asked by so many users at once, tells
by its metric ropeway_step_seconds_total. Twice: greedy, and with temperature, top_p and log-probs.

usage: step_share.py --ropeway P --model FILE.gguf [--users 64] [--output-tokens 120]
"""
import argparse
import concurrent.futures
import json
import re
import subprocess
import urllib.request

import server_process

PORT = 8396
BASE = f"http://127.0.0.1:{PORT}"
PARTS = ("forward", "sampling", "scheduling")
KINDS = {"greedy": {"temperature": 0},
         "temperature, top_p, logprobs": {"temperature": 0.8, "top_p": 0.95, "logprobs": 5}}


def get(path):
    with urllib.request.urlopen(BASE + path, timeout=5) as reply:
        return reply.read().decode()


def seconds_by_part():
    text = get("/metrics")
    found = dict(re.findall(r'ropeway_step_seconds_total\{part="(\w+)"\} (\S+)', text))
    return {part: float(found[part]) for part in PARTS}


def ask(body):
    request = urllib.request.Request(BASE + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as reply:
        return json.load(reply)["usage"]["completion_tokens"]


def measure(args, fields):
    """Seconds of each part while all users generate at once, and the tokens they got."""
    bodies = [{"prompt": f"{user}", "max_tokens": args.output_tokens, "ignore_eos": True,
               "seed": user, **fields} for user in range(args.users)]
    before = seconds_by_part()
    with concurrent.futures.ThreadPoolExecutor(args.users) as pool:
        tokens = sum(pool.map(ask, bodies))
    after = seconds_by_part()
    return {part: after[part] - before[part] for part in PARTS}, tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--users", type=int, default=64)
    parser.add_argument("--output-tokens", type=int, default=120)
    args = parser.parse_args()
    command = [args.ropeway, "serve", "--model", args.model, "--port", str(PORT),
               "--max-num-seqs", str(args.users)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            server_process.wait_healthy(server, PORT)
            print("kind,users,tokens,forward_share,sampling_share,scheduling_share")
            for kind, fields in KINDS.items():
                measure(args, fields)  # Warms up.
                parts, tokens = measure(args, fields)
                whole = sum(parts.values())
                shares = ",".join(f"{parts[part] / whole:.4f}" for part in PARTS)
                print(f'"{kind}",{args.users},{tokens},{shares}')
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
