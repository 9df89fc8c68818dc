"""The comparison over HTTP: `ropeway serve` and llama-server under `ropeway bench serve`.

A piece is one system in one round: it is started anew, warmed up, and driven by a closed loop of
many users and then of one; random prompts, streamed, greedy, end tokens ignored.
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile

import machine
from ropeway_bench import servers

PORT = 8397
# Threads of `ropeway serve` that do HTTP, tokenizing and detokenizing.
SERVICE_THREADS = re.compile(r"ropeway-(io|prompt|output)$")


def systems(args):
    """{name: (model file, command line)}."""
    threads = str(args.threads)
    found = {"ropeway": (args.model, [args.ropeway, "serve", "--model", args.model, "--threads",
                                      threads, "--port", str(PORT)])}
    if args.llama_server:
        models = {"": args.model} | ({" Q4_0": args.q4_0_model} if args.q4_0_model else {})
        for suffix, model in models.items():
            llama = llama_command(args.llama_server, model, threads)
            found[f"llama-server{suffix}"] = (model, llama)
            found[f"llama-server{suffix} -kvu"] = (model, llama + ["-kvu"])
    return found


def llama_command(program, model, threads):
    """llama-server with 16 slots of 1,024 tokens."""
    return [program, "-m", model, "-np", "16", "-c", "16384", "-t", threads, "--port", str(PORT)]


def load_command(args, users, requests, seed):
    return [args.ropeway, "bench", "serve", "--base-url", f"http://127.0.0.1:{PORT}", "--users",
            str(users), "--num-prompts", str(requests), "--input-tokens", "90",
            "--output-tokens", "64", "--seed", str(seed), "--no-progress"]


def load(args, users, requests, seed):
    """The summary of one run, as `bench serve --json` has it."""
    with tempfile.NamedTemporaryFile(suffix=".json") as summary:
        command = load_command(args, users, requests, seed) + ["--json", summary.name]
        reply = subprocess.run(command, capture_output=True, text=True, check=False)
        found = json.load(summary) if reply.returncode == 0 else None
    if found is None or found["all"]["failed"]:
        raise RuntimeError(f"{' '.join(command)}:\n{reply.stdout}{reply.stderr}")
    if found["all"]["requests_with_estimated_tokens"]:
        raise RuntimeError(f"the server does not count tokens:\n{reply.stdout}")
    return found["all"]


def thread_seconds(pid):
    """CPU seconds so far of the process's threads whose names match SERVICE_THREADS; None where no
    name does. Nanoseconds where the kernel counts them (schedstat), else its clock ticks."""
    total = None
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            if not SERVICE_THREADS.match((task / "comm").read_text(encoding="utf-8").strip()):
                continue
            if (task / "schedstat").exists():
                seconds = int((task / "schedstat").read_text(encoding="utf-8").split()[0]) * 1e-9
            else:
                # utime and stime; the name before them may hold spaces, but ends with ')'.
                fields = (task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except FileNotFoundError:  # It ended just now.
            continue
        total = (total or 0) + seconds
    return total


def service_share(before, after, output_tokens):
    """The service threads' share of the machine, as it were at 1,000 streamed tokens/s."""
    if before is None or after is None:
        return None
    return (after - before) / output_tokens * 1000 / os.cpu_count()


def measure(args, server, users, requests, seed):
    """The metrics of one row."""
    before = thread_seconds(server.process.pid)
    f = load(args, users, requests, seed)
    row = {"requests": f["succeeded"], "duration_s": f["duration_s"],
           "input_tokens": f["input_tokens"], "output_tokens": f["output_tokens"],
           "requests_per_s": f["requests_per_s"], "output_tok_s": f["output_tokens_per_s"]}
    for metric in ("ttft", "itl", "tpot", "e2e"):
        for of in ("mean", "p50", "p90", "p99"):
            row[f"{metric}_{of}_s"] = f[f"{metric}_s"][of]
    share = service_share(before, thread_seconds(server.process.pid), f["output_tokens"])
    row["service_share_at_1000_tok_s"] = "" if share is None else share
    row["generator_cpu_share"] = f["generator_cpu_share"]
    row["peak_rss_mb"] = server.peak_rss_mb()
    return row


def run(args, command, round_number):
    """The piece's rows, one per number of users."""
    rows = []
    with servers.Server(command, PORT) as server:
        load(args, 2, 4, seed=900 + round_number)
        for users in args.users:
            requests = args.requests if users > 1 else max(6, args.requests // 8)
            barrier = machine.barrier_ns(args.step_bench, args.threads)
            seed = round_number * 10 + users
            rows.append({"users": users, "barrier_ns": barrier,
                         "load": servers.command_text(load_command(args, users, requests, seed)),
                         **measure(args, server, users, requests, seed)})
    return rows


def line(row):
    """A row in one line, to show progress."""
    return (f"users {row['users']:2}: {row['output_tok_s']:7.1f} tok/s, TTFT p50 "
            f"{row['ttft_p50_s']:.3f} s, in {row['input_tokens']} out {row['output_tokens']}, "
            f"generator {100 * row['generator_cpu_share']:.2f} % of the CPUs")
