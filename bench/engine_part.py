"""The comparison of engines alone, without HTTP: ropeway (`ropeway-bench engine`, the public C++ API with
the real scheduler and sampler), OpenVINO GenAI (bench/openvino_engine.py) and llama.cpp
(llama-batched-bench, which samples nothing).

A piece is one system in one round: 1, 8, 16 and 32 sequences of 128 tokens in and 64 out.
"""
import json
import pathlib
import subprocess
import sys

import machine
from ropeway_bench import metrics

INPUT_TOKENS = 128
OUTPUT_TOKENS = 64
SEQUENCES = (1, 8, 16, 32)


def systems(args):
    """{name: (model file, command line)}."""
    shape = ["--threads", str(args.threads), "--input-tokens", str(INPUT_TOKENS),
             "--output-tokens", str(OUTPUT_TOKENS), "--sequences", ",".join(map(str, SEQUENCES))]
    found = {}
    if args.engine_bench:
        found["ropeway"] = (args.model, [args.engine_bench, "engine", "--model", args.model, *shape])
    if args.openvino:
        script = str(pathlib.Path(__file__).with_name("openvino_engine.py"))
        found["OpenVINO GenAI"] = (args.model, [sys.executable, script, "--model", args.model, *shape])
    if args.llama_batched_bench:
        for suffix, model in (("", args.model), (" Q4_0", args.q4_0_model)):
            if not model:
                continue
            # One sequence three times: a single run of it is short.
            counts = ",".join(map(str, (SEQUENCES[0], SEQUENCES[0], *SEQUENCES)))
            found[f"llama.cpp{suffix}"] = (model, [
                args.llama_batched_bench, "-m", model, "-t", str(args.threads), "-c", "8192", "-b",
                "2048", "-ub", "512", "-npp", str(INPUT_TOKENS), "-ntg", str(OUTPUT_TOKENS),
                "-npl", counts, "--output-format", "jsonl"])
    return found


def row_of(sequences, input_tokens, output_tokens, prefill_s, decode_s, decoded):
    """A row. `decoded`: tokens generated in decode_s."""
    return {"sequences": sequences, "input_tokens": input_tokens, "output_tokens": output_tokens,
            "prefill_s": prefill_s, "decode_s": decode_s, "prefill_tok_s": input_tokens / prefill_s,
            "decode_tok_s": decoded / decode_s}


def parse_own(text):
    """Rows of what `ropeway-bench engine` and openvino_engine.py print. They time answers of one token and of
    all: the first is the prefill, the difference the decoding of the other tokens."""
    rows = []
    for _, _, of, values in metrics.cells(text[text.find("part,system,"):]):
        sequences, output = int(of["x"]), round(float(values["output_tokens"]))
        one, all_tokens = float(values["one_token_s"]), float(values["all_tokens_s"])
        rows.append(row_of(sequences, round(float(values["input_tokens"])), output, one, all_tokens - one,
                            output - sequences))
    return rows


def parse_llama(text):
    """Rows of llama-batched-bench's JSON lines. Of several with the same number of sequences the one
    of median decode time counts."""
    runs = {}
    for line in text.splitlines():
        if line.startswith("{"):
            run = json.loads(line)
            runs.setdefault(run["pl"], []).append(run)
    rows = []
    for sequences, same in runs.items():
        run = sorted(same, key=lambda r: r["t_tg"])[len(same) // 2]
        prefill = sorted(r["t_pp"] for r in same)[len(same) // 2]
        rows.append(row_of(sequences, sequences * run["pp"], sequences * run["tg"], prefill,
                            run["t_tg"], sequences * run["tg"]))
    return rows


def run(args, command, round_number):
    """The piece's rows, one per number of sequences."""
    barrier = machine.barrier_ns(args.step_bench, args.threads)
    own = ["--seed", str(round_number)] if "batched-bench" not in command[0] else []
    reply = subprocess.run(command + own, capture_output=True, text=True, check=False)
    rows = (parse_own if own else parse_llama)(reply.stdout)
    if reply.returncode != 0 or len(rows) != len(SEQUENCES):
        raise RuntimeError(f"{' '.join(command)}:\n{reply.stdout}{reply.stderr}")
    return [{"barrier_ns": barrier, **row} for row in rows]


def line(row):
    """A row in one line, to show progress."""
    return (f"sequences {row['sequences']:2}: prefill {row['prefill_tok_s']:7.1f} tok/s, decode "
            f"{row['decode_tok_s']:7.1f} tok/s, in {row['input_tokens']} out {row['output_tokens']}")
