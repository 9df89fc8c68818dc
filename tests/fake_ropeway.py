#!/usr/bin/env python3
"""Stands for the programs `ropeway` and `ropeway-bench` in tests of the benchmarks' orchestration: `serve` answers
/health and /metrics, `bench serve` writes records without sending anything, `replay` likewise. Times are invented."""
import argparse
import csv
import http.server
import itertools
import json
import pathlib
import signal
import sys
import time

METRICS = """ropeway_slot_seconds_total{{state="used"}} {0}
ropeway_slot_seconds_total{{state="all"}} {0}
ropeway_busy_seconds_total {0}
ropeway_num_preemptions_total 0
ropeway_recomputed_tokens_total 0
ropeway_step_time_seconds_sum {0}
ropeway_step_time_seconds_count {0}
ropeway_step_rows_sum {0}
ropeway_step_rows_count {0}
ropeway_prefix_cache_queries_total {0}
ropeway_prefix_cache_hits_total {0}
ropeway_engine_info{{kernels="avx2"}} 1
"""


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # pylint: disable=invalid-name
        body = METRICS.format(time.monotonic()) if self.path == "/metrics" else "{}"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_args):  # pylint: disable=arguments-differ
        pass


def entries(flags):
    """(prompt, input tokens, output tokens, arrival or None, conversation, turn) of each request."""
    if flags.trace:
        with open(flags.trace, newline="", encoding="utf-8") as file:
            for i, row in enumerate(csv.DictReader(file)):
                arrival = row.get("arrival_s")
                yield (f"prompt {i}", int(row["input_tokens"]), int(row["output_tokens"]),
                       None if arrival is None else float(arrival), i, 0)
    elif flags.dataset:
        for i, line in enumerate(open(flags.dataset, encoding="utf-8")):  # pylint: disable=consider-using-with
            asked = json.loads(line)
            yield asked.get("prompt"), 5, asked["max_tokens"], asked.get("arrival_s"), i, 0
    else:
        for i, line in enumerate(open(flags.conversations, encoding="utf-8")):  # pylint: disable=consider-using-with
            chat = json.loads(line)
            for turn in range(chat.get("first_turn", 0), len(chat["turns"])):
                yield chat["turns"][turn]["user"], 10 * (turn + 1), chat["turns"][turn]["max_tokens"], None, i, turn


def bench_serve(words):
    parser = argparse.ArgumentParser()
    for name in ("records", "trace", "dataset", "conversations"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--num-prompts", type=int)
    parser.add_argument("--duration", type=float, default=0)
    parser.add_argument("--users", type=int, default=1)
    flags, _ = parser.parse_known_args(words)
    stopped = []
    signal.signal(signal.SIGUSR1, lambda *_: stopped.append(True))
    begin = time.monotonic()
    # An endless background: until it is told to stop, or for its duration.
    endless = flags.num_prompts >= 10_000
    while endless and not stopped and not flags.duration:
        time.sleep(0.01)
    wall = flags.duration or time.monotonic() - begin
    lines = []
    for seq, (prompt, inputs, outputs, arrival, conversation, turn) in enumerate(
            itertools.islice(entries(flags), 40 if endless else None)):
        due = arrival if arrival is not None else (wall * seq / 40 if endless else 0.1 * (seq // flags.users))
        lines.append({"run": 1, "seq": seq, "conversation": conversation, "turn": turn, "status": 200, "due": due,
                      "ttft": 0.02, "gaps": [0.01] * (outputs - 1), "latency": 0.02 + 0.01 * (outputs - 1),
                      "input_tokens": inputs, "output_tokens": outputs, "cached_tokens": 0, "batch": seq,
                      "batch_size": 1, "prompt": prompt, "output": f"answer to {prompt}"})
    wall = max(wall, max(line["due"] + line["latency"] for line in lines))
    with open(flags.records, "w", encoding="utf-8") as file:
        run = {"run": 1, "begin": begin, "wall_s": wall, "cpu_s": 0.01, "interrupted": False}
        file.writelines(json.dumps(line) + "\n" for line in [run, *lines])


def replay(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--records")
    parser.add_argument("--step-ms", type=float, default=1)
    parser.add_argument("--max-num-seqs", type=int, default=1)
    flags, _ = parser.parse_known_args(words)
    with open(flags.records, "w", encoding="utf-8") as out:
        for seq, line in enumerate(pathlib.Path(flags.file).read_text(encoding="utf-8").splitlines()):
            asked = json.loads(line)
            end = (seq // flags.max_num_seqs + 1) * flags.step_ms / 1000
            out.write(json.dumps({"seq": seq, "due": asked["arrival"], "latency": end, "ttft": end, "gaps": [],
                                  "input_tokens": asked["input_tokens"],
                                  "output_tokens": asked["output_tokens"]}) + "\n")


def main():
    words = sys.argv[1:]
    if words[:1] == ["--version"]:
        print("ropeway 0.0 (a fake)")
    elif words[0] == "serve":
        port = int(words[words.index("--port") + 1])
        http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
    elif words[:2] == ["bench", "serve"]:
        bench_serve(words[2:])
    elif words[0] == "inspect":
        print("  blk.0.attn_k.weight  Q4_1     [64, 32]          1280")
    else:
        replay(words[1:])


if __name__ == "__main__":
    main()
