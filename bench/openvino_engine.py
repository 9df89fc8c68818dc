#!/usr/bin/env python3
"""How fast OpenVINO GenAI's engine is: the counterpart of engine_bench.cc, with the same flags and the
same lines of CSV. It reads the same GGUF file; LLMPipeline with a scheduler_config is its continuous
batching. Prompts are token ids, greedy, end tokens ignored.

usage: openvino_engine.py --model FILE.gguf [--threads N] [--sequences N...]
"""
import argparse
import resource
import statistics
import sys
import time

import numpy
import openvino
import openvino_genai

# What was fastest here: both threads pinned, one stream, a step that takes any of our batches.
PROPERTIES = {"PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": True}
MAX_NUM_BATCHED_TOKENS = 512


class Bench:
    """A loaded model."""

    def __init__(self, args):
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.max_num_batched_tokens = MAX_NUM_BATCHED_TOKENS
        scheduler.max_num_seqs = 64
        scheduler.cache_size = 1  # GB.
        scheduler.enable_prefix_caching = False
        self.args = args
        self.random = numpy.random.default_rng(args.seed)
        self.pipeline = openvino_genai.LLMPipeline(
            args.model, "CPU", scheduler_config=scheduler, INFERENCE_NUM_THREADS=args.threads,
            **PROPERTIES)

    def once(self, sequences, output_tokens):
        """(seconds, input tokens, output tokens) of one generate()."""
        shape = (sequences, self.args.input_tokens)
        ids = self.random.integers(min(1000, self.args.last_token_id), self.args.last_token_id + 1,
                                   shape, dtype=numpy.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids),
                                                openvino.Tensor(numpy.ones_like(ids)))
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = output_tokens
        config.ignore_eos = True
        config.do_sample = False
        begin = time.perf_counter()
        result = self.pipeline.generate(inputs, config)
        seconds = time.perf_counter() - begin
        lengths = [len(answer) for answer in result.tokens]
        if lengths != [output_tokens] * sequences:
            raise RuntimeError(f"asked {sequences} x {output_tokens} tokens, got {lengths}")
        return seconds, ids.size, sum(lengths)

    def measure(self, sequences, output_tokens):
        """The run of median time, of so many as fit; at least one."""
        runs = [self.once(sequences, output_tokens)]
        while len(runs) < self.args.runs and sum(r[0] for r in runs) < self.args.seconds:
            runs.append(self.once(sequences, output_tokens))
        middle = statistics.median_high(r[0] for r in runs)
        return next(r for r in runs if r[0] == middle)


def main():
    if "--version" in sys.argv:
        print(f"OpenVINO GenAI {openvino_genai.__version__}, OpenVINO {openvino.get_version()}")
        return 0
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--input-tokens", type=int, default=128)
    parser.add_argument("--output-tokens", type=int, default=64)
    parser.add_argument("--sequences", type=lambda text: [int(word) for word in text.split(",")],
                        default=[1, 8, 16, 32])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--warm-up", type=int, default=8, help="sequences of the run before the first measured one")
    parser.add_argument("--first-tokens-of", type=int, default=64,
                        help="the most sequences of which answers of one token are timed as well")
    parser.add_argument("--last-token-id", type=int, default=31999)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    bench = Bench(args)
    bench.measure(1, 8)
    bench.measure(args.warm_up, 4)
    print("part,system,round,x,metric,value")
    for sequences in args.sequences:
        found = {}
        if sequences <= args.first_tokens_of:
            found["one_token_s"] = bench.measure(sequences, 1)[0]
        found["all_tokens_s"], found["input_tokens"], found["output_tokens"] = bench.measure(sequences,
                                                                                             args.output_tokens)
        found["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        for metric, value in found.items():
            print(f"engine,OpenVINO GenAI,1,{sequences},{metric},{value:.9g}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
