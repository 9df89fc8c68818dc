"""Engines alone, without HTTP: ropeway (`ropeway-bench engine`, the public C++ API with the real scheduler and sampler),
OpenVINO GenAI (bench/openvino_engine.py) and llama.cpp (llama-batched-bench, which samples nothing).

A piece answers 1, 8, 16 and 32 prompts of 128 tokens with 64 each. Run it on a machine that should do nothing else.
"""
import functools
import json
import sys

from ropeway_bench import BenchError, metrics as rows, peers
from ropeway_bench.metrics import ABOUT, Where
from ropeway_bench.peers import Target
from ropeway_bench.report import Column
from ropeway_bench.servers import command_text, version_of
from ropeway_bench.suite import ROOT, output_of, program

TITLE = "Engines alone"
PART = "engine"
PANELS = 2
INPUT_TOKENS, OUTPUT_TOKENS = 128, 64
SEQUENCES = (1, 8, 16, 32)
OPENVINO = "OpenVINO GenAI"
PREFILL, DECODE = "prefill_tok_per_s", "decode_tok_per_s"

TARGETS = (Target("prefill of one prompt over OpenVINO GenAI's", 1, PREFILL, (OPENVINO,), 1.35, halved=True),
           Target("decode of 8 sequences over OpenVINO GenAI's", 8, DECODE, (OPENVINO,), 2.4, halved=True),
           Target("decode of 16 sequences over OpenVINO GenAI's", 16, DECODE, (OPENVINO,), 2.4, halved=True),
           Target("decode of 32 sequences over OpenVINO GenAI's", 32, DECODE, (OPENVINO,), 2.1, halved=True),
           Target("decode of 1 sequence over llama.cpp's, same file", 1, DECODE, ("llama.cpp",), 2.5))

COLUMNS = [Column("prefill tok/s", PREFILL), Column("decode tok/s", DECODE), Column("prefill s", "prefill_s", 1, 3),
           Column("decode s", "decode_s", 1, 3), Column("tokens in", "input_tokens"),
           Column("tokens out", "output_tokens"), peers.BARRIER]

COMPARISON = peers.Comparison(PART, "sequences", COLUMNS, TARGETS,
                              {PREFILL: "prefill tokens/s", DECODE: "decode tokens/s"})
verdicts, embeds = COMPARISON.verdicts, COMPARISON.embeds
report_text, draw = COMPARISON.report_text, COMPARISON.draw

add_flags = peers.add_flags
make_quick = peers.make_quick


def prepare(suite):
    peers.prepare(suite)
    if suite.args.openvino:
        suite.metrics.add(Where(ABOUT), version=version_of(*openvino_command()))


def openvino_command():
    return [sys.executable, str(ROOT / "bench" / "openvino_engine.py")]


def measure(suite):
    args = suite.args
    shape = ["--model", suite.model, "--threads", suite.threads, "--input-tokens", INPUT_TOKENS, "--output-tokens",
             OUTPUT_TOKENS, "--sequences", ",".join(map(str, SEQUENCES))]
    own = functools.partial(measure_piece, suite, parse_own)
    pieces = {peers.OURS: functools.partial(own, [program("ropeway-bench", args.ropeway_bench), PART, *shape])}
    if args.openvino:
        pieces[OPENVINO] = functools.partial(own, [*openvino_command(), *shape])
    models = {"": suite.model} | ({" Q4_0": args.q4_0_model} if args.q4_0_model else {})
    for suffix, model in models.items() if args.llama_batched_bench else ():
        # One sequence three times: a single run of it is short.
        sequences = ",".join(map(str, (SEQUENCES[0], SEQUENCES[0], *SEQUENCES)))
        pieces[f"llama.cpp{suffix}"] = functools.partial(measure_piece, suite, parse_llama, [
            args.llama_batched_bench, "-m", model, "-t", suite.threads, "-c", 8192, "-b", 2048, "-ub", 512, "-npp",
            INPUT_TOKENS, "-ntg", OUTPUT_TOKENS, "-npl", sequences, "--output-format", "jsonl"])
    peers.measure(suite, PART, pieces)


def measure_piece(suite, parse, command, where):
    barrier = peers.barrier_ns(suite)
    own = ["--seed", where.round] if parse is parse_own else []
    found = parse(output_of(*command, *own))
    if sorted(found) != sorted(SEQUENCES):
        raise BenchError(f"{command_text(command)}: expected results for {SEQUENCES} sequences, not {sorted(found)}")
    for sequences, values in found.items():
        suite.metrics.add(where.at(sequences), barrier_ns=barrier, **values)
    suite.metrics.add(where, command=command_text(command))


def values_of(input_tokens, output_tokens, prefill_s, decode_s, decoded):
    """`decoded`: tokens generated in decode_s."""
    return {"input_tokens": input_tokens, "output_tokens": output_tokens, "prefill_s": prefill_s, "decode_s": decode_s,
            PREFILL: input_tokens / prefill_s, DECODE: decoded / decode_s}


def parse_own(text):
    """{sequences: values} of what `ropeway-bench engine` and openvino_engine.py print. They time answers of one token and
    of all: the first is the prefill, the difference the decoding of the other tokens."""
    found = {}
    for _, _, of, cell in rows.cells(text[text.find("part,system,"):]):
        sequences, output = int(of["x"]), round(float(cell["output_tokens"]))
        one, all_tokens = float(cell["one_token_s"]), float(cell["all_tokens_s"])
        found[sequences] = values_of(round(float(cell["input_tokens"])), output, one, all_tokens - one,
                                     output - sequences)
    return found


def parse_llama(text):
    """{sequences: values} of llama-batched-bench's JSON lines. Of several with the same number of sequences the one of
    median decode time counts."""
    runs = {}
    for line in text.splitlines():
        if line.startswith("{"):
            run = json.loads(line)
            runs.setdefault(run["pl"], []).append(run)
    found = {}
    for sequences, same in runs.items():
        run = sorted(same, key=lambda r: r["t_tg"])[len(same) // 2]
        prefill = sorted(r["t_pp"] for r in same)[len(same) // 2]
        found[sequences] = values_of(sequences * run["pp"], sequences * run["tg"], prefill, run["t_tg"],
                                     sequences * run["tg"])
    return found
