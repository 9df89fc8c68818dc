#!/usr/bin/env python3
"""The share of a step that sampling and scheduling take, by `ropeway serve`'s metric ropeway_step_seconds_total
under many users at once. Twice: greedy, and with temperature, top_p and log-probs.

usage: step_share.py --ropeway P --model FILE.gguf [--users 64] [--output-tokens 120]
"""
import argparse
import concurrent.futures
import json
import urllib.request

from ropeway_bench import servers

PARTS = ("forward", "sampling", "scheduling")
KINDS = {"greedy": {"temperature": 0},
         "temperature, top_p, logprobs": {"temperature": 0.8, "top_p": 0.95, "logprobs": 5}}


def complete(server, body):
    """Completes a prompt; the number of tokens."""
    request = urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as reply:
        return json.load(reply)["usage"]["completion_tokens"]


def measure(args, server, fields):
    """Seconds of each part while all users generate at once, and the tokens they got."""
    bodies = [{"prompt": f"{user}", "max_tokens": args.output_tokens, "ignore_eos": True,
               "seed": user, **fields} for user in range(args.users)]
    before = server.page()
    with concurrent.futures.ThreadPoolExecutor(args.users) as pool:
        tokens = sum(pool.map(lambda body: complete(server, body), bodies))
    after = server.page()
    return {part: after.grown(before, "ropeway_step_seconds_total", f'part="{part}"') for part in PARTS}, tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--users", type=int, default=64)
    parser.add_argument("--output-tokens", type=int, default=120)
    args = parser.parse_args()
    port = servers.free_port()
    with servers.Server([args.ropeway, "serve", "--model", args.model, "--port", port, "--max-num-seqs", args.users],
                        port) as server:
        print("kind,users,tokens,forward_share,sampling_share,scheduling_share")
        for kind, fields in KINDS.items():
            measure(args, server, fields)  # Warms up.
            parts, tokens = measure(args, server, fields)
            shares = ",".join(f"{parts[part] / sum(parts.values()):.4f}" for part in PARTS)
            print(f'"{kind}",{args.users},{tokens},{shares}')


if __name__ == "__main__":
    main()
