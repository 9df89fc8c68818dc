#!/usr/bin/env python3
"""OpenVINO GenAI's counterpart of `ropeway-bench determinism`: prints the same JSON lines.

ContinuousBatchingPipeline reads the same GGUF file. As in Ropeway's run the prompt is asked amid
random prompts of random lengths, parameters and lifetimes, which arrive at random steps; each round
has a pipeline of its own with other threads, tokens per step, sequences and KV blocks.

usage: determinism_openvino.py --model FILE.gguf --prompt TEXT [--asks N] [--seconds N]
"""
import argparse
import collections
import json
import random
import sys
import time

import numpy
import openvino
import openvino_genai

MAX_COMPANY_PROMPT = 128
MAX_COMPANY_TOKENS = 96
BLOCK_TOKENS = 32  # OpenVINO's on CPUs.


def draw_settings(number, longest, rng):
    """As DrawSettings of bench/determinism.cc."""
    blocks = -(-longest // BLOCK_TOKENS)
    tokens = round(16 * 32 ** rng.random())
    sequences = min(rng.randint(6, 32), tokens)
    return {"threads": 2 if number % 2 == 0 else 1, "max_num_batched_tokens": tokens,
            "max_num_seqs": sequences,
            "num_kv_blocks": blocks * (rng.randint(2, 3) if number % 4 != 3 else sequences)}


def ask_config(output_tokens):
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = output_tokens
    config.ignore_eos = True
    config.do_sample = False
    config.logprobs = 1
    config.apply_chat_template = False
    return config


def company_config(rng):
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = rng.randint(1, MAX_COMPANY_TOKENS)
    config.ignore_eos = rng.random() < 0.5
    config.do_sample = rng.random() < 0.6
    if config.do_sample:
        config.temperature = rng.randint(1, 20) / 10
        config.top_p = rng.randint(1, 10) / 10
    config.rng_seed = rng.getrandbits(31)
    config.apply_chat_template = False
    return config


class Round:
    """One pipeline and its crowd."""

    def __init__(self, args, settings, rng):
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.max_num_batched_tokens = settings["max_num_batched_tokens"]
        scheduler.max_num_seqs = settings["max_num_seqs"]
        scheduler.num_kv_blocks = settings["num_kv_blocks"]
        scheduler.enable_prefix_caching = False
        scheduler.dynamic_split_fuse = True
        self.args, self.settings, self.rng = args, settings, rng
        self.pipeline = openvino_genai.ContinuousBatchingPipeline(
            args.model, scheduler, "CPU", {"INFERENCE_NUM_THREADS": settings["threads"]})
        self.prompt = self.pipeline.get_tokenizer().encode(args.prompt).input_ids
        self.asks, self.company = {}, {}  # {id: handle}, {id: (handle, step in which it leaves)}
        self.next_id = 0
        self.counts = {"company": 0, "left": 0, "steps": 0, "full_steps": 0}

    def add_ask(self):
        self.asks[self.next_id] = self.pipeline.add_request(self.next_id, self.prompt,
                                                            ask_config(self.args.output_tokens))
        self.next_id += 1

    def add_company(self):
        ids = [[self.rng.randint(1000, 29999)
                for _ in range(self.rng.randint(1, MAX_COMPANY_PROMPT))]]
        handle = self.pipeline.add_request(
            self.next_id, openvino.Tensor(numpy.array(ids, dtype=numpy.int64)),
            company_config(self.rng))
        leaves = self.counts["steps"] + self.rng.randint(1, 60) if self.rng.random() < 0.25 else None
        self.company[self.next_id] = (handle, leaves)
        self.next_id += 1
        self.counts["company"] += 1

    def collect(self, answers):
        """Takes the answers that are complete; True for each request that ended."""
        running = openvino_genai.GenerationStatus.RUNNING
        for number, handle in list(self.asks.items()):
            if handle.get_status() == running:
                continue
            output = handle.read_all()[0]
            answers.append((tuple(output.generated_ids), tuple(output.generated_log_probs)))
            del self.asks[number]
        for number, (handle, leaves) in list(self.company.items()):
            if leaves is not None and self.counts["steps"] >= leaves:
                handle.cancel()
                self.counts["left"] += 1
                del self.company[number]
            elif handle.get_status() != running:
                del self.company[number]

    def run(self, asks, until, answers):
        """Asks so often, or as often as fits."""
        started, target = 0, 0
        while (started < asks and time.monotonic() < until) or self.asks:
            if self.counts["steps"] % 24 == 0:
                target = self.rng.randint(1, self.settings["max_num_seqs"] + 6)
            while (len(self.asks) + len(self.company) < target and started < asks
                   and time.monotonic() < until):
                if self.rng.random() < 0.5:
                    self.add_ask()
                    started += 1
                else:
                    self.add_company()
                if self.rng.random() < 0.3:
                    break
            if self.pipeline.has_non_finished_requests():
                self.pipeline.step()
            self.counts["steps"] += 1
            self.counts["full_steps"] += self.pipeline.get_metrics().cache_usage > 95
            self.collect(answers)
        for handle, _ in self.company.values():
            handle.cancel()
        while self.pipeline.has_non_finished_requests():
            self.pipeline.step()
        return started


def main():
    if "--version" in sys.argv:
        print(f"OpenVINO GenAI {openvino_genai.__version__}, OpenVINO {openvino.get_version()}")
        return 0
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--asks", type=int, default=1000)
    parser.add_argument("--output-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=150, help="no further ask after that")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    answers, rounds, done = [], [], 0
    for number in range(args.rounds):
        longest = MAX_COMPANY_PROMPT + MAX_COMPANY_TOKENS
        part = Round(args, draw_settings(number, longest, rng), rng)
        goal = args.asks * (number + 1) // args.rounds
        done += part.run(goal - done, time.monotonic() + args.seconds / args.rounds, answers)
        rounds.append({**part.settings, **part.counts, "asks": len(answers) - sum(r["asks"] for r in rounds),
                       "distinct": len(set(answers))})
        done = goal if len(answers) >= goal else len(answers)
        print(json.dumps({"round": rounds[-1]}), flush=True)
    for (ids, logprobs), count in collections.Counter(answers).items():
        print(json.dumps({"output": {"count": count, "tokens": ids, "logprobs": logprobs}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
