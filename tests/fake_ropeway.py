#!/usr/bin/env python3
"""Stands for the programs `ropeway` and `ropeway-bench` in tests of the benchmarks' orchestration: `serve` answers
/health and /metrics, `bench serve` writes records without sending anything, `replay` likewise; `engine`, `steps`, and
llama-batched-bench's flags print rows. Times are invented. Tests also call its functions in their own process."""
import argparse
import csv
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


def metrics_page():
    return METRICS.format(time.monotonic())


def serve(port):
    import http.server  # pylint: disable=import-outside-toplevel

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # pylint: disable=invalid-name
            self.send_response(200)
            self.end_headers()
            self.wfile.write((metrics_page() if self.path == "/metrics" else "{}").encode())

        def log_message(self, *_args):  # pylint: disable=arguments-differ
            pass

    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def entries(flags):
    """(prompt, input tokens, output tokens, arrival or None, conversation, turn) of each request."""
    if flags.trace:
        with open(flags.trace, newline="", encoding="utf-8") as file:
            for i, row in enumerate(csv.DictReader(file)):
                arrival = row.get("arrival_s")
                yield (f"prompt {i}", int(row["input_tokens"]), int(row["output_tokens"]),
                       None if arrival is None else float(arrival), i, 0)
    elif flags.dataset:
        for i, line in enumerate(pathlib.Path(flags.dataset).read_text(encoding="utf-8").splitlines()):
            asked = json.loads(line)
            yield asked.get("prompt"), 5, asked["max_tokens"], asked.get("arrival_s"), i, 0
    else:
        for i, line in enumerate(pathlib.Path(flags.conversations).read_text(encoding="utf-8").splitlines()):
            chat = json.loads(line)
            for turn in range(chat.get("first_turn", 0), len(chat["turns"])):
                yield chat["turns"][turn]["user"], 10 * (turn + 1), chat["turns"][turn]["max_tokens"], None, i, turn


def bench_serve(words, begin=None, end=None):
    """Since `begin`. An endless load ends at `end`, or when SIGUSR1 comes, or after its duration."""
    parser = argparse.ArgumentParser()
    for name in ("records", "trace", "dataset", "conversations"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--num-prompts", type=int)
    parser.add_argument("--duration", type=float, default=0)
    parser.add_argument("--users", type=int, default=1)
    flags, _ = parser.parse_known_args(words)
    stopped = []
    endless = flags.num_prompts >= 10_000
    if begin is None:
        begin = time.monotonic()
        signal.signal(signal.SIGUSR1, lambda *_: stopped.append(True))
        while endless and not stopped and not flags.duration:
            time.sleep(0.01)
    wall = flags.duration or (end or time.monotonic()) - begin
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


def engine(words):
    print("part,system,round,x,metric,value")
    for n in map(int, words[words.index("--sequences") + 1].split(",")):
        for metric, value in (("input_tokens", 128 * n), ("output_tokens", 64 * n), ("one_token_s", 0.1),
                              ("all_tokens_s", 1.1)):
            print(f"engine,fake,1,{n},{metric},{value}")


def steps(words):
    if "--barrier" in words:
        print("67")
        return
    print("part,system,round,x,metric,value\nabout,avx2,1,,barrier_ns,67")
    for shape, counts, contexts in (("sequences", (1, 2, 4), (255,)), ("context1", (1,), (127, 255)),
                                    ("context8", (8,), (127, 255))):
        for n, context in itertools.product(counts, contexts):
            for metric in ("median_ms", "best_ms"):
                print(f"steps,avx2,1,shape={shape}; sequences={n}; tokens=1; context={context},{metric},{n + context / 100}")


def llama_batched_bench(words):
    for n in map(int, words[words.index("-npl") + 1].split(",")):
        print(json.dumps({"pp": 128, "tg": 64, "pl": n, "t_pp": 0.5 * n, "t_tg": 1.0}))


def main(words):
    if words[:1] == ["--version"]:
        print("ropeway 0.0 (a fake)")
    elif words[0] == "serve":
        serve(int(words[words.index("--port") + 1]))
    elif words[:2] == ["bench", "serve"]:
        bench_serve(words[2:])
    elif words[0] == "inspect":
        print("  blk.0.attn_k.weight  Q4_1     [64, 32]          1280")
    elif words[0] == "-m":
        llama_batched_bench(words)
    else:
        {"engine": engine, "steps": steps, "replay": replay}[words[0]](words[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
